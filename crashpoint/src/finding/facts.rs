//! The facts of a crash state of a file system, for rules.

use std::path::PathBuf;

use anyhow::{Context, bail};
use campaign::{Interrupt, say};
use clap::Command;
use node_sweep::FACTS_FOLDER;
use replayer::{
    Found, FoundWhat, KeptFacts, Search, SweepOptions, Workers, keep_facts, prepare, state_of_facts,
};

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
    let wanted = state.address();
    let path = folder.join(opened.facts_file(&wanted));
    if let Some(kept) = state_of_facts(&path)? {
        say(&format!(
            "the facts are of the state {}, and were kept",
            like(&wanted, &kept)
        ));
        return Ok(Some(path));
    }
    let Some((address, facts)) = opened.facts(interrupt)? else {
        return Ok(None);
    };
    if facts.is_empty() {
        bail!("finding {number} cannot be mounted: there is nothing to ask about");
    }
    say(&format!("the state {} again", like(&wanted, &address)));
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    keep_facts(&path, &address, facts)?;
    Ok(Some(path))
}

/// The name of a state that came again, and of which it was to be the one.
fn like(wanted: &str, found: &str) -> String {
    if wanted == found {
        found.to_owned()
    } else {
        format!("{found}, one like {wanted},")
    }
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

    /// The name of its state, or one like it, and its facts, found again, none of one that cannot be
    /// mounted. Without the state it says so.
    fn facts(&self, interrupt: &Interrupt) -> anyhow::Result<Option<(String, KeptFacts)>> {
        let found = &self.found;
        let search = Search {
            facts: true,
            ..replayer::search_for(found, &self.sweep.states())?
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
        Ok(Some((state.address(), result.facts.unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn another_state_is_named_with_the_one_that_it_stands_for() {
        assert_eq!(like("prefix@7", "prefix@7"), "prefix@7");
        let other = "prefix@9, one like prefix@7,";
        assert_eq!(like("prefix@7", "prefix@9"), other);
    }
}
