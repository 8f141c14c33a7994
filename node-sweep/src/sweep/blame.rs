//! What of a state is to blame that lost all at once: what breaks alone, or the smallest set of losses
//! that break something together and none of them alone.

use std::cmp::Reverse;
use std::collections::HashSet;

use brief::without_numbers;
use campaign::ddmin;
use pace_rules::nodes::Loss;

use super::judges::{Answer, Job, Member};
use super::rounds::{Happened, Rounds, has_ended_early};
use super::{Broken, Made, ModelSet, PANIC_SEEN_AFTER, Same, Source};
use crate::check::Verdict;
use crate::error::{Error, Result};
use crate::tree::Fingerprint;

/// So many states with fewer losses are made of one, to know which break alone.
const FEWER_MAX: usize = 256;

/// So many sets of losses that break different things are looked for in one state.
const SETS_MAX: usize = 4;

/// What is looked for in the states with fewer losses.
struct Sought {
    /// What is said of the state and not of the one that lost nothing, but for numbers; anything if
    /// that one is not broken.
    words: Option<HashSet<String>>,
    /// The keys of new states that were made for it.
    made: Vec<Fingerprint>,
}

impl<S: Source> Rounds<'_, '_, S> {
    /// Says of each broken state that lost all at once which smaller one shows why. States are looked
    /// at for that which have no number.
    pub(super) fn blame(&mut self) -> Result<()> {
        let maker = &self.maker;
        let number = |key: &Fingerprint| (maker.seen[key].smallest, *key);
        let broken = self.heard.swept.broken.keys().map(number);
        let mut all: Vec<_> = broken
            .filter(|((_, index), _)| maker.source.is_at_once(*index))
            .collect();
        all.sort_unstable();
        self.maker.is_beside = true;
        for ((_, index), key) in all {
            if self.heard.stop.is_now() {
                break;
            }
            let mut sought = Sought {
                words: None,
                made: Vec::new(),
            };
            let whole = self.is_broken(index, &[], &mut sought)?;
            sought.words = whole.map(|whole| self.said_besides(&key, &whole));
            let smaller = match whole {
                // What is broken as it is, no loss has broken.
                Some(whole) if sought.words.as_ref().is_some_and(HashSet::is_empty) => vec![whole],
                _ => {
                    let index = self.with_all_lost(index, &mut sought)?;
                    self.smaller(index, &mut sought)?
                }
            };
            self.blame_smaller(key, whole, &smaller, &sought);
        }
        Ok(())
    }

    /// What is said of a broken state and not of another one, but for numbers.
    fn said_besides(&self, key: &Fingerprint, other: &Fingerprint) -> HashSet<String> {
        let words = |key: &Fingerprint| {
            let words = self.heard.swept.broken[key].complaint.words.iter();
            words.map(|words| without_numbers(words)).collect()
        };
        let (all, others): (HashSet<_>, HashSet<_>) = (words(key), words(other));
        all.difference(&others).cloned().collect()
    }

    /// Says that a state is broken as smaller ones are. So are those that were made on the way and
    /// lost more than it takes; of which nothing else is said than of `whole`, which lost nothing, that
    /// is the smaller one.
    fn blame_smaller(
        &mut self,
        key: Fingerprint,
        whole: Option<Fingerprint>,
        smaller: &[Fingerprint],
        sought: &Sought,
    ) {
        let made = sought.made.iter().copied();
        let made = made.filter(|made| self.heard.swept.broken.contains_key(made));
        let larger = made.filter(|made| !smaller.contains(made) && whole != Some(*made));
        for larger in larger.chain([key]).collect::<Vec<_>>() {
            let others = match whole {
                Some(whole) if !self.shows(&larger, sought) => vec![whole],
                _ => smaller.to_vec(),
            };
            let others = others.into_iter().filter(|one| *one != larger).collect();
            self.heard.swept.blamed.entry(larger).or_insert(others);
        }
    }

    /// Whether a state is known to be broken in the way that is looked for.
    fn shows(&self, key: &Fingerprint, sought: &Sought) -> bool {
        let is_meant = |words: &HashSet<String>, broken: &Broken| {
            let mut said = broken.complaint.words.iter();
            said.any(|said| words.contains(&without_numbers(said)))
        };
        let broken = self.heard.swept.broken.get(key);
        broken.is_some_and(|broken| {
            let words = sought.words.as_ref();
            words.is_none_or(|words| is_meant(words, broken))
        })
    }

    /// Where one operation was kept alone, and it is broken without that one too: the state without it.
    /// Whatever is kept, that is one finding.
    fn with_all_lost(&mut self, index: u64, sought: &mut Sought) -> Result<u64> {
        let Some(all) = self.maker.source.with_all_lost(index) else {
            return Ok(index);
        };
        let losses = self.maker.source.losses(all);
        let is_broken = self.is_broken(all, &losses, sought)?.is_some();
        Ok(if is_broken { all } else { index })
    }

