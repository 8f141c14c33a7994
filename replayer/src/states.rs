//! From a block log to the disk's content after a crash.

use block_dev::{BlockLog, Image, Kind};
use pace_rules::disk::{Disk, Request, Selection, kept};

/// Makes `image` the disk's content for a crash at `position` of the log.
pub(crate) fn rebuild(
    image: &mut Image,
    log: &BlockLog,
    position: usize,
    durable_position: usize,
    selection: Selection,
    disk: Disk,
) {
    let requests: Vec<_> = log.entries()[..position].iter().map(|entry| request(entry.kind)).collect();
    image.reset();
    for place in kept(&requests, durable_position, selection, disk) {
        log.apply(place, image);
    }
}

fn request(kind: Kind) -> Request {
    match kind {
        Kind::Write { fua, .. } => Request::Write { fua },
        Kind::Discard { .. } => Request::Write { fua: false },
        Kind::Flush => Request::Flush,
        Kind::FuaFlush | Kind::Mark(_) => Request::Nothing,
    }
}
