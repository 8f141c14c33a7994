use std::process::Command;

use trace::{Action, Event, FileOp, SyncScope};
use trace_store::Trace;
use tracer::calls::{Numbers, ROWS, Row};

use super::{NodeOptions, record};

/// The calls that are looked at, but for those whose names stand in FORGET.
pub(super) fn rows(command: &Command) -> Vec<Row> {
    let mut rows = ROWS.to_vec();
    for (name, value) in command.get_envs() {
        let forgotten = value.filter(|_| name == "FORGET").unwrap_or_default();
        let forgotten = forgotten.to_string_lossy();
        for row in rows
            .iter_mut()
            .filter(|row| forgotten.split(' ').any(|name| name == row.name))
        {
            row.numbers = Numbers::NONE;
        }
    }
    rows
}

/// Records a script of the shell, with a call forgotten, by all names that it has on one
/// architecture or the other; says what was noticed.
fn noticed(script: &str, forgotten: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("sh");
    command
        .args(["-ec", script])
        .env("FORGET", forgotten)
        .current_dir(directory.path());
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        marks: false,
        ..NodeOptions::default()
    };
    let (trace, status) = record(options, command, &|_| false)
        .expect("recorded")
        .expect("not cancelled");
    assert!(status.success(), "{script}");
    trace.about.not_recorded.into_keys().collect()
}

#[test]
fn a_call_that_is_not_known_is_noticed_by_what_it_did() {
    let scripts = [
        ("write", "echo x >f"),
        ("openat", "echo x >f"),
        ("mkdir mkdirat", "mkdir d"),
        ("symlinkat", "ln -s a b"),
        ("linkat", "echo x >f; ln f g"),
        ("unlinkat", "echo x >f; rm f"),
        ("rmdir unlinkat", "mkdir d; rmdir d"),
        ("renameat2", "echo x >f; mv f g"),
        ("fchmodat", "echo x >f; chmod 600 f"),
        ("ftruncate", "echo x >f; truncate -s 100 f"),
        ("fallocate", "echo x >f; fallocate -l 5000 f"),
        ("mknodat", "mkfifo p"),
    ];
    for (forgotten, script) in scripts {
        assert_eq!(noticed(script, "nothing"), Vec::<String>::new(), "{script}");
        assert!(
            !noticed(script, forgotten).is_empty(),
            "{script} without {forgotten}"
        );
    }
}

/// What a script of Python did in a directory, and what was not recorded of it.
fn traced(script: &str) -> Trace {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("/usr/bin/python3");
    command
        .args(["-IS", "-c", script])
        .current_dir(directory.path());
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        marks: false,
        ..NodeOptions::default()
    };
    let recorded = record(options, command, &|_| false).expect("recorded");
    let (trace, status) = recorded.expect("not cancelled");
    assert!(status.success(), "{script}");
    trace
}

fn file_ops(trace: &Trace) -> impl Iterator<Item = &FileOp> {
    let events = trace.run.nodes[0].events.iter();
    events.filter_map(|event| match &event.action {
        Action::File(op) => Some(op),
        _ => None,
    })
}

#[test]
fn what_was_synced_elsewhere_is_not_known() {
    let outside = "o=$(mktemp -p ..); echo x >$o";
    for script in ["mv $o f", "ln $o f; rm $o", "touch f; mv $o f"] {
        for (sync, is_noticed) in [("sync $o", true), ("sync", true), ("true", false)] {
            let noticed = noticed(&format!("{outside}; {sync}; {script}"), "nothing");
            let expected = [super::syncs::FROM_OUTSIDE];
            assert_eq!(
                noticed,
                &expected[..usize::from(is_noticed)],
                "{sync}; {script}"
            );
        }
    }
    let inside = "echo x >f; mv f g; ln g h; mkdir d; mv h d";
    assert_eq!(noticed(inside, "nothing"), Vec::<String>::new());
}

#[test]
fn what_was_synced_before_it_left_is_not_known_when_it_comes_back() {
    let inside = "o=$(mktemp -p ..); rm $o; echo x >f";
    for leaves in ["mv f $o", "ln f $o; rm f"] {
        for (sync, is_noticed) in [("sync f", true), ("sync", true), ("true", false)] {
            let script = format!("{inside}; {sync}; {leaves}; mv $o f");
            let expected = [super::syncs::FROM_OUTSIDE];
            assert_eq!(
                noticed(&script, "nothing"),
                &expected[..usize::from(is_noticed)],
                "{script}"
            );
        }
    }
}

const MAPS: &str = "
import ctypes, mmap, os, threading
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mremap.restype = ctypes.c_void_p
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
file = os.open('f', os.O_RDWR | os.O_CREAT)
os.truncate(file, 12288)
def map(at, length, offset, flags=mmap.MAP_SHARED):
    return libc.mmap(at, length, 3, flags, file, offset)
";

