//! Disks and mount options that lie are caught; the same workloads on an honest disk are clean.
//! Needs root.

use std::sync::Arc;

use block_dev::{Entry, Image, Kind};
use end_to_end::{FILE_SYSTEMS, Laboratory, in_own_namespace, replay_with, require_root};
use pace_rules::disk::{Disk, Log, Relaxation, Request, State, Write};
use recorder::Recorded;
use replayer::Verdict;
use workloads::{Workload, parse};

const WORKLOADS: &str = "
    workload data; creat foo; write foo 0 16K; fsync foo
    workload name; mkdir A; creat A/foo; fsync A
    workload rename; setup; creat foo; run; rename foo bar; fsync bar
    workload overwrite; setup; creat foo; write foo 0 16K; run; write foo 0 16K; fdatasync foo
    workload everything; mkdir A; creat A/foo; link A/foo A/bar; sync
";

#[test]
fn honest_disks_are_not_accused() {
    require_root();
    for file_system in FILE_SYSTEMS {
        replay_with(file_system, &["--jobs", "2"], WORKLOADS).assert_clean();
    }
}

#[track_caller]
fn caught(file_system: &str, lie: &[&str]) {
    require_root();
    let report = replay_with(file_system, &[&["--jobs", "2"], lie].concat(), WORKLOADS);
    assert_eq!(
        report.status, 1,
        "{file_system} {lie:?}: {:?}",
        report.summaries
    );
    // Names may be durable all the same, where the journal is written with FUA; data is not.
    let found = report.with_verdict("finding");
    for workload in ["data", "overwrite"] {
        assert!(
            found.iter().any(|name| name == workload),
            "{file_system} {lie:?}: {:?}",
            report.broken()
        );
    }
}

#[test]
fn flushes_that_cover_nothing_are_caught() {
    for file_system in FILE_SYSTEMS {
        caught(file_system, &["--disk", "drop-flush"]);
    }
}

#[test]
fn forced_unit_access_that_forces_nothing_is_caught() {
    require_root();
    for file_system in FILE_SYSTEMS {
        let report = replay_with(
            file_system,
            &["--jobs", "2", "--disk", "drop-fua"],
            WORKLOADS,
        );
        assert_eq!(report.status, 1, "{file_system}: {:?}", report.summaries);
        // Data is covered by the flush before the commit; what the commit was to hold is lost.
        let found = report.with_verdict("finding");
        assert!(
            found.iter().any(|name| name == "name"),
            "{file_system}: {:?}",
            report.broken()
        );
    }
}

#[test]
fn flushes_that_cover_nothing_are_caught_behind_a_repair() {
    caught("ext2", &["--disk", "drop-flush"]);
    caught("ext3", &["--disk", "drop-flush"]);
}

#[test]
fn an_option_of_a_variant_is_caught() {
    caught("ext4:barrier=0", &[]);
}

#[test]
fn ext4_without_barriers_is_caught() {
    caught("ext4", &["--mount-options", "barrier=0"]);
}

#[test]
fn btrfs_without_barriers_is_caught() {
    caught("btrfs", &["--mount-options", "nobarrier"]);
}

