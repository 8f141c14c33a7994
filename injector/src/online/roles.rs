//! Who has which role: what the probe of the cluster file says.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::{ClusterFile, NO_ANSWER, ProbeConfig, ProbeKind};

use super::ground::{Ground, ProgramId};
use super::logged_roles::LoggedRoles;

/// Ends an answer of a probe that keeps running.
const END: &[u8] = b"end";

/// What the first number behind a role is called.
const TERM: &str = "term";

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

    /// The value with a name that the probe says behind the role, in a word `NAME=VALUE`, or as the term.
    fn value(&self, name: &str) -> Option<&str> {
        let mut words = self.more.split_whitespace();
        let first = words.clone().next();
        let named = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        named.or_else(|| first.filter(|_| name == TERM && self.term().is_some()))
    }
}

/// An answer of the probe.
#[derive(Debug, Clone)]
pub(super) struct Roles {
    /// When it was asked for.
    pub(super) asked: Duration,
    /// By the node's index. One that is not there has none.
    pub(super) of: BTreeMap<usize, Role>,
    /// Why some of those have none whose answers are wrong.
    pub(super) wrong: Option<String>,
}

impl Roles {
    /// The same, or why it is not known of all nodes what they are.
    pub(super) fn whole(self) -> Result<Self, String> {
        match self.wrong {
            None => Ok(self),
            Some(why) => Err(why),
        }
    }

    /// Those that have a role, the first of the file first.
    pub(super) fn having(&self, role: &str) -> Vec<usize> {
        let all = self.of.iter();
        all.filter(|(_, has)| has.role == role)
            .map(|(node, _)| *node)
            .collect()
    }

    /// The values with a name that nodes have.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let all = self.of.iter();
        all.filter_map(move |(node, role)| Some((*node, role.value(name)?)))
    }

    /// Whether they were asked for after the last fault was put in place, if one was: who had a role before
    /// may have it no more.
    pub(super) fn are_since(&self, placed: Option<Duration>) -> bool {
        placed.is_none_or(|placed| self.asked > placed)
    }

    /// The one of them with the highest term, then the first.
    pub(super) fn one_having(&self, role: &str) -> Option<usize> {
        let all = self.having(role);
        let highest = all.iter().map(|node| self.of[node].term()).max()?;
        all.into_iter().find(|node| self.of[node].term() == highest)
    }
}

/// What the cluster file says that tells roles.
pub(super) enum Probe {
    /// A command is asked.
    Asked(Asked),
    /// Nodes log what they are.
    Logged(LoggedRoles),
}

impl Probe {
    /// One whose command runs where a client would, at this place, if it has one.
    pub(super) fn new(config: &ProbeConfig, place: usize) -> Self {
        let (words, serve, is_of_each) = match &config.kind {
            ProbeKind::Command { words, serve } => (words, *serve, false),
            ProbeKind::Http { words } => (words, true, true),
            ProbeKind::Log(lines) => return Self::Logged(LoggedRoles::new(lines, config.every)),
        };
        Self::Asked(Asked {
            words: words.clone(),
            serve,
            is_of_each,
            within: config.within,
            every: config.every,
            place,
            running: None,
            since: None,
            said: Vec::new(),
            answered: None,
        })
    }

    /// The same on a ground that goes on from here as this one does.
    pub(super) fn forked(&self, ground: &dyn Ground) -> Self {
        match self {
            Self::Asked(asked) => Self::Asked(asked.clone()),
            Self::Logged(logged) => Self::Logged(logged.forked(ground)),
        }
    }

    /// Whether it needs a place like that of a client.
    pub(super) fn needs_place(&self) -> bool {
        matches!(self, Self::Asked(_))
    }

    /// Asks it if it is time to, and returns an answer that has come since, or why there is none. If to
    /// ask costs something, it `rests` for so long after each at least.
    pub(super) fn look(
        &mut self,
        ground: &mut dyn Ground,
        rests: Duration,
    ) -> Option<Result<Roles, String>> {
        match self {
            Self::Asked(asked) => asked.look(ground, rests),
            Self::Logged(logged) => logged.look(ground),
        }
    }
}

