//! What can fail at a point, and how a plan says so.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::errno::Errno;
use super::super::plan::{
    Awaited, CallFault, CallOf, Comes, Moment, PlannedFault, Selector, Trigger, What,
};
use super::SeenPoint;
use crate::disks::Keeps;

/// So long a node is down, and a call is held.
const LASTS: Duration = Duration::from_secs(1);

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
}

/// At which calls each can happen.
const AT: [(PointFailure, &[&str]); 8] = [
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

impl PointFailure {
    /// Those that can happen at a point, of nodes with disks of their own or not.
    pub fn at(seen: &SeenPoint, has_disks: bool) -> impl Iterator<Item = Self> {
        let call = seen.point.call.as_str();
        let is_long = seen.bytes_min.is_some_and(|bytes| bytes > 1);
        let never_fails = seen.failed == 0;
        AT.into_iter().filter_map(move |(failure, calls)| {
            let can_be = match failure {
                Self::PowerLoss => has_disks,
                Self::Short => is_long,
                // A call that fails has changed nothing, and is not waited for.
                Self::KillAfter => never_fails,
                _ => true,
            };
            (can_be && calls.contains(&call)).then_some(failure)
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
        }
    }

    /// What programs say that met with it.
    pub(in crate::online) fn said(self) -> &'static str {
        match self {
            Self::Kill | Self::KillAfter | Self::PowerLoss => "",
            Self::Eio | Self::EioForGood => "EIO input/output error",
            Self::Enospc => "ENOSPC no space left on device",
            Self::Short => "short write",
            Self::Hold => "slow took too long timeout timed out",
        }
    }

    /// The fault of a plan that it is at a point, when this node comes there for the so-manieth time.
    pub(in crate::online) fn fault(self, seen: &SeenPoint, on: Selector, nth: u64) -> PlannedFault {
        let of = seen.call_of(nth);
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
            at: now(at),
            what: self.what(CallOf { nth: 1, ..of }, once, seen.bytes_min),
            on: vec![on],
            until: self.ends().then(|| now(Awaited::After(LASTS))),
        }
    }

    fn what(self, of: CallOf, once: bool, bytes_min: Option<u64>) -> What {
        let comes = match self {
            Self::Kill | Self::KillAfter => return What::Kill,
            Self::PowerLoss => return What::PowerLoss(Keeps::Flushed),
            Self::Eio | Self::EioForGood => Comes::Fails(Errno::EIO),
            Self::Enospc => Comes::Fails(Errno::ENOSPC),
            Self::Short => Comes::Short((bytes_min.unwrap_or(2) / 2).max(1)),
            Self::Hold => Comes::Held(None),
        };
        What::Call(CallFault { of, once, comes })
    }

    /// Whether a call does not do what it was called for, and the node goes on.
    pub(in crate::online) fn is_of_call(self) -> bool {
        matches!(
            self,
            Self::Eio | Self::EioForGood | Self::Enospc | Self::Short
        )
    }

    /// Whether it ends before everything does. An error that comes once is over when it came.
    fn ends(self) -> bool {
        matches!(
            self,
            Self::Kill | Self::KillAfter | Self::PowerLoss | Self::Hold
        )
    }
}

fn now(awaited: Awaited) -> Trigger {
    Trigger {
        awaited,
        delay: Duration::ZERO,
    }
}

impl SeenPoint {
    /// The calls that a plan means by it, from the so-manieth on.
    fn call_of(&self, nth: u64) -> CallOf {
        let file = match self.point.file.as_str() {
            "" => ".".to_owned(),
            file => file.replace('#', "*"),
        };
        CallOf {
            call: self.point.call.clone(),
            path: Some(file),
            site: u64::from_str_radix(&self.point.site, 16).ok(),
            nth,
        }
    }
}
