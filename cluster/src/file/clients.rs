//! What `crashpoint inject` reads of a cluster file beside the rest: its clients, and the probe that
//! says which role each node has.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::raw::{CLIENT_WITHIN_S, Words, seconds};
use super::{ClientConfig, NodeConfig};
use crate::words::Values;

/// How long a client may take that was asked to end.
pub(super) const ENDS_WITHIN_S: f64 = 10.0;

/// How long one answer of the probe may take.
const PROBE_WITHIN_S: f64 = 10.0;

/// What a plan calls several nodes, whoever they are.
const SEVERAL: [&str; 6] = ["all", "any", "hit", "majority", "minority", "others"];

/// How long there is between two questions to it.
const PROBE_EVERY_S: f64 = 0.1;

/// One of several clients that work at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidedClient {
    /// Its name, which it finds in its environment.
    pub name: String,
    /// What it runs.
    pub config: ClientConfig,
    /// Where it is while a partition is in place.
    pub side: Side,
    /// Whether it goes on until it is asked to end (SIGTERM).
    pub endless: bool,
    /// How long it may take to end when it is asked to, before it is killed.
    pub ends_within: Duration,
}

/// On which side of a partition a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// It sees all nodes.
    #[default]
    Both,
    /// With the nodes that are cut off.
    Isolated,
    /// With those that they are cut off from.
    Others,
}

/// What says which role each node has: it prints lines `NODE ROLE`, and behind them what else it
/// knows, such as a term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeConfig {
    /// The command.
    pub command: Vec<String>,
    /// The roles that there are.
    pub roles: Vec<String>,
    /// Whether it keeps running, and answers each line on its standard input with its lines and
    /// `end`.
    pub serve: bool,
    /// How long one answer may take.
    pub within: Duration,
    /// How long there is between an answer and the next question.
    pub every: Duration,
}

/// Something that should happen in some run of a campaign, or it has looked at nothing interesting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sometimes {
    /// What it is called.
    pub name: String,
    /// A node logs a line with this in it.
    pub log: Option<String>,
    /// Or a node has this role that did not have it.
    pub changed: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSometimes {
    name: String,
    log: Option<String>,
    changed: Option<String>,
}

/// What they mean.
pub(super) fn sometimes(raw: Vec<RawSometimes>, roles: &[String]) -> Words<Vec<Sometimes>> {
    let settle = |raw: RawSometimes| {
        let here = |what: String| format!("sometimes {}: {what}", raw.name);
        if raw.log.is_some() == raw.changed.is_some() {
            return Err(here(
                "each of [[sometimes]] has either log or changed".into(),
            ));
        }
        if let Some(role) = raw.changed.as_ref().filter(|role| !roles.contains(role)) {
            return Err(here(format!(
                "there is no role {role}: the probe has to name it"
            )));
        }
        Ok(Sometimes {
            name: raw.name,
            log: raw.log,
            changed: raw.changed,
        })
    };
    raw.into_iter().map(settle).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSidedClient {
    name: String,
    command: String,
    within_s: Option<f64>,
    #[serde(default)]
    side: Side,
    #[serde(default)]
    endless: bool,
    ends_within_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProbe {
    command: String,
    roles: Vec<String>,
    #[serde(default)]
    serve: bool,
    within_s: Option<f64>,
    every_s: Option<f64>,
}

/// What the clients mean.
pub(super) fn clients(raw: Vec<RawSidedClient>, values: &Values) -> Words<Vec<SidedClient>> {
    let mut seen = BTreeSet::new();
    let settle = |raw: RawSidedClient| {
        let here = |what: String| format!("client {}: {what}", raw.name);
        if raw.name.is_empty() || !seen.insert(raw.name.clone()) {
            return Err(here("each of [[clients]] has a name of its own".into()));
        }
        Ok(SidedClient {
            config: ClientConfig {
                command: values.command(&raw.command).map_err(here)?,
                within: seconds(raw.within_s, CLIENT_WITHIN_S).map_err(here)?,
            },
            side: raw.side,
            endless: raw.endless,
            ends_within: seconds(raw.ends_within_s, ENDS_WITHIN_S).map_err(here)?,
            name: raw.name,
        })
    };
    raw.into_iter().map(settle).collect()
}

/// What the probe means. No role may be called as a node or a kind of nodes is, or as what a plan calls
/// several nodes.
pub(super) fn probe(
    raw: Option<RawProbe>,
    values: &Values,
    nodes: &[NodeConfig],
) -> Words<Option<ProbeConfig>> {
    let Some(raw) = raw else { return Ok(None) };
    let here = |what: String| format!("probe: {what}");
    if raw.roles.is_empty() {
        return Err(here("roles has to name what it may answer".into()));
    }
    for role in &raw.roles {
        let is_word = !role.is_empty() && !role.contains(char::is_whitespace);
        let is_of_node = |node: &NodeConfig| node.name == *role || node.kind.as_ref() == Some(role);
        if !is_word || nodes.iter().any(is_of_node) || SEVERAL.contains(&role.as_str()) {
            return Err(here(format!(
                "\"{role}\" cannot be a role: it is one word, no name of a node or a kind, and none of {}",
                SEVERAL.join(", ")
            )));
        }
    }
    Ok(Some(ProbeConfig {
        command: values.command(&raw.command).map_err(here)?,
        roles: raw.roles,
        serve: raw.serve,
        within: seconds(raw.within_s, PROBE_WITHIN_S).map_err(here)?,
        every: seconds(raw.every_s, PROBE_EVERY_S).map_err(here)?,
    }))
}
