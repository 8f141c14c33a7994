use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, access};

use crate::NAME_PREFIX;
use crate::console::Console;
use crate::guest::{GUEST_COMMAND, GuestCommand, INPUT, READY, Spec, Task};
use crate::keeper::KEEPER_COMMAND;
use crate::running::{End, Guest, Running};

/// How long a guest may take to start.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Memory of a guest unless another size is asked for, in MiB.
const MEMORY_MIB: u64 = 512;

/// When virtual time starts, in nanoseconds since 1970: in November 2023.
const VIRTUAL_START_NS: u64 = 1_700_000_000_000_000_000;

/// Where a guest's memory is, and its directory, as long as they fit.
pub const MEMORY_DIRECTORY: &str = "/dev/shm";

/// Debian's package with a User-Mode Linux kernel, and where its kernel is below `/`, or below the
/// directory of our cache in which scripts/setup unpacks it where it cannot install it.
const PACKAGE: &str = "user-mode-linux";
const PACKAGE_KERNEL: &str = "usr/bin/linux.uml";

/// Where the modules of that kernel are, below its `usr`.
const PACKAGE_MODULES: &str = "lib/uml/modules";

/// What stands behind the process id in the name of a guest's directory.
const DIRECTORY_MARK: &str = "-guest-";

/// Whether the name of a directory says that it is a guest's.
pub fn is_guest_directory(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(NAME_PREFIX) && name.contains(DIRECTORY_MARK)
}

/// Guests that were started: neighbours are to run on different processors.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A User-Mode Linux kernel, and how it is started.
#[derive(Debug, Clone)]
pub struct Uml {
    /// The kernel: an executable.
    pub kernel: PathBuf,
    /// What it says of its release (`6.1.90`).
    pub release: String,
    /// Where its modules are, if it has any.
    pub modules: Option<PathBuf>,
    /// Modules that are wanted; what the kernel has built in needs none.
    pub load: Vec<String>,
    /// Files of the host's that it must see, also in directories that its own hide, such as in /run.
    pub files: Vec<PathBuf>,
    /// Parameters for the kernel beyond ours.
    pub parameters: Vec<String>,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Waiting costs no time, and everything repeats for the same seed. It takes a kernel of
    /// scripts/build-uml.sh.
    pub virtual_time: Option<u64>,
}

impl Uml {
    /// The kernel at `path`, or that of Debian's package; `modules` if they are not where that
    /// package has them.
    ///
    /// # Errors
    /// If there is none, or it cannot be run.
    pub fn find(path: Option<&Path>, modules: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = path {
            return Self::at(path, modules);
        }
        let unpacked = cache().ok().map(|cache| cache.join("crashpoint").join(PACKAGE));
        let roots = [Some(PathBuf::from("/")), unpacked].into_iter().flatten();
        let kernel = roots.map(|root| root.join(PACKAGE_KERNEL)).find(|kernel| kernel.exists()).with_context(|| {
            format!(
                "there is no User-Mode Linux kernel: `apt-get install {PACKAGE}`, or build one with \
                 scripts/build-uml.sh and name it with --kernel uml:PATH"
            )
        })?;
        Self::at(&kernel, modules)
    }

    /// The kernel that scripts/build-uml.sh built last, or that at `path`, with virtual time.
    ///
    /// # Errors
    /// If there is none, or it has no virtual time.
    pub fn find_virtual(path: Option<&Path>, modules: Option<&Path>, seed: u64) -> anyhow::Result<Self> {
        let built = || -> anyhow::Result<PathBuf> {
            let path = cache()?.join("crashpoint/uml/current/linux");
            if !path.exists() {
                bail!(
                    "--virtual-time takes a kernel of our own: build it with scripts/build-uml.sh (some minutes, once)"
                );
            }
            Ok(path)
        };
        let mut this = Self::at(&path.map_or_else(built, |path| Ok(path.to_owned()))?, modules)?;
        let help = Command::new(&this.kernel).arg("--help").stdin(Stdio::null()).output();
        let help = help.with_context(|| format!("run {}", this.kernel.display()))?;
        let text = String::from_utf8_lossy(&help.stdout);
        if !["time-travel", "seed="].iter().all(|word| text.contains(word)) {
            bail!("{} has no virtual time: build one that has with scripts/build-uml.sh", this.kernel.display());
        }
        this.virtual_time = Some(seed);
        Ok(this)
    }

