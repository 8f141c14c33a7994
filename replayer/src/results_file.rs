//! Results on disk: one JSON object a line, each whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

/// The name of the file in the results directory.
const FILE_NAME: &str = "results.jsonl";

/// A file that results are appended to and flushed one by one.
#[derive(Debug)]
pub(crate) struct ResultsFile {
    file: File,
    path: PathBuf,
    length: u64,
}

impl ResultsFile {
    /// Makes the directory, and the file in it. Results that are there already are never overwritten.
    pub(crate) fn create(directory: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        let path = directory.join(FILE_NAME);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => Ok(Self { file, path, length: 0 }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} holds results already: choose another directory for --out", directory.display())
            }
            Err(error) => Err(error).with_context(|| format!("create {}", path.display())),
        }
    }

    /// Appends one line. If it cannot be written whole, what was written of it is taken back.
    pub(crate) fn append(&mut self, value: &Value) -> anyhow::Result<()> {
        let line = format!("{value}\n");
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::Start(self.length));
            return Err(error).with_context(|| format!("write {}", self.path.display()));
        }
        self.length += line.len() as u64;
        Ok(())
    }
}
