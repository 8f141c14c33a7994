//! Rules beside the contract: what they find, what they leave alone, and what is said of them.

use std::sync::Arc;

use block_dev::{Base, PAGE_SIZE};
use campaign::Interrupt;
use checker::Promise;
use pace_rules::disk::Disk;
use specification::{Specification, Unlooked};

use super::toy_bed::{Bug, PAGES, ToyBed};
use super::{broken, first_found, options, sweep, variant, workload};
use crate::crash_again::CrashAgain;
use crate::engine::Engine;
use crate::engine::search::Search;
use crate::findings::{Found, FoundWhat};
use crate::minimize::{minimize, search_for};
use crate::result::{StateFindings, Verdict, WorkloadResult};
use crate::sweep::{SweepOptions, Workers};

/// All states that there are.
const ALL: &str = "prefix,flushed,every-write,reorder:2,torn:512,mixed";

/// What was fsynced is there under the name that it had then, as long as nothing was done to that.
const KEPT: &str = r#"
fsynced(P, E) :- file_op(event: E, op: "fsync", path: P).
gone(P) :- file_op(op: "unlink", path: P).
gone(P) :- file_op(op: "rename", path: P).
gone(P) :- in_flight(op: "unlink", path: P).
violation lost(P) :- fsynced(P, _), !gone(P), !entry(path: P).
"#;

/// A file that was renamed is at both names.
const BOTH: &str = "violation both(S, D) :- \
                    file_op(op: \"rename\", path: S, to: D), entry(path: S), entry(path: D).";

fn specification(text: &str) -> Specification {
    Specification {
        name: "s".into(),
        text: text.into(),
    }
}

fn run_again(bug: Bug, states: &str, again: u32, text: &str, rules: &str) -> WorkloadResult {
    run_on(Disk::Honest, bug, (states, again), text, rules)
}

fn run_on(
    disk: Disk,
    bug: Bug,
    (states, again): (&str, u32),
    text: &str,
    rules: &str,
) -> WorkloadResult {
    let base = Arc::new(Base::empty(PAGES * PAGE_SIZE as u64));
    let bed = ToyBed::new("ext4", bug);
    let engine = Engine::on(Box::new(bed), &variant(), &base, disk);
    let mut engine = engine.expect("an engine");
    engine.set_states(states.parse().expect("states"), 0);
    let states = None;
    engine.set_again(CrashAgain {
        times: again,
        states,
    });
    let against = engine.hold_against(&[specification(rules)]);
    against.expect("right");
    engine.run(&workload(text))
}

fn run(bug: Bug, states: &str, text: &str, rules: &str) -> WorkloadResult {
    run_again(bug, states, 0, text, rules)
}

/// The rules that are violated, each once for each state.
fn rules_of(result: &WorkloadResult) -> Vec<&str> {
    let findings = result.broken.iter().flat_map(|state| &state.findings);
    findings.filter_map(|finding| finding.rule_name()).collect()
}

#[test]
fn a_promise_that_is_kept_is_silent_in_all_states() {
    for text in [
        "creat foo; write foo 0 6000; fsync foo; append foo 5000; fdatasync foo",
        "creat foo; fsync foo; rename foo bar; fsync bar; creat foo; fsync foo",
        "setup; mkdir A; creat A/foo; run; write A/foo 0 4K; fsync A/foo; sync",
        "creat foo; link foo bar; fsync bar; unlink foo; fsync bar",
    ] {
        let result = run(Bug::None, ALL, text, KEPT);
        assert_eq!(result.verdict(), Verdict::Clean, "{text}: {result:?}");
        assert_eq!(result.unlooked, Some(Vec::new()), "{text}");
        assert!(result.states_checked > 1, "{text}: {result:?}");
    }
}

#[test]
fn what_a_crash_may_leave_is_found_where_a_rule_forbids_it() {
    let rules = "violation gone(P) :- file_op(op: \"creat\", path: P), !entry(path: P).";
    let result = run(Bug::None, ALL, "creat foo; fsync foo", rules);
    assert_eq!(broken(&result), [Promise::Rule], "{result:?}");
    let state = &result.broken[0];
    assert_eq!((state.operations_done, state.under_way), (1, true));
    let finding = &state.findings[0];
    assert_eq!(finding.what, "s: gone(\"foo\")");
    let derivation = &finding.rule.as_ref().expect("one").derivation;
    for part in ["file_op(event: 0,", "no entry(path: \"foo\")"] {
        assert!(derivation.contains(part), "{derivation}");
    }
}

