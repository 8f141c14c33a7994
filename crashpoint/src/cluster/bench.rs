//! `crashpoint bench --cluster FILE`: what recording a cluster costs its client, and a sweep
//! against the floor under it, in one run.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat, columns, say};
use cluster::{Cluster, ClusterFile, Disk, NodeConfig, Process, Spawn, Starter};
use local_fs::{Scratch, enter_mount_namespace};
use node_sweep::{CrashState, Nodes, Plan, States, Subject, sweep};
use pace_rules::Sector;
use pace_rules::nodes::{
    Explore, Model, NodeState, Relaxation, Relaxations, Request, Space, Spaces, Split, StartOrder,
    State,
};
use serde_json::{Value, json};
use trace::{Action, Run};
use trace_store::Trace;

use super::record::{recorded, start_prepared};
use super::workspace::Workspace;
use crate::bench::median;
use node_sweep::explore;

/// Each thing is measured this often, in turns; the median counts.
const ROUNDS: usize = 5;

/// From which states are drawn: that of most file systems.
const MODEL: &str = "ext4-ordered";

/// So many states in the first round, which says how many can be visited in the time of the others.
const TRIAL_STATES: u64 = 20;

/// What is measured, and for how long.
pub(crate) struct Bench<'a> {
    pub(crate) file: &'a Path,
    /// How many clusters run side by side.
    pub(crate) jobs: usize,
    pub(crate) time: Duration,
    pub(crate) format: OutputFormat,
}

/// What one round measured.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// Seconds from the client's first acknowledgement to its last.
    alone_s: f64,
    /// The same under the recorder.
    recorded_s: f64,
    /// How often a second a cluster was started, ready and ended on what the run left.
    floor: f64,
    /// How many states a second were looked at.
    sweep: f64,
}

/// Does it.
pub(crate) fn bench(bench: &Bench<'_>, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let file = ClusterFile::read(bench.file)?;
    if file.client.is_none() || file.check.is_none() || file.disk.is_some() {
        bail!(
            "{}: to measure a cluster takes one with [client] and [check], and without disk",
            bench.file.display()
        );
    }
    say(&format!(
        "{}: {ROUNDS} rounds with {} clusters side by side",
        bench.file.display(),
        bench.jobs
    ));
    let mut rounds = Vec::new();
    let mut states = TRIAL_STATES;
    while rounds.len() <= ROUNDS {
        let round = bench.round(&file, &mut states, rounds.len() as u64, interrupt);
        if interrupt.requested() {
            say("interrupted");
            return Ok(Outcome::Incomplete);
        }
        rounds.push(round?);
    }
    // The first one was to find out how fast it is.
    let measured = Measured {
        name: bench.file.display().to_string(),
        jobs: bench.jobs,
        rounds: rounds.split_off(1),
    };
    let text = match bench.format {
        OutputFormat::Json => format!("{}\n", measured.json()),
        OutputFormat::Text => measured.table(),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Clean)
}

/// What the sweep that is measured asks for.
fn request(explore: Explore) -> Request {
    Request {
        model: Model::named(MODEL).expect("there is one"),
        explore,
        lost: 1,
        split: Split::default(),
        sector: Sector::default(),
        relaxations: Relaxations::ALL,
    }
}

impl Bench<'_> {
    fn round(
        &self,
        file: &ClusterFile,
        states: &mut u64,
        seed: u64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Round> {
        let alone_s = alone(file, interrupt)?;
        let trace = recorded(file, &mut Workspace::new(file, None)?, None, interrupt)?;
        let recorded_s = between_acknowledgements(&trace);
        let spaces = Spaces::new(&trace.run, &[request(explore(file, &trace.run)?)])?;
        let space = &spaces.members()[0].space;
        enter_mount_namespace()?;
        let scratch = Scratch::new()?;
        // One belongs to the thread that it is used in first.
        let clusters = |what| clusters(file, &trace.run, self.jobs, (&scratch, what), interrupt);
        let slice = self.time / (2 * ROUNDS as u32);
        let floor = floor(clusters("floor")?, &last(&trace, space)?, slice)?;
        let drawn = space.sample((*states).min(space.len()), seed);
        let sweep = swept(&trace, &spaces, drawn, clusters("sweep")?, interrupt)?;
        *states = ((sweep * slice.as_secs_f64()) as u64).max(TRIAL_STATES);
        Ok(Round {
            alone_s,
            recorded_s,
            floor,
            sweep,
        })
    }
}

/// So many clusters, which have directories of this name for themselves.
fn clusters(
    file: &ClusterFile,
    run: &Run,
    jobs: usize,
    (scratch, what): (&Scratch, &str),
    interrupt: &Interrupt,
) -> node_sweep::Result<Vec<Nodes>> {
    let numbers = 0..jobs;
    let clusters = numbers.map(|number| {
        let directory = scratch.directory(&format!("{what}-{number}"))?;
        Nodes::new(file, run, directory, interrupt)
    });
    clusters.collect()
}

