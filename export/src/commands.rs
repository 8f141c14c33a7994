//! Operations as commands of a shell.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use workloads::{
    DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DeviceKind, FallocMode, Op, RenameFlag, Target,
    WriteSync,
};

use crate::NotExpressible;

type Result<T> = std::result::Result<T, NotExpressible>;

/// The first descriptor that a handle gets. A POSIX shell names those up to 9.
const DESCRIPTOR_MIN: u32 = 3;
const DESCRIPTOR_MAX: u32 = 9;

/// What is mapped is a number of pages.
const PAGE_BYTES: u64 = 4096;

/// How a shell and its programs are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// The variable with the mount point.
    pub(crate) mount: &'static str,
    /// Words with it stand in quotes.
    pub(crate) quotes: bool,
    pub(crate) xfs_io: &'static str,
    pub(crate) setfattr: &'static str,
    /// Where what nobody reads goes.
    pub(crate) silent: &'static str,
    /// Makes everything durable.
    pub(crate) sync: &'static str,
    /// Calls renameat2(2), where there is a program for that.
    pub(crate) renameat2: Option<&'static str>,
}

/// What commands need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A command of xfs_io, and an argument that it must know.
    Io(&'static str, &'static str),
    /// Extended attributes.
    Attributes,
    /// A flag of renameat2.
    Rename(&'static str),
    /// Shared space.
    Reflink,
    Hardlinks,
    Symlinks,
    Mknod,
    DirectIo,
}

/// Commands for operations.
#[derive(Debug)]
pub(crate) struct Commands {
    dialect: Dialect,
    pub(crate) lines: Vec<String>,
    pub(crate) needs: BTreeSet<Need>,
    /// The descriptors of handles that are open.
    handles: BTreeMap<String, u32>,
    /// The file that the last line works on with xfs_io, and how that opens it.
    last_io: Option<(String, String)>,
    /// The handle of a file without a name: all that is done with it is in one call of xfs_io.
    unnamed: Option<String>,
    /// The numbers of renames that do nothing.
    idle: BTreeSet<usize>,
}

