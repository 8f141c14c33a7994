//! Which files of a run are called alike.

use std::collections::{BTreeMap, BTreeSet};

use brief::{Likeness, Site};
use trace::Run;

use crate::operations::Operations;

/// By what the nodes of a run created.
pub(crate) fn likeness_of(run: &Run, operations: &[Operations]) -> Likeness {
    let mut created: BTreeMap<Site, BTreeSet<String>> = BTreeMap::new();
    for (node, operations) in run.nodes.iter().zip(operations) {
        for event in 0..node.events.len() {
            let Some(operation) = operations.get(event) else {
                continue;
            };
            if let Some(path) = &operation.names {
                let site = (operation.call.to_string(), operation.stack);
                created.entry(site).or_default().insert(path.clone());
            }
        }
    }
    Likeness::of_created(&created)
}
