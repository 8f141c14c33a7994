//! Crash states of disks that were recorded: made, and told as stories.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use block_dev::{Entry as LogEntry, FrontEnd, Image, ImageHash, Kind as Request, MemfdDisk};
use brief::counted;
use crash_images::{rebuild, requests};
use local_fs::{Mounted, Variant, block_names};
use pace_rules::disk::{self, Disk as Keeping, Kind, Relaxation};
use pace_rules::nodes::{
    BlockSpace, BlockState, Model, NodeState, RecordedDisk, Relaxation as OfNodes, StartOrder,
    State, micros,
};
use trace::{Action, Event, Run};
use trace_store::{Disk, Trace};

use crate::check::Complaint;
use crate::damage::Damage;
use crate::disks::Disks;
use crate::error::{Context as _, Result};
use crate::findings::{DiskStory, Finding, Findings, plain};
use crate::mount_slot::{DiskImage, DiskState, MountSlot};
use crate::program::scratch;
use crate::rank::Rank;
use crate::recoveries::crashes;
use crate::starts::{Afters, Turns};
use crate::states::{Acknowledgements, CrashState};
use crate::summary::Summary;
use crate::sweep::{Broken, Made, Size, Source, Swept};
use crate::tree::Tree;

/// Disks that were made lately and are kept, of each node: where one node goes on, the others stay.
const RECENT_MAX: usize = 16;

/// So many lost writes are listed.
const LOST_LISTED_MAX: usize = 8;

/// After so many flushes it is looked what was lost.
const NAMED_BEHIND_FLUSHES: usize = 4;

/// What file systems that were recorded are called ends with this.
pub(crate) const ON_DISK: &str = " on disk";

/// The disks of a trace, as the rules read them, node for node.
pub fn recorded_disks(trace: &Trace) -> Vec<Option<RecordedDisk>> {
    let disk = |disk: &Disk| RecordedDisk {
        log: disk::Log::new(&requests(&disk.log), disk.durable, Keeping::Honest),
        times_ns: disk
            .log
            .entries()
            .iter()
            .map(|entry| entry.time_ns)
            .collect(),
        durable: disk.durable,
    };
    trace
        .run
        .nodes
        .iter()
        .map(|node| trace.disks.get(&node.name).map(disk))
        .collect()
}

/// Makes the states of a space of recorded disks.
pub struct Blocks<'a> {
    trace: &'a Trace,
    space: &'a BlockSpace,
    disks: Vec<(usize, OneDisk<'a>)>,
    acknowledgements: Acknowledgements,
    afters: Afters,
}

struct OneDisk<'a> {
    recorded: &'a Disk,
    variant: Variant,
    image: Image,
    /// The latest last.
    recent: Vec<(disk::State, Arc<DiskImage>, ImageHash)>,
}

impl<'a> Blocks<'a> {
    /// Those of a space of the disks of `trace`.
    ///
    /// # Errors
    /// If a file system of a disk is not known here.
    pub fn new(trace: &'a Trace, space: &'a BlockSpace) -> Result<Self> {
        let mut disks = Vec::new();
        for (place, node) in trace.run.nodes.iter().enumerate() {
            let Some(recorded) = trace.disks.get(&node.name) else {
                continue;
            };
            let variant = Variant::for_programs(&recorded.file_system)?;
            let image = Image::new(Arc::clone(&recorded.base));
            disks.push((
                place,
                OneDisk {
                    recorded,
                    variant,
                    image,
                    recent: Vec::new(),
                },
            ));
        }
        Ok(Self {
            trace,
            space,
            disks,
            acknowledgements: Acknowledgements::of(&trace.run, trace),
            afters: Afters::of(trace),
        })
    }

    /// Whether copies of one of the disks cannot be mounted side by side.
    pub fn one_at_a_time(&self) -> bool {
        self.disks
            .iter()
            .any(|(_, disk)| disk.variant.file_system.remembered_by_identity)
    }

