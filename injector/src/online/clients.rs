//! The clients of a run, and what they have said.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use cluster::{Ending, SidedClient};
use serde_json::{Map, Value};

use super::ground::{Ground, ProgramId};
use super::plan::FaultPlan;
use super::scribe::{Scribe, operation_of};
use super::turns::{Disorder, Done, Turns};
use crate::laboratory::OPERATIONS;

/// Names a client to itself.
const CLIENT: &str = "CRASHPOINT_CLIENT";

/// Tells a client that it takes turns.
const TURNS: &str = "CRASHPOINT_TURNS";

/// What a client reads when it is its turn.
const TURN: &str = "turn";

/// Has the seed of the plan.
const SEED: &str = "CRASHPOINT_SEED";

/// What a client has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) invoked: u64,
    pub(super) acknowledged: u64,
    /// Operations that have ended, however that was.
    pub(super) answered: u64,
}

/// A client that runs, or ran.
#[derive(Clone)]
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
#[derive(Clone)]
struct Said {
    line: Vec<u8>,
    /// What it is as a line of a history.
    operation: Option<Map<String, Value>>,
    /// When it came.
    time: Duration,
}

impl Said {
    fn new(time: Duration, line: Vec<u8>) -> Self {
        Self {
            operation: operation_of(&line),
            line,
            time,
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
    turns: Option<Turns>,
    kept: Scribe,
    begun: Duration,
    /// The time of what was kept last.
    kept_at: Duration,
    /// When they were heard last.
    heard: Duration,
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
        let turns = ground.file().turns.as_ref().map(Turns::new);
        for (place, config) in ground.file().all_clients().into_iter().enumerate() {
            let mut variables = vec![(CLIENT, config.name.clone()), (SEED, plan.seed.to_string())];
            variables.extend(plan.operations.map(|most| (OPERATIONS, most.to_string())));
            let takes_turns = turns.as_ref().is_some_and(|turns| turns.has(place));
            variables.extend(takes_turns.then(|| (TURNS, "1".to_owned())));
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
            turns,
            kept: Scribe::new(acknowledgements, history)?,
            begun,
            kept_at: begun,
            heard: begun,
        })
    }

    /// The same that go on in a fork. What they have said is copied: acknowledgements and history.
    pub(super) fn forked(&self, from: [&Path; 2], to: [&Path; 2]) -> crate::Result<Self> {
        Ok(Self {
            all: self.all.clone(),
            turns: self.turns.clone(),
            kept: self.kept.of_copies(from, to)?,
            begun: self.begun,
            kept_at: self.kept_at,
            heard: self.heard,
        })
    }

    /// When they were started.
    pub(super) fn begun(&self) -> Duration {
        self.begun
    }

    /// Takes what they have said since. Returns those that have ended.
    ///
    /// What has to be right is that no operation seems to have begun after the end of another one that
    /// it overlapped. So they are in the order in which they came, and an answer is as late as a call
    /// may seem to be, or as the next line of its own client: the order of these is known.
    pub(super) fn hear(&mut self, ground: &mut dyn Ground) -> crate::Result<Vec<usize>> {
        self.catch_up(ground)?;
        self.heard = ground.now();
        let mut ended = Vec::new();
        for (place, client) in self.all.iter_mut().enumerate() {
            if client.look_for_end(ground)? {
                ended.push(place);
            }
        }
        Ok(ended)
    }

    /// Gives the next turn, if the one before it is over. Returns who does something that is not in order,
    /// in words. Who was asked to end need not work any more.
    pub(super) fn give_turn(&mut self, ground: &mut dyn Ground, is_over: bool) -> Vec<String> {
        let Some(turns) = &mut self.turns else {
            return Vec::new();
        };
        // Nobody is late whose words were not heard since.
        let (heard, all) = (self.heard, &self.all);
        let done = |place: usize| all[place].done();
        let disorder = turns.disorder(heard, done);
        let within = turns.within();
        if let Some(place) = turns.pass(heard, done)
            && let Some(running) = self.all[place].running
        {
            turns.given_at(ground.now());
            ground.ask(running, TURN);
        }
        let told = disorder.into_iter();
        let told = told.filter(|(_, what)| !is_over || *what == Disorder::Early);
        told.map(|(place, what)| self.all[place].words_of(what, within))
            .collect()
    }

