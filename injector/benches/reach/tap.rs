//! A switch with two ports: what comes out of one TAP device goes into the other one. Senders may
//! leave checksums and segments to it, as they may to a veth pair.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;

use nix::errno::Errno;
use nix::libc::{self, c_ulong};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use crate::network::Network;
use crate::rounds::Outcome;

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 1, 2)];

/// Of linux/if_tun.h: checksums, and segments of TCP over IPv4 and IPv6.
const OFFLOADS: c_ulong = 0x01 | 0x02 | 0x04;

/// Room for the largest frame, with what says how to cut it.
const FRAME_BYTES_MAX: usize = 1 << 17;

/// Two namespaces with a switch between them.
pub(crate) fn switch() -> Outcome<Network> {
    let (first, asker) = port(ADDRESSES[0])?;
    let (second, answerer) = port(ADDRESSES[1])?;
    // It ends with this process.
    thread::Builder::new()
        .name("switch".into())
        .spawn(move || pass(&[first, second]))?;
    Ok(Network::of(asker, answerer, ADDRESSES[1]))
}

/// A device in a new namespace, and the namespace.
fn port(address: Ipv4Addr) -> Outcome<(File, File)> {
    thread::scope(|scope| {
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let device = device()?;
            cluster::set_up_machine(address)?;
            Ok((device, File::open("/proc/thread-self/ns/net")?))
        };
        scope.spawn(make).join().map_err(|_| "it panicked")?
    })
}

/// The card of a machine, in this thread's namespace.
#[allow(unsafe_code)]
fn device() -> Outcome<File> {
    let device = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: it is plain numbers, of which 0 is one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"eth0") {
        *to = *from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the first request reads and writes the structure, which lives until it returns; the
    // second one takes a number.
    let made = unsafe {
        Errno::result(libc::ioctl(
            device.as_raw_fd(),
            libc::TUNSETIFF,
            &raw mut request,
        ))
        .and_then(|_| {
            Errno::result(libc::ioctl(
                device.as_raw_fd(),
                libc::TUNSETOFFLOAD,
                OFFLOADS,
            ))
        })
    };
    made?;
    Ok(device)
}

fn pass(ports: &[File; 2]) {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        let mut polled = ports
            .each_ref()
            .map(|port| PollFd::new(port.as_fd(), PollFlags::POLLIN));
        // A signal is no reason to end.
        let _ = poll(&mut polled, PollTimeout::NONE);
        for (from, to) in [(0, 1), (1, 0)] {
            if polled[from].any() == Some(true) {
                pass_all(&ports[from], &ports[to], &mut buffer);
            }
        }
    }
}

fn pass_all(mut from: &File, mut to: &File, buffer: &mut [u8]) {
    loop {
        match from.read(buffer) {
            // What does not go into a cable is lost.
            Ok(length) => drop::<io::Result<()>>(to.write_all(&buffer[..length])),
            Err(_) => return,
        }
    }
}
