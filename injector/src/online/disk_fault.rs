//! What a plan says of disks that fail or corrupt requests, or are slow.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block_dev::{Answer, Corruption, DiskRequest, Fault, Predicate};
use serde::Deserialize;
use toml::Spanned;

use super::parse::{Checked, Name, RawFault, Wrong, duration};
use super::print::seconds;

/// Which requests of a disk are done in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFault {
    /// Of which kinds, in order; not none.
    pub requests: Vec<Requested>,
    /// Only the first so many of them on each disk.
    pub times: Option<u64>,
    /// What becomes of them.
    pub becomes: Becomes,
}

/// What becomes of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Becomes {
    /// They fail with an I/O error.
    Failed,
    /// They take so much longer.
    Slow(Duration),
    /// What they read or write is not what it should be, and nobody says so.
    Corrupt(Corruption),
}

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requested {
    /// To read.
    Reads,
    /// To write, to discard, or to write zeros.
    Writes,
    /// To flush.
    Flushes,
}

/// One kind or several.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected reads, writes or flushes, or several of them in brackets"
)]
pub(super) enum Kinds {
    One(Requested),
    Several(Vec<Requested>),
}

impl Requested {
    const ALL: [Self; 3] = [Self::Reads, Self::Writes, Self::Flushes];

    fn of(request: DiskRequest) -> Self {
        match request {
            DiskRequest::Read { .. } => Self::Reads,
            DiskRequest::Write { .. } | DiskRequest::Discard { .. } => Self::Writes,
            DiskRequest::Flush => Self::Flushes,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Flushes => "flushes",
        }
    }
}

impl DiskFault {
    /// Says of each request whether it is one of these, and counts those that are.
    pub(super) fn counting(&self, count: &Arc<AtomicU64>) -> Predicate {
        let (requests, count) = (self.requests.clone(), Arc::clone(count));
        Box::new(move |request| {
            let is_one = requests.contains(&Requested::of(request));
            count.fetch_add(u64::from(is_one), Ordering::Relaxed);
            is_one
        })
    }

    /// How the disk does them, and how many at most.
    pub(super) fn how(&self) -> (Fault, u64) {
        let fault = match self.becomes {
            Becomes::Failed => Fault::Answer(Answer::Fail),
            Becomes::Slow(time) => Fault::Answer(Answer::Slow(time)),
            Becomes::Corrupt(what) => Fault::Corrupt(what),
        };
        (fault, self.times.unwrap_or(u64::MAX))
    }

    /// What the disk does, in words.
    pub(super) fn words(&self) -> String {
        let which = self.which();
        match self.becomes {
            Becomes::Failed => format!("fails {which}"),
            Becomes::Slow(time) => format!("takes {} s more for {which}", time.as_secs_f64()),
            Becomes::Corrupt(what) => {
                let only = if self.requests == [Requested::Writes] {
                    words_of_writes(what)
                } else {
                    what.words()
                };
                format!("corrupts {which}: {only}")
            }
        }
    }

    /// Which requests there were none of, in words.
    pub(super) fn lacking(&self) -> String {
        let such = match self.becomes {
            Becomes::Corrupt(_) => " with bytes that it changes",
            Becomes::Failed | Becomes::Slow(_) => "",
        };
        format!("there was no such request{such}: {}", self.which())
    }

    /// Which requests, in words.
    fn which(&self) -> String {
        let names = self.requests.iter().map(|kind| kind.name());
        let names = names.collect::<Vec<_>>().join(", ");
        match self.times {
            None => names,
            Some(times) => format!("the first {times} of {names}"),
        }
    }
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .requests
            .iter()
            .map(|kind| format!("{:?}", kind.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        writeln!(f, "requests = [{names}]")?;
        match self.becomes {
            Becomes::Failed => {}
            Becomes::Slow(time) => writeln!(f, "slow_s = {}", seconds(time))?,
            Becomes::Corrupt(what) => writeln!(f, "corrupt = \"{}\"", what.name())?,
        }
        let mut times = self.times.iter();
        times.try_for_each(|times| writeln!(f, "times = {times}"))
    }
}

/// Which requests are hit, and how, if that is the fault; fails if another one has its keys.
pub(super) fn disk_fault(raw: &RawFault) -> Checked<Option<DiskFault>> {
    if *raw.fault.get_ref() != Name::Disk {
        return refuse_keys_of_disks(raw).map(|()| None);
    }
    let becomes = becomes(raw)?;
    let requests = match &raw.requests {
        None => all_of(becomes),
        Some(given) => kinds(given, becomes)?,
    };
    if let Some(times) = raw.times.as_ref().filter(|times| *times.get_ref() == 0) {
        let what = "no request would be hit: leave out `times`, and all are";
        return Err(Wrong(times.span(), what.into()));
    }
    let times = raw.times.as_ref().map(|times| *times.get_ref());
    Ok(Some(DiskFault {
        requests,
        times,
        becomes,
    }))
}

fn becomes(raw: &RawFault) -> Checked<Becomes> {
    match (&raw.slow_s, &raw.corrupt) {
        (None, None) => Ok(Becomes::Failed),
        (Some(_), Some(corrupt)) => {
            let what = "requests are slow or corrupted: leave out `slow_s` or `corrupt`";
            Err(Wrong(corrupt.span(), what.into()))
        }
        (None, Some(corrupt)) => Ok(Becomes::Corrupt(*corrupt.get_ref())),
        (Some(given), None) => {
            let time = duration(given.span(), *given.get_ref())?;
            if time.is_zero() {
                let what =
                    "a disk that takes no longer is not slow: without `slow_s` requests fail";
                return Err(Wrong(given.span(), what.into()));
            }
            Ok(Becomes::Slow(time))
        }
    }
}

/// All kinds of which there can be something to be hit.
fn all_of(becomes: Becomes) -> Vec<Requested> {
    match becomes {
        Becomes::Corrupt(_) => vec![Requested::Reads, Requested::Writes],
        Becomes::Failed | Becomes::Slow(_) => Requested::ALL.to_vec(),
    }
}

/// What becomes of what is written, in words.
fn words_of_writes(what: Corruption) -> &'static str {
    match what {
        Corruption::Torn => "only the first sectors are written",
        Corruption::Bit | Corruption::Zeros => what.words(),
    }
}

/// In order, each once.
fn kinds(given: &Spanned<Kinds>, becomes: Becomes) -> Checked<Vec<Requested>> {
    let mut kinds = match given.get_ref() {
        Kinds::One(kind) => vec![*kind],
        Kinds::Several(kinds) => kinds.clone(),
    };
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() {
        let what = "no request would be hit: leave out `requests`, and all are";
        return Err(Wrong(given.span(), what.into()));
    }
    let possible = all_of(becomes);
    if kinds.iter().any(|kind| !possible.contains(kind)) {
        let what = "a flush has no bytes that could be corrupted: say reads, writes, or both";
        return Err(Wrong(given.span(), what.into()));
    }
    Ok(kinds)
}

fn refuse_keys_of_disks(raw: &RawFault) -> Checked<()> {
    let requests = raw.requests.as_ref();
    let requests = requests.map(|given| (given.span(), "requests"));
    let times = raw.times.as_ref().map(|given| (given.span(), "times"));
    match requests.or(times) {
        Some((place, key)) => Err(Wrong(
            place,
            format!("`{key}` is only for fault = \"disk\""),
        )),
        None => Ok(()),
    }
}
