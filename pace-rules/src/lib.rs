//! Which crash states to visit. Pure: no I/O, and no knowledge of the other parts.

#![forbid(unsafe_code)]

mod combinations;
pub mod disk;
pub mod nodes;
mod sample;

pub use sample::sample_of_kinds;
