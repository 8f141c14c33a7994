//! The languages that workloads come in.

use crate::error::ParseError;
use crate::jlang;
use crate::op::Workload;

/// A language in which workloads are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Ours: `docs/workloads.md`.
    Workload,
    /// CrashMonkey's, one workload a file: [`crate::jlang`].
    Jlang,
}

impl Format {
    /// Which language `text` is in: J-lang has `# define` and `# run` on lines of their own.
    pub fn of(text: &str) -> Format {
        let has = |section| {
            text.lines()
                .any(|line| jlang::section_name(line) == Some(section))
        };
        if has("define") && has("run") {
            Format::Jlang
        } else {
            Format::Workload
        }
    }
}

/// The workloads of a text in whichever language it is.
///
/// # Errors
/// The first thing in the text that is not of its language, with its place.
pub fn parse_any(text: &str, file_name: &str) -> Result<Vec<Workload>, ParseError> {
    match Format::of(text) {
        Format::Workload => crate::parse(text, file_name),
        Format::Jlang => Ok(vec![jlang::parse(text, file_name)?]),
    }
}
