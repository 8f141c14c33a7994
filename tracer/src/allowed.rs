//! Whether the machine lets us look at processes. A container, or a setting of the kernel's, may
//! forbid any of it, and what is then missing would look as if the program had done it.

use std::io;
use std::os::fd::AsFd;

use libc::pid_t;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2, readlinkat};
use rustix::io::Errno;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use crate::{lookup, system};

/// Is in memory at the same place in every process that this one has just forked.
static HERE: u8 = 0x5a;

/// Tries on a process that was forked and is traced, but runs no program yet, what will be done
/// with it.
pub(crate) fn check(process: pid_t, proc: impl AsFd) -> io::Result<()> {
    // It numbers processes as those do for whom it was mounted.
    let own = readlinkat(&proc, "self", Vec::new())
        .ok()
        .and_then(|number| number.into_string().ok());
    if own != Some(std::process::id().to_string()) {
        return Err(io::Error::other(
            "/proc does not show this process: mount one, in this process namespace",
        ));
    }
    system::filters_can_trace().map_err(refused("seccomp(2) with SECCOMP_RET_TRACE"))?;
    let mut byte = [0];
    system::read_memory(process, &raw const HERE as u64, &mut byte)
        .map_err(refused("process_vm_readv(2)"))?;
    let handle = lookup::handle_of(process, process).map_err(refused("pidfd_open(2)"))?;
    match pidfd_getfd(handle, libc::STDIN_FILENO, PidfdGetfdFlags::empty()) {
        Ok(_) | Err(Errno::BADF) => {}
        Err(error) => return Err(refused("pidfd_getfd(2)")(error.into())),
    }
    let opened = openat2(
        proc,
        c".",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    opened
        .map(drop)
        .map_err(|error| refused("openat2(2)")(error.into()))
}

fn refused(call: &str) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |error| {
        let words = match error.raw_os_error() {
            Some(libc::ENOSYS) => "; the kernel lacks it, or a container's filter hides it",
            Some(libc::EPERM | libc::EACCES) => {
                "; a container must be allowed to: docker run --cap-add SYS_PTRACE, or --security-opt seccomp=unconfined"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{call}: {error}{words}"))
    }
}

/// What stands in the way of ptrace(2).
pub(crate) fn not_traced(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(libc::EPERM) {
        return error;
    }
    let words = "another program, such as strace, traces it, the sysctl kernel.yama.ptrace_scope is above 1, or a \
                 container must be allowed to: docker run --cap-add SYS_PTRACE";
    io::Error::new(error.kind(), format!("ptrace(2): {error}; {words}"))
}
