//! What of the bytes of a file can be there without the rest: in which order pages are kept, how
//! writes are torn, and what the size says before and after that.

use std::collections::BTreeSet;

use pace_rules::nodes::{Effect, Explore, Log, MODELS, Relaxation, Request, Space, Split, State};
use trace::{FileId, FileOp, SyncScope};

use super::support::{
    BAR, Byte, EXT4, FOO, Script, Tree, content, has, is_zeros, marks, model, name, request, size,
    told, tree, who,
};

/// Who asks for pages gets them: also one in the middle is lost alone.
#[test]
fn each_piece_of_a_write_in_many_pieces_is_lost_alone() {
    const PAGE: usize = 4096;
    let lost_pages = |pages: usize, split| {
        let bytes = (pages * PAGE) as u64;
        let mut script = Script::new(1, &[(FOO, "foo", bytes)]);
        script.write(0, FOO, 0, bytes, bytes).mark(0);
        let request = Request {
            split,
            ..request(model("ext4-ordered"), Explore::BruteForce, 1)
        };
        let space = Space::new(&script.run, &request).expect("there are states");
        let states = (0..space.len()).map(|index| space.state(index));
        let trees = states
            .filter(|state| marks(&script.run, state) == 1)
            .map(|state| content(&tree(&script.run, &space, &state, 0), "foo"));
        // The bytes of before have the first numbers.
        let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < bytes);
        let old = trees.map(|content| {
            let pages = content.chunks(PAGE).enumerate();
            let old = pages.filter(|(_, page)| page.iter().all(is_old));
            old.map(|(page, _)| page).collect::<Vec<_>>()
        });
        old.filter(|old| old.len() == 1)
            .map(|old| old[0])
            .collect::<BTreeSet<_>>()
    };
    let pages = Split::Aligned(PAGE as u64);
    assert_eq!(lost_pages(20, pages), (0..20).collect());
    assert_eq!(lost_pages(16, pages), (0..16).collect());
    assert_eq!(lost_pages(8, pages), BTreeSet::from([0, 7]));
    assert_eq!(lost_pages(20, Split::default()), BTreeSet::from([0, 19]));
}

#[test]
fn appends_before_a_sync_can_be_kept_in_any_order_and_by_half() {
    let mut script = Script::new(1, &[(FOO, "foo", 0)]);
    script
        .write(0, FOO, 0, 8192, 0)
        .write(0, FOO, 8192, 8192, 8192)
        .datasync(0, FOO)
        .mark(0);
    for model in MODELS {
        let trees = told(&script, model.name, 1, 0);
        let content = |tree: &Tree| tree[&(FileId::ROOT, name("foo"))].clone();
        let second_alone = |tree: &Tree| {
            let content = content(tree);
            content.len() == 16384
                && content[0] == Byte::Zero
                && matches!(content[16383], Byte::Written(_))
        };
        assert!(trees.iter().any(second_alone), "{}", model.name);
        assert!(
            trees
                .iter()
                .any(|tree| size(tree, "foo") == Some(4096) || size(tree, "foo") == Some(2731)),
            "{}",
            model.name
        );
        let garbage = |tree: &Tree| content(tree).contains(&Byte::Garbage);
        assert_eq!(
            trees.iter().any(garbage),
            model.name == "posix",
            "{}",
            model.name
        );
    }
}

