//! Crash states of programs and clusters: as directories, judged by checks, told as stories.
//!
//! A state of a `Space` says what reached each node's disk. [`Disks`] makes the [`Tree`] of it,
//! each from the one that is nearest; [`Tree::write_to`] makes a directory of that, which a check
//! may do with what it likes.

#![forbid(unsafe_code)]

mod acks;
mod again;
mod blocks;
mod both_levels;
mod causes;
mod check;
mod chunks;
mod compare;
mod content;
mod coverage;
mod damage;
mod differences;
mod directory;
mod disks;
mod error;
mod finding;
mod findings;
mod inconclusive;
mod indices;
mod judged;
mod known;
mod levels;
mod likeness;
mod lines;
mod manifest;
mod merge;
mod minimize;
mod mount_slot;
mod nodes;
mod operations;
mod past;
mod place;
mod prevention;
mod program;
mod rank;
mod recorded;
mod recordings;
mod recoveries;
mod request;
mod results;
mod specs;
mod starts;
mod states;
mod summary;
mod sweep;
mod text;
mod tree;
mod undamaged;
mod watcher;

pub use acks::{late_acks, no_acks};
pub use again::{Address, keep, make_again, make_finding_again, refuse_to_keep};
pub use blocks::{kind_words, recorded_disks};
pub use check::{Check, CheckCommand, Checker, Complaint, Verdict};
pub use coverage::{Coverage, Tried};
pub use damage::Damage;
pub use disks::Disks;
pub use error::{Error, Result};
pub use finding::{
    DiskStory, EventPlace, Fate, Finding, Line, Lost, Moment, NodeStory, Sync, relaxation_words,
};
pub use findings::{AlikeStates, Findings, Kinds};
pub use inconclusive::{Inconclusive, Reason};
pub use judged::Verdicts;
pub use levels::{Concluded, Control, MakeSubjects, Requested};
pub use manifest::Manifest;
pub use merge::{Merged, merge};
pub use minimize::{Minimization, Minimized, Shape, minimize};
pub use mount_slot::{DiskImage, DiskState};
pub use nodes::{Lent, Nodes};
pub use past::Past;
pub use place::{Place, mentions};
pub use program::{Program, is_scratch, remove_tree, scratch};
pub use rank::Rank;
pub use recorded::{Numbered, Recorded, so_far, verdicts};
pub use recordings::Recordings;
pub use recoveries::{FirstCrash, Recoveries, first_crashes, first_crashes_of_disks};
pub use request::{Judge, Level, Request, Rule, explore};
pub use results::{Results, load_trace};
pub use specs::{Asking, FACTS_FOLDER, Specified, Specs, facts_of};
pub use starts::{Start, Turns};
pub use states::{CrashState, States};
pub use summary::{Summary, count_words, recoveries_words};
pub use sweep::{
    Broken, Made, ModelSet, Plan, Progress, Size, Source, Subject, Swept, Watch, sweep,
    sweep_source,
};
pub use tree::{Fingerprint, Impossible, Tree};
pub use undamaged::{left_behind, undamaged};

#[cfg(test)]
mod tests;
