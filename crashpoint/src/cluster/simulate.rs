//! `crashpoint cluster run --simulate`: a cluster on simulated machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, say};
use clap::Args;
use cluster::{ClusterFile, SimulatedCluster, SimulationSettings, Verdict};
use machine::{OwnDirectory, Uml};
use pace_rules::disk::Relaxation;
use replayer::DiskKind;
use simulation::{BITS_PER_SECOND, DiskTimes, Link, Network, Spread};

use super::run::{acknowledged, nodes_are, told, told_not_ready};
use super::surroundings::{ChaosWords, Disks, Surroundings};

/// A second in nanoseconds.
const SECOND_NS: f64 = 1e9;

/// What says how a run on simulated machines is made.
#[derive(Debug, Clone, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) machines: MachinesArgs,

    /// What everything that is drawn on simulated machines comes from
    #[arg(long, value_name = "S", default_value_t = 0, requires = "simulate")]
    pub(crate) seed: u64,
}

/// What says how machines are simulated.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MachinesArgs {
    /// Run it on simulated machines: a kernel, a disk, a clock and a network card for each node, in
    /// virtual time, without root. The same seed gives the same run, to the byte
    #[arg(long)]
    pub(crate) simulate: bool,

    /// The kernel of simulated machines: one of scripts/build-uml.sh. If none is named, it is the last
    /// that it built from linux-source-6.1, or else from linux-source-6.12
    #[arg(long, value_name = "PATH", requires = "simulate")]
    pub(crate) kernel: Option<PathBuf>,

    /// How the kernels of simulated machines disturb programs of several threads, as the seed says:
    /// system calls take time, and threads sleep where the kernel loads a page. Without it timers
    /// fire only while all threads wait, and races of timers with threads do not happen. LEVEL is off,
    /// low or high; parts of low or high alone are entries (system calls and page faults take time),
    /// code (pages of code are taken away) and sleeps (at page faults)
    #[arg(
        long,
        value_name = "LEVEL[:PART,...]",
        default_value_t,
        requires = "simulate"
    )]
    pub(crate) chaos: ChaosWords,

    /// What the network of simulated machines is like: latency=TIME, jitter=TIME (200us and 50us),
    /// loss=P%, double=P% (a frame comes twice), late=P% (it takes ten times as long, so that later
    /// ones overtake it), rate=BITS (1G), separated by commas. Which frames, the seed says
    #[arg(long, value_name = "WORD=VALUE,...", requires = "simulate")]
    pub(crate) network: Option<Network>,

    /// How far the clocks of simulated machines are apart: each is up to OFFSET ahead or behind, and
    /// up to so many parts of a million faster or slower, as the seed says, such as 250ms,100ppm
    #[arg(long, value_name = "OFFSET[,PPM]", requires = "simulate")]
    pub(crate) clocks: Option<Spread>,

    /// How the disks of simulated machines behave: honest, drop-flush (flushes are acknowledged and cover
    /// nothing), or lazy[:SEED] (honest, but three of four writes are completed late, so that a flush that is sent
    /// without waiting for them does not cover them)
    #[arg(long, value_name = "DISKS", requires = "simulate")]
    pub(crate) disks: Option<Disks>,
}

impl SimulateArgs {
    /// The settings of the machines of a cluster file.
    ///
    /// # Errors
    /// If there is no kernel for it.
    pub(crate) fn settings(&self, file: &ClusterFile) -> anyhow::Result<SimulationSettings> {
        self.machines.settings(file, self.seed)
    }
}

impl MachinesArgs {
    /// The settings of the machines with a seed.
    ///
    /// # Errors
    /// If there is no kernel for it.
    pub(crate) fn settings(
        &self,
        file: &ClusterFile,
        seed: u64,
    ) -> anyhow::Result<SimulationSettings> {
        settings(file, self.kernel.as_deref(), seed, &self.surroundings())
    }

    /// What surrounds them.
    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            chaos: self.chaos.clone(),
            network: self.network.clone(),
            clocks: self.clocks.clone(),
            disks: self.disks,
            environment: None,
        }
    }
}

/// How the machines of a cluster file are simulated, with that kernel or the last that
/// scripts/build-uml.sh built from linux-source-6.1, or else from linux-source-6.12. What the command
/// line says counts in place of what the file says.
///
/// # Errors
/// If there is no kernel for it.
pub(crate) fn settings(
    file: &ClusterFile,
    kernel: Option<&Path>,
    seed: u64,
    surroundings: &Surroundings,
) -> anyhow::Result<SimulationSettings> {
    let own = &file.simulated;
    let network = surroundings.network.as_ref().or(own.network.as_ref());
    let clocks = surroundings.clocks.as_ref().or(own.clocks.as_ref());
    let chaos = surroundings.chaos.of();
    let disks = surroundings
        .disks
        .map_or_else(DiskKind::default, |disks| disks.0);
    let kernel = Uml::find_simulated(kernel, seed)?;
    if chaos.is_some() {
        kernel.refuse_without_chaos()?;
    }
    Ok(SimulationSettings {
        kernel,
        seed,
        chaos,
        clocks: clocks.map(|spread| spread.clocks).unwrap_or_default(),
        link: network.map_or(Link::USUAL, |network| network.link),
        bits_per_second: network.map_or(BITS_PER_SECOND, |network| network.bits_per_second),
        disk_times: DiskTimes::default(),
        keeping: disks.honesty,
        completion: disks.completion,
        environment: surroundings.environment(),
    })
}

