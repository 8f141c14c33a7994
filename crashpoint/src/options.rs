//! Flags as they were given: written to a manifest, read back from it, and compared with it.

use std::path::Path;

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use replayer::{Manifest, Options};

/// Flags of `fs` that do not decide what is tested, and the one of which the texts are recorded and not
/// the names of the files. Every other one does: what is not listed is recorded, and compared.
const INFORMATION: [&str; 7] = [
    "out",
    "resume",
    "jobs",
    "format",
    "stop-after",
    "verbose",
    "spec",
];

/// The flag that tells the parts of a sweep apart.
pub(crate) const SHARD: &str = "shard";

/// The flags of `command` that decide what is tested, and were given.
pub(crate) fn given(command: &Command, matches: &ArgMatches) -> Options {
    let flags = command
        .get_arguments()
        .filter(|flag| matches.value_source(flag.get_id().as_str()).is_some());
    let given = flags.filter(|flag| {
        matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
            && flag
                .get_long()
                .is_some_and(|name| !INFORMATION.contains(&name))
    });
    given
        .map(|flag| (name(flag), values(flag, matches)))
        .collect()
}

/// Those of them that say something else than their default, but for the shard.
pub(crate) fn deciding(command: &Command, given: &Options) -> Options {
    let is_default = |name: &String, values: &Vec<String>| {
        let flag = command
            .get_arguments()
            .find(|flag| flag.get_long() == Some(name));
        flag.is_some_and(|flag| takes_value(flag) && default(flag) == *values)
    };
    let deciding = given
        .iter()
        .filter(|(name, values)| *name != SHARD && !is_default(name, values));
    deciding
        .map(|(name, values)| (name.clone(), values.clone()))
        .collect()
}

/// The words that stand for the recorded flags.
pub(crate) fn words(manifest: &Manifest) -> Vec<String> {
    let shard = manifest
        .shard
        .iter()
        .map(|shard| format!("--{SHARD}={shard}"));
    let flags = manifest.options.iter().flat_map(|(name, values)| {
        let alone = values.is_empty().then(|| format!("--{name}"));
        alone
            .into_iter()
            .chain(values.iter().map(move |value| format!("--{name}={value}")))
    });
    flags.chain(shard).collect()
}

/// Fails if a flag was given that says something else than the sweep was begun with.
pub(crate) fn agree(
    command: &Command,
    given: &Options,
    manifest: &Manifest,
    directory: &Path,
) -> anyhow::Result<()> {
    for (name, values) in given {
        let flag = command
            .get_arguments()
            .find(|flag| flag.get_long() == Some(name));
        let recorded = match manifest.options.get(name) {
            Some(values) => Some(values.clone()),
            None if name == SHARD => manifest.shard.clone().map(|shard| vec![shard]),
            None => flag
                .filter(|flag| takes_value(flag))
                .map(default)
                .filter(|values| !values.is_empty()),
        };
        if recorded.as_ref() == Some(values) {
            continue;
        }
        let words = |values: &[String]| {
            format!("--{name} {}", values.join(","))
                .trim_end()
                .to_owned()
        };
        let began = recorded.map_or_else(
            || "without it".to_owned(),
            |values| format!("with {}", words(&values)),
        );
        bail!(
            "{} was not given to the sweep in {}, which was begun {began}: leave it out, or begin another sweep with --out",
            words(values),
            directory.display()
        );
    }
    Ok(())
}

fn name(flag: &Arg) -> String {
    flag.get_long().unwrap_or_default().to_owned()
}

fn takes_value(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::Set | ArgAction::Append)
}

/// None for a flag that takes no value.
fn values(flag: &Arg, matches: &ArgMatches) -> Vec<String> {
    let raw = matches
        .get_raw(flag.get_id().as_str())
        .filter(|_| takes_value(flag));
    raw.into_iter()
        .flatten()
        .map(|value| value.to_string_lossy().into_owned())
        .collect()
}

fn default(flag: &Arg) -> Vec<String> {
    let delimiter = flag.get_value_delimiter();
    let values = flag
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned());
    match delimiter {
        Some(delimiter) => values
            .flat_map(|value| {
                value
                    .split(delimiter)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            })
            .collect(),
        None => values.collect(),
    }
}
