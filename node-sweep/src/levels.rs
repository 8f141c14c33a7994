//! A whole sweep: at one level or both, all of it or a part, from its beginning or where it was
//! stopped.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use brief::counted;
use campaign::{Interrupt, Shard};
use local_fs::enter_mount_namespace;
use pace_rules::nodes::{self, Explore, Relaxation, Spaces};
use trace_store::Trace;

use crate::acks::untested;
use crate::causes::Patience;
use crate::error::{During as _, Error, Result};
use crate::finding::{Finding, relaxation_words};
use crate::findings::Findings;
use crate::indices::Indices;
use crate::judged::Verdicts;
use crate::manifest::Manifest;
use crate::merge::Merged;
use crate::recorded::so_far;
use crate::recordings::Recordings;
use crate::recoveries::Recoveries;
use crate::request::{Level, Request};
use crate::results::Results;
use crate::specs::{Asking, explain};
use crate::summary::{Summary, count_words, crash_states_words, together, without_recoveries};
use crate::sweep::{EXPLAINED_FOR, Plan, Source, Subject, Swept, Trees, sweep_source};
use crate::undamaged::{Asked, Undamaged};
use crate::watcher::Watcher;

/// What is said where nothing can be asked about the disks before there was a crash.
const NOT_ASKED: &str = "this trace does not say what the disks had in the end, so the check was not tried on that: \
    what is broken may be so without a crash";

/// A sweep as it is asked for.
pub struct Requested<'a> {
    /// What was recorded.
    pub trace: &'a Trace,
    /// The command, or the cluster.
    pub name: String,
    /// Which states are visited, and how they are judged.
    pub request: Request,
    /// What its explore rule comes to.
    pub explore: Explore,
    /// The part that is looked at, if not all.
    pub shard: Option<Shard>,
}

/// How it is done, which decides nothing of what is found.
pub struct Control<'a> {
    /// How many states are looked at side by side.
    pub jobs: usize,
    /// How long states are looked at, if not as long as it takes.
    pub budget: Option<Duration>,
    /// After how many different things that the check says of broken states it ends.
    pub stop_after: Option<u64>,
    /// Whether the user wants to stop.
    pub interrupt: &'a Interrupt,
}

/// Makes so many of those that look at states.
pub type MakeSubjects<'m, 's> = &'m mut dyn FnMut(usize) -> Result<Vec<Box<dyn Subject + 's>>>;

/// What a sweep came to.
#[derive(Debug)]
pub struct Concluded {
    /// What was found at all levels, numbered from 1.
    pub findings: Vec<Finding>,
    /// All of it in numbers.
    pub summary: Summary,
    /// Why a level could not be visited, where there is something to tell of another one.
    pub failure: Option<Error>,
}

/// What a level came to.
type Visited = (Vec<Finding>, Summary);

/// How the states of one level are visited.
struct Visit<'a> {
    results: Option<&'a mut Results>,
    level: Level,
    /// Since when the time that is spent on it counts.
    begun: Instant,
    known: Verdicts,
    deadline: Option<Instant>,
    undamaged: Option<Arc<Undamaged>>,
    asking: Option<&'a Asking>,
    /// What interrupts the level while its states are computed. If something is known already, nothing
    /// does: it is told whatever happens, and that takes the states.
    before_states: Interrupt,
    control: &'a Control<'a>,
}

/// How long all levels may take together.
#[derive(Clone, Copy)]
struct Time {
    budget: Duration,
    end: Instant,
}

impl Time {
    fn from_now(budget: Duration) -> Self {
        let end = Instant::now() + budget;
        Self { budget, end }
    }

    /// Until when the next of so many levels is visited, where so many are left.
    fn deadline(self, levels: usize, left: usize) -> Instant {
        let now = Instant::now();
        // One that was late, since something broken had to be made sure of, takes nothing from the
        // others.
        let own = now + self.budget / u32::try_from(levels).expect("they are few");
        part_of_time(now, self.end, left).max(own)
    }
}

