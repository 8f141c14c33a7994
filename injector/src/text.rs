//! A sweep in words.

use std::collections::BTreeMap;
use std::fmt::Write;

use campaign::columns;

use crate::laboratory::Judged;
use crate::plan::{Keeps, Victims};
use crate::results::{LiveManifest, LiveResult};
use crate::sweep::Summary;

/// How many lines of what is broken are shown.
const BROKEN_MAX: usize = 4;

/// Findings that are alike: the same kind of failure breaks the same, but for numbers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    victims: Victims,
    keeps: Keeps,
    broken: String,
}

/// Words with every number in them replaced: keys and values differ, causes do not.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        if !character.is_ascii_digit() {
            plain.push(character);
        } else if !plain.ends_with('#') {
            plain.push('#');
        }
    }
    plain
}

/// One result for each kind of finding, the one with the fewest lost writes, with how many are
/// alike.
pub fn findings(results: &[LiveResult]) -> Vec<(&LiveResult, usize)> {
    let mut alike: BTreeMap<Likeness, Vec<&LiveResult>> = BTreeMap::new();
    for result in results {
        let Some(first) = result.broken().and_then(|broken| broken.first()) else {
            continue;
        };
        let likeness = Likeness {
            victims: result.failure.victims,
            keeps: result.failure.keeps,
            broken: without_numbers(first),
        };
        alike.entry(likeness).or_default().push(result);
    }
    let smallest = |results: &Vec<&'_ LiveResult>| -> usize {
        let lost = |result: &LiveResult| result.lost.iter().map(|(_, lost)| lost).sum::<usize>();
        let order = results
            .iter()
            .enumerate()
            .min_by_key(|(_, result)| (lost(result), result.index));
        order.map_or(0, |(place, _)| place)
    };
    alike
        .into_values()
        .map(|results| (results[smallest(&results)], results.len()))
        .collect()
}

/// What a finding says.
pub fn finding(
    number: usize,
    result: &LiveResult,
    alike: usize,
    manifest: &LiveManifest,
) -> String {
    let name = |node: usize| manifest.nodes[node].as_str();
    let failure = &result.failure;
    let whose = match failure.victims {
        Victims::All => "all nodes".to_owned(),
        Victims::One => {
            let victims = failure.victims(manifest.nodes.len());
            format!("node {}", name(victims[0]))
        }
    };
    let at = match failure.node {
        Some(node) => format!(
            "before request {} of the disk of {}",
            failure.position,
            name(node)
        ),
        None => format!("right after acknowledgement {}", failure.position),
    };
    let lost: Vec<_> = result
        .lost
        .iter()
        .map(|(node, lost)| format!("{} {lost}", name(*node)))
        .collect();
    let lost = lost.join(", ");
    let kept = match failure.keeps {
        Keeps::Flushed => format!("what no flush had covered is lost (writes: {lost})"),
        Keeps::Prefix => "everything that was written is kept".to_owned(),
        Keeps::Some => {
            format!("some of what no flush had covered is lost (writes: {lost})")
        }
    };
    let last = match &result.last {
        Some(last) => format!(
            "{} before that, the last: {last}",
            result.acknowledged_before
        ),
        None => "nothing before that".to_owned(),
    };
    let after = result.acknowledged - result.acknowledged_before;
    let mut text = format!("FINDING {number}  failure {}", result.index);
    if alike > 1 {
        let _ = write!(text, ", and {} alike", alike - 1);
    }
    let mut row = |name: &str, words: &str| {
        let _ = write!(text, "\n  {name:12}  {words}");
    };
    row(
        "power",
        &format!("of {whose} fails at {:.6} s, {at}", result.time_s),
    );
    row("disks", &kept);
    row("acknowledged", &last);
    if after > 0 {
        row("", &format!("{after} after it"));
    }
    let broken = result.broken().unwrap_or_default();
    for (place, line) in broken.iter().take(BROKEN_MAX).enumerate() {
        row(if place == 0 { "broken" } else { "" }, line);
    }
    if broken.len() > BROKEN_MAX {
        row("", &format!("and {} more", broken.len() - BROKEN_MAX));
    }
    row(
        "repeated",
        &format!("twice the same (history {})", result.history),
    );
    text.push('\n');
    text
}

