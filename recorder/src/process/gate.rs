//! Calls whose order would not be known if they were made at once are made one after the other.

use std::collections::{BTreeMap, VecDeque};

use libc::pid_t;

/// What a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Changes {
    /// The files of the node.
    Files,
    /// What goes out of this connection.
    Connection(usize),
}

/// Who is in such a call, and who waits for it at the entry of another.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: BTreeMap<Changes, pid_t>,
    waiting: BTreeMap<Changes, VecDeque<pid_t>>,
}

impl Gate {
    /// Whether a thread may make its call. If not it waits.
    pub(super) fn enter(&mut self, what: Changes, thread: pid_t) -> bool {
        let free = !self.waits(what, thread);
        if free {
            self.inside.insert(what, thread);
        }
        free
    }

    /// Whether somebody else is in such a call; then a thread waits.
    pub(super) fn waits(&mut self, what: Changes, thread: pid_t) -> bool {
        let busy = self.is_busy(what, thread);
        if busy {
            self.waiting.entry(what).or_default().push_back(thread);
        }
        busy
    }

    /// Whether another thread is in such a call.
    pub(super) fn is_busy(&self, what: Changes, thread: pid_t) -> bool {
        let inside = self.inside.get(&what);
        inside.is_some_and(|inside| *inside != thread)
    }

    /// A thread is not in a call any more, or has ended. Those who waited for it may try again.
    pub(super) fn leave(&mut self, thread: pid_t) -> Vec<pid_t> {
        let mut free = Vec::new();
        self.inside.retain(|what, inside| {
            if *inside == thread {
                free.push(*what);
            }
            *inside != thread
        });
        free.into_iter()
            .flat_map(|what| self.waiting.remove(&what).unwrap_or_default())
            .collect()
    }

    /// A thread that waits has ended.
    pub(super) fn forget(&mut self, thread: pid_t) {
        for waiting in self.waiting.values_mut() {
            waiting.retain(|waits| *waits != thread);
        }
    }
}
