//! Runs of an exhaustive campaign on simulated machines that are forked from one cluster, which is made ready
//! once: each is the run that begins with the boot, to the byte. By somebody who is not root. Root is needed to
//! be somebody else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use end_to_end::simulated::Store;
use end_to_end::{Ordinary, elects_cluster, objects, printed, said, store_of_two};
use serde_json::Value;

/// What a campaign printed and left.
#[derive(Debug, PartialEq)]
struct Came {
    printed: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// The files below a directory.
fn files_below(directory: &Path, name: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).expect("it is there") {
        let entry = entry.expect("read");
        let name = format!("{name}/{}", entry.file_name().to_str().expect("text"));
        if entry.path().is_dir() {
            files_below(&entry.path(), &name, files);
        } else {
            files.insert(name, fs::read(entry.path()).expect("read"));
        }
    }
}

/// Two nodes of the store.
fn store(mistake: &str) -> Store {
    let place = Ordinary::new();
    place.file("cluster.toml", &store_of_two(mistake));
    Store::of(place)
}

/// A campaign with seed 7 on a kernel. What it says on standard error comes first.
fn campaign_on(kernel: &str, store: &Store, out: &str, more: &[&str]) -> (String, Came) {
    let words = "inject cluster.toml --simulate --seed 7 --strategy exhaustive --out";
    let words: Vec<_> = words.split(' ').chain([out, "--kernel", kernel]).collect();
    let mut command = store.place.crashpoint(&[&words[..], more].concat());
    command.env("PATH", &store.path);
    // It says of each run whether it was forked while the clients worked.
    command.env("RUST_LOG", "crashpoint::inject::forks=debug");
    let output = command.output().expect("it runs");
    assert!(
        // Where no role changes nothing has happened that should happen sometimes.
        matches!(output.status.code(), Some(0 | 1 | 3)),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let mut files = BTreeMap::new();
    files_below(&store.place.path(out), "", &mut files);
    // It has the words of the call.
    files.remove("/manifest.json").expect("it is there");
    let printed = printed(&output);
    (said(&output), Came { printed, files })
}

fn campaign(store: &Store, out: &str, more: &[&str]) -> (String, Came) {
    campaign_on(&store.kernel, store, out, more)
}

/// Has a campaign with forks, and without, come to the same. How many runs there were, and how many of them were
/// forked while the clients worked.
#[track_caller]
fn come_to_the_same(store: &Store, more: &[&str]) -> (usize, usize) {
    for out in ["out/forked", "out/whole"] {
        let _ = fs::remove_dir_all(store.place.path(out));
    }
    let (told, forked) = campaign(store, "out/forked", more);
    assert!(!told.contains("without"), "{told}");
    let (_, whole) = campaign(store, "out/whole", &[more, &["--no-fork"]].concat());
    assert_eq!(forked.printed, whole.printed);
    let names = |came: &Came| came.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&forked), names(&whole));
    for (name, content) in &forked.files {
        assert!(*content == whole.files[name], "{name} is another one");
    }
    let results = &forked.files["/results.jsonl"];
    let results = objects(std::str::from_utf8(results).expect("text"));
    for result in &results {
        // Those of a shard are not numbered from the first one on.
        let number = result["index"].as_u64().expect("a number") + 1;
        let history = format!("/runs/{number}/history.jsonl");
        assert!(forked.files[&history].len() > 100, "{history}");
    }
    let runs = results.len();
    (runs, told.matches("forked while the clients work").count())
}

/// A run in which nothing is broken, and two in which something is: of these frames are kept too.
#[test]
fn a_run_of_a_fork_is_the_run_from_the_boot_to_the_byte() {
    let store = store("");
    let (runs, _) = come_to_the_same(&store, &["--at", "messages", "--sample", "3"]);
    assert_eq!(runs, 3);
}

