//! Compares a recovered tree with the versions that the contract allows.

use std::collections::{BTreeMap, BTreeSet};

use local_fs::{Content, Inode, InodeKind, Segment, Tree};
use workloads::DeviceKind;

use crate::content::{FileContent, chunk_count, chunk_start, empty_chunk, tree_chunk};
use crate::durability::{allowed_sizes, since};
use crate::history::{Bound, History, Time};
use crate::model::{InodeId, Kind, Model, ModelInode, ROOT, Rename};
use crate::{Finding, Promise, tree_check};

/// The unit in which file systems count blocks here, in bytes; a sector is 512.
const BLOCK_BYTES: u64 = 4096;
const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / 512;

/// How many of a tree's broken promises are reported; one cause shows in many places.
const FINDINGS_MAX: usize = 20;

/// In so many ways at most a tree is read before it is taken to be broken.
const READINGS_MAX: usize = 256;

/// Compares what recovery left with the model at the crash point.
///
/// `live` is what the file system showed at the crash point: number of blocks and layout of
/// holes of what is durable unchanged are taken from there.
pub fn check(model: &Model, live: &Tree, recovered: &Tree) -> Vec<Finding> {
    let mut findings = tree_check::check(model.contract, recovered);
    findings.append(&mut compare(model, recovered, Some(live)));
    findings.truncate(FINDINGS_MAX);
    findings
}

/// Compares the live tree with the model: a difference is a mistake of the model, or of the
/// file system while it runs, and nothing can be said of its crashes.
///
/// # Errors
/// What differs.
pub fn check_live(model: &Model, live: &Tree) -> Result<(), String> {
    let mut now = model.clone();
    now.commit(None);
    match compare(&now, live, None).first() {
        None if live.errors.is_empty() => Ok(()),
        None => Err(format!("{} of '{}' failed while it was running", live.errors[0].doing, live.errors[0].path)),
        Some(finding) => Err(format!("'{}': {}", finding.path, finding.what)),
    }
}

/// Compares under every reading of the names that could be one of several files which nothing
/// but their history tells apart, such as two empty ones, until one is legal. What is said
/// otherwise is of the first reading, in which everything is the newest that it can be.
fn compare(model: &Model, tree: &Tree, live: Option<&Tree>) -> Vec<Finding> {
    let mut readings = vec![Vec::new()];
    let mut first = None;
    let mut tried = 0;
    while let Some(reading) = readings.pop() {
        let given = reading.len();
        let mut comparison = Comparison::new(model, tree, live, reading);
        comparison.run();
        if comparison.findings.is_empty() {
            return Vec::new();
        }
        first.get_or_insert(comparison.findings);
        tried += 1;
        if tried == READINGS_MAX {
            break;
        }
        // The same up to one choice, and there another one.
        for place in given..comparison.choices.len() {
            let (taken, of) = comparison.choices[place];
            let before = comparison.choices[..place].iter().map(|(taken, _)| *taken);
            let before: Vec<_> = before.collect();
            readings.extend((taken + 1..of).map(|other| [before.as_slice(), &[other]].concat()));
        }
    }
    first.unwrap_or_default()
}

struct Comparison<'a> {
    model: &'a Model,
    tree: &'a Tree,
    live: Option<&'a Tree>,
    findings: Vec<Finding>,
    /// Which inode of the model each of the tree was taken for.
    assigned: BTreeMap<u64, InodeId>,
    /// The other way round, with the path where it was found first.
    found: BTreeMap<InodeId, (u64, String)>,
    /// What each compared entry led to.
    entries: BTreeMap<(InodeId, String), Option<InodeId>>,
    /// Which of the files that fit equally well to take, at the first such names.
    reading: Vec<usize>,
    /// Which was taken at each such name, of how many.
    choices: Vec<(usize, usize)>,
}

impl<'a> Comparison<'a> {
    fn new(model: &'a Model, tree: &'a Tree, live: Option<&'a Tree>, reading: Vec<usize>) -> Self {
        let (findings, assigned, found, entries, choices) = <_>::default();
        Self { model, tree, live, findings, assigned, found, entries, reading, choices }
    }

    fn run(&mut self) {
        if self.tree.inode(self.tree.root).is_none() {
            return;
        }
        self.assigned.insert(self.tree.root, ROOT);
        self.found.insert(ROOT, (self.tree.root, String::new()));
        self.inode(ROOT, self.tree.root, "");
        self.directory(ROOT, self.tree.root, "");
        self.renames();
        self.existence();
        // A name at fault is at fault in every order; the order says something only without.
        if self.findings.is_empty() {
            self.order();
        }
    }