    fn at(kernel: &Path, modules: Option<&Path>) -> anyhow::Result<Self> {
        let data = kernel.metadata().with_context(|| format!("find the kernel {}", kernel.display()))?;
        if !data.is_file() || data.permissions().mode() & 0o111 == 0 {
            bail!(
                "{} is not a program: --kernel uml:PATH takes the `linux` that `make ARCH=um` built",
                kernel.display()
            );
        }
        let kernel = std::path::absolute(kernel).context("find the working directory")?;
        let usr = kernel.ancestors().find(|path| path.ends_with("usr"));
        let packaged = || usr.map(|usr| usr.join(PACKAGE_MODULES)).filter(|path| path.exists());
        let modules = match modules {
            Some(path) if !path.is_dir() => bail!("{} is not a directory: --modules takes one", path.display()),
            Some(path) => Some(std::path::absolute(path).context("find the working directory")?),
            None => packaged(),
        };
        // What is no kernel would only fail later, and with other words.
        let release = release(&kernel)?;
        let (load, files, parameters) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { kernel, release, modules, load, files, parameters, memory_mib: MEMORY_MIB, virtual_time: None })
    }

    /// Starts this program as the init of a guest, which starts it again with `arguments`, and gives
    /// it `input`, if that is all that it will get.
    pub(crate) fn start_program(&self, arguments: &[&str], input: Option<&[u8]>) -> anyhow::Result<Running> {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        let task = Task::Program { arguments, input_in_file: input.is_some() };
        self.start(task, input.unwrap_or_default())
    }

    /// Starts a guest that runs a command. What that prints comes out of it; its errors, and what the
    /// kernel says, go to our standard error.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_command(&self, command: GuestCommand) -> anyhow::Result<Running> {
        let running = self.start(Task::Command(command), &[])?;
        running.show_console();
        Ok(running)
    }

    fn start(&self, task: Task, input: &[u8]) -> anyhow::Result<Running> {
        let prefix = format!("{NAME_PREFIX}{}{DIRECTORY_MARK}", std::process::id());
        let memory = self.memory_directory();
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(&memory);
        let directory = directory.with_context(|| format!("make a directory in {}", memory.display()))?;
        let spec = Spec {
            task,
            path: std::env::var("PATH").unwrap_or_default(),
            modules: self.modules.clone(),
            load: self.load.clone(),
            files: self.files.clone(),
            virtual_time: self.virtual_time.is_some(),
        };
        spec.write(directory.path())?;
        std::fs::write(directory.path().join(INPUT), input).context("write the input of a guest")?;
        let (console, console_end) = std::io::pipe().context("make a pipe for the guest's console")?;
        let (input, input_end) = UnixStream::pair().context("make a channel to the guest")?;
        let process = Command::new(crate::own_program())
            .arg(KEEPER_COMMAND)
            .arg(std::process::id().to_string())
            .arg(directory.path())
            .arg(STARTED.fetch_add(1, Ordering::Relaxed).to_string())
            .arg(&self.kernel)
            .args(self.command_line(directory.path())?)
            .stdin(Stdio::from(OwnedFd::from(input_end)))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(console_end))
            .env_clear()
            .env("TMPDIR", memory)
            .current_dir("/")
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", self.kernel.display()))?;
        let guest = Guest { console: Console::collect(console), directory };
        let mut running = Running::new(process, Some(OwnedFd::from(input).into()), Some(guest));
        self.wait_until_ready(&mut running)?;
        Ok(running)
    }

    fn command_line(&self, directory: &Path) -> anyhow::Result<Vec<String>> {
        let program = crate::own_program();
        let (Some(program), Some(directory)) = (program.to_str(), directory.to_str()) else {
            bail!("the path of this program is not text: {}", program.display());
        };
        if program.contains(char::is_whitespace) || directory.contains(char::is_whitespace) {
            bail!("a guest cannot be started from a path with spaces: {program}");
        }
        let mut line = vec![
            format!("mem={}M", self.memory_mib),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            format!("uml_dir={directory}"),
            "umid=guest".into(),
            // The kernel's own words, and nothing else.
            "con=null".into(),
            "con0=null,fd:2".into(),
            "ssl=null".into(),
            // Warnings and worse. The rest can be read in the guest.
            "loglevel=5".into(),
            "oops=panic".into(),
            "random.trust_cpu=on".into(),
            format!("init={program}"),
        ];
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

    /// Where the guest's memory has its file: in memory, if there is room, we may write there, and
    /// programs may run.
    fn memory_directory(&self) -> PathBuf {
        let ours = access(MEMORY_DIRECTORY, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
        let fits = statvfs(MEMORY_DIRECTORY).is_ok_and(|room| {
            let free = room.blocks_available() * room.fragment_size();
            free >= self.memory_mib << 20 && !room.flags().contains(FsFlags::ST_NOEXEC)
        });
        if ours && fits { MEMORY_DIRECTORY.into() } else { std::env::temp_dir() }
    }

    fn wait_until_ready(&self, running: &mut Running) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        let mut said = Vec::new();
        let why = loop {
            if running.readable(Duration::from_millis(200)) {
                let mut byte = [0];
                match running.output().read(&mut byte) {
                    Ok(1) => said.push(byte[0]),
                    _ => break end_at_start(running.end()),
                }
                // The kernel may have had something to say before.
                if said.ends_with(READY) {
                    return Ok(());
                }
            }
            if Instant::now() > deadline {
                break format!("it is not ready after {} s", START_PATIENCE.as_secs());
            }
        };
        let console = running.console();
        let last: Vec<_> = console.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        let kernel = self.kernel.display();
        if last.iter().any(|line| line.contains(&why)) {
            bail!("the guest {kernel} does not start: {why}");
        }
        let last = last[last.len().saturating_sub(3)..].join("; ");
        bail!("the guest {kernel} does not start: {why}; its console says: {last}");
    }
}

/// What a kernel says of its release.
fn release(kernel: &Path) -> anyhow::Result<String> {
    let output = Command::new(kernel).arg("--version").stdin(Stdio::null()).output();
    let not_one = || format!("{} is not a User-Mode Linux kernel", kernel.display());
    let output = output.with_context(not_one)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let release = text.split_whitespace().next().filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    release.map(str::to_owned).context("it does not say its version").with_context(not_one)
}

/// Where a user's caches are (XDG Base Directory Specification).
fn cache() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME says where kernels are kept: name one with --kernel uml:PATH")
}

/// An end that came before anything was done, in one line.
fn end_at_start(end: End) -> String {
    match end {
        End::Process(what) | End::Host(what) => what,
        End::Kernel { what, .. } => format!("{what} (is its memory too small?)"),
    }
}
