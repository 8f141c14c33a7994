//! NFQUEUE: a rule that asks a program about each packet (linux/netfilter/nfnetlink_queue.h).
//!
//! The rule is where the bridge forwards: no node sees it, as none sees Crashpoint's own. It is put in
//! over netlink, as the target of iptables that it is (NFT_COMPAT), in a table of IPv4, to which the
//! bridge shows what it forwards (BRIDGE_NETFILTER). `iptables -A FORWARD -j NFQUEUE --queue-num 7`
//! of Debian's iptables 1.8.9 says the same to the kernel. Linux 6.18 does not know the target in a table of the
//! bridge (ENOENT), and not every kernel has NFT_QUEUE, which would do without it.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use nix::libc::{self, c_int};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;

use crate::rounds::Outcome;

/// What is copied of each packet.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Copied {
    /// Enough to count messages and their bytes.
    Headers,
    /// Enough to change them.
    Packets,
}

impl Copied {
    fn bytes(self) -> u32 {
        match self {
            Self::Headers => 128,
            Self::Packets => 0xffff,
        }
    }
}

const NAME: &str = "crashpoint-bench";
const QUEUE: u16 = 7;

/// Of linux/netfilter/nfnetlink_queue.h, beside what libc has: the attributes of a configuration, and
/// a flag that has segments that a sender leaves to its card come as they are.
const CFG_COMMAND: u16 = 1;
const CFG_PARAMETERS: u16 = 2;
const CFG_MAX_LENGTH: u16 = 3;
const CFG_MASK: u16 = 4;
const CFG_FLAGS: u16 = 5;
const FLAG_GSO: u32 = 4;

/// Packets that wait to be asked about are lost beyond that.
const WAITING_MAX: u32 = 1 << 14;
const WAITING_BYTES_MAX: usize = 32 << 20;

/// Room for the largest message of the kernel.
const MESSAGE_BYTES_MAX: usize = 1 << 17;

/// Accepts all that a bridge passes, in a thread that ends with this process. Returns where it counts.
pub(crate) fn serve(bridge: File, copied: Copied) -> Outcome<Arc<AtomicU64>> {
    let (tell, told) = channel();
    let seen = Arc::<AtomicU64>::default();
    let count = Arc::clone(&seen);
    thread::Builder::new().name("queue".into()).spawn(move || {
        let ready = tell.clone();
        if let Err(error) = accept_all(&bridge, copied, &ready, &count) {
            // Nobody listens any more if it was told that it works.
            let _ = tell.send(Err(error));
        }
    })?;
    told.recv()??;
    Ok(seen)
}

fn accept_all(
    bridge: &File,
    copied: Copied,
    ready: &Sender<Outcome<()>>,
    seen: &AtomicU64,
) -> Outcome<()> {
    setns(bridge, CloneFlags::CLONE_NEWNET)?;
    put_rule().map_err(|error| format!("a rule with the target NFQUEUE: {error}"))?;
    let socket = bind(copied).map_err(|error| format!("a queue: {error}"))?;
    ready.send(Ok(()))?;
    let mut message = Vec::with_capacity(MESSAGE_BYTES_MAX);
    loop {
        message.clear();
        match socket.recv(&mut message, 0) {
            // The kernel had no room for some: they are lost, as in a cable.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => continue,
            received => received?,
        };
        for id in packets(&message) {
            seen.fetch_add(1, Ordering::Relaxed);
            let mut verdict = Attribute(Vec::new());
            let accept = libc::NF_ACCEPT as u32;
            verdict.add(
                libc::NFQA_VERDICT_HDR as u16,
                &[accept.to_be_bytes(), id].concat(),
            );
            let verdict = queue_message(libc::NFQNL_MSG_VERDICT, 0, &verdict.0);
            socket.send(&verdict, 0)?;
        }
    }
}

/// The numbers of the packets in what the kernel says, as it says them.
fn packets(mut messages: &[u8]) -> Vec<[u8; 4]> {
    const HEADERS_BYTES: usize = 20;
    let mut ids = Vec::new();
    while let Some(length) = messages
        .first_chunk()
        .map(|bytes| u32::from_ne_bytes(*bytes))
    {
        let length = length as usize;
        let Some(message) = messages.get(..length).filter(|_| length >= HEADERS_BYTES) else {
            break;
        };
        let kind = (libc::NFNL_SUBSYS_QUEUE << 8 | libc::NFQNL_MSG_PACKET) as u16;
        // The number comes first in the first attribute.
        let first = &message[HEADERS_BYTES..];
        if message[4..6] == kind.to_ne_bytes()
            && first.get(2..4) == Some(&(libc::NFQA_PACKET_HDR as u16).to_ne_bytes())
            && let Some(id) = first.get(4..8).and_then(<[u8]>::first_chunk)
        {
            ids.push(*id);
        }
        messages = messages.get(aligned(length)..).unwrap_or_default();
    }
    ids
}

