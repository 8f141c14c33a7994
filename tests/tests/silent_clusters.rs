//! Clusters with one planted mistake each, `tests/silent/clusters`: it is found, and the right twin is
//! clean. Needs root.

use end_to_end::{Folder, findings_and_summary, printed, require_root};

const NODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/silent/clusters/nodes.py");

/// A cluster of a kind, of which these nodes sync. Its file does not say what its nodes are.
fn laid(kind: &str, nodes: &[&str], syncs: &str) -> Folder {
    let python = "/usr/bin/python3 -IS {here}/nodes.py";
    let addresses: Vec<_> = nodes
        .iter()
        .map(|name| format!("{{address:{name}}}"))
        .collect();
    let addresses = addresses.join(" ");
    let cluster = format!(
        "[environment]\nSYNCS = \"{syncs}\"\n\
         [[nodes]]\nnames = {nodes:?}\ncommand = \"{python} node {{name}}\"\n\
         ready = {{ log = \"ready\" }}\nstop = \"SIGKILL\"\n\
         [client]\ncommand = \"{python} client {kind} {addresses}\"\n\
         [check]\ncommand = \"{python} check {kind} {{acks}} {addresses}\"\n"
    );
    let program = std::fs::read_to_string(NODES).expect("read");
    Folder::new(&[("cluster.toml", &cluster), ("nodes.py", &program)])
}

/// What a sweep of all states says, which must end with this status.
fn swept(laid: &Folder, status: i32, model: &str) -> String {
    laid.ends(0, &["cluster", "record", "cluster.toml", "-o", "trace"]);
    let sweep = [
        "cluster", "sweep", "trace", "--model", model, "--starts", "together",
    ];
    printed(&laid.ends(status, &sweep))
}

/// A right twin, in some states of which nothing is found.
fn assert_right(laid: &Folder) {
    laid.ends(0, &["cluster", "record", "cluster.toml", "-o", "trace"]);
    let sweep = [
        "cluster",
        "sweep",
        "trace",
        "--model",
        "ext4-ordered",
        "--starts",
        "together",
        "--sample",
        "15",
        "--seed",
        "1",
        "--format",
        "json",
    ];
    let (findings, summary) = findings_and_summary(&laid.ends(0, &sweep));
    assert_eq!(findings.len(), 0, "{findings:#?}");
    assert!(summary["checked"].as_u64() > Some(4), "{summary:#}");
}

/// Every node has each entry, and a majority that loses it leaves one copy: all of them have to lose it.
#[test]
fn what_no_node_synced_is_lost_on_all() {
    require_root();
    let nodes = ["n1", "n2", "n3"];
    let text = swept(&laid("everywhere", &nodes, ""), 1, "ext4-ordered");
    assert!(text.contains("is on no node"), "{text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for node in nodes {
        assert!(text.contains(&format!("fsync of log on {node} ")), "{text}");
    }
    assert_right(&laid("everywhere", &nodes, "n2"));
}

/// Both could lose what they wrote to the file of this name, and only the first one does.
#[test]
fn what_another_node_relies_on_is_lost_alone() {
    require_root();
    let nodes = ["n1", "n2"];
    let text = swept(&laid("transfer", &nodes, ""), 1, "ext4-ordered");
    assert!(
        text.contains("a credit without its debit") && text.contains("fsync of log on n1 "),
        "{text}"
    );
    assert!(!text.contains("fsync of log on n2 "), "{text}");
    // Connections end after each answer, and that sends no byte.
    assert!(
        text.contains("end of the connection") && !text.contains("1 byte"),
        "{text}"
    );
    // The sweep says around what it tried crashes.
    assert!(
        text.contains("1 of 1 acknowledgement, 2 of 2 writes"),
        "{text}"
    );
    assert_right(&laid("transfer", &nodes, "n1"));
}

/// What nodes do to files whose names say nothing is lost on a majority, as with names that do. The sweep
/// says around what it tried crashes.
#[test]
#[ignore = "takes minutes: make test-long"]
fn what_nodes_do_to_files_with_random_names_is_lost_together() {
    require_root();
    // Without digits, which no name is told apart by.
    let nodes = ["left", "middle", "right"];
    for kind in ["letters", "node"] {
        let text = swept(&laid(kind, &nodes, ""), 1, "ext4-ordered");
        assert!(text.contains("entry is on no majority"), "{kind}: {text}");
        assert!(
            text.contains("fsync of {dir} on left before"),
            "{kind}: {text}"
        );
        let words = "1 of 1 acknowledgement, 3 of 3 writes, 3 of 3 renames";
        let (_, coverage) = text
            .split_once("crashes right after ")
            .expect("it is there");
        assert!(coverage.contains(words), "{kind}: {text}");
    }
    let right = laid("letters", &nodes, "left middle right");
    swept(&right, 0, "ext4-ordered");
}

/// Who kills a node from outside, such as a kernel that is short of memory, says nothing of the state.
#[test]
fn a_node_that_somebody_else_kills_is_no_finding() {
    require_root();
    let cluster = r#"
[[nodes]]
name = "a"
command = "sh -c 'test -e {dir}/one && ! test -e {dir}/two && kill -9 $$; echo >{dir}/one; echo >{dir}/two; echo ready; exec sleep 600'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "echo done"
[check]
command = "echo ok"
"#;
    let laid = Folder::new(&[("cluster.toml", cluster)]);
    let text = swept(&laid, 3, "posix");
    assert!(text.contains("was ended by SIGKILL"), "{text}");
    assert!(text.contains("short of memory"), "{text}");
}
