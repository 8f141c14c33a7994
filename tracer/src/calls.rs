//! The system calls that can be looked at. Which they are is data: the kernel's filter and the
//! tracer are made of this table.

/// What a call does, and in which arguments it says with what. `None` stands for an argument that
/// it does not have.
#[expect(
    missing_docs,
    reason = "fields are numbers of arguments, named by what is in them"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Bytes out of a descriptor: a socket's are received. The flags are in this argument.
    Read { flags: Option<usize> },
    /// The same, into several messages.
    ReceiveMany,
    /// Bytes into a descriptor.
    Write(Write),
    /// Several messages into a socket.
    SendMany,
    /// Bytes of a file into a descriptor: where the descriptors and their offsets are in the
    /// arguments.
    Copy {
        from: usize,
        to: usize,
        to_offset: Option<usize>,
    },
    /// A file opened: where the path and the flags are.
    Open {
        base: Option<usize>,
        path: usize,
        flags: OpenFlags,
    },
    /// A name more for something new.
    Make {
        base: Option<usize>,
        path: usize,
        what: New,
    },
    /// A name more for something old: where it is, and where the new name is.
    Link {
        from: (Option<usize>, usize),
        flags: Option<usize>,
        base: Option<usize>,
        path: usize,
    },
    /// A name for a socket.
    Bind,
    /// A name less.
    Remove { base: Option<usize>, path: usize },
    /// Another name.
    Rename {
        bases: Option<(usize, usize)>,
        paths: (usize, usize),
        flags: Option<usize>,
    },
    /// Other permission bits of a path.
    SetMode {
        base: Option<usize>,
        path: usize,
        flags: Option<usize>,
    },
    /// Other permission bits of a descriptor.
    SetModeOf,
    /// Another extended attribute, or one less: of what, and where its name is.
    SetXattr { of: XattrOf, name: usize },
    /// Another size of a path.
    Truncate,
    /// Another size of a descriptor.
    TruncateOf,
    /// fallocate(2).
    Allocate,
    /// fsync(2), fdatasync(2).
    Sync { data_only: bool },
    /// sync(2).
    SyncAll,
    /// syncfs(2).
    SyncFileSystem,
    /// msync(2).
    SyncMapping,
    /// sync_file_range(2): what was written is on its way, and no promise is made.
    BeginSync,
    /// A shared mapping of a file.
    Map,
    /// A mapping less.
    Unmap,
    /// A mapping that can be written to from now on.
    Protect,
    /// A mapping somewhere else.
    Move,
    /// Something done to what a mapping shows, which is not followed.
    UnfollowedMapping,
    /// A descriptor less.
    Close,
    /// A socket that nothing will be sent to.
    Shutdown,
    /// Descriptors less, as a side effect.
    MayClose,
    /// Something that changes the file of a path, and is not followed.
    UnfollowedPath { base: Option<usize>, path: usize },
    /// ioctl(2) of a file system.
    Control,
    /// fchown and the like: not followed, where it changes something.
    SetOwner {
        descriptor: bool,
        base: Option<usize>,
        path: usize,
        owner: usize,
        flags: Option<usize>,
    },
    /// unshare(2) of descriptors by one of several threads.
    Unshare,
    /// What makes a ring or a queue through which files are changed without calls.
    Ring,
    /// A call of another architecture.
    Foreign,
}

impl Call {
    /// Whether it has to do with the files of paths.
    pub fn has_path(self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Make { .. }
                | Self::Link { .. }
                | Self::Bind
                | Self::Remove { .. }
                | Self::Rename { .. }
                | Self::SetMode { .. }
                | Self::SetXattr {
                    of: XattrOf::Path { .. },
                    ..
                }
                | Self::Truncate
                | Self::UnfollowedPath { .. }
                | Self::SetOwner {
                    descriptor: false,
                    ..
                }
        )
    }
}

/// How a call has the bytes, and where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// How it has the bytes.
    pub bytes: Bytes,
    /// The argument with the offset in the file, if there is one.
    pub offset: Option<usize>,
    /// The argument with the flags of pwritev2(2).
    pub flags: Option<usize>,
}

/// How a call has the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    /// A buffer.
    Buffer,
    /// Buffers.
    Vector,
    /// A `struct msghdr`, for sockets.
    Message,
}

