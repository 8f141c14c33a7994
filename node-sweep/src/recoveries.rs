//! Crashes while a program or a cluster recovers from a crash: what was recorded of each recovery has states of
//! its own, those of one recovery after those of the other. They keep the promises of the first
//! crash, since a recovery may lose nothing that was durable.

use std::collections::{HashMap, HashSet};

use brief::Likeness as Names;
use campaign::Interrupt;
use pace_rules::nodes::{Count, Crowded, Histories, Loss, Spaces};
use trace::Run;
use trace_store::Trace;

use crate::causes::Patience;
use crate::check::Complaint;
use crate::error::{Error, Result};
use crate::finding::{Finding, Lost};
use crate::findings::Findings;
use crate::indices::Indices;
use crate::request::Request;
use crate::states::CrashState;
use crate::sweep::{Broken, Made, Source, Swept, Trees};

/// The states of all recoveries that a trace has.
pub struct Recoveries<'a> {
    members: Vec<Recovery<'a>>,
    request: &'a Request,
}

/// One of them.
pub(crate) struct Recovery<'a> {
    pub(crate) trace: &'a Trace,
    spaces: Spaces,
    /// The number that the first of its states has among all.
    first: u64,
}

impl Recovery<'_> {
    /// What came of its own states, by their numbers in it.
    fn own(&self, swept: &Swept) -> Swept {
        let end = self.first.saturating_add(self.spaces.len());
        swept.part(self.first..end)
    }
}

impl<'a> Recoveries<'a> {
    /// Those of a trace.
    ///
    /// # Errors
    /// If what is asked for does not fit a run.
    pub fn new(trace: &'a Trace, request: &'a Request) -> Result<Self> {
        let mut first = 0;
        let members = trace.recoveries(false).map(|trace| {
            let spaces = request.spaces(request.explore_of(trace)?, trace)?;
            let member = Recovery {
                trace,
                spaces,
                first,
            };
            first = first.saturating_add(member.spaces.len());
            Ok(member)
        });
        Ok(Self {
            members: members.collect::<Result<_>>()?,
            request,
        })
    }

    /// How many states there are.
    pub fn len(&self) -> u64 {
        let lens = self.members.iter().map(|member| member.spaces.len());
        lens.fold(0, u64::saturating_add)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the states are called, beside models: those of a model, after another crash.
    pub(crate) fn name(&self) -> String {
        format!("{}, again", self.request.model)
    }

    /// How many of each kind, of one recovery after the other.
    pub(crate) fn counts(&self) -> Vec<Count> {
        let of_member = |member: &Recovery<'_>| member.spaces.counts();
        let counts = self.members.iter().flat_map(of_member);
        counts.map(|(_, count)| count).collect()
    }

    /// The recovery that has a state, and the number of the state in it.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn find(&self, index: u64) -> (&Recovery<'a>, u64) {
        let (place, own) = self.place(index);
        (&self.members[place], own)
    }

    fn place(&self, index: u64) -> (usize, u64) {
        let after = self.members.partition_point(|member| member.first <= index);
        // One that has no states begins where the next one does, which has them.
        let place = after - 1;
        (place, index - self.members[place].first)
    }