/// The table at the end.
pub fn table(summary: &Summary, manifest: &LiveManifest) -> String {
    let mut rows = vec![
        ["power of", "disks keep", "tried", "broken", "inconclusive"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for victims in &manifest.plan.victims {
        for keeps in &manifest.plan.keeps {
            let results = summary.results.iter();
            let of_kind: Vec<_> = results
                .filter(|result| {
                    (result.failure.victims, result.failure.keeps) == (*victims, *keeps)
                })
                .collect();
            let is_open =
                |result: &&&LiveResult| matches!(result.judged, Judged::Inconclusive { .. });
            rows.push(vec![
                match victims {
                    Victims::All => "all nodes".into(),
                    Victims::One => "one node".into(),
                },
                match keeps {
                    Keeps::Flushed => "what was flushed".into(),
                    Keeps::Prefix => "everything".into(),
                    Keeps::Some => "some of the rest".into(),
                },
                of_kind.len().to_string(),
                of_kind
                    .iter()
                    .filter(|result| result.broken().is_some())
                    .count()
                    .to_string(),
                of_kind.iter().filter(is_open).count().to_string(),
            ]);
        }
    }
    let mut text = columns(&rows);
    let repeated = summary
        .results
        .iter()
        .filter(|result| result.repeated)
        .count();
    let _ = writeln!(
        text,
        "tried {} of {} failures (when, whose power fails, what disks keep); {repeated} \
         were tried twice and came to the same",
        summary.results.len(),
        summary.all
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Failure;

    fn result(index: u64, lost: usize, broken: &str) -> LiveResult {
        LiveResult {
            index,
            failure: Failure {
                node: Some(0),
                position: 7,
                victims: Victims::All,
                keeps: Keeps::Flushed,
            },
            time_s: 0.5,
            acknowledged_before: 1,
            acknowledged: 3,
            last: Some("put key-1 value-2".into()),
            lost: vec![(0, lost), (1, 0)],
            judged: Judged::Broken {
                broken: vec![broken.into()],
            },
            history: "0123456789abcdef".into(),
            repeated: true,
        }
    }

    #[test]
    fn findings_that_differ_in_numbers_are_one_and_the_smallest_is_shown() {
        let results = [
            result(3, 2, "key-1 is lost"),
            result(9, 1, "key-12 is lost"),
            result(10, 5, "node a does not come up"),
        ];
        let found = findings(&results);
        let shown: Vec<_> = found
            .iter()
            .map(|(result, alike)| (result.index, *alike))
            .collect();
        assert_eq!(shown, [(9, 2), (10, 1)]);
    }

    #[test]
    fn a_finding_says_what_failed_what_was_promised_and_what_is_broken() {
        let manifest = LiveManifest {
            version: String::new(),
            format: 1,
            kind: "live".into(),
            file: String::new(),
            text: String::new(),
            kernel: String::new(),
            kernel_hash: String::new(),
            seed: 7,
            chaos: "off".into(),
            plan: crate::Plan {
                points: vec![],
                first: vec![],
                victims: vec![Victims::All],
                keeps: vec![Keeps::Flushed],
            },
            nodes: vec!["a".into(), "b".into()],
            shard: None,
            sample: None,
            command: vec![],
        };
        let text = finding(1, &result(3, 2, "key-1 is lost"), 4, &manifest);
        let expected = "\
FINDING 1  failure 3, and 3 alike
  power         of all nodes fails at 0.500000 s, before request 7 of the disk of a
  disks         what no flush had covered is lost (writes: a 2, b 0)
  acknowledged  1 before that, the last: put key-1 value-2
                2 after it
  broken        key-1 is lost
  repeated      twice the same (history 0123456789abcdef)
";
        assert_eq!(text, expected);
    }
}
