//! States that nobody could judge, numbered after the findings, so that they can be made again.

use std::collections::{BTreeMap, HashMap};

use brief::without_numbers;
use trace_store::Trace;

use crate::again::{Address, story};
use crate::error::Result;
use crate::finding::Finding;
use crate::request::Request;

/// A state that nobody could judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inconclusive {
    /// Its number. The first comes after the last finding.
    pub number: usize,
    /// Which state it is.
    pub address: Address,
    /// Why.
    pub why: String,
}

/// States that could not be judged for one reason, but for the numbers in its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason<'a> {
    /// The number of the first of them. The others have those that follow.
    pub first: usize,
    /// How many they are.
    pub states: usize,
    /// Why the first could not be judged.
    pub why: &'a str,
}

impl Inconclusive {
    /// Those that could not be judged, with the reason of each: by reason, in the order of the
    /// first state of each. The first gets the number after `last`.
    pub(crate) fn numbered(why: BTreeMap<Address, String>, last: usize) -> Vec<Self> {
        let mut places = HashMap::new();
        let mut groups: Vec<Vec<(Address, String)>> = Vec::new();
        for (address, why) in why {
            let place = *places.entry(without_numbers(&why)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push((address, why));
        }
        let all = groups.into_iter().flatten().zip(last + 1..);
        all.map(|((address, why), number)| Self {
            number,
            address,
            why,
        })
        .collect()
    }

    /// The reasons, in the order of their numbers.
    pub(crate) fn reasons(all: &[Self]) -> Vec<Reason<'_>> {
        let alike =
            |one: &Self, other: &Self| without_numbers(&one.why) == without_numbers(&other.why);
        let groups = all.chunk_by(alike);
        groups
            .map(|states| Reason {
                first: states[0].number,
                states: states.len(),
                why: &states[0].why,
            })
            .collect()
    }

    /// What the state is, told as findings are: what was lost, and when the power failed. Nothing is
    /// mounted for that.
    ///
    /// # Errors
    /// If the sweep has no such state.
    pub fn story(&self, trace: &Trace, request: &Request) -> Result<Finding> {
        let words = vec![self.why.clone()];
        Ok(Finding {
            number: self.number,
            ..story(trace, request, self.address, words.into())?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Level;

    #[test]
    fn states_are_numbered_by_reason_after_the_findings() {
        let why = [
            (Level::Block, 1, "the check took longer than 30 s"),
            (Level::Syscalls, 9, "the check took longer than 30 s"),
            (
                Level::Syscalls,
                2,
                "it said first `key 17 is lost`, and then `ok`",
            ),
            (
                Level::Syscalls,
                7,
                "it said first `key 4 is lost`, and then `ok`",
            ),
            (Level::Syscalls, 3, "no verdict"),
        ];
        let why = why.map(|(level, state, why)| (Address { level, state }, why.to_owned()));
        let all = Inconclusive::numbered(why.into(), 4);
        let numbers: Vec<_> = all
            .iter()
            .map(|one| (one.number, one.address.state))
            .collect();
        assert_eq!(numbers, [(5, 2), (6, 7), (7, 3), (8, 9), (9, 1)]);
        let reasons = Inconclusive::reasons(&all);
        let reasons: Vec<_> = reasons.iter().map(|one| (one.first, one.states)).collect();
        assert_eq!(reasons, [(5, 2), (7, 1), (8, 2)]);
        assert!(all[1].why.contains("key 4"), "each has its own words");
    }
}
