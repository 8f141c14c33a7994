//! The tracer of one node: it waits for the next stop of any of the node's threads, and keeps what
//! is known of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::PoisonError;

use libc::pid_t;
use pace_rules::nodes::{Data, FileOp, InitialFile};

use super::calls::{Call, FOREIGN, FOREIGN_ROW, Numbers, ROWS, Row, When};
use super::files::FileCall;
use super::gate::{Changes, Gate};
use super::log::{NodeTrace, Recorded, What, now_ns};
use super::lookup::{Descriptor, Paths, descriptor, handle_of};
use super::mappings::{Mapped, Mapping};
use super::marks::Marks;
use super::sockets::{SocketCall, Sockets};
use super::start::Shared;
use super::system::{self, Entry, Stop};
use super::tree::Tree;
use super::{Error, NodeOptions, Result, snapshot, start};

/// A thread of the node.
#[derive(Debug)]
struct Thread {
    process: pid_t,
    /// Its descriptors are copied by this.
    handle: OwnedFd,
    doing: Doing,
}

/// What a thread does, as far as we care.
#[derive(Debug)]
enum Doing {
    /// Nothing that was asked about.
    Runs,
    /// It is at the entry of a call, and has to wait until others have made theirs.
    Waits(Entry),
    /// It makes a call whose return we want to see.
    Calls(Box<(Origin, Entry, Entered)>),
}

/// A process of the node.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub mappings: Vec<Mapping>,
    /// Where in which module an instruction is.
    stacks: HashMap<u64, u64>,
    /// When it was last seen to live.
    seen_ns: u64,
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub start_ns: u64,
    pub process: pid_t,
    pub thread: pid_t,
    pub row: &'static Row,
    pub stack: u64,
}

/// What was found at the entry of a call that is needed at its return.
#[derive(Debug)]
pub(super) enum Entered {
    File(FileCall),
    Socket(SocketCall),
    /// A line, or a part of it.
    Mark,
    /// Something that counts as not recorded if it succeeds.
    Unfollowed(String),
    /// Descriptors may be closed.
    MayClose,
}

/// What a thread at the entry of a call shall do.
#[derive(Debug)]
pub(super) enum Next {
    /// Nobody wants to see the return.
    GoOn,
    /// Its return is looked at.
    ToExit(Entered),
    /// It waits for its turn.
    Wait,
}

/// Everything that is known while a node is recorded.
pub(super) struct Recording {
    options: NodeOptions,
    pub paths: Paths,
    living: Shared,
    threads: HashMap<pid_t, Thread>,
    pub processes: HashMap<pid_t, Process>,
    /// Those who have stopped before their parent said that it made them.
    early: HashSet<pid_t>,
    initial: Vec<InitialFile>,
    pub tree: Option<Tree>,
    pub mapped: Mapped,
    pub sockets: Sockets,
    pub marks: Marks,
    pub gate: Gate,
    events: Vec<Recorded>,
    pub data: Vec<u8>,
    not_recorded: BTreeMap<String, u64>,
    first: pid_t,
    status: ExitStatus,
}

