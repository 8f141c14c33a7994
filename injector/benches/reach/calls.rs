//! System calls that somebody stops: with ptrace, as Crashpoint does, or by seccomp's user
//! notification.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Write, pipe};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use nix::libc::{self, c_int, c_long};
use nix::sys::ptrace::{self, Options as Tracing};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tracer::calls::ROWS;
use tracer::{After, Decision, Entry, Observer, Options, Origin, StackTable};

use crate::CALLER;
use crate::rounds::{Outcome, Place, SLICE, Table, pin, places, processor_of, processor_word};

/// What a program calls, again and again.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// One byte to `/dev/null`.
    Nothing,
    /// Bytes of a file, and its sync, where a sync has nothing to do.
    Memory,
    /// The same on a disk.
    Disk,
}

const WORKS: [Work; 3] = [Work::Nothing, Work::Memory, Work::Disk];

/// Without a link, so that nothing is left of it. The second one is beside what is built.
const MEMORY: &str = "/dev/shm";
const DISK: &str = env!("CARGO_TARGET_TMPDIR");

/// What is written to a file each time.
const BYTES: usize = 512;

impl Work {
    fn title(self) -> &'static str {
        match self {
            Self::Nothing => "pwrite of one byte to /dev/null, microseconds a call",
            Self::Memory => {
                "pwrite of 512 bytes and fdatasync of a file in memory, microseconds a pair"
            }
            Self::Disk => "the same of a file on a disk, microseconds a pair",
        }
    }

    /// How many calls between two looks at the clock.
    fn at_once(self) -> u64 {
        match self {
            Self::Nothing | Self::Memory => 32,
            Self::Disk => 1,
        }
    }

    fn file(self) -> io::Result<File> {
        match self {
            Self::Nothing => File::options().write(true).open("/dev/null"),
            Self::Memory => tempfile::tempfile_in(MEMORY),
            Self::Disk => tempfile::tempfile_in(DISK),
        }
    }

    /// The calls of one turn. They do what they are asked, whoever does it.
    fn once(self, file: &File, buffer: &[u8]) -> io::Result<()> {
        let wanted = match self {
            Self::Nothing => &buffer[..1],
            _ => buffer,
        };
        let written = file.write_at(wanted, 0)?;
        if written != wanted.len() {
            return Err(io::Error::other("a short write"));
        }
        match self {
            Self::Nothing => Ok(()),
            _ => file.sync_data(),
        }
    }

    fn calls(self) -> u64 {
        match self {
            Self::Nothing => 1,
            _ => 2,
        }
    }
}

/// Who stops the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Untraced,
    Filtered,
    Ptrace { exits: bool },
    Crashpoint { exits: bool },
    Notified { carries_out: bool, sync: bool },
}

const WAYS: [(&str, Way); 10] = [
    ("untraced", Way::Untraced),
    ("a seccomp filter that lets all through", Way::Filtered),
    ("ptrace, bare: entry", Way::Ptrace { exits: false }),
    (
        "**Crashpoint's tracer: entry**",
        Way::Crashpoint { exits: false },
    ),
    (
        "notification, CONTINUE, no SYNC_WAKE_UP",
        Way::Notified {
            carries_out: false,
            sync: false,
        },
    ),
    (
        "notification, CONTINUE, SYNC_WAKE_UP",
        Way::Notified {
            carries_out: false,
            sync: true,
        },
    ),
    ("ptrace, bare: entry and exit", Way::Ptrace { exits: true }),
    (
        "**Crashpoint's tracer: entry and exit**",
        Way::Crashpoint { exits: true },
    ),
    (
        "notification, carried out on a copy, no SYNC_WAKE_UP",
        Way::Notified {
            carries_out: true,
            sync: false,
        },
    ),
    (
        "notification, carried out on a copy, SYNC_WAKE_UP",
        Way::Notified {
            carries_out: true,
            sync: true,
        },
    ),
];

/// What a program's filter does with the calls.
const NONE: &str = "none";
const ALLOW: &str = "allow";
const TRACE: &str = "trace";
const NOTIFY: &str = "notify";

impl Way {
    fn filter(self) -> &'static str {
        match self {
            // Crashpoint installs its own.
            Self::Untraced | Self::Crashpoint { .. } => NONE,
            Self::Filtered => ALLOW,
            Self::Ptrace { .. } => TRACE,
            Self::Notified { .. } => NOTIFY,
        }
    }
}

