//! What cannot be done is answered with one line that says what to do, status 2, and nothing is
//! left behind. Needs root, if only to give it up.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use end_to_end::{link_to_run, program, require_root};

/// The output of a program that must refuse, run with a directory of its own for its files.
fn refusal(command: &mut Command) -> String {
    let temporary = tempfile::tempdir().expect("a directory");
    // Whoever runs it may write there.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(temporary.path(), everybody).expect("changed");
    let output: Output = command
        .env("TMPDIR", temporary.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{command:?}: {said}");
    assert!(said.starts_with("error: "), "{command:?}: {said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{command:?}");
    let left: Vec<_> = std::fs::read_dir(temporary.path())
        .expect("read")
        .flatten()
        .collect();
    assert!(left.is_empty(), "{command:?} left {left:?}");
    said
}

fn crashpoint(arguments: &[&str]) -> Command {
    let mut command = Command::new(program("crashpoint"));
    command.args(arguments);
    command
}

/// Runs it where `script` was done before, in a mount namespace of its own.
fn in_a_world(script: &str, arguments: &str) -> Command {
    let mut command = Command::new("unshare");
    let line = format!(
        "{script} && exec {} {arguments}",
        program("crashpoint").display()
    );
    command.args(["--mount", "--propagation", "private", "sh", "-c", &line]);
    command
}

#[track_caller]
fn says(said: &str, expected: &[&str]) {
    for part in expected {
        assert!(said.contains(part), "it does not say '{part}': {said}");
    }
}

#[test]
fn somebody_else_than_root() {
    require_root();
    // Where everybody may run it: the target folder may be closed to others.
    let folder = tempfile::tempdir().expect("a directory");
    let everybody = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody()).expect("changed");
    let linked = folder.path().join("crashpoint");
    link_to_run(&program("crashpoint"), &linked);
    let mut command = Command::new(&linked);
    command
        .args(["fs", "--fs", "ext4", "--ops", "1"])
        .uid(65534)
        .gid(65534)
        .current_dir("/");
    says(&refusal(&mut command), &["root is needed", "sudo"]);
}

#[test]
fn an_unknown_file_system() {
    require_root();
    says(
        &refusal(&mut crashpoint(&["fs", "--fs", "zfs", "--ops", "1"])),
        &["zfs", "ext4, xfs, btrfs"],
    );
}

#[test]
fn an_unknown_operation_has_a_place() {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("bad.wl");
    std::fs::write(&file, "creat foo\n  wriet foo 0 10\n").expect("written");
    let said = refusal(&mut crashpoint(&[
        "fs",
        "--fs",
        "ext4",
        file.to_str().expect("text"),
    ]));
    says(&said, &["bad.wl:2:3", "wriet", "write"]);
}

#[test]
fn files_that_cannot_be_read() {
    require_root();
    for path in ["/nowhere/at/all.wl", "/proc/self", "/dev/null"] {
        says(
            &refusal(&mut crashpoint(&["fs", "--fs", "ext4", path])),
            &[path],
        );
    }
}

#[test]
fn a_disk_that_is_too_small() {
    require_root();
    for (file_system, size, needed) in [
        ("ext4", "2", "8"),
        ("xfs", "64", "300"),
        ("btrfs", "64", "110"),
    ] {
        let said = refusal(&mut crashpoint(&[
            "fs",
            "--fs",
            file_system,
            "--ops",
            "1",
            "--size",
            size,
        ]));
        says(&said, &[file_system, needed]);
    }
}

#[test]
fn results_that_are_there_already() {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let results = folder.path().join("results.jsonl");
    std::fs::write(&results, "{\"type\":\"result\"}\n").expect("written");
    let out = folder.path().to_str().expect("text");
    says(
        &refusal(&mut crashpoint(&[
            "fs", "--fs", "ext4", "--ops", "1", "--all", "--out", out,
        ])),
        &[out],
    );
    assert_eq!(
        std::fs::read_to_string(results).expect("read"),
        "{\"type\":\"result\"}\n"
    );
}

#[test]
fn a_missing_program() {
    require_root();
    for (file_system, tool, package) in [
        ("ext4", "mkfs.ext4", "e2fsprogs"),
        ("xfs", "mkfs.xfs", "xfsprogs"),
        ("btrfs", "mkfs.btrfs", "btrfs-progs"),
    ] {
        let path = local_fs::find_program(tool).expect("it is installed");
        let hide = format!("mount --bind /dev/null {}", path.display());
        let said = refusal(&mut in_a_world(
            &hide,
            &format!("fs --fs {file_system} --ops 1"),
        ));
        says(&said, &[tool, package]);
    }
}

#[test]
fn a_missing_device() {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let nothing = folder.path().join("nothing");
    std::fs::write(&nothing, "").expect("written");
    for (device, module) in [
        ("/dev/fuse", "modprobe fuse"),
        ("/dev/loop-control", "modprobe loop"),
    ] {
        let hide = format!("mount --bind {} {device}", nothing.display());
        says(
            &refusal(&mut in_a_world(&hide, "fs --fs ext4 --ops 1")),
            &[device, module],
        );
    }
}

