//! `crashpoint cluster sweep` of the store in `fixtures`, with each of its mistakes and with none:
//! `make test-clusters`. Needs root.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use end_to_end::{
    findings_and_summary, printed, program, require_root, said, search_path, store_cluster,
};
use serde_json::Value;
use tempfile::TempDir;

const MODELS: [&str; 5] = ["posix", "ext4-ordered", "ext4-writeback", "xfs", "btrfs"];
/// Of those that brute force visits.
const SAMPLE: &str = "1500";

/// A mistake of the store, and what has to be said of it.
struct Known {
    mistake: &'static str,
    /// How what is broken begins or ends.
    broken: &'static str,
    /// How the operation begins that a node lacks, in whole or in part, or that is still to come.
    operation: &'static str,
    /// What an fsync of would have prevented it; nothing if none would. The segments have numbers.
    prevented_by: &'static [&'static str],
    /// Where it can be found.
    models: &'static [&'static str],
}

const LOST: &str = "is lost";
const DOWN: &str = "does not come up: it ";

const KNOWN: [Known; 8] = [
    Known {
        mistake: "segment-rename",
        broken: LOST,
        operation: "rename log/wal.tmp to log/wal-",
        prevented_by: &["log"],
        models: &["posix"],
    },
    Known {
        mistake: "trusted-mark",
        broken: DOWN,
        operation: "append log/wal-",
        // A write under way of which only the end is there has the same effect, before any sync.
        prevented_by: &[],
        // Elsewhere the mark and what it marks go to the disk together: they are in one page.
        models: &["posix"],
    },
    Known {
        mistake: "torn-append",
        broken: DOWN,
        operation: "append log/wal-",
        prevented_by: &[],
        // Within a sector only by the letter: elsewhere what is not there is zeros, all of it.
        models: &["posix"],
    },
    Known {
        mistake: "rewrite-rename",
        broken: LOST,
        operation: "rename log/rewrite-",
        prevented_by: &["log"],
        // Elsewhere the sync of what is appended to the segment keeps its name. On btrfs also if a
        // transaction ends between the two renames: so on a recorded disk with a syncfs there.
        models: &["posix"],
    },
    // The header is two writes, and either may be what is missing.
    Known {
        mistake: "version-last",
        broken: DOWN,
        operation: "log/wal-",
        prevented_by: &[],
        models: &MODELS,
    },
    Known {
        mistake: "early-acknowledgement",
        broken: LOST,
        operation: "append log/wal-",
        // Of the directory if the segment is new: then its name may be what is missing.
        prevented_by: &["log/wal-", "log"],
        models: &MODELS,
    },
    Known {
        mistake: "current-rename",
        broken: DOWN,
        operation: "rename CURRENT.tmp to CURRENT",
        prevented_by: &["{dir}"],
        models: &["posix", "btrfs"],
    },
    Known {
        mistake: "hole",
        broken: DOWN,
        operation: "append log/wal-",
        // Not before the write under way, of which only the end may be there.
        prevented_by: &[],
        // Elsewhere the record and the mark after it go to the disk together: they are in one page.
        models: &["posix"],
    },
];

fn known(mistake: &str) -> &'static Known {
    KNOWN
        .iter()
        .find(|known| known.mistake == mistake)
        .expect("one of them")
}

/// A recorded run.
struct Recorded(TempDir);

/// What a sweep found.
struct Swept {
    status: Option<i32>,
    findings: Vec<Value>,
    summary: Value,
}

impl Recorded {
    fn with(mistake: &str) -> Self {
        Self::of(mistake, |text| text, &[])
    }

    /// Of a rotation alone, or a rewrite if that is where the mistake is, by nodes that had been
    /// there before.
    fn short_with(mistake: &str, how: &[&str]) -> Self {
        let only = match mistake {
            "rewrite-rename" => "rewrite",
            _ => "rotation",
        };
        let short = |text: String| {
            let short = text.replace(
                "store client {address:a}",
                &format!("store client {{address:a}} --only {only}"),
            );
            format!("prepare = \"true\"\n{short}")
        };
        Self::of(mistake, short, how)
    }

    fn of(mistake: &str, change: impl Fn(String) -> String, how: &[&str]) -> Self {
        require_root();
        let recorded = Self(tempfile::tempdir().expect("a directory"));
        let planted = store_cluster(mistake);
        std::fs::write(recorded.0.path().join("cluster.toml"), change(planted)).expect("written");
        let words = ["record", "cluster.toml", "-o", "trace"];
        let output = recorded.crashpoint(&[&words[..], how].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        recorded
    }

    fn crashpoint(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("crashpoint"));
        command
            .arg("cluster")
            .args(arguments)
            .env("PATH", search_path())
            .current_dir(self.0.path());
        command.output().expect("it runs")
    }