/// Which parts of the file a script syncs: where, and how much.
fn synced(script: &str) -> Vec<(u64, u64)> {
    let trace = traced(&format!("{MAPS}{script}"));
    let parts = file_ops(&trace).filter_map(|op| match op {
        FileOp::Sync {
            scope: SyncScope::Range { offset, len },
            ..
        } => Some((*offset, *len)),
        _ => None,
    });
    let mut synced: Vec<_> = parts.collect();
    synced.sort_unstable();
    synced
}

/// A window that is moved over a file: what it showed before is not synced with what it shows.
#[test]
fn a_sync_of_memory_is_one_of_what_is_mapped_there_now() {
    let fixed = "at = map(None, 12288, 0); map(at + 4096, 4096, 8192, 0x11)";
    let unmapped = "at = map(None, 12288, 0); libc.munmap(at + 4096, 4096)";
    for (script, expected) in [
        (fixed, vec![(0, 4096), (8192, 4096), (8192, 4096)]),
        (unmapped, vec![(0, 4096), (8192, 4096)]),
    ] {
        let synced = synced(&format!("{script}; libc.msync(at, 12288, 4)"));
        if script == fixed {
            assert_eq!(synced, expected, "{script}");
        } else {
            // The kernel refuses a range with a hole, after it has synced what is there.
            assert!(synced.is_empty() || synced == expected, "{synced:?}");
        }
    }
}

#[test]
fn a_part_of_memory_that_moves_leaves_the_rest_mapped() {
    let script = "
at = map(None, 12288, 0)
to = libc.mmap(None, 4096, 3, 0x22, -1, 0)
assert libc.mremap(at + 4096, 4096, 4096, 3, to) == to
for place in [at, to, at + 8192]: assert libc.msync(place, 4096, 4) == 0
";
    assert_eq!(synced(script), [(0, 4096), (4096, 4096), (8192, 4096)]);
}

/// The file is no longer there, whatever is: the sync is of something else.
#[test]
fn a_sync_of_memory_that_took_the_place_of_a_file_is_none_of_that_file() {
    let another = "
other = os.open('g', os.O_RDWR | os.O_CREAT)
os.truncate(other, 4096)
of = libc.mmap(None, 4096, 3, mmap.MAP_SHARED, other, 0)
";
    let none = "of = libc.mmap(None, 4096, 3, 0x22, -1, 0)\n";
    let moved = "assert libc.mremap(of, 4096, 4096, 3, at + 4096) == at + 4096\n";
    // The kernel unmaps whole pages, and gives their place to others.
    let unmapped = "libc.munmap(at + 4096, 100); libc.mmap(at + 4096, 4096, 3, 0x22, -1, 0)\n";
    let sync = "assert libc.msync(at, 12288, 4) == 0";
    let (rest, of_other) = ([(0, 4096), (8192, 4096)], [(0, 4096)]);
    for (script, expected) in [
        (format!("{another}{moved}"), [&of_other[..], &rest].concat()),
        (format!("{none}{moved}"), rest.to_vec()),
        (unmapped.to_owned(), rest.to_vec()),
    ] {
        let script = format!("at = map(None, 12288, 0)\n{script}{sync}");
        assert_eq!(synced(&script), expected, "{script}");
    }
}

/// What another thread stores while a sync goes on need not be in it.
#[test]
fn stores_during_a_sync_come_after_it() {
    let script = "
at = map(None, 4096, 0)
store = ctypes.c_long.from_address(at)
synced = []
def stores():
    while len(synced) < 50: store.value += 1
thread = threading.Thread(target=stores)
thread.start()
while len(synced) < 50: synced.append(libc.msync(at, 4096, 4))
thread.join()
";
    let trace = traced(&format!("{MAPS}{script}"));
    let events = &trace.run.nodes[0].events;
    let is_sync = |event: &Event| event.action.is_sync();
    let syncs = events.iter().filter(|event| is_sync(event)).count();
    assert!(syncs >= 50, "{syncs}");
    // What is seen when a call begins and when it returns has its time.
    let is_store = |event: &Event| &*event.call == "store";
    let of_sync = |sync: &Event, store: &Event| is_store(store) && store.start_ns == sync.start_ns;
    let mut pairs = events.windows(2);
    assert!(pairs.any(|pair| is_sync(&pair[0]) && of_sync(&pair[0], &pair[1])));
}

/// A read that gives nothing for a reason of its own says nothing of the other end.
#[test]
fn who_stops_to_read_has_not_seen_the_end() {
    let connected = "
import socket
server = socket.create_server(('127.0.0.1', 0))
one = socket.create_connection(server.getsockname())
other = server.accept()[0]
";
    let ends = |script: &str| {
        let trace = traced(&format!("{connected}{script}"));
        let events = trace.run.nodes[0].events.iter();
        let receives = events.filter(|event| matches!(event.action, Action::Receive(_)));
        receives.count()
    };
    assert_eq!(ends("one.recv(0)"), 0);
    assert_eq!(ends("one.shutdown(socket.SHUT_RD); one.recv(9)"), 0);
    assert_eq!(ends("other.close(); one.recv(9)"), 1);
}
