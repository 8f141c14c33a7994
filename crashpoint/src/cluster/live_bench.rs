//! `crashpoint bench --live FILE`: how many live crash points an hour are tried, against the same runs
//! without a failure.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use campaign::{Interrupt, Outcome, OutputFormat, columns, say};
use injector::{At, Failure, Keeps, Laboratory, Plan, Victims};
use serde_json::{Value, json};

use super::live;
use super::simulate::Level;

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
    let laboratory = live::laboratory(bench.file, None, SEED, Level::Off)?;
    let cancelled = || interrupt.requested();
    say(&format!("{}: one run at a time", bench.file.display()));
    let reference = laboratory.reference(&[At::Acks, At::Requests], &cancelled)?;
    let plan = Plan {
        victims: vec![Victims::All],
        keeps: vec![Keeps::Flushed],
        ..reference.plan
    };
    let begun = Instant::now();
    let mut rounds = Vec::new();
    for index in plan.order() {
        if rounds.len() >= ROUNDS_MIN && begun.elapsed() >= bench.time {
            break;
        }
        let faults = plan.fault(index).into_iter().collect();
        let floor_s = timed(&laboratory, &Failure { faults: vec![] }, &cancelled)?;
        let point_s = timed(&laboratory, &Failure { faults }, &cancelled)?;
        rounds.push(Round { floor_s, point_s });
    }
    let measured = Measured {
        name: bench.file.display().to_string(),
        rounds,
    };
    let text = match bench.format {
        OutputFormat::Json => format!("{}\n", measured.json()),
        OutputFormat::Text => measured.table(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Clean)
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

/// What came of a cluster.
struct Measured {
    name: String,
    rounds: Vec<Round>,
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    }

    /// Names and medians.
    fn figures(&self) -> [(&'static str, f64); 4] {
        let point_s = self.median(|round| round.point_s);
        [
            ("floor_s", self.median(|round| round.floor_s)),
            ("point_s", point_s),
            ("ratio", self.median(|round| round.point_s / round.floor_s)),
            ("points_per_hour", HOUR_S / point_s),
        ]
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
            "cluster", "rounds", "floor s", "point s", "ratio", "points/h",
        ];
        let mut row = vec![self.name.clone(), self.rounds.len().to_string()];
        row.extend(self.figures().map(|(_, value)| format!("{value:.2}")));
        columns(&[head.map(str::to_owned).to_vec(), row])
    }
}
