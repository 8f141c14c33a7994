//! Whether a model allows a tree: whether the losses exist, of any number, that leave it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;

use pace_rules::Sector;
use pace_rules::nodes::{
    AtRisk, Effect, Explore, Micro, Model, Relaxations, Request, Space, Split,
};
use trace::{Action, Event, FileId, FileOp, Run};

use super::tree::{Content, Found, Grid, InFile, Names, PAGE, Skeleton, empty, initial_contents};

/// More contents of a file than this are not looked at.
const CONTENTS_MAX: usize = 300_000;

/// What a model allows of a run of one node.
pub struct Allowed {
    run: Run,
    space: Space,
    pub grid: Grid,
    /// By how many events had happened.
    known: HashMap<usize, Vec<Trees>>,
}

/// Trees that have the same names: each file holds any of some contents.
struct Trees {
    names: Names,
    files: BTreeMap<String, HashSet<Content>>,
}

/// What an effect is about: the bytes of a file, or else.
fn of_bytes(effect: &Effect) -> Option<FileId> {
    match effect {
        Effect::Write { file, .. }
        | Effect::Overwrite { file, .. }
        | Effect::Grow { file, .. }
        | Effect::SetSize { file, .. } => Some(*file),
        _ => None,
    }
}

/// Whether a file loses blocks by an operation.
fn gives_back(op: &FileOp) -> bool {
    match op {
        FileOp::Unlink { .. } | FileOp::Zero { .. } => true,
        FileOp::Rename { replaced, .. } => replaced.is_some(),
        FileOp::Resize { from, to, .. } => to < from,
        _ => false,
    }
}

/// A set of parts.
type Set = u128;

impl Allowed {
    pub fn new(run: Run, model: &'static Model) -> Self {
        let request = Request {
            model,
            explore: Explore::BruteForce,
            lost: 0,
            split: Split::Aligned(4096),
            sector: Sector::default(),
            relaxations: Relaxations {
                prefix: true,
                lost: false,
                cut: false,
                torn: false,
                stopped: false,
                synced: false,
                names_only: false,
                all_torn: false,
                one_kept: false,
            },
        };
        let space = Space::new(&run, &request).expect("it has files");
        let grid = Grid::of(&run.nodes[0].initial, space.micros(0));
        Self {
            run,
            space,
            grid,
            known: HashMap::new(),
        }
    }

    /// Whether a crash after one of these numbers of events can leave a tree.
    pub fn allows(&mut self, events: RangeInclusive<usize>, found: &Found) -> bool {
        events
            .into_iter()
            .any(|events| self.at(events).iter().any(|trees| trees.has(found)))
    }

    /// The same on a file system that may give the blocks of one file to another before the first is
    /// known to have lost them, and that writes data in place at any time: whole pages can hold what
    /// was written elsewhere.
    pub fn allows_blocks_used_again(
        &mut self,
        events: RangeInclusive<usize>,
        found: &Found,
    ) -> bool {
        let grid = self.grid.clone();
        let is_given_back =
            |event: &Event| matches!(&event.action, Action::File(op) if gives_back(op));
        let first = self.run.nodes[0].events.iter().position(is_given_back);
        events.into_iter().any(|events| {
            let mut all = self.at(events).iter();
            first.is_some_and(|first| first < events)
                && all.any(|trees| trees.has_but_for_pages_of_others(found, &grid))
        })
    }

    /// What is allowed after so many events.
    fn at(&mut self, events: usize) -> &[Trees] {
        if !self.known.contains_key(&events) {
            let all = self.space.at_risk(0, events);
            let trees = all.iter().flat_map(|at_risk| self.trees(at_risk)).collect();
            self.known.insert(events, trees);
        }
        &self.known[&events]
    }

