//! Phase 2 of ACE: the parameters that each operation can have.

use workloads::FallocMode;

use crate::bounds::{Bounds, LinkPairs};
use crate::operation::{DataRange, Operation};
use crate::paths::{PathId, PathTable};

/// One operation with its parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) operation: Operation,
    pub(crate) path: PathId,
    /// The second name, or the same again.
    pub(crate) other: PathId,
    pub(crate) argument: Argument,
}

/// A parameter that is not a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    None,
    Range(DataRange),
    Falloc(FallocMode, DataRange),
    Size(u64),
}

impl Choice {
    /// The names it uses, as a set.
    pub(crate) fn names(&self) -> u64 {
        1 << self.path | 1 << self.other
    }

    pub(crate) fn appends(&self) -> bool {
        matches!(
            self.argument,
            Argument::Range(DataRange::Append) | Argument::Falloc(_, DataRange::Append)
        )
    }
}

/// Lists the parameters of operations in the order of enumeration.
pub(crate) struct Choices<'a> {
    bounds: &'a Bounds,
    paths: &'a PathTable,
    first: Vec<PathId>,
    second: Vec<PathId>,
    all: Vec<PathId>,
    first_dirs: Vec<PathId>,
    second_dirs: Vec<PathId>,
    all_dirs: Vec<PathId>,
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bounds: &'a Bounds, paths: &'a PathTable) -> Self {
        let ids = |names: &[String]| distinct(names.iter().filter_map(|name| paths.find(name)));
        let first = ids(&bounds.first_files);
        let second = ids(&bounds.second_files);
        let first_dirs = ids(&bounds.first_dirs);
        let second_dirs = ids(&bounds.second_dirs);
        Choices {
            bounds,
            paths,
            all: distinct(first.iter().chain(&second).copied()),
            all_dirs: distinct(first_dirs.iter().chain(&second_dirs).copied()),
            first,
            second,
            first_dirs,
            second_dirs,
        }
    }

    /// Every parameter of `operation`.
    pub(crate) fn of(&self, operation: Operation) -> Vec<Choice> {
        use Operation as O;
        match operation {
            O::Creat
            | O::Mknod
            | O::Mkfifo
            | O::Fsetxattr
            | O::Removexattr
            | O::Chmod
            | O::Chown
            | O::Fdatasync => on_each(operation, &self.first, &[Argument::None]),
            O::Unlink | O::Remove => on_each(operation, &self.all, &[Argument::None]),
            O::Mkdir | O::Rmdir => on_each(operation, &self.first_dirs, &[Argument::None]),
            O::Write => on_each(operation, &self.first, &ranges(&self.bounds.write_ranges)),
            O::Dwrite | O::MmapWrite => {
                on_each(operation, &self.first, &ranges(&self.bounds.block_ranges))
            }
            O::Truncate => on_each(operation, &self.first, &self.sizes()),
            O::Falloc => on_each(operation, &self.first, &self.allocations()),
            O::Link | O::Symlink | O::Reflink => self.links(operation),
            O::Rename | O::RenameNoreplace | O::RenameExchange => {
                let mut choices = on_pairs(operation, &self.all, &self.second);
                choices.extend(self.directory_renames(operation));
                choices
            }
            O::RenameWhiteout => on_pairs(operation, &self.all, &self.second),
        }
    }

    fn links(&self, operation: Operation) -> Vec<Choice> {
        match self.bounds.link_pairs {
            LinkPairs::IntoSecond => on_pairs(operation, &self.all, &self.second),
            LinkPairs::FromFirst => {
                let dest = distinct(self.second.iter().chain(&self.first).copied());
                on_pairs(operation, &self.first, &dest)
            }
        }
    }

    fn directory_renames(&self, operation: Operation) -> Vec<Choice> {
        let mut choices = on_pairs(operation, &self.all_dirs, &self.second_dirs);
        choices.retain(|choice| {
            let (source, dest) = (choice.path, choice.other);
            !self.paths.is_below(dest, source) && !self.paths.is_below(source, dest)
        });
        choices
    }

    fn sizes(&self) -> Vec<Argument> {
        self.bounds
            .truncate_sizes
            .iter()
            .copied()
            .map(Argument::Size)
            .collect()
    }

    fn allocations(&self) -> Vec<Argument> {
        let modes = self.bounds.falloc_modes.iter();
        modes
            .flat_map(|&mode| {
                self.bounds
                    .write_ranges
                    .iter()
                    .map(move |&range| Argument::Falloc(mode, range))
            })
            .collect()
    }
}

/// The pairs of directories that `choices` rename, in both directions where they are swapped.
pub(crate) fn directory_pairs(choices: &[Choice], paths: &PathTable) -> Vec<(PathId, PathId)> {
    let mut pairs = Vec::new();
    for choice in choices
        .iter()
        .filter(|choice| choice.path != choice.other && paths.is_dir(choice.path))
    {
        pairs.push((choice.path, choice.other));
        if choice.operation == Operation::RenameExchange {
            pairs.push((choice.other, choice.path));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

fn ranges(list: &[DataRange]) -> Vec<Argument> {
    list.iter().copied().map(Argument::Range).collect()
}

fn on_each(operation: Operation, paths: &[PathId], arguments: &[Argument]) -> Vec<Choice> {
    let choice = |path, argument| Choice {
        operation,
        path,
        other: path,
        argument,
    };
    paths
        .iter()
        .flat_map(|&path| {
            arguments
                .iter()
                .map(move |&argument| choice(path, argument))
        })
        .collect()
}

fn on_pairs(operation: Operation, sources: &[PathId], dests: &[PathId]) -> Vec<Choice> {
    let pairs = sources
        .iter()
        .flat_map(|&path| dests.iter().map(move |&other| (path, other)));
    let different = pairs.filter(|(path, other)| path != other);
    different
        .map(|(path, other)| Choice {
            operation,
            path,
            other,
            argument: Argument::None,
        })
        .collect()
}

fn distinct(ids: impl Iterator<Item = PathId>) -> Vec<PathId> {
    let mut list = Vec::new();
    for id in ids {
        if !list.contains(&id) {
            list.push(id);
        }
    }
    list
}
