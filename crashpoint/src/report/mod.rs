//! `crashpoint report`: the results of sweeps as a page to read and as JUnit for CI.

mod inject;
mod junit;
mod live;
mod page;
mod states;
mod sweep;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use campaign::{Outcome, columns, say};

use anyhow::{Context, bail};
use clap::Args;
use itertools::Itertools;
use node_sweep::Recorded;

use inject::Injected;
use junit::printable;
use live::LiveSweep;
use sweep::Sweep;

/// The arguments of `crashpoint report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Directories of results: what --out named
    #[arg(value_name = "RESULTS", required = true)]
    directories: Vec<PathBuf>,

    /// Write a page that needs nothing but a browser, in place of one that may be there
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write JUnit XML, in place of what may be there
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Does it; `fs` is that command as the command line has it. Findings are no failure of it.
pub(crate) fn run(arguments: &ReportArgs, fs: &clap::Command) -> anyhow::Result<Outcome> {
    if arguments.html.is_some() && arguments.html == arguments.junit {
        bail!("--html and --junit name the same file: give each its own");
    }
    let (live, directories) = live::read(&arguments.directories)?;
    let (injected, directories) = inject::read(&directories)?;
    let (states, directories) = of_states(&directories)?;
    let read = Read {
        sweeps: read(&directories, fs)?,
        states,
        live,
        injected,
    };
    if arguments.html.is_none() && arguments.junit.is_none() {
        io::stdout().write_all(would_write(&read).as_bytes())?;
        say(
            "nothing was written: --html FILE writes a page of these findings to FILE, --junit FILE \
             their test cases for CI",
        );
        return Ok(Outcome::CouldNotRun);
    }
    if let Some(path) = &arguments.html {
        write(path, &read.page()?)?;
    }
    if let Some(path) = &arguments.junit {
        write(path, &junit::junit(&read)?)?;
    }
    Ok(Outcome::Clean)
}

/// The results of a sweep of a program or a cluster, and their directory.
type OfStates = (PathBuf, Recorded);

/// What was read, by what it is of.
struct Read {
    sweeps: Vec<Sweep>,
    states: Vec<OfStates>,
    live: Vec<LiveSweep>,
    injected: Vec<Injected>,
}

impl Read {
    /// The directories, with what was swept, and how many findings there are.
    fn named(&self) -> impl Iterator<Item = (&Path, String, usize)> {
        let sweeps = self.sweeps.iter().map(|sweep| {
            let swept = sweep.overview.file_systems.iter();
            let swept = swept.map(|swept| swept.variant.to_string()).join(", ");
            (&*sweep.directory, swept, sweep.findings.all.len())
        });
        let states = self.states.iter().map(|(directory, recorded)| {
            let name = printable(&recorded.manifest.name).into_owned();
            (&**directory, name, recorded.findings.len())
        });
        let live = self.live.iter();
        let live = live.map(|sweep| (&*sweep.directory, sweep.name(), sweep.findings().len()));
        let injected = self.injected.iter();
        let injected = injected.map(|all| (&*all.directory, all.name(), all.findings().len()));
        sweeps.chain(states).chain(live).chain(injected)
    }

    fn page(&self) -> anyhow::Result<String> {
        let Self {
            sweeps,
            states,
            live,
            injected,
        } = self;
        match (&**sweeps, &**states, &**live, &**injected) {
            (_, [], [], []) => page::page(sweeps),
            ([], _, [], []) => states::page(states),
            ([], [], _, []) => live::page(live),
            ([], [], [], _) => inject::page(injected),
            _ => bail!(
                "a page is of file systems, of programs and clusters, of live sweeps, or of injected \
                 faults: write one for each"
            ),
        }
    }
}

/// The directories of sweeps of programs and clusters, and the others.
fn of_states(directories: &[PathBuf]) -> anyhow::Result<(Vec<OfStates>, Vec<PathBuf>)> {
    let (mut states, mut others) = (Vec::new(), Vec::new());
    for directory in directories {
        match Recorded::read(directory)? {
            Some(recorded) => states.push((directory.clone(), recorded)),
            None => others.push(directory.clone()),
        }
    }
    Ok((states, others))
}

fn read(directories: &[PathBuf], fs: &clap::Command) -> anyhow::Result<Vec<Sweep>> {
    let mut seen = Vec::new();
    for directory in directories {
        let real = directory
            .canonicalize()
            .with_context(|| format!("open {}", directory.display()))?;
        if seen.contains(&real) {
            bail!("{} is named twice: name it once", directory.display());
        }
        seen.push(real);
    }
    directories
        .iter()
        .map(|directory| Sweep::read(directory, fs))
        .collect()
}

/// What would be written if somebody said where.
fn would_write(read: &Read) -> String {
    let mut rows = vec![["results", "swept", "findings"].map(str::to_owned).to_vec()];
    rows.extend(read.named().map(|(directory, swept, findings)| {
        vec![directory.display().to_string(), swept, findings.to_string()]
    }));
    columns(&rows)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = std::fs::write(path, text);
    written.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => " (its directory is not there)",
            io::ErrorKind::StorageFull => " (free some space)",
            _ => "",
        };
        anyhow::anyhow!("write {}: {error}{advice}", path.display())
    })?;
    say(&format!("wrote {}", path.display()));
    Ok(())
}
