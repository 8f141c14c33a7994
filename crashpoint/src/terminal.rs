//! A terminal for what a program acknowledges. Into a pipe or a file, the libraries of most languages
//! write only when their buffer is full or the program ends: then every line is said too late.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Context;
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// Gives a command a terminal as standard output, or `otherwise` where there are none. What is
/// written to it is on record, and read by nobody else. It changes no byte.
///
/// # Errors
/// If the terminal cannot be read.
pub(crate) fn give_terminal(
    command: &mut Command,
    otherwise: impl FnOnce() -> anyhow::Result<File>,
) -> anyhow::Result<()> {
    let Ok((master, terminal)) = raw_terminal() else {
        command.stdout(otherwise()?);
        return Ok(());
    };
    // It ends, with an error, when nobody has the terminal any more.
    thread::Builder::new()
        .name("terminal".into())
        .spawn(move || io::copy(&mut &master, &mut io::sink()))
        .context("start the thread that reads the terminal of the program")?;
    // Programs that ask what terminal it is are to print the plain lines that they print elsewhere.
    command.env("TERM", "dumb").env("NO_COLOR", "1");
    command.stdout(Stdio::from(terminal));
    Ok(())
}

/// A terminal without a line discipline, and the side from which it is read.
fn raw_terminal() -> io::Result<(File, File)> {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let terminal = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(ptsname_r(&master)?)?;
    let mut settings = tcgetattr(&terminal)?;
    cfmakeraw(&mut settings);
    tcsetattr(&terminal, SetArg::TCSANOW, &settings)?;
    Ok((File::from(OwnedFd::from(master)), terminal))
}
