//! `crashpoint fs`: sweeps file systems with workloads.

use std::path::{Path, PathBuf};

use ace_gen::{GeneratorArgs, SelectionArgs};
use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat};
use clap::{Args, Command, FromArgMatches};
use machine::Machine;
use replayer::{FileSystemArgs, Kernel, Manifest, Options, Results};
use replayer::{NumberedWorkloads, SweepCommand, WorkloadFiles};
use specification::About;

use crate::options;
use crate::source::{Chosen, Source, sharded, sharded_stream};
use crate::specs;

/// The arguments of `crashpoint fs`.
#[derive(Debug, Args)]
pub(crate) struct FsArgs {
    #[command(flatten)]
    files: WorkloadFiles,

    #[command(flatten)]
    file_system: FileSystemArgs,

    /// A new directory for the results, and for what --resume needs to continue them
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Go on with the sweep in DIR where it stopped, for whatever reason. DIR knows how it was
    /// begun: no other option is needed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "workload_files"])]
    resume: Option<PathBuf>,

    /// Hold each crash state against the rules in this file as well. It can be given several times; a
    /// file with workloads comes before it, or after another option
    ///
    /// A violation is a finding, beside what the contract of the file system says. The rules are
    /// Datalog, about what the workload did, what the disk had not kept, and what the file system shows
    /// once it has recovered: docs/specifications.md. With `violation left(P) :- crashed(event: E),
    /// entry(path: P), P ~ "[.]tmp$".` in tmp.dl, `--spec tmp.dl` finds each state with such a file.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "resume")]
    spec: Vec<PathBuf>,

    /// Stop once N workloads have shown something
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    stop_after: Option<u64>,

    /// How to print results
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,

    #[command(flatten)]
    selection: SelectionArgs,

    /// Also those that a file system cannot tell from an earlier one
    #[arg(
        long,
        conflicts_with = "unique",
        help_heading = "Selection of generated workloads"
    )]
    all: bool,

    #[command(flatten)]
    bounds: GeneratorArgs,
}

/// The command as the command line has it.
pub(crate) fn adapt(fs: Command) -> Command {
    let fs = fs.mut_arg("seed", |flag| {
        flag.help("What decides which are chosen, and what --virtual-time starts from")
    });
    // Only the unique ones is what `fs` does anyway; the flag stays valid.
    let fs = fs.mut_arg("unique", |flag| flag.hide(true));
    fs.mut_arg("file_systems", |flag| {
        flag.required(false).required_unless_present("resume")
    })
}

impl FsArgs {
    /// One seed is for everything.
    pub(crate) fn settle(mut self) -> Self {
        self.file_system.kernel.seed = self.selection.seed;
        self
    }

    /// Reads the specifications that were named.
    ///
    /// # Errors
    /// The first mistake in one.
    pub(crate) fn with_specifications(mut self) -> anyhow::Result<Self> {
        let read = specs::read(&self.spec, About::FileSystem)?;
        let called = self.spec.iter().map(|path| path.display().to_string());
        self.file_system.specifications = read;
        self.file_system.spec_files = called.collect();
        Ok(self)
    }

    /// What is tested, and on which disk.
    pub(crate) fn into_file_system(self) -> FileSystemArgs {
        self.file_system
    }
}

/// Does it; `given` are the flags that were given, of those that `command` has.
pub(crate) fn run(
    arguments: &FsArgs,
    command: &Command,
    given: &Options,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    match &arguments.resume {
        Some(directory) => resume(directory, arguments, command, given, interrupt),
        None => begin(arguments, options::deciding(command, given), interrupt),
    }
}

fn begin(arguments: &FsArgs, options: Options, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let variants = arguments.file_system.variants()?;
    let mut source = Source::of(
        &arguments.bounds,
        &arguments.selection,
        arguments.all,
        &arguments.files,
    )?;
    let machine = arguments.file_system.machine()?;
    replayer::prepare(&variants, &machine)?;
    // What is read once can be neither given to several file systems nor continued.
    if arguments.out.is_some() || variants.len() > 1 {
        source = source.repeatable(interrupt)?;
        if interrupt.requested() {
            return Ok(Outcome::Incomplete);
        }
    }
    let Some(directory) = &arguments.out else {
        return arguments.sweep(source, machine, None, interrupt);
    };
    let shard = arguments.selection.shard.map(|shard| shard.to_string());
    let kernel = Kernel::of(&machine)?;
    let manifest = Manifest::new(
        &arguments.file_system,
        kernel,
        options,
        shard,
        source.words(),
    )?;
    let kept = match &source {
        Source::Read { workloads, .. } => Some(workloads.as_slice()),
        _ => None,
    };
    let results = Results::create(directory, manifest, kept)?;
    arguments.sweep(source, machine, Some(results), interrupt)
}

