//! What a sweep came to, in numbers and words.

use std::collections::BTreeMap;

use brief::counted;
use campaign::{Outcome, columns};
use serde::{Deserialize, Serialize};
use trace_store::{RecoveryCounts, Trace};

use crate::blocks::{ON_DISK, file_systems};
use crate::both_levels::compare_levels;
use crate::coverage::Coverage;
use crate::finding::Finding;
use crate::rank::in_order;
use crate::recordings::Recordings;
use crate::request::{Level, Request};
use crate::sweep::Swept;
use crate::text::searched_words;

/// What a sweep came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The model.
    pub model: String,
    /// States that were visited.
    pub states: u64,
    /// How many of them equal one that was looked at before.
    pub equal: u64,
    /// How many of them no file system would show.
    pub impossible: u64,
    /// Different states that were looked at.
    pub checked: u64,
    /// Those of them that are broken.
    pub broken: u64,
    /// Findings: broken states that are alike are one.
    pub findings: usize,
    /// States that nothing can be said of.
    #[serde(alias = "not_measured")]
    pub inconclusive: u64,
    /// Why, each with how many.
    pub reasons: BTreeMap<String, u64>,
    /// Calls of the recorded run that are not in the states, each with how often.
    pub not_recorded: BTreeMap<String, u64>,
    /// Why no state could break a promise, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// The violations of specifications that never had a fact to look at, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlooked: Vec<String>,
    /// Of a level of disks, the recordings: the names of their schedules, which say what was done on
    /// the disks beside the program. What is found in none of them may be possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<String>,
    /// Of crashes while the program recovered: from how many crash states recoveries were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoveries: Option<RecoveryCounts>,
    /// States that were not visited, because it was stopped or the time was up. `u64::MAX` stands
    /// for more than can be counted.
    #[serde(default)]
    pub left: u64,
    /// How many of the visited states nobody had asked for: they have less missing than a broken one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub besides: u64,
    /// After what of the run crashes were tried; of several levels each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// How long it took, in seconds, without the recording.
    pub seconds: f64,
    /// What each level came to, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Summary>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Summary {
    /// What sweeps at several levels of the same run came to.
    ///
    /// # Panics
    /// If there is none.
    pub fn of_levels(mut levels: Vec<Self>) -> Self {
        if levels.len() == 1 {
            return levels.remove(0);
        }
        let mut all = Self {
            not_recorded: levels[0].not_recorded.clone(),
            ..Self::default()
        };
        all.model = levels
            .iter()
            .map(|level| level.model.as_str())
            .collect::<Vec<_>>()
            .join("; ");
        for level in &levels {
            all.states += level.states;
            all.equal += level.equal;
            all.impossible += level.impossible;
            all.checked += level.checked;
            all.broken += level.broken;
            all.findings += level.findings;
            all.inconclusive += level.inconclusive;
            for (why, states) in &level.reasons {
                *all.reasons.entry(why.clone()).or_default() += states;
            }
            all.besides += level.besides;
            all.left = all.left.saturating_add(level.left);
            all.interrupted |= level.interrupted;
            all.seconds += level.seconds;
        }
        all.levels = levels;
        all
    }
    /// What the sweep of a level came to, of `count` states to visit. `model` is what it is called.
    pub fn new(
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
            untested: None,
            unlooked: Vec::new(),
            schedules: Vec::new(),
            recoveries: None,
            besides: swept.besides,
            left: left(count, swept),
            coverage: Some(swept.coverage),
            interrupted: swept.interrupted,
            seconds: (seconds * 1000.0).round() / 1000.0,
            levels: Vec::new(),
        }
    }

    /// Whether every state was visited.
    pub fn is_whole(&self) -> bool {
        !self.interrupted && self.left == 0
    }

    /// Whether the run itself leaves something open.
    fn lacks_something(&self) -> bool {
        !self.not_recorded.is_empty()
            || self.untested.is_some()
            || !self.unlooked.is_empty()
            || self.untried_recoveries().next().is_some()
    }

    /// Of each level at which no recovery is known, so that no crash during one was tried, what came of
    /// the attempts.
    pub fn untried_recoveries(&self) -> impl Iterator<Item = String> {
        let levels = self.levels.iter().chain([self]);
        let untried = levels.filter(|level| {
            let recoveries = level.recoveries.as_ref();
            recoveries.is_some_and(RecoveryCounts::is_none_known)
        });
        let words = |level: &Self| {
            let counts = level.recoveries?;
            Some(recoveries_words(counts, level.is_of_disks()))
        };
        untried.filter_map(words)
    }

    /// The same of a level of disks: what is not known of files does not matter there.
    pub(crate) fn of_disks(self, trace: &Trace, recordings: &Recordings<'_>) -> Self {
        let schedules = recordings.schedules();
        if schedules.is_empty() {
            return Self {
                not_recorded: BTreeMap::new(),
                recoveries: trace.about.disk_recoveries,
                coverage: None,
                ..self
            };
        }
        Self {
            not_recorded: trace.about.messages_not_recorded(),
            schedules,
            ..self
        }
    }

    /// The same of crashes while the program recovered. What of the run itself is not known has been
    /// said of its own states.
    pub(crate) fn of_recoveries(self, trace: &Trace) -> Self {
        Self {
            not_recorded: BTreeMap::new(),
            recoveries: trace.about.recoveries,
            ..self
        }
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
            (false, u64::MAX) => {
                "stopped before the end: more states than can be counted were not visited\n".into()
            }
            (false, 1) => "stopped before the end: 1 state was not visited\n".into(),
            (false, left) => {
                format!("stopped before the end: {left} states were not visited\n")
            }
        };
        columns(&rows)
            + &self.besides_line()
            + &left
            + &self.coverage_lines()
            + &self.schedules_line()
            + &self.recoveries_line()
    }

    /// Why there are more states than were asked for.
    fn besides_line(&self) -> String {
        match self.besides {
            0 => String::new(),
            1 => {
                "1 of these states was visited since it has less missing than a broken one\n".into()
            }
            count => format!(
                "{count} of these states were visited since they have less missing than a broken one\n"
            ),
        }
    }

    /// After what of the run crashes were tried, and what was not, for each level.
    fn coverage_lines(&self) -> String {
        let of = |coverage: Coverage| {
            let mut lines = vec![coverage.line()];
            lines.extend(coverage.untried_lines());
            lines
        };
        let lines = |level: &Self| level.coverage.map(of).into_iter().flatten();
        match &*self.levels {
            [] => lines(self).map(|line| line + "\n").collect(),
            levels => levels
                .iter()
                .flat_map(|level| lines(level).map(|line| format!("{}: {line}\n", level.model)))
                .collect(),
        }
    }

    /// How the disks were recorded, if there were any: that nothing else was found means no more
    /// than that.
    fn schedules_line(&self) -> String {
        let mut levels = self.levels.iter().chain([self]);
        let Some(on_disk) = levels.find(|level| !level.schedules.is_empty()) else {
            return String::new();
        };
        let what = recordings_words(&on_disk.model, &on_disk.schedules);
        format!("{what}; what else the file system may do was not seen\n")
    }

    /// How many recoveries there were: of other crash states nobody knows.
    fn recoveries_line(&self) -> String {
        let levels = self.levels.iter().chain([self]);
        let line =
            |level: &Self| Some(recoveries_words(level.recoveries?, level.is_of_disks()) + "\n");
        levels.filter_map(line).collect()
    }

    /// Whether it is of recorded disks.
    fn is_of_disks(&self) -> bool {
        self.model.contains(ON_DISK)
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
        } else if !self.is_whole() || self.inconclusive > 0 || self.lacks_something() {
            Outcome::Incomplete
        } else {
            Outcome::Clean
        }
    }
}

