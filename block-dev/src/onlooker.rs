//! Who looks at what a disk is asked for.

use crate::DiskRequest;

/// Somebody who looks at the requests of a disk, and may have one of them wait: the disk answers no other
/// meanwhile.
pub trait Onlooker: Send + Sync {
    /// A request has come, at this time of the disk's clock, and nothing of it is done. Whether it waits now.
    fn comes(&self, request: DiskRequest, now_ns: u64) -> bool;

    /// The same request has been done, or has failed, and nobody knows yet. Whether it waits now.
    fn is_done(&self, request: DiskRequest, has_failed: bool) -> bool;

    /// Whether the one that waits is to wait longer.
    fn holds(&self) -> bool;
}
