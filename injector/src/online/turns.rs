//! Clients that take turns: one of them begins an operation when that of the one before it was answered.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::ClientTurns;

/// What a client has done so far, as far as turns go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    /// How many operations it has begun.
    pub(super) begun: u64,
    /// How many of them have ended, however that was.
    pub(super) ended: u64,
    /// Whether it runs.
    pub(super) runs: bool,
}

/// What a client does that is not in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disorder {
    /// It was its turn, and it began nothing.
    Idle,
    /// It began an operation when it was not its turn.
    Early,
}

/// Whose turn it is.
#[derive(Clone)]
pub(super) struct Turns {
    order: Vec<usize>,
    within: Duration,
    /// Which of the order is next.
    next: usize,
    /// Who has the turn, and since when.
    current: Option<(usize, Duration)>,
    takers: BTreeMap<usize, Taker>,
}

/// A client that takes turns.
#[derive(Debug, Clone, Default)]
struct Taker {
    /// How many turns it was given.
    given: u64,
    /// How many of them were over before the operation was.
    cut_short: u64,
    /// Of what was told.
    is_idle: bool,
    is_early: bool,
}

impl Turns {
    pub(super) fn new(config: &ClientTurns) -> Self {
        let takers = config.order.iter().map(|place| (*place, Taker::default()));
        Self {
            within: config.within,
            next: 0,
            current: None,
            takers: takers.collect(),
            order: config.order.clone(),
        }
    }

    /// Whether a client takes turns.
    pub(super) fn has(&self, place: usize) -> bool {
        self.takers.contains_key(&place)
    }

    /// How long a turn lasts at most.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    /// Which clients do something that is not in order, each once.
    pub(super) fn disorder(
        &mut self,
        now: Duration,
        done: impl Fn(usize) -> Done,
    ) -> Vec<(usize, Disorder)> {
        let mut found = Vec::new();
        for (place, taker) in &mut self.takers {
            if done(*place).begun > taker.given && !taker.is_early {
                taker.is_early = true;
                found.push((*place, Disorder::Early));
            }
        }
        if let Some((place, since)) = self.current
            && let Some(taker) = self.takers.get_mut(&place)
            && now > since + self.within
            && done(place).runs
            && done(place).begun < taker.given
            && !taker.is_idle
        {
            taker.is_idle = true;
            found.push((place, Disorder::Idle));
        }
        found
    }

    /// Whose turn begins now, if somebody's does. One whose operation was not answered in its time keeps it,
    /// and has no other turn until it is answered.
    pub(super) fn pass(&mut self, now: Duration, done: impl Fn(usize) -> Done) -> Option<usize> {
        if let Some((place, since)) = self.current {
            if self.is_busy(place, done(place)) {
                if now <= since + self.within {
                    return None;
                }
                self.taker(place).cut_short += 1;
            }
            self.current = None;
        }
        for _ in 0..self.order.len() {
            let place = self.order[self.next];
            self.next = (self.next + 1) % self.order.len();
            // Who works without a turn reads none, and those that are left in its input would fill it.
            let is_early = done(place).begun > self.takers[&place].given;
            if done(place).runs && !is_early && !self.is_busy(place, done(place)) {
                self.taker(place).given += 1;
                self.current = Some((place, now));
                return Some(place);
            }
        }
        None
    }

    /// The turn that begins was given at this time: later than what is known of clients was heard, where there
    /// was much to do since.
    pub(super) fn given_at(&mut self, now: Duration) {
        if let Some((_, since)) = &mut self.current {
            *since = now;
        }
    }

    /// Of each client of which turns ended before its operations did, how many.
    pub(super) fn cut_short(&self) -> impl Iterator<Item = (usize, u64)> {
        let all = self.takers.iter();
        let all = all.map(|(place, taker)| (*place, taker.cut_short));
        all.filter(|(_, times)| *times > 0)
    }

    /// Whether a client has not done yet what it was given a turn for.
    fn is_busy(&self, place: usize, done: Done) -> bool {
        done.runs && done.ended < self.takers[&place].given
    }

