//! Faults while a cluster runs.
//!
//! Today's fault is the power failure of simulated machines, at a request to a disk: a [`Plan`] has
//! all of them, by index, a [`Laboratory`] runs one, and [`sweep`] is the campaign. Every run is from
//! the boot on, and the same each time: a [`Failure`] and a seed are all that it takes to see it
//! again.
//!
//! [`online`] are the faults of a plan file, in a cluster that runs in namespaces.

#![forbid(unsafe_code)]

mod directory;
mod disks;
mod error;
mod files;
mod laboratory;
mod minimize;
pub mod online;
mod plan;
mod results;
mod surrounded;
mod sweep;
mod text;

pub use directory::{LiveDirectory, manifest, merge, plans, results, summary};
pub use disks::Keeps;
pub use error::{Error, Result};
pub use laboratory::{
    DiskLeft, Future, Happened, Held, Judged, Laboratory, LiveRun, OPERATIONS, Prefix, Reference,
    Rules, StandStill,
};
pub use minimize::{Minimized, minimize};
pub use plan::{Address, At, Failure, Fault, ForkPoint, Moment, Plan, PointRange, Victims};
pub use results::{Asked, LiveManifest, LiveResult, SeedPlan, kernel_hash};
pub use surrounded::Surrounded;
pub use sweep::{Selection, Summary, TOGETHER_MAX, all_failures, never_looked, sweep};
pub use text::{finding, finding_in_full, findings, headline, inconclusive, reasons, table};
