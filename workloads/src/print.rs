//! Workloads as text that [`crate::parse`] reads back.

use std::fmt::{self, Display, Formatter, Write};

use crate::op::{
    DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DeviceKind, FallocMode, Op, RenameFlag, Step,
    Target, Workload, WriteSync,
};
use crate::operation::FALLOC_MODES;

impl Workload {
    /// For people: a heading, then one operation a line.
    pub fn to_text(&self) -> String {
        format!("{self:#}")
    }

    /// For pipes: everything on one line, without a line feed at its end.
    pub fn to_line(&self) -> String {
        self.to_string()
    }

    fn write_line(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "workload {}", Quotable(&self.name))?;
        for source in &self.source {
            write!(f, "; source {}", Quoted(source))?;
        }
        for expect in &self.expect {
            write!(f, "; expect {}", Quoted(expect))?;
        }
        if !self.setup.is_empty() {
            f.write_str("; setup")?;
            self.setup.iter().try_for_each(|op| write!(f, "; {op}"))?;
            f.write_str("; run")?;
        }
        self.run.iter().try_for_each(|step| write!(f, "; {step}"))
    }

    fn write_text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "workload {}", Quotable(&self.name))?;
        for source in &self.source {
            writeln!(f, "source {}", FreeText(source))?;
        }
        for expect in &self.expect {
            writeln!(f, "expect {}", FreeText(expect))?;
        }
        if !self.setup.is_empty() {
            writeln!(f, "setup")?;
            self.setup.iter().try_for_each(|op| writeln!(f, "{op}"))?;
            writeln!(f, "run")?;
        }
        let mut steps = self.run.iter().peekable();
        while let Some(step) = steps.next() {
            // A crash point stands on the line of what it follows.
            let joined = matches!(steps.peek(), Some(Step::CrashPoint));
            write!(f, "{step}{}", if joined { "; " } else { "\n" })?;
        }
        Ok(())
    }
}

/// One line; with `{:#}` one operation a line.
impl Display for Workload {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            self.write_text(f)
        } else {
            self.write_line(f)
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Step::Op(op) => op.fmt(f),
            Step::CrashPoint => f.write_str("!"),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Target::Path(path) => Quotable(path).fmt(f),
            Target::Handle(name) => write!(f, "@{name}"),
        }
    }
}

