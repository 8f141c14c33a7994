//! A sweep in parts.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, NoShard, Result};

/// Part `number` of `of`: the items whose indices leave the same rest when divided by `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

impl Shard {
    /// Part `number`, from 1 to `of`, if that is a part.
    pub fn new(number: u64, of: u64) -> Option<Self> {
        (1..=of).contains(&number).then_some(Shard { number, of })
    }

    /// Which part it is, from 1.
    pub fn number(self) -> u64 {
        self.number
    }

    /// The one that a manifest names, if it names one.
    ///
    /// # Errors
    /// If the manifest was changed.
    pub fn of_manifest(text: Option<&str>) -> Result<Option<Self>> {
        let parse = |text: &str| {
            text.parse().map_err(|why| Error::ManifestShard {
                shard: text.to_owned(),
                why,
            })
        };
        text.map(parse).transpose()
    }

    /// How many parts there are.
    pub fn count(self) -> u64 {
        self.of
    }

    /// Whether item `index` is in this part.
    pub fn contains(self, index: u64) -> bool {
        index % self.of == self.number - 1
    }

    /// The first index of this part that is no smaller than `start`; the largest number if it would
    /// be larger than that.
    pub fn first_from(self, start: u64) -> u64 {
        let (rest, at) = (self.number - 1, start % self.of);
        let ahead = if rest < at {
            self.of - (at - rest)
        } else {
            rest - at
        };
        start.saturating_add(ahead)
    }
}

/// `2/3`, as it is read.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> std::result::Result<Self, NoShard> {
        let parsed = text
            .split_once('/')
            .and_then(|(number, of)| Shard::new(number.parse().ok()?, of.parse().ok()?));
        parsed.ok_or(NoShard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_very_many_is_found_or_ends() {
        let shard = |number, of| Shard::new(number, of).expect("a part");
        for start in 0..10 {
            let first = shard(2, 3).first_from(start);
            assert!((start..start + 3).contains(&first), "{start}: {first}");
            assert!(shard(2, 3).contains(first), "{start}: {first}");
        }
        let last = shard(u64::MAX, u64::MAX);
        assert_eq!(last.first_from(0), u64::MAX - 1);
        assert_eq!(last.first_from(u64::MAX - 1), u64::MAX - 1);
        assert_eq!(shard(1, u64::MAX).first_from(5), u64::MAX);
        assert_eq!(shard(3, 1 << 63).first_from(u64::MAX), u64::MAX);
    }
}
