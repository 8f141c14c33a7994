//! A cluster that runs.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, User};

use crate::check::{Server, Verdict, judge};
use crate::error::{Context, Error, Result, log_words};
use crate::file::{CLIENT, ClusterFile, Node, PATIENCE_VARIABLE};
use crate::hidden::NodeSpec;
use crate::log;
use crate::namespaces::Namespaces;
use crate::network::{Connected, Network, client_address};
use crate::process::{Heard, Process, Starter, each_line, ending, finish, lines_of};
use crate::ready::{Asked, Probe};

/// How often it is looked whether nodes are ready, or have ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How many numbers there are for the processes of a node that is started for the first time, and
/// as many for those of the second and third time. A number that is in a file from another start
/// must not be that of a process, or a server thinks that it runs already.
const PIDS_OF_A_START: u32 = 3000;

/// From which start on that is not done any more.
const STARTS_MAX: u32 = 4;

/// Behind which number processes begin on data that another cluster left, such as one that was
/// recorded. Every kernel has 32768.
const LATER_LAST_PIDS: std::ops::Range<u32> = 12_000..30_000;

/// What the check's log is called.
const CHECK: &str = "check";

/// And that of what prepares the cluster.
const PREPARE: &str = "prepare";

/// How long one command of a setup may take, or of what prepares the cluster.
const SETUP_WITHIN: Duration = Duration::from_secs(120);

/// A cluster: its network, the place of its client, and its nodes, if they have been started. What
/// is running is killed when this is dropped.
pub struct Cluster {
    nodes: Vec<Running>,
    /// The check, if it keeps running and has been asked.
    server: Option<Server>,
    client: Namespaces,
    /// The network of each node. It outlives the processes in it: to make one takes the kernel
    /// longer than many a node takes to start, and to take it down longer still.
    connected: Vec<Connected>,
    network: Network,
    file: ClusterFile,
    logs: PathBuf,
    /// How often the nodes were started on directories that were new to this cluster.
    starts: u32,
}

/// How the nodes are started.
pub struct Settings<'a> {
    /// The directory of data of each node, outside, in the order of the file. Those of nodes that
    /// have none are not looked at.
    pub directories: &'a [PathBuf],
    /// Whether the directories are new: then the files are written, and the setup is run.
    pub first: bool,
    /// What starts the commands.
    pub starter: &'a mut dyn Starter,
    /// Whether somebody wants an end of it.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// A node whose namespaces are there.
struct Running {
    // Before the process, which is waited for when it is dropped.
    probe: Probe,
    namespaces: Namespaces,
    process: Option<Box<dyn Process>>,
    log_from: u64,
    begun: Instant,
    ready_within: Duration,
    is_ready: bool,
}

impl Cluster {
    /// Makes the network and the place of the client. No node is started.
    ///
    /// `logs` is the directory that gets a log for each node, which a later start goes on with.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks something.
    pub fn new(file: &ClusterFile, logs: &Path) -> Result<Self> {
        let network = Network::new()?;
        let client = NodeSpec {
            name: CLIENT.into(),
            data: None,
            last_pid: PIDS_OF_A_START,
            hosts: hosts(file),
        };
        let client = Namespaces::new(&network.connect(client_address())?, &client)?;
        let connected = file
            .nodes
            .iter()
            .map(|node| network.connect(node.address))
            .collect::<Result<_>>()?;
        fs::create_dir_all(logs).doing(|| format!("create {}", logs.display()))?;
        Ok(Self {
            nodes: Vec::new(),
            server: None,
            client,
            connected,
            network,
            file: file.clone(),
            logs: logs.to_owned(),
            starts: 0,
        })
    }

    /// Starts the nodes, and waits until all are ready. Those of an earlier start are killed.
    ///
    /// # Errors
    /// If one of them cannot be started, ends, or does not become ready in its time. All are killed
    /// then.
    pub fn start(&mut self, settings: &mut Settings) -> Result<()> {
        self.kill();
        let started = self.start_all(settings);
        if started.is_err() {
            self.kill();
        }
        started
    }

