//! Reports: the page in a browser without a network, JUnit as a parser reads it. The findings are
//! real ones (needs root), or written for the purpose.

use std::path::PathBuf;
use std::time::Instant;

use end_to_end::{crashpoint, page_told as told, printed, require_root, said};
use serde_json::{Value, json};

const PHONE: (u32, u32) = (360, 740);
const DESK: (u32, u32) = (1200, 900);

/// A directory that goes with it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the reports of directories of results; returns the paths of the page and of JUnit.
    fn report(&self, directories: &[&str]) -> (PathBuf, PathBuf) {
        let (html, junit) = (self.path("report.html"), self.path("junit.xml"));
        let mut command = crashpoint();
        command
            .current_dir(self.0.path())
            .arg("report")
            .args(directories);
        let output = command
            .arg("--html")
            .arg(&html)
            .arg("--junit")
            .arg(&junit)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        (html, junit)
    }

    /// Writes a directory of results of ext4, as a sweep would; with a summary it is finished.
    fn results(&self, name: &str, results: &[Value], finished: bool) {
        let directory = self.path(name);
        std::fs::create_dir(&directory).expect("made");
        let manifest = json!({
            "type": "manifest", "format": 2, "version": env!("CARGO_PKG_VERSION"), "kernel_release": "6.1",
            "kernel_version": "#1", "options": { "fs": ["ext4"], "disk": ["drop-flush"] },
            "file_systems": [{ "file_system": "ext4", "mount_options": [], "mkfs_options": [], "size_bytes": 16 << 20 }],
            "disk": "drop-flush", "states": ["prefix", "flushed"], "shard": null, "workloads_hash": null,
            "workloads": "generated: seq-1", "jobs": 1, "command_line": [],
        });
        let write =
            |file: &str, text: String| std::fs::write(directory.join(file), text).expect("written");
        write("manifest.json", manifest.to_string());
        let lines: Vec<_> = results.iter().map(Value::to_string).collect();
        write("results.jsonl", lines.join("\n") + "\n");
        if finished {
            let summary =
                json!({ "type": "summary", "file_system": "ext4", "workloads": results.len() });
            write("summary.jsonl", format!("{summary}\n"));
        }
    }
}

fn result(number: usize, verdict: &str, fields: &Value) -> Value {
    let mut result = json!({
        "type": "result", "file_system": "ext4", "mount_options": [], "mkfs_options": [], "number": number,
        "workload": format!("seq-1/{number}"), "verdict": verdict, "states_checked": 2, "states_equal": 1,
        "broken": [], "log": null, "death": null, "inconclusive": null, "not_applicable": null,
        "text": if verdict == "clean" { Value::Null } else { json!(format!("workload seq-1/{number}; creat foo; fsync foo")) },
    });
    result
        .as_object_mut()
        .expect("an object")
        .extend(fields.as_object().expect("an object").clone());
    result
}

/// A result with one finding that says this.
fn finding(number: usize, promise: &str, path: &str, what: &str) -> Value {
    let mut entries = vec![
        json!([2, "B", 0, 0, 0]),
        json!([3, "E", 0, 0, 0]),
        json!([4, "B", 0, 0, 1]),
    ];
    entries.extend((5..25).map(|place| json!([place, "W", place * 4096, 4096, 1])));
    entries.extend([json!([25, "F", 0, 0, 1]), json!([26, "E", 0, 0, 1])]);
    let broken = json!([{
        "operations_done": 2, "under_way": false, "state": "lost-7-8", "position": 27, "pending": 20, "more": 3,
        "lost": [{ "place": 7, "offset": 28672, "length": 4096 }, { "place": 8, "offset": 32768, "length": 4096 }],
        "findings": [{ "promise": promise, "path": path, "what": what, "promised_by": 1 }],
    }]);
    result(
        number,
        "finding",
        &json!({ "broken": broken, "log": { "left_out": 0, "entries": entries } }),
    )
}

