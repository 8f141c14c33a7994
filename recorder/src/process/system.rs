//! The calls that look at and steer traced threads: ptrace(2), wait, seccomp(2).

use std::io::{self, IoSliceMut};

use libc::{c_int, c_long, c_void, pid_t};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// What the kernel says of a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It ended, with this status as wait(2) has it.
    Ended(c_int),
    /// It is about to make a call that the filter names.
    Entry,
    /// It is about to return from one.
    Exit,
    /// It made another process or thread.
    Born,
    /// It runs another program.
    Exec,
    /// It stopped with its whole process, or has just been born.
    Group(c_int),
    /// A signal is about to be delivered.
    Signal(c_int),
}

/// A call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// What the filter said: the row of the table of calls.
    pub row: u32,
    pub arguments: [u64; 6],
    /// Where the program is, and its stack.
    pub instruction: u64,
}

const OPTIONS: c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

fn ptrace(request: libc::c_uint, thread: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: of the requests that are made here only PTRACE_GETEVENTMSG, PTRACE_GET_SYSCALL_INFO
    // and PTRACE_GETREGS write to our memory, and their callers give a place that is large enough.
    let answer =
        unsafe { libc::ptrace(request, thread, address as *mut c_void, data as *mut c_void) };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}

/// Begins to trace a process; from now on this thread is its tracer, and that of all it starts.
pub(super) fn seize(process: pid_t) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, process, 0, OPTIONS as usize).map(drop)
}

/// Has the kernel send no signal for each stop of a thread that this process traces. Who traces
/// waits for the stops, and a signal that does nothing takes a seventh of the time of one.
pub(super) fn forgo_signals_of_stops() {
    let quiet = SigAction::new(SigHandler::SigDfl, SaFlags::SA_NOCLDSTOP, SigSet::empty());
    // SAFETY: no handler is set that could run.
    let _ = unsafe { sigaction(Signal::SIGCHLD, &quiet) };
}

/// Lets a stopped thread go on, with a signal or 0. One that was killed meanwhile is no error: its
/// end will be told.
pub(super) fn go_on(thread: pid_t, signal: c_int) {
    let _ = ptrace(libc::PTRACE_CONT, thread, 0, signal as usize);
}

/// Lets it go on until it has made the call that it is about to make.
pub(super) fn go_on_to_exit(thread: pid_t) {
    let _ = ptrace(libc::PTRACE_SYSCALL, thread, 0, 0);
}

/// Lets it stay stopped, as it was told to by a signal.
pub(super) fn stay_stopped(thread: pid_t) {
    let _ = ptrace(libc::PTRACE_LISTEN, thread, 0, 0);
}

/// Who was born.
pub(super) fn event_message(thread: pid_t) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    ptrace(
        libc::PTRACE_GETEVENTMSG,
        thread,
        0,
        &raw mut message as usize,
    )?;
    Ok(message)
}

fn syscall_info(thread: pid_t) -> io::Result<libc::ptrace_syscall_info> {
    // SAFETY: it is plain numbers, for which zeros are values.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    ptrace(
        libc::PTRACE_GET_SYSCALL_INFO,
        thread,
        size_of_val(&info),
        &raw mut info as usize,
    )?;
    Ok(info)
}

/// The call that a thread is about to make, where it is at an [`Stop::Entry`].
pub(super) fn entry(thread: pid_t) -> io::Result<Entry> {
    let info = match syscall_info(thread) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => return registers::entry(thread),
        info => info?,
    };
    if info.op != libc::PTRACE_SYSCALL_INFO_SECCOMP {
        return Err(io::Error::other("the kernel tells of another stop"));
    }
    // SAFETY: of this stop the kernel tells this.
    let call = unsafe { info.u.seccomp };
    Ok(Entry {
        row: call.ret_data,
        arguments: call.args,
        instruction: info.instruction_pointer,
    })
}

