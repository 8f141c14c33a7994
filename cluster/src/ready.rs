//! Whether a node is ready.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::file::Ready;
use crate::ground::Ground;
use crate::log;
use crate::process::kill_group;

/// How long there is between two commands that ask: they take the processor from the node.
const COMMAND_EVERY: Duration = Duration::from_millis(20);

/// Asks a node, again and again, whether it is ready.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// A command that has been started and has not ended.
    running: Option<Child>,
    /// When the last one was seen to have ended.
    ended: Option<Instant>,
}

/// What there is to know of a node.
pub(crate) struct Asked<'a> {
    pub(crate) ground: &'a dyn Ground,
    pub(crate) address: std::net::Ipv4Addr,
    pub(crate) log: &'a Path,
    /// Where its log was when it was started.
    pub(crate) log_from: u64,
    /// Makes a command that runs in the node.
    pub(crate) command: &'a dyn Fn(&[String]) -> Command,
}

impl Probe {
    /// Whether the node is ready. A command that takes its time is started in one call, and looked
    /// after in others.
    pub(crate) fn ask(&mut self, ready: &Ready, asked: &Asked) -> io::Result<bool> {
        match ready {
            Ready::Log(text) => log::has_since(asked.log, asked.log_from, text),
            Ready::Port(port) => {
                let address = SocketAddr::from((asked.address, *port));
                asked.ground.answers(address).map_err(io::Error::other)
            }
            Ready::Command(words) | Ready::Http { words, .. } => {
                let Some(child) = &mut self.running else {
                    if self
                        .ended
                        .is_some_and(|ended| ended.elapsed() < COMMAND_EVERY)
                    {
                        return Ok(false);
                    }
                    let mut command = (asked.command)(words);
                    self.running = Some(
                        command
                            .stdout(Stdio::null())
                            .stderr(Stdio::null())
                            .spawn()?,
                    );
                    return Ok(false);
                };
                let Some(status) = child.try_wait()? else {
                    return Ok(false);
                };
                self.running = None;
                self.ended = Some(Instant::now());
                Ok(status.success())
            }
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(child) = &mut self.running {
            kill_group(child);
        }
    }
}
