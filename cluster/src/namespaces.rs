//! The namespaces of one node.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::error::{Context, Error, Result};
use crate::hidden::{
    ENTER_COMMAND, EnterSpec, NODE_COMMAND, NODE_IS_MADE, NodeSpec, temporary_directory,
};
use crate::network::Connected;

/// This program; what it is started as does not depend on whether its file is still there.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The namespaces of one node, and its first process, which keeps them. When this is dropped all
/// processes in them are killed, and the rest goes with the last of them; the network is another's.
#[derive(Debug)]
pub(crate) struct Namespaces {
    first: Child,
}

impl Namespaces {
    /// Makes them, but for that of the network, which is there.
    ///
    /// # Errors
    /// Without root, or if the kernel lacks something.
    pub(crate) fn new(network: &Connected, spec: &NodeSpec) -> Result<Self> {
        let this = network.inside(|| {
            unshare(CloneFlags::CLONE_NEWPID).doing(|| "make a process namespace".into())?;
            let mut command = Command::new(OWN_PROGRAM);
            command.arg(NODE_COMMAND).process_group(0);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
                .spawn()
                .map(|first| Self { first })
                .doing(|| "start a node's first process".into())
        })?;
        this.make(spec)
    }

    fn make(mut self, spec: &NodeSpec) -> Result<Self> {
        let mut line = serde_json::to_string(spec).expect("it is plain data");
        line.push('\n');
        let mut answer = String::new();
        let input = self.first.stdin.as_mut().expect("piped");
        let told = input.write_all(line.as_bytes()).and_then(|()| {
            BufReader::new(self.first.stdout.as_mut().expect("piped")).read_line(&mut answer)
        });
        told.doing(|| format!("speak with the first process of {}", spec.name))?;
        match answer.trim_end() {
            NODE_IS_MADE => Ok(self),
            "" => Err(Error::Command {
                whose: spec.name.clone(),
                what: "ended before it was made".into(),
            }),
            why => Err(Error::Command {
                whose: spec.name.clone(),
                what: format!("cannot be made: {why}"),
            }),
        }
    }

    /// The node's first process, as we see it.
    pub(crate) fn pid(&self) -> u32 {
        self.first.id()
    }

    /// What runs a command here.
    pub(crate) fn command(
        &self,
        words: &[String],
        directory: &Path,
        user: Option<&str>,
    ) -> Command {
        let spec = EnterSpec {
            directory: directory.to_owned(),
            user: user.map(str::to_owned),
        };
        let mut command = Command::new(OWN_PROGRAM);
        command.arg(ENTER_COMMAND).arg(self.pid().to_string());
        command
            .arg(serde_json::to_string(&spec).expect("it is plain data"))
            .args(words);
        // Ctrl-C is for us, who then stop the node.
        command
            .process_group(0)
            .env("TMPDIR", temporary_directory())
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let _ = self.first.kill();
        // The kernel lets it go only when everybody else in its process namespace has ended.
        let _ = self.first.wait();
    }
}
