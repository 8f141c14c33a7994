//! `crashpoint bench --live FILE`: how many live crash points an hour are tried, against the same runs
//! without a failure.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use campaign::{Interrupt, Outcome, OutputFormat, columns, say};
use injector::{At, Failure, Fault, Keeps, Laboratory, Plan, TOGETHER_MAX, Victims};
use serde_json::{Value, json};

use super::live;
use super::surroundings::Surroundings;

/// At least so many rounds, whatever the time.
const ROUNDS_MIN: usize = 3;

/// The seed of the run.
const SEED: u64 = 7;

/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;

/// What is measured, and for how long.
pub(crate) struct LiveBench<'a> {
    pub(crate) file: &'a Path,
    pub(crate) time: Duration,
    pub(crate) format: OutputFormat,
}

/// What one round measured, in seconds.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// To boot, run the client and ask the check.
    floor_s: f64,
    /// The same with a power failure of all nodes in it, after which they boot once more.
    point_s: f64,
}

/// Does it.
pub(crate) fn bench(bench: &LiveBench<'_>, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let measured = measured(bench, interrupt);
    if interrupt.requested() {
        say("interrupted");
        return Ok(Outcome::Incomplete);
    }
    let measured = measured?;
    let text = match bench.format {
        OutputFormat::Json => format!("{}\n", measured.json()),
        OutputFormat::Text => measured.table(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Clean)
}

fn measured(bench: &LiveBench<'_>, interrupt: &Interrupt) -> anyhow::Result<Measured> {
    let laboratory = live::laboratory(bench.file, None, SEED, &Surroundings::default())?;
    let cancelled = || interrupt.requested();
    say(&format!("{}: one run at a time", bench.file.display()));
    let reference = laboratory.reference(&[At::Acks, At::Requests], false, &cancelled)?;
    let plan = Plan {
        victims: vec![Victims::All],
        keeps: vec![Keeps::Flushed],
        ..reference.plan
    };
    let (rounds, tried) = rounds(&laboratory, &plan, bench.time, &cancelled)?;
    let forked = live::can_fork(&laboratory)
        .then(|| forked(&laboratory, &plan, tried, &cancelled))
        .transpose()?;
    Ok(Measured {
        name: bench.file.display().to_string(),
        rounds,
        forked,
    })
}

/// Runs without a failure and with one, in turn, for so long; with the faults of the latter.
fn rounds(
    laboratory: &Laboratory,
    plan: &Plan,
    time: Duration,
    cancelled: &dyn Fn() -> bool,
) -> anyhow::Result<(Vec<Round>, Vec<Fault>)> {
    let begun = Instant::now();
    let (mut rounds, mut tried) = (Vec::new(), Vec::new());
    for index in plan.order() {
        if rounds.len() >= ROUNDS_MIN && begun.elapsed() >= time {
            break;
        }
        let faults: Vec<_> = plan.fault(index).into_iter().collect();
        tried.extend(faults.first().cloned());
        let seconds = |faults| {
            let failure = Failure {
                faults,
                forked_ns: None,
            };
            timed(laboratory, &failure, cancelled)
        };
        rounds.push(Round {
            floor_s: seconds(vec![])?,
            point_s: seconds(faults)?,
        });
    }
    Ok((rounds, tried))
}

fn timed(
    laboratory: &Laboratory,
    failure: &Failure,
    cancelled: &dyn Fn() -> bool,
) -> anyhow::Result<f64> {
    let begun = Instant::now();
    laboratory.run(failure, None, cancelled)?;
    Ok(begun.elapsed().as_secs_f64())
}

/// The same failures in forks of one run, in the order of their times.
fn forked(
    laboratory: &Laboratory,
    plan: &Plan,
    tried: Vec<Fault>,
    cancelled: &dyn Fn() -> bool,
) -> anyhow::Result<Forked> {
    let failures = tried.into_iter().map(|fault| Failure {
        forked_ns: plan.fork_before(fault.when),
        faults: vec![fault],
    });
    let mut failures: Vec<_> = failures.collect();
    failures.sort_by_key(|failure| failure.forked_ns);
    let begun = Instant::now();
    let mut prefix = laboratory.prefix(false, cancelled)?;
    let mut prefix_s = begun.elapsed().as_secs_f64();
    let mut rest_s = Vec::new();
    for failure in failures {
        let begun = Instant::now();
        prefix.advance(&failure)?;
        prefix_s += begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        prefix.future(&failure, None)?;
        rest_s.push(begun.elapsed().as_secs_f64());
    }
    Ok(Forked { prefix_s, rest_s })
}

/// What forks measured, in seconds.
struct Forked {
    /// The run that all of them have in common.
    prefix_s: f64,
    /// Each fork, and what comes after it.
    rest_s: Vec<f64>,
}

impl Forked {
    /// What a failure takes, where as many have a run in common as in a sweep.
    fn point_s(&self) -> f64 {
        self.prefix_s / TOGETHER_MAX as f64 + median(self.rest_s.clone())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// What came of a cluster.
struct Measured {
    name: String,
    rounds: Vec<Round>,
    /// If the kernel can be forked.
    forked: Option<Forked>,
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// Names and medians.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        let point_s = self.median(|round| round.point_s);
        let forked_s = self.forked.as_ref().map(Forked::point_s);
        let forked = forked_s.into_iter().flat_map(|forked_s| {
            [
                ("fork_point_s", forked_s),
                ("fork_points_per_hour", HOUR_S / forked_s),
            ]
        });
        let mut figures = vec![
            ("floor_s", self.median(|round| round.floor_s)),
            ("point_s", point_s),
            ("ratio", self.median(|round| round.point_s / round.floor_s)),
            ("points_per_hour", HOUR_S / point_s),
        ];
        figures.extend(forked);
        figures
    }

    fn json(&self) -> Value {
        let mut object =
            json!({"type": "bench-live", "file": self.name, "rounds": self.rounds.len()});
        for (name, value) in self.figures() {
            object[name] = json!((value * 1000.0).round() / 1000.0);
        }
        object
    }

    fn table(&self) -> String {
        let head = [
            "cluster", "rounds", "floor s", "point s", "ratio", "points/h", "fork s", "fork/h",
        ];
        let head = &head[..head.len() - if self.forked.is_some() { 0 } else { 2 }];
        let mut row = vec![self.name.clone(), self.rounds.len().to_string()];
        let figures = self.figures().into_iter();
        row.extend(figures.map(|(_, value)| format!("{value:.2}")));
        let head = head.iter().map(|word| (*word).to_owned()).collect();
        columns(&[head, row])
    }
}
