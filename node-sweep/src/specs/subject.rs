//! What looks at states with a check, and holds them against specifications as well.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::examine::{Examiner, Said};
use super::looked::Looked;
use crate::check::{Complaint, Verdict};
use crate::error::Result;
use crate::states::CrashState;
use crate::sweep::Subject;
use crate::tree::Fingerprint;

/// What the check said first of states, by what they leave. Rules may tell apart what is the same to
/// it.
pub(super) type Known = Mutex<HashMap<Fingerprint, Verdict>>;

/// One that has a check look, and asks rules.
pub struct Specified<'s> {
    subject: Box<dyn Subject + 's>,
    examiner: Examiner,
    looked: Arc<Looked>,
    known: Arc<Known>,
}

impl<'s> Specified<'s> {
    pub(super) fn new(
        subject: Box<dyn Subject + 's>,
        examiner: Examiner,
        looked: &Arc<Looked>,
        known: &Arc<Known>,
    ) -> Self {
        Self {
            subject,
            examiner,
            looked: Arc::clone(looked),
            known: Arc::clone(known),
        }
    }

    /// What the check and the rules say of a state together. Nobody asks rules of one without a past,
    /// which no crash has touched.
    fn with_rules(&mut self, verdict: Verdict, state: &CrashState, acknowledged: &[u8]) -> Verdict {
        if state.past.is_none() {
            return verdict;
        }
        let found = match &verdict {
            Verdict::Ok => Some(&[][..]),
            Verdict::Broken(complaint) => Some(&*complaint.words),
            Verdict::Inconclusive(_) => None,
        };
        let said = self
            .examiner
            .examine(state, acknowledged, found, &self.looked);
        match (verdict, said) {
            (Verdict::Ok, Said::Unknown(why)) => Verdict::Inconclusive(why),
            (verdict, Said::Unknown(_)) => verdict,
            (verdict, Said::Violated(words)) if words.is_empty() => verdict,
            (Verdict::Broken(complaint), Said::Violated(words)) => {
                Verdict::Broken(complaint.with_rules(words))
            }
            (_, Said::Violated(words)) => Verdict::Broken(Complaint::default().with_rules(words)),
        }
    }

    /// What the check says first of states with these acknowledgements.
    fn first(&mut self, state: &CrashState, acknowledged: &[Arc<[u8]>]) -> Result<Vec<Verdict>> {
        let key = |lines: &Arc<[u8]>| state.of_content(lines);
        let keys: Vec<_> = acknowledged.iter().map(key).collect();
        let known = {
            let known = self.known.lock().expect("nobody panics with it");
            let each = keys.iter().map(|key| known.get(key).cloned());
            each.collect::<Option<Vec<_>>>()
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let verdicts = self.subject.judge_each(state, acknowledged)?;
        let mut known = self.known.lock().expect("nobody panics with it");
        known.extend(keys.into_iter().zip(verdicts.iter().cloned()));
        Ok(verdicts)
    }
}

impl Subject for Specified<'_> {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        let verdict = self.subject.judge(state, again)?;
        let acknowledged = Arc::clone(&state.acknowledged);
        Ok(self.with_rules(verdict, state, &acknowledged))
    }

    fn is_slow(&self) -> bool {
        self.subject.is_slow()
    }

    fn judge_each(
        &mut self,
        state: &CrashState,
        acknowledged: &[Arc<[u8]>],
    ) -> Result<Vec<Verdict>> {
        let verdicts = self.first(state, acknowledged)?;
        let each = acknowledged.iter().zip(verdicts);
        Ok(each
            .map(|(lines, verdict)| self.with_rules(verdict, state, lines))
            .collect())
    }
}
