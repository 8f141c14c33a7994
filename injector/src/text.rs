//! A sweep in words.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use brief::{counted, without_numbers};
use campaign::columns;
use specification::{Unlooked, Violated};

use crate::disks::Keeps;
use crate::laboratory::{DiskLeft, Happened, Judged};
use crate::online::derivations;
use crate::plan::{Address, At, Fault, Victims};
use crate::results::{LiveManifest, LiveResult};
use crate::sweep::Summary;

/// How many lines of what is broken are shown.
const BROKEN_MAX: usize = 4;

/// Findings that are alike: the same kind of failure breaks the same, but for numbers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    faults: usize,
    victims: Reverse<Option<Victims>>,
    keeps: Option<Keeps>,
    broken: String,
}

/// How what is broken is told apart from what else may be: in the words of the first of it, but for
/// numbers. Of a violation of a specification its name says that: which keys it is about may be another
/// each time.
pub(crate) fn likeness(judged: &Judged, violations: &[Violated]) -> Option<String> {
    let Judged::Broken { broken } = judged else {
        return None;
    };
    let first = broken.first()?;
    let mut violations = violations.iter();
    let violated = violations.find(|violated| violated.words() == *first);
    Some(violated.map_or_else(|| without_numbers(first), Violated::kind))
}

/// One result for each kind of finding, the one with the fewest lost writes, with how many are
/// alike.
pub fn findings<'a>(
    results: &'a [LiveResult],
    manifest: &LiveManifest,
) -> Vec<(&'a LiveResult, usize)> {
    let mut alike: BTreeMap<Likeness, Vec<&LiveResult>> = BTreeMap::new();
    for result in results {
        let Some(broken) = likeness(&result.judged, &result.held.violations) else {
            continue;
        };
        let fault = result.faults.last().map(|happened| &happened.fault);
        let victims = |fault: &Fault| Victims::of(fault.victims.len(), manifest.nodes.len());
        let likeness = Likeness {
            faults: result.faults.len(),
            victims: Reverse(fault.map(victims)),
            keeps: fault.map(|fault| fault.keeps),
            broken,
        };
        alike.entry(likeness).or_default().push(result);
    }
    let smallest = |results: &[&'a LiveResult]| {
        let results = results.iter().copied();
        results.min_by(|a, b| (a.lost(), &a.address).cmp(&(b.lost(), &b.address)))
    };
    alike
        .into_values()
        .filter_map(|results| Some((smallest(&results)?, results.len())))
        .collect()
}

/// The first line of a finding.
pub fn headline(number: usize, result: &LiveResult, alike: usize) -> String {
    let Address { seed, .. } = result.address;
    let mut text = format!(
        "FINDING {number}  failure {} of seed {seed}",
        result.address
    );
    if alike > 1 {
        let _ = write!(text, ", and {} alike", alike - 1);
    }
    text
}

/// What a finding says: what is broken, and how it came to that.
pub fn finding(
    number: usize,
    result: &LiveResult,
    alike: usize,
    manifest: &LiveManifest,
) -> String {
    told(number, (result, alike), manifest, BROKEN_MAX)
}

/// The same with everything that is broken.
pub fn finding_in_full(
    number: usize,
    result: &LiveResult,
    alike: usize,
    manifest: &LiveManifest,
) -> String {
    told(number, (result, alike), manifest, usize::MAX)
}

fn told(
    number: usize,
    (result, alike): (&LiveResult, usize),
    manifest: &LiveManifest,
    broken_max: usize,
) -> String {
    let mut rows = broken_rows(result, broken_max);
    rows.extend(fault_rows(result, manifest));
    let before = result.faults.last();
    let before = before.map_or(0, |happened| happened.acknowledged_before);
    if result.acknowledged > before {
        rows.push(("", format!("{} after it", result.acknowledged - before)));
    }
    let options = manifest.asked.surrounded.options();
    rows.extend(options.map(|options| ("machines", options)));
    if result.repeated {
        let history = &result.history;
        rows.push(("repeated", format!("twice the same (history {history})")));
    }
    rows.extend(note_rows(result));
    let mut text = headline(number, result, alike);
    for (name, words) in rows {
        let _ = write!(text, "\n  {name:12}  {words}");
    }
    text.push('\n');
    derivations(&mut text, &result.held.violations);
    text
}

