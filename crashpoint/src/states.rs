//! A sweep of the crash states of a program or a cluster: what is asked for, and what came of it.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat, Shard, columns, own_call, quoted};
use clap::Args;
use clap::builder::PossibleValuesParser;
use node_sweep::{
    Finding, Findings, Indices, Judge, Kinds, Level, Manifest, Merged, Plan, Progress, Recorded,
    Request, Results, Rule, States, Subject, Summary, Verdict, Verdicts, Watch, relaxation_words,
    so_far, sweep, together,
};
use pace_rules::disk;
use pace_rules::nodes::{Explore, MODELS, NodeState, Relaxation, Space, Split};
use trace::Trace;

use crate::blocks;

/// Which states of disks are visited if it is not said.
const DISK_STATES: &str = "every-write,flushed,reorder:1";

/// Which states of a trace.
#[derive(Debug, Args)]
pub(crate) struct SpaceArgs {
    /// What is crashed: what the programs asked of any file system, or the disks under the one that
    /// they had [default: both where a disk was recorded with `app --disk`, else syscalls]
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

    /// Where writes are cut: into so many pieces (3), or at multiples of so many bytes
    /// (aligned:4096)
    #[arg(long, value_name = "N|aligned:BYTES", default_value = "3")]
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

    /// Look at part I of N of the states only; `crashpoint merge` puts the parts together
    ///
    /// Parts are of one trace: record it once, with `crashpoint cluster record` or `app --out`, and
    /// sweep it on each machine.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,

    /// How many states to look at side by side [default: one for each processor, two if that is
    /// clusters]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// Look at states for so long, such as 10m; with two levels each gets half of it. What was left
    /// is counted, and --resume continues with it
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,

    /// Stop once the check has said N different things of broken states
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: Option<u64>,

    /// A new directory for the results, and the trace
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Continue the sweep in DIR, which --out named, with what it was begun with
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "shard", "sample", "seed", "level", "states", "model", "lost", "split"])]
    pub(crate) resume: Option<PathBuf>,

    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// What is swept.
pub(crate) struct Subjects<'a> {
    pub(crate) trace: &'a Trace,
    /// The command, or the cluster.
    pub(crate) name: String,
    pub(crate) request: Request,
    /// What its explore rule comes to.
    pub(crate) explore: Explore,
}

/// How it is done, which decides nothing of what is found.
pub(crate) struct Control<'a> {
    /// How many states are looked at side by side.
    pub(crate) jobs: usize,
    pub(crate) budget: Option<Duration>,
    pub(crate) stop_after: Option<u64>,
    pub(crate) format: OutputFormat,
    pub(crate) interrupt: &'a Interrupt,
}

/// Makes so many of those that look at states.
pub(crate) type MakeSubjects<'m, 's> =
    &'m mut dyn FnMut(usize) -> anyhow::Result<Vec<Box<dyn Subject + 's>>>;

impl SpaceArgs {
    /// Which states of each disk.
    pub(crate) fn of_disks(&self) -> disk::States {
        self.states
            .unwrap_or_else(|| DISK_STATES.parse().expect("they are states"))
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

    /// All that is asked for.
    pub(crate) fn request(&self, explore: Rule, judge: Judge) -> anyhow::Result<Request> {
        Ok(Request {
            level: self.level()?,
            model: self.model.clone(),
            explore,
            lost: self.lost,
            split: self.split,
            states: self.of_disks(),
            sample: None,
            seed: 0,
            judge,
        })
    }
}

/// How many states a space has of each kind, as a table.
pub(crate) fn counts(space: &Space) -> String {
    let mut rows = vec![["rule", "relaxation", "states"].map(str::to_owned).to_vec()];
    for count in space.counts() {
        rows.push(vec![
            count.rule.clone(),
            relaxation_words(count.relaxation).into(),
            number(count.states),
        ]);
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
            let lost = if lost.is_empty() {
                String::new()
            } else {
                format!(" without {}", lost.join(","))
            };
            let name = &trace.run.nodes[place].name;
            format!(
                "{name} {} events, {} effects{lost}",
                state.cut[place], kept.micros
            )
        };
        let nodes: Vec<_> = state.nodes.iter().enumerate().map(node).collect();
        text += &format!(
            "{index}  {}  {}\n",
            relaxation_words(state.relaxation),
            nodes.join("; ")
        );
    }
    text
}

/// A number of states.
pub(crate) fn number(states: u64) -> String {
    if states == u64::MAX {
        "more than can be counted".into()
    } else {
        states.to_string()
    }
}

