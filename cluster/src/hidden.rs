//! What this same program does inside of a node: it is started anew as two hidden commands.
//!
//! `__node` is the first process of the node's process namespace: it makes the node's mounts and
//! then does nothing but to live, and when it ends the kernel kills everything in the node. It ends
//! when its standard input does, so also when its parent is killed. `__enter` enters a node and
//! runs a command there. It is outside, as are who started it and who watches it.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, User, chroot, fchdir, sethostname};
use serde::{Deserialize, Serialize};

use crate::ask::{self, ANSWERS_COMMAND, PROBE_COMMAND};
use crate::error::{Context, Error, Result};
use crate::everybody;
use crate::file::DIRECTORY;
use crate::ground::MachineSpec;
use crate::simulated::{MACHINE_COMMAND, be_machine};

/// The argument by which the program is told to be a node. What the node is comes on its standard
/// input: one line, a [`MachineSpec`]. After that come
/// [`PAUSE`] and [`RESUME`], each in a line of its own that is answered with one.
pub(crate) const NODE_COMMAND: &str = "__node";

/// The argument by which it is told to run a command in a node. The process id of the node's first
/// process follows, an [`EnterSpec`], and the command.
pub(crate) const ENTER_COMMAND: &str = "__enter";

/// What a node says when it is as it should be.
pub(crate) const NODE_IS_MADE: &str = "made";

/// What follows then, and why, if it shares a directory with the whole machine that it should have
/// for itself.
pub(crate) const BUT: &str = ", but ";

/// Has all processes of the node stop where they are.
pub(crate) const PAUSE: &str = "pause";

/// Has them go on.
pub(crate) const RESUME: &str = "resume";

/// What a node says when that is done.
pub(crate) const IS_DONE: &str = "done";

/// The status of a command that could not be run, as shells have it.
pub(crate) const COULD_NOT_RUN: u8 = 127;

/// What is added to a signal's number for an exit status, as shells do.
const SIGNALLED: i32 = 128;

/// Where names are looked up.
pub(crate) const HOSTS: &str = "/etc/hosts";

/// Memory that programs share.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where everybody makes files. What nodes have there must not order what they do.
const OPEN_DIRECTORIES: [&str; 2] = ["/tmp", "/var/tmp"];

/// Everybody may make files there, and remove their own.
const OPEN_TO_ALL: u32 = 0o1777;

/// What is passed on to the command.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Asks for the command to be killed, with what it started as far as that is in its process group.
/// To kill us instead would leave it to the init of the machine to wait for it, which may take its
/// time, and a process namespace ends with the last one in it that has been waited for.
pub(crate) const KILL_COMMAND: Signal = Signal::SIGALRM;

/// How a command is run in a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EnterSpec {
    /// In which directory.
    pub(crate) directory: PathBuf,
    /// As whom.
    pub(crate) user: Option<String>,
}

/// The directory for temporary files that a node has for itself.
pub(crate) fn temporary_directory() -> PathBuf {
    // No node's name has a dot.
    Path::new(DIRECTORY).join(".tmp")
}

/// Does what the program was started for by this crate, if it was. Every program that makes a
/// cluster must call this first.
pub fn run_hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next()?;
    if command == MACHINE_COMMAND {
        be_machine();
    }
    if command == NODE_COMMAND {
        return Some(be_node());
    }
    if command == PROBE_COMMAND {
        return Some(ask::probe(arguments.next()));
    }
    if command == ANSWERS_COMMAND {
        return Some(ask::answers(arguments.next()));
    }
    if command != ENTER_COMMAND {
        return None;
    }
    Some(enter(arguments).unwrap_or_else(|error| {
        // This is the log of the node, or of whoever asked.
        eprintln!("crashpoint: {error}");
        ExitCode::from(COULD_NOT_RUN)
    }))
}

fn be_node() -> ExitCode {
    let mut line = String::new();
    let read = io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| error.to_string());
    let spec = read.and_then(|_| {
        serde_json::from_str::<MachineSpec>(&line).map_err(|error| error.to_string())
    });
    let made = spec.and_then(|spec| make_node(&spec).map_err(|error| error.to_string()));
    let answer = match &made {
        Ok(shared) => shared.iter().fold(NODE_IS_MADE.to_owned(), |made, why| {
            format!("{made}{BUT}{why}")
        }),
        Err(error) => error.clone(),
    };
    if writeln!(io::stdout(), "{answer}").is_err() || made.is_err() {
        return ExitCode::FAILURE;
    }
    live().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

