//! The device's side of vhost-user, as drivers/virtio/virtio_uml.c (Linux) speaks it.
//!
//! With in-band notifications a kick is a message like any other, which the kernel waits for us to
//! answer, and so is a call. No kernel runs while we have its message, and none is told anything
//! while it runs: that is what makes a simulation deterministic. The crates for this protocol have
//! no in-band notifications and threads of their own; the rings and the memory are theirs.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use virtio_queue::{Queue, QueueState, QueueT};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion,
};

/// The numbers of requests of the kernel (docs/interop/vhost-user.rst of QEMU).
mod request {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const SET_BACKEND_REQ_FD: u32 = 21;
    pub(super) const GET_CONFIG: u32 = 24;
    pub(super) const VRING_KICK: u32 = 35;
}

/// The number of the one request of ours.
const VRING_CALL: u32 = 4;

/// Flags of a message.
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// What every device has: the protocol has features of its own, and virtio is that of version 1.
const FEATURES: u64 = 1 << 30 | 1 << 32;

/// `REPLY_ACK`, `BACKEND_REQ`, `CONFIG`, `INBAND_NOTIFICATIONS`.
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 5 | 1 << 9 | 1 << 14;

/// Request, flags and the length of the body, of 32 bits each.
const HEADER_BYTES: usize = 12;

/// Offset, size and flags stand before the bytes of a configuration.
const CONFIG_HEADER_BYTES: usize = 12;

/// The kernel sends one region of memory, and a descriptor for it (6.1).
const DESCRIPTORS_MAX: usize = 8;

/// One message has the memory table of eight regions at most.
const BODY_BYTES_MAX: usize = 1 << 10;

/// How many entries a ring has at most. Drivers of Linux take what they are offered.
const QUEUE_SIZE_MAX: u16 = 1024;

/// The driver wants no calls for this ring now: `VRING_AVAIL_F_NO_INTERRUPT`.
const NO_INTERRUPT: u16 = 1;

const PAGE_BYTES: u64 = 4096;

/// No more room than this is made before what is to fill it was found.
const READ_BYTES_MAX: usize = 1 << 20;

/// What a device tells a driver when it is found.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    /// Features of this kind of device.
    pub(crate) features: u64,
    /// What it lets be read of its configuration.
    pub(crate) config: Vec<u8>,
    /// How many rings it has.
    pub(crate) queues: usize,
}

/// A message of the kernel's, as far as whoever serves a device has to know it.
#[derive(Debug)]
pub(crate) struct Received {
    request: u32,
    flags: u32,
    body: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Received {
    /// The ring in which the driver has made something available, if it says that.
    pub(crate) fn kicked(&self) -> Option<usize> {
        (self.request == request::VRING_KICK).then(|| self.word(0) as usize)
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.body.get(at..at + 4);
        bytes.map_or(0, |bytes| {
            u32::from_le_bytes(bytes.try_into().expect("four"))
        })
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32
    }
}

/// A chain of buffers that a driver has made available.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffers {
    /// What they are called when they are given back.
    pub(crate) head: u16,
    readable: Vec<(GuestAddress, usize)>,
    writable: Vec<(GuestAddress, usize)>,
}

impl Buffers {
    /// How much the driver will read of them.
    pub(crate) fn writable_bytes(&self) -> usize {
        self.writable.iter().map(|(_, length)| length).sum()
    }
}

/// A driver that has found its device.
#[derive(Debug)]
pub(crate) struct Driver {
    stream: UnixStream,
    /// The way for our own requests.
    backend: Option<UnixStream>,
    memory: GuestMemoryMmap,
    pages: Pages,
    queues: Vec<Queue>,
}

impl Driver {
    /// One that has connected itself.
    pub(crate) fn new(stream: UnixStream, offer: &Offer) -> Self {
        let queue = || Queue::new(QUEUE_SIZE_MAX).expect("a power of two");
        Self {
            stream,
            backend: None,
            memory: GuestMemoryMmap::new(),
            pages: Pages::default(),
            queues: std::iter::repeat_with(queue).take(offer.queues).collect(),
        }
    }

