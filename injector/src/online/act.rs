//! Faults put in place, and ended again: each is verified.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use cluster::{Error as ClusterError, Member, Side, between};
use pace_rules::disk::Log;
use simulation::Chance;

use super::jump;
use super::plan::{CallFault, Flow, PlannedFault, Selector, What};
use super::run::Runner;
use super::select::Known;
use super::worse::Worse;
use crate::disks::Keeps;

/// What ends a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undo {
    /// These nodes are started.
    Start(Vec<usize>),
    /// They go on.
    Resume(Vec<usize>),
    /// Calls are left alone by the fault with this index.
    Calls(usize),
    /// These links are healed.
    Heal(Vec<(Member, Member)>),
    /// Their clocks jump back by what they jumped, in nanoseconds.
    Clocks(Vec<usize>, i64),
    /// Their clocks run as before.
    Drifts(Vec<usize>),
    /// Their disks fail no requests any more, and they boot again.
    Disks(Vec<usize>),
    /// Their disks do again what they are asked for, at once and as it should be.
    SpareDisks(Vec<usize>),
    /// These links are as ever.
    Links(Vec<(Member, Member)>, Worse),
    /// Nothing is left to be done.
    Nothing,
}

/// A fault that was put in place.
pub(super) struct Hit {
    pub(super) on: Vec<usize>,
    pub(super) words: String,
    pub(super) undo: Undo,
    /// Of links, who is on each side.
    pub(super) sides: Option<Sides>,
    /// Since when it is in place, if not only since now.
    pub(super) since: Option<Duration>,
}

impl Hit {
    /// Of nodes.
    pub(super) fn of(on: Vec<usize>, words: String, undo: Undo) -> Self {
        Self {
            on,
            words,
            undo,
            sides: None,
            since: None,
        }
    }

    /// Of links that are cut.
    pub(super) fn partition(on: Vec<usize>, cut: Between) -> Self {
        Self {
            words: format!("partition {}", cut.words),
            undo: Undo::Heal(cut.directions),
            sides: Some(cut.sides),
            since: None,
            on,
        }
    }
}

/// Whom a plan names at the ends of links: who is hit, and from whom.
type Ends<'a> = (&'a [Selector], &'a [Selector]);

/// The names of those on one side of links, and on the other.
type Sides = (Vec<String>, Vec<String>);

/// The directions between two groups.
pub(super) struct Between {
    pub(super) directions: Vec<(Member, Member)>,
    sides: Sides,
    words: String,
}

/// Why a fault could not be put in place, or not be ended.
pub(super) enum Why {
    /// In words.
    Words(String),
    /// The ground failed.
    Ground(ClusterError),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Ground(error) => error.fmt(f),
        }
    }
}

impl From<String> for Why {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<&str> for Why {
    fn from(words: &str) -> Self {
        Self::Words(words.into())
    }
}

pub(super) type Said<T> = Result<T, Why>;

pub(super) fn said<T>(result: cluster::Result<T>) -> Said<T> {
    result.map_err(Why::Ground)
}

/// Whether nothing that is seen after an error says anything of the programs: a machine may be gone without
/// an end.
pub(super) fn ends_the_run(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::Simulation(_) | ClusterError::Unable { .. } | ClusterError::Interrupted
    )
}

/// The directions of a flow between two sides, and how they are drawn.
fn directions(
    inside: &[Member],
    outside: &[Member],
    flow: Flow,
) -> (Vec<(Member, Member)>, &'static str) {
    let (out, back) = (between(inside, outside), between(outside, inside));
    match flow {
        Flow::Both => (out.chain(back).collect(), "|"),
        Flow::Out => (out.collect(), "-x>"),
        Flow::In => (back.collect(), "<x-"),
    }
}

