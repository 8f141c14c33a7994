//! What directories of data had at moments of a run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use cluster::{ClusterFile, Listed, ListedKind, Reading};
use datalog::{Database, Program, Value};
use serde::{Deserialize, Serialize};
use specification::rows::{self, BEGINS, LINES_OF_MAX};
use specification::{About, Specification};

use super::logs::doing;
use crate::error::{Error, Result};
use crate::online::looks::Look;

/// The moments at which somebody looked.
pub(super) const LOOKED: &str = "looked_at";
const ENTRY: &str = "entry_at";
const CONTENT: &str = "content_at";
const LINE: &str = "line_at";

/// Who asks for one of these asks for looks.
const RELATIONS: [&str; 4] = [LOOKED, ENTRY, CONTENT, LINE];

/// Those of what is in files.
const OF_FILES: [&str; 2] = [CONTENT, LINE];

/// So many bytes of files are read in one look at most.
const READ_MAX: u64 = 16 << 20;

/// A look, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptLook {
    node: String,
    after: String,
    /// From the start of the clients on, in nanoseconds.
    time: u64,
    /// Why nobody knows what was there, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<KeptEntry>,
}

/// What lay in a directory, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptEntry {
    path: String,
    kind: String,
    size: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    target: String,
    /// What a file had, if it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<KeptContent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptContent {
    hash: String,
    begins: String,
    /// All of it, as texts are in facts.
    text: String,
}

/// Which files are read in runs that are held against specifications, if directories are looked at: somebody
/// has to ask for that.
pub fn wanted_reading(specifications: &[Specification]) -> Option<Reading> {
    let programs = specifications.iter();
    let programs: Vec<_> = programs
        .filter_map(|one| one.program(&one.name, About::Run).ok())
        .collect();
    let one_asks = |relations: &[&str]| programs.iter().any(|program| asks(program, relations));
    let reading = if one_asks(&OF_FILES) {
        Reading {
            file_max: LINES_OF_MAX,
            all_max: READ_MAX,
        }
    } else {
        Reading::NOTHING
    };
    one_asks(&RELATIONS).then_some(reading)
}

fn asks(program: &Program, relations: &[&str]) -> bool {
    let mut relations = relations.iter();
    relations.any(|relation| program.mentions(relation))
}

/// Whether rules ask for what directories had.
pub(super) fn are_asked_for(program: &Program) -> bool {
    asks(program, &RELATIONS)
}

/// Keeps what was seen in a run whose clients were started at a time.
///
/// # Errors
/// If it cannot be written.
pub(in crate::online) fn write_looks(
    path: &Path,
    file: &ClusterFile,
    (looks, begun): (Vec<Look>, Duration),
) -> Result<()> {
    let write = || {
        let mut to = BufWriter::new(File::create(path)?);
        for look in &looks {
            serde_json::to_writer(&mut to, &KeptLook::of(look, file, begun))?;
            to.write_all(b"\n")?;
        }
        to.flush()
    };
    write().map_err(doing("write", path))
}

impl KeptLook {
    fn of(look: &Look, file: &ClusterFile, begun: Duration) -> Self {
        let (failed, entries) = match &look.data {
            Ok(listed) => (None, listed.iter().map(KeptEntry::of).collect()),
            Err(why) => (Some(why.clone()), Vec::new()),
        };
        Self {
            node: file.nodes[look.node].name.clone(),
            after: look.after.word().into(),
            time: look.at.saturating_sub(begun).as_nanos() as u64,
            failed,
            entries,
        }
    }

