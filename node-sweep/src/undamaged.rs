//! Whether a check can be believed: what it says of the state that no crash has touched.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use block_dev::Image;
use campaign::Interrupt;
use crash_images::{rebuild_after, requests};
use local_fs::Variant;
use pace_rules::disk::{Disk, Log, Relaxation, State};
use pace_rules::nodes::{self, micros};
use trace::Node;
use trace_store::{MOVES_BYTES, REFLINK, Trace};

use crate::check::{Complaint, Verdict};
use crate::disks::Disks;
use crate::error::{During as _, Error, Result};
use crate::mount_slot::{DiskImage, DiskState};
use crate::request::models_named;
use crate::starts::Turns;
use crate::states::{Acknowledgements, CrashState};
use crate::sweep::Subject;
use crate::tree::Tree;

/// So often it is asked before the sweep: a check that never says `ok` is refused at once.
const FIRST: u32 = 3;

/// So often it is asked in all, once a state was found broken. Of a check that fails now and then of
/// any state, 800 states give the most false findings if it does so in 3 of 100 cases: then it is
/// refused six times of seven, and is left with one false finding in nine sweeps.
const ALL: u32 = 60;

/// After so many states it is enough to have asked so often: whatever part of all states the check
/// fails of by chance, no more than one such sweep of nine has a false finding. Where the time is up
/// it is asked no more than that: few states accuse falsely less often than many.
const ENOUGH: [(u64, u32); 8] = [
    (1, 3),
    (5, 7),
    (10, 9),
    (20, 13),
    (50, 20),
    (100, 27),
    (200, 38),
    (500, 59),
];

/// So often it is asked with some nodes started before others, once a state was found broken in that
/// order. What an order alone breaks once in ten times is seen then in 96 cases of 100.
const IN_TURNS: u32 = 30;

/// So many of those may be inconclusive: a machine that was busy for a while says nothing of the
/// order. They are asked again.
const INCONCLUSIVE_IN_TURNS: u32 = 3;

/// What the nodes had when the run was over, with all that was acknowledged. A check must find it
/// `ok` each time: else what it says of a crash state means nothing.
#[derive(Debug)]
pub struct Undamaged {
    state: CrashState,
    /// How often it was asked of it.
    tries: Mutex<u32>,
    /// Whether the state lacks what was not recorded, as all crash states do.
    is_partial: bool,
    /// A call that is not followed, if the run has writes that were never made in place of it.
    made_up: Option<&'static str>,
    /// What the check complained of, if that may come from what was not recorded.
    complaint: OnceLock<String>,
    /// Why the check is refused, if it is.
    refused: OnceLock<String>,
    /// So many crash states were looked at, all together, and of each order in which nodes were
    /// started.
    states: Mutex<HashMap<Option<Turns>, u64>>,
    /// What it says if nodes are started so.
    in_turns: Mutex<HashMap<Turns, Arc<Mutex<InTurns>>>>,
}

/// So often a check said `ok` of what the run left, and nothing else: with the nodes started as ever,
/// and with some before others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sound(BTreeMap<Option<Turns>, u32>);

impl Sound {
    /// It said so that often. Whether that is more than was known.
    pub(crate) fn know(&mut self, turns: Option<Turns>, times: u32) -> bool {
        let known = self.0.entry(turns).or_default();
        let is_more = times > *known;
        *known = times.max(*known);
        is_more
    }

    /// With which nodes started before others, and how often.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Option<Turns>, u32)> {
        self.0.iter().map(|(turns, times)| (turns, *times))
    }
}

/// What a check says of what the run left, if some nodes are started before others.
#[derive(Debug, Default)]
struct InTurns {
    /// So often it said `ok`.
    sound: u32,
    /// So often it said nothing.
    inconclusive: u32,
    /// Why the order accuses nobody, if that is so.
    not: Option<String>,
}