    /// `bound` says by what something became durable; from the start on it was there.
    fn finding(&mut self, bound: Bound, path: &str, what: String) {
        let finding = Finding { promise: bound.promise, path: path.to_owned(), what, promised_by: bound.by };
        self.findings.push(finding);
    }

    fn bound_of<T>(&self, history: &History<T>) -> Bound {
        history.bound().max(self.model.prefix)
    }

    fn directory(&mut self, directory: InodeId, number: u64, path: &str) {
        let model = &self.model.inodes[directory].entries;
        let mut names: BTreeSet<&str> = model.keys().map(String::as_str).collect();
        names.extend(self.tree.entries(number).map(|(name, _)| name));
        let seen: BTreeMap<&str, u64> = self.tree.entries(number).collect();
        for name in names {
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            match (model.get(name), seen.get(name)) {
                (Some(history), seen) => self.entry(directory, name, history, seen.copied(), &path),
                (None, Some(_)) => {
                    let what = "a name that nobody made".to_owned();
                    self.findings.push(Finding::new(Promise::NoForeignNames, &path, what));
                }
                (None, None) => {}
            }
        }
    }

    fn entry(
        &mut self,
        directory: InodeId,
        name: &str,
        history: &History<Option<InodeId>>,
        seen: Option<u64>,
        path: &str,
    ) {
        let bound = self.bound_of(history);
        let allowed = history.allowed(self.model.prefix);
        let mut candidates: Vec<InodeId> = allowed.iter().rev().filter_map(|(_, value)| *value).collect();
        let mut known = BTreeSet::new();
        candidates.retain(|id| known.insert(*id));
        let place = (directory, name.to_owned());
        let Some(number) = seen else {
            self.entries.insert(place, None);
            // Where only the removal of another file from here is durable, and there is no order,
            // what took its place (by an exchange, or a whiteout) may be missing.
            let oldest = allowed.first().and_then(|(_, value)| *value);
            let unpromised = |id: InodeId| self.model.inodes[id].exists.is_none();
            let ordered = self.model.contract.promises(Promise::OrderedMetadata);
            if !ordered && oldest.is_some_and(unpromised) {
                return;
            }
            if allowed.iter().all(|(_, value)| value.is_some()) {
                let noun = self.model.inodes[candidates[0]].kind.noun();
                self.finding(bound, path, format!("the {noun} is missing"));
            }
            return;
        };
        if candidates.is_empty() {
            let was = history.allowed(Bound::START).iter().any(|(_, value)| value.is_some()) || bound.by.is_some();
            let what = if was { "the name is back although it was removed" } else { "a name that nobody made" };
            return self.finding(bound, path, what.to_owned());
        }
        // What it can't be for want of reading is said by the tree's errors.
        let Some(inode) = self.tree.inode(number) else { return };
        let chosen = self.choose(&candidates, number, inode);
        self.entries.insert(place, chosen);
        match chosen {
            None => {
                let noun = self.model.inodes[candidates[0]].kind.noun();
                self.finding(bound, path, format!("it is a {} and should be a {noun}", inode.kind.noun()));
            }
            Some(chosen) => self.take(chosen, number, path, bound),
        }
    }

    /// Which of the inodes that may stand at a name the one that stands there is: the one that
    /// it was found to be elsewhere, else one that it is legal for, else the newest.
    fn choose(&mut self, candidates: &[InodeId], number: u64, inode: &Inode) -> Option<InodeId> {
        if let Some(known) = self.assigned.get(&number)
            && candidates.contains(known)
        {
            return Some(*known);
        }
        let kind_fits = |id: &&InodeId| kind_matches(&self.model.inodes[**id].kind, &inode.kind);
        let fitting: Vec<_> = candidates.iter().filter(kind_fits).copied().collect();
        let legal = |id: &&InodeId| {
            let free = self.found.get(*id).is_none_or(|(other, _)| *other == number);
            free && self.inode_findings(**id, number, "").is_empty()
        };
        let legal: Vec<_> = fitting.iter().filter(legal).copied().collect();
        if legal.len() < 2 {
            return legal.first().or(fitting.first()).copied();
        }
        let taken = self.reading.get(self.choices.len()).copied().unwrap_or(0);
        self.choices.push((taken, legal.len()));
        legal.get(taken).copied()
    }

