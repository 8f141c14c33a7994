//! Processor time of what is measured, with that of all processes that it starts.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::Context;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

const US_PER_S: f64 = 1e6;

/// What something took, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    /// Of wall time.
    pub(crate) wall_s: f64,
    /// Of processor time. Not known if the host does not say which children a process has.
    pub(crate) cpu_s: Option<f64>,
}

/// From now on whoever loses a parent that we have started is our child.
///
/// A kernel whose power fails is killed, and has not waited for the programs in it.
pub(crate) fn adopt_orphans() -> anyhow::Result<()> {
    set_child_subreaper(true).context("become a reaper")
}

/// Measures something, which leaves no process that it has started. What is left of them all the same has
/// [lost its parent](adopt_orphans): it is ended, so that its time counts.
pub(crate) fn took<T, E>(what: impl FnOnce() -> Result<T, E>) -> anyhow::Result<(T, Took)>
where
    anyhow::Error: From<E>,
{
    let (before, begun, begun_cpu_s) = (children(), Instant::now(), processor_s()?);
    let came = what()?;
    let wall_s = begun.elapsed().as_secs_f64();
    let is_known = before.is_some_and(|before| end_others(&before).is_some());
    let cpu_s = processor_s()? - begun_cpu_s;
    let cpu_s = is_known.then_some(cpu_s);
    Ok((came, Took { wall_s, cpu_s }))
}

/// Ends all our children but these. Nothing if they are not known.
fn end_others(these: &BTreeSet<i32>) -> Option<()> {
    for pid in children()?.difference(these) {
        let pid = Pid::from_raw(*pid);
        // It may have ended, and is not waited for.
        let _ = kill(pid, Signal::SIGKILL);
        let _ = waitpid(pid, None);
    }
    Some(())
}

/// Our children, if the host's kernel tells them.
fn children() -> Option<BTreeSet<i32>> {
    let mut all = BTreeSet::new();
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        all.extend(text.split_whitespace().flat_map(str::parse::<i32>));
    }
    Some(all)
}

/// Processor time of this process and of all that have ended and were waited for, in seconds.
pub(super) fn processor_s() -> anyhow::Result<f64> {
    let mut all_us = 0;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who).context("ask for the processor time")?;
        let times = [usage.user_time(), usage.system_time()];
        all_us += times
            .map(|time| time.num_microseconds())
            .iter()
            .sum::<i64>();
    }
    Ok(all_us as f64 / US_PER_S)
}
