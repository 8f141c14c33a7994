//! What the files of a crash state are, against what they were to be: which bytes are missing,
//! zeros, garbage or others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use brief::counted;
use serde::{Deserialize, Serialize};
use trace::FileId;

use crate::content::{CHUNK, Content, garbage_at};
use crate::tree::{File, Holds, Tree};

/// So many files are told about.
const TOLD_MAX: usize = 8;

/// So many ranges of a file are told about.
const RANGES_MAX: usize = 3;

/// Ranges that are nearer to each other than this are one, in bytes.
const NEAR: u64 = 16;

/// So many bytes are shown as numbers.
const BYTES_SHOWN: u64 = 12;

/// So many are shown of a text.
const LETTERS_SHOWN: u64 = 40;

/// A file of a crash state that is not what it was to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// From the node's directory on.
    pub path: String,
    /// What it is.
    pub words: String,
    /// The bytes at the place, in hexadecimal and as text: what the file has there, and what was
    /// written.
    pub dump: Vec<String>,
}

/// What stands where other bytes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instead {
    /// Nothing: the file ends before.
    Nothing,
    Zeros,
    Garbage,
    Others,
    /// Bytes after where it was to end.
    More,
}

impl Damage {
    pub(crate) fn of(path: &str, words: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            words: words.into(),
            dump: Vec::new(),
        }
    }

    /// As one line.
    pub(crate) fn line(&self) -> String {
        let colon = if self.words.starts_with("byte") {
            ":"
        } else {
            ""
        };
        format!("{}{colon} {}", self.path, self.words)
    }
}

/// What there is to say of so many.
pub(crate) fn first_of(mut all: Vec<Damage>) -> Vec<Damage> {
    all.sort_by(|one, other| one.path.cmp(&other.path));
    let more = all.len().saturating_sub(TOLD_MAX);
    all.truncate(TOLD_MAX);
    all.extend((more > 0).then(|| Damage::of("…", format!("and {}", counted(more, "more file")))));
    all
}

/// Where a tree is not what it was to be.
pub(crate) fn damages(held: &Tree, wanted: &Tree) -> Vec<Damage> {
    let (held_paths, wanted_paths) = (paths(held), paths(wanted));
    let mut all = Vec::new();
    for (path, file) in &wanted_paths {
        let Some(own) = held_paths.get(path) else {
            all.push(Damage::of(path, "is not there"));
            continue;
        };
        let (Some(own), Some(file)) = (held.file(*own), wanted.file(*file)) else {
            continue;
        };
        all.extend(damages_of_file(path, own, file));
    }
    let more = held_paths
        .keys()
        .filter(|path| !wanted_paths.contains_key(*path));
    all.extend(more.map(|path| Damage::of(path, "is there, although that name was removed")));
    first_of(all)
}

/// Where a file is not what it was to be.
fn damages_of_file(path: &str, held: &File, wanted: &File) -> Vec<Damage> {
    let mut all = Vec::new();
    match (&held.holds, &wanted.holds) {
        (Holds::Bytes(own), Holds::Bytes(content)) => all.extend(damage(path, own, content)),
        (Holds::Entries(_), Holds::Entries(_))
        | (Holds::Nothing, Holds::Nothing)
        | (Holds::Pipe, Holds::Pipe) => {}
        (Holds::Target(own), Holds::Target(target)) if own == target => {}
        _ => all.push(Damage::of(path, "is another file")),
    }
    all.extend(other_xattrs(path, held, wanted));
    if held.mode != wanted.mode {
        let (own, mode) = (held.mode & 0o7777, wanted.mode & 0o7777);
        all.push(Damage::of(path, format!("has mode {own:o}, not {mode:o}")));
    }
    all
}