    /// The broken states that show why a state is broken that lost all at once: those with a set of
    /// losses of which each is needed, and those with fewer losses. Nothing that was found of another
    /// state plays a part: what is looked at for a state is the same in any part of a sweep.
    fn smaller(&mut self, index: u64, sought: &mut Sought) -> Result<Vec<Fingerprint>> {
        let all = self.maker.source.losses(index);
        let mut rest = all.clone();
        // In a sample it is not known what breaks alone, and to look at each would be a sweep of its
        // own.
        let alone = if self.heard.stop.plan.is_sample {
            Vec::new()
        } else {
            self.broken_alone(index, &mut rest, sought)?
        };
        let mut together = Vec::new();
        while !rest.is_empty()
            && together.len() < SETS_MAX
            && self.is_broken(index, &rest, sought)?.is_some()
        {
            self.maker.is_unanswered = false;
            let set = ddmin(&rest, |losses| {
                Ok::<_, Error>(self.is_broken(index, losses, sought)?.is_some())
            })?;
            let key = self.is_broken(index, &set, sought)?;
            if self.maker.is_unanswered {
                self.maker.unproven.extend(key);
            }
            if set.len() == all.len() {
                let losses = || (index, all.clone().into());
                let with_losses = key.map(|key| (key, losses()));
                self.maker.with_losses.extend(with_losses);
            }
            together.extend(key);
            rest.retain(|loss| !set.contains(loss));
        }
        together.extend(alone);
        Ok(together)
    }

    /// The broken states with fewer of the losses; what is lost there is no more among `rest`.
    fn broken_alone(
        &mut self,
        index: u64,
        rest: &mut Vec<Loss>,
        sought: &Sought,
    ) -> Result<Vec<Fingerprint>> {
        let mut fewer = self.maker.source.with_fewer_lost(index);
        fewer.sort_by_key(|(number, losses)| (losses.len(), Reverse(*number)));
        fewer.truncate(FEWER_MAX);
        // Those of other parts are nowhere else compared with this one.
        let plan = self.heard.stop.plan;
        if plan.shard.is_some() && !plan.only_known {
            let numbers: Vec<_> = fewer.iter().map(|(number, _)| *number).collect();
            self.maker.judged.clone_from(&self.heard.judged);
            self.visit(numbers.into_iter())?;
        }
        let mut alone = Vec::new();
        for (number, losses) in fewer {
            if !losses.iter().all(|loss| rest.contains(loss)) {
                continue;
            }
            let Ok(state) = self.maker.source.make(number).state else {
                continue;
            };
            if self.shows(&state.key, sought) {
                alone.push(state.key);
                rest.retain(|loss| !losses.contains(loss));
            }
        }
        Ok(alone)
    }

    /// The key of the state in which no more than these is lost, if it is known to be broken in the way
    /// that is looked for. It is looked at if nobody has.
    fn is_broken(
        &mut self,
        index: u64,
        losses: &[Loss],
        sought: &mut Sought,
    ) -> Result<Option<Fingerprint>> {
        let Made { size, state, .. } = self.maker.source.make_with(index, losses);
        let Ok(state) = state else {
            return Ok(None);
        };
        let key = state.key;
        if !self.heard.judged.contains(&key) {
            let member = Member {
                index,
                key,
                acknowledged: state.acknowledged.clone(),
            };
            let members = vec![member];
            let Some(answer) = self.answer(Job { state, members })? else {
                return Ok(None);
            };
            let is_new = !self.maker.seen.contains_key(&key);
            self.heard.keep(answer)?;
            self.maker.besides.insert(key);
            if is_new {
                let models = ModelSet::of(self.maker.source.model(index));
                let smallest = (size, index);
                let same = Same {
                    states: 0,
                    smallest,
                    models,
                };
                self.maker.seen.insert(key, same);
                self.maker.with_losses.insert(key, (index, losses.into()));
                sought.made.push(key);
                self.heard.at.made += 1;
                self.heard.at.different += 1;
            }
        }
        Ok(self.shows(&key, sought).then_some(key))
    }

    /// What is said of a state; nothing if nobody is there to say it, or it is inconclusive.
    fn answer(&mut self, job: Job) -> Result<Option<Answer>> {
        let Member { index, key, .. } = job.members[0];
        let known = self.heard.stop.plan.known.get(&key).cloned();
        let is_known = known.is_some();
        let verdict = match known {
            Some(verdict) => Some(Ok(verdict)),
            None if self.heard.stop.plan.only_known || self.heard.stop.is_now() => None,
            None if self.jobs.send(job).is_err() => None,
            None => self.verdict()?,
        };
        let verdict = verdict.filter(|verdict| !matches!(verdict, Ok(Verdict::Inconclusive(_))));
        self.maker.is_unanswered |= verdict.is_none();
        Ok(verdict.map(|verdict| Answer {
            index,
            key,
            verdict,
            is_known,
        }))
    }

    /// What is said of the only state that is looked at.
    fn verdict(&mut self) -> Result<Option<Result<Verdict>>> {
        loop {
            match self.heard.incoming.recv_timeout(PANIC_SEEN_AFTER) {
                Ok(Happened::Judged(answer)) => return Ok(Some(answer.verdict)),
                Ok(Happened::Left) => return Ok(None),
                Ok(Happened::Asked(asked)) => {
                    self.heard.watch.asked(asked, self.heard.stop.is_time_up());
                }
                Err(_) if has_ended_early(&self.heard.judges) => {
                    self.heard.stop.interrupt.request();
                    return Err(Error::Panicked("looks at"));
                }
                Ok(Happened::AllMade(_)) | Err(_) => {}
            }
        }
    }
}
