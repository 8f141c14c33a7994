//! What a sweep is: written beside its results, and compared before anything is added to them.

use std::collections::BTreeMap;
use std::path::Path;

use campaign::{Shard, VERSION, check_version, command_line};
use local_fs::Variant;
use machine::Machine;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use specification::Specification;

use crate::args::FileSystemArgs;
use crate::error::{Context as _, Error, Result};

/// The version of the directory of results. A change that older versions of this program would
/// misread makes another one.
const FORMAT: u64 = 2;

/// The same of a sweep with crashes in recoveries. Who does not know these takes them for crashes of
/// the run.
const FORMAT_AGAIN: u64 = 3;

/// Fields that do not decide what is tested.
const INFORMATION: [&str; 3] = ["workloads", "jobs", "command_line"];

/// The field in which the shards of a sweep differ.
const SHARD: &str = "shard";

/// Everything that decides what a sweep tests, and some information. docs/json.md has its fields.
///
/// Sweeps whose manifests differ in any field that is not in [`INFORMATION`] are not the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(rename = "type")]
    kind: Kind,
    format: u64,
    version: String,
    /// The kernel under test: what `uname -r` says there.
    pub kernel_release: String,
    /// And `uname -v`, or the hash of a guest's, which tell two builds of one release apart.
    pub kernel_version: String,
    /// The flags that decide what is tested, by their long names, but for those that were given
    /// their default and the shard. Flags without a value have none here either.
    pub options: Options,
    /// What those flags come to.
    pub file_systems: Vec<Variant>,
    /// How the disk keeps its word.
    pub disk: String,
    /// The words of `--states`.
    pub states: Vec<String>,
    /// The part of the workloads that is tested, if not all.
    pub shard: Option<String>,
    /// What crash states are held against besides, if something is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specifications: Vec<Specification>,
    /// The BLAKE3 hash of the kept workloads; none if they are generated.
    pub workloads_hash: Option<String>,
    /// Where the workloads are from, in words.
    pub workloads: String,
    /// How many workers it was started with.
    pub jobs: usize,
    /// How it was started.
    pub command_line: Vec<String>,
}

/// Flags by their long names, with their values.
pub type Options = BTreeMap<String, Vec<String>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Manifest,
}

/// Which kernel is tested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r`.
    pub release: String,
    /// As `uname -v`, or the hash of its program if it is a guest's.
    pub version: String,
}

impl Kernel {
    /// The one of a machine.
    ///
    /// # Errors
    /// If it does not say what it is.
    pub fn of(machine: &Machine) -> Result<Self> {
        let Machine::Uml(uml) = machine else {
            let read = |name: &str| {
                let text = std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name));
                text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
            };
            return Ok(Self {
                release: read("osrelease"),
                version: read("version"),
            });
        };
        let file = std::fs::read(&uml.kernel).doing(|| format!("read {}", uml.kernel.display()))?;
        // What it would say of itself takes a start, and need not tell two builds apart.
        let version = format!("User-Mode Linux, BLAKE3 {}", blake3::hash(&file).to_hex());
        Ok(Self {
            release: uml.release.clone(),
            version,
        })
    }
}

impl Manifest {
    /// Of a sweep that is about to begin.
    ///
    /// # Errors
    /// If a file system is unknown.
    pub fn new(
        arguments: &FileSystemArgs,
        kernel: Kernel,
        options: Options,
        shard: Option<String>,
        workloads: String,
    ) -> Result<Self> {
        Ok(Self {
            kind: Kind::Manifest,
            format: if arguments.again > 0 {
                FORMAT_AGAIN
            } else {
                FORMAT
            },
            version: VERSION.to_owned(),
            kernel_release: kernel.release,
            kernel_version: kernel.version,
            options,
            file_systems: arguments.variants()?,
            disk: arguments.disk.to_string(),
            states: arguments
                .states()
                .to_string()
                .split(',')
                .map(str::to_owned)
                .collect(),
            shard,
            specifications: arguments.specifications.clone(),
            workloads_hash: None,
            workloads,
            jobs: arguments.jobs(),
            command_line: command_line(),
        })
    }

    /// Of the sweep that this one is a part of.
    pub(crate) fn whole(&self) -> Self {
        Self {
            shard: None,
            command_line: command_line(),
            ..self.clone()
        }
    }

    /// Reads what [`Manifest::text`] wrote.
    ///
    /// # Errors
    /// If it is not a manifest, or one of another version.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).doing(|| format!("read {}", path.display()))?;
        let none = |of, why| Error::NoManifest {
            path: path.into(),
            of,
            why,
        };
        let value: Value = serde_json::from_slice(&text).map_err(|why| none("", Some(why)))?;
        if value["type"] == "states-manifest" {
            return Err(Error::OfStates(path.into()));
        }
        if value["type"] != "manifest" {
            return Err(none("", None));
        }
        let has_again = value["format"] == FORMAT_AGAIN;
        check_version(path, &value, if has_again { FORMAT_AGAIN } else { FORMAT })?;
        serde_json::from_value(value).map_err(|why| none(" of this version", Some(why)))
    }

    /// As one JSON object.
    pub(crate) fn text(&self) -> String {
        format!("{:#}\n", self.value())
    }

    fn value(&self) -> Value {
        serde_json::to_value(self).expect("it holds nothing that JSON cannot")
    }

    /// Which part it is, if it is one.
    ///
    /// # Errors
    /// If the manifest was changed.
    pub(crate) fn shard(&self) -> campaign::Result<Option<Shard>> {
        Shard::of_manifest(self.shard.as_deref())
    }

    /// Where the sweep differs from another one, in words; `None` if they are the same, or shards
    /// of the same.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.specifications != other.specifications {
            return Some("the specifications (--spec) are others".into());
        }
        let (own, others) = (self.value(), other.value());
        let fields = own.as_object().expect("a manifest is an object");
        let differing = fields.iter().find(|(name, value)| {
            let name = name.as_str();
            name != SHARD && !INFORMATION.contains(&name) && others.get(name) != Some(*value)
        });
        differing.map(|(name, value)| {
            format!(
                "{name} is {value} in one and {} in the other",
                others[name.as_str()]
            )
        })
    }
}
