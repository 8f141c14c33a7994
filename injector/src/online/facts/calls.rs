//! What is known of the calls of a run: those that were counted, and where in the program a fault hits.

use std::collections::BTreeMap;

use datalog::Value;

use super::{MADE, MADE_MESSAGE};
use crate::online::directory::InjectManifest;
use crate::online::plan::{FaultPlan, PlannedFault, What};
use crate::online::points::{At, Pair, Point, SeenPoint};
use crate::online::print::site_text;
use crate::online::ran::Ran;

/// What is known of the calls of a run.
#[derive(Debug, Clone, Default)]
pub struct KnownCalls {
    /// Whether those of nodes on their files were counted.
    are_counted: bool,
    /// Whether messages between nodes were.
    are_messages_counted: bool,
    /// Of each fault of the plan the place in the program whose calls alone it hits. Empty if it hits those
    /// of any.
    sites: Vec<String>,
    /// The functions that make the calls at a site, as far as they are known.
    callers: BTreeMap<String, String>,
}

impl KnownCalls {
    /// Those of a run of a campaign.
    pub fn of(manifest: &InjectManifest, plan: &FaultPlan, ran: &Ran) -> Self {
        let collected = manifest.collected.iter();
        let collected = collected.flat_map(|collected| &collected.points);
        Self {
            are_counted: manifest.counts().is_some_and(At::has_calls),
            are_messages_counted: manifest.counts().is_some_and(At::has_messages),
            sites: plan.faults.iter().map(site_of).collect(),
            callers: collected
                .chain(&ran.points)
                .filter_map(callers_of)
                .collect(),
        }
    }

    /// Why nothing follows from what is in a relation of what was counted, if nothing does.
    pub(super) fn unknown(&self, relation: &str, ran: &Ran) -> Option<&'static str> {
        if relation == MADE_MESSAGE && !self.are_messages_counted {
            return Some(
                "the messages of this run were not counted: --strategy exhaustive and --want count them with --at \
                 messages and --at all",
            );
        }
        if relation == MADE && !self.are_counted {
            return Some(
                "the calls of this run were not counted: --strategy exhaustive and --want count them, unless \
                 with --at messages or requests",
            );
        }
        let some_are_lost = "not all that was to be counted in this run is known";
        ran.has_lost_points.then_some(some_are_lost)
    }

    /// The site and the callers of a call that this fault, from 1 on, has hit.
    pub(super) fn place_of_hit(&self, fault: usize) -> [Value; 2] {
        let site = fault.checked_sub(1).and_then(|place| self.sites.get(place));
        let site = site.map_or("", String::as_str);
        let callers = self.callers.get(site).map_or("", String::as_str);
        [site.into(), callers.into()]
    }

    /// Rows of `made`.
    pub(super) fn made(&self, points: &[SeenPoint]) -> Vec<Vec<Value>> {
        if !self.are_counted {
            return Vec::new();
        }
        points.iter().flat_map(made).collect()
    }

    /// Rows of `made_message`.
    pub(super) fn made_messages(&self, points: &[SeenPoint]) -> Vec<Vec<Value>> {
        if !self.are_messages_counted {
            return Vec::new();
        }
        points.iter().flat_map(made_message).collect()
    }
}

/// The site of the calls that a fault hits, if it hits calls of one site.
fn site_of(fault: &PlannedFault) -> String {
    match &fault.what {
        What::Call(call) => call.of.site.map_or_else(String::new, site_text),
        _ => String::new(),
    }
}

/// The site of a point, and the functions that make its calls, if both are known.
fn callers_of(seen: &SeenPoint) -> Option<(String, String)> {
    match &seen.point {
        Point::Call(point) if !point.site.is_empty() && !seen.callers.is_empty() => {
            Some((point.site.clone(), called_by(seen)))
        }
        _ => None,
    }
}

fn called_by(seen: &SeenPoint) -> String {
    seen.callers.join(" < ").replace('\0', "")
}

/// A row for each node that came to a point, if that is one of calls.
fn made(seen: &SeenPoint) -> Vec<Vec<Value>> {
    let Point::Call(point) = &seen.point else {
        return Vec::new();
    };
    let file = if point.file.is_empty() {
        "."
    } else {
        &point.file
    };
    let row = |(node, times): (&String, &u64)| {
        vec![
            node.as_str().into(),
            seen.id.as_str().into(),
            point.call.as_str().into(),
            file.replace('\0', "").into(),
            point.role.clone().unwrap_or_default().into(),
            point.site.as_str().into(),
            called_by(seen).into(),
            i64::try_from(*times).unwrap_or(i64::MAX).into(),
        ]
    };
    seen.by_node.iter().map(row).collect()
}

/// A row for each pair of nodes of which one has sent the other messages of a point. A port that a kernel has
/// chosen is 0.
fn made_message(seen: &SeenPoint) -> Vec<Vec<Value>> {
    let Point::Message(point) = &seen.point else {
        return Vec::new();
    };
    let port = |port: Option<u16>| Value::Integer(port.unwrap_or(0).into());
    let row = |pair: &Pair| {
        vec![
            pair.from.as_str().into(),
            pair.to.as_str().into(),
            seen.id.as_str().into(),
            point.from.as_str().into(),
            point.to.as_str().into(),
            port(point.from_port),
            port(point.to_port),
            i64::try_from(pair.times).unwrap_or(i64::MAX).into(),
        ]
    };
    seen.by_pair.iter().map(row).collect()
}
