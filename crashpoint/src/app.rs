//! `crashpoint app`: the crash states of one program.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use campaign::{Interrupt, Outcome};
use clap::Args;
use local_fs::enter_mount_namespace;
use nix::unistd::{AccessFlags, access, geteuid};
use node_sweep::{Check, CheckCommand, Program, Subject, scratch};
use pace_rules::nodes::Explore;
use recorder::process::{NodeOptions, RecordedDisk, record};

use crate::states::{Level, Subjects, VisitArgs};

/// What stands for the directory of data among the words of the program.
const DIRECTORY: &str = "{dir}";

/// What the only node is called.
const PROGRAM: &str = "program";

/// The arguments of `crashpoint app`.
#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// What looks at a crash state: words for a shell, started for each
    ///
    /// `{dir}` stands for its directory, `{acks}` for a file of the lines that the program had printed
    /// before the crash. It prints `ok`, or `broken` and why, and ends with status 0 or 1. All else,
    /// and one that says nothing, crashes or takes too long, decides nothing.
    #[arg(long, value_name = "COMMAND", required_unless_present = "check_server")]
    check: Option<String>,

    /// The same, but it keeps running, which is faster
    ///
    /// It reads a line with directory and acknowledgements, with a tab between them, for each state,
    /// and answers it with the lines of the verdict and a line `end`.
    #[arg(long, value_name = "COMMAND", conflicts_with = "check")]
    check_server: Option<String>,

    /// What is in the directory of data when the program starts: a copy of this
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Keep the program's data on a recorded disk of its own, with this file system: ext4, xfs, btrfs or
    /// f2fs, and mount options behind a colon
    #[arg(long, value_name = "FILE SYSTEM")]
    disk: Option<String>,

    /// How long the check may take for a state, in seconds
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86400))]
    check_limit: u32,

    #[command(flatten)]
    sweep: VisitArgs,

    /// The program and its words; `{dir}` stands for the directory that it is to keep its data in
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    program: Vec<OsString>,
}

/// Does it.
pub(crate) fn run(arguments: &AppArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    arguments.sweep.refuse()?;
    let scratch = scratch()?;
    let recorded = match &arguments.disk {
        None => arguments.recorded(scratch.path().join("data"), interrupt)?,
        Some(file_system) => arguments.recorded_on(file_system, scratch.path(), interrupt)?,
    };
    let Some((trace, data)) = recorded else { return Ok(Outcome::Incomplete) };
    fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
    let seen_at = geteuid().is_root().then(|| data.clone());
    if seen_at.is_none() && contains(&trace.data, data.as_os_str().as_bytes()) {
        bail!(
            "the program keeps the path of its directory in its files, where only root can show a crash state: run this as root"
        );
    }
    let (command, words) = match (&arguments.check, &arguments.check_server) {
        (Some(words), _) => (CheckCommand::Once(words.clone()), words),
        (None, Some(words)) => (CheckCommand::Serve(words.clone()), words),
        (None, None) => unreachable!("one of them is required"),
    };
    let limit = Duration::from_secs(arguments.check_limit.into());
    let check = Check { command, limit, environment: Vec::new(), interrupt: interrupt.clone() };
    let mut made = 0;
    let mut subjects = |count| {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for _ in 0..count {
            made += 1;
            let directory = scratch.path().join(format!("worker-{made}"));
            fs::create_dir(&directory).with_context(|| format!("create {}", directory.display()))?;
            subjects.push(Box::new(Program::new(directory, seen_at.clone(), &check)));
        }
        Ok(subjects)
    };
    let name = arguments.program.iter().map(|word| campaign::quoted(&word.to_string_lossy()).into_owned());
    let what = Subjects {
        trace: &trace,
        explore: Explore::BruteForce,
        explore_words: "one program",
        name: name.collect::<Vec<_>>().join(" "),
        check: words.clone(),
    };
    arguments.sweep.run(&what, &mut subjects, arguments.sweep.jobs(1), interrupt)
}

impl AppArgs {
    /// With a disk there is something to see at both levels.
    pub(crate) fn settle(mut self) -> Self {
        if self.disk.is_some() {
            self.sweep.states.level.get_or_insert(Level::Both);
        }
        self
    }

    /// Has the program keep its data in a directory. What is there now is in no crash state, and removed:
    /// nobody is to find it by a path that the program kept.
    fn recorded(&self, data: PathBuf, interrupt: &Interrupt) -> anyhow::Result<Option<(trace::Trace, PathBuf)>> {
        if matches!(self.sweep.states.level, Some(Level::Block | Level::Both)) {
            bail!("no disk is recorded for --level: name a file system for it with --disk, such as ext4");
        }
        self.make_data(&data)?;
        let Some(trace) = self.record_all(&data, interrupt)? else { return Ok(None) };
        fs::remove_dir_all(&data).with_context(|| format!("remove {}", data.display()))?;
        Ok(Some((trace, data)))
    }

