//! A sweep of the crash states of a program or a cluster: what is asked for, and what came of it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Interrupt, Outcome, OutputFormat, Shard, columns, own_call, quoted};
use clap::Args;
use clap::builder::PossibleValuesParser;
use node_sweep::{
    Concluded, Control, Finding, Judge, Level, MakeSubjects, Merged, Rank, Recorded, Request,
    Requested, Results, Rule, Start, Summary, count_words, left_behind, relaxation_words,
};
use pace_rules::nodes::{Explore, LINUX, Model, NodeState, Spaces, Split, StartOrder};
use pace_rules::{Sector, disk};
use specification::{About, Specification};
use trace_store::Trace;

use crate::specs;

/// What comes before findings that no file system is known to show.
pub(crate) const BY_THE_LETTER: &str =
    "BY THE LETTER OF POSIX ONLY: no model of a file system was found to do this";

/// What is said of a sweep that was interrupted before anything was looked at.
const BEFORE_STATES: &str = "interrupted before the first crash state: nothing was tested";

/// Which states of disks are visited if it is not said.
const DISK_STATES: &str = "every-write,flushed,reorder:1";

/// In which states disks come back in a live sweep if it is not said.
const LIVE_STATES: &str = "flushed,prefix,reorder:all";

/// Which states of a trace.
#[derive(Debug, Args)]
pub(crate) struct SpaceArgs {
    /// What is crashed: what the programs asked of any file system, or the disks under the one that
    /// they had [default: both with `app --disk`; else syscalls, also of a trace that has disks]
    #[arg(long, value_enum)]
    pub(crate) level: Option<Level>,

    /// Which states of each disk at the block level: as for crashpoint fs [default:
    /// every-write,flushed,reorder:1; of a live sweep, where one state of each kind is drawn for each
    /// failure: flushed,prefix,reorder:all]
    #[arg(long, value_name = "STATES")]
    states: Option<disk::States>,

    /// What a file system may do in a crash: what any of ext4, xfs and btrfs does (linux), one of
    /// these, or nearly all that the standard does not forbid (posix) [default: linux]
    #[arg(long, value_name = "MODEL", value_parser = PossibleValuesParser::new(Model::names()))]
    model: Option<String>,

    /// How many operations a node may lose in a state [default: 1]
    #[arg(long, value_name = "K")]
    lost: Option<usize>,

    /// Where writes are divided: into so many pieces (3), or at multiples of so many bytes
    /// (aligned:4096) [default: 3]
    #[arg(long, value_name = "N|aligned:BYTES")]
    split: Option<Split>,

    /// How many bytes the disk writes whole: 512, or 4096 if yours promises that. Writes are torn at
    /// multiples of it, with --model posix at any byte
    #[arg(long, value_name = "BYTES", default_value_t)]
    sector: Sector,
}

/// How they are swept.
#[derive(Debug, Args)]
pub(crate) struct VisitArgs {
    #[command(flatten)]
    pub(crate) states: SpaceArgs,

    /// Visit only N states, drawn at random: of each relaxation as many as of the others. A live sweep
    /// draws none: it takes the first N failures in the order in which it tries them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) sample: Option<u64>,

    /// The seed of --sample: the same one draws the same states. Of a live sweep, the seed of
    /// everything that is drawn
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Look at part I of N of the states only; `crashpoint merge` puts the parts together
    ///
    /// Parts are of one trace: record it once, with `crashpoint cluster record` or `app --out`, and
    /// sweep it on each machine.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,

    /// How many states to look at side by side [default: one for each processor, two for each if
    /// clusters are started on states of a trace; one where a sweep runs itself in a guest]
    #[arg(long, short, value_name = "N", overrides_with = "jobs", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,

    /// Look at states for so long, such as 10m; with two levels each gets half of it. What was left
    /// is counted, and --resume continues with it
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    budget: Option<Duration>,

    /// Stop after N different violations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: Option<u64>,

