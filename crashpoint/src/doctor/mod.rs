//! `crashpoint doctor`: what this machine lacks, and whether the tester may be believed.

mod check;
mod requirement;
mod self_test;

use std::io::{self, Write};

use anyhow::bail;
use campaign::{Interrupt, Outcome, OutputFormat, say};
use clap::Args;
use local_fs::{FileSystem, find};
use machine::{Machine, Uml};
use replayer::{KernelArgs, KernelChoice};
use serde_json::json;

use check::{Check, State};
use requirement::Feature;

/// The arguments of `crashpoint doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// What this machine is to do: what is missing for it makes the exit status 2 [default: fs, and
    /// guest without root]
    #[arg(
        long = "for",
        value_enum,
        value_name = "WHAT[,WHAT…]",
        value_delimiter = ','
    )]
    features: Vec<Feature>,

    /// The file systems that are needed
    #[arg(
        long = "fs",
        value_name = "FS[,FS…]",
        value_delimiter = ',',
        default_value = "ext4,xfs,btrfs"
    )]
    file_systems: Vec<String>,

    #[command(flatten)]
    kernel: KernelArgs,

    /// Print the table of what is required, as Markdown, and look at nothing
    #[arg(long)]
    requirements: bool,

    /// How to print what was found
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// Does it.
pub(crate) fn run(arguments: &DoctorArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    if arguments.requirements {
        io::stdout()
            .lock()
            .write_all(requirement::markdown().trim_start().as_bytes())?;
        return Ok(Outcome::Clean);
    }
    let file_systems = file_systems(&arguments.file_systems)?;
    let guest = arguments.guest()?;
    let guest = guest.as_ref().map(|guest| guest as FindGuest<'_>);
    let mut doctor = Doctor {
        format: arguments.format,
        wanted: arguments.wanted(guest.is_some()),
        missing: Vec::new(),
    };
    for row in requirement::TABLE {
        let found = match guest {
            Some(find) if row.name == requirement::UML => check::kernel(find()),
            _ => (row.check)(),
        };
        doctor.take(Check::new(row.name, found), row.needed_by)?;
    }
    doctor.start_guests(guest)?;
    for file_system in file_systems {
        match guest {
            None => doctor.look_at(file_system, interrupt)?,
            Some(find) => doctor.look_at_in_guest(file_system, find(), interrupt)?,
        }
        if interrupt.requested() {
            break;
        }
    }
    Ok(doctor.outcome(interrupt))
}

/// Finds the kernel of guests that somebody named.
type FindGuest<'a> = &'a dyn Fn() -> anyhow::Result<Uml>;

impl DoctorArgs {
    /// What the machine is to do.
    fn wanted(&self, names_guest: bool) -> Vec<Feature> {
        if !self.features.is_empty() {
            return self.features.clone();
        }
        vec![if names_guest && self.kernel.virtual_time {
            Feature::VirtualTime
        } else if names_guest || !nix::unistd::geteuid().is_root() {
            Feature::Guest
        } else {
            Feature::Fs
        }]
    }

    /// Finds the kernel of guests that is named; nothing if none is.
    ///
    /// # Errors
    /// If something is said of one and none is named.
    fn guest(&self) -> anyhow::Result<Option<impl Fn() -> anyhow::Result<Uml>>> {
        if self.kernel.kernel == KernelChoice::Host {
            self.kernel.machine()?;
            return Ok(None);
        }
        Ok(Some(|| match self.kernel.machine()? {
            Machine::Uml(uml) => Ok(uml),
            _ => bail!("--kernel names no guest"),
        }))
    }
}

fn file_systems(names: &[String]) -> anyhow::Result<Vec<&'static FileSystem>> {
    names.iter().map(|name| Ok(find(name.trim())?)).collect()
}

struct Doctor {
    format: OutputFormat,
    /// What the machine is to do.
    wanted: Vec<Feature>,
    /// What it cannot do.
    missing: Vec<Feature>,
}

