//! `crashpoint doctor`: what this machine lacks, and whether the tester may be believed.

mod check;
mod self_test;

use std::io::{self, Write};

use clap::Args;
use local_fs::{FileSystem, find};
use replayer::{Interrupt, Outcome, OutputFormat};
use serde_json::json;

use check::{Check, State};

/// The arguments of `crashpoint doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The file systems that are needed
    #[arg(long = "fs", value_name = "FS[,FS…]", value_delimiter = ',', default_value = "ext4,xfs,btrfs")]
    file_systems: Vec<String>,

    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// Does it.
pub(crate) fn run(arguments: &DoctorArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let mut doctor = Doctor { format: arguments.format, healthy: true };
    let mut machine_is_ready = true;
    for check in check::machine() {
        machine_is_ready &= check.state != State::Missing;
        doctor.print(&check)?;
    }
    for file_system in file_systems(&arguments.file_systems)? {
        let checks = check::file_system(file_system);
        let ready = checks.iter().all(|check| check.state != State::Missing);
        for check in &checks {
            doctor.print(check)?;
        }
        if !(ready && machine_is_ready) {
            continue;
        }
        for check in self_test::run(file_system, interrupt) {
            doctor.print(&check)?;
        }
    }
    Ok(if doctor.healthy { Outcome::Clean } else { Outcome::CouldNotRun })
}

fn file_systems(names: &[String]) -> anyhow::Result<Vec<&'static FileSystem>> {
    names.iter().map(|name| Ok(find(name.trim())?)).collect()
}

struct Doctor {
    format: OutputFormat,
    healthy: bool,
}

impl Doctor {
    fn print(&mut self, check: &Check) -> io::Result<()> {
        self.healthy &= check.state != State::Missing;
        let Check { name, state, detail } = check;
        let mut out = io::stdout().lock();
        match self.format {
            OutputFormat::Json => {
                let check = json!({"type": "check", "name": name, "state": state.name(), "detail": detail});
                writeln!(out, "{check}")?;
            }
            OutputFormat::Text => {
                writeln!(out, "{}", format!("{:<8}  {name:<44}  {detail}", state.name()).trim_end())?;
            }
        }
        out.flush()
    }
}
