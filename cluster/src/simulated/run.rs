//! A cluster file, run on simulated machines.
//!
//! All that is waited for is waited for in the simulation's time, so a run does not depend on the
//! host: what a file gives a node to become ready is time of its own clock.

mod client;
mod data;
mod drift;
mod look;
mod recording;
mod singly;
mod start;
mod tasks;
mod traced;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block_dev::{Base, Behaviour, Completion};
use local_fs::Variant;
use machine::Uml;
use pace_rules::disk::{Disk as Keeping, Log, Relaxation};
use simulation::{
    Chance, Chaos, Clocks, Disk, DiskTimes, EPOCH_NS, End, Link, MachineSpec, Point, PowerCut,
    Settings, Simulation, pcap,
};

use super::hosts::{Heard, Hosts, LogGrowth};
use super::init::MACHINE_COMMAND;
use super::words::{Order, ProcessId, Refusal};
use crate::client::{name, refuse_too_many};
use crate::error::{Context, Error, Result, UNUSABLE_DISK, log_words};
use crate::file::ClusterFile;
use crate::listing::Reading;
use crate::log;
use crate::network::{client_address, hardware_address};
use crate::node::SETUP_WITHIN;

pub use client::{Driven, RunningClient};
pub use data::ListedData;
pub use look::{Look, Looked};
pub use recording::{MachineRecorder, MachineRecording};
pub use singly::SimulatedProgram;
pub use tasks::own_environment;
pub use traced::MachineTracer;

/// The file system of a node's disk, if the cluster file names none.
const FILE_SYSTEM: &str = "ext4";

/// How a cluster is simulated.
#[derive(Debug, Clone)]
pub struct SimulationSettings {
    /// The kernel of all machines ([`Uml::find_virtual`]).
    pub kernel: Uml,
    /// What everything that is drawn comes from.
    pub seed: u64,
    /// How kernels disturb the programs in them.
    pub chaos: Option<Chaos>,
    /// How far their clocks are apart.
    pub clocks: Clocks,
    /// What the ways between machines are like.
    pub link: Link,
    /// How fast machines send, in bits a second.
    pub bits_per_second: u64,
    /// How long disks take.
    pub disk_times: DiskTimes,
    /// How disks keep their word.
    pub keeping: Keeping,
    /// When they answer; only those that keep their word answer late.
    pub completion: Completion,
    /// What commands have in their environment beside what the cluster file says ([`own_environment`]).
    pub environment: Vec<(String, String)>,
}

/// A cluster on simulated machines. What runs is killed when it is dropped.
pub struct SimulatedCluster {
    hosts: Hosts,
    file: ClusterFile,
    nodes: Vec<NodeState>,
    settings: SimulationSettings,
    /// How far each machine is, those of clients last.
    stages: Vec<Stage>,
    /// What machines must see of the host's.
    visible: Vec<PathBuf>,
    /// What the client has in its environment beside what all clients have.
    variables: Vec<(String, String)>,
    /// The check, if it keeps running.
    server: Option<ProcessId>,
    /// How many of the steps have been run.
    steps_done: usize,
    /// What records the commands of nodes and the client.
    recorder: Option<Box<dyn MachineRecorder>>,
    /// What traces the commands of nodes.
    tracer: Option<Rc<dyn MachineTracer>>,
    /// Whether directories of data are listed before commands are run again, and which of their files are read.
    lists: Option<Reading>,
    /// What was listed so.
    listed: Vec<(usize, u64, ListedData)>,
}

/// How far a machine is that is on. A start may be broken off and gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its kernel boots.
    Boots,
    /// Its init was told what to set up.
    Told,
    /// It is a system in which nothing of the node was run yet.
    SetUp,
    /// It is a system.
    Up,
}

/// What the directory of a node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Data {
    /// Its disk is not formatted.
    #[default]
    None,
    /// Nothing.
    Empty,
    /// What the node begins with.
    Begun,
}

/// What was done to a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Fate {
    /// Nothing.
    #[default]
    Goes,
    /// Its processes stand still.
    Paused,
    /// Its machine stands still.
    Frozen,
    /// It was killed, or has lost its power.
    Down,
}

