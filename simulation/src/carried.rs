//! What frames carry for programs, counted: payload of TCP and UDP, and nothing else.

use std::ops::AddAssign;

/// How long the addresses and the type at the beginning of a frame are.
const ETHERNET_BYTES: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const IPV6_HEADER_BYTES: usize = 40;

/// Protocols above IP, and headers of IPv6 that others follow.
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// What was sent for programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Bytes of payload: without headers of Ethernet, IP, TCP or UDP. Those of a datagram of UDP that IP
    /// has cut into fragments count with its last fragment, those of a segment of TCP with each.
    pub bytes: u64,
    /// TCP segments with payload, and UDP datagrams. One that IP has cut into fragments is one, and
    /// counts with its last fragment. What a sender leaves to its card to cut is one as well.
    pub messages: u64,
}

impl AddAssign for Carried {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.messages += other.messages;
    }
}

impl Carried {
    /// What a frame of Ethernet carries: nothing, if it is no whole one of IP, has a tag of a VLAN, or only
    /// opens, closes or acknowledges. What is sent again counts again.
    pub fn by(frame: &[u8]) -> Self {
        let packet = frame.get(ETHERNET_BYTES..);
        let kind = frame.get(ETHERNET_BYTES - 2..ETHERNET_BYTES);
        let part = match (kind, packet) {
            (Some(kind), Some(packet)) if kind == IPV4 => Part::of_ipv4(packet),
            (Some(kind), Some(packet)) if kind == IPV6 => Part::of_ipv6(packet),
            _ => None,
        };
        part.and_then(|part| part.carried()).unwrap_or_default()
    }

    /// What there is of it beyond another one, which was before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            messages: self.messages.saturating_sub(before.messages),
        }
    }
}

/// Where a fragment of IPv4 belongs: these bits of its field.
const OFFSET: u16 = 0x1fff;
/// In what units.
const OFFSET_BYTES: usize = 8;

/// A datagram of IP, or a fragment of one, without the headers of IP.
struct Part<'a> {
    protocol: u8,
    /// Where in the datagram it begins, in bytes.
    offset: usize,
    is_last: bool,
    content: &'a [u8],
}

impl<'a> Part<'a> {
    fn of_ipv4(packet: &'a [u8]) -> Option<Self> {
        let header_bytes = header_bytes_of_ipv4(*packet.first()?)?;
        let total = usize::from(number(packet, 2)?);
        // Ethernet fills up short frames. A datagram beyond 64 KiB does not say how long it is.
        let end = if total == 0 { packet.len() } else { total };
        let fragment = number(packet, 6)?;
        Some(Self {
            protocol: *packet.get(9)?,
            offset: usize::from(fragment & OFFSET) * OFFSET_BYTES,
            is_last: fragment & 0x2000 == 0,
            content: packet.get(header_bytes..end)?,
        })
    }

    fn of_ipv6(packet: &'a [u8]) -> Option<Self> {
        let length = usize::from(number(packet, 4)?);
        if *packet.first()? >> 4 != 6 {
            return None;
        }
        // As with IPv4, but such a one may be shorter than that too.
        let end = match length {
            0 => packet.len(),
            length => IPV6_HEADER_BYTES + length,
        };
        let mut part = Self {
            protocol: *packet.get(6)?,
            offset: 0,
            is_last: true,
            content: packet.get(IPV6_HEADER_BYTES..end)?,
        };
        loop {
            let header_bytes = match part.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => (usize::from(*part.content.get(1)?) + 1) * 8,
                FRAGMENT => {
                    let fragment = number(part.content, 2)?;
                    part.offset = usize::from(fragment >> 3) * OFFSET_BYTES;
                    part.is_last = fragment & 1 == 0;
                    8
                }
                _ => return Some(part),
            };
            part.protocol = *part.content.first()?;
            part.content = part.content.get(header_bytes..)?;
            if part.offset > 0 {
                // What follows is not the header of anything.
                return Some(part);
            }
        }
    }

    fn carried(&self) -> Option<Carried> {
        let bytes = match self.protocol {
            // A limit would lose the rest of one that it has begun to count.
            UDP if !self.is_last => return None,
            UDP => (self.offset + self.content.len()).checked_sub(UDP_HEADER_BYTES)?,
            TCP if self.offset > 0 => self.content.len(),
            TCP => {
                let header_bytes = usize::from(*self.content.get(12)? >> 4) * 4;
                self.content.len().checked_sub(header_bytes)?
            }
            _ => return None,
        };
        let is_message = self.is_last && (bytes > 0 || self.protocol == UDP);
        Some(Carried {
            bytes: bytes as u64,
            messages: u64::from(is_message),
        })
    }
}

