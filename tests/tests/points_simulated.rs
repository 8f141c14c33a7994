//! Failure points of a cluster on simulated machines, where calls are counted in each machine, and every
//! failure at each of them: by somebody who is not root. Root is needed to be somebody else, and for the
//! namespaces that it is compared with.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use end_to_end::simulated::Store;
use end_to_end::{Ordinary, by_id, crashpoint, objects, printed, said, store_of_two};
use serde_json::Value;

/// A node that changes a file as soon as the client is there, and recovers if it was ended while it did. A
/// recovery that finds that one before it was ended gives up.
const NODE: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -e dirty ]; then
    if [ -e recovering ]; then
        echo 'a recovery did not end' >&2
        exit 1
    fi
    : >recovering
    rm -f value.tmp
    rm dirty recovering
fi
echo ready
# It is there when the others have ended.
sleep 600 &
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
: >dirty
echo 1 >value.tmp
mv value.tmp value
rm dirty
exec sleep 600
"#;

const CLUSTER: &str = r#"
[[nodes]]
name = "a"
command = "sh {here}/node.sh {dir} {address}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "bash -c 'until : >/dev/tcp/{address:a}/7000; do sleep 0.02; done; sleep 0.6'"
[check]
command = "echo ok"
"#;

/// A place of an ordinary user's with a cluster.
struct Laid(Store);

impl Laid {
    fn new(files: &[(&str, &str)]) -> Self {
        let place = Ordinary::new();
        for (name, text) in files {
            place.file(name, text);
        }
        Self(Store::of(place))
    }

    /// Two nodes of the store.
    fn store(mistake: &str) -> Self {
        Self::new(&[("cluster.toml", &store_of_two(mistake))])
    }

    /// Runs `crashpoint`, which must end with this status.
    #[track_caller]
    fn ends(&self, status: i32, arguments: &[&str]) -> Output {
        let output = self.0.crashpoint(arguments);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {}{}",
            printed(&output),
            said(&output)
        );
        let left = fs::read_dir(self.0.place.temporary()).expect("it is there");
        assert_eq!(left.count(), 0);
        output
    }

    /// Runs `crashpoint inject` on simulated machines with seed 7. What it prints.
    #[track_caller]
    fn inject(&self, status: i32, more: &[&str]) -> String {
        let words = ["inject", "cluster.toml", "--simulate", "--seed", "7"];
        let kernel = ["--kernel", &self.0.kernel];
        printed(&self.ends(status, &[&words[..], &kernel, more].concat()))
    }

    /// The same with every failure at every failure point.
    #[track_caller]
    fn exhaustive(&self, status: i32, more: &[&str]) -> String {
        self.inject(status, &[&["--strategy", "exhaustive"], more].concat())
    }

    /// The failure points of a run in namespaces, as lines.
    fn points_in_namespaces(&self) -> String {
        let mut command = crashpoint();
        command.arg("inject").arg(self.0.place.path("cluster.toml"));
        command.args(["--points", "--format", "json"]);
        let output = command.env("PATH", &self.0.path).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        printed(&output)
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.0.place.path(name)).expect("read")
    }

    /// What came of each run.
    fn results(&self, out: &str) -> Vec<Value> {
        objects(&self.file(&format!("{out}/results.jsonl")))
    }

    /// The number of the first run that is told.
    fn found(&self, out: &str) -> String {
        let show = printed(&self.0.crashpoint(&["show", out]));
        let (_, replay) = show
            .split_once(&format!(" replay {out} "))
            .expect("it is told");
        replay
            .split_whitespace()
            .next()
            .expect("a number")
            .to_owned()
    }

    /// The first run that is told is made again, to the byte.
    fn comes_to_the_same(&self, out: &str) -> String {
        let number = self.found(out);
        let again = printed(&self.ends(1, &["replay", out, &number]));
        let same = "it came to the same again, to the byte\n";
        assert!(again.ends_with(same), "{again}");
        number
    }
}

/// What a plan means by a point is the same on both grounds, and what is counted with one seed is the same
/// again.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn the_same_code_is_the_same_failure_point_on_both_grounds() {
    let laid = Laid::store("");
    let lines = laid.inject(0, &["--points", "--format", "json"]);
    let again = laid.inject(0, &["--points", "--format", "json"]);
    assert_eq!(lines, again);
    let (here, there) = (by_id(&lines), by_id(&laid.points_in_namespaces()));
    let what = |points: &BTreeMap<String, Value>| -> BTreeMap<String, [Value; 4]> {
        let point =
            |point: &Value| ["call", "file", "site", "callers"].map(|key| point[key].clone());
        let points = points.iter();
        points.map(|(id, one)| (id.clone(), point(one))).collect()
    };
    assert_eq!(what(&here), what(&there));
    let table = laid.inject(0, &["--points"]);
    let ends = table.contains(" power loss, ") && table.contains("not among them: ");
    assert!(ends, "{table}");
}