/// Who asks a check of what the run left.
pub(crate) struct Asker<'a> {
    /// Ends it, and leaves open what is not known.
    pub(crate) interrupt: &'a Interrupt,
    /// Whether the time is up.
    pub(crate) is_over: &'a dyn Fn() -> bool,
    /// Is told how far it is.
    pub(crate) tell: &'a dyn Fn(Asked),
}

impl<'a> Asker<'a> {
    /// One with as much time as it takes.
    pub(crate) fn patient(interrupt: &'a Interrupt) -> Self {
        Self {
            interrupt,
            is_over: &|| false,
            tell: &|_| (),
        }
    }

    /// How often it is asked, if that would be `most` with time for it.
    fn wanted(&self, most: u32, states: u64) -> u32 {
        if (self.is_over)() {
            most.min(enough(states))
        } else {
            most
        }
    }

    fn tell(&self, times: u32, of: u32) {
        (self.tell)(Asked { times, of });
    }
}

/// How often a check was asked of what the run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// So often.
    pub times: u32,
    /// Of so often.
    pub of: u32,
}

/// How often is enough after so many states.
fn enough(states: u64) -> u32 {
    let row = ENOUGH.iter().find(|(most, _)| states <= *most);
    row.map_or(ALL, |(_, times)| *times)
}

