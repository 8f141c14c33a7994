//! The findings of a directory of results, numbered. It is only read, so also while a sweep is at
//! work there.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use campaign::{MANIFEST, RESULTS, read_lines};
use checker::Finding;
use local_fs::Variant;
use pace_rules::disk::{Relaxation, State};
use serde::Deserialize;
use workloads::Workload;

use crate::error::{Context as _, Error, Result};
use crate::manifest::Manifest;
use crate::result::{Again, Death, LogEntry, LostBytes, RunLog, StateFindings};
use crate::results_directory::place_of;

/// What a directory of results holds.
#[derive(Debug, Clone)]
pub struct Findings {
    /// What the sweep was.
    pub manifest: Manifest,
    /// All of them, in the order of their numbers.
    ///
    /// Findings are numbered from 1: by file system as the manifest has them, then by the number of
    /// the workload, then by crash state, the kernel's death after all states. The numbers of a
    /// finished sweep never change; while it goes on new ones may come between.
    pub all: Vec<Found>,
}

/// A crash state that breaks promises, or a kernel that died.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its number.
    pub number: usize,
    /// The file system.
    pub variant: Variant,
    /// The workload's number in the sweep.
    pub workload_number: u64,
    /// The workload.
    pub workload: Workload,
    /// What the disk was asked during the run, if that was kept.
    pub log: Option<RunLog>,
    /// What happened.
    pub what: FoundWhat,
}

/// What a finding is.
#[derive(Debug, Clone)]
pub enum FoundWhat {
    /// A crash state breaks promises.
    State(StateFindings),
    /// The kernel died.
    Death(Death),
}

/// Findings that are alike.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// The one to read: the fewest operations, of those the fewest lost writes, of those the first.
    pub representative: &'a Found,
    /// All of them, in the order of their numbers.
    pub members: Vec<&'a Found>,
}

impl Group<'_> {
    /// How many crash states it stands for, those included that were counted and not kept.
    pub fn states(&self) -> u64 {
        let states = |found: &&Found| match &found.what {
            FoundWhat::State(state) => 1 + u64::from(state.more),
            FoundWhat::Death(_) => 1,
        };
        self.members.iter().map(states).sum()
    }
}

/// The results of a directory that have findings, each with the place of its file system in the
/// manifest, and what the disk was asked, in the order in which findings are numbered.
fn results_with_findings(
    directory: &Path,
    manifest: &Manifest,
) -> Result<Vec<(usize, ResultLine, Option<RunLog>)>> {
    let mut results = Vec::new();
    read_lines(&directory.join(RESULTS), |_, line: ResultLine| {
        if line.kind == "result" && (!line.broken.is_empty() || line.death.is_some()) {
            results.push(line.place(&manifest.file_systems)?);
        }
        Ok::<_, Error>(())
    })?;
    results.sort_by_key(|(place, line, _)| (*place, line.number));
    Ok(results)
}

impl Findings {
    /// Reads a directory that `--out` named.
    ///
    /// # Errors
    /// If no sweep was begun there, it is another version's, or it is damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let manifest = directory.join(MANIFEST);
        std::fs::metadata(directory).doing(|| format!("open {}", directory.display()))?;
        if !manifest.exists() {
            return Err(Error::NoResults(directory.into()));
        }
        let manifest = Manifest::read(&manifest)?;
        let mut all = Vec::new();
        for (place, line, log) in results_with_findings(directory, &manifest)? {
            let workload = line.read_workload()?;
            let workload_number = line.number;
            for what in line.into_found()? {
                all.push(Found {
                    number: all.len() + 1,
                    variant: manifest.file_systems[place].clone(),
                    workload_number,
                    workload: workload.clone(),
                    log: log.clone(),
                    what,
                });
            }
        }
        Ok(Self { manifest, all })
    }

    /// The finding of a number.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, number: usize) -> Result<&Found> {
        let found = number.checked_sub(1).and_then(|place| self.all.get(place));
        found.ok_or(Error::NoFinding {
            number,
            last: self.all.len(),
        })
    }

    /// Those that are alike together, in the order of the first of each: the same file system, the
    /// same promises, at paths that play the same part. Which operations it takes to break them
    /// does not matter, and neither do the names.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut places = HashMap::new();
        let mut groups: Vec<Group<'_>> = Vec::new();
        for found in &self.all {
            let place = *places.entry(found.kind()).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => {
                    group.members.push(found);
                    if found.size() < group.representative.size() {
                        group.representative = found;
                    }
                }
                None => groups.push(Group {
                    representative: found,
                    members: vec![found],
                }),
            }
        }
        groups
    }
}

