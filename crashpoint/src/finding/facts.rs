//! The facts of a crash state of a file system, for rules.

use std::path::PathBuf;

use anyhow::{Context, bail};
use campaign::{Interrupt, say};
use clap::Command;
use node_sweep::FACTS_FOLDER;
use replayer::{Found, FoundWhat, KeptFacts, Search, SweepOptions, Workers, keep_facts, prepare};

use super::replay::gone;
use super::{Named, Opened};

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
    let FoundWhat::State(state) = &opened.found.what else {
        bail!("finding {number} is a kernel that died, which leaves no facts");
    };
    let folder = named.results.join(FACTS_FOLDER);
    let path = folder.join(opened.facts_file(&state.address()));
    if path.exists() {
        return Ok(Some(path));
    }
    let Some(facts) = opened.facts(interrupt)? else {
        return Ok(None);
    };
    if facts.is_empty() {
        bail!("finding {number} cannot be mounted: there is nothing to ask about");
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    keep_facts(&path, facts)?;
    Ok(Some(path))
}

impl Opened {
    /// The name of the file with the facts of its state. A finding may have another number when the
    /// sweep was continued.
    fn facts_file(&self, address: &str) -> String {
        let Found {
            number,
            variant,
            workload,
            ..
        } = &self.found;
        let text = format!("{variant} {} {address}", workload.to_line());
        let key = blake3::hash(text.as_bytes()).to_hex();
        format!("{number}-{}.sqlite", &key[..12])
    }

    /// The facts of its state, found again, none of one that cannot be mounted. Without the state it
    /// says so.
    fn facts(&self, interrupt: &Interrupt) -> anyhow::Result<Option<KeptFacts>> {
        let found = &self.found;
        let search = Search {
            facts: true,
            ..replayer::search_for(found, &self.sweep.states)?
        };
        let machine = self.sweep.machine()?;
        prepare(std::slice::from_ref(&found.variant), &machine)?;
        self.note_other_kernel();
        let options = SweepOptions {
            jobs: 1,
            ..self.sweep.sweep_options(&machine)
        };
        let mut workers = Workers::start(&found.variant, &options)?;
        let mut result = workers.search(&found.workload, &search, interrupt)?;
        let Some(state) = result.broken.pop() else {
            say(&gone(found.number, &search, result.inconclusive.as_deref()));
            return Ok(None);
        };
        say(&format!("the state {} again", state.address()));
        Ok(Some(result.facts.unwrap_or_default()))
    }
}
