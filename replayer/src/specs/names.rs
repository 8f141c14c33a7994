//! Which files the names of a workload stand for, and what each operation does to them.

use std::collections::BTreeMap;

use workloads::{FallocMode, Op, RenameFlag, Target, WriteSync};

/// The directory that the file system is.
const ROOT: i64 = 0;

/// Something done to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    /// What the page about specifications calls it.
    pub(super) op: &'static str,
    /// What the file was called, empty if it had no name.
    pub(super) path: String,
    /// The name that it got, the target of a symbolic link, or whose bytes a file got.
    pub(super) to: String,
    /// Its number, whatever its name.
    pub(super) file: i64,
    /// Where it begins, in bytes; of `truncate` the new size.
    pub(super) offset: u64,
    /// How much, in bytes.
    pub(super) length: u64,
}

/// The files that there are, as far as a workload has made them.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By path.
    files: BTreeMap<String, i64>,
    /// By the handles that they were opened under.
    handles: BTreeMap<String, Handle>,
    /// In bytes, of those that were written.
    sizes: BTreeMap<i64, u64>,
    /// How many files were given a number, without the root.
    count: i64,
}

/// What a handle leads to.
#[derive(Debug)]
struct Handle {
    file: i64,
    /// The name that it was opened under, wherever that was moved since; empty if that was removed.
    name: String,
}

/// A path without what makes no difference.
fn plain(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}

