//! Phase 3 of ACE: which persistence operations can follow an operation. How many there are
//! depends only on the set of names that the workload uses.

use crate::bounds::{Bounds, BoundsError, PersistNames, Persistence};
use crate::paths::{PathId, PathTable};

/// A persistence operation with its name, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persist {
    Fsync(PathId),
    Fdatasync(PathId),
    Sync,
    Syncfs,
    None,
}

/// The persistence operations that the bounds allow.
#[derive(Debug, Clone)]
pub(crate) struct Menu {
    ops: u32,
    on_names: Vec<fn(PathId) -> Persist>,
    on_all: Vec<Persist>,
    none: bool,
    /// For each name the set of names that are persisted with it.
    related: Vec<u64>,
}

impl Menu {
    pub(crate) fn new(bounds: &Bounds, paths: &PathTable) -> Result<Self, BoundsError> {
        let mut menu = Menu {
            ops: bounds.ops as u32,
            on_names: Vec::new(),
            on_all: Vec::new(),
            none: bounds.persistence.contains(&Persistence::None),
            related: related(bounds, paths),
        };
        for (kind, _) in Persistence::ALL {
            match kind {
                _ if !bounds.persistence.contains(kind) => {}
                Persistence::Fsync => menu.on_names.push(Persist::Fsync),
                Persistence::Fdatasync => menu.on_names.push(Persist::Fdatasync),
                Persistence::Sync => menu.on_all.push(Persist::Sync),
                Persistence::Syncfs => menu.on_all.push(Persist::Syncfs),
                Persistence::None => {}
            }
        }
        if menu.on_names.is_empty() && menu.on_all.is_empty() {
            return Err(BoundsError::Empty(
                "the last operation needs a persistence operation",
            ));
        }
        Ok(menu)
    }

    /// The names that are persisted where `used` is used.
    pub(crate) fn names(&self, used: u64) -> u64 {
        bits(used).fold(0, |set, name| set | self.related[usize::from(name)])
    }

    /// What can follow the last operation, then what can follow the others.
    fn sizes(&self, names: u64) -> (u64, u64) {
        let last =
            u64::from(names.count_ones()) * self.on_names.len() as u64 + self.on_all.len() as u64;
        (last, last + u64::from(self.none))
    }

    /// How many permutations there are where `used` is used.
    pub(crate) fn permutations(&self, used: u64) -> u128 {
        let (last, other) = self.sizes(self.names(used));
        u128::from(other)
            .saturating_pow(self.ops - 1)
            .saturating_mul(u128::from(last))
    }

    /// Permutation `index` over the names `names`, the last operation varying fastest.
    pub(crate) fn permutation(&self, names: &[PathId], mut index: u64, out: &mut Vec<Persist>) {
        let on_names = names.len() * self.on_names.len();
        let last = (on_names + self.on_all.len()) as u64;
        out.clear();
        out.resize(self.ops as usize, Persist::None);
        let mut size = last;
        for slot in out.iter_mut().rev() {
            *slot = self.item(names, on_names, (index % size) as usize);
            index /= size;
            size = last + u64::from(self.none);
        }
    }

    fn item(&self, names: &[PathId], on_names: usize, item: usize) -> Persist {
        if item < on_names {
            let kinds = self.on_names.len();
            return self.on_names[item % kinds](names[item / kinds]);
        }
        self.on_all
            .get(item - on_names)
            .copied()
            .unwrap_or(Persist::None)
    }
}

/// The elements of a set of names, in order.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = PathId> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (lowest < u64::BITS).then_some(lowest as PathId)
    })
}

fn related(bounds: &Bounds, paths: &PathTable) -> Vec<u64> {
    let named = paths.named();
    let set_of = |path: PathId| match bounds.persist_names {
        PersistNames::Used => 1 << path,
        PersistNames::Related => 1 << path | 1 << paths.parent(path) | siblings(path, paths),
    };
    (0..named).map(set_of).collect()
}

/// ACE's siblings are the names of the bounds in the same directory and of the same kind.
fn siblings(path: PathId, paths: &PathTable) -> u64 {
    let is_sibling = |other: &PathId| {
        paths.parent(*other) == paths.parent(path)
            && paths.is_dir(*other) == paths.is_dir(path)
            && *other != paths.root()
    };
    (0..paths.named())
        .filter(is_sibling)
        .fold(0, |set, other| set | 1 << other)
}