impl Found {
    /// The promises that it breaks; none if the kernel died.
    pub fn findings(&self) -> &[Finding] {
        match &self.what {
            FoundWhat::State(state) => &state.findings,
            FoundWhat::Death(_) => &[],
        }
    }

    /// Two that have the same are alike.
    fn kind(&self) -> String {
        let mut kind = self.variant.to_string();
        match &self.what {
            FoundWhat::State(state) => {
                let mut names = CanonicalPaths::default();
                let mut broken: Vec<_> = state.findings.iter().map(Finding::kind).collect();
                broken.sort();
                broken.dedup();
                let relaxation = match state.state.relaxation {
                    Relaxation::Prefix => "kept",
                    Relaxation::Flushed | Relaxation::Lost(_) => "lost",
                    Relaxation::Torn { .. } => "torn",
                };
                kind += &format!(" {relaxation}");
                if state.is_by_recovery() {
                    kind += " again";
                }
                for (promise, path, rule) in broken {
                    kind += &format!(" {} {}", promise.name(), names.of(path));
                    kind.extend(rule.map(|rule| format!(" {rule}")));
                }
            }
            // What it died of, but for addresses and numbers.
            FoundWhat::Death(death) => {
                let words = death
                    .what
                    .split_whitespace()
                    .filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
                kind += &format!(" death {}", words.collect::<Vec<_>>().join(" "));
            }
        }
        kind
    }

    /// What is small is easier to read.
    fn size(&self) -> (usize, usize, usize) {
        let (crashes, lost) = match &self.what {
            FoundWhat::State(state) => (state.again.len(), state.lost_writes()),
            FoundWhat::Death(_) => (0, 0),
        };
        (self.workload.operations().count(), crashes, lost)
    }
}

/// Renames what paths are made of in the order in which it appears, and keeps how deep they are.
#[derive(Default)]
struct CanonicalPaths<'a>(HashMap<&'a str, usize>);

impl<'a> CanonicalPaths<'a> {
    fn of(&mut self, path: &'a str) -> String {
        let mut number = |name: &'a str| {
            let next = self.0.len();
            self.0.entry(name).or_insert(next).to_string()
        };
        path.split('/')
            .filter(|name| !name.is_empty())
            .map(&mut number)
            .collect::<Vec<_>>()
            .join("/")
    }
}

/// What must be known of a result.
#[derive(Deserialize)]
struct ResultLine {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    file_system: String,
    #[serde(default)]
    mount_options: Vec<String>,
    #[serde(default)]
    mkfs_options: Vec<String>,
    #[serde(default)]
    number: u64,
    #[serde(default)]
    workload: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    broken: Vec<StateLine>,
    #[serde(default)]
    log: Option<LogLine>,
    #[serde(default)]
    death: Option<Death>,
}

/// A block log as results have it.
#[derive(Deserialize)]
struct LogLine {
    left_out: u32,
    entries: Vec<EntryLine>,
    #[serde(default)]
    holds: BTreeMap<u32, String>,
}

#[derive(Deserialize)]
struct EntryLine(
    u32,
    char,
    u64,
    u64,
    Option<u32>,
    #[serde(default)] Option<u32>,
);

impl TryFrom<LogLine> for RunLog {
    type Error = Error;

