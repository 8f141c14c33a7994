//! Sweeps of small runs that are written by hand, of which the answers are known.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use campaign::{Interrupt, Outcome, Shard};
use node_sweep::{
    Check, CheckCommand, Concluded, Control, CrashState, DiskState, Finding, Findings, Judge,
    Level, NodeStory, Plan, Program, Requested, Result, Results, Rule, Subject, Summary, Swept,
    Verdict, Verdicts, Watch, make_again, sweep,
};
use pace_rules::nodes::{
    Explore, LINUX, MODELS, Model, Relaxations, Request, Space, Spaces, Split,
};
use trace::{
    Action, ChangeOfName, Event, FileId, FileKind, FileOp, InitialFile, Name, Node, SyncScope,
};
use trace_store::Trace;

/// A program that is written down while it runs.
#[derive(Default)]
struct Recording {
    trace: Trace,
    events: Vec<Event>,
}

const TMP: FileId = FileId(1);

fn name(name: &str) -> Name {
    Arc::from(name.as_bytes())
}

impl Recording {
    fn event(&mut self, call: &str, action: Action) -> &mut Self {
        let at = 10 * self.events.len() as u64;
        let event = Event {
            start_ns: at + 1,
            end_ns: at + 5,
            process: 7,
            thread: 7,
            call: call.into(),
            stack: 0xabc,
            action,
        };
        self.events.push(event);
        self
    }

    fn file(&mut self, call: &str, op: FileOp) -> &mut Self {
        self.event(call, Action::File(op))
    }

    fn create(&mut self, at: &str, file: FileId) -> &mut Self {
        let (parent, kind) = (FileId::ROOT, FileKind::Regular);
        self.file(
            "openat",
            FileOp::Create {
                parent,
                name: name(at),
                file,
                kind,
                mode: 0o644,
            },
        )
    }

    fn create_directory(&mut self, at: &str, file: FileId) -> &mut Self {
        let (parent, kind) = (FileId::ROOT, FileKind::Directory);
        self.file(
            "mkdir",
            FileOp::Create {
                parent,
                name: name(at),
                file,
                kind,
                mode: 0o755,
            },
        )
    }

    fn append(&mut self, file: FileId, offset: u64, bytes: &[u8]) -> &mut Self {
        let data = self.trace.add(bytes);
        self.file(
            "write",
            FileOp::Write {
                file,
                offset,
                data,
                size_before: offset,
            },
        )
    }

    fn fsync(&mut self, file: FileId) -> &mut Self {
        self.file(
            "fsync",
            FileOp::Sync {
                file,
                scope: SyncScope::File,
            },
        )
    }

    fn link(&mut self, parent: FileId, at: &str, file: FileId) -> &mut Self {
        let name = name(at);
        self.file("link", FileOp::Link { parent, name, file })
    }

    fn unlink(&mut self, parent: FileId, at: &str, file: FileId) -> &mut Self {
        let name = name(at);
        self.file("unlink", FileOp::Unlink { parent, name, file })
    }

    fn rename(&mut self, from: &str, to: &str, file: FileId) -> &mut Self {
        self.rename_over(from, to, file, None)
    }

    fn rename_over(
        &mut self,
        from: &str,
        to: &str,
        file: FileId,
        replaced: Option<FileId>,
    ) -> &mut Self {
        let names = ChangeOfName {
            from: (FileId::ROOT, name(from)),
            to: (FileId::ROOT, name(to)),
        };
        self.file(
            "rename",
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange: false,
            },
        )
    }

    fn mark(&mut self, line: &str) -> &mut Self {
        let line = self.trace.add(line.as_bytes());
        self.event("write", Action::Mark { line })
    }

    /// What was written down is a node of this name.
    fn node(&mut self, name_of: &str) -> &mut Self {
        let events = std::mem::take(&mut self.events);
        self.trace.run.nodes.push(Node {
            name: name_of.into(),
            initial: vec![InitialFile::empty_root()],
            events,
        });
        self
    }

    fn trace(&mut self) -> Trace {
        self.node("program");
        std::mem::take(&mut self.trace)
    }
}

/// For each model of a name.
fn requests(name: &str) -> Vec<Request> {
    let of_model = |model| Request {
        model,
        explore: Explore::BruteForce,
        lost: 1,
        split: Split::default(),
        sector: pace_rules::Sector::default(),
        relaxations: Relaxations::ALL,
    };
    Model::all_named(name).into_iter().map(of_model).collect()
}

