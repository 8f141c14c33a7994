//! Whatever a workload holds, its text reads back as the same workload; whatever a text holds,
//! reading it ends with workloads or with an error.

use proptest::prelude::*;
use workloads::{
    DeviceKind, FallocMode, Format, Op, Reader, RenameFlag, Step, Target, Workload, WriteSync,
};

/// Plain names mostly, and some that need quotes.
fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9_.-]{1,8}",
        1 => "[ -.0-~\\n\\t\"\\\\;#@äß日\u{a0}]{1,6}",
    ]
    .prop_filter("not a name", |name| name != "." && name != "..")
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(component(), 1..4).prop_map(|components| components.join("/"))
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![9 => name(), 1 => Just(".".to_owned())]
}

/// A path, or the handle that `with_handle` opens.
fn target() -> impl Strategy<Value = Target> {
    prop_oneof![4 => path().prop_map(Target::Path), 1 => Just(Target::Handle("h-1".to_owned()))]
}

fn bytes() -> impl Strategy<Value = u64> {
    let half = i64::MAX as u64 / 2;
    prop_oneof![
        0..10_000u64,
        (0..1000u64).prop_map(|k| k * 1024),
        0..=half,
        Just(half)
    ]
}

fn free_text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,20}", any::<String>()]
}

/// What is written, which is made in memory first.
fn data_length() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..10_000u64,
        (0..1000u64).prop_map(|k| k * 1024),
        0..=1u64 << 30,
        Just(1 << 30)
    ]
}

fn sync() -> impl Strategy<Value = WriteSync> {
    prop::sample::select(vec![WriteSync::None, WriteSync::Dsync, WriteSync::Sync])
}

fn falloc_mode() -> impl Strategy<Value = FallocMode> {
    prop::sample::select(vec![
        FallocMode::Allocate,
        FallocMode::KeepSize,
        FallocMode::ZeroRange,
        FallocMode::ZeroRangeKeepSize,
        FallocMode::PunchHole,
        FallocMode::CollapseRange,
        FallocMode::InsertRange,
        FallocMode::UnshareRange,
    ])
}

fn rename_flag() -> impl Strategy<Value = RenameFlag> {
    use RenameFlag::{Exchange, NoReplace, Replace, Whiteout};
    prop::sample::select(vec![Replace, NoReplace, Exchange, Whiteout])
}

fn naming_op() -> impl Strategy<Value = Op> {
    let mode = || prop_oneof![Just(0o644), Just(0o755), 0..=0o7777u32];
    let device = || prop::sample::select(vec![DeviceKind::Char, DeviceKind::Block]);
    prop_oneof![
        (name(), mode()).prop_map(|(path, mode)| Op::Creat { path, mode }),
        (name(), mode()).prop_map(|(path, mode)| Op::Mkdir { path, mode }),
        (name(), mode()).prop_map(|(path, mode)| Op::Mkfifo { path, mode }),
        (name(), device(), 0..4u32, 0..4u32).prop_map(|(path, kind, major, minor)| Op::Mknod {
            path,
            kind,
            major,
            minor
        }),
        ("[^\0]{1,20}", name()).prop_map(|(target, path)| Op::Symlink { target, path }),
        (target(), name()).prop_map(|(source, dest)| Op::Link { source, dest }),
        name().prop_map(|path| Op::Unlink { path }),
        name().prop_map(|path| Op::Rmdir { path }),
        name().prop_map(|path| Op::Remove { path }),
        (name(), name(), rename_flag()).prop_map(|(source, dest, flag)| Op::Rename {
            source,
            dest,
            flag
        }),
        (target(), mode()).prop_map(|(target, mode)| Op::Chmod { target, mode }),
        (target(), any::<u32>(), any::<u32>()).prop_map(|(target, uid, gid)| Op::Chown {
            target,
            uid,
            gid
        }),
        (target(), "[^\0]{1,10}", any::<String>()).prop_map(|(target, name, value)| Op::SetXattr {
            target,
            name,
            value
        }),
        (target(), "[^\0]{1,10}").prop_map(|(target, name)| Op::RemoveXattr { target, name }),
    ]
}

fn data_op() -> impl Strategy<Value = Op> {
    let range = || (target(), bytes(), bytes());
    let data = || (target(), bytes(), data_length());
    prop_oneof![
        (data(), sync()).prop_map(|((target, offset, length), sync)| Op::Write {
            target,
            offset,
            length,
            sync
        }),
        (data(), sync()).prop_map(|((target, offset, length), sync)| Op::DirectWrite {
            target,
            offset,
            length,
            sync
        }),
        (target(), data_length()).prop_map(|(target, length)| Op::Append { target, length }),
        data().prop_map(|(target, offset, length)| Op::MmapWrite {
            target,
            offset,
            length
        }),
        (target(), bytes()).prop_map(|(target, size)| Op::Truncate { target, size }),
        (range(), falloc_mode()).prop_map(|((target, offset, length), mode)| Op::Falloc {
            target,
            mode,
            offset,
            length
        }),
        (range(), target(), bytes()).prop_map(
            |((source, source_offset, length), dest, dest_offset)| Op::Reflink {
                source,
                source_offset,
                length,
                dest,
                dest_offset
            }
        ),
        (target(), target()).prop_map(|(source, dest)| Op::Reflink {
            source,
            source_offset: 0,
            length: 0,
            dest,
            dest_offset: 0
        }),
    ]
}

