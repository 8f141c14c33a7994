//! `crashpoint replay`: a crash state again, for a look.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Interrupt, Outcome, say};
use clap::{Args, Command};
use machine::{Logged, Machine};
use node_sweep::Recorded;
use replayer::{FoundWhat, GuestLook, Looked, Recovered, Search, SweepOptions, Workers, prepare};

use super::look::LookArgs;
use super::{Named, Opened, live, states};
use crate::inject;

/// How often an interrupt is looked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a guest is asked for where nobody is at a terminal.
const LISTING: &str = "ls -lAR {}";

/// The arguments of `crashpoint replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    finding: Named,

    /// Have a shell run COMMAND, with {} (or {dir}, and {acks} of a program) in it the directory
    /// (or the block device, if it cannot be mounted), and do not wait for Enter. Of a finding in a
    /// guest it runs there, as root; without COMMAND a shell starts there, or, without a terminal,
    /// the files are listed
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,

    /// Of a program or a cluster: only write the state as directories, one for each node, into DIR.
    /// Of a live sweep: keep what the machines say, and all frames, in DIR. Of injected faults: keep
    /// history and logs
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    #[command(flatten)]
    look: LookArgs,
}

/// Does it.
pub(crate) fn replay(
    arguments: &ReplayArgs,
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let command = arguments.command.as_deref();
    if let Some(outcome) = live::replay(
        &arguments.finding.results,
        arguments.finding.number,
        arguments.keep.as_deref(),
        (command, &arguments.look),
        interrupt,
    )? {
        return Ok(outcome);
    }
    if arguments.keep.is_some() && command.is_some() {
        bail!("--keep writes the state, and --command looks at it: give one of them");
    }
    if arguments.look.until.is_some() {
        bail!(
            "--until and --shell are for findings of `crashpoint cluster sweep --live` only: no other run can be stopped in its midst"
        );
    }
    if let Some(outcome) = inject::replay(
        &arguments.finding.results,
        arguments.finding.number,
        (command, arguments.keep.as_deref()),
        interrupt,
    )? {
        return Ok(outcome);
    }
    if let Some(recorded) = Recorded::read(&arguments.finding.results)? {
        let state = states::State {
            directory: &arguments.finding.results,
            recorded,
            number: arguments.finding.number,
        };
        return state.replay(command, arguments.keep.as_deref(), interrupt);
    }
    if arguments.keep.is_some() {
        bail!(
            "--keep is for programs and clusters: of a file system, --command 'cp -a {{}} DIR' does the same"
        );
    }
    of_file_system(&arguments.finding.open(fs)?, arguments, interrupt)
}

/// Makes the crash state of a file system again, and has it looked at.
fn of_file_system(
    opened: &Opened,
    arguments: &ReplayArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let command = arguments.command.as_deref();
    let found = &opened.found;
    if let FoundWhat::Death(_) = &found.what {
        bail!(
            "finding {0} is a kernel that died, which leaves nothing to mount: `crashpoint show {1} {0}` ends with the \
             command that has it die again",
            found.number,
            campaign::quoted(&arguments.finding.results.to_string_lossy())
        );
    }
    let search = replayer::search_for(found, &opened.sweep.states())?;
    let machine = opened.sweep.machine()?;
    prepare(std::slice::from_ref(&found.variant), &machine)?;
    opened.note_other_kernel();
    let options = SweepOptions {
        jobs: 1,
        ..opened.sweep.sweep_options(&machine)
    };
    let visit = Visit {
        opened,
        options: &options,
        search: &search,
        command,
        interrupt,
    };
    let looked = if machine.is_guest() {
        visit.in_guest()?
    } else {
        visit.here()?
    };
    if !looked.seen {
        say(&gone(found.number, &search, looked.why.as_deref()));
        return Ok(Outcome::Incomplete);
    }
    looked.why.iter().for_each(|why| say(why));
    Ok(if interrupt.requested() {
        Outcome::Incomplete
    } else {
        Outcome::Findings
    })
}

/// What is looked for of a file system's finding, and what is done there.
struct Visit<'a> {
    opened: &'a Opened,
    options: &'a SweepOptions,
    search: &'a Search,
    command: Option<&'a str>,
    interrupt: &'a Interrupt,
}

impl Visit<'_> {
    /// Has the crash state looked at in a guest.
    fn in_guest(&self) -> anyhow::Result<Looked> {
        let look = guest_look(self.command, &self.options.machine)?;
        let found = &self.opened.found;
        let mut workers = Workers::start(&found.variant, self.options)?;
        let tell = &mut |recovered: Recovered<'_>| tell_guest(recovered, &look);
        Ok(workers.look(&found.workload, self.search, &look, self.interrupt, tell)?)
    }

    /// Looks at the crash state under this kernel.
    fn here(&self) -> anyhow::Result<Looked> {
        let mut looked = Ok(());
        let mut hook = |recovered: Recovered<'_>| {
            tell(&recovered);
            looked = look(&recovered, self.command, self.interrupt);
            Ok(())
        };
        let found = &self.opened.found;
        let result = replayer::look(
            &found.variant,
            self.options,
            &found.workload,
            self.search,
            &mut hook,
        )?;
        looked?;
        let seen = !result.broken.is_empty();
        Ok(Looked {
            seen,
            why: result.inconclusive.filter(|_| !seen),
        })
    }
}

