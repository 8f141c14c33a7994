//! Small programs at random.

use std::collections::BTreeMap;

use end_to_end::Random;

use super::program::{Allocation, How, Op, Program};
use super::tree::PAGE;

/// Draws programs that mostly do what is possible.
struct Author<'a> {
    random: &'a mut Random,
    /// What there is, with the size of what is a file.
    there: BTreeMap<String, Option<u64>>,
}

/// What programs mostly do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A bit of everything.
    Anything,
    /// Files are rotated and replaced, some of them synced: what a journal or a log of names has of
    /// one depends on what it has of the others.
    Names,
}

/// The names that are rotated: the first is new each time, and the last is lost.
const ROTATED: [[&str; 3]; 2] = [["a", "b", "c"], ["d/a", "d/b", "d/c"]];

impl Program {
    /// One of up to about so many operations.
    pub fn random(random: &mut Random, shape: Shape, most: u64) -> Self {
        let mut initial = vec![("d".to_owned(), None)];
        let files: &[_] = match shape {
            Shape::Anything => &["a", "d/b"],
            Shape::Names => &["a", "b", "d/a", "d/b"],
        };
        for path in files {
            if random.below(2) == 0 {
                let size = [100, 4096, 5000, 8192, 12288][random.below(5) as usize];
                initial.push(((*path).to_owned(), Some(size)));
            }
        }
        let there = initial.iter().cloned().collect();
        let count = 2 + random.below(most - 1);
        let mut author = Author { random, there };
        let mut ops = Vec::new();
        while (ops.len() as u64) < count {
            match shape {
                Shape::Anything => ops.extend(author.op()),
                Shape::Names => ops.extend(author.names()),
            }
        }
        Self { initial, ops }
    }
}

