//! Histories in files: what is read is what was written, and each wrong file has its own answer.

use history::{
    At, Event, Format, History, Kind, Lines, Malformed, Operation, Outcome, Process, Value, read,
    write,
};
use proptest::prelude::*;

fn refused(text: &str) -> String {
    read(text.as_bytes()).expect_err("it is wrong").to_string()
}

const CALL: &str = r#"{"type":"invoke","process":0,"f":"read","key":"k"}"#;
const OK: &str = r#"{"type":"ok","process":0,"f":"read","key":"k","value":1}"#;
const INFO: &str = r#"{"type":"info","process":0,"f":"read","error":"timeout"}"#;
const TORN: &str = r#"{"type":"invoke","process":0,"f":"re"#;

/// In each of these texts the capitals mean the lines above.
fn each_is_refused(cases: &[(&str, &str)]) {
    for (text, answer) in cases {
        let text = text
            .replace("CALL", CALL)
            .replace("OK", OK)
            .replace("INFO", INFO)
            .replace("TORN", TORN);
        let said = refused(&text);
        assert!(
            said.contains(answer),
            "{text}\nsays: {said}\nnot:  {answer}"
        );
        assert!(!said.contains('\n'), "{said}");
    }
}

#[test]
fn each_wrong_file_has_its_own_answer() {
    each_is_refused(&[
        ("", "there are no events in it"),
        (
            "{\"type\":\"history\",\"version\":1}\n",
            "there are no events in it",
        ),
        (
            "\n\u{7f}ELF",
            "line 2: it is no history: expected JSON lines",
        ),
        ("\u{7f}ELF", "but it begins with '\u{fffd}ELF'"),
        (
            "2026-11-24 started\n",
            "but it begins with '2026-11-24 started'",
        ),
        ("[CALL,\nOK]", "line 1: a JSON array"),
        ("\n[\n  CALL,\n  OK\n]\n", "line 2: a JSON array"),
        (
            "{\n  \"type\": \"invoke\"\n}\n",
            "line 1: a JSON object of several lines",
        ),
        ("CALL\nTORN", "line 2 is torn"),
        ("CALL\nTORN\nOK\n", "line 2: the line ends within the event"),
        (
            "CALL\n{\"type\":\"ok\" \"process\":0}\n",
            "line 2: it is no JSON: expected `,` or `}` at column 14",
        ),
        // Columns are characters.
        (
            "{\"f\":\"éé\" \"process\":0}\n",
            "line 1: it is no JSON: expected `,` or `}` at column 11",
        ),
        (
            "{\"type\":\"history\",\"version\":2}\n",
            "line 1: a history of a newer version than 1",
        ),
        ("{\"process\":0}\n", "line 1: it has no type"),
        (
            "{\"type\":\"be\\ngin\"}\n",
            "type is \"be\\ngin\", not one of",
        ),
        (
            "{\"type\":\"begin\"}\n",
            "type is begin, not one of invoke, ok, fail, info",
        ),
        (
            "{\"type\":\"ok\",\"f\":\"x\"}\n",
            "line 1: it has no process",
        ),
        (
            "{\"type\":\"ok\",\"process\":\"c1\",\"f\":\"x\"}\n",
            "line 1: process is c1, not a number or \"nemesis\"",
        ),
        ("{\"type\":\"ok\",\"process\":1}\n", "line 1: it has no f"),
        (
            "{\"type\":\"invoke\",\"process\":1,\"f\":\"\\\"7\",\"value\":[-99999999999999999999]}\n",
            "line 1: the number -99999999999999999999 is too large",
        ),
    ]);
    let bytes = [CALL.as_bytes(), b"\n\xff\n"].concat();
    let said = read(bytes.as_slice()).expect_err("it is wrong").to_string();
    assert_eq!(said, "line 2: it is not text in UTF-8 at column 1");
    // A character that is torn.
    let bytes = [CALL.as_bytes(), b"\n{\"f\":\"\xc3"].concat();
    let said = read(bytes.as_slice()).expect_err("it is torn").to_string();
    assert!(said.starts_with("line 2 is torn"), "{said}");
}

