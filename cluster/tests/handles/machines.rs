//! Requests to the disks of simulated machines that somebody holds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block_dev::{Completion, DiskRequest, Onlooker};
use cluster::{ClusterFile, Reading, SimulatedCluster, SimulationSettings};
use machine::Uml;
use pace_rules::disk::{Disk as Keeping, Relaxation};
use simulation::{BITS_PER_SECOND, Clocks, DiskTimes, Link};

use crate::Test;

/// There is a kernel for machines on this processor only.
pub(crate) const TESTS: &[Test] = if cfg!(target_arch = "x86_64") {
    &[(
        "what_a_directory_has_is_read_when_its_node_is_started_whoever_holds_requests",
        listed_while_held,
    )]
} else {
    &[]
};

/// A node with files that its kernel has to read from its disk after it has booted again.
const NODE: &str = r#"
    disk = "ext4"
    [[nodes]]
    name = "a"
    command = "sh -c 'mkdir -p made && echo kept >made/file; echo ready; exec sleep 600'"
    ready = { log = "ready" }
"#;

const SEED: u64 = 7;

/// How often it is looked at a node that boots, and how long, in nanoseconds and looks.
const LOOK_NS: u64 = 2_000_000;
const LOOKS_MAX: u32 = 30_000;

/// Holds each request to read until the next look.
#[derive(Default)]
struct Holder {
    holds: AtomicBool,
    has_held: AtomicBool,
}

impl Onlooker for Holder {
    fn comes(&self, request: DiskRequest, _: u64) -> bool {
        let is_read = matches!(request, DiskRequest::Read { .. });
        self.holds.fetch_or(is_read, Ordering::Relaxed);
        self.has_held.fetch_or(is_read, Ordering::Relaxed);
        is_read
    }

    fn is_done(&self, _: DiskRequest, _: bool) -> bool {
        false
    }

    fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }
}

fn go_on() -> bool {
    false
}

fn settings() -> SimulationSettings {
    SimulationSettings {
        kernel: Uml::find_simulated(None, SEED).expect("a kernel"),
        seed: SEED,
        chaos: None,
        clocks: Clocks::default(),
        link: Link::USUAL,
        bits_per_second: BITS_PER_SECOND,
        disk_times: DiskTimes::default(),
        keeping: Keeping::Honest,
        completion: Completion::AtOnce,
        environment: Vec::new(),
    }
}

/// Looks at a node that boots, lets its requests go, and lets time pass, until it is ready.
fn boot(cluster: &mut SimulatedCluster, holder: &Holder) {
    for _ in 0..LOOKS_MAX {
        if cluster.is_node_ready(0, &go_on).expect("it comes up") {
            return;
        }
        holder.holds.store(false, Ordering::Relaxed);
        cluster.let_requests_go();
        cluster.idle(LOOK_NS, &go_on).expect("time passes");
    }
    panic!("it is not ready");
}

/// Who lets a request go waits for the listing meanwhile, in which nobody looks.
fn listed_while_held() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = ClusterFile::parse(NODE, Path::new("cluster.toml"), folder.path());
    let file = SimulatedCluster::with_disks(file.expect("it is right"));
    let logs = folder.path().join("log");
    let mut cluster = SimulatedCluster::new(&file, &logs, &settings()).expect("made");
    cluster.start(&go_on).expect("started");
    cluster.sync(&go_on).expect("written");
    cluster.list_before_starts(Reading {
        file_max: 100,
        all_max: 100,
    });
    let holder = Arc::<Holder>::default();
    let onlooker = Arc::clone(&holder) as Arc<dyn Onlooker>;
    cluster.look_at_requests(0, onlooker).expect("a disk");
    let lost = cluster.power_loss(&[0], |_, _| Relaxation::Prefix, &go_on);
    lost.expect("its power fails");
    cluster.restart_node(0, &go_on).expect("switched on");
    boot(&mut cluster, &holder);
    assert!(holder.has_held.load(Ordering::Relaxed), "it booted so");
    let listed = cluster.take_listed();
    let [(0, _, Ok(listed))] = &listed[..] else {
        panic!("{listed:?}");
    };
    let is_kept = listed.iter().any(|listed| listed.path == "made/file");
    assert!(is_kept, "{listed:?}");
}
