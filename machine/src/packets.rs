//! Frames as they come out of the cable of a network device and go into it (packet(7)). nix binds no
//! such sockets.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt::RcvBufForce,
};

/// What comes before each frame (struct `virtio_net_hdr`): what the sender has left to its card, a
/// checksum or to cut the frame into several.
pub const OFFLOAD_BYTES: usize = 10;

/// Room for the largest frame that a sender leaves to its card to cut, with what comes before it.
pub const FRAME_BYTES_MAX: usize = 1 << 17;

/// Frames that wait to be received are lost beyond that.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// What comes in at a device from outside, and a way to send something out there. Whatever else
/// receives the frames does so as well.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// That of a device of this thread's network namespace. It stays with the device.
    ///
    /// # Errors
    /// If there is no such device, without CAP_NET_RAW, or on a kernel without CONFIG_PACKET.
    pub fn open(device: &str) -> nix::Result<Self> {
        let this = Self::new()?;
        setsockopt(&this.0, RcvBufForce, &WAITING_BYTES_MAX)?;
        this.enable(libc::PACKET_IGNORE_OUTGOING)?;
        this.bind(device, libc::ETH_P_ALL)?;
        Ok(this)
    }

    /// Only a way out of a device: nothing is received.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_to_send(device: &str) -> nix::Result<Self> {
        let this = Self::new()?;
        this.bind(device, 0)?;
        Ok(this)
    }

    fn new() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        // Without a protocol nothing is received before it is bound.
        let (family, kind) = (AddressFamily::Packet, SockType::Raw);
        let this = Self(socket(family, kind, flags, None::<SockProtocol>)?);
        this.enable(libc::PACKET_VNET_HDR)?;
        Ok(this)
    }

    /// How many frames were lost since this was last asked, as too many waited to be received.
    ///
    /// # Errors
    /// None that is known.
    pub fn lost(&self) -> nix::Result<u32> {
        // SAFETY: the structure is plain numbers, of which 0 is one.
        let mut counts: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: there is room for as much as is said, until the call returns.
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        Errno::result(got).map(|_| counts.tp_drops)
    }

    fn enable(&self, option: c_int) -> nix::Result<()> {
        let on: c_int = 1;
        // SAFETY: the option's value is an int, which lives until the call returns.
        let set = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw const on).cast(),
                size_of::<c_int>() as libc::socklen_t,
            )
        };
        Errno::result(set).map(drop)
    }

    /// Without a protocol nothing is received.
    fn bind(&self, device: &str, protocol: c_int) -> nix::Result<()> {
        let index = if_nametoindex(device)?;
        // SAFETY: the structure is plain numbers, of which 0 is one.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = index as c_int;
        // SAFETY: the address is as long as is said, and lives until the call returns.
        let bound = unsafe {
            libc::bind(
                self.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        Errno::result(bound).map(drop)
    }

    /// The next frame, with [`OFFLOAD_BYTES`] before it; `None` if none waits.
    ///
    /// # Errors
    /// ENETDOWN once, if the device was switched off.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> nix::Result<Option<&'a [u8]>> {
        match recv(self.0.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(length) => Ok(Some(&buffer[..length])),
            Err(Errno::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a frame as it was received.
    ///
    /// # Errors
    /// If it is none, or the device is gone, off, or has no room for more.
    pub fn send(&self, frame: &[u8]) -> nix::Result<()> {
        send(self.0.as_raw_fd(), frame, MsgFlags::empty()).map(drop)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
