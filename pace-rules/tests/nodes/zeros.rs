//! Bytes that become zeros: what a file is cut off by, holes, and zeros in blocks that it keeps.

use pace_rules::nodes::{Log, MODELS};
use trace::{FileId, FileOp, SyncScope};

use super::support::{BAR, Byte, FOO, Script, Tree, content, has, size, told};

fn resize(from: u64, to: u64) -> FileOp {
    FileOp::Resize {
        file: FOO,
        from,
        to,
    }
}

fn hole(offset: u64, len: u64) -> FileOp {
    FileOp::Zero {
        file: FOO,
        offset,
        len,
    }
}

fn zeros_in_blocks(offset: u64, len: u64) -> FileOp {
    FileOp::ZeroBlocks {
        file: FOO,
        offset,
        len,
    }
}

fn is_zero(tree: &Tree, at: usize) -> bool {
    content(tree, "foo")[at] == Byte::Zero
}

/// Whether a byte of the file is as it was at the beginning.
fn is_old(tree: &Tree, at: usize) -> bool {
    content(tree, "foo")[at] == Byte::Written(at as u64)
}

/// Whether it was written since then.
fn is_new(tree: &Tree, at: usize) -> bool {
    !is_zero(tree, at) && !is_old(tree, at)
}

/// The models of file systems with a journal on which some state is there that has so many marks.
fn shown_on(script: &Script, marks: usize, is: impl Fn(&Tree) -> bool) -> Vec<&'static str> {
    let models = MODELS.iter().filter(|model| model.log == Log::Journal);
    let shown = models.filter(|model| told(script, model.name, 1, marks).iter().any(&is));
    shown.map(|model| model.name).collect()
}

/// What is cut off of a page is zeros once the page is written, and only ext4 with ordered data waits
/// for that. xfs writes it before a truncation makes the file longer.
#[test]
fn a_file_that_was_cut_off_within_a_page_shows_its_old_bytes_when_it_grows_again() {
    let shows =
        |tree: &Tree| has(tree, "bar") && size(tree, "foo") > Some(2000) && !is_zero(tree, 1500);
    for (by_truncation, models) in [
        (true, &["ext4-writeback"][..]),
        (false, &["ext4-writeback", "xfs"]),
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 3000)]);
        script.file(0, resize(3000, 1000));
        if by_truncation {
            script.file(0, resize(1000, 3000));
        } else {
            script.write(0, FOO, 8192, 100, 1000);
        }
        script.create(0, BAR, "bar").mark(0);
        assert_eq!(shown_on(&script, 1, shows), models, "{by_truncation}");
        // What is durable of the size is so of the zeros on xfs.
        script.sync(0, FileId::ROOT).mark(0);
        assert_eq!(shown_on(&script, 2, shows), models, "{by_truncation}");
    }
}

/// Of a hole, or of zeros, that lie past the end that the disk knows nothing is on the disk of xfs, and
/// the file is no larger for them. Program 158 of seed 8300012 showed it (`tests/tests/models.rs`).
#[test]
fn zeros_past_the_end_on_the_disk_make_no_file_larger_on_xfs() {
    let shows = |tree: &Tree| has(tree, "bar") && size(tree, "foo") == Some(100);
    for zeros in [hole(8192, 100), zeros_in_blocks(8192, 4096)] {
        let mut script = Script::new(1, &[(FOO, "foo", 100)]);
        script.write(0, FOO, 12288, 100, 100).file(0, zeros);
        script.create(0, BAR, "bar").sync(0, FileId::ROOT).mark(0);
        assert_eq!(shown_on(&script, 1, shows), ["xfs"]);
    }
}

/// btrfs leaves what was cut off on the disk, whatever is synced, until the page is written again: when
/// something else is written to it, or begins when the file grows.
#[test]
fn what_was_cut_off_and_synced_is_seen_again_where_the_file_grows_on_btrfs() {
    let grown = |write: bool| {
        let mut script = Script::new(1, &[(FOO, "foo", 3000)]);
        script.file(0, resize(3000, 1000)).sync(0, FOO);
        if write {
            script.write(0, FOO, 0, 10, 1000).sync(0, FOO);
        }
        script.file(0, resize(1000, 3000));
        script.create(0, BAR, "bar").mark(0);
        let is_seen = |tree: &Tree| has(tree, "bar") && is_old(tree, 1500);
        let models = MODELS.iter().filter(|model| model.log != Log::None);
        let shown = models.filter(|model| told(&script, model.name, 1, 1).iter().any(is_seen));
        shown.map(|model| model.name).collect::<Vec<_>>()
    };
    assert_eq!(grown(false), ["btrfs"]);
    assert!(grown(true).is_empty());
}

