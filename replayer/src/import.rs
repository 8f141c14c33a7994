//! A log that somebody else recorded, read as if it had been recorded here.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use block_dev::{BlockLog, LogMark, LogWrites, OperationMark, Unordered};
use local_fs::{FileSystem, InodeKind, Tree};
use recorder::{CrashPoint, Outcome, Recorded};
use serde::{Deserialize, Serialize};
use workloads::{Step, Workload};

use crate::error::{Context as _, During as _, Error, Result};

/// Where a log of the kernel's target log-writes is, and what the disk held before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The log.
    pub log: PathBuf,
    /// The disk's content before the first entry.
    pub base: PathBuf,
    /// The mark after which the power may fail; the beginning of the log without one.
    pub from: Option<String>,
}

/// A log, and where the power may fail in it.
#[derive(Debug)]
pub(crate) struct Imported {
    log: BlockLog,
    places: Places,
    /// What stands before it belongs to the disk as it was.
    pub(crate) from: usize,
    durable_position: usize,
    outcomes: Vec<Outcome>,
    /// Positions, and how many operations had returned.
    crash_points: Vec<(usize, usize)>,
}

/// What the places of a log are in its file.
#[derive(Debug)]
pub(crate) struct Places {
    entry_numbers: Vec<u64>,
    marks: Vec<LogMark>,
    unordered: Vec<Unordered>,
    ended: bool,
}

impl Import {
    /// The size of the disk, in bytes.
    ///
    /// # Errors
    /// If there is none, or it has no size that a disk can have here.
    pub fn disk_bytes(&self) -> Result<u64> {
        let name = self.base.display();
        let data = std::fs::metadata(&self.base).doing(|| format!("open {name}"))?;
        let wrong = |what| {
            Err(Error::ImportedDisk {
                path: self.base.clone(),
                what,
            })
        };
        if !data.is_file() {
            return wrong("is not a file: copy the disk into one before it is logged".into());
        }
        if data.len() == 0 || data.len() % block_dev::PAGE_SIZE as u64 != 0 {
            let (len, page) = (data.len(), block_dev::PAGE_SIZE);
            return wrong(format!(
                "has {len} bytes, which is not a multiple of {page}"
            ));
        }
        Ok(data.len())
    }

    /// Whether the log is whole and belongs to the disk, and its marks to the workload, whose
    /// operations are unknown where it has none. Says what else must be known of the log.
    ///
    /// # Errors
    /// If not, with the place.
    pub fn check(&self, workload: &Workload) -> Result<Vec<String>> {
        let imported = self.read(workload)?;
        let mut notes = Vec::new();
        if !imported.places.ended {
            notes.push(format!(
                "{} has no mark at its end: log-writes was not removed in order, or had no room left, and \
                 what it did not log is not checked",
                self.log.display()
            ));
        }
        Ok(notes)
    }

    pub(crate) fn read(&self, workload: &Workload) -> Result<Imported> {
        let name = self.log.display();
        let file = File::open(&self.log).doing(|| format!("open {name}"))?;
        let log_bytes = file.metadata().doing(|| format!("open {name}"))?.len();
        let read = LogWrites::read(BufReader::new(file), log_bytes, self.disk_bytes()?);
        let read = read.during(|| format!("read {name}"))?;
        let from = self.position_from(&read.marks)?;
        if has_operations(workload) {
            return with_operations(read, from, workload)
                .during(|| format!("find the operations of {} in {name}", workload.name));
        }
        let marks = read.marks.iter().map(|mark| mark.position);
        let positions = marks
            .chain([read.log.len()])
            .filter(|position| *position >= from);
        let crash_points = positions.map(|position| (position, 0)).collect();
        let (log, places) = parts(read);
        Ok(Imported {
            log,
            places,
            from,
            durable_position: from,
            outcomes: Vec::new(),
            crash_points,
        })
    }

    /// The position from which the log counts.
    fn position_from(&self, marks: &[LogMark]) -> Result<usize> {
        let Some(wanted) = &self.from else {
            return Ok(0);
        };
        let mark = marks.iter().find(|mark| mark.text == *wanted);
        let no_mark = || Error::NoSuchMark {
            path: self.log.clone(),
            wanted: wanted.clone(),
            marks: texts(marks),
        };
        Ok(mark.ok_or_else(no_mark)?.position)
    }
}

fn parts(read: LogWrites) -> (BlockLog, Places) {
    let LogWrites {
        log,
        entry_numbers,
        marks,
        ended,
        unordered,
    } = read;
    (
        log,
        Places {
            entry_numbers,
            marks,
            unordered,
            ended,
        },
    )
}

/// Whether it is known what was done while a log was written.
pub(crate) fn has_operations(workload: &Workload) -> bool {
    workload.operations().next().is_some()
}

