//! The init of a simulated machine: it makes a system of the bare kernel, runs commands, and tells
//! what they print. It does nothing by itself, so all that happens in the machine is on the calendar.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use local_fs::{Mounted, Variant, format_device, repair_device};
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::time::{ClockId, clock_gettime, clock_settime};
use nix::unistd::{Pid, sethostname, syncfs};

use super::words::{
    DiskSetUp, Everybody, Listing, Order, ProcessId, Refusal, Report, SetUp, Stream, Task, packed,
};
use crate::error::{Context, Error, Result};
use crate::everybody;
use crate::file::DIRECTORY;
use crate::hidden::{COULD_NOT_RUN, HOSTS, attach, run_as, user};
use crate::listing::listed;
use crate::network;
use crate::node::give_to_user;

/// The argument by which the program is told to be the init of a simulated machine.
pub(crate) const MACHINE_COMMAND: &str = "__machine";

/// The machine's end of its port, which is its second device.
const PORT: &str = "/dev/vport1p0";

/// How often, and how many times, it is looked for.
const PORT_EVERY: Duration = Duration::from_millis(1);
const PORT_TRIES: u32 = 1000;

/// A device that a guest's kernel has in any case.
const CONSOLE: &str = "/dev/tty0";

/// The disk with its data.
const DISK: &str = "/dev/vda";

/// Where that is mounted, below [`DIRECTORY`]. No node's name has a dot.
const DISK_DIRECTORY: &str = ".disk";

/// The node's directory on it, as on the disks of clusters in namespaces.
pub(super) const DATA_DIRECTORY: &str = "data";

/// How much is read at once.
const PART_BYTES: usize = 1 << 14;

/// How long somebody may take to answer at a port.
const TRY_WITHIN: Duration = Duration::from_secs(1);

/// So far from where it should be a clock that jumped may be: others may have run meanwhile.
const CLOCK_OFF_NS_MAX: u64 = 50_000_000;

/// What is reported of a command that cannot be run: an exit status, as wait(2) has it.
const COULD_NOT_RUN_STATUS: i32 = (COULD_NOT_RUN as i32) << 8;

/// Is the init of a simulated machine. It ends with the machine.
pub(crate) fn be_machine() -> ! {
    if let Err(error) = work() {
        // The console is all there is; the kernel says that its init has ended.
        eprintln!("crashpoint: {error}");
    }
    std::process::exit(1);
}

fn work() -> Result<()> {
    let mounted = machine::mount_guest_system(Path::new(CONSOLE));
    mounted.map_err(|error| refused(&format!("{error:#}")))?;
    let wanted = heard_signals();
    wanted.thread_block().doing(|| "block signals".into())?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&wanted, flags).doing(|| "wait for signals".into())?;
    let (tried_end, tried) = io::pipe().doing(|| "make a pipe".into())?;
    let mut init = Init {
        port: open_port()?,
        signals,
        tried: (tried_end.into(), tried.into()),
        orders: Stream::default(),
        processes: BTreeMap::new(),
        disk: None,
    };
    init.report(&Report::Here)?;
    loop {
        init.turn()?;
    }
}

/// Those that are read, and so blocked.
fn heard_signals() -> SigSet {
    let mut wanted = SigSet::empty();
    wanted.add(Signal::SIGCHLD);
    wanted
}

/// Does something while no signal is blocked: what is started then has none blocked either, as programs
/// expect. Of a child that ends meanwhile no signal tells.
fn unblocked<T>(act: impl FnOnce() -> T) -> Result<T> {
    let wanted = heard_signals();
    wanted
        .thread_unblock()
        .doing(|| "let signals come".into())?;
    let done = act();
    wanted.thread_block().doing(|| "block signals".into())?;
    Ok(done)
}

/// Opens the port of a simulated machine, which is its second device, once its other end has told of it.
///
/// # Errors
/// If there is none.
pub fn open_port() -> Result<File> {
    for _ in 0..PORT_TRIES {
        if Path::new(PORT).exists() {
            break;
        }
        std::thread::sleep(PORT_EVERY);
    }
    let opened = OpenOptions::new().read(true).write(true).open(PORT);
    opened.doing(|| format!("open {PORT} (it takes a kernel with CONFIG_VIRTIO_CONSOLE, as scripts/build-uml.sh makes it)"))
}