/// A page goes to the disk with all that was written to it until then, also in place.
#[test]
fn of_a_page_nothing_is_kept_without_what_was_written_to_it_before() {
    let content = |tree: &Tree| tree[&(FileId::ROOT, name("foo"))].clone();
    let mut script = Script::new(1, &[(FOO, "foo", 0)]);
    script
        .write(0, FOO, 0, 49, 0)
        .write(0, FOO, 49, 41, 49)
        .mark(0);
    for model in MODELS {
        let hole = |tree: &Tree| matches!(content(tree)[..], [Byte::Zero, .., Byte::Written(_)]);
        assert_eq!(
            told(&script, model.name, 1, 1).iter().any(hole),
            model.name == "posix",
            "{}",
            model.name
        );
    }
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    script
        .write(0, FOO, 100, 8, 8192)
        .write(0, FOO, 200, 8, 8192)
        .write(0, FOO, 4096, 8, 8192)
        .mark(0);
    let old =
        |tree: &Tree, at: usize| matches!(content(tree)[at], Byte::Written(byte) if byte < 8192);
    for model in MODELS {
        let trees = told(&script, model.name, 1, 1);
        let second_alone = |tree: &Tree| old(tree, 100) && !old(tree, 200);
        assert_eq!(
            trees.iter().any(second_alone),
            model.name == "posix",
            "{}",
            model.name
        );
        let other_page = |tree: &Tree| old(tree, 100) && !old(tree, 4096);
        assert!(trees.iter().any(other_page), "{}", model.name);
    }
}

/// The states of a script in which this many marks were made and that lost nothing, but for parts
/// of writes.
fn torn(script: &Script, request: &Request, wanted: usize) -> BTreeSet<Tree> {
    let space = Space::new(&script.run, request).expect("there are states");
    let all = (0..space.len()).map(|index| space.state(index));
    all.filter(|state| state.relaxation == Relaxation::Torn)
        .filter(|state| marks(&script.run, state) == wanted)
        .map(|state| tree(&script.run, &space, &state, 0))
        .collect()
}

/// A disk writes a sector whole. What is torn need not be the last that was done.
#[test]
fn any_write_in_place_is_torn_between_sectors_until_a_sync_covers_it() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    script
        .write(0, FOO, 0, 1024, 4096)
        .create(0, BAR, "bar")
        .mark(0)
        .sync(0, FOO)
        .mark(0);
    let is_new = |byte: &Byte| matches!(byte, Byte::Written(at) if *at >= 4096);
    let is_half = |tree: &Tree| {
        let content = content(tree, "foo");
        has(tree, "bar") && is_new(&content[0]) != is_new(&content[512])
    };
    for model in MODELS {
        let request = |sector: u64| Request {
            sector: sector.try_into().expect("a sector"),
            ..request(model, Explore::BruteForce, 1)
        };
        let shows = |sector_bytes, marks| {
            let trees = torn(&script, &request(sector_bytes), marks);
            trees.iter().any(is_half)
        };
        let name = model.name;
        assert_eq!(
            shows(512, 1),
            name != "btrfs",
            "{name}: nothing is in place"
        );
        assert_eq!(shows(4096, 1), name == "posix", "{name}: one sector");
        assert!(!shows(512, 2), "{name}: it was synced");
    }
}

/// Wherever in it the border is.
#[test]
fn what_lies_across_a_border_of_sectors_is_torn_there() {
    let is_new = |byte: &Byte| matches!(byte, Byte::Written(at) if *at >= 4096);
    for (offset, len) in [
        (505, 8),
        (511, 8),
        (511, 2),
        (511, 513),
        (1, 1023),
        (500, 520),
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
        script.write(0, FOO, offset, len, 4096).mark(0);
        let is_torn = |tree: &Tree| {
            let content = content(tree, "foo");
            is_new(&content[511]) != is_new(&content[512])
        };
        for model in MODELS {
            let request = request(model, Explore::BruteForce, 1);
            let shows = torn(&script, &request, 1).iter().any(is_torn);
            let is_possible = !["btrfs", "posix"].contains(&model.name);
            assert!(shows || !is_possible, "{} {offset} {len}", model.name);
        }
    }
}

/// Two copies of a record in one page have two sectors each: the part of the write that can be missing
/// lies across the border between them.
#[test]
fn of_a_write_within_a_page_the_middle_is_missing() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    script.write(0, FOO, 0, 2048, 4096).mark(0);
    let is_new = |byte: &Byte| matches!(byte, Byte::Written(at) if *at >= 4096);
    let lacks_the_middle = |tree: &Tree| {
        let content = content(tree, "foo");
        [0, 512, 1024, 1536].map(|at| is_new(&content[at])) == [true, false, false, true]
    };
    for model in MODELS.iter().filter(|model| model.log == Log::Journal) {
        let request = request(model, Explore::BruteForce, 1);
        let shows = torn(&script, &request, 1).iter().any(lacks_the_middle);
        assert!(shows, "{}", model.name);
    }
}

