//! A link that is worse than a cable, or that has a limit: frames that the bridge does not pass
//! (`filter.rs`) are passed here, as late as the link says, twice, or not at all.
//!
//! The kernel could do that with netem or queues, which many kernels lack. A packet socket sees a
//! frame before the bridge does, and every kernel that people use has them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use machine::{FRAME_BYTES_MAX, OFFLOAD_BYTES, PacketSocket};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use simulation::{Chance, Offered};

use crate::error::{Context, Result};
use crate::ground::{Direction, Limiting, Passing};
use crate::network::{ETHERTYPE_ARP, Network, hardware_address, port};
use crate::stoppable::Stoppable;

/// The bit of a hardware address that makes it one of a group.
pub(crate) const GROUP: u8 = 1;

/// The ends of a link, of which nothing is passed yet.
pub(crate) struct Relay {
    from: PacketSocket,
    to: PacketSocket,
    receiver: Ipv4Addr,
    passing: Passing,
    chance: Chance,
    uncounted: Uncounted,
}

/// How many frames were lost before they could be counted or held against a limit.
pub(crate) type Uncounted = Arc<AtomicU64>;

/// Adds what a socket has lost since this was last done.
pub(crate) fn note_lost(socket: &PacketSocket, uncounted: &Uncounted) {
    // A socket that is asked answers.
    let lost = socket.lost().unwrap_or_default();
    uncounted.fetch_add(lost.into(), Ordering::Relaxed);
}

impl Relay {
    /// The link of a direction. What it loses beside what it is to lose is added, if it has a limit.
    ///
    /// # Errors
    /// If one of them is not connected, or the kernel has no packet sockets.
    pub(crate) fn open(
        network: &Network,
        (from, to): Direction,
        passing: Passing,
        uncounted: &Uncounted,
    ) -> Result<Self> {
        let seed = passing.quality.map_or(0, |quality| quality.seed);
        let open = || -> nix::Result<_> {
            let from = PacketSocket::open(&port(from))?;
            Ok((from, PacketSocket::open_to_send(&port(to))?))
        };
        let (from_end, to_end) = network
            .inside(|| open().doing(|| format!("{} (it takes CONFIG_PACKET)", passing.doing())))?;
        Ok(Self {
            from: from_end,
            to: to_end,
            receiver: to,
            passing,
            chance: Chance::new(seed, &format!("link {from} {to}")),
            uncounted: Arc::clone(uncounted),
        })
    }

    /// Passes what is sent from now on; what was before has been passed by the bridge.
    ///
    /// # Errors
    /// If there can be no more threads or descriptors.
    pub(crate) fn start(mut self) -> Result<Running> {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        frames(&self.from, self.receiver, &mut buffer, |_| ());
        let passing = self.passing.clone();
        let work = move |stopped: &OwnedFd| self.pass(stopped, &mut buffer);
        Ok(Running {
            passing,
            thread: Stoppable::start("link", work)?,
        })
    }

    /// Passes frames until the other end of the pipe is closed. Then those that are on their way
    /// arrive at once.
    fn pass(&mut self, stopped: &OwnedFd, buffer: &mut [u8]) {
        let mut on_their_way = OnTheirWay::default();
        loop {
            let now = Instant::now();
            while let Some(frame) = on_their_way.due(now) {
                self.deliver(&frame);
            }
            let wait = on_their_way.next().map(|due| TimeSpec::from(due - now));
            let mut polled = [
                PollFd::new(self.from.as_fd(), PollFlags::POLLIN),
                PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            ];
            // A signal is no reason to end.
            let _ = ppoll(&mut polled, wait, None);
            let is_over = polled[1].any() == Some(true);
            self.receive(buffer, &mut on_their_way);
            if self.passing.limit.is_some() {
                note_lost(&self.from, &self.uncounted);
            }
            if is_over {
                break;
            }
        }
        for frame in on_their_way.rest() {
            self.deliver(&frame);
        }
    }

    /// Takes what was sent, and draws how it fares.
    fn receive(&mut self, buffer: &mut [u8], on_their_way: &mut OnTheirWay) {
        let now = Instant::now();
        let (passing, chance) = (&self.passing, &mut self.chance);
        frames(&self.from, self.receiver, buffer, |frame| {
            let delays_ns = match passing.quality {
                Some(quality) => quality.link.delays_ns(chance),
                None => vec![0],
            };
            if !delays_ns.is_empty() && passing.admits(frame) {
                for delay_ns in delays_ns {
                    on_their_way.add(now + Duration::from_nanos(delay_ns), frame);
                }
            }
        });
    }

    /// What does not go into a cable is lost, as it is there.
    fn deliver(&self, frame: &[u8]) {
        if let Err(error) = self.to.send(frame) {
            tracing::debug!(%error, bytes = frame.len(), "a frame is lost");
        }
    }
}

