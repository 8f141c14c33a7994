//! What is found, which broken states are one finding, and what is told of it.

use std::collections::HashSet;
use std::sync::Arc;

use node_sweep::{
    CheckCommand, CrashState, DiskState, Finding, Findings, Fingerprint, Judge, Level, NodeStory,
    Result, Rule, Subject, Verdict, make_again,
};
use pace_rules::nodes::{LINUX, MODELS, Spaces, Split};
use trace::{Action, Event, FileId, FileOp};
use trace_store::Trace;

use crate::recording::{Recording, TMP, name};
use crate::support::{
    ALL_THERE, ALL_THERE_SILENT, Everything, Look, SAVED, missing, requests, saved, saves, spaces,
    swept, swept_by,
};

#[test]
fn a_file_that_is_renamed_and_not_synced_is_lost_and_the_story_says_what_would_help() {
    let (swept, findings) = swept(&saved(true, false), "posix", SAVED, 2);
    assert_eq!((swept.open(), swept.impossible), (0, 0));
    let [finding, ..] = &*findings else {
        panic!("nothing was found")
    };
    assert_eq!(finding.complaint.words, ["what was saved is lost"]);
    let lost = &finding.nodes[0].lost;
    assert_eq!(
        lost.iter()
            .map(|lost| (&*lost.call, &*lost.words))
            .collect::<Vec<_>>(),
        [("rename", "rename tmp to file")]
    );
    assert_eq!(lost[0].stack.as_deref(), Some("0000000000000abc"));
    assert_eq!(
        finding.acknowledged.as_ref().map(|line| &*line.line),
        Some("saved")
    );
    let prevented: Vec<_> = finding
        .prevented_by
        .iter()
        .map(|sync| (&*sync.path, &*sync.before))
        .collect();
    assert_eq!(prevented, [("{dir}", "the line `saved`")]);
    assert_eq!(finding.models.len(), 4);
}

#[test]
fn with_all_syncs_nothing_is_found_on_any_model() {
    for model in MODELS {
        let (swept, findings) = swept(&saved(true, true), model.name, SAVED, 2);
        assert_eq!((findings, swept.open()), (Vec::new(), 0), "{}", model.name);
        assert!(swept.checked > 1);
    }
}

/// Everything that is in a state of some model, and whether it is so once only.
fn keys(trace: &Trace, all: &Spaces) -> HashSet<Fingerprint> {
    let members = all.members().iter();
    let of_member = |member: &pace_rules::nodes::Member| {
        let mut states = node_sweep::States::new(&trace.run, &member.space, trace);
        let keys = (0..member.space.len())
            .filter_map(|index| Some(states.make(&member.space.state(index)).ok()?.key));
        keys.collect::<Vec<_>>()
    };
    members.flat_map(of_member).collect()
}

#[test]
fn what_linux_may_do_is_what_one_of_its_file_systems_does_and_nothing_else() {
    let trace = saved(false, false);
    let mut of_each = HashSet::new();
    for model in MODELS.iter().filter(|model| model.name != "posix") {
        of_each.extend(keys(&trace, &spaces(&trace, model.name)));
    }
    let posix = keys(&trace, &spaces(&trace, "posix"));
    assert!(!posix.is_subset(&of_each), "posix is none of them");
    let looks = Arc::default();
    let all = spaces(&trace, LINUX);
    let swept = swept_by(&trace, &all, vec![Box::new(Everything(Arc::clone(&looks)))]);
    let seen: HashSet<_> = swept.broken.keys().copied().collect();
    assert_eq!(seen, of_each);
    // Nobody looks at one twice, whichever have it.
    assert_eq!(swept.checked, of_each.len() as u64);
    assert_eq!(swept.states, all.len());
    for (place, member) in all.members().iter().enumerate() {
        let own = keys(&trace, &spaces(&trace, member.model.name));
        for (key, broken) in &swept.broken {
            let is_said = broken.models.contains(place);
            assert_eq!(is_said, own.contains(key), "{}", member.model.name);
        }
    }
}

