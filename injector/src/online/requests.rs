//! Requests to the disks of nodes: what is waited for, and what is counted as failure points.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use block_dev::{DiskRequest, Onlooker};
use cluster::{Area, Areas, ClusterFile};
use serde::Deserialize;

use super::disk_fault::Requested;
use super::ground::Ground;
use super::plan::{Awaited, FaultPlan, Moment, PlannedFault};
use super::points::{Point, RequestPoint, SeenPoint};
use super::roles::Roles;

const NO_PANIC: &str = "no holder panics";

/// Which requests to a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestOf {
    /// Of which kind.
    pub kind: RequestKind,
    /// Where on the disk they begin; without it anywhere.
    pub area: Option<Area>,
    /// Which of them, from 1 on, since it was first waited for.
    pub nth: u64,
}

/// A kind of request, as a trigger has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To flush.
    Flush,
    /// To discard, or to write zeros.
    Discard,
}

impl RequestKind {
    const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Flush, Self::Discard];

    fn of(request: DiskRequest) -> Self {
        match request {
            DiskRequest::Read { .. } => Self::Read,
            DiskRequest::Write { .. } => Self::Write,
            DiskRequest::Flush => Self::Flush,
            DiskRequest::Discard { .. } => Self::Discard,
        }
    }

    /// As a plan calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }

    /// The one with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a fault of disks calls it.
    pub(super) fn requested(self) -> Requested {
        match self {
            Self::Read => Requested::Reads,
            Self::Write | Self::Discard => Requested::Writes,
            Self::Flush => Requested::Flushes,
        }
    }
}

impl RequestOf {
    /// In words.
    fn words(&self, when: Moment) -> String {
        let area = self.area.map(|area| format!(" in {}", area.name()));
        let moment = match when {
            Moment::Before => "asks its disk for",
            Moment::After => "has from its disk",
        };
        format!(
            "{moment} {} {}{}",
            self.kind.name(),
            self.nth,
            area.unwrap_or_default()
        )
    }

    fn is_of(&self, made: &MadeRequest) -> bool {
        let is_there = self.area.is_none_or(|area| made.area == Some(area.name()));
        self.kind == made.kind && is_there
    }
}

/// A request, and where it begins if that is known and says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MadeRequest {
    kind: RequestKind,
    area: Option<&'static str>,
}

/// Whoever looks at the requests to the disks of nodes.
#[derive(Default)]
pub struct Requests {
    desks: BTreeMap<usize, Arc<RequestDesk>>,
    next_watch: Cell<u64>,
    counts: bool,
}

/// What is wanted of the requests to one disk.
struct RequestDesk {
    node: usize,
    areas: Option<Areas>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watches: BTreeMap<u64, Watched>,
    /// Those for which a request waits.
    held: Vec<u64>,
    /// What the node is called at points.
    name: String,
    is_counting: bool,
    seen: BTreeMap<(String, MadeRequest), Times>,
    /// How many of those were done that count, whatever the node was called.
    done: BTreeMap<MadeRequest, u64>,
}

/// A request that is waited for.
struct Watched {
    of: RequestOf,
    when: Moment,
    holds: bool,
    seen: u64,
    has_fired: bool,
}

/// How often a request came, and when first.
#[derive(Clone)]
struct Times {
    count: u64,
    first_ns: u64,
}

impl State {
    /// The same with nothing that is waited for.
    fn forked(&self) -> Self {
        Self {
            name: self.name.clone(),
            is_counting: self.is_counting,
            seen: self.seen.clone(),
            done: self.done.clone(),
            ..Self::default()
        }
    }

    /// Counts a request for those who wait for one then. Whether it is to wait.
    fn waits(&mut self, made: &MadeRequest, when: Moment) -> bool {
        let before = self.held.len();
        for (id, watched) in &mut self.watches {
            if watched.when != when || !watched.of.is_of(made) {
                continue;
            }
            watched.seen += 1;
            if watched.seen == watched.of.nth {
                watched.has_fired = true;
                self.held.extend(watched.holds.then_some(*id));
            }
        }
        self.held.len() > before
    }

