//! The end of a run: everything is healed, operations are acknowledged again, and clients end.

use std::collections::BTreeSet;

use cluster::{Error as ClusterError, Member, between};

use super::super::clients::RunningClient;
use super::super::plan::What;
use super::super::ran::{Happening, NO_FAULT};
use super::Runner;
use super::faults::after_disk_errors;
use crate::error::Result;

/// What is known of nodes when everything is healed.
#[derive(Default)]
pub(in super::super) struct Healing {
    /// Whether it has begun: nodes are started in their turn then.
    pub(in super::super) is_on: bool,
    /// Whether all faults are being ended together, then or in the midst of a plan.
    pub(in super::super) undoes_all: bool,
    /// Those that faults have kept down until then, each with the fault whose end its start is.
    pub(super) down: Vec<(usize, usize)>,
    /// Those that were hit and ran on until then: they may yet end of that, which is no fault of theirs.
    survivors: BTreeSet<usize>,
    /// What stays cut while only a majority is restored.
    pub(in super::super) cut: Vec<(Member, Member)>,
    /// Partitions that have ended but for that: they are over when everything is healed.
    pub(super) cut_still: Vec<usize>,
}

impl Healing {
    /// What was done by now, in words.
    fn done(&self) -> &'static str {
        if self.cut.is_empty() {
            "everything was healed"
        } else {
            "a majority was restored"
        }
    }
}

