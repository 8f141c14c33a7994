//! The cluster file: a system, in TOML.

mod simulated;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::User;
use serde::Deserialize;
use toml::Spanned;

use self::simulated::RawSimulated;
pub use self::simulated::SimulatedConfig;
pub use self::steps::Step;
use self::steps::{Names, RawStep};
use crate::error::{Error, Result};
use crate::network;
use crate::words::{Values, find_program};

mod clients;
mod histories;

pub use clients::{ProbeConfig, Side, SidedClient, Sometimes};
use clients::{RawProbe, RawSidedClient, RawSometimes};
use histories::RawHistory;

/// Where nodes see their directories of data: each its own, under its name.
pub const DIRECTORY: &str = "/run/crashpoint";

/// What the environment variable with a node's address starts with; the node's name follows, in
/// capitals and with underscores.
pub const ADDRESS_VARIABLE: &str = "CRASHPOINT_NODE_";

/// The environment variable by which a check knows how many times as long as usual it should wait.
pub const PATIENCE_VARIABLE: &str = "CRASHPOINT_PATIENCE";

/// The name that the client has in the network.
pub const CLIENT: &str = "client";

/// More than one machine serves.
const NODES_MAX: usize = 200;

/// The kernel allows 64 bytes.
const NAME_BYTES_MAX: usize = 32;

const READY_WITHIN_S: f64 = 30.0;
const STOP_WITHIN_S: f64 = 10.0;
const STEP_WITHIN_S: f64 = 120.0;
const CLIENT_WITHIN_S: f64 = 300.0;
const CHECK_WITHIN_S: f64 = 60.0;

/// A system, as a cluster file describes it.
#[derive(Debug, Clone)]
pub struct ClusterFile {
    /// The text, in which `{here}` has been replaced by the folder: it can be parsed anywhere.
    pub text: String,
    /// The folder of the file. The client and the check run there.
    pub folder: PathBuf,
    /// Which combinations of disks are worth a look.
    pub explore: Explore,
    /// The file system that each node's data is on, if not that of the directory it is given.
    pub disk: Option<String>,
    /// The nodes, in the order of the file.
    pub nodes: Vec<NodeConfig>,
    /// What is run once while the cluster is started for the first time, in their order.
    pub steps: Vec<Step>,
    /// What is run once where the client is, when the cluster is up for the first time. A recording
    /// begins after that, with the cluster started again; without it, with directories that are
    /// new.
    pub prepare: Option<Vec<String>>,
    /// How long nodes that are started before others are alone, ready or not; if nothing is said,
    /// until they are ready, or for a while.
    pub first_alone: Option<Duration>,
    /// What makes the cluster work.
    pub client: Option<ClientConfig>,
    /// What makes it work while faults are injected, if that is not the client.
    pub clients: Vec<SidedClient>,
    /// What says which role each node has.
    pub probe: Option<ProbeConfig>,
    /// What should happen in some run with faults.
    pub sometimes: Vec<Sometimes>,
    /// What judges it.
    pub check: Option<Check>,
    /// What its machines are like where it is simulated.
    pub simulated: SimulatedConfig,
    /// What is promised of the objects that clients work with: what they saw judges it, too.
    pub histories: Vec<history::Rule>,
    /// How many times as long as the file says nodes and check may take. The check is told so
    /// ([`PATIENCE_VARIABLE`]), for it may have a patience of its own.
    pub patience: u32,
}

/// Which combinations of disks are worth a look (PACE, section 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explore {
    /// All nodes do the same: a majority stands for all others of its size.
    ReplicatedStateMachine {
        /// How many of the nodes are one.
        majority: usize,
    },
    /// One node leads, and the others follow it.
    PrimaryReplicas {
        /// Its place in [`ClusterFile::nodes`].
        primary: usize,
    },
}

