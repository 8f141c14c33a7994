//! The machines of a simulated cluster as seen from outside: what is known of each, and what runs
//! in it.

use std::collections::{BTreeMap, VecDeque};
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
    printed: Printed,
    /// What was logged of it, as long as somebody wants to look for something in that.
    pub(super) logged: Option<Vec<u8>>,
    /// How it ended, as wait(2) has it.
    pub(super) status: Option<i32>,
    /// When that was heard.
    pub(super) ended_ns: u64,
    /// How its tracer ended, if that has: it is what was started then.
    pub(super) tracer_ended: Option<i32>,
    log: Option<Log>,
    logs_all: bool,
    is_traced: bool,
}

/// What a command printed that nobody has taken yet, and when it came.
#[derive(Debug, Clone, Default)]
struct Printed {
    bytes: Vec<u8>,
    /// How many bytes were taken before these.
    taken: u64,
    /// Up to how many bytes there were at which times, from the first of these on.
    came: VecDeque<(u64, u64)>,
}

impl Printed {
    fn add(&mut self, bytes: &[u8], time_ns: u64) {
        self.bytes.extend_from_slice(bytes);
        let to = self.taken + self.bytes.len() as u64;
        self.came.push_back((to, time_ns));
    }

    /// Takes so many bytes. Returns them and when the last of them came.
    fn take(&mut self, count: usize) -> (Vec<u8>, u64) {
        self.taken += count as u64;
        while self.came.front().is_some_and(|(to, _)| *to < self.taken) {
            self.came.pop_front();
        }
        let time_ns = self.came.front().map_or(0, |(_, time_ns)| *time_ns);
        (self.bytes.drain(..count).collect(), time_ns)
    }
}

