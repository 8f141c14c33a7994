//! The facts of workloads and trees, and what is kept from one state to the next.

use std::collections::BTreeMap;

use local_fs::{Content, Inode, InodeKind, Segment, Tree, WalkError};
use pace_rules::disk::{Disk, Relaxation, State};
use recorder::{Outcome, Recorded};
use workloads::Workload;

use super::*;
use crate::moment::Progress;
use crate::result::{Again, LostBytes, RunLog, StateFindings};

fn rules(text: &str) -> Rules {
    let specification = Specification {
        name: "s".into(),
        text: text.into(),
    };
    Rules::of(&[specification]).unwrap_or_else(|problem| panic!("{problem}"))
}

fn everything() -> Rules {
    let mut rules = Rules::default();
    rules.keep_everything(true);
    rules
}

fn workload(text: &str) -> Workload {
    workloads::parse(text, "test").expect("one").remove(0)
}

/// A run of a workload, of whose operations one is refused.
fn recorded(workload: &Workload, refused: Option<usize>) -> Recorded {
    let outcome = |number| {
        if Some(number) == refused {
            Outcome::Refused(libc::ENOSPC)
        } else {
            Outcome::Done
        }
    };
    Recorded {
        outcomes: (0..workload.operations().count()).map(outcome).collect(),
        setup_operations: workload.setup.len(),
        durable_position: 0,
        root_mode: 0o755,
        root_owner: (0, 0),
        crash_points: Vec::new(),
        log: block_dev::BlockLog::default(),
    }
}

fn state(operations_done: u32, under_way: bool, relaxation: Relaxation) -> StateFindings {
    StateFindings {
        operations_done,
        under_way,
        state: State {
            position: 7,
            relaxation,
        },
        pending: 2,
        lost: Vec::new(),
        place: None,
        again: Vec::new(),
        findings: Vec::new(),
        more: 0,
    }
}

fn words(row: &[Value]) -> String {
    let words: Vec<_> = row.iter().map(ToString::to_string).collect();
    words.join(" ")
}

/// The rows of a relation, in words.
fn of(facts: &[Fact], relation: &str) -> Vec<String> {
    let facts = facts.iter().filter(|(of, _)| *of == relation);
    facts.map(|(_, row)| words(row)).collect()
}

/// What a workload did after so many operations, all of it.
fn facts(text: &str, done: u32, under_way: bool, refused: Option<usize>) -> Vec<Fact> {
    let workload = workload(text);
    let trace = recorded(&workload, refused);
    let what = Done::of("ext4", &workload, (&trace, Disk::Honest));
    let state = state(done, under_way, Relaxation::Prefix);
    of_crash(&everything(), &what, (&state, &[]), &Tree::default()).facts
}

/// Of each change: what it is, the path, the other name, the number of the file, and the range.
fn changes(text: &str) -> Vec<String> {
    let count = workload(text).operations().count() as u32;
    let changes = facts(text, count, false, None)
        .into_iter()
        .filter_map(|(relation, row)| (relation == "file_op").then_some(row));
    changes.map(|row| words(&row[2..8])).collect()
}

#[test]
fn files_keep_their_numbers_whatever_they_are_called() {
    let text = "mkdir A; creat A/f; rename A B; write B/f 0 10; link B/f g; unlink B/f; append g 5; \
                open g as @h; unlink g; fsync @h";
    assert_eq!(
        changes(text),
        [
            r#""mkdir" "A" "" 1 0 0"#,
            r#""creat" "A/f" "" 2 0 0"#,
            r#""rename" "A" "B" 1 0 0"#,
            r#""write" "B/f" "" 2 0 10"#,
            r#""link" "B/f" "g" 2 0 0"#,
            r#""unlink" "B/f" "" 2 0 0"#,
            r#""write" "g" "" 2 10 5"#,
            r#""unlink" "g" "" 2 0 0"#,
            r#""fsync" "" "" 2 0 0"#,
        ]
    );
}

