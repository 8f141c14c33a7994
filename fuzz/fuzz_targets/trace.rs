//! The directory of a trace is read or refused, and what is read can be shown. Once the input is
//! all of `trace.json`; once it is what the other files hold, and the manifest has their hashes:
//! else every damage would be refused for its hash.

#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use block_dev::{Base, BlockLog};
use libfuzzer_sys::fuzz_target;
use recorder::process::describe;
use serde_json::Value;
use tempfile::TempDir;
use trace_store::{Disk, Trace};

/// The files, and where the manifest has their hashes.
const FILES: [(&str, &str); 4] = [
    ("run.zst", "/run_blake3"),
    ("data.zst", "/data_blake3"),
    ("disk-0-base.zst", "/disks/a/base_blake3"),
    ("disk-0-log.zst", "/disks/a/log_blake3"),
];
const MANIFEST: &str = "trace.json";

/// A directory with a trace of nothing, and its manifest.
fn directory() -> &'static (TempDir, Value) {
    static DIRECTORY: OnceLock<(TempDir, Value)> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (file_system, path) = ("ext4".into(), "data".into());
        let base = Arc::new(Base::empty(1 << 20));
        let disk = Disk {
            file_system,
            directory: path,
            base,
            log: BlockLog::default(),
            durable: 0,
            after: None,
        };
        let trace = Trace {
            disks: [("a".to_owned(), disk)].into(),
            ..Trace::default()
        };
        trace.save(directory.path()).expect("saved");
        let text = std::fs::read(directory.path().join(MANIFEST)).expect("read");
        let mut manifest: Value = serde_json::from_slice(&text).expect("it was written");
        // The hash of the manifest itself, which it may lack.
        manifest
            .as_object_mut()
            .expect("an object")
            .remove("blake3");
        (directory, manifest)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (directory, manifest) = directory();
    let directory = directory.path();
    std::fs::write(directory.join(MANIFEST), bytes).expect("written");
    read(directory);
    write_all(directory, manifest.clone(), bytes);
    read(directory);
});

fn read(directory: &Path) {
    if let Ok(trace) = Trace::load(directory) {
        describe(&trace).for_each(drop);
        // What was read can be kept, and is the same then.
        let again =
            tempfile::tempdir_in(directory.parent().expect("it has one")).expect("a directory");
        trace.save(again.path()).expect("saved");
        assert!(Trace::load(again.path()).expect("loaded") == trace);
    }
}

/// Each file but the last is as long as its two bytes at the begin of the input say.
fn write_all(directory: &Path, mut manifest: Value, bytes: &[u8]) {
    let (lengths, mut rest) = bytes.split_at(bytes.len().min(2 * (FILES.len() - 1)));
    let mut lengths = lengths
        .chunks_exact(2)
        .map(|length| usize::from(u16::from_le_bytes([length[0], length[1]])));
    for (name, place) in FILES {
        let content;
        (content, rest) = rest.split_at(lengths.next().unwrap_or(usize::MAX).min(rest.len()));
        let compressed = zstd::bulk::compress(content, 1).expect("compressed");
        std::fs::write(directory.join(name), &compressed).expect("written");
        let hash = blake3::hash(&compressed).to_hex().to_string();
        *manifest.pointer_mut(place).expect("every trace has it") = hash.into();
    }
    std::fs::write(directory.join(MANIFEST), manifest.to_string()).expect("written");
}
