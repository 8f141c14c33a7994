//! The tracer of one node: it waits for the next stop of any of the node's threads, keeps what is
//! known of them, and asks the observer.

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use libc::pid_t;

use crate::calls::{Call, FOREIGN, FOREIGN_ROW, Numbers, Row, UNKNOWN, UNKNOWN_ROW, When};
use crate::lookup::handle_of;
use crate::observer::{After, Change, Decision, Observer, Origin};
use crate::stacks::Stacks;
use crate::start::Shared;
use crate::system::{self, Entry, Stop, Waited};
use crate::{Error, Result, now_ns};

/// A thread of the node.
struct Thread<K> {
    process: pid_t,
    /// Its descriptors are copied by this.
    handle: Arc<OwnedFd>,
    doing: Doing<K>,
}

/// What a thread does, as far as we care.
enum Doing<K> {
    /// Nothing that was asked about.
    Runs,
    /// It is at the entry of a call, and stays there.
    Held(Entry),
    /// It makes a call whose return the observer wants to see.
    Calls(Box<(Origin, Entry, K)>, Option<Change>),
    /// It has made its call, and stays where it is.
    Made,
}

/// Everything that is known while a node is traced.
pub(crate) struct Follower<O: Observer> {
    node: String,
    rows: Vec<Row>,
    observer: O,
    living: Arc<Shared>,
    threads: HashMap<pid_t, Thread<O::Kept>>,
    /// The processes, and when each was last seen to live.
    processes: HashMap<pid_t, u64>,
    stacks: Stacks,
    /// Those who have stopped before their parent said that it made them.
    early: HashSet<pid_t>,
    /// Those who were made and cannot be followed: there is no descriptor for them.
    not_followed: HashSet<pid_t>,
    first: pid_t,
    status: ExitStatus,
}

