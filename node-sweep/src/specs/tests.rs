//! What stays in the database from one state to the next is what a new one would have.

use std::sync::Arc;

use campaign::Interrupt;
use datalog::Database;
use pace_rules::nodes::{Explore, Model, Relaxations, Request, Spaces, Split, State};
use specification::Specification;
use trace::{
    Action, ChangeOfName, Event, FileId, FileKind, FileOp, InitialFile, Name, Node, SyncScope,
};
use trace_store::{Before, Recovers, Trace};

use super::events::{Events, Runs};
use super::examine::{Examiner, Said, filled, kept};
use super::explain::derived;
use super::{Asking, Looked, Specs};
use crate::check::Complaint;
use crate::error::Error;
use crate::states::{CrashState, States};

/// All of each relation in a number or two, so that each fact counts.
const ALL: &str = r"
violation ops(count(E), sum(E)) :- file_op(event: E).
violation lost(count(E), sum(E)) :- lost_op(event: E).
violation begun(E, P) :- in_flight(event: E, path: P).
violation told(count(N), max(N), max(E)) :- printed(number: N), printed_by(number: N, event: E).
violation crashes(min(E), max(E)) :- crashed(event: E).
violation entries(N, count(P), sum(S)) :- entry(node: N, path: P, size: S).
violation lines(N, count(L)) :- line(node: N, line: L).
violation contents(N, count(H)) :- content(node: N, hash: H).
violation messages(count(E), max(A)) :- sent(event: E, after: A).
";

/// A node that writes a log, says so, and puts a snapshot in its place.
#[derive(Default)]
struct Recording {
    trace: Trace,
    events: Vec<Event>,
}

impl Recording {
    fn event(&mut self, at: u64, action: Action) {
        self.events.push(Event {
            start_ns: at,
            end_ns: at + 5,
            process: 1,
            thread: 1,
            call: "call".into(),
            stack: 0,
            action,
        });
    }

    fn node(&mut self, name: &str, first: u64) {
        let (log, snapshot) = (FileId(1), FileId(2));
        let name_of = |name: &str| Name::from(name.as_bytes());
        let new = |file, name| FileOp::Create {
            parent: FileId::ROOT,
            name: name_of(name),
            file,
            kind: FileKind::Regular,
            mode: 0o644,
        };
        let sync = |file| FileOp::Sync {
            file,
            scope: SyncScope::File,
        };
        let names = ChangeOfName {
            from: (FileId::ROOT, name_of("new")),
            to: (FileId::ROOT, name_of("snapshot")),
        };
        let data = self.trace.add(b"one\ntwo\nthree");
        let write = |file| FileOp::Write {
            file,
            offset: 0,
            data,
            size_before: 0,
        };
        let rename = FileOp::Rename {
            file: snapshot,
            names,
            replaced: None,
            exchange: false,
        };
        let cut = FileOp::Resize {
            file: log,
            from: data.len,
            to: 0,
        };
        let line = self.trace.add(b"stored");
        let ops = [
            new(log, "log"),
            write(log),
            sync(log),
            new(snapshot, "new"),
            write(snapshot),
            rename,
            cut,
            sync(log),
        ];
        for (place, op) in (0..).zip(ops) {
            let at = first + 20 * place;
            self.event(at, Action::File(op));
            if place % 3 == 2 {
                self.event(at + 6, Action::Mark { line });
            }
        }
        self.trace.run.nodes.push(Node {
            name: name.into(),
            initial: vec![InitialFile::empty_root()],
            events: std::mem::take(&mut self.events),
        });
    }
}

fn trace() -> Trace {
    let mut recording = Recording::default();
    recording.node("a", 10);
    recording.node("b", 21);
    recording.trace
}

/// Those of this text.
fn specs(text: &str) -> Specs {
    let all = Specification {
        name: "all".into(),
        text: text.into(),
    };
    Specs::of(&[all]).expect("right")
}