impl Commands {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let (lines, needs, handles, last_io, unnamed, idle) = <_>::default();
        Self {
            dialect,
            lines,
            needs,
            handles,
            last_io,
            unnamed,
            idle,
        }
    }

    /// Those with these numbers are renames that do nothing: rename(2) leaves two names of one file
    /// as they are, where mv(1) fails or removes one of them.
    pub(crate) fn with_idle(self, idle: BTreeSet<usize>) -> Self {
        Self { idle, ..self }
    }

    /// A line that is no operation.
    pub(crate) fn raw(&mut self, line: impl Into<String>) {
        self.last_io = None;
        self.unnamed = None;
        self.lines.push(line.into());
    }

    /// The descriptors that are open.
    pub(crate) fn open(&self) -> impl Iterator<Item = u32> {
        self.handles.values().copied()
    }

    /// A path as a word.
    pub(crate) fn path(&self, path: &str) -> Result<String> {
        word(&self.dialect, path)
    }

    fn target(&self, op: &Op, target: &Target) -> Result<String> {
        match target {
            Target::Path(path) => self.path(path),
            Target::Handle(handle) => match self.handles.get(handle) {
                Some(descriptor) => Ok(format!("/proc/self/fd/{descriptor}")),
                None => Err(NotExpressible::new(
                    op.to_string(),
                    format!(
                        "a shell cannot keep @{handle}, a file without a name, open over other operations"
                    ),
                )),
            },
        }
    }

    /// Has xfs_io do something with a file; what it does to the same file next is done by the same
    /// call.
    fn io(&mut self, flags: &str, target: String, command: &str) {
        let key = (flags.to_owned(), target);
        if self.last_io.as_ref() == Some(&key) {
            let line = self.lines.last_mut().expect("there was one");
            let at = line.rfind(key.1.as_str()).expect("it works on that file");
            line.insert_str(at, &format!("-c \"{command}\" "));
            return;
        }
        let (flags, target) = &key;
        let Dialect { xfs_io, silent, .. } = self.dialect;
        self.lines.push(format!(
            "{xfs_io} {flags}-c \"{command}\" {target} {silent}"
        ));
        self.last_io = Some(key);
    }

    /// Adds operation `number`, which chooses the byte that it writes.
    pub(crate) fn op(&mut self, number: usize, op: &Op) -> Result<()> {
        if let Some(handle) = self.unnamed.clone() {
            if self.on_unnamed(&handle, number, op)? {
                return Ok(());
            }
            self.unnamed = None;
            self.last_io = None;
        }
        if let Some(command) = self.io_command(number, op)? {
            let target = self.target(op, op.target().expect("it works on a file"))?;
            if let Op::MmapWrite { offset, length, .. } = op {
                let end = offset + length;
                self.raw(format!(
                    "[ \"$(stat -c %s {target})\" -ge {end} ] || truncate -s {end} {target}"
                ));
            }
            self.io(io_flags(op), target, &command);
            return Ok(());
        }
        let line = self.line(op)?.map(|line| {
            if self.idle.contains(&number) {
                format!("# rename(2) leaves two names of one file as they are, unlike: {line}")
            } else {
                line
            }
        });
        self.last_io = None;
        self.lines.extend(line);
        Ok(())
    }

    /// What xfs_io is to do for an operation, if it can.
    fn io_command(&mut self, number: usize, op: &Op) -> Result<Option<String>> {
        let byte = byte(number);
        Ok(Some(match op {
            Op::Write {
                offset,
                length,
                sync,
                ..
            } => self.write(*sync, &byte, *offset, *length),
            Op::DirectWrite {
                offset,
                length,
                sync,
                ..
            } => {
                self.needs.insert(Need::DirectIo);
                self.write(*sync, &byte, *offset, *length)
            }
            Op::Append { length, .. } => format!("pwrite -S {byte} 0 {length}"),
            Op::Truncate { size, .. } => format!("truncate {size}"),
            Op::Falloc {
                mode,
                offset,
                length,
                ..
            } => self.allocate(*mode, *offset, *length),
            Op::SyncFileRange { offset, length, .. } => {
                self.needs.insert(Need::Io("sync_range", ""));
                format!("sync_range -b -w -a {offset} {length}")
            }
            Op::Fsync { .. } => "fsync".into(),
            Op::Fdatasync { .. } => "fdatasync".into(),
            _ => return Ok(mapped(op, &byte)),
        }))
    }

    fn write(&mut self, sync: WriteSync, byte: &str, offset: u64, length: u64) -> String {
        let mut dsync = "";
        if sync == WriteSync::Dsync {
            dsync = "-V 1 -D ";
            self.needs.insert(Need::Io("pwrite", "-D"));
        }
        format!("pwrite {dsync}-S {byte} {offset} {length}")
    }

    fn allocate(&mut self, mode: FallocMode, offset: u64, length: u64) -> String {
        let (command, flag) = falloc(mode);
        self.needs.insert(Need::Io(command, flag));
        let flag = if flag.is_empty() {
            String::new()
        } else {
            format!("{flag} ")
        };
        format!("{command} {flag}{offset} {length}")
    }

    /// What a shell does for an operation, if there is anything to do.
    fn line(&mut self, op: &Op) -> Result<Option<String>> {
        match op {
            Op::Creat { .. } | Op::Mkdir { .. } | Op::Mkfifo { .. } | Op::Mknod { .. } => {
                self.make(op).map(Some)
            }
            Op::Open { .. } | Op::Tmpfile { .. } | Op::Close { .. } => self.on_handle(op),
            Op::SetXattr { .. } | Op::RemoveXattr { .. } | Op::Chmod { .. } | Op::Chown { .. } => {
                self.attributes(op).map(Some)
            }
            Op::DropCaches { .. } | Op::Syncfs | Op::Sync => self.on_everything(op).map(Some),
            _ => self.names(op).map(Some),
        }
    }

    fn make(&mut self, op: &Op) -> Result<String> {
        Ok(match op {
            Op::Creat {
                path,
                mode: DEFAULT_FILE_MODE,
            } => format!("touch {}", self.path(path)?),
            Op::Creat { path, mode } if mode & 0o7111 == 0 => {
                format!("(umask {:03o} && : > {})", 0o666 & !mode, self.path(path)?)
            }
            Op::Creat { .. } => {
                return refused(op, "a shell makes no file with such a mode in one step");
            }
            Op::Mkdir {
                path,
                mode: DEFAULT_DIRECTORY_MODE,
            } => format!("mkdir {}", self.path(path)?),
            Op::Mkdir { path, mode } => format!("mkdir -m {mode:o} {}", self.path(path)?),
            Op::Mkfifo { path, mode } => format!("mkfifo -m {mode:o} {}", self.path(path)?),
            Op::Mknod {
                path,
                kind,
                major,
                minor,
            } => {
                self.needs.insert(Need::Mknod);
                let kind = if *kind == DeviceKind::Char { 'c' } else { 'b' };
                format!("mknod {} {kind} {major} {minor}", self.path(path)?)
            }
            other => return no_command(other),
        })
    }

    fn names(&mut self, op: &Op) -> Result<String> {
        Ok(match op {
            Op::Symlink { target, path } => {
                self.needs.insert(Need::Symlinks);
                format!("ln -s {} {}", plain_word(target)?, self.path(path)?)
            }
            Op::Link { source, dest } => {
                self.needs.insert(Need::Hardlinks);
                let follow = if matches!(source, Target::Handle(_)) {
                    "-L "
                } else {
                    "-P "
                };
                let source = self.target(op, source)?;
                format!("ln {follow}{source} {}", self.path(dest)?)
            }
            Op::Unlink { path } => format!("rm -f {}", self.path(path)?),
            Op::Rmdir { path } => format!("rmdir {}", self.path(path)?),
            Op::Remove { path } => format!("rm -d -f {}", self.path(path)?),
            Op::Rename { source, dest, flag } => {
                let program = self.renaming(op, *flag)?;
                format!("{program} {} {}", self.path(source)?, self.path(dest)?)
            }
            Op::Reflink { .. } => self.reflink(op)?,
            other => return no_command(other),
        })
    }

    fn reflink(&mut self, op: &Op) -> Result<String> {
        let Op::Reflink {
            source,
            source_offset,
            length,
            dest,
            dest_offset,
        } = op
        else {
            return no_command(op);
        };
        self.needs.insert(Need::Reflink);
        let (from, to) = (self.target(op, source)?, self.target(op, dest)?);
        let Dialect { xfs_io, silent, .. } = self.dialect;
        let from = from.trim_matches('"');
        let command = format!("reflink {from} {source_offset} {dest_offset} {length}");
        Ok(format!("{xfs_io} -c \"{command}\" {to} {silent}"))
    }

    /// The program that renames so.
    fn renaming(&mut self, op: &Op, flag: RenameFlag) -> Result<String> {
        let (letter, name) = match flag {
            RenameFlag::Replace => return Ok("mv -T -f".into()),
            RenameFlag::Exchange => ("x", "exchange"),
            RenameFlag::Whiteout => ("w", "whiteout"),
            RenameFlag::NoReplace => ("n", "noreplace"),
        };
        let Some(program) = self.dialect.renameat2 else {
            return refused(
                op,
                "no program that is everywhere calls renameat2(2): export it as fstests",
            );
        };
        self.needs.insert(Need::Rename(name));
        Ok(format!("{program} -{letter}"))
    }

    fn on_handle(&mut self, op: &Op) -> Result<Option<String>> {
        Ok(Some(match op {
            Op::Open { path, handle } => {
                let descriptor = self.descriptor(op, handle)?;
                format!("exec {descriptor}<{}", self.path(path)?)
            }
            Op::Tmpfile { dir, handle, .. } => {
                self.needs.insert(Need::Io("-T", ""));
                self.needs.insert(Need::Io("flink", ""));
                let target = self.path(dir)?;
                let Dialect { xfs_io, silent, .. } = self.dialect;
                self.unnamed = Some(handle.clone());
                format!("{xfs_io} -T {target} {silent}")
            }
            Op::Close {
                target: Target::Handle(handle),
            } => {
                let descriptor = self.handles.remove(handle);
                return Ok(descriptor.map(|descriptor| format!("exec {descriptor}<&-")));
            }
            // Nothing stays open.
            Op::Close { .. } => return Ok(None),
            other => return no_command(other),
        }))
    }

    fn attributes(&mut self, op: &Op) -> Result<String> {
        let setfattr = self.dialect.setfattr;
        Ok(match op {
            Op::SetXattr {
                target,
                name,
                value,
            } => {
                self.needs.insert(Need::Attributes);
                let file = self.target(op, target)?;
                let (name, value) = (plain_word(name)?, quoted(value));
                format!("{setfattr} -n {name} -v {value} {file}")
            }
            Op::RemoveXattr { target, name } => {
                self.needs.insert(Need::Attributes);
                let file = self.target(op, target)?;
                format!("{setfattr} -x {} {file}", plain_word(name)?)
            }
            Op::Chmod { target, mode } => format!("chmod {mode:04o} {}", self.target(op, target)?),
            Op::Chown { target, uid, gid } => {
                format!("chown {uid}:{gid} {}", self.target(op, target)?)
            }
            other => return no_command(other),
        })
    }

    fn on_everything(&self, op: &Op) -> Result<String> {
        Ok(match op {
            Op::DropCaches { what } => format!("echo {what} > /proc/sys/vm/drop_caches"),
            Op::Syncfs => format!("{} -c \"syncfs\" {}", self.dialect.xfs_io, self.path(".")?),
            Op::Sync => self.dialect.sync.into(),
            other => return no_command(other),
        })
    }

    fn descriptor(&mut self, op: &Op, handle: &str) -> Result<u32> {
        let free = (DESCRIPTOR_MIN..=DESCRIPTOR_MAX)
            .find(|number| !self.handles.values().any(|used| used == number));
        let free = free.ok_or_else(|| {
            NotExpressible::new(op.to_string(), "a shell names no more open files")
        })?;
        self.handles.insert(handle.to_owned(), free);
        Ok(free)
    }

    /// Whether an operation is on the file without a name that the last line made; then it is added
    /// to that.
    fn on_unnamed(&mut self, handle: &str, number: usize, op: &Op) -> Result<bool> {
        let is_it = |target: &Target| *target == Target::Handle(handle.to_owned());
        let command = match op {
            Op::Link { source, dest } if is_it(source) => {
                let path = self.path(dest)?;
                format!("flink {}", path.trim_matches('"'))
            }
            Op::Close { target } if is_it(target) => return Ok(true),
            op if op.target().is_some_and(is_it) => match self.io_command(number, op)? {
                Some(command) => command,
                None => return Ok(false),
            },
            _ => return Ok(false),
        };
        let line = self.lines.last_mut().expect("it was made there");
        let first = line.find("-T ").expect("it was made so") + 3;
        let at = line[first..].rfind("-c \"").map_or(first, |last| {
            let start = first + last + 4;
            start + line[start..].find('"').expect("it ends") + 2
        });
        line.insert_str(at, &format!("-c \"{command}\" "));
        Ok(true)
    }
}

