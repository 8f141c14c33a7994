//! A run in words.

use std::fmt::Write;

use brief::counted;
use specification::Violated;

use super::campaign::Summary;
use super::directory::{InjectManifest, InjectResult, OnMachines};
use super::plan::{CallFault, CallOf, Comes};
use super::ran::{Happening, Ran, SimulatedRun};
use super::run::without_line;
use crate::laboratory::Judged;
use crate::text::likeness;

/// How many lines of what is broken are shown.
const BROKEN_MAX: usize = 4;

/// The first line of a run: its number, and in a word what came of it.
pub fn headline(result: &InjectResult) -> String {
    let what = match &result.ran.judged {
        Judged::Ok => "ok",
        Judged::Broken { .. } => "broken",
        Judged::Inconclusive { .. } => "inconclusive",
    };
    format!("run {}: {what}\n", result.index + 1)
}

/// How many runs of a campaign came to what.
pub fn totals(summary: &Summary) -> String {
    let tried = summary.results.len();
    let left_out: u64 = summary.left_out.values().sum();
    let of = match summary.wanted {
        Some(wanted) if wanted != tried as u64 + left_out => format!(" of {wanted}"),
        _ => String::new(),
    };
    format!(
        "{} broken of {}{of}, {} inconclusive\n",
        summary.broken(),
        counted(tried, "run"),
        summary.inconclusive()
    )
}

/// The same with what never happened, and how to continue it.
pub fn table(summary: &Summary, manifest: &InjectManifest) -> String {
    let mut text = totals(summary);
    for line in &summary.tells {
        let _ = writeln!(text, "{line}");
    }
    for (role, plans) in &summary.left_out {
        let _ = writeln!(
            text,
            "left out: {}, for no node was {role} when a fault was to come",
            counted(*plans, "plan")
        );
    }
    if manifest.collected.is_some() && summary.missed() > 0 {
        // Simulated machines come to the same again.
        let twice = if manifest.simulated.is_some() {
            ""
        } else {
            ", in two runs each"
        };
        let _ = writeln!(
            text,
            "the failure point of {} did not come up again{twice}",
            counted(summary.missed(), "run")
        );
    }
    text += &unexplained_ends(summary);
    for name in summary.never_reached(&manifest.sometimes) {
        let _ = writeln!(text, "never reached: {name}");
    }
    for unlooked in summary.never_looked() {
        let _ = writeln!(text, "{}", unlooked.words());
    }
    for unjudged in summary.never_judged() {
        let _ = writeln!(text, "{unjudged}");
    }
    text
}

/// In how many runs a node ended by itself, which accuses nobody; nothing if it did in none.
fn unexplained_ends(summary: &Summary) -> String {
    let with = |result: &&InjectResult| result.ran.has_unexplained_end();
    let runs = summary.results.iter().filter(with).count();
    if runs == 0 {
        return String::new();
    }
    let runs = counted(runs, "run");
    format!(
        "a node ended by itself in {runs}, and no fault explains that: `may_end` in the cluster file says whether \
         it may\n"
    )
}

/// Whether two runs are broken in the same way: in the same words, but for numbers. Of a violation of a
/// specification, its name says that: which keys it is about may be another each time. Of an error that was
/// logged, the node and the text of `[[logs]]` say it.
pub fn alike(one: &InjectResult, other: &InjectResult) -> bool {
    let likeness = |result: &InjectResult| {
        let words = likeness(&result.ran.judged, &result.ran.violations)?;
        Some(without_line(&words).to_owned())
    };
    likeness(one).is_some() && likeness(one) == likeness(other)
}

/// One broken run of each kind, the first one with the fewest faults, and the numbers of those that
/// are alike.
pub fn findings<'a>(results: &'a [InjectResult]) -> Vec<(&'a InjectResult, Vec<u64>)> {
    let mut kinds: Vec<Vec<&'a InjectResult>> = Vec::new();
    for result in results
        .iter()
        .filter(|result| result.ran.broken().is_some())
    {
        match kinds.iter_mut().find(|kind| alike(kind[0], result)) {
            Some(kind) => kind.push(result),
            None => kinds.push(vec![result]),
        }
    }
    let told = |kind: Vec<&'a InjectResult>| {
        let numbers = kind.iter().map(|result| result.index + 1).collect();
        let fewest = kind
            .into_iter()
            .min_by_key(|result| (result.ran.faults.len(), result.index));
        (fewest.expect("there is one"), numbers)
    };
    kinds.into_iter().map(told).collect()
}

