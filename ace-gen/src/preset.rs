//! The bounds that the paper evaluated and the scripts that it published.

use workloads::FallocMode;

use crate::bounds::{Bounds, LinkPairs, PersistNames, Persistence, Reuse, names};
use crate::names::named;
use crate::operation::{DataRange, Operation};

named! {
    /// A published set of bounds of ACE.
    ///
    /// | preset | operations | follows | workloads |
    /// |---|---|---|---|
    /// | `seq-1` | 14 | ace.py, common.py | 336 |
    /// | `seq-2` | 14 | ace.py, seq2generator.py | 254,032 |
    /// | `seq-3-data` | 4 that write | seq3writegenerator.py | 120,114 |
    /// | `seq-3-metadata` | 5 on names | seq3generator.py, with the pairs of ace.py | 1,539,180 |
    /// | `seq-3-nested` | link and rename | seq3nestedgenerator.py, without `rename A A/C` | 1,517,352 |
    /// | `demo` | link and falloc | ace.py `-d` | 9 |
    pub enum Preset ("preset") {
        /// One operation.
        Seq1 = "seq-1",
        /// Two operations.
        Seq2 = "seq-2",
        /// Three operations that write data to one file.
        Seq3Data = "seq-3-data",
        /// Three operations on names and sizes in two directories.
        Seq3Metadata = "seq-3-metadata",
        /// Three links and renames with a third level of directories.
        Seq3Nested = "seq-3-nested",
        /// Two operations on two files, one operation in a workload.
        Demo = "demo",
    }
}

impl Preset {
    /// The bounds of the preset.
    pub fn bounds(self) -> Bounds {
        match self {
            Preset::Seq1 => Bounds::of_length(1),
            Preset::Seq2 => Bounds::of_length(2),
            Preset::Seq3Data => seq_3_data(),
            Preset::Seq3Metadata => seq_3_metadata(),
            Preset::Seq3Nested => seq_3_nested(),
            Preset::Demo => demo(),
        }
    }
}

fn seq_3_data() -> Bounds {
    Bounds {
        name: Preset::Seq3Data.name().to_owned(),
        operations: vec![
            Operation::Write,
            Operation::MmapWrite,
            Operation::Falloc,
            Operation::Dwrite,
        ],
        first_files: names(&["A/foo"]),
        write_ranges: vec![
            DataRange::Append,
            DataRange::OverlapUnalignedStart,
            DataRange::OverlapUnalignedEnd,
            DataRange::OverlapExtend,
        ],
        block_ranges: vec![
            DataRange::Append,
            DataRange::OverlapStart,
            DataRange::OverlapEnd,
        ],
        persistence: vec![
            Persistence::Fsync,
            Persistence::Fdatasync,
            Persistence::None,
        ],
        reuse: Reuse::Any,
        append_first: true,
        ..Bounds::of_length(3)
    }
}

fn seq_3_metadata() -> Bounds {
    Bounds {
        name: Preset::Seq3Metadata.name().to_owned(),
        operations: vec![
            Operation::Write,
            Operation::Link,
            Operation::Unlink,
            Operation::Rename,
            Operation::Truncate,
        ],
        first_files: names(&["B/foo", "A/foo"]),
        second_files: names(&["B/bar", "A/bar"]),
        write_ranges: vec![DataRange::Append, DataRange::OverlapUnaligned],
        truncate_sizes: vec![2500],
        reuse: Reuse::Any,
        ..Bounds::of_length(3)
    }
}

fn seq_3_nested() -> Bounds {
    Bounds {
        name: Preset::Seq3Nested.name().to_owned(),
        operations: vec![Operation::Link, Operation::Rename],
        first_files: names(&["B/foo", "A/foo", "A/C/foo"]),
        second_dirs: names(&["B", "A/C"]),
        link_pairs: LinkPairs::FromFirst,
        reuse: Reuse::Overlap,
        ..seq_3_metadata()
    }
}

fn demo() -> Bounds {
    Bounds {
        name: Preset::Demo.name().to_owned(),
        operations: vec![Operation::Link, Operation::Falloc],
        first_files: names(&["foo"]),
        second_files: names(&["A/bar"]),
        falloc_modes: vec![FallocMode::ZeroRangeKeepSize],
        persist_names: PersistNames::Used,
        ..Bounds::of_length(1)
    }
}
