//! A network that nobody else sees: a bridge in a network namespace, and a cable from it to each
//! node.
//!
//! The namespace has no name, only descriptors and processes: when these are gone the kernel takes
//! down everything in it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, RawFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};

use crate::error::{Context, Result};
use crate::filter;
use crate::ground::Passing;
use crate::relay::{Relay, Uncounted};

/// The first bytes of every address.
const NETWORK: [u8; 2] = [10, 77];

/// Bits of an address that are the network's.
const PREFIX_BITS: u8 = 16;

/// The device in the bridge's namespace that joins the cables.
const BRIDGE: &str = "bridge";

/// The device that a node has.
const DEVICE: &str = "eth0";

/// What is said where the kernel has them neither built in nor as modules that it can load.
const NO_BRIDGE: &str =
    "make a bridge (it takes CONFIG_BRIDGE; for a guest: crashpoint machine --load bridge)";
const NO_VETH: &str =
    "make a veth pair (it takes CONFIG_VETH; for a guest: crashpoint machine --load veth)";

/// How many connections that were closed the kernel remembers (ip-sysctl.rst,
/// `tcp_max_tw_buckets`), of the network namespace of whoever opens it.
const TIME_WAIT_MAX: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";

/// Larger than any answer to what is asked here.
const ANSWER_BYTES_MAX: usize = 1 << 14;

/// Frames that carry the answers to who has an address, not those that programs send.
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;

/// The address of the node with a number, from 1.
pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(NETWORK[0], NETWORK[1], 0, number)
}

/// Whether what one of a cluster sends to an address may reach another one.
pub fn reaches_others(from: Ipv4Addr, to: IpAddr) -> bool {
    match to {
        IpAddr::V4(to) => {
            let is_in_network = to.octets()[..NETWORK.len()] == NETWORK;
            to != from && (is_in_network || to.is_multicast() || to.is_broadcast())
        }
        // Each has an address of its own link.
        IpAddr::V6(to) => !to.is_loopback(),
    }
}

/// The address of the client with an index, which belongs to no node. The check has the first.
pub fn client_address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(NETWORK[0], NETWORK[1], 1, index + 1)
}

/// The address of the bridge itself.
fn own_address() -> Ipv4Addr {
    Ipv4Addr::new(NETWORK[0], NETWORK[1], 2, 1)
}

/// A hardware address that is the same each time, so that what others remember of it stays right.
pub(crate) fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [2, 0, a, b, c, d]
}

/// Whose such a hardware address is.
pub(crate) fn address_of_hardware([.., a, b, c, d]: [u8; 6]) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// Makes a network with a node in it, and lets it go.
///
/// # Errors
/// Without root, or on a kernel without bridges or veth.
pub fn try_network() -> Result<()> {
    Network::new()?.connect(address(1)).map(drop)
}

/// Makes a network with two nodes in it, cuts what one sends to the other, looks whether it could be
/// made worse, and lets it go.
///
/// # Errors
/// Where no network can be made, or on a kernel without nf_tables for bridges.
pub fn try_links() -> Result<()> {
    let network = Network::new()?;
    let _nodes = (network.connect(address(1))?, network.connect(address(2))?);
    let direction = (address(1), address(2));
    network.inside(|| filter::drop_only(&BTreeSet::from([direction])))?;
    Relay::open(
        &network,
        direction,
        Passing::default(),
        &Uncounted::default(),
    )
    .map(drop)
}

/// The network of one cluster.
#[derive(Debug)]
pub(crate) struct Network {
    namespace: File,
}

impl Network {
    /// Makes one, with nobody in it.
    ///
    /// # Errors
    /// Without root, or on a kernel without bridges.
    pub(crate) fn new() -> Result<Self> {
        in_new_namespace(|| {
            let netlink = Netlink::new()?;
            let mut bridge = LinkMessage::default();
            bridge.attributes = vec![
                LinkAttribute::IfName(BRIDGE.into()),
                LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
            ];
            netlink.create_link(bridge).doing(|| NO_BRIDGE.into())?;
            // Who looks whether a port answers does so from here.
            netlink
                .add_address(BRIDGE, own_address())
                .doing(|| "give the bridge an address".into())?;
            netlink.up(BRIDGE)?;
            Ok(Self {
                namespace: own_namespace()?,
            })
        })
    }

    /// Makes a network namespace with an address in this network, and nobody in it.
    ///
    /// # Errors
    /// Without root, or on a kernel without veth.
    pub(crate) fn connect(&self, address: Ipv4Addr) -> Result<Connected> {
        let namespace = in_new_namespace(own_namespace)?;
        let port = port(address);
        self.inside(|| {
            let netlink = Netlink::new()?;
            // That of a node that has lost its power goes with the last process in it.
            netlink.remove(&port)?;
            netlink
                .cable(&port, namespace.as_raw_fd(), address)
                .doing(|| NO_VETH.into())
        })?;
        let connected = Connected { namespace };
        connected.inside(|| {
            let netlink = Netlink::new()?;
            netlink.up("lo")?;
            netlink
                .add_address(DEVICE, address)
                .doing(|| format!("give {DEVICE} the address {address}"))?;
            netlink.up(DEVICE)?;
            forget_at_once();
            Ok(())
        })?;
        Ok(connected)
    }

