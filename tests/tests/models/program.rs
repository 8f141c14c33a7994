//! Small programs: what they do to files, at random or as it is written down.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use end_to_end::Random;

use super::tree::PAGE;

/// What a program does. Paths are below its directory, which is `.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Create(String),
    Write(String, u64, u64, How),
    /// To the end.
    Append(String, u64, How),
    /// Opened with `O_TRUNC`, and written.
    Rewrite(String, u64),
    Truncate(String, u64),
    /// `fallocate` of a range.
    Allocate(String, u64, u64, Allocation),
    /// Through a shared mapping.
    Store(String, u64, u64),
    Msync(String, u64, u64),
    Rename(String, String),
    Exchange(String, String),
    Link(String, String),
    Unlink(String),
    Mkdir(String),
    Rmdir(String),
    Mode(String, u32),
    Fsync(String),
    Fdatasync(String),
    Syncfs,
    /// The kernel writes a file's dirty pages, as it may at any time (`sync_file_range`).
    Push(String),
    /// Another program on the same disk creates a file of its own and syncs it.
    Neighbour,
    /// One moves a file of its own and syncs it: all that was done to names is committed, and what
    /// was written to files is not waited for.
    Commit,
}

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Plain,
    /// `O_SYNC`.
    Sync,
    /// `O_DSYNC`.
    Dsync,
    /// `O_DIRECT`.
    Direct,
}

/// What `fallocate` makes of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Space for it, and the file as large.
    Grown,
    /// Space for it, and the file as it was.
    Reserved,
    /// Zeros that have space (`FALLOC_FL_ZERO_RANGE`), and the file as large as it was.
    Zeros,
    /// A hole (`FALLOC_FL_PUNCH_HOLE`).
    Hole,
}

impl Allocation {
    const ALL: [(&str, Self); 4] = [
        ("allocate", Self::Grown),
        ("reserve", Self::Reserved),
        ("zero", Self::Zeros),
        ("punch", Self::Hole),
    ];

    fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, one)| *one == self).expect("it is listed").0
    }

    fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(own, _)| *own == name).map(|(_, one)| one)
    }
}

/// What there is at the beginning, and what is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Files with their sizes, and directories.
    pub initial: Vec<(String, Option<u64>)>,
    pub ops: Vec<Op>,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "",
            Self::Sync => " sync",
            Self::Dsync => " dsync",
            Self::Direct => " direct",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Write(path, offset, len, how) => write!(f, "write {path} {offset} {len}{how}"),
            Self::Append(path, len, how) => write!(f, "append {path} {len}{how}"),
            Self::Rewrite(path, len) => write!(f, "rewrite {path} {len}"),
            Self::Truncate(path, size) => write!(f, "truncate {path} {size}"),
            Self::Allocate(path, offset, len, how) => {
                write!(f, "{} {path} {offset} {len}", how.name())
            }
            Self::Store(path, offset, len) => write!(f, "store {path} {offset} {len}"),
            Self::Msync(path, offset, len) => write!(f, "msync {path} {offset} {len}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Exchange(from, to) => write!(f, "exchange {from} {to}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Mode(path, mode) => write!(f, "chmod {path} {mode:o}"),
            Self::Fsync(path) => write!(f, "fsync {path}"),
            Self::Fdatasync(path) => write!(f, "fdatasync {path}"),
            Self::Syncfs => f.write_str("syncfs"),
            Self::Push(path) => write!(f, "push {path}"),
            Self::Neighbour => f.write_str("neighbour"),
            Self::Commit => f.write_str("commit"),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, size) in &self.initial {
            match size {
                Some(size) => write!(f, "has {path} {size}; ")?,
                None => write!(f, "has {path}/; ")?,
            }
        }
        let ops: Vec<_> = self.ops.iter().map(ToString::to_string).collect();
        f.write_str(&ops.join("; "))
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut program = Self::default();
        for words in text
            .split(';')
            .map(str::trim)
            .filter(|words| !words.is_empty())
        {
            let words: Vec<_> = words.split_whitespace().collect();
            let wrong = || format!("not an operation: {}", words.join(" "));
            let number = |place: usize| words.get(place).and_then(|word| word.parse().ok());
            let number = |place: usize| number(place).ok_or_else(wrong);
            let path = |place: usize| {
                words
                    .get(place)
                    .map(|word| (*word).to_owned())
                    .ok_or_else(wrong)
            };
            let how = |place: usize| match words.get(place) {
                None => Ok(How::Plain),
                Some(&"sync") => Ok(How::Sync),
                Some(&"dsync") => Ok(How::Dsync),
                Some(&"direct") => Ok(How::Direct),
                Some(_) => Err(wrong()),
            };
            if words[0] == "has" {
                let path = path(1)?;
                program.initial.push(match path.strip_suffix('/') {
                    Some(directory) => (directory.to_owned(), None),
                    None => (path, Some(number(2)?)),
                });
                continue;
            }
            program.ops.push(match words[0] {
                "create" => Op::Create(path(1)?),
                "write" => Op::Write(path(1)?, number(2)?, number(3)?, how(4)?),
                "append" => Op::Append(path(1)?, number(2)?, how(3)?),
                "rewrite" => Op::Rewrite(path(1)?, number(2)?),
                "truncate" => Op::Truncate(path(1)?, number(2)?),
                "store" => Op::Store(path(1)?, number(2)?, number(3)?),
                "msync" => Op::Msync(path(1)?, number(2)?, number(3)?),
                "rename" => Op::Rename(path(1)?, path(2)?),
                "exchange" => Op::Exchange(path(1)?, path(2)?),
                "link" => Op::Link(path(1)?, path(2)?),
                "unlink" => Op::Unlink(path(1)?),
                "mkdir" => Op::Mkdir(path(1)?),
                "rmdir" => Op::Rmdir(path(1)?),
                "chmod" => Op::Mode(
                    path(1)?,
                    u32::from_str_radix(&path(2)?, 8).map_err(|_| wrong())?,
                ),
                "fsync" => Op::Fsync(path(1)?),
                "fdatasync" => Op::Fdatasync(path(1)?),
                "syncfs" => Op::Syncfs,
                "push" => Op::Push(path(1)?),
                "neighbour" => Op::Neighbour,
                "commit" => Op::Commit,
                other => {
                    let how = Allocation::named(other).ok_or_else(wrong)?;
                    Op::Allocate(path(1)?, number(2)?, number(3)?, how)
                }
            });
        }
        Ok(program)
    }
}

/// Draws programs that mostly do what is possible.
struct Author<'a> {
    random: &'a mut Random,
    /// What there is, with the size of what is a file.
    there: BTreeMap<String, Option<u64>>,
}

impl Program {
    /// One of up to so many operations.
    pub fn random(random: &mut Random, most: u64) -> Self {
        let mut initial = vec![("d".to_owned(), None)];
        for path in ["a", "d/b"] {
            if random.below(2) == 0 {
                let size = [100, 4096, 5000, 8192, 12288][random.below(5) as usize];
                initial.push((path.to_owned(), Some(size)));
            }
        }
        let there = initial.iter().cloned().collect();
        let count = 2 + random.below(most - 1);
        let mut author = Author { random, there };
        let mut ops = Vec::new();
        while (ops.len() as u64) < count {
            ops.extend(author.op());
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
}