/// What else has to be known to believe it, and to read why rules say so.
fn note_rows(result: &LiveResult) -> Vec<(&'static str, String)> {
    let held = &result.held;
    let notes = held.notes.iter().cloned();
    let unlooked = held.unlooked.iter().map(Unlooked::words);
    let times = held.client_began_s.map(|began_s| {
        format!("those of the rules count from the start of the client, at {began_s:.6} s")
    });
    let notes = notes.chain(unlooked).map(|note| ("note", note));
    notes.chain(times.map(|times| ("times", times))).collect()
}

/// What is broken, so many lines of it.
fn broken_rows(result: &LiveResult, broken_max: usize) -> Vec<(&'static str, String)> {
    let broken = result.broken().unwrap_or_default();
    let names = std::iter::once("broken").chain(std::iter::repeat(""));
    let shown = broken.iter().take(broken_max).cloned();
    let mut rows: Vec<_> = names.zip(shown).collect();
    if broken.len() > broken_max {
        rows.push(("", format!("and {} more", broken.len() - broken_max)));
    }
    rows
}

/// When the power failed, what the disks lost, and what had been acknowledged by then.
fn fault_rows(result: &LiveResult, manifest: &LiveManifest) -> Vec<(&'static str, String)> {
    let faults = result.faults.iter().enumerate();
    let rows = faults.flat_map(|(place, happened)| {
        let again = if place == 0 { "" } else { "again " };
        [
            ("power", format!("{again}{}", power(happened, manifest))),
            ("disks", disks(happened, manifest)),
            ("acknowledged", acknowledged(happened)),
        ]
    });
    rows.collect()
}

/// What was acknowledged before a fault.
fn acknowledged(happened: &Happened) -> String {
    match &happened.last {
        Some(last) => format!(
            "{} before that, the last: {last}",
            happened.acknowledged_before
        ),
        None => "nothing before that".to_owned(),
    }
}

/// Whose power fails, and when.
fn power(happened: &Happened, manifest: &LiveManifest) -> String {
    let name = |node: &usize| manifest.nodes[*node].as_str();
    let Fault { when, victims, .. } = &happened.fault;
    let whose = match &victims[..] {
        all if all.len() > 1 && all.len() == manifest.nodes.len() => "all nodes".to_owned(),
        [one] => format!("node {}", name(one)),
        some => {
            let names: Vec<_> = some.iter().map(name).collect();
            format!("nodes {}", names.join(", "))
        }
    };
    let position = when.position;
    let at = match (when.at, when.node) {
        (At::Frames, Some(node)) => format!("before frame {position} of {}", name(&node)),
        (_, Some(node)) => format!("before request {position} of the disk of {}", name(&node)),
        (_, None) => format!("right after acknowledgement {position}"),
    };
    format!("of {whose} fails at {:.6} s, {at}", happened.time_s)
}

/// What the disks of the victims kept.
fn disks(happened: &Happened, manifest: &LiveManifest) -> String {
    let Fault { keeps, left, .. } = &happened.fault;
    let name = |disk: &DiskLeft| manifest.nodes[disk.node].as_str();
    let disks = happened.disks.iter();
    let states = disks
        .clone()
        .map(|disk| format!("{} {}", name(disk), disk.state.relaxation));
    let counts = disks.map(|disk| format!("{} {}", name(disk), disk.lost.len()));
    let all = |words: Vec<String>| words.join(", ");
    match keeps {
        _ if !left.is_empty() => all(states.collect()),
        Keeps::Flushed => format!(
            "what no flush had covered is lost (writes: {})",
            all(counts.collect())
        ),
        Keeps::Prefix => "everything that was written is kept".to_owned(),
        keeps => format!("{} is kept: {}", keeps.words(), all(states.collect())),
    }
}

/// Why failures could not be judged, each with how many there are; but for numbers, the same is the same.
pub fn reasons(results: &[LiveResult]) -> Vec<(&str, u64)> {
    let mut reasons: BTreeMap<String, (&str, u64)> = BTreeMap::new();
    for result in results {
        if let Judged::Inconclusive { why } = &result.judged {
            let reason = reasons.entry(without_numbers(why));
            reason.or_insert((why, 0)).1 += 1;
        }
    }
    reasons.into_values().collect()
}

