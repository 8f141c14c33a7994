//! Some nodes first, and the others after them.

use std::time::{Duration, Instant};

use crate::node::Node;

/// How long those that are first are alone at most, if they do not become ready and the cluster
/// file does not say. A part of a cluster may never be ready without the rest, so there must be an
/// end; one second is as long as most take to notice that they are alone, or to agree on a leader.
const ALONE: Duration = Duration::from_secs(1);

/// Some nodes are started first. All that is neither first nor later is started with them.
#[derive(Debug, Clone, Copy)]
pub struct Turns<'a> {
    /// Those that are waited for, by their places in the file.
    pub first: &'a [usize],
    /// Those that wait.
    pub later: &'a [usize],
}

impl Turns<'_> {
    /// Whether the first ones have been alone for long enough; the first of them was started at
    /// `begun`. `fixed` is how long, if the cluster file says so.
    pub(crate) fn are_over(
        &self,
        nodes: &[Node],
        ready: &[bool],
        begun: Instant,
        fixed: Option<Duration>,
    ) -> bool {
        // Who does not say when it is ready may not be so yet.
        let is_known = |first: &usize| ready[*first] && nodes[*first].config().ready.is_some();
        let are_ready = fixed.is_none() && self.first.iter().all(is_known);
        are_ready || begun.elapsed() >= fixed.unwrap_or(ALONE)
    }
}
