use std::io::{self, Write};

use campaign::{OutputFormat, Progress, columns, is_closed};
use checker::{Contract, Finding};
use local_fs::Variant;
use serde_json::{Value, json};
use specification::Unlooked;
use workloads::Workload;

use crate::result::{
    Again, AgainCounts, Death, LogEntry, RunLog, StateFindings, Verdict, WorkloadResult,
};
use crate::story::{Story, death_text, replay_text};
use crate::sweep::Summary;

/// Lines of a dead kernel's log that are printed. Results have all that was kept.
const DEATH_LINES_MAX: usize = 30;

/// Prints what comes of a sweep: results to standard output, progress to standard error.
pub struct Report {
    format: OutputFormat,
    progress: Progress,
    variant: Variant,
    /// What names the sources of promises.
    contract: Option<Contract>,
    /// The command that replays what comes in.
    replay: String,
    findings: u64,
    inconclusive: u64,
}

impl Report {
    /// A report on one file system; `replay` is the command that tests again what comes in, and
    /// `total` how many workloads there will be, if known. It is judged by `contract`, if not its
    /// own.
    pub fn new(
        format: OutputFormat,
        variant: &Variant,
        contract: Option<&Variant>,
        replay: String,
        total: Option<u64>,
    ) -> Self {
        let progress = Progress::new(&variant.to_string(), "workloads", total);
        let contract = Contract::for_variant(contract.unwrap_or(variant)).ok();
        Self {
            format,
            progress,
            variant: variant.clone(),
            contract,
            replay,
            findings: 0,
            inconclusive: 0,
        }
    }