/// What a call returned, where its thread is at an [`Stop::Exit`].
pub(super) fn result(thread: pid_t) -> io::Result<i64> {
    let info = match syscall_info(thread) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => return registers::result(thread),
        info => info?,
    };
    if info.op != libc::PTRACE_SYSCALL_INFO_EXIT {
        return Err(io::Error::other("the kernel tells of another stop"));
    }
    // SAFETY: of this stop the kernel tells this.
    Ok(unsafe { info.u.exit }.sval)
}

/// A call from the registers, for kernels that do not have PTRACE_GET_SYSCALL_INFO: User-Mode
/// Linux.
#[cfg(target_arch = "x86_64")]
mod registers {
    use std::io;

    use libc::pid_t;

    use super::{Entry, event_message, ptrace};

    fn all(thread: pid_t) -> io::Result<libc::user_regs_struct> {
        // SAFETY: it is plain numbers, for which zeros are values.
        let mut all: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, thread, 0, &raw mut all as usize)?;
        Ok(all)
    }

    pub(super) fn entry(thread: pid_t) -> io::Result<Entry> {
        let all = all(thread)?;
        let arguments = [all.rdi, all.rsi, all.rdx, all.r10, all.r8, all.r9];
        Ok(Entry {
            row: event_message(thread)? as u32,
            arguments,
            instruction: all.rip,
        })
    }

    pub(super) fn result(thread: pid_t) -> io::Result<i64> {
        Ok(all(thread)?.rax as i64)
    }
}

/// There is no such kernel.
#[cfg(not(target_arch = "x86_64"))]
mod registers {
    use std::io;

    use libc::pid_t;

    use super::Entry;

    pub(super) fn entry(_: pid_t) -> io::Result<Entry> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn result(_: pid_t) -> io::Result<i64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Waits for a thread that is traced by this one. None if there is none any more.
pub(super) fn wait() -> io::Result<Option<(pid_t, Stop)>> {
    let mut status = 0;
    // SAFETY: it writes one number.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if thread < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ECHILD) => Ok(None),
            Some(libc::EINTR) => wait(),
            _ => Err(error),
        };
    }
    Ok(Some((thread, told(status))))
}

/// Waits for the next that there is to say of one process, and leaves it to be said: whether it is
/// its end.
pub(super) fn has_ended(process: pid_t) -> bool {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: it is plain numbers, for which zeros are values; the call writes one of it.
        let (answer, what) = unsafe {
            let mut what: libc::siginfo_t = std::mem::zeroed();
            (
                libc::waitid(libc::P_PID, process as libc::id_t, &raw mut what, flags),
                what,
            )
        };
        if answer == 0 {
            return matches!(
                what.si_code,
                libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED
            );
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return true;
        }
    }
}

fn told(status: c_int) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended(status);
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_SECCOMP => Stop::Entry,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => Stop::Born,
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_STOP => Stop::Group(signal),
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Exit,
        _ => Stop::Signal(signal),
    }
}

/// Kills a process.
pub(super) fn kill(process: pid_t) {
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::kill(process, libc::SIGKILL) };
}

/// Reads memory of a traced thread into all of `into`.
pub(super) fn read_memory(thread: pid_t, address: u64, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        let remote = RemoteIoVec {
            base: address as usize + done,
            len: into.len() - done,
        };
        match process_vm_readv(
            Pid::from_raw(thread),
            &mut [IoSliceMut::new(&mut into[done..])],
            &[remote],
        )? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => done += more,
        }
    }
    Ok(())
}

/// Whether the kernel's filters can ask a tracer.
pub(super) fn filters_can_trace() -> io::Result<()> {
    let action: u32 = libc::SECCOMP_RET_TRACE;
    // SAFETY: the kernel reads one number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Has the kernel ask our tracer about the calls that `program` names, in this thread and all that
/// come of it. Makes system calls only, so that it can be called between fork and exec.
pub(super) fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    let install = || {
        // SAFETY: the kernel reads the program, which lives until it returns.
        let answer = unsafe {
            let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        if answer < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    };
    if install().is_ok() {
        return Ok(());
    }
    // Who is not root has to promise to gain nothing by exec.
    nix::sys::prctl::set_no_new_privs()?;
    install()
}
