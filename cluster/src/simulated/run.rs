//! A cluster file, run on simulated machines.
//!
//! All that is waited for is waited for in the simulation's time, so a run does not depend on the
//! host: what a file gives a node to become ready is time of its own clock.

mod look;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use block_dev::Base;
use local_fs::Variant;
use machine::Uml;
use nix::sys::signal::Signal;
use pace_rules::disk::{Disk as Keeping, Log, Relaxation};
use simulation::{
    Chance, Chaos, Clocks, Disk, DiskTimes, EPOCH_NS, End, Link, MachineSpec, Point, PowerCut,
    Settings, Simulation, pcap,
};
use trace_store::Disk as RecordedDisk;

use super::hosts::{Heard, Hosts};
use super::init::{DATA_DIRECTORY, MACHINE_COMMAND};
use super::words::{DiskSetUp, Order, ProcessId, SetUp, Task};
use crate::check::{END, Verdict, of_end, question, too_long, verdict};
use crate::error::{Context, Error, Result, log_words};
use crate::file::{CLIENT, Check, ClusterFile, NodeConfig, Ready};
use crate::log;
use crate::network::{client_address, hardware_address};
use crate::node::{FIRST_LAST_PID, SETUP_WITHIN, hosts};
use crate::process::{Ending, ending};

pub use look::{Look, Looked};

/// The file system of a node's disk, if the cluster file names none.
const FILE_SYSTEM: &str = "ext4";

/// The memory of a machine in MiB.
const MEMORY_MIB: u64 = 256;

/// How often a node is asked whether it is ready, where it does not say so by itself.
const ASK_EVERY_NS: u64 = 20_000_000;

/// How long a kernel may take until its init is there.
const BOOT_WITHIN: Duration = Duration::from_secs(60);

/// Where the check finds what was acknowledged.
const ACKNOWLEDGEMENTS: &str = "/run/crashpoint/.acknowledgements";

/// The variables of our own environment that commands have in a machine.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];

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
}

/// A cluster on simulated machines. What runs is killed when it is dropped.
pub struct SimulatedCluster {
    hosts: Hosts,
    file: ClusterFile,
    nodes: Vec<NodeState>,
    /// How far each machine is, the client's last.
    stages: Vec<Stage>,
    /// What the client has in its environment beside what all clients have.
    variables: Vec<(String, String)>,
    /// The check, if it keeps running.
    server: Option<ProcessId>,
    /// How many of the steps have been run.
    steps_done: usize,
    /// What records the commands of nodes and the client.
    recorder: Option<Box<dyn MachineRecorder>>,
}

/// Records what is started in a machine: a program that starts it, and ends when it has, or when it
/// is given something to read. What it recorded is then in a file there.
pub trait MachineRecorder {
    /// The words of that program, before those of the command of a node, or of the client if there
    /// is none.
    fn words(&self, node: Option<&NodeConfig>) -> Vec<String>;

    /// Where the file is.
    fn path(&self, node: Option<&NodeConfig>) -> PathBuf;
}

/// What was recorded in a machine.
#[derive(Debug)]
pub struct MachineRecording {
    /// What its recorder wrote.
    pub bytes: Vec<u8>,
    /// When the machine was switched on, in nanoseconds of the simulation: its clock counts from
    /// there.
    pub began_ns: u64,
    /// What its disk was asked for, if it has one.
    pub disk: Option<RecordedDisk>,
}

/// How far a machine is that is on. A start may be broken off and gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its kernel boots.
    Boots,
    /// Its init was told what to set up.
    Told,
    /// It is a system.
    Up,
}

/// The client, while it runs.
#[derive(Debug, Clone)]
pub struct RunningClient {
    id: ProcessId,
    within: Duration,
    /// When it has had its time.
    pub end_ns: u64,
}

/// Why a client does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driven {
    /// It has ended.
    Ended(Ending),
    /// The simulation is at the point that was asked for.
    Point,
    /// It is the time.
    Time,
    /// Whoever takes its lines wants no more.
    Stopped,
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

