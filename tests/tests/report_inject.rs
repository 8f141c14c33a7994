//! The page of injected faults: timelines in a browser without a network, of results that were written
//! for the purpose.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use end_to_end::{crashpoint, page_told, said};
use serde_json::{Value, json};
use tempfile::TempDir;

const DESK: (u32, u32) = (1280, 900);

const OPERATIONS: u64 = 10_000;

const NODES: &str = r#"
[[nodes]]
names = ["a", "b"]
command = "sleep 600"
[[histories]]
model = "map"
"#;

/// What the page says of its picture, before and after somebody looks at the first violation.
const LOOK: &str = r#"
const pixels = name => {
    const canvas = document.querySelector("canvas");
    const probe = document.createElement("canvas").getContext("2d");
    probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--" + name);
    probe.fillRect(0, 0, 1, 1);
    const wanted = probe.getImageData(0, 0, 1, 1).data;
    const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let count = 0;
    for (let at = 0; at < all.length; at += 4) {
        if ([0, 1, 2].every(part => all[at + part] === wanted[part])) count += 1;
    }
    return count;
};
const picture = () => ({
    broken: pixels("bad"), hit: pixels("bad-fill"), other: pixels("open-fill"), operations: pixels("write-edge"),
    leader: pixels("fua"), told: document.querySelector(".what").textContent,
});
const under = lane => {
    const canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + lane }));
    return document.querySelector(".what").textContent;
};
const drawn = then => setTimeout(then, 50);
const loaded = then => document.querySelector("canvas") ? drawn(then) : setTimeout(() => loaded(then), 50);
loaded(() => {
    const whole = picture(), node = under(34 + 24 + 15), fault = under(34 + 9);
    document.querySelector(".violations button").click();
    drawn(() => {
        const near = picture();
        document.querySelector("canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
        drawn(() => tell({ whole, near, node, fault, again: picture(), charts: document.querySelectorAll("canvas").length,
            title: document.querySelector("h3").textContent, bold: document.querySelectorAll("main b").length,
            overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            contrast: Math.min(...[...document.querySelectorAll("h1, p, h3, summary, .tag, button")]
                .filter(text => text.textContent && text.offsetParent).map(contrast)) }));
    });
})"#;

/// Writes the results of a campaign of two runs; the first has a history and a fault.
fn written(out: &Path) {
    fs::create_dir_all(out.join("runs/1")).expect("made");
    let write = |name: &str, text: String| fs::write(out.join(name), text).expect("written");
    let manifest = json!({
        "version": env!("CARGO_PKG_VERSION"), "format": 2, "kind": "inject", "file": "/x/kv/cluster.toml",
        "text": NODES, "nodes": ["a", "b"], "plan": "plan", "strategy": null, "seed": 0, "first": 2,
        "sometimes": [], "shard": null, "command": [],
    });
    write("manifest.json", manifest.to_string());
    let event = |second: u64, what: &Value| {
        let mut event = json!({ "time_ns": second * 1_000_000_000, "acknowledged": 0 });
        let fields = what.as_object().expect("an object").clone();
        event.as_object_mut().expect("an object").extend(fields);
        event
    };
    let events = [
        event(
            0,
            &json!({ "event": "role", "node": "a", "role": "leader", "more": "1" }),
        ),
        event(
            0,
            &json!({ "event": "role", "node": "b", "role": "follower", "more": "1" }),
        ),
        event(
            3,
            &json!({ "event": "in-place", "fault": 1, "words": "partition a | b" }),
        ),
        event(
            6,
            &json!({ "event": "role", "node": "b", "role": "leader", "more": "2" }),
        ),
        event(7, &json!({ "event": "undone", "fault": 1 })),
        event(8, &json!({ "event": "healed" })),
    ];
    let fault = json!({
        "state": "undone", "fired_ns": 3, "placed_ns": 3_000_000_000_u64, "undone_ns": 7_000_000_000_u64,
        "on": ["a"], "sides": [["a"], ["b", "client two"]],
    });
    let broken = "write-lost of k</script><b>: it is lost";
    let first = json!({
        "index": 0, "plan": "[[faults]]\n", "events": events, "processes": ["one", "two"], "faults": [fault],
        "acknowledged": OPERATIONS, "acknowledged_before_heal": 5, "seconds": 10.0, "verdict": "broken",
        "broken": [broken],
    });
    let second = json!({
        "index": 1, "plan": "[[faults]]\n", "events": [], "faults": [], "acknowledged": 0,
        "acknowledged_before_heal": 0, "seconds": 1.0, "verdict": "inconclusive", "why": "it never happened",
    });
    write("results.jsonl", format!("{first}\n{second}\n"));
    write(
        "summary.jsonl",
        "{\"wanted\":2,\"is_cut_off\":false}\n".into(),
    );
    write("runs/1/history.jsonl", history());
}

/// Two clients write in turns for ten seconds; one write is lost.
fn history() -> String {
    let mut text = String::from("{\"type\":\"history\",\"version\":1}\n");
    for number in 0..OPERATIONS {
        let (process, call_ns) = (number % 2, number * 10_000_000_000 / OPERATIONS);
        let is_lost = number == OPERATIONS / 2;
        let (f, value, answer) = if is_lost {
            ("read", Value::Null, json!(-1))
        } else {
            ("write", json!(number), json!(number))
        };
        for (kind, value, time) in [
            ("invoke", value, call_ns),
            ("ok", answer, call_ns + 400_000),
        ] {
            let line = json!({
                "type": kind, "process": process, "f": f, "key": "k</script><b>", "value": value, "time": time,
            });
            writeln!(text, "{line}").expect("written");
        }
    }
    text
}

struct Laid(TempDir);

impl Laid {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        written(&folder.path().join("out"));
        Self(folder)
    }

    fn report(&self, form: &str) -> PathBuf {
        let path = self.0.path().join("report.html");
        let mut command = crashpoint();
        command.current_dir(self.0.path());
        let output = command.args(["report", "out", form]).arg(&path).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        path
    }
}

