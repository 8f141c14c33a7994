//! `crashpoint bench`: a sweep against the floor under it, in one run.

mod inside;
mod machines;
mod processor;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ace_gen::{Generator, Preset};
use anyhow::bail;
use campaign::{Interrupt, Outcome, OutputFormat, columns};
use clap::Args;
use local_fs::Variant;
use pace_rules::disk::States;
use replayer::{
    KernelArgs, KernelChoice, Summary, SweepOptions, Timing, Variants, Workers, parse_variants,
    prepare,
};
use serde_json::{Value, json};
use workloads::Workload;

pub(crate) use inside::run_hidden;
pub(crate) use processor::{Took, adopt_orphans, took};

use crate::cluster::{self, MachinesArgs};
use crate::inject;

/// Floor and sweep take turns this often; the median round counts.
const ROUNDS: u32 = 5;

/// Cycles to find out how fast the floor is, on each worker.
const TRIAL_CYCLES: u32 = 16;

/// From one workload to the next: coprime to their number, so that each round has the same mix.
const STRIDE: usize = 101;

/// The arguments of `crashpoint bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The file systems to measure, with their options as for `crashpoint fs`
    #[arg(long = "fs", value_name = "FS[:OPTIONS][,FS…]", value_parser = parse_variants, default_value = "ext4,xfs,btrfs")]
    file_systems: Vec<Variants>,

    /// The crash states to visit, as for `crashpoint fs`
    #[arg(long, value_name = "STATES", default_value_t)]
    states: States,

    /// Measure a cluster instead: what recording costs its client, and a sweep
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file_systems", "states", "KernelArgs"])]
    cluster: Option<PathBuf>,

    /// Measure live crash points of a cluster file instead, as `cluster sweep --live` tries them one
    /// at a time, against runs without a failure
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file_systems", "states", "cluster", "jobs", "KernelArgs"])]
    live: Option<PathBuf>,

    /// Measure simulated machines themselves instead, whatever runs in them: what one costs that
    /// does nothing, what a message to their calendar and a frame cost, and whether two simulations
    /// disturb each other. Takes no root; their kernel is that of --kernel uml:PATH, or the last that
    /// scripts/build-uml.sh built from linux-source-6.1, or else from linux-source-6.12
    #[arg(long, conflicts_with_all = ["file_systems", "states", "cluster", "live", "jobs", "modules", "kernel_parameters", "virtual_time"])]
    machines: bool,

    /// Measure how many runs an hour `crashpoint inject` makes of a cluster file instead, without a fault
    /// and with plans of the strategy `partitions`, against the same clusters started, worked on by their
    /// clients and stopped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file_systems", "states", "cluster", "live", "machines", "modules", "kernel_parameters", "virtual_time"])]
    inject: Option<PathBuf>,

    /// With --inject: on simulated machines. Their kernel is that of --kernel uml:PATH, as of --machines
    #[arg(long, requires = "inject")]
    simulate: bool,

    #[command(flatten)]
    kernel: KernelArgs,

    /// How many workers to run side by side [default: one for each processor]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// How long to measure each file system, or to start clusters
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86400))]
    seconds: u32,

    /// How to print the measurements
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// What one round measured.
#[derive(Debug, Clone)]
struct Round {
    /// Cycles a second on the image of a crash, which recovers when it is mounted.
    floor: f64,
    /// Cycles a second on the clean base.
    clean_floor: f64,
    sweep: Summary,
}

/// What came of a file system.
#[derive(Debug)]
struct Measured {
    variant: Variant,
    jobs: usize,
    /// How long it took to start a worker, with the guest where there is one.
    start: Duration,
    rounds: Vec<Round>,
    worker_peak_mib: Option<f64>,
}

/// Does it.
pub(crate) fn run(arguments: &BenchArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let time = Duration::from_secs(arguments.seconds.into());
    let format = arguments.format;
    if let Some(file) = &arguments.live {
        return cluster::bench_live(&cluster::LiveBench { file, time, format }, interrupt);
    }
    if arguments.machines {
        let kernel = match &arguments.kernel.kernel {
            KernelChoice::Uml(path) => path.as_deref(),
            KernelChoice::Host => None,
        };
        return machines::bench(kernel, time, format, interrupt);
    }
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.map_or_else(processors, usize::from);
    if let Some(file) = &arguments.inject {
        return bench_inject(arguments, file, jobs, interrupt);
    }
    if let Some(file) = &arguments.cluster {
        return cluster::bench(
            &cluster::Bench {
                file,
                jobs,
                time,
                format,
            },
            interrupt,
        );
    }
    bench(arguments, jobs, interrupt)
}