    /// What the disks are in a state.
    pub(crate) fn crash_state(&mut self, state: &BlockState) -> CrashState {
        let mut hasher = blake3::Hasher::new();
        let mut disks = Vec::new();
        for (node, disk) in &mut self.disks {
            let recorded = self
                .space
                .disk(*node)
                .expect("those with a disk are listed");
            let of_node = state.disks[*node].as_ref().expect("so it has a state");
            let (image, hash) = disk.image_of(recorded, of_node);
            hasher.update(&hash.0.to_le_bytes());
            disks.push(DiskState::Disk(image));
        }
        let acknowledged = self.acknowledgements.before(&state.cut, self.trace);
        let turns = self.turns(state);
        CrashState::new(disks, hasher, acknowledged, turns)
    }

    /// Which nodes are started first.
    fn turns(&self, state: &BlockState) -> Option<Turns> {
        let nodes = self.disks.iter().map(|(node, _)| {
            let disk = state.disks[*node].as_ref();
            let has_lost = disk.is_some_and(|disk| disk.relaxation != Relaxation::Prefix);
            (*node, has_lost || self.is_unsynced(*node, state))
        });
        self.afters.turns(state.start, nodes)
    }

    /// Whether a node has changed files since its last sync: what its disk was not sent it lacks,
    /// whatever the disk keeps.
    fn is_unsynced(&self, node: usize, state: &BlockState) -> bool {
        let events = &self.trace.run.nodes[node].events[..state.cut[node]];
        let mut last = events.iter().rev().filter_map(|event| match &event.action {
            Action::File(op) => Some(op),
            _ => None,
        });
        let last = last.next();
        last.is_some_and(|op| !op.is_sync())
    }
}

impl OneDisk<'_> {
    fn image_of(
        &mut self,
        rules: &RecordedDisk,
        state: &disk::State,
    ) -> (Arc<DiskImage>, ImageHash) {
        if let Some((_, image, hash)) = self.recent.iter().find(|(known, ..)| known == state) {
            return (Arc::clone(image), *hash);
        }
        rebuild(&mut self.image, &self.recorded.log, &rules.log, state);
        let hash = self.image.hash();
        let (variant, directory) = (self.variant.clone(), self.recorded.directory.clone());
        let image = Arc::new(DiskImage {
            content: self.image.clone(),
            variant,
            directory,
        });
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push((state.clone(), Arc::clone(&image), hash));
        (image, hash)
    }
}

impl Source for Blocks<'_> {
    fn runs(&self) -> Vec<&Run> {
        vec![&self.trace.run]
    }

    fn make(&mut self, index: u64) -> Made {
        let state = self.space.state(index);
        Made {
            size: size(self.space, &state),
            state: Ok(self.crash_state(&state)),
            run: 0,
            cut: self.space.latest(&self.trace.run, &state),
        }
    }
}

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

