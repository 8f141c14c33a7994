//! Partitions that begin after so much, or with a certain message: the ground decides where messages pass,
//! and is asked here whether that has come.

use std::time::Duration;

use cluster::{Member, Result};
use simulation::Until;

use super::act::{Between, Hit, Said, Why};
use super::plan::{Begins, What};
use super::run::Runner;
use super::sent;

/// A partition that is to begin once its limit is reached.
pub(super) struct Limited {
    on: Vec<usize>,
    cut: Between,
    /// When it begins, in words.
    begins: String,
    /// Since when that is waited for.
    pub(super) since: Duration,
}

impl Begins {
    fn until(&self) -> Until {
        match self {
            Self::After(amount) => Until::After(*amount),
            Self::With(message) => Until::With(message.nth, message.ports),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::After(amount) => format!("after {}", sent::words(*amount)),
            Self::With(message) => format!("with {}", message.words()),
        }
    }
}

impl Runner<'_> {
    /// Has a fault begin later, if it is such a one. Says why it cannot be, if that is so.
    pub(super) fn limit(&mut self, fault: usize) -> Option<Said<Limited>> {
        let planned = &self.plan.faults[fault];
        let What::Partition {
            from,
            flow,
            begins: Some(begins),
        } = &planned.what
        else {
            return None;
        };
        let sides = self.sides(&planned.on, from);
        Some(sides.and_then(|(on, from)| {
            let cut = self.between(&on, &from, *flow)?;
            let counted = self.counted(begins, &cut.directions)?;
            let limited = self
                .ground
                .cut_once(&cut.directions, &counted, begins.until());
            if let Err(error) = limited {
                // That is the error to tell.
                let _ = self.ground.lift_limit();
                return Err(Why::Ground(error));
            }
            Ok(Limited {
                on,
                cut,
                begins: begins.words(),
                since: self.ground.now(),
            })
        }))
    }

    /// The directions in which is counted what passes before.
    pub(super) fn counted(
        &self,
        begins: &Begins,
        cut: &[(Member, Member)],
    ) -> Said<Vec<(Member, Member)>> {
        match begins {
            Begins::After(_) => Ok(cut.to_vec()),
            Begins::With(message) => {
                let counted = message.counted(cut, &self.known(), self.clients.all.len());
                Ok(counted?)
            }
        }
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
            return Err(Why::Ground(error));
        }
        let begins = format!(
            "{}: {} had passed",
            limited.begins,
            sent::passed(passed.unwrap_or_default())
        );
        let hit = Hit::partition(limited.on, limited.cut);
        Ok(Hit {
            words: format!("{} {begins}", hit.words),
            since,
            ..hit
        })
    }

    /// A limit was not reached in time: the partition never begins.
    pub(super) fn give_up(&mut self, fault: usize, limited: &Limited) -> Result<()> {
        let passed = self.ground.limited().map(|limit| limit.passed());
        if let Err(error) = self.ground.verify_limit() {
            self.failed(error);
        }
        self.ground.lift_limit()?;
        let passed = sent::passed(passed.unwrap_or_default());
        let begins = &limited.begins;
        self.came[fault].why = Some(format!("it begins {begins}, and {passed} had passed"));
        Ok(())
    }
}
