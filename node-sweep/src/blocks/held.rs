//! What was going on when a disk that lost nothing got what broke a promise.

use trace::{Action, Event};

use super::{BlockFindings, Blocks};
use crate::findings::Findings;

impl BlockFindings<'_> {
    /// What was going on when the disk of a program, which lost nothing, got what broke a promise: a
    /// crash at the moment before breaks nothing. None where that is not so, or not known: something
    /// was promised between the two, or not all states were decided.
    pub(super) fn held_until(
        &self,
        node: usize,
        index: u64,
        blocks: &mut Blocks<'_>,
    ) -> Option<String> {
        let decided = self.decided.filter(|_| self.trace.run.nodes.len() == 1)?;
        let before = self.space.in_order_before(index)?;
        let (before, state) = (self.space.state(before), self.space.state(index));
        if decided
            .broken
            .contains_key(&blocks.crash_state(&before).key)
        {
            return None;
        }
        let events = &self.trace.run.nodes[node].events;
        let mut between = events.get(before.cut[node]..state.cut[node])?.iter();
        if between.any(|event| matches!(event.action, Action::Mark { .. })) {
            return None;
        }
        let positions = before.disks[node].as_ref()?.position..state.disks[node].as_ref()?.position;
        let times_ns = self.space.disk(node)?.times_ns.get(positions)?;
        self.going_on(node, (*times_ns.first()?, *times_ns.last()?))
    }

    /// What a program was doing while its disk got something: the call that took all that time, a
    /// sync before others, or the last before that.
    fn going_on(&self, node: usize, (first, last): (u64, u64)) -> Option<String> {
        let run = &self.trace.run;
        let events = &run.nodes[node].events;
        let has_all = |event: &&Event| event.start_ns <= first && last <= event.end_ns;
        let is_file = |event: &&Event| matches!(event.action, Action::File(_));
        let is_sync = |event: &&Event| event.action.is_sync();
        let within = || events.iter().filter(is_file).filter(has_all);
        let told = Findings::without_space(self.trace);
        let words = |event: &Event| {
            let place = events.iter().position(|other| std::ptr::eq(other, event))?;
            Some(told.event_words(run, node, place))
        };
        if let Some(event) = within().find(is_sync).or_else(|| within().next()) {
            return words(event);
        }
        let ended = events.iter().filter(is_file);
        let ended = ended.take_while(|event| event.end_ns < first).last()?;
        Some(format!("what was written back after {}", words(ended)?))
    }
}
