//! What `replay` and `crashpoint fs` have in common: sweep every file system that was asked
//! for, print, write the results, and say how it went.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use local_fs::Variant;
use workloads::Workload;

use crate::args::{FileSystemArgs, WorkloadIterator};
use crate::pool::Interrupt;
use crate::report::{OutputFormat, Report, summary_json, table};
use crate::result::WorkloadResult;
use crate::results_file::ResultsFile;
use crate::sweep::{Summary, SweepOptions, sweep};

/// How a command went; the exit status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was found.
    Clean,
    /// A promise was broken.
    Findings,
    /// Something could not be measured, or the user stopped it.
    Incomplete,
    /// Whoever read our output has had enough.
    OutputClosed,
}

impl Outcome {
    fn of(rows: &[(Variant, Summary)]) -> Self {
        if rows.iter().any(|(_, summary)| summary.findings > 0) {
            Self::Findings
        } else if rows.iter().any(|(_, summary)| summary.not_measured > 0 || summary.interrupted) {
            Self::Incomplete
        } else {
            Self::Clean
        }
    }
}

/// The exit status of a command, with its error printed in one line.
pub fn exit(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Clean | Outcome::OutputClosed) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Ok(Outcome::Incomplete) => ExitCode::from(3),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// A sweep as the command line asks for it.
#[derive(Debug)]
pub struct SweepCommand<'a> {
    /// Which file systems.
    pub file_system: &'a FileSystemArgs,
    /// How results are printed.
    pub format: OutputFormat,
    /// Where results are written as well.
    pub out: Option<&'a Path>,
}

impl SweepCommand<'_> {
    /// Sweeps every file system with the workloads that `source` starts anew for each.
    ///
    /// # Errors
    /// If it cannot be done.
    pub fn run(
        &self,
        source: &dyn Fn() -> WorkloadIterator,
        total: Option<u64>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let variants = self.file_system.variants()?;
        prepare(&variants)?;
        let mut results_file = self.out.map(ResultsFile::create).transpose()?;
        let mut rows = Vec::new();
        for variant in variants {
            if interrupt.requested() {
                break;
            }
            let summary = self.one(&variant, &mut *source(), total, interrupt, results_file.as_mut())?;
            rows.push((variant, summary));
        }
        self.finish(&rows)
    }

    /// Sweeps the only file system with workloads that can be read only once.
    ///
    /// # Errors
    /// If it cannot be done, or there are several file systems.
    pub fn run_stream(&self, stream: WorkloadIterator, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
        let variants = self.file_system.variants()?;
        prepare(&variants)?;
        let [variant] = variants.as_slice() else {
            bail!("standard input can be read once: name one file system, or give the workloads as files");
        };
        let mut results_file = self.out.map(ResultsFile::create).transpose()?;
        let mut stream = stream;
        let summary = self.one(variant, &mut *stream, None, interrupt, results_file.as_mut())?;
        if summary.workloads == 0 && !summary.interrupted {
            bail!("no workload in standard input");
        }
        self.finish(&[(variant.clone(), summary)])
    }

    fn one(
        &self,
        variant: &Variant,
        workloads: &mut (dyn Iterator<Item = anyhow::Result<Workload>> + Send),
        total: Option<u64>,
        interrupt: &Interrupt,
        mut results_file: Option<&mut ResultsFile>,
    ) -> anyhow::Result<Summary> {
        let options = SweepOptions { disk: self.file_system.disk, jobs: self.file_system.jobs() };
        let mut report = Report::new(self.format, variant, self.file_system.replay_flags(variant), total);
        let summary =
            sweep(variant, &options, workloads, interrupt, &mut |workload: &Workload, result: WorkloadResult| {
                if let Some(file) = results_file.as_deref_mut() {
                    file.append(&report.json(workload, &result))?;
                }
                Ok(report.result(workload, &result)?)
            });
        report.finish();
        let summary = summary.with_context(|| format!("sweep {variant}"))?;
        if let Some(file) = results_file {
            file.append(&summary_json(variant, &summary))?;
        }
        if self.format == OutputFormat::Json {
            writeln!(io::stdout(), "{}", summary_json(variant, &summary))?;
        }
        Ok(summary)
    }

    fn finish(&self, rows: &[(Variant, Summary)]) -> anyhow::Result<Outcome> {
        if self.format == OutputFormat::Text {
            write!(io::stdout(), "{}", table(rows))?;
            io::stdout().flush()?;
        }
        if rows.iter().any(|(_, summary)| summary.interrupted) {
            eprintln!("interrupted: the table shows what was done until then");
        }
        Ok(Outcome::of(rows))
    }
}

/// Says early what would fail late.
fn prepare(variants: &[Variant]) -> anyhow::Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("root is needed to mount file systems: run it with sudo");
    }
    for variant in variants {
        let row = variant.file_system;
        row.mkfs.find()?;
        row.fsck.find()?;
        if !kernel_has(row.name)? {
            bail!("this kernel has no {name}; try `modprobe {name}`", name = row.name);
        }
    }
    Ok(())
}

/// Whether the kernel has a file system, after loading its module if there is one.
fn kernel_has(name: &str) -> anyhow::Result<bool> {
    let listed = || -> anyhow::Result<bool> {
        let list = std::fs::read_to_string("/proc/filesystems").context("read /proc/filesystems")?;
        Ok(list.lines().any(|line| line.split_whitespace().last() == Some(name)))
    };
    if listed()? {
        return Ok(true);
    }
    // mount(2) does not load modules by itself for a process that names the type.
    let _ = std::process::Command::new("modprobe").arg(name).output();
    listed()
}
