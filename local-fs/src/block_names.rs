//! What the blocks of a file system hold, as its own debugger tells it: for people, and for nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Context;
use crate::table::{Debugger, Program};
use crate::{Result, Variant};

/// So many names are given to one place.
const NAMES_MAX: usize = 4;

/// So many blocks of one place are looked at.
const BLOCKS_MAX: u64 = 64;

/// So many numbers stand in one line for debugfs, which reads no more than 8 KiB of it.
const NUMBERS_MAX: usize = 300;

/// The inodes of ext2, ext3 and ext4 that have no path;
/// Documentation/filesystems/ext4/special_inodes.rst.
const EXT_INODES: [(u64, &str); 3] = [
    (2, "the root directory"),
    (7, "reserved group descriptors"),
    (8, "the journal"),
];

/// Says what an unmounted image, which needs no recovery, holds at each of `places`, offsets and
/// lengths in bytes. None where nothing has it, and everywhere if the file system has no debugger
/// that tells.
///
/// # Errors
/// If the debugger is missing or cannot be run.
pub fn block_names(
    variant: &Variant,
    image: &Path,
    places: &[(u64, u64)],
) -> Result<Vec<Option<String>>> {
    match variant.file_system.debugger {
        Some(Debugger { layout, debugger }) => ext_names(layout, debugger, image, places),
        None => Ok(vec![None; places.len()]),
    }
}

fn ext_names(
    layout: Program,
    debugger: Program,
    image: &Path,
    places: &[(u64, u64)],
) -> Result<Vec<Option<String>>> {
    let layout = ExtLayout::read(&run(layout, image, "")?);
    if layout.block_bytes == 0 {
        return Ok(vec![None; places.len()]);
    }
    let all: BTreeSet<u64> = places
        .iter()
        .flat_map(|place| layout.blocks(*place))
        .collect();
    let files = ExtFiles::ask(debugger, image, &layout, &all)?;
    let name = |block| files.name(&layout, block);
    Ok(places
        .iter()
        .map(|place| joined(layout.blocks(*place).map(name)))
        .collect())
}

/// The files that have blocks, as debugfs tells them.
struct ExtFiles {
    /// Which inode has a block.
    owners: BTreeMap<u64, u64>,
    paths: BTreeMap<u64, String>,
    files: BTreeMap<u64, ExtFile>,
}

impl ExtFiles {
    /// Asks who has these blocks, or is in them.
    fn ask(
        debugger: Program,
        image: &Path,
        layout: &ExtLayout,
        blocks: &BTreeSet<u64>,
    ) -> Result<Self> {
        let blocks = blocks.iter().copied();
        let unknown = blocks.clone().filter(|block| layout.name(*block).is_none());
        let owners = read_icheck(&run(debugger, image, &lines("icheck", unknown))?);
        let in_tables = blocks.filter_map(|block| layout.inodes(block)).flatten();
        let inodes: BTreeSet<u64> = owners.values().copied().chain(in_tables).collect();
        let owning: BTreeSet<u64> = owners.values().copied().collect();
        let stats = owning.iter().map(|inode| format!("stat <{inode}>\n"));
        let questions = lines("ncheck", inodes.into_iter()) + "\n" + &stats.collect::<String>();
        let said = run(debugger, image, &questions)?;
        Ok(Self {
            owners,
            paths: read_ncheck(&said),
            files: read_stats(&said),
        })
    }

    /// What a block holds.
    fn name(&self, layout: &ExtLayout, block: u64) -> Option<String> {
        if let Some(inodes) = layout.inodes(block) {
            return Some(table_block(inodes, &self.paths));
        }
        layout.name(block).map(str::to_owned).or_else(|| {
            let inode = self.owners.get(&block)?;
            let (path, file) = (self.paths.get(inode), self.files.get(inode));
            Some(file_block(*inode, block, path, file))
        })
    }
}

/// What a block of the inode table has.
fn table_block(inodes: RangeInclusive<u64>, paths: &BTreeMap<u64, String>) -> String {
    let of: Vec<&str> = inodes
        .filter_map(|inode| paths.get(&inode))
        .map(String::as_str)
        .collect();
    match of.as_slice() {
        [] => "the inode table".into(),
        of => format!("the inode table ({})", of.join(", ")),
    }
}

/// The names of the blocks of one place, each once. None if one of them has none.
fn joined(names: impl Iterator<Item = Option<String>>) -> Option<String> {
    let mut different: Vec<String> = Vec::new();
    for name in names {
        let name = name?;
        if !different.contains(&name) {
            different.push(name);
        }
    }
    let more = different.len() > NAMES_MAX;
    different.truncate(NAMES_MAX);
    Some(different.join(", ") + if more { ", …" } else { "" }).filter(|name| !name.is_empty())
}

