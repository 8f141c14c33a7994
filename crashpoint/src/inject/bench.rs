//! `crashpoint bench --inject FILE`: how many runs an hour a campaign makes, against the floor under it: the
//! same clusters started, worked on by their clients and stopped, with nobody who injects or checks anything.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use campaign::{Interrupt, Outcome, OutputFormat, columns, say};
use cluster::ClusterFile;
use injector::online::{FaultPlan, InjectManifest, strategy, without_faults};
use injector::{Judged, Result};
use serde_json::{Value, json};

use super::ground::{on_machines, run_once, workload_once};
use super::{read_file, refuse_idle};
use crate::bench::median;
use crate::cluster::MachinesArgs;

/// Each thing is measured this often, in turns; the median counts.
const ROUNDS: u32 = 3;

/// What each round measures.
const PARTS: u32 = 3;

/// The strategy whose plans are tried.
const STRATEGY: &str = "partitions";

/// So many of its plans, over and over.
const PLANS: u64 = 50;

/// What is drawn comes from it.
const SEED: u64 = 7;

/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;

/// What is measured, and for how long.
pub(crate) struct InjectBench<'a> {
    pub(crate) file: &'a Path,
    pub(crate) machines: &'a MachinesArgs,
    /// How many clusters run side by side.
    pub(crate) jobs: usize,
    pub(crate) time: Duration,
    pub(crate) format: OutputFormat,
}

/// Runs an hour.
#[derive(Debug, Clone, Copy)]
struct Round {
    floor: f64,
    /// With everything that a campaign does in a run, but no fault.
    idle: f64,
    /// With the faults of the strategy's plans.
    faults: f64,
}

/// Does it.
pub(crate) fn bench(bench: &InjectBench<'_>, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let file = read_file(bench.file, bench.machines.simulate)?;
    refuse_idle(&file, bench.file)?;
    let mut manifest = InjectManifest::new(&file, &bench.file.canonicalize()?);
    manifest.simulated = on_machines(bench.machines, &file, SEED)?;
    let measured = Measuring {
        file: &file,
        manifest: &manifest,
        plans: plans(&file)?,
        tried: AtomicU64::new(0),
        unsound: AtomicU64::new(0),
        bench,
        interrupt,
    };
    let name = bench.file.display();
    let jobs = bench.jobs;
    say(&format!(
        "{name}: {ROUNDS} rounds with {jobs} clusters side by side"
    ));
    let rounds = measured.rounds();
    if interrupt.requested() {
        say("interrupted");
        return Ok(Outcome::Incomplete);
    }
    let measured = Measured {
        name: name.to_string(),
        jobs,
        rounds: rounds?,
        unsound: measured.unsound.into_inner(),
    };
    let text = match bench.format {
        OutputFormat::Json => format!("{}\n", measured.json()),
        OutputFormat::Text => measured.table(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(measured.outcome())
}

/// The first of the strategy, in its order.
fn plans(file: &ClusterFile) -> anyhow::Result<Vec<FaultPlan>> {
    let mut strategy = strategy(STRATEGY, file, SEED).context("there is this strategy")?;
    let proposed = (0..PLANS).map_while(|index| strategy.propose(index, &[]));
    Ok(proposed.collect())
}

/// Everything that is needed to measure.
struct Measuring<'a> {
    file: &'a ClusterFile,
    manifest: &'a InjectManifest,
    plans: Vec<FaultPlan>,
    /// How many plans were tried.
    tried: AtomicU64,
    /// How many runs without a fault were not ok.
    unsound: AtomicU64,
    bench: &'a InjectBench<'a>,
    interrupt: &'a Interrupt,
}

impl Measuring<'_> {
    fn rounds(&self) -> Result<Vec<Round>> {
        (0..ROUNDS).map(|_| self.round()).collect()
    }

    fn round(&self) -> Result<Round> {
        let of = (self.file, self.manifest);
        let idle = without_faults(self.file, SEED);
        let floor = self.per_hour(|| workload_once(of, (0, &idle), self.interrupt))?;
        let without = self.per_hour(|| {
            let ran = run_once(of, (0, &idle), None, self.interrupt)?;
            let is_unsound = ran.judged != Judged::Ok;
            self.unsound.fetch_add(is_unsound.into(), Ordering::Relaxed);
            Ok(())
        })?;
        let faults = self.per_hour(|| {
            let index = self.tried.fetch_add(1, Ordering::Relaxed);
            let plan = &self.plans[index as usize % self.plans.len()];
            run_once(of, (index, plan), None, self.interrupt).map(drop)
        })?;
        Ok(Round {
            floor,
            idle: without,
            faults,
        })
    }

    /// How many runs an hour are made side by side. Each that has begun is measured to its end.
    fn per_hour(&self, run: impl Fn() -> Result<()> + Sync) -> Result<f64> {
        let slice = self.bench.time / (ROUNDS * PARTS);
        let worker = || {
            let begun = Instant::now();
            let mut runs = 0;
            while runs == 0 || begun.elapsed() < slice {
                run()?;
                runs += 1;
            }
            Ok(f64::from(runs) * HOUR_S / begun.elapsed().as_secs_f64())
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.bench.jobs).map(|_| scope.spawn(worker)).collect();
            workers
                .into_iter()
                .map(|one| one.join().expect("it does not panic"))
                .sum()
        })
    }
}

