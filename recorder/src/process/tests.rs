use std::mem::offset_of;
use std::process::Command;

use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long, sock_filter};

use super::{NodeOptions, record, system};

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
    let (trace, status) = record(options, command, &|| false)
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

/// Has a call refused in this thread, and in all that come of it, as a container may.
fn forbid(call: c_long) {
    let step = |code: u32, k: u32| sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let number = step(
        BPF_LD | BPF_W | BPF_ABS,
        offset_of!(libc::seccomp_data, nr) as u32,
    );
    let other = sock_filter {
        jf: 1,
        ..step(BPF_JMP | BPF_JEQ | BPF_K, call as u32)
    };
    let refuse = step(
        BPF_RET | BPF_K,
        libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
    );
    let allow = step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW);
    system::install_filter(&[number, other, refuse, allow]).expect("installed");
}

#[test]
fn a_machine_that_forbids_to_look_is_told_before_the_program_runs() {
    let calls = [
        ("ptrace", libc::SYS_ptrace),
        ("seccomp", libc::SYS_seccomp),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("openat2", libc::SYS_openat2),
    ];
    for (name, number) in calls {
        let record = move || {
            forbid(number);
            record(
                NodeOptions {
                    name: "node".into(),
                    ..NodeOptions::default()
                },
                Command::new("true"),
                &|| false,
            )
        };
        let said = std::thread::spawn(record)
            .join()
            .expect("it ends")
            .expect_err("it is forbidden")
            .to_string();
        let expected = format!("failed to trace the processes of node: {name}(2)");
        assert!(
            said.starts_with(&expected) && said.contains("SYS_PTRACE"),
            "{said}"
        );
    }
}
