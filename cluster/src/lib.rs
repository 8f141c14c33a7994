//! Nodes of a real system: namespaces, processes, readiness, clients.
//!
//! A [`ClusterFile`] says what the system is; a [`Cluster`] is one that runs, and gives handles:
//! each [`Node`] is started, killed, paused and switched off by itself, each [`Link`] is one
//! direction between two of them, which can be cut, each [`Client`] is a place for a client, and
//! a [`Disk`] loses what a power failure may cost.
//! Who holds them does not learn where the nodes live. Today each has a network, process and mount
//! namespace of its own, on a bridge in a network that nobody else sees, so that several clusters
//! run side by side with the same addresses. Nothing of that has a name on the machine, and all of
//! it ends with the process that made it, however that ends.

#![forbid(unsafe_code)]

mod ask;
mod background;
mod check;
mod client;
mod cluster;
mod died;
mod disk;
mod ends;
mod error;
mod everybody;
mod file;
mod filter;
mod ground;
mod hidden;
mod http;
mod links;
mod listing;
mod log;
mod namespaces;
mod network;
mod node;
mod process;
mod ready;
mod relay;
mod simulated;
mod stoppable;
mod tally;
mod turns;
mod words;

pub use ask::NO_ANSWER;
pub use background::Background;
pub use check::{Verdict, verdict};
pub use client::Client;
pub use cluster::{Cluster, Settings};
pub use died::{GO_STATUS, GO_WANTS, died_of};
pub use disk::{Disk, PowerCut};
pub use ends::NodeEnd;
pub use error::{Error, Result, UNUSABLE_DISK, is_killed};
pub use file::{
    ADDRESS_VARIABLE, CLIENT, Check, ClientConfig, ClientTurns, ClusterFile, DIRECTORY, Explore,
    LogErrors, LogRole, NodeConfig, PATIENCE_VARIABLE, ProbeConfig, ProbeKind, Ready, Side,
    SidedClient, SimulatedConfig, Sometimes, Step,
};
pub use hidden::{run_as_user, run_hidden};
pub use links::{Link, Links, Member, between};
pub use listing::{Listed, ListedKind, Reading, listed};
pub use local_fs::{Area, Areas};
pub use network::{client_address, reaches_others, set_up_machine, try_links, try_network};
pub use node::Node;
pub use process::{Ending, Process, Spawn, Starter};
pub use simulated::{
    Driven, ListedData, LogGrowth, Look, Looked, MachineRecorder, MachineRecording, MachineTracer,
    RunningClient, SimulatedCluster, SimulatedProgram, SimulationSettings, open_port,
    own_environment,
};
pub use turns::Turns;
