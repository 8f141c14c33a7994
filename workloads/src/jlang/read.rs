//! J-lang to a workload.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::tree::Tree;
use super::{ROOT, XATTR_NAME, XATTR_VALUE, section_name};
use crate::arguments::{A_SIZE, Arguments, expected, path};
use crate::draft::Draft;
use crate::error::{Fault, ParseError, Problem};
use crate::op::{DeviceKind, FallocMode, Op, RenameFlag, Target, Workload, WriteSync};
use crate::suggest::suggestion;
use crate::token::Word;

/// Every word that can start a line.
const STATEMENTS: [&str; 23] = [
    "open",
    "opendir",
    "mkdir",
    "mknod",
    "symlink",
    "link",
    "unlink",
    "remove",
    "rmdir",
    "rename",
    "close",
    "write",
    "dwrite",
    "mmapwrite",
    "truncate",
    "falloc",
    "fsetxattr",
    "removexattr",
    "fsync",
    "fdatasync",
    "sync",
    "checkpoint",
    "none",
];

/// What fallocate's flags are called, without `FALLOC_FL_`.
const FALLOC_FLAGS: [(&str, FallocMode); 10] = [
    ("0", FallocMode::Allocate),
    ("KEEP_SIZE", FallocMode::KeepSize),
    ("ZERO_RANGE", FallocMode::ZeroRange),
    ("ZERO_RANGE|KEEP_SIZE", FallocMode::ZeroRangeKeepSize),
    ("KEEP_SIZE|ZERO_RANGE", FallocMode::ZeroRangeKeepSize),
    ("PUNCH_HOLE|KEEP_SIZE", FallocMode::PunchHole),
    ("KEEP_SIZE|PUNCH_HOLE", FallocMode::PunchHole),
    ("COLLAPSE_RANGE", FallocMode::CollapseRange),
    ("INSERT_RANGE", FallocMode::InsertRange),
    ("UNSHARE_RANGE", FallocMode::UnshareRange),
];

/// The workload in a J-lang text, called as its file is.
///
/// # Errors
/// The first thing in the text that is not J-lang, with its place.
pub fn parse(text: &str, file_name: &str) -> Result<Workload, ParseError> {
    let name = Path::new(file_name)
        .file_name()
        .map_or(Cow::Borrowed(file_name), |name| name.to_string_lossy());
    let mut reader = Reader {
        draft: Draft::new(name.into_owned(), true),
        section: Section::None,
        paths: HashMap::new(),
        tree: Tree::default(),
    };
    for (index, line) in text.lines().enumerate() {
        reader
            .line(line)
            .map_err(|fault| fault.locate(file_name, index as u64 + 1, line))?;
    }
    Ok(reader.draft.finish())
}

/// What the lines of a section are.
#[derive(Clone, Copy)]
enum Section {
    None,
    Paths,
    Variables,
    Operations,
}

struct Reader {
    draft: Draft,
    section: Section,
    /// The paths by their names without slashes.
    paths: HashMap<String, String>,
    tree: Tree,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Fault> {
        let words = words(line);
        let Some(first) = words.first() else {
            return Ok(());
        };
        if let Some(name) = section_name(line) {
            return self
                .section(name)
                .map_err(|problem| Fault::new(first.offset, problem));
        }
        if first.text.starts_with('#') {
            return Ok(());
        }
        match self.section {
            Section::Paths => self.define(&words),
            Section::Variables => Ok(()),
            Section::Operations => self.operation(first, &words[1..]),
            Section::None => Err(expected(
                "a section ('# define', '# declare', '# setup' or '# run')",
                first,
            )),
        }
    }

    fn section(&mut self, name: &str) -> Result<(), Problem> {
        self.section = match name {
            "define" => Section::Paths,
            "declare" => Section::Variables,
            _ => Section::Operations,
        };
        match name {
            "setup" => self.draft.begin_setup(),
            "run" => self.draft.begin_run(),
            _ => Ok(()),
        }
    }

