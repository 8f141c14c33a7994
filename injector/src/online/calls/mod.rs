//! Triggers and faults at system calls: the nodes that a plan names so are traced
//! ([`tracer`]), at the calls that it names. All others run as ever. A node's tracer is a thread here, or
//! in the node's machine a process of its own ([`inside`]); whoever leaves word does not learn which.

mod corrupt;
mod desk;
mod inside;
mod kinds;
mod orders;
mod pattern;
mod remote;
mod tally;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use cluster::{ClusterFile, Disk, Ending, MachineTracer, NodeConfig, Process, Spawn, Starter};
use tracer::Table;

use super::plan::{Awaited, CallFault, CallOf, FaultPlan, Moment, Selector, What};
use super::roles::Roles;
use super::select::Known;
use desk::{Clerk, Desk, Traced};
use orders::{Orders, Report, Spec, Watched};
use remote::Remote;

pub use inside::run_hidden;
pub(super) use kinds::{PARTIAL, READ, names};
pub(super) use pattern::of_point;
pub(super) use tally::{Made, Times};

/// The program, for the init of a machine, which is the same one.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Calls of a node that were counted, with the functions that made them.
pub(super) type Tallied = Vec<(Made, Times, Vec<String>)>;

/// What is decided about the system calls of nodes: those that a plan names so are traced.
#[derive(Default)]
pub struct Calls {
    desks: BTreeMap<usize, Place>,
    /// The calls that are looked at, as plans name them.
    kinds: Vec<String>,
    next_watch: Cell<u64>,
    /// How many calls each fault has hit on each of its nodes, once it has ended.
    hits: RefCell<BTreeMap<(usize, usize), u64>>,
    /// Whether calls are to be counted.
    counts: bool,
}

/// Where the desk of a node is.
#[derive(Clone)]
enum Place {
    /// Here.
    Here(Arc<Desk>),
    /// In the node's machine.
    Inside(Rc<Remote>),
}

impl Place {
    fn orders(&self) -> &dyn Orders {
        match self {
            Self::Here(desk) => &**desk,
            Self::Inside(remote) => &**remote,
        }
    }

    fn here(&self) -> Option<&Arc<Desk>> {
        match self {
            Self::Here(desk) => Some(desk),
            Self::Inside(_) => None,
        }
    }

    fn inside(&self) -> Option<&Remote> {
        match self {
            Self::Here(_) => None,
            Self::Inside(remote) => Some(remote),
        }
    }
}

