//! Findings written as tests for others: they can be run, find what was found, and accuse nobody
//! else.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use end_to_end::{is_known_kernel, printed, program, require_root, said};
use export::Crash;
use local_fs::{Variant, find};
use pace_rules::disk::Relaxation;
use replayer::{Findings, Found, FoundWhat};
use tempfile::TempDir;
use workloads::{Op, Step, Workload};

/// The workloads of a folder, by name.
fn workloads_of(folder: &str) -> Vec<Workload> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../workloads")
        .join(folder);
    let files = std::fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "wl"))
        .collect();
    files.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("readable");
        workloads::parse(&text, &path.display().to_string()).expect("workloads")
    };
    files.iter().flat_map(read).collect()
}

/// Where the power fails last.
fn last_crash(workload: &Workload) -> usize {
    let explicit = workload.run.contains(&Step::CrashPoint);
    let (mut done, mut last) = (workload.setup.len(), None);
    for step in &workload.run {
        match step {
            Step::Op(op) => {
                done += 1;
                last = if !explicit && op.is_persistence() {
                    Some(done)
                } else {
                    last
                };
            }
            Step::CrashPoint => last = Some(done),
        }
    }
    last.expect("the power fails somewhere")
}

fn crash<'a>(
    variant: &'a Variant,
    workload: &'a Workload,
    relaxation: &'a Relaxation,
) -> Crash<'a> {
    let operations_done = last_crash(workload);
    Crash {
        variant,
        workload,
        operations_done,
        under_way: false,
        relaxation,
        findings: &[],
        kernel: "6.18",
    }
}

fn variant(name: &str) -> Variant {
    Variant::plain(find(name).expect("known"))
}

/// Scripts that a shell looks at, and shellcheck at some of them.
struct Scripts {
    directory: TempDir,
    shell: &'static str,
    count: usize,
}

impl Scripts {
    fn new(shell: &'static str) -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
            shell,
            count: 0,
        }
    }

    fn add(&mut self, name: &str, script: &str, is_for_shellcheck: bool) {
        // Three thousand links are looked at for minutes.
        if script.len() > 50_000 {
            return;
        }
        self.count += 1;
        let path = self.directory.path().join(format!("{}-{name}", self.count));
        std::fs::write(&path, script).expect("written");
        let parsed = Command::new(self.shell)
            .arg("-n")
            .arg(&path)
            .output()
            .expect("it runs");
        assert!(
            parsed.status.success(),
            "{name}: {}\n{script}",
            said(&parsed)
        );
        if !is_for_shellcheck {
            std::fs::remove_file(path).expect("removed");
        }
    }

    /// It takes a while to start.
    fn assert_good(&self, excluded: &str) {
        let files = std::fs::read_dir(self.directory.path())
            .expect("readable")
            .map(|file| file.expect("one").path());
        let mut command = Command::new("shellcheck");
        let checked = command
            .args(["-S", "warning", "-e", excluded])
            .args(files)
            .output()
            .expect("it runs");
        assert!(checked.status.success(), "{}", printed(&checked));
    }
}

/// Those that no program does: what is done with a file without a name is done in one go.
const NOT_FOR_FSTESTS: [&str; 3] = ["btrfs_tmpfile_lost"; 3];
const NOT_FOR_SCRIPTS: [&str; 1] = ["xfs_exchange_lost"];

/// Exports every workload for each kind of state. Shells look at all scripts of a state that is a
/// prefix, and at the others of every `step`-th workload, of which shellcheck looks at each.
fn every_workload_is_exported(step: usize) {
    let btrfs = variant("btrfs");
    let (mut no_case, mut no_script) = (Vec::new(), Vec::new());
    let (mut cases, mut scripts) = (Scripts::new("bash"), Scripts::new("sh"));
    let all = [workloads_of("found"), workloads_of("b3")].concat();
    for (number, workload) in all.iter().enumerate() {
        let name = &workload.name;
        let is_one = number % step == 0;
        for relaxation in [
            Relaxation::Prefix,
            Relaxation::Flushed,
            Relaxation::Lost(vec![7]),
        ] {
            let mut crash = crash(&btrfs, workload, &relaxation);
            for under_way in [false, true] {
                // The one that was done last is in flight instead.
                crash.under_way = under_way;
                crash.operations_done = last_crash(workload) - usize::from(under_way);
                match export::fstests(&crash, "999") {
                    Ok(case) => {
                        let is_plain = relaxation == Relaxation::Prefix && !under_way;
                        if is_plain || is_one {
                            cases.add(name, &case.test, is_one);
                        }
                        assert_eq!(case.out, "QA output created by 999\nSilence is golden\n");
                    }
                    Err(_) => no_case.push(name.clone()),
                }
            }
        }
        match export::script(&crash(&btrfs, workload, &Relaxation::Prefix)) {
            Ok(script) => scripts.add(name, &script, is_one),
            Err(_) => no_script.push(name.clone()),
        }
    }
    // What fstests' own files define.
    cases.assert_good("SC1091,SC2154,SC2034");
    scripts.assert_good("SC2154");
    assert_eq!(no_case, NOT_FOR_FSTESTS);
    assert_eq!(no_script, NOT_FOR_SCRIPTS);
}

