//! What says which role each node has: a command, an answer by HTTP, or a line of a log.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use toml::Spanned;

use super::NodeConfig;
use super::node::{address_of, own_values};
use super::raw::{Words, Wrong, seconds};
use super::steps::Names;
use crate::ask::{HttpProbe, one_word};
use crate::http::Url;
use crate::words::Values;

/// How long one answer of the probe may take.
const WITHIN_S: f64 = 10.0;

/// How long one node may take to answer by HTTP.
const NODE_WITHIN_S: f64 = 1.0;

/// How long there is between two questions to it.
const EVERY_S: f64 = 0.1;

/// What a plan calls several nodes, whoever they are.
const SEVERAL: [&str; 6] = ["all", "any", "hit", "majority", "minority", "others"];

/// The value that the first number behind a role is.
const TERM: &str = "term";

/// What says which role each node has.
#[derive(Debug, Clone)]
pub struct ProbeConfig {
    /// How.
    pub kind: ProbeKind,
    /// The roles that there are.
    pub roles: Vec<String>,
    /// How long one answer may take.
    pub within: Duration,
    /// How long there is between an answer and the next question.
    pub every: Duration,
}

/// How one knows which role each node has.
#[derive(Debug, Clone)]
pub enum ProbeKind {
    /// A command of the file prints lines `NODE ROLE`, and behind them what else it knows, such as a term.
    Command {
        /// Its words.
        words: Vec<String>,
        /// Whether it keeps running, and answers each line on its standard input with its lines and
        /// `end`.
        serve: bool,
    },
    /// A command of this program asks nodes by HTTP, and keeps running. It prints such lines, and for
    /// nodes whose answers are wrong others that begin with [`crate::NO_ANSWER`].
    Http {
        /// Its words.
        words: Vec<String>,
    },
    /// Lines that nodes log say so.
    Log(Vec<LogRole>),
}

/// A line of a log that says which role its node has from then on.
#[derive(Debug, Clone)]
pub struct LogRole {
    /// That role, or none.
    pub role: Option<String>,
    line: Regex,
    nodes: Vec<usize>,
}

