//! A finding of a program or a cluster in a shorter run: recorded again with fewer operations of
//! the client.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, one_line, quoted, say};
use node_sweep::{
    Concluded, Control, Finding, Judge, Kinds, Level, Place, Request, Requested, Tree, load_trace,
    scratch,
};
use recorder::process::Schedule;
use trace::Action;
use trace_store::Trace;

use super::states::State;
use crate::app::{self, PROGRAM, Recording, check_of, subjects};
use crate::cluster::{self, Ground};
use brief::counted;

/// Tells a client how many operations it is to do at most.
pub(crate) const OPERATIONS: &str = "CRASHPOINT_OPERATIONS";

impl State<'_> {
    /// Looks for the shortest run that still shows the finding, and keeps the results of it.
    pub(super) fn shorten(&self, out: &Path, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
        let finding = self.finding()?;
        if matches!(finding.level(), Level::Recovery | Level::DiskRecovery) {
            bail!(
                "finding {} is of a recovery, which --shorter does not record: minimize it without that",
                finding.number
            );
        }
        refuse(out)?;
        let manifest = &self.recorded.manifest;
        let trace = load_trace(self.directory, manifest)?;
        let out = std::path::absolute(out).context("find the working directory")?;
        // The words of program, client and check lead from there.
        let begun_in = Path::new(&manifest.working_directory);
        std::env::set_current_dir(begun_in)
            .with_context(|| format!("go to {}, where the sweep began", begun_in.display()))?;
        let search = Search {
            state: self,
            finding,
            trace: &trace,
            attempt: beside(&out),
            out,
            interrupt,
        };
        search.run()
    }
}

/// Refuses a directory that has something in it.
fn refuse(directory: &Path) -> anyhow::Result<()> {
    let entries = directory.read_dir();
    if directory.exists() && !entries.is_ok_and(|mut entries| entries.next().is_none()) {
        bail!(
            "{} is no empty directory: name a new one for --shorter",
            directory.display()
        );
    }
    Ok(())
}

/// Where a run is swept until it is known whether it shows the finding.
fn beside(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push("-attempt");
    name.into()
}

struct Search<'a> {
    state: &'a State<'a>,
    finding: &'a Finding,
    /// The run in which it was found.
    trace: &'a Trace,
    out: PathBuf,
    attempt: PathBuf,
    interrupt: &'a Interrupt,
}

/// What came of a shorter run.
enum Attempt {
    /// It shows the finding, after so many lines.
    Found(Box<Finding>, usize),
    NotFound,
    /// There is nothing to look for it in, which is said.
    Failed,
    /// The client printed as many lines as before.
    NotShorter,
    Interrupted,
}

/// The shortest run that shows the finding.
struct Shortest {
    finding: Box<Finding>,
    /// How many the client was told to do.
    operations: u64,
    lines: usize,
    /// How many runs were recorded in all.
    tried: usize,
}