#[test]
fn wrong_edn_has_its_own_answers() {
    each_is_refused(&[
        // Where the event begins: that is what can be deleted.
        ("{:type :invoke, :process 0, :f :read\n", "line 1 is torn"),
        (
            "{:type :info, :process :nemesis, :f :a}\n{:type :invoke\n :f \"re\n",
            "line 2 is torn",
        ),
        (
            "{:type :ok :process}\n",
            "line 1: a map has a key without a value at column 1",
        ),
        (
            "{:type :invoke, :process 0, :f :read}\n}",
            "line 2: '}' where a value is expected at column 1",
        ),
        (
            "{:type :invoke, :process 0,\n :f \"\\q\"}\n",
            "line 2: \\q means nothing in a string at column 6",
        ),
        (
            "{:type :invoke, :process 0, :f :read}\n7\n",
            "line 2: 7 is no map",
        ),
        (
            "{:value 7x}\n",
            "line 1: the number 7x is not understood at column 9",
        ),
        // Each event of a vector has its own line.
        (
            "[{:type :invoke, :process 0, :f :read}\n {:type :invoke, :process 0, :f :read}]\n",
            "line 2: process 0 calls read, but its read (line 1) has not been answered",
        ),
        (
            "#history [\n{:type :invoke, :process 0, :f :read}\n #op {:type :ok, :process 0}]\n",
            "line 3: it has no f",
        ),
        (
            "[{:type :invoke, :process 0, :f :read}\n {:type :ok",
            "line 2 is torn",
        ),
        (
            "\n [{:type :invoke, :process 0, :f :read}\n",
            "line 2: the events that begin here have no ']' at their end at column 2",
        ),
        ("#history\n", "line 1 is torn"),
    ]);
    let deep = format!("{{:value {}", "[".repeat(200_000));
    assert!(refused(&deep).contains("nested more than 64 deep"));
    let ignored = format!("{{:value {}", "#_".repeat(200_000));
    assert!(refused(&ignored).contains("nested more than 64 deep"));
}

#[test]
fn each_event_that_cannot_follow_has_its_own_answer() {
    each_is_refused(&[
        (
            "CALL\n\nCALL\n",
            "line 3: process 0 calls read, but its read (line 1) has not been answered",
        ),
        (
            "OK\n",
            "line 1: process 0 is answered ok to read, but it has called nothing",
        ),
        (
            "{\"type\":\"ok\",\"process\":0,\"f\":\"re\\nad\"}\n",
            "line 1: process 0 is answered ok to \"re\\nad\", but it has called nothing",
        ),
        (
            "CALL\nINFO\nCALL\n",
            "line 3: process 0 calls read after the outcome of its read (line 1) was unknown",
        ),
        (
            "CALL\n{\"type\":\"ok\",\"process\":0,\"f\":\"read\",\"key\":\"l\"}\n",
            "line 2: process 0 is answered to read of key l, but it has called read of key k (line 1)",
        ),
        (
            "{\"time\":7,\"type\":\"invoke\",\"process\":0,\"f\":\"x\"}\n{\"time\":5,\"type\":\"ok\",\"process\":0,\"f\":\"x\"}\n",
            "line 2: its time, 5 ns, is before that of the event before it, 7 ns",
        ),
        (
            "{\"index\":7,\"type\":\"invoke\",\"process\":0,\"f\":\"x\"}\n{\"index\":7,\"type\":\"ok\",\"process\":0,\"f\":\"x\"}\n",
            "line 2: its index, 7, is not above",
        ),
        (
            "{\"type\":\"ok\",\"process\":\"nemesis\",\"f\":\"kill\"}\n",
            "line 1: an event of the nemesis is info, not ok",
        ),
    ]);
}