/// Makes its mounts. Returns why it shares directories that it should have for itself, if it does.
fn make_node(spec: &MachineSpec) -> Result<Vec<Error>> {
    make_namespaces(&spec.name)?;
    attach(None, Path::new("/proc"), Some("proc"), MsFlags::empty())?;
    machine::skip_numbers(spec.last_pid);
    let root = Path::new(DIRECTORY);
    make_root(root, spec)?;
    for mount_point in &spec.unseen {
        // One that was mounted in another namespace is not here.
        let _ = umount2(mount_point, MntFlags::MNT_DETACH);
    }
    name_hosts(root, &spec.hosts)?;
    make_temporary()?;
    machine::have_other_boot_id(root).doing(|| "give it a boot id".into())?;
    let shared = if spec.own_temporary {
        cover_open(root)
    } else {
        Vec::new()
    };
    // The last one, since the data may lie there.
    let memory = Path::new(SHARED_MEMORY);
    if memory.exists() {
        attach(None, memory, Some("tmpfs"), MsFlags::empty())?;
    }
    Ok(shared)
}

/// The directory with the node's directory of data in it.
fn make_root(root: &Path, spec: &MachineSpec) -> Result<()> {
    fs::create_dir_all(root).doing(|| format!("create {}", root.display()))?;
    attach(None, root, Some("tmpfs"), MsFlags::empty())?;
    let Some(data) = &spec.data else {
        return Ok(());
    };
    let inside = root.join(&spec.name);
    fs::create_dir(&inside).doing(|| format!("create {}", inside.display()))?;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    attach(Some(data), &inside, None, flags)
}

/// Namespaces for mounts, IPC and the name, which it is given.
fn make_namespaces(name: &str) -> Result<()> {
    machine::have_own_mounts().doing(|| "make a mount namespace".into())?;
    let kinds = CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC;
    unshare(kinds).doing(|| "make namespaces for the name and IPC".into())?;
    sethostname(name).doing(|| "set the host's name".into())
}

/// Has programs find the hosts with these names.
fn name_hosts(root: &Path, text: &str) -> Result<()> {
    let hosts = root.join(".hosts");
    fs::write(&hosts, text).doing(|| format!("write {}", hosts.display()))?;
    if Path::new(HOSTS).exists() {
        attach(Some(&hosts), Path::new(HOSTS), None, MsFlags::MS_BIND)?;
    }
    Ok(())
}

fn make_temporary() -> Result<()> {
    let temporary = temporary_directory();
    let made = fs::create_dir(&temporary)
        .and_then(|()| fs::set_permissions(&temporary, Permissions::from_mode(OPEN_TO_ALL)));
    made.doing(|| format!("create {}", temporary.display()))
}

/// Has changes in directories that are open to all seen by nobody else. Why not, where the kernel
/// cannot: not every one can.
fn cover_open(root: &Path) -> Vec<Error> {
    let open = OPEN_DIRECTORIES.iter().map(Path::new).enumerate();
    let covered = open
        .filter(|(_, directory)| directory.is_dir())
        .map(|(number, directory)| cover(directory, &root.join(format!(".open-{number}"))));
    covered.filter_map(Result::err).collect()
}

/// Has a node's changes to a directory seen by nobody else. What was there it can read: programs
/// may lie there. The changes go to `own`, which is made.
fn cover(directory: &Path, own: &Path) -> Result<()> {
    let (changes, work) = (own.join("changes"), own.join("work"));
    let mode = fs::metadata(directory).map(|directory| directory.permissions());
    let made = fs::create_dir_all(&work)
        .and_then(|()| fs::create_dir(&changes))
        .and_then(|()| fs::set_permissions(&changes, mode?));
    made.doing(|| format!("create {}", changes.display()))?;
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        directory.display(),
        changes.display(),
        work.display()
    );
    let (name, kind, flags) = ("crashpoint", Some("overlay"), MsFlags::empty());
    mount(Some(name), directory, kind, flags, Some(options.as_str()))
        .doing(|| format!("mount an overlay on {}", directory.display()))
}

pub(crate) fn attach(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
) -> Result<()> {
    let named = source.unwrap_or(Path::new("crashpoint"));
    let mounted = mount(Some(named), target, kind, flags, None::<&str>);
    mounted.doing(|| format!("mount {} on {}", named.display(), target.display()))
}

/// Waits for those that lose their parents, and does what it is told, until the standard input
/// ends.
fn live() -> io::Result<()> {
    let deaths = watch_deaths()?;
    let input = io::stdin();
    loop {
        let mut fds = [
            PollFd::new(deaths.as_fd(), PollFlags::POLLIN),
            PollFd::new(input.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[1].any() == Some(true) && !answer_one(&mut input.lock())? {
            return Ok(());
        }
        while deaths.read_signal()?.is_some() {}
        let reap = || waitpid(None, Some(WaitPidFlag::WNOHANG));
        while reap().is_ok_and(|status| status != WaitStatus::StillAlive) {}
    }
}

/// What can be read from when a child has ended.
fn watch_deaths() -> io::Result<SignalFd> {
    let mut wanted = SigSet::empty();
    wanted.add(Signal::SIGCHLD);
    wanted.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&wanted, flags)?)
}

