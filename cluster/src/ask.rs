//! What this same program does where a client is, or in a node, to ask nodes by HTTP: it is started anew as
//! two hidden commands.
//!
//! `__probe` keeps running, and answers each line on its standard input with what all nodes are: it asks
//! them at once. `__answers` ends with status 0 if somebody answers that all is well.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::http::{Answer, Failure, Url, get};
use crate::namespaces::OWN_PROGRAM;

/// The argument by which the program is told to ask all nodes what they are. An [`HttpProbe`] follows.
pub(crate) const PROBE_COMMAND: &str = "__probe";

/// The argument by which it is told to ask one whether all is well. A [`Url`] follows.
pub(crate) const ANSWERS_COMMAND: &str = "__answers";

/// A line that begins so says why a node's answer is wrong: it has no role, and others may. No node's name
/// begins so.
pub const NO_ANSWER: &str = "! ";

/// What ends an answer.
const END: &str = "end";

/// How long somebody may take to say that all is well.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How much of a value is shown, in characters.
const SHOWN_MAX: usize = 60;

/// Asks nodes by HTTP what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HttpProbe {
    /// Names, and where they answer.
    pub(crate) nodes: Vec<(String, Url)>,
    /// The JSON pointer to the value that says the role.
    pub(crate) role: String,
    /// The role that it stands for; none if that is empty.
    pub(crate) means: BTreeMap<String, String>,
    /// The pointer to the term.
    pub(crate) term: Option<String>,
    /// Names and pointers of other values.
    pub(crate) values: BTreeMap<String, String>,
    /// How long each may take to answer.
    pub(crate) within: Duration,
}

impl HttpProbe {
    /// The words of the command that asks.
    pub(crate) fn words(&self) -> Vec<String> {
        own_words(PROBE_COMMAND, self)
    }

    /// What they all say: a line for each that has a role, or why that cannot be known.
    fn lines(&self) -> Vec<String> {
        std::thread::scope(|scope| {
            let ask = |(name, url): &'_ (String, Url)| self.line(name, url);
            let asked = self.nodes.iter();
            let asked: Vec<_> = asked.map(|node| scope.spawn(move || ask(node))).collect();
            let lines = asked.into_iter().map(ScopedJoinHandle::join);
            lines
                .filter_map(|line| line.expect("nothing here panics"))
                .collect()
        })
    }

    fn line(&self, name: &str, url: &Url) -> Option<String> {
        let told = match get(url, self.within) {
            Err(Failure::Silent) => Ok(None),
            Err(Failure::Wrong(what)) => Err(what),
            Ok(answer) => self.role(&answer),
        };
        match told {
            Ok(told) => told.map(|role| format!("{name} {role}")),
            Err(what) => Some(format!("{NO_ANSWER}{name}: {} {what}", url.text())),
        }
    }

    /// The role that a node has by its answer, and what follows it on its line; none if it has none. Why its
    /// answer is none.
    fn role(&self, answer: &Answer) -> Result<Option<String>, String> {
        let json = serde_json::from_slice(&answer.body).ok();
        let json: Value = match json {
            Some(json) => json,
            None if answer.is_refusal() => return Ok(None),
            None => return Err(format!("answers {} without JSON", answer.words)),
        };
        let found = json.pointer(&self.role);
        let Some(role) = self.means.get(&found.map_or("null".into(), text_of)) else {
            return if answer.is_refusal() {
                Ok(None)
            } else {
                Err(self.unknown(answer, found))
            };
        };
        if role.is_empty() {
            return Ok(None);
        }
        let mut line = role.clone();
        if let Some(term) = self.term(&json)? {
            line += &format!(" {term}");
        }
        for (name, pointer) in &self.values {
            if let Some(value) = json.pointer(pointer) {
                line += &format!(" {name}={}", one_word(&text_of(value)));
            }
        }
        Ok(Some(line))
    }

    fn term(&self, json: &Value) -> Result<Option<u64>, String> {
        let pointer = self.term.as_deref();
        let Some((pointer, value)) = pointer.and_then(|term| Some((term, json.pointer(term)?)))
        else {
            return Ok(None);
        };
        if value.is_null() {
            return Ok(None);
        }
        let text = text_of(value);
        let term = text.parse().map(Some);
        term.map_err(|_| {
            format!(
                "has {} at {pointer}, which is no term: a term is a whole number",
                shown(&text)
            )
        })
    }

    fn unknown(&self, answer: &Answer, found: Option<&Value>) -> String {
        let (words, pointer) = (&answer.words, &self.role);
        match found {
            None => format!("answers {words} with nothing at {pointer}"),
            Some(value) => format!(
                "answers {words} with {} at {pointer}, which is no role (`means` may say which one it stands for)",
                shown(&value.to_string())
            ),
        }
    }
}

/// The words of the command that asks whether all is well at a URL.
pub(crate) fn answers_words(url: &Url) -> Vec<String> {
    own_words(ANSWERS_COMMAND, url)
}

fn own_words(command: &str, told: &impl Serialize) -> Vec<String> {
    let told = serde_json::to_string(told).expect("it is plain data");
    vec![OWN_PROGRAM.into(), command.into(), told]
}

