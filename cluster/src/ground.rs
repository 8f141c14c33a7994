//! Where the nodes of a cluster live: what the handles ask for, and no more.
//!
//! Today's ground is namespaces of this kernel (`namespaces.rs`). Whoever holds a node, a link, a
//! client or a disk does not learn that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use simulation::{Carried, Limit, Link, Ports};

use crate::error::Result;

/// A direction between two addresses: who sends, and who would receive.
pub(crate) type Direction = (Ipv4Addr, Ipv4Addr);

/// How messages fare in a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quality {
    pub(crate) link: Link,
    /// What everything that is drawn comes from.
    pub(crate) seed: u64,
}

/// A limit that several directions have together. Its clock begins with it.
#[derive(Debug, Clone)]
pub(crate) struct SharedLimit(Arc<(Instant, Mutex<Limit>)>);

impl SharedLimit {
    pub(crate) fn new(limit: Limit) -> Self {
        Self(Arc::new((Instant::now(), Mutex::new(limit))))
    }

    /// Whoever holds it decides about a frame, and counts it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Limit> {
        self.0.1.lock().expect("no holder panics")
    }

    /// The time by its clock, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.0.0.elapsed().as_nanos() as u64
    }

    /// When it was reached, if it was.
    pub(crate) fn reached(&self) -> Option<Instant> {
        let reached_ns = self.lock().reached_ns()?;
        Some(self.0.0 + Duration::from_nanos(reached_ns))
    }
}

/// Another one is never the same, whatever has passed.
impl PartialEq for SharedLimit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Directions that are cut together once a limit is reached.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limited {
    /// These.
    pub(crate) cut: BTreeSet<Direction>,
    /// Those in which is counted what passes.
    pub(crate) counted: BTreeSet<Direction>,
    pub(crate) limit: SharedLimit,
}

impl Limited {
    /// All that it has to do with.
    fn directions(&self) -> impl Iterator<Item = &Direction> {
        self.cut.union(&self.counted)
    }

    fn limiting(&self, direction: Direction) -> Limiting {
        Limiting {
            limit: self.limit.clone(),
            cuts: self.cut.contains(&direction),
            counts: self.counted.contains(&direction),
        }
    }
}

/// What a limit is for a direction that it has to do with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limiting {
    pub(crate) limit: SharedLimit,
    /// Whether nothing passes here once it is reached.
    pub(crate) cuts: bool,
    /// Whether what passes here counts.
    pub(crate) counts: bool,
}

/// How messages pass in a direction that is not as ever, and not cut.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Passing {
    /// How they fare; without it as ever.
    pub(crate) quality: Option<Quality>,
    /// Until when they do.
    pub(crate) limit: Option<Limiting>,
}

impl Passing {
    /// What is done to a direction that has it, in words.
    pub(crate) fn doing(&self) -> &'static str {
        match (&self.limit, &self.quality) {
            (Some(_), _) => "give a link a limit",
            (None, _) => "make a link worse",
        }
    }
}

/// The links that are not as ever.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Impaired {
    /// Directions in which everything is lost.
    pub(crate) cuts: BTreeSet<Direction>,
    /// Directions in which messages fare so, where they are not cut as well.
    pub(crate) worse: BTreeMap<Direction, Quality>,
    /// Directions in which everything is lost once their limit is reached.
    pub(crate) limited: Option<Limited>,
}

impl Impaired {
    /// All of them.
    pub(crate) fn directions(&self) -> BTreeSet<Direction> {
        let limited = self.limited.iter().flat_map(Limited::directions);
        let all = self.cuts.iter().chain(self.worse.keys()).chain(limited);
        all.copied().collect()
    }

    /// Those that are not cut.
    pub(crate) fn passing(&self) -> BTreeMap<Direction, Passing> {
        let mut passing: BTreeMap<_, Passing> = BTreeMap::new();
        for (direction, quality) in &self.worse {
            passing.entry(*direction).or_default().quality = Some(*quality);
        }
        if let Some(limited) = &self.limited {
            for direction in limited.directions() {
                passing.entry(*direction).or_default().limit = Some(limited.limiting(*direction));
            }
        }
        passing.retain(|direction, _| !self.cuts.contains(direction));
        passing
    }
}

/// The machines of one cluster, and the network between them.
pub(crate) trait Ground: Send + Sync {
    /// Gives an address a place in the network. What had it before has lost its connections.
    fn plug_in(&self, address: Ipv4Addr) -> Result<()>;

    /// Cuts an address off for good, and silently: from now on nothing that it sends arrives
    /// anywhere, not even that its connections end.
    fn unplug(&self, address: Ipv4Addr) -> Result<()>;

    /// Starts a machine at an address that is plugged in. No program runs in it.
    fn boot(&self, address: Ipv4Addr, spec: &MachineSpec) -> Result<Box<dyn Machine>>;

    /// Whether somebody answers at a port, whatever links are cut.
    fn answers(&self, address: SocketAddr) -> Result<bool>;

    /// Has links be like that, and all others as ever. That is so when this returns, also for
    /// connections that are open. What is lost is lost silently.
    fn set_links(&self, links: &Impaired) -> Result<()>;

    /// Fails if they are not just like that.
    fn verify_links(&self, links: &Impaired) -> Result<()>;

    /// Counts from now on what is sent from one address to another one, lost or not.
    fn count(&self) -> Result<()>;

    /// How many frames were lost, up to now, before they could be counted or held against a limit.
    fn uncounted(&self) -> u64;

    /// What was counted in a direction; nothing, if it is not counted.
    fn carried(&self, direction: Direction) -> Carried;

    /// What was counted for one receiver each, by the ports that last.
    fn carried_by_ports(&self) -> Vec<(Direction, Ports, Carried)>;
}

/// A machine that is switched on. It is killed, with all of its processes, when it is dropped.
pub(crate) trait Machine: Send {
    /// What runs a command in it: a child of ours that ends as the command does, and passes signals
    /// on to it.
    fn command(&self, words: &[String], directory: &Path, user: Option<&str>) -> Command;

    /// The process that stands for the machine, for people.
    fn pid(&self) -> u32;

    /// Kills all of its processes. They are gone when it is dropped; several machines die together
    /// if all are killed first.
    fn kill(&mut self);

    /// Stops all of its processes where they are. None of them runs any more when this returns.
    fn pause(&mut self) -> Result<()>;

    /// Has them go on.
    fn resume(&mut self) -> Result<()>;
}

/// What a machine is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MachineSpec {
    /// Its name as a host.
    pub(crate) name: String,
    /// The directory with its data, outside.
    pub(crate) data: Option<PathBuf>,
    /// Mount points, outside, of the disks of all machines, its own too: it has its data elsewhere,
    /// and would keep them in use.
    pub(crate) unseen: Vec<PathBuf>,
    /// After which number those of its processes begin.
    pub(crate) last_pid: u32,
    /// Whether what it changes in the directories for temporary files is its own. A client's may be
    /// read outside.
    pub(crate) own_temporary: bool,
    /// Names and addresses, as in /etc/hosts.
    pub(crate) hosts: String,
}
