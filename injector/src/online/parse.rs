//! A plan file, taken apart: what is wrong is said with its line and column.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::ClusterFile;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::jump::jump_ns;
use super::parse_calls::{call_fault, call_of, refuse_keys_of_calls};
use super::plan::{Awaited, FaultPlan, Flow, Moment, PlannedFault, Selector, Trigger, What};
use super::worse::worse;
use crate::disks::Keeps;

/// What is wrong with a plan, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {what}")]
pub struct PlanError {
    /// The file.
    pub path: PathBuf,
    /// From 1 on.
    pub line: usize,
    /// From 1 on, in characters.
    pub column: usize,
    /// In words.
    pub what: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlan {
    #[serde(default)]
    seed: u64,
    operations: Option<u64>,
    within_s: Option<Spanned<f64>>,
    progress_within_s: Option<Spanned<f64>>,
    faults: Vec<RawFault>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFault {
    at: Spanned<RawTrigger>,
    pub(super) fault: Spanned<Name>,
    on: Option<Spanned<Names>>,
    from: Option<Spanned<Names>>,
    flow: Option<Spanned<Flow>>,
    keeps: Option<Spanned<String>>,
    pub(super) call: Option<Spanned<String>>,
    pub(super) path: Option<Spanned<String>>,
    pub(super) nth: Option<Spanned<u64>>,
    pub(super) once: Option<Spanned<bool>>,
    pub(super) fails: Option<Spanned<String>>,
    pub(super) short: Option<Spanned<u64>>,
    pub(super) slow_s: Option<Spanned<f64>>,
    pub(super) hold: Option<Spanned<bool>>,
    pub(super) lost: Option<Spanned<f64>>,
    pub(super) doubled: Option<Spanned<f64>>,
    pub(super) late: Option<Spanned<f64>>,
    pub(super) latency_s: Option<Spanned<f64>>,
    pub(super) jitter_s: Option<Spanned<f64>>,
    pub(super) by_s: Option<Spanned<f64>>,
    until: Option<Spanned<RawTrigger>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Name {
    Kill,
    PowerLoss,
    Pause,
    Freeze,
    Resume,
    Restart,
    Partition,
    Link,
    Clock,
    Call,
    Heal,
}

/// What is waited for: one of the first, and who or what belongs to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTrigger {
    time_s: Option<f64>,
    after_s: Option<f64>,
    lines: Option<u64>,
    invoked: Option<u64>,
    acknowledged: Option<u64>,
    acknowledged_more: Option<u64>,
    log: Option<String>,
    role: Option<Spanned<String>>,
    changed: Option<Spanned<String>>,
    ended: Option<bool>,
    call: Option<Spanned<String>>,
    path: Option<Spanned<String>>,
    nth: Option<Spanned<u64>>,
    when: Option<Spanned<Moment>>,
    client: Option<Spanned<String>>,
    node: Option<Spanned<String>>,
    delay_s: Option<f64>,
}

/// One name or several.
#[derive(Debug)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrSeveral;
        impl<'de> Visitor<'de> for OneOrSeveral {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a node or role, or several in brackets")
            }

            fn visit_str<E>(self, name: &str) -> Result<Names, E> {
                Ok(Names(vec![name.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = all.next_element()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        from.deserialize_any(OneOrSeveral)
    }
}

/// What is wrong, and where in the text.
pub(super) struct Wrong(pub(super) Range<usize>, pub(super) String);

pub(super) type Checked<T> = Result<T, Wrong>;

pub(super) fn parse(text: &str, path: &Path, file: &ClusterFile) -> Result<FaultPlan, PlanError> {
    let raw: Result<RawPlan, toml::de::Error> = toml::from_str(text);
    let plan = raw
        .map_err(|error| {
            let what = error.message().trim().replace('\n', " ");
            Wrong(error.span().unwrap_or(0..0), what)
        })
        .and_then(|raw| settle(raw, file));
    plan.map_err(|Wrong(place, what)| {
        let before = &text[..place.start.min(text.len())];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        PlanError {
            path: path.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what,
        }
    })
}

fn settle(raw: RawPlan, file: &ClusterFile) -> Checked<FaultPlan> {
    let all = Names::in_file(file);
    refuse_endless(&raw, file)?;
    let mut faults = Vec::with_capacity(raw.faults.len());
    for (place, fault) in raw.faults.into_iter().enumerate() {
        faults.push(settle_fault(fault, place == 0, file, &all)?);
    }
    let given = |seconds: &Option<Spanned<f64>>, usual: Duration| match seconds {
        Some(seconds) => duration(seconds.span(), *seconds.get_ref()),
        None => Ok(usual),
    };
    let plan = FaultPlan {
        seed: raw.seed,
        operations: raw.operations,
        within: given(&raw.within_s, FaultPlan::WITHIN)?,
        progress_within: given(&raw.progress_within_s, FaultPlan::PROGRESS_WITHIN)?,
        faults,
    };
    Ok(plan)
}

/// Where no client ends by itself, a fault would last for ever that has no end.
fn refuse_endless(raw: &RawPlan, file: &ClusterFile) -> Checked<()> {
    if !file.all_clients().iter().all(|client| client.endless) {
        return Ok(());
    }
    let name = |fault: &RawFault| *fault.fault.get_ref();
    let heal = raw
        .faults
        .iter()
        .rposition(|fault| name(fault) == Name::Heal);
    let lasting = raw.faults.iter().enumerate().find(|(place, fault)| {
        let is_short = matches!(name(fault), Name::Heal | Name::Resume | Name::Restart);
        !is_short && fault.until.is_none() && heal.is_none_or(|heal| heal < *place)
    });
    match lasting {
        Some((_, fault)) => Err(Wrong(
            fault.fault.span(),
            "it needs `until`: a fault without it lasts until the clients end, and all clients of \
             this cluster are endless"
                .into(),
        )),
        None => Ok(()),
    }
}

/// The names that a cluster file has.
struct Known<'a> {
    nodes: Vec<&'a str>,
    kinds: Vec<&'a str>,
    roles: &'a [String],
    clients: Vec<String>,
    has_probe: bool,
}

impl Names {
    fn in_file(file: &ClusterFile) -> Known<'_> {
        let clients = file.all_clients().into_iter().map(|client| client.name);
        Known {
            nodes: file.nodes.iter().map(|node| node.name.as_str()).collect(),
            kinds: file
                .nodes
                .iter()
                .filter_map(|node| node.kind.as_deref())
                .collect(),
            roles: file.probe.as_ref().map_or(&[], |probe| &probe.roles),
            clients: clients.collect(),
            has_probe: file.probe.is_some(),
        }
    }
}

fn settle_fault(
    raw: RawFault,
    is_first: bool,
    file: &ClusterFile,
    known: &Known,
) -> Checked<PlannedFault> {
    let (at, kind) = (raw.fault.span(), *raw.fault.get_ref());
    let refuse = |given: Option<Range<usize>>, key: &str, of: &str| match given {
        Some(place) => Err(Wrong(place, format!("`{key}` is only for {of}"))),
        None => Ok(()),
    };
    if !matches!(kind, Name::Partition | Name::Link) {
        let of = "a partition or a link";
        refuse(raw.from.as_ref().map(Spanned::span), "from", of)?;
        refuse(raw.flow.as_ref().map(Spanned::span), "flow", of)?;
    }
    if kind != Name::PowerLoss {
        refuse(raw.keeps.as_ref().map(Spanned::span), "keeps", "power-loss")?;
    }
    refuse_keys_of_calls(&raw)?;
    if matches!(kind, Name::Heal | Name::Resume | Name::Restart) {
        let of = "a fault that lasts";
        refuse(raw.until.as_ref().map(Spanned::span), "until", of)?;
    }
    let worse = worse(&raw)?;
    let jump_ns = jump_ns(&raw)?;
    let call = (kind == Name::Call).then(|| call_fault(&raw)).transpose()?;
    let on = match raw.on {
        Some(names) if kind == Name::Heal => {
            refuse(
                Some(names.span()),
                "on",
                "faults of nodes, and a heal is of all of them",
            )?;
            Vec::new()
        }
        Some(names) => selectors(names, known, false)?,
        None if kind == Name::Heal => Vec::new(),
        None => {
            let what = "a fault needs `on`: a node, a role, all, any, majority or minority";
            return Err(Wrong(at, what.into()));
        }
    };
    let what = match kind {
        Name::Kill => What::Kill,
        Name::Pause => What::Pause,
        Name::Freeze => What::Freeze,
        Name::Resume => What::Resume,
        Name::Restart => What::Restart,
        Name::Heal => What::Heal,
        Name::Clock => What::Clock(jump_ns.expect("it is one")),
        Name::Call => What::Call(call.expect("it is one")),
        Name::Partition | Name::Link => {
            let from = match raw.from {
                Some(names) => selectors(names, known, true)?,
                None => vec![Selector::Others],
            };
            let flow = raw.flow.map(Spanned::into_inner).unwrap_or_default();
            match worse {
                Some(worse) => What::Link { from, flow, worse },
                None => What::Partition { from, flow },
            }
        }
        Name::PowerLoss if file.disk.is_none() => {
            let what = "power-loss needs nodes with recorded disks: put disk = \"ext4\" (or another \
                        file system) into the cluster file; `kill` needs none, and loses nothing that \
                        was written";
            return Err(Wrong(at, what.into()));
        }
        Name::PowerLoss => What::PowerLoss(match raw.keeps {
            None => Keeps::Flushed,
            Some(words) => {
                let parsed = words.get_ref().parse();
                parsed.map_err(|error| Wrong(words.span(), format!("{error}")))?
            }
        }),
    };
    let until = raw.until.map(|until| settle_trigger(until, false, known));
    Ok(PlannedFault {
        at: settle_trigger(raw.at, is_first, known)?,
        what,
        on,
        until: until.transpose()?,
    })
}

fn selectors(names: Spanned<Names>, known: &Known, may_be_others: bool) -> Checked<Vec<Selector>> {
    let place = names.span();
    let names = names.into_inner().0;
    if names.is_empty() {
        return Err(Wrong(place, "nobody is named here".into()));
    }
    let select = |name: String| {
        let wrong = |what: String| Wrong(place.clone(), what);
        let role = |role: &str| known.roles.iter().any(|known| known == role);
        match name.as_str() {
            _ if known.nodes.contains(&name.as_str()) => Ok(Selector::Node(name)),
            "all" => Ok(Selector::All),
            "any" => Ok(Selector::Any),
            "majority" => Ok(Selector::Majority),
            "minority" => Ok(Selector::Minority),
            "others" if may_be_others => Ok(Selector::Others),
            "others" => Err(wrong("`others` is only for `from`".into())),
            _ if known.kinds.contains(&name.as_str()) => Ok(Selector::Kind(name)),
            _ if role(&name) => Ok(Selector::Role(name)),
            every => match every.strip_prefix("all ").filter(|name| role(name)) {
                Some(name) => Ok(Selector::EveryRole(name.into())),
                None => Err(wrong(unknown(every, known))),
            },
        }
    };
    names.into_iter().map(select).collect()
}

/// That there is no node or role with a name.
fn unknown(name: &str, known: &Known) -> String {
    let roles = if known.has_probe {
        format!("the roles of the probe are {}", known.roles.join(", "))
    } else {
        "there are no roles, as the cluster file has no [probe]".into()
    };
    format!(
        "there is no node or role `{name}`: the nodes are {}, {roles}",
        known.nodes.join(", ")
    )
}

fn settle_trigger(raw: Spanned<RawTrigger>, is_first: bool, known: &Known) -> Checked<Trigger> {
    let place = raw.span();
    let raw = raw.into_inner();
    let wrong = |what: &str| Wrong(place.clone(), what.to_owned());
    let client = raw.client.as_ref().map(|name| named_client(name, known));
    let client = client.transpose()?;
    let is_call = raw.call.is_some();
    let node = raw.node.as_ref().filter(|_| !is_call);
    let node = node.map(|name| named_node(name, known)).transpose()?;
    let seconds = |given: f64| duration(place.clone(), given);
    let positive = |given: u64| match given {
        0 => Err(wrong("it is counted from 1 on: 0 is never reached")),
        given => Ok(given),
    };
    let mut all = Vec::new();
    if let Some(given) = raw.time_s {
        all.push(Awaited::Time(seconds(given)?));
    }
    if let Some(given) = raw.after_s {
        all.push(Awaited::After(seconds(given)?));
    }
    for (given, make) in [
        (raw.lines, Awaited::Lines as fn(_, _) -> _),
        (raw.invoked, Awaited::Invoked),
        (raw.acknowledged, Awaited::Acknowledged),
        (raw.acknowledged_more, Awaited::AcknowledgedMore),
    ] {
        if let Some(given) = given {
            all.push(make(client.clone(), positive(given)?));
        }
    }
    if let Some(text) = raw.log.clone() {
        all.push(Awaited::Log(node.clone(), text));
    }
    if let Some(role) = &raw.role {
        all.push(Awaited::Role(node.clone(), named_role(role, known)?));
    }
    if let Some(role) = &raw.changed {
        all.push(Awaited::Changed(named_role(role, known)?));
    }
    if raw.ended == Some(true) {
        all.push(Awaited::Ended);
    }
    all.extend(awaited_call(&raw, known)?);
    let one_of = "time_s, after_s, lines, invoked, acknowledged, acknowledged_more, log, role, \
                  changed, call, ended";
    let awaited = match <[Awaited; 1]>::try_from(all) {
        Ok([awaited]) => awaited,
        Err(none) if none.is_empty() => {
            return Err(wrong(&format!("it says not what is waited for: {one_of}")));
        }
        Err(_) => {
            return Err(wrong(&format!(
                "one thing is waited for at a time: {one_of}"
            )));
        }
    };
    let counts = matches!(
        awaited,
        Awaited::Lines(..)
            | Awaited::Invoked(..)
            | Awaited::Acknowledged(..)
            | Awaited::AcknowledgedMore(..)
    );
    if let Some(client) = raw.client.filter(|_| !counts) {
        let what = "`client` is only for lines, invoked, acknowledged and acknowledged_more";
        return Err(Wrong(client.span(), what.into()));
    }
    let has_node = matches!(
        awaited,
        Awaited::Log(..) | Awaited::Role(..) | Awaited::Call { .. }
    );
    if let Some(node) = raw.node.filter(|_| !has_node) {
        let what = "`node` is only for log, role and call";
        return Err(Wrong(node.span(), what.into()));
    }
    if is_first && matches!(awaited, Awaited::After(_) | Awaited::Ended) {
        return Err(wrong("there is no fault before the first one: say time_s"));
    }
    Ok(Trigger {
        awaited,
        delay: raw.delay_s.map_or(Ok(Duration::ZERO), seconds)?,
    })
}

/// A call that is waited for, if one is.
fn awaited_call(raw: &RawTrigger, known: &Known) -> Checked<Option<Awaited>> {
    let Some(call) = &raw.call else {
        let places = [
            (raw.path.as_ref().map(Spanned::span), "path"),
            (raw.nth.as_ref().map(Spanned::span), "nth"),
            (raw.when.as_ref().map(Spanned::span), "when"),
        ];
        let given = places
            .into_iter()
            .find_map(|(place, key)| Some((place?, key)));
        return match given {
            Some((place, key)) => Err(Wrong(place, format!("`{key}` is only for call"))),
            None => Ok(None),
        };
    };
    let on = raw.node.as_ref().map(|name| {
        let names = Names(vec![name.get_ref().clone()]);
        selectors(Spanned::new(name.span(), names), known, false)
    });
    Ok(Some(Awaited::Call {
        of: call_of(call, raw.path.as_ref(), raw.nth.as_ref())?,
        on: on.transpose()?.and_then(|mut on| on.pop()),
        when: raw
            .when
            .as_ref()
            .map(|when| *when.get_ref())
            .unwrap_or_default(),
    }))
}

fn named_client(name: &Spanned<String>, known: &Known) -> Checked<String> {
    let client = name.get_ref();
    if known.clients.contains(client) {
        return Ok(client.clone());
    }
    let what = format!(
        "there is no client `{client}`: there are {}",
        known.clients.join(", ")
    );
    Err(Wrong(name.span(), what))
}

fn named_node(name: &Spanned<String>, known: &Known) -> Checked<String> {
    let node = name.get_ref();
    if known.nodes.contains(&node.as_str()) {
        return Ok(node.clone());
    }
    let what = format!(
        "there is no node `{node}`: there are {}",
        known.nodes.join(", ")
    );
    Err(Wrong(name.span(), what))
}

fn named_role(name: &Spanned<String>, known: &Known) -> Checked<String> {
    let role = name.get_ref();
    if known.roles.contains(role) {
        return Ok(role.clone());
    }
    let what = if known.has_probe {
        format!(
            "there is no role `{role}`: the probe says {}",
            known.roles.join(", ")
        )
    } else {
        format!("nobody says who is `{role}`: the cluster file has no [probe]")
    };
    Err(Wrong(name.span(), what))
}

pub(super) fn duration(place: Range<usize>, seconds: f64) -> Checked<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Wrong(place, format!("{seconds} is no number of seconds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "
[[nodes]]
names = [\"a\", \"b\", \"c\"]
kind = \"data\"
command = \"sh\"
[client]
command = \"sh\"
[probe]
command = \"sh\"
roles = [\"leader\", \"follower\"]
";

    fn parsed(text: &str) -> Result<FaultPlan, PlanError> {
        let file = ClusterFile::parse(CLUSTER, Path::new("c.toml"), Path::new("/"));
        parse(text, Path::new("p.toml"), &file.expect("a cluster"))
    }

    #[test]
    fn a_plan_is_read_again_as_it_was_printed() {
        let text = "seed = 7\noperations = 40\nwithin_s = 2.5\nprogress_within_s = 9\n
[[faults]]
at = { acknowledged = 5, client = \"client\", delay_s = 0.25 }
fault = \"partition\"
on = \"leader\"
from = [\"a\", \"all follower\"]
flow = \"out\"
until = { changed = \"leader\" }
[[faults]]
at = { log = \"say \\\"x\\\"\", node = \"b\" }
fault = \"kill\"
on = [\"b\", \"minority\", \"data\"]
until = { after_s = 3 }
[[faults]]
at = { ended = true }
fault = \"pause\"
on = \"any\"
[[faults]]
at = { ended = true }
fault = \"clock\"
on = \"a\"
by_s = -0.25
[[faults]]
at = { call = \"fsync\", path = \"*.wal\", nth = 3, node = \"leader\", when = \"after\" }
fault = \"call\"
on = \"a\"
call = \"write\"
path = \"log\"
nth = 2
once = true
fails = \"ENOSPC\"
until = { call = \"rename\" }
[[faults]]
at = { time_s = 9 }
fault = \"call\"
on = \"all\"
call = \"sync\"
hold = true
fails = \"EIO\"
[[faults]]
at = { time_s = 9 }
fault = \"call\"
on = \"all\"
call = \"read\"
short = 7
[[faults]]
at = { time_s = 9 }
fault = \"call\"
on = \"all\"
call = \"open\"
slow_s = 0.5
[[faults]]
at = { time_s = 10 }
fault = \"link\"
on = \"a\"
flow = \"in\"
lost = 0.25
late = 1
latency_s = 0.05
until = { after_s = 1 }
[[faults]]
at = { time_s = 10 }
fault = \"heal\"
";
        let plan = parsed(text).expect("a plan");
        assert_eq!(plan.faults.len(), 10);
        assert!(plan.needs_roles() && plan.needs_calls());
        let again = parsed(&plan.to_string()).expect("a plan");
        assert_eq!(again, plan, "{plan}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let said = |text: &str| parsed(text).expect_err("it is wrong").to_string();
        let of = |line: &str| said(&format!("[[faults]]\nat = {{ time_s = 1 }}\n{line}\n"));
        assert_eq!(
            of("fault = \"kill\"\non = \"d\""),
            "p.toml:4:6: there is no node or role `d`: the nodes are a, b, c, the roles of the \
             probe are leader, follower"
        );
        assert!(of("fault = \"heal\"\non = \"a\"").starts_with("p.toml:4:6: `on` is only for"));
        assert!(of("fault = \"pause\"\non = \"a\"\nflow = \"in\"").starts_with("p.toml:5:8: "));
        assert!(of("fault = \"pause\"\non = \"others\"").contains("only for `from`"));
        assert!(of("fault = \"restart\"\non = \"a\"\nuntil = { after_s = 1 }").contains("lasts"));
        assert!(said("fautls = []").starts_with("p.toml:1:1: unknown field `fautls`"));
    }
}
