//! What Crashpoint needs of a machine: one table, which docs/requirements.md shows and the doctor
//! checks.

use std::fmt;

use clap::ValueEnum;

use super::check;

/// Something that Crashpoint does, and that has needs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Feature {
    /// `crashpoint fs` under the running kernel
    Fs,
    /// `--kernel uml` and `crashpoint machine`
    Guest,
    /// `--virtual-time`
    VirtualTime,
    /// `crashpoint app`
    App,
    /// `crashpoint cluster`
    Cluster,
    /// `crashpoint app --disk`, and `disk` in a cluster file
    Disk,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("none is hidden").get_name())
    }
}

use Feature::{App, Cluster, Disk, Fs, Guest, VirtualTime};

const ALL: &[Feature] = &[Fs, Guest, VirtualTime, App, Cluster, Disk];
const GUESTS: &[Feature] = &[Guest, VirtualTime];
const TRACED: &[Feature] = &[App, Cluster];
const DISKS: &[Feature] = &[Fs, Disk];

/// What a requirement is about: a heading of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Processor,
    Kernel,
    Userland,
    Limits,
    Privileges,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Processor => "Processor",
            Self::Kernel => "Host kernel",
            Self::Userland => "Userland",
            Self::Limits => "Limits",
            Self::Privileges => "Privileges",
        })
    }
}

/// A row of the table.
pub(super) struct Requirement {
    pub(super) part: Part,
    /// What the doctor calls it.
    pub(super) name: &'static str,
    /// What cannot be had without it; nothing, if something is only less exact or slower.
    pub(super) needed_by: &'static [Feature],
    /// What it has to be.
    pub(super) required: &'static str,
    /// What happens where it is not.
    pub(super) without: &'static str,
    /// Looks: what there is, or what to do.
    pub(super) check: fn() -> check::Found,
}

/// The kernel of guests: whoever names one has that one looked at.
pub(super) const UML: &str = "User-Mode Linux";

