//! Crash states of small runs: known answers, and all of them against what the definitions say.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use pace_rules::Sector;
use pace_rules::nodes::{
    Content, Effect, Explore, Log, MODELS, Model, Relaxation, Relaxations, Request, Space, Split,
    State, micros,
};
use proptest::prelude::*;
use trace::{
    Action, ChangeOfName, Data, Event, FileId, FileKind, FileOp, InitialFile, Message, Name, Node,
    Run, SyncScope,
};

/// A run that is written down call by call, on one clock.
#[derive(Default, Clone)]
struct Script {
    run: Run,
    clock: u64,
    bytes: u64,
}

fn name(text: &str) -> Name {
    Arc::from(text.as_bytes())
}

const FOO: FileId = FileId(1);
const BAR: FileId = FileId(2);

impl Script {
    /// Nodes that have a directory with these files, of so many bytes.
    fn new(nodes: usize, files: &[(FileId, &str, u64)]) -> Self {
        let mut this = Self::default();
        for number in 0..nodes {
            let mut node = Node {
                name: format!("node{number}"),
                ..Node::default()
            };
            let of = |file, parent, name, kind, size, content| InitialFile {
                file,
                parent,
                name,
                kind,
                mode: 0o644,
                size,
                content,
            };
            node.initial.push(of(
                FileId::ROOT,
                None,
                name(""),
                FileKind::Directory,
                0,
                vec![],
            ));
            for (file, text, size) in files {
                let content = vec![(0, this.data(*size))];
                node.initial.push(of(
                    *file,
                    Some(FileId::ROOT),
                    name(text),
                    FileKind::Regular,
                    *size,
                    content,
                ));
            }
            this.run.nodes.push(node);
        }
        this
    }

    fn data(&mut self, len: u64) -> Data {
        let at = self.bytes;
        self.bytes += len;
        Data { at, len }
    }

    fn act(&mut self, node: usize, action: Action) -> &mut Self {
        let start_ns = self.clock;
        self.clock += 2;
        let (process, thread) = (node as u32, node as u32);
        let event = Event {
            start_ns,
            end_ns: start_ns + 1,
            process,
            thread,
            call: "call".into(),
            stack: 0,
            action,
        };
        self.run.nodes[node].events.push(event);
        self
    }

    fn file(&mut self, node: usize, op: FileOp) -> &mut Self {
        self.act(node, Action::File(op))
    }

    fn create(&mut self, node: usize, file: FileId, text: &str) -> &mut Self {
        let (parent, kind) = (FileId::ROOT, FileKind::Regular);
        self.file(
            node,
            FileOp::Create {
                parent,
                name: name(text),
                file,
                kind,
                mode: 0o644,
            },
        )
    }

    fn write(
        &mut self,
        node: usize,
        file: FileId,
        offset: u64,
        len: u64,
        size_before: u64,
    ) -> &mut Self {
        let data = self.data(len);
        self.file(
            node,
            FileOp::Write {
                file,
                offset,
                data,
                size_before,
            },
        )
    }

    fn rename(
        &mut self,
        node: usize,
        file: FileId,
        from: &str,
        to: &str,
        replaced: Option<FileId>,
    ) -> &mut Self {
        let place = |text| (FileId::ROOT, name(text));
        let names = ChangeOfName {
            from: place(from),
            to: place(to),
        };
        self.file(
            node,
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange: false,
            },
        )
    }

    fn unlink(&mut self, node: usize, file: FileId, text: &str) -> &mut Self {
        self.file(
            node,
            FileOp::Unlink {
                parent: FileId::ROOT,
                name: name(text),
                file,
            },
        )
    }

    fn sync(&mut self, node: usize, file: FileId) -> &mut Self {
        self.file(
            node,
            FileOp::Sync {
                file,
                scope: SyncScope::File,
            },
        )
    }

    fn datasync(&mut self, node: usize, file: FileId) -> &mut Self {
        self.file(
            node,
            FileOp::Sync {
                file,
                scope: SyncScope::Data,
            },
        )
    }

    fn mark(&mut self, node: usize) -> &mut Self {
        let line = self.data(1);
        self.act(node, Action::Mark { line })
    }

    fn message(&mut self, from: usize, to: usize) -> &mut Self {
        let stream = (from * 10 + to) as u32;
        let message = Message {
            stream,
            from: self.clock,
            to: self.clock + 1,
        };
        self.act(from, Action::Send(message))
            .act(to, Action::Receive(message))
    }
}

fn model(name: &str) -> &'static Model {
    Model::named(name).expect("there is such a model")
}

fn request(model: &'static Model, explore: Explore, lost: usize) -> Request {
    Request {
        model,
        explore,
        lost,
        split: Split::Count(3),
        sector: Sector::default(),
        relaxations: Relaxations::ALL,
    }
}

fn states(run: &Run, request: &Request) -> Vec<State> {
    let space = Space::new(run, request).expect("there are states");
    (0..space.len()).map(|index| space.state(index)).collect()
}

/// What a node's directory has: each name with the content of its file, byte by byte.
type Tree = BTreeMap<(FileId, Name), Vec<Byte>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Byte {
    Zero,
    Garbage,
    Written(u64),
}

fn tree(run: &Run, space: &Space, state: &State, node: usize) -> Tree {
    let mut entries: BTreeMap<(FileId, Name), FileId> = BTreeMap::new();
    let mut files: BTreeMap<FileId, Vec<Byte>> = BTreeMap::new();
    for file in &run.nodes[node].initial {
        let bytes = file
            .content
            .iter()
            .flat_map(|(_, data)| (data.at..data.at + data.len).map(Byte::Written));
        files.insert(file.file, bytes.collect());
        if let Some(parent) = file.parent {
            entries.insert((parent, file.name.clone()), file.file);
        }
    }
    let kept = &state.nodes[node];
    for (number, micro) in space.micros(node)[..kept.micros].iter().enumerate() {
        if kept.lost.contains(&number) {
            continue;
        }
        match &micro.effect {
            Effect::NewFile { file, .. } => drop(files.insert(*file, Vec::new())),
            Effect::SetEntry { parent, name, file } => {
                entries.insert((*parent, name.clone()), *file);
            }
            Effect::RemoveEntry { parent, name, of } => {
                let entry = (*parent, name.clone());
                if of.is_none() || *of == entries.get(&entry).copied() {
                    entries.remove(&entry);
                }
            }
            Effect::SetSize { file, size } => files
                .entry(*file)
                .or_default()
                .resize(*size as usize, Byte::Zero),
            Effect::SetMode { .. } | Effect::SetXattr { .. } => {}
            Effect::Grow { file, size } => {
                let has = files.entry(*file).or_default();
                has.resize(has.len().max(*size as usize), Byte::Zero);
            }
            Effect::Write {
                file,
                offset,
                content,
            }
            | Effect::Overwrite {
                file,
                offset,
                content,
            } => {
                let bytes: Vec<_> = match content {
                    Content::Written(data) => {
                        (data.at..data.at + data.len).map(Byte::Written).collect()
                    }
                    Content::Zeros(len) => vec![Byte::Zero; *len as usize],
                    Content::Garbage(len) => vec![Byte::Garbage; *len as usize],
                };
                let has = files.entry(*file).or_default();
                let mut end = *offset as usize + bytes.len();
                if matches!(micro.effect, Effect::Overwrite { .. }) {
                    end = end.min(has.len()).max(*offset as usize);
                }
                if matches!(micro.effect, Effect::Write { .. }) {
                    has.resize(has.len().max(end), Byte::Zero);
                }
                if let Some(place) = has.get_mut(*offset as usize..end) {
                    place.copy_from_slice(&bytes[..place.len()]);
                }
            }
        }
    }
    entries
        .into_iter()
        .map(|(place, file)| (place, files[&file].clone()))
        .collect()
}

fn marks(run: &Run, state: &State) -> usize {
    let of = |(node, events): (&Node, &usize)| {
        node.events[..*events]
            .iter()
            .filter(|event| matches!(event.action, Action::Mark { .. }))
            .count()
    };
    run.nodes.iter().zip(&state.cut).map(of).sum()
}

/// The trees that one node can have when so many marks were made.
fn told(script: &Script, model_name: &str, lost: usize, wanted: usize) -> BTreeSet<Tree> {
    let request = request(model(model_name), Explore::BruteForce, lost);
    let space = Space::new(&script.run, &request).expect("there are states");
    let all = (0..space.len()).map(|index| space.state(index));
    all.filter(|state| marks(&script.run, state) == wanted)
        .map(|state| tree(&script.run, &space, &state, 0))
        .collect()
}

fn has(tree: &Tree, text: &str) -> bool {
    tree.contains_key(&(FileId::ROOT, name(text)))
}

fn size(tree: &Tree, text: &str) -> Option<usize> {
    tree.get(&(FileId::ROOT, name(text))).map(Vec::len)
}

#[test]
fn an_acknowledgement_before_fsync_may_be_all_that_there_is() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.write(0, FOO, 8, 8, 8).mark(0);
    for model in MODELS {
        assert!(
            told(&script, model.name, 1, 1)
                .iter()
                .any(|tree| size(tree, "foo") == Some(8)),
            "{}",
            model.name
        );
    }
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.write(0, FOO, 8, 8, 8).datasync(0, FOO).mark(0);
    for model in MODELS {
        assert!(
            told(&script, model.name, 1, 1)
                .iter()
                .all(|tree| size(tree, "foo") == Some(16)),
            "{}",
            model.name
        );
    }
}

/// SQLite syncs the directory of its journal so.
#[test]
fn fdatasync_of_a_directory_covers_the_names_in_it() {
    for model in MODELS {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        script
            .unlink(0, FOO, "foo")
            .datasync(0, FileId::ROOT)
            .mark(0);
        let trees = told(&script, model.name, 1, 1);
        let is_there = |tree: &Tree| size(tree, "foo").is_some();
        assert!(!trees.iter().any(is_there), "{}", model.name);
    }
}

#[test]
fn a_rename_is_not_covered_by_fsync_of_the_file_but_where_the_log_has_all() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "tmp")
        .write(0, FOO, 0, 8, 0)
        .sync(0, FOO)
        .rename(0, FOO, "tmp", "wal", None);
    script.write(0, FOO, 8, 8, 8).datasync(0, FOO).mark(0);
    assert!(
        told(&script, "posix", 1, 1)
            .iter()
            .any(|tree| !has(tree, "wal"))
    );
    // The name was not synced either.
    assert!(told(&script, "posix", 2, 1).iter().any(BTreeMap::is_empty));
    for name in ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"] {
        assert!(
            told(&script, name, 3, 1)
                .iter()
                .all(|tree| size(tree, "wal") == Some(16)),
            "{name}"
        );
    }
    script.sync(0, FileId::ROOT).mark(0);
    assert!(
        told(&script, "posix", 3, 2)
            .iter()
            .all(|tree| size(tree, "wal") == Some(16))
    );
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
            // Thirds, or pages in new places.
            "posix" | "btrfs" => (4096, 8192),
            _ => (512, 11776),
        };
        let wanted = [vec![0, first - 1], vec![first, last - 1], vec![last, 12287]];
        assert_eq!(lost, wanted.into(), "{}", model.name);
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

