//! Every operation of every workload succeeds on a file system that follows POSIX.

mod toy;

use std::sync::LazyLock;

use ace_gen::{
    Bounds, DataRange, FALLOC_MODES, Generator, LinkPairs, Operation, Persistence, Preset, Reuse,
};
use proptest::prelude::*;
use toy::Toy;

fn check(bounds: Bounds, step: u64) {
    let generator = Generator::new(bounds).unwrap();
    let mut walk = generator.walk();
    for index in (0..generator.len()).step_by(step as usize) {
        let workload = walk.workload(index);
        if let Err(failure) = Toy::run(&workload) {
            panic!("{failure}");
        }
    }
}

#[test]
fn operations_succeed_in_every_workload_of_seq_1() {
    check(Preset::Seq1.bounds(), 1);
    check(Preset::Demo.bounds(), 1);
}

#[test]
fn operations_succeed_in_every_workload_of_seq_2() {
    check(Preset::Seq2.bounds(), 1);
}

#[test]
fn operations_succeed_in_workloads_of_seq_3() {
    check(Preset::Seq3Data.bounds(), 7);
    check(Preset::Seq3Metadata.bounds(), 53);
    check(Preset::Seq3Nested.bounds(), 53);
    check(Bounds::of_length(3), 211);
}

/// Everything that flags can ask for.
fn wide(ops: usize) -> Bounds {
    let mut bounds = Bounds::of_length(ops);
    bounds.nest();
    bounds.operations = Operation::ALL
        .iter()
        .map(|(operation, _)| *operation)
        .collect();
    bounds.falloc_modes = FALLOC_MODES.iter().map(|(mode, _)| *mode).collect();
    bounds.persistence = Persistence::ALL
        .iter()
        .map(|(persistence, _)| *persistence)
        .collect();
    bounds.block_ranges = DataRange::ALL.iter().map(|(range, _)| *range).collect();
    bounds.truncate_sizes = vec![0, 2500, 40000];
    bounds.link_pairs = LinkPairs::FromFirst;
    bounds.reuse = Reuse::Any;
    bounds
}

#[test]
fn operations_succeed_with_every_flag_and_one_operation() {
    check(wide(1), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn operations_succeed_with_any_bounds(ops in 2_usize..=4, seed: u64) {
        static WIDE: LazyLock<Vec<Generator>> =
            LazyLock::new(|| (2..=4).map(|ops| Generator::new(wide(ops)).unwrap()).collect());
        let generator = &WIDE[ops - 2];
        let mut walk = generator.walk();
        for at in 0..200_u64 {
            let index = seed.wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % generator.len();
            let workload = walk.workload(index);
            prop_assert_eq!(Toy::run(&workload), Ok(()));
        }
    }
}

#[test]
fn the_toy_refuses_what_posix_refuses() {
    let refused = [
        ("fsync foo", "ENOENT"),
        ("creat A/foo", "ENOENT"),
        ("mkdir A; mkdir A", "EEXIST"),
        ("creat foo; creat foo", "EEXIST"),
        ("mkdir A; creat A/foo; rmdir A", "ENOTEMPTY"),
        ("mkdir A; mkdir B; creat B/foo; rename A B", "ENOTEMPTY"),
        ("mkdir A; mkdir A/C; rename A A/C", "EINVAL"),
        ("creat foo; removexattr foo user.xattr1", "ENODATA"),
        ("creat foo; link foo bar; link foo bar", "EEXIST"),
        ("creat foo; dwrite foo 100 4096", "EINVAL"),
    ];
    for (text, errno) in refused {
        let workload = workloads::parse(text, "test").unwrap().remove(0);
        let failure = Toy::run(&workload).unwrap_err();
        assert!(failure.contains(errno), "{failure}");
    }
}

#[test]
fn what_is_below_a_directory_is_renamed_with_it() {
    let workload = workloads::parse("mkdir A; creat A/foo; rename A B; fsync B/foo", "test")
        .unwrap()
        .remove(0);
    assert_eq!(Toy::run(&workload), Ok(()));
}
