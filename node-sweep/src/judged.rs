//! What is known of the states of a sweep: its verdicts, by level.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::again::Address;
use crate::check::Verdict;
use crate::error::{Error, Result};
use crate::lines::{Line, LookedLine};
use crate::request::Level;
use crate::tree::Fingerprint;
use crate::undamaged::Sound;

/// What is known of the states of a level, by what those that are equal have in common.
pub type Verdicts = HashMap<Fingerprint, Verdict>;

/// What is known of all states.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// The verdicts.
    pub(crate) of: HashMap<Level, Verdicts>,
    /// The states with a verdict, by their indices.
    pub(crate) indices: HashMap<Level, HashSet<u64>>,
    /// Why states are inconclusive.
    pub(crate) inconclusive: BTreeMap<Address, String>,
    /// The violations of specifications that had something to look at.
    pub(crate) looked: BTreeSet<LookedLine>,
    /// What the check said of what the run left.
    pub(crate) sound: Sound,
}

impl Judged {
    /// Adds what a line of results says.
    ///
    /// # Errors
    /// If it says nothing of a state, or something is known of that already.
    pub(crate) fn add(&mut self, line: Line) -> Result<()> {
        let line = match line {
            Line::State(line) => line,
            Line::Looked(line) => {
                self.looked.insert(line);
                return Ok(());
            }
            Line::Asked { times, turns } => {
                self.sound.know(turns, times);
                return Ok(());
            }
            _ => return Err(Error::Line("a line that is not of a state")),
        };
        let (level, state, key) = (line.level, line.state, line.key()?);
        let verdict = line.verdict();
        self.indices.entry(level).or_default().insert(state);
        if let Verdict::Inconclusive(why) = &verdict {
            self.inconclusive
                .insert(Address { level, state }, why.clone());
        }
        if self
            .of
            .entry(level)
            .or_default()
            .insert(key, verdict)
            .is_some()
        {
            return Err(Error::Line(
                "a state that is there a second time: remove one of the two lines",
            ));
        }
        Ok(())
    }

    /// How many different states have a verdict.
    pub(crate) fn count(&self) -> usize {
        self.of.values().map(HashMap::len).sum()
    }
}
