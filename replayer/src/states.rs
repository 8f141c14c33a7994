//! From a block log to the disk's content after a crash.

use block_dev::{BlockLog, Image, Kind, Unordered};
use pace_rules::disk::{Log, Request, State, Write};

/// What matters of a block log for what a crash may leave of it.
pub(crate) fn requests(log: &BlockLog) -> Vec<Request> {
    log.entries().iter().enumerate().map(|(place, entry)| request(place, entry.kind)).collect()
}

fn request(place: usize, kind: Kind) -> Request {
    // The disk answers each request before it takes the next.
    let write = |fua, offset, length| Request::Write(Write { fua, offset, length, completed: place + 1, priority: 0 });
    match kind {
        Kind::Write { offset, length, fua } => write(fua, offset, length.into()),
        Kind::Discard { offset, length } => write(false, offset, length),
        Kind::Flush => Request::Flush,
        Kind::FuaFlush | Kind::Mark(_) => Request::Nothing,
    }
}

/// Makes `image` the disk's content in a crash state of `log`, of which `rules` is the reading.
pub(crate) fn rebuild(image: &mut Image, log: &BlockLog, rules: &Log, state: &State) {
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
