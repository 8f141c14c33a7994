//! A program on record: with its data in a directory, or on recorded disks.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use block_dev::Completion;
use brief::counted;
use campaign::Interrupt;
use cluster::Disk;
use local_fs::enter_mount_namespace;
use machine::Logged;
use nix::unistd::{AccessFlags, access};
use node_sweep::{Level, Request, remove_tree};
use recorder::process::{NodeOptions, Schedule, record};
use trace_store::Trace;

use super::PROGRAM;
use crate::finding::OPERATIONS;
use crate::processes::Waiting;
use crate::states;
use crate::terminal::give_terminal;

/// What stands for the directory of data among the words of the program.
pub(super) const DIRECTORY: &str = "{dir}";

/// How a program is recorded.
pub(crate) struct Recording<'a> {
    /// The program and its words.
    pub(crate) program: &'a [OsString],
    /// What its directory is a copy of; nothing if it begins empty.
    pub(crate) copied: Option<&'a Path>,
    /// The file system of the disk on which it has its directory, if it has one, and what is done
    /// on it meanwhile, recording by recording.
    pub(crate) disk: Option<(&'a str, Vec<Schedule>)>,
    /// Which states of it are visited.
    pub(crate) request: &'a Request,
    /// How many operations it is told to do, if it is told.
    pub(crate) operations: Option<u64>,
    /// Ends it.
    pub(crate) interrupt: &'a Interrupt,
}

impl Recording<'_> {
    /// Records it, with its data in the scratch directory, which must be empty. Nothing if somebody
    /// interrupts, or what was recorded is not what it left. Why is said.
    ///
    /// # Errors
    /// If the program cannot be run, or fails.
    pub(crate) fn record(&self, scratch: &Path) -> anyhow::Result<Option<Trace>> {
        match &self.disk {
            None => self.in_directory(&scratch.join("data")),
            Some((file_system, schedules)) => self.on_disks(file_system, schedules, scratch),
        }
    }

    /// Has the program keep its data in a directory. What is there now is in no crash state, and
    /// removed: nobody is to find it by a path that the program kept.
    fn in_directory(&self, data: &Path) -> anyhow::Result<Option<Trace>> {
        self.make_data(data)?;
        let trace = self.record_all(self.options(data))?;
        remove_tree(data)?;
        Ok(trace)
    }

    /// Has it keep its data on disks, a new one for each recording.
    fn on_disks(
        &self,
        file_system: &str,
        schedules: &[Schedule],
        scratch: &Path,
    ) -> anyhow::Result<Option<Trace>> {
        // Nobody else is to see what is mounted.
        enter_mount_namespace()?;
        let mut first: Option<Trace> = None;
        for (number, schedule) in schedules.iter().copied().enumerate() {
            let under = Under {
                schedule,
                file_system,
                number,
                scratch,
            };
            let recorded = self.recorded_under(&under);
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

    /// Records it on a new disk.
    fn recorded_under(&self, under: &Under<'_>) -> anyhow::Result<Option<Trace>> {
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
            ..self.options(&data)
        };
        let recorded = if under.number == 0 {
            self.record_all(options)?
        } else {
            // Of this one only the disk is looked at.
            self.run(options)?
        };
        let Some(mut trace) = recorded else {
            return Ok(None);
        };
        trace.disks.insert(PROGRAM.to_owned(), disk.finish()?);
        Ok(Some(trace))
    }

    /// Records the program; nothing if somebody interrupts, or what was recorded is not what it
    /// left. Why is said.
    fn record_all(&self, options: NodeOptions) -> anyhow::Result<Option<Trace>> {
        let data = options.directory.clone().expect("it has one");
        let Some(trace) = self.run(options)? else {
            return Ok(None);
        };
        if let Some(refused) = refused_words(&trace) {
            campaign::say(&refused);
        }
        if self.request.level == Level::Block {
            // What the disk was asked to do is all that matters.
            return Ok(Some(trace));
        }
        let Some(difference) = states::difference(self.request, &trace, &data)? else {
            return Ok(Some(trace));
        };
        campaign::say(&format!(
            "INCONCLUSIVE  what was recorded is not what the program left; {difference}"
        ));
        Ok(None)
    }

    fn make_data(&self, data: &Path) -> anyhow::Result<()> {
        let Some(from) = self.copied else {
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
    fn options(&self, data: &Path) -> NodeOptions {
        NodeOptions {
            name: PROGRAM.into(),
            directory: Some(data.to_owned()),
            marks: true,
            disk_only: self.request.level == Level::Block,
            ..NodeOptions::default()
        }
    }

    fn run(&self, options: NodeOptions) -> anyhow::Result<Option<Trace>> {
        let data = &options.directory.clone().expect("it has one");
        let command = self.command(data)?;
        let waiting = Waiting::default();
        let cancelled = |pid| {
            waiting.look_at(pid);
            self.interrupt.requested()
        };
        let recorded = record(options, command, &cancelled).map_err(without_interpreter);
        if recorded.is_err() && !data.is_dir() {
            bail!(
                "the program removed its directory of data, or gave it another name: nothing was tested"
            );
        }
        // A terminal interrupts the program as well, and it may have ended of that before us.
        let Some((trace, status)) = recorded?.filter(|_| !self.interrupt.requested()) else {
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

    /// The program, told where to keep its data. What it prints is on record. Ours is for what is
    /// found.
    fn command(&self, data: &Path) -> anyhow::Result<Command> {
        let words = self.program.iter().map(|word| with_directory(word, data));
        let words: Vec<_> = words.collect();
        if words == self.program {
            bail!(
                "the program is not told where to keep its data: put {DIRECTORY} among its words"
            );
        }
        let mut command = Command::new(find(&words[0])?);
        command.args(&words[1..]);
        if let Some(operations) = self.operations {
            command.env(OPERATIONS, operations.to_string());
        }
        let output = data.with_file_name("output");
        give_terminal(&mut command, || {
            fs::File::create(&output).with_context(|| format!("create {}", output.display()))
        })?;
        Ok(command)
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
            "the program was recorded {}, and once more under the schedule {} \
             (--schedules 1 records it once)",
            counted(self.number, "time"),
            self.schedule
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

/// The words with which the program of a trace was recorded, with [`DIRECTORY`] in place of the
/// directory that it had.
///
/// # Errors
/// If the trace does not say how it was started.
pub(crate) fn told(trace: &Trace) -> anyhow::Result<Vec<OsString>> {
    let about = &trace.about;
    let (Some(words), Some(directory)) =
        (about.commands.get(PROGRAM), about.directories.get(PROGRAM))
    else {
        bail!("the trace does not say how the program was started");
    };
    let words = words.iter();
    Ok(words
        .map(|word| word.replace(directory, DIRECTORY).into())
        .collect())
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
