//! What a system promises, which decides what is an anomaly.

use crate::Failure;

/// What a system promises of its operations, or of its transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Objects: each operation takes effect at one moment between its call and its return.
    Linearizable,
    /// Objects: reads may be old.
    Eventual,
    /// Transactions: writes are in one order.
    ReadUncommitted,
    /// Transactions: nothing is read that is not committed, or is overwritten by its own writer.
    ReadCommitted,
    /// Transactions: what was read does not change.
    RepeatableRead,
    /// Transactions: each reads one moment, and of two that write the same, one sees the other.
    SnapshotIsolation,
    /// Transactions: as if one after the other.
    Serializable,
    /// The same, and each client's in its order.
    StrongSessionSerializable,
    /// The same, and in the order of the clock.
    StrictSerializable,
}

impl Consistency {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Linearizable, "linearizable"),
        (Self::Eventual, "eventual"),
        (Self::ReadUncommitted, "read-uncommitted"),
        (Self::ReadCommitted, "read-committed"),
        (Self::RepeatableRead, "repeatable-read"),
        (Self::SnapshotIsolation, "snapshot-isolation"),
        (Self::Serializable, "serializable"),
        (
            Self::StrongSessionSerializable,
            "strong-session-serializable",
        ),
        (Self::StrictSerializable, "strict-serializable"),
    ];

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, other)| *other == name);
        found.map(|(consistency, _)| *consistency)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(other, _)| *other == self);
        found.expect("each has a name").1
    }

    /// Whether it is one of transactions.
    pub fn is_transactional(self) -> bool {
        !matches!(self, Self::Linearizable | Self::Eventual)
    }

    /// Whether a failure breaks the promise.
    pub fn forbids(self, failure: Failure) -> bool {
        use Failure as F;
        let level = match self {
            Self::Linearizable => return true,
            Self::Eventual => return !matches!(failure, F::StaleRead | F::NotLinearizable),
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
            Self::RepeatableRead | Self::SnapshotIsolation => 2,
            Self::Serializable => 3,
            Self::StrongSessionSerializable => 4,
            Self::StrictSerializable => 5,
        };
        level
            >= match failure {
                F::G1a | F::G1b | F::G1c => 1,
                F::Internal | F::GSingle | F::GNonadjacent | F::LostUpdate => 2,
                // Write skew is what snapshot isolation allows, and repeatable reads do not.
                F::G2 if self == Self::RepeatableRead => 2,
                F::G2 => 3,
                F::Sessions => 4,
                F::RealTime => 5,
                _ => 0,
            }
    }
}
