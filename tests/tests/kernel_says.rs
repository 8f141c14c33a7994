//! What the kernel says is held against the disk that it is about. Alone in its program: the log of
//! the kernel is everybody's. Needs root.

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use checker::Promise;
use end_to_end::{Laboratory, in_own_namespace, require_root};
use replayer::WorkloadResult;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Opens a file as soon as it is there, which is not for long.
fn opened(path: &Path) -> Option<File> {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "the workload does not begin");
        std::thread::sleep(Duration::from_micros(100));
    }
    File::open(path).ok()
}

/// What becomes of a workload if a stack trace is printed while its first crash state has recovered.
/// Where `beside`, the recorded disk is still in use then.
fn warned(beside: bool) -> WorkloadResult {
    let text = "creat foo; write foo 0 8M; fsync foo; creat bar; fsync bar";
    let workload = workloads::parse(text, "warned")
        .expect("a workload")
        .remove(0);
    in_own_namespace(|| {
        let mut laboratory = Laboratory::new("ext4");
        let recorded = laboratory.path().join("engine-1/recorded");
        let file = Arc::new(Mutex::new(None));
        let held = Arc::clone(&file);
        let holding = beside.then(|| {
            std::thread::spawn(move || {
                *held.lock().expect("nobody panics") = opened(&recorded.join("foo"));
            })
        });
        let mut has_warned = false;
        let result = laboratory.tamper(&workload, move |_: &Path| {
            if std::mem::replace(&mut has_warned, true) {
                return;
            }
            let mut log = File::options()
                .write(true)
                .open("/dev/kmsg")
                .expect("opened");
            log.write_all(b"<4>WARNING: a test of crashpoint\n")
                .expect("written");
            let file = file.lock().expect("nobody panics").take();
            assert_eq!(file.is_some(), beside);
        });
        if let Some(thread) = holding {
            thread.join().expect("it ends");
        }
        result
    })
}

#[test]
fn a_stack_trace_while_the_recorded_disk_is_unmounted_accuses_no_crash_state() {
    require_root();
    let promises = |result: &WorkloadResult| -> Vec<Promise> {
        let findings = result.broken.iter().flat_map(|state| &state.findings);
        findings.map(|finding| finding.promise).collect()
    };
    let alone = warned(false);
    assert_eq!(promises(&alone), [Promise::KernelQuiet], "{alone:?}");
    // On the only processor it is unmounted after everything else.
    if available_parallelism().is_ok_and(|count| count > NonZero::<usize>::MIN) {
        let beside = warned(true);
        assert_eq!(promises(&beside), [], "{beside:?}");
        assert_eq!(beside.inconclusive, None);
    }
}
