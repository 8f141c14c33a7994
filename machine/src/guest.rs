//! The guest's side: the program as init.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::held;
use crate::modules::Modules;

/// The argument by which the program is told that it is the init of a guest; the directory of
/// the guest on the host follows.
pub(crate) const GUEST_COMMAND: &str = "__guest";

/// What the guest says when its channel is open. Before, bytes would be taken for a terminal's.
pub(crate) const READY: &[u8] = b"\x06crashpoint\x06";

const SPEC: &str = "spec.json";

/// The file in which a guest says why it gives up.
const FAILURE: &str = "failure";

const CHANNEL: &str = "/dev/ttyS0";

/// Where the guest sees the directory on the host that is its own, which it may write to.
pub const GUEST_SHARED: &str = "/run/host";

/// What may be on its way into a guest. The terminal layer keeps 4096 bytes, less 128 from where
/// it holds the line up, and the line never goes on after that (seen in 6.1).
pub const CHANNEL_BYTES_MAX: usize = 3900;

/// What a guest is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// What this program is started with.
    pub(crate) arguments: Vec<String>,
    /// The PATH.
    pub(crate) path: String,
    /// Where the kernel's modules are, and which are wanted.
    pub(crate) modules: Option<PathBuf>,
    pub(crate) load: Vec<String>,
}

impl Spec {
    /// Writes it where the guest looks for it.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec(self)?;
        std::fs::write(directory.join(SPEC), text).with_context(|| format!("write {}", directory.display()))
    }

    fn read(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(SPEC);
        let text = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// Is the init of a guest: makes a system of the bare kernel, has the program do what the spec
/// in `directory` says, and switches the guest off.
pub(crate) fn run_guest(directory: &Path) -> ! {
    if let Err(error) = work(directory) {
        eprintln!("crashpoint: {error:#}");
        // Before there is a way to the host, the console is all there is.
        let _ = std::fs::write(Path::new(GUEST_SHARED).join(FAILURE), format!("{error:#}"));
    }
    match reboot(RebootMode::RB_POWER_OFF) {
        Ok(never) => match never {},
        Err(errno) => panic!("switch the guest off: {errno}"),
    }
}

fn work(directory: &Path) -> anyhow::Result<()> {
    mount_system(directory)?;
    let spec = Spec::read(Path::new(GUEST_SHARED))?;
    if let (Some(modules), false) = (&spec.modules, spec.load.is_empty()) {
        load_modules(modules, &spec.load)?;
    }
    std::thread::spawn(|| held::watch(Path::new(GUEST_SHARED)));
    let mut channel = open_channel()?;
    let mut command = Command::new("/proc/self/exe");
    command
        .args(&spec.arguments)
        .env_clear()
        .env("PATH", &spec.path)
        .env("TMPDIR", "/run")
        .env("HOME", "/run")
        .stdin(Stdio::from(channel.try_clone()?))
        .stdout(Stdio::from(channel.try_clone()?));
    channel.write_all(READY).context("write to the channel")?;
    let child = command.spawn().context("start the program in the guest")?;
    wait_for(Pid::from_raw(child.id() as i32))
}

/// What a guest said of why it gave up.
pub(crate) fn failure(directory: &Path) -> Option<String> {
    std::fs::read_to_string(directory.join(FAILURE)).ok()
}

/// What a program expects of a running system. The root is the host's, read-only.
fn mount_system(directory: &Path) -> anyhow::Result<()> {
    let place = |kind: &str, path: &str, options: &str| {
        mount(Some(kind), path, Some(kind), MsFlags::MS_NOSUID, Some(options))
            .with_context(|| format!("mount {kind} on {path}"))
    };
    place("proc", "/proc", "")?;
    place("sysfs", "/sys", "")?;
    if !Path::new("/dev/kmsg").exists() || !Path::new(CHANNEL).exists() {
        place("devtmpfs", "/dev", "")?;
    }
    place("tmpfs", "/run", "mode=0755")?;
    std::fs::create_dir(GUEST_SHARED).with_context(|| format!("create {GUEST_SHARED}"))?;
    mount(Some("host"), GUEST_SHARED, Some("hostfs"), MsFlags::MS_NOSUID, Some(directory))
        .with_context(|| format!("mount {} of the host", directory.display()))?;
    // Only some kernels have these.
    let _ = place("tracefs", "/sys/kernel/tracing", "");
    let _ = place("fusectl", "/sys/fs/fuse/connections", "");
    Ok(())
}

fn load_modules(directory: &Path, wanted: &[String]) -> anyhow::Result<()> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    let modules = Modules::find(directory, release.trim())?;
    wanted.iter().try_for_each(|name| modules.load(name))
}

/// The serial line, which carries bytes as they are.
fn open_channel() -> anyhow::Result<File> {
    let line = OpenOptions::new().read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(CHANNEL);
    let line = line.with_context(|| format!("open {CHANNEL}"))?;
    let mut attributes = tcgetattr(&line).context("ask for the attributes of the channel")?;
    cfmakeraw(&mut attributes);
    tcsetattr(&line, SetArg::TCSANOW, &attributes).context("make the channel raw")?;
    Ok(line)
}

/// Waits for everything that ends, as an init must, until `child` does.
fn wait_for(child: Pid) -> anyhow::Result<()> {
    loop {
        match wait().context("wait for the program in the guest")? {
            WaitStatus::Exited(pid, 0) if pid == child => return Ok(()),
            WaitStatus::Exited(pid, code) if pid == child => {
                anyhow::bail!("the program in the guest ended with status {code}")
            }
            WaitStatus::Signaled(pid, signal, _) if pid == child => {
                anyhow::bail!("the program in the guest got {signal} (is its memory too small?)")
            }
            _ => {}
        }
    }
}
