//! Sweeps with a directory of results: stopped and gone on with, in parts, and merged.

use std::time::{Duration, Instant};

use campaign::{Interrupt, Outcome, Shard};
use node_sweep::{
    Check, CheckCommand, Concluded, Control, CrashState, Finding, Judge, Level, Program, Recorded,
    Requested, Result, Results, Rule, Subject, Summary, Verdict,
};
use pace_rules::nodes::{Explore, Split};
use trace::FileId;
use trace_store::{RecoveryCounts, Trace};

use crate::recording::{Recording, TMP};
use crate::support::saves;

/// A whole sweep as the command line has it, with a directory for its results.
struct Whole {
    trace: Trace,
    sample: Option<u64>,
    place: tempfile::TempDir,
}

impl Whole {
    fn new() -> Self {
        Self {
            trace: saves(&["a", "b"]),
            sample: None,
            place: tempfile::tempdir_in("/dev/shm").expect("a directory"),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }

    fn requested(&self, shard: Option<Shard>) -> Requested<'_> {
        let check = r#"while read -r dir acks; do
            verdict=ok
            while read -r name; do
                test -s "$dir/$name" || { verdict="broken $name is lost"; break; }
            done <"$acks"
            echo "$verdict"; echo end
        done"#;
        self.requested_with(CheckCommand::Serve(check.into()), shard)
    }

    fn requested_with(&self, check: CheckCommand, shard: Option<Shard>) -> Requested<'_> {
        let judge = Judge::Program {
            check,
            limit_s: 600,
            allow_no_acks: true,
        };
        Requested {
            trace: &self.trace,
            name: "program".into(),
            request: node_sweep::Request {
                level: Level::Syscalls,
                model: "posix".into(),
                explore: Rule::BruteForce,
                lost: 1,
                split: Split::default(),
                sector: pace_rules::Sector::default(),
                states: "every-write".parse().expect("states"),
                sample: self.sample,
                seed: 0,
                starts: vec![node_sweep::Start::Together],
                judge,
                specifications: Vec::new(),
            },
            explore: Explore::BruteForce,
            shard,
        }
    }

    /// All of it, or of a part, in a new directory.
    fn all(&self, name: &str, shard: Option<Shard>) -> Concluded {
        let what = self.requested(shard);
        let mut results = what.begin(&self.path(name), 2).expect("begun");
        go_on(&what, &mut results, (None, None)).0
    }
}

/// Goes on with a sweep. Says how many states were looked at now.
fn go_on(
    what: &Requested<'_>,
    results: &mut Results,
    until: (Option<Duration>, Option<u64>),
) -> (Concluded, usize) {
    let (concluded, count) = try_to_go_on(what, results, until);
    (concluded.expect("swept"), count)
}

fn try_to_go_on(
    what: &Requested<'_>,
    results: &mut Results,
    (budget, stop_after): (Option<Duration>, Option<u64>),
) -> (Result<Concluded>, usize) {
    let Judge::Program { check, .. } = &what.request.judge else {
        unreachable!("it is a program's");
    };
    let check = Check {
        command: check.clone(),
        limit: Duration::from_secs(600),
        environment: Vec::new(),
        working_directory: None,
        interrupt: Interrupt::default(),
    };
    let states = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut subjects = |jobs: usize| {
        let subject = |number: usize| {
            let place = states.path().join(number.to_string());
            std::fs::create_dir_all(&place).expect("a directory");
            Ok(Box::new(Program::new(place, None, &check)) as Box<dyn Subject>)
        };
        (0..jobs).map(subject).collect()
    };
    let before = results.count();
    let control = Control {
        jobs: 2,
        budget,
        stop_after,
        interrupt: &Interrupt::default(),
    };
    let concluded = what.run(Some(results), &mut subjects, &control);
    (concluded, results.count() - before)
}

/// Where every recovery fails there is nothing to crash once more, and nothing was tried.
#[test]
fn a_sweep_with_recoveries_of_which_none_was_recorded_says_so() {
    let mut sweep = Whole::new();
    let mut recording = Recording::default();
    recording.create("a", TMP).append(TMP, 0, b"all of it\n");
    sweep.trace = recording.fsync(TMP).fsync(FileId::ROOT).mark("a").trace();
    assert_eq!(sweep.all("once", None).summary.outcome(), Outcome::Clean);
    for (name, not_ok, unchanged, outcome) in [
        ("fails", 4, 0, Outcome::Incomplete),
        ("changes", 0, 4, Outcome::Clean),
    ] {
        sweep.trace.about.recoveries = Some(RecoveryCounts {
            not_ok,
            unchanged,
            ..RecoveryCounts::default()
        });
        let line = "the recovery from 0 of 4 crash states that were tried was recorded, and";
        // One that was stopped before it had begun to look says the same.
        let stopped = sweep.path("stopped").join(name);
        drop(sweep.requested(None).begin(&stopped, 2).expect("begun"));
        let stopped = Recorded::read(&stopped).expect("read").expect("a sweep");
        let whole = sweep.all(name, None).summary;
        assert_eq!(whole.outcome(), outcome, "{}", whole.table());
        for summary in [whole, stopped.summary] {
            assert_eq!(summary.levels[1].model, "posix, again");
            assert!(summary.table().contains(line), "{}", summary.table());
            let untried = usize::from(outcome == Outcome::Incomplete);
            assert_eq!(summary.untried_recoveries().count(), untried);
        }
    }
}