fn texts(marks: &[LogMark]) -> String {
    const SHOWN_MAX: usize = 8;
    let shown: Vec<_> = marks
        .iter()
        .take(SHOWN_MAX)
        .map(|mark| format!("'{}'", mark.text))
        .collect();
    match shown.len() {
        0 => "none".into(),
        SHOWN_MAX => format!("{}, …", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// Finds each operation between its marks.
fn with_operations(read: LogWrites, from: usize, workload: &Workload) -> Result<Imported> {
    let marks = read
        .marks
        .iter()
        .filter_map(|mark| Some((OperationMark::of(&mark.text)?, mark)));
    let mut marks = marks.skip_while(|(_, mark)| mark.position < from);
    let mut next = |wanted| next_mark(&mut marks, wanted);
    let (mut outcomes, mut ends) = (Vec::new(), Vec::new());
    let mut durable_position = from;
    let setup = workload.setup.len();
    for number in 0..workload.operations().count() {
        next(OperationMark::Start(number as u32))?;
        let (outcome, end) = next(OperationMark::End(number as u32))?;
        outcomes.push(outcome);
        ends.push(end);
        if number + 1 == setup {
            durable_position = next(OperationMark::SetupEnd)?.1;
        }
    }
    let crash_points = crash_points(workload, durable_position, &ends);
    let (log, places) = parts(read);
    Ok(Imported {
        log,
        places,
        from,
        durable_position,
        outcomes,
        crash_points,
    })
}

/// How an operation ended whose mark is the next one, and the position of the mark; the start of
/// one has ended well.
fn next_mark<'a>(
    marks: &mut impl Iterator<Item = (OperationMark, &'a LogMark)>,
    wanted: OperationMark,
) -> Result<(Outcome, usize)> {
    let (found, mark) = marks.next().ok_or_else(|| Error::NoMark(wanted.text()))?;
    let other = || Error::OtherMark {
        found: mark.text.clone(),
        expected: wanted.text(),
    };
    Ok((outcome(wanted, found).ok_or_else(other)?, mark.position))
}

/// How the operation ended whose mark is wanted; none if the mark that was found is another one.
fn outcome(wanted: OperationMark, found: OperationMark) -> Option<Outcome> {
    match (wanted, found) {
        (OperationMark::End(number), OperationMark::Refused(other, errno)) if number == other => {
            Some(Outcome::Refused(errno))
        }
        _ => (wanted == found).then_some(Outcome::Done),
    }
}

/// The positions at which the power may fail, each with how many operations are done there. `ends`
/// are those of the operations.
fn crash_points(
    workload: &Workload,
    durable_position: usize,
    ends: &[usize],
) -> Vec<(usize, usize)> {
    let explicit = workload.run.contains(&Step::CrashPoint);
    let setup = workload.setup.len();
    let mut crash_points = Vec::new();
    let mut done = setup;
    for step in &workload.run {
        let here = match step {
            Step::Op(op) => {
                done += 1;
                !explicit && op.is_persistence()
            }
            Step::CrashPoint => true,
        };
        if here {
            let position = if done == setup {
                durable_position
            } else {
                ends[done - 1]
            };
            crash_points.push((position, done));
        }
    }
    crash_points
}

impl Imported {
    /// What was logged.
    pub(crate) fn log(&self) -> &BlockLog {
        &self.log
    }

    /// The run, of a file system that showed `before` when it began.
    pub(crate) fn into_trace(self, workload: &Workload, before: &Tree) -> (Recorded, Places) {
        let root = before.inode(before.root);
        let point = |(log_position, operations_done)| CrashPoint {
            operations_done,
            log_position,
            live: None,
        };
        let trace = Recorded {
            outcomes: self.outcomes,
            setup_operations: workload.setup.len(),
            durable_position: self.durable_position,
            root_mode: root.map_or(0o755, |root| root.mode & 0o7777),
            root_owner: root.map_or((0, 0), |root| (root.uid, root.gid)),
            crash_points: self.crash_points.into_iter().map(point).collect(),
            log: self.log,
        };
        (trace, self.places)
    }
}

impl Places {
    /// The pairs of writes whose order the log leaves open.
    pub(crate) fn unordered(&self) -> &[Unordered] {
        &self.unordered
    }

    /// Why a finding does not stand where the order of a pair of writes is open.
    pub(crate) fn why_open(&self, pair: &Unordered) -> String {
        let [fua, other] = [pair.fua_place, pair.place].map(|place| self.entry_numbers[place]);
        format!(
            "what was found depends on which of the entries {fua} and {other} was written last: the log does not tell, \
             since only one of them had FUA"
        )
    }

    /// Where a position is, in words.
    pub(crate) fn place(&self, position: usize) -> String {
        let entry = position
            .checked_sub(1)
            .map(|place| self.entry_numbers[place]);
        let mark = self.marks.iter().rfind(|mark| mark.position <= position);
        let entry = entry.map_or_else(
            || "before entry 0".to_owned(),
            |entry| format!("after entry {entry}"),
        );
        let mark = mark
            .map(|mark| format!(", the last mark '{}'", mark.text))
            .unwrap_or_default();
        format!("{entry} of the log{mark}")
    }
}

/// A name in a file system that is not new.
pub(crate) fn something_in<'a>(tree: &'a Tree, file_system: &FileSystem) -> Option<&'a str> {
    let found = |name: &str| {
        file_system
            .found_names
            .iter()
            .any(|start| name.starts_with(start))
    };
    let own = |name: &str| file_system.own_names.contains(&name) || found(name);
    let InodeKind::Directory(entries) = &tree.inode(tree.root)?.kind else {
        return None;
    };
    entries.keys().map(String::as_str).find(|name| !own(name))
}
