//! One disk: which of the requests it answered are still there when the power comes back.
//!
//! [`log::Log`] reads a log: which writes a crash may still cost, and which none may. [`State`]
//! is one crash state of it, [`States`] says which kinds of them to visit, and [`Space`] has them
//! all: counted, ordered and addressable.

mod combinations;
pub mod log;
mod sample;
mod space;
mod state;
mod states;
mod tear;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use log::Log;
pub use space::Space;
pub use state::{NotAState, Relaxation, State};
pub use states::{InvalidStates, States};

/// What matters of a request to a disk, in the order of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A write (a discard is one of zeros). With `fua` it is durable when it is answered.
    Write {
        /// Forced unit access.
        fua: bool,
    },
    /// Every write answered before it is durable when it is answered.
    Flush,
    /// No effect on what is durable.
    Nothing,
}

/// How a disk keeps its word: a reading of a log, not another recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Disk {
    /// As it should.
    #[default]
    Honest,
    /// Flushes cover nothing; FUA writes cover themselves.
    DropFlush,
    /// FUA writes are taken for ordinary ones.
    DropFua,
    /// The N-th write of the run, counted from 1, never happened.
    LoseWrite(u32),
}

/// Which requests of a log a crash state is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// All that was written so far, in order: B3's states.
    Prefix,
    /// Only what a flush or FUA had covered: a disk with a volatile cache may hold no more.
    Flushed,
}

impl Selection {
    /// Every selection, in the order in which they are visited.
    pub const ALL: [Self; 2] = [Self::Prefix, Self::Flushed];
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "prefix",
            Self::Flushed => "flushed",
        })
    }
}

impl FromStr for Selection {
    type Err = UnknownSelection;

    fn from_str(text: &str) -> Result<Self, UnknownSelection> {
        Self::ALL.into_iter().find(|state| state.to_string() == text).ok_or_else(|| UnknownSelection(text.into()))
    }
}

/// Not a selection that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSelection(String);

impl fmt::Display for UnknownSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown crash state '{}': expected prefix or flushed", self.0)
    }
}

impl std::error::Error for UnknownSelection {}

/// The places of the requests that a crash state holds, in order, for a crash behind the last
/// of `requests`. The first `durable` of them belong to the setup, which every disk kept.
pub fn kept(requests: &[Request], durable: usize, selection: Selection, disk: Disk) -> Vec<usize> {
    let mut keep = vec![false; requests.len()];
    let mut unflushed = Vec::new();
    let mut run_writes = 0;
    for (place, request) in requests.iter().enumerate() {
        match *request {
            Request::Write { fua } => {
                let in_setup = place < durable;
                run_writes += u32::from(!in_setup);
                if !in_setup && disk == Disk::LoseWrite(run_writes) {
                    continue;
                }
                let covered = in_setup || selection == Selection::Prefix || (fua && disk != Disk::DropFua);
                keep[place] = covered;
                if !covered {
                    unflushed.push(place);
                }
            }
            Request::Flush if disk != Disk::DropFlush => {
                unflushed.drain(..).for_each(|write| keep[write] = true);
            }
            Request::Flush | Request::Nothing => {}
        }
    }
    keep.iter().enumerate().filter(|(_, keep)| **keep).map(|(place, _)| place).collect()
}

/// Not a disk that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDisk(String);

impl fmt::Display for UnknownDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown disk '{}': expected honest, drop-flush, drop-fua or lose-write:N with N from 1", self.0)
    }
}

impl std::error::Error for UnknownDisk {}

impl FromStr for Disk {
    type Err = UnknownDisk;

    fn from_str(text: &str) -> Result<Self, UnknownDisk> {
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        match text {
            "honest" => Ok(Self::Honest),
            "drop-flush" => Ok(Self::DropFlush),
            "drop-fua" => Ok(Self::DropFua),
            _ => text.strip_prefix("lose-write:").and_then(number).map(Self::LoseWrite).ok_or(UnknownDisk(text.into())),
        }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Honest => f.write_str("honest"),
            Self::DropFlush => f.write_str("drop-flush"),
            Self::DropFua => f.write_str("drop-fua"),
            Self::LoseWrite(number) => write!(f, "lose-write:{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const W: Request = Request::Write { fua: false };
    const FUA: Request = Request::Write { fua: true };
    const F: Request = Request::Flush;

    #[test]
    fn a_flush_covers_what_came_before_it_and_fua_covers_itself_alone() {
        let log = [W, F, W, FUA, W];
        assert_eq!(kept(&log, 0, Selection::Prefix, Disk::Honest), [0, 2, 3, 4]);
        assert_eq!(kept(&log, 0, Selection::Flushed, Disk::Honest), [0, 3]);
    }

    #[test]
    fn a_lying_disk_keeps_less() {
        let log = [W, F, W, FUA, F, W];
        assert_eq!(kept(&log, 0, Selection::Flushed, Disk::DropFlush), [3]);
        assert_eq!(kept(&log, 2, Selection::Flushed, Disk::DropFlush), [0, 3]);
        assert_eq!(kept(&[W, FUA], 0, Selection::Flushed, Disk::DropFua), Vec::<usize>::new());
        assert_eq!(kept(&log, 2, Selection::Prefix, Disk::LoseWrite(1)), [0, 3, 5]);
        assert_eq!(kept(&log, 0, Selection::Flushed, Disk::LoseWrite(1)), [2, 3]);
    }

    #[test]
    fn disks_are_named_as_they_are_asked_for() {
        for disk in [Disk::Honest, Disk::DropFlush, Disk::DropFua, Disk::LoseWrite(7)] {
            assert_eq!(disk.to_string().parse(), Ok(disk));
        }
        for wrong in ["", "lose-write:0", "lose-write:x", "drop"] {
            assert!(wrong.parse::<Disk>().is_err(), "{wrong}");
        }
    }

    fn request() -> impl Strategy<Value = Request> {
        prop_oneof![3 => Just(W), 1 => Just(FUA), 1 => Just(F), 1 => Just(Request::Nothing)]
    }

    proptest! {
        #[test]
        fn no_honest_state_breaks_a_barrier(log in prop::collection::vec(request(), 0..30), durable in 0..30_usize) {
            let prefix = kept(&log, durable, Selection::Prefix, Disk::Honest);
            let flushed = kept(&log, durable, Selection::Flushed, Disk::Honest);
            prop_assert!(flushed.iter().all(|place| prefix.contains(place)));
            let last_flush = log.iter().rposition(|request| *request == F).unwrap_or(0);
            prop_assert!(prefix.iter().filter(|place| **place < last_flush).all(|place| flushed.contains(place)));
            let writes = |places: &[usize]| places.iter().all(|place| matches!(log[*place], Request::Write { .. }));
            prop_assert!(writes(&prefix));
        }
    }
}