    fn define(&mut self, words: &[Word<'_>]) -> Result<(), Fault> {
        let word = &words[0];
        let path = if word.text == ROOT {
            ".".to_owned()
        } else {
            path(word)?
        };
        let flat = word.text.replace('/', "");
        match self.paths.insert(flat, path.clone()) {
            Some(other) if other != path => {
                let problem =
                    Problem::Malformed("another path has the same name without its slashes");
                Err(Fault::new(word.offset, problem))
            }
            _ => Ok(()),
        }
    }

    fn operation(&mut self, name: &Word<'_>, words: &[Word<'_>]) -> Result<(), Fault> {
        let mut handles = BTreeSet::new();
        let mut args = Arguments::new(name, words, &mut handles);
        let ops = self.ops(name, &mut args)?;
        args.finish()?;
        for op in ops.into_iter().flatten() {
            self.tree.apply(&op);
            if self.holds(&op) {
                self.draft
                    .op(op)
                    .map_err(|problem| Fault::new(name.offset, problem))?;
            }
        }
        Ok(())
    }

    /// Notes what `op` opens and closes. False for a `close` of what only `open` or `opendir`
    /// opened: those are no operations of ours, so there is nothing to close.
    fn holds(&mut self, op: &Op) -> bool {
        match op {
            Op::Close {
                target: Target::Path(path),
            } => return self.tree.close(path),
            Op::DirectWrite {
                target: Target::Path(path),
                ..
            } => {
                self.tree.close(path);
            }
            Op::Creat { path, .. } => {
                self.tree.open(path);
            }
            _ => {
                if let Some(Target::Path(path)) = op.target() {
                    self.tree.open(path);
                }
            }
        }
        true
    }

    /// The operations, two at most, that one line stands for.
    fn ops(
        &mut self,
        name: &Word<'_>,
        args: &mut Arguments<'_, '_>,
    ) -> Result<[Option<Op>; 2], Fault> {
        match &*name.text {
            "none" => return Ok([None, None]),
            "open" => return Ok([self.open(args)?, None]),
            "opendir" => {
                self.path(args)?;
                args.mode()?;
                return Ok([None, None]);
            }
            "checkpoint" => {
                args.number("what a checkpoint returns (0 or 1)", 1)?;
                self.draft
                    .crash_point()
                    .map_err(|problem| Fault::new(name.offset, problem))?;
                return Ok([None, None]);
            }
            "mmapwrite" => {
                let target = self.target(args)?;
                let (offset, length) = args.data_range()?;
                let msync = Op::Msync {
                    target: target.clone(),
                    offset,
                    length,
                };
                return Ok([
                    Some(Op::MmapWrite {
                        target,
                        offset,
                        length,
                    }),
                    Some(msync),
                ]);
            }
            _ => {}
        }
        Ok([Some(self.op(name, args)?), None])
    }

    /// The lines that stand for one operation.
    #[rustfmt::skip] // a table: one operation a line
    fn op(&self, name: &Word<'_>, args: &mut Arguments<'_, '_>) -> Result<Op, Fault> {
        Ok(match &*name.text {
            "mkdir" => Op::Mkdir { path: self.path(args)?, mode: args.mode()? },
            "mknod" => self.mknod(args)?,
            "symlink" => Op::Symlink { target: self.path(args)?, path: self.path(args)? },
            "link" => Op::Link { source: self.target(args)?, dest: self.path(args)? },
            "unlink" => Op::Unlink { path: self.path(args)? },
            "rmdir" => Op::Rmdir { path: self.path(args)? },
            "remove" => Op::Remove { path: self.path(args)? },
            "rename" => Op::Rename { source: self.path(args)?, dest: self.path(args)?, flag: RenameFlag::Replace },
            "close" => Op::Close { target: self.target(args)? },
            "write" => { let (target, (offset, length)) = (self.target(args)?, args.data_range()?); Op::Write { target, offset, length, sync: WriteSync::None } }
            "dwrite" => { let (target, (offset, length)) = (self.target(args)?, args.data_range()?); Op::DirectWrite { target, offset, length, sync: WriteSync::Sync } }
            "truncate" => Op::Truncate { target: self.target(args)?, size: args.bytes(A_SIZE)? },
            "falloc" => { let (target, mode, (offset, length)) = (self.target(args)?, falloc_mode(args)?, args.range()?); Op::Falloc { target, mode, offset, length } }
            "fsetxattr" => Op::SetXattr { target: self.target(args)?, name: XATTR_NAME.to_owned(), value: XATTR_VALUE.to_owned() },
            "removexattr" => Op::RemoveXattr { target: self.target(args)?, name: XATTR_NAME.to_owned() },
            "fsync" => Op::Fsync { target: self.target(args)? },
            "fdatasync" => Op::Fdatasync { target: self.target(args)? },
            "sync" => Op::Sync,
            _ => return Err(Fault::new(name.offset, Problem::UnknownOperation { word: name.text.to_string(), suggestion: suggestion(&name.text, &STATEMENTS) })),
        })
    }