/// A sync of a page writes all of it, also what an earlier call wrote that has another page as well.
#[test]
fn the_sync_of_a_page_keeps_all_that_was_written_to_it() {
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    script
        .write(0, FOO, 0, 5000, 8192)
        .write(0, FOO, 6000, 100, 8192);
    let scope = SyncScope::FileRange {
        offset: 6000,
        len: 100,
    };
    script.file(0, FileOp::Sync { file: FOO, scope }).mark(0);
    let is_old = |tree: &Tree| matches!(content(tree, "foo")[4999], Byte::Written(at) if at < 8192);
    for split in [Split::Count(1), Split::Count(3), Split::Aligned(8192)] {
        for model in MODELS.iter().filter(|model| model.log != Log::None) {
            let request = Request {
                split,
                ..request(model, Explore::BruteForce, 1)
            };
            let space = Space::new(&script.run, &request).expect("there are states");
            let told = (0..space.len()).map(|index| space.state(index));
            let mut told = told.filter(|state| marks(&script.run, state) == 1);
            let lost = told.any(|state| is_old(&tree(&script.run, &space, &state, 0)));
            assert!(!lost, "{} {split}", model.name);
        }
    }
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

#[test]
fn a_file_that_replaces_another_has_its_data_where_that_is_promised() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, BAR, "tmp")
        .write(0, BAR, 0, 8, 0)
        .rename(0, BAR, "tmp", "foo", Some(FOO))
        .mark(0);
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
fn a_log_tree_keeps_what_was_synced_and_what_is_above_it_and_a_journal_all() {
    let (directory, inside) = (FileId(3), FileId(4));
    let mut script = Script::new(1, &[]);
    script.create(0, FOO, "foo");
    let (parent, kind) = (FileId::ROOT, FileKind::Directory);
    script.file(
        0,
        FileOp::Create {
            parent,
            name: name("directory"),
            file: directory,
            kind,
            mode: 0o755,
        },
    );
    let (parent, kind) = (directory, FileKind::Regular);
    script.file(
        0,
        FileOp::Create {
            parent,
            name: name("inside"),
            file: inside,
            kind,
            mode: 0o644,
        },
    );
    script.sync(0, inside).mark(0);
    for model in MODELS.iter().filter(|model| model.name != "posix") {
        let trees = told(&script, model.name, 3, 1);
        assert!(
            trees
                .iter()
                .all(|tree| has(tree, "directory")
                    && tree.contains_key(&(directory, name("inside"))))
        );
        assert_eq!(
            trees.iter().any(|tree| !has(tree, "foo")),
            model.name == "btrfs",
            "{}",
            model.name
        );
    }
    // A name that was moved is synced with its file, and is no commit of everything.
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "foo")
        .create(0, BAR, "tmp")
        .rename(0, BAR, "tmp", "bar", None)
        .sync(0, BAR)
        .mark(0);
    assert!(
        told(&script, "btrfs", 3, 1)
            .iter()
            .all(|tree| has(tree, "bar"))
    );
    assert!(
        told(&script, "btrfs", 3, 1)
            .iter()
            .any(|tree| !has(tree, "foo"))
    );
}

/// What each model says of a tree of a script that has been told so many marks.
fn who(script: &Script, wanted: usize, is: impl Fn(&Tree) -> bool) -> Vec<&'static str> {
    let shows = |model: &&Model| told(script, model.name, 2, wanted).iter().any(&is);
    let models = MODELS.iter().filter(|model| model.log != Log::None);
    models.filter(shows).map(|model| model.name).collect()
}

const EXT4: [&str; 2] = ["ext4-ordered", "ext4-writeback"];

fn content(tree: &Tree, text: &str) -> Vec<Byte> {
    tree[&(FileId::ROOT, name(text))].clone()
}

fn is_zeros(bytes: &[Byte]) -> bool {
    bytes.iter().all(|byte| *byte == Byte::Zero)
}

#[test]
fn fdatasync_of_a_file_that_was_renamed_has_nothing_to_commit_on_ext4() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "tmp")
        .write(0, FOO, 0, 8, 0)
        .datasync(0, FOO)
        .rename(0, FOO, "tmp", "foo", None)
        .datasync(0, FOO)
        .mark(0);
    assert_eq!(who(&script, 1, |tree| has(tree, "tmp")), EXT4);
    // fsync has, and so has any sync of a directory.
    let none: [&str; 0] = [];
    for sync in [(FOO, SyncScope::File), (FileId::ROOT, SyncScope::Data)] {
        let mut script = script.clone();
        let (file, scope) = sync;
        script.file(0, FileOp::Sync { file, scope }).mark(0);
        assert_eq!(who(&script, 2, |tree| has(tree, "tmp")), none);
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

#[test]
fn a_file_that_replaces_another_can_be_zeros_on_ext4_and_empty_elsewhere() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, BAR, "tmp")
        .write(0, BAR, 0, 8, 0)
        .rename(0, BAR, "tmp", "foo", Some(FOO))
        .mark(0);
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

/// The rest of the last page is made zeros in memory, and written as any page is.
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
        assert!(half, "{}", model.name);
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

/// xfs_fs_sync_fs forces the log, and sends nothing to the disk where that is clean.
#[test]
fn sync_of_all_does_not_keep_what_xfs_wrote_in_place() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 8)]);
    script.write(0, FOO, 0, 8, 8);
    script.file(0, FileOp::SyncAll).mark(0);
    let old = |tree: &Tree| matches!(content(tree, "foo")[0], Byte::Written(at) if at < 8);
    assert_eq!(who(&script, 1, old), ["xfs"]);
    // The next sync of a file empties the disk's cache.
    script.sync(0, BAR).mark(0);
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 2, old), none);
}

#[test]
fn a_sync_of_a_range_keeps_no_more_of_the_bytes_than_that() {
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    let scope = SyncScope::Range {
        offset: 4096,
        len: 8,
    };
    script
        .write(0, FOO, 0, 8, 8192)
        .write(0, FOO, 4096, 8, 8192)
        .file(0, FileOp::Sync { file: FOO, scope })
        .mark(0);
    let old = |at: usize| move |tree: &Tree| matches!(content(tree, "foo")[at], Byte::Written(at) if at < 8192);
    assert_eq!(
        who(&script, 1, old(0)),
        ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]
    );
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 1, old(4096)), none);
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

/// btrfs_log_new_name: what the log tree has it follows, and the next sync of anybody keeps it.
#[test]
fn a_new_name_of_what_was_synced_can_be_kept_without_what_was_before_it_on_btrfs() {
    let mut script = Script::new(1, &[(BAR, "bar", 8)]);
    let (from, to) = (8, 0);
    let emptied = FileOp::Resize {
        file: BAR,
        from,
        to,
    };
    script
        .create(0, FOO, "foo")
        .sync(0, FOO)
        .file(0, emptied.clone())
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    let alone = |tree: &Tree| has(tree, "new") && size(tree, "bar") == Some(8);
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
    // A file that was not synced is not in the log.
    let mut script = Script::new(1, &[(BAR, "bar", 8)]);
    script
        .create(0, FOO, "foo")
        .file(0, emptied)
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 1, alone), none);
}

#[test]
fn a_name_in_the_log_of_btrfs_can_have_the_size_of_bytes_that_are_not_there() {
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
        .write(0, FOO, 0, 3, 0)
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    let mut states = Vec::new();
    for syncs in [false, true] {
        if syncs {
            script.sync(0, FileId::ROOT);
        }
        for model in MODELS.iter().filter(|model| model.log != Log::None) {
            // The emptying and the bytes are lost, and all names are there.
            let request = request(model, Explore::BruteForce, 1);
            let space = Space::new(&script.run, &request).expect("a space");
            let micros = space.micros(0);
            let lost = (0..micros.len()).filter(|micro| micros[*micro].event < 2);
            let kept = pace_rules::nodes::NodeState {
                micros: micros.len(),
                lost: lost.collect(),
            };
            let state = State {
                cut: vec![script.run.nodes[0].events.len()],
                nodes: vec![kept],
                relaxation: Relaxation::Lost,
                relaxed: vec![0],
                start: pace_rules::nodes::StartOrder::Together,
            };
            let tree = tree(&script.run, &space, &state, 0);
            let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < 8);
            let is_cut = size(&tree, "new") == Some(3) && content(&tree, "new").iter().all(is_old);
            if is_cut && space.allows(&state) {
                states.push((model.name, syncs));
            }
        }
    }
    assert_eq!(states, [("btrfs", true)]);
}

/// xfs_dir_exchange_children logs the directories, and nothing of regular files.
#[test]
fn fsync_of_a_file_does_not_keep_an_exchange_of_its_name_on_xfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 8)]);
    let names = ChangeOfName {
        from: (FileId::ROOT, name("foo")),
        to: (FileId::ROOT, name("bar")),
    };
    let exchange = FileOp::Rename {
        file: FOO,
        names,
        replaced: Some(BAR),
        exchange: true,
    };
    script.file(0, exchange).sync(0, FOO).mark(0);
    let before = |tree: &Tree| {
        has(tree, "bar") && has(tree, "foo") && content(tree, "foo")[0] == Byte::Written(0)
    };
    assert_eq!(who(&script, 1, before), ["xfs"]);
    let none: [&str; 0] = [];
    script.sync(0, FileId::ROOT).mark(0);
    assert_eq!(who(&script, 2, before), none);
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

/// A page that has its place already says nothing of the size.
#[test]
fn the_sync_of_a_page_that_may_have_its_place_does_not_keep_the_size() {
    let mut script = Script::new(1, &[]);
    let scope = SyncScope::FileRange {
        offset: 0,
        len: 100,
    };
    script
        .create(0, FOO, "foo")
        .write(0, FOO, 0, 100, 0)
        .write(0, FOO, 4096, 100, 100)
        .write(0, FOO, 0, 100, 4196)
        .file(0, FileOp::Sync { file: FOO, scope })
        .mark(0);
    // All that can be lost after the sync is lost.
    for model in MODELS.iter().filter(|model| model.log != Log::None) {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("a space");
        let events = script.run.nodes[0].events.len();
        let sizes = space.at_risk(0, events).into_iter().map(|at_risk| {
            let lost = at_risk.parts.iter().flat_map(|part| part.micros.clone());
            let kept = pace_rules::nodes::NodeState {
                micros: at_risk.micros,
                lost: lost.collect(),
            };
            let state = State {
                cut: vec![events],
                nodes: vec![kept],
                relaxation: Relaxation::Lost,
                relaxed: vec![0],
                start: pace_rules::nodes::StartOrder::Together,
            };
            assert!(space.allows(&state), "{}", model.name);
            size(&tree(&script.run, &space, &state, 0), "foo")
        });
        // On btrfs it has another place, and with that the size; on xfs it had the end of the file,
        // after which it was made zeros.
        let expected = if EXT4.contains(&model.name) {
            100
        } else {
            4096
        };
        assert_eq!(
            sizes.collect::<Vec<_>>(),
            [Some(expected)],
            "{}",
            model.name
        );
    }
}

