//! `crashpoint history`: what clients saw, checked and written in other forms.

mod export;
mod kept;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use campaign::{Outcome, OutputFormat};
use clap::{Args, Subcommand, ValueEnum};
use glob::Pattern;
use history::{
    Anomaly, Consistency, Contract, Failure, Format, History, Model, Object, Report, Rule,
    Settings, Verdict,
};
use serde_json::json;

/// The arguments of `crashpoint history`: of a run of a campaign, or a command on a file.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,

    #[command(flatten)]
    run: Option<export::ExportArgs>,
}

/// How long the search for orders may take, if nothing is said.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The commands of `crashpoint history`.
#[derive(Debug, Subcommand)]
pub(crate) enum HistoryCommand {
    /// Check a history: is there an order of the operations that explains what clients saw?
    ///
    /// Reads JSON lines or Jepsen's EDN (docs/histories.md), and looks for failures that have a
    /// name, and for an order. `crashpoint history check RESULTS N` holds run N of `crashpoint inject`
    /// against [[histories]] of its cluster file, as the campaign did. Exit status: 0 nothing was found, 1 something was, 2 the file could
    /// not be read, 3 it could not be decided in time, or no answer says anything of the state.
    Check(CheckArgs),
    /// Write a history in another form
    Convert(ConvertArgs),
}

/// What says what a history is of.
#[derive(Debug, Args)]
struct OfArgs {
    /// The history; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// What the objects are: register, map, lock, semaphore:N, counter, queue, bag, set,
    /// list-append or rw-register. With a pattern of keys, it is said of these: 'l*=lock'; a key
    /// that is no text is compared as JSON, so '1=lock' is of 1 and of "1". It can be given several
    /// times, and the first that fits counts. Of other objects, their operations say what they are,
    /// where they can
    #[arg(long, value_name = "[KEYS=]MODEL")]
    model: Vec<String>,

    /// What an object is at first, as JSON [default: null, and 0 for a counter]
    #[arg(long, value_name = "JSON")]
    initial: Option<String>,

    /// Values are pairs of a key and a value, as Jepsen's independent tests write them
    #[arg(long)]
    independent: bool,

    /// How long the search for orders may take: 30s, 5m
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration)]
    time_limit: Duration,
}

/// The arguments of `crashpoint history check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    of: OfArgs,

    /// The number of a run, where FILE is the directory of results of `crashpoint inject`: what
    /// [[histories]] of its cluster file says is what objects are
    #[arg(value_name = "N", conflicts_with_all = ["model", "initial", "independent", "consistency", "recover_within"])]
    number: Option<u64>,

    /// What the system promises: linearizable or eventual; of transactions read-uncommitted,
    /// read-committed, repeatable-read, snapshot-isolation, serializable,
    /// strong-session-serializable or strict-serializable. Without it the strongest
    #[arg(long, value_parser = consistency, value_name = "CONSISTENCY")]
    consistency: Option<Consistency>,

    /// How long the system may take to answer again after a heal
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration)]
    recover_within: Duration,

    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// The arguments of `crashpoint history convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    of: OfArgs,

    /// The form
    #[arg(long, value_enum, value_name = "FORM")]
    to: Form,

    /// Where to write it. Without it, standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A form that a history can be written in.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    /// One JSON object a line
    Jsonl,
    /// The EDN of Jepsen
    Jepsen,
    /// What Porcupine's page draws, with the longest orders that were found
    Porcupine,
}

fn consistency(name: &str) -> Result<Consistency, String> {
    Consistency::from_name(name).ok_or_else(|| {
        let known = Consistency::ALL.map(|(_, name)| name).join(", ");
        format!("there is no consistency {name} (there are {known})")
    })
}

/// Does it.
pub(crate) fn run(arguments: &HistoryArgs) -> anyhow::Result<Outcome> {
    match (&arguments.command, &arguments.run) {
        (Some(HistoryCommand::Check(arguments)), _) => check(arguments),
        (Some(HistoryCommand::Convert(arguments)), _) => convert(arguments),
        (None, Some(run)) => export::export(run),
        (None, None) => {
            bail!("say a command, or a run and its form: see crashpoint history --help")
        }
    }
}

fn check(arguments: &CheckArgs) -> anyhow::Result<Outcome> {
    if let Some(number) = arguments.number {
        return kept::check(arguments, number);
    }
    let history = read(&arguments.of)?;
    if arguments.of.model.is_empty() {
        kept::hint(&arguments.of.file);
    }
    let mut settings = settings(&arguments.of, arguments.consistency)?;
    settings.recover_within = Some(arguments.recover_within);
    let report = checked(&arguments.of, &history, &settings)?;
    tell(&history, &report, arguments.format)
}

