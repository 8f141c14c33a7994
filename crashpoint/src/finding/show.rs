//! `crashpoint show`: the findings of a sweep, and the story of one.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Outcome, columns, own_call, quoted};
use clap::{Args, Command};
use node_sweep::{Finding, Numbered, Rank, Recorded, load_trace};
use replayer::{Findings, Found, Group, Overview, replay_text};
use trace_store::Trace;

use super::{Named, live};
use crate::cluster::FRAMES;
use crate::inject;
use crate::states::{BY_THE_LETTER, inconclusive_title, numbered_inconclusive, title, unended};

/// What a directory has that is a trace of a program or a cluster.
const TRACE: &str = "trace.json";

/// The arguments of `crashpoint show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The directory of results, which --out named, or the trace of a program or a cluster
    #[arg(value_name = "RESULTS")]
    results: PathBuf,

    /// The number of a finding, or of an inconclusive state of a program or a cluster: its story;
    /// without one, a list of all
    #[arg(value_name = "N")]
    number: Option<usize>,

    /// List each finding, not one for those that are alike; of one finding of a program or a
    /// cluster, tell everything
    #[arg(long)]
    all: bool,

    /// Of a trace that was recorded on simulated machines: write all frames that were sent to FILE,
    /// which Wireshark reads
    #[arg(long, value_name = "FILE", conflicts_with_all = ["number", "all"])]
    pcap: Option<PathBuf>,
}

/// Does it.
pub(crate) fn show(arguments: ShowArgs, fs: &Command) -> anyhow::Result<Outcome> {
    if let Some(path) = &arguments.pcap {
        return frames(&arguments.results, path);
    }
    if arguments.all {
        refuse_all(&arguments)?;
    }
    if let Some(outcome) = live::show(&arguments.results, arguments.number)? {
        return Ok(outcome);
    }
    if let Some(outcome) = inject::show(&arguments.results, arguments.number)? {
        return Ok(outcome);
    }
    if let Some(recorded) = Recorded::read(&arguments.results)? {
        return states(&recorded, &arguments);
    }
    if arguments.results.join(TRACE).exists() {
        return describe(&arguments);
    }
    match arguments.number {
        Some(_) if arguments.all => {
            bail!("a finding of a file system is told whole: leave out --all")
        }
        Some(number) => tell(
            &Named {
                results: arguments.results,
                number,
            },
            fs,
        ),
        None => list(&arguments),
    }
}

/// --all is for lists of alike findings of file systems, and for one finding of a program or a cluster.
fn refuse_all(arguments: &ShowArgs) -> anyhow::Result<()> {
    let results = &arguments.results;
    let is_running =
        injector::manifest(results)?.is_some() || injector::online::manifest(results)?.is_some();
    if is_running {
        bail!("results.jsonl has a line for each of these findings: leave out --all");
    }
    if arguments.number.is_none() && Recorded::read(results)?.is_some() {
        bail!("findings of a program or a cluster are all listed: leave out --all, or name one");
    }
    Ok(())
}

/// Writes the frames of a simulated run to a file.
fn frames(trace: &Path, to: &Path) -> anyhow::Result<Outcome> {
    let from = trace.join(FRAMES);
    if !from.is_file() {
        bail!(
            "{} has no frames: `crashpoint cluster record --simulate` keeps those of its run",
            trace.display()
        );
    }
    // What is there is somebody's.
    let mut file = File::create_new(to).with_context(|| format!("write {}", to.display()))?;
    File::open(&from)
        .and_then(|mut frames| io::copy(&mut frames, &mut file))
        .with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
    Ok(Outcome::Clean)
}

/// Of a sweep of the crash states of a program or a cluster.
fn states(recorded: &Recorded, arguments: &ShowArgs) -> anyhow::Result<Outcome> {
    if let Some(number) = arguments.number {
        return tell_of_states(recorded, number, arguments);
    }
    let mut out = io::stdout().lock();
    let (findings, summary) = (&recorded.findings, &recorded.summary);
    let is_of_one = |finding: &Finding| finding.rank != Rank::LetterOnly;
    let (of_one, by_the_letter) = findings.split_at(findings.partition_point(is_of_one));
    if !of_one.is_empty() {
        writeln!(out, "{}", listed(of_one))?;
    }
    if !by_the_letter.is_empty() {
        writeln!(out, "{BY_THE_LETTER}\n\n{}", listed(by_the_letter))?;
    }
    write!(
        out,
        "{}{}",
        numbered_inconclusive(recorded),
        summary.table()
    )?;
    if let Some(words) = unended(recorded, &arguments.results) {
        writeln!(out, "{words}")?;
    }
    Ok(summary.outcome())
}

