//! Locks and semaphores that more hold than may.

use std::collections::HashMap;

use super::{Anomaly, Failure, Seen};
use crate::model::lock::{ACQUIRE, holder};
use crate::{Outcome, Value};

/// When something begins to be held, or may end to be: the event, whether it begins, the operation,
/// and who holds it.
type Change = (usize, bool, usize, Value);

/// Somebody certainly holds it from the answer to an acquire until the call of a release that may have
/// taken effect.
fn changes(seen: &Seen<'_>) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for (place, one) in seen.operations() {
        let is_acquire = ACQUIRE.contains(&one.f.as_str());
        if !is_acquire {
            if one.outcome == Outcome::Fail {
                continue;
            }
            changes.push((one.call, false, place, holder(one)));
        } else if one.outcome == Outcome::Ok && one.result != Value::Bool(false) {
            let end = one.returned().unwrap_or(one.call);
            changes.push((end, true, place, holder(one)));
        }
    }
    changes.sort_by_key(|change| change.0);
    changes
}

pub(super) fn failures(seen: &Seen<'_>, permits: usize) -> Vec<Anomaly> {
    let mut held: HashMap<Value, Vec<usize>> = HashMap::new();
    let mut found = Vec::new();
    for (_, is_held, place, who) in changes(seen) {
        if !is_held {
            if let Some(acquired) = held.get_mut(&who) {
                acquired.pop();
            }
            continue;
        }
        held.entry(who).or_default().push(place);
        let mut holders: Vec<_> = held.values().flatten().copied().collect();
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
