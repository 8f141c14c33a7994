use std::fs;
use std::sync::Arc;

use block_dev::{Base, BlockLog, Kind};
use proptest::prelude::*;
use tempfile::TempDir;
use trace::{Action, Event, FileId, FileOp, InitialFile, Node, Run};

use crate::{About, Before, Disk, Error, Frame, Past, QUIET, Recovers, RecoveryCounts, Trace};

const FILES: [&str; 6] = [
    "trace.json",
    "run.zst",
    "data.zst",
    "stacks.zst",
    "disk-0-base.zst",
    "disk-0-log.zst",
];

/// A node that writes one piece, and says so.
fn trace(bytes: &[u8]) -> Trace {
    let mut trace = Trace {
        about: About {
            kernel: "6.18".into(),
            ..About::default()
        },
        ..Trace::default()
    };
    let (data, line) = (trace.add(bytes), trace.add(b"done"));
    let root = InitialFile::empty_root();
    let event = |end_ns, call: &str, action| Event {
        start_ns: end_ns - 1,
        end_ns,
        process: 7,
        thread: 7,
        call: call.into(),
        stack: 0,
        action,
    };
    let write = FileOp::Write {
        file: FileId(1),
        offset: 0,
        data,
        size_before: 0,
    };
    let events = vec![
        event(2, "write", Action::File(write)),
        event(4, "write", Action::Mark { line }),
    ];
    trace.run = Run {
        nodes: vec![Node {
            name: "node".into(),
            initial: vec![root],
            events,
        }],
    };
    let mut log = BlockLog::default();
    log.push_write(4096, &[7; 512], 2);
    log.push(Kind::Flush, 3);
    let mut after = BlockLog::default();
    after.push_write(8192, &[8; 512], 5);
    let disk = Disk {
        file_system: "ext4".into(),
        directory: "data".into(),
        base: Arc::new(Base::empty(1 << 20)),
        log,
        durable: 1,
        after: Some(after),
    };
    trace.disks.insert("node".into(), disk);
    let frame = Frame {
        module: "/usr/bin/store".into(),
        address: 4711,
        function: Some("wal::sync".into()),
        source: Some(("src/wal.rs".into(), 12)),
    };
    trace.stacks.insert(7, vec![frame]);
    trace
}

fn saved(trace: &Trace) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    trace.save(directory.path()).expect("saved");
    directory
}

#[test]
fn what_is_printed_of_a_trace_is_short() {
    let printed = format!("{:?}", trace(&vec![b'x'; 1 << 20]));
    assert!(
        printed.len() < 5000 && printed.contains("(1048580 bytes, #"),
        "{printed}"
    );
}

proptest! {
    #[test]
    fn what_was_saved_is_loaded(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let trace = trace(&bytes);
        prop_assert_eq!(Trace::load(saved(&trace).path()).expect("loaded"), trace);
    }

    #[test]
    fn one_changed_byte_is_noticed(
        file in prop::sample::select(FILES.to_vec()), place: prop::sample::Index, bit in 0..8_u32,
    ) {
        let trace = trace(b"some bytes of a file");
        let directory = saved(&trace);
        let path = directory.path().join(file);
        let mut bytes = fs::read(&path).expect("read");
        let place = place.index(bytes.len());
        bytes[place] ^= 1_u8 << bit;
        fs::write(&path, &bytes).expect("written");
        // A space of the manifest may be another.
        if let Ok(loaded) = Trace::load(directory.path()) {
            prop_assert_eq!((file, loaded), ("trace.json", trace));
        }
    }
}

/// It is said in words of the manifest, which are not there otherwise, as in older traces.
#[test]
fn whether_fua_was_recognised_is_kept_with_a_log() {
    for recognised in [true, false] {
        let mut trace = trace(b"bytes");
        for disk in trace.disks.values_mut() {
            disk.log.set_recognises_fua(recognised);
        }
        let directory = saved(&trace);
        let manifest = fs::read_to_string(directory.path().join(FILES[0])).expect("read");
        assert_eq!(manifest.contains("fua_unrecognised"), !recognised);
        let loaded = Trace::load(directory.path()).expect("loaded");
        assert_eq!(loaded.disks["node"].log.recognises_fua(), recognised);
    }
}

#[test]
fn a_truncated_file_is_refused_with_its_name() {
    for file in FILES {
        let directory = saved(&trace(b"bytes"));
        let path = directory.path().join(file);
        let bytes = fs::read(&path).expect("read");
        fs::write(&path, &bytes[..bytes.len() - 3]).expect("written");
        let error = Trace::load(directory.path()).expect_err("it is damaged");
        assert!(
            matches!(&error, Error::Damaged { path: found, .. } if *found == path),
            "{error}"
        );
    }
}

#[test]
fn what_the_manifest_says_is_noticed_if_it_changes_and_may_lack_its_hash() {
    let trace = trace(b"bytes");
    let directory = saved(&trace);
    let path = directory.path().join("trace.json");
    let text = fs::read_to_string(&path).expect("read");
    fs::write(&path, text.replace("6.18", "6.19")).expect("written");
    let error = Trace::load(directory.path()).expect_err("it is damaged");
    assert!(
        matches!(&error, Error::Damaged { path: found, .. } if *found == path),
        "{error}"
    );
    // Older ones have none.
    let without: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().starts_with("\"blake3\""))
        .collect();
    assert_eq!(without.len() + 1, text.lines().count());
    fs::write(&path, without.join("\n")).expect("written");
    assert_eq!(Trace::load(directory.path()).expect("loaded"), trace);
}