fn refused<T>(op: &Op, why: &str) -> Result<T> {
    Err(NotExpressible::new(op.to_string(), why))
}

fn no_command<T>(op: &Op) -> Result<T> {
    refused(op, &format!("there is no command for it ({op})"))
}

/// What xfs_io is to do with a mapping of a file. It stands in a quoted command, which it ends, and
/// begins others.
fn mapped(op: &Op, byte: &str) -> Option<String> {
    let (end, command) = match op {
        Op::MmapWrite { offset, length, .. } => {
            let command = format!("mwrite -S {byte} {offset} {length}");
            (offset + length, command)
        }
        Op::Msync { offset, length, .. } => {
            let (start, end) = (offset / PAGE_BYTES * PAGE_BYTES, offset + length);
            (end, format!("msync -s {start} {}", end - start))
        }
        _ => return None,
    };
    let end = end.next_multiple_of(PAGE_BYTES);
    Some(format!("mmap -rw 0 {end}\" -c \"{command}\" -c \"munmap"))
}

/// The byte that operation `number` writes: no two that are near each other write the same, and
/// none zero.
fn byte(number: usize) -> String {
    format!("0x{:02x}", number % 250 + 1)
}

fn io_flags(op: &Op) -> &'static str {
    match op {
        Op::Append { .. } => "-a ",
        Op::Write {
            sync: WriteSync::Sync,
            ..
        } => "-s ",
        Op::DirectWrite {
            sync: WriteSync::Sync,
            ..
        } => "-d -s ",
        Op::DirectWrite { .. } => "-d ",
        _ => "",
    }
}

