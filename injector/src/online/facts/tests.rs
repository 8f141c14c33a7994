//! Specifications of the project, held against runs that are told here.

use std::path::Path;

use super::*;
use crate::laboratory::Judged;
use crate::online::directory::InjectManifest;
use crate::online::given::{cluster_of, plan_of};
use crate::online::looks::{After, Look};
use crate::online::points::{At, CallPoint, MessagePoint, Pair, Point, SeenPoint};
use crate::online::ran::{Happening, RunEvent};
use crate::online::strategies::EXHAUSTIVE;

const SPECS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../specs");

/// A run without faults, of three nodes.
fn run(events: Vec<RunEvent>) -> Ran {
    Ran {
        events,
        processes: vec!["work".into(); 10],
        seconds: 100.0,
        ..Ran::of(Judged::Ok)
    }
}

fn event(time_ns: u64, what: Happening) -> RunEvent {
    RunEvent {
        time_ns,
        acknowledged: 0,
        what,
    }
}

/// A line of a history: when, the process, the type, what, the key and the value.
type Line = (
    u64,
    u64,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

fn history(lines: &[Line]) -> String {
    let line = |(time, process, kind, f, key, value): &Line| {
        format!(
            "{{\"time\":{time},\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\
             \"key\":\"{key}\",\"value\":{value}}}\n"
        )
    };
    lines.iter().map(line).collect()
}

/// What a specification says of a run with a history: the violations, and what had nothing to look
/// at.
fn examined(name: &str, history: &str, events: Vec<RunEvent>) -> (Vec<String>, Vec<String>) {
    let path = format!("{SPECS}/{name}.dl");
    let specification = Specification::read(Path::new(&path)).expect("read");
    let examined = examined_all(&[specification], history, events);
    let unlooked = examined.unlooked.into_iter();
    (
        examined.violated.into_iter().map(|one| one.fact).collect(),
        unlooked.map(|one| one.violation).collect(),
    )
}

/// A specification with this text.
fn own(name: &str, text: &str) -> Specification {
    Specification {
        name: name.into(),
        text: text.into(),
    }
}

/// What specifications say of a run of three nodes with a history.
fn examined_all(
    specifications: &[Specification],
    history: &str,
    events: Vec<RunEvent>,
) -> Examined {
    let folder = tempfile::tempdir().expect("a directory");
    let files = RunFiles::kept(folder.path());
    std::fs::write(&files.history, history).expect("written");
    let nodes = ["a", "b", "c"].map(str::to_owned);
    let facts = RunFacts {
        about: About::Run,
        nodes: &nodes,
        clients: &["work".to_owned()],
        kinds: Vec::new(),
        calls: KnownCalls::default(),
        ran: &run(events),
        files: &files,
        lines_ns: &[],
    };
    examine(specifications, &facts, None, || false).expect("examined")
}

fn violations(name: &str, lines: &[Line]) -> Vec<String> {
    examined(name, &history(lines), Vec::new()).0
}

#[test]
fn every_specification_of_the_project_is_right_and_has_a_violation() {
    let mut count = 0;
    for entry in std::fs::read_dir(SPECS).expect("a directory") {
        let path = entry.expect("read").path();
        if path.extension().is_some_and(|ending| ending == "dl") {
            let specification = Specification::read(&path).expect("read");
            let called = path.display().to_string();
            let about = |about| specification.program(&called, about);
            let program = about(About::Run).or_else(|_| about(About::CrashState));
            let program = program.unwrap_or_else(|problem| panic!("{problem}"));
            assert!(program.relations().any(datalog::Relation::is_violation));
            count += 1;
        }
    }
    assert!(count >= 7);
}

#[test]
fn a_read_has_to_return_what_was_acknowledged_before_it_and_nothing_else_is_demanded() {
    let wrote = [
        (1, 0, "invoke", "write", "k", "3"),
        (2, 0, "ok", "write", "k", "3"),
    ];
    let read = |from: u64, to: u64, value| {
        [
            (from, 1, "invoke", "read", "k", "null"),
            (to, 1, "ok", "read", "k", value),
        ]
    };
    let of = |lines: &[&[Line]]| violations("acknowledged-is-served", &lines.concat());
    assert_eq!(of(&[&wrote, &read(5, 6, "3")]), [""; 0]);
    assert_eq!(
        of(&[&wrote, &read(5, 6, "null")]),
        ["not_served(\"k\", \"3\", \"null\", 0, 1)"]
    );
    // It began before the write was acknowledged.
    assert_eq!(of(&[&wrote, &read(2, 6, "null")]), [""; 0]);
    // Another write may come between, also one of which nobody knows.
    let unknown = [
        (3, 2, "invoke", "write", "k", "4"),
        (4, 2, "info", "write", "k", "4"),
    ];
    assert_eq!(of(&[&wrote, &unknown, &read(5, 6, "4")]), [""; 0]);
    let refused = [
        (3, 2, "invoke", "write", "k", "4"),
        (4, 2, "fail", "write", "k", "4"),
    ];
    assert_eq!(of(&[&wrote, &refused, &read(5, 6, "4")]).len(), 1);
    // What was deleted is gone; a cas leaves its second value.
    let deleted = [
        (3, 2, "invoke", "delete", "k", "null"),
        (4, 2, "ok", "delete", "k", "null"),
    ];
    assert_eq!(of(&[&wrote, &deleted, &read(5, 6, "null")]), [""; 0]);
    assert_eq!(of(&[&wrote, &deleted, &read(5, 6, "3")]).len(), 1);
    let cas = |answer| {
        [
            (3, 2, "invoke", "cas", "k", "[3,9]"),
            (4, 2, "ok", "cas", "k", answer),
        ]
    };
    assert_eq!(of(&[&wrote, &cas("true"), &read(5, 6, "9")]), [""; 0]);
    assert_eq!(of(&[&wrote, &cas("true"), &read(5, 6, "3")]).len(), 1);
    assert_eq!(of(&[&wrote, &cas("false"), &read(5, 6, "3")]), [""; 0]);
    // What is removed from a set is an element.
    let set = |f, from| {
        [
            (from, 2, "invoke", f, "k", "3"),
            (from + 1, 2, "ok", f, "k", "3"),
        ]
    };
    let sets = [&set("add", 1)[..], &set("remove", 3), &read(5, 6, "[]")];
    assert_eq!(of(&sets), [""; 0]);
}

/// What the rule of the page finds: what was acknowledged is there when all is healed.
fn lost(lines: &[Line]) -> Vec<String> {
    let text = "violation lost(K) :- acked(K), !served(K).\n\
                violation changed_by(Op) :- changed(Op, _, _, _, _).";
    let found = examined_all(&[own("lost", text)], &history(lines), Vec::new());
    found.violated.into_iter().map(|one| one.fact).collect()
}

#[test]
fn what_was_answered_with_a_refusal_has_changed_nothing() {
    let of = |f, value, answer| {
        lost(&[
            (1, 0, "invoke", f, "k", value),
            (2, 0, "ok", f, "k", answer),
        ])
    };
    let is_changed = ["lost(\"k\")", "changed_by(0)"];
    for (f, value, refused, done) in [
        ("cas", "[1,2]", "false", "true"),
        ("acquire", "null", "false", "null"),
        ("unlock", "\"A\"", "false", "\"A\""),
        ("dequeue", "null", "null", "3"),
        ("pop", "null", "null", "false"),
    ] {
        assert_eq!(of(f, value, refused), [""; 0], "{f}");
        assert_eq!(of(f, value, done), is_changed, "{f}");
    }
    // Of others any answer says that it was done.
    for (f, answer) in [("write", "false"), ("add", "null"), ("enqueue", "null")] {
        assert_eq!(of(f, "false", answer), is_changed, "{f}");
    }
}

/// The words of the model are those of rules.
#[test]
fn each_operation_of_an_object_changes_or_reads_it() {
    use history::{Contract, Model, Settings, check};
    let jump = history(&[(1, 0, "invoke", "jump", "k", "null")]);
    let jump = history::read(jump.as_bytes()).expect("a history");
    for model in [
        Model::Register,
        Model::Lock,
        Model::Counter,
        Model::Queue,
        Model::Set,
    ] {
        let refused = check(&jump, &Settings::of_all(Contract::new(model)));
        let refused = refused.expect_err("nobody can jump").to_string();
        let words = refused.split_once("(it has ").expect("its operations").1;
        for word in words.trim_end_matches(')').split(", ") {
            let text = format!(
                "known(F) :- changes(F). known(F) :- reads(F).\n\
                 violation has(N) :- node(N), N = \"a\", known({word:?})."
            );
            let found = examined_all(&[own("words", &text)], "", Vec::new());
            assert_eq!(found.violated.len(), 1, "{word} of {model:?}");
        }
    }
}

#[test]
fn what_one_specification_cannot_say_keeps_no_other_from_what_it_finds() {
    let large = own(
        "large",
        "violation v(N) :- node(N), X = 1, X + 9223372036854775807 > 0.",
    );
    let found = own("found", "violation v(N) :- node(N), N = \"a\".");
    for specifications in [
        [large.clone(), found.clone()],
        [found.clone(), large.clone()],
    ] {
        let examined = examined_all(&specifications, "", Vec::new());
        assert_eq!(examined.violated.len(), 1);
        let mut broken = run(Vec::new());
        broken.take_in(examined, true);
        assert_eq!(broken.broken().map(<[_]>::len), Some(1));
        let why = "specifications: large: in the rules of v: a number does not fit into 64 bits";
        assert_eq!(broken.notes, [why]);
    }
    let mut unknown = run(Vec::new());
    unknown.take_in(examined_all(&[large], "", Vec::new()), true);
    let why = "specifications: large: in the rules of v: a number does not fit into 64 bits";
    assert_eq!(unknown.judged, Judged::Inconclusive { why: why.into() });
}

#[test]
fn nobody_watches_a_node_that_is_not_there_nor_operations_of_no_history() {
    let text = "violation gone(How) :- ended(node: \"n1\", how: How).\n\
                violation ended_a(How) :- ended(node: \"a\", how: How).\n\
                violation no(K) :- refused(key: K).";
    let lacks = |lines: &[Line]| {
        let examined = examined_all(&[own("s", text)], &history(lines), Vec::new());
        let lacks = examined.unlooked.into_iter().map(|one| one.lacks.concat());
        lacks.collect::<Vec<_>>()
    };
    let node = "node(node: \"n1\")";
    assert_eq!(lacks(&[]), [node, "called"]);
    assert_eq!(lacks(&[(1, 0, "invoke", "write", "k", "3")]), [node]);
}

/// Reads and writes are no locks.
#[test]
fn a_run_without_locks_shows_nothing_of_them() {
    let lines = [
        (1, 0, "invoke", "write", "k", "3"),
        (2, 0, "ok", "write", "k", "3"),
    ];
    let (found, unlooked) = examined("mutual-exclusion", &history(&lines), Vec::new());
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(unlooked, ["held_twice"]);
}

#[test]
fn a_lock_is_held_until_its_holder_begins_to_give_it_back() {
    let take = |process, from, to, answer| {
        [
            (from, process, "invoke", "acquire", "l", "null"),
            (to, process, "ok", "acquire", "l", answer),
        ]
    };
    let give = |process, from: u64| {
        [
            (from, process, "invoke", "release", "l", "null"),
            (from + 5, process, "ok", "release", "l", "null"),
        ]
    };
    let of = |lines: &[[Line; 2]]| {
        let mut lines = lines.concat();
        lines.sort_by_key(|line| line.0);
        violations("mutual-exclusion", &lines)
    };
    assert_eq!(
        of(&[take(0, 1, 2, "null"), give(0, 10), take(1, 11, 12, "null")]),
        [""; 0]
    );
    assert_eq!(
        of(&[take(0, 1, 2, "null"), give(0, 10), take(1, 8, 9, "null")]),
        ["held_twice(\"l\", 0, 1)"]
    );
    assert_eq!(
        of(&[take(0, 1, 2, "null"), take(1, 8, 9, "false")]),
        [""; 0]
    );
    assert_eq!(of(&[take(0, 1, 2, "null"), take(1, 8, 9, "true")]).len(), 1);
}

#[test]
fn a_counter_is_between_what_must_and_what_may_have_been_added() {
    let add = |process, from, kind| {
        [
            (from, process, "invoke", "add", "c", "1"),
            (from + 1, process, kind, "add", "c", "1"),
        ]
    };
    let read = |value| {
        [
            (20, 9, "invoke", "read", "c", "null"),
            (21, 9, "ok", "read", "c", value),
        ]
    };
    let of = |lines: &[[Line; 2]]| violations("counters", &lines.concat());
    let (known, maybe, not) = (add(0, 1, "ok"), add(1, 3, "info"), add(2, 5, "fail"));
    for value in ["1", "2"] {
        assert_eq!(of(&[known, maybe, not, read(value)]), [""; 0], "{value}");
    }
    assert_eq!(
        of(&[known, maybe, not, read("3")]),
        ["counted_twice(\"c\", 3, 2)"]
    );
    assert_eq!(
        of(&[known, maybe, not, read("0")]),
        ["addition_lost(\"c\", 0, 1)"]
    );
    assert_eq!(of(&[not, read("1")]), ["counted_twice(\"c\", 1, 0)"]);
    // Of one that is taken from nothing is known, in whichever words.
    for (f, is_known) in [
        ("inc", true),
        ("increment", true),
        ("dec", false),
        ("decrement", false),
    ] {
        let more = [(7, 2, "invoke", f, "c", "2"), (8, 2, "ok", f, "c", "2")];
        let found = of(&[known, more, read("-1")]);
        assert_eq!(!found.is_empty(), is_known, "{f}: {found:?}");
    }
}

#[test]
fn two_leaders_in_a_term_are_one_too_many_and_a_run_without_terms_shows_nothing() {
    let role = |time, node: &str, role: &str, more: &str| {
        event(
            time,
            Happening::Role {
                node: node.into(),
                role: role.into(),
                more: more.into(),
            },
        )
    };
    let of = |events| examined("one-leader-a-term", "", events);
    let (found, _) = of(vec![
        role(1, "a", "leader", "3"),
        role(9, "b", "leader", "4"),
    ]);
    assert!(found.is_empty(), "{found:?}");
    let (found, _) = of(vec![
        role(1, "a", "leader", "3"),
        role(9, "b", "leader", "3"),
    ]);
    assert_eq!(found, ["two_leaders(3, \"a\", \"b\")"]);
    let (found, unlooked) = of(Vec::new());
    assert!(found.is_empty());
    assert_eq!(unlooked, ["two_leaders", "served_after_its_term"]);
}

#[test]
fn an_acknowledgement_after_most_syncs_failed_is_a_violation_until_a_node_is_back() {
    let hit_by = |fault: usize, time, node: &str| {
        let words = format!("fsync log: fails with EIO (fault {fault})");
        event(
            time,
            Happening::Call {
                node: node.into(),
                words,
            },
        )
    };
    let hit = |time, node: &str| hit_by(1, time, node);
    let ended = |time, fault| event(time, Happening::Undone { fault });
    let ready = |time, node: &str| event(time, Happening::Ready { node: node.into() });
    let wrote = history(&[
        (500_000_000, 0, "invoke", "write", "k", "3"),
        (600_000_000, 0, "ok", "write", "k", "3"),
    ]);
    let of = |events| examined("fsync-error", &wrote, events).0;
    let both = || vec![hit(1_000, "a"), hit(2_000, "b")];
    for (answer, is_violated) in [("false", false), ("null", true)] {
        let asked = history(&[
            (500_000_000, 0, "invoke", "acquire", "k", "null"),
            (600_000_000, 0, "ok", "acquire", "k", answer),
        ]);
        let (found, _) = examined("fsync-error", &asked, both());
        assert_eq!(!found.is_empty(), is_violated, "{answer}: {found:?}");
    }
    let found = ["acknowledged_after_error(\"k\", \"3\", 0)"];
    assert_eq!(of(both()), found);
    // One of three is no majority, and it is none twice.
    assert_eq!(of(vec![hit(1_000, "a"), hit(2_000, "a")]), [""; 0]);
    // It may have been synced before.
    assert_eq!(of(vec![hit(1_000, "a"), hit(450_000_000, "b")]), [""; 0]);
    assert_eq!(
        of(vec![hit(1_000, "a"), hit(2_000, "b"), ready(3_000, "a")]),
        [""; 0]
    );
    // One had come to an end before the other began, with its fault or with a new start.
    let (first, second) = (hit_by(1, 1_000, "a"), hit_by(2, 3_000, "b"));
    let between = |what| of(vec![first.clone(), what, second.clone()]);
    assert_eq!(between(ended(2_000, 1)), [""; 0]);
    assert_eq!(between(ready(2_000, "a")), [""; 0]);
    // Another fault, or another node, says nothing of it.
    assert_eq!(between(ended(2_000, 3)), found);
    assert_eq!(between(ready(2_000, "c")), found);
    // It fails again.
    let again = vec![
        first.clone(),
        ended(2_000, 1),
        hit_by(3, 2_500, "a"),
        second.clone(),
    ];
    assert_eq!(of(again), found);
}

/// Log b cannot be read at first: what is in log a has been put in by then.
#[test]
fn logs_are_put_in_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = RunFiles::kept(folder.path());
    std::fs::create_dir_all(files.logs.join("b.log")).expect("made");
    std::fs::write(files.logs.join("a.log"), "one\ntwo\n").expect("written");
    let nodes = ["a", "b"].map(str::to_owned);
    let ran = run(Vec::new());
    let facts = RunFacts {
        nodes: &nodes,
        ..RunFacts::bare(&ran, &files)
    };
    let specification = Specification {
        name: "s".into(),
        text: "all(L) :- logged(line: L).".into(),
    };
    let program = specification.program("s.dl", About::Run).expect("rules");
    let path = folder.path().join(FACTS_FILE);
    let complete = || {
        let mut database = facts.database(Some(&path)).expect("made");
        let completed = facts.complete(&mut database, &program);
        completed.map(|()| database.count("logged").expect("counted"))
    };
    assert!(complete().is_err());
    std::fs::remove_dir(files.logs.join("b.log")).expect("removed");
    std::fs::write(files.logs.join("b.log"), "three\n").expect("written");
    assert_eq!(complete().expect("read"), 3);
    assert_eq!(complete().expect("read"), 3);
}