/// A database's page is three of the kernel, and is torn before what comes later is synced.
#[test]
fn a_write_of_several_pages_lacks_its_head_its_end_or_its_middle() {
    let mut script = Script::new(1, &[(FOO, "foo", 12288)]);
    script
        .write(0, FOO, 0, 12288, 12288)
        .create(0, BAR, "bar")
        .sync(0, BAR)
        .mark(0);
    for model in MODELS {
        let request = request(model, Explore::BruteForce, 1);
        let lost: BTreeSet<Vec<usize>> = torn(&script, &request, 1)
            .iter()
            .map(|tree| {
                let content = content(tree, "foo").into_iter().enumerate();
                let old =
                    content.filter(|(_, byte)| matches!(byte, Byte::Written(at) if *at < 12288));
                // The first byte that is lost, and the last one.
                let old: Vec<_> = old.map(|(place, _)| place).collect();
                vec![old[0], old[old.len() - 1]]
            })
            .collect();
        let (first, last) = match model.name {
            // Pages in new places.
            "btrfs" => (4096, 8192),
            _ => (512, 11776),
        };
        let mut wanted = vec![vec![0, first - 1], vec![first, last - 1], vec![last, 12287]];
        if first == 512 {
            // A page of it is whole too.
            wanted.extend([vec![0, 4095], vec![4096, 8191], vec![8192, 12287]]);
        }
        let wanted = wanted.into_iter().collect();
        assert_eq!(lost, wanted, "{}", model.name);
    }
}

/// With two losses one may be a part of a write.
#[test]
fn a_write_is_torn_alone_or_beside_a_loss() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    script
        .write(0, FOO, 0, 4096, 4096)
        .create(0, BAR, "bar")
        .mark(0);
    for model in MODELS.iter().filter(|model| model.name != "btrfs") {
        for lost in 1..=2 {
            let trees = torn(&script, &request(model, Explore::BruteForce, lost), 1);
            assert!(trees.iter().any(|tree| has(tree, "bar")), "{}", model.name);
            let is_beside = trees.iter().any(|tree| !has(tree, "bar"));
            assert_eq!(is_beside, lost == 2, "{} with {lost}", model.name);
        }
    }
}

/// Of a page that has its place each sector goes to the disk for itself. A new page is there as it
/// was when it got its place, or later.
#[test]
fn a_later_write_to_another_sector_is_kept_without_an_earlier_one_if_the_page_has_its_place() {
    let is_written = |tree: &Tree, at: usize| {
        let old = 8192;
        matches!(content(tree, "foo").get(at), Some(Byte::Written(byte)) if *byte >= old)
    };
    let later_alone = |tree: &Tree| !is_written(tree, 0) && is_written(tree, 1024);
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    script
        .write(0, FOO, 0, 100, 8192)
        .write(0, FOO, 1024, 100, 8192)
        .mark(0);
    assert_eq!(
        who(&script, 1, later_alone),
        ["ext4-ordered", "ext4-writeback", "xfs"]
    );
    let mut script = Script::new(1, &[(FOO, "foo", 0), (BAR, "bar", 8192)]);
    script
        .write(0, FOO, 0, 1024, 0)
        .write(0, FOO, 1024, 100, 1024)
        .mark(0);
    assert_eq!(who(&script, 1, later_alone), [""; 0]);
}

