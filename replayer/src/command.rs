//! What `replay` and `crashpoint fs` have in common: sweep every file system that was asked
//! for, print, write the results, and say how it went.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use campaign::{Interrupt, Outcome, OutputFormat, one_line, own_call, say};
use local_fs::Variant;
use machine::Machine;
use pace_rules::disk::Disk;
use workloads::Workload;

use crate::args::{FileSystemArgs, NumberedWorkloads, WorkloadIterator};
use crate::error::{During as _, Error, Result};
use crate::import::Import;
use crate::prepare::prepare;
use crate::report::{Report, left_words, print_summary, print_table};
use crate::result::{Verdict, WorkloadResult};
use crate::results_directory::{Recorded, Results};
use crate::sweep::{Summary, SweepOptions, Workers};

/// What the summaries of a sweep amount to.
pub(crate) fn outcome<'a>(mut all: impl Iterator<Item = &'a Summary> + Clone) -> Outcome {
    if all.clone().any(|summary| summary.findings > 0) {
        Outcome::Findings
    } else if all.any(Summary::is_open) {
        Outcome::Incomplete
    } else {
        Outcome::Clean
    }
}

/// A sweep as the command line asks for it.
#[derive(Debug)]
pub struct SweepCommand<'a> {
    /// Which file systems.
    pub file_system: &'a FileSystemArgs,
    /// Where they are swept.
    pub machine: Machine,
    /// How results are printed.
    pub format: OutputFormat,
    /// The subcommand of this program that does it, if it has those.
    pub subcommand: Option<&'static str>,
    /// Stop once so many workloads have shown something.
    pub stop_after: Option<u64>,
    /// The log of a run that was done elsewhere, if workloads are not to be run, and the command
    /// that imports it.
    pub import: Option<(Import, String)>,
    found: Cell<u64>,
    /// Whether workloads have results already, of any of the file systems.
    has_results: Cell<bool>,
}

impl<'a> SweepCommand<'a> {
    /// A sweep of everything.
    pub fn new(file_system: &'a FileSystemArgs, machine: Machine, format: OutputFormat) -> Self {
        Self {
            file_system,
            machine,
            format,
            subcommand: None,
            stop_after: None,
            import: None,
            found: Cell::new(0),
            has_results: Cell::new(false),
        }
    }

