//! A run on simulated machines: virtual time, and the same again for the same seed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block_dev::{Fault, Onlooker, Predicate};
use cluster::{
    Areas, ClusterFile, Ending, Error, MachineTracer, Member, Reading, Result, SimulatedCluster,
    SimulatedProgram, Verdict,
};

use simulation::{Carried, Limit, OfPorts, Passed, Ports, Until};

use super::calls::Calls;
use super::ground::{Ground, Loses, ProgramId};
use super::looks::{After, DataLooks, Look};
use super::plan::FaultPlan;
use super::worse::Worse;

/// How much time passes at most before it is looked again.
const LOOK_EVERY_NS: u64 = 2_000_000;

/// How long the probe rests while it is quiet: to start it takes longer than all else then.
const PROBE_RESTS: Duration = Duration::from_secs(5);

/// How long tracers may take until they have done what they were told, in nanoseconds: they have nothing
/// to wait for.
const AGREE_WITHIN_NS: u64 = 10_000_000_000;

/// A cluster on simulated machines.
pub struct Simulated<'a> {
    cluster: SimulatedCluster,
    programs: Vec<SimulatedProgram>,
    cuts: BTreeSet<(Member, Member)>,
    /// The directions that are to be cut once a limit is reached.
    limited: BTreeSet<(Member, Member)>,
    /// Since what had passed the next limit counts, if not since now.
    counted_since: Option<Vec<Passed>>,
    /// The links that are worse than others.
    worse: BTreeSet<(Member, Member)>,
    /// Whose end was told.
    told: BTreeSet<usize>,
    calls: Rc<Calls>,
    /// Whose processes are stopped.
    paused: BTreeSet<usize>,
    data_looks: DataLooks,
    cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Simulated<'a> {
    /// A cluster whose machines are off.
    pub fn new(cluster: SimulatedCluster, cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            cluster,
            programs: Vec::new(),
            cuts: BTreeSet::new(),
            limited: BTreeSet::new(),
            counted_since: None,
            worse: BTreeSet::new(),
            told: BTreeSet::new(),
            calls: Rc::default(),
            paused: BTreeSet::new(),
            data_looks: DataLooks::default(),
            cancelled,
        }
    }

    /// Another one that goes on from here as this one does, for a plan; not while a fault is in place. `logs` is
    /// the directory for its logs. Nothing, if its nodes would be traced otherwise for that plan.
    ///
    /// # Errors
    /// If the machines cannot be forked.
    pub(super) fn fork(&mut self, plan: &FaultPlan, logs: &Path) -> Result<Option<Self>> {
        let Some(calls) = self.calls.forked(plan, self.cluster.file()) else {
            return Ok(None);
        };
        let calls = Rc::new(calls);
        let mut cluster = self.cluster.fork(logs)?;
        if !calls.nodes_inside().is_empty() {
            cluster.trace(Rc::clone(&calls) as Rc<dyn MachineTracer>);
        }
        Ok(Some(Self {
            cluster,
            programs: self.programs.clone(),
            cuts: self.cuts.clone(),
            limited: self.limited.clone(),
            counted_since: None,
            worse: self.worse.clone(),
            told: self.told.clone(),
            calls,
            paused: self.paused.clone(),
            data_looks: self.data_looks.clone(),
            cancelled: self.cancelled,
        }))
    }

    /// All that has passed by now.
    pub(super) fn passed(&mut self) -> Vec<Passed> {
        self.cluster
            .simulation()
            .network()
            .passed_by_ports()
            .collect()
    }

    /// How many such messages have passed in these directions since so much had.
    pub(super) fn messages_since(
        &mut self,
        counted: &[(Member, Member)],
        of: OfPorts,
        before: &[Passed],
    ) -> u64 {
        let counted = counted.iter().map(|way| self.machines(*way)).collect();
        let network = self.cluster.simulation().network();
        network.passed_since(&counted, of, before).messages
    }

    /// The next limit counts since so much had passed. There is no lookahead since then.
    pub(super) fn count_since(&mut self, passed: Vec<Passed>) {
        self.counted_since = Some(passed);
    }

    /// What is decided about system calls of nodes.
    pub(super) fn calls(&self) -> &Rc<Calls> {
        &self.calls
    }

    /// The machines.
    pub fn cluster(&mut self) -> &mut SimulatedCluster {
        &mut self.cluster
    }

    /// Has machines do something, or lets time pass. Tracers are told before what they were not told yet,
    /// and afterwards what they have said is known.
    fn go_on<T>(
        &mut self,
        what: impl FnOnce(&mut SimulatedCluster, &dyn Fn() -> bool) -> Result<T>,
    ) -> Result<T> {
        let nodes = self.calls.nodes_inside();
        for node in &nodes {
            for line in self.calls.take_orders(*node) {
                self.cluster.tell_tracer(*node, &line);
            }
        }
        let done = what(&mut self.cluster, self.cancelled);
        let heard: Result<()> = nodes.into_iter().try_for_each(|node| self.hear(node));
        let done = done?;
        heard?;
        self.refuse_lost_machines()?;
        Ok(done)
    }

    /// Fails if a kernel is gone for no reason in its machine, or the machine of a client for any: that is
    /// nothing of a node's.
    fn refuse_lost_machines(&self) -> Result<()> {
        self.cluster.refuse_lost_kernels()?;
        let nodes = self.file().nodes.len();
        let mut ended = self.cluster.ended().into_iter();
        match ended.find(|(machine, ..)| *machine >= nodes) {
            Some((_, node, how)) => Err(Error::Unable {
                node,
                what: format!("it {how}"),
            }),
            None => Ok(()),
        }
    }

    /// Takes what the tracer of a node has said, and looks whether there is one still.
    fn hear(&mut self, node: usize) -> Result<()> {
        for line in self.cluster.tracer_lines(node) {
            let heard = self.calls.hear(node, &line);
            heard.map_err(|error| self.tracer_of(node, &format!("said {error}")))?;
        }
        if !self.cluster.has_tracer(node) {
            self.calls.end(node);
        }
        self.cluster.refuse_lost_tracer(node)
    }

    fn tracer_of(&self, node: usize, what: &str) -> Error {
        Error::Command {
            whose: format!("the tracer of {}", self.file().nodes[node].name),
            what: what.to_owned(),
        }
    }

    /// A node whose tracer has not done yet what it was told.
    fn behind(&self) -> Option<usize> {
        let mut nodes = self.calls.nodes_inside().into_iter();
        nodes.find(|node| !self.calls.has_answered(*node))
    }

    /// Whether just those links are cut, or have a limit, that are to be.
    fn verify(&mut self) -> Result<()> {
        let ways = |all: &BTreeSet<_>| all.iter().map(|way| self.machines(*way)).collect();
        let (cuts, limited): (BTreeSet<_>, BTreeSet<_>) = (ways(&self.cuts), ways(&self.limited));
        let switch = self.cluster.simulation().switch();
        let is_limited = match switch.limited() {
            Some(now) => now.cut == limited,
            None => limited.is_empty(),
        };
        if *switch.cuts() == cuts && is_limited {
            return Ok(());
        }
        Err(Error::Command {
            whose: "the switch".into(),
            what: "has other links cut than those that were to be".into(),
        })
    }

    /// Waits until no machine is ahead of the others: what one has sent later than a fault of links begins or
    /// ends must not have passed them as they were before.
    fn meet(&mut self) -> Result<()> {
        self.cluster.meet(self.cancelled)
    }

    /// Cuts directions now.
    fn cut_now(&mut self, directions: &[(Member, Member)]) -> Result<()> {
        for cut in directions {
            self.cuts.insert(*cut);
            let (from, to) = self.machines(*cut);
            self.cluster.simulation().switch().cut(from, to);
        }
        self.verify()
    }

    /// What stopped nodes does so no more, as their processes are gone.
    fn stand_still_no_more(&mut self, nodes: &[usize]) {
        self.paused.retain(|node| !nodes.contains(node));
    }

    /// Looks at the directory of data of a node of which nothing runs, if directories are looked at and it is
    /// not yet to boot: then its machine is asked as soon as it has.
    fn look(&mut self, node: usize, after: After) -> Result<()> {
        let Some(reading) = self.data_looks.reading else {
            return Ok(());
        };
        let data = match self.data_looks.refuses(node) {
            Some(data) => Some(data),
            None => self.go_on(|cluster, cancelled| cluster.list_data(node, reading, cancelled))?,
        };
        if let Some(data) = data {
            let at = self.now();
            self.data_looks.add(Look {
                node,
                after,
                at,
                data,
            });
        }
        Ok(())
    }

    fn machines(&self, (from, to): (Member, Member)) -> (usize, usize) {
        let cluster = &self.cluster;
        (cluster.machine_of(from), cluster.machine_of(to))
    }
}