    /// A new directory for the results, and the trace
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Continue the sweep in DIR, which --out named, with what it was begun with
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "shard", "sample", "seed", "level", "states", "model", "lost", "split", "sector"])]
    pub(crate) resume: Option<PathBuf>,

    /// Hold each crash state, or each run of a live sweep, against the rules in this file as well. It can
    /// be given several times
    ///
    /// A violation makes a state broken, beside what the check says. The rules are Datalog, about what
    /// had happened before the crash, what was lost, and what the directories hold after it; of a live
    /// sweep, about what the client did and was answered, whose power failed, and what nodes logged:
    /// docs/specifications.md. For --level syscalls. With
    /// `violation left(P) :- entry(path: P), P ~ "[.]tmp$".` in tmp.dl, `--spec tmp.dl` finds each state
    /// with such a file.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    spec: Vec<PathBuf>,

    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

impl VisitArgs {
    /// Where the results go.
    pub(crate) fn out(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    /// How findings are printed.
    pub(crate) fn format(&self) -> OutputFormat {
        self.format
    }

    /// How long it goes on.
    pub(crate) fn budget(&self) -> Option<Duration> {
        self.budget
    }

    /// After how many violations it stops.
    pub(crate) fn stop_after(&self) -> Option<u64> {
        self.stop_after
    }
}

impl SpaceArgs {
    /// Which states of each disk.
    pub(crate) fn of_disks(&self) -> disk::States {
        let states = self
            .states
            .unwrap_or_else(|| DISK_STATES.parse().expect("they are states"));
        states.at_sectors(self.sector)
    }

    /// In which states disks come back in a live sweep.
    ///
    /// # Errors
    /// If that is asked for in words which choose moments or how many: a live sweep has its own.
    pub(crate) fn of_live(&self) -> anyhow::Result<disk::States> {
        let states = self.states;
        let states = states.unwrap_or_else(|| LIVE_STATES.parse().expect("they are states"));
        if states.sample().is_some() {
            bail!("--states sample:N is for other sweeps: say --sample N of a live one");
        }
        Ok(states.at_sectors(self.sector))
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
        if level == Level::Block {
            let of_calls = [
                ("model", self.model.is_some()),
                ("lost", self.lost.is_some()),
                ("split", self.split.is_some()),
            ];
            if let Some((option, _)) = of_calls.iter().find(|(_, is_given)| *is_given) {
                bail!(
                    "--{option} is for what programs asked of a file system: say --level syscalls or both with it, or \
                     leave it out"
                );
            }
        }
        Ok(level)
    }

