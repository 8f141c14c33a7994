//! The power fails again while what was left by a crash recovers.

use std::sync::Arc;
use std::time::Duration;

use block_dev::{Base, PAGE_SIZE};
use checker::Promise;
use pace_rules::disk::Disk;

use super::toy_bed::{Bug, PAGES, ToyBed};
use super::{broken, variant, workload};
use crate::crash_again::CrashAgain;
use crate::engine::Engine;
use crate::result::{AgainCounts, StateFindings, Verdict, WorkloadResult};

/// All states that there are.
const ALL: &str = "prefix,flushed,every-write,reorder:2,torn:512,mixed";

/// What is durable at its end is in three entries of the log.
const TEXT: &str = "creat foo; append foo 5000; append foo 3000; fsync foo";

fn engine(bug: Bug, disk: Disk, states: &str, again: CrashAgain) -> Engine {
    let base = Arc::new(Base::empty(PAGES * PAGE_SIZE as u64));
    let bed = ToyBed::new("ext4", bug);
    let mut engine = Engine::on(Box::new(bed), &variant(), &base, disk).expect("an engine");
    engine.set_states(states.parse().expect("states"), 0);
    engine.set_again(again);
    engine
}

fn times(times: u32) -> CrashAgain {
    CrashAgain {
        times,
        states: None,
    }
}

fn with_states(times: u32, states: &str) -> CrashAgain {
    CrashAgain {
        times,
        states: Some(states.parse().expect("states")),
    }
}

fn run(bug: Bug, states: &str, again: CrashAgain, text: &str) -> WorkloadResult {
    engine(bug, Disk::Honest, states, again).run(&workload(text))
}

fn counts(result: &WorkloadResult) -> AgainCounts {
    result.again.expect("it was asked for")
}

/// The bug breaks this with `again`, and nothing with one crash less.
#[track_caller]
fn breaks(bug: Bug, states: &str, again: CrashAgain, promises: &[Promise]) -> Vec<StateFindings> {
    let less = CrashAgain {
        times: again.times - 1,
        ..again
    };
    let silent = run(bug, states, less, TEXT);
    assert_eq!(silent.verdict(), Verdict::Clean, "{bug:?}: {silent:?}");
    let result = run(bug, states, again, TEXT);
    assert_eq!(broken(&result), promises, "{bug:?}: {result:?}");
    assert_eq!(result.inconclusive, None);
    for state in &result.broken {
        assert_eq!(state.again.len(), again.times as usize, "{state:?}");
        assert!(state.is_by_recovery(), "{state:?}");
    }
    result.broken
}

#[test]
fn a_sound_recovery_may_be_interrupted_anywhere_and_any_number_of_times() {
    for states in ["prefix,flushed", ALL] {
        let result = run(Bug::None, states, times(2), TEXT);
        assert_eq!(result.verdict(), Verdict::Clean, "{result:?}");
        let counts = counts(&result);
        assert!(counts.states_checked > 0 && counts.states_equal > 0);
        // It ends where the recovery that was interrupted would have ended.
        assert_eq!((counts.differing, counts.states_left), (0, 0), "{counts:?}");
    }
}

#[test]
fn a_recovery_that_does_again_what_is_done_is_found() {
    let found = breaks(
        Bug::RecoversTwice,
        "prefix,flushed",
        times(1),
        &[Promise::NoForeignData, Promise::FsyncData],
    );
    let again = &found[0].again[0];
    // The first append is at home already.
    assert_eq!((again.written, again.writes), (2, 4));
    assert!(again.lost.is_empty() && again.clean);
    assert_eq!(found[0].address(), "prefix@12/again/prefix@2");
}

#[test]
fn a_log_that_is_cleared_too_early_is_found() {
    let both = [Promise::FsyncData, Promise::FsyncNames];
    breaks(Bug::ClearsFirst, "prefix", times(1), &both);
    let lost = with_states(1, "every-write,reorder:1");
    let found = breaks(Bug::ClearsUnflushed, "prefix", lost, &both);
    assert_eq!(found[0].again[0].lost.len(), 1);
    // A disk that loses nothing, or everything, does not show it.
    let result = run(Bug::ClearsUnflushed, "prefix,flushed", times(1), TEXT);
    assert_eq!(result.verdict(), Verdict::Clean, "{result:?}");
}

