//! What is recorded of one node: it observes the node's processes ([`tracer::Observer`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitStatus;

use libc::pid_t;
use machine::Spool;
use trace::{Data, FileId, FileOp, InitialFile};
use trace_store::{Frame, WeakSync};
use tracer::calls::Call;
use tracer::lookup::{Paths, not_copied};
use tracer::{After, Decision, Entry, Observer, Origin, StackTable, read_memory};

use super::changes::Change;
use super::files::FileCall;
use super::gate::{Changes, Gate};
use super::log::{NodeTrace, Recorded, What};
use super::mappings::{Mapped, Mapping};
use super::marks::Marks;
use super::schedule::{Bystander, Written};
use super::sockets::{SocketCall, Sockets};
use super::syncs::Outside;
use super::tree::Tree;
use super::{Error, NodeOptions, Result, snapshot};

/// What was found at the entry of a call that is needed at its return.
#[derive(Debug)]
pub(super) enum Entered {
    File(FileCall),
    Socket(SocketCall),
    /// A line, or a part of it, and how many events there were before.
    Mark(usize),
    /// Something that counts as not recorded if it succeeds.
    Unfollowed(String),
    /// Descriptors may be closed.
    MayClose,
}

impl Entered {
    /// Whether the call will be an event, if it succeeds.
    fn is_recorded(&self) -> bool {
        matches!(self, Self::File(_) | Self::Socket(_) | Self::Mark(_))
    }

    fn is_sync(&self) -> bool {
        matches!(self, Self::File(FileCall::Sync(_) | FileCall::SyncAll))
    }

    fn changes_files(&self) -> bool {
        matches!(self, Self::File(_)) && !self.is_sync()
    }
}

/// What a thread at the entry of a call shall do.
pub(super) type Next = Decision<Entered>;

/// What is said of files that had extended attributes before anything was recorded.
const XATTRS_AT_BEGINNING: &str = "what set the extended attributes that were there before";

/// Everything that is known while a node is recorded.
pub(super) struct Recording {
    options: NodeOptions,
    pub paths: Paths,
    /// What of files the processes of the node have in their memory.
    pub mappings: HashMap<pid_t, Vec<Mapping>>,
    initial: Vec<InitialFile>,
    pub tree: Option<Tree>,
    pub mapped: Mapped,
    pub outside: Outside,
    pub sockets: Sockets,
    pub marks: Marks,
    pub gate: Gate,
    /// Those that have made calls.
    threads: HashSet<pid_t>,
    bystander: Option<Bystander>,
    events: Vec<Recorded>,
    pub data: Spool,
    not_recorded: BTreeMap<String, u64>,
    refused: BTreeMap<String, u64>,
    weak_syncs: Vec<WeakSync>,
}

impl snapshot::Begun {
    /// What of the files is not recorded, and how often.
    fn not_recorded(&self) -> Option<(String, u64)> {
        (self.with_xattrs > 0).then(|| (XATTRS_AT_BEGINNING.to_owned(), self.with_xattrs))
    }
}

impl Recording {
    /// Takes the snapshot.
    pub(super) fn new(options: NodeOptions) -> Result<Self> {
        let mut data = Spool::default();
        let directory = options.directory.as_deref();
        let begun = directory.map(|directory| snapshot::begin(directory, &mut data));
        let begun = begun.transpose().map_err(no_directory)?;
        let not_recorded = begun.as_ref().and_then(snapshot::Begun::not_recorded);
        let (initial, tree) = begun.map(|begun| (begun.initial, begun.tree)).unzip();
        let proc = tracer::proc().map_err(|error| no_directory(("/proc".into(), error)))?;
        Ok(Self {
            marks: Marks::new(options.marks),
            bystander: Bystander::new(options.schedule, options.bystander.as_ref()),
            options,
            paths: Paths::new(proc),
            mappings: HashMap::new(),
            initial: initial.unwrap_or_default(),
            tree,
            mapped: Mapped::default(),
            outside: Outside::new(),
            sockets: Sockets::default(),
            gate: Gate::default(),
            threads: HashSet::new(),
            events: Vec::new(),
            data,
            not_recorded: not_recorded.into_iter().collect(),
            refused: BTreeMap::new(),
            weak_syncs: Vec::new(),
        })
    }