fn resume(
    directory: &Path,
    given_arguments: &FsArgs,
    command: &Command,
    given: &Options,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let results = Results::open(directory)?;
    options::agree(command, given, results.manifest(), directory)?;
    let format = given_arguments.format;
    if results.is_finished() {
        campaign::say(&format!(
            "the sweep in {} is finished: {} results",
            directory.display(),
            results.count()
        ));
        return Ok(results.print(format)?);
    }
    let arguments = continued(command, given_arguments, results.manifest())
        .with_context(|| format!("read the manifest in {}", directory.display()))?;
    let source = match results.workloads()? {
        Some(workloads) => Source::Read {
            workloads,
            files: String::new(),
        },
        None => Source::of(
            &arguments.bounds,
            &arguments.selection,
            arguments.all,
            &arguments.files,
        )?,
    };
    let machine = arguments.file_system.machine()?;
    same_sweep(&arguments, &machine, results.manifest(), directory)?;
    campaign::say(&format!(
        "continuing in {}: {} results are there",
        directory.display(),
        results.count()
    ));
    arguments.sweep(source, machine, Some(results), interrupt)
}

/// The arguments that a sweep was begun with.
pub(crate) fn recorded_arguments(command: &Command, manifest: &Manifest) -> anyhow::Result<FsArgs> {
    let words = std::iter::once(command.get_name().to_owned()).chain(options::words(manifest));
    let matches = command.clone().try_get_matches_from(words)?;
    let mut arguments = FsArgs::from_arg_matches(&matches)?.settle();
    arguments.file_system.hold_against(&manifest.specifications);
    Ok(arguments)
}

/// Fails if what those arguments come to here is not what they came to when the sweep was begun.
fn same_sweep(
    arguments: &FsArgs,
    machine: &Machine,
    manifest: &Manifest,
    directory: &Path,
) -> anyhow::Result<()> {
    let mut here = Manifest::new(
        &arguments.file_system,
        Kernel::of(machine)?,
        manifest.options.clone(),
        manifest.shard.clone(),
        manifest.workloads.clone(),
    )?;
    here.workloads_hash.clone_from(&manifest.workloads_hash);
    if let Some(difference) = manifest.difference(&here) {
        bail!(
            "the sweep in {} cannot go on here: {difference}",
            directory.display()
        );
    }
    Ok(())
}

/// The arguments of a sweep that is continued: those that it was begun with, but for what may change.
fn continued(command: &Command, given: &FsArgs, manifest: &Manifest) -> anyhow::Result<FsArgs> {
    let mut arguments = recorded_arguments(command, manifest)?;
    arguments.format = given.format;
    arguments.stop_after = given.stop_after;
    let jobs = u16::try_from(manifest.jobs).ok();
    arguments.file_system.jobs = given.file_system.jobs.or(jobs);
    Ok(arguments)
}

impl FsArgs {
    /// Sweeps, without what `results` has already.
    fn sweep(
        &self,
        source: Source,
        machine: Machine,
        results: Option<Results>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let mut command = SweepCommand::new(&self.file_system, machine, self.format);
        command.subcommand = Some("fs");
        command.stop_after = self.stop_after;
        let shard = self.selection.shard;
        match source {
            Source::Generated(generated) => {
                let chosen = generated.choose();
                self.say_chosen(&chosen);
                Ok(command.run(&|| chosen.iter(), chosen.count(), results, interrupt)?)
            }
            Source::Read { workloads, .. } => {
                let source = || -> NumberedWorkloads<'_> {
                    Box::new(sharded(shard, workloads.iter().cloned()).map(Ok))
                };
                let total = sharded(shard, workloads.iter()).count() as u64;
                Ok(command.run(&source, total, results, interrupt)?)
            }
            Source::Stream(stream) => {
                let numbered = sharded_stream(shard, stream);
                let numbered =
                    numbered.map(|(number, workload)| workload.map(|workload| (number, workload)));
                Ok(command.run_stream(Box::new(numbered), interrupt)?)
            }
        }
    }

    fn say_chosen(&self, chosen: &Chosen<'_>) {
        let SelectionArgs { sample, seed, .. } = &self.selection;
        if let Some(sample) = sample {
            campaign::say(&format!("sampling {sample} with --seed {seed}"));
        }
        if let Some(removed) = chosen.removed().filter(|removed| removed.count() > 0) {
            campaign::say(&removed.to_string());
        }
    }
}
