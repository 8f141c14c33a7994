//! The command that a finding prints, pasted into a shell where the sweep ran, finds the same, and
//! so it does once everything is installed. Needs root.

use std::path::Path;
use std::process::{Command, Output};

use end_to_end::{program, require_root};

/// A file name that a shell would make something else of.
const FILE: &str =
    r#"workload awkward; mkdir A; creat "A/it's a\nb $(c) \\"; fsync "A/it's a\nb $(c) \\""#;

/// Runs a line of a shell in a directory, with more programs on its PATH.
fn shell(directory: &Path, programs: &Path, line: &str) -> Output {
    let path = format!(
        "{}:{}",
        programs.display(),
        std::env::var("PATH").expect("there is a PATH")
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .current_dir(directory)
        .env("PATH", path)
        .env("TMPDIR", directory);
    shell.env_remove("SUDO_COMMAND").output().expect("it runs")
}

/// What it printed, after it found something.
#[track_caller]
fn printed(output: Output) -> String {
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// What was printed of findings, but for what a kernel said.
fn findings(printed: &str) -> Vec<&str> {
    let lines = printed
        .lines()
        .take_while(|line| !line.starts_with("file system "));
    lines
        .filter(|line| !line.starts_with("  kernel "))
        .collect()
}

/// What a sweep finds is found again by the command that each finding prints.
#[track_caller]
fn finds_the_same_again(directory: &Path, programs: &Path, sweep: &str) -> String {
    let swept = printed(shell(directory, programs, sweep));
    let found = findings(&swept);
    let mut commands: Vec<_> = found
        .iter()
        .filter_map(|line| line.strip_prefix("  replay    "))
        .collect();
    assert_eq!(
        commands.len(),
        found
            .iter()
            .filter(|line| line.starts_with("FINDING"))
            .count(),
        "{swept}"
    );
    commands.dedup();
    let [command] = commands[..] else {
        panic!("one workload has one command: {swept}")
    };
    let again = printed(shell(directory, programs, command));
    assert_eq!(findings(&again), found, "{command}");
    command.to_owned()
}

#[test]
fn a_finding_prints_a_command_that_finds_it_again() {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("awkward.wl"), FILE).expect("written");
    std::os::unix::fs::symlink(program("").as_path(), place.path().join("our programs"))
        .expect("linked");
    let nowhere = place.path().join("nowhere");
    for options in [
        "--fs ext4",
        "--fs 'ext4:data=journal:-O ^64bit,^metadata_csum' --size 24 --states flushed",
    ] {
        let sweep = format!("'our programs/crashpoint' fs {options} --disk drop-flush awkward.wl");
        let command = finds_the_same_again(place.path(), &nowhere, &sweep);
        assert!(
            command.contains(" | 'our programs/crashpoint' fs --fs "),
            "{command}"
        );
        let sweep = format!("'our programs/replay' {options} --disk drop-flush awkward.wl");
        let command = finds_the_same_again(place.path(), &nowhere, &sweep);
        assert!(
            command.contains(" | 'our programs/replay' --fs "),
            "{command}"
        );
    }
}

#[test]
fn the_death_of_a_kernel_prints_a_command_that_kills_it_again() {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    let deadly = "workload deadly; mkdir A; creat A/foo; write A/foo 0 64K; fsync A/foo; creat A/bar; sync; \
                  unlink A/foo; sync";
    std::fs::write(place.path().join("deadly.wl"), deadly).expect("written");
    let sweep = format!(
        "{} fs --kernel uml --kernel-parameters 'loglevel=4 quiet' --fs ext4:errors=panic --disk lose-write:5 deadly.wl",
        program("crashpoint").display()
    );
    finds_the_same_again(place.path(), place.path(), &sweep);
}

#[test]
fn what_is_installed_is_found_by_its_name_and_can_be_removed() {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("awkward.wl"), FILE).expect("written");
    let root = place.path().join("root");
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.args([
            "--silent",
            "-C",
            concat!(env!("CARGO_MANIFEST_DIR"), "/.."),
            target,
            "PREFIX=/opt/crashpoint",
        ]);
        make.arg(format!("DESTDIR={}", root.display()))
            .arg(format!("BUILT={}", program("").display()));
        let output = make.output().expect("it runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    make("install");
    let programs = root.join("opt/crashpoint/bin");
    let sweep = "crashpoint fs --fs ext4 --disk drop-flush awkward.wl";
    let command = finds_the_same_again(place.path(), &programs, sweep);
    assert!(command.contains(" | crashpoint fs --fs ext4 "), "{command}");
    let counted = shell(place.path(), &programs, "ace-gen --ops 1 --count");
    assert!(
        counted.status.success(),
        "{}",
        String::from_utf8_lossy(&counted.stderr)
    );
    for file in [
        "man/man1/crashpoint-fs.1",
        "bash-completion/completions/crashpoint",
        "zsh/site-functions/_crashpoint",
    ] {
        let length =
            std::fs::metadata(root.join("opt/crashpoint/share").join(file)).map(|data| data.len());
        assert!(length.is_ok_and(|length| length > 1000), "{file}");
    }
    make("uninstall");
    let files = Command::new("find")
        .arg(&root)
        .args(["!", "-type", "d"])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&files.stdout), "");
}
