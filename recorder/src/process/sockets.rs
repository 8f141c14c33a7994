//! What goes over connections: which bytes of which, so that the two ends can be matched.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use libc::pid_t;
use nix::sys::socket::{
    SockType, SockaddrStorage, UnixAddr, getpeername, getsockname, getsockopt, sockopt,
};
use rustix::fs::{FileType, Mode, OFlags, openat, readlinkat};
use serde::{Deserialize, Serialize};

use super::gate::Changes;
use super::log::{Span, What};
use super::recording::{Entered, Next, Recording};
use tracer::Origin;
use tracer::calls::{Bytes, Call};
use tracer::lookup::Descriptor;
use tracer::{Entry, read_memory};

/// A connection as one of its ends sees it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Connection {
    /// None as long as it is not connected.
    pub ends: Option<Ends>,
    /// How many bytes have gone out, and come in.
    pub sent: u64,
    pub received: u64,
    inode: u64,
    /// Whether the process itself has said that it sends no more.
    ended: bool,
    /// Whether the process itself has said that it reads no more: then a read gives nothing, whatever the
    /// other one does.
    reads_shut: bool,
    /// Whether a process is known to have it.
    open: bool,
    /// The event with which the last one gave it up, if that is its end.
    closing: Option<usize>,
}

/// Between whom a connection is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Ends {
    /// Two addresses. Those that mean another machine in each network namespace come with its
    /// number.
    Internet {
        local: SocketAddr,
        remote: SocketAddr,
        namespace: u64,
    },
    /// A name, and the process that connected to it.
    Unix {
        name: Vec<u8>,
        client: pid_t,
        accepted: bool,
    },
}

impl Ends {
    /// Tells those of one machine from those of another one with a kernel of its own, whose numbers
    /// are the same.
    pub(super) fn move_to(&mut self, machine: u16) {
        match self {
            // None: these addresses mean the same everywhere.
            Self::Internet { namespace: 0, .. } => {}
            Self::Internet { namespace, .. } => *namespace ^= u64::from(machine) << 48,
            Self::Unix { client, .. } => *client |= pid_t::from(machine) << PID_BITS,
        }
    }

    /// Whether they are the same, seen by a process that may have it from the one that connected.
    fn are(&self, others: &Self) -> bool {
        match (self, others) {
            (
                Self::Unix { name, accepted, .. },
                Self::Unix {
                    name: other,
                    accepted: accepts,
                    ..
                },
            ) => name == other && accepted == accepts,
            _ => self == others,
        }
    }

    /// The same connection as the other end sees it.
    pub(super) fn reversed(&self) -> Self {
        match self.clone() {
            Self::Internet {
                local,
                remote,
                namespace,
            } => Self::Internet {
                local: remote,
                remote: local,
                namespace,
            },
            Self::Unix {
                name,
                client,
                accepted,
            } => Self::Unix {
                name,
                client,
                accepted: !accepted,
            },
        }
    }
}

/// What a socket is to us.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// One end of this connection.
    Stream(usize),
    /// What is sent over it are datagrams of the Internet protocols.
    Datagrams,
    /// It leads to nobody outside of the node.
    Other,
}

/// The sockets of a node.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// By inode.
    known: HashMap<u64, Kind>,
    pub all: Vec<Connection>,
    /// Datagrams that were sent, by call and address. Nothing else is known of them.
    pub datagrams: BTreeMap<(Cow<'static, str>, IpAddr), u64>,
}

impl Sockets {
    /// Whether there is a connection that can be closed.
    pub(super) fn any_open(&self) -> bool {
        self.all.iter().any(|connection| connection.open)
    }

    /// What a socket is of which nothing was known.
    fn add(&mut self, descriptor: &Descriptor) -> Kind {
        let inode = descriptor.stat.st_ino;
        let kind = match getsockopt(&descriptor.copy, sockopt::SockType) {
            Ok(SockType::Stream) => {
                self.all.push(Connection {
                    ends: None,
                    sent: 0,
                    received: 0,
                    inode,
                    ended: false,
                    reads_shut: false,
                    open: true,
                    closing: None,
                });
                Kind::Stream(self.all.len() - 1)
            }
            Ok(_) if is_internet(&descriptor.copy) => Kind::Datagrams,
            _ => Kind::Other,
        };
        self.known.insert(inode, kind);
        kind
    }
}

/// What is known of a call on a socket before it is made.
#[derive(Debug)]
pub(super) enum SocketCall {
    Send {
        connection: usize,
        copy: OwnedFd,
    },
    Receive {
        connection: usize,
        copy: OwnedFd,
        peeks: bool,
    },
    /// Datagrams, each to its address.
    Datagrams {
        to: Vec<IpAddr>,
    },
}