impl VisitArgs {
    /// How many states are looked at side by side: if it was not said, so many for each processor.
    pub(crate) fn jobs(&self, each: usize) -> usize {
        let processors = || each * std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }

    /// All that is asked for.
    pub(crate) fn request(&self, explore: Rule, judge: Judge) -> anyhow::Result<Request> {
        Ok(Request {
            sample: self.sample,
            seed: self.seed,
            ..self.states.request(explore, judge)?
        })
    }

    /// How it is done.
    pub(crate) fn control<'a>(&self, jobs: usize, interrupt: &'a Interrupt) -> Control<'a> {
        let Self {
            budget,
            stop_after,
            format,
            ..
        } = *self;
        Control {
            jobs,
            budget,
            stop_after,
            format,
            interrupt,
        }
    }

    /// Refuses what can be told before anything runs.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        self.states.level()?;
        self.out
            .as_deref()
            .map_or(Ok(()), Results::refuse)
            .context("begin the results")
    }

    /// Begins a sweep: visits the states, and says what came of it.
    pub(crate) fn begin(
        &self,
        what: &Subjects<'_>,
        subjects: MakeSubjects<'_, '_>,
        control: &Control<'_>,
    ) -> anyhow::Result<Outcome> {
        let create = |directory: &PathBuf| {
            let model = blocks::model_words(&what.request, what.trace);
            let manifest = Manifest::new(
                what.name.clone(),
                model,
                what.request.clone(),
                self.shard,
                control.jobs,
            );
            Results::create(directory, manifest, what.trace).context("begin the results")
        };
        let mut results = self.out.as_ref().map(create).transpose()?;
        let swept = what.run(results.as_mut(), self.shard, subjects, control);
        if let Some(results) = results.filter(|_| swept.is_err()) {
            results.remove_if_empty();
        }
        swept
    }

    /// Opens the sweep that is to be continued. If there is nothing left to do, what came of it is
    /// printed, and that is returned in its place.
    ///
    /// # Errors
    /// If it is of a cluster and that is not what is wanted, or the other way round.
    pub(crate) fn open(
        &self,
        directory: &Path,
        wants_cluster: bool,
    ) -> anyhow::Result<Result<(Results, Trace), Outcome>> {
        let (results, trace) = Results::open(directory)?;
        let is_cluster = results.manifest().request.judge == Judge::Cluster;
        if is_cluster != wants_cluster {
            let (what, command) = (
                if is_cluster { "cluster" } else { "program" },
                command_of(is_cluster),
            );
            bail!(
                "{0} is of a {what}: continue it with crashpoint {command} --resume {0}",
                directory.display()
            );
        }
        if results.is_finished() {
            let count = results.count();
            campaign::say(&format!(
                "the sweep in {} is finished: {count} different states",
                directory.display()
            ));
            return Ok(Err(print_recorded(directory, self.format)?));
        }
        let count = results.count();
        campaign::say(&format!(
            "continuing in {}: {count} of its different states are judged",
            directory.display()
        ));
        Ok(Ok((results, trace)))
    }
}

/// Prints what is in a directory of results that is finished.
fn print_recorded(directory: &Path, format: OutputFormat) -> anyhow::Result<Outcome> {
    let recorded = Recorded::read(directory)?.context("it was there a moment ago")?;
    print(format, &recorded.findings, &recorded.summary)?;
    Ok(outcome(&recorded.summary))
}

/// Continues a sweep.
pub(crate) fn resume(
    mut results: Results,
    trace: &Trace,
    explore: Explore,
    subjects: MakeSubjects<'_, '_>,
    control: &Control<'_>,
) -> anyhow::Result<Outcome> {
    let manifest = results.manifest();
    let (name, request, shard) = (
        manifest.name.clone(),
        manifest.request.clone(),
        manifest.shard()?,
    );
    Subjects {
        trace,
        name,
        request,
        explore,
    }
    .run(Some(&mut results), shard, subjects, control)
}

