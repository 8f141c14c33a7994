use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use nix::unistd::{AccessFlags, access};
use tempfile::TempDir;

use crate::NAME_PREFIX;
use crate::activity::Activity;
use crate::causes::Given;
use crate::console::Console;
use crate::error::{Context as _, Error, Result};
use crate::guest::{GUEST_COMMAND, GuestCommand, INPUT, READY, Spec, Task};
use crate::keeper::{KEEPER_COMMAND, KEPT_COMMAND};
use crate::kernel_file::{self, KernelFile};
use crate::running::{Guest, Running};
use crate::xstate;

/// Memory of a guest unless another size is asked for, in MiB.
const MEMORY_MIB: u64 = 512;

/// With less a kernel of today does not come up: it aborts, says one of several things, or looks for a
/// free page for minutes.
const MEMORY_MIB_MIN: u64 = 40;

/// When virtual time starts, in nanoseconds since 1970: in November 2023.
const VIRTUAL_START_NS: u64 = 1_700_000_000_000_000_000;

/// What scripts/build-uml.sh calls the kernels that it built last, those that are looked for first.
const BUILT: [&str; 2] = ["current", "6.12"];

/// Where a guest's memory is, and its directory, as long as they fit.
pub const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Debian's package with a User-Mode Linux kernel, and where its kernel is below `/`, or below the
/// directory of our cache in which scripts/setup unpacks it where it cannot install it.
const PACKAGE: &str = "user-mode-linux";
const PACKAGE_KERNEL: &str = "usr/bin/linux.uml";

/// Where the modules of that kernel are, below its `usr`.
const PACKAGE_MODULES: &str = "lib/uml/modules";

/// What stands after the process id in the name of a guest's directory.
const DIRECTORY_MARK: &str = "-guest-";

/// Whether the name of a directory says that it is a guest's.
pub fn is_guest_directory(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.starts_with(NAME_PREFIX) && name.contains(DIRECTORY_MARK)
}

/// The environment variable that names libraries to load into the kernels of guests: with it tests
/// stand for a host that demands more state than it has.
const PRELOAD: &str = "CRASHPOINT_GUEST_PRELOAD";

/// The processor of a kernel on a calendar: the first that its calendar's thread may use.
const CALENDAR_PROCESSOR: usize = 0;

/// What a kernel with virtual time says when it is asked for its parameters, and what that stands for.
const VIRTUAL_TIME: [(&str, &str); 2] = [
    (
        "time-travel",
        "virtual time (CONFIG_UML_TIME_TRAVEL_SUPPORT)",
    ),
    (
        "seed=",
        "seed for its random numbers (scripts/uml/3-seed.patch)",
    ),
];

/// What the configuration of a simulated machine has. Modules of it would come too late.
const MACHINE: [(&str, &str); 4] = [
    ("CONFIG_VIRTIO_UML=y", "CONFIG_VIRTIO_UML"),
    ("CONFIG_VIRTIO_NET=y", "CONFIG_VIRTIO_NET"),
    ("CONFIG_VIRTIO_BLK=y", "CONFIG_VIRTIO_BLK"),
    ("CONFIG_VIRTIO_CONSOLE=y", "CONFIG_VIRTIO_CONSOLE"),
];

/// What scripts/uml/8-forks.patch leaves in a kernel.
const FORKS_MARK: &[u8] = b"crashpoint: can be forked";

/// Guests that were started: neighbours are to run on different processors.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A User-Mode Linux kernel, and how it is started.
#[derive(Debug, Clone)]
pub struct Uml {
    /// The kernel: an executable.
    pub kernel: PathBuf,
    /// What it says of its release (`6.1.90`).
    pub release: String,
    /// It knows of less processor state than this machine has, and gets a library that makes up for
    /// it.
    needs_shim: bool,
    /// Where its modules are, if it has any.
    pub modules: Option<PathBuf>,
    /// Modules that are wanted; what the kernel has built in needs none.
    pub load: Vec<String>,
    /// Files of the host's that it must see, also in directories that its own hide, such as in
    /// /run.
    pub files: Vec<PathBuf>,
    /// Parameters for the kernel beyond ours.
    pub parameters: Vec<String>,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Waiting costs no time, and everything repeats for the same seed. It takes a kernel of
    /// scripts/build-uml.sh.
    pub virtual_time: Option<u64>,
}

