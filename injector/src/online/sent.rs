//! What a plan says of how much is sent: triggers that wait for so many bytes or messages, and
//! partitions that begin after so many.

use std::ops::Range;

use cluster::{Member, between};
use simulation::{Amount, Carried};
use toml::Spanned;

use super::parse::{
    Checked, Known, Name, Names, RawFault, RawTrigger, Wrong, place, refuse, selectors,
};
use super::plan::Selector;
use super::select;

/// Who a plan says is at one end, if it does.
type GivenNames = Option<Spanned<Names>>;

/// So much that somebody sends to somebody, since it was first waited for.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Who sends it, all together; nobody is named: all other nodes, and all clients.
    pub from: Vec<Selector>,
    /// To whom; nobody is named: the same.
    pub to: Vec<Selector>,
    /// How much.
    pub amount: Amount,
}

impl Sent {
    /// All who are named.
    pub(super) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.from.iter().chain(&self.to)
    }

    /// Who is named at each end, as a plan calls it.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&'static str, &[Selector])> {
        [("from", &self.from[..]), ("to", &self.to[..])].into_iter()
    }

    /// The directions that count, with so many clients. Fails in words if nobody has a role, or there is
    /// none: who sends may be just who receives.
    pub(super) fn directions(
        &self,
        known: &select::Known,
        clients: usize,
    ) -> Result<Vec<(Member, Member)>, String> {
        directions((&self.from, &self.to), known, clients)
    }

    /// Its key, and that one's value.
    pub(super) fn key(&self) -> (&'static str, String) {
        let (key, count) = key(self.amount);
        (key, count.to_string())
    }
}

/// The directions from some to others, of whom one may not be named: then it is everybody else, and all
/// of so many clients. Fails in words if nobody has a role, or there is no direction.
pub(super) fn directions(
    (from, to): (&[Selector], &[Selector]),
    known: &select::Known,
    clients: usize,
) -> Result<Vec<(Member, Member)>, String> {
    let members = |nodes: &[usize]| -> Vec<_> {
        let nodes = nodes.iter().map(|node| Member::Node(*node));
        nodes.collect()
    };
    let others = |nodes: &[usize]| -> Result<Vec<_>, String> {
        let others = known.all(&[Selector::Others], nodes)?;
        let clients = (0..clients).map(Member::Client);
        Ok(members(&others).into_iter().chain(clients).collect())
    };
    let (is_from_all, is_to_all) = (from.is_empty(), to.is_empty());
    let (from, to) = (known.all(from, &[])?, known.all(to, &[])?);
    let (senders, receivers) = match (is_from_all, is_to_all) {
        (true, _) => (others(&to)?, members(&to)),
        (_, true) => (members(&from), others(&from)?),
        _ => (members(&from), members(&to)),
    };
    crossing(&senders, &receivers)
}

/// The directions between them in which the network is crossed. Fails in words if there is none.
fn crossing(senders: &[Member], receivers: &[Member]) -> Result<Vec<(Member, Member)>, String> {
    let all = between(senders, receivers).filter(|(from, to)| from != to);
    let all: Vec<_> = all.collect();
    if all.is_empty() {
        return Err("who sends it is who would receive it".into());
    }
    Ok(all)
}

/// The key of an amount, and its value.
pub(super) fn key(amount: Amount) -> (&'static str, u64) {
    match amount {
        Amount::Bytes(bytes) => ("bytes", bytes),
        Amount::Messages(messages) => ("messages", messages),
    }
}

/// An amount, in words.
pub(super) fn words(amount: Amount) -> String {
    let (what, count) = key(amount);
    counted(count, what)
}

/// What has passed, in words.
pub(super) fn passed(carried: Carried) -> String {
    let bytes = counted(carried.bytes, "bytes");
    format!("{bytes} in {}", counted(carried.messages, "messages"))
}

fn counted(count: u64, what: &str) -> String {
    let one = what.strip_suffix('s').filter(|_| count == 1);
    format!("{count} {}", one.unwrap_or(what))
}

/// What is to be sent, if that is waited for; fails if something else is that has its keys.
pub(super) fn sent(raw: &RawTrigger, known: &Known) -> Checked<Vec<Sent>> {
    let given = [
        (&raw.bytes, Amount::Bytes as fn(u64) -> Amount),
        (&raw.messages, Amount::Messages),
    ];
    let given = given.into_iter();
    let given: Vec<_> = given
        .filter_map(|(given, make)| Some((given.as_ref()?, make)))
        .collect();
    if given.is_empty() {
        refuse(place(raw.from.as_ref()), "from", "bytes and messages")?;
        refuse(place(raw.to.as_ref()), "to", "bytes and messages")?;
    }
    given
        .into_iter()
        .map(|(given, make)| one_sent(raw, (given, make), known))
        .collect()
}

