//! Whether a finding is gone once some calls are made.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pace_rules::nodes::{Member, Request, Space, State};
use trace::{Action, Event, FileId, FileOp, Run, SyncScope};

use super::candidates::Candidate;
use crate::findings::{AlikeStates, Findings};
use crate::states::{CrashState, States};
use crate::tree::Fingerprint;

/// Asks the rules what is left of findings in runs with more calls.
pub(crate) struct Confirmer<'f> {
    findings: &'f Findings<'f>,
    /// The states of the sweep: their keys, by what their disks hold. None if they are too many.
    known: Option<HashMap<Fingerprint, HashSet<Fingerprint>>>,
    /// So many states may still be made.
    left: u64,
    /// Something could not be told within that, or in time.
    is_cut_short: bool,
}

/// What must not be left.
pub(super) struct Left {
    /// The keys of states.
    pub(super) keys: HashSet<Fingerprint>,
    /// What their disks hold.
    disks: HashSet<Fingerprint>,
}

impl<'f> Confirmer<'f> {
    /// One that makes no more states than these to know those of the sweep.
    pub(crate) fn new(findings: &'f Findings<'f>, left: u64) -> Self {
        let mut this = Self {
            findings,
            known: None,
            left,
            is_cut_short: false,
        };
        this.known = this.states_of_sweep();
        this
    }

    /// Turns to another finding, for which no more states are made than these.
    pub(crate) fn begin(&mut self, left: u64) {
        self.left = left;
        self.is_cut_short = false;
    }

    /// Whether something was not told of this finding, since it would take too many states or the time
    /// was up.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    fn states_of_sweep(&mut self) -> Option<HashMap<Fingerprint, HashSet<Fingerprint>>> {
        let mut known: HashMap<_, HashSet<_>> = HashMap::new();
        let findings = self.findings;
        for Member { space, .. } in findings.spaces()?.members() {
            let is_told = self.each(&findings.trace.run, space, &mut |_, _, state| {
                known.entry(state.left_key).or_default().insert(state.key);
                true
            });
            if !is_told {
                return None;
            }
        }
        Some(known)
    }

    /// What must not be left of states that are alike; none if that is not known.
    pub(super) fn left_of(&mut self, alike: &AlikeStates) -> Option<Left> {
        let AlikeStates { contents, besides } = alike;
        self.is_cut_short |= self.known.is_none();
        let known = self.known.as_ref()?.iter();
        let with_alike = known.filter(|(_, keys)| !keys.is_disjoint(contents));
        Some(Left {
            keys: contents.union(besides).copied().collect(),
            disks: with_alike.map(|(disks, _)| *disks).collect(),
        })
    }

    /// Whether nothing of it is left in the run with these calls, at whichever of their places they
    /// are made; no if it would take too many states to tell.
    pub(super) fn forbids(&mut self, syncs: &[Candidate], request: &Request, left: &Left) -> bool {
        let places = syncs.iter().map(|sync| sync.places.len()).max();
        // The last places first: most of what does not help does not help there.
        (0..places.unwrap_or_default()).all(|place| {
            let run = with(&self.findings.trace.run, syncs, place);
            let space = Space::unless(&run, request, &|| self.findings.patience.is_over());
            self.is_cut_short |= self.findings.patience.is_over();
            space.is_ok_and(|space| self.has_none(&run, &space, left))
        })
    }

    /// With the call the crash of a state may come earlier, before something was acknowledged. Nobody
    /// has looked at such a state: what it lost may break it all the same, unless it is as if nothing
    /// were lost.
    fn has_none(&mut self, run: &Run, space: &Space, left: &Left) -> bool {
        let known = self.known.take().expect("else nothing is asked");
        let is_told = self.each(run, space, &mut |states, at, state| {
            let is_known = || known[&state.left_key].contains(&state.key);
            let is_gone = !left.disks.contains(&state.left_key) || is_known();
            let is_allowed = is_gone || is_in_flight(run, space, at) || is_whole(states, at, state);
            !left.keys.contains(&state.key) && is_allowed
        });
        self.known = Some(known);
        is_told
    }

    /// Makes all states of a space, as long as `look` returns `true`. Says whether it did for all.
    fn each(
        &mut self,
        run: &Run,
        space: &Space,
        look: &mut dyn FnMut(&mut States<'_>, &State, &CrashState) -> bool,
    ) -> bool {
        if space.len() > self.left {
            self.is_cut_short = true;
            return false;
        }
        let mut states = States::new(run, space, self.findings.trace);
        (0..space.len()).all(|index| {
            self.left -= 1;
            let state = space.state(index);
            let made = states.make(&state);
            let is_passed = made.map_or(true, |made| look(&mut states, &state, &made));
            let is_over = self.findings.patience.is_over();
            self.is_cut_short |= is_over;
            is_passed && !is_over
        })
    }
}

/// Whether a crash came while what is missing was done, before anything else was: no sync helps
/// against that, nor is it what a sync is for.
fn is_in_flight(run: &Run, space: &Space, state: &State) -> bool {
    let mut nodes = run.nodes.iter().enumerate().zip(&state.nodes);
    nodes.all(|((number, node), kept)| {
        let micros = space.micros(number);
        let Some(first) = kept.lost.first().map(|lost| micros[*lost].event) else {
            return true;
        };
        let is_lost = |micro: usize| kept.lost.binary_search(&micro).is_ok();
        let kept = (0..kept.micros).filter(|micro| !is_lost(*micro));
        let kept: HashSet<_> = kept.map(|micro| micros[micro].event).collect();
        let is_after = |event: usize| match &node.events[event].action {
            Action::Mark { .. } | Action::Send(_) => true,
            _ => kept.contains(&event),
        };
        !(first + 1..state.cut[number]).any(is_after)
    })
}

/// Whether the disks of a state hold what they would if nothing were lost.
fn is_whole(states: &mut States<'_>, state: &State, made: &CrashState) -> bool {
    let mut whole = state.clone();
    for kept in &mut whole.nodes {
        kept.lost.clear();
    }
    let whole = states.make(&whole);
    whole.is_ok_and(|whole| whole.left_key == made.left_key)
}

/// The run as it would have been with these calls, each at that of its places which has so many of
/// them behind it, or at the first.
fn with(run: &Run, syncs: &[Candidate], behind: usize) -> Run {
    let mut run = run.clone();
    let at = |sync: &Candidate| {
        let last = sync.places.len() - 1;
        sync.places[last - behind.min(last)]
    };
    let mut syncs: Vec<_> = syncs.iter().map(|sync| (at(sync), sync)).collect();
    // From the last, so that the places of the others stay what they are.
    syncs.sort_by_key(|(place, sync)| std::cmp::Reverse((sync.node, *place)));
    for (place, sync) in syncs {
        let events = &mut run.nodes[sync.node].events;
        events.insert(place, fsync(events, place, sync.file));
    }
    run
}

/// A call between the event before a place and the one that is there, in the thread of that.
fn fsync(events: &[Event], place: usize, file: FileId) -> Event {
    let (last, next) = (place.checked_sub(1), events.get(place));
    let beside = next
        .or_else(|| events.last())
        .expect("it follows something");
    let began = last.map_or(0, |last| events[last].end_ns + 1);
    let at = next.map_or(began, |next| began.min(next.end_ns));
    let scope = SyncScope::File;
    Event {
        start_ns: at,
        end_ns: at,
        process: beside.process,
        thread: beside.thread,
        call: Arc::from("fsync"),
        stack: 0,
        action: Action::File(FileOp::Sync { file, scope }),
    }
}
