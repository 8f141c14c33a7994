//! Faults while a cluster runs.
//!
//! Today's fault is the power failure of simulated machines, at a request to a disk: a [`Plan`] has
//! all of them, by index, a [`Laboratory`] runs one, and [`sweep`] is the campaign. Every run is from
//! the boot on, and the same each time: a [`Failure`] and a seed are all that it takes to see it
//! again.

#![forbid(unsafe_code)]

mod directory;
mod error;
mod laboratory;
mod plan;
mod results;
mod sweep;
mod text;

pub use directory::{LiveDirectory, manifest, results};
pub use error::{Error, Result};
pub use laboratory::{Judged, Laboratory, LiveRun, Reference};
pub use plan::{Failure, Keeps, Plan, PointRange, Victims};
pub use results::{How, LiveManifest, LiveResult, kernel_hash};
pub use sweep::{Selection, Summary, sweep};
pub use text::{finding, findings, table};