/// A page that has no place yet when it is cut off is written with its zeros.
#[test]
fn where_data_are_ordered_what_was_new_and_cut_off_is_not_seen() {
    let mut script = Script::new(1, &[(FOO, "foo", 0)]);
    script
        .write(0, FOO, 0, 3000, 0)
        .file(0, resize(3000, 1000))
        .file(0, resize(1000, 3000))
        .create(0, BAR, "bar")
        .mark(0);
    let shows =
        |tree: &Tree| has(tree, "bar") && size(tree, "foo") > Some(2000) && !is_zero(tree, 1500);
    let shown = shown_on(&script, 1, shows);
    assert!(!shown.contains(&"ext4-ordered"), "{shown:?}");
}

/// The pages of a hole go with the names. What it has of other pages goes as bytes do.
#[test]
fn where_a_hole_begins_within_a_page_the_old_bytes_may_be() {
    for (offset, len) in [(1000, 1000), (1000, 9000), (0, 1000)] {
        let mut script = Script::new(1, &[(FOO, "foo", 12288)]);
        script
            .file(0, hole(offset, len))
            .create(0, BAR, "bar")
            .mark(0);
        script.sync(0, FileId::ROOT).mark(0);
        let (edge, inside) = (offset as usize, 5000);
        let has_hole = offset + len > inside as u64;
        let has_edge = |tree: &Tree| has(tree, "bar") && is_old(tree, edge);
        let has_both = |tree: &Tree| has_edge(tree) && is_zero(tree, inside);
        let in_place = ["ext4-writeback", "xfs"];
        assert_eq!(shown_on(&script, 2, has_edge), in_place, "{offset} {len}");
        let both: &[&str] = if has_hole { &in_place } else { &[] };
        assert_eq!(shown_on(&script, 2, has_both), both, "{offset} {len}");
        script.sync(0, FOO).mark(0);
        assert!(shown_on(&script, 3, has_edge).is_empty(), "{offset} {len}");
    }
}

/// The zeros in a page that has its place can be on the disk before the hole is. That is tried while
/// the hole is made.
#[test]
fn zeros_at_the_edge_of_a_hole_can_be_there_without_the_hole() {
    let mut script = Script::new(1, &[(FOO, "foo", 12288)]);
    script.file(0, hole(1000, 9000)).mark(0);
    let is_edge = |tree: &Tree| is_zero(tree, 1000) && is_old(tree, 5000) && is_old(tree, 9000);
    let in_place = ["ext4-ordered", "ext4-writeback", "xfs"];
    assert_eq!(shown_on(&script, 0, is_edge), in_place);
}

/// ext4 takes a hole that reaches past the end of the file for one up to the end of the last page.
/// xfs zeroes what the file has of that page.
#[test]
fn a_hole_past_the_end_has_the_last_page_on_ext4() {
    for (len, models) in [
        (904, &["ext4-ordered", "ext4-writeback", "xfs"][..]),
        (2000, &["xfs"]),
        (4096, &[]),
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 5000)]);
        script.create(0, BAR, "bar").file(0, hole(4096, len));
        script.mark(0);
        let without_names = |tree: &Tree| !has(tree, "bar") && is_zero(tree, 4500);
        assert_eq!(shown_on(&script, 1, without_names), models, "{len}");
    }
}

