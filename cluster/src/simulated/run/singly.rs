//! Nodes, links and programs one by one, while the rest goes on: what faults do, and their ends.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use block_dev::{Fault, Faulty, Image, Onlooker, Predicate};
use pace_rules::disk::{Log, Relaxation};
use simulation::{Carried, Disk, End, Limit, Ports, PowerCut};

use super::{Fate, SimulatedCluster, Stage, usual_behaviour, words_of};
use crate::client::name;
use crate::error::{Error, Result};
use crate::links::Member;
use crate::process::Ending;
use crate::simulated::words::{Everybody, Order, ProcessId};

/// How long whoever tries a port of a node may go on when all of the node was killed.
const TRIED_WITHIN: Duration = Duration::from_secs(2);

/// A command in the machine of a client.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedProgram {
    machine: usize,
    id: ProcessId,
}

impl SimulatedCluster {
    /// Lets time pass until something happens, at the latest until a time.
    ///
    /// # Errors
    /// If the simulation cannot go on.
    pub fn pass(&mut self, until_ns: u64, cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.hosts.hear(until_ns, cancelled).map(drop)
    }

    /// How the command of a node, or its kernel, has ended, if it has and was not killed. Of a kernel that is
    /// gone for no reason in the machine only [`Self::refuse_end_of`] tells.
    pub fn end_of(&mut self, node: usize) -> Option<String> {
        match self.hosts.end(node) {
            None => {}
            Some(End::Process(_)) => return None,
            Some(end) => return Some(words_of(end)),
        }
        let (status, _) = self.command_end(node)?;
        Some(Ending::from(ExitStatus::from_raw(status)).to_string())
    }

    /// When that was, in nanoseconds since the simulation began.
    pub fn ended_ns(&mut self, node: usize) -> Option<u64> {
        match self.hosts.end(node) {
            None => self.command_end(node).map(|(_, ended_ns)| ended_ns),
            Some(End::Process(_)) => None,
            Some(_) => Some(self.hosts.ended_ns(node)),
        }
    }

    /// Whether a node was started, and has neither ended nor been killed since.
    pub fn is_running(&mut self, node: usize) -> bool {
        self.nodes[node].fate != Fate::Down && self.end_of(node).is_none()
    }

    /// Where the log of a node was when its command was started, if that runs: a machine that boots has
    /// none yet.
    pub fn logs_since(&mut self, node: usize) -> Option<u64> {
        let runs = self.is_running(node) && self.nodes[node].command.is_some();
        runs.then_some(self.nodes[node].log_from)
    }