/// Every crash state on any model, with what it is.
fn states(trace: &Trace, specs: &Specs) -> Vec<(State, CrashState)> {
    let of_model = |model| Request {
        model,
        explore: Explore::BruteForce,
        lost: 1,
        split: Split::default(),
        sector: pace_rules::Sector::default(),
        relaxations: Relaxations::ALL,
    };
    let requests: Vec<_> = Model::all_named("posix")
        .into_iter()
        .map(of_model)
        .collect();
    let spaces = Spaces::new(&trace.run, &requests).expect("spaces");
    let spaces = spaces.with_histories(specs.histories());
    let mut makers = States::each(&trace.run, &spaces, trace);
    let all = (0..spaces.len()).filter_map(|index| {
        let (model, state) = spaces.state(index);
        let made = makers[model].make(&state).ok()?;
        Some((state, made))
    });
    all.collect()
}

fn said(examiner: &mut Examiner, state: &CrashState, looked: &Looked) -> Vec<String> {
    match examiner.examine(state, &state.acknowledged, Some(&[]), looked) {
        Said::Violated(words) => words,
        Said::Unknown(why) => panic!("{why}"),
    }
}

/// What is said of operations if so many events of each node had happened.
fn of_operations(trace: &Trace, events: &Events, cut: &[usize]) -> String {
    let nodes = trace.run.nodes.iter().zip(&events.of).zip(cut);
    let numbers = nodes.flat_map(|((node, told), cut)| {
        let before = node.events.iter().zip(told).take(*cut);
        let of_files = before.filter(|(event, _)| matches!(event.action, Action::File(_)));
        of_files.map(|(_, told)| told.number)
    });
    let numbers: Vec<_> = numbers.collect();
    format!(
        "all: ops({}, {})",
        numbers.len(),
        numbers.iter().sum::<i64>()
    )
}

/// Asks these rules of states here and there, and of each a second one who has seen no other. Returns
/// how many states had lost something, and what had nothing to look at.
fn asked_twice(text: &str) -> (usize, Vec<String>) {
    let trace = trace();
    let specs = Arc::new(specs(text));
    let runs = Arc::new(Runs::of(&trace, &specs));
    let events = runs.of_past(None);
    let looked = Looked::of(&specs);
    let new = || Examiner::new(&specs, &runs, &Interrupt::default());
    let all = states(&trace, &specs);
    assert!(all.len() > 500, "{}", all.len());
    let mut one = new();
    let mut lost = 0;
    // Crashes come later and earlier than those before.
    let step = 317;
    for place in 0..400 {
        let (state, made) = &all[place * step % all.len()];
        let words = said(&mut one, made, &looked);
        assert_eq!(words, said(&mut new(), made, &looked), "{state:?}");
        if state.cut.iter().any(|cut| *cut > 0) {
            let operations = of_operations(&trace, events, &state.cut);
            let is_none = operations.starts_with("all: ops(0,");
            assert!(
                is_none || words.contains(&operations),
                "{operations}: {words:?}"
            );
        }
        lost += usize::from(words.iter().any(|words| words.starts_with("all: lost(")));
    }
    (lost, looked.words())
}

#[test]
fn each_state_has_its_own_facts_whichever_was_before_it() {
    let (lost, unlooked) = asked_twice(ALL);
    assert!(lost > 100, "{lost}");
    // Nothing was sent.
    let unsent = "all: messages never had a fact to look at: there is no sent";
    assert_eq!(unlooked, [unsent]);
    // Where nothing but the events differs.
    let of_operations = ALL.lines().find(|line| line.contains("ops(")).expect("one");
    assert_eq!(asked_twice(of_operations), (0, Vec::new()));
}

