//! Crash states held against rules.

use checker::Finding;
use specification::Unlooked;

use super::judge::{StateId, Visited};
use super::states::Recording;
use super::{Engine, Result};
use crate::result::WorkloadResult;
use crate::specs::{Said, Told, of_crash, of_run};
use local_fs::Tree;

impl Engine {
    /// What rules say of a crash state that has recovered. Of one that cannot be mounted there is
    /// nothing to say.
    ///
    /// # Errors
    /// If rules have no end.
    pub(super) fn hold(
        &mut self,
        id: &StateId<'_>,
        seen: &Visited,
        result: &mut WorkloadResult,
    ) -> Result<Vec<Finding>> {
        self.rules.begin_state();
        let Some(tree) = seen.tree.as_ref().filter(|_| self.rules.are_asked()) else {
            return Ok(Vec::new());
        };
        let (done, origins) = id.of_rules;
        let told = of_crash(&self.rules, done, (&id.state, origins), tree);
        let said = self.ask(told, tree, result)?;
        let unlooked = result.unlooked.get_or_insert_default();
        Unlooked::narrow(unlooked, &said.unlooked);
        Ok(said.broken)
    }

    /// Holds a run against rules as long as nothing has crashed: what is violated then says nothing
    /// about crashes.
    ///
    /// # Errors
    /// If rules have no end.
    pub(super) fn hold_run(
        &mut self,
        recording: &Recording<'_>,
        result: &mut WorkloadResult,
    ) -> Result<()> {
        if !self.rules.are_asked() {
            return Ok(());
        }
        result.unlooked = Some(self.rules.unlooked());
        let points = recording.trace.crash_points.iter();
        let points = points.filter(|point| point.log_position <= recording.rules.len());
        for point in points {
            let Some(live) = &point.live else { continue };
            let told = of_run(&self.rules, &recording.done, point.operations_done, live);
            let said = self.ask(told, live, result)?;
            if let Some(broken) = said.broken.into_iter().next() {
                let what = broken.what;
                let why = format!("without a crash, {what}");
                result.inconclusive.get_or_insert(why);
                result.violated_without_crash = Some(what);
                return Ok(());
            }
        }
        Ok(())
    }

    /// What rules say of a state; the result says what they cannot say.
    fn ask(&mut self, told: Told, tree: &Tree, result: &mut WorkloadResult) -> Result<Said> {
        let said = self.rules.examine(told);
        if let Some(why) = said.endless {
            result.endless_rules = Some(why.clone());
            return Err(why.into());
        }
        let mut said = self.rules.doubt(said, tree);
        if let Some(why) = said.undecided.take() {
            result.inconclusive.get_or_insert(why);
        }
        Ok(said)
    }
}
