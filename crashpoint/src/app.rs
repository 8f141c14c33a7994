//! `crashpoint app`: the crash states of one program.

mod recording;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome};
use clap::Args;
use node_sweep::{
    Check, CheckCommand, Judge, Level, Place, Program, Request, Requested, Rule, Subject,
    late_acks, scratch,
};
use recorder::process::Schedule;
use trace_store::Trace;

use crate::recover::{AgainArgs, OfDisk, OfProgram, Recovered};
use crate::states::VisitArgs;

pub(crate) use recording::{Recording, told};

/// So many times a program is recorded on a disk if it is not said.
const RECORDINGS: u64 = 4;

/// And so many times at most.
const RECORDINGS_MAX: u64 = 64;

/// What the only node is called.
pub(crate) const PROGRAM: &str = "program";

const DAY_S: u32 = 24 * 60 * 60;

/// The arguments of `crashpoint app`.
#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Command that judges a crash state, run by a shell for each state
    ///
    /// `{dir}` is the directory of the state, `{acks}` a file with the lines that the program had
    /// printed before the crash. The command prints `ok`, or `broken` and why, and ends with status
    /// 0 or 1. If it ends in another way, says nothing or takes too long, the state is inconclusive;
    /// if it dies of a signal such as SIGSEGV, that is a violation.
    #[arg(long, value_name = "COMMAND", required_unless_present_any = ["check_server", "resume"], conflicts_with = "resume")]
    check: Option<String>,

    /// The same, but it keeps running, which is faster
    ///
    /// It reads a line with directory and acknowledgements, with a tab between them, for each
    /// state, and answers it with the lines of the verdict and a line `end`.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["check", "resume"])]
    check_server: Option<String>,

    /// Start the program with a copy of this directory as {dir} [default: an empty one]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["resume", "trace"])]
    dir: Option<PathBuf>,

    /// Sweep a recorded trace (`trace` in the directory of --out), and do not run the program
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["resume", "disk", "program"])]
    trace: Option<PathBuf>,

    /// Keep the program's data on a recorded disk of its own, with this file system: ext4, xfs,
    /// btrfs, f2fs, ext3, nilfs2 or reiserfs, and mount options after a colon
    #[arg(long, value_name = "FILE SYSTEM", conflicts_with = "resume")]
    disk: Option<String>,

    /// How often the program is recorded on its disk, or under which schedules: quiet, neighbour,
    /// writeback:SEED, with commas between them [default: 4]
    ///
    /// What a crash leaves depends on what else was written to the disk, and when. `quiet`: nothing
    /// is added. `neighbour`: after each call that changes files, another file on the disk is
    /// created and fsynced (on btrfs, the transaction is committed). `writeback:SEED`: after such a
    /// call, pages of what was written are written back (sync_file_range); at some calls another
    /// file is then fsynced, or all is made durable (syncfs). The seed selects calls and pages. The
    /// findings of all recordings are reported.
    #[arg(long, value_name = "N|NAMES", requires = "disk", conflicts_with_all = ["resume", "trace"])]
    schedules: Option<Schedules>,

    #[command(flatten)]
    again: AgainArgs,

    /// With --again: what recovers, in place of the check. A shell runs it, with {dir} as in --check;
    /// it must end with status 0
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "again",
        conflicts_with = "resume"
    )]
    recover: Option<String>,

    /// How long the check may take for a state: seconds, or with a unit, such as 2m
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = whole_seconds, conflicts_with = "resume")]
    check_limit: u32,

    /// Pass a run in which the program printed no line, or changed nothing in its directory
    ///
    /// Without this such a run is inconclusive: no state of it breaks a promise.
    #[arg(long, conflicts_with = "resume")]
    allow_no_acks: bool,

    #[command(flatten)]
    sweep: VisitArgs,

    /// The program and its words; `{dir}` stands for the directory that it is to keep its data in
    #[arg(value_name = "PROGRAM", required_unless_present_any = ["resume", "trace"], conflicts_with = "resume", last = true)]
    program: Vec<OsString>,
}

/// Does it.
pub(crate) fn run(arguments: &AppArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let visit = &arguments.sweep;
    let scratch = scratch()?;
    match &visit.resume {
        Some(directory) => resume(visit, directory, scratch.path(), interrupt),
        None => begin(arguments, scratch.path(), interrupt),
    }
}

fn begin(arguments: &AppArgs, scratch: &Path, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let visit = &arguments.sweep;
    arguments.refuse()?;
    let request = visit.request(Rule::BruteForce, arguments.judge())?;
    let Some(mut trace) = arguments.traced(&request, scratch, interrupt)? else {
        return Ok(Outcome::Incomplete);
    };
    let place = Place::of(&trace, PROGRAM, scratch)?;
    let check = check_of(&request.judge, None, interrupt)?;
    if let Some(warning) = late_acks(&trace.run) {
        campaign::say(&warning);
    }
    let explore = request.explore(None, &trace.run)?;
    if arguments.again.is_wanted() {
        let recovering = Recovering {
            arguments,
            request: &request,
            place: &place,
            check: &check,
            directory: &scratch.join("recoveries"),
            interrupt,
        };
        if !recovering.add_all(&mut trace)? {
            return Ok(Outcome::Incomplete);
        }
    }
    let what = Requested {
        trace: &trace,
        name: name_of(&trace),
        request,
        explore,
        shard: visit.shard,
    };
    let mut subjects = subjects(scratch, &place, &check);
    let control = visit.control(visit.jobs(1), interrupt);
    visit.begin(&what, &mut subjects, &control)
}

