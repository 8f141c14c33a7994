//! One workload after the other, on one engine.

use std::sync::Arc;
use std::time::Duration;

use block_dev::{Base, PAGE_SIZE};
use checker::Promise;
use pace_rules::disk::{Disk, Relaxation, State};

use super::toy_bed::{Bug, PAGES, ToyBed};
use super::{broken, variant, workload};
use crate::engine::Engine;
use crate::result::{Verdict, WorkloadResult};
use crate::story::state_words;

/// All states that there are.
const ALL: &str = "prefix,flushed,every-write,reorder:2,torn:512,mixed";

const WORKLOADS: [&str; 8] = [
    "creat foo; write foo 0 6000; fsync foo; append foo 5000; fdatasync foo",
    "setup; mkdir A; creat A/foo; run; write A/foo 0 4K; rename A/foo A/bar; fsync A/bar; sync",
    "creat foo; link foo bar; fsync bar; unlink foo; fsync bar",
    "creat foo; write foo 0 9000; fsync foo; creat bar; write bar 0 3000; rename bar foo; fsync foo",
    "mkdir A; symlink target A/link; sync; rename A B; fsync B",
    "creat foo; setxattr foo user.x y; chmod foo 600; fsync foo; removexattr foo user.x; fsync foo",
    "creat foo; write foo 0 8K sync; truncate foo 100; fsync foo; falloc foo keep_size 0 64K; fsync foo",
    "creat foo; write foo 0 4K; !; sync; !",
];

fn engine(bug: Bug, disk: Disk, states: &str) -> Engine {
    let base = Arc::new(Base::empty(PAGES * PAGE_SIZE as u64));
    let bed = ToyBed::new("ext4", bug);
    let mut engine = Engine::on(Box::new(bed), &variant(), &base, disk).expect("an engine");
    engine.set_states(states.parse().expect("states"), 0);
    engine
}

fn run(bug: Bug, states: &str, text: &str) -> WorkloadResult {
    engine(bug, Disk::Honest, states).run(&workload(text))
}

#[test]
fn a_sound_file_system_is_never_accused() {
    for text in WORKLOADS {
        let result = run(Bug::None, ALL, text);
        assert_eq!(result.verdict(), Verdict::Clean, "{text}: {result:?}");
        assert!(result.states_checked > 1, "{text}: {result:?}");
        assert_eq!((result.log, result.states_left), (None, 0), "{text}");
    }
}

/// With a bug, exactly these promises are broken, and none in a workload that does not meet it.
#[track_caller]
fn breaks(bug: Bug, states: &str, text: &str, innocent: &str, promises: &[Promise]) {
    let result = run(bug, states, text);
    assert_eq!(broken(&result), promises, "{bug:?}: {result:?}");
    assert_eq!(result.verdict(), Verdict::Finding);
    assert_eq!(result.inconclusive, None);
    let clean = run(bug, states, innocent);
    assert_eq!(clean.verdict(), Verdict::Clean, "{bug:?}: {clean:?}");
}

#[test]
fn a_size_that_fsync_forgets_breaks_the_promise_of_fsync() {
    breaks(
        Bug::ForgetsSize,
        "prefix",
        "setup; creat foo; run; write foo 0 4K; fsync foo",
        "setup; creat foo; run; truncate foo 4K; fsync foo",
        &[Promise::FsyncData],
    );
}

#[test]
fn a_rename_in_two_steps_is_not_atomic() {
    let text = "setup; creat foo; run; rename foo bar; fsync bar";
    breaks(
        Bug::RenamesInTwo,
        ALL,
        text,
        "setup; creat foo; run; link foo bar; fsync bar",
        &[Promise::RenameAtomic],
    );
    // Between crash points alone it shows.
    let result = run(Bug::RenamesInTwo, "prefix,flushed", text);
    assert_eq!(result.verdict(), Verdict::Clean);
    let result = run(Bug::RenamesInTwo, ALL, text);
    let state = &result.broken[0];
    assert_eq!((state.operations_done, state.under_way), (2, true));
}

