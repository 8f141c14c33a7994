//! A plan file, taken apart: what is wrong is said with its line and column.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use block_dev::Corruption;
use cluster::{ClusterFile, Explore};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::disk_fault::{Kinds, disk_fault};
use super::jump::clock_fault;
use super::message::{RawMessage, with_message};
use super::parse_calls::{call_fault, call_of, refuse_keys_of_calls};
use super::parse_requests::{awaited_request, refuse_held_request};
use super::plan::{
    Awaited, Begins, FaultPlan, Flow, Moment, PlannedFault, Selector, Trigger, What,
};
use super::requests::RequestKind;
use super::select::majority_size;
use super::sent::{after, sent};
use super::worse::{Worse, worse};
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
    restart_after_s: Option<Spanned<f64>>,
    restores: Option<Spanned<Restores>>,
    faults: Vec<RawFault>,
}

/// What is restored at first, after the faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Restores {
    All,
    Majority,
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
    pub(super) site: Option<Spanned<String>>,
    pub(super) nth: Option<Spanned<u64>>,
    pub(super) once: Option<Spanned<bool>>,
    pub(super) fails: Option<Spanned<String>>,
    pub(super) short: Option<Spanned<u64>>,
    pub(super) slow_s: Option<Spanned<f64>>,
    pub(super) hold: Option<Spanned<bool>>,
    pub(super) corrupt: Option<Spanned<Corruption>>,
    pub(super) lost: Option<Spanned<f64>>,
    pub(super) doubled: Option<Spanned<f64>>,
    pub(super) late: Option<Spanned<f64>>,
    pub(super) latency_s: Option<Spanned<f64>>,
    pub(super) jitter_s: Option<Spanned<f64>>,
    pub(super) by_s: Option<Spanned<f64>>,
    pub(super) drift: Option<Spanned<f64>>,
    pub(super) after_bytes: Option<Spanned<u64>>,
    pub(super) after_messages: Option<Spanned<u64>>,
    pub(super) with_message: Option<Spanned<RawMessage>>,
    pub(super) requests: Option<Spanned<Kinds>>,
    pub(super) times: Option<Spanned<u64>>,
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
    Disk,
    Call,
    Heal,
}

/// What is waited for: one of the first, and who or what belongs to it.
#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "expected a trigger, such as { after_s = 1 }"
)]
pub(super) struct RawTrigger {
    time_s: Option<f64>,
    after_s: Option<f64>,
    lines: Option<u64>,
    invoked: Option<u64>,
    acknowledged: Option<u64>,
    acknowledged_more: Option<u64>,
    log: Option<String>,
    role: Option<Spanned<String>>,
    changed: Option<Spanned<String>>,
    value_changed: Option<Spanned<String>>,
    ended: Option<bool>,
    all: Option<Spanned<Vec<Spanned<RawTrigger>>>>,
    any: Option<Spanned<Vec<Spanned<RawTrigger>>>>,
    call: Option<Spanned<String>>,
    pub(super) request: Option<Spanned<RequestKind>>,
    path: Option<Spanned<String>>,
    site: Option<Spanned<String>>,
    pub(super) area: Option<Spanned<String>>,
    pub(super) nth: Option<Spanned<u64>>,
    pub(super) when: Option<Spanned<Moment>>,
    pub(super) bytes: Option<Spanned<u64>>,
    pub(super) messages: Option<Spanned<u64>>,
    pub(super) from: Option<Spanned<Names>>,
    pub(super) to: Option<Spanned<Names>>,
    client: Option<Spanned<String>>,
    pub(super) node: Option<Spanned<String>>,
    delay_s: Option<f64>,
    then: Option<Box<Spanned<RawTrigger>>>,
}

