//! Triggers that are made of others, and what happens meanwhile.

use std::result::Result;

use cluster::MachineTracer;
use serde_json::Value;
use tempfile::NamedTempFile;

use super::*;

/// Who does something by itself.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The client prints a line.
    Client,
    /// This is what the probe says from then on.
    Probe,
    /// The node logs a line.
    Log,
    /// The desk of the node says that.
    Desk,
}
use By::{Client, Desk, Log, Probe};

/// What happens, each after so many milliseconds.
type Events = &'static [(u64, By, &'static str)];

/// What happens by itself, and what desks are told.
#[derive(Default)]
pub(super) struct Script {
    events: Vec<(u64, By, &'static str)>,
    log: Option<NamedTempFile>,
    probed: &'static str,
    told: Rc<RefCell<Vec<String>>>,
}

/// Where the probe runs, which is its program too.
const PROBED: ProgramId = 1;

impl Script {
    fn of(events: Events) -> Self {
        Self {
            events: events.to_vec(),
            log: Some(NamedTempFile::new().expect("a file")),
            ..Self::default()
        }
    }

    /// What somebody does by now.
    fn due(&mut self, now: Duration, by: By) -> Vec<&'static str> {
        let is_due =
            |event: &mut (u64, By, &str)| event.1 == by && now >= Duration::from_millis(event.0);
        let due = self.events.extract_if(.., is_due);
        due.map(|(.., what)| what).collect()
    }

    /// Where nodes log, if they do.
    pub(super) fn log(&self) -> Option<PathBuf> {
        self.log.as_ref().map(|log| log.path().to_owned())
    }

    /// Time has passed.
    pub(super) fn pass(&mut self, now: Duration, calls: &Calls) {
        for line in self.due(now, Log) {
            let log = self.log.as_mut().expect("a script has one");
            writeln!(log, "{line}").expect("written");
        }
        for said in self.due(now, Desk) {
            calls.hear(0, said.as_bytes()).expect("a report");
        }
        let told = calls.take_orders(0).into_iter();
        self.told.borrow_mut().extend(told);
    }

    /// Calls are followed by a desk that is there.
    pub(super) fn follow(&self, calls: &Calls, file: &ClusterFile) {
        if !self.events.is_empty() {
            calls.words(0, &file.nodes[0], 0);
        }
    }

    pub(super) fn lines(&mut self, program: ProgramId, now: Duration) -> Vec<(Duration, Vec<u8>)> {
        let lines = if program == PROBED {
            self.probed = self.due(now, Probe).last().copied().unwrap_or(self.probed);
            self.probed.lines().collect()
        } else {
            self.due(now, Client)
        };
        let stamped = lines
            .into_iter()
            .map(|line| (now, line.as_bytes().to_vec()));
        stamped.collect()
    }

    /// Whether the client may say more.
    pub(super) fn goes_on(&self, program: ProgramId) -> bool {
        program != PROBED && self.events.iter().any(|(_, by, _)| *by == Client)
    }
}

/// Two nodes and a probe.
const PROBED_FILE: &str = "[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[client]\n\
                           command = \"sh\"\n[probe]\ncommand = \"sh\"\n\
                           roles = [\"leader\", \"follower\"]\n";

/// The same with a probe by HTTP.
const ASKED_FILE: &str = "[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[client]\n\
                          command = \"sh\"\n[probe]\nhttp = \"http://{address}:1/\"\n\
                          role = \"/role\"\nroles = [\"leader\", \"follower\"]\n";

/// A run of a plan whose fault waits for something for half a second.
fn ran(file: &str, at: &str, until: &str, events: Events) -> (Ran, Vec<String>) {
    let mut ground = Still::new();
    ground.file = cluster_of(file);
    ground.says = Verdict::Ok;
    ground.script = Script::of(events);
    let told = Rc::clone(&ground.script.told);
    let plan = format!(
        "within_s = 0.5\n[[faults]]\nat = {at}\nfault = \"pause\"\non = \"a\"\nuntil = {until}\n"
    );
    let ran = ground.run(&plan);
    let told = told.borrow().clone();
    (ran, told)
}