/// What is known of a node.
#[derive(Debug, Clone, Default)]
struct NodeState {
    data: Data,
    command: Option<ProcessId>,
    is_ready: bool,
    started_ns: u64,
    asked_ns: u64,
    /// A command that asks whether it is ready.
    probe: Option<ProcessId>,
    /// A port that somebody was asked to try.
    tries: bool,
    /// How often it was switched on.
    starts: u32,
    /// How much of the log of its disk was durable when its command was started to be recorded.
    durable: usize,
}

impl SimulatedCluster {
    /// Makes the machines, all of which are off, and the network. `logs` is the directory that gets
    /// a log for each node and the client, and what each kernel says.
    ///
    /// # Errors
    /// If the file system of the nodes' disks is not known, or there is no room for the machines.
    pub fn new(file: &ClusterFile, logs: &Path, settings: &SimulationSettings) -> Result<Self> {
        fs::create_dir_all(logs).doing(|| format!("create {}", logs.display()))?;
        let simulation = Simulation::new(Settings {
            kernel: settings.kernel.clone(),
            seed: settings.seed,
            link: settings.link,
            bits_per_second: settings.bits_per_second,
            consoles: logs.to_owned(),
        })?;
        let mut hosts = Hosts::new(simulation, logs);
        let client = (CLIENT, client_address(0), false);
        let nodes = file.nodes.iter();
        let machines = nodes.map(|node| (node.name.as_str(), node.address, node.has_data));
        for (name, address, has_data) in machines.chain([client]) {
            let disk = has_data
                .then(|| new_disk(file, name, settings))
                .transpose()?;
            hosts.simulation.add(MachineSpec {
                name: name.to_owned(),
                address: hardware_address(address),
                memory_mib: MEMORY_MIB,
                disks: disk.into_iter().collect(),
                clock: settings.clocks.of(settings.seed, name),
                chaos: settings.chaos,
                init: vec![MACHINE_COMMAND.into()],
            })?;
            hosts.add(name);
        }
        Ok(Self {
            hosts,
            nodes: file.nodes.iter().map(|_| NodeState::default()).collect(),
            stages: vec![Stage::Boots; file.nodes.len() + 1],
            variables: Vec::new(),
            file: file.clone(),
            server: None,
            steps_done: 0,
            recorder: None,
        })
    }

    /// Another cluster that goes on from here as this one does, with everything that is in flight
    /// ([`Simulation::fork`]): not in the middle of a start. What runs in it is not recorded. `logs` is the
    /// directory for its logs, and gets what is in those of this one.
    ///
    /// # Errors
    /// If the simulation cannot be forked.
    pub fn fork(&mut self, logs: &Path) -> Result<Self> {
        fs::create_dir_all(logs).doing(|| format!("create {}", logs.display()))?;
        Ok(Self {
            hosts: self.hosts.fork(logs)?,
            file: self.file.clone(),
            nodes: self.nodes.clone(),
            stages: self.stages.clone(),
            variables: self.variables.clone(),
            server: self.server,
            steps_done: self.steps_done,
            recorder: None,
        })
    }

    /// Has nodes and the client recorded that are started from now on.
    pub fn record(&mut self, recorder: Box<dyn MachineRecorder>) {
        self.recorder = Some(recorder);
    }

    /// Kills all nodes at one instant, and returns what was recorded of each, and of the client after
    /// them. The machines are off then.
    ///
    /// # Errors
    /// If one of the recorders failed.
    pub fn end_recording(&mut self, cancelled: &dyn Fn() -> bool) -> Result<Vec<MachineRecording>> {
        for machine in 0..self.nodes.len() {
            let id = self.nodes[machine].command.expect("the node was started");
            let bytes = b"\n".to_vec();
            self.hosts.order(machine, &Order::Input { id, bytes });
        }
        let mut recorded = Vec::new();
        for machine in 0..=self.client() {
            if let Some(id) = self.nodes.get(machine).and_then(|node| node.command) {
                let ended = self.wait(machine, SETUP_WITHIN, cancelled, |hosts| {
                    hosts.process(machine, id)?.status
                })?;
                ended.ok_or_else(|| self.not_recorded(machine, "its recorder does not end"))?;
            }
            recorded.push(self.recording_of(machine, cancelled)?);
        }
        let nodes: Vec<_> = (0..self.nodes.len()).collect();
        for (node, cut) in self.power_off(&nodes, |_, _| Relaxation::Prefix)? {
            recorded[node].disk = Some(RecordedDisk {
                file_system: self.file_system().to_owned(),
                directory: DATA_DIRECTORY.to_owned(),
                base: cut.base,
                log: cut.log,
                durable: self.nodes[node].durable,
            });
        }
        Ok(recorded)
    }

