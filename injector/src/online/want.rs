//! What a search is for, and how near a run came to it.
//!
//! The idea is Anduril's (SOSP 2024): somebody has a line of a log and wants to know which failure
//! makes it, and what each run logs says where to look next. Anduril reads the program; this knows of
//! it what its calls on files and its logs say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::{Deserialize, Serialize};
use specification::Specification;

use super::facts::{RunFiles, log_of, log_times};
use super::points::SeenPoint;
use super::ran::{Happening, Ran};

/// The name of the specification that says whether a run shows what is wanted.
pub const WANTED: &str = "wanted";

/// So many lines of a log that was given are looked for.
const LINES_MAX: usize = 500;

/// Shorter words say little.
const WORD_LEN_MIN: usize = 3;

/// What can be wanted, for messages.
const FORMS: &str = "log: TEXT, exit, exit: TEXT, found: TEXT, or rules with a violation";

/// The words of a line, without numbers and what has such.
type Words = BTreeSet<String>;

/// What is searched for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Want {
    /// As the command line has it.
    pub text: String,
    /// The words of what is wanted, and of the lines of the log that was given which a run without
    /// failures does not have.
    pub lines: Vec<Words>,
    /// The words of each line that a run without failures logs.
    pub usual: BTreeSet<Words>,
    /// For each failure point, from 0 to 1, how near its first time was to where the log that was
    /// given departs from that of a run without failures. Empty without such a log.
    pub nearness: Vec<f64>,
}

/// What of what is wanted a run showed that a run without failures does not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The words of what is wanted, all in one line.
    pub words: BTreeSet<String>,
    /// From 0 to 1, how much of the unusual lines of the log that was given; nothing if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<f64>,
}

/// What a node logged in a run without failures: the time and the words of each line.
type Log = Vec<(u64, Words)>;

impl Want {
    /// What somebody wants, with the specification that looks for it.
    ///
    /// # Errors
    /// If it is none of what can be wanted.
    pub fn parse(text: &str) -> Result<(Self, Specification), String> {
        let rules = rules(text).ok_or_else(|| format!("`{text}` is none of {FORMS}"))?;
        let specification = Specification {
            name: WANTED.into(),
            text: rules,
        };
        let want = Self {
            text: text.into(),
            lines: vec![words(text_of(text))],
            ..Self::default()
        };
        Ok((want, specification))
    }

    /// Learns from a run without failures, of which these are the failure points, and from a log in
    /// which what is wanted was seen.
    ///
    /// # Errors
    /// If what the run left cannot be read.
    pub fn learn(
        &mut self,
        nodes: &[String],
        (ran, files): (&Ran, &RunFiles),
        points: &[SeenPoint],
        seen_in: Option<&str>,
    ) -> crate::Result<()> {
        let mut logs: Vec<(&String, Log)> = Vec::new();
        for node in nodes {
            logs.push((node, log(files, node, ran)?));
        }
        let all = logs.iter().flat_map(|(_, log)| log);
        self.usual = all.map(|(_, words)| words.clone()).collect();
        let Some(seen_in) = seen_in else {
            return Ok(());
        };
        let seen: Vec<Words> = seen_in.lines().map(words).collect();
        for line in seen.iter().filter(|line| !line.is_empty()) {
            if !self.usual.contains(line)
                && !self.lines.contains(line)
                && self.lines.len() < LINES_MAX
            {
                self.lines.push(line.clone());
            }
        }
        self.nearness = nearest(&seen, &logs, &self.usual, points);
        Ok(())
    }

    /// Has another search know what this one has learnt: all if it is for the same, else what is usual.
    pub fn teach(self, other: &mut Self) {
        if self.text == other.text {
            *other = self;
        } else {
            other.usual = self.usual;
        }
    }

    /// What of what is wanted a run shows beyond what every run does.
    pub fn agreement(&self, nodes: &[String], ran: &Ran, files: &RunFiles) -> Agreement {
        let logged = nodes.iter().filter_map(|node| {
            let text = fs::read(log_of(files, node)).ok()?;
            Some(String::from_utf8_lossy(&text).into_owned())
        });
        let logged: Vec<_> = logged.collect();
        let lines = logged.iter().flat_map(|text| text.lines()).map(words);
        let said = ran.broken().unwrap_or_default().iter().map(|it| words(it));
        let ended = ran.events.iter().filter_map(|event| match &event.what {
            Happening::NodeEnded { how, .. } => Some(words(how)),
            _ => None,
        });
        let new: BTreeSet<_> = lines
            .filter(|line| !self.usual.contains(line))
            .chain(said)
            .chain(ended)
            .collect();
        self.shown_by(&new)
    }