    /// How many there are, lines not counted.
    pub(super) fn events(&self) -> usize {
        self.events.len()
    }

    /// Something was done that is not recorded.
    pub(super) fn count(&mut self, what: impl Into<String>) {
        *self.not_recorded.entry(what.into()).or_default() += 1;
    }

    /// Something was called that looks like a sync of a file and is none.
    pub(super) fn promises_nothing(&mut self, file: FileId, call: &str) {
        self.weak_syncs.push(WeakSync {
            file,
            call: call.to_owned(),
            events: self.events.len() + self.marks.len(),
        });
    }

    /// Adds an event that ends now.
    pub(super) fn event(&mut self, origin: &Origin, what: What) {
        self.events.push(Recorded::ending_now(origin, what));
    }

    /// An event was not what it seemed to be.
    pub(super) fn correct(&mut self, event: usize, what: What) {
        self.events[event].what = what;
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
        let mut bytes = vec![0; len as usize];
        read_memory(thread, address, &mut bytes)?;
        Ok(snapshot::add(&mut self.data, &bytes))
    }

    /// Whether a thread may make a call that changes something; if not it is told later.
    pub(super) fn may(&mut self, what: Changes, thread: pid_t) -> bool {
        self.gate.enter(what, thread)
    }

    /// Has the schedule of the disk go on if files were changed since there were so many events.
    /// `open` is the file that a call changed, if it was one.
    fn follow_schedule(&mut self, since: usize, open: Option<(FileId, OwnedFd)>) {
        let Some(mut bystander) = self.bystander.take() else {
            return;
        };
        let changes = self.events[since..].iter().filter_map(Recorded::change);
        if changes.clone().next().is_some() {
            let written = written_last(changes).and_then(|(file, range)| {
                let call = open.filter(|(of_call, _)| *of_call == file);
                let mapped = || self.mapped.get(&file)?.as_fd().try_clone_to_owned().ok();
                let open = call.map(|(_, open)| open).or_else(mapped)?;
                Some(Written { open, range })
            });
            bystander.stop(written.as_ref());
        }
        self.bystander = Some(bystander);
    }

    /// The file of a call, where the schedule of the disk wants to know it.
    fn open_file(&self, entered: &Entered) -> Option<(FileId, OwnedFd)> {
        let is_wanted = self.bystander.as_ref().is_some_and(Bystander::writes_back);
        match entered {
            Entered::File(FileCall::Change(
                Change::Write { file, copy } | Change::Fill { file, copy, .. },
            )) if is_wanted => Some((*file, copy.try_clone().ok()?)),
            _ => None,
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
            // Nothing is known of it: it may send or print something.
            Call::Foreign => unfollowed(true),
            Call::Ring if self.options.disk_only => unfollowed(self.tree.is_some()),
            Call::Ring => {
                *self.refused.entry(origin.row.name.into()).or_default() += 1;
                Next::Fail(libc::ENOSYS)
            }
            Call::Unshare => unfollowed(origin.thread != origin.process),
            call => self.enter_file_call(origin, entry, call),
        }
    }
}

fn no_directory((path, error): (PathBuf, io::Error)) -> Error {
    Error::Directory { path, error }
}

/// The file that was written to last, and from where to where these changes wrote to it.
fn written_last<'a>(changes: impl Iterator<Item = &'a FileOp>) -> Option<(FileId, Range<u64>)> {
    changes.fold(None, |last, change| {
        let FileOp::Write {
            file, offset, data, ..
        } = change
        else {
            return last;
        };
        let range = *offset..offset + data.len;
        Some(match last {
            Some((of_last, before)) if of_last == *file => {
                let start = before.start.min(range.start);
                (*file, start..before.end.max(range.end))
            }
            _ => (*file, range),
        })
    })
}

impl Observer for Recording {
    type Kept = Entered;
    type Output = NodeTrace;
    type Error = Error;

    fn begun(&mut self, first: &Origin) {
        self.marks.begin(first.descriptor(libc::STDOUT_FILENO));
    }

