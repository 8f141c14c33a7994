//! What members of a cluster send to each other, counted where it comes out of their cables. A packet
//! socket sees a frame before anybody can lose it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use machine::{FRAME_BYTES_MAX, OFFLOAD_BYTES, PacketSocket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use simulation::{Carried, Ports, Sent};

use crate::error::{Context, Result};
use crate::ground::Direction;
use crate::network::{Network, address_of_hardware, port};
use crate::relay::{GROUP, Uncounted, note_lost, offered};
use crate::stoppable::Stoppable;

/// Counts of what was sent; by nobody else than those who are followed.
#[derive(Default)]
pub(crate) struct Tally {
    counts: Arc<Mutex<Counts>>,
    uncounted: Uncounted,
    followed: BTreeMap<Ipv4Addr, Stoppable>,
}

/// By who has sent it, and for whom.
type Counts = Sent<(Ipv4Addr, Receiver)>;

/// Whom a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Receiver {
    One(Ipv4Addr),
    AllOthers,
}

const NO_PANIC: &str = "no holder panics";

impl Tally {
    /// Counts nothing yet. What it loses is added.
    pub(crate) fn new(uncounted: &Uncounted) -> Self {
        Self {
            uncounted: Arc::clone(uncounted),
            ..Self::default()
        }
    }

    /// Counts what somebody sends from now on, beside what he has sent before.
    ///
    /// # Errors
    /// If he is not connected, or the kernel has no packet sockets.
    pub(crate) fn follow(&mut self, network: &Network, from: Ipv4Addr) -> Result<()> {
        let socket = network.inside(|| {
            let opened = PacketSocket::open(&port(from));
            opened.doing(|| "count what is sent (it takes CONFIG_PACKET)".into())
        })?;
        let (counts, uncounted) = (Arc::clone(&self.counts), Arc::clone(&self.uncounted));
        let work = move |stopped: &OwnedFd| count(&socket, from, (&counts, &uncounted), stopped);
        self.followed.insert(from, Stoppable::start("tally", work)?);
        Ok(())
    }

    /// What was sent in a direction.
    pub(crate) fn carried(&self, (from, to): Direction) -> Carried {
        let counts = self.counts.lock().expect(NO_PANIC);
        let mut all = Carried::default();
        for to in [Receiver::One(to), Receiver::AllOthers] {
            all += counts.on((from, to));
        }
        all
    }

    /// What was sent to one receiver each, by the ports that last.
    pub(crate) fn carried_by_ports(&self) -> Vec<(Direction, Ports, Carried)> {
        let counts = self.counts.lock().expect(NO_PANIC);
        let of_one = |((from, to), ports, carried)| match to {
            Receiver::One(to) => Some(((from, to), ports, carried)),
            Receiver::AllOthers => None,
        };
        counts.iter().filter_map(of_one).collect()
    }
}

/// Counts frames until the other end of the pipe is closed.
fn count(
    socket: &PacketSocket,
    from: Ipv4Addr,
    (counts, uncounted): (&Mutex<Counts>, &Uncounted),
    stopped: &OwnedFd,
) {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        let mut polled = [
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        ];
        // A signal is no reason to end.
        let _ = poll(&mut polled, PollTimeout::NONE);
        let is_over = polled[1].any() == Some(true);
        // A machine that was switched off sends nothing more.
        while let Ok(Some(frame)) = socket.receive(&mut buffer) {
            if let Some(to) = Receiver::of(frame) {
                let offered = offered(frame, true);
                counts.lock().expect(NO_PANIC).add((from, to), &offered);
            }
        }
        note_lost(socket, uncounted);
        if is_over {
            return;
        }
    }
}

impl Receiver {
    /// That of a frame; nobody, if it is none.
    fn of(frame: &[u8]) -> Option<Self> {
        let to = frame.get(OFFLOAD_BYTES..)?.first_chunk::<6>()?;
        let is_for_all = to[0] & GROUP != 0;
        Some(if is_for_all {
            Self::AllOthers
        } else {
            Self::One(address_of_hardware(*to))
        })
    }
}