/// To make states ready takes time as looking at them does, whether results are kept or not.
#[test]
fn the_seconds_of_a_sweep_are_all_that_it_took() {
    const READY_AFTER: Duration = Duration::from_millis(300);
    let sweep = Whole::new();
    let what = sweep.requested(None);
    let mut kept = what.begin(&sweep.path("kept"), 1).expect("begun");
    for results in [None, Some(&mut kept)] {
        let mut subjects = |jobs: usize| {
            std::thread::sleep(READY_AFTER);
            (0..jobs)
                .map(|_| Ok(Box::new(Nobody) as Box<dyn Subject>))
                .collect()
        };
        let control = Control {
            jobs: 1,
            budget: None,
            stop_after: None,
            interrupt: &Interrupt::default(),
        };
        let begun = Instant::now();
        let concluded = what.run(results, &mut subjects, &control).expect("swept");
        let seconds = Duration::from_secs_f64(concluded.summary.seconds);
        assert!(
            (READY_AFTER..=begun.elapsed()).contains(&seconds),
            "{seconds:?}"
        );
    }
}

/// What earlier runs found can only be told with the states. Where nothing was, nobody waits for them.
#[test]
fn an_interrupt_before_there_are_states_is_heard_unless_something_is_known_of_them() {
    let sweep = Whole::new();
    let what = sweep.requested(None);
    let mut results = what.begin(&sweep.path("results"), 1).expect("begun");
    let interrupt = Interrupt::default();
    interrupt.request();
    let interrupted = |results: &mut Results| {
        let mut subjects = |jobs: usize| {
            let subject = |_| Ok(Box::new(Nobody) as Box<dyn Subject>);
            (0..jobs).map(subject).collect()
        };
        let control = Control {
            jobs: 1,
            budget: None,
            stop_after: None,
            interrupt: &interrupt,
        };
        what.run(Some(results), &mut subjects, &control)
    };
    let early = interrupted(&mut results).expect_err("nothing is known");
    assert!(early.is_interrupt(), "{early}");
    let (first, looked_at) = go_on(&what, &mut results, (None, Some(1)));
    // One job may find the second while the other finds the first.
    assert!(looked_at > 0 && !first.findings.is_empty(), "{looked_at}");
    let late = interrupted(&mut results).expect("what is known is told");
    let told = |swept: &Concluded| {
        let complaints = swept
            .findings
            .iter()
            .map(|finding| finding.complaint.clone());
        complaints.collect::<Vec<_>>()
    };
    assert_eq!(told(&late), told(&first));
    assert!(late.summary.interrupted && late.failure.is_none());
}

/// Finds nothing.
struct Nobody;

impl Subject for Nobody {
    fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
        Ok(Verdict::Ok)
    }
}

/// What must be the same however a sweep came to its end.
fn came_to(concluded: &Concluded) -> (Vec<String>, Summary) {
    let findings = concluded.findings.iter().map(Finding::json).collect();
    let summary = Summary {
        seconds: 0.0,
        ..concluded.summary.clone()
    };
    (findings, summary)
}

#[test]
fn a_sweep_that_was_stopped_goes_on_and_comes_to_the_same() {
    let sweep = Whole::new();
    let whole = sweep.all("whole", None);
    assert_eq!(whole.findings.len(), 2, "{:?}", whole.findings);
    assert_eq!(whole.summary.outcome(), Outcome::Findings);
    for (name, stop) in [
        ("no time", (Some(Duration::ZERO), None)),
        ("one finding", (None, Some(1))),
    ] {
        let what = sweep.requested(None);
        let mut results = what.begin(&sweep.path(name), 2).expect("begun");
        let (stopped, first) = go_on(&what, &mut results, stop);
        assert!(!stopped.summary.is_whole(), "{name}");
        assert!(stopped.summary.table().contains("stopped before the end"));
        drop(results);
        let (mut results, trace) = Results::open(&sweep.path(name)).expect("opened");
        assert!(!results.is_finished());
        let what = Requested::of(&results, &trace, Explore::BruteForce).expect("it is known");
        let (resumed, second) = go_on(&what, &mut results, (None, None));
        assert_eq!(came_to(&resumed), came_to(&whole), "{name}");
        assert_eq!((first + second) as u64, whole.summary.checked);
        drop(results);
        assert!(
            Results::open(&sweep.path(name))
                .expect("opened")
                .0
                .is_finished()
        );
    }
}

