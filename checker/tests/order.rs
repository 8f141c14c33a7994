//! What is promised of the order of data and metadata where nothing was made durable: both sides of
//! the edge of each promise.

mod support;

use checker::Promise;
use support::{ALL, crash};

/// Those whose size on disk follows the data.
const SIZE_FOLLOWS: [&str; 1] = ["xfs"];
const SIZE_MAY_LEAD: [&str; 2] = ["ext4", "btrfs"];

#[test]
fn a_file_that_has_grown_has_what_made_it_grow() {
    let text = "creat foo; write foo 0 4K | write foo 4K 8K";
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").zero(4096, 12288))
        .breaks(&[Promise::DataWithSize]);
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").zero(8192, 12288))
        .breaks(&[Promise::DataWithSize]);
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").truncate(8192))
        .legal();
    // Parts before the end may be written later: somebody may have had the end written first.
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").zero(4096, 8192))
        .legal();
    crash(SIZE_FOLLOWS, text).lose("write foo 4K 8K").legal();
    crash(SIZE_FOLLOWS, text).legal();
    // What grew later by something else, or in another place, says nothing of this.
    for text in [
        "creat foo; write foo 0 4K; truncate foo 8K",
        "creat foo; write foo 0 4K; write foo 8K 4K",
    ] {
        crash(SIZE_FOLLOWS, text)
            .edit(|toy| toy.node("foo").zero(0, 4096))
            .legal();
    }
    crash(SIZE_FOLLOWS, "creat foo; write foo 0 4K; write foo 8K 4K")
        .edit(|toy| toy.node("foo").zero(8192, 12288))
        .breaks(&[Promise::DataWithSize]);
    crash(SIZE_MAY_LEAD, text)
        .edit(|toy| toy.node("foo").zero(4096, 12288))
        .legal();
}

/// The file is made longer first, by a call of its own, and then its memory is written.
#[test]
fn what_grew_through_memory_may_be_longer_without_what_was_stored() {
    for text in [
        "creat foo; write foo 0 4K | mmapwrite foo 4K 8K",
        "creat foo; write foo 0 4K | mmapwrite foo 4K 8K; creat bar; fsync bar",
        "creat foo; write foo 0 4K | mmapwrite foo 2K 10K",
    ] {
        crash(SIZE_FOLLOWS, text)
            .edit(|toy| toy.node("foo").zero(4096, 12288))
            .legal();
        crash(SIZE_FOLLOWS, text)
            .edit(|toy| toy.node("foo").zero(0, 12288))
            .breaks(&[Promise::Sync]);
    }
    let zeros = |text| crash(ALL, text).edit(|toy| toy.node("foo").zero(4096, 12288));
    zeros("creat foo; write foo 0 4K | mmapwrite foo 4K 8K; fsync foo")
        .breaks(&[Promise::FsyncData]);
    zeros("creat foo; write foo 0 4K | mmapwrite foo 4K 8K; msync foo 4K 8K")
        .breaks(&[Promise::RangeData]);
    zeros("creat foo; write foo 0 4K; mmapwrite foo 4K 8K | creat bar").breaks(&[Promise::Sync]);
    // What wrote after it had been made longer grew nothing.
    crash(
        SIZE_FOLLOWS,
        "creat foo | mmapwrite foo 0 4K; append foo 4K",
    )
    .edit(|toy| toy.node("foo").zero(4096, 8192))
    .breaks(&[Promise::DataWithSize]);
}

#[test]
fn zeros_that_somebody_made_are_data_as_well() {
    // It was as large before, and read as zeros.
    let text = "creat foo; truncate foo 8K | write foo 0 8K";
    crash(ALL, text)
        .edit(|toy| toy.node("foo").zero(0, 8192))
        .legal();
    // The block was its own already: what lies past the old end is not ordered.
    let text = "creat foo; write foo 0 1000 | write foo 1000 1000";
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").zero(1000, 2000))
        .legal();
    let text = "creat foo; write foo 0 1000 | write foo 1000 8000";
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").zero(1000, 4096))
        .legal();
    crash(SIZE_FOLLOWS, text)
        .edit(|toy| toy.node("foo").zero(4096, 9000))
        .breaks(&[Promise::DataWithSize]);
}

#[test]
fn a_file_renamed_over_another_one_is_whole_or_not_there() {
    let text = "creat foo; write foo 0 4K | creat tmp; write tmp 0 8K; rename tmp foo";
    let empty = |text: &str| crash(["ext4"], text).edit(|toy| toy.node("foo").truncate(0));
    empty(text).breaks(&[Promise::ReplaceByRename]);
    // Seen on ext4 of Linux 6.18: what has its space already does not wait for it.
    let allocated = text.replace("write tmp", "falloc tmp keep_size 0 8K; write tmp");
    empty(&allocated).legal();
    crash(["ext4"], text)
        .edit(|toy| toy.node("foo").truncate(4096))
        .breaks(&[Promise::ReplaceByRename]);
    crash(["ext4"], text)
        .edit(|toy| toy.node("foo").zero(0, 8192))
        .breaks(&[Promise::ReplaceByRename]);
    crash(["ext4"], text).legal();
    crash(["ext4"], text)
        .lose("creat tmp; write tmp 0 8K; rename tmp foo")
        .legal();
    crash(["ext4"], text)
        .lose("rename tmp foo")
        .edit(|toy| toy.node("tmp").truncate(0))
        .legal();
    // What came after the rename may be lost, and what made it smaller may not.
    let text = "creat foo | creat tmp; write tmp 0 8K; rename tmp foo; truncate foo 0";
    empty(text).legal();
    // Written over in its place, it may have what it had.
    let text =
        "creat foo; write foo 0 4K; creat tmp; write tmp 0 8K | write tmp 0 8K; rename tmp foo";
    crash(["ext4"], text).lose("write tmp 0 8K").legal();
    let others = [
        "ext4:noauto_da_alloc",
        "ext4:data=writeback",
        "xfs",
        "btrfs",
    ];
    let text = "creat foo; write foo 0 4K | creat tmp; write tmp 0 8K; rename tmp foo";
    crash(others, text)
        .edit(|toy| toy.node("foo").truncate(0))
        .legal();
}

#[test]
fn a_rename_to_a_new_name_or_an_exchange_promises_no_data() {
    crash(["ext4"], "creat tmp; write tmp 0 8K; rename tmp foo")
        .edit(|toy| toy.node("foo").truncate(0))
        .legal();
    let text = "creat foo; write foo 0 4K | creat tmp; write tmp 0 8K; rename tmp foo exchange";
    crash(["ext4"], text)
        .edit(|toy| toy.node("foo").truncate(0))
        .legal();
}
