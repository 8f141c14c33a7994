//! A message with which a partition begins: the first one that is lost.

use std::fmt;

use cluster::Member;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use simulation::{OfPorts, Port};
use toml::Spanned;

use super::parse::{Checked, Known, Name, Names, RawFault, Wrong};
use super::plan::Selector;
use super::print::selected;
use super::select;
use super::sent::{directions, ends};

/// One of the messages that somebody sends to somebody.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageOf {
    /// Which one, from 1 on, since it is waited for.
    pub nth: u64,
    /// Who sends it; nobody is named: all others, and all clients.
    pub from: Vec<Selector>,
    /// To whom; nobody is named: the same. If nobody is named at all, it is one of those that are to be
    /// lost.
    pub to: Vec<Selector>,
    /// From which port, and to which.
    pub ports: OfPorts,
}

/// As a plan has it.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "expected a message, such as { nth = 3, to_port = 7000 }"
)]
pub(super) struct RawMessage {
    nth: Spanned<u64>,
    from: Option<Spanned<Names>>,
    to: Option<Spanned<Names>>,
    #[serde(default)]
    from_port: RawPort,
    #[serde(default)]
    to_port: RawPort,
}

impl MessageOf {
    /// All who are named.
    pub(super) fn selectors(&self) -> impl Iterator<Item = &Selector> {
        self.from.iter().chain(&self.to)
    }

    /// The directions in which messages count, with so many clients; `cut` if nobody is named. Fails in
    /// words if nobody has a role, or there is none.
    pub(super) fn counted(
        &self,
        cut: &[(Member, Member)],
        known: &select::Known,
        clients: usize,
    ) -> Result<Vec<(Member, Member)>, String> {
        if self.from.is_empty() && self.to.is_empty() {
            return Ok(cut.to_vec());
        }
        directions((&self.from, &self.to), known, clients)
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let ends = [
            ("from", &self.from, self.ports.from),
            ("to", &self.to, self.ports.to),
        ];
        let mut words = format!("message {}", self.nth);
        for (end, who, port) in ends {
            let port = match port {
                Port::Is(port) => format!(":{port}"),
                Port::Chosen | Port::Any => String::new(),
            };
            if who.is_empty() && port.is_empty() {
                continue;
            }
            let names: Vec<_> = who.iter().map(Selector::to_string).collect();
            words += &format!(" {end} {}{port}", names.join(", "));
        }
        words
    }
}

/// As the table of a plan.
impl fmt::Display for MessageOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ nth = {}", self.nth)?;
        for (key, who) in [("from", &self.from), ("to", &self.to)] {
            if !who.is_empty() {
                write!(f, ", {key} = {}", selected(who))?;
            }
        }
        for (key, port) in [("from_port", self.ports.from), ("to_port", self.ports.to)] {
            match port {
                Port::Any => {}
                Port::Chosen => write!(f, ", {key} = \"{CHOSEN}\"")?,
                Port::Is(port) => write!(f, ", {key} = {port}")?,
            }
        }
        f.write_str(" }")
    }
}

/// The message with which a partition begins, if it does; fails if another fault has that.
pub(super) fn with_message(raw: &RawFault, known: &Known) -> Checked<Option<MessageOf>> {
    let Some(given) = &raw.with_message else {
        return Ok(None);
    };
    if *raw.fault.get_ref() != Name::Partition {
        let what = "`with_message` is only for a partition";
        return Err(Wrong(given.span(), what.into()));
    }
    if raw.after_bytes.is_some() || raw.after_messages.is_some() {
        let what = "a partition begins with a message or after so much, not both";
        return Err(Wrong(given.span(), what.into()));
    }
    let (place, given) = (given.span(), given.get_ref());
    if *given.nth.get_ref() == 0 {
        return Err(Wrong(given.nth.span(), "it is counted from 1 on".into()));
    }
    let (from, to) = ends(&place, (&given.from, &given.to), known)?;
    Ok(Some(MessageOf {
        nth: *given.nth.get_ref(),
        from,
        to,
        ports: OfPorts {
            from: given.from_port.0,
            to: given.to_port.0,
        },
    }))
}

/// What a plan calls a port that a kernel chose.
const CHOSEN: &str = "chosen";

/// A port, as a plan has it.
#[derive(Debug, Default)]
struct RawPort(Port);