/// What is asked of a run, whose kept facts are of this version.
fn of_kept_facts(version: u32, is_run_there: bool) -> Result<u64> {
    let folder = tempfile::tempdir().expect("a directory");
    let files = RunFiles::kept(folder.path());
    if is_run_there {
        std::fs::write(&files.history, "").expect("written");
        std::fs::write(&files.acknowledgements, "one\ntwo\n").expect("written");
    }
    let ran = run(Vec::new());
    let facts = RunFacts::bare(&ran, &files);
    let path = folder.path().join(FACTS_FILE);
    // One relation is enough.
    let known = facts_of_runs("printed");
    let nothing = |_: &mut Database| Ok::<_, datalog::Error>(());
    Database::create(&path, &known, version, nothing).expect("made");
    facts.database(Some(&path))?;
    Ok(facts.database(Some(&path))?.count("printed")?)
}

fn facts_of_runs(name: &str) -> Vec<datalog::InputRelation> {
    let mut known = facts(About::Run);
    known.retain(|relation| relation.name == name);
    known
}

#[test]
fn facts_of_another_version_are_made_anew_as_long_as_it_is_there_what_the_run_left() {
    let known = specification::facts_version(About::Run);
    assert_eq!(of_kept_facts(known, true).expect("they are there"), 0);
    assert_eq!(of_kept_facts(known - 1, true).expect("made anew"), 2);
    assert_eq!(of_kept_facts(known, false).expect("they are there"), 0);
    let refused = of_kept_facts(known - 1, false);
    let is_of_version = |error| matches!(error, Error::Facts(datalog::Error::OtherVersion { .. }));
    assert!(refused.is_err_and(is_of_version));
}

