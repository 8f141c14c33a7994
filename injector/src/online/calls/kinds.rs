//! The calls that a plan can name, and which files they are of.

use std::path::{Path, PathBuf};

use tracer::calls::{Bytes, Call, Numbers, ROWS, Row, When, Write};
use tracer::{Entry, Origin, lookup};

/// What a plan calls them, and the system calls that are meant.
const KINDS: [(&str, &[&str]); 12] = [
    ("fsync", &["fsync"]),
    ("fdatasync", &["fdatasync"]),
    (SYNC, &["fsync", "fdatasync"]),
    (
        WRITE,
        &["write", "pwrite64", "writev", "pwritev", "pwritev2"],
    ),
    (READ, &["read", "pread64", "readv", "preadv", "preadv2"]),
    ("open", &["open", "openat", "openat2", "creat"]),
    ("rename", &["rename", "renameat", "renameat2"]),
    ("unlink", &["unlink", "unlinkat"]),
    ("link", &["link", "linkat"]),
    ("mkdir", &["mkdir", "mkdirat"]),
    ("truncate", &["truncate", "ftruncate"]),
    ("fallocate", &["fallocate"]),
];

/// Both calls that sync a file.
const SYNC: &str = "sync";
const WRITE: &str = "write";
pub(in crate::online) const READ: &str = "read";

/// Those of which a part can be made.
pub(in crate::online) const PARTIAL: [&str; 2] = [WRITE, READ];

/// Which argument says how many bytes, of the calls that have them in one buffer.
pub(super) const LENGTH: usize = 2;

/// Which argument is their address.
pub(super) const ADDRESS: usize = 1;

/// Calls that no recorder needs to see.
const OTHERS: [Row; 2] = [other("pread64", 17, 67), other("preadv", 295, 69)];

const fn other(name: &'static str, x86_64: u32, aarch64: u32) -> Row {
    Row {
        numbers: Numbers {
            x86_64: Some(x86_64),
            aarch64: Some(aarch64),
        },
        name,
        call: Call::Read { flags: None },
        when: When::Always,
    }
}

/// The names that a plan may use.
pub(in crate::online) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _)| *name)
}

/// Whether a system call is one of those that a plan means by a name.
pub(super) fn is_one(system_call: &str, kind: &str) -> bool {
    let mut kinds = KINDS.iter();
    kinds.any(|(name, calls)| *name == kind && calls.contains(&system_call))
}

/// What a plan calls a system call, by the one name that no other call has.
pub(super) fn kind(system_call: &str) -> Option<&'static str> {
    let mut kinds = KINDS.iter();
    let of_one = |(name, calls): &&(&str, &[&str])| *name != SYNC && calls.contains(&system_call);
    kinds.find(of_one).map(|(name, _)| *name)
}

/// The rows of the calls that these names mean.
pub(super) fn rows(kinds: &[impl AsRef<str>]) -> Vec<Row> {
    let is_meant = |row: &&Row| kinds.iter().any(|kind| is_one(row.name, kind.as_ref()));
    let rows = ROWS.iter().chain(&OTHERS).filter(is_meant);
    // An open is one whatever it is for.
    rows.map(|row| Row {
        when: When::Always,
        ..*row
    })
    .collect()
}

/// Whether the bytes of a call are in one buffer, of which a part can be used.
pub(super) fn has_length(row: &Row) -> bool {
    let one_buffer = |call| {
        matches!(
            call,
            Call::Write(Write {
                bytes: Bytes::Buffer,
                ..
            })
        )
    };
    one_buffer(row.call) || ["read", "pread64"].contains(&row.name)
}

/// The paths of a call, as the node sees them: two of a rename or link. None if it is of no file.
pub(super) fn paths(origin: &Origin, entry: &Entry) -> Vec<PathBuf> {
    let arguments = &entry.arguments;
    let thread = origin.thread;
    let named = |base: Option<usize>, path: usize| {
        let base = base.map_or(libc::AT_FDCWD, |base| arguments[base] as i32);
        named(thread, base, arguments[path])
    };
    let all = match origin.row.call {
        Call::Remove { .. } if is_of_directory(origin, entry) => [None, None],
        Call::Open { base, path, .. }
        | Call::Make { base, path, .. }
        | Call::Remove { base, path } => [named(base, path), None],
        Call::Truncate => [named(None, 0), None],
        Call::Link {
            from, base, path, ..
        } => [named(from.0, from.1), named(base, path)],
        Call::Rename { bases, paths, .. } => {
            let (from, to) = bases.unzip();
            [named(from, paths.0), named(to, paths.1)]
        }
        _ => [open_file(thread, arguments[0] as i32), None],
    };
    all.into_iter().flatten().collect()
}

/// Whether an unlinkat is an rmdir.
fn is_of_directory(origin: &Origin, entry: &Entry) -> bool {
    let flags = entry.arguments[2] as i32;
    origin.row.name == "unlinkat" && flags & libc::AT_REMOVEDIR != 0
}

/// The file of a descriptor, if it has a path.
fn open_file(thread: libc::pid_t, descriptor: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
    path.is_absolute().then_some(path)
}

/// The file of a path that a thread has in its memory. Links are not followed.
fn named(thread: libc::pid_t, base: i32, address: u64) -> Option<PathBuf> {
    let text = String::from_utf8(lookup::text(thread, address)?).ok()?;
    let path = Path::new(&text);
    if path.is_absolute() {
        return Some(plain(path));
    }
    let base = match base {
        libc::AT_FDCWD => std::fs::read_link(format!("/proc/{thread}/cwd")).ok()?,
        descriptor => open_file(thread, descriptor)?,
    };
    Some(plain(&base.join(path)))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut all = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(all.pop()),
            Component::CurDir => {}
            other => all.push(other),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_means_calls_that_can_be_looked_at() {
        for (name, calls) in KINDS {
            let found: BTreeSet<_> = rows(&[name]).iter().map(|row| row.name).collect();
            assert_eq!(found, calls.iter().copied().collect(), "{name}");
        }
    }

    #[test]
    fn parts_are_only_of_calls_with_one_buffer() {
        let all = rows(&PARTIAL);
        let with_length: Vec<_> = all.iter().filter(|row| has_length(row)).collect();
        let names: BTreeSet<_> = with_length.iter().map(|row| row.name).collect();
        assert_eq!(names, ["pread64", "pwrite64", "read", "write"].into());
    }

    #[test]
    fn a_path_is_told_without_detours() {
        assert_eq!(plain(Path::new("/a/./b//../c")), Path::new("/a/c"));
    }
}
