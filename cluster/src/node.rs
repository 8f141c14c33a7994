//! One node of a cluster: a handle to start, kill, pause and switch off.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use machine::Logged;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid};
use pace_rules::disk::{Log, Relaxation};

use crate::client;
use crate::disk::{Disk, PowerCut};
use crate::ends::{NodeEnd, SharedProcess, Watch};
use crate::error::{Context, Error, Result};
use crate::file::{ClusterFile, NodeConfig};
use crate::ground::{Ground, Machine, MachineSpec};
use crate::hidden;
use crate::log;
use crate::network::client_address;
use crate::process::{Ending, Process, Starter, failure, finish};
use crate::ready::{Asked, Probe};

/// How often it is looked whether a node is ready.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How many numbers there are for the processes of a node that is started for the first time, and
/// as many for those of the second and third time. A number that is in a file from another start
/// must not be that of a process, or a server thinks that it runs already.
const PIDS_OF_A_START: u32 = 3000;

/// After which number those of the first start begin.
pub(crate) const FIRST_LAST_PID: u32 = PIDS_OF_A_START;

/// From which start on that is not done any more.
const STARTS_MAX: u32 = 4;

/// After which number processes begin on data that another cluster left, such as one that was
/// recorded. Every kernel has 32768.
const LATER_LAST_PIDS: std::ops::Range<u32> = 12_000..30_000;

/// How long one command of a setup may take, or of what prepares the cluster.
pub(crate) const SETUP_WITHIN: Duration = Duration::from_secs(120);

const NO_PANIC: &str = "no holder panics";

/// What the handles of one cluster share.
pub(crate) struct Common {
    pub(crate) file: ClusterFile,
    pub(crate) ground: Arc<dyn Ground>,
    pub(crate) logs: PathBuf,
    /// How many clients there are.
    pub(crate) clients: AtomicUsize,
    /// Who wants to be told of the ends of nodes.
    pub(crate) ends: Mutex<Option<Sender<NodeEnd>>>,
    /// What is mounted for the disks of nodes.
    mount_points: Mutex<Vec<PathBuf>>,
}

impl Common {
    pub(crate) fn new(file: &ClusterFile, ground: Arc<dyn Ground>, logs: &Path) -> Self {
        Self {
            file: file.clone(),
            ground,
            logs: logs.to_owned(),
            clients: AtomicUsize::new(0),
            ends: Mutex::default(),
            mount_points: Mutex::default(),
        }
    }

    /// What no machine is to see of all that is mounted.
    pub(crate) fn unseen(&self) -> Vec<PathBuf> {
        self.mount_points.lock().expect(NO_PANIC).clone()
    }

    /// The log of a node, or of a client.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// What is in /etc/hosts of every machine.
    pub(crate) fn hosts(&self) -> String {
        let clients = 0..self.clients.load(Ordering::SeqCst);
        let clients = clients.map(|index| (client_address(index as u8), client::name(index)));
        hosts(&self.file, clients)
    }
}

/// What is in /etc/hosts of every machine of a cluster with these clients.
pub(crate) fn hosts(
    file: &ClusterFile,
    clients: impl IntoIterator<Item = (Ipv4Addr, String)>,
) -> String {
    let nodes = file.nodes.iter();
    let nodes = nodes.map(|node| (node.address, node.name.clone()));
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for (address, name) in clients.into_iter().chain(nodes) {
        text += &format!("{address} {name}\n");
    }
    text
}

/// A node of a cluster. It is killed when it is dropped.
///
/// Whatever is done to it leaves the others as they are.
pub struct Node {
    /// What is there while the machine is switched on.
    running: Option<Running>,
    /// Dropped after that, which has it in use.
    disk: Option<Disk>,
    common: Arc<Common>,
    index: usize,
    /// The directory of data, outside, of the last start.
    directory: PathBuf,
    /// How often it was started since its directory was new to this cluster.
    starts: u32,
    /// Whether it is in the network. It stays there when it is killed, and leaves it when it loses
    /// its power.
    is_plugged_in: bool,
}