#[test]
fn what_is_not_flushed_is_lost_only_where_the_disk_may_lose_it() {
    let text = "setup; creat foo; run; write foo 0 4K; fsync foo";
    breaks(
        Bug::ForgetsFlush,
        "flushed",
        text,
        "setup; creat foo; run; write foo 0 4K; !",
        &[Promise::FsyncData],
    );
    assert_eq!(
        run(Bug::ForgetsFlush, "prefix", text).verdict(),
        Verdict::Clean
    );
    let result = run(Bug::ForgetsFlush, "flushed", text);
    let state = &result.broken[0];
    assert_eq!(state.state.relaxation, Relaxation::Flushed);
    assert_eq!((state.lost.len(), state.pending), (1, 1));
    // What the disk was asked up to the crash is in the result.
    let kinds: String = result
        .log
        .expect("it is kept")
        .entries
        .iter()
        .map(|entry| entry.kind)
        .collect();
    assert_eq!(kinds, "BEBWE");
}

#[test]
fn a_record_that_is_written_with_fua_is_torn_while_it_is_in_flight() {
    let text = "setup; creat foo; run; creat bar; fsync bar";
    breaks(
        Bug::TrustsHeads,
        "every-write,torn:512",
        text,
        "setup; creat foo; run; fsync foo",
        &[Promise::Mountable],
    );
    let result = run(Bug::TrustsHeads, "every-write,torn:512", text);
    for state in &result.broken {
        // The write is the next that the disk was to be sent.
        let State {
            position,
            relaxation,
        } = &state.state;
        let is_in_flight =
            matches!(relaxation, Relaxation::Torn { place, .. } if place == position);
        assert!(is_in_flight && state.under_way, "{state:?}");
        assert_eq!((state.lost.len(), state.operations_done), (1, 2));
        let told = "had torn the write with FUA that was in flight, and lost ";
        assert!(
            state_words(state).starts_with(told),
            "{}",
            state_words(state)
        );
    }
    let kinds = result.log.expect("it is kept").entries.into_iter();
    assert_eq!(kinds.map(|entry| entry.kind).collect::<String>(), "BEBU");
    // It is one sector of a disk that writes so much whole, and nothing loses it later.
    for states in ["every-write,torn:4096", "every-write,flushed,reorder:2"] {
        let result = run(Bug::TrustsHeads, states, text);
        assert_eq!(result.verdict(), Verdict::Clean, "{states}: {result:?}");
    }
}

#[test]
fn a_disk_that_ignores_flushes_is_caught_on_a_sound_file_system() {
    let text = workload("setup; creat foo; run; write foo 0 4K; fsync foo");
    let result = engine(Bug::None, Disk::DropFlush, "flushed").run(&text);
    assert_eq!(broken(&result), [Promise::FsyncData]);
}

#[test]
fn whatever_is_wrong_with_what_recovers_is_a_finding_of_its_own() {
    for (bug, promise) in [
        (Bug::CannotRepair, Promise::Repairable),
        (Bug::CannotMount, Promise::Mountable),
        (Bug::CannotUnmount, Promise::Usable),
        (Bug::CannotWrite, Promise::Usable),
        (Bug::DriverDies, Promise::DriverAlive),
        (Bug::KernelSays, Promise::KernelQuiet),
        (Bug::KernelWarns, Promise::KernelQuiet),
        (Bug::FsckComplains, Promise::FsckClean),
    ] {
        breaks(
            bug,
            "prefix,flushed",
            "creat bad; fsync bad",
            "creat good; fsync good",
            &[promise],
        );
    }
    let result = run(Bug::FsckComplains, "prefix", "creat bad; fsync bad");
    assert_eq!(
        result.broken[0].findings[0].what,
        "e2fsck is not satisfied: the name bad is bad"
    );
}

#[test]
fn what_the_contract_does_not_promise_is_no_finding() {
    // ext4 has no driver that could report something.
    let result = run(Bug::DriverSays, "prefix", "creat bad; fsync bad");
    assert_eq!(result.verdict(), Verdict::Clean, "{result:?}");
}