/// Checks when the fault is put in place, in milliseconds and some looks later, or what is said of it.
fn expect(file: &str, at: &str, events: Events, expected: Result<u64, &str>) {
    let (ran, _) = ran(file, at, "{ after_s = 0.01 }", events);
    let placed = ran.faults[0].placed_ns.map(|ns| ns / 1_000_000);
    match (expected, &ran.judged) {
        (Ok(ms), judged) => {
            // The probe is asked every 100 ms, and takes a while before the clients are started.
            let (early, late) = if file == PROBED_FILE {
                (10, 120)
            } else {
                (0, 12)
            };
            let is_then = placed.is_some_and(|placed| (ms - early..ms + late).contains(&placed));
            assert!(is_then, "{at} {ms} {placed:?} {judged:?}");
        }
        (Err(words), Judged::Inconclusive { why }) => {
            assert_eq!(placed, None, "{at}");
            assert_eq!(why, &format!("fault 1 never happened: at {words}"));
        }
        (Err(_), judged) => panic!("{at}: {judged:?}"),
    }
}

#[test]
fn each_of_all_has_come_and_one_of_any() {
    const ALL: &str = "{ all = [{ acknowledged = 1 }, { log = \"x\" }] }";
    const ANY: &str = "{ any = [{ acknowledged = 1 }, { log = \"x\" }] }";
    const LATE: &str = "{ any = [{ acknowledged = 2 }, { time_s = 0.3 }] }";
    let expect =
        |at: &str, events: Events, expected: Result<u64, &str>| expect(FILE, at, events, expected);
    expect(ALL, &[(20, Client, "k"), (90, Log, "x")], Ok(90));
    // A line of a log is there once, and need not be when the rest comes.
    expect(ALL, &[(20, Log, "x"), (90, Client, "k")], Ok(90));
    let missing = format!("{ALL}: what did not come: {{ log = \"x\" }}");
    expect(ALL, &[(20, Client, "k")], Err(&missing));
    expect(ANY, &[(20, Client, "k"), (90, Log, "x")], Ok(20));
    expect(ANY, &[(20, Log, "x"), (90, Client, "k")], Ok(20));
    let missing =
        format!("{ANY}: what did not come: one of {{ acknowledged = 1 }}, {{ log = \"x\" }}");
    expect(ANY, &[(20, Log, "z")], Err(&missing));
    // A time comes, whatever clients do.
    expect(LATE, &[(20, Client, "k")], Ok(300));
}

#[test]
fn what_comes_then_comes_after_what_comes_first() {
    const LINES: &str = "{ log = \"x\", then = { log = \"y\" } }";
    const PAUSED: &str = "{ log = \"x\", delay_s = 0.05, then = { log = \"y\" } }";
    const SINCE: &str = "{ log = \"x\", then = { any = [{ log = \"y\" }, { after_s = 0.1 }] } }";
    const THREE: &str = "{ log = \"x\", then = { acknowledged_more = 1, then = { log = \"y\" } } }";
    const DONE: Events = &[
        (20, Client, "k"),
        (40, Log, "x"),
        (60, Client, "k"),
        (90, Log, "y"),
    ];
    let expect =
        |at: &str, events: Events, expected: Result<u64, &str>| expect(FILE, at, events, expected);
    expect(
        LINES,
        &[(20, Log, "y"), (40, Log, "x"), (90, Log, "y")],
        Ok(90),
    );
    // Both are seen with one look.
    expect(LINES, &[(40, Log, "x"), (40, Log, "y")], Ok(40));
    let missing = format!("{LINES}: what did not come: {{ log = \"y\" }}");
    expect(LINES, &[(40, Log, "y"), (40, Log, "x")], Err(&missing));
    let missing = format!("{LINES}: what did not come: {{ log = \"x\" }}");
    expect(LINES, &[(40, Log, "y")], Err(&missing));
    expect(
        PAUSED,
        &[(20, Log, "x"), (40, Log, "y"), (150, Log, "y")],
        Ok(150),
    );
    expect(SINCE, &[(60, Log, "x")], Ok(160));
    expect(THREE, DONE, Ok(90));
    let missing = format!("{THREE}: what did not come: {{ acknowledged_more = 1 }}");
    expect(
        THREE,
        &[(20, Client, "k"), (40, Log, "x"), (90, Log, "y")],
        Err(&missing),
    );
}

