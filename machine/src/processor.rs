//! What only ever takes turns stays on one processor.

use nix::errno::Errno;
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

/// Does something on one of the processors that this thread may use, by [`stay_on_one_processor`];
/// what it starts meanwhile stays there, and this thread may use all of them again after that.
///
/// # Errors
/// If the kernel forbids it.
pub fn on_one_processor<T>(number: usize, doing: impl FnOnce() -> T) -> nix::Result<T> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    stay_on_one_processor(number)?;
    let done = doing();
    sched_setaffinity(this, &allowed)?;
    Ok(done)
}

/// Has this thread run before all that wait for a processor in the usual way, as soon as it has something
/// to do (`SCHED_RR`); what it starts does not. For threads that look at a clock and mostly wait.
///
/// # Errors
/// If the kernel forbids it: without root, it mostly does.
#[allow(unsafe_code)]
pub fn go_first() -> nix::Result<()> {
    let how = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: it reads `lowest`, which is there, and 0 is this thread.
    Errno::result(unsafe { libc::sched_setscheduler(0, how, &raw const lowest) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_did_something_on_one_processor_may_use_all_again() {
        let count = || {
            let set = sched_getaffinity(Pid::from_raw(0)).expect("it may look");
            let used = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false));
            used.count()
        };
        let before = count();
        for number in [0, 1, 1000] {
            assert_eq!(on_one_processor(number, count), Ok(1));
            assert_eq!(count(), before);
        }
    }
}