/// A node, as the cluster file describes it.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Its name, in the network too.
    pub name: String,
    /// The kind of nodes that it is one of, if the file tells some from others.
    pub kind: Option<String>,
    /// Its address, which is the same each time.
    pub address: Ipv4Addr,
    /// The command that it is: it stays in the foreground.
    pub command: Vec<String>,
    /// The user that it and its setup run as, and who owns its directory; root if there is none.
    pub user: Option<String>,
    /// What is added to the environment.
    pub environment: BTreeMap<String, String>,
    /// Whether it has a directory of data.
    pub has_data: bool,
    /// Files that are written into a new directory: path in it, and content.
    pub files: BTreeMap<PathBuf, String>,
    /// Commands that are run in it before the node is started for the first time.
    pub setup: Vec<Vec<String>>,
    /// How one knows that it is ready; it is at once if there is nothing.
    pub ready: Option<Ready>,
    /// How long it may take until then.
    pub ready_within: Duration,
    /// How it is asked to stop.
    pub stop: Signal,
    /// How long it may take to, before it is killed.
    pub stop_within: Duration,
    /// The nodes that have to be ready before it is started, by their places.
    pub after: Vec<usize>,
    /// The steps that have to be done before it is started for the first time, by their places.
    pub after_steps: Vec<usize>,
}

impl NodeConfig {
    /// Where it sees its directory of data.
    pub fn directory(&self) -> PathBuf {
        Path::new(DIRECTORY).join(&self.name)
    }
}

/// How one knows that a node is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// A command that is run where the node is ends with status 0.
    Command(Vec<String>),
    /// Somebody answers at a port of it.
    Port(u16),
    /// A line of its log has this in it.
    Log(String),
}

/// What makes the cluster work: each line that it prints is an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// The command.
    pub command: Vec<String>,
    /// How long it may take.
    pub within: Duration,
}

/// What says whether the cluster holds what it promised.
#[derive(Debug, Clone)]
pub struct Check {
    /// The command, in which `{acks}` is still to be filled.
    command: String,
    values: Values,
    /// Whether it keeps running and answers for one state after the other.
    pub serve: bool,
    /// How long it may take for one state.
    pub within: Duration,
}

impl Check {
    /// Its words, where the file with the acknowledgements is at `acks`.
    ///
    /// # Errors
    /// If the command has `{acks}` and there is no such file, as for one that keeps running.
    pub fn command(&self, acks: Option<&Path>) -> Result<Vec<String>> {
        let mut values = self.values.clone();
        values
            .0
            .extend(acks.map(|acks| ("acks".to_owned(), acks.display().to_string())));
        let command = values.command(&self.command);
        command.map_err(|what| Error::Command {
            whose: "the check".into(),
            what: format!("cannot be run: {what}"),
        })
    }
}

impl ClusterFile {
    /// Reads one, and looks whether the programs that it names are there.
    ///
    /// # Errors
    /// With the line, if it does not follow the syntax; with the name, if something is not there.
    pub fn read(path: &Path) -> Result<Self> {
        let unreadable = |error| Error::Unreadable {
            path: path.into(),
            error,
        };
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let folder = path
            .canonicalize()
            .map_err(unreadable)?
            .parent()
            .expect("a file is in a folder")
            .to_owned();
        if folder
            .display()
            .to_string()
            .contains(['"', '\'', '\\', '{', ' ', '\n'])
        {
            let what = format!(
                "its folder {} has a character that could be taken for TOML",
                folder.display()
            );
            return Err(Error::Meaning {
                path: path.into(),
                what,
            });
        }
        let text = text.replace("{here}", &folder.display().to_string());
        let file = Self::parse(&text, path, &folder)?;
        file.look_for_programs()?;
        Ok(file)
    }

