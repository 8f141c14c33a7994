//! A workload to J-lang, where it can be said there.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;
use super::{ROOT, XATTR_NAME, XATTR_VALUE};
use crate::op::{DeviceKind, FallocMode, Op, RenameFlag, Step, Target, Workload, WriteSync};

/// An operation that J-lang has no words for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{operation}' cannot be expressed in J-lang: {reason}")]
pub struct NotExpressible {
    /// As the workload language writes it.
    pub operation: String,
    /// Why not.
    pub reason: &'static str,
}

const NO_SUCH_OPERATION: &str = "it has no such operation";
const NEEDS_MSYNC: &str = "its mmapwrite is one with an msync of the same range";

/// The workload as a J-lang file. Descriptors are opened and closed as CrashMonkey needs it;
/// a workload without crash points gets one after each persistence operation.
///
/// # Errors
/// The first operation for which J-lang has no words.
pub fn to_jlang(workload: &Workload) -> Result<String, NotExpressible> {
    let mut writer = Writer {
        text: String::new(),
        paths: Paths::default(),
        tree: Tree::default(),
    };
    let setup: Vec<Step> = workload.setup.iter().cloned().map(Step::Op).collect();
    writer.steps(&setup, 0)?;
    let setup_text = std::mem::take(&mut writer.text);
    let run = with_crash_points(&workload.run);
    let checkpoints = run.iter().filter(|step| **step == Step::CrashPoint).count();
    writer.steps(&run, checkpoints)?;
    for path in writer.tree.all_open() {
        writer.close(&path);
    }
    Ok(format!(
        "# define\n{}\n# declare\nlocal_checkpoint\n\n# setup\n{setup_text}\n# run\n{}",
        writer.paths.lines(),
        writer.text
    ))
}

/// The steps with their implied crash points written out.
fn with_crash_points(run: &[Step]) -> Vec<Step> {
    if run.contains(&Step::CrashPoint) {
        return run.to_vec();
    }
    let mut steps = Vec::with_capacity(run.len());
    for step in run {
        steps.push(step.clone());
        if matches!(step, Step::Op(op) if op.is_persistence()) {
            steps.push(Step::CrashPoint);
        }
    }
    steps
}

struct Writer {
    text: String,
    paths: Paths,
    tree: Tree,
}

impl Writer {
    /// Writes steps of which `checkpoints` are crash points; the last of those says so.
    fn steps(&mut self, steps: &[Step], checkpoints: usize) -> Result<(), NotExpressible> {
        let mut checkpoints_left = checkpoints;
        let mut steps = steps.iter().peekable();
        while let Some(step) = steps.next() {
            let Step::Op(op) = step else {
                checkpoints_left -= 1;
                self.line(if checkpoints_left == 0 {
                    "checkpoint 1"
                } else {
                    "checkpoint 0"
                });
                continue;
            };
            let next = steps.peek().and_then(|step| {
                if let Step::Op(op) = step {
                    Some(op)
                } else {
                    None
                }
            });
            let is_mmap = matches!(op, Op::MmapWrite { .. });
            if is_mmap && !next.is_some_and(|next| is_msync_of(next, op)) {
                return Err(no_words(op, NEEDS_MSYNC));
            }
            self.op(op)?;
            self.tree.apply(op);
            if is_mmap {
                steps.next();
            }
        }
        Ok(())
    }

    #[rustfmt::skip] // a table: one operation a line
    fn op(&mut self, op: &Op) -> Result<(), NotExpressible> {
        let line = match op {
            Op::Creat { path, mode } => { let name = self.path(op, path)?; self.tree.open(path); format!("open {name} O_RDWR|O_CREAT {mode:04o}") }
            Op::Mkdir { path, mode } => format!("mkdir {} {mode:04o}", self.path(op, path)?),
            Op::Mknod { path, kind: DeviceKind::Block, major: 0, minor: 0 } => format!("mknod {} TEST_FILE_PERMS|S_IFCHR|S_IFBLK 0", self.path(op, path)?),
            Op::Mknod { path, kind: DeviceKind::Char, major: 0, minor: 0 } => format!("mknod {} TEST_FILE_PERMS|S_IFCHR 0", self.path(op, path)?),
            Op::Symlink { target, path } => format!("symlink {} {}", self.path(op, target)?, self.path(op, path)?),
            Op::Link { source: Target::Path(source), dest } => format!("link {} {}", self.path(op, source)?, self.path(op, dest)?),
            Op::Unlink { path } => format!("unlink {}", self.gone(op, path)?),
            Op::Rmdir { path } => format!("rmdir {}", self.gone(op, path)?),
            Op::Remove { path } => format!("remove {}", self.gone(op, path)?),
            Op::Rename { source, dest, flag: RenameFlag::Replace } => format!("rename {} {}", self.gone(op, source)?, self.gone(op, dest)?),
            Op::Close { target: Target::Path(path) } => { self.path(op, path)?; self.close(path); return Ok(()) }
            Op::Write { target, offset, length, sync: WriteSync::None } => format!("write {} {offset} {length}", self.opened(op, target)?),
            Op::DirectWrite { target, offset, length, sync: WriteSync::Sync } => self.direct_write(op, target, *offset, *length)?,
            Op::MmapWrite { target, offset, length } => format!("mmapwrite {} {offset} {length}", self.opened(op, target)?),
            Op::Truncate { target: Target::Path(path), size } => format!("truncate {} {size}", self.path(op, path)?),
            Op::Falloc { target, mode, offset, length } => format!("falloc {} {} {offset} {length}", self.opened(op, target)?, falloc_flags(*mode)),
            Op::SetXattr { target, name, value } if name == XATTR_NAME && value == XATTR_VALUE => format!("fsetxattr {}", self.opened(op, target)?),
            Op::RemoveXattr { target: Target::Path(path), name } if name == XATTR_NAME => format!("removexattr {}", self.path(op, path)?),
            Op::Fsync { target } => format!("fsync {}", self.opened(op, target)?),
            Op::Fdatasync { target } => format!("fdatasync {}", self.opened(op, target)?),
            Op::Sync => "sync".to_owned(),
            _ => return Err(no_words(op, reason(op))),
        };
        self.line(&line);
        Ok(())
    }