/// What stands for the texts that are not in another one.
fn lacking(text: &str, wanted: &[(&str, &'static str)]) -> Vec<&'static str> {
    let lacking = wanted.iter().filter(|(word, _)| !text.contains(word));
    lacking.map(|(_, words)| *words).collect()
}

impl Uml {
    /// The kernel at `path`, or that of Debian's package; `modules` if they are not where that
    /// package has them.
    ///
    /// # Errors
    /// If there is none, or it cannot be run.
    pub fn find(path: Option<&Path>, modules: Option<&Path>) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            // There is no package to install.
            return Err(Error::NoGuests);
        }
        if let Some(path) = path {
            return Self::at(path, modules);
        }
        let unpacked = cache()
            .ok()
            .map(|cache| cache.join("crashpoint").join(PACKAGE));
        let roots = [Some(PathBuf::from("/")), unpacked].into_iter().flatten();
        let kernel = roots
            .map(|root| root.join(PACKAGE_KERNEL))
            .find(|kernel| kernel.exists());
        let kernel = kernel.ok_or(Error::NoKernel { package: PACKAGE })?;
        Self::at(&kernel, modules)
    }

    /// The kernel that scripts/build-uml.sh built last from linux-source-6.1, or else from
    /// linux-source-6.12, or that at `path`, with virtual time.
    ///
    /// # Errors
    /// If there is none, or it has no virtual time.
    pub fn find_virtual(path: Option<&Path>, modules: Option<&Path>, seed: u64) -> Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::NoGuests);
        }
        let built = || -> Result<PathBuf> {
            let built = cache()?.join("crashpoint/uml");
            let links = BUILT.map(|link| built.join(link).join("linux"));
            let found = links.into_iter().find(|path| path.exists());
            found.ok_or(Error::NoVirtualKernel)
        };
        let mut this = Self::at(
            &path.map_or_else(built, |path| Ok(path.to_owned()))?,
            modules,
        )?;
        let lacking = lacking(&this.told("--help")?, &VIRTUAL_TIME);
        if !lacking.is_empty() {
            return Err(Error::Lacks {
                path: this.kernel,
                what: lacking.join(" and no "),
            });
        }
        this.virtual_time = Some(seed);
        Ok(this)
    }

    /// [`Self::find_virtual`], of a kernel that can also be that of a simulated machine.
    ///
    /// # Errors
    /// If there is none. Says what a kernel lacks.
    pub fn find_simulated(path: Option<&Path>, seed: u64) -> Result<Self> {
        let this = Self::find_virtual(path, None, seed)?;
        let lacking = lacking(&this.told("--showconfig")?, &MACHINE);
        if !lacking.is_empty() {
            return Err(Error::NotForMachines {
                path: this.kernel,
                what: lacking.join(", "),
            });
        }
        Ok(this)
    }

    /// Fails if the kernel cannot disturb the programs in it (`chaos=`).
    ///
    /// # Errors
    /// Says how to build one that can.
    pub fn refuse_without_chaos(&self) -> Result<()> {
        if self.told("--help")?.contains("chaos=") {
            return Ok(());
        }
        Err(Error::Lacks {
            path: self.kernel.clone(),
            what: "chaos (scripts/uml/7-chaos.patch)".into(),
        })
    }

    /// What the kernel says of itself.
    fn told(&self, option: &str) -> Result<String> {
        let said = Command::new(&self.kernel)
            .arg(option)
            .stdin(Stdio::null())
            .output();
        let said = said.doing(|| format!("run {}", self.kernel.display()))?;
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    }

    /// Fails if the kernel cannot fork itself at the word of its calendar.
    ///
    /// # Errors
    /// Says how to build one that can.
    pub fn refuse_unforkable(&self) -> Result<()> {
        if kernel_file::has_text(&self.kernel, FORKS_MARK)? {
            return Ok(());
        }
        Err(Error::Unforkable(self.kernel.clone()))
    }

    fn at(kernel: &Path, modules: Option<&Path>) -> Result<Self> {
        Self::refuse_other_than_program(kernel)?;
        // A link such as that to what was built last may lead elsewhere before the next boot.
        let real = std::fs::canonicalize(kernel);
        let kernel = real.doing(|| format!("find the kernel {}", kernel.display()))?;
        let modules = match modules {
            Some(path) if !path.is_dir() => return Err(Error::NotADirectory(path.into())),
            Some(path) => {
                let path = std::path::absolute(path);
                Some(path.doing(|| "find the working directory".into())?)
            }
            None => packaged_modules(&kernel),
        };
        let file = KernelFile::read(&kernel)?;
        // What is no kernel would only fail later, and with other words.
        let release = release(&kernel)?;
        let needs_shim = match file {
            Some(file) => file.needs_shim(&kernel, &release)?,
            None => false,
        };
        let (load, files, parameters) = (Vec::new(), Vec::new(), Vec::new());
        let (memory_mib, virtual_time) = (MEMORY_MIB, None);
        Ok(Self {
            kernel,
            release,
            needs_shim,
            modules,
            load,
            files,
            parameters,
            memory_mib,
            virtual_time,
        })
    }

    fn refuse_other_than_program(kernel: &Path) -> Result<()> {
        let data = kernel.metadata();
        let data = data.doing(|| format!("find the kernel {}", kernel.display()))?;
        if !data.is_file() || data.permissions().mode() & 0o111 == 0 {
            return Err(Error::NotAProgram(kernel.into()));
        }
        Ok(())
    }

    /// Starts this program as the init of a guest, which starts it again with `arguments`, and
    /// gives it `input`, if that is all that it will get.
    pub(crate) fn start_program(
        &self,
        arguments: &[&str],
        input: Option<&[u8]>,
    ) -> Result<Running> {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        let task = Task::Program {
            arguments,
            input_in_file: input.is_some(),
        };
        self.start(task, input.unwrap_or_default())
    }

    /// Starts a guest that runs a command. What that prints comes out of it; its errors, and what
    /// the kernel says, are on the [console](Running::show_console).
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_command(&self, command: GuestCommand) -> Result<Running> {
        self.start(Task::Command(command), &[])
    }

    fn start(&self, task: Task, input: &[u8]) -> Result<Running> {
        let memory_mib = self.memory_in_effect_mib();
        self.refuse_too_little(memory_mib)?;
        let memory = memory_room(memory_mib).0;
        let directory = self.directory(&memory, task, input)?;
        let (console, console_end) =
            std::io::pipe().doing(|| "make a pipe for the guest's console".into())?;
        let (input, input_end) =
            UnixStream::pair().doing(|| "make a channel to the guest".into())?;
        let console = Console::collect(console)
            .doing(|| "start a thread (is `ulimit -u` too low?)".into())?;
        let mut keeper = self.keeper(directory.path(), &memory)?;
        keeper
            .stdin(Stdio::from(OwnedFd::from(input_end)))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(console_end));
        let process = self.spawn(keeper)?;
        let guest = Guest {
            console,
            directory,
            given: Given {
                memory_mib,
                directory: memory,
            },
        };
        let mut running = Running::new(process, Some(OwnedFd::from(input).into()), Some(guest));
        self.wait_until_ready(&mut running)?;
        tracing::debug!(pid = running.pid(), "the guest is ready");
        Ok(running)
    }

    fn refuse_too_little(&self, memory_mib: u64) -> Result<()> {
        if memory_mib >= MEMORY_MIB_MIN {
            return Ok(());
        }
        Err(Error::NotStarted {
            kernel: self.kernel.clone(),
            why: format!(
                "its memory, {memory_mib} MiB, is too small: give it {MEMORY_MIB_MIN} at least"
            ),
        })
    }

    /// Starts a guest. The command goes with that: it has our copies of the guest's ends, and the
    /// console is not over before they are closed.
    fn spawn(&self, mut keeper: Command) -> Result<Child> {
        let kernel = self.kernel.display();
        let process = keeper.spawn().doing(|| format!("start {kernel}"))?;
        tracing::info!(pid = process.id(), %kernel, memory_mib = self.memory_mib, "started a guest");
        Ok(process)
    }

    /// A directory for a guest, in which it finds what it is to do.
    fn directory(&self, memory: &Path, task: Task, input: &[u8]) -> Result<TempDir> {
        let prefix = format!("{NAME_PREFIX}{}{DIRECTORY_MARK}", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(memory);
        let directory = directory.doing(|| format!("make a directory in {}", memory.display()))?;
        let spec = Spec {
            task,
            path: std::env::var("PATH").unwrap_or_default(),
            modules: self.modules.clone(),
            load: self.load.clone(),
            files: self.files.clone(),
            virtual_time: self.virtual_time.is_some(),
        };
        spec.write(directory.path())?;
        std::fs::write(directory.path().join(INPUT), input)
            .doing(|| "write the input of a guest".into())?;
        Ok(directory)
    }

    /// The process that keeps a guest.
    fn keeper(&self, directory: &Path, memory: &Path) -> Result<Command> {
        let mut command = Command::new(crate::own_program());
        command
            .arg(KEEPER_COMMAND)
            .arg(std::process::id().to_string())
            .arg(directory)
            .arg(STARTED.fetch_add(1, Ordering::Relaxed).to_string())
            .arg(&self.kernel)
            .args(self.command_line(directory)?)
            .env_clear()
            .env("TMPDIR", memory)
            .env("LD_PRELOAD", self.preload(directory)?)
            .current_dir("/")
            .process_group(0);
        Ok(command)
    }

    /// The libraries that are loaded into the kernel's process: the [shim](xstate), where it is
    /// needed, and what [`PRELOAD`] names.
    fn preload(&self, directory: &Path) -> Result<OsString> {
        let shim = self
            .needs_shim
            .then(|| xstate::write_shim(directory))
            .transpose()?;
        if shim
            .as_ref()
            .is_some_and(|shim| shim.as_os_str().as_encoded_bytes().contains(&b':'))
        {
            return Err(Error::PathWithColon);
        }
        let named = std::env::var_os(PRELOAD).filter(|names| !names.is_empty());
        Ok([shim.map(OsString::from), named]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(OsStr::new(":")))
    }

    fn command_line(&self, directory: &Path) -> Result<Vec<String>> {
        let program = crate::own_program();
        let (Some(program), Some(directory)) = (program.to_str(), directory.to_str()) else {
            return Err(Error::PathNotText(program));
        };
        if program.contains(char::is_whitespace) || directory.contains(char::is_whitespace) {
            return Err(Error::PathWithSpaces(Some(program.into())));
        }
        let mut line = own_parameters(program);
        line.extend([
            format!("mem={}M", self.memory_mib),
            format!("uml_dir={directory}"),
            "umid=guest".into(),
            "ssl=null".into(),
            // Warnings and worse. The rest can be read in the guest.
            "loglevel=5".into(),
        ]);
        match self.virtual_time {
            None => line.push("ssl0=fd:0,fd:1".into()),
            // Nothing comes from the host once it runs: when would be up to the host.
            Some(seed) => line.extend([
                "ssl0=null,fd:1".into(),
                "time-travel=inf-cpu".into(),
                format!("time-travel-start={VIRTUAL_START_NS}"),
                format!("seed={seed}"),
            ]),
        }
        line.extend(self.parameters.iter().cloned());
        line.extend(["--".into(), GUEST_COMMAND.into(), directory.into()]);
        Ok(line)
    }

    /// What starts it as one of several kernels on a calendar, with these parameters beside those
    /// that every guest has, and this program as its init with the arguments `init`.
    ///
    /// `directory` is its working directory, so that paths in parameters can be the same in each
    /// run. It ends with the thread that starts it.
    ///
    /// # Errors
    /// If this program or the directory has a path that the kernel cannot be given.
    pub fn on_calendar(
        &self,
        directory: &Path,
        parameters: &[String],
        init: &[String],
    ) -> Result<Command> {
        let program = crate::own_program();
        let program = program
            .to_str()
            .filter(|path| !path.contains(char::is_whitespace));
        let program = program.ok_or(Error::PathWithSpaces(None))?;
        let mut command = Command::new(program);
        command
            .arg(KEPT_COMMAND)
            .arg(CALENDAR_PROCESSOR.to_string())
            .arg(&self.kernel)
            .args(own_parameters(program))
            .args(parameters)
            .args(&self.parameters)
            .arg("--")
            .args(init)
            .env_clear()
            .env("TMPDIR", memory_room(self.memory_mib).0)
            .env("LD_PRELOAD", self.preload(directory)?)
            .current_dir(directory)
            .process_group(0);
        Ok(command)
    }

    /// Its memory: the last word is that of the kernel's parameters.
    fn memory_in_effect_mib(&self) -> u64 {
        let parameter = self
            .parameters
            .iter()
            .rev()
            .find_map(|parameter| parameter.strip_prefix("mem="));
        parameter.and_then(memory_mib).unwrap_or(self.memory_mib)
    }

    fn wait_until_ready(&self, running: &mut Running) -> Result<()> {
        let mut activity = Activity::default();
        let mut said = Vec::new();
        let why = loop {
            if running.readable(Duration::from_millis(200)) {
                let mut byte = [0];
                match running.output().read(&mut byte) {
                    Ok(1) => said.push(byte[0]),
                    _ => break None,
                }
                // The kernel may have had something to say before.
                if said.ends_with(READY) {
                    return Ok(());
                }
            }
            if let Some(how) = activity.look(running.pid()) {
                break Some(format!("it is not ready, and {how}"));
            }
        };
        Err(Error::NotStarted {
            kernel: self.kernel.clone(),
            why: running.why_not_started(why),
        })
    }
}

