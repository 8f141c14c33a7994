//! Broken states as findings: those that are alike together, each shown by its smallest.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use brief::{Called, Likeness, callers, counted};
use pace_rules::nodes::{
    Effect, Histories, Loss, Member, Micro, Relaxation, Spaces, StartOrder, State,
};
use serde::{Deserialize, Serialize};
use trace::{Action, Event, FileId, Message, Run};
use trace_store::{Frame, Trace};

use crate::again::Address;
use crate::causes::Patience;
use crate::check::Complaint;
use crate::damage::{Damage, damages};
use crate::likeness::likeness_of;
use crate::operations::{Operation, Operations};
use crate::rank::Rank;
use crate::recoveries::crashes;
use crate::request::Level;
use crate::starts::{Afters, Start, Turns};
use crate::states::States;
use crate::sweep::{Broken, ModelSet, Size, Swept, size};
use crate::tree::Fingerprint;

/// So many operations that persisted are listed.
const KEPT_LISTED_MAX: usize = 6;

/// So many things that had happened before the crash are kept with a finding.
const MOMENTS_MAX: usize = 40;

/// Broken states of one cause: what was lost was done at the same call sites of the program, to the
/// same files, and the check says the same of them, but for numbers and names that are random.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// From 1.
    pub number: usize,
    /// How much it matters: findings are in this order.
    #[serde(default)]
    pub rank: Rank,
    /// The model that allows it, or the name of several.
    pub model: String,
    /// What was relaxed, in words.
    pub relaxation: String,
    /// What is broken.
    #[serde(flatten)]
    pub complaint: Complaint,
    /// Why rules say so, if it is rules that do: a tree for each violation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derivations: Vec<String>,
    /// How many states of the sweep are alike.
    pub states: u64,
    /// How many of them differ: those that are equal were looked at once. 0 if that was not counted,
    /// as in results of earlier versions.
    #[serde(default)]
    pub different: u64,
    /// How many of them there are of each relaxation.
    #[serde(default)]
    pub relaxations: BTreeMap<String, u64>,
    /// How many of them there are of each order in which the nodes were started; nothing if they were
    /// always started together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<String, u64>,
    /// In which order the nodes were started on the one that is shown; none if together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartStory>,
    /// Files that it is about, where their names are random: what they have in common, and how many
    /// of them there are in the run.
    #[serde(default)]
    pub patterns: BTreeMap<String, usize>,
    /// The number of the one that is shown in its space.
    pub state: u64,
    /// If it is not the state of that number, which lost all at once: all that is lost of that. None
    /// of it breaks anything alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_together: Vec<EventPlace>,
    /// The key of that state, by which it is known again.
    #[serde(skip)]
    pub key: Fingerprint,
    /// What the check said, in words that are the same of all states that are alike.
    #[serde(skip)]
    pub(crate) plain: Vec<String>,
    /// What was on each disk of it.
    pub nodes: Vec<NodeStory>,
    /// What had happened last before the crash, in order, on all nodes.
    pub timeline: Vec<Moment>,
    /// The last line that had been printed before the crash, and by whom.
    pub acknowledged: Option<Line>,
    /// Whether something had been acknowledged after what is missing was done. Of a disk it is not
    /// known what is missing: whether anything had been.
    #[serde(default)]
    pub is_told: bool,
    /// Calls after what is missing that look like a sync of it and promise nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promised_nothing: Vec<PromisedNothing>,
    /// What would have forbidden the state: all of these together.
    pub prevented_by: Vec<Sync>,
    /// The other models, and whether one of the states that are alike was found on each; none if
    /// that was not looked at.
    pub models: BTreeMap<String, bool>,
    /// With which options they were searched: with others more may be possible.
    #[serde(default)]
    pub searched: String,
    /// The recordings with disks in which it was seen: the names of their schedules, which say what
    /// else was done on the disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen_under: Vec<String>,
    /// All recordings with disks, by the names of their schedules; none if no disks were looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded_under: Vec<String>,
    /// What the crashes before left, from the first one on, if the power failed while the program
    /// recovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crashes: Vec<String>,
    /// In how many of the recorded recoveries it was found; 0 if it is not of one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recoveries: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// An event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventPlace {
    /// The node, by its place in the run.
    pub node: usize,
    /// Its event there.
    pub event: usize,
}

/// A call that looks like a sync and promises nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromisedNothing {
    /// The node that made it.
    pub node: String,
    /// What was called.
    pub call: String,
    /// Of which file, from the node's directory on.
    pub path: String,
    /// How often, after something of the file that is missing was done, and before the crash.
    pub times: usize,
}

/// Who was started before whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartStory {
    /// The order.
    pub order: Start,
    /// The nodes that were first.
    pub first: Vec<String>,
    /// Those that were started after them.
    pub later: Vec<String>,
}

/// One node in a crash state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStory {
    /// Its name.
    pub node: String,
    /// So many of its events had happened.
    pub events: usize,
    /// The last thing it had done.
    pub behind: Option<String>,
    /// What it did next, had it not crashed.
    pub before: Option<String>,
    /// Whether that had been begun.
    pub is_begun: bool,
    /// What was lost, in order.
    pub lost: Vec<Lost>,
    /// The operation of which only the first part reached the disk.
    pub midway: Option<Lost>,
    /// What persisted although it came after something that was lost.
    pub kept: Vec<String>,
    /// How much more of that there is.
    pub kept_more: usize,
    /// The event of the first of it.
    pub kept_from: Option<usize>,
    /// Where its files are not what they would be if nothing of what it had done were missing.
    #[serde(default)]
    pub files: Vec<Damage>,
    /// The disk, where the crash state is one of a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskStory>,
}