    fn try_from(line: LogLine) -> Result<Self> {
        let entry =
            |EntryLine(place, kind, offset, length, operation, completed): EntryLine| LogEntry {
                place,
                kind,
                offset,
                length,
                operation,
                completed,
            };
        let entries = line.entries.into_iter().map(entry).collect();
        let log = Self {
            left_out: line.left_out,
            entries,
            holds: line.holds,
        };
        log.check().map_err(Error::RunLog)?;
        Ok(log)
    }
}

/// A broken state as results have it.
#[derive(Deserialize)]
struct StateLine {
    operations_done: u32,
    #[serde(default)]
    under_way: bool,
    state: Relaxation,
    #[serde(default)]
    position: usize,
    #[serde(default)]
    pending: u32,
    #[serde(default)]
    lost: Vec<LostBytes>,
    #[serde(default)]
    more: u32,
    #[serde(default)]
    place: Option<String>,
    #[serde(default)]
    again: Vec<AgainLine>,
    findings: Vec<Finding>,
}

impl TryFrom<StateLine> for StateFindings {
    type Error = Error;

    fn try_from(line: StateLine) -> Result<Self> {
        let StateLine {
            operations_done,
            under_way,
            state,
            position,
            pending,
            lost,
            more,
            place,
            again,
            findings,
        } = line;
        let state = State {
            position,
            relaxation: state,
        };
        let again = again.into_iter().map(Again::try_from);
        Ok(Self {
            operations_done,
            under_way,
            state,
            pending,
            lost,
            place,
            again: again.collect::<Result<_, _>>()?,
            findings,
            more,
        })
    }
}

/// A crash in a recovery as results have it.
#[derive(Deserialize)]
struct AgainLine {
    state: Relaxation,
    position: usize,
    written: u32,
    writes: u32,
    pending: u32,
    lost: Vec<LostBytes>,
    clean: bool,
    log: LogLine,
}

impl TryFrom<AgainLine> for Again {
    type Error = Error;

    fn try_from(line: AgainLine) -> Result<Self> {
        let AgainLine {
            state: relaxation,
            position,
            written,
            writes,
            pending,
            lost,
            clean,
            log,
        } = line;
        Ok(Self {
            state: State {
                position,
                relaxation,
            },
            written,
            writes,
            pending,
            lost,
            clean,
            log: log.try_into()?,
        })
    }
}

impl ResultLine {
    /// Its place among the file systems, and its log.
    fn place(mut self, variants: &[Variant]) -> Result<(usize, Self, Option<RunLog>)> {
        let place = place_of(
            variants,
            &self.file_system,
            &self.mount_options,
            &self.mkfs_options,
        )?;
        let log = self.log.take().map(RunLog::try_from).transpose()?;
        Ok((place, self, log))
    }

    /// What was found, the states in their order.
    fn into_found(self) -> Result<impl Iterator<Item = FoundWhat>> {
        let states = self.broken.into_iter().map(StateFindings::try_from);
        let mut states: Vec<_> = states.collect::<Result<_, _>>()?;
        states.sort_by(StateFindings::order);
        let deaths = self.death.map(FoundWhat::Death);
        Ok(states.into_iter().map(FoundWhat::State).chain(deaths))
    }

    fn without(&self, what: &'static str) -> Error {
        Error::ResultWithout {
            workload: self.workload.clone(),
            what,
        }
    }

    fn read_workload(&self) -> Result<Workload> {
        let text = self
            .text
            .as_deref()
            .ok_or_else(|| self.without("has no workload"))?;
        let read = workloads::parse(text, &self.workload)?;
        let [workload] = <[Workload; 1]>::try_from(read)
            .ok()
            .ok_or_else(|| self.without("is not of one workload"))?;
        Ok(workload)
    }
}

#[cfg(test)]
mod tests {
    use checker::Promise;

    use super::*;

