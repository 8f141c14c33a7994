//! What frames carry for programs, counted: payload of TCP and UDP, and nothing else.

use std::ops::{AddAssign, RangeInclusive};

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
    /// What there is of it beyond another one, which was before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            messages: self.messages.saturating_sub(before.messages),
        }
    }
}

/// The ports that a kernel gives to whoever asks for none (ip-sysctl.rst, `ip_local_port_range`).
const CHOSEN_BY_KERNEL: RangeInclusive<u16> = 32768..=60999;

/// The ports of a message, as far as they are known: of one that IP has cut into fragments they are not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// That of its sender.
    pub from: Option<u16>,
    /// That of its receiver.
    pub to: Option<u16>,
}

impl Ports {
    /// The same without those that a kernel has chosen, which are others in the next run.
    #[must_use]
    pub fn lasting(self) -> Self {
        let is_lasting = |port: &u16| !CHOSEN_BY_KERNEL.contains(port);
        Self {
            from: self.from.filter(is_lasting),
            to: self.to.filter(is_lasting),
        }
    }
}

/// Which port of a message is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Port {
    /// Any.
    #[default]
    Any,
    /// One that does not last, or is not known.
    Chosen,
    /// This one.
    Is(u16),
}

impl Port {
    fn has(self, port: Option<u16>) -> bool {
        match self {
            Self::Any => true,
            Self::Chosen => port.is_none_or(|port| CHOSEN_BY_KERNEL.contains(&port)),
            Self::Is(wanted) => port == Some(wanted),
        }
    }
}

/// Which messages are meant, by their ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OfPorts {
    /// That of the sender.
    pub from: Port,
    /// That of the receiver.
    pub to: Port,
}

impl OfPorts {
    /// Whether a message is one of them.
    pub fn has(self, ports: Ports) -> bool {
        self.from.has(ports.from) && self.to.has(ports.to)
    }
}

/// What a frame of Ethernet carries, and its ports: nothing, if it is no whole one of IP, has a tag of a
/// VLAN, or only opens, closes or acknowledges. What is sent again counts again.
pub(crate) fn content(frame: &[u8]) -> (Carried, Ports) {
    let Some(part) = Part::of(frame) else {
        return (Carried::default(), Ports::default());
    };
    let ports = part
        .ports()
        .map_or_else(Ports::default, |[from, to]| Ports {
            from: Some(from),
            to: Some(to),
        });
    (part.carried().unwrap_or_default(), ports)
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
    fn of(frame: &'a [u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET_BYTES..)?;
        match frame.get(ETHERNET_BYTES - 2..ETHERNET_BYTES)? {
            kind if kind == IPV4 => Self::of_ipv4(packet),
            kind if kind == IPV6 => Self::of_ipv6(packet),
            _ => None,
        }
    }

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

    /// The ports that it has at its beginning, if it is the whole message.
    fn ports(&self) -> Option<[u16; 2]> {
        let is_whole = self.is_last && self.offset == 0;
        let has_ports = is_whole && matches!(self.protocol, TCP | UDP);
        has_ports
            .then(|| Some([number(self.content, 0)?, number(self.content, 2)?]))
            .flatten()
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
        let (Carried { bytes, messages }, _) = content(frame);
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
    fn ports_are_those_of_whole_messages_and_last_if_no_kernel_chose_them() {
        let to = [2, 0, 0, 0, 0, 1];
        let mut segment = tcp(5, 3);
        segment[..4].copy_from_slice(&[0x9c, 0x40, 0x1b, 0x58]);
        let of = |frame: &[u8]| content(frame).1;
        let ports = of(&ipv4(to, (TCP, 0), &segment));
        assert_eq!((ports.from, ports.to), (Some(40_000), Some(7000)));
        let lasting = ports.lasting();
        assert_eq!((lasting.from, lasting.to), (None, Some(7000)));
        let meant = |from, to| OfPorts { from, to };
        let to_server = meant(Port::Chosen, Port::Is(7000));
        let exact = meant(Port::Is(40_000), Port::Is(7000));
        assert!(to_server.has(ports) && exact.has(ports) && OfPorts::default().has(ports));
        let between_servers = Ports {
            from: Some(7000),
            to: Some(7000),
        };
        assert!(!to_server.has(between_servers), "it is another point");
        assert!(meant(Port::Any, Port::Is(7000)).has(between_servers));
        let answer = meant(Port::Is(7000), Port::Any);
        assert!(!answer.has(ports));
        let fragment = ipv4(to, (TCP, 0x2000), &segment);
        assert_eq!(of(&fragment), Ports::default(), "not whole");
        assert!(!answer.has(Ports::default()));
        assert!(meant(Port::Chosen, Port::Chosen).has(Ports::default()));
        let of_icmp = of(&ipv4(to, (1, 0), &[7; 64]));
        assert_eq!(of_icmp, Ports::default());
    }
}
