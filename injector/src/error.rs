use std::io;
use std::path::PathBuf;

/// The result of what is done with faults.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a fault cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster cannot be started, or asked.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// The results cannot be read or kept.
    #[error(transparent)]
    Campaign(#[from] campaign::Error),
    /// This host refuses something.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done.
        doing: String,
        /// Why it is not.
        error: io::Error,
    },
    /// The check is not content although nothing failed: it says nothing about failures then.
    #[error("{when} the check is not `ok`, although nothing was lost: {what}")]
    NotOk {
        /// After what.
        when: &'static str,
        /// What it says.
        what: String,
    },
    /// A specification is violated without a failure, or cannot be evaluated.
    #[error(
        "without a failure the run is held against the specifications first, and that is not `ok`, so they \
         say nothing about failures: {what}"
    )]
    NotHeld {
        /// What is violated, or why it cannot be evaluated.
        what: String,
    },
    /// There is no moment to try: nothing is acknowledged, and no node asks its disk for anything.
    #[error(
        "while the client runs nothing is acknowledged and no disk is asked for anything, so there is nothing to try"
    )]
    NoPoints,
    /// A run was to stand still after its end.
    #[error("the run ends at {end_s} s of its time, before {until_s} s")]
    AfterEnd {
        /// When it ends, in seconds.
        end_s: f64,
        /// When it was to stand still.
        until_s: f64,
    },
    /// A run was not the same when it was made again.
    #[error(
        "failure {address} ended in another way when it was tried again (history {first}, then \
         {second}): something of this cluster is not determined by the seed, so no result of this \
         sweep can be believed; docs/simulation.md says what can do that"
    )]
    NotDeterministic {
        /// Its address.
        address: String,
        /// The history of its first run.
        first: String,
        /// And of the second.
        second: String,
    },
    /// Results that were begun with another cluster, kernel or seed.
    #[error("{path}: it was begun with another {what}: a sweep is continued as it was begun")]
    OtherSweep {
        /// The directory.
        path: PathBuf,
        /// What is different.
        what: &'static str,
    },
    /// A directory that is none of a live sweep.
    #[error("{0} has no results of `crashpoint cluster sweep --live`")]
    NotLive(PathBuf),
    /// A directory that is none of a campaign of injected faults.
    #[error("{0} has no results of `crashpoint inject`")]
    NotInject(PathBuf),
    /// What happened in a run cannot be asked.
    #[error(transparent)]
    Facts(#[from] datalog::Error),
    /// A plan is wrong.
    #[error(transparent)]
    Plan(#[from] crate::online::PlanError),
}
