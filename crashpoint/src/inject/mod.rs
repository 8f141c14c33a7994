//! `crashpoint inject`: faults while a cluster runs.

mod bench;
mod finding;
mod forks;
mod ground;
mod lanes;
mod points;
mod specs;
mod want;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use campaign::{Interrupt, Outcome, OutputFormat, Shard, own_call, quoted, say};
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use cluster::{ClusterFile, SimulatedCluster};
use injector::online::{
    At, EXHAUSTIVE, Exhaustive, FaultPlan, InjectDirectory, InjectManifest, InjectResult, Order,
    Repeated, STRATEGIES, Search, Selection, Strategy, Summary, campaign, headline, strategy,
    table, timeline,
};

pub(crate) use bench::{InjectBench, bench};
pub(crate) use finding::{minimize, replay, show, summary_of};
use forks::{Forks, can_be_forked};
use ground::{on_machines, refuse_other_kernel, surroundings_of};
pub(crate) use lanes::{history_of, history_path, lanes_of, rules_of};
pub(crate) use specs::Finished;

use specification::About;

use crate::cluster::MachinesArgs;

/// The arguments of `crashpoint inject`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
#[command(group(ArgGroup::new("proposes").args(["strategy", "want"]).multiple(true)))]
pub(crate) struct InjectArgs {
    /// The cluster file
    #[arg(
        value_name = "FILE",
        required_unless_present = "resume",
        conflicts_with = "resume"
    )]
    file: Option<PathBuf>,

    /// The faults: a TOML file, see docs/injection.md
    #[arg(
        long,
        value_name = "PLAN",
        required_unless_present_any = ["resume", "strategy", "points", "want"],
        conflicts_with = "resume"
    )]
    plan: Option<PathBuf>,

    /// What chooses the faults in place of a plan: see docs/injection.md
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(strategies()),
        conflicts_with_all = ["plan", "resume", "repeat"]
    )]
    strategy: Option<String>,

    /// Search for a failure that makes this happen, and stop at the first: `log: TEXT`, a node logs a line
    /// with this text; `exit`, or `exit: TEXT`, a node ends by itself, and how; `found: TEXT`, the check
    /// or the history says that this is broken; or rules with a violation
    ///
    /// The failures are those of the strategy `exhaustive`, those first that have to do with the text;
    /// what each run logs says where to look next. Exit status: 1 a run shows it, 3 none does.
    #[arg(
        long,
        value_name = "WANT",
        conflicts_with_all = ["plan", "points", "resume", "repeat"]
    )]
    want: Option<String>,

    /// With --want: the log in which it was seen. What it has in common with the log of a run without
    /// failures says when the failure came
    #[arg(
        long,
        value_name = "FILE",
        requires = "want",
        conflicts_with = "points_of"
    )]
    seen_in: Option<PathBuf>,

    /// Print the failure points of a run without faults: which calls nodes make on which files, where
    /// in the program, how often; with --at, which messages nodes send, or what they ask their disks for.
    /// Nothing is injected
    #[arg(
        long,
        conflicts_with_all = ["plan", "strategy", "resume", "repeat", "spec", "budget", "stop_after",
            "out"]
    )]
    points: bool,

    /// Of --points and the strategy `exhaustive`: at which failure points: calls of nodes on their files,
    /// messages between nodes, or requests to their disks
    #[arg(long, value_enum, default_value_t, conflicts_with = "resume")]
    at: At,

    /// Of the strategy `exhaustive`: try every occurrence of a failure point, and not only the first,
    /// the last and one in the middle
    #[arg(long, requires = "proposes", conflicts_with = "resume")]
    all_occurrences: bool,

    /// Of --points and the strategy `exhaustive`: a read that returns wrong bytes once is a failure, too.
    /// Not every program promises to notice that
    #[arg(long, conflicts_with = "resume")]
    corrupt_reads: bool,

    /// Of the strategy `exhaustive`: so many failures in a run at most. Each further one is at a call,
    /// message or request that came after those before, such as in recovery
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "resume",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    max_failures: u64,

    /// Of the strategy `exhaustive`: the order of runs with more than one failure: those that are likely to
    /// show something new first, only these, or by the number of the run that they begin with
    #[arg(long, value_enum, default_value_t, conflicts_with = "resume")]
    order: Order,

    /// Of the strategy `exhaustive`: take the failure points of the campaign in DIR, as shards need
    /// them to be the same
    #[arg(
        long,
        value_name = "DIR",
        requires = "proposes",
        conflicts_with = "resume"
    )]
    points_of: Option<PathBuf>,

    /// Hold each run against the rules in FILE as well: what they call a violation is broken; see
    /// docs/specifications.md. The cluster file comes before it
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    spec: Vec<PathBuf>,

    #[command(flatten)]
    machines: MachinesArgs,

    /// Of the strategy `exhaustive` and --want with --simulate: boot the cluster for each run, instead of
    /// making it ready once and forking its kernels for each
    #[arg(long, conflicts_with = "points")]
    no_fork: bool,

    /// The seed of what a strategy draws, and of the simulated machines of the first run: each run
    /// has the next, but all of the strategy `exhaustive` have this one (0)
    #[arg(long, value_name = "S", conflicts_with = "resume")]
    seed: Option<u64>,

    /// Try only the first N plans of a strategy
    #[arg(
        long,
        value_name = "N",
        requires = "proposes",
        conflicts_with = "resume",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    sample: Option<u64>,

    /// Run the plan N times
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "resume", value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,

    /// Try part I of N of the runs only; `crashpoint merge` puts the parts together
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,

    /// Begin no more runs after so long, such as 10m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,

    /// Stop after N runs that broke something; with --resume, N more
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: Option<u64>,

    /// How many runs to make side by side
    #[arg(long, short, value_name = "N", default_value_t = 1, conflicts_with = "points", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,

    /// A new directory for the results, and what each run leaves: history, logs
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Continue what was begun in DIR, which --out named
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "shard"])]
    resume: Option<PathBuf>,

    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// Everything that a campaign goes by.