    fn sweep(&self, model: &str, options: &[&str]) -> Swept {
        let arguments = [
            &["sweep", "trace", "--format", "json", "--model", model][..],
            &["--starts", "together"],
            options,
        ]
        .concat();
        let output = self.crashpoint(&arguments);
        let (findings, summary) = findings_and_summary(&output);
        assert!(!summary.is_null(), "no summary: {}", said(&output));
        println!("{model} {options:?} {summary}");
        Swept {
            status: output.status.code(),
            findings,
            summary,
        }
    }

    /// How many states there are.
    fn count(&self, explore: &str) -> u64 {
        let output = self.crashpoint(&[
            "states",
            "trace",
            "--count",
            "--model",
            "posix",
            "--explore",
            explore,
            "--starts",
            "together",
        ]);
        let text = printed(&output);
        let last = text
            .lines()
            .last()
            .and_then(|line| line.split_whitespace().last())
            .map(str::parse);
        last.and_then(Result::ok)
            .unwrap_or_else(|| panic!("no count: {text}{}", said(&output)))
    }
}

impl Swept {
    fn assert_clean(&self, what: &str) {
        assert_eq!(self.findings, Vec::<Value>::new(), "{what}");
        assert_eq!(
            (self.status, &self.summary["inconclusive"]),
            (Some(0), &Value::from(0)),
            "{what}: {}",
            self.summary
        );
        assert!(
            self.summary["checked"].as_u64() > Some(50),
            "{what}: {}",
            self.summary
        );
    }

    /// Something is found, and all of it is broken as the mistake breaks it.
    fn assert_broken(&self, known: &Known, model: &str) {
        let what = format!("{} on {model}", known.mistake);
        assert_eq!(self.status, Some(1), "{what}: {}", self.summary);
        for finding in &self.findings {
            let short = || without_timeline(finding);
            for broken in finding["broken"].as_array().expect("words") {
                let words = broken.as_str().expect("text");
                assert!(words.contains(known.broken), "{what}: {:#}", short());
            }
        }
    }

    /// The mistake is found, and nothing else is.
    fn assert_found(&self, known: &Known, model: &str) {
        self.assert_broken(known, model);
        let what = format!("{} on {model}", known.mistake);
        for finding in &self.findings {
            let short = || without_timeline(finding);
            let operations = operations(finding);
            assert!(
                operations
                    .iter()
                    .any(|words| words.contains(known.operation)),
                "{what}: {:#}",
                short()
            );
        }
        if !known.prevented_by.is_empty() {
            let prevents = |by: &Value| {
                let synced = by["path"].as_str().expect("a path");
                let is = |path: &&str| {
                    if path.ends_with('-') {
                        synced.starts_with(path)
                    } else {
                        synced == *path
                    }
                };
                known.prevented_by.iter().any(is)
            };
            let found = self
                .findings
                .iter()
                .filter_map(|finding| finding["prevented_by"].as_array())
                .flatten();
            assert!(
                found.clone().any(prevents),
                "{what}: no fsync is said to prevent it: {:#?}",
                found.collect::<Vec<_>>()
            );
            // On ext4 the fsync of another file commits the journal, and with it what else was done.
            assert!(
                found.clone().all(prevents) || model.starts_with("ext4"),
                "{what}: {:#?}",
                found.collect::<Vec<_>>()
            );
        }
    }
}

fn without_timeline(finding: &Value) -> Value {
    let mut finding = finding.clone();
    finding
        .as_object_mut()
        .expect("an object")
        .remove("timeline");
    finding
}

/// What the nodes of a finding lack, in whole or in part, and what they were about to do.
fn operations(finding: &Value) -> Vec<&str> {
    let nodes = finding["nodes"].as_array().expect("nodes");
    let mut words = Vec::new();
    for node in nodes {
        words.extend(
            node["lost"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|lost| lost["words"].as_str()),
        );
        words.extend(node["midway"]["words"].as_str());
        words.extend(node["before"].as_str());
    }
    words
}

