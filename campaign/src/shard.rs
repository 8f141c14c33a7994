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

    /// The first index of this part that is no smaller than `start`.
    pub fn first_from(self, start: u64) -> u64 {
        let rest = self.number - 1;
        start + (rest + self.of - start % self.of) % self.of
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
