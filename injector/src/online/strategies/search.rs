//! The search for a failure that makes something happen: failures as `exhaustive` has them, in an
//! order that learns from each run.

use super::super::directory::InjectResult;
use super::super::plan::FaultPlan;
use super::super::points::{PointFailure, SeenPoint};
use super::super::ran::Ran;
use super::super::strategy::Strategy;
use super::super::want::{Agreement, Want, share, words};
use super::exhaustive::{Exhaustive, Single};

/// How much two failures have in common, if it is their file, their kind or their call.
const SAME_FILE: f64 = 0.5;
const SAME_FAILURE: f64 = 0.3;
const SAME_CALL: f64 = 0.2;

/// What each run at a point that came no nearer costs the others there.
const IN_VAIN: f64 = 0.15;

/// A run that shows less than so much more than the average says nothing: a word that most runs show
/// would put all that is like them first.
const GAIN_MIN: f64 = 0.1;

/// [`Exhaustive`], ordered by what is wanted.
///
/// Before anything was tried, a failure is worth what its call, its file and the functions that make
/// it have in common with the wanted words, and how near it is to where a log departs that was given.
/// A run that shows more of what is wanted than runs do on the average raises the failures that are
/// like its own; one that does not lowers those at its point.
pub struct Search {
    all: Exhaustive,
    want: Want,
    /// What speaks for each single failure from the beginning on.
    worth: Vec<f64>,
}

impl Search {
    /// For what is wanted.
    pub fn new(all: Exhaustive, want: Want) -> Self {
        let worth = |single: &Single| {
            let nearness = want.nearness.get(single.point).copied().unwrap_or(0.0);
            nearness + likeness(&want, all.seen(single), single.failure)
        };
        Self {
            worth: all.singles().iter().map(worth).collect(),
            want,
            all,
        }
    }

    /// What two failures have in common, from 0 to 1.
    fn affinity(&self, one: &Single, other: &Single) -> f64 {
        if one.point == other.point {
            return 1.0;
        }
        let [of_one, of_other] = [one, other].map(|single| &self.all.seen(single).point);
        let shares = [
            (of_one.place() == of_other.place(), SAME_FILE),
            (one.failure == other.failure, SAME_FAILURE),
            (of_one.what() == of_other.what(), SAME_CALL),
        ];
        shares
            .iter()
            .filter(|(is_so, _)| *is_so)
            .map(|it| it.1)
            .sum()
    }

    /// The single failures that were tried, and how near each came.
    fn tried(&self, so_far: &[InjectResult]) -> Vec<(&Single, f64)> {
        let singles = self.all.singles();
        let none = Agreement::default();
        let tried = so_far.iter().filter_map(|result| {
            let single = singles.get(usize::try_from(result.index).ok()?)?;
            Some((single, result.ran.agreement.as_ref().unwrap_or(&none)))
        });
        let (tried, agreements): (Vec<_>, Vec<_>) = tried.unzip();
        tried.into_iter().zip(self.want.near(&agreements)).collect()
    }

    /// What each single failure is worth after these results.
    fn values(&self, so_far: &[InjectResult]) -> Vec<f64> {
        let singles = self.all.singles();
        let tried = self.tried(so_far);
        let sum: f64 = tried.iter().map(|(_, agreement)| agreement).sum();
        let mean = sum / tried.len().max(1) as f64;
        let value = |(single, worth): (&Single, &f64)| {
            let mut gained: f64 = 0.0;
            let mut in_vain = 0.0;
            for (other, agreement) in &tried {
                let more = agreement - mean;
                if more >= GAIN_MIN {
                    gained = gained.max(more * self.affinity(single, other));
                } else if single.point == other.point {
                    in_vain += IN_VAIN;
                }
            }
            worth + gained - in_vain
        };
        singles.iter().zip(&self.worth).map(value).collect()
    }
}

/// How much a failure at a point has in common with the wanted words.
fn likeness(want: &Want, seen: &SeenPoint, failure: PointFailure) -> f64 {
    let Some(wanted) = want.lines.first() else {
        return 0.0;
    };
    let at = format!(
        "{} {} {} {}",
        seen.point.what(),
        seen.point.place(),
        seen.callers.join(" "),
        failure.said()
    );
    share(wanted, &words(&at))
}

impl Strategy for Search {
    fn count(&self) -> Option<u64> {
        self.all.count()
    }

    fn propose(&mut self, index: u64, so_far: &[InjectResult]) -> Option<FaultPlan> {
        self.all.propose(index, so_far)
    }

    fn order<'a>(
        &'a self,
        so_far: &'a [InjectResult],
        end: u64,
    ) -> Box<dyn Iterator<Item = u64> + 'a> {
        // Words mislead, too: every other run is the next of those that no search has ordered.
        if so_far.len() % 2 == 1 {
            return self.all.order(so_far, end);
        }
        let values = self.values(so_far);
        let value = move |index: u64| values[self.all.root(index) as usize];
        let all = self.all.ranks(so_far).flat_map(move |mut order| {
            // Stable: what is worth the same comes as it comes without a search.
            order.sort_by(|one, other| value(*other).total_cmp(&value(*one)));
            order
        });
        Box::new(all.filter(move |index| *index < end))
    }

    fn root(&self, index: u64) -> u64 {
        self.all.root(index)
    }

    fn tells(&self, so_far: &[InjectResult]) -> Vec<String> {
        let mut lines = self.all.tells(so_far);
        let shown = so_far.iter().filter(|result| result.ran.shows_wanted());
        let shown: Vec<_> = shown.map(|result| (result.index + 1).to_string()).collect();
        let what = match shown.as_slice() {
            [] => "not shown by any run".to_owned(),
            [one] => format!("shown by run {one}"),
            more => format!("shown by runs {}", more.join(", ")),
        };
        lines.push(format!("wanted `{}`: {what}", self.want.text));
        lines
    }

    fn tries_again(&self, ran: &Ran) -> bool {
        self.all.tries_again(ran)
    }

    fn is_what_is_sought(&self, ran: &Ran) -> bool {
        ran.shows_wanted()
    }
}