    /// Takes the text of one apart. `path` is for messages.
    ///
    /// # Errors
    /// With the line, if it does not follow the syntax.
    pub fn parse(text: &str, path: &Path, folder: &Path) -> Result<Self> {
        let raw: RawFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Error::Syntax {
                path: path.into(),
                line: line_of(text, at),
                what: error.message().trim().replace('\n', " "),
            }
        })?;
        raw.settle(text, folder).map_err(|wrong| match wrong.at {
            None => Error::Meaning {
                path: path.into(),
                what: wrong.what,
            },
            Some(at) => Error::Syntax {
                path: path.into(),
                line: line_of(text, at),
                what: wrong.what,
            },
        })
    }

    /// The place of the node with a name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The nodes that a name stands for: one, or all of a kind.
    pub fn members(&self, name: &str) -> Option<Vec<usize>> {
        steps::members(&self.nodes, name)
    }

    /// Whether something is done with the cluster when it is up for the first time, before anybody
    /// works with it. A recording begins after that.
    pub fn is_prepared(&self) -> bool {
        self.prepare.is_some() || !self.steps.is_empty()
    }

    /// The same cluster, whose nodes and check have `times` as long for all that they do.
    #[must_use]
    pub fn patient(&self, times: u32) -> Self {
        let mut file = self.clone();
        file.patience *= times;
        file.nodes
            .iter_mut()
            .for_each(|node| node.ready_within *= times);
        file.check
            .iter_mut()
            .for_each(|check| check.within *= times);
        file
    }

    /// What makes it work while faults are injected: all of [`Self::clients`], or the client.
    pub fn all_clients(&self) -> Vec<SidedClient> {
        let only = self.client.iter().map(|config| SidedClient {
            name: CLIENT.into(),
            config: config.clone(),
            side: Side::Both,
            endless: false,
        });
        if self.clients.is_empty() {
            only.collect()
        } else {
            self.clients.clone()
        }
    }

    /// The client.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn the_client(&self) -> Result<&ClientConfig> {
        self.client.as_ref().ok_or_else(|| not_there("the client"))
    }

    /// The check.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn the_check(&self) -> Result<&Check> {
        self.check.as_ref().ok_or_else(|| not_there("the check"))
    }

    /// What a client and the check have in their environment.
    pub fn client_environment(&self) -> impl Iterator<Item = (String, String)> {
        let patience = (PATIENCE_VARIABLE.to_owned(), self.patience.to_string());
        self.addresses().chain([patience])
    }

    /// The environment variables that say where the nodes are.
    pub fn addresses(&self) -> impl Iterator<Item = (String, String)> {
        let variable = |name: &str| {
            format!(
                "{ADDRESS_VARIABLE}{}",
                name.to_uppercase().replace('-', "_")
            )
        };
        self.nodes
            .iter()
            .map(move |node| (variable(&node.name), node.address.to_string()))
    }

    /// Looks whether the programs that it names are there.
    ///
    /// # Errors
    /// With the name of one that is not.
    pub fn look_for_programs(&self) -> Result<()> {
        let own_path = std::env::var("PATH").unwrap_or_default();
        for node in &self.nodes {
            let path = node.environment.get("PATH").unwrap_or(&own_path);
            let ready = node.ready.iter().filter_map(|ready| match ready {
                Ready::Command(words) => Some(words),
                _ => None,
            });
            // What the setup brings along in the directory is not there yet.
            let commands = [&node.command].into_iter().chain(&node.setup).chain(ready);
            for words in commands.filter(|words| !words[0].starts_with(DIRECTORY)) {
                look_for(&format!("node {}", node.name), words, path, Path::new("/"))?;
            }
        }
        for step in &self.steps {
            let folder = if step.on.is_some() {
                Path::new("/")
            } else {
                &self.folder
            };
            if !step.command[0].starts_with(DIRECTORY) {
                let whose = format!("step {}", step.name);
                look_for(&whose, &step.command, &own_path, folder)?;
            }
        }
        for (whose, words) in self.commands_outside()? {
            look_for(&whose, &words, &own_path, &self.folder)?;
        }
        Ok(())
    }

    /// The commands that no node runs and no step is, with who has them.
    fn commands_outside(&self) -> Result<Vec<(String, Vec<String>)>> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        all.extend(
            self.prepare
                .iter()
                .map(|words| ("prepare".into(), words.clone())),
        );
        let client = self.client.iter();
        all.extend(client.map(|client| ("the client".into(), client.command.clone())));
        all.extend(self.clients.iter().map(|client| {
            let whose = format!("client {}", client.name);
            (whose, client.config.command.clone())
        }));
        let probe = self.probe.iter();
        all.extend(probe.map(|probe| ("the probe".into(), probe.command.clone())));
        if let Some(check) = &self.check {
            let words = check.command(Some(Path::new("acks")))?;
            all.push(("the check".into(), words));
        }
        Ok(all)
    }
}