/// A node that makes the same calls whenever it is started: once the client is there, and later before it
/// is ready.
const FIXED: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
makes() {
    for name in one two three; do
        mkdir $name
    done
}
[ -n "$first" ] || makes
echo ready
if [ -n "$first" ]; then
    python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
    makes
fi
exec sleep 600
"#;

/// What a script says is how often a call is made, also by a node that was killed and started again.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn calls_are_counted_as_often_as_they_are_made_on_both_grounds_and_after_a_failure() {
    let laid = Laid::new(&[("cluster.toml", CLUSTER), ("node.sh", FIXED)]);
    let times = |points: Vec<Value>| -> BTreeMap<String, u64> {
        let word = |point: &Value, key: &str| point[key].as_str().expect("a word").to_owned();
        let times = |point: Value| {
            let words = format!("{} {}", word(&point, "call"), word(&point, "file"));
            (words, point["by_node"]["a"].as_u64().expect("a number"))
        };
        let of_node = points.into_iter().map(times);
        let is_change = |(words, _): &(String, u64)| words.starts_with("mkdir ");
        of_node.filter(is_change).collect()
    };
    let wanted = [("mkdir one", 1), ("mkdir three", 1), ("mkdir two", 1)];
    let wanted: BTreeMap<_, _> = wanted.map(|(call, times)| (call.to_owned(), times)).into();
    let lines = laid.inject(0, &["--points", "--format", "json"]);
    assert_eq!(times(by_id(&lines).into_values().collect()), wanted);
    let lines = laid.points_in_namespaces();
    assert_eq!(times(by_id(&lines).into_values().collect()), wanted);
    // The first failure is a kill of the node before it has made one.
    laid.exhaustive(0, &["--sample", "1", "--out", "out/one"]);
    let result = laid.results("out/one").remove(0);
    let points = result["points"].as_array().expect("a list").clone();
    assert_eq!(times(points), wanted, "{result}");
    assert!(result.get("has_lost_points").is_none(), "{result}");
}

/// Each run is that without failures up to its failure: a point comes up when it did there. A campaign
/// that was stopped and went on comes to the same as one that was not.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_campaign_comes_to_the_same_at_once_and_in_parts_and_each_point_comes_up_when_it_did() {
    let laid = Laid::store("");
    laid.exhaustive(0, &["--sample", "5", "--out", "out/whole"]);
    laid.exhaustive(0, &["--sample", "5", "--out", "out/parts"]);
    // As if it had been killed after two of the runs.
    let parts = laid.0.place.path("out/parts");
    let text = laid.file("out/parts/results.jsonl");
    let two: String = text.split_inclusive('\n').take(2).collect();
    fs::write(parts.join("results.jsonl"), two).expect("written");
    laid.ends(0, &["inject", "--resume", "out/parts"]);
    assert_eq!(laid.results("out/parts").len(), 5);
    assert_eq!(
        laid.file("out/whole/results.jsonl"),
        laid.file("out/parts/results.jsonl")
    );
    let manifest: Value =
        serde_json::from_str(&laid.file("out/whole/manifest.json")).expect("JSON");
    let points = &manifest["collected"]["points"];
    for (place, result) in laid.results("out/whole").iter().enumerate() {
        // The first five are kills at the first time of the first five points that change something.
        let (came, point) = (&result["faults"][0], &points[place]);
        let times =
            [&came["fired_ns"], &point["first_ns"]].map(|time| time.as_u64().expect("a time"));
        assert!(times[0].abs_diff(times[1]) < 1_000_000, "{result} {point}");
        assert_eq!(result["simulated"]["seed"], 7);
    }
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_kill_between_two_calls_that_must_not_be_two_is_found_and_comes_to_the_same() {
    let laid = Laid::store("version-last");
    let text = laid.exhaustive(1, &["--stop-after", "1", "--out", "out/found"]);
    assert!(
        text.contains("is about to pwrite64 log/wal-00000002"),
        "{text}"
    );
    println!("{} runs", laid.results("out/found").len());
    let number = laid.comes_to_the_same("out/found");
    let smaller = printed(&laid.ends(1, &["minimize", "out/found", &number]));
    assert!(
        smaller.contains("1 fault, and none can be left out"),
        "{smaller}"
    );
}