    fn take(&mut self, id: InodeId, number: u64, path: &str, bound: Bound) {
        match (self.assigned.get(&number), self.found.get(&id)) {
            (Some(known), _) if *known != id => {
                let other = self.found[known].1.clone();
                self.finding(bound, path, format!("it is the same file as '{other}' and should be another"));
            }
            (None, Some((_, other))) => {
                let what = format!("it should be the same {} as '{other}'", self.model.inodes[id].kind.noun());
                self.finding(bound, path, what);
            }
            (Some(_), _) => {}
            (None, None) => {
                self.assigned.insert(number, id);
                self.found.insert(id, (number, path.to_owned()));
                self.inode(id, number, path);
                if self.model.inodes[id].kind == Kind::Directory {
                    self.directory(id, number, path);
                }
            }
        }
    }

    fn inode(&mut self, id: InodeId, number: u64, path: &str) {
        let mut findings = self.inode_findings(id, number, path);
        self.findings.append(&mut findings);
    }

    /// What is wrong with one inode, names aside.
    fn inode_findings(&self, id: InodeId, number: u64, path: &str) -> Vec<Finding> {
        let Some(inode) = self.tree.inode(number) else { return Vec::new() };
        let live = self.live.and_then(|live| live.lookup_inode(id, self.model));
        let aspects = Aspects { model: self.model, expected: &self.model.inodes[id], inode, live, path };
        aspects.findings()
    }

    /// The path of an entry that was compared.
    fn path_of(&self, (directory, name): &(InodeId, String)) -> String {
        match self.found.get(directory) {
            Some((_, path)) if !path.is_empty() => format!("{path}/{name}"),
            _ => name.clone(),
        }
    }

    /// A rename changes two entries at once: its file is at one of them. Of what was never
    /// durable nothing has to show, neither its old name nor its new one.
    fn renames(&mut self) {
        let durable = |rename: &&Rename| self.model.inodes[rename.moved].exists.is_some();
        for rename in self.model.renames.iter().filter(durable) {
            let (Some(source), Some(dest)) = (self.entries.get(&rename.source), self.entries.get(&rename.dest)) else {
                continue;
            };
            let (source, dest) = (*source, *dest);
            let history = |place: &(InodeId, String)| &self.model.inodes[place.0].entries[&place.1];
            let (source_side, dest_side) = (
                side(history(&rename.source), self.model.prefix, rename.time, source),
                side(history(&rename.dest), self.model.prefix, rename.time, dest),
            );
            let half = match (source_side, dest_side) {
                (Some(Side::Before), Some(Side::After)) => source == Some(rename.moved) && source == dest,
                (Some(Side::After), Some(Side::Before)) => !self.moved_on(rename),
                _ => false,
            };
            if half {
                let (from, to) = (self.path_of(&rename.source), self.path_of(&rename.dest));
                let what = format!("'{from}' and '{to}' do not show one moment: a rename was done by half");
                let promised_by = Some(rename.time - 1);
                self.findings.push(Finding { promised_by, ..Finding::new(Promise::RenameAtomic, to, what) });
            }
        }
    }

    /// Whether what was renamed is at another name that it was renamed to or from, or has lost
    /// one since.
    fn moved_on(&self, rename: &Rename) -> bool {
        let moved = Some(rename.moved);
        let elsewhere = |((directory, name), seen): (&(InodeId, String), &Option<InodeId>)| {
            let entry = &self.model.inodes[*directory].entries[name];
            let stays = *entry.at(rename.time - 1) == moved && *entry.at(rename.time) == moved;
            *seen == moved && !stays
        };
        self.model.inodes[rename.moved].unlinked > rename.time || self.entries.iter().any(elsewhere)
    }