#[test]
fn ten_thousand_operations_are_drawn_and_what_is_broken_is_looked_at() {
    let laid = Laid::new();
    let page = laid.report("--html");
    let size_mib = page.metadata().expect("written").len() >> 20;
    assert!(size_mib < 4, "{size_mib} MiB");
    for dark in [false, true] {
        let seen = page_told(&page, DESK, dark, LOOK);
        let count = |of: &str, name: &str| seen[of][name].as_u64().expect("a number");
        assert!(count("whole", "operations") > 1_000, "{seen}");
        assert!(count("whole", "leader") > 1_000, "{seen}");
        // The node that is cut off, the other side, and the operation that shows what is broken.
        assert!(
            count("whole", "hit") > 1_000 && count("whole", "other") > 1_000,
            "{seen}"
        );
        assert!(count("whole", "broken") > 0, "{seen}");
        assert!(
            count("near", "broken") > 2 * count("whole", "broken"),
            "{seen}"
        );
        assert!(
            count("near", "operations") < count("whole", "operations"),
            "{seen}"
        );
        assert_eq!(seen["again"]["operations"], seen["whole"]["operations"]);
        let told = |name: &Value| name.as_str().expect("text").to_owned();
        assert!(
            told(&seen["near"]["told"]).contains("read \"k</script><b>\" -> -1"),
            "{seen}"
        );
        assert_eq!(seen["fault"], "partition a | b");
        assert_eq!(seen["node"], "a is leader 1");
        // What the system under test says is text. The name of the directory is the one bold thing.
        assert_eq!(seen["bold"], 1);
        assert!(told(&seen["title"]).contains("k</script><b>"), "{seen}");
        // The run that is folded away is not drawn.
        assert_eq!((&seen["charts"], &seen["overflow"]), (&json!(1), &json!(0)));
        assert!(seen["contrast"].as_f64() >= Some(4.5), "{seen}");
    }
}

#[test]
fn ci_reads_which_runs_are_broken_and_which_are_not_known_to_be() {
    let laid = Laid::new();
    let text = fs::read_to_string(laid.report("--junit")).expect("read");
    let parsed = roxmltree::Document::parse(&text).expect("XML");
    let suite = parsed
        .descendants()
        .find(|node| node.has_tag_name("testsuite"));
    let suite = suite.expect("a suite");
    let count = |name: &str| suite.attribute(name).expect("a number");
    assert_eq!(
        (count("tests"), count("failures"), count("errors")),
        ("2", "1", "1")
    );
    assert!(text.contains("1 run: it never happened"), "{text}");
}
