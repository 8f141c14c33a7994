//! Crash states of small runs: known answers, and all of them against what the definitions say.

#[path = "nodes/at_once.rs"]
mod at_once;
#[path = "nodes/bytes.rs"]
mod bytes;
#[path = "nodes/chains.rs"]
mod chains;
#[path = "nodes/commits.rs"]
mod commits;
#[path = "nodes/counting.rs"]
mod counting;
#[path = "nodes/former_names.rs"]
mod former_names;
#[path = "nodes/log_tree.rs"]
mod log_tree;
#[path = "nodes/names.rs"]
mod names;
#[path = "nodes/properties.rs"]
mod properties;
#[path = "nodes/replicas.rs"]
mod replicas;
mod support;
#[path = "nodes/syncs.rs"]
mod syncs;
#[path = "nodes/zeros.rs"]
mod zeros;
