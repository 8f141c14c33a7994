//! JUnit XML, as CI servers read it: a suite for each file system, a case for each workload that is
//! not clean, and one for all that are. Of programs and clusters a suite for each sweep, a case for
//! each finding; so of live sweeps, and of campaigns of injected faults.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use brief::counted;
use injector::online::InjectResult;
use injector::{LiveResult, never_looked};
use itertools::Itertools;
use node_sweep::{Finding, Reason, Recorded, Summary};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use replayer::{Found, Swept};
use specification::Unlooked;

use super::Read;
use super::inject::Injected;
use super::live::LiveSweep;
use super::sweep::{Sweep, headline, promises};
use crate::states::{title, unended};

/// What came of the cases of a suite, and how many things have no case of their own.
struct Counts {
    clean: u64,
    /// What is clean.
    things: &'static str,
    skipped: u64,
    time: Duration,
}

/// The file for these sweeps.
pub(super) fn junit(
    Read {
        sweeps,
        states,
        live,
        injected,
    }: &Read,
) -> anyhow::Result<String> {
    let alone = sweeps.len() == 1 && states.is_empty() && live.is_empty() && injected.is_empty();
    let suites = sweeps
        .iter()
        .flat_map(|sweep| (0..sweep.overview.file_systems.len()).map(move |place| (sweep, place)));
    let suites = suites.map(|(sweep, place)| suite(sweep, place, alone));
    let suites = suites.chain(
        states
            .iter()
            .map(|(directory, recorded)| states_suite(directory, recorded)),
    );
    let suites = suites.chain(live.iter().map(live_suite));
    let suites = suites.chain(injected.iter().map(injected_suite));
    let mut report = Report::new("crashpoint");
    report.add_test_suites(suites);
    Ok(report.to_string()?)
}

fn suite(sweep: &Sweep, place: usize, alone: bool) -> TestSuite {
    let swept = &sweep.overview.file_systems[place];
    let variant = swept.variant.to_string();
    let summary = &swept.summary;
    let open = sweep.overview.open.iter();
    let skipped = open.filter(|open| open.place == place && open.not_applicable);
    let skipped = skipped.count() as u64;
    let name = if alone {
        variant
    } else {
        format!("{} {variant}", sweep.directory.display())
    };
    let manifest = &sweep.findings.manifest;
    let counts = Counts {
        clean: swept.clean,
        things: "workloads",
        skipped,
        time: summary.elapsed,
    };
    let mut suite = suite_of(&name, cases(sweep, place), &counts);
    suite.add_properties([
        ("kernel", &*printable(&manifest.kernel_release)),
        ("disk", &printable(&manifest.disk)),
        ("states", &manifest.states.join(",")),
        ("states-checked", &summary.states_checked.to_string()),
        ("states-equal", &summary.states_equal.to_string()),
    ]);
    suite
}

/// The workloads of one file system that are not clean, and what is missing.
fn cases(sweep: &Sweep, place: usize) -> Vec<TestCase> {
    let swept = &sweep.overview.file_systems[place];
    let mut cases = Vec::new();
    let found = sweep
        .findings
        .all
        .iter()
        .filter(|found| found.variant == swept.variant);
    for (_, found) in &found.chunk_by(|found| found.workload_number) {
        cases.push(failed(sweep, &found.collect::<Vec<_>>()));
    }
    // What has findings fails already, which is worse.
    let unmeasured =
        |open: &&replayer::Open| open.place == place && !open.not_applicable && !open.has_findings;
    for open in sweep.overview.open.iter().filter(unmeasured) {
        let text = format!("workload  {}\nwhy       {}\n", open.text, open.why);
        cases.push(error(&open.workload, "inconclusive", &open.why, &text));
    }
    cases.extend(missing(sweep, swept));
    cases.extend(swept.summary.never_looked().iter().map(unlooked));
    cases
}

/// Whether some workloads of a file system are missing, or crash states.
fn missing(sweep: &Sweep, swept: &Swept) -> Vec<TestCase> {
    let mut cases = Vec::new();
    if !sweep.overview.finished {
        let message = format!(
            "not finished: {} done so far",
            counted(swept.summary.workloads, "workload")
        );
        let text = format!(
            "continue with: crashpoint fs --resume {}\n",
            sweep.directory.display()
        );
        cases.push(error("the sweep", "unfinished", &message, &text));
    }
    let left = swept.summary.left();
    cases.extend(left.map(|words| error("the budget", "unfinished", &words, &words)));
    cases
}

/// What a rule never had to look at.
fn unlooked(unlooked: &Unlooked) -> TestCase {
    let words = unlooked.words();
    error(&unlooked.violation, "unlooked", &words, &words)
}

