//! Many workloads, on several workers.

use std::sync::atomic::{AtomicU32, Ordering};

use campaign::Interrupt;
use checker::Promise;
use workloads::Workload;

use super::results::arguments;
use super::toy_bed::Bug;
use super::{broken, first_found, machine, machine_of, options, sweep, variant, workload};
use crate::crash_again::CrashAgain;
use crate::engine::search::Search;
use crate::error::Error;
use crate::findings::{Found, FoundWhat};
use crate::minimize::{minimize, search_for};
use crate::pool::Worker;
use crate::result::{StateFindings, Timing, Verdict, WorkloadResult};
use crate::sweep::{SweepOptions, Workers};
use crate::worker::{Answer, Job};

const TEXTS: [&str; 9] = [
    "creat a; fsync a",
    "creat b; write b 0 4K; fsync b",
    "setup; creat c; run; rename c d; fsync d",
    "creat bad; fsync bad",
    "mkdir A; creat A/e; fsync A/e",
    "creat f; creat f; fsync f",
    "creat g; link g h; fsync h",
    "setup; creat i; run; write i 0 8K; fdatasync i",
    "creat j; write j 0 4K; rename j k; sync",
];

fn without_times(results: Vec<WorkloadResult>) -> Vec<WorkloadResult> {
    let timing = Timing::default();
    results
        .into_iter()
        .map(|result| WorkloadResult { timing, ..result })
        .collect()
}

#[test]
fn how_many_workers_there_are_changes_no_result() {
    for bug in [Bug::None, Bug::RenamesInTwo, Bug::CannotMount] {
        let of = |jobs| without_times(sweep(&options(bug, "prefix,every-write", jobs), &TEXTS));
        let one = of(1);
        let verdicts: Vec<_> = one.iter().map(WorkloadResult::verdict).collect();
        assert_eq!(verdicts[5], Verdict::Inconclusive);
        let findings = verdicts
            .iter()
            .filter(|verdict| **verdict == Verdict::Finding);
        assert_eq!(
            findings.count(),
            usize::from(bug == Bug::CannotMount) + 2 * usize::from(bug == Bug::RenamesInTwo)
        );
        for jobs in [2, 5] {
            assert_eq!(of(jobs), one, "{bug:?} with {jobs} workers");
        }
    }
}

#[test]
fn a_worker_that_dies_costs_only_the_workload_that_it_died_of() {
    for jobs in [1, 3] {
        let results = sweep(&options(Bug::WorkerDies, "prefix", jobs), &TEXTS);
        for (text, result) in TEXTS.iter().zip(&results) {
            let expected = match *text {
                "creat bad; fsync bad" | "creat f; creat f; fsync f" => Verdict::Inconclusive,
                _ => Verdict::Clean,
            };
            assert_eq!(result.verdict(), expected, "{text}: {result:?}");
        }
        let why = results[3].inconclusive.as_deref().unwrap_or_default();
        assert!(why.starts_with("the worker died"), "{why}");
    }
}

#[test]
fn workers_that_keep_dying_end_the_sweep() {
    let mut workers =
        Workers::start(&variant(), &options(Bug::WorkerDies, "prefix", 1)).expect("workers");
    let bad = workload("creat bad; fsync bad");
    let mut source = std::iter::repeat_with(|| Ok(bad.clone())).take(100);
    let error = workers
        .run(&mut source, &Interrupt::default(), &mut |_, _| Ok(()))
        .expect_err("nothing is measured");
    assert!(error.to_string().contains("workers keep dying"), "{error}");
}

#[test]
fn a_stack_trace_accuses_only_who_was_alone() {
    // Beside others it is tried once more, and is a finding then.
    for jobs in [1, 3] {
        let results = sweep(&options(Bug::KernelWarns, "prefix", jobs), &TEXTS);
        assert_eq!(broken(&results[3]), [Promise::KernelQuiet]);
        assert_eq!(results[3].inconclusive, None);
        let others = results.iter().enumerate().filter(|(place, _)| *place != 3);
        assert!(
            others
                .into_iter()
                .all(|(_, result)| result.broken.is_empty())
        );
    }
}

#[test]
fn a_check_that_somebody_killed_is_done_again() {
    let results = sweep(&options(Bug::FsckIsKilled, "prefix", 1), &TEXTS);
    assert_eq!(results[3].verdict(), Verdict::Clean, "{:?}", results[3]);
    assert!(!results[3].retry_alone);
}

#[test]
fn what_the_first_try_found_stays_whatever_becomes_of_the_second() {
    let of = |bug| {
        let result = sweep(&options(bug, "prefix", 1), &["creat bad; fsync bad"]).remove(0);
        assert_eq!(broken(&result), [Promise::Usable], "{bug:?}: {result:?}");
        assert!(result.log.is_some(), "{bug:?}: {result:?}");
        result.inconclusive.expect("why it is not all")
    };
    let died = of(Bug::DiesInSecondTry);
    assert!(died.starts_with("the worker died"), "{died}");
    let healed = of(Bug::HealsInSecondTry);
    let expected = "only the first of two tries found: bad deleting fails";
    assert_eq!(healed, expected);
}