/// How long a header is, as its first byte says; nothing, if that is not of a packet.
fn header_bytes_of_ipv4(first: u8) -> Option<usize> {
    let words = usize::from(first & 0xf);
    (first >> 4 == 4 && words >= 5).then_some(words * 4)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(bytes.try_into().expect("two bytes")))
}

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

/// A limit of what passes: the message with which it is reached is the last one.
#[derive(Debug, Clone)]
pub struct Limit {
    amount: Amount,
    passed: Carried,
    reached_ns: Option<u64>,
}

impl Limit {
    /// So much, from now on.
    pub fn new(amount: Amount) -> Self {
        Self {
            amount,
            passed: Carried::default(),
            reached_ns: None,
        }
    }

    /// Whether nothing passes any more.
    pub fn is_reached(&self) -> bool {
        self.reached_ns.is_some()
    }

    /// When that began, by the clock of whoever says what passes, in nanoseconds.
    pub fn reached_ns(&self) -> Option<u64> {
        self.reached_ns
    }

    /// What has passed since there is this limit.
    pub fn passed(&self) -> Carried {
        self.passed
    }

    /// This has passed now: nothing does once the limit is reached.
    pub fn pass(&mut self, carried: Carried, now_ns: u64) {
        self.passed += carried;
        if self.reached_ns.is_none() && self.amount.is_reached_by(self.passed) {
            self.reached_ns = Some(now_ns);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::switch::HardwareAddress;

    /// A frame for a card, with what is above IPv4, and the word of the header about fragments.
    pub(crate) fn ipv4(
        to: HardwareAddress,
        (protocol, fragment): (u8, u16),
        content: &[u8],
    ) -> Vec<u8> {
        let mut header = [0; 20];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(20 + content.len() as u16).to_be_bytes());
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header[9] = protocol;
        let mut frame = [&to[..], &[2, 0, 0, 0, 0, 9], &IPV4, &header, content].concat();
        frame.resize(frame.len().max(60), 0);
        frame
    }

    /// A datagram of UDP with so many bytes.
    pub(crate) fn udp(to: HardwareAddress, bytes: usize) -> Vec<u8> {
        ipv4(to, (UDP, 0), &vec![1; UDP_HEADER_BYTES + bytes])
    }

    fn tcp(words: u8, bytes: usize) -> Vec<u8> {
        let mut content = vec![0; usize::from(words) * 4 + bytes];
        content[12] = words << 4;
        content
    }

    fn ipv6(next: u8, content: &[u8]) -> Vec<u8> {
        let mut header = [0; IPV6_HEADER_BYTES];
        header[0] = 0x60;
        header[4..6].copy_from_slice(&(content.len() as u16).to_be_bytes());
        header[6] = next;
        [&[2; 12][..], &IPV6, &header, content].concat()
    }

    fn counts(frame: &[u8]) -> (u64, u64) {
        let Carried { bytes, messages } = Carried::by(frame);
        (bytes, messages)
    }

    #[test]
    fn only_payload_counts_and_what_fills_a_frame_up_does_not() {
        let to = [2, 0, 0, 0, 0, 1];
        assert_eq!(counts(&ipv4(to, (TCP, 0), &tcp(5, 0))), (0, 0), "an ACK");
        assert_eq!(counts(&ipv4(to, (TCP, 0), &tcp(8, 0))), (0, 0), "options");
        assert_eq!(counts(&ipv4(to, (TCP, 0), &tcp(8, 3))), (3, 1));
        assert_eq!(counts(&udp(to, 3)), (3, 1));
        assert_eq!(counts(&udp(to, 0)), (0, 1), "an empty datagram is one");
        assert_eq!(counts(&ipv4(to, (1, 0), &[0; 64])), (0, 0), "ICMP");
        assert_eq!(counts(&ipv6(TCP, &tcp(5, 7))), (7, 1));
        let options = [&[UDP, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8], &[1; 4]].concat();
        assert_eq!(counts(&ipv6(HOP_BY_HOP, &options)), (4, 1));
        assert_eq!(counts(&[0; 13]), (0, 0));
        assert_eq!(counts(&udp(to, 90)[..80]), (0, 0), "not whole");
    }

    #[test]
    fn what_is_no_packet_does_not_count() {
        let first = ETHERNET_BYTES;
        let mut frame = udp([2, 0, 0, 0, 0, 1], 90);
        assert_eq!(counts(&frame), (90, 1));
        frame[first] = 0x44;
        assert_eq!(counts(&frame), (0, 0), "a header of four words");
        frame[first] = 0x65;
        assert_eq!(counts(&frame), (0, 0), "another version");
        let mut frame = ipv6(TCP, &tcp(5, 7));
        frame[first] = 0x40;
        assert_eq!(counts(&frame), (0, 0), "another version");
        let mut frame = ipv6(TCP, &tcp(5, 70_000));
        frame[first + 4..first + 6].fill(0);
        assert_eq!(counts(&frame), (70_000, 1), "to the end");
    }

    #[test]
    fn a_datagram_in_fragments_is_one_with_its_last() {
        let to = [2, 0, 0, 0, 0, 1];
        let more = 0x2000;
        assert_eq!(counts(&ipv4(to, (UDP, more), &[1; 808])), (0, 0));
        assert_eq!(counts(&ipv4(to, (UDP, more | 0x65), &[1; 80])), (0, 0));
        assert_eq!(counts(&ipv4(to, (UDP, 111), &[1; 8])), (888, 1));
        let first = tcp(5, 20);
        assert_eq!(counts(&ipv4(to, (TCP, more), &first)), (20, 0));
        assert_eq!(counts(&ipv4(to, (TCP, 5), &[1; 8])), (8, 1));
        let fragment = |high: u8, low: u8| {
            let header = [UDP, 0, high, low, 0, 0, 0, 0];
            counts(&ipv6(FRAGMENT, &[&header[..], &[1; 16]].concat()))
        };
        assert_eq!(fragment(0, 1), (0, 0));
        assert_eq!(fragment(0, 16), (24, 1));
    }

    #[test]
    fn the_message_that_reaches_a_limit_is_the_last_that_passes() {
        let datagram = Carried::by(&udp([2, 0, 0, 0, 0, 1], 100));
        let passes = |amount| {
            let mut limit = Limit::new(amount);
            let mut count = 0;
            while !limit.is_reached() {
                count += 1;
                limit.pass(datagram, count * 10);
            }
            limit.pass(datagram, 1000);
            assert_eq!(limit.reached_ns(), Some(count * 10));
            count
        };
        assert_eq!(passes(Amount::Messages(1)), 1);
        assert_eq!(passes(Amount::Messages(7)), 7);
        assert_eq!(passes(Amount::Bytes(1)), 1);
        assert_eq!(passes(Amount::Bytes(700)), 7);
        assert_eq!(passes(Amount::Bytes(701)), 8);
    }
}
