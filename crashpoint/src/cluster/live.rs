//! `crashpoint cluster sweep --live`: power fails in a cluster that runs.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use campaign::{Interrupt, Outcome, OutputFormat, Progress, Shard, quoted, say};
use clap::Args;
use cluster::ClusterFile;
use injector::{
    Asked, At, Keeps, Laboratory, LiveDirectory, LiveManifest, LiveResult, Reference, Rules,
    SeedPlan, Selection, Summary, Victims, all_failures, finding, findings, inconclusive,
    kernel_hash, sweep, table,
};
use local_fs::Variant;
use simulation::{Network, Spread};

use super::simulate::settings;
use super::surroundings::{ChaosWords, Disks, Surroundings};
use crate::recover::AgainArgs;
use crate::states::VisitArgs;

/// What is asked of a live sweep beyond what every sweep is asked.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Run the cluster of a cluster file on simulated machines, and have the power fail while it
    /// runs; the cluster and its client go on, and the check asks for everything that was
    /// acknowledged
    #[arg(long, conflicts_with_all = ["explore", "starts", "level", "model", "lost", "split", "resume"])]
    pub(crate) live: bool,

    /// It always does: for those who know the option of `cluster run`
    #[arg(long, hide = true, requires = "live")]
    simulate: bool,

    /// At what the power fails
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "AT,...",
        default_value = "acks,requests",
        requires = "live"
    )]
    points: Vec<At>,

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

    /// Sweep the runs of several seeds, from A to B, one after the other. --sample is of each seed,
    /// and --shard divides the seeds
    #[arg(long, value_name = "A..B", requires = "live", conflicts_with = "seed")]
    seeds: Option<Seeds>,

    /// The kernel of the simulated machines, if not the last that scripts/build-uml.sh built from
    /// linux-source-6.1, or else from linux-source-6.12
    #[arg(long, value_name = "PATH", requires = "live")]
    kernel: Option<PathBuf>,

    /// How kernels disturb programs, as the seed says: see `cluster run --help`
    #[arg(
        long,
        value_name = "LEVEL[:PART,...]",
        default_value_t,
        requires = "live"
    )]
    chaos: ChaosWords,

    /// Boot the cluster for each failure, instead of running it once up to some moments and forking
    /// its kernels there
    #[arg(long, requires = "live")]
    no_fork: bool,

    /// What the network of the machines is like: see `cluster run --help`
    #[arg(long, value_name = "WORD=VALUE,...", requires = "live")]
    network: Option<Network>,

    /// How far the clocks of the machines are apart: see `cluster run --help`
    #[arg(long, value_name = "OFFSET[,PPM]", requires = "live")]
    clocks: Option<Spread>,

    /// How the disks of the machines behave: see `cluster run --help`
    #[arg(long, value_name = "DISKS", requires = "live")]
    disks: Option<Disks>,
}

/// Why the power cannot fail again.
const REPAIRED: &str = "--again: nobody promises what is left if the power fails during a repair";

/// Seeds from one to another, both included.
#[derive(Debug, Clone, Copy)]
struct Seeds(u64, u64);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (first, last) = text.split_once("..")?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some(Self(first, last))
        };
        read().ok_or_else(|| "expected A..B, two numbers, the smaller one first".into())
    }
}

/// Everything that a live sweep goes by.
struct Live<'a> {
    manifest: LiveManifest,
    /// The runs without a failure that were made.
    plans: Vec<SeedPlan>,
    directory: Option<LiveDirectory>,
    visit: &'a VisitArgs,
    interrupt: &'a Interrupt,
}

impl LiveArgs {
    fn surroundings(&self) -> Surroundings {
        Surroundings {
            chaos: self.chaos.clone(),
            network: self.network.clone(),
            clocks: self.clocks.clone(),
            disks: self.disks,
            environment: None,
        }
    }

