//! File systems that a process serves: started, waited for, and ended with its mount.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use brief::Brief;
use machine::{Logged, open_process, signal_process, words_of};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::mount::{MntFlags, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::statfs::{FUSE_SUPER_MAGIC, statfs};
use nix::unistd::{Pid, pipe2};

use crate::dies_with_thread::{dies_with_thread, keeps_its_mount_namespace, leave_descriptors};
use crate::error::Context;
use crate::table::Driver;
use crate::{Error, Result, Variant};

/// How long a driver may take to mount what is on the disk, and to end when that is unmounted.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether the mount is there.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// How long a driver that was killed is waited for: it may wait for a disk that is gone.
const KILLED_PATIENCE: Duration = Duration::from_secs(5);

/// So much of what a driver prints is kept.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// Lines of it that are shown.
const LINES_MAX: usize = 3;

/// Signals that come from somebody, such as who is short of memory, and not of what a program does.
const SENT: [i32; 5] = [
    libc::SIGKILL,
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
];

/// How a file system is mounted by whatever serves it.
const OPTIONS: [&str; 3] = ["noatime", "nodev", "nosuid"];

/// A driver at work. Killed, and waited for, when dropped before it has ended.
///
/// It is the child of a thread that does nothing but wait for its end, and has no descriptors, so
/// that it is killed as soon as our process is: a thread that waits in the kernel for an answer of
/// the driver could not end before it got one, and closing a file of the driver is such a wait.
#[derive(Debug)]
pub(crate) struct Serving {
    driver: Driver,
    /// How the kernel names the disk; messages do not.
    device: String,
    /// How it was called.
    line: String,
    process: OwnedFd,
    output: Arc<Mutex<Output>>,
    ending: Receiver<ExitStatus>,
    end: Option<ExitStatus>,
}

impl Serving {
    /// Has the driver mount `device` on `path`, and waits until it has.
    ///
    /// # Errors
    /// If it cannot be started, does not want what is on the disk, or dies of it.
    pub(crate) fn start(
        driver: Driver,
        variant: &Variant,
        device: &Path,
        path: &Path,
    ) -> Result<Self> {
        let given = variant.mount_options.iter().map(String::as_str);
        let options: Vec<_> = OPTIONS
            .into_iter()
            .chain(variant.file_system.mount_options.iter().copied())
            .collect();
        let options = options
            .into_iter()
            .chain(given)
            .collect::<Vec<_>>()
            .join(",");
        let mut command = Command::new(driver.program.find()?);
        command
            .args([device, path])
            .args(driver.program.arguments)
            .args(["-o", &options])
            .env("LC_ALL", "C");
        // Ctrl-C is for whoever started us to act on.
        command.stdin(Stdio::null()).process_group(0);
        let mut this = Self::spawn(driver, device, command)?;
        this.wait_until_mounted(path)?;
        Ok(this)
    }

    fn spawn(driver: Driver, device: &Path, mut command: Command) -> Result<Self> {
        let doing = || format!("run {}", driver.program.name);
        let (ours, theirs) = pipe2(OFlag::O_CLOEXEC).doing(doing)?;
        fcntl(&ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).doing(doing)?;
        command
            .stdout(theirs.try_clone().doing(doing)?)
            .stderr(theirs);
        let output = Arc::new(Mutex::new(Output {
            pipe: ours.into(),
            text: Vec::new(),
        }));
        let line = words_of(&command);
        let heard = Arc::clone(&output);
        let thread = |what: &str| {
            std::thread::Builder::new().name(format!("{} {what}", driver.program.name))
        };
        let (process, ending) = start_in(thread("end"), command).doing(doing)?;
        thread("output")
            .spawn(move || listen(&heard))
            .doing(doing)?;
        let device = device.display().to_string();
        Ok(Self {
            driver,
            device,
            line,
            process,
            output,
            ending,
            end: None,
        })
    }

    fn wait_until_mounted(&mut self, path: &Path) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // Asked, what is mounted answers only when the driver does.
        while !statfs(path).is_ok_and(|about| about.filesystem_type() == FUSE_SUPER_MAGIC) {
            let ended = self.end(LOOK_EVERY);
            if ended.is_some() || Instant::now() > deadline {
                self.kill();
                // It may have died between the mount and the first answer.
                let _ = umount2(path, MntFlags::MNT_DETACH);
                return Err(self.not_mounted(ended));
            }
        }
        Ok(())
    }

    /// Why nothing is mounted.
    fn not_mounted(&self, ended: Option<ExitStatus>) -> Error {
        let (program, said) = (self.driver.program.name, self.said());
        let Some(status) = ended else {
            return self.slow("mounted the disk");
        };
        match status.code() {
            None => self.died(status),
            Some(code) if self.driver.refusal_statuses.contains(&code) && !is_about_us(&said) => {
                Error::Refused {
                    program,
                    said: if said.is_empty() {
                        status.to_string()
                    } else {
                        said
                    },
                }
            }
            Some(_) => Error::Program {
                command: self.line.clone(),
                status: status.to_string(),
                output: said,
            },
        }
    }

    /// What its end means that was not a good one.
    fn died(&self, status: ExitStatus) -> Error {
        let (program, how) = (self.driver.program.name, status.to_string());
        let said = self.said();
        if is_short(&said) {
            let how = format!("ended: {how}: {said}");
            return Error::DriverLost { program, how };
        }
        if status.signal().is_some_and(|signal| SENT.contains(&signal)) {
            return Error::DriverLost {
                program,
                how: format!("was killed by somebody: {how}"),
            };
        }
        Error::DriverDied { program, how, said }
    }

    fn slow(&self, done: &str) -> Error {
        let how = format!(
            "has not {done} within {} s, and was killed: {}",
            PATIENCE.as_secs(),
            self.said()
        );
        Error::DriverLost {
            program: self.driver.program.name,
            how,
        }
    }

    /// Waits for the end of a driver whose file system is not mounted any more: from then on all
    /// that it had to write is written.
    ///
    /// # Errors
    /// If it did not end as it should.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self.end(PATIENCE) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.died(status)),
            None => {
                self.kill();
                Err(self.slow("ended"))
            }
        }
    }

    /// How it ended, if it has or does within a time.
    fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        if self.end.is_none() {
            self.end = self.ending.recv_timeout(patience).ok();
        }
        self.end
    }

    fn kill(&mut self) {
        if self.end.is_none() {
            // One that has ended meanwhile needs no signal.
            let _ = signal_process(&self.process, Signal::SIGKILL);
            self.end(KILLED_PATIENCE);
        }
    }

    /// The first line in which it reports that something is wrong with the file system.
    pub(crate) fn complaint(&self) -> Option<String> {
        let is_error = |line: &&str| {
            self.driver
                .error_starts
                .iter()
                .any(|start| line.starts_with(start))
        };
        self.text()
            .lines()
            .find(is_error)
            .map(|line| self.without_device(line))
    }

    /// What it printed beside what it always prints, as far as that is worth showing.
    fn said(&self) -> String {
        let text = self.text();
        let unusual = |line: &&str| {
            !self
                .driver
                .usual_words
                .iter()
                .any(|words| line.contains(words))
        };
        let lines: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .filter(unusual)
            .collect();
        self.without_device(&lines[..lines.len().min(LINES_MAX)].join("; "))
    }

    fn text(&self) -> String {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.hear();
        String::from_utf8_lossy(&output.text).into_owned()
    }

    fn without_device(&self, text: &str) -> String {
        text.replace(&self.device, "disk")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a program says that there is no memory for it, besides with the words of the system.
const NO_MEMORY: [&str; 5] = [
    "emory allocation",
    "nough memory",
    "nsufficient memory",
    "o memory for",
    "ut of memory",
];

/// Whether what a program gives as the reason why it mounts or checks nothing is about us and the machine,
/// and not about what is on the disk.
pub(crate) fn is_about_us(said: &str) -> bool {
    says(said, &Error::OURS) || is_short(said)
}

/// Whether a program says that the machine was short of memory or of open files. What else it says before
/// it dies, such as that something is not permitted, need not be why.
fn is_short(said: &str) -> bool {
    says(said, &[libc::ENOMEM, libc::EMFILE, libc::ENFILE])
        || NO_MEMORY.iter().any(|words| said.contains(words))
}

/// Whether a program names one of these errors.
fn says(said: &str, errors: &[i32]) -> bool {
    errors
        .iter()
        .any(|errno| said.contains(&system_words(*errno)))
}

/// What programs print for an error number: the words of the C library.
pub(crate) fn system_words(errno: i32) -> String {
    let words = io::Error::from_raw_os_error(errno).to_string();
    let end = words.find(" (os error").unwrap_or(words.len());
    words[..end].to_owned()
}

/// Starts a command as the child of a thread that waits for its end and for nothing else; says what
/// runs, and later how it ended.
fn start_in(
    thread: std::thread::Builder,
    command: Command,
) -> io::Result<(OwnedFd, Receiver<ExitStatus>)> {
    let (started, start) = channel();
    let (ended, ending) = channel();
    thread.spawn(move || match begin(command) {
        Ok((child, process)) => {
            // Whoever does not want it any more has it killed.
            let _ = started.send(Ok(process));
            wait(child, &ended);
        }
        Err(error) => drop(started.send(Err(error))),
    })?;
    let process = start.recv();
    let process = process.unwrap_or_else(|_| Err(io::Error::other("its thread died")))?;
    Ok((process, ending))
}

/// Starts it, and gets hold of it so that it can be killed while somebody waits for its end. The
/// command goes, as it keeps the pipe open.
fn begin(mut command: Command) -> io::Result<(Child, OwnedFd)> {
    dies_with_thread(&mut command);
    keeps_its_mount_namespace(&mut command)?;
    let mut child = command.spawn_logged()?;
    match open_process(Pid::from_raw(child.id() as i32)) {
        Ok(process) => Ok((child, process)),
        Err(errno) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(errno.into())
        }
    }
}

