//! What directories of data have, as the inits of their machines see it.

use super::{SimulatedCluster, Stage};
use crate::error::Result;
use crate::listing::{Listed, Reading};
use crate::node::SETUP_WITHIN;
use crate::simulated::words::{Listing, Order};

/// What a directory of data has, or why nobody knows.
pub type ListedData = std::result::Result<Vec<Listed>, String>;

impl SimulatedCluster {
    /// From now on the directory of data of each node that is switched on again is listed before its
    /// command is run: until then only the file system has recovered.
    pub fn list_before_starts(&mut self, reading: Reading) {
        self.lists = Some(reading);
    }

    /// What was listed so since this was last asked: of which nodes, and when, in nanoseconds since the
    /// simulation began.
    pub fn take_listed(&mut self) -> Vec<(usize, u64, ListedData)> {
        std::mem::take(&mut self.listed)
    }

    pub(super) fn list_before_start(
        &mut self,
        node: usize,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        if let Some(reading) = self.lists
            && let Some(listed) = self.list_data(node, reading, cancelled)?
        {
            let now_ns = self.now_ns();
            self.listed.push((node, now_ns, listed));
        }
        Ok(())
    }

    /// What the directory of data of a node has now, while nothing of the node runs. Nothing of one that
    /// has none, or whose machine is off or no system yet.
    ///
    /// # Errors
    /// If the simulation cannot go on, or the kernel is gone for no reason in its machine.
    pub fn list_data(
        &mut self,
        node: usize,
        reading: Reading,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<ListedData>> {
        if !self.file.nodes[node].has_data || !self.is_system(node) {
            return Ok(None);
        }
        let path = self.file.nodes[node].directory();
        // Nothing from before is taken for the answer.
        self.hosts.content(node);
        self.hosts
            .order(node, &Order::List(Listing { path, reading }));
        let content = self.wait(node, SETUP_WITHIN, cancelled, |hosts| hosts.content(node))?;
        Ok(Some(match content {
            Some(Ok(bytes)) => {
                postcard::from_bytes(&bytes).map_err(|error: postcard::Error| error.to_string())
            }
            Some(Err(why)) => Err(why),
            None => {
                self.refuse_lost_kernel(node)?;
                Err("its machine does not answer".into())
            }
        }))
    }

    /// Whether a machine is on, and has been set up.
    fn is_system(&self, machine: usize) -> bool {
        self.hosts.simulation.is_on(machine)
            && self.hosts.end(machine).is_none()
            && matches!(self.stages[machine], Stage::SetUp | Stage::Up)
    }
}