/// A value as text: a string without its quotes.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// What may stand in a line as one word.
pub(crate) fn one_word(text: &str) -> String {
    let blank = |character: char| {
        if character.is_whitespace() {
            '_'
        } else {
            character
        }
    };
    text.chars().map(blank).collect()
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// What was told as an argument.
fn told<T: DeserializeOwned>(argument: Option<std::ffi::OsString>) -> Option<T> {
    serde_json::from_str(argument?.to_str()?).ok()
}

/// Answers each line with what the nodes are, until there is none any more.
pub(crate) fn probe(argument: Option<std::ffi::OsString>) -> ExitCode {
    let Some(probe) = told::<HttpProbe>(argument) else {
        return ExitCode::from(2);
    };
    let answered = io::stdin().lock().lines().try_for_each(|asked| {
        asked?;
        let mut answer = probe.lines();
        answer.push(END.into());
        let mut output = io::stdout().lock();
        writeln!(output, "{}", answer.join("\n"))?;
        output.flush()
    });
    answered.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Ends with status 0 if somebody answers that all is well.
pub(crate) fn answers(argument: Option<std::ffi::OsString>) -> ExitCode {
    let Some(url) = told::<Url>(argument) else {
        return ExitCode::from(2);
    };
    match get(&url, ANSWERS_WITHIN) {
        Ok(answer) if answer.is_success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn probe_of(means: &[(&str, &str)]) -> HttpProbe {
        let means = means
            .iter()
            .map(|(value, role)| ((*value).to_owned(), (*role).to_owned()));
        HttpProbe {
            nodes: Vec::new(),
            role: "/raft/state".into(),
            means: means.collect(),
            term: Some("/raft/term".into()),
            values: [("applied".to_owned(), "/applied".to_owned())].into(),
            within: Duration::from_secs(5),
        }
    }

    fn role(means: &[(&str, &str)], status: u16, body: &str) -> Result<Option<String>, String> {
        probe_of(means).role(&Answer {
            status,
            words: format!("{status} Words"),
            body: body.into(),
        })
    }

    #[test]
    fn a_role_is_what_the_value_at_the_pointer_stands_for() {
        let means = [
            ("StateLeader", "leader"),
            ("true", "leader"),
            ("2", "follower"),
            ("", ""),
            ("null", ""),
        ];
        let said = |body| role(&means, 200, body).expect("it is known");
        let full = r#"{"raft": {"state": "StateLeader", "term": 7}, "applied": "1 of 2"}"#;
        assert_eq!(said(full).as_deref(), Some("leader 7 applied=1_of_2"));
        let others = r#"{"raft": {"state": true, "term": "8"}, "applied": [1, 2]}"#;
        assert_eq!(said(others).as_deref(), Some("leader 8 applied=[1,2]"));
        assert_eq!(
            said(r#"{"raft": {"state": 2}}"#).as_deref(),
            Some("follower")
        );
        for none in [
            r#"{"raft": {"state": ""}}"#,
            r#"{"raft": {"state": null}}"#,
            r#"{"raft": {}}"#,
        ] {
            assert_eq!(said(none), None, "{none}");
        }
        // Some say with the status what they are, and give the same answer.
        let standby = role(&means, 429, r#"{"raft": {"state": 2}}"#);
        assert_eq!(standby, Ok(Some("follower".into())));
    }

    #[test]
    fn an_answer_that_says_no_role_is_told_and_one_of_who_cannot_answer_is_none() {
        let wrong =
            |status, body| role(&[("leads", "leader")], status, body).expect_err("it is none");
        assert_eq!(wrong(404, "not found"), "answers 404 Words without JSON");
        assert_eq!(
            wrong(200, "{}"),
            "answers 200 Words with nothing at /raft/state"
        );
        let other = wrong(200, r#"{"raft": {"state": "follows"}}"#);
        let expected = "answers 200 Words with \"follows\" at /raft/state, which is no role";
        assert!(other.starts_with(expected), "{other}");
        let term = wrong(200, r#"{"raft": {"state": "leads", "term": "new"}}"#);
        assert!(
            term.starts_with("has new at /raft/term, which is no term"),
            "{term}"
        );
        for body in ["", "{}", r#"{"raft": {"state": "starts"}}"#] {
            assert_eq!(role(&[("leads", "leader")], 503, body), Ok(None), "{body}");
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_not_named_and_the_others_are() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let there = listener.local_addr().expect("it has one");
        let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let body = r#"{"raft": {"state": "leads", "term": 3}}"#;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        });
        let url = |address| {
            let text = format!("http://{address}/");
            Url::parse(&text, &|host| host.parse().ok()).expect("it is one")
        };
        let mut probe = probe_of(&[("leads", "leader")]);
        let gone = gone.expect("a port");
        probe.nodes = vec![("a".into(), url(gone)), ("b".into(), url(there))];
        assert_eq!(probe.lines(), ["b leader 3"]);
        server.join().expect("it ends").expect("it is said");
    }
}