/// One name or several.
#[derive(Debug, Clone)]
pub(super) struct Names(Vec<String>);

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
    // What is wrong with a fault itself is told first.
    let endless = refuse_endless(&raw, file);
    let mut faults = Vec::with_capacity(raw.faults.len());
    for (place, fault) in raw.faults.into_iter().enumerate() {
        faults.push(settle_fault(fault, place == 0, file, &all)?);
    }
    endless?;
    let given = |seconds: &Option<Spanned<f64>>, usual: Duration| match seconds {
        Some(seconds) => duration(seconds.span(), *seconds.get_ref()),
        None => Ok(usual),
    };
    let restart = raw.restart_after_s.as_ref();
    let restart = restart.map(|seconds| duration(seconds.span(), *seconds.get_ref()));
    let plan = FaultPlan {
        seed: raw.seed,
        operations: raw.operations,
        within: given(&raw.within_s, FaultPlan::WITHIN)?,
        progress_within: given(&raw.progress_within_s, FaultPlan::PROGRESS_WITHIN)?,
        restart_after: restart.transpose()?,
        restores_majority: restores_majority(raw.restores.as_ref(), file)?,
        faults,
    };
    Ok(plan)
}

/// Whether only a majority is restored at first. Of it progress is demanded, which somebody has to see.
fn restores_majority(restores: Option<&Spanned<Restores>>, file: &ClusterFile) -> Checked<bool> {
    let Some(restores) = restores.filter(|restores| *restores.get_ref() == Restores::Majority)
    else {
        return Ok(false);
    };
    let wrong = |what: &str| Err(Wrong(restores.span(), what.to_owned()));
    if !file.all_clients().iter().any(|client| client.endless) {
        return wrong(
            "a majority has to make progress, which an endless client sees: [[clients]] of this cluster has none",
        );
    }
    match &file.explore {
        Explore::PrimaryReplicas { .. } => {
            return wrong("`explore` of this cluster has a primary: no majority of it decides");
        }
        Explore::ReplicatedStateMachine { majority: None } if has_kinds(file) => {
            return wrong(
                "nodes of this cluster are of several kinds: say in `explore` how many are a majority",
            );
        }
        Explore::ReplicatedStateMachine { .. } => {}
    }
    if majority_size(file) >= file.nodes.len() {
        return wrong("a majority of this cluster is all of its nodes");
    }
    Ok(true)
}

/// Whether nodes are of several kinds.
fn has_kinds(file: &ClusterFile) -> bool {
    file.nodes
        .iter()
        .any(|node| node.kind != file.nodes[0].kind)
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
pub(super) struct Known<'a> {
    nodes: Vec<&'a str>,
    kinds: Vec<&'a str>,
    roles: &'a [String],
    clients: Vec<String>,
    has_probe: bool,
    /// The file system of the disks of nodes, if they have some.
    pub(super) disk: Option<&'a str>,
    /// The nodes that have none.
    pub(super) without_data: Vec<&'a str>,
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
            disk: file.disk.as_deref(),
            without_data: file
                .nodes
                .iter()
                .filter(|node| !node.has_data)
                .map(|node| node.name.as_str())
                .collect(),
        }
    }
}

pub(super) fn refuse(given: Option<Range<usize>>, key: &str, of: &str) -> Checked<()> {
    match given {
        Some(place) => Err(Wrong(place, format!("`{key}` is only for {of}"))),
        None => Ok(()),
    }
}

pub(super) fn place<T>(given: Option<&Spanned<T>>) -> Option<Range<usize>> {
    given.map(Spanned::span)
}

/// Refuses what belongs to faults of other kinds.
fn refuse_other_keys(raw: &RawFault) -> Checked<()> {
    let kind = *raw.fault.get_ref();
    if !matches!(kind, Name::Partition | Name::Link) {
        let of = "a partition or a link";
        refuse(place(raw.from.as_ref()), "from", of)?;
        refuse(place(raw.flow.as_ref()), "flow", of)?;
    }
    if kind != Name::PowerLoss {
        refuse(place(raw.keeps.as_ref()), "keeps", "power-loss")?;
    }
    refuse_keys_of_calls(raw)?;
    if matches!(kind, Name::Heal | Name::Resume | Name::Restart) {
        refuse(place(raw.until.as_ref()), "until", "a fault that lasts")?;
    }
    Ok(())
}