    fn count_done(&mut self, made: MadeRequest) {
        if self.is_counting {
            *self.done.entry(made).or_default() += 1;
        }
    }

    /// Has a request be waited for since counting began. Whether it has not come since then.
    fn catch_up(&mut self, id: u64) -> bool {
        let Some(watched) = self.watches.get_mut(&id) else {
            return false;
        };
        let of = &watched.of;
        watched.seen = match watched.when {
            Moment::Before => {
                let seen = self.seen.iter().filter(|((_, made), _)| of.is_of(made));
                seen.map(|(_, times)| times.count).sum()
            }
            Moment::After => {
                let done = self.done.iter().filter(|(made, _)| of.is_of(made));
                done.map(|(_, count)| count).sum()
            }
        };
        watched.seen < of.nth
    }

    fn count(&mut self, made: MadeRequest, now_ns: u64) {
        if !self.is_counting {
            return;
        }
        let first_ns = now_ns;
        let times = self.seen.entry((self.name.clone(), made));
        times.or_insert(Times { count: 0, first_ns }).count += 1;
    }
}

impl RequestDesk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    fn made(&self, request: DiskRequest) -> MadeRequest {
        let offset = match request {
            DiskRequest::Read { offset, .. }
            | DiskRequest::Write { offset, .. }
            | DiskRequest::Discard { offset, .. } => Some(offset),
            DiskRequest::Flush => None,
        };
        let area = self.areas.as_ref().zip(offset);
        MadeRequest {
            kind: RequestKind::of(request),
            area: area.map(|(areas, offset)| areas.at(offset).name()),
        }
    }
}

impl Onlooker for RequestDesk {
    fn comes(&self, request: DiskRequest, now_ns: u64) -> bool {
        let made = self.made(request);
        let mut state = self.state();
        state.count(made, now_ns);
        state.waits(&made, Moment::Before)
    }

    fn is_done(&self, request: DiskRequest, has_failed: bool) -> bool {
        if has_failed {
            return false;
        }
        let (made, mut state) = (self.made(request), self.state());
        state.count_done(made);
        state.waits(&made, Moment::After)
    }

    fn holds(&self) -> bool {
        !self.state().held.is_empty()
    }
}

impl Requests {
    /// Looks at the disks of the nodes of which a plan names requests, and of all, if they are to be counted.
    ///
    /// # Errors
    /// If the ground cannot have that.
    pub(super) fn begin(
        ground: &mut dyn Ground,
        plan: &FaultPlan,
        counts: bool,
    ) -> cluster::Result<Self> {
        let mut desks = BTreeMap::new();
        if counts || plan.needs_requests() {
            for node in with_disks(ground.file()) {
                let desk = Arc::new(RequestDesk {
                    node,
                    areas: ground.areas(node)?,
                    state: Mutex::default(),
                });
                ground.look_at_requests(node, Arc::clone(&desk) as Arc<dyn Onlooker>)?;
                desks.insert(node, desk);
            }
        }
        let this = Self {
            desks,
            next_watch: Cell::new(0),
            counts,
        };
        this.know_roles(ground.file(), None);
        Ok(this)
    }

    /// The same of disks that were forked, while nothing is waited for.
    ///
    /// # Errors
    /// If the ground cannot have that.
    pub(super) fn forked(&self, ground: &mut dyn Ground) -> cluster::Result<Self> {
        let mut desks = BTreeMap::new();
        for (node, desk) in &self.desks {
            let forked = Arc::new(RequestDesk {
                node: *node,
                areas: desk.areas.clone(),
                state: Mutex::new(desk.state().forked()),
            });
            ground.look_at_requests(*node, Arc::clone(&forked) as Arc<dyn Onlooker>)?;
            desks.insert(*node, forked);
        }
        Ok(Self {
            desks,
            next_watch: self.next_watch.clone(),
            counts: self.counts,
        })
    }

    /// Whether requests are counted.
    pub(super) fn counts(&self) -> bool {
        self.counts
    }

