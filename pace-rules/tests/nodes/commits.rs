//! What a commit of everything between two calls decides on btrfs: names are durable with it, and
//! what comes after it is no more in the log of what was synced before.

use trace::{ChangeOfName, FileId, FileKind, FileOp};

use super::support::{
    BAR, Byte, DIRECTORY, FOO, NOBODY, OTHER, Script, Tree, content, has, name, new_in, size, told,
    who, who_at_all, with_directory,
};

const LOG: FileId = FileId(5);

/// A store that is made as LevelDB makes it. Its manifest is never synced; `current` names it, and
/// then a second one, of which nothing is kept here; and then its log is synced.
fn store() -> Script {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "manifest")
        .write(0, FOO, 0, 8, 0)
        .create(0, BAR, "first")
        .write(0, BAR, 0, 1, 0)
        .sync(0, BAR)
        .rename(0, BAR, "first", "current", None)
        .create(0, LOG, "log")
        .create(0, OTHER, "second")
        .write(0, OTHER, 0, 2, 0)
        .sync(0, OTHER)
        .rename(0, OTHER, "second", "current", Some(BAR))
        .write(0, LOG, 0, 8, 0)
        .sync(0, LOG)
        .mark(0);
    script
}

/// Whether `current` is the first one, and the log has what was acknowledged.
fn is_behind(tree: &Tree) -> bool {
    let is_whole = |byte: &Byte| matches!(byte, Byte::Written(_));
    size(tree, "current") == Some(1)
        && size(tree, "log") == Some(8)
        && content(tree, "log").iter().all(is_whole)
}

/// If the rename of a file that was synced is lost, something was committed in between, and so every
/// older name is there.
#[test]
fn a_name_is_not_lost_with_a_rename_after_which_the_log_was_written_on_btrfs() {
    let without = |tree: &Tree| is_behind(tree) && !has(tree, "manifest");
    assert_eq!(who_at_all(&store(), without), NOBODY);
    assert_eq!(who(&store(), 1, without), NOBODY);
    // Before the log is written once more, neither is there.
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "manifest")
        .create(0, OTHER, "second")
        .write(0, OTHER, 0, 2, 0)
        .sync(0, OTHER)
        .rename(0, OTHER, "second", "current", None)
        .mark(0);
    let neither = |tree: &Tree| !has(tree, "manifest") && has(tree, "second");
    assert_eq!(who(&script, 1, neither), ["btrfs"]);
    assert_eq!(who_at_all(&script, neither), ["btrfs"]);
}

/// A commit waits for no data: older names are there, and files are empty.
#[test]
fn all_that_came_after_a_commit_is_lost_at_once_and_the_data_of_older_files_on_btrfs() {
    let empty = |tree: &Tree| is_behind(tree) && size(tree, "manifest") == Some(0);
    assert_eq!(who_at_all(&store(), empty), ["btrfs"]);
    // It is visited, though bytes and a name are lost.
    assert!(told(&store(), "btrfs", 1, 1).iter().any(empty));
}

/// A sync of what the log has already writes nothing.
#[test]
fn a_sync_that_has_nothing_to_do_does_not_write_the_log_on_btrfs() {
    for (is_changed, models) in [(false, &["btrfs"][..]), (true, &NOBODY)] {
        let mut script = Script::new(1, &[]);
        script
            .create(0, BAR, "bar")
            .write(0, BAR, 0, 1, 0)
            .sync(0, BAR)
            .create(0, FOO, "foo")
            .create(0, OTHER, "second")
            .write(0, OTHER, 0, 2, 0)
            .sync(0, OTHER)
            .rename(0, OTHER, "second", "current", None);
        if is_changed {
            script.write(0, BAR, 1, 1, 1);
        }
        script.sync(0, BAR).mark(0);
        let neither = |tree: &Tree| !has(tree, "foo") && has(tree, "second");
        assert_eq!(who_at_all(&script, neither), models, "{is_changed}");
    }
}

/// What the log says with a new name is that there is such a file: its size is that of before.
#[test]
fn a_size_is_not_kept_with_the_name_that_a_log_gives_a_file_with_a_link_on_btrfs() {
    let mut script = with_directory(&[]);
    let (parent, renamed) = (DIRECTORY, (DIRECTORY, name("new")));
    script
        .file(0, new_in(parent, "old", FOO, FileKind::Regular))
        .write(0, FOO, 0, 8, 0)
        .file(0, FileOp::SyncAll)
        .file(
            0,
            FileOp::Link {
                parent: FileId::ROOT,
                name: name("link"),
                file: FOO,
            },
        )
        .create(0, BAR, "bar")
        .datasync(0, FOO)
        .write(0, FOO, 8, 8, 8)
        .file(
            0,
            FileOp::Rename {
                file: FOO,
                names: ChangeOfName {
                    from: (parent, name("old")),
                    to: renamed.clone(),
                },
                replaced: None,
                exchange: false,
            },
        )
        .datasync(0, DIRECTORY)
        .mark(0);
    let behind = |tree: &Tree| {
        !has(tree, "bar") && tree.contains_key(&renamed) && size(tree, "link") == Some(8)
    };
    assert_eq!(who_at_all(&script, behind), ["btrfs"]);
}
