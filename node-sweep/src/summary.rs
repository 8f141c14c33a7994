//! What a sweep came to, in numbers and words.

use campaign::{Outcome, columns};
use trace::Trace;

use crate::results::Summary;
use crate::sweep::Swept;

impl Summary {
    /// Of a sweep of `count` states of a model that took so many seconds.
    pub(crate) fn new(
        trace: &Trace,
        model: &str,
        swept: &Swept,
        count: u64,
        findings: usize,
        seconds: f64,
    ) -> Self {
        Self {
            model: model.to_owned(),
            states: swept.states,
            equal: (swept.states - swept.impossible).saturating_sub(swept.checked),
            impossible: swept.impossible,
            checked: swept.checked,
            broken: swept.broken.len() as u64,
            findings,
            inconclusive: swept.open(),
            reasons: swept
                .inconclusive
                .iter()
                .map(|(why, (states, one))| (format!("{why} (such as state {one})"), *states))
                .collect(),
            not_recorded: trace.about.not_recorded.clone(),
            left: left(count, swept),
            interrupted: swept.interrupted,
            seconds: (seconds * 1000.0).round() / 1000.0,
            levels: Vec::new(),
        }
    }

    /// What nothing is known of, and why.
    pub fn inconclusive_text(&self) -> String {
        let mut text = String::new();
        for (why, states) in &self.reasons {
            text += &format!("INCONCLUSIVE  {states} states: {why}\n");
        }
        for (call, times) in &self.not_recorded {
            text += &format!(
                "INCONCLUSIVE  {call} was called {times} times, and what it did is not in the \
                 states\n"
            );
        }
        if text.is_empty() { text } else { text + "\n" }
    }

    /// As a table.
    pub fn table(&self) -> String {
        let head = [
            "model",
            "states",
            "equal",
            "checked",
            "broken",
            "findings",
            "inconclusive",
            "seconds",
            "states/s",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        match &*self.levels {
            [] => rows.push(self.row()),
            levels => rows.extend(levels.iter().map(Self::row)),
        }
        let left = match (self.is_whole(), self.left) {
            (true, _) => String::new(),
            (false, 0) => "interrupted: what was looked at until then is counted\n".to_owned(),
            (false, left) => format!(
                "stopped before the end: {} states were not visited\n",
                count_words(left)
            ),
        };
        columns(&rows) + &left
    }

    fn row(&self) -> Vec<String> {
        let rate = self.states as f64 / self.seconds.max(1e-9);
        vec![
            self.model.clone(),
            self.states.to_string(),
            self.equal.to_string(),
            self.checked.to_string(),
            self.broken.to_string(),
            self.findings.to_string(),
            self.inconclusive.to_string(),
            format!("{:.1}", self.seconds),
            format!("{rate:.0}"),
        ]
    }

    /// The exit status of the sweep.
    pub fn outcome(&self) -> Outcome {
        if self.findings > 0 {
            Outcome::Findings
        } else if !self.is_whole() || self.inconclusive > 0 || !self.not_recorded.is_empty() {
            Outcome::Incomplete
        } else {
            Outcome::Clean
        }
    }
}

/// A number of states. `u64::MAX` stands for more than can be counted.
pub fn count_words(states: u64) -> String {
    if states == u64::MAX {
        "more than can be counted".into()
    } else {
        states.to_string()
    }
}

/// How many states were not visited.
fn left(count: u64, swept: &Swept) -> u64 {
    let is_whole = !swept.interrupted && !swept.is_over;
    if is_whole {
        0
    } else {
        count
            .saturating_sub(swept.states)
            .saturating_sub(swept.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_visited_is_counted_whatever_stopped_it() {
        let swept = |interrupted, is_over| Swept {
            states: 30,
            others: 50,
            interrupted,
            is_over,
            ..Swept::default()
        };
        assert_eq!(left(100, &swept(false, false)), 0);
        for stopped in [swept(true, false), swept(false, true), swept(true, true)] {
            assert_eq!(left(100, &stopped), 20);
        }
    }
}
