//! `crashpoint replay`: a crash state again, mounted for a look.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command as Process};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Command};
use replayer::{Interrupt, Outcome, Recovered, prepare, say};

use super::Named;

/// How often an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The arguments of `crashpoint replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    finding: Named,

    /// Have a shell run COMMAND, with {} in it the directory (or the block device, if it cannot be
    /// mounted), and do not wait for Enter
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

/// Does it.
pub(crate) fn replay(arguments: &ReplayArgs, fs: &Command, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let opened = arguments.finding.open(fs)?;
    let found = &opened.found;
    let search = replayer::search_for(found, &opened.sweep.states)?;
    let machine = opened.sweep.machine()?;
    if machine.is_guest() {
        say("the finding is of a guest's kernel, where nobody can look at it: it is only shown");
        let replayer::FoundWhat::State(state) = &found.what else { return Ok(Outcome::Findings) };
        write!(io::stdout(), "{}", opened.story(&found.workload, state, found.log.as_ref()))?;
        return Ok(Outcome::Findings);
    }
    prepare(std::slice::from_ref(&found.variant), &machine)?;
    opened.note_other_kernel();
    let options = opened.sweep.sweep_options(&machine);
    let mut looked = Ok(());
    let mut hook = |recovered: Recovered<'_>| {
        looked = look(recovered, arguments.command.as_deref(), interrupt);
        Ok(())
    };
    let result = replayer::look(&found.variant, &options, &found.workload, &search, &mut hook)?;
    looked?;
    if !result.broken.is_empty() {
        return Ok(if interrupt.requested() { Outcome::Incomplete } else { Outcome::Findings });
    }
    let why = result.not_measured.map(|why| format!(" ({why})")).unwrap_or_default();
    let path = search.path.as_deref().filter(|path| !path.is_empty()).map(|path| format!(" at {path}"));
    let (promise, path) = (search.promise.name(), path.unwrap_or_default());
    say(&format!("finding {} did not come again: no state breaks {promise}{path}{why}", found.number));
    Ok(Outcome::Incomplete)
}

fn look(recovered: Recovered<'_>, command: Option<&str>, interrupt: &Interrupt) -> anyhow::Result<()> {
    let Recovered { directory, device, state } = recovered;
    say(&format!("the state {} again, after {} operations", state.state, state.operations_done));
    for finding in &state.findings {
        let place = if finding.path.is_empty() { String::new() } else { format!("{}: ", finding.path) };
        say(&format!("broken: {place}{} ({})", finding.what, finding.promise.name()));
    }
    if let Some(command) = command {
        return run(command, directory.unwrap_or(device), interrupt);
    }
    let (place, how) = if let Some(directory) = directory {
        // Its mount namespace is ours alone, and is seen through us.
        let seen = format!("/proc/{}/root{}", std::process::id(), directory.display());
        (seen, "that is where it is mounted: look at it from another terminal; Enter takes it away")
    } else {
        (device.display().to_string(), "it cannot be mounted; that is its disk, until you press Enter")
    };
    writeln!(io::stdout(), "{place}")?;
    say(how);
    wait_for_enter(interrupt);
    Ok(())
}

fn run(command: &str, place: &Path, interrupt: &Interrupt) -> anyhow::Result<()> {
    let script = command.replace("{}", &replayer::quoted(&place.to_string_lossy()));
    let mut child = Process::new("sh").args(["-c", &script]).spawn().context("run sh")?;
    let status = wait(&mut child, interrupt)?;
    if let Some(status) = status.filter(|status| !status.success()) {
        say(&format!("the command ended with {status}"));
    }
    Ok(())
}

/// Waits for a command; none if it was ended because of an interrupt.
fn wait(child: &mut Child, interrupt: &Interrupt) -> anyhow::Result<Option<std::process::ExitStatus>> {
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
fn wait_for_enter(interrupt: &Interrupt) {
    let (read, line) = sync_channel(1);
    std::thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        let _ = read.send(());
    });
    while !interrupt.requested() && line.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {}
}
