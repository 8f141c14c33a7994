//! Failures that people have names for: each check looks for one sort of object, and says who saw
//! what. What they find is certain; what they do not find may still be no order of operations.

mod availability;
mod counter;
mod lock;
mod queue;
mod register;
mod set;
mod told;

pub use self::availability::HEAL;
pub(crate) use self::availability::{After, unavailable};
pub(crate) use self::told::Told;
use crate::model::Refused;
use crate::{History, Model, Operation, Outcome, Value};

/// A failure that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Which failure it is.
    pub kind: Failure,
    /// The object.
    pub key: Option<Value>,
    /// Who saw what, in a sentence: of several that saw the same, the first.
    pub what: String,
    /// The operations that show it, by their places in [`History::operations`].
    pub operations: Vec<usize>,
    /// Further operations that show the same, in the order of their calls.
    pub more: Vec<usize>,
}

impl Anomaly {
    /// One that these operations show, and no others yet.
    pub(crate) fn new(
        kind: Failure,
        key: Option<&Value>,
        what: String,
        operations: Vec<usize>,
    ) -> Self {
        Self {
            kind,
            key: key.cloned(),
            what,
            operations,
            more: Vec::new(),
        }
    }

    /// How many more show the same, in words; nothing if none does.
    pub fn more_in_words(&self) -> Option<String> {
        let is_missing = matches!(
            self.kind,
            Failure::WriteLost | Failure::ElementLost | Failure::StaleRead
        );
        let words = match (is_missing, self.more.len()) {
            (_, 0) => return None,
            (true, 1) => "1 more answer misses it".to_owned(),
            (true, count) => format!("{count} more answers miss it"),
            (false, 1) => "1 more answer shows it".to_owned(),
            (false, count) => format!("{count} more answers show it"),
        };
        Some(words)
    }

    /// Who saw what, and how many more did.
    pub fn in_words(&self) -> String {
        let more = self.more_in_words();
        more.map_or_else(
            || self.what.clone(),
            |more| format!("{}; {more}", self.what),
        )
    }
}

/// A failure that people have a name for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// What was acknowledged is not there.
    WriteLost,
    /// An older value than the one that was there.
    StaleRead,
    /// A value whose write failed.
    DirtyRead,
    /// What had been deleted is there.
    DeletedBack,
    /// A value that nobody wrote.
    NeverWritten,
    /// One element was taken twice.
    DoubleDequeue,
    /// An element is not there any more, and nobody took it.
    ElementLost,
    /// More hold a lock than may.
    DoubleLock,
    /// A counter is what it cannot be.
    CounterWrong,
    /// A counter goes back.
    CounterBack,
    /// Nothing is answered though all faults have ended.
    Unavailable,
    /// There is no order of operations that explains what was seen.
    NotLinearizable,
    /// Transactions wrote in circles.
    G0,
    /// A transaction read what a failed one wrote.
    G1a,
    /// A transaction read what its writer overwrote itself.
    G1b,
    /// Transactions are before each other by what they read and wrote.
    G1c,
    /// The same, and one did not see what another one wrote.
    GSingle,
    /// Several did not see what others wrote, none next to another.
    GNonadjacent,
    /// Several did not see what others wrote.
    G2,
    /// A transaction does not see what it read or wrote itself.
    Internal,
    /// Two read the same and overwrote each other.
    LostUpdate,
    /// Lists were read of which none is the beginning of the other.
    IncompatibleOrder,
    /// One element is in a list twice.
    DuplicateElements,
    /// The order in which a client did things is not kept.
    Sessions,
    /// The order of the clock is not kept.
    RealTime,
}