/// A machine that is switched on, and what runs in it.
struct Running {
    // Dropped in this order: who asks is in the machine, and that the process ends is waited for.
    probe: Probe,
    machine: Box<dyn Machine>,
    watch: Option<Watch>,
    process: Option<SharedProcess>,
    log_from: u64,
    begun: Instant,
    is_ready: bool,
    is_paused: bool,
    is_set_up: bool,
}

impl Node {
    pub(crate) fn new(common: &Arc<Common>, index: usize) -> Result<Self> {
        let node = Self {
            running: None,
            disk: None,
            common: Arc::clone(common),
            index,
            directory: PathBuf::new(),
            starts: 0,
            is_plugged_in: true,
        };
        common.ground.plug_in(node.config().address)?;
        Ok(node)
    }

    /// What it was made of.
    pub fn config(&self) -> &NodeConfig {
        &self.common.file.nodes[self.index]
    }

    /// Its log, which every start goes on with.
    pub fn log(&self) -> PathBuf {
        self.common.log(&self.config().name)
    }

    /// Gives it a disk of its own, and returns the one that it had. It is to be started in the
    /// disk's directory ([`Disk::data`]). No machine of the cluster is switched on, but for clients
    /// that were there before the disk was made: others would hold it.
    pub fn set_disk(&mut self, disk: Option<Disk>) -> Option<Disk> {
        let mut unseen = self.common.mount_points.lock().expect(NO_PANIC);
        if let Some(old) = &self.disk {
            let old = old.mount_points();
            unseen.retain(|mount_point| !old.contains(mount_point));
        }
        unseen.extend(disk.iter().flat_map(Disk::mount_points));
        std::mem::replace(&mut self.disk, disk)
    }

    /// Its own disk, if it has one.
    pub fn disk(&mut self) -> Option<&mut Disk> {
        self.disk.as_mut()
    }

    /// Its power fails: it is switched off ([`Self::power_off`]), and its disk loses what `select`
    /// says ([`Disk::power_cut`]). It can be started again then, if its disk can be mounted.
    ///
    /// # Errors
    /// [`Error::NoDisk`] if it has none: then nothing has happened to it. And those of
    /// [`Disk::power_cut`].
    pub fn power_cut(&mut self, select: impl FnOnce(&Log) -> Relaxation) -> Result<PowerCut> {
        if self.disk.is_none() {
            return Err(Error::NoDisk(self.config().name.clone()));
        }
        self.power_off()?;
        self.disk.as_mut().expect("it has one").power_cut(select)
    }

