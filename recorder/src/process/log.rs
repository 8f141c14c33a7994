//! What is recorded of one node, before it is joined with the others. It can be packed, to come from
//! another machine.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::process::ExitStatus;

use brief::{Brief, BriefList};
use machine::Spool;
use serde::{Deserialize, Serialize};
use trace::{Data, FileOp, InitialFile};
use trace_store::{Frame, WeakSync};
use tracer::{Origin, now_ns};

use super::sockets::Connection;

/// What was recorded of one node.
#[derive(Serialize, Deserialize)]
pub struct NodeTrace {
    /// Its name.
    pub name: String,
    /// How the process that was started ended.
    #[serde(with = "status")]
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
    pub datagrams: BTreeMap<(Cow<'static, str>, IpAddr), u64>,
    /// Its directory of data, as it was given.
    pub(super) directory: Option<String>,
    pub(super) initial: Vec<InitialFile>,
    pub(super) events: Vec<Recorded>,
    pub(super) connections: Vec<Connection>,
    pub(super) data: Spool,
    pub(super) stacks: BTreeMap<u64, Vec<Frame>>,
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
            .field("data", &Brief(&*self.data))
            .field("stacks", &BriefList(self.stacks.keys()))
            .finish()
    }
}

impl NodeTrace {
    /// Its bytes, for [`Self::unpack`].
    pub fn pack(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("it has only what postcard knows")
    }

    /// What another machine packed. Its clock began when that of this trace was at `began_ns`, and no
    /// other machine has its number: what means something else on each, such as a loopback address
    /// or a process id, is told apart by that.
    ///
    /// # Errors
    /// If these are the bytes of something else.
    pub fn unpack(bytes: &[u8], began_ns: u64, machine: u16) -> Result<Self, postcard::Error> {
        let mut node: Self = postcard::from_bytes(bytes)?;
        for event in &mut node.events {
            event.start_ns += began_ns;
            event.end_ns += began_ns;
        }
        let ends = node.connections.iter_mut();
        ends.filter_map(|connection| connection.ends.as_mut())
            .for_each(|ends| ends.move_to(machine));
        Ok(node)
    }
}

/// An event whose connection is this node's own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub start_ns: u64,
    pub end_ns: u64,
    pub process: u32,
    pub thread: u32,
    pub call: Cow<'static, str>,
    pub stack: u64,
    pub what: What,
}

impl Recorded {
    /// What a call did that ends now.
    pub(super) fn ending_now(origin: &Origin, what: What) -> Self {
        Self {
            start_ns: origin.start_ns,
            end_ns: now_ns(),
            process: origin.process as u32,
            thread: origin.thread as u32,
            call: origin.row.name.into(),
            stack: origin.stack,
            what,
        }
    }

    /// What it changed in the files.
    pub(super) fn change(&self) -> Option<&FileOp> {
        match &self.what {
            What::File(op) => (!op.is_sync()).then_some(op),
            _ => None,
        }
    }
}

/// What an event did.
#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Span {
    /// These.
    Bytes { from: u64, to: u64 },
    /// The end after them.
    End,
}

/// How a process ended, as wait(2) has it.
mod status {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use serde::{Deserialize, Deserializer, Serializer};

    // The form is serde's.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    pub(super) fn serialize<S: Serializer>(status: &ExitStatus, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i32(status.into_raw())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ExitStatus, D::Error> {
        Ok(ExitStatus::from_raw(i32::deserialize(from)?))
    }
}