impl<'de> Deserialize<'de> for RawPort {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NumberOrWord;
        impl Visitor<'_> for NumberOrWord {
            type Value = RawPort;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a port from 1 to 65535, or \"{CHOSEN}\"")
            }

            fn visit_i64<E: de::Error>(self, port: i64) -> Result<RawPort, E> {
                match u16::try_from(port) {
                    Ok(port) if port > 0 => Ok(RawPort(Port::Is(port))),
                    _ => Err(E::invalid_value(Unexpected::Signed(port), &self)),
                }
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<RawPort, E> {
                match word {
                    CHOSEN => Ok(RawPort(Port::Chosen)),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }
        }
        from.deserialize_any(NumberOrWord)
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::{cluster_of, plan_of};
    use super::super::plan::FaultPlan;
    use super::*;

    const CLUSTER: &str = "
[[nodes]]
names = [\"a\", \"b\", \"c\"]
command = \"sh\"
[client]
command = \"sh\"
[probe]
command = \"sh\"
roles = [\"leader\", \"follower\"]
";

    fn parsed(text: &str) -> Result<FaultPlan, String> {
        plan_of(text, &cluster_of(CLUSTER))
    }

    #[test]
    fn a_message_is_read_again_as_it_was_printed() {
        let text = "[[faults]]
at = { time_s = 0.0 }
fault = \"partition\"
on = \"a\"
from = \"b\"
flow = \"out\"
with_message = { nth = 3, from = \"leader\", to = [\"b\", \"c\"], from_port = \"chosen\", to_port = 7000 }
until = { after_s = 3.0 }

[[faults]]
at = { after_s = 0.0 }
fault = \"partition\"
on = \"a\"
with_message = { nth = 1 }
";
        let plan = parsed(text).expect("a plan");
        assert!(plan.needs_roles());
        let printed = plan.to_string();
        assert_eq!(printed, format!("seed = 0\n\n{text}"));
        assert_eq!(parsed(&printed).expect("a plan"), plan);
        let of = |text: &str| text.replace("from = \"leader\"", "from = \"hit\"");
        assert!(
            parsed(&of(text))
                .expect_err("none before")
                .contains("first one")
        );
    }

    #[test]
    fn a_message_that_cannot_be_is_refused() {
        let of = |fault: &str, message: &str| {
            let text = format!(
                "[[faults]]\nat = {{ time_s = 1 }}\non = \"a\"\nfault = \"{fault}\"\nwith_message = {{ {message} }}\n"
            );
            parsed(&text).expect_err("it is wrong")
        };
        let partition = |message: &str| of("partition", message);
        assert_eq!(partition("nth = 0"), "p.toml:5:24: it is counted from 1 on");
        assert_eq!(
            of("kill", "nth = 1"),
            "p.toml:5:16: `with_message` is only for a partition"
        );
        let wrong = [
            ("0", "integer `0`"),
            ("70000", "integer `70000`"),
            ("\"drawn\"", "string \"drawn\""),
        ];
        for (given, told) in wrong {
            assert_eq!(
                partition(&format!("nth = 1, to_port = {given}")),
                format!(
                    "p.toml:5:37: invalid value: {told}, expected a port from 1 to 65535, or \"chosen\""
                )
            );
        }
        assert!(partition("to_port = 7").contains("missing field `nth`"));
        assert_eq!(
            partition("nth = 1, from = \"a\", to = \"a\""),
            "p.toml:5:16: what a sends to itself crosses no network"
        );
        let text = "[[faults]]\nat = { time_s = 1 }\non = \"a\"\nfault = \"partition\"\nwith_message = { nth = 1 }\nafter_bytes = 7\n";
        assert_eq!(
            parsed(text).expect_err("it is wrong"),
            "p.toml:5:16: a partition begins with a message or after so much, not both"
        );
    }

    #[test]
    fn words_say_which_message_it_is() {
        let of = |from: &[&str], to: &[&str], ports| MessageOf {
            nth: 3,
            from: from
                .iter()
                .map(|name| Selector::Node((*name).into()))
                .collect(),
            to: to
                .iter()
                .map(|name| Selector::Node((*name).into()))
                .collect(),
            ports,
        };
        let to_port = OfPorts {
            from: Port::Chosen,
            to: Port::Is(7000),
        };
        assert_eq!(
            of(&["a"], &["b"], to_port).words(),
            "message 3 from a to b:7000"
        );
        assert_eq!(of(&[], &[], to_port).words(), "message 3 to :7000");
        assert_eq!(
            of(&["a"], &[], OfPorts::default()).words(),
            "message 3 from a"
        );
    }
}
