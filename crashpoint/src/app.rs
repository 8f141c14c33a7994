//! `crashpoint app`: the crash states of one program.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use block_dev::Completion;
use campaign::{Interrupt, Outcome};
use clap::Args;
use cluster::Disk;
use local_fs::enter_mount_namespace;
use machine::Logged;
use nix::unistd::{AccessFlags, access};
use node_sweep::{
    Check, CheckCommand, Judge, Level, Place, Program, Requested, Rule, Subject, late_acks, scratch,
};
use recorder::process::{NodeOptions, Schedule, record};
use trace_store::Trace;

use crate::recover::{AgainArgs, OfProgram};
use crate::states::{self, VisitArgs};
use crate::terminal::give_terminal;

/// What stands for the directory of data among the words of the program.
const DIRECTORY: &str = "{dir}";

/// So many times a program is recorded on a disk if it is not said.
const RECORDINGS: u64 = 4;

/// And so many times at most.
const RECORDINGS_MAX: u64 = 64;

/// What the only node is called.
pub(crate) const PROGRAM: &str = "program";

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
    /// btrfs or f2fs, and mount options after a colon
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

    /// How long the check may take for a state, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86400), conflicts_with = "resume")]
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
    let control = visit.control(visit.jobs(1), interrupt);
    let scratch = scratch()?;
    if let Some(directory) = &visit.resume {
        let (results, trace) = match visit.open(directory, false)? {
            Ok(opened) => opened,
            Err(outcome) => return Ok(outcome),
        };
        let request = &results.manifest().request;
        let Judge::Program { check, limit_s, .. } = &request.judge else {
            unreachable!("others are refused");
        };
        let begun_in = &results.manifest().working_directory;
        let check = check_of(check, *limit_s, Some(begun_in), interrupt)?;
        let place = Place::of(&trace, PROGRAM, scratch.path())?;
        let explore = request.explore(None, &trace.run)?;
        let mut subjects = subjects(scratch.path(), &place, &check);
        return visit.resume(results, &trace, explore, &mut subjects, &control);
    }
    visit.refuse()?;
    arguments.refuse_again()?;
    let judge = arguments.judge();
    let recorded = match (&arguments.trace, &arguments.disk) {
        (Some(trace), _) => Some(arguments.loaded(trace)?),
        (None, None) => arguments.recorded(&judge, &scratch.path().join("data"), interrupt)?,
        (None, Some(file_system)) => {
            arguments.recorded_on(&judge, file_system, scratch.path(), interrupt)?
        }
    };
    let Some(mut trace) = recorded else {
        return Ok(Outcome::Incomplete);
    };
    let Judge::Program { check, limit_s, .. } = &judge else {
        unreachable!("a program is judged by its check")
    };
    let (place, check) = (
        Place::of(&trace, PROGRAM, scratch.path())?,
        check_of(check, *limit_s, None, interrupt)?,
    );
    if let Some(warning) = late_acks(&trace.run) {
        campaign::say(&warning);
    }
    let request = visit.request(Rule::BruteForce, judge.clone())?;
    let explore = request.explore(None, &trace.run)?;
    if arguments.again.is_wanted() {
        let directory = scratch.path().join("recoveries");
        fs::create_dir(&directory).with_context(|| format!("create {}", directory.display()))?;
        let seen_at = place.seen_at().map(Path::to_owned);
        let mut who = OfProgram {
            program: Program::new(directory, seen_at, &check),
            command: arguments.recover.as_deref(),
            check: &check,
            request: &request,
        };
        let again = arguments.again;
        let Some(recovered) = again.record(&trace, &request, &mut who, interrupt)? else {
            return Ok(Outcome::Incomplete);
        };
        recovered.add_to(&mut trace);
    }
    let what = Requested {
        trace: &trace,
        name: name_of(&trace),
        request,
        explore,
        shard: visit.shard,
    };
    visit.begin(
        &what,
        &mut subjects(scratch.path(), &place, &check),
        &control,
    )
}

