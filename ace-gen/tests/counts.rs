//! The numbers that ACE's published code gives, and those of our own bounds.

use ace_gen::{Bounds, Generator, LinkPairs, Preset};

fn count(bounds: Bounds) -> u64 {
    Generator::new(bounds).expect("bounds of a preset").len()
}

#[test]
fn presets_have_the_counts_of_ace() {
    let counts: Vec<_> = Preset::ALL
        .iter()
        .map(|(preset, name)| (*name, count(preset.bounds())))
        .collect();
    let golden = [
        ("seq-1", 336),
        ("seq-2", 254_032),
        ("seq-3-data", 120_114),
        ("seq-3-metadata", 1_539_180),
        ("seq-3-nested", 1_517_352),
        ("demo", 9),
    ];
    assert_eq!(counts, golden);
}

#[test]
fn the_shipped_operations_have_the_counts_of_ace() {
    for (ops, golden) in [(1, 328), (2, 241_720)] {
        let mut bounds = Bounds::of_length(ops);
        bounds.as_shipped();
        assert_eq!(count(bounds), golden, "{ops} operations");
    }
}

#[test]
fn pairs_of_links_from_first_files_give_the_count_of_seq3generator() {
    let bounds = Bounds {
        link_pairs: LinkPairs::FromFirst,
        ..Preset::Seq3Metadata.bounds()
    };
    assert_eq!(count(bounds), 1_520_892);
}

#[test]
fn our_own_bounds_keep_their_counts() {
    for (ops, known) in [(1, 336), (2, 254_032), (3, 4_517_702), (4, 1_127_881_146)] {
        assert_eq!(count(Bounds::of_length(ops)), known, "{ops} operations");
    }
}