/// One message of sendmmsg(2): `struct mmsghdr`, with the length at its end.
const MANY_BYTES: u64 = 64;
const MANY_LENGTH: u64 = 56;

/// No process id takes more (`PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;

/// The kernel sends so many at once at most (`UIO_MAXIOV`).
const MANY_MAX: u64 = 1024;

impl Recording {
    /// What a socket is.
    fn kind(&mut self, origin: &Origin, descriptor: &Descriptor) -> Kind {
        let known = self.known_kind(origin, descriptor);
        known.unwrap_or_else(|| self.sockets.add(descriptor))
    }

    /// What is known of a socket. One that no process had may have been on its way to this one
    /// (`SCM_RIGHTS`).
    fn known_kind(&mut self, origin: &Origin, descriptor: &Descriptor) -> Option<Kind> {
        let kind = *self.sockets.known.get(&descriptor.stat.st_ino)?;
        if let Kind::Stream(connection) = kind
            && !self.sockets.all[connection].open
        {
            let before = self.sockets.all[connection].ends.as_ref();
            // The number of one that is gone is used again. One that was broken has no ends any more.
            if let (Some(before), Some(now)) = (before, ends(&descriptor.copy, origin))
                && !before.are(&now)
            {
                return None;
            }
            self.reopen(connection);
        }
        Some(kind)
    }

    /// Somebody has a connection that nobody seemed to have: it has not ended yet.
    fn reopen(&mut self, connection: usize) {
        let known = &mut self.sockets.all[connection];
        known.open = true;
        let sent = known.sent;
        if let Some(closing) = known.closing.take() {
            let bytes = Span::Bytes {
                from: sent,
                to: sent,
            };
            self.correct(
                closing,
                What::Socket {
                    connection,
                    sent: true,
                    bytes,
                },
            );
        }
    }

    /// The connection of a socket, if it is a stream.
    fn connection(&mut self, origin: &Origin, descriptor: &Descriptor) -> Option<usize> {
        match self.kind(origin, descriptor) {
            Kind::Stream(connection) => Some(connection),
            Kind::Datagrams | Kind::Other => None,
        }
    }

    pub(super) fn enter_send(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        descriptor: Descriptor,
    ) -> Next {
        let connection = match self.kind(origin, &descriptor) {
            Kind::Stream(connection) => connection,
            Kind::Datagrams => {
                let to = Self::destinations(origin, entry, &descriptor);
                return Next::ToExit(Entered::Socket(SocketCall::Datagrams { to }));
            }
            Kind::Other => return Next::GoOn,
        };
        if !self.may(Changes::Connection(connection), origin.thread) {
            return Next::Hold;
        }
        Next::ToExit(Entered::Socket(SocketCall::Send {
            connection,
            copy: descriptor.copy,
        }))
    }

    /// sendfile(2) and splice(2) that do not go to a file of the node's.
    pub(super) fn enter_copy_to_socket(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: Call,
    ) -> Next {
        let Call::Copy { from, to, .. } = call else {
            return Next::GoOn;
        };
        match origin.descriptor(entry.arguments[to] as i32) {
            Some(descriptor) if descriptor.is(FileType::Socket) => {
                self.enter_send(origin, entry, descriptor)
            }
            Some(descriptor)
                if self
                    .marks
                    .are_written_to(entry.arguments[to] as i32, &descriptor) =>
            {
                Next::ToExit(Entered::Unfollowed(format!(
                    "{} to standard output",
                    origin.row.name
                )))
            }
            _ => self.receive(origin, entry.arguments[from], 0),
        }
    }

    pub(super) fn enter_receive(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let flags = match origin.row.call {
            Call::Read {
                flags: Some(argument),
            } => entry.arguments[argument],
            Call::ReceiveMany => entry.arguments[3],
            _ => 0,
        };
        self.receive(origin, entry.arguments[0], flags as i32)
    }

    fn receive(&mut self, origin: &Origin, number: u64, flags: i32) -> Next {
        let Some(descriptor) = origin.descriptor(number as i32) else {
            return Next::GoOn;
        };
        if !descriptor.is(FileType::Socket) || flags & libc::MSG_ERRQUEUE != 0 {
            return Next::GoOn;
        }
        let Some(connection) = self.connection(origin, &descriptor) else {
            return Next::GoOn;
        };
        let peeks = flags & libc::MSG_PEEK != 0;
        Next::ToExit(Entered::Socket(SocketCall::Receive {
            connection,
            copy: descriptor.copy,
            peeks,
        }))
    }

