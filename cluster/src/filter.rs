//! What is not let through between the ports of the bridge: the kernel's nf_tables, asked over
//! netlink (include/uapi/linux/netfilter/nf_tables.h), in the network namespace of the thread.
//!
//! The rules are of the bridge, so no node sees them, and what they drop is lost without a word.
//! They name ports by their devices, so they hold for a node that is switched on again. ARP passes:
//! without it the other direction would end too, a while after this one.

use std::collections::BTreeSet;
use std::io;

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use nix::libc;

use crate::error::{Context, Result};
use crate::ground::Direction;
use crate::network::{ETHERTYPE_ARP, port};

/// The table, and the chain in it.
const NAME: &str = "crashpoint";

/// What is said where the kernel has it neither built in nor as a module that it can load.
const NO_FILTER: &str = "cut a link (it takes CONFIG_NF_TABLES_BRIDGE)";

/// Larger than any answer to what is asked here.
const ANSWER_BYTES_MAX: usize = 1 << 14;

/// The longest name of a device, with its end (IFNAMSIZ).
const DEVICE_NAME_BYTES: usize = 16;

/// Before what bridges do with frames by themselves.
const PRIORITY: i32 = -300;

/// Drops what these send to these, and nothing else: in one transaction.
///
/// # Errors
/// If the kernel has no nf_tables for bridges.
pub(crate) fn drop_only(cuts: &BTreeSet<Direction>) -> Result<()> {
    send(cuts).doing(|| NO_FILTER.into())
}

/// Fails if the kernel does not have as many rules as there are to be: each is of one direction.
///
/// # Errors
/// Then, and if it does not say how many it has.
pub(crate) fn verify(cuts: &BTreeSet<Direction>) -> Result<()> {
    let found = count().doing(|| "ask the kernel which links are cut".into())?;
    if found == cuts.len() {
        return Ok(());
    }
    let what = format!(
        "{} directions were to be cut, and the kernel cuts {found}",
        cuts.len()
    );
    Err(io::Error::other(what)).doing(|| "cut links".into())
}

/// How many rules there are.
fn count() -> io::Result<usize> {
    let mut batch = Batch::default();
    let kind = (libc::NFNL_SUBSYS_NFTABLES << 8 | libc::NFT_MSG_GETRULE) as u16;
    let mut table = Attributes::default();
    table.text(attribute::RULE_TABLE, NAME);
    let family = libc::NFPROTO_BRIDGE as u8;
    batch.push(kind, libc::NLM_F_DUMP as u16, family, 0, &table.0);
    let socket = batch.sent()?;
    let mut count = 0;
    loop {
        let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
        socket.recv(&mut answer, 0)?;
        for (kind, message) in Messages(&answer) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(count),
                libc::NLMSG_ERROR => match code_of(message) {
                    // There is no table before the first cut.
                    0 | libc::ENOENT => return Ok(0),
                    code => return Err(io::Error::from_raw_os_error(code)),
                },
                _ => count += 1,
            }
        }
    }
}

fn send(cuts: &BTreeSet<Direction>) -> io::Result<()> {
    let mut batch = Batch::default();
    batch.limit(libc::NFNL_MSG_BATCH_BEGIN);
    let create = libc::NLM_F_CREATE as u16;
    batch.message(libc::NFT_MSG_NEWTABLE, create, |table| {
        table.text(attribute::TABLE_NAME, NAME);
    });
    batch.message(libc::NFT_MSG_NEWCHAIN, create, |chain| {
        chain.text(attribute::CHAIN_TABLE, NAME);
        chain.text(attribute::CHAIN_NAME, NAME);
        chain.text(attribute::CHAIN_TYPE, "filter");
        chain.nest(attribute::CHAIN_HOOK, |hook| {
            hook.number(attribute::HOOK_HOOKNUM, libc::NF_BR_FORWARD as u32);
            hook.number(attribute::HOOK_PRIORITY, PRIORITY as u32);
        });
    });
    // All rules of the chain.
    batch.message(libc::NFT_MSG_DELRULE, 0, |rule| {
        rule.text(attribute::RULE_TABLE, NAME);
        rule.text(attribute::RULE_CHAIN, NAME);
    });
    for cut in cuts {
        batch.rule(*cut);
    }
    // An error is told without being asked for. If each message were answered, there would be no room for the
    // answers of many. The table is there: this changes nothing.
    batch.message(
        libc::NFT_MSG_NEWTABLE,
        create | libc::NLM_F_ACK as u16,
        |table| table.text(attribute::TABLE_NAME, NAME),
    );
    batch.limit(libc::NFNL_MSG_BATCH_END);
    batch.commit()
}

