//! `crashpoint cluster sweep --live`: power fails in a cluster that runs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat, Progress, Shard, quoted, say};
use clap::Args;
use cluster::ClusterFile;
use injector::{
    How, Keeps, Laboratory, LiveDirectory, LiveManifest, LiveResult, Plan, Selection, Summary,
    Victims, finding, findings, kernel_hash, sweep, table,
};

use super::simulate::{Level, settings};
use crate::states::VisitArgs;

/// What is asked of a live sweep beyond what every sweep is asked.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Run the cluster of a cluster file on simulated machines, and have the power fail while it
    /// runs, after each acknowledgement and at each request of a node to its disk; the cluster and its client go on, and the check
    /// asks for everything that was acknowledged
    #[arg(long, conflicts_with_all = ["explore", "starts", "again", "level", "states", "model", "lost", "split", "sector"])]
    pub(crate) live: bool,

    /// Whose power fails
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WHOSE,...",
        default_value = "all,one",
        requires = "live"
    )]
    victims: Vec<Victims>,

    /// What disks keep of what no flush covered
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WHAT,...",
        default_value = "flushed,prefix,some",
        requires = "live"
    )]
    keeps: Vec<Keeps>,

    /// The kernel of the simulated machines, if not the last that scripts/build-uml.sh built
    #[arg(long, value_name = "PATH", requires = "live")]
    kernel: Option<PathBuf>,

    /// How kernels disturb programs, as the seed says: see `cluster run --help`
    #[arg(long, value_enum, default_value_t, requires = "live")]
    chaos: Level,
}

/// Everything that a live sweep goes by.
struct Live<'a> {
    laboratory: Laboratory,
    manifest: LiveManifest,
    directory: Option<LiveDirectory>,
    visit: &'a VisitArgs,
    interrupt: &'a Interrupt,
}

/// Begins a live sweep of a cluster file.
pub(crate) fn begin(
    path: &Path,
    arguments: &LiveArgs,
    visit: &VisitArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let laboratory = laboratory(
        path,
        arguments.kernel.as_deref(),
        visit.seed,
        arguments.chaos,
    )?;
    if let Some(out) = visit.out() {
        campaign::Directory::refuse(out, &[])?;
    }
    say("running the cluster once without a failure");
    let reference = match laboratory.reference(&|| interrupt.requested()) {
        Err(injector::Error::Cluster(cluster::Error::Interrupted)) => {
            say("interrupted: nothing was tried yet");
            return Ok(Outcome::Incomplete);
        }
        other => other?,
    };
    let mut victims = distinct(&arguments.victims);
    if let Some(why) = reference
        .not_alone
        .filter(|_| victims.contains(&Victims::One))
    {
        let what = format!(
            "a failure of one node says nothing of this cluster: restarted alone, with nothing lost, {why}"
        );
        victims.retain(|victims| *victims != Victims::One);
        if victims.is_empty() {
            bail!("{what}");
        }
        say(&format!("--victims one is left out: {what}"));
    }
    let plan = Plan {
        victims,
        keeps: distinct(&arguments.keeps),
        ..reference.plan
    };
    let how = How {
        file: path.canonicalize()?.display().to_string(),
        chaos: arguments.chaos.name(),
        shard: visit.shard.map(|shard| shard.to_string()),
        sample: visit.sample,
    };
    let manifest = LiveManifest::new(&laboratory, plan, how).context("read the kernel")?;
    let directory = match visit.out() {
        Some(out) => Some(LiveDirectory::create(out, manifest.clone())?),
        None => None,
    };
    let live = Live {
        laboratory,
        manifest,
        directory,
        visit,
        interrupt,
    };
    live.go_on(vec![])
}

/// Continues the live sweep of a directory; nothing if it is one of another kind.
pub(crate) fn resume(
    directory: &Path,
    visit: &VisitArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    if injector::manifest(directory)?.is_none() {
        return Ok(None);
    }
    let mut opened = LiveDirectory::open(directory)?;
    let manifest = opened.manifest.clone();
    let laboratory = laboratory_of(&manifest, directory)?;
    let known = std::mem::take(&mut opened.known);
    let live = Live {
        laboratory,
        manifest,
        directory: Some(opened),
        visit,
        interrupt,
    };
    live.go_on(known).map(Some)
}

