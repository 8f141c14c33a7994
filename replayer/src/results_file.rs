//! Results on disk: one JSON object a line, each whole or not at all.

use std::fs::File;
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
    /// Directories that were made for it, the deepest first.
    made: Vec<PathBuf>,
    file: File,
    length: u64,
}

impl Results {
    /// Makes the directory, with what the run is, and the file for results. Results that are
    /// there already are never overwritten.
    pub(crate) fn create(directory: &Path, manifest: &Value) -> anyhow::Result<Self> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made: Vec<PathBuf> = directory.ancestors().take_while(missing).map(Path::to_owned).collect();
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        if [RESULTS, SUMMARY].iter().any(|name| directory.join(name).exists()) {
            bail!("{} holds results already: choose another directory for --out", directory.display());
        }
        // Whoever makes the manifest has the directory.
        let path = directory.join(MANIFEST);
        let mut manifest_file = match File::create_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{} holds results already: choose another directory for --out", directory.display())
            }
            Err(error) => {
                remove_directories(&made);
                return Err(cannot("create", &path, &error));
            }
        };
        let written = manifest_file.write_all(format!("{manifest:#}\n").as_bytes());
        let results = directory.join(RESULTS);
        let created = written
            .map_err(|error| cannot("write", &path, &error))
            .and_then(|()| File::create_new(&results).map_err(|error| cannot("create", &results, &error)));
        match created {
            Ok(file) => Ok(Self { directory: directory.into(), made, file, length: 0 }),
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                remove_directories(&made);
                Err(error)
            }
        }
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

    /// Takes everything back if there is no result in it.
    pub(crate) fn remove_if_empty(self) {
        if self.length == 0 {
            for name in [MANIFEST, RESULTS] {
                let _ = std::fs::remove_file(self.directory.join(name));
            }
            remove_directories(&self.made);
        }
    }
}

/// Removes directories, the deepest first, as far as they are empty.
fn remove_directories(made: &[PathBuf]) {
    for directory in made {
        let _ = std::fs::remove_dir(directory);
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

/// The error, with what to do where that is known.
fn cannot(what: &str, path: &Path, error: &io::Error) -> anyhow::Error {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let advice = if full { " (free some space, or choose another directory for --out)" } else { "" };
    anyhow::anyhow!("{what} {}: {error}{advice}", path.display())
}