    fn trees(&self, at_risk: &AtRisk) -> Vec<Trees> {
        let micros = self.space.micros(0);
        let parts = &at_risk.parts;
        assert!(parts.len() <= Set::BITS as usize, "the program is small");
        let with: Vec<Set> = parts
            .iter()
            .map(|part| part.with.iter().fold(0, |set, part| set | 1 << part))
            .collect();
        let file_of = |part: usize| of_bytes(&micros[parts[part].micros.start].effect);
        // Whatever is about more than the bytes of one file is chosen first.
        let is_common = |part: usize| {
            let own = file_of(part);
            own.is_none()
                || matches!(
                    micros[parts[part].micros.start].effect,
                    Effect::SetSize { .. }
                )
                || parts[part].with.iter().any(|other| file_of(*other) != own)
        };
        let common: Vec<usize> = (0..parts.len()).filter(|part| is_common(*part)).collect();
        let common_set = common.iter().fold(0, |set: Set, part| set | 1 << part);
        let mut choices: Vec<Set> = vec![0];
        let mut seen: HashSet<Set> = [0].into();
        for part in &common {
            for place in 0..choices.len() {
                let lost = choices[place] | with[*part];
                if seen.insert(lost & common_set) {
                    choices.push(lost);
                }
            }
        }
        let is_both =
            |lost: &Set, (one, other): &(usize, usize)| lost >> one & lost >> other & 1 == 1;
        choices.retain(|lost| !at_risk.exclude.iter().any(|pair| is_both(lost, pair)));
        let mut part_of = vec![None; at_risk.micros];
        for (number, part) in parts.iter().enumerate() {
            part_of[part.micros.clone()].fill(Some(number));
        }
        let search = Search {
            this: self,
            micros: &micros[..at_risk.micros],
            part_of,
            with,
            ends: parts.iter().map(|part| part.micros.end).collect(),
            common_set,
        };
        choices.into_iter().map(|lost| search.trees(lost)).collect()
    }

    /// How many trees are allowed that are not among these, up to a bound.
    pub fn others(&mut self, found: &HashSet<Found>, bound: usize) -> usize {
        let mut others = HashSet::new();
        for events in 0..=self.run.nodes[0].events.len() {
            for trees in self.at(events) {
                trees.add(found, bound, &mut others);
                if others.len() >= bound {
                    return bound;
                }
            }
        }
        others.len()
    }

