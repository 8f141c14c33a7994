//! The failure points of a run without faults.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat, say};
use clap::ValueEnum;
use cluster::ClusterFile;
use injector::Judged;
use injector::online::{
    At, Collected, Disks, EXHAUSTIVE, Exhaustive, InjectManifest, Order, Ran, RunFiles, SeenPoint,
    Strategy, points_table, without_faults,
};
use machine::OwnDirectory;
use serde_json::json;

use super::ground::{on_machines, run_once};
use super::{InjectArgs, read_file, refuse_idle};

/// Prints them.
pub(super) fn print(arguments: &InjectArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let path = arguments.file.as_deref().context("clap wants one")?;
    let file = read_file(path, arguments.machines.simulate)?;
    refuse_idle(&file, path)?;
    refuse_without_disks(arguments, &file)?;
    let seed = arguments.seed.unwrap_or_default();
    let mut manifest = InjectManifest::new(&file, &path.canonicalize()?);
    manifest.simulated = on_machines(&arguments.machines, &file, seed)?;
    manifest.strategy = Some(EXHAUSTIVE.to_owned());
    manifest.at = arguments.at;
    manifest.seed = seed;
    let Some(ran) = watched((&file, &manifest), None, interrupt)? else {
        say("interrupted: everything is stopped");
        return Ok(Outcome::Incomplete);
    };
    let text = text(arguments, &file, &ran.points);
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(match &ran.judged {
        Judged::Ok => Outcome::Clean,
        judged => {
            say(&format!(
                "the run was not ok, although nothing was injected: {}",
                why(judged)
            ));
            Outcome::Incomplete
        }
    })
}

/// Points as a table, or as lines of JSON.
fn text(arguments: &InjectArgs, file: &ClusterFile, points: &[SeenPoint]) -> String {
    let disks = Disks::of(file);
    let collected = collected_of(arguments, points.to_vec());
    match arguments.format {
        OutputFormat::Text => {
            let runs = Exhaustive::new(file, 0, &collected).count();
            points_table(&collected, arguments.at, &disks, runs.unwrap_or_default())
        }
        OutputFormat::Json => points
            .iter()
            .map(|seen| line(&collected, seen, &disks))
            .collect(),
    }
}

/// A point as a line of JSON.
fn line(collected: &Collected, seen: &SeenPoint, disks: &Disks) -> String {
    let mut value = json!(seen);
    value["times"] = json!(seen.count());
    let failures: Vec<_> = collected.failures(seen, disks).collect();
    value["failures"] = json!(failures);
    format!("{value}\n")
}

/// A run without faults; nothing if it was interrupted.
fn watched(
    of: (&ClusterFile, &InjectManifest),
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Ran>> {
    let (file, manifest) = of;
    let plan = without_faults(file, manifest.seed);
    match run_once(of, (0, &plan), kept, interrupt) {
        Err(injector::Error::Cluster(cluster::Error::Interrupted)) => Ok(None),
        ran => Ok(Some(ran?)),
    }
}

fn why(judged: &Judged) -> String {
    match judged {
        Judged::Ok => "ok".into(),
        Judged::Broken { broken } => broken.join("; "),
        Judged::Inconclusive { why } => why.clone(),
    }
}

/// Fails if requests to disks are asked for, and there are none.
fn refuse_without_disks(arguments: &InjectArgs, file: &ClusterFile) -> anyhow::Result<()> {
    let has_disks = file.disk.is_some() && file.nodes.iter().any(|node| node.has_data);
    if arguments.at.has_requests() && !has_disks {
        bail!(
            "--at requests needs nodes with recorded disks: put disk = \"ext4\" (or another file system) at \
             the top of the cluster file"
        );
    }
    Ok(())
}

/// Fails if arguments are given that only an exhaustive campaign has.
pub(super) fn refuse_elsewhere(arguments: &InjectArgs) -> anyhow::Result<()> {
    let given = [
        (arguments.max_failures != 1, "--max-failures"),
        (arguments.order != Order::default(), "--order"),
        (arguments.all_occurrences, "--all-occurrences"),
        (arguments.corrupt_reads, "--corrupt-reads"),
        (arguments.points_of.is_some(), "--points-of"),
        (arguments.at != At::default(), "--at"),
        (arguments.no_fork, "--no-fork"),
    ];
    let is_elsewhere =
        arguments.want.is_none() && arguments.strategy.as_deref() != Some(EXHAUSTIVE);
    match given.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, name)) if is_elsewhere => bail!("{name} is for --strategy {EXHAUSTIVE}"),
        _ => Ok(()),
    }
}

