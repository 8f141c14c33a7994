//! What a sweep of crash states is asked for: what its manifest keeps, in types.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use campaign::{Interrupt, Shard};
use clap::ValueEnum;
use cluster::ClusterFile;
use pace_rules::nodes::{BlockRequest, Explore, Model, Relaxations, Spaces, Split, StartOrder};
use pace_rules::{Sector, disk};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use specification::Specification;
use trace::Run;
use trace_store::Trace;

use crate::check::CheckCommand;
use crate::error::{Error, Result};
use crate::recordings::Recordings;
use crate::specs::Specs;
use crate::starts::Start;

/// Where a crash is looked at.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// What the programs asked of their file systems, which kept what a model allows
    Syscalls,
    /// The disks that were recorded, each with its real file system, which recovers
    Block,
    /// One after the other, and what each says of the other's findings
    Both,
    /// What the program asked of its file system while it recovered from a crash: looked at with the
    /// level of system calls, if recoveries were recorded
    #[value(skip)]
    Recovery,
    /// What the file system wrote to the program's disk while it recovered from a crash: looked at
    /// with the level of disks, if recoveries were recorded
    #[value(skip)]
    DiskRecovery,
}

impl Level {
    /// The levels that are looked at, in order.
    pub fn each(self) -> &'static [Self] {
        match self {
            Self::Syscalls => &[Self::Syscalls],
            Self::Block => &[Self::Block],
            Self::Both => &[Self::Syscalls, Self::Block],
            Self::Recovery => &[Self::Recovery],
            Self::DiskRecovery => &[Self::DiskRecovery],
        }
    }

    /// Whether its states are of disks, which are mounted.
    pub fn is_of_disks(self) -> bool {
        matches!(self, Self::Block | Self::DiskRecovery)
    }
}

/// The levels of crashes in recoveries, each after the one that it is looked at with.
const AGAIN: [(Level, Level); 2] = [
    (Level::Syscalls, Level::Recovery),
    (Level::Block, Level::DiskRecovery),
];

/// Which combinations of nodes lose something together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// What `explore` in the cluster file says. Without it: majorities, each node alone, and all
    /// nodes where they lose at once everything that was not durable
    #[default]
    Pace,
    /// Every set of nodes, each in its own way
    BruteForce,
    /// Every set of nodes, each in the same way
    SameOnAll,
}

/// How states are judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judge {
    /// A program's check.
    Program {
        /// How it is started.
        check: CheckCommand,
        /// How long it may take for a state.
        limit_s: u32,
        /// Whether a run that acknowledges nothing, or changes nothing, may pass.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        allow_no_acks: bool,
    },
    /// The check of the cluster file in the trace.
    Cluster,
}

/// Everything that decides which states of a trace are visited, and how they are judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Where a crash is looked at.
    pub level: Level,
    /// The name of the model of the nodes' file systems, or of several.
    pub model: String,
    /// Which nodes lose something together.
    pub explore: Rule,
    /// How many operations a node may lose in a state.
    pub lost: usize,
    /// Where writes are cut.
    #[serde(with = "words")]
    pub split: Split,
    /// What the disks write whole: no write of the nodes is torn within that.
    pub sector: Sector,
    /// Which states of disks are visited, at these sectors.
    #[serde(with = "words")]
    pub states: disk::States,
    /// How many states are drawn, if not all are visited.
    pub sample: Option<u64>,
    /// From which number they are drawn.
    pub seed: u64,
    /// In which orders the nodes of a cluster are started on states that some of them lost something
    /// in.
    #[serde(default = "Start::usual", skip_serializing_if = "Start::are_usual")]
    pub starts: Vec<Start>,
    /// How they are judged.
    pub judge: Judge,
    /// Rules that each state is held against as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specifications: Vec<Specification>,
}

impl Request {
    /// What is asked of the rules about what the nodes asked of their file systems, for each model
    /// of the name.
    ///
    /// # Errors
    /// If there is no such model.
    pub fn of_calls(&self, explore: Explore) -> Result<Vec<pace_rules::nodes::Request>> {
        let models = models_named(&self.model)?.into_iter();
        let (lost, split, sector) = (self.lost, self.split, self.sector);
        let of_model = |model| pace_rules::nodes::Request {
            model,
            explore,
            lost,
            split,
            sector,
            relaxations: Relaxations::ALL,
        };
        Ok(models.map(of_model).collect())
    }

    /// The states of the run of a trace, as its calls leave them.
    ///
    /// # Errors
    /// If what is asked for does not fit the run.
    pub fn spaces(&self, explore: Explore, trace: &Trace) -> Result<Spaces> {
        self.spaces_unless(explore, trace, &Interrupt::default())
    }

    /// The same, unless somebody interrupts it.
    ///
    /// # Errors
    /// Like [`Self::spaces`], and if somebody does.
    pub(crate) fn spaces_unless(
        &self,
        explore: Explore,
        trace: &Trace,
        interrupt: &Interrupt,
    ) -> Result<Spaces> {
        let (run, requests) = (&trace.run, self.of_calls(explore)?);
        let spaces = Spaces::unless(run, &requests, &|| interrupt.requested())?;
        let spaces = spaces.with_starts(&self.orders());
        Ok(spaces.with_histories(Specs::of(&self.specifications)?.histories()))
    }

    /// The levels that are looked at, in order.
    pub fn levels(&self, trace: &Trace) -> Vec<Level> {
        let mut levels = self.level.each().to_vec();
        levels.extend(self.again().filter(|again| has_recovery(trace, *again)));
        levels
    }

    /// The levels of crashes in recoveries that would be looked at if there were any.
    pub(crate) fn levels_without_recovery(&self, trace: &Trace) -> impl Iterator<Item = Level> {
        self.again()
            .filter(move |again| !has_recovery(trace, *again))
    }