/// What is needed, but for the file systems that are asked for: the doctor looks at those one by
/// one.
pub(super) const TABLE: &[Requirement] = &[
    Requirement {
        part: Part::Processor,
        name: "architecture",
        needed_by: GUESTS,
        required: "x86-64: User-Mode Linux is for x86 only",
        without: "`--kernel uml` ends with one line that says so, status 2",
        check: check::architecture,
    },
    Requirement {
        part: Part::Processor,
        name: "processor state",
        needed_by: GUESTS,
        required: "any size (XSAVE); beyond 2,696 bytes, as with AMX, a kernel before 6.13 that is a dynamic \
                   program, or that has scripts/uml/6-whole-xstate.patch",
        without: "another kernel is refused before it starts; unaided, it would die at its first program",
        check: check::processor_state,
    },
    Requirement {
        part: Part::Kernel,
        name: "kernel release",
        needed_by: ALL,
        required: "Linux 5.9 (close_range with CLOSE_RANGE_UNSHARE; `app` and `cluster` 5.6: pidfd_getfd, openat2); \
                   tried: 5.10, 6.1, 6.18, 7.2",
        without: "one line with the system call that is missing, status 2",
        check: check::kernel_release,
    },
    Requirement {
        part: Part::Kernel,
        name: "/dev/fuse",
        needed_by: DISKS,
        required: "CONFIG_FUSE_FS, and the device, which a container must be given",
        without: "no disk can be recorded: one line, status 2",
        check: check::fuse_device,
    },
    Requirement {
        part: Part::Kernel,
        name: "/dev/loop-control",
        needed_by: DISKS,
        required: "CONFIG_BLK_DEV_LOOP, and the devices, which a container must be given",
        without: "no disk can be recorded or recovered: one line, status 2",
        check: check::loop_control,
    },
    Requirement {
        part: Part::Kernel,
        name: "loop device",
        needed_by: DISKS,
        required: "a file in memory can be attached as one (memfd_create, vm.memfd_noexec below 2; LOOP_CONFIGURE, \
                   5.8)",
        without: "no disk can be recovered: one line, status 2",
        check: check::loop_device,
    },
    Requirement {
        part: Part::Kernel,
        name: "mount namespace",
        needed_by: &[Fs, Cluster, Disk],
        required: "the right to make one (CAP_SYS_ADMIN), and to make its mounts private",
        without: "nothing is mounted, since others would see it: one line, status 2",
        check: check::mount_namespace,
    },
    Requirement {
        part: Part::Kernel,
        name: "network of nodes",
        needed_by: &[Cluster],
        required: "CONFIG_NET_NS, CONFIG_BRIDGE and CONFIG_VETH (modules bridge, stp, llc, veth)",
        without: "`cluster` ends with the option or module that is missing, status 2",
        check: check::network,
    },
    Requirement {
        part: Part::Kernel,
        name: "links of nodes",
        needed_by: &[],
        required: "CONFIG_NF_TABLES and CONFIG_NF_TABLES_BRIDGE (module nf_tables); CONFIG_PACKET (module af_packet)",
        without: "a link between two nodes cannot be cut, made worse or given a limit, and triggers of `inject` by bytes and messages (CONFIG_PACKET) do not work: one line with the option; all else works",
        check: check::links,
    },
    Requirement {
        part: Part::Kernel,
        name: "another boot",
        needed_by: &[],
        required: "root, CONFIG_PID_NS and CONFIG_TIME_NS",
        without: "the check of a program sees the machine's own process ids and uptime: a lock whose owner seems to \
                  live, and times since the start, may be taken for valid",
        check: check::other_boot,
    },
    Requirement {
        part: Part::Kernel,
        name: "tracing",
        needed_by: &[Guest, VirtualTime, App, Cluster],
        required: "ptrace of one's own children: kernel.yama.ptrace_scope of 0 or 1, no seccomp filter against it, \
                   and no other tracer, such as strace",
        without: "no guest starts, no program is recorded: one line that says so, status 2",
        check: check::tracing,
    },
    Requirement {
        part: Part::Kernel,
        name: "recording of programs",
        needed_by: TRACED,
        required: "CONFIG_SECCOMP_FILTER, CONFIG_CROSS_MEMORY_ATTACH (process_vm_readv), and pidfd_getfd, which \
                   Docker's filter allows with --cap-add SYS_PTRACE",
        without: "no program is recorded: one line, status 2",
        check: check::recording,
    },
    Requirement {
        part: Part::Kernel,
        name: "kernel log",
        needed_by: &[Fs],
        required: "/dev/kmsg can be read (root, or kernel.dmesg_restrict=0)",
        without: "what the kernel says of a file system would not be seen: one line, status 2",
        check: check::kernel_log,
    },
    Requirement {
        part: Part::Kernel,
        name: "block tracing",
        needed_by: &[],
        required: "tracefs with block_bio_queue (CONFIG_BLK_DEV_IO_TRACE, or another tracer)",
        without: "FUA writes count as flushes: legal crash states stay hidden, nothing is accused wrongly",
        check: check::block_tracing,
    },
    Requirement {
        part: Part::Userland,
        name: "/proc",
        needed_by: ALL,
        required: "mounted, and that of the process namespace that the program is in",
        without: "one line, status 2",
        check: check::own_proc,
    },
    Requirement {
        part: Part::Userland,
        name: UML,
        needed_by: &[Guest],
        required: "Debian's user-mode-linux (tried: 6.1, 6.12 and 7.2), or a built `linux` with --kernel uml:PATH",
        without: "`--kernel uml` ends with the package's name, status 2",
        check: check::uml,
    },
    Requirement {
        part: Part::Userland,
        name: "kernel with virtual time",
        needed_by: &[VirtualTime],
        required: "a User-Mode Linux of scripts/build-uml.sh (tried: 6.1 and 6.12)",
        without: "`--virtual-time` ends with the script's name, status 2",
        check: check::virtual_kernel,
    },
    Requirement {
        part: Part::Userland,
        name: "e2fsprogs",
        needed_by: &[],
        required: "for ext2, ext3, ext4 and fuse2fs; tried: 1.47.0 to 1.47.4",
        without: "a sweep ends with the program's name and package, status 2",
        check: check::e2fsprogs,
    },
    Requirement {
        part: Part::Userland,
        name: "xfsprogs",
        needed_by: &[],
        required: "for xfs; tried: 6.1, 6.13 and 7.2; not newer than the kernel under test, which cannot mount what it makes then",
        without: "a sweep ends with the program's name and package, status 2",
        check: check::xfsprogs,
    },
    Requirement {
        part: Part::Userland,
        name: "btrfs-progs",
        needed_by: &[],
        required: "for btrfs; tried: 6.2 to 7.3",
        without: "a sweep ends with the program's name and package, status 2",
        check: check::btrfs_progs,
    },
    Requirement {
        part: Part::Userland,
        name: "f2fs-tools",
        needed_by: &[],
        required: "for f2fs; tried: 1.15 and 1.16",
        without: "a sweep ends with the program's name and package, status 2",
        check: check::f2fs_tools,
    },
    Requirement {
        part: Part::Limits,
        name: "memory",
        needed_by: ALL,
        required: "512 MiB for each worker, also in its cgroup (memory.max); small sweeps run in 150",
        without: "the kernel kills guests and workers: results are inconclusive",
        check: check::memory,
    },
    Requirement {
        part: Part::Limits,
        name: "temporary directory",
        needed_by: ALL,
        required: "TMPDIR (/tmp) can be written to",
        without: "one line with the directory, status 2",
        check: check::temporary_directory,
    },
    Requirement {
        part: Part::Limits,
        name: "memory of guests",
        needed_by: GUESTS,
        required: "512 MiB a guest (--memory, mem=) in /dev/shm, or else TMPDIR, not mounted noexec",
        without: "the guest does not start, or ends when the room does; the message names the directory",
        check: check::guest_memory,
    },
    Requirement {
        part: Part::Limits,
        name: "mappings",
        needed_by: &[],
        required: "vm.max_map_count of 65,530 does for 512 MiB a guest; 262,144 for one of several GiB",
        without: "a guest that uses all of its memory ends: the message names the limit",
        check: check::mappings,
    },
    Requirement {
        part: Part::Limits,
        name: "open files",
        needed_by: ALL,
        required: "`ulimit -n` of 64",
        without: "one line with \"Too many open files\", status 2",
        check: check::open_files,
    },
    Requirement {
        part: Part::Limits,
        name: "processes",
        needed_by: ALL,
        required: "`ulimit -u`, and pids.max of the cgroup, of 100: two workers take 30, each guest as many",
        without: "\"Resource temporarily unavailable\", status 2, or workloads that are inconclusive",
        check: check::processes,
    },
    Requirement {
        part: Part::Limits,
        name: "pending signals",
        needed_by: GUESTS,
        required: "`ulimit -i` of 64: a timer of a guest's kernel takes one, and they are counted for the user",
        without: "the guest does not start: the message names the limit",
        check: check::signals,
    },
    Requirement {
        part: Part::Limits,
        name: "file size",
        needed_by: ALL,
        required: "`ulimit -f` of 2 GiB: disks and the memory of guests are files",
        without: "SIGXFSZ ends the guest, or the disk cannot be made: one line, status 2",
        check: check::file_size,
    },
    Requirement {
        part: Part::Limits,
        name: "address space",
        needed_by: ALL,
        required: "`ulimit -v` unlimited, or 4 GiB",
        without: "guests and programs get no memory: one line, status 2",
        check: check::address_space,
    },
    Requirement {
        part: Part::Privileges,
        name: "root",
        needed_by: &[Fs, Cluster, Disk],
        required: "root, with CAP_SYS_ADMIN (in a container: --privileged); `unshare -Ur` does for clusters without \
                   disks",
        without: "one line that names --kernel uml, status 2: guests and `app` need no root, and what is done with the trace of a cluster (`cluster sweep`, `replay`, `minimize`) runs itself in a guest",
        check: check::root,
    },
];

/// The table as Markdown.
pub(super) fn markdown() -> String {
    let mut text = String::new();
    let mut part = None;
    for row in TABLE {
        if part.replace(row.part) != Some(row.part) {
            let title = row.part;
            text += &format!(
                "\n### {title}\n\n| what | needed by | required | without it |\n|---|---|---|---|\n"
            );
        }
        let needed_by = match row.needed_by {
            [] => "–".to_owned(),
            all if all.len() == ALL.len() => "all".to_owned(),
            some => some
                .iter()
                .map(Feature::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        };
        text += &format!(
            "| {} | {needed_by} | {} | {} |\n",
            row.name, row.required, row.without
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `crashpoint doctor --requirements` prints what has to be there.
    #[test]
    fn the_documents_have_the_table() {
        let page = include_str!("../../../docs/requirements.md");
        assert!(
            page.contains(&markdown()),
            "docs/requirements.md has not this table:\n{}",
            markdown()
        );
    }

    #[test]
    fn each_row_has_a_name_of_its_own() {
        let mut names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
    }
}
