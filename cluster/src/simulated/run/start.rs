//! From machines without power to a cluster that is ready.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use simulation::End;

use super::{Data, NodeState, PROBE, STEPS, SimulatedCluster, Stage, words_of};
use crate::client::name;
use crate::error::{Error, Result};
use crate::file::{NodeConfig, Ready};
use crate::network::client_address;
use crate::node::{FIRST_LAST_PID, SETUP_WITHIN, hosts};
use crate::process::Ending;
use crate::simulated::hosts::Heard;
use crate::simulated::words::{DiskSetUp, Order, SetUp};

/// How often a node is asked whether it is ready, where it does not say so by itself.
pub(super) const ASK_EVERY_NS: u64 = 20_000_000;

/// How long a kernel may take until its init is there.
const BOOT_WITHIN: Duration = Duration::from_secs(60);

impl SimulatedCluster {
    /// Switches on what is off, and starts the nodes; waits until all are ready.
    ///
    /// # Errors
    /// If one of them does not become ready in its time. [`Error::AtPoint`] if the simulation is to
    /// [stop](Self::stop_at) before that: called again, it goes on from there.
    pub fn start(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let machines = 0..self.stages.len();
        let off = machines.filter(|machine| !self.hosts.simulation.is_on(*machine));
        let off: Vec<_> = off.collect();
        self.switch_on(&off, cancelled)?;
        let new = (0..self.stages.len()).filter(|machine| self.stages[*machine] != Stage::Up);
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

    /// Switches machines on, of which nothing is known any more.
    pub(super) fn switch_on(&mut self, off: &[usize], cancelled: &dyn Fn() -> bool) -> Result<()> {
        let now_ns = self.now_ns();
        for machine in off.iter().copied() {
            self.hosts.forget(machine);
            self.stages[machine] = Stage::Boots;
            if let Some(node) = self.nodes.get_mut(machine) {
                *node = NodeState {
                    said: std::mem::take(&mut node.said),
                    data: node.data,
                    starts: node.starts + 1,
                    started_ns: now_ns,
                    log_from: node.log_from,
                    // It is of the machine, and not of its kernel.
                    drift: node.drift,
                    ..NodeState::default()
                };
            } else {
                self.server = None;
            }
        }
        let switched = self.hosts.simulation.switch_on(off, cancelled);
        switched.map_err(Error::from)
    }

    /// Has the init of a machine make a system of its kernel, with its disk.
    fn set_up(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        if self.stages[machine] == Stage::Boots {
            self.tell_set_up(machine);
        }
        self.wait_done(machine, cancelled)?;
        self.stages[machine] = Stage::Up;
        let node = self.nodes.get_mut(machine);
        if let Some(node) = node.filter(|node| node.data == Data::None) {
            node.data = Data::Empty;
        }
        Ok(())
    }

    /// Tells the init of a machine what to make of its kernel.
    pub(super) fn tell_set_up(&mut self, machine: usize) {
        let node = self.file.nodes.get(machine);
        let state = self.nodes.get(machine);
        let has_data = node.is_some_and(|node| node.has_data);
        let starts = state.map_or(1, |node| node.starts);
        let clients = 0..self.stages.len() - self.nodes.len();
        let address = |client: usize| client_address(client as u8);
        let spec = SetUp {
            name: self.hosts.name(machine).to_owned(),
            address: node.map_or_else(|| address(machine - self.client()), |node| node.address),
            hosts: hosts(
                &self.file,
                clients.map(|index| (address(index), name(index))),
            ),
            visible: self.visible.clone(),
            disk: has_data.then(|| DiskSetUp {
                file_system: self.file_system().to_owned(),
                is_new: state.is_some_and(|state| state.data == Data::None),
                user: node.and_then(|node| node.user.clone()),
            }),
            last_pid: FIRST_LAST_PID * starts.max(1),
        };
        self.hosts.order(machine, &Order::SetUp(Box::new(spec)));
        self.stages[machine] = Stage::Told;
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
            let failed = self.run_to_end(machine, task, &node.name, SETUP_WITHIN, cancelled)?;
            if let Some(how) = failed {
                let what = format!("cannot be set up: {} {how}", words.join(" "));
                return Err(self.not_ready(machine, what));
            }
        }
        // Neither this nor the file system under it is what is tested.
        self.settle(machine, cancelled)?;
        self.nodes[machine].data = Data::Begun;
        Ok(())
    }

    /// Has an init do something, and waits until it is done.
    pub(super) fn ask(
        &mut self,
        machine: usize,
        order: &Order,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.hosts.ask(machine, order);
        self.wait_done(machine, cancelled)
    }

    /// Has the disk of a node, if it has one, hold what was written to it, whatever happens.
    pub(super) fn settle(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        if self.file.nodes[machine].has_data {
            self.ask(machine, &Order::Sync, cancelled)?;
            self.hosts.simulation.disk(machine, 0).settle();
        }
        Ok(())
    }

    /// Waits until an init has done what it was told.
    pub(super) fn wait_done(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let done = self.wait(machine, SETUP_WITHIN, cancelled, |hosts| {
            hosts.done(machine)
        })?;
        match done {
            Some(Ok(())) => Ok(()),
            Some(Err(refusal)) => Err(self.refused(machine, &refusal)),
            None => {
                self.refuse_lost_kernel(machine)?;
                let what = self.hosts.end(machine).map(words_of);
                Err(self.not_ready(machine, what.unwrap_or_else(|| "does not get ready".into())))
            }
        }
    }

