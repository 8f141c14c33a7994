//! Specifications that are named on the command line.

use std::path::PathBuf;

use anyhow::{Context, bail};
use campaign::say;
use specification::{About, Specification};

/// Reads specifications. Each has to be right, and to have a violation. Of several those are left out that
/// are about something else, which is said: `--spec specs/*.dl` has some of each kind.
pub(crate) fn read(paths: &[PathBuf], about: About) -> anyhow::Result<Vec<Specification>> {
    let mut all: Vec<Specification> = Vec::new();
    let mut left_out = Vec::new();
    for path in paths {
        let specification = Specification::read(path);
        let specification = specification.with_context(|| format!("read {}", path.display()))?;
        let called = path.display().to_string();
        let program = match specification.program(&called, about) {
            Ok(program) => program,
            Err(problem) => {
                let Some(other) = elsewhere(&specification, about) else {
                    bail!("{problem}");
                };
                left_out.push((called, problem, other));
                continue;
            }
        };
        if !program.relations().any(datalog::Relation::is_violation) {
            bail!(
                "{called} has no violation, so nothing could be found with it: write `violation` \
                 before the rule of what must not be"
            );
        }
        // The database does not tell capital letters apart.
        let name = &specification.name;
        if all
            .iter()
            .any(|known| known.name.eq_ignore_ascii_case(name))
        {
            bail!("two of the specifications are called {name}");
        }
        all.push(specification);
    }
    if all.is_empty()
        && let Some((_, problem, _)) = left_out.first()
    {
        bail!("{problem}");
    }
    for (called, _, other) in left_out {
        let other = other.words();
        say(&format!("{called} is left out: it is about {other}"));
    }
    Ok(all)
}

/// What else a specification is right about.
fn elsewhere(specification: &Specification, about: About) -> Option<About> {
    let is_right = |other: &About| specification.program("", *other).is_ok();
    about.others().find(is_right)
}
