//! What was recorded of programs and clusters, and the directory that keeps it.
//!
//! A [`Trace`] is a [`Run`] with the bytes that it speaks of, and what there is to know of how it
//! was made. [`Trace::save`] writes it as a directory that carries its version and the hash of
//! everything in it; [`Trace::load`] refuses what is damaged, and says where.

#![forbid(unsafe_code)]

mod past;
mod storage;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use block_dev::{Base, BlockLog};
use brief::{Brief, BriefList};
use machine::Spool;
use serde::{Deserialize, Serialize};
use trace::{Data, FileId, Run};

pub use past::{Before, Missing, Past};
pub use storage::{Error, Result, VERSION};

/// What was recorded of a program or a cluster.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// What the nodes did.
    pub run: Run,
    /// The bytes that the run speaks of.
    pub data: Spool,
    /// The disks that nodes had of their own, by the nodes' names.
    pub disks: BTreeMap<String, Disk>,
    /// Where in their programs calls were made, by the numbers that the run's events have.
    pub stacks: BTreeMap<u64, Vec<Frame>>,
    /// How it was made.
    pub about: About,
    /// The same programs recorded again, with something else done on their disks meanwhile
    /// ([`About::schedule`]). These have no others themselves.
    pub others: Vec<Trace>,
    /// What was recorded while the program, or the file system of its disk, recovered from crashes of
    /// this run, or of another one of these ([`About::recovers`]). Those of file systems have the disk,
    /// and no events. These have neither others nor recoveries themselves.
    pub recoveries: Vec<Trace>,
}

/// A place in a program on the way to a call. A stack has those from the call outwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The path of the program or library.
    pub module: String,
    /// The address in it, as the file counts them.
    pub address: u64,
    /// The function, if the file names it.
    pub function: Option<String>,
    /// The source file and the line, if the file has them.
    pub source: Option<(String, u32)>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("run", &self.run)
            .field("data", &Brief(&*self.data))
            .field("disks", &self.disks)
            .field("stacks", &BriefList(self.stacks.keys()))
            .field("about", &self.about)
            .field("others", &self.others)
            .field("recoveries", &self.recoveries)
            .finish()
    }
}

/// The disk on which a node had its directory, and everything it was asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The file system on it, as it is asked for: `ext4`.
    pub file_system: String,
    /// The path of the node's directory in that.
    pub directory: String,
    /// The disk as it was formatted.
    pub base: Arc<Base>,
    /// What it was asked to do since. Times are those of the clock of the run's events. Whether FUA
    /// was recognised in it ([`BlockLog::recognises_fua`]) is kept; older versions did not say so, and
    /// of theirs it is assumed.
    pub log: BlockLog,
    /// So many of the first requests were made durable before anything of the run.
    pub durable: usize,
    /// What it was asked to do once the run was over, until its file system was unmounted: with that
    /// it has all that the node left. None if nobody recorded it.
    pub after: Option<BlockLog>,
}

/// What there is to know of how a trace was made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The version of Crashpoint that made it.
    pub crashpoint: String,
    /// The kernel's release.
    pub kernel: String,
    /// When it was begun, in seconds of the Unix epoch.
    pub begun_s: u64,
    /// What was recorded: the text of the cluster file, or nothing.
    pub cluster: Option<String>,
    /// What was recorded: the command of each node as it was started.
    pub commands: BTreeMap<String, Vec<String>>,
    /// The directory of data of each node that has one, as its processes saw it.
    pub directories: BTreeMap<String, String>,
    /// Calls that were made and are not in the run although they can change what is on a disk, each
    /// with how often: what is judged without them could be wrong.
    pub not_recorded: BTreeMap<String, u64>,
    /// Calls that were refused (ENOSYS), each with how often: programs have to do without.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// Calls of each node that look like a sync and promise nothing: somebody may rely on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weak_syncs: BTreeMap<String, Vec<WeakSync>>,
    /// What was done on the disks meanwhile, beside the nodes, by the name of the schedule; nothing
    /// if that is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The crash that it recovered from meanwhile, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovers: Option<Recovers>,
    /// From how many crash states recoveries of the program were recorded, if any were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoveries: Option<RecoveryCounts>,
    /// The same of those of its disk's file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_recoveries: Option<RecoveryCounts>,
}

