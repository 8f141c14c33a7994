//! A sweep of the crash states of a program or a cluster: what is asked for, and what came of it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat, columns};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use node_sweep::{
    Blocks, Finding, Findings, Manifest, Progress, Results, States, Subject, Summary, Swept, compare_levels,
    relaxation_words, sweep,
};
use pace_rules::disk;
use pace_rules::nodes::{
    BlockSpace, Explore, MODELS, Model, NodeState, Relaxation, Relaxations, Request, Space, Split,
};
use trace::Trace;

/// How often it is said how far a sweep is.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Which states of disks are visited if it is not said.
const DISK_STATES: &str = "every-write,flushed,reorder:1";

/// Where a crash is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// What the programs asked of their file systems, which kept what a model allows
    Syscalls,
    /// The disks that were recorded, each with its real file system, which recovers
    Block,
    /// One after the other, and what each says of the other's findings
    Both,
}

/// Which states of a trace.
#[derive(Debug, Args)]
pub(crate) struct SpaceArgs {
    /// What is crashed: what the programs asked of any file system, or the disks under the one that they
    /// had [default: both where a disk was recorded with `app --disk`, else syscalls]
    #[arg(long, value_enum)]
    pub(crate) level: Option<Level>,

    /// Which states of each disk at the block level: as for crashpoint fs [default:
    /// every-write,flushed,reorder:1]
    #[arg(long, value_name = "STATES")]
    states: Option<disk::States>,

    /// What the nodes' file systems may do in a crash
    #[arg(long, value_name = "MODEL", default_value = "posix", value_parser = PossibleValuesParser::new(MODELS.iter().map(|model| model.name)))]
    pub(crate) model: String,

    /// How many operations a node may lose in a state
    #[arg(long, value_name = "K", default_value_t = 1)]
    lost: usize,

    /// Where writes are cut: into so many pieces (3), or at multiples of so many bytes (aligned:4096)
    #[arg(long, value_name = "N|aligned:BYTES", default_value = "3", value_parser = parse_split)]
    split: Split,
}

/// How they are swept.
#[derive(Debug, Args)]
pub(crate) struct VisitArgs {
    #[command(flatten)]
    pub(crate) states: SpaceArgs,

    /// Visit so many states only, drawn at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: Option<u64>,

    /// From which number states are drawn
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// How many states to look at side by side [default: one for each processor, two if that is clusters]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// A new directory for the results, and the trace
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// What is swept.
pub(crate) struct Subjects<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) explore: Explore,
    /// The explore rule in words.
    pub(crate) explore_words: &'a str,
    /// The command, or the cluster.
    pub(crate) name: String,
    /// How states are judged, in words.
    pub(crate) check: String,
}

fn parse_split(words: &str) -> Result<Split, String> {
    let number = |words: &str| words.parse().ok().filter(|number| *number > 0);
    let split = match words.strip_prefix("aligned:") {
        Some(bytes) => number(bytes).map(Split::Aligned),
        None => number(words).map(Split::Count),
    };
    split.ok_or_else(|| "a number of pieces, or aligned:BYTES".to_owned())
}

impl SpaceArgs {
    /// Which states of each disk.
    pub(crate) fn of_disks(&self) -> disk::States {
        self.states.unwrap_or_else(|| DISK_STATES.parse().expect("they are states"))
    }

    /// Which level is looked at.
    ///
    /// # Errors
    /// If something was asked of a level that is not.
    pub(crate) fn level(&self) -> anyhow::Result<Level> {
        let level = self.level.unwrap_or(Level::Syscalls);
        if level == Level::Syscalls && self.states.is_some() {
            bail!("--states is for disks: say --level block or both with it, or leave it out");
        }
        Ok(level)
    }

    /// What is asked of the rules.
    pub(crate) fn request(&self, explore: Explore) -> Request {
        let model = Model::named(&self.model).expect("the values that are taken are names of models");
        Request { model, explore, lost: self.lost, split: self.split, relaxations: Relaxations::ALL }
    }
}

/// How many states a space has of each kind, as a table.
pub(crate) fn counts(space: &Space) -> String {
    let mut rows = vec![["rule", "relaxation", "states"].map(str::to_owned).to_vec()];
    for count in space.counts() {
        rows.push(vec![count.rule.clone(), relaxation_words(count.relaxation).into(), number(count.states)]);
    }
    rows.push(vec!["all".into(), String::new(), number(space.len())]);
    columns(&rows)
}

/// Every state of a space in a line.
pub(crate) fn listed(space: &Space, trace: &Trace) -> String {
    let mut text = String::new();
    for index in 0..space.len() {
        let state = space.state(index);
        let node = |(place, kept): (usize, &NodeState)| {
            let lost: Vec<_> = kept.lost.iter().map(ToString::to_string).collect();
            let lost = if lost.is_empty() { String::new() } else { format!(" without {}", lost.join(",")) };
            let name = &trace.run.nodes[place].name;
            format!("{name} {} events, {} effects{lost}", state.cut[place], kept.micros)
        };
        let nodes: Vec<_> = state.nodes.iter().enumerate().map(node).collect();
        text += &format!("{index}  {}  {}\n", relaxation_words(state.relaxation), nodes.join("; "));
    }
    text
}