/// Everything that a page must be, whoever looks at it.
#[track_caller]
fn assert_readable(seen: &Value, dark: bool) {
    assert_eq!(seen["title"], "Crashpoint report");
    assert_eq!(
        (&seen["overflow"], &seen["fetched"], &seen["unlabelled"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(seen["dark"], dark);
    assert_eq!(
        seen["paper"].as_f64().expect("a number") < 0.2,
        dark,
        "{}",
        seen["paper"]
    );
    // WCAG 2.2, 1.4.3.
    assert!(
        seen["contrast"].as_f64().expect("a number") >= 4.5,
        "{}",
        seen["contrast"]
    );
    assert_eq!(seen["pictures"], seen["named"]);
}

#[test]
fn findings_are_shown_at_a_desk_and_on_a_phone() {
    require_root();
    let place = Place::new();
    let mut sweep = crashpoint();
    sweep.args([
        "fs",
        "--fs",
        "ext4",
        "--disk",
        "drop-flush",
        "--states",
        "every-write,reorder:1",
        "--ops",
        "1",
    ]);
    let swept = sweep
        .args(["--range", "0..3", "--out"])
        .arg(place.path("out"))
        .output()
        .expect("it runs");
    assert_eq!(swept.status.code(), Some(1), "{}", said(&swept));
    let (page, junit) = place.report(&["out"]);
    for (size, dark) in [(DESK, false), (PHONE, true)] {
        let seen = told(&page, size, dark, "setTimeout(() => tell(look()), 100)");
        assert_readable(&seen, dark);
        assert_eq!(seen["rows"], 1);
        let text = seen["text"].as_str().expect("text");
        for part in [
            "fsync-names",
            "the power fails",
            "creat foo",
            "sudo crashpoint fs --fs ext4 --disk drop-flush",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert_eq!(
            seen["pictures"], seen["groups"],
            "each group has its timeline"
        );
        assert!(seen["lost"].as_u64() > Some(0), "{seen}");
        assert!(
            seen["first"].as_str().expect("text").contains("1 lost"),
            "{}",
            seen["first"]
        );
    }
    let text = std::fs::read_to_string(junit).expect("read");
    let parsed = roxmltree::Document::parse(&text).expect("XML");
    assert!(
        parsed
            .descendants()
            .any(|node| node.has_tag_name("failure")),
        "{text}"
    );
}

#[test]
fn two_thousand_findings_are_shown_and_filtered() {
    findings_are_shown_and_filtered(2000);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn ten_thousand_findings_are_shown_and_filtered() {
    findings_are_shown_and_filtered(10_000);
}

/// So many findings, in 15 groups.
fn findings_are_shown_and_filtered(count: usize) {
    let place = Place::new();
    let promises = [
        "fsync-names",
        "fsync-data",
        "fsync-directory",
        "sync",
        "mountable",
    ];
    let path = |number: usize| ["a", "a/b", "a/b/c"][number % 3].to_owned();
    let results: Vec<_> = (0..count)
        .map(|number| {
            finding(
                number,
                promises[number % 5],
                &path(number),
                "the file is missing",
            )
        })
        .collect();
    place.results("out", &results, true);
    let (page, _) = place.report(&["out"]);
    let size_mib = page.metadata().expect("written").len() >> 20;
    assert!(size_mib < 32, "{size_mib} MiB");
    let started = Instant::now();
    let one = count - 124;
    // Filters, and then opens the rest of the first group.
    let script = r##"setTimeout(() => {
        const before = look();
        document.getElementById("text").value = "#ONE";
        document.getElementById("filters").dispatchEvent(new Event("input"));
        setTimeout(() => {
            const one = look();
            document.getElementById("text").value = "";
            document.getElementById("promise").value = "sync";
            document.getElementById("filters").dispatchEvent(new Event("input"));
            setTimeout(() => {
                document.querySelector(".group > details:last-child").open = true;
                setTimeout(() => {
                    document.querySelector(".members details").open = true;
                    setTimeout(() => tell({ before, one, opened: look() }), 50);
                }, 50);
            }, 200);
        }, 200);
    }, 100)"##;
    let script = script.replace("ONE", &one.to_string());
    let seen = told(&page, PHONE, false, &script);
    let took = started.elapsed();
    println!("{size_mib} MiB, {took:?}");
    assert_readable(&seen["before"], false);
    assert_readable(&seen["opened"], false);
    let text = |when: &str, what: &str| seen[when][what].as_str().expect("text").to_owned();
    let status = text("before", "status");
    assert!(
        status.starts_with(&format!("{count} of {count} in 15 groups")),
        "{status}"
    );
    assert_eq!(seen["before"]["groups"], 15);
    assert!(
        seen["before"]["elements"].as_u64() < Some(5_000),
        "{}",
        seen["before"]["elements"]
    );
    let status = text("one", "status");
    assert!(
        status.starts_with(&format!("1 of {count} in 1 group:")),
        "{status}"
    );
    let words = format!("Finding {one}: seq-1/{}", one - 1);
    assert!(text("one", "text").contains(&words), "{words}");
    let (of_promise, status) = (count / 5, text("opened", "status"));
    assert!(
        status.starts_with(&format!("{of_promise} of {count} in 3 groups")),
        "{status}"
    );
    // The stories of three groups, and the one that was opened.
    assert_eq!(seen["opened"]["pictures"], 4);
    // Fifty were opened.
    let more = format!("Show more ({})", count / 15 - 50);
    assert!(text("opened", "text").contains(&more), "{more}");
}

#[test]
fn a_cluster_of_three_and_its_client_are_whole_on_a_desk_with_what_was_acknowledged() {
    let place = Place::new();
    std::fs::create_dir(place.path("out")).expect("made");
    let node = |name: &str| {
        json!({
            "node": name, "events": 3, "behind": null, "before": null, "is_begun": false, "lost": [], "midway": null,
            "kept": [], "kept_more": 0, "kept_from": null,
        })
    };
    let nodes = ["a", "b", "c", "client"].map(node);
    let moment = |node: usize, words: &str, fate: Value, from: Value| json!({ "node": node, "event": 0, "words": words, "fate": fate, "from": from });
    let finding = json!({
        "type": "states-finding", "number": 1, "model": "posix", "relaxation": "in order", "broken": ["put 1 is lost"],
        "log": null, "tries": null, "states": 7, "state": 3, "nodes": nodes,
        "timeline": [
            moment(0, "append log/wal-00000003, 50 bytes at 315", json!("kept"), Value::Null),
            moment(1, "append log/wal-00000003, 50 bytes at 315", json!("lost"), Value::Null),
            moment(2, "send of 3 bytes to client", Value::Null, Value::Null),
            moment(3, "receive of 3 bytes from c", Value::Null, json!(2)),
            moment(3, "the line `put 1`", Value::Null, Value::Null),
        ],
        "acknowledged": { "node": "client", "line": "put 1" }, "prevented_by": [], "models": {},
    });
    let manifest = json!({
        "type": "states-manifest", "format": 15, "version": env!("CARGO_PKG_VERSION"), "name": "trace", "model": "posix",
        "request": {
            "level": "syscalls", "model": "posix", "explore": "pace", "lost": 1, "split": "3", "sector": 512, "states": "flushed",
            "sample": null, "seed": 0, "judge": "cluster",
        },
        "shard": null, "trace": "", "jobs": 1, "command_line": [], "working_directory": "/",
        "kernel_release": "6.1",
    });
    std::fs::write(place.path("out/manifest.json"), manifest.to_string()).expect("written");
    std::fs::write(place.path("out/findings.jsonl"), format!("{finding}\n")).expect("written");
    let summary = json!({
        "type": "states-summary", "model": "posix", "states": 7, "equal": 7, "impossible": 0, "checked": 0, "broken": 7,
        "findings": 1, "inconclusive": 0, "reasons": {}, "not_recorded": {}, "interrupted": false, "seconds": 1.0,
    });
    std::fs::write(place.path("out/summary.jsonl"), format!("{summary}\n")).expect("written");
    let (page, _) = place.report(&["out"]);
    let text = std::fs::read_to_string(page).expect("read");
    let picture = text
        .split("<svg width=\"")
        .last()
        .and_then(|rest| rest.split('"').next());
    let width: u32 = picture
        .and_then(|width| width.parse().ok())
        .expect("a width");
    // What the page leaves of 1280 pixels.
    assert!((1000..=1054).contains(&width), "{width}");
    let acknowledged = text
        .split("<g class=\"acknowledged\"><title>")
        .nth(1)
        .expect("one");
    assert!(
        acknowledged.starts_with("the line `put 1`</title>"),
        "{acknowledged}"
    );
    for legend in [
        "on the disk after the crash",
        "lost</li>",
        "in part",
        "the last acknowledgement",
        "the power fails",
    ] {
        assert!(text.contains(legend), "{legend}");
    }
}

/// As nasty as a file name and a kernel's message can be.
const NASTY: &str =
    "</script><script>document.title='out'</script><!-- <b> ]]> & \" ' \u{1} \u{1b}[0m \u{fffe}";

#[test]
fn no_name_breaks_out_of_a_report() {
    let place = Place::new();
    let results = [
        finding(0, "fsync-names", NASTY, NASTY),
        result(
            1,
            "inconclusive",
            &json!({ "inconclusive": NASTY, "workload": NASTY }),
        ),
    ];
    place.results("<b>&out", &results, true);
    let (page, junit) = place.report(&["<b>&out"]);
    let seen = told(&page, DESK, false, "setTimeout(() => tell(look()), 100)");
    assert_readable(&seen, false);
    assert_eq!(seen["groups"], 2);
    assert_eq!(
        seen["text"].as_str().expect("text").matches(NASTY).count(),
        4,
        "{}",
        seen["text"]
    );
    let text = std::fs::read_to_string(junit).expect("read");
    let parsed = roxmltree::Document::parse(&text).expect("XML");
    let failure = parsed
        .descendants()
        .find(|node| node.has_tag_name("failure"))
        .expect("one");
    let said = failure.attribute("message").expect("a message");
    assert!(
        said.contains("</script><script>") && said.contains("\\u{1} \\u{1b}[0m \\u{fffe}"),
        "{said}"
    );
}

#[test]
fn junit_counts_every_workload_and_lists_those_that_are_not_clean() {
    let place = Place::new();
    let mut results: Vec<_> = (0..40)
        .map(|number| result(number, "clean", &json!({})))
        .collect();
    results[0]["states_left"] = json!(7);
    results.extend((40..43).map(|number| finding(number, "fsync-names", "foo", "it is gone")));
    let why = json!({ "inconclusive": "the disk was full" });
    results.push(result(43, "inconclusive", &why));
    results.push(result(
        44,
        "not-applicable",
        &json!({ "not_applicable": "operation 0 was refused" }),
    ));
    let mut both = finding(45, "fsync-data", "foo", "it is empty");
    both["inconclusive"] = json!("and something could not be told");
    results.push(both);
    for (name, finished) in [("whole", true), ("part", false)] {
        place.results(name, &results, finished);
        let (page, junit) = place.report(&[name]);
        let text = std::fs::read_to_string(junit).expect("read");
        let parsed = roxmltree::Document::parse(&text).expect("XML");
        let suite = parsed
            .descendants()
            .find(|node| node.has_tag_name("testsuite"))
            .expect("one");
        let count = |name: &str| {
            suite
                .attribute(name)
                .and_then(|number| number.parse::<usize>().ok())
        };
        let unfinished = usize::from(!finished);
        let counts =
            ["tests", "failures", "errors", "skipped"].map(|name| count(name).expect("a number"));
        // The budget was too short for some states.
        assert_eq!(counts, [47 + unfinished, 4, 2 + unfinished, 1]);
        let all = |name: &'static str| {
            suite
                .descendants()
                .filter(move |node| node.has_tag_name(name))
                .count()
        };
        assert_eq!(
            [all("failure"), all("error"), all("skipped")],
            [4, 2 + unfinished, 1]
        );
        // One for all that are clean, and one for what does not apply.
        assert_eq!(all("testcase"), 8 + unfinished);
        let page = std::fs::read_to_string(page).expect("read");
        let left = "the time was too short for 7 crash states";
        assert!(text.contains(left) && page.contains(left), "{text}");
        let shown = crashpoint().arg("show").arg(place.path(name)).output();
        let shown = printed(&shown.expect("it runs"));
        assert!(shown.contains(&format!("ext4: {left}")), "{shown}");
        assert_eq!(page.contains("is not finished"), !finished);
    }
}

#[test]
fn findings_have_the_numbers_that_they_have_elsewhere() {
    let place = Place::new();
    // In the order of the workloads, whatever that of the results is.
    place.results(
        "out",
        &[
            finding(7, "sync", "b", "second"),
            finding(2, "sync", "a", "first"),
        ],
        true,
    );
    let (_, junit) = place.report(&["out"]);
    let text = std::fs::read_to_string(junit).expect("read");
    let (one, two) = (
        text.find("finding 1\n").expect("one"),
        text.find("finding 2\n").expect("two"),
    );
    assert!(
        one < two && text[one..two].contains("first") && text[two..].contains("second"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_reported_is_said_in_one_line() {
    let place = Place::new();
    place.results("out", &[result(0, "clean", &json!({}))], true);
    place.results("old", &[], true);
    std::fs::create_dir(place.path("empty")).expect("made");
    let manifest = place.path("old/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("read");
    std::fs::write(&manifest, text.replace(env!("CARGO_PKG_VERSION"), "0.0.1")).expect("written");
    let cases: [(&[&str], &str); 8] = [
        (
            &["nowhere", "--html", "a.html"],
            "open nowhere: No such file",
        ),
        (&["empty", "--html", "a.html"], "empty holds no results"),
        (
            &["old", "--html", "a.html"],
            "was written by Crashpoint 0.0.1",
        ),
        (
            &["out", "./out", "--html", "a.html"],
            "./out is named twice",
        ),
        (&["out"], "nothing was written: --html FILE writes a page"),
        (
            &["out", "--html", "no/a.html"],
            "write no/a.html: No such file or directory (os error 2) (its directory is not there)",
        ),
        (&["out", "--junit", "out"], "write out: Is a directory"),
        (
            &["out", "--html", "a", "--junit", "a"],
            "name the same file",
        ),
    ];
    for (arguments, expected) in cases {
        let output = crashpoint()
            .current_dir(place.0.path())
            .arg("report")
            .args(arguments)
            .output()
            .expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    // Nothing was found: that is a report, too.
    let (page, _) = place.report(&["out"]);
    let seen = told(&page, PHONE, true, "setTimeout(() => tell(look()), 100)");
    assert_readable(&seen, true);
    assert_eq!(seen["status"], "Nothing was found.");
}