/// Sums up shards that were merged; if something is missing, says how to continue.
pub(crate) fn sum_up(
    merged: Merged,
    format: OutputFormat,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let Merged {
        results,
        trace,
        is_whole,
    } = merged;
    let manifest = results.manifest();
    let (directory, is_cluster) = (
        results.directory().to_owned(),
        manifest.request.judge == Judge::Cluster,
    );
    if !is_whole {
        let (command, directory) = (command_of(is_cluster), directory.display());
        campaign::say(&format!(
            "continue with what is missing with: crashpoint {command} --resume {directory}"
        ));
        return Ok(Outcome::Incomplete);
    }
    let explore = manifest.request.explore_of(&trace)?;
    // All is known: there is nobody to look at anything.
    let control = Control {
        jobs: 1,
        budget: None,
        stop_after: None,
        format,
        interrupt,
    };
    resume(results, &trace, explore, &mut |_| Ok(Vec::new()), &control)
}

/// The command that sweeps it.
fn command_of(is_cluster: bool) -> &'static str {
    if is_cluster { "cluster sweep" } else { "app" }
}

/// Where the directory that the only node of a trace left is not what was recorded, in words. Then
/// the states are none of the program's.
pub(crate) fn difference(
    request: &Request,
    trace: &Trace,
    data: &Path,
) -> anyhow::Result<Option<String>> {
    let space = Space::new(&trace.run, &request.of_calls(Explore::BruteForce)?)?;
    let last = States::new(&trace.run, &space, trace).last(0);
    let last = last.context("nothing was recorded of the directory")?;
    last.difference(data)
        .with_context(|| format!("compare {} with what was recorded", data.display()))
}

/// What a level came to.
pub(crate) type Visited = (Vec<Finding>, Summary);

impl Subjects<'_> {
    /// Visits the states, and says what came of it. `subjects` makes what looks at them.
    fn run(
        &self,
        mut results: Option<&mut Results>,
        shard: Option<Shard>,
        subjects: MakeSubjects<'_, '_>,
        control: &Control<'_>,
    ) -> anyhow::Result<Outcome> {
        let levels = self.request.level.each();
        let block = levels
            .contains(&Level::Block)
            .then(|| self.block_space())
            .transpose()?;
        let end = control.budget.map(|budget| Instant::now() + budget);
        let mut visited: Vec<Visited> = Vec::new();
        let mut failure = None;
        for (place, level) in levels.iter().enumerate() {
            let deadline = end.map(|end| part_of_time(Instant::now(), end, levels.len() - place));
            let mut visit = Visit {
                known: results
                    .as_deref_mut()
                    .map(|results| results.begin(*level))
                    .unwrap_or_default(),
                results: results.as_deref_mut(),
                level: *level,
                shard,
                deadline,
                control,
            };
            let one = match &block {
                Some(space) if *level == Level::Block => {
                    self.visit_disks(space, subjects, &mut visit)
                }
                _ => self.visit(subjects, &mut visit),
            };
            match one {
                Ok(one) => visited.push(one),
                // What the other level found is told all the same.
                Err(error) if !visited.is_empty() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        let (mut findings, mut summary) = together(visited, self.request.is_part(shard));
        summary.interrupted |= failure.is_some();
        if let Some(results) = results.as_deref()
            && results.count() as u64 > summary.checked
        {
            // One that is continued was stopped before it had come to all that was known.
            (findings, summary) = so_far(results.directory(), results.manifest(), self.trace)?;
        }
        // Where nobody reads it, it is kept all the same.
        let printed = print(control.format, &findings, &summary);
        if let Some(results) = results {
            results.finish(&findings, &summary, &table(&summary))?;
            if !summary.is_whole() {
                let command = command_of(self.request.judge == Judge::Cluster);
                let directory = results.directory().to_string_lossy();
                campaign::say(&format!(
                    "continue with: {} {command} --resume {}",
                    own_call(),
                    quoted(&directory)
                ));
            }
        }
        printed?;
        failure.map_or_else(|| Ok(outcome(&summary)), Err)
    }

    /// Visits what a model allows.
    fn visit(
        &self,
        subjects: MakeSubjects<'_, '_>,
        visit: &mut Visit<'_>,
    ) -> anyhow::Result<Visited> {
        let request = self.request.of_calls(self.explore)?;
        let space = Space::new(&self.trace.run, &request)?;
        let (sample, seed) = (self.request.sample, self.request.seed);
        let indices = Indices::of(space.len(), sample, |count| space.sample(count, seed))?;
        self.announce(&space);
        let interrupt = visit.control.interrupt;
        let plan = visit.plan();
        let subjects = subjects(visit.control.jobs)?;
        let mut watcher = visit.watcher(request.model.name, indices.count, self.trace, &plan.known);
        let swept = sweep(
            self.trace,
            &space,
            indices.all,
            subjects,
            &plan,
            interrupt,
            &mut watcher,
        )?;
        let seconds = watcher.finish()?;
        let judged = Findings::new(self.trace, &space, request.model.name);
        let findings = judged.of(&swept);
        let findings = if interrupt.requested() {
            findings.into_iter().map(|(finding, _)| finding).collect()
        } else {
            judged.explain(findings, &request)
        };
        let (model, count) = (request.model.name, indices.count);
        let summary = Summary::new(self.trace, model, &swept, count, findings.len(), seconds);
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
        let kinds: Vec<_> = kinds
            .iter()
            .map(|(kind, states)| format!("{} {}", number(*states), relaxation_words(*kind)))
            .collect();
        let drawn = self.request.sample.filter(|count| *count < space.len());
        let sample =
            drawn.map(|count| format!("; visiting {count} of them, --seed {}", self.request.seed));
        let sample = sample.unwrap_or_default();
        campaign::say(&format!(
            "{} crash states on {}: {}{sample}",
            number(space.len()),
            self.request.model,
            kinds.join(", ")
        ));
    }
}

/// How the states of one level are visited.
pub(crate) struct Visit<'a> {
    results: Option<&'a mut Results>,
    level: Level,
    known: Verdicts,
    shard: Option<Shard>,
    deadline: Option<Instant>,
    pub(crate) control: &'a Control<'a>,
}

