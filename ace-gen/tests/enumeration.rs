//! A workload is the same however one gets to it.

use std::collections::HashSet;

use ace_gen::{Bounds, Generator, Preset, Sample, Selection};
use campaign::Shard;
use proptest::prelude::*;

fn generator(preset: Preset) -> Generator {
    Generator::new(preset.bounds()).unwrap()
}

fn line(generator: &Generator, index: u64) -> String {
    let mut line = Vec::new();
    generator.write_text(index, &mut line);
    String::from_utf8(line).unwrap()
}

#[test]
fn addressing_gives_what_streaming_gives() {
    for (preset, _) in Preset::ALL {
        let generator = generator(*preset);
        let mut walk = generator.walk();
        let step = generator.len() / 20_000 + 1;
        let mut streamed = Vec::new();
        for index in 0..generator.len().min(60_000) {
            streamed.clear();
            walk.write_text(index, &mut streamed);
            if index % step == 0 {
                assert_eq!(String::from_utf8_lossy(&streamed), line(&generator, index));
            }
        }
    }
}

#[test]
fn the_iterator_gives_every_workload_in_order() {
    for bounds in [Preset::Seq1.bounds(), Preset::Demo.bounds()] {
        let generator = Generator::new(bounds).unwrap();
        let all: Vec<_> = generator.iter().collect();
        assert_eq!(all.len() as u64, generator.len());
        for (index, workload) in (0..).zip(&all) {
            assert_eq!(generator.get(index).as_ref(), Some(workload));
        }
        assert_eq!(generator.get(generator.len()), None);
    }
}

#[test]
fn text_is_what_the_workload_language_prints_and_reads() {
    for (preset, _) in Preset::ALL {
        let generator = generator(*preset);
        for index in (0..generator.len()).step_by((generator.len() / 2_000 + 1) as usize) {
            let (text, workload) = (line(&generator, index), generator.get(index).unwrap());
            assert_eq!(text.trim_end(), workload.to_line());
            assert_eq!(workloads::parse(&text, "test").unwrap(), [workload]);
        }
    }
}

#[test]
fn unique_workloads_differ_and_what_is_left_out_is_like_an_earlier_one() {
    let generator = generator(Preset::Seq1);
    let body = |index| {
        let text = line(&generator, index).replace("remove ", "unlink ");
        text.split_once("; ").unwrap().1.to_owned()
    };
    let mut unique = generator.unique();
    let kept: Vec<_> = unique.by_ref().map(|(index, _)| index).collect();
    let distinct: HashSet<_> = kept.iter().map(|&index| body(index)).collect();
    assert_eq!(distinct.len(), kept.len());
    assert_eq!(distinct, (0..generator.len()).map(body).collect());
    assert_eq!(
        unique.removed().to_string(),
        "removed 34 of 336: 18 equal, 16 that say remove for unlink"
    );
}

#[test]
fn a_selection_counts_what_it_yields() {
    let generator = generator(Preset::Seq1);
    let shard = Shard::new(2, 3);
    for unique in [false, true] {
        for range in [None, Some(17..200), Some(300..900), Some(500..900)] {
            for sample in [None, Some(Sample { count: 40, seed: 1 })] {
                for shard in [None, shard] {
                    let selection = Selection {
                        unique,
                        range: range.clone(),
                        sample,
                        shard,
                    };
                    let indices: Vec<_> = selection.indices(&generator).collect();
                    assert_eq!(
                        selection.count(&generator).0,
                        indices.len() as u64,
                        "{selection:?}"
                    );
                    assert!(indices.is_sorted(), "{selection:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn shards_are_disjoint_and_complete(of in 1_u64..50, unique: bool, start in 0_u64..400, length in 0_u64..400) {
        let generator = generator(Preset::Seq1);
        let whole = Selection { unique, range: Some(start..start + length), ..Selection::default() };
        let mut parts = Vec::new();
        for number in 1..=of {
            let part = Selection { shard: Shard::new(number, of), ..whole.clone() };
            parts.extend(part.indices(&generator));
        }
        parts.sort_unstable();
        prop_assert_eq!(parts, whole.indices(&generator).collect::<Vec<_>>());
    }

    #[test]
    fn going_anywhere_gives_what_addressing_gives(ops in 2_usize..=4, places in prop::collection::vec(any::<u64>(), 1..20)) {
        let generator = Generator::new(Bounds::of_length(ops)).unwrap();
        let mut walk = generator.walk();
        for place in places {
            for near in [0, 1, 700] {
                let index = (place % generator.len()).saturating_add(near).min(generator.len() - 1);
                prop_assert_eq!(walk.workload(index), generator.get(index).unwrap());
            }
        }
    }
}