/// The recordings of a disk, with the schedule of each, in words. `model` is what the disk is called
/// where it stands beside models.
pub(crate) fn recordings_words(model: &str, schedules: &[String]) -> String {
    let disk = model.strip_suffix(ON_DISK).unwrap_or(model);
    let (schedule, names) = if schedules.len() == 1 {
        ("schedule", schedules.concat())
    } else {
        ("schedules", schedules.join(", "))
    };
    let recordings = counted(schedules.len(), "recording");
    format!("{recordings} on {disk} ({schedule}: {names})")
}

/// From which crash states recoveries were recorded, in words: those of the program, or of its disk's
/// file system.
pub fn recoveries_words(counts: RecoveryCounts, of_disks: bool) -> String {
    let RecoveryCounts {
        recorded,
        unchanged,
        not_ok,
        not_followed,
    } = counts;
    let all = recorded + unchanged + not_ok + not_followed;
    let whose = if of_disks { "the file system's" } else { "the" };
    let mut words = format!(
        "{whose} recovery from {recorded} of {} that were tried was recorded, and crashed again",
        counted(all, "crash state")
    );
    for (count, why) in [
        (unchanged, "changed nothing"),
        (
            not_ok,
            "do not recover, or are not `ok`, without a second crash",
        ),
        (not_followed, "could not be followed"),
    ] {
        if count > 0 {
            words += &format!("; {count} {why}");
        }
    }
    words
}