#[test]
fn edn_of_jepsen_is_read() {
    let text = r#"; a comment
#jepsen.history.Op{:index 0, :time 1, :type :invoke, :process 0, :f :txn, :value [[:append :x 1] [:r "y" nil]]}
{:type :info :process :nemesis :f :start-partition :value {"n1" #{"n2" \a} :n2 [1.5 -3N]} :time 2}
{:type :ok, :process 0, :f :txn,
 :value [[:append :x 1] [:r "y" [1 2]]] #_ignored :time 3, :error nil}
"#;
    let history = read(text.as_bytes()).expect("it is Jepsen's");
    assert_eq!(history.operations().len(), 1);
    let operation = &history.operations()[0];
    assert_eq!(operation.outcome, Outcome::Ok);
    assert_eq!((operation.call_ns, operation.return_ns), (1, Some(3)));
    assert_eq!(
        operation.result.to_string(),
        r#"[["append","x",1],["r","y",[1,2]]]"#
    );
    let mark = history.marks().next().expect("one");
    assert_eq!(mark.f, "start-partition");
    assert_eq!(mark.value.to_string(), r#"{"n1":["n2","a"],"n2":[1.5,-3]}"#);
    let mut written = Vec::new();
    write(&history, Format::Jepsen, &mut written).expect("memory");
    let written = String::from_utf8(written).expect("text");
    assert!(
        written.contains(
            r#":type :ok, :process 0, :f :txn, :value [[:append "x" 1] [:r "y" [1 2]]]}"#
        ),
        "{written}"
    );
    assert!(
        written.contains(":process :nemesis, :f :start-partition"),
        "{written}"
    );
    // One vector of everything is the same.
    let again = read(format!("[{written}]").as_bytes()).expect("a vector");
    assert_eq!(again.events(), history.events());
}

#[test]
fn what_is_left_alone_may_be_any_number() {
    let more = r#","value":1e300,"trace":99999999999999999999}"#;
    assert!(read(format!("{}\n", CALL.replace('}', more)).as_bytes()).is_err());
    let more = r#","trace":99999999999999999999}"#;
    read(CALL.replace('}', more).as_bytes()).expect("it is not looked at");
}

#[test]
fn what_was_refused_failed_for_jepsen() {
    let text = r#"{"process":0,"type":"invoke","f":"cas","value":[1,2]}
{"process":0,"type":"ok","f":"cas","value":false}
{"process":0,"type":"invoke","f":"txn","value":[["r","x"]]}
"#;
    let mut written = Vec::new();
    let history = read(text.as_bytes()).expect("a history");
    write(&history, Format::Jepsen, &mut written).expect("memory");
    let written = String::from_utf8(written).expect("text");
    assert!(written.contains(":type :fail, :process 0, :f :cas, :value false"));
    assert!(written.contains(r#"[[:r "x" nil]]"#), "{written}");
}

#[test]
fn a_text_that_looks_like_a_key_of_json_makes_no_array_of_it() {
    let call = r#"{:type :invoke, :process 0, :f :write, :value "{\"k\":1}"}"#;
    let text = format!("[\n {call}\n]\n");
    let history = read(text.as_bytes()).expect("it is Jepsen's");
    assert_eq!(history.operations().len(), 1);
}

#[test]
fn operations_are_calls_with_their_answers() {
    let event = |process, kind, f: &str, value: i64| Event {
        index: 0,
        time_ns: 0,
        process: Process::Client(process),
        kind,
        f: f.to_owned(),
        key: None,
        value: value.into(),
        error: None,
    };
    let mut lines = Lines::default();
    for (at, event) in [
        event(0, Kind::Invoke, "write", 1),
        event(1, Kind::Invoke, "read", 0),
        event(0, Kind::Info, "write", 1),
        event(1, Kind::Ok, "read", 7),
        event(2, Kind::Invoke, "write", 3),
        event(2, Kind::Fail, "write", 3),
        event(1, Kind::Invoke, "write", 4),
    ]
    .into_iter()
    .enumerate()
    {
        lines
            .put(Event {
                time_ns: at as u64 * 10,
                ..event
            })
            .expect("it follows");
    }
    assert!(lines.is_ended(0) && !lines.is_ended(1) && !lines.is_ended(2));
    assert_eq!(lines.fresh_process(), 3);
    let wrong = lines
        .put(event(0, Kind::Invoke, "read", 0))
        .expect_err("it ended unknown");
    assert!(matches!(
        wrong,
        Malformed::GoesOn {
            process: 0,
            since: At::Event(0),
            ..
        }
    ));
    lines.mark("heal", Value::Null, 5);
    let history = lines.finish();
    let seen: Vec<_> = history
        .operations()
        .iter()
        .map(|operation| {
            let Operation {
                process,
                outcome,
                call,
                call_ns,
                return_ns,
                ..
            } = operation;
            (
                *process,
                *outcome,
                *call,
                operation.returned(),
                *call_ns,
                *return_ns,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (0, Outcome::Unknown, 0, None, 0, Some(20)),
            (1, Outcome::Ok, 1, Some(3), 10, Some(30)),
            (2, Outcome::Fail, 4, Some(5), 40, Some(50)),
            (1, Outcome::Unknown, 6, None, 60, None),
        ]
    );
    assert_eq!(history.operations()[1].result, Value::Int(7));
    let mark = history.marks().next().expect("one");
    assert_eq!((mark.index, mark.time_ns), (7, 60), "times grow");
}

#[test]
fn lines_of_clients_are_stamped_and_wrong_ones_are_refused() {
    let mut lines = Lines::default();
    let take = |lines: &mut Lines, line: &str, now| {
        lines
            .take(line, now)
            .map(|event| event.map(|event| event.time_ns))
            .map_err(|error| error.to_string())
    };
    let call = r#"{"type":"invoke","process":0,"f":"read"}"#;
    assert_eq!(take(&mut lines, call, 5), Ok(Some(5)));
    assert_eq!(take(&mut lines, "", 6), Ok(None));
    let again = take(&mut lines, call, 6).expect_err("it is open");
    assert!(
        again.contains("has not been answered") && again.ends_with(call),
        "{again}"
    );
    let noise = take(&mut lines, "connecting…", 6).expect_err("no event");
    assert!(
        noise.starts_with("it is no JSON: expected value at column 1: connecting"),
        "{noise}"
    );
    let ok = r#"{"type":"ok","process":0,"f":"read","value":1,"time":3}"#;
    assert_eq!(
        take(&mut lines, ok, 9),
        Ok(Some(5)),
        "time does not go back"
    );
    assert_eq!(lines.history().operations().len(), 1);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e9..1e9).prop_map(|number| Value::Float(history::Float(number))),
        "[a-z\"\\\\\n é:]{0,6}".prop_map(Value::Text),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map("[a-z:\" ]{0,3}", inner, 0..3).prop_map(Value::Map),
        ]
    })
}

/// Any events; those that cannot follow are left out.
fn any_history() -> impl Strategy<Value = History> {
    let kind = prop::sample::select(vec![
        Kind::Invoke,
        Kind::Invoke,
        Kind::Ok,
        Kind::Fail,
        Kind::Info,
    ]);
    let event = (
        0..4u64,
        kind,
        prop::option::of(value()),
        value(),
        0..3u64,
        "[a-z]{1,2}| \"é",
    );
    prop::collection::vec(event, 1..40).prop_map(|events| {
        let mut history = History::default();
        let (mut time_ns, mut open) = (0, std::collections::HashMap::new());
        for (process, kind, key, value, step, f) in events {
            time_ns += step;
            let event = Event {
                index: history.next_index() + step,
                time_ns,
                process: if process == 3 {
                    Process::Nemesis
                } else {
                    Process::Client(process)
                },
                kind: if process == 3 { Kind::Info } else { kind },
                f: match kind {
                    Kind::Invoke => f,
                    _ => open.get(&process).cloned().unwrap_or(f),
                },
                key: key.filter(|key| kind == Kind::Invoke && !key.is_null()),
                error: (kind == Kind::Info && !value.is_null()).then(|| value.clone()),
                value,
            };
            let f = event.f.clone();
            if history.push(event).is_ok() && kind == Kind::Invoke {
                open.insert(process, f);
            }
        }
        history
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(history in any_history()) {
        prop_assume!(!history.events().is_empty());
        for format in [Format::JsonLines, Format::Jepsen] {
            let mut bytes = Vec::new();
            write(&history, format, &mut bytes).expect("memory");
            let again = read(bytes.as_slice()).map_err(|error| {
                TestCaseError::fail(format!("{error}:\n{}", String::from_utf8_lossy(&bytes)))
            })?;
            prop_assert_eq!(again.events(), history.events());
            prop_assert_eq!(again.operations(), history.operations());
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\{[:\"])?[\\{\\}\\[\\]()\"#:;\\\\a-z0-9 \n_.é-]{0,80}") {
        let _ = read(text.as_bytes());
    }
}
