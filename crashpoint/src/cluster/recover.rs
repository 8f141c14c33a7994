//! A cluster that is recorded while it recovers from a crash.

use campaign::Interrupt;
use cluster::{Cluster, ClusterFile, Error, Settings};
use node_sweep::{CrashState, Lent, Nodes, Subject, Verdict};

use super::record::Recorder;
use crate::recover::{Recoverer, Tried};

/// A cluster that is started on crash states.
pub(super) struct OfCluster<'a> {
    pub(super) nodes: Nodes,
    pub(super) file: &'a ClusterFile,
    pub(super) interrupt: &'a Interrupt,
}

impl Recoverer for OfCluster<'_> {
    fn recover(&mut self, state: &CrashState) -> anyhow::Result<Tried> {
        let (file, interrupt) = (self.file, self.interrupt);
        let mut tried = Tried::NotFollowed;
        let lent = self.nodes.lend(state, |cluster, lent| {
            tried = started(file, cluster, &lent, interrupt)?;
            anyhow::Ok(())
        })?;
        lent.map_err(anyhow::Error::msg)?;
        Ok(tried)
    }

    fn is_ok(&mut self, state: &CrashState) -> anyhow::Result<bool> {
        Ok(self.nodes.judge(state, false)? == Verdict::Ok)
    }
}

/// Records how the cluster comes up, and what it does until the check has had its answer: some
/// recover only when they are asked.
fn started(
    file: &ClusterFile,
    cluster: &mut Cluster,
    lent: &Lent<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Tried> {
    let cancelled = || interrupt.requested();
    let mut starter = Recorder::new(file, lent.directories);
    let started = cluster.start(&mut Settings {
        directories: lent.directories,
        first: false,
        turns: lent.turns,
        starter: &mut starter,
        cancelled: &cancelled,
    });
    let is_ok = match started {
        Ok(()) => cluster.run_check(lent.acks, &cancelled)? == cluster::Verdict::Ok,
        Err(Error::NotReady { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    cluster.kill();
    let trace = starter.trace()?;
    Ok(if is_ok {
        Tried::of(trace)
    } else {
        Tried::NotOk
    })
}
