//! Runs a workload on a recorded disk and writes its [`Recorded`]: the block log with marks
//! around every operation, and the live tree at every crash point. And records what the processes
//! of a program or a cluster do: [`process`].

mod execute;
mod memory;
mod perform;
pub mod process;
mod raw;
mod record;
mod recorded;

pub use perform::perform;
pub use record::{Error, Recorder, Result};
pub use recorded::{CrashPoint, Outcome, Recorded};
