//! One disk: which of the requests it completed are still there when the power comes back.
//!
//! [`Log`] reads a log: which writes a crash may still cost, and which none may. [`State`]
//! is one crash state of it, [`States`] says which kinds of them to visit, and [`Space`] has them
//! all: counted, ordered and addressable.

mod log;
mod space;
mod state;
mod states;
mod tear;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use log::{Log, NoSuchState, Piece, Request, Write};
pub use space::{Kind, Space};
pub use state::{NotAState, Relaxation, State};
pub use states::{InvalidStates, States};

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

/// Not a disk that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDisk(String);

impl fmt::Display for UnknownDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown disk '{}': expected honest, drop-flush, drop-fua or lose-write:N with N from 1",
            self.0
        )
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
            _ => text
                .strip_prefix("lose-write:")
                .and_then(number)
                .map(Self::LoseWrite)
                .ok_or(UnknownDisk(text.into())),
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
    use super::*;

    /// Writes of one sector each, one after the other, completed at once.
    fn log(shape: &str, durable: usize, disk: Disk) -> Log {
        let write = |place: usize, fua| {
            let offset = place as u64 * 512;
            Request::Write(Write {
                fua,
                offset,
                length: 512,
                completed: place + 1,
                priority: 0,
            })
        };
        let request = |(place, letter)| match letter {
            'F' => Request::Flush,
            letter => write(place, letter == 'U'),
        };
        let requests: Vec<_> = shape.chars().enumerate().map(request).collect();
        Log::new(&requests, durable, disk)
    }

    /// The places of the writes that are there after a crash at the end.
    fn kept(log: &Log, relaxation: Relaxation) -> Vec<usize> {
        log.pieces(&State {
            position: log.len(),
            relaxation,
        })
        .map(|piece| piece.place)
        .collect()
    }

    #[test]
    fn a_flush_covers_what_came_before_it_and_fua_covers_itself_alone() {
        let log = log("WFWUW", 0, Disk::Honest);
        assert_eq!(kept(&log, Relaxation::Prefix), [0, 2, 3, 4]);
        assert_eq!(kept(&log, Relaxation::Flushed), [0, 3]);
    }

    #[test]
    fn a_lying_disk_keeps_less() {
        let shape = "WFWUFW";
        assert_eq!(
            kept(&log(shape, 0, Disk::DropFlush), Relaxation::Flushed),
            [3]
        );
        assert_eq!(
            kept(&log(shape, 2, Disk::DropFlush), Relaxation::Flushed),
            [0, 3]
        );
        assert_eq!(
            kept(&log("WU", 0, Disk::DropFua), Relaxation::Flushed),
            Vec::<usize>::new()
        );
        assert_eq!(
            kept(&log(shape, 2, Disk::LoseWrite(1)), Relaxation::Prefix),
            [0, 3, 5]
        );
        assert_eq!(
            kept(&log(shape, 0, Disk::LoseWrite(1)), Relaxation::Flushed),
            [2, 3]
        );
    }

    #[test]
    fn disks_are_named_as_they_are_asked_for() {
        for disk in [
            Disk::Honest,
            Disk::DropFlush,
            Disk::DropFua,
            Disk::LoseWrite(7),
        ] {
            assert_eq!(disk.to_string().parse(), Ok(disk));
        }
        for wrong in ["", "lose-write:0", "lose-write:x", "drop"] {
            assert!(wrong.parse::<Disk>().is_err(), "{wrong}");
        }
    }
}
