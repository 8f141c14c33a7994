//! Which parts of a disk hold what, of ext3 and ext4: as mkfs laid them out, which they keep.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a part of a disk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// The log of the file system.
    Journal,
    /// Superblocks, descriptors of groups, bitmaps and tables of inodes.
    Metadata,
    /// All else: what files hold, directories, and lists of blocks.
    Data,
}

impl Area {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Journal, Self::Metadata, Self::Data];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Metadata => "metadata",
            Self::Data => "data",
        }
    }
}

/// The areas of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Areas {
    block_bytes: u64,
    /// Of blocks in order: where each begins, where it ends, and what it is. All others are data.
    parts: BTreeMap<u64, (u64, Area)>,
}

/// Where the superblock begins, and how much of it is read.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;

const MAGIC: u16 = 0xef53;
const COMPAT_JOURNAL: u32 = 4;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const RO_COMPAT_SPARSE_SUPER: u32 = 1;
const EXTENTS_FLAG: u32 = 0x8_0000;
const EXTENT_MAGIC: u16 = 0xf30a;

/// The inode of a journal has more blocks than levels of lists that are worth to be followed.
const LEVELS_MAX: u16 = 5;

/// So many groups no disk of ours has.
const GROUPS_MAX: u64 = 1 << 16;

/// Reads bytes of a disk, from an offset on.
type Read<'a> = &'a dyn Fn(u64, &mut [u8]);

/// What of a superblock counts here.
struct Layout {
    block_bytes: u64,
    blocks: u64,
    first_block: u64,
    blocks_of_group: u64,
    table_blocks: u64,
    descriptor_bytes: u64,
    inode_bytes: u64,
    /// Descriptors of groups and the room for more, behind each copy of the superblock.
    descriptor_blocks: u64,
    is_sparse: bool,
    /// The inode that is the journal, if there is one.
    journal: u32,
}

impl Areas {
    /// Those of a disk, if it holds such a file system. `read` reads it.
    pub fn of_ext(read: Read) -> Option<Self> {
        let layout = Layout::read(read)?;
        let mut areas = Self {
            block_bytes: layout.block_bytes,
            parts: BTreeMap::new(),
        };
        for group in 0..layout.groups() {
            for part in layout.metadata_of(group, read) {
                areas.add(part, Area::Metadata);
            }
        }
        if layout.journal != 0 {
            for part in layout.journal(read)? {
                areas.add(part, Area::Journal);
            }
        }
        Some(areas)
    }

    fn add(&mut self, blocks: Range<u64>, area: Area) {
        if !blocks.is_empty() {
            self.parts.insert(blocks.start, (blocks.end, area));
        }
    }

    /// What is at an offset, in bytes.
    pub fn at(&self, offset: u64) -> Area {
        let block = offset / self.block_bytes;
        let before = self.parts.range(..=block).next_back();
        match before {
            Some((_, (end, area))) if block < *end => *area,
            _ => Area::Data,
        }
    }
}

impl Layout {
    fn read(read: Read) -> Option<Self> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        read(SUPERBLOCK_AT, &mut bytes);
        let incompatible = u32_at(&bytes, 96);
        if u16_at(&bytes, 56) != MAGIC || incompatible & INCOMPAT_META_BG != 0 {
            return None;
        }
        let block_bytes = SUPERBLOCK_AT.checked_shl(u32_at(&bytes, 24))?;
        let has_journal = u32_at(&bytes, 92) & COMPAT_JOURNAL != 0;
        let inode_bytes = u64::from(u16_at(&bytes, 88));
        let table_bytes = u64::from(u32_at(&bytes, 40)) * inode_bytes;
        let mut layout = Self {
            block_bytes,
            blocks: u32_at(&bytes, 4).into(),
            first_block: u32_at(&bytes, 20).into(),
            blocks_of_group: u32_at(&bytes, 32).into(),
            table_blocks: table_bytes.checked_div(block_bytes)?,
            descriptor_bytes: descriptor_bytes(&bytes),
            inode_bytes,
            descriptor_blocks: 0,
            is_sparse: u32_at(&bytes, 100) & RO_COMPAT_SPARSE_SUPER != 0,
            journal: if has_journal { u32_at(&bytes, 224) } else { 0 },
        };
        let is_usable = layout.blocks_of_group > 0 && layout.groups() <= GROUPS_MAX;
        let descriptors = (layout.groups() * layout.descriptor_bytes).div_ceil(block_bytes);
        layout.descriptor_blocks = descriptors + u64::from(u16_at(&bytes, 206));
        is_usable.then_some(layout)
    }

    fn groups(&self) -> u64 {
        let blocks = self.blocks.saturating_sub(self.first_block);
        blocks.div_ceil(self.blocks_of_group.max(1))
    }

    /// The descriptor of a group: its bitmaps and its table.
    fn descriptor(&self, group: u64, read: Read) -> [u64; 3] {
        let mut bytes = [0; 64];
        let at = (self.first_block + 1) * self.block_bytes + group * self.descriptor_bytes;
        let length = bytes.len().min(self.descriptor_bytes as usize);
        read(at, &mut bytes[..length]);
        let block =
            |low: usize| u64::from(u32_at(&bytes, low)) | u64::from(u32_at(&bytes, low + 32)) << 32;
        [block(0), block(4), block(8)]
    }

    fn metadata_of(&self, group: u64, read: Read) -> Vec<Range<u64>> {
        let [blocks, inodes, table] = self.descriptor(group, read);
        let start = self.first_block + group * self.blocks_of_group;
        let copies = if self.has_copy(group) {
            1 + self.descriptor_blocks
        } else {
            0
        };
        vec![
            start..start + copies,
            blocks..blocks + 1,
            inodes..inodes + 1,
            table..table + self.table_blocks,
        ]
    }

    /// Whether there is a copy of the superblock in a group.
    fn has_copy(&self, group: u64) -> bool {
        let is_power_of = |base: u64| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        };
        !self.is_sparse || group <= 1 || [3, 5, 7].into_iter().any(is_power_of)
    }

    /// The blocks of the journal, and of the lists of these.
    fn journal(&self, read: Read) -> Option<Vec<Range<u64>>> {
        let [.., table] = self.descriptor(0, read);
        let inode_at = table * self.block_bytes + u64::from(self.journal - 1) * self.inode_bytes;
        let mut inode = [0; 128];
        read(inode_at, &mut inode);
        let mut parts = Vec::new();
        let list = &inode[40..100];
        if u32_at(&inode, 32) & EXTENTS_FLAG != 0 {
            self.add_extents(list, LEVELS_MAX, read, &mut parts)?;
            return Some(parts);
        }
        for place in 0..15 {
            let level = (place as u16).saturating_sub(11);
            self.add_listed(u32_at(list, 4 * place), level, read, &mut parts);
        }
        Some(parts)
    }

    /// The blocks of a tree of extents: of a node of it.
    fn add_extents(
        &self,
        node: &[u8],
        levels: u16,
        read: Read,
        parts: &mut Vec<Range<u64>>,
    ) -> Option<()> {
        let (entries, depth) = (u16_at(node, 2), u16_at(node, 6));
        if u16_at(node, 0) != EXTENT_MAGIC || depth > levels {
            return None;
        }
        for entry in node[12..].chunks_exact(12).take(entries.into()) {
            if depth == 0 {
                let start = u64::from(u32_at(entry, 8)) | u64::from(u16_at(entry, 6)) << 32;
                parts.push(start..start + u64::from(u16_at(entry, 4)));
                continue;
            }
            let block = u64::from(u32_at(entry, 4)) | u64::from(u16_at(entry, 8)) << 32;
            parts.push(block..block + 1);
            let node = self.block(block, read);
            self.add_extents(&node, depth - 1, read, parts)?;
        }
        Some(())
    }

    /// A block, and those that it lists if it is a list of so many levels.
    fn add_listed(&self, block: u32, level: u16, read: Read, parts: &mut Vec<Range<u64>>) {
        if block == 0 {
            return;
        }
        parts.push(block.into()..u64::from(block) + 1);
        if level > 0 {
            let list = self.block(block.into(), read);
            for entry in list.chunks_exact(4) {
                self.add_listed(u32_at(entry, 0), level - 1, read, parts);
            }
        }
    }

    fn block(&self, block: u64, read: Read) -> Vec<u8> {
        let mut bytes = vec![0; self.block_bytes as usize];
        read(block * self.block_bytes, &mut bytes);
        bytes
    }
}

