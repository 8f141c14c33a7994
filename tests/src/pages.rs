//! Nodes whose disks corrupt requests, on both grounds.

/// The disk of one tears a write, and that of the other reads a bit wrong; then both lose their power.
pub const CORRUPT: &str = r#"
[[faults]]
at = { time_s = 1.0 }
fault = "disk"
on = "a"
requests = "writes"
times = 1
corrupt = "torn"
until = { after_s = 1.0 }

[[faults]]
at = { after_s = 0 }
fault = "disk"
on = "b"
requests = "reads"
times = 1
corrupt = "bit"
until = { after_s = 1.0 }

[[faults]]
at = { ended = true, delay_s = 0.5 }
fault = "power-loss"
on = ["a", "b"]
until = { after_s = 0.2 }
"#;

/// Nodes that write pages, and say what these are when they are started.
pub const CLUSTER: &str = r#"
disk = "ext4"
[[nodes]]
names = ["a", "b"]
command = "python3 {here}/pages.py {dir}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sleep 4"
[check]
command = "echo ok"
"#;

/// What they run: `pages.py`, beside the cluster file.
pub const PROGRAM: &str = include_str!("../fixtures/pages.py");

/// What became of the pages, as nodes say when they are started again: `a` has one that was torn, and `b` has
/// read one wrong that is as it was.
///
/// # Panics
/// If it is something else.
pub fn assert_corrupted(log_of: impl Fn(&str) -> String) {
    for (node, reads, torn) in [("a", 0, 1), ("b", 1, 0)] {
        let log = log_of(node);
        let pages = log.lines().find_map(|line| line.strip_prefix("pages "));
        let pages = pages.unwrap_or_else(|| panic!("{node}: {log}"));
        let written = pages.trim_end_matches('.');
        assert_eq!(written.matches('/').count(), torn, "{node}: {log}");
        let whole = written.matches('#').count();
        assert!(whole > 20 && whole + torn == written.len(), "{node}: {log}");
        assert_eq!(log.matches("read a bit\n").count(), reads, "{node}: {log}");
        assert!(!log.contains("read other"), "{node}: {log}");
    }
}