#[test]
fn what_comes_after_any_comes_after_the_line_with_which_it_fired() {
    const CHAIN: &str = "{ any = [{ log = \"a\", then = { log = \"b\" } }, { log = \"z\" }], then = { log = \"c\" } }";
    const EITHER: &str = "{ any = [{ log = \"x\" }, { log = \"y\" }], then = { log = \"c\" } }";
    const LATE: &str =
        "{ any = [{ log = \"x\", delay_s = 0.2 }, { acknowledged = 1 }], then = { log = \"c\" } }";
    let expect =
        |at: &str, events: Events, expected: Result<u64, &str>| expect(FILE, at, events, expected);
    let missing = |at: &str| format!("{at}: what did not come: {{ log = \"c\" }}");
    expect(
        CHAIN,
        &[(40, Log, "a"), (40, Log, "c"), (40, Log, "b")],
        Err(&missing(CHAIN)),
    );
    expect(
        CHAIN,
        &[(40, Log, "a"), (60, Log, "b"), (60, Log, "c")],
        Ok(60),
    );
    // The first one is enough.
    expect(
        EITHER,
        &[(40, Log, "y"), (40, Log, "c"), (40, Log, "x")],
        Ok(40),
    );
    expect(
        EITHER,
        &[(40, Log, "c"), (40, Log, "x"), (40, Log, "y")],
        Err(&missing(EITHER)),
    );
    // What another node logs comes after its own line only.
    let of_b = "{ log = \"x\", then = { log = \"c\", node = \"b\" } }";
    let two = FILE.replace("name = \"a\"", "names = [\"a\", \"b\"]");
    self::expect(&two, of_b, &[(40, Log, "x"), (40, Log, "c")], Ok(40));
    // A part whose time has not passed has not fired.
    expect(
        LATE,
        &[(40, Client, "k"), (40, Log, "x"), (40, Log, "c")],
        Err(&missing(LATE)),
    );
}

#[test]
fn what_nodes_log_before_the_clients_start_does_not_count() {
    // What is no answer is asked for again after 100 ms.
    const SLOW: Events = &[
        (0, Probe, "not yet"),
        (2, Log, "ERROR of before"),
        (50, Probe, "a leader"),
    ];
    const LOGGED: &str = "{ log = \"ERROR\" }";
    let file = format!("{PROBED_FILE}[[logs]]\nerror = \"ERROR\"\n");
    let (ran, _) = ran(&file, "{ time_s = 0 }", "{ after_s = 0.01 }", SLOW);
    assert_eq!(ran.judged, Judged::Ok);
    expect(PROBED_FILE, LOGGED, SLOW, Err(LOGGED));
}

#[test]
fn an_end_that_is_made_of_several_is_one_too() {
    const UNTIL: &str = "{ all = [{ log = \"x\" }, { log = \"y\" }] }";
    let end = |events: Events| ran(FILE, "{ time_s = 0 }", UNTIL, events).0;
    let ended = end(&[(20, Log, "y"), (60, Log, "x")]);
    let undone = ended.faults[0].undone_ns.expect("it has ended");
    assert!((60_000_000..72_000_000).contains(&undone), "{ended:?}");
    let Judged::Inconclusive { why } = end(&[(20, Log, "y")]).judged else {
        panic!("it never ended");
    };
    let expected =
        format!("its end never came: until {UNTIL}: what did not come: {{ log = \"x\" }}");
    assert!(why.ends_with(&expected), "{why}");
}

#[test]
fn a_value_that_the_probe_says_changes() {
    const TERM: &str = "{ value_changed = \"term\" }";
    const OF_B: &str = "{ value_changed = \"log\", node = \"b\" }";
    // The role is as ever. Who is told of for the first time has not changed.
    const TERMS: Events = &[
        (0, Probe, "a leader 3"),
        (150, Probe, "a leader 3\nb follower 4"),
        (300, Probe, "b follower 5"),
    ];
    const LOGS: Events = &[
        (0, Probe, "a leader 3 log=7\nb follower log=7"),
        (150, Probe, "a leader 3 log=8\nb follower"),
        (300, Probe, "a follower 4 log=9\nb follower log=8"),
    ];
    let expect = |at: &str, events: Events, expected: Result<u64, &str>| {
        expect(PROBED_FILE, at, events, expected);
    };
    expect(TERM, TERMS, Ok(300));
    expect(OF_B, LOGS, Ok(300));
    expect(
        TERM,
        &[(0, Probe, "a leader 3 log=7"), (150, Probe, "b leader 3")],
        Err(TERM),
    );
    let unknown = format!("{OF_B}: the probe said no value `log`");
    expect(OF_B, &[(0, Probe, "a leader log=7")], Err(&unknown));
}

/// What desks are told of calls: which is waited for, with whether it is held, and which is not any more.
fn orders(at: &str, events: Events) -> Vec<String> {
    let (ran, told) = ran(FILE, at, "{ after_s = 0.01 }", events);
    assert_eq!(ran.faults[0].state, State::Undone, "{at} {ran:?}");
    let words = told.iter().filter_map(|line| {
        let order: Value = serde_json::from_str(line).expect("an order");
        let watch = order.get("Watch").map(|watch| {
            let held = if watch[1]["holds"] == true {
                "held"
            } else {
                "not held"
            };
            format!(
                "{} {held}",
                watch[1]["of"]["call"].as_str().expect("a name")
            )
        });
        watch.or_else(|| Some(format!("not {}", order.get("Unwatch")?)))
    });
    words.collect()
}

