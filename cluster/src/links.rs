//! The links of a cluster: one for each direction between two of its members.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use simulation::{Carried, Limit, Ports, Until};

use crate::error::Result;
use crate::ground::{Direction, Ground, Impaired, Limited, Quality, SharedLimit};

/// Who is at an end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// A node, by its index in the cluster file.
    Node(usize),
    /// A client, by its index.
    Client(usize),
}

/// All links of a cluster. It may be cloned and used anywhere: all are the same links.
///
/// A link that is cut loses everything, without a word, as soon as the call returns: also what
/// belongs to open connections. They stay open, and go on once the link is healed, as late as the
/// sender tries again (TCP waits longer each time). A cut stays while a node is killed, switched
/// off or started.
#[derive(Clone)]
pub struct Links {
    ground: Arc<dyn Ground>,
    impaired: Arc<Mutex<Impaired>>,
    address_of: fn(Member) -> Ipv4Addr,
}

impl Links {
    pub(crate) fn new(ground: Arc<dyn Ground>, address_of: fn(Member) -> Ipv4Addr) -> Self {
        Self {
            ground,
            impaired: Arc::default(),
            address_of,
        }
    }

    /// What `from` sends to `to`.
    pub fn link(&self, from: Member, to: Member) -> Link {
        Link {
            links: self.clone(),
            from,
            to,
        }
    }

    /// Cuts several directions, each from a sender to a receiver, at the same time.
    ///
    /// # Errors
    /// If this ground cannot cut links; then none has changed.
    pub fn cut(&self, directions: impl IntoIterator<Item = (Member, Member)>) -> Result<()> {
        let directions = self.directions(directions);
        self.change(|links| links.cuts.extend(directions))
    }

    /// Heals several directions at the same time.
    ///
    /// # Errors
    /// If this ground cannot heal links; then none has changed.
    pub fn heal(&self, directions: impl IntoIterator<Item = (Member, Member)>) -> Result<()> {
        let directions = self.directions(directions);
        self.change(|links| links.cuts.retain(|cut| !directions.contains(cut)))
    }

    /// Cuts several directions together once a limit is reached by what passes from now on in those in
    /// which it is counted. What is cut otherwise passes nothing that would count. While this is done,
    /// some messages may be lost. There is one such limit at a time.
    ///
    /// # Errors
    /// If this ground cannot do that, or one of them is not connected; then none has changed.
    pub fn limit(
        &self,
        cut: impl IntoIterator<Item = (Member, Member)>,
        counted: impl IntoIterator<Item = (Member, Member)>,
        until: Until,
    ) -> Result<()> {
        let limited = Limited {
            cut: self.directions(cut),
            counted: self.directions(counted),
            limit: SharedLimit::new(Limit::new(until)),
        };
        self.change(|links| links.limited = Some(limited))
    }

    /// The limit that there is, and what has passed.
    pub fn limited(&self) -> Option<Limit> {
        let links = self.impaired.lock().expect(NO_PANIC);
        let limited = links.limited.as_ref();
        limited.map(|limited| limited.limit.lock().clone())
    }

    /// When it was reached, if it was: no message has passed since.
    pub fn limit_reached(&self) -> Option<Instant> {
        let links = self.impaired.lock().expect(NO_PANIC);
        links
            .limited
            .as_ref()
            .and_then(|limited| limited.limit.reached())
    }

    /// How many messages were lost, up to now, since too many came at once to be counted or held against a
    /// limit.
    pub fn uncounted(&self) -> u64 {
        self.ground.uncounted()
    }

    /// Cuts the directions that have a limit, as [`Self::cut`] does. Nothing passes meanwhile, if the limit
    /// was reached.
    ///
    /// # Errors
    /// If this ground cannot cut links; then none has changed.
    pub fn cut_limited(&self) -> Result<()> {
        self.change(|links| {
            let limited = links.limited.take();
            links
                .cuts
                .extend(limited.into_iter().flat_map(|limited| limited.cut));
        })
    }

    /// Takes the limit away.
    ///
    /// # Errors
    /// If this ground cannot heal links; then none has changed.
    pub fn lift_limit(&self) -> Result<()> {
        self.change(|links| links.limited = None)
    }

    /// Counts from now on what is sent, lost or not.
    ///
    /// # Errors
    /// If this ground cannot do that.
    pub fn count(&self) -> Result<()> {
        self.ground.count()
    }

