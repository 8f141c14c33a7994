use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use campaign::Interrupt;
use cluster::{Cluster, ClusterFile, Settings, Spawn};
use local_fs::enter_mount_namespace;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use trace::Run;

use crate::check::{Complaint, Verdict};
use crate::error::{Context as _, Error, Result};
use crate::mount_slot::MountSlot;
use crate::program::remove_tree;
use crate::starts::Turns;
use crate::states::CrashState;
use crate::sweep::Subject;

/// How many times as long everything may take when a state is looked at again that seems broken:
/// this machine may have been busy with something else.
const PATIENCE: u32 = 3;

/// A cluster that is started on each crash state, asked by its check, and killed.
pub struct Nodes {
    cluster: Cluster,
    /// What that is made of.
    file: ClusterFile,
    directory: PathBuf,
    /// For each node of the cluster file, which disk of a state is its own, if it has one.
    places: Vec<Option<usize>>,
    /// For each node of the run, which one of the cluster file it is, if it is one.
    numbers: Vec<Option<usize>>,
    /// Where those are, of the same nodes.
    slots: Vec<MountSlot>,
    /// Whether the thread has a mount namespace of its own by now.
    is_alone: bool,
    /// How many states there were.
    count: u64,
    interrupt: Interrupt,
}

/// What somebody needs who starts a cluster on a crash state.
pub struct Lent<'a> {
    /// The directories of its nodes, in the order of the cluster file.
    pub directories: &'a [PathBuf],
    /// The file with what had been acknowledged.
    pub acks: &'a Path,
    /// Who is started before whom, if they are not started together.
    pub turns: Option<cluster::Turns<'a>>,
}

impl Nodes {
    /// One that makes its directories in `directory`, which is nobody else's.
    ///
    /// # Errors
    /// If the network cannot be made, or the run is not one of this cluster.
    pub fn new(
        file: &ClusterFile,
        run: &Run,
        directory: PathBuf,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let recorded: Vec<_> = run
            .nodes
            .iter()
            .filter(|node| !node.initial.is_empty())
            .collect();
        let mut places = Vec::new();
        for node in &file.nodes {
            let place = recorded
                .iter()
                .position(|recorded| recorded.name == node.name);
            if place.is_none() && node.has_data {
                return Err(Error::NodeNotRecorded(node.name.clone()));
            }
            places.push(place);
        }
        let numbers = run.nodes.iter().map(|node| file.place(&node.name));
        let numbers = numbers.collect();
        let cluster = Cluster::new(file, &directory.join("logs"))?;
        let slots = places.iter().map(|_| MountSlot::default()).collect();
        Ok(Self {
            cluster,
            file: file.clone(),
            directory,
            places,
            numbers,
            slots,
            is_alone: false,
            count: 0,
            interrupt: interrupt.clone(),
        })
    }

    /// Looks with a cluster of which nothing has been there before: no network, no check that runs.
    fn look_again(&mut self, state: &CrashState, place: &Path) -> Result<Vec<Verdict>> {
        let patient = Cluster::new(&self.file.patient(PATIENCE), &self.directory.join("logs"))?;
        let usual = std::mem::replace(&mut self.cluster, patient);
        let verdicts = self.look(state, std::slice::from_ref(&state.acknowledged), place);
        self.cluster = usual;
        verdicts
    }

    /// A verdict for each of these files of acknowledgements.
    fn look(
        &mut self,
        state: &CrashState,
        acknowledged: &[Arc<[u8]>],
        place: &Path,
    ) -> Result<Vec<Verdict>> {
        let all = |verdict: Verdict| Ok(vec![verdict; acknowledged.len()]);
        let directories = match self.put(state, place)? {
            Ok(directories) => directories,
            Err(why) => return all(Verdict::Broken(vec![why].into())),
        };
        let interrupt = self.interrupt.clone();
        let cancelled = || interrupt.requested();
        match self.start(&directories, state.turns.as_ref(), &cancelled) {
            Ok(()) => {}
            Err(error @ cluster::Error::Interrupted) => {
                return all(Verdict::Inconclusive(error.to_string()));
            }
            // The others may do without it, but it was not asked for more than to start again.
            Err(error) => return all(of_down("does not come up", error)?),
        }
        // Where the check sees it, which may have been started before the states had a place.
        let acks = self.directory.join("acknowledgements");
        let ask = |lines: &Arc<[u8]>| {
            fs::write(&acks, lines).doing(|| format!("write {}", acks.display()))?;
            self.ask(&acks, &cancelled)
        };
        acknowledged.iter().map(ask).collect()
    }

