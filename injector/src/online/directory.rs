//! The directory of a campaign's results.

use std::path::{Path, PathBuf};

use campaign::{Directory, Part, Parts, RESULTS, Records, Shard};
use cluster::ClusterFile;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::campaign::Summary;
use super::points::{At, Collected};
use super::ran::Ran;
use super::sometimes::conditions;
use super::strategies::EXHAUSTIVE;
use super::text::table;
use super::want::Want;
use crate::error::{Error, Result};
use crate::files;
use crate::surrounded::Surrounded;
use specification::Specification;

/// The version of these files.
const FORMAT: u64 = 2;

/// What they say of their kind.
const KIND: &str = "inject";

/// The directory of what each run left, in one by its number from 1 on.
pub const RUNS: &str = "runs";

/// What it has beside what every campaign has.
const KEPT: &[&str] = &[RUNS];

/// What a campaign is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectManifest {
    /// The version of Crashpoint.
    pub version: String,
    /// That of these files.
    pub format: u64,
    /// Which kind of campaign it is: `inject`.
    pub kind: String,
    /// The cluster file, absolute.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// The text of the plan that is tried, if it is one.
    pub plan: Option<String>,
    /// What proposes plans, if it is not one.
    pub strategy: Option<String>,
    /// At which failure points it looks.
    #[serde(default, skip_serializing_if = "At::is_usual")]
    pub at: At,
    /// The failure points of the run without faults, if they are what plans are made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<Collected>,
    /// What is searched for, if it is a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub want: Option<Want>,
    /// The seed of what is drawn.
    pub seed: u64,
    /// How many plans are tried at most.
    pub first: Option<u64>,
    /// What each run is held against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specifications: Vec<Specification>,
    /// What should happen in some run.
    #[serde(default)]
    pub sometimes: Vec<String>,
    /// How machines are simulated, if it is on simulated machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<OnMachines>,
    /// Which part of the plans it tries, as `I/N`.
    pub shard: Option<String>,
    /// The command line, for people.
    pub command: Vec<String>,
}

/// How the machines of a campaign are simulated, in the words of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnMachines {
    /// The seed of the first run; each has the next, if failure points are not what plans are made of.
    pub seed: u64,
    /// The kernel of the machines, absolute.
    pub kernel: String,
    /// The hash of that.
    pub kernel_hash: String,
    /// What surrounds the machines.
    #[serde(flatten)]
    pub surrounded: Surrounded,
}

impl OnMachines {
    /// What else than there was simulated for others, in a word: where that is not the same, the same
    /// failure points do not come up at the same times.
    pub fn differs_from(&self, others: &Self) -> Option<&'static str> {
        let (here, there) = (&self.surrounded, &others.surrounded);
        let different = [
            (self.seed != others.seed, "seed"),
            (self.kernel_hash != others.kernel_hash, "kernel"),
            (here.chaos != there.chaos, "--chaos"),
            (here.network != there.network, "--network"),
            (here.clocks != there.clocks, "--clocks"),
            (here.disks != there.disks, "--disks"),
            (here.has_other_environment(there), "PATH, HOME or LANG"),
        ];
        let mut different = different.into_iter().filter(|(is_other, _)| *is_other);
        different.next().map(|(_, what)| what)
    }
}

/// What came of one plan: a line of results.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectResult {
    /// Its index among those of the strategy, from 0 on.
    pub index: u64,
    /// The plan, as a file.
    pub plan: String,
    /// What happened.
    #[serde(flatten)]
    pub ran: Ran,
}

impl InjectManifest {
    /// That of a campaign on a cluster file, which is absolute: of one plan, if nothing else is said
    /// later.
    pub fn new(file: &ClusterFile, path: &Path) -> Self {
        Self {
            version: campaign::VERSION.into(),
            format: FORMAT,
            kind: KIND.into(),
            file: path.display().to_string(),
            text: file.text.clone(),
            nodes: file.nodes.iter().map(|node| node.name.clone()).collect(),
            plan: None,
            strategy: None,
            at: At::default(),
            collected: None,
            want: None,
            seed: 0,
            first: None,
            specifications: Vec::new(),
            sometimes: conditions(file).into_iter().map(|(name, _)| name).collect(),
            simulated: None,
            shard: None,
            command: campaign::command_line(),
        }
    }

