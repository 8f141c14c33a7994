//! Steps that run once, and what waits for what.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::node::check_name;
use super::raw::{RawFile, Words, Wrong, seconds};
use crate::file::NodeConfig;
use crate::words::Values;

/// How long a step may take.
const STEP_WITHIN_S: f64 = 120.0;

/// A command that runs once, when a cluster is started for the first time, after the step before it.
#[derive(Debug, Clone)]
pub struct Step {
    /// What nodes that wait for it call it.
    pub name: String,
    /// The command.
    pub command: Vec<String>,
    /// The node in which it runs, by its place, whether that was started or not; where the client is
    /// if there is none.
    pub on: Option<usize>,
    /// The nodes that have to be ready before, by their places.
    pub when: Vec<usize>,
    /// How long it may take.
    pub within: Duration,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    name: String,
    command: String,
    on: Option<String>,
    when: Option<Vec<String>>,
    within_s: Option<f64>,
}

/// What a name in a cluster file stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// Nodes, by their places: one, or all of a kind.
    Nodes(Vec<usize>),
    /// A step, by its place.
    Step(usize),
}

/// The names of a cluster file.
pub(super) struct Names<'a> {
    nodes: &'a [NodeConfig],
    steps: Vec<&'a str>,
}

impl<'a> Names<'a> {
    pub(super) fn of(nodes: &'a [NodeConfig], file: &'a RawFile) -> Self {
        let steps = file.steps.iter().map(|step| &*step.get_ref().name);
        let steps = steps.collect();
        Self { nodes, steps }
    }

    fn named(&self, name: &str) -> Words<Named> {
        if let Some(nodes) = members(self.nodes, name) {
            return Ok(Named::Nodes(nodes));
        }
        let step = self.steps.iter().position(|step| *step == name);
        step.map(Named::Step).ok_or_else(|| {
            let kinds = self.nodes.iter().filter_map(|node| node.kind.as_deref());
            let nodes = self.nodes.iter().map(|node| &*node.name);
            let mut known: Vec<_> = nodes.collect();
            for name in kinds.chain(self.steps.iter().copied()) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
            format!("there is no node {name}: there are {}", known.join(", "))
        })
    }

    /// What a node waits for: nodes, and steps.
    pub(super) fn after(&self, names: &[String]) -> Words<(Vec<usize>, Vec<usize>)> {
        let (mut nodes, mut steps) = (Vec::new(), Vec::new());
        for name in names {
            match self.named(name)? {
                Named::Nodes(of) => nodes.extend(of),
                Named::Step(step) => steps.push(step),
            }
        }
        Ok((nodes, steps))
    }

    /// Nodes only.
    pub(super) fn nodes(&self, names: &[String]) -> Words<Vec<usize>> {
        let (nodes, steps) = self.after(names)?;
        match steps.first() {
            None => Ok(nodes),
            Some(step) => Err(format!("{} is a step, and not a node", self.steps[*step])),
        }
    }
}

/// The nodes that a name stands for, which is that of a node or of a kind.
pub(super) fn members(nodes: &[NodeConfig], name: &str) -> Option<Vec<usize>> {
    let is_meant = |node: &NodeConfig| node.name == name || node.kind.as_deref() == Some(name);
    let places = 0..nodes.len();
    let found: Vec<_> = places.filter(|place| is_meant(&nodes[*place])).collect();
    (!found.is_empty()).then_some(found)
}

/// No two things may have one name, but for the nodes of a kind.
pub(super) fn refuse_same_names(nodes: &[NodeConfig], file: &RawFile) -> Result<(), Wrong> {
    let is_node = |name: &str| nodes.iter().any(|node| node.name == name);
    for raw in &file.nodes {
        if let Some(kind) = &raw.get_ref().kind {
            check_name(kind).map_err(Wrong::at(raw))?;
            if is_node(kind) {
                return Err(Wrong::at(raw)(format!(
                    "{kind} is a kind of nodes, and a node"
                )));
            }
        }
    }
    for (place, raw) in file.steps.iter().enumerate() {
        let name = &raw.get_ref().name;
        check_name(name).map_err(Wrong::at(raw))?;
        let others = &file.steps[..place];
        let what = if others.iter().any(|other| other.get_ref().name == *name) {
            "there are two steps"
        } else if members(nodes, name).is_some() {
            "there are nodes, and a step,"
        } else {
            continue;
        };
        return Err(Wrong::at(raw)(format!("{what} {name}")));
    }
    Ok(())
}

/// The steps of a file. A step that does not say when waits for all nodes that do not wait for it.
pub(super) fn settle(
    file: &RawFile,
    nodes: &[NodeConfig],
    values: &Values,
    values_of: impl Fn(usize) -> Values,
) -> Result<Vec<Step>, Wrong> {
    let names = Names::of(nodes, file);
    let mut steps = Vec::new();
    for raw in &file.steps {
        let settled = settle_one(raw, &names, values, &values_of);
        steps.push(
            settled
                .map_err(|what| Wrong::at(raw)(format!("step {}: {what}", raw.get_ref().name)))?,
        );
    }
    for (place, raw) in file.steps.iter().enumerate() {
        if raw.get_ref().when.is_none() {
            steps[place].when = (0..nodes.len())
                .filter(|node| !waits_for(nodes, *node, place))
                .collect();
        }
    }
    Ok(steps)
}

fn settle_one(
    raw: &Spanned<RawStep>,
    names: &Names,
    values: &Values,
    values_of: impl Fn(usize) -> Values,
) -> Words<Step> {
    let raw = raw.get_ref();
    let on = match &raw.on {
        None => None,
        Some(name) => match names.nodes(std::slice::from_ref(name))?[..] {
            [node] => Some(node),
            _ => return Err(format!("it runs on one node, and {name} is several")),
        },
    };
    let command = match on {
        None => values.command(&raw.command),
        Some(node) => values_of(node).command(&raw.command),
    };
    Ok(Step {
        name: raw.name.clone(),
        command: command?,
        on,
        when: names.nodes(raw.when.as_deref().unwrap_or_default())?,
        within: seconds(raw.within_s, STEP_WITHIN_S)?,
    })
}

/// Whether a node waits for a step, itself or through others. Steps come in their order, so who waits
/// for a later one waits for it too.
fn waits_for(nodes: &[NodeConfig], node: usize, step: usize) -> bool {
    let mut seen = vec![false; nodes.len()];
    let mut left = vec![node];
    while let Some(node) = left.pop() {
        if !std::mem::replace(&mut seen[node], true) {
            if nodes[node].after_steps.iter().any(|other| *other >= step) {
                return true;
            }
            left.extend(&nodes[node].after);
        }
    }
    false
}

/// Who waits for each other would do so for ever.
pub(super) fn refuse_circle(nodes: &[NodeConfig], steps: &[Step]) -> Words<()> {
    let mut started = vec![false; nodes.len()];
    let mut done = 0;
    for _ in 0..=nodes.len() + steps.len() {
        for (place, node) in nodes.iter().enumerate() {
            started[place] |= node.after.iter().all(|other| started[*other])
                && node.after_steps.iter().all(|step| *step < done);
        }
        let next = steps.get(done);
        if next.is_some_and(|step| step.when.iter().all(|node| started[*node])) {
            done += 1;
        }
    }
    match (started.iter().position(|started| !started), steps.get(done)) {
        (None, None) => Ok(()),
        (Some(node), None) => Err(format!(
            "node {} starts after one that starts after it",
            nodes[node].name
        )),
        (_, Some(step)) => Err(format!(
            "step {} waits for a node that starts after it",
            step.name
        )),
    }
}