    /// Whose turns were over before their operations were, in words.
    pub(super) fn turns_cut_short(&self) -> Vec<String> {
        let turns = self.turns.iter();
        let cut_short = turns.flat_map(|turns| turns.cut_short().map(|of| (of, turns.within())));
        let words = cut_short.map(|((place, times), within)| {
            let name = &self.all[place].config.name;
            format!(
                "client {name} did not answer within {within:?} in {times} of its turns, so others went on"
            )
        });
        words.collect()
    }

    /// Takes and keeps what they have said by now, as far as nothing can come before it.
    pub(super) fn catch_up(&mut self, ground: &mut dyn Ground) -> crate::Result<()> {
        let now = ground.now();
        for client in &mut self.all {
            client.read(ground)?;
        }
        self.keep_until(now, ground.lines_are_late_by())
    }

    /// Keeps all that was said by now, whatever may come before it.
    pub(super) fn keep_rest(&mut self, ground: &mut dyn Ground) -> crate::Result<()> {
        self.keep_until(Duration::MAX, ground.lines_are_late_by())
    }

    /// Keeps what has its place before this time.
    fn keep_until(&mut self, end: Duration, late: Duration) -> crate::Result<()> {
        while let Some((time, place)) = next(self.all.iter().map(|client| &client.said), late)
            && time < end
        {
            let said = self.all[place].said.pop_front().expect("there is one");
            self.kept_at = self.kept_at.max(time);
            self.keep(place, said)?;
        }
        Ok(())
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

    /// Whether they are over, and each that never is was acknowledged something, or has ended all the same.
    pub(super) fn have_worked(&self) -> bool {
        let mut all = self.all.iter();
        all.all(|client| client.ended.is_some() || client.has_worked_for_ever())
    }

    /// One that has taken longer than it may, if there is one.
    pub(super) fn late(&self, now: Duration) -> Option<&str> {
        let late = self.all.iter().find(|client| client.is_late(now))?;
        Some(&late.config.name)
    }

    /// How many operations were acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.all
            .iter()
            .map(|client| client.counts.acknowledged)
            .sum()
    }

    /// The same of each of those that go on for ever, whether it still does or not.
    pub(super) fn acknowledged_to_endless(&self) -> Vec<u64> {
        let endless = self.all.iter().filter(|client| client.config.endless);
        endless.map(|client| client.counts.acknowledged).collect()
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
        counts.answered += u64::from(said.is_answer());
        match kind.map(Value::as_str) {
            Some(Some("invoke")) => counts.invoked += 1,
            None | Some(Some("ok")) => counts.acknowledged += 1,
            Some(_) => {}
        }
        let time_ns = self.since_begin(self.kept_at);
        let Said {
            line, operation, ..
        } = said;
        self.kept.keep_as(place, &line, operation, time_ns)
    }

    /// Keeps what happened to the cluster among the operations.
    pub(super) fn nemesis(&mut self, now: Duration, what: &str, words: &str) -> crate::Result<()> {
        // Times do not go back.
        self.kept_at = self.kept_at.max(now);
        let time_ns = self.since_begin(self.kept_at);
        self.kept.nemesis(what, words, time_ns)
    }

    fn since_begin(&self, at: Duration) -> u64 {
        at.saturating_sub(self.begun).as_nanos() as u64
    }
}

/// Which of several clients said what is next, and the time of its place. Where that is the same, calls
/// come first.
fn next<'a>(
    all: impl Iterator<Item = &'a VecDeque<Said>>,
    late: Duration,
) -> Option<(Duration, usize)> {
    let place_of = |said: &VecDeque<Said>| {
        let first = said.front()?;
        if !first.is_answer() {
            return Some((first.time, false));
        }
        let latest = first.time.saturating_add(late);
        Some((said.get(1).map_or(latest, |own| latest.min(own.time)), true))
    };
    let fronts = all.enumerate();
    let fronts = fronts.filter_map(|(place, said)| Some((place_of(said)?, place)));
    let ((time, _), place) = fronts.min()?;
    Some((time, place))
}

