//! A sweep at the block level: the disks that the nodes had, each with its file system.

use campaign::columns;
use local_fs::enter_mount_namespace;
use node_sweep::{
    BlockFindings, Blocks, Indices, Level, Request, Summary, kind_words, recorded_disks,
    sweep_source,
};
use pace_rules::nodes::{BlockRequest, BlockSpace, Explore};
use trace::Trace;

use crate::states::{MakeSubjects, SpaceArgs, Subjects, Visit, Visited, number};

impl SpaceArgs {
    /// The states of the disks of a trace.
    pub(crate) fn block_space(
        &self,
        trace: &Trace,
        explore: Explore,
    ) -> anyhow::Result<BlockSpace> {
        let request = BlockRequest {
            explore,
            states: self.of_disks(),
        };
        Ok(BlockSpace::new(
            &trace.run,
            recorded_disks(trace),
            &request,
        )?)
    }
}

impl Subjects<'_> {
    pub(crate) fn block_space(&self) -> anyhow::Result<BlockSpace> {
        let request = BlockRequest {
            explore: self.explore,
            states: self.request.states,
        };
        Ok(BlockSpace::new(
            &self.trace.run,
            recorded_disks(self.trace),
            &request,
        )?)
    }

    /// Visits the states of the disks.
    pub(crate) fn visit_disks(
        &self,
        space: &BlockSpace,
        subjects: MakeSubjects<'_, '_>,
        visit: &mut Visit<'_>,
    ) -> anyhow::Result<Visited> {
        // What is mounted to tell of findings is nobody else's, and goes with us.
        enter_mount_namespace()?;
        let blocks = Blocks::new(self.trace, space)?;
        let jobs = if blocks.one_at_a_time() {
            1
        } else {
            visit.control.jobs
        };
        let judged = BlockFindings {
            trace: self.trace,
            space,
            mounts: true,
        };
        let model = judged.file_systems();
        let (sample, seed) = (self.request.sample_of_disks(), self.request.seed);
        let indices = Indices::of(space.len(), sample, |count| space.sample(count, seed))?;
        let drawn = sample.filter(|count| *count < space.len());
        let drawn = drawn
            .map(|count| format!("; visiting {count} of them, --seed {seed}"))
            .unwrap_or_default();
        let words = self.request.states;
        campaign::say(&format!(
            "{} crash states of {model}, {words}{drawn}",
            number(space.len())
        ));
        let interrupt = visit.control.interrupt;
        let plan = visit.plan();
        let subjects = subjects(jobs)?;
        let mut watcher = visit.watcher(&model, indices.count, self.trace, &plan.known);
        let swept = sweep_source(
            blocks,
            indices.all,
            subjects,
            &plan,
            interrupt,
            &mut watcher,
        )?;
        let seconds = watcher.finish()?;
        let findings = judged.of(&swept)?;
        let (trace, count) = (self.trace, indices.count);
        let summary = Summary::new(trace, &model, &swept, count, findings.len(), seconds);
        Ok((findings, summary))
    }
}

/// What may be on the disks, in words.
pub(crate) fn model_words(request: &Request, trace: &Trace) -> String {
    let disks = || {
        let mut names: Vec<_> = trace
            .disks
            .values()
            .map(|disk| disk.file_system.as_str())
            .collect();
        names.dedup();
        format!("{} on disk: {}", names.join(", "), request.states)
    };
    match request.level {
        Level::Syscalls => request.model.clone(),
        Level::Block => disks(),
        Level::Both => format!("{}; {}", request.model, disks()),
    }
}

/// How many states there are of each kind, as a table.
pub(crate) fn counts(space: &BlockSpace, trace: &Trace) -> String {
    let mut rows = vec![["relaxed", "disks", "states"].map(str::to_owned).to_vec()];
    for count in space.counts() {
        let names: Vec<_> = count
            .relaxed
            .iter()
            .map(|node| trace.run.nodes[*node].name.as_str())
            .collect();
        let names = if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        };
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
            let disk = disk
                .as_ref()
                .map_or(String::new(), |disk| format!(", {disk}"));
            format!("{} {events} events{disk}", node.name)
        });
        text += &format!(
            "{index}  {}  {}\n",
            kind_words(state.kind),
            nodes.collect::<Vec<_>>().join("; ")
        );
    }
    text
}
