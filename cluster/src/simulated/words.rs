//! What is said to the init of a simulated machine, and what it says, through its port.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::listing::Reading;

/// How many bytes the length of a message takes.
const LENGTH_BYTES: usize = size_of::<u32>();

/// A process that somebody outside asked for. Numbers are used once in a machine's life.
pub(super) type ProcessId = u32;

/// What the init is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// To make a system of the bare kernel: the first.
    SetUp(Box<SetUp>),
    /// To write a file, with the directories above it.
    Write {
        path: PathBuf,
        content: Vec<u8>,
        /// Whose it and they are to be.
        user: Option<String>,
    },
    /// To start a command.
    Start { id: ProcessId, task: Task },
    /// To give a process something to read; nothing is the end of its input.
    Input { id: ProcessId, bytes: Vec<u8> },
    /// To send a signal to a process and to what it started, as far as that is in its group.
    Signal { id: ProcessId, signal: i32 },
    /// To ask a process to end: only itself.
    AskToEnd { id: ProcessId },
    /// To do something to all processes.
    Everybody(Everybody),
    /// To try whether somebody answers at a port.
    Try { address: Ipv4Addr, port: u16 },
    /// To have the time of day jump by so many nanoseconds.
    MoveClock { by_ns: i64 },
    /// To write everything to the disk.
    Sync,
    /// To send what is in a file.
    Read { path: PathBuf },
    /// To send what is in a directory, packed as a list of [`crate::Listed`].
    List(Listing),
}

/// A directory that is to be listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listing {
    pub(super) path: PathBuf,
    pub(super) reading: Reading,
}

/// What is done to all processes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Everybody {
    /// They stop where they are.
    Stop,
    /// They go on.
    GoOn,
    /// They are killed.
    End,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) words: Vec<String>,
    pub(super) directory: PathBuf,
    pub(super) user: Option<String>,
    pub(super) environment: Vec<(String, String)>,
    /// Whether it will be given something to read.
    pub(super) has_input: bool,
    /// Whether it traces all that it starts: then it goes on while others are stopped.
    pub(super) is_tracer: bool,
}

/// What a machine is, for its init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SetUp {
    pub(super) name: String,
    pub(super) address: Ipv4Addr,
    /// What is in /etc/hosts.
    pub(super) hosts: String,
    /// Directories of the host's that it must see also where it has directories of its own.
    pub(super) visible: Vec<PathBuf>,
    pub(super) disk: Option<DiskSetUp>,
    /// After which number its processes begin.
    pub(super) last_pid: u32,
}

/// The disk with the data of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DiskSetUp {
    /// As [`local_fs::Variant::for_machines`] reads it.
    pub(super) file_system: String,
    /// Whether it is new: then a file system is made on it.
    pub(super) is_new: bool,
    /// Whose the directory is.
    pub(super) user: Option<String>,
}

/// What the init says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// It is there.
    Here,
    /// What it was asked for last, and which is no process, is done, or why not.
    Done(Result<(), Refusal>),
    /// A process has printed something.
    Printed {
        id: ProcessId,
        is_error: bool,
        bytes: Vec<u8>,
    },
    /// A process has ended, and has printed everything. The status is that of wait(2).
    Ended { id: ProcessId, status: i32 },
    /// Whether somebody answered.
    Tried(bool),
    /// What is in a file or a directory, or why that is not known.
    Content(Result<Vec<u8>, String>),
}

/// Why something is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) what: String,
    /// What is on the machine's disk is why, and neither we nor what the machine is short of.
    pub(super) is_of_disk: bool,
}

/// The bytes of a message.
pub(super) fn packed(message: &impl Serialize) -> Vec<u8> {
    let body = postcard::to_stdvec(message).expect("it has nothing that cannot be packed");
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// A stream of messages, as it comes.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream(Vec<u8>);

impl Stream {
    /// Adds what has come.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message, if all of it has come.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, postcard::Error> {
        let Some(length) = self.0.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let end = LENGTH_BYTES + u32::from_le_bytes(*length) as usize;
        let Some(body) = self.0.get(LENGTH_BYTES..end) else {
            return Ok(None);
        };
        let message = postcard::from_bytes(body)?;
        self.0.drain(..end);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_the_stream_was_cut() {
        let said = [
            Report::Here,
            Report::Printed {
                id: 3,
                is_error: true,
                bytes: vec![0; 1000],
            },
            Report::Tried(false),
        ];
        let bytes: Vec<_> = said.iter().flat_map(packed).collect();
        for part in [1, 3, 7, 500, bytes.len()] {
            let mut stream = Stream::default();
            let mut heard = Vec::new();
            for part in bytes.chunks(part) {
                stream.add(part);
                while let Some(report) = stream.next::<Report>().expect("a report") {
                    heard.push(report);
                }
            }
            assert_eq!(heard, said, "in parts of {part}");
        }
        let mut stream = Stream::default();
        stream.add(&[1, 0, 0, 0, 200]);
        assert!(stream.next::<Report>().is_err());
    }
}
