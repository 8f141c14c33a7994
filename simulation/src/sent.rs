//! What was sent, counted by who sent it to whom.

use std::collections::BTreeMap;

use crate::carried::{Carried, Ports};
use crate::limit::Offered;

/// What was sent for programs, lost or not, by the ports that last. A `Way` says by whom, and to whom.
#[derive(Debug, Clone)]
pub struct Sent<Way>(BTreeMap<Way, BTreeMap<Ports, Carried>>);

impl<Way> Default for Sent<Way> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<Way: Copy + Ord> Sent<Way> {
    /// Counts a frame.
    pub fn add(&mut self, way: Way, offered: &Offered) {
        if offered.carried != Carried::default() {
            let by_ports = self.0.entry(way).or_default();
            *by_ports.entry(offered.ports.lasting()).or_default() += offered.carried;
        }
    }

    /// All on a way.
    pub fn on(&self, way: Way) -> Carried {
        let mut all = Carried::default();
        let by_ports = self.0.get(&way).into_iter();
        by_ports
            .flat_map(BTreeMap::values)
            .for_each(|carried| all += *carried);
        all
    }

    /// All, by way and then by ports.
    pub fn iter(&self) -> impl Iterator<Item = (Way, Ports, Carried)> {
        let ways = self.0.iter();
        ways.flat_map(|(way, by_ports)| {
            let by_ports = by_ports.iter();
            by_ports.map(move |(ports, carried)| (*way, *ports, *carried))
        })
    }
}