    /// Switches the bridge's end of a cable off: nothing comes out of it any more, and nothing goes
    /// into it. Who is at the other end has no carrier, and is told nothing else.
    ///
    /// # Errors
    /// If nobody is connected with this address.
    pub(crate) fn silence(&self, address: Ipv4Addr) -> Result<()> {
        self.inside(|| Netlink::new()?.switch(&port(address), false))
    }

    /// Does something in the bridge's namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        inside(&self.namespace, work)
    }
}

/// Gives the one network card of a machine its address, and switches it on.
///
/// # Errors
/// If there is none.
pub fn set_up_machine(address: Ipv4Addr) -> Result<()> {
    let netlink = Netlink::new()?;
    netlink.up("lo")?;
    netlink
        .add_address(DEVICE, address)
        .doing(|| format!("give {DEVICE} the address {address}"))?;
    netlink.up(DEVICE)
}

/// A network namespace that is connected to a cluster's network. It is there as long as this is, or
/// a process in it; the kernel takes it down some time after.
#[derive(Debug)]
pub(crate) struct Connected {
    namespace: File,
}

impl Connected {
    /// Does something in it, in a thread of its own.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        inside(&self.namespace, work)
    }
}

fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    in_thread(|| {
        setns(namespace, CloneFlags::CLONE_NEWNET).doing(|| "enter a network".into())?;
        work()
    })
}

/// Has the kernel forget a connection of this thread's network namespace when both ends have closed
/// it. It would keep the address of one that was closed for a minute, and a server that is started
/// again there would find it in use; after a power failure nothing is remembered.
fn forget_at_once() {
    // Not every kernel lets us, and most servers do not mind.
    let _ = fs::write(TIME_WAIT_MAX, "0");
}

/// The bridge's end of the cable to an address.
pub(crate) fn port(address: Ipv4Addr) -> String {
    let [.., high, low] = address.octets();
    format!("port{high}.{low}")
}

/// Does something in a network namespace that is new.
fn in_new_namespace<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    in_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)
            .doing(|| "make a network namespace (root is needed)".into())?;
        work()
    })
}

/// Does something in a thread of its own, which may change its namespaces.
pub(crate) fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

fn own_namespace() -> Result<File> {
    File::open("/proc/thread-self/ns/net").doing(|| "open a network namespace".into())
}

/// The kernel's interface to its network devices (rtnetlink(7)), in the namespace in which it was
/// made.
struct Netlink(Socket);

impl Netlink {
    fn new() -> Result<Self> {
        let open = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        open()
            .map(Self)
            .doing(|| "speak with the kernel's network".into())
    }

    /// A pair of devices: one is a port of the bridge, the other one a node's.
    fn cable(&self, port: &str, node: RawFd, address: Ipv4Addr) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes = vec![
            LinkAttribute::IfName(DEVICE.into()),
            LinkAttribute::Address(hardware_address(address).to_vec()),
            LinkAttribute::NetNsFd(node),
        ];
        let mut ours = LinkMessage::default();
        up_flag(&mut ours);
        ours.attributes = vec![
            LinkAttribute::IfName(port.into()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
            LinkAttribute::Controller(if_nametoindex(BRIDGE)?),
        ];
        self.create_link(ours)
    }

    fn create_link(&self, link: LinkMessage) -> io::Result<()> {
        self.ask(
            RouteNetlinkMessage::NewLink(link),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    fn up(&self, device: &str) -> Result<()> {
        self.switch(device, true)
    }

    fn switch(&self, device: &str, on: bool) -> Result<()> {
        let switch = || -> io::Result<()> {
            let mut link = LinkMessage::default();
            link.header.index = if_nametoindex(device)?;
            if on {
                link.header.flags |= LinkFlags::Up;
            }
            link.header.change_mask |= LinkFlags::Up;
            self.ask(RouteNetlinkMessage::SetLink(link), 0)
        };
        let how = if on { "on" } else { "off" };
        switch().doing(|| format!("switch the network device {device} {how}"))
    }

    /// Removes a device, if it is there.
    fn remove(&self, device: &str) -> Result<()> {
        let Ok(index) = if_nametoindex(device) else {
            return Ok(());
        };
        let mut link = LinkMessage::default();
        link.header.index = index;
        match self.ask(RouteNetlinkMessage::DelLink(link), 0) {
            // The kernel was faster.
            Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => Ok(()),
            removed => removed.doing(|| format!("remove the network device {device}")),
        }
    }

    fn add_address(&self, device: &str, address: Ipv4Addr) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = PREFIX_BITS;
        message.header.index = if_nametoindex(device)?;
        let address = IpAddr::V4(address);
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
        ];
        self.ask(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_CREATE | NLM_F_EXCL,
        )
    }

    /// Asks for something, and waits for the kernel to say that it is done.
    fn ask(&self, what: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(what));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
        self.0.recv(&mut answer, 0)?;
        let answer: NetlinkMessage<RouteNetlinkMessage> =
            NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }
}

fn up_flag(link: &mut LinkMessage) {
    link.header.flags |= LinkFlags::Up;
    link.header.change_mask |= LinkFlags::Up;
}
