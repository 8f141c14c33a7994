//! Why a guest does not start, or has to stop, as far as the machine that it is on is to blame:
//! told from what its kernel said, and from what it was given.

use std::path::{Path, PathBuf};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use crate::xstate;

/// A kernel takes one, but all processes of the user share them.
const SIGNALS_MIN: u64 = 64;

/// With fewer open files a guest may fail at any of its first steps, as its kernel opens the
/// guest's files too: which one it is depends on the files that the caller left open.
const OPEN_FILES_MIN: u64 = 64;

/// What a guest was given.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    /// Its memory, which is a file in `directory`.
    pub(crate) memory_mib: u64,
    pub(crate) directory: PathBuf,
}

/// What is in the way of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Processor,
    Memory,
    NoRoom,
    NoExec,
    Mappings,
    Ptrace,
    Personality,
    Processes,
    AddressSpace,
    FileSize,
    OpenFiles,
    Architecture,
    Killed,
    Signals,
}

/// What is said, by the kernel or of its end, and what that means.
const SIGNS: [(&str, Cause); 18] = [
    ("ran out of memory on the host side", Cause::Mappings),
    ("likely just ran out of space", Cause::NoRoom),
    ("must be not mounted noexec", Cause::NoExec),
    // Where the kernel is loaded, and so whether it gets as far as to say one of these, is up to
    // chance.
    ("Too few physical memory", Cause::Memory),
    ("System is deadlocked on memory", Cause::Memory),
    ("Out of memory", Cause::Memory),
    ("ptrace: ", Cause::Ptrace),
    ("check_ptrace : expected SIGSTOP", Cause::Ptrace),
    ("PTRACE_OLDSETOPTIONS failed", Cause::Ptrace),
    ("needs personality(", Cause::Personality),
    ("fork failed", Cause::Processes),
    ("failed - errno = -12", Cause::AddressSpace),
    ("SIGXFSZ", Cause::FileSize),
    ("its kernel got SIGKILL", Cause::Killed),
    ("failed (error -24)", Cause::OpenFiles),
    ("failed (error -8)", Cause::Architecture),
    // SIGSEGV of the first program, before it has done anything.
    (
        "Attempted to kill init! exitcode=0x0000000b",
        Cause::Processor,
    ),
    ("PTRACE_SETREGS", Cause::Processor),
];

/// Signs that are the host's also in a guest that has started: what is tested there says none of
/// them.
const OF_THE_HOST: [Cause; 4] = [Cause::Mappings, Cause::NoRoom, Cause::NoExec, Cause::Memory];

/// What a guest that runs says when its host is in its way, and what helps.
pub(crate) fn of_an_end(log: &[String], given: &Given) -> Option<String> {
    let signs = SIGNS
        .iter()
        .filter(|(sign, cause)| OF_THE_HOST.contains(cause) && is_of_kernel_start(sign));
    let (_, cause) = signs
        .into_iter()
        .find(|(sign, _)| log.iter().any(|line| line.contains(sign)))?;
    Some(cause.advice(given))
}

/// The same of a kernel whose memory is a file of so many MiB in a directory, by what its console
/// says: none if it is not the host that is in its way.
pub fn of_host(console: &str, memory_mib: u64, directory: &Path) -> Option<String> {
    let log: Vec<_> = console.lines().map(str::to_owned).collect();
    let given = Given {
        memory_mib,
        directory: directory.to_owned(),
    };
    of_an_end(&log, &given)
}

/// Running out of memory while something is tested is the guest's own affair.
fn is_of_kernel_start(sign: &str) -> bool {
    !["System is deadlocked on memory", "Out of memory"].contains(&sign)
}

/// What tells why a guest does not start, a line of its console or how it ended, and the likely
/// cause with what to do.
pub(crate) fn of_no_start<'a>(
    log: &'a [String],
    end: &'a str,
    given: &Given,
) -> Option<(&'a str, String)> {
    let mut said = [end].into_iter().chain(log.iter().map(String::as_str));
    let sign =
        said.find_map(|line| Some((line, SIGNS.iter().find(|(sign, _)| line.contains(sign))?.1)));
    let (line, cause) = match sign {
        Some(found) => found,
        None if soft_limit(Resource::RLIMIT_NOFILE) < OPEN_FILES_MIN => (end, Cause::OpenFiles),
        // It does not say that it got no timer.
        None if end.contains("not ready")
            && soft_limit(Resource::RLIMIT_SIGPENDING) < SIGNALS_MIN =>
        {
            (end, Cause::Signals)
        }
        None if end.contains("aborted") && soft_limit(Resource::RLIMIT_AS) != RLIM_INFINITY => {
            (end, Cause::AddressSpace)
        }
        // A kernel that finds no page of its memory aborts without a word.
        None if end.contains("aborted")
            && given.free_mib().is_some_and(|free| free < given.memory_mib) =>
        {
            (end, Cause::NoRoom)
        }
        None => return None,
    };
    Some((line.trim(), cause.advice(given)))
}

fn soft_limit(resource: Resource) -> u64 {
    getrlimit(resource).map_or(RLIM_INFINITY, |(soft, _)| soft)
}