#[test]
fn of_a_live_run_it_is_known_when_each_line_was_printed_and_which_kind_a_fault_is() {
    let folder = tempfile::tempdir().expect("a directory");
    let files = RunFiles::kept(folder.path());
    let printed = "put 1\n{\"type\":\"invoke\"}\nput 2\n";
    std::fs::write(&files.acknowledgements, printed).expect("written");
    let ran = run(vec![event(
        15,
        Happening::InPlace {
            fault: 1,
            words: "power loss of a".into(),
        },
    )]);
    let facts = RunFacts {
        about: About::LiveRun,
        nodes: &["a".to_owned()],
        clients: &["client".to_owned()],
        kinds: vec!["power-loss"],
        calls: KnownCalls::default(),
        ran: &ran,
        files: &files,
        lines_ns: &[10, 12, 20],
    };
    let specification = Specification {
        name: "s".into(),
        text: "violation before(L, T) :- printed(N, L), printed_at(number: N, client: \"client\", time: T), \
               fault(fault: 1, kind: \"power-loss\", time: F), T < F.\n\
               violation after(L, T) :- printed(N, L), printed_at(number: N, time: T), fault(time: F), \
               T > F."
            .into(),
    };
    let examined = examine(&[specification], &facts, None, || false).expect("examined");
    let violated = examined.violated.iter().map(|one| one.fact.as_str());
    let violated: Vec<_> = violated.collect();
    assert_eq!(violated, ["before(\"put 1\", 10)", "after(\"put 2\", 20)"]);
}