/// Measures all ways, and prints the tables.
pub(crate) fn measure(rounds: usize) -> Outcome<()> {
    forgo_signals_of_stops()?;
    let (places, names) = (places()?, WAYS.map(|(name, _)| name));
    let mut tables = WORKS.map(|work| Table::new(work.title(), 2, &names));
    for _ in 0..rounds {
        for (table, work) in tables.iter_mut().zip(WORKS) {
            for (row, (name, way)) in WAYS.into_iter().enumerate() {
                for (column, place) in places.into_iter().enumerate() {
                    let figure = figure(work, way, place)
                        .map_err(|error| format!("{name}, {}: {error}", place.name))?;
                    table.add(row, column, figure);
                }
            }
        }
    }
    for table in tables {
        table.print(&places)?;
    }
    Ok(())
}

/// As Crashpoint does: a signal for each stop takes time, and nobody needs it.
#[allow(unsafe_code)]
fn forgo_signals_of_stops() -> nix::Result<()> {
    let quiet = SigAction::new(SigHandler::SigDfl, SaFlags::SA_NOCLDSTOP, SigSet::empty());
    // SAFETY: no handler is set that could run.
    unsafe { sigaction(Signal::SIGCHLD, &quiet) }.map(drop)
}

/// The microseconds that a turn of a work takes. Whoever stops the calls has seen each of them.
fn figure(work: Work, way: Way, place: Place) -> Outcome<f64> {
    let (told, seen) = match way {
        Way::Untraced | Way::Filtered => (Caller::start(work, way, place)?.alone()?, None),
        Way::Crashpoint { exits } => {
            let (told, seen) = by_crashpoint(work, exits, place)?;
            (told, Some(seen))
        }
        Way::Ptrace { exits } => {
            let caller = Caller::start(work, way, place)?;
            let (told, seen) = caller.stopped(place, |caller| trace(caller, exits))?;
            (told, Some(seen))
        }
        Way::Notified { carries_out, sync } => {
            let caller = Caller::start(work, way, place)?;
            let (told, seen) = caller.stopped(place, |caller| {
                Listener::of(caller, sync)?.serve(carries_out)
            })?;
            (told, Some(seen))
        }
    };
    // The first turn, which is not timed, is stopped only where the filter is there before the program.
    let untimed = u64::from(matches!(way, Way::Crashpoint { .. }));
    let calls = (told.turns + untimed) * work.calls() + 1;
    match seen {
        Some(seen) if seen != calls => {
            Err(format!("{calls} calls were made, and {seen} seen").into())
        }
        _ => Ok(told.nanoseconds as f64 / told.turns as f64 / 1e3),
    }
}

/// What a program says in the end.
struct Told {
    turns: u64,
    nanoseconds: u64,
}

impl Told {
    fn of(line: &str) -> Outcome<Self> {
        let numbers = line.trim().split_once(' ');
        let (turns, nanoseconds) = numbers.ok_or("the program that calls has ended early")?;
        Ok(Self {
            turns: turns.parse()?,
            nanoseconds: nanoseconds.parse()?,
        })
    }
}

fn command(work: Work, filter: &str, place: Place) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let number = WORKS.iter().position(|one| one.title() == work.title());
    command
        .args([CALLER, &number.unwrap_or_default().to_string(), filter])
        .arg(processor_word(place.programs));
    command
}

/// A program that waits until it is let go. It ends when this does.
struct Caller {
    child: Child,
    go: ChildStdin,
    said: BufReader<PipeReader>,
    /// What it said first: the number of its listener, if it has one.
    first: String,
}

impl Caller {
    fn start(work: Work, way: Way, place: Place) -> Outcome<Self> {
        let (said, says) = pipe()?;
        let mut command = command(work, way.filter(), place);
        let mut child = command.stdin(Stdio::piped()).stdout(says).spawn()?;
        drop(command);
        let go = child.stdin.take().ok_or("piped")?;
        let (mut said, mut first) = (BufReader::new(said), String::new());
        said.read_line(&mut first)?;
        Ok(Self {
            child,
            go,
            said,
            first,
        })
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.go.write_all(b"\n")
    }