impl<'a> Visit<'a> {
    /// Which of its states are looked at.
    pub(crate) fn plan(&mut self) -> Plan {
        Plan {
            shard: self.shard,
            known: std::mem::take(&mut self.known),
            only_known: false,
            deadline: self.deadline,
        }
    }

    /// What keeps what is found, and shows how far it is. There are `count` states in all.
    pub(crate) fn watcher<'w>(
        &'w mut self,
        name: &str,
        count: u64,
        trace: &'w Trace,
        known: &Verdicts,
    ) -> Watcher<'w>
    where
        'a: 'w,
    {
        let (kinds_of, mut kinds) = (Kinds::new(trace), HashSet::new());
        for verdict in known.values() {
            if let Verdict::Broken(complaint) = verdict {
                kinds.insert(kinds_of.of(complaint));
            }
        }
        let bar = campaign::Progress::new(name, "states", Some(count));
        let begun = Instant::now();
        Watcher {
            results: self.results.as_deref_mut(),
            level: self.level,
            control: self.control,
            kinds_of,
            count,
            kinds,
            bar,
            begun,
        }
    }
}

/// Keeps what is found, and shows how far it is.
pub(crate) struct Watcher<'a> {
    results: Option<&'a mut Results>,
    level: Level,
    control: &'a Control<'a>,
    kinds_of: Kinds<'a>,
    /// States in all.
    count: u64,
    /// The different things that were said of broken states.
    kinds: HashSet<Vec<String>>,
    bar: campaign::Progress,
    begun: Instant,
}

impl Watcher<'_> {
    /// The time that was spent on the level, in seconds.
    pub(crate) fn finish(self) -> anyhow::Result<f64> {
        self.bar.finish();
        self.results.map_or_else(
            || Ok(self.begun.elapsed().as_secs_f64()),
            |results| results.note_time(self.level),
        )
    }
}

impl Watch for Watcher<'_> {
    fn judged(
        &mut self,
        state: u64,
        key: &node_sweep::Fingerprint,
        verdict: &Verdict,
    ) -> anyhow::Result<()> {
        if let Some(results) = &mut self.results {
            results.append(self.level, state, key, verdict)?;
        }
        if let Verdict::Broken(complaint) = verdict {
            self.kinds.insert(self.kinds_of.of(complaint));
            if self
                .control
                .stop_after
                .is_some_and(|most| self.kinds.len() as u64 >= most)
            {
                self.control.interrupt.request();
            }
        }
        Ok(())
    }

    fn progress(&mut self, at: Progress) {
        // How many are different is known of those that were made.
        let share = at.different as f64 / at.made.max(1) as f64;
        let expected = (share * self.count as f64).ceil() as u64;
        self.bar.set(
            at.checked,
            expected.max(at.checked),
            self.kinds.len() as u64,
            at.open,
        );
    }
}

/// When the next of so many levels has had its part of the time that is left.
fn part_of_time(now: Instant, end: Instant, levels: usize) -> Instant {
    now + end.saturating_duration_since(now) / u32::try_from(levels).expect("they are few")
}

