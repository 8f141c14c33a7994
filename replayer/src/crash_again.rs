use pace_rules::disk::States;
use serde::{Deserialize, Serialize};

/// Whether the power fails again while the file system recovers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashAgain {
    /// How often; 0 if it does not.
    pub times: u32,
    /// Which states of a recovery to visit, if not those that are visited of the run.
    pub states: Option<States>,
}

impl CrashAgain {
    /// Which states of a recovery to visit where `states` are visited of the run. No call returns
    /// in a recovery, so nothing is promised at one moment of it more than at another: the power
    /// may fail after any write.
    pub(crate) fn states(&self, states: &States) -> States {
        self.states.unwrap_or_else(|| states.at_every_write())
    }
}
