//! The programs under test, and what they print.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};
use std::sync::OnceLock;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Set where everything was built as `cargo test --workspace` builds it (`make test`). What is built
/// here is not the same to cargo, as it goes without what only tests depend on: it would compile most
/// of the workspace once more.
const BUILT: &str = "CRASHPOINT_TEST_PROGRAMS_BUILT";

/// The path of one of our programs. Cargo builds those of another package only when it is asked
/// to, so it is asked once in each process of tests, unless everything was just built: only cargo
/// knows whether a program is that of the sources as they are.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(built_programs).join(name)
}

/// A `PATH` that begins with the folder of our programs.
pub fn search_path() -> String {
    let crashpoint = program("crashpoint");
    let folder = crashpoint.parent().unwrap_or(Path::new("/"));
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", folder.display())
}

fn built_programs() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a program");
    let folder = test
        .ancestors()
        .nth(2)
        .expect("target/debug/deps/test")
        .to_owned();
    if std::env::var_os(BUILT).is_some() {
        return folder;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Process::new(cargo);
    build
        .args([
            "build",
            "--quiet",
            "--workspace",
            "--bins",
            "--lib",
            "--target-dir",
        ])
        .arg(folder.parent().expect("target"));
    build.args((folder.file_name() == Some("release".as_ref())).then_some("--release"));
    build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let status = build.status().expect("cargo runs");
    assert!(
        status.success(),
        "the programs under test do not build; try `cargo build --workspace --bins`"
    );
    folder
}

/// The cluster file of the store in `fixtures`, with one of its mistakes, or none.
///
/// # Panics
/// If it cannot be read.
pub fn store_cluster(mistake: &str) -> String {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/store/cluster.toml");
    let text = std::fs::read_to_string(fixture).expect("read");
    text.replace(
        "STORE_MISTAKE = \"\"",
        &format!("STORE_MISTAKE = \"{mistake}\""),
    )
}

/// The same of two of its nodes.
pub(crate) fn two_of_store(mistake: &str) -> String {
    let text = store_cluster(mistake).replace(r#"["b", "c"]"#, r#"["b"]"#);
    text.replace("{address:b},{address:c}", "{address:b}")
}

/// The same with disks: what one of them loses is lost.
///
/// # Panics
/// If it cannot be read.
pub fn store_of_two(mistake: &str) -> String {
    let text = two_of_store(mistake).replace("--lead {address:b}", "--lead {address:b} --ping 1");
    // What loses its power says nothing any more.
    let text = text.replace(
        "store client {address:a}",
        "store client {address:a} --patience 2",
    );
    format!("disk = \"ext4\"\n{text}")
}

/// The cluster file of the store in `fixtures` that elects its leader, with one of its mistakes, or
/// none.
///
/// # Panics
/// If it cannot be read.
pub fn elects_cluster(mistake: &str) -> String {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/elects/cluster.toml");
    let text = std::fs::read_to_string(fixture).expect("read");
    text.replace(
        "ELECTS_MISTAKE = \"\"",
        &format!("ELECTS_MISTAKE = \"{mistake}\""),
    )
}

/// Releases of etcd with the client and check for its issue 13766, each in the folder of its name. It
/// takes Go.
///
/// # Panics
/// If they cannot be built.
pub fn etcd_13766(releases: &[&str]) -> TempDir {
    let place = tempfile::tempdir().expect("a directory");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/clusters/etcd-13766/build"
    );
    let built = Process::new(script)
        .arg(place.path())
        .args(releases)
        .output();
    let built = built.expect("it runs");
    assert!(built.status.success(), "{}", said(&built));
    place
}

fn command(name: &str) -> Command {
    let mut command = Command::new(program(name));
    command.timeout(PATIENCE);
    command
}

/// `crashpoint`, to be given arguments.
pub fn crashpoint() -> Command {
    command("crashpoint")
}

/// `replay`, to be given arguments.
pub fn replay() -> Command {
    command("replay")
}

/// Sweeps a program with `crashpoint app`, in the folder of the project. `words` are those of the
/// program.
///
/// # Panics
/// If it leaves temporary files.
pub fn app(options: &[&str], words: &[&str]) -> Output {
    app_as("json", options, words)
}

/// The same, for people.
///
/// # Panics
/// As above.
pub fn app_in_text(options: &[&str], words: &[&str]) -> Output {
    app_as("text", options, words)
}

fn app_as(format: &str, options: &[&str], words: &[&str]) -> Output {
    let temporary = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut command = Process::new(program("crashpoint"));
    command.args(["app", "--format", format]).args(options);
    command.arg("--").args(words);
    command.env("TMPDIR", temporary.path());
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let output = command.output().expect("it runs");
    let left = temporary.path().read_dir().expect("read").count();
    assert_eq!(left, 0, "something is left");
    output
}