/// The extended attributes that are not what they were to be.
fn other_xattrs(path: &str, held: &File, wanted: &File) -> Vec<Damage> {
    let names: BTreeSet<_> = held.xattrs.keys().chain(wanted.xattrs.keys()).collect();
    let differ = names
        .into_iter()
        .filter(|name| held.xattrs.get(*name) != wanted.xattrs.get(*name));
    let words = |name| {
        let what = match (held.xattrs.get(name), wanted.xattrs.get(name)) {
            (None, _) => "does not have the attribute",
            (_, None) => "still has the attribute",
            _ => "has an older value of the attribute",
        };
        format!("{what} {}", String::from_utf8_lossy(name))
    };
    differ.map(|name| Damage::of(path, words(name))).collect()
}

/// Everything that has a name.
fn paths(tree: &Tree) -> BTreeMap<String, FileId> {
    let mut all = BTreeMap::new();
    let mut left = vec![(FileId::ROOT, String::new())];
    while let Some((id, path)) = left.pop() {
        let Some(Holds::Entries(entries)) = tree.file(id).map(|file| &file.holds) else {
            continue;
        };
        for (name, file) in entries {
            let name = String::from_utf8_lossy(name);
            let path = if path.is_empty() {
                name.into_owned()
            } else {
                format!("{path}/{name}")
            };
            // A directory with two names would have no end.
            if all.insert(path.clone(), *file).is_none() && path.len() < 4096 {
                left.push((*file, path));
            }
        }
    }
    all
}

/// Where the bytes of a file are not what they were to be.
pub(crate) fn damage(path: &str, held: &Content, wanted: &Content) -> Option<Damage> {
    let ranges = ranges(held, wanted);
    let (first, _) = ranges.first()?;
    let words: Vec<_> = ranges
        .iter()
        .take(RANGES_MAX)
        .map(|(range, instead)| words(range, *instead, held))
        .collect();
    let more = ranges.len() - words.len();
    let more = if more > 0 {
        format!(", and {}", counted(more, "more range"))
    } else {
        String::new()
    };
    Some(Damage {
        path: path.into(),
        words: words.join(", ") + &more,
        dump: dump(first, held, wanted),
    })
}

fn words(range: &Range<u64>, instead: Instead, held: &Content) -> String {
    let Range { start, end } = range;
    let is_one = end - start == 1;
    let are = if is_one { "is" } else { "are" };
    let bytes = if is_one {
        format!("byte {start} is")
    } else {
        format!("bytes {start} to {end} are")
    };
    match instead {
        Instead::Nothing if *start == 0 => {
            format!("is empty, {} {are} missing", counted(*end, "byte"))
        }
        Instead::Nothing => format!("{bytes} missing, it has {}", counted(held.size(), "byte")),
        Instead::Zeros if is_one => format!("{bytes} zero"),
        Instead::Zeros => format!("{bytes} zeros"),
        Instead::Garbage => format!("{bytes} garbage that nobody wrote"),
        Instead::Others if is_one => format!("{bytes} another than was written last"),
        Instead::Others => format!("{bytes} others than were written last"),
        Instead::More => format!("{bytes} there, although it was cut at {start}"),
    }
}

/// The ranges that differ.
fn ranges(held: &Content, wanted: &Content) -> Vec<(Range<u64>, Instead)> {
    let runs = runs_that_differ(held, wanted).into_iter();
    let mut ranges: Vec<_> = runs.map(|run| (run.clone(), instead(&run, held))).collect();
    if held.size() < wanted.size() {
        ranges.push((held.size()..wanted.size(), Instead::Nothing));
    } else if wanted.size() < held.size() {
        ranges.push((wanted.size()..held.size(), Instead::More));
    }
    ranges
}

/// Where bytes differ that both have. Ranges that are near each other are one.
fn runs_that_differ(held: &Content, wanted: &Content) -> Vec<Range<u64>> {
    let both = held.size().min(wanted.size());
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in held.chunks_that_differ(wanted) {
        let start = number * CHUNK;
        let len = CHUNK.min(both.saturating_sub(start));
        let (own, other) = (held.read(start, len), wanted.read(start, len));
        for (at, _) in (start..)
            .zip(own.into_iter().zip(other))
            .filter(|(_, (own, other))| own != other)
        {
            match runs.last_mut() {
                Some(last) if at - last.end < NEAR => last.end = at + 1,
                _ => runs.push(at..at + 1),
            }
        }
    }
    runs
}

