//! Whether a check can be believed: what it says of the state that no crash has touched.

use std::sync::{Arc, Mutex};
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

/// So often it is asked before the sweep: a check that never says `ok` is refused at once.
const FIRST: u32 = 3;

/// So often it is asked in all, once a state was found broken. Of a check that fails now and then of
/// any state, 800 states give the most false findings if it does so in 3 of 100 cases: then it is
/// refused six times of seven, and is left with one false finding in nine sweeps.
const ALL: u32 = 60;

/// What the nodes had when the run was over, with all that was acknowledged. A check must find it
/// `ok` each time: else what it says of a crash state means nothing.
#[derive(Debug)]
pub struct Undamaged {
    state: CrashState,
    /// How often it was asked of it.
    tries: Mutex<u32>,
}

impl Undamaged {
    /// That of a trace. There is none if calls were made that are not in the trace.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn of(trace: &Trace, model: &str) -> anyhow::Result<Option<Self>> {
        if !trace.about.not_recorded.is_empty() {
            return Ok(None);
        }
        let state = undamaged(trace, model)?;
        let tries = Mutex::default();
        Ok(Some(Self { state, tries }))
    }

    /// Asks before a sweep, on a thread of its own: who looks at a state may have its thread see
    /// mounts of its own.
    ///
    /// # Errors
    /// If the check does not say `ok` each time.
    pub(crate) fn ask(
        &self,
        mut subject: Box<dyn Subject + '_>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let ask = || self.ask_until(FIRST, &mut *subject, interrupt);
        thread::scope(|scope| scope.spawn(ask).join().expect("it does not panic"))
    }

    /// Asks more often, once a sweep: who else wants to waits for that.
    ///
    /// # Errors
    /// If the check does not say `ok` each time.
    pub(crate) fn ask_more(
        &self,
        subject: &mut dyn Subject,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        self.ask_until(ALL, subject, interrupt)
    }

    fn ask_until(
        &self,
        most: u32,
        subject: &mut dyn Subject,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let mut tries = self.tries.lock().expect("nobody panics with it");
        let mut said: Vec<String> = Vec::new();
        while *tries < most && !interrupt.requested() {
            let verdict = subject.judge(&self.state, *tries > 0)?;
            if interrupt.requested() {
                return Ok(());
            }
            *tries += 1;
            match verdict {
                Verdict::Ok => {}
                Verdict::Broken(complaint) => {
                    said.push(format!("broken {}", complaint.words.join("; ")));
                }
                Verdict::Inconclusive(why) => said.push(why),
            }
        }
        match said.first() {
            None => Ok(()),
            Some(first) => bail!(
                "the check must say `ok` of what the run left without a crash; {} of {most} times it did not: {first}",
                said.len()
            ),
        }
    }
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
