//! Steps that run once while a cluster starts for the first time. Needs root.

use std::fs;
use std::process::{Command, Output, Stdio};

use end_to_end::{printed, program, require_root, said};
use tempfile::TempDir;

/// A cluster file, and what its runs leave.
struct Laid(TempDir);

impl Laid {
    fn new(from: &str, to: &str) -> Self {
        require_root();
        let folder = tempfile::tempdir().expect("a directory");
        let text = include_str!("../fixtures/steps/cluster.toml");
        assert!(text.contains(from));
        let path = folder.path().join("cluster.toml");
        fs::write(path, text.replace(from, to)).expect("written");
        Self(folder)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("crashpoint"));
        command.args(["cluster", "run", "cluster.toml", "--data", "kept"]);
        command.args(arguments).stdin(Stdio::null());
        let output = command.current_dir(self.0.path()).output();
        output.expect("it runs")
    }

    fn kept(&self, path: &str) -> String {
        let path = self.0.path().join("kept").join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

#[test]
fn steps_run_in_their_order_and_once() {
    let laid = Laid::new("", "");
    for arguments in [&["--client", "--restart", "--check"][..], &["--check"]] {
        let output = laid.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(printed(&output).lines().any(|line| line == "ok"));
    }
    assert_eq!(laid.kept("app/formatted"), "of app\n");
    assert_eq!(laid.kept("app/schema"), "made\n");
    assert_eq!(laid.kept("log/steps.log"), "formatted\nhello from client\n");
}

#[test]
fn a_step_that_fails_is_named_with_what_it_said() {
    let laid = Laid::new(
        "test $(hostname) = client &&",
        "echo no schema here; exit 1;",
    );
    let output = laid.run(&["--check"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let words = "step greet ended with status 1; its log ends: no schema here";
    assert!(said(&output).contains(words), "{}", said(&output));
    // It would go on with what was never prepared.
    let output = laid.run(&["--check"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let words = "the first start of the nodes whose data is in ";
    assert!(said(&output).contains(words), "{}", said(&output));
}

#[test]
fn a_step_that_does_not_end_has_its_time() {
    let step = "command = \"sh -c 'test -e running && echo made >>schema'\"";
    let laid = Laid::new(step, "command = \"sleep 1000\"\nwithin_s = 0.5");
    let output = laid.run(&["--check"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let words = "step schema did not end within 500ms";
    assert!(said(&output).contains(words), "{}", said(&output));
}