/// All frames that wait, and are for a receiver.
fn frames(from: &PacketSocket, receiver: Ipv4Addr, buffer: &mut [u8], mut each: impl FnMut(&[u8])) {
    loop {
        match from.receive(buffer) {
            Ok(Some(frame)) if is_for(frame, receiver) => each(frame),
            Ok(Some(_)) => {}
            // A machine that was switched off sends nothing more.
            Ok(None) | Err(_) => return,
        }
    }
}

/// What a frame carries, as it comes out of a socket, and from where to where.
pub(crate) fn offered(frame: &[u8], counts: bool) -> Offered {
    Offered::new(frame.get(OFFLOAD_BYTES..).unwrap_or_default(), counts)
}

impl Passing {
    /// Whether a limit lets a frame pass, if there is one.
    fn admits(&self, frame: &[u8]) -> bool {
        let Some(Limiting {
            limit,
            cuts,
            counts,
        }) = &self.limit
        else {
            return true;
        };
        // Nobody else passes anything between the look at the limit and the count.
        let admits = limit
            .lock()
            .admits(&offered(frame, *counts), limit.now_ns());
        admits || !cuts
    }
}

/// Whether a frame is for a receiver, alone or among others. ARP is passed by the bridge.
fn is_for(frame: &[u8], receiver: Ipv4Addr) -> bool {
    let Some(([to @ .., _, _, _, _, _, _, high, low], _)) = frame
        .get(OFFLOAD_BYTES..)
        .and_then(|frame| frame.split_first_chunk::<14>())
    else {
        return false;
    };
    let is_addressed = *to == hardware_address(receiver) || to[0] & GROUP != 0;
    is_addressed && u16::from_be_bytes([*high, *low]) != ETHERTYPE_ARP
}

/// Frames and when they arrive; of two that arrive at once, the first that was sent first.
#[derive(Default)]
struct OnTheirWay {
    frames: BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>,
    sent: u64,
}

impl OnTheirWay {
    fn add(&mut self, arrives: Instant, frame: &[u8]) {
        self.sent += 1;
        self.frames
            .push(Reverse((arrives, self.sent, frame.to_vec())));
    }

    /// When the next one arrives.
    fn next(&self) -> Option<Instant> {
        self.frames.peek().map(|Reverse((arrives, ..))| *arrives)
    }

    /// The next one, if it has arrived.
    fn due(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next().filter(|arrives| *arrives <= now)?;
        self.frames.pop().map(|Reverse((.., frame))| frame)
    }

    /// All that have not arrived, in their order.
    fn rest(self) -> impl Iterator<Item = Vec<u8>> {
        let sorted = self.frames.into_sorted_vec();
        sorted.into_iter().rev().map(|Reverse((.., frame))| frame)
    }
}

/// A link that passes frames. It ends when this is dropped.
pub(crate) struct Running {
    pub(crate) passing: Passing,
    thread: Stoppable,
}

impl Running {
    /// Whether it still passes anything.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_for_others_and_of_arp_are_not_the_links() {
        let receiver = Ipv4Addr::new(10, 77, 0, 2);
        let frame = |to: [u8; 6], kind: [u8; 2]| {
            [
                &[0; OFFLOAD_BYTES][..],
                &to,
                &[2, 0, 10, 77, 0, 1],
                &kind,
                &[0; 46],
            ]
            .concat()
        };
        let ipv4 = [0x08, 0x00];
        assert!(is_for(&frame([2, 0, 10, 77, 0, 2], ipv4), receiver));
        assert!(is_for(&frame([0xff; 6], ipv4), receiver));
        assert!(!is_for(&frame([2, 0, 10, 77, 0, 3], ipv4), receiver));
        assert!(!is_for(
            &frame([2, 0, 10, 77, 0, 2], [0x08, 0x06]),
            receiver
        ));
        assert!(!is_for(&[0; 12], receiver));
    }

    #[test]
    fn what_arrives_at_once_arrives_in_the_order_in_which_it_was_sent() {
        let now = Instant::now();
        let mut frames = OnTheirWay::default();
        let later = now + Duration::from_secs(1);
        frames.add(later, b"later");
        frames.add(now, b"first");
        frames.add(now, b"again");
        assert_eq!(frames.due(now).as_deref(), Some(&b"first"[..]));
        assert_eq!(frames.due(now).as_deref(), Some(&b"again"[..]));
        assert_eq!(frames.due(now), None);
        assert_eq!(frames.next(), Some(later));
        frames.add(now, b"rest");
        assert_eq!(
            frames.rest().collect::<Vec<_>>(),
            [b"rest".to_vec(), b"later".to_vec()]
        );
    }
}