#[test]
fn a_rule_finds_a_planted_mistake_beside_the_contract() {
    let text = "setup; creat foo; run; rename foo bar; fsync bar";
    let result = run(Bug::RenamesInTwo, ALL, text, BOTH);
    assert_eq!(broken(&result), [Promise::RenameAtomic, Promise::Rule]);
    assert_eq!(rules_of(&result), ["s: both"], "{result:?}");
    let sound = run(Bug::None, ALL, text, BOTH);
    assert_eq!(sound.verdict(), Verdict::Clean, "{sound:?}");
}

#[test]
fn what_the_disk_lost_tells_states_of_one_content_apart() {
    let text = "setup; creat foo; run; write foo 0 4K; fsync foo; fsync foo";
    let of_kinds = "violation is(K) :- disk_state(crash: 0, kind: K).";
    let result = run(Bug::None, ALL, text, of_kinds);
    let found = result.broken.iter().map(|state| 1 + state.more);
    let all = result.states_checked + result.states_equal;
    assert_eq!(found.sum::<u32>(), all, "{result:?}");
    // The contract is asked once of what is the same.
    let other = "violation is(P) :- entry(path: P), P = \"no\".";
    let same = run(Bug::None, ALL, text, other);
    let counts = |result: &WorkloadResult| (result.states_checked, result.states_equal);
    assert_eq!(counts(&result), counts(&same));
    assert!(same.states_equal > 0);
    let lost = "violation lost(N, L) :- lost_write(number: N, length: L, how: \"all\").";
    let result = run(Bug::ForgetsFlush, "prefix,flushed", text, lost);
    let found = result.broken.iter().flat_map(|state| &state.findings);
    let words: Vec<_> = found
        .filter(|finding| finding.rule.is_some())
        .map(|finding| &*finding.what)
        .collect();
    assert!(words[0].starts_with("s: lost(2, "), "{words:?}");
}

#[test]
fn what_a_disk_never_wrote_is_among_what_was_lost() {
    let text =
        "setup; creat foo; run; write foo 0 4K; fsync foo; append foo 4K; fsync foo; fsync foo";
    let rules = "violation never(N, L) :- lost_write(crash: 0, number: N, length: L, how: \"never written\"). \
                 violation lies(K) :- disk(kind: K), K ~ \"^lose-write\", crashed(event: _).";
    let on = |disk| {
        let result = run_on(disk, Bug::None, ("prefix,every-write", 0), text, rules);
        let of_state = |state: &StateFindings| {
            let of_rules = state
                .findings
                .iter()
                .filter(|finding| finding.rule.is_some());
            of_rules.map(|finding| finding.what.clone()).collect()
        };
        let states: Vec<Vec<String>> = result.broken.iter().map(of_state).collect();
        states
    };
    let lies = |number: u32| format!("s: lies(\"lose-write:{number}\")");
    let never = |number: i64| format!("s: never({number}, 4096)");
    assert_eq!(on(Disk::LoseWrite(1))[0], [never(2), lies(1)]);
    // Before it was sent, it was not lost.
    let second = on(Disk::LoseWrite(2));
    assert_eq!(second.first(), Some(&vec![lies(2)]), "{second:?}");
    assert_eq!(second.last(), Some(&vec![never(4), lies(2)]), "{second:?}");
    let none = on(Disk::LoseWrite(1000));
    assert!(none.iter().all(|state| *state == [lies(1000)]), "{none:?}");
    assert_eq!(on(Disk::Honest), Vec::<Vec<String>>::new());
}

