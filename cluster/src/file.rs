//! The cluster file: a system, in TOML.

mod clients;
mod histories;
mod logs;
mod node;
mod probe;
mod raw;
mod simulated;
mod steps;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

pub use self::clients::{ClientTurns, Side, SidedClient, Sometimes};
pub use self::logs::LogErrors;
pub use self::probe::{LogRole, ProbeConfig, ProbeKind};
use self::raw::RawFile;
pub use self::simulated::SimulatedConfig;
pub use self::steps::Step;
use crate::error::{Error, Result};
use crate::process::Ending;
use crate::words::{Values, find_program};

/// Where nodes see their directories of data: each its own, under its name.
pub const DIRECTORY: &str = "/run/crashpoint";

/// What the environment variable with a node's address starts with; the node's name follows, in
/// capitals and with underscores.
pub const ADDRESS_VARIABLE: &str = "CRASHPOINT_NODE_";

/// The environment variable by which a check knows how many times as long as usual it should wait.
pub const PATIENCE_VARIABLE: &str = "CRASHPOINT_PATIENCE";

/// The name that the client has in the network.
pub const CLIENT: &str = "client";

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
    /// Which of them work one after the other.
    pub turns: Option<ClientTurns>,
    /// What says which role each node has.
    pub probe: Option<ProbeConfig>,
    /// What should happen in some run with faults.
    pub sometimes: Vec<Sometimes>,
    /// Which lines of logs are errors that nobody expects, while faults are injected.
    pub logs: Vec<LogErrors>,
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
        /// How many of the nodes are one, if that is said. Else it is the smallest of those with files,
        /// and each node alone and all of them at once are worth a look, too.
        majority: Option<usize>,
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
    /// How it may end by itself, if that is said: every other end breaks what the file promises then.
    pub may_end: Option<Vec<Ending>>,
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

    /// Whether it may end by itself as these words say ([`Ending`]). Nothing if the file does not say that, or
    /// the words are of no status and no signal: `may_end` cannot name that, such as a kernel that gave up.
    pub fn may_end(&self, how: &str) -> Option<bool> {
        let may_end = self.may_end.as_ref()?;
        Ending::is_known(how).then(|| may_end.iter().any(|ending| ending.to_string() == how))
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
    /// It answers by HTTP that all is well: this command of this program, which is run where the node is,
    /// ends with status 0 then.
    Http {
        /// Its words.
        words: Vec<String>,
        /// Where it asks.
        url: String,
    },
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
        Self::read_for(path, &own_path())
    }

    /// The same for somebody who has this `PATH`.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn read_for(path: &Path, search: &str) -> Result<Self> {
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
        file.look_in(search)?;
        Ok(file)
    }

    /// Takes the text of one apart. `path` is for messages.
    ///
    /// # Errors
    /// With the line, and the column if that is known, if it does not follow the syntax.
    pub fn parse(text: &str, path: &Path, folder: &Path) -> Result<Self> {
        let raw: RawFile = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Error::Syntax {
                path: path.into(),
                line: line_of(text, at),
                column: error.span().map(|_| column_of(text, at)),
                what: in_words(error.message()),
            }
        })?;
        raw.settle(text, folder)
            .map_err(|wrong| match wrong.place(text) {
                None => Error::Meaning {
                    path: path.into(),
                    what: wrong.what,
                },
                Some(at) => Error::Syntax {
                    path: path.into(),
                    line: line_of(text, at),
                    column: wrong.is_exact.then(|| column_of(text, at)),
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
        file.turns
            .iter_mut()
            .for_each(|turns| turns.within *= times);
        file
    }

    /// What makes it work while faults are injected: all of [`Self::clients`], or the client.
    pub fn all_clients(&self) -> Vec<SidedClient> {
        let only = self.client.iter().map(|config| SidedClient {
            name: CLIENT.into(),
            config: config.clone(),
            side: Side::Both,
            endless: false,
            ends_within: Duration::from_secs_f64(clients::ENDS_WITHIN_S),
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
        let missing = || match &self.clients[..] {
            [] => not_there("the client"),
            _ => Error::Command {
                whose: "[client]".into(),
                what:
                    "is not in the cluster file, and [[clients]] work for `crashpoint inject` only"
                        .into(),
            },
        };
        self.client.as_ref().ok_or_else(missing)
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
        self.look_in(&own_path())
    }

    fn look_in(&self, search: &str) -> Result<()> {
        let commands = self.commands(search)?;
        // What the setup brings along in the directory is not there yet.
        let is_there = |command: &FileCommand| {
            (command.is_in_node && command.words[0].starts_with(DIRECTORY))
                || command.program().is_some()
        };
        match commands.into_iter().find(|command| !is_there(command)) {
            None => Ok(()),
            Some(command) => Err(Error::NoProgram {
                whose: command.whose,
                program: command.words[0].clone(),
            }),
        }
    }

    /// All commands that it has, of somebody who has this `PATH`.
    ///
    /// # Errors
    /// If one cannot be told.
    pub(crate) fn commands(&self, search: &str) -> Result<Vec<FileCommand>> {
        let mut all = self.commands_of_nodes(search);
        for step in &self.steps {
            let is_in_node = step.on.is_some();
            let folder = if is_in_node {
                "/".into()
            } else {
                self.folder.clone()
            };
            all.push(FileCommand {
                whose: format!("step {}", step.name),
                words: step.command.clone(),
                path: search.to_owned(),
                folder,
                is_in_node: true,
            });
        }
        let outside = self.commands_outside()?.into_iter();
        all.extend(outside.map(|(whose, words)| FileCommand {
            whose,
            words,
            path: search.to_owned(),
            folder: self.folder.clone(),
            is_in_node: false,
        }));
        Ok(all)
    }

    /// Those of nodes.
    fn commands_of_nodes(&self, search: &str) -> Vec<FileCommand> {
        let mut all = Vec::new();
        for node in &self.nodes {
            let path = node.environment.get("PATH").map_or(search, String::as_str);
            let ready = node.ready.iter().filter_map(|ready| match ready {
                Ready::Command(words) => Some(words),
                _ => None,
            });
            let commands = [&node.command].into_iter().chain(&node.setup).chain(ready);
            all.extend(commands.map(|words| FileCommand {
                whose: format!("node {}", node.name),
                words: words.clone(),
                path: path.to_owned(),
                folder: "/".into(),
                is_in_node: true,
            }));
        }
        all
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
        all.extend(probe.filter_map(|probe| match &probe.kind {
            ProbeKind::Command { words, .. } => Some(("the probe".into(), words.clone())),
            ProbeKind::Http { .. } | ProbeKind::Log(_) => None,
        }));
        if let Some(check) = &self.check {
            let words = check.command(Some(Path::new("acks")))?;
            all.push(("the check".into(), words));
        }
        Ok(all)
    }
}

/// A command of a cluster file.
#[derive(Debug)]
pub(crate) struct FileCommand {
    /// What it is for.
    pub(crate) whose: String,
    /// Its words.
    pub(crate) words: Vec<String>,
    /// Where its program is looked for.
    path: String,
    /// The directory in which it runs.
    folder: PathBuf,
    /// Whether it may see the directory of a node.
    is_in_node: bool,
}

impl FileCommand {
    /// Where its program is, if it is there.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        find_program(&self.words[0], &self.path, &self.folder)
    }
}

/// What TOML has to say, in TOML's words for what is expected.
fn in_words(message: &str) -> String {
    let what = message.trim().replace('\n', " ");
    let Some((before, expected)) = what.rsplit_once("expected ") else {
        return what;
    };
    let expected = match expected {
        "f64" => "a number",
        "u64" | "usize" | "u32" | "u16" | "u8" => "a whole number",
        "a sequence" => "an array",
        "a map" => "a table",
        other => other,
    };
    format!("{before}expected {expected}")
}

/// Where programs are looked for, for us.
fn own_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// In characters, from 1.
fn column_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.chars().count() + 1
}

fn not_there(whose: &str) -> Error {
    Error::Command {
        whose: whose.into(),
        what: "is not in the cluster file".into(),
    }
}

#[cfg(test)]
mod tests;