    pub(super) fn leave_socket_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: SocketCall,
        result: i64,
    ) {
        match call {
            SocketCall::Send { connection, copy } => {
                let len = Self::transferred(origin, entry, result);
                if len > 0 {
                    self.name_ends(origin, connection, &copy);
                    self.sent(origin, connection, len);
                }
            }
            SocketCall::Receive {
                connection,
                copy,
                peeks,
            } => {
                // The other end was closed with bytes unread, or died.
                let broken = [libc::ECONNRESET, libc::EPIPE]
                    .map(|errno| -i64::from(errno))
                    .contains(&result);
                let len = Self::transferred(origin, entry, result);
                let is_end = result == 0
                    && !self.sockets.all[connection].reads_shut
                    && !asks_nothing(origin, entry);
                if len > 0 || is_end || broken {
                    self.name_ends(origin, connection, &copy);
                    self.received(origin, connection, len, peeks);
                }
            }
            SocketCall::Datagrams { to } => {
                let is_many = origin.row.call == Call::SendMany;
                // One may be empty.
                let went = if is_many {
                    usize::try_from(result).unwrap_or(0)
                } else {
                    usize::from(result >= 0)
                };
                for address in to.into_iter().take(went) {
                    *self
                        .sockets
                        .datagrams
                        .entry((origin.row.name.into(), address))
                        .or_default() += 1;
                }
            }
        }
    }

    /// Somebody was given so many bytes of a connection, or with none its end.
    fn received(&mut self, origin: &Origin, connection: usize, len: u64, peeks: bool) {
        let from = self.sockets.all[connection].received;
        let bytes = match len {
            0 => Span::End,
            _ => Span::Bytes {
                from,
                to: from + len,
            },
        };
        if !peeks {
            self.sockets.all[connection].received += len;
        }
        let what = What::Socket {
            connection,
            sent: false,
            bytes,
        };
        self.event(origin, what);
    }

    /// Where the datagrams of a call are to go: what it says itself, or else whom the socket is
    /// connected to.
    fn destinations(origin: &Origin, entry: &Entry, descriptor: &Descriptor) -> Vec<IpAddr> {
        let [_, messages, count, _, address, _] = entry.arguments;
        let named = |address: u64| {
            (address != 0)
                .then(|| read_address(origin.thread, address))
                .flatten()
        };
        let of_message = |message: u64| {
            let mut name = [0; 8];
            // A `struct msghdr` begins with it.
            read_memory(origin.thread, message, &mut name).ok()?;
            named(u64::from_le_bytes(name))
        };
        let connected = || {
            let peer: SockaddrStorage = getpeername(descriptor.copy.as_raw_fd()).ok()?;
            internet(&peer).map(|peer| peer.ip())
        };
        let named: Vec<Option<IpAddr>> = match origin.row.call {
            Call::SendMany => (0..count.min(MANY_MAX))
                .map(|number| of_message(messages + number * MANY_BYTES))
                .collect(),
            Call::Write(write) if write.bytes == Bytes::Message => vec![of_message(messages)],
            Call::Write(_) if origin.row.name == "sendto" => vec![named(address)],
            _ => vec![None],
        };
        named
            .into_iter()
            .filter_map(|named| named.or_else(connected))
            .collect()
    }

    fn sent(&mut self, origin: &Origin, connection: usize, len: u64) {
        let from = self.sockets.all[connection].sent;
        self.sockets.all[connection].sent += len;
        let bytes = Span::Bytes {
            from,
            to: from + len,
        };
        self.event(
            origin,
            What::Socket {
                connection,
                sent: true,
                bytes,
            },
        );
    }

    /// How many bytes went over the connection.
    fn transferred(origin: &Origin, entry: &Entry, result: i64) -> u64 {
        let result = u64::try_from(result).unwrap_or(0);
        if !matches!(origin.row.call, Call::SendMany | Call::ReceiveMany) {
            return result;
        }
        (0..result)
            .map(|number| {
                let mut length = [0; 4];
                let place = entry.arguments[1] + number * MANY_BYTES + MANY_LENGTH;
                read_memory(origin.thread, place, &mut length)
                    .map_or(0, |()| u64::from(u32::from_le_bytes(length)))
            })
            .sum()
    }

    /// Whoever sent was killed in it: some of the bytes may have gone out.
    pub(super) fn abandon_socket_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: &SocketCall,
    ) {
        let (connection, copy) = match call {
            SocketCall::Send { connection, copy } => (connection, copy),
            SocketCall::Receive { .. } => return,
            // They may have gone out.
            SocketCall::Datagrams { to } => {
                for address in to {
                    *self
                        .sockets
                        .datagrams
                        .entry((origin.row.name.into(), *address))
                        .or_default() += 1;
                }
                return;
            }
        };
        if let Call::Write(write) = origin.row.call
            && write.bytes == Bytes::Buffer
        {
            self.name_ends(origin, *connection, copy);
            self.sent(origin, *connection, entry.arguments[2]);
        } else {
            self.count("a send that was interrupted");
        }
    }

    /// Finds out between whom a connection is, once it is one.
    fn name_ends(&mut self, origin: &Origin, connection: usize, copy: &OwnedFd) {
        if self.sockets.all[connection].ends.is_none() {
            self.sockets.all[connection].ends = ends(copy, origin);
        }
    }

    pub(super) fn enter_shutdown(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let Some(descriptor) = origin.descriptor(entry.arguments[0] as i32) else {
            return Next::GoOn;
        };
        let how = entry.arguments[1] as i32;
        if descriptor.is(FileType::Socket)
            && let Some(connection) = self.connection(origin, &descriptor)
        {
            self.sockets.all[connection].reads_shut |= how != libc::SHUT_WR;
            if how != libc::SHUT_RD {
                self.name_ends(origin, connection, &descriptor.copy);
                self.end_connection(origin, connection);
                let known = &mut self.sockets.all[connection];
                known.ended = known.ends.is_some();
            }
        }
        Next::GoOn
    }

    pub(super) fn enter_close(&mut self, origin: &Origin, entry: &Entry) -> Next {
        if self.sockets.all.is_empty() {
            return Next::GoOn;
        }
        let number = entry.arguments[0] as i32;
        let Some(descriptor) = origin.descriptor(number) else {
            return Next::GoOn;
        };
        if descriptor.is(FileType::Socket)
            && let Some(Kind::Stream(connection)) = self.known_kind(origin, &descriptor)
        {
            self.name_ends(origin, connection, &descriptor.copy);
            drop(descriptor);
            let except = (origin.process, number);
            let inode = self.sockets.all[connection].inode;
            if !self.open_sockets(Some(except)).contains(&inode) {
                self.close_connection(origin, connection);
            }
        }
        Next::GoOn
    }

    /// Ends the connections that no process has any more.
    pub(super) fn end_closed_connections(&mut self, origin: &Origin, except: Option<(pid_t, i32)>) {
        if !self.sockets.any_open() {
            return;
        }
        let open = self.open_sockets(except);
        for connection in 0..self.sockets.all.len() {
            if self.sockets.all[connection].open
                && !open.contains(&self.sockets.all[connection].inode)
            {
                self.close_connection(origin, connection);
            }
        }
    }

    /// No process has a connection that is open.
    fn close_connection(&mut self, origin: &Origin, connection: usize) {
        let before = self.events();
        self.end_connection(origin, connection);
        let ends = self.events() > before;
        let known = &mut self.sockets.all[connection];
        known.open = false;
        known.closing = ends.then_some(before);
    }

    fn end_connection(&mut self, origin: &Origin, connection: usize) {
        let known = &self.sockets.all[connection];
        if known.ends.is_some() && !known.ended {
            self.event(
                origin,
                What::Socket {
                    connection,
                    sent: true,
                    bytes: Span::End,
                },
            );
        }
    }

    /// The inodes of all sockets that the node's processes have, but for one descriptor.
    fn open_sockets(&self, except: Option<(pid_t, i32)>) -> HashSet<u64> {
        let mut all = HashSet::new();
        for &process in self.mappings.keys() {
            let Some((directory, numbers)) = self.descriptors(process) else {
                continue;
            };
            for number in numbers {
                if except == Some((process, number)) {
                    continue;
                }
                let name = number.to_string();
                let target = readlinkat(&directory, name, Vec::new()).unwrap_or_default();
                let inode = target
                    .to_str()
                    .ok()
                    .and_then(|target| target.strip_prefix("socket:[")?.strip_suffix(']'));
                all.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
            }
        }
        all
    }

    /// The descriptors of a process, and the directory that has them. If its first thread has ended,
    /// only the others have them.
    fn descriptors(&self, process: pid_t) -> Option<(OwnedFd, Vec<i32>)> {
        let of_first = self.numbers(&format!("{process}/fd"));
        of_first.or_else(|| {
            let (_, threads) = self.numbers(&format!("{process}/task"))?;
            let mut threads = threads.into_iter();
            threads.find_map(|thread| self.numbers(&format!("{process}/task/{thread}/fd")))
        })
    }

    /// A directory of `/proc`, and the numbers that are names in it, if there are any.
    fn numbers(&self, path: &str) -> Option<(OwnedFd, Vec<i32>)> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(self.paths.proc(), path, flags, Mode::empty()).ok()?;
        let entries = rustix::fs::Dir::read_from(&directory).ok()?.flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
        let numbers: Vec<i32> = numbers.collect();
        (!numbers.is_empty()).then_some((directory, numbers))
    }
}

