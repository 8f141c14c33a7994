//! Names that files get, lose and take from each other.

use pace_rules::nodes::{Explore, MODELS, Relaxation, Space};
use trace::{ChangeOfName, FileId, FileKind, FileOp};

use super::support::{
    BAR, Byte, DIRECTORY, FOO, NOBODY, OTHER, Script, Tree, content, has, is_all_durable, is_zeros,
    model, name, request, size, told, who, who_at_all,
};

/// SQLite with journal_mode=delete and synchronous=full: the journal's end is not durable.
#[test]
fn an_unlinked_journal_may_be_there_again() {
    let mut script = Script::new(1, &[(FOO, "db", 4096)]);
    script
        .create(0, BAR, "journal")
        .write(0, BAR, 0, 4096, 0)
        .sync(0, BAR)
        .sync(0, FileId::ROOT);
    script
        .write(0, FOO, 0, 4096, 4096)
        .sync(0, FOO)
        .unlink(0, BAR, "journal")
        .mark(0);
    for model in MODELS {
        let trees = told(&script, model.name, 1, 1);
        assert!(
            trees.iter().any(|tree| has(tree, "journal")),
            "{}",
            model.name
        );
        assert!(trees.iter().all(
            |tree| matches!(tree[&(FileId::ROOT, name("db"))][0], Byte::Written(at) if at >= 4096)
        ));
    }
    script.sync(0, FileId::ROOT).mark(0);
    for model in MODELS {
        assert!(
            !told(&script, model.name, 2, 2)
                .iter()
                .any(|tree| has(tree, "journal")),
            "{}",
            model.name
        );
    }
}

/// A new file is written and takes the name of one that was there.
fn replaced_by_rename() -> Script {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, BAR, "tmp")
        .write(0, BAR, 0, 8, 0)
        .rename(0, BAR, "tmp", "foo", Some(FOO))
        .mark(0);
    script
}

#[test]
fn a_file_that_replaces_another_has_its_data_where_that_is_promised() {
    let script = replaced_by_rename();
    for model in MODELS {
        let empty = told(&script, model.name, 1, 1)
            .iter()
            .any(|tree| size(tree, "foo") == Some(0));
        assert_eq!(empty, !model.replace_by_rename, "{}", model.name);
    }
    // Where names are not atomic it can be away altogether.
    let away = |model| {
        told(&script, model, 1, 0)
            .iter()
            .any(|tree| !has(tree, "foo"))
    };
    assert!(away("posix") && !away("xfs"));
}

#[test]
fn a_file_that_replaces_another_can_be_zeros_on_ext4_and_empty_elsewhere() {
    let script = replaced_by_rename();
    let zeros = |tree: &Tree| {
        !has(tree, "tmp") && size(tree, "foo") == Some(8) && is_zeros(&content(tree, "foo"))
    };
    assert_eq!(
        who(&script, 1, zeros),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
    assert_eq!(
        who(&script, 1, |tree| size(tree, "foo") == Some(0)),
        ["xfs", "btrfs"]
    );
}

/// ext4 finds the space for what the new file holds before it renames it (ext4_alloc_da_blocks): what makes
/// the rename durable, makes that its size.
#[test]
fn a_file_that_replaces_another_is_not_empty_on_ext4_once_the_rename_is_durable() {
    let mut directory = replaced_by_rename();
    directory.sync(0, FileId::ROOT).mark(0);
    let mut other = Script::new(1, &[(FOO, "foo", 8)]);
    other
        .create(0, BAR, "tmp")
        .write(0, BAR, 0, 8, 0)
        .write(0, BAR, 8, 8, 8)
        .rename(0, BAR, "tmp", "foo", Some(FOO))
        .create(0, OTHER, "z")
        .sync(0, OTHER)
        .mark(0);
    for (script, marks) in [(directory, 2), (other, 1)] {
        let empty = who(&script, marks, |tree| size(tree, "foo") == Some(0));
        assert!(
            !empty.iter().any(|model| model.starts_with("ext4")),
            "{empty:?}"
        );
        assert!(empty.contains(&"xfs"), "{empty:?}");
    }
}

#[test]
fn a_file_that_was_emptied_can_stay_so_while_the_sync_of_another_one_persists() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let (from, to) = (8, 0);
    script
        .file(
            0,
            FileOp::Resize {
                file: FOO,
                from,
                to,
            },
        )
        .write(0, FOO, 0, 8, 0)
        .create(0, BAR, "bar")
        .sync(0, BAR)
        .mark(0);
    let empty = |tree: &Tree| has(tree, "bar") && size(tree, "foo") == Some(0);
    assert_eq!(
        who(&script, 1, empty),
        ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]
    );
}

