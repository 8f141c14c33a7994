//! Which kinds of crash states to visit, in a word.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Sector;

/// The smallest sector, in bytes: `all` tears at it.
const SECTOR_BYTES: u64 = 512;

/// The largest unit at which writes are torn, in bytes. No write is larger.
const UNIT_BYTES_MAX: u64 = 1 << 32;

/// Which kinds of crash states to visit: words with commas between them, in any order.
///
/// | word | states |
/// |---|---|
/// | `prefix` | at each crash point all that was written so far |
/// | `flushed` | at each crash point only what a flush or FUA had covered |
/// | `every-write` | more crash points: one after every write and every flush, with its prefix |
/// | `reorder:K` | at each crash point all ways to lose 1 to K of the pending writes; `reorder:all` for all ways |
/// | `torn:U` | at each crash point each pending write torn between units of U bytes |
/// | `mixed` | with `reorder:K,torn:U`: one write torn while 1 to K others are lost |
/// | `all` | `every-write,flushed,reorder:all,torn:512,mixed`: whatever a disk may do |
/// | `sample:N` | only N of the states that the other words span, or of `all` where it stands alone |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[allow(clippy::struct_excessive_bools)] // a word each
pub struct States {
    pub(super) prefix: bool,
    pub(super) flushed: bool,
    pub(super) every_write: bool,
    /// How many writes may be lost by choice; `usize::MAX` for any number.
    pub(super) reorder: usize,
    pub(super) torn_unit_bytes: Option<u64>,
    /// Whether writes are lost and torn at once.
    pub(super) mixed: bool,
    /// Whether a write is torn that is in flight at a crash point.
    pub(super) in_flight: bool,
    pub(super) sample: Option<u32>,
}

/// Not kinds of crash states that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot visit crash states '{word}': {why}")]
pub struct InvalidStates {
    word: String,
    why: &'static str,
}

impl States {
    const NONE: Self = Self {
        prefix: false,
        flushed: false,
        every_write: false,
        reorder: 0,
        torn_unit_bytes: None,
        mixed: false,
        in_flight: true,
        sample: None,
    };
    const ALL: Self = Self {
        prefix: true,
        flushed: true,
        every_write: true,
        reorder: usize::MAX,
        torn_unit_bytes: Some(SECTOR_BYTES),
        mixed: true,
        in_flight: true,
        sample: None,
    };

    /// How many states are drawn, if not all are visited.
    pub fn sample(&self) -> Option<u32> {
        self.sample
    }

    /// The same of one crash point, of which nothing is left out; with `in_flight`, the next write
    /// may be in flight there.
    pub(crate) fn at_one_point(self, in_flight: bool) -> Self {
        Self {
            prefix: true,
            every_write: false,
            in_flight,
            sample: None,
            ..self
        }
    }

    /// The same of a disk that writes a sector whole: no write is torn within one.
    #[must_use]
    pub fn at_sectors(self, sector: Sector) -> Self {
        let unit_bytes = self.torn_unit_bytes;
        Self {
            torn_unit_bytes: unit_bytes.map(|bytes| bytes.next_multiple_of(sector.bytes())),
            ..self
        }
    }

    /// The same of a log without crash points of its own, such as that of a recovery: the power
    /// fails after every write and flush.
    #[must_use]
    pub fn at_every_write(self) -> Self {
        Self {
            prefix: true,
            every_write: true,
            ..self
        }
    }

    /// Whether the states are visited that have only what a flush or FUA had covered.
    pub fn flushed(&self) -> bool {
        self.flushed
    }

    /// How many writes may be lost by choice; `usize::MAX` for any number.
    pub fn reorder(&self) -> usize {
        self.reorder
    }

    /// Between units of how many bytes writes are torn, if they are.
    pub fn torn_unit_bytes(&self) -> Option<u64> {
        self.torn_unit_bytes
    }

    /// Whether one write is torn while others are lost.
    pub fn mixed(&self) -> bool {
        self.mixed
    }

    /// Whether the states are visited in which nothing was lost.
    pub fn prefix(&self) -> bool {
        self.prefix
    }

    /// Whether writes are torn.
    pub(crate) fn tears(&self) -> bool {
        self.torn_unit_bytes.is_some()
    }

    /// Whether the power fails after every write and flush too.
    pub fn every_write(&self) -> bool {
        self.every_write
    }
}

