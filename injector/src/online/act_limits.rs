//! Partitions that begin after so much: the ground decides where messages pass, and is asked here
//! whether that has come.

use std::time::Duration;

use cluster::Result;
use simulation::Amount;

use super::act::{Between, Hit, Said};
use super::plan::What;
use super::run::Runner;
use super::sent;

/// A partition that is to begin once its limit is reached.
pub(super) struct Limited {
    on: Vec<usize>,
    cut: Between,
    amount: Amount,
    /// Since when that is waited for.
    pub(super) since: Duration,
}

impl Runner<'_> {
    /// Has a fault begin after so much, if it is such a one. Says why it cannot be, if that is so.
    pub(super) fn limit(&mut self, fault: usize) -> Option<Said<Limited>> {
        let planned = &self.plan.faults[fault];
        let What::Partition {
            from,
            flow,
            after: Some(amount),
        } = &planned.what
        else {
            return None;
        };
        let sides = self.sides(&planned.on, from);
        Some(sides.and_then(|(on, from)| {
            let cut = self.between(&on, &from, *flow)?;
            if let Err(error) = self.ground.cut_after(&cut.directions, *amount) {
                // That is the error to tell.
                let _ = self.ground.lift_limit();
                return Err(error.to_string());
            }
            Ok(Limited {
                on,
                cut,
                amount: *amount,
                since: self.ground.now(),
            })
        }))
    }

    /// Whether that has come. From then on nothing passes.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.ground.limit_reached().is_some()
    }

    /// Takes it for a partition like others, since it was reached. If it cannot be, nothing stays cut that
    /// nobody would heal.
    pub(super) fn cut_limited(&mut self, limited: Limited) -> Said<Hit> {
        let passed = self.ground.limited().map(|limit| limit.passed());
        let since = self.ground.limit_reached();
        let verified = self.ground.verify_limit();
        if let Err(error) = verified.and_then(|()| self.ground.cut_limited()) {
            // That is the error to tell.
            let _ = self.ground.lift_limit();
            let _ = self.heal_cuts(&limited.cut.directions);
            return Err(error.to_string());
        }
        let after = format!(
            "after {}: {} had passed",
            sent::words(limited.amount),
            sent::passed(passed.unwrap_or_default())
        );
        let hit = Hit::partition(limited.on, limited.cut);
        Ok(Hit {
            words: format!("{} {after}", hit.words),
            since,
            ..hit
        })
    }

    /// A limit was not reached in time: the partition never begins.
    pub(super) fn give_up(&mut self, fault: usize, limited: &Limited) -> Result<()> {
        let passed = self.ground.limited().map(|limit| limit.passed());
        if let Err(error) = self.ground.verify_limit() {
            self.problems.push(error.to_string());
        }
        self.ground.lift_limit()?;
        let passed = sent::passed(passed.unwrap_or_default());
        let after = sent::words(limited.amount);
        self.came[fault].why = Some(format!("it begins after {after}, and {passed} had passed"));
        Ok(())
    }
}