/// A node's directory of data, as it sees it.
fn data_of(node: &NodeConfig) -> Option<PathBuf> {
    node.has_data.then(|| node.directory())
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

/// The calls that are looked at, each once and in one order: where calls are counted they are the same for
/// all plans, and so are the runs up to their faults.
fn kinds_of(plan: &FaultPlan, counts: bool) -> Vec<String> {
    let of_plan = plan.calls().map(|(of, _)| of.call.clone());
    let counted = names().filter(|_| counts).map(str::to_owned);
    let kinds: BTreeSet<_> = of_plan.chain(counted).collect();
    kinds.into_iter().collect()
}

impl Calls {
    /// For the nodes of a plan; for all nodes with data, if calls are to be counted. Their tracers are in
    /// the machines of the nodes if those are `inside` of machines with kernels of their own.
    pub(super) fn new(plan: &FaultPlan, file: &ClusterFile, counts: bool, inside: bool) -> Self {
        let nodes = traced_nodes(plan, file, counts);
        let desk = |node: usize| {
            let NodeConfig { name, .. } = &file.nodes[node];
            let data = data_of(&file.nodes[node]);
            let place = if inside {
                Place::Inside(Rc::new(Remote::new(node)))
            } else {
                Place::Here(Arc::new(Desk::new(node, name, data.as_deref(), true)))
            };
            (node, place)
        };
        Self {
            desks: nodes.into_iter().map(desk).collect(),
            kinds: kinds_of(plan, counts),
            next_watch: Cell::new(0),
            hits: RefCell::default(),
            counts,
        }
    }

    /// The same in machines that were forked, for another plan: nothing is decided yet. Nothing, if nodes are
    /// traced otherwise for that one, or not in their machines.
    pub(super) fn forked(&self, plan: &FaultPlan, file: &ClusterFile) -> Option<Self> {
        let wanted = traced_nodes(plan, file, self.counts);
        let is_same = wanted.iter().eq(self.desks.keys());
        if !is_same || kinds_of(plan, self.counts) != self.kinds {
            return None;
        }
        let desks = self.desks.iter().map(|(node, place)| {
            let remote = place.inside()?.forked();
            Some((*node, Place::Inside(Rc::new(remote))))
        });
        Some(Self {
            desks: desks.collect::<Option<_>>()?,
            kinds: self.kinds.clone(),
            next_watch: self.next_watch.clone(),
            hits: self.hits.clone(),
            counts: self.counts,
        })
    }

    /// Whether calls are counted.
    pub(super) fn counts(&self) -> bool {
        self.counts
    }

    /// From now on calls are counted, and none before, if they are to be counted at all. The time is
    /// that of the ground, in nanoseconds.
    pub(super) fn begin_tally(&self, now_ns: u64) {
        for place in self.counting() {
            match place {
                Place::Here(desk) => desk.begin_tally(),
                Place::Inside(remote) => remote.begin_tally(now_ns),
            }
        }
    }

    /// Calls are not counted any more. What was is known once the ground and the desks agree.
    pub(super) fn end_tally(&self) {
        for place in self.counting() {
            match place {
                Place::Here(desk) => desk.end_tally(),
                Place::Inside(remote) => remote.end_tally(),
            }
        }
    }

    /// The probe says who is what.
    pub(super) fn know_roles(&self, roles: &Roles) {
        for place in self.counting() {
            let role = roles.of.get(&place.orders().node());
            let role = role.map(|role| role.role.as_str());
            match place {
                Place::Here(desk) => desk.know_role(role),
                Place::Inside(remote) => remote.know_role(role),
            }
        }
    }

    /// The calls that were counted, each time with the index of the node that made them.
    pub(super) fn tallies(&self) -> impl Iterator<Item = (usize, Tallied)> {
        self.counting().map(|place| {
            let tally = match place {
                Place::Here(desk) => desk.tally(),
                Place::Inside(remote) => remote.tally(),
            };
            (place.orders().node(), tally)
        })
    }

    /// Where calls are counted, if they are.
    fn counting(&self) -> impl Iterator<Item = &Place> {
        self.desks.values().filter(|_| self.counts)
    }

    fn desks_here(&self) -> impl Iterator<Item = &Arc<Desk>> {
        self.desks.values().filter_map(Place::here)
    }

    fn all(&self) -> impl Iterator<Item = &dyn Orders> {
        self.desks.values().map(Place::orders)
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
            let watched = Watched {
                of: of.clone(),
                when,
                holds,
                seen: 0,
            };
            desk.orders().watch(id, watched);
        }
        CallWatch { id, desks }
    }

    /// Puts a fault in place on these nodes.
    pub(super) fn hit(&self, nodes: &[usize], id: usize, fault: &CallFault) {
        for node in nodes {
            self.hits.borrow_mut().entry((id, *node)).or_default();
            if let Some(desk) = self.desks.get(node) {
                desk.orders().hit(id, fault);
            }
        }
    }

    /// Ends it.
    pub(super) fn spare(&self, id: usize) {
        self.all().for_each(|desk| desk.spare(id));
    }

    /// What came of its end, once the ground and the desks agree. Says which node has a call that is
    /// still held.
    pub(super) fn spared(&self, id: usize) -> Result<(), usize> {
        let mut still = None;
        for desk in self.all() {
            let Some(spared) = desk.spared(id) else {
                continue;
            };
            if let Some(all) = self.hits.borrow_mut().get_mut(&(id, desk.node())) {
                *all += spared.hits;
            }
            if !spared.is_free {
                still = Some(desk.node());
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
            desk.orders().pause(is_paused);
        }
    }

    /// Lets those go on whose time is over. Returns what happened in nodes, in words.
    pub(super) fn tick(&self) -> Vec<(usize, String)> {
        let news = |desk: &dyn Orders| {
            let node = desk.node();
            desk.tick().into_iter().map(move |words| (node, words))
        };
        self.all().flat_map(news).collect()
    }
}

/// What passes between the desks in machines and here.
impl Calls {
    fn inside(&self, node: usize) -> Option<&Remote> {
        self.desks.get(&node)?.inside()
    }

    /// Whether the desk of a node is in its machine.
    pub(super) fn is_inside(&self, node: usize) -> bool {
        self.inside(node).is_some()
    }

    /// The nodes whose desks are in their machines.
    pub(super) fn nodes_inside(&self) -> Vec<usize> {
        let desks = self.desks.values().filter_map(Place::inside);
        desks.map(Orders::node).collect()
    }

    /// The lines that a desk was not told yet.
    pub(super) fn take_orders(&self, node: usize) -> Vec<String> {
        let orders = self.inside(node).map(Remote::take_orders);
        let line = |order| serde_json::to_string(order).expect("it is plain data");
        orders.iter().flatten().map(line).collect()
    }

    /// A desk has said a line.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn hear(&self, node: usize, line: &[u8]) -> serde_json::Result<()> {
        let report = serde_json::from_slice(line)?;
        if let Some(desk) = self.inside(node) {
            desk.hear(report);
        }
        Ok(())
    }

    /// All desks that can are asked to say that they have done everything.
    pub(super) fn ask(&self) {
        let desks = self.desks.values().filter_map(Place::inside);
        desks.for_each(Remote::ask);
    }

    /// The desk of a node is about to go: it is asked what it has counted. Whether it has to be waited for.
    pub(super) fn tell(&self, node: usize) -> bool {
        self.inside(node).is_some_and(Remote::tell)
    }

    /// A node whose calls were not all counted, as its desk has gone.
    pub(super) fn lost_some(&self) -> Option<usize> {
        let mut desks = self.desks.values().filter_map(Place::inside);
        let lost = desks.find(|desk| self.counts && desk.has_lost_some());
        lost.map(Orders::node)
    }

    /// Whether a desk has said so.
    pub(super) fn has_answered(&self, node: usize) -> bool {
        self.inside(node).is_none_or(Remote::has_answered)
    }

    /// The machine of a node stands still from now on, or not any more: its desk says nothing meanwhile.
    pub(super) fn freeze(&self, node: usize, is_frozen: bool) {
        if let Some(desk) = self.inside(node) {
            desk.freeze(is_frozen);
        }
    }

    /// Whether a fault is in place on a node that stands still so.
    pub(super) fn stand_still(&self, fault: usize) -> bool {
        let mut desks = self.desks.values().filter_map(Place::inside);
        desks.any(|desk| desk.stands_still(fault))
    }

    /// There is no desk any more: all processes of a node have ended, or its machine has.
    pub(super) fn end(&self, node: usize) {
        if let Some(desk) = self.inside(node) {
            desk.end();
        }
    }
}

