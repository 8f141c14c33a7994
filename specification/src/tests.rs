//! The table of the page about specifications, and what may not be asked of a relation.

use super::*;

/// The row of a relation.
fn row(known: &Known) -> String {
    let Known { relation, .. } = known;
    let columns: Vec<_> = relation.columns.iter().map(|(name, _)| *name).collect();
    let watched = if relation.is_watched { "yes" } else { "" };
    let of = known.of();
    let (name, about) = (relation.name, relation.about);
    format!(
        "| `{name}({})` | {about} | {of} | {watched} |\n",
        columns.join(", ")
    )
}

#[test]
fn the_page_lists_the_facts_that_there_are() {
    let page = include_str!("../../docs/specifications.md");
    let head = "| fact | what it says | of | watched |\n|---|---|---|---|\n";
    let table = FACTS.iter().map(row).collect::<String>();
    let table = head.to_owned() + &table;
    assert!(
        page.contains(&table),
        "put this into docs/specifications.md:\n{table}"
    );
}

fn problem(text: &str, about: About) -> String {
    let specification = Specification {
        name: "s".into(),
        text: text.into(),
    };
    let program = specification.program("s.dl", about);
    program.map_or_else(|problem| problem.to_string(), |_| String::new())
}

#[test]
fn what_there_are_no_facts_of_cannot_be_asked_and_its_name_is_free() {
    let lost = "violation lost(K) :- acked(K), !served(K).";
    assert_eq!(problem(lost, About::Run), "");
    assert!(problem(lost, About::CrashState).contains("nothing is known of acked"));
    let named = "violation named(L) :- printed(_, L), !entry(path: L).";
    assert_eq!(problem(named, About::CrashState), "");
    assert_eq!(
        problem(named, About::Run),
        "s.dl:1:39: in the rule of named: nothing is known of entry of a run with faults: there are \
         such facts of crash states only"
    );
    let own = "entry(L) :- printed(_, L). violation two(L) :- entry(L), !reads(L).";
    assert_eq!(problem(own, About::Run), "");
    let healed = "violation x(T) :- healed(T).";
    assert!(problem(healed, About::CrashState).ends_with("such facts of runs only"));
}

#[test]
fn of_a_live_run_there_are_no_facts_that_only_a_plan_or_a_probe_brings_about() {
    for (relation, atom) in [
        ("role", "role(time: T)"),
        ("cut", "cut(time: T)"),
        ("cut_off", "cut_off(time: T)"),
        ("call", "call(time: T)"),
        ("call_hit", "call_hit(time: T)"),
        ("made", "made(times: T)"),
        ("made_message", "made_message(times: T)"),
        ("looked_at", "looked_at(time: T)"),
        ("entry_at", "entry_at(time: T)"),
        ("content_at", "content_at(time: T)"),
        ("line_at", "line_at(time: T)"),
        ("probe_failed", "probe_failed(time: T)"),
        ("progress", "progress(T)"),
        ("fault_missed", "fault_missed(fault: T)"),
    ] {
        let text = format!("violation x(T) :- {atom}.");
        assert_eq!(problem(&text, About::Run), "", "{relation}");
        let why = format!(
            "nothing is known of {relation} of a live run: there are such facts of runs of inject only"
        );
        let said = problem(&text, About::LiveRun);
        assert!(said.ends_with(&why), "{said}");
    }
    // The one of the page.
    let says = "violation says_nothing(N) :- fault_on(node: N, time: F), started(node: N, time: T), T > F, \
                !says(N, _).\n\
                says(N, T) :- logged(node: N, line: L, time: T), fault_on(node: N, time: F), T > F, \
                L ~ \"unclean shutdown\".";
    assert_eq!(problem(says, About::LiveRun), "");
    let known = "violation x(L) :- printed(N, L), printed_at(number: N, time: T), healed(H), T > H, \
                 acked(_), !served(_).";
    assert_eq!(problem(known, About::LiveRun), "");
    assert!(problem(known, About::Run).ends_with("such facts of live runs only"));
}

