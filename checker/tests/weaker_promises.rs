//! File systems that promise less than ext4, xfs and btrfs: those that are repaired before they are
//! mounted, f2fs and nilfs2. Each promise that is left, broken; and what is not one, left alone.

mod support;

use checker::Promise;
use support::{Kind, Toy, crash};

const EXT2: [&str; 1] = ["ext2"];
const VFAT: [&str; 1] = ["vfat"];
const IN_PLACE: [&str; 3] = ["ext2", "vfat", "minix"];
const DRIVERS: [&str; 2] = ["fuse2fs", "ntfs-3g"];
const F2FS: [&str; 1] = ["f2fs"];
const F2FS_STRICT: [&str; 1] = ["f2fs:fsync_mode=strict"];
const NILFS2: [&str; 1] = ["nilfs2"];

/// The checker found a file without a name and gave it one.
fn connect(toy: &mut Toy, path: &'static str) {
    let node = toy.find(path).expect("it is there");
    toy.unname(path);
    let directory = toy.add(Kind::Directory, 0o700);
    toy.name("lost+found", directory);
    toy.name("lost+found/#12", node);
}

fn damage(toy: &mut Toy, path: &'static str, offset: usize) {
    toy.node(path).data[offset] ^= 0xff;
}

#[test]
fn after_sync_everything_is_durable() {
    crash(IN_PLACE, "creat foo; sync")
        .lose("creat foo")
        .breaks(&[Promise::Sync]);
    crash(IN_PLACE, "creat foo; write foo 0 4K; sync")
        .edit(|toy| damage(toy, "foo", 5))
        .breaks(&[Promise::Sync]);
    crash(IN_PLACE, "creat foo; mkdir A; sync; creat bar")
        .lose("creat bar")
        .legal();
}

#[test]
fn names_are_durable_by_fsync_of_the_directory_and_the_file() {
    let both = "creat foo; write foo 0 4K; fsync foo; fsync .";
    crash(IN_PLACE, both)
        .unname("foo")
        .breaks(&[Promise::FsyncDirectory]);
    crash(EXT2, "creat foo; write foo 0 4K; fsync foo")
        .edit(|toy| connect(toy, "foo"))
        .legal();
    // The name was written, what it leads to was not.
    crash(IN_PLACE, "creat foo; write foo 0 4K; fsync .")
        .unname("foo")
        .legal();
    crash(IN_PLACE, "creat foo | unlink foo")
        .lose("unlink foo")
        .legal();
    crash(IN_PLACE, "creat foo | unlink foo; sync")
        .lose("unlink foo")
        .breaks(&[Promise::Sync]);
    crash(EXT2, "creat foo | unlink foo; fsync .")
        .lose("unlink foo")
        .breaks(&[Promise::FsyncDirectory]);
}

#[test]
fn what_ext2_wrote_is_under_a_name_or_in_lost_and_found() {
    let text = "mkdir A; creat A/foo; write A/foo 0 4K; fsync A/foo";
    crash(EXT2, text).edit(|toy| connect(toy, "A/foo")).legal();
    crash(EXT2, text).edit(|toy| connect(toy, "A")).legal();
    crash(EXT2, text)
        .unname("A/foo")
        .breaks(&[Promise::FsyncExists]);
    let damaged = |toy: &mut Toy| {
        damage(toy, "A/foo", 5);
        connect(toy, "A/foo");
    };
    crash(EXT2, text)
        .edit(damaged)
        .breaks(&[Promise::FsyncExists]);
    // What has no blocks is not kept.
    crash(EXT2, "creat foo; fsync foo").unname("foo").legal();
    // Where nobody looks for what has no name, nothing is promised of it.
    crash(VFAT, text).unname("A/foo").legal();
}

#[test]
fn a_rename_may_be_done_by_half_in_place() {
    let text = "creat foo; write foo 0 4K | rename foo bar";
    let both = |toy: &mut Toy| {
        let node = toy.find("bar").expect("renamed");
        toy.name("foo", node);
    };
    crash(IN_PLACE, text).edit(both).legal();
    crash(EXT2, text).edit(|toy| connect(toy, "bar")).legal();
    crash(EXT2, text).unname("bar").breaks(&[Promise::Sync]);
    crash(VFAT, text).unname("bar").legal();
}

#[test]
fn a_name_that_was_removed_may_lead_to_what_took_its_inode() {
    let stale = |toy: &mut Toy| {
        let node = toy.find("A/b").expect("made");
        toy.name("a", node);
    };
    let text =
        "creat a; write a 0 4K; mkdir A | unlink a; creat A/b; write A/b 0 8K; fsync A/b; fsync A";
    crash(EXT2, text).edit(stale).legal();
    crash(EXT2, text)
        .edit(stale)
        .edit(|toy| damage(toy, "A/b", 5))
        .breaks(&[Promise::FsyncData]);
}

