//! The form of Jepsen's `history.edn`.

use super::{ReadError, beginning, collect, edn, jsonl};
use crate::{Event, History, Kind, Process, Value};

/// What may be answered `false`, because it was refused. Jepsen says that it failed then.
const REFUSED: [&str; 5] = ["cas", "acquire", "lock", "release", "unlock"];

/// The words of parts of a transaction, which are keywords in EDN.
const PARTS: [&str; 5] = ["r", "w", "append", "read", "write"];

pub(super) fn read(text: &str) -> Result<History, ReadError> {
    let forms = edn::read(text)?;
    collect(forms.into_iter().map(|form| {
        let wrong = |problem| ReadError::Wrong {
            line: form.line,
            problem,
        };
        let Value::Map(mut fields) = form.value else {
            let value = beginning(&form.value.to_string());
            return Err(wrong(format!("{value} is no map")));
        };
        let raw = jsonl::event(&mut fields).map_err(wrong)?;
        Ok((form.line, raw))
    }))
}

pub(super) fn line(event: &Event) -> String {
    let mut line = format!(
        "{{:index {}, :time {}, :type :{}, :process {}, :f {}",
        event.index,
        event.time_ns,
        kind(event).word(),
        match event.process {
            Process::Client(number) => number.to_string(),
            Process::Nemesis => ":nemesis".to_owned(),
        },
        keyword(&event.f),
    );
    if let Some(key) = &event.key {
        line += &format!(", :key {}", edn::write(key));
    }
    line += &format!(", :value {}", written(event));
    if let Some(error) = &event.error {
        line += &format!(", :error {}", edn::write(error));
    }
    line + "}"
}

fn kind(event: &Event) -> Kind {
    match event.kind {
        Kind::Ok if event.value == Value::Bool(false) && REFUSED.contains(&event.f.as_str()) => {
            Kind::Fail
        }
        kind => kind,
    }
}

/// Text that no keyword can be is a string.
fn keyword(word: &str) -> String {
    if edn::is_keyword(word) {
        format!(":{word}")
    } else {
        edn::write(&Value::from(word))
    }
}

/// A value; of a transaction with keywords for what its parts do.
fn written(event: &Event) -> String {
    let value = &event.value;
    let part = |part: &Value| {
        let (word, key, value) = match part.as_list()? {
            [Value::Text(word), key, value] => (word, key, value),
            [Value::Text(word), key] if event.f == "txn" => (word, key, &Value::Null),
            _ => return None,
        };
        let is_known = PARTS.contains(&word.as_str());
        let (key, value) = (edn::write(key), edn::write(value));
        is_known.then(|| format!("[{} {key} {value}]", keyword(word)))
    };
    let parts = value.as_list().filter(|parts| !parts.is_empty());
    match parts.and_then(|parts| parts.iter().map(part).collect::<Option<Vec<_>>>()) {
        Some(parts) => format!("[{}]", parts.join(" ")),
        None => edn::write(value),
    }
}
