//! A run in namespaces of the running kernel: real time, and any program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use block_dev::{Fault, Image, Onlooker, Predicate};
use cluster::{
    Areas, Background, Cluster, ClusterFile, Disk, Ending, Error, Member, NodeEnd, Reading, Result,
    Settings, UNUSABLE_DISK, Verdict,
};
use simulation::{Carried, Limit, Link, Ports, Until};

use super::calls::Calls;
use super::ground::{Ground, Loses, ProgramId};
use super::looks::{After, DataLooks, Look};
use super::worse::Worse;

/// How often it is looked what has happened.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A thread reads each line at once. That it is woken may take it longer once.
const LINES_LATE_BY: Duration = Duration::from_millis(2);

/// What a link is like that is made worse: those of simulated machines, but for the jitter, so that
/// what is late is late here, too.
const CABLE: Link = Link {
    jitter_ns: 0,
    ..Link::USUAL
};

/// A cluster in namespaces.
pub struct Namespaces<'a> {
    cluster: &'a mut Cluster,
    /// The directory of data of each node.
    directories: &'a [PathBuf],
    /// Whose disks cannot be mounted since their power failed, and why. These are down for good.
    unmountable: BTreeMap<usize, String>,
    began: Instant,
    ends: Option<Receiver<NodeEnd>>,
    programs: Vec<Option<Background>>,
    calls: Rc<Calls>,
    data_looks: DataLooks,
    /// What is drawn of links comes from.
    seed: u64,
    cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Namespaces<'a> {
    /// A cluster of which no node is started, the directory of data of each node, and what is drawn of
    /// links comes from.
    pub fn new(
        cluster: &'a mut Cluster,
        directories: &'a [PathBuf],
        seed: u64,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            cluster,
            directories,
            unmountable: BTreeMap::new(),
            began: Instant::now(),
            ends: None,
            programs: Vec::new(),
            calls: Rc::default(),
            data_looks: DataLooks::default(),
            seed,
            cancelled,
        }
    }

    fn disk(&mut self, node: usize) -> Result<&mut Disk> {
        let node = self.cluster.node(node);
        let name = node.config().name.clone();
        node.disk().ok_or(Error::NoDisk(name))
    }

    fn program(&mut self, program: ProgramId) -> Option<&mut Background> {
        self.programs[program].as_mut()
    }

    /// Looks at the directory of data of a node of which nothing runs, if directories are looked at.
    fn look(&mut self, node: usize, after: After) {
        let Some(reading) = self.data_looks.reading else {
            return;
        };
        if !self.file().nodes[node].has_data || self.unmountable.contains_key(&node) {
            return;
        }
        let listed = || cluster::listed(&self.directories[node], reading);
        let data = self.data_looks.refuses(node);
        let data = data.unwrap_or_else(|| listed().map_err(|error| error.to_string()));
        let at = self.now();
        self.data_looks.add(Look {
            node,
            after,
            at,
            data,
        });
    }
}