    /// The manifest of a live sweep of a cluster file that begins.
    fn manifest(
        &self,
        path: &Path,
        again: AgainArgs,
        visit: &VisitArgs,
    ) -> anyhow::Result<LiveManifest> {
        let specifications = visit.live_specifications()?;
        let Seeds(first, last) = self.seeds.unwrap_or(Seeds(visit.seed, visit.seed));
        let laboratory = laboratory(path, self.kernel.as_deref(), first, &self.surroundings())?;
        if let Some(out) = visit.out() {
            LiveDirectory::refuse(out)?;
        }
        if again.wanted().0 > 0
            && let Some(file_system) = &laboratory.file().disk
        {
            Variant::for_programs(file_system).context(REPAIRED)?;
        }
        let can_fork = !self.no_fork && can_fork(&laboratory);
        let asked = self.asked((first, last), can_fork, again, visit, laboratory.file())?;
        let shard = visit.shard.map(|shard| shard.to_string());
        let path = path.canonicalize()?;
        let manifest = LiveManifest::new(&laboratory, &path, asked, shard);
        Ok(LiveManifest {
            specifications,
            ..manifest.context("read the kernel")?
        })
    }

    /// What the manifest says of a sweep of these seeds.
    fn asked(
        &self,
        seeds: (u64, u64),
        fork: bool,
        again: AgainArgs,
        visit: &VisitArgs,
        file: &ClusterFile,
    ) -> anyhow::Result<Asked> {
        let (again, recoveries) = again.wanted();
        Ok(Asked {
            seeds,
            surrounded: self.surroundings().kept(),
            points: distinct(&self.points),
            victims: whose(&self.victims, file)?,
            states: visit.states.of_live()?,
            again,
            recoveries,
            sample: visit.sample,
            fork,
        })
    }
}

/// Begins a live sweep of a cluster file.
pub(crate) fn begin(
    path: &Path,
    arguments: &LiveArgs,
    again: AgainArgs,
    visit: &VisitArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let mut live = Live {
        manifest: arguments.manifest(path, again, visit)?,
        plans: Vec::new(),
        directory: None,
        visit,
        interrupt,
    };
    // What cannot be swept at all leaves no directory.
    let seeds = live.seeds()?;
    let Some(seed) = seeds.clone().next() else {
        bail!("this shard has no seed: there are fewer seeds than shards");
    };
    let Some(plan) = live.reference(seed)? else {
        say("interrupted: nothing was tried yet");
        return Ok(Outcome::Incomplete);
    };
    if let Some(out) = visit.out() {
        live.directory = Some(LiveDirectory::create(out, live.manifest.clone())?);
    }
    live.know(plan)?;
    live.go_on(vec![])
}

/// Whether the kernel can be forked; says so if not.
pub(super) fn can_fork(laboratory: &Laboratory) -> bool {
    let refused = laboratory.settings().kernel.refuse_unforkable();
    if let Err(why) = &refused {
        say(&format!("without forks: {why}"));
    }
    refused.is_ok()
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
    laboratory_of(&manifest, directory, manifest.asked.seeds.0, interrupt)?;
    let known = std::mem::take(&mut opened.known);
    let live = Live {
        manifest,
        plans: std::mem::take(&mut opened.plans),
        directory: Some(opened),
        visit,
        interrupt,
    };
    live.go_on(known).map(Some)
}

/// What the shards of a live sweep came to, put together.
pub(crate) fn merge(
    parts: &[PathBuf],
    out: &Path,
    incomplete: bool,
    format: OutputFormat,
) -> anyhow::Result<Outcome> {
    let (mut merged, is_whole) = injector::merge(parts, out, incomplete)?;
    let mut summary = Summary {
        is_cut_off: !is_whole,
        results: std::mem::take(&mut merged.known),
        seeds: merged.plans.len() as u64,
        ..Summary::default()
    };
    let of_parts = parts.iter().filter_map(|part| injector::summary(part));
    let wanted = of_parts.map(|part| part["wanted"].as_u64().unwrap_or_default());
    summary.wanted = wanted.sum();
    summary.all = all_failures(&merged.plans, &summary.results);
    summary.results.sort_by(|a, b| a.address.cmp(&b.address));
    if is_whole {
        merged.finish(&summary)?;
    } else {
        say(&format!(
            "continue with what is missing with: crashpoint cluster sweep --resume {}",
            out.display()
        ));
    }
    if format == OutputFormat::Json {
        write_json(&summary.results)?;
    }
    print(&summary, &merged.manifest, Some(out), format)?;
    Ok(outcome(&summary))
}

