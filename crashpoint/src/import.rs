//! `crashpoint import`: checks what somebody else logged.

use std::path::PathBuf;

use anyhow::bail;
use campaign::{Interrupt, Outcome, OutputFormat, quoted};
use clap::{Args, Command};
use replayer::WorkloadFiles;
use replayer::{FileSystemArgs, Import, NumberedWorkloads, SweepCommand};
use workloads::Workload;

/// The arguments of `crashpoint import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The log: what the log device of dm-log-writes held, as a file
    #[arg(long, value_name = "LOG")]
    log_writes: PathBuf,

    /// What the disk held before the first entry of the log, as a file
    #[arg(long, value_name = "IMAGE")]
    base: PathBuf,

    /// The mark from which on the power may fail, such as one after mkfs [default: the beginning]
    #[arg(long, value_name = "MARK")]
    from: Option<String>,

    #[command(flatten)]
    file_system: FileSystemArgs,

    #[command(flatten)]
    workload: WorkloadFiles,

    /// What a sample of the crash states is drawn with
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// The command as the command line has it.
pub(crate) fn adapt(import: Command) -> Command {
    let import = import.mut_arg("states", |flag| flag.default_value("flushed,every-write"));
    // The disk is there, and one workload is done by one worker.
    let import = ["size", "jobs"].into_iter().fold(import, |import, name| {
        import.mut_arg(name, |flag| flag.conflicts_with("log_writes"))
    });
    ["size", "mkfs_options", "jobs", "again", "again_states"]
        .into_iter()
        .fold(import, |import, name| {
            import.mut_arg(name, |flag| flag.hide(true))
        })
}

impl ImportArgs {
    /// The disk is as large as the one that was logged.
    fn settle(&mut self, import: &Import) -> anyhow::Result<()> {
        let variants = self.file_system.variants()?;
        let [variant] = variants.as_slice() else {
            bail!("a log is of one file system: name one with --fs")
        };
        let size_mib = import.disk_bytes()? >> 20;
        self.file_system.size = Some(size_mib.max(variant.file_system.size_min_mib));
        self.file_system.jobs = Some(1);
        Ok(())
    }
}

/// Does it.
pub(crate) fn run(mut arguments: ImportArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    arguments.file_system.kernel.seed = arguments.seed;
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let (log, base) = (absolute(&arguments.log_writes)?, absolute(&arguments.base)?);
    let import = Import {
        log,
        base,
        from: arguments.from.clone(),
    };
    if arguments.file_system.again > 0 {
        bail!("--again is for workloads that are run here: leave it out");
    }
    arguments.settle(&import)?;
    let workload = workload(&arguments)?;
    for note in import.check(&workload)? {
        campaign::say(&note);
    }
    let command_line = command_line(&arguments, &import);
    let machine = arguments.file_system.machine()?;
    let mut command = SweepCommand::new(&arguments.file_system, machine, arguments.format);
    command.import = Some((import, command_line));
    let source = || -> NumberedWorkloads<'_> { Box::new([Ok((0, workload.clone()))].into_iter()) };
    Ok(command.run(&source, 1, None, interrupt)?)
}

/// The workload that was run, or one without operations that stands for whatever was done.
fn workload(arguments: &ImportArgs) -> anyhow::Result<Workload> {
    if arguments.workload.files.is_empty() {
        return Ok(Workload {
            name: arguments.log_writes.display().to_string(),
            ..Workload::default()
        });
    }
    match <[Workload; 1]>::try_from(arguments.workload.read_all()?) {
        Ok([workload]) => Ok(workload),
        Err(several) => bail!(
            "a log is of one workload, and {} has {}",
            arguments.workload.names(),
            several.len()
        ),
    }
}

/// The command that does it again.
fn command_line(arguments: &ImportArgs, import: &Import) -> String {
    let path = |path: &PathBuf| quoted(&path.display().to_string()).into_owned();
    let mut line = format!(
        "import --log-writes {} --base {}",
        path(&import.log),
        path(&import.base)
    );
    if let Some(from) = &arguments.from {
        line += &format!(" --from {}", quoted(from));
    }
    let variants = arguments.file_system.variants().unwrap_or_default();
    let mut named = arguments.file_system.clone();
    named.size = None;
    for variant in &variants {
        line += &format!(" {}", named.replay_flags(variant));
    }
    for file in &arguments.workload.files {
        line += &format!(" {}", path(file));
    }
    line
}