/// Measures campaigns of injected faults.
fn bench_inject(
    arguments: &BenchArgs,
    file: &Path,
    jobs: usize,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let simulate = arguments.simulate;
    let kernel = match &arguments.kernel.kernel {
        KernelChoice::Uml(_) if !simulate => bail!("with --inject, --kernel is for --simulate"),
        KernelChoice::Uml(path) => path.clone(),
        KernelChoice::Host => None,
    };
    let machines = &MachinesArgs {
        simulate,
        kernel,
        ..MachinesArgs::default()
    };
    let bench = inject::InjectBench {
        file,
        machines,
        jobs,
        time: Duration::from_secs(arguments.seconds.into()),
        format: arguments.format,
    };
    inject::bench(&bench, interrupt)
}

/// Measures file systems.
fn bench(arguments: &BenchArgs, jobs: usize, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let named = arguments.file_systems.iter();
    let variants: Vec<_> = named.flat_map(|named| named.0.clone()).collect();
    let machine = arguments.kernel.machine()?;
    prepare(&variants, &machine)?;
    let seconds = arguments.seconds;
    let time = Duration::from_secs(seconds.into());
    let options = SweepOptions {
        jobs,
        states: arguments.states,
        machine,
        ..SweepOptions::default()
    };
    let mut rows = Vec::new();
    for variant in variants {
        campaign::say(&format!(
            "{variant}: {ROUNDS} rounds in {seconds} s with {jobs} workers"
        ));
        let measured = measure(variant, &options, time, interrupt)?;
        if interrupt.requested() {
            campaign::say("interrupted");
            return Ok(Outcome::Incomplete);
        }
        if arguments.format == OutputFormat::Json {
            writeln!(io::stdout(), "{}", measured.json())?;
        }
        rows.push(measured);
    }
    if arguments.format == OutputFormat::Text {
        write!(io::stdout(), "{}", table(&rows))?;
    }
    Ok(outcome(&rows))
}

/// A sweep that could not judge all of its states was not measured whole.
fn outcome(rows: &[Measured]) -> Outcome {
    let mut rounds = rows.iter().flat_map(|row| &row.rounds);
    if rounds.all(|round| round.sweep.inconclusive == 0) {
        Outcome::Clean
    } else {
        Outcome::Incomplete
    }
}

fn measure(
    variant: Variant,
    options: &SweepOptions,
    time: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Measured> {
    let jobs = options.jobs;
    let started = Instant::now();
    let mut workers = Workers::start(&variant, options)?;
    let start = started.elapsed() / jobs as u32;
    let mut workloads = small_workloads()?;
    let slice = time / (3 * ROUNDS);
    let mut floor = workers.floor(TRIAL_CYCLES, true)?;
    let mut clean_floor = workers.floor(TRIAL_CYCLES, false)?;
    let cycles = |rate: f64| ((rate / jobs as f64 * slice.as_secs_f64()).ceil() as u32).max(1);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        if interrupt.requested() {
            break;
        }
        floor = workers.floor(cycles(floor), true)?;
        clean_floor = workers.floor(cycles(clean_floor), false)?;
        let end = Instant::now() + slice;
        let mut timed = workloads
            .by_ref()
            .take_while(|_| Instant::now() < end)
            .map(Ok);
        let sweep = workers.run(&mut timed, interrupt, &mut |_, _| Ok(()))?;
        rounds.push(Round {
            floor,
            clean_floor,
            sweep,
        });
    }
    Ok(Measured {
        variant,
        jobs,
        start,
        rounds,
        worker_peak_mib: worker_peak_mib(),
    })
}

