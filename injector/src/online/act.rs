//! Faults put in place, and ended again: each is verified.

use cluster::{Member, Side, Spawn, between};
use simulation::Chance;

use super::plan::{Flow, What};
use super::run::Runner;
use super::select::Known;
use crate::disks::Keeps;

/// What ends a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undo {
    /// These nodes are started.
    Start(Vec<usize>),
    /// They go on.
    Resume(Vec<usize>),
    /// These links are healed.
    Heal(Vec<(Member, Member)>),
    /// Nothing is left to be done.
    Nothing,
}

/// A fault that was put in place.
pub(super) struct Hit {
    pub(super) on: Vec<usize>,
    pub(super) words: String,
    pub(super) undo: Undo,
}

type Said<T> = Result<T, String>;

fn said<T>(result: cluster::Result<T>) -> Said<T> {
    result.map_err(|error| error.to_string())
}

impl Runner<'_> {
    /// Puts a fault in place. Says why it cannot be, if that is so.
    pub(super) fn hit(&mut self, fault: usize) -> Said<Hit> {
        let planned = &self.plan.faults[fault];
        let on = self.known().all(&planned.on, &[])?;
        match &planned.what {
            What::Kill => self.kill(on),
            What::PowerLoss(keeps) => self.power_loss(on, *keeps),
            What::Pause => self.pause(on),
            What::Restart => self.restart(on),
            What::Resume => {
                self.resume(&on)?;
                let words = format!("resume {}", self.names(&on));
                Ok(Hit {
                    on,
                    words,
                    undo: Undo::Nothing,
                })
            }
            What::Heal => {
                self.undo_all();
                Ok(Hit {
                    on: Vec::new(),
                    words: "heal".into(),
                    undo: Undo::Nothing,
                })
            }
            What::Partition { from, flow } => {
                let from = self.known().all(from, &on)?;
                let from = from.into_iter().filter(|node| !on.contains(node));
                let from: Vec<_> = from.collect();
                self.partition(on, &from, *flow)
            }
        }
    }

    fn known(&self) -> Known<'_> {
        Known {
            file: self.cluster.file(),
            roles: self.roles.as_ref(),
            seed: self.plan.seed,
        }
    }

    /// Fails if one of the nodes does not run: what does not run cannot be hit.
    fn refuse_stopped(&mut self, nodes: &[usize]) -> Said<()> {
        for node in nodes {
            let node = self.cluster.node(*node);
            if !said(node.is_running())? {
                return Err(format!("{} did not run", node.config().name));
            }
        }
        Ok(())
    }

    fn kill(&mut self, on: Vec<usize>) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        for node in &on {
            self.cluster.node(*node).kill();
        }
        self.verify_stopped(&on)?;
        Ok(Hit {
            words: format!("kill {}", self.names(&on)),
            undo: Undo::Start(on.clone()),
            on,
        })
    }

    fn restart(&mut self, on: Vec<usize>) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        for node in &on {
            self.cluster.node(*node).kill();
        }
        self.verify_stopped(&on)?;
        Ok(Hit {
            words: format!("restart {}", self.names(&on)),
            undo: Undo::Start(on.clone()),
            on,
        })
    }

    /// All are off before the first disk is looked at: the power fails for them together.
    fn power_loss(&mut self, on: Vec<usize>, keeps: Keeps) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        for node in &on {
            said(self.cluster.node(*node).power_off())?;
        }
        let mut lost = Vec::new();
        for place in &on {
            let node = self.cluster.node(*place);
            let name = node.config().name.clone();
            if node.disk().is_none() {
                return Err(format!("{name} has no data on a disk"));
            }
            let mut chance = Chance::new(self.plan.seed, &name);
            let cut = said(node.power_cut(|log| keeps.draw(log, &mut chance)))?;
            if let Some(why) = cut.unmountable {
                return Err(format!(
                    "the disk of {name} cannot be mounted after it: {why}"
                ));
            }
            lost.push(format!("{name} {}", cut.lost.len()));
        }
        self.verify_stopped(&on)?;
        Ok(Hit {
            words: format!(
                "power loss of {}; disks keep {}; lost writes: {}",
                self.names(&on),
                keeps.words(),
                lost.join(", ")
            ),
            undo: Undo::Start(on.clone()),
            on,
        })
    }

    fn verify_stopped(&mut self, nodes: &[usize]) -> Said<()> {
        for node in nodes {
            let node = self.cluster.node(*node);
            if said(node.is_running())? {
                return Err(format!("{} still runs", node.config().name));
            }
        }
        Ok(())
    }

    fn pause(&mut self, on: Vec<usize>) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        for node in &on {
            said(self.cluster.node(*node).pause())?;
        }
        Ok(Hit {
            words: format!("pause {}", self.names(&on)),
            undo: Undo::Resume(on.clone()),
            on,
        })
    }

    fn partition(&mut self, on: Vec<usize>, from: &[usize], flow: Flow) -> Said<Hit> {
        let members = |nodes: &[usize], side: Side| {
            let nodes = nodes.iter().map(|node| Member::Node(*node));
            let clients = self.clients.all.iter().enumerate();
            let clients = clients.filter(|(_, client)| client.config.side == side);
            let clients = clients.map(|(place, _)| Member::Client(place));
            nodes.chain(clients).collect::<Vec<_>>()
        };
        let inside = members(&on, Side::Isolated);
        let outside = members(from, Side::Others);
        if on.is_empty() || from.is_empty() {
            return Err("nobody is left to be cut off from".into());
        }
        let mut cuts = Vec::new();
        if flow != Flow::In {
            cuts.extend(between(&inside, &outside));
        }
        if flow != Flow::Out {
            cuts.extend(between(&outside, &inside));
        }
        let links = self.cluster.links();
        said(links.cut(cuts.iter().copied()))?;
        said(links.verify())?;
        let arrow = match flow {
            Flow::Both => "|",
            Flow::Out => "-x>",
            Flow::In => "<x-",
        };
        Ok(Hit {
            words: format!(
                "partition {} {arrow} {}",
                self.members(&inside),
                self.members(&outside)
            ),
            undo: Undo::Heal(cuts),
            on,
        })
    }

    fn resume(&mut self, nodes: &[usize]) -> Said<()> {
        for node in nodes {
            let node = self.cluster.node(*node);
            said(node.resume())?;
            if node.is_paused() {
                return Err(format!("{} is still paused", node.config().name));
            }
        }
        Ok(())
    }

    /// Ends a fault, as far as that takes no time: nodes that are started are ready later.
    pub(super) fn end(&mut self, undo: &Undo) -> Said<()> {
        match undo {
            Undo::Nothing => Ok(()),
            Undo::Resume(nodes) => self.resume(nodes),
            Undo::Start(nodes) => nodes.iter().try_for_each(|node| {
                let node = self.cluster.node(*node);
                if said(node.is_running())? {
                    return Ok(());
                }
                said(node.restart(&mut Spawn))
            }),
            Undo::Heal(cuts) => {
                // What another fault cuts too stays cut.
                let others = self.active.iter().filter_map(|active| match &active.undo {
                    Undo::Heal(cuts) => Some(cuts),
                    _ => None,
                });
                let kept: Vec<_> = others.flatten().copied().collect();
                let healed = cuts.iter().copied().filter(|cut| !kept.contains(cut));
                let links = self.cluster.links();
                said(links.heal(healed))?;
                said(links.verify())
            }
        }
    }

    fn members(&self, all: &[Member]) -> String {
        let name = |member: &Member| match member {
            Member::Node(node) => self.cluster.file().nodes[*node].name.clone(),
            Member::Client(client) => format!("client {}", self.clients.all[*client].config.name),
        };
        all.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The names of nodes, as a sentence has them.
    pub(super) fn names(&self, nodes: &[usize]) -> String {
        let file = self.cluster.file();
        let names = nodes.iter().map(|node| file.nodes[*node].name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}
