//! Who is asked at each stop, and what may be answered.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::Arc;

use libc::pid_t;

use crate::calls::Row;
use crate::lookup::{self, Descriptor};
use crate::stacks::Frame;
use crate::system::Entry;

/// Stacks by their numbers, each from the call outwards.
pub type StackTable = BTreeMap<u64, Vec<Frame>>;

/// Which call of which thread it is, or what happened to a process without one.
#[derive(Debug, Clone)]
pub struct Origin {
    /// When it began, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// The process, as it is numbered where the tracer is.
    pub process: pid_t,
    /// The thread.
    pub thread: pid_t,
    /// The row of the table of calls.
    pub row: Row,
    /// Where in its program the thread is, if the observer wants to know
    /// ([`Observer::wants_stack`], [`Observer::wants_stack_before`]): the number of a stack. 0 if that is not known.
    pub stack: u64,
    pub(crate) handle: Option<Arc<OwnedFd>>,
}

impl Origin {
    /// A copy of one of the thread's descriptors, if it is open.
    pub fn descriptor(&self, number: i32) -> Option<Descriptor> {
        lookup::descriptor(self.handle.as_deref()?, number)
    }

    /// The same place and time, under the name of another row.
    #[must_use]
    pub fn as_row(&self, row: Row) -> Self {
        Self {
            row,
            ..self.clone()
        }
    }
}

/// What shall become of a call that a thread is about to make. `K` is what the observer keeps until
/// it returns.
#[derive(Debug)]
pub enum Decision<K> {
    /// It is made, and nobody wants to see it return.
    GoOn,
    /// It is made, and its return is told.
    ToExit(K),
    /// The thread stays where it is. The observer is asked again when it names the thread as
    /// [`Observer::released`], or somebody calls [`crate::Traced::ask_again`].
    Hold,
    /// It is not made, and returns this error (errno(3)).
    Fail(i32),
    /// It is not made, and returns this as its result.
    Skip(i64),
    /// It is made with another argument, and its return is told. The program does not see that the
    /// argument was another one.
    Change(Change, K),
}

impl<K> Decision<K> {
    /// The same decision, with what another observer keeps of a call that is made.
    fn with_kept<Other>(self, keep: impl FnOnce(K) -> Other) -> Decision<Other> {
        match self {
            Self::GoOn => Decision::GoOn,
            Self::ToExit(kept) => Decision::ToExit(keep(kept)),
            Self::Hold => Decision::Hold,
            Self::Fail(error) => Decision::Fail(error),
            Self::Skip(result) => Decision::Skip(result),
            Self::Change(change, kept) => Decision::Change(change, keep(kept)),
        }
    }
}

/// Another argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Which argument, from 0 on.
    pub argument: usize,
    /// What it is for this call.
    pub value: u64,
}

/// What shall become of a thread whose call has been made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It goes on.
    GoOn,
    /// It goes on, and is told another result: a negative one is an error.
    Return(i64),
    /// It stays where it is, with its call made. Who holds it is asked again ([`Observer::leave`])
    /// when somebody calls [`crate::Traced::ask_again`].
    Hold,
}

/// Is asked about every call of a node that the table names, and told what else happens to its
/// processes. All in the one thread that is their tracer: whoever is slow delays the node.
pub trait Observer {
    /// What is kept from the entry of a call to its return.
    type Kept;
    /// What has been seen, once all processes have ended.
    type Output: Send + 'static;
    /// Why there is no such thing.
    type Error: From<crate::Error> + Send + 'static;

    /// The first program begins: its standard streams can be looked up by this.
    fn begun(&mut self, _first: &Origin) {}

    /// A thread is about to make a call.
    fn entry(&mut self, origin: &Origin, entry: &Entry) -> Decision<Self::Kept>;

    /// Whether the stack of a call is to be known before it is decided about ([`Observer::entry`]).
    fn wants_stack_before(&self, _origin: &Origin) -> bool {
        false
    }

    /// Whether the stack of a call is to be known that is seen to its return. To find out takes half
    /// as long as a stop.
    fn wants_stack(&self, _kept: &Self::Kept) -> bool {
        false
    }

    /// Whether the addresses of this stack are to be known ([`Observer::found_stack`]) before the call is
    /// decided about that was made there.
    fn wants_addresses(&self, _number: u64) -> bool {
        false
    }

    /// A stack whose addresses were wanted: these, from the call outwards.
    fn found_stack(&mut self, _number: u64, _stack: Vec<Frame>) {}

    /// Whether the functions of stacks are to be known in the end. To find out takes memory, and much
    /// longer than all else.
    fn wants_names(&self) -> bool {
        true
    }

    /// A call has been made. Negative results are errors.
    fn exit(&mut self, origin: &Origin, entry: &Entry, kept: Self::Kept, result: i64) -> After;

    /// A thread that is held after its call may go on now, or not. It does not return another
    /// result any more.
    fn leave(&mut self, _thread: pid_t) -> After {
        After::GoOn
    }

    /// Whoever made a call was killed in it. What it did has to be looked up.
    fn abandoned(&mut self, origin: &Origin, entry: &Entry, kept: Self::Kept);

    /// A call that this observer let be made is not, now or at all: another one refused.
    fn withdrawn(&mut self, _origin: &Origin, _kept: Option<Self::Kept>) {}

    /// A thread that was held has ended.
    fn gave_up(&mut self, _thread: pid_t) {}

    /// A thread is in no call any more: it has left it, was held before it, or has ended. Those
    /// who may be asked again because of that.
    fn released(&mut self, _thread: pid_t) -> Vec<pid_t> {
        Vec::new()
    }

