//! `crashpoint cluster record`: a run of a cluster as a trace.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Interrupt, Outcome, say};
use clap::Args;
use cluster::{
    CLIENT, Cluster, ClusterFile, Disk, Ending, NodeConfig, Process, Settings, Spawn, Starter,
    client_address, reaches_others,
};
use recorder::process::{NodeOptions, NodeTrace, Traced, about_now, join, start};
use trace::Action;
use trace_store::{About, TO_ANOTHER_NODE, Trace};

use super::run::{is_interrupted, say_ready};
use super::simulate::SimulateArgs;
use super::workspace::Workspace;
use crate::finding::OPERATIONS;
use crate::processes::has_ended;
use crate::terminal::give_terminal;

mod simulated;

pub(crate) use simulated::run_hidden;

/// What a simulated run's frames are called in the directory of its trace.
pub(crate) const FRAMES: &str = "net.pcap";

/// How often it is looked whether the client has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The arguments of `crashpoint cluster record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// The cluster file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The new directory that the trace is written to
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    simulate: SimulateArgs,
}

/// Does it.
pub(crate) fn record(arguments: &RecordArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let file = ClusterFile::read(&arguments.file)?;
    let mut there = arguments.out.read_dir().into_iter().flatten();
    if there.next().is_some() {
        bail!(trace_store::Error::Exists(arguments.out.clone()));
    }
    if file.client.is_none() {
        bail!("there is no [client] in the cluster file to record");
    }
    let (trace, frames) = match recorded_on(&arguments.simulate, &file, interrupt) {
        Err(error) if is_interrupted(&error) => {
            say("interrupted: everything is stopped, and no trace was written");
            return Ok(Outcome::Incomplete);
        }
        other => other?,
    };
    trace.save(&arguments.out)?;
    if let Some(frames) = frames {
        let path = arguments.out.join(FRAMES);
        fs::write(&path, frames).with_context(|| format!("write {}", path.display()))?;
    }
    summarize(&trace, &arguments.out)?;
    Ok(if trace.about.not_recorded.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Incomplete
    })
}

/// Records a cluster on the ground that is asked for; with the frames if that is simulated.
fn recorded_on(
    simulate: &SimulateArgs,
    file: &ClusterFile,
    interrupt: &Interrupt,
) -> anyhow::Result<(Trace, Option<Vec<u8>>)> {
    if simulate.machines.simulate {
        let (trace, frames) = simulated::recorded(file, simulate, interrupt)?;
        return Ok((trace, Some(frames)));
    }
    let workspace = &mut Workspace::new(file, None)?;
    Ok((recorded(file, workspace, None, interrupt)?, None))
}

