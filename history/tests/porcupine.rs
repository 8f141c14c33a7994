//! Known answers of Porcupine (github.com/anishathalye/porcupine, MIT): the 102 logs of etcd and the
//! six of a key-value store that are in its Go module, and random histories beside it.
//!
//! They need the module, which `go mod download` fetches: `make test-histories` runs them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use history::{
    Contract, Event, History, Kind, Linear, Lines, Model, Process, Settings, Value, Verdict, check,
};

const MODULE: &str = "github.com/anishathalye/porcupine@v1.3.1";
/// Of these logs an order explains everything; of the others none does (porcupine_test.go).
const LINEARIZABLE: [usize; 20] = [
    2, 5, 7, 18, 25, 31, 38, 45, 48, 49, 51, 53, 56, 67, 75, 76, 80, 87, 92, 98,
];
/// Here the cluster never started. Porcupine takes a log without operations for linearizable; the first
/// is not among its tests.
const EMPTY: [usize; 4] = [95, 100, 101, 102];
const LIMIT: Duration = Duration::from_secs(10);

/// Where the module is.
fn module() -> PathBuf {
    let output = Command::new("go")
        .args(["mod", "download", "-json", MODULE])
        .current_dir(std::env::temp_dir())
        .output()
        .expect("go is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    PathBuf::from(said["Dir"].as_str().expect("a directory"))
}

/// A log of `jepsen.util`, as Porcupine reads it: a comparison that failed saw another value, and
/// what timed out or was not answered is unknown.
fn etcd_log(text: &str) -> History {
    let mut lines = Lines::default();
    // A client of these logs goes on after its read timed out; nothing comes of that.
    let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let Some(fields) = line.strip_prefix("INFO  jepsen.util - ") else {
            continue;
        };
        let fields: Vec<_> = fields.split('\t').collect();
        let [process, kind, f, value] = fields[..] else {
            continue;
        };
        let Ok(process) = process.parse::<u64>() else {
            continue;
        };
        let integers: Vec<i64> = value
            .trim_matches(['[', ']'])
            .split(' ')
            .filter_map(|number| number.parse().ok())
            .collect();
        let value = match integers[..] {
            [one] => Value::Int(one),
            [old, new] => vec![Value::Int(old), Value::Int(new)].into(),
            _ => Value::Null,
        };
        let timed_out = integers.is_empty() && kind != ":invoke" && fields[3] != "nil";
        let (kind, value) = match (kind, f) {
            (":invoke", _) => (Kind::Invoke, value),
            (":ok", _) => (Kind::Ok, value),
            (":fail", ":cas") if !timed_out => (Kind::Ok, false.into()),
            (":fail", ":read") => (Kind::Fail, Value::Null),
            // The rest is not answered for Porcupine.
            _ => continue,
        };
        let number = *numbers.entry(process).or_insert(process);
        lines
            .put(Event {
                index: 0,
                time_ns: at as u64,
                process: Process::Client(number),
                kind,
                f: f.trim_start_matches(':').to_owned(),
                key: None,
                value,
                error: None,
            })
            .unwrap_or_else(|wrong| panic!("line {}: {wrong}", at + 1));
    }
    lines.finish()
}

/// What we say of a history, and how long that took at best.
fn timed(history: &History, settings: &Settings) -> (Verdict, Duration) {
    let mut best = Duration::MAX;
    let mut verdict = Verdict::Undecided;
    for _ in 0..5 {
        let start = Instant::now();
        let report = check(history, settings).expect("it is of the model");
        best = best.min(start.elapsed());
        verdict = report.verdict();
        let is_linear = report
            .objects
            .iter()
            .all(|one| matches!(one.linear, Linear::Linearizable(_)));
        assert_eq!(is_linear, verdict == Verdict::Clean);
        if best > Duration::from_secs(1) {
            break;
        }
    }
    (verdict, best)
}