fn distinct<T: Copy + Ord>(given: &[T]) -> Vec<T> {
    let mut distinct = given.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Of a single node all is one.
fn whose(given: &[Victims], file: &ClusterFile) -> anyhow::Result<Vec<Victims>> {
    let mut victims = distinct(given);
    match file.nodes.len() {
        1 => victims = vec![Victims::All],
        2 if victims.contains(&Victims::Several) => {
            bail!("--victims several takes three nodes: of two, all are several")
        }
        _ => {}
    }
    Ok(victims)
}

/// Whose failure says something, of those that are asked for. Of the others it is said why they say nothing.
fn believed(asked: &[Victims], reference: &Reference) -> anyhow::Result<Vec<Victims>> {
    let mut victims = asked.to_vec();
    let alone = ("alone", &reference.not_alone, &[Victims::All][..]);
    let all_or_one = &[Victims::All, Victims::One][..];
    let several = ("while one goes on", &reference.not_several, all_or_one);
    for (how, why, left) in [alone, several] {
        let Some(why) = why.as_ref() else { continue };
        if victims.iter().all(|victims| left.contains(victims)) {
            continue;
        }
        let what = format!(
            "a failure of some nodes says nothing of this cluster: restarted {how}, with nothing lost, {why}"
        );
        victims.retain(|victims| left.contains(victims));
        if victims.is_empty() {
            bail!("{what}; use --victims all");
        }
        say(&format!("left out of --victims: {what}"));
    }
    Ok(victims)
}

pub(super) fn laboratory(
    path: &Path,
    kernel: Option<&Path>,
    seed: u64,
    surroundings: &Surroundings,
) -> anyhow::Result<Laboratory> {
    let file = ClusterFile::read_for(path, &surroundings.search_path())?;
    if file.client.is_none() || file.check.is_none() {
        bail!(
            "{} has no [client] or no [check]: nobody could tell what is broken",
            path.display()
        );
    }
    let settings = settings(&file, kernel, seed, surroundings)?;
    Ok(Laboratory::new(file, settings))
}

/// The cluster of a sweep that was begun, with its kernel, its specifications and one of its seeds.
pub(crate) fn laboratory_of(
    manifest: &LiveManifest,
    directory: &Path,
    seed: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<Laboratory> {
    let other = |what: &'static str| injector::Error::OtherSweep {
        path: directory.into(),
        what,
    };
    let kernel = Path::new(&manifest.kernel);
    let surroundings = Surroundings::recorded(&manifest.asked.surrounded)
        .map_err(|what| anyhow!("read the manifest in {}: {what}", directory.display()))?;
    let laboratory = laboratory(Path::new(&manifest.file), Some(kernel), seed, &surroundings)?;
    if kernel_hash(kernel)? != manifest.kernel_hash {
        return Err(other("kernel").into());
    }
    if laboratory.file().text != manifest.text {
        return Err(other("cluster file").into());
    }
    let interrupt = interrupt.clone();
    Ok(laboratory.held_against(Rules {
        specifications: manifest.specifications.clone(),
        stops: Arc::new(move || interrupt.requested()),
    }))
}

impl Live<'_> {
    fn shard(&self) -> anyhow::Result<Option<Shard>> {
        Ok(Shard::of_manifest(self.manifest.shard.as_deref())?)
    }

    /// The seeds that are this sweep's.
    fn seeds(&self) -> anyhow::Result<impl Iterator<Item = u64> + Clone + use<>> {
        let (first, last) = self.manifest.asked.seeds;
        let shard = self.shard()?.filter(|_| first != last);
        let is_ours = move |seed: &u64| shard.is_none_or(|shard| shard.contains(*seed - first));
        Ok((first..=last).filter(is_ours))
    }

    fn laboratory(&self, seed: u64) -> anyhow::Result<Laboratory> {
        let directory = self.visit.out().unwrap_or(Path::new(""));
        laboratory_of(&self.manifest, directory, seed, self.interrupt)
    }

    /// Runs the cluster of a seed without a failure; nothing if somebody interrupts.
    fn reference(&self, seed: u64) -> anyhow::Result<Option<SeedPlan>> {
        let asked = &self.manifest.asked;
        say(&format!(
            "running the cluster once without a failure (seed {seed})"
        ));
        let laboratory = self.laboratory(seed)?;
        let several = asked.victims.contains(&Victims::Several);
        let cancelled = || self.interrupt.requested();
        let reference = laboratory.reference(&asked.points, several, &cancelled);
        let reference = match reference {
            Err(injector::Error::Cluster(cluster::Error::Interrupted)) => return Ok(None),
            other => other?,
        };
        let plan = injector::Plan {
            victims: believed(&asked.victims, &reference)?,
            keeps: Keeps::of(&asked.states),
            ..reference.plan
        };
        Ok(Some(SeedPlan {
            seed,
            plan,
            not_alone: reference.not_alone,
            not_several: reference.not_several,
        }))
    }

    fn know(&mut self, plan: SeedPlan) -> anyhow::Result<()> {
        if let Some(directory) = &mut self.directory {
            directory.append_plan(&plan)?;
        }
        self.plans.push(plan);
        Ok(())
    }

    /// The run of a seed without a failure, made if it is not known; nothing if somebody interrupts.
    fn plan_of(&mut self, seed: u64) -> anyhow::Result<Option<SeedPlan>> {
        if let Some(known) = self.plans.iter().find(|plan| plan.seed == seed) {
            return Ok(Some(known.clone()));
        }
        let plan = self.reference(seed)?;
        if let Some(plan) = &plan {
            self.know(plan.clone())?;
        }
        Ok(plan)
    }

    fn go_on(mut self, mut known: Vec<LiveResult>) -> anyhow::Result<Outcome> {
        let mut selection = self.selection()?;
        let mut summary = Summary::default();
        if self.visit.format() == OutputFormat::Json {
            write_json(&known)?;
        }
        for seed in self.seeds()? {
            let is_over = selection
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
                && summary.seeds > 0;
            let is_enough = selection.is_enough(&summary);
            if is_over || is_enough || self.interrupt.requested() {
                summary.is_cut_off = true;
                break;
            }
            let Some(plan) = self.plan_of(seed)? else {
                summary.is_cut_off = true;
                break;
            };
            let of_seed = known.extract_if(.., |result| result.address.seed == seed);
            summary.add(self.sweep_seed(&plan, &selection, of_seed.collect())?);
            selection.found.clone_from(&summary.found);
        }
        // What was found of seeds that this did not come to is found all the same.
        summary.add(Summary::of_known(known));
        if let Some(directory) = self.directory.as_mut() {
            directory.finish(&summary)?;
        }
        self.tell(&summary)
    }

    /// What of each seed is swept, from now on.
    fn selection(&self) -> anyhow::Result<Selection> {
        let asked = &self.manifest.asked;
        let is_of_one = asked.seeds.0 == asked.seeds.1;
        Ok(Selection {
            sample: asked.sample,
            shard: self.shard()?.filter(|_| is_of_one),
            again: asked.again,
            recoveries: asked.recoveries,
            deadline: self.visit.budget().map(|budget| Instant::now() + budget),
            stop_after: self.visit.stop_after(),
            found: BTreeSet::new(),
            jobs: self.visit.jobs(1),
            fork: asked.fork,
        })
    }

    /// Tries the failures of one seed.
    fn sweep_seed(
        &mut self,
        plan: &SeedPlan,
        selection: &Selection,
        known: Vec<LiveResult>,
    ) -> anyhow::Result<Summary> {
        let laboratory = self.laboratory(plan.seed)?;
        let (interrupt, visit) = (self.interrupt, self.visit);
        let directory = &mut self.directory;
        let mut progress = Progress::new("live", "failures", Some(plan.plan.len()));
        let mut counts = (0, 0);
        for result in &known {
            count(&mut counts, result);
        }
        let summary = sweep(
            &laboratory,
            plan,
            selection,
            known,
            &mut |result, done, wanted| {
                count(&mut counts, result);
                if let Some(directory) = directory.as_mut() {
                    directory.append(result)?;
                }
                if visit.format() == OutputFormat::Json {
                    let written = progress.suspend(|| write_json([result]));
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
        Ok(summary?)
    }

    fn tell(&self, summary: &Summary) -> anyhow::Result<Outcome> {
        if summary.is_cut_off {
            let how = self
                .directory
                .as_ref()
                .map_or_else(String::new, |directory| {
                    format!("; continue with: {}", resume_words(directory.path()))
                });
            let (first, last) = self.manifest.asked.seeds;
            let seeds = self.seeds()?.count() as u64 - summary.seeds;
            let seeds = if first == last || seeds == 0 {
                String::new()
            } else {
                format!(", and {seeds} seeds")
            };
            let left = summary.left;
            say(&format!("not tried: {left} failures{seeds}{how}"));
        }
        let format = self.visit.format();
        let directory = self.directory.as_ref().map(LiveDirectory::path);
        print(summary, &self.manifest, directory, format)?;
        Ok(outcome(summary))
    }
}

fn print(
    summary: &Summary,
    manifest: &LiveManifest,
    directory: Option<&Path>,
    format: OutputFormat,
) -> io::Result<()> {
    if format == OutputFormat::Json {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(listed(&summary.results, manifest, directory).as_bytes())?;
    out.write_all(table(summary, manifest).as_bytes())
}

/// Prints each result as a line.
fn write_json<'a>(results: impl IntoIterator<Item = &'a LiveResult>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    results.into_iter().try_for_each(|result| {
        let line = serde_json::to_string(result).expect("only text and numbers");
        writeln!(out, "{line}")
    })
}

fn outcome(summary: &Summary) -> Outcome {
    if summary.broken() > 0 {
        Outcome::Findings
    } else if summary.is_cut_off || summary.inconclusive() > 0 || !summary.never_looked().is_empty()
    {
        Outcome::Incomplete
    } else {
        Outcome::Clean
    }
}

fn count(counts: &mut (u64, u64), result: &LiveResult) {
    match &result.judged {
        injector::Judged::Ok => {}
        injector::Judged::Broken { .. } => counts.0 += 1,
        injector::Judged::Inconclusive { .. } => counts.1 += 1,
    }
}

/// The table of the results in a directory, and whether its sweep has ended.
pub(crate) fn summed_up(
    directory: &Path,
    manifest: &LiveManifest,
    results: &[LiveResult],
) -> anyhow::Result<String> {
    let mut summary = Summary {
        results: results.to_vec(),
        ..Summary::default()
    };
    let plans = injector::plans(directory)?;
    summary.seeds = plans.len() as u64;
    summary.all = all_failures(&plans, results);
    let written = injector::summary(directory);
    if let Some(all) = written.as_ref().and_then(|written| written["all"].as_u64()) {
        summary.all = all;
    }
    let mut text = table(&summary, manifest);
    if written.is_none_or(|written| written["is_cut_off"] == true) {
        text += &format!(
            "the sweep has not ended: continue it with: {}\n",
            resume_words(directory)
        );
    }
    Ok(text)
}

/// The command that continues a sweep.
fn resume_words(directory: &Path) -> String {
    let directory = quoted(&directory.to_string_lossy()).into_owned();
    format!(
        "{} cluster sweep --resume {directory}",
        campaign::own_call()
    )
}

/// The row of a finding with the command that has it happen again.
pub(crate) fn replay_row(directory: &Path, number: usize) -> String {
    let directory = quoted(&directory.to_string_lossy()).into_owned();
    format!(
        "  replay        {} replay {directory} {number}\n",
        campaign::own_call()
    )
}

/// The findings, each with the command that has it happen again, and why others could not be judged.
pub(crate) fn listed(
    results: &[LiveResult],
    manifest: &LiveManifest,
    directory: Option<&Path>,
) -> String {
    let mut text = String::new();
    for (place, (result, alike)) in findings(results, manifest).into_iter().enumerate() {
        text += &finding(place + 1, result, alike, manifest);
        if let Some(directory) = directory {
            text += &replay_row(directory, place + 1);
        }
        text.push('\n');
    }
    let open = inconclusive(results);
    if open.is_empty() {
        text
    } else {
        text + &open + "\n"
    }
}
