//! Which states a sweep looks at, how often, and what it takes of what the check says.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use campaign::{Interrupt, Shard};
use node_sweep::{
    CrashState, Finding, Findings, Fingerprint, Plan, Result, Subject, Swept, Verdict, Verdicts,
    Watch, sweep,
};
use pace_rules::nodes::Space;
use trace::FileId;
use trace_store::Trace;

use crate::recording::Recording;
use crate::support::{Everything, Keeps, saved, spaces, swept_by, swept_by_shell};

/// Passes some states, and is interrupted in the next.
struct Interrupted(u64, Interrupt);

impl Subject for Interrupted {
    fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
        if self.0 == 0 {
            self.1.request();
            return Ok(Verdict::Inconclusive("interrupted".into()));
        }
        self.0 -= 1;
        Ok(Verdict::Ok)
    }
}

#[test]
fn an_interrupted_sweep_counts_what_was_looked_at_and_nothing_that_was_not() {
    let trace = saved(false, false);
    let all = spaces(&trace, "posix");
    let swept = |passed| {
        let interrupt = Interrupt::default();
        let subjects: Vec<Box<dyn Subject>> =
            vec![Box::new(Interrupted(passed, interrupt.clone()))];
        sweep(
            &trace,
            &all,
            0..all.len(),
            subjects,
            &Plan::default(),
            &interrupt,
            &mut (),
        )
        .expect("swept")
    };
    let whole = swept(u64::MAX);
    assert!(
        !whole.interrupted && whole.states == all.len() && whole.checked > 4,
        "{whole:?}"
    );
    for passed in [0, 3] {
        let stopped = swept(passed);
        assert!(stopped.interrupted);
        assert_eq!(
            (stopped.checked, stopped.open()),
            (passed, 0),
            "{stopped:?}"
        );
        assert!(
            stopped.states >= passed + stopped.impossible && stopped.states < whole.states,
            "{stopped:?}"
        );
    }
}

#[test]
fn a_check_that_changes_its_mind_finds_nothing_and_that_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let check = format!(
        "echo >> {0}; if test $(wc -l < {0}) = 1; then echo broken once; else echo ok; fi",
        directory.path().join("n").display()
    );
    let (swept, findings) = swept_by_shell(&saved(true, true), "posix", &check, 1);
    assert_eq!(findings, []);
    assert_eq!(swept.open(), 1);
    assert!(
        swept
            .inconclusive
            .keys()
            .all(|why| why.contains("not repeatable")),
        "{:?}",
        swept.inconclusive
    );
}

#[test]
fn what_is_broken_now_and_then_is_found_and_told_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let check = format!(
        "echo >> {0}; case $(wc -l < {0}) in 1|3) echo broken at times;; *) echo ok;; esac",
        directory.path().join("n").display()
    );
    let (swept, findings) = swept_by_shell(&saved(true, true), "posix", &check, 1);
    assert_eq!(swept.open(), 0);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    assert_eq!(
        (&finding.complaint.words[..], finding.complaint.tries),
        (&["at times".to_owned()][..], Some(3))
    );
}

/// Takes its time, and remembers with how many acknowledgements it looked at disks. What says that
/// everything was saved is broken.
struct Slow(Arc<Mutex<Vec<usize>>>);

impl Subject for Slow {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        let is_saved = state.acknowledged.starts_with(b"saved");
        Ok(if is_saved {
            Verdict::Broken(vec!["saved".into()].into())
        } else {
            Verdict::Ok
        })
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn judge_each(
        &mut self,
        state: &CrashState,
        acknowledged: &[Arc<[u8]>],
    ) -> Result<Vec<Verdict>> {
        self.0
            .lock()
            .expect("nobody panics with it")
            .push(acknowledged.len());
        let of = |lines: &Arc<[u8]>| {
            self.judge(
                &CrashState {
                    acknowledged: lines.clone(),
                    ..state.clone()
                },
                false,
            )
        };
        acknowledged.iter().map(of).collect()
    }
}

#[test]
fn states_with_the_same_disks_are_looked_at_together_and_each_is_judged() {
    let trace = saved(true, false);
    let (one_by_one, _) = swept_by_shell(
        &trace,
        "posix",
        "if grep -q saved {acks}; then echo broken saved; else echo ok; fi",
        1,
    );
    let all = spaces(&trace, "posix");
    let looks = Arc::default();
    let subjects = (0..2)
        .map(|_| Box::new(Slow(Arc::clone(&looks))) as Box<dyn Subject>)
        .collect();
    let together = swept_by(&trace, &all, subjects);
    let keys = |swept: &Swept| swept.broken.keys().copied().collect::<HashSet<_>>();
    assert_eq!(keys(&together), keys(&one_by_one));
    assert_eq!(
        (together.states, together.checked),
        (one_by_one.states, one_by_one.checked)
    );
    let looks = looks.lock().expect("nobody panics with it");
    assert_eq!(looks.iter().sum::<usize>() as u64, together.checked);
    assert!(
        looks.iter().any(|acknowledged| *acknowledged > 1),
        "{looks:?}"
    );
}