/// What came of a cluster.
struct Measured {
    name: String,
    jobs: usize,
    rounds: Vec<Round>,
    /// How many runs without a fault were not ok.
    unsound: u64,
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// Names and medians.
    fn figures(&self) -> [(&'static str, &'static str, f64); 5] {
        let of = |of: fn(&Round) -> f64| self.median(of);
        [
            ("floor_per_hour", "floor/h", of(|round| round.floor)),
            ("idle_per_hour", "no fault/h", of(|round| round.idle)),
            ("idle_ratio", "ratio", of(|round| round.idle / round.floor)),
            ("faults_per_hour", "faults/h", of(|round| round.faults)),
            (
                "faults_ratio",
                "ratio",
                of(|round| round.faults / round.floor),
            ),
        ]
    }

    fn json(&self) -> Value {
        let mut object = json!({
            "type": "bench-inject", "file": self.name, "jobs": self.jobs, "rounds": self.rounds.len(),
            "unsound": self.unsound,
        });
        for (name, _, value) in self.figures() {
            object[name] = json!((value * 1000.0).round() / 1000.0);
        }
        object
    }

    fn table(&self) -> String {
        let mut head = vec!["cluster".to_owned(), "jobs".to_owned()];
        let mut row = vec![self.name.clone(), self.jobs.to_string()];
        for (_, name, value) in self.figures() {
            head.push(name.to_owned());
            row.push(format!("{value:.2}"));
        }
        let table = columns(&[head, row]);
        match self.unsound {
            0 => table,
            unsound => format!(
                "{table}{unsound} runs without a fault were not ok: the figures are of those, too\n"
            ),
        }
    }

    /// Figures of runs that went wrong are none of the runs that were to be measured.
    fn outcome(&self) -> Outcome {
        if self.unsound == 0 {
            Outcome::Clean
        } else {
            Outcome::Incomplete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_of_injection_says_runs_an_hour_and_whether_they_are_of_what_was_meant() {
        let round = |floor| Round {
            floor,
            idle: 900.0,
            faults: 750.0,
        };
        let mut measured = Measured {
            name: "cluster.toml".into(),
            jobs: 2,
            rounds: [1000.0, 900.0, 1500.0].map(round).to_vec(),
            unsound: 0,
        };
        let expected = "\
cluster       jobs  floor/h  no fault/h  ratio  faults/h  ratio
cluster.toml     2  1000.00      900.00   0.90    750.00   0.75
";
        assert_eq!(measured.table(), expected);
        assert!(matches!(measured.outcome(), Outcome::Clean));
        measured.unsound = 3;
        assert!(
            measured
                .table()
                .contains("\n3 runs without a fault were not ok")
        );
        assert!(matches!(measured.outcome(), Outcome::Incomplete));
        let expected = json!({
            "type": "bench-inject", "file": "cluster.toml", "jobs": 2, "rounds": 3, "unsound": 3,
            "floor_per_hour": 1000.0, "idle_per_hour": 900.0, "idle_ratio": 0.9,
            "faults_per_hour": 750.0, "faults_ratio": 0.75,
        });
        assert_eq!(measured.json(), expected);
    }
}