#[test]
fn a_full_disk_for_results() {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let kept = folder.path().join("kept.jsonl");
    let path = folder.path().display();
    // It fills up in the middle of the sweep; what it holds then is looked at afterwards.
    let script = format!(
        "mkdir {path}/small && mount -t tmpfs -o size=24k small {path}/small || exit 9
         {} fs --fs ext4 --ops 1 --jobs 2 --out {path}/small/out >/dev/null
         status=$?; cat {path}/small/out/results.jsonl > {}; exit $status",
        program("crashpoint").display(),
        kept.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.starts_with("error: "))
            .count(),
        1,
        "{said}"
    );
    says(&said, &["No space left on device"]);
    whole_lines(&kept);
}

fn whole_lines(path: &Path) {
    let text = std::fs::read_to_string(path).expect("read");
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "the last line is cut: {text}"
    );
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("every line is an object");
    }
}

#[test]
fn a_reader_that_has_had_enough() {
    require_root();
    let [crashpoint, replay] =
        ["crashpoint", "replay"].map(|name| program(name).display().to_string());
    for command in [
        format!("{crashpoint} fs --ops 1 --fs ext4 --jobs 1"),
        format!("{replay} --fs ext4 --jobs 1"),
        format!("{crashpoint} doctor --fs ext4"),
    ] {
        let line = format!(
            "echo 'creat foo; sync' | {command} --format json | true; exit ${{PIPESTATUS[1]}}"
        );
        let output = Command::new("bash")
            .args(["-c", &line])
            .output()
            .expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_driver_that_is_missing_or_cannot_be_tested() {
    require_root();
    let arguments = |file_system| ["fs", "--ops", "1", "--fs", file_system];
    for driver in ["fuse2fs", "ntfs-3g"] {
        let said = refusal(crashpoint(&arguments(driver)).env("PATH", "/nowhere"));
        assert!(
            said.contains(&format!(
                "{driver} is missing; install it with `apt-get install {driver}`"
            )),
            "{said}"
        );
        let said = refusal(crashpoint(&arguments(driver)).args(["--kernel", "uml"]));
        assert!(said.contains("a FUSE file system"), "{said}");
    }
    let said = refusal(&mut crashpoint(&arguments("fuse2fs:ro")));
    assert!(said.contains("nothing can be written to it"), "{said}");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/b3/generic_034.wl"
    );
    let said = refusal(&mut crashpoint(&[
        "fs",
        "--fs",
        "fuse2fs:no_such_option",
        file,
    ]));
    assert!(said.contains("unknown option `no_such_option'"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_done() {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
    std::fs::write(
        path("large.wl"),
        "creat foo; write foo 0 99999999999M; fsync foo\n",
    )
    .expect("written");
    std::fs::create_dir(path("full"))
        .and_then(|()| std::fs::write(path("full/letter"), "dear"))
        .expect("written");
    let fs = ["fs", "--fs", "ext4"];
    let one = [&fs[..], &["--ops", "1", "--range", "0..1"]].concat();
    let large = refusal(&mut crashpoint(&[&fs[..], &[&path("large.wl")]].concat()));
    says(
        &large,
        &[
            "large.wl:1:24: 99999999999M is too large",
            "at most 1073741824",
        ],
    );
    says(
        &refusal(&mut crashpoint(&[&one[..], &["--sample", "0"]].concat())),
        &["--sample", "0 is not in 1"],
    );
    let full = refusal(&mut crashpoint(
        &[&one[..], &["--out", &path("full")]].concat(),
    ));
    says(
        &full,
        &["full has other files in it, such as letter", "--out"],
    );
    assert_eq!(std::fs::read_dir(path("full")).expect("read").count(), 1);
    let sweep = refusal(&mut crashpoint(&["cluster", "sweep", &path("full")]));
    says(&sweep, &["full is no trace", "crashpoint cluster record"]);
    let file = path("full/letter");
    let sweep = refusal(&mut crashpoint(&["cluster", "sweep", &file]));
    says(&sweep, &["letter is a file, and no trace", "--live"]);
    let sweep = refusal(&mut crashpoint(&["cluster", "sweep", &file, "--simulate"]));
    says(&sweep, &["--live"]);
    let disk = refusal(&mut crashpoint(&[
        "app",
        "--disk",
        "ext5",
        "--check",
        "true",
        "--",
        "touch",
        "{dir}/file",
    ]));
    says(&disk, &["unknown file system 'ext5'", "ext4, xfs, btrfs"]);
    assert!(
        !disk.contains("vfat") && !disk.contains("fuse2fs"),
        "{disk}"
    );
}

#[test]
fn a_selection_that_leaves_no_workload() {
    require_root();
    let sweep = ["fs", "--fs", "ext4", "--preset", "seq-1", "--range"];
    for range in ["400..500", "5..5"] {
        let said = refusal(&mut crashpoint(&[&sweep[..], &[range]].concat()));
        says(&said, &["none is left", "--range"]);
    }
}

/// The workload that cannot be read would be another shard's.
#[test]
fn a_stream_that_cannot_be_read_is_not_passed_by_any_shard() {
    require_root();
    let workloads =
        "workload a\ncreat x\nfsync x\n\nworkload b\nsink\n\nworkload c\ncreat y\nfsync y\n";
    let mut child = crashpoint(&["fs", "--fs", "ext4", "--shard", "1/2", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(workloads.as_bytes()).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    says(&said, &["unknown operation 'sink'"]);
}
