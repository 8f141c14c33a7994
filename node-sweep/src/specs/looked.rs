//! Which violations had something to look at, in one state or another.

use std::collections::BTreeMap;
use std::sync::Mutex;

use datalog::Unseen;
use specification::Unlooked;

use super::Specs;
use crate::lines::LookedLine;

/// A violation, as specification and relation.
type Violation = (String, String);

/// What is known of the violations of a sweep, for all who look at its states.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those that had nothing to look at until now, each with what is missing, once that was seen.
    unlooked: BTreeMap<Violation, Vec<String>>,
    /// Those that had something, and of which nobody was told yet.
    news: Vec<Violation>,
}

impl Looked {
    pub(crate) fn of(specs: &Specs) -> Self {
        let violations = specs.violations();
        let violations = violations.map(|(name, relation)| (name.into(), relation.into()));
        let unlooked = violations
            .map(|violation| (violation, Vec::new()))
            .collect();
        let state = State {
            unlooked,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// Whether all had something to look at.
    pub(crate) fn is_all(&self) -> bool {
        self.lock().unlooked.is_empty()
    }

    /// Takes in which violations of a specification had nothing to look at in a state.
    pub(crate) fn see(&self, specification: &str, unseen: Vec<Unseen>) {
        let mut state = self.lock();
        let mut lacking: BTreeMap<String, Vec<String>> = unseen
            .into_iter()
            .map(|one| (one.relation, one.missing))
            .collect();
        let State { unlooked, news } = &mut *state;
        unlooked.retain(|violation, missing| {
            if violation.0 != specification {
                return true;
            }
            if let Some(lacks) = lacking.remove(&violation.1) {
                *missing = lacks;
                return true;
            }
            news.push(violation.clone());
            false
        });
    }

    /// One of which it is known from before that it had something to look at.
    pub(crate) fn know(&self, looked: &LookedLine) {
        let violation = (looked.specification.clone(), looked.violation.clone());
        self.lock().unlooked.remove(&violation);
    }

    /// Those that had something to look at and that this was not told of before.
    pub(crate) fn take_news(&self) -> Vec<Violation> {
        std::mem::take(&mut self.lock().news)
    }

    /// What had nothing to look at, in words.
    pub(crate) fn words(&self) -> Vec<String> {
        let state = self.lock();
        let words = state.unlooked.iter().map(|(violation, lacks)| {
            let (specification, violation) = violation.clone();
            let unlooked = Unlooked {
                specification,
                violation,
                lacks: lacks.clone(),
            };
            unlooked.words()
        });
        words.collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specification::Specification;

    #[test]
    fn what_had_something_to_look_at_once_has_looked() {
        let text = "violation a(L) :- printed(_, L). violation b(P) :- line(path: P).";
        let specification = Specification {
            name: "s".into(),
            text: text.into(),
        };
        let specs = Specs::of(&[specification]).expect("right");
        let looked = Looked::of(&specs);
        let lacks = |violation: &str| Unseen {
            relation: violation.into(),
            missing: vec!["printed".into()],
        };
        assert_eq!(looked.words().len(), 2);
        looked.see("s", vec![lacks("a")]);
        assert_eq!(looked.take_news(), [("s".to_owned(), "b".to_owned())]);
        assert_eq!(
            looked.words(),
            ["s: a never had a fact to look at: there is no printed"]
        );
        looked.see("s", Vec::new());
        assert!(looked.is_all());
        looked.see("s", vec![lacks("a"), lacks("b")]);
        assert!(looked.is_all());
    }
}
