//! Less that breaks the same: each smaller run is made, and must break it twice alike.

use campaign::ddmin;
use pace_rules::disk::Relaxation;

use crate::error::{Error, Result};
use crate::laboratory::{Laboratory, LiveRun};
use crate::plan::{At, Failure, Fault};
use crate::results::{LiveResult, SeedPlan};
use crate::text::likeness;

/// What is left of a failure.
#[derive(Debug, Clone)]
pub struct Minimized {
    /// The failure and what comes of it.
    pub result: LiveResult,
    /// How many operations the client is told to do at most, if it does fewer.
    pub operations: Option<u64>,
    /// How many runs were made.
    pub runs: u64,
    /// Whether somebody interrupted: there may be something smaller.
    pub interrupted: bool,
}

/// A search for less.
struct Search<'a> {
    laboratory: Laboratory,
    found: &'a LiveResult,
    /// The smallest that breaks the same.
    best: LiveRun,
    operations: Option<u64>,
    /// When runs are forked.
    forked_ns: Option<u64>,
    runs: u64,
    told: &'a mut dyn FnMut(&LiveResult),
    cancelled: &'a dyn Fn() -> bool,
}

/// A part of a failure that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// A write that is lost.
    Lost {
        fault: usize,
        node: usize,
        place: usize,
    },
    /// The tear of the write that is torn.
    Tear { fault: usize, node: usize },
}

/// Looks for fewer faults, then fewer victims, then a client that does less, and at last less that is
/// lost on disks. Victims are left as they are where nothing can be said of a failure of some nodes.
/// Nothing is returned if the finding does not come again. `told` gets whatever is smaller.
///
/// # Errors
/// If a run cannot go on.
pub fn minimize(
    laboratory: &Laboratory,
    plan: &SeedPlan,
    found: &LiveResult,
    told: &mut dyn FnMut(&LiveResult),
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<Minimized>> {
    let first = laboratory.run(&found.failure(), None, cancelled)?;
    if first.history != found.history || first.judged != found.judged {
        return Ok(None);
    }
    let mut search = Search {
        laboratory: laboratory.clone(),
        found,
        best: first,
        operations: None,
        forked_ns: found.forked_ns,
        runs: 1,
        told,
        cancelled,
    };
    let searched = search.search(plan.not_alone.is_none() && plan.not_several.is_none());
    let interrupted = match searched {
        Ok(()) => false,
        Err(Error::Cluster(cluster::Error::Interrupted)) => true,
        Err(error) => return Err(error),
    };
    Ok(Some(Minimized {
        result: LiveResult::new(found.address.clone(), search.best, true),
        operations: search.operations,
        runs: search.runs,
        interrupted,
    }))
}

impl Search<'_> {
    fn search(&mut self, may_fail_alone: bool) -> Result<()> {
        self.fewer_faults()?;
        if may_fail_alone {
            self.fewer_victims()?;
        }
        self.fewer_operations()?;
        self.less_lost()
    }

    fn faults(&self) -> Vec<Fault> {
        let happened = self.best.happened.iter();
        happened.map(|happened| happened.fault.clone()).collect()
    }

    /// Whether these faults break the same, twice alike. Then they are the smallest.
    fn breaks(&mut self, laboratory: &Laboratory, faults: &[Fault]) -> Result<bool> {
        let failure = Failure {
            faults: faults.to_vec(),
            forked_ns: self.forked_ns,
        };
        self.runs += 1;
        let run = laboratory.run(&failure, None, self.cancelled)?;
        if !is_alike(self.found, &run) {
            return Ok(false);
        }
        self.runs += 1;
        if laboratory.run(&failure, None, self.cancelled)? != run {
            return Ok(false);
        }
        self.best = run.clone();
        (self.told)(&LiveResult::new(self.found.address.clone(), run, true));
        Ok(true)
    }

    /// The last ones may not be needed. Each is at a moment of the recovery from the one before it,
    /// so the first ones are.
    fn fewer_faults(&mut self) -> Result<()> {
        let all = self.faults();
        let laboratory = self.laboratory.clone();
        for count in 1..all.len() {
            if self.breaks(&laboratory, &all[..count])? {
                break;
            }
        }
        Ok(())
    }

    fn fewer_victims(&mut self) -> Result<()> {
        let (all, laboratory) = (self.faults(), self.laboratory.clone());
        let victims = all.iter().enumerate();
        let victims = victims.flat_map(|(fault, config)| {
            let victims = config.victims.iter();
            victims.map(move |victim| (fault, *victim))
        });
        let victims: Vec<_> = victims.collect();
        ddmin(&victims, |left| {
            let mut faults = all.clone();
            for (place, fault) in faults.iter_mut().enumerate() {
                let is_left = |victim: &usize| left.contains(&(place, *victim));
                fault.victims.retain(is_left);
            }
            if faults.iter().any(|fault| fault.victims.is_empty()) {
                return Ok(false);
            }
            self.breaks(&laboratory, &faults)
        })?;
        Ok(())
    }

    /// What is lost is said write by write, and as few of these as possible are.
    fn less_lost(&mut self) -> Result<()> {
        let laboratory = self.laboratory.clone();
        let (faults, losses) = self.losses();
        ddmin(&losses, |left| {
            let mut faults = faults.clone();
            for (place, fault) in faults.iter_mut().enumerate() {
                for (node, relaxation) in &mut fault.left {
                    *relaxation = reduced(relaxation, place, *node, left);
                }
            }
            self.breaks(&laboratory, &faults)
        })?;
        Ok(())
    }

    /// The same faults with the states of disks as they are, and all that is lost.
    fn losses(&self) -> (Vec<Fault>, Vec<Loss>) {
        let (mut faults, mut losses) = (self.faults(), Vec::new());
        for (fault, happened) in self.best.happened.iter().enumerate() {
            for disk in &happened.disks {
                let node = disk.node;
                let relaxation = write_by_write(&disk.state.relaxation, &disk.lost);
                let (lost, is_torn) = match &relaxation {
                    Relaxation::Lost(lost) => (&lost[..], false),
                    Relaxation::Torn { lost, .. } => (&lost[..], true),
                    Relaxation::Prefix | Relaxation::Flushed => (&[][..], false),
                };
                losses.extend(lost.iter().map(|place| Loss::Lost {
                    fault,
                    node,
                    place: *place,
                }));
                losses.extend(is_torn.then_some(Loss::Tear { fault, node }));
                let left = &mut faults[fault].left;
                left.retain(|(other, _)| *other != node);
                left.push((node, relaxation));
            }
        }
        (faults, losses)
    }

    /// The client is told to do fewer operations, if it looks at that. Where the power fails right
    /// after an acknowledgement, that may be an earlier one: before the moment at which the run of the
    /// finding was forked. So these runs are not.
    fn fewer_operations(&mut self) -> Result<()> {
        let (all, whole) = (self.faults(), self.laboratory.clone());
        let forked_ns = self.forked_ns.take();
        let (mut too_few, mut enough) = (0, self.best.acknowledged.len() as u64);
        let mut operations = 1;
        while too_few + 1 < enough {
            let printed = self.best.acknowledged.len();
            let shorter = whole.shorter(operations);
            let mut faults = all.clone();
            if let Some(first) = faults.first_mut().filter(|first| first.when.at == At::Acks) {
                first.when.position = first.when.position.min(operations as usize);
            }
            if self.breaks(&shorter, &faults)? {
                (enough, self.operations) = (operations, Some(operations));
                self.laboratory = shorter;
                if self.best.acknowledged.len() >= printed {
                    // It does not look at it.
                    return Ok(());
                }
            } else {
                too_few = operations;
            }
            operations = too_few.midpoint(enough).max(1);
        }
        if self.operations.is_none() {
            self.forked_ns = forked_ns;
        }
        Ok(())
    }
}