fn settle_fault(
    mut raw: RawFault,
    is_first: bool,
    file: &ClusterFile,
    known: &Known,
) -> Checked<PlannedFault> {
    refuse_other_keys(&raw)?;
    let worse = worse(&raw)?;
    let begins = begins(&raw, known)?;
    let clock = clock_fault(&raw)?;
    let errors = disk_fault(&raw)?;
    if errors.is_some() {
        let instead = "; `call` with fails = \"EIO\" needs none";
        refuse_without_disks(&raw, file, ("disk", instead))?;
    }
    let is_call = *raw.fault.get_ref() == Name::Call;
    let call = is_call.then(|| call_fault(&raw)).transpose()?;
    let on = hit(&mut raw, known)?;
    let own = call.map(What::Call).or(clock);
    let what = match own.or(errors.map(What::Disk)) {
        Some(what) => what,
        None => what(&mut raw, (worse, begins), file, known)?,
    };
    let (at, until) = triggers(&raw, is_first, known)?;
    refuse_held_request(&raw, &at)?;
    let fault = PlannedFault {
        at,
        what,
        on,
        until,
    };
    if is_first && fault.needs_a_fault_before() {
        return Err(hits_none_before(&raw.fault));
    }
    Ok(fault)
}

/// What a fault waits for, and its end.
fn triggers(raw: &RawFault, is_first: bool, known: &Known) -> Checked<(Trigger, Option<Trigger>)> {
    let of_end = Before::default();
    let until = raw.until.as_ref();
    let until = until.map(|until| settle_trigger(until, of_end, known));
    let until = until.transpose()?;
    let before = Before { is_first, ..of_end };
    Ok((settle_trigger(&raw.at, before, known)?, until))
}

fn hits_none_before(fault: &Spanned<Name>) -> Wrong {
    let what = "`hit` means those that the fault before has hit, and this is the first one";
    Wrong(fault.span(), what.into())
}

/// When a partition begins, if not at once; fails if another fault has such keys.
fn begins(raw: &RawFault, known: &Known) -> Checked<Option<Begins>> {
    let (after, with) = (after(raw)?, with_message(raw, known)?);
    Ok(after.map(Begins::After).or(with.map(Begins::With)))
}

/// Those whom a fault hits.
fn hit(raw: &mut RawFault, known: &Known) -> Checked<Vec<Selector>> {
    let is_heal = *raw.fault.get_ref() == Name::Heal;
    match raw.on.take() {
        Some(names) if is_heal => {
            let of = "faults of nodes, and a heal is of all of them";
            refuse(Some(names.span()), "on", of)?;
            Ok(Vec::new())
        }
        Some(names) => selectors(names, known, false),
        None if is_heal => Ok(Vec::new()),
        None => {
            let what = "a fault needs `on`: a node, a role, all, any, majority or minority";
            Err(Wrong(raw.fault.span(), what.into()))
        }
    }
}

/// What a fault is that is none of calls, clocks or disks.
fn what(
    raw: &mut RawFault,
    (worse, begins): (Option<Worse>, Option<Begins>),
    file: &ClusterFile,
    known: &Known,
) -> Checked<What> {
    Ok(match *raw.fault.get_ref() {
        Name::Kill => What::Kill,
        Name::Pause => What::Pause,
        Name::Freeze => What::Freeze,
        Name::Resume => What::Resume,
        Name::Restart => What::Restart,
        Name::Heal => What::Heal,
        Name::Call | Name::Clock | Name::Disk => unreachable!("it is known already"),
        Name::Partition | Name::Link => {
            let from = match raw.from.take() {
                Some(names) => selectors(names, known, true)?,
                None => vec![Selector::Others],
            };
            let flow = raw.flow.take().map(Spanned::into_inner).unwrap_or_default();
            match worse {
                Some(worse) => What::Link { from, flow, worse },
                None => What::Partition { from, flow, begins },
            }
        }
        Name::PowerLoss => What::PowerLoss(power_loss(raw, file)?),
    })
}