struct Init {
    port: File,
    signals: SignalFd,
    /// Who tries a port says so here: where it is read, and where it is written.
    tried: (OwnedFd, OwnedFd),
    orders: Stream,
    processes: BTreeMap<ProcessId, Process>,
    disk: Option<Mounted>,
}

/// A command that was started.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    /// What it prints, as long as somebody may print: standard output and standard error.
    outputs: [Option<OwnedFd>; 2],
    status: Option<i32>,
    is_tracer: bool,
}

/// Where something has come from.
enum From {
    Port,
    Child,
    Tried,
    Output(ProcessId, usize),
}

impl Init {
    fn report(&mut self, report: &Report) -> Result<()> {
        let written = self.port.write_all(&packed(report));
        written.doing(|| format!("write to {PORT}"))
    }

    /// Waits until something comes, and does what that takes.
    fn turn(&mut self) -> Result<()> {
        for from in self.what_came()? {
            match from {
                From::Port => self.listen()?,
                From::Child => self.reap()?,
                From::Tried => {
                    let mut answers = [0];
                    let read = nix::unistd::read(&self.tried.0, &mut answers);
                    read.doing(|| "read whether a port answers".into())?;
                    self.report(&Report::Tried(answers[0] == 1))?;
                }
                From::Output(id, index) => self.pass_on(id, index)?,
            }
        }
        self.tell_ends()
    }