#[test]
fn what_is_done_by_a_handle_has_the_name_that_it_was_opened_under() {
    let text = "creat b; link b a; open b as @h; fsync @h; rename b c; write @h 0 4K; unlink a; fsync @h; \
                creat d; rename d c; fsync @h";
    let told = changes(text);
    let is_name = |told: &&String| {
        ["creat", "link", "unlink", "rename"]
            .iter()
            .any(|op| told.contains(op))
    };
    let by_handle: Vec<_> = told.iter().filter(|told| !is_name(told)).collect();
    assert_eq!(
        by_handle,
        [
            r#""fsync" "b" "" 1 0 0"#,
            r#""write" "c" "" 1 0 4096"#,
            r#""fsync" "c" "" 1 0 0"#,
            // It has no name any more.
            r#""fsync" "" "" 1 0 0"#,
        ]
    );
    let told = changes(
        "mkdir A; creat A/b; creat x; open A/b as @h; open x as @x; rename A/b x exchange; fsync @h; \
         fsync @x; rename A B; link @x y; unlink B/b; fsync @x; tmpfile . as @t; link @t z; fsync @t; \
         reflink @t 0 0 @x 0; open . as @r; fsync @r",
    );
    assert_eq!(
        told[4..],
        [
            r#""fsync" "x" "" 2 0 0"#,
            r#""fsync" "A/b" "" 3 0 0"#,
            r#""rename" "A" "B" 1 0 0"#,
            r#""link" "B/b" "y" 3 0 0"#,
            r#""unlink" "B/b" "" 3 0 0"#,
            r#""fsync" "" "" 3 0 0"#,
            r#""creat" "" "" 4 0 0"#,
            r#""link" "" "z" 4 0 0"#,
            r#""fsync" "z" "" 4 0 0"#,
            r#""reflink" "" "z" 3 0 0"#,
            r#""fsync" "." "" 0 0 0"#,
        ]
    );
}

#[test]
fn names_are_exchanged_replaced_and_stay_where_both_are_of_one_file() {
    let text = "creat a; mkdir B; creat B/c; rename a B exchange; fsync B; fsync a/c; creat d; rename d B; \
                fsync B; link B e; rename B e; fsync e";
    let changes = changes(text);
    let of_names: Vec<_> = changes.iter().map(String::as_str).collect();
    assert_eq!(
        of_names,
        [
            r#""creat" "a" "" 1 0 0"#,
            r#""mkdir" "B" "" 2 0 0"#,
            r#""creat" "B/c" "" 3 0 0"#,
            r#""exchange" "a" "B" 1 0 0"#,
            r#""fsync" "B" "" 1 0 0"#,
            r#""fsync" "a/c" "" 3 0 0"#,
            r#""creat" "d" "" 4 0 0"#,
            r#""rename" "d" "B" 4 0 0"#,
            r#""fsync" "B" "" 4 0 0"#,
            r#""link" "B" "e" 4 0 0"#,
            r#""fsync" "e" "" 4 0 0"#,
        ]
    );
}