/// The queue, of which this is told.
fn bind(copied: Copied) -> io::Result<Socket> {
    let socket = opened()?;
    setsockopt(&socket, RcvBufForce, &WAITING_BYTES_MAX)?;
    let mut how = Attribute(Vec::new());
    how.add(
        CFG_COMMAND,
        &[libc::NFQNL_CFG_CMD_BIND as u8, 0, 0, libc::AF_INET as u8],
    );
    let mut parameters = copied.bytes().to_be_bytes().to_vec();
    parameters.push(libc::NFQNL_COPY_PACKET as u8);
    how.add(CFG_PARAMETERS, &parameters);
    how.add(CFG_MAX_LENGTH, &WAITING_MAX.to_be_bytes());
    how.add(CFG_MASK, &FLAG_GSO.to_be_bytes());
    how.add(CFG_FLAGS, &FLAG_GSO.to_be_bytes());
    let acknowledged = libc::NLM_F_ACK as u16;
    socket.send(
        &queue_message(libc::NFQNL_MSG_CONFIG, acknowledged, &how.0),
        0,
    )?;
    answered(&socket)?;
    Ok(socket)
}

fn opened() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// The kernel's answer to what has just been said.
fn answered(socket: &Socket) -> io::Result<()> {
    let mut answer = Vec::with_capacity(MESSAGE_BYTES_MAX);
    socket.recv(&mut answer, 0)?;
    let is_error = answer.get(4..6) == Some(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
    match answer.get(16..20).and_then(<[u8]>::first_chunk) {
        Some(code) if is_error => match i32::from_ne_bytes(*code) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        },
        _ => Err(io::Error::other("the kernel does not answer")),
    }
}

/// Has the kernel ask the queue about each packet of IPv4 that the bridge forwards.
fn put_rule() -> io::Result<()> {
    let (create, subsystem) = (libc::NLM_F_CREATE as u16, libc::NFNL_SUBSYS_NFTABLES);
    let family = libc::NFPROTO_IPV4 as u8;
    let table = |kind, flags, rest: &[u8]| message(subsystem << 8 | kind, flags, family, 0, rest);
    let limit = |kind| message(kind, 0, 0, subsystem as u16, &[]);
    let mut of_rule = named(&[1, 2]);
    of_rule.nest(4, |list| {
        // The numbers are those of linux/netfilter/nf_tables.h, of what each is in.
        list.expression("target", |target| {
            target.text(1, "NFQUEUE");
            target.number(2, 3);
            // A structure of iptables: the first queue, how many there are, no flags.
            let [low, high] = QUEUE.to_ne_bytes();
            let [one, none] = 1u16.to_ne_bytes();
            target.add(3, &[low, high, one, none, 0, 0, 0, 0]);
        });
    });
    let mut of_chain = named(&[1, 3]);
    of_chain.text(7, "filter");
    of_chain.nest(4, |hook| {
        hook.number(1, libc::NF_INET_FORWARD as u32);
        hook.number(2, 0);
    });
    let append = create | libc::NLM_F_APPEND as u16;
    let last = create | libc::NLM_F_ACK as u16;
    let batch = [
        limit(libc::NFNL_MSG_BATCH_BEGIN),
        table(libc::NFT_MSG_NEWTABLE, create, &named(&[1]).0),
        table(libc::NFT_MSG_NEWCHAIN, create, &of_chain.0),
        table(libc::NFT_MSG_NEWRULE, append, &of_rule.0),
        // Only the last one is answered, and any error.
        table(libc::NFT_MSG_NEWTABLE, last, &named(&[1]).0),
        limit(libc::NFNL_MSG_BATCH_END),
    ];
    let socket = opened()?;
    socket.send(&batch.concat(), 0)?;
    answered(&socket)
}

/// The same name for a table and a chain, in the attributes with these numbers.
fn named(numbers: &[u16]) -> Attribute {
    let mut all = Attribute(Vec::new());
    for number in numbers {
        all.text(*number, NAME);
    }
    all
}

fn queue_message(kind: c_int, flags: u16, rest: &[u8]) -> Vec<u8> {
    message(libc::NFNL_SUBSYS_QUEUE << 8 | kind, flags, 0, QUEUE, rest)
}

/// A message: its header (struct nlmsghdr), that of netfilter (struct nfgenmsg), the rest.
fn message(kind: c_int, flags: u16, family: u8, resource: u16, rest: &[u8]) -> Vec<u8> {
    const HEADERS_BYTES: usize = 20;
    let mut all = ((HEADERS_BYTES + rest.len()) as u32).to_ne_bytes().to_vec();
    all.extend((kind as u16).to_ne_bytes());
    all.extend((flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
    all.extend([0; 8]);
    all.extend([family, libc::NFNETLINK_V0 as u8]);
    all.extend(resource.to_be_bytes());
    all.extend(rest);
    all.resize(aligned(all.len()), 0);
    all
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(libc::NLA_ALIGNTO as usize)
}

/// Attributes, one after the other.
struct Attribute(Vec<u8>);

impl Attribute {
    fn add(&mut self, kind: u16, value: &[u8]) {
        const HEADER_BYTES: usize = 4;
        self.0
            .extend(((HEADER_BYTES + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(aligned(self.0.len()), 0);
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.add(kind, &[text.as_bytes(), &[0]].concat());
    }

    fn number(&mut self, kind: u16, number: u32) {
        self.add(kind, &number.to_be_bytes());
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self(Vec::new());
        fill(&mut inner);
        self.add(kind | libc::NLA_F_NESTED as u16, &inner.0);
    }

    fn expression(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.nest(1, |element| {
            element.text(1, name);
            element.nest(2, fill);
        });
    }
}
