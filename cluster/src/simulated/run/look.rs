//! Looking around in the machine of a node: commands of a person, whose output is not logged.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::{SimulatedCluster, Stage};
use crate::error::{Error, Result};
use crate::file::NodeConfig;
use crate::process::Ending;
use crate::simulated::hosts::Heard;
use crate::simulated::words::{Order, ProcessId, Task};

/// The log of what could not be started.
const LOOK: &str = "look";

/// A command that somebody looks around with, in a machine.
#[derive(Debug)]
pub struct Look {
    machine: usize,
    id: ProcessId,
}

/// What came of letting such a command go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looked {
    /// It has ended.
    Ended(Ending),
    /// What it printed last is what was waited for.
    Said,
    /// It had its time.
    Time,
}

impl SimulatedCluster {
    /// Has the run stand still at a time, whatever it does then: [`Error::AtTime`] is what comes of
    /// it. Looking around lets time pass again.
    pub fn stop_at_time(&mut self, time_ns: Option<u64>) {
        self.hosts.stop_ns = time_ns;
    }

    /// How each machine is, by its name, the client's last: whether its power is on.
    pub fn powers(&self) -> Vec<(String, bool)> {
        let machines = 0..=self.client();
        let power = |machine| {
            let name = self.hosts.name(machine).to_owned();
            (name, self.hosts.simulation.is_on(machine))
        };
        machines.map(power).collect()
    }

    /// Starts a command of a shell in a machine, as root there, in the directory of its data. What it
    /// prints is merged. With `prompt` it is a shell that somebody speaks with.
    ///
    /// # Errors
    /// If the machine is off, or not yet a system.
    pub fn look(&mut self, name: &str, script: &str, prompt: Option<&str>) -> Result<Look> {
        let machine = self.machine_to_look_at(name)?;
        let node = self.file.nodes.get(machine);
        let directory = node.filter(|node| node.has_data).map(NodeConfig::directory);
        let mut environment = self.settings.environment.clone();
        environment.extend(prompt.map(|prompt| ("PS1".to_owned(), prompt.to_owned())));
        let task = Task {
            words: ["sh".into(), "-c".into(), format!("exec 2>&1\n{script}")].into(),
            directory: directory.unwrap_or_else(|| "/".into()),
            user: None,
            environment,
            has_input: prompt.is_some(),
            is_tracer: false,
        };
        let id = self.hosts.start(machine, task, LOOK, false)?;
        Ok(Look { machine, id })
    }

    fn machine_to_look_at(&self, name: &str) -> Result<usize> {
        let machines = 0..=self.client();
        let mut named = machines.filter(|machine| self.hosts.name(*machine) == name);
        let refused = |what: String| Error::Command {
            whose: format!("the machine of {name}"),
            what,
        };
        let Some(machine) = named.next() else {
            let names: Vec<_> = self.powers().into_iter().map(|(name, _)| name).collect();
            return Err(refused(format!("is none of these: {}", names.join(", "))));
        };
        let time_s = self.now_ns() as f64 / 1e9;
        if !self.hosts.simulation.is_on(machine) {
            return Err(refused(format!("has no power at {time_s} s")));
        }
        if self.stages[machine] != Stage::Up {
            return Err(refused(format!("is booting at {time_s} s")));
        }
        Ok(machine)
    }

    /// Gives it something to read; nothing is the end of its input.
    pub fn tell_look(&mut self, look: &Look, bytes: Vec<u8>) {
        let order = Order::Input { id: look.id, bytes };
        self.hosts.order(look.machine, &order);
    }

    /// Lets all machines go on until it ends, until what it printed ends with `until`, or for a time.
    /// What it prints goes to `printed`.
    ///
    /// # Errors
    /// If the simulation cannot go on.
    pub fn go_on_looking(
        &mut self,
        look: &Look,
        until: Option<&str>,
        for_ns: u64,
        printed: &mut dyn FnMut(&[u8]),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Looked> {
        let end_ns = self.now_ns() + for_ns;
        let mut last = Vec::new();
        loop {
            let Some(process) = self.hosts.process(look.machine, look.id) else {
                return Ok(Looked::Ended(Ending::Unknown));
            };
            let bytes = process.take_printed();
            let status = process.status;
            printed(&bytes);
            last.extend(bytes);
            if let Some(status) = status {
                return Ok(Looked::Ended(Ending::from(ExitStatus::from_raw(status))));
            }
            if until.is_some_and(|until| last.ends_with(until.as_bytes())) {
                return Ok(Looked::Said);
            }
            if self.hosts.end(look.machine).is_some() {
                return Ok(Looked::Ended(Ending::Unknown));
            }
            if self.hosts.hear(end_ns, cancelled)? == Heard::Time {
                return Ok(Looked::Time);
            }
        }
    }
}
