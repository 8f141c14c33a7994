//! What only ever takes turns stays on one processor.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Has this thread, and what it starts, run on one of the processors that it may use: another for
/// each number, as long as there are any. A tracer and what it traces, or a guest's kernel and its
/// programs, only ever take turns, and to wake each other on another processor takes longer than a
/// turn.
///
/// # Errors
/// If the kernel forbids it. They work all the same, only slower.
pub fn stay_on_one_processor(number: usize) -> nix::Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let allowed: Vec<_> = (0..CpuSet::count())
        .filter(|cpu| allowed.is_set(*cpu).unwrap_or(false))
        .collect();
    let Some(cpu) = allowed.get(number % allowed.len().max(1)) else {
        return Ok(());
    };
    let mut one = CpuSet::new();
    one.set(*cpu)?;
    sched_setaffinity(this, &one)
}
