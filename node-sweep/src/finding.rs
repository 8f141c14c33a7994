//! A finding: a broken state that stands for others, told as a story.

use std::collections::BTreeMap;

use pace_rules::nodes::{Loss, Relaxation};
use serde::{Deserialize, Serialize};

use crate::again::Address;
use crate::check::Complaint;
use crate::damage::Damage;
use crate::rank::Rank;
use crate::request::Level;
use crate::starts::Start;
use crate::tree::Fingerprint;

/// Broken states of one cause: what was lost was done at the same call sites of the program, to the
/// same files, and the check says the same of them, but for numbers and names that are random.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// From 1.
    pub number: usize,
    /// How much it matters: findings are in this order.
    #[serde(default)]
    pub rank: Rank,
    /// The model that allows it, or the name of several.
    pub model: String,
    /// What was relaxed, in words.
    pub relaxation: String,
    /// What is broken.
    #[serde(flatten)]
    pub complaint: Complaint,
    /// Why rules say so, if it is rules that do: a tree for each violation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derivations: Vec<String>,
    /// How many states of the sweep are alike.
    pub states: u64,
    /// How many of them differ: those that are equal were looked at once. 0 if that was not counted,
    /// as in results of earlier versions.
    #[serde(default)]
    pub different: u64,
    /// How many of them there are of each relaxation.
    #[serde(default)]
    pub relaxations: BTreeMap<String, u64>,
    /// How many of them there are of each order in which the nodes were started; nothing if they were
    /// always started together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<String, u64>,
    /// In which order the nodes were started on the one that is shown; none if together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartStory>,
    /// Files that it is about, where their names are random: what they have in common, and how many
    /// of them there are in the run.
    #[serde(default)]
    pub patterns: BTreeMap<String, usize>,
    /// The number of the one that is shown in its space.
    pub state: u64,
    /// If it is not the state of that number, which lost all at once: all that is lost of that, which may
    /// be nothing. None of it breaks anything alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_together: Option<Vec<EventPlace>>,
    /// Whether nobody looked whether each of these is needed, since the time was up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together_unproven: bool,
    /// The key of that state, by which it is known again.
    #[serde(skip)]
    pub key: Fingerprint,
    /// What the check said, in words that are the same of all states that are alike.
    #[serde(skip)]
    pub(crate) plain: Vec<String>,
    /// What was on each disk of it.
    pub nodes: Vec<NodeStory>,
    /// What had happened last before the crash, in order, on all nodes.
    pub timeline: Vec<Moment>,
    /// The last line that had been printed before the crash, and by whom.
    pub acknowledged: Option<Line>,
    /// Whether something had been acknowledged after what is missing was done. Of a disk it is not
    /// known what is missing: whether anything had been.
    #[serde(default)]
    pub is_told: bool,
    /// Calls after what is missing that look like a sync of it and promise nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promised_nothing: Vec<PromisedNothing>,
    /// What would have forbidden the state: all of these together.
    pub prevented_by: Vec<Sync>,
    /// Whether there may be such calls all the same: to look at all that could be would have taken too
    /// many states, or the time was up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prevention_cut_short: bool,
    /// The other models, and whether one of the states that are alike was found on each; none if
    /// that was not looked at.
    pub models: BTreeMap<String, bool>,
    /// With which options they were searched: with others more may be possible.
    #[serde(default)]
    pub searched: String,
    /// The recordings with disks in which it was seen: the names of their schedules, which say what
    /// else was done on the disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen_under: Vec<String>,
    /// All recordings with disks, by the names of their schedules; none if no disks were looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded_under: Vec<String>,
    /// How many findings of the same model have the same words of the check, if there are several and a
    /// recording with disks showed these words: which of them was seen there is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub same_words: usize,
    /// What the crashes before left, from the first one on, if the power failed while the program
    /// recovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crashes: Vec<String>,
    /// In how many of the recorded recoveries it was found; 0 if it is not of one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recoveries: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// An event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPlace {
    /// The node, by its place in the run.
    pub node: usize,
    /// Its event there.
    pub event: usize,
}

/// A call that looks like a sync and promises nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedNothing {
    /// The node that made it.
    pub node: String,
    /// What was called.
    pub call: String,
    /// Of which file, from the node's directory on.
    pub path: String,
    /// How often, after something of the file that is missing was done, and before the crash.
    pub times: usize,
}

/// Who was started before whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartStory {
    /// The order.
    pub order: Start,
    /// The nodes that were first.
    pub first: Vec<String>,
    /// Those that were started after them.
    pub later: Vec<String>,
}