    /// Why rules cannot be told of it what they ask for, if that is so.
    fn unknown(&self, program: &Program) -> Option<String> {
        let node = &self.node;
        if let Some(why) = &self.failed {
            let seconds = self.time as f64 / 1e9;
            return Some(format!(
                "the directory of {node} could not be looked at after {seconds:.3} s: {why}"
            ));
        }
        let may_ask = |entry: &&KeptEntry| {
            let path = Value::from(entry.path.as_str());
            let mut relations = OF_FILES.iter();
            relations.any(|relation| program.may_ask(relation, "path", &path))
        };
        let mut unread = self.entries.iter().filter(|entry| entry.is_unread());
        let entry = unread.find(may_ask)?;
        let (path, size) = (&entry.path, entry.size);
        Some(format!(
            "rules may ask for what is in {path} of {node}, whose {size} bytes were not read in this run: it has more \
             than {LINES_OF_MAX}, or those of a look have more than {READ_MAX}, or no specification of the campaign \
             has asked for any; name the files that are meant, as in line_at(path: P), P !~ \"[.]log$\""
        ))
    }

    /// Its rows, as the look with a number.
    fn rows(&self, number: i64) -> Vec<rows::Fact> {
        let time = Value::Integer(i64::try_from(self.time).unwrap_or(i64::MAX));
        let around = |row: Vec<Value>| [vec![number.into()], row, vec![time.clone()]].concat();
        let node = self.node.as_str();
        let mut all = vec![(
            LOOKED,
            around(vec![node.into(), self.after.as_str().into()]),
        )];
        for entry in &self.entries {
            all.push((ENTRY, around(entry.row(node))));
            let Some(content) = &entry.content else {
                continue;
            };
            let begins = content.begins.as_bytes();
            let row = rows::content(node, &entry.path, content.hash.clone(), begins);
            all.push((CONTENT, around(row)));
            let lines = rows::lines(node, &entry.path, content.text.as_bytes());
            all.extend(lines.into_iter().map(|row| (LINE, around(row))));
        }
        all
    }
}

impl KeptEntry {
    fn of(listed: &Listed) -> Self {
        let content = listed.bytes.as_ref().map(|bytes| KeptContent {
            hash: blake3::hash(bytes).to_hex().to_string(),
            begins: rows::text(&bytes[..bytes.len().min(BEGINS as usize)]),
            text: rows::text(bytes),
        });
        Self {
            path: listed.path.clone(),
            kind: listed.kind.word().into(),
            size: listed.size,
            target: listed.target.clone(),
            content,
        }
    }

    fn is_unread(&self) -> bool {
        self.kind == ListedKind::File.word() && self.content.is_none()
    }

    fn row(&self, node: &str) -> Vec<Value> {
        let size = i64::try_from(self.size).unwrap_or(i64::MAX);
        vec![
            node.into(),
            self.path.as_str().into(),
            self.kind.as_str().into(),
            size.into(),
            self.target.as_str().into(),
        ]
    }
}

/// The looks of a run.
///
/// # Errors
/// If nobody looked, or what was seen cannot be read.
pub(super) fn read(path: &Path) -> Result<Vec<KeptLook>> {
    let Ok(file) = File::open(path) else {
        return Err(unknown(
            "nobody looked at the directories of data in this run: `crashpoint inject` does if a specification of the \
             campaign asks for that",
        ));
    };
    let lines = BufReader::new(file).lines();
    let looks = lines.map(|line| Ok(serde_json::from_str(&line?)?));
    let looks: std::io::Result<_> = looks.collect();
    looks.map_err(doing("read", path))
}

/// Fails if rules ask for something that is not known.
///
/// # Errors
/// So.
pub(super) fn refuse_unknown(looks: &[KeptLook], program: &Program) -> Result<()> {
    match looks.iter().find_map(|look| look.unknown(program)) {
        Some(why) => Err(unknown(&why)),
        None => Ok(()),
    }
}

fn unknown(why: &str) -> Error {
    Error::System {
        doing: "look at what directories had".into(),
        error: std::io::Error::other(why.to_owned()),
    }
}

/// Puts them into a database.
///
/// # Errors
/// If that cannot be written.
pub(super) fn fill(database: &mut Database, looks: &[KeptLook]) -> Result<()> {
    for (number, look) in (1_i64..).zip(looks) {
        let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (relation, row) in look.rows(number) {
            rows.entry(relation).or_default().push(row);
        }
        for (relation, rows) in rows {
            database.add(relation, rows)?;
        }
    }
    Ok(())
}