/// Prints what was found.
fn tell(history: &History, report: &Report, format: OutputFormat) -> anyhow::Result<Outcome> {
    let text = match format {
        OutputFormat::Text => in_words(history, report),
        OutputFormat::Json => as_json(history, report),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(match report.verdict() {
        Verdict::Clean => Outcome::Clean,
        Verdict::Anomalous => Outcome::Findings,
        Verdict::Undecided => Outcome::Incomplete,
    })
}

fn convert(arguments: &ConvertArgs) -> anyhow::Result<Outcome> {
    let (of, to) = (&arguments.of, arguments.to);
    let is_of_a_model = !of.model.is_empty() || of.initial.is_some();
    if is_of_a_model && !matches!(to, Form::Porcupine) {
        bail!(
            "--model and --initial are for --to porcupine, which has the history checked: leave them out"
        );
    }
    let history = read(&arguments.of)?;
    let bytes = written(&history, arguments.to, || {
        let mut settings = settings(&arguments.of, None)?;
        settings.describe = true;
        checked(&arguments.of, &history, &settings)
    })?;
    put(&bytes, arguments.out.as_deref())?;
    Ok(Outcome::Clean)
}

/// A history in a form. For what Porcupine draws it has to be checked.
fn written(
    history: &History,
    form: Form,
    check: impl FnOnce() -> anyhow::Result<Report>,
) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match form {
        Form::Jsonl => history::write(history, Format::JsonLines, &mut bytes)?,
        Form::Jepsen => history::write(history, Format::Jepsen, &mut bytes)?,
        Form::Porcupine => {
            let drawn = history::porcupine(history, &check()?.partitions());
            writeln!(bytes, "{drawn}")?;
        }
    }
    Ok(bytes)
}

/// Writes to a file, or to standard output.
fn put(bytes: &[u8], out: Option<&Path>) -> anyhow::Result<()> {
    match out {
        Some(path) => {
            std::fs::write(path, bytes).with_context(|| format!("write {}", path.display()))
        }
        None => Ok(io::stdout().write_all(bytes)?),
    }
}

fn read(of: &OfArgs) -> anyhow::Result<History> {
    let name = of.file.display();
    let read = if of.file == Path::new("-") {
        history::read(io::stdin().lock())
    } else {
        if of.file.is_dir() {
            bail!(
                "{name} is a directory: say which run, if it has results of `crashpoint inject`: \
                 `crashpoint history check {name} N`, or `crashpoint history {name} N --export FORM`"
            );
        }
        let file = File::open(&of.file).with_context(|| format!("read {name}"))?;
        history::read(BufReader::new(file))
    };
    let history = read.with_context(|| format!("read {name}"))?;
    if !of.independent {
        return Ok(history);
    }
    history::independent(&history).with_context(|| format!("read {name} with --independent"))
}

fn settings(of: &OfArgs, consistency: Option<Consistency>) -> anyhow::Result<Settings> {
    let initial = of.initial.as_ref().map(|initial| {
        history::parse_value(initial)
            .map_err(|problem| anyhow::anyhow!("--initial {initial}: {problem}"))
    });
    let initial = initial.transpose()?;
    let mut rules = Vec::new();
    for said in &of.model {
        let mut rule = rule(said).context("--model")?;
        if let Some(initial) = &initial {
            rule.contract.initial = initial.clone();
        }
        rule.contract.consistency = consistency.unwrap_or(rule.contract.consistency);
        rules.push(rule);
    }
    Ok(Settings {
        rules,
        initial,
        consistency,
        time_limit: Some(of.time_limit),
        ..Settings::default()
    })
}

/// `MODEL`, or `KEYS=MODEL`.
fn rule(said: &str) -> anyhow::Result<Rule> {
    let (keys, model) = match said.rsplit_once('=') {
        Some((keys, model)) => (Some(Pattern::new(keys)?), model),
        None => (None, said),
    };
    let contract = Contract::new(Model::parse(model)?);
    Ok(Rule { keys, contract })
}

fn checked(of: &OfArgs, history: &History, settings: &Settings) -> anyhow::Result<Report> {
    history::check(history, settings).with_context(|| format!("check {}", of.file.display()))
}

/// So many failures of one sort are shown to people.
const SHOWN_MAX: usize = 5;

fn in_words(history: &History, report: &Report) -> String {
    let mut words = String::new();
    for (kind, name, meaning) in Failure::ALL {
        let found: Vec<_> = report
            .anomalies
            .iter()
            .filter(|one| one.kind == kind)
            .collect();
        if found.is_empty() {
            continue;
        }
        words += &format!("ANOMALY  {name}: {meaning}{}\n", times(found.len()));
        for anomaly in found.iter().take(SHOWN_MAX) {
            let of = anomaly
                .key
                .as_ref()
                .map_or_else(String::new, |key| format!("key {key}: "));
            words += &format!("  {of}{}\n", anomaly.in_words());
        }
        if found.len() > SHOWN_MAX {
            words += &format!(
                "  and {} more (--format json has them)\n",
                found.len() - SHOWN_MAX
            );
        }
    }
    for undecided in &report.undecided {
        words += &format!("UNDECIDED  {undecided}\n");
    }
    words + &summary(history, report)
}

