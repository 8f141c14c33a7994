//! What can fail at a point, and how a plan says so.

use std::collections::BTreeSet;
use std::time::Duration;

use block_dev::Corruption;
use cluster::{Area, ClusterFile};
use serde::{Deserialize, Serialize};

use super::super::calls::of_point;
use super::super::errno::Errno;
use simulation::{OfPorts, Port};

use super::super::disk_fault::{Becomes, DiskFault};
use super::super::message::MessageOf;
use super::super::plan::{
    Awaited, Begins, CallFault, CallOf, Comes, Flow, Moment, PlannedFault, Selector, Trigger, What,
};
use super::super::requests::{RequestKind, RequestOf};
use super::{CallPoint, Collected, MessagePoint, Occurrence, Point, RequestPoint, SeenPoint};
use crate::disks::Keeps;

/// So long a node is down, and a call is held.
const LASTS: Duration = Duration::from_secs(1);

/// So long nothing passes after a message that is lost. TCP tries again after 0.2 s, and then each time
/// after twice as long.
const CUT_LASTS: Duration = Duration::from_secs(3);

/// A failure at a point. Their order is that in which they are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PointFailure {
    /// The node is killed right before the call, and started again.
    Kill,
    /// The call fails with EIO, once.
    Eio,
    /// The power of the node fails right before the call.
    PowerLoss,
    /// The call fails with EIO, and all like it after that.
    EioForGood,
    /// The node is killed when the call was made, before it knows.
    KillAfter,
    /// The call fails with ENOSPC, once.
    Enospc,
    /// A part of the bytes is written.
    Short,
    /// The call waits for a while.
    Hold,
    /// The bytes that the call returns are not those of the file, once.
    CorruptRead,
    /// From the message on nothing gets from its sender to its receiver for a while.
    Cut,
    /// The same in both directions.
    CutBoth,
    /// The message is lost, and its sender is killed, and started again.
    CutAndKillSender,
    /// The same, and its receiver is.
    CutAndKillReceiver,
    /// The message is lost, and the power of its sender fails.
    CutAndPowerLossOfSender,
    /// The same, and the power of its receiver does.
    CutAndPowerLossOfReceiver,
    /// The disk fails the request with an I/O error, once.
    DiskEio,
    /// The disk fails it, and all of its kind after that.
    DiskEioForGood,
    /// The power of the node fails when its disk has done the request, before the node knows.
    PowerLossAfter,
    /// The disk takes longer for the request.
    DiskSlow,
}

/// The nodes that have disks of their own, and so can lose their power.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disks(BTreeSet<String>);

impl Disks {
    /// Those of a cluster.
    pub fn of(file: &ClusterFile) -> Self {
        let nodes = file.nodes.iter();
        let with_data = nodes.filter(|node| file.disk.is_some() && node.has_data);
        Self(with_data.map(|node| node.name.clone()).collect())
    }
}

/// When and on whom a failure is to happen.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::online) struct Placed {
    /// The node that makes the call, or sends the message.
    pub(in crate::online) on: Selector,
    /// Of a message, its receiver.
    pub(in crate::online) to: Option<Selector>,
    /// Which of its times.
    pub(in crate::online) nth: u64,
    /// From when on messages are counted.
    pub(in crate::online) since: Awaited,
}

/// At which calls each can happen.
const AT: [(PointFailure, &[&str]); 9] = [
    (PointFailure::Kill, CHANGES),
    (PointFailure::Eio, ALL),
    (PointFailure::PowerLoss, CHANGES),
    (PointFailure::EioForGood, ALL),
    (
        PointFailure::KillAfter,
        &["fsync", "fdatasync", "rename", "unlink", "truncate"],
    ),
    (
        PointFailure::Enospc,
        &[
            "fsync",
            "fdatasync",
            "write",
            "open",
            "rename",
            "link",
            "mkdir",
            "fallocate",
        ],
    ),
    (PointFailure::Short, &["write"]),
    (
        PointFailure::Hold,
        &["fsync", "fdatasync", "write", "rename"],
    ),
    (PointFailure::CorruptRead, &["read"]),
];

/// What can happen at messages.
const OF_MESSAGES: [PointFailure; 6] = [
    PointFailure::Cut,
    PointFailure::CutBoth,
    PointFailure::CutAndKillSender,
    PointFailure::CutAndKillReceiver,
    PointFailure::CutAndPowerLossOfSender,
    PointFailure::CutAndPowerLossOfReceiver,
];

