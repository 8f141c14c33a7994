use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block_dev::{Base, BlockLog};
use machine::Spool;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use trace::{Action, Data, FileKind, FileOp, Run};

use crate::{About, Before, Disk, Trace};

/// The version of the format that is written.
pub const VERSION: u32 = 5;

/// The oldest version that is read: it has no stacks. Version 3 has no recoveries, version 4
/// holes only.
const OLDEST: u32 = 2;

/// What it is, its version, and the hashes of the others. Written last.
const MANIFEST: &str = "trace.json";

/// The run: postcard, compressed with zstd.
const RUN: &str = "run.zst";

/// The data: bytes, compressed with zstd.
const DATA: &str = "data.zst";

/// The stacks: postcard, compressed with zstd.
const STACKS: &str = "stacks.zst";

/// The other recordings of the same programs, each a directory of this name and its number, from 2
/// on.
const OTHER: &str = "recording-";

/// The recoveries, each a directory of this name and its number, from 1 on.
const RECOVERY: &str = "recovery-";

/// zstd's default.
const LEVEL: i32 = 3;

/// The result of keeping or reading a trace.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a trace cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be written or read.
    #[error("{path}: {error}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is not what was written.
    #[error("{path} is damaged: {what}; record it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// There is nothing of a trace.
    #[error(
        "{0} is no trace: `crashpoint cluster record FILE -o DIR` makes one of a cluster, and `crashpoint app --out DIR` one of a program, as DIR/trace"
    )]
    NoTrace(PathBuf),
    /// It was made by another version.
    #[error(
        "{path} is a trace of version {found}, and this program reads version {VERSION}: record it again"
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// There is one already.
    #[error("{0} is not empty, and a trace gets a directory of its own: name another one")]
    Exists(PathBuf),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    version: u32,
    /// Of all the rest of this. Traces have it since there is a program that looks at it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    blake3: String,
    run_blake3: String,
    data_blake3: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stacks_blake3: String,
    /// Of each node that had one.
    disks: BTreeMap<String, DiskManifest>,
    about: About,
    /// Of each of the other recordings, the hash of its manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
    /// The same of each of the recoveries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recoveries: Vec<String>,
}