/// How much there is to understand in a state: how many writes were lost, what came before the
/// crash, and how much of that reached the disks.
fn size(space: &BlockSpace, state: &BlockState) -> Size {
    let disks = || {
        state
            .disks
            .iter()
            .enumerate()
            .filter_map(|(node, disk)| Some((space.disk(node)?, disk.as_ref()?)))
    };
    let lost = disks().map(|(recorded, disk)| match disk.relaxation {
        Relaxation::Torn { .. } => 1,
        _ => recorded.log.lost(disk).len(),
    });
    (
        lost.sum(),
        state.cut.iter().sum(),
        disks().map(|(_, disk)| disk.position).sum(),
    )
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
    /// Whether all states were visited, so that it is known which are not broken.
    pub is_whole: bool,
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
        let mut finding = Findings::told(self.trace, &state.cut);
        let turns = crash_state.turns.clone();
        finding.start = Findings::without_space(self.trace).start_story(state.start, turns);
        finding.number = number;
        finding.model = self.file_systems();
        kind_words(kind).clone_into(&mut finding.relaxation);
        finding.complaint.clone_from(&broken.complaint);
        (finding.states, finding.state, finding.key) =
            (broken.states, broken.smallest, crash_state.key);
        finding
            .relaxations
            .insert(finding.relaxation.clone(), broken.states);
        for ((node, _), disk) in blocks.disks.iter().zip(&crash_state.disks) {
            let files = self.differs(*node, state.cut[*node], disk)?;
            let of_node = state.disks[*node].as_ref().expect("it has a disk");
            let told = &mut finding.nodes[*node];
            told.disk = Some(DiskStory {
                differs: files.iter().map(Damage::line).collect(),
                held_until: self.held_until(*node, broken.smallest),
                ..self.disk(*node, of_node)
            });
            told.files = files;
        }
        Ok(finding)
    }

    /// What the disks are, in words.
    pub fn file_systems(&self) -> String {
        let mut names: Vec<_> = self
            .trace
            .disks
            .values()
            .map(|disk| disk.file_system.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ") + ON_DISK
    }

    fn recorded(&self, node: usize) -> &Disk {
        &self.trace.disks[&self.trace.run.nodes[node].name]
    }

    /// What was recorded of a disk, as the rules read it.
    fn log(&self, node: usize) -> &disk::Log {
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

    /// The requests that a disk lost, and the one that is torn.
    fn lost_words(&self, node: usize, state: &disk::State) -> Vec<String> {
        let entries = self.recorded(node).log.entries();
        let places = self.log(node).lost(state);
        let torn = match state.relaxation {
            Relaxation::Torn {
                place, from, to, ..
            } => Some((place, from, to)),
            _ => None,
        };
        let listed = places.iter().copied().chain(torn.map(|(place, ..)| place));
        let names = self.names(node, state.position, listed.take(LOST_LISTED_MAX));
        let words = |place| request_words(place, &entries[place].kind, names.get(&place));
        let shown = places.iter().take(LOST_LISTED_MAX);
        let mut lost: Vec<_> = shown.map(|place| words(*place)).collect();
        lost.extend(torn.map(|(place, from, to)| {
            let words = words(place);
            format!("{words}, of which bytes {from} to {to} are lost")
        }));
        if places.len() > LOST_LISTED_MAX {
            lost.push(format!("and {} more", places.len() - LOST_LISTED_MAX));
        }
        lost
    }

    /// What was going on when the disk of a program, which lost nothing, got what broke a promise: a
    /// crash at the moment before does not. None where that is not so, or not known: something was
    /// promised between the two, or not all states were visited.
    fn held_until(&self, node: usize, index: u64) -> Option<String> {
        let is_known = self.trace.run.nodes.len() == 1 && self.is_whole;
        let before = self.space.in_order_before(index).filter(|_| is_known)?;
        let (before, state) = (self.space.state(before), self.space.state(index));
        let events = &self.trace.run.nodes[node].events;
        let mut between = events.get(before.cut[node]..state.cut[node])?.iter();
        if between.any(|event| matches!(event.action, Action::Mark { .. })) {
            return None;
        }
        let positions = before.disks[node].as_ref()?.position..state.disks[node].as_ref()?.position;
        let times_ns = self.space.disk(node)?.times_ns.get(positions)?;
        self.going_on(node, (*times_ns.first()?, *times_ns.last()?))
    }

    /// What a program was doing while its disk got something: the call that took all that time, a
    /// sync before others, or the last before that.
    fn going_on(&self, node: usize, (first, last): (u64, u64)) -> Option<String> {
        let run = &self.trace.run;
        let events = &run.nodes[node].events;
        let has_all = |event: &&Event| event.start_ns <= first && last <= event.end_ns;
        let is_file = |event: &&Event| matches!(event.action, Action::File(_));
        let is_sync = |event: &&Event| event.action.is_sync();
        let within = || events.iter().filter(is_file).filter(has_all);
        let told = Findings::without_space(self.trace);
        let words = |event: &Event| {
            let place = events.iter().position(|other| std::ptr::eq(other, event))?;
            Some(told.event_words(run, node, place))
        };
        if let Some(event) = within().find(is_sync).or_else(|| within().next()) {
            return words(event);
        }
        let ended = events.iter().filter(is_file);
        let ended = ended.take_while(|event| event.end_ns < first).last()?;
        Some(format!("what was written back after {}", words(ended)?))
    }

    /// What the blocks of some writes hold, by the file system's own debugger: after the crash, or
    /// after one of the next flushes, or in the end. It is for people: where nobody can tell there
    /// is no name.
    fn names(
        &self,
        node: usize,
        position: usize,
        places: impl Iterator<Item = usize>,
    ) -> HashMap<usize, String> {
        let entries = self.recorded(node).log.entries();
        let mut unnamed: Vec<_> = places.collect();
        let mut names = HashMap::new();
        for position in named_at(position, entries) {
            if unnamed.is_empty() {
                break;
            }
            let ranges: Vec<_> = unnamed
                .iter()
                .map(|place| entries[*place].range())
                .collect();
            let found = self.names_at(node, position, &ranges).unwrap_or_default();
            names.extend(
                unnamed
                    .iter()
                    .copied()
                    .zip(found)
                    .filter_map(|(place, name)| Some((place, name?))),
            );
            unnamed.retain(|place| !names.contains_key(place));
        }
        names
    }

    /// What the disk holds at these places if it kept everything up to a position and recovered.
    fn names_at(
        &self,
        node: usize,
        position: usize,
        places: &[(u64, u64)],
    ) -> Result<Vec<Option<String>>> {
        let recorded = self.recorded(node);
        let variant = Variant::for_programs(&recorded.file_system)?;
        if variant.file_system.debugger.is_none() || !self.mounts {
            return Ok(Vec::new());
        }
        let mut image = Image::new(Arc::clone(&recorded.base));
        rebuild(
            &mut image,
            &recorded.log,
            self.log(node),
            &disk::State {
                position,
                relaxation: Relaxation::Prefix,
            },
        );
        let mut disk = MemfdDisk::new(image.base())?;
        disk.load(&image)?;
        let scratch = scratch()?;
        Mounted::new(&variant, disk.device(), scratch.path())?.unmount()?;
        Ok(block_names(&variant, &disk.content_path(), places)?)
    }

    /// Where what a disk shows, once its file system has recovered, is not what the node's
    /// processes saw before the crash; nothing if it is not mounted.
    fn differs(&self, node: usize, cut: usize, disk: &DiskState) -> Result<Vec<Damage>> {
        if !self.mounts {
            return Ok(Vec::new());
        }
        let of_node = &self.trace.run.nodes[node];
        let model = Model::named("posix").expect("there is one");
        let mut micros = micros(of_node, model);
        micros.truncate(micros.partition_point(|micro| micro.event < cut));
        let initial = Tree::initial(&of_node.initial, self.trace);
        let seen = Disks::new(initial, micros.into()).last(self.trace);
        let scratch = scratch()?;
        let mut slot = MountSlot::default();
        let told = match slot.put(disk, &scratch.path().join("disk"))? {
            Ok(data) => seen
                .differences(&data)
                .doing(|| format!("look at {}", data.display())),
            Err(why) => Ok(vec![Damage::of("the disk", why)]),
        };
        slot.put_away();
        told
    }
}

/// A request to a disk, with what its blocks hold if that is known.
fn request_words(place: usize, request: &Request, name: Option<&String>) -> String {
    let (what, offset, length) = match request {
        Request::Write { offset, length, .. } => ("write", *offset, u64::from(*length)),
        Request::Discard { offset, length } => ("discard", *offset, *length),
        _ => return format!("request {place}"),
    };
    let bytes = counted(length, "byte");
    let name = name.map_or_else(String::new, |name| format!(", {name}"));
    format!("{what} {place}: {bytes} at {offset}{name}")
}

/// Where in the log of a disk names are looked for: at a position, after the next flushes, and at the
/// end.
fn named_at(position: usize, entries: &[LogEntry]) -> impl Iterator<Item = usize> {
    let later = entries.iter().enumerate().skip(position);
    let flushes =
        later.filter(|(_, entry)| matches!(entry.kind, Request::Flush | Request::FuaFlush));
    let flushes = flushes.map(|(place, _)| place + 1);
    std::iter::once(position)
        .chain(flushes.take(NAMED_BEHIND_FLUSHES))
        .chain(Some(entries.len()))
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
    fn told(trace: &Trace, cut: &[usize]) -> Finding {
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
            number: 0,
            rank: Rank::default(),
            model: String::new(),
            relaxation: String::new(),
            complaint: Complaint::default(),
            derivations: Vec::new(),
            states: 0,
            different: 1,
            relaxations: BTreeMap::new(),
            starts: BTreeMap::new(),
            start: None,
            patterns: BTreeMap::new(),
            state: 0,
            lost_together: Vec::new(),
            key: Default::default(),
            plain: Vec::new(),
            nodes: this.nodes(&state),
            timeline: this.timeline(&state),
            is_told: acknowledged.is_some(),
            acknowledged,
            promised_nothing: Vec::new(),
            prevented_by: Vec::new(),
            models: BTreeMap::new(),
            searched: String::new(),
            seen_under: Vec::new(),
            recorded_under: Vec::new(),
            crashes: crashes(trace),
            recoveries: usize::from(trace.about.recovers.is_some()),
        }
    }
}

