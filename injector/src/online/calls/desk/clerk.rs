//! Who asks the desk for a node's tracer.

use std::process::ExitStatus;
use std::sync::{Arc, MutexGuard};

use brief::{Called, callers};
use libc::pid_t;
use tracer::{After, Decision, Entry, Frame, Observer, Origin, StackTable};

use super::made::Made;
use super::{Desk, Held, Kept, State, Why};

/// Asks the desk for a node's tracer.
pub(in super::super) struct Clerk {
    desk: Arc<Desk>,
    /// Is told whenever the desk may have something to tell, before the thread goes on that is why.
    told: Box<dyn FnMut(&Desk) + Send>,
}

impl Clerk {
    /// One whose desk is asked what there is to tell.
    pub(in super::super) fn asked(desk: Arc<Desk>) -> Self {
        Self::telling(desk, Box::new(|_| ()))
    }

    /// One who has that be told.
    pub(in super::super) fn telling(desk: Arc<Desk>, told: Box<dyn FnMut(&Desk) + Send>) -> Self {
        Self { desk, told }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.desk.state()
    }

    fn tell(&mut self) {
        (self.told)(&self.desk);
    }

    /// Whether a process is of the node.
    fn is_inside(&self, origin: &Origin, state: &State) -> bool {
        !self.desk.is_entered || origin.process != state.first
    }

    fn decide(&self, origin: &Origin, entry: &Entry) -> Decision<Kept> {
        let mut state = self.state();
        if !self.is_inside(origin, &state) || state.is_idle() {
            return Decision::GoOn;
        }
        if state.is_paused {
            // It is decided about later, when others were found.
            state.keep_stack(origin.stack);
            return Decision::Hold;
        }
        let call = Made::new(origin, entry, self.desk.data.as_deref());
        state.decide(&call)
    }

    fn returned(&self, origin: &Origin, entry: &Entry, kept: &Kept, result: i64) -> After {
        let mut state = self.state();
        let call = || Made::new(origin, entry, self.desk.data.as_deref());
        state.has_returned(call, kept, result);
        // What has failed has changed nothing.
        let mut holds = Vec::new();
        for id in kept.watches.iter().filter(|_| result >= 0) {
            if let Some(watch) = state.watches.get_mut(id)
                && watch.counts()
            {
                watch.fired = Some(format!("has made {}", call().words()));
                holds.extend(watch.watched.holds.then_some(*id));
            }
        }
        if holds.is_empty() {
            return After::GoOn;
        }
        let (why, kept) = (Why::Watches(holds), Kept::default());
        state.held.insert(origin.thread, Held { why, kept });
        After::Hold
    }
}

impl Observer for Clerk {
    type Kept = Kept;
    type Output = ExitStatus;
    type Error = tracer::Error;

    fn begun(&mut self, first: &Origin) {
        let mut state = self.state();
        state.first = first.process;
        state.has_ended = false;
        state.is_paused = false;
        state.held.clear();
        let rules = state.rules.values_mut();
        rules.for_each(|rule| rule.writes = 0);
    }

    fn wants_stack_before(&self, origin: &Origin) -> bool {
        let state = self.state();
        self.is_inside(origin, &state) && state.wants_sites()
    }

    /// Who finds out names in the end has no use for addresses.
    fn wants_addresses(&self, number: u64) -> bool {
        let state = self.state();
        !self.wants_names() && state.tally.is_counting && !state.stacks.contains_key(&number)
    }

    fn found_stack(&mut self, number: u64, stack: Vec<Frame>) {
        self.state().found = Some((number, stack));
    }

    /// Where a desk is told of, its machine is not to do that.
    fn wants_names(&self) -> bool {
        self.desk.is_entered
    }

    fn entry(&mut self, origin: &Origin, entry: &Entry) -> Decision<Kept> {
        let decision = self.decide(origin, entry);
        self.tell();
        decision
    }

    fn exit(&mut self, origin: &Origin, entry: &Entry, kept: Kept, result: i64) -> After {
        let after = self.returned(origin, entry, &kept, result);
        self.tell();
        after
    }

    fn leave(&mut self, thread: pid_t) -> After {
        let mut state = self.state();
        if state.is_held(thread) || state.is_paused {
            return After::Hold;
        }
        state.held.remove(&thread);
        After::GoOn
    }

    /// Nobody knows what was written.
    fn abandoned(&mut self, _: &Origin, _: &Entry, kept: Kept) {
        self.state().writes_no_more(&kept);
    }

    fn withdrawn(&mut self, _: &Origin, kept: Option<Kept>) {
        let Some(kept) = kept else { return };
        if let Some((_, spoilt)) = &kept.spoilt {
            spoilt.restore();
        }
        self.state().writes_no_more(&kept);
    }

    fn gave_up(&mut self, thread: pid_t) {
        self.state().held.remove(&thread);
    }

    fn ended(&mut self, origin: &Origin) {
        let mut state = self.state();
        if origin.process == state.first {
            state.has_ended = true;
        }
        drop(state);
        self.tell();
    }

    fn finish(self, status: ExitStatus, stacks: &StackTable) -> tracer::Result<ExitStatus> {
        self.state().callers.extend(named_callers(stacks));
        Ok(status)
    }
}

/// The functions of the program at each site.
pub(in super::super) fn named_callers(
    stacks: &StackTable,
) -> impl Iterator<Item = (u64, Vec<String>)> + use<'_> {
    stacks.iter().map(|(site, stack)| {
        let stack = stack.iter().map(called);
        (*site, callers(stack))
    })
}

fn called(frame: &tracer::Frame) -> Called<'_> {
    Called {
        module: &frame.module,
        function: frame.function.as_deref(),
        source: frame.source.as_ref().map(|(path, line)| (&**path, *line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_wanted_where_calls_are_counted_and_nobody_finds_out_names() {
        let clerk = |is_entered| Clerk::asked(Arc::new(Desk::new(0, "a", None, is_entered)));
        let (mut inside, here) = (clerk(false), clerk(true));
        assert!(!inside.wants_addresses(7));
        for desk in [&inside.desk, &here.desk] {
            desk.begin_tally();
        }
        assert!(inside.wants_addresses(7) && !here.wants_addresses(7));
        // They are kept once a call was counted there, and not before.
        for number in [7, 8] {
            inside.found_stack(number, Vec::new());
        }
        for site in [7, 8] {
            inside.state().keep_stack(site);
        }
        assert!(inside.wants_addresses(7) && !inside.wants_addresses(8));
    }
}