    /// Prints the result of workload `number` of the sweep, where there is something to say.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn result(
        &mut self,
        number: u64,
        workload: &Workload,
        result: &WorkloadResult,
    ) -> io::Result<()> {
        self.findings += u64::from(result.verdict() == Verdict::Finding);
        self.inconclusive += u64::from(result.inconclusive.is_some());
        let text = match self.format {
            OutputFormat::Json => format!("{}\n", self.json(number, workload, result)),
            OutputFormat::Text => self.text(workload, result),
        };
        if !text.is_empty() {
            self.progress.suspend(|| -> io::Result<()> {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes())?;
                out.flush()
            })?;
        }
        self.progress.tick(self.findings, self.inconclusive);
        // A sweep without findings prints nothing for hours: it must notice all the same that
        // nobody reads any more.
        if is_closed(io::stdout()) {
            Err(io::ErrorKind::BrokenPipe.into())
        } else {
            Ok(())
        }
    }

    /// Ends the progress bar.
    pub fn finish(&self) {
        self.progress.finish();
    }

    /// The result of workload `number` of the sweep as one JSON object. Nothing in it depends on
    /// how long something took.
    pub fn json(&self, number: u64, workload: &Workload, result: &WorkloadResult) -> Value {
        let states = result.broken.iter().map(|state| self.state_json(state));
        let mut value = json!({
            "type": "result",
            "file_system": self.variant.file_system.name,
            "mount_options": self.variant.mount_options,
            "mkfs_options": self.variant.mkfs_options,
            "number": number,
            "variant": self.variant.to_string(),
            "workload": result.workload,
            "verdict": result.verdict(),
            "states_checked": result.states_checked,
            "states_equal": result.states_equal,
            "states_left": result.states_left,
            "broken": states.collect::<Vec<_>>(),
            "log": result.log.as_ref().map(log_json),
            "death": result.death,
            "inconclusive": result.inconclusive,
            "not_applicable": result.not_applicable,
            "block_log": result.block_log,
            "text": (result.verdict() != Verdict::Clean).then(|| workload.to_line()),
        });
        if let Some(again) = result.again {
            value["again"] = json!(again);
        }
        if let Some(unlooked) = &result.unlooked {
            value["unlooked"] = json!(unlooked);
        }
        value
    }

    fn state_json(&self, state: &StateFindings) -> Value {
        let findings = state
            .findings
            .iter()
            .map(|finding| self.finding_json(finding));
        let mut value = json!({
            "operations_done": state.operations_done,
            "under_way": state.under_way,
            "state": state.state.relaxation.to_string(),
            "position": state.state.position,
            "pending": state.pending,
            "lost": state.lost,
            "more": state.more,
            "place": state.place,
            "findings": findings.collect::<Vec<_>>(),
        });
        if !state.again.is_empty() {
            value["address"] = json!(state.address());
            value["again"] = state.again.iter().map(again_json).collect();
        }
        value
    }

    fn finding_json(&self, finding: &Finding) -> Value {
        let line = self
            .contract
            .and_then(|contract| contract.line(finding.promise));
        let mut value = json!({
            "promise": finding.promise.name(),
            "path": finding.path,
            "what": finding.what,
            "promised": finding.promise.words(),
            "promised_by": finding.promised_by,
            "source": line.map(|line| line.source),
        });
        if let Some(rule) = &finding.rule {
            value["rule"] = json!(rule);
        }
        value
    }

    fn text(&self, workload: &Workload, result: &WorkloadResult) -> String {
        let mut text = String::new();
        for state in &result.broken {
            text += &self.finding_text(workload, state);
        }
        if let Some(death) = &result.death {
            text += &self.death_text(workload, death);
        }
        if let Some(why) = &result.inconclusive {
            text += &format!(
                "INCONCLUSIVE  {}  {}\n  why       {why}\n",
                self.variant, result.workload
            );
            text += &format!("  workload  {}\n\n", workload.to_line());
        }
        text
    }

    fn death_text(&self, workload: &Workload, death: &Death) -> String {
        let mut text = format!("FINDING  {}  {}\n", self.variant, workload.name);
        let said = death
            .log
            .iter()
            .position(|line| line.contains(&death.what))
            .unwrap_or(0);
        let last = death.log.len().min(said + DEATH_LINES_MAX);
        text += &death_text(workload, death, &death.log[said..last]);
        text + &self.replay_text(workload)
    }

    fn finding_text(&self, workload: &Workload, state: &StateFindings) -> String {
        let story = Story {
            variant: &self.variant,
            contract: self.contract,
            workload,
            state,
        };
        let title = format!("FINDING  {}  {}\n", self.variant, workload.name);
        title + &story.text() + &self.replay_text(workload)
    }

    fn replay_text(&self, workload: &Workload) -> String {
        format!("{}\n", replay_text(workload, &self.replay))
    }
}

fn log_json(log: &RunLog) -> Value {
    let entry = |entry: &LogEntry| {
        let LogEntry {
            place,
            kind,
            offset,
            length,
            operation,
            completed,
        } = entry;
        match completed {
            None => json!([place, kind, offset, length, operation]),
            Some(completed) => json!([place, kind, offset, length, operation, completed]),
        }
    };
    let entries: Vec<_> = log.entries.iter().map(entry).collect();
    json!({ "left_out": log.left_out, "entries": entries, "holds": log.holds })
}

fn again_json(again: &Again) -> Value {
    json!({
        "state": again.state.relaxation.to_string(),
        "position": again.state.position,
        "written": again.written,
        "writes": again.writes,
        "pending": again.pending,
        "lost": again.lost,
        "clean": again.clean,
        "log": log_json(&again.log),
    })
}

/// The table at the end of a sweep, a line on crashes in recoveries for each file system of which they
/// were asked for, and one for each rule that had nothing to look at.
pub fn summary_text(rows: &[(Variant, Summary)]) -> String {
    let again = rows
        .iter()
        .filter_map(|(variant, summary)| Some(again_words(variant, &summary.again?)));
    let unlooked = rows
        .iter()
        .flat_map(|(variant, summary)| unlooked_words(variant, summary));
    let unlooked = unlooked.map(|words| words + "\n");
    table(rows) + &again.collect::<String>() + &unlooked.collect::<String>()
}