/// In which recordings findings were seen, by what the check said.
fn seen_under(findings: &[Finding]) -> HashMap<Vec<String>, Vec<String>> {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for finding in findings {
        let seen = found.entry(finding.plain.clone()).or_default();
        seen.extend(finding.seen_under.iter().cloned());
    }
    found
}

/// Notes with the findings of a model whether the recorded disks were broken in the same way, and
/// in which recordings, and with those of disks whether the model was. That it was not is noted only
/// where every state was looked at and judged, and not some that were `drawn`.
pub(crate) fn compare_levels(
    calls: (&mut [Finding], &Summary),
    disks: (&mut [Finding], &Summary),
    drawn: bool,
) {
    let ((calls, on_model), (disks, on_disk)) = (calls, disks);
    let (by_calls, by_disks) = (seen_under(calls), seen_under(disks));
    let note = |findings: &mut [Finding], found: &HashMap<_, _>, other: &Summary| {
        for finding in findings {
            let is_found = found.contains_key(&finding.plain);
            if is_found || !(drawn || !other.is_whole() || other.inconclusive > 0) {
                finding.models.insert(other.model.clone(), is_found);
            }
        }
    };
    note(calls, &by_disks, on_disk);
    note(disks, &by_calls, on_model);
    let schedules = &on_disk.schedules;
    for finding in calls {
        let seen = by_disks.get(&finding.plain);
        let is_seen = |schedule: &&String| seen.is_some_and(|seen| seen.contains(schedule));
        finding.seen_under = schedules.iter().filter(is_seen).cloned().collect();
        finding.recorded_under.clone_from(schedules);
    }
}