/// A node's disk in a crash state, and what its file system made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStory {
    /// The file system.
    pub file_system: String,
    /// The state of the disk: `lost-31@37` had been sent 37 requests, and lost the write at place
    /// 31.
    pub state: String,
    /// The writes that were lost, in order.
    pub lost: Vec<String>,
    /// How many writes the disk need not have kept.
    pub pending: usize,
    /// Where the directory is not what it was before the crash, after its file system has
    /// recovered.
    pub differs: Vec<String>,
    /// Of a disk that lost nothing: what was going on when it got what broke the promise, which was
    /// kept by what it had before. None if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<String>,
}

/// An operation that a disk has not, or not all of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lost {
    /// The system call.
    pub call: String,
    /// Where in the program it came from: a hash of the stack, in hexadecimal; none if it is not
    /// known.
    pub stack: Option<String>,
    /// The functions of the program that made the call, the innermost first; empty if they are not
    /// known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub called_by: Vec<String>,
    /// The file, from the node's directory on.
    pub path: String,
    /// What was done.
    pub words: String,
    /// How many of its parts are not there, if that is not all.
    pub parts: Option<(usize, usize)>,
    /// Its event.
    pub event: usize,
}

/// Something that had happened before the crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// On which node, by its place in `nodes`.
    pub node: usize,
    /// Its event there.
    pub event: usize,
    /// What was done.
    pub words: String,
    /// What is on the disk of it; none of what changes nothing there.
    pub fate: Option<Fate>,
    /// Of what was received, where it was sent: the place of the last such moment in the timeline.
    pub from: Option<usize>,
}

/// What a crash left of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// All.
    Kept,
    /// A part.
    InPart,
    /// Nothing.
    Lost,
}

/// A line that was printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The node.
    pub node: String,
    /// The line.
    pub line: String,
}

/// A call that the program did not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// The node.
    pub node: String,
    /// The file or directory that it would have synced.
    pub path: String,
    /// What it would have had to come before.
    pub before: String,
    /// How often the program did in the run what the call would have followed: at one of these the
    /// finding is shown, and it is gone once the call is made at each.
    #[serde(default = "once")]
    pub times: usize,
}

fn once() -> usize {
    1
}

/// A run, what may be on its disks, and what of it was found to be broken.
#[derive(Clone)]
pub struct Findings<'a> {
    /// What was recorded.
    pub trace: &'a Trace,
    /// The states that were visited; none if they are those of disks.
    spaces: Option<&'a Spaces>,
    /// The name of their models.
    pub model: &'a str,
    /// Of which of the models a state is that something is asked about: its place among them.
    member: usize,
    operations: Rc<Vec<Operations>>,
    pub(crate) likeness: Rc<Likeness>,
    /// Of each direction of a connection, the nodes that sent and received there.
    ends: Rc<HashMap<u32, Ends>>,
    afters: Rc<Afters>,
    /// How long an explanation may take.
    pub(crate) patience: Patience<'a>,
}

/// Who sent, and who received.
type Ends = (Option<usize>, Option<usize>);

/// Of what an operation is made, in a crash state.
#[derive(Debug, Default)]
struct Parts {
    all: usize,
    /// Missing, though later ones may be there.
    lost: usize,
    /// After the end of what reached the disk.
    to_come: usize,
}

impl Parts {
    fn fate(&self) -> Fate {
        match self.lost + self.to_come {
            0 => Fate::Kept,
            missing if missing == self.all => Fate::Lost,
            _ => Fate::InPart,
        }
    }
}

/// What findings that are alike have in common: their cause, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Cause {
    /// The operations that are missing. No sync after one helps against a crash in the midst of
    /// it, so it counts whether it had returned.
    missing: Vec<(bool, Site)>,
    /// Where nothing is missing: the last operation of each node, and the next one if the last
    /// thing that it did was to acknowledge something.
    around: Vec<(bool, Site)>,
    words: Vec<String>,
}

/// Where a program does something, and to what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Site {
    call: String,
    /// Where in the program the call is.
    stack: u64,
    /// What the file is called, but for what is random.
    file: String,
    /// And what it is called in the end: who writes two files through one function, under a name
    /// for the time being, gives them other names.
    last: Option<String>,
    /// What the name is like that it gave.
    to: Option<String>,
}

/// States that are alike.
#[derive(Debug)]
pub(crate) struct Group {
    /// Of what their disks hold, and of what was acknowledged.
    pub(crate) contents: HashSet<Fingerprint>,
    /// The same of those that lost more beside, all at once.
    pub(crate) at_once: HashSet<Fingerprint>,
    pub(crate) states: u64,
    pub(crate) different: u64,
    pub(crate) relaxations: BTreeMap<String, u64>,
    /// How many of them there are of each order in which the nodes were started.
    pub(crate) starts: BTreeMap<Start, u64>,
    pub(crate) smallest: Broken,
    /// The model of that one.
    pub(crate) member: usize,
    pub(crate) state: State,
    pub(crate) key: Fingerprint,
    /// On which models there are such states.
    pub(crate) models: ModelSet,
}

impl Group {
    /// Without any state yet; this one is shown.
    fn of(smallest: &Broken, member: usize, state: &State, key: Fingerprint) -> Self {
        Self {
            contents: HashSet::new(),
            at_once: HashSet::new(),
            states: 0,
            different: 0,
            relaxations: BTreeMap::new(),
            starts: BTreeMap::new(),
            smallest: smallest.clone(),
            member,
            state: state.clone(),
            key,
            models: ModelSet::default(),
        }
    }

    /// Adds what is the same to any check.
    fn add(&mut self, broken: &Broken, content: Fingerprint, start: Start, relaxation: Relaxation) {
        // One that lost all at once may need all of that to be broken.
        let contents = if relaxation == Relaxation::Synced {
            &mut self.at_once
        } else {
            &mut self.contents
        };
        contents.insert(content);
        self.states += broken.states;
        self.different += 1;
        self.models.add(broken.models);
        *self.starts.entry(start).or_default() += broken.states;
        let words = relaxation_words(relaxation).to_owned();
        *self.relaxations.entry(words).or_default() += broken.states;
    }
}