    /// What the check says of the cluster that runs.
    fn ask(&mut self, acks: &Path, cancelled: &dyn Fn() -> bool) -> Result<Verdict> {
        let verdict = self.cluster.run_check(acks, cancelled)?;
        Ok(match (verdict, self.cluster.refuse_end()) {
            (broken @ cluster::Verdict::Broken(_), _) => broken.into(),
            // One that seemed ready may have been about to look at what it has.
            (_, Err(error)) => of_down("does not stay up", error)?,
            (verdict, Ok(())) => verdict.into(),
        })
    }

    /// Puts what the disks hold in directories at `place`, one for each node. Says why if one of
    /// them cannot be mounted.
    fn put(&mut self, state: &CrashState, place: &Path) -> Result<Result<Vec<PathBuf>, String>> {
        let mut directories = Vec::new();
        for ((number, node), slot) in self.places.iter().enumerate().zip(&mut self.slots) {
            let path = place.join(format!("node-{number}"));
            let put = node
                .map(|node| slot.put(&state.disks[node], &path))
                .transpose()?;
            match put.unwrap_or(Ok(path)) {
                Ok(path) => directories.push(path),
                Err(why) => {
                    return Ok(Err(format!("node {}: {why}", self.file.nodes[number].name)));
                }
            }
        }
        Ok(Ok(directories))
    }

    /// Who is started before whom, as places in the cluster file.
    fn turns(&self, turns: Option<&Turns>) -> Option<(Vec<usize>, Vec<usize>)> {
        let of_file = |nodes: &[usize]| -> Vec<usize> {
            let places = nodes.iter().filter_map(|node| self.numbers[*node]);
            places.collect()
        };
        turns.map(|turns| (of_file(&turns.first), of_file(&turns.later)))
    }

    fn start(
        &mut self,
        directories: &[PathBuf],
        turns: Option<&Turns>,
        cancelled: &dyn Fn() -> bool,
    ) -> cluster::Result<()> {
        let turns = self.turns(turns);
        self.cluster.start(&mut Settings {
            directories,
            first: false,
            turns: turns
                .as_ref()
                .map(|(first, later)| cluster::Turns { first, later }),
            starter: &mut Spawn,
            cancelled,
        })
    }

    /// How often in a time it can be started on a state, be ready, and be ended: a sweep cannot be
    /// faster, but for what states have in common.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn cycle(&mut self, state: &CrashState, time: Duration) -> Result<u64> {
        let mut cycles = 0;
        self.visit(|this, place| {
            let directories = this.put(state, place)?.map_err(Error::NotPut)?;
            let interrupt = this.interrupt.clone();
            let cancelled = || interrupt.requested();
            let end = Instant::now() + time;
            while Instant::now() < end && !cancelled() {
                this.start(&directories, None, &cancelled)?;
                this.cluster.kill();
                cycles += 1;
            }
            Ok::<_, Error>(Vec::new())
        })?;
        Ok(cycles)
    }

    /// Starts the cluster on a state, and has it looked at; it is killed afterwards. Returns why it
    /// does not come up, if that is so.
    ///
    /// # Errors
    /// If it cannot be started at all, or `look` fails.
    pub fn hold<E: From<Error>>(
        &mut self,
        state: &CrashState,
        look: impl FnOnce(&mut Cluster) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        let mut looked = Ok(());
        self.visit(|this, place| -> Result<_, E> {
            let directories = match this.put(state, place)? {
                Ok(directories) => directories,
                Err(why) => {
                    looked = Err(why);
                    return Ok(Vec::new());
                }
            };
            let interrupt = this.interrupt.clone();
            let turns = state.turns.as_ref();
            match this.start(&directories, turns, &|| interrupt.requested()) {
                Ok(()) => look(&mut this.cluster)?,
                Err(cluster::Error::NotReady { node, what, .. }) => {
                    looked = Err(format!("node {node} does not come up: it {what}"));
                }
                Err(error) => return Err(Error::from(error).into()),
            }
            Ok(Vec::new())
        })?;
        Ok(looked)
    }

    /// Has the cluster started on a state by somebody else, who is given the directories of its
    /// nodes and who is to be started before whom; it is killed afterwards. Returns why a disk cannot
    /// be mounted, if that is so.
    ///
    /// # Errors
    /// If the state cannot be made, or `start` fails.
    pub fn lend<E: From<Error>>(
        &mut self,
        state: &CrashState,
        start: impl FnOnce(&mut Cluster, Lent<'_>) -> Result<(), E>,
    ) -> Result<Result<(), String>, E> {
        let mut lent = Ok(());
        self.visit(|this, place| -> Result<_, E> {
            let directories = match this.put(state, place)? {
                Ok(directories) => directories,
                Err(why) => {
                    lent = Err(why);
                    return Ok(Vec::new());
                }
            };
            let acks = this.directory.join("acknowledgements");
            fs::write(&acks, &state.acknowledged).doing(|| format!("write {}", acks.display()))?;
            let turns = this.turns(state.turns.as_ref());
            let of_state = Lent {
                directories: &directories,
                acks: &acks,
                turns: turns
                    .as_ref()
                    .map(|(first, later)| cluster::Turns { first, later }),
            };
            start(&mut this.cluster, of_state)?;
            Ok(Vec::new())
        })?;
        Ok(lent)
    }

    /// Where states are made.
    fn states(&self) -> PathBuf {
        self.directory.join("states")
    }

    /// Gives a state a directory, and has it looked at there.
    fn visit<E: From<Error>>(
        &mut self,
        look: impl FnOnce(&mut Self, &Path) -> Result<Vec<Verdict>, E>,
    ) -> Result<Vec<Verdict>, E> {
        if !self.is_alone {
            // What a node is started in has all that is mounted here, and keeps it.
            enter_mount_namespace().map_err(Error::from)?;
            fs::create_dir_all(self.states())
                .doing(|| format!("create {}", self.states().display()))?;
            mount_huge(&self.states())?;
            self.is_alone = true;
        }
        self.count += 1;
        let place = self.states().join(self.count.to_string());
        fs::create_dir(&place).doing(|| format!("create {}", place.display()))?;
        let verdicts = look(self, &place);
        self.cluster.kill();
        self.slots.iter_mut().for_each(MountSlot::put_away);
        remove_tree(&place)?;
        Ok(verdicts?
            .into_iter()
            .map(|verdict| verdict.without(&place))
            .collect())
    }
}

