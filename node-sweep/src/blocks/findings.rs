//! Broken states of disks as findings: those that are alike together, each shown by its smallest.

use std::collections::{BTreeMap, HashMap, HashSet};

use pace_rules::disk::{self, Kind};
use pace_rules::nodes::{
    self, BlockSpace, BlockState, Model, NodeState, Relaxation as OfNodes, StartOrder, State,
    micros,
};
use trace_store::{Disk, Trace};

use super::{Blocks, ON_DISK, size};
use crate::damage::Damage;
use crate::disks::Disks;
use crate::error::Result;
use crate::finding::{DiskStory, Finding};
use crate::findings::{Findings, plain};
use crate::mount_slot::{DiskState, MountSlot};
use crate::program::scratch;
use crate::recoveries::crashes;
use crate::sweep::{Broken, Size, Swept};
use crate::tree::Tree;

/// When the power failed: what the nodes had done, and what each disk had been sent.
fn moment(state: &BlockState) -> (Vec<usize>, Vec<Option<usize>>) {
    (
        state.cut.clone(),
        state
            .disks
            .iter()
            .map(|disk| disk.as_ref().map(|disk| disk.position))
            .collect(),
    )
}

/// What the disks of a trace are, in words.
pub(crate) fn file_systems(trace: &Trace) -> String {
    let disks = trace.disks.values();
    let mut names: Vec<_> = disks.map(|disk| disk.file_system.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ") + ON_DISK
}

/// Broken states that are alike.
pub(crate) struct Group {
    pub(crate) size: Size,
    /// The smallest of them, with how many they are.
    pub(crate) broken: Broken,
    /// How many of them differ.
    pub(crate) different: u64,
    /// What the disks did.
    pub(crate) kind: Kind,
    /// What the check said, but for what differs.
    pub(crate) plain: Vec<String>,
}

impl Group {
    /// Counts a broken state that is alike.
    fn add(&mut self, own: Size, broken: &Broken) {
        let (states, mut models) = (self.broken.states + broken.states, self.broken.models);
        models.add(broken.models);
        if (own, broken.smallest) < (self.size, self.broken.smallest) {
            (self.size, self.broken) = (own, broken.clone());
        }
        (self.broken.states, self.broken.models) = (states, models);
        self.different += 1;
    }
}

/// What was found on disks.
pub struct BlockFindings<'a> {
    /// What was recorded.
    pub trace: &'a Trace,
    /// The states that were visited.
    pub space: &'a BlockSpace,
    /// Whether the disks are mounted, in order to tell what their file systems make of them. That
    /// takes root.
    pub mounts: bool,
    /// What came of all states, if each was decided: then it is known which are not broken.
    pub decided: Option<&'a Swept>,
}

