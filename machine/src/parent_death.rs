//! Processes that do not outlive us, and leave no core file.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

type Request = (Command, Sender<io::Result<Child>>);

/// Starts a process that is killed when we end, however that comes about.
///
/// The kernel sends that signal when the thread ends that started the process (prctl(2),
/// `PR_SET_PDEATHSIG`), so one thread starts them all, and lives as long as we do.
pub(crate) fn spawn(mut command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Sender<Request>> = OnceLock::new();
    // SAFETY: between fork and exec only two system calls are made, which are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
            Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
        });
    }
    let starter = STARTER.get_or_init(|| {
        let (requests, incoming) = channel::<Request>();
        std::thread::spawn(move || {
            for (mut command, answer) in incoming {
                let _ = answer.send(command.spawn());
            }
        });
        requests
    });
    let (answer, started) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    starter.send((command, answer)).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}
