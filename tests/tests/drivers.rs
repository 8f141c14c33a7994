//! File systems that a process serves: fuse2fs and ntfs-3g. Needs root.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use block_dev::{FrontEnd, Image, MemfdDisk};
use checker::Promise;
use end_to_end::{
    Laboratory, Report, Running, crashpoint, drivers, in_own_namespace, replay_with, require_root,
    said, wait_until,
};
use local_fs::{Mounted, Variant, enter_mount_namespace};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pace_rules::disk::Disk;
use replayer::WorkloadResult;
use serde_json::Value;
use workloads::{Workload, parse};

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

const DRIVERS: [&str; 2] = ["fuse2fs", "ntfs-3g"];

fn seq_1(driver: &str, options: &[&str]) -> Report {
    require_root();
    let sweep = [
        "fs", "--preset", "seq-1", "--jobs", "2", "--format", "json", "--fs", driver,
    ];
    Report::of(crashpoint().args(sweep).args(options))
}

/// A part of seq-1; all of it is in make test-long.
const PART: [&str; 4] = ["--sample", "30", "--seed", "1"];

fn workload(text: &str) -> Workload {
    parse(text, "test").expect("a workload").remove(0)
}

/// ntfs-3g has no fallocate at all.
fn clean_on_ntfs_3g(options: &[&str], with_fallocate: u64) {
    let report = seq_1("ntfs-3g", options);
    report.assert_clean();
    assert_eq!(
        report.total("not_applicable"),
        with_fallocate,
        "{:?}",
        report.summaries
    );
}

