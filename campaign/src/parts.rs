//! The shards of a sweep, found to belong together before they are merged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Cause, Error, Result, cannot};
use crate::shard::Shard;

/// Missing shards that are named.
const MISSING_NAMED_MAX: usize = 8;

/// The results of one shard.
pub trait Part {
    /// Where they are.
    fn directory(&self) -> &Path;

    /// Which shard it is; none if it is a whole sweep.
    ///
    /// # Errors
    /// If it does not say so in words that can be read.
    fn shard(&self) -> Result<Option<Shard>>;

    /// Whether all of it is done.
    fn is_finished(&self) -> bool;

    /// Why it is not of the same sweep as another one, in words; none if it is.
    fn difference(&self, other: &Self) -> Option<String>;
}

/// Why directories are not the shards of one sweep.
#[derive(Debug, thiserror::Error)]
pub enum Mismatch {
    /// None was named.
    #[error("no part to merge")]
    None,
    /// One is named again.
    #[error("{0} is named twice: name it once")]
    Twice(PathBuf),
    /// One has all of its sweep.
    #[error("{0} is not a shard of a sweep, but all of it: there is nothing to merge it with")]
    Whole(PathBuf),
    /// Two are of different sweeps.
    #[error("{at} and {other} are not shards of one sweep: {why}")]
    Different {
        /// One of them.
        at: PathBuf,
        /// The other one.
        other: PathBuf,
        /// In what they differ.
        why: String,
    },
    /// Two have the same part.
    #[error("{at} and {other} are the same shard, {shard}: leave one out")]
    Same {
        /// One of them.
        at: PathBuf,
        /// The other one.
        other: PathBuf,
        /// Which part.
        shard: Shard,
    },
    /// One is not done.
    #[error("shard {shard} in {at} is not finished: resume it with --resume {at}")]
    Unfinished {
        /// Which part.
        shard: String,
        /// Where.
        at: PathBuf,
    },
    /// Some are not there.
    #[error("shard {0} is missing: a sweep is merged from all of its shards")]
    Missing(String),
}

/// Different shards of one sweep.
#[derive(Debug)]
pub struct Parts<P> {
    parts: BTreeMap<u64, P>,
    is_whole: bool,
}

impl<P: Part> Parts<P> {
    /// Opens the shards in these directories. With `incomplete` some may be missing or unfinished.
    ///
    /// # Errors
    /// If one cannot be opened, or they are not the shards of one sweep.
    pub fn open<E: Into<Cause>>(
        directories: &[impl AsRef<Path>],
        incomplete: bool,
        mut open: impl FnMut(&Path) -> std::result::Result<P, E>,
    ) -> Result<Self> {
        let mut parts = BTreeMap::new();
        let mut seen = Vec::new();
        let mut count = 0;
        for directory in directories.iter().map(AsRef::as_ref) {
            let real = directory.canonicalize();
            let real = real.map_err(|error| cannot("open", directory, error))?;
            let at = directory.to_owned();
            if seen.contains(&real) {
                return Err(Mismatch::Twice(at).into());
            }
            seen.push(real);
            let part = open(directory).map_err(|why| Error::Part(why.into()))?;
            add(&mut parts, &mut count, at, part)?;
        }
        let lacks = lacks(&parts, count);
        let is_whole = lacks.is_none();
        match lacks {
            Some(lacks) if !incomplete => Err(lacks.into()),
            _ => Ok(Self { parts, is_whole }),
        }
    }

    /// The one with the smallest number.
    ///
    /// # Errors
    /// If there is none at all.
    pub fn first(&self) -> Result<&P> {
        Ok(self.parts.values().next().ok_or(Mismatch::None)?)
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.parts.values()
    }

