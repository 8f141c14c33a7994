//! Locks and semaphores that more hold than may.

use std::collections::HashMap;

use super::{Anomaly, Failure, Seen};
use crate::model::lock::{ACQUIRE, holder};
use crate::{Outcome, Value};

/// What happens to a holder.
enum Change {
    /// An acquire is called that will be answered.
    Called,
    /// The acquire at this place, which was called then, is answered.
    Acquired(usize, usize),
    /// A release is called that may take effect until this event.
    Released(usize),
}

/// Somebody certainly holds it from the answer to an acquire until the call of a release that may have
/// taken effect. Each change with its event, and who holds.
fn changes(seen: &Seen<'_>) -> Vec<(usize, Value, Change)> {
    let mut changes = Vec::new();
    for (place, one) in seen.operations() {
        let is_acquire = ACQUIRE.contains(&one.f.as_str());
        if !is_acquire {
            if one.outcome == Outcome::Fail {
                continue;
            }
            let end = one.returned().unwrap_or(usize::MAX);
            changes.push((one.call, holder(one), Change::Released(end)));
        } else if one.outcome == Outcome::Ok && one.result != Value::Bool(false) {
            let end = one.returned().unwrap_or(one.call);
            changes.push((one.call, holder(one), Change::Called));
            changes.push((end, holder(one), Change::Acquired(one.call, place)));
        }
    }
    changes.sort_by_key(|change| change.0);
    changes
}

/// What one holder acquired, and what may have given that back.
#[derive(Default)]
struct Held {
    /// So many acquires are called and not answered.
    open: usize,
    /// The calls and places of acquires, sorted.
    acquired: Vec<(usize, usize)>,
    /// Until when the releases may take effect, sorted.
    released: Vec<usize>,
}

impl Held {
    fn change(&mut self, event: usize, change: &Change) {
        match *change {
            Change::Called => self.open += 1,
            Change::Acquired(call, place) => {
                self.open -= 1;
                self.acquired.push((call, place));
                self.acquired.sort_unstable();
            }
            Change::Released(end) => {
                self.released.push(end);
                self.released.sort_unstable();
            }
        }
        // What is called from now on is not given back by what has ended.
        if self.open == 0 {
            self.acquired.drain(..self.given_back(event));
            self.released.retain(|&end| end > event);
        }
    }

    /// How many acquires, the first ones, the releases that end until an event can have given back: each
    /// one, unless it had ended before that was called.
    fn given_back(&self, until: usize) -> usize {
        let ended = self.released.iter().take_while(|&&end| end <= until);
        ended.fold(0, |count, end| match self.acquired.get(count) {
            Some((call, _)) if call < end => count + 1,
            _ => count,
        })
    }

    /// The acquires that nothing can have given back.
    fn certain(&self) -> impl Iterator<Item = usize> {
        let certain = &self.acquired[self.given_back(usize::MAX)..];
        certain.iter().map(|(_, place)| *place)
    }
}

pub(super) fn failures(seen: &Seen<'_>, permits: usize) -> Vec<Anomaly> {
    let mut held: HashMap<Value, Held> = HashMap::new();
    let mut found = Vec::new();
    for (event, who, change) in changes(seen) {
        let one = held.entry(who).or_default();
        let before = one.certain().count();
        one.change(event, &change);
        // Only a further one that is held makes it too many.
        if one.certain().count() <= before {
            continue;
        }
        let mut holders: Vec<_> = held.values().flat_map(Held::certain).collect();
        if holders.len() > permits {
            holders.sort_unstable();
            let all: Vec<_> = holders.iter().map(|&holder| seen.words(holder)).collect();
            let what = format!(
                "held by {} at once, where {permits} may: {}",
                holders.len(),
                all.join(", ")
            );
            found.push(seen.anomaly(Failure::DoubleLock, what, holders));
        }
    }
    found
}
