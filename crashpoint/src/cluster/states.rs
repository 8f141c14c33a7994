//! `crashpoint cluster states` and `sweep`: the crash states of a cluster that was recorded.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome};
use clap::Args;
use cluster::ClusterFile;
use local_fs::{Scratch, enter_mount_namespace};
use node_sweep::{Judge, Level, Nodes, Request, Requested, Rule, Start, Subject, no_acks};
use trace_store::Trace;

use super::guest;
use super::live::{self, LiveArgs};
use super::recover::OfCluster;
use crate::blocks;
use crate::recover::{AgainArgs, Recovered};
use crate::states;

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

    /// In which orders nodes are started where some of them, but not all, lost something
    #[arg(long, value_enum, value_name = "ORDER,...", value_delimiter = ',', default_value = STARTS)]
    starts: Vec<Start>,

    #[command(flatten)]
    states: states::SpaceArgs,

    /// Only say how many there are
    #[arg(long)]
    count: bool,
}

/// The arguments of `crashpoint cluster sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// What `crashpoint cluster record` made; with --live, a cluster file
    #[arg(
        value_name = "TRACE|FILE",
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    trace: Option<PathBuf>,

    /// Which nodes lose something together
    #[arg(long, value_enum, default_value_t, conflicts_with = "resume")]
    explore: Rule,

    /// In which orders nodes are started where some of them, but not all, lost something
    #[arg(long, value_enum, value_name = "ORDER,...", value_delimiter = ',', default_value = STARTS, conflicts_with = "resume")]
    starts: Vec<Start>,

    #[command(flatten)]
    again: AgainArgs,

    #[command(flatten)]
    sweep: states::VisitArgs,

    #[command(flatten)]
    live: LiveArgs,
}

/// In which orders nodes are started if it is not said.
const STARTS: &str = "together,lost-first,lost-last";

/// The same with each of these orders once.
fn started(request: Request, starts: &[Start]) -> Request {
    let mut starts = starts.to_vec();
    starts.sort_unstable();
    starts.dedup();
    Request { starts, ..request }
}

/// Counts.
pub(crate) fn states(arguments: &StatesArgs) -> anyhow::Result<Outcome> {
    let (trace, file) = load(&arguments.recorded.trace)?;
    let request = arguments
        .states
        .request(arguments.recorded.explore, Judge::Cluster)?;
    let request = started(request, &arguments.starts);
    let explore = request.explore(Some(&file), &trace.run)?;
    let mut text = String::new();
    if request.level != Level::Block {
        let spaces = request.spaces(explore, &trace)?;
        text += &if arguments.count {
            states::counts(&spaces)
        } else {
            states::listed(&spaces, &trace)
        };
    }
    if request.level != Level::Syscalls {
        let recordings = request.of_disks(explore, &trace)?;
        let space = recordings.first();
        text += &if arguments.count {
            blocks::counts(space, &trace)
        } else {
            blocks::listed(space, &trace)
        };
    }
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Clean)
}

/// Nodes spend most of their start waiting for one another.
const JOBS_FOR_EACH_PROCESSOR: usize = 2;

/// Sweeps.
pub(crate) fn sweep(arguments: &SweepArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let visit = &arguments.sweep;
    if arguments.live.live {
        let file = arguments.trace.as_deref().expect("it is required");
        return live::begin(file, &arguments.live, arguments.again, visit, interrupt);
    }
    match &visit.resume {
        Some(directory) => resume(visit, directory, interrupt),
        None => begin(arguments, interrupt),
    }
}

fn begin(arguments: &SweepArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let visit = &arguments.sweep;
    visit.refuse()?;
    arguments.again.refuse_of_cluster(visit)?;
    let directory = arguments.trace.as_deref().expect("it is required");
    let (trace, _) = load(directory)?;
    if let Some(outcome) = guest::begin(directory, visit.out(), interrupt)? {
        return Ok(outcome);
    }
    begin_here(arguments, directory, trace, interrupt)
}

fn begin_here(
    arguments: &SweepArgs,
    directory: &Path,
    mut trace: Trace,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let visit = &arguments.sweep;
    if let Some(warning) = no_acks(&trace.run) {
        campaign::say(&warning);
    }
    let request = visit.request(arguments.explore, Judge::Cluster)?;
    let request = started(request, &arguments.starts);
    let again = arguments.again;
    if again.is_wanted() {
        match crash_again(again, &trace, directory, &request, interrupt)? {
            Some(recovered) => recovered.add_to(&mut trace),
            None => return Ok(Outcome::Incomplete),
        }
    }
    let ground = Ground::new(&trace, directory, interrupt)?;
    let explore = request.explore(Some(&ground.file), &trace.run)?;
    let what = Requested {
        trace: &trace,
        name: directory.display().to_string(),
        request,
        explore,
        shard: visit.shard,
    };
    let control = visit.control(visit.jobs(JOBS_FOR_EACH_PROCESSOR), interrupt);
    visit.begin(&what, &mut ground.subjects(), &control)
}

