//! Calls that change a node's files or make them durable: what they are found to be about where
//! they are entered, and what is recorded where they return.

use std::os::fd::OwnedFd;

use trace::{FileId, FileOp, SyncScope};

use super::changes::Change;
use super::gate::Changes;
use super::name_calls::NameCall;
use super::recording::{Entered, Next, Recording};
use tracer::Entry;
use tracer::Origin;
use tracer::calls::Call;
use tracer::lookup::Descriptor;

/// What is known of a call before it is made.
#[derive(Debug)]
pub(super) enum FileCall {
    /// Names are given, taken or changed.
    Names(NameCall),
    /// A file is changed.
    Change(Change),
    Sync(Vec<(FileId, SyncScope)>),
    SyncAll,
    Map {
        file: FileId,
        copy: OwnedFd,
        /// The mappings of which it takes the place.
        going: Vec<u64>,
    },
    /// These mappings go, or a part of them.
    Unmap(Vec<u64>),
    /// These, or a part of them, are to be elsewhere, in the place of others.
    Move {
        going: Vec<u64>,
        replaced: Vec<u64>,
    },
}

impl Recording {
    pub(super) fn enter_file_call(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        if self.tree.is_none() {
            return Next::GoOn;
        }
        // What a path means is known only while nobody is changing that.
        if call.has_path() && self.gate.waits(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        self.enter_call_by_kind(origin, entry, call)
    }

    fn enter_call_by_kind(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        match call {
            Call::Open { .. }
            | Call::Make { .. }
            | Call::Link { .. }
            | Call::Bind
            | Call::Remove { .. }
            | Call::Rename { .. } => self.enter_name_call(origin, entry, call),
            Call::SetMode { .. } | Call::SetXattr { .. } | Call::Truncate => {
                self.enter_path_change(origin, entry, call)
            }
            Call::SetModeOf | Call::TruncateOf | Call::Allocate | Call::Copy { .. } => {
                self.enter_descriptor_call(origin, entry, call)
            }
            Call::Sync { .. } | Call::BeginSync | Call::SyncAll | Call::SyncFileSystem => {
                self.enter_sync_call(origin, entry, call)
            }
            Call::Map => self.enter_map(entry, origin),
            Call::Unmap
            | Call::Protect
            | Call::Move
            | Call::SyncMapping
            | Call::UnfollowedMapping => self.enter_mapping_call(origin, entry, call),
            Call::Control | Call::UnfollowedPath { .. } | Call::SetOwner { .. } => {
                self.enter_unfollowed(origin, entry, call)
            }
            _ => Next::GoOn,
        }
    }

    /// The file of a descriptor, if it is one of the node's.
    pub(super) fn own(&self, origin: &Origin, number: u64) -> Option<(FileId, Descriptor)> {
        let tree = self.tree.as_ref()?;
        let descriptor = origin.descriptor(number as i32)?;
        Some((tree.find(&descriptor.stat)?, descriptor))
    }

    pub(super) fn leave_file_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: FileCall,
        result: u64,
    ) {
        match call {
            FileCall::Names(call) => self.leave_name_call(origin, entry, call, result),
            FileCall::Change(change) => self.leave_change(origin, entry, change, result),
            FileCall::Sync(ranges) => {
                for (file, scope) in ranges {
                    self.operation(origin, FileOp::Sync { file, scope });
                }
            }
            FileCall::SyncAll => {
                self.outside.sync_all();
                self.operation(origin, FileOp::SyncAll);
            }
            FileCall::Map { file, copy, going } => {
                self.leave_map(origin, entry, file, (&copy, &going), result);
            }
            FileCall::Unmap(going) => self.leave_unmap(origin, entry, &going),
            FileCall::Move { going, replaced } => {
                self.leave_move(origin, entry, (&going, &replaced), result);
            }
        }
    }

    /// Whoever made a call was killed in it: what it did is looked up.
    pub(super) fn abandon_file_call(&mut self, origin: &Origin, call: FileCall) {
        match call {
            FileCall::Names(call) => self.abandon_name_call(origin, call),
            FileCall::Change(change) => self.abandon_change(origin, change),
            // They change no file.
            FileCall::Sync(_)
            | FileCall::SyncAll
            | FileCall::Map { .. }
            | FileCall::Unmap(_)
            | FileCall::Move { .. } => {}
        }
    }
}

/// A call that the thread makes, and that is recorded when it returns.
pub(super) fn to_exit(call: FileCall) -> Next {
    Next::ToExit(Entered::File(call))
}