/// What can happen at requests to a disk, and whether it can at those to read.
const OF_REQUESTS: [(PointFailure, bool); 5] = [
    (PointFailure::PowerLoss, false),
    (PointFailure::DiskEio, true),
    (PointFailure::DiskEioForGood, true),
    (PointFailure::PowerLossAfter, false),
    (PointFailure::DiskSlow, true),
];

/// Calls that change what is on the disk.
const CHANGES: &[&str] = &[
    "fsync",
    "fdatasync",
    "write",
    "rename",
    "unlink",
    "link",
    "mkdir",
    "truncate",
    "fallocate",
];

const ALL: &[&str] = &[
    "fsync",
    "fdatasync",
    "write",
    "read",
    "open",
    "rename",
    "unlink",
    "link",
    "mkdir",
    "truncate",
    "fallocate",
];

impl Collected {
    /// The failures that are tried at a point, where these nodes have disks of their own.
    pub fn failures(&self, seen: &SeenPoint, disks: &Disks) -> impl Iterator<Item = PointFailure> {
        let corrupts = self.corrupt_reads;
        let all = PointFailure::at(seen, disks);
        all.filter(move |failure| corrupts || *failure != PointFailure::CorruptRead)
    }

    /// Those of them that are tried at one of its times.
    pub(in crate::online) fn failures_at(
        &self,
        seen: &SeenPoint,
        one: Occurrence,
        disks: &Disks,
    ) -> impl Iterator<Item = PointFailure> {
        let gets_bytes = seen.gets_bytes(one.node, one.nth);
        let all = self.failures(seen, disks);
        all.filter(move |failure| gets_bytes || *failure != PointFailure::CorruptRead)
    }
}

impl PointFailure {
    /// Those that can happen at a point, where these nodes have disks of their own.
    fn at(seen: &SeenPoint, disks: &Disks) -> impl Iterator<Item = Self> {
        let has_disks = seen.by_node.keys().all(|node| disks.0.contains(node));
        let mut receivers = seen.by_pair.iter().map(|pair| &pair.to);
        let have_receivers = receivers.all(|node| disks.0.contains(node));
        let is_message = seen.point.is_message();
        let of_messages = OF_MESSAGES.into_iter().filter(move |failure| {
            is_message
                && match failure {
                    Self::CutAndPowerLossOfSender => has_disks,
                    Self::CutAndPowerLossOfReceiver => have_receivers,
                    _ => true,
                }
        });
        let others = of_messages.chain(Self::at_request(&seen.point));
        Self::at_call(seen, has_disks).chain(others)
    }

    /// Those that can happen at a request to a disk; none can at something else.
    fn at_request(point: &Point) -> impl Iterator<Item = Self> + use<> {
        let kind = match point {
            Point::Request(point) => RequestKind::named(&point.request),
            _ => None,
        };
        let reads = kind == Some(RequestKind::Read);
        let can_be = move |of_reads: bool| kind.is_some() && (of_reads || !reads);
        let all = OF_REQUESTS.into_iter();
        all.filter_map(move |(failure, of_reads)| can_be(of_reads).then_some(failure))
    }