struct Campaign<'a> {
    file: ClusterFile,
    manifest: InjectManifest,
    directory: Option<InjectDirectory>,
    arguments: &'a InjectArgs,
    interrupt: &'a Interrupt,
}

/// The names of all strategies.
fn strategies() -> impl Iterator<Item = &'static str> {
    STRATEGIES
        .into_iter()
        .map(|(name, _)| name)
        .chain([EXHAUSTIVE])
}

/// Does it.
pub(crate) fn run(arguments: &InjectArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    refuse_seed(arguments)?;
    if arguments.no_fork && !arguments.machines.simulate && arguments.resume.is_none() {
        bail!("--no-fork is for --simulate: nothing is forked in namespaces");
    }
    if arguments.points {
        return points::print(arguments, interrupt);
    }
    let campaign = match &arguments.resume {
        Some(directory) => Some(resumed(directory, arguments, interrupt)?),
        None => begun(arguments, interrupt)?,
    };
    match campaign {
        Some(campaign) => campaign.go_on(),
        None => Ok(Outcome::Incomplete),
    }
}

/// Fails if there is a seed, and nothing that is drawn with it.
fn refuse_seed(arguments: &InjectArgs) -> anyhow::Result<()> {
    let is_of_strategy =
        arguments.strategy.is_some() || arguments.want.is_some() || arguments.points;
    if arguments.seed.is_some() && !is_of_strategy && !arguments.machines.simulate {
        bail!(
            "--seed is for --strategy and --simulate, and for --want and --points: what a plan draws, it \
             draws with its own seed"
        );
    }
    Ok(())
}

/// Nothing if it was interrupted before there was something to continue.
fn begun<'a>(
    arguments: &'a InjectArgs,
    interrupt: &'a Interrupt,
) -> anyhow::Result<Option<Campaign<'a>>> {
    let path = arguments.file.as_deref().context("clap wants one")?;
    // Before the run that collects failure points.
    if let Some(out) = &arguments.out {
        InjectDirectory::refuse(out)?;
    }
    points::refuse_elsewhere(arguments)?;
    let file = read_file(path, arguments.machines.simulate)?;
    let specifications = crate::specs::read(&arguments.spec, About::Run)?;
    if specifications.is_empty() && arguments.want.is_none() {
        refuse_unjudged(&file, path)?;
    } else {
        refuse_idle(&file, path)?;
    }
    let mut manifest = InjectManifest {
        specifications,
        ..manifest_of(arguments, path, &file)?
    };
    let seen_in = want::prepare(arguments, &mut manifest)?;
    if manifest.strategy.as_deref() == Some(EXHAUSTIVE) {
        let seen_in = seen_in.as_deref();
        if !points::collect(arguments, &file, &mut manifest, seen_in, interrupt)? {
            say("interrupted while failure points were collected: nothing was begun");
            return Ok(None);
        }
    }
    let directory = arguments.out.as_deref();
    let directory = directory.map(|out| InjectDirectory::create(out, manifest.clone()));
    Ok(Some(Campaign {
        file,
        manifest,
        directory: directory.transpose()?,
        arguments,
        interrupt,
    }))
}

