//! What shall become of the calls of one node: triggers and faults leave word here, and the node's
//! tracer asks.

mod clerk;
mod made;
mod rule;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use libc::pid_t;
use tracer::{Decision, Frame};

use super::corrupt::Spoilt;
use super::orders::{Orders, Report, Spared, Watched};
use super::tally::{Made as Counted, Tally, Times};
use crate::online::plan::{CallFault, Comes, Moment};
pub(super) use clerk::{Clerk, named_callers};
use made::Made;
use rule::Rule;

const NO_PANIC: &str = "no holder panics";

/// A node that is traced.
pub(super) type Traced = tracer::Traced<ExitStatus, tracer::Error>;

/// The desk of a node. It outlives the node's processes.
pub(super) struct Desk {
    /// The node's index.
    pub(super) node: usize,
    /// Its name.
    pub(super) name: String,
    /// Its directory of data, as it sees it.
    data: Option<PathBuf>,
    /// Whether the first process enters the node and waits there: it is not of the node.
    is_entered: bool,
    state: Mutex<State>,
    traced: Mutex<Option<Arc<Traced>>>,
}

#[derive(Default)]
struct State {
    /// The process that was started, which may be the one that enters the node.
    first: pid_t,
    has_ended: bool,
    is_paused: bool,
    watches: BTreeMap<u64, Watch>,
    /// By the fault's index.
    rules: BTreeMap<usize, Rule>,
    /// What came of those that have ended.
    spared: BTreeMap<usize, Spared>,
    held: HashMap<pid_t, Held>,
    /// What rules did first, and has not been told yet.
    news: Vec<String>,
    /// What the probe says that the node is.
    role: Option<String>,
    tally: Tally,
    /// Which counting that is, and when it began, if somebody outside counts on it.
    counting: Option<(u64, u64)>,
    /// The addresses at each site at which a call was counted, if nobody finds out names here.
    stacks: BTreeMap<u64, Vec<Frame>>,
    /// Those of the site that was found last.
    found: Option<(u64, Vec<Frame>)>,
    /// The functions of the program at each site, once its processes have ended.
    callers: HashMap<u64, Vec<String>>,
}

/// A trigger that is waited for.
struct Watch {
    watched: Watched,
    fired: Option<String>,
    /// How many were seen, and whether the one had come, when that was told last.
    told: (u64, bool),
}

/// A thread that is held.
struct Held {
    why: Why,
    /// What is kept of its call, if that is not made yet.
    kept: Kept,
}

/// Why a thread is held.
enum Why {
    /// By triggers that have fired at one call.
    Watches(Vec<u64>),
    /// By a fault, since then; the call fails with this when it ends.
    Rule(usize, Instant, Option<i32>),
}

impl Watch {
    /// Counts a call. Whether it is the one that is waited for.
    fn counts(&mut self) -> bool {
        self.watched.seen += 1;
        self.watched.seen == self.watched.of.nth
    }

    /// What is to be told of it.
    fn change(&mut self, id: u64) -> Option<Report> {
        let now = (self.watched.seen, self.fired.is_some());
        let is_new = std::mem::replace(&mut self.told, now) != now;
        is_new.then(|| Report::Seen(id, now.0, self.fired.clone()))
    }
}