fn persistence_op() -> impl Strategy<Value = Op> {
    let range = || (target(), bytes(), bytes());
    prop_oneof![
        target().prop_map(|target| Op::Fsync { target }),
        target().prop_map(|target| Op::Fdatasync { target }),
        range().prop_map(|(target, offset, length)| Op::Msync {
            target,
            offset,
            length
        }),
        range().prop_map(|(target, offset, length)| Op::SyncFileRange {
            target,
            offset,
            length
        }),
        path().prop_map(|path| Op::Close {
            target: Target::Path(path)
        }),
        (1..=3u8).prop_map(|what| Op::DropCaches { what }),
        Just(Op::Syncfs),
        Just(Op::Sync),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![naming_op(), data_op(), persistence_op()]
}

fn workload() -> impl Strategy<Value = Workload> {
    let step = prop_oneof![5 => op().prop_map(Step::Op), 1 => Just(Step::CrashPoint)];
    let texts = || prop::collection::vec(free_text(), 0..3);
    let opener = prop_oneof![
        path().prop_map(|path| Op::Open {
            path,
            handle: "h-1".to_owned()
        }),
        path().prop_map(|dir| Op::Tmpfile {
            dir,
            handle: "h-1".to_owned(),
            mode: 0o600
        }),
    ];
    let setup = (any::<bool>(), opener, prop::collection::vec(op(), 0..5));
    (
        any::<String>(),
        texts(),
        texts(),
        setup,
        prop::collection::vec(step, 0..8),
    )
        .prop_map(
            |(name, source, expect, (in_setup, opener, mut setup), mut run)| {
                // The handle that targets name is opened by the first operation of all.
                if in_setup {
                    setup.insert(0, opener);
                } else {
                    setup.clear();
                    run.insert(0, Step::Op(opener));
                }
                Workload {
                    name,
                    source,
                    expect,
                    setup,
                    run,
                }
            },
        )
}

fn read_all(text: &str) -> Vec<Workload> {
    Reader::new(text.as_bytes(), "stream")
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_workloads_read_back_the_same(workloads in prop::collection::vec(workload(), 0..4)) {
        let texts: String = workloads.iter().map(Workload::to_text).collect();
        let lines: String = workloads.iter().map(|workload| workload.to_line() + "\n").collect();
        prop_assert_eq!(lines.lines().count(), workloads.len());
        for text in [texts, lines] {
            prop_assert_eq!(&workloads::parse(&text, "printed.wl").unwrap(), &workloads);
            prop_assert_eq!(&read_all(&text), &workloads);
        }
    }

    #[test]
    fn serialized_workloads_read_back_the_same(workload in workload()) {
        let json = serde_json::to_string(&workload).unwrap();
        prop_assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload);
    }

    #[test]
    fn no_text_makes_the_readers_panic(text in any::<String>()) {
        survive(text.as_bytes());
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        survive(&bytes);
    }

    #[test]
    fn no_sequence_of_words_makes_the_readers_panic(words in prop::collection::vec(word(), 0..30)) {
        survive(words.concat().as_bytes());
    }

    #[test]
    fn a_damaged_workload_makes_no_reader_panic(workload in workload(), at in any::<prop::sample::Index>(), with in any::<char>()) {
        let mut characters: Vec<char> = workload.to_text().chars().collect();
        let at = at.index(characters.len());
        characters[at] = with;
        survive(characters.into_iter().collect::<String>().as_bytes());
    }
}

/// What a text is likely to be made of.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "workload ",
        "source ",
        "expect ",
        "setup",
        "run",
        "!",
        ";",
        "\n",
        "\r\n",
        "#",
        "\"",
        "\\",
        "@h",
        " as ",
        "..",
        "repeat i 0..3 ",
        "repeat i 0..99999999999 ",
        "{i}",
        "creat ",
        "write ",
        "falloc ",
        "open ",
        "close ",
        "fsync ",
        "foo ",
        "A/foo ",
        "/ ",
        ". ",
        "0 ",
        "4K ",
        "2*4K ",
        "18446744073709551615 ",
        "99999999999999999999M ",
        "# define\n",
        "# run\n",
        "# setup\n",
        "test\n",
        "checkpoint 1\n",
        "mmapwrite foo 0 1\n",
        "O_RDWR|O_CREAT 0777 ",
        "ß",
    ];
    prop_oneof![9 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

fn survive(bytes: &[u8]) {
    for result in Reader::new(bytes, "stream") {
        check(result.map(drop));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Format::of(text);
        check(workloads::parse(text, "text").map(drop));
        check(workloads::jlang::parse(text, "text").map(drop));
    }
}

/// An error can be shown, on one line, and its place counts from 1.
fn check(result: Result<(), workloads::ParseError>) {
    if let Err(error) = result {
        assert!(error.line > 0 && error.column > 0);
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