/// Where the flags of an open are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenFlags {
    /// In an argument.
    Argument(usize),
    /// In memory (openat2).
    Structure(usize),
    /// creat(2).
    Creat,
}

/// What has an extended attribute, by the arguments.
#[expect(missing_docs, reason = "the variants say what the fields are")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrOf {
    /// The descriptor in the first argument.
    Descriptor,
    /// A path; a link at its end is followed if it says so.
    Path {
        base: Option<usize>,
        path: usize,
        follows: Follows,
    },
}

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// It is.
    Always,
    /// It is not.
    Never,
    /// What the flags in this argument say.
    Flags(usize),
}

/// What is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum New {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Any other file.
    Node,
}

/// When the kernel asks about a call.
#[expect(missing_docs, reason = "the variants say what the fields are")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// If an argument has one of these bits.
    Bits { argument: u32, bits: u32 },
    /// If an argument is this.
    Is { argument: u32, value: u32 },
    /// If it is a shared mapping of a file.
    SharedFile,
    /// If it is an ioctl of file systems.
    FileSystemControl,
}

/// The numbers that a call has. From 424 on they are the same everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    /// On x86-64.
    pub x86_64: Option<u32>,
    /// On aarch64.
    pub aarch64: Option<u32>,
}

impl Numbers {
    /// Of what is no call, or none that is looked at.
    pub const NONE: Self = Self {
        x86_64: None,
        aarch64: None,
    };

    /// The number on this machine, if it has the call.
    pub const fn here(self) -> Option<u32> {
        if cfg!(target_arch = "x86_64") {
            self.x86_64
        } else {
            self.aarch64
        }
    }
}

/// A system call: its numbers, its name, what it is, and when it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its numbers.
    pub numbers: Numbers,
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub call: Call,
    /// When it is looked at.
    pub when: When,
}

const fn row(numbers: Numbers, name: &'static str, call: Call) -> Row {
    Row {
        numbers,
        name,
        call,
        when: When::Always,
    }
}

const fn both(x86_64: u32, aarch64: u32) -> Numbers {
    Numbers {
        x86_64: Some(x86_64),
        aarch64: Some(aarch64),
    }
}

const fn same(number: u32) -> Numbers {
    both(number, number)
}

/// Of a call that another one can do as well, so that younger architectures do not have it.
const fn x86_64(number: u32) -> Numbers {
    Numbers {
        x86_64: Some(number),
        aarch64: None,
    }
}

const fn when(row: Row, when: When) -> Row {
    Row { when, ..row }
}

const fn write(bytes: Bytes, offset: Option<usize>, flags: Option<usize>) -> Call {
    Call::Write(Write {
        bytes,
        offset,
        flags,
    })
}

const fn xattr(base: Option<usize>, path: usize, follows: Follows, name: usize) -> Call {
    let of = XattrOf::Path {
        base,
        path,
        follows,
    };
    Call::SetXattr { of, name }
}

