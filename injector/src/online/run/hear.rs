//! What clients, nodes, logs and the probe say while a plan runs.

use std::time::Duration;

use cluster::Error as ClusterError;

use super::super::facts::LogTime;
use super::super::ran::{Happening, NO_FAULT};
use super::super::roles::Roles;
use super::Runner;
use crate::error::Result;

impl Runner<'_> {
    /// Takes what clients, nodes, logs and the probe say.
    pub(super) fn hear(&mut self) -> Result<()> {
        if (self.cancelled)() {
            return Err(ClusterError::Interrupted.into());
        }
        self.give_turn();
        for place in self.clients.hear(self.ground)? {
            self.client_ended(place);
        }
        self.end_late_clients();
        self.hear_ends();
        self.hear_logs();
        for (node, words) in self.calls.tick() {
            let node = self.name(node);
            self.happened(Happening::Call { node, words });
        }
        self.hear_probe();
        self.look_at_messages();
        self.look_for_sometimes();
        Ok(())
    }

    /// Gives the next turn to a client that takes turns: not before it was looked what comes of the answer to
    /// the one before it, or of the start of the clients.
    fn give_turn(&mut self) {
        if self.looks > 0 {
            let disorder = self.clients.give_turn(self.ground, self.is_over);
            self.problems.extend(disorder);
        }
    }

    /// Takes which nodes have ended by themselves. Of one that was killed it is not known by whom: what is
    /// broken then accuses nobody.
    pub(super) fn hear_ends(&mut self) {
        for (node, how) in self.ground.ends() {
            self.restarts.ended(node, self.ground.now());
            self.look_at_end(node, &how);
            let node = self.name(node);
            if cluster::is_killed(&how) {
                self.doubts.push(format!("{node} {how}; {NO_FAULT}"));
            }
            self.happened(Happening::NodeEnded { node, how });
        }
    }

    /// Takes what nodes log, and keeps when they did.
    pub(super) fn hear_logs(&mut self) {
        self.logged.clear();
        self.looks += 1;
        let time = self.since_begin(self.ground.now());
        for node in 0..self.logs.len() {
            let before = self.logs[node].read_to();
            let lines = self.logs[node].lines();
            self.logged
                .extend(lines.into_iter().map(|line| (node, line)));
            let to = self.logs[node].read_to();
            if to > before {
                let node = self.name(node);
                self.log_times.push(LogTime { node, time, to });
            }
        }
        self.look_at_logged(time);
    }

    fn end_late_clients(&mut self) {
        for client in &mut self.clients.all {
            if client.is_late(self.ground.now()) {
                client.kill(self.ground);
                client.ended = Some(cluster::Ending::Unknown);
                let (name, within) = (&client.config.name, client.config.config.within);
                self.problems
                    .push(format!("client {name} did not end within {within:?}"));
            }
        }
    }

    fn look_for_sometimes(&mut self) {
        if let Some(mut sometimes) = self.sometimes.take() {
            sometimes.look(&self.seen());
            self.sometimes = Some(sometimes);
        }
    }

    fn client_ended(&mut self, place: usize) {
        let client = &self.clients.all[place];
        let how = client.ended.expect("it has ended").to_string();
        let name = client.config.name.clone();
        let is_bad = client.ended != Some(cluster::Ending::Status(0));
        if is_bad && self.last.placed.is_none() && !self.is_over {
            self.problems
                .push(format!("client {name} {how} before there was a fault"));
        }
        self.happened(Happening::ClientEnded { client: name, how });
    }

    fn hear_probe(&mut self) {
        let Some(probe) = &mut self.probe else { return };
        let rests = self.ground.probe_rests();
        let rests = if self.is_quiet { rests } else { Duration::ZERO };
        match probe.look(self.ground, rests) {
            None => {}
            Some(Ok(roles)) => {
                let wrong = roles.wrong.clone();
                let before = self.roles.replace(roles);
                self.tell_roles(before.as_ref());
                let was_wrong = before.and_then(|before| before.wrong);
                if let Some(why) = wrong.filter(|why| was_wrong.as_ref() != Some(why)) {
                    self.happened(Happening::ProbeFailed { why });
                }
            }
            Some(Err(why)) => {
                let said = Happening::ProbeFailed { why };
                if self.events.last().is_none_or(|event| event.what != said) {
                    self.happened(said);
                }
            }
        }
    }

    /// Tells of the roles that were others before.
    pub(super) fn tell_roles(&mut self, before: Option<&Roles>) {
        let roles = self.roles.clone();
        if let Some(roles) = &roles {
            self.calls.know_roles(roles);
            self.disk_requests
                .know_roles(self.ground.file(), Some(roles));
        }
        for (node, role) in roles.iter().flat_map(|roles| &roles.of) {
            let had = before.and_then(|roles| roles.of.get(node));
            if had.is_none_or(|had| had.role != role.role) {
                self.happened(Happening::Role {
                    node: self.name(*node),
                    role: role.role.clone(),
                    more: role.more.clone(),
                });
            }
        }
    }
}