impl RunningClient {
    /// Takes what it has said since.
    pub(super) fn read(&mut self, ground: &mut dyn Ground) -> crate::Result<()> {
        if let Some(running) = self.running {
            let lines = ground.lines(running)?.into_iter();
            self.said
                .extend(lines.map(|(time, line)| Said::new(time, line)));
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

    /// What it has done, as far as turns go.
    fn done(&self) -> Done {
        Done {
            begun: self.counts.invoked,
            // Not all that ends is an operation that has begun.
            ended: self.counts.answered.min(self.counts.invoked),
            runs: self.is_running(),
        }
    }

    /// What it does that is not in order.
    fn words_of(&self, disorder: Disorder, within: Duration) -> String {
        let name = &self.config.name;
        match disorder {
            Disorder::Early => format!(
                "client {name} began an operation without its turn: it has to read a line on its standard \
                 input before each one"
            ),
            Disorder::Idle => format!(
                "client {name} had its turn, and began no operation within {within:?}: it has to read a line \
                 on its standard input, and then to print what it calls"
            ),
        }
    }

    /// Whether it goes on for ever, and was acknowledged something.
    fn has_worked_for_ever(&self) -> bool {
        self.config.endless && self.counts.acknowledged > 0
    }

    /// Whether it has done so many operations, and waits for no answer.
    pub(super) fn has_done(&self, most: u64) -> bool {
        let Counts {
            invoked,
            acknowledged,
            answered,
            ..
        } = self.counts;
        invoked.max(acknowledged) >= most && answered >= invoked
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

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_millis(2);

    /// What clients said, each the lines with their microseconds, in the order in which it is kept.
    fn kept(clients: &[&[(u64, &str)]], late: Duration) -> Vec<String> {
        let said = |lines: &&[(u64, &str)]| {
            let lines = lines.iter().map(|(time, line)| {
                let kind = line.split(' ').next().expect("a word");
                let line = format!("{{\"type\":\"{kind}\",\"is\":\"{line}\"}}");
                Said::new(Duration::from_micros(*time), line.into_bytes())
            });
            lines.collect::<VecDeque<_>>()
        };
        let mut all: Vec<_> = clients.iter().map(said).collect();
        let mut kept = Vec::new();
        while let Some((_, place)) = next(all.iter(), late) {
            let said = all[place].pop_front().expect("one");
            let operation = said.operation.expect("one");
            kept.push(operation["is"].as_str().expect("words").to_owned());
        }
        kept
    }

    #[test]
    fn what_came_while_nobody_took_it_is_in_the_order_in_which_it_came() {
        let reads = [
            (100, "ok a0"),
            (110, "invoke a1"),
            (9000, "ok a1"),
            (9010, "invoke a2"),
        ];
        let writes = [
            (50, "ok b0"),
            (60, "invoke b1"),
            (5000, "ok b1"),
            (5010, "invoke b2"),
        ];
        let expected = [
            "ok b0",
            "invoke b1",
            "ok a0",
            "invoke a1",
            "ok b1",
            "invoke b2",
            "ok a1",
            "invoke a2",
        ];
        assert_eq!(kept(&[&reads, &writes], LATE), expected);
        assert_eq!(kept(&[&writes, &reads], LATE), expected);
    }

    #[test]
    fn a_call_that_may_only_seem_to_have_come_after_an_answer_comes_before_it() {
        let (answer, call) = ([(100, "ok a0")], [(1900, "invoke b1")]);
        assert_eq!(kept(&[&answer, &call], LATE), ["invoke b1", "ok a0"]);
        assert_eq!(
            kept(&[&answer, &call], Duration::ZERO),
            ["ok a0", "invoke b1"]
        );
        let later = [(2200, "invoke b1")];
        assert_eq!(kept(&[&answer, &later], LATE), ["ok a0", "invoke b1"]);
        // The own next call was made after it.
        let own = [(100, "ok a0"), (150, "invoke a1")];
        assert_eq!(
            kept(&[&own, &call], LATE),
            ["ok a0", "invoke a1", "invoke b1"]
        );
        let same = [(150, "invoke b1")];
        assert_eq!(
            kept(&[&own, &same], LATE),
            ["invoke b1", "ok a0", "invoke a1"]
        );
    }
}
