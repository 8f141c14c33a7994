//! What the end-to-end tests have in common. They mount file systems, so they need root, and
//! fail without it.

#![forbid(unsafe_code)]

mod folder;
mod laboratory;
mod ordinary;
mod page;
pub mod pages;
mod programs;
mod random;
mod running;
pub mod simulated;
mod traces_of_us;

pub use folder::Folder;
pub use laboratory::{Laboratory, in_own_namespace};
pub use ordinary::Ordinary;
pub use page::page_told;
pub use programs::{
    Report, app, app_in_text, by_id, copy_to_run, crashpoint, elects_cluster, etcd_13766,
    findings_and_summary, link_to_run, objects, printed, program, replay, replay_with, said,
    search_path, store_cluster, store_of_two, words,
};
pub use random::Random;
pub use running::{Running, wait_until};
pub use traces_of_us::{Family, drivers, leftovers, settle};

/// The file systems that are tested.
pub const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// The release of the kernel of which tests know what it gets wrong.
const KNOWN_RELEASE: &str = "6.18.44";

/// Whether this is that kernel. A later one may have mended some of it.
///
/// # Panics
/// If there is no /proc.
pub fn is_known_kernel() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("there is /proc");
    release.starts_with(KNOWN_RELEASE)
}

/// Fails the test where it cannot do its work, rather than to pass without having done it.
///
/// # Panics
/// If this is not root.
pub fn require_root() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "this test mounts file systems: run `make test`, or cargo test as root"
    );
}