/// A node that is traced is traced in each fork, and a disk that is looked at is looked at there.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn runs_at_calls_messages_and_requests_are_the_same_in_forks() {
    for (at, mistake, sample) in [
        ("calls", "version-last", "12"),
        ("messages", "", "12"),
        ("requests", "", "12"),
        ("all", "", "6"),
    ] {
        let store = store(mistake);
        let (runs, late) = come_to_the_same(&store, &["--at", at, "--sample", sample]);
        println!("{at}: {runs} runs, {late} of them forked while the clients worked");
    }
}

/// Three nodes whose client works for five seconds: what comes late in that has a run in common up to shortly
/// before.
#[test]
#[ignore = "takes some minutes: make test-clusters"]
fn runs_that_are_forked_while_clients_work_are_the_same() {
    let place = Ordinary::new();
    place.file("cluster.toml", &elects_cluster(""));
    let path = place.on_path("elects");
    let store = Store {
        path,
        ..Store::of(place)
    };
    for (at, shard) in [("messages", "5/9"), ("requests", "4/12")] {
        let points = format!("out/{at}");
        campaign(&store, &points, &["--at", at, "--sample", "1", "--no-fork"]);
        // A part of all runs, with some of the first, the middle and the last times of points.
        let part = ["--at", at, "--points-of", &points, "--shard", shard];
        let (runs, late) = come_to_the_same(&store, &part);
        println!("{at}: {runs} runs, {late} of them forked while the client worked");
        assert!(late > 1, "{late} of {runs}");
    }
}

/// Programs of several threads, which chaos disturbs in forks as it does in runs of their own.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn runs_with_chaos_are_the_same_in_forks() {
    let store = store("");
    let chaos = ["--at", "messages", "--sample", "6", "--chaos", "high"];
    assert_eq!(come_to_the_same(&store, &chaos).0, 6);
}

/// What a fork finds is found again by a run from the boot.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn what_a_fork_finds_a_replay_from_the_boot_finds() {
    let store = store("version-last");
    let (_, found) = campaign(&store, "out/found", &["--stop-after", "1"]);
    let results = &found.files["/results.jsonl"];
    let results = objects(std::str::from_utf8(results).expect("text"));
    let is_broken = |result: &&Value| result["verdict"] == "broken";
    let broken = results.iter().find(is_broken).expect("one is");
    let number = broken["index"].as_u64().expect("a number") + 1;
    let replayed = store.crashpoint(&["replay", "out/found", &number.to_string()]);
    let told = printed(&replayed);
    let same = "it came to the same again, to the byte\n";
    assert!(told.ends_with(same), "{told}{}", said(&replayed));
}

/// A kernel that has not the patch, as far as its file says.
#[test]
fn a_kernel_that_cannot_be_forked_is_said_and_boots_for_each_run() {
    let store = store("");
    let kernel = fs::read(&store.kernel).expect("read");
    let mark = b"crashpoint: can be forked";
    let at = kernel.windows(mark.len()).position(|part| part == mark);
    let mut other = kernel;
    other[at.expect("it can be forked")] = b'C';
    let path = store.place.path("out/kernel");
    fs::write(&path, other).expect("written");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let path = path.to_str().expect("text");
    let sample = ["--at", "messages", "--sample", "1"];
    let (told, came) = campaign_on(path, &store, "out/boots", &sample);
    assert!(told.contains("without forks: "), "{told}");
    assert!(came.files.contains_key("/runs/1/history.jsonl"));
    let (told, _) = campaign_on(
        path,
        &store,
        "out/asked",
        &[&sample[..], &["--no-fork"]].concat(),
    );
    assert!(!told.contains("without"), "{told}");
}

/// It is for what can be forked.
#[test]
fn forks_cannot_be_switched_off_where_there_are_none() {
    let store = store("");
    let words = [
        "inject",
        "cluster.toml",
        "--strategy",
        "exhaustive",
        "--no-fork",
    ];
    let output = store.crashpoint(&words);
    assert_eq!(output.status.code(), Some(2));
    let told = said(&output);
    assert!(told.contains("--no-fork is for --simulate"), "{told}");
}