/// The unique workloads of seq-1 for ever, in an order that mixes operations.
fn small_workloads() -> anyhow::Result<impl Iterator<Item = Workload> + Send> {
    let generator = Generator::new(Preset::Seq1.bounds())?;
    let all: Vec<Workload> = generator.unique().map(|(_, workload)| workload).collect();
    Ok((0..)
        .step_by(STRIDE)
        .map(move |number: usize| all[number % all.len()].clone()))
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    fn floor(&self) -> f64 {
        self.median(|round| round.floor)
    }

    fn clean_floor(&self) -> f64 {
        self.median(|round| round.clean_floor)
    }

    fn sweep(&self) -> f64 {
        self.median(sweep_cycles)
    }

    fn ratio(&self) -> f64 {
        self.median(|round| sweep_cycles(round) / round.floor)
    }

    fn workloads(&self) -> f64 {
        self.median(|round| round.sweep.workloads as f64 / seconds(round))
    }

    /// How many of the crash states were equal to one visited before, in percent.
    fn equal_percent(&self) -> f64 {
        let sum = |of: fn(&Summary) -> u64| {
            self.rounds
                .iter()
                .map(|round| of(&round.sweep))
                .sum::<u64>() as f64
        };
        let (equal, visited) = (
            sum(|sweep| sweep.states_equal),
            sum(|sweep| sweep.states_checked),
        );
        100.0 * equal / (equal + visited).max(1.0)
    }

    /// Where the workers' time went, in percent; the rest is theirs between workloads.
    fn phases(&self) -> Vec<(&'static str, f64)> {
        let mut timing = Timing::default();
        self.rounds
            .iter()
            .for_each(|round| timing.add(round.sweep.timing));
        let all_us: f64 = self
            .rounds
            .iter()
            .map(|round| seconds(round) * 1e6 * self.jobs as f64)
            .sum();
        let phases = [
            ("record", timing.record_us),
            ("enumerate", timing.enumerate_us),
            ("load", timing.load_us),
            ("mount", timing.mount_us),
            ("compare", timing.compare_us),
            ("oracle", timing.oracle_us),
            ("write", timing.write_us),
            ("fsck", timing.fsck_us),
        ];
        phases
            .into_iter()
            .map(|(name, us)| (name, 100.0 * us as f64 / all_us))
            .collect()
    }

    fn json(&self) -> Value {
        let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
        let phases: serde_json::Map<_, _> = self
            .phases()
            .into_iter()
            .map(|(name, percent)| (name.to_owned(), json!(rounded(percent))))
            .collect();
        json!({
            "type": "bench",
            "file_system": self.variant.file_system.name,
            "jobs": self.jobs,
            "worker_start_s": rounded(self.start.as_secs_f64()),
            "rounds": self.rounds.len(),
            "floor_cycles_per_s": rounded(self.floor()),
            "clean_floor_cycles_per_s": rounded(self.clean_floor()),
            "sweep_cycles_per_s": rounded(self.sweep()),
            "ratio": rounded(self.ratio()),
            "workloads_per_s": rounded(self.workloads()),
            "equal_percent": rounded(self.equal_percent()),
            "time_percent": phases,
            "worker_peak_mib": self.worker_peak_mib.map(rounded),
        })
    }
}

/// The median, or 0 of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn seconds(round: &Round) -> f64 {
    round.sweep.elapsed.as_secs_f64().max(1e-9)
}

fn sweep_cycles(round: &Round) -> f64 {
    round.sweep.cycles() as f64 / seconds(round)
}

fn table(rows: &[Measured]) -> String {
    let head = [
        "file system",
        "clean floor/s",
        "floor/s",
        "sweep/s",
        "ratio",
        "workloads/s",
        "equal %",
        "start s",
    ];
    let phases = [
        "record %",
        "enumerate %",
        "load %",
        "mount %",
        "walk %",
        "oracle %",
        "write %",
        "fsck %",
        "MiB/worker",
    ];
    let mut cells: Vec<Vec<String>> =
        vec![head.into_iter().chain(phases).map(str::to_owned).collect()];
    for row in rows {
        let mut line = vec![
            row.variant.to_string(),
            format!("{:.0}", row.clean_floor()),
            format!("{:.0}", row.floor()),
            format!("{:.0}", row.sweep()),
            format!("{:.2}", row.ratio()),
            format!("{:.0}", row.workloads()),
            format!("{:.0}", row.equal_percent()),
            format!("{:.1}", row.start.as_secs_f64()),
        ];
        line.extend(
            row.phases()
                .into_iter()
                .map(|(_, percent)| format!("{percent:.0}")),
        );
        line.push(
            row.worker_peak_mib
                .map_or_else(|| "?".to_owned(), |mib| format!("{mib:.0}")),
        );
        cells.push(line);
    }
    columns(&cells)
}

/// The most memory that any of our workers had, from `/proc`.
fn worker_peak_mib() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let children = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let peak_kib = children
        .flat_map(|text| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|pid| peak_kib(&pid))
        .max()?;
    Some(peak_kib as f64 / 1024.0)
}

fn peak_kib(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