/// The same relaxation, which says what is lost of what no flush covered.
fn write_by_write(relaxation: &Relaxation, lost: &[usize]) -> Relaxation {
    match relaxation {
        Relaxation::Flushed if lost.is_empty() => Relaxation::Prefix,
        Relaxation::Flushed => Relaxation::Lost(lost.to_vec()),
        other => other.clone(),
    }
}

/// Whether it is broken in the same way.
fn is_alike(found: &LiveResult, run: &LiveRun) -> bool {
    let likeness_of_run = likeness(&run.judged, &run.held.violations);
    likeness_of_run.is_some() && likeness_of_run == likeness(&found.judged, &found.held.violations)
}

/// A state of a disk in which only those losses are left.
fn reduced(relaxation: &Relaxation, fault: usize, node: usize, left: &[Loss]) -> Relaxation {
    let is_left = |place: &usize| {
        left.contains(&Loss::Lost {
            fault,
            node,
            place: *place,
        })
    };
    let (all, tear) = match relaxation {
        Relaxation::Lost(lost) => (&lost[..], None),
        Relaxation::Torn {
            lost,
            place,
            from,
            to,
        } => (&lost[..], Some((*place, *from, *to))),
        Relaxation::Prefix | Relaxation::Flushed => (&[][..], None),
    };
    let lost: Vec<_> = all.iter().copied().filter(is_left).collect();
    match tear.filter(|_| left.contains(&Loss::Tear { fault, node })) {
        Some((place, from, to)) => Relaxation::Torn {
            lost,
            place,
            from,
            to,
        },
        None if lost.is_empty() => Relaxation::Prefix,
        None => Relaxation::Lost(lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_state_is_a_state() {
        let lost = |place| Loss::Lost {
            fault: 0,
            node: 1,
            place,
        };
        let tear = Loss::Tear { fault: 0, node: 1 };
        let cases = [
            ("lost-3-5", &[lost(5)][..], "lost-5"),
            ("lost-3-5", &[][..], "prefix"),
            ("lost-3-torn-5:0..512", &[tear][..], "torn-5:0..512"),
            ("lost-3-torn-5:0..512", &[lost(3)][..], "lost-3"),
            ("torn-5:0..512", &[][..], "prefix"),
            ("prefix", &[][..], "prefix"),
        ];
        for (before, left, after) in cases {
            let state = before.parse().expect("a state");
            assert_eq!(reduced(&state, 0, 1, left).to_string(), after, "{before}");
        }
        let other = reduced(&"lost-3".parse().expect("a state"), 0, 2, &[lost(3)]);
        assert_eq!(other, Relaxation::Prefix, "of another node");
    }
}