/// A line for each thing that happened, with its time and how many operations had been acknowledged,
/// and what came of it. `machines` says how the machines were simulated, if they were.
pub fn timeline(ran: &Ran, machines: Option<&OnMachines>) -> String {
    let mut text = String::new();
    for event in &ran.events {
        let Some(words) = words(&event.what) else {
            continue;
        };
        let _ = writeln!(
            text,
            "  {:9.3} s  {:6}  {words}",
            event.time_ns as f64 / 1e9,
            event.acknowledged
        );
    }
    for (name, words) in rows(ran, machines) {
        let _ = writeln!(text, "  {name:12}  {words}");
    }
    derivations(&mut text, &ran.violations);
    text
}

/// What came of a run, and what there is to know about it.
fn rows(ran: &Ran, machines: Option<&OnMachines>) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(SimulatedRun { seed, history }) = &ran.simulated {
        rows.push(("history", format!("{history}, seed {seed}")));
        let options = machines.and_then(|machines| machines.surrounded.options());
        rows.extend(options.map(|options| ("machines", options)));
    }
    match &ran.judged {
        Judged::Ok => rows.push(("ok", format!("{} acknowledged", ran.acknowledged))),
        Judged::Inconclusive { why } => rows.push(("inconclusive", why.clone())),
        Judged::Broken { broken } => {
            let shown = broken.iter().take(BROKEN_MAX).cloned();
            rows.extend(shown.map(|line| ("broken", line)));
            if broken.len() > BROKEN_MAX {
                rows.push(("", format!("and {} more", broken.len() - BROKEN_MAX)));
            }
        }
    }
    rows.extend(ran.notes.iter().map(|note| ("note", note.clone())));
    let unlooked = ran.unlooked.iter();
    rows.extend(unlooked.map(|unlooked| ("note", unlooked.words())));
    rows
}