#[test]
fn every_workload_can_be_exported() {
    every_workload_is_exported(40);
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn every_workload_can_be_exported_in_each_state() {
    every_workload_is_exported(1);
}

/// Runs a script, which tries until it sees what was found; its exit status and what it said.
fn run_script(directory: &TempDir, script: &str) -> (Option<i32>, String) {
    run(directory, script, &mut Command::new("sh"))
}

/// Runs one try of a script. Where nothing is to be found, four more find as little.
fn run_once(directory: &TempDir, script: &str) -> (Option<i32>, String) {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh"]).env("ALONE", "yes");
    run(directory, script, &mut command)
}

fn run(directory: &TempDir, script: &str, shell: &mut Command) -> (Option<i32>, String) {
    let path = directory.path().join("script.sh");
    std::fs::write(&path, script).expect("written");
    let output = shell
        .arg(&path)
        .env("TMPDIR", directory.path())
        .output()
        .expect("it runs");
    assert_eq!(output.status.signal(), None);
    (output.status.code(), printed(&output) + &said(&output))
}

/// Some are thousands of lines.
fn start_of(script: &str) -> &str {
    const BYTES_MAX: usize = 8000;
    &script[..script.len().min(BYTES_MAX)]
}

/// ext4 and xfs keep every promise in these workloads: so a script that says otherwise demands too
/// much. Runs the scripts of every `step`-th workload of B3, on file systems that keep what they
/// promise.
fn scripts_of_b3(step: usize) -> usize {
    require_root();
    // Where a disk that is copied is never waited for.
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut count = 0;
    for file_system in ["ext4", "xfs"] {
        let variant = variant(file_system);
        for workload in workloads_of("b3").into_iter().step_by(step) {
            // One of them needs gigabytes.
            let Ok(script) = export::script(&crash(&variant, &workload, &Relaxation::Prefix))
            else {
                continue;
            };
            let (status, said) = run_once(&directory, &script);
            assert_eq!(
                status,
                Some(0),
                "{file_system} {}: {said}\n{}",
                workload.name,
                start_of(&script)
            );
            count += 1;
        }
    }
    count
}

#[test]
fn what_a_script_demands_sound_file_systems_keep() {
    assert!(scripts_of_b3(40) > 3);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn what_all_scripts_of_b3_demand_sound_file_systems_keep() {
    assert!(scripts_of_b3(1) > 100);
}

/// Sweeps what is in these files; what was found.
fn swept(results: &Path, options: &[&str], files: &[PathBuf]) -> Findings {
    let mut sweep = Command::new(program("crashpoint"));
    sweep.arg("fs").args(options).arg("--out").arg(results);
    let output = sweep.args(files).output().expect("it runs");
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        said(&output)
    );
    Findings::read(results).expect("results")
}

/// Exports a finding in a form.
fn exported(results: &Path, found: &Found, form: &str) -> Output {
    let mut command = Command::new(program("crashpoint"));
    command
        .arg("export")
        .arg(results)
        .args([&found.number.to_string(), "--as", form]);
    command.output().expect("it runs")
}

/// A case of fstests has the power fail with this command, and J-lang has all operations, if it has
/// words for them.
fn is_a_case_and_jlang(results: &Path, found: &Found, fails: &str) {
    let case = printed(&exported(results, found, "fstests"));
    assert!(
        case.starts_with("diff --git a/tests/") && case.contains(fails),
        "{case}"
    );
    let jlang = exported(results, found, "jlang");
    if !jlang.status.success() {
        let said = said(&jlang);
        assert!(said.contains("cannot be expressed in J-lang"), "{said}");
        return;
    }
    let read = workloads::parse_any(&printed(&jlang), "export")
        .expect("J-lang")
        .remove(0);
    let words = |workload: &Workload| workload.operations().map(Op::to_string).collect::<Vec<_>>();
    let wanted = words(&found.workload);
    let unsaid: Vec<_> = wanted
        .iter()
        .filter(|op| !words(&read).contains(op))
        .collect();
    assert!(unsaid.is_empty(), "{unsaid:?} of {}", printed(&jlang));
}

/// Every kernel has this one: what a disk loses that drops flushes.
#[test]
fn a_finding_of_a_disk_that_lies_is_exported_but_as_a_script_which_cannot_lose_writes() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let (results, file) = (
        directory.path().join("results"),
        directory.path().join("lost.wl"),
    );
    let text = "workload lost; mkdir A; creat A/foo; write A/foo 0 16K; fsync A/foo\n";
    std::fs::write(&file, text).expect("written");
    let options = ["--fs", "ext4", "--disk", "drop-flush"];
    let findings = swept(&results, &options, &[file]);
    assert!(!findings.all.is_empty());
    for found in &findings.all {
        is_a_case_and_jlang(&results, found, "\n+_log_writes_replay_log crash ");
        let script = exported(&results, found, "script");
        assert_eq!(script.status.code(), Some(2), "{}", printed(&script));
        let said = said(&script);
        assert!(said.contains("export it as fstests"), "{said}");
        assert!(
            said.contains("found on a disk that was drop-flush"),
            "{said}"
        );
    }
}