/// A disk: what is in files of its own has hashes here.
#[derive(Serialize, Deserialize)]
struct DiskManifest {
    /// Its files are `disk-N-base.zst`, the pages that are not zeros, and `disk-N-log.zst`, with
    /// what else there is to say of it; and `disk-N-after.zst`, which older versions do not write.
    number: usize,
    base_blake3: String,
    log_blake3: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_blake3: Option<String>,
    /// Of the log.
    #[serde(default, skip_serializing_if = "is_false")]
    fua_unrecognised: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl DiskManifest {
    fn base(number: usize) -> String {
        format!("disk-{number}-base.zst")
    }

    fn log(number: usize) -> String {
        format!("disk-{number}-log.zst")
    }

    fn after(number: usize) -> String {
        format!("disk-{number}-after.zst")
    }

    fn save(number: usize, disk: &Disk, directory: &Path) -> Result<Self> {
        let log = (&disk.file_system, &disk.directory, disk.durable, &disk.log);
        let log = postcard::to_stdvec(&log).expect("it has only what postcard knows");
        let save_after = |after: &BlockLog| {
            let after = postcard::to_stdvec(after).expect("it has only what postcard knows");
            compress(&directory.join(Self::after(number)), &after)
        };
        Ok(Self {
            number,
            base_blake3: compress(&directory.join(Self::base(number)), &disk.base.pack())?,
            log_blake3: compress(&directory.join(Self::log(number)), &log)?,
            after_blake3: disk.after.as_ref().map(save_after).transpose()?,
            fua_unrecognised: !disk.log.recognises_fua(),
        })
    }

    fn load(self, folder: &Path) -> Result<Disk> {
        let path = folder.join(Self::base(self.number));
        let base = Base::unpack(&decompress(&path, &self.base_blake3)?).map_err(|error| {
            Error::Damaged {
                path: path.clone(),
                what: error.to_string(),
            }
        })?;
        let path = folder.join(Self::log(self.number));
        let (file_system, directory, durable, mut log): (_, _, usize, BlockLog) =
            unpack(&path, &self.log_blake3)?;
        log.set_recognises_fua(!self.fua_unrecognised);
        let load_after = |hash: String| unpack(&folder.join(Self::after(self.number)), &hash);
        let after: Option<BlockLog> = self.after_blake3.map(load_after).transpose()?;
        let is_within = |log: &BlockLog| log.is_within(base.size_bytes());
        if !is_within(&log) || !after.iter().all(is_within) || durable > log.len() {
            return Err(Error::Damaged {
                path,
                what: "it speaks of what is not there".into(),
            });
        }
        Ok(Disk {
            file_system,
            directory,
            base: Arc::new(base),
            log,
            durable,
            after,
        })
    }
}

impl Manifest {
    /// The hash of everything in it but that.
    fn hash(&self) -> String {
        let rest = serde_json::to_value(self).map(|mut rest| {
            rest.as_object_mut()
                .expect("it is a structure")
                .remove("blake3");
            rest.to_string()
        });
        blake3::hash(rest.expect("it is plain data").as_bytes())
            .to_hex()
            .to_string()
    }
}

/// What is read before anything else, of any version.
#[derive(Deserialize)]
struct AnyManifest {
    version: u32,
}

impl Trace {
    /// Writes it as a new directory.
    ///
    /// # Errors
    /// If there is something already, or it cannot be written. What was written of it is left.
    pub fn save(&self, directory: &Path) -> Result<()> {
        self.save_as_manifest(directory).map(drop)
    }

    /// The same, and returns the hash of the manifest.
    fn save_as_manifest(&self, directory: &Path) -> Result<String> {
        make_empty(directory)?;
        let run = postcard::to_stdvec(&self.run).expect("it has only what postcard knows");
        let stacks = postcard::to_stdvec(&self.stacks).expect("it has only what postcard knows");
        let disks = self.disks.iter().enumerate();
        let disks = disks.map(|(number, (node, disk))| {
            Ok((node.clone(), DiskManifest::save(number, disk, directory)?))
        });
        let mut manifest = Manifest {
            version: VERSION,
            blake3: String::new(),
            run_blake3: compress(&directory.join(RUN), &run)?,
            data_blake3: compress(&directory.join(DATA), &self.data)?,
            stacks_blake3: compress(&directory.join(STACKS), &stacks)?,
            disks: disks.collect::<Result<_>>()?,
            about: self.about.clone(),
            others: save_each(&self.others, directory, OTHER, 2)?,
            recoveries: save_each(&self.recoveries, directory, RECOVERY, 1)?,
        };
        manifest.blake3 = manifest.hash();
        let mut text = serde_json::to_vec_pretty(&manifest).expect("it is plain data");
        text.push(b'\n');
        write(&directory.join(MANIFEST), &text)?;
        Ok(manifest.blake3)
    }

    /// Reads it from its directory.
    ///
    /// # Errors
    /// If it is not there, damaged, or of another version.
    pub fn load(directory: &Path) -> Result<Self> {
        let Loaded {
            mut trace,
            others,
            recoveries,
            ..
        } = Loaded::from(directory)?;
        trace.others = load_each(&others, directory, OTHER, 2)?;
        trace.recoveries = load_each(&recoveries, directory, RECOVERY, 1)?;
        if !trace.has_its_crashes() {
            return Err(Error::Damaged {
                path: directory.join(MANIFEST),
                what: "a recovery is from a crash that no run of it had".into(),
            });
        }
        Ok(trace)
    }