#[test]
fn what_one_specification_cannot_say_keeps_no_other_from_what_it_finds() {
    let trace = trace();
    let of = |name: &str, text: &str| Specification {
        name: name.into(),
        text: text.into(),
    };
    let found = of("found", "violation a(N) :- node(N), N = \"a\".");
    let large = of(
        "large",
        "violation b(N) :- node(N), X = 1, X + 9223372036854775807 > 0.",
    );
    for specifications in [
        vec![large.clone(), found.clone()],
        vec![found, large.clone()],
        vec![large],
    ] {
        let specs = Arc::new(Specs::of(&specifications).expect("right"));
        let runs = Arc::new(Runs::of(&trace, &specs));
        let looked = Looked::of(&specs);
        let mut examiner = Examiner::new(&specs, &runs, &Interrupt::default());
        for (_, made) in states(&trace, &specs).iter().step_by(61) {
            match examiner.examine(made, &made.acknowledged, Some(&[]), &looked) {
                Said::Violated(words) => assert_eq!(words, ["found: a(\"a\")"]),
                Said::Unknown(why) => {
                    assert!(why.contains("64 bits"), "{why}");
                    assert_eq!(specifications.len(), 1);
                }
            }
        }
    }
}

#[test]
fn rules_without_an_end_keep_no_finding_from_its_derivation() {
    let trace = trace();
    let of = |name: &str, text: &str| Specification {
        name: name.into(),
        text: text.into(),
    };
    let endless = "n(N) :- node(_), N = 0. n(M) :- n(N), M = N + 1. violation b(N) :- n(N), N < 0.";
    let specifications = [
        of("endless", endless),
        of("found", "violation a(N) :- node(N), N = \"a\"."),
    ];
    let specs = Specs::of(&specifications).expect("right");
    let runs = Runs::of(&trace, &specs);
    let (_, state) = states(&trace, &specs).swap_remove(0);
    let mut database = filled((&specs, &runs), &state, &[]).expect("facts");
    database.derive_at_most(100);
    let complaint = Complaint::default().with_rules(vec!["found: a(\"a\")".into()]);
    let derivations = derived(&specs, &mut database, &complaint).expect("told");
    assert_eq!(derivations.len(), 1);
    // What the database cannot do says nothing of the rules.
    let mut without_tables = Database::in_memory(&[]).expect("made");
    let refused = derived(&specs, &mut without_tables, &complaint);
    let is_of_database = |error| matches!(error, Error::Facts(datalog::Error::Database { .. }));
    assert!(refused.is_err_and(is_of_database));
}

#[test]
fn facts_that_are_kept_are_opened_again_and_made_anew_if_they_are_of_another_version() {
    let trace = trace();
    let specs = Specs::everything();
    let runs = Runs::of(&trace, &specs);
    let (_, state) = states(&trace, &specs).swap_remove(0);
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("1-key.sqlite");
    // Those of the version are what a file has, and it is empty.
    for (version, nodes) in [(1, 0), (9, 2)] {
        let known = specification::facts(specification::About::CrashState);
        let nothing = |_: &mut Database| Ok::<_, datalog::Error>(());
        Database::create(&path, &known, version, nothing).expect("made");
        for _ in 0..2 {
            let database = kept(&path, (&specs, &runs), &state, &[]).expect("facts");
            assert_eq!(database.count("node").expect("counted"), nodes);
        }
    }
    std::fs::write(&path, "another").expect("written");
    assert!(kept(&path, (&specs, &runs), &state, &[]).is_err());
}

#[test]
fn pasts_tell_states_apart_only_where_rules_ask_for_them() {
    let trace = trace();
    let keys = |text: &str| {
        let specs = specs(text);
        let all = states(&trace, &specs);
        let keys: std::collections::HashSet<_> = all.iter().map(|(_, made)| made.key).collect();
        let contents: std::collections::HashSet<_> =
            all.iter().map(|(_, made)| made.content).collect();
        (keys.len(), contents.len())
    };
    let (keys_of_files, contents) = keys("violation x(P) :- entry(path: P).");
    assert_eq!(keys_of_files, contents);
    let (keys_of_pasts, contents) = keys("violation x(P) :- file_op(path: P).");
    assert!(keys_of_pasts > contents, "{keys_of_pasts} {contents}");
    assert_eq!(contents, keys_of_files);
}