/// A number of states.
pub(crate) fn number(states: u64) -> String {
    if states == u64::MAX { "more than can be counted".into() } else { states.to_string() }
}

impl VisitArgs {
    /// How many states are looked at side by side: if it was not said, so many for each processor.
    pub(crate) fn jobs(&self, each: usize) -> usize {
        let processors = || each * std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }

    /// Where the directory that the only node of a trace left is not what was recorded, in words. Then
    /// the states are none of the program's.
    pub(crate) fn difference(&self, trace: &Trace, data: &Path) -> anyhow::Result<Option<String>> {
        let space = Space::new(&trace.run, &self.states.request(Explore::BruteForce))?;
        let last = States::new(&trace.run, &space, trace).last(0);
        let last = last.context("nothing was recorded of the directory")?;
        last.difference(data).with_context(|| format!("compare {} with what was recorded", data.display()))
    }

    /// Refuses what can be told before anything runs.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        self.states.level()?;
        self.out.as_deref().map_or(Ok(()), Results::refuse).context("begin the results")
    }

    /// Visits the states, and says what came of it. `subjects` makes what looks at them.
    pub(crate) fn run(
        &self,
        what: &Subjects<'_>,
        subjects: &mut dyn FnMut(usize) -> anyhow::Result<Vec<Box<dyn Subject>>>,
        jobs: usize,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let level = self.states.level()?;
        let block = (level != Level::Syscalls).then(|| self.block_space(what)).transpose()?;
        let results = self
            .out
            .as_ref()
            .map(|directory| Results::create(directory, &self.manifest(what), what.trace).context("begin the results"));
        let results = results.transpose()?;
        let mut levels = Vec::new();
        if level != Level::Block {
            levels.push(self.visit(what, subjects(jobs)?, interrupt)?);
        }
        let is_left_out = level == Level::Both && interrupt.requested();
        let disks = |space: BlockSpace| {
            let blocks = Blocks::new(what.trace, &space)?;
            let jobs = if blocks.one_at_a_time() { 1 } else { jobs };
            self.visit_disks(what, &space, blocks, subjects(jobs)?, interrupt)
        };
        let mut failure = None;
        match block.filter(|_| !is_left_out).map(disks) {
            Some(Ok(visited)) => levels.push(visited),
            // What the other level found is told all the same.
            Some(Err(error)) if !levels.is_empty() => failure = Some(error),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        let drawn = self.sample.is_some() || self.states.of_disks().sample().is_some();
        let (findings, mut summary) = together(levels, drawn);
        summary.interrupted |= is_left_out || failure.is_some();
        self.print(&findings, &summary)?;
        if let Some(results) = results {
            results.finish(&findings, &summary, &table(&summary))?;
        }
        failure.map_or_else(|| Ok(outcome(&summary)), Err)
    }

    /// Visits what a model allows.
    fn visit(
        &self,
        what: &Subjects<'_>,
        subjects: Vec<Box<dyn Subject>>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<(Vec<Finding>, Summary)> {
        let request = self.states.request(what.explore);
        let space = Space::new(&what.trace.run, &request)?;
        let indices = indices(space.len(), self.sample, |count| space.sample(count, self.seed))?;
        self.announce(&space);
        let began = Instant::now();
        let swept = sweep(what.trace, &space, indices, subjects, interrupt, &mut progress())?;
        let seconds = began.elapsed().as_secs_f64();
        let judged = Findings::new(what.trace, &space, request.model.name);
        let findings = judged.of(&swept);
        let findings = if interrupt.requested() {
            findings.into_iter().map(|(finding, _)| finding).collect()
        } else {
            judged.explain(findings, &request)
        };
        let summary = summary(what.trace, request.model.name, &swept, findings.len(), seconds);
        Ok((findings, summary))
    }

    fn announce(&self, space: &Space) {
        let mut kinds: HashMap<Relaxation, u64> = HashMap::new();
        for count in space.counts() {
            let states = kinds.entry(count.relaxation).or_default();
            *states = states.saturating_add(count.states);
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort();
        let kinds: Vec<_> =
            kinds.iter().map(|(kind, states)| format!("{} {}", number(*states), relaxation_words(*kind))).collect();
        let drawn = self.sample.filter(|count| *count < space.len());
        let sample = drawn.map(|count| format!("; visiting {count} of them, --seed {}", self.seed));
        let sample = sample.unwrap_or_default();
        campaign::say(&format!(
            "{} crash states on {}: {}{sample}",
            number(space.len()),
            self.states.model,
            kinds.join(", ")
        ));
    }

    fn manifest(&self, what: &Subjects<'_>) -> Manifest {
        let mut manifest = Manifest::new(what.name.clone(), what.check.clone());
        manifest.model = self.model_words(what);
        what.explore_words.clone_into(&mut manifest.explore);
        manifest.lost = self.states.lost;
        manifest.sample = self.sample.map(|count| (count, self.seed));
        manifest
    }

    fn print(&self, findings: &[Finding], summary: &Summary) -> io::Result<()> {
        let mut out = io::stdout().lock();
        match self.format {
            OutputFormat::Json => {
                for finding in findings {
                    writeln!(out, "{}", finding.json())?;
                }
                writeln!(out, "{}", summary.json())?;
            }
            OutputFormat::Text => {
                for finding in findings {
                    writeln!(out, "{}{}", title(finding), finding.text())?;
                }
                write!(out, "{}{}", not_measured(summary), table(summary))?;
            }
        }
        out.flush()
    }
}

/// Which states are visited.
pub(crate) fn indices(
    len: u64,
    sample: Option<u64>,
    draw: impl FnOnce(u64) -> Vec<u64>,
) -> anyhow::Result<Box<dyn Iterator<Item = u64> + Send>> {
    Ok(match sample {
        Some(count) => Box::new(draw(count).into_iter()),
        None if len == u64::MAX => {
            bail!("there are more states than can be counted: draw some with --sample, or lose less with --lost")
        }
        None => Box::new(0..len),
    })
}

/// Says now and then how far a sweep is.
pub(crate) fn progress() -> impl FnMut(Progress) {
    let mut told = Instant::now();
    move |at: Progress| {
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            let Progress { checked, broken, open } = at;
            campaign::say(&format!("{checked} states checked, {broken} broken, {open} not measured"));
        }
    }
}

/// What was found at all levels, and what that came to. Of states that were `drawn` it is not known what
/// the others are.
fn together(levels: Vec<(Vec<Finding>, Summary)>, drawn: bool) -> (Vec<Finding>, Summary) {
    let (mut findings, summaries): (Vec<Vec<Finding>>, Vec<Summary>) = levels.into_iter().unzip();
    if let ([calls, disks], [on_model, on_disk]) = (&mut *findings, &*summaries) {
        compare_levels((calls, on_model), (disks, on_disk), drawn);
    }
    let mut findings = findings.concat();
    for (place, finding) in findings.iter_mut().enumerate() {
        finding.number = place + 1;
    }
    (findings, Summary::of_levels(summaries))
}

/// The first line of a finding.
pub(crate) fn title(finding: &Finding) -> String {
    let alike = if finding.states == 1 { "1 state".into() } else { format!("{} states alike", finding.states) };
    format!("FINDING {}  {}  {}  {alike}\n", finding.number, finding.model, finding.relaxation)
}

/// What nothing is known of, and why.
pub(crate) fn not_measured(summary: &Summary) -> String {
    let mut text = String::new();
    for (why, states) in &summary.reasons {
        text += &format!("NOT MEASURED  {states} states: {why}\n");
    }
    for (call, times) in &summary.not_recorded {
        text += &format!("NOT MEASURED  {call} was called {times} times, and what it did is not in the states\n");
    }
    if text.is_empty() { text } else { text + "\n" }
}

/// What a sweep came to.
pub(crate) fn summary(trace: &Trace, model: &str, swept: &Swept, findings: usize, seconds: f64) -> Summary {
    Summary {
        model: model.to_owned(),
        states: swept.states,
        equal: (swept.states - swept.impossible).saturating_sub(swept.checked),
        impossible: swept.impossible,
        checked: swept.checked,
        broken: swept.broken.len() as u64,
        findings,
        not_measured: swept.open(),
        reasons: swept
            .not_measured
            .iter()
            .map(|(why, (states, one))| (format!("{why} (such as state {one})"), *states))
            .collect(),
        not_recorded: trace.about.not_measured.clone(),
        interrupted: swept.interrupted,
        seconds: (seconds * 1000.0).round() / 1000.0,
        levels: Vec::new(),
    }
}

/// What a sweep came to, as a table.
pub(crate) fn table(summary: &Summary) -> String {
    let head = ["model", "states", "equal", "checked", "broken", "findings", "not measured", "seconds", "states/s"];
    let row = |summary: &Summary| {
        let rate = summary.states as f64 / summary.seconds.max(1e-9);
        vec![
            summary.model.clone(),
            summary.states.to_string(),
            summary.equal.to_string(),
            summary.checked.to_string(),
            summary.broken.to_string(),
            summary.findings.to_string(),
            summary.not_measured.to_string(),
            format!("{:.1}", summary.seconds),
            format!("{rate:.0}"),
        ]
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    match &*summary.levels {
        [] => rows.push(row(summary)),
        levels => rows.extend(levels.iter().map(row)),
    }
    let interrupted = if summary.interrupted { "interrupted: what was looked at until then is counted\n" } else { "" };
    columns(&rows) + interrupted
}

/// The exit status of a sweep.
pub(crate) fn outcome(summary: &Summary) -> Outcome {
    if summary.findings > 0 {
        Outcome::Findings
    } else if summary.interrupted || summary.not_measured > 0 || !summary.not_recorded.is_empty() {
        Outcome::Incomplete
    } else {
        Outcome::Clean
    }
}