#[test]
fn a_call_is_held_until_what_comes_then_is_waited_for_or_the_fault_is_in_place() {
    const FIRST: (u64, By, &str) = (20, Desk, "{\"Seen\":[0,1,\"is about to write a\"]}");
    const SECOND: (u64, By, &str) = (60, Desk, "{\"Seen\":[1,1,\"is about to fsync a\"]}");
    const LOGGED: (u64, By, &str) = (5, Log, "x");
    let chain = "{ call = \"write\", then = { call = \"fsync\" } }";
    assert_eq!(
        orders(chain, &[FIRST, SECOND])[..],
        ["write held", "fsync held", "not 0", "not 1"]
    );
    let late = "{ call = \"write\", then = { call = \"fsync\" , delay_s = 0.1 } }";
    assert_eq!(orders(late, &[FIRST, SECOND])[1], "fsync not held");
    let any = "{ log = \"x\", then = { any = [{ call = \"write\" }, { log = \"y\" }] } }";
    assert_eq!(orders(any, &[LOGGED, FIRST]), ["write held", "not 0"]);
    let all =
        "{ log = \"x\", then = { all = [{ call = \"write\" }, { log = \"x\" }], delay_s = 0.01 } }";
    assert_eq!(
        orders(all, &[LOGGED, FIRST, (40, Log, "x")]),
        ["write not held", "not 0"]
    );
    let in_all = "{ all = [{ call = \"write\", then = { log = \"x\" } }, { call = \"fsync\", delay_s = 0.01 }] }";
    let told = orders(in_all, &[FIRST, SECOND, (40, Log, "x")]);
    assert_eq!(told, ["write held", "fsync not held", "not 0", "not 1"]);
    // What any other part has fired at needs no call.
    let other =
        "{ any = [{ call = \"write\" }, { log = \"x\", delay_s = 0.01 }], then = { log = \"y\" } }";
    assert_eq!(
        orders(other, &[LOGGED, (40, Log, "y")]),
        ["write held", "not 0"]
    );
}

#[test]
fn the_calls_that_came_are_told_each_at_its_time() {
    const EVENTS: Events = &[
        (20, Desk, "{\"Seen\":[0,1,\"is about to write a\"]}"),
        (60, Desk, "{\"Seen\":[1,1,\"is about to fsync a\"]}"),
    ];
    let chain = "{ call = \"write\", then = { call = \"fsync\" } }";
    let (ran, _) = ran(FILE, chain, "{ after_s = 0.01 }", EVENTS);
    let calls = ran.events.iter().filter_map(|event| match &event.what {
        Happening::Call { words, .. } => Some((event.time_ns / 10_000_000, &words[..])),
        _ => None,
    });
    let expected = [(2, "is about to write a"), (6, "is about to fsync a")];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
}

/// What the program that asks by HTTP says of a node that is not found, beside another one.
const NOT_FOUND: &str = "! a: http://a answers 404\nb leader 2\nend";

#[test]
fn a_node_that_answers_wrongly_by_http_has_no_role_and_the_others_have_theirs() {
    const FIRST: &str = "a leader 1\nb follower 1\nend";
    let leads = "{ role = \"leader\", node = \"b\" }";
    let events: Events = &[(0, Probe, FIRST), (50, Probe, NOT_FOUND)];
    let (ran, _) = ran(ASKED_FILE, leads, "{ after_s = 0.3 }", events);
    assert!(ran.faults[0].placed_ns.is_some(), "{ran:?}");
    let whys = ran.events.iter().filter_map(|event| match &event.what {
        Happening::ProbeFailed { why } => Some(why.as_str()),
        _ => None,
    });
    let whys: Vec<_> = whys.collect();
    assert_eq!(whys, ["a: http://a answers 404"], "it is told once");
}

#[test]
fn no_node_may_answer_wrongly_by_http_before_the_clients_start_nor_a_command_at_any_time() {
    let probed = PROBED_FILE.replace(
        "command = \"sh\"\nroles",
        "command = \"sh\"\nserve = true\nroles",
    );
    for (file, why) in [
        (ASKED_FILE, "gives no answer: a: http://a answers 404"),
        (
            &probed,
            "it says `! a: http://a answers 404`, which is no NODE",
        ),
    ] {
        let mut ground = Still::of(file);
        ground.script = Script::of(&[(0, Probe, NOT_FOUND)]);
        let error = ground.try_run(&fault("time_s = 0", "\"pause\""));
        let error = error.expect_err("it cannot be made").to_string();
        assert!(error.contains(why), "{error}");
    }
}
