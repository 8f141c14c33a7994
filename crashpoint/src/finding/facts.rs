//! The facts of a crash state of a file system, for rules.

use std::path::PathBuf;

use anyhow::{Context, bail};
use campaign::{Interrupt, say};
use clap::Command;
use node_sweep::FACTS_FOLDER;
use replayer::{FoundWhat, Search, SweepOptions, Workers, keep_facts, prepare};

use super::Named;
use super::replay::gone;

/// Finds the crash state of a finding again, and keeps its facts in a file beside the results, which
/// may be there already; none if it did not come again.
///
/// # Errors
/// If there is no such finding, it leaves nothing that can be mounted, or workers cannot be had.
pub(crate) fn facts_of(
    (results, number): (PathBuf, usize),
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<PathBuf>> {
    let named = Named { results, number };
    let opened = named.open(fs)?;
    let found = &opened.found;
    let FoundWhat::State(state) = &found.what else {
        bail!("finding {number} is a kernel that died, which leaves no facts");
    };
    let folder = named.results.join(FACTS_FOLDER);
    // A finding may have another number when the sweep was continued.
    let (workload, address) = (found.workload.to_line(), state.address());
    let key = blake3::hash(format!("{} {workload} {address}", found.variant).as_bytes()).to_hex();
    let path = folder.join(format!("{number}-{}.sqlite", &key[..12]));
    if path.exists() {
        return Ok(Some(path));
    }
    let search = Search {
        facts: true,
        ..replayer::search_for(found, &opened.sweep.states)?
    };
    let machine = opened.sweep.machine()?;
    prepare(std::slice::from_ref(&found.variant), &machine)?;
    opened.note_other_kernel();
    let options = SweepOptions {
        jobs: 1,
        ..opened.sweep.sweep_options(&machine)
    };
    let mut workers = Workers::start(&found.variant, &options)?;
    let mut result = workers.search(&found.workload, &search, interrupt)?;
    let Some(state) = result.broken.pop() else {
        say(&gone(number, &search, result.inconclusive.as_deref()));
        return Ok(None);
    };
    say(&format!("the state {} again", state.address()));
    let Some(facts) = result.facts.filter(|facts| !facts.is_empty()) else {
        bail!("finding {number} cannot be mounted: there is nothing to ask about");
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    keep_facts(&path, facts)?;
    Ok(Some(path))
}
