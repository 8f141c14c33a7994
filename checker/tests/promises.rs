//! Both sides of the edge of every promise: a state that just breaks it, and one that just does
//! not. `|` in a workload stands between its setup and what is run; the power fails at its end.
//!
//! Mountable, Usable, FsckClean and KernelQuiet are found by the replayer on a mounted state.

mod support;

use checker::{Contract, Promise};
use local_fs::{Content, InodeKind, Segment, Tree, Variant, WalkError};
use support::{ALL, Crashes, Kind, ORDERED, Toy, crash};

const BTRFS: [&str; 1] = ["btrfs"];
const XFS: [&str; 1] = ["xfs"];
const EXT4: [&str; 1] = ["ext4"];
const NOT_EXT4: [&str; 2] = ["xfs", "btrfs"];

#[test]
fn what_nothing_made_durable_may_vanish_or_be_there() {
    crash(ALL, "creat foo; mkdir A; creat A/bar").legal();
    crash(ALL, "creat foo; mkdir A; creat A/bar")
        .lose("creat foo; mkdir A; creat A/bar")
        .legal();
    crash(ALL, "creat foo | unlink foo; creat bar")
        .lose("unlink foo; creat bar")
        .legal();
}

#[test]
fn after_sync_everything_is_durable() {
    for sync in ["sync", "syncfs"] {
        crash(ALL, &format!("creat foo; {sync}"))
            .lose("creat foo")
            .breaks(&[Promise::Sync]);
        crash(ALL, &format!("creat foo; setxattr foo user.a b; {sync}"))
            .lose("setxattr foo user.a b")
            .breaks(&[Promise::Sync]);
        crash(ALL, &format!("creat foo; {sync}; creat bar"))
            .lose("creat bar")
            .legal();
    }
    crash(ALL, "creat foo | creat bar")
        .unname("foo")
        .breaks(&[Promise::Sync]);
}

#[test]
fn fsync_of_a_new_file_makes_its_name_durable() {
    crash(ALL, "creat foo; fsync foo")
        .lose("creat foo")
        .breaks_what_was_promised_by(1, Promise::FsyncNames);
    crash(ALL, "creat foo; fsync foo; creat bar; unlink foo")
        .lose("creat bar; unlink foo")
        .legal();
}

#[test]
fn fsync_of_a_new_file_makes_the_new_directories_above_it_durable() {
    let text = "mkdir A; mkdir A/B; creat A/B/foo; fsync A/B/foo";
    crash(ALL, text)
        .lose("mkdir A")
        .breaks(&[Promise::FsyncNames]);
    crash(ALL, text)
        .lose("mkdir A/B")
        .breaks(&[Promise::FsyncNames]);
    // Siblings that were made later are nobody's promise.
    crash(ALL, "mkdir A; creat A/foo; creat A/bar; fsync A/foo")
        .lose("creat A/bar")
        .legal();
}

#[test]
fn what_came_before_is_durable_with_a_file_where_metadata_is_ordered() {
    let text = "creat bar; creat foo; fsync foo";
    crash(ORDERED, text)
        .lose("creat bar")
        .breaks(&[Promise::FsyncNames]);
    crash(BTRFS, text).lose("creat bar").legal();
}