/// A run of a campaign in which calls were counted, as far as `points` says.
fn counted(at: At, ran: &Ran, text: &str) -> Examined {
    let cluster =
        cluster_of("[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n");
    let plan = "[[faults]]\nat = { time_s = 1 }\nfault = \"call\"\non = \"a\"\ncall = \"fsync\"\n\
                site = \"00000000000000ff\"\nfails = \"EIO\"\n";
    let plan = plan_of(plan, &cluster).expect("a plan");
    let manifest = InjectManifest {
        strategy: Some(EXHAUSTIVE.into()),
        at,
        ..InjectManifest::new(&cluster, Path::new("/c.toml"))
    };
    let folder = tempfile::tempdir().expect("a directory");
    let facts = RunFacts {
        about: About::Run,
        nodes: &["a".to_owned()],
        clients: &[],
        kinds: plan.kinds(),
        calls: KnownCalls::of(&manifest, &plan, ran),
        ran,
        files: &RunFiles::kept(folder.path()),
        lines_ns: &[],
    };
    examine(&[own("s", text)], &facts, None, || false).expect("examined")
}

/// A run whose fault has hit a call, and whose node came to a failure point after that.
fn with_point() -> Ran {
    let words = |words: &str| Happening::Call {
        node: "a".into(),
        words: words.into(),
    };
    let point = Point::Call(CallPoint {
        call: "fsync".into(),
        site: "00000000000000ff".into(),
        ..CallPoint::default()
    });
    let seen = SeenPoint {
        by_node: [("a".to_owned(), 3)].into(),
        callers: vec!["sync".into(), "append".into()],
        ..SeenPoint::of(point)
    };
    Ran {
        points: vec![seen],
        ..run(vec![event(7, words("fsync .: fails with EIO (fault 1)"))])
    }
}