impl Ground for Namespaces<'_> {
    fn file(&self) -> &ClusterFile {
        self.cluster.file()
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pass(&mut self) -> Result<()> {
        std::thread::sleep(LOOK_EVERY);
        Ok(())
    }

    fn traces_inside(&self) -> bool {
        false
    }

    fn follow_calls(&mut self, calls: &Rc<Calls>) -> Result<()> {
        self.calls = Rc::clone(calls);
        Ok(())
    }

    fn agree_on_calls(&mut self) -> Result<()> {
        // What is said to a desk here holds when it was said.
        Ok(())
    }

    fn start(&mut self, places: usize) -> Result<()> {
        for _ in 1..places {
            self.cluster.add_client()?;
        }
        self.ends = Some(self.cluster.ends());
        self.cluster.start(&mut Settings {
            directories: self.directories,
            first: true,
            turns: None,
            starter: &mut &*self.calls,
            cancelled: self.cancelled,
        })?;
        self.cluster.prepare(self.cancelled)?;
        for node in self.cluster.nodes() {
            if let Some(disk) = node.disk() {
                disk.sync()?;
            }
        }
        self.cluster.refuse_end()
    }

    fn end(&mut self) {
        self.cluster.kill();
    }

    fn log(&self, node: usize) -> PathBuf {
        self.cluster.log(&self.cluster.file().nodes[node].name)
    }

    fn logs_since(&mut self, node: usize) -> Result<Option<u64>> {
        self.cluster.node(node).logs_since()
    }

    fn ends(&mut self) -> Vec<(usize, String)> {
        let ends = self.ends.iter().flat_map(Receiver::try_iter);
        let ends = ends.filter(|end| !end.asked);
        ends.map(|end| (end.node, end.how.to_string())).collect()
    }

    fn is_running(&mut self, node: usize) -> Result<bool> {
        self.cluster.node(node).is_running()
    }

    fn is_ready(&mut self, node: usize) -> Result<bool> {
        let handle = self.cluster.node(node);
        match self.unmountable.get(&node) {
            Some(why) => Err(Error::NotReady {
                node: handle.config().name.clone(),
                what: format!("{UNUSABLE_DISK}: {why}"),
                tail: Vec::new(),
            }),
            None => handle.is_ready(),
        }
    }

    fn begin_time(&mut self, node: usize) {
        self.cluster.node(node).begin_time();
    }

    fn kill(&mut self, nodes: &[usize]) -> Result<()> {
        for node in nodes {
            self.cluster.node(*node).kill();
        }
        Ok(())
    }

    fn power_loss(&mut self, nodes: &[usize], loses: &mut Loses) -> Result<Vec<usize>> {
        for node in nodes {
            self.disk(*node)?;
        }
        for node in nodes {
            self.cluster.node(*node).power_off()?;
            self.calls.pause(*node, false);
        }
        self.data_looks.power_failed(nodes);
        let mut lost = Vec::new();
        for place in nodes {
            let node = self.cluster.node(*place);
            let cut = node.power_cut(|log| loses(*place, log))?;
            match cut.unmountable {
                Some(why) => drop(self.unmountable.insert(*place, why)),
                None => drop(self.unmountable.remove(place)),
            }
            lost.push(cut.lost.len());
        }
        Ok(lost)
    }

    fn pause(&mut self, nodes: &[usize]) -> Result<()> {
        // Those that another fault has stopped stay as they are.
        let mut going = nodes.to_vec();
        going.retain(|node| !self.cluster.node(*node).is_paused());
        for (place, node) in going.iter().enumerate() {
            // Nobody who is held goes on meanwhile.
            self.calls.pause(*node, true);
            if let Err(error) = self.cluster.node(*node).pause() {
                self.calls.pause(*node, false);
                // That is the error to tell.
                let _ = self.resume(&going[..place]);
                return Err(error);
            }
        }
        Ok(())
    }

    fn freeze(&mut self, nodes: &[usize]) -> Result<()> {
        let names = nodes.iter().map(|node| &*self.file().nodes[*node].name);
        Err(Error::Command {
            whose: names.collect::<Vec<_>>().join(", "),
            what: "cannot be frozen: all nodes share this machine's clock".into(),
        })
    }

    fn move_clocks(&mut self, nodes: &[usize], _: i64) -> Result<()> {
        let names = nodes.iter().map(|node| &*self.file().nodes[*node].name);
        Err(Error::Command {
            whose: names.collect::<Vec<_>>().join(", "),
            what: "has no clock of its own that could jump: all nodes share this machine's".into(),
        })
    }

    fn move_clocks_back(&mut self, _: &[usize], _: i64) -> Result<()> {
        Ok(())
    }

    fn drift_clocks(&mut self, nodes: &[usize], _: i32) -> Result<()> {
        let names = nodes.iter().map(|node| &*self.file().nodes[*node].name);
        Err(Error::Command {
            whose: names.collect::<Vec<_>>().join(", "),
            what: "has no clock of its own that could drift: all nodes share this machine's".into(),
        })
    }

    fn end_drifts(&mut self, _: &[usize]) -> Result<()> {
        Ok(())
    }

    fn answer_some(
        &mut self,
        node: usize,
        (fault, times): (Fault, u64),
        hits: Predicate,
    ) -> Result<()> {
        self.disk(node)?.answer_some(fault, times, hits)?;
        let now = self.now();
        self.data_looks.disk_is_faulty(node, fault, now);
        Ok(())
    }

    fn areas(&mut self, node: usize) -> Result<Option<Areas>> {
        let image = Image::new(Arc::clone(self.disk(node)?.base()));
        Ok(Areas::of_ext(&|offset, bytes| image.read(offset, bytes)))
    }

    fn look_at_requests(&mut self, node: usize, onlooker: Arc<dyn Onlooker>) -> Result<()> {
        self.disk(node)?.set_onlooker(onlooker);
        Ok(())
    }

    fn spare_requests(&mut self, node: usize) -> Result<()> {
        self.disk(node)?.spare_requests()?;
        self.data_looks.disk_is_spared(node);
        Ok(())
    }

    fn resume(&mut self, nodes: &[usize]) -> Result<()> {
        for place in nodes {
            let node = self.cluster.node(*place);
            node.resume()?;
            self.calls.pause(*place, false);
            if node.is_paused() {
                return Err(Error::Command {
                    whose: node.config().name.clone(),
                    what: "is still paused".into(),
                });
            }
        }
        Ok(())
    }

    fn restart(&mut self, node: usize) -> Result<()> {
        if self.unmountable.contains_key(&node) {
            // There is no directory to start it in, as whoever asks whether it is ready is told.
            return Ok(());
        }
        let after = self.data_looks.begins(node);
        if self.data_looks.reading.is_some() {
            // What is left of it would be killed next.
            self.cluster.node(node).kill();
            self.cluster.node(node).unseen(true);
            self.look(node, after);
            self.cluster.node(node).unseen(false);
        }
        self.cluster.node(node).restart(&mut &*self.calls)
    }

    fn look_at_data(&mut self, reading: Reading) {
        self.data_looks.reading = Some(reading);
    }

    fn look_at_the_end(&mut self) -> Result<()> {
        self.cluster.kill();
        for node in 0..self.file().nodes.len() {
            // Of one that was not started again it is what its disk has.
            let after = match self.data_looks.begins(node) {
                After::PowerLoss => After::PowerLoss,
                After::Stop | After::Run => After::Run,
            };
            self.look(node, after);
        }
        Ok(())
    }

    fn looks(&mut self) -> Vec<Look> {
        self.data_looks.take()
    }

    fn cut(&mut self, directions: &[(Member, Member)]) -> Result<()> {
        let links = self.cluster.links();
        links.cut(directions.iter().copied())?;
        links.verify()
    }

    fn heal(&mut self, directions: &[(Member, Member)]) -> Result<()> {
        let links = self.cluster.links();
        links.heal(directions.iter().copied())?;
        links.verify()
    }

    fn heal_all(&mut self) -> Result<()> {
        let links = self.cluster.links();
        links.heal_all()?;
        links.verify()
    }

    fn cut_once(
        &mut self,
        cut: &[(Member, Member)],
        counted: &[(Member, Member)],
        until: Until,
    ) -> Result<()> {
        let links = self.cluster.links();
        links.limit(cut.iter().copied(), counted.iter().copied(), until)?;
        links.verify()
    }

    fn limited(&self) -> Option<Limit> {
        self.cluster.links().limited()
    }

    fn limit_reached(&self) -> Option<Duration> {
        let reached = self.cluster.links().limit_reached()?;
        Some(reached.saturating_duration_since(self.began))
    }

    fn verify_limit(&mut self) -> Result<()> {
        self.cluster.links().verify()
    }

    fn cut_limited(&mut self) -> Result<()> {
        let links = self.cluster.links();
        links.cut_limited()?;
        links.verify()
    }

    fn lift_limit(&mut self) -> Result<()> {
        let links = self.cluster.links();
        links.lift_limit()?;
        links.verify()
    }

    fn count_sent(&mut self) -> Result<()> {
        self.cluster.links().count()
    }

    fn carried(&self, directions: &[(Member, Member)]) -> Carried {
        self.cluster.links().carried(directions.iter().copied())
    }

    fn passed_by_ports(&self) -> Vec<((usize, usize), Ports, Carried)> {
        let nodes = self.cluster.file().nodes.len();
        self.cluster.links().carried_by_ports(nodes)
    }

    fn uncounted(&self) -> u64 {
        self.cluster.links().uncounted()
    }

    fn set_links(&mut self, directions: &[(Member, Member)], worse: Option<Worse>) -> Result<()> {
        let links = self.cluster.links();
        let link = worse.map(|worse| worse.than(CABLE));
        links.set(directions.iter().copied(), link, self.seed)?;
        links.verify()
    }

    fn run(
        &mut self,
        place: usize,
        whose: &str,
        words: &[String],
        variables: &[(&str, String)],
    ) -> Result<ProgramId> {
        let client = self.cluster.client(place);
        let mut command = client.command(words);
        let variables = variables.iter();
        command.envs(variables.map(|(name, value)| (*name, value)));
        let program = Background::start(whose, command, &client.log())?;
        self.programs.push(Some(program));
        Ok(self.programs.len() - 1)
    }

    fn lines(&mut self, program: ProgramId) -> Result<Vec<(Duration, Vec<u8>)>> {
        let began = self.began;
        let Some(program) = self.program(program) else {
            return Ok(Vec::new());
        };
        let lines = program.lines()?.into_iter();
        let timed = lines.map(|(at, line)| (at.saturating_duration_since(began), line));
        Ok(timed.collect())
    }

    fn lines_are_late_by(&self) -> Duration {
        LINES_LATE_BY
    }

    fn ask(&mut self, program: ProgramId, line: &str) {
        if let Some(program) = self.program(program) {
            program.ask(line);
        }
    }

    fn ended(&mut self, program: ProgramId) -> Result<Option<Ending>> {
        self.program(program)
            .map_or(Ok(Some(Ending::Unknown)), Background::ended)
    }

    fn ask_to_end(&mut self, program: ProgramId) {
        if let Some(program) = self.program(program) {
            program.ask_to_end();
        }
    }

    fn forget(&mut self, program: ProgramId) {
        self.programs[program] = None;
    }

    fn check(&mut self, acknowledgements: &Path) -> Result<Verdict> {
        self.cluster.run_check(acknowledgements, self.cancelled)
    }
}
