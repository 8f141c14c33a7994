//! From a block log to the disk's content after a crash.

use block_dev::{BlockLog, Entry, Image, Kind};
use pace_rules::disk::log::{Request, Write};
use pace_rules::disk::{Disk, Log, Relaxation, Selection, State};

/// Makes `image` the disk's content for a crash at `position` of the log.
pub(crate) fn rebuild(
    image: &mut Image,
    log: &BlockLog,
    position: usize,
    durable_position: usize,
    selection: Selection,
    disk: Disk,
) {
    let requests: Vec<_> = log.entries()[..position].iter().map(request).collect();
    let relaxation = match selection {
        Selection::Prefix => Relaxation::Prefix,
        Selection::Flushed => Relaxation::Flushed,
    };
    image.reset();
    // Either has a write as a whole or not at all.
    for piece in Log::new(&requests, durable_position, disk).pieces(&State { position, relaxation }) {
        log.apply(piece.place, image);
    }
}

fn request(entry: &Entry) -> Request {
    let completed = entry.completed;
    let write = |fua, offset, length| Request::Write(Write { fua, offset, length, completed, priority: 0 });
    match entry.kind {
        Kind::Write { fua, offset, length } => write(fua, offset, u64::from(length)),
        Kind::Discard { offset, length } => write(false, offset, length),
        Kind::Flush => Request::Flush,
        Kind::FuaFlush | Kind::Mark(_) => Request::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use block_dev::{Base, PAGE_SIZE};

    use super::*;

    /// The pages, by what was written to them, that a crash at the end of a log leaves.
    fn left(log: &BlockLog, selection: Selection) -> Vec<u8> {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(16 * PAGE_SIZE as u64).expect("sized");
        let mut image = Image::new(Arc::new(Base::from_file(&file).expect("read")));
        rebuild(&mut image, log, log.len(), 0, selection, Disk::Honest);
        image.written().map(|number| image.page(number)[0]).collect()
    }

    #[test]
    fn a_write_that_was_under_way_when_the_flush_was_sent_may_be_lost() {
        let page = |byte: u8| [byte; PAGE_SIZE];
        let mut log = BlockLog::default();
        log.push_write(0, &page(1), 1);
        let held = log.push_held_write(PAGE_SIZE as u64, &page(2), 2);
        log.push(Kind::Flush, 3);
        log.complete(held);
        assert_eq!(left(&log, Selection::Prefix), [1, 2]);
        assert_eq!(left(&log, Selection::Flushed), [1]);
        log.push(Kind::Flush, 4);
        assert_eq!(left(&log, Selection::Flushed), [1, 2]);
    }
}
