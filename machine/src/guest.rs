//! The guest's side: the program as init.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::{Context as _, Error, Result};
use crate::held;
use crate::modules::Modules;
use crate::system;

/// The argument by which the program is told that it is the init of a guest; the directory of
/// the guest on the host follows.
pub(crate) const GUEST_COMMAND: &str = "__guest";

/// What the guest says when its channel is open. Before, bytes would be taken for a terminal's.
pub(crate) const READY: &[u8] = b"\x06crashpoint\x06";

/// The line on the console after which the guest has started. What the kernel says of its start
/// says nothing of what is tested in it.
pub(crate) const STARTED: &[u8] = b"crashpoint: started\n";

const SPEC: &str = "spec.json";

/// The file in which a guest says why it gives up.
const FAILURE: &str = "failure";

/// The file with the input of the program, where it is known from the start.
pub(crate) const INPUT: &str = "input";

/// The file in which a guest says how its command ended.
const STATUS: &str = "status";

/// What the host says on the channel of a command that is to end.
pub(crate) const TERMINATE: u8 = 0x18;

const CHANNEL: &str = "/dev/ttyS0";
const CONSOLE: &str = "/dev/tty0";

/// Where the guest sees the directory on the host that is its own, which it may write to.
pub const GUEST_SHARED: &str = "/run/host";

/// What may be on its way into a guest. The terminal layer keeps 4096 bytes, less 128 from where
/// it holds the line up, and the line never goes on after that (seen in 6.1).
pub const CHANNEL_BYTES_MAX: usize = 3900;

/// What a guest is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) task: Task,
    /// The PATH.
    pub(crate) path: String,
    /// Where the kernel's modules are, and which are wanted.
    pub(crate) modules: Option<PathBuf>,
    pub(crate) load: Vec<String>,
    /// Files of the host's that must be seen.
    pub(crate) files: Vec<PathBuf>,
    /// Time is virtual: nobody may look at anything again and again.
    pub(crate) virtual_time: bool,
}

/// What runs in a guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Task {
    /// This program. With `input_in_file` it reads what [`INPUT`] holds, and the channel otherwise.
    Program {
        arguments: Vec<String>,
        input_in_file: bool,
    },
    /// Any other program, with the channel as its output and the console for its errors.
    Command(GuestCommand),
}

/// A command to run in a guest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GuestCommand {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Directories of the host that it may write to.
    pub shared: Vec<PathBuf>,
    /// Variables of its environment, beside the guest's own.
    pub environment: Vec<(OsString, OsString)>,
}

impl Spec {
    /// Writes it where the guest looks for it.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(Error::Orders)?;
        std::fs::write(directory.join(SPEC), text)
            .doing(|| format!("write {}", directory.display()))
    }

    fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(SPEC);
        let text = std::fs::read(&path).doing(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&text).map_err(Error::Orders)
    }
}

/// Is the init of a guest: makes a system of the bare kernel, has the program do what the spec
/// in `directory` says, and switches the guest off.
pub(crate) fn run_guest(directory: &Path) -> ! {
    if let Err(error) = work(directory) {
        eprintln!("crashpoint: {error}");
        // Before there is a way to the host, the console is all there is.
        let _ = std::fs::write(Path::new(GUEST_SHARED).join(FAILURE), error.to_string());
    }
    // That it is switched off is no news.
    let _ = std::fs::write("/proc/sys/kernel/printk", "0");
    match reboot(RebootMode::RB_POWER_OFF) {
        Ok(never) => match never {},
        Err(errno) => panic!("switch the guest off: {errno}"),
    }
}

fn work(directory: &Path) -> Result<()> {
    system::mount_system(directory)?;
    let spec = Spec::read(Path::new(GUEST_SHARED))?;
    spec.files.iter().try_for_each(|file| system::show(file))?;
    if let (Some(modules), false) = (&spec.modules, spec.load.is_empty()) {
        load_modules(modules, &spec.load)?;
    }
    if !spec.virtual_time {
        std::thread::spawn(|| held::watch(Path::new(GUEST_SHARED)));
    }
    let mut channel = open_raw(CHANNEL)?;
    // To the same stream as the kernel's words, so that it stands after those of the start.
    std::io::stderr()
        .write_all(STARTED)
        .doing(|| "write to the console".into())?;
    channel
        .write_all(READY)
        .doing(|| "write to the channel".into())?;
    match &spec.task {
        Task::Program {
            arguments,
            input_in_file,
        } => {
            let input = if *input_in_file {
                File::open(Path::new(GUEST_SHARED).join(INPUT))
                    .doing(|| "open the program's input".into())?
            } else {
                channel.try_clone().doing(|| "share the channel".into())?
            };
            run_program(arguments, input, channel, &spec.path)
        }
        Task::Command(wanted) => run_wanted(wanted, channel, &spec),
    }
}

