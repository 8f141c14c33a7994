//! Whatever is changed in a recovered file system is noticed, as what it is. Needs root.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, Permissions, read_link, remove_file, rename, set_permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::Path;

use checker::Promise;
use end_to_end::{FILE_SYSTEMS, Laboratory, in_own_namespace, require_root};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, lremovexattr, lsetxattr};

/// Everything that is tampered with, durable.
const WORKLOAD: &str = "
    workload tampered
    setup
    mkdir A; creat A/old; write A/old 0 4K
    run
    creat A/foo; write A/foo 0 16K; falloc A/foo punch_hole|keep_size 4K 8K; setxattr A/foo user.key value
    link A/foo A/bar; symlink target A/sym; creat A/pre; write A/pre 0 4K; falloc A/pre keep_size 64K 64K
    rename A/old A/new; chmod A/new 640; sync; !
";

fn noticed(expected: fn(&str) -> &'static [Promise], tamper: fn(&Path)) {
    require_root();
    let workload = workloads::parse(WORKLOAD, "tampered")
        .expect("a workload")
        .remove(0);
    for file_system in FILE_SYSTEMS {
        let result = in_own_namespace(|| Laboratory::new(file_system).tamper(&workload, tamper));
        assert_eq!(result.inconclusive, None, "{file_system}");
        assert!(result.states_checked > 0, "{file_system}");
        let findings: Vec<_> = result
            .broken
            .iter()
            .flat_map(|state| &state.findings)
            .collect();
        let broken: BTreeSet<_> = findings.iter().map(|finding| finding.promise).collect();
        assert_eq!(
            broken,
            expected(file_system).iter().copied().collect(),
            "{file_system}: {findings:#?}"
        );
    }
}

const SYNC: fn(&str) -> &'static [Promise] = |_| &[Promise::Sync];

fn open(path: impl AsRef<Path>) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("open")
}

fn punch(file: &File, offset: u64, length: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, offset, length).expect("punched");
    file.sync_all().expect("synced");
}

#[test]
fn nothing_is_noticed_where_nothing_was_changed() {
    noticed(|_| &[], |_| {});
}

#[test]
fn a_changed_byte() {
    noticed(
        |_| &[Promise::NoForeignData],
        |root| {
            let (file, mut byte) = (open(root.join("A/foo")), [0]);
            file.read_exact_at(&mut byte, 100).expect("read");
            file.write_all_at(&[byte[0] ^ 0x80], 100).expect("written");
        },
    );
}

#[test]
fn a_zeroed_byte() {
    noticed(SYNC, |root| {
        open(root.join("A/foo"))
            .write_all_at(&[0], 100)
            .expect("written");
    });
}

/// xfsprogs 7.2 sets `trusted.xfs:autofsck` on every root; elsewhere the name is like any other.
#[test]
fn an_attribute_of_the_root_that_is_the_file_system_s_own() {
    noticed(
        |file_system| {
            if file_system == "xfs" {
                &[]
            } else {
                &[Promise::NoForeignNames]
            }
        },
        |root| lsetxattr(root, "trusted.xfs:autofsck", b"none", XattrFlags::CREATE).expect("set"),
    );
}

#[test]
fn an_appended_byte() {
    noticed(SYNC, |root| {
        OpenOptions::new()
            .append(true)
            .open(root.join("A/new"))
            .expect("open")
            .write_all(b"x")
            .expect("written");
    });
}

#[test]
fn a_cut_file() {
    noticed(SYNC, |root| {
        open(root.join("A/new")).set_len(4095).expect("truncated");
    });
}

#[test]
fn a_removed_name() {
    noticed(SYNC, |root| {
        remove_file(root.join("A/sym")).expect("removed");
    });
}

#[test]
fn a_foreign_name() {
    noticed(
        |_| &[Promise::NoForeignNames],
        |root| drop(File::create(root.join("A/foreign")).expect("made")),
    );
}

#[test]
fn a_removed_hard_link() {
    noticed(SYNC, |root| {
        remove_file(root.join("A/bar")).expect("removed");
    });
}

#[test]
fn an_added_hard_link() {
    noticed(
        |_| &[Promise::NoForeignNames],
        |root| {
            std::fs::hard_link(root.join("A/foo"), root.join("A/third")).expect("linked");
        },
    );
}

#[test]
fn a_hard_link_that_leads_to_another_file() {
    noticed(SYNC, |root| {
        remove_file(root.join("A/bar")).expect("removed");
        std::fs::copy(root.join("A/foo"), root.join("A/bar")).expect("copied");
        punch(&open(root.join("A/bar")), 4096, 8192);
        lsetxattr(
            root.join("A/bar"),
            "user.key",
            b"value",
            XattrFlags::empty(),
        )
        .expect("set");
    });
}

#[test]
fn a_file_at_its_old_name() {
    noticed(SYNC, |root| {
        rename(root.join("A/new"), root.join("A/old")).expect("renamed");
    });
}

#[test]
fn a_changed_attribute() {
    noticed(SYNC, |root| {
        lsetxattr(
            root.join("A/foo"),
            "user.key",
            b"other",
            XattrFlags::REPLACE,
        )
        .expect("set");
    });
}

#[test]
fn a_removed_attribute() {
    noticed(SYNC, |root| {
        lremovexattr(root.join("A/foo"), "user.key").expect("removed");
    });
}

#[test]
fn a_foreign_attribute() {
    noticed(
        |_| &[Promise::NoForeignNames],
        |root| {
            lsetxattr(
                root.join("A/foo"),
                "user.other",
                b"value",
                XattrFlags::CREATE,
            )
            .expect("set");
        },
    );
}

#[test]
fn a_changed_mode() {
    noticed(SYNC, |root| {
        set_permissions(root.join("A/new"), Permissions::from_mode(0o600)).expect("changed");
    });
}

#[test]
fn a_changed_owner() {
    noticed(SYNC, |root| {
        chown(root.join("A/new"), Some(12), Some(34)).expect("changed");
    });
}

#[test]
fn a_changed_target_of_a_symlink() {
    noticed(
        |_| &[Promise::SymlinkComplete],
        |root| {
            let path = root.join("A/sym");
            assert_eq!(read_link(&path).expect("read"), Path::new("target"));
            remove_file(&path).expect("removed");
            symlink("target2", &path).expect("made");
        },
    );
}

#[test]
fn a_filled_hole() {
    let expected: fn(&str) -> &'static [Promise] = |file_system| match file_system {
        "ext4" => &[Promise::BlocksExact, Promise::HoleLayout],
        _ => &[Promise::HoleLayout],
    };
    noticed(expected, |root| {
        let file = open(root.join("A/foo"));
        file.write_all_at(&[0; 8192], 4096).expect("written");
        file.sync_all().expect("synced");
    });
}

#[test]
fn a_lost_reservation() {
    let expected: fn(&str) -> &'static [Promise] = |file_system| match file_system {
        "ext4" => &[Promise::BlocksExact],
        _ => &[Promise::Preallocation],
    };
    noticed(expected, |root| {
        // What lies after the end goes when a file is made shorter.
        let file = open(root.join("A/pre"));
        file.set_len(4097).expect("extended");
        file.set_len(4096).expect("truncated");
        file.sync_all().expect("synced");
    });
}