    fn recording_of(
        &mut self,
        machine: usize,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<MachineRecording> {
        let recorder = self.recorder.as_ref().expect("it is recorded");
        let path = recorder.path(self.file.nodes.get(machine));
        self.hosts.order(machine, &Order::Read { path });
        let content = self.wait(machine, SETUP_WITHIN, cancelled, |hosts| {
            hosts.content(machine)
        })?;
        match content {
            Some(Ok(bytes)) => Ok(MachineRecording {
                bytes,
                began_ns: self.hosts.simulation.began_ns(machine),
                disk: None,
            }),
            Some(Err(why)) => Err(self.not_recorded(machine, &why)),
            None => Err(self.not_recorded(machine, "its machine does not answer")),
        }
    }

    fn not_recorded(&self, machine: usize, why: &str) -> Error {
        let name = self.hosts.name(machine);
        self.failed(name, name, &format!("was not recorded: {why}"))
    }

    /// The command of a node, or the client, as it is started: by its recorder, which makes itself
    /// the node's user.
    fn recorded(&self, node: Option<usize>, mut task: Task) -> Task {
        if let Some(recorder) = &self.recorder {
            let mut words = recorder.words(node.map(|node| &self.file.nodes[node]));
            words.append(&mut task.words);
            (task.words, task.user, task.has_input) = (words, None, true);
        }
        task
    }

    /// The machines, their disks and their network.
    pub fn simulation(&mut self) -> &mut Simulation {
        &mut self.hosts.simulation
    }

    /// What it was made of.
    pub fn file(&self) -> &ClusterFile {
        &self.file
    }

    /// The log of a node, or of the client or the check.
    pub fn log(&self, name: &str) -> PathBuf {
        self.hosts.log(name)
    }

    /// The index of the machine of the client.
    fn client(&self) -> usize {
        self.file.nodes.len()
    }

    /// Switches on what is off, and starts the nodes; waits until all are ready.
    ///
    /// # Errors
    /// If one of them does not become ready in its time. [`Error::AtPoint`] if the simulation is to
    /// [stop](Self::stop_at) before that: called again, it goes on from there.
    pub fn start(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let machines: Vec<_> = (0..=self.client()).collect();
        let off = machines
            .into_iter()
            .filter(|machine| !self.hosts.simulation.is_on(*machine));
        let off: Vec<_> = off.collect();
        for machine in &off {
            self.hosts.forget(*machine);
            self.stages[*machine] = Stage::Boots;
            if let Some(node) = self.nodes.get_mut(*machine) {
                *node = NodeState {
                    data: node.data,
                    starts: node.starts + 1,
                    ..NodeState::default()
                };
            } else {
                self.server = None;
            }
        }
        self.hosts
            .simulation
            .switch_on(&off, cancelled)
            .map_err(Error::from)?;
        let new = (0..=self.client()).filter(|machine| self.stages[*machine] != Stage::Up);
        let new: Vec<_> = new.collect();
        for machine in &new {
            self.wait(*machine, BOOT_WITHIN, cancelled, |hosts| {
                hosts.is_here(*machine).then_some(())
            })?
            .ok_or_else(|| self.not_up(*machine))?;
        }
        for machine in new {
            self.set_up(machine, cancelled)?;
        }
        self.start_nodes(cancelled)
    }

    /// Has the init of a machine make a system of its kernel, with its disk.
    fn set_up(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let node = self.file.nodes.get(machine).cloned();
        let is_new = self
            .nodes
            .get(machine)
            .is_some_and(|node| node.data == Data::None);
        let has_data = node.as_ref().is_some_and(|node| node.has_data);
        let starts = self.nodes.get(machine).map_or(1, |node| node.starts);
        let spec = SetUp {
            name: self.hosts.name(machine).to_owned(),
            address: node.as_ref().map_or(client_address(0), |node| node.address),
            hosts: hosts(&self.file, [(client_address(0), CLIENT.to_owned())]),
            visible: self.visible(),
            disk: has_data.then(|| DiskSetUp {
                file_system: self.file_system().to_owned(),
                is_new,
                user: node.as_ref().and_then(|node| node.user.clone()),
            }),
            last_pid: FIRST_LAST_PID * starts.max(1),
        };
        if self.stages[machine] == Stage::Boots {
            self.hosts.order(machine, &Order::SetUp(Box::new(spec)));
            self.stages[machine] = Stage::Told;
        }
        self.wait_done(machine, cancelled)?;
        self.stages[machine] = Stage::Up;
        if let Some(node) = self.nodes.get_mut(machine).filter(|_| is_new) {
            node.data = Data::Empty;
        }
        Ok(())
    }

    /// Gives a new node what it begins with: files, and what its setup makes.
    fn begin_node(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let node = self.file.nodes[machine].clone();
        for (path, content) in &node.files {
            let path = node.directory().join(path);
            let (content, user) = (content.clone().into_bytes(), node.user.clone());
            let order = Order::Write {
                path,
                content,
                user,
            };
            self.ask(machine, &order, cancelled)?;
        }
        for words in &node.setup {
            let task = self.node_task(machine, words);
            let status = self.run_to_end(machine, task, &node.name, SETUP_WITHIN, cancelled)?;
            if !status.is_some_and(|status| status.success()) {
                let how = how_ended(status, SETUP_WITHIN);
                let what = format!("cannot be set up: {} {how}", words.join(" "));
                return Err(self.not_ready(machine, what));
            }
        }
        if node.has_data {
            // Neither this nor the file system under it is what is tested.
            self.ask(machine, &Order::Sync, cancelled)?;
            self.hosts.simulation.disk(machine, 0).settle();
        }
        self.nodes[machine].data = Data::Begun;
        Ok(())
    }

    /// Has an init do something, and waits until it is done.
    fn ask(&mut self, machine: usize, order: &Order, cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.hosts.order(machine, order);
        self.wait_done(machine, cancelled)
    }

    /// Waits until an init has done what it was told.
    fn wait_done(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let done = self.wait(machine, SETUP_WITHIN, cancelled, |hosts| {
            hosts.done(machine)
        })?;
        match done {
            Some(Ok(())) => Ok(()),
            Some(Err(refusal)) => Err(self.not_ready(machine, refusal.what)),
            None => {
                let what = self.hosts.end(machine).map(words_of);
                Err(self.not_ready(machine, what.unwrap_or_else(|| "does not get ready".into())))
            }
        }
    }

    /// Starts the commands of nodes that were not, in their order, and waits until all are ready.
    fn start_nodes(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        loop {
            for machine in 0..self.nodes.len() {
                if !self.nodes[machine].is_ready {
                    self.advance(machine, cancelled)?;
                }
            }
            if self.next_step(cancelled)? {
                continue;
            }
            let is_over = self.steps_done == self.file.steps.len();
            if is_over && self.nodes.iter().all(|node| node.is_ready) {
                return Ok(());
            }
            let until_ns = self.hosts.simulation.now_ns() + ASK_EVERY_NS;
            if self.hosts.hear(until_ns, cancelled)? == Heard::Point {
                return Err(Error::AtPoint);
            }
        }
    }

    /// Runs the next step, if the nodes that it waits for are ready. Whether it did.
    fn next_step(&mut self, cancelled: &dyn Fn() -> bool) -> Result<bool> {
        let step = self.file.steps.get(self.steps_done).cloned();
        let is_ready = |node: &usize| self.nodes[*node].is_ready;
        let Some(step) = step.filter(|step| step.when.iter().all(is_ready)) else {
            return Ok(false);
        };
        let (machine, task) = match step.on {
            None => (self.client(), self.client_task(&step.command, false)),
            Some(node) => {
                if self.nodes[node].data != Data::Begun {
                    self.begin_node(node, cancelled)?;
                }
                (node, self.node_task(node, &step.command))
            }
        };
        let status = self.run_to_end(machine, task, STEPS, step.within, cancelled)?;
        if !status.is_some_and(|status| status.success()) {
            let whose = format!("step {}", step.name);
            return Err(self.failed(&whose, STEPS, &how_ended(status, step.within)));
        }
        self.steps_done += 1;
        let now_ns = self.hosts.simulation.now_ns();
        // Nobody has asked them meanwhile.
        let waiting = self.nodes.iter_mut().filter(|node| !node.is_ready);
        waiting.for_each(|node| node.started_ns = now_ns);
        Ok(true)
    }

    /// Brings a node nearer to being ready.
    fn advance(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let now_ns = self.hosts.simulation.now_ns();
        self.refuse_end_of(machine)?;
        let config = self.file.nodes[machine].clone();
        let Some(id) = self.nodes[machine].command else {
            let is_its_turn = config.after.iter().all(|other| self.nodes[*other].is_ready)
                && config
                    .after_steps
                    .iter()
                    .all(|step| *step < self.steps_done);
            if is_its_turn {
                if self.nodes[machine].data != Data::Begun {
                    self.begin_node(machine, cancelled)?;
                }
                if self.recorder.is_some() && config.has_data {
                    // With what was there before begins what is recorded.
                    self.ask(machine, &Order::Sync, cancelled)?;
                    let disk = self.hosts.simulation.disk(machine, 0);
                    disk.settle();
                    self.nodes[machine].durable = disk.log().len();
                }
                let now_ns = self.hosts.simulation.now_ns();
                let task = self.node_task(machine, &config.command);
                let task = self.recorded(Some(machine), task);
                let id = self.hosts.start(machine, task, &config.name, true)?;
                self.nodes[machine].command = Some(id);
                self.nodes[machine].started_ns = now_ns;
            }
            return Ok(());
        };
        let is_ready = match &config.ready {
            None => true,
            Some(Ready::Log(text)) => {
                let process = self.hosts.process(machine, id);
                process.is_some_and(|process| {
                    let logged = process.logged.as_ref();
                    logged.is_some_and(|logged| logged.contains(text.as_str()))
                })
            }
            Some(Ready::Port(port)) => self.tries_port(machine, *port, now_ns),
            Some(Ready::Command(words)) => self.asks_command(machine, words, now_ns)?,
        };
        let node = &mut self.nodes[machine];
        node.is_ready = is_ready;
        if is_ready {
            if let Some(process) = self.hosts.process(machine, id) {
                process.logged = None;
            }
        } else if now_ns - node.started_ns > config.ready_within.as_nanos() as u64 {
            let what = format!("was not ready within {:?}", config.ready_within);
            return Err(self.not_ready(machine, what));
        }
        Ok(())
    }

    /// Whether a port of a node answers, as somebody on its own machine sees it.
    fn tries_port(&mut self, machine: usize, port: u16, now_ns: u64) -> bool {
        let answered = self.hosts.tried(machine);
        let node = &mut self.nodes[machine];
        if answered.is_some() {
            node.tries = false;
        }
        if answered == Some(true) {
            return true;
        }
        if !node.tries && now_ns >= node.asked_ns + ASK_EVERY_NS {
            (node.tries, node.asked_ns) = (true, now_ns);
            let address = self.file.nodes[machine].address;
            self.hosts.order(machine, &Order::Try { address, port });
        }
        false
    }

    /// Whether a command in a node says that it is ready.
    fn asks_command(&mut self, machine: usize, words: &[String], now_ns: u64) -> Result<bool> {
        if let Some(id) = self.nodes[machine].probe {
            let status = self
                .hosts
                .process(machine, id)
                .and_then(|process| process.status);
            let Some(status) = status else {
                return Ok(false);
            };
            self.nodes[machine].probe = None;
            self.hosts.forget_process(machine, id);
            if ExitStatus::from_raw(status).success() {
                return Ok(true);
            }
        }
        if now_ns >= self.nodes[machine].asked_ns + ASK_EVERY_NS {
            let task = self.node_task(machine, words);
            let id = self.hosts.start(machine, task, PROBE, false)?;
            self.nodes[machine].probe = Some(id);
            self.nodes[machine].asked_ns = now_ns;
        }
        Ok(false)
    }

    /// Fails if a node has ended, its command or its kernel.
    ///
    /// # Errors
    /// [`Error::NotReady`] then.
    pub fn refuse_end(&mut self) -> Result<()> {
        (0..self.nodes.len()).try_for_each(|machine| self.refuse_end_of(machine))
    }

    fn refuse_end_of(&mut self, machine: usize) -> Result<()> {
        if let Some(end) = self.hosts.end(machine) {
            return Err(self.not_ready(machine, words_of(end)));
        }
        let Some(id) = self.nodes[machine].command else {
            return Ok(());
        };
        let status = self
            .hosts
            .process(machine, id)
            .and_then(|process| process.status);
        match status {
            None => Ok(()),
            Some(status) => {
                let how = ending(ExitStatus::from_raw(status));
                Err(self.not_ready(machine, format!("{how} by itself")))
            }
        }
    }

    /// The machines whose kernels gave up, or that were switched off from the inside: index, name and words.
    pub fn ended(&self) -> Vec<(usize, String, String)> {
        let all = 0..=self.client();
        all.filter_map(|machine| match self.hosts.end(machine)? {
            // It says nothing about the kernel.
            End::Process(_) => None,
            end => Some((machine, self.hosts.name(machine).to_owned(), words_of(end))),
        })
        .collect()
    }

    /// Runs what prepares a cluster that is up for the first time, if there is something.
    ///
    /// # Errors
    /// If it fails, or takes too long.
    pub fn prepare(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let Some(words) = self.file.prepare.clone() else {
            return Ok(());
        };
        let task = self.client_task(&words, false);
        let status = self.run_to_end(self.client(), task, PREPARE, SETUP_WITHIN, cancelled)?;
        if status.is_some_and(|status| status.success()) {
            return Ok(());
        }
        let how = how_ended(status, SETUP_WITHIN);
        Err(self.failed("prepare", PREPARE, &how))
    }

    /// Runs the client to its end. Each line of its standard output is given to `acknowledged` with
    /// the time.
    ///
    /// # Errors
    /// If there is none, it fails, or it takes too long.
    pub fn run_client(
        &mut self,
        acknowledged: &mut dyn FnMut(u64, &[u8]),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let client = self.begin_client()?;
        let mut all = |time_ns: u64, line: &[u8]| {
            acknowledged(time_ns, line);
            true
        };
        match self.drive_client(&client, client.end_ns, &mut all, cancelled)? {
            Driven::Ended(Ending::Status(0)) => Ok(()),
            Driven::Ended(ending) => Err(self.failed("the client", CLIENT, &ending.to_string())),
            Driven::Time | Driven::Point | Driven::Stopped => {
                let what = format!("did not end within {:?}", client.within);
                Err(self.failed("the client", CLIENT, &what))
            }
        }
    }

    /// Tells the client something in a variable of its environment, if it is not running yet.
    pub fn tell_client(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Starts the client.
    ///
    /// # Errors
    /// If there is none.
    pub fn begin_client(&mut self) -> Result<RunningClient> {
        let config = self.file.the_client()?.clone();
        let (machine, task) = (self.client(), self.client_task(&config.command, false));
        let task = self.recorded(None, task);
        let id = self.hosts.start(machine, task, CLIENT, false)?;
        let now_ns = self.hosts.simulation.now_ns();
        Ok(RunningClient {
            id,
            within: config.within,
            end_ns: now_ns + config.within.as_nanos() as u64,
        })
    }

    /// Lets the client go on, until it ends, the simulation is at the point that was asked for, at a
    /// time, or `acknowledged`, which gets each line and its time, wants no more.
    ///
    /// # Errors
    /// If the simulation cannot go on.
    pub fn drive_client(
        &mut self,
        client: &RunningClient,
        until_ns: u64,
        acknowledged: &mut dyn FnMut(u64, &[u8]) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Driven> {
        let machine = self.client();
        loop {
            let now_ns = self.hosts.simulation.now_ns();
            let Some(process) = self.hosts.process(machine, client.id) else {
                return Ok(Driven::Ended(Ending::Unknown));
            };
            while let Some(line) = process.line() {
                if !acknowledged(now_ns, &line) {
                    return Ok(Driven::Stopped);
                }
            }
            if let Some(status) = process.status {
                return Ok(Driven::Ended(ending(ExitStatus::from_raw(status))));
            }
            if self.hosts.end(machine).is_some() {
                return Ok(Driven::Ended(Ending::Unknown));
            }
            match self.hosts.hear(until_ns, cancelled)? {
                Heard::Something => {}
                Heard::Point => return Ok(Driven::Point),
                Heard::Time => return Ok(Driven::Time),
            }
        }
    }

    /// Kills the client, if it runs.
    pub fn end_client(&mut self, client: &RunningClient) {
        self.end_process(self.client(), client.id);
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

    /// Asks the check about what was acknowledged: lines, each with its end. One that keeps running
    /// is started the first time only.
    ///
    /// # Errors
    /// If there is none, or it cannot be run.
    pub fn run_check(
        &mut self,
        acknowledgements: &[u8],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Verdict> {
        let check = self.file.the_check()?.clone();
        let (client, path) = (self.client(), Path::new(ACKNOWLEDGEMENTS));
        let order = Order::Write {
            path: path.into(),
            content: acknowledgements.to_vec(),
            user: None,
        };
        self.ask(client, &order, cancelled)?;
        let id = if let Some(id) = self.server {
            id
        } else {
            let words = check.command((!check.serve).then_some(path))?;
            let task = self.client_task(&words, check.serve);
            self.hosts.start(client, task, CHECK, false)?
        };
        if check.serve {
            let bytes = format!("{}\n", question(path)).into_bytes();
            self.hosts.order(client, &Order::Input { id, bytes });
        }
        let (verdict, goes_on) = self.answer_of(id, &check, cancelled)?;
        self.server = goes_on.then_some(id);
        if !goes_on {
            self.end_process(client, id);
        }
        Ok(verdict.with_log(&self.log(CHECK)))
    }

    /// Waits for what a check says, and whether it can be asked again.
    fn answer_of(
        &mut self,
        id: ProcessId,
        check: &Check,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Verdict, bool)> {
        let client = self.client();
        let end_ns = self.hosts.simulation.now_ns() + check.within.as_nanos() as u64;
        let mut said = Vec::new();
        loop {
            let heard = self.hosts.hear(end_ns, cancelled)?;
            if let Some(end) = self.hosts.end(client) {
                let what = format!("the machine of the check {}", words_of(end));
                return Ok((Verdict::Inconclusive(what), false));
            }
            let process = self.hosts.process(client, id).expect("it was started");
            while let Some(line) = process.line() {
                if check.serve && line == END.as_bytes() {
                    return Ok((verdict(&said, true), true));
                }
                said.push(String::from_utf8_lossy(&line).into_owned());
            }
            match process.status.map(ExitStatus::from_raw) {
                Some(status) if check.serve => {
                    let what = format!("the check {}", ending(status));
                    return Ok((Verdict::Inconclusive(what), false));
                }
                Some(status) => return Ok((of_end(&said, status), false)),
                None if heard == Heard::Time => return Ok((too_long(check.within), false)),
                None => {}
            }
        }
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

    fn end_process(&mut self, machine: usize, id: ProcessId) {
        let signal = Signal::SIGKILL as i32;
        self.hosts.order(machine, &Order::Signal { id, signal });
        self.hosts.forget_process(machine, id);
    }

    /// Waits until `what` has something, or the time is over.
    fn wait<T>(
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

    /// Runs a command, and waits for its end. What it prints is in the log with a name.
    fn run_to_end(
        &mut self,
        machine: usize,
        task: Task,
        log_name: &str,
        within: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<ExitStatus>> {
        let id = self.hosts.start(machine, task, log_name, true)?;
        let status = self.wait(machine, within, cancelled, |hosts| {
            hosts
                .process(machine, id)
                .and_then(|process| process.status)
        })?;
        self.end_process(machine, id);
        Ok(status.map(ExitStatus::from_raw))
    }

    fn node_task(&self, machine: usize, words: &[String]) -> Task {
        let node = &self.file.nodes[machine];
        let mut environment = own_environment();
        environment.extend(node.environment.clone());
        Task {
            words: words.to_vec(),
            directory: if node.has_data {
                node.directory()
            } else {
                "/".into()
            },
            user: node.user.clone(),
            environment,
            has_input: false,
        }
    }

    fn client_task(&self, words: &[String], has_input: bool) -> Task {
        let mut environment = own_environment();
        environment.extend(self.file.client_environment());
        environment.extend(self.variables.iter().cloned());
        Task {
            words: words.to_vec(),
            directory: self.file.folder.clone(),
            user: None,
            environment,
            has_input,
        }
    }

    /// What may lie in directories for temporary files, and must be seen: the folder of the cluster
    /// file, where programs are looked for, and what commands name.
    fn visible(&self) -> Vec<PathBuf> {
        let nodes = self.file.nodes.iter();
        let commands = nodes.flat_map(|node| [&node.command].into_iter().chain(&node.setup));
        let client = self.file.client.iter().map(|client| &client.command);
        let commands = commands.chain(&self.file.prepare).chain(client);
        let named = |word: &str| {
            let path = Path::new(word.rsplit('=').next().unwrap_or_default());
            let is_there = path.is_absolute() && path.exists();
            let directory = if path.is_dir() {
                Some(path)
            } else {
                path.parent()
            };
            // With `..` in it, it would be looked for below what covers it.
            directory.filter(|_| is_there)?.canonicalize().ok()
        };
        let named = commands.flatten().filter_map(|word| named(word));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = std::env::split_paths(&path).filter(|directory| directory.is_dir());
        let mut visible: Vec<_> = named.chain(programs).collect();
        visible.push(self.file.folder.clone());
        visible.sort();
        visible.dedup();
        visible
    }

    fn file_system(&self) -> &str {
        self.file.disk.as_deref().unwrap_or(FILE_SYSTEM)
    }

    /// A machine whose init is not there.
    fn not_up(&self, machine: usize) -> Error {
        let console = self.hosts.simulation.console(machine);
        let own = console
            .lines()
            .rev()
            .find_map(|line| line.split_once("crashpoint: "));
        let what = match (own, self.hosts.end(machine)) {
            (Some((_, said)), _) => format!("does not come up: {said}"),
            (None, Some(End::Panic(what))) => format!("does not come up: {what}"),
            _ => "does not come up".into(),
        };
        Error::Command {
            whose: format!("the machine of {}", self.hosts.name(machine)),
            what,
        }
    }

    fn not_ready(&self, machine: usize, what: String) -> Error {
        let name = self.hosts.name(machine);
        Error::NotReady {
            node: name.to_owned(),
            what,
            tail: log::tail(&self.log(name)),
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

fn how_ended(status: Option<ExitStatus>, within: Duration) -> String {
    status.map_or_else(
        || format!("did not end within {within:?}"),
        |status| ending(status).to_string(),
    )
}

fn own_environment() -> Vec<(String, String)> {
    let known = VARIABLES.iter();
    let known = known.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    known.collect()
}

/// A disk without anything on it.
fn new_disk(file: &ClusterFile, name: &str, settings: &SimulationSettings) -> Result<Disk> {
    let variant = Variant::for_programs(file.disk.as_deref().unwrap_or(FILE_SYSTEM))?;
    let base = Arc::new(Base::empty(variant.size_bytes));
    let chance = Chance::new(settings.seed, &format!("disk {name}"));
    Ok(Disk::new(
        base,
        settings.keeping,
        settings.disk_times,
        chance,
    ))
}