    /// The levels of crashes in recoveries, beside those that are asked for.
    fn again(&self) -> impl Iterator<Item = Level> + use<> {
        let levels = self.level.each();
        let again = AGAIN.into_iter();
        let again = again.filter(|(level, _)| levels.contains(level));
        again.map(|(_, again)| again)
    }

    fn orders(&self) -> Vec<StartOrder> {
        self.starts.iter().map(|start| start.order()).collect()
    }

    /// The states of the disks of a trace, of all its recordings.
    ///
    /// # Errors
    /// If what is asked for does not fit the run.
    pub fn of_disks<'a>(&self, explore: Explore, trace: &'a Trace) -> Result<Recordings<'a>> {
        let states = self.states;
        let request = BlockRequest { explore, states };
        Ok(Recordings::new(trace, &request, &self.orders())?)
    }

    /// The states of the disks at a level that has some: of all recordings of a trace, or of the
    /// recoveries of their file systems.
    ///
    /// # Errors
    /// Like [`Self::of_disks`].
    pub(crate) fn disks_at<'a>(
        &self,
        level: Level,
        explore: Explore,
        trace: &'a Trace,
    ) -> Result<Recordings<'a>> {
        if level != Level::DiskRecovery {
            return self.of_disks(explore, trace);
        }
        let states = self.states;
        let request = BlockRequest { explore, states };
        Ok(Recordings::of_recoveries(trace, &request)?)
    }

    /// The explore rule for a run; `file` is the cluster's, if it is one.
    ///
    /// # Errors
    /// If the primary was not recorded.
    pub fn explore(&self, file: Option<&ClusterFile>, run: &Run) -> Result<Explore> {
        match (self.explore, file) {
            (Rule::BruteForce, _) | (Rule::Pace, None) => Ok(Explore::BruteForce),
            (Rule::SameOnAll, _) => Ok(Explore::SameOnAll),
            (Rule::Pace, Some(file)) => explore(file, run),
        }
    }

    /// The same for the run of a trace, which has the cluster file.
    ///
    /// # Errors
    /// If the trace is damaged.
    pub fn explore_of(&self, trace: &Trace) -> Result<Explore> {
        // Neither programs nor places are looked for.
        let parse =
            |text: &String| ClusterFile::parse(text, Path::new("the trace"), Path::new("/"));
        let file = trace.about.cluster.as_ref().map(parse).transpose()?;
        self.explore(file.as_ref(), &trace.run)
    }

    /// How many states at most are visited at the block level, if they are drawn.
    pub fn sample_of_disks(&self) -> Option<u64> {
        self.sample.or(self.states.sample().map(u64::from))
    }

    /// The same at a level.
    pub(crate) fn sample_at(&self, level: Level) -> Option<u64> {
        match level {
            Level::Block | Level::DiskRecovery => self.sample_of_disks(),
            Level::Syscalls | Level::Both | Level::Recovery => self.sample,
        }
    }

    /// Whether there are states that nobody is to look at in this part of a sweep: what is not
    /// found may be among them.
    pub fn is_part(&self, shard: Option<Shard>) -> bool {
        self.sample_of_disks().is_some() || shard.is_some()
    }
}

/// Whether a trace has recoveries for a level of crashes in these.
fn has_recovery(trace: &Trace, level: Level) -> bool {
    trace.recoveries(level.is_of_disks()).next().is_some()
}

/// The models of a name.
///
/// # Errors
/// If there is none.
pub(crate) fn models_named(name: &str) -> Result<Vec<&'static Model>> {
    let models = Model::all_named(name);
    if models.is_empty() {
        return Err(Error::NoModel(name.into()));
    }
    Ok(models)
}

/// Which nodes lose something together, as the cluster file has it.
///
/// # Errors
/// If the primary was not recorded.
pub fn explore(file: &ClusterFile, run: &Run) -> Result<Explore> {
    Ok(match &file.explore {
        cluster::Explore::ReplicatedStateMachine { majority } => Explore::ReplicatedStateMachine {
            majority: majority.unwrap_or(0),
        },
        cluster::Explore::PrimaryReplicas { primary } => {
            let name = &file.nodes[*primary].name;
            let Some(primary) = run.nodes.iter().position(|node| node.name == *name) else {
                return Err(Error::PrimaryNotRecorded(name.clone()));
            };
            Explore::PrimaryReplicas { primary }
        }
    })
}

/// What is read as it is shown.
mod words {
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, Display, FromStr, Serializer};

    pub(super) fn serialize<S: Serializer>(
        value: &impl Display,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One for both levels of a cluster, with so many states drawn.
    pub(crate) fn request(sample: Option<u64>) -> Request {
        Request {
            level: Level::Both,
            model: "posix".into(),
            explore: Rule::BruteForce,
            lost: 1,
            split: "3".parse().expect("a split"),
            sector: Sector::default(),
            states: "every-write".parse().expect("states"),
            sample,
            seed: 0,
            starts: Start::usual(),
            judge: Judge::Cluster,
            specifications: Vec::new(),
        }
    }

    #[test]
    fn a_shard_is_a_part_and_so_is_what_was_drawn() {
        assert!(!request(None).is_part(None));
        assert!(request(None).is_part(Shard::new(1, 2)));
        assert!(request(Some(9)).is_part(None));
    }

    #[test]
    fn states_of_disks_that_are_drawn_leave_those_of_calls_whole() {
        let request = Request {
            states: "every-write,sample:5".parse().expect("states"),
            ..request(None)
        };
        assert_eq!(request.sample_at(Level::Block), Some(5));
        assert_eq!(request.sample_at(Level::Syscalls), None);
    }
}
