//! A run on simulated machines: virtual time, and the same again for the same seed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use block_dev::{Answer, Predicate};
use cluster::{
    ClusterFile, Ending, Error, Member, Result, SimulatedCluster, SimulatedProgram, Verdict,
};

use super::ground::{Ground, Loses, ProgramId};
use super::worse::Worse;

/// How much time passes at most before it is looked again.
const LOOK_EVERY_NS: u64 = 2_000_000;

/// How long the probe rests while it is quiet: to start it takes longer than all else then.
const PROBE_RESTS: Duration = Duration::from_secs(5);

/// A cluster on simulated machines.
pub struct Simulated<'a> {
    cluster: SimulatedCluster,
    programs: Vec<SimulatedProgram>,
    cuts: BTreeSet<(Member, Member)>,
    /// The links that are worse than others.
    worse: BTreeSet<(Member, Member)>,
    /// Whose end was told.
    told: BTreeSet<usize>,
    cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Simulated<'a> {
    /// A cluster whose machines are off.
    pub fn new(cluster: SimulatedCluster, cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            cluster,
            programs: Vec::new(),
            cuts: BTreeSet::new(),
            worse: BTreeSet::new(),
            told: BTreeSet::new(),
            cancelled,
        }
    }

    /// The machines.
    pub fn cluster(&mut self) -> &mut SimulatedCluster {
        &mut self.cluster
    }

    /// Whether just those links are cut that are to be.
    fn verify(&mut self) -> Result<()> {
        let wanted: BTreeSet<_> = self.cuts.iter().map(|cut| self.machines(*cut)).collect();
        if *self.cluster.simulation().switch().cuts() == wanted {
            return Ok(());
        }
        Err(Error::Command {
            whose: "the switch".into(),
            what: "has other links cut than those that were to be".into(),
        })
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
        self.cluster.pass(until_ns, self.cancelled)
    }

    fn probe_rests(&self) -> Duration {
        PROBE_RESTS
    }

    fn start(&mut self, places: usize) -> Result<()> {
        for _ in 1..places {
            self.cluster.add_client()?;
        }
        self.cluster.start(self.cancelled)?;
        self.cluster.prepare(self.cancelled)?;
        self.cluster.sync(self.cancelled)?;
        self.cluster.refuse_end()
    }

    fn end(&mut self) {
        let nodes: Vec<_> = (0..self.file().nodes.len()).collect();
        self.cluster.simulation().switch_off(&nodes);
    }

    fn log(&self, node: usize) -> PathBuf {
        self.cluster.log(&self.file().nodes[node].name)
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
        self.cluster.is_node_ready(node, self.cancelled)
    }

    fn begin_time(&mut self, node: usize) {
        self.cluster.begin_time(node);
    }

    fn kill(&mut self, nodes: &[usize]) -> Result<()> {
        self.cluster.kill_nodes(nodes, self.cancelled)
    }

    fn power_loss(&mut self, nodes: &[usize], loses: &mut Loses) -> Result<Vec<usize>> {
        let cuts = self.cluster.power_loss(nodes, loses, self.cancelled)?;
        Ok(cuts.into_iter().map(|(_, cut)| cut.lost.len()).collect())
    }

    fn pause(&mut self, nodes: &[usize]) -> Result<()> {
        self.cluster.pause_nodes(nodes, self.cancelled)
    }

    fn freeze(&mut self, nodes: &[usize]) -> Result<()> {
        self.cluster.freeze_nodes(nodes, self.cancelled)
    }

    fn move_clocks(&mut self, nodes: &[usize], by_ns: i64) -> Result<()> {
        for (place, node) in nodes.iter().enumerate() {
            if let Err(error) = self.cluster.move_clock(*node, by_ns, self.cancelled) {
                // That is the error to tell.
                let _ = self.move_clocks_back(&nodes[..place], by_ns);
                return Err(error);
            }
        }
        Ok(())
    }

    fn move_clocks_back(&mut self, nodes: &[usize], by_ns: i64) -> Result<()> {
        let mut nodes = nodes.iter();
        nodes.try_for_each(|node| self.cluster.move_clock_back(*node, by_ns, self.cancelled))
    }

    fn answer_some(&mut self, node: usize, how: (Answer, u64), hits: Predicate) -> Result<()> {
        self.cluster.answer_some(node, how, hits)
    }

    fn spare_requests(&mut self, node: usize) -> Result<()> {
        self.cluster.spare_requests(node)
    }

    fn resume(&mut self, nodes: &[usize]) -> Result<()> {
        let mut nodes = nodes.iter();
        nodes.try_for_each(|node| self.cluster.resume_node(*node, self.cancelled))
    }

    fn restart(&mut self, node: usize) -> Result<()> {
        self.cluster.restart_node(node, self.cancelled)
    }

    fn cut(&mut self, directions: &[(Member, Member)]) -> Result<()> {
        for cut in directions {
            self.cuts.insert(*cut);
            let (from, to) = self.machines(*cut);
            self.cluster.simulation().switch().cut(from, to);
        }
        self.verify()
    }

    fn heal(&mut self, directions: &[(Member, Member)]) -> Result<()> {
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
        let cuts: Vec<_> = self.cuts.iter().copied().collect();
        self.heal(&cuts)
    }

    fn set_links(&mut self, directions: &[(Member, Member)], worse: Option<Worse>) -> Result<()> {
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

    fn lines(&mut self, program: ProgramId) -> Result<Vec<Vec<u8>>> {
        Ok(self.cluster.program_lines(self.programs[program]))
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
        self.cluster.run_check(&lines, self.cancelled)
    }
}
