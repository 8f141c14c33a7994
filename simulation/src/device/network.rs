//! The network card: virtio-net without offloads.

use std::io;

use virtio_bindings::virtio_net::VIRTIO_NET_F_MAC;

use crate::vhost_user::{Driver, Offer};

/// The rings: that with room for frames that come, and that of frames that the machine sends.
const RECEIVE: usize = 0;
pub(crate) const SEND: usize = 1;

/// What stands before each frame: `struct virtio_net_hdr_v1`, of which only the number of buffers is
/// not 0 in what is received.
const HEADER_BYTES: usize = 12;
const BUFFER_COUNT_AT: usize = 10;

/// What a card with an address offers.
pub(crate) fn offer(address: [u8; 6]) -> Offer {
    Offer {
        features: 1 << VIRTIO_NET_F_MAC,
        config: address.to_vec(),
        queues: 2,
    }
}

/// The next frame that the machine sends.
pub(crate) fn sent(driver: &mut Driver, queue: usize) -> io::Result<Option<Vec<u8>>> {
    if queue != SEND {
        return Ok(None);
    }
    let Some(buffers) = driver.pop(SEND) else {
        return Ok(None);
    };
    let bytes = driver.read(&buffers)?;
    driver.give_back(SEND, buffers.head, 0)?;
    let frame = bytes.get(HEADER_BYTES..);
    let frame = frame.ok_or_else(|| io::Error::other("a frame without its header was sent"))?;
    Ok(Some(frame.to_vec()))
}

/// Gives the machine a frame. Returns the ring to call for, or nothing if the frame is lost, since
/// the machine has no room for it.
pub(crate) fn received(driver: &mut Driver, frame: &[u8]) -> io::Result<Option<usize>> {
    let Some(buffers) = driver.pop(RECEIVE) else {
        return Ok(None);
    };
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[BUFFER_COUNT_AT] = 1;
    bytes.extend(frame);
    let written = driver.write(&buffers, 0, &bytes)?;
    if written < bytes.len() {
        // What has no room is no frame; nor was it one for a card of the machine's size.
        driver.give_back(RECEIVE, buffers.head, 0)?;
        return Ok(None);
    }
    driver.give_back(RECEIVE, buffers.head, written as u32)?;
    Ok(Some(RECEIVE))
}
