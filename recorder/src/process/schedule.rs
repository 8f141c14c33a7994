//! What is done on a node's disk between its calls, beside what the node does: a kernel writes back
//! what it likes when it likes, and another program's fsync commits the journal for all. A disk that
//! is quiet for the milliseconds of a recording shows neither.
//!
//! Everything is done while the thread whose call changed files is stopped, by the tracer: at known
//! places of the run, which are the same in each recording of a program that does the same.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;

use nix::unistd::syncfs;
use trace_store::QUIET;

use super::mappings::PAGE_BYTES;
use super::{Error, Result};
use crate::raw;

const NEIGHBOUR: &str = "neighbour";

const WRITEBACK: &str = "writeback";

/// After so many changes only every second one has its stop, after the next so many every fourth
/// has, and so on: a run of 100,000 changes has some hundreds, and not more states than can be
/// visited.
const DENSE: u64 = 32;

/// Where nothing is written back, one stop of so many has a sync of the neighbour.
const NEIGHBOUR_IN: u64 = 4;

/// Where pages are written back, it is the whole file one time of so many. A part of what was
/// written shows more.
const FILE_IN: u64 = 8;

/// Of so many pairs of seeds the number of a stop decides whose turn it is: after that, chance.
const PAIRS_BY_NUMBER: u64 = DENSE.ilog2() as u64;

/// Where something is written back, one stop of so many makes everything durable.
const EVERYTHING_IN: u64 = 8;

/// What is done on a node's disk between its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Nothing.
    #[default]
    Quiet,
    /// After each call that changed files, somebody else creates, writes and fsyncs a file: the
    /// journal is committed, and data that nobody has written back is not in it.
    Neighbour,
    /// After calls that changed files, and stores to mappings, pages of what was written are
    /// written back (`sync_file_range`), some but not others; the neighbour syncs after some; and
    /// now and then everything becomes durable (`syncfs`).
    Writeback {
        /// What decides after which calls, and which pages.
        seed: u64,
    },
}

impl Schedule {
    /// The first so many: a quiet disk, a neighbour, and writeback from one seed after the other.
    pub fn first(count: u64) -> Vec<Self> {
        let seeded = (1..).map(|seed| Self::Writeback { seed });
        let all = [Self::Quiet, Self::Neighbour].into_iter().chain(seeded);
        all.take(usize::try_from(count).unwrap_or(usize::MAX))
            .collect()
    }

    /// What is done at a stop of this number.
    fn at(self, stop: u64) -> Stop {
        if !self.has_stop(stop) {
            return Stop::default();
        }
        match self {
            Self::Quiet => Stop::default(),
            Self::Neighbour => Stop {
                neighbour: true,
                ..Stop::default()
            },
            Self::Writeback { seed } => Stop::of_seed(seed, stop),
        }
    }

    /// Whether something may be done at a stop of this number. Who has no stop there leaves it to
    /// another one: the neighbour and the first two pairs of seeds have all of the next ones after
    /// those that everybody has.
    fn has_stop(self, stop: u64) -> bool {
        let mut drawn = Drawn::of(0, stop);
        let spacing = 1 << (stop / DENSE + 1).ilog2();
        let phase = match self {
            Self::Writeback { seed } => 1 + seed.saturating_sub(1) / 2,
            Self::Quiet | Self::Neighbour => 0,
        };
        drawn.below(spacing) == phase % spacing
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quiet => f.write_str(QUIET),
            Self::Neighbour => f.write_str(NEIGHBOUR),
            Self::Writeback { seed: 1 } => f.write_str(WRITEBACK),
            Self::Writeback { seed } => write!(f, "{WRITEBACK}:{seed}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let (name, seed) = words
            .split_once(':')
            .map_or((words, None), |(name, seed)| (name, Some(seed)));
        match (name, seed) {
            (QUIET, None) => Ok(Self::Quiet),
            (NEIGHBOUR, None) => Ok(Self::Neighbour),
            (WRITEBACK, None) => Ok(Self::Writeback { seed: 1 }),
            (WRITEBACK, Some(seed)) => seed
                .parse()
                .map(|seed| Self::Writeback { seed })
                .map_err(|_| format!("the seed of {WRITEBACK} is a number, not '{seed}'")),
            _ => Err(format!(
                "there is no schedule '{words}': it is {QUIET}, {NEIGHBOUR}, or {WRITEBACK}:SEED"
            )),
        }
    }
}

/// What is done at a stop, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stop {
    /// What is written back.
    pages: Pages,
    /// Whether that is waited for. If not, the neighbour's sync may commit a size before the data.
    waits: bool,
    /// Whether the neighbour syncs. It does also where something was written back: the states
    /// before that are among those of the disk as well.
    neighbour: bool,
    everything: bool,
}

