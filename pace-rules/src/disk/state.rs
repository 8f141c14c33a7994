//! One crash state, and its name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Kind;

/// What a disk is left with when the power fails.
///
/// Its text says all that is needed to make it again from the log: `prefix@37`, `flushed@37`,
/// `lost-31-35@37`, `torn-31:512..4096@37`, `lost-29-35-torn-31:512..4096@37`, with the
/// [relaxation](Relaxation) before the `@` and the position after it. `torn-37:512..4096@37` tears
/// the write that comes next: it has FUA, and was in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct State {
    /// How many requests of the log the disk had been sent.
    pub position: usize,
    /// What became of them.
    pub relaxation: Relaxation,
}

/// What a disk did to the writes before the crash that it did not have to keep. Those it kept are
/// there in the order of the log. It is written as its text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Relaxation {
    /// It kept all of them: B3's states. `prefix`.
    Prefix,
    /// It kept none of them, as one that loses its cache does. `flushed`.
    Flushed,
    /// It lost the writes at these places, in ascending order, and kept the others. `lost-31-35`.
    Lost(Vec<usize>),
    /// It lost a part of one write, and others altogether or none. `torn-31:512..4096`,
    /// `lost-29-35-torn-31:512..4096`.
    Torn {
        /// The places of the writes that are lost altogether, in ascending order.
        lost: Vec<usize>,
        /// The write's place in the log.
        place: usize,
        /// The first byte that is lost, counted from the start of the write.
        from: u64,
        /// The first byte after those that are lost.
        to: u64,
    },
}

impl State {
    /// The place of the write that is torn because it was in flight: the next after the position.
    pub fn in_flight(&self) -> Option<usize> {
        match self.relaxation {
            Relaxation::Torn { place, .. } => Some(place).filter(|place| *place == self.position),
            _ => None,
        }
    }

    /// How many requests it tells of: with the one in flight.
    pub fn requests(&self) -> usize {
        self.position + usize::from(self.in_flight().is_some())
    }
}

impl Relaxation {
    /// What was done, without saying to which writes.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Prefix => Kind::Prefix,
            Self::Flushed => Kind::Flushed,
            Self::Lost(lost) => Kind::Lost(lost.len()),
            Self::Torn { lost, .. } => Kind::Torn(lost.len()),
        }
    }
}

/// Not the text of a crash state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a crash state: expected prefix, flushed, lost-W-W…, torn-W:A..B, or lost-W-W…-torn-W:A..B, \
     with W the places of writes in ascending order and A..B the bytes lost; where it stands alone, \
     with @P after it, P the position of the crash in the log"
)]
pub struct NotAState(String);

impl fmt::Display for Relaxation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix => f.write_str("prefix"),
            Self::Flushed => f.write_str("flushed"),
            Self::Lost(lost) => write_lost(f, lost),
            Self::Torn {
                lost,
                place,
                from,
                to,
            } => {
                if !lost.is_empty() {
                    write_lost(f, lost)?;
                    f.write_str("-")?;
                }
                write!(f, "torn-{place}:{from}..{to}")
            }
        }
    }
}

fn write_lost(f: &mut fmt::Formatter<'_>, places: &[usize]) -> fmt::Result {
    f.write_str("lost")?;
    places.iter().try_for_each(|place| write!(f, "-{place}"))
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.relaxation, self.position)
    }
}

impl FromStr for Relaxation {
    type Err = NotAState;

    fn from_str(text: &str) -> Result<Self, NotAState> {
        let read = read_relaxation(text);
        // One state has one text: no signs, no leading zeros.
        read.filter(|read| read.to_string() == text)
            .ok_or_else(|| NotAState(text.into()))
    }
}

impl FromStr for State {
    type Err = NotAState;

    fn from_str(text: &str) -> Result<Self, NotAState> {
        let read = || {
            let (relaxation, position) = text.split_once('@')?;
            Some(Self {
                position: position.parse().ok()?,
                relaxation: relaxation.parse().ok()?,
            })
        };
        read()
            .filter(|read| read.to_string() == text)
            .ok_or_else(|| NotAState(text.into()))
    }
}

fn read_relaxation(text: &str) -> Option<Relaxation> {
    if let Some((lost, tear)) = text.split_once("torn-") {
        let lost = if lost.is_empty() {
            Vec::new()
        } else {
            read_lost(lost.strip_suffix('-')?)?
        };
        let (place, bytes) = tear.split_once(':')?;
        let (from, to) = bytes.split_once("..")?;
        let (place, from, to) = (place.parse().ok()?, from.parse().ok()?, to.parse().ok()?);
        let both = lost.contains(&place);
        return (from < to && !both).then_some(Relaxation::Torn {
            lost,
            place,
            from,
            to,
        });
    }
    if text.starts_with("lost-") {
        return read_lost(text).map(Relaxation::Lost);
    }
    [Relaxation::Prefix, Relaxation::Flushed]
        .into_iter()
        .find(|relaxation| relaxation.to_string() == text)
}

