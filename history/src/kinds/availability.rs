//! Whether the system answers again once all faults have ended.

use super::{Anomaly, Failure};
use crate::{Event, History, Outcome, Process};

/// What a nemesis does when it ends all of its faults.
pub const HEAL: &str = "heal";

/// How the system was after the last heal.
pub(crate) enum After {
    /// It answered, or there was no heal, or nobody called.
    Available,
    /// It did not answer in time.
    Unavailable(Anomaly),
    /// Nobody called, and so many calls from before the heal were not answered in time: these may have been
    /// lost before it.
    Uncalled(usize),
    /// The history ends too early to tell.
    TooShort,
}

/// Whether something was answered `ok` after the last heal, and within the time.
pub(crate) fn unavailable(history: &History, within_ns: u64) -> After {
    let events = history.events();
    let Some(heal) = events.iter().rposition(is_heal) else {
        return After::Available;
    };
    let until_ns = events[heal].time_ns.saturating_add(within_ns);
    let operations = history.operations();
    let waiting =
        (0..operations.len()).filter(|&place| operations[place].end.is_none_or(|end| end > heal));
    let (called, open): (Vec<_>, Vec<_>) =
        waiting.partition(|&place| operations[place].call > heal);
    let in_time = |&place: &usize| {
        let one = &operations[place];
        one.outcome == Outcome::Ok && one.return_ns.is_some_and(|end| end <= until_ns)
    };
    let mut all = called.iter().chain(&open).peekable();
    if all.peek().is_none() || all.any(in_time) {
        return After::Available;
    }
    if events.last().is_none_or(|last| last.time_ns < until_ns) {
        return After::TooShort;
    }
    if called.is_empty() {
        return After::Uncalled(open.len());
    }
    After::Unavailable(unanswered(events[heal].index, &called, within_ns))
}

fn is_heal(event: &Event) -> bool {
    event.process == Process::Nemesis && event.f == HEAL
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
