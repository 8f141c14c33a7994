//! One operation: its name and what its arguments are.

use crate::arguments::{A_SIZE, AN_OFFSET, Arguments, expected};
use crate::error::{Fault, Problem};
use crate::op::{
    DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DeviceKind, FallocMode, Op, RenameFlag, Target,
    WriteSync,
};
use crate::suggest::suggestion;
use crate::token::Word;

/// Every word that can start a statement.
const STATEMENTS: [&str; 38] = [
    "creat",
    "mkdir",
    "mkfifo",
    "mknod",
    "symlink",
    "link",
    "unlink",
    "rmdir",
    "remove",
    "rename",
    "open",
    "tmpfile",
    "close",
    "write",
    "dwrite",
    "append",
    "mmapwrite",
    "truncate",
    "falloc",
    "setxattr",
    "removexattr",
    "chmod",
    "chown",
    "reflink",
    "drop_caches",
    "fsync",
    "fdatasync",
    "msync",
    "sync_file_range",
    "syncfs",
    "sync",
    "repeat",
    "workload",
    "source",
    "expect",
    "setup",
    "run",
    "!",
];

/// The words that fallocate's modes are written with.
pub(crate) const FALLOC_MODES: [(&str, FallocMode); 8] = [
    ("alloc", FallocMode::Allocate),
    ("keep_size", FallocMode::KeepSize),
    ("zero_range", FallocMode::ZeroRange),
    ("zero_range|keep_size", FallocMode::ZeroRangeKeepSize),
    ("punch_hole|keep_size", FallocMode::PunchHole),
    ("collapse_range", FallocMode::CollapseRange),
    ("insert_range", FallocMode::InsertRange),
    ("unshare_range", FallocMode::UnshareRange),
];

/// The kernel's dev_t: 12 bits of major, 20 bits of minor number.
const MAJOR_MAX: u32 = 0xfff;
const MINOR_MAX: u32 = 0xf_ffff;

/// Parses the arguments of the operation called `name`, all of them.
#[rustfmt::skip] // a table: one operation a line
pub(crate) fn operation(name: &Word<'_>, mut args: Arguments<'_, '_>) -> Result<Op, Fault> {
    let a = &mut args;
    let op = match name.keyword() {
        "creat" => Op::Creat { path: a.name()?, mode: a.mode_or(DEFAULT_FILE_MODE)? },
        "mkdir" => Op::Mkdir { path: a.name()?, mode: a.mode_or(DEFAULT_DIRECTORY_MODE)? },
        "mkfifo" => Op::Mkfifo { path: a.name()?, mode: a.mode_or(DEFAULT_FILE_MODE)? },
        "mknod" => mknod(a)?,
        "symlink" => Op::Symlink { target: a.link_text()?, path: a.name()? },
        "link" => Op::Link { source: a.target()?, dest: a.name()? },
        "unlink" => Op::Unlink { path: a.name()? },
        "rmdir" => Op::Rmdir { path: a.name()? },
        "remove" => Op::Remove { path: a.name()? },
        "rename" => Op::Rename { source: a.name()?, dest: a.name()?, flag: rename_flag(a)? },
        "open" => Op::Open { path: a.path()?, handle: a.new_handle()? },
        "tmpfile" => Op::Tmpfile { dir: a.path()?, handle: a.new_handle()?, mode: a.mode_or(DEFAULT_FILE_MODE)? },
        "close" => Op::Close { target: a.closed_target()? },
        "write" => { let (target, (offset, length)) = (a.target()?, a.data_range()?); Op::Write { target, offset, length, sync: write_sync(a)? } }
        "dwrite" => { let (target, (offset, length)) = (a.target()?, a.data_range()?); Op::DirectWrite { target, offset, length, sync: write_sync(a)? } }
        "append" => Op::Append { target: a.target()?, length: a.data_length()? },
        "mmapwrite" => { let (target, (offset, length)) = (a.target()?, a.data_range()?); Op::MmapWrite { target, offset, length } }
        "truncate" => Op::Truncate { target: a.target()?, size: a.bytes(A_SIZE)? },
        "falloc" => { let (target, mode, (offset, length)) = (a.target()?, falloc_mode(a)?, a.range()?); Op::Falloc { target, mode, offset, length } }
        "setxattr" => Op::SetXattr { target: a.target()?, name: a.xattr_name()?, value: a.xattr_value()? },
        "removexattr" => Op::RemoveXattr { target: a.target()?, name: a.xattr_name()? },
        "chmod" => Op::Chmod { target: a.target()?, mode: a.mode()? },
        "chown" => Op::Chown { target: a.target()?, uid: a.number("a user id", u32::MAX)?, gid: a.number("a group id", u32::MAX)? },
        "reflink" => reflink(a)?,
        "drop_caches" => Op::DropCaches { what: drop_what(a)? },
        "fsync" => Op::Fsync { target: a.target()? },
        "fdatasync" => Op::Fdatasync { target: a.target()? },
        "msync" => { let (target, (offset, length)) = (a.target()?, a.range()?); Op::Msync { target, offset, length } }
        "sync_file_range" => { let (target, (offset, length)) = (a.target()?, a.range()?); Op::SyncFileRange { target, offset, length } }
        "syncfs" => Op::Syncfs,
        "sync" => Op::Sync,
        _ => return Err(unknown(name)),
    };
    args.finish()?;
    Ok(op)
}

