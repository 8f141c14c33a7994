//! Triggers and faults at system calls: the nodes that a plan names so are traced
//! ([`tracer`]), at the calls that it names. All others run as ever.

mod corrupt;
mod desk;
mod kinds;
mod pattern;
mod tally;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Command;
use std::sync::Arc;

use cluster::{ClusterFile, Disk, Ending, NodeConfig, Process, Spawn, Starter};
use tracer::Table;
use tracer::calls::Row;

use super::plan::{Awaited, CallFault, CallOf, FaultPlan, Moment, Selector, What};
use super::roles::Roles;
use super::select::Known;
use desk::{Clerk, Desk, Traced};

pub(super) use kinds::{PARTIAL, names};
pub(super) use tally::{Made, Times};

/// Calls of a node that were counted, with the functions that made them.
pub(super) type Tallied = Vec<(Made, Times, Vec<String>)>;

/// What is decided about the system calls of nodes: those that a plan names so are traced.
#[derive(Default)]
pub struct Calls {
    desks: BTreeMap<usize, Arc<Desk>>,
    rows: Vec<Row>,
    next_watch: Cell<u64>,
    /// How many calls each fault has hit on each of its nodes, once it has ended.
    hits: RefCell<BTreeMap<(usize, usize), u64>>,
    /// Whether calls are to be counted.
    counts: bool,
}

/// The nodes of which a plan names calls, and those with data, if calls are to be counted.
fn traced_nodes(plan: &FaultPlan, file: &ClusterFile, counts: bool) -> BTreeSet<usize> {
    let known = Known {
        file,
        roles: None,
        seed: plan.seed,
        hit: None,
    };
    let all = 0..file.nodes.len();
    let mut nodes = BTreeSet::new();
    for selectors in plan.calls().map(|(_, on)| on) {
        // Who has a role then may be anybody now.
        let may_be = known.all(selectors, &[]);
        nodes.extend(may_be.unwrap_or_else(|_| all.clone().collect()));
    }
    if counts {
        nodes.extend(all.filter(|node| file.nodes[*node].has_data));
    }
    nodes
}

impl Calls {
    /// For the nodes of a plan; for all nodes with data, if calls are to be counted.
    pub(super) fn new(plan: &FaultPlan, file: &ClusterFile, counts: bool) -> Self {
        let nodes = traced_nodes(plan, file, counts);
        let desk = |node: usize| (node, Arc::new(Desk::new(node, &file.nodes[node])));
        let kinds = plan.calls().map(|(of, _)| of.call.clone());
        let counted = names().filter(|_| counts).map(str::to_owned);
        let kinds: Vec<_> = kinds.chain(counted).collect();
        Self {
            desks: nodes.into_iter().map(desk).collect(),
            rows: kinds::rows(&kinds),
            next_watch: Cell::new(0),
            hits: RefCell::default(),
            counts,
        }
    }

    /// Whether calls are counted.
    pub(super) fn counts(&self) -> bool {
        self.counts
    }

    /// From now on calls are counted, and none before, if they are to be counted at all.
    pub(super) fn begin_tally(&self) {
        if self.counts {
            self.desks.values().for_each(|desk| desk.begin_tally());
        }
    }

    /// Calls are not counted any more.
    pub(super) fn end_tally(&self) {
        self.desks.values().for_each(|desk| desk.end_tally());
    }

    /// The probe says who is what.
    pub(super) fn know_roles(&self, roles: &Roles) {
        for (node, desk) in &self.desks {
            let role = roles.of.get(node);
            desk.know_role(role.map(|role| role.role.as_str()));
        }
    }