/// The run, a recovery from a crash of it, and one from a crash of that, with the crash that each is
/// from.
fn recovered() -> (Trace, Vec<CrashState>) {
    let mut whole = trace();
    let mut crashes: Vec<CrashState> = Vec::new();
    for number in 0..2 {
        let of = whole.recoveries.last().unwrap_or(&whole);
        let all = states(of, &specs(ALL));
        // Something is lost, and something is there of what was in flight.
        let is_wanted = |made: &CrashState| {
            let past = made.past.as_ref().expect("a past");
            past.lost.iter().any(|lost| lost.is_whole) && !past.in_flight.is_empty()
        };
        let (_, crash) = all
            .into_iter()
            .rfind(|(_, made)| is_wanted(made))
            .expect("one");
        let mut recovery = trace();
        let acknowledged = recovery.add(&crash.acknowledged);
        recovery.about.recovers = Some(Recovers {
            acknowledged,
            before: Some(Before {
                number,
                past: crash.past.as_deref().expect("a past").clone(),
            }),
            ..Recovers::default()
        });
        whole.recoveries.push(recovery);
        crashes.push(crash);
    }
    (whole, crashes)
}

/// How many lines had been acknowledged.
fn lines(crash: &CrashState) -> usize {
    crash.acknowledged.split(|byte| *byte == b'\n').count() - 1
}

/// How many operations a crash has left, of those of the run that it was in.
fn left(crash: &CrashState, lines: usize) -> usize {
    let past = crash.past.as_ref().expect("a past");
    let lost = past.lost.iter().filter(|lost| lost.is_whole).count();
    past.cut.iter().sum::<usize>() - lines - lost + past.in_flight.len()
}

#[test]
fn what_came_before_a_recovery_is_told_as_its_crash_left_it() {
    let (whole, crashes) = recovered();
    let specs = Arc::new(specs(ALL));
    let runs = Arc::new(Runs::of(&whole, &specs));
    let looked = Looked::of(&specs);
    let new = || Examiner::new(&specs, &runs, &Interrupt::default());
    let mut one = new();
    let (mut operations, mut told) = (0, 0);
    for (recovery, crash) in whole.recoveries.iter().zip(&crashes) {
        // What is left is durable: one sync of each of two nodes.
        operations += left(crash, lines(crash) - told) + 2;
        told = lines(crash);
        for (state, made) in states(recovery, &specs).iter().step_by(61) {
            let words = said(&mut one, made, &looked);
            assert_eq!(words, said(&mut new(), made, &looked), "{state:?}");
            let nodes = recovery.run.nodes.iter().zip(&state.cut);
            let own = nodes.flat_map(|(node, cut)| &node.events[..*cut]);
            let own = own.filter(|event| matches!(event.action, Action::File(_)));
            let (own, all) = (own.count(), lines(made));
            for expected in [
                format!("all: ops({}, ", operations + own),
                format!("all: told({all}, {all}, "),
            ] {
                let is_said = words.iter().any(|words| words.starts_with(&expected));
                assert!(is_said || all == 0, "{expected}: {words:?}");
            }
        }
    }
    assert!(told > 0);
}

#[test]
fn recoveries_of_which_nobody_knows_what_came_before_are_refused() {
    let (mut whole, _) = recovered();
    let specification = Specification {
        name: "all".into(),
        text: ALL.into(),
    };
    let specifications = [specification];
    let ask = |trace: &Trace| Asking::of(&specifications, trace, &Interrupt::default());
    assert!(ask(&whole).is_ok());
    let recovers = whole.recoveries[1].about.recovers.as_mut();
    recovers.expect("it recovers").before = None;
    assert!(matches!(ask(&whole), Err(Error::NoPast)));
}