#[test]
fn who_works_in_the_place_of_another_is_not_alone_yet() {
    // The first two workers do not survive it, and then the kernel says something once.
    let started = AtomicU32::new(0);
    let machine = machine_of(move || match started.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Bug::WorkerDies,
        _ => Bug::KernelWarnsOnce,
    });
    let options = SweepOptions {
        machine,
        ..options(Bug::None, "prefix", 2)
    };
    let result = sweep(&options, &["creat bad; fsync bad"]).remove(0);
    assert_ne!(result.verdict(), Verdict::Finding, "{result:?}");
}

#[test]
fn a_worker_says_that_it_goes_on_with_each_workload() {
    let workers = Workers::start(&variant(), &options(Bug::None, "prefix", 1)).expect("workers");
    let mut worker = Worker::start(&machine(Bug::None), &workers.start).expect("a worker");
    let text = workload("creat a; fsync a");
    for job in [Job::Workload(text), Job::Finish] {
        worker.send(&job).expect("sent");
    }
    let first = worker.receive().expect("received");
    assert!(matches!(first, Answer::Step(_)), "{first:?}");
}

#[test]
fn an_interrupted_sweep_begins_nothing_new() {
    for jobs in [1, 3] {
        let mut workers =
            Workers::start(&variant(), &options(Bug::None, "prefix", jobs)).expect("workers");
        let interrupt = Interrupt::default();
        let good = workload("creat a; fsync a");
        let mut source = std::iter::repeat_with(|| Ok(good.clone()));
        let mut done = 0;
        let summary = workers
            .run(&mut source, &interrupt, &mut |_, result| {
                assert_eq!(result.verdict(), Verdict::Clean);
                done += 1;
                interrupt.request();
                Ok(())
            })
            .expect("swept");
        assert!(summary.interrupted);
        assert_eq!(summary.workloads, done);
    }
}

#[test]
fn a_source_that_fails_fails_the_sweep_after_what_was_begun() {
    let mut workers =
        Workers::start(&variant(), &options(Bug::None, "prefix", 2)).expect("workers");
    let good = workload("creat a; fsync a");
    let mut source = (0..5).map(|number| match number {
        4 => Err(Error::Worker("no more".into())),
        _ => Ok(good.clone()),
    });
    let mut done = 0;
    let error = workers
        .run(&mut source, &Interrupt::default(), &mut |_, _| {
            done += 1;
            Ok(())
        })
        .expect_err("it failed");
    assert_eq!((error.to_string().as_str(), done), ("no more", 4));
}

#[test]
fn the_floor_is_measured_on_all_workers() {
    let mut workers =
        Workers::start(&variant(), &options(Bug::None, "prefix", 2)).expect("workers");
    for recovering in [false, true] {
        assert!(workers.floor(5, recovering).expect("measured") > 0.0);
    }
}

/// The first finding of a sweep of one workload.
fn found(workload: &Workload, bug: Bug, states: &str) -> Found {
    let text = workload.to_line();
    let result = sweep(&options(bug, states, 1), &[&text]).remove(0);
    Found {
        workload: workload.clone(),
        ..first_found(&text, result)
    }
}

#[test]
fn a_finding_is_made_small() {
    let text = "setup; mkdir A; creat foo; run; creat A/x; write foo 0 64K; fsync A/x; rename foo A/bar; sync";
    let (bug, states) = (Bug::RenamesInTwo, "prefix,every-write");
    let found = found(&workload(text), bug, states);
    let options = options(bug, states, 1);
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let (mut told, interrupt) = (0, Interrupt::default());
    let small = minimize(
        &found,
        &options.states,
        &mut workers,
        &interrupt,
        &mut |_, _| told += 1,
    )
    .expect("minimised")
    .expect("it comes again");
    let operations: Vec<_> = small
        .workload
        .operations()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        operations,
        ["mkdir A", "creat foo", "rename foo A/bar", "sync"]
    );
    assert!(told > 0 && small.tried > 1 && !small.interrupted);
    let FoundWhat::State(state) = small.what else {
        panic!("no kernel died");
    };
    assert_eq!(state.findings[0].promise, Promise::RenameAtomic);
}

#[test]
fn a_finding_that_does_not_come_again_is_not_made_small() {
    let found = found(
        &workload("creat bad; fsync bad"),
        Bug::CannotMount,
        "prefix",
    );
    let options = options(Bug::None, "prefix", 1);
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let small = minimize(
        &found,
        &options.states,
        &mut workers,
        &Interrupt::default(),
        &mut |_, _| {},
    );
    assert!(small.expect("looked for").is_none());
}