fn spaces(trace: &Trace, name: &str) -> Spaces {
    Spaces::new(&trace.run, &requests(name)).expect("spaces")
}

fn swept(trace: &Trace, model: &str, check: &str, jobs: usize) -> (Swept, Vec<Finding>) {
    let requests = requests(model);
    let all = spaces(trace, model);
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let check = Check {
        command: CheckCommand::Once(check.into()),
        limit: Duration::from_secs(600),
        environment: Vec::new(),
        working_directory: None,
        interrupt: Interrupt::default(),
    };
    let subjects = (0..jobs).map(|number| {
        let place = directory.path().join(number.to_string());
        std::fs::create_dir(&place).expect("made");
        Box::new(Program::new(place, None, &check)) as Box<dyn Subject>
    });
    let subjects = subjects.collect();
    let swept = sweep(
        trace,
        &all,
        0..all.len(),
        subjects,
        &Plan::default(),
        &Interrupt::default(),
        &mut (),
    )
    .expect("swept");
    assert_eq!(
        directory.path().join("0").read_dir().expect("read").count(),
        0,
        "states are left"
    );
    let judged = Findings::new(trace, &all, model);
    let findings = judged.explain(judged.of(&swept), &requests, true);
    (swept, findings)
}

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

/// What was said to be saved is in the file, whole.
const SAVED: &str = r#"if grep -q saved {acks} && ! grep -qx "all of it" {dir}/file; then echo "broken what was saved is lost"; else echo ok; fi"#;