    /// What is allowed after so many events of these names, in words.
    pub fn told(&mut self, events: RangeInclusive<usize>, found: &Found) -> String {
        let grid = self.grid.clone();
        let mut lines = Vec::new();
        for events in events {
            for trees in self.at(events) {
                let mut line = format!("    after {events} events: {}", trees.names);
                if trees.names == found.names {
                    for (path, contents) in &trees.files {
                        let mut contents: Vec<_> =
                            contents.iter().map(|content| content.told(&grid)).collect();
                        contents.sort();
                        contents.truncate(12);
                        line += &format!("\n        {path}: {}", contents.join(" or "));
                    }
                }
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        lines.join("\n")
    }
}

impl Trees {
    fn has(&self, found: &Found) -> bool {
        self.names == found.names
            && found.files.iter().all(|(path, content)| match content {
                InFile::Known(content) => self
                    .files
                    .get(path)
                    .is_some_and(|all| all.contains(content)),
                InFile::Odd(_) => false,
            })
    }

    /// Whether each file is one of those that are allowed, but for whole pages in which there is
    /// what none of them has there, and zeros.
    fn has_but_for_pages_of_others(&self, found: &Found, grid: &Grid) -> bool {
        let is_so = |(path, content): (&String, &InFile)| {
            let Some(all) = self.files.get(path) else {
                return false;
            };
            let pages = |content: Vec<u8>| -> Vec<Vec<u8>> {
                let pages = content.chunks(PAGE as usize);
                pages.map(<[u8]>::to_vec).collect()
            };
            let all: Vec<_> = all.iter().map(|own| pages(own.bytes(grid))).collect();
            let found = pages(content.bytes(grid));
            let is_of_another = |number: usize, page: &[u8]| {
                let own = all.iter().filter_map(|own| own.get(number)).flatten();
                let own: HashSet<u8> = own.copied().collect();
                let bytes: HashSet<u8> = page.iter().copied().filter(|byte| *byte != 0).collect();
                !bytes.is_empty() && bytes.is_disjoint(&own)
            };
            all.iter().any(|own| {
                let mut pages = found.iter().zip(own).enumerate();
                own.iter().flatten().count() == found.iter().flatten().count()
                    && pages.all(|(number, (page, own))| page == own || is_of_another(number, page))
            })
        };
        self.names == found.names && found.files.iter().all(is_so)
    }

    fn add(&self, found: &HashSet<Found>, bound: usize, others: &mut HashSet<Found>) {
        let mut all = vec![BTreeMap::new()];
        for (path, contents) in &self.files {
            let mut more = Vec::new();
            for known in &all {
                for content in contents {
                    let mut with: BTreeMap<String, InFile> = known.clone();
                    with.insert(path.clone(), InFile::Known(content.clone()));
                    more.push(with);
                    if more.len() >= bound {
                        break;
                    }
                }
            }
            all = more;
        }
        for files in all {
            let tree = Found {
                names: self.names.clone(),
                files,
            };
            if !found.contains(&tree) {
                others.insert(tree);
            }
        }
    }
}

struct Search<'a> {
    this: &'a Allowed,
    micros: &'a [Micro],
    part_of: Vec<Option<usize>>,
    with: Vec<Set>,
    /// After the last micro of each part.
    ends: Vec<usize>,
    common_set: Set,
}

impl Search<'_> {
    /// The trees that have lost these of the common parts, and any of the others.
    fn trees(&self, lost: Set) -> Trees {
        let initial = &self.this.run.nodes[0].initial;
        let is_lost = |micro: usize| self.part_of[micro].is_some_and(|part| lost >> part & 1 == 1);
        let mut skeleton = Skeleton::initial(initial);
        for (number, micro) in self.micros.iter().enumerate() {
            if !is_lost(number) {
                skeleton.apply(&micro.effect);
            }
        }
        let (names, files) = skeleton.names();
        let mut contents = initial_contents(initial, &self.this.grid);
        let files = files.into_iter().map(|(path, file)| {
            let begin = contents
                .remove(&file)
                .unwrap_or_else(|| empty(&self.this.grid));
            (path, self.contents(file, lost, begin))
        });
        Trees {
            names,
            files: files.collect(),
        }
    }

    /// What a file can hold if these parts are lost, and any of those that are only about its bytes.
    fn contents(&self, file: FileId, lost: Set, begin: Content) -> HashSet<Content> {
        let mut all: HashSet<(Content, Set)> = [(begin, lost)].into();
        for (number, micro) in self.micros.iter().enumerate() {
            if of_bytes(&micro.effect) != Some(file) {
                continue;
            }
            let part = self.part_of[number];
            let mut next = HashSet::new();
            for (content, lost) in all {
                let is_lost = part.is_some_and(|part| lost >> part & 1 == 1);
                let kept = self.common_set & !lost;
                let may_lose = part.is_some_and(|part| {
                    self.common_set >> part & 1 == 0 && self.with[part] & kept == 0
                });
                if !is_lost {
                    let mut with = content.clone();
                    with.apply(&micro.effect, &self.this.grid);
                    next.insert((with, lost));
                }
                if is_lost {
                    next.insert((content, lost));
                } else if let (Some(part), true) = (part, may_lose) {
                    next.insert((content, lost | self.with[part]));
                }
            }
            // What a part takes with it was noted when it was lost.
            let is_over =
                |part: &usize| self.ends[*part] <= number + 1 && self.common_set >> part & 1 == 0;
            let over = (0..self.ends.len())
                .filter(is_over)
                .fold(0, |set: Set, part| set | 1 << part);
            all = next
                .into_iter()
                .map(|(content, lost)| (content, lost & !over))
                .collect();
            assert!(all.len() < CONTENTS_MAX, "the program is small");
        }
        let grid = &self.this.grid;
        all.into_iter()
            .map(|(content, _)| content.seen(grid))
            .collect()
    }
}