/// Of a sweep of the crash states of a program or a cluster.
fn states_suite(directory: &Path, recorded: &Recorded) -> TestSuite {
    let Recorded {
        manifest, summary, ..
    } = recorded;
    let mut cases = failures(&recorded.findings);
    cases.extend(unknown(directory, recorded));
    let clean = summary
        .checked
        .saturating_sub(summary.broken + summary.inconclusive);
    let name = format!(
        "{} {} on {}",
        directory.display(),
        manifest.name,
        manifest.model
    );
    let counts = Counts {
        clean,
        things: "states",
        skipped: 0,
        // It comes from a file.
        time: Duration::try_from_secs_f64(summary.seconds).unwrap_or_default(),
    };
    let mut suite = suite_of(&name, cases, &counts);
    suite.add_properties([
        ("kernel", &*printable(&manifest.kernel_release)),
        ("states", &summary.states.to_string()),
        ("states-checked", &summary.checked.to_string()),
        ("states-equal", &summary.equal.to_string()),
    ]);
    suite
}

/// Of a live sweep.
fn live_suite(sweep: &LiveSweep) -> TestSuite {
    let findings = sweep.findings();
    let mut cases: Vec<_> = (1..)
        .zip(&findings)
        .map(|(number, (result, alike))| live_case(sweep, number, result, *alike))
        .collect();
    for (why, count) in sweep.inconclusive() {
        let words = format!("{}: {why}", counted(count, "failure"));
        cases.push(error("failures", "inconclusive", &words, &words));
    }
    cases.extend(never_looked(sweep.results()).into_iter().map(unlooked));
    let unended = sweep.unended();
    cases.extend(unended.map(|words| error("the sweep", "unfinished", &words, &words)));
    let counts = Counts {
        clean: sweep.clean(),
        things: "runs",
        skipped: 0,
        time: Duration::ZERO,
    };
    let directory = sweep.directory.display();
    let mut suite = suite_of(&format!("{directory} {}", sweep.name()), cases, &counts);
    let (first, last) = sweep.manifest.asked.seeds;
    suite.add_properties([
        ("kernel", &*sweep.manifest.kernel_hash),
        ("seeds", &format!("{first}..{last}")),
        ("states", &sweep.manifest.asked.states.to_string()),
    ]);
    suite
}

fn live_case(sweep: &LiveSweep, number: usize, result: &LiveResult, alike: usize) -> TestCase {
    let name = injector::headline(number, result, alike);
    let broken = result.broken().unwrap_or_default().join("; ");
    let text = sweep.told(number, result, alike);
    case(&name, NonSuccessKind::Failure, "live", &broken, &text)
}

/// Of a campaign of injected faults.
fn injected_suite(campaign: &Injected) -> TestSuite {
    let mut cases = Vec::new();
    for (result, numbers) in campaign.findings() {
        cases.push(injected_case(campaign, result, numbers.len()));
    }
    for (why, count) in campaign.inconclusive() {
        let words = format!("{}: {why}", counted(count as usize, "run"));
        cases.push(error("runs", "inconclusive", &words, &words));
    }
    for words in campaign.short_of() {
        cases.push(error("the campaign", "unfinished", &words, &words));
    }
    let seconds = campaign
        .summary
        .results
        .iter()
        .map(|result| result.ran.seconds)
        .sum();
    let counts = Counts {
        clean: campaign.clean(),
        things: "runs",
        skipped: 0,
        // It comes from a file.
        time: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
    };
    let directory = campaign.directory.display();
    let mut suite = suite_of(&format!("{directory} {}", campaign.name()), cases, &counts);
    suite.add_properties([
        ("plans", &*printable(&campaign.what())),
        ("runs", &campaign.summary.results.len().to_string()),
        ("broken", &campaign.summary.broken().to_string()),
    ]);
    suite
}

fn injected_case(campaign: &Injected, result: &InjectResult, alike: usize) -> TestCase {
    let runs = counted(alike, "run");
    let name = format!("run {} ({runs} alike)", result.index + 1);
    let broken = result.ran.broken().unwrap_or_default().join("; ");
    let text = campaign.told(result);
    case(&name, NonSuccessKind::Failure, "inject", &broken, &text)
}

