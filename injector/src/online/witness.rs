//! What the clients of a run saw, held against what is promised of the objects.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use cluster::Verdict;
use history::{Anomaly, Failure, History, Refused, Report, Rule, Settings};

use super::run::HISTORY;

/// How long the search for orders may take.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(60);

/// So many anomalies of one sort are said.
const SAID_MAX: usize = 3;

/// What the history says of the objects that the rules are of; and by which of these nothing could be
/// judged, in words.
///
/// # Errors
/// If there is no such file.
pub(super) fn verdict(rules: &[Rule], history: &Path) -> crate::Result<(Verdict, Vec<String>)> {
    let file = File::open(history).map_err(|error| crate::Error::System {
        doing: format!("read {}", history.display()),
        error,
    })?;
    let history = match history::read(BufReader::new(file)) {
        Ok(history) => history,
        Err(wrong) => {
            let why = format!("what the clients printed is no history: {HISTORY}: {wrong}");
            return Ok((Verdict::Inconclusive(why), Vec::new()));
        }
    };
    Ok(match seen(rules, &history, LOOKED_AT_WITHIN) {
        Err(refused) => {
            let why = format!("[[histories]]: {HISTORY}: {refused}");
            (Verdict::Inconclusive(why), Vec::new())
        }
        Ok(report) => {
            let unjudged = report.unjudged(rules).map(Rule::to_string);
            (judged(&report), unjudged.collect())
        }
    })
}

/// A history held against the rules of a cluster file, as a campaign does: what no rule is of is not
/// looked at, and whether the cluster answers after the faults others look at. The search for orders
/// may take this long.
///
/// # Errors
/// If an operation is none that the object of its rule has.
pub fn seen(rules: &[Rule], history: &History, within: Duration) -> Result<Report, Refused> {
    let settings = Settings {
        rules: rules.to_vec(),
        guesses: false,
        time_limit: Some(within),
        recover_within: None,
        ..Settings::default()
    };
    let mut report = history::check(history, &settings)?;
    if report.objects.is_empty() {
        let why = "[[histories]]: no client did anything with a key that it is of";
        report.undecided = vec![why.to_owned()];
    }
    Ok(report)
}

/// What in a history breaks what the rules say, as far as it is found in this time.
pub fn anomalies(rules: &[Rule], history: &History, within: Duration) -> Vec<Anomaly> {
    let report = seen(rules, history, within);
    report.map_or_else(|_| Vec::new(), |report| report.anomalies)
}

fn judged(report: &Report) -> Verdict {
    let mut broken = Vec::new();
    for (kind, ..) in Failure::ALL {
        let found = report.anomalies.iter().filter(|one| one.kind == kind);
        let found: Vec<_> = found.collect();
        broken.extend(found.iter().take(SAID_MAX).flat_map(|one| in_words(one)));
        if found.len() > SAID_MAX {
            let more = found.len() - SAID_MAX;
            broken.push(format!("{}: and {more} more", kind.name()));
        }
    }
    if !broken.is_empty() {
        return Verdict::Broken(broken);
    }
    match report.undecided.as_slice() {
        [] => Verdict::Ok,
        undecided => Verdict::Inconclusive(undecided.join("; ")),
    }
}

/// What was found, in a line; and how many more show it in one of its own: runs are alike if they are
/// broken in the same words, and how many show it is chance.
fn in_words(anomaly: &Anomaly) -> Vec<String> {
    let of = anomaly.key.as_ref();
    let of = of.map_or_else(String::new, |key| format!(" of {key}"));
    let lines = [Some(anomaly.what.clone()), anomaly.more_in_words()];
    let lines = lines.into_iter().flatten();
    lines
        .map(|line| format!("{}{of}: {line}", anomaly.kind.name()))
        .collect()
}

/// What several judges come to: what one of them knows to be broken is.
pub(super) fn together(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Broken(mut broken), Verdict::Broken(more)) => {
            broken.extend(more);
            Verdict::Broken(broken)
        }
        (broken @ Verdict::Broken(_), _) | (_, broken @ Verdict::Broken(_)) => broken,
        (Verdict::Inconclusive(why), Verdict::Inconclusive(more)) => {
            Verdict::Inconclusive(format!("{why}; {more}"))
        }
        (Verdict::Ok, other) | (other, Verdict::Ok) => other,
    }
}

#[cfg(test)]
mod tests {
    use history::{Contract, Model};

    use super::super::given::cluster_of;
    use super::*;

    /// What comes of a register that was written, and then read as nothing so often.
    fn came(reads: usize) -> Verdict {
        let lines = |kind: &str, f: &str| {
            format!("{{\"type\":\"{kind}\",\"process\":0,\"f\":\"{f}\",\"key\":\"k\"")
        };
        let write = lines("invoke", "write") + ",\"value\":1}\n" + &lines("ok", "write") + "}\n";
        let read = lines("invoke", "read") + "}\n" + &lines("ok", "read") + "}\n";
        let text = write + &read.repeat(reads);
        let history = history::read(text.as_bytes()).expect("a history");
        let rules = [Rule::of_all(Contract::new(Model::Map))];
        judged(&seen(&rules, &history, LOOKED_AT_WITHIN).expect("it is of the model"))
    }

    #[test]
    fn how_many_answers_miss_what_is_lost_makes_no_run_unlike_others() {
        let broken = |reads| match came(reads) {
            Verdict::Broken(broken) => broken,
            other => panic!("{other:?}"),
        };
        let (once, often) = (broken(1), broken(10));
        assert!(once[0].starts_with("write-lost of k: read k"), "{once:?}");
        assert_eq!(once[0], often[0]);
        assert_eq!(often[1], "write-lost of k: 9 more answers miss it");
        assert!(once[1].starts_with("not-linearizable"), "{once:?}");
    }

    #[test]
    fn a_rule_of_whose_objects_nothing_was_read_is_named() {
        let text = [
            r#"{"type":"invoke","process":0,"f":"write","key":"k","value":1}"#,
            r#"{"type":"ok","process":0,"f":"write","key":"k","value":1}"#,
            r#"{"type":"invoke","process":0,"f":"read","key":"k"}"#,
            r#"{"type":"ok","process":0,"f":"read","key":"k","value":1}"#,
            r#"{"type":"invoke","process":0,"f":"add","key":"c","value":1}"#,
            r#"{"type":"ok","process":0,"f":"add","key":"c"}"#,
        ];
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text.join("\n")).expect("it is written");
        let cluster = "[[nodes]]\nname = \"a\"\ncommand = \"true\"\n[client]\ncommand = \"true\"\n";
        let rules = [("k", "map"), ("c", "counter"), ("l*", "lock")].map(|(keys, model)| {
            format!("[[histories]]\nkeys = \"{keys}\"\nmodel = \"{model}\"\n")
        });
        let rules = cluster_of(&(cluster.to_owned() + &rules.concat())).histories;
        let (verdict, unjudged) = verdict(&rules, file.path()).expect("it is read");
        assert!(matches!(verdict, Verdict::Ok), "{verdict:?}");
        assert_eq!(unjudged, ["counter c", "lock l*"]);
    }

    #[test]
    fn what_nobody_read_is_inconclusive() {
        let Verdict::Inconclusive(why) = came(0) else {
            panic!("nothing was read");
        };
        assert!(why.starts_with("no object could be judged"), "{why}");
    }
}