impl Runner<'_> {
    /// Puts a fault in place. Says why it cannot be, if that is so.
    pub(super) fn hit(&mut self, fault: usize) -> Said<Hit> {
        let planned = &self.plan.faults[fault];
        let on = self.whom(planned)?;
        match &planned.what {
            What::Kill => self.kill(on, "kill"),
            What::PowerLoss(keeps) => self.power_loss(on, *keeps),
            What::Pause => self.pause(on),
            What::Freeze => self.freeze(on),
            What::Restart => self.kill(on, "restart"),
            What::Resume => self.resume(on),
            What::Heal => Ok(self.heal_everything()),
            What::Clock(by_ns) => self.move_clocks(on, *by_ns),
            What::Drift(ppm) => self.drift_clocks(on, *ppm),
            What::Disk(errors) => self.hit_disks(on, fault, errors),
            What::Call(call) => self.hit_calls(on, fault, call),
            What::Partition { from, flow, .. } => self.partition((&planned.on, from), *flow),
            What::Link { from, flow, worse } => self.worsen((&planned.on, from), *flow, *worse),
        }
    }

    /// Whom a fault hits: somebody, unless it heals.
    fn whom(&self, planned: &PlannedFault) -> Said<Vec<usize>> {
        let on = self.known().all(&planned.on, &[])?;
        if on.is_empty() && planned.what != What::Heal {
            return Err("it would hit nobody".into());
        }
        Ok(on)
    }

    fn heal_everything(&mut self) -> Hit {
        self.undo_all();
        Hit::of(Vec::new(), "heal".into(), Undo::Nothing)
    }

    /// Those that a fault of links hits, and those from whom, who are not hit as well.
    pub(super) fn sides(
        &self,
        on: &[Selector],
        from: &[Selector],
    ) -> Said<(Vec<usize>, Vec<usize>)> {
        let on = self.known().all(on, &[])?;
        let mut from = self.known().all(from, &on)?;
        from.retain(|node| !on.contains(node));
        Ok((on, from))
    }

    pub(super) fn known(&self) -> Known<'_> {
        Known {
            file: self.ground.file(),
            roles: self.roles.as_ref(),
            seed: self.plan.seed,
            hit: self.last.hit.as_deref(),
        }
    }

    /// Fails if one of the nodes does not run: what does not run cannot be hit.
    fn refuse_stopped(&mut self, nodes: &[usize]) -> Said<()> {
        for node in nodes {
            if !said(self.ground.is_running(*node))? {
                return Err(format!("{} did not run", self.names(&[*node])).into());
            }
        }
        Ok(())
    }

    fn kill(&mut self, on: Vec<usize>, what: &str) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        said(self.ground.kill(&on))?;
        self.stand_still_no_more(&on);
        self.verify_stopped(&on)?;
        let words = format!("{what} {}", self.names(&on));
        Ok(Hit::of(on.clone(), words, Undo::Start(on)))
    }

    /// A machine whose program has ended is on: what its kernel has not written is lost as well.
    fn power_loss(&mut self, on: Vec<usize>, keeps: Keeps) -> Said<Hit> {
        let names: Vec<_> = on.iter().map(|node| self.names(&[*node])).collect();
        let chances = names.iter().map(|name| Chance::new(self.plan.seed, name));
        let mut chances: BTreeMap<_, _> = on.iter().copied().zip(chances).collect();
        let mut loses = |node: usize, log: &Log| {
            keeps.draw(log, chances.get_mut(&node).expect("it is one of them"))
        };
        let lost = self.lose_power(&on, &mut loses)?;
        let lost = names.iter().zip(lost);
        let lost: Vec<_> = lost.map(|(name, lost)| format!("{name} {lost}")).collect();
        self.verify_stopped(&on)?;
        let words = format!(
            "power loss of {}; disks keep {}; lost writes that had reached them: {}",
            self.names(&on),
            keeps.words(),
            lost.join(", ")
        );
        Ok(Hit::of(on.clone(), words, Undo::Start(on)))
    }

    fn verify_stopped(&mut self, nodes: &[usize]) -> Said<()> {
        for node in nodes {
            if said(self.ground.is_running(*node))? {
                return Err(format!("{} still runs", self.names(&[*node])).into());
            }
        }
        Ok(())
    }

    fn pause(&mut self, on: Vec<usize>) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        said(self.ground.pause(&on))?;
        let words = format!("pause {}", self.names(&on));
        Ok(Hit::of(on.clone(), words, Undo::Resume(on)))
    }

    fn resume(&mut self, on: Vec<usize>) -> Said<Hit> {
        said(self.ground.resume(&on))?;
        self.stand_still_no_more(&on);
        let words = format!("resume {}", self.names(&on));
        Ok(Hit::of(on, words, Undo::Nothing))
    }

    fn freeze(&mut self, on: Vec<usize>) -> Said<Hit> {
        self.refuse_stopped(&on)?;
        said(self.ground.freeze(&on))?;
        let words = format!("freeze {}", self.names(&on));
        Ok(Hit::of(on.clone(), words, Undo::Resume(on)))
    }

    fn move_clocks(&mut self, on: Vec<usize>, by_ns: i64) -> Said<Hit> {
        said(self.ground.move_clocks(&on, by_ns))?;
        let by = jump::seconds(by_ns);
        let words = format!("clock of {} jumps by {by} s", self.names(&on));
        Ok(Hit::of(on.clone(), words, Undo::Clocks(on, by_ns)))
    }

    fn drift_clocks(&mut self, on: Vec<usize>, ppm: i32) -> Said<Hit> {
        said(self.ground.drift_clocks(&on, ppm))?;
        let (names, share) = (self.names(&on), jump::share(ppm.abs()));
        let how = if ppm > 0 { "fast" } else { "slow" };
        let words = format!("clock of {names} is {how} by the share {share}");
        Ok(Hit::of(on.clone(), words, Undo::Drifts(on)))
    }

    fn hit_calls(&mut self, on: Vec<usize>, fault: usize, call: &CallFault) -> Said<Hit> {
        self.calls.hit(&on, fault, call);
        if let Err(why) = said(self.ground.agree_on_calls()) {
            // It may be in place where it can.
            let _ = self.spare_calls(fault);
            return Err(why);
        }
        let words = format!("{} {}", self.names(&on), call.words());
        Ok(Hit::of(on, words, Undo::Calls(fault)))
    }

    /// Calls are left alone by all faults: what each has hit is known then. Nobody waits for what is held.
    pub(super) fn spare_all_calls(&self) {
        let faults = self.active.iter().filter_map(|active| match active.undo {
            Undo::Calls(fault) => Some(fault),
            _ => None,
        });
        for fault in faults {
            self.calls.spare(fault);
            let _ = self.calls.spared(fault);
        }
    }

    fn spare_calls(&mut self, fault: usize) -> Said<()> {
        self.calls.spare(fault);
        let agreed = said(self.ground.agree_on_calls());
        let spared = self.calls.spared(fault).map_err(|node| {
            let name = self.names(&[node]);
            Why::Words(format!("{name} has a call that is still held"))
        });
        agreed.and(spared)
    }

    fn partition(&mut self, (on, from): Ends, flow: Flow) -> Said<Hit> {
        let (on, from) = self.sides(on, from)?;
        let cut = self.between(&on, &from, flow)?;
        said(self.ground.cut(&cut.directions))?;
        Ok(Hit::partition(on, cut))
    }

    fn worsen(&mut self, (on, from): Ends, flow: Flow, worse: Worse) -> Said<Hit> {
        let (on, from) = self.sides(on, from)?;
        let links = self.between(&on, &from, flow)?;
        said(self.ground.set_links(&links.directions, Some(worse)))?;
        Ok(Hit {
            words: format!("link {}: {}", links.words, worse.words()),
            undo: Undo::Links(links.directions, worse),
            sides: Some(links.sides),
            since: None,
            on,
        })
    }

    /// The directions between two groups, with the clients on their sides.
    pub(super) fn between(&self, on: &[usize], from: &[usize], flow: Flow) -> Said<Between> {
        let members = |nodes: &[usize], side: Side| {
            let nodes = nodes.iter().map(|node| Member::Node(*node));
            let clients = self.clients.all.iter().enumerate();
            let clients = clients.filter(|(_, client)| client.config.side == side);
            let clients = clients.map(|(place, _)| Member::Client(place));
            nodes.chain(clients).collect::<Vec<_>>()
        };
        let inside = members(on, Side::Isolated);
        let outside = members(from, Side::Others);
        if on.is_empty() || from.is_empty() {
            return Err("nobody is left to be cut off from".into());
        }
        let (directions, arrow) = directions(&inside, &outside, flow);
        let sides = (self.members(&inside), self.members(&outside));
        let words = format!("{} {arrow} {}", sides.0.join(", "), sides.1.join(", "));
        Ok(Between {
            directions,
            sides,
            words,
        })
    }

    /// Ends a fault, as far as that takes no time: nodes that are started are ready later.
    pub(super) fn end(&mut self, undo: &Undo) -> Said<()> {
        match undo {
            Undo::Nothing => Ok(()),
            Undo::Resume(nodes) => said(self.ground.resume(&self.not_stopped(nodes))),
            Undo::Clocks(nodes, by_ns) => said(self.ground.move_clocks_back(nodes, *by_ns)),
            Undo::Drifts(nodes) => said(self.ground.end_drifts(nodes)),
            Undo::Start(nodes) => {
                let mut up = self.not_kept_down(nodes).into_iter();
                up.try_for_each(|node| self.start(node))
            }
            Undo::Disks(nodes) => self.boot_again(nodes),
            Undo::SpareDisks(nodes) => {
                let mut nodes = nodes.iter();
                nodes.try_for_each(|node| said(self.ground.spare_requests(*node)))
            }
            Undo::Calls(fault) => self.spare_calls(*fault),
            Undo::Links(directions, _) => self.end_links(directions),
            Undo::Heal(cuts) => self.heal_cuts(cuts),
        }
    }

    /// Links are as ever, but for what another fault makes worse.
    fn end_links(&mut self, directions: &[(Member, Member)]) -> Said<()> {
        said(self.ground.set_links(directions, None))?;
        for active in &self.active {
            if let Undo::Links(others, worse) = &active.undo {
                said(self.ground.set_links(others, Some(*worse)))?;
            }
        }
        Ok(())
    }

    /// Links are healed, but for what another fault cuts too.
    pub(super) fn heal_cuts(&mut self, cuts: &[(Member, Member)]) -> Said<()> {
        let others = self.active.iter().filter_map(|active| match &active.undo {
            Undo::Heal(cuts) => Some(cuts),
            _ => None,
        });
        let kept: Vec<_> = others.flatten().chain(&self.healing.cut).copied().collect();
        let healed = cuts.iter().copied().filter(|cut| !kept.contains(cut));
        let healed: Vec<_> = healed.collect();
        said(self.ground.heal(&healed))
    }

    /// Whether links that a fault has cut stay so, as only a majority is restored.
    pub(super) fn stays_cut(&self, undo: &Undo) -> bool {
        let is_cut = |cut: &(Member, Member)| self.healing.cut.contains(cut);
        matches!(undo, Undo::Heal(cuts) if cuts.iter().any(is_cut))
    }

    fn members(&self, all: &[Member]) -> Vec<String> {
        let name = |member: &Member| match member {
            Member::Node(node) => self.ground.file().nodes[*node].name.clone(),
            Member::Client(client) => format!("client {}", self.clients.all[*client].config.name),
        };
        all.iter().map(name).collect()
    }

    /// The names of nodes, as a sentence has them.
    pub(super) fn names(&self, nodes: &[usize]) -> String {
        let file = self.ground.file();
        let names = nodes.iter().map(|node| file.nodes[*node].name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }
}