/// What it says of a state that a node is down; `does_not` says how. Nothing, if somebody else killed
/// it.
fn of_down(does_not: &str, error: cluster::Error) -> Result<Verdict> {
    let is_killed = error.is_killed();
    let (node, what, tail) = match error {
        cluster::Error::NotReady { node, what, tail } => (node, what, tail),
        error => return Err(error.into()),
    };
    let words = format!("node {node} {does_not}: it {what}");
    if is_killed {
        return Ok(Verdict::Inconclusive(format!(
            "{words}; the machine may be short of memory: try fewer --jobs"
        )));
    }
    let log = if tail.is_empty() {
        "nothing".into()
    } else {
        tail.join(" | ")
    };
    Ok(Verdict::Broken(Complaint {
        words: vec![words],
        log: Some(log),
        ..Complaint::default()
    }))
}

/// Where a kernel that has large pages for files in memory has a setting for them
/// (Documentation/admin-guide/mm/transhuge.rst).
const HUGE_IN_MEMORY: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// If a directory is in memory, mounts a file system in memory on it that has large files in large
/// pages (Documentation/filesystems/tmpfs.rst, `huge`), in the mount namespace of this thread.
/// Systems that allocate their logs ahead would have the kernel be busy with nothing but small
/// ones.
fn mount_huge(directory: &Path) -> Result<()> {
    let on = statfs(directory).doing(|| format!("look at {}", directory.display()))?;
    // A kernel without them complains in its log when it is asked.
    if on.filesystem_type() == TMPFS_MAGIC && Path::new(HUGE_IN_MEMORY).exists() {
        let options = Some("huge=within_size");
        // Who may not have them does without.
        let _ = mount(
            Some(local_fs::NAME_PREFIX),
            directory,
            Some("tmpfs"),
            MsFlags::empty(),
            options,
        );
    }
    Ok(())
}

impl Subject for Nodes {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        let verdicts = if again {
            self.visit(|this, place| this.look_again(state, place))
        } else {
            self.judge_each(state, std::slice::from_ref(&state.acknowledged))
        };
        Ok(verdicts?.pop().expect("one was asked for"))
    }

    // To start a cluster takes longer than to ask it.
    fn is_slow(&self) -> bool {
        true
    }

    fn judge_each(
        &mut self,
        state: &CrashState,
        acknowledged: &[Arc<[u8]>],
    ) -> Result<Vec<Verdict>> {
        self.visit(|this, place| this.look(state, acknowledged, place))
    }
}