/// What the levels of a sweep share.
struct Prepared<'a> {
    levels: Vec<Level>,
    disks: Option<Recordings<'a>>,
    time: Option<Time>,
    asking: Option<Asking>,
    undamaged: Arc<Undamaged>,
    /// What the disks had in the end, where not all that the nodes did was recorded.
    undamaged_disks: Option<Arc<Undamaged>>,
    control: &'a Control<'a>,
}

impl<'a> Prepared<'a> {
    /// How the level at this place is visited, whose time begins now.
    fn visit<'v>(&'v self, place: usize, mut results: Option<&'v mut Results>) -> Visit<'v>
    where
        'a: 'v,
    {
        let (level, count) = (self.levels[place], self.levels.len());
        let is_known = |results: &Results| results.count() > 0;
        let before_states = if place > 0 || results.as_deref().is_some_and(is_known) {
            Interrupt::default()
        } else {
            self.control.interrupt.clone()
        };
        let known = results.as_deref_mut().map(|results| results.begin(level));
        Visit {
            undamaged: if is_shown(&self.undamaged, level) {
                Some(self.undamaged.clone())
            } else {
                self.undamaged_disks.clone()
            },
            known: known.unwrap_or_default(),
            results,
            level,
            begun: Instant::now(),
            deadline: self.time.map(|time| time.deadline(count, count - place)),
            asking: self.asking.as_ref(),
            before_states,
            control: self.control,
        }
    }
}

impl<'a> Requested<'a> {
    /// A sweep that was begun. `explore` is what its explore rule comes to.
    ///
    /// # Errors
    /// If its manifest was changed.
    pub fn of(results: &Results, trace: &'a Trace, explore: Explore) -> Result<Self> {
        let manifest = results.manifest();
        Ok(Self {
            trace,
            name: manifest.name.clone(),
            request: manifest.request.clone(),
            explore,
            shard: manifest.shard()?,
        })
    }

    /// Makes the directory of its results, which must be new.
    ///
    /// # Errors
    /// If there is something in it already, or it cannot be written.
    pub fn begin(&self, directory: &Path, jobs: usize) -> Result<Results> {
        let (name, request) = (self.name.clone(), self.request.clone());
        let manifest = Manifest::new(name, self.model_words(), request, self.shard, jobs);
        Results::create(directory, manifest, self.trace)
    }

    /// What may be on the disks, in words.
    fn model_words(&self) -> String {
        let request = &self.request;
        let disks = || {
            let disks = self.trace.disks.values();
            let mut names: Vec<_> = disks.map(|disk| disk.file_system.as_str()).collect();
            names.dedup();
            format!("{} on disk: {}", names.join(", "), request.states)
        };
        match request.level {
            Level::Syscalls | Level::Recovery => request.model.clone(),
            Level::Block | Level::DiskRecovery => disks(),
            Level::Both => format!("{}; {}", request.model, disks()),
        }
    }

    /// Visits the states that are not known yet, and writes what came of all of them to the
    /// results. `subjects` makes what looks at them.
    ///
    /// # Errors
    /// If states cannot be visited at all, or results cannot be written.
    pub fn run(
        &self,
        mut results: Option<&mut Results>,
        subjects: MakeSubjects<'_, '_>,
        control: &Control<'_>,
    ) -> Result<Concluded> {
        let prepared = self.prepare(results.as_deref(), subjects, control)?;
        let (mut visited, mut failure) = (Vec::new(), None);
        for place in 0..prepared.levels.len() {
            let visit = prepared.visit(place, results.as_deref_mut());
            match self.visit(prepared.disks.as_ref(), subjects, visit) {
                Ok(one) => visited.push(one),
                // What the other level found is told all the same.
                Err(error) if !visited.is_empty() => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(results) = results.as_deref_mut() {
            results.append_sound(&prepared.undamaged.sound())?;
        }
        let unlooked = prepared.asking.map(|asking| asking.looked().words());
        self.conclude(visited, failure, unlooked.unwrap_or_default(), results)
    }

    /// What has to be there before the first level is visited.
    fn prepare<'p>(
        &self,
        results: Option<&Results>,
        subjects: MakeSubjects<'_, '_>,
        control: &'p Control<'p>,
    ) -> Result<Prepared<'p>>
    where
        'a: 'p,
    {
        let levels = self.request.levels(self.trace);
        Ok(Prepared {
            disks: self.disks_if_among(&levels)?,
            time: control.budget.map(Time::from_now),
            asking: self.asking(&levels, results, control.interrupt)?,
            undamaged: self.undamaged(&levels, results, subjects, control.interrupt)?,
            undamaged_disks: self.undamaged_disks(&levels, subjects, control.interrupt)?,
            levels,
            control,
        })
    }

    /// The recorded disks if they are one of the levels.
    fn disks_if_among(&self, levels: &[Level]) -> Result<Option<Recordings<'a>>> {
        let is_among = levels.contains(&Level::Block);
        is_among.then(|| self.disks_at(Level::Block)).transpose()
    }