#[test]
fn calls_that_were_counted_are_facts_and_a_call_that_was_hit_says_where_it_was_made() {
    let text = "violation hit(S, By) :- call_hit(fault: 1, site: S, called_by: By).\n\
                violation often(C, F, S, By, N) :- made(node: \"a\", call: C, file: F, site: S, \
                called_by: By, times: N).";
    let examined = counted(At::Calls, &with_point(), text);
    let violated = examined.violated.iter().map(|one| one.fact.as_str());
    assert_eq!(
        violated.collect::<Vec<_>>(),
        [
            "hit(\"00000000000000ff\", \"sync < append\")",
            "often(\"fsync\", \".\", \"00000000000000ff\", \"sync < append\", 3)"
        ]
    );
    let derivation = &examined.violated[0].derivation;
    assert!(
        derivation.contains("called_by: \"sync < append\""),
        "{derivation}"
    );
}

#[test]
fn who_is_cut_off_while_a_majority_is_restored_is_a_fact() {
    let text = "violation outside(N, T) :- cut_off(N, T).";
    let nodes = ["b", "c"].map(str::to_owned).into();
    let events = vec![event(7, Happening::Restored { nodes })];
    let examined = examined_all(&[own("own", text)], "", events);
    let violated = examined.violated.into_iter().map(|one| one.fact);
    assert_eq!(violated.collect::<Vec<_>>(), ["outside(\"a\", 7)"]);
}

