use std::collections::BTreeSet;

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

    /// The facts that are told of a rule that is violated, each once and but for numbers; none of a
    /// promise. Texts count with their numbers: they may be names.
    pub fn rule_facts(&self) -> BTreeSet<String> {
        let Some((specification, _)) = self.rule_name().and_then(|name| name.rsplit_once(": "))
        else {
            return BTreeSet::new();
        };
        let told = self.what.strip_prefix(specification);
        let told = told.and_then(|told| told.strip_prefix(": "));
        facts_in(told.unwrap_or(&self.what))
    }

    /// What two have in common that are of the same promise, or the same rule, at the same place.
    pub fn kind(&self) -> (Promise, &str, Option<&str>) {
        (self.promise, &self.path, self.rule_name())
    }
}

/// The facts in a list of them, each once, without the numbers that are not in texts.
fn facts_in(told: &str) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let mut fact = String::new();
    let (mut is_text, mut depth) = (false, 0);
    let mut letters = told.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_text = !is_text,
            '(' if !is_text => depth += 1,
            ')' if !is_text => depth -= 1,
            _ => {}
        }
        if is_text || !(letter.is_ascii_digit() || (letter == ',' && depth == 0)) {
            fact.push(letter);
            if letter == '\\' {
                fact.extend(letters.next());
            }
        } else if letter == ',' {
            facts.insert(std::mem::take(&mut fact).trim().to_owned());
        }
    }
    facts.insert(fact.trim().to_owned());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_rule_are_told_apart_by_texts_and_not_by_numbers() {
        let of = |what: &str| {
            let rule = BrokenRule {
                name: "a, (b): lost".into(),
                derivation: String::new(),
            };
            Finding::of_rule(rule, what).rule_facts()
        };
        let alike = of(r#"a, (b): lost("a", 3), lost("a", 12)"#);
        assert_eq!(alike, BTreeSet::from([r#"lost("a", )"#.to_owned()]));
        assert_eq!(alike, of(r#"a, (b): lost("a", 4)"#));
        assert_ne!(alike, of(r#"a, (b): lost("a1", 4)"#));
        let two = of(r#"a, (b): lost("a\"), \\", 1), lost("b", 2), and 4 more"#);
        assert_eq!(two.len(), 3, "{two:?}");
        assert!(two.contains("and  more"), "{two:?}");
        let promise = Finding::new(Promise::FsckClean, "", "what, (1)");
        assert_eq!(promise.rule_facts(), BTreeSet::new());
    }
}
