//! `crashpoint cluster states` and `sweep`: the crash states of a cluster that was recorded.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome};
use clap::{Args, ValueEnum};
use cluster::ClusterFile;
use local_fs::{Scratch, enter_mount_namespace};
use node_sweep::{Nodes, Subject};
use pace_rules::nodes::{Explore, Run, Space};
use trace::Trace;

use crate::blocks;
use crate::states::{self, Level};

/// Which combinations of disks are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Rule {
    /// What the cluster file says: a majority that stands for all, or a primary and its replicas
    #[default]
    Pace,
    /// Every set of nodes, each in its own way
    BruteForce,
    /// Every set of nodes, each in the same way
    SameOnAll,
}

/// A cluster that was recorded, and what is asked of it.
#[derive(Debug, Args)]
struct Recorded {
    /// What `crashpoint cluster record` made
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Which nodes lose something together
    #[arg(long, value_enum, default_value_t)]
    explore: Rule,
}

/// The arguments of `crashpoint cluster states`.
#[derive(Debug, Args)]
pub(crate) struct StatesArgs {
    #[command(flatten)]
    recorded: Recorded,

    #[command(flatten)]
    states: states::SpaceArgs,

    /// Only say how many there are
    #[arg(long)]
    count: bool,
}

/// The arguments of `crashpoint cluster sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    recorded: Recorded,

    #[command(flatten)]
    sweep: states::VisitArgs,
}

/// Counts.
pub(crate) fn states(arguments: &StatesArgs) -> anyhow::Result<Outcome> {
    let (trace, file) = arguments.recorded.load()?;
    let explore = arguments.recorded.explore(&file, &trace.run)?;
    let level = arguments.states.level()?;
    let mut text = String::new();
    if level != Level::Block {
        let space = Space::new(&trace.run, &arguments.states.request(explore))?;
        text += &if arguments.count { states::counts(&space) } else { states::listed(&space, &trace) };
    }
    if level != Level::Syscalls {
        let space = arguments.states.block_space(&trace, explore)?;
        text += &if arguments.count { blocks::counts(&space, &trace) } else { blocks::listed(&space, &trace) };
    }
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Clean)
}

/// Sweeps.
pub(crate) fn sweep(arguments: &SweepArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let (trace, file) = arguments.recorded.load()?;
    // A node that nobody can start accuses nobody.
    file.look_for_programs()?;
    if file.check.is_none() {
        bail!(
            "the cluster file of {} has no [check]: nobody could tell what is broken",
            arguments.recorded.trace.display()
        );
    }
    // Nodes have memory of their own at /dev/shm: what is there they would not see.
    enter_mount_namespace()?;
    let scratch = Scratch::new()?;
    let mut made = 0;
    let mut subjects = |count| {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for _ in 0..count {
            made += 1;
            let directory = scratch.directory(&format!("worker-{made}"))?;
            subjects.push(Box::new(Nodes::new(&file, &trace.run, directory, interrupt)?));
        }
        Ok(subjects)
    };
    let explore = arguments.recorded.explore.to_possible_value().expect("it has a name");
    let what = states::Subjects {
        trace: &trace,
        explore: arguments.recorded.explore(&file, &trace.run)?,
        explore_words: explore.get_name(),
        name: arguments.recorded.trace.display().to_string(),
        check: "the [check] of the cluster file".to_owned(),
    };
    // Nodes spend most of their start waiting for one another.
    arguments.sweep.run(&what, &mut subjects, arguments.sweep.jobs(2), interrupt)
}

impl Recorded {
    fn load(&self) -> anyhow::Result<(Trace, ClusterFile)> {
        let trace = Trace::load(&self.trace).with_context(|| format!("load {}", self.trace.display()))?;
        let Some(text) = &trace.about.cluster else {
            bail!("{} is the trace of a program: sweep it with crashpoint app", self.trace.display());
        };
        let file = ClusterFile::parse(text, &self.trace, Path::new("/"))?;
        Ok((trace, file))
    }

    fn explore(&self, file: &ClusterFile, run: &Run) -> anyhow::Result<Explore> {
        match self.explore {
            Rule::BruteForce => Ok(Explore::BruteForce),
            Rule::SameOnAll => Ok(Explore::SameOnAll),
            Rule::Pace => explore(file, run),
        }
    }
}

/// Which nodes lose something together, as the cluster file has it.
pub(super) fn explore(file: &ClusterFile, run: &Run) -> anyhow::Result<Explore> {
    Ok(match &file.explore {
        cluster::Explore::ReplicatedStateMachine { majority } => {
            Explore::ReplicatedStateMachine { majority: *majority }
        }
        cluster::Explore::PrimaryReplicas { primary } => {
            let name = &file.nodes[*primary].name;
            let primary = run.nodes.iter().position(|node| node.name == *name);
            let primary = primary.with_context(|| format!("nothing was recorded of the primary, {name}"))?;
            Explore::PrimaryReplicas { primary }
        }
    })
}