/// Between whom a socket is, if it is connected.
fn ends(socket: &OwnedFd, origin: &Origin) -> Option<Ends> {
    let remote: SockaddrStorage = getpeername(socket.as_raw_fd()).ok()?;
    let local: SockaddrStorage = getsockname(socket.as_raw_fd()).ok()?;
    if let (Some(local), Some(remote)) = (internet(&local), internet(&remote)) {
        let stays_here =
            local.ip() == remote.ip() || local.ip().is_loopback() || remote.ip().is_loopback();
        let namespace = std::fs::metadata(format!("/proc/{}/ns/net", origin.thread))
            .map_or(0, |data| data.ino());
        return Some(Ends::Internet {
            local,
            remote,
            namespace: if stays_here { namespace } else { 0 },
        });
    }
    if let Some(name) = remote.as_unix_addr().and_then(unix_name) {
        return Some(Ends::Unix {
            name,
            client: origin.process,
            accepted: false,
        });
    }
    let name = local.as_unix_addr().and_then(unix_name)?;
    let client = getsockopt(&socket.as_fd(), sockopt::PeerCredentials)
        .ok()?
        .pid();
    Some(Ends::Unix {
        name,
        client,
        accepted: true,
    })
}

/// Whether a socket is one of the Internet protocols.
fn is_internet(socket: &OwnedFd) -> bool {
    getsockname::<SockaddrStorage>(socket.as_raw_fd())
        .is_ok_and(|address| internet(&address).is_some())
}