/// Refuses a fault of disks where nodes have none. What else there is comes after its name.
fn refuse_without_disks(
    raw: &RawFault,
    file: &ClusterFile,
    (fault, instead): (&str, &str),
) -> Checked<()> {
    if file.disk.is_some() {
        return Ok(());
    }
    let what = format!(
        "{fault} needs nodes with recorded disks: put disk = \"ext4\" (or another file system) at the \
         top of the cluster file{instead}"
    );
    Err(Wrong(raw.fault.span(), what))
}

fn power_loss(raw: &RawFault, file: &ClusterFile) -> Checked<Keeps> {
    let instead = "; `kill` needs none, and loses nothing that was written";
    refuse_without_disks(raw, file, ("power-loss", instead))?;
    match &raw.keeps {
        None => Ok(Keeps::Flushed),
        Some(words) => {
            let parsed = words.get_ref().parse();
            parsed.map_err(|error| Wrong(words.span(), format!("{error}")))
        }
    }
}

pub(super) fn selectors(
    names: Spanned<Names>,
    known: &Known,
    may_be_others: bool,
) -> Checked<Vec<Selector>> {
    let place = names.span();
    let names = names.into_inner().0;
    if names.is_empty() {
        return Err(Wrong(place, "nobody is named here".into()));
    }
    let select = |name: String| selector(name, known, may_be_others);
    let selected: Result<Vec<_>, _> = names.into_iter().map(select).collect();
    selected.map_err(|what| Wrong(place, what))
}

fn selector(name: String, known: &Known, may_be_others: bool) -> Result<Selector, String> {
    let role = |role: &str| known.roles.iter().any(|known| known == role);
    match name.as_str() {
        _ if known.nodes.contains(&name.as_str()) => Ok(Selector::Node(name)),
        "all" => Ok(Selector::All),
        "any" => Ok(Selector::Any),
        "hit" => Ok(Selector::Hit),
        "majority" => Ok(Selector::Majority),
        "minority" => Ok(Selector::Minority),
        "others" if may_be_others => Ok(Selector::Others),
        "others" => Err("`others` is only for `from`".into()),
        _ if known.kinds.contains(&name.as_str()) => Ok(Selector::Kind(name)),
        _ if role(&name) => Ok(Selector::Role(name)),
        every => match every.strip_prefix("all ").filter(|name| role(name)) {
            Some(name) => Ok(Selector::EveryRole(name.into())),
            None => Err(unknown(every, known)),
        },
    }
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

/// What there is before something is waited for.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    /// Whether it belongs to the first fault of all, so that there is no fault.
    is_first: bool,
    /// Whether another part of the same trigger has fired.
    is_then: bool,
}

fn settle_trigger(raw: &Spanned<RawTrigger>, before: Before, known: &Known) -> Checked<Trigger> {
    let (place, raw) = (raw.span(), raw.get_ref());
    let seconds = |given: f64| duration(place.clone(), given);
    let delay = raw.delay_s.map_or(Ok(Duration::ZERO), seconds)?;
    let awaited = awaited(raw, (&place, before, delay), known)?;
    refuse_whose(raw, &awaited)?;
    refuse_without_fault(&awaited, before, &place)?;
    let then = raw.then.as_ref().map(|then| {
        let is_then = true;
        settle_trigger(then, Before { is_then, ..before }, known)
    });
    Ok(Trigger {
        awaited,
        delay,
        then: then.transpose()?.map(Box::new),
    })
}

/// Refuses what is about a fault before the first one.
fn refuse_without_fault(awaited: &Awaited, before: Before, place: &Range<usize>) -> Checked<()> {
    let Before { is_first, is_then } = before;
    let is_of_fault = match awaited {
        Awaited::After(_) => !is_then,
        Awaited::Ended => true,
        _ => false,
    };
    if is_first && is_of_fault {
        let what = "there is no fault before the first one: say time_s";
        return Err(Wrong(place.clone(), what.into()));
    }
    Ok(())
}

