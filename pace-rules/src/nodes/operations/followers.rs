//! What is lost with each group. Of a long run these are very many short lists, which are kept in one
//! place.

use crate::nodes::narrow::Narrow;

/// Lists of numbers of groups, one for each group, that all grow at once.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// For each list, the place of its last item; `u32::MAX` if it is empty.
    lasts: Vec<u32>,
    items: Vec<Item>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    number: u32,
    /// The place of the one before it in its list; `u32::MAX` if it is the first.
    before: u32,
}

const NONE: u32 = u32::MAX;

impl Lists {
    pub(super) fn with_capacity(lists: usize) -> Self {
        Self {
            lasts: Vec::with_capacity(lists),
            items: Vec::new(),
        }
    }

    /// How many lists there are.
    pub(super) fn len(&self) -> usize {
        self.lasts.len()
    }

    /// Adds a list that is empty.
    pub(super) fn add(&mut self) {
        self.lasts.push(NONE);
    }

    /// Adds a number to a list, if it is not its last one.
    ///
    /// # Panics
    /// If there are too many for their places to be numbered.
    pub(super) fn push(&mut self, list: usize, number: usize) {
        if self.get(list).next() == Some(number) {
            return;
        }
        let place = u32::try_from(self.items.len()).ok();
        let place = place.filter(|place| *place != NONE);
        self.items.push(Item {
            number: number as u32,
            before: self.lasts[list],
        });
        self.lasts[list] = place.expect("fewer groups follow others than can be numbered");
    }

    /// Those of a list, the last first.
    pub(super) fn get(&self, list: usize) -> impl Iterator<Item = usize> {
        let item = |place: u32| self.items.get(place as usize);
        let items = std::iter::successors(item(self.lasts[list]), move |last| item(last.before));
        items.map(|item| item.number as usize)
    }

    /// How many numbers there are in all lists.
    pub(super) fn items(&self) -> usize {
        self.items.len()
    }
}

/// For each group, what is lost with it: those that wrote to its pages of the file next, and what
/// its operation cannot do without it.
#[derive(Debug, Clone, Default)]
pub(super) struct Followers {
    /// Those of all groups, one after the other.
    all: Vec<Narrow>,
    /// Where those of each group end.
    ends: Vec<Narrow>,
}

impl Followers {
    pub(super) fn of(lists: &Lists) -> Self {
        let mut all = Vec::with_capacity(lists.items());
        let mut ends = Vec::with_capacity(lists.len());
        for list in 0..lists.len() {
            all.extend(lists.get(list).map(Narrow::new));
            ends.push(Narrow::new(all.len()));
        }
        Self { all, ends }
    }

    pub(super) fn get(&self, group: usize) -> impl Iterator<Item = usize> {
        let start = group
            .checked_sub(1)
            .map_or(0, |before| self.ends[before].get());
        let own = &self.all[start..self.ends[group].get()];
        own.iter().map(|follower| follower.get())
    }
}
