//! What recovery did differently from the nearest run that recovered.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

use super::directory::InjectResult;
use super::points::SeenPoint;
use super::ran::State;
use crate::laboratory::Judged;

/// So many calls of each side are named.
const CALLS_MAX: usize = 6;

/// A run that is broken beside the one that recovered and did nearly the same after its last fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered<'a> {
    /// The one that recovered.
    pub by: &'a InjectResult,
    /// Calls that were made there and not in the broken one, in the order in which they came.
    pub only_there: Vec<&'a SeenPoint>,
    /// Calls that were made in the broken one and not there.
    pub only_here: Vec<&'a SeenPoint>,
}

/// The nearest of some runs that recovered: of those that have the most faults in common with it the one
/// of which the fewest calls differ, of these one with as many faults, and then the first. Nothing if none recovered. A run of which no fault came had
/// nothing to recover from, and one of whose calls some were lost is compared with none. The calls of the runs were noted, as an exhaustive campaign does.
pub fn nearest_recovered<'a>(
    broken: &'a InjectResult,
    results: &'a [InjectResult],
) -> Option<Recovered<'a>> {
    broken
        .ran
        .broken()
        .filter(|_| !broken.ran.has_lost_points)?;
    let has_recovered = |result: &&InjectResult| {
        let faults = &result.ran.faults;
        result.ran.judged == Judged::Ok
            && !result.ran.has_lost_points
            && !faults.is_empty()
            && faults
                .iter()
                .all(|fault| matches!(fault.state, State::InPlace | State::Undone))
    };
    let beside = |by: &'a InjectResult| Recovered {
        by,
        only_there: without(&by.ran.points, &broken.ran.points),
        only_here: without(&broken.ran.points, &by.ran.points),
    };
    let all = results.iter().filter(has_recovered).map(beside);
    all.min_by_key(|recovered| {
        let shared = faults_of(recovered.by)
            .intersection(&faults_of(broken))
            .count();
        let faults = |result: &InjectResult| result.ran.faults.len();
        let calls = recovered.only_there.len() + recovered.only_here.len();
        (
            Reverse(shared),
            calls,
            faults(recovered.by).abs_diff(faults(broken)),
            recovered.by.index,
        )
    })
}

/// The faults of a run's plan, as they stand there.
fn faults_of(result: &InjectResult) -> BTreeSet<&str> {
    let faults = result.plan.split("[[faults]]").skip(1);
    faults.map(str::trim).collect()
}

/// The points of one run that another one did not come to.
fn without<'a>(points: &'a [SeenPoint], others: &[SeenPoint]) -> Vec<&'a SeenPoint> {
    let others: BTreeSet<&str> = others.iter().map(|seen| seen.id.as_str()).collect();
    let mut left: Vec<_> = points
        .iter()
        .filter(|seen| !others.contains(seen.id.as_str()))
        .collect();
    left.sort_by_key(|seen| seen.first_ns);
    left
}

impl Recovered<'_> {
    /// In lines, as a timeline has them.
    pub fn told(&self) -> String {
        let number = self.by.index + 1;
        let mut text = String::new();
        if self.only_there.is_empty() && self.only_here.is_empty() {
            let _ = writeln!(
                text,
                "  recovery      came to the same failure points as in run {number}, which recovered"
            );
            return text;
        }
        let _ = writeln!(
            text,
            "  recovery      nearest to that of run {number}, which recovered"
        );
        for (what, calls) in [
            ("not made", &self.only_there),
            ("only here", &self.only_here),
        ] {
            for seen in calls.iter().take(CALLS_MAX) {
                let _ = writeln!(text, "  {what:12}  {}", words(seen));
            }
            if calls.len() > CALLS_MAX {
                let _ = writeln!(text, "  {:12}  and {} more", "", calls.len() - CALLS_MAX);
            }
        }
        text
    }
}

