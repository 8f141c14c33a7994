use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use pace_rules::nodes::{Content, Effect, Explore, MODELS, Micro, Relaxation, Spaces};
use proptest::prelude::*;
use trace::{Action, Event, FileId, FileKind, FileOp, InitialFile, Name, Node};
use trace_store::Trace;

use crate::request::tests::request;
use crate::{Disks, Impossible, Request, States, Tree};

/// Regular files, directories, one symbolic link, and one socket.
const FILES: u32 = 9;

fn kind(file: u32, trace: &mut Trace) -> FileKind {
    match file {
        0 | 6 | 7 => FileKind::Directory,
        5 => FileKind::Symlink {
            target: trace.add(b"some/where"),
        },
        8 => FileKind::Special,
        _ => FileKind::Regular,
    }
}

fn name(number: u8) -> Name {
    Arc::from(vec![b'a' + number, 0xff])
}

fn effect() -> impl Strategy<Value = Effect> {
    let file = || (0..FILES).prop_map(FileId);
    let content = prop_oneof![
        (0..100_u64, 0..6000_u64).prop_map(|(at, len)| Content::Written(trace::Data { at, len })),
        (0..9000_u64).prop_map(Content::Zeros),
        (0..9000_u64).prop_map(Content::Garbage),
    ];
    prop_oneof![
        3 => (file(), 0..5_u8, file()).prop_map(|(parent, entry, file)| Effect::SetEntry { parent, name: name(entry), file }),
        1 => (file(), 0..5_u8, file()).prop_map(|(parent, entry, file)| Effect::AddEntry { parent, name: name(entry), file }),
        1 => (file(), 0..5_u8, prop::option::of(file())).prop_map(|(parent, entry, of)| Effect::RemoveEntry { parent, name: name(entry), of }),
        3 => (file(), 0..9000_u64, content).prop_map(|(file, offset, content)| Effect::Write { file, offset, content }),
        1 => (file(), 0..20_000_u64).prop_map(|(file, size)| Effect::SetSize { file, size }),
        1 => (file(), 0..0o1000_u32).prop_map(|(file, mode)| Effect::SetMode { file, mode: mode | 0o700 }),
    ]
}

/// All files, of which half have a name from the beginning, and a thousand changes.
fn effects(count: usize) -> impl Strategy<Value = (Trace, Vec<Effect>)> {
    prop::collection::vec(effect(), 1..count).prop_map(|changes| {
        let mut trace = Trace::default();
        trace.add(
            &(0..8000_u32)
                .map(|place| (place % 251) as u8)
                .collect::<Vec<_>>(),
        );
        let new = |file| Effect::NewFile {
            file: FileId(file),
            kind: kind(file, &mut trace),
            mode: 0o700 + file,
        };
        let mut effects: Vec<_> = (1..FILES).map(new).collect();
        let entry = |file: u32| Effect::SetEntry {
            parent: FileId::ROOT,
            name: name(10 + file as u8),
            file: FileId(file),
        };
        effects.extend((1..FILES).step_by(2).map(entry));
        effects.extend(changes);
        (trace, effects)
    })
}

/// The tree that a directory holds.
fn read(path: &Path, trace: &mut Trace) -> Tree {
    let (mut files, mut known) = (Vec::new(), HashMap::new());
    read_file(path, None, trace, &mut files, &mut known);
    Tree::initial(&files, trace)
}

fn read_file(
    path: &Path,
    parent: Option<FileId>,
    trace: &mut Trace,
    files: &mut Vec<InitialFile>,
    known: &mut HashMap<u64, FileId>,
) {
    let data = path.symlink_metadata().expect("it is there");
    let next = FileId(known.len() as u32);
    let file = *known.entry(data.ino()).or_insert(next);
    let (mut content, mut size) = (Vec::new(), 0);
    let kind = if data.is_dir() {
        FileKind::Directory
    } else if data.is_symlink() {
        FileKind::Symlink {
            target: trace.add(fs::read_link(path).expect("read").as_os_str().as_bytes()),
        }
    } else if data.is_file() {
        size = data.len();
        content.push((0, trace.add(&fs::read(path).expect("read"))));
        FileKind::Regular
    } else {
        FileKind::Special
    };
    let last = path.file_name().map_or(&b""[..], OsStrExt::as_bytes);
    let mode = if data.is_symlink() {
        0o705
    } else {
        data.permissions().mode() & 0o7777
    };
    files.push(InitialFile {
        file,
        parent,
        name: last.into(),
        kind,
        mode,
        size,
        content,
    });
    if data.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)
            .expect("read")
            .map(|entry| entry.expect("read").path())
            .collect();
        entries.sort();
        for entry in &entries {
            read_file(entry, Some(file), trace, files, known);
        }
    }
}

