//! Faults that a plan names, injected into a cluster that runs on some [`Ground`].
//!
//! A [`FaultPlan`] is a TOML file: faults in order, each with the trigger that it waits for, whom it
//! hits, and when it ends. [`run`] does one run of it, and [`Ran`] says what happened.

mod act;
mod act_disks;
mod act_limits;
mod calls;
mod campaign;
mod clients;
mod combined;
mod directory;
mod disk_fault;
mod errno;
mod facts;
#[cfg(test)]
mod given;
mod ground;
mod jump;
mod lanes;
mod logged_roles;
mod logs;
mod looks;
mod message;
mod messages;
mod minimize;
mod namespaces;
mod parse;
mod parse_calls;
mod parse_requests;
mod picture;
mod plan;
mod points;
mod print;
mod ran;
mod recovered;
mod requests;
mod restarts;
mod roles;
mod run;
mod scribe;
mod select;
mod sent;
mod simulated;
mod sometimes;
mod strategies;
mod strategy;
mod text;
mod triggers;
mod turns;
mod want;
mod witness;
mod workload;
mod worse;

pub use calls::{Calls, run_hidden};
pub use campaign::{MakeRuns, Runs, Selection, Summary, campaign};
pub use directory::{
    InjectDirectory, InjectManifest, InjectResult, OnMachines, RUNS, manifest, merge, results,
    summary,
};
pub use disk_fault::{Becomes, DiskFault, Requested};
pub use errno::Errno;
pub(crate) use facts::write_times;
pub use facts::{
    ACKNOWLEDGEMENTS, FACTS_FILE, KnownCalls, LOG_TIMES, LOGS, LOOKS, LogTime, RunFacts, RunFiles,
    examine, wanted_reading,
};
pub use ground::{Ground, Loses, ProgramId};
pub use lanes::{Bar, Came, ClientLane, FaultBar, Lanes, Mark, NodeLane, RoleBar, Violation};
pub use looks::{After, Look};
pub use message::MessageOf;
pub use minimize::{Minimized, minimize};
pub use namespaces::Namespaces;
pub use parse::PlanError;
pub use plan::{
    Awaited, Begins, CallFault, CallOf, Comes, FaultPlan, Flow, Moment, PlannedFault, Selector,
    Trigger, What,
};
pub use points::{
    At, CallPoint, Collected, Disks, MessagePoint, Order, Pair, Point, PointFailure, RequestPoint,
    SeenPoint, points_table,
};
pub use ran::{FaultCame, Happening, Ran, RunEvent, SimulatedRun, State};
pub(crate) use ran::{NO_FAULT, doubtful};
pub use recovered::{Recovered, nearest_recovered};
pub use requests::{RequestKind, RequestOf};
pub use run::{Future, HISTORY, Place, Prefix, Trunk, run};
pub(crate) use scribe::Scribe;
pub use sent::Sent;
pub use simulated::Simulated;
pub use sometimes::conditions;
pub use strategies::{EXHAUSTIVE, Exhaustive, STRATEGIES, Search, strategy, without_faults};
pub use strategy::{Repeated, Strategy};
pub(crate) use text::derivations;
pub use text::{alike, findings, headline, table, timeline, totals};
pub use want::{Agreement, WANTED, Want};
pub use witness::{anomalies, seen};
pub use workload::workload;
pub use worse::Worse;
