//! `crashpoint bench --live FILE`: how many live crash points an hour are tried, against the same runs
//! without a failure.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use campaign::{Interrupt, Outcome, OutputFormat, columns, say};
use injector::{At, Failure, Fault, Keeps, Laboratory, Plan, Prefix, TOGETHER_MAX, Victims};
use serde_json::{Value, json};

use super::live;
use super::surroundings::Surroundings;
use crate::bench::{Took, adopt_orphans, median, took};

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

/// What one round measured.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// To boot, run the client and ask the check.
    floor: Took,
    /// The same with a power failure of all nodes in it, after which they boot once more.
    point: Took,
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
    adopt_orphans()?;
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
        let of_run = |faults| {
            let failure = Failure {
                faults,
                forked_ns: None,
            };
            let ran = took(|| laboratory.run(&failure, None, cancelled));
            anyhow::Ok(ran?.1)
        };
        rounds.push(Round {
            floor: of_run(vec![])?,
            point: of_run(faults)?,
        });
    }
    Ok((rounds, tried))
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
    let (mut forked, all) = took(|| {
        let begun = Instant::now();
        let mut prefix = laboratory.prefix(false, cancelled)?;
        let mut forked = Forked::default();
        forked.prefix.wall_s = begun.elapsed().as_secs_f64();
        for failure in failures {
            let begun = Instant::now();
            prefix.advance(&failure)?;
            forked.prefix.wall_s += begun.elapsed().as_secs_f64();
            let (fork_s, took) = timed_fork(&mut prefix, &failure)?;
            forked.fork_s.push(fork_s);
            forked.rest.push(took);
        }
        anyhow::Ok(forked)
    })?;
    let rest_s = total(&forked.rest);
    forked.prefix.cpu_s = all.cpu_s.zip(rest_s).map(|(all_s, rest_s)| all_s - rest_s);
    Ok(forked)
}

/// Forks a run for a failure. Seconds for that alone, and what it took with what comes after it.
fn timed_fork(prefix: &mut Prefix, failure: &Failure) -> anyhow::Result<(f64, Took)> {
    took(|| {
        let begun = Instant::now();
        let future = prefix.fork(None)?;
        let fork_s = begun.elapsed().as_secs_f64();
        future.end_with(failure)?;
        injector::Result::Ok(fork_s)
    })
}

/// What forks measured.
#[derive(Default)]
struct Forked {
    /// The run that all of them have in common.
    prefix: Took,
    /// Seconds for each fork of all its machines.
    fork_s: Vec<f64>,
    /// Each fork with what comes after it.
    rest: Vec<Took>,
}

impl Forked {
    /// What a failure takes, where as many have a run in common as in a sweep.
    fn point(&self) -> Took {
        let (prefix, rest) = (self.prefix, median_of(&self.rest));
        let both = |(prefix_s, rest_s)| prefix_s / TOGETHER_MAX as f64 + rest_s;
        Took {
            wall_s: both((prefix.wall_s, rest.wall_s)),
            cpu_s: prefix.cpu_s.zip(rest.cpu_s).map(both),
        }
    }
}

/// Processor time of all, if it is known.
fn total(took: &[Took]) -> Option<f64> {
    took.iter().map(|took| took.cpu_s).sum()
}

/// The medians of both times.
fn median_of(took: &[Took]) -> Took {
    let cpu_s: Option<Vec<_>> = took.iter().map(|took| took.cpu_s).collect();
    Took {
        wall_s: median(took.iter().map(|took| took.wall_s).collect()),
        cpu_s: cpu_s.map(median),
    }
}

/// What came of a cluster.
struct Measured {
    name: String,
    rounds: Vec<Round>,
    /// If the kernel can be forked.
    forked: Option<Forked>,
}