fn is_found(mistake: &str) {
    let known = known(mistake);
    let recorded = Recorded::with(mistake);
    for model in MODELS {
        let swept = recorded.sweep(model, &[]);
        if known.models.contains(&model) {
            swept.assert_found(known, model);
        } else {
            swept.assert_clean(&format!("{mistake} on {model}"));
        }
    }
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_store_without_a_mistake_is_clean_on_every_model() {
    let recorded = Recorded::with("");
    for model in MODELS {
        recorded.sweep(model, &[]).assert_clean(model);
        let drawn = [
            "--explore",
            "brute-force",
            "--sample",
            SAMPLE,
            "--seed",
            "1",
        ];
        recorded
            .sweep(model, &drawn)
            .assert_clean(&format!("{model}, brute force"));
        let drawn = [
            "--explore",
            "brute-force",
            "--lost",
            "3",
            "--sample",
            SAMPLE,
            "--seed",
            "2",
        ];
        recorded
            .sweep(model, &drawn)
            .assert_clean(&format!("{model}, brute force, three lost"));
    }
}

#[test]
fn the_rules_ask_for_a_tenth_of_the_states_of_brute_force_at_most() {
    let recorded = Recorded::with("");
    let (rules, all) = (recorded.count("pace"), recorded.count("brute-force"));
    assert!(rules * 10 <= all, "{rules} of {all}");
}

/// What a trace of simulated machines shows: each mistake, and nothing where there is none. A run this
/// short does not say which fsync would prevent it.
#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_recording_on_simulated_machines_shows_each_mistake() {
    let sweep = |mistake: &str| {
        let how = ["--simulate", "--seed", "7"];
        Recorded::short_with(mistake, &how).sweep("posix", &[])
    };
    sweep("").assert_clean("no mistake");
    for known in &KNOWN {
        sweep(known.mistake).assert_broken(known, "posix");
    }
}

/// What is broken in a finding, and what is missing: whatever the numbers are, and whichever node
/// it is.
fn essence(finding: &Value) -> (Vec<String>, BTreeSet<String>) {
    let plain = |words: &str| words.replace(|letter: char| letter.is_ascii_digit(), "");
    let nameless = |words: &str| {
        ["a", "b", "c"].iter().fold(plain(words), |words, name| {
            words.replace(&format!("node {name} "), "")
        })
    };
    let broken = finding["broken"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(Value::as_str);
    let nodes = finding["nodes"].as_array().expect("nodes").iter();
    let missing = nodes.flat_map(|node| {
        node["lost"]
            .as_array()
            .into_iter()
            .flatten()
            .chain(Some(&node["midway"]))
    });
    (
        broken.map(nameless).collect(),
        missing
            .filter_map(|lost| lost["words"].as_str().map(plain))
            .collect(),
    )
}

/// All of it, in runs that are short enough.
#[test]
#[ignore = "takes minutes: make test-clusters"]
fn the_rules_find_all_that_brute_force_finds() {
    for mistake in ["hole", "version-last"] {
        let recorded = Recorded::short_with(mistake, &[]);
        let (rules, all) = (
            recorded.sweep("posix", &[]),
            recorded.sweep("posix", &["--explore", "brute-force"]),
        );
        let states = |swept: &Swept| swept.summary["states"].as_u64().expect("a number");
        // In so short a run those of each node alone weigh more than in a longer one.
        assert!(
            states(&rules) * 4 <= states(&all),
            "{mistake}: {} of {}",
            states(&rules),
            states(&all)
        );
        assert!(!all.findings.is_empty(), "{mistake}");
        let known: Vec<_> = rules.findings.iter().map(essence).collect();
        for finding in &all.findings {
            let (broken, missing) = essence(finding);
            // What else is missing there does not matter.
            let is_known = known
                .iter()
                .any(|known| known.0 == broken && known.1.is_subset(&missing));
            assert!(
                is_known,
                "{mistake}: {broken:?}, without {missing:?}, and known are {known:?}"
            );
        }
    }
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_new_segment_whose_name_is_not_synced_is_lost() {
    is_found("segment-rename");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_mark_that_is_trusted_stops_the_start_when_what_it_marks_is_lost() {
    is_found("trusted-mark");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_torn_append_stops_the_start() {
    is_found("torn-append");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_rewritten_log_whose_name_is_not_synced_is_lost() {
    is_found("rewrite-rename");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_version_that_is_written_last_stops_the_start() {
    is_found("version-last");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn what_is_acknowledged_before_it_is_synced_is_lost() {
    is_found("early-acknowledgement");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_current_file_whose_name_is_not_synced_stops_the_start() {
    is_found("current-rename");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_hole_in_the_log_stops_the_start() {
    is_found("hole");
}