impl Failure {
    /// All of them, with their names and what they mean.
    pub const ALL: [(Self, &'static str, &'static str); 25] = [
        (
            Self::WriteLost,
            "write-lost",
            "an acknowledged write was lost",
        ),
        (
            Self::StaleRead,
            "stale-read",
            "a read saw what had been overwritten",
        ),
        (
            Self::DirtyRead,
            "dirty-read",
            "a read saw a write that failed",
        ),
        (Self::DeletedBack, "deleted-back", "a deleted value is back"),
        (
            Self::NeverWritten,
            "never-written",
            "a value was read that nobody wrote",
        ),
        (
            Self::DoubleDequeue,
            "double-dequeue",
            "an element was taken twice",
        ),
        (
            Self::ElementLost,
            "element-lost",
            "an acknowledged element is gone",
        ),
        (
            Self::DoubleLock,
            "double-lock",
            "a lock was held twice at once",
        ),
        (
            Self::CounterWrong,
            "counter-wrong",
            "a counter was what it cannot be",
        ),
        (Self::CounterBack, "counter-back", "a counter went back"),
        (
            Self::Unavailable,
            "unavailable",
            "nothing was answered after the heal",
        ),
        (
            Self::NotLinearizable,
            "not-linearizable",
            "no order of the operations explains what was seen",
        ),
        (
            Self::G0,
            "G0",
            "transactions overwrote each other in a circle",
        ),
        (
            Self::G1a,
            "G1a",
            "a transaction read what a failed one wrote",
        ),
        (
            Self::G1b,
            "G1b",
            "a transaction read what its writer overwrote itself",
        ),
        (
            Self::G1c,
            "G1c",
            "transactions read each other's writes in a circle",
        ),
        (
            Self::GSingle,
            "G-single",
            "a transaction saw one write of another, and not an earlier one",
        ),
        (
            Self::GNonadjacent,
            "G-nonadjacent",
            "transactions did not see each other's writes, with others between",
        ),
        (
            Self::G2,
            "G2",
            "transactions did not see each other's writes",
        ),
        (
            Self::Internal,
            "internal",
            "a transaction does not see what it read or wrote itself",
        ),
        (
            Self::LostUpdate,
            "lost-update",
            "two transactions read the same and overwrote each other",
        ),
        (
            Self::IncompatibleOrder,
            "incompatible-order",
            "lists were read that are not of one order",
        ),
        (
            Self::DuplicateElements,
            "duplicate-elements",
            "an element is in a list twice",
        ),
        (
            Self::Sessions,
            "session-order",
            "what a client did first is not first",
        ),
        (
            Self::RealTime,
            "real-time-order",
            "what had ended before is not before",
        ),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it means.
    pub fn meaning(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        let found = Self::ALL.iter().find(|row| row.0 == self);
        found.expect("each has a row")
    }
}

/// The operations of one object.
pub(crate) struct Seen<'a> {
    pub(crate) key: Option<&'a Value>,
    /// Their places in the history, by their calls.
    pub(crate) places: &'a [usize],
    pub(crate) history: &'a History,
    pub(crate) initial: &'a Value,
    /// Whether a read may be old: then only what nobody can have seen later is lost.
    pub(crate) may_be_old: bool,
}

impl<'a> Seen<'a> {
    fn operations(&self) -> impl Iterator<Item = (usize, &'a Operation)> + use<'a> {
        let (places, history) = (self.places, self.history);
        places
            .iter()
            .map(|&place| (place, &history.operations()[place]))
    }

    /// Those that are called one of these.
    fn called(
        &self,
        words: &'static [&'static str],
    ) -> impl Iterator<Item = (usize, &'a Operation)> {
        self.operations()
            .filter(|(_, one)| words.contains(&one.f.as_str()))
    }

    fn anomaly(&self, kind: Failure, what: String, operations: impl Into<Vec<usize>>) -> Anomaly {
        let mut operations = operations.into();
        operations.sort_unstable();
        operations.dedup();
        Anomaly::new(kind, self.key, what, operations)
    }

    /// An operation in a sentence: what it did, who did it, and when.
    fn words(&self, place: usize) -> String {
        let one = &self.history.operations()[place];
        let index = self.history.events()[one.call].index;
        format!("{} (event {index}, process {})", one.words(), one.process)
    }
}

/// Whether one had certainly ended before the other was called.
fn before(one: &Operation, other: &Operation) -> bool {
    one.returned().is_some_and(|returned| returned < other.call)
}

/// Whether it took effect, or may have, and was called before this event.
fn may_be_before(one: &Operation, event: usize) -> bool {
    one.outcome != Outcome::Fail && one.call < event
}

/// The failures of one object.
pub(crate) fn failures(model: Model, seen: &Seen<'_>) -> Result<Vec<Anomaly>, Refused> {
    match model {
        Model::Register | Model::Map => Ok(register::failures(seen)),
        Model::Lock => Ok(lock::failures(seen, 1)),
        Model::Semaphore(permits) => Ok(lock::failures(seen, permits)),
        Model::Counter => counter::failures(seen),
        Model::Queue | Model::Bag => Ok(queue::failures(seen)),
        Model::Set => Ok(set::failures(seen)),
        Model::ListAppend | Model::RwRegister => Ok(Vec::new()),
    }
}
