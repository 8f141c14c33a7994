use super::*;

const SYSTEM: &str = r#"
explore = { primary = "primary" }

[environment]
LANG = "C"

[[nodes]]
name = "primary"
command = "redis-server --port 6379 --bind {address}"
ready = { port = 6379 }

[[nodes]]
names = ["replica-1", "replica-2"]
command = "redis-server {dir}/redis.conf"
files = { "redis.conf" = "replicaof {address:primary} 6379\nnumber {number}\n" }
setup = ["mkdir {dir}/aof"]
ready = { command = "redis-cli -h {address} ping" }
stop = "SIGKILL"
stop_within_s = 0.5
after = ["primary"]

[client]
command = "./client {address:primary}"

[check]
command = "./check {acks}"
"#;

fn parse(text: &str) -> Result<ClusterFile> {
    ClusterFile::parse(text, Path::new("cluster.toml"), Path::new("/folder"))
}

#[test]
fn simulated_machines_are_as_the_file_says() {
    let of = |table: &str| parse(&format!("{SYSTEM}\n[simulated]\n{table}"));
    assert_eq!(
        parse(SYSTEM).expect("it is right").simulated,
        SimulatedConfig::default()
    );
    let own = of(
        "memory_mib = 512\ndisk_mib = 2048\nnetwork = \"latency=1500us,loss=1%\"\nclocks = \"250ms,100ppm\"",
    );
    let expected = SimulatedConfig {
        memory_mib: 512,
        disk_mib: Some(2048),
        network: Some("latency=1500us,loss=1%".parse().expect("known")),
        clocks: Some("250ms,100ppm".parse().expect("known")),
    };
    assert_eq!(own.expect("it is right").simulated, expected);
    let wrong = of("memory_mib = 16").expect_err("no kernel fits");
    let expected = "simulated: memory_mib is 16: give 64 to 65536";
    assert!(wrong.to_string().contains(expected), "{wrong}");
    for (table, expected) in [
        (
            "network = \"latency=0s\"",
            "simulated: network: latency=0 is refused: a frame takes time",
        ),
        ("clocks = \"1s,5\"", "simulated: clocks: `5` is no drift"),
    ] {
        let wrong = of(table).expect_err("there is no such thing");
        assert!(wrong.to_string().contains(expected), "{wrong}");
    }
}

/// Whoever goes on with what somebody began may have another `PATH`.
#[test]
fn programs_are_looked_for_where_those_who_run_them_look() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("cluster.toml");
    fs::write(&path, "[[nodes]]\nname = \"a\"\ncommand = \"own-server\"\n").expect("written");
    let programs = place.path().join("programs");
    fs::create_dir(&programs).expect("created");
    let (program, programs) = (programs.join("own-server"), programs.display().to_string());
    std::os::unix::fs::symlink("/bin/sh", program).expect("linked");
    let refused = ClusterFile::read(&path).expect_err("it is elsewhere");
    assert!(matches!(refused, Error::NoProgram { .. }), "{refused}");
    ClusterFile::read_for(&path, &programs).expect("it is there");
}

fn refused(from: &str, to: &str) -> String {
    let text = SYSTEM.replacen(from, to, 1);
    assert_ne!(text, SYSTEM);
    parse(&text).expect_err("it is wrong").to_string()
}

#[test]
fn nodes_that_are_alike_differ_in_name_number_and_address() {
    let file = parse(SYSTEM).expect("it is right");
    let [primary, one, two] = &file.nodes[..] else {
        panic!("{:?}", file.nodes)
    };
    assert_eq!(
        primary.command.last().map(String::as_str),
        Some("10.77.0.1")
    );
    assert_eq!(
        (two.name.as_str(), two.address),
        ("replica-2", Ipv4Addr::new(10, 77, 0, 3))
    );
    assert_eq!(
        two.files[Path::new("redis.conf")],
        "replicaof 10.77.0.1 6379\nnumber 3\n"
    );
    assert_eq!(one.setup, [["mkdir", "/run/crashpoint/replica-1/aof"]]);
    assert_eq!(
        (one.stop, one.stop_within, &one.after[..]),
        (Signal::SIGKILL, Duration::from_millis(500), &[0][..])
    );
    assert_eq!(one.environment["LANG"], "C");
    assert_eq!(file.explore, Explore::PrimaryReplicas { primary: 0 });
    let check = file
        .check
        .as_ref()
        .expect("there is one")
        .command(Some(Path::new("/a b")))
        .expect("filled");
    assert_eq!(check, ["./check", "/a b"]);
    let addresses: Vec<_> = file.addresses().collect();
    assert_eq!(
        addresses[1],
        ("CRASHPOINT_NODE_REPLICA_1".into(), "10.77.0.2".into())
    );
}