    /// The probe says who is what.
    pub(super) fn know_roles(&self, file: &ClusterFile, roles: Option<&Roles>) {
        for desk in self.desks.values() {
            desk.state().name = super::messages::end(file, roles, desk.node);
        }
    }

    /// From now on they count, and none before, if they are to count at all.
    pub(super) fn begin_tally(&self) {
        for desk in self.desks.values().filter(|_| self.counts) {
            let mut state = desk.state();
            state.is_counting = true;
            state.seen.clear();
            state.done.clear();
        }
    }

    /// They do not count any more.
    pub(super) fn end_tally(&self) {
        for desk in self.desks.values() {
            desk.state().is_counting = false;
        }
    }

    /// Waits for a request to the disk of one of these nodes, from now on. It waits as long as what is returned
    /// is kept, if it shall.
    pub(super) fn watch(
        &self,
        nodes: &[usize],
        of: &RequestOf,
        when: Moment,
        holds: bool,
    ) -> RequestWatch {
        let id = self.next_watch.replace(self.next_watch.get() + 1);
        let desks = nodes.iter().filter_map(|node| self.desks.get(node));
        let desks: Vec<_> = desks.cloned().collect();
        for desk in &desks {
            let watched = Watched {
                of: of.clone(),
                when,
                holds,
                seen: 0,
                has_fired: false,
            };
            desk.state().watches.insert(id, watched);
        }
        RequestWatch { id, desks }
    }

    /// The points that they are. The clients were started at `begun_ns`, by the clock of the disks.
    pub(super) fn points(&self, file: &ClusterFile, begun_ns: u64) -> Vec<SeenPoint> {
        let mut all: BTreeMap<Point, SeenPoint> = BTreeMap::new();
        for desk in self.desks.values() {
            for ((of, made), times) in &desk.state().seen {
                let point = Point::Request(RequestPoint {
                    request: made.kind.name().to_owned(),
                    area: made.area.map(str::to_owned),
                    of: of.clone(),
                });
                let first_ns = times.first_ns.saturating_sub(begun_ns);
                let seen = all.entry(point.clone()).or_insert_with(|| SeenPoint {
                    first_ns,
                    ..SeenPoint::of(point)
                });
                seen.first_ns = seen.first_ns.min(first_ns);
                let node = file.nodes[desk.node].name.clone();
                *seen.by_node.entry(node).or_default() += times.count;
            }
        }
        all.into_values().collect()
    }
}

/// The nodes that have disks of their own.
fn with_disks(file: &ClusterFile) -> Vec<usize> {
    let nodes = file.nodes.iter().enumerate();
    let with_disks = nodes.filter(|(_, node)| file.disk.is_some() && node.has_data);
    with_disks.map(|(node, _)| node).collect()
}

/// A request that is waited for, until this is dropped.
pub(super) struct RequestWatch {
    id: u64,
    desks: Vec<Arc<RequestDesk>>,
}

impl RequestWatch {
    /// The node whose disk was asked for it, and the request in words, once it has come.
    pub(super) fn fired(&self) -> Option<(usize, String)> {
        self.desks.iter().find_map(|desk| {
            let state = desk.state();
            let watched = state.watches.get(&self.id)?;
            let words = || watched.of.words(watched.when);
            watched.has_fired.then(|| (desk.node, words()))
        })
    }
}

impl RequestWatch {
    /// Waits for it since requests are counted, and not only since now. Whether it has not come by now.
    pub(super) fn catch_up(&self) -> bool {
        self.desks.iter().all(|desk| desk.state().catch_up(self.id))
    }
}

impl Drop for RequestWatch {
    fn drop(&mut self) {
        for desk in &self.desks {
            let mut state = desk.state();
            state.watches.remove(&self.id);
            state.held.retain(|id| *id != self.id);
        }
    }
}