fn one_sent(
    raw: &RawTrigger,
    (given, make): (&Spanned<u64>, fn(u64) -> Amount),
    known: &Known,
) -> Checked<Sent> {
    if *given.get_ref() == 0 {
        let what = "it is counted from 1 on: 0 is never reached";
        return Err(Wrong(given.span(), what.into()));
    }
    let (from, to) = ends(&given.span(), (&raw.from, &raw.to), known)?;
    if from.is_empty() && to.is_empty() {
        let what = "say who sends it, or to whom: `from`, `to`, or both";
        return Err(Wrong(given.span(), what.into()));
    }
    let amount = make(*given.get_ref());
    Ok(Sent { from, to, amount })
}

/// Who sends what is said at a place, and to whom. Fails if that crosses no network.
pub(super) fn ends(
    place: &Range<usize>,
    (from, to): (&GivenNames, &GivenNames),
    known: &Known,
) -> Checked<(Vec<Selector>, Vec<Selector>)> {
    let end = |names: &GivenNames| match names {
        Some(names) => selectors(names.clone(), known, false),
        None => Ok(Vec::new()),
    };
    let ends = (end(from)?, end(to)?);
    match (&ends.0[..], &ends.1[..]) {
        ([Selector::Node(from)], [Selector::Node(to)]) if from == to => {
            let what = format!("what {from} sends to itself crosses no network");
            Err(Wrong(place.clone(), what))
        }
        _ => Ok(ends),
    }
}