/// Which file systems can show something once all is done, with any number of losses.
fn who_at_all(script: &Script, is: impl Fn(&Tree) -> bool) -> Vec<&'static str> {
    let events = script.run.nodes[0].events.len();
    let shows = |model: &&'static Model| {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("a space");
        space.at_risk(0, events).into_iter().any(|at_risk| {
            let parts = &at_risk.parts;
            (0..1_u32 << parts.len()).any(|seeds| {
                let seeds = (0..parts.len()).filter(|part| seeds >> part & 1 == 1);
                let lost: BTreeSet<usize> =
                    seeds.flat_map(|part| parts[part].with.clone()).collect();
                let micros = lost.iter().flat_map(|part| parts[*part].micros.clone());
                let kept = pace_rules::nodes::NodeState {
                    micros: at_risk.micros,
                    lost: micros.collect(),
                };
                let state = State {
                    cut: vec![events],
                    nodes: vec![kept],
                    relaxation: Relaxation::Lost,
                    relaxed: vec![0],
                    start: pace_rules::nodes::StartOrder::Together,
                };
                is(&tree(&script.run, &space, &state, 0)) && space.allows(&state)
            })
        })
    };
    let models = MODELS.iter().filter(|model| model.log != Log::None);
    models.filter(shows).map(|model| model.name).collect()
}

/// The size that is logged with a name is that of the file if it is smaller than on the disk.
#[test]
fn a_new_name_in_the_log_of_btrfs_can_have_the_size_to_which_the_file_shrank_later() {
    let resize = |file, to| FileOp::Resize { file, from: 8, to };
    let alone = |tree: &Tree| size(tree, "new") == Some(4) && size(tree, "bar") == Some(8);
    for (is_renamed, models) in [(true, &["btrfs"][..]), (false, &[])] {
        let text = if is_renamed { "foo" } else { "new" };
        let mut script = Script::new(1, &[(FOO, text, 8), (BAR, "bar", 8)]);
        if is_renamed {
            script.rename(0, FOO, "foo", "new", None);
        }
        script
            .file(0, resize(BAR, 0))
            .file(0, resize(FOO, 4))
            .sync(0, FileId::ROOT)
            .mark(0);
        assert_eq!(who_at_all(&script, alone), models, "{is_renamed}");
    }
    // It had its only name when it was logged.
    let mut script = Script::new(1, &[(BAR, "bar", 8)]);
    script
        .create(0, FOO, "new")
        .write(0, FOO, 0, 8, 0)
        .sync(0, FOO)
        .file(0, resize(BAR, 0))
        .file(0, resize(FOO, 4))
        .sync(0, FileId::ROOT)
        .mark(0);
    assert_eq!(who_at_all(&script, alone), NOBODY);
}

/// The log tree has the file too whose name another one took (log_conflicting_inodes).
#[test]
fn the_sync_of_a_file_may_keep_the_new_name_of_the_one_whose_name_it_took_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let other = FileId(3);
    script
        .create(0, other, "other")
        .rename(0, FOO, "foo", "old", None)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .mark(0);
    let alone = |tree: &Tree| has(tree, "old") && !has(tree, "other");
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
}

const DIRECTORY: FileId = FileId(3);
const OTHER: FileId = FileId(4);
const NOBODY: [&str; 0] = [];

/// A new file or directory somewhere.
fn new_in(parent: FileId, text: &str, file: FileId, kind: FileKind) -> FileOp {
    FileOp::Create {
        parent,
        name: name(text),
        file,
        kind,
        mode: 0o755,
    }
}

/// One that is durable, with a directory in it.
fn with_directory(files: &[(FileId, &str, u64)]) -> Script {
    let mut script = Script::new(1, files);
    let directory = new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
    script.file(0, directory).file(0, FileOp::SyncAll);
    script
}

/// The log tree has the last names of a file, and knows nothing of those before: where another file
/// had them it still has.
#[test]
fn a_new_file_is_kept_without_the_rename_that_made_room_for_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .rename(0, FOO, "foo", "bar", None)
        .create(0, BAR, "foo")
        .rename(0, BAR, "foo", "bar", Some(FOO))
        .sync(0, BAR)
        .mark(0);
    let both = |tree: &Tree| size(tree, "foo") == Some(8) && size(tree, "bar") == Some(0);
    assert_eq!(who(&script, 1, both), ["btrfs"]);
    let is_twice = |tree: &Tree| size(tree, "foo") == Some(0);
    assert_eq!(who(&script, 1, is_twice), NOBODY);
    let is_lost = |tree: &Tree| size(tree, "bar") != Some(0);
    assert_eq!(who(&script, 1, is_lost), NOBODY);
}

/// A second name that is not the last one, which another file had before.
#[test]
fn a_name_between_the_first_and_the_last_may_be_left_to_who_had_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, BAR, "bar")
        .rename(0, BAR, "bar", "foo", Some(FOO))
        .rename(0, BAR, "foo", "new", None)
        .sync(0, BAR)
        .mark(0);
    let both = |tree: &Tree| size(tree, "foo") == Some(8) && size(tree, "new") == Some(0);
    assert_eq!(who(&script, 1, both), ["btrfs"]);
    let is_twice = |tree: &Tree| has(tree, "bar") || size(tree, "foo") == Some(0);
    assert_eq!(who(&script, 1, is_twice), NOBODY);
}

/// A file has a name in another directory, with which it was synced, and loses the first one. The
/// directory of that was logged with what was new in it (`link a d/b; fsync d/b; unlink a; fsync d/b`
/// on a recorded disk, with a new file beside a); it is not logged again.
#[test]
fn a_name_may_be_there_again_if_its_directory_was_logged_before_on_btrfs() {
    let (directory, b) = (FileId(8), name("b"));
    let script = |is_new_beside: bool, synced: FileId| {
        let mut script = Script::new(1, &[(FOO, "a", 8)]);
        let mkdir = FileOp::Create {
            parent: FileId::ROOT,
            name: name("d"),
            file: directory,
            kind: FileKind::Directory,
            mode: 0o755,
        };
        script.file(0, mkdir).file(0, FileOp::SyncAll);
        if is_new_beside {
            script.create(0, BAR, "c");
        }
        let (parent, name) = (directory, b.clone());
        let link = FileOp::Link {
            parent,
            name,
            file: FOO,
        };
        script.file(0, link).sync(0, FOO).unlink(0, FOO, "a");
        script.sync(0, synced).mark(0);
        script
    };
    let both = |tree: &Tree| has(tree, "a") && tree.contains_key(&(directory, b.clone()));
    assert_eq!(who(&script(true, FOO), 1, both), ["btrfs"]);
    assert_eq!(who(&script(false, FOO), 1, both), NOBODY);
    assert_eq!(who(&script(true, FileId::ROOT), 1, both), NOBODY);
    // The sync may have kept that it is gone, without the file beside it.
    let is_gone = |tree: &Tree| !has(tree, "a") && !has(tree, "c");
    assert_eq!(who(&script(true, FOO), 1, is_gone), ["btrfs"]);
}

/// A file that was synced gets a name in another directory. With it the directory that it left is
/// logged, with what is new there and nothing of the other one; the sync of anybody keeps that
/// (`unlink d/b; rewrite c; append a dsync; rename a d/a; neighbour` on a recorded disk).
#[test]
fn a_new_name_is_logged_with_what_is_new_where_the_file_was_on_btrfs() {
    let (directory, old, new) = (FileId(8), name("b"), name("a"));
    let script = |is_synced: bool| {
        let mut script = Script::new(1, &[(FOO, "a", 8)]);
        let mkdir = FileOp::Create {
            parent: FileId::ROOT,
            name: name("d"),
            file: directory,
            kind: FileKind::Directory,
            mode: 0o755,
        };
        let create = FileOp::Create {
            parent: directory,
            name: old.clone(),
            file: FileId(9),
            kind: FileKind::Regular,
            mode: 0o644,
        };
        let unlink = FileOp::Unlink {
            parent: directory,
            name: old.clone(),
            file: FileId(9),
        };
        let rename = FileOp::Rename {
            file: FOO,
            names: ChangeOfName {
                from: (FileId::ROOT, name("a")),
                to: (directory, new.clone()),
            },
            replaced: None,
            exchange: false,
        };
        script.file(0, mkdir).file(0, create);
        script.file(0, FileOp::SyncAll);
        script.file(0, unlink).create(0, BAR, "c");
        if is_synced {
            script.sync(0, FOO);
        }
        script.file(0, rename).mark(0);
        script
    };
    let there = |name: &Name| {
        let entry = (directory, name.clone());
        move |tree: &Tree| tree.contains_key(&entry)
    };
    let is_back = |tree: &Tree| there(&old)(tree) && there(&new)(tree) && has(tree, "c");
    assert_eq!(who(&script(true), 1, is_back), ["btrfs"]);
    assert_eq!(who(&script(false), 1, is_back), NOBODY);
}

/// The same where the file was synced under the name that another one had before, and again under
/// its last one: that takes the place of the other in the log.
#[test]
fn a_name_that_was_synced_and_passed_on_may_be_left_to_who_had_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("foo"),
        file: FOO,
    };
    script
        .file(0, unlink)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .mark(0)
        .rename(0, BAR, "foo", "new", None)
        .mark(0)
        .sync(0, BAR)
        .mark(0);
    let is_old = |tree: &Tree| size(tree, "foo") == Some(8);
    assert_eq!(who(&script, 1, is_old), NOBODY);
    assert_eq!(who(&script, 2, is_old), NOBODY);
    let both = |tree: &Tree| is_old(tree) && has(tree, "new");
    assert_eq!(who(&script, 3, both), ["btrfs"]);
    let mut further = script.clone();
    further.create(0, OTHER, "other").mark(0);
    assert!(told(&further, "btrfs", 2, 4).iter().any(both));
    script.sync(0, BAR).mark(0);
    assert_eq!(who_at_all(&script, |tree| !has(tree, "new")), NOBODY);
    script.file(0, FileOp::SyncAll).sync(0, BAR).mark(0);
    assert!(is_all_durable(&script));
    // A name that was passed on before all was synced does not come back with a sync after that.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .rename(0, FOO, "foo", "old", None)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", None)
        .file(0, FileOp::SyncAll)
        .sync(0, BAR)
        .mark(0);
    assert!(is_all_durable(&script));
}

