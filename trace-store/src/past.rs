//! What had happened before a crash, and what of it the disks lost.

use serde::{Deserialize, Serialize};
use trace::Run;

/// Which recovery of a trace it is, and the crash that it recovers from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Its number among the recoveries of programs and clusters ([`Trace::recoveries`]), from 0 on.
    ///
    /// [`Trace::recoveries`]: crate::Trace::recoveries
    pub number: usize,
    /// What came before that crash.
    pub past: Past,
}

/// What came before a crash, on all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// The recovery in which the power failed, by its number ([`Before::number`]); none if it failed
    /// in the run.
    pub recovery: Option<usize>,
    /// For each node: so many of its events had happened.
    pub cut: Vec<usize>,
    /// What of these is missing.
    pub lost: Vec<Missing>,
    /// What had not returned and has left something: the node, and its event.
    pub in_flight: Vec<(usize, usize)>,
}

/// An operation that a disk has not, or not all of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The node.
    pub node: usize,
    /// Which of its events.
    pub event: usize,
    /// Nothing of it is there.
    pub is_whole: bool,
}

impl Past {
    /// Whether all that it names is in a run.
    pub fn is_of(&self, run: &Run) -> bool {
        let lens: Vec<_> = run.nodes.iter().map(|node| node.events.len()).collect();
        let is_there =
            |(node, event): (usize, usize)| lens.get(node).is_some_and(|len| event < *len);
        let mut cut = self.cut.iter().zip(&lens);
        self.cut.len() == lens.len()
            && cut.all(|(cut, len)| cut <= len)
            && self.in_flight.iter().copied().all(is_there)
            && self
                .lost
                .iter()
                .all(|lost| is_there((lost.node, lost.event)))
    }
}
