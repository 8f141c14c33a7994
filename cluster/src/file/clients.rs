//! What `crashpoint inject` reads of a cluster file beside the rest: its clients.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::raw::{CLIENT_WITHIN_S, Words, Wrong, seconds};
use super::{ClientConfig, ProbeConfig};
use crate::words::Values;

/// How long a client may take that was asked to end.
pub(super) const ENDS_WITHIN_S: f64 = 10.0;

/// How long an operation of a client may keep all others waiting that take turns with it.
const TURN_WITHIN_S: f64 = 10.0;

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

/// Clients of which one begins an operation when that of the one before it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTurns {
    /// Whose turn it is, by their places: one after the other, and then from the first one on again.
    pub order: Vec<usize>,
    /// After so long it is the turn of the next one, though the operation was not answered.
    pub within: Duration,
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
pub(super) fn sometimes(
    raw: Vec<RawSometimes>,
    probe: Option<&ProbeConfig>,
) -> Words<Vec<Sometimes>> {
    let roles = probe.map_or(&[][..], |probe| &probe.roles);
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

/// Which clients take turns, and in which order. Errors know their place.
pub(super) fn turns(
    raw: Option<Spanned<Vec<Spanned<String>>>>,
    within_s: Option<f64>,
    clients: &[SidedClient],
) -> std::result::Result<Option<ClientTurns>, Wrong> {
    let Some(raw) = raw else {
        let what =
            "turn_within_s is of no use without turns, which names the clients that take turns";
        return within_s.map_or(Ok(None), |_| Err(what.to_owned().into()));
    };
    let wrong = |what: String| Wrong::exactly(&raw, format!("turns: {what}"));
    let place = |name: &Spanned<String>| {
        let mut all = clients.iter();
        let found = all.position(|client| client.name == *name.get_ref());
        found.ok_or_else(|| Wrong::exactly(name, no_client(name.get_ref(), clients)))
    };
    let order: Vec<_> = raw.get_ref().iter().map(place).collect::<Result<_, _>>()?;
    if order.is_empty() {
        return Err(wrong("it has to name clients".into()));
    }
    let within = seconds(within_s, TURN_WITHIN_S).map_err(wrong)?;
    Ok(Some(ClientTurns { order, within }))
}

fn no_client(name: &str, clients: &[SidedClient]) -> String {
    let known: Vec<_> = clients.iter().map(|client| &*client.name).collect();
    if known.is_empty() {
        return format!("turns: there is no client {name}, as the file has no [[clients]]");
    }
    format!(
        "turns: there is no client {name}: there are {}",
        known.join(", ")
    )
}
