//! Which inode of the model each name of a tree leads to, and what is wrong with the names.

mod several_names;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use local_fs::{Inode, InodeKind, Tree};
use workloads::DeviceKind;

use crate::aspects::Aspects;
use crate::history::{Bound, History, Time};
use crate::model::{InodeId, Kind, Model, ROOT};
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
        Self {
            model,
            tree,
            live,
            fits: RefCell::default(),
        }
    }
}

/// The inodes of a tree that shows what the model has now.
fn live_inodes<'a>(model: &Model, live: &'a Tree) -> HashMap<InodeId, &'a Inode> {
    let mut inodes = HashMap::new();
    let mut pending = vec![(ROOT, live.root)];
    while let Some((id, number)) = pending.pop() {
        let Some(inode) = live.inode(number) else {
            continue;
        };
        if inodes.insert(id, inode).is_some() {
            continue;
        }
        for (name, number) in live.entries(number) {
            let entry = model.inodes[id].entries.get(name);
            pending.extend(
                entry
                    .and_then(|entry| *entry.current())
                    .map(|child| (child, number)),
            );
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

impl Rule {
    /// Which of several to take, the newest of which stands first.
    fn choice(self, legal: &[InodeId], history: &History<Option<InodeId>>) -> usize {
        match self {
            Self::Newest => 0,
            Self::Oldest => legal.len() - 1,
            Self::At(time) => {
                let there = legal.iter().position(|id| *history.at(time) == Some(*id));
                there.unwrap_or(0)
            }
        }
    }
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
        Self {
            sides,
            model,
            tree,
            findings,
            assigned,
            found,
            entries,
            reading,
            choices,
            unsettled,
            guessing,
        }
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
            self.replacements();
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
        self.report(self.broken(bound, path.to_owned(), what));
    }

    /// The finding that what a bound promises of a path is not so.
    fn broken(&self, bound: Bound, path: String, what: String) -> Finding {
        Finding {
            promise: self.model.contract.by(bound.promise),
            path,
            what,
            promised_by: bound.by,
            rule: None,
        }
    }

    /// What is not promised is not reported.
    fn report(&mut self, finding: Finding) {
        if self.model.contract.promises(finding.promise) {
            self.findings.push(finding);
        }
    }

    fn report_all(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.report(finding);
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
            let path = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}/{name}")
            };
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

    /// Whether a name that has these values may be missing. Where only the removal of another file
    /// from here is durable, and there is no order, what took its place (by an exchange, or a
    /// whiteout) may be.
    fn may_be_missing(&self, allowed: &[(Time, Option<InodeId>)]) -> bool {
        if allowed.iter().any(|(_, value)| value.is_none()) {
            return true;
        }
        let oldest = allowed.first().and_then(|(_, value)| *value);
        let unpromised = |id: InodeId| self.model.inodes[id].exists.is_none();
        let ordered = self.model.contract.promises(Promise::OrderedMetadata);
        self.whole() && !ordered && oldest.is_some_and(unpromised)
    }

    fn noun(&self, id: InodeId) -> &'static str {
        self.model.inodes[id].kind.noun()
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
        let place = (directory, name.to_owned());
        let allowed = history.allowed(self.model.prefix);
        if !self.whole() && allowed.len() > 1 {
            let unsettled = seen.map(|number| Unsettled {
                place,
                number,
                path: path.to_owned(),
            });
            self.unsettled.extend(unsettled);
            return;
        }
        let candidates = candidates(allowed);
        let Some(number) = seen else {
            self.entries.insert(place, None);
            if !self.may_be_missing(allowed) {
                let noun = self.noun(candidates[0]);
                self.finding(bound, path, format!("the {noun} is missing"));
            }
            return;
        };
        self.standing(place, &candidates, history, number, path);
    }

    /// What stands at a name is one of the inodes that may stand there.
    fn standing(
        &mut self,
        place: (InodeId, String),
        candidates: &[InodeId],
        history: &History<Option<InodeId>>,
        number: u64,
        path: &str,
    ) {
        let bound = self.bound_of(history);
        if candidates.is_empty() {
            let what = not_allowed_words(history, &bound);
            return self.finding(bound, path, what.to_owned());
        }
        // What it can't be for want of reading is said by the tree's errors.
        let Some(inode) = self.tree.inode(number) else {
            return;
        };
        let chosen = self.choose(candidates, history, number, inode);
        self.entries.insert(place, chosen);
        if let Some(chosen) = chosen {
            return self.take(chosen, number, path, bound);
        }
        let noun = self.noun(candidates[0]);
        let what = format!("it is a {} and should be a {noun}", inode.kind.noun());
        self.finding(bound, path, what);
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
            let free = self
                .found
                .get(*id)
                .is_none_or(|(other, _)| *other == number);
            free && self.fits(**id, number)
        };
        let legal: Vec<_> = fitting.iter().filter(legal).copied().collect();
        if legal.len() < 2 {
            return legal.first().or(fitting.first()).copied();
        }
        let fixed = self.reading.fixed.get(self.choices.len()).copied();
        let taken = fixed.unwrap_or_else(|| self.reading.rule.choice(&legal, history));
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
                self.finding(
                    bound,
                    path,
                    format!("it is the same file as '{other}' and should be another"),
                );
            }
            (None, Some((_, other))) => {
                let what = format!("it should be the same {} as '{other}'", self.noun(id));
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
        let Some(inode) = self.tree.inode(number) else {
            return Vec::new();
        };
        let live = self
            .sides
            .live
            .as_ref()
            .and_then(|live| live.get(&id).copied());
        let aspects = Aspects {
            model: self.model,
            expected: &self.model.inodes[id],
            inode,
            live,
            path,
        };
        aspects.findings()
    }

    /// Names of which anything may have become, once the others have been compared: what looks like
    /// something that was under such a name is taken for it. Where files were removed nothing is:
    /// what is there may have taken their numbers.
    fn unsettled_names(&mut self) {
        self.guessing = true;
        while let Some(Unsettled {
            place: (directory, name),
            number,
            path,
        }) = self.unsettled.pop_front()
        {
            if self.model.removed || self.assigned.contains_key(&number) {
                continue;
            }
            let history = &self.model.inodes[directory].entries[&name];
            let candidates = history
                .allowed(self.model.prefix)
                .iter()
                .rev()
                .filter_map(|(_, value)| *value);
            let legal = |id: &InodeId| {
                let inode = self.tree.inode(number);
                let same_kind = inode
                    .is_some_and(|inode| kind_matches(&self.model.inodes[*id].kind, &inode.kind));
                same_kind && !self.found.contains_key(id) && self.fits(*id, number)
            };
            if let Some(id) = candidates.into_iter().find(legal) {
                self.take(id, number, &path, self.bound_of(history));
            }
        }
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
                (DeviceKind::Char, InodeKind::CharDevice(seen))
                | (DeviceKind::Block, InodeKind::BlockDevice(seen)) => *seen == number,
                _ => false,
            }
        }
        _ => false,
    }
}

/// What may stand at a name that has these values, each once, the newest first.
fn candidates(allowed: &[(Time, Option<InodeId>)]) -> Vec<InodeId> {
    let mut known = BTreeSet::new();
    let newest_first = allowed.iter().rev().filter_map(|(_, value)| *value);
    newest_first.filter(|id| known.insert(*id)).collect()
}

/// What is wrong with a name that nothing may have.
fn not_allowed_words(history: &History<Option<InodeId>>, bound: &Bound) -> &'static str {
    let mut past = history.allowed(Bound::START).iter();
    if past.any(|(_, value)| value.is_some()) || bound.by.is_some() {
        "the name is back although it was removed"
    } else {
        "a name that nobody made"
    }
}
