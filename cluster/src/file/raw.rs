//! The text of a cluster file taken apart, and what it means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::clients::{self, RawSidedClient, RawSometimes};
use super::histories::{self, RawHistory};
use super::logs::{self, RawLog};
use super::node::{RawNode, check_node_name, own_values};
use super::probe::{self, ProbeConfig, RawProbe};
use super::simulated::RawSimulated;
use super::steps::{self, Names, RawStep};
use super::{Check, ClientConfig, ClusterFile, Explore, LogErrors, NodeConfig, Step};
use crate::words::{Values, unknown_in};

/// More than one machine serves.
const NODES_MAX: usize = 200;

pub(super) const CLIENT_WITHIN_S: f64 = 300.0;
const CHECK_WITHIN_S: f64 = 60.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    explore: Option<Spanned<RawExplore>>,
    disk: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    pub(super) nodes: Vec<Spanned<RawNode>>,
    #[serde(default)]
    pub(super) steps: Vec<Spanned<RawStep>>,
    prepare: Option<String>,
    first_alone_s: Option<f64>,
    client: Option<RawClient>,
    #[serde(default)]
    clients: Vec<RawSidedClient>,
    turns: Option<Spanned<Vec<Spanned<String>>>>,
    turn_within_s: Option<f64>,
    probe: Option<Spanned<RawProbe>>,
    #[serde(default)]
    sometimes: Vec<RawSometimes>,
    #[serde(default)]
    logs: Vec<Spanned<RawLog>>,
    check: Option<RawCheck>,
    #[serde(default)]
    simulated: RawSimulated,
    #[serde(default)]
    histories: Vec<RawHistory>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawExplore {
    /// Nodes of which the smallest majority decides.
    #[serde(alias = "rsm")]
    ReplicatedStateMachine,
    /// The same with another size of it.
    Majority(usize),
    /// The name of the node that leads.
    Primary(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClient {
    command: String,
    within_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCheck {
    command: String,
    #[serde(default)]
    serve: bool,
    within_s: Option<f64>,
}

impl RawClient {
    fn settle(self, values: &Values) -> Words<ClientConfig> {
        let command = values
            .command(&self.command)
            .map_err(|what| format!("client: {what}"))?;
        Ok(ClientConfig {
            command,
            within: seconds(self.within_s, CLIENT_WITHIN_S)?,
        })
    }
}

impl RawCheck {
    fn settle(self, values: &Values) -> Words<Check> {
        let within = seconds(self.within_s, CHECK_WITHIN_S)?;
        let mut all = values.clone();
        all.0
            .extend((!self.serve).then(|| ("acks".to_owned(), String::new())));
        all.command(&self.command)
            .map_err(|what| format!("check: {what}"))?;
        Ok(Check {
            command: self.command,
            values: values.clone(),
            serve: self.serve,
            within,
        })
    }
}

pub(super) type Words<T> = std::result::Result<T, String>;

/// What is wrong, and where in the text, if that is known.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: Option<usize>,
    /// Whether it is there, and not somewhere in what begins there.
    pub(super) is_exact: bool,
    pub(super) what: String,
}

impl Wrong {
    /// It is in a part of the file.
    pub(super) fn at<T>(part: &Spanned<T>) -> impl FnOnce(String) -> Self + use<T> {
        let at = Some(part.span().start);
        move |what| Self {
            at,
            is_exact: false,
            what,
        }
    }

    /// It is that part of the file.
    pub(super) fn exactly<T>(part: &Spanned<T>, what: String) -> Self {
        Self::exactly_at(part.span().start, what)
    }

    /// It is there.
    pub(super) fn exactly_at(at: usize, what: String) -> Self {
        Self {
            at: Some(at),
            is_exact: true,
            what,
        }
    }
}

impl Wrong {
    /// Where it is: a name that stands for nothing is there, and not where its table begins.
    pub(super) fn place(&self, text: &str) -> Option<usize> {
        let from = self.at.unwrap_or(0);
        let named = unknown_in(&self.what).and_then(|name| text[from..].find(name));
        named.map(|place| from + place).or(self.at)
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self {
            at: None,
            is_exact: false,
            what,
        }
    }
}

impl RawFile {
    /// What it means. Errors are words that fit after the file's name, and its line.
    pub(super) fn settle(
        self,
        text: &str,
        folder: &Path,
    ) -> std::result::Result<ClusterFile, Wrong> {
        let names = self.names()?;
        let values = Values::of_addresses(&names);
        let nodes = self.nodes(&values)?;
        let steps = self.steps(&nodes, &values)?;
        let logs = self.logs(&nodes)?;
        let probe = self.probe(&nodes, &values)?;
        let explore = self.explore(&nodes)?;
        let prepare = self.prepare(&values)?;
        let first_alone = self.first_alone()?;
        let client = self.client.map(|raw| raw.settle(&values)).transpose()?;
        let check = self.check.map(|raw| raw.settle(&values)).transpose()?;
        let clients = clients::clients(self.clients, &values)?;
        Ok(ClusterFile {
            text: text.to_owned(),
            folder: folder.to_owned(),
            explore,
            disk: self.disk,
            nodes,
            steps,
            prepare,
            first_alone,
            client,
            turns: clients::turns(self.turns, self.turn_within_s, &clients)?,
            clients,
            sometimes: clients::sometimes(self.sometimes, probe.as_ref())?,
            logs,
            probe,
            check,
            simulated: self.simulated.settle()?,
            histories: histories::rules(self.histories)?,
            patience: 1,
        })
    }

    fn nodes(&self, values: &Values) -> std::result::Result<Vec<NodeConfig>, Wrong> {
        let mut nodes = Vec::new();
        for raw in &self.nodes {
            for name in raw.get_ref().names() {
                let settled = raw
                    .get_ref()
                    .settle(nodes.len(), name, values, &self.environment);
                nodes.push(settled.map_err(Wrong::at(raw))?);
            }
        }
        steps::refuse_same_names(&nodes, self)?;
        self.settle_order(&mut nodes)?;
        Ok(nodes)
    }

    fn prepare(&self, values: &Values) -> Words<Option<Vec<String>>> {
        let command = self.prepare.as_ref().map(|text| values.command(text));
        command
            .transpose()
            .map_err(|what| format!("prepare: {what}"))
    }

    fn first_alone(&self) -> Words<Option<Duration>> {
        let given = self.first_alone_s;
        given.map(|given| seconds(Some(given), given)).transpose()
    }

    fn steps(
        &self,
        nodes: &[NodeConfig],
        values: &Values,
    ) -> std::result::Result<Vec<Step>, Wrong> {
        let steps = steps::settle(self, nodes, values, |node| {
            own_values(values, node, &nodes[node].name, nodes[node].has_data)
        })?;
        steps::refuse_circle(nodes, &steps)?;
        Ok(steps)
    }

    fn logs(&self, nodes: &[NodeConfig]) -> std::result::Result<Vec<LogErrors>, Wrong> {
        logs::errors(&self.logs, nodes.len(), &Names::of(nodes, self))
    }

    fn probe(
        &self,
        nodes: &[NodeConfig],
        values: &Values,
    ) -> std::result::Result<Option<ProbeConfig>, Wrong> {
        let names = Names::of(nodes, self);
        let probe = self.probe.as_ref();
        let settled = probe.map(|raw| probe::settle(raw, values, nodes, &names));
        settled.transpose()
    }

    fn explore(&self, nodes: &[NodeConfig]) -> std::result::Result<Explore, Wrong> {
        let Some(explore) = &self.explore else {
            return Ok(Explore::ReplicatedStateMachine { majority: None });
        };
        let count = nodes.len();
        let meant = match explore.get_ref().clone() {
            RawExplore::ReplicatedStateMachine => {
                Ok(Explore::ReplicatedStateMachine { majority: None })
            }
            RawExplore::Majority(majority) if (1..=count).contains(&majority) => {
                let majority = Some(majority);
                Ok(Explore::ReplicatedStateMachine { majority })
            }
            RawExplore::Majority(majority) => Err(format!(
                "there is no majority of {majority} of {count} nodes"
            )),
            RawExplore::Primary(name) => Names::of(nodes, self)
                .nodes(&[name])
                .and_then(|named| only(&named))
                .map(|primary| Explore::PrimaryReplicas { primary }),
        };
        meant.map_err(|what| Wrong::at(explore)(format!("explore: {what}")))
    }

    /// The names of all nodes.
    fn names(&self) -> std::result::Result<Vec<String>, Wrong> {
        let mut seen = BTreeSet::new();
        for raw in &self.nodes {
            let (wrong, raw) = (|what: String| Wrong::at(raw)(what), raw.get_ref());
            if !raw.is_named() {
                let what = "each of [[nodes]] has either a name or names";
                return Err(wrong(what.into()));
            }
            for name in raw.names() {
                check_node_name(name).map_err(wrong)?;
                if !seen.insert(name) {
                    return Err(wrong(format!("there are two nodes {name}")));
                }
            }
        }
        match seen.len() {
            0 => Err("there are no [[nodes]]".to_owned().into()),
            1..=NODES_MAX => Ok(self
                .nodes
                .iter()
                .flat_map(|raw| raw.get_ref().names())
                .map(str::to_owned)
                .collect()),
            many => {
                let what = format!("there are {many} nodes, and {NODES_MAX} is the most");
                Err(what.into())
            }
        }
    }

    /// What each node waits for.
    fn settle_order(&self, nodes: &mut [NodeConfig]) -> std::result::Result<(), Wrong> {
        let names = Names::of(nodes, self);
        let raws = self
            .nodes
            .iter()
            .flat_map(|raw| raw.get_ref().names().map(move |_| raw));
        let order = raws.zip(nodes.iter()).map(|(raw, node)| {
            let order = names.after(&raw.get_ref().after);
            order.map_err(|what| Wrong::at(raw)(format!("node {}: {what}", node.name)))
        });
        let order: Vec<_> = order.collect::<std::result::Result<_, _>>()?;
        for (node, (after, after_steps)) in nodes.iter_mut().zip(order) {
            (node.after, node.after_steps) = (after, after_steps);
        }
        Ok(())
    }
}

/// The one of them.
fn only(nodes: &[usize]) -> Words<usize> {
    match nodes {
        [node] => Ok(*node),
        _ => Err(format!("one node is primary, and not {}", nodes.len())),
    }
}

pub(super) fn seconds(given: Option<f64>, default: f64) -> Words<Duration> {
    let seconds = given.unwrap_or(default);
    let duration = Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("{seconds} is no number of seconds to wait"))
}
