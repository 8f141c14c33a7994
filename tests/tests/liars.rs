//! Disks and mount options that lie are caught; the same workloads on an honest disk are clean.
//! Needs root.

use std::sync::Arc;

use block_dev::{Image, Kind};
use end_to_end::{FILE_SYSTEMS, Laboratory, in_own_namespace, replay_with, require_root};
use pace_rules::disk::{Disk, Request, Selection, kept};
use recorder::Trace;
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
    assert_eq!(report.status, 1, "{file_system} {lie:?}: {:?}", report.summaries);
    // Names may be durable all the same, where the journal is written with FUA; data is not.
    let found = report.with_verdict("finding");
    for workload in ["data", "overwrite"] {
        assert!(found.iter().any(|name| name == workload), "{file_system} {lie:?}: {:?}", report.broken());
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
        let report = replay_with(file_system, &["--jobs", "2", "--disk", "drop-fua"], WORKLOADS);
        assert_eq!(report.status, 1, "{file_system}: {:?}", report.summaries);
        // Data is covered by the flush before the commit; what the commit was to hold is lost.
        let found = report.with_verdict("finding");
        assert!(found.iter().any(|name| name == "name"), "{file_system}: {:?}", report.broken());
    }
}

#[test]
fn ext4_without_barriers_is_caught() {
    caught("ext4", &["-o", "barrier=0"]);
}

#[test]
fn btrfs_without_barriers_is_caught() {
    caught("btrfs", &["-o", "nobarrier"]);
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
#[derive(Debug)]
struct Losses {
    workload: String,
    writes: u32,
    /// The numbers of the writes whose loss was noticed.
    caught: Vec<u32>,
    /// No crash state differs without it: it was written again, or changed nothing.
    no_difference: u32,
    /// The disk differs, and every promise holds: another copy was used, or nothing needs it.
    harmless: u32,
}

/// The crash states of a trace, by what their disks hold.
fn disks(trace: &Trace, laboratory: &Laboratory, disk: Disk) -> Vec<impl PartialEq + use<>> {
    let request = |kind: Kind| match kind {
        Kind::Write { fua, .. } => Request::Write { fua },
        Kind::Discard { .. } => Request::Write { fua: false },
        Kind::Flush => Request::Flush,
        Kind::FuaFlush | Kind::Mark(_) => Request::Nothing,
    };
    let mut image = Image::new(Arc::clone(laboratory.base()));
    let mut hashes = Vec::new();
    for point in &trace.crash_points {
        let requests: Vec<_> =
            trace.log.entries()[..point.log_position].iter().map(|entry| request(entry.kind)).collect();
        for state in Selection::ALL {
            image.reset();
            for place in kept(&requests, trace.durable_position, state, disk) {
                trace.log.apply(place, &mut image);
            }
            hashes.push(image.hash());
        }
    }
    hashes
}

fn run_writes(trace: &Trace) -> u32 {
    let end = trace.crash_points.last().map_or(0, |point| point.log_position);
    let is_write = |kind: Kind| matches!(kind, Kind::Write { .. } | Kind::Discard { .. });
    trace.log.entries()[trace.durable_position..end].iter().filter(|entry| is_write(entry.kind)).count() as u32
}

/// Loses every write of every workload in turn.
fn lose_each_write(file_system: &str, workloads: &[Workload]) -> Vec<Losses> {
    let mut laboratory = Laboratory::new(file_system);
    let mut recorder = laboratory.recorder();
    let mut losses = Vec::new();
    let mut differs = Vec::new();
    for workload in workloads {
        let trace = recorder.record(workload).expect("recorded");
        let writes = run_writes(&trace);
        let honest = disks(&trace, &laboratory, Disk::Honest);
        let changed = |number: &u32| disks(&trace, &laboratory, Disk::LoseWrite(*number)) != honest;
        differs.push((1..=writes).filter(changed).collect::<Vec<_>>());
        let workload = workload.name.clone();
        losses.push(Losses { workload, writes, caught: Vec::new(), no_difference: 0, harmless: 0 });
    }
    drop(recorder);
    for number in 1..=losses.iter().map(|loss| loss.writes).max().unwrap_or(0) {
        let mut engine = laboratory.engine(Disk::LoseWrite(number));
        for (place, loss) in losses.iter_mut().enumerate() {
            if number > loss.writes {
                continue;
            }
            let result = engine.run(&workloads[place]);
            assert_eq!(result.not_measured, None, "{} without write {number}", loss.workload);
            match result.verdict() {
                Verdict::Finding => loss.caught.push(number),
                _ if differs[place].contains(&number) => loss.harmless += 1,
                _ => loss.no_difference += 1,
            }
        }
    }
    losses
}

fn table(losses: &[Losses]) -> String {
    let mut table = "workload    writes  caught  no difference  harmless  which were caught\n".to_owned();
    for Losses { workload, writes, caught, no_difference, harmless } in losses {
        let count = caught.len();
        let caught: Vec<_> = caught.iter().map(ToString::to_string).collect();
        table +=
            &format!("{workload:<10}{writes:>8}{count:>8}{no_difference:>15}{harmless:>10}  {}\n", caught.join(" "));
    }
    table
}

/// The table is for docs/results.md: `cargo test -p end-to-end --test liars -- --nocapture lost`
#[test]
fn of_each_workload_a_lost_write_is_noticed() {
    require_root();
    let workloads = parse(TEN, "ten").expect("workloads");
    for file_system in FILE_SYSTEMS {
        let losses = in_own_namespace(|| lose_each_write(file_system, &workloads));
        println!("{file_system}\n{}", table(&losses));
        assert!(losses.iter().all(|loss| !loss.caught.is_empty()), "{file_system}");
    }
}