    /// Starts the commands of nodes that were not, in their order, and waits until all are ready.
    fn start_nodes(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        // Nobody has asked them while others were without power, and booted.
        self.begin_times();
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
            let until_ns = self.now_ns() + ASK_EVERY_NS;
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
        if let Some(how) = self.run_to_end(machine, task, STEPS, step.within, cancelled)? {
            return Err(self.failed(&format!("step {}", step.name), STEPS, &how));
        }
        self.steps_done += 1;
        // Nobody has asked them meanwhile.
        self.begin_times();
        Ok(true)
    }

    /// From now on all nodes that are not ready have their time to be.
    fn begin_times(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.begin_time(node));
    }

    /// Brings a node nearer to being ready.
    pub(super) fn advance(&mut self, machine: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let now_ns = self.now_ns();
        self.refuse_end_of(machine)?;
        let config = self.file.nodes[machine].clone();
        let Some(id) = self.nodes[machine].command else {
            return self.start_command(machine, &config, cancelled);
        };
        let is_ready = match &config.ready {
            None => true,
            Some(Ready::Log(text)) => {
                let process = self.hosts.process(machine, id);
                process.is_some_and(|process| process.has_logged(text))
            }
            Some(Ready::Port(port)) => self.tries_port(machine, *port, now_ns),
            Some(Ready::Command(words) | Ready::Http { words, .. }) => {
                self.asks_command(machine, words, now_ns)?
            }
        };
        let node = &mut self.nodes[machine];
        node.is_ready = is_ready;
        if is_ready {
            node.ready_ns = Some(now_ns);
            if let Some(process) = self.hosts.process(machine, id) {
                process.logged = None;
            }
        } else {
            self.refuse_late(machine)?;
        }
        Ok(())
    }

    /// Fails if a node has had its time to become ready.
    pub(super) fn refuse_late(&self, machine: usize) -> Result<()> {
        let within = self.file.nodes[machine].ready_within;
        let has_had_ns = self.now_ns() - self.nodes[machine].started_ns;
        if has_had_ns > within.as_nanos() as u64 {
            let what = format!("was not ready within {within:?}");
            return Err(self.not_ready(machine, what));
        }
        Ok(())
    }

    /// Starts the command of a node, if it is its turn.
    fn start_command(
        &mut self,
        machine: usize,
        config: &NodeConfig,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut steps = config.after_steps.iter();
        let is_its_turn = config.after.iter().all(|other| self.nodes[*other].is_ready)
            && steps.all(|step| *step < self.steps_done);
        if !is_its_turn {
            return Ok(());
        }
        if self.nodes[machine].data != Data::Begun {
            self.begin_node(machine, cancelled)?;
        }
        if self.recorder.is_some() && config.has_data {
            // With what was there before begins what is recorded.
            self.settle(machine, cancelled)?;
            self.nodes[machine].durable = self.hosts.simulation.disk(machine, 0).log().len();
        }
        self.run_command(machine)
    }

    /// Runs the command of a node.
    pub(super) fn run_command(&mut self, machine: usize) -> Result<()> {
        let now_ns = self.now_ns();
        let NodeConfig { name, command, .. } = &self.file.nodes[machine];
        let task = self.recorded(Some(machine), self.node_task(machine, command));
        let log_from = self.log(name).metadata().map_or(0, |data| data.len());
        let (task, is_traced) = self.traced(machine, task);
        let id = self.hosts.start_node(machine, task, name, is_traced)?;
        let node = &mut self.nodes[machine];
        (node.command, node.started_ns, node.log_from) = (Some(id), now_ns, log_from);
        node.is_traced = is_traced;
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
    /// [`Error::NotReady`] then. As of [`Self::refuse_lost_tracer`].
    pub fn refuse_end(&mut self) -> Result<()> {
        (0..self.nodes.len()).try_for_each(|machine| self.refuse_end_of(machine))
    }

    /// Fails if this node has.
    ///
    /// # Errors
    /// As of [`Self::refuse_end`], and [`Error::Unable`] if its kernel is gone for no reason in the machine.
    pub fn refuse_end_of(&mut self, machine: usize) -> Result<()> {
        self.refuse_lost_tracer(machine)?;
        self.refuse_lost_kernel(machine)?;
        if let Some(end) = self.hosts.end(machine) {
            return Err(self.not_ready(machine, words_of(end)));
        }
        match self.command_end(machine) {
            None => Ok(()),
            Some((status, _)) => {
                let how = Ending::from(ExitStatus::from_raw(status));
                Err(self.not_ready(machine, format!("{how} by itself")))
            }
        }
    }

    /// Fails if the process of a kernel has ended and the kernel is not why, which says nothing of who is in its
    /// machine.
    ///
    /// # Errors
    /// [`Error::Unable`] then.
    pub fn refuse_lost_kernels(&self) -> Result<()> {
        (0..self.stages.len()).try_for_each(|machine| self.refuse_lost_kernel(machine))
    }

    pub(super) fn refuse_lost_kernel(&self, machine: usize) -> Result<()> {
        match self.hosts.end(machine) {
            Some(end @ End::Process(_)) => Err(Error::Unable {
                node: self.hosts.name(machine).to_owned(),
                what: format!("it {}", words_of(end)),
            }),
            _ => Ok(()),
        }
    }

    /// A machine whose init is not there.
    fn not_up(&self, machine: usize) -> Error {
        if let Err(error) = self.refuse_lost_kernel(machine) {
            return error;
        }
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
}
