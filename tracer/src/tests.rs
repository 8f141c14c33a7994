use std::collections::{HashMap, HashSet};
use std::mem::offset_of;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, pid_t, sock_filter};
use nix::sys::resource::{Resource, setrlimit};
use tempfile::TempDir;

use super::calls::ROWS;
use super::lookup::text;
use super::*;

/// What is decided about a call.
type Decide = Box<dyn FnMut(&Origin, &Entry) -> Decision<()> + Send>;

/// Decides as it is told, notes what it is told, and answers each call that it saw return.
struct Scripted {
    decide: Decide,
    after: After,
    seen: Arc<Mutex<Seen>>,
}

/// How often something happened.
#[derive(Debug, Default)]
struct Seen {
    /// Calls that were made, by name and result.
    made: HashMap<(&'static str, i64), u32>,
    withdrawn: HashMap<&'static str, u32>,
    abandoned: HashMap<&'static str, u32>,
    gave_up: u32,
    born: u32,
    ended: u32,
    unseen: HashSet<&'static str>,
}

impl Observer for Scripted {
    type Kept = ();
    type Output = ExitStatus;
    type Error = Error;

    fn entry(&mut self, origin: &Origin, entry: &Entry) -> Decision<()> {
        (self.decide)(origin, entry)
    }

    fn exit(&mut self, origin: &Origin, _: &Entry, (): (), result: i64) -> After {
        let mut seen = self.seen.lock().expect("whole");
        *seen.made.entry((origin.row.name, result)).or_default() += 1;
        self.after
    }

    fn abandoned(&mut self, origin: &Origin, _: &Entry, (): ()) {
        let mut seen = self.seen.lock().expect("whole");
        *seen.abandoned.entry(origin.row.name).or_default() += 1;
    }

    fn withdrawn(&mut self, origin: &Origin, _: Option<()>) {
        let mut seen = self.seen.lock().expect("whole");
        *seen.withdrawn.entry(origin.row.name).or_default() += 1;
    }

    fn gave_up(&mut self, _: pid_t) {
        self.seen.lock().expect("whole").gave_up += 1;
    }

    fn born(&mut self, _: pid_t, _: Option<pid_t>) {
        self.seen.lock().expect("whole").born += 1;
    }

    fn ended(&mut self, _: &Origin) {
        self.seen.lock().expect("whole").ended += 1;
    }

    fn unseen(&mut self, what: &'static str) {
        self.seen.lock().expect("whole").unseen.insert(what);
    }

    fn finish(self, status: ExitStatus, _: &StackTable) -> Result<ExitStatus> {
        Ok(status)
    }
}

fn scripted(
    decide: impl FnMut(&Origin, &Entry) -> Decision<()> + Send + 'static,
) -> (Scripted, Arc<Mutex<Seen>>) {
    let seen = Arc::default();
    let scripted = Scripted {
        decide: Box::new(decide),
        after: After::GoOn,
        seen: Arc::clone(&seen),
    };
    (scripted, seen)
}

fn trace_by<O: Observer<Error = Error> + Send + 'static>(
    command: Command,
    observer: O,
) -> Result<Traced<O::Output, Error>> {
    let options = Options {
        name: "node".into(),
        processor: None,
    };
    let table = Table {
        rows: ROWS.to_vec(),
    };
    start(options, table, command, move || Ok(observer))
}

fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]);
    command
}

fn trace(
    script: &str,
    decide: impl FnMut(&Origin, &Entry) -> Decision<()> + Send + 'static,
) -> Result<Traced<ExitStatus, Error>> {
    trace_by(bash(script), scripted(decide).0)
}

