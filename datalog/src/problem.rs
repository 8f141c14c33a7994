//! What is wrong with the text of rules, and where.

use std::fmt;

/// A text of rules, and what it is called in messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The file, or what else people would look for.
    pub name: String,
    /// The rules.
    pub text: String,
}

impl Source {
    /// A text with a name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }
}

/// A place in a [`Source`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1 on.
    pub line: u32,
    /// The character in the line, from 1 on.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A mistake in rules: where it is, in which rule, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{position}: {}{what}", of_rule(rule.as_deref()))]
pub struct Problem {
    /// What the source is called.
    pub source_name: String,
    /// Where it is.
    pub position: Position,
    /// The relation that the rule is of, if it is in a rule.
    pub rule: Option<String>,
    /// What is wrong, and what would be right.
    pub what: String,
}

fn of_rule(rule: Option<&str>) -> String {
    rule.map_or_else(String::new, |rule| format!("in the rule of {rule}: "))
}

/// A mistake whose source and rule are not known yet.
#[derive(Debug, Clone)]
pub(crate) struct Wrong {
    pub(crate) at: Position,
    pub(crate) what: String,
}

impl Wrong {
    pub(crate) fn new(at: Position, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { at, what }
    }

    pub(crate) fn in_source(self, name: &str, rule: Option<&str>) -> Problem {
        Problem {
            source_name: name.to_owned(),
            position: self.at,
            rule: rule.map(str::to_owned),
            what: self.what,
        }
    }
}

/// What is parsed or checked, or what is wrong with it.
pub(crate) type Checked<T> = Result<T, Wrong>;