/// btrfs_log_new_name: of an exchange the log tree has what comes from a directory that was synced,
/// whichever of the two that is.
#[test]
fn what_an_exchange_takes_from_a_synced_directory_is_in_the_log_of_btrfs() {
    let there = (DIRECTORY, name("bar"));
    for is_first in [false, true] {
        let mut script = with_directory(&[]);
        script
            .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
            .sync(0, DIRECTORY)
            .create(0, FOO, "foo");
        let (here, in_there) = ((FileId::ROOT, name("foo")), there.clone());
        let (file, other, from, to) = if is_first {
            (BAR, FOO, in_there, here)
        } else {
            (FOO, BAR, here, in_there)
        };
        let exchange = FileOp::Rename {
            file,
            names: ChangeOfName { from, to },
            replaced: Some(other),
            exchange: true,
        };
        script.file(0, exchange).mark(0);
        let is_moved = |tree: &Tree| has(tree, "foo") && !tree.contains_key(&there);
        assert_eq!(who_at_all(&script, is_moved), ["btrfs"], "{is_first}");
    }
}

/// A name of what was synced goes from the log (btrfs_del_inode_ref_in_log): who had it before, and
/// lost it in no log, has it again.
#[test]
fn a_name_that_leaves_the_log_goes_back_to_who_had_it_before_on_btrfs() {
    let begun = |files: &[(FileId, &str, u64)]| {
        let mut script = Script::new(1, files);
        script
            .create(0, OTHER, "other")
            .unlink(0, FOO, "foo")
            .create(0, BAR, "foo")
            .datasync(0, BAR);
        script
    };
    let is_old = |tree: &Tree| size(tree, "foo") == Some(8);
    // It goes to another name, to nobody, or to another file.
    let mut renamed = begun(&[(FOO, "foo", 8)]);
    renamed.rename(0, BAR, "foo", "new", None).mark(0);
    let mut removed = begun(&[(FOO, "foo", 8)]);
    removed.unlink(0, BAR, "foo").mark(0);
    let third = FileId(9);
    let mut replaced = begun(&[(FOO, "foo", 8), (third, "third", 8)]);
    replaced.rename(0, third, "third", "foo", Some(BAR)).mark(0);
    let in_renamed = |tree: &Tree| is_old(tree) && has(tree, "new");
    assert_eq!(who(&renamed, 1, in_renamed), ["btrfs"]);
    let without_other = |tree: &Tree| is_old(tree) && !has(tree, "other");
    assert_eq!(who_at_all(&removed, without_other), ["btrfs"]);
    let by_half = |tree: &Tree| is_old(tree) && has(tree, "third");
    assert_eq!(who_at_all(&replaced, by_half), ["btrfs"]);
    // Where the new name is there, so is all that was before it, or the old file.
    for events in [renamed.run.nodes[0].events.len(), 5] {
        let mut script = renamed.clone();
        script.run.nodes[0].events.truncate(events);
        let is_nobodys = |tree: &Tree| has(tree, "new") && !has(tree, "foo") && !has(tree, "other");
        assert_eq!(who(&script, 1, is_nobodys), NOBODY);
        assert_eq!(who(&script, 0, is_nobodys), NOBODY);
        assert_eq!(who_at_all(&script, is_nobodys), NOBODY);
    }
    let is_lost = |tree: &Tree| !has(tree, "foo") && !has(tree, "new");
    assert_eq!(who_at_all(&renamed, is_lost), NOBODY);
    // A rename that is lost is not there in part.
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&renamed.run, &request).expect("there are states");
    let of_rename = |micro: &usize| space.micros(0)[*micro].event == 4;
    let all: Vec<_> = (0..space.micros(0).len()).filter(of_rename).collect();
    let states = (0..space.len()).map(|index| space.state(index));
    let lost: HashSet<_> = states
        .map(|state| state.nodes[0].lost.clone())
        .filter(|lost| !lost.is_empty() && lost.iter().all(of_rename))
        .collect();
    assert_eq!(lost, HashSet::from([all]));
}

/// A rename that is durable costs nothing, also where a name goes back with another loss.
#[test]
fn what_is_given_back_is_lost_with_others_only() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (DIRECTORY, "early", 8)]);
    script
        .write(0, DIRECTORY, 8, 8, 8)
        .unlink(0, FOO, "foo")
        .create(0, BAR, "foo")
        .rename(0, BAR, "foo", "new", None)
        .sync(0, BAR)
        .create(0, OTHER, "other")
        .mark(0);
    let trees = told(&script, "btrfs", 1, 1);
    let is_early = |tree: &&Tree| size(tree, "early") == Some(8) && has(tree, "other");
    assert_eq!(trees.iter().filter(is_early).count(), 1);
    let is_old = |tree: &&Tree| has(tree, "foo");
    // With what was done before, and at once with all else.
    assert_eq!(trees.iter().filter(is_old).count(), 2);
    let is_without = |tree: &&Tree| !has(tree, "other") && !has(tree, "foo");
    assert_eq!(trees.iter().filter(is_without).count(), 1);
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&script.run, &request).expect("there are states");
    let is_lost =
        |state: &State| state.relaxation == Relaxation::Lost && marks(&script.run, state) == 1;
    let states = (0..space.len()).map(|index| space.state(index));
    let states: Vec<_> = states.filter(is_lost).collect();
    let of_rename = |micro: &usize| space.micros(0)[*micro].event == 3;
    let mut given_back = 0;
    for mut state in states {
        let lost = &mut state.nodes[0].lost;
        assert!(!lost.is_empty());
        lost.retain(of_rename);
        given_back += lost.len();
        assert_eq!(space.allows(&state), state.nodes[0].lost.is_empty());
    }
    assert_eq!(given_back, 1);
}

/// Whether a file begins with the bytes that it had before the run.
fn is_old(run: &Run, tree: &Tree, text: &str) -> bool {
    let file = run.nodes[0]
        .initial
        .iter()
        .find(|file| file.name == name(text));
    let (_, data) = &file.expect("it was there").content[0];
    content(tree, text)[0] == Byte::Written(data.at)
}

/// The states of a run that lost all at once, with their numbers.
fn synced(space: &Space) -> Vec<(u64, State)> {
    let all = (0..space.len()).map(|index| (index, space.state(index)));
    all.filter(|(_, state)| state.relaxation == Relaxation::Synced)
        .collect()
}

const THREE: [(FileId, &str, u64); 3] = [(FOO, "foo", 8), (BAR, "bar", 8), (OTHER, "other", 8)];

/// Three files are overwritten; what is synced before an acknowledgement is there, and nothing else
/// need be.
#[test]
fn all_that_nothing_made_durable_is_lost_at_once() {
    for kept in 0..1 << THREE.len() {
        let is_kept = |place: usize| kept >> place & 1 == 1;
        let mut script = Script::new(1, &THREE);
        for (file, ..) in THREE {
            script.write(0, file, 0, 8, 8);
        }
        for (place, (file, ..)) in THREE.into_iter().enumerate() {
            if is_kept(place) {
                script.sync(0, file);
            }
        }
        script.mark(0);
        let is_meant = |tree: &Tree| {
            let mut files = THREE.iter().enumerate();
            files.all(|(place, (_, text, _))| is_old(&script.run, tree, text) != is_kept(place))
        };
        for model in MODELS {
            let told = told(&script, model.name, 1, 1);
            assert!(told.iter().any(is_meant), "{} {kept}", model.name);
        }
    }
}

/// The program may have been anywhere between two syncs: what it acknowledges there decides, and how
/// far it had come at the end.
#[test]
fn a_state_that_lost_all_at_once_is_of_the_last_moment_before_more_is_durable() {
    for (acknowledges, states) in [(false, 2), (true, 7)] {
        let mut script = Script::new(1, &THREE);
        for _ in 0..2 {
            script.write(0, FOO, 0, 8, 8);
            for _ in 0..3 {
                script.write(0, BAR, 0, 8, 8);
                if acknowledges {
                    script.mark(0);
                }
            }
            script.write(0, OTHER, 0, 8, 8).sync(0, OTHER);
        }
        for model in MODELS {
            let request = request(model, Explore::BruteForce, 1);
            let space = Space::new(&script.run, &request).expect("there are states");
            assert_eq!(synced(&space).len(), states, "{}", model.name);
        }
    }
}

#[test]
fn who_syncs_each_thing_before_the_next_loses_nothing_at_once() {
    let mut script = Script::new(1, &THREE);
    for (file, ..) in THREE.into_iter().cycle().take(30) {
        script.write(0, file, 0, 8, 8).sync(0, file).mark(0);
    }
    for model in MODELS {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        assert_eq!(synced(&space), [], "{}", model.name);
    }
}

/// Of what is lost at once any part can be lost alone, with what cannot be kept without it.
#[test]
fn of_all_that_is_lost_at_once_some_is_lost() {
    let mut script = Script::new(1, &THREE);
    for (file, ..) in THREE {
        script.write(0, file, 0, 8, 8);
    }
    script.mark(0);
    for model in MODELS {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        let [(index, _)] = synced(&space)[..] else {
            panic!("one state, on {}", model.name);
        };
        let all = space.losses(index);
        assert_eq!(all.len(), 3);
        for lost in 0..1 << all.len() {
            let is_lost = |place: usize| lost >> place & 1 == 1;
            let some = all.iter().enumerate().filter(|(place, _)| is_lost(*place));
            let some: Vec<_> = some.map(|(_, loss)| *loss).collect();
            let state = space.with_losses(index, &some);
            assert!(space.allows(&state), "{} {state:?}", model.name);
            let tree = tree(&script.run, &space, &state, 0);
            let is_old = THREE.map(|(_, text, _)| is_old(&script.run, &tree, text));
            assert_eq!(is_old, [0, 1, 2].map(is_lost), "{}", model.name);
            assert_eq!(marks(&script.run, &state), 1);
        }
        // Those with a number lack some of it, and nothing else.
        let fewer = space.with_fewer_lost(index);
        assert!(fewer.len() >= 3, "{}", model.name);
        let is_part = |number: &u64| space.losses(*number).iter().all(|loss| all.contains(loss));
        assert!(fewer.iter().all(is_part), "{}", model.name);
        assert!(space.with_fewer_lost(0).is_empty());
    }
}