    /// Has it keep its data on a disk.
    fn recorded_on(
        &self,
        file_system: &str,
        scratch: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<(trace::Trace, PathBuf)>> {
        // Nobody else is to see what is mounted.
        enter_mount_namespace()?;
        let directory = scratch.join("disk");
        fs::create_dir(&directory).with_context(|| format!("create {}", directory.display()))?;
        let mut disk = RecordedDisk::new(file_system, &directory)?;
        let data = disk.data().to_owned();
        fs::remove_dir(&data).with_context(|| format!("remove {}", data.display()))?;
        self.make_data(&data)?;
        disk.begin()?;
        let Some(mut trace) = self.record_all(&data, interrupt)? else { return Ok(None) };
        trace.disks.insert(PROGRAM.to_owned(), disk.finish()?);
        Ok(Some((trace, data)))
    }

    /// Records the program; nothing if somebody interrupts, or what was recorded is not what it left. Why
    /// is said.
    fn record_all(&self, data: &Path, interrupt: &Interrupt) -> anyhow::Result<Option<trace::Trace>> {
        let Some(trace) = self.record(data, interrupt)? else {
            campaign::say("interrupted: the program was ended while it was recorded, and nothing was tested");
            return Ok(None);
        };
        let Some(difference) = self.sweep.difference(&trace, data)? else { return Ok(Some(trace)) };
        campaign::say(&format!("NOT MEASURED  what was recorded is not what the program left; {difference}"));
        Ok(None)
    }

    fn make_data(&self, data: &Path) -> anyhow::Result<()> {
        let Some(from) = &self.dir else {
            return fs::create_dir(data).with_context(|| format!("create {}", data.display()));
        };
        let copied = Command::new("cp").arg("-a").arg("--").arg(from).arg(data).status().context("run cp")?;
        if !copied.success() || !data.is_dir() {
            bail!("{} cannot be copied: --dir takes a directory that can be read", from.display());
        }
        Ok(())
    }

    fn record(&self, data: &Path, interrupt: &Interrupt) -> anyhow::Result<Option<trace::Trace>> {
        let words: Vec<_> = self.program.iter().map(|word| with_directory(word, data)).collect();
        if words == self.program {
            bail!("the program is not told where to keep its data: put {DIRECTORY} among its words");
        }
        let program = find(&words[0])?;
        let mut command = Command::new(program);
        // What it prints is on record. Ours is for what is found.
        let output = data.with_file_name("output");
        let output = fs::File::create(&output).with_context(|| format!("create {}", output.display()))?;
        command.args(&words[1..]).stdout(output);
        let options = NodeOptions {
            name: PROGRAM.into(),
            directory: Some(data.to_owned()),
            marks: true,
            ..NodeOptions::default()
        };
        let recorded = record(options, command, &|| interrupt.requested()).map_err(without_interpreter);
        if recorded.is_err() && !data.is_dir() {
            bail!("the program removed its directory of data, or gave it another name: nothing was tested");
        }
        // A terminal interrupts the program as well, and it may have ended of that before us.
        let Some((trace, status)) = recorded?.filter(|_| !interrupt.requested()) else { return Ok(None) };
        if !status.success() {
            bail!("the program did not end as it should ({status}): nothing was tested");
        }
        Ok(Some(trace))
    }
}

/// Whether bytes are somewhere among others.
fn contains(all: &[u8], part: &[u8]) -> bool {
    let first = part[0];
    let begins = all.iter().enumerate().filter(|(_, byte)| **byte == first);
    begins.into_iter().any(|(place, _)| all[place..].starts_with(part))
}

/// The program of this name, as a shell would find it.
fn find(name: &OsStr) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        let metadata = path.metadata().with_context(|| format!("there is no program {}", path.display()))?;
        if !metadata.is_file() {
            bail!("{} is no program: it is no regular file", path.display());
        }
        if !is_program(path) {
            bail!("{} cannot be run: it is not executable (chmod +x)", path.display());
        }
        return Ok(path.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| is_program(path));
    found.with_context(|| {
        format!("there is no program {} in PATH: install it, or give its path, such as ./program", path.display())
    })
}

fn is_program(path: &Path) -> bool {
    access(path, AccessFlags::X_OK).is_ok() && path.is_file()
}

/// The kernel says of a file that is there that it is not, if what is to run it is not.
fn without_interpreter(error: recorder::process::Error) -> anyhow::Error {
    let is_missing =
        matches!(&error, recorder::process::Error::Start { error, .. } if error.kind() == std::io::ErrorKind::NotFound);
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
    while let Some(place) = rest.windows(DIRECTORY.len()).position(|part| part == DIRECTORY.as_bytes()) {
        made.extend_from_slice(&rest[..place]);
        made.extend_from_slice(directory.as_os_str().as_bytes());
        rest = &rest[place + DIRECTORY.len()..];
    }
    made.extend_from_slice(rest);
    OsString::from_vec(made)
}