    /// All that is asked for.
    pub(crate) fn request(&self, explore: Rule, judge: Judge) -> anyhow::Result<Request> {
        Ok(Request {
            level: self.level()?,
            model: self.model.clone().unwrap_or_else(|| LINUX.into()),
            explore,
            lost: self.lost.unwrap_or(1),
            split: self.split.unwrap_or_default(),
            sector: self.sector,
            states: self.of_disks(),
            sample: None,
            seed: 0,
            starts: vec![Start::Together],
            judge,
            specifications: Vec::new(),
        })
    }
}

/// How many states there are of each kind, as a table.
pub(crate) fn counts(spaces: &Spaces) -> String {
    let head = ["model", "rule", "relaxation", "states"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for kind in spaces.kinds() {
        let model = spaces.members()[kind.member].model.name;
        rows.push(vec![
            model.into(),
            kind.count.rule.clone(),
            relaxation_words(kind.count.relaxation).to_owned() + &start_words(kind.start),
            count_words(kind.count.states),
        ]);
    }
    let all = count_words(spaces.len());
    rows.push(vec!["all".into(), String::new(), String::new(), all]);
    columns(&rows)
}

/// The order in which nodes are started, if it is not the usual one.
pub(crate) fn start_words(start: StartOrder) -> String {
    match Start::of(start) {
        Start::Together => String::new(),
        other => format!(", {}", other.name()),
    }
}

/// Every state in a line.
pub(crate) fn listed(spaces: &Spaces, trace: &Trace) -> String {
    let mut text = String::new();
    for index in 0..spaces.len() {
        let (member, state) = spaces.state(index);
        let model = spaces.members()[member].model.name;
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
            "{index}  {model}  {}{}  {}\n",
            relaxation_words(state.relaxation),
            start_words(state.start),
            nodes.join("; ")
        );
    }
    text
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
            specifications: self.specifications()?,
            ..self.states.request(explore, judge)?
        })
    }

    /// The rules that states are held against.
    fn specifications(&self) -> anyhow::Result<Vec<Specification>> {
        let specifications = specs::read(&self.spec, About::CrashState)?;
        if !specifications.is_empty() && self.states.level()? != Level::Syscalls {
            bail!(
                "--spec is for the level of system calls: say --level syscalls with it, or leave it out"
            );
        }
        Ok(specifications)
    }

    /// The rules that the runs of a live sweep are held against.
    pub(crate) fn live_specifications(&self) -> anyhow::Result<Vec<Specification>> {
        specs::read(&self.spec, About::LiveRun)
    }

    /// How it is done.
    pub(crate) fn control<'a>(&self, jobs: usize, interrupt: &'a Interrupt) -> Control<'a> {
        let Self {
            budget, stop_after, ..
        } = *self;
        Control {
            jobs,
            budget,
            stop_after,
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
        what: &Requested<'_>,
        subjects: MakeSubjects<'_, '_>,
        control: &Control<'_>,
    ) -> anyhow::Result<Outcome> {
        let begin = |directory: &PathBuf| {
            let begun = what.begin(directory, control.jobs);
            begun.context("begin the results")
        };
        let mut results = self.out.as_ref().map(begin).transpose()?;
        let concluded = what.run(results.as_mut(), subjects, control);
        let told = self.tell(concluded, what, results.as_ref());
        if let Some(results) = results.filter(|_| told.is_err()) {
            results.remove_if_empty();
        }
        told
    }

    /// Continues a sweep, and says what came of it.
    pub(crate) fn resume(
        &self,
        mut results: Results,
        trace: &Trace,
        explore: Explore,
        subjects: MakeSubjects<'_, '_>,
        control: &Control<'_>,
    ) -> anyhow::Result<Outcome> {
        let what = Requested::of(&results, trace, explore)?;
        let concluded = what.run(Some(&mut results), subjects, control);
        self.tell(concluded, &what, Some(&results))
    }

    /// Says what came of a sweep, or that it was interrupted before it had any states.
    fn tell(
        &self,
        concluded: node_sweep::Result<Concluded>,
        what: &Requested<'_>,
        results: Option<&Results>,
    ) -> anyhow::Result<Outcome> {
        if concluded
            .as_ref()
            .is_err_and(node_sweep::Error::is_interrupt)
        {
            campaign::say(BEFORE_STATES);
            say_how_to_continue(what, results);
            return Ok(Outcome::Incomplete);
        }
        self.conclude(concluded?, what, results)
    }

    /// Says what came of a sweep, and how to continue it if it is not whole.
    fn conclude(
        &self,
        concluded: Concluded,
        what: &Requested<'_>,
        results: Option<&Results>,
    ) -> anyhow::Result<Outcome> {
        let Concluded {
            findings,
            summary,
            failure,
        } = concluded;
        let printed = print(self.format, &findings, &summary);
        say_how_to_continue(what, results.filter(|_| !summary.is_whole()));
        printed?;
        failure.map_or_else(|| Ok(summary.outcome()), |failure| Err(failure.into()))
    }

    /// Opens the sweep that is to be continued. If there is nothing left to do, what came of it is
    /// printed, and that is returned in its place.
    ///
    /// # Errors
    /// If it is of a cluster and that is not what is wanted, or the other way round; or of disks, and of
    /// another kernel.
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
        if let Some(difference) = results.manifest().other_kernel() {
            bail!(
                "the sweep in {} cannot go on here: {difference}",
                directory.display()
            );
        }
        let count = results.count();
        campaign::say(&format!(
            "continuing in {}: {count} of its different states are judged",
            directory.display()
        ));
        Ok(Ok((results, trace)))
    }
}

