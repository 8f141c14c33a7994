use std::collections::BTreeMap;

use pace_rules::nodes::Effect;

use crate::tree::Tree;
use trace_store::Trace;

/// Trees that were asked for lately and are kept to go on from.
const RECENT_MAX: usize = 32;

/// Trees of which nothing was lost are kept at every so many effects.
const CHECKPOINT_EVERY: usize = 64;

/// What a node's disk holds in its crash states, each made from the one kept that is nearest to it.
#[derive(Debug)]
pub struct Disks {
    effects: Vec<Effect>,
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
    /// Those of a node that began with `initial`, and whose operations have these effects.
    pub fn new(initial: Tree, effects: Vec<Effect>) -> Self {
        Self {
            effects,
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
        for (place, effect) in self.effects[..count].iter().enumerate().skip(at) {
            if lost.binary_search(&place).is_err() {
                tree.apply(effect, trace);
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
        self.tree(self.effects.len(), &[], trace)
    }

    /// The last checkpoint with no more than `count` effects.
    fn checkpoint(&mut self, count: usize, trace: &Trace) -> (usize, Tree) {
        let wanted = count / CHECKPOINT_EVERY * CHECKPOINT_EVERY;
        let (&found, tree) = self
            .checkpoints
            .range(..=wanted)
            .next_back()
            .expect("the first is always there");
        let mut tree = tree.clone();
        for at in found..wanted {
            tree.apply(&self.effects[at], trace);
            if (at + 1).is_multiple_of(CHECKPOINT_EVERY) {
                self.checkpoints.insert(at + 1, tree.clone());
            }
        }
        (wanted, tree)
    }
}
