//! Failure points: calls of nodes on their files at which something can fail.
//!
//! The same code on a like node, or in another run, has the same [`Point`], and so the same ID: FTS
//! (Gunawi et al., 2010) calls a point with a failure at it a failure ID.

mod failure;
mod text;

use std::collections::BTreeMap;

use clap::ValueEnum;
use cluster::ClusterFile;
use serde::{Deserialize, Serialize};

use super::calls::{Calls, Made, Times};
use super::print::site_text;

pub use failure::PointFailure;
pub use text::{UNSEEN, points_table};

/// So many letters of its hash are the ID of a point.
const ID_LEN: usize = 10;

/// A call and its context.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Point {
    /// What a plan calls the call.
    pub call: String,
    /// Of which file: its path in the node's directory of data, with `#` for numbers and `*` for
    /// what was drawn at random. The directory itself is empty.
    pub file: String,
    /// The number of its stack, in hexadecimal; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub site: String,
    /// What the node was then, if there is a probe that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// A point that came up in a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPoint {
    /// Its ID.
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub point: Point,
    /// How often each node came there.
    pub by_node: BTreeMap<String, u64>,
    /// When a node first came there, in nanoseconds from the start of the clients on.
    #[serde(default)]
    pub first_ns: u64,
    /// How often the call failed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub failed: u64,
    /// The fewest bytes that were asked for, if that is known of such a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_min: Option<u64>,
    /// The functions of the program that made the call, from it outwards, if they have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<String>,
}

/// The points that the run without faults came to, and what is made of them: what an exhaustive
/// campaign goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collected {
    /// In the order in which nodes came there first.
    pub points: Vec<SeenPoint>,
    /// Whether every occurrence of a point is tried, or the first, the last and one in the middle.
    pub all_occurrences: bool,
    /// How many failures there are in a run at most.
    #[serde(default = "one")]
    pub failures_max: u64,
    /// Which further failures come first.
    #[serde(default)]
    pub order: Order,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

fn one() -> u64 {
    1
}

/// Which failures are tried first after those that a run begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Those after an error that changed nothing, or after failures from which the cluster recovered as from
    /// none before.
    #[default]
    Novel,
    /// Only these.
    Pruned,
    /// As the runs before are numbered.
    Plain,
}

impl Point {
    /// The same for the same code.
    pub fn id(&self) -> String {
        let Self {
            call,
            file,
            site,
            role,
        } = self;
        let role = role.as_deref().unwrap_or_default();
        let text = [call, file, site, role].join("\0");
        blake3::hash(text.as_bytes()).to_hex()[..ID_LEN].to_owned()
    }
}

impl From<Made> for Point {
    fn from(made: Made) -> Self {
        Self {
            call: made.call,
            file: made.file,
            site: match made.site {
                0 => String::new(),
                site => site_text(site),
            },
            role: made.role,
        }
    }
}

impl SeenPoint {
    /// Those that were counted in a run, in the order in which nodes came there first. The clients
    /// were started at `begun_ns`, in nanoseconds as calls are stamped.
    pub(super) fn all(calls: &Calls, file: &ClusterFile, begun_ns: u64) -> Vec<Self> {
        let mut all: BTreeMap<Point, (u64, Self)> = BTreeMap::new();
        for (node, tally) in calls.tallies() {
            for (made, times, callers) in tally {
                let point = Point::from(made);
                let (first_ns, seen) = all
                    .entry(point.clone())
                    .or_insert_with(|| (times.first_ns, Self::of(point)));
                *first_ns = times.first_ns.min(*first_ns);
                seen.add(&file.nodes[node].name, &times, callers);
            }
        }
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by_key(|(first_ns, _)| *first_ns);
        let relative = |(first_ns, seen): (u64, Self)| Self {
            first_ns: first_ns.saturating_sub(begun_ns),
            ..seen
        };
        all.into_iter().map(relative).collect()
    }

    pub(super) fn of(point: Point) -> Self {
        Self {
            id: point.id(),
            point,
            ..Self::default()
        }
    }

    fn add(&mut self, node: &str, times: &Times, callers: Vec<String>) {
        self.by_node.insert(node.to_owned(), times.count);
        self.failed = self.failed.saturating_add(times.failed);
        self.bytes_min = match (self.bytes_min, times.bytes_min) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if self.callers.is_empty() {
            self.callers = callers;
        }
    }

    /// How often nodes came there.
    pub fn count(&self) -> u64 {
        let counts = self.by_node.values();
        counts.fold(0, |all, count| all.saturating_add(*count))
    }

    /// So many times as nodes come there, the first, the middle and the last: the node, and which of
    /// its times. Fewer, if they are the same.
    pub(super) fn occurrences(&self) -> Vec<(&str, u64)> {
        let count = self.count();
        let mut places = vec![0];
        for place in [count.saturating_sub(1), count / 2] {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let places = places.into_iter();
        places.filter_map(|place| self.occurrence(place)).collect()
    }

    /// That time, from 0 on, as the nodes stand one after the other.
    pub(super) fn occurrence(&self, mut place: u64) -> Option<(&str, u64)> {
        for (node, count) in &self.by_node {
            if place < *count {
                return Some((node, place + 1));
            }
            place -= count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(by_node: &[(&str, u64)]) -> SeenPoint {
        let point = Point {
            call: "fsync".into(),
            file: "log/wal-#".into(),
            site: "0f".into(),
            role: None,
        };
        SeenPoint {
            by_node: by_node
                .iter()
                .map(|(node, count)| ((*node).to_owned(), *count))
                .collect(),
            ..SeenPoint::of(point)
        }
    }

    #[test]
    fn a_point_has_the_same_id_on_like_nodes_and_another_one_in_another_role() {
        let one = seen(&[("a", 1)]);
        assert_eq!(one.id, seen(&[("b", 7)]).id);
        let role = Some("leader".to_owned());
        let other = Point { role, ..one.point };
        assert_ne!(one.id, other.id());
    }

    #[test]
    fn of_all_times_the_first_the_last_and_the_middle_one_are_tried() {
        assert_eq!(seen(&[("a", 1)]).occurrences(), [("a", 1)]);
        assert_eq!(seen(&[("a", 2)]).occurrences(), [("a", 1), ("a", 2)]);
        let several = seen(&[("b", 3), ("c", 4)]);
        assert_eq!(several.occurrences(), [("b", 1), ("c", 4), ("c", 1)]);
    }
}