/// Fails if there is no program that a command names.
fn look_for(whose: &str, words: &[String], path: &str, folder: &Path) -> Result<()> {
    match find_program(&words[0], path, folder) {
        Some(_) => Ok(()),
        None => Err(Error::NoProgram {
            whose: whose.to_owned(),
            program: words[0].clone(),
        }),
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

fn not_there(whose: &str) -> Error {
    Error::Command {
        whose: whose.into(),
        what: "is not in the cluster file".into(),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    explore: RawExplore,
    disk: Option<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    nodes: Vec<Spanned<RawNode>>,
    #[serde(default)]
    steps: Vec<Spanned<RawStep>>,
    prepare: Option<String>,
    first_alone_s: Option<f64>,
    client: Option<RawClient>,
    #[serde(default)]
    clients: Vec<RawSidedClient>,
    probe: Option<RawProbe>,
    #[serde(default)]
    sometimes: Vec<RawSometimes>,
    check: Option<RawCheck>,
    #[serde(default)]
    simulated: RawSimulated,
    #[serde(default)]
    histories: Vec<RawHistory>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawExplore {
    /// Nodes of which the smallest majority decides.
    #[default]
    #[serde(alias = "rsm")]
    ReplicatedStateMachine,
    /// The same with another size of it.
    Majority(usize),
    /// The name of the node that leads.
    Primary(String),
}

/// A node, or several that are alike.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    name: Option<String>,
    #[serde(default)]
    names: Vec<String>,
    kind: Option<String>,
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
    #[serde(default)]
    after: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawReady {
    Command(String),
    Port(u16),
    Log(String),
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

type Words<T> = std::result::Result<T, String>;

/// What is wrong, and where in the text, if that is known.
#[derive(Debug)]
struct Wrong {
    at: Option<usize>,
    what: String,
}

impl Wrong {
    /// It is in a part of the file.
    fn at<T>(part: &Spanned<T>) -> impl FnOnce(String) -> Self + use<T> {
        let at = Some(part.span().start);
        move |what| Self { at, what }
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self { at: None, what }
    }
}

impl RawFile {
    /// What it means. Errors are words that fit after the file's name, and its line.
    fn settle(self, text: &str, folder: &Path) -> std::result::Result<ClusterFile, Wrong> {
        let names = self.names()?;
        let values = Values::of_addresses(&names);
        let nodes = self.nodes(&values)?;
        let steps = self.steps(&nodes, &values)?;
        let explore = self.explore(&nodes)?;
        let prepare = self.prepare(&values)?;
        let first_alone = self.first_alone()?;
        let client = self.client.map(|raw| raw.settle(&values)).transpose()?;
        let probe = self.probe.map(|raw| clients::probe(raw, &values, &names));
        let probe = probe.transpose()?;
        let roles = probe.as_ref().map_or(&[][..], |probe| &probe.roles);
        let check = self.check.map(|raw| raw.settle(&values)).transpose()?;
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
            clients: clients::clients(self.clients, &values)?,
            sometimes: clients::sometimes(self.sometimes, roles)?,
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

    fn explore(&self, nodes: &[NodeConfig]) -> std::result::Result<Explore, Wrong> {
        let count = nodes.len();
        Ok(match self.explore.clone() {
            RawExplore::ReplicatedStateMachine => Explore::ReplicatedStateMachine {
                majority: count / 2 + 1,
            },
            RawExplore::Majority(majority) if (1..=count).contains(&majority) => {
                Explore::ReplicatedStateMachine { majority }
            }
            RawExplore::Majority(majority) => {
                return Err(format!("there is no majority of {majority} of {count} nodes").into());
            }
            RawExplore::Primary(name) => Explore::PrimaryReplicas {
                primary: only(&Names::of(nodes, self).nodes(&[name])?)?,
            },
        })
    }

    /// The names of all nodes.
    fn names(&self) -> std::result::Result<Vec<String>, Wrong> {
        let mut seen = BTreeSet::new();
        for raw in &self.nodes {
            let (wrong, raw) = (|what: String| Wrong::at(raw)(what), raw.get_ref());
            if raw.name.is_some() != raw.names.is_empty() {
                let what = "each of [[nodes]] has either a name or names";
                return Err(wrong(what.into()));
            }
            for name in raw.names() {
                check_name(name).map_err(wrong)?;
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

impl RawNode {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.name.iter().chain(&self.names).map(String::as_str)
    }

    fn settle(
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
}

/// What is replaced in the commands of a node.
fn own_values(values: &Values, place: usize, name: &str, has_data: bool) -> Values {
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

/// The one of them.
fn only(nodes: &[usize]) -> Words<usize> {
    match nodes {
        [node] => Ok(*node),
        _ => Err(format!("one node is primary, and not {}", nodes.len())),
    }
}

/// A name is a host's name too.
fn check_name(name: &str) -> Words<()> {
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

fn seconds(given: Option<f64>, default: f64) -> Words<Duration> {
    let seconds = given.unwrap_or(default);
    let duration = Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("{seconds} is no number of seconds to wait"))
}

#[cfg(test)]
mod tests;