/// Opens that make something or cut something off. Others are seen by what is done with the
/// descriptor.
const CHANGING_OPEN: u32 =
    (libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;

/// The row of calls that are made as those of another architecture, whose numbers are others.
pub const FOREIGN: u32 = 0xffff;

/// What is said of those.
pub const FOREIGN_ROW: Row = row(
    Numbers::NONE,
    "a system call of another architecture",
    Call::Foreign,
);

/// The newest call that the tables know, by its number. Calls with greater numbers came later:
/// nobody knows what they do.
pub const NEWEST: u32 = 470;

/// The row of those.
pub const UNKNOWN: u32 = 0xfffe;

/// What is said of them.
pub const UNKNOWN_ROW: Row = row(
    Numbers::NONE,
    "a system call that this version does not know",
    Call::Foreign,
);

/// The table, the most frequent first.
#[rustfmt::skip] // a row a line
pub const ROWS: &[Row] = &[
    row(both(0, 63), "read", Call::Read { flags: None }),
    row(both(1, 64), "write", write(Bytes::Buffer, None, None)),
    row(both(45, 207), "recvfrom", Call::Read { flags: Some(3) }),
    row(both(44, 206), "sendto", write(Bytes::Buffer, None, None)),
    row(both(18, 68), "pwrite64", write(Bytes::Buffer, Some(3), None)),
    row(both(75, 83), "fdatasync", Call::Sync { data_only: true }),
    row(both(20, 66), "writev", write(Bytes::Vector, None, None)),
    row(both(19, 65), "readv", Call::Read { flags: None }),
    row(both(46, 211), "sendmsg", write(Bytes::Message, None, None)),
    row(both(47, 212), "recvmsg", Call::Read { flags: Some(2) }),
    row(both(74, 82), "fsync", Call::Sync { data_only: false }),
    row(both(3, 57), "close", Call::Close),
    when(
        row(both(257, 56), "openat", Call::Open { base: Some(0), path: 1, flags: OpenFlags::Argument(2) }),
        When::Bits { argument: 2, bits: CHANGING_OPEN },
    ),
    row(both(11, 215), "munmap", Call::Unmap),
    when(row(both(9, 222), "mmap", Call::Map), When::SharedFile),
    when(row(both(10, 226), "mprotect", Call::Protect), When::Bits { argument: 2, bits: libc::PROT_WRITE as u32 }),
    row(both(25, 216), "mremap", Call::Move),
    row(both(26, 227), "msync", Call::SyncMapping),
    row(both(277, 84), "sync_file_range", Call::BeginSync),
    row(both(77, 46), "ftruncate", Call::TruncateOf),
    row(both(285, 47), "fallocate", Call::Allocate),
    row(both(296, 70), "pwritev", write(Bytes::Vector, Some(3), None)),
    row(both(328, 287), "pwritev2", write(Bytes::Vector, Some(3), Some(5))),
    row(both(327, 286), "preadv2", Call::Read { flags: None }),
    row(both(307, 269), "sendmmsg", Call::SendMany),
    row(both(299, 243), "recvmmsg", Call::ReceiveMany),
    row(both(40, 71), "sendfile", Call::Copy { from: 1, to: 0, to_offset: None }),
    row(both(326, 285), "copy_file_range", Call::Copy { from: 0, to: 2, to_offset: Some(3) }),
    row(both(275, 76), "splice", Call::Copy { from: 0, to: 2, to_offset: Some(3) }),
    row(both(49, 200), "bind", Call::Bind),
    row(both(48, 210), "shutdown", Call::Shutdown),
    row(same(437), "openat2", Call::Open { base: Some(0), path: 1, flags: OpenFlags::Structure(2) }),
    row(both(258, 34), "mkdirat", Call::Make { base: Some(0), path: 1, what: New::Directory }),
    row(both(259, 33), "mknodat", Call::Make { base: Some(0), path: 1, what: New::Node }),
    row(both(266, 36), "symlinkat", Call::Make { base: Some(1), path: 2, what: New::Symlink }),
    row(both(265, 37), "linkat", Call::Link { from: (Some(0), 1), flags: Some(4), base: Some(2), path: 3 }),
    row(both(263, 35), "unlinkat", Call::Remove { base: Some(0), path: 1 }),
    row(both(316, 276), "renameat2", Call::Rename { bases: Some((0, 2)), paths: (1, 3), flags: Some(4) }),
    row(both(91, 52), "fchmod", Call::SetModeOf),
    row(both(268, 53), "fchmodat", Call::SetMode { base: Some(0), path: 1, flags: None }),
    row(same(452), "fchmodat2", Call::SetMode { base: Some(0), path: 1, flags: Some(3) }),
    row(both(76, 45), "truncate", Call::Truncate),
    row(both(162, 81), "sync", Call::SyncAll),
    row(both(306, 267), "syncfs", Call::SyncFileSystem),
    row(both(292, 24), "dup3", Call::MayClose),
    row(same(436), "close_range", Call::MayClose),
    row(both(93, 55), "fchown", Call::SetOwner { descriptor: true, base: None, path: 0, owner: 1, flags: None }),
    row(
        both(260, 54),
        "fchownat",
        Call::SetOwner { descriptor: false, base: Some(0), path: 1, owner: 2, flags: Some(4) },
    ),
    row(both(190, 7), "fsetxattr", Call::SetXattr { of: XattrOf::Descriptor, name: 1 }),
    row(both(199, 16), "fremovexattr", Call::SetXattr { of: XattrOf::Descriptor, name: 1 }),
    row(both(188, 5), "setxattr", xattr(None, 0, Follows::Always, 1)),
    row(both(189, 6), "lsetxattr", xattr(None, 0, Follows::Never, 1)),
    row(both(197, 14), "removexattr", xattr(None, 0, Follows::Always, 1)),
    row(both(198, 15), "lremovexattr", xattr(None, 0, Follows::Never, 1)),
    row(same(463), "setxattrat", xattr(Some(0), 1, Follows::Flags(2), 3)),
    row(same(466), "removexattrat", xattr(Some(0), 1, Follows::Flags(2), 3)),
    row(same(469), "file_setattr", Call::UnfollowedPath { base: Some(0), path: 1 }),
    row(both(165, 40), "mount", Call::UnfollowedPath { base: None, path: 1 }),
    row(both(166, 39), "umount2", Call::UnfollowedPath { base: None, path: 0 }),
    row(same(429), "move_mount", Call::UnfollowedPath { base: Some(2), path: 3 }),
    row(both(155, 41), "pivot_root", Call::UnfollowedPath { base: None, path: 0 }),
    row(both(167, 224), "swapon", Call::UnfollowedPath { base: None, path: 0 }),
    row(both(163, 89), "acct", Call::UnfollowedPath { base: None, path: 0 }),
    row(same(425), "io_uring_setup", Call::Ring),
    row(both(206, 0), "io_setup", Call::Ring),
    when(row(both(16, 29), "ioctl", Call::Control), When::FileSystemControl),
    when(
        row(both(28, 233), "madvise", Call::UnfollowedMapping),
        When::Is { argument: 2, value: libc::MADV_REMOVE as u32 },
    ),
    row(both(216, 234), "remap_file_pages", Call::UnfollowedMapping),
    when(row(both(272, 97), "unshare", Call::Unshare), When::Bits { argument: 0, bits: libc::CLONE_FILES as u32 }),
    when(row(both(304, 265), "open_by_handle_at", Call::Foreign), When::Bits { argument: 2, bits: CHANGING_OPEN }),
    when(
        row(x86_64(2), "open", Call::Open { base: None, path: 0, flags: OpenFlags::Argument(1) }),
        When::Bits { argument: 1, bits: CHANGING_OPEN },
    ),
    row(x86_64(85), "creat", Call::Open { base: None, path: 0, flags: OpenFlags::Creat }),
    row(x86_64(83), "mkdir", Call::Make { base: None, path: 0, what: New::Directory }),
    row(x86_64(133), "mknod", Call::Make { base: None, path: 0, what: New::Node }),
    row(x86_64(88), "symlink", Call::Make { base: None, path: 1, what: New::Symlink }),
    row(x86_64(86), "link", Call::Link { from: (None, 0), flags: None, base: None, path: 1 }),
    row(x86_64(87), "unlink", Call::Remove { base: None, path: 0 }),
    row(x86_64(84), "rmdir", Call::Remove { base: None, path: 0 }),
    row(x86_64(82), "rename", Call::Rename { bases: None, paths: (0, 1), flags: None }),
    row(both(264, 38), "renameat", Call::Rename { bases: Some((0, 2)), paths: (1, 3), flags: None }),
    row(x86_64(90), "chmod", Call::SetMode { base: None, path: 0, flags: None }),
    row(x86_64(33), "dup2", Call::MayClose),
    row(x86_64(92), "chown", Call::SetOwner { descriptor: false, base: None, path: 0, owner: 1, flags: None }),
    row(x86_64(94), "lchown", Call::SetOwner { descriptor: false, base: None, path: 0, owner: 1, flags: None }),
];

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::process::Command;

    use super::{NEWEST, Numbers, ROWS};
    use crate::let_through::{LET_THROUGH, SINCE_6_2};

    /// The numbers of all calls that the kernel's headers for an architecture have.
    fn in_headers(triplet: &str) -> HashMap<String, u32> {
        let places = [
            format!("/usr/include/{triplet}"),
            format!("/usr/{triplet}/include"),
        ];
        let headers = places
            .iter()
            .find(|place| Path::new(place).join("asm/unistd.h").exists());
        let headers = headers.unwrap_or_else(|| {
            panic!("{triplet} has no headers of Linux: run scripts/setup --tests")
        });
        let mut compiler = Command::new("cc");
        compiler.args([
            "-E",
            "-dM",
            "-nostdinc",
            "-isystem",
            headers,
            "-isystem",
            "/usr/include",
        ]);
        compiler.args(["-include", "asm/unistd.h", "-x", "c", "/dev/null"]);
        let output = compiler.output().expect("cc runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let printed = String::from_utf8(output.stdout).expect("text");
        let defined: HashMap<&str, &str> = printed
            .lines()
            .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
            .collect();
        let calls = defined
            .keys()
            .filter_map(|name| Some((*name, name.strip_prefix("__NR_")?)));
        // Some have a number by way of another name.
        let number = |name| {
            let value = *defined.get(name)?;
            value
                .parse()
                .ok()
                .or_else(|| defined.get(value)?.parse().ok())
        };
        calls
            .filter_map(|(defined, name)| Some((name.to_owned(), number(defined)?)))
            .collect()
    }

    fn assert_as_in_headers(triplet: &str, number: fn(&Numbers) -> Option<u32>) {
        let known = in_headers(triplet);
        let newest = *known.values().max().expect("there are calls");
        for row in ROWS {
            let number = number(&row.numbers);
            match known.get(row.name) {
                None => assert!(
                    number.is_none_or(|number| number > newest),
                    "{} is {number:?} on {triplet}, whose headers do not have it, and end with {newest}",
                    row.name
                ),
                known => assert_eq!(number, known.copied(), "{} on {triplet}", row.name),
            }
        }
    }

    /// The calls of the headers, and those that came later.
    fn all_calls(triplet: &str) -> HashMap<String, u32> {
        let mut calls = in_headers(triplet);
        // Where calls of architectures begin, and how many there are: numbers that are no calls.
        calls.retain(|name, _| !["arch_specific_syscall", "syscalls"].contains(&name.as_str()));
        for (number, name) in SINCE_6_2 {
            let known = calls.insert((*name).to_owned(), *number);
            assert!(
                known.is_none_or(|known| known == *number),
                "{name} is {known:?}"
            );
        }
        calls
    }

    #[test]
    fn every_call_of_the_kernel_is_looked_at_or_let_through_for_a_reason() {
        let mut places: HashMap<&str, u32> = HashMap::new();
        let looked_at = ROWS.iter().map(|row| row.name);
        let let_through = LET_THROUGH
            .iter()
            .flat_map(|(_, names)| names.iter().copied());
        for name in looked_at.chain(let_through) {
            *places.entry(name).or_default() += 1;
        }
        let twice: Vec<_> = places.iter().filter(|(_, places)| **places > 1).collect();
        assert!(twice.is_empty(), "in two tables: {twice:?}");
        let mut known_somewhere = Vec::new();
        for triplet in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
            let calls = all_calls(triplet);
            let missing: Vec<_> = calls
                .keys()
                .filter(|name| !places.contains_key(name.as_str()))
                .collect();
            assert!(
                missing.is_empty(),
                "{triplet} has calls that are in no table: {missing:?}"
            );
            known_somewhere.extend(calls.into_keys());
        }
        let nobodys: Vec<_> = places
            .keys()
            .filter(|name| !known_somewhere.iter().any(|known| known == *name))
            .collect();
        assert!(nobodys.is_empty(), "no kernel has {nobodys:?}");
    }

    #[test]
    fn the_newest_call_of_the_tables_is_the_newest_that_the_filter_lets_through() {
        let calls = all_calls("x86_64-linux-gnu");
        // From 424 on they are numbered without a gap, the same everywhere.
        let numbers: Vec<u32> = (424..=*calls.values().max().expect("there are calls")).collect();
        for number in &numbers {
            assert!(
                calls.values().any(|known| known == number),
                "there is no call {number}"
            );
        }
        assert_eq!(numbers.last(), Some(&NEWEST));
    }

    #[test]
    fn numbers_are_those_of_the_kernels_headers() {
        assert_as_in_headers("x86_64-linux-gnu", |numbers| numbers.x86_64);
        assert_as_in_headers("aarch64-linux-gnu", |numbers| numbers.aarch64);
    }
}
