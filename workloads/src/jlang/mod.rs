//! J-lang, the language in which ACE hands workloads to CrashMonkey (`ace.py`, `cmAdapter.py`).
//!
//! A file is one workload in sections (`# define`, `# declare`, `# setup`, `# run`). Paths are
//! defined with their slashes and used without (`A/foo` is `Afoo`); `test` is the root.
//! What CrashMonkey does for a line decides what we read it as:
//!
//! | J-lang | here |
//! |---|---|
//! | `open X O_RDWR\|O_CREAT 0777` | `creat` where X does not exist, else nothing: operations open what they need |
//! | `open X …\|O_TRUNC 0777` | `truncate X 0` where X exists |
//! | `open X` with other flags, `mknod` of what is no device | refused |
//! | `opendir X 0777`, `none` | nothing |
//! | `checkpoint N` | `!` |
//! | `fsetxattr X`, `removexattr X` | attribute `user.xattr1`, value `val1` |
//! | `dwrite X …` | `dwrite X … sync`: it is opened with `O_DIRECT\|O_SYNC` |
//! | `mmapwrite X …` | `mmapwrite X …; msync X …` of the same range |

mod print;
mod read;
mod tree;

pub use print::{NotExpressible, to_jlang};
pub use read::parse;

/// The attribute that `fsetxattr` sets and `removexattr` removes.
const XATTR_NAME: &str = "user.xattr1";
const XATTR_VALUE: &str = "val1";
/// What the root of the file system is called.
const ROOT: &str = "test";

/// The section that a line starts.
pub(crate) fn section_name(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('#')?.trim();
    ["define", "declare", "setup", "run"]
        .contains(&name)
        .then_some(name)
}