#[test]
fn a_finding_of_linux_says_on_which_file_systems_it_is_possible() {
    const OLD: FileId = FileId(2);
    let mut recording = Recording::default();
    recording.create("file", OLD).append(OLD, 0, b"all of it\n");
    recording.fsync(OLD).fsync(FileId::ROOT).mark("saved");
    recording.create("tmp", TMP).append(TMP, 0, b"all of it\n");
    recording.rename_over("tmp", "file", TMP, Some(OLD));
    let trace = recording.fsync(FileId::ROOT).trace();
    let (_, findings) = swept(&trace, LINUX, SAVED, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    assert_eq!(finding.model, LINUX);
    for model in MODELS.iter().filter(|model| model.name != "posix") {
        let is_found = !swept(&trace, model.name, SAVED, 2).1.is_empty();
        assert_eq!(finding.models[model.name], is_found, "{}", model.name);
    }
    assert!(finding.models["xfs"] && finding.models["posix"]);
}

#[test]
fn what_was_never_synced_is_lost_on_every_model() {
    let mut recording = Recording::default();
    let trace = recording
        .create("file", TMP)
        .append(TMP, 0, b"all of it\n")
        .mark("saved")
        .trace();
    for model in MODELS {
        let (_, findings) = swept(&trace, model.name, SAVED, 2);
        assert!(!findings.is_empty(), "{}", model.name);
        assert!(
            findings
                .iter()
                .all(|finding| !finding.prevented_by.is_empty()),
            "{findings:#?}"
        );
    }
}

/// Looks whether a node has the second half of a file without the first.
struct Halves;

impl Subject for Halves {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        for (node, disk) in ["one", "other"].into_iter().zip(&state.disks) {
            let DiskState::Tree(tree) = disk else {
                panic!("it has no disk")
            };
            let place = tempfile::tempdir().expect("a directory");
            let directory = place.path().join("directory");
            tree.write_to(&directory).expect("written");
            let has = std::fs::read(directory.join("f")).unwrap_or_default();
            if has.ends_with(b"second") && !has.starts_with(b"first") {
                return Ok(Verdict::Broken(
                    vec![format!("node {node} has a hole")].into(),
                ));
            }
        }
        Ok(Verdict::Ok)
    }
}

#[test]
fn it_is_one_finding_whichever_node_it_is_and_whatever_the_others_do() {
    let mut recording = Recording::default();
    for node in ["one", "other"] {
        recording
            .create("f", TMP)
            .append(TMP, 0, b"first ")
            .append(TMP, 6, b"second")
            .node(node);
    }
    let trace = recording.trace;
    let all = spaces(&trace, "posix");
    let swept = swept_by(&trace, &all, vec![Box::new(Halves)]);
    let judged = Findings::new(&trace, &all, "posix");
    let findings = judged.explain(judged.of(&swept), &requests("posix"), true);
    let short = |finding: &Finding| {
        let missing = |node: &NodeStory| {
            node.lost
                .iter()
                .chain(&node.midway)
                .map(|lost| lost.words.clone())
                .collect()
        };
        (
            finding.complaint.words.clone(),
            finding.nodes.iter().map(missing).collect::<Vec<Vec<_>>>(),
        )
    };
    let [finding] = &*findings else {
        panic!("{:#?}", findings.iter().map(short).collect::<Vec<_>>())
    };
    let (words, missing) = short(finding);
    assert!(
        words[0].ends_with("has a hole") && missing.concat() == ["append f, 6 bytes at 0"],
        "{words:?} {missing:?}"
    );
    assert_eq!(
        swept
            .broken
            .values()
            .map(|broken| broken.states)
            .sum::<u64>(),
        finding.states
    );
}

#[test]
fn the_state_of_a_finding_is_made_again_and_no_other() {
    for model in ["posix", "xfs"] {
        let trace = saved(false, false);
        let (_, findings) = swept(&trace, model, SAVED, 1);
        assert!(!findings.is_empty(), "{model}");
        // Whatever else was asked for.
        for level in [Level::Syscalls, Level::Both] {
            let asked = node_sweep::Request {
                level,
                model: model.into(),
                explore: Rule::BruteForce,
                lost: 1,
                split: Split::default(),
                sector: pace_rules::Sector::default(),
                states: "every-write".parse().expect("states"),
                sample: None,
                seed: 0,
                starts: vec![node_sweep::Start::Together],
                judge: Judge::Program {
                    check: CheckCommand::Once("true".into()),
                    limit_s: 600,
                    allow_no_acks: true,
                },
                specifications: Vec::new(),
            };
            for finding in &findings {
                let made = make_again(&trace, &asked, finding.address()).expect("made");
                assert_eq!(made.key, finding.key, "{model} {}", finding.number);
            }
            let mut other = findings[0].clone();
            other.state = u64::MAX;
            assert!(make_again(&trace, &asked, other.address()).is_err());
        }
    }
}