impl Doctor {
    /// Whether the machine can do what is wanted. What somebody ended says nothing of it.
    fn outcome(&self, interrupt: &Interrupt) -> Outcome {
        if interrupt.requested() {
            say("interrupted: not everything was looked at");
            return Outcome::Incomplete;
        }
        let mut wanted = self.wanted.iter();
        if wanted.all(|feature| self.can(*feature)) {
            Outcome::Clean
        } else {
            Outcome::CouldNotRun
        }
    }

    /// Whether nothing that is needed for it was found missing by now.
    fn can(&self, feature: Feature) -> bool {
        !self.missing.contains(&feature)
    }

    /// Notes for which features something is missing, and prints it.
    fn take(&mut self, check: Check, needed_by: &[Feature]) -> io::Result<()> {
        if check.state != State::Missing {
            return self.print(&check);
        }
        self.missing.extend_from_slice(needed_by);
        let is_wanted = needed_by
            .iter()
            .any(|feature| self.wanted.contains(feature));
        self.print(&if is_wanted { check } else { check.optional() })
    }

    /// Starts a guest, where nothing was found that keeps one from starting: that was said.
    fn start_guests(&mut self, guest: Option<FindGuest<'_>>) -> io::Result<()> {
        let mut started = |name, feature: Feature, uml: FindGuest<'_>, needed_by: &[Feature]| {
            if self.can(feature) {
                self.take(Check::new(name, check::guest(uml())), needed_by)?;
            }
            io::Result::Ok(())
        };
        let guests = [Feature::Guest, Feature::VirtualTime];
        if let Some(named) = guest {
            return started("a guest starts", Feature::Guest, named, &guests);
        }
        let plain = || Ok(Uml::find(None, None)?);
        started("a guest starts", Feature::Guest, &plain, &guests[..1])?;
        let in_virtual_time = || Ok(Uml::find_virtual(None, None, 0)?);
        let name = "a guest in virtual time starts";
        started(name, Feature::VirtualTime, &in_virtual_time, &guests[1..])
    }

    /// What a file system takes, and whether the tester may be believed on it.
    fn look_at(
        &mut self,
        file_system: &'static FileSystem,
        interrupt: &Interrupt,
    ) -> io::Result<()> {
        let (programs, kernel) = check::file_system(file_system);
        let ready = programs
            .iter()
            .chain([&kernel])
            .all(|check| check.state != State::Missing);
        for check in programs {
            self.take(
                check,
                &[
                    Feature::Fs,
                    Feature::Guest,
                    Feature::VirtualTime,
                    Feature::Disk,
                ],
            )?;
        }
        self.take(kernel, &[Feature::Fs, Feature::Disk])?;
        if ready && self.can(Feature::Fs) {
            for check in self_test::run(file_system, &Machine::Host, interrupt) {
                self.take(check, &[Feature::Fs])?;
            }
        }
        Ok(())
    }

    /// The same in a guest with this kernel.
    fn look_at_in_guest(
        &mut self,
        file_system: &'static FileSystem,
        uml: anyhow::Result<Uml>,
        interrupt: &Interrupt,
    ) -> io::Result<()> {
        let needed_by = [Feature::Guest, Feature::VirtualTime];
        let (programs, _) = check::file_system(file_system);
        let ready = programs.iter().all(|check| check.state != State::Missing);
        for check in programs {
            self.take(check, &needed_by)?;
        }
        // Why there is none was said.
        let Some(uml) = uml.ok().filter(|_| ready && self.can(Feature::Guest)) else {
            return Ok(());
        };
        for check in self_test::run(file_system, &Machine::Uml(uml), interrupt) {
            self.take(check, &needed_by)?;
        }
        Ok(())
    }

    fn print(&self, check: &Check) -> io::Result<()> {
        let Check {
            name,
            state,
            detail,
        } = check;
        let mut out = io::stdout().lock();
        match self.format {
            OutputFormat::Json => {
                let check =
                    json!({"type": "check", "name": name, "state": state.name(), "detail": detail});
                writeln!(out, "{check}")?;
            }
            OutputFormat::Text => {
                writeln!(
                    out,
                    "{}",
                    format!("{:<8}  {name:<44}  {detail}", state.name()).trim_end()
                )?;
            }
        }
        out.flush()
    }
}
