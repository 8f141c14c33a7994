//! Crash states held against rules.

use checker::Finding;
use specification::Unlooked;

use super::Engine;
use super::judge::{StateId, Visited};
use super::states::Recording;
use crate::result::WorkloadResult;
use crate::specs::{of_crash, of_run};

impl Engine {
    /// What rules say of a crash state that has recovered. Of one that cannot be mounted there is
    /// nothing to say.
    pub(super) fn hold(
        &mut self,
        id: &StateId<'_>,
        seen: &Visited,
        result: &mut WorkloadResult,
    ) -> Vec<Finding> {
        self.rules.begin_state();
        let Some(tree) = seen.tree.as_ref().filter(|_| self.rules.are_asked()) else {
            return Vec::new();
        };
        let (done, origins) = id.of_rules;
        let facts = of_crash(&self.rules, done, (&id.state, origins), tree);
        let said = facts.and_then(|facts| {
            let said = self.rules.examine(facts);
            said.map_err(|error| error.to_string())
        });
        match said {
            Ok(said) => {
                let said = self.rules.doubt(said, tree);
                if let Some(why) = said.undecided {
                    result.inconclusive.get_or_insert(why);
                }
                let unlooked = result.unlooked.get_or_insert_default();
                Unlooked::narrow(unlooked, &said.unlooked);
                said.broken
            }
            Err(why) => {
                result.inconclusive.get_or_insert(why);
                Vec::new()
            }
        }
    }

    /// Holds a run against rules as long as nothing has crashed: what is violated then says nothing
    /// about crashes.
    pub(super) fn hold_run(&mut self, recording: &Recording<'_>, result: &mut WorkloadResult) {
        if !self.rules.are_asked() {
            return;
        }
        result.unlooked = Some(self.rules.unlooked());
        let points = recording.trace.crash_points.iter();
        let points = points.filter(|point| point.log_position <= recording.rules.len());
        for point in points {
            let Some(live) = &point.live else { continue };
            let facts = of_run(&self.rules, &recording.done, point.operations_done, live);
            let said = facts.and_then(|facts| {
                let said = self.rules.examine(facts);
                said.map_err(|error| error.to_string())
            });
            match said {
                Ok(said) => {
                    let said = self.rules.doubt(said, live);
                    if let Some(why) = said.undecided {
                        result.inconclusive.get_or_insert(why);
                    }
                    if let Some(broken) = said.broken.into_iter().next() {
                        result.violated_without_crash = Some(broken.what);
                        return;
                    }
                }
                Err(why) => {
                    result.inconclusive.get_or_insert(why);
                }
            }
        }
    }
}