    /// The driver in a kernel that was forked from that of this one, and has connected itself: it has
    /// the same rings, and will say where its memory is.
    pub(crate) fn forked(&self, stream: UnixStream) -> io::Result<Self> {
        let rings = self.queues.iter().map(Queue::state);
        let rings: Result<_, _> = rings.map(QueueState::try_into).collect();
        Ok(Self {
            stream,
            backend: None,
            memory: GuestMemoryMmap::new(),
            pages: Pages::default(),
            queues: rings.map_err(io::Error::other)?,
        })
    }

    /// Where its messages come from.
    pub(crate) fn messages(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Where its answers to our calls come from, once it takes such.
    pub(crate) fn answers(&self) -> Option<BorrowedFd<'_>> {
        self.backend.as_ref().map(AsFd::as_fd)
    }

    /// Receives a message.
    ///
    /// # Errors
    /// If the kernel has ended, or does not follow the protocol.
    pub(crate) fn receive(&mut self) -> io::Result<Received> {
        let mut header = [0; HEADER_BYTES];
        let mut space =
            [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let read = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(&mut header)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
        )?;
        if read.bytes != HEADER_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        let length = word(8) as usize;
        if length > BODY_BYTES_MAX {
            return Err(io::Error::other(format!("a message of {length} bytes")));
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Received {
            request: word(0),
            flags: word(4),
            body,
            descriptors,
        })
    }

    /// Does what a message is for, but for a kick, and answers it: the kernel goes on.
    ///
    /// # Errors
    /// If the kernel has ended, or asks for what there is not.
    pub(crate) fn answer(&mut self, mut message: Received, offer: &Offer) -> io::Result<()> {
        let words = match message.request {
            request::GET_FEATURES => Some((FEATURES | offer.features).to_le_bytes().to_vec()),
            request::GET_PROTOCOL_FEATURES => Some(PROTOCOL_FEATURES.to_le_bytes().to_vec()),
            request::GET_CONFIG => Some(config_answer(&message.body, &offer.config)?),
            _ => None,
        };
        if let Some(words) = words {
            return self.reply(message.request, &words);
        }
        self.set(&mut message)?;
        if message.flags & NEED_REPLY == 0 {
            return Ok(());
        }
        self.reply(message.request, &0_u64.to_le_bytes())
    }

    /// Does what a message is for that needs no words as an answer.
    fn set(&mut self, message: &mut Received) -> io::Result<()> {
        match message.request {
            request::SET_MEM_TABLE => {
                self.memory = memory(message)?;
                self.pages = Pages::default();
            }
            request::SET_BACKEND_REQ_FD => {
                self.backend = message.descriptors.pop().map(UnixStream::from);
            }
            request::SET_VRING_NUM => self.queue(message)?.set_size(message.word(4) as u16),
            request::SET_VRING_ADDR => {
                let addresses = [8, 16, 24].map(|at| GuestAddress(message.long(at)));
                set_addresses(self.queue(message)?, addresses)?;
            }
            request::SET_VRING_BASE => {
                let next = message.word(4) as u16;
                let queue = self.queue(message)?;
                queue.set_next_avail(next);
                queue.set_next_used(next);
            }
            request::SET_VRING_ENABLE => {
                let enabled = message.word(4) != 0;
                self.queue(message)?.set_ready(enabled);
            }
            // What else there is needs an answer and no more.
            _ => {}
        }
        Ok(())
    }

    fn reply(&mut self, request: u32, body: &[u8]) -> io::Result<()> {
        send(&mut self.stream, request, VERSION | REPLY, body)
    }

    fn queue(&mut self, message: &Received) -> io::Result<&mut Queue> {
        let index = message.word(0) as usize;
        let queue = self.queues.get_mut(index);
        queue.ok_or_else(|| io::Error::other(format!("there is no ring {index}")))
    }

