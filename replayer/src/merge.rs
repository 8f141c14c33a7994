//! The shards of a sweep put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Outcome, OutputFormat, say};

use crate::results_directory::Results;

/// Missing shards that are named.
const MISSING_NAMED_MAX: usize = 8;

/// Writes the results of all shards of a sweep to `out`, which then is what one sweep of
/// everything would have made, and prints what they came to. With `incomplete` shards may be
/// missing or unfinished: `out` is then a sweep that can be gone on with.
///
/// # Errors
/// If they are not the shards of one sweep, or something cannot be read or written.
pub fn merge(
    parts: &[PathBuf],
    out: &Path,
    incomplete: bool,
    format: OutputFormat,
) -> anyhow::Result<Outcome> {
    let shards = open_all(parts)?;
    let missing = missing(&shards);
    let unfinished: Vec<&Results> = shards.values().filter(|part| !part.is_finished()).collect();
    if !incomplete {
        if let Some(part) = unfinished.first() {
            let shard = part.manifest().shard.as_deref().unwrap_or_default();
            let at = part.directory().display();
            bail!(
                "shard {shard} in {at} is not finished: go on with it with crashpoint fs --resume {at}"
            );
        }
        if !missing.is_empty() {
            bail!(
                "shard {} is missing: a sweep is merged from all of its shards",
                missing.join(", ")
            );
        }
    }
    let first = shards.values().next().context("no part to merge")?;
    let workloads = first.workloads()?;
    let mut whole = Results::create(out, first.manifest().whole(), workloads.as_deref())?;
    for part in shards.values() {
        whole.append_all(part)?;
    }
    if missing.is_empty() && unfinished.is_empty() {
        whole.finish()?;
        return whole.print(format);
    }
    whole.print(format)?;
    say(&format!(
        "go on with what is missing with: crashpoint fs --resume {}",
        out.display()
    ));
    Ok(Outcome::Incomplete)
}

/// The parts by their numbers. They are of one sweep, and no two are the same.
fn open_all(parts: &[PathBuf]) -> anyhow::Result<BTreeMap<u64, Results>> {
    let mut shards: BTreeMap<u64, Results> = BTreeMap::new();
    let mut of = None;
    for directory in parts {
        let part = Results::open(directory)?;
        let at = directory.display();
        let Some((number, count)) = part.manifest().shard_number() else {
            bail!(
                "{at} is not a shard of a sweep, but all of it: there is nothing to merge it with"
            );
        };
        if let Some(first) = shards.values().next() {
            let other = first.directory().display();
            if let Some(difference) = part.manifest().difference(first.manifest()) {
                bail!("{at} and {other} are not of the same sweep: {difference}");
            }
            if of != Some(count) {
                bail!(
                    "{at} and {other} are not of the same sweep: it was split in another number of shards"
                );
            }
        }
        of = Some(count);
        if let Some(other) = shards.insert(number, part) {
            bail!(
                "{at} and {} are the same shard, {number}/{count}: leave one out",
                other.directory().display()
            );
        }
    }
    Ok(shards)
}

/// The shards that are not there, or the first few of them.
fn missing(shards: &BTreeMap<u64, Results>) -> Vec<String> {
    let of = shards
        .values()
        .find_map(|part| part.manifest().shard_number())
        .map_or(0, |(_, of)| of);
    let absent = (1..=of).filter(|number| !shards.contains_key(number));
    absent
        .take(MISSING_NAMED_MAX)
        .map(|number| format!("{number}/{of}"))
        .collect()
}