impl<'a> Findings<'a> {
    /// Of a sweep of these spaces; the models have this name together.
    pub fn new(trace: &'a Trace, spaces: &'a Spaces, model: &'a str) -> Self {
        Self {
            spaces: Some(spaces),
            model,
            ..Self::without_space(trace)
        }
    }

    /// The same, to ask about states of one of the models.
    pub(crate) fn of_model(&self, member: usize) -> Self {
        Self {
            member,
            ..self.clone()
        }
    }

    /// One that tells what happened before a crash, and not what was lost.
    pub(crate) fn without_space(trace: &'a Trace) -> Self {
        let operations: Vec<_> = trace.run.nodes.iter().map(Operations::of).collect();
        let likeness = likeness_of(&trace.run, &operations);
        let mut ends: HashMap<u32, Ends> = HashMap::new();
        for (place, node) in trace.run.nodes.iter().enumerate() {
            for event in &node.events {
                match &event.action {
                    Action::Send(message) => {
                        ends.entry(message.stream).or_default().0 = Some(place);
                    }
                    Action::Receive(message) => {
                        ends.entry(message.stream).or_default().1 = Some(place);
                    }
                    _ => {}
                }
            }
        }
        Self {
            trace,
            spaces: None,
            model: "",
            member: 0,
            operations: Rc::new(operations),
            likeness: Rc::new(likeness),
            ends: Rc::new(ends),
            afters: Rc::new(Afters::of(trace)),
            patience: Patience::default(),
        }
    }

    /// Whether the nodes were started in several orders.
    pub(crate) fn has_starts(&self) -> bool {
        let kinds = self.spaces.map_or(&[][..], Spaces::kinds);
        kinds.iter().any(|kind| kind.start != StartOrder::Together)
    }