/// An operation of a lock: who does what, whom it names, how it ends, and when it is called and ends.
type Locking<'a> = (i64, &'a str, &'a str, &'a str, i64, i64);

/// What a specification of the project finds in a database.
fn violated(text: &str, about: About, database: &mut datalog::Database) -> Vec<String> {
    let specification = Specification {
        name: "m".into(),
        text: text.into(),
    };
    let program = specification.program("m.dl", about).expect("rules");
    database.evaluate(&program).expect("evaluated");
    let mut examined = Examined::default();
    examined.add("m", &program, database).expect("read");
    let violated = examined.violated.into_iter();
    violated.map(|violated| violated.fact).collect()
}

/// What `mutual-exclusion.dl` says of operations of a lock.
fn held_twice(operations: &[Locking<'_>]) -> Vec<String> {
    let facts = facts(About::Run);
    let mut database = datalog::Database::in_memory(&facts).expect("made");
    for (op, &(process, f, holder, outcome, called, time)) in (0_i64..).zip(operations) {
        let operation = || -> Vec<datalog::Value> {
            let texts = [f, "l", holder].map(datalog::Value::from);
            let who = [op.into(), "c".into(), process.into()];
            who.into_iter().chain(texts).collect()
        };
        let with = |more: [datalog::Value; 3]| operation().into_iter().chain(more).collect();
        let call = operation().into_iter().chain([called.into()]).collect();
        database.add("called", [call]).expect("added");
        let answer: Vec<_> = with(["null".into(), called.into(), time.into()]);
        database.add(outcome, [answer]).expect("added");
    }
    let text = include_str!("../../specs/mutual-exclusion.dl");
    violated(text, About::Run, &mut database)
}

#[test]
fn a_lock_is_given_back_by_a_release_that_is_not_refused_of_whoever_holds_it() {
    let (ok, fail, unknown) = ("acknowledged", "refused", "unknown");
    for (operations, is_twice) in [
        (
            &[
                (0, "acquire", "null", ok, 1, 2),
                (1, "acquire", "null", ok, 3, 4),
            ][..],
            true,
        ),
        (
            &[
                (0, "acquire", "null", ok, 1, 2),
                (0, "release", "null", ok, 3, 4),
                (1, "acquire", "null", ok, 5, 6),
            ],
            false,
        ),
        // A release that was refused released nothing; one of unknown outcome may have.
        (
            &[
                (0, "acquire", "null", ok, 1, 2),
                (0, "release", "null", fail, 3, 4),
                (1, "acquire", "null", ok, 5, 6),
            ],
            true,
        ),
        (
            &[
                (0, "acquire", "null", ok, 1, 2),
                (0, "release", "null", unknown, 3, 9),
                (1, "acquire", "null", ok, 5, 6),
            ],
            false,
        ),
        // Whoever names the holder gives it back, whatever that one does meanwhile.
        (
            &[
                (0, "acquire", "A", ok, 1, 2),
                (0, "write", "1", unknown, 2, 9),
                (5, "release", "A", ok, 3, 4),
                (1, "acquire", "B", ok, 5, 6),
            ],
            false,
        ),
        // Another holder's release does not, nor that of a process that named nobody.
        (
            &[
                (0, "acquire", "A", ok, 1, 2),
                (0, "release", "C", ok, 3, 4),
                (1, "acquire", "B", ok, 5, 6),
            ],
            true,
        ),
        (
            &[
                (0, "acquire", "A", ok, 1, 2),
                (0, "release", "null", ok, 3, 4),
                (1, "acquire", "B", ok, 5, 6),
            ],
            true,
        ),
    ] {
        let found = held_twice(operations);
        assert_eq!(!found.is_empty(), is_twice, "{operations:?}: {found:?}");
    }
}

/// The histories that the model lock allows, and some that it does not.
#[test]
fn a_release_that_comes_late_gives_back_what_was_acquired_meanwhile() {
    let (ok, unknown) = ("acknowledged", "unknown");
    for (operations, is_twice) in [
        // It was called before, and is answered after, or never.
        (
            &[
                (0, "acquire", "A", ok, 1, 3),
                (1, "release", "A", ok, 2, 4),
                (2, "acquire", "B", ok, 5, 6),
            ][..],
            false,
        ),
        (
            &[
                (0, "acquire", "A", ok, 1, 2),
                (0, "release", "A", unknown, 3, 4),
                (1, "release", "A", ok, 5, 6),
                (2, "acquire", "A", ok, 7, 8),
                (3, "acquire", "B", ok, 9, 10),
            ],
            false,
        ),
        // It had ended when the other was called.
        (
            &[
                (0, "acquire", "A", ok, 1, 2),
                (0, "release", "A", ok, 3, 4),
                (0, "acquire", "A", ok, 7, 8),
                (1, "acquire", "B", ok, 9, 10),
            ],
            true,
        ),
        (
            &[
                (0, "acquire", "A", ok, 1, 2),
                (0, "release", "C", unknown, 3, 4),
                (1, "acquire", "A", ok, 5, 6),
                (2, "acquire", "B", ok, 7, 8),
            ],
            true,
        ),
        // The one that is answered last had given it back before.
        (
            &[
                (0, "acquire", "A", ok, 1, 9),
                (1, "release", "A", ok, 2, 3),
                (2, "acquire", "B", ok, 4, 5),
            ],
            false,
        ),
    ] {
        let found = held_twice(operations);
        assert_eq!(!found.is_empty(), is_twice, "{operations:?}: {found:?}");
    }
}

/// An event of the name node's files: what is done to which, and the name that it gets.
type Filed<'a> = (&'a str, &'a str, &'a str);

