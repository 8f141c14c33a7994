//! Which crash states to visit. Pure: no I/O, and no knowledge of the other parts.

#![forbid(unsafe_code)]

mod combinations;
pub mod disk;
pub mod nodes;
mod sample;
mod sector;

pub use sample::sample_of_kinds;
pub use sector::{NotASector, Sector};