    /// The specifications that states are held against, if there are any.
    fn asking(
        &self,
        levels: &[Level],
        results: Option<&Results>,
        interrupt: &Interrupt,
    ) -> Result<Option<Asking>> {
        let asking = Asking::of(&self.request.specifications, self.trace, interrupt)?;
        if asking.is_some() && levels.iter().any(|level| level.is_of_disks()) {
            return Err(Error::RulesOfCalls);
        }
        let known = results.map(Results::looked).into_iter().flatten();
        for looked in known {
            let asking = asking.iter();
            asking.for_each(|asking| asking.looked().know(looked));
        }
        Ok(asking)
    }

    /// The recorded disks of a level.
    fn disks_at(&self, level: Level) -> Result<Recordings<'a>> {
        self.request.disks_at(level, self.explore, self.trace)
    }

    /// What the run left, of which the check was asked, also by those who began the sweep. Where
    /// everything is known nobody is there to look at anything.
    fn undamaged(
        &self,
        levels: &[Level],
        results: Option<&Results>,
        subjects: MakeSubjects<'_, '_>,
        interrupt: &Interrupt,
    ) -> Result<Arc<Undamaged>> {
        let undamaged = Arc::new(Undamaged::of(self.trace, &self.request.model)?);
        if let Some(subject) = subjects(1)?.pop()
            && levels.iter().any(|level| is_shown(&undamaged, *level))
        {
            ask(&undamaged, subject, interrupt)?;
            if let Some(results) = results {
                undamaged.know(results.sound());
            }
        }
        if levels.contains(&Level::Block) {
            self.ask_of_others(subjects, interrupt)?;
        }
        Ok(undamaged)
    }

    /// What the disks of a run had in the end of which not all calls were recorded, of which the check
    /// was asked.
    fn undamaged_disks(
        &self,
        levels: &[Level],
        subjects: MakeSubjects<'_, '_>,
        interrupt: &Interrupt,
    ) -> Result<Option<Arc<Undamaged>>> {
        let is_of_disks = levels.iter().any(|level| level.is_of_disks());
        if !is_of_disks || self.trace.about.not_recorded.is_empty() {
            return Ok(None);
        }
        let Some(undamaged) = Undamaged::of_disks(self.trace)? else {
            campaign::say(NOT_ASKED);
            return Ok(None);
        };
        if let Some(subject) = subjects(1)?.pop() {
            ask(&undamaged, subject, interrupt)?;
        }
        Ok(Some(Arc::new(undamaged)))
    }

    /// Visits the states of a level.
    fn visit(
        &self,
        disks: Option<&Recordings<'_>>,
        subjects: MakeSubjects<'_, '_>,
        visit: Visit<'_>,
    ) -> Result<Visited> {
        match (visit.level, disks) {
            (Level::Block, Some(disks)) => self.visit_disks(disks, subjects, visit),
            (Level::DiskRecovery, _) => {
                let disks = self.disks_at(visit.level)?;
                self.visit_disks(&disks, subjects, visit)
            }
            (Level::Recovery, _) => self.visit_recoveries(subjects, visit),
            _ => self.visit_calls(subjects, visit),
        }
    }

    /// Puts together what the levels came to, and writes it to the results.
    fn conclude(
        &self,
        mut visited: Vec<Visited>,
        failure: Option<Error>,
        unlooked: Vec<String>,
        results: Option<&mut Results>,
    ) -> Result<Concluded> {
        visited.extend(without_recoveries(self.trace, &self.request));
        let (mut findings, mut summary) =
            together(visited, &self.request, self.request.is_part(self.shard));
        summary.interrupted |= failure.is_some();
        if let Some(results) = results.as_deref()
            && results.count() as u64 > summary.checked
        {
            // One that is continued was stopped before it had come to all that was known.
            (findings, summary) = so_far(results.directory(), results.manifest(), self.trace)?;
        }
        summary.untested = untested(&self.trace.run, &self.request.judge);
        summary.unlooked = unlooked;
        explain(self.trace, &self.request, &mut findings)?;
        if let Some(results) = results {
            results.finish(&findings, &summary, &summary.table())?;
        }
        Ok(Concluded {
            findings,
            summary,
            failure,
        })
    }

    /// Asks the check of what the other recordings left, as of that of the first one.
    fn ask_of_others(&self, subjects: MakeSubjects<'_, '_>, interrupt: &Interrupt) -> Result<()> {
        for other in &self.trace.others {
            let mut undamaged = Undamaged::of(other, &self.request.model)?;
            if undamaged.is_partial() {
                let Some(of_disks) = Undamaged::of_disks(other)? else {
                    campaign::say(&format!("{}: {NOT_ASKED}", once_more(other)));
                    continue;
                };
                undamaged = of_disks;
            }
            let Some(subject) = subjects(1)?.pop() else {
                return Ok(());
            };
            let asked = ask(&undamaged, subject, interrupt);
            asked.during(|| once_more(other))?;
        }
        Ok(())
    }

    /// Which states are visited, of so many of each kind.
    fn indices(&self, kinds: impl Iterator<Item = u64>) -> Result<Indices> {
        Indices::of(kinds, self.request.sample, self.request.seed)
    }

    /// Visits what a model allows.
    fn visit_calls(&self, subjects: MakeSubjects<'_, '_>, visit: Visit<'_>) -> Result<Visited> {
        let request = &self.request;
        let requests = request.of_calls(self.explore)?;
        let spaces = request.spaces_unless(self.explore, self.trace, &visit.before_states)?;
        let indices = self.indices(spaces.counts().into_iter().map(|(_, count)| count.states))?;
        self.announce(&spaces);
        let (name, count) = (&*request.model, indices.count);
        let (interrupt, patience) = (visit.control.interrupt, visit.patience());
        let subjects = visit.specified(subjects(visit.control.jobs)?);
        let trees = Trees::new(self.trace, &spaces);
        let (swept, watcher) = self.sweep(trees, name, indices, subjects, visit)?;
        let judged = Findings::new(self.trace, &spaces, name).in_time(patience);
        let explains = (!interrupt.requested()).then(|| self.is_whole(&swept));
        let findings = findings_of(&judged, &swept, &requests, explains);
        let seconds = watcher.finish()?;
        let summary = Summary::new(self.trace, name, &swept, count, findings.len(), seconds);
        Ok((findings, summary))
    }

    /// Visits what a model allows if the power fails again while the program recovers.
    fn visit_recoveries(
        &self,
        subjects: MakeSubjects<'_, '_>,
        visit: Visit<'_>,
    ) -> Result<Visited> {
        let recoveries = Recoveries::new(self.trace, &self.request)?;
        let indices = self.indices(recoveries.counts().into_iter().map(|count| count.states))?;
        self.announce_recoveries(recoveries.len());
        let (interrupt, patience) = (visit.control.interrupt, visit.patience());
        let subjects = visit.specified(subjects(visit.control.jobs)?);
        let (name, count) = (recoveries.name(), indices.count);
        let source = recoveries.source();
        let (swept, watcher) = self.sweep(source, &name, indices, subjects, visit)?;
        let explains = (!interrupt.requested()).then(|| (self.is_whole(&swept), patience));
        let findings = recoveries.findings(&swept, explains)?;
        let seconds = watcher.finish()?;
        let summary = Summary::new(self.trace, &name, &swept, count, findings.len(), seconds);
        Ok((findings, summary.of_recoveries(self.trace)))
    }

    /// Whether what was not found is known to be in none of the states.
    fn is_whole(&self, swept: &Swept) -> bool {
        let is_part = self.request.sample.is_some() || self.shard.is_some();
        !is_part && !swept.interrupted && !swept.is_over
    }

    fn announce(&self, spaces: &Spaces) {
        let mut kinds: HashMap<Relaxation, u64> = HashMap::new();
        for (_, count) in spaces.counts() {
            let states = kinds.entry(count.relaxation).or_default();
            *states = states.saturating_add(count.states);
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort();
        let kinds: Vec<_> = kinds
            .iter()
            .map(|(kind, states)| format!("{} {}", count_words(*states), relaxation_words(*kind)))
            .collect();
        campaign::say(&format!(
            "{} on {}: {}{}",
            crash_states_words(spaces.len()),
            self.request.model,
            kinds.join(", "),
            self.drawn_words(self.request.sample, spaces.len())
        ));
    }

    fn announce_recoveries(&self, count: u64) {
        campaign::say(&format!(
            "{} of {} on {}{}",
            crash_states_words(count),
            counted(self.trace.recoveries(false).count(), "recovery"),
            self.request.model,
            self.drawn_words(self.request.sample, count)
        ));
    }

    /// That only a sample is visited, if that is so.
    fn drawn_words(&self, sample: Option<u64>, of: u64) -> String {
        let drawn = sample.filter(|count| *count < of);
        drawn.map_or_else(String::new, |count| {
            format!("; visiting {count} of them, --seed {}", self.request.seed)
        })
    }

    /// Visits the states of the disks: those of the run, or of recoveries of their file systems.
    fn visit_disks(
        &self,
        recordings: &Recordings<'_>,
        subjects: MakeSubjects<'_, '_>,
        visit: Visit<'_>,
    ) -> Result<Visited> {
        // What is mounted to tell of findings is nobody else's, and goes with us.
        enter_mount_namespace()?;
        let blocks = recordings.source()?;
        let model = recordings.file_systems();
        let (sample, seed) = (self.request.sample_of_disks(), self.request.seed);
        let kinds = recordings.counts().into_iter().map(|count| count.states);
        let indices = Indices::of(kinds, sample, seed)?;
        let count = recordings.len();
        campaign::say(&format!(
            "{} of {}, {}{}",
            crash_states_words(count),
            recordings.words(),
            recordings.states(self.request.states),
            self.drawn_words(sample, count)
        ));
        if let Some(words) = recordings.fua_words() {
            campaign::say(&words);
        }
        let jobs = if blocks.one_at_a_time() {
            1
        } else {
            visit.control.jobs
        };
        let (subjects, count) = (subjects(jobs)?, indices.count);
        let (swept, watcher) = self.sweep(blocks, &model, indices, subjects, visit)?;
        let findings = recordings.findings(&swept, true)?;
        let seconds = watcher.finish()?;
        let summary = Summary::new(self.trace, &model, &swept, count, findings.len(), seconds);
        Ok((findings, summary.of_disks(self.trace, recordings)))
    }

    /// Has states looked at, which are called by what may be on the disks.
    fn sweep<'v>(
        &self,
        source: impl Source,
        name: &str,
        indices: Indices,
        subjects: Vec<Box<dyn Subject + '_>>,
        visit: Visit<'v>,
    ) -> Result<(Swept, Watcher<'v>)>
    where
        'a: 'v,
    {
        let interrupt = visit.control.interrupt;
        let (plan, mut watcher) = visit.begin(self, name, indices.count);
        let all = indices.all;
        let swept = sweep_source(source, all, subjects, &plan, interrupt, &mut watcher)?;
        Ok((swept, watcher))
    }
}