#[test]
fn moving_bytes_hides_no_loss_of_what_was_durable_before() {
    moving_bytes_hides_no_loss("ext4");
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn nor_does_it_on_xfs() {
    moving_bytes_hides_no_loss("xfs");
}

/// Which write matters is another one on each: on xfs, mounting alone writes three times.
fn moving_bytes_hides_no_loss(file_system: &str) {
    const MOVED: &str = "
        workload as-it-was; creat foo; write foo 0 64K; fsync foo; !
        workload inserted; creat foo; write foo 0 64K; fsync foo; falloc foo insert_range 0 4K; !
        workload collapsed; creat foo; write foo 0 64K; fsync foo; falloc foo collapse_range 0 4K; !
    ";
    require_root();
    let mut losses = 0;
    for number in 1..=6 {
        let disk = format!("lose-write:{number}");
        let report = replay_with(file_system, &["--jobs", "2", "--disk", &disk], MOVED);
        let found = report.with_verdict("finding");
        if found.is_empty() {
            continue;
        }
        losses += 1;
        assert_eq!(
            found,
            ["as-it-was", "collapsed", "inserted"],
            "{file_system}, {disk}: {:?}",
            report.broken()
        );
    }
    assert!(losses >= 2, "{file_system}: {losses}");
}

const TEN: &str = "
    workload creat; creat foo; fsync foo
    workload mkdir; mkdir A; creat A/foo; fsync A/foo
    workload write; creat foo; write foo 0 16K; fsync foo
    workload overwrite; setup; creat foo; write foo 0 16K; run; write foo 0 16K; fsync foo
    workload rename; setup; creat foo; run; rename foo bar; fsync bar
    workload link; setup; creat foo; run; link foo bar; fsync foo
    workload unlink; setup; creat foo; write foo 0 8K; run; unlink foo; sync
    workload xattr; setup; creat foo; run; setxattr foo user.a b; fsync foo
    workload truncate; setup; creat foo; write foo 0 16K; run; truncate foo 4K; fsync foo
    workload falloc; creat foo; falloc foo keep_size 0 64K; fsync foo
";

/// What became of a workload when each of its writes was lost in turn.
#[derive(Debug, Default)]
struct Losses {
    workload: String,
    writes: u32,
    /// The numbers of the writes whose loss was noticed.
    caught: Vec<u32>,
    /// Not noticed, since recovery writes the same again: it replays a log that has it.
    written_again: u32,
    /// Not noticed, since recovery writes something else over it.
    written_over: u32,
    /// Not noticed, and it stays lost: nothing reads it, or there is another copy.
    not_needed: u32,
    /// Not noticed, but the N-th write of the run that is looked at here is another one than that
    /// of the run that was checked: writes in flight together come in any order.
    another_write: u32,
}

/// The disk for a crash after the last persistence operation.
fn crashed(trace: &Recorded, laboratory: &Laboratory, disk: Disk) -> Image {
    let write = |place: usize, fua, offset, length| {
        Request::Write(Write {
            fua,
            offset,
            length,
            completed: place + 1,
            priority: 0,
        })
    };
    let request = |(place, entry): (usize, &Entry)| match entry.kind {
        Kind::Write {
            offset,
            length,
            fua,
        } => write(place, fua, offset, length.into()),
        Kind::Discard { offset, length } => write(place, false, offset, length),
        Kind::Flush => Request::Flush,
        Kind::FuaFlush | Kind::Mark(_) => Request::Nothing,
    };
    let position = trace
        .crash_points
        .last()
        .map_or(0, |point| point.log_position);
    let requests: Vec<_> = trace
        .log
        .entries()
        .iter()
        .enumerate()
        .map(request)
        .collect();
    let rules = Log::new(&requests, trace.durable_position, disk);
    let mut image = Image::new(Arc::clone(laboratory.base()));
    for piece in rules.pieces(&State {
        position,
        relaxation: Relaxation::Prefix,
    }) {
        trace.log.apply(piece.place, &mut image);
    }
    image
}

/// Why it does not matter that a write is lost.
fn excuse(trace: &Recorded, laboratory: &mut Laboratory, number: u32, losses: &mut Losses) {
    let (offset, data) = run_writes(trace).nth(number as usize - 1).expect("counted");
    let read = |image: &Image| {
        let mut bytes = vec![0; data.len()];
        image.read(offset, &mut bytes);
        bytes
    };
    let with_loss = crashed(trace, laboratory, Disk::LoseWrite(number));
    let honest = crashed(trace, laboratory, Disk::Honest);
    let honest = laboratory
        .recover(&honest)
        .expect("an honest disk can be mounted");
    let Some(with_loss) = laboratory.recover(&with_loss) else {
        losses.another_write += 1;
        return;
    };
    if read(&with_loss) == data {
        losses.written_again += 1;
    } else if read(&honest) != data {
        losses.written_over += 1;
    } else {
        losses.not_needed += 1;
    }
}

/// Where and what each write of the run wrote.
fn run_writes(trace: &Recorded) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let end = trace
        .crash_points
        .last()
        .map_or(0, |point| point.log_position);
    (trace.durable_position..end).filter_map(|place| match trace.log.entries()[place].kind {
        Kind::Write { offset, .. } => Some((offset, trace.log.data(place).to_vec())),
        Kind::Discard { offset, length } => Some((offset, vec![0; length as usize])),
        _ => None,
    })
}

/// Loses every write of every workload in turn.
fn lose_each_write(file_system: &str, workloads: &[Workload]) -> Vec<Losses> {
    let mut laboratory = Laboratory::new(file_system);
    let mut recorder = laboratory.recorder();
    let record = |workload| recorder.record(workload).expect("recorded");
    let traces: Vec<Recorded> = workloads.iter().map(record).collect();
    drop(recorder);
    let loss = |(workload, trace): (&Workload, &Recorded)| Losses {
        workload: workload.name.clone(),
        writes: run_writes(trace).count() as u32,
        ..Losses::default()
    };
    let mut losses: Vec<Losses> = workloads.iter().zip(&traces).map(loss).collect();
    for number in 1..=losses.iter().map(|loss| loss.writes).max().unwrap_or(0) {
        let mut engine = laboratory.engine(Disk::LoseWrite(number));
        for (place, loss) in losses
            .iter_mut()
            .enumerate()
            .filter(|(_, loss)| number <= loss.writes)
        {
            let result = engine.run(&workloads[place]);
            assert_eq!(
                result.inconclusive, None,
                "{} without write {number}",
                loss.workload
            );
            match result.verdict() {
                Verdict::Finding => loss.caught.push(number),
                _ => excuse(&traces[place], &mut laboratory, number, loss),
            }
        }
    }
    losses
}

fn table(losses: &[Losses]) -> String {
    let mut table =
        "workload    writes  caught  written again  written over  not needed  another\n".to_owned();
    for Losses {
        workload,
        writes,
        caught,
        written_again,
        written_over,
        not_needed,
        another_write,
    } in losses
    {
        let caught = caught.len();
        table += &format!(
            "{workload:<10}{writes:>8}{caught:>8}{written_again:>15}{written_over:>14}{not_needed:>12}{another_write:>9}\n"
        );
    }
    table
}

#[test]
fn of_each_workload_a_lost_write_is_noticed_on_ext4() {
    lost_writes_are_noticed(&["ext4"]);
}

/// The table is for docs/results.md: `cargo test -p end-to-end --test liars -- --ignored --nocapture lost`
#[test]
#[ignore = "takes a minute: make test-long"]
fn of_each_workload_a_lost_write_is_noticed() {
    lost_writes_are_noticed(&FILE_SYSTEMS);
}

fn lost_writes_are_noticed(file_systems: &[&str]) {
    require_root();
    let workloads = parse(TEN, "ten").expect("workloads");
    for file_system in file_systems {
        let losses = in_own_namespace(|| lose_each_write(file_system, &workloads));
        println!("{file_system}\n{}", table(&losses));
        assert!(
            losses.iter().all(|loss| !loss.caught.is_empty()),
            "{file_system}"
        );
    }
}
