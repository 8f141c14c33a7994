//! From a block log to the disk's content after a crash.

use block_dev::{BlockLog, Entry, Image, Kind, Unordered};
use pace_rules::disk::{Log, Request, State, Write};

/// What matters of a block log for what a crash may leave of it.
pub fn requests(log: &BlockLog) -> Vec<Request> {
    log.entries().iter().map(request).collect()
}

fn request(entry: &Entry) -> Request {
    let completed = entry.completed;
    let write = |fua, offset, length| Request::Write(Write { fua, offset, length, completed, priority: 0 });
    match entry.kind {
        Kind::Write { offset, length, fua } => write(fua, offset, length.into()),
        Kind::Discard { offset, length } => write(false, offset, length),
        Kind::Flush => Request::Flush,
        Kind::FuaFlush | Kind::Mark(_) => Request::Nothing,
    }
}

/// Makes `image` the disk's content in a crash state of `log`, of which `rules` is the reading.
pub fn rebuild(image: &mut Image, log: &BlockLog, rules: &Log, state: &State) {
    rebuild_swapped(image, log, rules, state, &[]);
}

/// The same, with each of these writes before the one with FUA that stands before it.
pub(crate) fn rebuild_swapped(image: &mut Image, log: &BlockLog, rules: &Log, state: &State, swapped: &[Unordered]) {
    image.reset();
    for piece in rules.pieces(state) {
        let place = piece.place;
        log.apply_part(place, piece.bytes, image);
        for pair in swapped.iter().filter(|pair| pair.place == place) {
            let start = pair.offset - log.entries()[pair.fua_place].range().0;
            log.apply_part(pair.fua_place, start..start + pair.length, image);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use block_dev::{Base, PAGE_SIZE};
    use pace_rules::disk::{Disk, Relaxation};

    use super::*;

    /// The first byte of each page that was written, in a crash at the end of a log.
    fn left(log: &BlockLog, relaxation: Relaxation) -> Vec<u8> {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(16 * PAGE_SIZE as u64).expect("sized");
        let mut image = Image::new(Arc::new(Base::from_file(&file).expect("read")));
        let rules = Log::new(&requests(log), 0, Disk::Honest);
        rebuild(&mut image, log, &rules, &State { position: log.len(), relaxation });
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
        assert_eq!(left(&log, Relaxation::Prefix), [1, 2]);
        assert_eq!(left(&log, Relaxation::Flushed), [1]);
        log.push(Kind::Flush, 4);
        assert_eq!(left(&log, Relaxation::Flushed), [1, 2]);
    }

    #[test]
    fn a_torn_write_leaves_the_rest_of_it() {
        let mut log = BlockLog::default();
        log.push_write(0, &[1; 2 * PAGE_SIZE], 1);
        log.push_write(4 * PAGE_SIZE as u64, &[2; 2 * PAGE_SIZE], 2);
        let (from, to) = (0, PAGE_SIZE as u64);
        assert_eq!(left(&log, Relaxation::Torn { place: 1, from, to }), [1, 1, 2]);
        assert_eq!(left(&log, Relaxation::Lost(vec![0])), [2, 2]);
    }
}