    fn taker(&mut self, place: usize) -> &mut Taker {
        self.takers.entry(place).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(10);

    fn turns(order: &[usize]) -> Turns {
        Turns::new(&ClientTurns {
            order: order.to_vec(),
            within: WITHIN,
        })
    }

    /// Clients that have begun and ended so many operations, and run.
    fn done<const N: usize>(all: [(u64, u64); N]) -> impl Fn(usize) -> Done {
        move |place| Done {
            begun: all[place].0,
            ended: all[place].1,
            runs: true,
        }
    }

    const fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_turn_begins_when_the_operation_of_the_one_before_it_has_ended() {
        let mut turns = turns(&[0, 1, 1]);
        assert_eq!(turns.pass(at(0), done([(0, 0), (0, 0)])), Some(0));
        assert_eq!(turns.pass(at(1), done([(0, 0), (0, 0)])), None);
        assert_eq!(turns.pass(at(2), done([(1, 0), (0, 0)])), None);
        assert_eq!(turns.pass(at(3), done([(1, 1), (0, 0)])), Some(1));
        assert_eq!(turns.pass(at(4), done([(1, 1), (1, 0)])), None);
        assert_eq!(turns.pass(at(5), done([(1, 1), (1, 1)])), Some(1));
        assert_eq!(turns.pass(at(6), done([(1, 1), (2, 2)])), Some(0));
        assert_eq!(turns.cut_short().count(), 0);
    }

    #[test]
    fn who_has_ended_has_no_turn() {
        let mut turns = turns(&[0, 1]);
        let ended = |which: usize| {
            move |place| Done {
                runs: place != which,
                ..Done::default()
            }
        };
        // It ends in its turn, which is over then.
        assert_eq!(turns.pass(at(0), ended(2)), Some(0));
        assert_eq!(turns.pass(at(1), ended(0)), Some(1));
        assert_eq!(turns.pass(at(2), ended(0)), None);
        let one = |place| Done {
            runs: place == 1,
            begun: 1,
            ended: 1,
        };
        assert_eq!(turns.pass(at(3), one), Some(1));
        assert_eq!(turns.pass(at(4), |_| Done::default()), None);
    }

    #[test]
    fn an_operation_without_an_answer_keeps_others_waiting_for_so_long_and_its_client_for_longer() {
        let mut turns = turns(&[0, 1]);
        assert_eq!(turns.pass(at(0), done([(0, 0), (0, 0)])), Some(0));
        let open = (1, 0);
        assert_eq!(turns.pass(WITHIN, done([open, (0, 0)])), None);
        assert_eq!(turns.pass(WITHIN + at(1), done([open, (0, 0)])), Some(1));
        // It is skipped, and in order again when it was answered.
        assert_eq!(turns.pass(WITHIN + at(2), done([open, (1, 1)])), Some(1));
        assert_eq!(turns.pass(WITHIN + at(3), done([(1, 1), (2, 2)])), Some(0));
        assert_eq!(turns.cut_short().collect::<Vec<_>>(), [(0, 1)]);
    }

    #[test]
    fn all_wait_while_none_has_an_answer() {
        let mut turns = turns(&[0]);
        assert_eq!(turns.pass(at(0), done([(0, 0)])), Some(0));
        assert_eq!(turns.pass(WITHIN + at(1), done([(1, 0)])), None);
        assert_eq!(turns.pass(WITHIN * 3, done([(1, 0)])), None);
        assert_eq!(turns.pass(WITHIN * 4, done([(1, 1)])), Some(0));
        assert_eq!(turns.cut_short().collect::<Vec<_>>(), [(0, 1)]);
    }

    #[test]
    fn who_works_without_a_turn_has_none() {
        let mut turns = turns(&[0, 1]);
        assert_eq!(turns.pass(at(0), done([(2, 2), (0, 0)])), Some(1));
        assert_eq!(turns.pass(at(1), done([(3, 2), (1, 1)])), Some(1));
        let mut alone = self::turns(&[0]);
        assert_eq!(alone.pass(at(0), done([(2, 2)])), None);
    }

    #[test]
    fn a_turn_lasts_from_when_it_was_given() {
        let mut turns = turns(&[0, 1]);
        assert_eq!(turns.pass(at(0), done([(0, 0), (0, 0)])), Some(0));
        turns.given_at(WITHIN);
        let later = WITHIN + at(1);
        assert_eq!(turns.disorder(later, done([(0, 0), (0, 0)])), []);
        assert_eq!(turns.pass(later, done([(1, 0), (0, 0)])), None);
    }

    #[test]
    fn who_works_without_a_turn_or_not_at_all_is_told_once() {
        let mut turns = turns(&[0, 1]);
        assert_eq!(turns.pass(at(0), done([(0, 0), (0, 0)])), Some(0));
        let early = turns.disorder(at(1), done([(1, 0), (1, 0)]));
        assert_eq!(early, [(1, Disorder::Early)]);
        assert_eq!(turns.disorder(at(2), done([(1, 0), (2, 0)])), []);

        let mut turns = self::turns(&[0, 1]);
        assert_eq!(turns.pass(at(0), done([(0, 0), (0, 0)])), Some(0));
        assert_eq!(turns.disorder(WITHIN, done([(0, 0), (0, 0)])), []);
        let late = WITHIN + at(1);
        // To wait for an answer is no disorder, and to have ended neither.
        assert_eq!(turns.disorder(late, done([(1, 0), (0, 0)])), []);
        assert_eq!(turns.disorder(late, |_| Done::default()), []);
        let idle = turns.disorder(late, done([(0, 0), (0, 0)]));
        assert_eq!(idle, [(0, Disorder::Idle)]);
        assert_eq!(turns.disorder(late, done([(0, 0), (0, 0)])), []);
    }
}
