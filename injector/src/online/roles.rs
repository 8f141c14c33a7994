//! Who has which role: what the probe of the cluster file says.

use std::collections::BTreeMap;
use std::time::Instant;

use cluster::{Background, Cluster, ProbeConfig};

/// Ends an answer of a probe that keeps running.
const END: &[u8] = b"end";

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) role: String,
    /// What follows on the line.
    pub(super) more: String,
}

impl Role {
    /// A number that the probe says first behind the role, such as a term.
    pub(super) fn term(&self) -> Option<u64> {
        self.more.split_whitespace().next()?.parse().ok()
    }
}

/// An answer of the probe.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    /// When it was asked for.
    pub(super) asked: Instant,
    /// By the node's index. One that is not there has none.
    pub(super) of: BTreeMap<usize, Role>,
}

impl Roles {
    /// Those that have a role, the first of the file first.
    pub(super) fn having(&self, role: &str) -> Vec<usize> {
        let all = self.of.iter();
        all.filter(|(_, has)| has.role == role)
            .map(|(node, _)| *node)
            .collect()
    }

    /// The one of them with the highest term, then the first.
    pub(super) fn one_having(&self, role: &str) -> Option<usize> {
        let all = self.having(role);
        let highest = all.iter().map(|node| self.of[node].term()).max()?;
        all.into_iter().find(|node| self.of[node].term() == highest)
    }
}

/// Asks the probe, again and again, without waiting for it.
pub(super) struct Probe {
    config: ProbeConfig,
    /// The client's place that it runs in.
    place: usize,
    running: Option<Background>,
    /// When the question that is open was asked.
    asked: Option<Instant>,
    said: Vec<String>,
    answered: Option<Instant>,
}

impl Probe {
    /// One that runs where a client would, at this place.
    pub(super) fn new(config: &ProbeConfig, place: usize) -> Self {
        Self {
            config: config.clone(),
            place,
            running: None,
            asked: None,
            said: Vec::new(),
            answered: None,
        }
    }

    /// Asks it if it is time to, and returns an answer that has come since, or why there is none.
    pub(super) fn look(&mut self, cluster: &Cluster) -> Option<Result<Roles, String>> {
        let Some(asked) = self.asked else {
            let is_due = |at: Instant| at.elapsed() >= self.config.every;
            if self.answered.is_none_or(is_due)
                && let Err(error) = self.ask(cluster)
            {
                self.answered = Some(Instant::now());
                return Some(Err(error.to_string()));
            }
            return None;
        };
        let whole = self.hear();
        let late = asked.elapsed() > self.config.within;
        let answer = match whole {
            Ok(true) => parse(&self.said, asked, cluster),
            Ok(false) if late => {
                self.running = None;
                Err(format!("it did not answer within {:?}", self.config.within))
            }
            Ok(false) => return None,
            Err(why) => {
                self.running = None;
                Err(why)
            }
        };
        self.asked = None;
        self.answered = Some(Instant::now());
        self.said.clear();
        Some(answer)
    }

    fn ask(&mut self, cluster: &Cluster) -> cluster::Result<()> {
        if self.running.is_none() {
            let client = cluster.client(self.place);
            let command = client.command(&self.config.command);
            self.running = Some(Background::start("the probe", command, &client.log())?);
        }
        self.asked = Some(Instant::now());
        if let Some(running) = self.running.as_mut().filter(|_| self.config.serve) {
            running.ask("roles");
        }
        Ok(())
    }

    /// Takes what it has said. Whether its answer is whole.
    fn hear(&mut self) -> Result<bool, String> {
        let running = self.running.as_mut().expect("it was asked");
        let lines = running.lines().map_err(|error| error.to_string())?;
        for line in lines {
            if self.config.serve && line == END {
                return Ok(true);
            }
            self.said.push(String::from_utf8_lossy(&line).into_owned());
        }
        let ended = running.ended().map_err(|error| error.to_string())?;
        match ended {
            None => Ok(false),
            Some(cluster::Ending::Status(0)) if !self.config.serve => {
                self.running = None;
                Ok(true)
            }
            Some(how) => Err(format!("it {how}")),
        }
    }
}

/// What lines `NODE ROLE …` say.
fn parse(said: &[String], asked: Instant, cluster: &Cluster) -> Result<Roles, String> {
    let mut of = BTreeMap::new();
    for line in said {
        let (node, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let (role, more) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        let file = cluster.file();
        let known = file.probe.as_ref().map_or(&[][..], |probe| &probe.roles);
        match file.place(node) {
            Some(node) if known.iter().any(|known| known == role) => {
                let more = more.trim().to_owned();
                let role = role.to_owned();
                of.insert(node, Role { role, more });
            }
            _ => {
                return Err(format!(
                    "it says `{line}`, which is no NODE ROLE of this cluster"
                ));
            }
        }
    }
    Ok(Roles { asked, of })
}
