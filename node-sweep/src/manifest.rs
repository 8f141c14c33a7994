//! What a sweep of crash states is: written beside its results, and compared before anything is
//! added to them.

use std::fs;
use std::path::Path;

use campaign::{MANIFEST, Shard, VERSION, check_version, command_line};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::request::{Judge, Request};

/// The version of the directory. A change that older versions of this program would misread makes
/// another one, and so does another order of the states.
const FORMAT: u32 = 15;

/// What a sweep of the crash states of nodes is. docs/json.md has its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(rename = "type")]
    kind: Kind,
    format: u32,
    version: String,
    /// What was swept: the command of the program, or the name of the cluster.
    pub name: String,
    /// What the disks may hold, in words.
    pub model: String,
    /// Everything that decides what is visited and how it is judged.
    pub request: Request,
    /// The part of the states that is looked at, such as `2/4`, if not all.
    pub shard: Option<String>,
    /// The BLAKE3 hash of the trace.
    pub trace: String,
    /// How many states are looked at side by side.
    pub jobs: usize,
    /// How it was started.
    pub command_line: Vec<String>,
    /// Where it was started: paths in the words of a check lead from there.
    pub working_directory: String,
    /// The kernel's release.
    pub kernel_release: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "states-manifest")]
    States,
}

impl Manifest {
    /// Of a sweep that is about to begin.
    pub fn new(
        name: String,
        model: String,
        request: Request,
        shard: Option<Shard>,
        jobs: usize,
    ) -> Self {
        Self {
            kind: Kind::States,
            format: FORMAT,
            version: VERSION.to_owned(),
            name,
            model,
            request,
            shard: shard.map(|shard| shard.to_string()),
            trace: String::new(),
            jobs,
            command_line: command_line(),
            working_directory: std::env::current_dir()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            kernel_release: kernel_release(),
        }
    }

    /// Which part it is, if it is one.
    ///
    /// # Errors
    /// If the manifest was changed.
    pub fn shard(&self) -> campaign::Result<Option<Shard>> {
        Shard::of_manifest(self.shard.as_deref())
    }

    /// The explore rule, in words.
    pub fn explore(&self) -> String {
        self.request
            .explore
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// How states are judged, in words.
    pub fn check(&self) -> &str {
        match &self.request.judge {
            Judge::Program { check, .. } => check.words(),
            Judge::Cluster => "the [check] of the cluster file",
        }
    }

    /// Reads that of a directory; none if it is one of another kind of sweep, or there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is of another version.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(MANIFEST);
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(None);
        };
        let read: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        if read["type"] != "states-manifest" {
            return Ok(None);
        }
        check_version(&path, &read, FORMAT.into())?;
        let manifest = serde_json::from_value(read);
        Ok(Some(
            manifest.map_err(|why| Error::NoManifest { path, why })?,
        ))
    }

    /// The same sweep, whole.
    pub(crate) fn whole(&self) -> Self {
        Self {
            shard: None,
            command_line: command_line(),
            ..self.clone()
        }
    }

    /// Why it cannot go on here, in words: what disks hold after a crash is what the file systems of its
    /// kernel made of them.
    pub fn other_kernel(&self) -> Option<String> {
        let here = Self {
            kernel_release: kernel_release(),
            ..self.clone()
        };
        let mut levels = self.request.level.each().iter();
        let is_of_disks = levels.any(|level| level.is_of_disks());
        self.difference(&here).filter(|_| is_of_disks)
    }

    /// Where it differs from another one so that they are not parts of one sweep, in words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.trace != other.trace {
            return Some(
                "each has a trace of its own: record once, and sweep that trace in parts".into(),
            );
        }
        if self.request != other.request {
            return Some("they were begun with other options".into());
        }
        let (own, others) = (&self.kernel_release, &other.kernel_release);
        (own != others).then(|| format!("the kernel was {own} in one and {others} in the other"))
    }
}

/// The release of this kernel.
fn kernel_release() -> String {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    kernel.trim().to_owned()
}