/// A line for each finding.
fn listed(findings: &[Finding]) -> String {
    let head = ["finding", "relaxation", "states", "missing", "broken"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(findings.iter().map(|finding| {
        let words = finding.complaint.words.first().cloned().unwrap_or_default();
        vec![
            finding.number.to_string(),
            finding.relaxation.clone(),
            finding.states.to_string(),
            finding.missing(),
            words,
        ]
    }));
    columns(&rows)
}

/// A finding of it, or a state that nobody could judge.
fn tell_of_states(
    recorded: &Recorded,
    number: usize,
    arguments: &ShowArgs,
) -> anyhow::Result<Outcome> {
    let all = arguments.all;
    let (text, outcome) = match recorded.get(number)? {
        Numbered::Finding(finding) => {
            let text = if all {
                finding.text_all()
            } else {
                finding.text()
            };
            (title(finding) + &text, Outcome::Findings)
        }
        Numbered::Inconclusive(state) => {
            let manifest = &recorded.manifest;
            let trace = load_trace(&arguments.results, manifest)?;
            let story = state.story(&trace, &manifest.request)?;
            let text = inconclusive_title(&story) + &story.inconclusive_text(all);
            (text, Outcome::Incomplete)
        }
    };
    write!(io::stdout(), "{text}")?;
    Ok(outcome)
}

/// A trace, a line for each event.
fn describe(arguments: &ShowArgs) -> anyhow::Result<Outcome> {
    let path = arguments.results.display();
    anyhow::ensure!(
        arguments.number.is_none() && !arguments.all,
        "{path} is a trace, which has no findings: sweep it"
    );
    let trace = Trace::load(&arguments.results)?;
    let mut out = io::stdout().lock();
    for line in recorder::process::describe(&trace) {
        writeln!(out, "{line}")?;
    }
    for (other, number) in trace.others.iter().zip(2..) {
        let schedule = other.schedule();
        writeln!(
            out,
            "recorded again under the schedule {schedule}: {path}/recording-{number}"
        )?;
    }
    for (what, count) in &trace.about.not_recorded {
        writeln!(out, "not recorded: {what}, {}", counted(*count, "time"))?;
    }
    Ok(Outcome::Clean)
}

fn tell(named: &Named, fs: &Command) -> anyhow::Result<Outcome> {
    let opened = named.open(fs)?;
    let found = &opened.found;
    let mut text = format!(
        "FINDING {}  {}  {}\n",
        found.number, found.variant, found.workload.name
    );
    text += &opened.tell(&found.workload, &found.what, found.log.as_ref());
    text += &replay_text(&found.workload, &opened.sweep_command(&opened.sweep));
    write!(io::stdout(), "{text}")?;
    Ok(Outcome::Findings)
}

/// The findings of a sweep of file systems, and what it says nothing of.
fn list(arguments: &ShowArgs) -> anyhow::Result<Outcome> {
    let findings = Findings::read(&arguments.results)?;
    let overview = Overview::read(&arguments.results)?;
    let mut out = io::stdout().lock();
    if findings.all.is_empty() {
        writeln!(out, "no findings")?;
    } else {
        write!(out, "{}", table(&findings, arguments.all))?;
    }
    let directory = arguments.results.to_string_lossy();
    let (call, directory) = (own_call(), quoted(&directory));
    let open = overview.open.iter().filter(|open| !open.not_applicable);
    match open.count() {
        0 => {}
        count => writeln!(
            out,
            "{} inconclusive: `{call} report {directory} --html FILE` lists them",
            counted(count, "workload")
        )?,
    }
    for words in overview.left().into_iter().chain(overview.unlooked()) {
        writeln!(out, "{words}")?;
    }
    if !overview.finished {
        writeln!(
            out,
            "the sweep has not ended: it was stopped or killed, or it is still running; this is what it \
             knew until now. Continue it with: {call} fs --resume {directory}"
        )?;
    }
    Ok(overview.outcome())
}

fn table(findings: &Findings, all: bool) -> String {
    let head = [
        "finding",
        "file system",
        "workload",
        "promise",
        "path",
        "alike",
        "states",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    if all {
        let alone = |found| Group {
            representative: found,
            members: vec![found],
        };
        rows.extend(findings.all.iter().map(|found| row(&alone(found))));
    } else {
        rows.extend(findings.groups().iter().map(row));
    }
    columns(&rows)
}

fn row(group: &Group<'_>) -> Vec<String> {
    let found = group.representative;
    vec![
        found.number.to_string(),
        found.variant.to_string(),
        found.workload.name.clone(),
        promises(found),
        found
            .findings()
            .first()
            .map(|finding| finding.rule_name().unwrap_or(&finding.path).to_owned())
            .unwrap_or_default(),
        group.members.len().to_string(),
        group.states().to_string(),
    ]
}

/// The promises that it breaks, each once.
fn promises(found: &Found) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in found
        .findings()
        .iter()
        .map(|finding| finding.promise.name())
    {
        names.extend(Some(name).filter(|name| !names.contains(name)));
    }
    if names.is_empty() {
        "the kernel died".to_owned()
    } else {
        names.join(", ")
    }
}
