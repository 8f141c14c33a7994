//! A node of a cluster file, and what it means.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::str::FromStr;

use nix::sys::signal::Signal;
use nix::unistd::User;
use serde::Deserialize;

use super::raw::{Words, seconds};
use super::{CLIENT, DIRECTORY, NodeConfig, Ready};
use crate::ask::answers_words;
use crate::http::Url;
use crate::network;
use crate::process::Ending;
use crate::words::Values;

/// The kernel allows 64 bytes.
const NAME_BYTES_MAX: usize = 32;

const READY_WITHIN_S: f64 = 30.0;
const STOP_WITHIN_S: f64 = 10.0;

/// A node, or several that are alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNode {
    name: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    pub(super) kind: Option<String>,
    command: String,
    user: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    data: Option<bool>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    setup: Vec<String>,
    ready: Option<RawReady>,
    ready_within_s: Option<f64>,
    stop: Option<String>,
    stop_within_s: Option<f64>,
    may_end: Option<Vec<String>>,
    #[serde(default)]
    pub(super) after: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawReady {
    Command(String),
    Port(u16),
    Log(String),
    Http(String),
}

impl RawNode {
    /// Whether it has either a name or names.
    pub(super) fn is_named(&self) -> bool {
        self.name.is_some() == self.names.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.names).map(String::as_str)
    }

    pub(super) fn settle(
        &self,
        place_of_it: usize,
        name: &str,
        values: &Values,
        common: &BTreeMap<String, String>,
    ) -> Words<NodeConfig> {
        let has_data = self.data.unwrap_or(true);
        let values = own_values(values, place_of_it, name, has_data);
        let here = |what: String| format!("node {name}: {what}");
        let command = |text: &String| values.command(text).map_err(here);
        self.refuse_unknown_user().map_err(here)?;
        let environment = self.environment(common, &values).map_err(here)?;
        let files = self.files(&values, has_data).map_err(here)?;
        let ready = self.ready(&values).map_err(here)?;
        Ok(NodeConfig {
            name: name.to_owned(),
            kind: self.kind.clone(),
            address: network::address(place_of_it as u8 + 1),
            command: command(&self.command)?,
            user: self.user.clone(),
            environment,
            has_data,
            files,
            setup: self.setup.iter().map(command).collect::<Words<_>>()?,
            ready,
            ready_within: seconds(self.ready_within_s, READY_WITHIN_S)?,
            stop: self.stop_signal().map_err(here)?,
            stop_within: seconds(self.stop_within_s, STOP_WITHIN_S)?,
            may_end: self.may_end().map_err(here)?,
            // These may be of nodes that come later.
            after: Vec::new(),
            after_steps: Vec::new(),
        })
    }

    fn files(&self, values: &Values, has_data: bool) -> Words<BTreeMap<PathBuf, String>> {
        if !self.files.is_empty() && !has_data {
            return Err("it has files, and data = false".into());
        }
        let files = self.files.iter();
        let files = files.map(|(path, content)| Ok((inner_path(path)?, values.fill(content)?)));
        files.collect()
    }

    fn environment(
        &self,
        common: &BTreeMap<String, String>,
        values: &Values,
    ) -> Words<BTreeMap<String, String>> {
        let all = common.iter().chain(&self.environment);
        all.map(|(key, value)| Ok((key.clone(), values.fill(value)?)))
            .collect()
    }

    fn ready(&self, values: &Values) -> Words<Option<Ready>> {
        let ready = self.ready.as_ref().map(|ready| {
            Ok(match ready {
                RawReady::Command(text) => Ready::Command(values.command(text)?),
                RawReady::Port(port) => Ready::Port(*port),
                RawReady::Log(text) => Ready::Log(values.fill(text)?),
                RawReady::Http(text) => ready_by_http(&values.fill(text)?, values)?,
            })
        });
        ready.transpose()
    }

    fn refuse_unknown_user(&self) -> Words<()> {
        let Some(user) = &self.user else {
            return Ok(());
        };
        let found = User::from_name(user).map_err(|error| format!("user {user}: {error}"))?;
        match found {
            Some(_) => Ok(()),
            None => Err(format!("there is no user {user} on this machine")),
        }
    }

    fn stop_signal(&self) -> Words<Signal> {
        let name = self.stop.as_deref().unwrap_or("SIGTERM");
        Signal::from_str(name).map_err(|_| format!("{name} is no signal, such as SIGTERM"))
    }

    fn may_end(&self) -> Words<Option<Vec<Ending>>> {
        let may_end = self.may_end.as_ref();
        let settled = may_end.map(|all| all.iter().map(|text| ending(text)).collect());
        settled.transpose()
    }
}

