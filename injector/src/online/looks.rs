//! Looks at directories of data while nothing of their nodes runs: before a node is started again, and when
//! the run is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use block_dev::Fault;
use cluster::{ListedData, Reading};

/// What was seen of a directory of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The index of the node.
    pub node: usize,
    /// What had become of the node.
    pub after: After,
    /// When that was, since the ground was made.
    pub at: Duration,
    /// What it had, or why nobody knows.
    pub data: ListedData,
}

/// Why nobody looks at what a disk has of which a fault of the plan has corrupted requests.
const CORRUPTED: &str = "a fault of the plan had its disk corrupt requests";

/// What a look at a directory comes after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The power of the node had failed: it is what its disk had, recovered by its file system.
    PowerLoss,
    /// Its processes had been killed, or had ended, and its kernel went on: it is all that was written.
    Stop,
    /// The run was over, and all nodes were killed.
    Run,
}

impl After {
    /// What facts call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::PowerLoss => "power loss",
            Self::Stop => "stop",
            Self::Run => "run",
        }
    }
}

/// What a ground has to know for its looks.
#[derive(Debug, Clone, Default)]
pub(super) struct DataLooks {
    /// Which files are read, if directories are looked at.
    pub(super) reading: Option<Reading>,
    looks: Vec<Look>,
    /// The nodes whose power has failed since they were started.
    without_power: BTreeSet<usize>,
    /// The nodes of whose disks some requests are not answered as ever: a look would be answered so instead
    /// of the node.
    with_faulty_disk: BTreeSet<usize>,
    /// Since when disks of nodes corrupted requests: what they wrote stays.
    corrupted: BTreeMap<usize, Duration>,
}

impl DataLooks {
    /// The power of nodes fails, and their disks answer as ever.
    pub(super) fn power_failed(&mut self, nodes: &[usize]) {
        self.without_power.extend(nodes);
        self.with_faulty_disk.retain(|node| !nodes.contains(node));
    }

    /// The disk of a node has a fault from now on.
    pub(super) fn disk_is_faulty(&mut self, node: usize, fault: Fault, now: Duration) {
        self.with_faulty_disk.insert(node);
        if matches!(fault, Fault::Corrupt(_)) {
            self.corrupted.entry(node).or_insert(now);
        }
    }

    /// It has none any more.
    pub(super) fn disk_is_spared(&mut self, node: usize) {
        self.with_faulty_disk.remove(&node);
    }

    /// A node is about to be started again: what has become of it.
    pub(super) fn begins(&mut self, node: usize) -> After {
        if self.without_power.remove(&node) {
            After::PowerLoss
        } else {
            After::Stop
        }
    }

    /// Why the directory of a node is not looked at, though there are looks.
    pub(super) fn refuses(&self, node: usize) -> Option<ListedData> {
        if self.corrupted.contains_key(&node) {
            return Some(Err(CORRUPTED.into()));
        }
        let is_faulty = self.with_faulty_disk.contains(&node);
        is_faulty.then(|| Err("a fault of its disk was in place then".into()))
    }

    /// What was seen while a node booted, if it is not what a fault of the plan wrote or read instead.
    pub(super) fn add_of_boot(&mut self, node: usize, at: Duration, data: ListedData) {
        let is_corrupted = self.corrupted.get(&node).is_some_and(|since| at >= *since);
        self.looks.push(Look {
            node,
            after: After::PowerLoss,
            at,
            data: if is_corrupted {
                Err(CORRUPTED.into())
            } else {
                data
            },
        });
    }

    pub(super) fn add(&mut self, look: Look) {
        self.looks.push(look);
    }

    /// What was seen since this was last asked, in order.
    pub(super) fn take(&mut self) -> Vec<Look> {
        let mut looks = std::mem::take(&mut self.looks);
        looks.sort_by_key(|look| look.at);
        looks
    }
}

#[cfg(test)]
mod tests {
    use block_dev::{Answer, Corruption};

    use super::*;

    #[test]
    fn what_a_look_comes_after_is_known_until_the_node_is_started() {
        let mut data_looks = DataLooks::default();
        let fails = Fault::Answer(Answer::Fail);
        data_looks.disk_is_faulty(0, fails, Duration::ZERO);
        data_looks.disk_is_faulty(1, fails, Duration::ZERO);
        assert!(data_looks.refuses(0).is_some_and(|data| data.is_err()));
        data_looks.power_failed(&[0]);
        assert!(data_looks.refuses(0).is_none(), "it answers as ever");
        assert_eq!(data_looks.begins(0), After::PowerLoss);
        assert_eq!(data_looks.begins(0), After::Stop, "it was started since");
        data_looks.disk_is_spared(1);
        assert!(data_looks.refuses(1).is_none());
    }

    #[test]
    fn what_a_disk_has_that_corrupted_requests_is_not_looked_at_any_more() {
        let (mut data_looks, at) = (DataLooks::default(), Duration::from_secs);
        data_looks.disk_is_faulty(0, Fault::Corrupt(Corruption::Bit), at(2));
        data_looks.disk_is_spared(0);
        data_looks.power_failed(&[0]);
        assert_eq!(data_looks.refuses(0), Some(Err(CORRUPTED.into())));
        assert_eq!(data_looks.refuses(1), None);
        for (node, second) in [(0, 1), (1, 3), (0, 3)] {
            data_looks.add_of_boot(node, at(second), Ok(Vec::new()));
        }
        let are_known: Vec<_> = data_looks
            .take()
            .iter()
            .map(|look| look.data.is_ok())
            .collect();
        assert_eq!(are_known, [true, true, false]);
    }

    #[test]
    fn looks_are_told_once_and_in_order() {
        let look = |node, ms| Look {
            node,
            after: After::Run,
            at: Duration::from_millis(ms),
            data: Ok(Vec::new()),
        };
        let mut data_looks = DataLooks::default();
        data_looks.add(look(1, 7));
        data_looks.add(look(0, 3));
        assert_eq!(data_looks.take(), [look(0, 3), look(1, 7)]);
        assert!(data_looks.take().is_empty());
    }
}