/// Continues a sweep.
fn resume(
    visit: &states::VisitArgs,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if let Some(outcome) = live::resume(directory, visit, interrupt)? {
        return Ok(outcome);
    }
    if let Some(outcome) = guest::resume(directory, interrupt)? {
        return Ok(outcome);
    }
    let (results, trace) = match visit.open(directory, true)? {
        Ok(opened) => opened,
        Err(outcome) => return Ok(outcome),
    };
    let request = &results.manifest().request;
    let ground = Ground::new(&trace, directory, interrupt)?;
    let explore = request.explore(Some(&ground.file), &trace.run)?;
    let control = visit.control(visit.jobs(JOBS_FOR_EACH_PROCESSOR), interrupt);
    visit.resume(results, &trace, explore, &mut ground.subjects(), &control)
}

/// Records how the cluster recovers from crashes of its run; nothing if somebody interrupts.
fn crash_again(
    again: AgainArgs,
    trace: &Trace,
    directory: &Path,
    request: &Request,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Recovered>> {
    let ground = Ground::new(trace, directory, interrupt)?;
    let mut who = OfCluster {
        nodes: ground.nodes()?,
        file: &ground.file,
        interrupt,
    };
    again.record(trace, request, &mut who, interrupt)
}

/// Where the cluster of a trace is started.
pub(crate) struct Ground<'a> {
    trace: &'a Trace,
    pub(crate) file: ClusterFile,
    scratch: Scratch,
    interrupt: &'a Interrupt,
}

impl<'a> Ground<'a> {
    /// Of a trace that was loaded from a directory.
    pub(crate) fn new(
        trace: &'a Trace,
        directory: &Path,
        interrupt: &'a Interrupt,
    ) -> anyhow::Result<Self> {
        let file = cluster_file(trace, directory)?;
        // A node that nobody can start accuses nobody.
        file.look_for_programs()?;
        if file.check.is_none() {
            bail!(
                "the cluster file of {} has no [check]: nobody could tell what is broken",
                directory.display()
            );
        }
        // Nodes have memory of their own at /dev/shm: what is there they would not see.
        enter_mount_namespace()?;
        Ok(Self {
            trace,
            file,
            scratch: Scratch::new()?,
            interrupt,
        })
    }

    /// What looks at states one after the other.
    pub(crate) fn nodes(&self) -> node_sweep::Result<Nodes> {
        Nodes::new(
            &self.file,
            &self.trace.run,
            self.scratch.directory("nodes")?,
            self.interrupt,
        )
    }

    /// Makes what looks at states, each with a network and directories of its own.
    pub(crate) fn subjects(
        &self,
    ) -> impl FnMut(usize) -> node_sweep::Result<Vec<Box<dyn Subject>>> {
        let mut made = 0;
        move |count| {
            let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
            for _ in 0..count {
                made += 1;
                let directory = self.scratch.directory(&format!("worker-{made}"))?;
                subjects.push(Box::new(Nodes::new(
                    &self.file,
                    &self.trace.run,
                    directory,
                    self.interrupt,
                )?));
            }
            Ok(subjects)
        }
    }
}

fn load(directory: &Path) -> anyhow::Result<(Trace, ClusterFile)> {
    if directory.is_file() {
        bail!(
            "{0} is a file, and no trace: `crashpoint cluster record {0} -o DIR` makes one of a \
             cluster file, and `crashpoint cluster sweep {0} --live` needs none",
            directory.display()
        );
    }
    let trace = Trace::load(directory).with_context(|| format!("load {}", directory.display()))?;
    let file = cluster_file(&trace, directory)?;
    Ok((trace, file))
}

/// The cluster file in a trace.
fn cluster_file(trace: &Trace, directory: &Path) -> anyhow::Result<ClusterFile> {
    let Some(text) = &trace.about.cluster else {
        bail!(
            "{0} is the trace of a program: sweep it with crashpoint app --trace {0}",
            directory.display()
        );
    };
    Ok(ClusterFile::parse(text, directory, Path::new("/"))?)
}
