//! The engine, sweeps and their results on a toy in memory: without root, disks and a kernel.

mod again;
mod engines;
mod imports;
mod results;
mod rules;
mod sweeps;
mod toy_bed;

use std::sync::{Arc, Mutex};

use campaign::Interrupt;
use checker::Promise;
use local_fs::Variant;
use machine::{Machine, ThreadBody};
use workloads::Workload;

use self::toy_bed::{Bug, toy};
use crate::findings::{Found, FoundWhat};
use crate::result::WorkloadResult;
use crate::sweep::{SweepOptions, Workers};
use crate::worker::{Answer, send, serve};

/// The file system whose contract the toy has.
fn variant() -> Variant {
    Variant::parse_list("ext4").expect("it is known").remove(0)
}

/// A workload from its text, which is also its name.
fn workload(text: &str) -> Workload {
    workloads::parse(text, text).expect("a workload").remove(0)
}

/// The first finding of a workload, from its result.
fn first_found(text: &str, mut result: WorkloadResult) -> Found {
    Found {
        number: 1,
        variant: variant(),
        workload_number: 0,
        workload: workload(text),
        log: result.log,
        what: FoundWhat::State(result.broken.remove(0)),
    }
}

/// A machine whose workers are threads, each with a toy of its own that has this bug.
fn machine(bug: Bug) -> Machine {
    machine_of(move || bug)
}

/// The same; each worker that is started has the bug that is told then.
fn machine_of(bug: impl Fn() -> Bug + Send + Sync + 'static) -> Machine {
    Machine::Thread(ThreadBody::new(move |input, output| {
        let bug = bug();
        let output = Mutex::new(output);
        let answer = move |answer: &Answer| {
            let mut output = output.lock().expect("no holder panics");
            send(&mut *output, answer)
        };
        // Whoever gave it work is gone if this fails.
        let _ = serve(input, Arc::new(answer), |start, _| toy(start, bug));
    }))
}

fn options(bug: Bug, states: &str, jobs: usize) -> SweepOptions {
    SweepOptions {
        states: states.parse().expect("states"),
        jobs,
        machine: machine(bug),
        ..SweepOptions::default()
    }
}

/// The results of all workloads, in the order of these.
fn sweep(options: &SweepOptions, texts: &[&str]) -> Vec<WorkloadResult> {
    let mut workers = Workers::start(&variant(), options).expect("workers");
    let mut results: Vec<Option<WorkloadResult>> = vec![None; texts.len()];
    let mut source = texts.iter().map(|text| Ok(workload(text)));
    let summary = workers
        .run(&mut source, &Interrupt::default(), &mut |of, result| {
            let place = texts.iter().position(|text| workload(text) == *of);
            let known = results[place.expect("one of ours")].replace(result);
            assert_eq!(known, None, "{} has two results", of.name);
            Ok(())
        })
        .expect("swept");
    assert_eq!(summary.workloads, texts.len() as u64);
    results
        .into_iter()
        .map(|result| result.expect("every workload has a result"))
        .collect()
}

/// The promises that a result says are broken, each once, in their order.
fn broken(result: &WorkloadResult) -> Vec<Promise> {
    let mut promises: Vec<_> = result
        .broken
        .iter()
        .flat_map(|state| state.findings.iter().map(|finding| finding.promise))
        .collect();
    promises.sort_unstable();
    promises.dedup();
    promises
}