impl Display for FallocMode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = FALLOC_MODES
            .iter()
            .find(|(_, mode)| mode == self)
            .map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl Display for Op {
    #[rustfmt::skip] // a table: one operation a line
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Op::Creat { path, mode } => write!(f, "creat {}{}", Quotable(path), Mode(*mode, DEFAULT_FILE_MODE)),
            Op::Mkdir { path, mode } => write!(f, "mkdir {}{}", Quotable(path), Mode(*mode, DEFAULT_DIRECTORY_MODE)),
            Op::Mkfifo { path, mode } => write!(f, "mkfifo {}{}", Quotable(path), Mode(*mode, DEFAULT_FILE_MODE)),
            Op::Mknod { path, kind: DeviceKind::Char, major: 0, minor: 0 } => write!(f, "mknod {}", Quotable(path)),
            Op::Mknod { path, kind, major, minor } => write!(f, "mknod {} {} {major} {minor}", Quotable(path), device_letter(*kind)),
            Op::Symlink { target, path } => write!(f, "symlink {} {}", Quotable(target), Quotable(path)),
            Op::Link { source, dest } => write!(f, "link {source} {}", Quotable(dest)),
            Op::Unlink { path } => write!(f, "unlink {}", Quotable(path)),
            Op::Rmdir { path } => write!(f, "rmdir {}", Quotable(path)),
            Op::Remove { path } => write!(f, "remove {}", Quotable(path)),
            Op::Rename { source, dest, flag } => write!(f, "rename {} {}{}", Quotable(source), Quotable(dest), rename_word(*flag)),
            Op::Open { path, handle } => write!(f, "open {} as @{handle}", Quotable(path)),
            Op::Tmpfile { dir, handle, mode } => write!(f, "tmpfile {} as @{handle}{}", Quotable(dir), Mode(*mode, DEFAULT_FILE_MODE)),
            Op::Close { target } => write!(f, "close {target}"),
            Op::Write { target, offset, length, sync } => write!(f, "write {target} {} {}{}", Bytes(*offset), Bytes(*length), sync_word(*sync)),
            Op::Append { target, length } => write!(f, "append {target} {}", Bytes(*length)),
            Op::DirectWrite { target, offset, length, sync } => write!(f, "dwrite {target} {} {}{}", Bytes(*offset), Bytes(*length), sync_word(*sync)),
            Op::MmapWrite { target, offset, length } => write!(f, "mmapwrite {target} {} {}", Bytes(*offset), Bytes(*length)),
            Op::Truncate { target, size } => write!(f, "truncate {target} {}", Bytes(*size)),
            Op::Falloc { target, mode, offset, length } => write!(f, "falloc {target} {mode} {} {}", Bytes(*offset), Bytes(*length)),
            Op::SetXattr { target, name, value } => write!(f, "setxattr {target} {} {}", Quotable(name), Quotable(value)),
            Op::RemoveXattr { target, name } => write!(f, "removexattr {target} {}", Quotable(name)),
            Op::Chmod { target, mode } => write!(f, "chmod {target} {mode:04o}"),
            Op::Chown { target, uid, gid } => write!(f, "chown {target} {uid} {gid}"),
            Op::Reflink { source, source_offset: 0, length: 0, dest, dest_offset: 0 } => write!(f, "reflink {source} {dest}"),
            Op::Reflink { source, source_offset, length, dest, dest_offset } => write!(f, "reflink {source} {} {} {dest} {}", Bytes(*source_offset), Bytes(*length), Bytes(*dest_offset)),
            Op::DropCaches { what } => write!(f, "drop_caches {what}"),
            Op::Fsync { target } => write!(f, "fsync {target}"),
            Op::Fdatasync { target } => write!(f, "fdatasync {target}"),
            Op::Msync { target, offset, length } => write!(f, "msync {target} {} {}", Bytes(*offset), Bytes(*length)),
            Op::SyncFileRange { target, offset, length } => write!(f, "sync_file_range {target} {} {}", Bytes(*offset), Bytes(*length)),
            Op::Syncfs => f.write_str("syncfs"),
            Op::Sync => f.write_str("sync"),
        }
    }
}

fn device_letter(kind: DeviceKind) -> char {
    match kind {
        DeviceKind::Char => 'c',
        DeviceKind::Block => 'b',
    }
}

fn rename_word(flag: RenameFlag) -> &'static str {
    match flag {
        RenameFlag::Replace => "",
        RenameFlag::NoReplace => " noreplace",
        RenameFlag::Exchange => " exchange",
        RenameFlag::Whiteout => " whiteout",
    }
}

fn sync_word(sync: WriteSync) -> &'static str {
    match sync {
        WriteSync::None => "",
        WriteSync::Dsync => " dsync",
        WriteSync::Sync => " sync",
    }
}

/// An octal mode, left out where it is the default.
struct Mode(u32, u32);

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == self.1 {
            Ok(())
        } else {
            write!(f, " {:04o}", self.0)
        }
    }
}

/// A number of bytes, in K or M where nothing is lost by it.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const K: u64 = 1024;
        const M: u64 = K * K;
        match self.0 {
            0 => f.write_str("0"),
            bytes if bytes % M == 0 => write!(f, "{}M", bytes / M),
            bytes if bytes % K == 0 => write!(f, "{}K", bytes / K),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// A word, in quotes where it would not be read back as one.
struct Quotable<'a>(&'a str);

impl Display for Quotable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let special = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ';' | '#' | '"');
        if self.0.is_empty() || self.0.starts_with('@') || self.0.contains(special) {
            return Quoted(self.0).fmt(f);
        }
        f.write_str(self.0)
    }
}

/// Text to the end of the line, in quotes where it would not be read back as it is.
struct FreeText<'a>(&'a str);

impl Display for FreeText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let text = self.0;
        let special = |c: char| c.is_control() || c == '#';
        if text.is_empty() || text.trim() != text || text.starts_with('"') || text.contains(special)
        {
            return Quoted(text).fmt(f);
        }
        f.write_str(text)
    }
}

/// Text in quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}
