//! Clocks of nodes that run faster or slower for a while.

use super::{Fate, SimulatedCluster, Stage};
use crate::error::{Error, Result};
use crate::node::SETUP_WITHIN;
use crate::simulated::words::Order;

/// How long a kernel has run by its own clock: nobody can set that.
const UPTIME: &str = "/proc/uptime";

const NANOS: f64 = 1e9;

/// So far from what it should have counted a clock may be: others may have run before it was looked at.
const COUNT_OFF_NS_MAX: u64 = 50_000_000;

/// A clock that drifts by a fault.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drift {
    /// How much faster it was before, in parts of a million.
    before_ppm: i32,
    /// In which of its lives the machine was then.
    life: u32,
    counted: Counted,
}

/// What a clock has counted, by what the kernel of its machine says, and the calendar.
#[derive(Debug, Clone, Copy)]
struct Counted {
    kernel_ns: u64,
    calendar_ns: u64,
}

impl SimulatedCluster {
    /// Has the clock of a node run so many parts of a million faster than it does, and with it all that the
    /// machine measures, until that [ends](Self::end_drift). What it shows now stays.
    ///
    /// # Errors
    /// If its machine has no power or stands still, or its clock drifts already by this.
    pub fn drift_clock(
        &mut self,
        node: usize,
        by_ppm: i32,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        if !self.hosts.simulation.is_on(node) {
            return Err(self.of_clock(
                node,
                "has no power, and so no clock that could be looked at",
            ));
        }
        if self.nodes[node].fate == Fate::Frozen {
            return Err(self.stands_still(node));
        }
        if self.nodes[node].drift.is_some() {
            return Err(self.of_clock(node, "has a clock that drifts already"));
        }
        self.wait_for_command(node, cancelled)?;
        let counted = self.counted(node, cancelled)?;
        self.meet(cancelled)?;
        let before_ppm = self.hosts.simulation.drift_ppm(node);
        self.hosts.simulation.set_drift(node, before_ppm + by_ppm);
        let life = self.nodes[node].starts;
        self.nodes[node].drift = Some(Drift {
            before_ppm,
            life,
            counted,
        });
        Ok(())
    }

    /// Has it run as before. What it has gained stays, also when the machine boots. Whether its kernel has
    /// counted what it should have is looked at, if that has not booted meanwhile and can say so.
    ///
    /// # Errors
    /// If it has not.
    pub fn end_drift(&mut self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let Some(drift) = self.nodes[node].drift else {
            return Ok(());
        };
        self.meet(cancelled)?;
        self.hosts.simulation.set_drift(node, drift.before_ppm);
        self.nodes[node].drift = None;
        if self.nodes[node].starts != drift.life || !self.answers(node) {
            return Ok(());
        }
        let Counted {
            kernel_ns,
            calendar_ns,
        } = self.counted(node, cancelled)?;
        let counted_ns = kernel_ns.saturating_sub(drift.counted.kernel_ns);
        let wanted_ns = calendar_ns.saturating_sub(drift.counted.calendar_ns);
        if counted_ns.abs_diff(wanted_ns) > COUNT_OFF_NS_MAX {
            let what = format!("has counted {counted_ns} ns, where it should be {wanted_ns} ns");
            return Err(self.of_clock(node, &format!("has a clock that {what}")));
        }
        Ok(())
    }

    /// Whether the init of a machine is there, and time passes for it.
    fn answers(&mut self, node: usize) -> bool {
        self.hosts.simulation.is_on(node)
            && self.hosts.end(node).is_none()
            && self.stages[node] == Stage::Up
            && self.nodes[node].fate != Fate::Frozen
    }

    fn counted(&mut self, node: usize, cancelled: &dyn Fn() -> bool) -> Result<Counted> {
        // Nothing from before is taken for the answer.
        self.hosts.content(node);
        let path = UPTIME.into();
        self.hosts.order(node, &Order::Read { path });
        let content = self.wait(node, SETUP_WITHIN, cancelled, |hosts| hosts.content(node))?;
        self.refuse_lost_kernel(node)?;
        let bytes = content.and_then(std::result::Result::ok);
        let kernel_ns = bytes.and_then(|bytes| uptime_ns(&bytes));
        match (kernel_ns, self.hosts.simulation.shown_ns(node)) {
            (Some(kernel_ns), Some(calendar_ns)) => Ok(Counted {
                kernel_ns,
                calendar_ns,
            }),
            _ => Err(self.of_clock(node, "does not say what its clock has counted")),
        }
    }

    fn of_clock(&self, node: usize, what: &str) -> Error {
        Error::Command {
            whose: self.hosts.name(node).to_owned(),
            what: what.to_owned(),
        }
    }
}

/// The first of the two numbers of seconds in `/proc/uptime`.
fn uptime_ns(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * NANOS).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_the_boot_is_what_the_kernel_says_first() {
        assert_eq!(uptime_ns(b"12.34 56.78\n"), Some(12_340_000_000));
        assert_eq!(uptime_ns(b""), None);
        assert_eq!(uptime_ns(b"no time\n"), None);
    }
}