/// btrfs makes a file as large as it is in memory when any page of it is on the disk, or its name goes
/// to the log. A page that is the only one to be written has its bytes then.
#[test]
fn only_with_another_page_or_name_does_a_file_grow_within_a_page_before_its_bytes_on_btrfs() {
    let zeros = |prepare: &dyn Fn(&mut Script), then: &dyn Fn(&mut Script)| {
        let mut script = Script::new(1, &[(FOO, "foo", 4196)]);
        prepare(&mut script);
        script.write(0, FOO, 4196, 50, 4196);
        then(&mut script);
        script.mark(0);
        let is_zero = |byte: &Byte| *byte == Byte::Zero;
        let grown = |tree: &Tree| {
            let content = tree.get(&(FileId::ROOT, name("foo")));
            let content = content.or_else(|| tree.get(&(FileId::ROOT, name("bar"))));
            content
                .is_some_and(|content| content.len() == 4246 && content[4196..].iter().all(is_zero))
        };
        told(&script, "btrfs", 2, 1).iter().any(grown)
    };
    let nothing = |_: &mut Script| {};
    let first_page = |script: &mut Script| {
        script.write(0, FOO, 0, 50, 4196);
    };
    let first_page_later = |script: &mut Script| {
        script.write(0, FOO, 0, 50, 4246);
    };
    assert!(!zeros(&nothing, &nothing));
    assert!(zeros(&first_page, &nothing));
    assert!(zeros(&nothing, &first_page_later));
    let synced = |script: &mut Script| {
        script.write(0, FOO, 0, 50, 4196).sync(0, FOO);
    };
    assert!(!zeros(&synced, &nothing));
    let renamed = |script: &mut Script| {
        script.rename(0, FOO, "foo", "bar", None);
    };
    assert!(zeros(&nothing, &renamed));
}

/// xfs makes a file larger only once the disk has all of the page.
#[test]
fn the_page_with_the_end_is_whole_where_a_file_grows_with_its_bytes() {
    let mut script = Script::new(1, &[(FOO, "foo", 2048)]);
    script
        .write(0, FOO, 0, 50, 2048)
        .write(0, FOO, 2048, 1000, 2048)
        .mark(0);
    let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < 2048);
    let grown_alone = |tree: &Tree| {
        let content = content(tree, "foo");
        content.len() == 3048 && is_old(&content[0])
    };
    assert_eq!(who(&script, 1, grown_alone), EXT4);
}

/// ext4 keeps the size like a name, and does not wait for data in a block that has its place.
#[test]
fn in_a_block_that_has_its_place_a_file_may_have_grown_before_its_bytes_are_there() {
    let zeros = |script: &Script, model_name: &str| {
        told(script, model_name, 1, 0).iter().any(|tree| {
            let content = &tree[&(FileId::ROOT, name("foo"))];
            content.len() == 90
                && matches!(content[48], Byte::Written(_))
                && content[49..].iter().all(|byte| *byte == Byte::Zero)
        })
    };
    let mut script = Script::new(1, &[(FOO, "foo", 0)]);
    script
        .write(0, FOO, 0, 49, 0)
        .sync(0, FOO)
        .write(0, FOO, 49, 41, 49)
        .mark(0);
    for model in MODELS {
        assert_eq!(
            zeros(&script, model.name),
            EXT4.contains(&model.name),
            "{}",
            model.name
        );
    }
    // On ext4 that size is kept like a name: with all names before what a sync keeps.
    script.create(0, BAR, "bar").sync(0, BAR).mark(0);
    for model in MODELS {
        let grown = |tree: &Tree| size(tree, "foo") == Some(90);
        let all = told(&script, model.name, 3, 2).iter().all(grown);
        assert_eq!(all, model.name.starts_with("ext4"), "{}", model.name);
    }
}

