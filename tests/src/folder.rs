//! A folder with files, in which the program runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::{crashpoint, printed, require_root, said, search_path};

/// The folder for temporary files.
const TEMPORARY: &str = "tmp";

/// A folder with files of a test, and one for temporary files in it.
pub struct Folder(TempDir);

impl Folder {
    /// Writes these files, by their names. For root only.
    ///
    /// # Panics
    /// If they cannot be written, or this is not root.
    pub fn new(files: &[(&str, &str)]) -> Self {
        require_root();
        let folder = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(folder.path(TEMPORARY)).expect("made");
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    /// Where a file is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// What is in a file.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn read(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs `crashpoint` in it, with our programs on its `PATH`.
    ///
    /// # Panics
    /// If it does not run.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = crashpoint();
        command.args(arguments).current_dir(self.0.path());
        command.env("TMPDIR", self.path(TEMPORARY));
        command.env("PATH", search_path());
        command.output().expect("it runs")
    }

    /// Runs `crashpoint` in it, which must end with this status.
    ///
    /// # Panics
    /// If it ends with another.
    #[track_caller]
    pub fn ends(&self, status: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {}{}",
            printed(&output),
            said(&output)
        );
        output
    }

    /// What the programs that ran in it have left of temporary files.
    ///
    /// # Panics
    /// If that cannot be read.
    pub fn left(&self) -> Vec<PathBuf> {
        let left = fs::read_dir(self.path(TEMPORARY)).expect("read");
        left.flatten().map(|left| left.path()).collect()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.0.path()
    }
}