impl Desk {
    /// Of a node, and its directory of data; `is_entered` if the program that is traced enters the node,
    /// and does not run in it.
    pub(super) fn new(node: usize, name: &str, data: Option<&Path>, is_entered: bool) -> Self {
        Self {
            node,
            name: name.to_owned(),
            data: data.map(Path::to_path_buf),
            is_entered,
            state: Mutex::default(),
            traced: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    /// The node runs.
    pub(super) fn follow(&self, traced: &Arc<Traced>) {
        *self.traced.lock().expect(NO_PANIC) = Some(Arc::clone(traced));
    }

    /// The node runs no more.
    pub(super) fn forget(&self) {
        *self.traced.lock().expect(NO_PANIC) = None;
    }

    /// Whether the node's command has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.state().has_ended
    }

    /// Has threads that are held be decided about again.
    fn ask_again(&self) {
        let traced = self.traced.lock().expect(NO_PANIC).clone();
        if let Some(traced) = traced {
            traced.ask_again();
        }
    }

    /// The same of a fault that has seen and hit calls before.
    pub(super) fn hit_on(&self, id: usize, fault: CallFault, seen: u64, hits: u64) {
        let rule = Rule {
            fault,
            seen,
            hits,
            writes: 0,
            is_told: hits > 0,
            told: (seen, hits),
        };
        self.state().rules.insert(id, rule);
    }

    /// What nobody was told yet.
    pub(super) fn changes(&self) -> Vec<Report> {
        let mut state = self.state();
        let news = std::mem::take(&mut state.news);
        let mut changes: Vec<_> = news.into_iter().map(Report::News).collect();
        let watches = state.watches.iter_mut();
        changes.extend(watches.filter_map(|(id, watch)| watch.change(*id)));
        let rules = state.rules.iter_mut();
        changes.extend(rules.filter_map(|(id, rule)| rule.change(*id)));
        changes
    }

    /// Lets those go on whose time is over.
    pub(super) fn let_go(&self) {
        if self.state().left().is_some_and(|left| left.is_zero()) {
            self.ask_again();
        }
    }

    /// How long the next one is held that is held for a time.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.state().left()
    }

    /// From now on calls are counted, and none before.
    pub(super) fn begin_tally(&self) {
        self.state().tally.begin();
    }

    /// Calls are not counted any more.
    pub(super) fn end_tally(&self) {
        self.state().tally.is_counting = false;
    }

    /// From now on calls are counted, and none before, for whoever calls that the counting with this
    /// number.
    pub(super) fn begin_counting(&self, counting: u64) {
        let mut state = self.state();
        state.tally.begin();
        state.counting = Some((counting, tracer::now_ns()));
    }

    /// What was counted, to be told once. Calls are not counted any more.
    pub(super) fn told(&self) -> Vec<Report> {
        let mut state = self.state();
        state.tally.is_counting = false;
        let Some((counting, begun_ns)) = state.counting.take() else {
            return Vec::new();
        };
        let made = std::mem::take(&mut state.tally.made);
        let sites: BTreeSet<_> = made.keys().map(|made| made.site).collect();
        let counted = made.into_iter().map(|(made, times)| {
            let first_ns = times.first_ns.saturating_sub(begun_ns);
            Report::Counted(counting, made, Times { first_ns, ..times })
        });
        let stacks = sites.into_iter().filter_map(|site| {
            let places = state.stacks.get(&site)?.iter();
            let places = places.map(|frame| (frame.module.to_string(), frame.address));
            Some(Report::Stack(site, places.collect()))
        });
        let told = [Report::Told(counting)];
        counted.chain(stacks).chain(told).collect()
    }

    /// The last that is told, as all processes have ended, or as none began.
    pub(super) fn over(&self) -> Vec<Report> {
        let mut reports = self.told();
        reports.push(Report::Over);
        reports
    }

    /// The probe says that the node is that.
    pub(super) fn know_role(&self, role: Option<&str>) {
        self.state().role = role.map(str::to_owned);
    }

    /// The calls that were counted, each with the functions that made it if they are known.
    pub(super) fn tally(&self) -> Vec<(Counted, Times, Vec<String>)> {
        let state = self.state();
        let made = state.tally.made.iter().map(|(made, times)| {
            let callers = state.callers.get(&made.site).cloned();
            (made.clone(), times.clone(), callers.unwrap_or_default())
        });
        made.collect()
    }
}

impl Orders for Desk {
    fn node(&self) -> usize {
        self.node
    }

    fn watch(&self, id: u64, watched: Watched) {
        let watch = Watch {
            told: (watched.seen, false),
            watched,
            fired: None,
        };
        self.state().watches.insert(id, watch);
    }

    fn fired(&self, id: u64) -> Option<String> {
        self.state().watches.get(&id)?.fired.clone()
    }

    fn unwatch(&self, id: u64) {
        let watch = self.state().watches.remove(&id);
        if watch.is_some_and(|watch| watch.fired.is_some() && watch.watched.holds) {
            self.ask_again();
        }
    }

