//! What disks keep of what no flush covered when the power fails.

use std::fmt;
use std::str::FromStr;

use pace_rules::disk::{InvalidStates, Kind, Log, Relaxation, Space, State, States};
use serde::{Deserialize, Serialize};
use simulation::Chance;

/// One case of two, in parts of a million.
const HALF: u32 = 500_000;

/// What a disk keeps of what no flush covered. It is written as the word of [`States`] that asks for
/// it; which of several such states it is, the seed says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Keeps {
    /// Nothing of it: what a disk does whose cache is lost.
    Flushed,
    /// All of it.
    Prefix,
    /// All but so many writes at most; with `usize::MAX`, each write or not.
    Reorder(usize),
    /// All but a part of one write, which is torn between units of so many bytes.
    Torn(u64),
    /// Both: some writes are lost, and another one is torn.
    Mixed(usize, u64),
}

impl Keeps {
    /// Those that are asked for.
    pub fn of(states: &States) -> Vec<Self> {
        let (reorder, unit_bytes) = (states.reorder(), states.torn_unit_bytes());
        let mixed = unit_bytes.filter(|_| states.mixed());
        let all = [
            states.flushed().then_some(Self::Flushed),
            states.prefix().then_some(Self::Prefix),
            (reorder > 0).then_some(Self::Reorder(reorder)),
            unit_bytes.map(Self::Torn),
            mixed.map(|unit_bytes| Self::Mixed(reorder, unit_bytes)),
        ];
        all.into_iter().flatten().collect()
    }

    /// In words: what is kept.
    pub fn words(self) -> String {
        match self {
            Self::Flushed => "what was flushed".into(),
            Self::Prefix => "everything".into(),
            Self::Reorder(usize::MAX) => "some of the rest".into(),
            Self::Reorder(1) => "all but one write".into(),
            Self::Reorder(most) => format!("all but 1 to {most} writes"),
            Self::Torn(_) => "all but part of a write".into(),
            Self::Mixed(..) => "all but some, one torn".into(),
        }
    }

    /// One such state of a disk with this log, at its end. A disk that has nothing to lose or tear
    /// keeps everything.
    pub(crate) fn draw(self, log: &Log, chance: &mut Chance) -> Relaxation {
        let is_one: fn(Kind) -> bool = match self {
            Self::Flushed => return Relaxation::Flushed,
            Self::Prefix => return Relaxation::Prefix,
            Self::Reorder(usize::MAX) => return some(log, chance),
            Self::Reorder(_) => |kind| matches!(kind, Kind::Lost(_)),
            Self::Torn(_) => |kind| kind == Kind::Torn(0),
            Self::Mixed(..) => |kind| matches!(kind, Kind::Torn(1..)),
        };
        let states: States = self.to_string().parse().expect("they can be asked for");
        let space = Space::new(log, &[log.len()], &states, 0);
        let ours = || space.kinds().filter(|(kind, _)| is_one(*kind));
        let count = ours().fold(0_u128, |count, (_, states)| count.saturating_add(states));
        let state = nth_of(&space, is_one, below(chance, count));
        state.map_or(Relaxation::Prefix, |state| state.relaxation)
    }
}

/// The state of this number among those of some kinds.
fn nth_of(space: &Space<'_>, is_one: fn(Kind) -> bool, mut number: u128) -> Option<State> {
    let mut before = 0;
    for (kind, states) in space.kinds() {
        if is_one(kind) {
            if number < states {
                return space.get(before + number);
            }
            number -= states;
        }
        before += states;
    }
    None
}

/// Each write is lost in one of two cases: all sets of writes are as likely.
fn some(log: &Log, chance: &mut Chance) -> Relaxation {
    let pending = log.pending(log.len()).into_iter();
    let lost: Vec<_> = pending.filter(|_| chance.happens(HALF)).collect();
    if lost.is_empty() {
        Relaxation::Prefix
    } else {
        Relaxation::Lost(lost)
    }
}

/// A number below `end`; 0 if there is none.
fn below(chance: &mut Chance, end: u128) -> u128 {
    match u64::try_from(end) {
        Ok(end) => chance.below(end).into(),
        Err(_) => (u128::from(chance.number()) << u64::BITS | u128::from(chance.number())) % end,
    }
}