impl Batch {
    /// What goes from one port to another is dropped, but for ARP.
    fn rule(&mut self, (from, to): Direction) {
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_APPEND) as u16;
        self.message(libc::NFT_MSG_NEWRULE, flags, |rule| {
            rule.text(attribute::RULE_TABLE, NAME);
            rule.text(attribute::RULE_CHAIN, NAME);
            rule.nest(attribute::RULE_EXPRESSIONS, |list| {
                let (equal, unequal) = (libc::NFT_CMP_EQ, libc::NFT_CMP_NEQ);
                list.compare(libc::NFT_META_IIFNAME, equal, &device(&port(from)));
                list.compare(libc::NFT_META_OIFNAME, equal, &device(&port(to)));
                let arp = ETHERTYPE_ARP.to_be_bytes();
                list.compare(libc::NFT_META_PROTOCOL, unequal, &arp);
                list.drop_it();
            });
        });
    }
}

/// A device's name as the kernel compares it.
fn device(name: &str) -> [u8; DEVICE_NAME_BYTES] {
    let mut bytes = [0; DEVICE_NAME_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// Attributes of a message, one after the other.
#[derive(Default)]
struct Attributes(Vec<u8>);

impl Attributes {
    fn add(&mut self, kind: u16, value: &[u8]) {
        const HEADER_BYTES: usize = 4;
        let length = (HEADER_BYTES + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        pad(&mut self.0);
    }

    fn text(&mut self, kind: u16, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.add(kind, &bytes);
    }

    fn number(&mut self, kind: u16, number: u32) {
        self.add(kind, &number.to_be_bytes());
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.add(kind | libc::NLA_F_NESTED as u16, &inner.0);
    }

    /// One expression of a rule.
    fn expression(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.nest(attribute::LIST_ELEM, |element| {
            element.text(attribute::EXPR_NAME, name);
            element.nest(attribute::EXPR_DATA, fill);
        });
    }

    /// Goes on with the rule only if something of the frame compares so.
    fn compare(&mut self, what: libc::c_int, how: libc::c_int, value: &[u8]) {
        let register = libc::NFT_REG_1 as u32;
        self.expression("meta", |meta| {
            meta.number(attribute::META_DREG, register);
            meta.number(attribute::META_KEY, what as u32);
        });
        self.expression("cmp", |compare| {
            compare.number(attribute::CMP_SREG, register);
            compare.number(attribute::CMP_OP, how as u32);
            compare.nest(attribute::CMP_DATA, |data| {
                data.add(attribute::DATA_VALUE, value);
            });
        });
    }

    fn drop_it(&mut self) {
        self.expression("immediate", |immediate| {
            immediate.number(attribute::IMMEDIATE_DREG, libc::NFT_REG_VERDICT as u32);
            immediate.nest(attribute::IMMEDIATE_DATA, |data| {
                data.nest(attribute::DATA_VERDICT, |verdict| {
                    verdict.number(attribute::VERDICT_CODE, libc::NF_DROP as u32);
                });
            });
        });
    }
}

/// Messages that take effect together, or not at all.
#[derive(Default)]
struct Batch(Vec<u8>);

impl Batch {
    /// The first or the last message.
    fn limit(&mut self, kind: libc::c_int) {
        let subsystem = libc::NFNL_SUBSYS_NFTABLES as u16;
        self.push(kind as u16, 0, libc::AF_UNSPEC as u8, subsystem, &[]);
    }

    fn message(&mut self, kind: libc::c_int, flags: u16, fill: impl FnOnce(&mut Attributes)) {
        let mut attributes = Attributes::default();
        fill(&mut attributes);
        let kind = (libc::NFNL_SUBSYS_NFTABLES << 8 | kind) as u16;
        self.push(kind, flags, libc::NFPROTO_BRIDGE as u8, 0, &attributes.0);
    }

    /// One message: its header (struct nlmsghdr), that of netfilter (struct nfgenmsg), the rest.
    fn push(&mut self, kind: u16, flags: u16, family: u8, resource: u16, rest: &[u8]) {
        const HEADERS_BYTES: usize = 20;
        let length = (HEADERS_BYTES + rest.len()) as u32;
        let flags = flags | libc::NLM_F_REQUEST as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(flags.to_ne_bytes());
        // No number of its own, and from nobody in particular.
        self.0.extend([0; 8]);
        self.0.extend([family, libc::NFNETLINK_V0 as u8]);
        self.0.extend(resource.to_be_bytes());
        self.0.extend(rest);
        pad(&mut self.0);
    }

    /// Says it to the kernel. What is returned has the answers.
    fn sent(self) -> io::Result<Socket> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.send(&self.0, 0)?;
        Ok(socket)
    }

    /// Has them take effect, of which the last one is answered.
    fn commit(self) -> io::Result<()> {
        let socket = self.sent()?;
        let mut is_answered = false;
        while !is_answered {
            let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
            socket.recv(&mut answer, 0)?;
            is_answered = refuse_error(&answer)?;
        }
        Ok(())
    }
}

/// Whether a message is said to have taken effect.
///
/// # Errors
/// That of the first that has not.
fn refuse_error(answers: &[u8]) -> io::Result<bool> {
    let mut is_answered = false;
    for (kind, message) in Messages(answers) {
        if i32::from(kind) == libc::NLMSG_ERROR {
            match code_of(message) {
                0 => is_answered = true,
                code => return Err(io::Error::from_raw_os_error(code)),
            }
        }
    }
    Ok(is_answered)
}

/// The error that a message of the kind NLMSG_ERROR tells; 0 is none.
fn code_of(message: &[u8]) -> i32 {
    let word = message.get(..4).map(<[u8; 4]>::try_from);
    word.map_or(0, |word| -i32::from_ne_bytes(word.expect("four bytes")))
}

/// The messages in an answer, each with its kind and what follows its header.
struct Messages<'a>(&'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        const HEADER_BYTES: usize = 16;
        let header = self.0.get(..HEADER_BYTES)?;
        let length = u32::from_ne_bytes(header[..4].try_into().expect("four bytes")) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let message = self.0.get(HEADER_BYTES..length)?;
        let next = length.next_multiple_of(libc::NLA_ALIGNTO as usize);
        self.0 = self.0.get(next..).unwrap_or_default();
        Some((kind, message))
    }
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(libc::NLA_ALIGNTO as usize), 0);
}