/// The program and its words, as it was started.
fn name_of(trace: &Trace) -> String {
    let words = trace.about.commands.get(PROGRAM).into_iter().flatten();
    words
        .map(|word| campaign::quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A check as a manifest has it.
///
/// # Errors
/// If it is to be started in a directory that is not there.
pub(crate) fn check_of(
    command: &CheckCommand,
    limit_s: u32,
    working_directory: Option<&str>,
    interrupt: &Interrupt,
) -> anyhow::Result<Check> {
    if let Some(directory) = working_directory.filter(|directory| !Path::new(directory).is_dir()) {
        bail!(
            "the sweep was begun in {directory}, which is not there: its check may lead from there"
        );
    }
    let (command, limit) = (command.clone(), Duration::from_secs(limit_s.into()));
    let working_directory = working_directory.map(PathBuf::from);
    Ok(Check {
        command,
        limit,
        environment: Vec::new(),
        working_directory,
        interrupt: interrupt.clone(),
    })
}

/// Makes what looks at the states of a program, each in a directory of its own.
fn subjects<'a>(
    scratch: &'a Path,
    place: &'a Place,
    check: &'a Check,
) -> impl FnMut(usize) -> anyhow::Result<Vec<Box<dyn Subject>>> + 'a {
    let mut made = 0;
    move |count| {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for _ in 0..count {
            made += 1;
            let directory = scratch.join(format!("worker-{made}"));
            fs::create_dir(&directory)
                .with_context(|| format!("create {}", directory.display()))?;
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

    /// Refuses crashes during recovery where there is nothing to record them of.
    fn refuse_again(&self) -> anyhow::Result<()> {
        self.again.refuse(&self.sweep)?;
        if self.again.is_wanted() && self.check.is_none() && self.recover.is_none() {
            bail!(
                "--again records a command that recovers, and a check that keeps running is none: name one with \
                 --recover, or the check with --check"
            );
        }
        Ok(())
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

    /// Has the program keep its data in a directory. What is there now is in no crash state, and
    /// removed: nobody is to find it by a path that the program kept.
    fn recorded(
        &self,
        judge: &Judge,
        data: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Trace>> {
        if matches!(self.sweep.states.level, Some(Level::Block | Level::Both)) {
            bail!(
                "no disk is recorded for --level: name a file system for it with --disk, such as ext4"
            );
        }
        self.make_data(data)?;
        let trace = self.record_all(judge, self.options(data)?, interrupt)?;
        fs::remove_dir_all(data).with_context(|| format!("remove {}", data.display()))?;
        Ok(trace)
    }

    /// Has it keep its data on a disk.
    fn recorded_on(
        &self,
        judge: &Judge,
        file_system: &str,
        scratch: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Trace>> {
        // Nobody else is to see what is mounted.
        enter_mount_namespace()?;
        let mut first: Option<Trace> = None;
        for (number, schedule) in self.schedules()?.into_iter().enumerate() {
            let under = Under {
                schedule,
                file_system,
                number,
                scratch,
            };
            let recorded = self.recorded_under(&under, judge, interrupt);
            let recorded = recorded.map_err(|error| under.explain(error))?;
            let Some(trace) = recorded else {
                return Ok(None);
            };
            match &mut first {
                Some(first) => first.others.push(trace),
                None => first = Some(trace),
            }
        }
        Ok(first)
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

    /// Records it on a new disk.
    fn recorded_under(
        &self,
        under: &Under<'_>,
        judge: &Judge,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Trace>> {
        // Each finds its directory at the same path.
        let directory = under.scratch.join("disk");
        if under.number > 0 {
            let before = under.scratch.join(format!("disk-{}", under.number));
            fs::rename(&directory, &before)
                .with_context(|| format!("rename {}", directory.display()))?;
        }
        fs::create_dir(&directory).with_context(|| format!("create {}", directory.display()))?;
        let mut disk = Disk::new(under.file_system, &directory, Completion::AtOnce)?;
        let data = disk.data();
        fs::remove_dir(&data).with_context(|| format!("remove {}", data.display()))?;
        self.make_data(&data)?;
        let bystander = disk.bystander()?;
        disk.begin()?;
        let options = NodeOptions {
            schedule: under.schedule,
            bystander: Some(bystander),
            ..self.options(&data)?
        };
        let recorded = if under.number == 0 {
            self.record_all(judge, options, interrupt)?
        } else {
            // Of this one only the disk is looked at.
            self.record(options, interrupt)?
        };
        let Some(mut trace) = recorded else {
            return Ok(None);
        };
        trace.disks.insert(PROGRAM.to_owned(), disk.finish()?);
        Ok(Some(trace))
    }

    /// Records the program; nothing if somebody interrupts, or what was recorded is not what it
    /// left. Why is said.
    fn record_all(
        &self,
        judge: &Judge,
        options: NodeOptions,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Trace>> {
        let data = options.directory.clone().expect("it has one");
        let Some(trace) = self.record(options, interrupt)? else {
            return Ok(None);
        };
        if let Some(refused) = refused_words(&trace) {
            campaign::say(&refused);
        }
        let request = self.sweep.request(Rule::BruteForce, judge.clone())?;
        if request.level == Level::Block {
            // What the disk was asked to do is all that matters.
            return Ok(Some(trace));
        }
        let Some(difference) = states::difference(&request, &trace, &data)? else {
            return Ok(Some(trace));
        };
        campaign::say(&format!(
            "INCONCLUSIVE  what was recorded is not what the program left; {difference}"
        ));
        Ok(None)
    }

    fn make_data(&self, data: &Path) -> anyhow::Result<()> {
        let Some(from) = &self.dir else {
            return fs::create_dir(data).with_context(|| format!("create {}", data.display()));
        };
        let copied = Command::new("cp")
            .arg("-a")
            .arg("--")
            .arg(from)
            .arg(data)
            .status_logged()
            .context("run cp")?;
        if !copied.success() || !data.is_dir() {
            bail!(
                "{} cannot be copied: --dir takes a directory that can be read",
                from.display()
            );
        }
        Ok(())
    }

    /// How it is recorded with its data there.
    fn options(&self, data: &Path) -> anyhow::Result<NodeOptions> {
        Ok(NodeOptions {
            name: PROGRAM.into(),
            directory: Some(data.to_owned()),
            marks: true,
            disk_only: self.sweep.states.level()? == Level::Block,
            ..NodeOptions::default()
        })
    }

    fn record(&self, options: NodeOptions, interrupt: &Interrupt) -> anyhow::Result<Option<Trace>> {
        let data = &options.directory.clone().expect("it has one");
        let words: Vec<_> = self
            .program
            .iter()
            .map(|word| with_directory(word, data))
            .collect();
        if words == self.program {
            bail!(
                "the program is not told where to keep its data: put {DIRECTORY} among its words"
            );
        }
        let program = find(&words[0])?;
        let mut command = Command::new(program);
        // What it prints is on record. Ours is for what is found.
        let output = data.with_file_name("output");
        command.args(&words[1..]);
        give_terminal(&mut command, || {
            fs::File::create(&output).with_context(|| format!("create {}", output.display()))
        })?;
        let recorded =
            record(options, command, &|| interrupt.requested()).map_err(without_interpreter);
        if recorded.is_err() && !data.is_dir() {
            bail!(
                "the program removed its directory of data, or gave it another name: nothing was tested"
            );
        }
        // A terminal interrupts the program as well, and it may have ended of that before us.
        let Some((trace, status)) = recorded?.filter(|_| !interrupt.requested()) else {
            campaign::say(
                "interrupted: the program was ended while it was recorded, and nothing was tested",
            );
            return Ok(None);
        };
        let refused = refused_words(&trace);
        if !status.success() {
            let why = refused.map_or_else(String::new, |refused| format!("; {refused}"));
            bail!("the program did not end as it should ({status}): nothing was tested{why}");
        }
        Ok(Some(trace))
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

/// One recording of several.
struct Under<'a> {
    schedule: Schedule,
    file_system: &'a str,
    /// So many were made before.
    number: usize,
    scratch: &'a Path,
}

impl Under<'_> {
    /// Why it failed: a program that was recorded before need not bear to be recorded again.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        if self.number == 0 {
            return error;
        }
        error.context(format!(
            "the program was recorded {} times, and once more under the schedule {} \
             (--schedules 1 records it once)",
            self.number, self.schedule
        ))
    }
}

/// What was refused to the program, if anything was.
fn refused_words(trace: &Trace) -> Option<String> {
    let calls: Vec<_> = trace.about.refused.keys().map(String::as_str).collect();
    (!calls.is_empty()).then(|| {
        format!(
            "{} was refused (ENOSYS), since what goes through it cannot be followed: the program \
             has to do without, or be tested with --disk and --level block",
            calls.join(" and ")
        )
    })
}

/// The program of this name, as a shell would find it.
fn find(name: &OsStr) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        let metadata = path
            .metadata()
            .with_context(|| format!("there is no program {}", path.display()))?;
        if !metadata.is_file() {
            bail!("{} is no program: it is no regular file", path.display());
        }
        if !is_program(path) {
            bail!(
                "{} cannot be run: it is not executable (chmod +x)",
                path.display()
            );
        }
        return Ok(path.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join(path))
        .find(|path| is_program(path));
    found.with_context(|| {
        format!(
            "there is no program {} in PATH: install it, or give its path, such as ./program",
            path.display()
        )
    })
}

fn is_program(path: &Path) -> bool {
    access(path, AccessFlags::X_OK).is_ok() && path.is_file()
}

/// The kernel says of a file that is there that it is not, if what is to run it is not.
fn without_interpreter(error: recorder::process::Error) -> anyhow::Error {
    let is_missing = matches!(
        &error,
        recorder::process::Error::Trace(tracer::Error::Start { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound
    );
    let error = anyhow::Error::from(error);
    if is_missing {
        anyhow!("{error}: the interpreter that its first line or its header names is not there")
    } else {
        error
    }
}

/// A word with the directory in place of what stands for it.
fn with_directory(word: &OsStr, directory: &Path) -> OsString {
    let (mut rest, mut made) = (word.as_bytes(), Vec::new());
    while let Some(place) = rest
        .windows(DIRECTORY.len())
        .position(|part| part == DIRECTORY.as_bytes())
    {
        made.extend_from_slice(&rest[..place]);
        made.extend_from_slice(directory.as_os_str().as_bytes());
        rest = &rest[place + DIRECTORY.len()..];
    }
    made.extend_from_slice(rest);
    OsString::from_vec(made)
}