/// A call in words: which, of which file, who made it, and from where.
fn words(seen: &SeenPoint) -> String {
    let place = seen.point.place();
    let place = match &*place {
        "" => "its directory",
        place => place,
    };
    let nodes: Vec<_> = seen.by_node.keys().map(String::as_str).collect();
    let from = match seen.callers.as_slice() {
        [] => String::new(),
        callers => format!(", called by {}", callers.join(" < ")),
    };
    format!(
        "{} {place} on {}{from}",
        seen.point.what(),
        nodes.join(" and ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::points::{CallPoint, Point};
    use super::super::ran::{FaultCame, Ran};
    use super::*;

    fn seen(call: &str, first_ns: u64) -> SeenPoint {
        SeenPoint {
            id: call.into(),
            by_node: [("b".to_owned(), 1)].into(),
            first_ns,
            callers: vec!["recover".into()],
            ..SeenPoint::of(Point::Call(CallPoint {
                call: call.into(),
                file: "log".into(),
                ..CallPoint::default()
            }))
        }
    }

    /// A run with so many faults, that came, and made these calls after the last of them.
    fn result(index: u64, faults: usize, is_broken: bool, calls: &[&str]) -> InjectResult {
        let mut ran = Ran::without(&cluster::Error::Interrupted);
        let came = FaultCame {
            state: State::Undone,
            ..FaultCame::not_yet()
        };
        ran.faults = vec![came; faults];
        ran.points = calls
            .iter()
            .zip(1..)
            .map(|(call, at)| seen(call, at))
            .collect();
        ran.judged = if is_broken {
            let broken = vec!["k1 is lost".to_owned()];
            Judged::Broken { broken }
        } else {
            Judged::Ok
        };
        InjectResult {
            index,
            plan: String::new(),
            ran,
        }
    }

    #[test]
    fn the_run_that_recovered_with_the_fewest_other_calls_is_the_nearest() {
        let broken = result(4, 1, true, &["openat", "unlink", "write"]);
        let mut results = vec![
            result(0, 1, false, &["openat", "read", "rename", "fsync"]),
            result(1, 2, false, &["openat", "rename", "write"]),
            result(2, 1, false, &["openat", "rename", "write"]),
            result(3, 1, true, &["openat", "unlink", "write"]),
            // Nothing came of its fault: it had nothing to recover from.
            result(5, 0, false, &["openat", "unlink", "write"]),
            broken.clone(),
        ];
        let recovered = nearest_recovered(&broken, &results).expect("there is one");
        assert_eq!(recovered.by.index, 2);
        assert_eq!(
            recovered.told(),
            "  recovery      nearest to that of run 3, which recovered\n\
             \x20 not made      rename log on b, called by recover\n\
             \x20 only here     unlink log on b, called by recover\n"
        );
        // One that had the same first fault is nearer, whatever it did.
        let mut of_two = broken.clone();
        of_two.plan = "[[faults]]\nkill = 1\n\n[[faults]]\nkill = 2\n".into();
        results[0].plan = "[[faults]]\nkill = 1\n".into();
        assert_eq!(
            nearest_recovered(&of_two, &results)
                .expect("there is one")
                .by
                .index,
            0
        );
        results[2].ran.points.clone_from(&broken.ran.points);
        let told = nearest_recovered(&broken, &results)
            .expect("there is one")
            .told();
        assert!(
            told.contains("came to the same failure points as in run 3"),
            "{told}"
        );
        results.retain(|result| result.ran.broken().is_some());
        assert!(nearest_recovered(&broken, &results).is_none());
        let mut lost = broken.clone();
        lost.ran.has_lost_points = true;
        let mut whole = vec![result(2, 1, false, &["openat"])];
        assert!(nearest_recovered(&broken, &whole).is_some());
        assert!(nearest_recovered(&lost, &whole).is_none());
        whole[0].ran.has_lost_points = true;
        assert!(nearest_recovered(&broken, &whole).is_none());
        let ok = result(0, 1, false, &["read"]);
        assert!(nearest_recovered(&ok, std::slice::from_ref(&ok)).is_none());
    }
}