#[test]
fn syncs_are_told_as_what_they_make_durable() {
    let text = "creat a; write a 0 4K sync; write a 4K 4K dsync; mmapwrite a 0 4K; msync a 0 4K; fdatasync a; \
                fsync .; sync; syncfs; sync_file_range a 0 4K; setxattr a user.x y; removexattr a user.x; \
                chmod a 600; chown a 1 2; truncate a 3; falloc a keep_size 0 8K; falloc a punch_hole|keep_size 0 4K";
    let told = changes(text);
    let ops: Vec<_> = told
        .iter()
        .map(|words| words.split('"').nth(1).expect("a word"))
        .collect();
    let expected = [
        "creat",
        "write",
        "fsync-range",
        "write",
        "fdatasync-range",
        "write",
        "fdatasync-range",
        "fdatasync",
        "fsync",
        "sync",
        "sync",
        "setxattr",
        "removexattr",
        "chmod",
        "chown",
        "truncate",
        "allocate",
        "zero",
    ];
    assert_eq!(ops, expected);
    assert!(told.contains(&r#""fsync-range" "a" "" 1 0 4096"#.to_owned()));
    assert!(told.contains(&r#""fdatasync-range" "a" "" 1 4096 4096"#.to_owned()));
    assert!(told.contains(&r#""fsync" "." "" 0 0 0"#.to_owned()));
    assert!(told.contains(&r#""truncate" "a" "" 1 3 0"#.to_owned()));
}

#[test]
fn what_had_returned_what_was_in_flight_and_what_was_refused_are_told_apart() {
    let text = "setup; creat a; run; write a 0 4K; write a 4K 4K sync; fsync a";
    let told = facts(text, 2, true, None);
    let operations = of(&told, "operation");
    assert_eq!(
        operations,
        [
            r#"0 0 "setup" "creat a" "done""#,
            r#"1 2 "run" "write a 0 4K" "done""#,
            r#"2 3 "run" "write a 4K 4K sync" "in flight""#,
        ]
    );
    // The setup is durable.
    let done = of(&told, "file_op");
    assert_eq!(
        done[1], r#"1 "ext4" "sync" "." "" 0 0 0 "setup" 1"#,
        "{done:?}"
    );
    assert_eq!((done.len(), of(&told, "in_flight").len()), (3, 2));
    assert_eq!(of(&told, "crashed"), [r#""ext4" 2 2"#]);
    // After the setup alone, that is durable too; before it nothing is done.
    let after_setup = facts(text, 1, false, None);
    assert_eq!(of(&after_setup, "file_op").len(), 2);
    let before = facts("creat a; fsync a", 0, false, None);
    assert_eq!(of(&before, "crashed"), [r#""ext4" -1 0"#]);
    let refused = facts(text, 4, false, Some(1));
    assert_eq!(of(&refused, "operation")[1], {
        let why = std::io::Error::from_raw_os_error(libc::ENOSPC);
        format!(r#"1 -1 "run" "write a 0 4K" "{why}""#)
    });
    assert!(
        of(&refused, "file_op")
            .iter()
            .all(|row| !row.contains("0 4096"))
    );
}

#[test]
fn what_the_disk_lost_is_told_of_each_crash() {
    let lost = |place, length| LostBytes {
        place,
        offset: 8192,
        length,
    };
    let torn = Relaxation::Torn {
        place: 3,
        from: 512,
        to: 1024,
        lost: vec![2],
    };
    let mut state = state(1, true, torn);
    state.lost = vec![lost(2, 4096), lost(3, 512)];
    state.again = vec![Again {
        state: State {
            position: 4,
            relaxation: Relaxation::Lost(vec![3]),
        },
        written: 3,
        writes: 5,
        pending: 1,
        lost: vec![lost(3, 4096)],
        clean: true,
        log: RunLog::default(),
    }];
    let workload = workload("creat a; fsync a");
    let done = Done::of(
        "ext4",
        &workload,
        (&recorded(&workload, None), Disk::Honest),
    );
    let at = |operations_done, under_way| Progress {
        operations_done,
        under_way,
    };
    let origins = [at(0, false), at(0, true), at(1, true), at(1, false)];
    let told = of_crash(&everything(), &done, (&state, &origins), &Tree::default());
    let told = told.facts;
    assert_eq!(
        of(&told, "disk_state"),
        [r#"0 "torn" 7 2"#, r#"1 "lost" 4 1"#]
    );
    assert_eq!(
        of(&told, "lost_write"),
        [
            r#"0 2 1 8192 4096 "all""#,
            r#"0 3 -1 8192 512 "in part""#,
            r#"1 3 -1 8192 4096 "all""#,
        ]
    );
}

fn inode(kind: InodeKind, size_bytes: u64) -> Inode {
    Inode {
        kind,
        mode: 0o640,
        uid: 1,
        gid: 2,
        size_bytes,
        blocks: 8,
        link_count: 2,
        xattrs: BTreeMap::from([("user.x".to_owned(), b"y\0z".to_vec())]),
    }
}

/// A file with a hole at two names, a symbolic link, and a directory that is below itself.
fn tree(size: u64) -> Tree {
    let entries = |names: &[(&str, u64)]| {
        let names = names.iter().map(|(name, id)| ((*name).to_owned(), *id));
        inode(InodeKind::Directory(names.collect()), 0)
    };
    let segment = Segment {
        offset: 2,
        data: b"\none\ntwo".to_vec(),
    };
    let content = Content {
        segments: vec![segment],
    };
    let inodes = [
        (1, entries(&[("A", 2), ("f", 3), ("l", 4)])),
        (2, entries(&[("A", 2), ("g", 3)])),
        (3, inode(InodeKind::File(content), size)),
        (4, inode(InodeKind::Symlink("f".into()), 1)),
    ];
    Tree {
        root: 1,
        inodes: inodes.into(),
        errors: vec![WalkError {
            path: "A/h".into(),
            doing: "read",
            errno: libc::EIO,
            is_ours: false,
        }],
    }
}

fn of_tree(rules: &Rules, tree: &Tree) -> Told {
    of_run(rules, &Done::default(), 0, tree)
}

#[test]
fn a_tree_is_told_by_names_inodes_attributes_bytes_and_lines() {
    let told = of_tree(&everything(), &tree(12)).facts;
    let entries = of(&told, "entry");
    let paths: Vec<_> = entries
        .iter()
        .map(|row| row.split('"').nth(3).expect("a path"))
        .collect();
    // What is below itself is named once more, and not entered.
    assert_eq!(paths, [".", "A", "A/A", "A/g", "f", "l"]);
    assert_eq!(entries[4], r#""" "f" "file" 12 """#);
    assert_eq!(entries[5], r#""" "l" "symlink" 0 "f""#);
    let attributes = of(&told, "attributes");
    assert!(attributes.contains(&r#""" "A/g" 3 "0640" 1 2 2 8"#.to_owned()));
    assert!(of(&told, "xattr").contains(&r#""" "f" "user.x" "yz""#.to_owned()));
    let lines = of(&told, "line");
    assert_eq!(
        lines[3..],
        [r#""" "f" 1 """#, r#""" "f" 2 "one""#, r#""" "f" 3 "two""#]
    );
    let bytes = b"\0\0\none\ntwo\0\0";
    let hash = blake3::hash(bytes).to_hex();
    let content = format!(r#""" "f" "{hash}" "\none\ntwo""#);
    assert!(of(&told, "content").contains(&content), "{told:?}");
    let unreadable = of(&told, "unreadable");
    assert!(
        unreadable[0].starts_with(r#""" "A/h" "read" "#),
        "{unreadable:?}"
    );
}

/// Why a rule says nothing of a tree, if it does not.
fn undecided(text: &str, tree: &Tree) -> Option<String> {
    let mut rules = rules(text);
    let told = of_tree(&rules, tree);
    rules.examine(told).undecided
}

#[test]
fn of_a_file_that_is_too_large_nothing_is_said_where_a_rule_asks() {
    let (long, large) = (tree((1 << 20) + 1), tree((64 << 20) + 1));
    let why = undecided("violation x(L) :- line(line: L).", &long).expect("too large");
    assert!(
        why.contains("A/g, which has more than 1048576 bytes"),
        "{why}"
    );
    let of_others = "violation x(L) :- line(path: P, line: L), P !~ \"^(A/g|f)$\".";
    assert_eq!(undecided(of_others, &long), None);
    let why = undecided("violation x(H) :- content(path: \"f\", hash: H).", &large);
    let why = why.expect("too large");
    assert!(why.contains("more than 67108864 bytes"), "{why}");
    let of_others = "violation x(H) :- content(path: \"other\", hash: H).";
    assert_eq!(undecided(of_others, &large), None);
    assert_eq!(
        undecided("violation x(P) :- entry(path: P).", &tree(1 << 40)),
        None
    );
    // Who keeps everything leaves out what is in it.
    let told = of_tree(&everything(), &large);
    assert_eq!((of(&told.facts, "entry").len(), told.untold.len()), (6, 0));
    assert_eq!(of(&told.facts, "content").len(), 0);
}

#[test]
fn what_one_specification_cannot_say_keeps_no_other_from_what_it_says() {
    let specification = |name: &str, text: &str| Specification {
        name: name.into(),
        text: text.into(),
    };
    let of_entries = "violation x(P) :- entry(path: P), P = \"f\".";
    let too_large = "violation y(X) :- entry(size: S), S > 0, X = S + 9223372036854775807.";
    for (second, tree) in [
        (too_large, tree(12)),
        ("violation y(L) :- line(line: L).", tree(1 << 30)),
    ] {
        let specifications = [
            specification("a", of_entries),
            specification("b", second),
            specification("c", of_entries),
        ];
        let mut rules = Rules::of(&specifications).unwrap_or_else(|problem| panic!("{problem}"));
        for _ in 0..2 {
            let told = of_tree(&rules, &tree);
            let said = rules.examine(told);
            let names: Vec<_> = said.broken.iter().filter_map(Finding::rule_name).collect();
            assert_eq!(names, ["a: x", "c: x"], "{second}");
            assert!(
                said.undecided.is_some() && said.endless.is_none(),
                "{said:?}"
            );
            rules.begin_state();
            assert!(rules.facts().is_empty());
        }
    }
}

#[test]
fn of_what_could_not_be_read_nothing_is_told_under_any_name() {
    let mut tree = tree(12);
    let error = |path: &str, doing| WalkError {
        path: path.into(),
        doing,
        errno: libc::EIO,
        is_ours: false,
    };
    tree.errors = vec![
        error("A/g", "read"),
        error("l", "readlink"),
        error("A", "list"),
    ];
    if let Some(inode) = tree.inodes.get_mut(&3) {
        inode.kind = InodeKind::File(Content::default());
    }
    if let Some(inode) = tree.inodes.get_mut(&4) {
        inode.kind = InodeKind::Symlink(String::new());
    }
    let told = of_tree(&everything(), &tree).facts;
    assert_eq!(
        (of(&told, "line").len(), of(&told, "content").len()),
        (0, 0)
    );
    let entries = of(&told, "entry");
    assert_eq!(entries.len(), 5, "{entries:?}");
    assert!(
        entries.iter().all(|row| !row.contains("symlink")),
        "{entries:?}"
    );
    assert!(entries.contains(&r#""" "f" "file" 12 """#.to_owned()));
    assert_eq!(of(&told, "attributes").len(), 6);
    assert_eq!(of(&told, "unreadable").len(), 3);
}

/// Of a tree with errors, the rules that are violated, and whether something is not certain.
fn violated(text: &str, tree: &Tree) -> (Vec<String>, bool) {
    let mut rules = rules(text);
    let facts = of_tree(&rules, tree);
    let said = rules.examine(facts);
    let said = rules.doubt(said, tree);
    let names = said.broken.iter().filter_map(Finding::rule_name);
    (names.map(str::to_owned).collect(), said.undecided.is_some())
}

#[test]
fn what_is_absent_is_no_violation_where_not_everything_was_shown() {
    let whole = Tree {
        errors: Vec::new(),
        ..tree(12)
    };
    for (text, is_certain) in [
        (
            "violation x(P) :- entry(path: P), !entry(path: \"A/h\").",
            false,
        ),
        (
            "violation x(P) :- entry(path: P), !xattr(path: P, name: \"user.z\").",
            false,
        ),
        (
            "there(P) :- entry(path: P). violation x(N) :- node(node: N), !there(\"A/h\").",
            false,
        ),
        ("violation x(count(P)) :- entry(path: P).", false),
        (
            "gone(P) :- entry(path: P), !line(path: P, line: \"h\"). violation x(P) :- gone(P).",
            false,
        ),
        ("violation x(P) :- entry(path: P, size: 12).", true),
        (
            "violation x(P) :- entry(path: P), !crashed(event: _).",
            true,
        ),
        (
            "unseen(N) :- unreadable(node: N, path: \"B\"). \
          violation x(N) :- node(node: N), !entry(path: \"A/h\"), !unseen(N).",
            true,
        ),
    ] {
        assert_eq!(
            violated(text, &whole),
            (vec!["s: x".into()], false),
            "{text}"
        );
        let broken = if is_certain {
            vec!["s: x".into()]
        } else {
            Vec::new()
        };
        assert_eq!(violated(text, &tree(12)), (broken, !is_certain), "{text}");
    }
    // The root is called so everywhere.
    let nothing = Tree {
        errors: vec![WalkError {
            path: String::new(),
            doing: "open",
            errno: libc::ENOMEM,
            is_ours: false,
        }],
        ..Tree::default()
    };
    let told = of_tree(&everything(), &nothing).facts;
    assert!(of(&told, "unreadable")[0].starts_with(r#""" "." "open" "#));
    let lost = "violation x(N) :- node(node: N), !entry(path: \"a\").";
    assert_eq!(violated(lost, &nothing), (Vec::new(), true));
}

#[test]
fn facts_are_kept_with_the_name_of_their_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("facts.sqlite");
    assert_eq!(state_of_facts(&path).expect("no file"), None);
    let facts = vec![("node".to_owned(), vec![Value::from("ext4")])];
    keep_facts(&path, "prefix@9", facts).expect("kept");
    let kept = state_of_facts(&path).expect("a file");
    assert_eq!(kept.as_deref(), Some("prefix@9"));
    // Relations of runs with faults may be others: these are not.
    let known = specification::facts(About::FileSystem);
    let fill = |database: &mut Database| database.set_note("prefix@8");
    for (version, state) in [(1, Some("prefix@8")), (9, None)] {
        Database::create(&path, &known, version, fill).expect("made");
        let kept = state_of_facts(&path).ok().flatten();
        assert_eq!(kept.as_deref(), state, "{version}");
    }
    std::fs::write(&path, "another").expect("written");
    state_of_facts(&path).expect_err("another file");
}

/// What stays in the database from one state to the next is what a new one would have.
#[test]
fn each_state_has_its_own_facts_whichever_was_before_it() {
    let text = "violation ops(count(E)) :- file_op(event: E). violation lines(count(N)) :- line(number: N). \
                violation lost(count(P)) :- lost_write(place: P). violation begun(P) :- in_flight(path: P).";
    let workload = workload("creat a; write a 0 4K; fsync a");
    let done = Done::of(
        "ext4",
        &workload,
        (&recorded(&workload, None), Disk::Honest),
    );
    let mut one = rules(text);
    let mut all = Vec::new();
    for (operations, under_way) in [(3, false), (1, true), (1, true), (0, false), (2, true)] {
        for tree in [tree(12), Tree::default()] {
            let mut state = state(operations, under_way, Relaxation::Flushed);
            let lost = LostBytes {
                place: 1,
                offset: 0,
                length: 512,
            };
            state.lost = vec![lost; operations.min(1) as usize];
            let facts = of_crash(&one, &done, (&state, &[]), &tree);
            let said = one.examine(facts.clone());
            assert_eq!(said, rules(text).examine(facts));
            all.push(said.broken.len());
        }
    }
    assert_eq!(all, [3, 2, 4, 3, 4, 3, 1, 0, 4, 3]);
}

#[test]
fn several_violations_of_a_rule_are_one_finding_with_what_they_follow_from() {
    let mut rules = rules(
        "violation named(P) :- entry(path: P). violation x(P) :- xattr(path: P), P = \"no\".",
    );
    let facts = of_tree(&rules, &tree(12));
    let said = rules.examine(facts);
    let [finding] = &said.broken[..] else {
        panic!("{said:?}");
    };
    assert_eq!(finding.rule_name(), Some("s: named"));
    let told = r#"s: named("."), named("A"), named("A/A"), and 3 more"#;
    assert_eq!(finding.what, told);
    let rule = finding.rule.as_ref().expect("one");
    assert_eq!(rule.derivation.matches("by violation named(P)").count(), 3);
    let unlooked: Vec<_> = said.unlooked.iter().map(Unlooked::words).collect();
    let words = "s: x never had a fact to look at: there is no xattr(path: \"no\")";
    assert_eq!(unlooked, [words]);
    assert_eq!(rules.unlooked().len(), 2);
}

#[test]
fn what_programs_and_clusters_have_is_not_known_of_a_file_system() {
    for relation in [
        "lost_op(event: X)",
        "sent(event: X)",
        "printed(X, _)",
        "found(words: X)",
    ] {
        let specification = Specification {
            name: "s".into(),
            text: format!("violation x(X) :-\n  {relation}."),
        };
        let problem = Rules::of(&[specification]).err().expect("refused");
        let said = problem.to_string();
        let name = relation.split('(').next().expect("a name");
        let why = format!(
            "s.dl:2:3: in the rule of x: nothing is known of {name} of a crash state of a file system"
        );
        assert!(said.starts_with(&why), "{said}");
    }
}