#[test]
fn what_is_violated_without_a_crash_says_nothing_about_crashes() {
    let text = "creat foo; fsync foo";
    let there = "violation there(P) :- file_op(op: \"creat\", path: P), entry(path: P).";
    let result = run(Bug::None, ALL, text, there);
    let what = result.violated_without_crash.as_deref();
    assert_eq!(what, Some("s: there(\"foo\")"));
    assert_eq!((result.states_checked, result.broken.len()), (0, 0));
    // The same, after a crash only.
    let after =
        "violation there(P) :- file_op(op: \"creat\", path: P), entry(path: P), crashed(event: _).";
    let result = run(Bug::None, ALL, text, after);
    assert_eq!(result.violated_without_crash, None);
    assert_eq!(rules_of(&result)[0], "s: there");
}

/// The page warns of it: between crash points nobody looks at the run that has not crashed.
#[test]
fn a_rule_about_what_is_in_flight_is_not_refused_before_the_sweep() {
    let text = "setup; creat foo; run; rename foo bar; fsync bar";
    let begun = "violation begun(P) :- in_flight(op: \"fsync\", path: P), entry(path: P).";
    let result = run(Bug::None, ALL, text, begun);
    assert_eq!(result.violated_without_crash, None);
    assert_eq!(rules_of(&result)[0], "s: begun", "{result:?}");
}

#[test]
fn rules_without_a_fact_to_look_at_are_named() {
    let text = "creat foo; fsync foo";
    let rules = "violation one(P) :- xattr(path: P). violation two(P) :- entry(path: P), P = \"bar\", in_flight(path: \"no\"). \
                 violation three(P) :- entry(path: P), file_op(op: \"unlink\", path: P). \
                 violation four(P) :- entry(path: P), file_op(op: \"creat\", path: P), P = \"no\", \
                 file_op(path: P).";
    let unlooked = |result: &WorkloadResult| {
        let unlooked = result.unlooked.iter().flatten();
        unlooked
            .map(|one| one.violation.clone())
            .collect::<Vec<_>>()
    };
    let result = run(Bug::None, ALL, text, rules);
    assert_eq!(unlooked(&result), ["one", "two", "three", "four"]);
    assert_eq!(result.verdict(), Verdict::Clean);
    let options = SweepOptions {
        specifications: vec![specification(rules)],
        ..options(Bug::None, ALL, 2)
    };
    // What one workload has, a rule has looked at.
    let texts = [text, "creat bar; fsync bar; unlink bar; sync"];
    let results = sweep(&options, &texts);
    let mut summary = crate::sweep::Summary::default();
    for result in &results {
        summary.add(result);
    }
    let left: Vec<_> = summary.never_looked().iter().map(Unlooked::words).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].starts_with("s: one never had a fact"), "{left:?}");
    assert!(left[1].starts_with("s: four never had a fact"), "{left:?}");
}

#[test]
fn what_cannot_be_mounted_is_held_against_no_rule() {
    let text = "setup; creat foo; run; creat bad; fsync bad";
    let rules = "violation gone(P) :- file_op(op: \"creat\", path: P), !entry(path: P).";
    let result = run(Bug::CannotMount, "prefix", text, rules);
    assert_eq!(broken(&result), [Promise::Mountable], "{result:?}");
}

#[test]
fn a_crash_in_a_recovery_is_held_against_rules_too() {
    let text = "creat foo; append foo 5000; append foo 3000; fsync foo";
    let rules = "violation grown(S) :- entry(path: \"foo\", size: S), S > 8000.";
    let once = run(Bug::RecoversTwice, "prefix,flushed", text, rules);
    assert_eq!(rules_of(&once), [""; 0], "{once:?}");
    let twice = run_again(Bug::RecoversTwice, "prefix,flushed", 1, text, rules);
    assert!(rules_of(&twice).contains(&"s: grown"), "{twice:?}");
    for state in &twice.broken {
        assert!(state.is_by_recovery(), "{state:?}");
    }
    // What the first recovery leaves is not the fault of the second crash.
    let always = "violation there(S) :- entry(path: \"foo\", size: S), crashed(event: _).";
    let result = run_again(Bug::None, "prefix,flushed", 1, text, always);
    assert!(!rules_of(&result).is_empty());
    assert!(result.broken.iter().all(|state| !state.is_by_recovery()));
    let of_second = "violation second(K) :- disk_state(crash: 1, kind: K), entry(path: \"foo\").";
    let result = run_again(Bug::None, "prefix,flushed", 1, text, of_second);
    assert!(
        result
            .broken
            .iter()
            .all(|state| state.again.len() == 1 && state.is_by_recovery()),
        "{result:?}"
    );
    assert!(!result.broken.is_empty());
}

