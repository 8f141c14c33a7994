//! Programs and clusters inside of a guest, by somebody who is not root: they are recorded, on
//! disks and networks of their own, and their crash states looked at. Root is needed to be somebody
//! else.

use end_to_end::{Ordinary, link_to_run, printed, program, said};
use serde_json::Value;

/// Runs a script in a guest that has these modules; in its directory are the user's files, and the
/// program. Its status, and the objects that it printed.
fn in_a_guest(
    place: &Ordinary,
    modules: &[&str],
    script: &str,
) -> (Option<i32>, Vec<Value>, String) {
    link_to_run(&program("crashpoint"), &place.path("crashpoint"));
    let load = modules.iter().flat_map(|module| ["--load", module]);
    let arguments: Vec<_> = ["machine", "--memory", "1024"]
        .into_iter()
        .chain(load)
        .collect();
    let output = place
        .crashpoint(&[&arguments, &["--", "sh", "-c", script][..]].concat())
        .output()
        .expect("it runs");
    let all = format!("{}{}", printed(&output), said(&output));
    let lines = printed(&output);
    let lines = lines.lines().filter(|line| line.starts_with('{'));
    let objects = lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {all}")))
        .collect();
    assert_eq!(
        place.temporary().read_dir().expect("read").count(),
        0,
        "something is left"
    );
    (output.status.code(), objects, all)
}

#[test]
#[ignore = "takes half a minute: make test-clusters"]
fn a_program_has_a_recorded_disk_in_a_guest_and_both_levels_are_looked_at() {
    let place = Ordinary::new();
    place.file(
        "save",
        "cd $1 && echo new >file.tmp && sync file.tmp && mv file.tmp file && echo replaced\n",
    );
    place.file(
        "check",
        "if ! grep -q replaced $2 || test \"$(cat $1/file)\" = new; then echo ok; else echo broken it is lost; fi\n",
    );
    let script = "./crashpoint app --disk ext4 --format json --check \"sh $PWD/check {dir} {acks}\" -- sh $PWD/save {dir}";
    let (status, objects, all) = in_a_guest(&place, &["fuse", "loop", "ext4"], script);
    assert_eq!(status, Some(1), "{all}");
    for model in ["linux", "ext4 on disk"] {
        let found = objects
            .iter()
            .any(|object| object["type"] == "states-finding" && object["model"] == model);
        assert!(found, "nothing on {model}: {all}");
    }
    assert_eq!(
        objects.last().expect("a summary")["inconclusive"],
        0,
        "{all}"
    );
}

#[test]
#[ignore = "takes a minute or two: make test-clusters"]
fn redis_is_recorded_and_its_crash_states_are_looked_at_in_a_guest() {
    let place = Ordinary::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/clusters");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).expect("read");
    place.file("kv.py", &read("kv.py"));
    let text = read("redis/cluster.toml")
        .replace("{here}/..", "{here}")
        .replace("redis write 20", "redis write 2");
    // The machine may be busy, and a guest is slow then.
    place.file(
        "cluster.toml",
        &text.replace("\nready = {", "\nready_within_s = 200\nready = {"),
    );
    let script = "here=$PWD && cd /tmp && $here/crashpoint cluster record $here/cluster.toml -o trace >&2 && \
                  $here/crashpoint cluster sweep trace --starts together --sample 6 --jobs 1 --format json";
    let (status, objects, all) = in_a_guest(&place, &["bridge", "veth"], script);
    let summary = objects
        .last()
        .unwrap_or_else(|| panic!("no summary: {all}"));
    // What it loses on POSIX alone may be among the states that are drawn.
    assert!(matches!(status, Some(0 | 1)), "{all}");
    assert_eq!(
        (&summary["states"], &summary["inconclusive"]),
        (&6.into(), &0.into()),
        "{all}"
    );
}

/// Debian's kernel has no file for the number of the next process.
#[test]
#[ignore = "takes half a minute: make test-clusters"]
fn a_node_that_is_started_again_in_a_guest_has_other_process_numbers() {
    let place = Ordinary::new();
    place.file(
        "cluster.toml",
        "nodes = [{ name = 'a', command = \"sh -c 'echo $$ >>{dir}/numbers; echo up; exec sleep 600'\", \
         ready = { log = 'up' } }]\nclient = { command = 'true' }\n",
    );
    let script = "./crashpoint cluster run cluster.toml --client --restart --data /tmp/data >&2 && \
                  ./crashpoint cluster run cluster.toml --client --data /tmp/data >&2 && \
                  awk '{print \"{\\\"number\\\":\" $1 \"}\"}' /tmp/data/a/numbers";
    let (status, objects, all) = in_a_guest(&place, &["bridge", "veth"], script);
    assert_eq!((status, objects.len()), (Some(0), 3), "{all}");
    let mut numbers: Vec<_> = objects
        .iter()
        .map(|object| object["number"].as_u64().expect("a number"))
        .collect();
    numbers.sort_unstable();
    assert!(
        numbers.windows(2).all(|pair| pair[1] - pair[0] > 50),
        "{numbers:?}"
    );
}