/// What stands where a figure is not known.
const UNKNOWN: &str = "?";

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// Names, here and in a table, and medians where they are known.
    fn figures(&self) -> Vec<(&'static str, &'static str, Option<f64>)> {
        let points: Vec<_> = self.rounds.iter().map(|round| round.point).collect();
        let point = median_of(&points);
        let floor_s = self.median(|round| round.floor.wall_s);
        let ratio = self.median(|round| round.point.wall_s / round.floor.wall_s);
        let mut figures = vec![
            ("floor_s", "floor s", Some(floor_s)),
            ("point_s", "point s", Some(point.wall_s)),
            ("point_cpu_s", "cpu s", point.cpu_s),
            ("ratio", "ratio", Some(ratio)),
            ("points_per_hour", "points/h", Some(HOUR_S / point.wall_s)),
        ];
        if let Some(forked) = &self.forked {
            let (point, fork_s) = (forked.point(), median(forked.fork_s.clone()));
            let per_hour = HOUR_S / point.wall_s;
            figures.extend([
                ("fork_s", "fork s", Some(fork_s)),
                ("fork_point_s", "forked s", Some(point.wall_s)),
                ("fork_point_cpu_s", "cpu s", point.cpu_s),
                ("fork_points_per_hour", "forked/h", Some(per_hour)),
            ]);
        }
        figures
    }

    fn json(&self) -> Value {
        let mut object =
            json!({"type": "bench-live", "file": self.name, "rounds": self.rounds.len()});
        for (name, _, value) in self.figures() {
            object[name] = json!(value.map(|value| (value * 1000.0).round() / 1000.0));
        }
        object
    }

    fn table(&self) -> String {
        let mut head = vec!["cluster".to_owned(), "rounds".to_owned()];
        let mut row = vec![self.name.clone(), self.rounds.len().to_string()];
        for (_, name, value) in self.figures() {
            head.push(name.to_owned());
            row.push(value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.2}")));
        }
        columns(&[head, row])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(wall_s: f64, cpu_s: f64) -> Took {
        let cpu_s = Some(cpu_s);
        Took { wall_s, cpu_s }
    }

    fn measured() -> Measured {
        let round = |point| Round {
            floor: took(1.0, 1.5),
            point,
        };
        Measured {
            name: "cluster.toml".into(),
            rounds: [took(2.0, 3.0), took(2.5, 3.5), took(9.0, 9.5)]
                .map(round)
                .to_vec(),
            forked: Some(Forked {
                prefix: took(3.2, 6.4),
                fork_s: vec![0.5, 0.125, 0.25],
                rest: [took(1.0, 1.5), took(7.0, 7.5), took(1.25, 1.75)].to_vec(),
            }),
        }
    }

    #[test]
    fn a_bench_of_live_points_has_the_processor_time_and_what_a_fork_takes() {
        let mut measured = measured();
        let expected = "\
cluster       rounds  floor s  point s  cpu s  ratio  points/h  fork s  forked s  cpu s  forked/h
cluster.toml       3     1.00     2.50   3.50   2.50   1440.00    0.25      1.35   1.95   2666.67
";
        assert_eq!(measured.table(), expected);
        let expected = json!({
            "type": "bench-live", "file": "cluster.toml", "rounds": 3,
            "floor_s": 1.0, "point_s": 2.5, "point_cpu_s": 3.5, "ratio": 2.5, "points_per_hour": 1440.0,
            "fork_s": 0.25, "fork_point_s": 1.35, "fork_point_cpu_s": 1.95,
            "fork_points_per_hour": 2666.667,
        });
        assert_eq!(measured.json(), expected);
        // Of a kernel that cannot be forked, on a host that does not tell the children of a process.
        measured.forked = None;
        measured.rounds[1].point.cpu_s = None;
        let expected = "\
cluster       rounds  floor s  point s  cpu s  ratio  points/h
cluster.toml       3     1.00     2.50      ?   2.50   1440.00
";
        assert_eq!(measured.table(), expected);
        assert_eq!(measured.json()["point_cpu_s"], Value::Null);
    }
}