impl FaultPlan {
    /// Whether it waits for requests to disks.
    pub fn needs_requests(&self) -> bool {
        let mut awaited = self.faults.iter().flat_map(PlannedFault::awaited);
        awaited.any(|awaited| matches!(awaited, Awaited::Request { .. }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::given::cluster_of;
    use super::super::roles::Role;
    use super::*;

    const WRITE: DiskRequest = DiskRequest::Write {
        offset: 0,
        length: 512,
    };

    fn requests(counts: bool) -> (Requests, Vec<Arc<RequestDesk>>) {
        let desk = |node| {
            Arc::new(RequestDesk {
                node,
                areas: None,
                state: Mutex::default(),
            })
        };
        let desks = vec![desk(0), desk(1)];
        let requests = Requests {
            desks: desks
                .iter()
                .map(|desk| (desk.node, Arc::clone(desk)))
                .collect(),
            counts,
            ..Requests::default()
        };
        (requests, desks)
    }

    fn of(kind: RequestKind, nth: u64) -> RequestOf {
        let area = None;
        RequestOf { kind, area, nth }
    }

    #[test]
    fn the_nth_request_of_its_kind_waits_on_its_node_until_nobody_waits_for_it() {
        let (requests, desks) = requests(false);
        let watch = requests.watch(&[0], &of(RequestKind::Write, 2), Moment::Before, true);
        let comes = |node: usize, request| desks[node].comes(request, 0);
        assert!(!comes(0, WRITE) && !comes(0, DiskRequest::Flush) && !comes(1, WRITE));
        assert!(!desks[0].is_done(WRITE, false) && watch.fired().is_none());
        assert!(comes(0, WRITE) && desks[0].holds() && !desks[1].holds());
        let words = "asks its disk for write 2".to_owned();
        assert_eq!(watch.fired(), Some((0, words)));
        drop(watch);
        assert!(!desks[0].holds() && !comes(0, WRITE));
    }

    #[test]
    fn a_request_that_failed_is_not_done_and_one_that_is_not_to_be_held_goes_on() {
        let (requests, desks) = requests(false);
        let flush = of(RequestKind::Flush, 1);
        let watch = requests.watch(&[0, 1], &flush, Moment::After, false);
        assert!(!desks[1].is_done(DiskRequest::Flush, true) && watch.fired().is_none());
        assert!(!desks[1].is_done(DiskRequest::Flush, false) && !desks[1].holds());
        assert_eq!(watch.fired().map(|(node, _)| node), Some(1));
    }

    #[test]
    fn requests_of_like_nodes_are_one_point_and_only_those_that_count_do() {
        let text = "disk = \"ext4\"\n[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n";
        let file = cluster_of(text);
        let (requests, desks) = requests(true);
        let role = |role: &str| Role {
            role: role.into(),
            more: String::new(),
        };
        let mut roles = Roles {
            asked: Duration::ZERO,
            of: [(0, role("follower")), (1, role("follower"))].into(),
            wrong: None,
        };
        requests.know_roles(&file, Some(&roles));
        desks[0].comes(WRITE, 5);
        requests.begin_tally();
        desks[1].comes(WRITE, 30);
        desks[0].comes(WRITE, 20);
        desks[0].comes(WRITE, 40);
        roles.of.insert(0, role("leader"));
        requests.know_roles(&file, Some(&roles));
        desks[0].comes(WRITE, 50);
        desks[0].comes(DiskRequest::Flush, 60);
        requests.end_tally();
        desks[0].comes(DiskRequest::Flush, 70);
        let points = requests.points(&file, 10);
        let told = points.iter().map(|seen| {
            let Point::Request(point) = &seen.point else {
                panic!("{seen:?}");
            };
            let by_node: Vec<_> = seen.by_node.values().copied().collect();
            (
                point.request.as_str(),
                point.of.as_str(),
                by_node,
                seen.first_ns,
            )
        });
        let told: Vec<_> = told.collect();
        let expected = [
            ("flush", "leader", vec![1], 50),
            ("write", "follower", vec![2, 1], 10),
            ("write", "leader", vec![1], 40),
        ];
        assert_eq!(told, expected);
        requests.begin_tally();
        assert!(requests.points(&file, 10).is_empty());
    }
}