impl Ground for Simulated<'_> {
    fn file(&self) -> &ClusterFile {
        self.cluster.file()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.cluster.now_ns())
    }

    fn pass(&mut self) -> Result<()> {
        let until_ns = self.cluster.now_ns() + LOOK_EVERY_NS;
        self.cluster.let_requests_go();
        self.go_on(|cluster, cancelled| cluster.pass(until_ns, cancelled))
    }

    fn traces_inside(&self) -> bool {
        true
    }

    fn follow_calls(&mut self, calls: &Rc<Calls>) -> Result<()> {
        self.calls = Rc::clone(calls);
        self.cluster
            .trace(Rc::clone(calls) as Rc<dyn MachineTracer>);
        Ok(())
    }

    fn agree_on_calls(&mut self) -> Result<()> {
        let until_ns = self.cluster.now_ns() + AGREE_WITHIN_NS;
        self.calls.ask();
        while let Some(node) = self.behind() {
            if self.cluster.now_ns() > until_ns {
                return Err(self.tracer_of(node, "does not do what it was told"));
            }
            self.pass()?;
        }
        Ok(())
    }

    fn probe_rests(&self) -> Duration {
        PROBE_RESTS
    }

    fn start(&mut self, places: usize) -> Result<()> {
        for _ in 1..places {
            self.cluster.add_client()?;
        }
        self.go_on(|cluster, cancelled| {
            cluster.start(cancelled)?;
            cluster.prepare(cancelled)?;
            cluster.sync(cancelled)
        })?;
        self.cluster.refuse_end()
    }

    fn end(&mut self) {
        let nodes: Vec<_> = (0..self.file().nodes.len()).collect();
        self.cluster.simulation().switch_off(&nodes);
    }

    fn log(&self, node: usize) -> PathBuf {
        self.cluster.log(&self.file().nodes[node].name)
    }

    fn logs_since(&mut self, node: usize) -> Result<Option<u64>> {
        Ok(self.cluster.logs_since(node))
    }

    fn ends(&mut self) -> Vec<(usize, String)> {
        let mut ends = Vec::new();
        for node in 0..self.file().nodes.len() {
            match self.cluster.end_of(node) {
                None => drop(self.told.remove(&node)),
                Some(how) if self.told.insert(node) => ends.push((node, how)),
                Some(_) => {}
            }
        }
        ends
    }

    fn is_running(&mut self, node: usize) -> Result<bool> {
        Ok(self.cluster.is_running(node))
    }

    fn is_ready(&mut self, node: usize) -> Result<bool> {
        self.go_on(|cluster, cancelled| cluster.is_node_ready(node, cancelled))
    }

    fn begin_time(&mut self, node: usize) {
        self.cluster.begin_time(node);
    }

    fn kill(&mut self, nodes: &[usize]) -> Result<()> {
        self.go_on(|cluster, cancelled| cluster.kill_nodes(nodes, cancelled))?;
        self.stand_still_no_more(nodes);
        Ok(())
    }

    fn power_loss(&mut self, nodes: &[usize], loses: &mut Loses) -> Result<Vec<usize>> {
        let cuts = self.go_on(|cluster, cancelled| cluster.power_loss(nodes, loses, cancelled))?;
        self.data_looks.power_failed(nodes);
        self.stand_still_no_more(nodes);
        Ok(cuts.into_iter().map(|(_, cut)| cut.lost.len()).collect())
    }

    fn pause(&mut self, nodes: &[usize]) -> Result<()> {
        // Those that another fault has stopped stay as they are.
        let mut going = nodes.to_vec();
        going.retain(|node| !self.paused.contains(node));
        // Nobody who is held goes on meanwhile.
        let pause = |calls: &Calls, is| going.iter().for_each(|node| calls.pause(*node, is));
        pause(&self.calls, true);
        let paused = self.go_on(|cluster, cancelled| cluster.pause_nodes(&going, cancelled));
        if paused.is_ok() {
            self.paused.extend(going);
        } else {
            pause(&self.calls, false);
        }
        paused
    }

    fn freeze(&mut self, nodes: &[usize]) -> Result<()> {
        self.go_on(|cluster, cancelled| cluster.freeze_nodes(nodes, cancelled))?;
        for node in nodes {
            self.calls.freeze(*node, true);
        }
        Ok(())
    }

    fn move_clocks(&mut self, nodes: &[usize], by_ns: i64) -> Result<()> {
        for (place, node) in nodes.iter().enumerate() {
            let moved =
                self.go_on(|cluster, cancelled| cluster.move_clock(*node, by_ns, cancelled));
            if let Err(error) = moved {
                // That is the error to tell.
                let _ = self.move_clocks_back(&nodes[..place], by_ns);
                return Err(error);
            }
        }
        Ok(())
    }

    fn move_clocks_back(&mut self, nodes: &[usize], by_ns: i64) -> Result<()> {
        let moved = nodes.iter().map(|node| {
            self.go_on(|cluster, cancelled| cluster.move_clock_back(*node, by_ns, cancelled))
        });
        // All of them, also if one does not: nobody makes up for it later.
        let moved: Vec<_> = moved.collect();
        moved.into_iter().collect()
    }

    fn drift_clocks(&mut self, nodes: &[usize], ppm: i32) -> Result<()> {
        for (place, node) in nodes.iter().enumerate() {
            let drifts =
                self.go_on(|cluster, cancelled| cluster.drift_clock(*node, ppm, cancelled));
            if let Err(error) = drifts {
                // That is the error to tell.
                let _ = self.end_drifts(&nodes[..place]);
                return Err(error);
            }
        }
        Ok(())
    }

    fn end_drifts(&mut self, nodes: &[usize]) -> Result<()> {
        let ended = nodes
            .iter()
            .map(|node| self.go_on(|cluster, cancelled| cluster.end_drift(*node, cancelled)));
        // All of them, also if one has not counted as it should.
        let ended: Vec<_> = ended.collect();
        ended.into_iter().collect()
    }

    fn answer_some(&mut self, node: usize, how: (Fault, u64), hits: Predicate) -> Result<()> {
        self.cluster.answer_some(node, how, hits)?;
        let now = self.now();
        self.data_looks.disk_is_faulty(node, how.0, now);
        Ok(())
    }

    fn areas(&mut self, node: usize) -> Result<Option<Areas>> {
        let image = self.cluster.image_of(node)?;
        Ok(Areas::of_ext(&|offset, bytes| image.read(offset, bytes)))
    }

    fn look_at_requests(&mut self, node: usize, onlooker: Arc<dyn Onlooker>) -> Result<()> {
        self.cluster.look_at_requests(node, onlooker)
    }

    fn spare_requests(&mut self, node: usize) -> Result<()> {
        self.cluster.spare_requests(node)?;
        self.data_looks.disk_is_spared(node);
        Ok(())
    }

    fn resume(&mut self, nodes: &[usize]) -> Result<()> {
        for node in nodes {
            self.go_on(|cluster, cancelled| cluster.resume_node(*node, cancelled))?;
            self.calls.freeze(*node, false);
            self.calls.pause(*node, false);
            self.paused.remove(node);
        }
        // What a node was told meanwhile it does only now.
        self.agree_on_calls()
    }

    fn restart(&mut self, node: usize) -> Result<()> {
        if self.calls.is_inside(node) && self.cluster.simulation().is_on(node) {
            // What the tracer of what is left in it has said is to be known before there is a new one. That
            // is held until it is killed.
            if self.calls.tell(node) {
                self.agree_on_calls()?;
            }
            self.kill(&[node])?;
        }
        if self.data_looks.reading.is_some() && self.cluster.simulation().is_on(node) {
            // What is left in it would be killed next.
            self.kill(&[node])?;
            self.look(node, After::Stop)?;
        }
        self.go_on(|cluster, cancelled| cluster.restart_node(node, cancelled))?;
        self.stand_still_no_more(&[node]);
        // It may end at once, before it is looked whether it has not.
        self.told.remove(&node);
        Ok(())
    }

    fn look_at_data(&mut self, reading: Reading) {
        self.data_looks.reading = Some(reading);
        self.cluster.list_before_starts(reading);
    }

    fn look_at_the_end(&mut self) -> Result<()> {
        let nodes = 0..self.file().nodes.len();
        let on: Vec<_> = nodes
            .filter(|node| self.cluster.simulation().is_on(*node))
            .collect();
        self.kill(&on)?;
        on.into_iter()
            .try_for_each(|node| self.look(node, After::Run))
    }

    fn looks(&mut self) -> Vec<Look> {
        for (node, time_ns, data) in self.cluster.take_listed() {
            let at = Duration::from_nanos(time_ns);
            self.data_looks.add_of_boot(node, at, data);
        }
        self.data_looks.take()
    }

    fn cut(&mut self, directions: &[(Member, Member)]) -> Result<()> {
        self.meet()?;
        self.cut_now(directions)
    }

    fn heal(&mut self, directions: &[(Member, Member)]) -> Result<()> {
        self.meet()?;
        for cut in directions {
            self.cuts.remove(cut);
            let (from, to) = self.machines(*cut);
            self.cluster.simulation().switch().heal(from, to);
        }
        self.verify()
    }

    fn heal_all(&mut self) -> Result<()> {
        let worse: Vec<_> = self.worse.iter().copied().collect();
        self.set_links(&worse, None)?;
        self.lift_limit()?;
        let cuts: Vec<_> = self.cuts.iter().copied().collect();
        self.heal(&cuts)
    }

    fn cut_once(
        &mut self,
        cut: &[(Member, Member)],
        counted: &[(Member, Member)],
        until: Until,
    ) -> Result<()> {
        let before = self.counted_since.take();
        if before.is_none() {
            self.meet()?;
        }
        self.limited = cut.iter().copied().collect();
        let [cut, counted] =
            [cut, counted].map(|ways| ways.iter().map(|way| self.machines(*way)).collect());
        let switch = self.cluster.simulation().switch();
        match (before, until) {
            (Some(before), Until::With(nth, of)) => {
                switch.limit_since(cut, counted, (nth, of), &before);
            }
            _ => switch.limit(cut, counted, until),
        }
        self.verify()
    }

    fn limited(&self) -> Option<Limit> {
        self.cluster.limited()
    }

    fn limit_reached(&self) -> Option<Duration> {
        let reached_ns = self.limited()?.reached_ns()?;
        Some(Duration::from_nanos(reached_ns).min(self.now()))
    }

    fn verify_limit(&mut self) -> Result<()> {
        self.verify()
    }

    fn cut_limited(&mut self) -> Result<()> {
        let limited: Vec<_> = std::mem::take(&mut self.limited).into_iter().collect();
        self.cluster.simulation().switch().lift_limit();
        self.cut_now(&limited)
    }

    fn lift_limit(&mut self) -> Result<()> {
        self.limited.clear();
        self.cluster.simulation().switch().lift_limit();
        self.verify()
    }

    fn count_sent(&mut self) -> Result<()> {
        // The switch always does.
        Ok(())
    }

    fn carried(&self, directions: &[(Member, Member)]) -> Carried {
        let mut all = Carried::default();
        for direction in directions {
            all += self.cluster.carried(self.machines(*direction));
        }
        all
    }

    fn passed_by_ports(&self) -> Vec<((usize, usize), Ports, Carried)> {
        self.cluster.passed_by_ports()
    }

    fn uncounted(&self) -> u64 {
        // The switch sees all.
        0
    }

    fn set_links(&mut self, directions: &[(Member, Member)], worse: Option<Worse>) -> Result<()> {
        self.meet()?;
        for direction in directions {
            let (from, to) = self.machines(*direction);
            let switch = self.cluster.simulation().switch();
            if let Some(worse) = worse {
                self.worse.insert(*direction);
                switch.set_link(from, to, worse.than(switch.usual()));
            } else {
                self.worse.remove(direction);
                switch.reset_link(from, to);
            }
        }
        Ok(())
    }

    fn run(
        &mut self,
        place: usize,
        _: &str,
        words: &[String],
        variables: &[(&str, String)],
    ) -> Result<ProgramId> {
        let program = self.cluster.run_program(place, words, variables)?;
        self.programs.push(program);
        Ok(self.programs.len() - 1)
    }

    fn lines(&mut self, program: ProgramId) -> Result<Vec<(Duration, Vec<u8>)>> {
        let lines = self.cluster.program_lines(self.programs[program]);
        let lines = lines.into_iter();
        let timed = lines.map(|(line, time_ns)| (Duration::from_nanos(time_ns), line));
        Ok(timed.collect())
    }

    fn lines_are_late_by(&self) -> Duration {
        Duration::ZERO
    }

    fn ask(&mut self, program: ProgramId, line: &str) {
        self.cluster.tell_program(self.programs[program], line);
    }

    fn ended(&mut self, program: ProgramId) -> Result<Option<Ending>> {
        Ok(self.cluster.program_end(self.programs[program]))
    }

    fn ask_to_end(&mut self, program: ProgramId) {
        self.cluster.ask_program_to_end(self.programs[program]);
    }

    fn forget(&mut self, program: ProgramId) {
        self.cluster.end_program(self.programs[program]);
    }

    fn check(&mut self, acknowledgements: &Path) -> Result<Verdict> {
        let lines = std::fs::read(acknowledgements).map_err(|error| Error::System {
            doing: format!("read {}", acknowledgements.display()),
            error,
        })?;
        self.go_on(|cluster, cancelled| cluster.run_check(&lines, cancelled))
    }
}
