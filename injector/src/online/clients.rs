//! The clients of a run, and what they have said.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use cluster::{Ending, SidedClient};
use serde_json::{Map, Value};

use super::ground::{Ground, ProgramId};
use super::plan::FaultPlan;
use super::scribe::{Scribe, operation_of};
use crate::laboratory::OPERATIONS;

/// Names a client to itself.
const CLIENT: &str = "CRASHPOINT_CLIENT";

/// Has the seed of the plan.
const SEED: &str = "CRASHPOINT_SEED";

/// What a client has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) invoked: u64,
    pub(super) acknowledged: u64,
}

/// A client that runs, or ran.
pub(super) struct RunningClient {
    pub(super) config: SidedClient,
    pub(super) counts: Counts,
    pub(super) ended: Option<Ending>,
    running: Option<ProgramId>,
    started: Duration,
    /// What it has said that has no place among what others said yet.
    said: VecDeque<Said>,
}

/// A line of a client.
struct Said {
    line: Vec<u8>,
    /// What it is as a line of a history.
    operation: Option<Map<String, Value>>,
    /// In which round it was read.
    round: u64,
}

impl Said {
    fn new(line: Vec<u8>, round: u64) -> Self {
        Self {
            operation: operation_of(&line),
            line,
            round,
        }
    }

    /// Whether an operation has ended.
    fn is_answer(&self) -> bool {
        let operation = self.operation.as_ref();
        operation.is_some_and(|operation| operation["type"] != "invoke")
    }
}

/// All of them, and where what they say is kept.
pub(super) struct Clients {
    pub(super) all: Vec<RunningClient>,
    kept: Scribe,
    begun: Duration,
    /// When they were last heard.
    now: Duration,
    round: u64,
}

impl Clients {
    /// Starts the clients, each at the place of its own number.
    pub(super) fn start(
        ground: &mut dyn Ground,
        plan: &FaultPlan,
        acknowledgements: &Path,
        history: &Path,
    ) -> crate::Result<Self> {
        let begun = ground.now();
        let mut all = Vec::new();
        for (place, config) in ground.file().all_clients().into_iter().enumerate() {
            let mut variables = vec![(CLIENT, config.name.clone()), (SEED, plan.seed.to_string())];
            variables.extend(plan.operations.map(|most| (OPERATIONS, most.to_string())));
            let whose = format!("client {}", config.name);
            let running = ground.run(place, &whose, &config.config.command, &variables)?;
            all.push(RunningClient {
                config,
                counts: Counts::default(),
                ended: None,
                running: Some(running),
                started: ground.now(),
                said: VecDeque::new(),
            });
        }
        Ok(Self {
            all,
            kept: Scribe::new(acknowledgements, history)?,
            begun,
            now: begun,
            round: 0,
        })
    }

    /// When they were started.
    pub(super) fn begun(&self) -> Duration {
        self.begun
    }

    /// Takes what they have said since. Returns those that have ended.
    ///
    /// Whoever reads several outputs one after the other does not see in which order they were
    /// written. What has to be right is that no operation seems to have begun after the end of
    /// another one that it overlapped. So an answer waits for a round in which all others were read
    /// after it: a call that comes later than that was made after it.
    pub(super) fn hear(&mut self, ground: &mut dyn Ground) -> crate::Result<Vec<usize>> {
        self.round += 1;
        self.now = ground.now();
        for client in &mut self.all {
            client.read(self.round, ground)?;
        }
        while let Some(place) = self.next() {
            let said = self.all[place].said.pop_front().expect("there is one");
            self.keep(place, said)?;
        }
        let mut ended = Vec::new();
        for (place, client) in self.all.iter_mut().enumerate() {
            if client.look_for_end(ground)? {
                ended.push(place);
            }
        }
        Ok(ended)
    }

    /// Whose line is the next: calls first.
    fn next(&self) -> Option<usize> {
        let find = |is_next: &dyn Fn(&Said) -> bool| {
            let mut all = self.all.iter();
            all.position(|client| client.said.front().is_some_and(is_next))
        };
        find(&|said| !said.is_answer()).or_else(|| find(&|said| said.round < self.round))
    }

    /// Of each process of the history the client's name.
    pub(super) fn processes(&self) -> Vec<String> {
        let names = self.all.iter().map(|client| client.config.name.as_str());
        self.kept.processes(&names.collect::<Vec<_>>())
    }

    /// Whether one still runs.
    pub(super) fn is_one_running(&self) -> bool {
        self.all.iter().any(RunningClient::is_running)
    }

    /// Whether all have ended, but for those that never do by themselves.
    pub(super) fn are_over(&self) -> bool {
        let mut finite = self.all.iter().filter(|client| !client.config.endless);
        finite.all(|client| client.ended.is_some())
    }

    /// How many operations were acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.all
            .iter()
            .map(|client| client.counts.acknowledged)
            .sum()
    }

    /// What one of them has done, or all have.
    pub(super) fn counts(&self, name: Option<&str>) -> Counts {
        let mut sum = Counts::default();
        for client in &self.all {
            if name.is_none_or(|name| client.config.name == name) {
                sum.lines += client.counts.lines;
                sum.invoked += client.counts.invoked;
                sum.acknowledged += client.counts.acknowledged;
            }
        }
        sum
    }

    /// Keeps a line of a client. One of a history is an object with a type; of a client that prints
    /// none, each line is an acknowledgement.
    fn keep(&mut self, place: usize, said: Said) -> crate::Result<()> {
        let counts = &mut self.all[place].counts;
        counts.lines += 1;
        let kind = said.operation.as_ref().map(|operation| &operation["type"]);
        match kind.map(Value::as_str) {
            Some(Some("invoke")) => counts.invoked += 1,
            None | Some(Some("ok")) => counts.acknowledged += 1,
            Some(_) => {}
        }
        let time_ns = self.since_begin(self.now);
        let Said {
            line, operation, ..
        } = said;
        self.kept.keep_as(place, &line, operation, time_ns)
    }

    /// Keeps what happened to the cluster among the operations.
    pub(super) fn nemesis(&mut self, now: Duration, what: &str, words: &str) -> crate::Result<()> {
        let time_ns = self.since_begin(now);
        self.kept.nemesis(what, words, time_ns)
    }

    fn since_begin(&self, at: Duration) -> u64 {
        at.saturating_sub(self.begun).as_nanos() as u64
    }
}

impl RunningClient {
    fn read(&mut self, round: u64, ground: &mut dyn Ground) -> crate::Result<()> {
        if let Some(running) = self.running {
            let lines = ground.lines(running)?.into_iter();
            self.said.extend(lines.map(|line| Said::new(line, round)));
        }
        Ok(())
    }

    /// Whether it has just ended, and all that it said has its place.
    fn look_for_end(&mut self, ground: &mut dyn Ground) -> crate::Result<bool> {
        let Some(running) = self.running.filter(|_| self.said.is_empty()) else {
            return Ok(false);
        };
        self.ended = ground.ended(running)?;
        if self.ended.is_some() {
            self.kill(ground);
        }
        Ok(self.ended.is_some())
    }

    /// Whether it has taken longer than it may.
    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.running.is_some() && now > self.started + self.config.config.within
    }

    /// Whether it runs.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Asks it to end.
    pub(super) fn ask_to_end(&self, ground: &mut dyn Ground) {
        if let Some(running) = self.running {
            ground.ask_to_end(running);
        }
    }

    /// Kills it.
    pub(super) fn kill(&mut self, ground: &mut dyn Ground) {
        if let Some(running) = self.running.take() {
            ground.forget(running);
        }
    }
}
