//! The models of file systems against the file systems: small random programs run on recorded disks,
//! every crash state of a disk is recovered, and the tree that it shows must be one that the model
//! allows. A model that denies what a disk shows makes every clean sweep on it worthless. Needs root.

#[path = "models/author.rs"]
mod author;
#[path = "models/calls.rs"]
mod calls;
#[path = "models/disk.rs"]
mod disk;
#[path = "models/program.rs"]
mod program;
#[path = "models/search.rs"]
mod search;
#[path = "models/tree.rs"]
mod tree;

use std::collections::HashSet;
use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use end_to_end::{Random, in_own_namespace, require_root};
use pace_rules::nodes::Model;
use trace::{Action, Data, FileOp};

use author::Shape;
use disk::{Crash, Laboratory};
use program::Program;
use search::Allowed;
use tree::{DATA_PER_CALL, Found};

/// So many disks of a file system are worked on at once: whoever mounts one mostly waits.
const WORKERS: usize = 4;

/// The variable that names the only program to be run, as it is printed.
const ONE_PROGRAM: &str = "CRASHPOINT_MODELS_PROGRAM";

/// The variable that has all programs be of one shape, `anything` or `names`. They take turns else.
const SHAPE: &str = "CRASHPOINT_MODELS_SHAPE";

/// Programs have about so many operations at most.
const OPS_MAX: u64 = 10;

/// Trees that are allowed and that no disk showed are counted up to this, for each program.
const OTHERS_MAX: usize = 1000;

/// What crash states are made of each recording.
const STATES: &str = "every-write,flushed,reorder:1";

/// The model of a file system that gives blocks to another file before it is durable that the first
/// one lost them, and writes data in place at any time. Which blocks these are is up to the allocator,
/// and the model knows nothing of it: such trees are counted.
const USES_BLOCKS_AT_ONCE: &str = "ext4-writeback";

/// What came of a number of programs.
#[derive(Default)]
struct Tally {
    programs: usize,
    disks: usize,
    trees: usize,
    /// Trees that the model allows and no disk showed.
    others: usize,
    /// Trees with blocks that were used again, of which the model knows nothing.
    used_again: usize,
    denied: usize,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.programs += other.programs;
        self.disks += other.disks;
        self.trees += other.trees;
        self.others += other.others;
        self.used_again += other.used_again;
        self.denied += other.denied;
    }
}

/// A program with a tree that the model denies.
struct Denial {
    words: String,
}

/// Runs a program, and says of the first tree that is denied what it is.
fn try_program(
    laboratory: &mut Laboratory,
    model: &'static Model,
    program: &Program,
    tally: &mut Tally,
) -> Option<Denial> {
    let recording = laboratory.record(program);
    if env::var_os(ONE_PROGRAM).is_some() {
        println!("{program}\n{}", recording.told());
    }
    let mut allowed = Allowed::new(recording.run.clone(), model);
    let states = STATES.parse().expect("states");
    let grid = allowed.grid.clone();
    let crashes = laboratory.crashes(&recording, &states, 0, &grid);
    tally.programs += 1;
    tally.disks += crashes.len();
    let mut trees = HashSet::new();
    let mut denial = None;
    for (found, crashes) in crashes {
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                denial.get_or_insert(Denial {
                    words: format!("{}: not to be had: {why}", crashes[0].state),
                });
                continue;
            }
        };
        let denied = crashes
            .iter()
            .find(|crash| !allowed.allows(crash.returned..=crash.begun, &found));
        let events = |crash: &Crash| crash.returned..=crash.begun;
        let is_used_again = model.name == USES_BLOCKS_AT_ONCE
            && denied.is_some()
            && crashes.iter().all(|crash| {
                allowed.allows(events(crash), &found)
                    || allowed.allows_blocks_used_again(events(crash), &found)
            });
        tally.used_again += usize::from(is_used_again);
        if let Some(crash) = denied.filter(|_| !is_used_again) {
            tally.denied += 1;
            let events = events(crash);
            let words = format!(
                "{}: after {} to {} events\n{}  allowed:\n{}",
                crash.state,
                crash.returned,
                crash.begun,
                found.told(&grid),
                allowed.told(events, &found)
            );
            denial.get_or_insert(Denial { words });
        }
        if env::var_os(ONE_PROGRAM).is_some() {
            println!("{}:\n{}", crashes[0].state, found.told(&grid));
        }
        trees.insert(found);
    }
    tally.trees += trees.len();
    tally.others += allowed.others(&trees, OTHERS_MAX);
    denial
}