/// Why the first fact of each violation holds.
pub(crate) fn derivations(text: &mut String, violations: &[Violated]) {
    let mut told: Vec<(&str, &str)> = Vec::new();
    for violated in violations {
        let relation = violated.fact.split('(').next().unwrap_or_default();
        let of = (violated.specification.as_str(), relation);
        if told.contains(&of) {
            continue;
        }
        told.push(of);
        let _ = writeln!(
            text,
            "  {}, {} in all, since",
            violated.words(),
            violated.of
        );
        for line in violated.derivation.lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
}

impl CallFault {
    /// What it does, as a timeline has it behind the names of nodes.
    pub(super) fn words(&self) -> String {
        let CallOf {
            call, path, nth, ..
        } = &self.of;
        let path = path
            .as_deref()
            .map_or_else(String::new, |path| format!(" of {path}"));
        let comes = match &self.comes {
            Comes::Fails(error) => format!("fails with {}", error.name()),
            Comes::Short(bytes) => format!("does at most {}", counted(*bytes, "byte")),
            Comes::Slow(time) => format!("takes {} s more", time.as_secs_f64()),
            Comes::Corrupt(what) => format!("is corrupted: {}", what.words()),
            Comes::Held(None) => "is held".into(),
            Comes::Held(Some(error)) => format!("is held, then fails with {}", error.name()),
        };
        match (nth, self.once) {
            (1, false) => format!("{call}{path} {comes}"),
            (1, true) => format!("the next {call}{path} {comes}"),
            (nth, true) => format!("{call} number {nth}{path} {comes}"),
            (nth, false) => format!("{call}{path} {comes}, from number {nth} on"),
        }
    }
}

/// What happened, for people; nothing of what they need not know.
fn words(what: &Happening) -> Option<String> {
    Some(match what {
        Happening::InPlace { fault, words } => format!("fault {fault}: {words}"),
        Happening::NotInjected { fault, why } => {
            format!("fault {fault} could not be put in place: {why}")
        }
        Happening::Undone { fault } => format!("fault {fault} has ended"),
        Happening::Call { node, words } => format!("{node} {words}"),
        Happening::Role { node, role, more } if more.is_empty() => format!("{node} is {role}"),
        Happening::Role { node, role, more } => format!("{node} is {role} ({more})"),
        Happening::NodeEnded { node, how } => format!("{node} {how} by itself"),
        Happening::Ready { node } => format!("{node} is ready"),
        Happening::NotReady { node, why } => format!("{node} is not ready: {why}"),
        Happening::ClientEnded { client, how } => format!("client {client} {how}"),
        Happening::ProbeFailed { why } => format!("the probe failed: {why}"),
        Happening::Restored { nodes } => {
            format!(
                "only a majority is restored: {}; all others are cut off",
                nodes.join(", ")
            )
        }
        Happening::Healed => "everything is healed".into(),
        Happening::Progress => "operations are acknowledged again".into(),
        Happening::Checked => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ran::{FaultCame, UNEXPLAINED};
    use super::*;

    fn result(index: u64, faults: usize, broken: &str, reached: &[&str]) -> InjectResult {
        InjectResult {
            index,
            plan: String::new(),
            ran: Ran {
                faults: vec![FaultCame::not_yet(); faults],
                reached: reached.iter().map(|name| (*name).to_owned()).collect(),
                acknowledged: 7,
                acknowledged_before_heal: 7,
                seconds: 1.0,
                ..Ran::of(match broken {
                    "" => Judged::Ok,
                    broken => Judged::Broken {
                        broken: vec![broken.to_owned()],
                    },
                })
            },
        }
    }

    #[test]
    fn a_rule_by_which_no_run_could_be_judged_is_said_and_one_of_some_runs_is_not() {
        let with = |index, unjudged: &[&str], is_cut_short| {
            let mut result = result(index, 1, "", &[]);
            result.ran.unjudged = unjudged.iter().map(|rule| (*rule).to_owned()).collect();
            result.ran.is_cut_short = is_cut_short;
            result
        };
        let summary = Summary {
            results: vec![
                // It knows nothing of rules, since nothing was held against it.
                with(0, &[], true),
                with(1, &["lock l*", "counter c*"], false),
                with(2, &["lock l*"], false),
            ],
            ..Summary::default()
        };
        let told =
            "[[histories]] of lock l*: no operation was answered with anything that can be wrong";
        assert_eq!(summary.never_judged(), [told]);
        assert!(Summary::default().never_judged().is_empty());
    }

    #[test]
    fn runs_that_differ_in_numbers_are_one_finding_and_the_one_with_fewest_faults_is_told() {
        let results = [
            result(0, 3, "k1 is lost", &[]),
            result(1, 1, "", &[]),
            result(2, 2, "k22 is lost", &[]),
            result(5, 1, "two hold the lock", &[]),
        ];
        let found = findings(&results);
        let told: Vec<_> = found
            .iter()
            .map(|(result, numbers)| (result.index, numbers.clone()))
            .collect();
        assert_eq!(told, [(2, vec![1, 3]), (5, vec![6])]);
    }

    #[test]
    fn violations_of_one_rule_are_alike_whatever_they_are_about() {
        let violation = |relation: &str, key: &str| {
            let violated = Violated {
                specification: "own".into(),
                fact: format!("{relation}(\"{key}\", 5)"),
                since_ns: 0,
                of: 1,
                derivation: String::new(),
            };
            let mut result = result(0, 1, &violated.words(), &[]);
            result.ran.violations = vec![violated];
            result
        };
        let left = violation("lost", "left");
        assert!(alike(&left, &violation("lost", "right")));
        assert!(!alike(&left, &violation("stale", "left")));
        let said = result(0, 1, &left.ran.violations[0].words(), &[]);
        assert!(!alike(&left, &said), "the check says it");
    }

    #[test]
    fn ends_that_accuse_nobody_are_counted_by_runs() {
        let mut summary = Summary {
            results: vec![result(0, 1, "", &[]), result(1, 1, "", &[])],
            ..Summary::default()
        };
        assert_eq!(unexplained_ends(&summary), "");
        let note = format!("a was ended by SIGABRT by itself at 1.000 s, and {UNEXPLAINED}");
        summary.results[1].ran.notes = vec![note.clone(), note];
        let told = unexplained_ends(&summary);
        assert!(
            told.starts_with("a node ended by itself in 1 run, and no fault"),
            "{told}"
        );
    }

    #[test]
    fn what_never_happened_is_said_and_nothing_at_all_is_uneventful() {
        let sometimes = ["a leader", "a snapshot"].map(str::to_owned);
        let summary = |reached: &[&str]| Summary {
            wanted: Some(2),
            results: vec![result(0, 1, "", &[]), result(1, 1, "", reached)],
            ..Summary::default()
        };
        assert!(summary(&[]).is_uneventful(&sometimes));
        let some = summary(&["a snapshot"]);
        assert!(!some.is_uneventful(&sometimes));
        assert_eq!(some.never_reached(&sometimes), ["a leader"]);
        assert!(!summary(&[]).is_uneventful(&[]));
    }
}
