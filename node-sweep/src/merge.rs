//! The shards of a sweep put together.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use campaign::Shard;
use trace::Trace;

use crate::results::Results;

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
pub fn merge(parts: &[impl AsRef<Path>], out: &Path, incomplete: bool) -> anyhow::Result<Merged> {
    let mut shards: BTreeMap<String, Results> = BTreeMap::new();
    let (mut kept, mut count) = (None, 0);
    let mut seen = Vec::new();
    for directory in parts {
        let real = directory.as_ref().canonicalize();
        let real = real.with_context(|| format!("open {}", directory.as_ref().display()))?;
        if seen.contains(&real) {
            bail!(
                "{} is named twice: name it once",
                directory.as_ref().display()
            );
        }
        seen.push(real);
        let (part, trace) = Results::open(directory.as_ref())?;
        let at = directory.as_ref().display();
        let Some(shard) = part.manifest().shard()? else {
            bail!(
                "{at} is not a shard of a sweep, but all of it: there is nothing to merge it with"
            );
        };
        if let Some(first) = shards.values().next() {
            let of_first = first.manifest().shard()?.map_or(0, Shard::count);
            let of_others = (of_first != shard.count())
                .then(|| "they are of another number of shards".to_owned());
            if let Some(why) = part.manifest().difference(first.manifest()).or(of_others) {
                bail!(
                    "{at} and {} are not shards of one sweep: {why}",
                    first.directory().display()
                );
            }
        }
        if !part.is_finished() && !incomplete {
            bail!("shard {shard} in {at} is not finished: continue it with --resume {at}");
        }
        count = shard.count();
        // That of the others is the same.
        kept.get_or_insert(trace);
        if let Some(other) = shards.insert(shard.to_string(), part) {
            bail!(
                "{at} and {} are the same shard, {shard}: leave one out",
                other.directory().display()
            );
        }
    }
    let missing = (1..=count)
        .map(|number| format!("{number}/{count}"))
        .find(|name| !shards.contains_key(name));
    if let Some(missing) = missing.as_ref().filter(|_| !incomplete) {
        bail!("shard {missing} is missing: a sweep is merged from all of its shards");
    }
    let is_whole = missing.is_none() && shards.values().all(Results::is_finished);
    let (first, trace) = shards
        .values()
        .next()
        .zip(kept)
        .context("no part to merge")?;
    let mut results = Results::create(out, first.manifest().whole(), &trace)?;
    for part in shards.values() {
        results
            .append_all(part)
            .with_context(|| format!("merge {}", part.directory().display()))?;
    }
    Ok(Merged {
        results,
        trace,
        is_whole,
    })
}