/// The one thing that is waited for, at a place and before a delay.
fn awaited(
    raw: &RawTrigger,
    (place, before, delay): (&Range<usize>, Before, Duration),
    known: &Known,
) -> Checked<Awaited> {
    let client = raw.client.as_ref().map(|name| named_client(name, known));
    let client = client.transpose()?;
    let is_held = raw.call.is_some() || raw.request.is_some();
    let node = raw.node.as_ref().filter(|_| !is_held);
    let node = node.map(|name| named_node(name, known)).transpose()?;
    let mut all = timed(raw, place)?;
    all.extend(counted(raw, client.as_ref(), place)?);
    all.extend(shown(raw, node, known)?);
    if raw.ended == Some(true) {
        all.push(Awaited::Ended);
    }
    all.extend(held(raw, known)?);
    all.extend(sent(raw, known)?.into_iter().map(Awaited::Sent));
    all.extend(combined(raw, before, delay, known)?);
    <[Awaited; 1]>::try_from(all)
        .map(|[awaited]| awaited)
        .map_err(|all| {
            let what = if all.is_empty() {
                "it says not what is waited for"
            } else {
                "one thing is waited for at a time, or several in `all`, `any` or `then`"
            };
            Wrong(place.clone(), format!("{what}: {AWAITED}"))
        })
}

/// What one can wait for.
const AWAITED: &str = "time_s, after_s, lines, invoked, acknowledged, acknowledged_more, log, role, \
                       changed, value_changed, call, request, bytes, messages, ended, all, any";

/// Several triggers that are waited for together, before a delay.
fn combined(
    raw: &RawTrigger,
    before: Before,
    delay: Duration,
    known: &Known,
) -> Checked<Vec<Awaited>> {
    let mut combined = Vec::new();
    if let Some(all) = &raw.all {
        let parts = parts("all", all, before, known)?;
        if delay.is_zero() {
            refuse_held(all.get_ref(), &parts)?;
        }
        combined.push(Awaited::All(parts));
    }
    if let Some(any) = &raw.any {
        combined.push(Awaited::Any(parts("any", any, before, known)?));
    }
    Ok(combined)
}

fn parts(
    key: &str,
    raw: &Spanned<Vec<Spanned<RawTrigger>>>,
    before: Before,
    known: &Known,
) -> Checked<Vec<Trigger>> {
    if raw.get_ref().len() < 2 {
        let what = format!("`{key}` is of two triggers or more: say one without it");
        return Err(Wrong(raw.span(), what));
    }
    let parts = raw.get_ref().iter();
    parts
        .map(|part| settle_trigger(part, before, known))
        .collect()
}

/// Refuses a call that would be held while others are waited for, which may need it to go on.
fn refuse_held(raw: &[Spanned<RawTrigger>], parts: &[Trigger]) -> Checked<()> {
    let mut all = raw.iter().zip(parts);
    match all.find(|(_, part)| part.fires_at_what_is_held()) {
        Some((raw, _)) => {
            let what = "a call or request in `all` cannot be held exactly there, as other parts may come \
                        after it: put it last, with `then`, or give it `delay_s`, with which it is not held";
            Err(Wrong(raw.span(), what.into()))
        }
        None => Ok(()),
    }
}

/// Times that are waited for.
fn timed(raw: &RawTrigger, place: &Range<usize>) -> Checked<Vec<Awaited>> {
    let all = [
        (raw.time_s, Awaited::Time as fn(_) -> _),
        (raw.after_s, Awaited::After),
    ];
    let given = all.into_iter();
    let given = given.filter_map(|(given, make)| Some((given?, make)));
    given
        .map(|(given, make)| duration(place.clone(), given).map(make))
        .collect()
}

/// Numbers of what clients do that are waited for.
fn counted(
    raw: &RawTrigger,
    client: Option<&String>,
    place: &Range<usize>,
) -> Checked<Vec<Awaited>> {
    let all = [
        (raw.lines, Awaited::Lines as fn(_, _) -> _),
        (raw.invoked, Awaited::Invoked),
        (raw.acknowledged, Awaited::Acknowledged),
        (raw.acknowledged_more, Awaited::AcknowledgedMore),
    ];
    let given = all
        .into_iter()
        .filter_map(|(given, make)| Some((given?, make)));
    given
        .map(|(given, make)| match given {
            0 => {
                let what = "it is counted from 1 on: 0 is never reached";
                Err(Wrong(place.clone(), what.into()))
            }
            given => Ok(make(client.cloned(), given)),
        })
        .collect()
}