/// What is absent was perhaps made.
#[test]
fn of_a_run_whose_calls_were_not_counted_nothing_is_said_of_them() {
    let absent = "violation none(N) :- node(N), !made(node: N, call: \"rename\").";
    let judged = |at, ran: &Ran| {
        let mut judged = ran.clone();
        judged.take_in(counted(at, ran, absent), true);
        judged.judged
    };
    let all = with_point();
    let is_broken = |judged: &Judged| matches!(judged, Judged::Broken { .. });
    assert!(is_broken(&judged(At::Calls, &all)) && is_broken(&judged(At::All, &all)));
    let lost = Ran {
        has_lost_points: true,
        ..all.clone()
    };
    for (at, ran, expected) in [
        (
            At::Messages,
            &all,
            "look at `made`: the calls of this run were not counted",
        ),
        (
            At::Calls,
            &lost,
            "look at `made`: not all that was to be counted in this run is known",
        ),
    ] {
        let Judged::Inconclusive { why } = judged(at, ran) else {
            panic!("{at:?} is no pass, and accuses nobody");
        };
        assert!(why.contains(expected), "{why}");
    }
    // Rules that do not ask for them are held against it.
    let text = "violation v(N) :- node(N).";
    assert_eq!(counted(At::Messages, &all, text).violated.len(), 1);
}