/// What a block of a file is to it.
fn file_block(inode: u64, block: u64, path: Option<&String>, file: Option<&ExtFile>) -> String {
    if let Some((_, name)) = EXT_INODES.iter().find(|(number, _)| *number == inode) {
        return (*name).to_owned();
    }
    let path = path.cloned().unwrap_or_else(|| format!("inode {inode}"));
    match file {
        Some(file) if file.map.iter().any(|range| range.contains(&block)) => {
            format!("block map of {path}")
        }
        Some(file) if file.is_directory => format!("directory {path}"),
        _ => format!("data of {path}"),
    }
}

/// Where ext2, ext3 and ext4 keep what is not in files.
#[derive(Debug, Default)]
struct ExtLayout {
    block_bytes: u64,
    inode_bytes: u64,
    inodes_per_group: u64,
    fixed: Vec<(RangeInclusive<u64>, &'static str)>,
    /// With the group of each.
    tables: Vec<(RangeInclusive<u64>, u64)>,
}

impl ExtLayout {
    /// From what dumpe2fs prints.
    fn read(text: &str) -> Self {
        let mut this = Self::default();
        let mut group = 0;
        for line in text.lines() {
            let number = |name: &str| {
                line.strip_prefix(name)
                    .and_then(|rest| rest.trim().parse().ok())
            };
            if let Some(bytes) = number("Block size:") {
                this.block_bytes = bytes;
            } else if let Some(bytes) = number("Inode size:") {
                this.inode_bytes = bytes;
            } else if let Some(count) = number("Inodes per group:") {
                this.inodes_per_group = count;
            } else if let Some(rest) = line.strip_prefix("Group ") {
                group = rest
                    .split(':')
                    .next()
                    .and_then(|number| number.parse().ok())
                    .unwrap_or(group);
            }
            for part in line.trim().split(", ") {
                this.extend_by(part, group);
            }
        }
        this
    }

    /// Adds what a part of the description of a group says.
    fn extend_by(&mut self, part: &str, group: u64) {
        let placed = part.split_once(" at ");
        let Some((what, blocks)) = placed.and_then(|(what, at)| Some((what, range(at)?))) else {
            return;
        };
        let name = match what {
            "Primary superblock" => "the superblock",
            "Backup superblock" => "a copy of the superblock",
            "Group descriptors" | "Group descriptor" => "the group descriptors",
            "Block bitmap" => "the block bitmap",
            "Inode bitmap" => "the inode bitmap",
            "Inode table" => return self.tables.push((blocks, group)),
            _ => return,
        };
        self.fixed.push((blocks, name));
    }

    /// The first blocks of a place, an offset and a length in bytes.
    fn blocks(&self, (offset, length): (u64, u64)) -> RangeInclusive<u64> {
        let first = offset / self.block_bytes;
        let last = (offset + length.max(1) - 1) / self.block_bytes;
        first..=last.min(first + BLOCKS_MAX - 1)
    }

    fn name(&self, block: u64) -> Option<&'static str> {
        let fixed = self
            .fixed
            .iter()
            .find(|(blocks, _)| blocks.contains(&block))
            .map(|(_, name)| *name);
        fixed.or_else(|| {
            self.tables
                .iter()
                .any(|(blocks, _)| blocks.contains(&block))
                .then_some("the inode table")
        })
    }

    /// The inodes that a block of the inode table has.
    fn inodes(&self, block: u64) -> Option<RangeInclusive<u64>> {
        let (blocks, group) = self
            .tables
            .iter()
            .find(|(blocks, _)| blocks.contains(&block))?;
        let in_block = self
            .block_bytes
            .checked_div(self.inode_bytes)
            .filter(|count| *count > 0)?;
        let first = group * self.inodes_per_group + (block - blocks.start()) * in_block + 1;
        Some(first..=first + in_block - 1)
    }
}