#[cfg(test)]
mod tests {
    use block_dev::{Base, BlockLog};
    use pace_rules::disk::{Request, Write};
    use pace_rules::nodes::{BlockRequest, Explore};
    use trace::{Data, Event, FileId, FileOp, InitialFile, Node};

    use super::*;
    use crate::{CheckCommand, Judge, Level, Rule, make_again};

    /// One node, whose disk was sent two writes that nothing covers.
    fn two_writes() -> (Trace, BlockSpace) {
        let node = Node {
            name: "program".into(),
            initial: vec![InitialFile::empty_root()],
            events: Vec::new(),
        };
        let mut trace = Trace::default();
        trace.run.nodes.push(node);
        let write = |place: usize| {
            let offset = 4096 * place as u64;
            Request::Write(Write {
                fua: false,
                offset,
                length: 4096,
                completed: place + 1,
                priority: 0,
            })
        };
        let log = disk::Log::new(&[write(0), write(1)], 0, Keeping::Honest);
        let disks = vec![Some(RecordedDisk {
            log,
            times_ns: vec![10, 20],
            durable: 0,
        })];
        let states = "every-write,reorder:1".parse().expect("states");
        let request = BlockRequest {
            explore: Explore::BruteForce,
            states,
        };
        let space = BlockSpace::new(&trace.run, disks, &request).expect("a space");
        (trace, space)
    }

