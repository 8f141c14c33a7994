//! A fault that is in place at a desk: which calls it hits, and what becomes of them.

use std::time::{Duration, Instant};

use tracer::{Change, Decision};

use super::super::corrupt::{Spoilt, spoil};
use super::super::kinds::{LENGTH, READ, has_length};
use super::super::orders::Report;
use super::Kept;
use super::made::Made;
use crate::online::plan::{CallFault, Comes};

/// A fault that is in place.
pub(super) struct Rule {
    pub(super) fault: CallFault,
    pub(super) seen: u64,
    pub(super) hits: u64,
    /// How many calls write what it has corrupted: whether it hits them shows when they return.
    pub(super) writes: u64,
    /// Whether it was told that it hits.
    pub(super) is_told: bool,
    /// How many were seen and hit when that was told last.
    pub(super) told: (u64, u64),
}

impl Rule {
    /// How long it still holds a call that it has held since then, if that has its time.
    pub(super) fn left(&self, since: Instant) -> Option<Duration> {
        match self.fault.comes {
            Comes::Slow(time) => Some(time.saturating_sub(since.elapsed())),
            _ => None,
        }
    }

    /// What is to be told of it. Once it hits, it does not matter how many it has seen.
    pub(super) fn change(&mut self, id: usize) -> Option<Report> {
        let (seen, hits) = (self.seen.min(self.fault.of.nth), self.hits);
        let now = (seen, hits);
        let is_new = std::mem::replace(&mut self.told, now) != now;
        is_new.then_some(Report::Hit { id, seen, hits })
    }

    /// Whether it hits nothing any more.
    pub(super) fn is_over(&self) -> bool {
        self.fault.once && self.hits + self.writes > 0
    }

    /// Counts a call that it has hit. The first one is told.
    pub(super) fn has_hit(&mut self, id: usize, call: &Made, words: &str) -> Option<String> {
        self.hits += 1;
        let tell = || format!("{}: {words} (fault {})", call.words(), id + 1);
        (!std::mem::replace(&mut self.is_told, true)).then(tell)
    }

    /// Corrupts what a call is about to write; of one that reads there is nothing yet to corrupt. Whether
    /// it is hit shows when it returns.
    pub(super) fn corrupt(&mut self, id: usize, call: &Made, kept: &mut Kept) {
        if self.fault.of.call == READ {
            kept.spoils = Some(id);
            return;
        }
        let asked = call.bytes().and_then(|bytes| usize::try_from(bytes).ok());
        let spoilt = asked.and_then(|asked| self.spoils(call, asked));
        if let Some(spoilt) = spoilt {
            // As long as it is not known, it is the one.
            self.writes += 1;
            kept.spoilt = Some((id, spoilt));
        }
    }

    pub(super) fn spoils(&self, call: &Made, bytes: usize) -> Option<Spoilt> {
        match self.fault.comes {
            Comes::Corrupt(what) => spoil(what, call.buffer(bytes)?),
            _ => None,
        }
    }

    /// A call has read so many bytes: they are corrupted.
    pub(super) fn has_read(&mut self, id: usize, call: &Made, bytes: usize) -> Option<String> {
        if self.is_over() {
            return None;
        }
        self.spoils(call, bytes)?;
        self.has_hit(id, call, self.fault.comes.words_of_bytes())
    }

    /// A call that was corrupted has written so many bytes.
    pub(super) fn has_written(
        &mut self,
        id: usize,
        call: &Made,
        (spoilt, bytes): (&Spoilt, usize),
    ) -> Option<String> {
        self.writes = self.writes.saturating_sub(1);
        if !spoilt.is_in(bytes) {
            return None;
        }
        self.has_hit(id, call, self.fault.comes.words_of_bytes())
    }
}

impl CallFault {
    /// What a call comes to that it hits, and that in words. None if there is nothing to hit.
    pub(super) fn decide(&self, call: &Made, kept: &mut Kept) -> Option<(Decision<Kept>, String)> {
        Some(match &self.comes {
            Comes::Fails(error) => (
                Decision::Fail(error.number()),
                format!("fails with {}", error.name()),
            ),
            Comes::Short(bytes) => {
                let asked = call.entry.arguments[LENGTH];
                if !has_length(&call.origin.row) || asked <= *bytes {
                    return None;
                }
                let (argument, value) = (LENGTH, *bytes);
                let kept = std::mem::take(kept);
                let decision = Decision::Change(Change { argument, value }, kept);
                (decision, format!("{bytes} of {asked} bytes"))
            }
            Comes::Slow(time) => (
                Decision::Hold,
                format!("takes {} s more", time.as_secs_f64()),
            ),
            Comes::Held(_) => (Decision::Hold, "is held".into()),
            // It is made, and looked at when it returns.
            Comes::Corrupt(_) => return None,
        })
    }

    pub(super) fn error_in_the_end(&self) -> Option<i32> {
        match &self.comes {
            Comes::Held(Some(error)) => Some(error.number()),
            _ => None,
        }
    }
}