/// What is known of a node.
#[derive(Debug, Clone, Default)]
struct NodeState {
    data: Data,
    command: Option<ProcessId>,
    /// Whether it is its tracer that was started.
    is_traced: bool,
    /// What tracers have said.
    said: Vec<Vec<u8>>,
    is_ready: bool,
    /// When it became so last, since it was switched on.
    ready_ns: Option<u64>,
    started_ns: u64,
    /// From where on its log is of the command that was started last.
    log_from: u64,
    asked_ns: u64,
    /// A command that asks whether it is ready.
    probe: Option<ProcessId>,
    /// A port that somebody was asked to try.
    tries: bool,
    /// How often it was switched on.
    starts: u32,
    /// What was done to it since it was started.
    fate: Fate,
    /// By how many nanoseconds its clock has jumped since its machine was switched on, each time.
    jumps_ns: Vec<i64>,
    /// How it drifts by a fault, if it does.
    drift: Option<drift::Drift>,
    /// How much of the log of its disk was durable when its command was started to be recorded.
    durable: usize,
}

impl SimulatedCluster {
    /// Makes the machines, all of which are off, and the network. `logs` is the directory that gets
    /// a log for each node and the client, and what each kernel says.
    ///
    /// # Errors
    /// If the file system of the nodes' disks is not known, machines cannot see what the file is about, or there
    /// is no room for them.
    pub fn new(file: &ClusterFile, logs: &Path, settings: &SimulationSettings) -> Result<Self> {
        let visible = tasks::visible(file, &settings.environment)?;
        fs::create_dir_all(logs).doing(|| format!("create {}", logs.display()))?;
        let simulation = Simulation::new(Settings {
            kernel: settings.kernel.clone(),
            seed: settings.seed,
            link: settings.link,
            bits_per_second: settings.bits_per_second,
            consoles: logs.to_owned(),
        })?;
        let mut cluster = Self {
            hosts: Hosts::new(simulation, logs),
            nodes: file.nodes.iter().map(|_| NodeState::default()).collect(),
            settings: settings.clone(),
            stages: Vec::new(),
            visible,
            variables: Vec::new(),
            file: file.clone(),
            server: None,
            steps_done: 0,
            recorder: None,
            tracer: None,
            lists: None,
            listed: Vec::new(),
        };
        for node in &file.nodes {
            let disk = node
                .has_data
                .then(|| new_disk(file, &node.name, settings))
                .transpose()?;
            cluster.add_machine(&node.name, node.address, disk)?;
        }
        cluster.add_client()?;
        Ok(cluster)
    }

    /// A cluster file as it is on simulated machines: each node that has data has a disk, also if the
    /// file names no file system for it.
    #[must_use]
    pub fn with_disks(mut file: ClusterFile) -> ClusterFile {
        file.disk.get_or_insert_with(|| FILE_SYSTEM.to_owned());
        file
    }

    /// Adds a machine for one more client, which is off; not to a cluster that was started. The first
    /// is there from the beginning.
    ///
    /// # Errors
    /// If there is no room for it, or it is one too many.
    pub fn add_client(&mut self) -> Result<()> {
        let index = self.stages.len() - self.nodes.len();
        refuse_too_many(index)?;
        self.add_machine(&name(index), client_address(index as u8), None)
    }

    fn add_machine(&mut self, name: &str, address: Ipv4Addr, disk: Option<Disk>) -> Result<()> {
        let settings = &self.settings;
        self.hosts.simulation.add(MachineSpec {
            name: name.to_owned(),
            address: hardware_address(address),
            memory_mib: self.file.simulated.memory_mib,
            disks: disk.into_iter().collect(),
            clock: settings.clocks.of(settings.seed, name),
            chaos: settings.chaos,
            init: vec![MACHINE_COMMAND.into()],
        })?;
        self.hosts.add(name);
        self.stages.push(Stage::Boots);
        Ok(())
    }

    /// Another cluster that goes on from here as this one does, with everything that is in flight
    /// ([`Simulation::fork`]): not in the middle of a start. What runs in it is not recorded, and who is to know what
    /// tracers in it say has to be [named](Self::trace). `logs` is the directory for its logs, and gets what is in
    /// those of this one.
    ///
    /// # Errors
    /// If the simulation cannot be forked.
    pub fn fork(&mut self, logs: &Path) -> Result<Self> {
        fs::create_dir_all(logs).doing(|| format!("create {}", logs.display()))?;
        Ok(Self {
            hosts: self.hosts.fork(logs)?,
            file: self.file.clone(),
            nodes: self.nodes.clone(),
            settings: self.settings.clone(),
            stages: self.stages.clone(),
            visible: self.visible.clone(),
            variables: self.variables.clone(),
            server: self.server,
            steps_done: self.steps_done,
            recorder: None,
            tracer: None,
            lists: self.lists,
            listed: self.listed.clone(),
        })
    }