/// A number of states. `u64::MAX` stands for more than can be counted.
pub fn count_words(states: u64) -> String {
    if states == u64::MAX {
        "more than can be counted".into()
    } else {
        states.to_string()
    }
}

/// A number of crash states, in words.
pub(crate) fn crash_states_words(states: u64) -> String {
    if states == u64::MAX {
        "more crash states than can be counted".into()
    } else {
        counted(states, "crash state")
    }
}

/// The levels of crashes in recoveries that were asked for, and have no state since no recovery was
/// recorded. Each says what came of the attempts.
pub(crate) fn without_recoveries(
    trace: &Trace,
    request: &Request,
) -> impl Iterator<Item = (Vec<Finding>, Summary)> {
    let of_level = move |level: Level| {
        let about = &trace.about;
        let (model, recoveries) = if level.is_of_disks() {
            (file_systems(trace), about.disk_recoveries?)
        } else {
            (request.model.clone(), about.recoveries?)
        };
        let summary = Summary {
            model: model + ", again",
            recoveries: Some(recoveries),
            ..Summary::default()
        };
        Some((Vec::new(), summary))
    };
    request.levels_without_recovery(trace).filter_map(of_level)
}

/// How many of `count` states were not visited.
fn left(count: u64, swept: &Swept) -> u64 {
    let is_whole = !swept.interrupted && !swept.is_over;
    if is_whole {
        0
    } else {
        count
            .saturating_sub(swept.states - swept.besides)
            .saturating_sub(swept.others)
    }
}

/// What was found at all levels that were asked for, and what that came to. Of states that were
/// `drawn` it is not known what the others are.
///
/// # Panics
/// If there is no level.
pub(crate) fn together(
    levels: Vec<(Vec<Finding>, Summary)>,
    request: &Request,
    drawn: bool,
) -> (Vec<Finding>, Summary) {
    let (mut findings, summaries): (Vec<Vec<Finding>>, Vec<Summary>) = levels.into_iter().unzip();
    if let ([calls, disks, ..], [on_model, on_disk, ..]) = (&mut *findings, &*summaries)
        && request.level == Level::Both
        && on_disk.is_of_disks()
        && on_disk.recoveries.is_none()
    {
        compare_levels((calls, on_model), (disks, on_disk), drawn);
    }
    let mut findings = findings.concat();
    for finding in &mut findings {
        finding.searched = searched_words(request.lost, request.split, request.sector);
    }
    in_order(&mut findings);
    (findings, Summary::of_levels(summaries))
}

#[cfg(test)]
mod tests {
    use trace_store::Trace;

    use super::*;
    use crate::findings::Findings;
    use crate::request::tests::request;

    /// Where the disks could not be looked at, the level after them is none of theirs.
    #[test]
    fn calls_are_compared_with_disks_alone() {
        let found = |recoveries: Option<RecoveryCounts>, model: &str| {
            let finding = Finding {
                plain: vec!["lost".into()],
                ..Findings::told(&Trace::default(), &[])
            };
            let level = |model: &str, recoveries| {
                let model = model.to_owned();
                let summary = Summary {
                    model,
                    recoveries,
                    ..Summary::default()
                };
                (vec![finding.clone()], summary)
            };
            let levels = vec![level("linux", None), level(model, recoveries)];
            together(levels, &request(None), false).0[0].models.clone()
        };
        let counts = RecoveryCounts {
            recorded: 1,
            unchanged: 0,
            not_ok: 0,
            not_followed: 0,
        };
        assert_eq!(found(None, "ext4 on disk").len(), 1);
        assert_eq!(found(Some(counts), "linux, again").len(), 0);
        assert_eq!(found(Some(counts), "ext4 on disk, again").len(), 0);
    }

    /// Whose recovery always fails was not tested with a second crash.
    #[test]
    fn a_sweep_of_recoveries_of_which_none_is_known_is_not_clean() {
        let outcome = |recorded, unchanged, not_ok, not_followed| {
            let recoveries = Some(RecoveryCounts {
                recorded,
                unchanged,
                not_ok,
                not_followed,
            });
            let level = Summary {
                recoveries,
                ..Summary::default()
            };
            let levels = Summary::of_levels(vec![Summary::default(), level.clone()]);
            assert_eq!(levels.outcome(), level.outcome());
            level.outcome()
        };
        assert_eq!(outcome(0, 0, 4, 0), Outcome::Incomplete);
        assert_eq!(outcome(0, 0, 0, 1), Outcome::Incomplete);
        for known in [
            outcome(1, 0, 4, 0),
            outcome(0, 1, 0, 4),
            outcome(0, 0, 0, 0),
        ] {
            assert_eq!(known, Outcome::Clean);
        }
    }

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
