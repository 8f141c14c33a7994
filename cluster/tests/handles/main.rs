//! The handles of a cluster, on the ground of this machine: as root, or in `unshare -Ur`.
//!
//! The tests run one after the other in this program, which a cluster starts again as its nodes:
//! what it is started as is looked at before anything else.

mod disks;
mod lab;
mod links;
mod machines;
mod nodes;
mod turns;

use std::process::ExitCode;

/// A test, and what it is called.
type Test = (&'static str, fn());

const TESTS: [&[Test]; 5] = [
    nodes::TESTS,
    links::TESTS,
    disks::TESTS,
    turns::TESTS,
    machines::TESTS,
];

fn main() -> ExitCode {
    if let Some(status) = machine::run_hidden().or_else(cluster::run_hidden) {
        return status;
    }
    let mut arguments = std::env::args().skip(1);
    let (mut names, mut list, mut runs) = (Vec::new(), false, true);
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--list" => list = true,
            // None of them is.
            "--ignored" => runs = false,
            // They run one after the other in any case.
            "--test-threads" => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            _ => names.push(word),
        }
    }
    let is_wanted = |(name, _): &&Test| {
        runs && (names.is_empty() || names.iter().any(|part| name.contains(part.as_str())))
    };
    let wanted: Vec<_> = TESTS.into_iter().flatten().filter(is_wanted).collect();
    if list {
        for (name, _) in &wanted {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    run(&wanted)
}

/// Runs tests, and tells of them as those of cargo's own do: `scripts/test` reads it.
fn run(tests: &[&'static Test]) -> ExitCode {
    let mut failed = Vec::new();
    for (name, test) in tests {
        let thread = std::thread::Builder::new().name((*name).into());
        let ended = thread.spawn(*test).expect("started").join();
        let how = if ended.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {how}");
        if ended.is_err() {
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        println!("\nfailures:\n    {}\n", failed.join("\n    "));
    }
    let (how, status) = if failed.is_empty() {
        ("ok", ExitCode::SUCCESS)
    } else {
        ("FAILED", ExitCode::FAILURE)
    };
    let passed = tests.len() - failed.len();
    println!(
        "test result: {how}. {passed} passed; {} failed",
        failed.len()
    );
    status
}