#[test]
fn what_only_a_third_failure_breaks_is_found_with_two_in_recoveries() {
    let both = [Promise::FsyncData, Promise::FsyncNames];
    breaks(Bug::GivesUp, "prefix", times(2), &both);
}

#[test]
fn a_disk_that_ignores_the_flushes_of_a_recovery_is_caught() {
    let again = with_states(1, "every-write,reorder:1");
    let text = workload(TEXT);
    let honest = engine(Bug::None, Disk::Honest, "prefix", again).run(&text);
    assert_eq!(honest.verdict(), Verdict::Clean, "{honest:?}");
    let lying = engine(Bug::None, Disk::DropFlush, "prefix", again).run(&text);
    assert_eq!(broken(&lying), [Promise::FsyncData, Promise::FsyncNames]);
    assert!(lying.broken.iter().all(StateFindings::is_by_recovery));
}

#[test]
fn the_one_write_that_a_disk_loses_is_not_one_of_a_recovery() {
    // The run has three writes. Of the recovery the fourth moves an entry home.
    let disk = Disk::LoseWrite(4);
    let result = engine(Bug::GivesUp, disk, "prefix", times(1)).run(&workload(TEXT));
    assert_eq!(counts(&result).states_checked, 5);
    assert_eq!(result.verdict(), Verdict::Clean, "{result:?}");
}

#[test]
fn what_only_a_second_failure_breaks_is_told_apart_from_the_same_after_one() {
    // A lying disk loses the second entry of the log, and recovery does after it has cleared that.
    let states = "prefix,reorder:1";
    let mut engine = engine(Bug::ClearsFirst, Disk::DropFlush, states, times(1));
    let result = engine.run(&workload("creat foo; append foo 5000; fsync foo"));
    let of_data = |state: &&StateFindings| state.findings[0].promise == Promise::FsyncData;
    let (again, once): (Vec<_>, Vec<_>) = result
        .broken
        .iter()
        .filter(of_data)
        .partition(|state| state.is_by_recovery());
    assert!(!again.is_empty() && !once.is_empty(), "{result:?}");
    assert_eq!(again[0].findings, once[0].findings);
}

#[test]
fn a_content_is_recorded_once_and_judged_for_each_moment_that_it_stands_for() {
    let text = "creat foo; append foo 5000; fsync foo; fsync foo";
    let result = run(Bug::RecoversTwice, "prefix", times(1), text);
    let counts = counts(&result);
    assert_eq!((result.states_checked, counts.recoveries), (1, 1));
    assert_eq!(counts.states_checked, 3, "{counts:?}");
    let [state] = &result.broken[..] else {
        panic!("one stands for both: {result:?}");
    };
    assert_eq!((state.operations_done, state.more), (3, 1));
}

#[test]
fn every_moment_that_a_content_stands_for_has_the_log_of_its_recovery() {
    let text = "creat bar; creat foo; append foo 5000; fsync bar; fsync foo";
    let result = run(Bug::ClearsFirst, "prefix", times(1), text);
    let later = |state: &&StateFindings| state.operations_done == 5;
    assert!(
        result.broken.iter().any(|state| later(&state)),
        "{result:?}"
    );
    for state in &result.broken {
        assert!(!state.again[0].log.entries.is_empty(), "{state:?}");
    }
}

#[test]
fn what_the_first_recovery_breaks_is_not_laid_upon_the_second() {
    let result = run(Bug::ForgetsFlush, "flushed", times(1), TEXT);
    assert_eq!(broken(&result), [Promise::FsyncNames], "{result:?}");
    // Nothing is there to recover: every other state is the same.
    assert!(result.broken.iter().all(|state| state.again.is_empty()));
    let result = run(Bug::ForgetsSize, "prefix", times(1), TEXT);
    assert_eq!(broken(&result), [Promise::FsyncData], "{result:?}");
    let [state] = &result.broken[..] else {
        panic!("one state stands for all: {result:?}");
    };
    assert!(state.again.is_empty() && state.more > 0, "{state:?}");
}

