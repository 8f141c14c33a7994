//! Writes the wanted workloads as text, J-lang or JSON.

use std::io::{self, Write};

use workloads::jlang::{NotExpressible, to_jlang};
use workloads::{Op, Step, Workload, WriteSync};

use crate::generator::{Generator, Walker};
use crate::names::named;
use crate::select::Indices;

named! {
    /// How workloads are written.
    pub enum Format ("format") {
        /// The workload language, one workload a line.
        Text = "text",
        /// ACE's J-lang; each file follows a line `# workload NAME`.
        Jlang = "jlang",
        /// One JSON object a line.
        Json = "json",
    }
}

/// Why workloads could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The output refused it.
    #[error("failed to write the workloads: {0}")]
    Write(#[from] io::Error),
    /// JSON could not be made or written.
    #[error("failed to write the workloads as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// An operation of ours that ACE does not have.
    #[error("failed to write {workload} as J-lang: {reason}")]
    Jlang {
        /// The name of the workload.
        workload: String,
        /// What cannot be said.
        reason: NotExpressible,
    },
}

impl OutputError {
    /// Whether the reader has gone, which is its right.
    pub fn is_closed_pipe(&self) -> bool {
        let kind = match self {
            OutputError::Write(error) => Some(error.kind()),
            OutputError::Json(error) => error.io_error_kind(),
            OutputError::Jlang { .. } => None,
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    }
}

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// Writes the workloads with these numbers to `out`, which needs no buffer.
///
/// # Errors
/// If `out` does, or a workload cannot be said in the format.
pub fn write(
    generator: &Generator,
    indices: &mut Indices<'_>,
    format: Format,
    out: &mut impl Write,
) -> Result<(), OutputError> {
    let mut walk = generator.walk();
    let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
    for index in indices {
        append(&mut walk, index, format, &mut buffer)?;
        if buffer.len() >= BUFFER_BYTES {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    out.write_all(&buffer)?;
    out.flush()?;
    Ok(())
}

fn append(
    walk: &mut Walker<'_>,
    index: u64,
    format: Format,
    buffer: &mut Vec<u8>,
) -> Result<(), OutputError> {
    match format {
        Format::Text => walk.write_text(index, buffer),
        Format::Json => {
            serde_json::to_writer(&mut *buffer, &walk.workload(index))?;
            buffer.push(b'\n');
        }
        Format::Jlang => append_jlang(walk.workload(index), buffer)?,
    }
    Ok(())
}

fn append_jlang(workload: Workload, buffer: &mut Vec<u8>) -> Result<(), OutputError> {
    let name = workload.name.clone();
    let text = to_jlang(&as_ace(workload)).map_err(|reason| OutputError::Jlang {
        workload: name.clone(),
        reason,
    })?;
    writeln!(buffer, "# workload {name}\n{text}")?;
    Ok(())
}

/// CrashMonkey's direct write is synchronous as well, and ACE puts no checkpoint after it.
fn as_ace(mut workload: Workload) -> Workload {
    let mut steps = Vec::with_capacity(2 * workload.run.len());
    for mut step in workload.run {
        let persists = matches!(&step, Step::Op(op) if op.is_persistence());
        if let Step::Op(Op::DirectWrite { sync, .. }) = &mut step {
            *sync = WriteSync::Sync;
        }
        steps.push(step);
        if persists {
            steps.push(Step::CrashPoint);
        }
    }
    workload.run = steps;
    workload
}