    /// Makes the states.
    pub(crate) fn source(&self) -> AllTrees<'_> {
        let members = self.members.iter();
        let trees = members.map(|member| Trees::new(member.trace, &member.spaces));
        AllTrees {
            recoveries: self,
            trees: trees.collect(),
        }
    }

    /// The findings of a sweep, the smallest of the first recovery first. Those that are alike in
    /// several recoveries are one. With `explains` it is looked for what would have prevented each,
    /// and on which other models it is possible, as long as somebody waits for that; it says whether
    /// all states were visited.
    ///
    /// # Errors
    /// If there is no model of the name that was asked for.
    pub(crate) fn findings(
        &self,
        swept: &Swept,
        explains: Option<(bool, Patience<'_>)>,
    ) -> Result<Vec<Finding>> {
        let mut together = Together::default();
        for member in &self.members {
            let names = Findings::without_space(member.trace).likeness;
            let found = self.findings_of(member, swept, explains)?;
            together.add(found, &names, member.first);
        }
        Ok(together.all)
    }

    /// The findings of one recovery.
    fn findings_of(
        &self,
        member: &Recovery<'_>,
        swept: &Swept,
        explains: Option<(bool, Patience<'_>)>,
    ) -> Result<Vec<Finding>> {
        let judged = Findings::new(member.trace, &member.spaces, &self.request.model);
        let judged = judged.in_time(explains.map(|(_, patience)| patience).unwrap_or_default());
        let found = judged.of(&member.own(swept));
        Ok(match explains {
            Some((is_whole, _)) if !found.is_empty() => {
                let explore = self.request.explore_of(member.trace)?;
                judged.explain(found, &self.request.of_calls(explore)?, is_whole)
            }
            _ => found.into_iter().map(|(finding, _)| finding).collect(),
        })
    }
}

/// The findings of several recoveries, those that are alike together.
#[derive(Default)]
struct Together {
    all: Vec<Finding>,
    /// The places of those that have this in common.
    places: HashMap<Likeness, Vec<usize>>,
}

impl Together {
    /// Adds those of one recovery, whose states have numbers from `first` on. They differ from each
    /// other, whatever they have in common.
    fn add(&mut self, found: Vec<Finding>, names: &Names, first: u64) {
        let mut own = HashSet::new();
        for finding in found {
            let likeness = Likeness::of(&finding, names);
            let alike = self.places.entry(likeness).or_default();
            if let Some(place) = alike.iter().find(|place| own.insert(**place)) {
                add_alike(&mut self.all[*place], finding);
                continue;
            }
            let place = self.all.len();
            alike.push(place);
            own.insert(place);
            self.all.push(Finding {
                number: place + 1,
                state: first + finding.state,
                ..finding
            });
        }
    }
}

/// Counts a finding of another recovery with the one that is shown.
fn add_alike(shown: &mut Finding, alike: Finding) {
    shown.states += alike.states;
    shown.different += alike.different;
    shown.recoveries += 1;
    for (name, is_possible) in alike.models {
        *shown.models.entry(name).or_default() |= is_possible;
    }
    for (relaxation, states) in alike.relaxations {
        *shown.relaxations.entry(relaxation).or_default() += states;
    }
}

/// What the crashes left that a program recovered from.
pub(crate) fn crashes(recovery: &Trace) -> Vec<String> {
    let recovers = recovery.about.recovers.as_ref();
    recovers.map_or_else(Vec::new, |recovers| recovers.crashes.clone())
}

/// What findings of several recoveries have in common: what the check says, and what of the recovery
/// is missing.
#[derive(PartialEq, Eq, Hash)]
struct Likeness {
    plain: Vec<String>,
    /// Calls, each with where in the program it came from, what its file is called, and whether all
    /// of it is missing.
    missing: Vec<(String, Option<String>, String, bool)>,
}

impl Likeness {
    fn of(finding: &Finding, names: &Names) -> Self {
        let site = |lost: &Lost| {
            let file = names.pattern(&lost.path);
            let is_all = lost.parts.is_none();
            (lost.call.clone(), lost.stack.clone(), file, is_all)
        };
        let nodes = finding.nodes.iter();
        let missing = nodes.flat_map(|node| node.lost.iter().chain(&node.midway));
        Self {
            plain: finding.plain.clone(),
            missing: missing.map(site).collect(),
        }
    }
}

/// Makes the states of all recoveries.
pub(crate) struct AllTrees<'a> {
    recoveries: &'a Recoveries<'a>,
    trees: Vec<Trees<'a>>,
}