/// The same in words, a line for each.
pub fn inconclusive(results: &[LiveResult]) -> String {
    let reasons = reasons(results).into_iter();
    let lines = reasons.map(|(why, count)| {
        let failures = counted(count, "failure");
        format!("INCONCLUSIVE  {failures}: {why}\n")
    });
    lines.collect()
}

/// A row of the table: failures with so many faults, the last of which is such a one.
struct FaultKind {
    faults: usize,
    victims: Victims,
    keeps: Keeps,
}

impl FaultKind {
    fn is_of(&self, result: &LiveResult, nodes: usize) -> bool {
        let Some(last) = result.wanted().last() else {
            return false;
        };
        result.wanted().count() == self.faults
            && last.keeps == self.keeps
            && Victims::of(last.victims.len(), nodes) == self.victims
    }

    fn row(&self, summary: &Summary, nodes: usize) -> Vec<String> {
        let of_kind = |result: &&LiveResult| self.is_of(result, nodes);
        let of_kind: Vec<_> = summary.results.iter().filter(of_kind).collect();
        let count = |is_one: &dyn Fn(&LiveResult) -> bool| {
            let counted = of_kind.iter().filter(|result| is_one(result));
            counted.count().to_string()
        };
        vec![
            match self.victims {
                Victims::All => "all nodes",
                Victims::One => "one node",
                Victims::Several => "several nodes",
            }
            .to_owned(),
            match self.faults {
                1 => "once".into(),
                2 => "twice".into(),
                more => format!("{more} times"),
            },
            self.keeps.words(),
            of_kind.len().to_string(),
            count(&|result| result.broken().is_some()),
            count(&|result| matches!(result.judged, Judged::Inconclusive { .. })),
        ]
    }
}