fn print(format: OutputFormat, findings: &[Finding], summary: &Summary) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match format {
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
            write!(out, "{}{}", inconclusive(summary), table(summary))?;
        }
    }
    out.flush()
}

/// The first line of a finding.
pub(crate) fn title(finding: &Finding) -> String {
    let alike = if finding.states == 1 {
        "1 state".into()
    } else {
        format!("{} states alike", finding.states)
    };
    format!(
        "FINDING {}  {}  {}  {alike}\n",
        finding.number, finding.model, finding.relaxation
    )
}

/// The first line of a state that nobody could judge.
pub(crate) fn inconclusive_title(story: &Finding) -> String {
    let Finding {
        number,
        model,
        relaxation,
        state,
        ..
    } = story;
    format!("INCONCLUSIVE {number}  {model}  {relaxation}  state {state} of the sweep\n")
}

/// What nothing is known of, and why.
fn inconclusive(summary: &Summary) -> String {
    let states = summary.reasons.iter();
    let states = states.map(|(why, states)| format!("INCONCLUSIVE  {states} states: {why}\n"));
    let text = states.collect::<String>() + &not_recorded(summary);
    if text.is_empty() { text } else { text + "\n" }
}

fn not_recorded(summary: &Summary) -> String {
    let call = |(call, times): (&String, &u64)| {
        format!(
            "INCONCLUSIVE  {call} was called {times} times, and what it did is not in the states\n"
        )
    };
    summary.not_recorded.iter().map(call).collect()
}

/// The same of a sweep that was recorded, with the numbers of the states.
pub(crate) fn numbered_inconclusive(recorded: &Recorded) -> String {
    let mut rows = vec![["inconclusive", "states", "why"].map(str::to_owned)];
    rows.extend(recorded.reasons().iter().map(|reason| {
        let (first, states) = (reason.first, reason.states);
        [first.to_string(), states.to_string(), reason.why.to_owned()]
    }));
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    let states = if rows.len() > 1 {
        columns(&rows)
    } else {
        String::new()
    };
    let text = states + &not_recorded(&recorded.summary);
    if text.is_empty() { text } else { text + "\n" }
}

/// What a sweep came to, as a table.
pub(crate) fn table(summary: &Summary) -> String {
    let head = [
        "model",
        "states",
        "equal",
        "checked",
        "broken",
        "findings",
        "inconclusive",
        "seconds",
        "states/s",
    ];
    let row = |summary: &Summary| {
        let rate = summary.states as f64 / summary.seconds.max(1e-9);
        vec![
            summary.model.clone(),
            summary.states.to_string(),
            summary.equal.to_string(),
            summary.checked.to_string(),
            summary.broken.to_string(),
            summary.findings.to_string(),
            summary.inconclusive.to_string(),
            format!("{:.1}", summary.seconds),
            format!("{rate:.0}"),
        ]
    };
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    match &*summary.levels {
        [] => rows.push(row(summary)),
        levels => rows.extend(levels.iter().map(row)),
    }
    let left = match (summary.is_whole(), summary.left) {
        (true, _) => String::new(),
        (false, 0) => "interrupted: what was looked at until then is counted\n".to_owned(),
        (false, left) => format!(
            "stopped before the end: {} states were not visited\n",
            number(left)
        ),
    };
    columns(&rows) + &left
}

/// That a sweep did not end, and how to have it end, if that is so.
pub(crate) fn unended(recorded: &Recorded, directory: &Path) -> Option<String> {
    let command = command_of(recorded.manifest.request.judge == Judge::Cluster);
    let directory = directory.to_string_lossy();
    (!recorded.has_ended).then(|| {
        format!(
            "the sweep has not ended: it was killed, or it is still running; this is what it knew \
             until now. Continue it with: {} {command} --resume {}",
            own_call(),
            quoted(&directory)
        )
    })
}

/// The exit status of a sweep.
pub(crate) fn outcome(summary: &Summary) -> Outcome {
    if summary.findings > 0 {
        Outcome::Findings
    } else if !summary.is_whole() || summary.inconclusive > 0 || !summary.not_recorded.is_empty() {
        Outcome::Incomplete
    } else {
        Outcome::Clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_part_of_the_time_and_the_last_one_all_that_is_left() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(part_of_time(now, at(10), 1), at(10));
        assert_eq!(part_of_time(now, at(10), 2), at(5));
        // The first one was done before, or was late.
        assert_eq!(part_of_time(at(2), at(10), 1), at(10));
        assert_eq!(part_of_time(at(12), at(10), 1), at(12));
    }
}