/// Asks a command, again and again, without waiting for it.
#[derive(Clone)]
pub(super) struct Asked {
    words: Vec<String>,
    /// Whether it keeps running.
    serve: bool,
    /// Whether it says of each node by itself why its answer is wrong.
    is_of_each: bool,
    within: Duration,
    every: Duration,
    /// The client's place that it runs in.
    place: usize,
    running: Option<ProgramId>,
    /// When the question that is open was asked.
    since: Option<Duration>,
    said: Vec<String>,
    answered: Option<Duration>,
}

impl Asked {
    fn look(&mut self, ground: &mut dyn Ground, rests: Duration) -> Option<Result<Roles, String>> {
        let now = ground.now();
        let Some(asked) = self.since else {
            let is_due = |at: Duration| now >= at + self.every.max(rests);
            if self.answered.is_none_or(is_due)
                && let Err(error) = self.begin(ground)
            {
                self.answered = Some(now);
                return Some(Err(error.to_string()));
            }
            return None;
        };
        let is_late = now > asked + self.within;
        let answer = match self.hear(ground) {
            Ok(true) => self.parse(asked, ground.file()),
            Ok(false) if is_late => {
                self.end(ground);
                Err(format!("it did not answer within {:?}", self.within))
            }
            Ok(false) => return None,
            Err(why) => {
                self.end(ground);
                Err(why)
            }
        };
        self.since = None;
        self.answered = Some(now);
        self.said.clear();
        Some(answer)
    }

    fn begin(&mut self, ground: &mut dyn Ground) -> cluster::Result<()> {
        let running = match self.running {
            Some(running) => running,
            None => ground.run(self.place, "the probe", &self.words, &[])?,
        };
        self.running = Some(running);
        self.since = Some(ground.now());
        if self.serve {
            ground.ask(running, "roles");
        }
        Ok(())
    }

    fn end(&mut self, ground: &mut dyn Ground) {
        if let Some(running) = self.running.take() {
            ground.forget(running);
        }
    }

    /// Takes what it has said. Whether its answer is whole.
    fn hear(&mut self, ground: &mut dyn Ground) -> Result<bool, String> {
        let running = self.running.expect("it was asked");
        let lines = ground.lines(running).map_err(|error| error.to_string())?;
        for (_, line) in lines {
            if self.serve && line == END {
                return Ok(true);
            }
            self.said.push(String::from_utf8_lossy(&line).into_owned());
        }
        let ended = ground.ended(running).map_err(|error| error.to_string())?;
        match ended {
            None => Ok(false),
            Some(cluster::Ending::Status(0)) if !self.serve => {
                self.end(ground);
                Ok(true)
            }
            Some(how) => Err(format!("it {how}")),
        }
    }

    /// What the lines say that it has said.
    fn parse(&self, asked: Duration, file: &ClusterFile) -> Result<Roles, String> {
        let wrong = self.said.iter().filter_map(|line| self.wrong(line));
        let wrong: Vec<_> = wrong.collect();
        let right = self.said.iter().filter(|line| self.wrong(line).is_none());
        let of = right.map(|line| parse(line, file));
        Ok(Roles {
            asked,
            of: of.collect::<Result<_, _>>()?,
            wrong: (!wrong.is_empty()).then(|| wrong.join("; ")),
        })
    }

    /// Why a node has none, if a line says that.
    fn wrong<'a>(&self, line: &'a str) -> Option<&'a str> {
        line.strip_prefix(NO_ANSWER).filter(|_| self.is_of_each)
    }
}

/// What a line `NODE ROLE …` says.
fn parse(line: &str, file: &ClusterFile) -> Result<(usize, Role), String> {
    let (node, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let (role, more) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    let known = file.probe.as_ref().map_or(&[][..], |probe| &probe.roles);
    match file.place(node) {
        Some(node) if known.iter().any(|known| known == role) => {
            let more = more.trim().to_owned();
            let role = role.to_owned();
            Ok((node, Role { role, more }))
        }
        _ => Err(format!(
            "it says `{line}`, which is no NODE ROLE of this cluster"
        )),
    }
}
