//! Runs of programs that are written by hand.

use std::sync::Arc;

use trace::{
    Action, ChangeOfName, Event, FileId, FileKind, FileOp, InitialFile, Name, Node, SyncScope,
};
use trace_store::Trace;

/// A program that is written down while it runs.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) trace: Trace,
    events: Vec<Event>,
}

pub(crate) const TMP: FileId = FileId(1);

pub(crate) fn name(name: &str) -> Name {
    Arc::from(name.as_bytes())
}

impl Recording {
    pub(crate) fn event(&mut self, call: &str, action: Action) -> &mut Self {
        let at = 10 * self.events.len() as u64;
        let event = Event {
            start_ns: at + 1,
            end_ns: at + 5,
            process: 7,
            thread: 7,
            call: call.into(),
            stack: 0xabc,
            action,
        };
        self.events.push(event);
        self
    }

    pub(crate) fn file(&mut self, call: &str, op: FileOp) -> &mut Self {
        self.event(call, Action::File(op))
    }

    pub(crate) fn create(&mut self, at: &str, file: FileId) -> &mut Self {
        let (parent, kind) = (FileId::ROOT, FileKind::Regular);
        self.file(
            "openat",
            FileOp::Create {
                parent,
                name: name(at),
                file,
                kind,
                mode: 0o644,
            },
        )
    }

    pub(crate) fn create_directory(&mut self, at: &str, file: FileId) -> &mut Self {
        let (parent, kind) = (FileId::ROOT, FileKind::Directory);
        self.file(
            "mkdir",
            FileOp::Create {
                parent,
                name: name(at),
                file,
                kind,
                mode: 0o755,
            },
        )
    }

    pub(crate) fn append(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> &mut Self {
        let data = self.trace.add(bytes);
        self.file(
            "write",
            FileOp::Write {
                file,
                offset,
                data,
                size_before: offset,
            },
        )
    }

    pub(crate) fn fsync(&mut self, file: FileId) -> &mut Self {
        self.file(
            "fsync",
            FileOp::Sync {
                file,
                scope: SyncScope::File,
            },
        )
    }

    pub(crate) fn link(&mut self, parent: FileId, at: &str, file: FileId) -> &mut Self {
        let name = name(at);
        self.file("link", FileOp::Link { parent, name, file })
    }

    pub(crate) fn unlink(&mut self, parent: FileId, at: &str, file: FileId) -> &mut Self {
        let name = name(at);
        self.file("unlink", FileOp::Unlink { parent, name, file })
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, file: FileId) -> &mut Self {
        self.rename_over(from, to, file, None)
    }

    pub(crate) fn rename_over(
        &mut self,
        from: &str,
        to: &str,
        file: FileId,
        replaced: Option<FileId>,
    ) -> &mut Self {
        let names = ChangeOfName {
            from: (FileId::ROOT, name(from)),
            to: (FileId::ROOT, name(to)),
        };
        self.file(
            "rename",
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange: false,
            },
        )
    }

    pub(crate) fn mark(&mut self, line: &str) -> &mut Self {
        let line = self.trace.add(line.as_bytes());
        self.event("write", Action::Mark { line })
    }

    /// What was written down is a node of this name.
    pub(crate) fn node(&mut self, name_of: &str) -> &mut Self {
        let events = std::mem::take(&mut self.events);
        self.trace.run.nodes.push(Node {
            name: name_of.into(),
            initial: vec![InitialFile::empty_root()],
            events,
        });
        self
    }

    pub(crate) fn trace(&mut self) -> Trace {
        self.node("program");
        std::mem::take(&mut self.trace)
    }
}