impl BlockFindings<'_> {
    /// The broken states that are alike together, the smallest first. They are alike if the check
    /// says the same of them, but for numbers, and the disks did the same; or if it says that as
    /// well of the state of the same moment in which nothing was lost.
    pub(crate) fn groups(&self, swept: &Swept) -> Vec<Group> {
        let all = self.broken(swept);
        // Where nothing was lost and the same is broken, it is not for what was lost.
        let in_order = all.iter().filter(|(state, ..)| state.kind == Kind::Prefix);
        let in_order: HashSet<_> = in_order
            .map(|(state, words, _)| (moment(state), words.clone()))
            .collect();
        let mut groups: HashMap<(Vec<String>, Kind), Group> = HashMap::new();
        for (state, plain, broken) in all {
            let own = size(self.space, &state);
            let needs_no_loss = in_order.contains(&(moment(&state), plain.clone()));
            let kind = if needs_no_loss {
                Kind::Prefix
            } else {
                state.kind
            };
            let group = groups.entry((plain.clone(), kind));
            group
                .and_modify(|group| group.add(own, broken))
                .or_insert_with(|| Group {
                    size: own,
                    broken: broken.clone(),
                    different: 1,
                    kind,
                    plain,
                });
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group: &Group| (group.size, group.broken.smallest));
        groups
    }

    /// The broken states, each with what the check said, but for what differs.
    fn broken<'s>(&self, swept: &'s Swept) -> Vec<(BlockState, Vec<String>, &'s Broken)> {
        let nodes = self.trace.run.nodes.iter();
        let names: Vec<_> = nodes.map(|node| &*node.name).collect();
        let likeness = Findings::without_space(self.trace).likeness;
        let all = swept.broken.values().map(|broken| {
            let words = plain(&broken.complaint.words, &names, &likeness);
            (self.space.state(broken.smallest), words, broken)
        });
        all.collect()
    }

    /// The finding that a state shows.
    pub(crate) fn told(
        &self,
        number: usize,
        state: &BlockState,
        broken: &Broken,
        kind: Kind,
        blocks: &mut Blocks<'_>,
    ) -> Result<Finding> {
        let crash_state = blocks.crash_state(state);
        let turns = crash_state.turns.clone();
        let mut finding = Finding {
            number,
            model: self.file_systems(),
            relaxation: kind_words(kind),
            complaint: broken.complaint.clone(),
            start: Findings::without_space(self.trace).start_story(state.start, turns),
            states: broken.states,
            relaxations: BTreeMap::from([(kind_words(kind), broken.states)]),
            state: broken.smallest,
            key: crash_state.key,
            ..Findings::told(self.trace, &state.cut)
        };
        for (node, disk) in blocks.nodes().into_iter().zip(&crash_state.disks) {
            let files = self.differs(node, state.cut[node], disk)?;
            let of_node = state.disks[node].as_ref().expect("it has a disk");
            let told = &mut finding.nodes[node];
            told.disk = Some(DiskStory {
                differs: files.iter().map(Damage::line).collect(),
                held_until: self.held_until(node, broken.smallest, blocks),
                ..self.disk(node, of_node)
            });
            told.files = files;
        }
        Ok(finding)
    }

    /// What the disks are, in words.
    pub fn file_systems(&self) -> String {
        file_systems(self.trace)
    }

    pub(super) fn recorded(&self, node: usize) -> &Disk {
        &self.trace.disks[&self.trace.run.nodes[node].name]
    }

    /// What was recorded of a disk, as the rules read it.
    pub(super) fn log(&self, node: usize) -> &disk::Log {
        &self.space.disk(node).expect("it has a disk").log
    }

    fn disk(&self, node: usize, state: &disk::State) -> DiskStory {
        DiskStory {
            file_system: self.recorded(node).file_system.clone(),
            state: state.to_string(),
            lost: self.lost_words(node, state),
            pending: self.log(node).pending(state.position).len(),
            differs: Vec::new(),
            held_until: None,
        }
    }

    /// Where what a disk shows, once its file system has recovered, is not what the node's
    /// processes saw before the crash; nothing if it is not mounted.
    fn differs(&self, node: usize, cut: usize, disk: &DiskState) -> Result<Vec<Damage>> {
        if !self.mounts {
            return Ok(Vec::new());
        }
        let of_node = &self.trace.run.nodes[node];
        let model = Model::named("posix").expect("there is one");
        let mut micros = micros(of_node, model).ok_or(nodes::Error::TooLong(node))?;
        micros.truncate(micros.partition_point(|micro| micro.event < cut));
        let initial = Tree::initial(&of_node.initial, self.trace);
        let seen = Disks::new(initial, micros.into()).last(self.trace);
        let scratch = scratch()?;
        let mut slot = MountSlot::default();
        let told = match slot.put(disk, &scratch.path().join("disk"))? {
            Ok(data) => seen.differences(&data),
            Err(why) => vec![Damage::of("the disk", why)],
        };
        slot.put_away();
        Ok(told)
    }
}

/// What the disks did, in words.
pub fn kind_words(kind: Kind) -> String {
    match kind {
        Kind::Prefix => "in order".into(),
        Kind::Flushed => "only what was flushed".into(),
        Kind::Lost(1) => "a write lost".into(),
        Kind::Lost(count) => format!("{count} writes lost"),
        Kind::Torn(0) => "a write torn".into(),
        Kind::Torn(count) => format!("a write torn, {count} lost"),
    }
}

impl Findings<'_> {
    /// What there is to say of a crash at a cut, whatever was lost: nothing else is in it yet.
    pub(crate) fn told(trace: &Trace, cut: &[usize]) -> Finding {
        let nodes = vec![NodeState::default(); cut.len()];
        let state = State {
            cut: cut.to_vec(),
            nodes,
            relaxation: OfNodes::Prefix,
            relaxed: Vec::new(),
            start: StartOrder::Together,
        };
        let this = Findings::without_space(trace);
        let acknowledged = this.acknowledged(&state);
        Finding {
            different: 1,
            nodes: this.nodes(&state),
            timeline: this.timeline(&state),
            is_told: acknowledged.is_some(),
            acknowledged,
            crashes: crashes(trace),
            recoveries: usize::from(trace.about.recovers.is_some()),
            ..Finding::default()
        }
    }
}
