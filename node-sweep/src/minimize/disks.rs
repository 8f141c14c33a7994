//! Disks that lost writes, made less.

use pace_rules::disk::{self, Relaxation};
use pace_rules::nodes::{BlockSpace, BlockState};
use trace_store::Trace;

use super::{Lessen, Missing, alone};
use crate::blocks::{BlockFindings, Blocks};
use crate::check::Complaint;
use crate::error::Result;
use crate::finding::Finding;
use crate::states::CrashState;
use crate::tree::Impossible;

/// The states of a space, and those beside it that a crash can leave too.
pub(super) struct Disks<'a> {
    trace: &'a Trace,
    space: &'a BlockSpace,
    blocks: Blocks<'a>,
}

impl<'a> Disks<'a> {
    pub(super) fn new(trace: &'a Trace, space: &'a BlockSpace) -> Result<Self> {
        let blocks = Blocks::new(trace, space)?;
        Ok(Self {
            trace,
            space,
            blocks,
        })
    }
}

impl Lessen for Disks<'_> {
    type State = BlockState;

    fn missing(&self, state: &BlockState) -> Vec<Missing> {
        let of_node = |(node, disk): (usize, &Option<disk::State>)| {
            let missing = move |what, in_part| Missing {
                node,
                what,
                in_part,
            };
            let log = self.space.disk(node).map(|recorded| &recorded.log);
            let (lost, torn) = log
                .zip(disk.as_ref())
                .map_or((Vec::new(), None), |(log, disk)| {
                    let torn = match disk.relaxation {
                        Relaxation::Torn { place, .. } => Some(place),
                        _ => None,
                    };
                    (log.lost(disk), torn)
                });
            let lost = lost.into_iter().map(move |place| missing(place, false));
            lost.chain(torn.map(|place| missing(place, true)))
        };
        state.disks.iter().enumerate().flat_map(of_node).collect()
    }

    fn with_missing(&self, state: &BlockState, missing: &[Missing]) -> Option<BlockState> {
        let is_due = |node, what, in_part| {
            missing.contains(&Missing {
                node,
                what,
                in_part,
            })
        };
        self.space.with_lost(
            state,
            |node, place| is_due(node, place, false),
            |node, place| is_due(node, place, true),
        )
    }

    fn events(&self, state: &BlockState) -> usize {
        state.cut.iter().sum()
    }

    fn moments(&self, state: &BlockState) -> usize {
        self.space.moments_before(state)
    }

    fn earlier(&self, state: &BlockState, moment: usize) -> Option<BlockState> {
        self.space.earlier(state, moment)
    }

    fn in_flight(&self, _: &BlockState) -> Vec<BlockState> {
        // Between any two requests to a disk is a moment.
        Vec::new()
    }

    fn make(&mut self, state: &BlockState) -> Result<CrashState, Impossible> {
        Ok(self.blocks.crash_state(state))
    }

    fn story(
        &mut self,
        state: &BlockState,
        complaint: Complaint,
        _: &CrashState,
    ) -> Result<Finding> {
        let told = BlockFindings {
            trace: self.trace,
            space: self.space,
            mounts: true,
            decided: None,
        };
        told.told(0, state, &alone(complaint), state.kind, &mut self.blocks)
    }
}
