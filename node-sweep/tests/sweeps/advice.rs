//! Which sync a finding advises, and where.

use node_sweep::{CrashState, DiskState, Finding, Findings, Result, Subject, Verdict};
use trace::{FileId, FileKind, FileOp};
use trace_store::Trace;

use crate::recording::{Recording, TMP, name};
use crate::support::{SAVED, requests, spaces, swept, swept_by, swept_by_shell};

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
    let (_, findings) = swept_by_shell(&moved(Synced::Never), "btrfs", MOVED, 2);
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
        let (_, findings) = swept_by_shell(&moved(synced), "btrfs", MOVED, 2);
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
    let (_, findings) = swept_by_shell(&indexed(false), "posix", check, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let after = "link file to link0";
    let next = "append index, 6 bytes at 0";
    let expected = [("{dir}", next, Some(after), 2)];
    assert_eq!(advised(finding), expected);
    let line = "fsync of {dir} right after link file to link0 (2";
    assert!(finding.text().contains(line), "{}", finding.text());
    assert_eq!(swept_by_shell(&indexed(true), "posix", check, 2).1, []);
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
    let (_, findings) = swept_by_shell(&compacted(false), "posix", check, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let expected = [("mirror", "truncate db from 512 to 0 bytes", None, 1)];
    assert_eq!(advised(finding), expected);
    assert_eq!(finding.prevented_by[0].files, 1);
    assert_eq!(swept_by_shell(&compacted(true), "posix", check, 2).1, []);
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
    let (_, findings) = swept_by_shell(&slots(false), "ext4-writeback", check, 2);
    let [finding] = &*findings else {
        panic!("{findings:#?}")
    };
    let expected = [("slots", "write slots, 1 byte at 4096", None, 3)];
    assert_eq!(advised(finding), expected);
    assert_eq!(
        swept_by_shell(&slots(true), "ext4-writeback", check, 2).1,
        []
    );
}

/// Finds a node broken that has something in its log and does not know which log is its own.
struct Currents;

impl Subject for Currents {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        for (node, disk) in ["one", "other"].into_iter().zip(&state.disks) {
            let DiskState::Tree(tree) = disk else {
                panic!("it has no disk")
            };
            let place = tempfile::tempdir().expect("a directory");
            let directory = place.path().join("directory");
            tree.write_to(&directory).expect("written");
            let log = std::fs::read(directory.join("log")).unwrap_or_default();
            if !log.is_empty() && !directory.join("current").exists() {
                let words = format!("node {node} does not come up");
                return Ok(Verdict::Broken(vec![words].into()));
            }
        }
        Ok(Verdict::Ok)
    }
}

/// What two nodes do that run the same program. Only the first directory is synced, or both.
fn two_nodes(is_synced: bool) -> Trace {
    const LOG: FileId = FileId(2);
    let mut recording = Recording::default();
    for node in ["one", "other"] {
        recording.create("log", LOG).fsync(LOG).fsync(FileId::ROOT);
        recording.create("tmp", TMP).append(TMP, 0, b"log\n");
        recording.fsync(TMP).rename("tmp", "current", TMP);
        if is_synced {
            recording.fsync(FileId::ROOT);
        }
        recording.append(LOG, 0, b"record").fsync(LOG).node(node);
    }
    recording.trace
}

/// Either node may be the one that is shown. The finding is gone only if the program makes the call,
/// and so both of them do.
#[test]
fn a_sync_is_advised_on_all_nodes_that_do_the_same() {
    let found = |trace: &Trace| {
        let all = spaces(trace, "posix");
        let swept = swept_by(trace, &all, vec![Box::new(Currents)]);
        let judged = Findings::new(trace, &all, "posix");
        judged.explain(judged.of(&swept), &requests("posix"), true)
    };
    let lost_rename = |finding: &&Finding| {
        let nodes = finding.nodes.iter();
        let lost: Vec<_> = nodes.flat_map(|node| &node.lost).collect();
        lost.len() == 1 && lost[0].call == "rename"
    };
    let findings = found(&two_nodes(false));
    let finding = findings.iter().find(lost_rename).expect("a finding");
    let expected = [("{dir}", "append log, 6 bytes at 0", None, 2)];
    assert_eq!(advised(finding), expected);
    let sync = &finding.prevented_by[0];
    let is_other = |node: &&str| *node != sync.node;
    let others = ["one", "other"].into_iter().filter(is_other);
    assert_eq!(sync.also_on, others.collect::<Vec<_>>());
    let words = format!(
        "fsync of {{dir}} on {}, and likewise on {},",
        sync.node, sync.also_on[0]
    );
    let text = finding.text();
    assert!(text.contains(&words), "{text}");
    let findings = found(&two_nodes(true));
    assert!(findings.iter().find(lost_rename).is_none(), "{findings:#?}");
}