impl fmt::Display for Keeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reorder = |most: usize| match most {
            usize::MAX => "reorder:all".to_owned(),
            most => format!("reorder:{most}"),
        };
        match *self {
            Self::Flushed => f.write_str("flushed"),
            Self::Prefix => f.write_str("prefix"),
            Self::Reorder(most) => f.write_str(&reorder(most)),
            Self::Torn(unit_bytes) => write!(f, "torn:{unit_bytes}"),
            Self::Mixed(most, unit_bytes) => {
                write!(f, "{},torn:{unit_bytes},mixed", reorder(most))
            }
        }
    }
}

impl FromStr for Keeps {
    type Err = InvalidStates;

    fn from_str(text: &str) -> Result<Self, InvalidStates> {
        // Of the words that are both, it is the last.
        let states: States = text.parse()?;
        Ok(Self::of(&states).pop().unwrap_or(Self::Prefix))
    }
}

impl TryFrom<String> for Keeps {
    type Error = InvalidStates;

    fn try_from(text: String) -> Result<Self, InvalidStates> {
        text.parse()
    }
}

impl From<Keeps> for String {
    fn from(keeps: Keeps) -> Self {
        keeps.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pace_rules::disk::{Disk, Request, State, Write};

    use super::*;

    /// A write, a flush, and three writes of two sectors.
    fn log() -> Log {
        let write = |place: usize| {
            Request::Write(Write {
                fua: false,
                offset: place as u64 * 1024,
                length: 1024,
                completed: place + 1,
                priority: 0,
            })
        };
        let requests = [write(0), Request::Flush, write(2), write(3), write(4)];
        Log::new(&requests, 0, Disk::Honest)
    }

    fn drawn(keeps: &str) -> BTreeSet<String> {
        let keeps: Keeps = keeps.parse().expect("known");
        let draw = |seed| {
            let relaxation = keeps.draw(&log(), &mut Chance::new(seed, "disk"));
            let state = State {
                position: log().len(),
                relaxation,
            };
            log().check(&state).expect("a power failure may cost that");
            state.relaxation.to_string()
        };
        (0..200).map(draw).collect()
    }

    fn all(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn each_state_that_was_asked_for_is_drawn_and_no_other() {
        assert_eq!(drawn("flushed"), all(&["flushed"]));
        assert_eq!(drawn("prefix"), all(&["prefix"]));
        assert_eq!(drawn("reorder:1"), all(&["lost-2", "lost-3", "lost-4"]));
        assert_eq!(drawn("reorder:2").len(), 6);
        assert_eq!(drawn("reorder:all").len(), 8, "every set of three");
        let torn = drawn("torn:512");
        assert_eq!(torn.len(), 6, "{torn:?}");
        assert!(
            torn.iter().all(|text| text.starts_with("torn-")),
            "{torn:?}"
        );
        let mixed = drawn("reorder:1,torn:512,mixed");
        assert_eq!(mixed.len(), 12, "{mixed:?}");
        assert!(
            mixed.iter().all(|text| text.contains("-torn-")),
            "{mixed:?}"
        );
    }

    #[test]
    fn a_disk_without_anything_to_lose_keeps_everything() {
        let log = Log::new(&[Request::Flush], 0, Disk::Honest);
        for keeps in ["reorder:1", "reorder:all", "torn:512", "all"] {
            let keeps: Keeps = keeps.parse().expect("known");
            let drawn = keeps.draw(&log, &mut Chance::new(1, "disk"));
            assert_eq!(drawn, Relaxation::Prefix);
        }
    }

    #[test]
    fn what_is_kept_is_named_as_it_is_asked_for() {
        for text in [
            "flushed",
            "prefix",
            "reorder:1",
            "reorder:all",
            "torn:512",
            "reorder:2,torn:4096,mixed",
        ] {
            let keeps: Keeps = text.parse().expect("known");
            assert_eq!(keeps.to_string(), text);
        }
        let states: States = "flushed,prefix,reorder:2,torn:512,mixed"
            .parse()
            .expect("known");
        assert_eq!(Keeps::of(&states).len(), 5);
    }
}