impl Undamaged {
    /// That of a trace.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn of(trace: &Trace, model: &str) -> Result<Self> {
        Ok(Self {
            is_partial: !trace.about.not_recorded.is_empty(),
            made_up: [MOVES_BYTES, REFLINK]
                .into_iter()
                .find(|what| trace.about.not_recorded.contains_key(*what)),
            ..Self::showing(undamaged(trace, model)?)
        })
    }

    /// That of a trace whose nodes all had disks: these have what was not recorded of the calls, too.
    /// None if nobody recorded what came to the disks after the run.
    ///
    /// # Errors
    /// If a file system of a disk is not known here.
    pub(crate) fn of_disks(trace: &Trace) -> Result<Option<Self>> {
        Ok(whole_disks(trace)?.map(Self::showing))
    }

    fn showing(state: CrashState) -> Self {
        Self {
            state,
            tries: Mutex::default(),
            is_partial: false,
            made_up: None,
            complaint: OnceLock::new(),
            refused: OnceLock::new(),
            states: Mutex::default(),
            in_turns: Mutex::default(),
        }
    }

    /// Whether the state lacks what was not recorded.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The check said this before.
    pub(crate) fn know(&self, sound: &Sound) {
        let mut in_turns = self.in_turns.lock().expect("nobody panics with it");
        for (turns, times) in sound.iter() {
            if let Some(turns) = turns {
                let of_turns = in_turns.entry(turns.clone()).or_default();
                let mut known = of_turns.lock().expect("nobody panics with it");
                known.sound = known.sound.max(times);
            } else {
                let mut tries = self.tries.lock().expect("nobody panics with it");
                *tries = (*tries).max(times);
            }
        }
    }

    /// How often the check said `ok` of it, as far as it was asked more often than before each sweep
    /// and said nothing else.
    pub(crate) fn sound(&self) -> Sound {
        let mut sound = Sound::default();
        let is_believed = self.refused.get().is_none() && self.complaint.get().is_none();
        let tries = *self.tries.lock().expect("nobody panics with it");
        if is_believed && tries > FIRST {
            sound.know(None, tries);
        }
        for (turns, known) in &*self.in_turns.lock().expect("nobody panics with it") {
            let known = known.lock().expect("nobody panics with it");
            if known.not.is_none() && known.sound > 0 {
                sound.know(Some(turns.clone()), known.sound);
            }
        }
        sound
    }

    /// Counts a crash state that was looked at, with nodes started so.
    pub(crate) fn count(&self, turns: Option<&Turns>) {
        let mut states = self.states.lock().expect("nobody panics with it");
        for of in [None, turns] {
            *states.entry(of.cloned()).or_default() += 1;
            if turns.is_none() {
                break;
            }
        }
    }

    fn states(&self, turns: Option<&Turns>) -> u64 {
        let states = self.states.lock().expect("nobody panics with it");
        states.get(&turns.cloned()).copied().unwrap_or_default()
    }

    /// A verdict of a crash state, which accuses nobody if the check complains of what was not
    /// recorded, too.
    pub(crate) fn temper(&self, verdict: Verdict) -> Verdict {
        match (verdict, self.complaint.get(), self.made_up) {
            (Verdict::Broken(_), Some(complaint), _) => Verdict::Inconclusive(format!(
                "not all calls of the run were recorded, and without those the check does not say `ok` even where \
                 nothing was lost: {complaint}"
            )),
            (Verdict::Broken(complaint), None, Some(what)) => {
                let words = complaint.words.join("; ");
                Verdict::Inconclusive(format!(
                    "{what} is not followed, and states have it as single writes, which no crash leaves: try \
                     --disk and --level block: {words}"
                ))
            }
            (Verdict::Broken(complaint), None, None) => {
                // One that is broken each time needs nothing to be compared with.
                let tries = *self.tries.lock().expect("nobody panics with it");
                let ok_without_crash = complaint.tries.map(|_| tries);
                Verdict::Broken(Complaint {
                    ok_without_crash,
                    ..complaint
                })
            }
            (verdict, ..) => verdict,
        }
    }

    /// Asks before a sweep, on a thread of its own: who looks at a state may have its thread see
    /// mounts of its own.
    ///
    /// # Errors
    /// If the check does not say `ok` each time.
    pub(crate) fn ask(
        &self,
        mut subject: Box<dyn Subject + '_>,
        interrupt: &Interrupt,
        tell: &(dyn Fn(Asked) + Sync),
    ) -> Result<()> {
        let ask = || {
            let asker = Asker {
                tell,
                ..Asker::patient(interrupt)
            };
            self.ask_until(FIRST, &mut *subject, &asker)
        };
        thread::scope(|scope| scope.spawn(ask).join().expect("it does not panic"))?;
        Ok(())
    }

    /// Asks more often, once a sweep: who else wants to waits for that. Says whether it is known
    /// then: an interrupt leaves it open.
    ///
    /// # Errors
    /// If the check does not say `ok` each time.
    pub(crate) fn ask_more(&self, subject: &mut dyn Subject, asker: &Asker<'_>) -> Result<bool> {
        self.ask_until(ALL, subject, asker)
    }

    /// A verdict of a crash state on which nodes were started so. An order in which the check does
    /// not say `ok` of what the run left without a crash accuses nobody.
    ///
    /// # Errors
    /// If nothing can be looked at here at all.
    pub(crate) fn temper_in_turns(
        &self,
        verdict: Verdict,
        turns: &Turns,
        subject: &mut dyn Subject,
        asker: &Asker<'_>,
    ) -> Result<Verdict> {
        let of_turns = {
            let mut all = self.in_turns.lock().expect("nobody panics with it");
            Arc::clone(all.entry(turns.clone()).or_default())
        };
        let mut known = of_turns.lock().expect("nobody panics with it");
        let is_known = self.ask_in_turns(turns, &mut known, subject, asker)?;
        Ok(match &known.not {
            Some(said) => Verdict::Inconclusive(format!(
                "with the nodes started in this order the check does not say `ok` even where nothing was lost: use \
                 `after` in the cluster file, or --starts together: {said}"
            )),
            None if is_known => verdict,
            None => Verdict::Inconclusive("interrupted".into()),
        })
    }

    /// Whether the check says `ok` each time if nodes are started so.
    ///
    /// # Errors
    /// If nothing can be looked at here at all.
    pub(crate) fn survives(
        &self,
        turns: &Turns,
        subject: &mut dyn Subject,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let broken = Verdict::Broken(Complaint::default());
        let verdict = self.temper_in_turns(broken, turns, subject, &Asker::patient(interrupt))?;
        Ok(matches!(verdict, Verdict::Broken(_)))
    }

    /// Asks the check of what the run left, and says whether it is known then: an interrupt leaves
    /// it open.
    fn ask_in_turns(
        &self,
        turns: &Turns,
        known: &mut InTurns,
        subject: &mut dyn Subject,
        asker: &Asker<'_>,
    ) -> Result<bool> {
        let state = CrashState {
            turns: Some(turns.clone()),
            ..self.state.clone()
        };
        let states = self.states(Some(turns));
        while known.not.is_none() && known.sound < asker.wanted(IN_TURNS, states) {
            asker.tell(known.sound, IN_TURNS);
            let verdict = subject.judge(&state, known.sound + known.inconclusive > 0)?;
            if asker.interrupt.requested() {
                return Ok(false);
            }
            match verdict {
                Verdict::Ok => known.sound += 1,
                Verdict::Broken(complaint) => {
                    known.not = Some(format!("broken {}", complaint.words.join("; ")));
                }
                Verdict::Inconclusive(why) if known.inconclusive == INCONCLUSIVE_IN_TURNS => {
                    known.not = Some(why);
                }
                Verdict::Inconclusive(_) => known.inconclusive += 1,
            }
        }
        Ok(true)
    }

    /// What the check says, if nobody interrupts.
    fn ask_once(
        &self,
        again: bool,
        subject: &mut dyn Subject,
        interrupt: &Interrupt,
    ) -> Result<Option<Verdict>> {
        if interrupt.requested() {
            return Ok(None);
        }
        let verdict = subject.judge(&self.state, again);
        if interrupt.requested() {
            return Ok(None);
        }
        verdict.map(Some)
    }

    fn ask_until(&self, most: u32, subject: &mut dyn Subject, asker: &Asker<'_>) -> Result<bool> {
        let wanted = || asker.wanted(most, self.states(None));
        let mut tries = self.tries.lock().expect("nobody panics with it");
        if self.complaint.get().is_some() {
            // Nothing accuses any more.
            return Ok(true);
        }
        if let Some(words) = self.refused.get() {
            return Err(Error::NotOk(words.clone()));
        }
        let mut said: Vec<String> = Vec::new();
        // Whether it was asked often enough. How often that is may be more as soon as it is not asked here.
        let is_known = loop {
            if *tries >= wanted() {
                break Ok(true);
            }
            asker.tell(*tries, most);
            let verdict = match self.ask_once(*tries > 0, subject, asker.interrupt) {
                Ok(Some(verdict)) => verdict,
                Ok(None) => break Ok(false),
                Err(error) => break Err(error),
            };
            *tries += 1;
            said.extend(not_ok(verdict));
        };
        // What it said before counts all the same.
        match said.first() {
            None => is_known,
            Some(first) => {
                let is_remembered = self.remember(first, said.len(), *tries)?;
                is_known.map(|_| is_remembered)
            }
        }
    }

    /// Remembers what the check said of what the run left, in so many of all tries. Says whether it
    /// is known then.
    fn remember(&self, first: &str, times: usize, tries: u32) -> Result<bool> {
        if self.is_partial {
            self.complaint.get_or_init(|| first.to_owned());
            return Ok(true);
        }
        let words = format!(
            "the check must say `ok` of what the run left without a crash; {times} of {tries} times it did not: {first}"
        );
        // Nor does it accuse for anybody who waited meanwhile.
        Err(Error::NotOk(self.refused.get_or_init(|| words).clone()))
    }
}

