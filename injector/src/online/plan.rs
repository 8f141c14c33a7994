//! What a plan says.

use std::path::Path;
use std::time::Duration;

use block_dev::Corruption;
use cluster::ClusterFile;
use serde::{Deserialize, Serialize};
use simulation::Amount;

use super::disk_fault::DiskFault;
use super::errno::Errno;
use super::message::MessageOf;
use super::parse::{self, PlanError};
use super::requests::RequestOf;
use super::sent::Sent;
use super::worse::Worse;
use crate::disks::Keeps;

/// Faults in order, and what else a run goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    /// What is drawn is drawn with it; the clients have it in their environment.
    pub seed: u64,
    /// How many operations clients are to do at most.
    pub operations: Option<u64>,
    /// How long a trigger is waited for after the clients have ended.
    pub within: Duration,
    /// How long the cluster has to make progress after the heal.
    pub progress_within: Duration,
    /// So long after a node has ended by itself it is started again, if at all before everything is
    /// healed.
    pub restart_after: Option<Duration>,
    /// Whether only a majority is restored at first, and has to make progress before all others are.
    pub restores_majority: bool,
    /// The faults. The trigger of each is looked at from when the one before it is in place.
    pub faults: Vec<PlannedFault>,
}

/// A fault that is to happen.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFault {
    /// At what.
    pub at: Trigger,
    /// What happens.
    pub what: What,
    /// To whom; nobody for [`What::Heal`].
    pub on: Vec<Selector>,
    /// When it ends. One without an end lasts until everything is healed after the clients' end.
    pub until: Option<Trigger>,
}

/// What happens to those that are selected.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// All processes are killed at once (SIGKILL). Its end starts the node again.
    Kill,
    /// The power fails, silently, and the disk keeps this. Its end starts the node again.
    PowerLoss(Keeps),
    /// All processes are stopped; their kernel still answers. Its end has them go on.
    Pause,
    /// Their machines stand still, with kernels and clocks: nobody answers. Its end has them go on.
    Freeze,
    /// Those that stand still go on.
    Resume,
    /// They are killed, and started again at once.
    Restart,
    /// They are cut off from others. Its end heals the links.
    Partition {
        /// From whom.
        from: Vec<Selector>,
        /// Which of the messages between them are lost.
        flow: Flow,
        /// When it begins, if not at once.
        begins: Option<Begins>,
    },
    /// What is sent between them and others is lost, doubled, late or slow, as the seed says. Its end
    /// has links be as ever.
    Link {
        /// Between them and whom.
        from: Vec<Selector>,
        /// Which of the messages.
        flow: Flow,
        /// How much worse links are.
        worse: Worse,
    },
    /// Their time of day jumps by so many nanoseconds. Its end has it jump back.
    Clock(i64),
    /// Their clocks run so many parts of a million faster. Its end has them run as before; what they have
    /// gained stays.
    Drift(i32),
    /// Their disks fail, delay or corrupt some requests. Its end has them answer as ever. After failures the
    /// nodes boot again: a file system that has seen an error may refuse to write until it is mounted again.
    Disk(DiskFault),
    /// Some of their system calls come to something else. Its end leaves calls alone.
    Call(CallFault),
    /// All faults that are in place end.
    Heal,
}

/// When a partition begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Begins {
    /// Once so much of what is to be lost has passed, the last message whole.
    After(Amount),
    /// With this message, which is the first that is lost.
    With(MessageOf),
}

/// Which system calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOf {
    /// What a plan calls them.
    pub call: String,
    /// Of which files; without it all of the node's data.
    pub path: Option<String>,
    /// From where in the program: the number of a stack, as the table of failure points has it.
    pub site: Option<u64>,
    /// Which of them, from 1 on, since it was first waited for.
    pub nth: u64,
}

/// A fault of system calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallFault {
    /// Which calls, from which on.
    pub of: CallOf,
    /// Whether only one is hit on each node.
    pub once: bool,
    /// What comes of them.
    pub comes: Comes,
}

/// What comes of a system call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Comes {
    /// It is not made, and fails.
    Fails(Errno),
    /// Of its bytes at most so many are used.
    Short(u64),
    /// It takes so much longer.
    Slow(Duration),
    /// It waits until the fault ends, and is made then, or fails.
    Held(Option<Errno>),
    /// What it reads or writes is not what it should be, and nobody says so.
    Corrupt(Corruption),
}