/// Records a cluster once more, whose client is told how many operations to do; nothing if somebody
/// interrupts.
pub(crate) fn record_again(
    file: &ClusterFile,
    operations: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Trace>> {
    let mut workspace = Workspace::new(file, None)?;
    match recorded(file, &mut workspace, Some(operations), interrupt) {
        Err(error) if is_interrupted(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// Runs the cluster and its client once, and kills it: what it does in order to stop no crash would
/// let it do. The client is told how many operations to do, if that is said.
pub(super) fn recorded(
    file: &ClusterFile,
    workspace: &mut Workspace,
    operations: Option<u64>,
    interrupt: &Interrupt,
) -> anyhow::Result<Trace> {
    // Before the disks: what is there before them does not hold them.
    let mut cluster = Cluster::new(file, &workspace.logs)?;
    let disks = workspace.make_disks(file)?;
    for (node, disk) in cluster.nodes().iter_mut().zip(disks) {
        node.set_disk(disk);
    }
    let workspace = &*workspace;
    let about = about_now();
    let cancelled = || interrupt.requested();
    let mut starter = Recorder::new(file, &workspace.directories);
    start_prepared(&mut cluster, workspace, &mut starter, &cancelled)?;
    let client = run_client(&cluster, workspace, operations, &cancelled)?;
    cluster.refuse_end()?;
    cluster.kill();
    let mut nodes = starter.end()?;
    nodes.push(client);
    let mut trace = trace_of(file, nodes, about);
    for node in cluster.nodes() {
        if let Some(disk) = node.set_disk(None) {
            let name = node.config().name.clone();
            trace.disks.insert(name, disk.finish()?);
        }
    }
    Ok(trace)
}

/// What was recorded of the nodes of a cluster, in the order of its file, and of a client after them
/// if there was one.
fn trace_of(file: &ClusterFile, mut nodes: Vec<NodeTrace>, mut about: About) -> Trace {
    let addresses = file
        .nodes
        .iter()
        .map(|node| node.address)
        .chain([client_address(0)]);
    for (node, address) in nodes.iter_mut().zip(addresses) {
        count_datagrams(node, address);
    }
    about.cluster = Some(file.text.clone());
    let mut trace = join(nodes, about);
    for node in &file.nodes {
        trace
            .about
            .commands
            .insert(node.name.clone(), node.command.clone());
        if node.has_data {
            trace
                .about
                .directories
                .insert(node.name.clone(), node.directory().display().to_string());
        }
    }
    if let Some(client) = &file.client {
        trace
            .about
            .commands
            .insert(CLIENT.into(), client.command.clone());
    }
    trace
}

/// Starts the nodes, for the second time if there is something that prepares them after the first.
pub(super) fn start_prepared(
    cluster: &mut Cluster,
    workspace: &Workspace,
    starter: &mut dyn Starter,
    cancelled: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let directories = &workspace.directories;
    let first = !cluster.file().is_prepared();
    if !first {
        cluster.start(&mut Settings {
            directories,
            first: true,
            turns: None,
            starter: &mut Spawn,
            cancelled,
        })?;
        cluster.prepare(cancelled)?;
        cluster.stop(cancelled)?;
    }
    let begun = Instant::now();
    cluster.start(&mut Settings {
        directories,
        first,
        turns: None,
        starter,
        cancelled,
    })?;
    say_ready(directories.len(), begun);
    Ok(())
}

/// What a datagram told another node is not known: a state may have its effect without its cause.
fn count_datagrams(node: &mut NodeTrace, address: Ipv4Addr) {
    let sent = node
        .datagrams
        .iter()
        .filter(|((_, to), _)| reaches_others(address, *to));
    for ((call, _), times) in sent {
        *node
            .not_recorded
            .entry(format!("{call}{TO_ANOTHER_NODE}"))
            .or_default() += times;
    }
}

/// Runs the client, recorded, until it has ended.
fn run_client(
    cluster: &Cluster,
    workspace: &Workspace,
    operations: Option<u64>,
    cancelled: &dyn Fn() -> bool,
) -> anyhow::Result<NodeTrace> {
    let client = cluster
        .file()
        .client
        .as_ref()
        .context("there is no [client] in the cluster file to record")?;
    let mut command = cluster.client_command(&client.command);
    if let Some(operations) = operations {
        command.env(OPERATIONS, operations.to_string());
    }
    let log = cluster.log(CLIENT);
    give_terminal(&mut command, || {
        Ok(File::create(workspace.temporary("acknowledgements"))?)
    })?;
    command.stderr(File::create(&log)?);
    let traced = start(
        NodeOptions {
            name: CLIENT.into(),
            directory: None,
            marks: true,
            processor: Some(cluster.file().nodes.len()),
            ..NodeOptions::default()
        },
        command,
    )?;
    wait_for_client(traced.pid(), client.within, cancelled)?;
    // What it left in the background would keep us waiting.
    traced.kill();
    let ended = traced.wait()?;
    if !ended.status.success() {
        let said = fs::read_to_string(&log).unwrap_or_default();
        let said = said.lines().last().map(str::trim);
        let said = said.unwrap_or("it printed nothing on standard error");
        bail!("the client failed ({}): {said}", ended.status);
    }
    Ok(ended)
}

fn wait_for_client(pid: u32, within: Duration, cancelled: &dyn Fn() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !has_ended(pid) {
        if cancelled() {
            bail!(cluster::Error::Interrupted);
        }
        if begun.elapsed() > within {
            bail!("the client did not end within {within:?}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Has every node recorded from its first call on.
pub(super) struct Recorder<'a> {
    file: &'a ClusterFile,
    /// Of the nodes, in the order of the file.
    directories: &'a [PathBuf],
    /// With their places in the file.
    traced: Vec<(usize, Arc<Traced>)>,
}

impl Starter for Recorder<'_> {
    fn start(
        &mut self,
        node: &NodeConfig,
        disk: Option<&mut Disk>,
        command: Command,
    ) -> io::Result<Box<dyn Process>> {
        let place = self
            .file
            .place(&node.name)
            .expect("it is a node of this file");
        if let Some(disk) = disk {
            disk.begin().map_err(io::Error::other)?;
        }
        let directory = node.has_data.then(|| self.directories[place].clone());
        let options = NodeOptions {
            name: node.name.clone(),
            directory,
            marks: false,
            processor: Some(place),
            ..NodeOptions::default()
        };
        let traced = Arc::new(start(options, command).map_err(io::Error::other)?);
        self.traced.push((place, Arc::clone(&traced)));
        Ok(Box::new(Watched(traced)))
    }
}

impl<'a> Recorder<'a> {
    pub(super) fn new(file: &'a ClusterFile, directories: &'a [PathBuf]) -> Self {
        Self {
            file,
            directories,
            traced: Vec::new(),
        }
    }

    /// What was recorded, without a client. The nodes have been killed.
    ///
    /// # Errors
    /// If a node could not be recorded.
    pub(super) fn trace(self) -> anyhow::Result<Trace> {
        let file = self.file;
        Ok(trace_of(file, self.end()?, about_now()))
    }

    /// What was recorded, in the order of the file. The nodes have been killed.
    fn end(mut self) -> anyhow::Result<Vec<NodeTrace>> {
        self.traced.sort_by_key(|(place, _)| *place);
        let traced = self
            .traced
            .into_iter()
            .map(|(_, traced)| Arc::into_inner(traced).expect("the cluster was killed"));
        traced.map(|traced| Ok(traced.wait()?)).collect()
    }
}

/// A node for the cluster, which only looks whether it lives.
struct Watched(Arc<Traced>);

impl Process for Watched {
    fn pid(&self) -> u32 {
        self.0.pid()
    }

    fn ended(&mut self) -> io::Result<Option<Ending>> {
        let how = || self.0.status().map_or(Ending::Unknown, Ending::from);
        Ok(has_ended(self.pid()).then(how))
    }
}

fn summarize(trace: &Trace, out: &Path) -> io::Result<()> {
    let mut to = io::stdout().lock();
    let width = trace
        .run
        .nodes
        .iter()
        .map(|node| node.name.len())
        .max()
        .unwrap_or_default();
    for node in &trace.run.nodes {
        let count =
            |is: fn(&Action) -> bool| node.events.iter().filter(|event| is(&event.action)).count();
        let files = count(|action| matches!(action, Action::File(_)));
        let messages = count(|action| matches!(action, Action::Send(_) | Action::Receive(_)));
        let marks = count(|action| matches!(action, Action::Mark { .. }));
        write!(
            to,
            "{:width$}  {files:6} file operations  {messages:6} messages",
            node.name
        )?;
        writeln!(
            to,
            "{}",
            if marks > 0 {
                format!("  {marks:6} acknowledgements")
            } else {
                String::new()
            }
        )?;
    }
    for (what, times) in &trace.about.not_recorded {
        writeln!(to, "not recorded: {what}, {}", counted(*times, "time"))?;
    }
    writeln!(to, "the trace is in {}", out.display())
}