    /// Inodes that may not vanish, and inodes under more names than they ever had at once.
    fn existence(&mut self) {
        let times = |from: Time| from..=self.model.time;
        let ordered = self.model.contract.promises(Promise::OrderedMetadata);
        for (id, inode) in self.model.inodes.iter().enumerate() {
            // Without an order a link and an unlink are two operations, not a rename: both names
            // may be there, and neither.
            let linked_and_unlinked = |since: Time| !ordered && inode.unlinked > since;
            let names: Vec<_> = self.entries.iter().filter(|(_, value)| **value == Some(id)).collect();
            if names.len() > 1 && !linked_and_unlinked(self.model.committed) {
                let most = times(0).map(|time| self.model.name_count(id, time)).max().unwrap_or(0);
                // A rename by half, which was reported, shows as two names as well.
                let said = self.findings.iter().any(|finding| finding.promise == Promise::RenameAtomic);
                if names.len() > most && !said {
                    let paths: Vec<_> = names.iter().map(|(place, _)| format!("'{}'", self.path_of(place))).collect();
                    let list = paths.join(" and ");
                    let what = format!("the {} is at {list}, and was never at so many at once", inode.kind.noun());
                    let path = self.path_of(names[0].0);
                    self.findings.push(Finding::new(Promise::RenameAtomic, path, what));
                }
            }
            let Some(exists) = inode.exists else { continue };
            let always_named = || times(exists.time).all(|time| self.model.name_count(id, time) > 0);
            let may_vanish = linked_and_unlinked(exists.time) || !always_named();
            if id != ROOT && names.is_empty() && self.findings.is_empty() && !may_vanish {
                let name = self.model.last_name(id).unwrap_or_default();
                let what = format!("the {} has no name any more: it is lost", inode.kind.noun());
                self.findings.push(Finding { path: name, what, promise: exists.promise, promised_by: exists.by });
            }
        }
    }

    /// The names, and the modes and owners behind them, are those of one moment.
    fn order(&mut self) {
        if !self.model.contract.promises(Promise::OrderedMetadata) || self.live.is_none() {
            return;
        }
        let from = self.model.prefix.time;
        let shows = |time: &Time| self.shows_moment(*time);
        if !(from..=self.model.time).any(|time| shows(&time)) {
            let what = "the names, modes and owners are those of no moment of the run: a later operation is there without an earlier one";
            self.findings.push(Finding::new(Promise::OrderedMetadata, "", what));
        }
    }

    fn shows_moment(&self, time: Time) -> bool {
        let entries_fit = self.entries.iter().all(|((directory, name), seen)| {
            let history = &self.model.inodes[*directory].entries[name];
            history.at(time) == seen
        });
        let attributes_fit = self.found.iter().all(|(id, (number, _))| {
            let expected = &self.model.inodes[*id];
            let Some(inode) = self.tree.inode(*number) else { return true };
            matches!(expected.kind, Kind::Symlink(_))
                || (*expected.mode.at(time) == inode.mode && *expected.owner.at(time) == (inode.uid, inode.gid))
        });
        // A directory that is there has been compared entry by entry; one that is missing now
        // but was there at that moment is an entry that differs.
        entries_fit && attributes_fit
    }
}

/// Finds the inode of a live tree that is one of the model.
trait LookupInode {
    fn lookup_inode(&self, id: InodeId, model: &Model) -> Option<&Inode>;
}

impl LookupInode for Tree {
    fn lookup_inode(&self, id: InodeId, model: &Model) -> Option<&Inode> {
        let path = if id == ROOT { String::new() } else { model.current_path(id)? };
        self.inode(self.lookup(&path)?)
    }
}

impl Model {
    /// How many names an inode had at a time.
    pub(crate) fn name_count(&self, id: InodeId, time: Time) -> usize {
        let entries = self.inodes.iter().flat_map(|inode| inode.entries.values());
        entries.filter(|entry| *entry.at(time) == Some(id)).count()
    }

    /// A path that leads to an inode now.
    fn current_path(&self, id: InodeId) -> Option<String> {
        if id == ROOT {
            return Some(String::new());
        }
        self.inodes.iter().enumerate().find_map(|(directory, inode)| {
            let (name, _) = inode.entries.iter().find(|(_, entry)| *entry.current() == Some(id))?;
            let parent = self.current_path(directory)?;
            Some(if parent.is_empty() { name.clone() } else { format!("{parent}/{name}") })
        })
    }

    fn last_name(&self, id: InodeId) -> Option<String> {
        self.current_path(id)
    }
}

fn kind_matches(expected: &Kind, seen: &InodeKind) -> bool {
    match (expected, seen) {
        (Kind::File, InodeKind::File(_))
        | (Kind::Directory, InodeKind::Directory(_))
        | (Kind::Symlink(_), InodeKind::Symlink(_))
        | (Kind::Fifo, InodeKind::Fifo) => true,
        (Kind::Device { kind, major, minor }, seen) => {
            let number = rustix::fs::makedev(*major, *minor);
            match (kind, seen) {
                (DeviceKind::Char, InodeKind::CharDevice(seen)) | (DeviceKind::Block, InodeKind::BlockDevice(seen)) => {
                    *seen == number
                }
                _ => false,
            }
        }
        _ => false,
    }
}