    /// Whether the crashes that recoveries are from can have been in the runs that they name.
    fn has_its_crashes(&self) -> bool {
        let recoveries: Vec<_> = self.recoveries(false).collect();
        let is_had = |(place, before): (usize, &Before)| {
            let run = match before.past.recovery {
                None => Some(&self.run),
                Some(of) => recoveries[..place].get(of).map(|parent| &parent.run),
            };
            before.number == place && run.is_some_and(|run| before.past.is_of(run))
        };
        let places = recoveries.iter().enumerate();
        let mut all = places.filter_map(|(place, recovery)| {
            let recovers = recovery.about.recovers.as_ref()?;
            Some((place, recovers.before.as_ref()?))
        });
        all.all(is_had)
    }
}

/// Writes recordings below the directory of the one that they belong to, numbered from `first` on,
/// and returns the hashes of their manifests.
fn save_each(all: &[Trace], directory: &Path, name: &str, first: usize) -> Result<Vec<String>> {
    let each = all.iter().zip(first..);
    each.map(|(trace, number)| trace.save_as_manifest(&directory.join(format!("{name}{number}"))))
        .collect()
}

/// Reads those that have these hashes.
fn load_each(hashes: &[String], directory: &Path, name: &str, first: usize) -> Result<Vec<Trace>> {
    let load = |(expected, number): (&String, usize)| {
        let directory = directory.join(format!("{name}{number}"));
        let path = directory.join(MANIFEST);
        let damaged = |what: &str| Error::Damaged {
            path: path.clone(),
            what: what.into(),
        };
        if !path.exists() {
            return Err(damaged("it is not there"));
        }
        let loaded = Loaded::from(&directory)?;
        let is_alone = loaded.others.is_empty() && loaded.recoveries.is_empty();
        if loaded.hash != *expected || !is_alone {
            return Err(damaged("it is another recording"));
        }
        Ok(loaded.trace)
    };
    hashes.iter().zip(first..).map(load).collect()
}

impl Manifest {
    /// Fails if what was acknowledged before the run is not among so many bytes.
    fn refuse_beyond(&self, directory: &Path, len: u64) -> Result<()> {
        let acknowledged = self.about.recovers.as_ref();
        if acknowledged.is_some_and(|crash| !is_there(&crash.acknowledged, len)) {
            return Err(Error::Damaged {
                path: directory.join(MANIFEST),
                what: "what was acknowledged before is not there".into(),
            });
        }
        Ok(())
    }
}

/// One recording, as its directory has it.
struct Loaded {
    trace: Trace,
    /// Of its manifest.
    hash: String,
    /// Of the manifests of the others.
    others: Vec<String>,
    /// Of those of the recoveries.
    recoveries: Vec<String>,
}

impl Loaded {
    fn from(directory: &Path) -> Result<Self> {
        let (version, manifest) = read_manifest(directory)?;
        let mut data = Spool::default();
        decompress_into(&mut data, &directory.join(DATA), &manifest.data_blake3)?;
        let path = directory.join(RUN);
        let run: Run = unpack(&path, &manifest.run_blake3)?;
        if let Some(what) = beyond(&run, data.len() as u64) {
            return Err(Error::Damaged { path, what });
        }
        manifest.refuse_beyond(directory, data.len() as u64)?;
        let stacks = if version == OLDEST {
            BTreeMap::new()
        } else {
            unpack(&directory.join(STACKS), &manifest.stacks_blake3)?
        };
        let disks = manifest
            .disks
            .into_iter()
            .map(|(node, disk)| Ok((node, disk.load(directory)?)));
        let trace = Trace {
            run,
            data,
            disks: disks.collect::<Result<_>>()?,
            stacks,
            about: manifest.about,
            others: Vec::new(),
            recoveries: Vec::new(),
        };
        Ok(Self {
            trace,
            hash: manifest.blake3,
            others: manifest.others,
            recoveries: manifest.recoveries,
        })
    }
}

/// The manifest of a trace, and the version that it has.
fn read_manifest(directory: &Path) -> Result<(u32, Manifest)> {
    let path = directory.join(MANIFEST);
    if !path.exists() {
        return Err(Error::NoTrace(directory.to_owned()));
    }
    let text = read(&path)?;
    let damaged = |error: serde_json::Error| Error::Damaged {
        path: path.clone(),
        what: error.to_string(),
    };
    let AnyManifest { version } = serde_json::from_slice(&text).map_err(damaged)?;
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(Error::Version {
            path,
            found: version,
        });
    }
    let manifest: Manifest = serde_json::from_slice(&text).map_err(damaged)?;
    if !manifest.blake3.is_empty() && manifest.blake3 != manifest.hash() {
        return Err(Error::Damaged {
            path,
            what: "its text is not what was written".into(),
        });
    }
    Ok((version, manifest))
}