    fn told(&mut self) -> Outcome<Told> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Told::of(&line)
    }

    fn alone(mut self) -> Outcome<Told> {
        self.let_go()?;
        self.told()
    }

    /// Has somebody stop its calls, on his processor, who says how many he has seen.
    fn stopped(
        mut self,
        place: Place,
        by: impl FnOnce(&mut Self) -> Outcome<u64> + Send,
    ) -> Outcome<(Told, u64)> {
        let seen = thread::scope(|scope| {
            let work = || {
                pin(place.between)?;
                by(&mut self)
            };
            scope.spawn(work).join().map_err(|_| "it panicked")?
        })?;
        Ok((self.told()?, seen))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // It may have ended, and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The least that a tracer can do.
fn trace(caller: &mut Caller, exits: bool) -> Outcome<u64> {
    let pid = caller.pid();
    let options = Tracing::PTRACE_O_TRACESYSGOOD
        | Tracing::PTRACE_O_TRACESECCOMP
        | Tracing::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options)?;
    caller.let_go()?;
    let mut seen = 0;
    loop {
        match waitpid(pid, Some(WaitPidFlag::__WALL))? {
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_SECCOMP) => {
                seen += 1;
                ptrace::syscall_info(pid)?;
                if exits {
                    ptrace::syscall(pid, None)?;
                } else {
                    ptrace::cont(pid, None)?;
                }
            }
            WaitStatus::PtraceSyscall(_) => {
                ptrace::syscall_info(pid)?;
                ptrace::cont(pid, None)?;
            }
            WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal)?,
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Ok(seen),
            _ => ptrace::cont(pid, None)?,
        }
    }
}

/// Counts calls, and lets them be made.
struct Counting {
    exits: bool,
    seen: u64,
}

impl Observer for Counting {
    type Kept = ();
    type Output = u64;
    type Error = tracer::Error;

    fn entry(&mut self, _: &Origin, _: &Entry) -> Decision<()> {
        if self.exits {
            Decision::ToExit(())
        } else {
            self.seen += 1;
            Decision::GoOn
        }
    }

    fn exit(&mut self, _: &Origin, _: &Entry, (): (), _: i64) -> After {
        self.seen += 1;
        After::GoOn
    }

    fn abandoned(&mut self, _: &Origin, _: &Entry, (): ()) {}

    fn wants_names(&self) -> bool {
        false
    }

    fn finish(self, _: ExitStatus, _: &StackTable) -> tracer::Result<u64> {
        Ok(self.seen)
    }
}

fn by_crashpoint(work: Work, exits: bool, place: Place) -> Outcome<(Told, u64)> {
    let (said, says) = pipe()?;
    let mut command = command(work, NONE, place);
    // It begins at once: its standard input has ended.
    command.stdin(Stdio::null()).stdout(says);
    let is_stopped = |row: &&tracer::calls::Row| ["pwrite64", "fdatasync"].contains(&row.name);
    let table = tracer::Table {
        rows: ROWS.iter().filter(is_stopped).copied().collect(),
    };
    let options = Options {
        name: "caller".into(),
        processor: None,
    };
    // The tracer is a thread that this one starts.
    let traced = thread::scope(|scope| {
        let start = || -> Outcome<_> {
            pin(place.between)?;
            let observer = move || Ok(Counting { exits, seen: 0 });
            Ok(tracer::start(options, table, command, observer)?)
        };
        scope.spawn(start).join().map_err(|_| "it panicked")?
    })?;
    let mut lines = BufReader::new(said).lines();
    let mut line = || lines.next().unwrap_or_else(|| Ok(String::new()));
    line()?;
    let told = Told::of(&line()?)?;
    Ok((told, traced.wait()?))
}

/// The calls of which a program's filter notifies us.
struct Listener {
    listener: OwnedFd,
    caller: OwnedFd,
}

#[allow(unsafe_code)]
impl Listener {
    /// That of a program, which is let go.
    fn of(caller: &mut Caller, sync: bool) -> Outcome<Self> {
        let number: RawFd = caller.first.trim().parse()?;
        let pid = caller.pid().as_raw();
        // SAFETY: the call takes numbers only.
        let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
        let this = Self {
            listener: copy(&process, number)?,
            caller: process,
        };
        if sync {
            const SYNC_WAKE_UP: u64 = 1;
            let flags = SYNC_WAKE_UP as *mut u64;
            this.control(libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, flags)
                .map_err(|error| format!("SYNC_WAKE_UP, which takes Linux 6.6: {error}"))?;
        }
        caller.let_go()?;
        Ok(this)
    }

    /// A request about something that is as the request wants it.
    fn control<T>(&self, request: libc::Ioctl, what: *mut T) -> nix::Result<()> {
        // SAFETY: each caller hands over what the request reads and writes, or the number that it takes.
        let done = unsafe { libc::ioctl(self.listener.as_raw_fd(), request, what) };
        nix::errno::Errno::result(done).map(drop)
    }

