//! What a node's directory has after a crash, as rows of facts.

use specification::rows::{self, BEGINS, Fact, text};
use trace::FileId;

use super::Specs;
use crate::content::Content;
use crate::tree::{Holds, Tree};

/// So much is read at once to be hashed, in bytes.
const HASHED_AT_ONCE: u64 = 1 << 20;

/// Directories are followed so deep.
const DEPTH_MAX: usize = 256;

/// Which of its relations are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) entries: bool,
    pub(super) contents: bool,
}

/// A directory that is told of.
pub(super) struct Leftover<'a> {
    node: &'a str,
    tree: &'a Tree,
    wanted: Wanted,
    specs: &'a Specs,
    facts: Vec<Fact>,
}

impl<'a> Leftover<'a> {
    /// What a node has, or why that cannot be told.
    pub(super) fn facts(
        node: &'a str,
        tree: &'a Tree,
        wanted: Wanted,
        specs: &'a Specs,
    ) -> Result<Vec<Fact>, String> {
        let mut told = Self {
            node,
            tree,
            wanted,
            specs,
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
        let shown = match holds {
            Holds::Bytes(content) => ("file", content.size(), String::new()),
            Holds::Entries(_) => ("directory", 0, String::new()),
            Holds::Target(target) => ("symlink", 0, text(target)),
            Holds::Pipe | Holds::Nothing => ("special", 0, String::new()),
        };
        self.facts
            .push(("entry", rows::entry(self.node, path, shown)));
    }

    fn add_content(&mut self, path: &str, content: &Content) -> Result<(), String> {
        if self.wanted.contents {
            self.add_hash(path, content);
        }
        let size = content.size();
        if self.specs.are_lines_told((self.node, path, size))? {
            let lines = rows::lines(self.node, path, &content.read(0, size));
            self.facts
                .extend(lines.into_iter().map(|row| ("line", row)));
        }
        Ok(())
    }

    fn add_hash(&mut self, path: &str, content: &Content) {
        let size = content.size();
        let mut hasher = blake3::Hasher::new();
        let mut at = 0;
        while at < size {
            let length = (size - at).min(HASHED_AT_ONCE);
            hasher.update(&content.read(at, length));
            at += length;
        }
        let hash = hasher.finalize().to_hex().to_string();
        let begins = content.read(0, size.min(BEGINS));
        let row = rows::content(self.node, path, hash, &begins);
        self.facts.push(("content", row));
    }
}
