//! Results on disk: one JSON object a line, each whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

const MANIFEST: &str = "manifest.json";
const RESULTS: &str = "results.jsonl";
const SUMMARY: &str = "summary.txt";

/// A directory with a file that results are appended to and flushed one by one.
#[derive(Debug)]
pub(crate) struct Results {
    directory: PathBuf,
    directory_is_ours: bool,
    file: File,
    length: u64,
}

impl Results {
    /// Makes the directory, with what the run is, and the file for results. Results that are
    /// there already are never overwritten.
    pub(crate) fn create(directory: &Path, manifest: &Value) -> anyhow::Result<Self> {
        let directory_is_ours = !directory.exists();
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        for name in [MANIFEST, RESULTS] {
            if directory.join(name).exists() {
                bail!("{} holds results already: choose another directory for --out", directory.display());
            }
        }
        let made = Self::create_files(directory, manifest);
        if made.is_err() {
            remove_files(directory, directory_is_ours);
        }
        Ok(Self { directory: directory.into(), directory_is_ours, file: made?, length: 0 })
    }

    fn create_files(directory: &Path, manifest: &Value) -> anyhow::Result<File> {
        write_new(&directory.join(MANIFEST), &format!("{manifest:#}\n"))?;
        let path = directory.join(RESULTS);
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(|error| cannot("create", &path, &error))
    }

    /// Appends one line. If it cannot be written whole, what was written of it is taken back.
    pub(crate) fn append(&mut self, value: &Value) -> anyhow::Result<()> {
        let line = format!("{value}\n");
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(cannot("write", &self.directory.join(RESULTS), &error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Writes the table beside the results.
    pub(crate) fn finish(&mut self, table: &str) -> anyhow::Result<()> {
        write_new(&self.directory.join(SUMMARY), table)
    }

    /// Takes the directory back if there is no result in it.
    pub(crate) fn remove_if_empty(self) {
        if self.length == 0 {
            remove_files(&self.directory, self.directory_is_ours);
        }
    }
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        if error.kind() != io::ErrorKind::AlreadyExists {
            let _ = std::fs::remove_file(path);
        }
        cannot("write", path, &error)
    })
}

fn remove_files(directory: &Path, directory_is_ours: bool) {
    for name in [MANIFEST, RESULTS] {
        let _ = std::fs::remove_file(directory.join(name));
    }
    if directory_is_ours {
        let _ = std::fs::remove_dir(directory);
    }
}

/// The error, with what to do where that is known.
fn cannot(what: &str, path: &Path, error: &io::Error) -> anyhow::Error {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let advice = if full { " (free some space, or choose another directory for --out)" } else { "" };
    anyhow::anyhow!("{what} {}: {error}{advice}", path.display())
}
