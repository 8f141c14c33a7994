//! What is recorded of a cluster while it runs: by a recorder in each machine.

use std::path::PathBuf;

use pace_rules::disk::Relaxation;
use trace_store::Disk as RecordedDisk;

use super::SimulatedCluster;
use crate::error::{Error, Result};
use crate::file::NodeConfig;
use crate::node::SETUP_WITHIN;
use crate::simulated::init::DATA_DIRECTORY;
use crate::simulated::words::{Order, Task};

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

impl SimulatedCluster {
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
                // The machines are off: nobody unmounts anything.
                after: None,
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
    pub(super) fn recorded(&self, node: Option<usize>, mut task: Task) -> Task {
        if let Some(recorder) = &self.recorder {
            let mut words = recorder.words(node.map(|node| &self.file.nodes[node]));
            words.append(&mut task.words);
            (task.words, task.user, task.has_input) = (words, None, true);
        }
        task
    }
}
