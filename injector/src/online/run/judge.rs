//! What a run came to.

use std::sync::atomic::Ordering;

use cluster::Verdict;

use super::super::plan::What;
use super::super::ran::{FaultCame, Happening, State};
use super::super::witness;
use super::{Place, Runner};
use crate::error::Result;
use crate::laboratory::Judged;

impl Runner<'_> {
    /// What is broken already, or else what the check says; with what the clients saw.
    pub(super) fn verdict(&mut self, broken: Vec<String>, place: &Place) -> Result<Verdict> {
        let verdict = if broken.is_empty() {
            self.check(place)?
        } else {
            Verdict::Broken(broken)
        };
        let rules = &self.ground.file().histories;
        if rules.is_empty() {
            return Ok(verdict);
        }
        let seen = witness::verdict(rules, &place.history)?;
        Ok(witness::together(verdict, seen))
    }

    /// Asks the check, and once more if something is broken: what is broken for a while only, on a
    /// machine that has much else to do, is no finding.
    fn check(&mut self, place: &Place) -> Result<Verdict> {
        if self.ground.file().check.is_none() {
            return Ok(Verdict::Ok);
        }
        let mut ask = || self.ground.check(&place.acknowledgements);
        let verdict = match ask()? {
            Verdict::Broken(broken) => match ask()? {
                Verdict::Ok => Verdict::Inconclusive(format!(
                    "something was broken, and was not when the check was asked again: {}",
                    broken.join("; ")
                )),
                other => other,
            },
            other => other,
        };
        self.happened(Happening::Checked);
        Ok(verdict)
    }

    /// Says which faults did not do what they were to.
    pub(super) fn close(&mut self) {
        for (place, came) in self.came.iter_mut().enumerate() {
            let number = place + 1;
            let planned = &self.plan.faults[place];
            let hits = match &planned.what {
                What::Call(call) => Some((self.calls.hits(place), "call", call.words())),
                What::Disk(errors) => {
                    let failed = self.failed.get(&place);
                    let failed = failed.map_or(0, |failed| failed.load(Ordering::Relaxed));
                    Some((failed, "request", errors.words()))
                }
                _ => None,
            };
            if let Some((hits, of, what)) = hits {
                came.calls = Some(hits);
                if came.state != State::NeverFired && !came.happened() {
                    self.problems.push(format!(
                        "fault {number} hit nothing: there was no such {of}: {what}"
                    ));
                }
            }
            match came.state {
                State::NeverFired => {
                    self.problems
                        .push(format!("fault {number} never happened: at {}", planned.at));
                }
                State::NotInjected => {
                    let why = came.why.clone().unwrap_or_default();
                    self.problems
                        .push(format!("fault {number} could not be put in place: {why}"));
                }
                State::InPlace | State::Undone => {}
            }
        }
    }

    /// What the run came to: only a run in which all happened as planned may pass.
    pub(super) fn judge(&mut self, verdict: Verdict) -> (Judged, Vec<String>) {
        let problems = std::mem::take(&mut self.problems);
        let was_hit = self.plan.faults.is_empty() || self.came.iter().any(FaultCame::happened);
        match verdict {
            Verdict::Broken(broken) if was_hit => (Judged::Broken { broken }, problems),
            Verdict::Broken(broken) => {
                let why = format!(
                    "the check is not `ok`, although no fault was in place: {}",
                    broken.join("; ")
                );
                (Judged::Inconclusive { why }, problems)
            }
            Verdict::Ok if problems.is_empty() => (Judged::Ok, problems),
            Verdict::Ok => {
                let why = problems.join("; ");
                (Judged::Inconclusive { why }, Vec::new())
            }
            Verdict::Inconclusive(why) => (Judged::Inconclusive { why }, problems),
        }
    }
}
