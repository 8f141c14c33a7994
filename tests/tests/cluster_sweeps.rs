//! `crashpoint cluster sweep` of the store in `fixtures`, of which the answers are known. Needs
//! root.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use end_to_end::{
    Family, Random, Running, objects, printed, program, require_root, said, search_path, settle,
    store_cluster, wait_until,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// A recorded run of the store.
struct Recorded {
    directory: TempDir,
}

fn crashpoint(arguments: &[&str], path: &Path) -> Output {
    command(arguments, path).output().expect("it runs")
}

/// What a killed one leaves goes with the place.
fn command(arguments: &[&str], path: &Path) -> Command {
    let mut command = Command::new(program("crashpoint"));
    command
        .args(arguments)
        .env("PATH", search_path())
        .env("TMPDIR", path)
        .current_dir(path);
    command
}

fn record(mistake: &str) -> Recorded {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let planted = store_cluster(mistake);
    std::fs::write(directory.path().join("cluster.toml"), planted).expect("written");
    let output = crashpoint(
        &["cluster", "record", "cluster.toml", "-o", "trace"],
        directory.path(),
    );
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Recorded { directory }
}

impl Recorded {
    fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// The status, and the objects that were printed, the summary last.
    fn sweep(&self, options: &[&str]) -> (Option<i32>, Vec<Value>) {
        let output = crashpoint(
            &[&["cluster", "sweep", "trace", "--format", "json"], options].concat(),
            &self.path(),
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = String::from_utf8(output.stdout).expect("text");
        let lines = objects(&lines);
        assert!(!lines.is_empty(), "{said}");
        (output.status.code(), lines)
    }
}

fn words(found: &[Value]) -> String {
    let found = found.iter().filter(|line| line["type"] == "states-finding");
    found
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_store_without_a_mistake_keeps_everything_in_every_state_that_is_drawn() {
    let (status, lines) = record("").sweep(&["--sample", "100", "--seed", "5"]);
    assert_eq!(status, Some(0), "{}", words(&lines));
    assert!(lines.last().expect("a summary")["checked"].as_u64() > Some(20));
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn what_is_acknowledged_before_it_is_synced_is_lost_and_the_story_names_the_log() {
    let (status, lines) = record("early-acknowledgement")
        .sweep(&["--starts", "together", "--sample", "100", "--seed", "1"]);
    assert_eq!(status, Some(1));
    let found = words(&lines);
    assert!(
        found.contains("is lost") && found.contains("wal-"),
        "{found}"
    );
}

#[test]
fn states_are_counted_before_anything_runs() {
    let recorded = record("");
    let output = crashpoint(&["cluster", "states", "trace", "--count"], &recorded.path());
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.lines().any(|line| line.starts_with("all ")), "{text}");
}

/// Runs it with its temporary files in a place of their own, and sends a signal some time after it
/// has said something.
fn signalled(arguments: &[&str], path: &Path, says: &str, signal: Signal) -> Output {
    let temporary = tempfile::tempdir().expect("a directory");
    let said = temporary.path().join("said");
    let mut command = Command::new(program("crashpoint"));
    command
        .args(arguments)
        .env("PATH", search_path())
        .env("TMPDIR", temporary.path())
        .current_dir(path);
    command
        .stdout(Stdio::piped())
        .stderr(File::create(&said).expect("created"));
    let mut running = Running::start(&mut command);
    let text = || std::fs::read_to_string(&said).expect("read");
    wait_until(&format!("it says {says:?}"), PATIENCE, || {
        assert!(!running.has_ended(), "{}", text());
        text().contains(says)
    });
    std::thread::sleep(Duration::from_secs(2));
    let family = Family::of(running.id());
    running.send(signal);
    let mut output = running.output();
    output.stderr = text().into_bytes();
    std::fs::remove_file(&said).expect("removed");
    let left = settle(&family, temporary.path(), <[_]>::is_empty);
    assert!(left.is_empty(), "{left:#?}");
    output
}

#[test]
fn an_interrupted_sweep_says_what_it_looked_at_and_leaves_whole_results() {
    let recorded = record("");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let arguments = ["cluster", "sweep", "trace", "--out", signal.as_str()];
        let output = signalled(
            &arguments,
            &recorded.path(),
            "crash states on linux",
            signal,
        );
        let (printed, said) = (printed(&output), said(&output));
        assert_eq!(output.status.code(), Some(3), "{printed}{said}");
        assert!(
            printed.lines().any(|line| line.starts_with("linux ")),
            "{printed}{said}"
        );
        assert!(
            printed.contains("stopped before the end: "),
            "{printed}{said}"
        );
        assert!(!printed.contains("INCONCLUSIVE"), "{printed}");
        let summary =
            std::fs::read_to_string(recorded.path().join(signal.as_str()).join("summary.jsonl"));
        let summary: Value = serde_json::from_str(&summary.expect("read")).expect("an object");
        assert_eq!(summary["interrupted"], true, "{summary}");
        let shown = crashpoint(&["show", signal.as_str()], &recorded.path());
        assert!(
            String::from_utf8_lossy(&shown.stdout).contains("stopped before the end: "),
            "{shown:?}"
        );
    }
}

#[test]
fn an_interrupted_recording_says_so_and_leaves_no_trace() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let text =
        "nodes = [{ name = 'one', command = 'sleep 600' }]\nclient = { command = 'sleep 600' }";
    std::fs::write(directory.path().join("cluster.toml"), text).expect("written");
    let arguments = ["cluster", "record", "cluster.toml", "-o", "trace"];
    let output = signalled(
        &arguments,
        directory.path(),
        "1 node is ready",
        Signal::SIGINT,
    );
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("interrupted: everything is stopped, and no trace was written"),
        "{}",
        said(&output)
    );
    assert!(!directory.path().join("trace").exists());
}

