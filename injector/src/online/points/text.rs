//! Failure points as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use brief::counted;
use campaign::columns;

use super::{PointFailure, SeenPoint};

/// What is no point, though it may fail.
pub const UNSEEN: &str = "not among them: what is written through mappings or by io_uring, messages, \
                          calls on files outside of the directories of data, and calls before the \
                          clients start or after they have ended";

/// The points of a run, and how many failures there can be at them, which are so many `runs` of a
/// campaign. `has_disks` says whether nodes can lose their power.
pub fn points_table(points: &[SeenPoint], has_disks: bool, runs: u64) -> String {
    let has_roles = points.iter().any(|seen| seen.point.role.is_some());
    let mut rows = vec![head(has_roles)];
    rows.extend(points.iter().map(|seen| row(seen, has_roles)));
    let mut text = if points.is_empty() {
        String::new()
    } else {
        columns(&rows) + "\n"
    };
    let mut failures: BTreeMap<PointFailure, usize> = BTreeMap::new();
    for failure in points
        .iter()
        .flat_map(|seen| PointFailure::at(seen, has_disks))
    {
        *failures.entry(failure).or_default() += 1;
    }
    let all: usize = failures.values().sum();
    let kinds = failures.iter();
    let kinds = kinds.map(|(failure, count)| format!("{count} {}", failure.name()));
    let kinds: Vec<_> = kinds.collect();
    let _ = writeln!(
        text,
        "{}, {} at them: {}; at each occurrence that is tried, {} of --strategy exhaustive",
        counted(points.len(), "failure point"),
        counted(all, "failure"),
        kinds.join(", "),
        counted(runs, "run")
    );
    text + UNSEEN + "\n"
}

fn head(has_roles: bool) -> Vec<String> {
    let role: &[&str] = if has_roles { &["role"] } else { &[] };
    let all = [
        &["point", "call", "file"],
        role,
        &["times", "by node", "site", "called by"],
    ]
    .concat();
    all.into_iter().map(str::to_owned).collect()
}

fn row(seen: &SeenPoint, has_roles: bool) -> Vec<String> {
    let point = &seen.point;
    let or_dash = |text: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text.to_owned()
        }
    };
    let by_node: Vec<_> = seen
        .by_node
        .iter()
        .map(|(node, count)| format!("{node} {count}"))
        .collect();
    let file = if point.file.is_empty() {
        "."
    } else {
        &point.file
    };
    let mut row = vec![seen.id.clone(), point.call.clone(), file.to_owned()];
    if has_roles {
        row.push(or_dash(point.role.as_deref().unwrap_or_default()));
    }
    row.extend([
        seen.count().to_string(),
        by_node.join(", "),
        or_dash(&point.site),
        or_dash(&seen.callers.join(" < ")),
    ]);
    row
}
