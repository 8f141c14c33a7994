//! Nodes whose commands are traced in their machines: by a program that is told lines, and says some.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::Rc;

use super::SimulatedCluster;
use crate::error::{Error, Result};
use crate::file::NodeConfig;
use crate::process::Ending;
use crate::simulated::words::{Order, Task};

/// Traces what is started in a machine: a program that starts it, ends when all of its processes have,
/// is told lines on its standard input, and says lines on its standard output. What the command prints
/// goes to its standard error.
pub trait MachineTracer {
    /// The words of that program, before those of the command of the node with an index, which is
    /// started at a time, in nanoseconds since the simulation began. None if this node is not traced.
    fn words(&self, index: usize, node: &NodeConfig, now_ns: u64) -> Option<Vec<String>>;

    /// The status of the node's command, as wait(2) has it, if this line, which the tracer has said, says
    /// that it has ended, or could not be run.
    fn ended(&self, line: &[u8]) -> Option<i32>;
}

impl SimulatedCluster {
    /// Has nodes traced that are started from now on.
    pub fn trace(&mut self, tracer: Rc<dyn MachineTracer>) {
        self.tracer = Some(tracer);
    }

    /// Tells the tracer of a node a line. There may be none any more.
    pub fn tell_tracer(&mut self, node: usize, line: &str) {
        if let Some(id) = self.nodes[node].command {
            let bytes = format!("{line}\n").into_bytes();
            self.hosts.order(node, &Order::Input { id, bytes });
        }
    }

    /// The lines that tracers of a node have said and that were not taken yet.
    pub fn tracer_lines(&mut self, node: usize) -> Vec<Vec<u8>> {
        self.keep_lines(node);
        std::mem::take(&mut self.nodes[node].said)
    }

    /// Keeps what the tracer of a node has said, which is about to be forgotten.
    pub(super) fn keep_lines(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        let Some(tracer) = self.tracer.as_ref().filter(|_| state.is_traced) else {
            return;
        };
        let command = state.command;
        let Some(process) = command.and_then(|id| self.hosts.process(node, id)) else {
            return;
        };
        while let Some((line, time_ns)) = process.timed_line() {
            if let Some(status) = tracer.ended(&line) {
                process.end(status, time_ns);
            }
            state.said.push(line);
        }
    }

    /// How the command of a node has ended, as wait(2) has it, and when that was heard. Of one that is
    /// traced its tracer says so, which goes on as long as there are processes that it has left.
    pub(super) fn command_end(&mut self, node: usize) -> Option<(i32, u64)> {
        self.keep_lines(node);
        let process = self.hosts.process(node, self.nodes[node].command?)?;
        Some((process.status?, process.ended_ns))
    }

    /// Whether a node has a tracer, which may be told something.
    pub fn has_tracer(&mut self, node: usize) -> bool {
        let state = &self.nodes[node];
        let command = state.command.filter(|_| state.is_traced);
        let process = command.and_then(|id| self.hosts.process(node, id));
        process.is_some_and(|process| process.tracer_ended.is_none())
            && self.hosts.end(node).is_none()
    }

    /// Fails if the tracer of a node has ended before what it traces, which says nothing of the node.
    ///
    /// # Errors
    /// [`Error::Unable`] then.
    pub fn refuse_lost_tracer(&mut self, node: usize) -> Result<()> {
        self.keep_lines(node);
        let command = self.nodes[node].command;
        let process = command.and_then(|id| self.hosts.process(node, id));
        let process = process.filter(|process| process.status.is_none());
        let Some(status) = process.and_then(|process| process.tracer_ended) else {
            return Ok(());
        };
        let how = Ending::from(ExitStatus::from_raw(status));
        Err(Error::Unable {
            node: self.hosts.name(node).to_owned(),
            what: format!("the tracer of its command {how}"),
        })
    }

    /// The command of a node as it is started, and whether that is by its tracer, which makes itself the
    /// node's user.
    pub(super) fn traced(&self, node: usize, mut task: Task) -> (Task, bool) {
        let tracer = self.tracer.as_ref();
        let now_ns = self.now_ns();
        let words = tracer.and_then(|tracer| tracer.words(node, &self.file.nodes[node], now_ns));
        let Some(mut words) = words else {
            return (task, false);
        };
        words.append(&mut task.words);
        (task.words, task.user) = (words, None);
        (task.has_input, task.is_tracer) = (true, true);
        (task, true)
    }
}
