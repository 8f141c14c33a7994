//! A cluster on simulated machines: a kernel, a disk, a clock and a network card for each node, and
//! one machine for the client and the check.

mod hosts;
mod init;
mod run;
mod words;

pub use hosts::LogGrowth;
pub use init::open_port;
pub(crate) use init::{MACHINE_COMMAND, be_machine};
pub use run::{
    Driven, ListedData, Look, Looked, MachineRecorder, MachineRecording, MachineTracer,
    RunningClient, SimulatedCluster, SimulatedProgram, SimulationSettings, own_environment,
};
