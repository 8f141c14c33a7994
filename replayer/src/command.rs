//! What `replay` and `crashpoint fs` have in common: sweep every file system that was asked
//! for, print, write the results, and say how it went.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, bail};
use local_fs::Variant;
use pace_rules::disk::Disk;
use workloads::Workload;

use crate::args::{FileSystemArgs, WorkloadIterator};
use crate::manifest::manifest;
use crate::pool::Interrupt;
use crate::prepare::prepare;
use crate::report::{OutputFormat, Report, say, summary_json, table};
use crate::result::WorkloadResult;
use crate::results_file::Results;
use crate::sweep::{Summary, Workers};

/// How a command went; the exit status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was found.
    Clean,
    /// A promise was broken.
    Findings,
    /// Something could not be measured, or the user stopped it.
    Incomplete,
    /// Something that is needed is missing, and that was printed.
    CouldNotRun,
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

/// A sweep as the command line asks for it.
#[derive(Debug)]
pub struct SweepCommand<'a> {
    /// Which file systems.
    pub file_system: &'a FileSystemArgs,
    /// How results are printed.
    pub format: OutputFormat,
    /// The directory that results are written to as well.
    pub out: Option<&'a Path>,
    /// Where the workloads are from, in words for the manifest.
    pub source: &'a str,
}

impl SweepCommand<'_> {
    /// Sweeps every file system with the workloads that `source` starts anew for each.
    ///
    /// # Errors
    /// If it cannot be done.
    pub fn run<'w>(
        &self,
        source: &dyn Fn() -> WorkloadIterator<'w>,
        total: Option<u64>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let variants = self.file_system.variants()?;
        prepare(&variants, &self.file_system.machine()?)?;
        self.with_results(&variants, |mut results| {
            let mut rows = Vec::new();
            for variant in &variants {
                if interrupt.requested() {
                    break;
                }
                let summary = self.one(variant, &mut *source(), total, interrupt, results.as_deref_mut())?;
                rows.push((variant.clone(), summary));
            }
            self.finish(&rows, results, interrupt)
        })
    }

    /// Sweeps the only file system with workloads that can be read only once.
    ///
    /// # Errors
    /// If it cannot be done, or there are several file systems.
    pub fn run_stream(&self, stream: WorkloadIterator<'static>, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
        let variants = self.file_system.variants()?;
        prepare(&variants, &self.file_system.machine()?)?;
        let [variant] = variants.as_slice() else {
            bail!("standard input can be read once: name one file system, or give the workloads as files");
        };
        let mut stream = interruptible(stream, interrupt.clone());
        self.with_results(&variants, |mut results| {
            let summary = self.one(variant, &mut stream, None, interrupt, results.as_deref_mut())?;
            if summary.workloads == 0 && !summary.interrupted {
                bail!("no workload in standard input");
            }
            self.finish(&[(variant.clone(), summary)], results, interrupt)
        })
    }

    /// Does `work` with the results directory, which does not stay when nothing came of it.
    fn with_results(
        &self,
        variants: &[Variant],
        work: impl FnOnce(Option<&mut Results>) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<Outcome> {
        let manifest = || manifest(variants, self.file_system, self.source);
        let mut results = self.out.map(|directory| Results::create(directory, &manifest())).transpose()?;
        let outcome = work(results.as_mut());
        if let (Err(_), Some(results)) = (&outcome, results) {
            results.remove_if_empty();
        }
        outcome
    }

    fn one(
        &self,
        variant: &Variant,
        workloads: &mut (dyn Iterator<Item = anyhow::Result<Workload>> + Send),
        total: Option<u64>,
        interrupt: &Interrupt,
        mut results: Option<&mut Results>,
    ) -> anyhow::Result<Summary> {
        let started = Workers::start(variant, &self.file_system.sweep_options(&self.file_system.machine()?));
        let mut workers = started.with_context(|| format!("prepare {variant}"))?;
        if !workers.recognise_fua() {
            if self.file_system.disk == Disk::DropFua {
                bail!("--disk drop-fua needs tracefs, to tell FUA from flushes: see `crashpoint doctor`");
            }
            say("without tracefs FUA cannot be told from a flush: the disk seems to keep more than it must");
        }
        // What cannot be mounted when it is new, such as with wrong options, is not worth a sweep.
        workers.floor(1, false).with_context(|| format!("mount a new {variant}"))?;
        let mut report = Report::new(self.format, variant, self.file_system.replay_flags(variant), total);
        let mut done = |workload: &Workload, result: WorkloadResult| {
            if let Some(results) = results.as_deref_mut() {
                results.append(&report.json(workload, &result))?;
            }
            Ok(report.result(workload, &result)?)
        };
        let summary = workers.run(workloads, interrupt, &mut done);
        report.finish();
        let summary = summary.with_context(|| format!("sweep {variant}"))?;
        if let Some(results) = results {
            results.append(&summary_json(variant, &summary))?;
        }
        if self.format == OutputFormat::Json {
            writeln!(io::stdout(), "{}", summary_json(variant, &summary))?;
        }
        Ok(summary)
    }

    fn finish(
        &self,
        rows: &[(Variant, Summary)],
        results: Option<&mut Results>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let table = table(rows);
        let printed = match self.format {
            OutputFormat::Text => write!(io::stdout(), "{table}").and_then(|()| io::stdout().flush()),
            OutputFormat::Json => Ok(()),
        };
        if let Some(results) = results {
            results.finish(&table)?;
        }
        printed?;
        if interrupt.requested() {
            say("interrupted: what was done until then is counted");
            return Ok(Outcome::of(rows).or_incomplete());
        }
        Ok(Outcome::of(rows))
    }
}

impl Outcome {
    fn or_incomplete(self) -> Self {
        if self == Self::Clean { Self::Incomplete } else { self }
    }
}

/// Reads a stream in a thread of its own, so that whoever waits for the next workload notices
/// an interrupt. The thread ends with the stream, or with the process.
fn interruptible(
    stream: WorkloadIterator<'static>,
    interrupt: Interrupt,
) -> impl Iterator<Item = anyhow::Result<Workload>> + Send {
    const READ_AHEAD_MAX: usize = 16;
    const LOOK_UP_EVERY: Duration = Duration::from_millis(100);
    let (read, incoming) = sync_channel(READ_AHEAD_MAX);
    std::thread::spawn(move || stream.into_iter().try_for_each(|workload| read.send(workload)));
    std::iter::from_fn(move || {
        loop {
            match incoming.recv_timeout(LOOK_UP_EVERY) {
                Ok(workload) => return Some(workload),
                Err(RecvTimeoutError::Timeout) if !interrupt.requested() => {}
                Err(_) => return None,
            }
        }
    })
}
