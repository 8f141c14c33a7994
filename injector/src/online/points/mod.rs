//! Failure points: calls of nodes on their files, and messages between nodes, at which something can fail.
//!
//! The same code on a like node, or in another run, has the same [`Point`], and so the same ID: FTS
//! (Gunawi et al., 2010) calls a point with a failure at it a failure ID.

mod failure;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;

use clap::ValueEnum;
use cluster::ClusterFile;
use serde::{Deserialize, Serialize};

use super::calls::{Calls, Made, READ, Times};
use super::print::site_text;

pub(super) use failure::Placed;
pub use failure::{Disks, PointFailure};
pub use text::points_table;

/// So many letters of its hash are the ID of a point.
const ID_LEN: usize = 10;

/// Which points are looked for, and failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// System calls of nodes on their files
    #[default]
    Calls,
    /// Messages between nodes
    Messages,
    /// Requests to the disks of nodes
    Requests,
    /// Calls and messages
    All,
}

impl At {
    /// Whether calls are among them.
    pub fn has_calls(self) -> bool {
        matches!(self, Self::Calls | Self::All)
    }

    /// Whether messages are.
    pub fn has_messages(self) -> bool {
        matches!(self, Self::Messages | Self::All)
    }

    /// Whether requests are.
    pub fn has_requests(self) -> bool {
        self == Self::Requests
    }

    /// Whether it is what is not said.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// A point, with its context.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Point {
    /// A system call.
    Call(CallPoint),
    /// A message.
    Message(MessagePoint),
    /// A request to a disk.
    Request(RequestPoint),
}

/// A request to a disk, and its context.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestPoint {
    /// What a plan calls it.
    pub request: String,
    /// Which part of the disk it is about, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
    /// What the node was then: its role, if there is a probe that says so, else its kind or its name.
    pub of: String,
}

/// A message and its context. Which end is the server, the port says: one that a kernel chose is not
/// among these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessagePoint {
    /// What its sender was: its role, if there is a probe that says so, else its kind or its name.
    pub from: String,
    /// What its receiver was.
    pub to: String,
    /// The port of its sender, if it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_port: Option<u16>,
    /// The port of its receiver, if it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_port: Option<u16>,
}

/// How many messages went from one node to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// So many.
    pub times: u64,
}

/// A call and its context.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallPoint {
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenPoint {
    /// Its ID.
    pub id: String,
    /// What it is.
    #[serde(flatten)]
    pub point: Point,
    /// How often each node came there; of a message, as its sender.
    pub by_node: BTreeMap<String, u64>,
    /// Of a message, the same with its receivers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_pair: Vec<Pair>,
    /// When a node first came there, in nanoseconds from the start of the clients on.
    #[serde(default)]
    pub first_ns: u64,
    /// How often the call failed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub failed: u64,
    /// The fewest bytes that were asked for, if that is known of such a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_min: Option<u64>,
    /// Of reads, how many of each node's were the last and got no bytes, as at the end of a file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub empty_at_end: BTreeMap<String, u64>,
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
    /// Whether wrong bytes that a read returns are among the failures. Many programs do not promise to
    /// notice them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub corrupt_reads: bool,
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
        let text = match self {
            Self::Call(CallPoint {
                call,
                file,
                site,
                role,
            }) => {
                let role = role.as_deref().unwrap_or_default();
                [call, file, site, role].join("\0")
            }
            Self::Message(_) => [MESSAGE, &self.place()].join("\0"),
            Self::Request(point) => [REQUEST, &self.place(), &point.of].join("\0"),
        };
        blake3::hash(text.as_bytes()).to_hex()[..ID_LEN].to_owned()
    }

    /// What the call is called, or that it is a message or a request.
    pub fn what(&self) -> &str {
        match self {
            Self::Call(point) => &point.call,
            Self::Message(_) => MESSAGE,
            Self::Request(_) => REQUEST,
        }
    }

    /// The file, from where to where, or the part of the disk.
    pub fn place(&self) -> Cow<'_, str> {
        match self {
            Self::Call(point) => Cow::Borrowed(&point.file),
            Self::Message(point) => {
                let port =
                    |port: Option<u16>| port.map_or(String::new(), |port| format!(":{port}"));
                let (from, to) = (port(point.from_port), port(point.to_port));
                Cow::Owned(format!("{}{from} > {}{to}", point.from, point.to))
            }
            Self::Request(RequestPoint { request, area, .. }) => {
                let area = area.as_ref().map(|area| format!(" {area}"));
                Cow::Owned(request.clone() + &area.unwrap_or_default())
            }
        }
    }

    /// What the node was that makes a call, if the probe says so.
    pub fn role(&self) -> Option<&String> {
        match self {
            Self::Call(point) => point.role.as_ref(),
            Self::Message(_) | Self::Request(_) => None,
        }
    }

    /// Whether it is a message.
    pub fn is_message(&self) -> bool {
        matches!(self, Self::Message(_))
    }
}

