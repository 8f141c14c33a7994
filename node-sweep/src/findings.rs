//! Broken states as findings: those that are alike together, each shown by its smallest.

mod cause;
mod groups;
mod nodes;
mod smaller;
mod timeline;

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use brief::Likeness;
use pace_rules::nodes::{Loss, Member, Micro, Spaces, StartOrder, State};
use trace::Action;
use trace_store::Trace;

use crate::causes::Patience;
use crate::check::Complaint;
use crate::finding::{EventPlace, Finding, NodeStory, StartStory, relaxation_words};
use crate::likeness::likeness_of;
use crate::operations::{Operation, Operations};
use crate::recoveries::crashes;
use crate::starts::{Afters, Start, Turns};
use crate::states::States;
use crate::sweep::{Broken, ModelSet, Swept};
use crate::tree::Fingerprint;
pub use groups::AlikeStates;
use groups::Group;

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
    pub fn of(&self, swept: &Swept) -> Vec<(Finding, AlikeStates)> {
        let Some(spaces) = self.spaces else {
            return Vec::new();
        };
        let mut states = States::each(&self.trace.run, spaces, self.trace);
        let groups = self.groups(spaces, &mut states, swept);
        let told = |(place, group): (usize, Group)| {
            let of_model = self.of_model(group.member);
            let states = &mut states[group.member];
            let story = of_model.story(Some(states), &group.state, &group.smallest, group.key);
            // What lost more beside is possible wherever this is, unless only all together breaks it.
            let alike = group.alike(story.is_of_several_losses());
            let finding = Finding {
                number: place + 1,
                states: group.states,
                different: group.different,
                relaxations: group.relaxations,
                starts: start_names(&group.starts),
                models: self.possible_on(group.models),
                ..story
            };
            (finding, alike)
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
            model: self.model.to_owned(),
            relaxation: relaxation_words(state.relaxation).to_owned(),
            complaint: shown.complaint.clone(),
            states: shown.states,
            different: 1,
            start: self.start_story(state.start, self.turns(state)),
            patterns: self.patterns(&nodes),
            state: shown.smallest,
            lost_together: together(shown),
            together_unproven: shown.is_unproven,
            key,
            plain: self.plain(shown),
            nodes,
            timeline: self.timeline(state),
            acknowledged: self.acknowledged(state),
            is_told: self.is_told(state),
            promised_nothing,
            models: self.possible_on(ModelSet::of(self.member)),
            crashes: crashes(self.trace),
            recoveries: usize::from(self.trace.about.recovers.is_some()),
            ..Finding::default()
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

    pub(crate) fn operations_of(&self, node: usize) -> &Operations {
        &self.operations[node]
    }

    pub(crate) fn operation(&self, node: usize, event: usize) -> Option<&Operation> {
        self.operations[node].get(event)
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
fn together(shown: &Broken) -> Option<Vec<EventPlace>> {
    let losses = shown.with_losses.as_deref()?;
    let place = |loss: &Loss| EventPlace {
        node: loss.node,
        event: loss.event,
    };
    Some(losses.iter().map(place).collect())
}

/// Whether a letter may be one of a node's name.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '-' || letter == '_'
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