/// A zeroed range of ext4 keeps its blocks. Until the disk knows that they are zeros, it takes what
/// was written to them since then for the old page. A hole has none.
#[test]
fn what_is_written_to_zeroed_blocks_may_be_there_without_the_zeros() {
    for (op, models) in [
        (
            zeros_in_blocks as fn(u64, u64) -> FileOp,
            &["ext4-ordered", "ext4-writeback"][..],
        ),
        (hole, &[]),
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 12288)]);
        script.file(0, op(4096, 8192));
        script.write(0, FOO, 4096, 100, 12288).mark(0);
        let is_early =
            |tree: &Tree| is_new(tree, 4096) && is_zero(tree, 4200) && is_old(tree, 9000);
        assert_eq!(shown_on(&script, 1, is_early), models);
        // With the zeros it waits for the names that came before it.
        let mut script = Script::new(1, &[(FOO, "foo", 12288)]);
        script.file(0, op(4096, 8192)).create(0, BAR, "bar");
        script.write(0, FOO, 4096, 100, 12288).mark(0);
        let before_names =
            |tree: &Tree| !has(tree, "bar") && is_zero(tree, 9000) && is_new(tree, 4096);
        assert!(shown_on(&script, 1, before_names).is_empty());
    }
}

/// The sync of a range gives its blocks their place as well. What is written to them then is there
/// without the zeros, which come after a name that is lost.
#[test]
fn blocks_of_a_range_that_was_synced_have_their_new_bytes_without_the_zeros() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    script.write(0, FOO, 4096, 904, 4096);
    let scope = SyncScope::Range {
        offset: 0,
        len: 5000,
    };
    script.file(0, FileOp::Sync { file: FOO, scope });
    script.create(0, BAR, "bar");
    script.file(0, zeros_in_blocks(2269, 12288));
    script.write(0, FOO, 4096, 100, 5000).mark(0);
    let is_early = |tree: &Tree| !has(tree, "bar") && is_new(tree, 4096) && is_zero(tree, 4200);
    let ext4 = ["ext4-ordered", "ext4-writeback"];
    assert_eq!(shown_on(&script, 1, is_early), ext4);
}

/// Two writes to a page that was zeroed: what is there of the second has the first.
#[test]
fn a_page_in_zeroed_blocks_is_seen_as_it_was_written() {
    let mut script = Script::new(1, &[(FOO, "foo", 12288)]);
    script.file(0, zeros_in_blocks(4096, 8192));
    script.write(0, FOO, 4096, 100, 12288);
    script.write(0, FOO, 5096, 100, 12288).mark(0);
    let is_early = |tree: &Tree| is_old(tree, 9000);
    let both = |tree: &Tree| is_early(tree) && is_new(tree, 4096) && is_new(tree, 5096);
    let second = |tree: &Tree| is_early(tree) && !is_new(tree, 4096) && is_new(tree, 5096);
    let ext4 = ["ext4-ordered", "ext4-writeback"];
    assert_eq!(shown_on(&script, 1, both), ext4);
    assert!(shown_on(&script, 1, second).is_empty());
    // Once the zeros are durable nothing is written under them.
    script.sync(0, FOO);
    script.write(0, FOO, 4096, 100, 12288).mark(0);
    assert!(shown_on(&script, 2, is_early).is_empty());
}

/// So many pages are noted as one. What is written to them later is not there without the hole, and
/// nothing is there of what came before it once that is durable.
#[test]
fn what_is_written_to_a_large_hole_is_not_there_without_it() {
    let (pages, written) = (100, 50 * 4096);
    let size = pages * 4096;
    let mut script = Script::new(1, &[(FOO, "foo", size)]);
    script.write(0, FOO, written, 100, size);
    script.file(0, hole(0, size)).create(0, BAR, "bar");
    script.write(0, FOO, written + 200, 100, size).mark(0);
    let (first, second) = (written as usize, written as usize + 200);
    let is_later = |tree: &Tree| has(tree, "foo") && is_new(tree, second);
    assert_eq!(shown_on(&script, 1, is_later).len(), 3);
    let without_hole = |tree: &Tree| {
        let is_left = |at: usize| !is_zero(tree, at);
        is_later(tree) && (is_left(0) || is_left(first) || is_left(first + 4096))
    };
    assert!(shown_on(&script, 1, without_hole).is_empty());
    let scope = SyncScope::Range {
        offset: written,
        len: 4096,
    };
    script.file(0, FileOp::Sync { file: FOO, scope }).mark(0);
    let is_left = |tree: &Tree| !is_zero(tree, first) || !is_zero(tree, 0);
    assert!(shown_on(&script, 2, is_left).is_empty());
}