/// What a check said in place of `ok`.
fn not_ok(verdict: Verdict) -> Option<String> {
    match verdict {
        Verdict::Ok => None,
        Verdict::Broken(complaint) => Some(format!("broken {}", complaint.words.join("; "))),
        Verdict::Inconclusive(why) => Some(why),
    }
}

/// What the directories of a run hold when all that the nodes did is on their disks: of each node
/// that has one.
///
/// # Errors
/// If there is no such model, or a node did more than can be numbered.
pub fn left_behind(trace: &Trace, model: &str) -> Result<Vec<Tree>> {
    // All of it is the same on any.
    let model = models_named(model)?[0];
    let nodes = trace.run.nodes.iter().enumerate();
    let with_directory = nodes.filter(|(_, node)| !node.initial.is_empty());
    let of_node = |(number, node): (usize, &Node)| {
        let micros = micros(node, model).ok_or(nodes::Error::TooLong(number))?;
        Ok(Disks::new(Tree::initial(&node.initial, trace), micros.into()).last(trace))
    };
    with_directory.map(of_node).collect()
}

/// The state of which nothing is missing: all that the nodes did, and all that was acknowledged.
///
/// # Errors
/// Like [`left_behind`], or if no file system would show such directories.
pub fn undamaged(trace: &Trace, model: &str) -> Result<CrashState> {
    let mut hasher = blake3::Hasher::new();
    let mut disks = Vec::new();
    for tree in left_behind(trace, model)? {
        hasher.update(
            &tree
                .fingerprint()
                .during(|| "make the directory that the run left".into())?,
        );
        disks.push(DiskState::Tree(tree));
    }
    Ok(CrashState::new(
        disks,
        hasher,
        all_acknowledged(trace),
        None,
    ))
}

