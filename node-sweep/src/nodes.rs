use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cluster::{Cluster, ClusterFile, Error, Settings, Spawn};
use local_fs::enter_mount_namespace;
use pace_rules::nodes::Run;
use replayer::Interrupt;

use crate::bay::Bay;
use crate::check::Verdict;
use crate::states::Made;
use crate::sweep::Subject;

/// How many times as long everything may take when a state is looked at again that seems broken: this
/// machine may have been busy with something else.
const PATIENCE: u32 = 3;

/// A cluster that is started on each crash state, asked by its check, and killed.
pub struct Nodes {
    cluster: Cluster,
    /// What that is made of.
    file: ClusterFile,
    directory: PathBuf,
    /// For each node of the cluster file, which disk of a state is its own, if it has one.
    places: Vec<Option<usize>>,
    /// Where those are, of the same nodes.
    bays: Vec<Bay>,
    /// Whether the thread has a mount namespace of its own by now.
    is_alone: bool,
    /// How many states there were.
    count: u64,
    interrupt: Interrupt,
}

impl Nodes {
    /// One that makes its directories in `directory`, which is nobody else's.
    ///
    /// # Errors
    /// If the network cannot be made, or the run is not one of this cluster.
    pub fn new(file: &ClusterFile, run: &Run, directory: PathBuf, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let recorded: Vec<_> = run.nodes.iter().filter(|node| !node.initial.is_empty()).collect();
        let mut places = Vec::new();
        for node in &file.nodes {
            let place = recorded.iter().position(|recorded| recorded.name == node.name);
            if place.is_none() && node.has_data {
                bail!("nothing was recorded of node {}: record the cluster again", node.name);
            }
            places.push(place);
        }
        let cluster = Cluster::new(file, &directory.join("logs"))?;
        let bays = places.iter().map(|_| Bay::default()).collect();
        Ok(Self {
            cluster,
            file: file.clone(),
            directory,
            places,
            bays,
            is_alone: false,
            count: 0,
            interrupt: interrupt.clone(),
        })
    }

    /// Looks with a cluster of which nothing has been there before: no network, no check that runs.
    fn look_again(&mut self, state: &Made, place: &Path) -> anyhow::Result<Verdict> {
        let patient = Cluster::new(&self.file.patient(PATIENCE), &self.directory.join("logs"))?;
        let usual = std::mem::replace(&mut self.cluster, patient);
        let verdict = self.look(state, place);
        self.cluster = usual;
        verdict
    }

    fn look(&mut self, state: &Made, place: &Path) -> anyhow::Result<Verdict> {
        let mut directories = Vec::new();
        for ((number, node), bay) in self.places.iter().enumerate().zip(&mut self.bays) {
            let path = place.join(format!("node-{number}"));
            let put = node.map(|node| bay.put(&state.disks[node], &path)).transpose()?;
            match put.unwrap_or(Ok(path)) {
                Ok(path) => directories.push(path),
                Err(why) => {
                    let name = &self.cluster.file().nodes[number].name;
                    return Ok(Verdict::Broken(vec![format!("node {name}: {why}")]));
                }
            }
        }
        let acks = place.join("acks");
        fs::write(&acks, &state.acknowledged).with_context(|| format!("write {}", acks.display()))?;
        let interrupt = self.interrupt.clone();
        let cancelled = || interrupt.requested();
        let settings =
            &mut Settings { directories: &directories, first: false, starter: &mut Spawn, cancelled: &cancelled };
        match self.cluster.start(settings) {
            Ok(()) => {}
            Err(Error::NotReady { node, what, .. }) => {
                // The others may do without it, but it was not asked for more than to start again.
                return Ok(Verdict::Broken(vec![format!("node {node} does not come up: it {what}")]));
            }
            Err(error @ Error::Interrupted) => return Ok(Verdict::NotMeasured(error.to_string())),
            Err(error) => return Err(error.into()),
        }
        Ok(match self.cluster.run_check(&acks, &cancelled)? {
            cluster::Verdict::Ok => Verdict::Ok,
            cluster::Verdict::Broken(words) => Verdict::Broken(words),
            cluster::Verdict::NotMeasured(why) => Verdict::NotMeasured(why),
        })
    }
}

impl Subject for Nodes {
    fn judge(&mut self, state: &Made, again: bool) -> anyhow::Result<Verdict> {
        self.count += 1;
        let place = self.directory.join(self.count.to_string());
        fs::create_dir(&place).with_context(|| format!("create {}", place.display()))?;
        if !self.is_alone {
            // What a node is started in has all that is mounted here, and keeps it.
            enter_mount_namespace()?;
            self.is_alone = true;
        }
        let verdict = if again { self.look_again(state, &place) } else { self.look(state, &place) };
        self.cluster.kill();
        self.bays.iter_mut().for_each(Bay::put_away);
        fs::remove_dir_all(&place).with_context(|| format!("remove {}", place.display()))?;
        verdict.map(|verdict| verdict.without(&place))
    }
}