/// What nodes log or are that is waited for.
fn shown(raw: &RawTrigger, node: Option<String>, known: &Known) -> Checked<Vec<Awaited>> {
    let mut all = Vec::new();
    if let Some(text) = raw.log.clone() {
        all.push(Awaited::Log(node.clone(), text));
    }
    if let Some(role) = &raw.role {
        all.push(Awaited::Role(node.clone(), named_role(role, known)?));
    }
    if let Some(role) = &raw.changed {
        all.push(Awaited::Changed(named_role(role, known)?));
    }
    if let Some(name) = &raw.value_changed {
        all.push(Awaited::Value(node, named_value(name, known)?));
    }
    Ok(all)
}

/// Refuses a client or a node where none belongs to what is waited for.
fn refuse_whose(raw: &RawTrigger, awaited: &Awaited) -> Checked<()> {
    let counts = matches!(
        awaited,
        Awaited::Lines(..)
            | Awaited::Invoked(..)
            | Awaited::Acknowledged(..)
            | Awaited::AcknowledgedMore(..)
    );
    if !counts {
        let of = "lines, invoked, acknowledged and acknowledged_more";
        refuse(place(raw.client.as_ref()), "client", of)?;
    }
    let has_node = matches!(
        awaited,
        Awaited::Log(..)
            | Awaited::Role(..)
            | Awaited::Value(..)
            | Awaited::Call { .. }
            | Awaited::Request { .. }
    );
    if !has_node {
        let of = "log, role, value_changed, call and request";
        refuse(place(raw.node.as_ref()), "node", of)?;
    }
    Ok(())
}

/// Refuses what belongs to calls or to requests where none is waited for.
fn refuse_keys_of_others(raw: &RawTrigger) -> Checked<()> {
    if raw.call.is_none() {
        refuse(place(raw.path.as_ref()), "path", "call")?;
        refuse(place(raw.site.as_ref()), "site", "call")?;
    }
    if raw.request.is_none() {
        refuse(place(raw.area.as_ref()), "area", "request")?;
    }
    if raw.call.is_none() && raw.request.is_none() {
        refuse(place(raw.nth.as_ref()), "nth", "call and request")?;
        refuse(place(raw.when.as_ref()), "when", "call and request")?;
    }
    Ok(())
}

/// Whose it is that is held where it is waited for.
pub(super) fn whose(raw: &RawTrigger, known: &Known) -> Checked<Option<Selector>> {
    let on = raw.node.as_ref().map(|name| {
        let names = Names(vec![name.get_ref().clone()]);
        selectors(Spanned::new(name.span(), names), known, false)
    });
    Ok(on.transpose()?.and_then(|mut on| on.pop()))
}

/// Calls and requests that are waited for, where they are held.
fn held(raw: &RawTrigger, known: &Known) -> Checked<Vec<Awaited>> {
    refuse_keys_of_others(raw)?;
    let all = [awaited_call(raw, known)?, awaited_request(raw, known)?];
    Ok(all.into_iter().flatten().collect())
}

/// A call that is waited for, if one is.
fn awaited_call(raw: &RawTrigger, known: &Known) -> Checked<Option<Awaited>> {
    let Some(call) = &raw.call else {
        return Ok(None);
    };
    Ok(Some(Awaited::Call {
        of: call_of(
            call,
            (raw.path.as_ref(), raw.site.as_ref()),
            raw.nth.as_ref(),
        )?,
        on: whose(raw, known)?,
        when: when(raw),
    }))
}

