//! What the directories of both kinds of campaign are: a manifest, results line by line, and in the
//! end a table and a summary.

use std::path::Path;

use campaign::{Directory, MANIFEST, Record, Records, SUMMARY, TABLE, check_version, write_whole};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Result};

/// A value as a line of a file.
pub(crate) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has only text and numbers")
}

/// Makes a directory with a manifest; it may have these files besides.
pub(crate) fn begin(
    path: &Path,
    kept: &'static [&'static str],
    manifest: &impl Serialize,
) -> Result<Directory> {
    let directory = Directory::create(path, kept)?;
    let text = serde_json::to_string_pretty(manifest).expect("it has only text and numbers");
    write_whole(&directory.join(MANIFEST), &text)?;
    Ok(directory)
}

/// What results are appended to, and those that are known already.
pub(crate) fn open_results<T: DeserializeOwned>(
    directory: &Directory,
) -> Result<(Records, Vec<T>)> {
    let mut known = Vec::new();
    let records = Records::open(directory, |record: Record<T, Value>| {
        if let Record::Result(result) = record {
            known.push(result);
        }
        Ok::<_, campaign::Error>(())
    })?;
    Ok((records, known))
}

/// Writes what it came to.
pub(crate) fn conclude(directory: &Directory, table: &str, summary: &Value) -> Result<()> {
    write_whole(&directory.join(TABLE), table)?;
    Ok(write_whole(
        &directory.join(SUMMARY),
        &format!("{summary}\n"),
    )?)
}

/// The manifest of a directory, if it is of this kind.
///
/// # Errors
/// If it is, and of another version.
pub(crate) fn read_manifest<T: DeserializeOwned>(
    path: &Path,
    kind: &str,
    format: u64,
) -> Result<Option<T>> {
    let file = path.join(MANIFEST);
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Ok(None);
    };
    let value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if value["kind"] != kind {
        return Ok(None);
    }
    check_version(&file, &value, format)?;
    let manifest = serde_json::from_value(value);
    manifest.map(Some).map_err(|error| Error::System {
        doing: format!("read {}", file.display()),
        error: error.into(),
    })
}

/// All lines of a file.
pub(crate) fn read_lines<T: DeserializeOwned>(file: &Path) -> Result<Vec<T>> {
    let mut lines = Vec::new();
    campaign::read_lines(file, |_, line| {
        lines.push(line);
        Ok::<_, campaign::Error>(())
    })?;
    Ok(lines)
}

/// The summary in a directory, if what it is of has ended or was stopped.
pub(crate) fn read_summary(path: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path.join(SUMMARY)).ok()?;
    serde_json::from_str(text.lines().next()?).ok()
}

/// Whether what a directory is of has come to its end.
pub(crate) fn is_finished(path: &Path) -> bool {
    read_summary(path).is_some_and(|summary| summary["is_cut_off"] == false)
}
