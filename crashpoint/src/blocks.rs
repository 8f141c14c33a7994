//! States at the block level: of the disks that the nodes had, each with its file system.

use campaign::columns;
use node_sweep::{count_words, kind_words};
use pace_rules::nodes::BlockSpace;
use trace_store::Trace;

use crate::states::start_words;

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
        rows.push(vec![
            names,
            kind_words(count.kind) + &start_words(count.start),
            count_words(count.states),
        ]);
    }
    rows.push(vec!["all".into(), String::new(), count_words(space.len())]);
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
            "{index}  {}{}  {}\n",
            kind_words(state.kind),
            start_words(state.start),
            nodes.collect::<Vec<_>>().join("; ")
        );
    }
    text
}
