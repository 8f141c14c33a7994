//! A sweep at the block level: the disks that the nodes had, each with its file system.

use std::time::Instant;

use campaign::{Interrupt, columns};
use node_sweep::{BlockFindings, Blocks, Finding, Subject, Summary, kind_words, recorded_disks, sweep_source};
use pace_rules::nodes::{BlockRequest, BlockSpace, Explore};
use trace::Trace;

use crate::states::{Level, SpaceArgs, Subjects, VisitArgs, indices, number, progress, summary};

impl SpaceArgs {
    /// The states of the disks of a trace.
    pub(crate) fn block_space(&self, trace: &Trace, explore: Explore) -> anyhow::Result<BlockSpace> {
        let request = BlockRequest { explore, states: self.of_disks() };
        Ok(BlockSpace::new(&trace.run, recorded_disks(trace), &request)?)
    }
}

impl VisitArgs {
    pub(crate) fn block_space(&self, what: &Subjects<'_>) -> anyhow::Result<BlockSpace> {
        self.states.block_space(what.trace, what.explore)
    }

    /// Visits the states of the disks.
    pub(crate) fn visit_disks(
        &self,
        what: &Subjects<'_>,
        space: &BlockSpace,
        blocks: Blocks<'_>,
        subjects: Vec<Box<dyn Subject>>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<(Vec<Finding>, Summary)> {
        let judged = BlockFindings { trace: what.trace, space };
        let model = judged.file_systems();
        let sample = self.sample.or(self.states.of_disks().sample().map(u64::from));
        let indices = indices(space.len(), sample, |count| space.sample(count, self.seed))?;
        let drawn = sample.filter(|count| *count < space.len());
        let drawn = drawn.map(|count| format!("; visiting {count} of them, --seed {}", self.seed)).unwrap_or_default();
        let words = self.states.of_disks();
        campaign::say(&format!("{} crash states of {model}, {words}{drawn}", number(space.len())));
        let began = Instant::now();
        let swept = sweep_source(blocks, indices, subjects, interrupt, &mut progress())?;
        let seconds = began.elapsed().as_secs_f64();
        let findings = judged.of(&swept)?;
        let summary = summary(what.trace, &model, &swept, findings.len(), seconds);
        Ok((findings, summary))
    }

    /// What may be on the disks, in words.
    pub(crate) fn model_words(&self, what: &Subjects<'_>) -> String {
        let disks = || {
            let mut names: Vec<_> = what.trace.disks.values().map(|disk| disk.file_system.as_str()).collect();
            names.dedup();
            format!("{} on disk: {}", names.join(", "), self.states.of_disks())
        };
        match self.states.level.unwrap_or(Level::Syscalls) {
            Level::Syscalls => self.states.model.clone(),
            Level::Block => disks(),
            Level::Both => format!("{}; {}", self.states.model, disks()),
        }
    }
}

/// How many states there are of each kind, as a table.
pub(crate) fn counts(space: &BlockSpace, trace: &Trace) -> String {
    let mut rows = vec![["relaxed", "disks", "states"].map(str::to_owned).to_vec()];
    for count in space.counts() {
        let names: Vec<_> = count.relaxed.iter().map(|node| trace.run.nodes[*node].name.as_str()).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        rows.push(vec![names, kind_words(count.kind), number(count.states)]);
    }
    rows.push(vec!["all".into(), String::new(), number(space.len())]);
    columns(&rows)
}

/// Every state in a line.
pub(crate) fn listed(space: &BlockSpace, trace: &Trace) -> String {
    let mut text = String::new();
    for index in 0..space.len() {
        let state = space.state(index);
        let nodes = trace.run.nodes.iter().zip(&state.cut).zip(&state.disks);
        let nodes = nodes.map(|((node, events), disk)| {
            let disk = disk.as_ref().map_or(String::new(), |disk| format!(", {disk}"));
            format!("{} {events} events{disk}", node.name)
        });
        text += &format!("{index}  {}  {}\n", kind_words(state.kind), nodes.collect::<Vec<_>>().join("; "));
    }
    text
}
