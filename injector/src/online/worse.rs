//! What a plan says of links that lose, double, delay or reorder what is sent.

use std::fmt;
use std::time::Duration;

use simulation::Link;
use toml::Spanned;

use super::parse::{Checked, Name, RawFault, Wrong, duration};

const MILLION: f64 = 1e6;

/// How much worse links are. Shares are of a million messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worse {
    /// How many are lost.
    pub lost_per_million: u32,
    /// How many come twice.
    pub doubled_per_million: u32,
    /// How many take ten times as long, so that later ones overtake them.
    pub late_per_million: u32,
    /// How much longer each takes.
    pub latency: Duration,
    /// How much longer it takes at most beyond that, as the seed says.
    pub jitter: Duration,
}

impl Worse {
    /// A link that is as much worse.
    pub fn than(self, link: Link) -> Link {
        let most = |usual: u32, own: u32| usual.max(own);
        Link {
            latency_ns: link.latency_ns + self.latency.as_nanos() as u64,
            jitter_ns: link.jitter_ns + self.jitter.as_nanos() as u64,
            lost_per_million: most(link.lost_per_million, self.lost_per_million),
            doubled_per_million: most(link.doubled_per_million, self.doubled_per_million),
            late_per_million: most(link.late_per_million, self.late_per_million),
        }
    }

    /// The shares and times that it has, as a plan names them.
    fn values(self) -> impl Iterator<Item = (&'static str, f64)> {
        let share = |per_million: u32| f64::from(per_million) / MILLION;
        let all = [
            ("lost", share(self.lost_per_million)),
            ("doubled", share(self.doubled_per_million)),
            ("late", share(self.late_per_million)),
            ("latency_s", self.latency.as_secs_f64()),
            ("jitter_s", self.jitter.as_secs_f64()),
        ];
        all.into_iter().filter(|(_, value)| *value > 0.0)
    }

    /// In words.
    pub(super) fn words(self) -> String {
        let values = self.values().map(|(key, value)| format!("{key} {value}"));
        values.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values = self.values();
        values.try_for_each(|(key, value)| writeln!(f, "{key} = {value:?}"))
    }
}

/// The keys that only this fault has.
fn keys(raw: &RawFault) -> [(&'static str, &Option<Spanned<f64>>); 5] {
    [
        ("lost", &raw.lost),
        ("doubled", &raw.doubled),
        ("late", &raw.late),
        ("latency_s", &raw.latency_s),
        ("jitter_s", &raw.jitter_s),
    ]
}

/// How links are to be, if that is the fault; fails if another one has its keys.
pub(super) fn worse(raw: &RawFault) -> Checked<Option<Worse>> {
    let mut given = keys(raw).into_iter();
    let first = given.find_map(|(key, value)| Some((key, value.as_ref()?)));
    match (*raw.fault.get_ref() == Name::Link, first) {
        (false, None) => Ok(None),
        (false, Some((key, value))) => {
            Err(Wrong(value.span(), format!("`{key}` is only for a link")))
        }
        (true, None) => {
            let what = "say what becomes of messages: lost, doubled, late, latency_s, jitter_s";
            Err(Wrong(raw.fault.span(), what.into()))
        }
        (true, Some(_)) => Ok(Some(Worse {
            lost_per_million: share(raw.lost.as_ref())?,
            doubled_per_million: share(raw.doubled.as_ref())?,
            late_per_million: share(raw.late.as_ref())?,
            latency: longer(raw.latency_s.as_ref())?,
            jitter: longer(raw.jitter_s.as_ref())?,
        })),
    }
}

fn share(given: Option<&Spanned<f64>>) -> Checked<u32> {
    let Some(given) = given else { return Ok(0) };
    let share = *given.get_ref();
    if share > 0.0 && share <= 1.0 {
        return Ok((share * MILLION).round().max(1.0) as u32);
    }
    let what = format!("{share} is no share of messages: more than 0, and 1 at most");
    Err(Wrong(given.span(), what))
}

fn longer(given: Option<&Spanned<f64>>) -> Checked<Duration> {
    match given {
        None => Ok(Duration::ZERO),
        Some(given) if *given.get_ref() > 60.0 => {
            let what = "a message that takes more than a minute is lost: say `lost`";
            Err(Wrong(given.span(), what.into()))
        }
        Some(given) => duration(given.span(), *given.get_ref()),
    }
}
