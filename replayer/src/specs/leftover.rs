//! What a file system shows, as rows of facts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use datalog::Value;
use local_fs::{Content, Inode, InodeKind, Tree};
use specification::UNREADABLE;
use specification::rows::{self, BEGINS, text};

use super::{Rules, Told, Untold, named};

/// A file system that is told of.
pub(super) struct Leftover<'a> {
    node: &'a str,
    tree: &'a Tree,
    rules: &'a Rules,
    told: Told,
    /// The inodes of which nobody knows what is in them, or where they lead.
    unread: BTreeSet<u64>,
    /// The directories that lead to where we are: one that is damaged may be below itself.
    above: Vec<u64>,
}

impl<'a> Leftover<'a> {
    /// All that rules ask for of a tree.
    pub(super) fn told(node: &'a str, tree: &'a Tree, rules: &'a Rules) -> Told {
        let mut this = Self {
            node,
            tree,
            rules,
            told: Told::default(),
            unread: tree.unread(),
            above: Vec::new(),
        };
        this.add(tree.root, ".");
        this.add_errors();
        this.told
    }

    fn add(&mut self, number: u64, path: &str) {
        let Some(inode) = self.tree.inode(number) else {
            return;
        };
        self.add_entry(path, number, inode);
        match &inode.kind {
            _ if self.unread.contains(&number) => {}
            InodeKind::File(content) => self.add_content(path, inode, content),
            InodeKind::Directory(entries) if !self.above.contains(&number) => {
                self.above.push(number);
                for (name, below) in entries {
                    let below_path = if path == "." {
                        Cow::Borrowed(name.as_str())
                    } else {
                        Cow::Owned(format!("{path}/{name}"))
                    };
                    self.add(*below, &below_path);
                }
                self.above.pop();
            }
            _ => {}
        }
    }

    fn add_entry(&mut self, path: &str, number: u64, inode: &Inode) {
        let shown = match &inode.kind {
            InodeKind::File(_) => ("file", inode.size_bytes, String::new()),
            InodeKind::Directory(_) => ("directory", 0, String::new()),
            InodeKind::Symlink(target) => ("symlink", 0, target.clone()),
            _ => ("special", 0, String::new()),
        };
        let node = self.node;
        let is_link = matches!(inode.kind, InodeKind::Symlink(_));
        // An entry has all its columns, and no target is one that leads nowhere.
        if !is_link || !self.unread.contains(&number) {
            self.push("entry", || rows::entry(node, path, shown));
        }
        self.push("attributes", || attributes(node, path, number, inode));
        for (name, value) in &inode.xattrs {
            let row = || {
                vec![
                    node.into(),
                    path.into(),
                    name.replace('\0', "").into(),
                    text(value).into(),
                ]
            };
            self.push("xattr", row);
        }
    }

    fn push(&mut self, relation: &'static str, row: impl FnOnce() -> Vec<Value>) {
        if self.rules.mention(relation) {
            self.told.facts.push((relation, row()));
        }
    }

    fn add_content(&mut self, path: &str, inode: &Inode, content: &Content) {
        let (node, size) = (self.node, inode.size_bytes);
        let file = (node, path, size);
        if self.is_told("line", path, self.rules.are_lines_told(file)) {
            let bytes = bytes_of(content, size);
            let lines = rows::lines(node, path, &bytes).into_iter();
            self.told.facts.extend(lines.map(|row| ("line", row)));
        }
        if self.is_told("content", path, self.rules.is_content_told(file)) {
            let bytes = bytes_of(content, size);
            let hash = blake3::hash(&bytes).to_hex().to_string();
            let begins = &bytes[..bytes.len().min(BEGINS as usize)];
            let row = rows::content(node, path, hash, begins);
            self.told.facts.push(("content", row));
        }
    }

    /// Whether something is told of a file; why not is noted where a rule may ask.
    fn is_told(&mut self, relation: &'static str, path: &str, told: Result<bool, String>) -> bool {
        told.unwrap_or_else(|why| {
            let path = path.to_owned();
            let untold = Untold {
                relation,
                path,
                why,
            };
            self.told.untold.push(untold);
            false
        })
    }

    fn add_errors(&mut self) {
        let node = self.node;
        for error in &self.tree.errors {
            let row = || {
                let why = std::io::Error::from_raw_os_error(error.errno).to_string();
                vec![
                    node.into(),
                    named(&error.path).into(),
                    error.doing.into(),
                    why.into(),
                ]
            };
            self.push(UNREADABLE, row);
        }
    }
}

fn attributes(node: &str, path: &str, number: u64, inode: &Inode) -> Vec<Value> {
    let whole = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    vec![
        node.into(),
        path.into(),
        whole(number),
        format!("{:04o}", inode.mode).into(),
        i64::from(inode.uid).into(),
        i64::from(inode.gid).into(),
        whole(inode.link_count),
        whole(inode.blocks),
    ]
}

/// The first bytes of a file, holes as zeros.
fn bytes_of(content: &Content, size: u64) -> Vec<u8> {
    let mut bytes = vec![0; size as usize];
    for segment in &content.segments {
        let from = (segment.offset as usize).min(bytes.len());
        let to = from.saturating_add(segment.data.len()).min(bytes.len());
        bytes[from..to].copy_from_slice(&segment.data[..to - from]);
    }
    bytes
}