impl Comes {
    /// What becomes of the bytes of a call, in words.
    pub(super) fn words_of_bytes(&self) -> &'static str {
        match self {
            Self::Corrupt(what) => what.words(),
            _ => "",
        }
    }

    /// What a call has to have to be hit, in words.
    pub(super) fn needs_of_calls(&self) -> &'static str {
        match self {
            Self::Corrupt(_) => " with bytes that it changes",
            _ => "",
        }
    }
}

/// When, at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moment {
    /// Right before it is made.
    #[default]
    Before,
    /// When it has been made, before the program knows.
    After,
}

impl What {
    /// As a plan calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerLoss(_) => "power-loss",
            Self::Pause => "pause",
            Self::Freeze => "freeze",
            Self::Resume => "resume",
            Self::Restart => "restart",
            Self::Partition { .. } => "partition",
            Self::Call(_) => "call",
            Self::Link { .. } => "link",
            Self::Clock(_) | Self::Drift(_) => "clock",
            Self::Disk(_) => "disk",
            Self::Heal => "heal",
        }
    }
}

/// Which of the messages between two groups are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flow {
    /// All.
    #[default]
    Both,
    /// What those that are cut off send.
    Out,
    /// What they would receive.
    In,
}

/// Which nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The one with this name.
    Node(String),
    /// All of this kind.
    Kind(String),
    /// One that has this role; of several that with the highest term, then the first of the file.
    Role(String),
    /// All that have this role.
    EveryRole(String),
    /// All.
    All,
    /// One, as the seed says.
    Any,
    /// The smallest majority, as the seed says: all that are not in the minority.
    Majority,
    /// The largest minority, as the seed says.
    Minority,
    /// All that are not cut off.
    Others,
    /// Those that the last fault before has hit.
    Hit,
}

/// Something that a fault, or its end, waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// What that is.
    pub awaited: Awaited,
    /// How long it takes from then on.
    pub delay: Duration,
    /// What is waited for after that: it fires when that does.
    pub then: Option<Box<Trigger>>,
}

/// What can be waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum Awaited {
    /// So much time since the clients were started.
    Time(Duration),
    /// So much time since the last fault was put in place.
    After(Duration),
    /// The clients, or this one, have printed so many lines.
    Lines(Option<String>, u64),
    /// They have begun so many operations.
    Invoked(Option<String>, u64),
    /// So many operations were acknowledged to them.
    Acknowledged(Option<String>, u64),
    /// So many more than when this was first waited for.
    AcknowledgedMore(Option<String>, u64),
    /// A node, or this one, logs a line with this in it.
    Log(Option<String>, String),
    /// A node, or this one, has a role.
    Role(Option<String>, String),
    /// A node has a role that did not have it when this was first waited for.
    Changed(String),
    /// A node, or this one, has another value with a name than when this was first waited for.
    Value(Option<String>, String),
    /// A node, or one of these, makes a system call.
    Call {
        /// Which.
        of: CallOf,
        /// Who.
        on: Option<Selector>,
        /// Before or after it. The call is held there until the fault is in place.
        when: Moment,
    },
    /// The disk of a node, or of one of these, is asked for something.
    Request {
        /// For what.
        of: RequestOf,
        /// Whose.
        on: Option<Selector>,
        /// Before it is done, or when it was, before the node knows. It is held there until the fault is in
        /// place.
        when: Moment,
    },
    /// So much was sent since it was first waited for.
    Sent(Sent),
    /// The last fault has ended.
    Ended,
    /// Each of these has fired, in whichever order.
    All(Vec<Trigger>),
    /// One of these has fired.
    Any(Vec<Trigger>),
}

impl Trigger {
    /// When that has come, without a delay.
    pub fn at(awaited: Awaited) -> Self {
        Self {
            awaited,
            delay: Duration::ZERO,
            then: None,
        }
    }
}

impl Awaited {
    /// Whether the probe has to say it.
    pub fn needs_roles(&self) -> bool {
        match self {
            Self::Role(..) | Self::Changed(_) | Self::Value(..) => true,
            _ => self.selectors().any(Selector::needs_roles),
        }
    }

    /// All nodes that are named otherwise than by name alone.
    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let (on, sent) = match self {
            Self::Call { on, .. } | Self::Request { on, .. } => (on.as_ref(), None),
            Self::Sent(sent) => (None, Some(sent)),
            _ => (None, None),
        };
        on.into_iter()
            .chain(sent.into_iter().flat_map(Sent::selectors))
    }
}