impl Stop {
    /// What a seed has done at a stop.
    fn of_seed(seed: u64, stop: u64) -> Self {
        // Of two seeds that follow each other, the one has its turn where the other has not: of
        // the first two every second stop is one's, of the next two every second pair of them. So
        // for any two calls that are not too far from each other there is a seed by which what the
        // one wrote is on the disk, and what the other wrote is not.
        let (pair, turn) = (
            seed.saturating_sub(1) / 2,
            u64::from(seed.is_multiple_of(2)),
        );
        let mut own = Drawn::of(seed, stop);
        let whose = if pair < PAIRS_BY_NUMBER {
            stop >> pair & 1
        } else {
            Drawn::of(pair, stop).below(2)
        };
        let pages = match own.below(FILE_IN) {
            0 => Pages::File,
            _ => Pages::First,
        };
        Self {
            pages: if whose == turn { pages } else { Pages::Last },
            waits: own.below(2) == 0,
            // The first pair leaves the disk quiet between its turns.
            neighbour: whose == turn || pair > 0 && own.below(NEIGHBOUR_IN) == 0,
            everything: whose == turn && own.below(EVERYTHING_IN) == 0,
        }
    }
}

/// Which pages of a file are written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pages {
    #[default]
    None,
    /// The first one of what the call wrote.
    First,
    /// The last one of it, if that is another one.
    Last,
    /// All of the file.
    File,
}

impl Pages {
    /// What `sync_file_range` is called with where a call wrote this: offset and length, of which 0
    /// is up to the end.
    fn of(self, written: &Range<u64>) -> Option<(u64, u64)> {
        let last = written.end.saturating_sub(1) / PAGE_BYTES * PAGE_BYTES;
        match self {
            Self::None => None,
            Self::First => Some((written.start, 1)),
            Self::Last => (last > written.start).then_some((last, 1)),
            Self::File => Some((0, 0)),
        }
    }
}

/// Numbers out of one number.
struct Drawn(u64);

impl Drawn {
    fn of(seed: u64, stop: u64) -> Self {
        Self(mixed(seed ^ mixed(stop)))
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0 = mixed(self.0);
        self.0 % count
    }
}

/// A number that looks random (the finalizer of `SplitMix64`).
fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// The file that a call wrote to last.
#[derive(Debug)]
pub(super) struct Written {
    /// Open in any way but `O_PATH`.
    pub open: OwnedFd,
    pub range: Range<u64>,
}

/// Who follows a schedule.
#[derive(Debug)]
pub(super) struct Bystander {
    schedule: Schedule,
    /// Its own on the disk, which is none of the node's.
    directory: PathBuf,
    /// So many stops there were.
    stops: u64,
    /// So many files were made; the last one is there.
    files: u64,
    failed: Option<io::Error>,
}

impl Bystander {
    /// None if the disk is quiet.
    pub(super) fn new(schedule: Schedule, directory: Option<&PathBuf>) -> Option<Self> {
        let directory = directory.filter(|_| schedule != Schedule::Quiet)?.clone();
        Some(Self {
            schedule,
            directory,
            stops: 0,
            files: 0,
            failed: None,
        })
    }

    /// Whether it wants to know what was written to.
    pub(super) fn writes_back(&self) -> bool {
        matches!(self.schedule, Schedule::Writeback { .. })
    }

    /// A call changed files, and whoever made it is stopped.
    pub(super) fn stop(&mut self, written: Option<&Written>) {
        let stop = self.schedule.at(self.stops);
        self.stops += 1;
        if self.failed.is_none() {
            self.failed = self.act(stop, written).err();
        }
    }

    fn act(&mut self, stop: Stop, written: Option<&Written>) -> io::Result<()> {
        let pages = written.and_then(|written| stop.pages.of(&written.range));
        if let (Some(written), Some((offset, length))) = (written, pages) {
            if stop.waits {
                raw::sync_file_range(&written.open, offset, length)?;
            } else {
                raw::begin_writeback(&written.open, offset, length)?;
            }
        }
        if stop.neighbour || pages.is_some() {
            self.sync_own()?;
        }
        if stop.everything {
            syncfs(File::open(&self.directory)?)?;
        }
        Ok(())
    }

    /// Makes a file durable, which commits what the file system has in its journal.
    fn sync_own(&mut self) -> io::Result<()> {
        let path = |number: u64| self.directory.join(number.to_string());
        let (new, old) = (path(self.files + 1), path(self.files));
        let mut file = File::create_new(new)?;
        file.write_all(&[b'n'; PAGE_BYTES as usize])?;
        file.sync_all()?;
        // An fsync logs one file only there: without this, as from time to time, all is committed.
        raw::commit_btrfs(&file)?;
        if self.files > 0 {
            fs::remove_file(old)?;
        }
        self.files += 1;
        Ok(())
    }