/// `prefix,flushed`.
impl Default for States {
    fn default() -> Self {
        Self {
            prefix: true,
            flushed: true,
            ..Self::NONE
        }
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if (Self {
            sample: None,
            ..*self
        }) == Self::ALL
        {
            words.push("all".into());
        } else {
            let plain = [
                (self.prefix && !self.every_write, "prefix"),
                (self.flushed, "flushed"),
                (self.every_write, "every-write"),
            ];
            words.extend(
                plain
                    .into_iter()
                    .filter(|(given, _)| *given)
                    .map(|(_, word)| word.to_string()),
            );
            words.extend(match self.reorder {
                0 => None,
                usize::MAX => Some("reorder:all".into()),
                most => Some(format!("reorder:{most}")),
            });
            words.extend(
                self.torn_unit_bytes
                    .map(|unit_bytes| format!("torn:{unit_bytes}")),
            );
            words.extend(self.mixed.then(|| "mixed".into()));
        }
        words.extend(self.sample.map(|size| format!("sample:{size}")));
        f.write_str(&words.join(","))
    }
}

impl FromStr for States {
    type Err = InvalidStates;

    fn from_str(text: &str) -> Result<Self, InvalidStates> {
        let (mut states, mut all) = (Self::NONE, false);
        for word in text.split(',') {
            match word {
                "all" => all = true,
                word => states.add(word)?,
            }
        }
        states.refuse(all, text)?;
        let sample = states.sample;
        let alone = states
            == Self {
                sample,
                ..Self::NONE
            };
        Ok(if all || alone {
            Self {
                sample,
                ..Self::ALL
            }
        } else {
            states
        })
    }
}

impl States {
    /// Adds what a word asks for.
    fn add(&mut self, word: &str) -> Result<(), InvalidStates> {
        let refused = |why| InvalidStates {
            word: word.into(),
            why,
        };
        match word.split_once(':').unwrap_or((word, "")) {
            _ if word == "prefix" => self.prefix = true,
            _ if word == "flushed" => self.flushed = true,
            _ if word == "every-write" => (self.prefix, self.every_write) = (true, true),
            _ if word == "mixed" => self.mixed = true,
            ("reorder" | "torn" | "sample", _) if self.has(word) => {
                return Err(refused("it is given twice"));
            }
            ("reorder", most) => {
                let number = all_or_positive(most);
                let why = "expected reorder:K with K from 1, or reorder:all";
                self.reorder = number.ok_or_else(|| refused(why))?;
            }
            ("torn", unit) => {
                let is_unit =
                    |bytes: &u64| bytes.is_multiple_of(SECTOR_BYTES) && *bytes <= UNIT_BYTES_MAX;
                let unit_bytes = positive(unit).filter(is_unit);
                let why = "expected torn:U with U bytes, a multiple of 512 up to 4294967296";
                self.torn_unit_bytes = Some(unit_bytes.ok_or_else(|| refused(why))?);
            }
            ("sample", size) => {
                let why = "expected sample:N with N from 1";
                self.sample = Some(positive(size).ok_or_else(|| refused(why))?);
            }
            _ => {
                return Err(refused(
                    "expected prefix, flushed, every-write, reorder:K, torn:U, mixed, sample:N or all, with commas between",
                ));
            }
        }
        Ok(())
    }

    /// Refuses `mixed` without what it mixes, and beside `all` what that has already.
    fn refuse(&self, all: bool, text: &str) -> Result<(), InvalidStates> {
        let missing = match (self.reorder, self.torn_unit_bytes) {
            (0, None) => Some("it loses writes and tears one: add reorder:1,torn:512"),
            (0, Some(_)) => Some("it loses writes and tears one: add reorder:1"),
            (_, None) => Some("it loses writes and tears one: add torn:512"),
            _ => None,
        };
        if let Some(why) = missing.filter(|_| self.mixed && !all) {
            return Err(InvalidStates {
                word: "mixed".into(),
                why,
            });
        }
        if all && (self.reorder > 0 || self.torn_unit_bytes.is_some()) {
            let why = "all has reorder:all and torn:512 already; for others say every-write,flushed,reorder:K,torn:U";
            return Err(InvalidStates {
                word: text.into(),
                why,
            });
        }
        Ok(())
    }