    /// Which points are counted in its runs, if any are.
    pub fn counts(&self) -> Option<At> {
        (self.strategy.as_deref() == Some(EXHAUSTIVE)).then_some(self.at)
    }

    /// Whether the same plan may come to something else there.
    fn is_elsewhere(&self, other: &Self) -> bool {
        match (&self.simulated, &other.simulated) {
            (Some(here), Some(there)) => here.differs_from(there).is_some(),
            (here, there) => here.is_some() != there.is_some(),
        }
    }

    /// In what it is another campaign than another one, if it is.
    fn difference(&self, other: &Self) -> Option<String> {
        let differences = [
            (self.version != other.version, "versions of Crashpoint"),
            (self.text != other.text, "cluster files"),
            (self.plan != other.plan, "plans"),
            (self.strategy != other.strategy, "strategies"),
            (self.at != other.at, "kinds of failure points"),
            (self.collected != other.collected, "failure points"),
            (self.want != other.want, "wants"),
            (self.seed != other.seed, "seeds"),
            (self.first != other.first, "numbers of plans"),
            (
                self.specifications != other.specifications,
                "specifications",
            ),
            (self.is_elsewhere(other), "simulated machines"),
        ];
        let different = differences.into_iter().find(|(is_so, _)| *is_so);
        different.map(|(_, what)| format!("they are of different {what}"))
    }
}

/// Results that grow while a campaign goes on.
pub struct InjectDirectory {
    directory: Directory,
    records: Records,
    /// What the campaign is.
    pub manifest: InjectManifest,
    /// What was known when it was opened.
    pub known: Vec<InjectResult>,
}

impl InjectDirectory {
    /// Says whether [`InjectDirectory::create`] would refuse a directory because of what is in it.
    ///
    /// # Errors
    /// If it would.
    pub fn refuse(path: &Path) -> Result<()> {
        Ok(Directory::refuse(path, KEPT)?)
    }

    /// Begins one.
    ///
    /// # Errors
    /// If there is something in it, or it cannot be written.
    pub fn create(path: &Path, manifest: InjectManifest) -> Result<Self> {
        Self::opened(files::begin(path, KEPT, &manifest)?, manifest)
    }

    /// Opens one, to continue it.
    ///
    /// # Errors
    /// If it is no such directory, or damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let manifest = manifest(path)?.ok_or_else(|| Error::NotInject(path.into()))?;
        Self::opened(Directory::open(path, KEPT)?, manifest)
    }

    fn opened(directory: Directory, manifest: InjectManifest) -> Result<Self> {
        let (records, known) = files::open_results(&directory)?;
        Ok(Self {
            directory,
            records,
            manifest,
            known,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory of what the run of a plan leaves: empty, whatever an earlier try left.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn run_directory(&self, index: u64) -> Result<PathBuf> {
        let path = self.directory.join(RUNS).join((index + 1).to_string());
        let _ = std::fs::remove_dir_all(&path);
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| Error::System {
            doing: format!("create {}", path.display()),
            error,
        })?;
        Ok(path)
    }

    /// Takes everything back if it is new, and nothing came of it.
    pub fn remove_if_new(&self) {
        if self.records.is_empty() {
            self.directory.remove_if_new();
        }
    }

    /// Keeps a result: it survives a kill from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, result: &InjectResult) -> Result<()> {
        Ok(self.records.append(&files::line(result))?)
    }

    /// Writes what the campaign came to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.records.sync()?;
        let line = json!({
            "wanted": summary.wanted,
            "tried": summary.results.len(),
            "broken": summary.broken(),
            "inconclusive": summary.inconclusive(),
            "left_out": summary.left_out,
            "is_cut_off": summary.is_cut_off,
            "tells": summary.tells,
        });
        files::conclude(&self.directory, &table(summary, &self.manifest), &line)
    }
}

impl Part for InjectDirectory {
    fn directory(&self) -> &Path {
        self.path()
    }

    fn shard(&self) -> campaign::Result<Option<Shard>> {
        Shard::of_manifest(self.manifest.shard.as_deref())
    }

    fn is_finished(&self) -> bool {
        files::is_finished(self.path())
    }

    fn difference(&self, other: &Self) -> Option<String> {
        self.manifest.difference(&other.manifest)
    }
}

