//! The flags of the generator, for every program that takes generated workloads.

use std::ops::Range;

use campaign::Shard;
use clap::Args;
use workloads::FallocMode;

use crate::bounds::{Bounds, BoundsError, LinkPairs, PersistNames, Persistence, Reuse};
use crate::generator::Generator;
use crate::operation::{DataRange, Operation, parse_falloc_mode};
use crate::preset::Preset;
use crate::select::{Sample, Selection};

/// The bounds of generated workloads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Bounds of generated workloads")]
pub struct GeneratorArgs {
    /// Published bounds: seq-1, seq-2, seq-3-data, seq-3-metadata, seq-3-nested, demo
    #[arg(long, value_name = "PRESET", conflicts_with = "ops")]
    pub preset: Option<Preset>,

    /// Operations in a workload; 1 and 2 alone are the presets seq-1 and seq-2
    #[arg(long, value_name = "N")]
    pub ops: Option<usize>,

    /// Operations, separated by commas: ACE's 14 and mknod, mkfifo, rmdir, symlink, chmod,
    /// chown, reflink, rename_noreplace, rename_exchange, rename_whiteout. Their order is ours
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub operations: Option<Vec<Operation>>,

    /// Without fdatasync, as the published ace.py
    #[arg(long)]
    pub as_shipped: bool,

    /// Add A/C with A/C/foo and A/C/bar
    #[arg(long)]
    pub nested: bool,

    /// Files that all operations on files are applied to
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub files: Option<Vec<String>>,

    /// Files that are linked, renamed and unlinked only
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub second_files: Option<Vec<String>>,

    /// Directories that are made, removed and renamed
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub dirs: Option<Vec<String>>,

    /// Directories that are renamed, and renamed to
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub second_dirs: Option<Vec<String>>,

    /// Modes of falloc: zero_range, zero_range|keep_size, punch_hole|keep_size, keep_size,
    /// alloc, collapse_range, insert_range, unshare_range
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_falloc_mode)]
    pub falloc_modes: Option<Vec<FallocMode>>,

    /// Ranges of write and falloc: append, overlap_unaligned_start, overlap_extend,
    /// overlap_unaligned_end, overlap_unaligned, overlap_aligned, overlap_start, overlap_end
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub write_ranges: Option<Vec<DataRange>>,

    /// Ranges of dwrite and mmapwrite, widened to whole blocks
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub block_ranges: Option<Vec<DataRange>>,

    /// Sizes of truncate in bytes
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub truncate_sizes: Option<Vec<u64>>,

    /// Pairs of link, symlink and reflink: into-second, from-first
    #[arg(long, value_name = "WHICH")]
    pub link_pairs: Option<LinkPairs>,

    /// Persistence operations: fsync, fdatasync, sync, syncfs, none
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub persistence: Option<Vec<Persistence>>,

    /// What fsync and fdatasync are applied to: the used names, or the related ones too
    #[arg(long, value_name = "WHICH")]
    pub persist_names: Option<PersistNames>,

    /// Which sequences to keep: any, or overlap (operations must share names)
    #[arg(long, value_name = "WHICH")]
    pub reuse: Option<Reuse>,
}

impl GeneratorArgs {
    /// Whether generated workloads are asked for.
    pub fn is_given(&self) -> bool {
        *self != GeneratorArgs::default()
    }

    /// The bounds that the flags describe. They keep the name of the preset only if they are
    /// the preset's.
    ///
    /// # Errors
    /// [`BoundsError::Missing`] if there is neither a preset nor a number of operations.
    pub fn bounds(&self) -> Result<Bounds, BoundsError> {
        let published = match (self.preset, self.ops) {
            (Some(preset), _) => preset.bounds(),
            (None, Some(ops)) => Bounds::of_length(ops),
            (None, None) => return Err(BoundsError::Missing),
        };
        let mut bounds = published.clone();
        self.narrow_operations(&mut bounds);
        self.narrow_names(&mut bounds);
        self.narrow_parameters(&mut bounds);
        self.narrow_persistence(&mut bounds);
        if bounds != published {
            bounds.name_as_custom();
        }
        Ok(bounds)
    }

    /// The generator of those bounds.
    ///
    /// # Errors
    /// If there are no bounds, or [`Generator::new`] refuses them.
    pub fn generator(&self) -> Result<Generator, BoundsError> {
        Generator::new(self.bounds()?)
    }

    fn narrow_operations(&self, bounds: &mut Bounds) {
        if let Some(operations) = &self.operations {
            bounds.operations.clone_from(operations);
            bounds.operations.sort_unstable();
            bounds.operations.dedup();
        }
        if self.as_shipped {
            bounds.as_shipped();
        }
    }

    fn narrow_names(&self, bounds: &mut Bounds) {
        replace(&mut bounds.first_files, self.files.as_ref());
        replace(&mut bounds.second_files, self.second_files.as_ref());
        replace(&mut bounds.first_dirs, self.dirs.as_ref());
        replace(&mut bounds.second_dirs, self.second_dirs.as_ref());
        if self.nested {
            bounds.nest();
        }
    }

    fn narrow_parameters(&self, bounds: &mut Bounds) {
        replace(&mut bounds.falloc_modes, self.falloc_modes.as_ref());
        replace(&mut bounds.write_ranges, self.write_ranges.as_ref());
        replace(&mut bounds.block_ranges, self.block_ranges.as_ref());
        replace(&mut bounds.truncate_sizes, self.truncate_sizes.as_ref());
        bounds.link_pairs = self.link_pairs.unwrap_or(bounds.link_pairs);
        bounds.reuse = self.reuse.unwrap_or(bounds.reuse);
    }

    fn narrow_persistence(&self, bounds: &mut Bounds) {
        replace(&mut bounds.persistence, self.persistence.as_ref());
        bounds.persist_names = self.persist_names.unwrap_or(bounds.persist_names);
    }
}

fn replace<T: Clone + PartialEq>(list: &mut Vec<T>, given: Option<&Vec<T>>) {
    let Some(given) = given else { return };
    list.clear();
    for item in given {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

/// Which of the generated workloads are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Selection of generated workloads")]
pub struct SelectionArgs {
    /// Leave out workloads that a file system cannot tell from an earlier one
    #[arg(long)]
    pub unique: bool,

    /// Only part I of N, I from 1 to N; the parts are disjoint and complete
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// Only workload I, counted from 0
    #[arg(long, value_name = "I", conflicts_with = "range")]
    pub index: Option<u64>,

    /// Only workloads A to B, without B
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    pub range: Option<Range<u64>>,

    /// Only N workloads, chosen at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,

    /// What decides which are chosen
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
}

impl SelectionArgs {
    /// What the flags describe.
    pub fn selection(&self) -> Selection {
        Selection {
            unique: self.unique,
            range: self
                .index
                .map(|index| index..index.saturating_add(1))
                .or_else(|| self.range.clone()),
            sample: self.sample.map(|count| Sample {
                count,
                seed: self.seed,
            }),
            shard: self.shard,
        }
    }
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parsed = text
        .split_once("..")
        .and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    parsed
        .filter(|range| range.start <= range.end)
        .ok_or_else(|| "a range is A..B with A not above B".to_owned())
}
