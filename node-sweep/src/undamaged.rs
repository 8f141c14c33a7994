//! Whether a check can be believed: what it says of the state that no crash has touched.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use campaign::Interrupt;
use pace_rules::nodes::{Model, micros};
use trace_store::Trace;

use crate::check::Verdict;
use crate::disks::Disks;
use crate::mount_slot::DiskState;
use crate::states::{Acknowledgements, CrashState};
use crate::sweep::Subject;
use crate::tree::Tree;

/// So often it is asked: one that fails one time in ten is refused with every fourth sweep, and
/// accuses in none of the others unless a state is broken twice.
const TIMES: u32 = 3;

/// Has the check look at what the nodes had when the run was over, with all that was acknowledged.
///
/// Nothing is asked if calls were made that are not in the trace: it does not have that state then.
///
/// # Errors
/// If the check does not say `ok` each time. What it says of a crash state would mean nothing.
pub(crate) fn ask(
    trace: &Trace,
    model: &str,
    mut subject: Box<dyn Subject + '_>,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    if !trace.about.not_recorded.is_empty() {
        return Ok(());
    }
    let state = undamaged(trace, model)?;
    let mut said = |again: bool| {
        Ok(match subject.judge(&state, again)? {
            Verdict::Ok => None,
            Verdict::Broken(complaint) => Some(format!("broken {}", complaint.words.join("; "))),
            Verdict::Inconclusive(why) => Some(why),
        })
    };
    let all = || -> anyhow::Result<Vec<_>> { (0..TIMES).map(|time| said(time > 0)).collect() };
    // Who looks at a state may have its thread see mounts of its own.
    let said = thread::scope(|scope| scope.spawn(all).join().expect("it does not panic"))?;
    if interrupt.requested() {
        return Ok(());
    }
    let said: Vec<_> = said.into_iter().flatten().collect();
    let Some(first) = said.first() else {
        return Ok(());
    };
    bail!(
        "the check must say `ok` of what the run left without a crash; {} of {TIMES} times it did not: {first}",
        said.len()
    )
}

/// The state of which nothing is missing: all that the nodes did, and all that was acknowledged.
fn undamaged(trace: &Trace, model: &str) -> anyhow::Result<CrashState> {
    let model = Model::named(model).with_context(|| format!("there is no model {model}"))?;
    let mut hasher = blake3::Hasher::new();
    let mut disks = Vec::new();
    for node in trace
        .run
        .nodes
        .iter()
        .filter(|node| !node.initial.is_empty())
    {
        let effects = micros(node, model).into_iter().map(|micro| micro.effect);
        let tree = Tree::initial(&node.initial, trace);
        let tree = Disks::new(tree, effects.collect()).last(trace);
        hasher.update(
            &tree
                .fingerprint()
                .context("make the directory that the run left")?,
        );
        disks.push(DiskState::Tree(tree));
    }
    let everything: Vec<_> = trace
        .run
        .nodes
        .iter()
        .map(|node| node.events.len())
        .collect();
    let acknowledged: Arc<[u8]> = Acknowledgements::of(&trace.run).before(&everything, trace);
    let disks_key = *hasher.finalize().as_bytes();
    hasher.update(&acknowledged);
    Ok(CrashState {
        disks,
        acknowledged,
        key: *hasher.finalize().as_bytes(),
        disks_key,
    })
}
