//! Is this state legal?
//!
//! A [`Contract`] is what a file system promises, line by line with its sources. A [`Model`]
//! is what the operations of a workload did, with every version of every name and of every
//! aspect of a file, and the oldest version that may still be seen after a crash. The
//! [`oracle`] compares a recovered [`local_fs::Tree`] with it.

#![forbid(unsafe_code)]

mod aspects;
mod comparison;
mod content;
mod contract;
mod durability;
mod error;
pub mod facts;
mod finding;
mod history;
mod model;
pub mod oracle;
mod promise;
mod shifts;
mod tree_check;
mod write_check;

pub use contract::{CONTRACTS, Contract, Line};
pub use error::{NoContract, Undecided};
pub use finding::{BrokenRule, Finding};
pub use model::Model;
pub use promise::Promise;
pub use write_check::write_check;
