//! Faults of disks, put in place and ended; and nodes that lose their power and are started again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pace_rules::disk::{Log, Relaxation};

use super::act::{Hit, Said, Undo, said};
use super::disk_fault::{Becomes, DiskFault};
use super::ground::Loses;
use super::plan::What;
use super::run::Runner;

impl Runner<'_> {
    pub(super) fn hit_disks(&mut self, on: Vec<usize>, fault: usize, how: &DiskFault) -> Said<Hit> {
        if let Some(node) = on.iter().find(|node| self.disk_is_hit(**node)) {
            let name = self.names(&[*node]);
            return Err(format!("the disk of {name} has another fault already").into());
        }
        for (place, node) in on.iter().enumerate() {
            let count = Arc::clone(self.requests.entry((fault, *node)).or_default());
            let hits = how.counting(&count);
            if let Err(why) = said(self.ground.answer_some(*node, how.how(), hits)) {
                // That is the error to tell.
                let mut others = on[..place].iter();
                let _ = others.try_for_each(|other| self.ground.spare_requests(*other));
                return Err(why);
            }
        }
        let words = format!("disk of {} {}", self.names(&on), how.words());
        let undo = match how.becomes {
            Becomes::Failed => Undo::Disks(on.clone()),
            Becomes::Slow(_) | Becomes::Corrupt(_) => Undo::SpareDisks(on.clone()),
        };
        Ok(Hit::of(on, words, undo))
    }

    /// How many requests a fault has hit, on each of its nodes.
    pub(super) fn requests_hit(&self, fault: usize) -> Vec<(usize, u64)> {
        let of_fault = self.requests.range((fault, 0)..(fault + 1, 0));
        of_fault
            .map(|((_, node), count)| (*node, count.load(Ordering::Relaxed)))
            .collect()
    }

    /// Whether requests to the disk of a node have failed, or were corrupted.
    pub(super) fn disk_has_failed(&self, node: usize) -> bool {
        self.disk_was_hit(node, |becomes| !matches!(becomes, Becomes::Slow(_)))
    }

    /// Whether requests to the disk of a node were corrupted.
    pub(super) fn disk_was_corrupted(&self, node: usize) -> bool {
        self.disk_was_hit(node, |becomes| matches!(becomes, Becomes::Corrupt(_)))
    }

    fn disk_was_hit(&self, node: usize, so: impl Fn(Becomes) -> bool) -> bool {
        let is_such = |fault: usize| match &self.plan.faults[fault].what {
            What::Disk(how) => so(how.becomes),
            _ => false,
        };
        let mut all = self.requests.iter();
        all.any(|((fault, of), count)| {
            *of == node && is_such(*fault) && count.load(Ordering::Relaxed) > 0
        })
    }

    /// Whether a fault that is in place has its requests fail, be slow, or be corrupted.
    fn disk_is_hit(&self, node: usize) -> bool {
        let mut active = self.active.iter();
        active.any(|active| match &active.undo {
            Undo::Disks(nodes) | Undo::SpareDisks(nodes) => nodes.contains(&node),
            _ => false,
        })
    }

    /// The power of nodes fails, and with it the faults of their disks end, and pauses; if the power cannot fail, the
    /// end of their fault still has them boot.
    pub(super) fn lose_power(&mut self, nodes: &[usize], loses: &mut Loses) -> Said<Vec<usize>> {
        let lost = said(self.ground.power_loss(nodes, loses))?;
        for active in &mut self.active {
            if let Undo::Disks(hit) | Undo::SpareDisks(hit) | Undo::Resume(hit) = &mut active.undo {
                hit.retain(|node| !nodes.contains(node));
            }
        }
        Ok(lost)
    }

    /// What had nodes stand still does so no more, before it ends by itself.
    pub(super) fn stand_still_no_more(&mut self, nodes: &[usize]) {
        for active in &mut self.active {
            if let Undo::Resume(hit) = &mut active.undo {
                hit.retain(|node| !nodes.contains(node));
            }
        }
    }

    /// Has nodes boot whose disks failed requests, with all that these have: a file system that has seen
    /// an error may refuse to write until it is mounted again. One that another fault keeps down is
    /// started at the end of that.
    pub(super) fn boot_again(&mut self, nodes: &[usize]) -> Said<()> {
        for node in nodes {
            self.note_what_ends_with_the_machine(*node);
            self.lose_power(&[*node], &mut |_: usize, _: &Log| Relaxation::Prefix)?;
        }
        let mut up = self.not_kept_down(nodes).into_iter();
        up.try_for_each(|node| self.start(node))
    }

    /// Neither a pause nor the jump of a clock outlasts the machine. Where everything ends, that is no
    /// early end.
    fn note_what_ends_with_the_machine(&mut self, node: usize) {
        let active = self.active.iter().filter(|_| !self.healing.undoes_all);
        for active in active {
            if matches!(&active.undo, Undo::Resume(nodes) | Undo::Clocks(nodes, _) if nodes.contains(&node))
            {
                self.problems.push(format!(
                    "fault {} ended early on {}, which booted as its disk had failed requests",
                    active.fault + 1,
                    self.names(&[node])
                ));
            }
        }
    }

    /// Starts a node that does not run, unless all are about to be started.
    pub(super) fn start(&mut self, node: usize) -> Said<()> {
        if self.healing.is_on || said(self.ground.is_running(node))? {
            return Ok(());
        }
        said(self.ground.restart(node))
    }

    /// Those of some nodes that no fault which is in place has stand still.
    pub(super) fn not_stopped(&self, nodes: &[usize]) -> Vec<usize> {
        self.not_held(
            nodes,
            |undo, node| matches!(undo, Undo::Resume(nodes) if nodes.contains(&node)),
        )
    }

    /// Those of some nodes that no fault which is in place keeps down.
    pub(super) fn not_kept_down(&self, nodes: &[usize]) -> Vec<usize> {
        self.not_held(
            nodes,
            |undo, node| matches!(undo, Undo::Start(nodes) if nodes.contains(&node)),
        )
    }

    /// Those of some nodes that no fault which is in place holds by what ends it.
    fn not_held(&self, nodes: &[usize], holds: impl Fn(&Undo, usize) -> bool) -> Vec<usize> {
        let is_held = |node| self.active.iter().any(|active| holds(&active.undo, node));
        nodes
            .iter()
            .copied()
            .filter(|node| !is_held(*node))
            .collect()
    }
}
