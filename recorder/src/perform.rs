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
        one(&mut executor, number, op, mark)?;
        // Whatever follows: the run may have crash points only.
        if number + 1 == workload.setup.len() {
            end_setup(root, mark)?;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks of a workload, each in a letter: an operation Starts, Ends, is Refused, and the setup
    /// is durable.
    fn marks(text: &str) -> String {
        // Of memory: to sync the directory of temporary files may take long.
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let root = std::fs::File::open(directory.path()).expect("open");
        let mut marks = String::new();
        let mut mark = |mark: OperationMark| {
            marks.push(match mark {
                OperationMark::Start(_) => 's',
                OperationMark::End(_) => 'e',
                OperationMark::Refused(..) => 'r',
                OperationMark::SetupEnd => '|',
            });
            Ok(())
        };
        let workload = workloads::parse(text, "test")
            .expect("a workload")
            .remove(0);
        perform(&root.into(), &workload, &mut mark).expect("performed");
        marks
    }

    #[test]
    fn a_setup_ends_with_its_mark_whatever_follows() {
        for (text, expected) in [
            ("creat foo; fsync foo", "sese"),
            ("setup; creat foo; run; fsync foo; creat bar", "se|sese"),
            ("setup; creat foo; run; !", "se|"),
            ("setup; creat foo; run; !; unlink bar; !", "se|sr"),
        ] {
            assert_eq!(marks(text), expected, "{text}");
        }
    }
}
