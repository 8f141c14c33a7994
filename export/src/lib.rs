//! A crash as a test that others run, without anything of ours: a case of fstests ([`fstests()`]),
//! or a shell script ([`script()`]).
//!
//! What is tested is what must be so in every state that a crash may leave there
//! ([`checker::facts`]): less than the oracle checks, and never what is legal.

#![forbid(unsafe_code)]

mod checks;
mod commands;
mod crash;
mod fstests;
mod script;

pub use crash::{Crash, NotExpressible};
pub use fstests::{Case, fstests};
pub use script::script;