/// The first finding of a workload with rules, and the options that have it.
fn found(text: &str, rules: &str) -> (Found, SweepOptions) {
    let options = SweepOptions {
        specifications: vec![specification(rules)],
        ..options(Bug::None, "every-write,reorder:2", 1)
    };
    let result = sweep(&options, &[text]).remove(0);
    let found = first_found(text, result);
    (found, options)
}

const TWO_RULES: &str = "violation gone(P) :- file_op(op: \"creat\", path: P), !entry(path: P). \
                         violation empty(P) :- file_op(op: \"write\", path: P), entry(path: P, size: 0).";

#[test]
fn a_finding_of_a_rule_is_found_again_by_that_rule_with_all_its_facts() {
    let (found, options) = found("creat foo; write foo 0 4K; fsync foo", TWO_RULES);
    let search = search_for(&found, &options.states).expect("a search");
    let rule = found.findings()[0].rule_name();
    assert!(rule.is_some() && search.rule.as_deref() == rule);
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let mut again = |search: &Search| {
        let result = workers.search(&found.workload, search, &Interrupt::default());
        result.expect("searched")
    };
    let result = again(&search);
    assert_eq!(result.facts, None);
    assert_eq!(result.broken[0].findings, found.findings());
    let with_facts = Search {
        facts: true,
        ..search.clone()
    };
    let facts = again(&with_facts).facts.expect("kept");
    for relation in [
        "node",
        "operation",
        "file_op",
        "in_flight",
        "crashed",
        "disk_state",
        "entry",
        "attributes",
    ] {
        assert!(facts.iter().any(|(of, _)| of == relation), "{relation}");
    }
    let other = Search {
        rule: Some("s: other".into()),
        ..search
    };
    assert!(again(&other).broken.is_empty());
}

#[test]
fn violations_of_one_rule_about_different_files_are_different_findings() {
    let text = "creat foo; creat bar; write foo 0 4K; fsync foo";
    let rules =
        "violation gone(P, E) :- file_op(event: E, op: \"creat\", path: P), !entry(path: P).";
    let specifications = vec![specification(rules)];
    let options = SweepOptions {
        specifications,
        ..options(Bug::None, "every-write,reorder:2", 1)
    };
    let mut result = sweep(&options, &[text]).remove(0);
    let whats: Vec<_> = result
        .broken
        .iter()
        .map(|state| &*state.findings[0].what)
        .collect();
    let (both, one) = (
        "s: gone(\"foo\", 0), gone(\"bar\", 1)",
        "s: gone(\"bar\", 1)",
    );
    assert!(whats.contains(&both) && whats.contains(&one), "{whats:?}");
    // Each is found again as what it is, wherever the search begins.
    let place = whats.iter().position(|what| *what == one).expect("there");
    let found = Found {
        number: 1,
        variant: variant(),
        workload_number: 0,
        workload: workload(text),
        log: result.log.take(),
        what: FoundWhat::State(result.broken[place].clone()),
    };
    let search = Search {
        state: result.broken[1 - place.min(1)].state.clone(),
        ..search_for(&found, &options.states).expect("a search")
    };
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let again = workers.search(&found.workload, &search, &Interrupt::default());
    assert_eq!(again.expect("searched").broken[0].findings[0].what, one);
}