    /// The machines, their disks and their network.
    pub fn simulation(&mut self) -> &mut Simulation {
        &mut self.hosts.simulation
    }

    /// The time, in nanoseconds since the simulation began.
    pub fn now_ns(&self) -> u64 {
        self.hosts.simulation.now_ns()
    }

    /// What it was made of.
    pub fn file(&self) -> &ClusterFile {
        &self.file
    }

    /// The log of a node, or of the client or the check.
    pub fn log(&self, name: &str) -> PathBuf {
        self.hosts.log(name)
    }

    /// When the logs of nodes grew; those of one node are in the order of time. Times are those at which what
    /// was printed came out of the machine.
    pub fn log_growth(&self) -> impl Iterator<Item = LogGrowth> {
        let growth = self.hosts.growth().iter().copied();
        growth.filter(|grown| grown.node < self.nodes.len())
    }

    /// When a node became ready last since it was switched on, in nanoseconds since the simulation began,
    /// if it has.
    pub fn ready_ns(&self, node: usize) -> Option<u64> {
        self.nodes[node].ready_ns
    }

    /// The index of the machine of the client, the first one.
    fn client(&self) -> usize {
        self.file.nodes.len()
    }

    /// The machines whose kernels gave up, or that were switched off from the inside: index, name and words.
    pub fn ended(&self) -> Vec<(usize, String, String)> {
        let all = 0..self.stages.len();
        all.filter_map(|machine| match self.hosts.end(machine)? {
            // It says nothing about the kernel.
            End::Process(_) => None,
            end => Some((machine, self.hosts.name(machine).to_owned(), words_of(end))),
        })
        .collect()
    }

    /// Runs what prepares a cluster that is up for the first time, if there is something. No power failure
    /// takes away what that has made, or steps have: it is not what is tested.
    ///
    /// # Errors
    /// If it fails, or takes too long.
    pub fn prepare(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        if let Some(words) = self.file.prepare.clone() {
            let task = self.client_task(&words, false);
            let failed = self.run_to_end(self.client(), task, PREPARE, SETUP_WITHIN, cancelled)?;
            if let Some(how) = failed {
                return Err(self.failed("prepare", PREPARE, &how));
            }
        }
        if !self.file.is_prepared() {
            return Ok(());
        }
        (0..self.nodes.len()).try_for_each(|machine| self.settle(machine, cancelled))
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// If the simulation cannot go on.
    pub fn idle(&mut self, for_ns: u64, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let until_ns = self.hosts.simulation.now_ns() + for_ns;
        while self.hosts.hear(until_ns, cancelled)? == Heard::Something {}
        Ok(())
    }

    /// Has every node write everything to its disk (`syncfs`), and flush it.
    ///
    /// # Errors
    /// If one cannot.
    pub fn sync(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        for machine in 0..self.nodes.len() {
            self.ask(machine, &Order::Sync, cancelled)?;
        }
        Ok(())
    }

    /// All nodes write everything to their disks, and some are without power for a while. They are off then.
    ///
    /// # Errors
    /// If one cannot.
    pub fn rest_without_power(
        &mut self,
        nodes: &[usize],
        for_ns: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.sync(cancelled)?;
        self.power_off(nodes, |_, _| Relaxation::Prefix)?;
        self.idle(for_ns, cancelled)
    }

    /// The power of nodes fails, at one instant; the disk of each loses what `select` says.
    ///
    /// # Errors
    /// If `select` loses what no power failure may cost.
    pub fn power_off(
        &mut self,
        nodes: &[usize],
        mut select: impl FnMut(usize, &Log) -> Relaxation,
    ) -> Result<Vec<(usize, PowerCut)>> {
        self.hosts.simulation.switch_off(nodes);
        let mut cuts = Vec::new();
        for node in nodes.iter().copied() {
            self.keep_lines(node);
            self.hosts.forget(node);
            if self.file.nodes[node].has_data {
                let disk = self.hosts.simulation.disk(node, 0);
                cuts.push((node, disk.power_cut(|log| select(node, log))?));
            }
        }
        Ok(cuts)
    }

    /// Writes the frames that were sent since they are [kept](simulation::Switch::keep_frames) to
    /// `net.pcap` in a directory.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn write_frames(&mut self, directory: &Path) -> Result<()> {
        let path = directory.join("net.pcap");
        fs::write(&path, self.frames()).doing(|| format!("write {}", path.display()))
    }