/// The manifest of a campaign that begins, without its specifications.
fn manifest_of(
    arguments: &InjectArgs,
    path: &Path,
    file: &ClusterFile,
) -> anyhow::Result<InjectManifest> {
    let simulate = arguments.machines.simulate;
    let seed = arguments.seed.unwrap_or_default();
    let mut manifest = InjectManifest::new(file, &path.canonicalize()?);
    manifest.simulated = on_machines(&arguments.machines, file, seed)?;
    manifest.shard = arguments.shard.map(|shard| shard.to_string());
    if let Some(path) = &arguments.plan {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let plan = FaultPlan::parse(&text, path, file)?;
        let refused = plan.refuse_on(simulate);
        refused.map_err(|what| anyhow!("{}: {what}", path.display()))?;
        manifest.seed = plan.seed;
        manifest.plan = Some(plan.to_string());
        manifest.first = Some(arguments.repeat);
    } else {
        manifest.strategy.clone_from(&arguments.strategy);
        manifest.at = arguments.at;
        if arguments.want.is_some() {
            manifest.strategy = Some(EXHAUSTIVE.to_owned());
        }
        manifest.seed = seed;
        manifest.first = arguments.sample;
    }
    Ok(manifest)
}

fn resumed<'a>(
    path: &Path,
    arguments: &'a InjectArgs,
    interrupt: &'a Interrupt,
) -> anyhow::Result<Campaign<'a>> {
    if arguments.machines.simulate {
        bail!("--resume goes on as it was begun: leave out --simulate");
    }
    let directory = InjectDirectory::open(path)?;
    Ok(Campaign {
        file: file_of(&directory.manifest, path)?,
        manifest: directory.manifest.clone(),
        directory: Some(directory),
        arguments,
        interrupt,
    })
}

/// Without these nobody could tell what is broken.
fn refuse_unjudged(file: &ClusterFile, path: &Path) -> anyhow::Result<()> {
    refuse_idle(file, path)?;
    let path = path.display();
    if file.check.is_none() && file.histories.is_empty() {
        bail!("{path} has no [check], and no [[histories]]: nobody could tell what is broken");
    }
    Ok(())
}

/// Without clients nothing is done.
fn refuse_idle(file: &ClusterFile, path: &Path) -> anyhow::Result<()> {
    if file.all_clients().is_empty() {
        let path = path.display();
        bail!(
            "{path} has no [client], and no [[clients]]: nothing would be done while faults happen"
        );
    }
    Ok(())
}

/// A cluster file, as it is on its ground.
fn read_file(path: &Path, simulate: bool) -> anyhow::Result<ClusterFile> {
    Ok(on_ground(ClusterFile::read(path)?, simulate))
}

/// That of a campaign that was begun: simulated machines have the `PATH` of whoever began.
fn read_begun(manifest: &InjectManifest) -> anyhow::Result<ClusterFile> {
    let path = Path::new(&manifest.file);
    match &manifest.simulated {
        None => read_file(path, false),
        Some(on) => {
            let search = surroundings_of(on)?.search_path();
            Ok(on_ground(ClusterFile::read_for(path, &search)?, true))
        }
    }
}

/// The cluster file that a campaign keeps. Its programs may be on another machine.
fn kept_file(manifest: &InjectManifest) -> anyhow::Result<ClusterFile> {
    let path = Path::new(&manifest.file);
    let folder = path.parent().unwrap_or(Path::new("/"));
    let file = ClusterFile::parse(&manifest.text, path, folder)?;
    Ok(on_ground(file, manifest.simulated.is_some()))
}

fn on_ground(file: ClusterFile, simulate: bool) -> ClusterFile {
    if simulate {
        SimulatedCluster::with_disks(file)
    } else {
        file
    }
}