#[test]
fn data_that_is_not_there_is_noticed_before_it_is_used() {
    let mut trace = trace(b"bytes");
    trace.data.truncate(3);
    let error = Trace::load(saved(&trace).path())
        .expect_err("it is damaged")
        .to_string();
    assert!(error.contains("event 0 of node"), "{error}");
}

#[test]
fn another_version_is_refused_and_a_directory_with_something_in_it_not_written_to() {
    let directory = saved(&trace(b"bytes"));
    let path = directory.path().join("trace.json");
    let text = fs::read_to_string(&path)
        .expect("read")
        .replace("\"version\": 5", "\"version\": 6");
    fs::write(&path, text).expect("written");
    assert!(matches!(
        Trace::load(directory.path()),
        Err(Error::Version { found: 6, .. })
    ));
    assert!(matches!(
        trace(b"bytes").save(directory.path()),
        Err(Error::Exists(_))
    ));
}

#[test]
fn a_trace_of_version_2_is_read_without_stacks() {
    let mut trace = trace(b"bytes");
    let directory = saved(&trace);
    let path = directory.path().join("trace.json");
    let text = fs::read_to_string(&path).expect("read");
    let older: Vec<_> = text
        .lines()
        .filter(|line| !["\"blake3\"", "\"stacks_blake3\""].contains(&key(line)))
        .collect();
    assert_eq!(older.len() + 2, text.lines().count());
    let older = older.join("\n").replace("\"version\": 5", "\"version\": 2");
    fs::write(&path, older).expect("written");
    fs::remove_file(directory.path().join("stacks.zst")).expect("removed");
    trace.stacks.clear();
    assert_eq!(Trace::load(directory.path()).expect("loaded"), trace);
}

/// Of a line of JSON.
fn key(line: &str) -> &str {
    line.trim().split(':').next().unwrap_or_default()
}

/// Two recordings of one program.
fn recorded_twice() -> Trace {
    let mut again = trace(b"what the second run wrote");
    again.about.schedule = Some("neighbour".into());
    Trace {
        others: vec![again],
        ..trace(b"what the first run wrote")
    }
}

#[test]
fn all_recordings_of_a_program_are_kept() {
    let trace = recorded_twice();
    let loaded = Trace::load(saved(&trace).path()).expect("loaded");
    assert_eq!(loaded, trace);
    let schedules: Vec<_> = loaded.recordings().map(Trace::schedule).collect();
    assert_eq!(schedules, [QUIET, "neighbour"]);
}

/// What was recorded of a recovery from a crash of a run.
fn recovered() -> Trace {
    let mut recovery = trace(b"what the recovery wrote");
    let acknowledged = recovery.add(b"done\n");
    recovery.about.recovers = Some(Recovers {
        crashes: vec!["after all; lost: nothing".into()],
        acknowledged,
        acknowledged_by: "client".into(),
        before: None,
    });
    let mut trace = recorded_twice();
    trace.recoveries = vec![recovery];
    trace.about.recoveries = Some(RecoveryCounts {
        recorded: 1,
        unchanged: 2,
        not_ok: 3,
        not_followed: 4,
    });
    trace
}

#[test]
fn what_was_recorded_of_recoveries_is_kept() {
    let trace = recovered();
    let directory = saved(&trace);
    assert_eq!(Trace::load(directory.path()).expect("loaded"), trace);
    fs::remove_dir_all(directory.path().join("recovery-1")).expect("removed");
    let error = Trace::load(directory.path()).expect_err("one is not there");
    let words = "recovery-1/trace.json is damaged: it is not there";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn crashes_that_no_run_can_have_had_are_noticed() {
    let mut trace = recovered();
    // One of a program.
    trace.recoveries[0].disks.clear();
    let cut: Vec<_> = trace
        .run
        .nodes
        .iter()
        .map(|node| node.events.len())
        .collect();
    let right = Before {
        number: 0,
        past: Past {
            cut,
            ..Past::default()
        },
    };
    let mut load = |before: Before| {
        let recovers = trace.recoveries[0].about.recovers.as_mut();
        recovers.expect("it recovers").before = Some(before);
        Trace::load(saved(&trace).path())
    };
    assert!(load(right.clone()).is_ok());
    let wrong = |change: &dyn Fn(&mut Before)| {
        let mut before = right.clone();
        change(&mut before);
        before
    };
    for before in [
        wrong(&|before| before.number = 1),
        wrong(&|before| before.past.recovery = Some(0)),
        wrong(&|before| before.past.cut[0] += 1),
        wrong(&|before| before.past.cut.push(0)),
        wrong(&|before| before.past.in_flight = vec![(0, before.past.cut[0])]),
    ] {
        let error = load(before.clone()).expect_err("no run had it");
        assert!(
            error.to_string().contains("no run of it had"),
            "{error} {before:?}"
        );
    }
}

#[test]
fn acknowledgements_that_are_not_there_are_noticed() {
    let mut trace = recovered();
    let recovers = trace.recoveries[0].about.recovers.as_mut();
    recovers.expect("it recovers").acknowledged.len += 1;
    let error = Trace::load(saved(&trace).path()).expect_err("there is no such byte");
    let words = "what was acknowledged before is not there";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_recording_that_is_gone_or_of_another_trace_is_noticed() {
    let directory = saved(&recorded_twice());
    let second = directory.path().join("recording-2");
    fs::remove_dir_all(&second).expect("removed");
    let error = Trace::load(directory.path()).expect_err("one is not there");
    assert!(
        error
            .to_string()
            .contains("recording-2/trace.json is damaged: it is not there"),
        "{error}"
    );
    trace(b"another run").save(&second).expect("saved");
    let error = Trace::load(directory.path()).expect_err("it is another one");
    assert!(
        error.to_string().contains("it is another recording"),
        "{error}"
    );
}