    /// There is a new process. It has what its parent has.
    fn born(&mut self, _process: pid_t, _parent: Option<pid_t>) {}

    /// A process runs another program.
    fn exec(&mut self, _origin: &Origin) {}

    /// A process has ended.
    fn ended(&mut self, _origin: &Origin) {}

    /// Something happened of which the kernel does not tell enough.
    fn unseen(&mut self, _what: &'static str) {}

    /// All have ended; the first one with this status. `stacks` are those that were wanted, if their
    /// names are ([`Observer::wants_names`]).
    ///
    /// # Errors
    /// What the observer says.
    fn finish(self, status: ExitStatus, stacks: &StackTable) -> Result<Self::Output, Self::Error>;
}

/// Two observers of one node: `Both(recorder, injector)`. The second is asked only about calls that
/// the first lets be made, so that it counts each of them once. It may refuse them: then the first
/// has seen none.
#[derive(Debug)]
pub struct Both<First, Second>(pub First, pub Second);

/// What two observers keep of one call.
#[derive(Debug)]
pub struct Kept<First, Second> {
    first: Option<First>,
    second: Option<Second>,
}

impl<First, Second> Observer for Both<First, Second>
where
    First: Observer,
    Second: Observer,
    First::Error: From<Second::Error>,
{
    type Kept = Kept<First::Kept, Second::Kept>;
    type Output = (First::Output, Second::Output);
    type Error = First::Error;

    fn begun(&mut self, first: &Origin) {
        self.0.begun(first);
        self.1.begun(first);
    }

    fn entry(&mut self, origin: &Origin, entry: &Entry) -> Decision<Self::Kept> {
        let first = match self.0.entry(origin, entry) {
            Decision::GoOn => None,
            Decision::ToExit(kept) => Some(kept),
            refused_or_changed => {
                return refused_or_changed.with_kept(|kept| Kept {
                    first: Some(kept),
                    second: None,
                });
            }
        };
        let second = match self.1.entry(origin, entry) {
            Decision::GoOn => None,
            Decision::ToExit(kept) => Some(kept),
            Decision::Change(change, kept) => {
                let second = Some(kept);
                return Decision::Change(change, Kept { first, second });
            }
            refused => {
                self.0.withdrawn(origin, first);
                return refused.with_kept(|kept| Kept {
                    first: None,
                    second: Some(kept),
                });
            }
        };
        if first.is_none() && second.is_none() {
            return Decision::GoOn;
        }
        Decision::ToExit(Kept { first, second })
    }

    fn wants_stack_before(&self, origin: &Origin) -> bool {
        self.0.wants_stack_before(origin) || self.1.wants_stack_before(origin)
    }

    fn wants_stack(&self, kept: &Self::Kept) -> bool {
        let first = kept.first.as_ref();
        let second = kept.second.as_ref();
        first.is_some_and(|kept| self.0.wants_stack(kept))
            || second.is_some_and(|kept| self.1.wants_stack(kept))
    }

    fn wants_addresses(&self, number: u64) -> bool {
        self.0.wants_addresses(number) || self.1.wants_addresses(number)
    }

    fn found_stack(&mut self, number: u64, stack: Vec<Frame>) {
        self.0.found_stack(number, stack.clone());
        self.1.found_stack(number, stack);
    }

    fn wants_names(&self) -> bool {
        self.0.wants_names() || self.1.wants_names()
    }

    fn exit(&mut self, origin: &Origin, entry: &Entry, kept: Self::Kept, result: i64) -> After {
        // Both see what the call did, and the program what the second one makes of it.
        let mut after = After::GoOn;
        if let Some(kept) = kept.first {
            after = self.0.exit(origin, entry, kept, result);
        }
        if let Some(kept) = kept.second
            && let other @ (After::Return(_) | After::Hold) =
                self.1.exit(origin, entry, kept, result)
        {
            after = other;
        }
        after
    }

    fn leave(&mut self, thread: pid_t) -> After {
        match (self.0.leave(thread), self.1.leave(thread)) {
            (After::Hold, _) | (_, After::Hold) => After::Hold,
            _ => After::GoOn,
        }
    }

    fn abandoned(&mut self, origin: &Origin, entry: &Entry, kept: Self::Kept) {
        if let Some(kept) = kept.first {
            self.0.abandoned(origin, entry, kept);
        }
        if let Some(kept) = kept.second {
            self.1.abandoned(origin, entry, kept);
        }
    }

    fn withdrawn(&mut self, origin: &Origin, kept: Option<Self::Kept>) {
        let (first, second) = kept.map_or((None, None), |kept| (kept.first, kept.second));
        self.0.withdrawn(origin, first);
        self.1.withdrawn(origin, second);
    }

    fn gave_up(&mut self, thread: pid_t) {
        self.0.gave_up(thread);
        self.1.gave_up(thread);
    }

    fn released(&mut self, thread: pid_t) -> Vec<pid_t> {
        let mut released = self.0.released(thread);
        released.extend(self.1.released(thread));
        released
    }

    fn born(&mut self, process: pid_t, parent: Option<pid_t>) {
        self.0.born(process, parent);
        self.1.born(process, parent);
    }

    fn exec(&mut self, origin: &Origin) {
        self.0.exec(origin);
        self.1.exec(origin);
    }

    fn ended(&mut self, origin: &Origin) {
        self.0.ended(origin);
        self.1.ended(origin);
    }

    fn unseen(&mut self, what: &'static str) {
        self.0.unseen(what);
        self.1.unseen(what);
    }

    fn finish(self, status: ExitStatus, stacks: &StackTable) -> Result<Self::Output, Self::Error> {
        Ok((
            self.0.finish(status, stacks)?,
            self.1.finish(status, stacks)?,
        ))
    }
}