/// Each effect, as an event of its own.
fn micros_of(effects: &[Effect]) -> Arc<[Micro]> {
    let micro = |(event, effect): (usize, &Effect)| Micro {
        event,
        effect: effect.clone(),
    };
    effects.iter().enumerate().map(micro).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn from_state_to_state_the_tree_is_the_one_made_from_the_beginning(
        (trace, effects) in effects(300),
        states in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::btree_set(0..300_usize, 0..3)), 1..60),
    ) {
        let initial = Tree::initial(&[], &trace);
        let mut disks = Disks::new(initial.clone(), micros_of(&effects));
        for (count, lost) in states {
            let count = count.index(effects.len() + 1);
            let mut anew = initial.clone();
            let kept = effects[..count].iter().enumerate().filter(|(place, _)| !lost.contains(place));
            kept.for_each(|(_, effect)| anew.apply(effect, &trace));
            let tree = disks.tree(count, &lost.into_iter().collect::<Vec<_>>(), &trace);
            prop_assert_eq!(tree.fingerprint(), anew.fingerprint());
        }
    }

    #[test]
    fn the_directory_that_is_made_holds_the_tree((mut trace, effects) in effects(60)) {
        let mut tree = Tree::initial(&[], &trace);
        for effect in &effects {
            // The permission bits of a symbolic link are not for anyone to choose.
            if !matches!(effect, Effect::SetMode { file: FileId(5), .. }) {
                tree.apply(effect, &trace);
            }
        }
        let Ok(fingerprint) = tree.fingerprint() else { return Ok(()) };
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = directory.path().join("state");
        tree.write_to(&path).expect("written");
        let found = read(&path, &mut trace).fingerprint();
        prop_assert_eq!(found, Ok(fingerprint));
        prop_assert_eq!(tree.difference(&path).expect("read"), None);
        // Anything that is changed there is noticed.
        for entry in fs::read_dir(&path).expect("read").map(|entry| entry.expect("read").path()) {
            if entry.is_file() && !entry.is_symlink() {
                let mut bytes = fs::read(&entry).expect("read");
                bytes.push(0);
                fs::write(&entry, &bytes).expect("written");
                prop_assert!(tree.difference(&path).expect("read").is_some());
                bytes.pop();
                fs::write(&entry, &bytes).expect("written");
                if let Some(first) = bytes.first_mut() {
                    *first ^= 1;
                    fs::write(&entry, &bytes).expect("written");
                    prop_assert!(tree.difference(&path).expect("read").is_some());
                    bytes[0] ^= 1;
                    fs::write(&entry, &bytes).expect("written");
                }
            }
        }
        fs::write(path.join("more"), "").expect("written");
        prop_assert!(tree.difference(&path).expect("read").is_some());
    }
}

/// An ordinary user may give attributes only to what he may write.
#[test]
fn what_must_not_be_written_has_its_attributes() {
    let mut trace = Trace::default();
    let value = Some(trace.add(b"value"));
    let mut tree = Tree::initial(&[InitialFile::empty_root()], &trace);
    let (root, file) = (FileId::ROOT, FileId(1));
    let attribute = |file| Effect::SetXattr {
        file,
        name: b"user.kind"[..].into(),
        value,
    };
    for effect in [
        Effect::NewFile {
            file,
            kind: FileKind::Regular,
            mode: 0o444,
        },
        Effect::SetEntry {
            parent: root,
            name: name(0),
            file,
        },
        attribute(file),
        attribute(root),
        Effect::SetMode {
            file: root,
            mode: 0o555,
        },
    ] {
        tree.apply(&effect, &trace);
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).expect("opened");
    let path = directory.path().join("state");
    let write = || {
        // Of this thread alone.
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        tree.write_to(&path).expect("written");
        assert_eq!(tree.difference(&path).expect("read"), None);
        crate::remove_tree(&path).expect("removed");
    };
    std::thread::scope(|scope| scope.spawn(write).join()).expect("no panic");
}

