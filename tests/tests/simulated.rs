//! Clusters on simulated machines, by somebody who is not root. Root is needed to be somebody else.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use end_to_end::{Ordinary, printed, said};
use serde_json::Value;

/// The store of `fixtures`, where an ordinary user can run it.
struct Store {
    place: Ordinary,
    path: String,
    kernel: String,
}

impl Store {
    /// With one of its mistakes, or none.
    fn with(mistake: &str) -> Self {
        let place = Ordinary::new();
        let path = place.on_path("store");
        let fixture = Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/fixtures/store/cluster.toml"
        ));
        let text = std::fs::read_to_string(fixture).expect("read");
        let planted = text.replace(
            "STORE_MISTAKE = \"\"",
            &format!("STORE_MISTAKE = \"{mistake}\""),
        );
        place.file("cluster.toml", &planted);
        let [_, _, kernel] = place.virtual_time();
        let kernel = kernel.strip_prefix("uml:").expect("a path").to_owned();
        Self {
            place,
            path,
            kernel,
        }
    }

    fn crashpoint(&self, arguments: &[&str]) -> Output {
        let mut command = self.place.crashpoint(arguments);
        command.env("PATH", &self.path).output().expect("it runs")
    }

    /// A run on simulated machines.
    fn run(&self, seed: &str, options: &[&str]) -> Output {
        let how = ["--simulate", "--seed", seed, "--kernel", &self.kernel];
        let words = ["cluster", "run", "cluster.toml"];
        let output = self.crashpoint(&[&words[..], &how, options].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        output
    }

    fn sweep(&self, options: &[&str]) -> Output {
        let how = ["--live", "--seed", "7", "--kernel", &self.kernel];
        let words = ["cluster", "sweep", "cluster.toml"];
        self.crashpoint(&[&words[..], &how, options].concat())
    }

    /// The files that a run left.
    fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.place.path(name)).expect("it is there");
        entries
            .map(|entry| entry.expect("read"))
            .map(|entry| {
                let content = std::fs::read(entry.path()).expect("read");
                (entry.file_name().into_string().expect("text"), content)
            })
            .collect()
    }
}

fn history(output: &Output) -> String {
    let text = said(output);
    let line = text.lines().find_map(|line| line.strip_prefix("history "));
    line.unwrap_or_else(|| panic!("no history: {text}"))
        .split(':')
        .next()
        .expect("a part")
        .to_owned()
}

#[test]
fn a_run_is_the_same_to_the_byte_each_time_and_another_with_another_seed() {
    let store = Store::with("");
    store.place.shared("out");
    let options = |data: &'static str| ["--client", "--restart", "--check", "--data", data];
    let first = store.run("7", &options("out/first"));
    let again = store.run("7", &options("out/again"));
    assert_eq!(printed(&first), printed(&again));
    assert!(printed(&first).ends_with("ok\n"), "{}", printed(&first));
    assert_eq!(history(&first), history(&again));
    let files = store.files("out/first");
    for name in ["net.pcap", "a.console", "client.console", "a.log"] {
        assert!(files[name].len() > 100 || name == "a.log", "{name}");
    }
    for (name, content) in store.files("out/again") {
        assert_eq!(files.get(&name), Some(&content), "{name}");
    }
    let other = store.run("8", &["--client", "--check"]);
    assert_ne!(history(&first), history(&other));
}

#[test]
fn a_live_sweep_finds_what_is_acknowledged_too_early_and_it_happens_again() {
    let store = Store::with("early-acknowledgement");
    store.place.shared("out");
    let options = [
        "--victims",
        "all",
        "--stop-after",
        "1",
        "--out",
        "out/results",
    ];
    let output = store.sweep(&options);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let text = printed(&output);
    assert!(
        text.contains("is lost") && text.contains("power         of all nodes fails at"),
        "{text}"
    );
    let shown = store.crashpoint(&["show", "out/results"]);
    assert!(
        printed(&shown).starts_with("FINDING 1  failure "),
        "{}",
        printed(&shown)
    );
    let replayed = store.crashpoint(&["replay", "out/results", "1", "--keep", "out/kept"]);
    let text = printed(&replayed);
    assert_eq!(replayed.status.code(), Some(1), "{text}{}", said(&replayed));
    assert!(
        text.contains("it came to the same again, to the byte"),
        "{text}"
    );
    assert!(store.files("out/kept")["net.pcap"].len() > 1000);
}

#[test]
fn a_live_sweep_of_a_correct_store_is_clean_and_goes_on_where_it_was_stopped() {
    let store = Store::with("");
    store.place.shared("out");
    let options = ["--sample", "4", "--out", "out/results", "--format", "json"];
    let output = store.sweep(&[&options[..], &["--budget", "1ms"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let output = store.crashpoint(&["cluster", "sweep", "--resume", "out/results"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let results = std::fs::read_to_string(store.place.path("out/results/results.jsonl"));
    let results = results.expect("read");
    let results: Vec<Value> = results
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert_eq!(results.len(), 4);
    assert!(
        results.iter().all(|result| result["verdict"] == "ok"),
        "{results:?}"
    );
    let kinds: std::collections::BTreeSet<_> = results
        .iter()
        .map(|result| result["victims"].to_string())
        .collect();
    assert_eq!(kinds.len(), 2, "kinds take turns");
    // The kernel and the file that it was begun with belong to it.
    store.place.file("cluster.toml", "nodes = []");
    let output = store.crashpoint(&["cluster", "sweep", "--resume", "out/results"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn what_cannot_be_simulated_is_said_in_one_line() {
    let store = Store::with("");
    let cases = [
        (
            &["--client", "--data", "."][..],
            "is not empty: a simulated run begins with new disks",
        ),
        (&[][..], "give --client or --check"),
    ];
    for (options, expected) in cases {
        let words = [
            "cluster",
            "run",
            "cluster.toml",
            "--simulate",
            "--kernel",
            &store.kernel,
        ];
        let output = store.crashpoint(&[&words[..], options].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    }
    let words = [
        "cluster",
        "run",
        "cluster.toml",
        "--client",
        "--simulate",
        "--kernel",
        "/bin/true",
    ];
    let output = store.crashpoint(&words);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
