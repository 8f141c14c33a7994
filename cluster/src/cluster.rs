//! A cluster that runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use machine::Logged;

use crate::check::{Errors, Server, Verdict, judge, question};
use crate::client::Client;
use crate::ends::NodeEnd;
use crate::error::{Context, Error, Result, log_words};
use crate::file::{CLIENT, ClusterFile};
use crate::ground::Ground;
use crate::links::{Links, Member};
use crate::log;
use crate::namespaces::NamespaceGround;
use crate::network::{self, client_address};
use crate::node::{Common, LOOK_EVERY, Node, SETUP_WITHIN, log_output};
use crate::process::{Heard, Starter, each_line, failure, finish, lines_of};
use crate::turns::Turns;

/// What the check's log is called.
const CHECK: &str = "check";

/// And those of what prepares the cluster, and of its steps.
const PREPARE: &str = "prepare";
const STEPS: &str = "steps";

/// A cluster: its network, its clients, and its nodes, which may be started. What is running is
/// killed when this is dropped.
pub struct Cluster {
    nodes: Vec<Node>,
    /// The check, if it keeps running and has been asked.
    server: Option<Server>,
    clients: Vec<Client>,
    links: Links,
    common: Arc<Common>,
}

/// How the nodes are started.
pub struct Settings<'a> {
    /// The directory of data of each node, outside, in the order of the file. Those of nodes that
    /// have none are not looked at.
    pub directories: &'a [PathBuf],
    /// Whether the directories are new: then the files are written, and the setup and the steps are
    /// run.
    pub first: bool,
    /// Which nodes are started first, if not all together. What a node is `after` in the file it is
    /// after in any case.
    pub turns: Option<Turns<'a>>,
    /// What starts the commands.
    pub starter: &'a mut dyn Starter,
    /// Whether somebody wants an end of it.
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Cluster {
    /// Makes the network and the place of the first client. No node is started.
    ///
    /// `logs` is the directory that gets a log for each node, which a later start goes on with.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks something.
    pub fn new(file: &ClusterFile, logs: &Path) -> Result<Self> {
        let ground: Arc<dyn Ground> = Arc::new(NamespaceGround::new()?);
        let common = Arc::new(Common::new(file, Arc::clone(&ground), logs));
        let nodes = (0..file.nodes.len())
            .map(|index| Node::new(&common, index))
            .collect::<Result<_>>()?;
        fs::create_dir_all(logs).doing(|| format!("create {}", logs.display()))?;
        let mut cluster = Self {
            nodes,
            server: None,
            clients: Vec::new(),
            links: Links::new(ground, address_of),
            common,
        };
        cluster.add_client()?;
        Ok(cluster)
    }

    /// Adds a place for one more client, and returns its index: the first client is there from the
    /// start, and is 0. Machines that are switched on from now on know it by its name.
    ///
    /// # Errors
    /// If the place cannot be made.
    pub fn add_client(&mut self) -> Result<usize> {
        let index = self.clients.len();
        self.common.clients.store(index + 1, Ordering::SeqCst);
        self.clients.push(Client::new(&self.common, index)?);
        Ok(index)
    }

    /// A client.
    ///
    /// # Panics
    /// If there is none with this index.
    pub fn client(&self, index: usize) -> &Client {
        &self.clients[index]
    }

    /// A node.
    ///
    /// # Panics
    /// If there is none with this index.
    pub fn node(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// All nodes, in the order of the file.
    pub fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// The links between nodes and clients.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Has the end of every node be told that is started from now on, to the last who asked for
    /// that. Each start has one end.
    pub fn ends(&self) -> Receiver<NodeEnd> {
        let (tell, ends) = mpsc::channel();
        *self.common.ends.lock().expect("no holder panics") = Some(tell);
        ends
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
        for (node, directory) in self.nodes.iter_mut().zip(settings.directories) {
            node.boot(directory, settings.first)?;
        }
        let mut ready = vec![false; self.nodes.len()];
        let steps = self.common.file.steps.len();
        // They are run once, and that was when the directories were new.
        let mut done = if settings.first { 0 } else { steps };
        let (mut turns, begun) = (settings.turns, Instant::now());
        while done < steps || !ready.iter().all(|ready| *ready) {
            if (settings.cancelled)() {
                return Err(Error::Interrupted);
            }
            let held = turns.map_or(&[][..], |turns| turns.later);
            self.advance_all(&mut ready, done, held, settings)?;
            if self.next_step(done, &ready, settings.cancelled)? {
                done += 1;
                continue;
            }
            if let Some(of) = turns {
                // Who cannot be ready alone is not late for that.
                self.nodes.iter_mut().for_each(Node::begin_time);
                let fixed = self.common.file.first_alone;
                turns = Some(of).filter(|of| !of.are_over(&self.nodes, &ready, begun, fixed));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Has each node that is not ready, nor held, come nearer to it. So many steps are done.
    fn advance_all(
        &mut self,
        ready: &mut [bool],
        done: usize,
        held: &[usize],
        settings: &mut Settings,
    ) -> Result<()> {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !ready[index] && !held.contains(&index) {
                ready[index] = advance(node, (ready, done), settings)?;
            }
        }
        Ok(())
    }

    /// Runs a step, if there is one and the nodes that it waits for are ready. Whether it did.
    fn next_step(
        &mut self,
        place: usize,
        ready: &[bool],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let common = Arc::clone(&self.common);
        let step = common.file.steps.get(place);
        let Some(step) = step.filter(|step| step.when.iter().all(|node| ready[*node])) else {
            return Ok(false);
        };
        let command = match step.on {
            None => self.client_command(&step.command),
            Some(node) => {
                self.nodes[node].set_up(cancelled)?;
                self.nodes[node].command(&step.command)
            }
        };
        let whose = format!("step {}", step.name);
        self.run_once(command, (&whose, STEPS), step.within, cancelled)?;
        // Nobody has asked them meanwhile.
        self.nodes.iter_mut().for_each(Node::begin_time);
        Ok(true)
    }

    /// Asks all nodes to stop, and kills those that do not in their time. Returns the names of
    /// these.
    ///
    /// # Errors
    /// If it cannot be known whether one has ended.
    pub fn stop(&mut self, cancelled: &dyn Fn() -> bool) -> Result<Vec<String>> {
        let begun = Instant::now();
        let mut left = Vec::new();
        for node in &mut self.nodes {
            if node.ask_to_stop()? {
                left.push(node);
            }
        }
        let mut killed = Vec::new();
        while !left.is_empty() && !cancelled() {
            let mut still = Vec::new();
            for node in left {
                if !node.is_running()? {
                    continue;
                }
                if begun.elapsed() > node.config().stop_within {
                    killed.push(node.config().name.clone());
                } else {
                    still.push(node);
                }
            }
            left = still;
            std::thread::sleep(LOOK_EVERY);
        }
        killed.extend(left.iter().map(|node| node.config().name.clone()));
        self.kill();
        Ok(killed)
    }

    /// Kills all nodes with everything in them, at once. The network and the clients stay.
    pub fn kill(&mut self) {
        self.nodes.iter_mut().for_each(Node::begin_kill);
        self.nodes.iter_mut().for_each(Node::kill);
        // Nobody is to wait for a slow disk that is taken down.
        for disk in self.nodes.iter_mut().filter_map(Node::disk) {
            let _ = disk.spare_if_slow();
        }
    }

    /// The first node that has ended by itself, as an error.
    ///
    /// # Errors
    /// That one.
    pub fn refuse_end(&mut self) -> Result<()> {
        self.nodes.iter().try_for_each(Node::refuse_end)
    }

    /// What runs a command where the first client is: it sees all nodes, and has their addresses in
    /// its environment ([`crate::ADDRESS_VARIABLE`]).
    pub fn client_command(&self, words: &[String]) -> Command {
        self.clients[0].command(words)
    }

    /// Runs what prepares a cluster that is up for the first time, if there is something.
    ///
    /// # Errors
    /// If it fails, or takes too long.
    pub fn prepare(&self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let Some(words) = &self.common.file.prepare else {
            return Ok(());
        };
        let command = self.client_command(words);
        self.run_once(command, (PREPARE, PREPARE), SETUP_WITHIN, cancelled)
    }

    /// Runs a command that has to succeed. What it says is in the log with a name.
    fn run_once(
        &self,
        mut command: Command,
        (whose, log_name): (&str, &str),
        within: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let log = self.log(log_name);
        let log_from = log.metadata().map_or(0, |data| data.len());
        log_output(&mut command, &log)?;
        let mut child = command.spawn_logged().doing(|| format!("run {whose}"))?;
        let ended = finish(&mut child, within, cancelled).doing(|| format!("run {whose}"))?;
        let Some(how) = failure(ended, within, cancelled)? else {
            return Ok(());
        };
        Err(Error::Command {
            whose: whose.into(),
            what: how + &log_words(&log::tail_since(&log, log_from)),
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
        let client = self.common.file.the_client()?;
        let log = self.log(CLIENT);
        let errors = log::open(&log).doing(|| format!("open {}", log.display()))?;
        let mut command = self.client_command(&client.command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn_logged()
            .doing(|| "start the client".into())?;
        let lines = lines_of(child.stdout.take().expect("piped"));
        let deadline = Instant::now() + client.within;
        let heard = each_line(&lines, deadline, cancelled, |line| {
            acknowledged(line);
            true
        });
        let left = match heard {
            Heard::Stopped => Duration::ZERO,
            _ => deadline.saturating_duration_since(Instant::now()),
        };
        let ended = finish(&mut child, left, cancelled).doing(|| "wait for the client".into())?;
        let Some(how) = failure(ended, client.within, cancelled)? else {
            return Ok(());
        };
        Err(Error::Command {
            whose: "the client".into(),
            what: how + &log_words(&log::tail(&log)),
        })
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
        let kept = self.server.take().filter(|server| !server.has_more());
        let check = self.common.file.the_check()?;
        let log = self.log(CHECK);
        let errors = Errors::of(log.clone(), kept.is_some());
        let command = |acknowledgements| -> Result<Command> {
            let mut command = self.client_command(&check.command(acknowledgements)?);
            command.stderr(log::open_anew(&log).doing(|| format!("open {}", log.display()))?);
            Ok(command)
        };
        let (verdict, server) = if check.serve {
            let server = match kept {
                Some(server) => server,
                None => Server::start(command(None)?).doing(|| "start the check".into())?,
            };
            server
                .ask(
                    &question(acknowledgements),
                    check.within,
                    cancelled,
                    &errors,
                )
                .doing(|| "ask the check".into())?
        } else {
            let verdict = judge(
                command(Some(acknowledgements))?,
                check.within,
                cancelled,
                &errors,
            );
            (verdict.doing(|| "run the check".into())?, None)
        };
        self.server = server;
        Ok(verdict.with_log(&errors))
    }

    /// Where the logs are.
    pub fn logs(&self) -> &Path {
        &self.common.logs
    }

    /// The log of a node, or of a client.
    pub fn log(&self, name: &str) -> PathBuf {
        self.common.log(name)
    }

    /// What it was made of.
    pub fn file(&self) -> &ClusterFile {
        &self.common.file
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Before the disks, which wait until no machine has them in use any more.
        self.server = None;
        self.kill();
        self.clients.clear();
    }
}

/// Brings one node nearer to being ready, in its turn; `ready` says which are, and `done` how many
/// steps are. Whether it is.
fn advance(
    node: &mut Node,
    (ready, done): (&[bool], usize),
    settings: &mut Settings,
) -> Result<bool> {
    if node.is_started() {
        return node.is_ready();
    }
    let config = node.config();
    let is_its_turn = config.after.iter().all(|other| ready[*other])
        && config.after_steps.iter().all(|step| *step < done);
    if is_its_turn {
        if settings.first {
            node.set_up(settings.cancelled)?;
        }
        node.run(settings.starter)?;
    }
    Ok(false)
}

fn address_of(member: Member) -> std::net::Ipv4Addr {
    match member {
        Member::Node(index) => network::address(index as u8 + 1),
        Member::Client(index) => client_address(index as u8),
    }
}