/// What a run on simulated machines does.
pub(crate) struct Wanted {
    /// Run the client.
    pub(crate) client: bool,
    /// Have the power of all nodes fail after that.
    pub(crate) restart: bool,
    /// Run the check.
    pub(crate) check: bool,
    /// Keep what the run leaves.
    pub(crate) data: Option<PathBuf>,
}

/// Runs a cluster on simulated machines.
pub(crate) fn simulate(
    file: &ClusterFile,
    arguments: &SimulateArgs,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if !wanted.client && !wanted.check {
        bail!("a simulated cluster cannot be looked at while it runs: give --client or --check");
    }
    let settings = arguments.settings(file)?;
    let temporary = OwnDirectory::new(&std::env::temp_dir(), "logs");
    let temporary = temporary.context("make a directory for the logs")?;
    let directory = match &wanted.data {
        Some(directory) => {
            if directory.exists() && fs::read_dir(directory)?.next().is_some() {
                bail!(
                    "{} is not empty: a simulated run begins with new disks",
                    directory.display()
                );
            }
            directory.clone()
        }
        None => temporary.path().to_owned(),
    };
    let mut cluster = SimulatedCluster::new(file, &directory, &settings)?;
    if wanted.data.is_some() {
        cluster.simulation().switch().keep_frames();
    }
    let outcome = ran(&mut cluster, wanted, interrupt);
    if wanted.data.is_some() {
        cluster.write_frames(&directory)?;
    }
    match outcome {
        Err(error) if super::run::is_interrupted(&error) => {
            say("interrupted: everything is stopped");
            Ok(Outcome::Incomplete)
        }
        other => other,
    }
}

fn ran(
    cluster: &mut SimulatedCluster,
    wanted: &Wanted,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let begun = Instant::now();
    let cancelled = || interrupt.requested();
    cluster.start(&cancelled)?;
    say_ready(cluster, begun);
    cluster.prepare(&cancelled)?;
    let mut lines = Vec::new();
    if wanted.client {
        let ran = cluster.run_client(
            &mut |_, line| acknowledged(&mut lines, line, interrupt),
            &cancelled,
        );
        ran?;
        cluster.refuse_end()?;
    }
    if wanted.restart {
        fail_power(cluster)?;
        let booted = Instant::now();
        if let Err(error) = cluster.start(&cancelled) {
            let outcome = told_not_ready(error)?;
            say_history(cluster, begun, None);
            return Ok(outcome);
        }
        say_ready(cluster, booted);
    }
    let verdict = wanted
        .check
        .then(|| cluster.run_check(&lines, &cancelled))
        .transpose()?;
    let outcome = verdict.as_ref().map_or(Ok(Outcome::Clean), told)?;
    say_history(cluster, begun, verdict.as_ref());
    Ok(outcome)
}

/// Has the power of all nodes fail, and says what that lost.
fn fail_power(cluster: &mut SimulatedCluster) -> anyhow::Result<()> {
    let nodes: Vec<_> = (0..cluster.file().nodes.len()).collect();
    let cuts = cluster.power_off(&nodes, |_, _| Relaxation::Flushed)?;
    let lost: usize = cuts.iter().map(|(_, cut)| cut.lost.len()).sum();
    let writes = if lost == 1 { "write is" } else { "writes are" };
    say(&format!(
        "the power of all nodes failed: {lost} {writes} lost, which no flush covered"
    ));
    Ok(())
}

pub(super) fn say_ready(cluster: &mut SimulatedCluster, begun: Instant) {
    let virtual_s = cluster.simulation().now_ns() as f64 / SECOND_NS;
    say(&format!(
        "{} ready at {virtual_s:.3} s of virtual time, after {:.1} s",
        nodes_are(cluster.file().nodes.len()),
        begun.elapsed().as_secs_f64()
    ));
}

/// What a run was, so that it can be compared with another one.
fn say_history(cluster: &mut SimulatedCluster, begun: Instant, verdict: Option<&Verdict>) {
    let simulation = cluster.simulation();
    let (now_ns, history) = (simulation.now_ns(), simulation.history());
    let (messages, frames) = (simulation.messages(), simulation.switch().frames());
    tracing::info!(messages, frames, ?verdict, "ended a simulation");
    say(&format!(
        "history {history}: {:.3} s of virtual time, {frames} frames, in {:.1} s",
        now_ns as f64 / SECOND_NS,
        begun.elapsed().as_secs_f64()
    ));
}
