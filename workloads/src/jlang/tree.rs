//! Which names a workload has made so far, and which of them it holds open.

use std::collections::{BTreeMap, BTreeSet};

use crate::op::{Op, Target};

/// The names below the root, as the operations so far left them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Whether each name is a directory.
    names: BTreeMap<String, bool>,
    open: BTreeSet<String>,
}

impl Tree {
    pub fn exists(&self, path: &str) -> bool {
        path == "." || self.names.contains_key(path)
    }

    pub fn is_directory(&self, path: &str) -> bool {
        path == "." || self.names.get(path) == Some(&true)
    }

    /// False if it was open already.
    pub fn open(&mut self, path: &str) -> bool {
        self.open.insert(path.to_owned())
    }

    /// Whether it was open.
    pub fn close(&mut self, path: &str) -> bool {
        self.open.remove(path)
    }

    /// What is open at and below `path`.
    pub fn open_below(&self, path: &str) -> Vec<String> {
        below(path, self.open.range(path.to_owned()..))
            .cloned()
            .collect()
    }

    pub fn all_open(&self) -> Vec<String> {
        self.open.iter().cloned().collect()
    }

    /// Takes over what `op` does to names.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Creat { path, .. }
            | Op::Mkfifo { path, .. }
            | Op::Mknod { path, .. }
            | Op::Symlink { path, .. } => {
                self.names.entry(path.clone()).or_insert(false);
            }
            Op::Mkdir { path, .. } => {
                self.names.entry(path.clone()).or_insert(true);
            }
            Op::Link {
                source: Target::Path(_),
                dest,
            } => {
                self.names.entry(dest.clone()).or_insert(false);
            }
            Op::Unlink { path } | Op::Rmdir { path } | Op::Remove { path } => {
                self.names.remove(path);
                self.open.remove(path);
            }
            Op::Rename { source, dest, .. } => self.rename(source, dest),
            _ => {}
        }
    }

    fn rename(&mut self, source: &str, dest: &str) {
        self.open.remove(source);
        self.open.remove(dest);
        let names = self.names.range(source.to_owned()..).map(|(name, _)| name);
        let moved: Vec<String> = below(source, names).cloned().collect();
        for name in moved {
            let is_directory = self.names.remove(&name).unwrap_or_default();
            self.names
                .insert(format!("{dest}{}", &name[source.len()..]), is_directory);
        }
    }
}

/// Of sorted names from `path` on, those that are `path` or below it.
fn below<'a>(
    path: &str,
    names: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = &'a String> {
    let rest = move |name: &String| {
        name.strip_prefix(path)
            .map(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // Names such as `A-b` sort between `A` and `A/b`.
    names
        .take_while(move |name| rest(name).is_some())
        .filter(move |name| rest(name) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::RenameFlag;

    #[test]
    fn a_renamed_directory_takes_what_is_below_it_along() {
        let mut tree = Tree::default();
        for op in &crate::parse(
            "mkdir A; creat A/foo; creat A-b; mkdir A/C; creat A/C/bar",
            "test",
        )
        .unwrap()[0]
            .run
        {
            if let crate::Step::Op(op) = op {
                tree.apply(op);
            }
        }
        tree.apply(&Op::Rename {
            source: "A".to_owned(),
            dest: "B".to_owned(),
            flag: RenameFlag::Replace,
        });
        for gone in ["A", "A/foo", "A/C/bar"] {
            assert!(!tree.exists(gone), "{gone}");
        }
        for there in ["A-b", "B", "B/foo", "B/C/bar"] {
            assert!(tree.exists(there), "{there}");
        }
        assert!(tree.is_directory("B/C") && !tree.is_directory("B/foo"));
    }
}