impl Search<'_> {
    fn run(&self) -> anyhow::Result<Outcome> {
        refuse(&self.attempt)?;
        let whole = lines(self.trace);
        let Some(shortest) = self.shortest(whole)? else {
            return Ok(Outcome::Incomplete);
        };
        let Shortest {
            finding,
            operations,
            lines,
            tried,
        } = &shortest;
        write!(
            io::stdout(),
            "FINDING {}  {}  {}: {} down to {lines}, with {OPERATIONS}={operations} ({})\n{}",
            finding.number,
            finding.model,
            finding.relaxation,
            counted(whole, "acknowledgement"),
            counted(*tried, "recording"),
            finding.text()
        )?;
        say(&self.where_it_is(finding));
        if self.interrupt.requested() {
            say("interrupted: there may be a shorter run");
            return Ok(Outcome::Incomplete);
        }
        Ok(Outcome::Findings)
    }

    /// Tries runs that are shorter than the whole one, and keeps the results of the shortest that
    /// shows the finding; nothing if none does, which is said.
    fn shortest(&self, whole: usize) -> anyhow::Result<Option<Shortest>> {
        // With as many operations as there are lines, a client does what it did.
        let (mut too_few, mut enough) = (0, whole.max(1) as u64);
        let (mut operations, mut tried, mut best) = (1, 0, None);
        while too_few + 1 < enough {
            tried += 1;
            match self.attempt(operations)? {
                Attempt::Interrupted => break,
                Attempt::NotShorter if operations == 1 => {
                    say(&format!(
                        "the client printed {whole} lines with {OPERATIONS}=1 as well: it does not \
                         look at it, so no shorter run can be recorded"
                    ));
                    return Ok(None);
                }
                Attempt::NotShorter => enough = operations,
                Attempt::NotFound | Attempt::Failed => too_few = operations,
                Attempt::Found(finding, lines) => {
                    self.keep_attempt(best.is_some())?;
                    best = Some((finding, operations, lines));
                    enough = operations;
                }
            }
            operations = too_few.midpoint(enough).max(1);
        }
        if best.is_none() && !self.interrupt.requested() {
            say(&self.in_vain(tried));
        }
        Ok(best.map(|(finding, operations, lines)| Shortest {
            finding,
            operations,
            lines,
            tried,
        }))
    }

    fn in_vain(&self, tried: usize) -> String {
        format!(
            "finding {} did not come in a shorter run: {} made",
            self.finding.number,
            counted(tried, "recording")
        )
    }

    fn where_it_is(&self, finding: &Finding) -> String {
        format!(
            "the shorter run and its findings are in {0}: crashpoint minimize {0} {1}",
            quoted(&self.out.to_string_lossy()),
            finding.number
        )
    }

    /// Makes the results of the attempt those that are kept, in place of those of a longer run.
    fn keep_attempt(&self, replaces: bool) -> anyhow::Result<()> {
        if replaces {
            fs::remove_dir_all(&self.out)
                .with_context(|| format!("remove {}", self.out.display()))?;
        }
        fs::rename(&self.attempt, &self.out)
            .with_context(|| format!("rename {}", self.attempt.display()))
    }

    /// Records and sweeps a run with so many operations. Its results are left in the directory of
    /// attempts if it shows the finding.
    fn attempt(&self, operations: u64) -> anyhow::Result<Attempt> {
        let told = counted(operations as usize, "operation");
        say(&format!("recording with {told}"));
        // What is mounted meanwhile is seen by this thread only.
        let attempt = std::thread::scope(|scope| {
            let attempt = scope.spawn(|| self.attempt_here(operations));
            attempt.join().expect("it does not panic")
        });
        // A program, or its check, need not bear to do so little.
        let attempt = match attempt {
            Ok(attempt) => attempt,
            Err(_) if self.interrupt.requested() => Attempt::Interrupted,
            Err(error) => {
                say(&format!("{told}: {}", one_line(&*error)));
                Attempt::Failed
            }
        };
        if let Attempt::Found(finding, _) = &attempt {
            let (before, number) = (self.finding.number, finding.number);
            say(&format!(
                "{told}: finding {before} is finding {number} there"
            ));
            return Ok(attempt);
        }
        if matches!(attempt, Attempt::NotFound) {
            say(&format!(
                "{told}: finding {} is not there",
                self.finding.number
            ));
        }
        if self.attempt.exists() {
            fs::remove_dir_all(&self.attempt)
                .with_context(|| format!("remove {}", self.attempt.display()))?;
        }
        Ok(attempt)
    }

    fn attempt_here(&self, operations: u64) -> anyhow::Result<Attempt> {
        let request = &self.state.recorded.manifest.request;
        let Some(trace) = self.recorded(request, operations)? else {
            // Else what was recorded is not what the program left.
            return Ok(if self.interrupt.requested() {
                Attempt::Interrupted
            } else {
                Attempt::Failed
            });
        };
        let lines = lines(&trace);
        if lines >= self::lines(self.trace) {
            return Ok(Attempt::NotShorter);
        }
        let Concluded {
            findings, failure, ..
        } = self.swept(request, &trace)?;
        if let Some(error) = failure {
            return Err(error.into());
        }
        let wanted = Kinds::new(self.trace).of(&self.finding.complaint);
        let kinds = Kinds::new(&trace);
        let found = findings.into_iter().find(|finding| {
            finding.level() == self.finding.level() && kinds.of(&finding.complaint) == wanted
        });
        Ok(match found {
            // What an interrupt cut off shows less than there is.
            None if self.interrupt.requested() => Attempt::Interrupted,
            None => Attempt::NotFound,
            Some(finding) => Attempt::Found(Box::new(finding), lines),
        })
    }

    /// Records a run; nothing if somebody interrupts.
    fn recorded(&self, request: &Request, operations: u64) -> anyhow::Result<Option<Trace>> {
        if request.judge == Judge::Cluster {
            let ground = Ground::new(self.trace, self.state.directory, self.interrupt)?;
            return cluster::record_again(&ground.file, operations, self.interrupt);
        }
        let scratch = scratch()?;
        // What it began with is a part of the run.
        let begun = scratch.path().join("begun");
        let node = self.trace.run.nodes.first();
        let initial = &node.context("the trace has no node")?.initial;
        Tree::initial(initial, self.trace)
            .write_to(&begun)
            .with_context(|| format!("write {}", begun.display()))?;
        let words: Vec<OsString> = app::told(self.trace)?;
        let disk = self.trace.disks.get(PROGRAM);
        let disk = disk.map(|disk| anyhow::Ok((&*disk.file_system, self.schedules()?)));
        let recording = Recording {
            program: &words,
            copied: Some(&begun),
            disk: disk.transpose()?,
            request,
            operations: Some(operations),
            interrupt: self.interrupt,
        };
        recording.record(scratch.path())
    }

    fn schedules(&self) -> anyhow::Result<Vec<Schedule>> {
        let recordings = self.trace.recordings();
        let schedules = recordings.map(|trace| trace.schedule().parse::<Schedule>());
        schedules
            .collect::<Result<_, _>>()
            .map_err(anyhow::Error::msg)
    }

    /// Visits the states of a run as those of the first one were.
    fn swept(&self, request: &Request, trace: &Trace) -> anyhow::Result<Concluded> {
        let manifest = &self.state.recorded.manifest;
        let what = Requested {
            trace,
            name: manifest.name.clone(),
            request: request.clone(),
            explore: request.explore_of(trace)?,
            shard: None,
        };
        let control = Control {
            jobs: manifest.jobs,
            budget: None,
            stop_after: None,
            interrupt: self.interrupt,
        };
        let begun = what.begin(&self.attempt, manifest.jobs);
        let mut results = begun.context("begin the results")?;
        if request.judge == Judge::Cluster {
            let ground = Ground::new(trace, &self.attempt, self.interrupt)?;
            return Ok(what.run(Some(&mut results), &mut ground.subjects(), &control)?);
        }
        let scratch = scratch()?;
        let place = Place::of(trace, PROGRAM, scratch.path())?;
        let check = check_of(&request.judge, None, self.interrupt)?;
        let mut subjects = subjects(scratch.path(), &place, &check);
        Ok(what.run(Some(&mut results), &mut subjects, &control)?)
    }
}

/// How many lines were acknowledged in a run.
fn lines(trace: &Trace) -> usize {
    let events = trace.run.nodes.iter().flat_map(|node| &node.events);
    events
        .filter(|event| matches!(event.action, Action::Mark { .. }))
        .count()
}