    /// Sweeps every file system with the workloads that `source` starts anew for each, but for
    /// those that `results` has already; `total` is how many there are in all.
    ///
    /// # Errors
    /// If it cannot be done.
    pub fn run<'w>(
        &self,
        source: &dyn Fn() -> NumberedWorkloads<'w>,
        total: u64,
        results: Option<Results>,
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        let variants = self.file_system.variants()?;
        prepare(&variants, &self.machine)?;
        let Some(mut results) = results else {
            let mut rows = Vec::new();
            for variant in variants.into_iter().take_while(|_| !interrupt.requested()) {
                let summary = self.one(&variant, &mut *source(), Some(total), None, interrupt)?;
                rows.push((variant, summary));
            }
            return self.finish(&rows, interrupt);
        };
        let rows = results.rows();
        let has_results = rows.iter().any(|(_, summary)| summary.workloads > 0);
        self.has_results.set(has_results);
        let swept = self.run_into(&mut results, source, total, interrupt);
        if swept.is_err() {
            results.remove_if_empty();
        }
        swept
    }

    fn run_into<'w>(
        &self,
        results: &mut Results,
        source: &dyn Fn() -> NumberedWorkloads<'w>,
        total: u64,
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        for (variant, summary) in results.rows() {
            if interrupt.requested() {
                break;
            }
            let done = &results.of(&variant).done.clone();
            if summary.workloads < total {
                let is_new = |numbered: &Result<(u64, Workload)>| {
                    numbered
                        .as_ref()
                        .map_or(true, |(number, _)| !done.contains(number))
                };
                let left = Some(total - summary.workloads);
                self.one(
                    &variant,
                    &mut source().filter(is_new),
                    left,
                    Some(&mut *results),
                    interrupt,
                )?;
            }
            let count = results.of(&variant).summary.workloads;
            if count != total && !interrupt.requested() {
                return Err(Error::OtherCount {
                    path: results.directory().into(),
                    count,
                    variant,
                    total,
                });
            }
            print_summary(self.format, &variant, &so_far(results.of(&variant), total))
                .map_err(Error::Output)?;
        }
        if !interrupt.requested() {
            results.finish()?;
            return self.finish(&results.rows(), interrupt);
        }
        let outcome = self.finish(&results.rows(), interrupt);
        say(&format!(
            "continue with: crashpoint fs --resume {}",
            results.directory().display()
        ));
        outcome
    }

    /// Sweeps the only file system with workloads that can be read only once.
    ///
    /// # Errors
    /// If it cannot be done, or there are several file systems.
    pub fn run_stream(
        &self,
        stream: NumberedWorkloads<'static>,
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        let variants = self.file_system.variants()?;
        prepare(&variants, &self.machine)?;
        let [variant] = variants.as_slice() else {
            return Err(Error::ReadOnce);
        };
        let mut stream = interruptible(stream, interrupt.clone());
        let summary = self.one(variant, &mut stream, None, None, interrupt)?;
        if summary.workloads == 0 && !summary.interrupted {
            return Err(Error::NoWorkload("standard input".into()));
        }
        self.finish(&[(variant.clone(), summary)], interrupt)
    }

    fn one(
        &self,
        variant: &Variant,
        workloads: &mut (dyn Iterator<Item = Result<(u64, Workload)>> + Send),
        total: Option<u64>,
        mut results: Option<&mut Results>,
        interrupt: &Interrupt,
    ) -> Result<Summary> {
        let mut workers = self.workers(variant, total)?;
        let mut report = self.report(variant, total);
        if let Some(results) = results.as_deref_mut() {
            results.begin(variant, workers.recognise_fua());
        }
        let numbers = Numbers::default();
        let mut workloads = workloads.map(|numbered| Ok(numbers.give_out(numbered?)));
        let mut done = |workload: &Workload, result: WorkloadResult| {
            let number = numbers.take_back(workload);
            let counted = results
                .as_deref_mut()
                .filter(|_| is_final(&result, interrupt));
            if let Some(results) = counted {
                results.append(variant, &report.json(number, workload, &result), &result)?;
            }
            report
                .result(number, workload, &result)
                .map_err(Error::Output)?;
            self.count(&result, interrupt);
            Ok(())
        };
        let summary = workers.run(&mut workloads, interrupt, &mut done);
        report.finish();
        let noted = results.map(|results| results.note_time(variant));
        let summary = summary.during(|| format!("sweep {variant}"))?;
        noted.unwrap_or_else(|| {
            print_summary(self.format, variant, &summary).map_err(Error::Output)
        })?;
        Ok(summary)
    }

    fn report(&self, variant: &Variant, total: Option<u64>) -> Report {
        let contract = self.file_system.contract.as_ref();
        Report::new(self.format, variant, contract, self.replay(variant), total)
    }

    /// Starts those who sweep a file system.
    fn workers(&self, variant: &Variant, total: Option<u64>) -> Result<Workers> {
        let import = self.import.as_ref().map(|(import, _)| import.clone());
        let mut options = SweepOptions {
            import,
            ..self.file_system.sweep_options(&self.machine)
        };
        if let Some(budget) = self.file_system.budget {
            let total = total.ok_or(Error::BudgetOfStream)?;
            options.share = Some(share(budget, options.jobs, total));
        }
        let started = Workers::start(variant, &options);
        let mut workers = started.during(|| format!("prepare {variant}"))?;
        if self.has_results.get() {
            workers.trust_rules();
        }
        if !workers.recognise_fua() {
            if self.file_system.disk.honesty == Disk::DropFua {
                return Err(Error::NoTracefs);
            }
            say(
                "without tracefs FUA cannot be told from a flush: the disk seems to keep more than it must",
            );
        }
        // What cannot be mounted when it is new, such as with wrong options, is not worth a sweep.
        // One that is not new has its place in the result.
        if self.import.is_none() {
            let floor = workers.floor(1, false);
            floor.map_err(|error| Error::NotMounted {
                variant: variant.clone(),
                why: one_line(&error),
            })?;
        }
        Ok(workers)
    }

    /// Notes that there is a result, counts it if it is a finding, and ends the sweep if that was the last one wanted.
    fn count(&self, result: &WorkloadResult, interrupt: &Interrupt) {
        self.has_results.set(true);
        self.found
            .set(self.found.get() + u64::from(result.verdict() == Verdict::Finding));
        if self.stop_after.is_some_and(|most| self.found.get() >= most) {
            interrupt.request();
        }
    }

    /// The command that does it again with one file system, and the workloads that come in.
    fn replay(&self, variant: &Variant) -> String {
        if let Some((_, command)) = &self.import {
            return format!("{} {command}", own_call());
        }
        let subcommand = self
            .subcommand
            .map(|name| format!(" {name}"))
            .unwrap_or_default();
        format!(
            "{}{subcommand} {} -",
            own_call(),
            self.file_system.replay_flags(variant)
        )
    }

    fn finish(&self, rows: &[(Variant, Summary)], interrupt: &Interrupt) -> Result<Outcome> {
        print_table(self.format, rows).map_err(Error::Output)?;
        let left = rows
            .iter()
            .filter_map(|(variant, summary)| left_words(variant, summary));
        left.for_each(|words| say(&words));
        let outcome = outcome(rows.iter().map(|(_, summary)| summary));
        if !interrupt.requested() {
            return Ok(outcome);
        }
        if self.stop_after.is_none_or(|most| self.found.get() < most) {
            say("interrupted: what was done until then is counted");
        }
        // What was printed was found, also where `--resume` tries it again.
        Ok(if self.found.get() > 0 {
            Outcome::Findings
        } else {
            outcome.or_incomplete()
        })
    }
}