/// What is not synced is lost on every kernel: whoever finds it without its fsync looks at nothing.
#[test]
fn a_script_sees_what_is_missing() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let text = "workload synced; mkdir A; creat A/foo; write A/foo 0 16K; fsync A/foo\n";
    let workload = workloads::parse(text, "synced")
        .expect("a workload")
        .remove(0);
    let variant = variant("ext4");
    let script = export::script(&crash(&variant, &workload, &Relaxation::Prefix));
    let script = script.expect("it can be exported");
    let (status, text) = run_once(&directory, &script);
    assert_eq!(status, Some(0), "{text}\n{script}");
    let is_fsync = |line: &&str| line.starts_with("xfs_io ") && line.contains("fsync");
    let (fsyncs, others): (Vec<_>, Vec<_>) = script.lines().partition(is_fsync);
    assert_eq!(fsyncs.len(), 1, "{script}");
    let (status, text) = run_script(&directory, &(others.join("\n") + "\n"));
    assert_eq!(status, Some(1), "{text}\n{script}");
}

#[test]
fn a_script_shows_what_was_found_and_a_script_for_another_kernel_says_that_it_is_not_so() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let results = directory.path().join("results");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/found");
    let files = [
        "moved_file_lost",
        "preallocation_lost",
        "removed_name_back",
        "replaced_file_lost",
        "tmpfile_lost",
    ]
    .map(|name| folder.join(format!("btrfs_{name}.wl")));
    let options = ["--fs", "btrfs", "--states", "prefix"];
    let findings = swept(&results, &options, &files);
    if findings.all.is_empty() {
        assert!(!is_known_kernel(), "it breaks some of them");
        println!("this kernel breaks none of them: there is no script to try");
    }
    for found in &findings.all {
        let FoundWhat::State(_) = &found.what else {
            panic!("the kernel died")
        };
        let script = printed(&exported(&results, found, "script"));
        let (status, text) = run_script(&directory, &script);
        assert_eq!(status, Some(1), "{}: {text}\n{script}", found.workload.name);
        // The same on a file system that is not wrong.
        let sound = script
            .replace("mkfs.btrfs -q -f", "mkfs.ext4 -q -F")
            .replace("mount -t btrfs", "mount -t ext4");
        let sound = sound.replace("btrfs check --readonly", "e2fsck -f -n");
        let (status, text) = run_once(&directory, &sound);
        assert_eq!(status, Some(0), "{}: {text}\n{sound}", found.workload.name);
        is_a_case_and_jlang(&results, found, "\n+_flakey_drop_and_remount\n");
    }
}