    /// Takes what the driver has made available next in a ring.
    pub(crate) fn pop(&mut self, queue: usize) -> Option<Buffers> {
        let queue = self.queues.get_mut(queue).filter(|queue| queue.ready())?;
        let chain = queue.pop_descriptor_chain(&self.memory)?;
        let mut buffers = Buffers {
            head: chain.head_index(),
            readable: Vec::new(),
            writable: Vec::new(),
        };
        for descriptor in chain {
            let part = (descriptor.addr(), descriptor.len() as usize);
            if descriptor.is_write_only() {
                buffers.writable.push(part);
            } else {
                buffers.readable.push(part);
            }
        }
        Some(buffers)
    }

    /// Whether the driver has made something available in a ring that was not taken.
    pub(crate) fn has_more(&self, queue: usize) -> bool {
        let Some(queue) = self.queues.get(queue).filter(|queue| queue.ready()) else {
            return false;
        };
        let available = queue.avail_idx(&self.memory, Ordering::Acquire);
        available.is_ok_and(|index| index.0 != queue.next_avail())
    }

    /// What the driver has written to buffers.
    ///
    /// # Errors
    /// If they are not in memory that it has shown, or that has no room.
    pub(crate) fn read(&mut self, buffers: &Buffers) -> io::Result<Vec<u8>> {
        let length: usize = buffers.readable.iter().map(|(_, length)| length).sum();
        let mut bytes = Vec::with_capacity(length.min(READ_BYTES_MAX));
        for (address, length) in &buffers.readable {
            let from = bytes.len();
            bytes.resize(from + length, 0);
            self.pages.be_there(&self.memory, *address, *length)?;
            let read = self.memory.read_slice(&mut bytes[from..], *address);
            read.map_err(io::Error::other)?;
        }
        Ok(bytes)
    }

    /// Writes bytes to the part of the buffers that the driver will read, from `offset` on. Returns
    /// how many there was room for.
    ///
    /// # Errors
    /// If they are not in memory that it has shown, or that has no room.
    pub(crate) fn write(
        &mut self,
        buffers: &Buffers,
        mut offset: usize,
        mut bytes: &[u8],
    ) -> io::Result<usize> {
        let all = bytes.len();
        for (address, length) in &buffers.writable {
            let skipped = offset.min(*length);
            offset -= skipped;
            let (now, later) = bytes.split_at(bytes.len().min(length - skipped));
            let at = GuestAddress(address.0 + skipped as u64);
            self.pages.be_there(&self.memory, at, now.len())?;
            self.memory.write_slice(now, at).map_err(io::Error::other)?;
            bytes = later;
        }
        Ok(all - bytes.len())
    }

    /// Gives buffers back; so many bytes were written to them.
    ///
    /// # Errors
    /// If the ring is not in memory that the driver has shown.
    pub(crate) fn give_back(&mut self, queue: usize, head: u16, written: u32) -> io::Result<()> {
        let added = self.queues[queue].add_used(&self.memory, head, written);
        added.map_err(io::Error::other)
    }

    /// Whether the driver wants to be told that buffers of a ring were given back.
    pub(crate) fn wants_call(&self, queue: usize) -> bool {
        let Some(queue) = self.queues.get(queue) else {
            return false;
        };
        let flags = || {
            self.memory
                .read_obj::<u16>(GuestAddress(queue.avail_ring()))
        };
        self.backend.is_some()
            && queue.ready()
            && flags().is_ok_and(|flags| u16::from_le(flags) & NO_INTERRUPT == 0)
    }

    /// Tells it so. The kernel, which waits, answers when it has asked the calendar to run.
    ///
    /// # Errors
    /// If the kernel has ended.
    pub(crate) fn call(&mut self, queue: usize) -> io::Result<()> {
        let backend = self.backend.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let index = u64::from(queue as u32).to_le_bytes();
        send(backend, VRING_CALL, VERSION | NEED_REPLY, &index)
    }

    /// Reads the answer to a call.
    ///
    /// # Errors
    /// If the kernel has ended.
    pub(crate) fn called(&mut self) -> io::Result<()> {
        let backend = self.backend.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        backend.read_exact(&mut [0; HEADER_BYTES + size_of::<u64>()])
    }
}