/// Continues a sweep.
fn resume(
    visit: &VisitArgs,
    directory: &Path,
    scratch: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let (results, trace) = match visit.open(directory, false)? {
        Ok(opened) => opened,
        Err(outcome) => return Ok(outcome),
    };
    let request = &results.manifest().request;
    let begun_in = &results.manifest().working_directory;
    let check = check_of(&request.judge, Some(begun_in), interrupt)?;
    let place = Place::of(&trace, PROGRAM, scratch)?;
    let explore = request.explore(None, &trace.run)?;
    let mut subjects = subjects(scratch, &place, &check);
    let control = visit.control(visit.jobs(1), interrupt);
    visit.resume(results, &trace, explore, &mut subjects, &control)
}

/// The program and its words, as it was started.
fn name_of(trace: &Trace) -> String {
    let words = trace.about.commands.get(PROGRAM).into_iter().flatten();
    words
        .map(|word| campaign::quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The check of a program, by which its states are judged.
///
/// # Errors
/// If it is to be started in a directory that is not there.
pub(crate) fn check_of(
    judge: &Judge,
    working_directory: Option<&str>,
    interrupt: &Interrupt,
) -> anyhow::Result<Check> {
    let Judge::Program { check, limit_s, .. } = judge else {
        unreachable!("a program is judged by its check")
    };
    if let Some(directory) = working_directory.filter(|directory| !Path::new(directory).is_dir()) {
        bail!(
            "the sweep was begun in {directory}, which is not there: its check may lead from there"
        );
    }
    Ok(Check {
        command: check.clone(),
        limit: Duration::from_secs((*limit_s).into()),
        environment: Vec::new(),
        working_directory: working_directory.map(PathBuf::from),
        interrupt: interrupt.clone(),
    })
}

/// Makes what looks at the states of a program, each in a directory of its own.
pub(crate) fn subjects<'a>(
    scratch: &'a Path,
    place: &'a Place,
    check: &'a Check,
) -> impl FnMut(usize) -> node_sweep::Result<Vec<Box<dyn Subject>>> + 'a {
    let mut made = 0;
    move |count| {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for _ in 0..count {
            made += 1;
            let directory = scratch.join(format!("worker-{made}"));
            fs::create_dir(&directory).map_err(|error| node_sweep::Error::System {
                doing: format!("create {}", directory.display()),
                error,
            })?;
            subjects.push(Box::new(Program::new(
                directory,
                place.seen_at().map(Path::to_owned),
                check,
            )));
        }
        Ok(subjects)
    }
}

impl AppArgs {
    /// With a disk there is something to see at both levels.
    pub(crate) fn settle(mut self) -> Self {
        if self.disk.is_some() {
            self.sweep.states.level.get_or_insert(Level::Both);
        }
        self
    }

    /// How its states are judged.
    fn judge(&self) -> Judge {
        let check = match (&self.check, &self.check_server) {
            (Some(words), _) => CheckCommand::Once(words.clone()),
            (None, words) => CheckCommand::Serve(words.clone().expect("one of them is required")),
        };
        Judge::Program {
            check,
            limit_s: self.check_limit,
            allow_no_acks: self.allow_no_acks,
        }
    }

