//! The way in and out of a machine: a port of virtio-console, which is a stream of bytes in each
//! direction (section 5.3 of the specification).

use std::collections::VecDeque;
use std::io;

use crate::vhost_user::{Driver, Offer};

/// The rings: to and from the port, to and from its control.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const CONTROL_INPUT: usize = 2;
const CONTROL_OUTPUT: usize = 3;

/// The feature by which a port is no console.
const MULTIPORT: u64 = 1 << 1;

/// Events of the control (`include/uapi/linux/virtio_console.h`).
const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;

/// The one port that there is.
const PORT: u32 = 0;

/// Port, event and value.
const CONTROL_BYTES: usize = 8;

/// What such a device offers: columns and rows, which mean nothing, and the number of ports.
pub(crate) fn offer() -> Offer {
    Offer {
        features: MULTIPORT,
        config: [0_u32, 1, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect(),
        queues: 4,
    }
}

/// The port of a machine that runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Port {
    /// What is on its way in and has no room yet.
    input: VecDeque<u8>,
    control: VecDeque<[u8; CONTROL_BYTES]>,
}

impl Port {
    /// What the machine says next, if it says something: that is not so for each kick.
    pub(crate) fn said(
        &mut self,
        driver: &mut Driver,
        queue: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        match queue {
            OUTPUT => {
                let Some(buffers) = driver.pop(OUTPUT) else {
                    return Ok(None);
                };
                let bytes = driver.read(&buffers)?;
                driver.give_back(OUTPUT, buffers.head, 0)?;
                Ok(Some(bytes))
            }
            CONTROL_OUTPUT => {
                while let Some(buffers) = driver.pop(CONTROL_OUTPUT) {
                    let bytes = driver.read(&buffers)?;
                    driver.give_back(CONTROL_OUTPUT, buffers.head, 0)?;
                    self.obey(&bytes);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Takes a word of the driver's.
    fn obey(&mut self, bytes: &[u8]) {
        let half = |at: usize| {
            let bytes = bytes.get(at..at + 2);
            bytes.map_or(0, |bytes| {
                u16::from_le_bytes(bytes.try_into().expect("two"))
            })
        };
        match half(4) {
            DEVICE_READY => self.control.push_back(control(PORT_ADD)),
            // Somebody listens at our end, as always.
            PORT_READY => self.control.push_back(control(PORT_OPEN)),
            _ => {}
        }
    }

    /// Adds to what is on its way in.
    pub(crate) fn give(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// Brings in what there is room for. Returns the rings to call for.
    pub(crate) fn fill(&mut self, driver: &mut Driver) -> io::Result<Vec<usize>> {
        let mut called = Vec::new();
        while !self.control.is_empty() {
            let Some(buffers) = driver.pop(CONTROL_INPUT) else {
                break;
            };
            let word = self.control.pop_front().expect("there is one");
            let written = driver.write(&buffers, 0, &word)?;
            driver.give_back(CONTROL_INPUT, buffers.head, written as u32)?;
            called.push(CONTROL_INPUT);
        }
        while !self.input.is_empty() {
            let Some(buffers) = driver.pop(INPUT) else {
                break;
            };
            let length = self.input.len().min(buffers.writable_bytes());
            let bytes: Vec<_> = self.input.drain(..length).collect();
            let written = driver.write(&buffers, 0, &bytes)?;
            driver.give_back(INPUT, buffers.head, written as u32)?;
            called.push(INPUT);
        }
        called.dedup();
        Ok(called)
    }

    /// Whether there is something that could be brought in.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_empty() || !self.control.is_empty()
    }
}

/// A word of ours: that there is the port, or that its other end is open.
fn control(event: u16) -> [u8; CONTROL_BYTES] {
    let mut bytes = [0; CONTROL_BYTES];
    bytes[..4].copy_from_slice(&PORT.to_le_bytes());
    bytes[4..6].copy_from_slice(&event.to_le_bytes());
    bytes[6..].copy_from_slice(&1_u16.to_le_bytes());
    bytes
}
