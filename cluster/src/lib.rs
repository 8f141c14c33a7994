//! Nodes of a real system: namespaces, processes, readiness, clients.
//!
//! A [`ClusterFile`] says what the system is; a [`Cluster`] is one that runs. Each node has a
//! network, process and mount namespace of its own, on a bridge in a network that nobody else sees,
//! so that several clusters run side by side with the same addresses. Nothing of that has a name
//! on the machine, and all of it ends with the process that made it, however that ends.

#![forbid(unsafe_code)]

mod check;
mod cluster;
mod error;
mod file;
mod hidden;
mod log;
mod namespaces;
mod network;
mod process;
mod ready;
mod words;

pub use check::{Verdict, verdict};
pub use cluster::{Cluster, Settings};
pub use error::{Error, Result};
pub use file::{
    ADDRESS_VARIABLE, CLIENT, Check, Client, ClusterFile, DIRECTORY, Explore, Node,
    PATIENCE_VARIABLE, Ready,
};
pub use hidden::run_hidden;
pub use network::{client_address, reaches_others, try_network};
pub use process::{Process, Spawn, Starter};