fn distinct<T: Copy + Ord>(given: &[T]) -> Vec<T> {
    let mut distinct = given.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

fn laboratory(
    path: &Path,
    kernel: Option<&Path>,
    seed: u64,
    chaos: Level,
) -> anyhow::Result<Laboratory> {
    let file = ClusterFile::read(path)?;
    if file.client.is_none() || file.check.is_none() {
        bail!(
            "{} has no [client] or no [check]: nobody could tell what is broken",
            path.display()
        );
    }
    Ok(Laboratory::new(file, settings(kernel, seed, chaos)?))
}

/// The cluster of a sweep that was begun, with its kernel.
pub(crate) fn laboratory_of(
    manifest: &LiveManifest,
    directory: &Path,
) -> anyhow::Result<Laboratory> {
    let other = |what: &'static str| injector::Error::OtherSweep {
        path: directory.into(),
        what,
    };
    let kernel = Path::new(&manifest.kernel);
    let chaos = Level::named(&manifest.chaos).with_context(|| {
        format!(
            "read the manifest in {}: there is no chaos `{}`",
            directory.display(),
            manifest.chaos
        )
    })?;
    let laboratory = laboratory(
        Path::new(&manifest.file),
        Some(kernel),
        manifest.seed,
        chaos,
    )?;
    if kernel_hash(kernel)? != manifest.kernel_hash {
        return Err(other("kernel").into());
    }
    if laboratory.file().text != manifest.text {
        return Err(other("cluster file").into());
    }
    Ok(laboratory)
}

impl Live<'_> {
    fn go_on(mut self, known: Vec<LiveResult>) -> anyhow::Result<Outcome> {
        let interrupt = self.interrupt;
        let shard = match &self.manifest.shard {
            Some(text) => Shard::of_manifest(Some(text))?,
            None => None,
        };
        let selection = Selection {
            sample: self.manifest.sample,
            shard,
            ..self.visit.live_selection()
        };
        let total = self.manifest.plan.len();
        let mut progress = Progress::new("live", "failures", Some(total));
        let (directory, visit) = (&mut self.directory, self.visit);
        let mut counts = (0, 0);
        for result in &known {
            count(&mut counts, result);
        }
        let summary = sweep(
            &self.laboratory,
            &self.manifest.plan,
            &selection,
            known,
            &mut |result, done, wanted| {
                count(&mut counts, result);
                if let Some(directory) = directory.as_mut() {
                    directory.append(result)?;
                }
                if visit.format() == OutputFormat::Json {
                    let line = serde_json::to_string(result).expect("only text and numbers");
                    let written = progress.suspend(|| writeln!(io::stdout(), "{line}"));
                    if written.is_err() {
                        interrupt.request();
                    }
                }
                progress.set(done, wanted, counts.0, counts.1);
                Ok(())
            },
            &|| interrupt.requested(),
        );
        progress.finish();
        let summary = summary?;
        if let Some(directory) = directory.as_mut() {
            directory.finish(&summary)?;
        }
        self.tell(&summary)
    }

    fn tell(&self, summary: &Summary) -> anyhow::Result<Outcome> {
        let outcome = if summary.broken() > 0 {
            Outcome::Findings
        } else if summary.is_cut_off || summary.inconclusive() > 0 {
            Outcome::Incomplete
        } else {
            Outcome::Clean
        };
        if summary.is_cut_off {
            let left = summary.wanted - summary.results.len() as u64;
            let how = match self.directory {
                Some(_) => "; --resume DIR continues",
                None => "",
            };
            say(&format!("not tried: {left} failures{how}"));
        }
        if self.visit.format() == OutputFormat::Json {
            return Ok(outcome);
        }
        let mut out = io::stdout().lock();
        out.write_all(listed(&summary.results, &self.manifest, self.visit.out()).as_bytes())?;
        out.write_all(table(summary, &self.manifest).as_bytes())?;
        Ok(outcome)
    }
}

fn count(counts: &mut (u64, u64), result: &LiveResult) {
    match &result.judged {
        injector::Judged::Ok => {}
        injector::Judged::Broken { .. } => counts.0 += 1,
        injector::Judged::Inconclusive { .. } => counts.1 += 1,
    }
}

/// The findings, each with the command that has it happen again.
pub(crate) fn listed(
    results: &[LiveResult],
    manifest: &LiveManifest,
    directory: Option<&Path>,
) -> String {
    let mut text = String::new();
    for (place, (result, alike)) in findings(results).into_iter().enumerate() {
        text += &finding(place + 1, result, alike, manifest);
        if let Some(directory) = directory {
            text += &format!(
                "  replay        {} replay {} {}\n",
                campaign::own_call(),
                quoted(&directory.to_string_lossy()),
                place + 1
            );
        }
        text.push('\n');
    }
    text
}
