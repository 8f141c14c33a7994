//! Compares a recovered tree with the versions that the contract allows.

use std::collections::BTreeSet;

use local_fs::Tree;

use crate::comparison::{Comparison, Reading, Rule, Sides};
use crate::history::Time;
use crate::{Contract, Finding, Model, Promise, Undecided, tree_check};

/// How many of a tree's broken promises are reported; one cause shows in many places.
const FINDINGS_MAX: usize = 20;

/// In so many ways at most a tree is read: far more than there are ways, but for workloads that
/// put many files that look the same at each other's names.
const READINGS_MAX: usize = 8192;

/// So many names at most are compared in all readings of a tree: seconds.
const NAMES_MAX: usize = 10_000_000;

/// Compares what recovery left with the model at the crash point.
///
/// `live` is what the file system showed at the crash point, where that was looked at: number of
/// blocks and layout of holes of what is durable unchanged are taken from there, and not checked
/// without it.
///
/// # Errors
/// Why it could not be decided whether the tree is legal.
pub fn check(
    model: &Model,
    live: Option<&Tree>,
    recovered: &Tree,
) -> Result<Vec<Finding>, Undecided> {
    let nothing = Tree::default();
    let mut findings = tree_check::check(&model.contract, recovered);
    let whole = is_read(recovered);
    match whole.and_then(|()| compare(model, recovered, Some(live.unwrap_or(&nothing)))) {
        Ok(mut compared) => findings.append(&mut compared),
        // What is wrong with the tree in itself is wrong in every reading.
        Err(undecided) if findings.is_empty() => return Err(undecided),
        Err(_) => {}
    }
    findings.truncate(FINDINGS_MAX);
    Ok(findings)
}

/// Checks what recovery left against itself, where nothing is known of what was done.
///
/// # Errors
/// Why it could not be decided whether the tree is legal.
pub fn check_itself(contract: &Contract, recovered: &Tree) -> Result<Vec<Finding>, Undecided> {
    let mut findings = tree_check::check(contract, recovered);
    if findings.is_empty() {
        is_read(recovered)?;
    }
    findings.truncate(FINDINGS_MAX);
    Ok(findings)
}

/// Whether a walk has read all that the file system would show.
fn is_read(tree: &Tree) -> Result<(), Undecided> {
    let Some(error) = tree.own_limit() else {
        return Ok(());
    };
    Err(Undecided::TooMuch {
        doing: error.doing.to_owned(),
        path: error.path.clone(),
        reason: std::io::Error::from_raw_os_error(error.errno).to_string(),
    })
}

/// Compares the live tree with the model: a difference is a mistake of the model, or of the
/// file system while it runs, and nothing can be said of its crashes.
///
/// # Errors
/// What differs.
pub fn check_live(model: &Model, live: &Tree) -> Result<(), Undecided> {
    let mut now = model.clone();
    now.commit(None);
    match compare(&now, live, None)?.first() {
        None if live.errors.is_empty() => Ok(()),
        None => Err(Undecided::NotRead {
            doing: live.errors[0].doing.to_string(),
            path: live.errors[0].path.clone(),
        }),
        Some(finding) => Err(Undecided::Differs {
            path: finding.path.clone(),
            what: finding.what.clone(),
        }),
    }
}

/// Compares under every reading of the names that could be one of several files which nothing
/// but their history tells apart, such as two empty ones, until one is legal. What is said
/// otherwise is of the reading in which the least is wrong.
fn compare(model: &Model, tree: &Tree, live: Option<&Tree>) -> Result<Vec<Finding>, Undecided> {
    let sides = Sides::new(model, tree, live);
    let mut search = Search {
        sides: &sides,
        readings: 0,
        names: 0,
    };
    let mut best = search.read(Vec::new(), Rule::Newest);
    // Else it is the only one.
    if !best.choices.is_empty() {
        let all = search.best(model, &mut best);
        if !all && !best.findings.is_empty() {
            return Err(Undecided::TooManyReadings {
                tried: search.readings,
            });
        }
    }
    Ok(best.findings)
}

/// The search for a legal reading of one tree.
struct Search<'a> {
    sides: &'a Sides<'a>,
    readings: usize,
    names: usize,
}

