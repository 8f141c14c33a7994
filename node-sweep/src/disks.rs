use std::collections::BTreeMap;
use std::sync::Arc;

use pace_rules::nodes::Micro;

use crate::tree::Tree;
use trace_store::Trace;

/// Trees that were asked for lately and are kept to go on from.
const RECENT_MAX: usize = 32;

/// Trees of which nothing was lost are kept at every so many effects, or a multiple of that…
const CHECKPOINT_EVERY: usize = 64;

/// …by which there are no more of them than this: in a long run each is of a large file.
const CHECKPOINTS_MAX: usize = 256;

/// What a node's disk holds in its crash states, each made from the one kept that is nearest to it.
#[derive(Debug)]
pub struct Disks {
    micros: Arc<[Micro]>,
    /// How many effects there are from one checkpoint to the next.
    spacing: usize,
    /// By how many effects they have. The first has none.
    checkpoints: BTreeMap<usize, Tree>,
    /// The latest last.
    recent: Vec<Recent>,
}

#[derive(Debug)]
struct Recent {
    effects: usize,
    /// Without these, which are all among the effects it has come by.
    lost: Vec<usize>,
    tree: Tree,
}

impl Disks {
    /// Those of a node that began with `initial`, and whose operations are these.
    pub fn new(initial: Tree, micros: Arc<[Micro]>) -> Self {
        let steps = micros.len().div_ceil(CHECKPOINT_EVERY * CHECKPOINTS_MAX);
        Self {
            spacing: CHECKPOINT_EVERY * steps.max(1),
            micros,
            checkpoints: BTreeMap::from([(0, initial)]),
            recent: Vec::new(),
        }
    }

    /// The tree after the first `count` effects, without those that were `lost`, in order.
    pub fn tree(&mut self, count: usize, lost: &[usize], trace: &Trace) -> Tree {
        let lost = &lost[..lost.partition_point(|place| *place < count)];
        let prefix = lost.first().copied().unwrap_or(count);
        let (mut at, mut tree) = self.checkpoint(prefix, trace);
        let nearest = |recent: &&Recent| {
            recent.effects <= count
                && recent.lost == lost[..lost.partition_point(|place| *place < recent.effects)]
        };
        if let Some(recent) = self
            .recent
            .iter()
            .filter(nearest)
            .max_by_key(|recent| recent.effects)
            && recent.effects > at
        {
            (at, tree) = (recent.effects, recent.tree.clone());
        }
        for (place, micro) in self.micros[..count].iter().enumerate().skip(at) {
            if lost.binary_search(&place).is_err() {
                tree.apply(&micro.effect, trace);
            }
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(Recent {
            effects: count,
            lost: lost.to_vec(),
            tree: tree.clone(),
        });
        tree
    }

    /// The tree after all effects.
    pub fn last(&mut self, trace: &Trace) -> Tree {
        self.tree(self.micros.len(), &[], trace)
    }

    /// What reaches the disk, in order.
    pub(crate) fn micros(&self) -> &[Micro] {
        &self.micros
    }

    /// The event of which the last of the first so many micros is; none of no micros.
    pub(crate) fn last_event(&self, micros: usize) -> Option<usize> {
        let last = micros.checked_sub(1)?;
        Some(self.micros[last].event)
    }

    /// The last checkpoint with no more than `count` effects.
    fn checkpoint(&mut self, count: usize, trace: &Trace) -> (usize, Tree) {
        let wanted = count / self.spacing * self.spacing;
        let (&found, tree) = self
            .checkpoints
            .range(..=wanted)
            .next_back()
            .expect("the first is always there");
        let mut tree = tree.clone();
        for at in found..wanted {
            tree.apply(&self.micros[at].effect, trace);
            if (at + 1).is_multiple_of(self.spacing) {
                self.checkpoints.insert(at + 1, tree.clone());
            }
        }
        (wanted, tree)
    }
}