    /// CrashMonkey opens the file for it anew and closes it.
    fn direct_write(
        &mut self,
        op: &Op,
        target: &Target,
        offset: u64,
        length: u64,
    ) -> Result<String, NotExpressible> {
        let name = self.opened(op, target)?;
        if let Target::Path(path) = target {
            self.tree.close(path);
        }
        Ok(format!("dwrite {name} {offset} {length}"))
    }

    /// The name of what is operated on through a descriptor, which is opened if it is not open.
    fn opened(&mut self, op: &Op, target: &Target) -> Result<String, NotExpressible> {
        let Target::Path(path) = target else {
            return Err(no_words(op, "it has no handles"));
        };
        let name = self.path(op, path)?;
        if self.tree.open(path) {
            let is_directory = self.tree.is_directory(path);
            self.line(&if is_directory {
                format!("opendir {name} 0777")
            } else {
                format!("open {name} O_RDWR|O_CREAT 0777")
            });
        }
        Ok(name)
    }

    /// The name of what goes away, which is closed with all below it.
    fn gone(&mut self, op: &Op, path: &str) -> Result<String, NotExpressible> {
        let name = self.path(op, path)?;
        for open in self.tree.open_below(path) {
            self.close(&open);
        }
        Ok(name)
    }

    fn close(&mut self, path: &str) {
        if self.tree.close(path) {
            let name = flat(path);
            self.line(&format!("close {name}"));
        }
    }

    fn path(&mut self, op: &Op, path: &str) -> Result<String, NotExpressible> {
        self.paths.name(path).map_err(|reason| no_words(op, reason))
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// The paths in use, by their names without slashes.
#[derive(Default)]
struct Paths {
    by_name: BTreeMap<String, String>,
}

impl Paths {
    fn name(&mut self, path: &str) -> Result<String, &'static str> {
        let name = flat(path);
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return Err("its names are of letters, digits and '_'");
        }
        if path != "." && name == ROOT {
            return Err("its root is called 'test'");
        }
        match self.by_name.get(&name) {
            Some(other) if other != path => {
                return Err("two paths would have the same name without their slashes");
            }
            Some(_) => {}
            None => {
                self.by_name.insert(name.clone(), path.to_owned());
            }
        }
        Ok(name)
    }

    /// The root first, then by path.
    fn lines(&self) -> String {
        let paths: BTreeSet<&str> = self
            .by_name
            .values()
            .map(String::as_str)
            .filter(|path| *path != ".")
            .collect();
        std::iter::once(ROOT)
            .chain(paths)
            .flat_map(|path| [path, "\n"])
            .collect()
    }
}

fn flat(path: &str) -> String {
    if path == "." {
        ROOT.to_owned()
    } else {
        path.replace('/', "")
    }
}

fn is_msync_of(next: &Op, mmap: &Op) -> bool {
    match (next, mmap) {
        (
            Op::Msync {
                target,
                offset,
                length,
            },
            Op::MmapWrite {
                target: written,
                offset: start,
                length: bytes,
            },
        ) => (target, offset, length) == (written, start, bytes),
        _ => false,
    }
}

fn falloc_flags(mode: FallocMode) -> &'static str {
    match mode {
        FallocMode::Allocate => "0",
        FallocMode::KeepSize => "FALLOC_FL_KEEP_SIZE",
        FallocMode::ZeroRange => "FALLOC_FL_ZERO_RANGE",
        FallocMode::ZeroRangeKeepSize => "FALLOC_FL_ZERO_RANGE|FALLOC_FL_KEEP_SIZE",
        FallocMode::PunchHole => "FALLOC_FL_PUNCH_HOLE|FALLOC_FL_KEEP_SIZE",
        FallocMode::CollapseRange => "FALLOC_FL_COLLAPSE_RANGE",
        FallocMode::InsertRange => "FALLOC_FL_INSERT_RANGE",
        FallocMode::UnshareRange => "FALLOC_FL_UNSHARE_RANGE",
    }
}

/// Why an operation that has a namesake there cannot be said.
fn reason(op: &Op) -> &'static str {
    match op {
        Op::Link { .. } | Op::Close { .. } | Op::Truncate { .. } => "it has no handles",
        Op::Rename { .. } => "its rename has no flags",
        Op::Mknod { .. } => "its device number is always 0",
        Op::Write { .. } => "its write has no O_SYNC or O_DSYNC",
        Op::DirectWrite { .. } => "its dwrite is one with O_SYNC",
        Op::SetXattr { .. } => "it sets user.xattr1 to val1 and nothing else",
        Op::RemoveXattr { .. } => "it removes user.xattr1 of a path and nothing else",
        Op::Msync { .. } => NEEDS_MSYNC,
        _ => NO_SUCH_OPERATION,
    }
}

fn no_words(op: &Op, reason: &'static str) -> NotExpressible {
    NotExpressible {
        operation: op.to_string(),
        reason,
    }
}