/// Before what is held, or after it.
pub(super) fn when(raw: &RawTrigger) -> Moment {
    let when = raw.when.as_ref();
    when.map(|when| *when.get_ref()).unwrap_or_default()
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

fn named_value(name: &Spanned<String>, known: &Known) -> Checked<String> {
    let value = name.get_ref();
    let what = if !known.has_probe {
        format!("nobody says what `{value}` is: the cluster file has no [probe]")
    } else if value.is_empty() || value.contains(|c: char| c == '=' || c.is_whitespace()) {
        "a value is named by one word, which the probe says before `=`".into()
    } else {
        return Ok(value.clone());
    };
    Err(Wrong(name.span(), what))
}

pub(super) fn duration(place: Range<usize>, seconds: f64) -> Checked<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Wrong(place, format!("{seconds} is no number of seconds")))
}

#[cfg(test)]
mod tests {
    use super::super::given::cluster_of;
    use super::*;

    const CLUSTER: &str = "
disk = \"ext4\"
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
        parse(text, Path::new("p.toml"), &cluster_of(CLUSTER))
    }

    #[test]
    fn a_majority_is_restored_first_where_somebody_sees_whether_it_serves() {
        let plan = "restores = \"majority\"\nfaults = []\n";
        let of = |plan: &str, clients: &str, names: &str| {
            let file = CLUSTER.replace("[client]", clients);
            let file = file.replace("[\"a\", \"b\", \"c\"]", names);
            parse(plan, Path::new("p.toml"), &cluster_of(&file))
        };
        let endless = "[[clients]]\nname = \"x\"\nendless = true";
        let three = "[\"a\", \"b\", \"c\"]";
        let parsed = of(plan, endless, three).expect("it is right");
        assert!(parsed.restores_majority);
        assert_eq!(of(&parsed.to_string(), endless, three), Ok(parsed));
        let all = of("restores = \"all\"\nfaults = []\n", "[client]", three);
        assert!(!all.expect("it is right").restores_majority);
        for (plan, clients, names, expected) in [
            (
                plan,
                "[client]",
                three,
                "p.toml:1:12: a majority has to make progress",
            ),
            (
                plan,
                endless,
                "[\"a\", \"b\"]",
                "p.toml:1:12: a majority of this cluster is all",
            ),
            (
                "restores = \"most\"\nfaults = []",
                endless,
                three,
                "p.toml:1:12: unknown variant `most`",
            ),
        ] {
            let wrong = of(plan, clients, names)
                .expect_err("it is wrong")
                .to_string();
            assert!(wrong.starts_with(expected), "{wrong}");
        }
    }

    #[test]
    fn a_majority_is_not_restored_where_none_decides_or_nobody_says_how_many_are_one() {
        let plan = "restores = \"majority\"\nfaults = []\n";
        let of = |explore: &str, names: &str| {
            let endless = "[[clients]]\nname = \"x\"\nendless = true";
            let file = CLUSTER.replace("[client]", endless);
            let file = explore.to_owned() + &file.replace("[\"a\", \"b\", \"c\"]", names);
            let parsed = parse(plan, Path::new("p.toml"), &cluster_of(&file));
            parsed.map_err(|wrong| wrong.to_string())
        };
        let three = "[\"a\", \"b\", \"c\"]";
        let kinds = "[\"a\", \"b\"]\nkind = \"x\"\ncommand = \"sh\"\n[[nodes]]\nname = \"c\"";
        let primary = of("explore = { primary = \"a\" }", three).expect_err("it has one");
        let expected = "p.toml:1:12: `explore` of this cluster has a primary";
        assert!(primary.starts_with(expected), "{primary}");
        let several = of("", kinds).expect_err("it has several");
        let expected = "p.toml:1:12: nodes of this cluster are of several kinds";
        assert!(several.starts_with(expected), "{several}");
        for names in [three, kinds] {
            let parsed = of("explore = { majority = 2 }", names).expect("it is right");
            assert!(parsed.restores_majority);
        }
    }

    #[test]
    fn a_plan_is_read_again_as_it_was_printed() {
        let text = "seed = 7\noperations = 40\nwithin_s = 2.5\nprogress_within_s = 9\nrestart_after_s = 0.5\n
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
at = { ended = true }
fault = \"disk\"
on = \"all\"
requests = \"flushes\"
times = 2
[[faults]]
at = { ended = true }
fault = \"disk\"
on = \"a\"
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
        assert_eq!(plan.faults.len(), 12);
        assert!(plan.needs_roles() && plan.needs_calls());
        let What::Disk(how) = &plan.faults[5].what else {
            panic!("{plan}");
        };
        assert_eq!(how.words(), "fails reads, writes, flushes");
        let again = parsed(&plan.to_string()).expect("a plan");
        assert_eq!(again, plan, "{plan}");
    }

    #[test]
    fn drifts_and_corruptions_are_read_again_as_they_were_printed() {
        let text = "
[[faults]]
at = { time_s = 10 }
fault = \"clock\"
on = \"a\"
drift = -0.012345
[[faults]]
at = { time_s = 10 }
fault = \"disk\"
on = \"a\"
requests = \"writes\"
times = 3
corrupt = \"torn\"
[[faults]]
at = { time_s = 10 }
fault = \"disk\"
on = \"b\"
corrupt = \"bit\"
";
        let plan = parsed(text).expect("a plan");
        assert_eq!(plan.faults[0].what, What::Drift(-12_345));
        for (fault, words) in [
            (
                1,
                "corrupts the first 3 of writes: only the first sectors are written",
            ),
            (2, "corrupts reads, writes: a bit is flipped"),
        ] {
            let What::Disk(how) = &plan.faults[fault].what else {
                panic!("{plan}");
            };
            assert_eq!(how.words(), words);
        }
        assert_eq!(parsed(&plan.to_string()).expect("a plan"), plan, "{plan}");
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
        assert!(of("fault = \"kill\"\non = \"hit\"").contains("this is the first one"));
        assert!(of("fault = \"pause\"\non = \"others\"").contains("only for `from`"));
        assert!(
            of("fault = \"disk\"\non = \"a\"\ntimes = 0").starts_with("p.toml:5:9: no request")
        );
        let known = of("fault = \"disk\"\non = \"a\"\nrequests = [\"seeks\"]");
        assert!(
            known.contains("p.toml:5:12: expected reads, writes or flushes"),
            "{known}"
        );
        assert!(
            of("fault = \"kill\"\non = \"a\"\nrequests = \"reads\"")
                .contains("only for fault = \"disk\"")
        );
        let of_disk = |keys: &str| of(&format!("fault = \"disk\"\non = \"a\"\n{keys}"));
        for (keys, expected) in [
            (
                "corrupt = \"bit\"\nrequests = [\"writes\", \"flushes\"]",
                "p.toml:6:12: a flush has no bytes that could be corrupted",
            ),
            (
                "slow_s = 1\ncorrupt = \"bit\"",
                "p.toml:6:11: requests are slow or corrupted",
            ),
            ("corrupt = \"some\"", "p.toml:5:11: unknown variant `some`"),
        ] {
            assert!(of_disk(keys).starts_with(expected), "{}", of_disk(keys));
        }
        let of_clock = |keys: &str| of(&format!("fault = \"clock\"\non = \"a\"\n{keys}"));
        for (keys, expected) in [
            ("", "p.toml:3:9: say how far the clock jumps"),
            (
                "by_s = 1\ndrift = 0.1",
                "p.toml:6:9: a clock jumps or drifts",
            ),
            (
                "drift = 0",
                "p.toml:5:9: a clock cannot run faster by the share 0: ",
            ),
            (
                "drift = -0.6",
                "p.toml:5:9: a clock cannot run faster by the share -0.6",
            ),
        ] {
            assert!(of_clock(keys).starts_with(expected), "{}", of_clock(keys));
        }
        let pause = of("fault = \"pause\"\non = \"a\"\ndrift = 0.1");
        assert!(pause.ends_with("`drift` is only for a clock"), "{pause}");
        let pause = of("fault = \"pause\"\non = \"a\"\ncorrupt = \"bit\"");
        assert!(
            pause.ends_with("`corrupt` is only for fault = \"call\" or \"disk\""),
            "{pause}"
        );
        assert!(of("fault = \"restart\"\non = \"a\"\nuntil = { after_s = 1 }").contains("lasts"));
        assert!(said("fautls = []").starts_with("p.toml:1:1: unknown field `fautls`"));
    }
}