/// Whether the check is asked of what the run left before it accuses at a level. The disks have what
/// was not recorded.
fn is_shown(undamaged: &Undamaged, level: Level) -> bool {
    !level.is_of_disks() || !undamaged.is_partial()
}

/// What was found; with `explains`, which says whether all states were visited, also what would have
/// prevented each.
fn findings_of(
    judged: &Findings<'_>,
    swept: &Swept,
    requests: &[nodes::Request],
    explains: Option<bool>,
) -> Vec<Finding> {
    let findings = judged.of(swept);
    match explains {
        Some(is_whole) => judged.explain(findings, requests, is_whole),
        None => findings.into_iter().map(|(finding, _)| finding).collect(),
    }
}

/// Asks the check of what the run left, before the sweep. A cluster is started for that.
fn ask(undamaged: &Undamaged, subject: Box<dyn Subject + '_>, interrupt: &Interrupt) -> Result<()> {
    let bar = Mutex::new(campaign::Progress::of_activity("without a crash"));
    let tell = |asked: Asked| {
        let mut bar = bar.lock().expect("nobody panics with it");
        bar.note(&format!(
            "trying the check on what the run left, {} of {} tries done",
            asked.times, asked.of
        ));
    };
    let asked = undamaged.ask(subject, interrupt, &tell);
    bar.lock().expect("nobody panics with it").finish();
    asked
}

