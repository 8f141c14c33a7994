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
    /// The mark from which on the power may fail; the beginning of the log without one. Operations
    /// before it are another's.
    pub from: Option<String>,
}

/// A log, and where the power may fail in it.
#[derive(Debug)]
pub(crate) struct Imported {
    log: BlockLog,
    pub(crate) places: Places,
    durable_position: usize,
    outcomes: Vec<Outcome>,
    /// Positions, and how many operations had returned.
    crash_points: Vec<(usize, usize)>,
}

/// What the places of a log are in its file.
#[derive(Debug)]
pub(crate) struct Places {
    /// What stands before this position belongs to the disk as it was, and to no operation.
    pub(crate) from: usize,
    entry_numbers: Vec<u64>,
    marks: Vec<LogMark>,
    unordered: Vec<Unordered>,
    ended: bool,
}

/// Where a log begins to count.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    position: usize,
    /// The first of its marks that counts. Marks before it may have the same position.
    mark: usize,
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
        let beginning = self.beginning(&read.marks)?;
        if has_operations(workload) {
            return with_operations(read, beginning, workload)
                .during(|| format!("find the operations of {} in {name}", workload.name));
        }
        let from = beginning.position;
        let marks = read.marks.iter().map(|mark| mark.position);
        let positions = marks
            .chain([read.log.len()])
            .filter(|position| *position >= from);
        let crash_points = positions.map(|position| (position, 0)).collect();
        let (log, places) = parts(read, from);
        Ok(Imported {
            log,
            places,
            durable_position: from,
            outcomes: Vec::new(),
            crash_points,
        })
    }

    /// From where on the log counts: after the mark, or with it where it is the start of an operation.
    fn beginning(&self, marks: &[LogMark]) -> Result<Beginning> {
        let Some(wanted) = &self.from else {
            return Ok(Beginning {
                position: 0,
                mark: 0,
            });
        };
        let place = marks.iter().position(|mark| mark.text == *wanted);
        let no_mark = || Error::NoSuchMark {
            path: self.log.clone(),
            wanted: wanted.clone(),
            marks: texts(marks),
        };
        let place = place.ok_or_else(no_mark)?;
        let begins = matches!(OperationMark::of(wanted), Some(OperationMark::Start(_)));
        Ok(Beginning {
            // Such a mark is an entry of the log.
            position: marks[place].position - usize::from(begins),
            mark: place + usize::from(!begins),
        })
    }
}

fn parts(read: LogWrites, from: usize) -> (BlockLog, Places) {
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
            from,
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
fn with_operations(read: LogWrites, beginning: Beginning, workload: &Workload) -> Result<Imported> {
    let marks = read.marks.iter().skip(beginning.mark);
    let mut marks = marks.filter_map(|mark| Some((OperationMark::of(&mark.text)?, mark)));
    let mut next = |wanted| next_mark(&mut marks, wanted);
    let (mut outcomes, mut ends) = (Vec::new(), Vec::new());
    let mut durable_position = beginning.position;
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
    let (log, places) = parts(read, beginning.position);
    Ok(Imported {
        log,
        places,
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

#[cfg(test)]
mod tests {
    use block_dev::{Kind, Mark};

    use super::*;
    use crate::moment::Progress;

    /// A log of these marks, and of writes (`W`), as it is read.
    fn log_of(words: &[&str]) -> LogWrites {
        let mut read = LogWrites::default();
        for (number, word) in words.iter().enumerate() {
            let log = &mut read.log;
            match OperationMark::of(word) {
                _ if *word == "W" => log.push_write(0, &[1; 512], 0),
                Some(OperationMark::Start(number)) => {
                    log.push(Kind::Mark(Mark::OperationStart(number)), 0);
                }
                Some(OperationMark::End(number)) => {
                    log.push(Kind::Mark(Mark::OperationEnd(number)), 0);
                }
                _ => {}
            }
            let position = log.len();
            read.entry_numbers.resize(position, number as u64);
            let text = (*word).to_owned();
            if text != "W" {
                read.marks.push(LogMark { position, text });
            }
        }
        read
    }

    /// Of a log with the operations of two runs, how far the second one had come at each position.
    fn second_run(from: &str) -> Result<(usize, Vec<(usize, bool)>)> {
        let read = log_of(&[
            "op-0-start",
            "W",
            "op-0-end",
            "again",
            "op-0-start",
            "W",
            "op-0-end",
        ]);
        let import = Import {
            log: "log".into(),
            base: "base".into(),
            from: Some(from.into()),
        };
        let workload = workloads::parse("creat foo", "test").expect("a workload");
        let beginning = import.beginning(&read.marks)?;
        let imported = with_operations(read, beginning, &workload[0])?;
        let (trace, places) = imported.into_trace(&workload[0], &Tree::default());
        let progress = Progress::of(&trace, places.from).into_iter();
        let all = progress.map(|progress| (progress.operations_done, progress.under_way));
        Ok((trace.durable_position, all.collect()))
    }

    #[test]
    fn operations_before_the_mark_are_no_part_of_the_run() {
        let (durable, progress) = second_run("again").expect("found");
        // The mark stands where the end of the other operation does.
        assert_eq!(durable, 3);
        let none = (0, false);
        let run = [none, (0, true), (0, true), (1, false)];
        assert_eq!(progress, [[none; 3].as_slice(), &run].concat());
    }

    #[test]
    fn the_start_of_an_operation_is_one_of_the_run_and_its_end_is_not() {
        let (durable, progress) = second_run("op-0-start").expect("found");
        assert_eq!((durable, progress[1]), (0, (0, true)));
        let (durable, _) = second_run("op-0-end").expect("found");
        assert_eq!(durable, 3);
        assert!(second_run("never").is_err());
    }
}