/// Notes in a manifest those that a campaign goes by: of a run without faults, which has to be ok, or of
/// another campaign; and what a search learns from it. Returns whether they are there: not if it was
/// interrupted.
pub(super) fn collect(
    arguments: &InjectArgs,
    file: &ClusterFile,
    manifest: &mut InjectManifest,
    seen_in: Option<&str>,
    interrupt: &Interrupt,
) -> anyhow::Result<bool> {
    refuse_without_disks(arguments, file)?;
    if let Some(directory) = &arguments.points_of {
        take_over(arguments, directory, manifest)?;
        return Ok(true);
    }
    if arguments.shard.is_some() {
        bail!(
            "shards need the same failure points: begin a campaign with --sample 1 --out DIR, and \
             give --points-of DIR to each"
        );
    }
    let kept = OwnDirectory::new(&std::env::temp_dir(), "points");
    let kept = kept.context("make a directory for what a run leaves")?;
    let Some(ran) = watched((file, manifest), Some(kept.path()), interrupt)? else {
        return Ok(false);
    };
    if ran.shows_wanted() {
        bail!(
            "a run without failures shows what is wanted: {}",
            why(&ran.judged)
        );
    }
    if ran.judged != Judged::Ok {
        bail!(
            "without faults the run is not ok, so nothing could be learned from failures: {}",
            why(&ran.judged)
        );
    }
    if ran.points.is_empty() {
        let what = nothing(arguments.at);
        bail!("{what} while the clients worked: there is no failure point");
    }
    if let Some(want) = &mut manifest.want {
        let files = RunFiles::kept(kept.path());
        want.learn(&manifest.nodes, (&ran, &files), &ran.points, seen_in)?;
    }
    manifest.collected = Some(collected_of(arguments, ran.points));
    Ok(true)
}

/// What there was none of, in words.
fn nothing(at: At) -> &'static str {
    match at {
        At::Calls => "no node made a call on its files",
        At::Messages => "no node sent a message to another one",
        At::Requests => "no node asked its disk for anything",
        At::All => "no node made a call on its files, or sent a message to another one,",
    }
}

/// Notes those of another campaign.
fn take_over(
    arguments: &InjectArgs,
    directory: &Path,
    manifest: &mut InjectManifest,
) -> anyhow::Result<()> {
    let at = directory.display();
    let known = injector::online::manifest(directory)?;
    let known = known.with_context(|| format!("{at} has no results of inject"))?;
    refuse_other_file(manifest, &known, directory)?;
    refuse_other_machines(manifest, &known, directory)?;
    refuse_other_points(manifest, &known, directory)?;
    let collected = known
        .collected
        .with_context(|| format!("{at} has no failure points"))?;
    if let (Some(want), Some(known)) = (&mut manifest.want, known.want) {
        known.teach(want);
    }
    manifest.collected = Some(collected_of(arguments, collected.points));
    Ok(())
}

/// Fails if the failure points of another campaign are those of another cluster.
fn refuse_other_file(
    manifest: &InjectManifest,
    known: &InjectManifest,
    directory: &Path,
) -> anyhow::Result<()> {
    if manifest.text == known.text {
        return Ok(());
    }
    bail!(
        "{} has failure points of another cluster file: give the same, or collect them again",
        directory.display()
    )
}

/// Fails if the failure points of another campaign do not come up in this one because of what is simulated.
fn refuse_other_machines(
    manifest: &InjectManifest,
    known: &InjectManifest,
    directory: &Path,
) -> anyhow::Result<()> {
    let at = directory.display();
    match (&manifest.simulated, &known.simulated) {
        (Some(_), None) => bail!(
            "{at} has failure points of a run in namespaces: on simulated machines they come up at \
             other times"
        ),
        (None, Some(_)) => bail!(
            "{at} has failure points of a run on simulated machines: in namespaces they come up at \
             other times"
        ),
        (Some(here), Some(there)) => match here.differs_from(there) {
            Some(what) => bail!(
                "{at} has failure points of simulated machines with another {what}: give the same, or \
                 collect them again"
            ),
            None => Ok(()),
        },
        (None, None) => Ok(()),
    }
}

/// Fails if the failure points of another campaign are of another kind.
fn refuse_other_points(
    manifest: &InjectManifest,
    known: &InjectManifest,
    directory: &Path,
) -> anyhow::Result<()> {
    if known.collected.is_none() || manifest.at == known.at {
        return Ok(());
    }
    let word = |at: At| {
        at.to_possible_value()
            .map_or_else(String::new, |it| it.get_name().into())
    };
    bail!(
        "{} has failure points that were collected with --at {}, and not {}: give the same",
        directory.display(),
        word(known.at),
        word(manifest.at)
    )
}

fn collected_of(arguments: &InjectArgs, points: Vec<SeenPoint>) -> Collected {
    Collected {
        points,
        all_occurrences: arguments.all_occurrences,
        failures_max: arguments.max_failures,
        order: arguments.order,
        corrupt_reads: arguments.corrupt_reads,
    }
}

#[cfg(test)]
mod tests {
    use injector::online::InjectDirectory;

    use super::super::tests::parsed;
    use super::*;

    #[test]
    fn failure_points_are_those_of_one_cluster_file() {
        let manifest = |name: &str| {
            let text = format!("[[nodes]]\nname = \"{name}\"\ncommand = \"sh\"\n");
            let file = ClusterFile::parse(&text, Path::new("c.toml"), Path::new("/"));
            InjectManifest::new(&file.expect("a cluster"), Path::new("/c.toml"))
        };
        let arguments = parsed(&["c.toml", "--strategy", EXHAUSTIVE]);
        let folder = tempfile::tempdir().expect("a directory");
        let known = InjectManifest {
            collected: Some(collected_of(&arguments, Vec::new())),
            ..manifest("a")
        };
        InjectDirectory::create(folder.path(), known).expect("created");
        let taken = |name| take_over(&arguments, folder.path(), &mut manifest(name));
        taken("a").expect("it is the same");
        let refused = taken("b").expect_err("it is another one").to_string();
        assert!(refused.contains("of another cluster file"), "{refused}");
    }
}