    fn hit(&self, id: usize, fault: &CallFault) {
        self.hit_on(id, fault.clone(), 0, 0);
    }

    fn spare(&self, id: usize) {
        let rule = self.state().rules.remove(&id);
        self.ask_again();
        let mut state = self.state();
        let of_it = |held: &Held| matches!(held.why, Why::Rule(of, ..) if of == id);
        let is_free = state.is_paused || !state.held.values().any(of_it);
        // What is being written is corrupted.
        let hits = rule.map_or(0, |rule| rule.hits + rule.writes);
        state.spared.insert(id, Spared { hits, is_free });
    }

    fn spared(&self, id: usize) -> Option<Spared> {
        self.state().spared.remove(&id)
    }

    fn pause(&self, is_paused: bool) {
        self.state().is_paused = is_paused;
        if !is_paused {
            self.ask_again();
        }
    }

    fn tick(&self) -> Vec<String> {
        let news = std::mem::take(&mut self.state().news);
        self.let_go();
        news
    }
}

/// What is kept of a call until it returns.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The triggers that wait for its return.
    watches: Vec<u64>,
    /// What it was counted as.
    counted: Option<Counted>,
    /// The fault that corrupts what it reads.
    spoils: Option<usize>,
    /// What it writes, which this fault has corrupted.
    spoilt: Option<(usize, Spoilt)>,
}

impl Kept {
    /// Whether nobody wants to see it return.
    fn is_nothing(&self) -> bool {
        self.watches.is_empty()
            && self.counted.is_none()
            && self.spoils.is_none()
            && self.spoilt.is_none()
    }

    /// What a call comes to that is made as it is.
    fn decision(self) -> Decision<Self> {
        if self.is_nothing() {
            return Decision::GoOn;
        }
        Decision::ToExit(self)
    }
}

impl State {
    /// Whether nobody wants anything of calls.
    fn is_idle(&self) -> bool {
        self.watches.is_empty()
            && self.rules.is_empty()
            && self.held.is_empty()
            && !self.is_paused
            && !self.tally.is_counting
    }

    /// Whether somebody wants to know where in the program calls are made.
    fn wants_sites(&self) -> bool {
        let mut watched = self.watches.values().map(|watch| &watch.watched.of);
        let mut hit = self.rules.values().map(|rule| &rule.fault.of);
        self.tally.is_counting
            || watched.any(|of| of.site.is_some())
            || hit.any(|of| of.site.is_some())
    }

    /// Counts a call, if calls are counted, and returns what it is then.
    fn count(&mut self, call: &Made) -> Option<Counted> {
        if !self.tally.is_counting {
            return None;
        }
        let counted = call.counted(self.role.as_ref())?;
        self.keep_stack(counted.site);
        let at_ns = call.origin.start_ns;
        self.tally.count(counted.clone(), at_ns, call.bytes());
        Some(counted)
    }

    /// Keeps what was found of a site, if that was the last one.
    fn keep_stack(&mut self, site: u64) {
        self.stacks
            .extend(self.found.take_if(|(found, _)| *found == site));
    }

    fn decide(&mut self, call: &Made) -> Decision<Kept> {
        let thread = call.origin.thread;
        if self.is_held(thread) {
            return Decision::Hold;
        }
        match self.held.remove(&thread) {
            // A fault has hit it.
            Some(Held {
                why: Why::Rule(.., Some(error)),
                ..
            }) => Decision::Fail(error),
            Some(Held {
                why: Why::Rule(..),
                kept,
            }) => kept.decision(),
            // It was counted already.
            Some(Held {
                why: Why::Watches(_),
                kept,
            }) => self.ruled(call, kept),
            None => self.watched(call),
        }
    }

    /// What triggers, and then faults, make of a call that is new.
    fn watched(&mut self, call: &Made) -> Decision<Kept> {
        let mut kept = Kept {
            counted: self.count(call),
            ..Kept::default()
        };
        let mut holds = Vec::new();
        for (id, watch) in &mut self.watches {
            if watch.fired.is_some() || !call.is(&watch.watched.of) {
                continue;
            }
            if watch.watched.when == Moment::After {
                // It is counted when it has been made.
                kept.watches.push(*id);
            } else if watch.counts() {
                watch.fired = Some(format!("is about to {}", call.words()));
                holds.extend(watch.watched.holds.then_some(*id));
            }
        }
        if holds.is_empty() {
            return self.ruled(call, kept);
        }
        let why = Why::Watches(holds);
        self.held.insert(call.origin.thread, Held { why, kept });
        Decision::Hold
    }