    /// What of it these lines show.
    fn shown_by(&self, new: &BTreeSet<Words>) -> Agreement {
        let Some((wanted, others)) = self.lines.split_first() else {
            return Agreement::default();
        };
        let shared = new.iter().map(|line| wanted & line);
        let near = |line: &Words| new.iter().map(|one| share(line, one)).fold(0.0, f64::max);
        let sum: f64 = others.iter().map(near).sum();
        Agreement {
            words: shared.max_by_key(BTreeSet::len).unwrap_or_default(),
            others: (!others.is_empty()).then(|| sum / others.len() as f64),
        }
    }

    /// How near each of some runs came, from 0 to 1. A word of what is wanted counts the less the more
    /// of the runs show it: what every failure makes some node log says nothing of where to look. The
    /// wanted line counts as much as all others together.
    pub(super) fn near(&self, runs: &[&Agreement]) -> Vec<f64> {
        let none = Words::new();
        let wanted = self.lines.first().unwrap_or(&none);
        let weight = |word: &String| {
            let with = runs.iter().filter(|run| run.words.contains(word)).count();
            1.0 - with as f64 / (runs.len() + 1) as f64
        };
        let weights: BTreeMap<_, _> = wanted.iter().map(|word| (word, weight(word))).collect();
        let all: f64 = weights.values().sum();
        let near = |run: &&Agreement| {
            let shown = run.words.iter().filter_map(|word| weights.get(word));
            let shown = if wanted.is_empty() {
                0.0
            } else {
                shown.sum::<f64>() / all
            };
            run.others
                .map_or(shown, |others| f64::midpoint(shown, others))
        };
        runs.iter().map(near).collect()
    }
}

/// The rules that say whether a run shows it; nothing if it is none of what can be wanted.
fn rules(text: &str) -> Option<String> {
    let pattern = constant(&escaped(text_of(text)));
    Some(match kind_of(text) {
        "log" if !text_of(text).is_empty() => format!(
            "violation shown(Node, Line) :- logged(node: Node, line: Line), Line ~ {pattern}.\n"
        ),
        "exit" => {
            format!("violation shown(Node, How) :- ended(node: Node, how: How), How ~ {pattern}.\n")
        }
        "found" if !text_of(text).is_empty() => {
            format!("violation shown(Words) :- found(words: Words), Words ~ {pattern}.\n")
        }
        _ if text.contains(":-") && text.contains("violation ") => format!("{text}\n"),
        _ if text.contains(":-") => format!("violation {text}\n"),
        _ => return None,
    })
}

/// What stands before the colon, in a want that is no rule.
fn kind_of(text: &str) -> &str {
    if text.contains(":-") {
        return "";
    }
    text.split(':').next().unwrap_or_default().trim()
}

/// What stands behind it, without quotes around it; of a rule, all of it.
fn text_of(text: &str) -> &str {
    if text.contains(":-") {
        return text;
    }
    let text = text.split_once(':').map_or("", |(_, text)| text).trim();
    let quoted = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    quoted.unwrap_or(text)
}