/// The log of a node, with all that was in it at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogGrowth {
    /// The index of the node.
    pub node: usize,
    /// The time, in nanoseconds since the simulation began.
    pub time_ns: u64,
    /// Its bytes.
    pub to: u64,
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
            ended_ns: self.ended_ns,
            tracer_ended: self.tracer_ended,
            is_traced: self.is_traced,
            log: log.map(|log| Log::open(logs, &log.name)).transpose()?,
            logs_all: self.logs_all,
        })
    }

    /// The next line that it printed, without its end; the last one may have none.
    pub(super) fn line(&mut self) -> Option<Vec<u8>> {
        self.timed_line().map(|(line, _)| line)
    }

    /// The same with the time at which it was whole.
    pub(super) fn timed_line(&mut self) -> Option<(Vec<u8>, u64)> {
        let bytes = &self.printed.bytes;
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            let count = bytes.len();
            let has_ended = if self.is_traced {
                self.tracer_ended.is_some()
            } else {
                self.status.is_some()
            };
            let is_last = has_ended && count > 0;
            return is_last.then(|| (self.printed.take(count).0, self.ended_ns));
        };
        let (mut line, time_ns) = self.printed.take(end + 1);
        line.pop();
        Some((line, time_ns))
    }

    /// Whether a text is in what was logged of it, as long as somebody wants to know.
    pub(super) fn has_logged(&self, text: &str) -> bool {
        let text = text.as_bytes();
        // It may come in parts, which end in the midst of a character.
        let is_in = |logged: &Vec<u8>| {
            text.is_empty() || logged.windows(text.len()).any(|part| part == text)
        };
        self.logged.as_ref().is_some_and(is_in)
    }

    /// It has ended so.
    pub(super) fn end(&mut self, status: i32, now_ns: u64) {
        (self.status, self.ended_ns) = (Some(status), now_ns);
    }

    /// All that it printed and nobody has taken.
    pub(super) fn take_printed(&mut self) -> Vec<u8> {
        self.printed.take(self.printed.bytes.len()).0
    }

    /// Takes what it printed at a time. The name of the log into which that went, and how long it is
    /// then, if it did.
    fn take(
        &mut self,
        is_error: bool,
        bytes: &[u8],
        time_ns: u64,
    ) -> std::io::Result<Option<(&str, u64)>> {
        if !is_error && !self.logs_all {
            self.printed.add(bytes, time_ns);
            return Ok(None);
        }
        if let Some(logged) = &mut self.logged {
            logged.extend_from_slice(bytes);
        }
        let Some(log) = &mut self.log else {
            return Ok(None);
        };
        log.file.write_all(bytes)?;
        Ok(Some((log.name.as_str(), log.file.metadata()?.len())))
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
    /// When that was heard.
    ended_ns: u64,
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
            ended_ns: self.ended_ns,
            processes: processes.collect::<Result<_>>()?,
        })
    }

    /// Takes in what its init says at a time. How long the log that is called as it is then, if it has
    /// grown.
    fn take(&mut self, report: Report, now_ns: u64) -> Result<Option<u64>> {
        match report {
            Report::Here => self.is_here = true,
            Report::Done(done) => self.done = Some(done),
            Report::Tried(answers) => self.tried = Some(answers),
            Report::Content(content) => self.content = Some(content),
            Report::Printed {
                id,
                is_error,
                bytes,
            } => {
                let Some(process) = self.processes.get_mut(&id) else {
                    return Ok(None);
                };
                let taken = process.take(is_error, &bytes, now_ns);
                let taken = taken.doing(|| format!("write the log of {}", self.name))?;
                let own = taken.filter(|(log, _)| *log == self.name);
                return Ok(own.map(|(_, to)| to));
            }
            Report::Ended { id, status } => {
                if let Some(process) = self.processes.get_mut(&id) {
                    if process.is_traced {
                        process.tracer_ended = Some(status);
                    } else {
                        process.end(status, now_ns);
                    }
                }
            }
        }
        Ok(None)
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
    /// When the logs that are called as their machines grew.
    growth: Vec<LogGrowth>,
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
            growth: Vec::new(),
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
            growth: self.growth.clone(),
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

    /// Gives an order of which it is told when it is [done](Self::done): nothing from before is taken for that.
    pub(super) fn ask(&mut self, machine: usize, order: &Order) {
        self.known[machine].done = None;
        self.order(machine, order);
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
        let process = Process {
            log: Some(Log::open(&self.logs, log_name)?),
            logged: logs_all.then(Vec::new),
            logs_all,
            ..Process::default()
        };
        Ok(self.start_as(machine, task, process))
    }

    /// Starts the command of a node. All that it prints is logged, and looked at; of its tracer, if it
    /// has one, only what that says on standard error, for that is what the command prints.
    pub(super) fn start_node(
        &mut self,
        machine: usize,
        task: Task,
        log_name: &str,
        is_traced: bool,
    ) -> Result<ProcessId> {
        let process = Process {
            log: Some(Log::open(&self.logs, log_name)?),
            logged: Some(Vec::new()),
            logs_all: !is_traced,
            is_traced,
            ..Process::default()
        };
        Ok(self.start_as(machine, task, process))
    }

    fn start_as(&mut self, machine: usize, task: Task, process: Process) -> ProcessId {
        let id = self.next_id;
        self.next_id += 1;
        self.known[machine].processes.insert(id, process);
        self.order(machine, &Order::Start { id, task });
        id
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

    /// When it did.
    pub(super) fn ended_ns(&self, machine: usize) -> u64 {
        self.known[machine].ended_ns
    }

    /// When the logs grew that are called as their machines.
    pub(super) fn growth(&self) -> &[LogGrowth] {
        &self.growth
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
            Happening::Ended { machine, end } => {
                let ended_ns = self.simulation.now_ns();
                let host = &mut self.known[machine];
                (host.end, host.ended_ns) = (Some(end), ended_ns);
            }
            Happening::Point => return Ok(Heard::Point),
            Happening::Time => return Ok(Heard::Time),
            Happening::Limit => {}
        }
        Ok(Heard::Something)
    }

    fn listen(&mut self, machine: usize, bytes: &[u8]) -> Result<()> {
        let now_ns = self.simulation.now_ns();
        let host = &mut self.known[machine];
        host.stream.add(bytes);
        loop {
            let report = host.stream.next::<Report>();
            let report = report.map_err(|error| Error::Command {
                whose: format!("the init of {}", host.name),
                what: format!("cannot be understood: {error}"),
            })?;
            let Some(report) = report else {
                return Ok(());
            };
            let grown = host.take(report, now_ns)?;
            self.growth.extend(grown.map(|to| LogGrowth {
                node: machine,
                time_ns: now_ns,
                to,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_at_which_its_end_came() {
        let mut process = Process::default();
        let mut printed = |bytes: &[u8], time_ns| {
            let taken = process.take(false, bytes, time_ns).expect("kept");
            assert_eq!(taken, None, "it goes to no log");
        };
        printed(b"one\ntw", 3);
        printed(b"o\n", 5);
        printed(b"three\nfo", 7);
        let mut process = process.forked(Path::new("")).expect("it has no log");
        let mut next = || {
            let (line, time_ns) = process.timed_line()?;
            Some((String::from_utf8(line).expect("text"), time_ns))
        };
        assert_eq!(next(), Some(("one".into(), 3)));
        assert_eq!(next(), Some(("two".into(), 5)));
        assert_eq!(next(), Some(("three".into(), 7)));
        assert_eq!(next(), None, "it may go on");
        process.take(false, b"ur", 8).expect("kept");
        (process.status, process.ended_ns) = (Some(0), 9);
        assert_eq!(process.timed_line(), Some((b"four".to_vec(), 9)));
        assert_eq!(process.timed_line(), None);
    }

    #[test]
    fn a_text_is_found_in_a_log_that_comes_in_parts() {
        let text = "listens: größer";
        let mut process = Process {
            logged: Some(Vec::new()),
            logs_all: true,
            ..Process::default()
        };
        assert!(process.has_logged(""));
        for byte in text.bytes() {
            assert!(!process.has_logged(text));
            process.take(false, &[byte], 3).expect("kept");
        }
        assert!(process.has_logged(text) && process.has_logged("größer"));
        process.logged = None;
        assert!(!process.has_logged(text), "nobody wants to know");
    }

    #[test]
    fn a_log_says_how_long_it_has_become() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut process = Process {
            log: Some(Log::open(folder.path(), "a").expect("opened")),
            ..Process::default()
        };
        assert_eq!(
            process.take(true, b"one\n", 3).expect("kept"),
            Some(("a", 4))
        );
        let other = folder.path().join("other");
        fs::create_dir(&other).expect("made");
        copy_logs(folder.path(), &other).expect("copied");
        let mut fork = process.forked(&other).expect("forked");
        assert_eq!(fork.take(true, b"two\n", 4).expect("kept"), Some(("a", 8)));
        assert_eq!(
            process.take(true, b"three\n", 4).expect("kept"),
            Some(("a", 10))
        );
    }
}