impl LogRole {
    /// What a line of a node says beside the role, if it says that: the term, and words `NAME=VALUE` of
    /// other named groups.
    pub fn more(&self, node: usize, line: &str) -> Option<String> {
        if !self.nodes.contains(&node) {
            return None;
        }
        let found = self.line.captures(line)?;
        let is_number = |text: &&str| text.parse::<u64>().is_ok();
        let term = found.name(TERM).map(|term| term.as_str());
        let number = term.filter(is_number).map(str::to_owned);
        let names = self.line.capture_names().flatten();
        let names = names.filter(|name| *name != TERM || number.is_none());
        let named = names.filter_map(|name| {
            let value = found.name(name)?.as_str();
            Some(format!("{name}={}", one_word(value)))
        });
        let words: Vec<_> = number.iter().cloned().chain(named).collect();
        Some(words.join(" "))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProbe {
    command: Option<Spanned<String>>,
    serve: Option<Spanned<bool>>,
    http: Option<Spanned<String>>,
    role: Option<Spanned<String>>,
    means: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    term: Option<Spanned<String>>,
    values: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    nodes: Option<Spanned<Vec<String>>>,
    node_within_s: Option<Spanned<f64>>,
    log: Option<Spanned<Vec<RawLogRole>>>,
    roles: Spanned<Vec<String>>,
    within_s: Option<Spanned<f64>>,
    every_s: Option<Spanned<f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLogRole {
    role: Spanned<String>,
    line: Spanned<String>,
    nodes: Option<Spanned<Vec<String>>>,
}

type Settled<T> = Result<T, Wrong>;

/// What is wrong with a part of the probe, exactly there.
fn wrong<T>(part: &Spanned<T>, what: impl Into<String>) -> Wrong {
    Wrong::exactly(part, format!("probe: {}", what.into()))
}

/// What the probe means.
pub(super) fn settle(
    raw: &Spanned<RawProbe>,
    values: &Values,
    nodes: &[NodeConfig],
    names: &Names,
) -> Settled<ProbeConfig> {
    let (place, raw) = (raw, raw.get_ref());
    refuse_wrong_roles(&raw.roles, nodes)?;
    raw.refuse_other_keys()?;
    let kind = match (&raw.command, &raw.http, &raw.log) {
        (Some(command), None, None) => raw.command(command, values)?,
        (None, Some(url), None) => raw.http(place, url, values, nodes, names)?,
        (None, None, Some(lines)) => raw.log(lines, nodes.len(), names)?,
        _ => {
            let what = "it has either command, or http, or [[probe.log]]: one of them says who has which role";
            return Err(wrong(place, what));
        }
    };
    Ok(ProbeConfig {
        kind,
        roles: raw.roles.get_ref().clone(),
        within: time(raw.within_s.as_ref(), WITHIN_S)?,
        every: time(raw.every_s.as_ref(), EVERY_S)?,
    })
}

/// No role may be called as a node or a kind of nodes is, or as what a plan calls several nodes.
fn refuse_wrong_roles(roles: &Spanned<Vec<String>>, nodes: &[NodeConfig]) -> Settled<()> {
    if roles.get_ref().is_empty() {
        return Err(wrong(roles, "roles has to name what it may answer"));
    }
    let is_wrong = |role: &&String| {
        let is_word = !role.is_empty() && !role.contains(char::is_whitespace);
        let is_of_node =
            |node: &NodeConfig| node.name == **role || node.kind.as_ref() == Some(*role);
        !is_word || nodes.iter().any(is_of_node) || SEVERAL.contains(&role.as_str())
    };
    match roles.get_ref().iter().find(is_wrong) {
        None => Ok(()),
        Some(role) => Err(wrong(
            roles,
            format!(
                "\"{role}\" cannot be a role: it is one word, no name of a node or a kind, and none of {}",
                SEVERAL.join(", ")
            ),
        )),
    }
}

fn time(given: Option<&Spanned<f64>>, default: f64) -> Settled<Duration> {
    let settled = seconds(given.map(|given| *given.get_ref()), default);
    settled.map_err(|what| given.map_or_else(|| what.clone().into(), |given| wrong(given, &*what)))
}

/// The name of a key, and where its value is.
type Key = (&'static str, usize);

/// A key, if it is there.
fn key<T>(name: &'static str, value: Option<&Spanned<T>>) -> Option<Key> {
    value.map(|value| (name, value.span().start))
}

/// A JSON pointer (RFC 6901).
fn pointer(raw: &Spanned<String>) -> Settled<String> {
    let text = raw.get_ref();
    let is_rooted = text.is_empty() || text.starts_with('/');
    let mut parts = text.split('~').skip(1);
    if is_rooted && parts.all(|part| part.starts_with(['0', '1'])) {
        return Ok(text.clone());
    }
    Err(wrong(
        raw,
        format!(
            "\"{text}\" is no JSON pointer: it begins with /, and ~0 in it is ~, and ~1 is /, as in \"/raft/state\""
        ),
    ))
}

impl RawProbe {
    /// Its keys that are of a probe by HTTP.
    fn keys_of_http(&self) -> impl Iterator<Item = Key> {
        let keys = [
            key("role", self.role.as_ref()),
            key("means", self.means.as_ref()),
            key("term", self.term.as_ref()),
            key("values", self.values.as_ref()),
            key("nodes", self.nodes.as_ref()),
            key("node_within_s", self.node_within_s.as_ref()),
        ];
        keys.into_iter().flatten()
    }

    /// Fails if there is a key that is of another kind of probe.
    fn refuse_other_keys(&self) -> Settled<()> {
        let http = self.keys_of_http().filter(|_| self.http.is_none());
        let serve = key("serve", self.serve.as_ref()).filter(|_| self.command.is_none());
        let within = key("within_s", self.within_s.as_ref()).filter(|_| self.log.is_some());
        let mut others = http
            .map(|key| (key, "http"))
            .chain(serve.map(|key| (key, "command")))
            .chain(within.map(|key| (key, "command or http")));
        others.next().map_or(Ok(()), |((name, at), of)| {
            let what = format!("probe: {name} goes with {of}, which this probe has not");
            Err(Wrong::exactly_at(at, what))
        })
    }

    fn command(&self, text: &Spanned<String>, values: &Values) -> Settled<ProbeKind> {
        let words = values.command(text.get_ref());
        Ok(ProbeKind::Command {
            words: words.map_err(|what| wrong(text, what))?,
            serve: self.serve.as_ref().is_some_and(|serve| *serve.get_ref()),
        })
    }

    fn http(
        &self,
        place: &Spanned<Self>,
        url: &Spanned<String>,
        values: &Values,
        nodes: &[NodeConfig],
        names: &Names,
    ) -> Settled<ProbeKind> {
        let Some(role) = &self.role else {
            let what = "role has to be the JSON pointer to the value that says the role";
            return Err(wrong(place, what));
        };
        let asked = named(self.nodes.as_ref(), nodes.len(), names)?;
        let asked = asked.into_iter().map(|node| {
            let name = &nodes[node].name;
            let url_of = url_of(url, node, values, nodes)?;
            Ok((name.clone(), url_of))
        });
        let within = time(self.node_within_s.as_ref(), NODE_WITHIN_S)?;
        if within >= time(self.within_s.as_ref(), WITHIN_S)? {
            let what = "within_s has to be more than node_within_s (1 if it is not said): one node that does \
                        not answer would keep all others from being known";
            return Err(wrong(place, what));
        }
        let probe = HttpProbe {
            nodes: asked.collect::<Settled<_>>()?,
            role: pointer(role)?,
            means: self.means()?,
            term: self.term.as_ref().map(pointer).transpose()?,
            values: self.values()?,
            within,
        };
        Ok(ProbeKind::Http {
            words: probe.words(),
        })
    }

    /// What the values stand for; if nothing is said, each role for itself.
    fn means(&self) -> Settled<BTreeMap<String, String>> {
        let roles = self.roles.get_ref().iter();
        let Some(means) = &self.means else {
            return Ok(roles.map(|role| (role.clone(), role.clone())).collect());
        };
        let mut meant = BTreeMap::new();
        for (value, role) in means.get_ref() {
            self.known(role)?;
            meant.insert(value.clone(), role.get_ref().clone());
        }
        self.refuse_unsaid(means, meant.values())?;
        Ok(meant)
    }

    /// The names and pointers of other values.
    fn values(&self) -> Settled<BTreeMap<String, String>> {
        let values = self.values.iter().flat_map(toml::Spanned::get_ref);
        let values = values.map(|(name, at)| {
            let is_word = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '=');
            if !is_word || name == TERM {
                let what = format!("\"{name}\" cannot name a value: one word can, but for term, which is a key of its own");
                return Err(wrong(at, what));
            }
            Ok((name.clone(), pointer(at)?))
        });
        values.collect()
    }

    fn log(
        &self,
        lines: &Spanned<Vec<RawLogRole>>,
        nodes: usize,
        names: &Names,
    ) -> Settled<ProbeKind> {
        let settled = lines.get_ref().iter().map(|line| {
            self.known(&line.role)?;
            let role = Some(line.role.get_ref().clone()).filter(|role| !role.is_empty());
            Ok(LogRole {
                role,
                line: pattern(&line.line)?,
                nodes: named(line.nodes.as_ref(), nodes, names)?,
            })
        });
        let settled: Vec<_> = settled.collect::<Settled<_>>()?;
        let said = settled.iter().filter_map(|line| line.role.as_ref());
        self.refuse_unsaid(&self.roles, said)?;
        Ok(ProbeKind::Log(settled))
    }

    /// Fails if what is said to be a role is none, and not that there is none.
    fn known(&self, role: &Spanned<String>) -> Settled<()> {
        let (name, roles) = (role.get_ref(), self.roles.get_ref());
        if name.is_empty() || roles.contains(name) {
            return Ok(());
        }
        let what = format!("there is no role {name}: roles are {}", roles.join(", "));
        Err(wrong(role, what))
    }

    /// Fails if there is a role that nobody would ever have.
    fn refuse_unsaid<'a, T>(
        &self,
        place: &Spanned<T>,
        said: impl Iterator<Item = &'a String>,
    ) -> Settled<()> {
        let said: Vec<_> = said.collect();
        let mut roles = self.roles.get_ref().iter();
        match roles.find(|role| !said.contains(role)) {
            None => Ok(()),
            Some(role) => Err(wrong(
                place,
                format!("nothing here says that a node is {role}"),
            )),
        }
    }
}

/// The nodes that are named; if none are, all.
fn named(named: Option<&Spanned<Vec<String>>>, nodes: usize, names: &Names) -> Settled<Vec<usize>> {
    let Some(named) = named else {
        return Ok((0..nodes).collect());
    };
    if named.get_ref().is_empty() {
        return Err(wrong(named, "nodes has to name some"));
    }
    let found = names.nodes(named.get_ref());
    found.map_err(|what| wrong(named, what))
}

/// Where a node is asked.
fn url_of(
    url: &Spanned<String>,
    node: usize,
    values: &Values,
    nodes: &[NodeConfig],
) -> Settled<Url> {
    let values = own_values(values, node, &nodes[node].name, false);
    let text: Words<String> = values.fill(url.get_ref());
    let settled = text.and_then(|text| Url::parse(&text, &|host| address_of(host, &values)));
    settled.map_err(|what| wrong(url, what))
}

/// A regular expression.
fn pattern(raw: &Spanned<String>) -> Settled<Regex> {
    let text = raw.get_ref();
    if text.is_empty() {
        return Err(wrong(
            raw,
            "line is a regular expression, and every line has an empty one",
        ));
    }
    Regex::new(text).map_err(|error| {
        let error = error.to_string();
        let last = error.trim().lines().last().unwrap_or_default();
        let why = last.trim_start_matches("error: ");
        wrong(raw, format!("`{text}` is no regular expression: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::ClusterFile;
    use super::*;

    /// It ends where the probe begins, in line 6.
    const NODES: &str =
        "[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n";

    fn read(probe: &str) -> crate::Result<ProbeConfig> {
        let text = format!("{NODES}[probe]\nroles = [\"leader\", \"follower\"]\n{probe}");
        let file = ClusterFile::parse(&text, Path::new("cluster.toml"), Path::new("/folder"))?;
        Ok(file.probe.expect("there is one"))
    }

    /// What the command is told that asks by HTTP.
    fn http(probe: &str) -> HttpProbe {
        let kind = read(probe).expect("it is right").kind;
        let ProbeKind::Http { words } = kind else {
            panic!("{kind:?}")
        };
        serde_json::from_str(&words[2]).expect("it is one")
    }

    const HTTP: &str = "http = \"http://{address}:80{number}/{name}\"\nrole = \"/raft/state\"\n";

    #[test]
    fn each_node_is_asked_at_its_own_url() {
        let probe = http(HTTP);
        let asked = probe.nodes.iter().map(|(name, url)| (&**name, url.text()));
        let a = ("a", "http://10.77.0.1:801/a".to_owned());
        let b = ("b", "http://10.77.0.2:802/b".to_owned());
        assert_eq!(asked.collect::<Vec<_>>(), [a, b]);
        let itself = ["leader", "follower"].map(|role| (role.to_owned(), role.to_owned()));
        assert_eq!(probe.means, itself.into());
        assert_eq!((probe.term, probe.within), (None, Duration::from_secs(1)));
        let more = "nodes = [\"b\"]\nmeans = { true = \"leader\", false = \"follower\", null = \"\" }\n\
                    term = \"/t~1u\"\nvalues = { applied = \"/x/0\" }\nnode_within_s = 0.5\n";
        let probe = http(&format!("{HTTP}{more}"));
        assert_eq!(probe.nodes.len(), 1);
        assert_eq!(probe.means["true"], "leader");
        assert_eq!(probe.means["null"], "");
        assert_eq!(probe.term.as_deref(), Some("/t~1u"));
        assert_eq!(probe.values["applied"], "/x/0");
        assert_eq!(probe.within, Duration::from_millis(500));
    }

    const LOG: &str = "[[probe.log]]\nrole = \"leader\"\nline = 'leads at term (?P<term>\\d+)(, has (?<has>.+))?'\n\
                       [[probe.log]]\nrole = \"follower\"\nline = \"follows\"\nnodes = [\"b\"]\n\
                       [[probe.log]]\nrole = \"\"\nline = \"^stops\"\n";

    #[test]
    fn a_line_of_a_log_says_a_role_and_what_its_groups_are() {
        let kind = read(LOG).expect("it is right").kind;
        let ProbeKind::Log(lines) = kind else {
            panic!("{kind:?}")
        };
        let [leads, follows, stops] = &lines[..] else {
            panic!("{lines:?}")
        };
        assert_eq!(leads.role.as_deref(), Some("leader"));
        let more = |line: &str| leads.more(0, line);
        assert_eq!(more("12:00 leads at term 7").as_deref(), Some("7"));
        assert_eq!(
            more("leads at term 7, has 1 of 2").as_deref(),
            Some("7 has=1_of_2")
        );
        assert_eq!(more("leads at term x"), None);
        assert_eq!(follows.more(1, "b follows").as_deref(), Some(""));
        assert_eq!(follows.more(0, "b follows"), None, "another node");
        assert_eq!(stops.role, None);
        assert!(stops.more(0, "it stops").is_none());
    }

    /// Probes, and what is said of each.
    fn assert_told<const N: usize>(probes: [(String, &str); N]) {
        for (probe, expected) in probes {
            let error = read(&probe).expect_err(&probe).to_string();
            assert!(error.starts_with("cluster.toml line"), "{error}");
            assert!(error.contains(expected), "{error}\n{expected}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_column() {
        let with = |more: &str| format!("{HTTP}{more}\n");
        assert_told([
            (
                String::new(),
                "line 6, column 1: probe: it has either command, or http, or [[probe.log]]",
            ),
            (
                with("command = \"sh\""),
                "line 6, column 1: probe: it has either command",
            ),
            (
                with("serve = true"),
                "line 10, column 9: probe: serve goes with command",
            ),
            (
                with("comand = \"sh\""),
                "line 10, column 1: unknown field `comand`",
            ),
            (
                with("term = \"term\""),
                "line 10, column 8: probe: \"term\" is no JSON pointer",
            ),
            (
                with("term = \"/a~2\""),
                "line 10, column 8: probe: \"/a~2\" is no JSON pointer",
            ),
            (
                with("values = { x = \"y\" }"),
                "line 10, column 16: probe: \"y\" is no JSON pointer",
            ),
            (
                with("values = { term = \"/y\" }"),
                "line 10, column 19: probe: \"term\" cannot name a value",
            ),
            (
                with("means = { x = \"leads\" }"),
                "line 10, column 15: probe: there is no role leads: roles are leader, follower",
            ),
            (
                with("means = { x = \"leader\" }"),
                "line 10, column 9: probe: nothing here says that a node is follower",
            ),
            (
                with("nodes = [\"c\"]"),
                "line 10, column 9: probe: there is no node c: there are a, b",
            ),
            (
                with("nodes = []"),
                "line 10, column 9: probe: nodes has to name some",
            ),
            (
                with("within_s = 0.5"),
                "line 6, column 1: probe: within_s has to be more than node_within_s",
            ),
            (
                with("node_within_s = 0"),
                "line 10, column 17: probe: 0 is no number of seconds",
            ),
            (
                "http = \"http://{address}/\"\n".into(),
                "line 6, column 1: probe: role has to be the JSON pointer",
            ),
            (
                HTTP.replace("{address}", "10.77.0.9"),
                "line 8, column 8: probe: \"http://10.77.0.9:801/a\" cannot be asked: its host",
            ),
            (
                HTTP.replace("{address}", "127.0.0.1"),
                "line 8, column 8: probe: \"http://127.0.0.1:801/a\" cannot be asked",
            ),
            (
                HTTP.replace("{address}", "{adress}"),
                "{adress} stands for nothing here",
            ),
            (
                HTTP.replace("http://", "https://"),
                "cannot be asked: a URL begins with http://",
            ),
        ]);
    }

    #[test]
    fn what_is_wrong_with_lines_of_logs_is_told_with_line_and_column() {
        let of_log = |line: &str| format!("[[probe.log]]\nrole = \"leader\"\nline = {line}\n");
        assert_told([
            (
                of_log("\"a(b\""),
                "line 10, column 8: probe: `a(b` is no regular expression: unclosed group",
            ),
            (
                of_log("\"\""),
                "line 10, column 8: probe: line is a regular expression",
            ),
            (
                of_log("\"x\""),
                "line 7, column 9: probe: nothing here says that a node is follower",
            ),
            (
                of_log("\"x\"").replace("leader", "leads"),
                "line 9, column 8: probe: there is no role leads",
            ),
            (
                of_log("\"x\"\nlines = 1"),
                "line 11, column 1: unknown field `lines`",
            ),
            (
                format!("within_s = 1\n{LOG}"),
                "line 8, column 12: probe: within_s goes with command or http",
            ),
            (
                format!("role = \"/x\"\n{LOG}"),
                "line 8, column 8: probe: role goes with http",
            ),
        ]);
    }
}
