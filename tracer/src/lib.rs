//! Stops the threads of a program, and of all that it starts, at their system calls, and asks an
//! [`Observer`] what shall become of each: the call is made, waits, fails, or is skipped.
//!
//! A seccomp filter stops a thread only at the calls of a [`Table`]; ptrace(2) then shows where it
//! enters and leaves. [`start`] runs a program in a thread of its own, which is the tracer of all
//! of its processes. What a call's descriptors and paths mean is looked up where the thread lives
//! ([`lookup`]).
//!
//! This crate knows nothing of what is done with what it sees. A recorder is one observer, the
//! injection of faults another; [`Both`] asks two.

mod allowed;
pub mod calls;
mod error;
mod filter;
mod follow;
#[cfg(test)]
mod let_through;
pub mod lookup;
mod observer;
mod stacks;
mod start;
mod system;

pub use error::{Error, Result};
pub use observer::{After, Both, Change, Decision, Kept, Observer, Origin, StackTable};
pub use stacks::{Frame, named};
pub use start::{Options, Table, Traced, proc, start};
pub use system::{Entry, read_memory, write_memory};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests;