/// How long the descriptor of a group is, as this superblock says.
fn descriptor_bytes(superblock: &[u8]) -> u64 {
    if u32_at(superblock, 96) & INCOMPAT_64BIT != 0 {
        u16_at(superblock, 254).into()
    } else {
        32
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use super::*;
    use crate::{Variant, format};

    /// What dumpe2fs and debugfs say of a disk that mkfs has made is what is known of it here.
    fn are_as_the_debugger_says(name: &str) -> usize {
        let directory = std::env::temp_dir().join(format!("areas-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("disk");
        let variant = Variant::for_programs(name).expect("a variant");
        format(&variant, &path).expect("mkfs");
        let file = File::open(&path).expect("the disk");
        let read = |offset: u64, bytes: &mut [u8]| {
            file.read_exact_at(bytes, offset).expect("within the disk");
        };
        let areas = Areas::of_ext(&read).expect("it is ext");
        let mut journal = 0;
        let debugged = Command::new("debugfs")
            .args(["-R", "blocks <8>"])
            .arg(&path)
            .output()
            .expect("debugfs");
        for word in String::from_utf8_lossy(&debugged.stdout).split_whitespace() {
            let block: u64 = word.parse().expect("a block");
            assert_eq!(areas.at(block * 4096), Area::Journal, "{block} of {name}");
            journal += 1;
        }
        let dumped = Command::new("dumpe2fs").arg(&path).output();
        let dumped = dumped.expect("dumpe2fs").stdout;
        let dumped = String::from_utf8_lossy(&dumped);
        for line in dumped
            .lines()
            .filter(|line| line.contains("Inode table at "))
        {
            let range = line.split("Inode table at ").nth(1).expect("a range");
            let range = range.split(' ').next().expect("a range");
            let (from, to) = range.split_once('-').expect("two");
            let (from, to): (u64, u64) = (from.parse().expect("one"), to.parse().expect("one"));
            assert_eq!(areas.at(from * 4096), Area::Metadata);
            assert_eq!(areas.at(to * 4096 + 4095), Area::Metadata);
            assert_ne!(areas.at((to + 1) * 4096), Area::Journal, "{line}");
        }
        assert_eq!(areas.at(0), Area::Metadata, "the superblock");
        let data = (0..file.metadata().expect("its size").len() / 4096)
            .filter(|block| areas.at(block * 4096) == Area::Data);
        assert!(data.count() > 1000, "{name}");
        fs::remove_dir_all(&directory).expect("it is ours");
        journal
    }

    #[test]
    fn areas_are_where_the_debugger_of_the_file_system_finds_them() {
        assert!(are_as_the_debugger_says("ext4") > 100);
        assert!(are_as_the_debugger_says("ext3") > 100);
    }

    #[test]
    fn what_is_no_such_file_system_has_no_areas() {
        assert_eq!(Areas::of_ext(&|_, bytes| bytes.fill(0)), None);
        assert_eq!(Areas::of_ext(&|_, bytes| bytes.fill(0xff)), None);
    }
}