fn times(count: usize) -> String {
    if count == 1 {
        String::new()
    } else {
        format!(", {count} times")
    }
}

fn summary(history: &History, report: &Report) -> String {
    let count = |outcome| {
        let operations = history.operations().iter();
        operations.filter(|one| one.outcome == outcome).count()
    };
    format!(
        "{} operations ({} ok, {} failed, {} unknown) on {} {}: {}{}: {}\n",
        history.operations().len(),
        count(history::Outcome::Ok),
        count(history::Outcome::Fail),
        count(history::Outcome::Unknown),
        report.objects.len(),
        if report.objects.len() == 1 {
            "object"
        } else {
            "objects"
        },
        models(report).join(", "),
        unjudged(report),
        verdict(report),
    )
}

/// How many of the objects nothing can be told of, where it is not all of them: that is said already.
fn unjudged(report: &Report) -> String {
    let known = report.objects.iter().filter(|one| one.model.is_some());
    match known.filter(|one| !one.is_judged).count() {
        count if count == 0 || count == report.objects.len() => String::new(),
        count => format!("; {count} without an answer that can be wrong"),
    }
}

/// So many keys of objects are named whose model was guessed.
const GUESSED_MAX: usize = 4;

/// What the objects were taken for: `1 counter, 2 lock by their operations (l1, l2)`.
fn models(report: &Report) -> Vec<String> {
    let mut objects: BTreeMap<(&str, bool), Vec<Option<&history::Value>>> = BTreeMap::new();
    for object in &report.objects {
        let model = object.model.map_or("not known", |model| model.row().name);
        let kind = (model, object.is_guessed && object.model.is_some());
        objects.entry(kind).or_default().push(object.key.as_ref());
    }
    let words = objects.into_iter().map(|((model, is_guessed), keys)| {
        let guessed = if is_guessed {
            guessed(&keys)
        } else {
            String::new()
        };
        format!("{} {model}{guessed}", keys.len())
    });
    words.collect()
}

/// How it is known what these objects are: nobody said so.
fn guessed(keys: &[Option<&history::Value>]) -> String {
    let whose = if keys.len() == 1 { "its" } else { "their" };
    let named = keys.iter().flatten().take(GUESSED_MAX);
    let mut named: Vec<_> = named.map(ToString::to_string).collect();
    if keys.len() > GUESSED_MAX {
        named.push(format!("and {} more", keys.len() - GUESSED_MAX));
    }
    let named = match named.as_slice() {
        [] => String::new(),
        named => format!(" ({})", named.join(", ")),
    };
    format!(" by {whose} operations{named}")
}

fn verdict(report: &Report) -> &'static str {
    match report.verdict() {
        Verdict::Clean => "clean",
        Verdict::Anomalous => "anomalies",
        Verdict::Undecided => "undecided",
    }
}

fn as_json(history: &History, report: &Report) -> String {
    let anomalies = report.anomalies.iter();
    let anomalies = anomalies.map(|anomaly| anomaly_as_json(history, anomaly));
    let undecided = report.undecided.iter();
    let undecided = undecided.map(|what| json!({ "type": "undecided", "what": what }));
    let objects = report.objects.iter().map(object_as_json);
    let summary = json!({
        "type": "history-summary",
        "operations": history.operations().len(),
        "objects": report.objects.len(),
        "anomalies": report.anomalies.len(),
        "verdict": verdict(report),
    });
    let lines = anomalies.chain(undecided).chain(objects).chain([summary]);
    lines.fold(String::new(), |text, line| text + &format!("{line}\n"))
}

fn anomaly_as_json(history: &History, anomaly: &Anomaly) -> serde_json::Value {
    let index = |&place: &usize| history.events()[history.operations()[place].call].index;
    let events: Vec<_> = anomaly.operations.iter().map(index).collect();
    let more: Vec<_> = anomaly.more.iter().map(index).collect();
    json!({
        "type": "anomaly",
        "kind": anomaly.kind.name(),
        "key": anomaly.key.as_ref().map(history::Value::to_json),
        "what": anomaly.in_words(),
        "events": events,
        "more": more,
    })
}

fn object_as_json(object: &Object) -> serde_json::Value {
    json!({
        "type": "object",
        "key": object.key.as_ref().map(history::Value::to_json),
        "model": object.model.map(|model| model.row().name),
        "guessed": object.is_guessed,
        "judged": object.is_judged,
        "operations": object.operations.len(),
    })
}