/// An address of the Internet protocols in a thread's memory: `struct sockaddr_in` or
/// `sockaddr_in6`.
fn read_address(thread: pid_t, place: u64) -> Option<IpAddr> {
    let mut bytes = [0; 24];
    // The shorter one may lie at the end of what there is.
    read_memory(thread, place, &mut bytes[..16]).ok()?;
    match i32::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
        libc::AF_INET => Some(IpAddr::from([bytes[4], bytes[5], bytes[6], bytes[7]])),
        libc::AF_INET6 => {
            read_memory(thread, place, &mut bytes).ok()?;
            let address: [u8; 16] = bytes[8..].try_into().expect("sixteen bytes");
            Some(IpAddr::from(address).to_canonical())
        }
        _ => None,
    }
}

fn internet(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(address) = address.as_sockaddr_in() {
        return Some(SocketAddr::V4(SocketAddrV4::from(*address)));
    }
    let address = SocketAddrV6::from(*address.as_sockaddr_in6()?);
    Some(match address.ip().to_ipv4_mapped() {
        Some(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
        None => SocketAddr::new(IpAddr::V6(*address.ip()), address.port()),
    })
}

fn unix_name(address: &UnixAddr) -> Option<Vec<u8>> {
    let path = address
        .path()
        .map(|path| path.as_os_str().as_bytes().to_vec());
    path.or_else(|| address.as_abstract().map(|name| [b"\0", name].concat()))
}

/// Whether a read is one of no bytes, which gives nothing whatever comes.
fn asks_nothing(origin: &Origin, entry: &Entry) -> bool {
    matches!(origin.row.name, "read" | "recvfrom") && entry.arguments[2] == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_another_machine_on_each_is_told_apart() {
        let ends = |namespace| Ends::Internet {
            local: ([127, 0, 0, 1], 1).into(),
            remote: ([127, 0, 0, 1], 2).into(),
            namespace,
        };
        let unix = Ends::Unix {
            name: b"socket".to_vec(),
            client: 300,
            accepted: true,
        };
        let moved = |ends: &Ends, machine| {
            let mut ends = ends.clone();
            ends.move_to(machine);
            ends
        };
        for own in [ends(4_026_531_840), unix] {
            assert_ne!(moved(&own, 1), moved(&own, 2));
            assert_eq!(moved(&own, 1).reversed(), moved(&own.reversed(), 1));
        }
        assert_eq!(moved(&ends(0), 1), moved(&ends(0), 2));
    }
}
