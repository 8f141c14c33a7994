//! What nodes asked of their file systems, made less.

use pace_rules::nodes::{Histories, Request, Space, Spaces, State};

use super::{Lessen, Missing, alone};
use crate::check::Complaint;
use crate::error::Result;
use crate::finding::Finding;
use crate::findings::{AlikeStates, Findings};
use crate::states::{CrashState, States};
use crate::tree::Impossible;

/// The states of a model's space, and those beside it that a crash can leave too.
pub(super) struct Calls<'a> {
    space: &'a Space,
    /// Of all models that were asked for.
    requests: Vec<Request>,
    findings: Findings<'a>,
    states: States<'a>,
    /// When events of any node returned, ascending.
    times_ns: Vec<u64>,
}

impl<'a> Calls<'a> {
    /// `findings` are of the model of the space.
    pub(super) fn new(findings: Findings<'a>, space: &'a Space, requests: Vec<Request>) -> Self {
        let trace = findings.trace;
        let events = trace.run.nodes.iter().flat_map(|node| &node.events);
        let mut times_ns: Vec<_> = events.map(|event| event.end_ns).collect();
        times_ns.sort_unstable();
        times_ns.dedup();
        let spaces = findings.spaces();
        let histories = spaces.map_or_else(Histories::default, Spaces::histories);
        Self {
            space,
            requests,
            findings,
            states: States::new(&trace.run, space, trace).with_histories(histories),
            times_ns,
        }
    }

    fn allowed(&self, state: State) -> Option<State> {
        let state = self.space.named(state);
        self.space.allows(&state).then_some(state)
    }
}

impl Lessen for Calls<'_> {
    type State = State;

    fn missing(&self, state: &State) -> Vec<Missing> {
        let of_node = |node: usize| {
            let missing = move |what, in_part| Missing {
                node,
                what,
                in_part,
            };
            let lost = self.findings.missing_events(state, node).into_iter();
            let begun = self.findings.begun(state, node);
            lost.map(move |event| missing(event, false))
                .chain(begun.map(|event| missing(event, true)))
        };
        (0..state.nodes.len()).flat_map(of_node).collect()
    }

    fn with_missing(&self, state: &State, missing: &[Missing]) -> Option<State> {
        let mut less = state.clone();
        for node in 0..state.nodes.len() {
            let is_due = |what, in_part| {
                missing.contains(&Missing {
                    node,
                    what,
                    in_part,
                })
            };
            let micros = self.space.micros(node);
            let lost = &mut less.nodes[node].lost;
            lost.retain(|micro| is_due(micros[*micro].event, false));
            if let Some(begun) = self
                .findings
                .begun(state, node)
                .filter(|begun| !is_due(*begun, true))
            {
                less = self.findings.crashed_at(&less, node, begun, 0);
            }
        }
        self.allowed(less)
    }

    fn events(&self, state: &State) -> usize {
        state.cut.iter().sum()
    }

    fn moments(&self, state: &State) -> usize {
        let nodes = self.findings.trace.run.nodes.iter().zip(&state.cut);
        let last = nodes.filter_map(|(node, cut)| Some(node.events[..*cut].last()?.end_ns));
        let last = last.max().unwrap_or_default();
        self.times_ns.partition_point(|time_ns| *time_ns < last)
    }

    fn earlier(&self, state: &State, moment: usize) -> Option<State> {
        let time_ns = self.times_ns[moment];
        let nodes = self.findings.trace.run.nodes.iter();
        let most = nodes.map(|node| node.events.partition_point(|event| event.end_ns <= time_ns));
        self.allowed(self.space.earlier(state, &most.collect::<Vec<_>>()))
    }

    fn in_flight(&self, state: &State) -> Vec<State> {
        let all = self.findings.earlier(state).into_iter();
        all.filter_map(|state| self.allowed(state)).collect()
    }

    fn make(&mut self, state: &State) -> Result<CrashState, Impossible> {
        self.states.make(state)
    }

    fn story(
        &mut self,
        state: &State,
        complaint: Complaint,
        crash_state: &CrashState,
    ) -> Result<Finding> {
        let story = self.findings.story(
            Some(&mut self.states),
            state,
            &alone(complaint),
            crash_state.key,
        );
        // Who asks what other spaces have must ask of one that is in this one.
        let run = &self.findings.trace.run;
        let own = AlikeStates::of(crash_state.content);
        let is_own = |request: &Request| {
            let found = self.findings.search(run, request, &own.contents, &[]);
            found.is_some_and(|found| !found.is_empty())
        };
        if !self.requests.iter().any(is_own) {
            return Ok(story);
        }
        let mut told = self
            .findings
            .explain(vec![(story, own)], &self.requests, false);
        Ok(told.pop().expect("as many as were asked about"))
    }
}