/// What is recorded of a file system, with whether that is all.
fn so_far(recorded: &Recorded, total: u64) -> Summary {
    Summary {
        interrupted: recorded.summary.workloads < total,
        ..recorded.summary.clone()
    }
}

/// The numbers of workloads that were given out and have no result yet. The workers know nothing
/// of numbers, and a name may stand for several workloads.
#[derive(Default)]
struct Numbers(Mutex<HashMap<String, Vec<u64>>>);

impl Numbers {
    fn give_out(&self, (number, workload): (u64, Workload)) -> Workload {
        let mut given_out = self.0.lock().expect("no holder panics");
        let numbers = given_out.entry(workload.to_line()).or_default();
        numbers.push(number);
        workload
    }

    /// Of workloads that are equal in everything it does not matter which is which.
    fn take_back(&self, workload: &Workload) -> u64 {
        let mut given_out = self.0.lock().expect("no holder panics");
        let line = workload.to_line();
        let numbers = given_out
            .get_mut(&line)
            .expect("a result is of what was given out");
        let number = numbers.pop().expect("a workload has one result");
        if numbers.is_empty() {
            given_out.remove(&line);
        }
        number
    }
}

/// Whether a result is final. What is inconclusive, or died, may be so because it was interrupted:
/// `--resume` tries it again.
fn is_final(result: &WorkloadResult, interrupt: &Interrupt) -> bool {
    result.is_measured() || !interrupt.requested()
}

/// Reads a stream to its end, or until an interrupt.
///
/// # Errors
/// If it holds something else than workloads, or none.
pub fn read_to_end(
    stream: WorkloadIterator<'static>,
    interrupt: &Interrupt,
) -> Result<Vec<Workload>> {
    let workloads = interruptible(stream, interrupt.clone()).collect::<Result<Vec<_>>>()?;
    if workloads.is_empty() && !interrupt.requested() {
        return Err(Error::NoWorkload("standard input".into()));
    }
    Ok(workloads)
}

/// Reads a stream in a thread of its own, so that whoever waits for the next workload notices
/// an interrupt. The thread ends with the stream, or with the process.
fn interruptible<T: Send + 'static>(
    stream: Box<dyn Iterator<Item = T> + Send>,
    interrupt: Interrupt,
) -> impl Iterator<Item = T> + Send {
    const READ_AHEAD_MAX: usize = 16;
    const LOOK_UP_EVERY: Duration = Duration::from_millis(100);
    let (read, incoming) = sync_channel(READ_AHEAD_MAX);
    std::thread::spawn(move || {
        stream
            .into_iter()
            .try_for_each(|workload| read.send(workload))
    });
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

/// How long each of so many workloads gets, of which `jobs` are visited at a time, for all to end
/// within a budget.
fn share(budget: Duration, jobs: usize, total: u64) -> Duration {
    let rounds = total.div_ceil(jobs as u64).max(1);
    budget.div_f64(rounds as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_workloads_take_no_longer_than_the_budget() {
        let budget = Duration::from_secs(60);
        for (jobs, total, expected) in [(1, 1, 60), (4, 1, 60), (4, 4, 60), (4, 5, 30), (2, 60, 2)]
        {
            let expected = Duration::from_secs(expected);
            assert_eq!(
                share(budget, jobs, total),
                expected,
                "{jobs} jobs, {total} workloads"
            );
        }
    }
}