#[test]
fn a_later_workload_that_violates_a_rule_by_itself_is_inconclusive() {
    let rules =
        "violation there(P) :- file_op(op: \"creat\", path: P), entry(path: P), P = \"bar\".";
    let options = SweepOptions {
        specifications: vec![specification(rules)],
        ..options(Bug::None, ALL, 1)
    };
    let texts = [
        "creat foo; fsync foo",
        "creat bar; fsync bar",
        "creat baz; fsync baz",
    ];
    let results = sweep(&options, &texts);
    let verdicts: Vec<_> = results.iter().map(WorkloadResult::verdict).collect();
    let (clean, open) = (Verdict::Clean, Verdict::Inconclusive);
    assert_eq!(verdicts, [clean, open, clean]);
    let why = results[1].inconclusive.as_deref();
    assert_eq!(why, Some("without a crash, s: there(\"bar\")"));
    // If it is the first, it is the rule that is refused, unless others have been held against it.
    let run = |are_tried: bool| {
        let mut workers = Workers::start(&variant(), &options).expect("workers");
        if are_tried {
            workers.trust_rules();
        }
        let mut source = texts[1..].iter().map(|text| Ok(workload(text)));
        workers.run(&mut source, &Interrupt::default(), &mut |_, _| Ok(()))
    };
    let refused = run(false).expect_err("refused").to_string();
    assert!(refused.contains("says nothing about crashes"), "{refused}");
    assert_eq!(run(true).expect("swept").inconclusive, 1);
}

#[test]
fn rules_without_an_end_end_the_sweep() {
    let rules = "n(1) :- node(node: _). n(M) :- n(N), M = N * 2. n(M) :- n(N), M = N * 2 + 1. \
                 violation large(N) :- n(N), crashed(event: _), N < 0.";
    let options = SweepOptions {
        specifications: vec![specification(rules)],
        ..options(Bug::None, ALL, 1)
    };
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let texts = ["creat foo; fsync foo", "creat bar; fsync bar"];
    let mut source = texts.iter().map(|text| Ok(workload(text)));
    let mut count = 0;
    let swept = workers.run(&mut source, &Interrupt::default(), &mut |_, _| {
        count += 1;
        Ok(())
    });
    let error = swept.expect_err("it has no end").to_string();
    assert!(error.starts_with("s: the rules of n do not end"), "{error}");
    assert_eq!(count, 0);
}

#[test]
fn what_cannot_be_mounted_has_no_facts_of_another_state() {
    let options = options(Bug::CannotMount, "prefix", 1);
    let text = "setup; creat foo; run; fsync foo; creat bad; fsync bad";
    let result = sweep(&options, &[text]).remove(0);
    let found = first_found(text, result);
    let search = Search {
        facts: true,
        ..search_for(&found, &options.states).expect("a search")
    };
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let result = workers.search(&found.workload, &search, &Interrupt::default());
    let result = result.expect("searched");
    assert_eq!(broken(&result), [Promise::Mountable], "{result:?}");
    assert_eq!(result.facts, Some(Vec::new()));
}

#[test]
fn a_finding_of_a_rule_is_made_small_by_that_rule() {
    let text = "creat foo; creat bar; mkdir A; write foo 0 16K; fsync foo";
    let (found, options) = found(text, TWO_RULES);
    let mut workers = Workers::start(&variant(), &options).expect("workers");
    let tell = &mut |_: &_, _: &_| {};
    let minimized = minimize(
        &found,
        &options.states,
        &mut workers,
        &Interrupt::default(),
        tell,
    );
    let minimized = minimized.expect("searched").expect("it comes again");
    let FoundWhat::State(state) = &minimized.what else {
        panic!("no kernel died");
    };
    let rules = state.findings.iter().map(|finding| finding.rule_name());
    assert!(rules.clone().any(|rule| rule == Some("s: gone")));
    assert_eq!(minimized.workload.operations().count(), 3, "{minimized:?}");
}

#[test]
fn findings_of_two_rules_are_not_alike() {
    let (first, _) = found("creat foo; write foo 0 4K; fsync foo", TWO_RULES);
    let FoundWhat::State(state) = &first.what else {
        panic!("no kernel died");
    };
    let of_rule = |name: &str| {
        let mut state = state.clone();
        state.findings.truncate(1);
        if let Some(rule) = &mut state.findings[0].rule {
            name.clone_into(&mut rule.name);
        }
        state
    };
    let mut result = WorkloadResult::new("two".into());
    for name in ["one", "two", "one"] {
        let mut state = of_rule(name);
        state.state.position += result.broken.len() * 3;
        state.under_way = true;
        result.add_findings(state);
    }
    assert_eq!(rules_of(&result), ["one", "two"]);
}