/// What is written where nothing was before has its place only by the log, which has all before it.
#[test]
fn data_in_new_blocks_is_not_kept_without_the_names_before_it() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    script
        .create(0, BAR, "bar")
        .write(0, FOO, 4096, 8, 4096)
        .mark(0);
    for model in MODELS {
        let alone = |tree: &Tree| !has(tree, "bar") && size(tree, "foo") == Some(4104);
        assert_eq!(
            told(&script, model.name, 1, 1).iter().any(alone),
            model.name == "posix",
            "{}",
            model.name
        );
    }
    // In place it is, but where nothing is.
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    script
        .create(0, BAR, "bar")
        .write(0, FOO, 0, 8, 4096)
        .mark(0);
    for model in MODELS {
        let first = |tree: &Tree| tree[&(FileId::ROOT, name("foo"))][0];
        let alone = |tree: &Tree| !has(tree, "bar") && first(tree) != Byte::Written(0);
        assert_eq!(
            told(&script, model.name, 1, 1).iter().any(alone),
            model.name != "btrfs",
            "{}",
            model.name
        );
    }
}

#[test]
fn a_new_file_can_be_of_full_size_and_all_zeros_where_pages_have_a_place_before_their_bytes() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "foo")
        .write(0, FOO, 0, 16384, 0)
        .create(0, BAR, "bar")
        .sync(0, BAR)
        .mark(0);
    let zeros = |tree: &Tree| {
        has(tree, "bar") && size(tree, "foo") == Some(16384) && is_zeros(&content(tree, "foo"))
    };
    assert_eq!(
        who(&script, 1, zeros),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
}

/// On xfs a truncation writes what the file has grown by up to the new size, and waits for that.
#[test]
fn a_new_size_is_not_there_without_the_bytes_before_it_where_a_file_grows_with_these() {
    let resized = |size: u64, to: u64| {
        let mut script = Script::new(1, &[]);
        let (file, from) = (FOO, 8192);
        script.create(0, FOO, "foo");
        if size > 0 {
            script.write(0, FOO, 0, size, 0).sync(0, FOO);
        }
        script
            .write(0, FOO, 0, 8192, size)
            .file(0, FileOp::Resize { file, from, to })
            .create(0, BAR, "bar")
            .sync(0, FileId::ROOT)
            .mark(0);
        script
    };
    let lacks = |script: &Script, from: usize, to: u64| {
        let is_lacking = |tree: &Tree| {
            let is_written = |byte: &Byte| matches!(byte, Byte::Written(_));
            size(tree, "foo") == Some(to as usize)
                && !content(tree, "foo")[from..to.min(8192) as usize]
                    .iter()
                    .all(is_written)
        };
        who(script, 1, is_lacking)
    };
    let others = ["ext4-ordered", "ext4-writeback", "btrfs"];
    for to in [10_000, 5000] {
        assert_eq!(lacks(&resized(0, to), 0, to), others, "{to}");
        assert_eq!(lacks(&resized(4096, to), 4096, to), others, "{to}");
    }
    // What was written in place is not waited for.
    for to in [10_000, 5000] {
        let in_place = resized(8192, to);
        let is_old = |tree: &Tree| {
            size(tree, "foo") == Some(to as usize) && content(tree, "foo")[0] == Byte::Written(0)
        };
        assert!(who(&in_place, 1, is_old).contains(&"xfs"), "{to}");
    }
}

/// The rest of the last page is made zeros in memory, and written as any page is. On btrfs it is not
/// written for that.
#[test]
fn the_end_of_a_file_that_shrinks_can_be_zeros_before_it_is_gone() {
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    let (from, to) = (8192, 6000);
    script
        .file(
            0,
            FileOp::Resize {
                file: FOO,
                from,
                to,
            },
        )
        .mark(0);
    // A crash in the call itself: what it does last is not there.
    for model in MODELS.iter().filter(|model| model.log != Log::None) {
        let half = told(&script, model.name, 1, 0).into_iter().any(|tree| {
            let bytes = content(&tree, "foo");
            bytes.len() == 8192 && is_zeros(&bytes[6000..]) && !is_zeros(&bytes[..6000])
        });
        assert_eq!(half, model.log == Log::Journal, "{}", model.name);
    }
}

