//! What is wrong with one inode, names aside: mode, owner, xattrs, size, bytes, blocks, holes.

use std::collections::BTreeSet;

use brief::counted;
use local_fs::{Content, Inode, InodeKind, Lack, Segment};

use crate::content::{
    Chunk, FileContent, chunk_start, empty_chunk, tree_chunk, tree_chunk_numbers,
};
use crate::durability::allowed_sizes;
use crate::history::{Bound, History, Time};
use crate::model::{Kind, Model, ModelInode};
use crate::shifts::{Shift, first_layout, laid_out, open_shifts};
use crate::{Finding, Promise};

/// From where on a file of some size has only what the step had that made it grow to that size. The
/// rest of the block in which the step began may be written later.
fn grown_from(allowed: &[(Time, FileContent)], size_bytes: u64) -> u64 {
    let sizes = || allowed.iter().map(|(_, version)| version.size_bytes());
    let steps = sizes().zip(sizes().skip(1));
    let grown = steps
        .filter(|(before, after)| *before < size_bytes && size_bytes <= *after)
        .map(|(before, _)| before);
    // It may have had the size from the start.
    let start = sizes().next().filter(|first| *first >= size_bytes);
    grown
        .chain(start)
        .max()
        .map_or(u64::MAX, |from| from.next_multiple_of(BLOCK_BYTES))
}

/// The unit in which file systems count blocks here, in bytes; a sector is 512.
const BLOCK_BYTES: u64 = 4096;
const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / 512;

/// A byte that is of no version that may be there.
struct WrongByte {
    offset: u64,
    byte: u8,
    /// What it may be.
    versions: Vec<u8>,
    /// By what it may be nothing else.
    bound: Bound,
}

fn offsets(wrong: &[WrongByte]) -> Vec<u64> {
    wrong.iter().map(|wrong| wrong.offset).collect()
}

/// One inode of the model beside the one that was found for it.
pub(crate) struct Aspects<'a> {
    pub(crate) model: &'a Model,
    pub(crate) expected: &'a ModelInode,
    pub(crate) inode: &'a Inode,
    pub(crate) live: Option<&'a Inode>,
    pub(crate) path: &'a str,
}

