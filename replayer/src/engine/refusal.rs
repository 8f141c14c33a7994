//! What of a workload was not done, or not as it is written, and why.

use local_fs::{FileSystem, Lack, Tree, Variant};
use recorder::Outcome;
use workloads::{FallocMode, Op, RenameFlag, Workload};

/// An operation that the file system refused.
pub(super) struct Refused<'a> {
    /// Which one it is.
    pub(super) number: usize,
    op: &'a Op,
    errno: i32,
    /// What that means.
    pub(super) refusal: Refusal,
}

/// Why what was run is not what was written.
pub(super) enum Refusal {
    /// The file system has no such thing.
    NotApplicable(String),
    /// It should have been done.
    Unexpected(String),
}

/// The operations that the file system refused, in their order.
pub(super) fn refusals<'a>(
    variant: &'a Variant,
    workload: &'a Workload,
    outcomes: &'a [Outcome],
) -> impl Iterator<Item = Refused<'a>> + 'a {
    workload
        .operations()
        .zip(outcomes)
        .enumerate()
        .filter_map(|(number, (op, outcome))| match outcome {
            Outcome::Done => None,
            Outcome::Refused(errno) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                let why = format!("operation {number}, {op}, was refused: {reason}");
                let lacking = *errno == libc::EOPNOTSUPP || is_lacking(variant.file_system, op);
                let refusal = if lacking {
                    Refusal::NotApplicable(why)
                } else {
                    Refusal::Unexpected(why)
                };
                Some(Refused {
                    number,
                    op,
                    errno: *errno,
                    refusal,
                })
            }
        })
}

/// Whether some of an operation may have been done that was refused: it is done in pieces, and its files could
/// be opened.
pub(super) fn may_be_begun(refused: &Refused<'_>) -> bool {
    let is_done_in_pieces = matches!(
        refused.op,
        Op::Write { .. }
            | Op::Append { .. }
            | Op::DirectWrite { .. }
            | Op::MmapWrite { .. }
            | Op::Truncate { .. }
            | Op::Falloc { .. }
            | Op::Reflink { .. }
    );
    is_done_in_pieces && !NOT_OPENED.contains(&refused.errno)
}

/// What says that a file could not be opened, or not for this. Whatever changes data opens its files first.
const NOT_OPENED: [i32; 4] = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP, libc::EBADF];

/// Whether a file system has no place for what an operation does, or no way to do it.
fn is_lacking(file_system: &FileSystem, op: &Op) -> bool {
    let lack = match op {
        Op::Link { .. } => Lack::HardLinks,
        Op::Symlink { .. } => Lack::Symlinks,
        Op::Mkfifo { .. } | Op::Mknod { .. } => Lack::SpecialFiles,
        Op::SetXattr { .. } | Op::RemoveXattr { .. } => Lack::Xattrs,
        Op::Chmod { .. } => Lack::Modes,
        Op::Chown { .. } => Lack::Owners,
        Op::Falloc {
            mode: FallocMode::ZeroRange | FallocMode::ZeroRangeKeepSize,
            ..
        } if file_system.lacks.contains(&Lack::ZeroRange) => Lack::ZeroRange,
        Op::Falloc { .. } => Lack::Preallocation,
        Op::Rename {
            flag: RenameFlag::Exchange | RenameFlag::Whiteout,
            ..
        } => Lack::RenameFlags,
        Op::Rename {
            flag: RenameFlag::NoReplace,
            ..
        } => Lack::RenameNoReplace,
        Op::Tmpfile { .. } => Lack::Tmpfiles,
        Op::DirectWrite { .. } => Lack::DirectIo,
        _ => return false,
    };
    file_system.lacks.contains(&lack)
}

/// A name under which a driver keeps a file that was removed while open.
pub(super) fn kept_after_removal<'a>(file_system: &FileSystem, live: &'a Tree) -> Option<&'a str> {
    let starts = file_system.driver?.removed_starts;
    let mut names = live
        .inodes
        .keys()
        .flat_map(|number| live.entries(*number).map(|(name, _)| name));
    names.find(|name| starts.iter().any(|start| name.starts_with(start)))
}
