//! Two programs in network namespaces of their own, and what is between them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use cluster::{Cluster, ClusterFile, Member};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use simulation::{Amount, Until};

use crate::queue::{Copied, serve};
use crate::rounds::{Outcome, Place, pin};
use crate::tap;

/// What is between two programs.
#[derive(Debug, Clone, Copy)]
enum Between {
    /// The bridge.
    Plain,
    /// The bridge, and packet sockets that count: triggers of bytes and messages.
    Counted,
    /// From packet socket to packet socket: limits of partitions, and links that are worse.
    Limited,
    /// A rule of the bridge that asks a program about each packet.
    Queued(Copied),
    /// A switch without the bridge.
    Tap,
}

const ALL: [(&str, Between); 6] = [
    ("veth and bridge, nothing else", Between::Plain),
    (
        "**Crashpoint counts (packet sockets beside the bridge)**",
        Between::Counted,
    ),
    (
        "**Crashpoint passes, with a limit (packet sockets in its place)**",
        Between::Limited,
    ),
    (
        "NFQUEUE at the bridge, headers copied, accept",
        Between::Queued(Copied::Headers),
    ),
    (
        "NFQUEUE at the bridge, packets copied, accept",
        Between::Queued(Copied::Packets),
    ),
    ("TAP switch", Between::Tap),
];

pub(crate) fn names() -> [&'static str; 6] {
    ALL.map(|(name, _)| name)
}

/// All that there is to measure, made once: that a namespace is taken down would be measured too.
pub(crate) fn make_all(places: &[Place]) -> Outcome<Vec<Vec<Network>>> {
    let of_one = |(name, between): &(&str, Between)| {
        let of_places = places.iter().map(|place| Network::new(*between, *place));
        let made: Outcome<Vec<_>> = of_places.collect();
        made.map_err(|error| format!("{name}: {error}").into())
    };
    ALL.iter().map(of_one).collect()
}

/// Two namespaces that reach each other.
pub(crate) struct Network {
    pub(crate) asker: File,
    pub(crate) answerer: File,
    pub(crate) address: Ipv4Addr,
    /// Keeps the rest.
    cluster: Option<Cluster>,
    watcher: Watcher,
}

/// Who counts the messages that pass.
enum Watcher {
    Nobody,
    Crashpoint,
    Queue(Arc<AtomicU64>),
}

/// A cluster has a node at least. This one is never started.
const FILE: &str = r#"
[[nodes]]
name = "a"
command = "true"
ready = { log = "never" }
"#;

/// More than passes.
const NEVER: Until = Until::After(Amount::Bytes(u64::MAX));

impl Network {
    fn new(between: Between, place: Place) -> Outcome<Self> {
        // Threads that are started from here on run where this one does.
        thread::scope(|scope| {
            let make = || {
                pin(place.between)?;
                match between {
                    Between::Tap => tap::switch(),
                    _ => Self::bridged(between),
                }
            };
            scope.spawn(make).join().map_err(|_| "it panicked")?
        })
    }

    pub(crate) fn of(asker: File, answerer: File, address: Ipv4Addr) -> Self {
        Self {
            asker,
            answerer,
            address,
            cluster: None,
            watcher: Watcher::Nobody,
        }
    }

    fn bridged(between: Between) -> Outcome<Self> {
        let before = namespaces()?;
        // Nothing is written there, since no node is started.
        let nowhere = Path::new("/");
        let file = ClusterFile::parse(FILE, nowhere, nowhere)?;
        let mut cluster = Cluster::new(&file, nowhere)?;
        cluster.add_client()?;
        let clients = [Member::Client(0), Member::Client(1)];
        let both = [(clients[0], clients[1]), (clients[1], clients[0])];
        let mut watcher = Watcher::Crashpoint;
        match between {
            Between::Plain | Between::Tap => watcher = Watcher::Nobody,
            Between::Counted => cluster.links().count()?,
            Between::Limited => cluster.links().limit(both, both, NEVER)?,
            Between::Queued(copied) => {
                watcher = Watcher::Queue(serve(bridge(&before)?, copied)?);
            }
        }
        let namespace = |index| File::open(format!("/proc/{}/ns/net", cluster.client(index).pid()));
        Ok(Self {
            asker: namespace(0)?,
            answerer: namespace(1)?,
            address: cluster.client(1).address(),
            cluster: Some(cluster),
            watcher,
        })
    }

    /// Fails if Crashpoint has lost messages uncounted, or its limit is reached.
    pub(crate) fn verify(&self) -> Outcome<()> {
        let Some(cluster) = &self.cluster else {
            return Ok(());
        };
        let links = cluster.links();
        if links.uncounted() > 0 || links.limit_reached().is_some() {
            return Err("messages were lost".into());
        }
        Ok(())
    }

    /// How many messages were counted here, if they are.
    pub(crate) fn seen(&self) -> Option<u64> {
        let links = self.cluster.as_ref()?.links();
        let direction = (Member::Client(0), Member::Client(1));
        match &self.watcher {
            Watcher::Nobody => None,
            Watcher::Crashpoint => Some(match links.limited() {
                Some(limit) => limit.passed().messages,
                None => links.carried([direction]).messages,
            }),
            Watcher::Queue(seen) => Some(seen.load(Ordering::Relaxed)),
        }
    }
}

/// The network namespaces that this process has descriptors of.
fn namespaces() -> Outcome<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let is_one = |target: PathBuf| target.to_string_lossy().starts_with("net:");
        if fs::read_link(&path).is_ok_and(is_one) {
            found.insert(path);
        }
    }
    Ok(found)
}

/// The namespace of the bridge that was made since. It has no name.
fn bridge(before: &BTreeSet<PathBuf>) -> Outcome<File> {
    for path in namespaces()?.difference(before) {
        let file = File::open(path)?;
        if inside(&file, || Ok(if_nametoindex("bridge").is_ok()))? {
            return Ok(file);
        }
    }
    Err("there is no bridge".into())
}

/// Does something in a network namespace.
pub(crate) fn inside<T: Send>(
    namespace: &File,
    work: impl FnOnce() -> Outcome<T> + Send,
) -> Outcome<T> {
    thread::scope(|scope| {
        let work = || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            work()
        };
        scope.spawn(work).join().map_err(|_| "it panicked")?
    })
}