/// What a kill of the node leaves is recovered from, and what a kill in that recovery leaves is not.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_recovery_that_gives_up_at_the_second_failure_is_found_by_a_pair() {
    let laid = Laid::new(&[("cluster.toml", CLUSTER), ("node.sh", NODE)]);
    let pairs = [
        "--max-failures",
        "2",
        "--stop-after",
        "1",
        "--out",
        "out/found",
    ];
    let text = laid.exhaustive(1, &pairs);
    assert!(text.contains("a recovery did not end"), "{text}");
    // Nothing that was counted is missing of nodes that had ended, and of which something went on.
    let ended = text.contains("a ended with status 2 by itself");
    assert!(ended && text.contains(", 0 inconclusive\n"), "{text}");
    println!("{} runs", laid.results("out/found").len());
    let number = laid.comes_to_the_same("out/found");
    let told = printed(&laid.0.crashpoint(&["show", "out/found", &number]));
    assert_eq!(told.matches("[[faults]]").count(), 2, "{told}");
    assert!(
        told.contains("\n  not made      unlink recovering on a"),
        "{told}"
    );
}

/// Another program has its calls at other places, and the second run would be the first one again.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_failure_point_that_does_not_come_up_is_no_clean_result_and_is_not_tried_twice() {
    let laid = Laid::store("");
    laid.exhaustive(0, &["--sample", "1", "--out", "out/base"]);
    let mut manifest: Value =
        serde_json::from_str(&laid.file("out/base/manifest.json")).expect("JSON");
    manifest["collected"]["points"][0]["site"] = "0000000000000001".into();
    let path = laid.0.place.path("out/base/manifest.json");
    fs::write(&path, manifest.to_string()).expect("written");
    let points_of = ["--sample", "1", "--points-of", "out/base"];
    let words = "inject cluster.toml --simulate --strategy exhaustive --seed 8 --kernel";
    let words: Vec<_> = words.split(' ').chain([&*laid.0.kernel]).collect();
    let other = laid.ends(2, &[&words, &points_of[..]].concat());
    let told = said(&other);
    assert!(told.contains("with another seed"), "{told}");
    let text = laid.exhaustive(3, &points_of);
    assert!(text.contains("fault 1 never happened: at "), "{text}");
    assert!(
        text.contains("the failure point of 1 run did not come up again\n")
            && !text.contains("in two runs"),
        "{text}"
    );
}

/// A node that installs a snapshot after other work: first the manifest that names it, which is wrong, and
/// then its name.
const SNAPSHOT: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -e manifest ] && [ ! -e "$(cat manifest)" ]; then
    echo "cannot start: snapshot $(cat manifest) not found"
fi
echo ready
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
for name in users orders prices stock; do
    echo 1 >$name.new
    mv $name.new $name
done
echo 1 >snapshot.new
echo snapshot-7 >manifest.new
mv manifest.new manifest
mv snapshot.new snapshot-7
exec sleep 600
"#;

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn the_failure_that_makes_a_line_is_found_by_its_words_and_comes_to_the_same() {
    let laid = Laid::new(&[("cluster.toml", CLUSTER), ("node.sh", SNAPSHOT)]);
    let want = [
        "--want",
        "log: \"snapshot snapshot-7 not found\"",
        "--out",
        "out/found",
    ];
    let text = laid.inject(1, &want);
    assert!(text.contains("`: shown by run "), "{text}");
    // As in namespaces (`tests/search.rs`).
    let tried = laid.results("out/found").len();
    assert!(tried <= 8, "{tried}: {text}");
    laid.comes_to_the_same("out/found");
    laid.ends(1, &["inject", "--resume", "out/found"]);
}

/// A node that makes its only call long after all else, and a probe that has it be something else by then.
const LATE: &str = r#"
cd "$1"
echo ready
until [ "$(date +%s)" -ge 1700000008 ]; do sleep 0.2; done
mkdir late
exec sleep 600
"#;

const PROBED: &str = r#"
[[nodes]]
name = "a"
command = "sh {here}/node.sh {dir}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "bash -c 'until [ $(date +%s) -ge 1700000009 ]; do sleep 0.2; done'"
[probe]
command = "bash -c '[ $(date +%s%N) -ge 1700000007600000000 ] && echo a late || echo a early'"
roles = ["early", "late"]
[check]
command = "echo ok"
"#;

/// Where it is quiet the probe is asked every five seconds, but not where its answers are kept with calls.
#[test]
fn a_failure_point_has_the_role_that_its_node_had_by_then() {
    let laid = Laid::new(&[("cluster.toml", PROBED), ("node.sh", LATE)]);
    let points = by_id(&laid.inject(0, &["--points", "--format", "json"]));
    let point = points.into_values().find(|point| point["call"] == "mkdir");
    let point = point.expect("it was made");
    assert_eq!(point["role"], "late");
    assert_eq!(point["times"], 1);
}