impl Recording {
    /// Takes the snapshot.
    pub(super) fn new(options: NodeOptions, living: Shared) -> Result<Self> {
        let mut data = Vec::new();
        let (initial, tree) = match &options.directory {
            Some(directory) => {
                let failed = |(path, error)| Error::Directory { path, error };
                let (initial, tree) = snapshot::begin(directory, &mut data).map_err(failed)?;
                (initial, Some(tree))
            }
            None => (Vec::new(), None),
        };
        let proc = start::proc().map_err(|error| Error::Directory {
            path: "/proc".into(),
            error,
        })?;
        Ok(Self {
            marks: Marks::new(options.marks),
            options,
            paths: Paths::new(proc),
            living,
            threads: HashMap::new(),
            processes: HashMap::new(),
            early: HashSet::new(),
            initial,
            tree,
            mapped: Mapped::default(),
            sockets: Sockets::default(),
            gate: Gate::default(),
            events: Vec::new(),
            data,
            not_recorded: BTreeMap::new(),
            first: 0,
            status: ExitStatus::default(),
        })
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> Error + use<> {
        let node = self.options.name.clone();
        move |error| Error::Trace { doing, node, error }
    }

    /// Follows the processes until the last one has ended. Says whether the program was run at all,
    /// and calls `begun` as soon as it is.
    pub(super) fn follow(&mut self, first: pid_t, begun: impl FnOnce()) -> Result<bool> {
        self.first = first;
        self.adopt(first, first, None)
            .map_err(self.failed("look at the first process"))?;
        let mut begun = Some(begun);
        loop {
            if begun.is_some() && system::has_ended(first) {
                // Whoever started it waits for it, and knows why.
                return Ok(false);
            }
            let next = system::wait().map_err(self.failed("wait for the processes"))?;
            let Some((thread, stop)) = next else {
                return Ok(begun.is_none());
            };
            if stop == Stop::Exec {
                self.refuse_set_uid(thread)?;
                if let Some(begun) = begun.take() {
                    self.marks
                        .begin(self.descriptor(thread, libc::STDOUT_FILENO));
                    begun();
                }
            }
            self.stopped(thread, stop);
        }
    }

    /// A program with privileges of its own may not get them from us: it is told by who it runs as.
    fn refuse_set_uid(&self, thread: pid_t) -> Result<()> {
        let program = PathBuf::from(format!("/proc/{thread}/exe"));
        let Ok(metadata) = program.metadata() else {
            return Ok(());
        };
        let (as_user, as_group) = (
            metadata.mode() & libc::S_ISUID != 0,
            metadata.mode() & libc::S_ISGID != 0,
        );
        if !as_user && !as_group {
            return Ok(());
        }
        let is_first = thread == self.first && self.events.is_empty();
        // The owner of its directory in /proc is whom it runs as, unless nobody may look.
        let has = std::fs::metadata(format!("/proc/{thread}"))
            .map(|process| (process.uid(), process.gid()));
        let kept = has.is_ok_and(|(user, group)| {
            (!as_user || user == metadata.uid()) && (!as_group || group == metadata.gid())
        });
        if kept && !is_first {
            Ok(())
        } else {
            Err(Error::SetUid(program.read_link().unwrap_or(program)))
        }
    }

    /// Ends what is still there, unrecorded.
    pub(super) fn give_up(&self) {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.killed = true;
        living
            .processes
            .iter()
            .for_each(|process| system::kill(*process));
        drop(living);
        while let Ok(Some((thread, stop))) = system::wait() {
            if !matches!(stop, Stop::Ended(_)) {
                system::kill(thread);
                system::go_on(thread, 0);
            }
        }
    }

    /// What was recorded, once all have ended.
    pub(super) fn finish(mut self) -> Result<NodeTrace> {
        if let (Some(tree), Some(directory)) = (&self.tree, &self.options.directory) {
            let differs = snapshot::difference(directory, tree, &self.data).map_err(|error| {
                Error::Directory {
                    path: directory.clone(),
                    error,
                }
            })?;
            if let Some((path, what)) = differs {
                self.count(format!(
                    "what made {} another than recorded ({what})",
                    path.display()
                ));
            }
        }
        Ok(NodeTrace {
            name: self.options.name,
            status: self.status,
            not_recorded: self.not_recorded,
            directory: self
                .options
                .directory
                .map(|directory| directory.display().to_string()),
            initial: self.initial,
            events: self.events,
            connections: self.sockets.all,
            datagrams: self.sockets.datagrams,
            data: self.data,
        })
    }

    /// Something was done that is not recorded.
    pub(super) fn count(&mut self, what: impl Into<String>) {
        *self.not_recorded.entry(what.into()).or_default() += 1;
    }

    /// Adds an event that ends now.
    pub(super) fn event(&mut self, origin: &Origin, what: What) {
        self.events.push(Recorded {
            start_ns: origin.start_ns,
            end_ns: now_ns(),
            process: origin.process as u32,
            thread: origin.thread as u32,
            call: origin.row.name,
            stack: origin.stack,
            what,
        });
    }

    /// Adds an operation, which changes the tree as well.
    pub(super) fn operation(&mut self, origin: &Origin, op: FileOp) {
        if let Some(tree) = &mut self.tree {
            tree.apply(&op);
        }
        self.event(origin, What::File(op));
    }

    /// Bytes to be recorded, of a thread's memory.
    pub(super) fn memory(&mut self, thread: pid_t, address: u64, len: u64) -> io::Result<Data> {
        let at = self.data.len();
        self.data.resize(at + len as usize, 0);
        let read = system::read_memory(thread, address, &mut self.data[at..]);
        if read.is_err() {
            self.data.truncate(at);
        }
        read.map(|()| Data { at: at as u64, len })
    }

    /// A copy of a thread's descriptor.
    pub(super) fn descriptor(&self, thread: pid_t, number: i32) -> Option<Descriptor> {
        descriptor(self.handle(thread)?, number)
    }

    fn handle(&self, thread: pid_t) -> Option<BorrowedFd<'_>> {
        Some(self.threads.get(&thread)?.handle.as_fd())
    }

