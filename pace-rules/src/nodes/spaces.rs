//! The crash states that several models allow, one space after the other.
//!
//! What no file system shows accuses programs that are right, and so would a model that were the
//! weakest in each column of the table: a file system that breaks one promise keeps another. So
//! several models are no model of their own. What at least one of them allows is all states of the
//! first, then all of the second, and so on. Those that several allow have several numbers.

use trace::Run;

use super::model::{Log, MODELS, Model};
use super::space::{Count, Error, Request, Space, State};

/// All models of real file systems, by one name.
pub const LINUX: &str = "linux";

impl Model {
    /// Whether it is that of a file system. Else it is what the standard does not forbid.
    pub fn is_real(&self) -> bool {
        self.log != Log::None
    }

    /// The names that models have, alone and together.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once(LINUX).chain(MODELS.iter().map(|model| model.name))
    }

    /// The models of a name; none if there are none.
    pub fn all_named(name: &str) -> Vec<&'static Self> {
        let is_meant = |model: &&Self| model.name == name || (name == LINUX && model.is_real());
        MODELS.iter().filter(is_meant).collect()
    }
}

/// The crash states of a run that at least one of some models allows.
#[derive(Debug, Clone)]
pub struct Spaces(Vec<Member>);

/// What one of them allows.
#[derive(Debug, Clone)]
pub struct Member {
    /// The model.
    pub model: &'static Model,
    /// Its states.
    pub space: Space,
}

impl Spaces {
    /// The states that are asked for, of one model each.
    ///
    /// # Errors
    /// If what is wanted does not fit the run.
    pub fn new(run: &Run, requests: &[Request]) -> Result<Self, Error> {
        let member = |request: &Request| {
            Ok(Member {
                model: request.model,
                space: Space::new(run, request)?,
            })
        };
        Ok(Self(requests.iter().map(member).collect::<Result<_, _>>()?))
    }

    /// What each of them allows.
    pub fn members(&self) -> &[Member] {
        &self.0
    }

    /// How many states there are, those of several models counted for each; `u64::MAX` stands for
    /// that many or more.
    pub fn len(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum: u64, member| sum.saturating_add(member.space.len()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of each kind, by the name of the model, in the order of the states.
    pub fn counts(&self) -> Vec<(&'static str, Count)> {
        let of_member = |member: &Member| {
            let name = member.model.name;
            member
                .space
                .counts()
                .into_iter()
                .map(move |count| (name, count))
        };
        self.0.iter().flat_map(of_member).collect()
    }

    /// Which member a state is of, and which of its states it is.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn place(&self, index: u64) -> (usize, u64) {
        let mut rest = index;
        for (place, member) in self.0.iter().enumerate() {
            match rest.checked_sub(member.space.len()) {
                Some(behind) => rest = behind,
                None => return (place, rest),
            }
        }
        panic!("there is no state {index}");
    }

    /// State number `index`, and which member it is of: what is on disks is told by that one's
    /// operations.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn state(&self, index: u64) -> (usize, State) {
        let (place, index) = self.place(index);
        (place, self.0[place].space.state(index))
    }
}