    /// The trace that was named, or of the program, which is run for it; nothing if somebody
    /// interrupts.
    fn traced(
        &self,
        request: &Request,
        scratch: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Trace>> {
        match &self.trace {
            Some(trace) => Ok(Some(self.loaded(trace)?)),
            None => self.recording(request, interrupt)?.record(scratch),
        }
    }

    /// Refuses what cannot be done together.
    fn refuse(&self) -> anyhow::Result<()> {
        self.sweep.refuse()?;
        self.refuse_again()
    }

    /// Refuses crashes during recovery where there is nothing to record them of.
    fn refuse_again(&self) -> anyhow::Result<()> {
        if self.sweep.states.level()? == Level::Block {
            if self.recover.is_some() {
                bail!(
                    "--recover names a program whose calls are recorded, and --level block looks at none: leave out \
                     one of them"
                );
            }
            return Ok(());
        }
        if self.again.is_wanted() && self.check.is_none() && self.recover.is_none() {
            bail!(
                "--again records a command that recovers, and a check that keeps running is none: name one with \
                 --recover, or the check with --check"
            );
        }
        Ok(())
    }

    /// How the program is to be recorded.
    fn recording<'a>(
        &'a self,
        request: &'a Request,
        interrupt: &'a Interrupt,
    ) -> anyhow::Result<Recording<'a>> {
        if self.disk.is_none() && request.level != Level::Syscalls {
            bail!(
                "no disk is recorded for --level: name a file system for it with --disk, such as ext4"
            );
        }
        let disk = self.disk.as_deref();
        let disk = disk.map(|file_system| anyhow::Ok((file_system, self.schedules()?)));
        Ok(Recording {
            program: &self.program,
            copied: self.dir.as_deref(),
            disk: disk.transpose()?,
            request,
            operations: None,
            interrupt,
        })
    }

    /// What is done on the disk meanwhile, of each recording.
    fn schedules(&self) -> anyhow::Result<Vec<Schedule>> {
        if self.sweep.states.level()? == Level::Syscalls {
            if self.schedules.is_some() {
                bail!(
                    "--schedules is for disks: say --level block or both with it, or leave it out"
                );
            }
            return Ok(vec![Schedule::Quiet]);
        }
        let all = self.schedules.clone();
        Ok(all.map_or_else(|| Schedule::first(RECORDINGS), |Schedules(all)| all))
    }

    /// What was recorded before.
    fn loaded(&self, directory: &Path) -> anyhow::Result<Trace> {
        let trace =
            Trace::load(directory).with_context(|| format!("load {}", directory.display()))?;
        if trace.about.cluster.is_some() {
            bail!(
                "{0} is the trace of a cluster: sweep it with crashpoint cluster sweep {0}",
                directory.display()
            );
        }
        if self.sweep.states.level()? != Level::Syscalls && trace.disks.is_empty() {
            bail!(
                "{} has no disk for --level: record the program with --disk",
                directory.display()
            );
        }
        Ok(trace)
    }
}

/// What is to be recorded of recoveries.
struct Recovering<'a> {
    arguments: &'a AppArgs,
    request: &'a Request,
    place: &'a Place,
    check: &'a Check,
    /// For crash states.
    directory: &'a Path,
    interrupt: &'a Interrupt,
}

impl Recovering<'_> {
    /// Adds the recoveries of all levels to what was recorded. Says whether it came to its end.
    fn add_all(&self, trace: &mut Trace) -> anyhow::Result<bool> {
        let directory = self.directory;
        fs::create_dir(directory).with_context(|| format!("create {}", directory.display()))?;
        for level in self.request.level.each() {
            let Some(recovered) = self.recovered(*level, trace)? else {
                return Ok(false);
            };
            recovered.add_to(trace);
        }
        Ok(true)
    }

    /// Records how the program recovers from crashes of a run, or the file system of its disk; nothing
    /// if somebody interrupts.
    fn recovered(&self, level: Level, trace: &Trace) -> anyhow::Result<Option<Recovered>> {
        let &Self {
            request, interrupt, ..
        } = self;
        let again = self.arguments.again;
        let directory = self.directory.join(if level == Level::Block {
            "disks"
        } else {
            "directories"
        });
        fs::create_dir(&directory).with_context(|| format!("create {}", directory.display()))?;
        let seen_at = self.place.seen_at().map(Path::to_owned);
        let program = Program::new(directory, seen_at, self.check);
        let Some(disk) = trace.disks.get(PROGRAM).filter(|_| level == Level::Block) else {
            let mut who = OfProgram {
                program,
                command: self.arguments.recover.as_deref(),
                check: self.check,
                request,
            };
            return again.record(trace, request, &mut who, interrupt);
        };
        let mut who = OfDisk {
            program,
            disk,
            directory: self.directory,
        };
        again.record(trace, request, &mut who, interrupt)
    }
}

/// A time of whole seconds, up to a day.
fn whole_seconds(words: &str) -> Result<u32, String> {
    let seconds = words.parse::<u64>().or_else(|_| {
        let time = humantime::parse_duration(words).map_err(|error| error.to_string())?;
        if time.subsec_nanos() != 0 {
            return Err("give whole seconds".to_owned());
        }
        Ok(time.as_secs())
    })?;
    match u32::try_from(seconds) {
        Ok(seconds) if (1..=DAY_S).contains(&seconds) => Ok(seconds),
        _ => Err("give 1 second to 24 hours".into()),
    }
}

/// What is done on the disk meanwhile, of each recording.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Schedules(Vec<Schedule>);

impl FromStr for Schedules {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        if let Ok(count) = words.parse() {
            if !(1..=RECORDINGS_MAX).contains(&count) {
                return Err(format!("it is recorded 1 to {RECORDINGS_MAX} times"));
            }
            return Ok(Self(Schedule::first(count)));
        }
        let mut all: Vec<Schedule> = Vec::new();
        for name in words.split(',') {
            let schedule = name.parse()?;
            if all.contains(&schedule) {
                return Err(format!("{schedule} is named twice"));
            }
            all.push(schedule);
        }
        Ok(Self(all))
    }
}
