//! The shards of a sweep put together.

use std::path::{Path, PathBuf};

use campaign::{Outcome, OutputFormat, Part, Parts, Shard, say};

use crate::error::Result;
use crate::results_directory::Results;

impl Part for Results {
    fn directory(&self) -> &Path {
        self.directory()
    }

    fn shard(&self) -> campaign::Result<Option<Shard>> {
        self.manifest().shard()
    }

    fn is_finished(&self) -> bool {
        self.is_finished()
    }

    fn difference(&self, other: &Self) -> Option<String> {
        self.manifest().difference(other.manifest())
    }
}

/// Writes the results of all shards of a sweep to `out`, which then is what one sweep of
/// everything would have made, and prints what they came to. With `incomplete` shards may be
/// missing or unfinished: `out` is then a sweep that can be continued.
///
/// # Errors
/// If they are not the shards of one sweep, or something cannot be read or written.
pub fn merge(
    parts: &[PathBuf],
    out: &Path,
    incomplete: bool,
    format: OutputFormat,
) -> Result<Outcome> {
    let shards = Parts::open(parts, incomplete, Results::open)?;
    let first = shards.first()?;
    let workloads = first.workloads()?;
    let mut whole = Results::create(out, first.manifest().whole(), workloads.as_deref())?;
    for part in shards.iter() {
        whole.append_all(part)?;
    }
    if shards.is_whole() {
        whole.finish()?;
        return whole.print(format);
    }
    whole.print(format)?;
    say(&format!(
        "continue with what is missing with: crashpoint fs --resume {}",
        out.display()
    ));
    Ok(Outcome::Incomplete)
}