    /// Whether a thread is held, and not to go on yet.
    fn is_held(&self, thread: pid_t) -> bool {
        match self.held.get(&thread).map(|held| &held.why) {
            Some(Why::Watches(ids)) => ids.iter().any(|id| self.watches.contains_key(id)),
            Some(Why::Rule(id, since, _)) => self.still_holds(*id, *since) == Some(true),
            None => false,
        }
    }

    /// A call has been made. What a program wrote is what it had, whatever was written.
    fn has_returned<'a>(&mut self, call: impl Fn() -> Made<'a>, kept: &Kept, result: i64) {
        if let Some(counted) = &kept.counted {
            self.tally.returned(counted, result);
        }
        let bytes = usize::try_from(result).unwrap_or(0);
        if let Some((id, spoilt)) = &kept.spoilt {
            spoilt.restore();
            if let Some(rule) = self.rules.get_mut(id) {
                let told = rule.has_written(*id, &call(), (spoilt, bytes));
                self.news.extend(told);
            }
        }
        if let Some(id) = kept.spoils
            && let Some(rule) = self.rules.get_mut(&id)
        {
            self.news.extend(rule.has_read(id, &call(), bytes));
        }
    }

    /// A call has not returned, and will not.
    fn writes_no_more(&mut self, kept: &Kept) {
        let rule = kept.spoilt.as_ref().map(|(id, _)| *id);
        if let Some(rule) = rule.and_then(|id| self.rules.get_mut(&id)) {
            rule.writes = rule.writes.saturating_sub(1);
        }
    }

    /// Whether a fault that is in place still holds a thread that it has held since then.
    fn still_holds(&self, id: usize, since: Instant) -> Option<bool> {
        let rule = self.rules.get(&id)?;
        Some(rule.left(since).is_none_or(|left| !left.is_zero()))
    }

    /// How long the next one is held that is held for a time.
    fn left(&self) -> Option<Duration> {
        let left = self.held.values().filter_map(|held| match held.why {
            Why::Rule(id, since, _) => self.rules.get(&id)?.left(since),
            Why::Watches(_) => None,
        });
        left.min()
    }

    /// What faults make of a call.
    fn ruled(&mut self, call: &Made, mut kept: Kept) -> Decision<Kept> {
        let is_hit = |(_, rule): &(&usize, &mut Rule)| call.is(&rule.fault.of);
        let mut corrupts = None;
        for (id, rule) in self.rules.iter_mut().filter(is_hit) {
            rule.seen += 1;
            if rule.seen < rule.fault.of.nth || rule.is_over() {
                continue;
            }
            if let Comes::Corrupt(_) = rule.fault.comes {
                // Only if it is made as it is.
                corrupts = corrupts.or(Some(*id));
                continue;
            }
            let Some((decision, words)) = rule.fault.decide(call, &mut kept) else {
                continue;
            };
            self.news.extend(rule.has_hit(*id, call, &words));
            if matches!(decision, Decision::Hold) {
                let why = Why::Rule(*id, Instant::now(), rule.fault.error_in_the_end());
                self.held.insert(call.origin.thread, Held { why, kept });
            }
            return decision;
        }
        if let Some(id) = corrupts
            && let Some(rule) = self.rules.get_mut(&id)
        {
            rule.corrupt(id, call, &mut kept);
        }
        kept.decision()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also of a command that could not be started, which was to be counted.
    #[test]
    fn who_is_over_says_so_and_tells_of_what_was_to_be_counted() {
        let desk = Desk::new(0, "a", None, false);
        assert_eq!(desk.over(), [Report::Over]);
        desk.begin_counting(3);
        assert_eq!(desk.over(), [Report::Told(3), Report::Over]);
    }
}