    /// The calls that were counted, by the name of the node that made them.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (&str, Tallied)> {
        let of_desk = |desk: &'_ Arc<Desk>| desk.tally();
        self.desks
            .values()
            .map(move |desk| (desk.name.as_str(), of_desk(desk)))
    }

    /// Waits for a call of these nodes, from now on. It is held as long as what is returned is kept,
    /// if it shall be.
    pub(super) fn watch(
        &self,
        nodes: &[usize],
        of: &CallOf,
        when: Moment,
        holds: bool,
    ) -> CallWatch {
        let id = self.next_watch.replace(self.next_watch.get() + 1);
        let desks = nodes.iter().filter_map(|node| self.desks.get(node));
        let desks: Vec<_> = desks.cloned().collect();
        for desk in &desks {
            desk.watch(id, of, when, holds);
        }
        CallWatch { id, desks }
    }

    /// Puts a fault in place on these nodes.
    pub(super) fn hit(&self, nodes: &[usize], id: usize, fault: &CallFault) {
        for node in nodes {
            self.hits.borrow_mut().entry((id, *node)).or_default();
            if let Some(desk) = self.desks.get(node) {
                desk.hit(id, fault);
            }
        }
    }

    /// Ends it. Says which node has a call that is still held.
    pub(super) fn spare(&self, id: usize) -> Result<(), usize> {
        let mut still = None;
        for desk in self.desks.values() {
            let (hits, is_free) = desk.spare(id);
            if let Some(all) = self.hits.borrow_mut().get_mut(&(id, desk.node)) {
                *all += hits;
            }
            if !is_free {
                still = Some(desk.node);
            }
        }
        still.map_or(Ok(()), Err)
    }

    /// How many calls a fault that has ended has hit, on each of its nodes.
    pub(super) fn hits(&self, id: usize) -> Vec<(usize, u64)> {
        let all = self.hits.borrow();
        let of_fault = all.range((id, 0)..(id + 1, 0));
        of_fault.map(|((_, node), hits)| (*node, *hits)).collect()
    }

    /// A node is paused from now on, or not any more: what is held in it waits for that too.
    pub(super) fn pause(&self, node: usize, is_paused: bool) {
        if let Some(desk) = self.desks.get(&node) {
            desk.pause(is_paused);
        }
    }

    /// Lets those go on whose time is over. Returns what happened in nodes, in words.
    pub(super) fn tick(&self) -> Vec<(usize, String)> {
        let news = |desk: &Arc<Desk>| {
            let node = desk.node;
            desk.tick().into_iter().map(move |words| (node, words))
        };
        self.desks.values().flat_map(news).collect()
    }
}

/// A call that is waited for, until this is dropped.
pub(super) struct CallWatch {
    id: u64,
    desks: Vec<Arc<Desk>>,
}

impl CallWatch {
    /// The node that has made the call, and the call in words, once it has come.
    pub(super) fn fired(&self) -> Option<(usize, String)> {
        let fired = |desk: &Arc<Desk>| Some((desk.node, desk.fired(self.id)?));
        self.desks.iter().find_map(fired)
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        for desk in &self.desks {
            desk.unwatch(self.id);
        }
    }
}

impl FaultPlan {
    /// The calls that it names, and on whom.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&CallOf, &[Selector])> + Clone {
        const ALL: &[Selector] = &[Selector::All];
        self.faults.iter().flat_map(|fault| {
            let triggers = [Some(&fault.at), fault.until.as_ref()];
            let awaited = triggers.into_iter().flatten();
            let awaited = awaited.filter_map(|trigger| match &trigger.awaited {
                Awaited::Call { of, on, .. } => {
                    Some((of, on.as_ref().map_or(ALL, std::slice::from_ref)))
                }
                _ => None,
            });
            let hit = match &fault.what {
                What::Call(call) => Some((&call.of, &fault.on[..])),
                _ => None,
            };
            awaited.chain(hit)
        })
    }
}

impl Starter for &Calls {
    fn start(
        &mut self,
        node: &NodeConfig,
        disk: Option<&mut Disk>,
        command: Command,
    ) -> io::Result<Box<dyn Process>> {
        let mut desks = self.desks.values();
        let Some(desk) = desks.find(|desk| desk.name == node.name) else {
            return Spawn.start(node, disk, command);
        };
        let options = tracer::Options {
            name: node.name.clone(),
            processor: None,
        };
        let table = Table {
            rows: self.rows.clone(),
        };
        let of_clerk = Arc::clone(desk);
        let traced = tracer::start(options, table, command, move || Ok(Clerk(of_clerk)));
        let traced = Arc::new(traced.map_err(io::Error::other)?);
        desk.follow(&traced);
        Ok(Box::new(Watched {
            traced,
            desk: Arc::clone(desk),
        }))
    }
}

/// A node for the cluster, which only looks whether it lives. It is killed when this is dropped.
struct Watched {
    traced: Arc<Traced>,
    desk: Arc<Desk>,
}

impl Process for Watched {
    fn pid(&self) -> u32 {
        self.traced.pid()
    }

    fn ended(&mut self) -> io::Result<Option<Ending>> {
        let has_ended = self.desk.has_ended() || self.traced.has_ended();
        let how = || self.traced.status().map_or(Ending::Unknown, Ending::from);
        Ok(has_ended.then(how))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.desk.forget();
    }
}