#[test]
fn a_part_of_seq_1_is_clean_on_ntfs_3g_but_for_fallocate_which_it_has_not() {
    clean_on_ntfs_3g(&PART, 13);
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn seq_1_is_clean_on_ntfs_3g_but_for_fallocate_which_it_has_not() {
    clean_on_ntfs_3g(&[], 120);
}

/// The release of fuse2fs whose answers these are.
const KNOWN_FUSE2FS: &str = "fuse2fs 1.47.0 ";

/// fuse2fs answers fsync of a directory, and does nothing: docs/results.md.
#[test]
fn a_part_of_seq_1_on_fuse2fs_shows_that_fsync_of_a_directory_does_nothing_and_no_more() {
    shown_on_fuse2fs(&PART, 6);
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn seq_1_on_fuse2fs_shows_that_fsync_of_a_directory_does_nothing_and_no_more() {
    shown_on_fuse2fs(&[], 48);
}

fn shown_on_fuse2fs(options: &[&str], with_zero_range: u64) {
    let report = seq_1("fuse2fs", options);
    assert_eq!(
        report.total("inconclusive"),
        0,
        "{:?}",
        report.with_verdict("inconclusive")
    );
    assert_eq!(
        report.total("not_applicable"),
        with_zero_range,
        "zero_range alone: {:?}",
        report.summaries
    );
    for result in &report.results {
        for finding in findings(result) {
            let text = result["text"].as_str().expect("it is there with a finding");
            let workload = workload(text);
            let number = finding["promised_by"]
                .as_u64()
                .expect("an operation promised it") as usize;
            let op = workload
                .operations()
                .nth(number)
                .expect("it is one of them")
                .to_string();
            let directory = op
                .strip_prefix("fsync ")
                .unwrap_or_else(|| panic!("{op} in {text}: {finding}"));
            assert!(
                text.contains(&format!("mkdir {directory};")) || directory == ".",
                "{op} in {text}: {finding}"
            );
        }
    }
    if report.with_verdict("finding").is_empty() {
        let version = Command::new("fuse2fs").arg("-V").output().expect("it runs");
        let version = said(&version);
        assert!(!version.contains(KNOWN_FUSE2FS), "nothing was found");
        println!("{version} syncs directories: it can be expected to be clean");
    }
}

fn findings(result: &Value) -> impl Iterator<Item = &Value> {
    let states = result["broken"].as_array().into_iter().flatten();
    states.flat_map(|state| state["findings"].as_array().into_iter().flatten())
}

const FSYNCED: &str = "
    workload data; creat foo; write foo 0 16K; fsync foo
    workload name; mkdir A; creat A/foo; fsync A/foo
    workload overwrite; setup; creat foo; write foo 0 16K; run; write foo 0 16K; fdatasync foo
";

#[test]
fn what_was_fsynced_is_found_on_an_honest_disk_and_missed_on_one_that_drops_flushes() {
    require_root();
    for driver in DRIVERS {
        replay_with(driver, &[], FSYNCED).assert_clean();
        let report = replay_with(driver, &["--disk", "drop-flush"], FSYNCED);
        assert_eq!(
            report.with_verdict("finding").len(),
            3,
            "{driver}: {:?}",
            report.broken()
        );
    }
}

#[test]
fn nothing_is_expected_of_a_sync_that_does_not_reach_the_driver() {
    require_root();
    for driver in DRIVERS {
        let report = replay_with(
            driver,
            &["--disk", "drop-flush"],
            "workload sync; mkdir A; creat A/foo; sync",
        );
        report.assert_clean();
    }
}

/// Does a workload, and something to each file system that recovered from its crash.
fn tampered(
    driver: &str,
    text: &str,
    tamper: impl FnMut(&Path) + Send + 'static,
) -> WorkloadResult {
    require_root();
    in_own_namespace(|| Laboratory::new(driver).tamper(&workload(text), tamper))
}

fn promises(result: &WorkloadResult) -> Vec<Promise> {
    result
        .broken
        .iter()
        .flat_map(|state| &state.findings)
        .map(|finding| finding.promise)
        .collect()
}

#[test]
fn the_setup_is_durable_because_it_was_unmounted() {
    for driver in DRIVERS {
        let text = "workload setup; setup; creat foo; write foo 0 4K; run; creat bar; sync";
        let result = tampered(driver, text, |root| {
            std::fs::remove_file(root.join("foo")).expect("removed");
        });
        assert_eq!(result.inconclusive, None, "{driver}");
        assert!(
            promises(&result).contains(&Promise::Unmounted),
            "{driver}: {:?}",
            result.broken
        );
    }
}

#[test]
fn a_disk_that_a_driver_does_not_mount_is_unmountable_and_a_wrong_option_is_not_the_disks_fault() {
    require_root();
    // ntfs-3g passes over what it does not know.
    for (driver, wrong_option) in [("fuse2fs", "no_such_option"), ("ntfs-3g", "uid=nobody")] {
        in_own_namespace(|| {
            let laboratory = Laboratory::new(driver);
            let mut disk = MemfdDisk::new(laboratory.base()).expect("a disk");
            let mount = |disk: &MemfdDisk, text: &str| {
                let variant = Variant::parse_list(text).expect("a variant").remove(0);
                Mounted::new(&variant, disk.device(), &laboratory.path().join("mounted"))
                    .expect_err("it is refused")
            };
            std::fs::create_dir(laboratory.path().join("mounted")).expect("made");
            let error = mount(&disk, &format!("{driver}:{wrong_option}"));
            assert_eq!(error.unmountable(), None, "{error}");
            let mut image = Image::new(Arc::clone(laboratory.base()));
            image.discard(0, laboratory.base().size_bytes());
            disk.load(&image).expect("loaded");
            let error = mount(&disk, driver);
            let why = error.unmountable().unwrap_or_else(|| panic!("{error}"));
            assert!(why.contains(driver) && !why.contains("/dev/loop"), "{why}");
            assert!(drivers(laboratory.path()).is_empty(), "{driver}");
        });
    }
}

/// Sends a signal to the driver of what is mounted there.
fn hit(mount_point: &Path, signal: Signal) {
    let drivers = drivers(mount_point);
    assert_eq!(drivers.len(), 1, "{}", mount_point.display());
    kill(Pid::from_raw(drivers[0]), signal).expect("it is there");
}

#[test]
fn a_driver_that_crashes_after_recovery_is_a_finding_and_the_next_workload_is_measured() {
    require_root();
    for driver in DRIVERS {
        in_own_namespace(|| {
            let mut laboratory = Laboratory::new(driver);
            let mut engine = laboratory.engine(Disk::Honest);
            let mut once = true;
            engine.on_recovered(Box::new(move |root| {
                if std::mem::take(&mut once) {
                    hit(root, Signal::SIGSEGV);
                }
            }));
            let text = "workload crash; creat foo; write foo 0 4K; fsync foo";
            let crashed = engine.run(&workload(text));
            assert_eq!(
                promises(&crashed),
                [Promise::DriverAlive],
                "{driver}: {crashed:?}"
            );
            assert!(
                crashed.broken[0].findings[0].what.contains("SIGSEGV"),
                "{driver}: {crashed:?}"
            );
            let next = engine.run(&workload(text));
            assert!(
                next.broken.is_empty() && next.inconclusive.is_none(),
                "{driver}: {next:?}"
            );
        });
    }
}

#[test]
fn a_driver_that_is_killed_accuses_nobody() {
    for driver in DRIVERS {
        let text = "workload kill; creat foo; fsync foo";
        let result = tampered(driver, text, |root| hit(root, Signal::SIGKILL));
        assert!(result.broken.is_empty(), "{driver}: {result:?}");
        let why = result.inconclusive.expect("it could not be measured");
        assert!(why.contains("was killed by somebody"), "{driver}: {why}");
    }
}

#[test]
fn a_driver_that_dies_while_a_workload_runs_leaves_that_unmeasured_and_the_next_one_measured() {
    require_root();
    let long = format!(
        "workload long; creat foo; {} !",
        "write foo 0 4K; fsync foo; ".repeat(5000)
    );
    for driver in DRIVERS {
        in_own_namespace(|| {
            let mut laboratory = Laboratory::new(driver);
            let recorded = laboratory.path().join("engine-1/recorded");
            let mut engine = laboratory.engine(Disk::Honest);
            let crasher = std::thread::spawn(move || crash_when_mounted(&recorded));
            let result = engine.run(&workload(&long));
            crasher.join().expect("there was a driver");
            assert!(result.broken.is_empty(), "{driver}: {:?}", result.broken);
            let why = result.inconclusive.expect("it could not be measured");
            assert!(
                why.contains(driver) && why.contains("SIGSEGV"),
                "{driver}: {why}"
            );
            let next = engine.run(&workload(
                "workload next; creat foo; write foo 0 4K; fsync foo",
            ));
            assert!(
                next.broken.is_empty() && next.inconclusive.is_none(),
                "{driver}: {next:?}"
            );
        });
    }
}

fn crash_when_mounted(mount_point: &Path) {
    // What the workload does first; the rest of it takes longer than to notice that.
    let made = mount_point.join("foo");
    let what = format!("{} is made", made.display());
    wait_until(&what, PATIENCE, || made.exists());
    hit(mount_point, Signal::SIGSEGV);
}

#[test]
fn what_cannot_be_kept_open_in_the_setup_is_told() {
    require_root();
    let report = replay_with(
        "fuse2fs",
        &[],
        "workload open; setup; creat foo; open foo as @h; run; fsync @h",
    );
    let why = report.results[0]["inconclusive"]
        .as_str()
        .expect("it could not be measured");
    assert!(why.contains("@h"), "{why}");
}

#[test]
fn files_that_are_removed_while_open_are_not_judged() {
    let text = "workload open; setup; creat foo; run; open foo as @h; unlink foo; fsync @h";
    require_root();
    for driver in DRIVERS {
        let report = replay_with(driver, &[], text);
        assert_eq!(
            report.with_verdict("not-applicable").len(),
            1,
            "{driver}: {:?}",
            report.results
        );
        assert_eq!(report.status, 0, "{driver}");
    }
}

/// Set for a process that mounts a file system of this driver and is killed then.
const DRIVER: &str = "CRASHPOINT_TEST_DRIVER";

/// Whoever leaves a mount namespace last unmounts what is in it, and a driver would wait for
/// itself.
#[test]
fn a_driver_that_is_the_last_one_in_its_mount_namespace_can_be_killed() {
    if let Ok(driver) = std::env::var(DRIVER) {
        leave_a_driver_alone(&driver);
    }
    require_root();
    for driver in DRIVERS {
        let temporary = tempfile::tempdir().expect("a directory");
        let test = "a_driver_that_is_the_last_one_in_its_mount_namespace_can_be_killed";
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        command
            .args(["--exact", test])
            .env(DRIVER, driver)
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::null());
        let mut starter = Running::start(&mut command);
        let ready = temporary.path().join("ready");
        wait_until(&format!("{driver} serves"), PATIENCE, || ready.exists());
        let serving = drivers(temporary.path());
        assert_eq!(serving.len(), 1, "{driver}");
        starter.kill().expect("it is there");
        starter.end();
        let ends = format!("{driver} ends");
        wait_until(&ends, PATIENCE, || has_ended(serving[0]));
    }
}

/// Whether it is gone, or all but waited for.
fn has_ended(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

/// Mounts in a mount namespace, and leaves that: but for the driver there is only the thread that
/// listens to it, with whose end it is killed.
fn leave_a_driver_alone(driver: &str) -> ! {
    let outside = File::open("/proc/thread-self/ns/mnt").expect("there are namespaces");
    let ready = std::env::temp_dir().join("ready");
    enter_mount_namespace().expect("root");
    let laboratory = Laboratory::new(driver);
    let disk = MemfdDisk::new(laboratory.base()).expect("a disk");
    let path = laboratory.path().join("mounted");
    std::fs::create_dir(&path).expect("made");
    let variant = &Variant::parse_list(driver).expect("a variant")[0];
    let _mounted = Mounted::new(variant, disk.device(), &path).expect("mounted");
    // Who shares its working directory cannot go elsewhere.
    unshare(CloneFlags::CLONE_FS).expect("unshare");
    setns(&outside, CloneFlags::CLONE_NEWNS).expect("setns");
    File::create(ready).expect("created");
    loop {
        std::thread::park();
    }
}