    fn found(number: usize, text: &str, promise: Promise, path: &str, lost: usize) -> Found {
        let lost: Vec<_> = (0..lost)
            .map(|place| LostBytes {
                place: place as u32,
                offset: 0,
                length: 512,
            })
            .collect();
        let relaxation = Relaxation::Lost((0..lost.len()).collect());
        let state = StateFindings {
            operations_done: 1,
            under_way: false,
            state: State {
                position: 9,
                relaxation,
            },
            pending: 3,
            lost,
            place: None,
            again: Vec::new(),
            findings: vec![Finding::new(promise, path, "it is gone")],
            more: 2,
        };
        let variant = Variant::parse_list("ext4").expect("known").remove(0);
        let workload = workloads::parse(text, "test").expect("one").remove(0);
        Found {
            number,
            variant,
            workload_number: 0,
            workload,
            log: None,
            what: FoundWhat::State(state),
        }
    }

    fn groups(all: Vec<Found>) -> Vec<(usize, Vec<usize>, u64)> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("manifest.json");
        let manifest = serde_json::json!({
            "type": "manifest", "format": 2, "version": env!("CARGO_PKG_VERSION"), "kernel_release": "",
            "kernel_version": "", "options": {}, "file_systems": [], "disk": "honest", "states": ["prefix"],
            "shard": null, "workloads_hash": null, "workloads": "", "jobs": 1, "command_line": [],
        });
        std::fs::write(&path, manifest.to_string()).expect("written");
        let findings = Findings {
            manifest: Manifest::read(&path).expect("one"),
            all,
        };
        let numbers = |group: &Group<'_>| group.members.iter().map(|found| found.number).collect();
        let groups = findings.groups();
        groups
            .iter()
            .map(|group| (group.representative.number, numbers(group), group.states()))
            .collect()
    }

    #[test]
    fn a_log_that_no_disk_can_have_had_is_refused() {
        let read = |entries: &str| {
            let line = format!("{{\"left_out\":0,\"entries\":[{entries}]}}");
            RunLog::try_from(serde_json::from_str::<LogLine>(&line).expect("a log"))
        };
        assert!(read(r#"[7,"W",0,512,0],[9,"W",0,512,0,12],[10,"F",0,0,0]"#).is_ok());
        for (entries, why) in [
            (
                r#"[7,"W",0,512,0],[7,"W",0,512,0]"#,
                "entry 1 of its log, at 7, does not lie after the one before it",
            ),
            (
                r#"[0,"W",0,512,0],[4000000000,"F",0,0,0]"#,
                "entry 1 of its log, at 4000000000, lies too far after",
            ),
            (
                r#"[7,"W",0,512,0,7]"#,
                "entry 0 of its log, at 7, was completed before it arrived",
            ),
        ] {
            let error = read(entries).expect_err(entries).to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn names_do_not_matter_and_the_smallest_is_shown() {
        let long = "creat a; creat b; fsync a";
        let all = vec![
            found(1, long, Promise::FsyncNames, "a", 1),
            found(
                2,
                "mkdir D; creat D/b; fsync D/b",
                Promise::FsyncNames,
                "D/b",
                1,
            ),
            found(3, "creat b; fsync b", Promise::FsyncNames, "b", 2),
            found(4, "creat c; fsync c", Promise::FsyncNames, "c", 1),
            found(5, "creat c; fsync c", Promise::FsyncData, "c", 1),
        ];
        assert_eq!(
            groups(all),
            [(4, vec![1, 3, 4], 9), (2, vec![2], 3), (5, vec![5], 3)]
        );
    }

    #[test]
    fn findings_of_one_rule_are_alike_and_those_of_two_are_not() {
        let of_rule = |number: usize, text: &str, name: &str| {
            let mut found = found(number, text, Promise::Rule, "", 1);
            if let FoundWhat::State(state) = &mut found.what {
                let rule = checker::BrokenRule {
                    name: name.into(),
                    derivation: String::new(),
                };
                state.findings = vec![Finding::of_rule(rule, text)];
            }
            found
        };
        let all = vec![
            of_rule(1, "creat a; creat b; fsync a", "s: one"),
            of_rule(2, "creat b; fsync b", "s: two"),
            of_rule(3, "creat c; fsync c", "s: one"),
        ];
        assert_eq!(groups(all), [(3, vec![1, 3], 6), (2, vec![2], 3)]);
    }
}
