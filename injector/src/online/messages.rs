//! What nodes send to each other while a run is watched, as failure points.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::ClusterFile;
use simulation::{Carried, Ports};

use super::points::{MessagePoint, Pair, Point, SeenPoint};
use super::roles::Roles;

/// Who sends, to whom, and the ports that last.
type Way = ((usize, usize), Ports);

/// The messages of nodes since the last fault was put in place, or since counting began.
#[derive(Debug, Clone, Default)]
pub(super) struct Messages {
    /// Whether they are to be counted at all.
    pub(super) counts: bool,
    /// Whether they are now.
    is_counting: bool,
    /// What had been sent when that began.
    before: BTreeMap<Way, u64>,
    seen: BTreeMap<Way, Seen>,
}

/// What was sent on a way.
#[derive(Debug, Clone)]
struct Seen {
    count: u64,
    /// When it was first seen.
    first: Duration,
    /// What the two were then.
    ends: (String, String),
}

impl Messages {
    /// None yet, that count if they are to.
    pub(super) fn new(counts: bool) -> Self {
        Self {
            counts,
            ..Self::default()
        }
    }

    /// From now on they count, and none before.
    pub(super) fn begin(&mut self, sent: Vec<((usize, usize), Ports, Carried)>) {
        self.is_counting = true;
        self.before = ways(sent).collect();
        self.seen.clear();
    }

    /// They do not count any more.
    pub(super) fn end(&mut self) {
        self.is_counting = false;
    }

    /// Whether it is to be looked what was sent.
    pub(super) fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// Takes what was sent by now.
    pub(super) fn look(
        &mut self,
        sent: Vec<((usize, usize), Ports, Carried)>,
        (now, roles): (Duration, Option<&Roles>),
        file: &ClusterFile,
    ) {
        for (way, all) in ways(sent) {
            let before = self.before.get(&way).copied().unwrap_or_default();
            let count = all.saturating_sub(before);
            if count > 0 {
                let ends = || {
                    let (from, to) = way.0;
                    (end(file, roles, from), end(file, roles, to))
                };
                let seen = self.seen.entry(way).or_insert_with(|| Seen {
                    count,
                    first: now,
                    ends: ends(),
                });
                seen.count = count;
            }
        }
    }

    /// The points that they are. The clients were started at `begun`.
    pub(super) fn points(&self, file: &ClusterFile, begun: Duration) -> Vec<SeenPoint> {
        let mut all: BTreeMap<Point, SeenPoint> = BTreeMap::new();
        for (((from, to), ports), seen) in &self.seen {
            let point = Point::Message(MessagePoint {
                from: seen.ends.0.clone(),
                to: seen.ends.1.clone(),
                from_port: ports.from,
                to_port: ports.to,
            });
            let first_ns = seen.first.saturating_sub(begun).as_nanos() as u64;
            let of = all.entry(point.clone()).or_insert_with(|| SeenPoint {
                first_ns,
                ..SeenPoint::of(point)
            });
            of.first_ns = of.first_ns.min(first_ns);
            let [from, to] = [from, to].map(|node| file.nodes[*node].name.clone());
            *of.by_node.entry(from.clone()).or_default() += seen.count;
            of.by_pair.push(Pair {
                from,
                to,
                times: seen.count,
            });
        }
        all.into_values().collect()
    }
}

/// How many messages went on each way; on some none did.
fn ways(sent: Vec<((usize, usize), Ports, Carried)>) -> impl Iterator<Item = (Way, u64)> {
    let sent = sent.into_iter();
    sent.map(|(way, ports, carried)| ((way, ports), carried.messages))
}

/// What an end of a message, or the node of a disk, is called: the same on a like node.
pub(super) fn end(file: &ClusterFile, roles: Option<&Roles>, node: usize) -> String {
    let role = roles.and_then(|roles| roles.of.get(&node));
    let config = &file.nodes[node];
    match role {
        Some(role) => role.role.clone(),
        None => config.kind.clone().unwrap_or_else(|| config.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::cluster_of;
    use super::super::roles::Role;
    use super::*;

    fn sent(way: (usize, usize), to: u16, messages: u64) -> ((usize, usize), Ports, Carried) {
        let ports = Ports {
            from: None,
            to: Some(to),
        };
        let carried = Carried {
            bytes: 9 * messages,
            messages,
        };
        (way, ports, carried)
    }

    #[test]
    fn messages_of_like_nodes_are_one_point_and_those_before_do_not_count() {
        let text = "[[nodes]]\nnames = [\"a\", \"b\", \"c\"]\ncommand = \"sh\"\n[[nodes]]\nname = \"d\"\nkind = \"arbiter\"\ncommand = \"sh\"\n";
        let file = cluster_of(text);
        let role = |role: &str| Role {
            role: role.into(),
            more: String::new(),
        };
        let roles = Roles {
            asked: Duration::ZERO,
            of: [
                (0, role("leader")),
                (1, role("follower")),
                (2, role("follower")),
            ]
            .into(),
            wrong: None,
        };
        let at = |ns| (Duration::from_nanos(ns), Some(&roles));
        let mut messages = Messages::default();
        messages.begin(vec![sent((0, 1), 7000, 5), sent((0, 3), 9, 1)]);
        messages.look(
            vec![sent((0, 1), 7000, 7), sent((0, 3), 9, 1)],
            at(20),
            &file,
        );
        let all = [
            sent((0, 1), 7000, 8),
            sent((0, 2), 7000, 4),
            sent((0, 2), 8000, 1),
            sent((0, 3), 9, 2),
        ];
        messages.look(all.to_vec(), at(30), &file);
        let points = messages.points(&file, Duration::from_nanos(5));
        let told =
            |seen: &SeenPoint| (seen.point.place().into_owned(), seen.count(), seen.first_ns);
        let told: Vec<_> = points.iter().map(told).collect();
        let expected = [
            ("leader > arbiter:9", 1, 25),
            ("leader > follower:7000", 7, 15),
            ("leader > follower:8000", 1, 25),
        ];
        assert_eq!(
            told,
            expected.map(|(place, count, at)| (place.to_owned(), count, at))
        );
        let pairs = points[1].by_pair.iter();
        let pairs: Vec<_> = pairs.map(|pair| (pair.to.as_str(), pair.times)).collect();
        assert_eq!(pairs, [("b", 3), ("c", 4)]);
        messages.begin(all.to_vec());
        assert!(messages.points(&file, Duration::ZERO).is_empty());
    }
}
