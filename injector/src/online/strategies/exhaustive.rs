//! Every failure at every failure point, in the order of FTS: one of each ID first.

use std::time::Duration;

use cluster::ClusterFile;

use super::super::directory::InjectResult;
use super::super::plan::{Awaited, FaultPlan, PlannedFault, Trigger, What};
use super::super::points::{Collected, PointFailure, SeenPoint};
use super::super::ran::Ran;
use super::super::strategy::Strategy;

/// How long a run without faults goes on where no client ends by itself.
const WATCHED: Duration = Duration::from_secs(5);

/// How long clients go on there after a failure.
const AFTER: Duration = Duration::from_secs(3);

/// How long a failure point is waited for after the clients have ended; where none does, from the
/// beginning on.
const WITHIN: Duration = Duration::from_secs(5);

/// A failure of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Single {
    /// Which of the points.
    point: usize,
    failure: PointFailure,
    /// The node, and which of its times it is.
    at: (String, u64),
}

/// All single failures.
pub struct Exhaustive {
    seed: u64,
    is_endless: bool,
    points: Vec<SeenPoint>,
    singles: Vec<Single>,
}

/// The plan of a run without faults, in which failure points are collected.
pub fn without_faults(file: &ClusterFile) -> FaultPlan {
    let end = is_endless(file).then(|| heal(Awaited::Time(WATCHED)));
    FaultPlan {
        within: WITHIN,
        ..FaultPlan::new(0, end.into_iter().collect())
    }
}

/// Whether a run has no end by itself.
fn is_endless(file: &ClusterFile) -> bool {
    file.all_clients().iter().all(|client| client.endless)
}

fn heal(awaited: Awaited) -> PlannedFault {
    PlannedFault {
        at: Trigger {
            awaited,
            delay: Duration::ZERO,
        },
        what: What::Heal,
        on: Vec::new(),
        until: None,
    }
}

impl Exhaustive {
    /// For a cluster, of which these points are known.
    pub fn new(file: &ClusterFile, seed: u64, collected: &Collected) -> Self {
        let has_disks = file.disk.is_some();
        let points = collected.points.clone();
        Self {
            seed,
            is_endless: is_endless(file),
            singles: singles(&points, has_disks, collected.all_occurrences),
            points,
        }
    }

    fn plan(&self, faults: Vec<PlannedFault>) -> FaultPlan {
        let end = self.is_endless.then(|| heal(Awaited::After(AFTER)));
        let within = if self.is_endless { 2 * WITHIN } else { WITHIN };
        let faults = faults.into_iter().chain(end).collect();
        FaultPlan {
            within,
            ..FaultPlan::new(self.seed, faults)
        }
    }
}

/// First each failure at the first occurrence of each point, then at others: of every kind of failure
/// all points, before the next kind.
fn singles(points: &[SeenPoint], has_disks: bool, all_occurrences: bool) -> Vec<Single> {
    let mut all = Vec::new();
    for (point, seen) in points.iter().enumerate() {
        let occurrences = if all_occurrences {
            let places = 0..seen.count();
            places.filter_map(|place| seen.occurrence(place)).collect()
        } else {
            seen.occurrences()
        };
        for (round, (node, nth)) in occurrences.into_iter().enumerate() {
            for failure in PointFailure::at(seen, has_disks) {
                let at = (node.to_owned(), nth);
                all.push((round, failure, Single { point, failure, at }));
            }
        }
    }
    // Stable: points stay in the order in which nodes came there.
    all.sort_by_key(|(round, failure, _)| (*round, *failure));
    all.into_iter().map(|(_, _, single)| single).collect()
}

impl Strategy for Exhaustive {
    fn count(&self) -> Option<u64> {
        Some(self.singles.len() as u64)
    }

    fn propose(&mut self, index: u64, _: &[InjectResult]) -> Option<FaultPlan> {
        let single = self.singles.get(usize::try_from(index).ok()?)?;
        let (node, nth) = &single.at;
        let fault = single
            .failure
            .fault(&self.points[single.point], (node, *nth));
        Some(self.plan(vec![fault]))
    }

    fn tries_again(&self, ran: &Ran) -> bool {
        ran.missed_its_point()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::super::points::Point;
    use super::*;

    fn file(client: &str) -> ClusterFile {
        let text = format!(
            "disk = \"ext4\"\n[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[[clients]]\nname = \"x\"\ncommand = \"sh\"\n{client}\n[probe]\ncommand = \"sh\"\nroles = [\"leader\"]\n"
        );
        ClusterFile::parse(&text, Path::new("c.toml"), Path::new("/")).expect("a cluster")
    }

    fn collected() -> Collected {
        let seen =
            |call: &str, file: &str, role: Option<&str>, by_node: &[(&str, u64)]| SeenPoint {
                by_node: by_node
                    .iter()
                    .map(|(node, count)| ((*node).to_owned(), *count))
                    .collect(),
                bytes_min: (call == "write").then_some(9),
                ..SeenPoint::of(Point {
                    call: call.into(),
                    file: file.into(),
                    site: "00000000000000ff".into(),
                    role: role.map(str::to_owned),
                })
            };
        Collected {
            points: vec![
                seen("write", "log/wal-#", None, &[("a", 3), ("b", 5)]),
                seen("fsync", "", Some("leader"), &[("a", 1)]),
            ],
            all_occurrences: false,
        }
    }

    #[test]
    fn every_plan_can_be_read_and_none_is_proposed_twice() {
        for client in ["", "endless = true"] {
            let file = file(client);
            let mut all = Exhaustive::new(&file, 3, &collected());
            let mut seen = BTreeSet::new();
            for index in 0..all.count().expect("an end") {
                let plan = all.propose(index, &[]).expect("there is one");
                let text = plan.to_string();
                assert_eq!(
                    FaultPlan::parse(&text, Path::new("p"), &file).as_ref(),
                    Ok(&plan),
                    "{text}"
                );
                assert!(seen.insert(text));
            }
            // Seven failures of three writes and of one fsync: it has no short, and one for kills after it.
            assert_eq!(seen.len(), 3 * 7 + 7);
            assert!(all.propose(seen.len() as u64, &[]).is_none());
        }
    }

    #[test]
    fn each_failure_is_tried_at_each_point_before_any_is_at_another_occurrence() {
        let mut all = Exhaustive::new(&file(""), 0, &collected());
        let text = |all: &mut Exhaustive, index| all.propose(index, &[]).expect("one").to_string();
        let first = "\
seed = 0
within_s = 5.0

[[faults]]
at = { call = \"write\", path = \"log/wal-*\", site = \"00000000000000ff\", node = \"a\" }
fault = \"kill\"
on = \"a\"
until = { after_s = 1.0 }
";
        assert_eq!(text(&mut all, 0), first);
        let second = text(&mut all, 1);
        assert!(
            second.contains("call = \"fsync\", path = \".\"") && second.contains("on = \"leader\"")
        );
        let is_of_first = |index| !text(&mut all, index).contains("nth");
        assert!((0..14).all(is_of_first));
        assert!(text(&mut all, 14).contains("node = \"b\""));
    }

    #[test]
    fn all_occurrences_are_tried_if_that_is_asked_for() {
        let collected = Collected {
            all_occurrences: true,
            ..collected()
        };
        let all = Exhaustive::new(&file(""), 0, &collected);
        assert_eq!(all.count(), Some(8 * 7 + 7));
    }
}
