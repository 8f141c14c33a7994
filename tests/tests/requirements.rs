//! What the machine must have: the doctor looks at each row of the table, and a guest that does not
//! start is told why. Root is needed to take things away from somebody else.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use end_to_end::{Ordinary, crashpoint, objects, printed, require_root, said};
use nix::unistd::geteuid;
use serde_json::Value;

/// `true` in a guest.
const GUEST: [&str; 3] = ["machine", "--", "true"];

/// System calls of x86-64.
const PTRACE: &str = "101";
const PERSONALITY: &str = "135";

/// A command that runs another, after what these words of a shell do in mounts of its own.
fn in_own_mounts(before: &str, command: &Command) -> Command {
    let mut shell = Command::new("unshare");
    shell.args([
        "-m",
        "sh",
        "-c",
        &format!("mount --make-rprivate / && {before} && exec \"$@\""),
        "sh",
    ]);
    wrapped(shell, command)
}

/// The same as one whose arguments are a command.
fn wrapped(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.env_clear().envs(
        inner
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    outer
}

/// What is said by a guest that does not start.
#[track_caller]
fn refusal(mut command: Command) -> String {
    let output = command.output().expect("it runs");
    let said = said(&output);
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(2), 1),
        "{said}"
    );
    assert!(
        said.contains("does not start") && said.contains("; likely cause: "),
        "{said}"
    );
    said
}

fn forbidding(calls: &str, command: &Command) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/forbid.py");
    let mut python = Command::new("python3");
    python.args([script, calls]);
    wrapped(python, command)
}

fn limited(limit: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh"]);
    wrapped(shell, command)
}

/// The program as root has it: what is taken away here only root can.
fn of_root(arguments: &[&str]) -> (Ordinary, Command) {
    let place = Ordinary::new();
    let ordinary = place.crashpoint(arguments);
    let command = wrapped(Command::new("env"), &ordinary);
    (place, command)
}

#[test]
fn a_guest_without_the_right_to_trace_says_so() {
    let (_place, command) = of_root(&GUEST);
    let said = refusal(forbidding(PTRACE, &command));
    assert!(
        said.contains("ptrace: Operation not permitted") && said.contains("--cap-add SYS_PTRACE"),
        "{said}"
    );
}

#[test]
fn virtual_time_without_the_right_to_fixed_addresses_says_so() {
    let (place, _) = of_root(&GUEST);
    let kernel = place.virtual_time();
    let arguments: Vec<_> = ["machine"]
        .into_iter()
        .chain(kernel.iter().map(String::as_str))
        .chain(["--", "true"])
        .collect();
    let command = wrapped(Command::new("env"), &place.crashpoint(&arguments));
    let said = refusal(forbidding(PERSONALITY, &command));
    assert!(
        said.contains("seed= needs personality") && said.contains("seccomp"),
        "{said}"
    );
}

#[test]
fn a_guest_whose_memory_has_no_room_or_may_not_run_says_so() {
    let (place, command) = of_root(&GUEST);
    let temporary = place.temporary();
    let mount = |options: &str| {
        let temporary = temporary.display();
        format!(
            "mount -t tmpfs -o {options} none /dev/shm && mount -t tmpfs -o {options} none {temporary}"
        )
    };
    let said = refusal(in_own_mounts(&mount("size=8m"), &command));
    assert!(
        said.contains(&format!("no room in {}", temporary.display())),
        "{said}"
    );
    let said = refusal(in_own_mounts(&mount("noexec"), &command));
    assert!(
        said.contains(&format!(
            "{}, where its memory is, is mounted noexec",
            temporary.display()
        )),
        "{said}"
    );
    // Either of them does.
    let one = format!("mount -t tmpfs -o size=8m,noexec none {}", "/dev/shm");
    let output = in_own_mounts(&one, &command).output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        end_to_end::said(&output)
    );
}

#[test]
fn limits_are_told_apart() {
    let (_place, command) = of_root(&GUEST);
    for (limit, expected) in [("-v 400000", "ulimit -v"), ("-f 1000", "ulimit -f")] {
        let said = refusal(limited(limit, &command));
        assert!(said.contains(expected), "{limit}: {said}");
    }
}

