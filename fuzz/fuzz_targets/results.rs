//! Results are read or refused, and of what is read a story can be told: what is fuzzed is
//! `results.jsonl`, in a directory that is right otherwise.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pace_rules::disk::Disk;
use replayer::{Evidence, Findings, FoundWhat, Story};
use tempfile::TempDir;

fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<TempDir> = OnceLock::new();
    let made = DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(
            directory.path().join("manifest.json"),
            include_str!("../manifest.json"),
        )
        .expect("written");
        // Else everything would be refused.
        std::fs::write(directory.path().join("results.jsonl"), "").expect("written");
        Findings::read(directory.path())
            .expect("fuzz/manifest.json is of another version: make it anew");
        directory
    });
    made.path()
}

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(directory().join("results.jsonl"), bytes).expect("written");
    if let Ok(findings) = Findings::read(directory()) {
        assert!(
            findings
                .all
                .iter()
                .enumerate()
                .all(|(place, found)| found.number == place + 1)
        );
        let members: usize = findings
            .groups()
            .iter()
            .map(|group| group.members.len())
            .sum();
        assert_eq!(members, findings.all.len());
        for found in &findings.all {
            let (FoundWhat::State(state), Some(log)) = (&found.what, &found.log) else {
                continue;
            };
            let story = Story {
                variant: &found.variant,
                contract: None,
                workload: &found.workload,
                state,
            };
            for disk in [Disk::Honest, Disk::DropFlush, Disk::LoseWrite(1)] {
                assert!(!story.in_full(&Evidence::new(log, disk)).is_empty());
            }
        }
    }
});