    /// The findings, if this is said of states; each of them stands for two.
    fn groups(words: impl Fn(u64, &BlockState) -> Option<String>) -> Vec<Group> {
        let (trace, space) = two_writes();
        let mut swept = Swept::default();
        for index in 0..space.len() {
            let Some(words) = words(index, &space.state(index)) else {
                continue;
            };
            let key = *blake3::hash(&index.to_le_bytes()).as_bytes();
            swept.broken.insert(
                key,
                Broken {
                    states: 2,
                    smallest: index,
                    complaint: vec![words].into(),
                    models: crate::ModelSet::default(),
                    with_losses: None,
                },
            );
        }
        BlockFindings {
            trace: &trace,
            space: &space,
            mounts: false,
            is_whole: true,
        }
        .groups(&swept)
    }

    /// The kinds of the findings, if these states are broken in the same words.
    fn kinds(is_broken: impl Fn(&BlockState) -> bool) -> Vec<(Kind, u64)> {
        let groups =
            groups(|index, state| is_broken(state).then(|| format!("key {index} is lost")));
        groups
            .into_iter()
            .map(|group| (group.kind, group.broken.states / 2))
            .collect()
    }

    fn is_at(state: &BlockState, position: usize) -> bool {
        state.disks[0]
            .as_ref()
            .is_some_and(|disk| disk.position == position)
    }

    #[test]
    fn what_is_lost_is_not_the_cause_where_the_same_is_broken_without_it() {
        let (_, space) = two_writes();
        let all: Vec<_> = (0..space.len()).map(|index| space.state(index)).collect();
        let count = |kind: Kind, position| {
            all.iter()
                .filter(|state| state.kind == kind && is_at(state, position))
                .count() as u64
        };
        assert!(
            count(Kind::Lost(1), 2) > 0 && count(Kind::Prefix, 2) > 0,
            "{all:?}"
        );
        // Every state of the last moment is broken: one finding.
        let together = count(Kind::Lost(1), 2) + count(Kind::Prefix, 2);
        assert_eq!(kinds(|state| is_at(state, 2)), [(Kind::Prefix, together)]);
        // Only those in which something was lost: that is what does it.
        let lost = count(Kind::Lost(1), 2);
        assert_eq!(
            kinds(|state| is_at(state, 2) && state.kind != Kind::Prefix),
            [(Kind::Lost(1), lost)]
        );
        // What is broken in order at another moment says nothing of this one.
        let other = kinds(|state| {
            (is_at(state, 2) && state.kind != Kind::Prefix)
                || (is_at(state, 1) && state.kind == Kind::Prefix)
        });
        assert_eq!(other.len(), 2, "{other:?}");
    }

    #[test]
    fn what_is_broken_in_other_words_is_another_finding() {
        let (_, space) = two_writes();
        let is_odd = |index: u64| {
            if index % 2 == 1 {
                "an odd one"
            } else {
                "an even one"
            }
        };
        let found = groups(|index, _| Some(is_odd(index).to_owned()));
        let words: HashSet<_> = found.iter().map(|group| group.plain.clone()).collect();
        assert_eq!(words.len(), 2);
        assert_eq!(
            found.iter().map(|group| group.broken.states).sum::<u64>(),
            2 * space.len()
        );
        for group in &found {
            assert_eq!(group.plain, [is_odd(group.broken.smallest)]);
            assert_eq!(group.broken.complaint.words, group.plain);
        }
    }

    #[test]
    fn a_finding_shows_its_smallest_state() {
        let (_, space) = two_writes();
        let found = groups(|_, state| (state.kind == Kind::Prefix).then(|| "lost".to_owned()));
        let all = (0..space.len()).filter(|index| space.state(*index).kind == Kind::Prefix);
        let smallest = all
            .map(|index| (size(&space, &space.state(index)), index))
            .min()
            .expect("one");
        assert!(found[0].broken.states > 2, "there is one to choose");
        assert_eq!((found[0].size, found[0].broken.smallest), smallest);
    }