/// How far it comes with so few files depends on those that whoever runs the tests left open.
#[test]
fn too_few_open_files_are_told_wherever_the_next_one_is_needed() {
    let (_place, command) = of_root(&GUEST);
    let mut refused = 0;
    for count in (8..24).step_by(4) {
        let output = limited(&format!("-n {count}"), &command)
            .output()
            .expect("it runs");
        let said = said(&output);
        match output.status.code() {
            Some(0) => {}
            Some(2) if said.lines().count() == 1 && said.contains("ulimit -n") => refused += 1,
            other => panic!("{count}: {other:?}, {said}"),
        }
    }
    assert!(refused > 1, "{refused}");
}

#[test]
fn too_little_memory_is_told() {
    let place = Ordinary::new();
    let machine = |memory: &str| {
        let words = ["machine", "--kernel-parameters", memory, "--", "true"];
        place.crashpoint(&words).output().expect("it runs")
    };
    let told = |memory: &str, mib: &str| {
        let output = machine(memory);
        let said = said(&output);
        let expected =
            format!("does not start: its memory, {mib} MiB, is too small: give it 40 at least\n");
        assert!(said.ends_with(&expected), "{memory}: {said}");
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1));
    };
    told("mem=8M", "8");
    told("mem=39M", "39");
    // What is asked for is enough for a kernel.
    let output = machine("mem=64M");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// The state and the detail of each check.
fn checks(output: &Output) -> BTreeMap<String, (String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let values = objects(&printed(output)).into_iter();
    values
        .map(|value| {
            (
                text(&value["name"]),
                (text(&value["state"]), text(&value["detail"])),
            )
        })
        .collect()
}

/// The names in the first column of the table.
fn rows() -> Vec<String> {
    let page = include_str!("../../docs/requirements.md");
    let table = page
        .split_once("## The table")
        .expect("it is there")
        .1
        .split_once("\n## ")
        .expect("more follows")
        .0;
    let cells = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells
        .filter(|cell| *cell != "what")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_doctor_looks_at_every_row_of_the_table() {
    require_root();
    assert!(geteuid().is_root());
    let output = crashpoint()
        .args(["doctor", "--fs", "ext4", "--format", "json"])
        .output()
        .expect("it runs");
    let checks = checks(&output);
    let rows = rows();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        assert!(
            checks.contains_key(&row),
            "{row} is not among {:?}",
            checks.keys()
        );
    }
    assert_eq!(output.status.code(), Some(0), "{checks:?}");
    assert_eq!(checks["a guest starts"].0, "ok", "{checks:?}");
    assert!(
        checks["a guest starts"].1.contains("ran a program after"),
        "{checks:?}"
    );
    assert_eq!(
        checks["ext4 on drop-flush disk"],
        ("ok".into(), "caught".into())
    );
}

#[test]
fn who_is_not_root_is_told_the_way_without() {
    let place = Ordinary::new();
    let output = place
        .crashpoint(&["doctor", "--fs", "ext4", "--format", "json"])
        .output()
        .expect("it runs");
    let checks = checks(&output);
    assert_eq!(output.status.code(), Some(0), "{checks:?}");
    assert_eq!(checks["root"].0, "optional");
    assert!(checks["root"].1.contains("--kernel uml"), "{checks:?}");
    assert_eq!(checks["a guest starts"].0, "ok");
    let output = place
        .crashpoint(&["doctor", "--for", "fs", "--format", "json"])
        .output()
        .expect("it runs");
    assert_eq!(
        (
            output.status.code(),
            self::checks(&output)["root"].0.as_str()
        ),
        (Some(2), "missing")
    );
}