    /// Brings a node that was started again nearer to being ready, without waiting. Whether it is. One
    /// that stands still has the answer of the last time.
    ///
    /// # Errors
    /// [`Error::NotReady`] if it has ended, or is not ready in its time. [`Error::Unable`] if its machine
    /// cannot be set up, until it is switched on again.
    pub fn is_node_ready(&mut self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<bool> {
        self.refuse_end_of(node)?;
        let state = &self.nodes[node];
        if state.is_ready || state.fate != Fate::Goes {
            return Ok(state.is_ready);
        }
        match self.stages[node] {
            Stage::Boots if self.hosts.is_here(node) => self.tell_set_up(node),
            Stage::Boots => self.refuse_late(node)?,
            Stage::Told => match self.hosts.done(node) {
                None => self.refuse_late(node)?,
                Some(Ok(())) => {
                    self.stages[node] = Stage::SetUp;
                    self.begin(node, cancelled)?;
                }
                Some(Err(refusal)) => {
                    let error = self.refused(node, &refusal);
                    // It is not set up later either, and whoever asks then is to know why.
                    self.hosts.keep_refusal(node, refusal);
                    return Err(error);
                }
            },
            Stage::SetUp => self.begin(node, cancelled)?,
            Stage::Up => self.advance(node, cancelled)?,
        }
        Ok(self.nodes[node].is_ready)
    }

    /// Runs the command of a node whose machine is a system again. Whoever breaks off what comes before that
    /// goes on with it later.
    fn begin(&mut self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.list_before_start(node, cancelled)?;
        self.stages[node] = Stage::Up;
        self.run_command(node)
    }

    /// From now on a node that is not ready has its time to be.
    pub fn begin_time(&mut self, node: usize) {
        let now_ns = self.now_ns();
        let state = &mut self.nodes[node];
        if !state.is_ready {
            state.started_ns = now_ns;
        }
    }

    /// Starts a node again: the machine is switched on if it is off, and what is left in it is killed
    /// if it is not. It may not be ready yet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn restart_node(&mut self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        if !self.hosts.simulation.is_on(node) {
            return self.switch_on(&[node], cancelled);
        }
        if self.nodes[node].fate != Fate::Down {
            self.kill_nodes(&[node], cancelled)?;
        }
        self.nodes[node].fate = Fate::Goes;
        self.run_command(node)
    }

    /// Kills all processes of nodes; their kernels go on.
    ///
    /// # Errors
    /// If a machine does not do that.
    pub fn kill_nodes(&mut self, nodes: &[usize], cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.everybody(nodes, Everybody::End, cancelled)?;
        for node in nodes.iter().copied() {
            if self.nodes[node].tries {
                // It is not to be taken for an answer of the next start.
                self.wait(node, TRIED_WITHIN, cancelled, |hosts| hosts.tried(node))?;
            }
            self.keep_lines(node);
            let state = &mut self.nodes[node];
            let ids = [state.command.take(), state.probe.take()];
            (state.tries, state.is_ready, state.fate) = (false, false, Fate::Down);
            for id in ids.into_iter().flatten() {
                self.hosts.forget_process(node, id);
            }
        }
        Ok(())
    }

    /// Stops all processes of nodes; their kernels go on, and what traces the processes.
    ///
    /// # Errors
    /// If a machine does not do that: then they go on.
    pub fn pause_nodes(&mut self, nodes: &[usize], cancelled: &dyn Fn() -> bool) -> Result<()> {
        let stopped = self.everybody(nodes, Everybody::Stop, cancelled);
        if stopped.is_err() {
            // Some may have stopped. What failed is the error to tell.
            let _ = self.everybody(nodes, Everybody::GoOn, cancelled);
            return stopped;
        }
        for node in nodes {
            self.nodes[*node].fate = Fate::Paused;
        }
        Ok(())
    }

    /// Has the machines of nodes stand still: no time passes for them.
    ///
    /// # Errors
    /// If one stands still already, or the simulation cannot go on.
    pub fn freeze_nodes(&mut self, nodes: &[usize], cancelled: &dyn Fn() -> bool) -> Result<()> {
        for node in nodes {
            if self.nodes[*node].fate != Fate::Goes {
                return Err(self.stands_still(*node));
            }
        }
        self.meet(cancelled)?;
        for node in nodes {
            self.hosts.simulation.freeze(*node);
            self.nodes[*node].fate = Fate::Frozen;
        }
        Ok(())
    }

    /// Has a node go on whose processes or machine stand still.
    ///
    /// # Errors
    /// If its machine does not do that.
    pub fn resume_node(&mut self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let fate = self.nodes[node].fate;
        match fate {
            Fate::Goes | Fate::Down => return Ok(()),
            Fate::Frozen => self.hosts.simulation.thaw(node),
            Fate::Paused => self.ask(node, &Order::Everybody(Everybody::GoOn), cancelled)?,
        }
        self.nodes[node].fate = Fate::Goes;
        Ok(())
    }

    /// Has the time of day of a node jump by so many nanoseconds, which is verified.
    ///
    /// # Errors
    /// If its machine has no power or stands still, or the clock does not jump.
    pub fn move_clock(
        &mut self,
        node: usize,
        by_ns: i64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        if !self.hosts.simulation.is_on(node) {
            return Err(Error::Command {
                whose: self.hosts.name(node).to_owned(),
                what: "has no power, and so no clock that could jump".into(),
            });
        }
        if self.nodes[node].fate == Fate::Frozen {
            return Err(self.stands_still(node));
        }
        self.wait_for_command(node, cancelled)?;
        self.ask(node, &Order::MoveClock { by_ns }, cancelled)?;
        self.nodes[node].jumps_ns.push(by_ns);
        Ok(())
    }

    /// Has the time of day of a node jump back by what it has jumped. One whose machine was switched on
    /// since has its own time already, and one whose machine has ended will have it.
    ///
    /// # Errors
    /// As of [`Self::move_clock`].
    pub fn move_clock_back(
        &mut self,
        node: usize,
        by_ns: i64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        if !self.hosts.simulation.is_on(node) {
            self.nodes[node].jumps_ns.clear();
        }
        let jumps = self.nodes[node].jumps_ns.iter();
        let Some(place) = jumps.clone().position(|jump| *jump == by_ns) else {
            return Ok(());
        };
        self.move_clock(node, -by_ns, cancelled)?;
        let jumps = &mut self.nodes[node].jumps_ns;
        jumps.pop();
        jumps.remove(place);
        Ok(())
    }

    /// The power of nodes fails as in [`Self::power_off`], at one instant of all machines.
    ///
    /// # Errors
    /// [`Error::NoDisk`] if one has no disk: then nothing has happened. If `select` loses what no power
    /// failure may cost.
    pub fn power_loss(
        &mut self,
        nodes: &[usize],
        select: impl FnMut(usize, &Log) -> Relaxation,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<(usize, PowerCut)>> {
        for node in nodes {
            self.disk_of(*node)?;
        }
        self.meet(cancelled)?;
        let cuts = self.power_off(nodes, select)?;
        for node in nodes {
            // Only now: until its power was off, no request of it succeeded that was to fail.
            self.spare_requests(*node)?;
            let state = &mut self.nodes[*node];
            (state.command, state.is_ready, state.fate) = (None, false, Fate::Down);
            state.jumps_ns.clear();
        }
        Ok(cuts)
    }

    /// Has the disk of a node do so the first `times` requests of which `hits` is true, and all
    /// others as ever.
    ///
    /// # Errors
    /// If it has none.
    pub fn answer_some(
        &mut self,
        node: usize,
        (fault, times): (Fault, u64),
        hits: Predicate,
    ) -> Result<()> {
        let usual = usual_behaviour(&self.settings);
        let faulty = Faulty::new(fault, times, usual, hits);
        self.disk_of(node)?.set_behaviour(faulty);
        Ok(())
    }

    /// Has it answer all of them as ever again.
    ///
    /// # Errors
    /// If it has none.
    pub fn spare_requests(&mut self, node: usize) -> Result<()> {
        let usual = usual_behaviour(&self.settings);
        self.disk_of(node)?.set_behaviour(usual);
        Ok(())
    }

    /// Has somebody look at what the disk of a node is asked for, from now on.
    ///
    /// # Errors
    /// If it has none.
    pub fn look_at_requests(&mut self, node: usize, onlooker: Arc<dyn Onlooker>) -> Result<()> {
        self.disk_of(node)?.set_onlooker(onlooker);
        Ok(())
    }

    /// Has requests go on that whoever looks has let go.
    pub fn let_requests_go(&mut self) {
        self.hosts.simulation.let_requests_go();
    }

    /// What the disk of a node holds.
    ///
    /// # Errors
    /// If it has none.
    pub fn image_of(&mut self, node: usize) -> Result<&Image> {
        Ok(self.disk_of(node)?.image())
    }

    pub(super) fn disk_of(&mut self, node: usize) -> Result<&mut Disk> {
        let Some(config) = self.file.nodes.get(node) else {
            return Err(Error::NoDisk(self.hosts.name(node).to_owned()));
        };
        if !config.has_data {
            return Err(Error::NoDisk(config.name.clone()));
        }
        Ok(self.hosts.simulation.disk(node, 0))
    }

    /// Lets time pass, if some machine is ahead of the others, until none is.
    ///
    /// # Errors
    /// If the simulation cannot go on.
    pub fn meet(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let ahead_ns = self.hosts.simulation.latest_ns() - self.now_ns();
        if ahead_ns == 0 {
            return Ok(());
        }
        self.idle(ahead_ns, cancelled)
    }

    /// The index of the machine of a member.
    pub fn machine_of(&self, member: Member) -> usize {
        match member {
            Member::Node(node) => node,
            Member::Client(client) => self.client() + client,
        }
    }

    /// The limit that links have, and what has passed.
    pub fn limited(&self) -> Option<Limit> {
        let limited = self.hosts.simulation.network().limited();
        limited.map(|limited| limited.limit.clone())
    }

    /// What one machine has sent to another one since the simulation began, lost or not.
    pub fn carried(&self, (from, to): (usize, usize)) -> Carried {
        self.hosts.simulation.network().carried(from, to)
    }

    /// What of nodes has passed to one other since the simulation began, by the ports that last.
    pub fn passed_by_ports(&self) -> Vec<((usize, usize), Ports, Carried)> {
        let nodes = self.file.nodes.len();
        let all = self.hosts.simulation.network().passed_by_ports();
        all.filter(|((from, to), ..)| *from < nodes && *to < nodes)
            .collect()
    }

    /// Starts a command in the machine of a client, with these variables in its environment. What it
    /// says on standard error is in the log of that client.
    ///
    /// # Errors
    /// If there is no place for its log.
    pub fn run_program(
        &mut self,
        client: usize,
        words: &[String],
        variables: &[(&str, String)],
    ) -> Result<SimulatedProgram> {
        let machine = self.machine_of(Member::Client(client));
        let mut task = self.client_task(words, true);
        let variables = variables.iter().cloned();
        task.environment
            .extend(variables.map(|(name, value)| (name.to_owned(), value)));
        let id = self.hosts.start(machine, task, &name(client), false)?;
        Ok(SimulatedProgram { machine, id })
    }

    /// The lines that it has printed and that were not taken yet, each with the time at which it was
    /// whole, in nanoseconds since the simulation began.
    pub fn program_lines(&mut self, program: SimulatedProgram) -> Vec<(Vec<u8>, u64)> {
        let process = self.hosts.process(program.machine, program.id);
        let lines = process.map(|process| std::iter::from_fn(|| process.timed_line()).collect());
        lines.unwrap_or_default()
    }

    /// How it ended, if it has.
    pub fn program_end(&mut self, program: SimulatedProgram) -> Option<Ending> {
        if self.hosts.end(program.machine).is_some() {
            return Some(Ending::Unknown);
        }
        match self.hosts.process(program.machine, program.id) {
            None => Some(Ending::Unknown),
            Some(process) => process.status.map(ExitStatus::from_raw).map(Ending::from),
        }
    }

    /// Gives it a line to read.
    pub fn tell_program(&mut self, program: SimulatedProgram, line: &str) {
        let (id, bytes) = (program.id, format!("{line}\n").into_bytes());
        let order = Order::Input { id, bytes };
        self.hosts.order(program.machine, &order);
    }

    /// Asks it to end (SIGTERM).
    pub fn ask_program_to_end(&mut self, program: SimulatedProgram) {
        let order = Order::AskToEnd { id: program.id };
        self.hosts.order(program.machine, &order);
    }

    /// Kills it, if it runs.
    pub fn end_program(&mut self, program: SimulatedProgram) {
        self.end_process(program.machine, program.id);
    }

    /// Does something to all processes of nodes.
    fn everybody(
        &mut self,
        nodes: &[usize],
        what: Everybody,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        for node in nodes {
            if self.nodes[*node].fate == Fate::Frozen {
                return Err(self.stands_still(*node));
            }
            self.wait_for_command(*node, cancelled)?;
        }
        for node in nodes {
            self.hosts.ask(*node, &Order::Everybody(what));
        }
        // For all of them, also if one cannot: nobody else is to get what they answer.
        let done = nodes.iter().map(|node| self.wait_done(*node, cancelled));
        let done: Vec<_> = done.collect();
        done.into_iter().collect()
    }

    pub(super) fn stands_still(&self, node: usize) -> Error {
        Error::Command {
            whose: self.hosts.name(node).to_owned(),
            what: "stands still already".into(),
        }
    }

    /// Waits until the machine of a node that was switched on again is a system, and runs its command.
    pub(super) fn wait_for_command(
        &mut self,
        node: usize,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        while self.stages[node] != Stage::Up {
            self.is_node_ready(node, cancelled)?;
            let now_ns = self.now_ns();
            self.pass(now_ns + super::start::ASK_EVERY_NS, cancelled)?;
        }
        Ok(())
    }
}
