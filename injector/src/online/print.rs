//! A plan as the file that would be read as it.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use super::jump;
use super::plan::{
    Awaited, Begins, CallFault, CallOf, Comes, FaultPlan, Flow, Moment, PlannedFault, Selector,
    Trigger, What,
};
use super::requests::RequestOf;
use super::sent;

impl Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed = {}", self.seed)?;
        if let Some(operations) = self.operations {
            writeln!(f, "operations = {operations}")?;
        }
        if self.within != Self::WITHIN {
            writeln!(f, "within_s = {}", seconds(self.within))?;
        }
        if self.progress_within != Self::PROGRESS_WITHIN {
            writeln!(f, "progress_within_s = {}", seconds(self.progress_within))?;
        }
        if let Some(after) = self.restart_after {
            writeln!(f, "restart_after_s = {}", seconds(after))?;
        }
        if self.restores_majority {
            writeln!(f, "restores = \"majority\"")?;
        }
        if self.faults.is_empty() {
            writeln!(f, "faults = []")?;
        }
        self.faults
            .iter()
            .try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[[faults]]")?;
        writeln!(f, "at = {}", self.at)?;
        writeln!(f, "fault = \"{}\"", self.what.name())?;
        if !self.on.is_empty() {
            writeln!(f, "on = {}", selected(&self.on))?;
        }
        put_keys(f, &self.what)?;
        match &self.until {
            Some(until) => writeln!(f, "until = {until}"),
            None => Ok(()),
        }
    }
}

/// What there is to say of a fault beside its name and whom it hits.
fn put_keys(f: &mut fmt::Formatter<'_>, what: &What) -> fmt::Result {
    match what {
        What::PowerLoss(keeps) => writeln!(f, "keeps = \"{keeps}\""),
        What::Partition { from, flow, begins } => {
            put_other_side(f, from, *flow)?;
            match begins {
                Some(Begins::After(amount)) => {
                    let (key, count) = sent::key(*amount);
                    writeln!(f, "after_{key} = {count}")
                }
                Some(Begins::With(message)) => writeln!(f, "with_message = {message}"),
                None => Ok(()),
            }
        }
        What::Link { from, flow, worse } => {
            put_other_side(f, from, *flow)?;
            write!(f, "{worse}")
        }
        What::Call(call) => write!(f, "{call}"),
        What::Disk(errors) => write!(f, "{errors}"),
        What::Clock(by_ns) => writeln!(f, "by_s = {:?}", jump::seconds(*by_ns)),
        What::Drift(ppm) => writeln!(f, "drift = {}", jump::share(*ppm)),
        _ => Ok(()),
    }
}

/// The other side of a link, and which of its directions is meant, where they are not as ever.
fn put_other_side(f: &mut fmt::Formatter<'_>, from: &[Selector], flow: Flow) -> fmt::Result {
    if from != [Selector::Others] {
        writeln!(f, "from = {}", selected(from))?;
    }
    match flow {
        Flow::Both => Ok(()),
        Flow::Out => writeln!(f, "flow = \"out\""),
        Flow::In => writeln!(f, "flow = \"in\""),
    }
}

/// Somebody who is waited for, if one is named, and a key and its value.
type Whose<'a> = (Option<&'a String>, (&'static str, String));

/// So much of what clients do, or this one.
fn of_client<'a>(key: &'static str, who: Option<&'a String>, count: u64) -> Whose<'a> {
    (who, (key, count.to_string()))
}

/// Who it is waited for, if somebody is named, and the key and its value.
fn key(awaited: &Awaited) -> Whose<'_> {
    match awaited {
        Awaited::Time(after) => (None, ("time_s", seconds(*after))),
        Awaited::After(after) => (None, ("after_s", seconds(*after))),
        Awaited::Lines(who, count) => of_client("lines", who.as_ref(), *count),
        Awaited::Invoked(who, count) => of_client("invoked", who.as_ref(), *count),
        Awaited::Acknowledged(who, count) => of_client("acknowledged", who.as_ref(), *count),
        Awaited::AcknowledgedMore(who, count) => {
            of_client("acknowledged_more", who.as_ref(), *count)
        }
        Awaited::Log(node, text) => (node.as_ref(), ("log", quoted(text))),
        Awaited::Role(node, role) => (node.as_ref(), ("role", quoted(role))),
        Awaited::Changed(role) => (None, ("changed", quoted(role))),
        Awaited::Value(node, name) => (node.as_ref(), ("value_changed", quoted(name))),
        Awaited::Call { of, .. } => (None, ("call", quoted(&of.call))),
        Awaited::Request { of, .. } => (None, ("request", quoted(of.kind.name()))),
        Awaited::Sent(sent) => (None, sent.key()),
        Awaited::Ended => (None, ("ended", "true".into())),
        Awaited::All(parts) => (None, ("all", listed(parts))),
        Awaited::Any(parts) => (None, ("any", listed(parts))),
    }
}

