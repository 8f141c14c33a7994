use std::process::Command;

use super::{NodeOptions, record};

/// Records a script of the shell, with one call forgotten; says what was noticed.
fn noticed(script: &str, forgotten: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("sh");
    command.args(["-ec", script]).env("FORGET", forgotten).current_dir(directory.path());
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        marks: false,
        ..NodeOptions::default()
    };
    let (trace, status) = record(options, command, &|| false).expect("recorded").expect("not cancelled");
    assert!(status.success(), "{script}");
    trace.about.not_measured.into_keys().collect()
}

#[test]
fn a_call_that_is_not_known_is_noticed_by_what_it_did() {
    let scripts = [
        ("write", "echo x >f"),
        ("openat", "echo x >f"),
        ("mkdir", "mkdir d"),
        ("symlinkat", "ln -s a b"),
        ("linkat", "echo x >f; ln f g"),
        ("unlinkat", "echo x >f; rm f"),
        ("rmdir", "mkdir d; rmdir d"),
        ("renameat2", "echo x >f; mv f g"),
        ("fchmodat", "echo x >f; chmod 600 f"),
        ("ftruncate", "echo x >f; truncate -s 100 f"),
        ("fallocate", "echo x >f; fallocate -l 5000 f"),
        ("mknodat", "mkfifo p"),
    ];
    for (forgotten, script) in scripts {
        assert_eq!(noticed(script, "nothing"), Vec::<String>::new(), "{script}");
        assert!(!noticed(script, forgotten).is_empty(), "{script} without {forgotten}");
    }
}
