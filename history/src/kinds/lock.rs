//! Locks and semaphores that more hold than may.

use std::collections::HashMap;

use super::{Anomaly, Failure, Seen};
use crate::model::lock::{ACQUIRE, holder};
use crate::{Outcome, Value};

pub(super) fn failures(seen: &Seen<'_>, permits: usize) -> Vec<Anomaly> {
    // Somebody certainly holds it from the answer to an acquire until the call of a release.
    let mut changes: Vec<(usize, bool, usize, Value)> = Vec::new();
    for (place, one) in seen.operations() {
        let is_acquire = ACQUIRE.contains(&one.f.as_str());
        if !is_acquire {
            changes.push((one.call, false, place, holder(one)));
        } else if one.outcome == Outcome::Ok && one.result != Value::Bool(false) {
            let end = one.returned().unwrap_or(one.call);
            changes.push((end, true, place, holder(one)));
        }
    }
    changes.sort_by_key(|change| change.0);
    let mut held: HashMap<Value, Vec<usize>> = HashMap::new();
    let mut found = Vec::new();
    for (_, is_held, place, who) in changes {
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
