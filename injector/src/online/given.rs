//! What tests are given: cluster files and plans, as text.

use std::path::Path;

use cluster::ClusterFile;
use specification::Violated;

use super::plan::FaultPlan;

/// A cluster file that is right.
pub(super) fn cluster_of(text: &str) -> ClusterFile {
    let file = ClusterFile::parse(text, Path::new("c.toml"), Path::new("/"));
    file.expect("a cluster")
}

/// Something that violates a specification with this name.
pub(super) fn violated(specification: &str) -> Violated {
    Violated {
        specification: specification.into(),
        fact: "shown".into(),
        since_ns: 0,
        of: 1,
        derivation: String::new(),
    }
}

/// A plan for such a cluster, or what is wrong with it.
pub(super) fn plan_of(text: &str, file: &ClusterFile) -> Result<FaultPlan, String> {
    let plan = FaultPlan::parse(text, Path::new("p.toml"), file);
    plan.map_err(|error| error.to_string())
}
