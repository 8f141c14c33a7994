//! Nodes whose commands are traced in their machines: by a program that is told lines, and says some.

use std::rc::Rc;

use super::SimulatedCluster;
use crate::file::NodeConfig;
use crate::simulated::words::{Order, Task};

/// Traces what is started in a machine: a program that starts it, ends when all of its processes have,
/// is told lines on its standard input, and says lines on its standard output. What the command prints
/// goes to its standard error.
pub trait MachineTracer {
    /// The words of that program, before those of the command of the node with an index, which is
    /// started now. None if this node is not traced.
    fn words(&self, index: usize, node: &NodeConfig) -> Option<Vec<String>>;
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
        if !state.is_traced {
            return;
        }
        if let Some(id) = state.command
            && let Some(process) = self.hosts.process(node, id)
        {
            state.said.extend(std::iter::from_fn(|| process.line()));
        }
    }

    /// The command of a node that is traced has ended, with this status, as wait(2) has it. Its tracer
    /// goes on as long as there are processes that it has left.
    pub fn traced_has_ended(&mut self, node: usize, status: i32) {
        if let Some(id) = self.nodes[node].command {
            self.hosts.has_ended(node, id, status);
        }
    }

    /// The command of a node as it is started, and whether that is by its tracer, which makes itself the
    /// node's user.
    pub(super) fn traced(&self, node: usize, mut task: Task) -> (Task, bool) {
        let tracer = self.tracer.as_ref();
        let words = tracer.and_then(|tracer| tracer.words(node, &self.file.nodes[node]));
        let Some(mut words) = words else {
            return (task, false);
        };
        words.append(&mut task.words);
        (task.words, task.user) = (words, None);
        (task.has_input, task.is_tracer) = (true, true);
        (task, true)
    }
}
