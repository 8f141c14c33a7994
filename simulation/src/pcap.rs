//! Frames in a file that Wireshark and tcpdump read.

/// The form with nanoseconds, version 2.4, whole frames, of Ethernet (draft-ietf-opsawg-pcap).
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
const FRAME_BYTES_MAX: u32 = 0xffff;
const ETHERNET: u32 = 1;

const NS_OF_SECOND: u64 = 1_000_000_000;

/// A frame that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFrame {
    /// When, in nanoseconds of the simulation's time.
    pub time_ns: u64,
    /// The machine that sent it.
    pub from: usize,
    /// What was sent, from the destination's address on.
    pub frame: Vec<u8>,
}

/// The bytes of such a file. Frames are given in the order of their times; `epoch_ns` is the time of
/// day, in nanoseconds since 1970, at which the simulation began.
pub fn pcap(frames: &[SentFrame], epoch_ns: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(VERSION.iter().flat_map(|number| number.to_le_bytes()));
    for word in [0, 0, FRAME_BYTES_MAX, ETHERNET] {
        bytes.extend(word.to_le_bytes());
    }
    for SentFrame { time_ns, frame, .. } in frames {
        let time_ns = epoch_ns + time_ns;
        let length = frame.len() as u32;
        let (second, rest) = (time_ns / NS_OF_SECOND, time_ns % NS_OF_SECOND);
        for word in [second as u32, rest as u32, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}