/// The cluster file of a campaign that was begun, if it and the kernel of simulated machines are still
/// those.
fn file_of(manifest: &InjectManifest, directory: &Path) -> anyhow::Result<ClusterFile> {
    let file = read_begun(manifest)?;
    refuse_other_kernel(manifest, directory)?;
    if file.text != manifest.text {
        return Err(injector::Error::OtherSweep {
            path: directory.into(),
            what: "cluster file",
        }
        .into());
    }
    Ok(file)
}

/// What proposes the plans of a campaign.
fn strategy_of(manifest: &InjectManifest, file: &ClusterFile) -> anyhow::Result<Box<dyn Strategy>> {
    let InjectManifest { seed, first, .. } = *manifest;
    if let Some(collected) = &manifest.collected {
        let all = Exhaustive::new(file, seed, collected);
        return Ok(match &manifest.want {
            Some(want) => Box::new(Search::new(all, want.clone())),
            None => Box::new(all),
        });
    }
    if let Some(name) = &manifest.strategy {
        let found = strategy(name, file, seed);
        return found.with_context(|| format!("there is no strategy {name}"));
    }
    let text = manifest.plan.as_deref().context("it has no plan")?;
    let plan = FaultPlan::parse(text, Path::new("the plan of the results"), file)?;
    Ok(Box::new(Repeated {
        plan,
        times: first.unwrap_or(1),
    }))
}

impl Campaign<'_> {
    fn go_on(mut self) -> anyhow::Result<Outcome> {
        let mut strategy = strategy_of(&self.manifest, &self.file)?;
        let selection = self.selection()?;
        let known = self
            .directory
            .as_mut()
            .map(|directory| std::mem::take(&mut directory.known));
        let known = known.unwrap_or_default();
        let summary = match self.make_runs(strategy.as_mut(), &selection, known) {
            Err(error) => {
                // A campaign of which nothing could be run leaves nothing.
                if let Some(directory) = &self.directory {
                    directory.remove_if_new();
                }
                return Err(error.into());
            }
            Ok(summary) => summary,
        };
        if let Some(directory) = &mut self.directory {
            directory.finish(&summary)?;
        }
        self.conclude(&summary)
    }

    /// Which runs are made, from now on.
    fn selection(&self) -> anyhow::Result<Selection> {
        let budget = self.arguments.budget;
        Ok(Selection {
            first: self.manifest.first,
            shard: Shard::of_manifest(self.manifest.shard.as_deref())?,
            deadline: budget.map(|budget| Instant::now() + budget),
            // Whoever searches wants one, or one more.
            stop_after: self
                .arguments
                .stop_after
                .or(self.manifest.want.as_ref().map(|_| 1)),
            jobs: self.arguments.jobs.into(),
        })
    }

    /// Makes the runs that are not known yet; keeps and tells what comes of each.
    fn make_runs(
        &mut self,
        strategy: &mut dyn Strategy,
        selection: &Selection,
        known: Vec<InjectResult>,
    ) -> injector::Result<Summary> {
        let (file, interrupt) = ((&self.file, &self.manifest), self.interrupt);
        let format = self.arguments.format;
        let directory = Mutex::new(self.directory.as_mut());
        let locked = || directory.lock().expect("no holder panics");
        let kept_of = |index: u64| match locked().as_ref() {
            Some(directory) => directory.run_directory(index).map(Some),
            None => Ok(None),
        };
        let cancelled = || interrupt.requested();
        let are_forked = !self.arguments.no_fork && can_be_forked(file)?;
        let make = || Forks::new(file, &cancelled, interrupt, are_forked).keeping(&kept_of);
        let mut keep = |result: &InjectResult| {
            if let Some(directory) = locked().as_mut() {
                directory.append(result)?;
            }
            told(result, &self.manifest, format, interrupt);
            Ok(())
        };
        if format == OutputFormat::Json {
            let known = known.iter();
            known.for_each(|result| told(result, &self.manifest, format, interrupt));
        }
        campaign(strategy, selection, known, &make, &mut keep)
    }

    fn conclude(&self, summary: &Summary) -> anyhow::Result<Outcome> {
        if self.arguments.format == OutputFormat::Text {
            io::stdout()
                .lock()
                .write_all(table(summary, &self.manifest).as_bytes())?;
        }
        if summary.is_cut_off {
            let how = self
                .directory
                .as_ref()
                .map(|directory| format!(": continue with: {}", resume_words(directory.path())));
            let how = how.unwrap_or_default();
            say(&format!("stopped before all runs were made{how}"));
        }
        Ok(outcome(summary, &self.manifest))
    }
}