/// The pages of a driver's memory that are known to be there: of which region, and which of its file.
///
/// That file has holes, and who touches one gets SIGBUS if there is no room to fill it. Rings are there: their
/// driver has filled them with zeros.
#[derive(Debug, Default)]
struct Pages(HashSet<(u64, u64)>);

impl Pages {
    /// Has a part of the memory be there. What is no memory is for others to refuse.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] if there is no room for it.
    fn be_there(
        &mut self,
        memory: &GuestMemoryMmap,
        at: GuestAddress,
        length: usize,
    ) -> io::Result<()> {
        let Some(region) = memory.find_region(at).filter(|_| length > 0) else {
            return Ok(());
        };
        let Some(file) = region.file_offset() else {
            return Ok(());
        };
        let start = region.start_addr().0;
        let from = file.start() + (at.0 - start);
        let end = file.start() + region.len();
        let last = (from.saturating_add(length as u64).min(end) - 1) / PAGE_BYTES;
        for page in from / PAGE_BYTES..=last {
            if self.0.insert((start, page)) {
                fill_hole(file.file(), page * PAGE_BYTES)?;
            }
        }
        Ok(())
    }
}

/// Has a page of a file be there. A file system that cannot do that has no tmpfs's limits.
fn fill_hole(file: &File, at: u64) -> io::Result<()> {
    let fill = || fallocate(file, FallocateFlags::KEEP_SIZE, at, PAGE_BYTES);
    match retry_on_intr(fill) {
        Err(Errno::NOSPC) => Err(Errno::NOSPC.into()),
        _ => Ok(()),
    }
}

fn send(to: &mut UnixStream, request: u32, flags: u32, body: &[u8]) -> io::Result<()> {
    let words = [request, flags, body.len() as u32];
    let mut bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(body);
    to.write_all(&bytes)
}

/// The request for a part of the configuration, with the bytes filled in; beyond its end are zeros.
fn config_answer(asked: &[u8], config: &[u8]) -> io::Result<Vec<u8>> {
    if asked.len() < CONFIG_HEADER_BYTES {
        return Err(io::Error::other(
            "a request for nothing of the configuration",
        ));
    }
    let mut answer = asked.to_vec();
    let offset = u32::from_le_bytes(asked[..4].try_into().expect("four")) as usize;
    let known = config.get(offset..).unwrap_or_default();
    for (place, byte) in answer[CONFIG_HEADER_BYTES..].iter_mut().enumerate() {
        *byte = known.get(place).copied().unwrap_or_default();
    }
    Ok(answer)
}

/// The memory that a message describes: how many regions, then of each its address, its length, an
/// address that means nothing to us, and where it is in the file of its descriptor.
fn memory(message: &mut Received) -> io::Result<GuestMemoryMmap> {
    let descriptors = std::mem::take(&mut message.descriptors);
    let regions = descriptors.into_iter().enumerate();
    let regions = regions.map(|(index, descriptor)| {
        let at = 8 + index * 32;
        let (start, length, offset) = (
            message.long(at),
            message.long(at + 8),
            message.long(at + 24),
        );
        // A mapping begins with a page.
        let before = offset % PAGE_BYTES;
        let file = FileOffset::new(File::from(descriptor), offset - before);
        let mapped = MmapRegion::from_file(file, (length + before) as usize);
        let mapped = mapped.map_err(io::Error::other)?;
        let start = start.checked_sub(before).map(GuestAddress);
        let region = start.and_then(|start| GuestRegionMmap::new(mapped, start));
        region.ok_or_else(|| io::Error::other("memory at no address"))
    });
    let regions: io::Result<Vec<_>> = regions.collect();
    GuestMemoryMmap::from_regions(regions?).map_err(io::Error::other)
}

/// Where a ring's descriptors are, what was used of it, and what is available.
fn set_addresses(queue: &mut Queue, addresses: [GuestAddress; 3]) -> io::Result<()> {
    let [descriptors, used, available] = addresses;
    queue
        .try_set_desc_table_address(descriptors)
        .and_then(|()| queue.try_set_used_ring_address(used))
        .and_then(|()| queue.try_set_avail_ring_address(available))
        .map_err(io::Error::other)
}
