//! The machines of a simulated cluster as seen from outside: what is known of each, and what runs
//! in it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use simulation::{End, Happening, Simulation};

use super::words::{Order, ProcessId, Refusal, Report, Stream, Task, packed};
use crate::error::{Context, Error, Result};
use crate::log;

/// A command in a machine, as far as it was told of.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// What it printed on standard output, unless that goes to its log.
    pub(super) printed: Vec<u8>,
    /// What was logged of it, as long as somebody wants to look for something in that.
    pub(super) logged: Option<String>,
    /// How it ended, as wait(2) has it.
    pub(super) status: Option<i32>,
    log: Option<Log>,
    logs_all: bool,
}

/// Where what a command prints goes.
#[derive(Debug)]
struct Log {
    name: String,
    file: File,
}

impl Log {
    fn open(logs: &Path, name: &str) -> Result<Self> {
        let path = log_path(logs, name);
        let file = log::open(&path).doing(|| format!("open {}", path.display()))?;
        Ok(Self {
            name: name.to_owned(),
            file,
        })
    }
}

fn log_path(logs: &Path, name: &str) -> PathBuf {
    logs.join(format!("{name}.log"))
}

impl Process {
    /// The same command in a machine that was forked. Logs are in `logs` there.
    fn forked(&self, logs: &Path) -> Result<Self> {
        let log = self.log.as_ref();
        Ok(Self {
            printed: self.printed.clone(),
            logged: self.logged.clone(),
            status: self.status,
            log: log.map(|log| Log::open(logs, &log.name)).transpose()?,
            logs_all: self.logs_all,
        })
    }

    /// The next line that it printed, without its end; the last one may have none.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.printed.iter().position(|byte| *byte == b'\n');
        let end = match end {
            Some(end) => end + 1,
            None if self.status.is_some() && !self.printed.is_empty() => self.printed.len(),
            None => return None,
        };
        let mut line: Vec<_> = self.printed.drain(..end).collect();
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        Some(line)
    }

    fn take(&mut self, is_error: bool, bytes: &[u8]) -> std::io::Result<()> {
        if !is_error && !self.logs_all {
            self.printed.extend_from_slice(bytes);
            return Ok(());
        }
        if let Some(logged) = &mut self.logged {
            *logged += &String::from_utf8_lossy(bytes);
        }
        match &mut self.log {
            Some(log) => log.file.write_all(bytes),
            None => Ok(()),
        }
    }
}

/// What is known of a machine that is on.
#[derive(Debug, Default)]
struct Host {
    name: String,
    stream: Stream,
    is_here: bool,
    done: Option<std::result::Result<(), Refusal>>,
    tried: Option<bool>,
    content: Option<std::result::Result<Vec<u8>, String>>,
    end: Option<End>,
    processes: BTreeMap<ProcessId, Process>,
}

impl Host {
    fn forked(&self, logs: &Path) -> Result<Self> {
        let processes = self.processes.iter();
        let processes = processes.map(|(id, process)| Ok((*id, process.forked(logs)?)));
        Ok(Self {
            name: self.name.clone(),
            stream: self.stream.clone(),
            is_here: self.is_here,
            done: self.done.clone(),
            tried: self.tried,
            content: self.content.clone(),
            end: self.end.clone(),
            processes: processes.collect::<Result<_>>()?,
        })
    }
}

/// Copies the logs of one directory to another.
fn copy_logs(from: &Path, to: &Path) -> Result<()> {
    let copying = || format!("copy the logs in {} to {}", from.display(), to.display());
    for entry in fs::read_dir(from).doing(copying)? {
        let path = entry.doing(copying)?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let name = path.file_name().expect("it has an extension");
            fs::copy(&path, to.join(name)).doing(copying)?;
        }
    }
    Ok(())
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something.
    Something,
    /// The time has come up to which was waited.
    Time,
    /// It is the point that was asked for.
    Point,
}

/// All machines.
pub(super) struct Hosts {
    pub(super) simulation: Simulation,
    known: Vec<Host>,
    logs: PathBuf,
    next_id: ProcessId,
    /// When everything stands still.
    pub(super) stop_ns: Option<u64>,
}

impl Hosts {
    pub(super) fn new(simulation: Simulation, logs: &Path) -> Self {
        Self {
            simulation,
            known: Vec::new(),
            logs: logs.to_owned(),
            next_id: 0,
            stop_ns: None,
        }
    }

    /// Other machines that go on from here as these do. `logs` is the directory for what they print, and
    /// gets what was printed so far.
    pub(super) fn fork(&mut self, logs: &Path) -> Result<Self> {
        copy_logs(&self.logs, logs)?;
        let known = self.known.iter().map(|host| host.forked(logs));
        Ok(Self {
            known: known.collect::<Result<_>>()?,
            simulation: self.simulation.fork(logs.to_owned())?,
            logs: logs.to_owned(),
            next_id: self.next_id,
            stop_ns: self.stop_ns,
        })
    }