    fn has(&self, word: &str) -> bool {
        match word.split_once(':').map(|(kind, _)| kind) {
            Some("reorder") => self.reorder > 0,
            Some("torn") => self.torn_unit_bytes.is_some(),
            Some("sample") => self.sample.is_some(),
            _ => false,
        }
    }
}

/// How many writes may be lost at once: any number, or so many.
fn all_or_positive(most: &str) -> Option<usize> {
    if most == "all" {
        Some(usize::MAX)
    } else {
        positive(most)
    }
}

/// A number from 1, which fits.
fn positive<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|number: &u64| digits && *number > 0)
        .and_then(|number| number.try_into().ok())
}

impl TryFrom<String> for States {
    type Error = InvalidStates;

    fn try_from(text: String) -> Result<Self, InvalidStates> {
        text.parse()
    }
}

impl From<States> for String {
    fn from(states: States) -> Self {
        states.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> States {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn states_are_named_as_they_are_asked_for() {
        for text in [
            "prefix",
            "flushed",
            "prefix,flushed",
            "every-write",
            "flushed,every-write,reorder:2,torn:4096,sample:10",
            "reorder:all",
            "torn:512",
            "flushed,every-write,reorder:all,torn:512",
            "reorder:2,torn:512,mixed",
            "all",
            "all,sample:7",
        ] {
            assert_eq!(read(text).to_string(), text);
            assert_eq!(
                serde_json::to_string(&read(text)).unwrap(),
                format!("\"{text}\"")
            );
            assert_eq!(
                serde_json::from_str::<States>(&format!("\"{text}\"")).unwrap(),
                read(text)
            );
        }
        assert_eq!(States::default().to_string(), "prefix,flushed");
    }

    #[test]
    fn no_write_is_torn_within_a_sector() {
        let large = "4096".parse().expect("a sector");
        for (text, at_sectors) in [
            ("torn:512", "torn:4096"),
            ("torn:8192", "torn:8192"),
            ("torn:5120", "torn:8192"),
            ("prefix,reorder:1", "prefix,reorder:1"),
            ("all", "flushed,every-write,reorder:all,torn:4096,mixed"),
        ] {
            assert_eq!(read(text).at_sectors(large).to_string(), at_sectors);
            assert_eq!(read(text).at_sectors(Sector::default()), read(text));
        }
    }

    #[test]
    fn words_that_mean_the_same_are_the_same() {
        assert_eq!(read("every-write"), read("prefix,every-write"));
        assert_eq!(read("flushed,prefix"), States::default());
        assert_eq!(
            read("mixed,torn:512,reorder:all,flushed,every-write"),
            read("all")
        );
        assert_eq!(read("sample:3"), read("all,sample:3"));
        assert_eq!(read("all,prefix"), read("all"));
        assert_eq!(read("all,mixed"), read("all"));
    }

    #[test]
    fn what_cannot_be_visited_is_refused_with_what_can() {
        for (wrong, why) in [
            (
                "",
                "expected prefix, flushed, every-write, reorder:K, torn:U, mixed, sample:N or all, with",
            ),
            ("prefix,", "expected prefix, flushed, every-write,"),
            ("prefix:1", "expected prefix,"),
            (
                "reorder",
                "expected reorder:K with K from 1, or reorder:all",
            ),
            ("reorder:0", "expected reorder:K"),
            ("reorder:+1", "expected reorder:K"),
            (
                "torn:100",
                "expected torn:U with U bytes, a multiple of 512",
            ),
            ("torn:0", "expected torn:U"),
            ("torn:4294967808", "a multiple of 512 up to 4294967296"),
            // To the next sector of 4096 bytes there is no number.
            ("torn:18446744073709551104", "expected torn:U"),
            ("sample:x", "expected sample:N with N from 1"),
            ("sample:4294967296", "expected sample:N"),
            ("reorder:1,reorder:2", "'reorder:2': it is given twice"),
            (
                "reorder:1,mixed",
                "'mixed': it loses writes and tears one: add torn:512",
            ),
            (
                "torn:512,mixed,sample:3",
                "'mixed': it loses writes and tears one: add reorder:1",
            ),
            ("mixed", "add reorder:1,torn:512"),
            (
                "all,torn:4096",
                "'all,torn:4096': all has reorder:all and torn:512 already",
            ),
        ] {
            let error = wrong.parse::<States>().expect_err(wrong).to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