/// One node in a crash state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStory {
    /// Its name.
    pub node: String,
    /// So many of its events had happened.
    pub events: usize,
    /// The last thing it had done.
    pub behind: Option<String>,
    /// What it did next, had it not crashed.
    pub before: Option<String>,
    /// Whether that had been begun.
    pub is_begun: bool,
    /// What was lost, in order.
    pub lost: Vec<Lost>,
    /// The operation of which only the first part reached the disk.
    pub midway: Option<Lost>,
    /// What persisted although it came after something that was lost.
    pub kept: Vec<String>,
    /// How much more of that there is.
    pub kept_more: usize,
    /// The event of the first of it.
    pub kept_from: Option<usize>,
    /// Where its files are not what they would be if nothing of what it had done were missing.
    #[serde(default)]
    pub files: Vec<Damage>,
    /// The disk, where the crash state is one of a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskStory>,
}

/// A node's disk in a crash state, and what its file system made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStory {
    /// The file system.
    pub file_system: String,
    /// The state of the disk: `lost-31@37` had been sent 37 requests, and lost the write at place
    /// 31.
    pub state: String,
    /// The writes that were lost, in order.
    pub lost: Vec<String>,
    /// How many writes the disk need not have kept.
    pub pending: usize,
    /// Where the directory is not what it was before the crash, after its file system has
    /// recovered.
    pub differs: Vec<String>,
    /// Of a disk that lost nothing: what was going on when it got what broke the promise, which was
    /// kept by what it had before. None if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<String>,
}

/// An operation that a disk has not, or not all of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lost {
    /// The system call.
    pub call: String,
    /// Where in the program it came from: a hash of the stack, in hexadecimal; none if it is not
    /// known.
    pub stack: Option<String>,
    /// The functions of the program that made the call, the innermost first; empty if they are not
    /// known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub called_by: Vec<String>,
    /// The file, from the node's directory on.
    pub path: String,
    /// What was done.
    pub words: String,
    /// How many of its parts are not there, if that is not all.
    pub parts: Option<(usize, usize)>,
    /// Its event.
    pub event: usize,
}

/// Something that had happened before the crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// On which node, by its place in `nodes`.
    pub node: usize,
    /// Its event there.
    pub event: usize,
    /// What was done.
    pub words: String,
    /// What is on the disk of it; none of what changes nothing there.
    pub fate: Option<Fate>,
    /// Of what was received, where it was sent: the place of the last such moment in the timeline.
    pub from: Option<usize>,
}

/// What a crash left of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// All.
    Kept,
    /// A part.
    InPart,
    /// Nothing.
    Lost,
}

/// A line that was printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The node.
    pub node: String,
    /// The line.
    pub line: String,
}

/// A call that the program did not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// The node that lost something.
    pub node: String,
    /// The other nodes that do the same from the same place of the program: the call is made there,
    /// too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_on: Vec<String>,
    /// The file or directory that it would have synced.
    pub path: String,
    /// What it would have had to come before.
    pub before: String,
    /// What it would have had to follow at once. None if it helps at any place since what was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At how many such places of the run: at one of them the finding is shown, and it is gone once
    /// the call is made at each.
    #[serde(default = "once")]
    pub times: usize,
    /// Of how many files, which are called alike.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub files: usize,
}

fn once() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_once(count: &usize) -> bool {
    *count == 1
}

/// What a crash did, in words.
pub fn relaxation_words(relaxation: Relaxation) -> &'static str {
    match relaxation {
        Relaxation::Prefix => "in order",
        Relaxation::Stopped => "stopped midway",
        Relaxation::Cut => "last one cut",
        Relaxation::Lost => "operations lost",
        Relaxation::Torn => "a write torn",
        Relaxation::Synced => "only what was synced",
        Relaxation::NamesOnly => "only names and what was synced",
        Relaxation::AllTorn => "all writes torn",
        Relaxation::OneKept => "only one write and what was synced",
    }
}

impl Finding {
    /// Where the crash was looked at.
    pub fn level(&self) -> Level {
        let is_of_disks = self.nodes.iter().any(|node| node.disk.is_some());
        match (self.recoveries > 0, is_of_disks) {
            (true, true) => Level::DiskRecovery,
            (true, false) => Level::Recovery,
            (false, true) => Level::Block,
            (false, false) => Level::Syscalls,
        }
    }

    /// Whether all that is lost is needed to break something, or all is lost at once.
    pub(crate) fn is_of_several_losses(&self) -> bool {
        let at_once = [
            Relaxation::Synced,
            Relaxation::NamesOnly,
            Relaxation::AllTorn,
            Relaxation::OneKept,
        ];
        self.lost_together().len() > 1 || at_once.map(relaxation_words).contains(&&*self.relaxation)
    }

    /// What is lost in place of all, if something is.
    pub(crate) fn lost_together(&self) -> &[EventPlace] {
        self.lost_together.as_deref().unwrap_or_default()
    }

    /// All that is lost in the state that it shows, if that is another one than that of the number.
    pub fn losses(&self) -> Option<Vec<Loss>> {
        let loss = |place: &EventPlace| Loss {
            node: place.node,
            event: place.event,
        };
        let losses = self.lost_together.as_ref()?;
        Some(losses.iter().map(loss).collect())
    }

    /// Which state it shows.
    pub fn address(&self) -> Address {
        Address {
            level: self.level(),
            state: self.state,
        }
    }
}