    fn entry(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let before = self.events();
        let mut next = self.asked(origin, entry);
        if let Some(error) = not_copied() {
            self.count(format!(
                "a call with a descriptor that cannot be copied ({error})"
            ));
        }
        self.threads.insert(origin.thread);
        if let Next::ToExit(entered) = &mut next
            && entered.is_recorded()
        {
            self.look_at_mapped(origin);
            // They are stores, which may be on the disk before the call is made.
            self.follow_schedule(before, None);
            if let Entered::Mark(before) = entered {
                *before = self.events();
            }
        }
        next
    }

    fn wants_stack(&self, entered: &Entered) -> bool {
        matches!(entered, Entered::File(_))
    }

    fn exit(&mut self, origin: &Origin, entry: &Entry, entered: Entered, result: i64) -> After {
        let (before, open) = (self.events(), self.open_file(&entered));
        // What others stored meanwhile was stored before this call returned. If it changes a file
        // itself, that is not to be taken for a store.
        let looks = self.threads.len() > 1 && entered.is_recorded() && !entered.changes_files();
        // Nobody promised that a sync has what was stored after it had begun.
        let looks_after = looks && entered.is_sync();
        if looks && !looks_after {
            self.look_at_mapped(origin);
        }
        match entered {
            Entered::File(call) if result >= 0 => {
                self.leave_file_call(origin, entry, call, result as u64);
            }
            Entered::Socket(call) => self.leave_socket_call(origin, entry, call, result),
            Entered::Mark(before) if result > 0 => {
                self.leave_mark(origin, entry, before, result as u64);
            }
            Entered::Unfollowed(what) if result >= 0 => self.count(what),
            Entered::MayClose if result >= 0 => self.end_closed_connections(origin, None),
            _ => {}
        }
        if looks_after {
            self.look_at_mapped(origin);
        }
        self.follow_schedule(before, open);
        After::GoOn
    }

    fn abandoned(&mut self, origin: &Origin, entry: &Entry, entered: Entered) {
        match entered {
            Entered::File(call) => self.abandon_file_call(origin, call),
            Entered::Socket(call) => self.abandon_socket_call(origin, entry, &call),
            _ => {}
        }
    }

    fn gave_up(&mut self, thread: pid_t) {
        self.gate.forget(thread);
    }

    fn released(&mut self, thread: pid_t) -> Vec<pid_t> {
        self.gate.leave(thread)
    }

    fn born(&mut self, process: pid_t, parent: Option<pid_t>) {
        // A child has what its parent had mapped.
        let mappings = parent.and_then(|parent| self.mappings.get(&parent));
        let mappings = mappings.cloned().unwrap_or_default();
        self.mappings.insert(process, mappings);
    }

    fn exec(&mut self, origin: &Origin) {
        self.end_mappings(origin, origin.process);
        self.end_closed_connections(origin, None);
    }

    fn ended(&mut self, origin: &Origin) {
        self.end_mappings(origin, origin.process);
        self.mappings.remove(&origin.process);
        self.end_closed_connections(origin, None);
    }

    fn unseen(&mut self, what: &'static str) {
        self.count(what);
    }

    /// Compares the directory with what was recorded.
    fn finish(mut self, status: ExitStatus, stacks: &StackTable) -> Result<NodeTrace> {
        self.bystander.take().map_or(Ok(()), Bystander::finish)?;
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
        let directory = self.options.directory;
        Ok(NodeTrace {
            name: self.options.name,
            status,
            not_recorded: self.not_recorded,
            refused: self.refused,
            weak_syncs: self.weak_syncs,
            directory: directory.map(|directory| directory.display().to_string()),
            initial: self.initial,
            events: self.marks.among(self.events),
            connections: self.sockets.all,
            datagrams: self.sockets.datagrams,
            data: self.data,
            stacks: stacks.iter().map(named).collect(),
        })
    }
}

/// A stack as traces have it.
fn named((number, stack): (&u64, &Vec<tracer::Frame>)) -> (u64, Vec<Frame>) {
    let frames = stack.iter().cloned().map(|frame| Frame {
        module: frame.module.to_string(),
        address: frame.address,
        function: frame.function,
        source: frame.source,
    });
    (*number, frames.collect())
}
