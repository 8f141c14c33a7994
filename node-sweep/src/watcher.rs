//! What keeps what a sweep finds while it goes on, and shows how far it is.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trace_store::Trace;

use crate::check::Verdict;
use crate::error::Result;
use crate::findings::Kinds;
use crate::judged::Verdicts;
use crate::levels::Control;
use crate::lines::LookedLine;
use crate::request::Level;
use crate::results::Results;
use crate::specs::Looked;
use crate::sweep::{Progress, Watch};
use crate::tree::Fingerprint;
use crate::undamaged::Asked;

/// Asking the check of what the run left is told of if it takes longer than this.
const SAID_AFTER: Duration = Duration::from_secs(5);

/// Keeps what is found, and shows how far it is.
pub(crate) struct Watcher<'a> {
    results: Option<&'a mut Results>,
    level: Level,
    control: &'a Control<'a>,
    kinds_of: Kinds<'a>,
    /// Which violations of specifications had something to look at.
    looked: Option<Arc<Looked>>,
    /// States in all.
    count: u64,
    /// The different things that were said of broken states.
    kinds: HashSet<Vec<String>>,
    bar: campaign::Progress,
    begun: Instant,
    /// Since when the check is asked of what the run left, and whether that was said.
    asking: Option<(Instant, bool)>,
}

impl<'a> Watcher<'a> {
    /// Of a level, with what is spent on it counted since a moment, of which some states are known already.
    /// There are `count` states of `name`.
    pub(crate) fn new(
        results: Option<&'a mut Results>,
        (level, begun): (Level, Instant),
        control: &'a Control<'a>,
        trace: &'a Trace,
        known: &Verdicts,
        (name, count): (&str, u64),
    ) -> Self {
        let (kinds_of, mut kinds) = (Kinds::new(trace), HashSet::new());
        for verdict in known.values() {
            if let Verdict::Broken(complaint) = verdict {
                kinds.insert(kinds_of.of(complaint));
            }
        }
        Self {
            results,
            level,
            control,
            kinds_of,
            looked: None,
            count,
            kinds,
            bar: campaign::Progress::new(name, "different states", Some(count)),
            begun,
            asking: None,
        }
    }

    /// The same, which keeps which violations of specifications had something to look at.
    pub(crate) fn with_looked(self, looked: Option<Arc<Looked>>) -> Self {
        Self { looked, ..self }
    }

    /// The time that was spent on the level, in seconds.
    pub(crate) fn finish(self) -> Result<f64> {
        self.bar.finish();
        self.results.map_or_else(
            || Ok(self.begun.elapsed().as_secs_f64()),
            |results| results.note_time(self.level),
        )
    }
}

/// Why the check is asked of what the run left, and how often it was.
fn asked_words(Asked { times, of }: Asked, is_over: bool) -> String {
    let next = if is_over {
        "; the time is up: fewer tries may do"
    } else {
        ", then the sweep goes on"
    };
    format!(
        "a possible finding: measuring how often the check fails without a crash, {times} of {of} tries done{next}"
    )
}

impl Watch for Watcher<'_> {
    fn judged(&mut self, state: u64, key: &Fingerprint, verdict: &Verdict) -> Result<()> {
        if let Some(results) = &mut self.results {
            // Whoever knows the verdict knows that.
            for (specification, violation) in self.looked.iter().flat_map(|one| one.take_news()) {
                results.append_looked(LookedLine {
                    specification,
                    violation,
                })?;
            }
            results.append(self.level, state, key, verdict)?;
        }
        if let Verdict::Broken(complaint) = verdict {
            self.kinds.insert(self.kinds_of.of(complaint));
            if self
                .control
                .stop_after
                .is_some_and(|most| self.kinds.len() as u64 >= most)
            {
                self.control.interrupt.request();
            }
        }
        Ok(())
    }

    fn asked(&mut self, asked: Asked, is_over: bool) {
        let (since, is_said) = *self.asking.get_or_insert((Instant::now(), false));
        let words = asked_words(asked, is_over);
        if !is_said && since.elapsed() >= SAID_AFTER {
            self.asking = Some((since, true));
            self.bar.suspend(|| campaign::say(&words));
        }
        self.bar.note(&words);
    }

    fn progress(&mut self, at: Progress) {
        self.asking = None;
        // How many are different is known of those that were made.
        let share = at.different as f64 / at.made.max(1) as f64;
        let expected = (share * self.count as f64).ceil() as u64;
        self.bar.set_about(
            at.checked,
            (expected.max(at.checked), at.made < self.count),
            (self.kinds.len() as u64, at.open),
        );
    }
}
