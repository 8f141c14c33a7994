//! From a block log to the disk's content after a crash.

#![forbid(unsafe_code)]

use block_dev::{BlockLog, Entry, Image, Kind, Unordered};
use pace_rules::disk::{Log, Request, State, Write};
use workloads::pattern;

/// The [`Write::priority`] of what a workload wrote to files; metadata has 0.
const DATA: u8 = 1;

/// What matters of a block log for what a crash may leave of it.
pub fn requests(log: &BlockLog) -> Vec<Request> {
    log.entries()
        .iter()
        .enumerate()
        .map(|(place, entry)| request(entry, log.data(place)))
        .collect()
}

fn request(entry: &Entry, data: &[u8]) -> Request {
    let completed = entry.completed;
    let priority = if pattern::begins(data) { DATA } else { 0 };
    let write = |fua, offset, length| {
        Request::Write(Write {
            fua,
            offset,
            length,
            completed,
            priority,
        })
    };
    match entry.kind {
        Kind::Write {
            offset,
            length,
            fua,
        } => write(fua, offset, length.into()),
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
pub fn rebuild_swapped(
    image: &mut Image,
    log: &BlockLog,
    rules: &Log,
    state: &State,
    swapped: &[Unordered],
) {
    image.reset();
    apply(image, log, rules, state, swapped);
}

/// What [`rebuild`] does, of a log that began when the disk held `before`, such as the log of a
/// recovery.
pub fn rebuild_after(
    image: &mut Image,
    before: &Image,
    log: &BlockLog,
    rules: &Log,
    state: &State,
) {
    image.clone_from(before);
    apply(image, log, rules, state, &[]);
}

/// Carries out on an image what a crash state has of a log, with writes swapped.
fn apply(image: &mut Image, log: &BlockLog, rules: &Log, state: &State, swapped: &[Unordered]) {
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
    use pace_rules::disk::{Disk, Relaxation, Space};

    use super::*;

    /// The first byte of each page that was written, in a crash at the end of a log.
    fn left(log: &BlockLog, relaxation: Relaxation) -> Vec<u8> {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(16 * PAGE_SIZE as u64).expect("sized");
        let mut image = Image::new(Arc::new(Base::from_file(&file).expect("read")));
        let rules = Log::new(&requests(log), 0, Disk::Honest);
        rebuild(
            &mut image,
            log,
            &rules,
            &State {
                position: log.len(),
                relaxation,
            },
        );
        image
            .written()
            .map(|number| image.page(number)[0])
            .collect()
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
        assert_eq!(
            left(
                &log,
                Relaxation::Torn {
                    lost: vec![],
                    place: 1,
                    from,
                    to
                }
            ),
            [1, 1, 2]
        );
        assert_eq!(
            left(
                &log,
                Relaxation::Torn {
                    lost: vec![0],
                    place: 1,
                    from,
                    to
                }
            ),
            [2]
        );
        assert_eq!(left(&log, Relaxation::Lost(vec![0])), [2, 2]);
    }

    /// A journal that is written before the data it speaks of, again and again.
    fn metadata_before_data() -> BlockLog {
        let mut log = BlockLog::default();
        for epoch in 0..3 {
            for block in 0..4 {
                let metadata = [b"XDB3".as_slice(), &[epoch; PAGE_SIZE - 4]].concat();
                log.push_write(block * PAGE_SIZE as u64, &metadata, 1);
            }
            log.push_write(
                (4 + u64::from(epoch)) * PAGE_SIZE as u64,
                &pattern::bytes(3, 0, PAGE_SIZE as u64),
                1,
            );
            log.push(Kind::Flush, 2);
        }
        log
    }

    /// The places of the single writes that a disk which heeds no flush is made to lose, in order.
    fn lost_in_order(requests: &[Request]) -> Vec<usize> {
        let rules = Log::new(requests, 0, Disk::DropFlush);
        let states = "reorder:1".parse().expect("states");
        let space = Space::new(&rules, &[rules.len()], &states, 0);
        let first = |state: State| rules.lost(&state)[0];
        space.iter().map(first).collect()
    }

    #[test]
    fn data_is_lost_before_metadata_and_the_last_first() {
        let log = metadata_before_data();
        let order = lost_in_order(&requests(&log));
        assert_eq!(order, [16, 12, 13, 14, 15, 10, 6, 7, 8, 9, 4, 0, 1, 2, 3]);
        assert_eq!(
            order,
            lost_in_order(&requests(&log)),
            "the same log has the same addresses"
        );
    }

    #[test]
    fn a_finding_that_needs_lost_data_is_met_earlier() {
        let log = metadata_before_data();
        // It is lost, and what speaks of it is there.
        let found_at = |requests: &[Request]| {
            lost_in_order(requests)
                .iter()
                .position(|place| *place == 16)
        };
        let mut alike = requests(&log);
        for request in &mut alike {
            if let Request::Write(write) = request {
                write.priority = 0;
            }
        }
        assert_eq!(
            (found_at(&requests(&log)), found_at(&alike)),
            (Some(0), Some(4))
        );
    }
}