#[test]
fn shards_that_are_merged_come_to_the_same_as_the_whole_sweep() {
    for sample in [None, Some(30)] {
        let sweep = Whole {
            sample,
            ..Whole::new()
        };
        let whole = sweep.all("whole", None);
        let parts: Vec<_> = (1..=3)
            .map(|number| sweep.path(&number.to_string()))
            .collect();
        let mut checked = 0;
        for (number, part) in (1..).zip(&parts) {
            let part = sweep.all(&part.to_string_lossy(), Shard::new(number, 3));
            checked += part.summary.checked;
        }
        // Each looks by itself at those with less missing than a broken one: of all states, than one
        // that lost all at once.
        assert!(checked > whole.summary.checked, "{checked}");
        let merged = node_sweep::merge(&parts, &sweep.path("merged"), false).expect("merged");
        assert!(merged.is_whole);
        let merged = merged.sum_up(&Interrupt::default()).expect("summed up");
        assert_eq!(came_to(&merged), came_to(&whole), "{sample:?}");
        let (merged, _) = Results::open(&sweep.path("merged")).expect("opened");
        assert!(merged.is_finished());
    }
}

#[test]
fn a_check_that_fails_now_and_then_of_any_state_accuses_nobody() {
    let whole = Whole::new();
    let count = whole.path("count");
    // Twice in a row, so that each violation comes again; and not at the beginning.
    let check = format!(
        "echo >>{0}; if test $(($(wc -l <{0}) % 9)) -gt 6; then echo broken x; else echo ok; fi",
        count.display()
    );
    let what = whole.requested_with(CheckCommand::Once(check), None);
    let mut results = what.begin(&whole.path("results"), 1).expect("begun");
    let (concluded, _) = try_to_go_on(&what, &mut results, (None, None));
    let error = concluded.expect_err("it is no judge").to_string();
    assert!(
        error.contains("of 60 times it did not: broken x"),
        "{error}"
    );
}

#[test]
fn a_part_of_a_sample_that_was_stopped_by_its_budget_can_be_ended() {
    for shard in [None, Shard::new(1, 2)] {
        let sweep = Whole {
            sample: shard.is_none().then_some(40),
            ..Whole::new()
        };
        let what = sweep.requested(shard);
        let mut results = what.begin(&sweep.path("results"), 2).expect("begun");
        let until = (Some(Duration::from_millis(20)), None);
        let (_, first) = go_on(&what, &mut results, until);
        drop(results);
        let (mut results, trace) = Results::open(&sweep.path("results")).expect("opened");
        let what = Requested::of(&results, &trace, Explore::BruteForce).expect("it is known");
        let (resumed, second) = go_on(&what, &mut results, (None, None));
        assert!(resumed.summary.is_whole(), "{first}, {second}: {resumed:?}");
        drop(results);
        let (results, _) = Results::open(&sweep.path("results")).expect("opened");
        assert!(results.is_finished());
    }
}

#[test]
fn a_sweep_that_goes_on_does_not_ask_again_what_the_check_said_without_a_crash() {
    let sweep = Whole::new();
    let asked = sweep.path("asked");
    // Of what the run left, and of states that are as whole.
    let check = format!(
        r#"test $(wc -l < {{acks}}) = 2 && test -s {{dir}}/a && test -s {{dir}}/b && echo >> {}
        for name in $(cat {{acks}}); do test -s {{dir}}/$name || {{ echo "broken $name is lost"; exit; }}; done; echo ok"#,
        asked.display()
    );
    let what = sweep.requested_with(CheckCommand::Once(check), None);
    let mut results = what.begin(&sweep.path("results"), 2).expect("begun");
    let lines = || std::fs::read_to_string(&asked).map_or(0, |text| text.lines().count());
    let (first, _) = go_on(&what, &mut results, (None, Some(1)));
    assert!(!first.findings.is_empty());
    let before = lines();
    assert!(before >= 60, "{before}");
    drop(results);
    let (mut results, _) = Results::open(&sweep.path("results")).expect("opened");
    let (resumed, _) = go_on(&what, &mut results, (None, None));
    assert!(resumed.summary.is_whole());
    // A few times whether the check works at all, and of states that had not been looked at.
    let again = lines() - before;
    assert!(again < 20, "{again}");
}
