//! What happened in a run.

use serde::{Deserialize, Serialize};

use super::points::SeenPoint;
use super::want::{Agreement, WANTED};
use crate::laboratory::Judged;
use specification::{Examined, Unlooked, Violated};

/// A run of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// What happened, in order.
    pub events: Vec<RunEvent>,
    /// Of each process of the history the name of its client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<String>,
    /// What came of each fault of the plan.
    pub faults: Vec<FaultCame>,
    /// What happened of that which should sometimes.
    #[serde(default)]
    pub reached: Vec<String>,
    /// How many operations were acknowledged, to all clients.
    pub acknowledged: u64,
    /// Of these, before the cluster was healed.
    pub acknowledged_before_heal: u64,
    /// How long the clients ran, until the cluster was healed and had been asked, in seconds.
    pub seconds: f64,
    /// What came of it.
    #[serde(flatten)]
    pub judged: Judged,
    /// Whether it could not go on to its end, or was not made: then nothing was held against it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_short: bool,
    /// What else has to be known to believe that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why what is broken may be nothing of the system: who was killed by somebody else, and what else was
    /// not as the plan has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) doubts: Vec<String>,
    /// What it violates of the specifications that it was held against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violated>,
    /// What of these had nothing to look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlooked: Vec<Unlooked>,
    /// The rules of `[[histories]]` of whose objects no operation was answered with anything that can be
    /// wrong, in words: of these it says nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unjudged: Vec<String>,
    /// The calls that nodes made since the last fault was put in place (none is `heal`), or all if there was
    /// none, until the faults of the plan were over; none if they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<SeenPoint>,
    /// Whether some of these are missing: then nothing follows from which they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_lost_points: bool,
    /// In a search, what of what is wanted its logs show that is not in those of a run without
    /// failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
    /// Which run of simulated machines it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedRun>,
}

/// A run of simulated machines: for the same plan and seed it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedRun {
    /// The seed of the machines.
    pub seed: u64,
    /// What two equal runs have in common ([`simulation::Simulation::history`]).
    pub history: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEvent {
    /// When, from the start of the clients on, in nanoseconds.
    pub time_ns: u64,
    /// How many operations had been acknowledged by then.
    pub acknowledged: u64,
    /// What.
    #[serde(flatten)]
    pub what: Happening,
}

/// What may happen in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Happening {
    /// A fault is in place.
    InPlace {
        /// Its number in the plan, from 1 on.
        fault: usize,
        /// In words.
        words: String,
    },
    /// It could not be put in place.
    NotInjected {
        /// Its number.
        fault: usize,
        /// Why.
        why: String,
    },
    /// It has ended, and that was verified.
    Undone {
        /// Its number.
        fault: usize,
    },
    /// A node makes a system call that was waited for, or that a fault hits for the first time.
    Call {
        /// The node's name.
        node: String,
        /// The call, and what comes of it.
        words: String,
    },
    /// A node has another role than before.
    Role {
        /// The node's name.
        node: String,
        /// The role.
        role: String,
        /// What else the probe says of it.
        more: String,
    },
    /// A node has ended by itself.
    NodeEnded {
        /// Its name.
        node: String,
        /// How.
        how: String,
    },
    /// A node that was started again is ready.
    Ready {
        /// Its name.
        node: String,
    },
    /// A node that was started again is not.
    NotReady {
        /// Its name.
        node: String,
        /// What it does instead.
        why: String,
    },
    /// A client has ended.
    ClientEnded {
        /// Its name.
        client: String,
        /// How.
        how: String,
    },
    /// The probe gave no answer, or says that those of some nodes are wrong.
    ProbeFailed {
        /// Why.
        why: String,
    },
    /// Only these nodes are restored: all others are cut off from now on, until everything is healed.
    Restored {
        /// Their names.
        nodes: Vec<String>,
    },
    /// From now on no fault is in place, and all nodes are ready.
    Healed,
    /// An operation was acknowledged after that.
    Progress,
    /// The check has answered.
    Checked,
}

