//! The clusters of `workloads/clusters`, really run: they start, do their work, lose all nodes at
//! once, come back with what they acknowledged, and stop. `make test-clusters` installs them.
//! Needs root.

use std::process::{Command, Output, Stdio};

use end_to_end::{Running, printed, program, require_root, said};

fn start(what: &str, system: &str, arguments: &[&str]) -> Running {
    require_root();
    let file = format!(
        "{}/../workloads/clusters/{system}/cluster.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut command = Command::new(program("crashpoint"));
    command
        .args(["cluster", what, &file])
        .args(arguments)
        .stdin(Stdio::null());
    Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn end(started: Running) -> Output {
    let output = started.output();
    assert!(
        output.status.success(),
        "{}\n{}",
        printed(&output),
        said(&output)
    );
    output
}

/// Twice side by side, and recorded.
fn works(system: &str) {
    let children = [(); 2].map(|()| start("run", system, &["--client", "--restart", "--check"]));
    for child in children {
        let output = end(child);
        let printed = printed(&output);
        assert!(
            printed.contains("set k4 v20\n") && printed.ends_with("\nok\n"),
            "{printed}"
        );
        println!("{system}: {}", said(&output).replace('\n', ", "));
    }
    let out = tempfile::tempdir().expect("a directory");
    let output = end(start(
        "record",
        system,
        &["-o", out.path().to_str().expect("text")],
    ));
    print!("{system}, recorded: {}{}", said(&output), printed(&output));
}

#[test]
#[ignore = "it takes etcd"]
fn etcd() {
    works("etcd");
}

#[test]
#[ignore = "it takes ZooKeeper, and some time"]
fn zookeeper() {
    works("zookeeper");
}

#[test]
#[ignore = "it takes NATS, and some time"]
fn nats_jetstream() {
    works("nats-jetstream");
}

#[test]
#[ignore = "it takes PostgreSQL"]
fn postgresql() {
    works("postgresql");
}

#[test]
#[ignore = "it takes Redis, and some time"]
fn redis() {
    works("redis");
}

#[test]
#[ignore = "it takes Redis, and some time"]
fn redis_sentinel() {
    works("redis-sentinel");
}