    /// Answers the calls until the last one, and says how many there were.
    fn serve(&self, carries_out: bool) -> Outcome<u64> {
        let mut seen = 0;
        let mut buffer = [0; BYTES];
        loop {
            // SAFETY: it is plain numbers, of which 0 is one; the kernel wants zeros.
            let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call)?;
            seen += 1;
            let is_last = is_last(&call.data);
            let mut answer = libc::seccomp_notif_resp {
                id: call.id,
                val: 0,
                error: 0,
                flags: 0,
            };
            if carries_out && !is_last {
                answer.val = self.carry_out(&call, &mut buffer)?;
            } else {
                answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            }
            self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer)?;
            if is_last {
                return Ok(seen);
            }
        }
    }

    /// Makes a call in the caller's place, on a copy of its descriptor.
    fn carry_out(&self, call: &libc::seccomp_notif, buffer: &mut [u8; BYTES]) -> Outcome<i64> {
        let [descriptor, address, bytes, offset, ..] = call.data.args;
        let file = File::from(copy(&self.caller, descriptor as RawFd)?);
        let mut id = call.id;
        if c_long::from(call.data.nr) == libc::SYS_fdatasync {
            self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id)?;
            file.sync_data()?;
            return Ok(0);
        }
        let buffer = buffer.get_mut(..bytes as usize).ok_or("a long write")?;
        tracer::read_memory(call.pid.cast_signed(), address, buffer)?;
        // Whoever had this number may have ended: these would be the bytes of another one.
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id)?;
        Ok(file.write_at(buffer, offset)? as i64)
    }
}

#[allow(unsafe_code)]
fn copy(process: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })
}

/// A descriptor that a call has returned, or its error.
#[allow(unsafe_code)]
fn owned(returned: c_long) -> io::Result<OwnedFd> {
    let number = nix::errno::Errno::result(returned)? as RawFd;
    // SAFETY: the call has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The last call of a program: a sync of its standard input, which fails.
fn is_last(call: &libc::seccomp_data) -> bool {
    c_long::from(call.nr) == libc::SYS_fdatasync && call.args[0] == 0
}

/// Is the program that calls: says that it is ready, waits, and says how many turns took how long.
pub(crate) fn call(words: &[&str]) -> Outcome<()> {
    let [work, filter, processor] = words else {
        return Err("a program that calls has three arguments".into());
    };
    let work = *WORKS.get(work.parse::<usize>()?).ok_or("no such work")?;
    pin(processor_of(processor))?;
    let (file, buffer) = (work.file()?, [b'x'; BYTES]);
    // For the first time it takes longer.
    work.once(&file, &buffer)?;
    let notifies = *filter == NOTIFY;
    let listener = if notifies { install(filter)? } else { 0 };
    println!("{listener}");
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    if !notifies {
        install(filter)?;
    }
    let (begun, mut turns) = (Instant::now(), 0);
    while begun.elapsed() < SLICE {
        for _ in 0..work.at_once() {
            work.once(&file, &buffer)?;
        }
        turns += work.at_once();
    }
    let took = begun.elapsed().as_nanos();
    // It is the last one, which fails.
    let _ = nix::unistd::fdatasync(io::stdin().as_fd());
    println!("{turns} {took}");
    Ok(())
}

fn statement(code: u32, k: u32, jf: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    }
}

/// Installs a filter for the two calls. The first call of the program that is stopped is the one
/// after that. Which architecture it is need not be looked at: the program is this one.
#[allow(unsafe_code)]
fn install(filter: &str) -> Outcome<c_int> {
    let (action, flags) = match filter {
        ALLOW => (libc::SECCOMP_RET_ALLOW, 0),
        TRACE => (libc::SECCOMP_RET_TRACE, 0),
        NOTIFY => (
            libc::SECCOMP_RET_USER_NOTIF,
            // Without the second, a signal has the call begun again.
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
        ),
        _ => return Ok(0),
    };
    let number = offset_of!(libc::seccomp_data, nr) as u32;
    let (is, ret) = (
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number, 0),
        statement(is, libc::SYS_pwrite64 as u32, 1),
        statement(ret, action, 0),
        statement(is, libc::SYS_fdatasync as u32, 1),
        statement(ret, action, 0),
        statement(ret, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    nix::sys::prctl::set_no_new_privs()?;
    let set = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the program is as long as is said, and lives until the call returns.
    let installed = unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const program) };
    Ok(nix::errno::Errno::result(installed)? as c_int)
}