    fn what_came(&self) -> Result<Vec<From>> {
        let mut froms = vec![From::Port, From::Child, From::Tried];
        let mut fds = vec![
            self.port.as_fd(),
            self.signals.as_fd(),
            self.tried.0.as_fd(),
        ];
        for (id, process) in &self.processes {
            for (index, output) in process.outputs.iter().enumerate() {
                if let Some(output) = output {
                    froms.push(From::Output(*id, index));
                    fds.push(output.as_fd());
                }
            }
        }
        let mut fds: Vec<_> = fds
            .into_iter()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).doing(|| "wait for orders".into()),
        }
        let came = froms.into_iter().zip(&fds);
        let came = came.filter(|(_, fd)| fd.any() == Some(true));
        Ok(came.map(|(from, _)| from).collect())
    }

    fn listen(&mut self) -> Result<()> {
        let mut bytes = [0; PART_BYTES];
        let length = self
            .port
            .read(&mut bytes)
            .doing(|| format!("read from {PORT}"))?;
        self.orders.add(&bytes[..length]);
        loop {
            let order = self.orders.next::<Order>();
            match order.map_err(|error| refused(&format!("understand an order: {error}")))? {
                Some(order) => self.obey(order)?,
                None => return Ok(()),
            }
        }
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        let done = match order {
            Order::SetUp(spec) => unblocked(|| self.set_up(&spec))?,
            Order::Write {
                path,
                content,
                user,
            } => write(&path, &content, user.as_deref()),
            Order::Sync => self.sync(),
            Order::MoveClock { by_ns } => move_clock(by_ns),
            Order::Read { path } => return self.read(&path),
            Order::List(listing) => return self.list(&listing),
            Order::Start { id, task } => return self.start(id, &task),
            Order::Input { id, bytes } => {
                self.give(id, &bytes);
                return Ok(());
            }
            Order::AskToEnd { id } => {
                self.ask_to_end(id);
                return Ok(());
            }
            Order::Everybody(what) => self.everybody(what)?,
            Order::Signal { id, signal } => {
                self.signal(id, signal);
                return Ok(());
            }
            Order::Try { address, port } => return self.try_port(address, port),
        };
        self.report(&Report::Done(done.map_err(|error| refusal(&error))))
    }

    fn start(&mut self, id: ProcessId, task: &Task) -> Result<()> {
        match unblocked(|| start(task))? {
            Ok(process) => drop(self.processes.insert(id, process)),
            Err(error) => self.could_not_run(id, &error)?,
        }
        self.reap()
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let content = fs::read(path);
        let content = content.map_err(|error| format!("{}: {error}", path.display()));
        self.report(&Report::Content(content))
    }

    fn list(&mut self, listing: &Listing) -> Result<()> {
        let content = match listed(&listing.path, listing.reading) {
            Ok(listed) => postcard::to_stdvec(&listed).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        self.report(&Report::Content(content))
    }

    /// Gives a process its input, which ends where there is none.
    fn give(&mut self, id: ProcessId, bytes: &[u8]) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        if bytes.is_empty() {
            process.input = None;
        } else if let Some(input) = &mut process.input {
            // Who ends without reading is told by how it ends.
            let _ = input.write_all(bytes);
        }
    }

    fn ask_to_end(&self, id: ProcessId) {
        if let Some(process) = self.processes.get(&id) {
            let _ = kill(pid_of(&process.child), Signal::SIGTERM);
        }
    }

    fn signal(&self, id: ProcessId, signal: i32) {
        let signal = Signal::try_from(signal);
        if let (Some(process), Ok(signal)) = (self.processes.get(&id), signal) {
            let _ = killpg(pid_of(&process.child), signal);
        }
    }

    /// Whether somebody answers at a port is told when that is known.
    fn try_port(&self, address: Ipv4Addr, port: u16) -> Result<()> {
        let end = self.tried.1.try_clone().doing(|| "try a port".into())?;
        std::thread::spawn(move || {
            let address = SocketAddr::from((address, port));
            let answers = TcpStream::connect_timeout(&address, TRY_WITHIN).is_ok();
            let _ = File::from(end).write_all(&[u8::from(answers)]);
        });
        Ok(())
    }

    /// Makes a system of the bare kernel.
    fn set_up(&mut self, spec: &SetUp) -> Result<()> {
        let visible: Vec<_> = spec.visible.iter().map(PathBuf::as_path).collect();
        let covered = machine::cover_guest_temporary(&visible);
        covered.map_err(|error| refused(&format!("{error:#}")))?;
        sethostname(&spec.name).doing(|| "set the host's name".into())?;
        network::set_up_machine(spec.address)?;
        machine::skip_numbers(spec.last_pid);
        let root = Path::new(DIRECTORY);
        fs::create_dir_all(root).doing(|| format!("create {DIRECTORY}"))?;
        let hosts = root.join(".hosts");
        fs::write(&hosts, &spec.hosts).doing(|| format!("write {}", hosts.display()))?;
        if Path::new(HOSTS).exists() {
            bind(&hosts, Path::new(HOSTS))?;
        }
        match &spec.disk {
            Some(disk) => self.set_up_disk(disk, &root.join(&spec.name)),
            None => Ok(()),
        }
    }

    /// Mounts the disk, and shows what it has of the node at `data`.
    fn set_up_disk(&mut self, spec: &DiskSetUp, data: &Path) -> Result<()> {
        let variant = Variant::for_machines(&spec.file_system)?;
        if spec.is_new {
            format_device(&variant, Path::new(DISK))?;
        } else {
            repair_device(&variant, Path::new(DISK))?;
        }
        let mount_point = Path::new(DIRECTORY).join(DISK_DIRECTORY);
        for directory in [mount_point.as_path(), data] {
            fs::create_dir_all(directory).doing(|| format!("create {}", directory.display()))?;
        }
        self.disk = Some(Mounted::new(&variant, Path::new(DISK), &mount_point)?);
        let inside = mount_point.join(DATA_DIRECTORY);
        if spec.is_new {
            fs::create_dir(&inside).doing(|| format!("create {}", inside.display()))?;
            give_to_user(&inside, spec.user.as_deref())?;
            self.sync()?;
        } else {
            refuse_lost(&inside)?;
        }
        bind(&inside, data)
    }

    /// Does something to all processes. What those had printed that were killed is told; of their ends
    /// whoever asked for that knows.
    fn everybody(&mut self, what: Everybody) -> Result<Result<()>> {
        let done = match what {
            Everybody::Stop => everybody::stop(&self.tracers()),
            Everybody::GoOn => everybody::go_on(),
            Everybody::End => everybody::end(),
        };
        if what == Everybody::End {
            let ids: Vec<_> = self.processes.keys().copied().collect();
            for id in ids {
                while let Some(index) = self.has_printed(id)? {
                    self.pass_on(id, index)?;
                }
                self.processes.remove(&id);
            }
        }
        Ok(done.doing(|| format!("{what:?} all processes")))
    }

    /// The numbers of the processes that trace others.
    fn tracers(&self) -> Vec<u32> {
        let processes = self.processes.values();
        let tracers = processes.filter(|process| process.is_tracer && process.status.is_none());
        tracers.map(|process| process.child.id()).collect()
    }

    /// Has the disk hold what was written to it.
    fn sync(&self) -> Result<()> {
        let Some(mounted) = &self.disk else {
            return Ok(());
        };
        let root = mounted.root()?;
        syncfs(&root).doing(|| "write everything to the disk".into())
    }

    fn could_not_run(&mut self, id: ProcessId, error: &Error) -> Result<()> {
        let bytes = format!("crashpoint: {error}\n").into_bytes();
        let is_error = true;
        self.report(&Report::Printed {
            id,
            is_error,
            bytes,
        })?;
        self.report(&Report::Ended {
            id,
            status: COULD_NOT_RUN_STATUS,
        })
    }

    /// Tells what a process has printed.
    fn pass_on(&mut self, id: ProcessId, index: usize) -> Result<()> {
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        let Some(output) = &process.outputs[index] else {
            return Ok(());
        };
        let mut bytes = vec![0; PART_BYTES];
        let length = nix::unistd::read(output, &mut bytes).unwrap_or(0);
        if length == 0 {
            process.outputs[index] = None;
            return Ok(());
        }
        bytes.truncate(length);
        let is_error = index == 1;
        self.report(&Report::Printed {
            id,
            is_error,
            bytes,
        })
    }

    /// Waits for everybody that has ended, as an init must.
    fn reap(&mut self) -> Result<()> {
        while self
            .signals
            .read_signal()
            .doing(|| "read a signal".into())?
            .is_some()
        {}
        loop {
            let (pid, status) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, (code & 0xff) << 8),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, signal as i32),
                Ok(WaitStatus::StillAlive) | Err(_) => return Ok(()),
                Ok(_) => continue,
            };
            let mut processes = self.processes.values_mut();
            let known = processes.find(|process| {
                process.status.is_none() && process.child.id() == pid.as_raw().cast_unsigned()
            });
            if let Some(process) = known {
                process.status = Some(status);
            }
        }
    }

    /// Tells of those that have ended. What they had printed was told before, as far as it was
    /// there when they ended: others may go on to print.
    fn tell_ends(&mut self) -> Result<()> {
        let ended = self.processes.iter();
        let ended: Vec<_> = ended
            .filter_map(|(id, process)| Some((*id, process.status?)))
            .collect();
        for (id, status) in ended {
            while let Some(index) = self.has_printed(id)? {
                self.pass_on(id, index)?;
            }
            self.processes.remove(&id);
            self.report(&Report::Ended { id, status })?;
        }
        Ok(())
    }

    /// Which output of a process has something, or has ended and is not known to.
    fn has_printed(&self, id: ProcessId) -> Result<Option<usize>> {
        let outputs = self.processes[&id].outputs.iter().enumerate();
        let (indices, mut fds): (Vec<_>, Vec<_>) = outputs
            .filter_map(|(index, output)| Some((index, output.as_ref()?)))
            .map(|(index, output)| (index, PollFd::new(output.as_fd(), PollFlags::POLLIN)))
            .unzip();
        poll(&mut fds, PollTimeout::ZERO).doing(|| "look for output".into())?;
        let came = indices.into_iter().zip(&fds);
        let mut came = came.filter(|(_, fd)| fd.any() == Some(true));
        Ok(came.next().map(|(index, _)| index))
    }
}

