//! Failure points as a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use brief::counted;
use campaign::columns;

use super::{
    At, CallPoint, Collected, Disks, MessagePoint, Point, PointFailure, RequestPoint, SeenPoint,
};

/// What is no point, though it may fail.
fn unseen(at: At) -> String {
    let calls = "what is written through mappings or by io_uring, calls on files outside of the \
                 directories of data";
    let kinds = match at {
        At::Calls => format!("{calls}, messages (--at messages or --at all)"),
        At::Messages => "calls on files (--at calls or --at all), messages of clients and of the \
                         probe"
            .to_owned(),
        At::Requests => {
            "calls on files (--at calls), messages (--at messages), in namespaces requests of \
                         Crashpoint itself (to mount a disk, to start a node)"
                .to_owned()
        }
        At::All => format!("{calls}, messages of clients and of the probe"),
    };
    format!(
        "not among them: {kinds}, and what happens before the clients start or after they have ended\n"
    )
}

/// The points of a run, and how many failures there can be at them, which are so many `runs` of a
/// campaign. Nodes that have `disks` can lose their power.
pub fn points_table(collected: &Collected, at: At, disks: &Disks, runs: u64) -> String {
    let points = &collected.points;
    let mut text = calls_table(points) + &messages_table(points) + &requests_table(points);
    let mut failures: BTreeMap<PointFailure, usize> = BTreeMap::new();
    let tried = points.iter();
    for failure in tried.flat_map(|seen| collected.failures(seen, disks)) {
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
    text + &unseen(at)
}

fn calls_table(points: &[SeenPoint]) -> String {
    let has_roles = points.iter().any(|seen| seen.point.role().is_some());
    let calls = points.iter().filter_map(|seen| match &seen.point {
        Point::Call(point) => Some(row(seen, point, has_roles)),
        Point::Message(_) | Point::Request(_) => None,
    });
    table(head(has_roles), calls)
}

/// With its head, if there is anything in it.
fn table(head: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    if rows.len() == 1 {
        return String::new();
    }
    columns(&rows) + "\n"
}

/// Messages: which end is the server, its port says.
fn messages_table(points: &[SeenPoint]) -> String {
    let head = [
        "point", "message", "port", "goes", "times", "by nodes", "first",
    ];
    let messages = points.iter().filter_map(|seen| match &seen.point {
        Point::Message(point) => Some(message_row(seen, point)),
        Point::Call(_) | Point::Request(_) => None,
    });
    table(head.map(str::to_owned).to_vec(), messages)
}

fn message_row(seen: &SeenPoint, point: &MessagePoint) -> Vec<String> {
    let (port, goes) = match (point.from_port, point.to_port) {
        (None, None) => ("*".to_owned(), "-"),
        (Some(port), None) => (port.to_string(), "from it"),
        (None, Some(port)) => (port.to_string(), "to it"),
        (Some(from), Some(to)) => (format!("{from} > {to}"), "-"),
    };
    let pairs = seen.by_pair.iter();
    let pairs = pairs.map(|pair| format!("{} > {} {}", pair.from, pair.to, pair.times));
    vec![
        seen.id.clone(),
        format!("{} > {}", point.from, point.to),
        port,
        goes.to_owned(),
        seen.count().to_string(),
        pairs.collect::<Vec<_>>().join(", "),
        format!("{:.3} s", seen.first_ns as f64 / 1e9),
    ]
}

fn requests_table(points: &[SeenPoint]) -> String {
    let head = [
        "point", "request", "area", "disk of", "times", "by node", "first",
    ];
    let requests = points.iter().filter_map(|seen| match &seen.point {
        Point::Request(point) => Some(request_row(seen, point)),
        Point::Call(_) | Point::Message(_) => None,
    });
    table(head.map(str::to_owned).to_vec(), requests)
}

fn request_row(seen: &SeenPoint, point: &RequestPoint) -> Vec<String> {
    let by_node = seen.by_node.iter();
    let by_node = by_node.map(|(node, count)| format!("{node} {count}"));
    vec![
        seen.id.clone(),
        point.request.clone(),
        point.area.as_deref().unwrap_or("-").to_owned(),
        point.of.clone(),
        seen.count().to_string(),
        by_node.collect::<Vec<_>>().join(", "),
        format!("{:.3} s", seen.first_ns as f64 / 1e9),
    ]
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

fn row(seen: &SeenPoint, point: &CallPoint, has_roles: bool) -> Vec<String> {
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
