//! Logs that were made elsewhere, of the toy.

use std::sync::Arc;

use block_dev::{Base, BlockLog, Entry, Kind, Mark, OperationMark, PAGE_SIZE};
use pace_rules::disk::Disk;
use recorder::{Outcome, Recorded};
use tempfile::TempDir;

use super::toy_bed::{Bug, PAGES, ToyBed};
use super::{broken, variant, workload};
use crate::engine::Engine;
use crate::import::Import;
use crate::result::{Verdict, WorkloadResult};
use crate::test_bed::TestBed;

const SECTOR: usize = 512;

/// A sector of a log of dm-log-writes that begins with these numbers.
fn sector(numbers: &[u64], text: &str) -> Vec<u8> {
    let mut sector: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    sector.extend(text.as_bytes());
    sector.resize(SECTOR, 0);
    sector
}

fn mark(of: OperationMark) -> Vec<u8> {
    let text = of.text();
    sector(&[0, 0, 8, text.len() as u64], &text)
}

/// An entry of the log, as the target writes it.
fn logged(log: &BlockLog, (place, entry): (usize, &Entry), outcomes: &[Outcome]) -> Vec<u8> {
    let sectors = |bytes: u64| bytes / SECTOR as u64;
    match entry.kind {
        Kind::Write {
            offset,
            length,
            fua,
        } => {
            let (at, length) = (sectors(offset), sectors(length.into()));
            let mut entry = sector(&[at, length, if fua { 2 } else { 0 }, 0], "");
            entry.extend(log.data(place));
            entry
        }
        Kind::Flush => sector(&[0, 0, 1, 0], ""),
        Kind::Mark(Mark::OperationStart(number)) => mark(OperationMark::Start(number)),
        Kind::Mark(Mark::OperationEnd(number)) => mark(match outcomes[number as usize] {
            Outcome::Done => OperationMark::End(number),
            Outcome::Refused(errno) => OperationMark::Refused(number, errno),
        }),
        Kind::Discard { .. } | Kind::FuaFlush => panic!("the toy asks for no {entry:?}"),
    }
}

/// The log of a run, and the disk before it.
fn import_of(run: &Recorded, directory: &TempDir) -> Import {
    let entries = run.log.entries().iter().enumerate();
    let mut entries: Vec<_> = entries
        .map(|entry| logged(&run.log, entry, &run.outcomes))
        .collect();
    if run.setup_operations > 0 {
        entries.insert(run.durable_position, mark(OperationMark::SetupEnd));
    }
    let header = [
        0x006a_7366_7773_6872,
        1,
        entries.len() as u64,
        SECTOR as u64,
    ];
    let (log, base) = (directory.path().join("log"), directory.path().join("base"));
    let content = [sector(&header, ""), entries.concat()].concat();
    std::fs::write(&log, content).expect("written");
    std::fs::write(&base, vec![0; PAGES as usize * PAGE_SIZE]).expect("written");
    let from = None;
    Import { log, base, from }
}

/// What comes of the log of a workload, one of whose operations is said to have been refused. What
/// it did is in the log all the same.
fn imported(text: &str, refused: Option<usize>) -> WorkloadResult {
    let directory = tempfile::tempdir().expect("a directory");
    let base = Arc::new(Base::empty(PAGES * PAGE_SIZE as u64));
    let mut bed = ToyBed::new("ext4", Bug::None);
    let (mut run, _) = bed.record(&workload(text)).expect("recorded");
    if let Some(number) = refused {
        run.outcomes[number] = Outcome::Refused(libc::ENOSPC);
    }
    let mut engine = Engine::on(Box::new(bed), &variant(), &base, Disk::Honest).expect("an engine");
    engine.set_states("prefix,every-write".parse().expect("states"), 0);
    engine.set_import(import_of(&run, &directory));
    engine.run(&workload(text))
}

#[test]
fn a_run_in_which_the_power_fails_nowhere_is_not_clean() {
    let result = imported("creat foo; append foo 5000", None);
    assert_eq!(result.verdict(), Verdict::Inconclusive, "{result:?}");
    let why = result.inconclusive.expect("a reason");
    let expected = "the workload has no persistence operation and no crash point";
    assert_eq!(why, expected);
}

#[test]
fn what_was_refused_may_have_been_done_in_part() {
    let text = "setup; creat foo; run; fsync foo; write foo 0 4K; fsync foo; creat bar; fsync bar";
    let whole = imported(text, None);
    assert_eq!(whole.verdict(), Verdict::Clean, "{whole:?}");
    for (refused, what) in [(2, "write foo 0 4K"), (3, "fsync foo"), (0, "creat foo")] {
        let result = imported(text, Some(refused));
        assert_eq!(broken(&result), [], "{result:?}");
        let why = result.inconclusive.expect("it is not known what was done");
        assert!(why.contains(what), "{why}");
        assert!(result.states_checked < whole.states_checked, "{refused}");
        // What came before it is judged.
        assert_eq!(result.states_checked > 0, refused > 0, "{refused}");
    }
}
