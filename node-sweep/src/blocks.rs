//! Crash states of disks that were recorded: made, and told as stories.

mod findings;
mod held;
mod lost;

use std::sync::Arc;

use block_dev::{Image, ImageHash};
use crash_images::{rebuild, requests};
use local_fs::Variant;
use pace_rules::disk::{self, Disk as Keeping, Relaxation};
use pace_rules::nodes::{BlockSpace, BlockState, RecordedDisk};
use trace::{Action, Run};
use trace_store::{Disk, Trace};

use crate::error::Result;
use crate::mount_slot::{DiskImage, DiskState};
use crate::starts::{Afters, Turns};
use crate::states::{Acknowledgements, CrashState};
use crate::sweep::{Made, Size, Source};

pub use findings::{BlockFindings, kind_words};
pub(crate) use findings::{Group, file_systems};

/// Disks that were made lately and are kept, of each node: where one node goes on, the others stay.
const RECENT_MAX: usize = 16;

/// What file systems that were recorded are called ends with this.
pub(crate) const ON_DISK: &str = " on disk";

/// The disks of a trace, as the rules read them, node for node.
pub fn recorded_disks(trace: &Trace) -> Vec<Option<RecordedDisk>> {
    let disk = |disk: &Disk| RecordedDisk {
        log: disk::Log::new(&requests(&disk.log), disk.durable, Keeping::Honest),
        times_ns: disk
            .log
            .entries()
            .iter()
            .map(|entry| entry.time_ns)
            .collect(),
        durable: disk.durable,
    };
    trace
        .run
        .nodes
        .iter()
        .map(|node| trace.disks.get(&node.name).map(disk))
        .collect()
}

/// Makes the states of a space of recorded disks.
pub struct Blocks<'a> {
    trace: &'a Trace,
    space: &'a BlockSpace,
    disks: Vec<(usize, OneDisk<'a>)>,
    acknowledgements: Acknowledgements,
    afters: Afters,
}

struct OneDisk<'a> {
    recorded: &'a Disk,
    variant: Variant,
    image: Image,
    /// The latest last.
    recent: Vec<(disk::State, Arc<DiskImage>, ImageHash)>,
}

impl<'a> Blocks<'a> {
    /// Those of a space of the disks of `trace`.
    ///
    /// # Errors
    /// If a file system of a disk is not known here.
    pub fn new(trace: &'a Trace, space: &'a BlockSpace) -> Result<Self> {
        let mut disks = Vec::new();
        for (place, node) in trace.run.nodes.iter().enumerate() {
            let Some(recorded) = trace.disks.get(&node.name) else {
                continue;
            };
            let variant = Variant::for_programs(&recorded.file_system)?;
            let image = Image::new(Arc::clone(&recorded.base));
            disks.push((
                place,
                OneDisk {
                    recorded,
                    variant,
                    image,
                    recent: Vec::new(),
                },
            ));
        }
        Ok(Self {
            trace,
            space,
            disks,
            acknowledgements: Acknowledgements::of(&trace.run, trace),
            afters: Afters::of(trace),
        })
    }

    /// The nodes that have a disk.
    fn nodes(&self) -> Vec<usize> {
        self.disks.iter().map(|(node, _)| *node).collect()
    }

    /// Whether copies of one of the disks cannot be mounted side by side.
    pub fn one_at_a_time(&self) -> bool {
        self.disks
            .iter()
            .any(|(_, disk)| disk.variant.file_system.remembered_by_identity)
    }

    /// What the disks are in a state.
    pub(crate) fn crash_state(&mut self, state: &BlockState) -> CrashState {
        let mut hasher = blake3::Hasher::new();
        let mut disks = Vec::new();
        for (node, disk) in &mut self.disks {
            let recorded = self
                .space
                .disk(*node)
                .expect("those with a disk are listed");
            let of_node = state.disks[*node].as_ref().expect("so it has a state");
            let (image, hash) = disk.image_of(recorded, of_node);
            hasher.update(&hash.0.to_le_bytes());
            disks.push(DiskState::Disk(image));
        }
        let acknowledged = self.acknowledgements.before(&state.cut, self.trace);
        let turns = self.turns(state);
        CrashState::new(disks, hasher, acknowledged, turns)
    }

    /// Which nodes are started first.
    fn turns(&self, state: &BlockState) -> Option<Turns> {
        let nodes = self.disks.iter().map(|(node, _)| {
            let disk = state.disks[*node].as_ref();
            let has_lost = disk.is_some_and(|disk| disk.relaxation != Relaxation::Prefix);
            (*node, has_lost || self.is_unsynced(*node, state))
        });
        self.afters.turns(state.start, nodes)
    }

    /// Whether a node has changed files since its last sync: what its disk was not sent it lacks,
    /// whatever the disk keeps.
    fn is_unsynced(&self, node: usize, state: &BlockState) -> bool {
        let events = &self.trace.run.nodes[node].events[..state.cut[node]];
        let mut last = events.iter().rev().filter_map(|event| match &event.action {
            Action::File(op) => Some(op),
            _ => None,
        });
        let last = last.next();
        last.is_some_and(|op| !op.is_sync())
    }
}

impl OneDisk<'_> {
    fn image_of(
        &mut self,
        rules: &RecordedDisk,
        state: &disk::State,
    ) -> (Arc<DiskImage>, ImageHash) {
        if let Some((_, image, hash)) = self.recent.iter().find(|(known, ..)| known == state) {
            return (Arc::clone(image), *hash);
        }
        rebuild(&mut self.image, &self.recorded.log, &rules.log, state);
        let hash = self.image.hash();
        let (variant, directory) = (self.variant.clone(), self.recorded.directory.clone());
        let image = Arc::new(DiskImage {
            content: self.image.clone(),
            variant,
            directory,
        });
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push((state.clone(), Arc::clone(&image), hash));
        (image, hash)
    }
}

impl Source for Blocks<'_> {
    fn runs(&self) -> Vec<&Run> {
        vec![&self.trace.run]
    }

    fn make(&mut self, index: u64) -> Made {
        let state = self.space.state(index);
        Made {
            size: size(self.space, &state),
            state: Ok(self.crash_state(&state)),
            run: 0,
            cut: self.space.latest(&self.trace.run, &state),
        }
    }
}

/// How much there is to understand in a state: how many writes were lost, what came before the
/// crash, and how much of that reached the disks.
fn size(space: &BlockSpace, state: &BlockState) -> Size {
    let disks = || {
        state
            .disks
            .iter()
            .enumerate()
            .filter_map(|(node, disk)| Some((space.disk(node)?, disk.as_ref()?)))
    };
    let lost = disks().map(|(recorded, disk)| match disk.relaxation {
        Relaxation::Torn { .. } => 1,
        _ => recorded.log.lost(disk).len(),
    });
    (
        lost.sum(),
        state.cut.iter().sum(),
        disks().map(|(_, disk)| disk.position).sum(),
    )
}

#[cfg(test)]
mod tests;