    /// `open X FLAGS MODE` makes X, if it makes anything, or empties it.
    fn open(&mut self, args: &mut Arguments<'_, '_>) -> Result<Option<Op>, Fault> {
        const WHAT: &str = "flags of open(2) (O_RDWR, O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC)";
        const MODES: [&str; 3] = ["O_RDWR", "O_RDONLY", "O_WRONLY"];
        let path = self.path(args)?;
        let flags = args.word(WHAT)?;
        let (mut creates, mut empties) = (false, false);
        for flag in flags.text.split('|') {
            match flag {
                "O_CREAT" => creates = true,
                "O_TRUNC" => empties = true,
                flag if MODES.contains(&flag) => {}
                // What is written then would be something else.
                _ => return Err(expected(WHAT, flags)),
            }
        }
        let mode = args.mode()?;
        if !self.tree.exists(&path) {
            return Ok(creates.then_some(Op::Creat { path, mode }));
        }
        Ok(empties.then_some(Op::Truncate {
            target: Target::Path(path),
            size: 0,
        }))
    }

    fn mknod(&self, args: &mut Arguments<'_, '_>) -> Result<Op, Fault> {
        const WHAT: &str =
            "a mode of mknod(2) with S_IFCHR or S_IFBLK (such as TEST_FILE_PERMS|S_IFCHR)";
        let path = self.path(args)?;
        let mode = args.word(WHAT)?;
        let mut kinds = mode.text.split('|').filter(|flag| flag.starts_with("S_IF"));
        let has = |kind| mode.text.split('|').any(|flag| flag == kind);
        if !kinds.all(|kind| ["S_IFCHR", "S_IFBLK"].contains(&kind)) {
            return Err(expected(WHAT, mode));
        }
        // ACE writes S_IFCHR|S_IFBLK, whose bits are those of S_IFBLK.
        let kind = if has("S_IFBLK") {
            DeviceKind::Block
        } else if has("S_IFCHR") {
            DeviceKind::Char
        } else {
            return Err(expected(WHAT, mode));
        };
        args.number("the device number 0", 0)?;
        Ok(Op::Mknod {
            path,
            kind,
            major: 0,
            minor: 0,
        })
    }

    fn target(&self, args: &mut Arguments<'_, '_>) -> Result<Target, Fault> {
        self.path(args).map(Target::Path)
    }

    fn path(&self, args: &mut Arguments<'_, '_>) -> Result<String, Fault> {
        const WHAT: &str = "a path of the '# define' section (written without slashes)";
        let word = args.word(WHAT)?;
        self.paths
            .get(&*word.text)
            .cloned()
            .ok_or_else(|| expected(WHAT, word))
    }
}

fn falloc_mode(args: &mut Arguments<'_, '_>) -> Result<FallocMode, Fault> {
    const WHAT: &str = "0 or flags of fallocate (such as FALLOC_FL_KEEP_SIZE)";
    let word = args.word(WHAT)?;
    let flags = word.text.replace("FALLOC_FL_", "");
    let known = FALLOC_FLAGS.iter().find(|(name, _)| *name == flags);
    known
        .map(|(_, mode)| *mode)
        .ok_or_else(|| expected(WHAT, word))
}

/// The words of a line; there are no quotes in J-lang.
fn words(line: &str) -> Vec<Word<'_>> {
    line.split_ascii_whitespace()
        .map(|text| {
            let offset = text.as_ptr().addr() - line.as_ptr().addr();
            Word {
                text: Cow::Borrowed(text),
                offset,
                end: offset + text.len(),
                quoted: false,
            }
        })
        .collect()
}