fn settings(model: Model) -> Settings {
    let initial = match model {
        Model::Map => "".into(),
        _ => Value::Null,
    };
    Settings {
        time_limit: Some(LIMIT),
        ..Settings::of_all(Contract {
            initial,
            ..Contract::new(model)
        })
    }
}

/// What Porcupine says of logs, and how long that took it at best.
fn porcupine(module: &Path, logs: &Path) -> BTreeMap<String, (Verdict, Duration)> {
    let copy = tempfile::tempdir().expect("a directory");
    let copy = copy.path();
    for entry in fs::read_dir(module).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            let bytes = fs::read(&path).expect("a file");
            fs::write(copy.join(path.file_name().expect("a name")), bytes).expect("a file");
        }
    }
    // It is embedded.
    fs::create_dir_all(copy.join("visualization")).expect("a directory");
    for name in ["index.html", "index.css", "index.js"] {
        let bytes = fs::read(module.join("visualization").join(name)).expect("a file");
        fs::write(copy.join("visualization").join(name), bytes).expect("a file");
    }
    let ours = include_str!("porcupine/times_test.go");
    fs::write(copy.join("times_test.go"), ours).expect("a file");
    let output = Command::new("go")
        .args([
            "test",
            "-count=1",
            "-timeout=60m",
            "-run",
            "TestTimesOfHistories",
            "-v",
            ".",
        ])
        .current_dir(copy)
        .env("HISTORY_LOGS", logs)
        .env("HISTORY_LIMIT", format!("{}s", LIMIT.as_secs()))
        .output()
        .expect("go is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answers = said.lines().filter_map(|line| {
        let fields: Vec<_> = line.strip_prefix("TIME ")?.split(' ').collect();
        let verdict = match fields[1] {
            "Ok" => Verdict::Clean,
            "Illegal" => Verdict::Anomalous,
            _ => Verdict::Undecided,
        };
        let micros = fields[2].parse().expect("a number");
        Some((
            fields[0].to_owned(),
            (verdict, Duration::from_micros(micros)),
        ))
    });
    answers.collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[test]
#[ignore = "needs Porcupine's module"]
fn etcd_logs_have_porcupines_answers() {
    let module = module();
    let theirs = porcupine(&module, &module.join("test_data/jepsen/*.log"));
    let mut rows = [Row::default(), Row::default()];
    for number in 0..=102 {
        let name = format!("etcd_{number:03}.log");
        let text = fs::read_to_string(module.join("test_data/jepsen").join(&name)).expect("a log");
        let history = etcd_log(&text);
        if EMPTY.contains(&number) {
            // A cluster of which nothing is known is not a good one.
            let report = check(&history, &settings(Model::Register)).expect("it is of the model");
            assert_eq!(report.verdict(), Verdict::Undecided, "{name}");
            assert_eq!(theirs[&name].0, Verdict::Clean, "{name}");
            continue;
        }
        let (verdict, time) = timed(&history, &settings(Model::Register));
        let expected = LINEARIZABLE.contains(&number);
        assert_eq!(verdict == Verdict::Clean, expected, "{name}: {verdict:?}");
        assert_ne!(verdict, Verdict::Undecided, "{name}");
        let (their_verdict, their_time) = theirs[&name];
        assert_eq!(verdict, their_verdict, "{name}");
        rows[usize::from(expected)].add(name, time, their_time);
    }
    let [not, linearizable] = rows;
    assert_eq!((not.ours.len(), linearizable.ours.len()), (79, 20));
    not.print("not linearizable");
    linearizable.print("linearizable");
}

/// Logs of etcd of one verdict, and how long each took us and Porcupine.
#[derive(Default)]
struct Row {
    names: Vec<String>,
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
}

