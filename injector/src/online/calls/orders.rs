//! What a desk is told, and what it says: by calls of functions where it is here, and in lines where it
//! is in the machine of its node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::tally::{Made, Times};
use crate::online::plan::{CallFault, CallOf, Moment};

/// A desk, wherever it is. What is said of it may come later than what it is told: a ground that has to
/// let time pass for that does so when it [agrees](crate::online::Ground::agree_on_calls).
pub(super) trait Orders {
    /// The node's index.
    fn node(&self) -> usize;

    /// From now on this call is waited for.
    fn watch(&self, id: u64, watched: Watched);

    /// What the call was that was waited for, if it came.
    fn fired(&self, id: u64) -> Option<String>;

    /// It is not waited for any more, and goes on if it was held.
    fn unwatch(&self, id: u64);

    /// From now on calls are hit by the fault with an index.
    fn hit(&self, id: usize, fault: &CallFault);

    /// Calls are not hit any more, and those that are held go on.
    fn spare(&self, id: usize);

    /// What came of a fault that calls were spared, once.
    fn spared(&self, id: usize) -> Option<Spared>;

    /// From now on the node stands still, or not any more.
    fn pause(&self, is_paused: bool);

    /// Lets those go on whose time is over, and returns what there is to tell.
    fn tick(&self) -> Vec<String>;
}

/// A call that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Watched {
    pub(super) of: CallOf,
    pub(super) when: Moment,
    /// Whether the call stays where it is until it is not waited for any more.
    pub(super) holds: bool,
    /// How many there were before.
    pub(super) seen: u64,
}

/// What came of a fault that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spared {
    /// How many calls it has hit.
    pub(super) hits: u64,
    /// Whether none is held any more.
    pub(super) is_free: bool,
}

/// What a desk in a machine is told, a line each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// To wait for a call.
    Watch(u64, Watched),
    /// Not to wait for it any more.
    Unwatch(u64),
    /// To have calls be hit by a fault. Another desk of the node may have seen and hit some.
    Hit {
        id: usize,
        fault: CallFault,
        seen: u64,
        hits: u64,
    },
    /// To leave calls alone.
    Spare(usize),
    /// The node's processes are stopped from now on, or not any more.
    Pause(bool),
    /// To count calls from now on, and none before. The number is that of this counting.
    Count(u64),
    /// Not to count calls any more, and to say what was counted.
    Tell,
    /// That the node has this role, if the probe says so: calls are counted by that.
    Role(Option<String>),
    /// To say this number when all before it is done.
    Answer(u64),
}

/// What it says, a line each. Numbers are of all desks that the node has had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// So many calls were seen of those that are waited for, and in words the one that was meant, if it
    /// has come.
    Seen(u64, u64, Option<String>),
    /// So many were seen that a fault may hit, and so many were hit.
    Hit { id: usize, seen: u64, hits: u64 },
    /// Something happened, in words.
    News(String),
    /// A fault has ended.
    Spared(usize, Spared),
    /// In the counting with a number this call was made so often. Times are since the desk counts.
    Counted(u64, Made, Times),
    /// The stack with a number, from the call outwards: a path and an address in the file there.
    Stack(u64, Vec<(String, u64)>),
    /// All was said that was counted in the counting with a number.
    Told(u64),
    /// All processes have ended, and all was said that was counted of them, in whichever counting.
    Over,
    /// All before this order is done.
    Answered(u64),
    /// The node's command has ended, with this status, as wait(2) has it, or could not be run. What it has
    /// started may go on. A tracer that ends without having said so has failed.
    Ended(i32),
}

/// What is traced in a machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    /// The name of the node.
    pub(super) name: String,
    /// Its directory of data, as it sees it.
    pub(super) data: Option<PathBuf>,
    /// As whom its command runs.
    pub(super) user: Option<String>,
    /// The calls that are looked at, as plans name them.
    pub(super) kinds: Vec<String>,
    /// What holds from its first call on.
    pub(super) orders: Vec<Order>,
}
