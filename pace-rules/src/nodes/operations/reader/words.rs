//! What makes operations of several nodes alike.

use std::sync::Arc;

use trace::{FileId, FileOp};

use super::Reader;

impl Reader<'_> {
    /// The words of an operation. There are not many that differ, and each is kept once.
    pub(super) fn name(&mut self, op: &FileOp) -> Arc<str> {
        let words = self.words(op);
        if let Some(known) = self.names.get(&*words) {
            return Arc::clone(known);
        }
        let words: Arc<str> = words.into();
        self.names.insert(Arc::clone(&words));
        words
    }

    /// What makes operations of several nodes alike: what was done, and the last names of the
    /// files, in which numbers stand for any.
    fn words(&self, op: &FileOp) -> String {
        let plain = |name: &[u8]| {
            let mut words = String::new();
            for byte in name {
                match byte {
                    b'0'..=b'9' if words.ends_with('#') => {}
                    b'0'..=b'9' => words.push('#'),
                    _ => words.push(*byte as char),
                }
            }
            words
        };
        let of = |file: &FileId| {
            self.files
                .get(file)
                .and_then(|file| file.name.as_ref())
                .map_or("?".into(), |name| plain(name))
        };
        match op {
            FileOp::Create { name, .. }
            | FileOp::Link { name, .. }
            | FileOp::Unlink { name, .. } => format!("{} {}", kind_of_call(op), plain(name)),
            FileOp::Rename { names, .. } => {
                format!("rename {} {}", plain(&names.from.1), plain(&names.to.1))
            }
            FileOp::SetXattr { file, name, .. } => {
                format!("setxattr {} {}", of(file), plain(name))
            }
            op => format!("{} {}", kind_of_call(op), of(&op.subject())),
        }
    }
}

/// What was done, in one word.
pub(super) fn kind_of_call(op: &FileOp) -> &'static str {
    match op {
        FileOp::Create { .. } | FileOp::CreateNameless { .. } => "create",
        FileOp::Link { .. } => "link",
        FileOp::Unlink { .. } => "unlink",
        FileOp::Rename { .. } => "rename",
        FileOp::Write {
            offset,
            size_before,
            ..
        } if offset < size_before => "write",
        FileOp::Write { .. } => "append",
        FileOp::Resize { from, to, .. } if to < from => "truncate",
        FileOp::Resize { .. } => "grow",
        FileOp::Zero { .. } | FileOp::ZeroBlocks { .. } => "zero",
        FileOp::Allocate { .. } => "allocate",
        FileOp::SetMode { .. } => "chmod",
        FileOp::SetXattr { .. } => "setxattr",
        FileOp::Sync { .. } | FileOp::SyncAll => "sync",
    }
}