#[test]
fn a_state_is_found_again_with_as_few_lost_writes_as_will_do() {
    let text = workload("creat foo; creat bar; write foo 0 4K; fsync foo");
    let (bug, states) = (Bug::ForgetsFlush, "flushed,reorder:1");
    let found = found(&text, bug, states);
    let options = options(bug, states, 1);
    let search = search_for(&found, &options.states).expect("a search");
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let mut again = |search: &Search| {
        let result = workers.search(&text, search, &Interrupt::default());
        result.expect("searched").broken.remove(0)
    };
    let same = again(&search);
    let FoundWhat::State(first) = &found.what else {
        panic!("no kernel died");
    };
    assert_eq!(
        (&same.state, &same.findings),
        (&first.state, &first.findings)
    );
    let fewest = Search {
        fewest: true,
        ..search
    };
    assert_eq!(again(&fewest).lost.len(), 1);
}

#[test]
fn what_only_a_torn_sector_shows_is_not_found_again_on_a_disk_that_writes_it_whole() {
    let (bug, states) = (Bug::TrustsHeads, "every-write,torn:512");
    let text = workload("setup; creat foo; run; creat bar; fsync bar");
    let found = found(&text, bug, states);
    let is_found = |sector: &str| {
        let words = format!("--fs ext4 --states {states} --sector {sector} --jobs 1");
        let arguments = arguments(&words);
        let options = arguments.sweep_options(&machine(bug));
        // Without the state itself, which is tried whatever the disk is.
        let search = Search {
            state: "prefix@0".parse().expect("a state"),
            ..search_for(&found, &arguments.states()).expect("a search")
        };
        let mut workers = Workers::start(&variant(), &options).expect("workers");
        let result = workers.search(&text, &search, &Interrupt::default());
        !result.expect("searched").broken.is_empty()
    };
    assert_eq!(["512", "4096"].map(is_found), [true, false]);
}

/// A finding of a crash in a recovery, and the options that have it.
fn found_again(text: &str, bug: Bug, again: CrashAgain) -> (Found, SweepOptions) {
    let options = SweepOptions {
        again,
        ..options(bug, "prefix", 1)
    };
    let result = sweep(&options, &[text]).remove(0);
    let found = first_found(text, result);
    (found, options)
}

#[test]
fn a_crash_in_a_recovery_is_found_again_also_in_the_recovery_of_a_recovery() {
    let text = "creat foo; append foo 5000; append foo 3000; fsync foo";
    for (bug, times) in [(Bug::RecoversTwice, 1), (Bug::GivesUp, 2)] {
        let states = None;
        let (found, options) = found_again(text, bug, CrashAgain { times, states });
        let search = search_for(&found, &options.states).expect("a search");
        assert_eq!(search.again.len(), times as usize);
        let mut workers = Workers::start(&variant(), &options).expect("workers");
        let again = |workers: &mut Workers, search: &Search| {
            let result = workers.search(&found.workload, search, &Interrupt::default());
            result.expect("searched").broken.pop()
        };
        let FoundWhat::State(first) = &found.what else {
            panic!("no kernel died");
        };
        let same = again(&mut workers, &search).expect("found");
        assert_eq!(
            (&same.again, &same.findings),
            (&first.again, &first.findings)
        );
        // Of another name the nearest is taken; of another promise none.
        let mut other = search.clone();
        other.again[0].position += 100;
        let near = again(&mut workers, &other).expect("found");
        assert_eq!(near.again.len(), first.again.len());
        other.promise = Promise::RenameAtomic;
        assert_eq!(again(&mut workers, &other), None);
    }
}

#[test]
fn a_crash_in_a_recovery_is_made_small() {
    let again = CrashAgain {
        times: 1,
        states: Some("every-write,reorder:3".parse().expect("states")),
    };
    let text = "mkdir A; creat foo; creat bar; write foo 0 64K; fsync foo; fsync bar";
    let (found, options) = found_again(text, Bug::ClearsUnflushed, again);
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let small = minimize(
        &found,
        &options.states,
        &mut workers,
        &Interrupt::default(),
        &mut |_, _| {},
    );
    let small = small.expect("minimised").expect("it comes again");
    let operations = small.workload.operations().map(ToString::to_string);
    let operations: Vec<_> = operations.collect();
    assert_eq!(operations, ["creat foo", "fsync foo"]);
    let FoundWhat::State(state) = small.what else {
        panic!("no kernel died");
    };
    assert_eq!(
        (state.again.len(), state.lost_writes()),
        (1, 1),
        "{state:?}"
    );
    // A disk loses the fewest writes that will do, in the recovery too.
    let lost = |state: &StateFindings| {
        state.again[0]
            .lost
            .iter()
            .map(|lost| lost.place)
            .collect::<Vec<_>>()
    };
    let (text, all) = ("creat foo; creat bar; mkdir A; fsync foo", vec![0, 1, 2]);
    let (found, options) = found_again(text, Bug::ClearsUnflushed, again);
    let mut search = search_for(&found, &options.states).expect("a search");
    let wanted = search.again[0].position;
    search.again[0] = format!("lost-0-1-2@{wanted}").parse().expect("a state");
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let mut of = |search: &Search| {
        let result = workers.search(&found.workload, search, &Interrupt::default());
        result.expect("searched").broken.remove(0)
    };
    assert_eq!(lost(&of(&search)), all);
    search.fewest = true;
    assert_eq!(lost(&of(&search)).len(), 1);
}
