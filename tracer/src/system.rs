//! The calls that look at and steer traced threads: ptrace(2), wait, seccomp(2).

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;

use libc::{c_int, c_void, pid_t};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::{Pid, gettid};

/// What the kernel says of a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
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
pub struct Entry {
    /// What the filter said: the row of the table of calls.
    pub(crate) row: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// Begins to trace a process; from now on this thread is its tracer, and that of all it starts.
pub(crate) fn seize(process: pid_t) -> io::Result<()> {
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    Ok(ptrace::seize(Pid::from_raw(process), options)?)
}

/// Has the kernel send no signal for each stop of a thread that this process traces. Who traces
/// waits for the stops, and a signal that does nothing takes a seventh of the time of one.
pub(crate) fn forgo_signals_of_stops() {
    let quiet = SigAction::new(SigHandler::SigDfl, SaFlags::SA_NOCLDSTOP, SigSet::empty());
    // SAFETY: no handler is set that could run.
    let _ = unsafe { sigaction(Signal::SIGCHLD, &quiet) };
}

/// The signal by which a tracer is told that there is a question. The last one: programs that use
/// signals of this kind begin with the first.
fn question() -> c_int {
    libc::SIGRTMAX()
}

/// Has [`wait`] return when [`interrupt_wait`] is called.
pub(crate) fn let_waits_be_interrupted() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: it is plain numbers, for which zeros are values: no flags, so that calls that wait
    // are not begun again, and no other signal is blocked. The handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        libc::sigaction(question(), &raw const action, std::ptr::null_mut());
    }
}

/// The number of this thread.
pub(crate) fn this_thread() -> pid_t {
    gettid().as_raw()
}

/// Interrupts the [`wait`] of a thread of this process, if it is in one.
pub(crate) fn interrupt_wait(thread: pid_t) {
    // SAFETY: the call takes numbers only. A thread that has ended is no error that matters.
    let _ = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, question()) };
}

/// The requests for which nix has no words: PTRACE_CONT with any signal (its type lacks those from
/// SIGRTMIN on), and PTRACE_LISTEN. A thread that was killed meanwhile is no error: its end will be
/// told.
fn resume(request: libc::c_uint, thread: pid_t, signal: c_int) {
    let nothing = std::ptr::null_mut::<c_void>();
    // SAFETY: these requests take numbers only, and read or write none of our memory.
    let _ = unsafe { libc::ptrace(request, thread, nothing, signal as usize as *mut c_void) };
}

/// Lets a stopped thread go on, with a signal or 0.
pub(crate) fn go_on(thread: pid_t, signal: c_int) {
    resume(libc::PTRACE_CONT, thread, signal);
}

/// Lets it go on until it has made the call that it is about to make.
pub(crate) fn go_on_to_exit(thread: pid_t) {
    // One that was killed meanwhile is no error.
    let _ = ptrace::syscall(Pid::from_raw(thread), None);
}

/// Lets it stay stopped, as it was told to by a signal.
pub(crate) fn stay_stopped(thread: pid_t) {
    resume(libc::PTRACE_LISTEN, thread, 0);
}

/// Who was born.
pub(crate) fn event_message(thread: pid_t) -> io::Result<u64> {
    Ok(ptrace::getevent(Pid::from_raw(thread))? as u64)
}

fn syscall_info(thread: pid_t) -> io::Result<libc::ptrace_syscall_info> {
    Ok(ptrace::syscall_info(Pid::from_raw(thread))?)
}

/// The call that a thread is about to make, where it is at an [`Stop::Entry`].
pub(crate) fn entry(thread: pid_t) -> io::Result<Entry> {
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
    })
}