impl<'a> Search<'a> {
    fn read(&mut self, fixed: Vec<usize>, rule: Rule) -> Comparison<'a> {
        let mut comparison = Comparison::new(self.sides, Reading { fixed, rule });
        comparison.run();
        self.readings += 1;
        self.names += comparison.names();
        comparison
    }

    /// Whether `share` of 4 parts of what may be tried was tried.
    fn spent(&self, share: usize) -> bool {
        self.readings >= READINGS_MAX / 4 * share || self.names >= NAMES_MAX / 4 * share
    }

    /// Reads, and keeps that instead of `best` if less is wrong then.
    fn improve(&mut self, best: &mut Comparison<'a>, fixed: Vec<usize>, rule: Rule) -> bool {
        let comparison = self.read(fixed, rule);
        let better = wrong(&comparison) < wrong(best);
        if better {
            *best = comparison;
        }
        better
    }

    /// Looks for a reading in which nothing is wrong. Whether there is none if it was not found.
    fn best(&mut self, model: &Model, best: &mut Comparison<'a>) -> bool {
        let ordered = model.contract.promises(Promise::OrderedMetadata);
        let mut all_moments = true;
        let rules = moments(model)
            .into_iter()
            .map(Rule::At)
            .chain((!ordered).then_some(Rule::Oldest));
        for rule in rules {
            if best.findings.is_empty() || self.spent(2) {
                all_moments = false;
                break;
            }
            self.improve(best, Vec::new(), rule);
        }
        self.descend(best);
        // Where names are those of one moment, one of the moments' readings is legal if any is.
        best.findings.is_empty() || (ordered && all_moments) || self.exhaust(best)
    }

    /// Changes one choice after the other as long as less is wrong then: choices that have
    /// nothing to do with each other are found one by one.
    fn descend(&mut self, best: &mut Comparison<'a>) {
        loop {
            let before = wrong(best);
            let mut place = 0;
            while let Some((taken, of)) = best.choices.get(place).copied() {
                for other in (0..of).filter(|other| *other != taken) {
                    if best.findings.is_empty() || self.spent(3) {
                        return;
                    }
                    let mut fixed: Vec<_> = best.choices.iter().map(|(taken, _)| *taken).collect();
                    fixed[place] = other;
                    if self.improve(best, fixed, Rule::Newest) {
                        break;
                    }
                }
                place += 1;
            }
            if wrong(best) == before {
                return;
            }
        }
    }

    /// Tries all readings. Whether that was done.
    fn exhaust(&mut self, best: &mut Comparison<'a>) -> bool {
        let mut pending = vec![Vec::new()];
        while let Some(fixed) = pending.pop() {
            if self.spent(4) {
                return false;
            }
            let given = fixed.len();
            let comparison = self.read(fixed, Rule::Newest);
            // The same up to one choice, and there another one.
            for place in given..comparison.choices.len() {
                let (taken, of) = comparison.choices[place];
                let before: Vec<_> = comparison.choices[..place]
                    .iter()
                    .map(|(taken, _)| *taken)
                    .collect();
                pending.extend((taken + 1..of).map(|other| [before.as_slice(), &[other]].concat()));
            }
            if wrong(&comparison) < wrong(best) {
                *best = comparison;
            }
            if best.findings.is_empty() {
                break;
            }
        }
        true
    }
}

/// How much is wrong in a reading. Names that are right, but of no one moment, are the better ones.
fn wrong(comparison: &Comparison) -> usize {
    let weight = |finding: &Finding| {
        if finding.promise == Promise::OrderedMetadata {
            1
        } else {
            2
        }
    };
    comparison.findings.iter().map(weight).sum()
}

/// The moments at which the names may be those that were found, last to first: one for each time
/// that a name changed.
fn moments(model: &Model) -> Vec<Time> {
    let first = model.prefix.time;
    let entries = model.inodes.iter().flat_map(|inode| inode.entries.values());
    let changes = entries.flat_map(|entry| entry.spans().map(|(start, _, _)| start));
    let moments: BTreeSet<_> = changes
        .filter(|time| *time > first)
        .chain([first])
        .collect();
    moments.into_iter().rev().collect()
}
