//! The end of a run: everything is healed, operations are acknowledged again, and clients end.

use cluster::Error as ClusterError;

use super::super::clients::RunningClient;
use super::super::ran::Happening;
use super::super::triggers::Waiting;
use super::Runner;
use super::faults::after_disk_errors;
use crate::error::Result;

impl Runner<'_> {
    /// Ends everything, and waits until all nodes are ready. What is broken, if one is not.
    pub(super) fn heal(&mut self) -> Result<Vec<String>> {
        self.note_ends_that_never_came();
        self.undo_all();
        self.refuse_unusable()?;
        self.ground.heal_all()?;
        let count = self.ground.file().nodes.len();
        for node in 0..count {
            self.ground.resume(&[node])?;
            if !self.ground.is_running(node)? {
                self.ground.restart(node)?;
                if !self.returning.iter().any(|(other, _)| *other == node) {
                    self.returning.push((node, None));
                }
            }
            self.ground.begin_time(node);
        }
        let broken = self.wait_for_all()?;
        if broken.is_empty() {
            self.happened(Happening::Healed);
        }
        Ok(broken)
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

    /// Waits until all nodes are ready. What is broken, if one will not be.
    fn wait_for_all(&mut self) -> Result<Vec<String>> {
        let count = self.ground.file().nodes.len();
        let mut left: Vec<_> = (0..count).collect();
        let mut broken = Vec::new();
        while !left.is_empty() {
            self.hear()?;
            self.look_after_returning()?;
            let mut still = Vec::new();
            for node in left {
                match self.ground.is_ready(node) {
                    Ok(true) => {}
                    Ok(false) => still.push(node),
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
            left = still;
            self.ground.pass()?;
        }
        self.look_after_returning()?;
        Ok(broken)
    }

    /// Waits until an operation of a client is acknowledged that goes on for ever. What is broken, if
    /// none is: one of them is enough, for another may stay with a node that does not serve any more.
    pub(super) fn progress(&mut self) -> Result<Option<String>> {
        let endless = |runner: &Self| {
            let clients = runner.clients.all.iter();
            let endless = clients.filter(|client| client.config.endless && client.is_running());
            endless
                .map(|client| client.counts.acknowledged)
                .sum::<u64>()
        };
        let has_one = |client: &RunningClient| client.config.endless && client.is_running();
        let before = endless(self);
        let within = self.plan.progress_within * self.ground.file().patience;
        let begun = self.ground.now();
        while self.clients.all.iter().any(has_one) {
            self.hear()?;
            if endless(self) > before {
                self.happened(Happening::Progress);
                break;
            }
            if self.ground.now() > begun + within {
                return Ok(Some(format!(
                    "nothing was acknowledged to any client within {} s after everything was healed",
                    within.as_secs_f64()
                )));
            }
            self.ground.pass()?;
        }
        Ok(None)
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
            let late = clients.filter(|client| now > begun + client.config.ends_within);
            late.for_each(|client| client.kill(self.ground));
            self.ground.pass()?;
        }
        Ok(())
    }
}