    pub(crate) fn spaces(&self) -> Option<&'a Spaces> {
        self.spaces
    }

    fn members(&self) -> &'a [Member] {
        self.spaces.map_or(&[], Spaces::members)
    }

    fn micros(&self, node: usize) -> &'a [Micro] {
        let member = self.members().get(self.member);
        member.map_or(&[], |member| member.space.micros(node))
    }

    /// The findings of a sweep, the smallest first. What would have prevented each, and where else
    /// it is possible, is not looked at here.
    pub fn of(&self, swept: &Swept) -> Vec<(Finding, HashSet<Fingerprint>)> {
        let Some(spaces) = self.spaces else {
            return Vec::new();
        };
        let mut states = States::each(&self.trace.run, spaces, self.trace);
        let groups = self.groups(spaces, &mut states, swept);
        let told = |(place, group): (usize, Group)| {
            let (state, key) = (&group.state, group.key);
            let of_model = self.of_model(group.member);
            let states = &mut states[group.member];
            let finding = Finding {
                number: place + 1,
                states: group.states,
                different: group.different,
                relaxations: group.relaxations,
                starts: start_names(&group.starts),
                models: self.possible_on(group.models),
                ..of_model.story(Some(states), state, &group.smallest, key)
            };
            // What lost more beside is possible wherever this is, unless only all together breaks it.
            let is_together = finding.is_of_several_losses();
            let beside = group.at_once.into_iter().filter(|_| is_together);
            (finding, group.contents.into_iter().chain(beside).collect())
        };
        groups.into_iter().enumerate().map(told).collect()
    }

    /// The models that are among those of a sweep, where it has several.
    fn possible_on(&self, models: ModelSet) -> BTreeMap<String, bool> {
        let members = self.members();
        let known = members.iter().enumerate();
        let known = known.filter(|(place, _)| members.len() > 1 && models.contains(*place));
        known
            .map(|(_, member)| (member.model.name.to_owned(), true))
            .collect()
    }

    /// The finding that a state shows, alone.
    pub(crate) fn story(
        &self,
        mut states: Option<&mut States<'_>>,
        state: &State,
        shown: &Broken,
        key: Fingerprint,
    ) -> Finding {
        let mut nodes = self.nodes(state);
        for (node, story) in nodes.iter_mut().enumerate() {
            let damages = |states| self.damages(states, state, node);
            story.files = states.as_deref_mut().map_or(Vec::new(), damages);
        }
        let promised_nothing = self.promised_nothing(state, &nodes);
        Finding {
            number: 0,
            rank: Rank::default(),
            model: self.model.to_owned(),
            relaxation: relaxation_words(state.relaxation).to_owned(),
            complaint: shown.complaint.clone(),
            derivations: Vec::new(),
            states: shown.states,
            different: 1,
            relaxations: BTreeMap::new(),
            starts: BTreeMap::new(),
            start: self.start_story(state.start, self.turns(state)),
            patterns: self.patterns(&nodes),
            state: shown.smallest,
            lost_together: together(shown),
            key,
            plain: self.plain(shown),
            nodes,
            timeline: self.timeline(state),
            acknowledged: self.acknowledged(state),
            is_told: self.is_told(state),
            promised_nothing,
            prevented_by: Vec::new(),
            models: self.possible_on(ModelSet::of(self.member)),
            searched: String::new(),
            seen_under: Vec::new(),
            recorded_under: Vec::new(),
            crashes: crashes(self.trace),
            recoveries: usize::from(self.trace.about.recovers.is_some()),
        }
    }

    /// Which nodes are started first on a state.
    fn turns(&self, state: &State) -> Option<Turns> {
        let nodes = self.trace.run.nodes.iter().enumerate();
        let with_files = nodes.filter(|(_, node)| !node.initial.is_empty());
        let with_lost = with_files.map(|(node, _)| {
            let has_lost = !state.nodes[node].lost.is_empty();
            (node, has_lost || self.begun(state, node).is_some())
        });
        self.afters.turns(state.start, with_lost)
    }

    /// The same in names.
    pub(crate) fn start_story(
        &self,
        order: StartOrder,
        turns: Option<Turns>,
    ) -> Option<StartStory> {
        let names = |nodes: &[usize]| -> Vec<String> {
            let name = |node: &usize| self.trace.run.nodes[*node].name.clone();
            nodes.iter().map(name).collect()
        };
        turns.map(|turns| StartStory {
            order: Start::of(order),
            first: names(&turns.first),
            later: names(&turns.later),
        })
    }

    /// What the files that something is missing of are like, where their names are random.
    fn patterns(&self, nodes: &[NodeStory]) -> BTreeMap<String, usize> {
        let missing = nodes
            .iter()
            .flat_map(|node| node.lost.iter().chain(&node.midway));
        let patterns = missing.map(|lost| self.likeness.pattern(&lost.path));
        patterns
            .map(|pattern| (self.likeness.files(&pattern), pattern))
            .filter(|(files, _)| *files > 1)
            .map(|(files, pattern)| (pattern, files))
            .collect()
    }

    /// Where the files of a node are not what it had made them.
    fn damages(&self, states: &mut States<'_>, state: &State, node: usize) -> Vec<Damage> {
        let until = self
            .begun(state, node)
            .map_or(state.cut[node], |event| event + 1);
        let all = self
            .micros(node)
            .partition_point(|micro| micro.event < until);
        let trees = states.held_and_whole(node, &state.nodes[node], all);
        trees.map_or(Vec::new(), |(held, whole)| damages(&held, &whole))
    }

    /// `states` makes those of each model.
    fn groups(&self, spaces: &Spaces, states: &mut [States<'_>], swept: &Swept) -> Vec<Group> {
        let mut groups: HashMap<Cause, Group> = HashMap::new();
        let mut smaller = HashMap::new();
        // What comes first decides between equals.
        let mut all: Vec<_> = swept.broken.iter().collect();
        all.sort_unstable_by_key(|(key, broken)| (broken.smallest, *key));
        for (key, broken) in all {
            let (own, of_key) = broken.state(spaces);
            let (start, content) = self.start_and_content(spaces, states, (own, &of_key), key);
            let shown = self.smallest(spaces, *key, swept, states, &mut smaller);
            let smallest = &swept.broken[&shown];
            let (member, state) = smallest.state(spaces);
            let group = groups
                .entry(self.of_model(member).cause(&state, smallest))
                .or_insert_with(|| Group::of(smallest, member, &state, shown));
            let is_at_once = swept.blamed.contains_key(key);
            let relaxation = if is_at_once {
                Relaxation::Synced
            } else {
                of_key.relaxation
            };
            group.add(broken, content, start, relaxation);
            if order(&state, smallest) < order(&group.state, &group.smallest) {
                (group.smallest, group.state, group.key) = (smallest.clone(), state, shown);
                group.member = member;
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        // What has no number of its own has that of the state it was made of.
        groups.sort_by_key(|group| (order(&group.state, &group.smallest), group.key));
        groups
    }

    /// In which order the nodes of a state are started, and what its disks hold.
    fn start_and_content(
        &self,
        spaces: &Spaces,
        states: &mut [States<'_>],
        (own, state): (usize, &State),
        key: &Fingerprint,
    ) -> (Start, Fingerprint) {
        let has_turns = self.of_model(own).turns(state).is_some();
        let start = if has_turns {
            Start::of(state.start)
        } else {
            Start::Together
        };
        // Other runs and other models are searched for what is left, however it came to be.
        let content = if has_turns || spaces.histories() == Histories::Apart {
            states[own].make(state).map_or(*key, |made| made.content)
        } else {
            *key
        };
        (start, content)
    }

    /// The state in which as little is missing as still breaks the same, of those that were looked
    /// at. `known` has what one leads to.
    fn smallest(
        &self,
        spaces: &Spaces,
        key: Fingerprint,
        swept: &Swept,
        states: &mut [States<'_>],
        known: &mut HashMap<Fingerprint, Fingerprint>,
    ) -> Fingerprint {
        let mut way = Vec::new();
        let mut at = key;
        let smallest = loop {
            if let Some(known) = known.get(&at) {
                break *known;
            }
            way.push(at);
            match self.smaller(spaces, at, swept, states) {
                Some(smaller) => at = smaller,
                None => break at,
            }
        };
        known.extend(way.into_iter().map(|key| (key, smallest)));
        smallest
    }

    /// A broken state that is easier to understand than this one and shows why it is broken, if there
    /// is such a one. It depends on nothing but these two, so that every way to a state goes on the
    /// same.
    fn smaller(
        &self,
        spaces: &Spaces,
        key: Fingerprint,
        swept: &Swept,
        states: &mut [States<'_>],
    ) -> Option<Fingerprint> {
        let broken = &swept.broken[&key];
        let words = self.plain(broken);
        let (member, state) = broken.state(spaces);
        let of_this = order(&state, broken);
        let is_smaller = |other: &Broken| order(&other.state(spaces).1, other) < of_this;
        let blamed = self.blamed(key, &words, swept);
        if let Some(blamed) = blamed.filter(|blamed| is_smaller(&swept.broken[blamed])) {
            return Some(blamed);
        }
        let of_model = self.of_model(member);
        let less = of_model.with_less_missing(&state).into_iter();
        less.chain(of_model.earlier(&state)).find_map(|less| {
            let made = states[member].make(&less).ok()?.key;
            let found = swept.broken.get(&made)?;
            // What was drawn may lack the very state, and have one that is the same to any check.
            (is_smaller(found) && self.plain(found) == words).then_some(made)
        })
    }

    /// The state that shows why one is broken that lost all at once: the first that shows it in the
    /// same words, or the first one; none if that is not known.
    fn blamed(&self, key: Fingerprint, words: &[String], swept: &Swept) -> Option<Fingerprint> {
        let blamed = swept.blamed.get(&key)?;
        let mut known = blamed.iter().filter_map(|key| {
            let broken = swept.broken.get(key)?;
            Some((*key, broken))
        });
        let alike = known
            .clone()
            .find(|(_, broken)| self.plain(broken) == words);
        alike.or_else(|| known.next()).map(|(key, _)| key)
    }

    /// The same state with nothing missing, then with one of the operations whole that it lacks, or
    /// without one that it has a part of.
    fn with_less_missing(&self, state: &State) -> Vec<State> {
        let mut whole = state.clone();
        for node in 0..state.nodes.len() {
            whole.nodes[node].lost.clear();
            if let Some(begun) = self.begun(state, node) {
                whole = self.crashed_at(&whole, node, begun, 0);
            }
        }
        let mut all = vec![whole];
        for node in 0..state.nodes.len() {
            let micros = self.micros(node);
            let missing = self.missing_events(state, node);
            let mut retain = |lost: &dyn Fn(usize) -> bool| {
                let mut less = state.clone();
                less.nodes[node]
                    .lost
                    .retain(|place| lost(micros[*place].event));
                all.push(less);
            };
            // All but one, or one alone where a model takes others with it.
            for event in &missing {
                retain(&|other| other != *event);
                if missing.len() > 2 {
                    retain(&|other| other == *event);
                }
            }
            if let Some(begun) = self.begun(state, node) {
                all.push(self.crashed_at(state, node, begun, 0));
            }
        }
        all
    }

    /// Crashes that are earlier by one operation of a node. What is broken from some moment on,
    /// until something mends it, is broken for one reason.
    pub(crate) fn earlier(&self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        for node in 0..state.nodes.len() {
            let events = &self.trace.run.nodes[node].events;
            let first_lost = self.missing_events(state, node).first().copied();
            let last_kept = state.nodes[node]
                .micros
                .checked_sub(1)
                .map(|last| self.micros(node)[last].event);
            let last = first_lost.or(last_kept);
            let Some(last) = last.filter(|last| *last < state.cut[node]) else {
                continue;
            };
            // If the end of an operation is lost and nobody was told, it can as well have been in
            // flight. If somebody was, a sync would have helped.
            let is_told =
                |event: &Event| matches!(event.action, Action::Mark { .. } | Action::Send(_));
            let is_due = first_lost.is_some() && events[last..state.cut[node]].iter().any(is_told);
            if is_due || self.begun(state, node).is_some() {
                continue;
            }
            let of_event = self
                .micros(node)
                .iter()
                .filter(|micro| micro.event == last)
                .count();
            all.extend((0..=of_event).map(|parts| self.crashed_at(state, node, last, parts)));
        }
        all
    }

    /// The state if a node had crashed before it made a call, or within that, when so many of its
    /// parts had reached the disk.
    pub(crate) fn crashed_at(
        &self,
        state: &State,
        node: usize,
        event: usize,
        parts: usize,
    ) -> State {
        let mut earlier = state.clone();
        earlier.cut[node] = earlier.cut[node].min(event);
        let of_node = &mut earlier.nodes[node];
        of_node.micros = self
            .micros(node)
            .partition_point(|micro| micro.event < event)
            + parts;
        of_node.lost.retain(|place| *place < of_node.micros);
        earlier
    }

    /// What is broken, in words that are the same for states that are alike.
    fn plain(&self, broken: &Broken) -> Vec<String> {
        let names: Vec<_> = self
            .trace
            .run
            .nodes
            .iter()
            .map(|node| &*node.name)
            .collect();
        plain(&broken.complaint.words, &names, &self.likeness)
    }

    /// The events of a node of which something is lost.
    pub(crate) fn missing_events(&self, state: &State, node: usize) -> Vec<usize> {
        let micros = self.micros(node);
        let mut events: Vec<_> = state.nodes[node]
            .lost
            .iter()
            .map(|place| micros[*place].event)
            .collect();
        events.dedup();
        events
    }

    fn cause(&self, state: &State, broken: &Broken) -> Cause {
        // Of all that is missing nobody knows what matters.
        if state.relaxation == Relaxation::Synced {
            return Cause {
                missing: Vec::new(),
                around: Vec::new(),
                words: self.plain(broken),
            };
        }
        let stories = self.nodes(state);
        let mut missing = BTreeSet::new();
        for (node, story) in stories.iter().enumerate() {
            let events = story
                .lost
                .iter()
                .map(|lost| (true, lost))
                .chain(story.midway.iter().map(|lost| (false, lost)));
            missing.extend(
                events.filter_map(|(is_lost, lost)| Some((is_lost, self.site(node, lost.event)?))),
            );
        }
        let mut around = BTreeSet::new();
        if missing.is_empty() {
            // If what is broken names nodes, the others may be anywhere.
            let is_any_named = stories
                .iter()
                .any(|story| is_named(&story.node, &broken.complaint.words));
            for (node, story) in stories.iter().enumerate() {
                if !is_any_named || is_named(&story.node, &broken.complaint.words) {
                    around.extend(self.around(state, node));
                }
            }
        }
        Cause {
            missing: Vec::from_iter(missing),
            around: Vec::from_iter(around),
            words: self.plain(broken),
        }
    }

    /// The operation before a crash, and the one after it if that should have come before what was
    /// acknowledged.
    fn around(&self, state: &State, node: usize) -> impl Iterator<Item = (bool, Site)> {
        let (events, cut) = (&self.trace.run.nodes[node].events, state.cut[node]);
        let is_told = cut
            .checked_sub(1)
            .is_some_and(|last| matches!(events[last].action, Action::Mark { .. }));
        let next = (cut..events.len())
            .find_map(|event| self.site(node, event))
            .filter(|_| is_told);
        let last = self
            .parts(state, node)
            .pop_last()
            .and_then(|(event, _)| self.site(node, event));
        last.map(|site| (false, site))
            .into_iter()
            .chain(next.map(|site| (true, site)))
    }

    /// Where in the program an event comes from, and to what it was done.
    fn site(&self, node: usize, event: usize) -> Option<Site> {
        let operation = self.operations[node].get(event)?;
        let like = |path: &str| self.likeness.pattern(path);
        let last = self.operations[node].last_path(operation.file).map(like);
        Some(Site {
            call: operation.call.to_string(),
            stack: operation.stack,
            file: like(&operation.path),
            last,
            to: operation.names.as_deref().map(like),
        })
    }

    pub(crate) fn operation(&self, node: usize, event: usize) -> Option<&Operation> {
        self.operations[node].get(event)
    }

    pub(crate) fn nodes(&self, state: &State) -> Vec<NodeStory> {
        (0..self.trace.run.nodes.len())
            .map(|node| self.node(state, node))
            .collect()
    }

    /// The event that had been begun and had not returned, of which something is on the disk.
    pub(crate) fn begun(&self, state: &State, node: usize) -> Option<usize> {
        let last = state.nodes[node].micros.checked_sub(1)?;
        let event = self.micros(node)[last].event;
        (event >= state.cut[node]).then_some(event)
    }

    /// Of each event up to the cut, and one that had been begun, what is on the disk.
    fn parts(&self, state: &State, node: usize) -> BTreeMap<usize, Parts> {
        let (cut, kept) = (state.cut[node], &state.nodes[node]);
        let begun = self.begun(state, node);
        let micros = self.micros(node).iter().enumerate();
        let mut parts: BTreeMap<usize, Parts> = BTreeMap::new();
        for (place, micro) in
            micros.take_while(|(_, micro)| micro.event < cut || Some(micro.event) == begun)
        {
            // A file without a name is nothing to anybody.
            if !matches!(micro.effect, Effect::NewFile { .. }) {
                let parts = parts.entry(micro.event).or_default();
                parts.all += 1;
                parts.to_come += usize::from(place >= kept.micros);
                parts.lost +=
                    usize::from(place < kept.micros && kept.lost.binary_search(&place).is_ok());
            }
        }
        parts
    }

    /// The operations of a node that were lost, and the one of which only the first part reached the
    /// disk.
    fn missing(&self, node: usize, parts: &BTreeMap<usize, Parts>) -> (Vec<Lost>, Option<Lost>) {
        let lost = parts.iter().filter(|(_, parts)| parts.lost > 0);
        let lost = lost.filter_map(|(event, parts)| self.lost(node, *event, parts.lost, parts.all));
        let midway = parts
            .iter()
            .find(|(_, parts)| parts.lost == 0 && parts.to_come > 0);
        let midway =
            midway.and_then(|(event, parts)| self.lost(node, *event, parts.to_come, parts.all));
        (lost.collect(), midway)
    }

    /// What persisted whole, in words.
    fn kept_words(&self, node: usize, persisted: &[usize], midway: Option<&Lost>) -> Vec<String> {
        let whole = persisted
            .iter()
            .filter(|event| midway.is_none_or(|midway| midway.event != **event));
        let words =
            whole.filter_map(|event| Some(self.operations[node].get(*event)?.words.clone()));
        words.collect()
    }

    /// What somebody may have taken for a sync of what is missing.
    fn promised_nothing(&self, state: &State, nodes: &[NodeStory]) -> Vec<PromisedNothing> {
        let mut all = Vec::new();
        for (node, story) in nodes.iter().enumerate() {
            let calls = self.trace.about.weak_syncs.get(&story.node);
            let calls = calls.map_or(&[][..], Vec::as_slice);
            let missing = self.first_missing(node, story);
            let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
            for weak in calls {
                if let Some((event, path)) = missing.get(&weak.file)
                    && (event + 1..=state.cut[node]).contains(&weak.events)
                {
                    *times.entry((&weak.call, path)).or_default() += 1;
                }
            }
            let told = times
                .into_iter()
                .map(|((call, path), times)| PromisedNothing {
                    node: story.node.clone(),
                    call: call.to_owned(),
                    path: path.to_owned(),
                    times,
                });
            all.extend(told);
        }
        all
    }

    /// The first operation that is missing of each file of a node, with its path.
    fn first_missing<'s>(
        &self,
        node: usize,
        story: &'s NodeStory,
    ) -> BTreeMap<FileId, (usize, &'s str)> {
        let mut missing = BTreeMap::new();
        for lost in &story.lost {
            if let Some(operation) = self.operations[node].get(lost.event) {
                let first = missing.entry(operation.file);
                first.or_insert((lost.event, &*lost.path));
            }
        }
        missing
    }

    /// When the events before the crash ended, with node and place.
    fn in_order_of_time(&self, state: &State) -> Vec<(u64, usize, usize)> {
        let mut all = Vec::new();
        for (node, cut) in state.cut.iter().enumerate() {
            let until = self.begun(state, node).map_or(*cut, |event| event + 1);
            let events = self.trace.run.nodes[node].events[..until]
                .iter()
                .enumerate();
            all.extend(events.map(|(place, event)| (event.end_ns, node, place)));
        }
        all.sort_unstable();
        all
    }

    /// What came last, what is missing whenever it was, and the last acknowledgement.
    pub(crate) fn timeline(&self, state: &State) -> Vec<Moment> {
        let run = &self.trace.run;
        let all = self.in_order_of_time(state);
        let parts: Vec<_> = (0..run.nodes.len())
            .map(|node| self.parts(state, node))
            .collect();
        let late = all.len().saturating_sub(MOMENTS_MAX);
        let mut moments: Vec<Moment> = Vec::new();
        let is_mark = |(_, node, event): &(u64, usize, usize)| {
            matches!(run.nodes[*node].events[*event].action, Action::Mark { .. })
        };
        let acknowledged = all.iter().rposition(is_mark);
        for (place, (_, node, event)) in all.into_iter().enumerate() {
            let fate = parts[node].get(&event).map(Parts::fate);
            let is_due = Some(place) == acknowledged || fate.is_some_and(|fate| fate != Fate::Kept);
            if place < late && !is_due {
                continue;
            }
            moments.push(Moment {
                node,
                event,
                words: self.event_words(run, node, event),
                fate,
                from: None,
            });
        }
        self.connect(&mut moments);
        moments
    }

    /// Says of what was received where it was sent.
    fn connect(&self, moments: &mut [Moment]) {
        // A send may have returned after the receive.
        let sent_to = |to: &Moment| {
            let mut sent = moments.iter();
            sent.rposition(|sent| self.is_sent(sent, to.node, to.event))
        };
        let from: Vec<_> = moments.iter().map(sent_to).collect();
        for (moment, from) in moments.iter_mut().zip(from) {
            moment.from = from;
        }
    }

    /// Whether an event received something that was sent there.
    fn is_sent(&self, sent: &Moment, node: usize, event: usize) -> bool {
        let nodes = &self.trace.run.nodes;
        match (
            &nodes[sent.node].events[sent.event].action,
            &nodes[node].events[event].action,
        ) {
            (Action::Send(sent), Action::Receive(received)) => {
                sent.stream == received.stream && sent.from < received.to && received.from < sent.to
            }
            _ => false,
        }
    }

    fn node(&self, state: &State, node: usize) -> NodeStory {
        let (run, cut) = (&self.trace.run, state.cut[node]);
        let parts = self.parts(state, node);
        let (lost, midway) = self.missing(node, &parts);
        let from = lost.first().map_or(usize::MAX, |first| first.event + 1);
        let persisted = parts
            .range(from..)
            .filter(|(_, parts)| parts.lost + parts.to_come < parts.all);
        let persisted: Vec<_> = persisted.map(|(event, _)| *event).collect();
        let mut all_kept = self.kept_words(node, &persisted, midway.as_ref());
        let kept_more = all_kept.len().saturating_sub(KEPT_LISTED_MAX);
        all_kept.truncate(KEPT_LISTED_MAX);
        let events = cut.min(run.nodes[node].events.len());
        NodeStory {
            node: run.nodes[node].name.clone(),
            events,
            behind: events
                .checked_sub(1)
                .map(|last| self.moment_words(node, last, true)),
            before: (events < run.nodes[node].events.len())
                .then(|| self.moment_words(node, events, false)),
            is_begun: self.begun(state, node).is_some(),
            lost,
            midway,
            kept: all_kept,
            kept_more,
            kept_from: persisted.first().copied(),
            files: Vec::new(),
            disk: None,
        }
    }

    fn lost(&self, node: usize, event: usize, missing: usize, all: usize) -> Option<Lost> {
        let op = self.operations[node].get(event)?;
        Some(Lost {
            call: op.call.to_string(),
            stack: (op.stack != 0).then(|| format!("{:016x}", op.stack)),
            called_by: self.called_by(op.stack),
            path: op.path.clone(),
            words: op.words.clone(),
            parts: (missing < all).then_some((missing, all)),
            event,
        })
    }

    fn called_by(&self, stack: u64) -> Vec<String> {
        let stack = self.trace.stacks.get(&stack);
        stack.map_or(Vec::new(), |stack| callers(stack.iter().map(called)))
    }

    pub(crate) fn event_words(&self, run: &Run, node: usize, event: usize) -> String {
        if let Some(op) = self.operations[node].get(event) {
            return op.words.clone();
        }
        match &run.nodes[node].events[event].action {
            Action::Mark { line } => format!("the line `{}`", self.line(*line)),
            Action::Send(message) => {
                let to = self
                    .peer(message, false)
                    .map_or(String::new(), |node| format!(" to {node}"));
                format!("send of {}{to}", counted(message.to - message.from, "byte"))
            }
            Action::Receive(message) => {
                let from = self
                    .peer(message, true)
                    .map_or(String::new(), |node| format!(" from {node}"));
                let bytes = counted(message.to - message.from, "byte");
                format!("receive of {bytes}{from}")
            }
            Action::File(_) => unreachable!("operations on files have words"),
        }
    }

    /// Who sent, or receives, at the other end.
    fn peer(&self, message: &Message, sender: bool) -> Option<&str> {
        let (sends, receives) = self.ends.get(&message.stream)?;
        let node = if sender { *sends } else { *receives };
        Some(&self.trace.run.nodes[node?].name)
    }

    /// The words for an event after or before which a node crashed.
    fn moment_words(&self, node: usize, event: usize, is_past: bool) -> String {
        let run = &self.trace.run;
        let Action::Receive(message) = &run.nodes[node].events[event].action else {
            return self.event_words(run, node, event);
        };
        let from = self
            .peer(message, true)
            .map_or("a".into(), |name| format!("{name}'s"));
        let arrives = if is_past { "arrived" } else { "arrives" };
        format!(
            "{from} message ({}) {arrives}",
            counted(message.to - message.from, "byte")
        )
    }

    fn line(&self, line: trace::Data) -> String {
        String::from_utf8_lossy(self.trace.bytes(line)).into_owned()
    }

    pub(crate) fn acknowledged(&self, state: &State) -> Option<Line> {
        let Some((_, node, line)) = self.last_mark(state) else {
            return self.acknowledged_before();
        };
        Some(Line {
            node: self.trace.run.nodes[node].name.clone(),
            line: self.line(line),
        })
    }

    /// The last line that had been printed before a crash from which a program recovers.
    fn acknowledged_before(&self) -> Option<Line> {
        let recovers = self.trace.about.recovers.as_ref()?;
        let lines = self.line(recovers.acknowledged);
        Some(Line {
            node: recovers.acknowledged_by.clone(),
            line: lines.lines().last()?.to_owned(),
        })
    }

    /// The last line that had been printed: when, and by which node.
    fn last_mark(&self, state: &State) -> Option<(u64, usize, trace::Data)> {
        let nodes = self.trace.run.nodes.iter().zip(&state.cut).enumerate();
        let marks = nodes.flat_map(|(place, (node, cut))| {
            node.events[..*cut]
                .iter()
                .filter_map(move |event| match event.action {
                    Action::Mark { line } => Some((event.end_ns, place, line)),
                    _ => None,
                })
        });
        marks.max_by_key(|(end_ns, ..)| *end_ns)
    }

    /// Whether something had been acknowledged after what is missing was done.
    fn is_told(&self, state: &State) -> bool {
        let Some((told_ns, ..)) = self.last_mark(state) else {
            return false;
        };
        let nodes = self.trace.run.nodes.iter().enumerate();
        let mut first_missing = nodes.filter_map(|(place, node)| {
            let event = *self.missing_events(state, place).first()?;
            Some(node.events[event].end_ns)
        });
        first_missing.any(|done_ns| done_ns <= told_ns)
    }
}

/// What a crash did, in words.
pub fn relaxation_words(relaxation: Relaxation) -> &'static str {
    match relaxation {
        Relaxation::Prefix => "in order",
        Relaxation::Stopped => "stopped midway",
        Relaxation::Cut => "last one cut",
        Relaxation::Lost => "operations lost",
        Relaxation::Torn => "a write torn",
        Relaxation::Synced => "only what was synced",
    }
}

/// How many states there are of each order, if some of them are not of the usual one.
fn start_names(starts: &BTreeMap<Start, u64>) -> BTreeMap<String, u64> {
    let is_usual = starts.keys().all(|start| *start == Start::Together);
    let named = starts.iter().filter(|_| !is_usual);
    named
        .map(|(start, states)| (start.name(), *states))
        .collect()
}

/// All that is lost in a state, if it has no number of its own.
fn together(shown: &Broken) -> Vec<EventPlace> {
    let losses = shown.with_losses.as_deref().unwrap_or_default();
    let place = |loss: &Loss| EventPlace {
        node: loss.node,
        event: loss.event,
    };
    losses.iter().map(place).collect()
}

/// What there is to understand in a state, and which it is.
fn order(state: &State, broken: &Broken) -> (Size, u64) {
    (size(state), broken.smallest)
}

/// Whether a letter may be one of a node's name.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '-' || letter == '_'
}

/// Whether a node's name is one of the words.
fn is_named(node: &str, broken: &[String]) -> bool {
    broken
        .iter()
        .flat_map(|words| words.split(|letter| !is_of_name(letter)))
        .any(|word| word == node)
}

fn called(frame: &Frame) -> Called<'_> {
    Called {
        module: &frame.module,
        function: frame.function.as_deref(),
        source: frame.source.as_ref().map(|(path, line)| (&**path, *line)),
    }
}

/// What is broken, in words that are the same for states that are alike: whatever the numbers are,
/// and whichever of the nodes of these names it is.
pub(crate) fn plain(words: &[String], nodes: &[&str], likeness: &Likeness) -> Vec<String> {
    let plain = |words: &String| {
        let pieces = words.split_inclusive(|letter| !is_of_name(letter));
        let nameless = pieces.map(|piece| {
            let word = piece.trim_end_matches(|letter| !is_of_name(letter));
            if nodes.contains(&word) {
                piece.replacen(word, "NODE", 1)
            } else {
                piece.to_owned()
            }
        });
        likeness.plain(&nameless.collect::<String>())
    };
    words.iter().map(plain).collect()
}

impl Finding {
    /// Where the crash was looked at.
    pub fn level(&self) -> Level {
        let is_of_disks = self.nodes.iter().any(|node| node.disk.is_some());
        match (self.recoveries > 0, is_of_disks) {
            (true, true) => Level::DiskRecovery,
            (true, false) => Level::Recovery,
            (false, true) => Level::Block,
            (false, false) => Level::Syscalls,
        }
    }

    /// Whether all that is lost is needed to break something, or all is lost at once.
    pub(crate) fn is_of_several_losses(&self) -> bool {
        self.lost_together.len() > 1 || self.relaxation == relaxation_words(Relaxation::Synced)
    }

    /// All that is lost in the state that it shows, if that is another one than that of the number.
    pub fn losses(&self) -> Vec<Loss> {
        let loss = |place: &EventPlace| Loss {
            node: place.node,
            event: place.event,
        };
        self.lost_together.iter().map(loss).collect()
    }

    /// Which state it shows.
    pub fn address(&self) -> Address {
        Address {
            level: self.level(),
            state: self.state,
        }
    }
}

/// Tells apart the different things that checks say of the states of a run.
pub struct Kinds<'a>(Findings<'a>);

impl<'a> Kinds<'a> {
    /// Of the run of a trace.
    pub fn new(trace: &'a Trace) -> Self {
        Self(Findings::without_space(trace))
    }

    /// What is said, but for numbers, random names and the names of nodes.
    pub fn of(&self, complaint: &Complaint) -> Vec<String> {
        let names: Vec<_> = self
            .0
            .trace
            .run
            .nodes
            .iter()
            .map(|node| &*node.name)
            .collect();
        plain(&complaint.words, &names, &self.0.likeness)
    }
}