/// Runs this program.
fn run_program(arguments: &[String], input: File, channel: File, path: &str) -> Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.args(arguments).stdin(input).stdout(channel);
    run(command, None, (path, &[]))?.success()
}

/// Runs a command that somebody wants, and notes how it ended. It gets SIGTERM when the host says so
/// on the channel.
fn run_wanted(wanted: &GuestCommand, channel: File, spec: &Spec) -> Result<()> {
    // In virtual time nothing comes from the host.
    let asked = (!spec.virtual_time).then(|| channel.try_clone());
    let asked = asked.transpose().doing(|| "share the channel".into())?;
    let (program, arguments) = wanted.words.split_first().ok_or(Error::NoCommand)?;
    system::prepare_for_command(wanted)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&wanted.directory);
    command
        .stdin(Stdio::null())
        .stdout(channel)
        .stderr(open_raw(CONSOLE)?);
    let ended = run(command, asked, (&spec.path, &wanted.environment))?;
    let status = Path::new(GUEST_SHARED).join(STATUS);
    std::fs::write(status, ended.exit_status().to_string())
        .doing(|| "write how the command ended".into())
}

/// How a program in the guest ended.
enum Ended {
    Exited(i32),
    Signaled(Signal),
}

impl Ended {
    fn success(&self) -> Result<()> {
        let how = match self {
            Self::Exited(0) => return Ok(()),
            Self::Exited(code) => format!("ended with status {code}"),
            Self::Signaled(signal @ Signal::SIGKILL) => {
                format!("got {signal} (is its memory too small?)")
            }
            Self::Signaled(signal) => format!("got {signal}"),
        };
        Err(Error::GuestProgram(how))
    }

    /// As a shell gives it.
    fn exit_status(&self) -> i32 {
        match self {
            Self::Exited(code) => *code,
            Self::Signaled(signal) => 128 + *signal as i32,
        }
    }
}

/// Runs a program, with this path and more of an environment, and waits for everything that ends, as an
/// init must, until it does.
fn run(
    mut command: Command,
    asked: Option<File>,
    (path, more): (&str, &[(OsString, OsString)]),
) -> Result<Ended> {
    let name = command.get_program().to_owned();
    command.env_clear();
    command.envs(more.iter().map(|(name, value)| (name, value)));
    command.envs([
        ("PATH", path),
        ("HOME", "/run"),
        ("TMPDIR", "/run"),
        ("LANG", "C.UTF-8"),
    ]);
    let child = command
        .spawn()
        .doing(|| format!("start {} in the guest", name.display()))?;
    let child = Pid::from_raw(child.id() as i32);
    if let Some(asked) = asked {
        std::thread::spawn(move || pass_on_end(asked, child));
    }
    loop {
        match wait().doing(|| "wait for the program in the guest".into())? {
            WaitStatus::Exited(pid, code) if pid == child => return Ok(Ended::Exited(code)),
            WaitStatus::Signaled(pid, signal, _) if pid == child => {
                return Ok(Ended::Signaled(signal));
            }
            _ => {}
        }
    }
}

/// Has a process get SIGTERM when the host says so.
fn pass_on_end(mut asked: File, child: Pid) {
    let mut byte = [0];
    if asked.read_exact(&mut byte).is_ok() && byte == [TERMINATE] {
        let _ = kill(child, Signal::SIGTERM);
    }
}

/// How a guest's command ended, as a shell gives it; none if the guest did not get that far.
pub(crate) fn command_status(directory: &Path) -> Option<i32> {
    std::fs::read_to_string(directory.join(STATUS))
        .ok()?
        .parse()
        .ok()
}

/// What a guest said of why it gave up.
pub(crate) fn failure(directory: &Path) -> Option<String> {
    std::fs::read_to_string(directory.join(FAILURE)).ok()
}

fn load_modules(directory: &Path, wanted: &[String]) -> Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .doing(|| "read the kernel's release".into())?;
    let modules = Modules::find(directory, release.trim())?;
    wanted.iter().try_for_each(|name| modules.load(name))
}

/// Opens a terminal so that it carries bytes as they are.
fn open_raw(path: &str) -> Result<File> {
    let line = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(path);
    let line = line.doing(|| format!("open {path}"))?;
    let mut attributes = tcgetattr(&line).doing(|| format!("ask for the attributes of {path}"))?;
    cfmakeraw(&mut attributes);
    tcsetattr(&line, SetArg::TCSANOW, &attributes).doing(|| format!("make {path} raw"))?;
    Ok(line)
}