/// Finds every third state that it is shown broken, by what its key is, and counts those that it is
/// shown.
struct ByKey(Arc<Mutex<u64>>);

impl Subject for ByKey {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        *self.0.lock().expect("nobody panics with it") += u64::from(!again);
        Ok(match state.key[0] % 3 {
            0 => Verdict::Broken(vec![format!("its key begins with {}", state.key[0])].into()),
            1 => Verdict::Inconclusive("nobody knows".into()),
            _ => Verdict::Ok,
        })
    }
}

/// Sweeps with a plan; returns what came of it, and how many states were looked at.
fn planned(
    trace: &Trace,
    plan: &Plan,
    watch: &mut dyn Watch,
    interrupt: &Interrupt,
) -> (Swept, u64) {
    let all = spaces(trace, "posix");
    let looked_at = Arc::new(Mutex::new(0));
    let subjects = (0..2)
        .map(|_| Box::new(ByKey(looked_at.clone())) as Box<dyn Subject>)
        .collect();
    let swept = sweep(trace, &all, 0..all.len(), subjects, plan, interrupt, watch).expect("swept");
    let looked_at = *looked_at.lock().expect("nobody panics with it");
    (swept, looked_at)
}

/// Of each broken state what it stands for.
fn broken(swept: &Swept) -> HashMap<Fingerprint, (u64, u64)> {
    swept
        .broken
        .iter()
        .map(|(key, broken)| (*key, (broken.states, broken.smallest)))
        .collect()
}

#[test]
fn what_was_looked_at_before_is_not_looked_at_again_and_counts() {
    let trace = saved(false, false);
    let (whole, all) = planned(&trace, &Plan::default(), &mut (), &Interrupt::default());
    assert!(
        all > 8 && !whole.broken.is_empty() && !whole.inconclusive.is_empty(),
        "{whole:?}"
    );
    let mut known = Verdicts::new();
    for most in [1, 4, 7, usize::MAX] {
        let interrupt = Interrupt::default();
        let mut keeps = Keeps {
            verdicts: known.clone(),
            most,
            interrupt: &interrupt,
        };
        let plan = Plan {
            known: known.clone(),
            ..Plan::default()
        };
        let (swept, looked_at) = planned(&trace, &plan, &mut keeps, &interrupt);
        let before = known.len() as u64;
        known = keeps.verdicts;
        assert!(looked_at >= known.len() as u64 - before, "{looked_at}");
        if most == usize::MAX {
            assert_eq!(looked_at + before, all);
            assert_eq!(
                (swept.states, swept.checked, swept.impossible),
                (whole.states, whole.checked, whole.impossible)
            );
            assert_eq!(
                (broken(&swept), swept.open()),
                (broken(&whole), whole.open())
            );
        }
    }
}

/// Gives directories other names, and again: no file system shows one with two.
fn moves() -> Trace {
    let mut recording = Recording::default();
    for (file, names) in [(1, ["a", "b", "c"]), (2, ["d", "e", "f"])] {
        let [first, second, third] = names;
        recording.create_directory(first, FileId(file));
        recording
            .rename(first, second, FileId(file))
            .rename(second, third, FileId(file));
    }
    recording.mark("moved").trace()
}

#[test]
fn the_shards_of_a_sweep_are_all_of_it_and_nothing_twice() {
    let trace = moves();
    let (whole, all) = planned(&trace, &Plan::default(), &mut (), &Interrupt::default());
    assert!(whole.impossible > 1 && all > 8, "{whole:?}");
    // Those that are looked at besides, to know what to blame, are no part of it.
    let whole_states = whole.states - whole.besides;
    for count in 1..5 {
        let (mut states, mut impossible, mut looked_at, mut found) = (0, 0, 0, HashMap::new());
        for number in 1..=count {
            let plan = Plan {
                shard: Shard::new(number, count),
                ..Plan::default()
            };
            let (swept, looked) = planned(&trace, &plan, &mut (), &Interrupt::default());
            assert_eq!(
                swept.states - swept.besides + swept.others,
                whole_states,
                "{number}/{count}"
            );
            (states, impossible, looked_at) = (
                states + swept.states - swept.besides,
                impossible + swept.impossible,
                looked_at + looked,
            );
            found.extend(broken(&swept));
        }
        assert_eq!(
            (states, impossible),
            (whole_states, whole.impossible),
            "{count}"
        );
        assert!(looked_at >= all, "{count}");
        assert_eq!(found, broken(&whole), "{count}");
    }
}