/// That there is no such state any more, and why.
pub(super) fn gone(number: usize, search: &Search, why: Option<&str>) -> String {
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let path = search.path.as_deref().filter(|path| !path.is_empty());
    let path = path.map(|path| format!(" at {path}")).unwrap_or_default();
    let breaks = match &search.rule {
        Some(rule) if search.rule_facts.is_empty() => format!("violates {rule}"),
        Some(rule) => format!("violates {rule} with the same facts"),
        None => format!("breaks {}", search.promise.name()),
    };
    format!("finding {number} did not come again: no state {breaks}{path}{why}")
}

/// What is done with the state in a guest, whose mounts nobody sees from here.
fn guest_look(command: Option<&str>, machine: &Machine) -> anyhow::Result<GuestLook> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    // Nothing that is typed comes into virtual time.
    if command.is_none() && is_terminal && !machine.has_virtual_time() {
        let set = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let (program, terminal) = (set("SHELL", "sh"), set("TERM", "linux"));
        return Ok(GuestLook::Shell {
            program,
            terminal,
            size: replayer::terminal_size(),
        });
    }
    let script = command.unwrap_or(LISTING).to_owned();
    let directory = std::env::current_dir().context("find the working directory")?;
    Ok(GuestLook::Command { script, directory })
}

fn tell_guest(recovered: Recovered<'_>, look: &GuestLook) {
    tell(&recovered);
    let Recovered {
        directory, device, ..
    } = recovered;
    let place = match directory {
        Some(directory) => format!("mounted in the guest, at {}", directory.display()),
        None => format!(
            "it cannot be mounted; in the guest its disk is {}",
            device.display()
        ),
    };
    match look {
        GuestLook::Shell { program, .. } => say(&format!(
            "{place}: this is {program} there, until you leave it"
        )),
        GuestLook::Command { .. } => say(&place),
    }
}

/// What is wrong with it.
fn tell(recovered: &Recovered<'_>) {
    let Recovered { state, kernel, .. } = recovered;
    say(&format!(
        "the state {} again, after {}",
        state.address(),
        counted(state.operations_done, "operation")
    ));
    for finding in &state.findings {
        let place = if finding.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.path)
        };
        say(&format!(
            "broken: {place}{} ({})",
            finding.what,
            finding.promise.name()
        ));
    }
    kernel
        .iter()
        .for_each(|line| say(&format!("kernel: {line}")));
}

fn look(
    recovered: &Recovered<'_>,
    command: Option<&str>,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let Recovered {
        directory, device, ..
    } = *recovered;
    if let Some(command) = command {
        return run(command, directory.unwrap_or(device), interrupt);
    }
    let (place, how) = if let Some(directory) = directory {
        // Its mount namespace is ours alone, and is seen through us.
        let seen = format!("/proc/{}/root{}", std::process::id(), directory.display());
        (
            seen,
            "that is where it is mounted: look at it from another terminal; Enter takes it away",
        )
    } else {
        (
            device.display().to_string(),
            "it cannot be mounted; that is its disk, until you press Enter",
        )
    };
    writeln!(io::stdout(), "{place}")?;
    say(how);
    wait_for_enter(interrupt);
    Ok(())
}

fn run(command: &str, place: &Path, interrupt: &Interrupt) -> anyhow::Result<()> {
    let script = command.replace("{}", &campaign::quoted(&place.to_string_lossy()));
    run_to_end(Process::new("sh").args(["-c", &script]), interrupt)
}

/// Runs a command, and says how it failed if it did.
pub(super) fn run_to_end(command: &mut Process, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut child = command.spawn_logged().context("run sh")?;
    let status = wait(&mut child, interrupt)?;
    if let Some(status) = status.filter(|status| !status.success()) {
        say(&format!("the command ended with {status}"));
    }
    Ok(())
}

/// Waits for a command; none if it was ended because of an interrupt.
pub(super) fn wait(
    child: &mut Child,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait().context("wait for the command")? {
            return Ok(Some(status));
        }
        if interrupt.requested() {
            let _ = child.kill();
            child.wait().context("wait for the command")?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits for a line, the end of the input, or an interrupt.
pub(super) fn wait_for_enter(interrupt: &Interrupt) {
    let (read, line) = sync_channel(1);
    std::thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        let _ = read.send(());
    });
    while !interrupt.requested() && line.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout)
    {
    }
}
