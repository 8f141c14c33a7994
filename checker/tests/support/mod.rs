//! Trees of crash states, made by a toy file system.

// Every test file uses another part of this.
#![allow(dead_code, unused_imports)]

mod crash;

pub use crash::{Crashes, crash, model, model_under, operations, workload};
pub use toy_fs::{Kind, Toy};

pub const ALL: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// Those whose metadata is one ordered log.
pub const ORDERED: [&str; 2] = ["ext4", "xfs"];