/// A run in which two nodes sent each other messages.
fn with_messages() -> Ran {
    let point = Point::Message(MessagePoint {
        from: "leader".into(),
        to: "follower".into(),
        from_port: None,
        to_port: Some(7000),
    });
    let pair = |to: &str, times| Pair {
        from: "a".into(),
        to: to.into(),
        times,
    };
    let seen = SeenPoint {
        by_pair: vec![pair("b", 4), pair("c", 2)],
        ..SeenPoint::of(point)
    };
    Ran {
        points: vec![seen],
        ..run(Vec::new())
    }
}

#[test]
fn messages_that_were_counted_are_facts_and_nothing_is_said_of_others() {
    let ran = with_messages();
    let id = &ran.points[0].id;
    let text = "violation sent(To, N, Id) :- made_message(from: \"a\", to: To, point: Id, from_is: \"leader\", \
                to_is: \"follower\", from_port: 0, to_port: 7000, times: N).";
    let expected = [("b", 4), ("c", 2)].map(|(to, times)| format!("sent({to:?}, {times}, {id:?})"));
    for at in [At::Messages, At::All] {
        let examined = counted(at, &ran, text);
        let violated = examined.violated.into_iter().map(|one| one.fact);
        assert_eq!(violated.collect::<Vec<_>>(), expected, "{at:?}");
    }
    let lost = Ran {
        has_lost_points: true,
        ..ran.clone()
    };
    for (at, ran, expected) in [
        (At::Calls, &ran, "the messages of this run were not counted"),
        (At::Messages, &lost, "not all that was to be counted"),
    ] {
        let absent = "violation none(N) :- node(N), !made_message(from: N).";
        let examined = counted(at, ran, absent);
        let why = examined.unsaid.expect("nobody knows");
        assert!(why.contains("look at `made_message`"), "{why}");
        assert!(
            why.contains(expected) && examined.violated.is_empty(),
            "{why}"
        );
    }
}

const NAMES: &str = include_str!("../../../../specs/names-are-there-at-starts.dl");

/// A look at the directory of node `a`, which has these files with this content.
fn look(after: After, ms: u64, files: &[(&str, &str)]) -> Look {
    let folder = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let asked = [own("s", "violation v(L) :- line_at(line: L).")];
    let reading = wanted_reading(&asked).expect("it asks");
    let data = cluster::listed(folder.path(), reading);
    Look {
        node: 0,
        after,
        at: std::time::Duration::from_millis(ms),
        data: data.map_err(|error| error.to_string()),
    }
}

/// What a specification says of a run in which somebody looked, or nobody did.
fn seen(looks: Option<Vec<Look>>, text: &str) -> Examined {
    let cluster =
        cluster_of("[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n");
    let folder = tempfile::tempdir().expect("a directory");
    let files = RunFiles::kept(folder.path());
    if let Some(looks) = looks {
        let begun = std::time::Duration::from_millis(5);
        write_looks(&files.looks, &cluster, (looks, begun)).expect("written");
    }
    let ran = run(Vec::new());
    let facts = RunFacts::bare(&ran, &files);
    examine(&[own("s", text)], &facts, None, || false).expect("examined")
}

fn found(examined: Examined) -> Vec<String> {
    assert_eq!(examined.unsaid, None);
    examined.violated.into_iter().map(|one| one.fact).collect()
}