impl Source for AllTrees<'_> {
    fn runs(&self) -> Vec<&Run> {
        let members = self.recoveries.members.iter();
        members.map(|member| &member.trace.run).collect()
    }

    fn crowded(&self) -> Option<Crowded> {
        let trees = self.trees.iter().filter_map(Trees::crowded);
        trees.reduce(|one, other| Crowded {
            moments: one.moments + other.moments,
            of: one.of + other.of,
            is_without_all: one.is_without_all || other.is_without_all,
            ..one
        })
    }

    fn make(&mut self, index: u64) -> Made {
        let (place, own) = self.recoveries.place(index);
        Made {
            run: place,
            ..self.trees[place].make(own)
        }
    }

    fn run(&self, index: u64) -> usize {
        self.recoveries.place(index).0
    }

    fn model(&self, index: u64) -> usize {
        let (place, own) = self.recoveries.place(index);
        self.trees[place].model(own)
    }

    fn with_less_missing(&self, index: u64) -> Vec<u64> {
        let (place, own) = self.recoveries.place(index);
        let first = self.recoveries.members[place].first;
        let less = self.trees[place].with_less_missing(own);
        less.into_iter().map(|number| first + number).collect()
    }

    fn is_at_once(&self, index: u64) -> bool {
        let (place, own) = self.recoveries.place(index);
        self.trees[place].is_at_once(own)
    }

    fn with_all_lost(&self, index: u64) -> Option<u64> {
        let (place, own) = self.recoveries.place(index);
        let first = self.recoveries.members[place].first;
        let all = self.trees[place].with_all_lost(own);
        all.map(|number| first + number)
    }

    fn losses(&self, index: u64) -> Vec<Loss> {
        let (place, own) = self.recoveries.place(index);
        self.trees[place].losses(own)
    }

    fn with_fewer_lost(&self, index: u64) -> Vec<(u64, Vec<Loss>)> {
        let (place, own) = self.recoveries.place(index);
        let first = self.recoveries.members[place].first;
        let fewer = self.trees[place].with_fewer_lost(own).into_iter();
        fewer
            .map(|(number, losses)| (first + number, losses))
            .collect()
    }

    fn make_with(&mut self, index: u64, losses: &[Loss]) -> Made {
        let (place, own) = self.recoveries.place(index);
        Made {
            run: place,
            ..self.trees[place].make_with(own, losses)
        }
    }
}

/// A crash state that a program, or its disk's file system, is to recover from, and be recorded
/// meanwhile.
pub struct FirstCrash {
    /// What is on the disk, and what had been acknowledged.
    pub state: CrashState,
    /// What each crash left, this one last, in words.
    pub crashes: Vec<String>,
    /// The node that had acknowledged something last; nothing if there is none.
    pub acknowledged_by: String,
}

/// Has `visit` look at crash states of a run that may be recovered from, until it returns `false`:
/// of all kinds in turn, and no two whose disks hold the same. There are `most` at most.
///
/// # Errors
/// If what is asked for does not fit the run, `visit` fails, or somebody interrupts before there are
/// states.
pub fn first_crashes<E: From<Error>>(
    trace: &Trace,
    request: &Request,
    most: u64,
    interrupt: &Interrupt,
    visit: &mut dyn FnMut(FirstCrash) -> Result<bool, E>,
) -> Result<(), E> {
    let spaces = request.spaces_unless(request.explore_of(trace)?, trace, interrupt)?;
    // Rules may ask what came before. Whoever recovers sees what was left.
    let spaces = spaces.with_histories(Histories::Known);
    let kinds = spaces.counts().into_iter().map(|(_, count)| count.states);
    let indices = Indices::of(kinds, Some(most), request.seed)?;
    let mut trees = Trees::new(trace, &spaces);
    let judged = Findings::new(trace, &spaces, &request.model);
    let mut seen = HashSet::new();
    for index in indices.all {
        let Ok(state) = trees.make(index).state else {
            continue;
        };
        if !seen.insert(state.disks_key) {
            continue;
        }
        let (member, of_space) = spaces.state(index);
        let of_model = judged.of_model(member);
        let story = of_model.story(None, &of_space, &shown(index), state.key);
        if !visit(FirstCrash::of(trace, story, state))? {
            break;
        }
    }
    Ok(())
}