    /// Whether a thread may make a call that changes something; if not it is told later.
    pub(super) fn may(&mut self, what: Changes, thread: pid_t) -> bool {
        self.gate.enter(what, thread)
    }

    fn stopped(&mut self, thread: pid_t, stop: Stop) {
        match stop {
            Stop::Entry => self.entry(thread),
            Stop::Exit => self.exit(thread),
            Stop::Signal(signal) => system::go_on(thread, signal),
            Stop::Born => {
                self.born(thread);
                system::go_on(thread, 0);
            }
            Stop::Exec => {
                self.exec(thread);
                system::go_on(thread, 0);
            }
            Stop::Group(signal) => self.group_stop(thread, signal),
            Stop::Ended(status) => self.ended(thread, status),
        }
    }

    fn group_stop(&mut self, thread: pid_t, signal: i32) {
        if !self.threads.contains_key(&thread) {
            self.early.insert(thread);
            self.adopt_orphans(None);
        } else if matches!(
            signal,
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
        ) {
            system::stay_stopped(thread);
        } else {
            system::go_on(thread, 0);
        }
    }

    fn entry(&mut self, thread: pid_t) {
        match system::entry(thread) {
            Ok(entry) => self.enter(thread, entry),
            Err(error) => {
                if error.raw_os_error() != Some(libc::ESRCH) {
                    self.count("a call that the kernel does not tell of");
                }
                system::go_on(thread, 0);
            }
        }
    }