/// Makes a directory, which may be there if nothing is in it.
fn make_empty(directory: &Path) -> Result<()> {
    let failed = |error| Error::File {
        path: directory.to_owned(),
        error,
    };
    fs::create_dir_all(directory).map_err(failed)?;
    if directory.read_dir().map_err(failed)?.next().is_some() {
        return Err(Error::Exists(directory.to_owned()));
    }
    Ok(())
}

/// Whether bytes are among so many.
fn is_there(data: &Data, len: u64) -> bool {
    data.at.checked_add(data.len).is_some_and(|end| end <= len)
}

/// Where a run speaks of bytes that are not there.
fn beyond(run: &Run, len: u64) -> Option<String> {
    let is_there = |data: &Data| is_there(data, len);
    let of_kind = |kind: &FileKind| match kind {
        FileKind::Symlink { target } => Some(*target),
        _ => None,
    };
    for node in &run.nodes {
        for (number, file) in node.initial.iter().enumerate() {
            let mut all = file
                .content
                .iter()
                .map(|(_, data)| *data)
                .chain(of_kind(&file.kind));
            if !all.all(|data| is_there(&data)) {
                return Some(format!(
                    "the content of initial file {number} of {} is not there",
                    node.name
                ));
            }
        }
        for (number, event) in node.events.iter().enumerate() {
            let data = match &event.action {
                Action::File(FileOp::Write { data, .. }) | Action::Mark { line: data } => {
                    Some(*data)
                }
                Action::File(FileOp::SetXattr { value, .. }) => *value,
                Action::File(FileOp::Create { kind, .. }) => of_kind(kind),
                _ => None,
            };
            if !data.is_none_or(|data| is_there(&data)) {
                return Some(format!(
                    "the data of event {number} of {} is not there",
                    node.name
                ));
            }
        }
    }
    None
}

fn compress(path: &Path, bytes: &[u8]) -> Result<String> {
    let compressed = zstd::bulk::compress(bytes, LEVEL).map_err(|error| Error::File {
        path: path.into(),
        error,
    })?;
    write(path, &compressed)?;
    Ok(blake3::hash(&compressed).to_hex().to_string())
}

fn decompress(path: &Path, blake3: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decompress_into(&mut bytes, path, blake3)?;
    Ok(bytes)
}

fn decompress_into(bytes: &mut impl Write, path: &Path, blake3: &str) -> Result<()> {
    let compressed = read(path)?;
    if blake3::hash(&compressed).to_hex().as_str() != blake3 {
        let what = format!(
            "its {} bytes are not those that were written",
            compressed.len()
        );
        return Err(Error::Damaged {
            path: path.into(),
            what,
        });
    }
    zstd::stream::copy_decode(compressed.as_slice(), bytes).map_err(|error| Error::File {
        path: path.into(),
        error,
    })
}

fn unpack<T: DeserializeOwned>(path: &Path, blake3: &str) -> Result<T> {
    let bytes = decompress(path, blake3)?;
    postcard::from_bytes(&bytes).map_err(|error| Error::Damaged {
        path: path.into(),
        what: error.to_string(),
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = File::create(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(|error| Error::File {
        path: path.into(),
        error,
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::File {
        path: path.into(),
        error,
    })
}
