use serde::{Deserialize, Serialize};

use crate::Promise;

/// A promise that a crash state breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was promised.
    pub promise: Promise,
    /// Where it is broken, relative to the root of the file system; empty for all of it.
    pub path: String,
    /// What was found and what was expected.
    pub what: String,
    /// The operation (counted from 0, setup first) by whose return it was promised, if one did.
    pub promised_by: Option<usize>,
}

impl Finding {
    /// A finding that no single operation promised away.
    pub fn new(promise: Promise, path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            promise,
            path: path.into(),
            what: what.into(),
            promised_by: None,
        }
    }
}
