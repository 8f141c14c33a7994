//! A recording on simulated machines: the recorder runs in each machine, and its clock is the
//! machine's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use campaign::{Interrupt, say};
use cluster::{
    CLIENT, ClusterFile, MachineRecorder, MachineRecording, NodeConfig, SimulatedCluster,
    SimulationSettings,
};
use local_fs::Variant;
use machine::OwnDirectory;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use pace_rules::disk::{Disk as Keeping, Relaxation};
use recorder::process::{NodeOptions, NodeTrace, about_now, start};
use serde::{Deserialize, Serialize};
use simulation::{Clocks, EPOCH_NS};
use trace_store::{Disk, Trace};

use super::trace_of;
use crate::cluster::simulate::{SimulateArgs, say_ready};

/// The argument by which the program is told to record a command in a machine. What is recorded and
/// the words of the command follow.
const RECORDED_COMMAND: &str = "__recorded";

/// The program, for the init of a machine, which is the same one.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What is added to a signal's number for an exit status, as shells do.
const SIGNALLED: i32 = 128;

/// A second in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// Machines are without power for so long before the recording, where the cluster is prepared.
const DOWN_NS: u64 = SECOND_NS;

/// What is recorded in a machine.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    name: String,
    directory: Option<PathBuf>,
    /// Whether its lines are acknowledgements.
    marks: bool,
    user: Option<String>,
    /// Where what was recorded is written to.
    path: PathBuf,
}

/// Starts this program in machines as the recorder of their commands.
struct InMachines;

impl MachineRecorder for InMachines {
    fn words(&self, node: Option<&NodeConfig>) -> Vec<String> {
        let recorded = Recorded {
            name: node.map_or(CLIENT, |node| &node.name).to_owned(),
            directory: node.filter(|node| node.has_data).map(NodeConfig::directory),
            marks: node.is_none(),
            user: node.and_then(|node| node.user.clone()),
            path: self.path(node),
        };
        let recorded = serde_json::to_string(&recorded).expect("it is plain data");
        vec![OWN_PROGRAM.into(), RECORDED_COMMAND.into(), recorded]
    }

    fn path(&self, node: Option<&NodeConfig>) -> PathBuf {
        let name = node.map_or(CLIENT, |node| &node.name);
        PathBuf::from(format!("/tmp/{}{name}", local_fs::NAME_PREFIX))
    }
}

/// How the machines are simulated. All have the same clock, and disks that can be swept.
fn settings_of_recording(
    file: &ClusterFile,
    arguments: &SimulateArgs,
) -> anyhow::Result<SimulationSettings> {
    if let Some(file_system) = &file.disk {
        // Its states are swept in namespaces, where nothing repairs a disk before it is mounted.
        Variant::for_programs(file_system)?;
    }
    if arguments.machines.clocks.is_some() {
        bail!("--clocks is not for recordings: the times of a trace are those of one clock");
    }
    let mut settings = arguments.settings(file)?;
    if settings.keeping != Keeping::Honest {
        bail!("--disks drop-flush is not for recordings: it changes nothing until the power fails");
    }
    if settings.clocks != Clocks::default() {
        say(
            "clocks are exact here, whatever [simulated] says: the times of a trace are those of one clock",
        );
        settings.clocks = Clocks::default();
    }
    Ok(settings)
}