/// The objects of a text that has one a line.
///
/// # Panics
/// If it has anything else.
pub fn objects(text: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).expect("one object a line");
    text.lines().map(object).collect()
}

/// Failure points, as `crashpoint inject --points --format json` prints them, by their IDs.
pub fn by_id(lines: &str) -> BTreeMap<String, Value> {
    let id = |point: Value| (point["id"].as_str().expect("a name").to_owned(), point);
    objects(lines).into_iter().map(id).collect()
}

/// What a sweep of crash states printed with `--format json`: its findings, and the summary, if it
/// came to one.
///
/// # Panics
/// If it printed anything else.
pub fn findings_and_summary(output: &Output) -> (Vec<Value>, Value) {
    let lines = objects(&printed(output)).into_iter();
    let (findings, mut summaries): (Vec<_>, Vec<_>) =
        lines.partition(|line| line["type"] == "states-finding");
    (findings, summaries.pop().unwrap_or_default())
}

/// Results as a program prints them with `--format json`.
#[derive(Debug)]
pub struct Report {
    /// The exit status.
    pub status: i32,
    /// One for each workload.
    pub results: Vec<Value>,
    /// One for each file system.
    pub summaries: Vec<Value>,
}

impl Report {
    /// Runs a command that prints results.
    ///
    /// # Panics
    /// If it is killed, or prints anything else.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let status = output
            .status
            .code()
            .unwrap_or_else(|| panic!("{}: {said}", output.status));
        assert_ne!(status, 2, "it could not run: {said}");
        let lines = String::from_utf8(output.stdout).expect("text");
        let (results, summaries) = objects(&lines)
            .into_iter()
            .partition(|line| line["type"] == "result");
        Self {
            status,
            results,
            summaries,
        }
    }

    /// The same of a command that is started as somebody, or in some place.
    ///
    /// # Panics
    /// Like [`Self::of`].
    pub fn of_process(process: Process) -> Self {
        Self::of(Command::from_std(process).timeout(PATIENCE))
    }

    /// A number of the summaries, added up.
    pub fn total(&self, field: &str) -> u64 {
        self.summaries
            .iter()
            .map(|summary| summary[field].as_u64().expect("a number"))
            .sum()
    }

    /// Each broken promise with the workload that shows it, without repetitions, in order.
    pub fn broken(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for result in &self.results {
            for state in result["broken"].as_array().into_iter().flatten() {
                for finding in state["findings"].as_array().into_iter().flatten() {
                    found.push((text(&result["workload"]), text(&finding["promise"])));
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// The names of the workloads with this verdict, in order.
    pub fn with_verdict(&self, verdict: &str) -> Vec<String> {
        let mut names: Vec<_> = self
            .results
            .iter()
            .filter(|result| result["verdict"] == verdict)
            .map(|result| text(&result["workload"]))
            .collect();
        names.sort();
        names
    }

    /// Nothing was found, and everything was measured.
    ///
    /// # Panics
    /// If not.
    pub fn assert_clean(&self) {
        assert_eq!(self.broken(), [], "{:#?}", self.details("finding"));
        assert_eq!(
            self.total("inconclusive"),
            0,
            "{:#?}",
            self.details("inconclusive")
        );
        assert!(
            self.total("states_checked") > 0 && self.status == 0,
            "{:?}",
            self.summaries
        );
    }

    fn details(&self, verdict: &str) -> Vec<&Value> {
        self.results
            .iter()
            .filter(|result| result["verdict"] == verdict)
            .collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Has `replay` do workloads, given as text, on one file system.
pub fn replay_with(file_system: &str, arguments: &[&str], workloads: &str) -> Report {
    Report::of(
        replay()
            .args(["--format", "json", "--fs", file_system])
            .args(arguments)
            .write_stdin(workloads),
    )
}

/// What a program said to people.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a program printed.
pub fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Words as arguments.
pub fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Has a program of ours, or a kernel, at another place too, where it is only run: it has more than a
/// hundred megabytes, and tests beside each other would wait until copies of it are on the disk. What
/// was put there before stays.
///
/// # Panics
/// If it can't be had there.
pub fn link_to_run(from: &Path, to: &Path) {
    let linked = from
        .canonicalize()
        .and_then(|from| std::fs::hard_link(from, to));
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        // It is on another file system.
        Err(error) if error.kind() == ErrorKind::CrossesDevices => copy_to_run(from, to),
        Err(error) => panic!("link {}: {error}", from.display()),
    }
}

/// Copies a file that will be run, in a process of its own: what this one has open for writing
/// while another of its threads starts a program would be "busy".
pub fn copy_to_run(from: &Path, to: &Path) {
    let status = Process::new("cp")
        .args([from, to])
        .status()
        .expect("cp runs");
    assert!(status.success(), "copy {}: {status}", from.display());
}
