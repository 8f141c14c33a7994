//! The lines of the files in a directory of results, as JSON objects.

use serde::{Deserialize, Serialize};

use crate::check::{Complaint, Verdict, is_zero};
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::request::Level;
use crate::starts::Turns;
use crate::summary::Summary;
use crate::tree::Fingerprint;

/// A line of results, findings or summary.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Line {
    #[serde(rename = "state")]
    State(StateLine),
    #[serde(rename = "looked")]
    Looked(LookedLine),
    #[serde(rename = "asked")]
    Asked {
        /// So often the check said `ok` of what the run left.
        times: u32,
        /// With these nodes started before those; without it all as ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turns: Option<Turns>,
    },
    #[serde(rename = "states-finding")]
    Finding(Box<Finding>),
    #[serde(rename = "states-summary")]
    Summary(Box<Summary>),
}

/// The verdict on a state, and on all that equal it.
#[derive(Serialize, Deserialize)]
pub(crate) struct StateLine {
    pub(crate) level: Level,
    /// Its index in the space of the level.
    pub(crate) state: u64,
    /// What it and those that equal it have in common, in hexadecimal.
    key: String,
    verdict: Word,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    broken: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ok_without_crash: Option<u32>,
    #[serde(default, skip_serializing_if = "is_zero")]
    of_rules: usize,
    /// Of one that could not be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Ok,
    Broken,
    #[serde(alias = "not-measured")]
    Inconclusive,
}

/// A violation of a specification had something to look at in a state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LookedLine {
    pub(crate) specification: String,
    pub(crate) violation: String,
}

/// Time spent on a level, without that of earlier lines.
#[derive(Serialize, Deserialize)]
pub(crate) struct TimeLine {
    pub(crate) level: Level,
    pub(crate) seconds: f64,
}

impl StateLine {
    pub(crate) fn new(level: Level, state: u64, key: &Fingerprint, verdict: &Verdict) -> Self {
        let Complaint {
            words,
            log,
            tries,
            seen,
            ok_without_crash,
            of_rules,
        } = match verdict {
            Verdict::Broken(complaint) => complaint.clone(),
            _ => Complaint::default(),
        };
        let (word, why) = match verdict {
            Verdict::Ok => (Word::Ok, None),
            Verdict::Broken(_) => (Word::Broken, None),
            Verdict::Inconclusive(why) => (Word::Inconclusive, Some(why.clone())),
        };
        let key = blake3::Hash::from_bytes(*key).to_hex().to_string();
        Self {
            level,
            state,
            key,
            verdict: word,
            broken: words,
            log,
            tries,
            seen,
            ok_without_crash,
            of_rules,
            why,
        }
    }

    pub(crate) fn key(&self) -> Result<Fingerprint> {
        let key = blake3::Hash::from_hex(&self.key);
        let key = key.map_err(|_| Error::Line("a key that is none"))?;
        Ok(*key.as_bytes())
    }

    pub(crate) fn verdict(self) -> Verdict {
        match self.verdict {
            Word::Ok => Verdict::Ok,
            Word::Broken => Verdict::Broken(Complaint {
                words: self.broken,
                log: self.log,
                tries: self.tries,
                seen: self.seen,
                ok_without_crash: self.ok_without_crash,
                of_rules: self.of_rules,
            }),
            Word::Inconclusive => Verdict::Inconclusive(self.why.unwrap_or_default()),
        }
    }
}

impl Finding {
    /// As one JSON object.
    ///
    /// # Panics
    /// Never: it holds nothing that JSON cannot.
    pub fn json(&self) -> String {
        serde_json::to_string(&Line::Finding(Box::new(self.clone())))
            .expect("it holds nothing that JSON cannot")
    }
}

impl Summary {
    /// As one JSON object.
    ///
    /// # Panics
    /// Never: it holds nothing that JSON cannot.
    pub fn json(&self) -> String {
        serde_json::to_string(&Line::Summary(Box::new(self.clone())))
            .expect("it holds nothing that JSON cannot")
    }
}
