//! A sweep that is stopped leaves nothing behind, and `crashpoint clean` finds what one that was
//! killed left. Only what carries the mark of a process that the test started is looked at.
//! Needs root.
//!
//! `clean` itself touches more: what any run on this machine left whose process is gone, which is
//! directories in TMPDIR, /tmp and /dev/shm, loop devices, FUSE connections and trace instances. A
//! test that kills a run and needs what is left of it gives it a TMPDIR of its own.

use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use end_to_end::{
    FILE_SYSTEMS, Family, Running, crashpoint, drivers, leftovers, program, require_root, settle,
    wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Tests that wait for something to happen in time do it one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sweep that would take minutes.
struct Sweep {
    process: Running,
    family: Family,
}

impl Sweep {
    fn start(temporary: &Path) -> Self {
        Self::of("ext4", "honest", temporary)
    }

    fn of(file_system: &str, disk: &str, temporary: &Path) -> Self {
        let mut command = Command::new(program("crashpoint"));
        command
            .args([
                "fs",
                "--fs",
                file_system,
                "--preset",
                "seq-2",
                "--jobs",
                "2",
                "--disk",
                disk,
            ])
            .env("TMPDIR", temporary)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut this = Self {
            process: Running::start(&mut command),
            family: Family::default(),
        };
        // The parent and two workers, each with its disks.
        wait_until("the sweep has its workers and disks", PATIENCE, || {
            this.family = Family::of(this.process.id());
            this.family.len() >= 3 && this.devices() >= 4
        });
        std::thread::sleep(Duration::from_millis(300));
        this.family = Family::of(this.process.id());
        this
    }

    fn devices(&self) -> usize {
        let nowhere = tempfile::tempdir().expect("a directory");
        leftovers(&self.family, nowhere.path())
            .iter()
            .filter(|left| left.starts_with("loop device"))
            .count()
    }

    /// How it ended, and what it printed.
    fn end(&mut self) -> (ExitStatus, String) {
        let status = self.process.end();
        let mut printed = String::new();
        self.process
            .stdout
            .take()
            .expect("piped")
            .read_to_string(&mut printed)
            .expect("text");
        (status, printed)
    }
}

/// Two sweeps at once: each looks at its own.
#[test]
fn ctrl_c_and_sigterm_leave_nothing_behind() {
    require_root();
    let _alone = alone();
    let sweeps = [Signal::SIGINT, Signal::SIGTERM].map(|signal| {
        let temporary = tempfile::tempdir().expect("a directory");
        let sweep = Sweep::start(temporary.path());
        (signal, temporary, sweep)
    });
    for (signal, temporary, sweep) in &sweeps {
        assert!(
            !leftovers(&sweep.family, temporary.path()).is_empty(),
            "what would be left is not seen"
        );
        sweep.process.send(*signal);
    }
    for (signal, temporary, mut sweep) in sweeps {
        let (status, printed) = sweep.end();
        assert!(matches!(status.code(), Some(3 | 1)), "{signal}: {status}");
        assert!(
            printed.lines().any(|line| line.starts_with("ext4")),
            "{signal}: no table: {printed}"
        );
        let left = settle(&sweep.family, temporary.path(), <[_]>::is_empty);
        assert!(left.is_empty(), "{signal}: {left:#?}");
    }
}

#[test]
fn a_sweep_that_is_killed_while_its_disks_hold_answers_back_leaves_no_process_and_no_device() {
    killed_while_disks_hold_answers_back(&["btrfs"]);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_killed_sweep_of_any_file_system_leaves_no_driver_no_process_and_no_device() {
    killed_while_disks_hold_answers_back(&FILE_SYSTEMS);
    stopped_with_its_driver(&["fuse2fs", "ntfs-3g"]);
}

/// Nothing that the system has to take away is left of a family that was killed.
#[track_caller]
fn assert_ended(family: &Family, temporary: &Path, file_system: &str) {
    let ended = |left: &[String]| {
        !left
            .iter()
            .any(|left| left.starts_with("process") || left.starts_with("loop"))
    };
    let left = settle(family, temporary, ended);
    assert!(ended(&left), "{file_system}: {left:#?}");
}

fn killed_while_disks_hold_answers_back(file_systems: &[&str]) {
    require_root();
    let _alone = alone();
    for file_system in file_systems {
        let temporary = tempfile::tempdir().expect("a directory");
        let mut sweep = Sweep::of(file_system, "lazy", temporary.path());
        sweep.process.send(Signal::SIGKILL);
        sweep.end();
        assert_ended(&sweep.family, temporary.path(), file_system);
    }
}

#[test]
fn clean_removes_what_a_killed_sweep_left_and_leaves_a_living_one_alone() {
    require_root();
    let _alone = alone();
    let temporary = tempfile::tempdir().expect("a directory");
    let clean = || {
        let output = crashpoint()
            .arg("clean")
            .env("TMPDIR", temporary.path())
            .assert()
            .success();
        String::from_utf8_lossy(&output.get_output().stdout).into_owned()
    };
    let decoy = Decoy::new(temporary.path());
    let mut living = Sweep::start(temporary.path());
    let mut killed = Sweep::start(temporary.path());
    killed.process.send(Signal::SIGKILL);
    killed.end();
    // Its own directory is what a parent cannot take away; the rest ends with it.
    let mark = format!("crashpoint-{}-", killed.process.id());
    let ended = |left: &[String]| {
        !left
            .iter()
            .any(|left| left.starts_with("process") || left.starts_with("loop"))
    };
    let left = settle(&killed.family, temporary.path(), ended);
    assert!(ended(&left), "{left:#?}");
    assert!(
        left.iter().any(|left| left.contains(&mark)),
        "nothing was left: {left:#?}"
    );

    let said = clean();
    assert!(said.contains(&mark), "{said}");
    let left = leftovers(&killed.family, temporary.path());
    assert!(!left.iter().any(|left| left.contains(&mark)), "{left:#?}");
    decoy.is_untouched();

    // The other one is still at work, and ends as it should.
    assert!(!living.process.has_ended(), "clean ended a living sweep");
    assert!(
        !said.contains(&format!("crashpoint-{}-", living.process.id())),
        "{said}"
    );
    living.process.send(Signal::SIGINT);
    let (status, _) = living.end();
    assert!(matches!(status.code(), Some(3 | 1)), "{status}");
    drop(decoy);
    let left = settle(&living.family, temporary.path(), <[_]>::is_empty);
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn no_driver_outlives_a_killed_sweep_not_even_one_that_was_stopped() {
    stopped_with_its_driver(&["fuse2fs"]);
}

/// What waits for a driver cannot be killed before the driver answers, or is killed itself.
fn stopped_with_its_driver(file_systems: &[&str]) {
    require_root();
    let _alone = alone();
    for file_system in file_systems {
        let temporary = tempfile::tempdir().expect("a directory");
        let mut sweep = Sweep::of(file_system, "honest", temporary.path());
        let mut stopped = None;
        wait_until("there is a driver", PATIENCE, || {
            stopped = drivers(temporary.path())
                .first()
                .map(|pid| Pid::from_raw(*pid));
            // It may have ended since.
            stopped.is_some_and(|driver| kill(driver, Signal::SIGSTOP).is_ok())
        });
        std::thread::sleep(Duration::from_millis(300));
        sweep.family = Family::of(sweep.process.id());
        for pid in sweep
            .family
            .pids()
            .filter(|pid| Some(Pid::from_raw(*pid)) != stopped)
        {
            // A driver may have ended since.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        sweep.end();
        assert_ended(&sweep.family, temporary.path(), file_system);
        crashpoint()
            .arg("clean")
            .env("TMPDIR", temporary.path())
            .assert()
            .success();
        let left = leftovers(&sweep.family, temporary.path());
        assert!(left.is_empty(), "{file_system}: {left:#?}");
    }
}

/// Things like ours without our mark: a loop device and a directory.
struct Decoy {
    device: String,
    directory: std::path::PathBuf,
    file: std::path::PathBuf,
}

impl Decoy {
    fn new(folder: &Path) -> Self {
        let (directory, file) = (folder.join("crashpointer-1-x"), folder.join("decoy"));
        std::fs::create_dir(&directory).expect("made");
        std::fs::write(&file, vec![0; 1 << 20]).expect("written");
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&file)
            .output()
            .expect("losetup runs");
        assert!(output.status.success(), "{output:?}");
        Self {
            device: String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            directory,
            file,
        }
    }

    fn is_untouched(&self) {
        assert!(self.directory.is_dir() && self.file.is_file());
        let shown = Command::new("losetup")
            .arg(&self.device)
            .output()
            .expect("losetup runs");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains("decoy"), "{} is gone: {shown}", self.device);
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .args(["--detach", &self.device])
            .status();
        let _ = std::fs::remove_dir(&self.directory);
        let _ = std::fs::remove_file(&self.file);
    }
}