fn saved(syncs_file: bool, syncs_directory: bool) -> Trace {
    let mut recording = Recording::default();
    recording.create("tmp", TMP).append(TMP, 0, b"all of it\n");
    if syncs_file {
        recording.fsync(TMP);
    }
    recording.rename("tmp", "file", TMP);
    if syncs_directory {
        recording.fsync(FileId::ROOT);
    }
    recording.mark("saved").trace()
}

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
    assert_eq!(prevented, [("its directory", "the line `saved`")]);
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
fn keys(trace: &Trace, all: &Spaces) -> HashSet<node_sweep::Fingerprint> {
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
    let swept = sweep(
        &trace,
        &all,
        0..all.len(),
        vec![Box::new(Everything(Arc::clone(&looks)))],
        &Plan::default(),
        &Interrupt::default(),
        &mut (),
    )
    .expect("swept");
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

/// Replaces a file so many times, and says so each time. The new one is synced before or after it
/// gets its name, and then the directory.
fn replaced(times: u32, syncs_before: bool, syncs_after: bool) -> Trace {
    let mut recording = Recording::default();
    for time in 0..times {
        let (new, old) = (FileId(time + 1), (time > 0).then_some(FileId(time)));
        recording.create("tmp", new).append(new, 0, b"all of it\n");
        if syncs_before {
            recording.fsync(new);
        }
        recording.rename_over("tmp", "file", new, old);
        if syncs_after {
            recording.fsync(new);
        }
        recording.fsync(FileId::ROOT).mark("saved");
    }
    recording.trace()
}

/// Where the file is damaged between its rename and its sync, a sync before the line leaves that
/// open in the next round, though not in the one that is shown.
#[test]
fn a_fix_is_one_that_leaves_no_state_of_the_finding_at_any_time() {
    let trace = replaced(3, false, false);
    let (_, findings) = swept(&trace, "xfs", SAVED, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let prevented: Vec<_> = finding.prevented_by.iter().collect();
    let [sync] = &*prevented else {
        panic!("{prevented:?}")
    };
    assert_eq!(
        (&*sync.path, &*sync.before, sync.times),
        ("tmp", "rename tmp to file", 3)
    );
    // Done as it says, and done as it does not.
    assert_eq!(swept(&replaced(3, true, false), "xfs", SAVED, 2).1, []);
    assert_ne!(swept(&replaced(3, false, true), "xfs", SAVED, 2).1, []);
}

/// Where a sync of a message is made while it is moved.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Synced {
    Never,
    AfterLink,
    AfterUnlink,
    BeforeLine,
}

/// Moves two messages from one directory to another one, with link and unlink; only the first
/// directory is synced.
fn moved(synced: Synced) -> Trace {
    const NEW: FileId = FileId(11);
    const CUR: FileId = FileId(12);
    let messages = [(FileId(13), "m0"), (FileId(14), "m1")];
    let mut recording = Recording::default();
    recording
        .create_directory("new", NEW)
        .create_directory("cur", CUR);
    for (message, at) in messages {
        let (parent, name, kind) = (NEW, name(at), FileKind::Regular);
        let create = FileOp::Create {
            parent,
            name,
            file: message,
            kind,
            mode: 0o644,
        };
        recording.file("openat", create).append(message, 0, b"m");
        recording.fsync(message);
    }
    recording.fsync(NEW).fsync(CUR).fsync(FileId::ROOT);
    recording.file("sync", FileOp::SyncAll).mark("ready");
    for (message, at) in messages {
        let sync_at = |place, recording: &mut Recording| {
            if place == synced {
                recording.fsync(message);
            }
        };
        recording.link(CUR, at, message);
        sync_at(Synced::AfterLink, &mut recording);
        recording.unlink(NEW, at, message);
        sync_at(Synced::AfterUnlink, &mut recording);
        recording.fsync(NEW);
        sync_at(Synced::BeforeLine, &mut recording);
        recording.mark(&format!("moved {at}"));
    }
    recording.trace()
}

/// Whether each message has a name at which it is looked for.
const MOVED: &str = r#"for m in m0 m1; do if grep -q ready {acks} && ! test -e {dir}/new/$m && ! test -e {dir}/cur/$m; then echo "broken a message is gone"; exit; fi; done; echo ok"#;

fn advised(finding: &Finding) -> Vec<(&str, &str, Option<&str>, usize)> {
    let calls = finding.prevented_by.iter();
    calls
        .map(|sync| {
            (
                &*sync.path,
                &*sync.before,
                sync.after.as_deref(),
                sync.times,
            )
        })
        .collect()
}

/// With a sync before the line no state is left that was looked at. One in which the message is gone
/// is, from before the sync, when less was acknowledged. A sync right after the removal is early
/// enough: the name is on the disk, so that the log of its directory does not have it, and nothing but
/// the sync of that directory takes it away.
#[test]
fn a_sync_is_advised_where_it_helps_and_the_file_has_the_name() {
    let (_, findings) = swept(&moved(Synced::Never), "btrfs", MOVED, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let expected = [("new/m0", "unlink new/m0", None, 2)];
    assert_eq!(advised(finding), expected);
    for (synced, is_left) in [
        (Synced::AfterLink, false),
        (Synced::AfterUnlink, false),
        (Synced::BeforeLine, true),
    ] {
        let (_, findings) = swept(&moved(synced), "btrfs", MOVED, 2);
        assert_eq!(!findings.is_empty(), is_left, "{synced:?}");
    }
}

/// Gives a file a name twice, and notes that in an index, with another call each time.
fn indexed(is_synced: bool) -> Trace {
    const INDEX: FileId = FileId(2);
    let mut recording = Recording::default();
    recording.create("index", INDEX).create("file", TMP);
    recording.fsync(INDEX).fsync(TMP).fsync(FileId::ROOT);
    for (number, call) in ["write", "writev"].into_iter().enumerate() {
        recording.link(FileId::ROOT, &format!("link{number}"), TMP);
        if is_synced {
            recording.fsync(FileId::ROOT);
        }
        let (file, size_before) = (INDEX, 6 * number as u64);
        let data = recording.trace.add(format!("link{number}\n").as_bytes());
        let offset = size_before;
        let write = FileOp::Write {
            file,
            offset,
            data,
            size_before,
        };
        recording.file(call, write).fsync(INDEX).mark("indexed");
    }
    recording.trace()
}

/// What comes next is not the same each time: then what is lost says where the sync has to be.
#[test]
fn a_sync_that_comes_before_different_things_is_advised_right_after_what_is_lost() {
    let check = r#"for link in $(grep -xa "link[01]" {dir}/index); do test -e {dir}/$link || { echo "broken a link is gone"; exit; }; done; echo ok"#;
    let (_, findings) = swept(&indexed(false), "posix", check, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let after = "link file to link0";
    let next = "append index, 6 bytes at 0";
    let expected = [("its directory", next, Some(after), 2)];
    assert_eq!(advised(finding), expected);
    let line = "fsync of its directory right after link file to link0 (2";
    assert!(finding.text().contains(line), "{}", finding.text());
    assert_eq!(swept(&indexed(true), "posix", check, 2).1, []);
}

/// All calls of an interpreted program come from one place. Those for other files do not count.
#[test]
fn a_sync_is_advised_as_often_as_what_it_comes_before_is_done() {
    const DB: FileId = FileId(2);
    let compacted = |is_synced: bool| {
        let mut recording = Recording::default();
        let mirror = TMP;
        recording.create("db", DB).append(DB, 0, &[b'r'; 512]);
        recording.create("mirror", mirror).append(mirror, 0, b"old");
        recording.fsync(DB).fsync(mirror).fsync(FileId::ROOT);
        recording.mark("put").append(mirror, 3, b"moved");
        if is_synced {
            recording.fsync(mirror);
        }
        let (file, from, to) = (DB, 512, 0);
        recording.file("ftruncate", FileOp::Resize { file, from, to });
        recording.fsync(DB).fsync(mirror).mark("compacted").trace()
    };
    let check = r#"if grep -q put {acks} && ! grep -q moved {dir}/mirror && ! grep -q r {dir}/db; then echo "broken the record is gone"; else echo ok; fi"#;
    let (_, findings) = swept(&compacted(false), "posix", check, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let expected = [("mirror", "truncate db from 512 to 0 bytes", None, 1)];
    assert_eq!(advised(finding), expected);
    assert_eq!(finding.prevented_by[0].files, 1);
    assert_eq!(swept(&compacted(true), "posix", check, 2).1, []);
}

/// Two slots are written without a sync between, over and over: it has to be made after each first
/// one, and not after the second ones, which are written at the same place of the program.
#[test]
fn a_sync_is_advised_for_what_is_the_very_same_if_that_is_enough() {
    let slots = |is_synced: bool| {
        let mut recording = Recording::default();
        recording.create("slots", TMP).append(TMP, 0, &[b'a'; 8192]);
        recording.fsync(TMP).fsync(FileId::ROOT).mark("ready");
        for content in [b"b", b"c", b"d"] {
            for offset in [0, 4096] {
                let data = recording.trace.add(content);
                let (file, size_before) = (TMP, 8192);
                let write = FileOp::Write {
                    file,
                    offset,
                    data,
                    size_before,
                };
                recording.file("pwrite64", write);
                if is_synced && offset == 0 {
                    recording.fsync(TMP);
                }
            }
            recording.fsync(TMP).mark("written");
        }
        recording.trace()
    };
    let check = r#"case $(head -c 1 {dir}/slots)$(tail -c 4096 {dir}/slots | head -c 1) in ab|bc|cd) echo "broken the second slot is newer";; *) echo ok;; esac"#;
    let (_, findings) = swept(&slots(false), "ext4-writeback", check, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let expected = [("slots", "write slots, 1 byte at 4096", None, 3)];
    assert_eq!(advised(finding), expected);
    assert_eq!(swept(&slots(true), "ext4-writeback", check, 2).1, []);
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

#[test]
fn a_check_that_changes_its_mind_finds_nothing_and_that_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let check = format!(
        "echo >> {0}; if test $(wc -l < {0}) = 1; then echo broken once; else echo ok; fi",
        directory.path().join("n").display()
    );
    let (swept, findings) = swept(&saved(true, true), "posix", &check, 1);
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
    let (swept, findings) = swept(&saved(true, true), "posix", &check, 1);
    assert_eq!(swept.open(), 0);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    assert_eq!(
        (&finding.complaint.words[..], finding.complaint.tries),
        (&["at times".to_owned()][..], Some(3))
    );
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
    let swept = sweep(
        &trace,
        &all,
        0..all.len(),
        vec![Box::new(Halves)],
        &Plan::default(),
        &Interrupt::default(),
        &mut (),
    )
    .expect("swept");
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
    let (one_by_one, _) = swept(
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
    let together = sweep(
        &trace,
        &all,
        0..all.len(),
        subjects,
        &Plan::default(),
        &Interrupt::default(),
        &mut (),
    )
    .expect("swept");
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

/// Keeps what was found, and has enough after so many.
struct Keeps<'a> {
    verdicts: Verdicts,
    most: usize,
    interrupt: &'a Interrupt,
}

impl Watch for Keeps<'_> {
    fn judged(&mut self, _: u64, key: &node_sweep::Fingerprint, verdict: &Verdict) -> Result<()> {
        assert!(
            self.verdicts.insert(*key, verdict.clone()).is_none(),
            "it was looked at twice"
        );
        if self.verdicts.len() >= self.most {
            self.interrupt.request();
        }
        Ok(())
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
fn broken(swept: &Swept) -> HashMap<node_sweep::Fingerprint, (u64, u64)> {
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
fn same(
    trace: &Trace,
    space: &Space,
    key: &node_sweep::Fingerprint,
) -> Vec<((usize, usize, usize), u64)> {
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

/// Finds every state broken, and notes those that it was asked of again.
struct Everything(Arc<Mutex<HashSet<node_sweep::Fingerprint>>>);

impl Subject for Everything {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        let mut confirmed = self.0.lock().expect("nobody panics with it");
        if again {
            confirmed.insert(state.key);
        }
        Ok(Verdict::Broken(vec!["broken".to_owned()].into()))
    }
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
                    check: CheckCommand::Once(SAVED.into()),
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

/// Takes no verdict on a state that was looked at once only.
struct Confirmed(Arc<Mutex<HashSet<node_sweep::Fingerprint>>>, u64);

impl Watch for Confirmed {
    fn judged(&mut self, _: u64, key: &node_sweep::Fingerprint, _: &Verdict) -> Result<()> {
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

/// What was acknowledged is in a file of that name, whole.
const ALL_THERE: &str = r#"for file in $(cat {acks}); do if ! grep -qx "all of it" {dir}/$file; then echo "broken $file is lost"; exit; fi; done; echo ok"#;

/// Saves files of these names, and syncs nothing but the directory.
fn saves(names: &[&str]) -> Trace {
    let mut recording = Recording::default();
    for (number, name) in (1..).zip(names) {
        recording
            .create(name, FileId(number))
            .append(FileId(number), 0, b"all of it\n");
        recording.fsync(FileId::ROOT).mark(name);
    }
    recording.trace()
}

/// What is missing in each finding.
fn missing(findings: &[Finding]) -> Vec<Vec<&str>> {
    fn words(finding: &Finding) -> Vec<&str> {
        let missing = finding
            .nodes
            .iter()
            .flat_map(|node| node.lost.iter().chain(&node.midway));
        missing.map(|lost| lost.words.as_str()).collect()
    }
    findings.iter().map(words).collect()
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
    let silent = ALL_THERE.replace("broken $file", "broken something");
    let (_, found) = swept(
        &saves(&["customers.db", "purchases.db"]),
        "posix",
        &silent,
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
    let (_, found) = swept(&recording.trace(), "posix", &silent, 2);
    assert_eq!(missing(&found).len(), 2, "{found:#?}");
}

#[test]
fn another_call_or_another_place_in_the_program_is_another_finding() {
    let silent = ALL_THERE.replace("broken $file", "broken something");
    let findings = |change: &dyn Fn(&mut Event)| {
        let mut trace = saves(&["m.TVsH5XAS", "m.CNEof5r6"]);
        let events = &mut trace.run.nodes[0].events;
        let last = events
            .iter_mut()
            .rfind(|event| matches!(event.action, Action::File(FileOp::Write { .. })));
        change(last.expect("one"));
        swept(&trace, "posix", &silent, 2).1.len()
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
    let check = "if test -e {dir}/busy; then echo broken it is there; else echo ok; fi";
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
        let check = r#"for name in $(cat {acks}); do test -s {dir}/$name || { echo "broken $name is lost"; exit; }; done; echo ok"#;
        self.requested_with(check, shard)
    }

    fn requested_with(&self, check: &str, shard: Option<Shard>) -> Requested<'_> {
        let judge = Judge::Program {
            check: CheckCommand::Once(check.into()),
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
    let what = whole.requested_with(&check, None);
    let mut results = what.begin(&whole.path("results"), 1).expect("begun");
    let (concluded, _) = try_to_go_on(&what, &mut results, (None, None));
    let error = concluded.expect_err("it is no judge").to_string();
    assert!(
        error.contains("of 60 times it did not: broken x"),
        "{error}"
    );
}

/// Finds broken what lacks a file that nobody made.
const NEVER_MADE: &str = "if test -e {dir}/busy; then echo ok; else echo broken busy is lost; fi";

/// The findings among these states, where not all are asked for, or are said to be.
fn findings_among(
    trace: &Trace,
    all: &Spaces,
    indices: &[u64],
    is_sample: bool,
) -> (Swept, Vec<Finding>) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let check = Check {
        command: CheckCommand::Once(NEVER_MADE.into()),
        limit: Duration::from_secs(600),
        environment: Vec::new(),
        working_directory: None,
        interrupt: Interrupt::default(),
    };
    let subject = Program::new(directory.path().into(), None, &check);
    let plan = Plan {
        is_sample,
        ..Plan::default()
    };
    let interrupt = Interrupt::default();
    // It fails if anything is looked at twice.
    let mut keeps = Keeps {
        verdicts: Verdicts::new(),
        most: usize::MAX,
        interrupt: &interrupt,
    };
    let swept = sweep(
        trace,
        all,
        indices.iter().copied(),
        vec![Box::new(subject)],
        &plan,
        &interrupt,
        &mut keeps,
    )
    .expect("swept");
    let findings = Findings::new(trace, all, "posix").of(&swept);
    let findings = findings.into_iter().map(|(finding, _)| finding);
    (swept, findings.collect())
}

#[test]
fn of_a_sample_nothing_is_blamed_that_is_broken_without_it_as_well() {
    let names: Vec<_> = (0..8).map(|number| format!("noise{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let trace = saves(&names);
    // The models have states in common.
    for model in ["posix", LINUX] {
        let all = spaces(&trace, model);
        let is_lossy = |index: &u64| {
            let (_, state) = all.state(*index);
            state.nodes.iter().any(|node| !node.lost.is_empty())
        };
        let (at_once, lossy): (Vec<_>, Vec<_>) = (0..all.len())
            .filter(is_lossy)
            .partition(|index| all.relaxation(*index).is_at_once());
        let mut drawn: Vec<_> = lossy.into_iter().step_by(7).collect();
        assert!(drawn.len() > 5 && !at_once.is_empty(), "{drawn:?}");
        let (swept, found) = findings_among(&trace, &all, &drawn, false);
        assert_eq!(swept.besides, 0);
        assert!(
            found.len() > 1 && missing(&found).concat().len() > 1,
            "{found:#?}"
        );
        drawn.extend(at_once);
        let (swept, found) = findings_among(&trace, &all, &drawn, true);
        assert_eq!(missing(&found).concat(), [""; 0], "{found:#?}");
        assert!(swept.besides > 0 && swept.states == drawn.len() as u64 + swept.besides);
    }
}

#[test]
fn what_was_made_and_not_looked_at_is_looked_at_before_anything_is_blamed() {
    let names: Vec<_> = (0..8).map(|number| format!("noise{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let trace = saves(&names);
    let all = spaces(&trace, "posix");
    let is_lossy = |index: &u64| {
        let (_, state) = all.state(*index);
        state.nodes.iter().any(|node| !node.lost.is_empty())
    };
    // Those in order come last: there is no time for them.
    let (lossy, others): (Vec<_>, Vec<_>) = (0..all.len()).partition(is_lossy);
    let drawn: Vec<_> = lossy.into_iter().step_by(9).chain(others).collect();
    let plan = Plan {
        deadline: Some(Instant::now() + Duration::from_millis(300)),
        ..Plan::default()
    };
    let subject: Box<dyn Subject> = Box::new(Sluggish(10));
    let interrupt = Interrupt::default();
    // It fails if anything is looked at twice.
    let mut keeps = Keeps {
        verdicts: Verdicts::new(),
        most: usize::MAX,
        interrupt: &interrupt,
    };
    let swept = sweep(
        &trace,
        &all,
        drawn.into_iter(),
        vec![subject],
        &plan,
        &interrupt,
        &mut keeps,
    )
    .expect("swept");
    assert!(swept.is_over && !swept.broken.is_empty());
    let findings = Findings::new(&trace, &all, "posix").of(&swept);
    let found: Vec<_> = findings.into_iter().map(|(finding, _)| finding).collect();
    assert_eq!(missing(&found).concat(), [""; 0], "{found:#?}");
}

/// Takes so many milliseconds, and looks at many states with the same disks at once. All is broken.
struct Sluggish(u64);

impl Subject for Sluggish {
    fn judge(&mut self, _: &CrashState, again: bool) -> Result<Verdict> {
        if !again {
            std::thread::sleep(Duration::from_millis(self.0));
        }
        Ok(Verdict::Broken(vec!["busy is lost".to_owned()].into()))
    }

    fn is_slow(&self) -> bool {
        true
    }
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
        let until = (Some(Duration::from_millis(60)), None);
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
    let what = sweep.requested_with(&check, None);
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