impl Row {
    fn add(&mut self, name: String, ours: Duration, theirs: Duration) {
        self.names.push(name);
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    fn print(&self, verdict: &str) {
        let sum = |times: &[Duration]| milliseconds(times.iter().sum());
        let most = |times: &[Duration]| times.iter().max().map_or(0.0, |most| milliseconds(*most));
        let both = self.names.iter().zip(self.ours.iter().zip(&self.theirs));
        // Porcupine's times are whole microseconds.
        let slower = both.filter(|(_, (ours, theirs))| ours.as_micros() > theirs.as_micros());
        let slower: Vec<_> = slower
            .map(|(name, (ours, theirs))| format!("{name} {ours:.0?} of {theirs:.0?}"))
            .collect();
        println!(
            "{} {verdict}: {:.2} ms, most {:.2}; Porcupine {:.2} ms, most {:.2}; slower: {}",
            self.ours.len(),
            sum(&self.ours),
            most(&self.ours),
            sum(&self.theirs),
            most(&self.theirs),
            slower.len()
        );
        for log in slower {
            println!("  slower: {log}");
        }
    }
}

#[test]
#[ignore = "needs Porcupine's module"]
fn key_value_logs_have_porcupines_answers() {
    let module = module();
    let theirs = porcupine(&module, &module.join("test_data/kv/*.txt"));
    for name in [
        "c01-bad", "c01-ok", "c10-bad", "c10-ok", "c50-bad", "c50-ok",
    ] {
        let file = format!("{name}.txt");
        let text = fs::read(module.join("test_data/kv").join(&file)).expect("a log");
        let history = history::read(text.as_slice()).expect("EDN");
        let (verdict, time) = timed(&history, &settings(Model::Map));
        let (their_verdict, their_time) = theirs[&file];
        println!(
            "{name}: {verdict:?} {:.2} ms, Porcupine {:.2} ms",
            milliseconds(time),
            milliseconds(their_time)
        );
        assert_eq!(verdict == Verdict::Clean, name.ends_with("ok"), "{name}");
        assert_eq!(verdict, their_verdict, "{name}");
    }
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// One register, and clients that are always busy.
struct Busy {
    clients: u64,
    operations: usize,
    /// How many different values are written; without it none is written twice.
    values: Option<u64>,
    /// Of a hundred writes so many have an unknown outcome.
    unknown_percent: u64,
    /// One read near the end sees what it cannot.
    wrong: bool,
}

/// A call: who, when, until when, when it took effect, and what.
struct Call {
    process: u64,
    start: u64,
    end: u64,
    effect: u64,
    kind: u64,
    pair: (u64, u64),
    unknown: bool,
    answer: String,
}

impl Busy {
    /// As a log that both checkers read.
    fn log(&self, seed: u64) -> String {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut free: Vec<(u64, u64)> = (0..self.clients)
            .map(|client| (random.below(1000), client))
            .collect();
        let mut next_process = self.clients;
        let mut calls = Vec::new();
        for number in 0..self.operations as u64 {
            let client = (0..free.len())
                .min_by_key(|&client| free[client])
                .expect("some");
            let (call, process) = free[client];
            let took = 400 + random.below(400) + random.below(400) + random.below(800);
            let value = |random: &mut Random| match self.values {
                Some(values) => random.below(values),
                None => number + 1,
            };
            let kind = [0, 0, 0, 0, 0, 1, 1, 1, 2, 2][random.below(10) as usize];
            let pair = (value(&mut random), value(&mut random));
            let unknown = kind != 0 && random.below(100) < self.unknown_percent;
            let effect = call + 1 + random.below(took - 1);
            calls.push(Call {
                process,
                start: call,
                end: call + took,
                effect,
                kind,
                pair,
                unknown,
                answer: String::new(),
            });
            if unknown {
                next_process += 1;
            }
            free[client] = (
                call + took + 1 + random.below(50),
                if unknown { next_process } else { process },
            );
        }
        self.answer(&mut calls, &mut random);
        as_log(&calls)
    }

    fn answer(&self, calls: &mut [Call], random: &mut Random) {
        let mut order: Vec<_> = (0..calls.len()).collect();
        order.sort_by_key(|&at| calls[at].effect);
        let mut now: Option<u64> = None;
        let mut before = Vec::new();
        let mut wrong = self.wrong;
        for (number, at) in order.into_iter().enumerate() {
            before.extend(now);
            let call = &mut calls[at];
            if call.unknown && random.below(2) == 0 {
                continue;
            }
            match call.kind {
                0 if wrong && number > self.operations * 3 / 4 => {
                    wrong = false;
                    // What was there long ago, and is not there now.
                    let older = before.iter().rev().skip(before.len() / 4);
                    let older = older.copied().find(|older| Some(*older) != now);
                    call.answer = older.unwrap_or(0).to_string();
                }
                0 => call.answer = now.map_or("nil".to_owned(), |now| now.to_string()),
                1 => now = Some(call.pair.0),
                _ => {
                    // What is compared is mostly what is there.
                    if self.values.is_none() && random.below(4) > 0 {
                        call.pair.0 = now.unwrap_or(0);
                    }
                    if now == Some(call.pair.0) {
                        now = Some(call.pair.1);
                        call.answer.push_str("ok");
                    } else {
                        call.answer.push_str("fail");
                    }
                }
            }
        }
    }
}

fn as_log(calls: &[Call]) -> String {
    let mut lines = Vec::new();
    for call in calls {
        let (f, argument) = match call.kind {
            0 => (":read", "nil".to_owned()),
            1 => (":write", call.pair.0.to_string()),
            _ => (":cas", format!("[{} {}]", call.pair.0, call.pair.1)),
        };
        lines.push((
            call.start,
            format!("{}\t:invoke\t{f}\t{argument}", call.process),
        ));
        if !call.unknown {
            let (kind, value) = match call.kind {
                0 => ("ok", call.answer.clone()),
                1 => ("ok", argument),
                _ => (call.answer.as_str(), argument),
            };
            lines.push((call.end, format!("{}\t:{kind}\t{f}\t{value}", call.process)));
        }
    }
    lines.sort_by_key(|(time, _)| *time);
    lines.iter().fold(String::new(), |mut text, (_, line)| {
        let _ = writeln!(text, "INFO  jepsen.util - {line}");
        text
    })
}

#[test]
#[ignore = "needs Porcupine's module, and minutes"]
fn busy_registers_beside_porcupine() {
    let module = module();
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let mut ours = Vec::new();
    for values in [None, Some(5)] {
        for (clients, operations) in [
            (10, 1_000),
            (10, 10_000),
            (30, 100),
            (30, 1_000),
            (30, 10_000),
            (100, 10_000),
            (30, 100_000),
        ] {
            for (unknown_percent, wrong) in [(0, false), (1, false), (0, true), (1, true)] {
                let busy = Busy {
                    clients,
                    operations,
                    values,
                    unknown_percent,
                    wrong,
                };
                let name = format!(
                    "{}-{clients:03}-{operations:06}-{unknown_percent}-{}.log",
                    if values.is_some() { "five" } else { "unique" },
                    if wrong { "wrong" } else { "right" }
                );
                let log = busy.log(11);
                fs::write(directory.join(&name), &log).expect("a file");
                let (verdict, time) = timed(&etcd_log(&log), &settings(Model::Register));
                // Also where Porcupine gives up.
                assert_ne!(verdict, Verdict::Undecided, "{name}");
                assert!(wrong || verdict != Verdict::Anomalous, "{name} is right");
                println!("{name}: {verdict:?} {:.2} ms", milliseconds(time));
                ours.push((name, verdict, time));
            }
        }
    }
    if std::env::var_os("HISTORY_ALONE").is_none() {
        let theirs = porcupine(&module, &directory.join("*.log"));
        for (name, verdict, time) in ours {
            let (their_verdict, their_time) = theirs[&name];
            println!(
                "{name}: {verdict:?} {:.2} ms, Porcupine {their_verdict:?} {:.2} ms",
                milliseconds(time),
                milliseconds(their_time)
            );
            assert!(
                their_verdict == Verdict::Undecided || their_verdict == verdict,
                "{name}"
            );
        }
    }
}
