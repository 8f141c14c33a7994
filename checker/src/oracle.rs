//! Compares a recovered tree with the versions that the contract allows.

use local_fs::Tree;

use crate::comparison::Comparison;
use crate::{Finding, Model, tree_check};

/// How many of a tree's broken promises are reported; one cause shows in many places.
const FINDINGS_MAX: usize = 20;

/// In so many ways at most a tree is read before it is taken to be broken.
const READINGS_MAX: usize = 256;

/// Compares what recovery left with the model at the crash point.
///
/// `live` is what the file system showed at the crash point: number of blocks and layout of
/// holes of what is durable unchanged are taken from there.
pub fn check(model: &Model, live: &Tree, recovered: &Tree) -> Vec<Finding> {
    let mut findings = tree_check::check(model.contract, recovered);
    findings.append(&mut compare(model, recovered, Some(live)));
    findings.truncate(FINDINGS_MAX);
    findings
}

/// Compares the live tree with the model: a difference is a mistake of the model, or of the
/// file system while it runs, and nothing can be said of its crashes.
///
/// # Errors
/// What differs.
pub fn check_live(model: &Model, live: &Tree) -> Result<(), String> {
    let mut now = model.clone();
    now.commit(None);
    match compare(&now, live, None).first() {
        None if live.errors.is_empty() => Ok(()),
        None => Err(format!("{} of '{}' failed while it was running", live.errors[0].doing, live.errors[0].path)),
        Some(finding) => Err(format!("'{}': {}", finding.path, finding.what)),
    }
}

/// Compares under every reading of the names that could be one of several files which nothing
/// but their history tells apart, such as two empty ones, until one is legal. What is said
/// otherwise is of the first reading, in which everything is the newest that it can be.
fn compare(model: &Model, tree: &Tree, live: Option<&Tree>) -> Vec<Finding> {
    let mut readings = vec![Vec::new()];
    let mut first = None;
    let mut tried = 0;
    while let Some(reading) = readings.pop() {
        let given = reading.len();
        let mut comparison = Comparison::new(model, tree, live, reading);
        comparison.run();
        if comparison.findings.is_empty() {
            return Vec::new();
        }
        first.get_or_insert(comparison.findings);
        tried += 1;
        if tried == READINGS_MAX {
            break;
        }
        // The same up to one choice, and there another one.
        for place in given..comparison.choices.len() {
            let (taken, of) = comparison.choices[place];
            let before = comparison.choices[..place].iter().map(|(taken, _)| *taken);
            let before: Vec<_> = before.collect();
            readings.extend((taken + 1..of).map(|other| [before.as_slice(), &[other]].concat()));
        }
    }
    first.unwrap_or_default()
}
