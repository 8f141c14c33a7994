//! The system calls that nobody looks at, and why: none of them changes a file that could be
//! recorded, or makes one durable. With the table of `calls.rs` they are all calls of the kernel,
//! which a test compares with its headers; calls that are newer stop in the filter.

/// Calls that came after Linux 6.2, by their numbers, which are the same everywhere: headers that
/// are installed may not have them.
pub(crate) const SINCE_6_2: &[(u32, &str)] = &[
    (451, "cachestat"),
    (452, "fchmodat2"),
    (453, "map_shadow_stack"),
    (454, "futex_wake"),
    (455, "futex_wait"),
    (456, "futex_requeue"),
    (457, "statmount"),
    (458, "listmount"),
    (459, "lsm_get_self_attr"),
    (460, "lsm_set_self_attr"),
    (461, "lsm_list_modules"),
    (462, "mseal"),
    (463, "setxattrat"),
    (464, "getxattrat"),
    (465, "listxattrat"),
    (466, "removexattrat"),
    (467, "open_tree_attr"),
    (468, "file_getattr"),
    (469, "file_setattr"),
    (470, "listns"),
];

/// They only look.
#[rustfmt::skip] // names side by side
const READS: &[&str] = &[
    "access", "cachestat", "faccessat", "faccessat2", "fgetxattr", "file_getattr", "flistxattr",
    "fstat", "fstatfs", "getcwd", "getdents", "getdents64", "getxattr", "getxattrat", "lgetxattr",
    "listmount", "listns", "listxattr", "listxattrat", "llistxattr", "lookup_dcookie", "lseek",
    "lstat", "name_to_handle_at", "newfstatat", "pread64", "preadv", "readlink", "readlinkat",
    "stat", "statfs", "statmount", "statx", "sysfs", "ustat",
];

/// The times of files are not in crash states.
#[rustfmt::skip] // names side by side
const TIMES: &[&str] = &["futimesat", "utime", "utimensat", "utimes"];

/// They promise nothing: no state has more because of them.
#[rustfmt::skip] // names side by side
const HINTS: &[&str] = &["fadvise64", "readahead"];

/// They need what `io_uring_setup` or `io_setup` makes, at which somebody looks or which is refused.
#[rustfmt::skip] // names side by side
const RINGS: &[&str] = &[
    "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_submit", "io_uring_enter",
    "io_uring_register",
];

/// What changes in a mapping of a file is seen as a store.
#[rustfmt::skip] // names side by side
const MEMORY: &[&str] = &[
    "brk", "get_mempolicy", "map_shadow_stack", "mbind", "membarrier", "memfd_create",
    "memfd_secret", "migrate_pages", "mincore", "mlock", "mlock2", "mlockall", "modify_ldt",
    "move_pages", "mseal", "munlock", "munlockall", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "process_madvise", "process_mrelease", "process_vm_readv", "process_vm_writev",
    "set_mempolicy", "set_mempolicy_home_node", "shmat", "shmctl", "shmdt", "shmget",
    "userfaultfd",
];

/// What a descriptor means is looked up at the call that uses it.
#[rustfmt::skip] // names side by side
const DESCRIPTORS: &[&str] = &[
    "dup", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "fanotify_init",
    "fanotify_mark", "fcntl", "flock", "inotify_add_watch", "inotify_init", "inotify_init1",
    "inotify_rm_watch", "pidfd_getfd", "pidfd_open", "pipe", "pipe2", "poll", "ppoll", "pselect6",
    "select", "signalfd", "signalfd4", "tee", "timerfd_create", "timerfd_gettime",
    "timerfd_settime", "vmsplice",
];

/// Connections are known by their addresses, and messages of other kinds are in no directory.
#[rustfmt::skip] // names side by side
const CONNECTIONS: &[&str] = &[
    "accept", "accept4", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
    "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop",
    "setsockopt", "socket", "socketpair",
];

/// What they make of mounts is seen only after `move_mount`, or changes no file.
#[rustfmt::skip] // names side by side
const MOUNTS: &[&str] = &[
    "fsconfig", "fsmount", "fsopen", "fspick", "mount_setattr", "open_tree", "open_tree_attr",
    "quotactl", "quotactl_fd", "swapoff",
];

/// Where a path begins is looked up at the call that has it, and the tracer follows new processes.
#[rustfmt::skip] // names side by side
const PROCESSES: &[&str] = &[
    "alarm", "arch_prctl", "capget", "capset", "chdir", "chroot", "clone", "clone3", "execve",
    "execveat", "exit", "exit_group", "fchdir", "fork", "get_robust_list", "get_thread_area",
    "getcpu", "getegid", "geteuid", "getgid", "getgroups", "getitimer", "getpgid", "getpgrp",
    "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit", "getrusage",
    "getsid", "gettid", "getuid", "ioprio_get", "ioprio_set", "kcmp", "kill", "pause",
    "personality", "pidfd_send_signal", "prctl", "prlimit64", "ptrace", "restart_syscall", "rseq",
    "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "set_robust_list", "set_thread_area",
    "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups", "setitimer", "setns",
    "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid", "setrlimit",
    "setsid", "setuid", "sigaltstack", "tgkill", "tkill", "umask", "vfork", "wait4", "waitid",
];

/// They wait, tell the time, or are about the machine.
#[rustfmt::skip] // names side by side
const MACHINE: &[&str] = &[
    "add_key", "adjtimex", "bpf", "clock_adjtime", "clock_getres", "clock_gettime",
    "clock_nanosleep", "clock_settime", "delete_module", "finit_module", "futex", "futex_requeue",
    "futex_wait", "futex_waitv", "futex_wake", "getrandom", "gettimeofday", "init_module",
    "ioperm", "iopl", "kexec_file_load", "kexec_load", "keyctl", "landlock_add_rule",
    "landlock_create_ruleset", "landlock_restrict_self", "lsm_get_self_attr", "lsm_list_modules",
    "lsm_set_self_attr", "nanosleep", "perf_event_open", "reboot", "request_key", "seccomp",
    "setdomainname", "sethostname", "settimeofday", "sysinfo", "syslog", "time", "timer_create",
    "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "times", "uname",
    "vhangup",
];

/// No kernel of today has them any more, or ever had.
#[rustfmt::skip] // names side by side
const GONE: &[&str] = &[
    "_sysctl", "afs_syscall", "create_module", "get_kernel_syms", "getpmsg", "nfsservctl",
    "putpmsg", "query_module", "security", "tuxcall", "uselib", "vserver",
];

/// All of them, each with the reason why nobody needs to look.
pub(crate) const LET_THROUGH: &[(&str, &[&str])] = &[
    ("they only look", READS),
    ("times of files are not in crash states", TIMES),
    ("they promise nothing", HINTS),
    ("they need a call that is refused or looked at", RINGS),
    ("what they change in a mapping is seen as a store", MEMORY),
    ("descriptors are looked up when they are used", DESCRIPTORS),
    ("connections are known by their addresses", CONNECTIONS),
    ("mounts are seen at move_mount, mount and umount2", MOUNTS),
    ("processes are followed by ptrace", PROCESSES),
    ("they are about time or the machine", MACHINE),
    ("no kernel has them", GONE),
];