/// Each node alone, and all of them, with the most that clients had been told.
#[test]
fn nodes_lose_all_at_once_alone_and_together() {
    let mut script = Script::new(2, &THREE);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for node in [0, 1] {
        script.write(node, FOO, 0, 8, 8).write(node, BAR, 0, 8, 8);
    }
    script.message(0, 2).message(1, 2).mark(2);
    let losers = |explore| -> BTreeSet<Vec<usize>> {
        let request = request(model("posix"), explore, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        let told = synced(&space).into_iter().filter(|(_, state)| {
            let lost = state
                .nodes
                .iter()
                .map(|node| node.lost.len())
                .sum::<usize>();
            marks(&script.run, state) == 1 && lost >= 2
        });
        told.map(|(_, state)| state.relaxed).collect()
    };
    let all = [vec![0], vec![0, 1], vec![1]];
    assert_eq!(losers(Explore::BruteForce), all.clone().into());
    assert_eq!(losers(Explore::SameOnAll), all.clone().into());
    assert_eq!(losers(Explore::PrimaryReplicas { primary: 1 }), all.into());
    let majority = Explore::ReplicatedStateMachine { majority: 0 };
    assert_eq!(losers(majority), [vec![0, 1]].into());
}

/// How often it is said that the first file has lost a name.
fn removals(script: &Script) -> usize {
    let all = micros(&script.run.nodes[0], model("btrfs"));
    all.iter()
        .filter(|micro| matches!(micro.effect, Effect::RemoveEntry { of: Some(FOO), .. }))
        .count()
}

/// The same of a file that had the name for a time, and of those before.
#[test]
fn a_name_goes_back_to_the_first_and_to_the_last_of_those_who_had_it_on_btrfs() {
    let (second, third) = (FileId(8), FileId(9));
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .unlink(0, FOO, "foo")
        .create(0, second, "foo")
        .write(0, second, 0, 5, 0)
        .rename(0, second, "foo", "second", None)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", None)
        .mark(0);
    let shows = |wanted| move |tree: &Tree| has(tree, "new") && size(tree, "foo") == wanted;
    // The bytes of the second were not written.
    for (wanted, models) in [
        (Some(8), &["btrfs"][..]),
        (Some(0), &["btrfs"]),
        (None, &["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]),
    ] {
        assert_eq!(who_at_all(&script, shows(wanted)), models, "{wanted:?}");
    }
    let twice = |tree: &Tree| shows(Some(0))(tree) && has(tree, "second");
    assert_eq!(who_at_all(&script, twice), NOBODY);
    // More of them between the two make no difference.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.unlink(0, FOO, "foo");
    for file in [second, third] {
        script.create(0, file, "foo").unlink(0, file, "foo");
    }
    script
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", None)
        .mark(0);
    for wanted in [8, 0] {
        assert_eq!(who_at_all(&script, shows(Some(wanted))), ["btrfs"]);
    }
    // A sync of the directory keeps that they lost it, and so does one of all.
    for sync in [
        FileOp::SyncAll,
        FileOp::Sync {
            file: FileId::ROOT,
            scope: SyncScope::File,
        },
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        script
            .unlink(0, FOO, "foo")
            .file(0, sync)
            .create(0, third, "foo")
            .sync(0, third)
            .rename(0, third, "foo", "new", None);
        let is_old = |tree: &Tree| size(tree, "foo") == Some(8);
        assert_eq!(who_at_all(&script, is_old), NOBODY);
        assert_eq!(removals(&script), 1);
    }
    // Without a log there is nothing to give back.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .unlink(0, FOO, "foo")
        .create(0, third, "foo")
        .rename(0, third, "foo", "new", None)
        .file(0, FileOp::SyncAll)
        .sync(0, third);
    assert_eq!(removals(&script), 1);
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

/// btrfs_del_inode_ref_in_log: the log tree has the file, and no name of it. So it has the one that
/// is on the disk.
#[test]
fn a_file_without_its_last_name_has_those_of_before_on_btrfs() {
    let renamed = |synced: &[FileId]| {
        let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 8)]);
        script.rename(0, FOO, "foo", "new", None);
        for file in synced {
            script.sync(0, *file);
        }
        script
    };
    let is_old = |tree: &Tree| has(tree, "foo");
    // It is removed, or replaced; with something else after that.
    for (synced, models) in [
        (&[FOO][..], &["btrfs"][..]),
        (&[FileId::ROOT], &[]),
        (&[FOO, FileId::ROOT], &[]),
    ] {
        let mut script = renamed(synced);
        script.unlink(0, FOO, "new").mark(0);
        assert_eq!(who(&script, 1, is_old), models, "{synced:?}");
        script.create(0, OTHER, "other").mark(0);
        assert_eq!(who(&script, 2, is_old), models, "{synced:?}");
        assert_eq!(who_at_all(&script, is_old), models, "{synced:?}");
        let mut script = renamed(synced);
        script.rename(0, BAR, "bar", "new", Some(FOO)).mark(0);
        assert_eq!(who(&script, 1, is_old), models, "{synced:?}");
    }
    // What was synced is not lost with what was done before it.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, OTHER, "other")
        .rename(0, FOO, "foo", "new", None)
        .sync(0, FOO)
        .unlink(0, FOO, "new")
        .mark(0);
    let alone = |tree: &Tree| has(tree, "new") && !has(tree, "other");
    assert_eq!(who_at_all(&script, alone), ["btrfs"]);
    // It has another name, or was never in a log, or all is synced, before or after.
    let mut linked = renamed(&[]);
    let link = FileOp::Link {
        parent: FileId::ROOT,
        name: name("link"),
        file: FOO,
    };
    linked.file(0, link).sync(0, FOO).unlink(0, FOO, "new");
    let mut before = renamed(&[FOO]);
    before.file(0, FileOp::SyncAll).unlink(0, FOO, "new");
    let mut after = renamed(&[FOO]);
    after.unlink(0, FOO, "new").file(0, FileOp::SyncAll);
    for script in [linked, before, after] {
        assert_eq!(who_at_all(&script, is_old), NOBODY);
    }
}

/// Whether nothing is left on btrfs that a crash can cost once all is done.
fn is_all_durable(script: &Script) -> bool {
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&script.run, &request).expect("a space");
    let at_risk = space.at_risk(0, script.run.nodes[0].events.len());
    at_risk.iter().all(|at_risk| at_risk.parts.is_empty())
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

/// With a name in a directory that is synced, a file is logged with all that it has, and with none
/// that it had.
#[test]
fn the_sync_of_a_directory_may_keep_half_a_rename_elsewhere_on_btrfs() {
    let mut script = with_directory(&[(FOO, "foo", 8)]);
    let third = FileId(9);
    let link = FileOp::Link {
        parent: third,
        name: name("link"),
        file: FOO,
    };
    let rename = FileOp::Rename {
        file: FOO,
        names: ChangeOfName {
            from: (FileId::ROOT, name("foo")),
            to: (DIRECTORY, name("foo")),
        },
        replaced: None,
        exchange: false,
    };
    script
        .file(0, new_in(FileId::ROOT, "third", third, FileKind::Directory))
        .file(0, FileOp::SyncAll)
        .file(0, rename)
        .file(0, link)
        .sync(0, third)
        .mark(0);
    let is_there = |tree: &Tree| tree.contains_key(&(DIRECTORY, name("foo")));
    let both = |tree: &Tree| has(tree, "foo") && is_there(tree);
    assert_eq!(who_at_all(&script, both), ["btrfs"]);
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

/// The sync of a file with several names covers that another file took one of them.
#[test]
fn the_sync_of_a_file_keeps_that_it_lost_a_name_to_another_one() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let link = FileOp::Link {
        parent: FileId::ROOT,
        name: name("link"),
        file: FOO,
    };
    script
        .file(0, link)
        .create(0, BAR, "bar")
        .rename(0, BAR, "bar", "foo", Some(FOO))
        .sync(0, FOO)
        .mark(0);
    assert_eq!(
        who_at_all(&script, |tree| size(tree, "foo") == Some(8)),
        NOBODY
    );
}

/// btrfs_log_inode_parent: with no name a file is not logged, and neither is that it lost them. An
/// ordered journal has that before the sync.
#[test]
fn the_sync_of_a_file_without_a_name_keeps_nothing_of_its_names_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("foo"),
        file: FOO,
    };
    script.file(0, unlink).sync(0, FOO).mark(0);
    assert_eq!(who(&script, 1, |tree| has(tree, "foo")), ["btrfs"]);
}

/// The name goes from the log tree at once, and the file that has it now is not in there.
#[test]
fn a_name_that_was_synced_and_replaced_can_be_nobodys_on_btrfs() {
    let bar = (DIRECTORY, name("bar"));
    let neither = |tree: &Tree| !has(tree, "foo") && !tree.contains_key(&bar);
    let from_directory = FileOp::Rename {
        file: BAR,
        names: ChangeOfName {
            from: bar.clone(),
            to: (FileId::ROOT, name("foo")),
        },
        replaced: Some(FOO),
        exchange: false,
    };
    // What was synced: with its old directory the log tree has the new name too.
    for (synced, models) in [
        (vec![FOO], &["btrfs"][..]),
        (vec![FileId::ROOT], &["btrfs"]),
        (vec![FileId::ROOT, DIRECTORY], &[]),
        (vec![], &[]),
    ] {
        let mut script = with_directory(&[(FOO, "foo", 8)]);
        for synced in &synced {
            script.sync(0, *synced);
        }
        script
            .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
            .file(0, from_directory.clone())
            .mark(0);
        assert_eq!(who(&script, 1, neither), models, "{synced:?}");
    }
}

/// btrfs_del_inode_ref_in_log, btrfs_del_dir_entries_in_log.
#[test]
fn a_name_that_was_synced_can_go_before_what_was_done_before_on_btrfs() {
    let alone = |tree: &Tree| !has(tree, "foo") && !has(tree, "bar");
    for (synced, models) in [
        (Some(FOO), &["btrfs"][..]),
        (Some(FileId::ROOT), &["btrfs"]),
        (None, &[]),
    ] {
        let mut script = Script::new(1, &[]);
        script.create(0, FOO, "foo").file(0, FileOp::SyncAll);
        if let Some(synced) = synced {
            script.sync(0, synced);
        }
        let unlink = FileOp::Unlink {
            parent: FileId::ROOT,
            name: name("foo"),
            file: FOO,
        };
        script.create(0, BAR, "bar").file(0, unlink).mark(0);
        assert_eq!(who(&script, 1, alone), models, "{synced:?}");
    }
}

/// btrfs_log_inode_parent stops at a directory that is on the disk already.
#[test]
fn the_sync_of_a_file_does_not_keep_the_new_name_of_an_old_directory_on_btrfs() {
    let is_in =
        |tree: &Tree, text| tree.contains_key(&(DIRECTORY, name("file"))) && has(tree, text);
    let mut script = with_directory(&[]);
    script
        .rename(0, DIRECTORY, "directory", "new", None)
        .file(0, new_in(DIRECTORY, "file", FOO, FileKind::Regular))
        .sync(0, FOO)
        .mark(0);
    assert_eq!(who(&script, 1, |tree| is_in(tree, "directory")), ["btrfs"]);
    let is_lost = |tree: &Tree| !is_in(tree, "directory") && !is_in(tree, "new");
    assert_eq!(who(&script, 1, is_lost), NOBODY);
}

/// One that is new is logged with the name that it has, and nothing else that was done before.
#[test]
fn the_sync_of_a_file_keeps_the_new_directory_above_it_and_its_name_on_btrfs() {
    let mut script = Script::new(1, &[]);
    let directory = new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
    script
        .file(0, directory)
        .create(0, OTHER, "other")
        .rename(0, DIRECTORY, "directory", "new", None)
        .file(0, new_in(DIRECTORY, "file", FOO, FileKind::Regular))
        .sync(0, FOO)
        .mark(0);
    let is_there =
        |tree: &Tree, text| tree.contains_key(&(DIRECTORY, name("file"))) && has(tree, text);
    let alone = |tree: &Tree| is_there(tree, "new") && !has(tree, "other");
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
    let is_lost = |tree: &Tree| !is_there(tree, "new") && !is_there(tree, "directory");
    assert_eq!(who(&script, 1, is_lost), NOBODY);
}