    /// Starts it on what is in a directory, outside, with nothing of that changed. It may not be
    /// ready yet ([`Self::is_ready`]). What runs in it is killed first.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&mut self, directory: &Path, starter: &mut dyn Starter) -> Result<()> {
        self.boot(directory, false)?;
        self.run(starter)
    }

    /// Starts it again in the directory of its last start, as that is now.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn restart(&mut self, starter: &mut dyn Starter) -> Result<()> {
        let directory = self.directory.clone();
        self.unseen(true);
        let started = self.start(&directory, starter);
        self.unseen(false);
        started
    }

    /// Whether nobody looks at what its disk is asked for: while it is started, who could let a request go on
    /// waits for the disk.
    pub fn unseen(&self, is_unseen: bool) {
        if let Some(disk) = &self.disk {
            disk.set_unseen(is_unseen);
        }
    }

    /// Switches the machine on. `first` if the directory is new.
    pub(crate) fn boot(&mut self, directory: &Path, first: bool) -> Result<()> {
        self.kill();
        if !self.is_plugged_in {
            self.common.ground.plug_in(self.config().address)?;
            self.is_plugged_in = true;
        }
        let config = &self.common.file.nodes[self.index];
        if config.has_data {
            give_to_user(directory, config.user.as_deref())?;
        }
        self.starts = if first {
            1
        } else {
            self.starts + u32::from(self.starts > 0)
        };
        let spec = MachineSpec {
            name: config.name.clone(),
            data: config.has_data.then(|| directory.to_owned()),
            unseen: self.common.unseen(),
            own_temporary: true,
            last_pid: match self.starts {
                0 | STARTS_MAX.. => later_last_pid(),
                starts => starts * PIDS_OF_A_START,
            },
            hosts: self.common.hosts(),
        };
        self.running = Some(Running {
            probe: Probe::default(),
            machine: self.common.ground.boot(config.address, &spec)?,
            watch: None,
            process: None,
            log_from: 0,
            begun: Instant::now(),
            is_ready: false,
            is_paused: false,
            is_set_up: false,
        });
        directory.clone_into(&mut self.directory);
        Ok(())
    }

    /// Writes its files, and runs its setup, unless that was done since the machine was switched on.
    pub(crate) fn set_up(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let running = self.running.as_mut().expect("it is switched on");
        if std::mem::replace(&mut running.is_set_up, true) {
            return Ok(());
        }
        self.write_files()?;
        let node = self.config();
        if node.has_data {
            give_to_user(&self.directory, node.user.as_deref())?;
        }
        for words in &node.setup {
            self.run_setup(words, cancelled)?;
        }
        Ok(())
    }

    fn write_files(&self) -> Result<()> {
        for (path, content) in &self.config().files {
            let path = self.directory.join(path);
            let parent = path.parent().expect("it is in the directory");
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, content));
            written.doing(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }

    fn run_setup(&self, words: &[String], cancelled: &dyn Fn() -> bool) -> Result<()> {
        let setting_up = || format!("set up {}", self.config().name);
        let log = self.log();
        let mut command = self.command(words);
        log_output(&mut command, &log)?;
        let mut child = command.spawn_logged().doing(setting_up)?;
        let ended = finish(&mut child, SETUP_WITHIN, cancelled).doing(setting_up)?;
        let Some(how) = failure(ended, SETUP_WITHIN, cancelled)? else {
            return Ok(());
        };
        Err(self.not_ready(format!("cannot be set up: {} {how}", words.join(" ")), 0))
    }

    /// Runs its command. The machine is switched on.
    pub(crate) fn run(&mut self, starter: &mut dyn Starter) -> Result<()> {
        let log = self.log();
        let config = &self.common.file.nodes[self.index];
        let mut command = self.command(&config.command);
        log_output(&mut command, &log)?;
        // What it says from the start on.
        let log_from = log.metadata().map_or(0, |data| data.len());
        let started = starter.start(config, self.disk.as_mut(), command);
        let process = started.doing(|| format!("start {}", config.name))?;
        let (node, command) = (&config.name, config.command.join(" "));
        tracing::info!(node, pid = process.pid(), command, "started a node");
        let process = Arc::new(Mutex::new(process));
        let watch = self.watch(&process)?;
        let running = self.running.as_mut().expect("it is switched on");
        running.log_from = log_from;
        running.begun = Instant::now();
        running.process = Some(process);
        running.watch = watch;
        Ok(())
    }

    /// Tells of the end of a process whoever wants to know.
    fn watch(&self, process: &SharedProcess) -> Result<Option<Watch>> {
        let ends = self.common.ends.lock().expect(NO_PANIC).clone();
        let watch = ends.map(|ends| Watch::start(self.index, process, ends));
        watch
            .transpose()
            .doing(|| format!("watch {}", self.config().name))
    }

    /// Whether its command was started, and has neither ended nor been killed since.
    ///
    /// # Errors
    /// If that cannot be known.
    pub fn is_running(&self) -> Result<bool> {
        let has_process = self.process().is_some();
        Ok(has_process && self.ended()?.is_none())
    }

    /// Where its log was when its command was started, if that runs.
    ///
    /// # Errors
    /// If that cannot be known.
    pub fn logs_since(&self) -> Result<Option<u64>> {
        let is_running = self.is_running()?;
        let running = self.running.as_ref().filter(|_| is_running);
        Ok(running.map(|running| running.log_from))
    }

    /// Whether its command was started since the machine was switched on.
    pub(crate) fn is_started(&self) -> bool {
        self.process().is_some()
    }

    /// How its command has ended, if it has and was not killed.
    ///
    /// # Errors
    /// If that cannot be known.
    pub fn ended(&self) -> Result<Option<Ending>> {
        let Some(mut process) = self.process() else {
            return Ok(None);
        };
        process
            .ended()
            .doing(|| format!("look after {}", self.config().name))
    }

    fn process(&self) -> Option<MutexGuard<'_, Box<dyn Process>>> {
        let process = self.running.as_ref()?.process.as_ref()?;
        Some(process.lock().expect(NO_PANIC))
    }

    /// Whether it is ready to serve, as the cluster file says how one knows. One that is paused is
    /// not asked, and has the answer of the last time.
    ///
    /// # Errors
    /// [`Error::NotReady`] if its command has ended, or is not ready in its time.
    pub fn is_ready(&mut self) -> Result<bool> {
        self.refuse_end_when("before it was ready")?;
        let log = self.log();
        let config = &self.common.file.nodes[self.index];
        let Some(running) = self.running.as_mut() else {
            return Ok(false);
        };
        if running.is_ready || running.is_paused || running.process.is_none() {
            return Ok(running.is_ready);
        }
        let Some(ready) = &config.ready else {
            running.is_ready = true;
            return Ok(true);
        };
        let machine = &*running.machine;
        let asked = Asked {
            ground: &*self.common.ground,
            address: config.address,
            log: &log,
            log_from: running.log_from,
            command: &|words| in_machine(machine, config, words),
        };
        running.is_ready = running
            .probe
            .ask(ready, &asked)
            .doing(|| format!("ask whether {} is ready", config.name))?;
        if !running.is_ready && running.is_late(config.ready_within) {
            let log_from = running.log_from;
            let what = format!("was not ready within {:?}", config.ready_within);
            return Err(self.not_ready(what, log_from));
        }
        Ok(self
            .running
            .as_ref()
            .is_some_and(|running| running.is_ready))
    }

    /// From now on it has its time to be ready.
    pub fn begin_time(&mut self) {
        if let Some(running) = self.running.as_mut().filter(|running| !running.is_ready) {
            running.begun = Instant::now();
        }
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// [`Error::NotReady`] if its command has ended, or is not ready in its time;
    /// [`Error::Interrupted`].
    pub fn wait_until_ready(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        while !self.is_ready()? {
            if cancelled() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Fails if its command has ended.
    ///
    /// # Errors
    /// [`Error::NotReady`] then, with how it ended.
    pub fn refuse_end(&self) -> Result<()> {
        self.refuse_end_when("by itself")
    }

    fn refuse_end_when(&self, when: &str) -> Result<()> {
        let Some(how) = self.ended()? else {
            return Ok(());
        };
        let log_from = self.running.as_ref().map_or(0, |running| running.log_from);
        Err(self.not_ready(format!("{how} {when}"), log_from))
    }

    fn not_ready(&self, what: String, log_from: u64) -> Error {
        Error::NotReady {
            node: self.config().name.clone(),
            what,
            tail: log::tail_since(&self.log(), log_from),
        }
    }

    /// Asks its command to stop, as the cluster file says. Whether it was asked, and runs still.
    pub(crate) fn ask_to_stop(&mut self) -> Result<bool> {
        self.resume()?;
        self.end_is_asked_for();
        let config = self.config();
        if config.stop == Signal::SIGKILL || !self.is_running()? {
            return Ok(false);
        }
        let Some(process) = self.process() else {
            return Ok(false);
        };
        let pid = Pid::from_raw(process.pid().cast_signed());
        kill(pid, config.stop).doing(|| format!("stop {}", config.name))?;
        Ok(true)
    }

    /// Kills all of its processes at once (SIGKILL), and waits until they are gone. The kernel goes
    /// on: it writes what they have written, and tells others that their connections have ended.
    pub fn kill(&mut self) {
        self.begin_kill();
        self.be_gone();
    }

    /// Waits until all of its processes are gone that were killed. That its disk is slow is no reason to
    /// wait.
    fn be_gone(&mut self) {
        let hurry = |disk: Option<&Disk>, hurries| disk.map(|disk| disk.set_hurries(hurries));
        hurry(self.disk.as_ref(), true);
        self.running = None;
        hurry(self.disk.as_ref(), false);
    }

    /// Kills without waiting for the end.
    pub(crate) fn begin_kill(&mut self) {
        self.end_is_asked_for();
        if let Some(running) = &mut self.running {
            running.machine.kill();
            tracing::info!(node = self.config().name, "killed a node");
        }
    }

    /// What ends from now on is not said to have ended by itself.
    fn end_is_asked_for(&self) {
        let watch = self
            .running
            .as_ref()
            .and_then(|running| running.watch.as_ref());
        if let (Some(watch), Ok(true)) = (watch, self.is_running()) {
            watch.end_is_asked_for();
        }
    }

    /// Switches its power off: from one moment to the next nothing comes from it any more, not even
    /// that its connections have ended, and all of its processes are gone when this returns. A
    /// start gives it a network that remembers nothing.
    ///
    /// # Errors
    /// If the network cannot be told; it is killed nevertheless.
    pub fn power_off(&mut self) -> Result<()> {
        let unplugged = if std::mem::take(&mut self.is_plugged_in) {
            self.common.ground.unplug(self.config().address)
        } else {
            Ok(())
        };
        self.begin_kill();
        // What waited for it is not done. Who reads of the error in a program's log reads of its end.
        let told = self.disk.as_mut().map_or(Ok(()), Disk::give_up);
        self.be_gone();
        tracing::info!(node = self.config().name, "switched a node off");
        unplugged.and(told)
    }

    /// Stops all of its processes where they are. None of them runs any more when this returns; its
    /// kernel still answers for their connections.
    ///
    /// # Errors
    /// If one does not stop: then all go on.
    pub fn pause(&mut self) -> Result<()> {
        let Some(running) = self.running.as_mut() else {
            return Ok(());
        };
        if let Err(error) = running.machine.pause() {
            running.machine.resume()?;
            return Err(error);
        }
        running.is_paused = true;
        tracing::info!(node = self.config().name, "paused a node");
        Ok(())
    }

    /// Has all of its processes go on, if it is paused.
    ///
    /// # Errors
    /// If they cannot be told.
    pub fn resume(&mut self) -> Result<()> {
        match self.running.as_mut() {
            Some(running) if running.is_paused => {
                running.is_paused = false;
                running.machine.resume()
            }
            _ => Ok(()),
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.is_paused)
    }

    /// What runs a command in it.
    ///
    /// # Panics
    /// If it is not switched on.
    pub fn command(&self, words: &[String]) -> Command {
        let running = self.running.as_ref().expect("it is switched on");
        in_machine(&*running.machine, self.config(), words)
    }

    /// The process that stands for it, which whoever wants to look may enter (`nsenter -a -t PID`).
    ///
    /// # Panics
    /// If it is not switched on.
    pub fn pid(&self) -> u32 {
        let running = self.running.as_ref().expect("it is switched on");
        running.machine.pid()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    /// Whether it had its time to be ready. That in which it was ready to run, and others ran, is
    /// not its.
    fn is_late(&self, within: Duration) -> bool {
        let taken = self.begun.elapsed();
        let waited = || {
            let process = self.process.as_ref()?.lock().expect(NO_PANIC);
            Some(machine::waited_for_processor(process.pid()))
        };
        taken > within && taken.saturating_sub(waited().unwrap_or_default()) > within
    }
}

fn in_machine(machine: &dyn Machine, node: &NodeConfig, words: &[String]) -> Command {
    let directory = if node.has_data {
        node.directory()
    } else {
        PathBuf::from("/")
    };
    let mut command = machine.command(words, &directory, node.user.as_deref());
    command.envs(&node.environment);
    command
}

pub(crate) fn log_output(command: &mut Command, log: &Path) -> Result<()> {
    let open = || log::open(log).doing(|| format!("open {}", log.display()));
    command.stdout(open()?).stderr(open()?);
    Ok(())
}

/// A number that no start before this one is likely to have had.
fn later_last_pid() -> u32 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_micros());
    LATER_LAST_PIDS.start + now % (LATER_LAST_PIDS.end - LATER_LAST_PIDS.start)
}

/// Makes a user the owner of a directory and of all that is in it.
pub(crate) fn give_to_user(directory: &Path, user: Option<&str>) -> Result<()> {
    let Some(name) = user else { return Ok(()) };
    let user = hidden::user(name)?;
    give(directory, user.uid, user.gid).doing(|| format!("give {} to {name}", directory.display()))
}

/// What it has already is left alone: its file system may have become read-only.
fn give(path: &Path, uid: Uid, gid: Gid) -> std::io::Result<()> {
    let metadata = path.symlink_metadata()?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
    }
    if (metadata.uid(), metadata.gid()) == (uid.as_raw(), gid.as_raw()) {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw()))
}
