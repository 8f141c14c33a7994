//! Whether the system answers again once all faults have ended.

use super::{Anomaly, Failure};
use crate::{History, Outcome, Process};

/// What a nemesis does when it ends all of its faults.
pub const HEAL: &str = "heal";

/// How the system was after the last heal.
pub(crate) enum After {
    /// It answered, or there was no heal, or nobody called.
    Available,
    /// It did not answer in time.
    Unavailable(Anomaly),
    /// The history ends too early to tell.
    TooShort,
}

/// Whether something that was called after the last heal was answered `ok` within the time.
pub(crate) fn unavailable(history: &History, within_ns: u64) -> After {
    let events = history.events();
    let heal = events
        .iter()
        .rposition(|event| event.process == Process::Nemesis && event.f == HEAL);
    let Some(heal) = heal else {
        return After::Available;
    };
    let until_ns = events[heal].time_ns.saturating_add(within_ns);
    let called: Vec<usize> = (0..history.operations().len())
        .filter(|&place| history.operations()[place].call > heal)
        .collect();
    if called.is_empty() {
        return After::Available;
    }
    let in_time = |place: &usize| {
        let one = &history.operations()[*place];
        one.outcome == Outcome::Ok && one.return_ns.is_some_and(|end| end <= until_ns)
    };
    if called.iter().any(in_time) {
        return After::Available;
    }
    if events.last().is_none_or(|last| last.time_ns < until_ns) {
        return After::TooShort;
    }
    After::Unavailable(unanswered(events[heal].index, &called, within_ns))
}

/// None of these was answered in time after the heal with this index.
fn unanswered(heal: u64, called: &[usize], within_ns: u64) -> Anomaly {
    let seconds = within_ns as f64 / 1e9;
    let what = format!(
        "none of {} calls after the heal (event {heal}) was answered ok within {seconds} s of it",
        called.len(),
    );
    let shown = called.iter().take(3).copied().collect();
    Anomaly::new(Failure::Unavailable, None, what, shown)
}
