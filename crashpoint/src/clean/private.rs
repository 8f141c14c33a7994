//! What the kernel shows in file systems that may not be mounted: tracefs and fusectl. They are
//! mounted where nobody else sees it.

use std::io;
use std::path::Path;

use local_fs::{Scratch, enter_mount_namespace};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::mark::Mark;

/// Trace instances that carry our mark.
pub(super) fn trace_instances() -> io::Result<Vec<Mark>> {
    let listed = with_mounted("tracefs", |root| {
        let entries = std::fs::read_dir(root.join("instances"))?;
        Ok(entries
            .flatten()
            .filter_map(|entry| Mark::of_name(entry.file_name().to_str()?))
            .collect())
    });
    match listed {
        // A kernel without tracefs has no instances.
        Err(error) if error.raw_os_error() == Some(Errno::ENODEV as i32) => Ok(Vec::new()),
        other => other,
    }
}

/// Removes a trace instance; one that is read from is busy.
pub(super) fn remove_trace_instance(name: &str) -> io::Result<()> {
    with_mounted("tracefs", |root| {
        let removed = std::fs::remove_dir(root.join("instances").join(name));
        removed.map_err(|error| match error.raw_os_error() {
            // Another one who cleans was faster, and its name is about to go.
            Some(code) if code == Errno::ENODEV as i32 => io::ErrorKind::NotFound.into(),
            _ => error,
        })
    })
}

/// Ends a FUSE connection (Documentation/filesystems/fuse.rst): whoever waits for it gets an error.
pub(super) fn abort_connection(number: u32) -> io::Result<()> {
    with_mounted("fusectl", |root| {
        std::fs::write(root.join(number.to_string()).join("abort"), "1")
    })
}

/// Does `work` with a file system of the kernel, in a thread with a mount namespace of its own.
fn with_mounted<T: Send>(
    name: &str,
    work: impl FnOnce(&Path) -> io::Result<T> + Send,
) -> io::Result<T> {
    let in_private = || -> io::Result<T> {
        enter_mount_namespace().map_err(io::Error::other)?;
        let scratch = Scratch::new().map_err(io::Error::other)?;
        let root = scratch.directory(name).map_err(io::Error::other)?;
        mount(
            Some(block_dev::NAME_MARK),
            &root,
            Some(name),
            MsFlags::empty(),
            None::<&str>,
        )?;
        work(&root)
    };
    std::thread::scope(|scope| scope.spawn(in_private).join().expect("it does not panic"))
}