impl Author<'_> {
    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let count = all.len() as u64;
        (count > 0).then(|| all[self.random.below(count) as usize].clone())
    }

    fn file(&mut self) -> Option<String> {
        let files: Vec<_> = self
            .there
            .iter()
            .filter(|(_, size)| size.is_some())
            .map(|(path, _)| path.clone())
            .collect();
        self.one_of(&files)
    }

    fn any(&mut self) -> Option<String> {
        let mut all: Vec<_> = self.there.keys().cloned().collect();
        all.push(".".into());
        self.one_of(&all)
    }

    /// A name that a file has, or could have.
    fn name(&mut self) -> Option<String> {
        let all = ["a", "b", "c", "d/a", "d/b", "e/a"];
        let name = self.one_of(&all)?;
        let parent = name.rsplit_once('/').map(|(parent, _)| parent);
        let is_there = parent.is_none_or(|parent| self.there.get(parent) == Some(&None));
        is_there.then(|| name.to_owned())
    }

    fn len(&mut self) -> u64 {
        [3, 100, 2500, PAGE, 2 * PAGE, 5000, 3 * PAGE][self.random.below(7) as usize]
    }

    fn how(&mut self) -> How {
        match self.random.below(10) {
            0 => How::Sync,
            1 => How::Dsync,
            2 => How::Direct,
            _ => How::Plain,
        }
    }

    fn op(&mut self) -> Option<Op> {
        match self.random.below(106) {
            100.. => self.allocation(),
            number @ 0..57 => self.bytes(number),
            number @ 57..77 => self.name_change(number),
            number => self.sync(number),
        }
    }

    /// Something about the bytes of a file, or a new one.
    fn bytes(&mut self, number: u64) -> Option<Op> {
        Some(match number {
            0..8 => {
                let path = self.name()?;
                if self.there.contains_key(&path) {
                    return None;
                }
                self.there.insert(path.clone(), Some(0));
                Op::Create(path)
            }
            8..30 => {
                let (path, how) = (self.file()?, self.how());
                let size = self.there[&path].unwrap_or_default();
                let (mut offset, mut len) = match self.random.below(4) {
                    0 => (0, self.len()),
                    1 => (self.random.below(size + 1), self.len()),
                    2 => (size + PAGE, self.len()),
                    _ => (size / PAGE * PAGE, self.len()),
                };
                if how == How::Direct {
                    (offset, len) = (offset / PAGE * PAGE, len.next_multiple_of(PAGE));
                }
                if offset + len > 8 * PAGE {
                    return None;
                }
                self.there
                    .insert(path.clone(), Some(size.max(offset + len)));
                Op::Write(path, offset, len, how)
            }
            30..38 => {
                let (path, how, len) = (self.file()?, self.how(), self.len());
                let size = self.there[&path].unwrap_or_default();
                if how == How::Direct || size + len > 8 * PAGE {
                    return None;
                }
                self.there.insert(path.clone(), Some(size + len));
                Op::Append(path, len, how)
            }
            38..45 => {
                let (path, len) = (self.name()?, self.len());
                if self.there.get(&path) == Some(&None) {
                    return None;
                }
                self.there.insert(path.clone(), Some(len));
                Op::Rewrite(path, len)
            }
            45..50 => {
                let path = self.file()?;
                let size = [0, 100, PAGE, 6000, 3 * PAGE][self.random.below(5) as usize];
                self.there.insert(path.clone(), Some(size));
                Op::Truncate(path, size)
            }
            50..54 => {
                let path = self.file()?;
                let size = self.there[&path].filter(|size| *size > 0)?;
                let offset = self.random.below(size);
                let len = self.len().min(size - offset);
                Op::Store(path, offset, len)
            }
            _ => {
                let path = self.file()?;
                let size = self.there[&path].filter(|size| *size > 0)?;
                let offset = self.random.below(size) / PAGE * PAGE;
                let len = self.len().min(size - offset);
                Op::Msync(path, offset, len)
            }
        })
    }

    /// Space for a range of a file, or its zeros.
    fn allocation(&mut self) -> Option<Op> {
        let path = self.file()?;
        let size = self.there[&path].unwrap_or_default();
        let (_, how) = Allocation::ALL[self.random.below(4) as usize];
        let (offset, len) = match how {
            Allocation::Grown | Allocation::Reserved => (size / PAGE * PAGE, self.len()),
            Allocation::Zeros | Allocation::Hole => (self.random.below(size + 1), self.len()),
        };
        if offset + len > 8 * PAGE {
            return None;
        }
        if how == Allocation::Grown {
            self.there
                .insert(path.clone(), Some(size.max(offset + len)));
        }
        Some(Op::Allocate(path, offset, len, how))
    }

    /// Something about names and modes.
    fn name_change(&mut self, number: u64) -> Option<Op> {
        Some(match number {
            57..65 => {
                let (from, to) = (self.file()?, self.name()?);
                if from == to || self.there.get(&to) == Some(&None) {
                    return None;
                }
                let size = self.there.remove(&from)?;
                self.there.insert(to.clone(), size);
                Op::Rename(from, to)
            }
            65..67 => {
                let (from, to) = (self.file()?, self.file()?);
                if from == to {
                    return None;
                }
                let (one, other) = (self.there[&from], self.there[&to]);
                self.there.insert(from.clone(), other);
                self.there.insert(to.clone(), one);
                Op::Exchange(from, to)
            }
            67..70 => {
                let (from, to) = (self.file()?, self.name()?);
                if self.there.contains_key(&to) {
                    return None;
                }
                self.there.insert(to.clone(), self.there[&from]);
                Op::Link(from, to)
            }
            70..73 => {
                let path = self.file()?;
                self.there.remove(&path);
                Op::Unlink(path)
            }
            73..74 => {
                if self.there.contains_key("e") {
                    return None;
                }
                self.there.insert("e".into(), None);
                Op::Mkdir("e".into())
            }
            74..75 => {
                if !self.there.contains_key("e")
                    || self.there.keys().any(|path| path.starts_with("e/"))
                {
                    return None;
                }
                self.there.remove("e");
                Op::Rmdir("e".into())
            }
            75..76 => return self.directory_rename(),
            _ => Op::Mode(self.file()?, 0o600),
        })
    }

    /// A directory, with all that is in it.
    fn directory_rename(&mut self) -> Option<Op> {
        let names = ["d", "e"];
        let is_there = |name: &str| self.there.get(name) == Some(&None);
        let from = names.into_iter().find(|name| is_there(name))?;
        let to = names.into_iter().find(|name| !is_there(name))?;
        let moved = |path: String| match path.strip_prefix(from) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
            _ => path,
        };
        let there = std::mem::take(&mut self.there);
        self.there = there
            .into_iter()
            .map(|(path, size)| (moved(path), size))
            .collect();
        Some(Op::Rename(from.into(), to.into()))
    }

    /// Something that makes things durable, or lets the disk be written.
    fn sync(&mut self, number: u64) -> Option<Op> {
        Some(match number {
            77..84 => Op::Fsync(self.any()?),
            84..90 => Op::Fdatasync(self.any()?),
            90..92 => Op::Syncfs,
            92..95 => Op::Push(self.file()?),
            95..97 => Op::Neighbour,
            _ => Op::Commit,
        })
    }

    /// Something about names that belong together.
    fn names(&mut self) -> Vec<Op> {
        match self.random.below(100) {
            0..25 => self.rotation(),
            25..40 => self.replacement(),
            40..47 => self.bytes(30).into_iter().collect(),
            47..73 => {
                let number = 57 + self.random.below(19);
                self.name_change(number).into_iter().collect()
            }
            _ => {
                let number = 77 + self.random.below(23);
                self.sync(number).into_iter().collect()
            }
        }
    }

    /// Each file moves to the next name, the oldest first, and mostly there is a new one.
    fn rotation(&mut self) -> Vec<Op> {
        let [new, middle, last] = ROTATED[self.random.below(2) as usize];
        let mut ops = Vec::new();
        for (from, to) in [(middle, last), (new, middle)] {
            ops.extend(self.moved(from, to));
        }
        if self.random.below(4) > 0 {
            ops.extend(self.written(new));
        }
        ops
    }

    /// A file is written beside another, and takes its name.
    fn replacement(&mut self) -> Vec<Op> {
        let all = ROTATED.as_flattened();
        let name = all[self.random.below(all.len() as u64) as usize];
        let beside = if name.starts_with("d/") { "d/t" } else { "t" };
        let mut ops = self.written(beside);
        ops.extend(self.moved(beside, name));
        ops
    }

    fn moved(&mut self, from: &str, to: &str) -> Option<Op> {
        let parent_is_there = |path: &str| !path.starts_with("d/") || self.there.contains_key("d");
        if !parent_is_there(from) || self.there.get(to) == Some(&None) {
            return None;
        }
        let size = self.there.remove(from)??;
        self.there.insert(to.into(), Some(size));
        Some(Op::Rename(from.into(), to.into()))
    }

    /// A file is written anew, and synced, or not.
    fn written(&mut self, path: &str) -> Vec<Op> {
        let is_possible = !path.starts_with("d/") || self.there.contains_key("d");
        if !is_possible || self.there.get(path) == Some(&None) {
            return Vec::new();
        }
        let len = self.len();
        self.there.insert(path.into(), Some(len));
        let mut ops = vec![Op::Rewrite(path.into(), len)];
        match self.random.below(6) {
            0..3 => ops.push(Op::Fsync(path.into())),
            3 => ops.push(Op::Fdatasync(path.into())),
            _ => (),
        }
        ops
    }
}