/// After how much a partition begins, if not at once; fails if another fault has its keys.
pub(super) fn after(raw: &RawFault) -> Checked<Option<Amount>> {
    let keys = [
        (
            "after_bytes",
            &raw.after_bytes,
            Amount::Bytes as fn(u64) -> Amount,
        ),
        ("after_messages", &raw.after_messages, Amount::Messages),
    ];
    let mut after = None;
    for (key, given, make) in keys {
        let Some(given) = given else { continue };
        if *raw.fault.get_ref() != Name::Partition {
            refuse(Some(given.span()), key, "a partition")?;
        }
        if *given.get_ref() == 0 {
            let what = format!("after nothing it begins at once: leave `{key}` out");
            return Err(Wrong(given.span(), what));
        }
        if after.replace(make(*given.get_ref())).is_some() {
            let what = "a partition begins after so many bytes or so many messages, not both";
            return Err(Wrong(given.span(), what.into()));
        }
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::super::given::{cluster_of, plan_of};
    use super::super::plan::FaultPlan;
    use super::*;

    const CLUSTER: &str = "
[[nodes]]
names = [\"a\", \"b\", \"c\"]
kind = \"data\"
command = \"sh\"
[[clients]]
name = \"one\"
command = \"sh\"
[[clients]]
name = \"two\"
command = \"sh\"
[probe]
command = \"sh\"
roles = [\"leader\", \"follower\"]
";

    fn parsed(text: &str) -> Result<FaultPlan, String> {
        plan_of(text, &cluster_of(CLUSTER))
    }

    #[test]
    fn what_is_said_of_traffic_is_read_again_as_it_was_printed() {
        let text = "[[faults]]
at = { bytes = 4096, to = \"b\" }
fault = \"partition\"
on = \"a\"
after_messages = 3
until = { messages = 30, from = \"leader\", to = [\"b\", \"all follower\"], delay_s = 0.5 }
[[faults]]
at = { messages = 1, from = \"hit\" }
fault = \"partition\"
on = \"a\"
from = \"b\"
flow = \"out\"
after_bytes = 1000
";
        let plan = parsed(text).expect("a plan");
        assert!(plan.needs_roles() && plan.needs_counts());
        let printed = plan.to_string();
        for line in text.lines() {
            assert!(printed.contains(line), "{line}: {printed}");
        }
        assert_eq!(parsed(&printed).expect("a plan"), plan);
        let none = text.replace(
            "messages = 30, from = \"leader\", to = [\"b\", \"all follower\"], delay_s = 0.5",
            "after_s = 1",
        );
        assert!(!parsed(&none).expect("a plan").needs_roles());
        let none = none.replace("bytes = 4096, to = \"b\"", "time_s = 1");
        let none = none.replace("messages = 1, from = \"hit\"", "after_s = 1");
        assert!(!parsed(&none).expect("a plan").needs_counts());
    }

    #[test]
    fn a_trigger_of_traffic_that_cannot_be_is_refused() {
        let at = |at: &str| {
            let text = format!("[[faults]]\nat = {{ {at} }}\nfault = \"kill\"\non = \"a\"\n");
            parsed(&text).expect_err("it is wrong")
        };
        let both = at("bytes = 1, messages = 1, to = \"a\"");
        assert!(
            both.starts_with("p.toml:2:6: one thing is waited for"),
            "{both}"
        );
        assert!(
            both.contains("call, request, bytes, messages, ended"),
            "{both}"
        );
        assert_eq!(
            at("bytes = 0, to = \"a\""),
            "p.toml:2:16: it is counted from 1 on: 0 is never reached"
        );
        assert_eq!(
            at("messages = 3"),
            "p.toml:2:19: say who sends it, or to whom: `from`, `to`, or both"
        );
        assert_eq!(
            at("messages = 3, from = \"a\", to = \"a\""),
            "p.toml:2:19: what a sends to itself crosses no network"
        );
        let unknown = at("bytes = 3, to = \"d\"");
        assert!(
            unknown.starts_with("p.toml:2:24: there is no node or role `d`"),
            "{unknown}"
        );
        assert_eq!(
            at("lines = 3, from = \"a\""),
            "p.toml:2:26: `from` is only for bytes and messages"
        );
        assert_eq!(
            at("time_s = 3, to = \"a\""),
            "p.toml:2:25: `to` is only for bytes and messages"
        );
        assert!(at("bytes = 3, to = \"a\", node = \"b\"").contains("`node` is only for log"));
        assert!(at("bytes = 3, to = \"hit\"").contains("this is the first one"));
        let negative = at("bytes = -3, to = \"a\"");
        assert!(negative.starts_with("p.toml:2:16: "), "{negative}");
    }

    #[test]
    fn a_limit_that_cannot_be_is_refused() {
        let of = |fault: &str| {
            let text = format!("[[faults]]\nat = {{ time_s = 1 }}\non = \"a\"\n{fault}\n");
            parsed(&text).expect_err("it is wrong")
        };
        assert_eq!(
            of("fault = \"partition\"\nafter_bytes = 0"),
            "p.toml:5:15: after nothing it begins at once: leave `after_bytes` out"
        );
        assert_eq!(
            of("fault = \"partition\"\nafter_bytes = 1\nafter_messages = 1"),
            "p.toml:6:18: a partition begins after so many bytes or so many messages, not both"
        );
        assert_eq!(
            of("fault = \"kill\"\nafter_messages = 1"),
            "p.toml:5:18: `after_messages` is only for a partition"
        );
        assert_eq!(
            of("fault = \"link\"\nlost = 1\nafter_bytes = 1"),
            "p.toml:6:15: `after_bytes` is only for a partition"
        );
    }

    #[test]
    fn who_is_not_named_is_everybody_else_and_the_clients() {
        let file = cluster_of(CLUSTER);
        let known = select::Known {
            file: &file,
            roles: None,
            seed: 0,
            hit: None,
        };
        let directions = |from: &[&str], to: &[&str]| {
            let named = |all: &[&str]| {
                all.iter()
                    .map(|name| Selector::Node((*name).into()))
                    .collect()
            };
            let sent = Sent {
                from: named(from),
                to: named(to),
                amount: Amount::Bytes(1),
            };
            sent.directions(&known, 2).expect("known")
        };
        let node = Member::Node;
        let others = [node(0), node(2), Member::Client(0), Member::Client(1)];
        assert_eq!(
            directions(&[], &["b"]),
            others.map(|other| (other, node(1)))
        );
        assert_eq!(
            directions(&["b"], &[]),
            others.map(|other| (node(1), other))
        );
        assert_eq!(directions(&["a"], &["b"]), [(node(0), node(1))]);
        let among = directions(&["a", "b"], &["a", "b"]);
        assert_eq!(among, [(node(0), node(1)), (node(1), node(0))]);
        let role = Sent {
            from: vec![Selector::Role("leader".into())],
            to: Vec::new(),
            amount: Amount::Bytes(1),
        };
        assert!(role.directions(&known, 2).is_err(), "nobody has told");
        let itself = Sent {
            from: vec![Selector::All],
            to: vec![Selector::All],
            ..role
        };
        assert_eq!(itself.directions(&known, 2).expect("known").len(), 6);
        let itself = Sent {
            from: vec![Selector::Node("a".into()), Selector::Node("a".into())],
            to: vec![Selector::Node("a".into())],
            ..itself
        };
        let why = itself.directions(&known, 2).expect_err("nothing crosses");
        assert_eq!(why, "who sends it is who would receive it");
    }
}