impl<O: Observer> Follower<O> {
    pub(crate) fn new(node: String, rows: Vec<Row>, observer: O, living: Arc<Shared>) -> Self {
        Self {
            node,
            rows,
            observer,
            living,
            threads: HashMap::new(),
            processes: HashMap::new(),
            stacks: Stacks::default(),
            early: HashSet::new(),
            not_followed: HashSet::new(),
            first: 0,
            status: ExitStatus::default(),
        }
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> Error + use<O> {
        let node = self.node.clone();
        move |source| Error::Trace {
            doing,
            node,
            source,
        }
    }

    /// Follows the processes until the last one has ended. Says whether the program was run at all,
    /// and calls `begun` as soon as it is.
    pub(crate) fn follow(&mut self, first: pid_t, begun: impl FnOnce()) -> Result<bool> {
        self.first = first;
        self.adopt(first, first, None)
            .map_err(self.failed("look at the first process"))?;
        let mut begun = Some(begun);
        loop {
            if begun.is_some() && system::has_ended(first) {
                // Whoever started it waits for it, and knows why.
                return Ok(false);
            }
            let (thread, stop) = match system::wait() {
                Ok(Waited::Stop(thread, stop)) => (thread, stop),
                Ok(Waited::Interrupted) => {
                    self.ask_again();
                    continue;
                }
                Ok(Waited::Nobody) => return Ok(begun.is_none()),
                Err(error) => return Err(self.failed("wait for the processes")(error)),
            };
            if stop == Stop::Exec {
                refuse_set_uid(thread, begun.is_some())?;
                if let Some(begun) = begun.take() {
                    let origin = self.happening(thread, &EXEC);
                    self.observer.begun(&origin);
                    begun();
                }
            }
            self.stopped(thread, stop);
        }
    }

    /// Ends what is still there, unobserved.
    pub(crate) fn give_up(&self) {
        self.living.kill_all();
        loop {
            match system::wait() {
                Ok(Waited::Stop(_, Stop::Ended(_)) | Waited::Interrupted) => {}
                Ok(Waited::Stop(thread, _)) => {
                    system::kill(thread);
                    system::go_on(thread, 0);
                }
                Ok(Waited::Nobody) | Err(_) => return,
            }
        }
    }

    /// What was seen, once all have ended.
    pub(crate) fn finish(self) -> Result<O::Output, O::Error> {
        let names = self.observer.wants_names().then(|| self.stacks.names());
        let names = names.unwrap_or_default();
        self.observer.finish(self.status, &names)
    }

    fn stack_of(&mut self, thread: pid_t, process: pid_t) -> u64 {
        let number = self.stacks.of(thread, process);
        if number != 0 && self.observer.wants_addresses(number) {
            let frames = self.stacks.frames(number);
            self.observer.found_stack(number, frames);
        }
        number
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
        if self.not_followed.contains(&thread) {
            system::go_on(thread, 0);
        } else if !self.threads.contains_key(&thread) {
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
                    self.observer
                        .unseen("a call that the kernel does not tell of");
                }
                system::go_on(thread, 0);
            }
        }
    }

    fn enter(&mut self, thread: pid_t, entry: Entry) {
        let row = self.row(&entry);
        let Some(mut origin) = self.origin(thread, row) else {
            self.observer.unseen(row.name);
            return system::go_on(thread, 0);
        };
        if self.observer.wants_stack_before(&origin) {
            origin.stack = self.stack_of(thread, origin.process);
        }
        let decision = self.observer.entry(&origin, &entry);
        let doing = self.carry_out(thread, origin, entry, decision);
        let is_inside = matches!(doing, Doing::Calls(..));
        self.set_doing(thread, doing);
        if !is_inside {
            self.left(thread);
        }
    }

    /// Has a thread do what was decided about the call that it is about to make.
    fn carry_out(
        &mut self,
        thread: pid_t,
        mut origin: Origin,
        entry: Entry,
        decision: Decision<O::Kept>,
    ) -> Doing<O::Kept> {
        match decision {
            Decision::GoOn => {
                system::go_on(thread, 0);
                Doing::Runs
            }
            Decision::ToExit(kept) => {
                if origin.stack == 0 && self.observer.wants_stack(&kept) {
                    origin.stack = self.stack_of(thread, origin.process);
                }
                system::go_on_to_exit(thread);
                Doing::Calls(Box::new((origin, entry, kept)), None)
            }
            Decision::Change(change, kept) => {
                self.give_argument(thread, change);
                system::go_on_to_exit(thread);
                Doing::Calls(Box::new((origin, entry, kept)), Some(change))
            }
            Decision::Hold => Doing::Held(entry),
            Decision::Fail(error) => self.skip(thread, -i64::from(error)),
            Decision::Skip(result) => self.skip(thread, result),
        }
    }

    fn set_doing(&mut self, thread: pid_t, doing: Doing<O::Kept>) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.doing = doing;
        }
    }

    fn row(&self, entry: &Entry) -> Row {
        match entry.row {
            FOREIGN => FOREIGN_ROW,
            UNKNOWN => UNKNOWN_ROW,
            number => self.rows[number as usize],
        }
    }

    /// Has a thread go on after the call that it is about to make.
    fn skip(&mut self, thread: pid_t, result: i64) -> Doing<O::Kept> {
        if let Err(error) = system::skip_call(thread, result)
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            self.observer.unseen("a call that could not be prevented");
        }
        system::go_on(thread, 0);
        Doing::Runs
    }

    /// Has a thread make its call with another argument, or have its own again.
    fn give_argument(&mut self, thread: pid_t, change: Change) {
        if let Err(error) = system::set_argument(thread, change.argument, change.value)
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            self.observer
                .unseen("a call that could not be made another");
        }
    }

    fn exit(&mut self, thread: pid_t) {
        let mut after = After::GoOn;
        match system::result(thread) {
            Ok(result) => after = self.returns(thread, result),
            // It was killed where it stood: when its end is told, what it did is looked up.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return,
            Err(_) => {
                self.observer
                    .unseen("a call of whose end the kernel does not tell");
                self.gone(thread);
            }
        }
        if after != After::Hold {
            system::go_on(thread, 0);
        }
        self.left(thread);
    }

    /// A thread is about to return from a call.
    fn returns(&mut self, thread: pid_t, result: i64) -> After {
        let Some(Doing::Calls(called, change)) = self.take_doing(thread) else {
            return After::GoOn;
        };
        let (origin, entry, kept) = *called;
        if let Some(Change { argument, .. }) = change {
            let value = entry.arguments[argument];
            self.give_argument(thread, Change { argument, value });
        }
        let after = self.observer.exit(&origin, &entry, kept, result);
        match after {
            After::GoOn => {}
            After::Return(result) => {
                if system::set_result(thread, result).is_err() {
                    self.observer.unseen("a result that could not be changed");
                }
            }
            After::Hold => {
                if let Some(thread) = self.threads.get_mut(&thread) {
                    thread.doing = Doing::Made;
                }
            }
        }
        after
    }

    fn take_doing(&mut self, thread: pid_t) -> Option<Doing<O::Kept>> {
        let thread = self.threads.get_mut(&thread)?;
        Some(mem::replace(&mut thread.doing, Doing::Runs))
    }

    /// Those who waited for a thread may try again.
    fn left(&mut self, thread: pid_t) {
        for waiting in self.observer.released(thread) {
            self.try_again(waiting);
        }
    }

    /// Somebody says that the observer may decide otherwise now.
    fn ask_again(&mut self) {
        let Some(question) = self.living.open_question() else {
            return;
        };
        let threads = self.threads.iter();
        let held =
            threads.filter(|(_, thread)| matches!(thread.doing, Doing::Held(_) | Doing::Made));
        let held: Vec<pid_t> = held.map(|(number, _)| *number).collect();
        for thread in held {
            self.try_again(thread);
        }
        self.living.answer(question);
    }

    fn try_again(&mut self, thread: pid_t) {
        match self.threads.get(&thread).map(|thread| &thread.doing) {
            Some(Doing::Held(entry)) => {
                let entry = *entry;
                self.enter(thread, entry);
            }
            Some(Doing::Made) if self.observer.leave(thread) != After::Hold => {
                self.take_doing(thread);
                system::go_on(thread, 0);
            }
            _ => {}
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
        let own = if is_thread { process } else { child };
        self.adopt_or_leave(child, own, Some(process));
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
            self.adopt_or_leave(child, child, parent);
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

    /// Follows a thread that was made. Where that cannot be, it runs unobserved, which is said.
    fn adopt_or_leave(&mut self, thread: pid_t, process: pid_t, parent: Option<pid_t>) {
        match self.adopt(thread, process, parent) {
            // One that has ended already tells so.
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                self.observer.unseen("a thread that could not be followed");
                self.not_followed.insert(thread);
            }
            _ => {}
        }
    }

    fn adopt(&mut self, thread: pid_t, process: pid_t, parent: Option<pid_t>) -> io::Result<()> {
        let handle = Arc::new(handle_of(thread, process)?);
        let known = Thread {
            process,
            handle,
            doing: Doing::Runs,
        };
        self.threads.insert(thread, known);
        if thread == process {
            self.processes.insert(process, now_ns());
            self.observer.born(process, parent);
            self.living.add(process);
        }
        Ok(())
    }

    /// A process has one thread now, with the number of the process and another program.
    fn exec(&mut self, process: pid_t) {
        let former = system::event_message(process).map_or(process, |former| former as pid_t);
        // The first thread is gone as well, and another one has its number.
        if former != process {
            self.gone(process);
        }
        let others: Vec<pid_t> = self
            .threads
            .iter()
            .filter(|(number, thread)| thread.process == process && **number != process)
            .map(|(number, _)| *number)
            .collect();
        let mut origin = self.happening(process, &EXEC);
        for other in others {
            if other != former {
                self.gone(other);
            }
            self.threads.remove(&other);
        }
        if let Ok(handle) = handle_of(process, process) {
            let handle = Arc::new(handle);
            origin.handle = Some(Arc::clone(&handle));
            let known = Thread {
                process,
                handle,
                doing: Doing::Runs,
            };
            self.threads.insert(process, known);
        }
        self.stacks.forget(process);
        self.observer.exec(&origin);
    }

    fn ended(&mut self, thread: pid_t, status: i32) {
        self.early.remove(&thread);
        self.not_followed.remove(&thread);
        self.gone(thread);
        let origin = self.happening(thread, &END);
        self.threads.remove(&thread);
        if thread == self.first {
            self.status = ExitStatus::from_raw(status);
            self.living.first_ended(self.status);
        }
        if self.processes.contains_key(&thread) {
            self.adopt_orphans(Some(thread));
            self.processes.remove(&thread);
            self.stacks.forget(thread);
            self.living.remove(thread);
            self.observer.ended(&origin);
        }
    }

    /// A thread has ended, perhaps within a call, whose result nobody knows.
    fn gone(&mut self, thread: pid_t) {
        match self.take_doing(thread) {
            Some(Doing::Calls(called, _)) => {
                let (origin, entry, kept) = *called;
                self.observer.abandoned(&origin, &entry, kept);
            }
            Some(Doing::Held(_) | Doing::Made) => self.observer.gave_up(thread),
            _ => {}
        }
        self.left(thread);
    }

    /// Where a call comes from that a thread is about to make.
    fn origin(&mut self, thread: pid_t, row: Row) -> Option<Origin> {
        let known = self.threads.get(&thread)?;
        let start_ns = now_ns();
        if let Some(seen_ns) = self.processes.get_mut(&known.process) {
            *seen_ns = start_ns;
        }
        Some(Origin {
            start_ns,
            process: known.process,
            thread,
            row,
            stack: 0,
            handle: Some(Arc::clone(&known.handle)),
        })
    }

    /// What happens to a process without a call that is looked at.
    fn happening(&self, process: pid_t, row: &Row) -> Origin {
        // It may have ended, and the others have noticed, long before we are told.
        let seen_ns = self.processes.get(&process).copied();
        let thread = self.threads.get(&process);
        Origin {
            start_ns: seen_ns.unwrap_or_else(now_ns),
            process,
            thread: process,
            row: *row,
            stack: 0,
            handle: thread.map(|thread| Arc::clone(&thread.handle)),
        }
    }
}

/// A program with privileges of its own may not get them from us: it is told by who it runs as. The
/// first one is refused in any case.
fn refuse_set_uid(thread: pid_t, is_first: bool) -> Result<()> {
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
    // The owner of its directory in /proc is whom it runs as, unless nobody may look.
    let has =
        std::fs::metadata(format!("/proc/{thread}")).map(|process| (process.uid(), process.gid()));
    let kept = has.is_ok_and(|(user, group)| {
        (!as_user || user == metadata.uid()) && (!as_group || group == metadata.gid())
    });
    if kept && !is_first {
        Ok(())
    } else {
        Err(Error::SetUid(program.read_link().unwrap_or(program)))
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