/// What came of a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCame {
    /// How far it came.
    pub state: State,
    /// When its trigger fired, in nanoseconds.
    pub fired_ns: Option<u64>,
    /// When it was in place.
    pub placed_ns: Option<u64>,
    /// When its end was verified.
    pub undone_ns: Option<u64>,
    /// Whom it hit, by name.
    pub on: Vec<String>,
    /// Of a fault of links who is on each side: nodes, and clients that have a side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<(Vec<String>, Vec<String>)>,
    /// How many system calls, or requests to disks, it has hit, if it is a fault of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// What is not as it was to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How far a fault came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its trigger never fired.
    NeverFired,
    /// It could not be put in place.
    NotInjected,
    /// It was in place.
    InPlace,
    /// And it has ended, which was verified.
    Undone,
}

impl FaultCame {
    pub(crate) fn not_yet() -> Self {
        Self {
            state: State::NeverFired,
            fired_ns: None,
            placed_ns: None,
            undone_ns: None,
            on: Vec::new(),
            sides: None,
            calls: None,
            why: None,
        }
    }

    /// Whether it was in place at some time, and hit something. A `heal` hits nobody.
    pub fn happened(&self) -> bool {
        let was_in_place = matches!(self.state, State::InPlace | State::Undone);
        was_in_place && !self.on.is_empty() && self.calls != Some(0)
    }
}

/// What is said of a node that somebody else killed.
pub(crate) const NO_FAULT: &str = "no fault did that, and its machine may be short of memory: try fewer --jobs, or more `memory_mib`";

/// What is said of a node that ended by itself, where the cluster file does not say whether it may.
pub(super) const UNEXPLAINED: &str = "no fault of its calls, disk or clock explains that";

/// Why what is broken is inconclusive, where something else may have done it.
pub(crate) fn doubtful(broken: &[String], doubts: &[String]) -> String {
    let (broken, doubts) = (broken.join("; "), doubts.join("; "));
    format!("{broken}; that may come of this: {doubts}")
}

/// What a run whose failure point did not come up says of itself.
const MISSED: &str = "a failure point did not come up";

impl Ran {
    /// Whether a fault waited for a call that did not come, or hit none.
    pub fn missed_its_point(&self) -> bool {
        let missed = |came: &FaultCame| came.state == State::NeverFired || came.calls == Some(0);
        !self.is_cut_short && self.faults.iter().any(missed)
    }

    /// It was tried again for that, and came to the same.
    pub(super) fn missed_again(&mut self) {
        self.notes.push(format!("{MISSED} in two runs"));
    }

    /// Whether a node had a role before the first fault.
    pub fn began_with(&self, role: &str) -> bool {
        let is_before = |event: &&RunEvent| !matches!(event.what, Happening::InPlace { .. });
        let mut before = self.events.iter().take_while(is_before);
        before.any(|event| matches!(&event.what, Happening::Role { role: has, .. } if has == role))
    }

    /// Whether a node ended by itself, which is only told.
    pub fn has_unexplained_end(&self) -> bool {
        self.notes.iter().any(|note| note.contains(UNEXPLAINED))
    }

    /// Whether it shows what a search is for.
    pub fn shows_wanted(&self) -> bool {
        let mut violations = self.violations.iter();
        violations.any(|violated| violated.specification == WANTED)
    }

    /// Whether it has something to show. Then it stands, whatever else it was to come to.
    pub(super) fn is_something(&self) -> bool {
        self.broken().is_some() || self.shows_wanted()
    }

    /// What is broken, if something is.
    pub fn broken(&self) -> Option<&[String]> {
        match &self.judged {
            Judged::Broken { broken } => Some(broken),
            _ => None,
        }
    }
}

impl Ran {
    /// Takes in what specifications come to: what they know to be broken is. As with the check, that
    /// counts only if a fault was in place, or the plan has none, and if nothing else may have done it.
    pub fn take_in(&mut self, examined: Examined, has_no_faults: bool) {
        let Examined {
            violated,
            unlooked,
            unsaid,
        } = examined;
        self.unlooked = unlooked;
        self.violations = violated;
        if !self.violations.is_empty() {
            self.take_in_violations(has_no_faults);
        }
        if let Some(why) = unsaid {
            self.not_examined(&why);
        }
    }