#[test]
fn who_has_lost_track_accuses_nobody() {
    let inconclusive = |bug, text: &str, why: &str| {
        let result = run(bug, ALL, text);
        assert_eq!(
            result.verdict(),
            Verdict::Inconclusive,
            "{text}: {result:?}"
        );
        let said = result.inconclusive.expect("a reason");
        assert!(said.contains(why), "{text}: {said}");
        result.states_checked
    };
    let hidden = "the running file system does not show what was done";
    inconclusive(Bug::HidesNames, "creat bad; fsync bad", hidden);
    // What came before is checked all the same.
    let text = "creat foo; fsync foo; creat bad; fsync bad";
    assert!(inconclusive(Bug::HidesNames, text, hidden) > 0);
    inconclusive(
        Bug::None,
        "creat foo; creat foo; fsync foo",
        "operation 1, creat foo, was refused: Invalid argument",
    );
    inconclusive(
        Bug::None,
        "creat foo",
        "no persistence operation and no crash point",
    );
}

#[test]
fn what_a_file_system_cannot_do_is_not_applicable() {
    let text = "creat foo; write foo 0 8K; falloc foo insert_range 4K 4K; fsync foo";
    let result = run(Bug::None, "prefix", text);
    assert_eq!(result.verdict(), Verdict::NotApplicable, "{result:?}");
}

#[test]
fn a_workload_whose_time_is_up_says_how_much_is_left() {
    let mut engine = engine(Bug::None, Disk::Honest, ALL);
    let all = engine.run(&workload(WORKLOADS[0]));
    engine.set_share(Some(Duration::ZERO));
    let some = engine.run(&workload(WORKLOADS[0]));
    assert_eq!(some.states_checked, 1, "the first one is worth its time");
    let seen = u64::from(all.states_checked + all.states_equal);
    assert_eq!(1 + some.states_left, seen);
}

#[test]
fn states_that_are_all_equal_take_their_time_too() {
    let mut engine = engine(Bug::WritesAgain, Disk::Honest, "reorder:all");
    engine.set_share(Some(Duration::from_millis(20)));
    let result = engine.run(&workload("creat foo; fsync foo"));
    assert!(result.states_left > 0, "{result:?}");
}

#[test]
fn what_was_refused_half_way_and_undone_before_anybody_looked_accuses_nobody() {
    let run = |text: &str| {
        let result = run(Bug::AppendsHalf, "prefix,every-write", text);
        assert_eq!(broken(&result), [], "{text}: {result:?}");
        let why = result.inconclusive.expect("it is not known what was done");
        assert!(why.contains("append foo 5000, was refused"), "{why}");
        result.states_checked
    };
    // What came before it is checked all the same.
    let text = "creat foo; fsync foo; !; append foo 5000; sync; unlink foo; !";
    assert!(run(text) > 0);
    let text = "setup; creat foo; append foo 5000; run; unlink foo; !";
    assert_eq!(run(text), 0);
}

#[test]
fn what_comes_after_a_file_that_could_not_be_opened_is_checked() {
    for text in [
        "setup; creat foo; run; write bar 0 4K; write foo 0 4K; fsync foo",
        "setup; creat foo; write bar 0 4K; run; write foo 0 4K; fsync foo",
    ] {
        let result = run(Bug::ForgetsFlush, "flushed", text);
        assert_eq!(broken(&result), [Promise::FsyncData], "{text}: {result:?}");
        // That it is not the workload as it is written is said all the same.
        let why = result.inconclusive.expect("it was refused");
        assert!(why.contains("write bar 0 4K, was refused"), "{why}");
        let clean = run(Bug::None, ALL, text);
        assert_eq!(broken(&clean), [], "{text}: {clean:?}");
        assert!(clean.states_checked > 0, "{text}");
    }
}

#[test]
fn a_result_repeats() {
    let of = |mut result: WorkloadResult| {
        result.timing = crate::result::Timing::default();
        result
    };
    let text = "setup; creat foo; run; rename foo bar; fsync bar";
    assert_eq!(
        of(run(Bug::RenamesInTwo, ALL, text)),
        of(run(Bug::RenamesInTwo, ALL, text))
    );
}