/// Runs a cluster and its client on simulated machines, and kills all nodes at one instant. Returns
/// also what Wireshark reads of it.
pub(super) fn recorded(
    file: &ClusterFile,
    arguments: &SimulateArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<(Trace, Vec<u8>)> {
    let settings = settings_of_recording(file, arguments)?;
    let logs = OwnDirectory::new(&std::env::temp_dir(), "logs");
    let logs = logs.context("make a directory for the logs")?;
    let cancelled = || interrupt.requested();
    let begun = std::time::Instant::now();
    let mut cluster = SimulatedCluster::new(file, logs.path(), &settings)?;
    cluster.simulation().switch().keep_frames();
    if file.is_prepared() {
        prepare(&mut cluster, &cancelled)?;
    }
    cluster.record(Box::new(InMachines));
    cluster.start(&cancelled)?;
    say_ready(&mut cluster, begun);
    cluster.run_client(&mut |_, _| {}, &cancelled)?;
    cluster.refuse_end()?;
    let recordings = cluster.end_recording(&cancelled)?;
    let mut about = about_now();
    // Of the machines, not of this one: the same run has the same trace.
    about.kernel.clone_from(&settings.kernel.release);
    about.begun_s = EPOCH_NS / SECOND_NS;
    let (nodes, disks) = unpacked(recordings)?;
    let mut trace = trace_of(file, nodes, about);
    // Where no disk was asked for, only what the programs did is looked at.
    if file.disk.is_some() {
        trace.disks.extend(disks);
    }
    Ok((trace, cluster.frames()))
}

/// What the nodes did, and the disks that were recorded.
fn unpacked(
    recordings: Vec<MachineRecording>,
) -> anyhow::Result<(Vec<NodeTrace>, BTreeMap<String, Disk>)> {
    let mut nodes = Vec::new();
    let mut disks = BTreeMap::new();
    for (machine, recording) in (1..).zip(recordings) {
        let node = NodeTrace::unpack(&recording.bytes, recording.began_ns, machine)
            .context("read what was recorded in a machine")?;
        disks.extend(recording.disk.map(|disk| (node.name.clone(), disk)));
        nodes.push(node);
    }
    Ok((nodes, disks))
}

/// Does what the file says is done before anything is recorded.
fn prepare(cluster: &mut SimulatedCluster, cancelled: &dyn Fn() -> bool) -> anyhow::Result<()> {
    cluster.start(cancelled)?;
    cluster.prepare(cancelled)?;
    cluster.sync(cancelled)?;
    let nodes: Vec<_> = (0..cluster.file().nodes.len()).collect();
    cluster.power_off(&nodes, |_, _| Relaxation::Prefix)?;
    cluster.idle(DOWN_NS, cancelled)?;
    Ok(())
}

/// Records a command in a machine, if the program was started for that.
pub(crate) fn run_hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != RECORDED_COMMAND {
        return None;
    }
    Some(record_here(arguments).unwrap_or_else(|error| {
        // This is the log of the node.
        eprintln!("crashpoint: {error:#}");
        ExitCode::from(2)
    }))
}

/// Runs a command, recorded, until it ends or there is something to read. What it left running is
/// killed.
fn record_here(mut arguments: impl Iterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let recorded = arguments.next().and_then(|text| text.into_string().ok());
    let recorded = recorded.context("nothing says what is recorded")?;
    let recorded: Recorded = serde_json::from_str(&recorded)?;
    let mut command = Command::new(arguments.next().context("there is no command")?);
    // What we may read is for us.
    command.args(arguments).stdin(Stdio::null());
    if let Some(user) = &recorded.user {
        cluster::run_as_user(&mut command, user)?;
    }
    let options = NodeOptions {
        name: recorded.name,
        directory: recorded.directory,
        marks: recorded.marks,
        ..NodeOptions::default()
    };
    let traced = start(options, command)?;
    wait(Pid::from_raw(traced.pid().cast_signed()))?;
    traced.kill();
    let node = traced.wait()?;
    fs::write(&recorded.path, node.pack())
        .with_context(|| format!("write {}", recorded.path.display()))?;
    let status = node.status;
    let code = status.code();
    Ok(ExitCode::from(
        code.unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default()) as u8,
    ))
}

/// Waits for the end of a process, or something to read.
fn wait(pid: Pid) -> anyhow::Result<()> {
    let input = std::io::stdin();
    let process = match machine::open_process(pid) {
        Err(Errno::ESRCH) => return Ok(()),
        other => other.context("look for the command")?,
    };
    let mut fds = [
        PollFd::new(input.as_fd(), PollFlags::POLLIN),
        PollFd::new(process.as_fd(), PollFlags::POLLIN),
    ];
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => bail!("wait for the command: {error}"),
        }
    }
}