#[test]
fn directories_renamed_after_the_file_was_touched_may_have_their_old_name() {
    let text = "mkdir A; creat A/foo; fsync A/foo; rename A B; fsync B/foo";
    crash(ALL, text).lose("rename A B").legal();
    crash(ALL, text).legal();
    crash(ALL, "mkdir A; creat A/foo; rename A B; fsync B/foo")
        .lose("creat A/foo")
        .breaks(&[Promise::FsyncNames]);
    crash(ALL, "mkdir A; creat A/foo; rename A B; fsync B")
        .lose("rename A B")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn a_removed_name_of_an_inode_is_gone_after_fsync_of_it() {
    let text = "creat foo; link foo bar | unlink bar; fsync foo";
    crash(ALL, text)
        .lose("unlink bar")
        .breaks(&[Promise::FsyncNames]);
    crash(ALL, text).legal();
    crash(ALL, "creat foo; open foo as @h | unlink foo; fsync @h")
        .lose("unlink foo")
        .breaks(&[Promise::FsyncNames]);
    crash(ALL, "creat foo; link foo bar | unlink bar")
        .lose("unlink bar")
        .legal();
}

#[test]
fn without_an_order_only_what_was_durable_is_durably_removed() {
    // What was at the name before the file was made may be back.
    let text = "symlink t foo | unlink foo; creat foo; open foo as @h; unlink foo; fsync @h";
    crash(BTRFS, text).lose("unlink foo; creat foo").legal();
    crash(ORDERED, text)
        .lose("unlink foo; creat foo")
        .breaks(&[Promise::FsyncNames]);
    // A rename took the name from the file: that is the affair of the other one.
    let text = "creat foo; creat bar; open bar as @h | rename foo bar; append @h 10; fsync @h";
    crash(BTRFS, text)
        .lose("rename foo bar; append @h 10")
        .legal();
    crash(ORDERED, text)
        .lose("rename foo bar; append @h 10")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn hard_links_are_durable_after_fsync_of_the_inode() {
    let text = "creat foo | link foo bar; fsync foo";
    crash(ALL, text)
        .lose("link foo bar")
        .breaks(&[Promise::FsyncNames]);
    crash(ALL, "creat foo | link foo bar")
        .lose("link foo bar")
        .legal();
    crash(ALL, "creat foo; creat bar | link foo baz; fsync bar")
        .lose("link foo baz")
        .legal();
    // An unlink that nothing made durable, and a link that was, are both there without an order.
    let text = "creat foo; mkdir A; mkdir B; link foo A/x | unlink A/x; link foo B/y; fsync B";
    crash(BTRFS, text).lose("unlink A/x").legal();
    crash(ORDERED, text)
        .lose("unlink A/x")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn a_renamed_file_is_at_one_of_its_names() {
    let text = "creat foo; mkdir A | rename foo A/foo";
    crash(ALL, text).legal();
    crash(ALL, text).lose("rename foo A/foo").legal();
    crash(ALL, text)
        .edit(|toy| toy.name("foo", 1))
        .breaks(&[Promise::RenameAtomic]);
    crash(ALL, text)
        .unname("A/foo")
        .breaks(&[Promise::RenameAtomic]);
    // It was never durable at all: at neither.
    crash(ALL, "mkdir A | creat foo; rename foo A/foo")
        .unname("A/foo")
        .legal();
    // fstests generic/321: both, after fsync of the new directory.
    let text = "creat foo; mkdir A | rename foo A/foo; fsync A";
    crash(BTRFS, text)
        .edit(|toy| toy.name("foo", 1))
        .breaks(&[Promise::RenameAtomic]);
    crash(ORDERED, text)
        .edit(|toy| toy.name("foo", 1))
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn a_file_that_was_renamed_twice_is_at_one_of_three_names() {
    let text = "creat a; creat b; write b 0 5 | rename a b; rename b c";
    crash(ALL, text).lose("rename a b; rename b c").legal();
    crash(ALL, text).lose("rename b c").legal();
    crash(ALL, text)
        .edit(|toy| toy.name("a", 1))
        .breaks(&[Promise::RenameAtomic]);
    // It arrived, and what it replaced on the way is still there: no order was promised.
    crash(BTRFS, text).edit(|toy| toy.name("b", 2)).legal();
    crash(ORDERED, text)
        .edit(|toy| toy.name("b", 2))
        .breaks(&[Promise::OrderedMetadata]);
}

#[test]
fn the_target_of_a_rename_is_never_absent() {
    let text = "creat foo; creat bar; fsync bar; sync; rename foo bar";
    crash(ALL, text).lose("rename foo bar").legal();
    crash(ALL, text).unname("bar").breaks(&[Promise::Sync]);
    let text = "creat A; fsync A; creat B; rename B A";
    crash(ALL, text).unname("A").breaks(&[Promise::FsyncNames]);
}

#[test]
fn an_exchange_is_done_as_a_whole_or_not() {
    let text = "creat foo; write foo 0 10; creat bar | rename foo bar exchange";
    crash(ALL, text).legal();
    crash(ALL, text).lose("rename foo bar exchange").legal();
    let both_foo = |toy: &mut Toy| toy.name("foo", 1);
    crash(ALL, text)
        .edit(both_foo)
        .breaks(&[Promise::RenameAtomic]);
    // What came in exchange was never durable.
    let text = "mkdir A; mkdir B; creat B/b | creat A/a; rename A/a B/b exchange; fsync A/a";
    crash(BTRFS, text).unname("B/b").legal();
    crash(ORDERED, text)
        .unname("B/b")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn a_whiteout_stands_where_the_file_was() {
    let text = "creat foo | rename foo bar whiteout";
    crash(ALL, text).legal();
    crash(ALL, text).lose("rename foo bar whiteout").legal();
    crash(ORDERED, "creat foo | rename foo bar whiteout; fsync bar")
        .unname("foo")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn files_that_only_their_history_tells_apart_are_not_mixed_up() {
    crash(ALL, "creat a | rename a b; creat a")
        .lose("rename a b; creat a")
        .legal();
    crash(ALL, "creat a | rename a b; creat a; rename b c; creat b")
        .lose("creat a; rename b c; creat b")
        .legal();
    crash(
        ALL,
        "creat a; creat b | rename a c; rename b a; rename c b; creat c",
    )
    .lose("creat c; rename c b")
    .legal();
    crash(
        ALL,
        "creat a; creat b | rename a b exchange; rename a c; creat a",
    )
    .lose("rename a c; creat a")
    .legal();
}

/// Files that look alike, each of which was renamed and replaced by a new one.
fn replaced(files: usize) -> String {
    let setup: Vec<_> = (0..files).map(|file| format!("creat a{file}")).collect();
    let run: Vec<_> = (0..files).map(replacement).collect();
    format!("{} | {}", setup.join("; "), run.join("; "))
}

fn replacement(file: usize) -> String {
    format!("rename a{file} b{file}; creat a{file}")
}

#[test]
fn among_many_files_that_look_alike_the_innocent_are_not_accused() {
    for files in [9, 15, 30] {
        let text = replaced(files);
        let lost: Vec<_> = (0..files).map(replacement).collect();
        crash(ALL, &text).legal();
        crash(ALL, &text).lose(&lost.join("; ")).legal();
        crash(ALL, &text)
            .lose(&lost[files / 2..].join("; "))
            .legal();
        // Without an order, any of them.
        let some: Vec<_> = (0..files)
            .filter(|file| file % 3 != 1)
            .map(replacement)
            .collect();
        crash(BTRFS, &text).lose(&some.join("; ")).legal();
        crash(ORDERED, &text)
            .lose(&some.join("; "))
            .breaks(&[Promise::OrderedMetadata]);
    }
}

#[test]
fn among_many_files_that_look_alike_the_loss_of_one_is_found_or_undecided() {
    let all_lost = |files: usize| (0..files).map(replacement).collect::<Vec<_>>().join("; ");
    crash(ALL, &replaced(9))
        .lose(&all_lost(9))
        .unname("a4")
        .breaks(&[Promise::RenameAtomic]);
    // More than can be read in each way.
    let text = replaced(15);
    let of_many = || crash(BTRFS, &text).lose(&all_lost(15)).unname("a4");
    of_many().undecided();
    // What is wrong with a tree in itself needs no reading.
    of_many()
        .edit(|toy| toy.node("a1").link_count_error = 1)
        .breaks(&[Promise::LinkCount]);
}

#[test]
fn an_unnamed_file_is_there_when_it_was_linked_and_synced() {
    let text = "tmpfile . as @h; write @h 0 4K; link @h foo; fsync @h";
    crash(ALL, text)
        .lose("link @h foo")
        .breaks(&[Promise::FsyncNames]);
    // fdatasync promises no name.
    let text = "tmpfile . as @h; write @h 0 4K; sync; link @h foo; fdatasync foo";
    crash(ALL, text).lose("link @h foo").legal();
}

#[test]
fn fsync_of_a_directory_makes_its_names_durable() {
    crash(ALL, "mkdir A | creat A/foo; fsync A")
        .lose("creat A/foo")
        .breaks(&[Promise::FsyncDirectory]);
    crash(ALL, "mkdir A; creat A/foo | unlink A/foo; fsync A")
        .lose("unlink A/foo")
        .breaks(&[Promise::FsyncDirectory]);
    let text = "mkdir A; creat foo | rename foo A/foo; fsync A";
    crash(BTRFS, text)
        .lose("rename foo A/foo")
        .breaks(&[Promise::FsyncDirectory]);
    crash(ORDERED, text)
        .lose("rename foo A/foo")
        .breaks(&[Promise::FsyncDirectory, Promise::FsyncNames]);
    crash(ALL, "mkdir A | creat A/foo; fsync A; creat A/bar")
        .lose("creat A/bar")
        .legal();
    // What a file holds is not promised with its name.
    crash(ALL, "mkdir A | creat A/foo; write A/foo 0 4K; fsync A")
        .lose("write A/foo 0 4K")
        .legal();
}

#[test]
fn a_file_moved_out_of_a_synced_directory_is_somewhere() {
    let text = "mkdir A; mkdir B; creat A/foo | rename A/foo B/foo; fsync A";
    crash(BTRFS, text)
        .unname("B/foo")
        .breaks(&[Promise::RenameAtomic]);
    crash(ORDERED, text)
        .unname("B/foo")
        .breaks(&[Promise::FsyncNames]);
    crash(BTRFS, text)
        .lose("rename A/foo B/foo")
        .breaks(&[Promise::FsyncDirectory]);
    crash(ORDERED, text)
        .lose("rename A/foo B/foo")
        .breaks(&[Promise::FsyncDirectory, Promise::FsyncNames]);
    // A link and an unlink are no rename.
    let text = "mkdir A; mkdir B; creat A/foo | link A/foo B/foo; unlink A/foo; fsync A";
    crash(BTRFS, text).unname("B/foo").legal();
    crash(ORDERED, text)
        .unname("B/foo")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn fsync_of_a_directory_on_btrfs_reaches_new_directories_below_it_only() {
    let text = "mkdir A | mkdir A/B; creat A/B/foo; fsync A";
    crash(BTRFS, text)
        .lose("creat A/B/foo")
        .breaks(&[Promise::FsyncNewSubdirectories]);
    crash(ORDERED, text).lose("creat A/B/foo").legal();
    crash(BTRFS, "mkdir A; mkdir A/B | creat A/B/foo; fsync A")
        .lose("creat A/B/foo")
        .legal();
    crash(
        BTRFS,
        "mkdir A | mkdir A/B; fsync A/B; creat A/B/foo; fsync A",
    )
    .lose("creat A/B/foo")
    .legal();
}

#[test]
fn the_file_whose_durable_name_was_taken_keeps_its_new_name() {
    // fstests generic/342.
    let text = "creat foo; write foo 0 4K | rename foo bar; creat foo; fsync foo";
    crash(BTRFS, text)
        .unname("bar")
        .breaks(&[Promise::NameConflict]);
    crash(ORDERED, text)
        .unname("bar")
        .breaks(&[Promise::FsyncNames]);
    // 341: of directories, what is in them stays in them.
    let text = "mkdir a; mkdir a/x; creat a/x/foo | rename a/x a/y; mkdir a/x; fsync a/x";
    crash(BTRFS, text)
        .unname("a/y")
        .breaks(&[Promise::NameConflict]);
    crash(ALL, text).legal();
    // 526: through a chain of names.
    let text = "creat f1; creat f2; write f1 0 3; write f2 0 3 | \
                rename f1 f3; rename f2 f4; link f3 f2; creat f1; fsync f1";
    crash(BTRFS, text)
        .unname("f4")
        .breaks(&[Promise::NameConflict]);
    crash(BTRFS, text)
        .unname("f3")
        .breaks(&[Promise::NameConflict]);
    crash(ALL, text).legal();
    // A name that it lost elsewhere is not promised to be gone.
    let text =
        "creat foo; mkdir A; link foo A/bar | unlink foo; creat foo; unlink A/bar; fsync foo";
    crash(BTRFS, text).lose("unlink A/bar").legal();
    crash(ORDERED, text).lose("unlink A/bar").legal();
}

#[test]
fn a_new_file_at_the_old_name_of_a_synced_one_may_vanish() {
    // fstests generic/376.
    let text = "creat foo | rename foo bar; creat foo; fsync bar";
    crash(ALL, text).unname("foo").legal();
    crash(ALL, text)
        .unname("bar")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn operations_are_durable_in_their_order_where_that_is_promised() {
    for (first, second) in [
        ("creat foo", "creat bar"),
        ("chmod old 600", "creat bar"),
        ("creat foo", "chown old 1 1"),
        ("mkdir A", "rename old new"),
    ] {
        let text = format!("creat old | {first}; {second}");
        crash(ORDERED, &text)
            .lose(first)
            .breaks(&[Promise::OrderedMetadata]);
        crash(ORDERED, &text).lose(second).legal();
        crash(BTRFS, &text).lose(first).legal();
    }
}

#[test]
fn data_and_size_are_durable_after_fsync() {
    for (call, promise) in [
        ("fsync", Promise::FsyncData),
        ("fdatasync", Promise::FdatasyncData),
    ] {
        let text = format!("creat foo | write foo 0 6000; {call} foo");
        crash(ALL, &text)
            .lose("write foo 0 6000")
            .breaks(&[promise]);
        crash(ALL, &text)
            .edit(|toy| toy.node("foo").data[5999] = 0)
            .breaks(&[promise]);
        crash(ALL, &text)
            .edit(|toy| toy.node("foo").data.push(0))
            .breaks(&[promise]);
        crash(ALL, &text)
            .edit(|toy| {
                let _ = toy.node("foo").data.pop();
            })
            .breaks(&[promise]);
        crash(ALL, &text)
            .edit(|toy| toy.node("foo").data[100] ^= 1)
            .breaks(&[Promise::NoForeignData]);
        let text =
            format!("creat foo | write foo 0 6000; {call} foo; append foo 100; truncate foo 10");
        crash(ALL, &text).lose("truncate foo 10").legal();
        crash(ALL, &text)
            .lose("append foo 100; truncate foo 10")
            .legal();
        crash(ALL, &text).lose("append foo 100").legal();
    }
}

#[test]
fn what_was_not_synced_is_old_or_new_or_zeros_and_nothing_else() {
    let text = "creat foo; write foo 0 8K; sync; write foo 0 8K; write foo 16K 4K";
    crash(ALL, text).legal();
    crash(ALL, text).lose("write foo 16K 4K").legal();
    // Every byte on its own may be of either write.
    crash(ALL, text)
        .edit(|toy| toy.node("foo").write(1, 4096, 4096))
        .legal();
    crash(ALL, text)
        .edit(|toy| toy.node("foo").write(1, 100, 512))
        .legal();
    // Zeros where the file grew, if its size may be ahead of its data, and not where it was
    // durable.
    crash(["ext4", "btrfs"], text)
        .edit(|toy| toy.node("foo").zero(16384, 20480))
        .legal();
    crash(ALL, text)
        .edit(|toy| toy.node("foo").zero(0, 100))
        .breaks(&[Promise::Sync]);
    crash(ALL, text)
        .edit(|toy| toy.node("foo").data[0] ^= 1)
        .breaks(&[Promise::NoForeignData]);
    crash(ALL, text)
        .edit(|toy| toy.node("foo").data[18000] ^= 1)
        .breaks(&[Promise::NoForeignData]);
    // Any size that it could have had on the way, and no other.
    crash(ALL, text)
        .edit(|toy| toy.node("foo").truncate(12345))
        .legal();
    crash(ALL, text)
        .edit(|toy| toy.node("foo").truncate(20481))
        .breaks(&[Promise::Sync]);
    crash(ALL, text)
        .edit(|toy| toy.node("foo").truncate(8191))
        .breaks(&[Promise::Sync]);
}

#[test]
fn a_truncation_may_be_undone_until_it_is_synced() {
    let text = "creat foo; write foo 0 8K | truncate foo 3000";
    crash(ALL, text).lose("truncate foo 3000").legal();
    let text = "creat foo; write foo 0 8K | truncate foo 3000; fsync foo";
    crash(ALL, text)
        .lose("truncate foo 3000")
        .breaks(&[Promise::FsyncData]);
    // What was cut off does not come back when the file grows again.
    let text = "creat foo; write foo 0 8K | truncate foo 3000; truncate foo 8K; fsync foo";
    crash(ALL, text)
        .lose("truncate foo 3000; truncate foo 8K")
        .breaks(&[Promise::FsyncData]);
}

#[test]
fn attributes_are_durable_after_fsync_and_not_after_fdatasync() {
    for (op, promise) in [
        ("chmod foo 600", Promise::FsyncAttributes),
        ("chown foo 3 4", Promise::FsyncAttributes),
        ("setxattr foo user.a c", Promise::FsyncXattrs),
        ("removexattr foo user.a", Promise::FsyncXattrs),
    ] {
        let setup = "creat foo; write foo 0 10; setxattr foo user.a b";
        crash(ALL, &format!("{setup} | {op}; fsync foo"))
            .lose(op)
            .breaks(&[promise]);
        crash(ALL, &format!("{setup} | {op}; fdatasync foo"))
            .lose(op)
            .legal();
        crash(ALL, &format!("{setup} | fsync foo; {op}"))
            .lose(op)
            .legal();
    }
    crash(ALL, "mkdir A | chmod A 700; fsync A")
        .lose("chmod A 700")
        .breaks(&[Promise::FsyncAttributes]);
    crash(ALL, "creat foo")
        .edit(|toy| toy.node("foo").mode = 0o604)
        .breaks(&[Promise::Sync]);
}

#[test]
fn a_file_whose_data_is_durable_does_not_vanish() {
    let text = "creat foo; write foo 0 10; fdatasync foo";
    crash(ALL, text)
        .lose("creat foo")
        .breaks(&[Promise::FdatasyncData]);
    crash(ALL, "creat foo; fdatasync foo")
        .lose("creat foo")
        .legal();
    let text = "creat foo; write foo 0 10; fdatasync foo; rename foo bar";
    crash(ALL, text).lose("rename foo bar").legal();
    crash(ALL, text).legal();
}

#[test]
fn a_range_is_durable_after_msync_and_synchronous_writes() {
    for text in [
        "creat foo; write foo 0 16K | mmapwrite foo 0 8K; msync foo 0 4K",
        "creat foo; write foo 0 16K | write foo 4K 4K; write foo 0 4K sync",
        "creat foo; write foo 0 16K | write foo 4K 4K; dwrite foo 0 4K dsync",
    ] {
        crash(ALL, text).legal();
        // What the file held before, inside the range and outside.
        crash(ALL, text)
            .edit(|toy| toy.node("foo").write(1, 4095, 1))
            .breaks(&[Promise::RangeData]);
        crash(ALL, text)
            .edit(|toy| toy.node("foo").write(1, 4096, 4096))
            .legal();
    }
    let text = "creat foo | write foo 4K 4K sync";
    crash(ALL, text)
        .lose("write foo 4K 4K sync")
        .breaks(&[Promise::RangeData]);
}

#[test]
fn a_write_with_o_sync_makes_all_of_the_file_but_other_data_durable() {
    for write in ["write foo 0 4K", "dwrite foo 0 4K"] {
        let both = |setup: &str, op: &str, promises: &[Promise]| {
            crash(ALL, &format!("{setup} | {op}; {write} sync"))
                .lose(op)
                .breaks(promises);
            crash(ALL, &format!("{setup} | {op}; {write} dsync"))
                .lose(op)
                .legal();
            crash(ALL, &format!("{setup} | {write} sync; {op}"))
                .lose(op)
                .legal();
        };
        let setup = "creat foo; write foo 0 8K; setxattr foo user.a b";
        both(setup, "chmod foo 600", &[Promise::FsyncAttributes]);
        both(setup, "chown foo 3 4", &[Promise::FsyncAttributes]);
        both(setup, "setxattr foo user.a c", &[Promise::FsyncXattrs]);
        both(setup, "removexattr foo user.a", &[Promise::FsyncXattrs]);
        both(setup, "link foo bar", &[Promise::FsyncNames]);
        both(
            "creat foo; link foo bar",
            "unlink bar",
            &[Promise::FsyncNames],
        );
        // Other bytes, and the size that they make, are as before.
        both(setup, "write foo 4K 8K", &[]);
        let text = format!(
            "mkdir A; creat A/foo; {} sync",
            write.replace("foo", "A/foo")
        );
        crash(ALL, &text)
            .lose("mkdir A")
            .breaks(&[Promise::FsyncNames]);
        let text = format!("creat old; rename old foo; {write} sync");
        crash(ALL, &text)
            .lose("rename old foo")
            .edit(|toy| toy.node("old").write(2, 0, 4096))
            .breaks(&[Promise::FsyncNames]);
    }
}

#[test]
fn a_write_of_nothing_promises_nothing() {
    for sync in ["sync", "dsync"] {
        let text = format!("creat foo | link foo bar; chmod foo 600; write foo 4K 0 {sync}");
        crash(ALL, &text).legal();
        crash(ALL, &text)
            .lose("link foo bar; chmod foo 600")
            .legal();
        crash(
            ALL,
            &format!("creat foo; write foo 0 10; write foo 0 0 {sync}"),
        )
        .lose("creat foo")
        .legal();
    }
}

#[test]
fn what_the_setup_made_durable_keeps_its_space_and_its_holes() {
    let setup = "creat foo; write foo 0 4K; falloc foo keep_size 8K 8K";
    let fewer = |toy: &mut Toy| {
        let _ = toy.node("foo").allocated.pop_last();
    };
    for run in [
        "creat bar",
        "creat bar; fsync bar",
        "chmod foo 600",
        "rename foo bar; rename bar foo",
    ] {
        let text = format!("{setup} | {run}");
        crash(ALL, &text).legal();
        crash(NOT_EXT4, &text)
            .edit(fewer)
            .breaks(&[Promise::Preallocation]);
        crash(EXT4, &text)
            .edit(fewer)
            .breaks(&[Promise::BlocksExact]);
    }
    let text = "creat foo; write foo 0 16K; falloc foo punch_hole|keep_size 4K 8K | creat bar";
    let fill = |toy: &mut Toy| toy.node("foo").written.extend([1, 2]);
    crash(ALL, text).legal();
    crash(ALL, text).edit(fill).breaks(&[Promise::HoleLayout]);
    // What was changed since has other blocks, and what was never durable any.
    for run in ["append foo 1", "falloc foo keep_size 16K 4K"] {
        crash(ALL, &format!("{setup} | {run}")).edit(fewer).legal();
    }
    crash(ALL, setup).edit(fewer).legal();
    crash(ALL, &format!("creat bar | {setup}"))
        .edit(fewer)
        .legal();
    // Without a setup nothing but the root was there at the start.
    crash(ALL, "creat foo")
        .edit(|toy| toy.node("foo").allocated.extend([7]))
        .legal();
}

#[test]
fn attributes_have_blocks_of_their_own() {
    let setup = "creat foo; setxattr foo user.a b; write foo 0 16K; falloc foo punch_hole|keep_size 4K 8K; \
                 falloc foo keep_size 16K 4K";
    let other = |toy: &mut Toy| toy.node("foo").allocated.extend([7]);
    for change in ["setxattr foo user.a c", "removexattr foo user.a"] {
        for sync in ["", "; fdatasync foo"] {
            let text = format!("{setup} | {change}{sync}");
            crash(ALL, &text).edit(other).legal();
            // Those of the content are known all the same.
            crash(ALL, &text)
                .edit(|toy| {
                    let _ = toy.node("foo").allocated.pop_last();
                })
                .breaks(&[Promise::Preallocation]);
            crash(ALL, &text)
                .edit(|toy| toy.node("foo").written.extend([1, 2]))
                .breaks(&[Promise::HoleLayout]);
        }
        let text = format!("{setup} | {change}; fsync foo");
        crash(EXT4, &text)
            .edit(other)
            .breaks(&[Promise::BlocksExact]);
    }
}

#[test]
fn where_stale_data_may_show_it_may_only_where_nothing_was() {
    let stale = |at: usize| move |toy: &mut Toy| toy.node("foo").data[at] ^= 1;
    let writeback = |text: &str| crash(EXT4, text).without(&[Promise::NoForeignData]);
    let text = "creat foo; write foo 0 4K | append foo 8K";
    writeback(text).edit(stale(5000)).legal();
    crash(EXT4, text)
        .edit(stale(5000))
        .breaks(&[Promise::NoForeignData]);
    // What was durable was there, and what is durable now is.
    writeback(text).edit(stale(100)).breaks(&[Promise::Sync]);
    writeback(&format!("{text}; fsync foo"))
        .edit(stale(5000))
        .breaks(&[Promise::FsyncData]);
    writeback("creat foo; write foo 0 4K | write foo 0 4K")
        .edit(stale(100))
        .breaks(&[Promise::Sync]);
    // It may hide nothing after it.
    writeback(text)
        .edit(stale(5000))
        .edit(|toy| toy.node("foo").truncate(4000))
        .breaks(&[Promise::Sync]);
}

#[test]
fn what_is_not_promised_is_not_checked() {
    let text = "creat foo; link foo bar | creat baz";
    let miscount = |toy: &mut Toy| toy.node("foo").link_count_error = 1;
    crash(ALL, text)
        .without(&[Promise::LinkCount])
        .edit(miscount)
        .legal();
    let text = "creat old | creat foo; creat bar";
    crash(ORDERED, text)
        .without(&[Promise::OrderedMetadata])
        .lose("creat foo")
        .legal();
    crash(ORDERED, "creat foo; fsync foo")
        .without(&[Promise::OrderedMetadata])
        .lose("creat foo")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn a_large_sparse_file_costs_what_it_holds() {
    let text = "creat foo; write foo 1048576M 4K; truncate foo 8000000M; fsync foo; \
                falloc foo zero_range 0 1024000M; write foo 2097152M 4K";
    let workload = support::workload(text);
    for file_system in ALL {
        let model = support::model(file_system, &workload);
        let mut toy = Toy::new();
        toy.apply(0, &support::operations(&workload)[0]);
        let mut live = toy.tree(file_system);
        let foo = live.lookup("foo").expect("it is there");
        let mut show = |segments: &[(usize, u64)], size_mib: u64| {
            let inode = live.inodes.get_mut(&foo).expect("it is there");
            let segment = |(operation, gib): &(usize, u64)| Segment {
                offset: gib << 30,
                data: workloads::pattern::bytes(*operation, gib << 30, 4096),
            };
            (inode.size_bytes, inode.blocks) = (size_mib << 20, segments.len() as u64 * 8);
            inode.kind = InodeKind::File(Content {
                segments: segments.iter().map(segment).collect(),
            });
            live.clone()
        };
        let now = show(&[(1, 1024), (5, 2048)], 8_000_000);
        checker::oracle::check_live(&model, &now).expect("the model agrees");
        let broken = |tree: &Tree| {
            let findings =
                checker::oracle::check(&model, Some(&now), tree).expect("it can be decided");
            findings
                .iter()
                .map(|finding| finding.promise)
                .collect::<Vec<_>>()
        };
        assert_eq!(broken(&now), []);
        assert_eq!(broken(&show(&[(1, 1024)], 8_000_000)), []);
        assert_eq!(broken(&show(&[(5, 2048)], 8_000_000)), [Promise::FsyncData]);
        assert_eq!(
            broken(&show(&[(1, 1024), (9, 3000)], 8_000_000)),
            [Promise::NoForeignData]
        );
        assert_eq!(broken(&show(&[(1, 1024)], 7_000_000)), [Promise::FsyncData]);
    }
}

#[test]
fn a_thousand_names_are_compared_one_by_one() {
    const NAMES: usize = 500;
    let links: Vec<_> = (0..NAMES)
        .map(|name| format!("link foo l{name}; creat c{name}"))
        .collect();
    let text = format!("creat foo | {}; fsync foo", links.join("; "));
    crash(ALL, &text).legal();
    crash(ALL, &text)
        .unname("l300")
        .breaks(&[Promise::FsyncNames]);
    crash(BTRFS, &text).unname("c300").legal();
    crash(ORDERED, &text)
        .unname("c300")
        .breaks(&[Promise::FsyncNames]);
    crash(ORDERED, &text.replace("; fsync foo", ""))
        .unname("c300")
        .breaks(&[Promise::OrderedMetadata]);
}

#[test]
fn reserved_space_is_durable_with_the_file() {
    let text = "creat foo; write foo 0 4K | falloc foo keep_size 8K 8K; fsync foo";
    let fewer = |toy: &mut Toy| {
        let _ = toy.node("foo").allocated.pop_last();
    };
    let more = |toy: &mut Toy| {
        let _ = toy.node("foo").allocated.insert(99);
    };
    crash(NOT_EXT4, text)
        .edit(fewer)
        .breaks(&[Promise::Preallocation]);
    crash(NOT_EXT4, text).edit(more).legal();
    crash(EXT4, text)
        .edit(fewer)
        .breaks(&[Promise::BlocksExact]);
    crash(EXT4, text).edit(more).breaks(&[Promise::BlocksExact]);
    // A file that was changed since has other blocks.
    crash(
        ALL,
        "creat foo; write foo 0 4K | falloc foo keep_size 8K 8K; fsync foo; append foo 1",
    )
    .edit(fewer)
    .legal();
}

/// Makes a file hold these blocks of what it held, `.` for zeros and `+` for what operation 4
/// writes at its start.
fn blocks(order: &'static str) -> impl Fn(&mut Toy) + Clone + 'static {
    move |toy| {
        let node = toy.node("foo");
        let block = |which: char| match which {
            '.' => vec![0; 4096],
            '+' => workloads::pattern::bytes(4, 0, 4096),
            _ => node.data[which as usize % 16 * 4096 - 4096..][..4096].to_vec(),
        };
        node.data = order.chars().flat_map(block).collect();
        node.written = (0..order.len() as u64).collect();
    }
}

/// What a file of blocks a, b, c and d is after an operation that was not synced.
fn after(operation: &str) -> impl Fn(&'static str) -> Crashes {
    let text = format!("creat foo; write foo 0 16K; sync | {operation}");
    let operation = operation.to_owned();
    move |order| crash(MOVES, &text).lose(&operation).edit(blocks(order))
}

const MOVES: [&str; 2] = ["ext4", "xfs"];

#[test]
fn a_collapse_that_is_not_synced_shows_its_file_before_after_or_with_some_extents_moved() {
    let found = after("falloc foo collapse_range 4K 4K");
    for legal in ["abcd", "acd", "a.cd", "ac.d", "acd."] {
        found(legal).legal();
    }
    for foreign in ["aacd", "bcd", "accd", "acdd", "a.dd"] {
        found(foreign).breaks_something();
    }
    for lost in ["a..d", "....", "a...", "..cd"] {
        found(lost).breaks_something();
    }
    for size in ["", "a", "ac", "abcd."] {
        found(size).breaks_something();
    }
}

#[test]
fn an_insert_that_is_not_synced_shows_its_file_before_after_or_with_some_extents_moved() {
    let found = after("falloc foo insert_range 4K 4K");
    for legal in ["abcd", "abcd.", "abc.d", "ab.cd", "a.bcd"] {
        found(legal).legal();
    }
    for foreign in ["aabcd", "abbcd", "abcdd"] {
        found(foreign).breaks_something();
    }
    for lost in ["a..cd", ".....", "....", "..bcd"] {
        found(lost).breaks_something();
    }
    for size in ["", "abc", "a.bcd."] {
        found(size).breaks_something();
    }
}

#[test]
fn what_was_moved_is_where_it_was_moved_to_once_that_is_synced() {
    let text = "creat foo; write foo 0 16K | falloc foo collapse_range 4K 4K";
    let before = |text: &str| {
        crash(MOVES, text)
            .lose("falloc foo collapse_range 4K 4K")
            .edit(blocks("acd."))
    };
    before(text).legal();
    for sync in ["fsync foo", "fdatasync foo"] {
        let promise = match sync {
            "fsync foo" => Promise::FsyncData,
            _ => Promise::FdatasyncData,
        };
        before(&format!("{text}; {sync}")).breaks(&[promise]);
    }
    // Nor is it at its old place where only a part was synced afterwards.
    crash(MOVES, &format!("{text}; write foo 0 4K dsync"))
        .lose("falloc foo collapse_range 4K 4K")
        .breaks_something();
}

#[test]
fn what_is_written_after_bytes_were_moved_may_be_found_where_they_were() {
    let text = "falloc foo collapse_range 0 4K; write foo 0 4K";
    let found = after(text);
    for legal in ["abcd", "bcd", "+cd", "a+cd", ".bcd", ".+cd"] {
        found(legal).legal();
    }
    found("+bcd").breaks_something();
    found("ab+d").breaks_something();
    // Also where the file ended within the range that was inserted.
    crash(
        MOVES,
        "creat foo; write foo 0 8K | falloc foo insert_range 4K 12K; truncate foo 600; append foo 8K",
    )
    .lose("falloc foo insert_range 4K 12K; truncate foo 600; append foo 8K")
    .edit(|toy| {
        let new = workloads::pattern::bytes(4, 600, 4096 - 600);
        toy.node("foo").data[600..4096].copy_from_slice(&new);
    })
    .legal();
}

#[test]
fn bytes_that_were_moved_twice_are_where_they_were_at_one_time() {
    let found = after("falloc foo collapse_range 0 4K; falloc foo insert_range 8K 4K");
    for legal in ["abcd", ".bcd", "b.cd", "bcd", "bcd.", "bc.d"] {
        found(legal).legal();
    }
    found("a.bcd").breaks_something();
    found("ab.cd").breaks_something();
    found("abc.").breaks_something();
}

#[test]
fn a_punched_hole_stays_a_hole() {
    let text = "creat foo; write foo 0 16K | falloc foo punch_hole|keep_size 4K 8K; fsync foo";
    crash(ALL, text).legal();
    let fill = |toy: &mut Toy| toy.node("foo").written.extend([1, 2]);
    crash(NOT_EXT4, text)
        .edit(fill)
        .breaks(&[Promise::HoleLayout]);
    crash(ALL, text)
        .lose("falloc foo punch_hole|keep_size 4K 8K")
        .breaks(&[Promise::FsyncData]);
    // Pages of zeros that were cached show as data while it runs, and as a hole later.
    let text = "creat foo | falloc foo alloc 0 8K; write foo 4K 4K; fsync foo";
    crash(XFS, text)
        .edit(|toy| {
            let _ = toy.node("foo").written.remove(&0);
        })
        .legal();
}

#[test]
fn link_counts_are_the_number_of_names() {
    let text = "creat foo; link foo bar | creat baz";
    crash(ALL, text)
        .edit(|toy| toy.node("foo").link_count_error = 1)
        .breaks(&[Promise::LinkCount]);
    crash(ALL, text)
        .edit(|toy| toy.node("foo").link_count_error = -1)
        .breaks(&[Promise::LinkCount]);
    // A directory counts the directories in it, where that is promised.
    let text = "mkdir A; mkdir A/B | creat baz";
    let miscount = |toy: &mut Toy| toy.node("A").link_count_error = 1;
    crash(ORDERED, text)
        .edit(miscount)
        .breaks(&[Promise::DirectoryLinkCount]);
    crash(BTRFS, text).edit(miscount).legal();
}

#[test]
fn a_directory_is_at_one_place() {
    let text = "mkdir A; mkdir B; mkdir A/C | rename A/C B/C";
    crash(BTRFS, text)
        .edit(|toy| toy.name("A/C", 3))
        .breaks(&[Promise::RenameAtomic]);
    crash(ORDERED, text)
        .edit(|toy| toy.name("A/C", 3))
        .breaks(&[Promise::RenameAtomic]);
}

#[test]
fn a_symlink_has_its_target() {
    let text = "symlink target foo | creat bar";
    let truncate = |toy: &mut Toy| toy.node("foo").kind = Kind::Symlink(String::new());
    crash(ALL, text)
        .edit(truncate)
        .breaks(&[Promise::SymlinkComplete]);
    crash(ALL, text).legal();
}

#[test]
fn nothing_appears_that_nobody_made() {
    let text = "creat foo; mkdir A | creat bar";
    for path in ["new", "A/new"] {
        let add = move |toy: &mut Toy| {
            let node = toy.add(Kind::File, 0o644);
            toy.name(path, node);
        };
        crash(ALL, text)
            .edit(add)
            .breaks(&[Promise::NoForeignNames]);
    }
    let xattr = |toy: &mut Toy| {
        drop(
            toy.node("foo")
                .xattrs
                .insert("user.x".into(), b"y".to_vec()),
        );
    };
    crash(ALL, text)
        .edit(xattr)
        .breaks(&[Promise::NoForeignNames]);
    // The system's own attributes are not the workload's.
    let label = |toy: &mut Toy| {
        drop(
            toy.node("foo")
                .xattrs
                .insert("system.x".into(), b"y".to_vec()),
        );
    };
    crash(ALL, text).edit(label).legal();
    // Another kind of thing than was made there.
    let text = "mkfifo foo | mknod bar";
    let replace = |toy: &mut Toy| toy.node("foo").kind = Kind::File;
    crash(ALL, text).edit(replace).breaks(&[Promise::Sync]);
}

#[test]
fn what_is_too_much_to_read_accuses_nobody() {
    let workload = support::workload("creat foo; write foo 0 4K; fsync foo");
    let model = support::model("ext4", &workload);
    let mut toy = Toy::new();
    for (number, op) in support::operations(&workload).iter().enumerate() {
        toy.apply(number, op);
    }
    let mut recovered = toy.tree("ext4");
    recovered.errors.push(WalkError {
        path: "foo".into(),
        doing: "read",
        errno: 27,
        is_ours: true,
    });
    let number = recovered.lookup("foo").expect("it is there");
    let inode = recovered.inodes.get_mut(&number).expect("it is there");
    inode.kind = InodeKind::File(Content::default());
    let ext4 = Variant::parse_list("ext4").expect("it is known").remove(0);
    let contract = Contract::for_variant(&ext4).expect("a contract");
    let of_model = checker::oracle::check(&model, None, &recovered);
    let of_itself = checker::oracle::check_itself(&contract, &recovered);
    for undecided in [of_model, of_itself] {
        let why = undecided.expect_err("it was not read").to_string();
        assert_eq!(
            why,
            "read of 'foo' is too much: File too large (os error 27)"
        );
    }
    // What else is wrong is so however much there is.
    let inode = recovered.inodes.get_mut(&number).expect("it is there");
    inode.link_count = 3;
    let findings = checker::oracle::check(&model, None, &recovered).expect("it can be decided");
    assert_eq!(
        findings,
        checker::oracle::check_itself(&contract, &recovered).expect("the same")
    );
    assert_eq!(findings[0].promise, Promise::LinkCount);
}

#[test]
fn names_that_the_machine_had_no_room_for_are_not_missed() {
    let workload = support::workload("mkdir A; mkdir A/B; creat foo; link foo A/bar | sync");
    let model = support::model("ext4", &workload);
    let mut toy = Toy::new();
    for (number, op) in support::operations(&workload).iter().enumerate() {
        toy.apply(number, op);
    }
    let mut recovered = toy.tree("ext4");
    let number = recovered.lookup("A").expect("it is there");
    let inode = recovered.inodes.get_mut(&number).expect("it is there");
    inode.kind = InodeKind::Directory(<_>::default());
    recovered.errors.push(WalkError {
        path: "A".into(),
        doing: "open",
        errno: 24,
        is_ours: true,
    });
    let why = checker::oracle::check(&model, None, &recovered).expect_err("it was not read");
    let expected = "open of 'A' is too much: Too many open files (os error 24)";
    assert_eq!(why.to_string(), expected);
}

#[test]
fn the_model_does_as_the_kernel() {
    type Edit = fn(&mut Toy);
    let table: [(&str, Edit); 5] = [
        (
            "creat foo; write foo 0 4K; falloc foo unshare_range 0 8K",
            |toy| {
                toy.node("foo").data.resize(8192, 0);
            },
        ),
        ("mkdir A 6755", |toy| toy.node("A").mode = 0o755),
        ("mkdir A 7777", |toy| toy.node("A").mode = 0o1777),
        ("mkfifo foo 6755; chown foo 3 4", |toy| {
            toy.node("foo").mode = 0o755;
        }),
        ("mkdir A; chmod A 6755; chown A 3 4", |_| {}),
    ];
    for (text, edit) in table {
        let workload = support::workload(text);
        let mut toy = Toy::new();
        for (number, op) in support::operations(&workload).iter().enumerate() {
            toy.apply(number, op);
        }
        edit(&mut toy);
        let model = support::model("xfs", &workload);
        let same = checker::oracle::check_live(&model, &toy.tree("xfs"));
        assert_eq!(same, Ok(()), "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_a_finding() {
    let workload = support::workload("creat foo");
    for file_system in ALL {
        let model = support::model(file_system, &workload);
        let mut toy = Toy::new();
        toy.apply(0, &support::operations(&workload)[0]);
        let live = toy.tree(file_system);
        let mut recovered = live.clone();
        recovered.errors.push(WalkError {
            path: "foo".into(),
            doing: "read",
            errno: 5,
            is_ours: false,
        });
        let findings =
            checker::oracle::check(&model, Some(&live), &recovered).expect("it can be decided");
        assert_eq!(
            findings
                .iter()
                .map(|finding| finding.promise)
                .collect::<Vec<_>>(),
            [Promise::Readable]
        );
        assert!(
            checker::oracle::check(&model, Some(&live), &live)
                .expect("it can be decided")
                .is_empty()
        );
    }
}