/// The same of disks, after their file systems were unmounted.
fn whole_disks(trace: &Trace) -> Result<Option<CrashState>> {
    let mut hasher = blake3::Hasher::new();
    let mut disks = Vec::new();
    let nodes = trace.run.nodes.iter();
    for disk in nodes.filter_map(|node| trace.disks.get(&node.name)) {
        let Some(after) = &disk.after else {
            return Ok(None);
        };
        let mut content = Image::new(Arc::clone(&disk.base));
        for log in [&disk.log, after] {
            let before = content.clone();
            let rules = Log::new(&requests(log), 0, Disk::Honest);
            let all = State {
                position: rules.len(),
                relaxation: Relaxation::Prefix,
            };
            rebuild_after(&mut content, &before, log, &rules, &all);
        }
        hasher.update(&content.hash().0.to_le_bytes());
        disks.push(DiskState::Disk(Arc::new(DiskImage {
            content,
            variant: Variant::for_programs(&disk.file_system)?,
            directory: disk.directory.clone(),
        })));
    }
    let acknowledged = all_acknowledged(trace);
    Ok(Some(CrashState::new(disks, hasher, acknowledged, None)))
}

/// All that was acknowledged in a run.
fn all_acknowledged(trace: &Trace) -> Arc<[u8]> {
    let nodes = trace.run.nodes.iter();
    let everything: Vec<_> = nodes.map(|node| node.events.len()).collect();
    Acknowledgements::of(&trace.run, trace).before(&everything, trace)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    use std::{io, mem};

    use trace::Run;

    use super::*;
    use crate::sweep::{Made, Plan, Source, sweep_source};
    use crate::tree::Fingerprint;

    /// Says of the states that it is asked of one verdict after the other, and `ok` after that.
    struct Says(Vec<Verdict>);

    impl Subject for Says {
        fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
            Ok(self.0.pop().unwrap_or(Verdict::Ok))
        }
    }

    fn broken() -> Verdict {
        Verdict::Broken(vec!["an entry is lost".to_owned()].into())
    }

    fn busy() -> Verdict {
        Verdict::Inconclusive("the check took longer than 30 s".into())
    }

    /// Whether a violation in an order of starts is believed, if this is said of what the run left.
    fn believes(said: Vec<Verdict>) -> bool {
        let undamaged = Undamaged::of(&Trace::default(), "posix").expect("a state");
        let turns = Turns {
            first: vec![0],
            later: vec![1],
        };
        let survives = undamaged.survives(&turns, &mut Says(said), &Interrupt::default());
        survives.expect("it is asked")
    }

    #[test]
    fn an_order_that_breaks_what_lost_nothing_accuses_nobody() {
        assert!(believes(Vec::new()));
        assert!(!believes(vec![broken()]));
        let late = [vec![broken()], vec![Verdict::Ok; IN_TURNS as usize - 1]].concat();
        assert!(!believes(late));
    }

    #[test]
    fn a_machine_that_was_busy_for_a_while_does_not_discard_an_order() {
        assert!(believes(vec![busy(); INCONCLUSIVE_IN_TURNS as usize]));
        assert!(!believes(vec![busy(); INCONCLUSIVE_IN_TURNS as usize + 1]));
    }

    #[test]
    fn a_try_that_says_nothing_is_made_again() {
        let sound = vec![Verdict::Ok; IN_TURNS as usize - 1];
        assert!(!believes([vec![broken()], sound, vec![busy()]].concat()));
    }

    #[test]
    fn where_nothing_accuses_any_more_the_check_is_asked_no_more() {
        let mut trace = Trace::default();
        trace.about.not_recorded.insert("chown".into(), 1);
        let undamaged = Undamaged::of(&trace, "posix").expect("a state");
        let mut says = Says(vec![broken(); 100]);
        let interrupt = Interrupt::default();
        let asker = Asker::patient(&interrupt);
        undamaged.ask_more(&mut says, &asker).expect("asked");
        let left = says.0.len();
        assert!(left < 100);
        undamaged.ask_more(&mut says, &asker).expect("asked");
        assert_eq!(says.0.len(), left);
        assert!(matches!(
            undamaged.temper(broken()),
            Verdict::Inconclusive(_)
        ));
    }

    /// Interrupts after some tries that say `ok`.
    struct Interrupts(u32, Interrupt);

    impl Subject for Interrupts {
        fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
            self.0 -= 1;
            if self.0 == 0 {
                self.1.request();
            }
            Ok(Verdict::Ok)
        }
    }

    #[test]
    fn an_interrupt_leaves_open_what_the_check_says_of_the_undamaged_state() {
        let undamaged = Undamaged::of(&Trace::default(), "posix").expect("a state");
        let interrupt = Interrupt::default();
        let mut subject = Interrupts(5, interrupt.clone());
        let asker = Asker::patient(&interrupt);
        let is_known = undamaged.ask_more(&mut subject, &asker).expect("asked");
        assert!(!is_known);
        let interrupt = Interrupt::default();
        let asker = Asker::patient(&interrupt);
        let mut says = Says(Vec::new());
        let is_known = undamaged.ask_more(&mut says, &asker).expect("asked");
        assert!(is_known);
    }

    #[test]
    fn an_interrupt_does_not_make_a_check_sound_that_failed_before() {
        let undamaged = Undamaged::of(&Trace::default(), "posix").expect("a state");
        let interrupt = Interrupt::default();
        let mut subject = Flaky(vec![broken(), Verdict::Ok], interrupt.clone());
        let asked = undamaged.ask_more(&mut subject, &Asker::patient(&interrupt));
        assert!(matches!(asked, Err(Error::NotOk(_))), "{asked:?}");
        assert_eq!(undamaged.sound(), Sound::default());
    }

    /// Says one after the other, and interrupts then.
    struct Flaky(Vec<Verdict>, Interrupt);

    impl Subject for Flaky {
        fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
            Ok(self.0.pop().unwrap_or_else(|| {
                self.1.request();
                Verdict::Ok
            }))
        }
    }

    /// Says that something is broken, and then cannot be asked.
    struct Short(bool);

    impl Subject for Short {
        fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
            if mem::replace(&mut self.0, true) {
                return Err(Error::System {
                    doing: "make a directory".into(),
                    error: io::ErrorKind::StorageFull.into(),
                });
            }
            Ok(broken())
        }
    }

    #[test]
    fn a_machine_that_is_short_of_something_does_not_make_a_check_sound_that_failed_before() {
        let undamaged = Undamaged::of(&Trace::default(), "posix").expect("a state");
        let interrupt = Interrupt::default();
        let asked = undamaged.ask_more(&mut Short(false), &Asker::patient(&interrupt));
        assert!(matches!(asked, Err(Error::NotOk(_))), "{asked:?}");
        assert_eq!(undamaged.sound(), Sound::default());
    }

    /// Counts how often it is asked.
    #[derive(Default)]
    struct Counts(u32);

    impl Subject for Counts {
        fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
            self.0 += 1;
            Ok(Verdict::Ok)
        }
    }

    #[test]
    fn once_the_time_is_up_the_check_is_asked_as_often_as_the_states_call_for() {
        let turns = Turns {
            first: vec![0],
            later: vec![1],
        };
        let undamaged = Undamaged::of(&Trace::default(), "posix").expect("a state");
        for number in 0..20 {
            undamaged.count((number < 5).then_some(&turns));
        }
        let interrupt = Interrupt::default();
        let told = std::cell::Cell::new(0);
        let hurried = Asker {
            interrupt: &interrupt,
            is_over: &|| true,
            tell: &|_| told.set(told.get() + 1),
        };
        let mut counts = Counts::default();
        assert!(undamaged.ask_more(&mut counts, &hurried).expect("asked"));
        assert_eq!((counts.0, told.get()), (13, 13));
        let believed = undamaged
            .temper_in_turns(broken(), &turns, &mut counts, &hurried)
            .expect("asked");
        assert!(matches!(believed, Verdict::Broken(_)));
        assert_eq!(counts.0, 13 + 7);
        // With time for it, it is asked the rest.
        let patient = Asker::patient(&interrupt);
        undamaged.ask_more(&mut counts, &patient).expect("asked");
        assert_eq!(counts.0, ALL + 7);
        undamaged
            .temper_in_turns(broken(), &turns, &mut counts, &patient)
            .expect("asked");
        assert_eq!(counts.0, ALL + IN_TURNS);
    }

    #[test]
    fn states_of_writes_that_were_never_made_accuse_nobody() {
        for (what, accuses) in [(MOVES_BYTES, false), (REFLINK, false), ("chown", true)] {
            let mut trace = Trace::default();
            trace.about.not_recorded.insert(what.into(), 1);
            let undamaged = Undamaged::of(&trace, "posix").expect("a state");
            let interrupt = Interrupt::default();
            let asker = Asker::patient(&interrupt);
            undamaged
                .ask_more(&mut Says(Vec::new()), &asker)
                .expect("asked");
            let is_broken = matches!(undamaged.temper(broken()), Verdict::Broken(_));
            assert_eq!(is_broken, accuses, "{what}");
        }
    }

    #[test]
    fn an_order_that_was_tried_before_is_tried_only_as_often_as_is_missing() {
        let turns = |first, later| Turns {
            first: vec![first],
            later: vec![later],
        };
        let orders = [turns(0, 1), turns(1, 0), turns(2, 0)];
        let interrupt = Interrupt::default();
        let first = Undamaged::of(&Trace::default(), "posix").expect("a state");
        let asker = Asker::patient(&interrupt);
        first
            .ask_more(&mut Says(Vec::new()), &asker)
            .expect("asked");
        let survives = |undamaged: &Undamaged, order: &Turns, subject: &mut dyn Subject| {
            undamaged
                .survives(order, subject, &interrupt)
                .expect("asked")
        };
        assert!(survives(&first, &orders[0], &mut Says(Vec::new())));
        // What was said against an order is not kept: it is tried again.
        assert!(!survives(&first, &orders[1], &mut Says(vec![broken()])));
        let sound = first.sound();
        let mut expected = Sound::default();
        expected.know(None, ALL);
        expected.know(Some(orders[0].clone()), IN_TURNS);
        assert_eq!(sound, expected);

        let second = Undamaged::of(&Trace::default(), "posix").expect("a state");
        expected.know(Some(orders[2].clone()), 12);
        second.know(&expected);
        for (order, asked) in orders.iter().zip([0, IN_TURNS, IN_TURNS - 12]) {
            let mut counts = Counts::default();
            assert!(survives(&second, order, &mut counts));
            assert_eq!(counts.0, asked, "{order:?}");
        }
    }

    /// States that all differ.
    struct Different;

    impl Source for Different {
        fn runs(&self) -> Vec<&Run> {
            Vec::new()
        }

        fn make(&mut self, index: u64) -> Made {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&index.to_le_bytes());
            Made {
                size: Default::default(),
                run: 0,
                cut: Vec::new(),
                state: Ok(CrashState::new(Vec::new(), hasher, Arc::default(), None)),
            }
        }
    }

    /// Finds each crash state broken, and that after the time is up.
    struct Late {
        deadline: Instant,
        undamaged: Fingerprint,
        asked: Arc<AtomicU32>,
    }

    impl Subject for Late {
        fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
            if state.key == self.undamaged {
                self.asked.fetch_add(1, Ordering::Relaxed);
                return Ok(Verdict::Ok);
            }
            while Instant::now() < self.deadline {
                thread::yield_now();
            }
            Ok(broken())
        }
    }

    #[test]
    fn a_sweep_whose_time_is_up_asks_only_what_is_enough() {
        // On a busy machine the time may be up before anything is begun.
        let looked_at = |within_ms: &u64| time_is_up_after(Duration::from_millis(*within_ms)) > 0;
        assert!([50, 500, 5000].iter().any(looked_at));
    }

    /// How many states were looked at, each of which is broken.
    fn time_is_up_after(within: Duration) -> usize {
        let undamaged = Undamaged::of(&Trace::default(), "posix").expect("a state");
        let (asked, deadline) = (Arc::default(), Instant::now() + within);
        let subject = Late {
            deadline,
            undamaged: undamaged.state.key,
            asked: Arc::clone(&asked),
        };
        let plan = Plan {
            deadline: Some(deadline),
            undamaged: Some(Arc::new(undamaged)),
            ..Plan::default()
        };
        let subjects: Vec<Box<dyn Subject>> = vec![Box::new(subject)];
        let interrupt = Interrupt::default();
        let swept = sweep_source(Different, 0..9, subjects, &plan, &interrupt, &mut ());
        let swept = swept.expect("swept");
        assert!(swept.is_over);
        if !swept.broken.is_empty() {
            assert_eq!(swept.broken.len(), 1, "{swept:?}");
            assert_eq!(asked.load(Ordering::Relaxed), enough(1));
        }
        swept.broken.len()
    }

    /// How likely a state is taken for broken of which the check says so with this chance.
    fn accused(chance: f64) -> f64 {
        // By how often it was seen, in so many tries: once, in the first.
        let mut open = vec![0.0, chance];
        let (mut tries, mut accused) = (1, 0.0);
        for (wanted, most) in crate::sweep::OFTEN_ENOUGH {
            while tries < most {
                tries += 1;
                let mut next = vec![0.0; open.len() + 1];
                for (seen, likely) in open.iter().enumerate() {
                    next[seen] += likely * (1.0 - chance);
                    if seen + 1 >= wanted as usize {
                        accused += likely * chance;
                    } else {
                        next[seen + 1] += likely * chance;
                    }
                }
                open = next;
            }
        }
        accused
    }

    #[test]
    fn so_often_is_enough_that_few_sweeps_accuse_falsely() {
        for (states, times) in ENOUGH {
            let false_finding = |chance: f64| {
                let none_accused = (1.0 - accused(chance)).powf(states as f64);
                (1.0 - none_accused) * (1.0 - chance).powi(times as i32)
            };
            let worst = (1..1000).map(|part| false_finding(f64::from(part) / 1000.0));
            let worst = worst.fold(0.0, f64::max);
            assert!(worst < 1.0 / 9.0, "{states} states: {worst}");
            // And not needlessly often.
            assert!(worst > 0.07, "{states} states: {worst}");
        }
    }
}
