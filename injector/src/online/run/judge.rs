//! What a run came to.

use cluster::{Error as ClusterError, Verdict};

use super::super::facts::write_looks;
use super::super::looks::{After, Look};
use super::super::plan::What;
use super::super::ran::{FaultCame, Happening, State, doubtful};
use super::super::witness;
use super::{Place, Runner};
use crate::error::Result;
use crate::laboratory::Judged;

impl Runner<'_> {
    /// What is broken already, or else what the check says; with what the clients saw. And the rules of
    /// `[[histories]]` by which nothing of that could be judged, in words.
    pub(super) fn verdict(
        &mut self,
        broken: Vec<String>,
        place: &Place,
    ) -> Result<(Verdict, Vec<String>)> {
        let verdict = if broken.is_empty() {
            self.check(place)?
        } else {
            Verdict::Broken(broken)
        };
        let rules = &self.ground.file().histories;
        if rules.is_empty() {
            return Ok((verdict, Vec::new()));
        }
        let (seen, unjudged) = witness::verdict(rules, &place.history)?;
        Ok((witness::together(verdict, seen), unjudged))
    }

    /// Asks the check, and once more if something is broken: what is broken for a while only, on a
    /// machine that has much else to do, is no finding.
    fn check(&mut self, place: &Place) -> Result<Verdict> {
        if self.ground.file().check.is_none() {
            return Ok(Verdict::Ok);
        }
        let verdict = match self.ask(place)? {
            Verdict::Broken(broken) => {
                // A node may have died of a fault only now.
                let down = self.start_late_ends()?;
                if !down.is_empty() {
                    return Ok(Verdict::Broken(down));
                }
                match self.ask(place)? {
                    Verdict::Ok => Verdict::Inconclusive(format!(
                        "something was broken, and was not when the check was asked again: {}",
                        broken.join("; ")
                    )),
                    other => other,
                }
            }
            other => other,
        };
        self.happened(Happening::Checked);
        Ok(verdict)
    }

    fn ask(&mut self, place: &Place) -> Result<Verdict> {
        let asked = self.ground.check(&place.acknowledgements)?;
        // What a check comes to that was broken off says nothing.
        if (self.cancelled)() {
            return Err(ClusterError::Interrupted.into());
        }
        Ok(asked)
    }

    /// Says which faults did not do what they were to, and what was not seen.
    pub(super) fn close(&mut self) {
        self.hear_ends();
        self.hear_logs();
        let uncounted = self.ground.uncounted();
        if uncounted > 0 {
            self.problems.push(format!(
                "{uncounted} packets were lost before they could be counted: too many came at once for this \
                 machine"
            ));
        }
        for fault in 0..self.came.len() {
            let missed = self.count_hits(fault);
            let (number, came) = (fault + 1, &self.came[fault]);
            let problem = match came.state {
                State::NeverFired => Some(match &came.why {
                    Some(why) => format!("never happened: {why}"),
                    None => format!("never happened: at {}", self.plan.faults[fault].at),
                }),
                State::NotInjected => {
                    let why = came.why.clone().unwrap_or_default();
                    Some(format!("could not be put in place: {why}"))
                }
                State::InPlace | State::Undone => missed,
            };
            let problem = problem.map(|problem| format!("fault {number} {problem}"));
            self.problems.extend(problem);
        }
    }

    /// Looks at the directories of data once more, and keeps what was seen of them in the run. What the run came
    /// to stands if nobody can look.
    pub(super) fn look_at_the_end(&mut self, place: &Place) -> Result<()> {
        if place.reading.is_none() {
            return Ok(());
        }
        let looked = self.ground.look_at_the_end();
        let mut looks = self.ground.looks();
        match looked {
            Ok(()) => {}
            Err(error @ ClusterError::Interrupted) => return Err(error.into()),
            Err(error) => {
                let nodes = 0..self.ground.file().nodes.len();
                looks.extend(nodes.map(|node| self.no_look(node, &error)));
            }
        }
        let begun = self.clients.begun();
        write_looks(&place.looks, self.ground.file(), (looks, begun))
    }

    fn no_look(&self, node: usize, why: &ClusterError) -> Look {
        Look {
            node,
            after: After::Run,
            at: self.ground.now(),
            data: Err(why.to_string()),
        }
    }

    /// Counts what a fault of calls or disks has hit. What it missed, if it did: one disk that it was to
    /// hit is enough, but calls may be made by one of its nodes only, such as the one that leads.
    fn count_hits(&mut self, fault: usize) -> Option<String> {
        let (hits, none, may_be_one) = match &self.plan.faults[fault].what {
            What::Call(call) => {
                let (such, words) = (call.comes.needs_of_calls(), call.words());
                let none = format!("there was no such call{such}: {words}");
                (self.calls.hits(fault), none, true)
            }
            What::Disk(how) => (self.requests_hit(fault), how.lacking(), false),
            _ => return None,
        };
        let all = hits.iter().map(|(_, count)| count).sum();
        self.came[fault].calls = Some(all);
        if may_be_one && all > 0 {
            return None;
        }
        let missed = hits.iter().filter(|(_, count)| *count == 0);
        let missed: Vec<_> = missed.map(|(node, _)| *node).collect();
        let words = || format!("hit nothing on {}: {none}", self.names(&missed));
        (!missed.is_empty()).then(words)
    }

    /// What the run came to: only a run in which all happened as planned may pass.
    pub(super) fn judge(&mut self, verdict: Verdict) -> (Judged, Vec<String>) {
        let verdict = match self.unexpected.broken() {
            broken if broken.is_empty() => verdict,
            broken => witness::together(verdict, Verdict::Broken(broken)),
        };
        let problems = std::mem::take(&mut self.problems);
        let was_hit = self.plan.faults.is_empty() || self.came.iter().any(FaultCame::happened);
        match verdict {
            Verdict::Broken(broken) if was_hit && self.doubts.is_empty() => {
                (Judged::Broken { broken }, problems)
            }
            Verdict::Broken(broken) => {
                let why = if was_hit {
                    doubtful(&broken, &self.doubts)
                } else {
                    let all = broken.join("; ");
                    format!(
                        "something is broken, although no fault of the plan was in place: {all}"
                    )
                };
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
