//! What the blocks hold that a run wrote: told to people, and used for nothing else.

use block_dev::BlockLog;
use crash_images::{rebuild, requests};
use pace_rules::disk::{Disk, Log, Relaxation, State};
use recorder::Recorded;

use super::Engine;
use crate::result::WorkloadResult;

impl Engine {
    /// Says whether the file system's own debugger is asked what lost and kept blocks hold.
    pub fn set_name_blocks(&mut self, name_blocks: bool) {
        self.name_blocks = name_blocks;
    }

    /// Names in the log of a result what the run had written before the last of its crashes that
    /// broke something. What has no name by then, because its file had not been written yet, has
    /// that of the end of the run. Where nobody can tell, there is no name.
    pub(super) fn name_what_was_written(&mut self, trace: &Recorded, result: &mut WorkloadResult) {
        let (Some(log), Some(last)) = (
            &mut result.log,
            result.broken.iter().map(|state| state.state.position).max(),
        ) else {
            return;
        };
        if !self.name_blocks || self.variant.file_system.debugger.is_none() {
            return;
        }
        for position in [last, trace.log.len()] {
            let is_unnamed =
                |place: &u32| (*place as usize) < last && !log.holds.contains_key(place);
            let written = log
                .entries
                .iter()
                .filter(|entry| "WUD".contains(entry.kind));
            let unnamed: Vec<_> = written
                .filter(|entry| is_unnamed(&entry.place))
                .copied()
                .collect();
            let places: Vec<_> = unnamed
                .iter()
                .map(|entry| (entry.offset, entry.length))
                .collect();
            if places.is_empty() {
                return;
            }
            // It is a service: what fails here says nothing of the file system.
            let Some(names) = self.names_at(&trace.log, trace.durable_position, position, &places)
            else {
                return;
            };
            for (entry, name) in unnamed.iter().zip(names) {
                log.holds.extend(name.map(|name| (entry.place, name)));
            }
        }
    }

    /// What the disk holds at these places if it kept everything up to a position and recovered.
    fn names_at(
        &mut self,
        log: &BlockLog,
        durable: usize,
        position: usize,
        places: &[(u64, u64)],
    ) -> Option<Vec<Option<String>>> {
        let rules = Log::new(&requests(log), durable, Disk::Honest);
        rebuild(
            &mut self.image,
            log,
            &rules,
            &State {
                position,
                relaxation: Relaxation::Prefix,
            },
        );
        self.bed.names(&self.image, places)
    }
}