/// The doctor looks at the kernel that is named, starts it, and tests the tester there.
#[test]
fn the_doctor_looks_at_the_named_guest_as_an_ordinary_user() {
    let place = Ordinary::new();
    let doctor = |kernel: &str| {
        let words = [
            "doctor", "--kernel", kernel, "--fs", "ext4", "--format", "json",
        ];
        let output = place.crashpoint(&words).output().expect("it runs");
        (output.status.code(), checks(&output))
    };
    let (status, checks) = doctor("uml");
    assert_eq!(status, Some(0), "{checks:?}");
    assert_eq!(checks["User-Mode Linux"].0, "ok", "{checks:?}");
    assert_eq!(checks["a guest starts"].0, "ok", "{checks:?}");
    for (name, words) in [
        ("ext4 on honest disk", "not accused, in the guest"),
        ("ext4 on drop-flush disk, reorder:1", "caught, in the guest"),
    ] {
        assert_eq!(checks[name], ("ok".into(), words.into()), "{name}");
    }
    // What is in the host's kernel is nothing to a guest.
    assert!(!checks.contains_key("ext4 in the kernel"), "{checks:?}");

    let (status, checks) = doctor("uml:/bin/true");
    assert_eq!(status, Some(2), "{checks:?}");
    assert_eq!(checks["User-Mode Linux"].0, "missing", "{checks:?}");
    assert!(!checks.contains_key("a guest starts"), "{checks:?}");
}

/// Where something is taken away, the doctor sees it.
#[test]
fn the_doctor_misses_what_is_not_there() {
    let (_place, command) = of_root(&[
        "doctor",
        "--for",
        "guest,fs,app",
        "--format",
        "json",
        "--fs",
        "ext4",
    ]);
    let state = |mut command: Command, name: &str| {
        let output = command.output().expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{name}: {}{}",
            printed(&output),
            said(&output)
        );
        checks(&output)[name].0.clone()
    };
    assert_eq!(state(forbidding(PTRACE, &command), "tracing"), "missing");
    let full =
        "mount -t tmpfs -o size=8m none /dev/shm && mount -t tmpfs -o size=8m none \"$TMPDIR\"";
    assert_eq!(
        state(in_own_mounts(full, &command), "memory of guests"),
        "missing"
    );
    assert_eq!(state(limited("-n 40", &command), "open files"), "missing");
    assert_eq!(state(limited("-f 1000", &command), "file size"), "missing");
    let no_devices = "mount -t tmpfs none /dev && mknod /dev/null c 1 3";
    assert_eq!(
        state(in_own_mounts(no_devices, &command), "/dev/fuse"),
        "missing"
    );
}

/// What there is of Debian's packages says who asks for them, and how that ends.
fn builds_a_kernel(candidates: &str, argument: &str) -> (String, Option<i32>) {
    let place = tempfile::tempdir().expect("a directory");
    let program = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    };
    program("dpkg-query", "exit 1");
    program("apt-get", "exit 1");
    let cases = format!("case $2 in {candidates}) echo '  Candidate: 1.2.3-4' ;; esac");
    program("apt-cache", &cases);
    let mut command = Command::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../scripts/build-uml.sh"
    ));
    let own = std::env::var("PATH").expect("a path");
    let path = format!("{}:{own}", place.path().display());
    command.env("PATH", path).arg(argument);
    command.env("XDG_CACHE_HOME", place.path().join("cache"));
    let output = command.output().expect("it runs");
    (said(&output), output.status.code())
}

/// Debian 12 has the older source, Debian 13 the newer one, and others none.
#[test]
fn a_kernel_is_built_from_the_source_that_there_is() {
    let (both, newer, none) = ("linux-source-*", "linux-source-6.12", "nothing");
    for (candidates, argument, expected, status) in [
        (
            both,
            "--debian",
            "could not download linux-source-6.1 1.2.3-4",
            2,
        ),
        (
            newer,
            "--debian",
            "could not download linux-source-6.12 1.2.3-4",
            2,
        ),
        (
            newer,
            "--debian=6.1",
            "no package linux-source-6.1 to be had: give --debian=6.12",
            3,
        ),
        (
            none,
            "--debian",
            "no package linux-source-6.12 to be had: give --debian=6.1",
            3,
        ),
    ] {
        let (said, code) = builds_a_kernel(candidates, argument);
        assert!(said.contains(expected), "{said}");
        assert_eq!(code, Some(status), "{said}");
    }
}