/// A regular expression for nothing but this text. `\<` and `\>` are where words begin and end.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if letter.is_ascii_punctuation() && !matches!(letter, '<' | '>') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// A text as rules have it.
fn constant(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The words of a line in small letters: `FileNotFound` has three. What stands beside digits, such as
/// a part of a number in hexadecimal, is left out.
pub(super) fn words(line: &str) -> Words {
    let mut all = Words::new();
    for piece in line.split(|letter: char| !letter.is_alphanumeric()) {
        if piece.contains(|letter: char| letter.is_ascii_digit()) {
            continue;
        }
        let mut word = String::new();
        let mut last_is_small = false;
        for letter in piece.chars() {
            if letter.is_uppercase() && last_is_small {
                add(&mut all, std::mem::take(&mut word));
            }
            last_is_small = letter.is_lowercase();
            word.extend(letter.to_lowercase());
        }
        add(&mut all, word);
    }
    all
}

fn add(all: &mut Words, word: String) {
    if word.chars().count() >= WORD_LEN_MIN {
        all.insert(word);
    }
}

/// How much of some words is among others.
pub(super) fn share(wanted: &Words, others: &Words) -> f64 {
    if wanted.is_empty() {
        return 0.0;
    }
    wanted.intersection(others).count() as f64 / wanted.len() as f64
}

/// What a node logged in a run.
fn log(files: &RunFiles, node: &str, ran: &Ran) -> crate::Result<Log> {
    let end_ns = (ran.seconds * 1e9) as u64;
    let lines = log_times(files, node, end_ns)?;
    let lines = lines.into_iter().map(|(line, time)| (time, words(&line)));
    Ok(lines.collect())
}

/// How near each point is to where a log departs from that of the node which it is like: the log is that
/// of one node, and of which one, the lines say that they share. Nothing if there is no such node.
fn nearest(
    seen: &[Words],
    logs: &[(&String, Log)],
    usual: &BTreeSet<Words>,
    points: &[SeenPoint],
) -> Vec<f64> {
    let shared = |log: &Log| {
        let known: BTreeSet<_> = log.iter().map(|(_, words)| words).collect();
        seen.iter().filter(|line| known.contains(line)).count()
    };
    let like = logs.iter().max_by_key(|(_, log)| shared(log));
    let Some((node, log)) = like.filter(|(_, log)| shared(log) > 0) else {
        return Vec::new();
    };
    let until = departs(seen, log, usual);
    let near = |point: &SeenPoint| nearness(point, node, log, until);
    points.iter().map(near).collect()
}

/// When in a run without failures a log departs from its log: right after the last line that both have
/// before the first one that is unusual.
fn departs(seen: &[Words], log: &Log, usual: &BTreeSet<Words>) -> usize {
    let is_unusual = |line: &Words| !line.is_empty() && !usual.contains(line);
    let first = seen.iter().position(is_unusual).unwrap_or(seen.len());
    let before = &seen[..first];
    let Some(last) = before
        .iter()
        .rfind(|line| log.iter().any(|(_, one)| one == *line))
    else {
        return 0;
    };
    let times = before.iter().filter(|line| *line == last).count();
    let places = log.iter().enumerate().filter(|(_, (_, one))| one == last);
    let place = places.map(|(place, _)| place).take(times).last();
    place.map_or(0, |place| place + 1)
}

/// How near a point is to a place in the log of a node: by the lines between.
fn nearness(point: &SeenPoint, node: &str, log: &Log, place: usize) -> f64 {
    if !point.by_node.contains_key(node) {
        return 0.0;
    }
    let at = log.partition_point(|(time, _)| *time <= point.first_ns);
    1.0 / (1.0 + at.abs_diff(place) as f64)
}

#[cfg(test)]
mod tests {

    use super::super::facts::{RunFacts, examine};
    use super::super::points::{CallPoint, Point};
    use super::*;
    use crate::laboratory::Judged;

    fn percent(share: f64) -> u32 {
        (share * 100.0).round() as u32
    }

    fn all(words: &[&str]) -> Words {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_are_those_that_come_again() {
        let line = "2026-11-27T04:00:01Z WARN wal.FileNotFound 0x3fa9c wal-000012 at a:2380";
        let expected = ["wal", "warn", "file", "not", "found"];
        assert_eq!(words(line), all(&expected));
        assert_eq!(
            percent(share(&all(&["file", "found"]), &all(&["found", "it"]))),
            50
        );
        assert_eq!(percent(share(&all(&[]), &all(&["found"]))), 0);
    }

    #[test]
    fn each_form_is_a_rule_and_nothing_else_is() {
        let rule = |text: &str| Want::parse(text).map(|(_, specification)| specification.text);
        let of_log = rule(r#"log: "no file (a.b)""#).expect("a rule");
        assert!(
            of_log.ends_with("Line ~ \"no file \\\\(a\\\\.b\\\\)\".\n"),
            "{of_log}"
        );
        assert!(rule("exit").expect("a rule").contains("How ~ \"\""));
        assert!(
            rule("found: k1 is lost")
                .expect("a rule")
                .contains("k1 is lost")
        );
        let own = "lost(K) :- acked(K), !served(K).";
        assert_eq!(rule(own).expect("a rule"), format!("violation {own}\n"));
        for wrong in ["snapshot file not found", "log:", "found:", "logs: x", ""] {
            let why = Want::parse(wrong).expect_err("it is refused");
            assert!(why.contains("log: TEXT"), "{why}");
        }
        for text in ["log: \"a \\\"b\\\" {c} [d] \\\\ x\"", "exit: status 1", own] {
            let (_, specification) = Want::parse(text).expect("a want");
            let program = specification.program("wanted", specification::About::Run);
            assert!(program.is_ok(), "{text}: {}", specification.text);
        }
    }

    /// Whether a run of which the check says this shows that a text is found.
    fn is_found(text: &str, said: &str) -> bool {
        let (_, specification) = Want::parse(&format!("found: {text}")).expect("a want");
        let folder = tempfile::tempdir().expect("a directory");
        let files = RunFiles::kept(folder.path());
        fs::write(&files.history, "").expect("written");
        let broken = vec![said.to_owned()];
        let ran = Ran::of(Judged::Broken { broken });
        let facts = RunFacts::bare(&ran, &files);
        let examined = examine(&[specification], &facts, None, || false).expect("examined");
        !examined.violated.is_empty()
    }

    #[test]
    fn a_text_is_looked_for_as_it_is_whatever_signs_it_has() {
        let signs = ('!'..='~').filter(char::is_ascii_punctuation);
        for text in signs.map(|sign| format!("a{sign}b")) {
            assert!(is_found(&text, &format!("that {text} is lost")), "{text}");
            assert!(!is_found(&text, "that ab is lost"), "{text}");
        }
        assert!(is_found("expected <value>", "expected <value>"));
        assert!(!is_found("expected <value>", "expected value"));
    }

    #[test]
    fn a_run_agrees_by_the_lines_that_no_other_has() {
        let (mut want, _) = Want::parse("log: snapshot file not found").expect("a want");
        let shown = |want: &Want, lines: &[&str]| {
            let new: BTreeSet<_> = lines.iter().map(|line| words(line)).collect();
            let agreement = want.shown_by(&new);
            // Beside a run that shows nothing, and so many that no word of it is rare.
            let other = Agreement {
                others: agreement.others.map(|_| 0.0),
                ..Agreement::default()
            };
            let runs: Vec<_> = std::iter::once(&agreement).chain([&other; 999]).collect();
            percent(want.near(&runs)[0])
        };
        assert_eq!(shown(&want, &["starts", "no snapshot was found"]), 50);
        assert_eq!(shown(&want, &["error: snapshot file 7 not found"]), 100);
        want.lines.push(words("retrying the rename"));
        assert_eq!(shown(&want, &["retrying the rename"]), 50);
    }

    /// `connection` is in the log of whoever misses another node, whatever made that one miss.
    #[test]
    fn words_that_many_runs_show_count_less() {
        let (want, _) = Want::parse("log: connection reset by peer").expect("a want");
        let run = |line: &str| want.shown_by(&BTreeSet::from([words(line)]));
        let common = run("connection refused");
        let (rare, none) = (run("the peer is late"), run("is ready"));
        let first = want.near(&[&none, &common, &rare]);
        assert_eq!(percent(first[1]), percent(first[2]));
        let all = [vec![&common; 8], vec![&none, &rare]].concat();
        let near = want.near(&all);
        assert_eq!(percent(near[8]), 0);
        assert!(near[9] > 3.0 * near[0], "{near:?}");
    }

    /// The failure was after the second `saved`: what came there first is nearest.
    #[test]
    fn points_are_as_near_as_the_lines_between_them_and_the_departure_are_few() {
        let log: Log = [
            (10, "starts"),
            (20, "saved 1"),
            (30, "saved 2"),
            (40, "cleaned"),
        ]
        .map(|(time, line)| (time, words(line)))
        .into();
        let usual: BTreeSet<_> = log.iter().map(|(_, words)| words.clone()).collect();
        let seen = ["starts", "saved 7", "saved 8", "broken pipe", "starts"];
        let seen: Vec<_> = seen.iter().map(|line| words(line)).collect();
        let place = departs(&seen, &log, &usual);
        assert_eq!(place, 3);
        let point = |first_ns, node: &str| SeenPoint {
            first_ns,
            by_node: [(node.to_owned(), 1)].into(),
            ..SeenPoint::of(Point::Call(CallPoint::default()))
        };
        let near = |point: &SeenPoint| percent(nearness(point, "a", &log, place));
        assert_eq!(near(&point(35, "a")), 100);
        assert_eq!(near(&point(25, "a")), 50);
        assert_eq!(near(&point(45, "a")), 50);
        assert_eq!(near(&point(35, "b")), 0);
        assert_eq!(departs(&[words("what")], &log, &usual), 0);
    }
}
