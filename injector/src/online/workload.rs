//! The floor of a campaign: what its cluster and its clients take, whoever looks.

use super::clients::Clients;
use super::ground::Ground;
use super::plan::FaultPlan;
use super::run::Place;
use super::strategies::endless_for;
use crate::error::{Error, Result};

/// Starts a cluster, has its clients work, and kills its nodes. There is no fault, no probe and no check.
/// A client that goes on for ever has worked once it was acknowledged something; if there are no others,
/// they work as long as in a run without faults.
///
/// # Errors
/// If the cluster does not start, is not ready, or cannot be prepared; if clients are not done in
/// the time that the cluster file gives them; [`cluster::Error::Interrupted`].
pub fn workload(
    ground: &mut dyn Ground,
    plan: &FaultPlan,
    place: &Place,
    cancelled: &dyn Fn() -> bool,
) -> Result<()> {
    ground.start(ground.file().all_clients().len())?;
    let mut clients = Clients::start(ground, plan, &place.acknowledgements, &place.history)?;
    let least = endless_for(ground.file()).unwrap_or_default();
    let is_short = |ground: &dyn Ground, begun| ground.now() < begun + least;
    while !clients.have_worked() || is_short(ground, clients.begun()) {
        if cancelled() {
            return Err(cluster::Error::Interrupted.into());
        }
        if let Some(name) = clients.late(ground.now()) {
            let whose = format!("client {name}");
            let what = "is not done in its time".to_owned();
            return Err(Error::Cluster(cluster::Error::Command { whose, what }));
        }
        ground.pass()?;
        clients.hear(ground)?;
        clients.give_turn(ground, false);
    }
    ground.end();
    Ok(())
}