fn read_lost(text: &str) -> Option<Vec<usize>> {
    let places = text.strip_prefix("lost-")?.split('-');
    let places: Vec<usize> = places
        .map(|place| place.parse().ok())
        .collect::<Option<_>>()?;
    places.is_sorted_by(|a, b| a < b).then_some(places)
}

impl TryFrom<String> for Relaxation {
    type Error = NotAState;

    fn try_from(text: String) -> Result<Self, NotAState> {
        text.parse()
    }
}

impl TryFrom<String> for State {
    type Error = NotAState;

    fn try_from(text: String) -> Result<Self, NotAState> {
        text.parse()
    }
}

impl From<Relaxation> for String {
    fn from(relaxation: Relaxation) -> Self {
        relaxation.to_string()
    }
}

impl From<State> for String {
    fn from(state: State) -> Self {
        state.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn relaxation() -> impl Strategy<Value = Relaxation> {
        let places = || prop::collection::btree_set(any::<usize>(), 1..5);
        prop_oneof![
            Just(Relaxation::Prefix),
            Just(Relaxation::Flushed),
            places().prop_map(|places| Relaxation::Lost(places.into_iter().collect())),
            (
                places(),
                any::<bool>(),
                any::<u32>(),
                1..u64::from(u32::MAX)
            )
                .prop_map(|(places, alone, from, length)| {
                    let (place, mut lost) = (
                        *places.first().unwrap(),
                        places.into_iter().skip(1).collect::<Vec<_>>(),
                    );
                    lost.truncate(if alone { 0 } else { lost.len() });
                    Relaxation::Torn {
                        lost,
                        place,
                        from: from.into(),
                        to: u64::from(from) + length,
                    }
                }),
        ]
    }

    proptest! {
        #[test]
        fn a_text_names_one_state_and_a_state_has_one_text(position: usize, relaxation in relaxation()) {
            prop_assert_eq!(relaxation.to_string().parse(), Ok(relaxation.clone()));
            let state = State { position, relaxation };
            prop_assert_eq!(state.to_string().parse(), Ok(state.clone()));
            let json = serde_json::to_string(&state).unwrap();
            prop_assert_eq!(&json, &format!("\"{state}\""));
            prop_assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
        }

        #[test]
        fn no_other_text_is_read(text in "(prefix|flushed|lost|torn|[-:.@+0-9]){0,8}") {
            prop_assert!(text.parse::<State>().map_or(true, |state| state.to_string() == text));
        }
    }

    #[test]
    fn states_are_read_as_they_are_written() {
        let lost = Relaxation::Lost(vec![31, 35]);
        assert_eq!(
            State {
                position: 37,
                relaxation: lost
            }
            .to_string(),
            "lost-31-35@37"
        );
        let torn = |lost: Vec<usize>| Relaxation::Torn {
            lost,
            place: 31,
            from: 512,
            to: 4096,
        };
        assert_eq!(
            State {
                position: 37,
                relaxation: torn(vec![])
            }
            .to_string(),
            "torn-31:512..4096@37"
        );
        assert_eq!(
            torn(vec![29, 35]).to_string(),
            "lost-29-35-torn-31:512..4096"
        );
        // As in the results of every version.
        assert_eq!(
            serde_json::from_str::<Relaxation>("\"prefix\"").unwrap(),
            Relaxation::Prefix
        );
        assert_eq!(
            serde_json::to_string(&Relaxation::Flushed).unwrap(),
            "\"flushed\""
        );
        for wrong in [
            "",
            "prefix",
            "@3",
            "lost@3",
            "lost-@3",
            "lost-2-1@3",
            "lost-1-1@3",
            "lost-01@3",
            "prefix@+3",
        ] {
            assert!(wrong.parse::<State>().is_err(), "{wrong}");
        }
        for wrong in [
            "prefix@3",
            "torn-1",
            "torn-1:2..2",
            "torn-1:3..2",
            "torn-1:2",
            "lost-1-torn-1:0..2",
            "lost-torn-1:0..2",
            "lost-2torn-1:0..2",
            "torn-1:0..2-lost-2",
        ] {
            assert!(wrong.parse::<Relaxation>().is_err(), "{wrong}");
        }
    }
}