    /// The frames that were sent since they are [kept](simulation::Switch::keep_frames), as a pcap.
    pub fn frames(&mut self) -> Vec<u8> {
        pcap(&self.hosts.simulation.switch().sent(), EPOCH_NS)
    }

    /// Has the run stand still at a point, in whatever it does then.
    pub fn stop_at(&mut self, point: Option<Point>) {
        self.hosts.simulation.stop_at(point);
    }

    /// Waits until `what` has something, or the time is over. What the disk of a node is asked for meanwhile is
    /// nobody's to hold: who would let it go waits here.
    fn wait<T>(
        &mut self,
        machine: usize,
        within: Duration,
        cancelled: &dyn Fn() -> bool,
        what: impl FnMut(&mut Hosts) -> Option<T>,
    ) -> Result<Option<T>> {
        self.set_unseen(machine, true);
        self.hosts.simulation.let_requests_go();
        let came = self.wait_unseen(machine, within, cancelled, what);
        self.set_unseen(machine, false);
        came
    }

    fn set_unseen(&mut self, machine: usize, is: bool) {
        if let Ok(disk) = self.disk_of(machine) {
            disk.set_unseen(is);
        }
    }

    fn wait_unseen<T>(
        &mut self,
        machine: usize,
        within: Duration,
        cancelled: &dyn Fn() -> bool,
        mut what: impl FnMut(&mut Hosts) -> Option<T>,
    ) -> Result<Option<T>> {
        let until_ns = self.hosts.simulation.now_ns() + within.as_nanos() as u64;
        loop {
            if let Some(found) = what(&mut self.hosts) {
                return Ok(Some(found));
            }
            if self.hosts.end(machine).is_some() {
                return Ok(None);
            }
            match self.hosts.hear(until_ns, cancelled)? {
                Heard::Something => {}
                Heard::Time => return Ok(None),
                Heard::Point => return Err(Error::AtPoint),
            }
        }
    }

    fn file_system(&self) -> &str {
        self.file.disk.as_deref().unwrap_or(FILE_SYSTEM)
    }

    fn not_ready(&self, machine: usize, what: String) -> Error {
        let name = self.hosts.name(machine);
        let log_from = self.nodes.get(machine).map_or(0, |node| node.log_from);
        Error::NotReady {
            node: name.to_owned(),
            what,
            tail: log::tail_since(&self.log(name), log_from),
        }
    }

    /// The error for an init that did not do what it was asked for. A node does not become ready if
    /// what is on its disk is why; what we or the machine cannot do says nothing of the node.
    fn refused(&self, machine: usize, refusal: &Refusal) -> Error {
        if refusal.is_of_disk {
            return self.not_ready(machine, format!("{UNUSABLE_DISK}: {}", refusal.what));
        }
        Error::Unable {
            node: self.hosts.name(machine).to_owned(),
            what: refusal.what.clone(),
        }
    }

    fn failed(&self, whose: &str, log_name: &str, how: &str) -> Error {
        Error::Command {
            whose: whose.into(),
            what: how.to_owned() + &log_words(&log::tail(&self.log(log_name))),
        }
    }
}

/// What the logs of the check, of what prepares the cluster, of its steps, and of who asks whether a
/// node is ready are called.
const CHECK: &str = "check";
const PREPARE: &str = "prepare";
const STEPS: &str = "steps";
const PROBE: &str = "ready";

/// How a machine ended, after its name.
fn words_of(end: &End) -> String {
    match end {
        End::Off => "switched itself off".to_owned(),
        End::Panic(what) => format!("has a kernel that gave up: {what}"),
        End::Process(how) => format!("has a kernel whose process ended: {how}"),
    }
}

/// A disk without anything on it.
fn new_disk(file: &ClusterFile, name: &str, settings: &SimulationSettings) -> Result<Disk> {
    let variant = Variant::for_machines(file.disk.as_deref().unwrap_or(FILE_SYSTEM))?;
    let own_bytes = file.simulated.disk_mib.map(|mib| mib << 20);
    let base = Arc::new(Base::empty(own_bytes.unwrap_or(variant.size_bytes)));
    let chance = Chance::new(settings.seed, &format!("disk {name}"));
    let usual = usual_behaviour(settings);
    Ok(Disk::new(base, usual, settings.disk_times, chance))
}

/// How a disk behaves that no fault has changed.
fn usual_behaviour(settings: &SimulationSettings) -> Box<dyn Behaviour> {
    match settings.completion {
        Completion::AtOnce => Box::new(settings.keeping),
        late @ Completion::Lazy { .. } => Box::new(late),
    }
}