/// The table at the end.
pub fn table(summary: &Summary, manifest: &LiveManifest) -> String {
    let head = [
        "power of",
        "fails",
        "disks keep",
        "tried",
        "broken",
        "inconclusive",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let asked = &manifest.asked;
    for faults in 1..=asked.again as usize + 1 {
        for victims in asked.victims.iter().copied() {
            for keeps in Keeps::of(&asked.states) {
                let kind = FaultKind {
                    faults,
                    victims,
                    keeps,
                };
                rows.push(kind.row(summary, manifest.nodes.len()));
            }
        }
    }
    let mut text = columns(&rows);
    let repeated = summary.results.iter().filter(|result| result.repeated);
    let repeated = match repeated.count() {
        1 => "1 was".to_owned(),
        count => format!("{count} were"),
    };
    let of_seeds = match summary.seeds {
        1 => String::new(),
        seeds => format!(" of {seeds} seeds"),
    };
    let _ = writeln!(
        text,
        "tried {} of {} failures{of_seeds} (when, whose power fails, what disks keep); {repeated} \
         tried twice and came to the same",
        summary.results.len(),
        summary.all,
    );
    for unlooked in summary.never_looked() {
        let _ = writeln!(text, "{}", unlooked.words());
    }
    text
}

#[cfg(test)]
mod tests {
    use specification::Specification;

    use super::*;
    use crate::laboratory::Held;
    use crate::plan::Moment;
    use crate::results::Asked;
    use crate::surrounded::Surrounded;

    fn happened(lost: usize, time_s: f64) -> Happened {
        let disk = |node: usize, lost: usize| DiskLeft {
            node,
            state: "lost-2@9".parse().expect("a state"),
            lost: (0..lost).collect(),
        };
        Happened {
            fault: Fault {
                when: Moment {
                    at: At::Requests,
                    node: Some(0),
                    position: 7,
                },
                victims: vec![0, 1],
                keeps: Keeps::Flushed,
                left: Vec::new(),
            },
            time_s,
            acknowledged_before: 1,
            last: Some("put key-1 value-2".into()),
            disks: vec![disk(0, lost), disk(1, 0)],
        }
    }

    fn result(index: u64, lost: usize, broken: &str) -> LiveResult {
        LiveResult {
            address: Address {
                seed: 7,
                index,
                again: Vec::new(),
            },
            faults: vec![happened(lost, 0.5)],
            missed: Vec::new(),
            acknowledged: 3,
            recovery: Vec::new(),
            judged: Judged::Broken {
                broken: vec![broken.into()],
            },
            history: "0123456789abcdef".into(),
            repeated: true,
            forked_ns: None,
            held: Held::default(),
        }
    }

    fn manifest() -> LiveManifest {
        LiveManifest {
            version: String::new(),
            format: 2,
            kind: "live".into(),
            file: String::new(),
            text: String::new(),
            kernel: String::new(),
            kernel_hash: String::new(),
            asked: Asked {
                seeds: (7, 7),
                surrounded: Surrounded {
                    chaos: "off".into(),
                    network: None,
                    clocks: None,
                    disks: None,
                    environment: None,
                },
                points: vec![At::Acks],
                victims: vec![Victims::All],
                states: "flushed".parse().expect("known"),
                again: 1,
                recoveries: 20,
                sample: None,
                fork: false,
            },
            specifications: vec![],
            nodes: vec!["a".into(), "b".into()],
            shard: None,
            command: vec![],
        }
    }

    #[test]
    fn findings_that_differ_in_numbers_are_one_and_the_smallest_is_shown() {
        let results = [
            result(3, 2, "key-1 is lost"),
            result(9, 1, "key-12 is lost"),
            result(10, 5, "node a does not come up"),
        ];
        let found = findings(&results, &manifest());
        let shown: Vec<_> = found
            .iter()
            .map(|(result, alike)| (result.address.index, *alike))
            .collect();
        assert_eq!(shown, [(9, 2), (10, 1)]);
    }

    #[test]
    fn a_finding_says_what_is_broken_first_then_what_failed_and_what_was_promised() {
        let text = finding(1, &result(3, 2, "key-1 is lost"), 4, &manifest());
        let expected = "\
FINDING 1  failure 3 of seed 7, and 3 alike
  broken        key-1 is lost
  power         of all nodes fails at 0.500000 s, before request 7 of the disk of a
  disks         what no flush had covered is lost (writes: a 2, b 0)
  acknowledged  1 before that, the last: put key-1 value-2
                2 after it
  repeated      twice the same (history 0123456789abcdef)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_second_failure_is_told_after_the_first() {
        let mut twice = result(3, 2, "key-1 is lost");
        twice.address.again.push(5);
        let mut again = happened(1, 1.75);
        again.fault.victims = vec![1];
        again.fault.keeps = Keeps::Reorder(1);
        twice.faults.push(again);
        let text = finding(1, &twice, 1, &manifest());
        assert!(
            text.starts_with("FINDING 1  failure 3/5 of seed 7\n"),
            "{text}"
        );
        let power = "  power         again of node b fails at 1.750000 s, before request 7";
        assert!(text.contains(power), "{text}");
        let disks = "  disks         all but one write is kept: a lost-2, b lost-2";
        assert!(text.contains(disks), "{text}");
    }

    fn open(index: u64, why: &str) -> LiveResult {
        LiveResult {
            judged: Judged::Inconclusive { why: why.into() },
            ..result(index, 2, "")
        }
    }

    #[test]
    fn why_failures_are_inconclusive_is_said_once_whatever_the_numbers() {
        let results = [
            open(4, "the run did not come to that moment"),
            open(5, "the check did not end within 60s"),
            open(6, "the check did not end within 61s"),
            result(7, 2, "key-1 is lost"),
        ];
        let expected = "\
INCONCLUSIVE  2 failures: the check did not end within 60s
INCONCLUSIVE  1 failure: the run did not come to that moment
";
        assert_eq!(inconclusive(&results), expected);
    }

    #[test]
    fn a_failure_that_did_not_come_to_its_moment_is_in_the_row_in_which_it_was_planned() {
        let mut never = open(3, "");
        never.missed = vec![never.faults.remove(0).fault];
        let mut not_again = open(4, "");
        not_again.missed = vec![happened(1, 1.5).fault];
        assert_eq!(not_again.failure().faults.len(), 2);
        let results = vec![never, not_again, open(5, ""), open(6, "")];
        let summary = Summary {
            results,
            ..Summary::default()
        };
        let text = table(&summary, &manifest());
        let rows = text.lines().map(|line| line.split_whitespace().rev());
        let rows: Vec<Vec<_>> = rows.map(|words| words.take(3).collect()).collect();
        assert_eq!(rows[1..3], [["3", "0", "3"], ["1", "0", "1"]], "{text}");
    }

    fn violated(fact: &str) -> Violated {
        Violated {
            specification: "own".into(),
            fact: fact.into(),
            since_ns: 2_000_000_000,
            of: 1,
            derivation: format!("2.000 s  {fact}"),
        }
    }

    #[test]
    fn alike_is_what_is_broken_in_the_same_words_but_for_numbers_or_violates_the_same() {
        let broken = |line: &str| Judged::Broken {
            broken: vec![line.to_owned()],
        };
        let of_check = |line: &str| likeness(&broken(line), &[]);
        assert!(of_check("key-1 is lost").is_some());
        assert_eq!(of_check("key-1 is lost"), of_check("key-12 is lost"));
        assert_ne!(
            of_check("key-1 is lost"),
            of_check("node a does not come up")
        );
        assert_eq!(likeness(&Judged::Ok, &[]), None);
        let of_rules = |fact: &str| {
            let violated = violated(fact);
            likeness(&broken(&violated.words()), &[violated])
        };
        assert_eq!(of_rules("lost(\"left\")"), of_rules("lost(\"right\")"));
        assert_ne!(of_rules("lost(\"left\")"), of_rules("stale(\"left\")"));
    }

    #[test]
    fn a_violation_is_told_with_its_reasons_and_from_when_on_their_times_count() {
        let violated = violated("lost(\"k\")");
        let mut found = result(3, 2, &violated.words());
        found.held = Held {
            violations: vec![violated],
            client_began_s: Some(1.5),
            notes: vec!["the check did not decide".into()],
            ..Held::default()
        };
        let text = finding(1, &found, 1, &manifest());
        let expected = "\
  note          the check did not decide
  times         those of the rules count from the start of the client, at 1.500000 s
  own: lost(\"k\") from 2.000 s on, 1 in all, since
    2.000 s  lost(\"k\")
";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn a_sweep_with_other_specifications_or_in_another_environment_is_another_one() {
        let mut other = manifest();
        other.specifications.push(Specification {
            name: "own".into(),
            text: "violation x(L) :- printed(_, L).".into(),
        });
        let why = "they are of different specifications";
        assert_eq!(manifest().difference(&other).as_deref(), Some(why));
        assert_eq!(other.difference(&other), None);
        let in_environment = |path: &str| {
            let mut manifest = manifest();
            let variables = vec![("PATH".to_owned(), path.to_owned())];
            manifest.asked.surrounded.environment = Some(variables);
            manifest
        };
        let why = "they are of different environments (PATH, HOME, LANG)";
        let different = in_environment("/here").difference(&in_environment("/there"));
        assert_eq!(different.as_deref(), Some(why));
    }

    #[test]
    fn what_had_nothing_to_look_at_in_any_run_that_came_to_its_end_is_said_with_the_table() {
        let unlooked = |violation: &str| Unlooked {
            specification: "own".into(),
            violation: violation.into(),
            lacks: vec!["logged(line)".into()],
        };
        let with = |violations: &[&str], is_cut_short: bool| {
            let mut result = result(3, 2, "key-1 is lost");
            result.held.unlooked = violations.iter().copied().map(unlooked).collect();
            result.held.is_cut_short = is_cut_short;
            result
        };
        let of = |results: Vec<LiveResult>| {
            let summary = Summary {
                results,
                ..Summary::default()
            };
            table(&summary, &manifest())
        };
        let all = of(vec![
            with(&["one", "two"], false),
            with(&["two"], false),
            with(&[], true),
        ]);
        let expected = "own: two never had a fact to look at: there is no logged(line)\n";
        assert!(all.ends_with(expected), "{all}");
        assert!(!all.contains("own: one"), "{all}");
    }
}