/// One inode of the model beside the one that was found for it.
struct Aspects<'a> {
    model: &'a Model,
    expected: &'a ModelInode,
    inode: &'a Inode,
    live: Option<&'a Inode>,
    path: &'a str,
}

impl Aspects<'_> {
    fn findings(&self) -> Vec<Finding> {
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
        findings
    }

    fn finding(&self, bound: Bound, what: String) -> Finding {
        Finding { promise: bound.promise, path: self.path.to_owned(), what, promised_by: bound.by }
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
        if !allows(&self.expected.mode, self.floor(), &mode) {
            let what = format!(
                "mode {mode:o}; expected {}",
                versions(&self.expected.mode, self.floor(), |mode| format!("{mode:o}"))
            );
            findings.push(self.finding(self.expected.mode.bound().max(self.floor()), what));
        }
        let owner = (self.inode.uid, self.inode.gid);
        if !allows(&self.expected.owner, self.floor(), &owner) {
            let text = |owner: &(u32, u32)| format!("{}:{}", owner.0, owner.1);
            let what =
                format!("owner {}; expected {}", text(&owner), versions(&self.expected.owner, self.floor(), text));
            findings.push(self.finding(self.expected.owner.bound().max(self.floor()), what));
        }
    }

    fn xattrs(&self, findings: &mut Vec<Finding>) {
        if matches!(self.expected.kind, Kind::Symlink(_)) {
            return;
        }
        for (name, history) in &self.expected.xattrs {
            let seen = self.inode.xattrs.get(name);
            if !allows(history, self.floor(), &seen.cloned()) {
                let text = |value: &Option<Vec<u8>>| match value {
                    Some(value) => format!("'{}'", String::from_utf8_lossy(value)),
                    None => "none".to_owned(),
                };
                let what = format!(
                    "extended attribute {name} is {}; expected {}",
                    text(&seen.cloned()),
                    versions(history, self.floor(), text)
                );
                let bound = history.bound().max(self.floor());
                findings.push(self.finding(bound, what));
            }
        }
        let foreign = self.inode.xattrs.keys().find(|name| !self.expected.xattrs.contains_key(*name));
        if let Some(name) = foreign.filter(|name| name.starts_with("user.") || name.starts_with("trusted.")) {
            let what = format!("extended attribute {name}, which nobody set");
            findings.push(Finding::new(Promise::NoForeignNames, self.path, what));
        }
    }

    fn file(&self, content: &Content, findings: &mut Vec<Finding>) {
        let history = &self.expected.content;
        let allowed = history.allowed(Bound::START);
        // Bytes that are being moved are between two places.
        if self.expected.shifted.is_some_and(|time| allowed.len() > 1 && time > allowed[0].0) {
            return;
        }
        let (least, most) = allowed_sizes(history, &self.expected.durable_ranges);
        let size = self.inode.size_bytes;
        if size < least || size > most {
            let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let ranges = self.expected.durable_ranges.iter().map(|range| range.bound);
            let bound = ranges.fold(history.bound(), Bound::max);
            findings.push(self.finding(bound, format!("size {size}; expected {expected}")));
        }
        if let Some(finding) = self.data(content, size.min(most)) {
            findings.push(finding);
        }
        // Only of what is as durable as it can be is the allocation known.
        if allowed.len() == 1 && findings.is_empty() {
            findings.extend(self.blocks());
            findings.extend(self.holes(content));
        }
    }

    fn data(&self, content: &Content, size: u64) -> Option<Finding> {
        let allowed = self.expected.content.allowed(Bound::START);
        let mut seen = empty_chunk();
        for index in 0..chunk_count(size) {
            tree_chunk(content, index, &mut seen);
            let same = |version: &FileContent| {
                let length = (size - chunk_start(index)).min(seen.len() as u64) as usize;
                version.chunk(index)[..length] == seen[..length]
            };
            let ranges_apply = !self.expected.durable_ranges.is_empty();
            if !ranges_apply && allowed.iter().any(|(_, version)| same(version)) {
                continue;
            }
            for (at, byte) in seen.iter().enumerate() {
                let offset = chunk_start(index) + at as u64;
                if offset >= size {
                    break;
                }
                let (versions, bound) = self.versions_at(offset);
                if !versions.iter().any(|(_, version)| version.chunk(index)[at] == *byte) {
                    return Some(self.wrong_byte(offset, *byte, versions, bound, index, at));
                }
            }
        }
        None
    }

    /// The versions that one byte may show, and by what the older ones are excluded.
    fn versions_at(&self, offset: u64) -> (&[(Time, FileContent)], Bound) {
        let history = &self.expected.content;
        let covering = self.expected.durable_ranges.iter().filter(|range| (range.start..range.end).contains(&offset));
        let bound = covering.map(|range| range.bound).fold(history.bound(), Bound::max);
        (since(history, bound.time), bound)
    }

    fn wrong_byte(
        &self,
        offset: u64,
        byte: u8,
        versions: &[(Time, FileContent)],
        bound: Bound,
        index: usize,
        at: usize,
    ) -> Finding {
        let any = self.expected.content.at_any(|version| version.chunk(index)[at] == byte);
        let seen = match byte {
            0 => "zero".to_owned(),
            _ if any => format!("{byte:#04x}, which is older than what is durable"),
            _ => format!("{byte:#04x}, which was never written there"),
        };
        let mut expected: Vec<_> =
            versions.iter().map(|(_, version)| format!("{:#04x}", version.chunk(index)[at])).collect();
        expected.dedup();
        let what = format!("the byte at {offset} is {seen}; expected {}", expected.join(" or "));
        if byte != 0 && !any {
            Finding::new(Promise::NoForeignData, self.path, what)
        } else {
            self.finding(bound, what)
        }
    }

    /// Whether everything about the file is durable, so that it must be as it was.
    fn untouched_since_durable(&self) -> bool {
        let content = &self.expected.content;
        let bound = content.bound();
        let xattrs = self.expected.xattrs.values().map(History::changed).max().unwrap_or(0);
        bound.by.is_some() && content.changed() <= bound.time && xattrs <= bound.time
    }

    fn blocks(&self) -> Option<Finding> {
        let live = self.live?;
        if !self.untouched_since_durable() {
            return None;
        }
        let seen = self.inode.blocks;
        let bound = self.expected.content.bound();
        if self.model.contract.promises(Promise::BlocksExact) && seen != live.blocks {
            let what = format!("{seen} blocks of 512 bytes; expected {}", live.blocks);
            return Some(self.finding(Bound { promise: Promise::BlocksExact, ..bound }, what));
        }
        let least = self.expected.content.current().allocated_blocks(BLOCK_BYTES) * SECTORS_PER_BLOCK;
        if seen < least && least <= live.blocks && !self.expected.shared {
            let what = format!("{seen} blocks of 512 bytes; {least} were allocated");
            return Some(self.finding(Bound { promise: Promise::Preallocation, ..bound }, what));
        }
        None
    }

    /// Data where the live file had a hole. The other way round says nothing: pages of a
    /// preallocated range that happen to be cached show as data.
    fn holes(&self, content: &Content) -> Option<Finding> {
        let InodeKind::File(live) = &self.live?.kind else { return None };
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
        let bound = Bound { promise: Promise::HoleLayout, ..self.expected.content.bound() };
        Some(self.finding(bound, format!("there is data at {hole_filled}, where the file had a hole")))
    }
}

/// On which side of an operation something is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// On which side of the operation that ended at `time` an entry leads to what was seen; none if
/// it does on both, or on neither: what is wrong with one entry alone has been said.
fn side(entry: &History<Option<InodeId>>, floor: Bound, time: Time, seen: Option<InodeId>) -> Option<Side> {
    let mut sides = entry
        .allowed(floor)
        .iter()
        .filter(|(_, value)| *value == seen)
        .map(|(since, _)| if *since < time { Side::Before } else { Side::After });
    let first = sides.next()?;
    sides.all(|side| side == first).then_some(first)
}

fn allows<T: PartialEq>(history: &History<T>, floor: Bound, seen: &T) -> bool {
    history.allowed(floor).iter().any(|(_, version)| version == seen)
}

/// The allowed versions in words: `644 or 755`.
fn versions<T: PartialEq>(history: &History<T>, floor: Bound, text: impl Fn(&T) -> String) -> String {
    let mut texts: Vec<_> = history.allowed(floor).iter().map(|(_, version)| text(version)).collect();
    texts.dedup();
    texts.join(" or ")
}