impl<'a> Visit<'a> {
    /// How long findings are explained: with a budget a little longer than that.
    fn patience(&self) -> Patience<'a> {
        Patience {
            interrupt: Some(self.control.interrupt),
            deadline: self.deadline.map(|deadline| deadline + EXPLAINED_FOR),
        }
    }

    /// What looks at states and holds them against the specifications as well.
    fn specified<'s>(&self, subjects: Vec<Box<dyn Subject + 's>>) -> Vec<Box<dyn Subject + 's>> {
        let subjects = subjects.into_iter();
        let subjects = subjects.map(|subject| Asking::also_if(self.asking, subject));
        subjects.collect()
    }

    /// Which of the states are looked at, and what keeps what is found. There are `count` in all.
    fn begin(self, what: &Requested<'a>, name: &str, count: u64) -> (Plan, Watcher<'a>) {
        let Self {
            results,
            level,
            begun,
            known,
            deadline,
            undamaged,
            asking,
            control,
            ..
        } = self;
        let plan = Plan {
            shard: what.shard,
            known,
            only_known: false,
            deadline,
            undamaged,
            is_sample: what.request.sample_at(level).is_some(),
        };
        let of = (name, count);
        let watcher = Watcher::new(
            results,
            (level, begun),
            control,
            what.trace,
            &plan.known,
            of,
        );
        let looked = asking.map(|asking| Arc::clone(asking.looked()));
        (plan, watcher.with_looked(looked))
    }
}