impl Aspects<'_> {
    /// What is wrong with the size and the bytes alone, of what was promised by `promise`.
    pub(crate) fn content_findings(&self, promise: Promise) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let InodeKind::File(content) = &self.inode.kind {
            self.file(content, &mut findings);
        }
        findings.retain(|finding| finding.promise == promise);
        findings
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.attributes(&mut findings);
        self.xattrs(&mut findings);
        match (&self.expected.kind, &self.inode.kind) {
            (Kind::Symlink(target), InodeKind::Symlink(seen)) if target != seen => {
                let what = format!("the symlink leads to '{seen}' and should lead to '{target}'");
                findings.push(Finding::new(Promise::SymlinkComplete, self.path, what));
            }
            (Kind::File, InodeKind::File(content)) => self.file(content, &mut findings),
            _ => {}
        }
        findings.retain(|finding| self.model.contract.promises(finding.promise));
        findings
    }

    fn finding(&self, bound: Bound, what: String) -> Finding {
        Finding {
            promise: self.model.contract.by(bound.promise),
            path: self.path.to_owned(),
            what,
            promised_by: bound.by,
            rule: None,
        }
    }

    /// Whether what was not made durable is at least a version that there was.
    fn whole(&self) -> bool {
        self.model.contract.promises(Promise::AtomicMetadata)
    }

    /// What metadata may not be older than: on a file system that orders it, what came first.
    fn floor(&self) -> Bound {
        self.model.prefix
    }

    fn attributes(&self, findings: &mut Vec<Finding>) {
        // A symlink's mode means nothing, and file systems differ in what they show.
        if matches!(self.expected.kind, Kind::Symlink(_)) {
            return;
        }
        let mode = self.inode.mode;
        let lacks = |lack| self.model.contract.lacks(lack);
        if !lacks(Lack::Modes) && !allows(&self.expected.mode, self.floor(), &mode) {
            let what = format!(
                "mode {mode:o}; expected {}",
                versions(&self.expected.mode, self.floor(), |mode| format!(
                    "{mode:o}"
                ))
            );
            findings.push(self.finding(self.expected.mode.bound().max(self.floor()), what));
        }
        let owner = (self.inode.uid, self.inode.gid);
        if !lacks(Lack::Owners) && !allows(&self.expected.owner, self.floor(), &owner) {
            let text = |owner: &(u32, u32)| format!("{}:{}", owner.0, owner.1);
            let what = format!(
                "owner {}; expected {}",
                text(&owner),
                versions(&self.expected.owner, self.floor(), text)
            );
            findings.push(self.finding(self.expected.owner.bound().max(self.floor()), what));
        }
    }

    fn xattrs(&self, findings: &mut Vec<Finding>) {
        if matches!(self.expected.kind, Kind::Symlink(_)) {
            return;
        }
        // Attributes that are written beside the inode, in one place, are lost together.
        let unsettled = |history: &History<_>| history.allowed(self.floor()).len() > 1;
        if !self.whole() && self.expected.xattrs.values().any(unsettled) {
            return;
        }
        for (name, history) in &self.expected.xattrs {
            let seen = self.inode.xattrs.get(name);
            if !allows(history, self.floor(), &seen.cloned()) {
                findings.push(self.wrong_xattr(name, history));
            }
        }
        let foreign = self
            .inode
            .xattrs
            .keys()
            .find(|name| !self.expected.xattrs.contains_key(*name));
        if let Some(name) =
            foreign.filter(|name| name.starts_with("user.") || name.starts_with("trusted."))
        {
            let what = format!("extended attribute {name}, which nobody set");
            findings.push(Finding::new(Promise::NoForeignNames, self.path, what));
        }
    }

    fn wrong_xattr(&self, name: &str, history: &History<Option<Vec<u8>>>) -> Finding {
        let text = |value: &Option<Vec<u8>>| match value {
            Some(value) => format!("'{}'", String::from_utf8_lossy(value)),
            None => "none".to_owned(),
        };
        let what = format!(
            "extended attribute {name} is {}; expected {}",
            text(&self.inode.xattrs.get(name).cloned()),
            versions(history, self.floor(), text)
        );
        self.finding(history.bound().max(self.floor()), what)
    }

    fn file(&self, content: &Content, findings: &mut Vec<Finding>) {
        let history = &self.expected.content;
        let allowed = history.allowed(Bound::START);
        let (least, most) = allowed_sizes(history, &self.expected.durable_ranges);
        let size = self.inode.size_bytes;
        if size < least || size > most {
            let expected = if least == most {
                least.to_string()
            } else {
                format!("{least} to {most}")
            };
            let ranges = self.expected.durable_ranges.iter().map(|range| range.bound);
            let bound = ranges.fold(history.bound(), Bound::max);
            findings.push(self.finding(bound, format!("size {size}; expected {expected}")));
        }
        findings.extend(self.data(content, size.min(most)));
        // Only of what is as durable as it can be is the allocation known.
        if allowed.len() == 1 && findings.is_empty() && !self.model.contract.lacks(Lack::Holes) {
            findings.extend(self.blocks());
            findings.extend(self.holes(content));
        }
    }

    /// What is wrong with the bytes, in every way in which what was moved may be found.
    fn data(&self, content: &Content, size: u64) -> Option<Finding> {
        let shifts = open_shifts(self.expected);
        if shifts.is_empty() {
            let wrong = self.wrong_bytes(content, size).next();
            return wrong.map(|wrong| self.wrong_byte(wrong));
        }
        let layouts: Vec<_> = (first_layout(self.expected, &shifts)..=shifts.len())
            .map(|done| (done, self.wrong_with(&shifts, done, content, size)))
            .collect();
        if layouts.iter().any(|(_, wrong)| wrong.is_empty()) {
            return None;
        }
        let half_done = |pair: &[(usize, Vec<WrongByte>)]| {
            let (before, after) = (offsets(&pair[0].1), offsets(&pair[1].1));
            shifts[pair[0].0].may_be_half_done(content, &before, &after)
        };
        if layouts.windows(2).any(half_done) {
            return None;
        }
        // Said of the layout that is right as far as possible.
        let firsts = layouts
            .into_iter()
            .filter_map(|(_, wrong)| wrong.into_iter().next());
        let wrong = firsts.max_by_key(|wrong| wrong.offset)?;
        Some(self.wrong_byte(wrong))
    }

    /// The bytes that are wrong if so many of what was moved are done.
    fn wrong_with(
        &self,
        shifts: &[Shift],
        done: usize,
        content: &Content,
        size: u64,
    ) -> Vec<WrongByte> {
        let expected = &laid_out(self.expected, shifts, done);
        let aspects = Aspects { expected, ..*self };
        aspects.wrong_bytes(content, size).collect()
    }

    /// The bytes that are of no version that may be there.
    fn wrong_bytes<'b>(
        &'b self,
        content: &'b Content,
        size: u64,
    ) -> impl Iterator<Item = WrongByte> + 'b {
        let allowed = self.expected.content.allowed(Bound::START);
        let promised = self.model.contract.promises(Promise::DataWithSize);
        let grown_from = if promised {
            grown_from(allowed, self.inode.size_bytes)
        } else {
            u64::MAX
        };
        // Where no version has anything and nothing was found there are zeros on both sides.
        let mut numbers: BTreeSet<u64> = tree_chunk_numbers(content).collect();
        numbers.extend(
            allowed
                .iter()
                .flat_map(|(_, version)| version.chunk_numbers()),
        );
        numbers
            .into_iter()
            .take_while(move |index| chunk_start(*index) < size)
            .flat_map(move |index| self.wrong_in_chunk(content, index, size, grown_from))
    }

    fn wrong_in_chunk(
        &self,
        content: &Content,
        index: u64,
        size: u64,
        grown_from: u64,
    ) -> Vec<WrongByte> {
        let mut seen = empty_chunk();
        tree_chunk(content, index, &mut seen);
        let start = chunk_start(index);
        let seen = &seen[..(size - start).min(seen.len() as u64) as usize];
        let (versions, grown) = self.chunk_versions(index, grown_from);
        let same = |(_, version): &(Time, &Chunk)| version[..seen.len()] == *seen;
        let end = start + seen.len() as u64;
        let ranges = self.expected.durable_ranges.iter();
        let ranges_apply = ranges
            .clone()
            .any(|range| range.start < end && start < range.end);
        // What is there now is allowed everywhere.
        if versions.last().is_some_and(same) || (!ranges_apply && versions.iter().any(same)) {
            return Vec::new();
        }
        let wrong = |(at, byte): (usize, &u8)| {
            let mut wrong = self.wrong_at(start, at, *byte, &versions)?;
            if grown && *byte == 0 {
                (wrong.bound.promise, wrong.bound.by) = (Promise::DataWithSize, None);
            }
            Some(wrong)
        };
        seen.iter().enumerate().filter_map(wrong).collect()
    }

    /// What is wrong with the byte at a place of the chunk that begins at `start`.
    fn wrong_at(
        &self,
        start: u64,
        at: usize,
        byte: u8,
        versions: &[(Time, &Chunk)],
    ) -> Option<WrongByte> {
        let offset = start + at as u64;
        let bound = self.bound_at(offset);
        let after = versions.partition_point(|(since, _)| *since <= bound.time);
        let allowed = versions[after.saturating_sub(1)..].iter();
        let versions: Vec<u8> = allowed.map(|(_, version)| version[at]).collect();
        if versions.contains(&byte) || self.may_be_stale(&versions) {
            return None;
        }
        Some(WrongByte {
            offset,
            byte,
            versions,
            bound,
        })
    }

    /// What a chunk may hold, with the time since when it did, and whether what is too short for it
    /// was left out. The last block of a file that has grown is no older than what made it grow.
    fn chunk_versions(&self, index: u64, grown_from: u64) -> (Vec<(Time, &Chunk)>, bool) {
        let allowed = self.expected.content.allowed(Bound::START);
        let start = chunk_start(index);
        let reaches = |version: &FileContent| version.size_bytes() > start;
        let last = start + BLOCK_BYTES >= self.inode.size_bytes;
        let sized =
            last && start >= grown_from && allowed.iter().any(|(_, version)| reaches(version));
        let mut versions: Vec<(Time, &Chunk)> = allowed
            .iter()
            .filter(|(_, version)| !sized || reaches(version))
            .map(|(since, version)| (*since, version.chunk(index)))
            .collect();
        let grown = sized && versions.len() < allowed.len();
        versions.dedup_by(|next, kept| std::ptr::eq(next.1, kept.1));
        (versions, grown)
    }

    /// By what the older versions of one byte are excluded.
    fn bound_at(&self, offset: u64) -> Bound {
        let covering = self
            .expected
            .durable_ranges
            .iter()
            .filter(|range| (range.start..range.end).contains(&offset));
        covering
            .map(|range| range.bound)
            .fold(self.expected.content.bound(), Bound::max)
    }

    /// Whether a byte may be what the disk held before: nothing was promised of that, and
    /// something was put where nothing had been. Where nothing is whole the place may have become
    /// another file's.
    fn may_be_stale(&self, versions: &[u8]) -> bool {
        if !self.whole() && versions.iter().any(|version| *version != versions[0]) {
            return true;
        }
        !self.model.contract.promises(Promise::NoForeignData)
            && versions.len() > 1
            && versions.contains(&0)
    }

    fn wrong_byte(&self, wrong: WrongByte) -> Finding {
        let WrongByte {
            offset,
            byte,
            mut versions,
            bound,
        } = wrong;
        let any = self
            .expected
            .content
            .at_any(|version| version.byte(offset) == byte);
        let seen = match byte {
            0 => "zero".to_owned(),
            _ if any => format!("{byte:#04x}, which is older than what is durable"),
            _ => format!("{byte:#04x}, which was never written there"),
        };
        versions.dedup();
        let expected: Vec<_> = versions
            .iter()
            .map(|version| format!("{version:#04x}"))
            .collect();
        let what = format!(
            "the byte at {offset} is {seen}; expected {}",
            expected.join(" or ")
        );
        if byte != 0 && !any && self.model.contract.promises(Promise::NoForeignData) {
            Finding::new(Promise::NoForeignData, self.path, what)
        } else {
            self.finding(bound, what)
        }
    }

    /// Whether the content of the file is durable, so that it must be as it was. What never was
    /// durable has changed after its bound, which is the start.
    fn untouched_since_durable(&self) -> bool {
        let content = &self.expected.content;
        content.changed() <= content.bound().time
    }

    /// Whether it is known which attributes there are. They may have blocks too, which fdatasync
    /// does not promise.
    fn xattrs_are_known(&self) -> bool {
        let mut xattrs = self.expected.xattrs.values();
        xattrs.all(|history| history.allowed(self.floor()).len() == 1)
    }

    fn blocks(&self) -> Option<Finding> {
        let live = self.live?;
        if !self.untouched_since_durable() {
            return None;
        }
        let seen = self.inode.blocks;
        let bound = self.expected.content.bound();
        let exact = self.model.contract.promises(Promise::BlocksExact) && self.xattrs_are_known();
        if exact && seen != live.blocks {
            let what = format!(
                "{} of 512 bytes; expected {}",
                counted(seen, "block"),
                live.blocks
            );
            return Some(self.finding(
                Bound {
                    promise: Promise::BlocksExact,
                    ..bound
                },
                what,
            ));
        }
        let least = self
            .expected
            .content
            .current()
            .allocated_blocks(BLOCK_BYTES)
            * SECTORS_PER_BLOCK;
        if seen < least && least <= live.blocks && !self.expected.shared {
            let what = format!(
                "{} of 512 bytes; {least} were allocated",
                counted(seen, "block")
            );
            return Some(self.finding(
                Bound {
                    promise: Promise::Preallocation,
                    ..bound
                },
                what,
            ));
        }
        None
    }

    /// Data where the live file had a hole. The other way round says nothing: pages of a
    /// preallocated range that happen to be cached show as data.
    fn holes(&self, content: &Content) -> Option<Finding> {
        let InodeKind::File(live) = &self.live?.kind else {
            return None;
        };
        if !self.untouched_since_durable() || self.expected.shared {
            return None;
        }
        let covered = |segment: &Segment| {
            let end = segment.offset + segment.data.len() as u64;
            let mut at = segment.offset;
            for live in &live.segments {
                if live.offset <= at {
                    at = at.max(live.offset + live.data.len() as u64);
                }
            }
            (at < end).then_some(at)
        };
        let hole_filled = content.segments.iter().find_map(covered)?;
        let bound = Bound {
            promise: Promise::HoleLayout,
            ..self.expected.content.bound()
        };
        Some(self.finding(
            bound,
            format!("there is data at {hole_filled}, where the file had a hole"),
        ))
    }
}

fn allows<T: PartialEq>(history: &History<T>, floor: Bound, seen: &T) -> bool {
    history
        .allowed(floor)
        .iter()
        .any(|(_, version)| version == seen)
}

/// The allowed versions in words: `644 or 755`.
fn versions<T: PartialEq>(
    history: &History<T>,
    floor: Bound,
    text: impl Fn(&T) -> String,
) -> String {
    let mut texts: Vec<_> = history
        .allowed(floor)
        .iter()
        .map(|(_, version)| text(version))
        .collect();
    texts.dedup();
    texts.join(" or ")
}
