//! Broken states that are alike, together.

use std::collections::{BTreeMap, HashMap, HashSet};

use pace_rules::nodes::{Histories, Relaxation, Spaces, State};

use super::Findings;
use super::cause::Cause;
use super::smaller::order;
use crate::finding::relaxation_words;
use crate::starts::Start;
use crate::states::States;
use crate::sweep::{Broken, ModelSet, Swept};
use crate::tree::Fingerprint;

/// What is in states that are alike: each of what its disks hold, and of what was acknowledged.
#[derive(Debug, Default, Clone)]
pub struct AlikeStates {
    pub(crate) contents: HashSet<Fingerprint>,
    /// Of those that kept one operation of all that they could lose, where only some of these losses
    /// do the harm. The same on the disk is taken for harmless before anything was acknowledged.
    pub(crate) besides: HashSet<Fingerprint>,
}

impl AlikeStates {
    /// One state.
    pub(crate) fn of(content: Fingerprint) -> Self {
        Self {
            contents: HashSet::from([content]),
            besides: HashSet::new(),
        }
    }
}

/// States that are alike.
#[derive(Debug)]
pub(crate) struct Group {
    alike: AlikeStates,
    /// The same of those that lost more beside, all at once.
    at_once: AlikeStates,
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

/// The state that stands for others.
struct Shown<'s> {
    broken: &'s Broken,
    /// The model of it.
    member: usize,
    state: State,
    key: Fingerprint,
}

impl<'s> Shown<'s> {
    fn of(swept: &'s Swept, spaces: &Spaces, key: Fingerprint) -> Self {
        let broken = &swept.broken[&key];
        let (member, state) = broken.state(spaces);
        Self {
            broken,
            member,
            state,
            key,
        }
    }
}

impl Group {
    /// Without any state yet; this one is shown.
    fn of(shown: &Shown<'_>) -> Self {
        Self {
            alike: AlikeStates::default(),
            at_once: AlikeStates::default(),
            states: 0,
            different: 0,
            relaxations: BTreeMap::new(),
            starts: BTreeMap::new(),
            smallest: shown.broken.clone(),
            member: shown.member,
            state: shown.state.clone(),
            key: shown.key,
            models: ModelSet::default(),
        }
    }

    /// Adds what is the same to any check.
    fn add(
        &mut self,
        broken: &Broken,
        content: Fingerprint,
        start: Start,
        (relaxation, is_blamed): (Relaxation, bool),
    ) {
        let contents = match relaxation {
            Relaxation::OneKept if is_blamed => &mut self.at_once.besides,
            // One that lost all at once may need all of that to be broken.
            relaxation if relaxation.is_at_once() => &mut self.at_once.contents,
            _ => &mut self.alike.contents,
        };
        contents.insert(content);
        self.states += broken.states;
        self.different += 1;
        self.models.add(broken.models);
        *self.starts.entry(start).or_default() += broken.states;
        let words = relaxation_words(relaxation).to_owned();
        *self.relaxations.entry(words).or_default() += broken.states;
    }

    /// What its states hold; with what lost more beside only if the finding is of several losses.
    pub(super) fn alike(&self, is_together: bool) -> AlikeStates {
        let mut alike = self.alike.clone();
        if is_together {
            alike.contents.extend(&self.at_once.contents);
            alike.besides.extend(&self.at_once.besides);
        }
        alike
    }

    /// Shows this state, if there is less to understand in it.
    fn show_if_smaller(&mut self, shown: Shown<'_>) {
        if order(&shown.state, shown.broken) < order(&self.state, &self.smallest) {
            self.smallest = shown.broken.clone();
            (self.member, self.state, self.key) = (shown.member, shown.state, shown.key);
        }
    }
}

impl Findings<'_> {
    /// `states` makes those of each model.
    pub(super) fn groups(
        &self,
        spaces: &Spaces,
        states: &mut [States<'_>],
        swept: &Swept,
    ) -> Vec<Group> {
        let mut groups: HashMap<Cause, Group> = HashMap::new();
        let mut smaller = HashMap::new();
        for (key, broken) in in_order(swept) {
            let (own, of_key) = broken.state(spaces);
            let (start, content) = self.start_and_content(spaces, states, (own, &of_key), key);
            let smallest = self.smallest(spaces, *key, swept, states, &mut smaller);
            let shown = Shown::of(swept, spaces, smallest);
            let of_model = self.of_model(shown.member);
            let cause = of_model.cause(&shown.state, shown.broken);
            let group = groups.entry(cause).or_insert_with(|| Group::of(&shown));
            let is_blamed = swept.blamed.contains_key(key);
            let relaxation = if is_blamed {
                spaces.relaxation(broken.smallest)
            } else {
                of_key.relaxation
            };
            group.add(broken, content, start, (relaxation, is_blamed));
            group.show_if_smaller(shown);
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
}

/// All broken states. What comes first decides between equals.
fn in_order(swept: &Swept) -> Vec<(&Fingerprint, &Broken)> {
    let mut all: Vec<_> = swept.broken.iter().collect();
    all.sort_unstable_by_key(|(key, broken)| (broken.smallest, *key));
    all
}