    /// What was sent in these directions since it is counted.
    pub fn carried(&self, directions: impl IntoIterator<Item = (Member, Member)>) -> Carried {
        let mut all = Carried::default();
        for direction in self.directions(directions) {
            all += self.ground.carried(direction);
        }
        all
    }

    /// What so many nodes have sent to each other since it is counted, by the ports that last.
    pub fn carried_by_ports(&self, nodes: usize) -> Vec<((usize, usize), Ports, Carried)> {
        let addresses = (0..nodes).map(|node| ((self.address_of)(Member::Node(node)), node));
        let nodes: BTreeMap<_, _> = addresses.collect();
        let all = self.ground.carried_by_ports().into_iter();
        all.filter_map(|((from, to), ports, carried)| {
            let way = (*nodes.get(&from)?, *nodes.get(&to)?);
            Some((way, ports, carried))
        })
        .collect()
    }

    /// Has all links be as ever: none is cut or worse.
    ///
    /// # Errors
    /// If this ground cannot heal links; then none has changed.
    pub fn heal_all(&self) -> Result<()> {
        self.change(|links| *links = Impaired::default())
    }

    /// Has messages fare so in several directions, or as ever. Where such a link is cut as well, all
    /// of them are lost. While this is done, some may be lost in any case.
    ///
    /// # Errors
    /// If this ground cannot do that, or one of them is not connected; then none has changed.
    pub fn set(
        &self,
        directions: impl IntoIterator<Item = (Member, Member)>,
        link: Option<simulation::Link>,
        seed: u64,
    ) -> Result<()> {
        let directions = self.directions(directions);
        self.change(|links| match link {
            Some(link) => {
                let quality = Quality { link, seed };
                links
                    .worse
                    .extend(directions.iter().map(|direction| (*direction, quality)));
            }
            None => links
                .worse
                .retain(|direction, _| !directions.contains(direction)),
        })
    }

    /// Asks the kernel whether just those links are cut or worse that are to be.
    ///
    /// # Errors
    /// If they are not, or that cannot be known.
    pub fn verify(&self) -> Result<()> {
        let links = self.impaired.lock().expect(NO_PANIC);
        self.ground.verify_links(&links)
    }

    fn directions(
        &self,
        members: impl IntoIterator<Item = (Member, Member)>,
    ) -> BTreeSet<Direction> {
        let address = self.address_of;
        members
            .into_iter()
            .map(|(from, to)| (address(from), address(to)))
            .collect()
    }

    fn change(&self, change: impl FnOnce(&mut Impaired)) -> Result<()> {
        let mut links = self.impaired.lock().expect(NO_PANIC);
        let mut wanted = links.clone();
        change(&mut wanted);
        if wanted != *links {
            if let Err(error) = self.ground.set_links(&wanted) {
                // That is the error to tell; whether links are as they were is verified.
                let _ = self.ground.set_links(&links);
                return Err(error);
            }
            *links = wanted;
        }
        Ok(())
    }
}

const NO_PANIC: &str = "no holder panics";

/// All directions between two groups: a partition if both are cut off from each other, and one in
/// one direction with `from` and `to` alone.
pub fn between(from: &[Member], to: &[Member]) -> impl Iterator<Item = (Member, Member)> + use<> {
    let to = to.to_vec();
    let from = from.to_vec();
    from.into_iter()
        .flat_map(move |from| to.clone().into_iter().map(move |to| (from, to)))
}

/// One direction between two members.
#[derive(Clone)]
pub struct Link {
    links: Links,
    from: Member,
    to: Member,
}

impl Link {
    /// Who sends, and who would receive.
    pub fn direction(&self) -> (Member, Member) {
        (self.from, self.to)
    }

    /// Cuts it: see [`Links`].
    ///
    /// # Errors
    /// If this ground cannot cut links.
    pub fn cut(&self) -> Result<()> {
        self.links.cut([self.direction()])
    }

    /// Heals it.
    ///
    /// # Errors
    /// If this ground cannot heal links.
    pub fn heal(&self) -> Result<()> {
        self.links.heal([self.direction()])
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        let address = self.links.address_of;
        let direction = (address(self.from), address(self.to));
        let links = self.links.impaired.lock().expect(NO_PANIC);
        links.cuts.contains(&direction)
    }
}