/// What `hdfs-name-node.dl` says of these events.
fn of_name_node(events: &[Filed<'_>]) -> Vec<String> {
    let facts = facts(About::CrashState);
    let mut database = datalog::Database::in_memory(&facts).expect("made");
    for (event, &(op, path, to)) in (1_i64..).zip(events) {
        let texts = ["name", op, path, to].map(datalog::Value::from);
        let numbers = [0, 0, 9].map(datalog::Value::from);
        let row = [event.into()].into_iter().chain(texts).chain(numbers);
        let row = row.chain(["call".into(), event.into()]).collect();
        database.add("file_op", [row]).expect("added");
    }
    let text = include_str!("../../specs/hdfs-name-node.dl");
    violated(text, About::CrashState, &mut database)
}

#[test]
fn a_sync_makes_the_image_durable_that_was_written_before_it_and_no_later_one() {
    let (new, image) = ("name/current/fsimage.ckpt", "name/current/fsimage");
    let begun = [("creat", new, ""), ("write", new, "")];
    let (synced, named) = ([("sync", "", "")], [("rename", new, image)]);
    let of = |events: &[&[Filed<'_>]]| of_name_node(&events.concat());
    assert_eq!(of(&[&begun, &synced, &named]), [""; 0]);
    assert_eq!(
        of(&[&begun, &synced, &named, &begun, &named]),
        ["image_is_not_durable(7)"]
    );
    assert_eq!(
        of(&[&begun, &synced, &named, &begun, &synced, &named]),
        [""; 0]
    );
    let file_synced = [("fsync", new, "")];
    let emptied = [("truncate", new, ""), ("write", new, "")];
    assert_eq!(of(&[&begun, &file_synced, &named]), [""; 0]);
    assert_eq!(
        of(&[&begun, &file_synced, &emptied, &named]),
        ["image_is_not_durable(6)"]
    );
    assert_eq!(
        of(&[&begun, &file_synced, &emptied, &file_synced, &named]),
        [""; 0]
    );
    // Of a file whose beginning nobody has seen, any sync may be the one.
    assert_eq!(of(&[&file_synced, &named]), [""; 0]);
}

/// What is done to a file of a member of etcd, which is called this, and the name that it gets.
type OfMember<'a> = (&'a str, &'a str, &'a str, i64);

/// What `etcd-snapshots.dl` says of these events.
fn of_member(events: &[OfMember<'_>]) -> Vec<String> {
    let mut database = datalog::Database::in_memory(&facts(About::CrashState)).expect("made");
    for (event, &(op, path, to, file)) in (1_i64..).zip(events) {
        let texts = ["m", op, path, to].map(datalog::Value::from);
        let numbers = [file, 0, 9].map(datalog::Value::from);
        let row = [event.into()].into_iter().chain(texts).chain(numbers);
        let row = row.chain(["call".into(), event.into()]).collect();
        database.add("file_op", [row]).expect("added");
    }
    let text = include_str!("../../specs/etcd-snapshots.dl");
    violated(text, About::CrashState, &mut database)
}

#[test]
fn a_log_of_etcd_is_removed_once_a_snapshot_of_what_is_in_it_is_durable() {
    let first = "member/wal/0000000000000000-0000000000000000.wal";
    let next = "member/wal/0000000000000001-0000000000000010.wal";
    let old = "member/snap/0000000000000002-000000000000000f.snap";
    let new = "member/snap/0000000000000002-0000000000000010.snap";
    let begun = [
        (
            "creat",
            "member/wal.tmp/0000000000000000-0000000000000000.wal",
            "",
            1,
        ),
        ("rename", "member/wal/1.tmp", next, 2),
    ];
    let (removed, sync) = ([("unlink", first, "", 1)], ("fsync", new, "", 3));
    let (made, write) = (("creat", new, "", 3), ("write", new, "", 3));
    let (temporary, named) = (
        ("creat", "member/snap/t", "", 3),
        ("rename", "member/snap/t", new, 3),
    );
    let of_names = ("fsync", "member/snap", "", 4);
    for (saved, is_durable) in [
        (&[made, write, sync][..], true),
        (&[made, write], false),
        (&[], false),
        // What is written later is not durable.
        (&[made, write, sync, write], false),
        (&[made, sync, write, of_names], false),
        // One that ends in the log which is removed.
        (&[("creat", old, "", 3), write, sync], false),
        (&[temporary, write, sync, named], false),
        (&[temporary, write, sync, named, of_names], true),
        (&[temporary, write, named, of_names], false),
        (&[made, write, ("sync", "", "", 0)], true),
    ] {
        let found = of_member(&[&begun, saved, &removed].concat());
        assert_eq!(found.is_empty(), is_durable, "{saved:?}: {found:?}");
        // It may have been there before anything was recorded.
        assert_eq!(of_member(&[&begun[1..], saved, &removed].concat()), [""; 0]);
    }
}

/// What `before-or-after.dl` says of these lines of clients, and of what is in the file then.
fn of_value(printed: &[(&str, &str)], holds: &str) -> Vec<String> {
    let mut database = datalog::Database::in_memory(&facts(About::CrashState)).expect("made");
    for (number, &(client, line)) in (1_i64..).zip(printed) {
        let row = vec![number.into(), line.into()];
        database.add("printed", [row]).expect("added");
        let row = vec![number.into(), client.into(), number.into(), number.into()];
        database.add("printed_by", [row]).expect("added");
    }
    let lines = rows::lines("program", "value", holds.as_bytes());
    database.add("line", lines).expect("added");
    let text = include_str!("../../specs/before-or-after.dl");
    let of_name = |fact: String| fact.split('(').next().map(str::to_owned);
    let found = violated(text, About::CrashState, &mut database);
    found.into_iter().filter_map(of_name).collect()
}

#[test]
fn a_file_holds_the_value_that_was_acknowledged_last_or_one_that_was_begun_since() {
    let (try_1, set_1) = (("a", "try value one"), ("a", "set value one"));
    let (try_2, set_2) = (("a", "try value two"), ("a", "set value two"));
    let (other_try, other_set) = (("b", "try value two"), ("b", "set value two"));
    let (whole, neither) = (&[][..], &["neither"][..]);
    for (printed, holds, expected) in [
        (&[try_1, set_1][..], "one\n", whole),
        (&[try_1, set_1], "", &["gone"]),
        (&[try_1, set_1], "on", neither),
        (&[try_1, set_1], "one\nrest\n", &["mixed"]),
        // Nobody knows what it held before.
        (&[try_1], "", whole),
        (&[try_1], "on", whole),
        (&[try_1, set_1, try_2], "one\n", whole),
        (&[try_1, set_1, try_2], "two\n", whole),
        (&[try_1, set_1, try_2], "tne\n", neither),
        (&[try_1, set_1, try_2, set_2], "one\n", neither),
        (&[try_1, set_1, try_2, set_2, try_1, set_1], "one\n", whole),
        (
            &[try_1, set_1, try_2, set_2, try_1, set_1],
            "two\n",
            neither,
        ),
        // Who began before the other was answered may come last.
        (&[try_1, other_try, set_1, other_set], "one\n", whole),
        (&[try_1, other_try, other_set], "one\n", whole),
        (&[other_try, try_1, set_1, other_set, try_1], "two\n", whole),
        // Another file.
        (
            &[try_1, set_1, ("a", "try v two"), ("a", "set v two")],
            "two\n",
            neither,
        ),
    ] {
        assert_eq!(of_value(printed, holds), expected, "{printed:?} {holds}");
    }
}

/// What `names-are-there.dl` has nothing to look at for in a state whose file has a line.
fn dangling_lacks(path: &str) -> Vec<Unlooked> {
    let mut database = datalog::Database::in_memory(&facts(About::CrashState)).expect("made");
    let line = rows::lines("program", path, b"MANIFEST-1\n");
    database.add("line", line).expect("added");
    let program = names_are_there();
    database.evaluate(&program).expect("evaluated");
    let mut examined = Examined::default();
    examined.add("names", &program, &database).expect("read");
    examined.unlooked
}

fn names_are_there() -> datalog::Program {
    let specification = Specification {
        name: "names".into(),
        text: include_str!("../../specs/names-are-there.dl").into(),
    };
    let program = specification.program("names.dl", About::CrashState);
    program.expect("rules")
}

#[test]
fn a_file_that_a_specification_lists_by_name_is_looked_for_and_no_other_is() {
    assert_eq!(dangling_lacks("CURRENT"), []);
    let lacking = dangling_lacks("db/CURRENT");
    let lacks: Vec<_> = lacking.iter().map(Unlooked::words).collect();
    let expected =
        "names: dangling never had a fact to look at: there is no line(path: one of pointer)";
    assert_eq!(lacks, [expected]);
    let program = names_are_there();
    let large = rows::LINES_OF_MAX + 1;
    for (path, is_told) in [("CURRENT", false), ("000003.log", true)] {
        let file = ("program", path, large);
        let told = rows::are_lines_told(std::iter::once(&program), false, file);
        assert_eq!(told.is_ok(), is_told, "{path}: {told:?}");
    }
}

#[test]
fn what_had_something_to_look_at_in_one_run_is_not_unlooked_in_all() {
    let unlooked = |violation: &str| Unlooked {
        specification: "s".into(),
        violation: violation.into(),
        lacks: Vec::new(),
    };
    let both = [unlooked("one"), unlooked("two")];
    let runs = [&both[..], &both[1..]];
    assert_eq!(Unlooked::in_all(runs.into_iter()), [&both[1]]);
    assert!(Unlooked::in_all([&both[..], &[]].into_iter()).is_empty());
    assert!(Unlooked::in_all(std::iter::empty()).is_empty());
}
