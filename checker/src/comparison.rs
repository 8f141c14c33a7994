//! Which inode of the model each name of a tree leads to, and what is wrong with the names.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use local_fs::{Inode, InodeKind, Tree};
use workloads::DeviceKind;

use crate::aspects::Aspects;
use crate::history::{Bound, History, Time};
use crate::model::{InodeId, Kind, Model, NameCounts, ROOT, Rename};
use crate::{Finding, Promise};

/// What is compared, and what is known of it in every reading.
pub(crate) struct Sides<'a> {
    model: &'a Model,
    tree: &'a Tree,
    /// The inodes of the live tree, by those of the model.
    live: Option<HashMap<InodeId, &'a Inode>>,
    /// Whether an inode of the tree is one that an inode of the model may look like.
    fits: RefCell<HashMap<(InodeId, u64), bool>>,
}

impl<'a> Sides<'a> {
    pub(crate) fn new(model: &'a Model, tree: &'a Tree, live: Option<&'a Tree>) -> Self {
        let live = live.map(|live| live_inodes(model, live));
        Self { model, tree, live, fits: RefCell::default() }
    }
}

/// The inodes of a tree that shows what the model has now.
fn live_inodes<'a>(model: &Model, live: &'a Tree) -> HashMap<InodeId, &'a Inode> {
    let mut inodes = HashMap::new();
    let mut pending = vec![(ROOT, live.root)];
    while let Some((id, number)) = pending.pop() {
        let Some(inode) = live.inode(number) else { continue };
        if inodes.insert(id, inode).is_some() {
            continue;
        }
        for (name, number) in live.entries(number) {
            let entry = model.inodes[id].entries.get(name);
            pending.extend(entry.and_then(|entry| *entry.current()).map(|child| (child, number)));
        }
    }
    inodes
}

/// Which to take of the files that fit equally well at a name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Newest,
    Oldest,
    /// The one that stood there at this time.
    At(Time),
}

/// A way to read the names that could be one of several files.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Which to take at the first such names: 0 is the newest.
    pub(crate) fixed: Vec<usize>,
    /// Which to take at all others.
    pub(crate) rule: Rule,
}

/// A tree beside the model, name by name, in one reading.
pub(crate) struct Comparison<'a> {
    sides: &'a Sides<'a>,
    model: &'a Model,
    tree: &'a Tree,
    pub(crate) findings: Vec<Finding>,
    /// Which inode of the model each of the tree was taken for.
    assigned: BTreeMap<u64, InodeId>,
    /// The other way round, with the path where it was found first.
    found: BTreeMap<InodeId, (u64, String)>,
    /// What each compared entry led to.
    entries: BTreeMap<(InodeId, String), Option<InodeId>>,
    reading: Reading,
    /// Which was taken at each name that could be several files, of how many.
    pub(crate) choices: Vec<(usize, usize)>,
    /// Where operations are not whole: names that were given or taken since they were durable,
    /// and what they lead to.
    unsettled: VecDeque<Unsettled>,
    /// Whether what is compared hangs on such a name.
    guessing: bool,
}

/// A name of which anything may have become.
struct Unsettled {
    place: (InodeId, String),
    number: u64,
    path: String,
}

impl<'a> Comparison<'a> {
    pub(crate) fn new(sides: &'a Sides<'a>, reading: Reading) -> Self {
        let (findings, assigned, found, entries, choices, unsettled) = <_>::default();
        let (model, tree, guessing) = (sides.model, sides.tree, false);
        Self { sides, model, tree, findings, assigned, found, entries, reading, choices, unsettled, guessing }
    }

    /// Whether an operation on names is found whole or not at all.
    fn whole(&self) -> bool {
        self.model.contract.promises(Promise::AtomicMetadata)
    }