/// An end, as a cluster file has it: `status 1`, or the name of a signal. A status that stands for a signal
/// is that one.
fn ending(text: &str) -> Words<Ending> {
    let status = text.strip_prefix("status ").map(u8::from_str);
    match (status, Signal::from_str(text)) {
        (Some(Ok(status)), _) => Ok(Ending::from(ExitStatus::from_raw(i32::from(status) << 8))),
        (None, Ok(signal)) => Ok(Ending::Signal(signal)),
        _ => Err(format!(
            "may_end: {text} is no end, such as \"status 1\" or \"SIGABRT\""
        )),
    }
}

/// What is replaced in the commands of a node.
pub(super) fn own_values(values: &Values, place: usize, name: &str, has_data: bool) -> Values {
    let number = place as u8 + 1;
    let own = [
        ("name", name.to_owned()),
        ("number", number.to_string()),
        ("address", network::address(number).to_string()),
        ("dir", format!("{DIRECTORY}/{name}")),
    ];
    let own = own.into_iter().filter(|(key, _)| has_data || *key != "dir");
    let mut values = values.clone();
    values.0.extend(own.map(|(key, value)| (key.into(), value)));
    values
}

/// A name is a host's name too.
pub(super) fn check_name(name: &str) -> Words<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty()
        || name.len() > NAME_BYTES_MAX
        || !name.bytes().all(plain)
        || name.starts_with('-')
    {
        return Err(format!(
            "\"{name}\" cannot be a node's name: small letters, digits and hyphens can"
        ));
    }
    // The last four are logs, and a directory beside those of the nodes.
    if [CLIENT, "localhost", "prepare", "steps", "check", "log"].contains(&name) {
        return Err(format!("a node cannot be called {name}"));
    }
    Ok(())
}

/// That of a node is also that of a log.
pub(super) fn check_node_name(name: &str) -> Words<()> {
    check_name(name)?;
    // These are other logs of simulated machines.
    if ["ready", "look"].contains(&name) {
        return Err(format!("a node cannot be called {name}"));
    }
    Ok(())
}

/// It is asked where the node is, so it may have its own host there, too.
fn ready_by_http(text: &str, values: &Values) -> Words<Ready> {
    let url = Url::parse(text, &|host| {
        let is_own = host == "localhost" || host == Ipv4Addr::LOCALHOST.to_string();
        let own = is_own.then_some(Ipv4Addr::LOCALHOST);
        own.or_else(|| address_of(host, values))
    });
    let url = url.map_err(|what| format!("ready: {what}"))?;
    Ok(Ready::Http {
        words: answers_words(&url),
        url: url.text(),
    })
}

/// The address of a node that is named so, or has it.
pub(super) fn address_of(host: &str, values: &Values) -> Option<Ipv4Addr> {
    let named = values.0.get(&format!("address:{host}"));
    let mut others = values.0.iter();
    let is_of_node = |(key, address): &(&String, &String)| {
        key.starts_with("address:") && address.as_str() == host
    };
    let found = named.or_else(|| others.find(is_of_node).map(|(_, address)| address));
    found.and_then(|address| address.parse().ok())
}

/// A path that stays in the directory.
fn inner_path(path: &str) -> Words<PathBuf> {
    let path = PathBuf::from(path);
    let inside = path
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    if inside && !path.as_os_str().is_empty() {
        Ok(path)
    } else {
        Err(format!(
            "a file's path is relative to {{dir}}, without dots: {}",
            path.display()
        ))
    }
}