/// Has the time of day jump, and looks whether it has: against a clock that nobody can set.
fn move_clock(by_ns: i64) -> Result<()> {
    let doing = || format!("have the clock jump by {by_ns} ns");
    let ahead_ns = || -> Result<i64> {
        let now = clock_gettime(ClockId::CLOCK_REALTIME).doing(doing)?;
        let since_boot = clock_gettime(ClockId::CLOCK_BOOTTIME).doing(doing)?;
        Ok((now - since_boot).num_nanoseconds())
    };
    let wanted_ns = ahead_ns()? + by_ns;
    let now = clock_gettime(ClockId::CLOCK_REALTIME).doing(doing)?;
    let then = now + TimeSpec::nanoseconds(by_ns);
    clock_settime(ClockId::CLOCK_REALTIME, then).doing(doing)?;
    let off_ns = ahead_ns()?.abs_diff(wanted_ns);
    if off_ns > CLOCK_OFF_NS_MAX {
        let what = format!("{}: it is {off_ns} ns from where it should be", doing());
        return Err(refused(&what));
    }
    Ok(())
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// What is told of something that could not be done.
fn refusal(error: &Error) -> Refusal {
    let is_of_disk = match error {
        Error::FileSystem(error) => error.unmountable().is_some(),
        Error::NoData { .. } => true,
        _ => false,
    };
    Refusal {
        what: error.to_string(),
        is_of_disk,
    }
}

/// Fails if the directory of a node's data is not there any more.
fn refuse_lost(inside: &Path) -> Result<()> {
    let error = match fs::metadata(inside) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => io::Error::from(io::ErrorKind::NotADirectory),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::OutOfMemory {
        return Err(error).doing(|| format!("look at {}", inside.display()));
    }
    let path = DATA_DIRECTORY.into();
    Err(Error::NoData { path, error })
}

fn refused(what: &str) -> Error {
    Error::Command {
        whose: "the machine".into(),
        what: format!("cannot: {what}"),
    }
}

fn bind(what: &Path, at: &Path) -> Result<()> {
    attach(Some(what), at, None, MsFlags::MS_BIND)
}

fn write(path: &Path, content: &[u8], user: Option<&str>) -> Result<()> {
    let parent = path.parent().expect("it is in a directory");
    let written = fs::create_dir_all(parent).and_then(|()| fs::write(path, content));
    written.doing(|| format!("write {}", path.display()))?;
    give_to_user(first_in_data(path), user)
}

/// The first that was made for a file in the directory of a node's data: the file, or a directory above it.
fn first_in_data(path: &Path) -> &Path {
    let root = Path::new(DIRECTORY);
    let is_first = |path: &&Path| path.parent().and_then(Path::parent) == Some(root);
    path.ancestors().find(is_first).unwrap_or(path)
}

fn start(task: &Task) -> Result<Process> {
    let (program, arguments) = task
        .words
        .split_first()
        .ok_or_else(|| refused("run nothing"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&task.directory)
        .env_clear()
        .envs(task.environment.iter().map(|(name, value)| (name, value)))
        .stdin(if task.has_input {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(name) = &task.user {
        run_as(&mut command, &user(name)?);
    }
    let mut child = command.spawn().doing(|| format!("run {program}"))?;
    let outputs = [
        child.stdout.take().map(OwnedFd::from),
        child.stderr.take().map(OwnedFd::from),
    ];
    Ok(Process {
        input: child.stdin.take(),
        child,
        outputs,
        status: None,
        is_tracer: task.is_tracer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_given_with_the_directories_that_were_made_for_it() {
        for (path, first) in [
            ("/run/crashpoint/n/a", "/run/crashpoint/n/a"),
            ("/run/crashpoint/n/a/b/c", "/run/crashpoint/n/a"),
            ("/elsewhere/a/b", "/elsewhere/a/b"),
        ] {
            assert_eq!(first_in_data(Path::new(path)), Path::new(first));
        }
    }
}