/// Runs a script in a directory, with what is decided; its exit status.
fn run(
    directory: &Path,
    script: &str,
    decide: impl FnMut(&Origin, &Entry) -> Decision<()> + Send + 'static,
) -> ExitStatus {
    let script = format!("cd {}; {script}", directory.display());
    let traced = trace(&script, decide).expect("started");
    traced.wait().expect("traced")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_call_that_fails_is_not_made() {
    let folder = folder();
    let status = run(
        folder.path(),
        "mkdir a 2>said; test $? = 1 && grep -q 'No space left' said && test ! -e a && mkdir b",
        {
            let mut left = 1;
            move |origin, _| {
                if origin.row.name.starts_with("mkdir") && left > 0 {
                    left -= 1;
                    return Decision::Fail(libc::ENOSPC);
                }
                Decision::GoOn
            }
        },
    );
    assert!(status.success(), "{status}");
    assert!(folder.path().join("b").is_dir());
}

#[test]
fn a_call_that_is_skipped_is_not_made_and_returns_what_it_is_told() {
    let folder = folder();
    let script = "echo x >f; rm f && test -e f && printf hello >f && test ! -s f";
    let status = run(folder.path(), script, |origin, entry| {
        match origin.row.name {
            "unlink" | "unlinkat" => Decision::Skip(0),
            // All of them, but for that of echo, of two bytes.
            "write" if entry.arguments[2] == 5 => Decision::Skip(5),
            _ => Decision::GoOn,
        }
    });
    assert!(status.success(), "{status}");
}

#[test]
fn a_result_is_replaced_after_a_call_was_made() {
    let folder = folder();
    let decide = |origin: &Origin, _: &Entry| match origin.row.name {
        "fsync" => Decision::ToExit(()),
        _ => Decision::GoOn,
    };
    let (mut observer, seen) = scripted(decide);
    observer.after = After::Return(-i64::from(libc::EIO));
    let path = folder.path().display();
    let script = format!("cd {path}; echo x >f; sync f 2>said; grep -q 'Input/output' said");
    let status = trace_by(bash(&script), observer).expect("started").wait();
    assert!(status.expect("traced").success());
    // It was made, and was well.
    assert_eq!(seen.lock().expect("whole").made[&("fsync", 0)], 1);
}

/// Waits for something, not for ever.
fn wait_for(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Holds every mkdir of `a` until it is told otherwise; says whether it holds one, and may be told.
fn holder() -> (
    impl FnMut(&Origin, &Entry) -> Decision<()> + Send + 'static,
    Arc<AtomicBool>,
    Arc<AtomicBool>,
) {
    let (holds, may) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (of_us, of_them) = (Arc::clone(&holds), Arc::clone(&may));
    let decide = move |origin: &Origin, entry: &Entry| {
        let path = usize::from(origin.row.name == "mkdirat");
        if !origin.row.name.starts_with("mkdir")
            || text(origin.thread, entry.arguments[path]).is_none_or(|path| path != b"a")
            || of_them.load(Ordering::SeqCst)
        {
            return Decision::GoOn;
        }
        of_us.store(true, Ordering::SeqCst);
        Decision::Hold
    };
    (decide, holds, may)
}

#[test]
fn a_thread_that_is_held_waits_and_others_do_not() {
    let folder = folder();
    let (decide, holds, may) = holder();
    let script = format!("cd {}; mkdir a & mkdir b; wait", folder.path().display());
    let traced = trace(&script, decide).expect("started");
    wait_for("it is held", || holds.load(Ordering::SeqCst));
    wait_for("the other one goes on", || folder.path().join("b").is_dir());
    // To ask changes nothing as long as the answer is the same.
    traced.ask_again();
    assert!(!traced.has_ended() && !folder.path().join("a").exists());
    may.store(true, Ordering::SeqCst);
    traced.ask_again();
    let status = traced.wait().expect("traced");
    assert!(status.success() && folder.path().join("a").is_dir());
}

#[test]
fn a_thread_that_is_held_can_be_killed() {
    let folder = folder();
    let (decide, holds, _) = holder();
    let (observer, seen) = scripted(decide);
    let script = format!("cd {}; mkdir a", folder.path().display());
    let traced = trace_by(bash(&script), observer).expect("started");
    wait_for("it is held", || holds.load(Ordering::SeqCst));
    traced.kill();
    let status = traced.wait().expect("traced");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    assert!(!folder.path().join("a").exists());
    let seen = seen.lock().expect("whole");
    assert_eq!((seen.gave_up, seen.born), (1, seen.ended), "{seen:?}");
}

#[test]
fn a_call_of_the_first_thread_ends_when_another_one_runs_a_program() {
    let folder = folder();
    let path = folder.path().join("reads");
    let program = "import os, sys, threading, time
def run():
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    os.execv('/bin/true', ['true'])
threading.Thread(target=run).start()
os.read(os.pipe()[0], 77)";
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(&path);
    let (observer, seen) = scripted(move |origin, entry| {
        if origin.row.name != "read" || entry.arguments[2] != 77 {
            return Decision::GoOn;
        }
        std::fs::write(&path, "").expect("written");
        Decision::ToExit(())
    });
    let status = trace_by(command, observer).expect("started").wait();
    assert!(status.expect("traced").success());
    assert_eq!(seen.lock().expect("whole").abandoned["read"], 1);
}

#[test]
fn a_question_is_over_when_whoever_is_held_was_decided_about() {
    let folder = folder();
    let decided = Arc::new(Mutex::new(0));
    let count = Arc::clone(&decided);
    let script = format!("cd {}; mkdir a", folder.path().display());
    let traced = trace(&script, move |origin, _| {
        if !origin.row.name.starts_with("mkdir") {
            return Decision::GoOn;
        }
        // As on a machine that has much else to do.
        std::thread::sleep(Duration::from_millis(5));
        *count.lock().expect("whole") += 1;
        Decision::Hold
    });
    let traced = traced.expect("started");
    let times = || *decided.lock().expect("whole");
    wait_for("it is held", || times() > 0);
    for question in 1..=20 {
        traced.ask_again();
        assert!(times() > question, "{} after {question}", times());
    }
}

#[test]
fn a_question_to_a_tracer_that_has_ended_is_answered() {
    let traced = trace("exit 3", |_, _| Decision::GoOn).expect("started");
    wait_for("it ends", || traced.has_ended());
    traced.ask_again();
    assert_eq!(traced.wait().expect("traced").code(), Some(3));
}

#[test]
fn of_two_observers_the_second_refuses_and_the_first_sees_what_is_made() {
    let folder = folder();
    let (first, seen) = scripted(|origin, _| match origin.row.name {
        "mkdir" | "mkdirat" => Decision::ToExit(()),
        _ => Decision::GoOn,
    });
    // Every second one fails.
    let mut asked = 0;
    let (second, of_second) = scripted(move |origin, _| {
        if !origin.row.name.starts_with("mkdir") {
            return Decision::GoOn;
        }
        asked += 1;
        if asked % 2 == 0 {
            Decision::Fail(libc::EDQUOT)
        } else {
            Decision::GoOn
        }
    });
    let path = folder.path().display();
    let script = format!("cd {path}; for name in a b c d e; do mkdir $name; done; ls >names");
    let traced = trace_by(bash(&script), Both(first, second)).expect("started");
    traced.wait().expect("traced");
    let names = std::fs::read_to_string(folder.path().join("names")).expect("listed");
    assert_eq!(names, "a\nc\ne\nnames\n");
    let seen = seen.lock().expect("whole");
    let total = |of: &HashMap<_, u32>| of.values().sum::<u32>();
    let made: u32 = seen.made.values().sum();
    assert_eq!((made, total(&seen.withdrawn)), (3, 2), "{seen:?}");
    assert!(of_second.lock().expect("whole").made.is_empty());
}

/// Wants the stacks of syncs.
#[derive(Default)]
struct SyncStacks {
    of_syncs: Vec<u64>,
    found: StackTable,
}

impl Observer for SyncStacks {
    type Kept = ();
    type Output = Vec<Vec<Frame>>;
    type Error = Error;

    fn entry(&mut self, origin: &Origin, _: &Entry) -> Decision<()> {
        if origin.row.name == "fsync" {
            Decision::ToExit(())
        } else {
            Decision::GoOn
        }
    }

    fn wants_stack(&self, (): &()) -> bool {
        true
    }

    fn exit(&mut self, origin: &Origin, _: &Entry, (): (), _: i64) -> After {
        self.of_syncs.push(origin.stack);
        After::GoOn
    }

    fn wants_addresses(&self, number: u64) -> bool {
        !self.found.contains_key(&number)
    }

    fn found_stack(&mut self, number: u64, stack: Vec<Frame>) {
        self.found.insert(number, stack);
    }

    fn abandoned(&mut self, _: &Origin, _: &Entry, (): ()) {}

    fn finish(self, _: ExitStatus, stacks: &StackTable) -> Result<Vec<Vec<Frame>>> {
        // Whoever is told addresses only can find out the same.
        assert_eq!(named(&self.found), *stacks);
        let of_syncs = self.of_syncs.iter();
        Ok(of_syncs.map(|stack| stacks[stack].clone()).collect())
    }
}

/// What `stacks_have_the_names_of_functions` runs, in this same program.
const SYNCED: &str = "CRASHPOINT_TEST_SYNCED";

#[inline(never)]
fn sync_inner(path: &Path) {
    let file = std::fs::File::create(path).expect("created");
    file.sync_all().expect("synced");
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "that is what is tested")]
fn sync_inlined(path: &Path) {
    sync_inner(path);
}

#[inline(never)]
fn sync_first(path: &Path) {
    sync_inlined(path);
    std::hint::black_box(path);
}

#[inline(never)]
fn sync_second(path: &Path, depth: u32) {
    if depth == 0 {
        sync_inner(path);
    } else {
        sync_second(path, depth - 1);
    }
    std::hint::black_box(path);
}

#[test]
#[ignore = "it is run by stacks_have_the_names_of_functions"]
fn syncs_a_file() {
    let path = std::env::var_os(SYNCED).expect("it is told which");
    let path = Path::new(&path);
    sync_first(path);
    sync_second(path, 3);
    sync_second(path, 5);
}

#[test]
fn stacks_have_the_names_of_functions() {
    let folder = folder();
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--ignored", "--exact", "tests::syncs_a_file"])
        .env(SYNCED, folder.path().join("file"));
    let traced = trace_by(command, SyncStacks::default()).expect("started");
    let stacks = traced.wait().expect("traced");
    let own = ["sync_inner", "sync_inlined", "sync_first", "sync_second"];
    let ours = |stack: &Vec<Frame>| -> Vec<String> {
        let functions = stack.iter().filter_map(|frame| frame.function.as_deref());
        // Of what was put in another's place the crate is not named.
        let names = functions.filter_map(|name| name.rsplit("::").next());
        let names = names.filter(|name| own.contains(name));
        names.map(str::to_owned).collect()
    };
    let ours: Vec<_> = stacks.iter().map(ours).collect();
    // However deep it went, it is the same place.
    assert_eq!(
        ours,
        [
            ["sync_inner", "sync_inlined", "sync_first"].as_slice(),
            &["sync_inner", "sync_second", "sync_second"],
            &["sync_inner", "sync_second", "sync_second"],
        ],
        "{stacks:#?}"
    );
    let inner = stacks[0]
        .iter()
        .find(|frame| frame.function.as_deref() == Some("tracer::tests::sync_inner"))
        .expect("it is there");
    let (file, line) = inner.source.clone().expect("there are line tables");
    assert!(
        file.ends_with("tracer/src/tests.rs") && line > 1,
        "{inner:?}"
    );
}

/// Python runs the same line by other instructions once it has seen it a few times.
#[test]
fn an_interpreter_is_one_place_whatever_it_made_of_a_line() {
    let folder = folder();
    let path = folder.path().join("file");
    let program = "import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
for _ in range(40):
    os.fsync(file)";
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(path);
    let traced = trace_by(command, SyncStacks::default()).expect("started");
    let stacks = traced.wait().expect("traced");
    assert_eq!(stacks.len(), 40);
    let first = &stacks[0];
    assert!(stacks.iter().all(|stack| stack == first), "{stacks:#?}");
}

/// Lets one thread at a time open files by name, as a recorder does.
#[derive(Default)]
struct OneAtATime {
    inside: Option<pid_t>,
    waiting: Vec<pid_t>,
}

impl Observer for OneAtATime {
    type Kept = ();
    type Output = ();
    type Error = Error;

    fn entry(&mut self, origin: &Origin, _: &Entry) -> Decision<()> {
        if origin.row.name != "openat" {
            return Decision::GoOn;
        }
        if self.inside.is_some_and(|inside| inside != origin.thread) {
            self.waiting.push(origin.thread);
            return Decision::Hold;
        }
        self.inside = Some(origin.thread);
        Decision::ToExit(())
    }

    fn exit(&mut self, _: &Origin, _: &Entry, (): (), _: i64) -> After {
        After::GoOn
    }

    fn abandoned(&mut self, _: &Origin, _: &Entry, (): ()) {}

    fn released(&mut self, thread: pid_t) -> Vec<pid_t> {
        if self.inside.take_if(|inside| *inside == thread).is_none() {
            return Vec::new();
        }
        std::mem::take(&mut self.waiting)
    }

    fn finish(self, _: ExitStatus, _: &StackTable) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_call_that_is_refused_lets_others_go_on() {
    let folder = folder();
    let (second, _) = scripted(|origin, entry| {
        let path = || text(origin.thread, entry.arguments[1]);
        if origin.row.name == "openat" && path().is_some_and(|path| path == b"refused") {
            return Decision::Fail(libc::EIO);
        }
        Decision::GoOn
    });
    // Whoever is refused lives on, while another one opens a file.
    let path = folder.path().display();
    let script = format!("cd {path}; (echo >refused; sleep 600) & sleep 0.3; echo >b; kill $!");
    let both = Both(OneAtATime::default(), second);
    let traced = trace_by(bash(&script), both).expect("started");
    wait_for("the other one goes on", || folder.path().join("b").exists());
    traced.kill();
    traced.wait().expect("traced");
    assert!(!folder.path().join("refused").exists());
}

#[test]
fn signals_of_all_kinds_arrive() {
    let folder = folder();
    let script = "trap 'echo >first' RTMIN+3; trap 'echo >last' RTMAX; trap 'echo >user' USR1
        kill -s RTMIN+3 $$; kill -s RTMAX $$; kill -s USR1 $$; test -e first -a -e last -a -e user";
    let status = run(folder.path(), script, |_, _| Decision::GoOn);
    assert!(status.success(), "{status}");
}

/// Has a call refused in this thread, and in all that come of it, as a container may.
fn forbid(call: c_long) {
    let step = |code: u32, k: u32| sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let number = step(
        BPF_LD | BPF_W | BPF_ABS,
        offset_of!(libc::seccomp_data, nr) as u32,
    );
    let other = sock_filter {
        jf: 1,
        ..step(BPF_JMP | BPF_JEQ | BPF_K, call as u32)
    };
    let refuse = step(
        BPF_RET | BPF_K,
        libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
    );
    let allow = step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW);
    system::install_filter(&[number, other, refuse, allow]).expect("installed");
}

#[test]
fn a_machine_that_forbids_to_look_is_told_before_the_program_runs() {
    let calls = [
        ("ptrace", libc::SYS_ptrace),
        ("seccomp", libc::SYS_seccomp),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("openat2", libc::SYS_openat2),
    ];
    for (name, number) in calls {
        let tracing = move || {
            forbid(number);
            let started = trace("true", |_, _| Decision::GoOn);
            started.map(drop)
        };
        let said = std::thread::spawn(tracing)
            .join()
            .expect("it ends")
            .expect_err("it is forbidden")
            .to_string();
        let expected = format!("failed to trace the processes of node: {name}(2)");
        assert!(
            said.starts_with(&expected) && said.contains("SYS_PTRACE"),
            "{said}"
        );
    }
}

#[test]
fn a_call_that_is_made_with_another_argument_looks_as_it_was_asked_for() {
    let folder = folder();
    // What is written is five bytes; of these two are, and then the rest.
    let mut left = 1;
    let (observer, seen) = scripted(move |origin, entry| {
        if origin.row.name != "write" || entry.arguments[2] != 5 || left == 0 {
            return Decision::GoOn;
        }
        left -= 1;
        let change = Change {
            argument: 2,
            value: 2,
        };
        Decision::Change(change, ())
    });
    let script = format!("cd {}; printf hello >f", folder.path().display());
    let status = trace_by(bash(&script), observer).expect("started").wait();
    assert!(status.expect("traced").success());
    let made = seen.lock().expect("whole").made[&("write", 2)];
    let written = std::fs::read_to_string(folder.path().join("f")).expect("there");
    assert_eq!((made, written.as_str()), (1, "hello"));
}

/// Holds whoever has made a directory `a`, until it is told otherwise.
struct HoldsAfter(Arc<AtomicBool>);

impl Observer for HoldsAfter {
    type Kept = ();
    type Output = ExitStatus;
    type Error = Error;

    fn entry(&mut self, origin: &Origin, entry: &Entry) -> Decision<()> {
        let path = usize::from(origin.row.name == "mkdirat");
        let is_a = text(origin.thread, entry.arguments[path]).is_some_and(|path| path == b"a");
        if origin.row.name.starts_with("mkdir") && is_a {
            return Decision::ToExit(());
        }
        Decision::GoOn
    }

    fn exit(&mut self, _: &Origin, _: &Entry, (): (), _: i64) -> After {
        After::Hold
    }

    fn leave(&mut self, _: pid_t) -> After {
        if self.0.load(Ordering::SeqCst) {
            After::GoOn
        } else {
            After::Hold
        }
    }

    fn abandoned(&mut self, _: &Origin, _: &Entry, (): ()) {}

    fn finish(self, status: ExitStatus, _: &StackTable) -> Result<ExitStatus> {
        Ok(status)
    }
}

#[test]
fn a_thread_that_is_held_after_its_call_has_made_it_and_does_nothing_else() {
    let folder = folder();
    let may = Arc::<AtomicBool>::default();
    let script = format!(
        "cd {}; {{ mkdir a; mkdir c; }} & mkdir b; wait",
        folder.path().display()
    );
    let observer = HoldsAfter(Arc::clone(&may));
    let traced = trace_by(bash(&script), observer).expect("started");
    let is_there = |name: &str| folder.path().join(name).is_dir();
    wait_for("it is made", || is_there("a") && is_there("b"));
    traced.ask_again();
    std::thread::sleep(Duration::from_millis(50));
    assert!(!is_there("c") && !traced.has_ended());
    may.store(true, Ordering::SeqCst);
    traced.ask_again();
    assert!(traced.wait().expect("traced").success() && is_there("c"));
}

/// Says to this program that it is the one with few descriptors.
const FEW_DESCRIPTORS: &str = "CRASHPOINT_TEST_FEW_DESCRIPTORS";

/// Each process that is followed needs a descriptor. The limit is that of a process: this is one of its own.
#[test]
fn what_cannot_be_followed_goes_on_and_that_is_said() {
    if std::env::var_os(FEW_DESCRIPTORS).is_none() {
        let own = std::env::current_exe().expect("this program");
        let name = "tests::what_cannot_be_followed_goes_on_and_that_is_said";
        let mut command = Command::new(own);
        command.args([name, "--exact", "--nocapture"]);
        let mut child = command.env(FEW_DESCRIPTORS, "1").spawn().expect("it runs");
        let begun = Instant::now();
        while child.try_wait().expect("it is ours").is_none() {
            if begun.elapsed() > Duration::from_secs(60) {
                child.kill().expect("killed");
                panic!("it waits for what is not followed");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(child.wait().expect("it is ours").success());
        return;
    }
    setrlimit(Resource::RLIMIT_NOFILE, 40, 40).expect("set");
    let (observer, seen) = scripted(|_, _| Decision::GoOn);
    let script = "for i in {1..80}; do sleep 0.5 & done; wait";
    let traced = trace_by(bash(script), observer).expect("started");
    assert!(traced.wait().expect("traced").success());
    let unseen = seen.lock().expect("whole").unseen.clone();
    let words = "a thread that could not be followed";
    assert!(unseen.contains(words), "{unseen:?}");
}
