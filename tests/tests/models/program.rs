//! Small programs: what they do to files, and how that is written down.

use std::fmt;
use std::str::FromStr;

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
    pub const ALL: [(&str, Self); 4] = [
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