impl Selector {
    /// Whether the probe has to say it.
    pub fn needs_roles(&self) -> bool {
        matches!(self, Self::Role(_) | Self::EveryRole(_))
    }
}

impl PlannedFault {
    /// All who are named: those that it hits, those that they are cut off from, and those whose message
    /// it begins with.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let from: &[Selector] = match &self.what {
            What::Partition { from, .. } | What::Link { from, .. } => from,
            _ => &[],
        };
        let message = match &self.what {
            What::Partition {
                begins: Some(Begins::With(message)),
                ..
            } => Some(message),
            _ => None,
        };
        let counted = message.into_iter().flat_map(MessageOf::selectors);
        self.on.iter().chain(from).chain(counted)
    }

    /// Whether it is about those that a fault before it has hit.
    pub(super) fn needs_a_fault_before(&self) -> bool {
        let awaited = self.at.single().into_iter().flat_map(Awaited::selectors);
        let mut all = awaited.chain(self.selectors());
        all.any(|one| *one == Selector::Hit)
    }

    /// All single things that it waits for, and that its end does.
    pub(super) fn awaited(&self) -> impl Iterator<Item = &Awaited> + Clone {
        let triggers = [Some(&self.at), self.until.as_ref()];
        triggers.into_iter().flatten().flat_map(Trigger::single)
    }
}

impl FaultPlan {
    /// What each of its faults is called.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.faults.iter().map(|fault| fault.what.name()).collect()
    }

    /// How long a trigger is waited for after the clients' end, if it is not said.
    pub const WITHIN: Duration = Duration::from_secs(30);

    /// How long the cluster has to make progress, if it is not said.
    pub const PROGRESS_WITHIN: Duration = Duration::from_secs(60);

    /// One with these faults, and what is usual.
    pub fn new(seed: u64, faults: Vec<PlannedFault>) -> Self {
        Self {
            seed,
            operations: None,
            within: Self::WITHIN,
            progress_within: Self::PROGRESS_WITHIN,
            restart_after: None,
            restores_majority: false,
            faults,
        }
    }

    /// Takes the text of one apart, which is for a cluster. `path` is for messages.
    ///
    /// # Errors
    /// With line and column, if it does not follow the syntax, or names what there is not.
    pub fn parse(text: &str, path: &Path, file: &ClusterFile) -> Result<Self, PlanError> {
        parse::parse(text, path, file)
    }

    /// Whether it has to do with system calls.
    pub fn needs_calls(&self) -> bool {
        self.calls().next().is_some()
    }

    /// Fails if it asks for what its ground cannot do: that of simulated machines, or of namespaces.
    ///
    /// # Errors
    /// In words, with the number of the fault.
    pub fn refuse_on(&self, is_simulated: bool) -> Result<(), String> {
        type Refused = (bool, fn(&PlannedFault) -> bool, &'static str);
        const REFUSED: [Refused; 3] = [
            (
                false,
                |fault| fault.what == What::Freeze,
                "freezes a machine, and only simulated ones can be frozen: give --simulate, or have \
                 it `pause`",
            ),
            (
                false,
                |fault| matches!(fault.what, What::Clock(_)),
                "has a clock jump, and only simulated machines have clocks of their own: give \
                 --simulate",
            ),
            (
                false,
                |fault| matches!(fault.what, What::Drift(_)),
                "has a clock drift, and only simulated machines have clocks of their own: give \
                 --simulate",
            ),
        ];
        for (where_simulated, is_refused, why) in REFUSED {
            if where_simulated == is_simulated
                && let Some(place) = self.faults.iter().position(is_refused)
            {
                return Err(format!("fault {} {why}", place + 1));
            }
        }
        Ok(())
    }

    /// Whether it is to be counted what is sent.
    pub fn needs_counts(&self) -> bool {
        let mut awaited = self.faults.iter().flat_map(PlannedFault::awaited);
        awaited.any(|awaited| matches!(awaited, Awaited::Sent(_)))
    }

    /// Whether somebody has to say which roles nodes have.
    pub fn needs_roles(&self) -> bool {
        self.faults.iter().any(|fault| {
            fault.awaited().any(Awaited::needs_roles)
                || fault.selectors().any(Selector::needs_roles)
        })
    }
}
