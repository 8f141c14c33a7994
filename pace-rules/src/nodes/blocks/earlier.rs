//! States of disks that are less than one, whether the space visits them or not.

use super::moments::Moment;
use super::{BlockSpace, BlockState};
use crate::disk::{self, Log, Relaxation};

impl BlockSpace {
    /// The state in which the disks lost no more than what `lost` and `torn` say, of a node and the
    /// index of a write, of what they lost in `state`. None if a disk is never left so.
    pub fn with_lost(
        &self,
        state: &BlockState,
        lost: impl Fn(usize, usize) -> bool,
        torn: impl Fn(usize, usize) -> bool,
    ) -> Option<BlockState> {
        let disk = |node: usize, log: &Log, disk: &disk::State| {
            let lost = log
                .lost(disk)
                .into_iter()
                .filter(|place| lost(node, *place));
            left(log, disk, disk.position, lost.collect(), |place| {
                torn(node, place)
            })
        };
        self.changed(state.cut.clone(), state, disk)
    }

    /// At how many moments of this space the power could have failed before that of a state.
    pub fn moments_before(&self, state: &BlockState) -> usize {
        let positions = state.disks.iter().flatten().map(|disk| disk.position);
        let own = state.cut.iter().sum::<usize>() + positions.sum::<usize>();
        let of_disks = |moment: &Moment| {
            let positions = self.disks.iter().zip(&moment.positions);
            let positions = positions.filter(|(disk, _)| disk.is_some());
            positions.map(|(_, position)| *position).sum::<usize>()
        };
        let sum = |moment: &Moment| moment.events.iter().sum::<usize>() + of_disks(moment);
        self.moments.partition_point(|moment| sum(moment) < own)
    }

    /// What a state would be had the power failed at one of these moments: of what the disks lost,
    /// they have lost what they had been sent by then. None if they are never left so, or if more
    /// had happened on some node at that moment.
    pub fn earlier(&self, state: &BlockState, moment: usize) -> Option<BlockState> {
        let Moment {
            events, positions, ..
        } = &self.moments[moment];
        if events
            .iter()
            .zip(&state.cut)
            .any(|(events, own)| events > own)
        {
            return None;
        }
        let disk = |node: usize, log: &Log, disk: &disk::State| {
            let position = positions[node];
            let lost = log.lost(disk).into_iter().filter(|place| *place < position);
            let is_earlier = position <= disk.position;
            is_earlier.then(|| {
                left(log, disk, position, lost.collect(), |place| {
                    place < position
                })
            })?
        };
        self.changed(events.clone(), state, disk)
    }

    /// A state with other disks; none if `change` has none for one of them.
    fn changed(
        &self,
        cut: Vec<usize>,
        state: &BlockState,
        change: impl Fn(usize, &Log, &disk::State) -> Option<disk::State>,
    ) -> Option<BlockState> {
        let mut disks = Vec::new();
        for (node, (recorded, disk)) in self.disks.iter().zip(&state.disks).enumerate() {
            disks.push(match (recorded, disk) {
                (Some(recorded), Some(disk)) => Some(change(node, &recorded.log, disk)?),
                _ => None,
            });
        }
        let kinds = disks.iter().flatten().map(|disk| disk.relaxation.kind());
        let kind = kinds.max().unwrap_or(disk::Kind::Prefix);
        let start = state.start;
        Some(BlockState {
            cut,
            disks,
            kind,
            start,
        })
    }
}

/// A disk that at a position lost these writes, and, if `torn` says so of the write that was torn,
/// a part of that.
fn left(
    log: &Log,
    disk: &disk::State,
    position: usize,
    lost: Vec<usize>,
    torn: impl Fn(usize) -> bool,
) -> Option<disk::State> {
    match disk.relaxation {
        Relaxation::Torn {
            place, from, to, ..
        } if torn(place) => {
            let relaxation = Relaxation::Torn {
                lost,
                place,
                from,
                to,
            };
            let state = disk::State {
                position,
                relaxation,
            };
            log.check(&state).is_ok().then_some(state)
        }
        _ => log.state(position, &lost).ok(),
    }
}