#[test]
fn space_that_was_given_back_may_hold_anything_in_what_is_not_durable() {
    let text = "creat foo; write foo 0 8K | truncate foo 4K; write foo 4K 4K";
    crash(EXT2, text)
        .edit(|toy| damage(toy, "foo", 5000))
        .legal();
    crash(EXT2, text)
        .edit(|toy| damage(toy, "foo", 50))
        .breaks(&[Promise::Sync]);
    // fsck.fat takes clusters that two files claim from one of them.
    let reused = "creat a; write a 0 4K | creat b; unlink a; write b 0 4K; fsync b; fsync .";
    crash(VFAT, reused).edit(|toy| damage(toy, "b", 5)).legal();
    crash(EXT2, reused)
        .edit(|toy| damage(toy, "b", 5))
        .breaks(&[Promise::FsyncData]);
}

#[test]
fn names_in_a_directory_that_is_durable_are_those_that_were_made() {
    let stray = |toy: &mut Toy| {
        let node = toy.add(Kind::File, 0o644);
        toy.name("stray", node);
    };
    crash(IN_PLACE, "creat foo; sync")
        .edit(stray)
        .breaks(&[Promise::NoForeignNames]);
    crash(VFAT, "creat foo; sync")
        .edit(|toy| {
            let node = toy.add(Kind::File, 0o644);
            toy.name("FSCK0000.REC", node);
        })
        .legal();
}

#[test]
fn what_vfat_cannot_store_is_not_compared() {
    crash(VFAT, "creat foo; sync")
        .edit(|toy| toy.node("foo").mode = 0o755)
        .legal();
    crash(EXT2, "creat foo; sync")
        .edit(|toy| toy.node("foo").mode = 0o755)
        .breaks(&[Promise::Sync]);
}

#[test]
fn a_sync_that_no_driver_hears_of_promises_nothing() {
    crash(DRIVERS, "creat foo; write foo 0 4K; sync")
        .lose("creat foo; write foo 0 4K")
        .legal();
    crash(DRIVERS, "mkdir A; syncfs").lose("mkdir A").legal();
    // The setup was unmounted.
    crash(DRIVERS, "creat foo; write foo 0 4K | creat bar; sync")
        .unname("foo")
        .breaks(&[Promise::Unmounted]);
    let damaged = |toy: &mut Toy| damage(toy, "foo", 5);
    crash(DRIVERS, "creat foo; write foo 0 4K | creat bar")
        .edit(damaged)
        .breaks(&[Promise::Unmounted]);
}

#[test]
fn drivers_write_everything_when_something_is_fsynced() {
    let names = "mkdir A; creat A/foo; write A/foo 0 4K; fsync A/foo";
    crash(DRIVERS, names)
        .lose("mkdir A")
        .breaks(&[Promise::FsyncNames]);
    crash(DRIVERS, names)
        .edit(|toy| damage(toy, "A/foo", 5))
        .breaks(&[Promise::FsyncData]);
    crash(DRIVERS, "creat foo | unlink foo; fsync .")
        .lose("unlink foo")
        .breaks(&[Promise::FsyncDirectory]);
    crash(DRIVERS, "creat foo | setxattr foo user.a b; fsync foo")
        .lose("setxattr foo user.a b")
        .breaks(&[Promise::FsyncXattrs]);
    // What another file had is not said to be durable.
    crash(DRIVERS, "creat foo; creat bar; fsync bar")
        .lose("creat foo")
        .legal();
    // Space that was given back is so for good.
    let reused = "creat a; write a 0 4K | creat b; unlink a; write b 0 4K; fsync b";
    crash(DRIVERS, reused)
        .edit(|toy| damage(toy, "b", 5))
        .breaks(&[Promise::FsyncData]);
}

#[test]
fn f2fs_recovers_the_names_of_new_files_and_no_removals() {
    crash(F2FS, "creat foo; fsync foo")
        .lose("creat foo")
        .breaks(&[Promise::FsyncNewNames]);
    let removed = "creat foo; link foo bar | unlink bar; fsync foo";
    crash(F2FS, removed).lose("unlink bar").legal();
    crash(F2FS_STRICT, removed)
        .lose("unlink bar")
        .breaks(&[Promise::FsyncNames]);
}