fn unknown(name: &Word<'_>) -> Fault {
    if name.quoted {
        return expected("an operation (without quotes)", name);
    }
    let suggestion = suggestion(&name.text, &STATEMENTS);
    Fault::new(
        name.offset,
        Problem::UnknownOperation {
            word: name.text.to_string(),
            suggestion,
        },
    )
}

fn mknod(args: &mut Arguments<'_, '_>) -> Result<Op, Fault> {
    let path = args.name()?;
    let Some(word) = args.optional() else {
        return Ok(Op::Mknod {
            path,
            kind: DeviceKind::Char,
            major: 0,
            minor: 0,
        });
    };
    let kind = match word.keyword() {
        "c" => DeviceKind::Char,
        "b" => DeviceKind::Block,
        _ => return Err(expected("'c' or 'b' (character or block device)", word)),
    };
    let major = args.number("a major device number", MAJOR_MAX)?;
    let minor = args.number("a minor device number", MINOR_MAX)?;
    Ok(Op::Mknod {
        path,
        kind,
        major,
        minor,
    })
}

fn rename_flag(args: &mut Arguments<'_, '_>) -> Result<RenameFlag, Fault> {
    let Some(word) = args.optional() else {
        return Ok(RenameFlag::Replace);
    };
    match word.keyword() {
        "noreplace" => Ok(RenameFlag::NoReplace),
        "exchange" => Ok(RenameFlag::Exchange),
        "whiteout" => Ok(RenameFlag::Whiteout),
        _ => Err(expected(
            "'noreplace', 'exchange', 'whiteout' or the end of the operation",
            word,
        )),
    }
}

fn write_sync(args: &mut Arguments<'_, '_>) -> Result<WriteSync, Fault> {
    let Some(word) = args.optional() else {
        return Ok(WriteSync::None);
    };
    match word.keyword() {
        "sync" => Ok(WriteSync::Sync),
        "dsync" => Ok(WriteSync::Dsync),
        _ => Err(expected(
            "'sync', 'dsync' or the end of the operation",
            word,
        )),
    }
}

fn falloc_mode(args: &mut Arguments<'_, '_>) -> Result<FallocMode, Fault> {
    const WHAT: &str = "a mode of fallocate (alloc, keep_size, zero_range, zero_range|keep_size, \
                        punch_hole|keep_size, collapse_range, insert_range or unshare_range)";
    let word = args.word(WHAT)?;
    let known = FALLOC_MODES
        .iter()
        .find(|(name, _)| *name == word.keyword());
    known
        .map(|(_, mode)| *mode)
        .ok_or_else(|| expected(WHAT, word))
}

fn reflink(args: &mut Arguments<'_, '_>) -> Result<Op, Fault> {
    let source = args.target()?;
    if args.remaining() <= 1 {
        let dest: Target = args.target()?;
        return Ok(Op::Reflink {
            source,
            source_offset: 0,
            length: 0,
            dest,
            dest_offset: 0,
        });
    }
    let (source_offset, length) = args.range()?;
    let dest = args.target()?;
    let dest_offset = args.bytes(AN_OFFSET)?;
    Ok(Op::Reflink {
        source,
        source_offset,
        length,
        dest,
        dest_offset,
    })
}

fn drop_what(args: &mut Arguments<'_, '_>) -> Result<u8, Fault> {
    const WHAT: &str = "1 (page cache), 2 (dentries and inodes) or 3 (both)";
    let word = args.word(WHAT)?;
    match word.keyword() {
        "1" => Ok(1),
        "2" => Ok(2),
        "3" => Ok(3),
        _ => Err(expected(WHAT, word)),
    }
}
