//! JUnit XML, as CI servers read it: a suite for each file system, a case for each workload that is
//! not clean, and one for all that are. Of programs and clusters a suite for each sweep, a case for
//! each finding.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use askama::Template;
use itertools::Itertools;
use node_sweep::{Reason, Recorded};
use replayer::Found;

use super::sweep::{Sweep, headline, promises};
use crate::states::{title, unended};

#[derive(Template)]
#[template(path = "junit.xml")]
struct Junit {
    suites: Vec<Suite>,
}

struct Suite {
    name: String,
    tests: u64,
    failures: u64,
    errors: u64,
    skipped: u64,
    seconds: String,
    clean: u64,
    /// What is clean.
    things: &'static str,
    properties: Vec<(&'static str, String)>,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    failure: Option<Said>,
    error: Option<Said>,
}

struct Said {
    kind: String,
    message: String,
    text: String,
}

impl Said {
    fn new(kind: &str, message: &str, text: &str) -> Self {
        let [kind, message, text] = [kind, message, text].map(|text| printable(text).into_owned());
        Self {
            kind,
            message,
            text,
        }
    }
}

/// The file for these sweeps.
pub(super) fn junit(sweeps: &[Sweep], states: &[(PathBuf, Recorded)]) -> anyhow::Result<String> {
    let alone = sweeps.len() == 1 && states.is_empty();
    let suites = sweeps
        .iter()
        .flat_map(|sweep| (0..sweep.overview.file_systems.len()).map(move |place| (sweep, place)));
    let suites = suites.map(|(sweep, place)| suite(sweep, place, alone));
    let suites = suites
        .chain(
            states
                .iter()
                .map(|(directory, recorded)| states_suite(directory, recorded)),
        )
        .collect();
    Ok(Junit { suites }.render()?)
}

fn suite(sweep: &Sweep, place: usize, alone: bool) -> Suite {
    let swept = &sweep.overview.file_systems[place];
    let variant = swept.variant.to_string();
    let summary = &swept.summary;
    let mut cases = Vec::new();
    let found = sweep
        .findings
        .all
        .iter()
        .filter(|found| found.variant == swept.variant);
    for (_, found) in &found.chunk_by(|found| found.workload_number) {
        cases.push(failed(sweep, &found.collect::<Vec<_>>()));
    }
    let failures = cases.len() as u64;
    // What has findings fails already, which is worse.
    let unmeasured =
        |open: &&replayer::Open| open.place == place && !open.not_applicable && !open.has_findings;
    for open in sweep.overview.open.iter().filter(unmeasured) {
        let text = format!("workload  {}\nwhy       {}\n", open.text, open.why);
        let error = Some(Said::new("inconclusive", &open.why, &text));
        cases.push(Case {
            name: printable(&open.workload).into_owned(),
            failure: None,
            error,
        });
    }
    if !sweep.overview.finished {
        let message = format!("not finished: {} workloads are done", summary.workloads);
        let text = format!(
            "go on with: crashpoint fs --resume {}\n",
            sweep.directory.display()
        );
        let error = Some(Said::new("unfinished", &message, &text));
        cases.push(Case {
            name: "the sweep".into(),
            failure: None,
            error,
        });
    }
    let errors = cases.len() as u64 - failures;
    let skipped = sweep
        .overview
        .open
        .iter()
        .filter(|open| open.place == place && open.not_applicable)
        .count() as u64;
    let name = if alone {
        variant
    } else {
        format!("{} {variant}", sweep.directory.display())
    };
    let manifest = &sweep.findings.manifest;
    Suite {
        name: printable(&name).into_owned(),
        tests: swept.clean + skipped + failures + errors,
        failures,
        errors,
        skipped,
        seconds: format!("{:.3}", summary.elapsed.as_secs_f64()),
        clean: swept.clean,
        things: "workloads",
        properties: vec![
            ("kernel", printable(&manifest.kernel_release).into_owned()),
            ("disk", printable(&manifest.disk).into_owned()),
            ("states", manifest.states.join(",")),
            ("states-checked", summary.states_checked.to_string()),
            ("states-equal", summary.states_equal.to_string()),
        ],
        cases,
    }
}

/// Of a sweep of the crash states of a program or a cluster.
fn states_suite(directory: &Path, recorded: &Recorded) -> Suite {
    let Recorded {
        manifest,
        findings,
        summary,
        ..
    } = recorded;
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
        let kind = finding
            .nodes
            .iter()
            .flat_map(|node| node.lost.iter().chain(&node.midway))
            .map(|lost| &*lost.call);
        let kind = kind.unique().join(" ");
        let text = format!("{}{}", title(finding), finding.text());
        let failure = Some(Said::new(&kind, &finding.complaint.words.join("; "), &text));
        Case {
            name,
            failure,
            error: None,
        }
    });
    let mut cases: Vec<_> = failed.collect();
    cases.extend(unknown(directory, recorded));
    let failures = findings.len() as u64;
    let errors = cases.len() as u64 - failures;
    let clean = summary
        .checked
        .saturating_sub(summary.broken + summary.inconclusive);
    let name = format!(
        "{} {} on {}",
        directory.display(),
        manifest.name,
        manifest.model
    );
    Suite {
        name: printable(&name).into_owned(),
        tests: clean + failures + errors,
        failures,
        errors,
        skipped: 0,
        seconds: format!("{:.3}", summary.seconds),
        clean,
        things: "states",
        properties: vec![
            ("kernel", printable(&manifest.kernel_release).into_owned()),
            ("states", summary.states.to_string()),
            ("states-checked", summary.checked.to_string()),
            ("states-equal", summary.equal.to_string()),
        ],
        cases,
    }
}

/// What a sweep of crash states does not tell, a case for each reason.
fn unknown(directory: &Path, recorded: &Recorded) -> Vec<Case> {
    let summary = &recorded.summary;
    let stopped = unended(recorded, directory)
        .or_else(|| (!summary.is_whole()).then(|| "it was stopped before its end".to_owned()));
    let stopped = stopped.map(|words| ("the sweep", words));
    let reason = |reason: &Reason<'_>| {
        let Reason { first, states, why } = reason;
        (
            "states",
            format!("{states} states: {why} (the first is number {first})"),
        )
    };
    let reasons = recorded.reasons();
    let reasons = reasons.iter().map(reason);
    let calls = summary.not_recorded.iter();
    let calls =
        calls.map(|(call, times)| ("the recording", format!("{call} was called {times} times")));
    let untested = summary.untested.iter();
    let untested = untested.map(|why| ("the recording", why.clone()));
    let case = |(name, words): (&str, String)| Case {
        name: name.into(),
        failure: None,
        error: Some(Said::new("inconclusive", &words, &words)),
    };
    stopped
        .into_iter()
        .chain(reasons)
        .chain(calls)
        .chain(untested)
        .map(case)
        .collect()
}

/// The case of a workload with these findings.
fn failed(sweep: &Sweep, found: &[&Found]) -> Case {
    let first = found[0];
    let story = |found: &&Found| format!("finding {}\n{}", found.number, sweep.story(found));
    let text = found.iter().map(story).join("\n");
    let kind = found
        .iter()
        .flat_map(|found| promises(found))
        .unique()
        .join(" ");
    let failure = Some(Said::new(&kind, &headline(first), &text));
    Case {
        name: printable(&first.workload.name).into_owned(),
        failure,
        error: None,
    }
}

/// XML has no place for most control characters, not even escaped.
fn printable(text: &str) -> Cow<'_, str> {
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