/// What a range holds that is not what was written.
fn instead(range: &Range<u64>, held: &Content) -> Instead {
    let bytes = held.read(range.start, range.end - range.start);
    if bytes.iter().all(|byte| *byte == 0) {
        Instead::Zeros
    } else if (range.start..)
        .zip(bytes)
        .all(|(at, byte)| byte == garbage_at(at))
    {
        Instead::Garbage
    } else {
        Instead::Others
    }
}

/// What is at the beginning of a range.
fn dump(range: &Range<u64>, held: &Content, wanted: &Content) -> Vec<String> {
    let bytes = |content: &Content| {
        let len = (range.end - range.start)
            .min(LETTERS_SHOWN)
            .min(content.size().saturating_sub(range.start));
        content.read(range.start, len)
    };
    let line = |head: &str, bytes: Vec<u8>| {
        (!bytes.is_empty()).then(|| format!("{head}  {}", shown(&bytes)))
    };
    line("has  ", bytes(held))
        .into_iter()
        .chain(line("wrote", bytes(wanted)))
        .collect()
}

fn shown(bytes: &[u8]) -> String {
    let is_text =
        |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
    if bytes.iter().all(is_text) {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    let bytes = &bytes[..bytes.len().min(BYTES_SHOWN as usize)];
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let letter = |byte: &u8| {
        if byte.is_ascii_graphic() || *byte == b' ' {
            char::from(*byte)
        } else {
            '.'
        }
    };
    format!(
        "{:<36} {}",
        hex.join(" "),
        bytes.iter().map(letter).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        content.write(0, bytes);
        content
    }

    #[track_caller]
    fn assert_told(held: &Content, wanted: &Content, words: &str, dump: &[&str]) {
        let damage = damage("f", held, wanted).expect("it differs");
        assert_eq!(
            (&*damage.words, &damage.dump[..]),
            (
                words,
                &dump.iter().map(ToString::to_string).collect::<Vec<_>>()[..]
            )
        );
    }

    #[test]
    fn what_is_missing_zeros_garbage_or_older_is_told_with_its_place() {
        let wanted = content(&[b'C'; 10_000]);
        assert_eq!(damage("f", &wanted, &wanted), None);
        let wrote = "wrote  \"CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC\"";
        assert_told(
            &Content::default(),
            &wanted,
            "is empty, 10000 bytes are missing",
            &[wrote],
        );
        assert_told(
            &content(&[b'C'; 4096]),
            &wanted,
            "bytes 4096 to 10000 are missing, it has 4096 bytes",
            &[wrote],
        );
        let mut held = wanted.clone();
        held.zeros(4096, 4096);
        let has = "has    00 00 00 00 00 00 00 00 00 00 00 00  ............";
        assert_told(
            &held,
            &wanted,
            "bytes 4096 to 8192 are zeros",
            &[has, wrote],
        );
        held = wanted.clone();
        held.garbage(4096, 4096);
        assert!(
            damage("f", &held, &wanted)
                .expect("one")
                .words
                .starts_with("bytes 4096 to 8192 are garbage")
        );
        held = wanted.clone();
        held.write(5, b"old");
        let has = "has    \"old\"";
        assert_told(
            &held,
            &wanted,
            "bytes 5 to 8 are others than were written last",
            &[has, "wrote  \"CCC\""],
        );
        assert_told(
            &wanted,
            &content(&[b'C'; 9999]),
            "byte 9999 is there, although it was cut at 9999",
            &["has    \"C\""],
        );
    }

    #[test]
    fn ranges_that_are_far_from_each_other_are_told_and_counted() {
        let wanted = content(&[b'C'; 10_000]);
        let mut held = wanted.clone();
        (0..5).for_each(|place| held.zeros(place * 1000, 10));
        let words = "bytes 0 to 10 are zeros, bytes 1000 to 1010 are zeros, bytes 2000 to 2010 are zeros, and 2 more ranges";
        assert_eq!(damage("f", &held, &wanted).expect("one").words, words);
    }
}