    /// Whether all shards are there and finished.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}

/// Adds a part to those that are there, which are shards of the same sweep; `count` is into how many
/// it was divided.
fn add<P: Part>(parts: &mut BTreeMap<u64, P>, count: &mut u64, at: PathBuf, part: P) -> Result<()> {
    let Some(shard) = part.shard()? else {
        return Err(Mismatch::Whole(at).into());
    };
    if let Some(first) = parts.values().next()
        && let Some(why) = difference(&part, first, shard.count() == *count)
    {
        let other = first.directory().into();
        return Err(Mismatch::Different { at, other, why }.into());
    }
    *count = shard.count();
    if let Some(other) = parts.insert(shard.number(), part) {
        let other = other.directory().into();
        return Err(Mismatch::Same { at, other, shard }.into());
    }
    Ok(())
}

/// What there is to say against so many shards: one has not ended, or some are not there.
fn lacks<P: Part>(parts: &BTreeMap<u64, P>, count: u64) -> Option<Mismatch> {
    if let Some((number, part)) = parts.iter().find(|(_, part)| !part.is_finished()) {
        return Some(Mismatch::Unfinished {
            shard: format!("{number}/{count}"),
            at: part.directory().into(),
        });
    }
    let missing = (1..=count).filter(|number| !parts.contains_key(number));
    let missing: Vec<_> = missing
        .take(MISSING_NAMED_MAX)
        .map(|number| format!("{number}/{count}"))
        .collect();
    (!missing.is_empty()).then(|| Mismatch::Missing(missing.join(", ")))
}

fn difference<P: Part>(part: &P, first: &P, same_count: bool) -> Option<String> {
    let of_others = || "they are of another number of shards".to_owned();
    part.difference(first)
        .or_else(|| (!same_count).then(of_others))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Toy {
        directory: PathBuf,
        shard: Option<Shard>,
        finished: bool,
        sweep: char,
    }

    impl Part for Toy {
        fn directory(&self) -> &Path {
            &self.directory
        }

        fn shard(&self) -> Result<Option<Shard>> {
            Ok(self.shard)
        }

        fn is_finished(&self) -> bool {
            self.finished
        }

        fn difference(&self, other: &Self) -> Option<String> {
            (self.sweep != other.sweep).then(|| "they sweep something else".to_owned())
        }
    }

    /// Opens parts whose names say what they are, such as `a 1 of 3` or `a 2 of 3 begun`.
    fn open(names: &[&str], incomplete: bool) -> std::result::Result<(Vec<u64>, bool), String> {
        let place = tempfile::tempdir().expect("a directory");
        let read = |path: &Path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            let words: Vec<_> = name.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
            let shard = number(1).zip(number(3));
            Ok::<_, Error>(Toy {
                directory: name.to_string().into(),
                shard: shard.and_then(|(number, of)| Shard::new(number, of)),
                finished: !name.ends_with("begun"),
                sweep: name.chars().next().expect("a letter"),
            })
        };
        let paths: Vec<_> = names.iter().map(|name| place.path().join(name)).collect();
        for path in &paths {
            std::fs::create_dir_all(path).expect("made");
        }
        let parts = Parts::open(&paths, incomplete, read).map_err(|error| error.to_string())?;
        let numbers = parts
            .iter()
            .map(|part| part.shard.expect("one").number())
            .collect();
        Ok((numbers, parts.is_whole()))
    }

    #[test]
    fn shards_come_in_the_order_of_their_numbers() {
        let all: Vec<_> = (1..12)
            .rev()
            .map(|number| format!("a {number} of 11"))
            .collect();
        let names: Vec<_> = all.iter().map(String::as_str).collect();
        assert_eq!(open(&names, false), Ok(((1..12).collect(), true)));
    }

    #[test]
    fn what_is_not_all_of_one_sweep_is_refused() {
        for (names, why) in [
            (["a 1 of 2", "a whole"], "a whole is not a shard"),
            (
                ["a 1 of 2", "b 2 of 2"],
                "b 2 of 2 and a 1 of 2 are not shards of one sweep: they sweep",
            ),
            (
                ["a 1 of 2", "a 2 of 3"],
                "are not shards of one sweep: they are of another number",
            ),
            (["a 1 of 2", "a 1 of 2 again"], "are the same shard, 1/2"),
            (
                ["a 1 of 2", "a 2 of 2 begun"],
                "shard 2/2 in a 2 of 2 begun is not finished",
            ),
            (["a 1 of 4", "a 3 of 4"], "shard 2/4, 4/4 is missing"),
        ] {
            let said = open(&names, false).expect_err(why);
            assert!(said.contains(why), "{said}");
        }
        let twice = open(&["a 1 of 2", "a 1 of 2"], true).expect_err("named twice");
        assert!(
            twice.ends_with("a 1 of 2 is named twice: name it once"),
            "{twice}"
        );
    }

    #[test]
    fn what_is_missing_or_unfinished_is_taken_when_that_is_asked_for() {
        assert_eq!(
            open(&["a 1 of 3", "a 3 of 3"], true),
            Ok((vec![1, 3], false))
        );
        assert_eq!(
            open(&["a 1 of 2", "a 2 of 2 begun"], true),
            Ok((vec![1, 2], false))
        );
        assert_eq!(
            open(&["a 1 of 2", "a 2 of 2"], true),
            Ok((vec![1, 2], true))
        );
        assert!(open(&["a 1 of 2", "b 2 of 2"], true).is_err());
    }
}
