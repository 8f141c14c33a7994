//! Limits of what passes: after so much, or with a certain message, nothing does.

use crate::carried::{Carried, OfPorts, Ports, content};

/// So much that is to be sent, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Bytes of payload.
    Bytes(u64),
    /// Messages.
    Messages(u64),
}

impl Amount {
    /// Whether it is this, or more.
    pub fn is_reached_by(self, carried: Carried) -> bool {
        match self {
            Self::Bytes(bytes) => carried.bytes >= bytes,
            Self::Messages(messages) => carried.messages >= messages,
        }
    }
}

/// When nothing passes any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Once so much has passed: the message with which that is reached is the last one.
    After(Amount),
    /// With the message that has this number, from 1 on, of those with these ports that are for one: it is
    /// the first that does not pass.
    With(u64, OfPorts),
}

/// What a frame is for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// What it carries.
    pub carried: Carried,
    /// From where to where.
    pub ports: Ports,
    /// Whether it is for several, as multicast is.
    pub to_several: bool,
    /// Whether it goes where it is counted.
    pub counts: bool,
}

impl Offered {
    /// A frame of Ethernet.
    pub fn new(frame: &[u8], counts: bool) -> Self {
        let (carried, ports) = content(frame);
        Self {
            carried,
            ports,
            // The first bit of an address of Ethernet on its way.
            to_several: frame.first().is_some_and(|byte| byte & 1 == 1),
            counts,
        }
    }
}

/// A limit of what passes.
#[derive(Debug, Clone)]
pub struct Limit {
    until: Until,
    passed: Carried,
    reached_ns: Option<u64>,
}

impl Limit {
    /// One that counts from now on.
    pub fn new(until: Until) -> Self {
        Self {
            until,
            passed: Carried::default(),
            reached_ns: None,
        }
    }

    /// The same that has let so much pass by now, which has not reached it.
    #[must_use]
    pub(crate) fn that_passed(self, passed: Carried) -> Self {
        Self { passed, ..self }
    }

    /// Whether nothing passes any more.
    pub fn is_reached(&self) -> bool {
        self.reached_ns.is_some()
    }

    /// When that began, by the clock of whoever says what passes, in nanoseconds.
    pub fn reached_ns(&self) -> Option<u64> {
        self.reached_ns
    }

    /// What was counted for it, and has passed.
    pub fn passed(&self) -> Carried {
        self.passed
    }

    /// Whether the first message that is lost is known: somebody may be waiting for it.
    pub fn is_with_a_message(&self) -> bool {
        matches!(self.until, Until::With(..))
    }

    /// Whether a frame passes now, which counts then if it is to: nothing does once the limit is reached.
    pub fn admits(&mut self, offered: &Offered, now_ns: u64) -> bool {
        if self.is_reached() {
            return false;
        }
        let Offered {
            carried,
            ports,
            to_several,
            counts,
        } = *offered;
        match self.until {
            _ if !counts => {}
            Until::After(amount) => {
                self.passed += carried;
                if amount.is_reached_by(self.passed) {
                    self.reached_ns = Some(now_ns);
                }
            }
            Until::With(nth, of) if of.has(ports) && !to_several => {
                // It is the first of those that are lost.
                if self.passed.messages + carried.messages >= nth {
                    self.reached_ns = Some(now_ns);
                    return false;
                }
                self.passed += carried;
            }
            Until::With(..) => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carried::Port;
    use crate::carried::tests::udp;

    #[test]
    fn the_message_that_reaches_a_limit_is_the_last_that_passes() {
        let datagram = Offered::new(&udp([2, 0, 0, 0, 0, 1], 100), true);
        let passes = |amount| {
            let mut limit = Limit::new(Until::After(amount));
            let mut count = 0;
            while !limit.is_reached() {
                count += 1;
                assert!(limit.admits(&datagram, count * 10));
            }
            assert!(!limit.admits(&datagram, 1000));
            assert_eq!(limit.reached_ns(), Some(count * 10));
            count
        };
        assert_eq!(passes(Amount::Messages(1)), 1);
        assert_eq!(passes(Amount::Messages(7)), 7);
        assert_eq!(passes(Amount::Bytes(1)), 1);
        assert_eq!(passes(Amount::Bytes(700)), 7);
        assert_eq!(passes(Amount::Bytes(701)), 8);
    }

    #[test]
    fn the_message_with_which_a_limit_begins_is_the_first_that_is_lost() {
        let ports = OfPorts {
            from: Port::Any,
            to: Port::Is(0x0101),
        };
        let datagram = Offered::new(&udp([2, 0, 0, 0, 0, 1], 100), true);
        let other = Offered {
            ports: Ports::default(),
            ..datagram
        };
        let elsewhere = Offered {
            counts: false,
            ..datagram
        };
        let nothing = Offered {
            carried: Carried::default(),
            ..datagram
        };
        let to_several = Offered::new(&udp([3, 0, 0, 0, 0, 1], 100), true);
        assert_eq!(
            (to_several.ports, to_several.to_several),
            (datagram.ports, true)
        );
        let mut limit = Limit::new(Until::With(3, ports));
        for offered in [
            &datagram,
            &other,
            &elsewhere,
            &nothing,
            &to_several,
            &datagram,
        ] {
            assert!(limit.admits(offered, 10), "{offered:?}");
        }
        assert!(!limit.is_reached());
        for offered in [&datagram, &other, &elsewhere, &nothing] {
            assert!(!limit.admits(offered, 20), "{offered:?}");
        }
        assert_eq!(limit.reached_ns(), Some(20));
        let passed = limit.passed();
        assert_eq!((passed.bytes, passed.messages), (200, 2));
        let mut first = Limit::new(Until::With(1, OfPorts::default()));
        assert!(first.admits(&nothing, 1) && !first.admits(&other, 2));
    }
}
