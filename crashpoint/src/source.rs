//! Where the workloads of a sweep come from: the generator, files, or standard input.

use ace_gen::{Generator, GeneratorArgs, Removed, SelectionArgs, Shard};
use anyhow::{Context, bail};
use replayer::{WorkloadFiles, WorkloadIterator};
use workloads::Workload;

/// To tell equal workloads apart all of them must be looked at, and a digest kept of each.
/// Above this many that is no longer worth it.
const UNIQUE_OF_MAX: u64 = 5_000_000;

/// The workloads of a sweep.
pub(crate) enum Source {
    /// Within the bounds of the generator.
    Generated(Box<Generated>),
    /// Read from files.
    Read { workloads: Vec<Workload>, files: String },
    /// Standard input, which can be read once.
    Stream(WorkloadIterator<'static>),
}

/// Generated workloads.
pub(crate) struct Generated {
    generator: Generator,
    chosen: Chosen,
}

/// Which of the generated workloads.
enum Chosen {
    /// Those with these numbers, and what was left out for them.
    Listed { numbers: Vec<u64>, removed: Option<Removed> },
    /// Those that the selection has, which can be counted without looking at them.
    Selected(ace_gen::Selection),
}

impl Source {
    /// The source that the flags describe.
    pub(crate) fn of(
        bounds: &GeneratorArgs,
        selection: &SelectionArgs,
        all: bool,
        files: &WorkloadFiles,
        can_stream: bool,
    ) -> anyhow::Result<Self> {
        match (bounds.is_given(), files.files.is_empty()) {
            (true, false) => bail!(
                "files and generated workloads cannot be mixed: leave out the files, or --ops, --preset and their like"
            ),
            (false, true) => {
                bail!("no workloads: name files with workloads, or have them generated with --ops N or --preset seq-1")
            }
            (true, true) => Ok(Self::Generated(Box::new(Generated::new(bounds, selection, all)?))),
            (false, false) => Self::from_files(files, selection, can_stream),
        }
    }

    fn from_files(files: &WorkloadFiles, selection: &SelectionArgs, can_stream: bool) -> anyhow::Result<Self> {
        if selection.range.is_some() || selection.index.is_some() || selection.sample.is_some() {
            bail!("--range, --index and --sample choose among generated workloads: use --ops or --preset, or --shard");
        }
        let shard = selection.shard;
        match files.stream() {
            Some(stream) if can_stream => Ok(Self::Stream(match shard {
                Some(shard) => Box::new(sharded(shard, stream)),
                None => stream,
            })),
            _ => {
                let all = files.read_all()?.into_iter();
                let workloads = match shard {
                    Some(shard) => sharded(shard, all).collect(),
                    None => all.collect(),
                };
                Ok(Self::Read { workloads, files: files.names() })
            }
        }
    }

    /// In words, for the manifest.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Generated(generated) => format!("generated: {}", generated.generator.bounds().name),
            Self::Read { files, .. } => format!("files: {files}"),
            Self::Stream(_) => "standard input".to_owned(),
        }
    }
}

impl Generated {
    fn new(bounds: &GeneratorArgs, selection: &SelectionArgs, all: bool) -> anyhow::Result<Self> {
        let generator = bounds.generator().context("use these bounds")?;
        let count = generator.len();
        if let Some(index) = selection.index.filter(|index| *index >= count) {
            bail!("there is no workload {index}: the last is {}", count - 1);
        }
        // One that is asked for by its number is wanted.
        let mut unique = !all && selection.index.is_none();
        if unique && count > UNIQUE_OF_MAX {
            replayer::say("of {count} workloads equal ones are not removed (that is done up to {UNIQUE_OF_MAX})");
            unique = false;
        }
        let selection = ace_gen::Selection { unique, ..selection.selection() };
        let chosen = if unique {
            let mut indices = selection.indices(&generator);
            let numbers = indices.by_ref().collect();
            let removed = indices.removed();
            Chosen::Listed { numbers, removed }
        } else {
            Chosen::Selected(selection)
        };
        Ok(Self { generator, chosen })
    }

    /// What was left out because a file system could not tell it from an earlier one.
    pub(crate) fn removed(&self) -> Option<Removed> {
        match &self.chosen {
            Chosen::Listed { removed, .. } => *removed,
            Chosen::Selected(_) => None,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        match &self.chosen {
            Chosen::Listed { numbers, .. } => numbers.len() as u64,
            Chosen::Selected(selection) => selection.count(&self.generator).0,
        }
    }

    /// All of them, from the first.
    pub(crate) fn iter(&self) -> WorkloadIterator<'_> {
        let mut walker = self.generator.walk();
        let workload = move |number| Ok(walker.workload(number));
        match &self.chosen {
            Chosen::Listed { numbers, .. } => Box::new(numbers.iter().copied().map(workload)),
            Chosen::Selected(selection) => Box::new(selection.indices(&self.generator).map(workload)),
        }
    }
}

/// Every N-th, as the generator does it.
fn sharded<T>(shard: Shard, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    (0..).zip(items).filter_map(move |(index, item)| shard.contains(index).then_some(item))
}