/// btrfs_log_all_parents: what is new in them can be there without what was done before.
#[test]
fn the_sync_of_a_file_with_a_new_name_may_keep_what_else_its_directories_have_on_btrfs() {
    let inside = |tree: &Tree, text| tree.contains_key(&(DIRECTORY, name(text)));
    let link = |parent, text, file| FileOp::Link {
        parent,
        name: name(text),
        file,
    };
    let unlink = FileOp::Unlink {
        parent: DIRECTORY,
        name: name("other"),
        file: OTHER,
    };
    let renamed = FileOp::Rename {
        file: BAR,
        names: ChangeOfName {
            from: (DIRECTORY, name("file")),
            to: (DIRECTORY, name("bar")),
        },
        replaced: None,
        exchange: false,
    };
    let second_gone = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("second"),
        file: BAR,
    };
    let synced = || {
        let mut script = with_directory(&[(FOO, "foo", 8)]);
        script
            .file(0, new_in(DIRECTORY, "file", BAR, FileKind::Regular))
            .file(0, new_in(DIRECTORY, "other", OTHER, FileKind::Regular))
            .file(0, link(FileId::ROOT, "second", BAR))
            .file(0, FileOp::SyncAll)
            .rename(0, FOO, "foo", "old", None);
        script
    };
    // What else is done in the directory, and the name that is there then, or is not.
    let new = new_in(DIRECTORY, "new", FileId(9), FileKind::Regular);
    for (op, text, is_new) in [
        (new, "new", true),
        (link(DIRECTORY, "new", OTHER), "new", true),
        (unlink, "other", false),
    ] {
        // The file has a new name, or not.
        let ways = [
            (Some(link(FileId::ROOT, "link", BAR)), &["btrfs"][..]),
            (Some(renamed.clone()), &["btrfs"]),
            (Some(second_gone.clone()), &["btrfs"]),
            (None, &[]),
        ];
        for (naming, models) in ways {
            let mut script = synced();
            if let Some(naming) = &naming {
                script.file(0, naming.clone());
            }
            script.file(0, op.clone()).sync(0, BAR).mark(0);
            let alone = |tree: &Tree| inside(tree, text) == is_new && has(tree, "foo");
            assert_eq!(who(&script, 1, alone), models, "{op:?} {naming:?}");
        }
    }
}

/// The name with which such a file was made is one of them.
#[test]
fn the_sync_of_a_directory_may_keep_the_first_name_of_a_file_that_is_linked_in_it_on_btrfs() {
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("foo"),
        file: FOO,
    };
    let link = FileOp::Link {
        parent: DIRECTORY,
        name: name("link"),
        file: BAR,
    };
    for (is_linked, models) in [(true, &["btrfs"][..]), (false, &[])] {
        let mut script = with_directory(&[(FOO, "foo", 8)]);
        script.file(0, unlink.clone()).create(0, BAR, "bar");
        if is_linked {
            script.file(0, link.clone());
        }
        script.sync(0, DIRECTORY).mark(0);
        let alone = |tree: &Tree| has(tree, "foo") && has(tree, "bar");
        assert_eq!(who(&script, 1, alone), models, "{is_linked}");
    }
}

/// log_new_dir_dentries: a directory that has a new name in one that is logged is logged too, with
/// what is new in it, and so on below it.
#[test]
fn the_sync_of_a_directory_may_keep_what_is_in_those_with_new_names_in_it_on_btrfs() {
    let inner = FileId(9);
    let inside =
        |parent, text: &'static str| move |tree: &Tree| tree.contains_key(&(parent, name(text)));
    let rename = |file, from: (FileId, &str), to: (FileId, &str)| FileOp::Rename {
        file,
        names: ChangeOfName {
            from: (from.0, name(from.1)),
            to: (to.0, name(to.1)),
        },
        replaced: None,
        exchange: false,
    };
    let moved = rename(
        DIRECTORY,
        (FileId::ROOT, "directory"),
        (FileId::ROOT, "moved"),
    );
    let create = new_in(DIRECTORY, "new", FileId(10), FileKind::Regular);
    let in_new = [
        new_in(DIRECTORY, "inner", inner, FileKind::Directory),
        new_in(inner, "new", FileId(10), FileKind::Regular),
    ];
    let within = rename(BAR, (DIRECTORY, "bar"), (DIRECTORY, "new"));
    let third = FileId(11);
    let into = rename(FOO, (third, "foo"), (DIRECTORY, "new"));
    // What is done in the directory, and where something new is there then.
    for (ops, parent) in [
        (vec![create], DIRECTORY),
        (in_new.to_vec(), inner),
        (vec![within], DIRECTORY),
        (vec![into], DIRECTORY),
    ] {
        for (is_moved, models) in [(true, &["btrfs"][..]), (false, &[])] {
            let mut script = with_directory(&[(OTHER, "other", 8)]);
            script
                .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
                .file(0, new_in(FileId::ROOT, "third", third, FileKind::Directory))
                .file(0, new_in(third, "foo", FOO, FileKind::Regular))
                .file(0, FileOp::SyncAll);
            let emptied = FileOp::Resize {
                file: OTHER,
                from: 8,
                to: 0,
            };
            script.file(0, emptied);
            for op in &ops {
                script.file(0, op.clone());
            }
            if is_moved {
                script.file(0, moved.clone());
            }
            script.sync(0, FileId::ROOT).mark(0);
            let is_there = inside(parent, "new");
            let alone = |tree: &Tree| is_there(tree) && size(tree, "other") == Some(8);
            assert_eq!(who_at_all(&script, alone), models, "{ops:?}");
        }
    }
}

/// What goes from such a directory to another one, or takes the name of something in it, is not
/// removed for itself.
#[test]
fn nothing_is_lost_with_a_directory_that_has_a_new_name_on_btrfs() {
    let third = FileId(9);
    let rename = |file, from: (FileId, &str), to: (FileId, &str), replaced| FileOp::Rename {
        file,
        names: ChangeOfName {
            from: (from.0, name(from.1)),
            to: (to.0, name(to.1)),
        },
        replaced,
        exchange: false,
    };
    let root = FileId::ROOT;
    for (to, replaced) in [((third, "new"), None), ((DIRECTORY, "bar"), Some(BAR))] {
        let mut script = with_directory(&[]);
        script
            .file(0, new_in(DIRECTORY, "foo", FOO, FileKind::Regular))
            .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
            .file(0, new_in(root, "third", third, FileKind::Directory))
            .file(0, FileOp::SyncAll)
            .file(0, rename(FOO, (DIRECTORY, "foo"), to, replaced))
            .file(
                0,
                rename(DIRECTORY, (root, "directory"), (root, "moved"), None),
            )
            .sync(0, root)
            .mark(0);
        let is_there = |tree: &Tree, (parent, text)| tree.contains_key(&(parent, name(text)));
        let is_lost = |tree: &Tree| {
            let is_old = is_there(tree, (DIRECTORY, "foo"));
            !is_there(tree, to) && (!is_old || replaced.is_some())
        };
        assert_eq!(who_at_all(&script, is_lost), NOBODY, "{to:?}");
    }
}

/// A directory that is in the log, since it is new or has a new name there, is one that was synced.
#[test]
fn what_was_logged_with_something_else_follows_new_names_on_btrfs() {
    let file = FileId(9);
    let directory = || new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
    let rename = |file, from: (FileId, &str), to: (FileId, &str)| FileOp::Rename {
        file,
        names: ChangeOfName {
            from: (from.0, name(from.1)),
            to: (to.0, name(to.1)),
        },
        replaced: None,
        exchange: false,
    };
    let of_directory = rename(
        DIRECTORY,
        (FileId::ROOT, "directory"),
        (FileId::ROOT, "new"),
    );
    let of_file = rename(file, (DIRECTORY, "file"), (DIRECTORY, "new"));
    for (synced, is_durable, renamed, parent, models) in [
        (file, false, &of_directory, FileId::ROOT, &["btrfs"][..]),
        (file, true, &of_directory, FileId::ROOT, &[]),
        (FileId::ROOT, false, &of_file, DIRECTORY, &["btrfs"]),
        (FileId::ROOT, true, &of_file, DIRECTORY, &[]),
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        let emptied = FileOp::Resize {
            file: FOO,
            from: 8,
            to: 0,
        };
        script.file(0, directory());
        if is_durable {
            script.file(0, FileOp::SyncAll);
        }
        script
            .file(0, new_in(DIRECTORY, "file", file, FileKind::Regular))
            .sync(0, synced)
            .file(0, emptied)
            .file(0, renamed.clone())
            .mark(0);
        let is_there = |tree: &Tree| tree.contains_key(&(parent, name("new")));
        let alone = |tree: &Tree| is_there(tree) && size(tree, "foo") == Some(8);
        assert_eq!(who(&script, 1, alone), models, "{synced:?} {is_durable}");
    }
}

/// With a new file in a directory that is synced all its names are logged.
#[test]
fn the_sync_of_a_directory_may_keep_other_names_of_the_files_in_it_on_btrfs() {
    let (directory, other) = (FileId(3), FileId(4));
    let mut script = Script::new(1, &[]);
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
    let inside = |file, text| FileOp::Create {
        parent: directory,
        name: name(text),
        file,
        kind: FileKind::Regular,
        mode: 0o644,
    };
    let link = FileOp::Link {
        parent: directory,
        name: name("link"),
        file: FOO,
    };
    script
        .file(0, inside(other, "other"))
        .create(0, FOO, "foo")
        .file(0, link)
        .sync(0, FileId::ROOT)
        .mark(0);
    let is_there = |tree: &Tree, text| tree.contains_key(&(directory, name(text)));
    let alone = |tree: &Tree| is_there(tree, "link") && !is_there(tree, "other");
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
}

#[test]
fn an_attribute_is_no_reason_for_fdatasync_to_commit() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let value = Some(script.data(1));
    let set = FileOp::SetXattr {
        file: FOO,
        name: name("user.a"),
        value,
    };
    script
        .create(0, BAR, "bar")
        .file(0, set)
        .datasync(0, FOO)
        .mark(0);
    assert_eq!(
        who(&script, 1, |tree| !has(tree, "bar")),
        ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]
    );
}

