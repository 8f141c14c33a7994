//! Which crash states to visit of programs and clusters: what nodes did, and what of it a crash of
//! all of them at once could leave on each one's disk. Pure, as the rules for one disk are.
//!
//! A [`Run`] is what was recorded of every node, as operations on files, messages and marks. A cut
//! is a number of events for each node that can have happened when the power failed: what was
//! received was sent. A [`Model`] says what of those events a node's file system may have kept. The
//! states of a [`Space`] are the choices that an exploration makes of both; each says for every
//! node which [`Effect`]s are on its disk, in order.

mod alike;
mod allowed;
mod at_once;
mod blocks;
mod cuts;
mod effect;
mod micro;
mod model;
mod narrow;
mod operations;
mod places;
mod rules;
mod section;
mod space;
mod spaces;
mod starts;
mod sums;
mod synced;

pub use allowed::{AtRisk, Part};
pub use blocks::{BlockCount, BlockError, BlockRequest, BlockSpace, BlockState, RecordedDisk};
pub use effect::{Content, Effect};
pub use micro::{Micro, Split, micros};
pub use model::{DataOrder, DataSync, Exchange, Growth, Log, MODELS, Model};
pub use space::{
    Count, Error, Explore, Loss, NodeState, Relaxation, Relaxations, Request, Space, State,
};
pub use spaces::{Crowded, Histories, Kind, LINUX, Member, Spaces};
pub use starts::StartOrder;
