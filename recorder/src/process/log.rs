//! What is recorded of one node, before it is joined with the others.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::process::ExitStatus;

use brief::{Brief, BriefList};
use trace::{Data, FileOp, InitialFile};
use trace_store::WeakSync;

use tracer::StackTable;

use super::sockets::Connection;

/// What was recorded of one node.
pub struct NodeTrace {
    /// Its name.
    pub name: String,
    /// How the process that was started ended.
    pub status: ExitStatus,
    /// Calls that are not in the events although they can change what is in the directory, and how
    /// often they were made.
    pub not_recorded: BTreeMap<String, u64>,
    /// Calls that failed with ENOSYS because what goes through them cannot be followed.
    pub refused: BTreeMap<String, u64>,
    /// Calls that look like a sync and promise nothing.
    pub weak_syncs: Vec<WeakSync>,
    /// Datagrams that it sent, by call and address, and how many: they are not in the events.
    /// Whoever knows the addresses of the other nodes has to count those that went there as not
    /// recorded.
    pub datagrams: BTreeMap<(&'static str, IpAddr), u64>,
    /// Its directory of data, as it was given.
    pub(super) directory: Option<String>,
    pub(super) initial: Vec<InitialFile>,
    pub(super) events: Vec<Recorded>,
    pub(super) connections: Vec<Connection>,
    pub(super) data: Vec<u8>,
    pub(super) stacks: StackTable,
}

impl fmt::Debug for NodeTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTrace")
            .field("name", &self.name)
            .field("status", &self.status)
            .field("not_recorded", &self.not_recorded)
            .field("refused", &self.refused)
            .field("weak_syncs", &BriefList(self.weak_syncs.iter()))
            .field("datagrams", &self.datagrams)
            .field("directory", &self.directory)
            .field("initial", &BriefList(self.initial.iter()))
            .field("events", &BriefList(self.events.iter()))
            .field("connections", &self.connections)
            .field("data", &Brief(&self.data))
            .field("stacks", &BriefList(self.stacks.keys()))
            .finish()
    }
}

/// An event whose connection is this node's own.
#[derive(Debug)]
pub(super) struct Recorded {
    pub start_ns: u64,
    pub end_ns: u64,
    pub process: u32,
    pub thread: u32,
    pub call: &'static str,
    pub stack: u64,
    pub what: What,
}

impl Recorded {
    /// What it changed in the files.
    pub(super) fn change(&self) -> Option<&FileOp> {
        match &self.what {
            What::File(op) => (!op.is_sync()).then_some(op),
            _ => None,
        }
    }
}

/// What an event did.
#[derive(Debug)]
pub(super) enum What {
    File(FileOp),
    Socket {
        connection: usize,
        sent: bool,
        bytes: Span,
    },
    Mark(Data),
}

/// Of the bytes that go one way over a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Span {
    /// These.
    Bytes { from: u64, to: u64 },
    /// The end after them.
    End,
}