/// Does what the next line of the input asks for, and answers it; false where the input has ended.
fn answer_one(input: &mut impl BufRead) -> io::Result<bool> {
    let mut line = String::new();
    // Each is answered before the next is sent: nothing else is read with it.
    if input.read_line(&mut line)? == 0 {
        return Ok(false);
    }
    let done = obey(line.trim_end());
    let answer = done.map_or_else(|error| error.to_string(), |()| IS_DONE.to_owned());
    writeln!(io::stdout(), "{answer}")?;
    Ok(true)
}

/// Stops all processes of this namespace, or has them go on.
fn obey(line: &str) -> io::Result<()> {
    match line {
        PAUSE => everybody::stop(&[]),
        RESUME => everybody::go_on(),
        other => Err(io::Error::other(format!("{other} is nothing to ask of it"))),
    }
}

/// Enters a node, runs a command there, and ends as it does.
fn enter(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let missing = || Error::Command {
        whose: ENTER_COMMAND.into(),
        what: "lacks an argument".into(),
    };
    let text = |argument: Option<OsString>| {
        argument
            .and_then(|text| text.into_string().ok())
            .ok_or_else(missing)
    };
    let pid = text(arguments.next())?;
    let spec: EnterSpec = serde_json::from_str(&text(arguments.next())?).map_err(|_| missing())?;
    let program = arguments.next().ok_or_else(missing)?;
    let user = spec.user.as_deref().map(user).transpose()?;
    join(&pid)?;
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .current_dir(&spec.directory)
        .process_group(0);
    if let Some(user) = user {
        run_as(&mut command, &user);
    }
    let mut child = command.spawn().doing(|| run_words(Path::new(&program)))?;
    // A child has the signals blocked that are when it is started. One that comes before they are
    // ends us alone, and the node is killed with the command in it.
    let wanted = signals_to_hear();
    wanted.thread_block().doing(|| "block signals".into())?;
    let status =
        pass_on(&mut child, &wanted).doing(|| format!("wait for {}", program.display()))?;
    Ok(same_end(status))
}

fn signals_to_hear() -> SigSet {
    let mut wanted = SigSet::empty();
    wanted.extend(PASSED_ON);
    wanted.extend([KILL_COMMAND, Signal::SIGCHLD]);
    wanted
}

/// Ends as a command did.
fn same_end(status: ExitStatus) -> ExitCode {
    let signalled = || SIGNALLED + status.signal().unwrap_or_default();
    ExitCode::from(status.code().unwrap_or_else(signalled) as u8)
}

/// Has a command be run by a user.
pub(crate) fn run_as(command: &mut Command, user: &User) {
    command
        .uid(user.uid.as_raw())
        .gid(user.gid.as_raw())
        .env("HOME", &user.dir)
        .env("USER", &user.name)
        .env("LOGNAME", &user.name);
}

/// Has a command be run by the user with a name.
///
/// # Errors
/// If there is none.
pub fn run_as_user(command: &mut Command, name: &str) -> Result<()> {
    run_as(command, &user(name)?);
    Ok(())
}

/// The user with a name.
pub(crate) fn user(name: &str) -> Result<User> {
    let found = User::from_name(name).doing(|| format!("look for the user {name}"))?;
    found.ok_or_else(|| Error::Command {
        whose: format!("user {name}"),
        what: "does not exist".into(),
    })
}

/// What is being done when a program is run. The kernel says of a file that is there that it is
/// not, if what is to run it is not.
fn run_words(program: &Path) -> String {
    let interpreter = if program.is_file() {
        ", or what its first line or its header names to run it"
    } else {
        ""
    };
    format!("run {}{interpreter}", program.display())
}

/// Enters the namespaces of a node's first process, and goes to its root, which in a chroot is not
/// that of its mounts; of its process namespace those that are started from here on are.
fn join(pid: &str) -> Result<()> {
    let kinds = [
        ("net", CloneFlags::CLONE_NEWNET),
        ("uts", CloneFlags::CLONE_NEWUTS),
        ("ipc", CloneFlags::CLONE_NEWIPC),
        ("pid", CloneFlags::CLONE_NEWPID),
        ("mnt", CloneFlags::CLONE_NEWNS),
    ];
    // The last one takes away the way to the others.
    let open = |(name, kind)| Ok((fs::File::open(format!("/proc/{pid}/ns/{name}"))?, kind));
    let opened: io::Result<Vec<_>> = kinds.into_iter().map(open).collect();
    let ended = || "find the node, which may have ended".into();
    let opened = opened.doing(ended)?;
    let root = fs::File::open(format!("/proc/{pid}/root")).doing(ended)?;
    for (namespace, kind) in opened {
        setns(namespace, kind).doing(|| "enter the node".into())?;
    }
    fchdir(root)
        .and_then(|()| chroot("."))
        .doing(|| "enter the node's root".into())
}

/// Waits for a command, and passes signals on to it.
fn pass_on(child: &mut Child, wanted: &SigSet) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let signal = wanted.wait()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        match signal {
            Signal::SIGCHLD => {}
            // It has not been waited for, so the number is its own.
            KILL_COMMAND => killpg(pid, Signal::SIGKILL)?,
            _ => kill(pid, signal)?,
        }
    }
}