/// Waits for the end of a driver, whatever else its process waits for.
fn wait(mut child: Child, ended: &Sender<ExitStatus>) {
    // Without it a driver that is stopped may outlive us; that is no reason not to wait.
    let _ = leave_descriptors();
    if let Ok(status) = child.wait() {
        // Whoever dropped it does not want to know.
        let _ = ended.send(status);
    }
}

/// Listens to a driver until it has closed its outputs: it would wait for who does not.
fn listen(output: &Mutex<Output>) {
    let pipe = output
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pipe
        .try_clone();
    let Ok(pipe) = pipe else { return };
    loop {
        let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => break,
        }
        if output.lock().unwrap_or_else(PoisonError::into_inner).hear() == Heard::End {
            break;
        }
    }
}

/// What a driver prints, on both of its outputs.
struct Output {
    /// Reads do not wait.
    pipe: File,
    text: Vec<u8>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("pipe", &self.pipe)
            .field("text", &Brief(&self.text))
            .finish()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Heard {
    AllForNow,
    End,
}

impl Output {
    /// Takes in what there is.
    fn hear(&mut self) -> Heard {
        let mut buffer = [0; 4096];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return Heard::End,
                Ok(length) => {
                    let room = OUTPUT_BYTES_MAX - self.text.len();
                    self.text.extend_from_slice(&buffer[..length.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::AllForNow,
                Err(_) => return Heard::End,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it means that a driver does this once its file system is not mounted any more.
    fn end_of(script: &str) -> Error {
        let variant = Variant::parse_list("fuse2fs")
            .expect("it is known")
            .remove(0);
        let driver = variant.file_system.driver.expect("it has one");
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let serving = Serving::spawn(driver, Path::new("/dev/null"), command);
        let ended = serving.expect("it runs").finish();
        ended.expect_err("it fails")
    }

    #[test]
    fn a_driver_without_memory_says_nothing_of_the_disk() {
        for said in [
            "fuse2fs: Cannot allocate memory",
            "Memory allocation failed while closing",
        ] {
            let end = end_of(&format!("echo '{said}' >&2; exit 1"));
            assert!(matches!(end, Error::DriverLost { .. }), "{end}");
            assert!(end.to_string().contains(said), "{end}");
        }
        // One that can have no memory may die of that.
        let end = end_of("echo 'memory allocation of 64 bytes failed' >&2; kill -ABRT $$");
        assert!(matches!(end, Error::DriverLost { .. }), "{end}");
        for script in [
            "exit 1",
            "echo 'Bad magic number'; exit 1",
            "kill -ABRT $$",
            "echo 'Operation not permitted' >&2; kill -SEGV $$",
            "echo 'Permission denied' >&2; exit 1",
            "echo 'Device or resource busy' >&2; kill -ABRT $$",
        ] {
            let end = end_of(script);
            assert!(matches!(end, Error::DriverDied { .. }), "{script}: {end}");
        }
    }
}
