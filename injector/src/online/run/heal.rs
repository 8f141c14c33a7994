//! The end of a run: everything is healed, operations are acknowledged again, and clients end.

use cluster::Error as ClusterError;

use super::super::clients::RunningClient;
use super::super::plan::What;
use super::super::ran::Happening;
use super::super::triggers::Waiting;
use super::Runner;
use super::faults::after_disk_errors;
use crate::error::Result;

impl Runner<'_> {
    /// Ends everything, and waits until all nodes are ready. What is broken, if one is not.
    pub(super) fn heal(&mut self) -> Result<Vec<String>> {
        self.note_ends_that_never_came();
        self.is_healing = true;
        self.undo_all();
        self.refuse_unusable()?;
        self.ground.heal_all()?;
        let count = self.ground.file().nodes.len();
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for node in 0..count {
            self.ground.resume(&[node])?;
            self.ground.begin_time(node);
            let is_running = self.ground.is_running(node)?;
            if is_running { &mut up } else { &mut down }.push(node);
        }
        let survivors = up.iter().copied().filter(|node| self.was_hit(*node));
        self.survivors = survivors.collect();
        let broken = self.wait_for(up, down)?;
        if broken.is_empty() {
            self.happened(Happening::Healed);
        }
        Ok(broken)
    }

    /// Whether something was done to a node, not only to its links.
    fn was_hit(&self, node: usize) -> bool {
        let name = self.name(node);
        let mut faults = self.plan.faults.iter().zip(&self.came);
        faults.any(|(planned, came)| {
            let is_of_links = matches!(planned.what, What::Partition { .. } | What::Link { .. });
            !is_of_links && came.placed_ns.is_some() && came.on.contains(&name)
        })
    }

    fn note_ends_that_never_came(&mut self) {
        for active in &self.active {
            if self.stands_still(active) {
                continue;
            }
            if let Some(until) = &self.plan.faults[active.fault].until {
                let number = active.fault + 1;
                let unknown = active.until.as_ref().and_then(Waiting::unknown);
                let unknown = unknown.map_or_else(String::new, |why| format!(": {why}"));
                self.problems.push(format!(
                    "fault {number} ended with everything else, as its end never came: until {until}{unknown}"
                ));
            }
        }
    }

    /// Waits until nodes are ready: those that are up, and those that are down, which are started when
    /// all are ready that they come after. What is broken, if one will not be.
    fn wait_for(&mut self, mut up: Vec<usize>, mut down: Vec<usize>) -> Result<Vec<String>> {
        let count = self.ground.file().nodes.len();
        let mut broken = Vec::new();
        loop {
            let died = self.late_ends()?;
            up.retain(|node| !died.contains(node));
            down.extend(died);
            if up.is_empty() && down.is_empty() {
                break;
            }
            self.hear()?;
            self.look_after_returning()?;
            if broken.is_empty() {
                up.extend(self.start_in_turn(&up, &mut down)?);
            } else {
                // What they come after does not come.
                down.clear();
            }
            let mut still = Vec::new();
            for node in up {
                match self.ground.is_ready(node) {
                    Ok(true) => {}
                    Ok(false) => still.push(node),
                    Err(ClusterError::NotReady { .. }) if self.is_late_end(node)? => {
                        still.push(node)
                    }
                    Err(error)
                        if error.is_of_disk()
                            && self.disk_has_failed(node)
                            && broken.is_empty() =>
                    {
                        return Err(after_disk_errors(self.name(node), &error).into());
                    }
                    Err(ClusterError::NotReady { .. }) if broken.len() >= count => {}
                    Err(error @ ClusterError::NotReady { .. }) => {
                        broken.push(format!("after everything was healed: {error}"));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            up = still;
            self.ground.pass()?;
        }
        self.look_after_returning()?;
        Ok(broken)
    }

    /// Starts those of some nodes that come after none which is not ready yet.
    fn start_in_turn(&mut self, up: &[usize], down: &mut Vec<usize>) -> Result<Vec<usize>> {
        let is_awaited = |other: &usize| up.contains(other) || down.contains(other);
        let nodes = &self.ground.file().nodes;
        let is_its_turn = |node: &usize| !nodes[*node].after.iter().any(is_awaited);
        let (turn, later): (Vec<_>, Vec<_>) = down.iter().copied().partition(is_its_turn);
        *down = later;
        for node in &turn {
            self.ground.restart(*node)?;
            self.ground.begin_time(*node);
            let (of_node, others): (Vec<_>, _) =
                self.down.drain(..).partition(|(other, _)| other == node);
            self.down = others;
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
        Ok(self.survivors.contains(&node) && !self.ground.is_running(node)?)
    }

    /// Those nodes, each once: it may take a while to die of a fault, such as of an fsync that was held
    /// and failed at the end. Such a node is started again as those are that ended before.
    fn late_ends(&mut self) -> Result<Vec<usize>> {
        let mut ended = Vec::new();
        for node in self.survivors.clone() {
            if self.is_late_end(node)? {
                self.survivors.remove(&node);
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

    /// Waits until an operation of a client is acknowledged that goes on for ever. What is broken, if
    /// none is: one of them is enough, for another may stay with a node that does not serve any more.
    pub(super) fn progress(&mut self) -> Result<Vec<String>> {
        let acknowledged = |runner: &Self| -> Vec<u64> {
            let clients = runner.clients.all.iter();
            let endless = clients.filter(|client| client.config.endless);
            endless.map(|client| client.counts.acknowledged).collect()
        };
        let has_one = |client: &RunningClient| client.config.endless && client.is_running();
        let before = acknowledged(self);
        let within = self.plan.progress_within * self.ground.file().patience;
        let begun = self.ground.now();
        while self.clients.all.iter().any(has_one) {
            self.hear()?;
            let now = acknowledged(self);
            if now.iter().zip(&before).any(|(now, before)| now > before) {
                self.happened(Happening::Progress);
                return self.start_late_ends();
            }
            if self.ground.now() > begun + within {
                return Ok(vec![format!(
                    "nothing was acknowledged to any client within {} s after everything was healed",
                    within.as_secs_f64()
                )]);
            }
            let broken = self.start_late_ends()?;
            if !broken.is_empty() {
                return Ok(broken);
            }
            self.ground.pass()?;
        }
        if !before.is_empty() {
            let what = "all endless clients had ended by themselves, so nobody saw whether operations are \
                        acknowledged again";
            self.problems.push(what.into());
        }
        self.start_late_ends()
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
