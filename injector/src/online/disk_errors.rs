//! What a plan says of disks that fail requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block_dev::DiskRequest;
use serde::Deserialize;
use toml::Spanned;

use super::parse::{Checked, Name, RawFault, Wrong};

/// Which requests of a disk are answered with an I/O error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskErrors {
    /// Of which kinds, in order; not none.
    pub requests: Vec<Requested>,
    /// Only the first so many of them on each disk.
    pub times: Option<u64>,
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

impl DiskErrors {
    /// Says of each request whether it is one of these, and counts those that are.
    pub(super) fn counting(
        &self,
        count: &Arc<AtomicU64>,
    ) -> impl FnMut(DiskRequest) -> bool + Send + 'static {
        let (requests, count) = (self.requests.clone(), Arc::clone(count));
        move |request| {
            let is_one = requests.contains(&Requested::of(request));
            count.fetch_add(u64::from(is_one), Ordering::Relaxed);
            is_one
        }
    }

    /// How many requests of a disk fail at most.
    pub(super) fn times(&self) -> u64 {
        self.times.unwrap_or(u64::MAX)
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let names = self.requests.iter().map(|kind| kind.name());
        let names = names.collect::<Vec<_>>().join(", ");
        match self.times {
            None => names,
            Some(times) => format!("the first {times} of {names}"),
        }
    }
}

impl fmt::Display for DiskErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .requests
            .iter()
            .map(|kind| format!("{:?}", kind.name()));
        let names = names.collect::<Vec<_>>().join(", ");
        writeln!(f, "requests = [{names}]")?;
        let mut times = self.times.iter();
        times.try_for_each(|times| writeln!(f, "times = {times}"))
    }
}

/// Which requests are to fail, if that is the fault; fails if another one has its keys.
pub(super) fn disk_errors(raw: &RawFault) -> Checked<Option<DiskErrors>> {
    if *raw.fault.get_ref() != Name::Disk {
        return refuse_keys_of_disks(raw).map(|()| None);
    }
    let requests = match &raw.requests {
        None => Requested::ALL.to_vec(),
        Some(given) => kinds(given)?,
    };
    if let Some(times) = raw.times.as_ref().filter(|times| *times.get_ref() == 0) {
        let what = "no request would fail: leave out `times`, and all do";
        return Err(Wrong(times.span(), what.into()));
    }
    let times = raw.times.as_ref().map(|times| *times.get_ref());
    Ok(Some(DiskErrors { requests, times }))
}

/// In order, each once.
fn kinds(given: &Spanned<Kinds>) -> Checked<Vec<Requested>> {
    let mut kinds = match given.get_ref() {
        Kinds::One(kind) => vec![*kind],
        Kinds::Several(kinds) => kinds.clone(),
    };
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() {
        let what = "no request would fail: leave out `requests`, and all do";
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
