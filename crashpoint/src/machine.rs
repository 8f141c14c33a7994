//! `crashpoint machine`: a command in a guest.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome};
use clap::Args;
use machine::{End, GuestCommand, Running, Uml};
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
    let ended = run_command(&uml, command, Interrupted::Kill, interrupt)?;
    Ok(ended.map_or(Outcome::Incomplete, |ended| {
        Outcome::Command(ended.status as u8)
    }))
}

/// What becomes of a command when somebody interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// Its guest is ended.
    Kill,
    /// It is asked to end, as it has something to say. Who asks twice ends this program, and with it the
    /// guest.
    Ask,
}

/// What a kernel says on its console when it ends a process since there is no memory.
const OUT_OF_MEMORY: &str = "Out of memory: Killed process";

/// How a command in a guest ended.
pub(crate) struct Ended {
    pub(crate) status: i32,
    /// The guest's kernel has ended a process, since there was no memory.
    pub(crate) is_out_of_memory: bool,
}

/// Runs a command in a guest, and says how it ended; nothing if its guest was ended.
///
/// # Errors
/// If the guest cannot be started, or breaks off.
pub(crate) fn run_command(
    uml: &Uml,
    command: GuestCommand,
    interrupted: Interrupted,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Ended>> {
    let mut running = uml.start_command(command)?;
    running.show_console();
    if !show(&mut running, interrupted, interrupt)? {
        return Ok(None);
    }
    let end = running.end();
    match (running.command_status(), end) {
        (Some(status), _) => {
            let console = running.console();
            let mut lines = console.iter();
            Ok(Some(Ended {
                status,
                is_out_of_memory: lines.any(|line| line.contains(OUT_OF_MEMORY)),
            }))
        }
        (None, End::Kernel { what, .. } | End::Process(what) | End::Host(what)) => {
            bail!("the guest: {what}")
        }
    }
}

/// A command that is run in this directory, and may write to those that are shared.
pub(crate) fn guest_command(
    words: Vec<OsString>,
    shared: &[PathBuf],
) -> anyhow::Result<GuestCommand> {
    let shared = shared.iter().map(|path| {
        path.canonicalize()
            .with_context(|| format!("share {}", path.display()))
    });
    Ok(GuestCommand {
        words,
        directory: std::env::current_dir().context("find the working directory")?,
        shared: shared.collect::<anyhow::Result<_>>()?,
        environment: Vec::new(),
    })
}

/// Passes on what the command prints, until it has ended; says whether it did by itself.
fn show(
    running: &mut Running,
    interrupted: Interrupted,
    interrupt: &Interrupt,
) -> anyhow::Result<bool> {
    let mut buffer = [0; 1 << 13];
    let mut is_asked = false;
    loop {
        if interrupt.requested() {
            if interrupted == Interrupted::Kill {
                return Ok(false);
            }
            if !is_asked {
                // If it is ending, there is nobody to ask.
                let _ = running.terminate_command();
                is_asked = true;
            }
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