    fn start_all(&mut self, settings: &mut Settings) -> Result<()> {
        self.starts = if settings.first {
            1
        } else {
            self.starts + u32::from(self.starts > 0)
        };
        let last_pid = match self.starts {
            0 | STARTS_MAX.. => later_last_pid(),
            starts => starts * PIDS_OF_A_START,
        };
        for ((node, connected), directory) in self
            .file
            .nodes
            .iter()
            .zip(&self.connected)
            .zip(settings.directories)
        {
            if node.has_data {
                give_to_user(directory, node.user.as_deref())?;
            }
            let data = node.has_data.then(|| directory.clone());
            let spec = NodeSpec {
                name: node.name.clone(),
                data,
                last_pid,
                hosts: hosts(&self.file),
            };
            self.nodes.push(Running {
                probe: Probe::default(),
                namespaces: Namespaces::new(connected, &spec)?,
                process: None,
                log_from: 0,
                begun: Instant::now(),
                ready_within: node.ready_within,
                is_ready: false,
            });
        }
        while !self.nodes.iter().all(|node| node.is_ready) {
            if (settings.cancelled)() {
                return Err(Error::Interrupted);
            }
            for place in 0..self.nodes.len() {
                self.advance(place, settings)?;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Brings one node nearer to being ready.
    fn advance(&mut self, place: usize, settings: &mut Settings) -> Result<()> {
        if self.nodes[place].is_ready {
            return Ok(());
        }
        let node = &self.file.nodes[place];
        if self.nodes[place].process.is_none() {
            if !node.after.iter().all(|other| self.nodes[*other].is_ready) {
                return Ok(());
            }
            if settings.first {
                self.set_up(place, &settings.directories[place], settings.cancelled)?;
            }
            return self.start_one(place, settings.starter);
        }
        let log = self.log(&node.name);
        let running = &mut self.nodes[place];
        running.refuse_end(&node.name, "before it was ready", &log)?;
        let Some(ready) = &node.ready else {
            running.is_ready = true;
            return Ok(());
        };
        let namespaces = &running.namespaces;
        let asked = Asked {
            network: &self.network,
            address: node.address,
            log: &log,
            log_from: running.log_from,
            command: &|words| in_node(namespaces, node, words),
        };
        running.is_ready = running
            .probe
            .ask(ready, &asked)
            .doing(|| format!("ask whether {} is ready", node.name))?;
        if !running.is_ready && running.is_late() {
            let what = format!("was not ready within {:?}", node.ready_within);
            let tail = log::tail_since(&log, running.log_from);
            return Err(Error::NotReady {
                node: node.name.clone(),
                what,
                tail,
            });
        }
        Ok(())
    }

    /// Writes a node's files, and runs its setup.
    fn set_up(&self, place: usize, directory: &Path, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let node = &self.file.nodes[place];
        for (path, content) in &node.files {
            let path = directory.join(path);
            let parent = path.parent().expect("it is in the directory");
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, content));
            written.doing(|| format!("write {}", path.display()))?;
        }
        if node.has_data {
            give_to_user(directory, node.user.as_deref())?;
        }
        for words in &node.setup {
            let log = self.log(&node.name);
            let mut command = in_node(&self.nodes[place].namespaces, node, words);
            log_output(&mut command, &log)?;
            let mut child = command.spawn().doing(|| format!("set up {}", node.name))?;
            let ended = finish(&mut child, SETUP_WITHIN, cancelled)
                .doing(|| format!("set up {}", node.name))?;
            let how = match ended {
                Some(status) if status.success() => continue,
                Some(status) => ending(status),
                None if cancelled() => return Err(Error::Interrupted),
                None => format!("did not end within {SETUP_WITHIN:?}"),
            };
            let what = format!("cannot be set up: {} {how}", words.join(" "));
            return Err(Error::NotReady {
                node: node.name.clone(),
                what,
                tail: log::tail(&log),
            });
        }
        Ok(())
    }

    fn start_one(&mut self, place: usize, starter: &mut dyn Starter) -> Result<()> {
        let node = &self.file.nodes[place];
        let log = self.log(&node.name);
        let mut command = in_node(&self.nodes[place].namespaces, node, &node.command);
        log_output(&mut command, &log)?;
        let running = &mut self.nodes[place];
        running.log_from = log.metadata().map_or(0, |data| data.len());
        running.begun = Instant::now();
        running.process = Some(
            starter
                .start(node, command)
                .doing(|| format!("start {}", node.name))?,
        );
        Ok(())
    }

    /// Asks all nodes to stop, and kills those that do not in their time. Returns the names of
    /// these.
    ///
    /// # Errors
    /// If it cannot be known whether one has ended.
    pub fn stop(&mut self, cancelled: &dyn Fn() -> bool) -> Result<Vec<String>> {
        let begun = Instant::now();
        let mut left = Vec::new();
        for (node, running) in self.file.nodes.iter().zip(&mut self.nodes) {
            let Some(process) = &mut running.process else {
                continue;
            };
            let has_ended = process
                .ended()
                .doing(|| format!("look after {}", node.name))?
                .is_some();
            if !has_ended && node.stop != Signal::SIGKILL {
                let pid = Pid::from_raw(process.pid().cast_signed());
                kill(pid, node.stop).doing(|| format!("stop {}", node.name))?;
                left.push((node, process));
            }
        }
        let mut killed = Vec::new();
        while !left.is_empty() && !cancelled() {
            let mut still = Vec::new();
            for (node, process) in left {
                if process
                    .ended()
                    .doing(|| format!("look after {}", node.name))?
                    .is_some()
                {
                    continue;
                }
                if begun.elapsed() > node.stop_within {
                    killed.push(node.name.clone());
                } else {
                    still.push((node, process));
                }
            }
            left = still;
            std::thread::sleep(LOOK_EVERY);
        }
        killed.extend(left.iter().map(|(node, _)| node.name.clone()));
        self.kill();
        Ok(killed)
    }

    /// Kills all nodes with everything in them, at once. The network and the client stay.
    pub fn kill(&mut self) {
        self.nodes.clear();
    }

    /// The first node that has ended by itself, as an error.
    ///
    /// # Errors
    /// That one.
    pub fn refuse_end(&mut self) -> Result<()> {
        for (node, running) in self.file.nodes.iter().zip(&mut self.nodes) {
            running.refuse_end(
                &node.name,
                "by itself",
                &self.logs.join(log_name(&node.name)),
            )?;
        }
        Ok(())
    }

    /// What runs a command in a node.
    ///
    /// # Panics
    /// If the nodes are not started.
    pub fn node_command(&self, place: usize, words: &[String]) -> Command {
        in_node(
            &self.nodes[place].namespaces,
            &self.file.nodes[place],
            words,
        )
    }

    /// What runs a command where the client is: it sees all nodes, and has their addresses in its
    /// environment ([`crate::ADDRESS_VARIABLE`]).
    pub fn client_command(&self, words: &[String]) -> Command {
        let mut command = self.client.command(words, &self.file.folder, None);
        command
            .envs(self.file.addresses())
            .env(PATIENCE_VARIABLE, self.file.patience.to_string());
        command
    }

    /// Runs what prepares a cluster that is up for the first time, if there is something.
    ///
    /// # Errors
    /// If it fails, or takes too long.
    pub fn prepare(&self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let Some(words) = &self.file.prepare else {
            return Ok(());
        };
        let log = self.log(PREPARE);
        let mut command = self.client_command(words);
        log_output(&mut command, &log)?;
        let mut child = command.spawn().doing(|| "prepare the cluster".into())?;
        let how = match finish(&mut child, SETUP_WITHIN, cancelled)
            .doing(|| "prepare the cluster".into())?
        {
            Some(status) if status.success() => return Ok(()),
            Some(status) => ending(status),
            None if cancelled() => return Err(Error::Interrupted),
            None => format!("did not end within {SETUP_WITHIN:?}"),
        };
        Err(Error::Command {
            whose: "prepare".into(),
            what: how + &log_words(&log::tail(&log)),
        })
    }

    /// Runs the client. Each line of its standard output is given to `acknowledged` as it comes;
    /// what else it says goes to its log.
    ///
    /// # Errors
    /// If there is none, it fails, or it takes too long.
    pub fn run_client(
        &self,
        acknowledged: &mut dyn FnMut(&[u8]),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let failed = |what: String| Error::Command {
            whose: "the client".into(),
            what,
        };
        let client = self
            .file
            .client
            .as_ref()
            .ok_or_else(|| failed("is not in the cluster file".into()))?;
        let log = self.log(CLIENT);
        let errors = log::open(&log).doing(|| format!("open {}", log.display()))?;
        let mut command = self.client_command(&client.command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .doing(|| "start the client".into())?;
        let lines = lines_of(child.stdout.take().expect("piped"));
        let deadline = Instant::now() + client.within;
        let heard = each_line(&lines, deadline, cancelled, |line| {
            acknowledged(line);
            true
        });
        let left = deadline.saturating_duration_since(Instant::now());
        let left = if heard == Heard::Stopped {
            Duration::ZERO
        } else {
            left
        };
        match finish(&mut child, left, cancelled).doing(|| "wait for the client".into())? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(failed(ending(status) + &log_words(&log::tail(&log)))),
            None if cancelled() => Err(Error::Interrupted),
            None => Err(failed(format!(
                "did not end within {:?}{}",
                client.within,
                log_words(&log::tail(&log))
            ))),
        }
    }

    /// Asks the check, with a file that has the acknowledgements. One that keeps running is started
    /// the first time only. What it says beside its verdict goes to its log.
    ///
    /// # Errors
    /// If there is none, or it cannot be run.
    pub fn run_check(
        &mut self,
        acknowledgements: &Path,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Verdict> {
        let kept = self.server.take();
        let failed = |what: String| Error::Command {
            whose: "the check".into(),
            what,
        };
        let check = self
            .file
            .check
            .as_ref()
            .ok_or_else(|| failed("is not in the cluster file".into()))?;
        let log = self.log(CHECK);
        let command = |acknowledgements| {
            let mut command = self.client_command(&check.command(acknowledgements)?);
            command.stderr(log::open_anew(&log).doing(|| format!("open {}", log.display()))?);
            Ok(command)
        };
        let (verdict, server) = if check.serve {
            let server = match kept {
                Some(server) => server,
                None => Server::start(command(None)?).doing(|| "start the check".into())?,
            };
            // There is a directory for each node, and none that is the state's.
            let line = format!("-\t{}", acknowledgements.display());
            server
                .ask(&line, check.within, cancelled)
                .doing(|| "ask the check".into())?
        } else {
            let verdict = judge(command(Some(acknowledgements))?, check.within, cancelled);
            (verdict.doing(|| "run the check".into())?, None)
        };
        self.server = server;
        Ok(match verdict {
            Verdict::Inconclusive(why) => Verdict::Inconclusive(why + &log_words(&log::tail(&log))),
            other => other,
        })
    }

    /// The first process of a node's namespaces, which whoever wants to look may enter
    /// (`nsenter -a -t PID`).
    ///
    /// # Panics
    /// If the nodes are not started.
    pub fn pid(&self, place: usize) -> u32 {
        self.nodes[place].namespaces.pid()
    }

    /// That of the client's.
    pub fn client_pid(&self) -> u32 {
        self.client.pid()
    }

    /// Where the logs are.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// The log of a node, or of the client.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs.join(log_name(name))
    }

    /// What it was made of.
    pub fn file(&self) -> &ClusterFile {
        &self.file
    }
}

impl Running {
    /// Whether it had its time to be ready. That in which it was ready to run, and others ran, is
    /// not its.
    fn is_late(&self) -> bool {
        let taken = self.begun.elapsed();
        let waited = || {
            self.process
                .as_ref()
                .map(|process| machine::waited_for_processor(process.pid()))
        };
        taken > self.ready_within
            && taken.saturating_sub(waited().unwrap_or_default()) > self.ready_within
    }

