//! Bugs that CrashMonkey and xfstests know are within the bounds of two operations.

use std::collections::BTreeSet;

use ace_gen::{Generator, Preset};

#[test]
fn seq_2_has_the_workloads_of_known_bugs() {
    let mut missing = BTreeSet::from([
        // generic/039
        "creat foo; link foo bar; sync; remove bar; fsync foo",
        // generic/059
        "creat foo; write foo 0 32K; sync; falloc foo punch_hole|keep_size 0 5000; fsync foo",
        // generic/066
        "creat foo; setxattr foo user.xattr1 val1; sync; removexattr foo user.xattr1; fsync foo",
        // generic/341
        "mkdir A; creat A/foo; sync; rename A B; mkdir A; fsync A",
        // generic/376
        "creat foo; rename foo bar; creat foo; fsync bar",
        // generic/468
        "creat foo; write foo 0 32K; sync; falloc foo keep_size 32K 32K; fsync foo",
        // new bug 1 of the paper
        "creat foo; write foo 0 32K; fsync foo; falloc foo zero_range|keep_size 32K 32K; fsync foo",
    ]);
    let generator = Generator::new(Preset::Seq2.bounds()).unwrap();
    let mut walk = generator.walk();
    let mut line = Vec::new();
    for index in 0..generator.len() {
        line.clear();
        walk.write_text(index, &mut line);
        let text = std::str::from_utf8(&line).unwrap().trim_end();
        missing.remove(text.split_once("; ").unwrap().1);
    }
    assert_eq!(missing, BTreeSet::new());
}
