//! What the tests of several files need.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use block_dev::{Base, PAGE_SIZE};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

pub const SIZE_BYTES: u64 = 8 << 20;

/// Runs a test in a thread with a mount namespace of its own and an empty directory.
pub fn in_namespace(test: impl FnOnce(&Path) + Send + 'static) {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test needs root: run it with `make test`"
    );
    let run = move || {
        unshare(CloneFlags::CLONE_NEWNS).expect("unshare");
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            None::<&str>,
        )
        .expect("private");
        let directory = tempfile::tempdir().expect("a temporary directory");
        test(directory.path());
    };
    std::thread::spawn(run).join().expect("the test passes");
}

/// A base with some pages in it.
pub fn base(directory: &Path) -> Arc<Base> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(directory.join("base"))
        .expect("create");
    file.set_len(SIZE_BYTES).expect("size");
    for page in [0, 3, 4, 900, 2047] {
        file.write_all_at(
            &[(page % 250) as u8 + 1; PAGE_SIZE],
            page * PAGE_SIZE as u64,
        )
        .expect("write");
    }
    Arc::new(Base::from_file(&file).expect("read"))
}

/// A page that can be written with direct I/O.
#[repr(align(4096))]
pub struct AlignedPage(pub [u8; PAGE_SIZE]);

/// Opens a device for direct I/O.
pub fn open_direct(device: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(device)
        .expect("open")
}
