//! The collected workloads of B3 and of xfstests' log replay tests, `workloads/b3/*.wl`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use workloads::{Op, Step, Workload};

/// One file each.
const IDS: [&str; 54] = [
    "btrfs_inode_eexist",
    "btrfs_link_unlink",
    "btrfs_rename_file",
    "btrfs_rename_special_dev",
    "btrfs_rename_special_fifo",
    "btrfs_rename_special_symlink",
    "ext4_direct_write",
    "generic_034",
    "generic_039",
    "generic_041",
    "generic_056",
    "generic_059",
    "generic_066",
    "generic_090",
    "generic_104",
    "generic_106",
    "generic_107",
    "generic_177",
    "generic_321",
    "generic_322",
    "generic_325",
    "generic_335",
    "generic_336",
    "generic_341",
    "generic_342",
    "generic_343",
    "generic_348",
    "generic_376",
    "generic_468",
    "lfs_srange",
    "new_1",
    "new_10",
    "new_11_fscq",
    "new_2",
    "new_3",
    "new_4",
    "new_5",
    "new_6",
    "new_7",
    "new_8",
    "new_9",
    "xfstests_generic_040",
    "xfstests_generic_057",
    "xfstests_generic_065",
    "xfstests_generic_073",
    "xfstests_generic_101",
    "xfstests_generic_479",
    "xfstests_generic_480",
    "xfstests_generic_481",
    "xfstests_generic_483",
    "xfstests_generic_489",
    "xfstests_generic_498",
    "xfstests_generic_502",
    "xfstests_generic_520",
];

/// Every file by its stem, with its workloads.
fn collection() -> Vec<(String, Vec<Workload>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("b3");
    let mut files: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let workloads = workloads::parse(&text, &file.to_string_lossy())
                .unwrap_or_else(|error| panic!("{error}"));
            (
                file.file_stem().unwrap().to_string_lossy().into_owned(),
                workloads,
            )
        })
        .collect()
}

#[test]
fn every_published_workload_has_its_file() {
    let stems: Vec<String> = collection().into_iter().map(|(stem, _)| stem).collect();
    assert_eq!(stems, IDS);
}

#[test]
fn every_workload_is_named_after_its_file_and_no_two_alike() {
    let mut names = BTreeSet::new();
    for (stem, workloads) in collection() {
        assert!(!workloads.is_empty(), "{stem} holds no workload");
        for workload in workloads {
            let variant = workload
                .name
                .strip_prefix(&stem)
                .unwrap_or_else(|| panic!("{} in {stem}", workload.name));
            assert!(
                variant.is_empty() || variant.starts_with('.'),
                "{} in {stem}",
                workload.name
            );
            assert!(
                names.insert(workload.name.clone()),
                "{} is there twice",
                workload.name
            );
        }
    }
}

#[test]
fn every_workload_says_where_it_is_from_and_what_must_hold() {
    for workload in collection()
        .into_iter()
        .flat_map(|(_, workloads)| workloads)
    {
        assert!(
            !workload.source.is_empty(),
            "{} has no source",
            workload.name
        );
        assert!(
            !workload.expect.is_empty(),
            "{} has no expect",
            workload.name
        );
    }
}

#[test]
fn every_workload_ends_with_a_crash_point_after_a_flush() {
    let flushes = |op: &Op| op.is_persistence() || matches!(op, Op::SyncFileRange { .. });
    for workload in collection()
        .into_iter()
        .flat_map(|(_, workloads)| workloads)
    {
        let [.., Step::Op(last), Step::CrashPoint] = workload.run.as_slice() else {
            panic!("{} does not end with a crash point", workload.name);
        };
        assert!(flushes(last), "{} ends with '{last}'", workload.name);
    }
}

#[test]
fn every_workload_survives_being_printed() {
    for workload in collection()
        .into_iter()
        .flat_map(|(_, workloads)| workloads)
    {
        for text in [workload.to_text(), workload.to_line()] {
            assert_eq!(
                workloads::parse(&text, "printed.wl").unwrap(),
                std::slice::from_ref(&workload)
            );
        }
    }
}

#[test]
fn alternatives_of_a_workload_are_variants_in_its_file() {
    let collection = collection();
    let variants = |id| {
        collection
            .iter()
            .find(|(stem, _)| stem == id)
            .map_or(0, |(_, workloads)| workloads.len())
    };
    assert_eq!(variants("xfstests_generic_479"), 3);
    assert_eq!(variants("xfstests_generic_520"), 37);
    assert_eq!(variants("new_8"), 8);
}