/// What a call returned, where its thread is at an [`Stop::Exit`].
pub(crate) fn result(thread: pid_t) -> io::Result<i64> {
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

/// Has a thread at an [`Stop::Entry`] not make its call, and be told this result.
pub(crate) fn skip_call(thread: pid_t, result: i64) -> io::Result<()> {
    registers::skip_call(thread, result)
}

/// Has a thread at an [`Stop::Exit`] be told this result.
pub(crate) fn set_result(thread: pid_t, result: i64) -> io::Result<()> {
    registers::set_result(thread, result)
}

/// Has a thread at an [`Stop::Entry`] or [`Stop::Exit`] have another argument (from 0 on).
pub(crate) fn set_argument(thread: pid_t, argument: usize, value: u64) -> io::Result<()> {
    registers::set_argument(thread, argument, value)
}

/// Where a thread is that has stopped, for those who unwind its stack.
pub(crate) fn unwind_registers(thread: pid_t) -> io::Result<(u64, framehop::UnwindRegsNative)> {
    registers::unwind(thread)
}

/// Calls in the registers. They are read on kernels that do not have PTRACE_GET_SYSCALL_INFO:
/// User-Mode Linux.
#[cfg(target_arch = "x86_64")]
mod registers {
    use std::io;

    use framehop::UnwindRegsNative;
    use libc::pid_t;
    use nix::sys::ptrace::{getregs, setregs};
    use nix::unistd::Pid;

    use super::{Entry, event_message};

    pub(super) fn entry(thread: pid_t) -> io::Result<Entry> {
        let all = getregs(Pid::from_raw(thread))?;
        let arguments = [all.rdi, all.rsi, all.rdx, all.r10, all.r8, all.r9];
        Ok(Entry {
            row: event_message(thread)? as u32,
            arguments,
        })
    }

    pub(super) fn result(thread: pid_t) -> io::Result<i64> {
        Ok(getregs(Pid::from_raw(thread))?.rax as i64)
    }

    pub(super) fn unwind(thread: pid_t) -> io::Result<(u64, UnwindRegsNative)> {
        let all = getregs(Pid::from_raw(thread))?;
        let registers = UnwindRegsNative::new(all.rip, all.rsp, all.rbp);
        Ok((all.rip, registers))
    }

    pub(super) fn skip_call(thread: pid_t, result: i64) -> io::Result<()> {
        let mut all = getregs(Pid::from_raw(thread))?;
        // A call of this number is made by nobody.
        all.orig_rax = u64::MAX;
        all.rax = result as u64;
        Ok(setregs(Pid::from_raw(thread), all)?)
    }

    pub(super) fn set_result(thread: pid_t, result: i64) -> io::Result<()> {
        let mut all = getregs(Pid::from_raw(thread))?;
        all.rax = result as u64;
        Ok(setregs(Pid::from_raw(thread), all)?)
    }

    pub(super) fn set_argument(thread: pid_t, argument: usize, value: u64) -> io::Result<()> {
        let mut all = getregs(Pid::from_raw(thread))?;
        let register = match argument {
            0 => &mut all.rdi,
            1 => &mut all.rsi,
            2 => &mut all.rdx,
            3 => &mut all.r10,
            4 => &mut all.r8,
            _ => &mut all.r9,
        };
        *register = value;
        Ok(setregs(Pid::from_raw(thread), all)?)
    }
}

/// Calls in the registers. There is no User-Mode Linux: they are only written.
#[cfg(target_arch = "aarch64")]
mod registers {
    use std::io;

    use framehop::UnwindRegsNative;
    use libc::{c_int, c_void, pid_t};
    use nix::sys::ptrace::{getregs, setregs};
    use nix::unistd::Pid;

    use super::Entry;

    /// Of linux/elf.h: the number of the call, as a set of registers.
    const NT_ARM_SYSTEM_CALL: usize = 0x404;

    pub(super) fn entry(_: pid_t) -> io::Result<Entry> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn result(_: pid_t) -> io::Result<i64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn unwind(thread: pid_t) -> io::Result<(u64, UnwindRegsNative)> {
        let all = getregs(Pid::from_raw(thread))?;
        let registers = UnwindRegsNative::new(all.regs[30], all.sp, all.regs[29]);
        Ok((all.pc, registers))
    }

    pub(super) fn skip_call(thread: pid_t, result: i64) -> io::Result<()> {
        let mut none: c_int = -1;
        let mut piece = libc::iovec {
            iov_base: (&raw mut none).cast::<c_void>(),
            iov_len: size_of::<c_int>(),
        };
        // SAFETY: the kernel reads the piece, and through it the number; both live until it
        // returns.
        let answer = unsafe {
            libc::ptrace(
                libc::PTRACE_SETREGSET,
                thread,
                NT_ARM_SYSTEM_CALL as *mut c_void,
                (&raw mut piece).cast::<c_void>(),
            )
        };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        set_result(thread, result)
    }

    pub(super) fn set_result(thread: pid_t, result: i64) -> io::Result<()> {
        let mut all = getregs(Pid::from_raw(thread))?;
        all.regs[0] = result as u64;
        Ok(setregs(Pid::from_raw(thread), all)?)
    }

    pub(super) fn set_argument(thread: pid_t, argument: usize, value: u64) -> io::Result<()> {
        let mut all = getregs(Pid::from_raw(thread))?;
        all.regs[argument] = value;
        Ok(setregs(Pid::from_raw(thread), all)?)
    }
}

/// What there is to say of the threads that are traced by this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// This one stopped, or ended.
    Stop(pid_t, Stop),
    /// A signal came, such as that of [`interrupt_wait`].
    Interrupted,
    /// There is none any more.
    Nobody,
}

/// Waits for a thread that is traced by this one.
pub(crate) fn wait() -> io::Result<Waited> {
    let mut status = 0;
    // SAFETY: it writes one number.
    let thread = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if thread < 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ECHILD) => Ok(Waited::Nobody),
            Some(libc::EINTR) => Ok(Waited::Interrupted),
            _ => Err(error),
        };
    }
    Ok(Waited::Stop(thread, told(status)))
}

/// Waits for the next that there is to say of one process, and leaves it to be said: whether it is
/// its end.
pub(crate) fn has_ended(process: pid_t) -> bool {
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
pub(crate) fn kill(process: pid_t) {
    // SAFETY: the call takes numbers only.
    let _ = unsafe { libc::kill(process, libc::SIGKILL) };
}

/// Reads memory of a traced thread into all of `into`.
///
/// # Errors
/// If a part of it is not there, or the thread is not.
pub fn read_memory(thread: pid_t, address: u64, into: &mut [u8]) -> io::Result<()> {
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

/// Writes memory of a traced thread, also where the program itself may not write. Other threads of the
/// program see it at once.
///
/// # Errors
/// If a part of it is not there, or the thread is not.
pub fn write_memory(thread: pid_t, address: u64, bytes: &[u8]) -> io::Result<()> {
    let memory = File::options()
        .write(true)
        .open(format!("/proc/{thread}/mem"))?;
    memory.write_all_at(bytes, address)
}

/// Whether the kernel's filters can ask a tracer.
pub(crate) fn filters_can_trace() -> io::Result<()> {
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
pub(crate) fn install_filter(program: &[libc::sock_filter]) -> io::Result<()> {
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