    /// The next machine of the simulation is called this.
    pub(super) fn add(&mut self, name: &str) {
        self.known.push(Host {
            name: name.to_owned(),
            ..Host::default()
        });
    }

    pub(super) fn name(&self, machine: usize) -> &str {
        &self.known[machine].name
    }

    pub(super) fn log(&self, name: &str) -> PathBuf {
        log_path(&self.logs, name)
    }

    /// Forgets what was known of a machine: it is off.
    pub(super) fn forget(&mut self, machine: usize) {
        let host = &mut self.known[machine];
        let name = std::mem::take(&mut host.name);
        *host = Host {
            name,
            ..Host::default()
        };
    }

    pub(super) fn order(&mut self, machine: usize, order: &Order) {
        self.simulation.speak(machine, packed(order));
    }

    /// Starts a command. All that it prints goes to the log with a name if `logs_all`, else only
    /// its standard error does.
    pub(super) fn start(
        &mut self,
        machine: usize,
        task: Task,
        log_name: &str,
        logs_all: bool,
    ) -> Result<ProcessId> {
        let log = Log::open(&self.logs, log_name)?;
        let id = self.next_id;
        self.next_id += 1;
        let process = Process {
            log: Some(log),
            logged: logs_all.then(String::new),
            logs_all,
            ..Process::default()
        };
        self.known[machine].processes.insert(id, process);
        self.order(machine, &Order::Start { id, task });
        Ok(id)
    }

    /// A process of a machine that is on.
    pub(super) fn process(&mut self, machine: usize, id: ProcessId) -> Option<&mut Process> {
        self.known[machine].processes.get_mut(&id)
    }

    /// Nobody asks about a process any more.
    pub(super) fn forget_process(&mut self, machine: usize, id: ProcessId) {
        self.known[machine].processes.remove(&id);
    }

    /// Whether the init of a machine is there.
    pub(super) fn is_here(&self, machine: usize) -> bool {
        self.known[machine].is_here
    }

    /// How the kernel of a machine ended, if it did so by itself.
    pub(super) fn end(&self, machine: usize) -> Option<&End> {
        self.known[machine].end.as_ref()
    }

    /// What came of the last order, once.
    pub(super) fn done(&mut self, machine: usize) -> Option<std::result::Result<(), Refusal>> {
        self.known[machine].done.take()
    }

    /// Has that be asked for once more.
    pub(super) fn keep_refusal(&mut self, machine: usize, refusal: Refusal) {
        self.known[machine].done = Some(Err(refusal));
    }

    /// Whether somebody answered at the port that was last tried, once.
    pub(super) fn tried(&mut self, machine: usize) -> Option<bool> {
        self.known[machine].tried.take()
    }

    /// What is in the file that was last asked for, once.
    pub(super) fn content(
        &mut self,
        machine: usize,
    ) -> Option<std::result::Result<Vec<u8>, String>> {
        self.known[machine].content.take()
    }

    /// Lets time pass until something happens, or everything is to stand still.
    pub(super) fn hear(&mut self, until_ns: u64, cancelled: &dyn Fn() -> bool) -> Result<Heard> {
        let stop_ns = self.stop_ns.filter(|stop_ns| *stop_ns <= until_ns);
        match self
            .simulation
            .run(stop_ns.unwrap_or(until_ns), cancelled)?
        {
            Happening::Time if stop_ns.is_some() => return Err(Error::AtTime),
            Happening::Said { machine, bytes } => self.listen(machine, &bytes)?,
            Happening::Ended { machine, end } => self.known[machine].end = Some(end),
            Happening::Point => return Ok(Heard::Point),
            Happening::Time => return Ok(Heard::Time),
        }
        Ok(Heard::Something)
    }

    fn listen(&mut self, machine: usize, bytes: &[u8]) -> Result<()> {
        let host = &mut self.known[machine];
        host.stream.add(bytes);
        loop {
            let report = host.stream.next::<Report>();
            let report = report.map_err(|error| Error::Command {
                whose: format!("the init of {}", host.name),
                what: format!("cannot be understood: {error}"),
            })?;
            match report {
                None => return Ok(()),
                Some(Report::Here) => host.is_here = true,
                Some(Report::Done(done)) => host.done = Some(done),
                Some(Report::Tried(answers)) => host.tried = Some(answers),
                Some(Report::Content(content)) => host.content = Some(content),
                Some(Report::Printed {
                    id,
                    is_error,
                    bytes,
                }) => {
                    if let Some(process) = host.processes.get_mut(&id) {
                        let taken = process.take(is_error, &bytes);
                        taken.doing(|| format!("write the log of {}", host.name))?;
                    }
                }
                Some(Report::Ended { id, status }) => {
                    if let Some(process) = host.processes.get_mut(&id) {
                        process.status = Some(status);
                    }
                }
            }
        }
    }
}