/// fsync of the new directory logs the name in it, and leaves the old one to the transaction.
#[test]
fn a_rename_between_directories_can_be_there_by_half_on_btrfs() {
    let directory = FileId(3);
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.file(
        0,
        FileOp::Create {
            parent: FileId::ROOT,
            name: name("directory"),
            file: directory,
            kind: FileKind::Directory,
            mode: 0o755,
        },
    );
    script.file(0, FileOp::SyncAll);
    let names = ChangeOfName {
        from: (FileId::ROOT, name("foo")),
        to: (directory, name("foo")),
    };
    script
        .file(
            0,
            FileOp::Rename {
                file: FOO,
                names,
                replaced: None,
                exchange: false,
            },
        )
        .mark(0)
        .sync(0, directory)
        .mark(0);
    let is_there = |tree: &Tree| tree.contains_key(&(directory, name("foo")));
    let both = |tree: &Tree| has(tree, "foo") && is_there(tree);
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 1, both), none);
    assert_eq!(who(&script, 2, both), ["btrfs"]);
    assert_eq!(who(&script, 2, |tree| !is_there(tree)), none);
    // By the letter each directory has its own part: what is synced is there, and the other part can
    // be lost alone.
    let by_letter = |script: &Script| told(script, "posix", 1, 2);
    assert!(by_letter(&script).iter().any(both));
    assert!(by_letter(&script).iter().all(is_there));
    script.run.nodes[0].events.truncate(4);
    script.sync(0, FileId::ROOT).mark(0);
    let left = by_letter(&script);
    assert!(left.iter().any(|tree| !is_there(tree)));
    assert!(!left.iter().any(|tree| has(tree, "foo")));
}

/// What is given back with a rename is no moment of it at which a crash can leave the disk.
#[test]
fn a_rename_that_nothing_logged_is_not_there_by_half() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (DIRECTORY, "synced", 8)]);
    script
        .unlink(0, FOO, "foo")
        .create(0, BAR, "foo")
        .sync(0, DIRECTORY)
        .create(0, OTHER, "other")
        .rename(0, OTHER, "other", "foo", Some(BAR))
        .mark(0);
    let is_half = |tree: &Tree| has(tree, "other") && !has(tree, "foo");
    assert_eq!(who(&script, 0, is_half), NOBODY);
    assert_eq!(who_at_all(&script, is_half), NOBODY);
    // Nor is it lost as a whole where nobody can know of it.
    script.run.nodes[0].events.pop();
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&script.run, &request).expect("there are states");
    let states = (0..space.len()).map(|index| space.state(index));
    for state in states.filter(|state| state.relaxation == Relaxation::Lost) {
        let kept = &state.nodes[0];
        let event = |micro: usize| space.micros(0)[micro].event;
        let mut of_last = (0..kept.micros).filter(|micro| event(*micro) == event(kept.micros - 1));
        assert!(of_last.any(|micro| !kept.lost.contains(&micro)));
    }
}

/// A rename within a directory is there as a whole, also where the log tree has it.
#[test]
fn a_rename_within_a_directory_is_not_there_by_half() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "foo")
        .sync(0, FOO)
        .rename(0, FOO, "foo", "bar", None)
        .mark(0);
    let is_half = |tree: &Tree| has(tree, "foo") == has(tree, "bar");
    assert_eq!(who_at_all(&script, is_half), NOBODY);
}

/// Nothing of a rename over another file is left to be lost once the file is synced, so no state is
/// tried for it.
#[test]
fn a_rename_over_another_file_is_durable_as_a_whole_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, BAR, "bar")
        .write(0, BAR, 0, 8, 0)
        .rename(0, BAR, "bar", "foo", Some(FOO))
        .sync(0, BAR)
        .mark(0);
    assert!(is_all_durable(&script));
}
