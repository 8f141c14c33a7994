//! What rules can be about: the facts of runs and of crash states, in one vocabulary, and
//! specifications, which are rules whose violations are findings.
//!
//! It knows which facts there are, and not how they come to be: `injector` has those of runs with
//! faults, `node-sweep` those of crash states of programs and clusters, `replayer` those of file systems.

#![forbid(unsafe_code)]

pub mod rows;
mod schema;
mod specification;

pub use schema::{About, FACTS, Known, UNREADABLE, facts, facts_version, misled_by_unreadable};
pub use specification::{Examined, Specification, Unlooked, Violated};

#[cfg(test)]
mod tests;