    #[test]
    fn the_state_of_a_disk_is_made_again_and_no_other() {
        let (mut trace, _) = two_writes();
        let mut log = BlockLog::default();
        log.push_write(0, &[1; 4096], 10);
        log.push_write(4096, &[2; 4096], 20);
        let (file_system, directory) = ("ext4".to_owned(), "data".to_owned());
        let base = Arc::new(Base::empty(1 << 20));
        trace.disks.insert(
            "program".into(),
            Disk {
                file_system,
                directory,
                base,
                log,
                durable: 0,
            },
        );
        let judge = Judge::Program {
            check: CheckCommand::Once("true".into()),
            limit_s: 30,
            allow_no_acks: true,
        };
        let states = "every-write,flushed,reorder:1".parse().expect("states");
        let asked = crate::Request {
            level: Level::Both,
            model: "posix".into(),
            explore: Rule::BruteForce,
            lost: 1,
            split: "3".parse().expect("a split"),
            sector: pace_rules::Sector::default(),
            states,
            sample: None,
            seed: 0,
            starts: crate::Start::usual(),
            at_once: true,
            judge,
            specifications: Vec::new(),
        };
        let request = BlockRequest {
            explore: Explore::BruteForce,
            states,
        };
        let space = BlockSpace::new(&trace.run, recorded_disks(&trace), &request).expect("a space");
        let mut blocks = Blocks::new(&trace, &space).expect("they are known");
        let mut keys = HashSet::new();
        let mut finding = Findings::told(&trace, &[0]);
        let (file_system, state) = ("ext4".into(), String::new());
        finding.nodes[0].disk = Some(DiskStory {
            file_system,
            state,
            lost: Vec::new(),
            pending: 0,
            differs: Vec::new(),
            held_until: None,
        });
        for index in 0..space.len() {
            let key = blocks.make(index).state.expect("a disk").key;
            finding.state = index;
            assert_eq!(
                make_again(&trace, &asked, finding.address())
                    .expect("made")
                    .key,
                key,
                "{index}"
            );
            keys.insert(key);
        }
        assert!(keys.len() > 3, "{keys:?}");
        finding.state = space.len();
        assert!(make_again(&trace, &asked, finding.address()).is_err());
    }

