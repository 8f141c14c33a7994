//! The directory of a sweep's results.

use std::path::Path;

use campaign::{Directory, MANIFEST, Record, Records, SUMMARY, TABLE, check_version, write_whole};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::results::{FORMAT, KIND, LiveManifest, LiveResult};
use crate::sweep::Summary;
use crate::text::table;

/// Results that grow while a sweep goes on.
pub struct LiveDirectory {
    directory: Directory,
    records: Records,
    /// What the sweep is.
    pub manifest: LiveManifest,
    /// What was known when it was opened.
    pub known: Vec<LiveResult>,
}

impl LiveDirectory {
    /// Begins one.
    ///
    /// # Errors
    /// If there is something in it, or it cannot be written.
    pub fn create(path: &Path, manifest: LiveManifest) -> Result<Self> {
        let directory = Directory::create(path, &[])?;
        let text = serde_json::to_string_pretty(&manifest).expect("it has only text and numbers");
        write_whole(&directory.join(MANIFEST), &text)?;
        Self::opened(directory, manifest)
    }

    /// Opens one, to go on with it.
    ///
    /// # Errors
    /// If it is no such directory, or damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let manifest = manifest(path)?.ok_or_else(|| Error::NotLive(path.into()))?;
        Self::opened(Directory::open(path, &[])?, manifest)
    }

    fn opened(directory: Directory, manifest: LiveManifest) -> Result<Self> {
        let mut known = Vec::new();
        let records = Records::open(&directory, |record: Record<LiveResult, Value>| {
            if let Record::Result(result) = record {
                known.push(result);
            }
            Ok::<_, campaign::Error>(())
        })?;
        Ok(Self {
            directory,
            records,
            manifest,
            known,
        })
    }

    /// Keeps a result: it survives a kill from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, result: &LiveResult) -> Result<()> {
        let line = serde_json::to_string(result).expect("it has only text and numbers");
        Ok(self.records.append(&line)?)
    }

    /// Writes what the sweep came to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.records.sync()?;
        write_whole(&self.directory.join(TABLE), &table(summary, &self.manifest))?;
        let line = json!({
            "all": summary.all,
            "wanted": summary.wanted,
            "tried": summary.results.len(),
            "broken": summary.broken(),
            "inconclusive": summary.inconclusive(),
            "is_cut_off": summary.is_cut_off,
        });
        Ok(write_whole(
            &self.directory.join(SUMMARY),
            &format!("{line}\n"),
        )?)
    }
}

/// The manifest of a directory, if it is one of a live sweep.
///
/// # Errors
/// If it is, and of another version.
pub fn manifest(path: &Path) -> Result<Option<LiveManifest>> {
    let file = path.join(MANIFEST);
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Ok(None);
    };
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return Ok(None);
    };
    if value["kind"] != KIND {
        return Ok(None);
    }
    check_version(&file, &value, FORMAT)?;
    let manifest = serde_json::from_value(value);
    manifest.map(Some).map_err(|error| Error::System {
        doing: format!("read {}", file.display()),
        error: error.into(),
    })
}

/// The results in a directory, whether its sweep has ended or not.
///
/// # Errors
/// If they cannot be read.
pub fn results(path: &Path) -> Result<Vec<LiveResult>> {
    let mut results: Vec<LiveResult> = Vec::new();
    let file = path.join(campaign::RESULTS);
    campaign::read_lines(&file, |_, line| {
        results.push(line);
        Ok::<_, campaign::Error>(())
    })?;
    results.sort_by_key(|result| result.index);
    Ok(results)
}