/// Numbers of attributes, `NFTA_…`, which libc does not have.
mod attribute {
    pub(super) const TABLE_NAME: u16 = 1;
    pub(super) const CHAIN_TABLE: u16 = 1;
    pub(super) const CHAIN_NAME: u16 = 3;
    pub(super) const CHAIN_HOOK: u16 = 4;
    pub(super) const CHAIN_TYPE: u16 = 7;
    pub(super) const HOOK_HOOKNUM: u16 = 1;
    pub(super) const HOOK_PRIORITY: u16 = 2;
    pub(super) const RULE_TABLE: u16 = 1;
    pub(super) const RULE_CHAIN: u16 = 2;
    pub(super) const RULE_EXPRESSIONS: u16 = 4;
    pub(super) const LIST_ELEM: u16 = 1;
    pub(super) const EXPR_NAME: u16 = 1;
    pub(super) const EXPR_DATA: u16 = 2;
    pub(super) const META_DREG: u16 = 1;
    pub(super) const META_KEY: u16 = 2;
    pub(super) const CMP_SREG: u16 = 1;
    pub(super) const CMP_OP: u16 = 2;
    pub(super) const CMP_DATA: u16 = 3;
    pub(super) const DATA_VALUE: u16 = 1;
    pub(super) const DATA_VERDICT: u16 = 2;
    pub(super) const IMMEDIATE_DREG: u16 = 1;
    pub(super) const IMMEDIATE_DATA: u16 = 2;
    pub(super) const VERDICT_CODE: u16 = 1;
}