#[test]
fn a_page_is_written_in_place_before_the_size_says_how_much_of_it_there_is() {
    let mut script = Script::new(1, &[(FOO, "foo", 100)]);
    script
        .write(0, FOO, 0, 4096, 100)
        .create(0, BAR, "bar")
        .write(0, FOO, 0, 4096, 4096)
        .mark(0);
    let run = &script.run;
    let last = |byte: &Byte| matches!(byte, Byte::Written(at) if *at >= 100 + 4096);
    for name in ["ext4-ordered", "ext4-writeback", "xfs"] {
        let request = request(model(name), Explore::BruteForce, 3);
        let space = Space::new(run, &request).expect("a space");
        // All is lost but the bytes of the last write, of which only as many are seen as the file
        // has.
        let found = space.at_risk(0, 3).into_iter().any(|at_risk| {
            let keeps = |part: &pace_rules::nodes::Part| {
                let micro = &space.micros(0)[part.micros.start];
                matches!(micro.effect, Effect::Overwrite { .. })
            };
            let parts = || at_risk.parts.iter().enumerate();
            let lost: BTreeSet<usize> = parts()
                .filter(|(_, part)| !keeps(part))
                .flat_map(|(_, part)| part.with.clone())
                .collect();
            let micros = lost
                .iter()
                .flat_map(|part| at_risk.parts[*part].micros.clone());
            let kept = pace_rules::nodes::NodeState {
                micros: at_risk.micros,
                lost: micros.collect(),
            };
            let state = State {
                cut: vec![3],
                nodes: vec![kept],
                relaxation: Relaxation::Lost,
                relaxed: vec![0],
                start: pace_rules::nodes::StartOrder::Together,
            };
            let tree = tree(run, &space, &state, 0);
            let bytes = content(&tree, "foo");
            space.allows(&state)
                && !has(&tree, "bar")
                && bytes.len() == 100
                && bytes.iter().all(last)
        });
        assert!(found, "{name}");
    }
}

#[test]
fn a_page_that_is_synced_makes_the_file_as_large_as_it_is() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    let scope = SyncScope::Range {
        offset: 4096,
        len: 4096,
    };
    script
        .write(0, FOO, 8192, 100, 4096)
        .write(0, FOO, 4096, 4096, 8292)
        .file(0, FileOp::Sync { file: FOO, scope })
        .mark(0);
    assert_eq!(
        who(&script, 1, |tree| size(tree, "foo") == Some(8192)),
        ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]
    );
    // It is no reason to have more names committed than those before it.
    let none: [&str; 0] = [];
    assert_eq!(
        who(&script, 1, |tree| size(tree, "foo") == Some(4096)),
        none
    );
}

/// What was its end goes to the disk with its page, after which the file is longer by now.
#[test]
fn the_page_that_had_the_end_can_make_the_file_as_large_as_it_reaches() {
    let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
    let scope = SyncScope::Range {
        offset: 0,
        len: 8192,
    };
    script
        .write(0, FOO, 4096, 3, 4096)
        .write(0, FOO, 8195, 100, 4099)
        .file(0, FileOp::Sync { file: FOO, scope })
        .mark(0);
    for model in MODELS.iter().filter(|model| model.log != Log::None) {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("a space");
        let events = script.run.nodes[0].events.len();
        let reaches = space.at_risk(0, events).into_iter().any(|at_risk| {
            let micros = space.micros(0);
            let is_more = |micro: &usize| match &micros[*micro].effect {
                Effect::Grow { size, .. } => *size > 8192,
                Effect::Overwrite { offset, .. } => *offset > 8192,
                _ => false,
            };
            let kept = pace_rules::nodes::NodeState {
                micros: at_risk.micros,
                lost: (0..at_risk.micros).filter(is_more).collect(),
            };
            let state = State {
                cut: vec![events],
                nodes: vec![kept],
                relaxation: Relaxation::Lost,
                relaxed: vec![0],
                start: pace_rules::nodes::StartOrder::Together,
            };
            let tree = tree(&script.run, &space, &state, 0);
            space.allows(&state) && size(&tree, "foo") == Some(8192)
        });
        assert!(reaches, "{}", model.name);
    }
}