    fn take_in_violations(&mut self, has_no_faults: bool) {
        let words: Vec<_> = self.violations.iter().map(Violated::words).collect();
        let was_hit = self.was_hit(has_no_faults);
        let judged = match &mut self.judged {
            Judged::Broken { broken } => {
                broken.extend(words);
                return;
            }
            _ if !was_hit => {
                let why = format!(
                    "a specification is violated, although no fault of the plan was in place: {}",
                    words.join("; ")
                );
                Judged::Inconclusive { why }
            }
            _ if self.doubts.is_empty() => Judged::Broken { broken: words },
            _ => {
                let why = doubtful(&words, &self.doubts);
                Judged::Inconclusive { why }
            }
        };
        // What else is not as it was to be has to be known to believe that.
        if let Judged::Inconclusive { why } = std::mem::replace(&mut self.judged, judged) {
            self.notes.push(why);
        }
    }

    /// Whether a fault was in place, or its plan has none: if not, what is broken says nothing.
    fn was_hit(&self, has_no_faults: bool) -> bool {
        has_no_faults || self.faults.iter().any(FaultCame::happened)
    }

    /// Why what rules say is violated in it is not certain, where its plan may have no faults.
    pub fn doubt(&self, has_no_faults: bool) -> Option<String> {
        if self.is_cut_short {
            return Some("the run was cut short: what is absent may have come later".into());
        }
        if !self.was_hit(has_no_faults) {
            return Some("no fault was in place: what is violated did not come of one".into());
        }
        let doubts = match &self.doubts[..] {
            [] => self.killed(),
            doubts => doubts.to_vec(),
        };
        let because = || format!("what is violated may come of this: {}", doubts.join("; "));
        (!doubts.is_empty()).then(because)
    }

    /// Which nodes were killed by somebody else: that is a doubt, which runs of old do not have.
    fn killed(&self) -> Vec<String> {
        let killed = self.events.iter().filter_map(|event| match &event.what {
            Happening::NodeEnded { node, how } if cluster::is_killed(how) => {
                Some(format!("{node} {how}; {NO_FAULT}"))
            }
            _ => None,
        });
        killed.collect()
    }

    /// Takes back that it shows what a search is for.
    pub fn take_back_wanted(&mut self, why: &str) {
        let is_wanted = |violated: &Violated| violated.specification == WANTED;
        let words: Vec<_> = self
            .violations
            .extract_if(.., |violated| is_wanted(violated))
            .map(|violated| violated.words())
            .collect();
        if let Judged::Broken { broken } = &mut self.judged {
            broken.retain(|line| !words.contains(line));
            if broken.is_empty() {
                self.judged = Judged::Inconclusive { why: why.into() };
                return;
            }
        }
        self.notes.push(why.into());
    }

    /// Takes in that specifications could not be held against it: it is no pass then.
    pub fn not_examined(&mut self, why: &dyn std::fmt::Display) {
        let why = format!("specifications: {why}");
        if self.judged == Judged::Ok {
            self.judged = Judged::Inconclusive { why };
        } else {
            self.notes.push(why);
        }
    }

    /// Takes in that not all could be kept that it left: it came to what it did.
    pub fn not_kept(&mut self, why: &dyn std::fmt::Display) {
        self.notes
            .push(format!("not all that it left was kept: {why}"));
    }

    /// A run that came to this, of which nothing else is known.
    pub(crate) fn of(judged: Judged) -> Self {
        Self {
            events: Vec::new(),
            processes: Vec::new(),
            faults: Vec::new(),
            reached: Vec::new(),
            acknowledged: 0,
            acknowledged_before_heal: 0,
            seconds: 0.0,
            judged,
            is_cut_short: false,
            notes: Vec::new(),
            doubts: Vec::new(),
            violations: Vec::new(),
            unlooked: Vec::new(),
            unjudged: Vec::new(),
            points: Vec::new(),
            has_lost_points: false,
            agreement: None,
            simulated: None,
        }
    }

    /// A run that could not be made.
    pub(super) fn without(error: &cluster::Error) -> Self {
        let why = error.to_string();
        Self {
            is_cut_short: true,
            ..Self::of(Judged::Inconclusive { why })
        }
    }
}