    /// Fails if the node's command has ended.
    fn refuse_end(&mut self, node: &str, when: &str, log: &Path) -> Result<()> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let Some(how) = process.ended().doing(|| format!("look after {node}"))? else {
            return Ok(());
        };
        let what = format!("{how} {when}");
        Err(Error::NotReady {
            node: node.to_owned(),
            what,
            tail: log::tail_since(log, self.log_from),
        })
    }
}

fn log_output(command: &mut Command, log: &Path) -> Result<()> {
    let open = || log::open(log).doing(|| format!("open {}", log.display()));
    command.stdout(open()?).stderr(open()?);
    Ok(())
}

fn log_name(node: &str) -> String {
    format!("{node}.log")
}

fn in_node(namespaces: &Namespaces, node: &Node, words: &[String]) -> Command {
    let directory = if node.has_data {
        node.directory()
    } else {
        PathBuf::from("/")
    };
    let mut command = namespaces.command(words, &directory, node.user.as_deref());
    command.envs(&node.environment);
    command
}

/// What is in /etc/hosts of every node.
fn hosts(file: &ClusterFile) -> String {
    let mut text = format!(
        "127.0.0.1 localhost\n::1 localhost\n{} {CLIENT}\n",
        client_address()
    );
    for node in &file.nodes {
        text += &format!("{} {}\n", node.address, node.name);
    }
    text
}

/// A number that no start before this one is likely to have had.
fn later_last_pid() -> u32 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_micros());
    LATER_LAST_PIDS.start + now % (LATER_LAST_PIDS.end - LATER_LAST_PIDS.start)
}

/// Makes a user the owner of a directory and of all that is in it.
fn give_to_user(directory: &Path, user: Option<&str>) -> Result<()> {
    let Some(name) = user else { return Ok(()) };
    let user = User::from_name(name).doing(|| format!("look for the user {name}"))?;
    let user = user.ok_or_else(|| Error::Command {
        whose: format!("user {name}"),
        what: "does not exist".into(),
    })?;
    give(directory, user.uid, user.gid).doing(|| format!("give {} to {name}", directory.display()))
}

fn give(path: &Path, uid: Uid, gid: Gid) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), uid, gid)?;
        }
        return chown(path, Some(uid.as_raw()), Some(gid.as_raw()));
    }
    std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw()))
}
