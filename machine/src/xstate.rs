//! The state of a processor that a tracer reads and writes of its tracee (XSAVE): how much of it
//! this machine has, and what a guest's kernel needs where that is more than it knows of.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use nix::sys::ptrace;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::error::{Context as _, Error, Result};

/// What a User-Mode Linux kernel up to 6.12 has room for, in bytes: what AVX-512 and protection
/// keys take (`HOST_FP_SIZE` in arch/x86/um/user-offsets.c).
pub const GUEST_STATE_BYTES: usize = 2696;

/// The `ptrace` that a guest's kernel gets in place of the C library's: shim/ptrace.rs.
#[cfg(target_arch = "x86_64")]
const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ptrace.so"));
#[cfg(not(target_arch = "x86_64"))]
const SHIM: &[u8] = &[];

/// What the library is called in a guest's directory.
const SHIM_FILE: &str = "ptrace.so";

/// The argument by which the program is told to ask for the size of the state and to print it.
pub(crate) const STATE_COMMAND: &str = "__state";

/// The bytes of extended state that this machine's kernel keeps of each process, and demands when a
/// tracer sets it (`NT_X86_XSTATE`): 2,696 with AVX-512 and protection keys, 11,008 with AMX, 0
/// without XSAVE. A process of ours traces another to learn it, once: a seccomp filter may kill who
/// tries.
///
/// # Errors
/// If no process can be started and traced.
pub fn host_state_bytes() -> Result<usize, String> {
    static BYTES: OnceLock<Result<usize, String>> = OnceLock::new();
    BYTES
        .get_or_init(|| ask_another().map_err(|error| error.to_string()))
        .clone()
}

fn ask_another() -> Result<usize> {
    let mut command = Command::new(crate::own_program());
    let output = command
        .arg(STATE_COMMAND)
        .stdin(Stdio::null())
        .output()
        .doing(|| "start a process that traces".into())?;
    if let Some(signal) = output.status.signal() {
        let what = format!("a process that traced another was killed by signal {signal}");
        return Err(Error::NotTraced(what));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    printed
        .trim()
        .parse()
        .map_err(|_| Error::NotTraced(said.trim().trim_start_matches("crashpoint: ").to_owned()))
}

/// Asks, and prints the answer.
pub(crate) fn print_host_state() -> Result<ExitCode> {
    println!("{}", ask().doing(|| "trace a process".into())?);
    Ok(ExitCode::SUCCESS)
}

/// Whether this machine demands more of a tracer than such a kernel gives.
pub(crate) fn is_beyond_guests() -> bool {
    // Where nothing can be traced no guest starts, and says why.
    host_state_bytes().is_ok_and(|bytes| bytes > GUEST_STATE_BYTES)
}

/// Puts the library into a guest's directory, which may be that of several guests. One that is there
/// stays as it is: a kernel that runs has it mapped, and writing the file again would take away what
/// the loader has entered in its pages.
///
/// # Errors
/// If it cannot be written.
pub fn write_shim(directory: &Path) -> Result<PathBuf> {
    let path = directory.join(SHIM_FILE);
    if !std::fs::read(&path).is_ok_and(|content| content == SHIM) {
        std::fs::write(&path, SHIM).doing(|| format!("write {}", path.display()))?;
    }
    Ok(path)
}

/// Starts a process, which stops before its first instruction, looks at its state and ends it.
fn ask() -> io::Result<usize> {
    let mut command = Command::new(crate::own_program());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec there is one system call.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    let mut process = command.spawn()?;
    let pid = Pid::from_raw(process.id() as i32);
    // The stop after exec(2).
    let bytes = waitpid(pid, None)
        .map_err(io::Error::from)
        .and_then(|_| state_bytes(pid));
    process.kill()?;
    process.wait()?;
    bytes
}

/// The length of a stopped tracee's state.
fn state_bytes(pid: Pid) -> io::Result<usize> {
    const NT_X86_XSTATE: usize = 0x202;
    let mut state = vec![0_u8; 64 << 10];
    let mut whole = libc::iovec {
        iov_base: state.as_mut_ptr().cast(),
        iov_len: state.len(),
    };
    // SAFETY: the kernel writes to the bytes of `state`, and to `whole` how many.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETREGSET,
            pid.as_raw(),
            NT_X86_XSTATE,
            &raw mut whole,
        )
    };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(whole.iov_len),
        error
            if matches!(
                error.raw_os_error(),
                Some(libc::EINVAL | libc::ENODEV | libc::EIO)
            ) =>
        {
            Ok(0)
        }
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    /// The kernels of a simulation share a directory. Where the second one wrote the file again, the
    /// first one called a function at 0 from then on.
    #[test]
    fn a_library_that_a_kernel_has_mapped_is_not_written_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = write_shim(directory.path()).expect("written");
        let file = File::options().write(true).open(&path).expect("opened");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("set");
        assert_eq!(write_shim(directory.path()).expect("there"), path);
        let modified = file.metadata().expect("there").modified();
        assert_eq!(modified.expect("known"), SystemTime::UNIX_EPOCH);
        assert_eq!(std::fs::read(&path).expect("read"), SHIM);
    }
}