/// `35-66 (+35)`, `3 (+3), csum …` or `0`.
fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let text = text.split_whitespace().next()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Pairs of numbers: a block and the inode that has it.
fn read_icheck(text: &str) -> BTreeMap<u64, u64> {
    let pair = |line: &str| {
        let (block, inode) = line.split_once('\t')?;
        Some((block.parse().ok()?, inode.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// Inodes and a path of each.
fn read_ncheck(text: &str) -> BTreeMap<u64, String> {
    let mut paths = BTreeMap::new();
    for (inode, path) in text.lines().filter_map(|line| line.split_once('\t')) {
        if let (Ok(inode), path) = (inode.parse(), path.trim_start_matches('/'))
            && !path.is_empty()
        {
            paths.entry(inode).or_insert_with(|| path.to_owned());
        }
    }
    paths
}

/// What must be known of a file.
#[derive(Debug, Default)]
struct ExtFile {
    is_directory: bool,
    /// The blocks that say where the others are.
    map: Vec<RangeInclusive<u64>>,
}

fn read_stats(text: &str) -> BTreeMap<u64, ExtFile> {
    let mut files = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Inode: ") {
            current = rest
                .split_whitespace()
                .next()
                .and_then(|number| number.parse::<u64>().ok());
            let is_directory = rest.contains("Type: directory");
            if let Some(inode) = current {
                files.insert(
                    inode,
                    ExtFile {
                        is_directory,
                        map: Vec::new(),
                    },
                );
            }
        }
        let Some(file) = current.and_then(|inode| files.get_mut(&inode)) else {
            continue;
        };
        for (what, at) in line.split(", ").filter_map(|part| part.split_once("):")) {
            if ["(ETB", "(IND", "(DIND", "(TIND"]
                .iter()
                .any(|map| what.starts_with(map))
            {
                file.map.extend(range(at));
            }
        }
    }
    files
}

/// A command of debugfs with these numbers, in as many lines as it takes.
fn lines(command: &str, numbers: impl Iterator<Item = u64>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    numbers
        .chunks(NUMBERS_MAX)
        .map(|some| format!("{command} {}", some.join(" ")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What a program prints about an image, asked with what it reads.
fn run(program: Program, image: &Path, input: &str) -> Result<String> {
    let doing = || format!("run {}", program.name);
    // Whoever writes to a pipe waits for who reads it, and it for who reads what it prints.
    let mut file = tempfile::tempfile().doing(doing)?;
    file.write_all(input.as_bytes())
        .and_then(|()| file.rewind())
        .doing(doing)?;
    let mut command = Command::new(program.find()?);
    command
        .args(program.arguments)
        .arg(image)
        .env("LC_ALL", "C");
    command
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let output = machine::Logged::output_logged(&mut command).doing(doing)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMPE2FS: &str = "Block size:               4096\nInodes per group:         512\n\
        Inode size:\t          256\nGroup 1: (Blocks 32768-65535) csum 0x990d [ITABLE_ZEROED]\n  \
        Backup superblock at 32768, Group descriptors at 32769-32770\n  Block bitmap at 3 (+3), csum 0xa5005c98\n  \
        Inode table at 35-66 (+35)\n";

    #[test]
    fn the_layout_is_read() {
        let layout = ExtLayout::read(DUMPE2FS);
        assert_eq!(layout.name(32768), Some("a copy of the superblock"));
        assert_eq!(layout.name(32770), Some("the group descriptors"));
        assert_eq!(layout.name(3), Some("the block bitmap"));
        assert_eq!(layout.inodes(36), Some(512 + 17..=512 + 32));
        assert_eq!((layout.name(67), layout.inodes(67)), (None, None));
    }

    #[test]
    fn what_the_debugger_says_is_read() {
        let text =
            "debugfs: icheck 2 9 41\nBlock\tInode number\n2\t7\n9\t12\n41\t<block not found>\n";
        assert_eq!(read_icheck(text), BTreeMap::from([(2, 7), (9, 12)]));
        let text = "Inode\tPathname\n12\t//A/two words\n13\t/foo\n";
        assert_eq!(
            read_ncheck(text),
            BTreeMap::from([(12, "A/two words".into()), (13, "foo".into())])
        );
        let files = read_stats(
            "Inode: 12   Type: regular\nEXTENTS:\n(ETB0):33, (0-9):40-49\nInode: 2   Type: directory\n",
        );
        assert_eq!(
            file_block(12, 33, Some(&"f".into()), files.get(&12)),
            "block map of f"
        );
        assert_eq!(
            file_block(12, 40, Some(&"f".into()), files.get(&12)),
            "data of f"
        );
        assert!(files[&2].is_directory);
    }

    #[test]
    fn a_place_is_named_once_for_each_thing() {
        let names =
            |names: &[Option<&str>]| joined(names.iter().map(|name| name.map(str::to_owned)));
        assert_eq!(
            names(&[Some("a"), Some("a"), Some("b")]),
            Some("a, b".into())
        );
        assert_eq!(names(&[Some("a"), None]), None);
        assert_eq!(
            names(&[Some("a"), Some("b"), Some("c"), Some("d"), Some("e")]),
            Some("a, b, c, d, …".into())
        );
    }
}
