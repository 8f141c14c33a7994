//! Runs of very many calls: what the rules know of them fits into memory. It is a test of its own
//! program, so that the peak is that of these runs.

use std::fs;
use std::sync::Arc;

use pace_rules::Sector;
use pace_rules::nodes::{Explore, LINUX, Model, Relaxations, Request, Spaces, Split};
use trace::{
    Action, Data, Event, FileId, FileKind, FileOp, InitialFile, Name, Node, Run, SyncScope,
};

/// What the rules may take for each call and model, in bytes.
const BYTES_A_CALL_MAX: u64 = 440;

const CALLS: u64 = 100_000;

/// The most memory that this process has had, in bytes.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kibibytes: u64 = kibibytes.expect("it is told").parse().expect("a number");
    kibibytes * 1024
}

/// A log of small records, of which only the last call syncs any.
fn log_of_records() -> Run {
    let (log, len) = (FileId(1), 82);
    let name: Name = Arc::from(&b"log"[..]);
    let create = FileOp::Create {
        parent: FileId::ROOT,
        name,
        file: log,
        kind: FileKind::Regular,
        mode: 0o644,
    };
    let append = |call: u64| FileOp::Write {
        file: log,
        offset: call * len,
        data: Data {
            at: call * len,
            len,
        },
        size_before: call * len,
    };
    let sync = FileOp::Sync {
        file: log,
        scope: SyncScope::File,
    };
    let ops = std::iter::once(create)
        .chain((0..CALLS).map(append))
        .chain([sync]);
    let call: Arc<str> = "write".into();
    let event = |(number, op): (usize, FileOp)| Event {
        start_ns: 2 * number as u64,
        end_ns: 2 * number as u64 + 1,
        process: 1,
        thread: 1,
        call: Arc::clone(&call),
        stack: 0,
        action: Action::File(op),
    };
    Run {
        nodes: vec![Node {
            name: "program".into(),
            initial: vec![InitialFile::empty_root()],
            events: ops.enumerate().map(event).collect(),
        }],
    }
}

#[test]
fn what_the_rules_know_of_a_hundred_thousand_calls_fits_into_memory() {
    let run = log_of_records();
    let before = peak_bytes();
    let models = Model::all_named(LINUX);
    let request = |model: &&'static Model| Request {
        model,
        explore: Explore::ReplicatedStateMachine { majority: 0 },
        lost: 1,
        split: Split::default(),
        sector: Sector::default(),
        relaxations: Relaxations::ALL,
    };
    let requests: Vec<_> = models.iter().map(request).collect();
    let spaces = Spaces::new(&run, &requests).expect("there are states");
    let a_call = (peak_bytes() - before) / CALLS / models.len() as u64;
    assert!(spaces.len() > CALLS * CALLS, "{}", spaces.len());
    let (_, middle) = spaces.state(spaces.len() / 2);
    assert!(middle.cut[0] > 1000, "{middle:?}");
    println!("{a_call} bytes for each call and model");
    assert!(
        a_call <= BYTES_A_CALL_MAX,
        "{a_call} bytes for each call and model"
    );
}