impl Given {
    /// Free space for its memory, once it has ended.
    fn free_mib(&self) -> Option<u64> {
        let room = statvfs(&self.directory).ok()?;
        Some((room.blocks_available() * room.fragment_size()) >> 20)
    }
}

impl Cause {
    /// In a few words, with what helps.
    fn advice(self, given: &Given) -> String {
        let directory = given.directory.display();
        match self {
            Self::Processor => format!(
                "the processor: it has {}, and this kernel has room for {}; try another kernel with --kernel uml:PATH, \
                 and please report it with the model name in /proc/cpuinfo",
                match xstate::host_state_bytes() {
                    Ok(bytes) => format!("{bytes} bytes of state"),
                    Err(error) => format!("state that cannot be asked for ({error})"),
                },
                xstate::GUEST_STATE_BYTES
            ),
            Self::Memory => format!("its memory, {} MiB, is too small", given.memory_mib),
            Self::NoRoom => format!(
                "no room in {directory} for its memory, {} MiB: free some, or set TMPDIR to a directory with more",
                given.memory_mib
            ),
            Self::NoExec => {
                format!("{directory}, where its memory is, is mounted noexec: set TMPDIR to a directory that is not")
            }
            Self::Mappings => format!(
                "the host's limit on mappings (vm.max_map_count is {}) is too low for the guest: raise it with \
                 `sysctl vm.max_map_count=262144`, or give the guest less memory",
                std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default().trim()
            ),
            Self::Ptrace => {
                "ptrace is forbidden here, by a seccomp filter or kernel.yama.ptrace_scope, which must be 0 \
                             or 1: a container needs `--cap-add SYS_PTRACE` or `--security-opt seccomp=unconfined`"
                    .to_owned()
            }
            Self::Personality => "personality(ADDR_NO_RANDOMIZE) is forbidden here, by a seccomp filter as containers \
                                  have one: `--security-opt seccomp=unconfined`, or do without --virtual-time"
                .to_owned(),
            Self::Processes => "the limit on processes (`ulimit -u`, or the pids limit of a container) is reached, or \
                                fork is forbidden"
                .to_owned(),
            Self::AddressSpace => "the host does not give it that much address space, up to 1 GiB beside its memory: \
                                   raise `ulimit -v`, or set vm.overcommit_memory to 0 or 1"
                .to_owned(),
            Self::Killed => {
                "somebody killed it, or the host's kernel for want of memory (memory.max of a container or \
                             cgroup)"
                    .to_owned()
            }
            Self::Signals => "the limit on pending signals (`ulimit -i`) is reached, and it gets no timer".to_owned(),
            Self::FileSize => "the limit on the size of files (`ulimit -f`) is below that of its memory".to_owned(),
            Self::OpenFiles => {
                format!("the limit on open files (`ulimit -n`) is too low: {OPEN_FILES_MIN} will do")
            }
            Self::Architecture => {
                "it cannot run this program: it is a kernel for another architecture, such as 32 bits \
                                   (ARCH=um without SUBARCH=x86_64)"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: &[&str], end: &str) -> Option<String> {
        let log: Vec<_> = log.iter().map(|line| (*line).to_owned()).collect();
        let given = Given {
            memory_mib: 16,
            directory: "/dev/shm".into(),
        };
        of_no_start(&log, end, &given).map(|(said, cause)| format!("{said}; {cause}"))
    }

    #[test]
    fn causes_are_told_apart() {
        let panic = "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b";
        let cases: [(&[&str], &str, &str); 7] = [
            (&["put_fp_registers", panic], panic, "the processor"),
            (
                &["Too few physical memory! Needed=1, given=0"],
                "exit status: 1",
                "16 MiB, is too small",
            ),
            (
                &["Checking ...ptrace: Operation not permitted"],
                "exit status: 1",
                "--cap-add SYS_PTRACE",
            ),
            (
                &["/mnt must be not mounted noexec"],
                "exit status: 1",
                "/dev/shm, where its memory is",
            ),
            (
                &["seed= needs personality(ADDR_NO_RANDOMIZE): Operation not permitted"],
                "",
                "do without --virtual-time",
            ),
            (&["Requested init /x failed (error -24)."], "", "ulimit -n"),
            (&[], "its kernel got SIGXFSZ", "ulimit -f"),
        ];
        for (log, end, expected) in cases {
            let cause = of(log, end);
            assert!(
                cause.as_ref().is_some_and(|cause| cause.contains(expected)),
                "{log:?}, {end}: {cause:?}"
            );
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(
            of(
                &["Kernel panic - not syncing: VFS: Unable to mount root fs"],
                "exit status: 1"
            ),
            None
        );
    }

    #[test]
    fn what_is_tested_in_a_guest_may_run_out_of_memory() {
        let given = Given {
            memory_mib: 512,
            directory: "/dev/shm".into(),
        };
        assert_eq!(
            of_an_end(&["Out of memory: Killed process 3".to_owned()], &given),
            None
        );
        assert!(
            of_an_end(
                &["UML ran out of memory on the host side".to_owned()],
                &given
            )
            .is_some()
        );
    }
}