#[test]
fn what_the_checker_says_of_an_interrupted_recovery_counts() {
    let text = "creat bad; fsync bad";
    let result = run(Bug::FsckComplains, "prefix", times(1), text);
    assert_eq!(broken(&result), [Promise::FsckClean]);
    let [state] = &result.broken[..] else {
        panic!("one state stands for all: {result:?}");
    };
    // It was known that the first recovery is not clean, though its check ends later.
    assert!(state.again.is_empty() && state.more > 0, "{state:?}");
}

#[test]
fn without_it_nothing_is_recorded() {
    let result = run(Bug::None, ALL, CrashAgain::default(), TEXT);
    assert_eq!(result.again, None);
}

#[test]
fn states_of_recoveries_are_counted_like_any() {
    let of = |times| counts(&run(Bug::None, "prefix", self::times(times), TEXT));
    let once = of(1);
    assert_eq!((once.recoveries, once.silent), (1, 0));
    // Three entries of the log go home, and it is cleared. Before that it is the state itself, and
    // the flush at the end changes nothing.
    assert_eq!((once.states_checked, once.states_equal), (4, 2));
    let twice = of(2);
    // Of these four, the last has nothing left to move.
    assert_eq!((twice.recoveries, twice.silent), (5, 1));
}

#[test]
fn whose_time_is_up_says_what_is_left_of_recoveries() {
    let mut engine = engine(Bug::None, Disk::Honest, "prefix", times(1));
    engine.set_share(Some(Duration::ZERO));
    let text = workload("creat foo; fsync foo");
    let counts = counts(&engine.run(&text));
    assert_eq!((counts.recoveries, counts.recoveries_left), (0, 1));
}

#[test]
fn a_sample_is_drawn_of_each_recovery() {
    let again = with_states(1, "all,sample:3");
    let of = |seed| {
        let mut engine = engine(Bug::None, Disk::Honest, "prefix", again);
        engine.set_states("prefix".parse().expect("states"), seed);
        counts(&engine.run(&workload(TEXT)))
    };
    let counts = of(1);
    assert_eq!(counts.states_checked + counts.states_equal, 3);
}

#[test]
fn more_states_of_recoveries_than_can_be_visited_are_not_begun() {
    let text = "creat foo; append foo 5000; append foo 3000; append foo 1; fsync foo";
    let again = with_states(1, "every-write,reorder:all,torn:512,mixed");
    let result = run(Bug::None, "prefix", again, text);
    assert_eq!(result.inconclusive, None, "{result:?}");
    // Home are as many writes on their way as the log has entries.
    let appends = "append foo 1; ".repeat(24);
    let result = run(
        Bug::None,
        "prefix",
        again,
        &format!("creat foo; {appends}fsync foo"),
    );
    let why = result.inconclusive.clone().unwrap_or_default();
    assert!(
        why.contains("give --budget, or sample:N as one of --again-states"),
        "{why}"
    );
    assert_eq!(counts(&result).states_checked, 0);
}

#[test]
fn what_a_second_failure_breaks_is_not_laid_upon_a_third() {
    let result = run(Bug::RecoversTwice, "prefix", times(2), TEXT);
    let crashes = |count| {
        let of_count = move |state: &&StateFindings| state.again.len() == count;
        result.broken.iter().filter(of_count)
    };
    // With two or three entries at home the second recovery breaks something by itself, and what
    // recovers from that shows the same. With one, which makes a name that is there, it takes a
    // third.
    assert!(crashes(2).count() > 0, "{result:?}");
    assert!(crashes(1).all(|state| state.again[0].written > 1));
    assert!(
        crashes(2).all(|state| state.again[0].written == 1),
        "{result:?}"
    );
    let once = run(Bug::RecoversTwice, "prefix", times(1), TEXT);
    let likewise = |state: &StateFindings| state.more;
    assert!(
        crashes(1).map(likewise).sum::<u32>() > once.broken.iter().map(likewise).sum(),
        "{result:?}"
    );
}