    /// How many names were compared.
    pub(crate) fn names(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn run(&mut self) {
        if self.tree.inode(self.tree.root).is_none() {
            return;
        }
        self.assigned.insert(self.tree.root, ROOT);
        self.found.insert(ROOT, (self.tree.root, String::new()));
        self.inode(ROOT, self.tree.root, "");
        self.directory(ROOT, self.tree.root, "");
        if self.whole() {
            self.renames();
            self.existence();
        } else {
            self.unsettled_names();
            self.somewhere();
        }
        // A name at fault is at fault in every order; the order says something only without.
        if self.findings.is_empty() {
            self.order();
        }
    }

    /// `bound` says by what something became durable; from the start on it was there.
    fn finding(&mut self, bound: Bound, path: &str, what: String) {
        self.report(Finding {
            promise: self.model.contract.by(bound.promise),
            path: path.to_owned(),
            what,
            promised_by: bound.by,
        });
    }

    /// What is not promised is not reported.
    fn report(&mut self, finding: Finding) {
        if self.model.contract.promises(finding.promise) {
            self.findings.push(finding);
        }
    }

    fn bound_of<T>(&self, history: &History<T>) -> Bound {
        history.bound().max(self.model.prefix)
    }

    fn directory(&mut self, directory: InodeId, number: u64, path: &str) {
        let model = &self.model.inodes[directory].entries;
        let mut names: BTreeSet<&str> = model.keys().map(String::as_str).collect();
        names.extend(self.tree.entries(number).map(|(name, _)| name));
        let seen: BTreeMap<&str, u64> = self.tree.entries(number).collect();
        // Where operations are not whole, a directory that was not written may hold what was there.
        let known = self.whole() || (self.model.is_written(directory) && !self.guessing);
        for name in names {
            if path.is_empty() && self.model.contract.is_found_name(name) {
                continue;
            }
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            match (model.get(name), seen.get(name)) {
                (None, Some(_)) if !known => {}
                (Some(history), seen) => self.entry(directory, name, history, seen.copied(), &path),
                (None, Some(_)) => {
                    let what = "a name that nobody made".to_owned();
                    self.report(Finding::new(Promise::NoForeignNames, &path, what));
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
        if !self.whole() && allowed.len() > 1 {
            if let Some(number) = seen {
                let place = (directory, name.to_owned());
                self.unsettled.push_back(Unsettled { place, number, path: path.to_owned() });
            }
            return;
        }
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
            if self.whole() && !ordered && oldest.is_some_and(unpromised) {
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
        let chosen = self.choose(&candidates, history, number, inode);
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
    fn choose(
        &mut self,
        candidates: &[InodeId],
        history: &History<Option<InodeId>>,
        number: u64,
        inode: &Inode,
    ) -> Option<InodeId> {
        if let Some(known) = self.assigned.get(&number)
            && candidates.contains(known)
        {
            return Some(*known);
        }
        let kind_fits = |id: &&InodeId| kind_matches(&self.model.inodes[**id].kind, &inode.kind);
        let fitting: Vec<_> = candidates.iter().filter(kind_fits).copied().collect();
        let legal = |id: &&InodeId| {
            let free = self.found.get(*id).is_none_or(|(other, _)| *other == number);
            free && self.fits(**id, number)
        };
        let legal: Vec<_> = fitting.iter().filter(legal).copied().collect();
        if legal.len() < 2 {
            return legal.first().or(fitting.first()).copied();
        }
        let taken = self.reading.fixed.get(self.choices.len()).copied().unwrap_or_else(|| match self.reading.rule {
            Rule::Newest => 0,
            Rule::Oldest => legal.len() - 1,
            Rule::At(time) => legal.iter().position(|id| *history.at(time) == Some(*id)).unwrap_or(0),
        });
        let taken = taken.min(legal.len() - 1);
        self.choices.push((taken, legal.len()));
        legal.get(taken).copied()
    }

    fn take(&mut self, id: InodeId, number: u64, path: &str, bound: Bound) {
        let known = self.assigned.contains_key(&number) || self.found.contains_key(&id);
        if self.guessing && known {
            return;
        }
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
        if !self.fits(id, number) {
            let mut findings = self.inode_findings(id, number, path);
            self.findings.append(&mut findings);
        }
    }

    /// Whether nothing is wrong with an inode, names aside, if it is this one of the model.
    fn fits(&self, id: InodeId, number: u64) -> bool {
        let known = self.sides.fits.borrow().get(&(id, number)).copied();
        known.unwrap_or_else(|| {
            let fits = self.inode_findings(id, number, "").is_empty();
            self.sides.fits.borrow_mut().insert((id, number), fits);
            fits
        })
    }

    /// What is wrong with one inode, names aside.
    fn inode_findings(&self, id: InodeId, number: u64, path: &str) -> Vec<Finding> {
        let Some(inode) = self.tree.inode(number) else { return Vec::new() };
        let live = self.sides.live.as_ref().and_then(|live| live.get(&id).copied());
        let aspects = Aspects { model: self.model, expected: &self.model.inodes[id], inode, live, path };
        aspects.findings()
    }

    /// Names of which anything may have become, once the others have been compared: what looks like
    /// something that was under such a name is taken for it. Where files were removed nothing is:
    /// what is there may have taken their numbers.
    fn unsettled_names(&mut self) {
        self.guessing = true;
        while let Some(Unsettled { place: (directory, name), number, path }) = self.unsettled.pop_front() {
            if self.model.removed || self.assigned.contains_key(&number) {
                continue;
            }
            let history = &self.model.inodes[directory].entries[&name];
            let candidates = history.allowed(self.model.prefix).iter().rev().filter_map(|(_, value)| *value);
            let legal = |id: &InodeId| {
                let inode = self.tree.inode(number);
                let same_kind = inode.is_some_and(|inode| kind_matches(&self.model.inodes[*id].kind, &inode.kind));
                same_kind && !self.found.contains_key(id) && self.fits(*id, number)
            };
            if let Some(id) = candidates.into_iter().find(legal) {
                self.take(id, number, &path, self.bound_of(history));
            }
        }
    }

    /// Inodes that may not vanish are somewhere, under a name of theirs, an old one or one that the
    /// file system's checker gave them. Files without data are not worth a name to it.
    fn somewhere(&mut self) {
        if !self.findings.is_empty() || !self.model.contract.promises(Promise::FsyncExists) {
            return;
        }
        let counts = self.model.name_counts();
        let mut findings = Vec::new();
        for (id, inode) in self.model.inodes.iter().enumerate() {
            let Some(exists) = inode.exists else { continue };
            let always_named = counts.get(&id).is_some_and(|counts| counts.always_since(exists.time));
            if id == ROOT || !always_named || self.found.contains_key(&id) {
                continue;
            }
            let content = inode.content.allowed(Bound::START);
            if inode.kind == Kind::File && content.iter().any(|(_, version)| version.allocated_blocks(1) == 0) {
                continue;
            }
            let is_it =
                |(number, seen): (&u64, &Inode)| kind_matches(&inode.kind, &seen.kind) && self.fits(id, *number);
            if !self.tree.inodes.iter().any(is_it) {
                let name = self.model.current_path(id).unwrap_or_default();
                let what = format!("the {} is nowhere as it was made durable, under no name", inode.kind.noun());
                findings.push(Finding {
                    path: name,
                    what,
                    promise: self.model.contract.by(exists.promise),
                    promised_by: exists.by,
                });
            }
        }
        for finding in findings {
            self.report(finding);
        }
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
                (Some(Side::After), Some(Side::Before)) => !self.moved_on(rename) && !self.may_be_displaced(rename),
                _ => false,
            };
            if half {
                let (from, to) = (self.path_of(&rename.source), self.path_of(&rename.dest));
                let what = format!("'{from}' and '{to}' do not show one moment: a rename was done by half");
                let promised_by = Some(rename.time - 1);
                self.report(Finding { promised_by, ..Finding::new(Promise::RenameAtomic, to, what) });
            }
        }
    }

    /// Whether what was renamed may be gone because something else was made durable at its old
    /// name, while its new one was not.
    fn may_be_displaced(&self, rename: &Rename) -> bool {
        let keeps = [Promise::OrderedMetadata, Promise::NameConflict];
        if keeps.into_iter().any(|promise| self.model.contract.promises(promise)) {
            return false;
        }
        let (directory, name) = &rename.source;
        let source = &self.model.inodes[*directory].entries[name];
        source.bound().time >= rename.time && source.current().is_some_and(|now| now != rename.moved)
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
        let ordered = self.model.contract.promises(Promise::OrderedMetadata);
        let mut names: HashMap<InodeId, Vec<(InodeId, String)>> = HashMap::new();
        for (place, value) in &self.entries {
            if let Some(id) = value {
                names.entry(*id).or_default().push(place.clone());
            }
        }
        // Few workloads need to know.
        let counts = OnceCell::new();
        let counts = || counts.get_or_init(|| self.model.name_counts());
        let model = self.model;
        let mut findings = Vec::new();
        for (id, inode) in model.inodes.iter().enumerate() {
            // Without an order a link and an unlink are two operations, not a rename: both names
            // may be there, and neither.
            let linked_and_unlinked = |since: Time| !ordered && inode.unlinked > since;
            let names = names.get(&id).map_or(&[][..], Vec::as_slice);
            if names.len() > 1 && !linked_and_unlinked(model.committed) {
                let most = counts().get(&id).map_or(0, NameCounts::most);
                // A rename by half, which was reported, shows as two names as well.
                let said = self.findings.iter().chain(&findings).any(|known| known.promise == Promise::RenameAtomic);
                if names.len() > most && !said {
                    let paths: Vec<_> = names.iter().map(|place| format!("'{}'", self.path_of(place))).collect();
                    let list = paths.join(" and ");
                    let what = format!("the {} is at {list}, and was never at so many at once", inode.kind.noun());
                    findings.push(Finding::new(Promise::RenameAtomic, self.path_of(&names[0]), what));
                }
            }
            let Some(exists) = inode.exists else { continue };
            if id == ROOT || !names.is_empty() || !self.findings.is_empty() || !findings.is_empty() {
                continue;
            }
            let displaced = |rename: &Rename| rename.moved == id && self.may_be_displaced(rename);
            if model.renames.iter().any(displaced) {
                continue;
            }
            let always_named = || counts().get(&id).is_some_and(|counts| counts.always_since(exists.time));
            if !linked_and_unlinked(exists.time) && always_named() {
                let name = model.current_path(id).unwrap_or_default();
                let what = format!("the {} has no name any more: it is lost", inode.kind.noun());
                findings.push(Finding {
                    path: name,
                    what,
                    promise: self.model.contract.by(exists.promise),
                    promised_by: exists.by,
                });
            }
        }
        for finding in findings {
            self.report(finding);
        }
    }

    /// The names, and the modes and owners behind them, are those of one moment.
    fn order(&mut self) {
        if !self.model.contract.promises(Promise::OrderedMetadata) || self.sides.live.is_none() {
            return;
        }
        let mut moments = Moments::new(self.model.prefix.time, self.model.time);
        for ((directory, name), seen) in &self.entries {
            moments.narrow(&self.model.inodes[*directory].entries[name], seen);
        }
        for (id, (number, _)) in &self.found {
            let expected = &self.model.inodes[*id];
            let Some(inode) = self.tree.inode(*number) else { continue };
            if !matches!(expected.kind, Kind::Symlink(_)) {
                moments.narrow(&expected.mode, &inode.mode);
                moments.narrow(&expected.owner, &(inode.uid, inode.gid));
            }
        }
        // A directory that is there has been compared entry by entry; one that is missing now
        // but was there at that moment is an entry that differs.
        if !moments.any() {
            let what = "the names, modes and owners are those of no moment of the run: a later operation is there without an earlier one";
            self.report(Finding::new(Promise::OrderedMetadata, "", what));
        }
    }
}

/// Which moments of the run everything that was seen is of.
struct Moments {
    first: Time,
    /// By how much the number of things seen that are of a moment differs from that before.
    changes: Vec<isize>,
    things: isize,
}

impl Moments {
    fn new(first: Time, last: Time) -> Self {
        Self { first, changes: vec![0; last - first + 2], things: 0 }
    }

    /// One more thing was seen, which had these versions.
    fn narrow<T: PartialEq>(&mut self, history: &History<T>, seen: &T) {
        self.things += 1;
        let end = self.first + self.changes.len() - 1;
        for (from, to, _) in history.spans().filter(|(_, _, version)| *version == seen) {
            let (from, to) = (from.max(self.first), to.min(end));
            if from < to {
                self.changes[from - self.first] += 1;
                self.changes[to - self.first] -= 1;
            }
        }
    }

    fn any(&self) -> bool {
        let moments = &self.changes[..self.changes.len() - 1];
        let counts = moments.iter().scan(0, |count, change| {
            *count += change;
            Some(*count)
        });
        counts.into_iter().any(|count| count == self.things)
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
