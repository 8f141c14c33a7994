//! What a node's directory has after a crash, as rows of facts.

use datalog::Value;
use trace::FileId;

use super::events::{Fact, text};
use crate::content::Content;
use crate::tree::{Holds, Tree};

/// Of a larger file nobody is told the lines.
const LINES_OF_MAX: u64 = 1 << 20;

/// So much of a file is shown, in bytes.
const BEGINS: u64 = 64;

/// Directories are followed so deep.
const DEPTH_MAX: usize = 256;

/// Which of its relations are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) entries: bool,
    pub(super) contents: bool,
    pub(super) lines: bool,
}

/// A directory that is told of.
pub(super) struct Leftover<'a> {
    node: &'a str,
    tree: &'a Tree,
    wanted: Wanted,
    facts: Vec<Fact>,
}

impl<'a> Leftover<'a> {
    /// What a node has, or why that cannot be told.
    pub(super) fn facts(
        node: &'a str,
        tree: &'a Tree,
        wanted: Wanted,
    ) -> Result<Vec<Fact>, String> {
        let mut told = Self {
            node,
            tree,
            wanted,
            facts: Vec::new(),
        };
        told.add(FileId::ROOT, ".", 0)?;
        Ok(told.facts)
    }

    fn add(&mut self, id: FileId, path: &str, depth: usize) -> Result<(), String> {
        let Some(file) = self.tree.file(id) else {
            return Ok(());
        };
        if self.wanted.entries {
            self.add_entry(path, &file.holds);
        }
        match &file.holds {
            Holds::Bytes(content) => self.add_content(path, content),
            Holds::Entries(entries) if depth < DEPTH_MAX => {
                for (name, entry) in entries {
                    let name = text(name);
                    let below = if depth == 0 {
                        name
                    } else {
                        format!("{path}/{name}")
                    };
                    self.add(*entry, &below, depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_entry(&mut self, path: &str, holds: &Holds) {
        let (kind, size, target) = match holds {
            Holds::Bytes(content) => ("file", content.size(), String::new()),
            Holds::Entries(_) => ("directory", 0, String::new()),
            Holds::Target(target) => ("symlink", 0, text(target)),
            Holds::Pipe | Holds::Nothing => ("special", 0, String::new()),
        };
        let row = vec![
            self.node.into(),
            path.into(),
            kind.into(),
            (size as i64).into(),
            target.into(),
        ];
        self.facts.push(("entry", row));
    }

    fn add_content(&mut self, path: &str, content: &Content) -> Result<(), String> {
        if self.wanted.contents {
            self.add_hash(path, content);
        }
        if self.wanted.lines {
            self.add_lines(path, content)?;
        }
        Ok(())
    }

    fn add_hash(&mut self, path: &str, content: &Content) {
        let size = content.size();
        let mut hasher = blake3::Hasher::new();
        let mut at = 0;
        while at < size {
            let length = (size - at).min(LINES_OF_MAX);
            hasher.update(&content.read(at, length));
            at += length;
        }
        let hash = hasher.finalize().to_hex().to_string();
        let begins = text(&content.read(0, size.min(BEGINS)));
        let row = vec![self.node.into(), path.into(), hash.into(), begins.into()];
        self.facts.push(("content", row));
    }

    fn add_lines(&mut self, path: &str, content: &Content) -> Result<(), String> {
        let size = content.size();
        if size > LINES_OF_MAX {
            return Err(format!(
                "rules ask for the lines of files, and {path} of {} has more than {LINES_OF_MAX} bytes",
                self.node
            ));
        }
        let bytes = content.read(0, size);
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        for (number, line) in (1_i64..).zip(lines.split(|byte| *byte == b'\n')) {
            let row = vec![
                self.node.into(),
                path.into(),
                Value::Integer(number),
                text(line).into(),
            ];
            self.facts.push(("line", row));
        }
        Ok(())
    }
}
