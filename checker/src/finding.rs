use serde::{Deserialize, Serialize};

use crate::Promise;

/// A promise that a crash state breaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was promised.
    pub promise: Promise,
    /// Where it is broken, relative to the root of the file system; empty for all of it.
    pub path: String,
    /// What was found and what was expected.
    pub what: String,
    /// The operation (counted from 0, setup first) by whose return it was promised, if one did.
    pub promised_by: Option<usize>,
    /// The rule of a specification that is violated, where that is what is broken.
    #[serde(default)]
    pub rule: Option<BrokenRule>,
}

/// A rule of a specification that a crash state violates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenRule {
    /// The specification and the relation of the violation.
    pub name: String,
    /// What the violations follow from, as trees.
    pub derivation: String,
}

impl Finding {
    /// A finding that no single operation promised away.
    pub fn new(promise: Promise, path: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            promise,
            path: path.into(),
            what: what.into(),
            promised_by: None,
            rule: None,
        }
    }

    /// What is violated, in words, of a rule.
    pub fn of_rule(rule: BrokenRule, what: impl Into<String>) -> Self {
        Self {
            rule: Some(rule),
            ..Self::new(Promise::Rule, "", what)
        }
    }

    /// The name of the rule, if it is one that is violated.
    pub fn rule_name(&self) -> Option<&str> {
        self.rule.as_ref().map(|rule| rule.name.as_str())
    }

    /// What two have in common that are of the same promise, or the same rule, at the same place.
    pub fn kind(&self) -> (Promise, &str, Option<&str>) {
        (self.promise, &self.path, self.rule_name())
    }
}
