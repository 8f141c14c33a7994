//! The shards of a sweep put together.

use std::path::Path;

use campaign::{Part, Parts, Shard};
use trace_store::Trace;

use crate::error::{Error, Result};
use crate::results::Results;

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

/// Shards of a sweep, put together in a new directory.
#[derive(Debug)]
pub struct Merged {
    /// What they amount to, with nothing summed up yet.
    pub results: Results,
    /// What was recorded.
    pub trace: Trace,
    /// Whether all shards were there, and finished.
    pub is_whole: bool,
}

/// Writes everything that is known of the shards of a sweep to `out`. With `incomplete` shards may
/// be missing or unfinished.
///
/// # Errors
/// If they are not the shards of one sweep, or something cannot be read or written.
pub fn merge(parts: &[impl AsRef<Path>], out: &Path, incomplete: bool) -> Result<Merged> {
    let mut kept = None;
    let shards = Parts::open(parts, incomplete, |directory| {
        let (part, trace) = Results::open(directory)?;
        // That of the others is the same.
        kept.get_or_insert(trace);
        Ok::<_, Error>(part)
    })?;
    let first = shards.first()?;
    let trace = kept.ok_or(Error::NoParts)?;
    let mut results = Results::create(out, first.manifest().whole(), &trace)?;
    let shards_of_it: Vec<_> = shards.iter().collect();
    results.append_all(&shards_of_it)?;
    Ok(Merged {
        results,
        trace,
        is_whole: shards.is_whole(),
    })
}