    #[test]
    fn disks_are_started_in_each_order_where_some_of_them_lost_something() {
        let (mut trace, _) = two_writes();
        trace.run.nodes.push(trace.run.nodes[0].clone());
        "other".clone_into(&mut trace.run.nodes[1].name);
        for (node, first) in [("program", 10), ("other", 11)] {
            let mut log = BlockLog::default();
            log.push_write(0, &[1; 4096], first);
            log.push_write(4096, &[2; 4096], first + 10);
            let disk = Disk {
                file_system: "ext4".into(),
                directory: "data".into(),
                base: Arc::new(Base::empty(1 << 20)),
                log,
                durable: 0,
            };
            trace.disks.insert(node.into(), disk);
        }
        let request = BlockRequest {
            explore: Explore::BruteForce,
            states: "every-write,flushed".parse().expect("states"),
        };
        // It has changed a file before it says something, and its disk was not sent that.
        let change = FileOp::SetMode {
            file: FileId::ROOT,
            mode: 0o700,
        };
        let line = Data::default();
        for action in [Action::File(change), Action::Mark { line }] {
            trace.run.nodes[1].events.push(Event {
                start_ns: 90,
                end_ns: 90,
                process: 1,
                thread: 1,
                call: "call".into(),
                stack: 0,
                action,
            });
        }
        let space = BlockSpace::new(&trace.run, recorded_disks(&trace), &request);
        let space = space.expect("a space").with_starts(&StartOrder::ALL);
        let mut blocks = Blocks::new(&trace, &space).expect("they are known");
        let (mut divided, mut unsent) = (0, 0);
        for index in 0..space.len() {
            let state = space.state(index);
            let together = blocks.crash_state(&BlockState {
                start: StartOrder::Together,
                ..state.clone()
            });
            let crash_state = blocks.crash_state(&state);
            let disks = state.disks.iter().flatten();
            let mut lost: Vec<_> = disks
                .map(|disk| disk.relaxation != Relaxation::Prefix)
                .collect();
            unsent += usize::from(lost == [false, false] && state.cut[1] == 2);
            lost[1] |= state.cut[1] == 2;
            let first = match (state.start, &lost[..]) {
                (StartOrder::LostFirst, [true, false]) | (StartOrder::LostLast, [false, true]) => 0,
                (StartOrder::LostFirst, [false, true]) | (StartOrder::LostLast, [true, false]) => 1,
                _ => {
                    assert_eq!(crash_state.turns, None, "{state:?}");
                    assert_eq!(crash_state.key, together.key);
                    continue;
                }
            };
            divided += 1;
            let (first, later) = (vec![first], vec![1 - first]);
            assert_eq!(crash_state.turns, Some(Turns { first, later }), "{state:?}");
            assert_ne!(crash_state.key, together.key);
            assert_ne!(crash_state.disks_key, together.disks_key);
            assert_eq!(crash_state.content, together.key);
        }
        assert!(divided > 3 && unsent > 0, "{divided}, {unsent}");
        // Who lost nothing more has no order any more, and who lost less keeps that of the rest.
        let mut states = (0..space.len()).rev().map(|index| space.state(index));
        let last = states.find(|state| state.cut[1] == 0).expect("a state");
        assert_eq!(last.start, StartOrder::LostLast);
        let whole = space.with_lost(&last, |_, _| false, |_, _| false);
        let whole = blocks.crash_state(&whole.expect("a disk can keep everything"));
        assert_eq!(whole.turns, None);
    }

    /// What is noted with a finding at a level where the other one came to this, and found nothing.
    fn noted(drawn: bool, change: impl FnOnce(&mut Summary)) -> BTreeMap<String, bool> {
        let mut calls = [Finding {
            plain: vec!["lost".into()],
            ..Findings::told(&Trace::default(), &[])
        }];
        let on_model = Summary {
            model: "posix".into(),
            ..Summary::default()
        };
        let mut on_disk = Summary {
            model: "ext4 on disk".into(),
            ..Summary::default()
        };
        change(&mut on_disk);
        compare_levels((&mut calls, &on_model), (&mut [], &on_disk), drawn);
        calls[0].models.clone()
    }

    #[test]
    fn a_level_did_not_find_it_only_if_it_has_seen_all() {
        assert_eq!(
            noted(false, |_| {}),
            BTreeMap::from([("ext4 on disk".to_owned(), false)])
        );
        let nothing = BTreeMap::new();
        assert_eq!(noted(true, |_| {}), nothing);
        assert_eq!(noted(false, |disk| disk.interrupted = true), nothing);
        assert_eq!(noted(false, |disk| disk.left = 1), nothing);
        assert_eq!(noted(false, |disk| disk.inconclusive = 1), nothing);
    }

    #[test]
    fn what_both_levels_found_is_noted_whatever_they_left() {
        let of_model = |model: &str| Summary {
            model: model.into(),
            left: 1,
            interrupted: true,
            ..Summary::default()
        };
        let told = |words: &str| Finding {
            plain: vec![words.into()],
            ..Findings::told(&Trace::default(), &[])
        };
        let (mut calls, mut disks) = ([told("lost"), told("torn")], [told("gone"), told("lost")]);
        compare_levels(
            (&mut calls, &of_model("posix")),
            (&mut disks, &of_model("ext4 on disk")),
            true,
        );
        let models = |finding: &Finding| finding.models.clone().into_iter().collect::<Vec<_>>();
        assert_eq!(
            calls.each_ref().map(models),
            [vec![("ext4 on disk".into(), true)], Vec::new()]
        );
        assert_eq!(
            disks.each_ref().map(models),
            [Vec::new(), vec![("posix".into(), true)]]
        );
    }
}