fn falloc(mode: FallocMode) -> (&'static str, &'static str) {
    match mode {
        FallocMode::Allocate => ("falloc", ""),
        FallocMode::KeepSize => ("falloc", "-k"),
        FallocMode::ZeroRange => ("fzero", ""),
        FallocMode::ZeroRangeKeepSize => ("fzero", "-k"),
        FallocMode::PunchHole => ("fpunch", ""),
        FallocMode::CollapseRange => ("fcollapse", ""),
        FallocMode::InsertRange => ("finsert", ""),
        FallocMode::UnshareRange => ("funshare", ""),
    }
}

/// A path below the mount point.
fn word(dialect: &Dialect, path: &str) -> Result<String> {
    let path = plain_word(path)?;
    let path = path.trim_end_matches('/').trim_start_matches("./");
    let whole = if path == "." {
        dialect.mount.to_owned()
    } else {
        format!("{}/{path}", dialect.mount)
    };
    Ok(if dialect.quotes {
        format!("\"{whole}\"")
    } else {
        whole
    })
}

/// A word in quotes, where it needs them.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let quoter = shlex::Quoter::new().allow_nul(true);
    quoter.quote(word).expect("only a NUL byte is refused")
}

/// Words that a shell and xfs_io take as they are: others are not worth their quotes.
fn plain_word(text: &str) -> Result<&str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@=".contains(letter);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(is_plain) {
        return Err(NotExpressible::new(
            format!("{text:?}"),
            "a name that a shell script should not have",
        ));
    }
    Ok(text)
}