impl Merged {
    /// Sums up what was merged, of which everything is known.
    ///
    /// # Errors
    /// If the cluster file of the trace cannot be read, or the results cannot be written.
    pub fn sum_up(self, interrupt: &Interrupt) -> Result<Concluded> {
        let Self {
            mut results, trace, ..
        } = self;
        let explore = results.manifest().request.explore_of(&trace)?;
        let control = Control {
            jobs: 1,
            budget: None,
            stop_after: None,
            interrupt,
        };
        // There is nobody to look at anything.
        let what = Requested::of(&results, &trace, explore)?;
        what.run(Some(&mut results), &mut |_| Ok(Vec::new()), &control)
    }
}

/// Which recording it is, of those after the first.
fn once_more(other: &Trace) -> String {
    format!(
        "recorded once more, under the schedule {}",
        other.schedule()
    )
}

/// When the next of so many levels has had its part of the time that is left.
fn part_of_time(now: Instant, end: Instant, levels: usize) -> Instant {
    now + end.saturating_duration_since(now) / u32::try_from(levels).expect("they are few")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_part_of_the_time_and_the_last_one_all_that_is_left() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(part_of_time(now, at(10), 1), at(10));
        assert_eq!(part_of_time(now, at(10), 2), at(5));
        // The first one was done before, or was late.
        assert_eq!(part_of_time(at(2), at(10), 1), at(10));
        assert_eq!(part_of_time(at(12), at(10), 1), at(12));
    }
}