/// The states that are the same as this one to any check, with how much there is to understand in
/// them.
fn same(trace: &Trace, space: &Space, key: &Fingerprint) -> Vec<((usize, usize, usize), u64)> {
    let mut states = node_sweep::States::new(&trace.run, space, trace);
    let size = |state: &pace_rules::nodes::State| {
        let nodes = || state.nodes.iter();
        let (lost, kept) = (
            nodes().map(|node| node.lost.len()).sum(),
            nodes().map(|node| node.micros).sum(),
        );
        (lost, state.cut.iter().sum(), kept)
    };
    let all = (0..space.len()).map(|index| (index, space.state(index)));
    let same = all.filter(|(_, state)| states.make(state).is_ok_and(|made| made.key == *key));
    same.map(|(index, state)| (size(&state), index)).collect()
}

#[test]
fn of_states_that_are_the_same_the_smallest_is_shown() {
    let trace = saved(false, false);
    let all = spaces(&trace, "posix");
    let swept = |indices: Vec<u64>| {
        let subjects: Vec<Box<dyn Subject>> = vec![Box::new(Everything(Arc::default()))];
        sweep(
            &trace,
            &all,
            indices.into_iter(),
            subjects,
            &Plan::default(),
            &Interrupt::default(),
            &mut (),
        )
        .expect("swept")
    };
    let (forwards, backwards) = (
        swept((0..all.len()).collect()),
        swept((0..all.len()).rev().collect()),
    );
    assert!(
        forwards.broken.values().any(|broken| broken.states > 1),
        "{forwards:?}"
    );
    assert_eq!(broken(&forwards), broken(&backwards));
    for (key, broken) in &forwards.broken {
        let same = same(&trace, &all.members()[0].space, key);
        let (_, smallest) = same.iter().min().expect("itself");
        assert_eq!(
            (broken.smallest, broken.states),
            (*smallest, same.len() as u64)
        );
    }
    // The table and the findings count the same.
    let findings = Findings::new(&trace, &all, "posix").of(&forwards);
    let sum = |count: fn(&Finding) -> u64| findings.iter().map(|(found, _)| count(found)).sum();
    let (different, states): (u64, u64) = (sum(|found| found.different), sum(|found| found.states));
    assert_eq!(different, forwards.broken.len() as u64);
    assert!(different < states, "{different} of {states}");
}

/// Takes no verdict on a state that was looked at once only.
struct Confirmed(Arc<Mutex<HashSet<Fingerprint>>>, u64);

impl Watch for Confirmed {
    fn judged(&mut self, _: u64, key: &Fingerprint, _: &Verdict) -> Result<()> {
        self.1 += 1;
        assert!(
            self.0.lock().expect("nobody panics with it").contains(key),
            "written down too early"
        );
        Ok(())
    }
}

#[test]
fn nothing_is_written_down_as_broken_before_it_was_so_twice() {
    let trace = saved(true, false);
    let all = spaces(&trace, "posix");
    let confirmed = Arc::default();
    let mut watch = Confirmed(Arc::clone(&confirmed), 0);
    let subjects = (0..2)
        .map(|_| Box::new(Everything(Arc::clone(&confirmed))) as Box<dyn Subject>)
        .collect();
    let swept = sweep(
        &trace,
        &all,
        0..all.len(),
        subjects,
        &Plan::default(),
        &Interrupt::default(),
        &mut watch,
    )
    .expect("swept");
    assert_eq!(
        (watch.1, swept.broken.len() as u64),
        (swept.checked, swept.checked)
    );
}

#[test]
fn nothing_is_begun_once_the_time_is_up() {
    let trace = saved(false, false);
    let plan = Plan {
        deadline: Some(Instant::now()),
        ..Plan::default()
    };
    let (swept, looked_at) = planned(&trace, &plan, &mut (), &Interrupt::default());
    assert_eq!(
        (swept.states, looked_at, swept.is_over, swept.interrupted),
        (0, 0, true, false)
    );
    let plan = Plan {
        deadline: Some(Instant::now() + Duration::from_secs(600)),
        ..Plan::default()
    };
    let (swept, looked_at) = planned(&trace, &plan, &mut (), &Interrupt::default());
    assert!(!swept.is_over && looked_at == swept.checked, "{swept:?}");
}

/// Panics.
struct Panics;

impl Subject for Panics {
    fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
        panic!("on purpose");
    }
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn a_sweep_ends_if_what_looks_at_states_panics() {
    let trace = saved(false, false);
    let all = spaces(&trace, "posix");
    let _ = sweep(
        &trace,
        &all,
        0..all.len(),
        vec![Box::new(Panics)],
        &Plan::default(),
        &Interrupt::default(),
        &mut (),
    );
}
