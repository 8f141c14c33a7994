//! `crashpoint machine`: a command in a guest.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome};
use clap::Args;
use machine::{End, GuestCommand, Running};
use replayer::{KernelArgs, KernelChoice};

/// How often an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The arguments of `crashpoint machine`.
#[derive(Debug, Args)]
pub(crate) struct MachineArgs {
    #[command(flatten)]
    kernel: KernelArgs,

    /// What virtual time and random numbers start from
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..=65536))]
    memory: u64,

    /// A module that the kernel loads first, such as dm-log-writes
    #[arg(long, value_name = "MODULE")]
    load: Vec<String>,

    /// A directory of the host that the command may write to
    #[arg(long, value_name = "DIR")]
    share: Vec<PathBuf>,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Does it.
pub(crate) fn run(mut arguments: MachineArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    arguments.kernel.seed = arguments.seed;
    if arguments.kernel.kernel == KernelChoice::Host {
        arguments.kernel.kernel = KernelChoice::Uml(None);
    }
    let machine::Machine::Uml(mut uml) = arguments.kernel.machine()? else {
        bail!("a command runs in a guest: --kernel uml");
    };
    uml.memory_mib = arguments.memory;
    uml.load.extend(arguments.load);
    let command = guest_command(arguments.command, &arguments.share)?;
    let mut running = uml.start_command(command)?;
    running.show_console();
    if !show(&mut running, interrupt)? {
        return Ok(Outcome::Incomplete);
    }
    let end = running.end();
    match (running.command_status(), end) {
        (Some(status), _) => Ok(Outcome::Command(status as u8)),
        (None, End::Kernel { what, .. } | End::Process(what) | End::Host(what)) => {
            bail!("the guest: {what}")
        }
    }
}

/// A command that is run in this directory, and may write to those that are shared.
fn guest_command(words: Vec<OsString>, shared: &[PathBuf]) -> anyhow::Result<GuestCommand> {
    let shared = shared.iter().map(|path| {
        path.canonicalize()
            .with_context(|| format!("share {}", path.display()))
    });
    Ok(GuestCommand {
        words,
        directory: std::env::current_dir().context("find the working directory")?,
        shared: shared.collect::<anyhow::Result<_>>()?,
    })
}

/// Passes on what the command prints, until it has ended; says whether it did by itself.
fn show(running: &mut Running, interrupt: &Interrupt) -> anyhow::Result<bool> {
    let mut buffer = [0; 1 << 13];
    loop {
        if interrupt.requested() {
            return Ok(false);
        }
        if !running.readable(LOOK_EVERY) {
            if running.has_ended() {
                return Ok(true);
            }
            continue;
        }
        let length = match running.output().read(&mut buffer) {
            Ok(0) => return Ok(true),
            other => other.context("read what the command prints")?,
        };
        let mut out = io::stdout().lock();
        out.write_all(&buffer[..length])
            .and_then(|()| out.flush())?;
    }
}
