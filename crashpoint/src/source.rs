//! Where the workloads of a sweep come from: the generator, files, or standard input.

use ace_gen::{Generator, GeneratorArgs, Removed, SelectionArgs};
use anyhow::{Context, bail};
use campaign::{Interrupt, Shard};
use replayer::{NumberedWorkloads, WorkloadFiles, WorkloadIterator};
use workloads::Workload;

/// To tell equal workloads apart all of them must be looked at, and a digest kept of each.
/// Above this many that is no longer worth it.
const UNIQUE_OF_MAX: u64 = 5_000_000;

/// The workloads of a sweep.
pub(crate) enum Source {
    /// Within the bounds of the generator.
    Generated(Box<Generated>),
    /// Read from files; all of them, of whatever shard.
    Read {
        workloads: Vec<Workload>,
        files: String,
    },
    /// Standard input, which can be read once.
    Stream(WorkloadIterator<'static>),
}

/// Generated workloads.
pub(crate) struct Generated {
    generator: Generator,
    selection: ace_gen::Selection,
}

/// Which of the generated workloads.
pub(crate) struct Chosen<'a> {
    generator: &'a Generator,
    numbers: Numbers,
}

enum Numbers {
    /// These, and what was left out for them.
    Listed {
        numbers: Vec<u64>,
        removed: Option<Removed>,
    },
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
    ) -> anyhow::Result<Self> {
        match (bounds.is_given(), files.files.is_empty()) {
            (true, false) => bail!(
                "files and generated workloads cannot be mixed: leave out the files, or --ops, --preset and their like"
            ),
            (false, true) => {
                bail!(
                    "no workloads: name files with workloads, or have them generated with --ops N or --preset seq-1"
                )
            }
            (true, true) => Ok(Self::Generated(Box::new(Generated::new(
                bounds, selection, all,
            )?))),
            (false, false) if all => {
                bail!("--all chooses among generated workloads: leave it out with files")
            }
            (false, false) => Self::from_files(files, selection),
        }
    }

    fn from_files(files: &WorkloadFiles, selection: &SelectionArgs) -> anyhow::Result<Self> {
        if selection.range.is_some() || selection.index.is_some() || selection.sample.is_some() {
            bail!(
                "--range, --index and --sample choose among generated workloads: use --ops or --preset, or --shard"
            );
        }
        match files.stream() {
            Some(stream) => Ok(Self::Stream(stream)),
            None => Ok(Self::Read {
                workloads: files.read_all()?,
                files: files.names(),
            }),
        }
    }

    /// The same with standard input read to its end, or until an interrupt.
    pub(crate) fn repeatable(self, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let Self::Stream(stream) = self else {
            return Ok(self);
        };
        let workloads = replayer::read_to_end(stream, interrupt)?;
        Ok(Self::Read {
            workloads,
            files: "standard input".to_owned(),
        })
    }

    /// In words, for the manifest.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Generated(generated) => {
                format!("generated: {}", generated.generator.bounds().name)
            }
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
            let why = format!("that is done up to {UNIQUE_OF_MAX}");
            campaign::say(&format!(
                "of {count} workloads equal ones are not removed ({why})"
            ));
            unique = false;
        }
        let selection = ace_gen::Selection {
            unique,
            ..selection.selection()
        };
        // A shard of few workloads may have none.
        if selection.shard.is_none() && selection.count(&generator).0 == 0 {
            bail!("of these {count} workloads none is left: see --range and --sample");
        }
        Ok(Self {
            generator,
            selection,
        })
    }

    /// Chooses; to remove equal ones takes a while.
    pub(crate) fn choose(&self) -> Chosen<'_> {
        let numbers = if self.selection.unique {
            let mut indices = self.selection.indices(&self.generator);
            let numbers = indices.by_ref().collect();
            Numbers::Listed {
                numbers,
                removed: indices.removed(),
            }
        } else {
            Numbers::Selected(self.selection.clone())
        };
        Chosen {
            generator: &self.generator,
            numbers,
        }
    }
}

impl Chosen<'_> {
    /// What was left out because a file system could not tell it from an earlier one.
    pub(crate) fn removed(&self) -> Option<Removed> {
        match &self.numbers {
            Numbers::Listed { removed, .. } => *removed,
            Numbers::Selected(_) => None,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        match &self.numbers {
            Numbers::Listed { numbers, .. } => numbers.len() as u64,
            Numbers::Selected(selection) => selection.count(self.generator).0,
        }
    }

    /// All of them, from the first.
    pub(crate) fn iter(&self) -> NumberedWorkloads<'_> {
        let mut walker = self.generator.walk();
        let workload = move |number| Ok((number, walker.workload(number)));
        match &self.numbers {
            Numbers::Listed { numbers, .. } => Box::new(numbers.iter().copied().map(workload)),
            Numbers::Selected(selection) => {
                Box::new(selection.indices(self.generator).map(workload))
            }
        }
    }
}

/// Workloads with their places, but for those of other shards: every N-th, as the generator does
/// it.
pub(crate) fn sharded<T>(
    shard: Option<Shard>,
    items: impl Iterator<Item = T>,
) -> impl Iterator<Item = (u64, T)> {
    (0..)
        .zip(items)
        .filter(move |(place, _)| shard.is_none_or(|shard| shard.contains(*place)))
}

/// The same of what is read meanwhile. Where that cannot be read, no shard may say that it has seen all.
pub(crate) fn sharded_stream<T, E>(
    shard: Option<Shard>,
    items: impl Iterator<Item = Result<T, E>>,
) -> impl Iterator<Item = (u64, Result<T, E>)> {
    (0..).zip(items).filter(move |(place, item)| {
        item.is_err() || shard.is_none_or(|shard| shard.contains(*place))
    })
}