    /// Whether it did what the schedule says.
    ///
    /// # Errors
    /// If it could not.
    pub(super) fn finish(self) -> Result<()> {
        let Some(error) = self.failed else {
            return Ok(());
        };
        Err(Error::Bystander {
            schedule: self.schedule.to_string(),
            error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_schedule_leaves_out_another_one_does() {
        let is_seen = |schedules: &[Schedule], stop| {
            let mut stops = schedules.iter().map(|schedule| schedule.at(stop));
            stops.any(|stop| stop != Stop::default())
        };
        let (usual, more) = (Schedule::first(4), Schedule::first(8));
        for stop in 0..3 * DENSE {
            assert!(is_seen(&usual, stop), "{stop}");
        }
        for stop in 0..7 * DENSE {
            assert!(is_seen(&more, stop), "{stop}");
        }
        // Both seeds of a pair have the same ones.
        for stop in 0..20 * DENSE {
            let [one, other] = [1, 2].map(|seed| Schedule::Writeback { seed }.at(stop));
            let both = [one, other].map(|stop| stop != Stop::default());
            assert_eq!(both[0], both[1], "{stop}");
        }
    }

    #[test]
    fn a_schedule_is_read_as_it_is_shown() {
        for schedule in Schedule::first(5) {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        assert_eq!("writeback:1".parse(), Ok(Schedule::Writeback { seed: 1 }));
        for wrong in [
            "",
            "loud",
            "quiet:1",
            "neighbour:2",
            "writeback:",
            "writeback:x",
        ] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_schedules_begin_with_a_quiet_disk_and_none_comes_twice() {
        let names: Vec<_> = Schedule::first(4).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["quiet", "neighbour", "writeback", "writeback:2"]);
    }

    #[test]
    fn a_quiet_disk_stays_quiet_and_a_neighbour_only_syncs() {
        for stop in 0..DENSE {
            assert_eq!(Schedule::Quiet.at(stop), Stop::default());
            let expected = Stop {
                neighbour: true,
                ..Stop::default()
            };
            assert_eq!(Schedule::Neighbour.at(stop), expected);
        }
    }

    #[test]
    fn a_seed_decides_what_is_written_back() {
        let stops = |seed| (0..DENSE).map(move |stop| Schedule::Writeback { seed }.at(stop));
        assert!(stops(7).eq(stops(7)));
        assert!(stops(7).ne(stops(9)));
        let all = || (1..9).flat_map(stops);
        for pages in [Pages::First, Pages::Last, Pages::File] {
            assert!(all().any(|stop| stop.pages == pages), "{pages:?}");
        }
        for neighbour in [false, true] {
            let is_it = |stop: Stop| stop.pages == Pages::Last && stop.neighbour == neighbour;
            assert!(all().any(is_it), "{neighbour}");
        }
        assert!(all().any(|stop| stop.everything));
    }

    #[test]
    fn of_two_seeds_one_writes_back_at_each_stop() {
        for pair in [[1, 2], [3, 4], [17, 18]] {
            for stop in 0..DENSE {
                let [one, other] = pair.map(|seed| Schedule::Writeback { seed }.at(stop));
                let is_its_turn = |stop: Stop| stop.pages != Pages::Last;
                assert_ne!(is_its_turn(one), is_its_turn(other), "{pair:?} {stop}");
            }
        }
    }

    #[test]
    fn any_two_stops_are_told_apart_by_a_seed() {
        let is_active = |seed, stop| Schedule::Writeback { seed }.at(stop).pages != Pages::Last;
        for later in 0..DENSE {
            for earlier in 0..later {
                let tells = |seed| !is_active(seed, earlier) && is_active(seed, later);
                let found = (1..=2 * PAIRS_BY_NUMBER).any(tells);
                assert!(found, "{earlier} and {later}");
                if later == earlier + 1 {
                    // The first two seeds commit after one of them and not after the other.
                    for seed in 1..=2 {
                        let at = |stop| Schedule::Writeback { seed }.at(stop).neighbour;
                        assert_ne!(at(earlier), at(later), "{seed}: {earlier} and {later}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_run_has_some_hundreds_of_stops_in_all_of_it() {
        let acts = |range: Range<u64>| {
            range
                .filter(|stop| Schedule::Neighbour.at(*stop).neighbour)
                .count()
        };
        assert_eq!(acts(0..DENSE), DENSE as usize);
        let all = acts(0..100_000);
        assert!((200..600).contains(&all), "{all}");
        assert!(acts(99_000..100_000) > 0, "the end has none");
    }

    #[test]
    fn pages_are_of_what_was_written() {
        let written = 4000..13_000;
        assert_eq!(Pages::None.of(&written), None);
        assert_eq!(Pages::First.of(&written), Some((4000, 1)));
        assert_eq!(Pages::Last.of(&written), Some((12_288, 1)));
        assert_eq!(Pages::File.of(&written), Some((0, 0)));
        // Within a page there is no other one.
        assert_eq!(Pages::Last.of(&(5000..5010)), None);
        assert_eq!(Pages::Last.of(&(4096..8192)), None);
    }
}