#[test]
fn growth_that_is_taken_back_is_no_reason_for_fdatasync_to_commit_on_ext4() {
    // Shown by a disk: has a 4096; write a 8192 12288; chmod a 600; truncate a 4096; fdatasync a
    let written = |size: u64, offset: u64, to: u64| {
        let mut script = Script::new(1, &[(FOO, "foo", size)]);
        let (file, from) = (FOO, offset + 4096);
        script
            .create(0, BAR, "bar")
            .write(0, FOO, offset, 4096, size)
            .file(0, FileOp::Resize { file, from, to })
            .datasync(0, FOO)
            .mark(0);
        script
    };
    let lacks_bar = |script: &Script| who(script, 1, |tree| !has(tree, "bar"));
    let taken_back = written(4096, 8192, 4096);
    assert_eq!(
        lacks_bar(&taken_back),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
    // Either the disk never had what it grew by, or that was a reason.
    let none: [&str; 0] = [];
    let is_larger = |tree: &Tree| size(tree, "foo") > Some(4096);
    assert_eq!(who(&taken_back, 1, is_larger), none);
    // Nor is it one for the next. Shown by a disk: has a 8192; rewrite c 5000; write a 12288 100;
    // truncate a 8192; fdatasync a; write a 0 50 dsync
    let mut twice = taken_back;
    twice.write(0, FOO, 0, 50, 4096).datasync(0, FOO).mark(0);
    let who_lacks_bar = who(&twice, 2, |tree| !has(tree, "bar"));
    assert_eq!(who_lacks_bar, ["ext4-ordered", "ext4-writeback", "btrfs"]);
    // The write may begin in a block that is full. Shown by a disk: has b 12288; write b 8849 5000;
    // rewrite a 8192; truncate b 12288; fdatasync b
    let from_within = written(4096, 2048, 4096);
    assert_eq!(
        lacks_bar(&from_within),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
    let is_old = |tree: &Tree| content(tree, "foo")[4095] == Byte::Written(4095);
    assert_eq!(who(&from_within, 1, is_old), none);
    assert_eq!(who(&from_within, 1, is_larger), none);
    // Another size than the one that the disk had is a reason, and so is growth within a block that
    // has its place: that size was known at once.
    assert_eq!(lacks_bar(&written(4096, 8192, 4000)), ["btrfs"]);
    assert_eq!(lacks_bar(&written(100, 100, 100)), ["btrfs"]);
}

/// Two replicas that write, sync and answer; the client has its acknowledgement of both.
fn replicated(syncs: bool) -> Script {
    let mut script = Script::new(2, &[(FOO, "foo", 0)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for round in 0..2 {
        for node in 0..2 {
            script
                .message(2, node)
                .write(node, FOO, round * 8, 8, round * 8);
            if syncs {
                script.sync(node, FOO);
            }
            script.message(node, 2);
        }
        script.mark(2);
    }
    script
}

#[test]
fn what_all_replicas_synced_is_there_when_it_was_acknowledged() {
    let lost = |script: &Script, explore| {
        let request = request(model("posix"), explore, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        (0..space.len())
            .map(|index| space.state(index))
            .any(|state| {
                let least = (0..2)
                    .map(|node| {
                        tree(&script.run, &space, &state, node)[&(FileId::ROOT, name("foo"))].len()
                    })
                    .min();
                least.expect("two nodes") < marks(&script.run, &state) * 8
            })
    };
    for explore in [
        Explore::ReplicatedStateMachine { majority: 0 },
        Explore::PrimaryReplicas { primary: 0 },
        Explore::SameOnAll,
        Explore::BruteForce,
    ] {
        assert!(!lost(&replicated(true), explore), "{explore:?}");
        assert!(lost(&replicated(false), explore), "{explore:?}");
    }
}

/// Three nodes replace a file by a new one with the name that `named` gives, and none syncs its
/// directory; a client has that acknowledged.
fn replaced_by_rename(named: impl Fn(usize) -> &'static str) -> Script {
    let mut script = Script::new(3, &[(FOO, "data", 4)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for node in 0..3 {
        let new = named(node);
        script
            .message(3, node)
            .create(node, BAR, new)
            .write(node, BAR, 0, 8, 0)
            .sync(node, BAR)
            .rename(node, BAR, new, "data", Some(FOO))
            .message(node, 3);
    }
    script.mark(3);
    script
}

/// Of the states in which everything was acknowledged, the nodes that lack the new content.
fn lacking(script: &Script, majority: usize) -> BTreeSet<Vec<usize>> {
    let explore = Explore::ReplicatedStateMachine { majority };
    let request = request(model("posix"), explore, 1);
    let space = Space::new(&script.run, &request).expect("there are states");
    let states = (0..space.len()).map(|index| space.state(index));
    let told = states.filter(|state| marks(&script.run, state) == 1);
    let lacking = |state: State| {
        let lacks = |node: &usize| {
            let tree = tree(&script.run, &space, &state, *node);
            let content = tree.get(&(FileId::ROOT, name("data")));
            content.is_none_or(|content| content.len() != 8)
        };
        (0..3).filter(lacks).collect()
    };
    told.map(lacking).collect()
}

#[test]
fn nodes_lose_together_what_they_do_to_files_with_names_that_say_nothing() {
    const LETTERS: [&str; 3] = ["tmp.AbXqoP", "tmp.kLsWmv", "tmp.zzTrPa"];
    let numbered = replaced_by_rename(|node| ["tmp.101", "tmp.27", "tmp.3"][node]);
    let drawn = replaced_by_rename(|node| LETTERS[node]);
    let explore = Explore::ReplicatedStateMachine { majority: 0 };
    let count = |script: &Script| states(&script.run, &request(model("posix"), explore, 1)).len();
    assert_eq!(count(&numbered), count(&drawn));
    for script in [numbered, drawn] {
        assert!(lacking(&script, 0).contains(&vec![0, 1]));
        assert!(lacking(&script, 3).contains(&vec![0, 1, 2]));
    }
}

#[test]
fn what_only_one_node_does_is_lost_alone() {
    let mut script = replaced_by_rename(|_| "tmp");
    // The second one syncs its directory at once: it can lose nothing then.
    let events = &mut script.run.nodes[1].events;
    let mut sync = events[3].clone();
    sync.action = Action::File(FileOp::Sync {
        file: FileId::ROOT,
        scope: SyncScope::File,
    });
    events.insert(5, sync);
    assert_eq!(
        lacking(&script, 0),
        BTreeSet::from([vec![], vec![0]]),
        "the first one can"
    );
}

/// What a state is: the disks, and what was told. Two that agree in both are one.
fn identity(state: &State) -> (Vec<(usize, Vec<usize>)>, Vec<usize>) {
    (
        state
            .nodes
            .iter()
            .map(|node| (node.micros, node.lost.clone()))
            .collect(),
        state.cut.clone(),
    )
}

fn is_consistent(run: &Run, cut: &[usize]) -> bool {
    let sent = |message: &Message| {
        run.nodes.iter().enumerate().all(|(node, events)| {
            let overlaps = |event: &Event| {
                matches!(&event.action, Action::Send(send) if send.stream == message.stream && send.from < message.to && message.from < send.to)
            };
            events.events.iter().enumerate().all(|(number, event)| !overlaps(event) || number < cut[node])
        })
    };
    run.nodes.iter().zip(cut).all(|(node, events)| {
        node.events[..*events]
            .iter()
            .all(|event| match &event.action {
                Action::Receive(message) => sent(message),
                _ => true,
            })
    })
}

/// Whether posix lets a node have lost this: nothing that a sync within the cut was about. Written
/// from the definition, for events of one thread.
fn posix_allows(run: &Run, space: &Space, state: &State, node: usize) -> bool {
    let events = &run.nodes[node].events;
    state.nodes[node].lost.iter().all(|micro| {
        let micro = &space.micros(node)[*micro];
        !events[..state.cut[node]]
            .iter()
            .skip(micro.event)
            .any(|event| match (&event.action, &micro.effect) {
                (Action::File(FileOp::SyncAll), _) => true,
                (
                    Action::File(FileOp::Sync { file: synced, .. }),
                    Effect::Write { file, .. }
                    | Effect::Overwrite { file, .. }
                    | Effect::Grow { file, .. }
                    | Effect::SetSize { file, .. },
                ) => synced == file,
                (
                    Action::File(FileOp::Sync { file: synced, .. }),
                    Effect::SetEntry { parent, .. } | Effect::RemoveEntry { parent, .. },
                ) => synced == parent,
                _ => false,
            })
    })
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize, u64),
    Overwrite(usize),
    Rename(usize),
    Sync(usize, bool),
    SyncDirectory(usize),
    Message(usize, usize),
    Mark,
}

fn step(nodes: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..nodes, 1..5_u64).prop_map(|(node, len)| Step::Append(node, len)),
        (0..nodes).prop_map(Step::Overwrite),
        (0..nodes).prop_map(Step::Rename),
        (0..nodes, any::<bool>()).prop_map(|(node, data)| Step::Sync(node, data)),
        (0..nodes).prop_map(Step::SyncDirectory),
        (0..=nodes, 0..=nodes).prop_map(|(from, to)| Step::Message(from, to)),
        Just(Step::Mark),
    ]
}

/// Two sectors, so that a write to both can be torn.
const FOO_BYTES: u64 = 1024;

/// Some nodes with one file each, and a client that talks to them.
fn script(nodes: usize, steps: &[Step]) -> Script {
    let mut script = Script::new(nodes, &[(FOO, "foo", FOO_BYTES)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    let mut sizes = vec![FOO_BYTES; nodes];
    let mut renamed = vec![false; nodes];
    for step in steps {
        match step {
            Step::Append(node, len) => {
                script.write(*node, FOO, sizes[*node], *len, sizes[*node]);
                sizes[*node] += len;
            }
            Step::Overwrite(node) => drop(script.write(*node, FOO, 0, FOO_BYTES, sizes[*node])),
            Step::Rename(node) => {
                let (from, to) = if renamed[*node] {
                    ("bar", "foo")
                } else {
                    ("foo", "bar")
                };
                script.rename(*node, FOO, from, to, None);
                renamed[*node] ^= true;
            }
            Step::Sync(node, false) => drop(script.sync(*node, FOO)),
            Step::Sync(node, true) => drop(script.datasync(*node, FOO)),
            Step::SyncDirectory(node) => drop(script.sync(*node, FileId::ROOT)),
            Step::Message(from, to) if from != to => drop(script.message(*from, *to)),
            Step::Message(..) => {}
            Step::Mark => drop(script.mark(nodes)),
        }
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_state_is_a_consistent_and_legal_one_and_none_comes_twice(
        steps in prop::collection::vec(step(2), 1..9), explore in 0..4_usize, lost in 1..3_usize, of in 0..MODELS.len(),
    ) {
        let script = script(2, &steps);
        let explore = [Explore::ReplicatedStateMachine { majority: 0 }, Explore::PrimaryReplicas { primary: 1 }, Explore::SameOnAll, Explore::BruteForce][explore];
        let request = request(&MODELS[of], explore, lost);
        let space = Space::new(&script.run, &request).expect("there are states");
        prop_assert_eq!(space.counts().iter().map(|count| count.states).sum::<u64>(), space.len());
        let (mut seen, mut synced) = (HashSet::new(), HashSet::new());
        for index in 0..space.len() {
            let state = space.state(index);
            prop_assert!(is_consistent(&script.run, &state.cut), "{:?}", state);
            for node in 0..2 {
                // What posix forbids, nobody allows.
                prop_assert!(posix_allows(&script.run, &space, &state, node), "{:?}", state);
                let done = space.micros(node)[..state.nodes[node].micros].iter().map(|micro| micro.event).max();
                let midway = state.relaxation == Relaxation::Stopped;
                prop_assert!(done.is_none_or(|last| last < state.cut[node] || (midway && last == state.cut[node])), "{:?}", state);
                let whole = space.micros(node).iter().filter(|micro| micro.event < state.cut[node]).count();
                prop_assert!(whole <= state.nodes[node].micros, "{:?}", state);
            }
            prop_assert!(space.allows(&state), "not allowed: {:?}", state);
            if state.relaxation == Relaxation::Synced {
                prop_assert!(synced.insert(identity(&state)), "twice: {:?}", state);
                prop_assert_eq!(space.with_losses(index, &space.losses(index)).nodes, state.nodes);
                continue;
            }
            prop_assert!(seen.insert(identity(&state)), "twice: {:?}", state);
            prop_assert_eq!(space.named(state.clone()), state);
        }
    }

    /// What is allowed besides is no more than a space has that may lose as much as it likes.
    #[test]
    fn a_state_that_lacks_less_is_allowed_only_if_some_space_has_it(
        steps in prop::collection::vec(step(1), 1..8), lost in 1..4_usize, of in 0..MODELS.len(), spared in any::<u64>(),
    ) {
        let script = script(1, &steps);
        let run = &script.run;
        let request_of = |lost| request(&MODELS[of], Explore::BruteForce, lost);
        let (space, all) = (Space::new(run, &request_of(lost)).expect("states"), Space::new(run, &request_of(99)).expect("states"));
        let trees: HashSet<Tree> = (0..all.len()).map(|index| tree(run, &all, &all.state(index), 0)).collect();
        for index in 0..space.len() {
            let mut state = space.state(index);
            // After more events, more is durable.
            for events in 0..=run.nodes[0].events.len() {
                let later = State { cut: vec![events, 0], ..state.clone() };
                prop_assert!(!space.allows(&later) || posix_allows(run, &space, &later, 0), "{:?}", later);
            }
            let micros = space.micros(0);
            // Some of the operations are there after all.
            let is_spared = |micro: &usize| spared >> (micros[*micro].event % 64) & 1 == 1;
            state.nodes[0].lost.retain(|micro| !is_spared(micro));
            if space.allows(&state) {
                prop_assert!(posix_allows(run, &space, &state, 0), "{:?}", state);
                // Spaces lose whole operations, but for the last one.
                let lost = |micro: &usize| state.nodes[0].lost.contains(micro);
                let of = |event: usize| (0..state.nodes[0].micros).filter(move |micro| micros[*micro].event == event);
                let is_whole = (0..run.nodes[0].events.len()).all(|event| of(event).all(|micro| lost(&micro)) || !of(event).any(|micro| lost(&micro)));
                prop_assert!(!is_whole || trees.contains(&tree(run, &space, &state, 0)), "{:?}", state);
            } else {
                prop_assert!(MODELS[of].name != "posix", "posix keeps and loses each for itself: {:?}", state);
            }
        }
    }

    #[test]
    fn an_earlier_crash_has_no_more_of_anything(
        steps in prop::collection::vec(step(2), 1..9), of in 0..MODELS.len(), most in prop::collection::vec(0..12_usize, 3),
    ) {
        let script = script(2, &steps);
        let space = Space::new(&script.run, &request(&MODELS[of], Explore::BruteForce, 1)).expect("there are states");
        for index in 0..space.len() {
            let state = space.state(index);
            let earlier = space.earlier(&state, &most);
            prop_assert!(is_consistent(&script.run, &earlier.cut), "{:?}", earlier);
            for (node, events) in earlier.cut.iter().enumerate() {
                prop_assert!(*events <= most[node].min(state.cut[node]));
                prop_assert!(earlier.nodes[node].micros <= state.nodes[node].micros);
                prop_assert!(earlier.nodes[node].lost.iter().all(|micro| state.nodes[node].lost.contains(micro)));
            }
            let has_lost = earlier.nodes.iter().any(|node| !node.lost.is_empty());
            prop_assert!(space.allows(&earlier) || (has_lost && MODELS[of].name != "posix"), "{:?}", earlier);
        }
    }

    #[test]
    fn each_cut_that_differs_on_a_disk_is_visited(steps in prop::collection::vec(step(2), 1..9)) {
        let script = script(2, &steps);
        let run = &script.run;
        let request = request(model("posix"), Explore::BruteForce, 0);
        let space = Space::new(run, &request).expect("there are states");
        let all: HashSet<Vec<usize>> = (0..space.len())
            .map(|index| space.state(index))
            .filter(|state| state.relaxation == Relaxation::Prefix)
            .map(|state| state.nodes.iter().map(|node| node.micros).collect())
            .collect();
        let mut expected = HashSet::new();
        let events: Vec<_> = run.nodes.iter().map(|node| node.events.len()).collect();
        for first in 0..=events[0] {
            for second in 0..=events[1] {
                for third in 0..=events[2] {
                    let cut = [first, second, third];
                    if is_consistent(run, &cut) {
                        let micros = |node: usize| space.micros(node).iter().filter(|micro| micro.event < cut[node]).count();
                        expected.insert(vec![micros(0), micros(1), 0]);
                    }
                }
            }
        }
        prop_assert_eq!(all, expected);
    }

    /// With as many lost as there are operations: every set of operations that no sync is about.
    #[test]
    fn on_one_node_all_that_posix_allows_is_visited(steps in prop::collection::vec(step(1), 1..7)) {
        let script = script(1, &steps);
        let run = &script.run;
        let relaxations = Relaxations { prefix: true, lost: true, cut: false, torn: false, stopped: false, synced: false };
        let request = Request { relaxations, ..request(model("posix"), Explore::BruteForce, 99) };
        let space = Space::new(run, &request).expect("there are states");
        let mut visited: BTreeMap<Tree, usize> = BTreeMap::new();
        for state in (0..space.len()).map(|index| space.state(index)) {
            let told = visited.entry(tree(run, &space, &state, 0)).or_default();
            *told = marks(run, &state).max(*told);
        }
        let (node, client) = (run.nodes[0].events.len(), run.nodes[1].events.len());
        for events in 0..=node {
            for of_client in (0..=client).filter(|of_client| is_consistent(run, &[events, *of_client])) {
                let micros = space.micros(0).iter().filter(|micro| micro.event < events).count();
                let operations: BTreeSet<_> = space.micros(0)[..micros].iter().map(|micro| micro.event).collect();
                let operations: Vec<_> = operations.into_iter().collect();
                for set in 0..1_u32 << operations.len() {
                    let lost = |micro: usize| operations.iter().enumerate().any(|(bit, event)| set >> bit & 1 == 1 && space.micros(0)[micro].event == *event);
                    let all_lost: Vec<_> = (0..micros).filter(|micro| lost(*micro)).collect();
                    let mut state = space.state(0);
                    state.cut = vec![events, of_client];
                    // What was synced of an operation stays.
                    state.nodes[0] = pace_rules::nodes::NodeState { micros, lost: vec![] };
                    for micro in all_lost {
                        let mut one = state.clone();
                        one.nodes[0].lost = vec![micro];
                        if posix_allows(run, &space, &one, 0) {
                            state.nodes[0].lost.push(micro);
                        }
                    }
                    let found = visited.get(&tree(run, &space, &state, 0));
                    prop_assert!(found.is_some_and(|told| *told >= marks(run, &state)), "{:?} {:?}", state, found);
                }
            }
        }
    }

    #[test]
    fn brute_force_visits_all_that_other_rules_do(steps in prop::collection::vec(step(2), 1..8), of in 0..MODELS.len()) {
        let script = script(2, &steps);
        let disks = |explore| -> HashSet<_> {
            states(&script.run, &request(&MODELS[of], explore, 1)).iter().map(|state| identity(state).0).collect()
        };
        let all = disks(Explore::BruteForce);
        for explore in [Explore::ReplicatedStateMachine { majority: 0 }, Explore::PrimaryReplicas { primary: 0 }, Explore::SameOnAll] {
            prop_assert!(disks(explore).is_subset(&all), "{:?}", explore);
        }
    }
}

#[test]
fn a_sample_is_drawn_of_all_and_is_the_same_for_the_same_seed() {
    let script = replicated(false);
    let space = Space::new(
        &script.run,
        &request(model("posix"), Explore::BruteForce, 1),
    )
    .expect("there are states");
    let (one, again, other) = (
        space.sample(20, 1),
        space.sample(20, 1),
        space.sample(20, 2),
    );
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert_eq!(one.len(), 20);
    assert!(one.iter().chain(&other).all(|index| *index < space.len()));
}

/// Three nodes that do two thousand events each, in rounds, as a replicated log does.
#[test]
fn a_long_run_can_be_counted() {
    let mut script = Script::new(3, &[(FOO, "foo", 0)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for round in 0..200 {
        script
            .message(3, 0)
            .write(0, FOO, round * 60, 60, round * 60);
        script.message(0, 1).message(0, 2).sync(0, FOO);
        for node in [1, 2] {
            script
                .write(node, FOO, round * 60, 60, round * 60)
                .sync(node, FOO)
                .message(node, 0);
        }
        script.message(0, 3).mark(3);
    }
    for explore in [
        Explore::ReplicatedStateMachine { majority: 0 },
        Explore::BruteForce,
    ] {
        let started = std::time::Instant::now();
        let space = Space::new(&script.run, &request(model("posix"), explore, 1))
            .expect("there are states");
        let counted = started.elapsed();
        let last = space.state(space.len() - 1);
        assert!(last.cut[0] > 0);
        println!(
            "{explore:?}: {} states in {counted:?}, {:?}",
            space.len(),
            space.counts()
        );
    }
}

/// A look at each state, or at each pair of calls, would take hours here.
#[test]
fn states_of_a_run_of_many_calls_can_be_counted() {
    const CALLS: u64 = 10_000;
    for (syncs, states) in [(0, 40_000_000), (CALLS / 10, 10_000)] {
        let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
        for call in 0..CALLS {
            script.write(0, FOO, call % 4096, 1, 4096);
            if syncs > 0 && call % (CALLS / syncs) == 0 {
                script.sync(0, FOO).mark(0);
            }
        }
        for model in MODELS {
            let explore = Explore::ReplicatedStateMachine { majority: 0 };
            let space =
                Space::new(&script.run, &request(model, explore, 1)).expect("there are states");
            assert!(space.len() > states, "{}: {}", model.name, space.len());
            let state = space.state(space.len() / 2);
            assert!(space.allows(&state), "{}", model.name);
        }
    }
}