#[test]
fn files_with_names_that_were_drawn_are_one_finding_and_it_says_how_many_there_are() {
    let names = ["m.TVsH5XAS", "m.CNEof5r6", "m.cOuqfcmi", "m.wUPAU772"];
    let (swept, findings) = swept(&saves(&names), "posix", ALL_THERE, 2);
    assert_eq!(missing(&findings), [["append m.TVsH5XAS, 10 bytes at 0"]]);
    assert_eq!(
        findings[0]
            .patterns
            .iter()
            .map(|(name, files)| (name.as_str(), *files))
            .collect::<Vec<_>>(),
        [("m.*", 4)]
    );
    assert_eq!(
        findings[0].states,
        swept
            .broken
            .values()
            .map(|broken| broken.states)
            .sum::<u64>()
    );
    assert_eq!(
        findings[0].states,
        findings[0].relaxations.values().sum::<u64>()
    );
}

#[test]
fn files_with_names_that_mean_something_are_a_finding_each() {
    let (_, found) = swept(
        &saves(&["customers.db", "purchases.db"]),
        "posix",
        ALL_THERE,
        2,
    );
    assert_eq!(missing(&found).len(), 2, "{found:#?}");
    // Also where the check does not name them, and where the names are those of files in two steps.
    let (_, found) = swept(
        &saves(&["customers.db", "purchases.db"]),
        "posix",
        ALL_THERE_SILENT,
        2,
    );
    assert_eq!(missing(&found).len(), 2, "{found:#?}");
    let mut recording = Recording::default();
    for (number, (tmp, name)) in (1..).zip([
        ("t.TVsH5XAS", "config"),
        ("t.CNEof5r6", "state"),
        ("t.cOuqfcmi", "config"),
    ]) {
        recording
            .create(tmp, FileId(number))
            .append(FileId(number), 0, b"all of it\n");
        recording
            .rename(tmp, name, FileId(number))
            .fsync(FileId::ROOT)
            .mark(name);
    }
    let (_, found) = swept(&recording.trace(), "posix", ALL_THERE_SILENT, 2);
    assert_eq!(missing(&found).len(), 2, "{found:#?}");
}

#[test]
fn another_call_or_another_place_in_the_program_is_another_finding() {
    let findings = |change: &dyn Fn(&mut Event)| {
        let mut trace = saves(&["m.TVsH5XAS", "m.CNEof5r6"]);
        let events = &mut trace.run.nodes[0].events;
        let last = events
            .iter_mut()
            .rfind(|event| matches!(event.action, Action::File(FileOp::Write { .. })));
        change(last.expect("one"));
        swept(&trace, "posix", ALL_THERE_SILENT, 2).1.len()
    };
    assert_eq!(findings(&|_| {}), 1);
    assert_eq!(findings(&|event| event.stack = 0xdef), 2);
    assert_eq!(findings(&|event| event.call = "pwrite64".into()), 2);
}

#[test]
fn what_is_broken_until_it_is_mended_is_one_finding_and_the_next_time_is_another() {
    let mut recording = Recording::default();
    // In order, there are two times when `busy` is there.
    for (number, (from, to)) in (1..).zip([("one", "busy"), ("two", "busy")]) {
        let file = FileId(number);
        recording.create(from, file).fsync(FileId::ROOT);
        recording
            .rename(from, to, file)
            .fsync(FileId::ROOT)
            .mark("there");
        recording
            .append(file, 0, b"first")
            .append(file, 5, b"second")
            .fsync(file)
            .mark("still");
        recording
            .file(
                "unlink",
                FileOp::Unlink {
                    parent: FileId::ROOT,
                    name: name(to),
                    file,
                },
            )
            .fsync(FileId::ROOT);
    }
    let check: Look = |directory, _| {
        let is_there = directory.join("busy").exists();
        is_there.then(|| "it is there".into())
    };
    let (swept, findings) = swept(&recording.trace(), "posix", check, 2);
    assert!(swept.broken.len() > 6, "{swept:?}");
    let events: Vec<_> = findings
        .iter()
        .map(|finding| finding.nodes[0].events)
        .collect();
    assert_eq!(events, [5, 16], "{findings:#?}");
    assert_eq!(
        findings.iter().map(|finding| finding.states).sum::<u64>(),
        swept
            .broken
            .values()
            .map(|broken| broken.states)
            .sum::<u64>()
    );
}