#[test]
fn a_new_file_may_displace_a_renamed_one_unless_f2fs_is_strict() {
    let text = "creat foo; write foo 0 4K | rename foo bar; creat foo; fsync foo";
    crash(F2FS, text).unname("bar").legal();
    crash(F2FS_STRICT, text)
        .unname("bar")
        .breaks(&[Promise::NameConflict]);
    // Without another one in its place it stays.
    crash(F2FS, "creat foo; write foo 0 4K | rename foo bar")
        .unname("bar")
        .breaks(&[Promise::RenameAtomic]);
}

#[test]
fn nilfs2_makes_names_durable_with_data() {
    let text = "creat foo; write foo 0 4K; fsync foo";
    crash(NILFS2, text)
        .lose("creat foo; write foo 0 4K")
        .breaks(&[Promise::NamesWithData]);
    crash(NILFS2, "creat foo; fsync foo")
        .lose("creat foo")
        .legal();
    let written = "creat foo | write foo 0 4K; sync_file_range foo 0 4K; rename foo bar; fsync bar";
    crash(NILFS2, written).lose("rename foo bar").legal();
    // What made something else durable wrote the data too.
    let before = "mkdir A; creat A/foo; write A/foo 0 4K; fsync .; rename A/foo bar; fsync bar";
    crash(NILFS2, before).lose("rename A/foo bar").legal();
    let again = "mkdir A; creat A/foo; fsync .; rename A/foo bar; write bar 0 4K; fsync bar";
    crash(NILFS2, again)
        .lose("rename A/foo bar; write bar 0 4K")
        .breaks(&[Promise::NamesWithData]);
}

/// Something is found under another name.
fn found_at(old: &'static str, new: &'static str) -> impl Fn(&mut Toy) + Clone + 'static {
    move |toy| {
        let node = toy.find(new).expect("it is there");
        toy.unname(new);
        toy.name(old, node);
    }
}

/// B3's new_10. Plain f2fs may have the file in the directory of the old name.
#[test]
fn a_directory_that_was_renamed_keeps_its_name_with_a_file_that_was_made_in_it_later() {
    let text = "mkdir A | rename A B; creat B/foo; fsync B/foo";
    let back = found_at("A", "B");
    crash(F2FS_STRICT, text)
        .edit(back.clone())
        .breaks_what_was_promised_by(3, Promise::EarlierRenames);
    crash(F2FS, text).edit(back.clone()).legal();
    crash(F2FS_STRICT, text).legal();
    // It was renamed into the directory of the file.
    crash(F2FS_STRICT, "mkdir A | rename A B; creat foo; fsync foo")
        .edit(back.clone())
        .breaks(&[Promise::EarlierRenames]);
    // The file may have been written before the directory was renamed.
    for text in [
        "mkdir A; creat A/foo | rename A B; write B/foo 0 4K; fsync B/foo",
        "mkdir A | creat A/foo; rename A B; fsync B/foo",
        "mkdir A | rename A B; creat B/foo",
        "mkdir A | rename A B; creat B/foo; fdatasync B/foo",
    ] {
        crash(F2FS_STRICT, text).edit(back.clone()).legal();
    }
}

#[test]
fn a_rename_after_a_file_was_made_is_not_durable_with_it() {
    let text =
        "mkdir A | rename A B; creat B/foo; fsync B/foo; rename B C; write C/foo 0 4K; fsync C/foo";
    crash(F2FS_STRICT, text).edit(found_at("B", "C")).legal();
    crash(F2FS_STRICT, text)
        .edit(found_at("A", "C"))
        .breaks(&[Promise::EarlierRenames, Promise::RenameAtomic]);
}

#[test]
fn what_was_renamed_into_a_directory_is_durable_with_a_file_that_was_made_in_it_later() {
    let text = "mkdir A; creat foo | rename foo A/bar; creat A/new; fsync A/new";
    let back = found_at("foo", "A/bar");
    crash(F2FS_STRICT, text)
        .edit(back.clone())
        .breaks(&[Promise::EarlierRenames]);
    crash(F2FS, text).edit(back.clone()).legal();
    crash(
        F2FS_STRICT,
        "mkdir A; creat foo | rename foo A/bar; creat new; fsync new",
    )
    .edit(back)
    .legal();
}

/// fsync of a directory is a checkpoint, after which the kernel knows of no rename.
#[test]
fn what_was_done_between_a_rename_and_the_making_of_a_file_is_not_durable_with_it() {
    let text = "creat foo; rename foo bar; fsync .; mkdir A; link bar A/bar; creat foo; fsync foo";
    crash(F2FS_STRICT, text)
        .lose("mkdir A; link bar A/bar")
        .legal();
    // What was renamed may have moved on as well.
    let text = "creat foo | rename foo bar; rename bar baz; creat new; fsync new";
    crash(F2FS_STRICT, text)
        .edit(found_at("foo", "baz"))
        .breaks(&[Promise::EarlierRenames]);
}