/// Leaves operations out as long as something stays denied.
fn shrink(
    laboratory: &mut Laboratory,
    model: &'static Model,
    program: &Program,
    denial: Denial,
) -> (Program, Denial) {
    let (mut program, mut denial) = (program.clone(), denial);
    let mut place = 0;
    while place < program.ops.len() + program.initial.len() {
        let mut smaller = program.clone();
        if place < program.ops.len() {
            smaller.ops.remove(place);
        } else {
            smaller.initial.remove(place - program.ops.len());
        }
        match try_program(laboratory, model, &smaller, &mut Tally::default()) {
            Some(still) => (program, denial) = (smaller, still),
            None => place += 1,
        }
    }
    (program, denial)
}

/// Does the part of one of the workers. Returns the programs of which a tree is denied.
fn work(
    file_system: &str,
    model: &'static Model,
    worker: usize,
    programs: &[Program],
) -> (Tally, Vec<String>) {
    let mut laboratory = Laboratory::new(file_system);
    let (mut tally, mut told) = (Tally::default(), Vec::new());
    for (number, program) in programs.iter().enumerate().skip(worker).step_by(WORKERS) {
        let Some(denial) = try_program(&mut laboratory, model, program, &mut tally) else {
            continue;
        };
        let (program, denial) = shrink(&mut laboratory, model, program, denial);
        println!(
            "{}: program {number}: {program}\n  {}",
            model.name, denial.words
        );
        told.push(program.to_string());
    }
    (tally, told)
}

/// Has programs run on a file system, and expects that its model allows what its disk shows.
#[track_caller]
fn compare(file_system: &str, model: &str, programs: &[Program]) {
    let told = denied(file_system, model, programs);
    assert!(
        told.is_empty(),
        "{model} denies what the disk shows:\n{}",
        told.join("\n")
    );
}

/// Has programs run on a file system. Returns those of which a model denies what the disk shows.
fn denied(file_system: &str, model: &str, programs: &[Program]) -> Vec<String> {
    require_root();
    let model = Model::named(model).expect("it is known");
    let begun = Instant::now();
    let (mut tally, mut told) = (Tally::default(), Vec::new());
    std::thread::scope(|scope| {
        let work = |worker| move || in_own_namespace(|| work(file_system, model, worker, programs));
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| scope.spawn(work(worker)))
            .collect();
        for worker in workers {
            let (own, denied) = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tally.add(&own);
            told.extend(denied);
        }
    });
    println!(
        "{}: {} programs, {} disks, {} trees, {} allowed that no disk showed, \
         {} with blocks that were used again, {} denied, {:.1} s",
        model.name,
        tally.programs,
        tally.disks,
        tally.trees,
        tally.others,
        tally.used_again,
        tally.denied,
        begun.elapsed().as_secs_f64()
    );
    // A crash has left more than one tree of them, and each was had of a disk.
    assert!(
        tally.trees > tally.programs && tally.disks >= tally.trees,
        "{}: {} trees and {} disks of {} programs",
        model.name,
        tally.trees,
        tally.disks,
        tally.programs
    );
    told
}

/// So many programs, from the seed that the environment names, or else this one; or the one program
/// that it names.
fn programs(count: u64, seed: u64) -> Vec<Program> {
    let named = |name: &str| env::var(name).ok();
    if let Some(text) = named(ONE_PROGRAM) {
        return vec![text.parse().expect("a program"); 3];
    }
    let number = |name: &str| named(name).and_then(|text| text.parse().ok());
    let seed = number("CRASHPOINT_TEST_SEED").unwrap_or(seed);
    let count = number("CRASHPOINT_MODELS_COUNT").unwrap_or(count);
    println!("CRASHPOINT_TEST_SEED={seed} CRASHPOINT_MODELS_COUNT={count}");
    let mut random = Random::from_seed(seed);
    let shapes = match named(SHAPE).as_deref() {
        Some("names") => &[Shape::Names][..],
        Some("anything") => &[Shape::Anything],
        None => &[Shape::Anything, Shape::Names],
        Some(other) => panic!("{SHAPE}: there is no shape {other}"),
    };
    let shapes = shapes.iter().cycle().take(count as usize);
    shapes
        .map(|shape| Program::random(&mut random, *shape, OPS_MAX))
        .collect()
}

/// So many programs of each file system in a usual run, and in a long one.
const SOME: u64 = 4;
const MANY: u64 = 1250;

#[test]
fn ext4_ordered_allows_what_the_disk_shows() {
    compare("ext4", "ext4-ordered", &programs(SOME, 1));
}