/// Whether a path is another, or below it.
fn is_in(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Names {
    /// What an operation does that is done: nothing if it only opens, closes or drops what is cached.
    pub(super) fn apply(&mut self, op: &Op) -> Vec<Change> {
        match op {
            Op::Creat { .. }
            | Op::Mkfifo { .. }
            | Op::Mknod { .. }
            | Op::Mkdir { .. }
            | Op::Symlink { .. }
            | Op::Open { .. }
            | Op::Tmpfile { .. } => self.create(op),
            Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Remove { .. }
            | Op::Rename { .. } => self.rename(op),
            Op::Write { .. }
            | Op::Append { .. }
            | Op::DirectWrite { .. }
            | Op::MmapWrite { .. }
            | Op::Truncate { .. }
            | Op::Falloc { .. }
            | Op::Reflink { .. } => self.write(op),
            Op::Close { .. } | Op::DropCaches { .. } | Op::SyncFileRange { .. } => Vec::new(),
            _ => self.on_whole(op),
        }
    }

    /// New files, and new ways to them.
    fn create(&mut self, op: &Op) -> Vec<Change> {
        match op {
            Op::Mkdir { path, .. } => vec![self.make("mkdir", path, "")],
            Op::Symlink { target, path } => vec![self.make("symlink", path, target)],
            Op::Open { path, handle } => {
                let file = self.at(path);
                self.open(handle, file, plain(path));
                Vec::new()
            }
            Op::Tmpfile { handle, .. } => {
                let file = self.new_file();
                self.open(handle, file, "");
                vec![change("creat", file)]
            }
            Op::Creat { path, .. } | Op::Mkfifo { path, .. } | Op::Mknod { path, .. } => {
                vec![self.make("creat", path, "")]
            }
            _ => unreachable!("not an operation that makes something"),
        }
    }

    /// What makes everything durable.
    pub(super) fn sync_all() -> Change {
        change("sync", ROOT)
    }

    /// Syncs, and changes of attributes.
    fn on_whole(&mut self, op: &Op) -> Vec<Change> {
        match op {
            Op::SetXattr { target, .. } => self.on("setxattr", target),
            Op::RemoveXattr { target, .. } => self.on("removexattr", target),
            Op::Chmod { target, .. } => self.on("chmod", target),
            Op::Chown { target, .. } => self.on("chown", target),
            Op::Fsync { target } => self.on("fsync", target),
            Op::Fdatasync { target } => self.on("fdatasync", target),
            Op::Msync {
                target,
                offset,
                length,
            } => vec![self.range("fdatasync-range", target, (*offset, *length))],
            Op::Syncfs | Op::Sync => vec![Self::sync_all()],
            _ => unreachable!("neither a sync nor a change of attributes"),
        }
    }

    /// Changes of names.
    fn rename(&mut self, op: &Op) -> Vec<Change> {
        match op {
            Op::Link { source, dest } => vec![self.link(source, dest)],
            Op::Unlink { path } | Op::Rmdir { path } | Op::Remove { path } => {
                let file = self.at(path);
                self.files.remove(plain(path));
                self.move_handles(path, "", false);
                vec![named("unlink", file, path)]
            }
            Op::Rename { source, dest, flag } => self.move_to(source, dest, *flag),
            _ => unreachable!("not an operation on names"),
        }
    }

    fn link(&mut self, source: &Target, dest: &str) -> Change {
        let change = Change {
            to: plain(dest).to_owned(),
            ..self.range("link", source, (0, 0))
        };
        self.files.insert(change.to.clone(), change.file);
        // A file without a name has one now.
        if let Target::Handle(handle) = source
            && let Some(handle) = self.handles.get_mut(handle)
            && handle.name.is_empty()
        {
            handle.name.clone_from(&change.to);
        }
        change
    }

    fn move_to(&mut self, source: &str, dest: &str, flag: RenameFlag) -> Vec<Change> {
        let file = self.at(source);
        // Two names of one file stay as they are.
        if self.files.get(plain(dest)) == Some(&file) {
            return Vec::new();
        }
        let word = if flag == RenameFlag::Exchange {
            "exchange"
        } else {
            "rename"
        };
        let mut change = named(word, file, source);
        plain(dest).clone_into(&mut change.to);
        self.move_handles(source, dest, flag == RenameFlag::Exchange);
        let moved = self.take(source);
        let replaced = self.take(dest);
        self.put(moved, dest);
        if flag == RenameFlag::Exchange {
            self.put(replaced, source);
        }
        let mut changes = vec![change];
        if flag == RenameFlag::Whiteout {
            changes.push(self.make("creat", source, ""));
        }
        changes
    }

    /// Has handles be called as what they lead to is from now on, if `source` gets the name `dest`,
    /// or none if that is empty. What had that name gets the other one, or none.
    fn move_handles(&mut self, source: &str, dest: &str, is_exchange: bool) {
        let (source, dest) = (plain(source), plain(dest));
        let back = if is_exchange { source } else { "" };
        for handle in self.handles.values_mut() {
            let moved = [(source, dest), (dest, back)].into_iter();
            let mut moved = moved.filter(|(from, _)| !from.is_empty());
            if let Some((from, to)) = moved.find(|(from, _)| is_in(&handle.name, from)) {
                handle.name = match to {
                    "" => String::new(),
                    to => format!("{to}{}", &handle.name[from.len()..]),
                };
            }
        }
    }

    /// Takes a name away, and all that are below it: each by what comes after that name.
    fn take(&mut self, path: &str) -> Vec<(String, i64)> {
        let path = plain(path);
        let mut taken = Vec::new();
        self.files.retain(|name, file| {
            let is_taken = is_in(name, path);
            if is_taken {
                taken.push((name[path.len()..].to_owned(), *file));
            }
            !is_taken
        });
        taken
    }

    fn put(&mut self, taken: Vec<(String, i64)>, path: &str) {
        let path = plain(path);
        let moved = taken
            .into_iter()
            .map(|(rest, file)| (format!("{path}{rest}"), file));
        self.files.extend(moved);
    }

    /// Changes of what a file holds.
    fn write(&mut self, op: &Op) -> Vec<Change> {
        match op {
            Op::Write {
                target,
                offset,
                length,
                sync,
            }
            | Op::DirectWrite {
                target,
                offset,
                length,
                sync,
            } => {
                let range = (*offset, *length);
                let mut changes = vec![self.grow(target, range)];
                changes.extend(sync_word(*sync).map(|word| self.range(word, target, range)));
                changes
            }
            Op::MmapWrite {
                target,
                offset,
                length,
            } => vec![self.grow(target, (*offset, *length))],
            Op::Append { target, length } => {
                let size = self.size(target);
                vec![self.grow(target, (size, *length))]
            }
            Op::Truncate { target, size } => {
                let change = self.range("truncate", target, (*size, 0));
                self.sizes.insert(change.file, *size);
                vec![change]
            }
            Op::Falloc {
                target,
                mode,
                offset,
                length,
            } => vec![self.falloc(target, *mode, (*offset, *length))],
            Op::Reflink { .. } => self.reflink(op),
            _ => unreachable!("not an operation on what a file holds"),
        }
    }

    fn reflink(&mut self, op: &Op) -> Vec<Change> {
        let Op::Reflink {
            source,
            source_offset,
            length,
            dest,
            dest_offset,
        } = op
        else {
            unreachable!("it clones nothing");
        };
        let length = match length {
            0 => self.size(source).saturating_sub(*source_offset),
            length => *length,
        };
        let to = self.range("reflink", source, (0, 0)).path;
        let mut change = self.range("reflink", dest, (*dest_offset, length));
        change.to = to;
        self.has_at_least(change.file, dest_offset + length);
        vec![change]
    }

    fn falloc(&mut self, target: &Target, mode: FallocMode, range: (u64, u64)) -> Change {
        let word = match mode {
            FallocMode::Allocate | FallocMode::KeepSize | FallocMode::UnshareRange => "allocate",
            FallocMode::ZeroRange | FallocMode::ZeroRangeKeepSize | FallocMode::PunchHole => "zero",
            FallocMode::CollapseRange => "collapse",
            FallocMode::InsertRange => "insert",
        };
        let change = self.range(word, target, range);
        let (offset, length) = range;
        let size = self.size(target);
        let new = match mode {
            FallocMode::Allocate | FallocMode::ZeroRange => size.max(offset + length),
            FallocMode::CollapseRange => size.saturating_sub(length),
            FallocMode::InsertRange => size + length,
            _ => size,
        };
        self.sizes.insert(change.file, new);
        change
    }

    /// A write of a range, after which the file has at least that.
    fn grow(&mut self, target: &Target, range: (u64, u64)) -> Change {
        let change = self.range("write", target, range);
        self.has_at_least(change.file, range.0 + range.1);
        change
    }

    fn has_at_least(&mut self, file: i64, size: u64) {
        let known = self.sizes.entry(file).or_default();
        *known = (*known).max(size);
    }

    fn size(&mut self, target: &Target) -> u64 {
        let file = self.file(target);
        self.sizes.get(&file).copied().unwrap_or_default()
    }

    fn make(&mut self, op: &'static str, path: &str, to: &str) -> Change {
        let file = self.new_file();
        self.files.insert(plain(path).to_owned(), file);
        let change = named(op, file, path);
        Change {
            to: to.to_owned(),
            ..change
        }
    }

    fn new_file(&mut self) -> i64 {
        self.count += 1;
        self.count
    }

    /// What is at a path. What nothing has made is given a number, too.
    fn at(&mut self, path: &str) -> i64 {
        let path = plain(path);
        if path == "." || path.is_empty() {
            return ROOT;
        }
        if let Some(file) = self.files.get(path) {
            return *file;
        }
        let file = self.new_file();
        self.files.insert(path.to_owned(), file);
        file
    }

    fn file(&mut self, target: &Target) -> i64 {
        match target {
            Target::Path(path) => self.at(path),
            Target::Handle(handle) => match self.handles.get(handle) {
                Some(handle) => handle.file,
                None => self.new_file(),
            },
        }
    }

    fn open(&mut self, handle: &str, file: i64, name: &str) {
        let name = name.to_owned();
        self.handles
            .insert(handle.to_owned(), Handle { file, name });
    }

    /// What a file is called by somebody who says it in this way; empty if it has no name.
    fn called(&self, target: &Target) -> String {
        match target {
            Target::Path(path) => plain(path).to_owned(),
            Target::Handle(handle) => {
                let handle = self.handles.get(handle);
                handle.map(|handle| handle.name.clone()).unwrap_or_default()
            }
        }
    }

    fn on(&mut self, op: &'static str, target: &Target) -> Vec<Change> {
        vec![self.range(op, target, (0, 0))]
    }

    fn range(&mut self, op: &'static str, target: &Target, (offset, length): (u64, u64)) -> Change {
        let file = self.file(target);
        let change = match file {
            ROOT => change(op, file),
            _ => named(op, file, &self.called(target)),
        };
        Change {
            offset,
            length,
            ..change
        }
    }
}

/// What a write makes durable by itself.
fn sync_word(sync: WriteSync) -> Option<&'static str> {
    match sync {
        WriteSync::None => None,
        WriteSync::Dsync => Some("fdatasync-range"),
        WriteSync::Sync => Some("fsync-range"),
    }
}

fn named(op: &'static str, file: i64, path: &str) -> Change {
    Change {
        path: plain(path).to_owned(),
        ..change(op, file)
    }
}

/// Of what has no name, or is the root.
fn change(op: &'static str, file: i64) -> Change {
    let path = if file == ROOT { "." } else { "" };
    Change {
        op,
        path: path.to_owned(),
        to: String::new(),
        file,
        offset: 0,
        length: 0,
    }
}
