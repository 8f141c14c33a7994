//! What a network and clocks are like, in words: for command lines and cluster files.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::clock::Clocks;
use crate::switch::{BITS_PER_SECOND, Link};

const NS_OF_SECOND: u128 = 1_000_000_000;

/// A clock that drifts by more is broken.
const DRIFT_PPM_MAX: u32 = 100_000;

/// An offset by more is another time.
const OFFSET_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Links and cards slower than that are none.
const BITS_PER_SECOND_MIN: u64 = 1000;

/// What the network of the machines is like, as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    text: String,
    /// How frames fare.
    pub link: Link,
    /// How fast each machine sends.
    pub bits_per_second: u64,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut this = Self {
            text: text.to_owned(),
            link: Link::USUAL,
            bits_per_second: BITS_PER_SECOND,
        };
        for word in text.split(',') {
            let link = &mut this.link;
            match word.split_once('=') {
                Some(("latency", value)) => link.latency_ns = duration_ns(value)?,
                Some(("jitter", value)) => link.jitter_ns = duration_ns(value)?,
                Some(("loss", value)) => link.lost_per_million = share(value)?,
                Some(("double", value)) => link.doubled_per_million = share(value)?,
                Some(("late", value)) => link.late_per_million = share(value)?,
                Some(("rate", value)) => this.bits_per_second = rate(value)?,
                _ => {
                    return Err(format!(
                        "`{word}` is none of latency=TIME, jitter=TIME, loss=P%, double=P%, late=P%, rate=BITS"
                    ));
                }
            }
        }
        if this.link.latency_ns == 0 {
            return Err("latency=0 is refused: a frame takes time".into());
        }
        Ok(this)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// How far the clocks of the machines are apart, as it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    text: String,
    /// The same in numbers.
    pub clocks: Clocks,
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (offset, drift) = text.split_once(',').unwrap_or((text, "0ppm"));
        let drift_ppm_max = drift.strip_suffix("ppm").and_then(|ppm| ppm.parse().ok());
        let drift_ppm_max = drift_ppm_max
            .filter(|ppm| *ppm <= DRIFT_PPM_MAX)
            .ok_or_else(|| format!("`{drift}` is no drift: expected 0ppm to {DRIFT_PPM_MAX}ppm"))?;
        let offset_ns_max = duration_ns(offset)?;
        if u128::from(offset_ns_max) > OFFSET_MAX.as_nanos() {
            return Err(format!("`{offset}` is more than a hundred years"));
        }
        Ok(Self {
            text: text.to_owned(),
            clocks: Clocks {
                offset_ns_max,
                drift_ppm_max,
            },
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn duration_ns(text: &str) -> Result<u64, String> {
    let ns = humantime::parse_duration(text).map(|time| time.as_nanos());
    let ns = ns.map_err(|error| format!("`{text}` is no time: {error}"))?;
    let most = NS_OF_SECOND * OFFSET_MAX.as_secs() as u128;
    u64::try_from(ns.min(most + 1)).map_err(|_| format!("`{text}` is too long"))
}

/// `0.1%`, in parts of a million.
fn share(text: &str) -> Result<u32, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|text| text.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    let percent = percent.ok_or_else(|| format!("`{text}` is no share: expected 0% to 100%"))?;
    Ok((percent * 10_000.0).round() as u32)
}

/// `100M`, in bits a second.
fn rate(text: &str) -> Result<u64, String> {
    let units = [("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let found = units
        .iter()
        .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
    let (number, bits) = found.unwrap_or((text, 1));
    let rate = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(bits));
    rate.filter(|rate| *rate >= BITS_PER_SECOND_MIN)
        .ok_or_else(|| {
            format!("`{text}` is no rate: expected bits a second, such as 100M, 1k at least")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_what_was_said_and_the_rest_as_ever() {
        let network: Network = "latency=5ms,loss=0.1%,late=2%,rate=100M"
            .parse()
            .expect("known");
        let expected = Link {
            latency_ns: 5_000_000,
            lost_per_million: 1000,
            late_per_million: 20_000,
            ..Link::USUAL
        };
        assert_eq!(
            (network.link, network.bits_per_second),
            (expected, 100_000_000)
        );
        assert_eq!(network.to_string().parse(), Ok(network));
        for text in [
            "",
            "latency",
            "latency=0s",
            "latency=1",
            "loss=101%",
            "loss=1",
            "rate=1",
            "speed=1",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn clocks_have_an_offset_and_may_drift() {
        let spread: Spread = "250ms,100ppm".parse().expect("known");
        let expected = Clocks {
            offset_ns_max: 250_000_000,
            drift_ppm_max: 100,
        };
        assert_eq!(spread.clocks, expected);
        assert_eq!(spread.to_string().parse(), Ok(spread));
        let alone: Spread = "1s".parse().expect("known");
        assert_eq!(alone.clocks.drift_ppm_max, 0);
        for text in ["", "100ppm", "1s,100", "1s,100001ppm", "1s,-5ppm", "200y"] {
            assert!(text.parse::<Spread>().is_err(), "{text}");
        }
    }
}
