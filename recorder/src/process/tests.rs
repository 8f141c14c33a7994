use std::process::Command;

use tracer::calls::{Numbers, ROWS, Row};

use super::{NodeOptions, record};

/// The calls that are looked at, but for those whose names stand in FORGET.
pub(super) fn rows(command: &Command) -> Vec<Row> {
    let mut rows = ROWS.to_vec();
    for (name, value) in command.get_envs() {
        let forgotten = value.filter(|_| name == "FORGET").unwrap_or_default();
        let forgotten = forgotten.to_string_lossy();
        for row in rows
            .iter_mut()
            .filter(|row| forgotten.split(' ').any(|name| name == row.name))
        {
            row.numbers = Numbers::NONE;
        }
    }
    rows
}

/// Records a script of the shell, with a call forgotten, by all names that it has on one
/// architecture or the other; says what was noticed.
fn noticed(script: &str, forgotten: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("sh");
    command
        .args(["-ec", script])
        .env("FORGET", forgotten)
        .current_dir(directory.path());
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        marks: false,
        ..NodeOptions::default()
    };
    let (trace, status) = record(options, command, &|_| false)
        .expect("recorded")
        .expect("not cancelled");
    assert!(status.success(), "{script}");
    trace.about.not_recorded.into_keys().collect()
}

#[test]
fn a_call_that_is_not_known_is_noticed_by_what_it_did() {
    let scripts = [
        ("write", "echo x >f"),
        ("openat", "echo x >f"),
        ("mkdir mkdirat", "mkdir d"),
        ("symlinkat", "ln -s a b"),
        ("linkat", "echo x >f; ln f g"),
        ("unlinkat", "echo x >f; rm f"),
        ("rmdir unlinkat", "mkdir d; rmdir d"),
        ("renameat2", "echo x >f; mv f g"),
        ("fchmodat", "echo x >f; chmod 600 f"),
        ("ftruncate", "echo x >f; truncate -s 100 f"),
        ("fallocate", "echo x >f; fallocate -l 5000 f"),
        ("mknodat", "mkfifo p"),
    ];
    for (forgotten, script) in scripts {
        assert_eq!(noticed(script, "nothing"), Vec::<String>::new(), "{script}");
        assert!(
            !noticed(script, forgotten).is_empty(),
            "{script} without {forgotten}"
        );
    }
}