/// Says how to continue a sweep, if it keeps results.
fn say_how_to_continue(what: &Requested<'_>, results: Option<&Results>) {
    let Some(results) = results else {
        return;
    };
    let command = command_of(what.request.judge == Judge::Cluster);
    let directory = results.directory().to_string_lossy();
    campaign::say(&format!(
        "continue with: {} {command} --resume {}",
        own_call(),
        quoted(&directory)
    ));
}

/// Prints what is in a directory of results that is finished.
fn print_recorded(directory: &Path, format: OutputFormat) -> anyhow::Result<Outcome> {
    let recorded = Recorded::read(directory)?.context("it was there a moment ago")?;
    print(format, &recorded.findings, &recorded.summary)?;
    Ok(recorded.summary.outcome())
}

/// Sums up shards that were merged; if something is missing, says how to continue.
pub(crate) fn sum_up(
    merged: Merged,
    format: OutputFormat,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if !merged.is_whole {
        let results = &merged.results;
        let command = command_of(results.manifest().request.judge == Judge::Cluster);
        campaign::say(&format!(
            "continue with what is missing with: crashpoint {command} --resume {}",
            results.directory().display()
        ));
        return Ok(Outcome::Incomplete);
    }
    let summed_up = merged.sum_up(interrupt);
    if summed_up
        .as_ref()
        .is_err_and(node_sweep::Error::is_interrupt)
    {
        campaign::say(BEFORE_STATES);
        return Ok(Outcome::Incomplete);
    }
    let Concluded {
        findings,
        summary,
        failure,
        ..
    } = summed_up?;
    print(format, &findings, &summary)?;
    failure.map_or_else(|| Ok(summary.outcome()), |failure| Err(failure.into()))
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
    let left = left_behind(trace, &request.model)?;
    let left = left
        .first()
        .context("nothing was recorded of the directory")?;
    left.difference(data)
        .with_context(|| format!("compare {} with what was recorded", data.display()))
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
            for (place, finding) in findings.iter().enumerate() {
                let is_letter = |finding: &Finding| finding.rank == Rank::LetterOnly;
                if is_letter(finding) && !findings[..place].iter().any(is_letter) {
                    writeln!(out, "{BY_THE_LETTER}\n")?;
                }
                writeln!(out, "{}{}", title(finding), finding.text())?;
            }
            write!(out, "{}{}", inconclusive(summary), summary.table())?;
        }
    }
    out.flush()
}

/// The first line of a finding.
pub(crate) fn title(finding: &Finding) -> String {
    format!(
        "FINDING {}  {}  {}  {}\n",
        finding.number,
        finding.model,
        finding.relaxation,
        finding.alike_words()
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
    let states =
        states.map(|(why, states)| format!("INCONCLUSIVE  {}: {why}\n", counted(*states, "state")));
    let text = states.collect::<String>() + &not_recorded(summary);
    if text.is_empty() { text } else { text + "\n" }
}

fn not_recorded(summary: &Summary) -> String {
    let call = |(call, times): (&String, &u64)| {
        format!(
            "INCONCLUSIVE  {call} was called {}, and what it did is not in the states\n",
            counted(*times, "time")
        )
    };
    let calls = summary.not_recorded.iter().map(call);
    let untested = summary.untested.iter();
    calls
        .chain(
            untested
                .chain(&summary.unlooked)
                .map(|why| format!("INCONCLUSIVE  {why}\n")),
        )
        .collect()
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

/// That a sweep did not end, and how to have it end, if that is so.
pub(crate) fn unended(recorded: &Recorded, directory: &Path) -> Option<String> {
    let command = command_of(recorded.manifest.request.judge == Judge::Cluster);
    let directory = directory.to_string_lossy();
    (!recorded.has_ended).then(|| {
        format!(
            "the sweep has not ended: it was killed, or it is still running; this is what it knew \
             until now, in the order of the states. Continue it with: {} {command} --resume {}",
            own_call(),
            quoted(&directory)
        )
    })
}