/// A case for each finding.
fn failures(findings: &[Finding]) -> Vec<TestCase> {
    // Those who read it take cases of one name for one.
    let mut names: HashMap<String, u32> = HashMap::new();
    let failed = findings.iter().map(|finding| {
        let missing = printable(&finding.missing()).into_owned();
        let count = names.entry(missing.clone()).or_default();
        *count += 1;
        let name = if *count == 1 {
            missing
        } else {
            format!("{missing} ({count})")
        };
        let nodes = finding.nodes.iter();
        let lost = nodes.flat_map(|node| node.lost.iter().chain(&node.midway));
        let kind = lost.map(|lost| &*lost.call).unique().join(" ");
        let text = format!("{}{}", title(finding), finding.text());
        let message = finding.complaint.words.join("; ");
        case(&name, NonSuccessKind::Failure, &kind, &message, &text)
    });
    failed.collect()
}

/// What a sweep has not tried although it was asked to, and of what that is.
fn untried(summary: &Summary) -> impl Iterator<Item = (&'static str, String)> {
    let untested = summary.untested.iter().cloned();
    let unlooked = summary.unlooked.iter().cloned();
    let recoveries = summary.untried_recoveries();
    untested
        .map(|why| ("the recording", why))
        .chain(unlooked.map(|why| ("the rules", why)))
        .chain(recoveries.map(|why| ("the recoveries", why)))
}

/// What a sweep of crash states does not tell, a case for each reason.
fn unknown(directory: &Path, recorded: &Recorded) -> Vec<TestCase> {
    let summary = &recorded.summary;
    let stopped = unended(recorded, directory)
        .or_else(|| (!summary.is_whole()).then(|| "it was stopped before its end".to_owned()));
    let stopped = stopped.map(|words| ("the sweep", words));
    let reason = |reason: &Reason<'_>| {
        let Reason { first, states, why } = reason;
        (
            "states",
            format!(
                "{}: {why} (the first is number {first})",
                counted(*states, "state")
            ),
        )
    };
    let reasons = recorded.reasons();
    let reasons = reasons.iter().map(reason);
    let calls = summary.not_recorded.iter();
    let calls = calls.map(|(call, times)| {
        (
            "the recording",
            format!("{call} was called {}", counted(*times, "time")),
        )
    });
    let case = |(name, words): (&str, String)| error(name, "inconclusive", &words, &words);
    stopped
        .into_iter()
        .chain(reasons)
        .chain(calls)
        .chain(untried(summary))
        .map(case)
        .collect()
}

/// The case of a workload with these findings.
fn failed(sweep: &Sweep, found: &[&Found]) -> TestCase {
    let first = found[0];
    let story = |found: &&Found| format!("finding {}\n{}", found.number, sweep.story(found));
    let text = found.iter().map(story).join("\n");
    let kind = found
        .iter()
        .flat_map(|found| promises(found))
        .unique()
        .join(" ");
    let name = &first.workload.name;
    case(
        name,
        NonSuccessKind::Failure,
        &kind,
        &headline(first),
        &text,
    )
}

/// A suite of these cases, and of what has no case of its own: it is counted, in a case for all.
fn suite_of(name: &str, cases: Vec<TestCase>, counts: &Counts) -> TestSuite {
    let mut suite = TestSuite::new(printable(name));
    suite.set_time(counts.time);
    suite.add_test_cases(cases);
    let Counts { clean, things, .. } = counts;
    if *clean > 0 {
        let name = format!("{clean} clean {things}");
        suite.add_test_case(TestCase::new(name, TestCaseStatus::success()));
    }
    if counts.skipped > 0 {
        let mut status = TestCaseStatus::skipped();
        status.set_message("the file system has no such operation");
        let name = format!("{} workloads that do not apply", counts.skipped);
        suite.add_test_case(TestCase::new(name, status));
    }
    suite.tests = suite.failures + suite.errors + (clean + counts.skipped) as usize;
    suite.skipped = counts.skipped as usize;
    for case in &mut suite.test_cases {
        case.classname = Some(suite.name.clone());
    }
    suite
}

fn error(name: &str, kind: &str, message: &str, text: &str) -> TestCase {
    case(name, NonSuccessKind::Error, kind, message, text)
}

fn case(name: &str, result: NonSuccessKind, kind: &str, message: &str, text: &str) -> TestCase {
    let mut status = TestCaseStatus::non_success(result);
    status.set_type(printable(kind));
    status.set_message(printable(message));
    status.set_description(printable(text));
    TestCase::new(printable(name), status)
}

/// XML has no place for most control characters, not even escaped. `quick_junit` would leave them
/// out; a reader should see that they were there.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    let is_foreign = |letter: char| {
        (letter.is_control() && letter != '\n' && letter != '\t')
            || matches!(letter, '\u{fffe}' | '\u{ffff}')
    };
    if !text.contains(is_foreign) {
        return text.into();
    }
    let write = |letter: char| {
        if is_foreign(letter) {
            letter.escape_unicode().to_string()
        } else {
            letter.to_string()
        }
    };
    text.chars().map(write).collect::<String>().into()
}