/// Several triggers.
fn listed(parts: &[Trigger]) -> String {
    let parts: Vec<_> = parts.iter().map(Trigger::to_string).collect();
    format!("[{}]", parts.join(", "))
}

impl Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut put = |key: &str, value: String| {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{key} = {value}");
        };
        let (who, whose) = key(&self.awaited);
        put(whose.0, whose.1);
        if let Some(who) = who {
            let is_of_node = matches!(
                self.awaited,
                Awaited::Log(..) | Awaited::Role(..) | Awaited::Value(..)
            );
            put(if is_of_node { "node" } else { "client" }, quoted(who));
        }
        for (key, value) in self.awaited.further() {
            put(key, value);
        }
        if !self.delay.is_zero() {
            put("delay_s", seconds(self.delay));
        }
        if let Some(then) = &self.then {
            put("then", then.to_string());
        }
        write!(f, "{{ {text} }}")
    }
}

impl Awaited {
    /// What there is to say of calls, requests and traffic beside the first key.
    fn further(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Call { of, on, when } => of.keys().chain(of_held(on.as_ref(), *when)).collect(),
            Self::Request { of, on, when } => {
                of.keys().chain(of_held(on.as_ref(), *when)).collect()
            }
            Self::Sent(sent) => {
                let named = sent.ends().filter(|(_, nodes)| !nodes.is_empty());
                named.map(|(key, nodes)| (key, selected(nodes))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whose it is that is held, and when.
fn of_held(
    on: Option<&Selector>,
    when: Moment,
) -> impl Iterator<Item = (&'static str, String)> + use<> {
    let on = on.map(|on| ("node", quoted(&on.to_string())));
    let when = (when == Moment::After).then(|| ("when", quoted("after")));
    on.into_iter().chain(when)
}

impl RequestOf {
    /// What there is to say of it beside its kind.
    fn keys(&self) -> impl Iterator<Item = (&'static str, String)> + use<> {
        let area = self.area.map(|area| ("area", quoted(area.name())));
        let nth = (self.nth != 1).then(|| ("nth", self.nth.to_string()));
        area.into_iter().chain(nth)
    }
}

impl CallOf {
    /// What there is to say of it beside its name.
    fn keys(&self) -> impl Iterator<Item = (&'static str, String)> {
        let path = self.path.as_ref().map(|path| ("path", quoted(path)));
        let nth = (self.nth != 1).then(|| ("nth", self.nth.to_string()));
        let site = self.site.map(|site| ("site", quoted(&site_text(site))));
        path.into_iter().chain(site).chain(nth)
    }
}

/// The number of a stack, as plans have it.
pub(super) fn site_text(site: u64) -> String {
    format!("{site:016x}")
}

impl Display for CallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "call = {}", quoted(&self.of.call))?;
        for (key, value) in self.of.keys() {
            writeln!(f, "{key} = {value}")?;
        }
        if self.once {
            writeln!(f, "once = true")?;
        }
        match &self.comes {
            Comes::Fails(error) => writeln!(f, "fails = {}", quoted(error.name())),
            Comes::Short(bytes) => writeln!(f, "short = {bytes}"),
            Comes::Slow(time) => writeln!(f, "slow_s = {}", seconds(*time)),
            Comes::Corrupt(what) => writeln!(f, "corrupt = {}", quoted(what.name())),
            Comes::Held(error) => {
                writeln!(f, "hold = true")?;
                let mut errors = error.iter();
                errors.try_for_each(|error| writeln!(f, "fails = {}", quoted(error.name())))
            }
        }
    }
}

impl Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) | Self::Role(name) | Self::Kind(name) => f.write_str(name),
            Self::EveryRole(role) => write!(f, "all {role}"),
            Self::All => f.write_str("all"),
            Self::Any => f.write_str("any"),
            Self::Majority => f.write_str("majority"),
            Self::Minority => f.write_str("minority"),
            Self::Others => f.write_str("others"),
            Self::Hit => f.write_str("hit"),
        }
    }
}

pub(super) fn selected(all: &[Selector]) -> String {
    let quoted: Vec<_> = all.iter().map(|one| quoted(&one.to_string())).collect();
    match &quoted[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// Text as TOML has it: what JSON escapes TOML does too.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("it is text")
}

/// A number of seconds with its point, which tells it from a whole number.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:?}", time.as_secs_f64())
}