/// Puts shards of a campaign together in a new directory. With `incomplete` some may be missing or
/// unfinished. Returns also whether all were there, and finished.
///
/// # Errors
/// If they are not the shards of one campaign, or something cannot be read or written.
pub fn merge(
    parts: &[impl AsRef<Path>],
    out: &Path,
    incomplete: bool,
) -> Result<(InjectDirectory, bool)> {
    let shards = Parts::open(parts, incomplete, InjectDirectory::open)?;
    let manifest = InjectManifest {
        shard: None,
        ..shards.first()?.manifest.clone()
    };
    let mut merged = InjectDirectory::create(out, manifest)?;
    for part in shards.iter() {
        for result in &part.known {
            copy_run(
                part.path(),
                &merged.run_directory(result.index)?,
                result.index,
            )?;
            merged.append(result)?;
            merged.known.push(result.clone());
        }
    }
    merged.known.sort_by_key(|result| result.index);
    Ok((merged, shards.is_whole()))
}

/// Copies what a run left.
fn copy_run(from: &Path, to: &Path, index: u64) -> Result<()> {
    let from = from.join(RUNS).join((index + 1).to_string());
    copy_all(&from, to).map_err(|error| Error::System {
        doing: format!("copy {} to {}", from.display(), to.display()),
        error,
    })
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The manifest of a directory, if it is one of injected faults.
///
/// # Errors
/// If it is, and of another version.
pub fn manifest(path: &Path) -> Result<Option<InjectManifest>> {
    files::read_manifest(path, KIND, FORMAT)
}

/// The results in a directory by index, whether its campaign has ended or not.
///
/// # Errors
/// If they cannot be read.
pub fn results(path: &Path) -> Result<Vec<InjectResult>> {
    let mut results: Vec<InjectResult> = files::read_lines(&path.join(RESULTS))?;
    results.sort_by_key(|result| result.index);
    Ok(results)
}

/// The summary in a directory, if its campaign has ended or was stopped.
pub fn summary(path: &Path) -> Option<Value> {
    files::read_summary(path)
}

#[cfg(test)]
mod tests {
    use super::super::given::cluster_of;
    use super::*;

    fn on_machines() -> OnMachines {
        let surrounded = Surrounded {
            chaos: "off".into(),
            network: None,
            clocks: None,
            disks: None,
            environment: None,
        };
        OnMachines {
            seed: 7,
            kernel: "/here/linux".into(),
            kernel_hash: "1".into(),
            surrounded,
        }
    }

    #[test]
    fn parts_of_a_campaign_were_made_on_the_same_machines_wherever_their_kernel_is() {
        let file = cluster_of("[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n");
        let with = |simulated| InjectManifest {
            simulated,
            ..InjectManifest::new(&file, Path::new("/c.toml"))
        };
        let kernel = |kernel: &str, kernel_hash: &str| OnMachines {
            kernel: kernel.into(),
            kernel_hash: kernel_hash.into(),
            ..on_machines()
        };
        let here = with(Some(on_machines()));
        let difference = |simulated| here.difference(&with(simulated));
        assert_eq!(difference(Some(kernel("/there/linux", "1"))), None);
        let other = Some("they are of different simulated machines".to_owned());
        assert_eq!(difference(Some(kernel("/here/linux", "2"))), other);
        assert_eq!(difference(None), other);
        assert_eq!(with(None).difference(&here), other);
        assert_eq!(with(None).difference(&with(None)), None);
    }

    #[test]
    fn other_machines_are_those_on_which_points_come_up_at_other_times() {
        let on = on_machines();
        let differs = |change: fn(&mut OnMachines)| {
            let mut other = on.clone();
            change(&mut other);
            other.differs_from(&on)
        };
        // The same kernel may be somewhere else.
        assert_eq!(differs(|other| other.kernel = "/there/linux".into()), None);
        assert_eq!(differs(|other| other.seed = 8), Some("seed"));
        assert_eq!(
            differs(|other| other.kernel_hash = "2".into()),
            Some("kernel")
        );
        let network = |other: &mut OnMachines| other.surrounded.network = Some("lan".into());
        assert_eq!(differs(network), Some("--network"));
        let disks = |other: &mut OnMachines| other.surrounded.disks = Some("slow".into());
        assert_eq!(differs(disks), Some("--disks"));
    }
}