#[test]
fn a_trace_that_is_damaged_is_refused_with_the_name_of_the_file() {
    let recorded = record("");
    let path = recorded.path().join("trace/run.zst");
    let bytes = std::fs::read(&path).expect("read");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    let output = crashpoint(&["cluster", "sweep", "trace"], &recorded.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("run.zst is damaged"), "{said}");
}

/// The nodes would end at once in every state, which is no finding.
#[test]
fn a_sweep_is_refused_where_the_program_of_a_node_is_not_there() {
    let recorded = record("");
    let mut command = command(&["cluster", "sweep", "trace"], &recorded.path());
    let output = command.env("PATH", "/usr/bin:/bin").output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    assert!(
        said(&output).contains("there is no program store"),
        "{}",
        said(&output)
    );
}

/// What a sweep left in a directory, but for how long it took.
fn left_in(directory: &Path) -> (String, Value) {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("read");
    let mut summary: Value = serde_json::from_str(&read("summary.jsonl")).expect("an object");
    summary["seconds"] = Value::Null;
    (read("findings.jsonl"), summary)
}

#[test]
#[ignore = "it takes a minute: make test-clusters"]
fn a_sweep_of_a_cluster_is_continued_divided_and_put_together() {
    let recorded = record("early-acknowledgement");
    let run = |arguments: &[&str]| crashpoint(arguments, &recorded.path());
    let sweep = |options: &[&str]| {
        run(&[
            &["cluster", "sweep", "trace", "--starts", "together"][..],
            &["--sample", "40", "--seed", "1"],
            options,
        ]
        .concat())
    };
    let place = |name: &str| recorded.path().join(name);
    // What one state is found to be may depend on which node comes first: another state was judged in
    // another way in one of many runs of this test. What differs each time is a mistake of the sweep.
    let alike = (1..=3).find(|attempt| {
        let name = |what: &str| format!("{what}{attempt}");
        let [whole, over] = ["whole", "over"].map(name);
        sweep(&["--out", &whole]);
        let whole = left_in(&place(&whole));

        let cut = sweep(&["--out", &over, "--budget", "1ms"]);
        assert!(
            printed(&cut).contains("stopped before the end: "),
            "{}",
            printed(&cut)
        );
        assert!(
            said(&cut).contains(&format!("cluster sweep --resume {over}")),
            "{}",
            said(&cut)
        );
        let refused = run(&["app", "--resume", &over]);
        assert!(
            said(&refused).contains(&format!(
                "continue it with crashpoint cluster sweep --resume {over}"
            )),
            "{}",
            said(&refused)
        );
        run(&["cluster", "sweep", "--resume", &over]);
        let again = run(&["cluster", "sweep", "--resume", &over]);
        assert!(said(&again).contains("is finished"), "{}", said(&again));

        let [one, two, merged] = ["one", "two", "merged"].map(name);
        for (shard, name) in [("1/2", &one), ("2/2", &two)] {
            sweep(&["--out", name, "--shard", shard]);
        }
        run(&["merge", &one, &two, "--out", &merged]);
        [over, merged].map(|name| left_in(&place(&name))) == [whole.clone(), whole]
    });
    let attempt = alike.expect("continued or put together, it is another sweep");
    let [whole, merged] = ["whole", "merged"].map(|what| format!("{what}{attempt}"));

    // Killed at its end, it has the same findings. Their order says what models they are possible
    // on, which only a sweep that ends asks for.
    let findings = |output: &Output| {
        let printed = printed(output);
        let rows = printed
            .lines()
            .skip_while(|row| !row.starts_with("finding"));
        let rows = rows.take_while(|row| !row.is_empty()).map(|row| {
            let (_number, finding) = row.split_once(' ').expect("a number and a finding");
            finding.trim_start().to_owned()
        });
        rows.collect::<BTreeSet<_>>()
    };
    let ended = run(&["show", &whole]);
    for name in ["findings.jsonl", "summary.jsonl", "summary.txt"] {
        std::fs::remove_file(place(&whole).join(name)).expect("removed");
    }
    let killed = run(&["show", &whole]);
    assert_eq!(findings(&killed), findings(&ended), "{}", said(&killed));
    assert!(
        printed(&killed).contains(&format!("cluster sweep --resume {whole}")),
        "{}",
        printed(&killed)
    );

    // The cluster is there to be talked to, on the state of a finding.
    let output = run(&[
        "replay",
        &merged,
        "1",
        "--command",
        "echo $CRASHPOINT_NODE_A",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("broken: ") && printed(&output).starts_with("10."),
        "{}",
        said(&output)
    );
    let output = run(&["replay", &merged, "1", "--keep", "kept"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    for node in ["a", "b", "c"] {
        assert!(place("kept").join(node).join("CURRENT").exists(), "{node}");
    }
}

/// Kills a sweep with SIGKILL some time after it was started, waits until all that it started has
/// gone, and says whether it was still at work.
fn killed(arguments: &[&str], path: &Path, after: Duration) -> bool {
    let mut command = command(arguments, path);
    let mut running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let begun = Instant::now();
    while begun.elapsed() < after {
        if running.has_ended() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let family = Family::of(running.id());
    running.kill().expect("killed");
    let was_at_work = running.end().code().is_none();
    wait_until("no node outlives the sweep", PATIENCE, || !family.runs());
    was_at_work
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_sweep_of_a_cluster_that_is_killed_at_random_moments_ends_with_the_same() {
    let recorded = record("early-acknowledgement");
    let run = |arguments: &[&str]| crashpoint(arguments, &recorded.path());
    let sweep = |out| {
        [
            "cluster", "sweep", "trace", "--starts", "together", "--sample", "20", "--seed", "2",
            "--out", out,
        ]
    };
    run(&sweep("whole"));
    let whole = left_in(&recorded.path().join("whole"));
    let begun = || recorded.path().join("killed/manifest.json").exists();
    let mut random = Random::new();
    let mut kills = 0;
    for _ in 0..6 {
        let resume = ["cluster", "sweep", "--resume", "killed"];
        let sweep = sweep("killed");
        let arguments: &[&str] = if begun() { &resume } else { &sweep };
        let after = Duration::from_millis(random.below(1200));
        kills += u32::from(killed(arguments, &recorded.path(), after));
    }
    assert!(kills > 0, "no kill came while it was at work");
    if !begun() {
        run(&sweep("killed"));
    }
    run(&["cluster", "sweep", "--resume", "killed"]);
    assert_eq!(left_in(&recorded.path().join("killed")), whole);
}

/// How many operations are lost, on how many nodes, after how many events: before and after, from
/// the first line of what was minimized. It names no losses where there are none, and no nodes
/// where it is one.
fn sizes_of_minimized(story: &str) -> [(usize, usize); 3] {
    let line = story.lines().next().expect("a line");
    let (_, sizes) = line.split_once(": ").expect(line);
    [(" lost operation", 0), (" node", 1), (" event", 0)].map(|(what, untold)| {
        let part = sizes.split(", ").find(|part| part.contains(what));
        let words = part.into_iter().flat_map(str::split_whitespace);
        let numbers: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [before, after, ..] => (before, after),
            _ => (untold, untold),
        }
    })
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_finding_of_a_cluster_is_minimized() {
    let recorded = record("early-acknowledgement");
    let run = |arguments: &[&str]| crashpoint(arguments, &recorded.path());
    let sweep = [
        "cluster", "sweep", "trace", "--starts", "together", "--sample", "30", "--seed", "1",
        "--lost", "2", "--out", "out",
    ];
    let swept = run(&sweep);
    assert_eq!(swept.status.code(), Some(1), "{}", printed(&swept));
    let findings = printed(&swept).matches("FINDING ").count();
    // States that were drawn come from anywhere in the run, and most of them lose more than they
    // need to.
    let smaller = (1..=findings).find_map(|number| {
        let (number, keep) = (number.to_string(), format!("kept-{number}"));
        let output = run(&["minimize", "out", &number, "--keep", &keep]);
        let story = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
        let sizes = sizes_of_minimized(&story);
        assert!(
            sizes.iter().all(|(before, after)| after <= before),
            "{story}"
        );
        let less = sizes.iter().any(|(before, after)| after < before);
        less.then_some((number, keep, story))
    });
    let (number, keep, story) = smaller.unwrap_or_else(|| panic!("{}", printed(&swept)));
    assert!(
        story.contains("  broken        acknowledged put "),
        "{story}"
    );
    for node in ["a", "b", "c"] {
        let kept = recorded.path().join(&keep).join(node);
        assert!(kept.exists(), "{node}");
    }
    let acknowledged = recorded.path().join(&keep).join("acknowledged");
    let lines = std::fs::read_to_string(acknowledged).expect("read");
    assert!(
        lines.lines().any(|line| line.starts_with("put ")),
        "{lines}"
    );

    let output = run(&["minimize", "out", &number, "--shorter", "short"]);
    let story = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
    assert!(
        story.contains(" acknowledgements down to ") && story.contains("CRASHPOINT_OPERATIONS="),
        "{story}"
    );
    assert!(
        story.contains("  broken        acknowledged put "),
        "{story}"
    );
    let again = run(&["replay", "short", "1", "--keep", "again"]);
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
}