/// The same of the disks of a run, in all its recordings, from which their file system recovers.
///
/// # Errors
/// Like [`first_crashes`].
pub fn first_crashes_of_disks<E: From<Error>>(
    trace: &Trace,
    request: &Request,
    most: u64,
    visit: &mut dyn FnMut(FirstCrash) -> Result<bool, E>,
) -> Result<(), E> {
    let recordings = request.of_disks(request.explore_of(trace)?, trace)?;
    let kinds = recordings.counts().into_iter().map(|count| count.states);
    let indices = Indices::of(kinds, Some(most), request.seed)?;
    let mut source = recordings.source()?;
    let mut seen = HashSet::new();
    for index in indices.all {
        let state = source.make(index).state.expect("a disk can hold anything");
        if !seen.insert(state.disks_key) {
            continue;
        }
        let story = recordings.story(&shown(index))?;
        if !visit(FirstCrash::of(trace, story, state))? {
            break;
        }
    }
    Ok(())
}

/// A state of which there is something to tell, although nobody said anything of it.
fn shown(index: u64) -> Broken {
    Broken::one(index, Complaint::default())
}

impl FirstCrash {
    fn of(trace: &Trace, story: Finding, state: CrashState) -> Self {
        Self {
            crashes: [crashes(trace), vec![story.in_a_line()]].concat(),
            acknowledged_by: story
                .acknowledged
                .map_or_else(String::new, |line| line.node),
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::{FileId, FileOp, InitialFile, Node};

    use super::*;
    use crate::likeness::likeness_of;
    use crate::request::tests::request;
    use crate::tests::in_a_file;

    /// A finding that lacks an append to this file.
    fn lacks(path: &str) -> Finding {
        let mut trace = Trace::default();
        trace.run.nodes.push(Node {
            name: "program".into(),
            initial: vec![InitialFile::empty_root()],
            events: Vec::new(),
        });
        let mut finding = Findings::told(&trace, &[0]);
        finding.plain = vec!["an entry is lost".into()];
        let missing = Lost {
            call: "write".into(),
            stack: None,
            called_by: Vec::new(),
            path: path.into(),
            words: format!("append {path}"),
            parts: None,
            event: 0,
        };
        finding.nodes[0].lost.push(missing);
        Finding {
            recoveries: 1,
            ..finding
        }
    }

    /// The recoveries in which each finding was seen, if these were found in them.
    fn recoveries(found: &[&[&str]]) -> Vec<usize> {
        let names = likeness_of(&Run::default(), &[]);
        let mut together = Together::default();
        for paths in found {
            together.add(paths.iter().map(|path| lacks(path)).collect(), &names, 0);
        }
        together.all.iter().map(|found| found.recoveries).collect()
    }

    #[test]
    fn what_another_file_lacks_is_another_finding() {
        assert_eq!(recoveries(&[&["wal"], &["index"]]), [1, 1]);
        assert_eq!(recoveries(&[&["wal", "index"], &["index"]]), [1, 2]);
    }

    #[test]
    fn two_findings_of_one_recovery_are_not_one() {
        assert_eq!(recoveries(&[&["wal", "wal"]]), [1, 1]);
        assert_eq!(recoveries(&[&["wal", "wal"], &["wal"], &["wal"]]), [3, 1]);
    }

    /// A recovery that writes so often to a file that it makes, and syncs nothing.
    fn recovery(writes: u64) -> Trace {
        let mut trace = Trace::default();
        let data = trace.add(b"bytes");
        let write = |number: u64| FileOp::Write {
            file: FileId(1),
            offset: number * data.len,
            data,
            size_before: number * data.len,
        };
        let node = in_a_file((0..writes).map(write));
        trace.run.nodes.push(node);
        trace
    }

    /// As of the run itself.
    #[test]
    fn what_is_not_tried_in_recoveries_is_counted() {
        let crowded = |recoveries: &[u64]| {
            let trace = Trace {
                recoveries: recoveries.iter().map(|writes| recovery(*writes)).collect(),
                ..Trace::default()
            };
            let request = request(None);
            let recoveries = Recoveries::new(&trace, &request).expect("states");
            recoveries.source().crowded().expect("it is known")
        };
        let (one, other) = (crowded(&[5]), crowded(&[7]));
        assert!(one.moments > 0 && one.of > one.moments, "{one:?}");
        let both = crowded(&[5, 7]);
        let sums = (one.moments + other.moments, one.of + other.of);
        assert_eq!((both.moments, both.of), sums);
        assert_eq!(crowded(&[1]).moments, 0);
    }
}