#[test]
fn a_directory_with_two_names_is_what_no_file_system_shows() {
    let trace = Trace::default();
    let mut tree = Tree::initial(&[], &trace);
    tree.apply(
        &Effect::NewFile {
            file: FileId(1),
            kind: FileKind::Directory,
            mode: 0o755,
        },
        &trace,
    );
    for entry in 0..2 {
        assert!(tree.fingerprint().is_ok());
        tree.apply(
            &Effect::SetEntry {
                parent: FileId::ROOT,
                name: name(entry),
                file: FileId(1),
            },
            &trace,
        );
    }
    assert_eq!(tree.fingerprint(), Err(Impossible::DirectoryWithTwoNames));
}

/// A name that is added stays with the one that has it.
#[test]
fn a_name_is_added_where_nobody_has_it() {
    let trace = Trace::default();
    let mut tree = Tree::initial(&[], &trace);
    let (parent, name) = (FileId::ROOT, name(0));
    let add = |file: u32| Effect::AddEntry {
        parent,
        name: name.clone(),
        file: FileId(file),
    };
    let new = |file: u32| Effect::NewFile {
        file: FileId(file),
        kind: FileKind::Regular,
        mode: 0o600 + file,
    };
    for effect in [new(1), new(2), add(1)] {
        tree.apply(&effect, &trace);
    }
    let first = tree.fingerprint();
    tree.apply(&add(2), &trace);
    assert_eq!(tree.fingerprint(), first);
    let remove = Effect::RemoveEntry {
        parent,
        name: name.clone(),
        of: None,
    };
    tree.apply(&remove, &trace);
    let nobody = tree.fingerprint();
    tree.apply(&add(2), &trace);
    assert!(tree.fingerprint() != first && tree.fingerprint() != nobody);
}

/// A program that does this in a file that it makes.
pub(crate) fn in_a_file(ops: impl IntoIterator<Item = FileOp>) -> Node {
    let create = FileOp::Create {
        parent: FileId::ROOT,
        name: name(0),
        file: FileId(1),
        kind: FileKind::Regular,
        mode: 0o644,
    };
    let event = |(number, op): (u64, FileOp)| Event {
        start_ns: 10 * number,
        end_ns: 10 * number + 5,
        process: 7,
        thread: 7,
        call: "call".into(),
        stack: 0,
        action: Action::File(op),
    };
    Node {
        name: "program".into(),
        initial: vec![InitialFile::empty_root()],
        events: (0..)
            .zip([create].into_iter().chain(ops))
            .map(event)
            .collect(),
    }
}

/// A hole takes no more room and time than what the file has, on each model, and leaves the same there.
#[test]
fn a_hole_may_be_far_larger_than_what_the_file_has() {
    const FAR: u64 = 64 << 40;
    let mut trace = Trace::default();
    let (file, data) = (FileId(1), trace.add(&[7; 4096]));
    let write = |offset, size_before| FileOp::Write {
        file,
        offset,
        data,
        size_before,
    };
    let hole = FileOp::Zero {
        file,
        offset: 100,
        len: FAR,
    };
    let ops = [
        write(0, 0),
        write(FAR, 4096),
        hole,
        write(FAR / 2, FAR + 4096),
    ];
    trace.run.nodes.push(in_a_file(ops));
    let mut left = HashSet::new();
    for model in MODELS {
        let request = Request {
            model: model.name.into(),
            ..request(None)
        };
        let requests = request.of_calls(Explore::BruteForce).expect("a model");
        let spaces = Spaces::new(&trace.run, &requests).expect("states");
        let mut makers = States::each(&trace.run, &spaces, &trace);
        for index in 0..spaces.len() {
            let (member, state) = spaces.state(index);
            let made = makers[member].make(&state).expect("a file system shows it");
            if state.cut == [5] && state.relaxation == Relaxation::Prefix {
                left.insert(made.disks_key);
            }
        }
    }
    assert_eq!(left.len(), 1);
}