/// The parameters of every kernel, whose init is `program`.
fn own_parameters(program: &str) -> Vec<String> {
    vec![
        "rootfstype=hostfs".into(),
        "rootflags=/".into(),
        "ro".into(),
        // The kernel's own words, and nothing else.
        "con=null".into(),
        "con0=null,fd:2".into(),
        "oops=panic".into(),
        "random.trust_cpu=on".into(),
        format!("init={program}"),
    ]
}

/// A size as kernels take it.
fn memory_mib(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number: u64 = digits.parse().ok()?;
    match size[digits.len()..].to_ascii_lowercase().as_str() {
        "g" => number.checked_shl(10),
        "m" => Some(number),
        "k" => Some(number >> 10),
        "" => Some(number >> 20),
        _ => None,
    }
}

/// Where a guest's memory has its file, and how many MiB are free there: in memory, if there is
/// room, we may write there and programs may run, or else in TMPDIR.
pub fn memory_room(memory_mib: u64) -> (PathBuf, u64) {
    let room = |directory: &Path| statvfs(directory).ok();
    let free_mib = |room: Statvfs| (room.blocks_available() * room.fragment_size()) >> 20;
    let ours = access(MEMORY_DIRECTORY, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    if let Some(room) = room(Path::new(MEMORY_DIRECTORY)).filter(|_| ours) {
        let runs = !room.flags().contains(FsFlags::ST_NOEXEC);
        let free_mib = free_mib(room);
        if runs && free_mib >= memory_mib {
            return (MEMORY_DIRECTORY.into(), free_mib);
        }
    }
    let directory = std::env::temp_dir();
    let free_mib = room(&directory).map_or(0, free_mib);
    (directory, free_mib)
}

/// What a kernel says of its release.
fn release(kernel: &Path) -> Result<String> {
    let output = Command::new(kernel)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let not_one = |why: String| Error::NotAKernel {
        path: kernel.into(),
        why,
    };
    let output = match output {
        Err(error) if error.raw_os_error() == Some(nix::libc::ENOEXEC) => {
            return Err(not_one(error.to_string()));
        }
        output => output.doing(|| format!("run {}", kernel.display()))?,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let release = text
        .split_whitespace()
        .next()
        .filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let release = release.map(str::to_owned);
    release.ok_or_else(|| not_one("it does not say its version".into()))
}

/// Where a user's caches are (XDG Base Directory Specification).
fn cache() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .ok_or(Error::NoCache)
}

/// Where the package of a kernel has its modules, if it is one of a package.
fn packaged_modules(kernel: &Path) -> Option<PathBuf> {
    let usr = kernel.ancestors().find(|path| path.ends_with("usr"))?;
    Some(usr.join(PACKAGE_MODULES)).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_kernel_that_was_found_by_a_link_stays_that() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("key")).expect("made");
        let kernel = path("key/linux");
        std::fs::write(&kernel, "#!/bin/sh\necho 6.1.1\n").expect("written");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&kernel, executable).expect("set");
        symlink("key", path("current")).expect("made");
        let found = Uml::find(Some(&path("current/linux")), None).expect("found");
        assert_eq!(found.kernel, kernel.canonicalize().expect("it is there"));
    }
}
