//! A budget that is too short leaves something, and that is no pass, whatever is swept: exit status 3.
//! What was left is visited when the sweep is continued. Needs root.

use end_to_end::{Folder, printed, said};

const PROGRAM: &str = "echo one >$1/one; mv $1/one $1/two; echo done\n";

const CLUSTER: &str = r#"
[[nodes]]
names = ["a", "b"]
command = "sh -c 'echo one >{dir}/one; mv {dir}/one {dir}/two; echo ready; exec sleep 600'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sh -c 'sleep 0.2; echo done'"
[check]
command = "echo ok"
"#;

const PLAN: &str = "[[faults]]\nat = { time_s = 0 }\nfault = \"kill\"\non = \"a\"\n";

/// Sweeps with no time at all, and continues without a bound.
#[track_caller]
fn is_no_pass_until_it_is_continued(folder: &Folder, sweep: &[&str], more: &[&str], left: &str) {
    let none = ["--budget", "0", "--out", "out"];
    let output = folder.ends(3, &[sweep, &none, more].concat());
    let told = printed(&output) + &said(&output);
    assert!(told.contains(left), "{sweep:?}: {told}");
    let told = printed(&folder.ends(0, &[sweep, &["--resume", "out"]].concat()));
    assert!(!told.contains(left), "{sweep:?}: {told}");
    std::fs::remove_dir_all(folder.path("out")).expect("removed");
}

#[test]
fn states_of_a_program_are_left() {
    let folder = Folder::new(&[("program", PROGRAM)]);
    let program = ["--check", "echo ok", "--", "sh", "program", "{dir}"];
    let on_disk = [&["--disk", "ext4", "--level", "both"], &program[..]].concat();
    for more in [&program[..], &on_disk] {
        is_no_pass_until_it_is_continued(&folder, &["app"], more, "stopped before the end: ");
    }
}

#[test]
fn states_of_a_cluster_and_runs_with_faults_are_left() {
    let folder = Folder::new(&[("cluster.toml", CLUSTER), ("plan.toml", PLAN)]);
    folder.ends(0, &["cluster", "record", "cluster.toml", "--out", "trace"]);
    let (sweep, left) = (["cluster", "sweep"], "stopped before the end: ");
    is_no_pass_until_it_is_continued(&folder, &sweep, &["trace"], left);
    let (plan, left) = (
        ["cluster.toml", "--plan", "plan.toml"],
        "0 broken of 0 runs of 1",
    );
    is_no_pass_until_it_is_continued(&folder, &["inject"], &plan, left);
}

#[test]
fn states_of_a_file_system_are_left() {
    let folder = Folder::new(&[]);
    let sweep = ["fs", "--fs", "ext4", "--ops", "1", "--range", "0..2"];
    let states = ["--states", "every-write,flushed,reorder:1"];
    folder.ends(0, &[&sweep[..], &states].concat());
    folder.ends(3, &[&sweep[..], &states, &["--budget", "0"]].concat());
}