#[test]
fn a_misspelt_key_is_told_with_its_line_and_those_there_are() {
    let error = refused("setup", "setpu");
    assert!(
        error.starts_with(
            "cluster.toml line 16, column 1: unknown field `setpu`, expected one of `name`"
        ),
        "{error}"
    );
    let error = refused("port = 6379", "prot = 6379");
    assert!(
        error.starts_with(
            "cluster.toml line 10, column 11: unknown variant `prot`, expected one of `command`"
        ),
        "{error}"
    );
    assert!(
        refused("explore", "exlpore")
            .starts_with("cluster.toml line 2, column 1: unknown field `exlpore`")
    );
    for error in [refused("[[nodes]]", "[[nodes"), refused("0.5", "\"soon\"")] {
        assert!(!error.contains('\n') && error.contains(" line "), "{error}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_name() {
    for (from, to, words) in [
        (
            "after = [\"primary\"]",
            "after = [\"prim\"]",
            "node replica-1: there is no node prim: there are primary, replica-1, replica-2",
        ),
        (
            "after = [\"primary\"]",
            "after = [\"replica-2\"]",
            "node replica-1 starts after one that starts after it",
        ),
        (
            "{dir}/redis",
            "{dri}/redis",
            "node replica-1: {dri} stands for nothing here",
        ),
        ("replica-2", "replica-1", "there are two nodes replica-1"),
        (
            "replica-2",
            "Replica_2",
            "\"Replica_2\" cannot be a node's name",
        ),
        ("replica-2", "client", "a node cannot be called client"),
        ("replica-2", "ready", "a node cannot be called ready"),
        ("replica-2", "look", "a node cannot be called look"),
        (
            "name = \"primary\"",
            "",
            "each of [[nodes]] has either a name or names",
        ),
        (
            "primary = \"primary\"",
            "majority = 4",
            "there is no majority of 4 of 3 nodes",
        ),
        ("SIGKILL", "KILLED", "node replica-1: KILLED is no signal"),
        (
            "stop = ",
            "may_end = [\"status 256\"]\nstop = ",
            "line 12: node replica-1: may_end: status 256 is no end, such as \"status 1\" or",
        ),
        (
            "[check]",
            "[[logs]]\nerror = \"ERROR\"\nexpected = [\"RR\"]\n[check]",
            "line 25: logs: each line with \"ERROR\" has \"RR\" in it, so none would be an error",
        ),
        (
            "[check]",
            "[[logs]]\nerror = \"\"\n[check]",
            "line 25: logs: error is what lines have",
        ),
        (
            "[check]",
            "[[logs]]\nerror = \"ERROR\"\nnodes = [\"prim\"]\n[check]",
            "logs: there is no node prim: there are primary",
        ),
        ("0.5", "-1", "-1 is no number of seconds"),
        (
            "\"redis.conf\" =",
            "\"../redis.conf\" =",
            "a file's path is relative to {dir}",
        ),
        (
            "setup",
            "user = \"nobody-here\"\nsetup",
            "there is no user nobody-here on this machine",
        ),
        ("{acks}", "{dir}", "check: {dir} stands for nothing here"),
        (
            "[client]",
            "[probe]\ncommand = \"./probe\"\nroles = [\"leader\", \"majority\"]\n[client]",
            "probe: \"majority\" cannot be a role: it is one word, no name of a node or a kind, and none of all, any",
        ),
        (
            "[client]",
            "[[nodes]]\nname = \"x\"\nkind = \"store\"\ncommand = \"sh\"\n\
             [probe]\ncommand = \"./probe\"\nroles = [\"store\"]\n[client]",
            "probe: \"store\" cannot be a role",
        ),
        (
            "ready = { port",
            "data = false\nfiles = { x = \"\" }\nready = { port",
            "node primary: it has files, and data = false",
        ),
    ] {
        let error = refused(from, to);
        assert!(
            error.starts_with("cluster.toml") && error.contains(words),
            "{error}"
        );
    }
}

#[test]
fn a_node_that_is_ready_by_http_is_asked_at_its_own_host_or_that_of_a_node() {
    let asked = |url: &str| {
        let http = format!("ready = {{ http = \"{url}\" }}");
        let file = parse(&SYSTEM.replace("ready = { port = 6379 }", &http))?;
        let ready = file.nodes[0].ready.clone();
        let Some(Ready::Http { words, url }) = ready else {
            panic!("{ready:?}")
        };
        assert_eq!(words[..2], ["/proc/self/exe", "__answers"]);
        Ok::<_, Error>(url)
    };
    for (url, is) in [
        ("http://{address}:80/health", "http://10.77.0.1:80/health"),
        ("http://localhost:8080", "http://127.0.0.1:8080/"),
        ("http://127.0.0.1/x", "http://127.0.0.1:80/x"),
        ("http://replica-1/x", "http://10.77.0.2:80/x"),
    ] {
        assert_eq!(asked(url).expect("it is right"), is);
    }
    let error = asked("http://10.77.0.9/").expect_err("nobody is there");
    let words = "line 7: node primary: ready: \"http://10.77.0.9/\" cannot be asked: its host";
    assert!(error.to_string().contains(words), "{error}");
}

/// Two clients; keys of the file itself come first.
fn with_turns(keys: &str) -> Result<ClusterFile> {
    let clients = "[[clients]]\nname = \"w\"\ncommand = \"sh\"\n[[clients]]\nname = \"r\"\ncommand = \"sh\"\n";
    parse(&format!("{keys}\n{SYSTEM}\n{clients}"))
}

#[test]
fn clients_take_turns_in_the_order_of_the_file() {
    assert_eq!(with_turns("").expect("it is right").turns, None);
    let of = |keys: &str| with_turns(keys).expect("it is right").turns;
    let turns = of("turns = [\"r\", \"w\", \"w\"]").expect("some do");
    assert_eq!(turns.order, [1, 0, 0]);
    assert_eq!(turns.within, Duration::from_secs(10));
    let keys = "turns = [\"w\"]\nturn_within_s = 0.5";
    let within = Duration::from_millis(500);
    assert_eq!(of(keys).expect("one does").within, within);
    let patient = with_turns(keys).expect("it is right").patient(3);
    assert_eq!(patient.turns.expect("one does").within, within * 3);
}

#[test]
fn turns_of_nobody_are_refused_with_their_line() {
    for (keys, words) in [
        (
            "\nturns = [\"w\", \"x\"]",
            "line 2, column 15: turns: there is no client x: there are w, r",
        ),
        (
            "turns = []",
            "line 1, column 9: turns: it has to name clients",
        ),
        (
            "turns = [\"w\"]\nturn_within_s = 0",
            "line 1, column 9: turns: 0 is no number of seconds to wait",
        ),
        (
            "turn_within_s = 1",
            "turn_within_s is of no use without turns",
        ),
    ] {
        let error = with_turns(keys).expect_err("it is wrong").to_string();
        assert!(error.starts_with("cluster.toml"), "{error}");
        assert!(error.contains(words), "{error}");
    }
    let alone = parse(&format!("turns = [\"client\"]\n{SYSTEM}")).expect_err("it is wrong");
    let words = "there is no client client, as the file has no [[clients]]";
    assert!(alone.to_string().contains(words), "{alone}");
}

#[test]
fn how_nodes_may_end_and_which_errors_they_may_log_is_as_the_file_says() {
    let file = parse(SYSTEM).expect("it is right");
    assert!(file.logs.is_empty());
    assert_eq!(file.nodes[1].may_end("ended with status 1"), None);
    let may_end = "may_end = [\"status 1\", \"SIGABRT\", \"status 139\"]\nstop = ";
    let text = SYSTEM.replace("stop = ", may_end)
        + "[[logs]]\nerror = \"ERROR\"\nexpected = [\"refused\", \"reset\"]\nnodes = [\"primary\"]\n\
           [[logs]]\nerror = \"panic\"\n";
    let file = parse(&text).expect("it is right");
    let node = &file.nodes[1];
    for (how, may) in [
        ("ended with status 1", Some(true)),
        ("ended with status 12", Some(false)),
        ("was ended by SIGABRT", Some(true)),
        ("was ended by SIGSEGV", Some(true)),
        ("was ended by SIGBUS", Some(false)),
        ("ended", None),
        ("has a kernel that gave up: no memory", None),
        ("switched itself off", None),
    ] {
        assert_eq!(node.may_end(how), may, "{how}");
    }
    let [errors, panics] = &file.logs[..] else {
        panic!("{:?}", file.logs)
    };
    assert!(errors.is_unexpected(0, "1 ERROR disk is gone"));
    assert!(
        !errors.is_unexpected(1, "1 ERROR disk is gone"),
        "another node"
    );
    assert!(!errors.is_unexpected(0, "1 ERROR connection reset"));
    assert!(!errors.is_unexpected(0, "1 INFO disk is gone"));
    assert!(panics.is_unexpected(2, "panic: x"));
}

#[test]
fn what_is_wrong_with_a_node_is_told_with_its_line() {
    let error = refused("after = [\"primary\"]", "after = [\"prim\"]");
    assert!(
        error.starts_with("cluster.toml line 12: node replica-1: there is no node prim"),
        "{error}"
    );
}

#[test]
fn a_name_that_stands_for_nothing_and_a_wrong_explore_are_told_with_their_own_line() {
    for (from, to, words) in [
        (
            "mkdir {dir}",
            "mkdir {dri}",
            "line 16: node replica-1: {dri} stands for",
        ),
        (
            "./client {address",
            "./client {adress",
            "line 23: client: {adress:primary} stands",
        ),
        (
            "{acks}",
            "{acs}",
            "line 26: check: {acs} stands for nothing here",
        ),
        (
            "= \"primary\" }",
            "= \"prim\" }",
            "line 2: explore: there is no node prim",
        ),
        (
            "primary = \"primary\" }",
            "majority = 4 }",
            "line 2: explore: there is no majority",
        ),
        (
            "0.5",
            "\"soon\"",
            "line 19, column 17: invalid type: string \"soon\", expected a number",
        ),
        (
            "[\"replica-1\", \"replica-2\"]",
            "\"replica-1\"",
            "expected an array",
        ),
    ] {
        let error = refused(from, to);
        assert!(error.contains(words), "{error}");
    }
    let error = refused("{dir}/redis", "{dri}/redis");
    assert!(error.contains("{number} {here} (and"), "{error}");
}

/// Name nodes that are formatted, data nodes, and a client that makes a schema.
const KINDS: &str = r#"
[[nodes]]
names = ["j1", "j2"]
kind = "journal"
command = "true"

[[nodes]]
name = "active"
kind = "name"
command = "true"
after = ["journal", "format"]

[[nodes]]
name = "standby"
kind = "name"
command = "true"
after = ["bootstrap"]

[[nodes]]
names = ["d1", "d2"]
command = "true {address:active}"
after = ["name"]

[[steps]]
name = "format"
on = "active"
command = "true format {dir}"

[[steps]]
name = "bootstrap"
on = "standby"
when = ["active"]
command = "true {name} {address:active}"

[[steps]]
name = "schema"
command = "true"
within_s = 5
"#;

#[test]
fn nodes_wait_for_kinds_and_steps_and_steps_for_all_who_do_not_wait_for_them() {
    let file = parse(KINDS).expect("it is right");
    assert_eq!(file.members("name"), Some(vec![2, 3]));
    assert_eq!(file.members("j2"), Some(vec![1]));
    assert_eq!(file.members("data"), None);
    assert_eq!(
        (&file.nodes[2].after[..], &file.nodes[2].after_steps[..]),
        (&[0, 1][..], &[0][..])
    );
    assert_eq!(file.nodes[4].after, [2, 3]);
    let [format, bootstrap, schema] = &file.steps[..] else {
        panic!("{:?}", file.steps)
    };
    assert_eq!((format.on, &format.when[..]), (Some(2), &[0, 1][..]));
    assert_eq!(format.command, ["true", "format", "/run/crashpoint/active"]);
    assert_eq!((bootstrap.on, &bootstrap.when[..]), (Some(3), &[2][..]));
    assert_eq!(bootstrap.command, ["true", "standby", "10.77.0.3"]);
    assert_eq!(
        (schema.on, &schema.when[..]),
        (None, &[0, 1, 2, 3, 4, 5][..])
    );
    assert_eq!(schema.within, Duration::from_secs(5));
    assert!(file.is_prepared());
}

#[test]
fn kinds_and_steps_that_make_no_sense_are_refused_with_their_line() {
    for (from, to, words) in [
        (
            "\"journal\"\ncommand",
            "\"active\"\ncommand",
            "line 2: active is a kind of nodes, and a node",
        ),
        (
            "name = \"schema\"",
            "name = \"format\"",
            "line 35: there are two steps format",
        ),
        (
            "name = \"schema\"",
            "name = \"d1\"",
            "line 35: there are nodes, and a step, d1",
        ),
        (
            "name = \"schema\"",
            "name = \"Schema\"",
            "line 35: \"Schema\" cannot be",
        ),
        (
            "on = \"active\"",
            "on = \"name\"",
            "line 24: step format: it runs on one node, and name is several",
        ),
        (
            "on = \"active\"",
            "on = \"nobody\"",
            "line 24: step format: there is no node nobody: there are j1, j2, active, standby, d1, d2, journal, name, format, bootstrap, schema",
        ),
        (
            "when = [\"active\"]",
            "when = [\"format\"]",
            "line 29: step bootstrap: format is a step, and not a node",
        ),
        (
            "when = [\"active\"]",
            "when = [\"d1\"]",
            "cluster.toml: step bootstrap waits for a node that starts after it",
        ),
        (
            "within_s = 5",
            "within_s = 0",
            "line 35: step schema: 0 is no number of seconds",
        ),
        (
            "{name} {address:active}",
            "{nmae}",
            "line 33: step bootstrap: {nmae} stands for nothing",
        ),
        (
            "after = [\"name\"]",
            "after = [\"names\"]",
            "line 19: node d1: there is no node names",
        ),
        (
            "within_s = 5",
            "whithin_s = 5",
            "line 38, column 1: unknown field `whithin_s`",
        ),
    ] {
        let text = KINDS.replacen(from, to, 1);
        assert_ne!(text, KINDS, "{from}");
        let error = parse(&text).expect_err("it is wrong").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_is_promised_of_objects_is_read_or_refused() {
    let file = |histories: &str| {
        parse(&format!(
            "[[nodes]]\nname = \"n1\"\ncommand = \"true\"\n[[histories]]\n{histories}"
        ))
    };
    let rules = file("keys = \"l*\"\nmodel = \"semaphore:2\"").expect("it is right");
    let rule = &rules.histories[0];
    assert!(rule.is_of(Some(&"l1".into())) && !rule.is_of(Some(&"k1".into())));
    let rules = file("model = \"counter\"\ninitial = 5\npromises = \"eventual\"");
    let contract = &rules.expect("it is right").histories[0].contract;
    assert_eq!(contract.initial, 5.into());
    assert_eq!(contract.consistency, history::Consistency::Eventual);
    for (histories, words) in [
        (
            "model = \"quue\"",
            "there is no model quue (there are register, map,",
        ),
        (
            "model = \"map\"\nkeys = \"[\"",
            "histories of map: keys: Pattern syntax error",
        ),
        (
            "model = \"map\"\npromises = \"all\"",
            "histories of map: there is no promise all (there are linearizable, eventual,",
        ),
        (
            "model = \"map\"\npromises = \"serializable\"",
            "serializable is not something that a map can be",
        ),
    ] {
        let error = file(histories).expect_err("it is wrong").to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_example_of_the_guide_and_the_files_that_come_with_it_can_be_read() {
    let guide = include_str!("../../../docs/clusters.md");
    let example = guide
        .split_once("```toml\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .expect("there is one")
        .0;
    assert!(
        example.lines().count() <= 20,
        "it is said to have twenty lines"
    );
    let file = parse(&example.replace("{here}", "/folder")).expect("it is right");
    assert_eq!(
        file.explore,
        Explore::ReplicatedStateMachine { majority: None }
    );
    assert!(
        file.nodes[1].files[Path::new("store.conf")]
            .contains("peers = 10.77.0.1:7000,10.77.0.2:7000")
    );
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/clusters"
    ));
    for system in [
        "redis",
        "redis-sentinel",
        "etcd",
        "zookeeper",
        "nats-jetstream",
        "ignite",
        "hazelcast",
        "infinispan",
    ] {
        let text =
            fs::read_to_string(folder.join(system).join("cluster.toml")).expect("it is there");
        let file = parse(&text.replace("{here}", "/folder"))
            .unwrap_or_else(|error| panic!("{system}: {error}"));
        assert!(file.nodes.len() >= 3 && file.client.is_some(), "{system}");
        // What clients saw is enough to judge runs with faults.
        assert!(
            file.check.is_some() || !file.histories.is_empty(),
            "{system}"
        );
    }
}
