//! Specifications that are named on the command line.

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use specification::{About, Specification};

/// Reads specifications. Each has to be right, and to have a violation.
pub(crate) fn read(paths: &[PathBuf], about: About) -> anyhow::Result<Vec<Specification>> {
    let mut all: Vec<Specification> = Vec::new();
    for path in paths {
        let specification = Specification::read(path);
        let specification = specification.with_context(|| format!("read {}", path.display()))?;
        let called = path.display().to_string();
        let program = specification.program(&called, about);
        let program = program.map_err(|problem| anyhow!("{problem}"))?;
        if !program.relations().any(datalog::Relation::is_violation) {
            bail!(
                "{called} has no violation, so nothing could be found with it: write `violation` \
                 before the rule of what must not be"
            );
        }
        if all.iter().any(|known| known.name == specification.name) {
            bail!(
                "two of the specifications are called {}",
                specification.name
            );
        }
        all.push(specification);
    }
    Ok(all)
}