/// A call that looks like a sync of a file and promises nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeakSync {
    /// The file.
    pub file: FileId,
    /// What was called.
    pub call: String,
    /// How many events of the node came before it.
    pub events: usize,
}

/// The crash that a program recovered from while it was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovers {
    /// What each crash left, from the first one on: when it was and what was lost, in words.
    pub crashes: Vec<String>,
    /// What had been acknowledged before the first one: lines, in the data of the trace.
    pub acknowledged: Data,
    /// The node that printed the last of them; nothing if there is none.
    pub acknowledged_by: String,
    /// What the crash left of the run; none of what an earlier version recorded, and of disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// What was asked for recoveries, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryCounts {
    /// Crash states whose recovery was recorded, and changed something.
    pub recorded: u64,
    /// Those whose recovery changed nothing: a second crash leaves what the first one left.
    pub unchanged: u64,
    /// Those that the check does not say `ok` of: what a second crash does to them means nothing.
    pub not_ok: u64,
    /// Those whose recovery made calls that cannot be followed, or left something else than what was
    /// recorded.
    pub not_followed: u64,
}

impl RecoveryCounts {
    /// Whether recoveries were tried, and nothing is known of any.
    pub fn is_none_known(&self) -> bool {
        self.recorded + self.unchanged == 0 && self.not_ok + self.not_followed > 0
    }
}

/// The schedule of a recording in which nobody else did anything on the disks.
pub const QUIET: &str = "quiet";

/// Where a name in [`About::not_recorded`] ends with this, another node was told something that is
/// not in the run.
pub const TO_ANOTHER_NODE: &str = " (a datagram to another node)";

/// The name in [`About::not_recorded`] of a call that moves the bytes of a file. What it came to is
/// in the run, as writes that were never made.
pub const MOVES_BYTES: &str = "fallocate that moves what is past a range";

/// The name in [`About::not_recorded`] of a call that has a file share the bytes of another one, which
/// is in the run as writes, too.
pub const REFLINK: &str = "reflink";

impl About {
    /// Those of [`Self::not_recorded`] that matter where only disks are looked at: what nodes told
    /// each other decides which disks there can be at once.
    pub fn messages_not_recorded(&self) -> BTreeMap<String, u64> {
        let all = self.not_recorded.iter();
        let messages = all.filter(|(what, _)| what.ends_with(TO_ANOTHER_NODE));
        messages
            .map(|(what, times)| (what.clone(), *times))
            .collect()
    }
}

impl Trace {
    /// The bytes of a piece of data.
    ///
    /// # Panics
    /// If it is not one of this trace; those that are loaded have been checked.
    pub fn bytes(&self, data: Data) -> &[u8] {
        &self.data[range(data)]
    }

    /// This recording, and the others of the same programs.
    pub fn recordings(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// What was recorded of recoveries: of the file system of a disk, or of the program.
    pub fn recoveries(&self, of_disks: bool) -> impl Iterator<Item = &Self> {
        let all = self.recoveries.iter();
        all.filter(move |recovery| recovery.disks.is_empty() != of_disks)
    }

    /// What was done on the disks of this recording beside the nodes, by name.
    pub fn schedule(&self) -> &str {
        self.about.schedule.as_deref().unwrap_or(QUIET)
    }

    /// Adds bytes, and says where they are.
    pub fn add(&mut self, bytes: &[u8]) -> Data {
        let at = self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        Data {
            at,
            len: bytes.len() as u64,
        }
    }
}

fn range(data: Data) -> Range<usize> {
    data.at as usize..(data.at + data.len) as usize
}

#[cfg(test)]
mod tests;
