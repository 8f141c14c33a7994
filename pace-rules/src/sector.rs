//! What a disk writes whole.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A sector: what a disk writes whole or not at all. 512 bytes, or 4096 on disks that promise more
/// (NVM Command Set Specification, AWUPF; the physical sectors of ATA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Sector(u64);

/// Not the size of a sector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no disk has sectors of '{0}' bytes: expected 512 or 4096")]
pub struct NotASector(String);

impl Sector {
    /// How large it is.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

/// The smallest.
impl Default for Sector {
    fn default() -> Self {
        Self(512)
    }
}

impl fmt::Display for Sector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Sector {
    type Err = NotASector;

    fn from_str(text: &str) -> Result<Self, NotASector> {
        let known = [512, 4096].map(Self).into_iter();
        let mut named = known.filter(|sector| sector.to_string() == text);
        named.next().ok_or_else(|| NotASector(text.into()))
    }
}

impl TryFrom<u64> for Sector {
    type Error = NotASector;

    fn try_from(bytes: u64) -> Result<Self, NotASector> {
        bytes.to_string().parse()
    }
}

impl From<Sector> for u64 {
    fn from(sector: Sector) -> Self {
        sector.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_have_sectors_of_two_sizes() {
        assert_eq!(Sector::default().bytes(), 512);
        for text in ["512", "4096"] {
            let sector: Sector = text.parse().expect("a sector");
            assert_eq!(sector.to_string(), text);
            assert_eq!(serde_json::to_string(&sector).expect("JSON"), text);
            let read = serde_json::from_str::<Sector>(text);
            assert_eq!(read.expect("a sector"), sector);
        }
        for wrong in ["", "0", "1024", "+512", "4k"] {
            assert!(wrong.parse::<Sector>().is_err(), "{wrong}");
        }
        assert!(serde_json::from_str::<Sector>("100").is_err());
    }
}
