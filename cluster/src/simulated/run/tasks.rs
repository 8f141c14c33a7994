//! Commands in machines: with what environment they run, and what they see.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::SimulatedCluster;
use crate::error::Result;
use crate::simulated::words::{Order, ProcessId, Task};

/// The variables of our own environment that commands have in a machine.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];

impl SimulatedCluster {
    /// Runs a command, and waits for its end. What it prints is in the log with a name.
    pub(super) fn run_to_end(
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

    pub(super) fn end_process(&mut self, machine: usize, id: ProcessId) {
        let signal = Signal::SIGKILL as i32;
        self.hosts.order(machine, &Order::Signal { id, signal });
        self.hosts.forget_process(machine, id);
    }

    pub(super) fn node_task(&self, machine: usize, words: &[String]) -> Task {
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
            is_tracer: false,
        }
    }

    pub(super) fn client_task(&self, words: &[String], has_input: bool) -> Task {
        let mut environment = own_environment();
        environment.extend(self.file.client_environment());
        environment.extend(self.variables.iter().cloned());
        Task {
            words: words.to_vec(),
            directory: self.file.folder.clone(),
            user: None,
            environment,
            has_input,
            is_tracer: false,
        }
    }

    /// What may lie in directories for temporary files, and must be seen: the folder of the cluster
    /// file, where programs are looked for, and what commands name.
    pub(super) fn visible(&self) -> Vec<PathBuf> {
        let all_clients = self.file.all_clients();
        let nodes = self.file.nodes.iter();
        let commands = nodes.flat_map(|node| [&node.command].into_iter().chain(&node.setup));
        let clients = all_clients.iter().map(|client| &client.config.command);
        let probe = self.file.probe.iter().map(|probe| &probe.command);
        let commands = commands
            .chain(&self.file.prepare)
            .chain(clients)
            .chain(probe);
        let named = commands.flatten().filter_map(|word| directory_of(word));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = std::env::split_paths(&path).filter(|directory| directory.is_dir());
        let mut visible: Vec<_> = named.chain(programs).collect();
        visible.push(self.file.folder.clone());
        visible.sort();
        visible.dedup();
        visible
    }
}

/// The directory that a word of a command names, or in which what it names is.
fn directory_of(word: &str) -> Option<PathBuf> {
    let path = Path::new(word.rsplit('=').next().unwrap_or_default());
    let is_there = path.is_absolute() && path.exists();
    let directory = if path.is_dir() {
        Some(path)
    } else {
        path.parent()
    };
    // With `..` in it, it would be looked for below what covers it.
    directory.filter(|_| is_there)?.canonicalize().ok()
}

pub(super) fn own_environment() -> Vec<(String, String)> {
    let known = VARIABLES.iter();
    let known = known.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    known.collect()
}
