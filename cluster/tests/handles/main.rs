//! The handles of a cluster, on the ground of this machine: as root, or in `unshare -Ur`.
//!
//! The tests run one after the other in this program, which a cluster starts again as its nodes:
//! what it is started as is looked at before anything else.

mod disks;
mod lab;
mod links;
mod nodes;

use std::process::ExitCode;

/// A test, and what it is called.
type Test = (&'static str, fn());

const TESTS: [&[Test]; 3] = [nodes::TESTS, links::TESTS, disks::TESTS];

fn main() -> ExitCode {
    if let Some(status) = cluster::run_hidden() {
        return status;
    }
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<_>, Vec<_>) =
        arguments.iter().partition(|word| word.starts_with("--"));
    let tests = TESTS.into_iter().flatten();
    if flags.iter().any(|flag| *flag == "--list") {
        tests.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(*part));
    let mut failed = Vec::new();
    for (name, test) in tests.filter(|(name, _)| wanted(name)) {
        let thread = std::thread::Builder::new().name((*name).into());
        let ended = thread.spawn(test).expect("started").join();
        println!(
            "test {name} ... {}",
            if ended.is_ok() { "ok" } else { "FAILED" }
        );
        if ended.is_err() {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", failed.join(", "));
    ExitCode::FAILURE
}