/// How many different states a second these clusters look at.
fn swept(
    trace: &Trace,
    spaces: &Spaces,
    states: Vec<u64>,
    clusters: Vec<Nodes>,
    interrupt: &Interrupt,
) -> anyhow::Result<f64> {
    let clusters = clusters.into_iter();
    let subjects = clusters.map(|cluster| Box::new(cluster) as Box<dyn Subject>);
    let (subjects, plan) = (subjects.collect(), Plan::default());
    let states = states.into_iter();
    let began = Instant::now();
    let swept = sweep(trace, spaces, states, subjects, &plan, interrupt, &mut ())?;
    Ok(swept.checked as f64 / began.elapsed().as_secs_f64())
}

/// Starts nodes with nobody who watches, each on one processor, as a recorder does: on other
/// processors they take another time.
struct Pinned<'a>(&'a ClusterFile);

impl Starter for Pinned<'_> {
    fn start(
        &mut self,
        node: &NodeConfig,
        disk: Option<&mut Disk>,
        command: Command,
    ) -> io::Result<Box<dyn Process>> {
        let place = self.0.place(&node.name).expect("it is a node of this file");
        machine::on_one_processor(place, || Spawn.start(node, disk, command))?
    }
}

/// How long the client takes with nobody who records, from its first acknowledgement to its last.
fn alone(file: &ClusterFile, interrupt: &Interrupt) -> anyhow::Result<f64> {
    let workspace = Workspace::new(file, None)?;
    let cancelled = || interrupt.requested();
    let mut cluster = Cluster::new(file, &workspace.logs)?;
    start_prepared(&mut cluster, &workspace, &mut Pinned(file), &cancelled)?;
    let mut times = Vec::new();
    // As it is recorded.
    let place = file.nodes.len();
    machine::on_one_processor(place, || {
        cluster.run_client(&mut |_| times.push(Instant::now()), &cancelled)
    })
    .context("have the client run on one processor")??;
    let between = times
        .first()
        .zip(times.last())
        .map(|(first, last)| *last - *first);
    Ok(between.unwrap_or_default().as_secs_f64())
}

fn between_acknowledgements(trace: &Trace) -> f64 {
    let events = trace.run.nodes.iter().flat_map(|node| &node.events);
    let marks = events
        .filter(|event| matches!(event.action, Action::Mark { .. }))
        .map(|event| event.end_ns);
    let (first, last) = marks.fold((u64::MAX, 0), |(first, last), at| {
        (first.min(at), last.max(at))
    });
    Duration::from_nanos(last.saturating_sub(first)).as_secs_f64()
}

/// The state in which nothing was lost.
fn last(trace: &Trace, space: &Space) -> anyhow::Result<CrashState> {
    let run: &Run = &trace.run;
    let state = State {
        cut: run.nodes.iter().map(|node| node.events.len()).collect(),
        nodes: (0..run.nodes.len())
            .map(|node| NodeState {
                micros: space.micros(node).len(),
                lost: vec![],
            })
            .collect(),
        relaxation: Relaxation::Prefix,
        relaxed: Vec::new(),
        start: StartOrder::Together,
    };
    let made = States::new(run, space, trace).make(&state);
    made.ok()
        .context("what was recorded of the nodes is no directory")
}

/// How often a second clusters are started, ready and ended side by side.
fn floor(clusters: Vec<Nodes>, state: &CrashState, time: Duration) -> anyhow::Result<f64> {
    let began = Instant::now();
    let cycles = std::thread::scope(|scope| {
        let cycle = |mut cluster: Nodes| scope.spawn(move || cluster.cycle(state, time));
        let all: Vec<_> = clusters.into_iter().map(cycle).collect();
        all.into_iter()
            .map(|one| one.join().expect("it does not panic"))
            .sum::<node_sweep::Result<u64>>()
    })?;
    Ok(cycles as f64 / began.elapsed().as_secs_f64())
}

/// What came of a cluster.
struct Measured {
    name: String,
    jobs: usize,
    rounds: Vec<Round>,
}

impl Measured {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    /// Names and medians.
    fn figures(&self) -> [(&'static str, f64); 6] {
        [
            ("alone_s", self.median(|round| round.alone_s)),
            ("recorded_s", self.median(|round| round.recorded_s)),
            (
                "recorded_ratio",
                self.median(|round| round.recorded_s / round.alone_s.max(1e-9)),
            ),
            ("floor_cycles_per_s", self.median(|round| round.floor)),
            ("sweep_states_per_s", self.median(|round| round.sweep)),
            ("ratio", self.median(|round| round.sweep / round.floor)),
        ]
    }

    fn json(&self) -> Value {
        let mut object = json!({"type": "bench-cluster", "file": self.name, "jobs": self.jobs, "rounds": self.rounds.len()});
        for (name, value) in self.figures() {
            object[name] = json!((value * 1000.0).round() / 1000.0);
        }
        object
    }

    fn table(&self) -> String {
        let head = [
            "cluster",
            "client s",
            "recorded s",
            "times",
            "floor/s",
            "sweep/s",
            "ratio",
        ];
        let mut row = vec![self.name.clone()];
        row.extend(self.figures().map(|(_, value)| format!("{value:.2}")));
        columns(&[head.map(str::to_owned).to_vec(), row])
    }
}
