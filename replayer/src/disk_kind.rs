use std::fmt;
use std::str::FromStr;

use block_dev::Completion;
use pace_rules::disk::{Disk, UnknownDisk};
use serde::{Deserialize, Serialize};

/// What stands after `--disk`: how a log is read, and how it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DiskKind {
    /// How the disk keeps its word.
    pub honesty: Disk,
    /// When it answers.
    pub completion: Completion,
}

impl From<Disk> for DiskKind {
    fn from(honesty: Disk) -> Self {
        Self {
            honesty,
            completion: Completion::AtOnce,
        }
    }
}

impl From<Completion> for DiskKind {
    fn from(completion: Completion) -> Self {
        Self {
            honesty: Disk::Honest,
            completion,
        }
    }
}

impl fmt::Display for DiskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.completion {
            Completion::AtOnce => self.honesty.fmt(f),
            Completion::Lazy { seed } => write!(f, "lazy:{seed}"),
        }
    }
}

impl FromStr for DiskKind {
    type Err = UnknownDiskKind;

    fn from_str(text: &str) -> Result<Self, UnknownDiskKind> {
        let seed = match text.strip_prefix("lazy") {
            None => {
                return text
                    .parse::<Disk>()
                    .map(Self::from)
                    .map_err(UnknownDiskKind::Disk);
            }
            Some("") => 0,
            Some(rest) => {
                let seed = rest.strip_prefix(':').and_then(|seed| seed.parse().ok());
                seed.ok_or_else(|| UnknownDiskKind::Seed(text.to_owned()))?
            }
        };
        Ok(Completion::Lazy { seed }.into())
    }
}

/// Not a disk that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownDiskKind {
    /// It has no such name.
    #[error("{0}, or lazy[:SEED]")]
    Disk(UnknownDisk),
    /// The seed of a lazy disk is not a number.
    #[error("unknown disk '{0}': expected lazy or lazy:SEED with a SEED from 0")]
    Seed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_named_as_they_are_asked_for() {
        for text in [
            "honest",
            "drop-flush",
            "drop-fua",
            "lose-write:3",
            "lazy:0",
            "lazy:7",
        ] {
            assert_eq!(
                text.parse::<DiskKind>()
                    .map(|disk| disk.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
        assert_eq!(
            "lazy".parse(),
            Ok(DiskKind::from(Completion::Lazy { seed: 0 }))
        );
    }

    #[test]
    fn what_is_no_disk_is_refused_with_all_there_are() {
        let refused = |text: &str| text.parse::<DiskKind>().expect_err("refused").to_string();
        for name in [
            "honest",
            "drop-flush",
            "drop-fua",
            "lose-write:N",
            "lazy[:SEED]",
        ] {
            assert!(refused("sleepy").contains(name), "{name}");
        }
        for wrong in ["lazy:", "lazy:x", "lazy7", "lazy:-1"] {
            assert_eq!(
                refused(wrong),
                format!("unknown disk '{wrong}': expected lazy or lazy:SEED with a SEED from 0")
            );
        }
    }
}