/// What a message is called in the place of a call.
const MESSAGE: &str = "message";

/// What a request to a disk is.
const REQUEST: &str = "request";

/// One time that a point came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence<'a> {
    /// The node.
    pub(super) node: &'a str,
    /// Of a message, to whom.
    pub(super) to: Option<&'a str>,
    /// Which of its times, from 1 on.
    pub(super) nth: u64,
}

impl From<Made> for Point {
    fn from(made: Made) -> Self {
        Self::Call(CallPoint {
            call: made.call,
            file: made.file,
            site: match made.site {
                0 => String::new(),
                site => site_text(site),
            },
            role: made.role,
        })
    }
}

impl SeenPoint {
    /// The calls that were counted in a run, and these messages, in the order in which nodes came there
    /// first. The clients were started at `begun_ns`, in nanoseconds as calls are stamped.
    pub(super) fn all(
        calls: &Calls,
        messages: Vec<Self>,
        file: &ClusterFile,
        begun_ns: u64,
    ) -> Vec<Self> {
        let mut all = Self::of_calls(calls, file, begun_ns);
        all.extend(messages);
        all.sort_by_key(|seen| seen.first_ns);
        all
    }

    fn of_calls(calls: &Calls, file: &ClusterFile, begun_ns: u64) -> Vec<Self> {
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
            by_node: BTreeMap::new(),
            by_pair: Vec::new(),
            first_ns: 0,
            failed: 0,
            bytes_min: None,
            empty_at_end: BTreeMap::new(),
            callers: Vec::new(),
        }
    }

    fn add(&mut self, node: &str, times: &Times, callers: Vec<String>) {
        self.by_node.insert(node.to_owned(), times.count);
        self.failed = self.failed.saturating_add(times.failed);
        let empty = times.count.saturating_sub(times.last_of_bytes);
        if self.point.what() == READ && empty > 0 {
            self.empty_at_end.insert(node.to_owned(), empty);
        }
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

    /// Whether a node gets bytes of a call that is that one of its times, or a later one.
    fn gets_bytes(&self, node: &str, nth: u64) -> bool {
        let times = self.by_node.get(node).copied().unwrap_or_default();
        let empty = self.empty_at_end.get(node).copied().unwrap_or_default();
        nth <= times.saturating_sub(empty)
    }

    /// Who comes there how often: each node, or each pair of nodes.
    fn comers(&self) -> impl Iterator<Item = (&str, Option<&str>, u64)> {
        let nodes = self.by_node.iter();
        let nodes = nodes.filter(|_| !self.point.is_message());
        let nodes = nodes.map(|(node, times)| (node.as_str(), None, *times));
        let pairs = self.by_pair.iter();
        nodes.chain(pairs.map(|pair| (pair.from.as_str(), Some(pair.to.as_str()), pair.times)))
    }

    /// The first time of each of them.
    pub(super) fn firsts(&self) -> impl Iterator<Item = Occurrence<'_>> {
        let comers = self.comers();
        comers.map(|(node, to, _)| Occurrence { node, to, nth: 1 })
    }

    /// So many times as nodes come there, the first, the middle and the last. Fewer, if they are the same.
    pub(super) fn occurrences(&self) -> Vec<Occurrence<'_>> {
        let count = self.count();
        let mut places = vec![0];
        let middle = if self.point.is_message() {
            self.middle_of_most()
        } else {
            count / 2
        };
        for place in [count.saturating_sub(1), middle] {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let places = places.into_iter();
        places.filter_map(|place| self.occurrence(place)).collect()
    }

    /// The place of the middle one of those who come there most often: of several that are alike it is in no
    /// one's midst where one of them begins.
    fn middle_of_most(&self) -> u64 {
        let (mut before, mut most, mut middle) = (0, 0, 0);
        for (_, _, times) in self.comers() {
            if times > most {
                (most, middle) = (times, before + times / 2);
            }
            before += times;
        }
        middle
    }

    /// That time, from 0 on, as the nodes stand one after the other.
    pub(super) fn occurrence(&self, mut place: u64) -> Option<Occurrence<'_>> {
        for (node, to, count) in self.comers() {
            if place < count {
                let nth = place + 1;
                return Some(Occurrence { node, to, nth });
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
        let point = Point::Call(CallPoint {
            call: "fsync".into(),
            file: "log/wal-#".into(),
            site: "0f".into(),
            role: None,
        });
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
        let Point::Call(point) = one.point else {
            panic!("it is one of a call");
        };
        assert_ne!(one.id, Point::Call(CallPoint { role, ..point }).id());
    }

    #[test]
    fn of_all_times_the_first_the_last_and_the_middle_one_are_tried() {
        let times = |seen: &SeenPoint| -> Vec<_> {
            let all = seen.occurrences().into_iter();
            all.map(|one| (one.node.to_owned(), one.nth)).collect()
        };
        let expected = |all: &[(&str, u64)]| -> Vec<_> {
            let all = all.iter();
            all.map(|(node, nth)| ((*node).to_owned(), *nth)).collect()
        };
        let of = |by_node| times(&seen(by_node));
        assert_eq!(of(&[("a", 1)]), expected(&[("a", 1)]));
        assert_eq!(of(&[("a", 2)]), expected(&[("a", 1), ("a", 2)]));
        let several = [("b", 1), ("c", 4), ("c", 1)];
        assert_eq!(of(&[("b", 3), ("c", 4)]), expected(&several));
    }

    #[test]
    fn reads_that_got_nothing_at_the_end_of_a_file_are_known_of_each_node() {
        let times = |last_of_bytes| Times {
            count: 4,
            failed: 0,
            first_ns: 0,
            bytes_min: None,
            last_of_bytes,
        };
        for (call, expected) in [("read", &[("b", 1), ("c", 4)][..]), ("fsync", &[])] {
            let mut seen = SeenPoint::of(Point::Call(CallPoint {
                call: call.into(),
                ..CallPoint::default()
            }));
            for (node, last_of_bytes) in [("a", 4), ("b", 3), ("c", 0)] {
                seen.add(node, &times(last_of_bytes), Vec::new());
            }
            let empty = seen.empty_at_end.iter();
            let empty: Vec<_> = empty.map(|(node, times)| (node.as_str(), *times)).collect();
            assert_eq!(empty, expected, "{call}");
        }
    }

    #[test]
    fn a_message_is_kept_as_it_is_and_its_times_are_those_of_pairs() {
        let point = |to_port| {
            Point::Message(MessagePoint {
                from: "leader".into(),
                to: "follower".into(),
                from_port: None,
                to_port,
            })
        };
        assert_ne!(point(Some(7000)).id(), point(None).id());
        let pair = |to: &str, times| Pair {
            from: "a".into(),
            to: to.into(),
            times,
        };
        let seen = SeenPoint {
            by_node: [("a".to_owned(), 5)].into(),
            by_pair: vec![pair("b", 2), pair("c", 3)],
            ..SeenPoint::of(point(Some(7000)))
        };
        let text = serde_json::to_string(&seen).expect("JSON");
        assert!(text.contains("\"to_port\":7000"), "{text}");
        assert_eq!(
            serde_json::from_str::<SeenPoint>(&text).expect("a point"),
            seen
        );
        assert_eq!(seen.count(), 5);
        let all = seen.occurrences().into_iter();
        let all: Vec<_> = all
            .map(|one| (one.to.expect("somebody"), one.nth))
            .collect();
        assert_eq!(all, [("b", 1), ("c", 3), ("c", 2)]);
    }
}