impl MachineTracer for Calls {
    fn words(&self, index: usize, node: &NodeConfig, now_ns: u64) -> Option<Vec<String>> {
        let spec = Spec {
            name: node.name.clone(),
            data: data_of(node),
            user: node.user.clone(),
            kinds: self.kinds.clone(),
            orders: self.inside(index)?.begin(now_ns),
        };
        let spec = serde_json::to_string(&spec).expect("it is plain data");
        Some(vec![
            OWN_PROGRAM.into(),
            inside::TRACED_COMMAND.into(),
            spec,
        ])
    }

    fn ended(&self, line: &[u8]) -> Option<i32> {
        match serde_json::from_slice(line) {
            Ok(Report::Ended(status)) => Some(status),
            _ => None,
        }
    }
}

/// A call that is waited for, until this is dropped.
pub(super) struct CallWatch {
    id: u64,
    desks: Vec<Place>,
}

impl CallWatch {
    /// The node that has made the call, and the call in words, once it has come.
    pub(super) fn fired(&self) -> Option<(usize, String)> {
        let fired = |desk: &dyn Orders| Some((desk.node(), desk.fired(self.id)?));
        self.desks.iter().map(Place::orders).find_map(fired)
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        for desk in &self.desks {
            desk.orders().unwatch(self.id);
        }
    }
}

impl FaultPlan {
    /// The calls that it names, and on whom.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&CallOf, &[Selector])> + Clone {
        const ALL: &[Selector] = &[Selector::All];
        self.faults.iter().flat_map(|fault| {
            let awaited = fault.awaited().filter_map(|awaited| match awaited {
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
        let mut desks = self.desks_here();
        let Some(desk) = desks.find(|desk| desk.name == node.name) else {
            return Spawn.start(node, disk, command);
        };
        let options = tracer::Options {
            name: node.name.clone(),
            processor: None,
        };
        let table = Table {
            rows: kinds::rows(&self.kinds),
        };
        let of_clerk = Arc::clone(desk);
        let traced = tracer::start(options, table, command, move || Ok(Clerk::asked(of_clerk)));
        let traced = Arc::new(traced.map_err(io::Error::other)?);
        desk.follow(&traced);
        Ok(Box::new(Followed {
            traced,
            desk: Arc::clone(desk),
        }))
    }
}

/// A node for the cluster, which only looks whether it lives. It is killed when this is dropped.
struct Followed {
    traced: Arc<Traced>,
    desk: Arc<Desk>,
}

impl Process for Followed {
    fn pid(&self) -> u32 {
        self.traced.pid()
    }

    fn ended(&mut self) -> io::Result<Option<Ending>> {
        let has_ended = self.desk.has_ended() || self.traced.has_ended();
        let how = || self.traced.status().map_or(Ending::Unknown, Ending::from);
        Ok(has_ended.then(how))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.desk.forget();
    }
}