/// The rules that had nothing to look at on a file system.
pub(crate) fn unlooked_words(variant: &Variant, summary: &Summary) -> Vec<String> {
    let words = summary.never_looked().iter().map(Unlooked::words);
    words.map(|words| format!("{variant}: {words}")).collect()
}

/// What the time was too short for on a file system.
pub(crate) fn left_words(variant: &Variant, summary: &Summary) -> Option<String> {
    summary.left().map(|words| format!("{variant}: {words}"))
}

fn again_words(variant: &Variant, again: &AgainCounts) -> String {
    let AgainCounts {
        recoveries,
        silent,
        recoveries_left,
        states_checked,
        states_equal,
        states_left,
        differing,
    } = again;
    let mut text = format!(
        "{variant}: crashes in {recoveries} recorded recoveries ({silent} of them wrote nothing): {states_checked} \
         states visited, {states_equal} equal"
    );
    if recoveries_left + states_left > 0 {
        text += &format!(
            ", at least {states_left} states and {recoveries_left} recoveries left out: the time was up"
        );
    }
    if *differing > 0 {
        text += &format!("; {differing} recovered to another tree, which is allowed");
    }
    text + "\n"
}

/// The table at the end of a sweep.
fn table(rows: &[(Variant, Summary)]) -> String {
    let head = [
        "file system",
        "workloads",
        "states",
        "equal",
        "findings",
        "inconclusive",
        "not applicable",
    ];
    let speed = ["seconds", "workloads/s"];
    let mut cells: Vec<Vec<String>> =
        vec![head.into_iter().chain(speed).map(str::to_owned).collect()];
    for (variant, summary) in rows {
        let seconds = summary.elapsed.as_secs_f64();
        cells.push(vec![
            variant.to_string(),
            summary.workloads.to_string(),
            summary.states_checked.to_string(),
            summary.states_equal.to_string(),
            summary.findings.to_string(),
            summary.inconclusive.to_string(),
            summary.not_applicable.to_string(),
            format!("{seconds:.1}"),
            format!("{:.0}", summary.workloads as f64 / seconds.max(1e-9)),
        ]);
    }
    columns(&cells)
}

/// The last JSON object of a sweep of one file system.
pub fn summary_json(variant: &Variant, summary: &Summary) -> Value {
    let mut value = json!({
        "type": "summary",
        "file_system": variant.file_system.name,
        "mount_options": variant.mount_options,
        "mkfs_options": variant.mkfs_options,
        "variant": variant.to_string(),
        "repair": variant.file_system.repair.map(|repair| repair.program.words()),
        "workloads": summary.workloads,
        "states_checked": summary.states_checked,
        "states_equal": summary.states_equal,
        "states_left": summary.states_left,
        "findings": summary.findings,
        "inconclusive": summary.inconclusive,
        "not_applicable": summary.not_applicable,
        "interrupted": summary.interrupted,
        "fua_recognised": summary.fua_recognised,
        "seconds": (summary.elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
        "time_us": summary.timing,
    });
    if let Some(again) = summary.again {
        value["again"] = json!(again);
    }
    if !summary.never_looked().is_empty() {
        value["unlooked"] = json!(summary.never_looked());
    }
    value
}

/// Prints the summary of a file system, where the format has one.
pub(crate) fn print_summary(
    format: OutputFormat,
    variant: &Variant,
    summary: &Summary,
) -> io::Result<()> {
    match format {
        OutputFormat::Text => Ok(()),
        OutputFormat::Json => writeln!(io::stdout(), "{}", summary_json(variant, summary)),
    }
}

/// Prints the table, where the format has one.
pub(crate) fn print_table(format: OutputFormat, rows: &[(Variant, Summary)]) -> io::Result<()> {
    match format {
        OutputFormat::Text => {
            write!(io::stdout(), "{}", summary_text(rows)).and_then(|()| io::stdout().flush())
        }
        OutputFormat::Json => Ok(()),
    }
}
