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

/// Runs of the cluster of a finding, with a client that does so many operations at most, if that is said.
type Runs<'a> = dyn FnMut(Option<u64>, &Failure) -> Result<LiveRun> + 'a;

/// A search for less.
struct Search<'a> {
    run: &'a mut Runs<'a>,
    found: &'a LiveResult,
    /// The smallest that breaks the same.
    best: LiveRun,
    /// How many operations its client is told to do at most.
    operations: Option<u64>,
    /// When runs are forked.
    forked_ns: Option<u64>,
    runs: u64,
    told: &'a mut dyn FnMut(&LiveResult),
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
    let mut run = |operations: Option<u64>, failure: &Failure| match operations {
        Some(operations) => laboratory.shorter(operations).run(failure, None, cancelled),
        None => laboratory.run(failure, None, cancelled),
    };
    let may_fail_alone = plan.not_alone.is_none() && plan.not_several.is_none();
    minimize_with(&mut run, may_fail_alone, found, told)
}

fn minimize_with<'a>(
    run: &'a mut Runs<'a>,
    may_fail_alone: bool,
    found: &'a LiveResult,
    told: &'a mut dyn FnMut(&LiveResult),
) -> Result<Option<Minimized>> {
    let first = run(None, &found.failure())?;
    if first.history != found.history || first.judged != found.judged {
        return Ok(None);
    }
    let mut search = Search {
        run,
        found,
        best: first,
        operations: None,
        forked_ns: found.forked_ns,
        runs: 1,
        told,
    };
    let searched = search.search(may_fail_alone);
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
    fn breaks(&mut self, faults: &[Fault]) -> Result<bool> {
        let broken = self.broken(self.operations, faults)?;
        let is_broken = broken.is_some();
        if let Some(run) = broken {
            self.is_smaller(run);
        }
        Ok(is_broken)
    }

    /// The run with these faults, if it breaks the same, twice alike.
    fn broken(&mut self, operations: Option<u64>, faults: &[Fault]) -> Result<Option<LiveRun>> {
        let failure = Failure {
            faults: faults.to_vec(),
            forked_ns: self.forked_ns,
        };
        self.runs += 1;
        let run = (self.run)(operations, &failure)?;
        if !is_alike(self.found, &run) {
            return Ok(None);
        }
        self.runs += 1;
        let again = (self.run)(operations, &failure)?;
        Ok((again == run).then_some(run))
    }

    fn is_smaller(&mut self, run: LiveRun) {
        self.best = run.clone();
        (self.told)(&LiveResult::new(self.found.address.clone(), run, true));
    }

    /// The last ones may not be needed. Each is at a moment of the recovery from the one before it,
    /// so the first ones are.
    fn fewer_faults(&mut self) -> Result<()> {
        let all = self.faults();
        for count in 1..all.len() {
            if self.breaks(&all[..count])? {
                break;
            }
        }
        Ok(())
    }

    fn fewer_victims(&mut self) -> Result<()> {
        let all = self.faults();
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
            self.breaks(&faults)
        })?;
        Ok(())
    }

    /// What is lost is said write by write, and as few of these as possible are.
    fn less_lost(&mut self) -> Result<()> {
        let (faults, losses) = self.losses();
        ddmin(&losses, |left| {
            let mut faults = faults.clone();
            for (place, fault) in faults.iter_mut().enumerate() {
                for (node, relaxation) in &mut fault.left {
                    *relaxation = reduced(relaxation, place, *node, left);
                }
            }
            self.breaks(&faults)
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
        let all = self.faults();
        let forked_ns = self.forked_ns.take();
        let (mut too_few, mut enough) = (0, self.best.acknowledged.len() as u64);
        let mut operations = 1;
        while too_few + 1 < enough {
            let mut faults = all.clone();
            if let Some(first) = faults.first_mut().filter(|first| first.when.at == At::Acks) {
                first.when.position = first.when.position.min(operations as usize);
            }
            match self.broken(Some(operations), &faults)? {
                // It does not look at it: that is no smaller run.
                Some(run) if run.acknowledged.len() >= self.best.acknowledged.len() => break,
                Some(run) => {
                    (enough, self.operations) = (operations, Some(operations));
                    self.is_smaller(run);
                }
                None => too_few = operations,
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
    use crate::disks::Keeps;
    use crate::laboratory::{Happened, Held, Judged};
    use crate::plan::{Address, Moment};

    /// The power of a node fails after the acknowledgement with a number, and something is broken.
    fn ran(failure: &Failure, acknowledged: u64) -> LiveRun {
        let happened = failure.faults.iter().map(|fault| Happened {
            fault: fault.clone(),
            time_s: 1.0,
            acknowledged_before: 0,
            last: None,
            disks: Vec::new(),
        });
        let acknowledged = (0..acknowledged).map(|number| number.to_string());
        LiveRun {
            happened: happened.collect(),
            missed: Vec::new(),
            acknowledged: acknowledged.collect(),
            recovery: Vec::new(),
            judged: Judged::Broken {
                broken: vec!["lost".into()],
            },
            history: String::new(),
            forked_ns: failure.forked_ns,
            held: Held::default(),
            has_lost_kernel: false,
        }
    }

    /// What is left of a finding whose run was forked, with a client that does so many operations if it
    /// is told to do so many at most; and how many smaller ones were told of.
    fn smallest(does: impl Fn(Option<u64>) -> u64) -> (Minimized, usize) {
        let when = Moment {
            at: At::Acks,
            node: None,
            position: 4,
        };
        let failure = Failure {
            faults: vec![Fault {
                when,
                victims: vec![0],
                keeps: Keeps::Flushed,
                left: Vec::new(),
            }],
            forked_ns: Some(5),
        };
        let address = Address {
            seed: 0,
            index: 0,
            again: Vec::new(),
        };
        let found = LiveResult::new(address, ran(&failure, does(None)), true);
        let mut told = 0;
        let minimized = minimize_with(
            &mut |operations, failure| Ok(ran(failure, does(operations))),
            true,
            &found,
            &mut |_| told += 1,
        );
        let minimized = minimized.expect("all are made").expect("it comes again");
        (minimized, told)
    }

    #[test]
    fn a_client_that_does_not_look_at_its_operations_does_as_many_and_runs_are_forked() {
        let (left, _) = smallest(|_| 8);
        assert_eq!((left.operations, left.result.forked_ns), (None, Some(5)));
        assert_eq!(left.result.acknowledged, 8);
        assert_eq!(left.result.faults[0].fault.when.position, 4);
        let (left, told) = smallest(|most| most.unwrap_or(8));
        assert_eq!((left.operations, left.result.forked_ns), (Some(1), None));
        assert_eq!(left.result.acknowledged, 1);
        assert_eq!(left.result.faults[0].fault.when.position, 1);
        assert!(told > 0);
    }

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
