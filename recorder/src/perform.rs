//! A workload on a file system that somebody else mounted, on a disk that somebody else records.

use std::io;
use std::os::fd::OwnedFd;

use block_dev::OperationMark;
use rustix::io::fcntl_dupfd_cloexec;
use workloads::{Op, Workload};

use crate::execute::Executor;

/// Runs a workload below `root`, a directory, and calls `mark` before and after each operation,
/// and when the setup is durable. What the file system refuses is in the marks.
///
/// # Errors
/// If the setup cannot be made durable, or `mark` fails.
pub fn perform(
    root: &OwnedFd,
    workload: &Workload,
    mark: &mut dyn FnMut(OperationMark) -> io::Result<()>,
) -> io::Result<()> {
    // Files get the modes that the workload says.
    rustix::process::umask(rustix::fs::Mode::empty());
    let mut executor = Executor::new(fcntl_dupfd_cloexec(root, 0)?);
    for (number, op) in workload.operations().enumerate() {
        if number == workload.setup.len() && number > 0 {
            end_setup(root, mark)?;
        }
        one(&mut executor, number, op, mark)?;
    }
    if workload.run.is_empty() && !workload.setup.is_empty() {
        end_setup(root, mark)?;
    }
    Ok(())
}

fn end_setup(
    root: &OwnedFd,
    mark: &mut dyn FnMut(OperationMark) -> io::Result<()>,
) -> io::Result<()> {
    rustix::fs::syncfs(root)?;
    mark(OperationMark::SetupEnd)
}

fn one(
    executor: &mut Executor,
    number: usize,
    op: &Op,
    mark: &mut dyn FnMut(OperationMark) -> io::Result<()>,
) -> io::Result<()> {
    let place = number as u32;
    mark(OperationMark::Start(place))?;
    mark(match executor.run(number, op) {
        Ok(()) => OperationMark::End(place),
        Err(errno) => OperationMark::Refused(place, errno.raw_os_error()),
    })
}