    /// Those that can happen at a call; none can at a message.
    fn at_call(seen: &SeenPoint, has_disks: bool) -> impl Iterator<Item = Self> {
        let call = seen.point.what().to_owned();
        let is_long = seen.bytes_min.is_some_and(|bytes| bytes > 1);
        // A read of nothing returns no wrong bytes.
        let mut nodes = seen.by_node.keys();
        let has_bytes = seen.bytes_min.is_some() && nodes.any(|node| seen.gets_bytes(node, 1));
        let never_fails = seen.failed == 0;
        AT.into_iter().filter_map(move |(failure, calls)| {
            let can_be = match failure {
                Self::PowerLoss => has_disks,
                Self::Short => is_long,
                Self::CorruptRead => has_bytes,
                // A call that fails has changed nothing, and is not waited for.
                Self::KillAfter => never_fails,
                _ => true,
            };
            (can_be && calls.contains(&call.as_str())).then_some(failure)
        })
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Eio => "EIO",
            Self::PowerLoss => "power loss",
            Self::EioForGood => "EIO for good",
            Self::KillAfter => "kill after it",
            Self::Enospc => "ENOSPC",
            Self::Short => "short",
            Self::Hold => "hold",
            Self::CorruptRead => "corrupt read",
            Self::Cut => "cut",
            Self::CutBoth => "cut both ways",
            Self::CutAndKillSender => "cut and kill sender",
            Self::CutAndKillReceiver => "cut and kill receiver",
            Self::CutAndPowerLossOfSender => "cut and power loss of sender",
            Self::CutAndPowerLossOfReceiver => "cut and power loss of receiver",
            Self::DiskEio => "EIO of the disk",
            Self::DiskEioForGood => "EIO of the disk for good",
            Self::PowerLossAfter => "power loss after it",
            Self::DiskSlow => "slow disk",
        }
    }

    /// What programs say that met with it.
    pub(in crate::online) fn said(self) -> &'static str {
        match self {
            Self::Kill | Self::KillAfter | Self::PowerLoss | Self::PowerLossAfter => "",
            Self::Cut | Self::CutBoth => "connection lost unreachable timeout timed out",
            Self::CutAndKillSender
            | Self::CutAndKillReceiver
            | Self::CutAndPowerLossOfSender
            | Self::CutAndPowerLossOfReceiver => "connection lost reset closed refused",
            Self::Eio | Self::EioForGood | Self::DiskEio | Self::DiskEioForGood => {
                "EIO input/output error"
            }
            Self::Enospc => "ENOSPC no space left on device",
            Self::Short => "short write",
            Self::Hold | Self::DiskSlow => "slow took too long timeout timed out",
            Self::CorruptRead => "corrupt corrupted corruption checksum crc mismatch bad invalid",
        }
    }

    /// The faults of a plan that it is at a point.
    pub(in crate::online) fn faults(self, seen: &SeenPoint, placed: Placed) -> Vec<PlannedFault> {
        match &seen.point {
            Point::Call(point) => {
                let of = call_of(point, placed.nth);
                vec![self.at_a_call(of, placed.on, seen.bytes_min)]
            }
            Point::Message(point) => self.at_a_message(point, placed),
            Point::Request(point) => self.at_a_request(point, placed).into_iter().collect(),
        }
    }

    /// Nothing, if this program knows no such request.
    fn at_a_request(self, point: &RequestPoint, placed: Placed) -> Option<PlannedFault> {
        let kind = RequestKind::named(&point.request)?;
        let area = Area::ALL.into_iter();
        let mut area = area.filter(|area| point.area.as_deref() == Some(area.name()));
        let at = Awaited::Request {
            of: RequestOf {
                kind,
                area: area.next(),
                nth: placed.nth,
            },
            on: Some(placed.on.clone()),
            when: match self {
                Self::PowerLossAfter => Moment::After,
                _ => Moment::Before,
            },
        };
        let lasts = match self {
            // While it lasts nothing that waits for the disk goes on.
            Self::DiskSlow => 2 * LASTS,
            _ => LASTS,
        };
        Some(PlannedFault {
            at: Trigger::at(at),
            what: self.of_disk(kind),
            on: vec![placed.on],
            until: Some(Trigger::at(Awaited::After(lasts))),
        })
    }

    /// What it is of a request of a kind, which is the first one that the fault hits.
    fn of_disk(self, kind: RequestKind) -> What {
        let requests = vec![kind.requested()];
        let is_once = self != Self::DiskEioForGood;
        let times = is_once.then_some(1);
        match self {
            Self::DiskEio | Self::DiskEioForGood => What::Disk(DiskFault {
                requests,
                times,
                becomes: Becomes::Failed,
            }),
            Self::DiskSlow => What::Disk(DiskFault {
                requests,
                times,
                becomes: Becomes::Slow(LASTS),
            }),
            _ => What::PowerLoss(Keeps::Flushed),
        }
    }

    /// The message is lost, and perhaps its sender or its receiver dies right after that: the one that the
    /// partition hits.
    fn at_a_message(self, point: &MessagePoint, placed: Placed) -> Vec<PlannedFault> {
        let dies = self.dies();
        let (hit, other, flow) = self.cut_off(&placed);
        let cut = PlannedFault {
            at: Trigger::at(placed.since.clone()),
            until: Some(Trigger::at(Awaited::After(match dies {
                Some(_) => LASTS,
                None => CUT_LASTS,
            }))),
            on: hit.into_iter().collect(),
            what: What::Partition {
                from: other.into_iter().collect(),
                flow,
                begins: Some(Begins::With(message_at(point, placed))),
            },
        };
        let dies = dies.map(|what| PlannedFault {
            at: Trigger::at(Awaited::After(Duration::ZERO)),
            what,
            on: vec![Selector::Hit],
            until: Some(Trigger::at(Awaited::After(LASTS))),
        });
        std::iter::once(cut).chain(dies).collect()
    }

    /// Who is cut off by the loss of a message, from whom, and which way.
    fn cut_off(self, placed: &Placed) -> (Option<Selector>, Option<Selector>, Flow) {
        let (sender, receiver) = (Some(placed.on.clone()), placed.to.clone());
        match self {
            Self::CutAndKillReceiver | Self::CutAndPowerLossOfReceiver => {
                (receiver, sender, Flow::In)
            }
            Self::CutBoth => (sender, receiver, Flow::Both),
            _ => (sender, receiver, Flow::Out),
        }
    }

    /// What happens to one end of a message that is lost, if anything does.
    fn dies(self) -> Option<What> {
        match self {
            Self::CutAndKillSender | Self::CutAndKillReceiver => Some(What::Kill),
            Self::CutAndPowerLossOfSender | Self::CutAndPowerLossOfReceiver => {
                Some(What::PowerLoss(Keeps::Flushed))
            }
            _ => None,
        }
    }

    fn at_a_call(self, of: CallOf, on: Selector, bytes_min: Option<u64>) -> PlannedFault {
        let when = match self {
            Self::KillAfter => Moment::After,
            _ => Moment::Before,
        };
        let once = self != Self::EioForGood;
        let at = Awaited::Call {
            of: of.clone(),
            on: Some(on.clone()),
            when,
        };
        PlannedFault {
            at: Trigger::at(at),
            what: self.what(CallOf { nth: 1, ..of }, once, bytes_min),
            on: vec![on],
            until: self.ends().then(|| Trigger::at(Awaited::After(LASTS))),
        }
    }

    fn what(self, of: CallOf, once: bool, bytes_min: Option<u64>) -> What {
        let comes = match self {
            Self::Kill | Self::KillAfter => return What::Kill,
            Self::PowerLoss => return What::PowerLoss(Keeps::Flushed),
            Self::Eio | Self::EioForGood => Comes::Fails(Errno::EIO),
            Self::Enospc => Comes::Fails(Errno::ENOSPC),
            Self::Short => Comes::Short((bytes_min.unwrap_or(2) / 2).max(1)),
            Self::Cut
            | Self::CutBoth
            | Self::CutAndKillSender
            | Self::CutAndKillReceiver
            | Self::CutAndPowerLossOfSender
            | Self::CutAndPowerLossOfReceiver => unreachable!("it is of a message"),
            Self::DiskEio | Self::DiskEioForGood | Self::PowerLossAfter | Self::DiskSlow => {
                unreachable!("it is of a request")
            }
            Self::Hold => Comes::Held(None),
            Self::CorruptRead => Comes::Corrupt(Corruption::Bit),
        };
        What::Call(CallFault { of, once, comes })
    }

    /// So many faults of a plan it is: as many as [`Self::faults`] makes.
    pub(in crate::online) fn fault_count(self) -> usize {
        1 + usize::from(self.dies().is_some())
    }

    /// Whether a disk has a fault for a while: it has one at a time.
    pub(in crate::online) fn is_of_disk(self) -> bool {
        matches!(self, Self::DiskEio | Self::DiskEioForGood | Self::DiskSlow)
    }

    /// Whether a call, or a request, does not do what it was for, and the node goes on.
    pub(in crate::online) fn is_of_call(self) -> bool {
        matches!(
            self,
            Self::Eio
                | Self::EioForGood
                | Self::Enospc
                | Self::Short
                | Self::DiskEio
                | Self::DiskEioForGood
        )
    }

    /// Whether a node loses its power, so that there is no link to it until it is started again.
    pub(in crate::online) fn is_power_loss(self) -> bool {
        matches!(self, Self::PowerLoss | Self::PowerLossAfter)
            || matches!(self.dies(), Some(What::PowerLoss(_)))
    }

    /// Whether it ends before everything does. An error that comes once is over when it came.
    fn ends(self) -> bool {
        matches!(
            self,
            Self::Kill | Self::KillAfter | Self::PowerLoss | Self::Hold
        )
    }
}

/// The message with which a partition begins.
fn message_at(point: &MessagePoint, placed: Placed) -> MessageOf {
    MessageOf {
        nth: placed.nth,
        from: vec![placed.on],
        to: placed.to.into_iter().collect(),
        ports: OfPorts {
            from: exactly(point.from_port),
            to: exactly(point.to_port),
        },
    }
}

/// The port of a point: one that is none of it was chosen.
fn exactly(port: Option<u16>) -> Port {
    port.map_or(Port::Chosen, Port::Is)
}

/// The calls that a plan means by a point, from the so-manieth on.
fn call_of(point: &CallPoint, nth: u64) -> CallOf {
    CallOf {
        call: point.call.clone(),
        path: Some(of_point(&point.file)),
        site: u64::from_str_radix(&point.site, 16).ok(),
        nth,
    }
}