/// The command with which a campaign goes on.
pub(crate) fn resume_words(directory: &Path) -> String {
    let directory = directory.to_string_lossy();
    format!("{} inject --resume {}", own_call(), quoted(&directory))
}

/// What the shards of a campaign came to, put together.
pub(crate) fn merge(
    parts: &[PathBuf],
    out: &Path,
    incomplete: bool,
    format: OutputFormat,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let (mut merged, is_whole) = injector::online::merge(parts, out, incomplete)?;
    let file = kept_file(&merged.manifest)?;
    let selection = Selection {
        first: merged.manifest.first,
        ..Selection::default()
    };
    let results = std::mem::take(&mut merged.known);
    let mut left_out = BTreeMap::new();
    for part in parts {
        for (role, count) in summary_of(part, Vec::new()).left_out {
            *left_out.entry(role).or_default() += count;
        }
    }
    let strategy = strategy_of(&merged.manifest, &file)?;
    let summary = Summary {
        is_cut_off: !is_whole,
        left_out,
        ..Summary::of(results, strategy.as_ref(), &selection)
    };
    if is_whole {
        merged.finish(&summary)?;
    } else {
        say(&format!(
            "continue with what is missing with: {}",
            resume_words(out)
        ));
    }
    match format {
        OutputFormat::Json => summary
            .results
            .iter()
            .for_each(|result| told(result, &merged.manifest, format, interrupt)),
        OutputFormat::Text => io::stdout()
            .lock()
            .write_all(table(&summary, &merged.manifest).as_bytes())?,
    }
    Ok(outcome(&summary, &merged.manifest))
}

/// What a campaign's exit status says. A search that found nothing has no answer. A strategy that brought about nothing of what should happen
/// sometimes has shown nothing.
pub(crate) fn outcome(summary: &Summary, manifest: &InjectManifest) -> Outcome {
    let is_uneventful =
        || manifest.strategy.is_some() && summary.is_uneventful(&manifest.sometimes);
    if manifest.want.is_some() {
        return if summary.shown() > 0 {
            Outcome::Findings
        } else {
            Outcome::Incomplete
        };
    }
    if summary.broken() > 0 {
        Outcome::Findings
    } else if is_uneventful()
        || summary.is_cut_off
        || summary.inconclusive() > 0
        || !summary.never_looked().is_empty()
        || !summary.never_judged().is_empty()
        || summary.results.is_empty()
    {
        Outcome::Incomplete
    } else {
        Outcome::Clean
    }
}

/// A run in words.
pub(crate) fn story(result: &InjectResult, manifest: &InjectManifest) -> String {
    headline(result) + &timeline(&result.ran, manifest.simulated.as_ref()) + "\n"
}

/// Prints what came of a run.
fn told(
    result: &InjectResult,
    manifest: &InjectManifest,
    format: OutputFormat,
    interrupt: &Interrupt,
) {
    let text = match format {
        OutputFormat::Json => {
            serde_json::to_string(result).expect("it has only text and numbers") + "\n"
        }
        OutputFormat::Text => story(result, manifest),
    };
    let mut out = io::stdout().lock();
    if out
        .write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .is_err()
    {
        // The reader is gone, and with it who wanted to look.
        interrupt.request();
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        arguments: InjectArgs,
    }

    /// The arguments of `crashpoint inject` in these words.
    pub(super) fn parsed(words: &[&str]) -> InjectArgs {
        let words = [&["inject"], words].concat();
        Words::try_parse_from(words)
            .expect("they are right")
            .arguments
    }

    /// The seed is also that of clients.
    #[test]
    fn a_seed_is_for_whatever_tries_the_plans_of_a_strategy() {
        let refused = |words: &[&str]| {
            let words = [&["c.toml", "--seed", "7"], words].concat();
            refuse_seed(&parsed(&words)).is_err()
        };
        for words in [
            &["--strategy", "exhaustive"][..],
            &["--want", "exit"],
            &["--points"],
            &["--plan", "p.toml", "--simulate"],
        ] {
            assert!(!refused(words), "{words:?}");
        }
        assert!(refused(&["--plan", "p.toml"]));
    }
}
