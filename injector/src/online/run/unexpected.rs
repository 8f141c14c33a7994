//! What nodes do by themselves that the cluster file does not expect: they end, or log errors.

use super::super::plan::What;
use super::super::ran::UNEXPLAINED;
use super::Runner;

/// So many lines are said of each of `[[logs]]`.
const SAID_MAX: usize = 3;

/// So much is said of a line.
const LINE_CHARACTERS_MAX: usize = 200;

/// What is said between the name of the node that logged an error and when it did.
const LOGGED: &str = " logged an error that is not expected at ";

/// What is said between the text that makes a line an error and the line.
const LINE: &str = "\"): ";

/// What is broken, without the line that a node has logged, if that is what it is: one mistake may be told in
/// other words each time.
pub(in super::super) fn without_line(broken: &str) -> &str {
    let is_error = broken.contains(LOGGED);
    let line = broken.find(LINE).filter(|_| is_error);
    line.map_or(broken, |line| &broken[..line])
}

/// What was not expected by now.
#[derive(Clone, Default)]
pub(super) struct Unexpected {
    /// Ends that the cluster file does not allow, in words.
    ends: Vec<String>,
    /// Of each of `[[logs]]` what the first such lines are, and how many there are.
    errors: Vec<(Vec<String>, usize)>,
    /// What is only told, as the cluster file does not say whether it may be.
    pub(super) told: Vec<String>,
}

impl Unexpected {
    /// What of that is broken.
    pub(super) fn broken(&self) -> Vec<String> {
        let mut broken = self.ends.clone();
        for (said, count) in &self.errors {
            broken.extend(said.iter().cloned());
            if *count > said.len() {
                let more = count - said.len();
                broken.push(format!("and {more} more errors that are not expected"));
            }
        }
        broken
    }
}

impl Runner<'_> {
    /// Looks whether a node may end by itself as it did. Who was killed by somebody else did not.
    pub(super) fn look_at_end(&mut self, node: usize, how: &str) {
        let may_end = self.ground.file().nodes[node].may_end(how);
        if may_end == Some(true) || cluster::is_killed(how) || self.may_have_failed(node) {
            return;
        }
        let (name, seconds) = (self.name(node), self.seconds());
        let ended = format!("{how} by itself at {seconds:.3} s");
        if may_end.is_some() {
            let words = format!("node {name} does not stay up: it {ended}");
            self.unexpected.ends.push(words);
        } else {
            self.unexpected.told.push(format!(
                "{name} {ended}, and {UNEXPLAINED}: with `may_end` in the cluster file, an end with a status or \
                 by a signal is expected, or broken"
            ));
        }
    }

    /// Whether calls, requests or the clock of a node were hit by a fault, or may have been: who ends after
    /// that may be right to.
    fn may_have_failed(&self, node: usize) -> bool {
        let name = self.name(node);
        let mut faults = self.plan.faults.iter().zip(&self.came);
        faults.any(|(planned, came)| {
            let is_of_machine = matches!(
                planned.what,
                What::Call(_) | What::Disk(_) | What::Clock(_) | What::Drift(_)
            );
            // One that could not be put in place everywhere may be somewhere.
            let may_be_on = came.on.is_empty() || came.on.contains(&name);
            is_of_machine && came.fired_ns.is_some() && may_be_on
        })
    }

    /// Looks for errors in what nodes have logged since it was last looked.
    pub(super) fn look_at_logged(&mut self, time_ns: u64) {
        let rules = &self.ground.file().logs;
        let errors = &mut self.unexpected.errors;
        errors.resize_with(rules.len(), Default::default);
        for (rule, (said, count)) in rules.iter().zip(errors) {
            let mut logged = self.logged.iter();
            while let Some((node, line)) =
                logged.find(|(node, line)| rule.is_unexpected(*node, line))
            {
                *count += 1;
                if said.len() < SAID_MAX {
                    let name = &self.ground.file().nodes[*node].name;
                    let line: String = line.chars().take(LINE_CHARACTERS_MAX).collect();
                    let seconds = time_ns as f64 / 1e9;
                    let error = rule.error.escape_debug();
                    said.push(format!(
                        "node {name}{LOGGED}{seconds:.3} s (\"{error}{LINE}{line}"
                    ));
                }
            }
        }
    }

    fn seconds(&self) -> f64 {
        self.since_begin(self.ground.now()) as f64 / 1e9
    }
}