#[test]
fn ext4_writeback_allows_what_the_disk_shows() {
    compare(WRITEBACK, "ext4-writeback", &programs(SOME, 2));
}

#[test]
fn xfs_allows_what_the_disk_shows() {
    compare("xfs", "xfs", &programs(SOME, 3));
}

#[test]
fn btrfs_allows_what_the_disk_shows() {
    compare("btrfs", "btrfs", &programs(SOME, 4));
}

/// What its log has of one file alone no journal does: the models of those deny it, and it is noticed.
fn assert_denied(model: &str) {
    let program = "has c 4096; rewrite a 4096; rename c d; rewrite b 4096; fsync b";
    let programs = [program.parse().expect("a program")];
    let told = denied("btrfs", model, &programs);
    // What has nothing to do with it is left out.
    let is_smaller = |told: &String| told.len() < program.len() && told.contains("fsync b");
    assert!(told.len() == 1 && is_smaller(&told[0]), "{model}: {told:?}");
}

#[test]
fn a_model_of_another_file_system_denies_what_the_disk_shows() {
    assert_denied("ext4-ordered");
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn so_does_the_model_of_the_other_journal() {
    assert_denied("xfs");
}

/// Programs of which btrfs showed what its model once denied. Random ones seldom are like these.
const ONCE_DENIED: [&str; 33] = [
    // A file that moved on says nothing of the name that it took on the way.
    "has a 4096; has b 8192; rename a b; rename b c; rewrite a 5000; fdatasync a",
    "has d/; has a 4096; has d/b 8192; rename a d/b; rename d/b d/c; rewrite a 2500; fsync a",
    "has d/; has b 4096; has d/a 12288; has d/b 5000; link b c; rewrite d/t 2500; fsync d/t; \
     rename d/t d/a; rename d/b d/c; rename d/a d/b; fsync c",
    // Who had a name is logged with its own, also in a directory that is not there.
    "has d/; has d/a 5000; has d/b 12288; mkdir e; rewrite d/t 4096; fsync d/a; rename d/a e/a; \
     rename d/b d/c; rewrite d/a 8192; fsync d/a",
    "has d/; has a 4096; rewrite d/a 5000; exchange a d/a; rename a b; rewrite a 12288; fdatasync a",
    "has d/; has b 4096; has d/a 8192; has d/b 8192; exchange d/b b; rename b d/b; \
     rename d/b d/c; rename d/a d/b; rewrite d/a 100; fsync d/a",
    "has d/; has a 4096; has d/a 8192; exchange d/a a; unlink a; rewrite d/t 2500; rename d/t d/b; \
     exchange d/b d/a; rename d/b d/c; rewrite a 2500; fdatasync a",
    "has d/; has b 5000; has d/a 100; link d/a c; rename b c; rename d/a d/b; rewrite d/a 8192; \
     fsync d/a",
    "has d/; has a 8192; has d/b 12288; rename d/b d/c; rename a b; rewrite a 12288; fdatasync a; \
     link b d/b; rename d/b d/c; rewrite d/t 8192; fsync d/t",
    // Not so who had the name that a new file got before it was synced, and nothing else keeps.
    "has d/; has d/a 4096; rename d/a d/b; rewrite d/a 12288; rename d/b d/c; rename d/a d/b; \
     fdatasync d/b",
    // It has both names where the first one is in a directory that is not logged.
    "has d/; has b 5000; rename b c; rewrite a 8192; fsync a; rename c d/a; rename a b; rename b c; \
     rewrite a 12288; fsync a",
    "has d/; has a 4096; has d/a 12288; rename d/a b; append a 2500 dsync; rename b c; rename a b; \
     rewrite t 8192; fdatasync t",
    // And one that has none any more goes back to those that are on the disk.
    "has b 8192; rename b c; rewrite a 5000; fdatasync a; rename a b; rename b c; \
     rewrite t 12288; fsync t",
    "has d/; has a 100; has d/a 4096; rewrite d/t 4096; fsync d/t; rename d/t d/a; \
     rename a d/a; neighbour",
    "has d/; has d/b 100; fsync d/b; rewrite t 8192; fdatasync t; rename t c; rename c d/a; \
     rename d/b d/c; rename d/a d/b; rename d/b d/c; fsync .",
    "has d/; has d/a 100; has d/b 5000; fdatasync d; rename d/b d/c; rename d/a d/b; \
     rename d/b d/c; rewrite d/a 12288; fsync d/a; rewrite d/t 4096; rename d/t d/c",
    // Nor of whom a file replaced on the way to a name that it has now.
    "has d/; has d/a 100; rewrite t 4096; rename t b; fsync .; rename b d/a; unlink d/a; \
     fdatasync .",
    "has d/; has d/a 100; rewrite t 4096; fsync t; rename t d/a; rename d/a d/c; fsync .",
    "has d/; has b 12288; rename b d/a; fdatasync d/a; rewrite d/t 8192; fsync d/t; rename d/t d/a; \
     rename d/a d/b; rewrite t 2500; fdatasync t",
    // What is lost had no end here, and the stack overflowed.
    "has d/; has b 8192; has d/a 100; rename b d/a; rewrite t 2500; fsync t; rename t a; commit; \
     rename a b; rewrite a 8192; fsync a; rename d/a d/b",
    // And it is not there with those only who had that later.
    "has d/; has a 8192; has b 100; rename b c; rename a b; rename c d/b; rename b c; \
     rewrite a 5000; fsync a",
    // Nor of what was appended to one that gave way.
    "has d/; has d/a 12288; append d/a 5000; link d/a a; rename d/a b; rewrite d/a 2500; \
     fdatasync d/a",
    // So it is with a name that two took, and left again.
    "has a 4096; has b 4096; rewrite t 4096; fdatasync t; rename t b; rename a b; rename b c; \
     rewrite a 12288; fsync a",
    "has d/; has a 100; rewrite t 100; fsync t; rename t a; rename a b; rewrite a 5000; fsync a; \
     rename a b; rewrite d/a 4096; fsync d/a",
    "has d/; has d/a 100; rewrite d/t 12288; fsync d/t; rename d/t d/a; rewrite d/t 12288; \
     fsync d/t; rename d/t d/a; rename d/a d/b; rewrite t 100; fsync t",
    // A directory is not logged for a file that is new, nor what follows for one that is not logged.
    "has d/; rewrite a 2500; link a b; rewrite t 8192; rename t c; fdatasync b; rename d e; \
     rewrite t 5000; fsync t",
    "has d/; has d/a 12288; has d/b 12288; fsync d; rename d/a d/b; rewrite d/a 12288; \
     rename d/b d/c; rename d/a d/b; rewrite d/a 2500; fdatasync d/a",
    "has d/; has d/b 4096; rename d e; commit; fdatasync e; rename e d; rewrite d/t 3; \
     rename d/t d/a; rename d/b d/c; rename d/a d/b; rewrite d/a 8192; fsync d/a",
    "has d/; has d/a 100; rewrite t 8192; fsync t; rename t a; exchange d/a a; fsync d; \
     rename d/a d/b; rename a b; rewrite a 8192; fdatasync a",
    // A logged directory does not lose the name of a file that is replaced.
    "has d/; has b 5000; has d/a 4096; link d/a d/b; exchange b d/b; fsync d; rewrite d/t 8192; \
     rename d/t d/a; fdatasync b",
    // What repeats others is lost with these only.
    "has d/; has d/b 12288; rewrite a 3; fdatasync a; rewrite t 4096; fsync t; rename t b; \
     rename b d/b; exchange a d/b; rename a b; rewrite a 2500; fsync a",
    // An exchange may bring a new name into the log with its directory.
    "has d/; has b 12288; has d/a 8192; rename b c; rename d/a d/b; rewrite d/a 8192; fsync d/a; \
     exchange c d/b; rewrite t 12288; fdatasync t",
    // A name that another file took is the first one's again where that is logged in another directory.
    "has d/; has a 4096; has d/b 5000; link d/b b; rename a c; commit; rename c b; \
     write d/b 0 2500 sync",
];

/// Of those programs, each that is so many after another.
fn once_denied_are_allowed(step: usize) {
    let programs = ONCE_DENIED.iter().step_by(step);
    let programs: Vec<_> = programs
        .map(|text| text.parse().expect("a program"))
        .collect();
    compare("btrfs", "btrfs", &programs);
}

#[test]
fn what_was_denied_once_is_allowed() {
    once_denied_are_allowed(6);
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn all_that_was_denied_once_is_allowed() {
    once_denied_are_allowed(1);
}

/// What is counted as blocks that were used again is that, and nothing else that a model denies.
#[test]
fn a_page_of_another_file_is_all_that_counts_as_used_again() {
    require_root();
    let program: Program = "has a 8192; unlink a; rewrite c 8192"
        .parse()
        .expect("a program");
    let look = || {
        let recording = Laboratory::new(WRITEBACK).record(&program);
        let node = &recording.run.nodes[0];
        let all = node.events.len();
        let byte = |data: Data| (data.at / DATA_PER_CALL) as u8;
        let of_a = byte(
            node.initial
                .iter()
                .find_map(|file| file.content.first())
                .expect("bytes")
                .1,
        );
        let of_c = node.events.iter().find_map(|event| match event.action {
            Action::File(FileOp::Write { data, .. }) => Some(byte(data)),
            _ => None,
        });
        let of_c = of_c.expect("it is written");
        let model = Model::named("ext4-writeback").expect("it is known");
        let mut allowed = Allowed::new(recording.run.clone(), model);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a");
        let grid = allowed.grid.clone();
        let mut look = |runs: &[(u8, usize)], events: usize| {
            let bytes: Vec<u8> = runs
                .iter()
                .flat_map(|(byte, len)| vec![*byte; *len])
                .collect();
            std::fs::write(&path, bytes).expect("written");
            std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("its mode");
            let found = Found::read(directory.path(), &grid).expect("read");
            let events = events..=events;
            (
                allowed.allows(events.clone(), &found),
                allowed.allows_blocks_used_again(events, &found),
            )
        };
        assert!(look(&[(of_a, 8192)], all).0);
        let page_of_c = [(of_c, 4096), (of_a, 4096)];
        assert_eq!(look(&page_of_c, all), (false, true));
        assert_eq!(
            look(&[(of_a, 4096), (of_c, 100), (0, 3996)], all),
            (false, true)
        );
        // Before the blocks are given back.
        assert_eq!(look(&page_of_c, 0), (false, false));
        // A part of a page, zeros, and another size.
        for runs in [
            &[(of_a, 2048), (of_c, 2048), (of_a, 4096)][..],
            &[(0, 4096), (of_a, 4096)],
            &[(of_c, 4096)],
        ] {
            assert_eq!(look(runs, all), (false, false), "{runs:?}");
        }
    };
    std::thread::scope(|scope| {
        let looked = scope.spawn(|| in_own_namespace(look));
        looked
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Without this, nothing is said of a commit that is not followed by the data of files.
#[test]
fn a_neighbour_commits_names_and_waits_for_no_data() {
    require_root();
    let program: Program = "has d/; create d/a; append d/a 41; commit; create d/b; fsync d/b"
        .parse()
        .expect("a program");
    for file_system in ["ext4", "xfs", "btrfs"] {
        let shows = || {
            let mut laboratory = Laboratory::new(file_system);
            let recording = laboratory.record(&program);
            let states = STATES.parse().expect("states");
            let model = Model::named("posix").expect("it is known");
            let grid = Allowed::new(recording.run.clone(), model).grid;
            let crashes = laboratory.crashes(&recording, &states, 0, &grid);
            let trees = crashes.into_iter().filter_map(|(found, _)| found.ok());
            let trees: Vec<_> = trees.map(|found| found.told(&grid)).collect();
            let is_committed =
                |tree: &String| tree.contains("d/a: mode 644, 0 bytes") && !tree.contains("d/b:");
            assert!(
                trees.iter().any(is_committed),
                "{file_system}: {}",
                trees.join("\n")
            );
        };
        std::thread::scope(|scope| {
            scope
                .spawn(|| in_own_namespace(shows))
                .join()
                .expect("shown");
        });
    }
}

/// The variable that names a file system and a model, such as f2fs=btrfs. Without it, it is one that
/// orders more than the model does.
const PAIR: &str = "CRASHPOINT_MODELS_PAIR";

#[test]
#[ignore = "compares what CRASHPOINT_MODELS_PAIR names"]
fn a_model_allows_what_the_disk_of_another_file_system_shows() {
    let pair = env::var(PAIR).unwrap_or_else(|_| "ext4=ext4-writeback".into());
    let (file_system, model) = pair.split_once('=').expect("FILE_SYSTEM=MODEL");
    compare(file_system, model, &programs(25, 5));
}

const WRITEBACK: &str = "ext4:data=writeback";

#[test]
#[ignore = "takes half an hour"]
fn models_allow_what_thousands_of_programs_show() {
    let seed = u64::from(std::process::id());
    let all = [
        ("ext4", "ext4-ordered"),
        (WRITEBACK, "ext4-writeback"),
        ("xfs", "xfs"),
        ("btrfs", "btrfs"),
    ];
    let failed = std::thread::scope(|scope| {
        let tests = all.map(|(file_system, model)| {
            scope.spawn(move || compare(file_system, model, &programs(MANY, seed)))
        });
        tests
            .into_iter()
            .filter_map(|test| test.join().err())
            .count()
    });
    assert_eq!(failed, 0, "models deny what disks show");
}
