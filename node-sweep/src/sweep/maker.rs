//! Who makes states, and knows those that were made.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use pace_rules::nodes::Loss;

use super::judges::{Answer, Job, Member};
use super::rounds::{Counts, Happened, Stop};
use super::{Made, ModelSet, Same, Size, Source};
use crate::check::Verdict;
use crate::coverage::Crashes;
use crate::states::CrashState;
use crate::tree::Fingerprint;

/// Among so many states those with the same disks are found.
const LOOKED_AHEAD: usize = 10_000;

/// Makes states, and knows those that it has made.
pub(super) struct Maker<S> {
    pub(super) source: S,
    pub(super) seen: HashMap<Fingerprint, Same>,
    pub(super) crashes: Crashes,
    pub(super) impossible: u64,
    /// Impossible ones that other shards count.
    pub(super) others: u64,
    /// Nobody has asked for what is made now.
    pub(super) is_beside: bool,
    /// What was made so, and not before.
    pub(super) besides: HashSet<Fingerprint>,
    /// What was looked at until then.
    pub(super) judged: HashSet<Fingerprint>,
    /// Of those that have no number of their own: of which state they are made, and all that is lost.
    pub(super) with_losses: HashMap<Fingerprint, (u64, Arc<[Loss]>)>,
    /// Those of which some state with fewer losses was not judged: not each loss may be needed.
    pub(super) unproven: HashSet<Fingerprint>,
    /// Whether a state that was asked for was not judged.
    pub(super) is_unanswered: bool,
}

impl<S> Maker<S> {
    pub(super) fn of(source: S) -> Self {
        Self {
            source,
            seen: HashMap::new(),
            crashes: Crashes::default(),
            impossible: 0,
            others: 0,
            is_beside: false,
            besides: HashSet::new(),
            judged: HashSet::new(),
            with_losses: HashMap::new(),
            unproven: HashSet::new(),
            is_unanswered: false,
        }
    }

    /// How many states are the same as this one. Of those that nobody has asked for each counts once.
    pub(super) fn states(&self, key: &Fingerprint) -> u64 {
        if self.besides.contains(key) {
            1
        } else {
            self.seen[key].states
        }
    }
}

/// Makes states in a round, for those who look at them.
pub(super) struct Making<'a, S> {
    pub(super) maker: &'a mut Maker<S>,
    pub(super) jobs: &'a SyncSender<Job>,
    pub(super) events: &'a SyncSender<Happened>,
    /// Of so many states something is or will be told.
    pub(super) sent: u64,
    pub(super) stop: &'a Stop<'a>,
    pub(super) counts: &'a Counts,
}

impl<S: Source> Making<'_, S> {
    pub(super) fn make(&mut self, are_slow: bool, indices: impl Iterator<Item = u64>) {
        if are_slow {
            self.make_groups(indices);
        } else {
            self.make_all(indices);
        }
        // Nobody is there to be told if this fails.
        let _ = self.events.send(Happened::AllMade(self.sent));
    }

    /// Gives a job to whoever looks at it, and says whether there is somebody.
    fn give(&mut self, job: Job) -> bool {
        let states = job.members.len() as u64;
        let is_given = self.jobs.send(job).is_ok();
        self.sent += if is_given { states } else { 0 };
        is_given
    }

    /// The next state that is none of those that are known.
    fn next(&mut self, indices: &mut impl Iterator<Item = u64>) -> Option<(CrashState, Member)> {
        loop {
            if self.stop.interrupt.requested() {
                return None;
            }
            let index = indices.next()?;
            if self.stop.is_now() {
                return None;
            }
            let Made {
                size,
                run,
                cut,
                state,
            } = self.maker.source.make(index);
            self.counts.made.fetch_add(1, Ordering::Relaxed);
            let Ok(crash_state) = state else {
                self.count_impossible(index);
                continue;
            };
            // Of another shard's states nobody knows here whether they are judged.
            let is_ours = self.stop.plan.is_ours(&crash_state.key);
            if is_ours {
                self.maker.crashes.add(run, &cut, &crash_state.key);
            }
            if !self.count((size, index), &crash_state, is_ours) {
                continue;
            }
            self.counts.different.fetch_add(1, Ordering::Relaxed);
            if let Some(verdict) = self.stop.plan.known.get(&crash_state.key) {
                self.tell_known(index, crash_state.key, verdict)?;
                continue;
            }
            if self.stop.plan.only_known {
                continue;
            }
            let member = Member {
                index,
                key: crash_state.key,
                acknowledged: crash_state.acknowledged.clone(),
            };
            return Some((crash_state, member));
        }
    }

    /// Tells what is known of a state, unless nobody listens any more.
    fn tell_known(&mut self, index: u64, key: Fingerprint, verdict: &Verdict) -> Option<()> {
        let answer = Answer {
            index,
            key,
            verdict: Ok(verdict.clone()),
            is_known: true,
        };
        self.events.send(Happened::Judged(answer)).ok()?;
        self.sent += 1;
        Some(())
    }

    /// Counts a state that no file system would show. It has no key.
    fn count_impossible(&mut self, index: u64) {
        let shard = self.stop.plan.shard;
        let is_ours = shard.is_none_or(|shard| shard.contains(index));
        let Maker {
            impossible,
            others,
            is_beside,
            ..
        } = &mut *self.maker;
        match (*is_beside, is_ours) {
            (true, _) => {}
            (false, true) => *impossible += 1,
            (false, false) => *others += 1,
        }
    }

    /// Counts a state, and says whether it is new here: of those that nobody has asked for, also
    /// one that another shard looks at.
    fn count(&mut self, own: (Size, u64), state: &CrashState, is_ours: bool) -> bool {
        let model = ModelSet::of(self.maker.source.model(own.1));
        let Maker {
            seen,
            is_beside,
            besides,
            judged,
            ..
        } = &mut *self.maker;
        let is_known = seen.contains_key(&state.key);
        let same = seen.entry(state.key).or_insert(Same {
            states: 0,
            smallest: own,
            models: model,
        });
        same.smallest = same.smallest.min(own);
        same.models.add(model);
        if *is_beside {
            // It may be the very state that was counted, and looked at or not: there was no time.
            let is_asked_for = is_known && is_ours && !besides.contains(&state.key);
            return if is_asked_for {
                judged.insert(state.key)
            } else {
                besides.insert(state.key)
            };
        }
        same.states += 1;
        !is_known && is_ours
    }

    /// Makes one after the other.
    fn make_all(&mut self, mut indices: impl Iterator<Item = u64>) {
        while let Some((state, member)) = self.next(&mut indices) {
            let members = vec![member];
            if !self.give(Job { state, members }) {
                return;
            }
        }
    }

    /// Makes many in order to know which have the same disks, each of these once more, and so on.
    fn make_groups(&mut self, mut indices: impl Iterator<Item = u64>) {
        loop {
            let groups = self.groups(&mut indices);
            if groups.is_empty() {
                return;
            }
            for members in groups {
                if self.stop.is_now() {
                    return;
                }
                let made = self.maker.source.make(members[0].index);
                let state = made.state.expect("it was made before");
                if !self.give(Job { state, members }) {
                    return;
                }
            }
        }
    }

    /// The next states, those with the same disks together.
    fn groups(&mut self, indices: &mut impl Iterator<Item = u64>) -> Vec<Vec<Member>> {
        let mut groups: Vec<Vec<Member>> = Vec::new();
        let mut places = HashMap::new();
        for _ in 0..LOOKED_AHEAD {
            let Some((state, member)) = self.next(indices) else {
                break;
            };
            let place = *places.entry(state.disks_key).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(member);
        }
        groups
    }
}
