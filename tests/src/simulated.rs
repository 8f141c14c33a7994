//! Clusters on simulated machines, and what is read of their runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::programs::two_of_store;
use crate::{Ordinary, objects, printed, said, store_cluster};

/// When a simulation begins, in seconds since 1970.
pub const EPOCH_S: u32 = 1_700_000_000;

/// The store of `fixtures`, where an ordinary user can run it.
pub struct Store {
    /// Where it is, with its cluster file.
    pub place: Ordinary,
    /// Where it and its programs are looked for.
    pub path: String,
    /// The kernel of its machines.
    pub kernel: String,
}

impl Store {
    /// With one of its mistakes, or none.
    pub fn with(mistake: &str) -> Self {
        let place = Ordinary::new();
        place.file("cluster.toml", &store_cluster(mistake));
        Self::of(place)
    }

    /// Two of its nodes, with one of its mistakes, or none.
    pub fn of_two(mistake: &str) -> Self {
        let place = Ordinary::new();
        place.file("cluster.toml", &two_of_store(mistake));
        Self::of(place)
    }

    /// Another cluster of `fixtures`, with something in its file replaced.
    pub fn other(folder: &str, from: &str, to: &str) -> Self {
        let place = Ordinary::new();
        place.repository(&format!("tests/fixtures/{folder}"));
        let path = place.path("cluster.toml");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).expect("written");
        Self::of(place)
    }

    /// With the cluster file of a place.
    pub fn of(place: Ordinary) -> Self {
        place.shared("out");
        let path = place.on_path("store");
        let kernel = place.simulation_kernel();
        Self {
            place,
            path,
            kernel,
        }
    }

    /// The same with disks, recorded as `out/1`.
    pub fn recorded(mistake: &str) -> Self {
        let store = Self::with(mistake);
        let text = format!("disk = \"ext4\"\n{}", store_cluster(mistake));
        store.place.file("cluster.toml", &text);
        store.record("out/1");
        store
    }

    /// Records it on simulated machines.
    pub fn record(&self, name: &str) {
        let how = ["--simulate", "--seed", "7", "--kernel", &self.kernel];
        let words = ["cluster", "record", "cluster.toml", "-o", name];
        let output = self.crashpoint(&[&words[..], &how].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }

    /// Runs Crashpoint in its place, as its user.
    pub fn crashpoint(&self, arguments: &[&str]) -> Output {
        let mut command = self.place.crashpoint(arguments);
        command.env("PATH", &self.path).output().expect("it runs")
    }

    /// What makes a run on simulated machines.
    pub fn run_command(&self, seed: &str, options: &[&str]) -> Command {
        let how = ["--simulate", "--seed", seed, "--kernel", &self.kernel];
        let words = ["cluster", "run", "cluster.toml"];
        let words = [&words[..], &how, options].concat();
        let mut command = self.place.crashpoint(&words);
        command.env("PATH", &self.path);
        command
    }

    /// A run on simulated machines.
    pub fn run(&self, seed: &str, options: &[&str]) -> Output {
        let output = self.run_command(seed, options).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        output
    }

    /// A live sweep, with seed 7.
    pub fn sweep(&self, options: &[&str]) -> Output {
        let how = ["--live", "--seed", "7", "--kernel", &self.kernel];
        let words = ["cluster", "sweep", "cluster.toml"];
        self.crashpoint(&[&words[..], &how, options].concat())
    }

    /// The files that a run left.
    pub fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
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

/// What came of each failure, by seed, then by how often the power failed, then by index.
pub fn results(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("read");
    let mut results = objects(&text);
    let address = |result: &Value| {
        let again = result["again"].as_array().map_or(0, Vec::len);
        (result["seed"].as_u64(), again, result["index"].as_u64())
    };
    results.sort_by_key(address);
    results
}

/// The frames of a file: when each was sent, in seconds since the simulation began, and what.
pub fn frames(pcap: &[u8]) -> Vec<(f64, Vec<u8>)> {
    let mut rest = &pcap[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four"));
        let time_s = f64::from(word(0) - EPOCH_S) + f64::from(word(4)) / 1e9;
        let (frame, others) = rest[16..].split_at(word(8) as usize);
        frames.push((time_s, frame.to_vec()));
        rest = others;
    }
    frames
}

/// What a live sweep came to: its status, and what was said.
pub fn came(output: &Output) -> (Option<i32>, String) {
    let words = format!("{}{}", printed(output), said(output));
    (output.status.code(), words)
}