impl Runner<'_> {
    /// Ends everything, and waits until all nodes are ready. What is broken, if one is not.
    pub(super) fn heal(&mut self) -> Result<Vec<String>> {
        self.healing.cut.clear();
        self.end_faults()?;
        self.ground.heal_all()?;
        for fault in std::mem::take(&mut self.healing.cut_still) {
            self.undone(fault);
        }
        let all: Vec<_> = (0..self.ground.file().nodes.len()).collect();
        let broken = self.bring_up(&all)?;
        if broken.is_empty() {
            self.happened(Happening::Healed);
        }
        Ok(broken)
    }

    /// If the plan says so, restores a majority only, which has to make progress. The others are cut off from
    /// everybody before faults end, and those that are down stay down. What is broken, if something is.
    pub(super) fn restore_majority(&mut self) -> Result<Vec<String>> {
        if !self.plan.restores_majority {
            return Ok(Vec::new());
        }
        let whole = self.whole()?;
        let restored = self.known().majority_with(&whole);
        self.cut_off_all_but(&restored)?;
        let nodes = restored.iter().map(|node| self.name(*node)).collect();
        self.happened(Happening::Restored { nodes });
        self.end_faults()?;
        let broken = self.bring_up(&restored)?;
        if !broken.is_empty() {
            return Ok(broken);
        }
        self.progress()
    }

    /// The nodes that run, and that no fault hits.
    fn whole(&mut self) -> Result<Vec<usize>> {
        let mut whole = Vec::new();
        for node in 0..self.ground.file().nodes.len() {
            let name = self.name(node);
            let mut active = self.active.iter();
            let is_hit = active.any(|active| self.came[active.fault].on.contains(&name));
            if !is_hit && self.ground.is_running(node)? {
                whole.push(node);
            }
        }
        Ok(whole)
    }

    fn cut_off_all_but(&mut self, restored: &[usize]) -> Result<()> {
        let nodes = 0..self.ground.file().nodes.len();
        let (inside, outside): (Vec<_>, Vec<_>) = nodes.partition(|node| restored.contains(node));
        let clients = (0..self.clients.all.len()).map(Member::Client);
        let inside: Vec<_> = inside
            .into_iter()
            .map(Member::Node)
            .chain(clients)
            .collect();
        let outside: Vec<_> = outside.into_iter().map(Member::Node).collect();
        let cut = between(&inside, &outside).chain(between(&outside, &inside));
        self.healing.cut = cut.collect();
        Ok(self.ground.cut(&self.healing.cut)?)
    }

    fn end_faults(&mut self) -> Result<()> {
        self.note_ends_that_never_came();
        self.healing.is_on = true;
        self.undo_all();
        self.refuse_unusable()
    }

    /// Waits until these nodes are ready, and starts those that are down. What is broken, if one is not.
    fn bring_up(&mut self, nodes: &[usize]) -> Result<Vec<String>> {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for node in nodes.iter().copied() {
            self.ground.resume(&[node])?;
            self.ground.begin_time(node);
            let is_running = self.ground.is_running(node)?;
            if is_running { &mut up } else { &mut down }.push(node);
        }
        let survivors = up.iter().copied().filter(|node| self.was_hit(*node));
        self.healing.survivors = survivors.collect();
        self.wait_for(up, down)
    }

    /// Whether something was done to a node, not only to its links. To restore a majority hits all: others are
    /// cut off, and come back, and who gives up then is to be started again.
    fn was_hit(&self, node: usize) -> bool {
        if self.plan.restores_majority {
            return true;
        }
        let name = self.name(node);
        let mut faults = self.plan.faults.iter().zip(&self.came);
        faults.any(|(planned, came)| {
            let is_of_links = matches!(planned.what, What::Partition { .. } | What::Link { .. });
            !is_of_links && came.placed_ns.is_some() && came.on.contains(&name)
        })
    }

    fn note_ends_that_never_came(&mut self) {
        for active in &self.active {
            if self.is_kept(active) {
                continue;
            }
            if let Some(until) = &self.plan.faults[active.fault].until {
                let number = active.fault + 1;
                let now = self.ground.now();
                let lacking = active.until.as_ref().and_then(|until| until.lacking(now));
                let lacking = lacking.map_or_else(String::new, |why| format!(": {why}"));
                self.problems.push(format!(
                    "fault {number} ended with everything else, as its end never came: until {until}{lacking}"
                ));
            }
        }
    }

    /// Waits until nodes are ready: those that are up, and those that are down, which are started when
    /// all are ready that they come after. What is broken, if one will not be.
    fn wait_for(&mut self, mut up: Vec<usize>, mut down: Vec<usize>) -> Result<Vec<String>> {
        let (mut broken, mut gone) = (Vec::new(), Vec::new());
        loop {
            let died = self.late_ends()?;
            up.retain(|node| !died.contains(node));
            down.extend(died);
            let awaited = [&up[..], &gone].concat();
            up.extend(self.start_in_turn(&awaited, &mut down)?);
            // Those that are still down come after one that is not to be had.
            if up.is_empty() {
                break;
            }
            self.hear()?;
            self.look_after_returning()?;
            let mut still = Vec::new();
            for node in up {
                let known = broken.len();
                if self.is_awaited(node, &mut broken)? {
                    still.push(node);
                } else if broken.len() > known {
                    gone.push(node);
                }
            }
            up = still;
            self.ground.pass()?;
        }
        self.look_after_returning()?;
        Ok(broken)
    }

    /// Whether a node may still become ready. If it will not be, that is broken.
    fn is_awaited(&mut self, node: usize, broken: &mut Vec<String>) -> Result<bool> {
        let error = match self.ground.is_ready(node) {
            Ok(is_ready) => return Ok(!is_ready),
            Err(error) => error,
        };
        let is_of_node = matches!(error, ClusterError::NotReady { .. });
        if is_of_node && self.is_late_end(node)? {
            return Ok(true);
        }
        if error.is_of_disk() && self.disk_has_failed(node) && broken.is_empty() {
            return Err(after_disk_errors(self.name(node), &error).into());
        }
        if !is_of_node {
            return Err(error.into());
        }
        if error.is_killed() {
            let (node, what) = (self.name(node), format!("{error}; {NO_FAULT}"));
            return Err(ClusterError::Unable { node, what }.into());
        }
        if self.disk_was_corrupted(node) {
            self.doubt_corrupted(&error);
            return Ok(false);
        }
        if broken.len() < self.ground.file().nodes.len() {
            broken.push(format!("after {}: {error}", self.healing.done()));
        }
        Ok(false)
    }

    /// A node does not come back whose disk has corrupted requests: it is not known whether its program gives up
    /// or its file system does. What else is broken may come of that.
    fn doubt_corrupted(&mut self, error: &ClusterError) {
        let done = self.healing.done();
        let words = format!(
            "after {done}: {error}; its disk has corrupted requests, and its file system may be what gave up"
        );
        self.doubts.push(words.clone());
        self.problems.push(words);
    }

    /// Starts those of some nodes that come after none which is not ready yet.
    fn start_in_turn(&mut self, awaited: &[usize], down: &mut Vec<usize>) -> Result<Vec<usize>> {
        let is_awaited = |other: &usize| awaited.contains(other) || down.contains(other);
        let nodes = &self.ground.file().nodes;
        let is_its_turn = |node: &usize| !nodes[*node].after.iter().any(is_awaited);
        let (turn, later): (Vec<_>, Vec<_>) = down.iter().copied().partition(is_its_turn);
        *down = later;
        for node in &turn {
            self.ground.restart(*node)?;
            self.ground.begin_time(*node);
            let (of_node, others): (Vec<_>, _) = self
                .healing
                .down
                .drain(..)
                .partition(|(other, _)| other == node);
            self.healing.down = others;
            let faults = of_node.into_iter().map(|(_, fault)| Some(fault));
            self.returning.extend(faults.map(|fault| (*node, fault)));
            if !self.returning.iter().any(|(other, _)| other == node) {
                self.returning.push((*node, None));
            }
        }
        Ok(turn)
    }

    /// Whether a node that survived the faults has ended since.
    fn is_late_end(&mut self, node: usize) -> Result<bool> {
        Ok(self.healing.survivors.contains(&node) && !self.ground.is_running(node)?)
    }

    /// Those nodes, each once: it may take a while to die of a fault, such as of an fsync that was held
    /// and failed at the end. Such a node is started again as those are that ended before.
    fn late_ends(&mut self) -> Result<Vec<usize>> {
        let mut ended = Vec::new();
        for node in self.healing.survivors.clone() {
            if self.is_late_end(node)? {
                self.healing.survivors.remove(&node);
                ended.push(node);
            }
        }
        Ok(ended)
    }

    /// Starts those that have ended since everything was healed, and waits for them. What is broken, if one
    /// is not ready then.
    pub(super) fn start_late_ends(&mut self) -> Result<Vec<String>> {
        let ended = self.late_ends()?;
        self.wait_for(Vec::new(), ended)
    }

    /// Takes what clients have said by now: their last answers have their place a little later.
    fn hear_what_was_said(&mut self) -> Result<()> {
        let by = self.ground.now() + self.ground.lines_are_late_by();
        while self.ground.now() <= by {
            self.ground.pass()?;
            self.hear()?;
        }
        Ok(())
    }

    /// Waits until an operation of a client is acknowledged that goes on for ever. What is broken, if
    /// none is: one of them is enough, for another may stay with a node that does not serve any more.
    pub(super) fn progress(&mut self) -> Result<Vec<String>> {
        let has_one = |client: &RunningClient| client.config.endless && client.is_running();
        if self.clients.all.iter().any(has_one) {
            self.hear_what_was_said()?;
        }
        let before = self.clients.acknowledged_to_endless();
        let within = self.plan.progress_within * self.ground.file().patience;
        let begun = self.ground.now();
        while self.clients.all.iter().any(has_one) {
            self.hear()?;
            let now = self.clients.acknowledged_to_endless();
            if now.iter().zip(&before).any(|(now, before)| now > before) {
                self.happened(Happening::Progress);
                return self.start_late_ends();
            }
            if self.ground.now() > begun + within {
                if self.asks_nobody() {
                    return self.start_late_ends();
                }
                return Ok(vec![format!(
                    "nothing was acknowledged to any client within {} s after {}",
                    within.as_secs_f64(),
                    self.healing.done()
                )]);
            }
            let broken = self.start_late_ends()?;
            if !broken.is_empty() {
                return Ok(broken);
            }
            self.ground.pass()?;
        }
        if !before.is_empty() {
            self.nobody_saw_progress();
        }
        self.start_late_ends()
    }

    fn nobody_saw_progress(&mut self) {
        let what = "all endless clients had ended by themselves, so nobody saw whether operations are \
                    acknowledged again";
        if !self.problems.iter().any(|problem| problem == what) {
            self.problems.push(what.into());
        }
    }

    /// Whether all that go on for ever have done the operations of the plan, and wait: then it is no fault
    /// of the cluster that nothing is acknowledged.
    fn asks_nobody(&mut self) -> bool {
        let Some(most) = self.plan.operations else {
            return false;
        };
        let mut all = self.clients.all.iter();
        let asks = |client: &RunningClient| {
            client.config.endless && client.is_running() && !client.has_done(most)
        };
        if all.any(asks) {
            return false;
        }
        self.problems.push(format!(
            "all endless clients had done the {most} operations of the plan, and began no more after {}, so nobody \
             saw whether operations are acknowledged again",
            self.healing.done()
        ));
        true
    }

    /// Asks those clients to end that go on for ever, and waits for all.
    pub(super) fn end_clients(&mut self) -> Result<()> {
        self.is_over = true;
        for client in &self.clients.all {
            client.ask_to_end(self.ground);
        }
        let begun = self.ground.now();
        while self.clients.all.iter().any(RunningClient::is_running) {
            self.hear()?;
            let now = self.ground.now();
            let clients = self.clients.all.iter_mut();
            for client in clients.filter(|client| now > begun + client.config.ends_within) {
                client.read(self.ground)?;
                client.kill(self.ground);
            }
            self.ground.pass()?;
        }
        self.clients.keep_rest(self.ground)
    }
}