    fn enter(&mut self, thread: pid_t, entry: Entry) {
        let row = if entry.row == FOREIGN {
            &FOREIGN_ROW
        } else {
            &ROWS[entry.row as usize]
        };
        let Some(process) = self.threads.get(&thread).map(|thread| thread.process) else {
            self.count(row.name);
            return system::go_on(thread, 0);
        };
        let start_ns = now_ns();
        let stack = self.stack(process, entry.instruction, start_ns);
        let origin = Origin {
            start_ns,
            process,
            thread,
            row,
            stack,
        };
        let next = self.asked(&origin, &entry);
        let doing = match next {
            Next::GoOn => {
                system::go_on(thread, 0);
                self.left(thread);
                Doing::Runs
            }
            Next::ToExit(entered) => {
                system::go_on_to_exit(thread);
                Doing::Calls(Box::new((origin, entry, entered)))
            }
            Next::Wait => Doing::Waits(entry),
        };
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.doing = doing;
        }
    }

    /// What to do at the entry of a call.
    fn asked(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let unfollowed = |is: bool| {
            if is {
                Next::ToExit(Entered::Unfollowed(origin.row.name.into()))
            } else {
                Next::GoOn
            }
        };
        match origin.row.call {
            Call::Read { .. } | Call::ReceiveMany => self.enter_receive(origin, entry),
            Call::Write(_) | Call::SendMany => self.enter_write(origin, entry),
            Call::Close => self.enter_close(origin, entry),
            Call::Shutdown => self.enter_shutdown(origin, entry),
            Call::MayClose if self.sockets.any_open() => Next::ToExit(Entered::MayClose),
            Call::MayClose => Next::GoOn,
            Call::Foreign => unfollowed(self.tree.is_some()),
            Call::Unshare => unfollowed(origin.thread != origin.process),
            call => self.enter_file_call(origin, entry, call),
        }
    }

    fn exit(&mut self, thread: pid_t) {
        match system::result(thread) {
            Ok(result) => {
                let doing = self
                    .threads
                    .get_mut(&thread)
                    .map(|thread| mem::replace(&mut thread.doing, Doing::Runs));
                if let Some(Doing::Calls(called)) = doing {
                    let (origin, entry, entered) = *called;
                    self.leave(&origin, &entry, entered, result);
                }
            }
            // It was killed where it stood: when its end is told, what it did is looked up.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return,
            Err(_) => {
                self.count("a call of whose end the kernel does not tell");
                self.gone(thread);
            }
        }
        system::go_on(thread, 0);
        self.left(thread);
    }

    fn leave(&mut self, origin: &Origin, entry: &Entry, entered: Entered, result: i64) {
        match entered {
            Entered::File(call) if result >= 0 => {
                self.leave_file_call(origin, entry, call, result as u64);
            }
            Entered::Socket(call) => self.leave_socket_call(origin, entry, call, result),
            Entered::Mark if result > 0 => self.leave_mark(origin, entry, result as u64),
            Entered::Unfollowed(what) if result >= 0 => self.count(what),
            Entered::MayClose if result >= 0 => self.end_closed_connections(origin, None),
            _ => {}
        }
    }

    /// Those who waited for a thread may try again.
    fn left(&mut self, thread: pid_t) {
        for waiting in self.gate.leave(thread) {
            if let Some(Thread {
                doing: Doing::Waits(entry),
                ..
            }) = self.threads.get(&waiting)
            {
                let entry = *entry;
                self.enter(waiting, entry);
            }
        }
    }

    fn born(&mut self, parent: pid_t) {
        let Ok(child) = system::event_message(parent).map(|child| child as pid_t) else {
            return;
        };
        let Some(process) = self.threads.get(&parent).map(|thread| thread.process) else {
            return;
        };
        if self.threads.contains_key(&child) {
            return;
        }
        let is_thread = rustix::fs::access(
            format!("/proc/{process}/task/{child}"),
            rustix::fs::Access::EXISTS,
        )
        .is_ok();
        // One that has ended already tells so.
        let _ = self.adopt(
            child,
            if is_thread { process } else { child },
            Some(process),
        );
        if self.early.remove(&child) {
            system::go_on(child, 0);
        }
    }

    /// Those who wait for a parent that was killed before it could say that it made them.
    fn adopt_orphans(&mut self, parent: Option<pid_t>) {
        let orphans: Vec<pid_t> = self
            .early
            .iter()
            .copied()
            .filter(|child| self.is_orphan(*child))
            .collect();
        for child in orphans {
            // One that has ended already tells so.
            let _ = self.adopt(child, child, parent);
            self.early.remove(&child);
            system::go_on(child, 0);
        }
    }

    /// Whether a process is the child of none that is known. A thread ends with its process.
    fn is_orphan(&self, child: pid_t) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        let number = |field| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.and_then(|number| number.trim().parse::<pid_t>().ok())
        };
        let parent = number("PPid:");
        number("Tgid:") == Some(child)
            && parent.is_some_and(|parent| !self.processes.contains_key(&parent))
    }

    fn adopt(&mut self, thread: pid_t, process: pid_t, parent: Option<pid_t>) -> io::Result<()> {
        let handle = handle_of(thread, process)?;
        self.threads.insert(
            thread,
            Thread {
                process,
                handle,
                doing: Doing::Runs,
            },
        );
        if thread == process {
            // A child has what its parent had mapped.
            let mappings = parent.and_then(|parent| self.processes.get(&parent));
            let mappings = mappings
                .map(|parent| parent.mappings.clone())
                .unwrap_or_default();
            self.processes.insert(
                process,
                Process {
                    mappings,
                    stacks: HashMap::new(),
                    seen_ns: now_ns(),
                },
            );
            let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
            living.processes.insert(process);
            if living.killed {
                system::kill(process);
            }
        }
        Ok(())
    }

    /// A process has one thread now, with the number of the process and another program.
    fn exec(&mut self, process: pid_t) {
        let former = system::event_message(process).map_or(process, |former| former as pid_t);
        let others: Vec<pid_t> = self
            .threads
            .iter()
            .filter(|(number, thread)| thread.process == process && **number != process)
            .map(|(number, _)| *number)
            .collect();
        let origin = self.origin_of(process, "execve");
        for other in others {
            if other != former {
                self.gone(other);
            }
            self.threads.remove(&other);
        }
        if let Ok(handle) = handle_of(process, process) {
            self.threads.insert(
                process,
                Thread {
                    process,
                    handle,
                    doing: Doing::Runs,
                },
            );
        }
        self.end_mappings(&origin, process);
        if let Some(process) = self.processes.get_mut(&process) {
            process.stacks.clear();
        }
        self.end_closed_connections(&origin, None);
    }

    /// What happens to a process without a call that is looked at.
    fn origin_of(&self, process: pid_t, name: &'static str) -> Origin {
        let row = match name {
            "execve" => &EXEC,
            _ => &END,
        };
        // It may have ended, and the others have noticed, long before we are told.
        let start_ns = self
            .processes
            .get(&process)
            .map_or_else(now_ns, |process| process.seen_ns);
        Origin {
            start_ns,
            process,
            thread: process,
            row,
            stack: 0,
        }
    }

    fn ended(&mut self, thread: pid_t, status: i32) {
        self.early.remove(&thread);
        self.gone(thread);
        self.threads.remove(&thread);
        if thread == self.first {
            self.status = ExitStatus::from_raw(status);
        }
        if self.processes.contains_key(&thread) {
            let origin = self.origin_of(thread, "exit");
            self.adopt_orphans(Some(thread));
            self.end_mappings(&origin, thread);
            self.processes.remove(&thread);
            self.living
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .processes
                .remove(&thread);
            self.end_closed_connections(&origin, None);
        }
    }

    /// A thread has ended, perhaps within a call, whose result nobody knows.
    fn gone(&mut self, thread: pid_t) {
        let doing = self
            .threads
            .get_mut(&thread)
            .map(|thread| mem::replace(&mut thread.doing, Doing::Runs));
        match doing {
            Some(Doing::Calls(called)) => match *called {
                (origin, _, Entered::File(call)) => self.abandon_file_call(&origin, call),
                (origin, entry, Entered::Socket(call)) => {
                    self.abandon_socket_call(&origin, &entry, &call);
                }
                _ => {}
            },
            Some(Doing::Waits(_)) => self.gate.forget(thread),
            _ => {}
        }
        self.left(thread);
    }

    /// Where in the program an instruction is, by module and offset.
    fn stack(&mut self, process: pid_t, instruction: u64, now_ns: u64) -> u64 {
        let Some(known) = self.processes.get_mut(&process) else {
            return 0;
        };
        known.seen_ns = now_ns;
        *known
            .stacks
            .entry(instruction)
            .or_insert_with(|| place_in_module(process, instruction).unwrap_or(0))
    }
}

const fn happening(name: &'static str) -> Row {
    Row {
        numbers: Numbers::NONE,
        name,
        call: Call::Foreign,
        when: When::Always,
    }
}

static EXEC: Row = happening("execve");
static END: Row = happening("exit");

/// Reads the process's map of its memory.
fn place_in_module(process: pid_t, instruction: u64) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (from, to) = (
            u64::from_str_radix(from, 16).ok()?,
            u64::from_str_radix(to, 16).ok()?,
        );
        if !(from..to).contains(&instruction) {
            return None;
        }
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        let mut hasher = DefaultHasher::new();
        (
            words.nth(2).unwrap_or_default(),
            instruction - from + offset,
        )
            .hash(&mut hasher);
        Some(hasher.finish())
    })
}