#[test]
fn what_a_directory_had_at_a_moment_is_held_against_what_it_had_then() {
    let whole = [("CURRENT", "wal-2\n"), ("log/wal-2", "x")];
    let emptied = [("CURRENT", "wal-2\n"), ("log/wal.tmp", "y")];
    let looks = vec![
        look(After::Stop, 7, &emptied),
        look(After::PowerLoss, 12, &whole),
        look(After::Run, 20, &emptied),
    ];
    assert_eq!(
        found(seen(Some(looks.clone()), NAMES)),
        [
            "dangling(\"a\", \"CURRENT\", \"wal-2\", \"stop\")",
            "dangling(\"a\", \"CURRENT\", \"wal-2\", \"run\")"
        ]
    );
    assert_eq!(found(seen(Some(looks[1..2].to_vec()), NAMES)), [""; 0]);
    let without = seen(Some(vec![look(After::Run, 20, &[("other", "x")])]), NAMES);
    assert_eq!(without.unlooked[0].lacks, ["line_at(path: one of pointer)"]);
    // Times are from the start of the clients on.
    let text = "violation v(L, T, H, B, S) :- looked_at(L, \"a\", \"power loss\", T), \
                content_at(look: L, path: \"log/wal-2\", hash: H, begins: B, time: T), \
                entry_at(look: L, path: \"log/wal-2\", kind: \"file\", size: S, time: T).";
    let hash = blake3::hash(b"x").to_hex();
    let expected = format!("v(2, 7000000, \"{hash}\", \"x\", 1)");
    assert_eq!(found(seen(Some(looks), text)), [expected]);
}

#[test]
fn what_nobody_saw_is_not_said() {
    let unsaid = |looks, text: &str| {
        let examined = seen(looks, text);
        assert!(examined.violated.is_empty(), "{examined:?}");
        examined.unsaid.unwrap_or_default()
    };
    let absent = "violation none(L) :- looked_at(look: L), !entry_at(look: L, path: \"x\").";
    let why = unsaid(None, absent);
    assert!(
        why.contains("nobody looked at the directories of data in this run"),
        "{why}"
    );
    let failed = Look {
        data: Err("no room".into()),
        ..look(After::Run, 12, &[])
    };
    let one = look(After::Stop, 7, &[("other", "")]);
    let why = unsaid(Some(vec![one.clone(), failed]), absent);
    let expected = "the directory of a could not be looked at after 0.007 s: no room";
    assert!(why.contains(expected), "{why}");
    assert_eq!(found(seen(Some(vec![one]), absent)), ["none(1)"]);
    // A file that is too large may have any line.
    let large = "x".repeat(specification::rows::LINES_OF_MAX as usize + 1);
    let large = look(After::Run, 7, &[("wal.log", &large), ("CURRENT", "x\n")]);
    let of = |rule: &str| format!("violation v(L) :- looked_at(look: L), !line_at({rule}).");
    let why = unsaid(Some(vec![large.clone()]), &of("look: L, line: \"y\""));
    assert!(why.contains("what is in wal.log of a"), "{why}");
    let named = of("look: L, path: \"CURRENT\", line: \"y\"");
    assert_eq!(found(seen(Some(vec![large]), &named)), ["v(1)"]);
}

#[test]
fn directories_are_looked_at_if_a_rule_asks_and_files_are_read_if_it_asks_for_them() {
    let of = |text: &str| wanted_reading(&[own("s", "violation v(N) :- node(N)."), own("t", text)]);
    assert_eq!(of("violation v(L) :- logged(line: L)."), None);
    let entries =
        of("violation v(P) :- looked_at(look: L), !entry_at(look: L, path: \"x\"), P = L.");
    assert_eq!(entries, Some(cluster::Reading::NOTHING));
    let lines = of("violation v(L) :- line_at(line: L).").expect("it asks");
    assert_eq!(lines.file_max, specification::rows::LINES_OF_MAX);
    // What was not read is not there for a question that comes later.
    let mut unread = look(After::Run, 7, &[("CURRENT", "x\n")]);
    for listed in unread.data.as_mut().expect("listed") {
        listed.bytes = None;
    }
    let why = seen(Some(vec![unread]), NAMES)
        .unsaid
        .expect("nobody knows");
    assert!(why.contains("no specification of the campaign"), "{why}");
}
