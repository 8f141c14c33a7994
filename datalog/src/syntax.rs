//! Rules as they are written.

use serde::{Deserialize, Serialize};

use crate::problem::Position;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole number.
    Integer,
    /// A text.
    Text,
}

impl Kind {
    /// The word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Integer => "a number",
            Self::Text => "a text",
        }
    }
}

/// A value of a fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
}

impl Value {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Integer(_) => Kind::Integer,
            Self::Text(_) => Kind::Text,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// What stands at a place of an atom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Term {
    Variable(String),
    Constant(Value),
    /// `_`: anything.
    Any,
}

/// A relation with what stands at its places.
#[derive(Debug, Clone)]
pub(crate) struct WrittenAtom {
    pub(crate) relation: String,
    pub(crate) at: Position,
    pub(crate) arguments: Vec<Argument>,
}

/// `K`, or `key: K`.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    pub(crate) column: Option<String>,
    pub(crate) term: Term,
    pub(crate) at: Position,
}

/// What can be calculated.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Variable(String, Position),
    Constant(Value, Position),
    Arithmetic(Box<Expression>, Operation, Box<Expression>),
    /// What the first group of a regular expression matches in a text.
    Capture(Box<Expression>, String),
    /// The whole number that a text is.
    Number(Box<Expression>),
}

/// What is done with two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operation {
    pub(crate) const ALL: [Self; 5] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Remainder,
    ];

    /// The function of the database for it.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Add => "added",
            Self::Subtract => "subtracted",
            Self::Multiply => "multiplied",
            Self::Divide => "divided",
            Self::Remainder => "remainder",
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Different,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Comparison {
    pub(crate) const ALL: [(&'static str, Self); 6] = [
        ("=", Self::Equal),
        ("!=", Self::Different),
        ("<", Self::Less),
        ("<=", Self::AtMost),
        (">", Self::More),
        (">=", Self::AtLeast),
    ];

    pub(crate) fn sign(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, one)| *one == self);
        found.expect("each has a sign").0
    }
}

/// What has to hold beside atoms.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Compare(Expression, Comparison, Expression),
    /// A text has, or has not, what a regular expression describes.
    Match(Expression, String, bool),
}

/// A part of the body of a rule.
#[derive(Debug, Clone)]
pub(crate) enum Literal {
    Holds(WrittenAtom),
    Absent(WrittenAtom),
    Condition(Condition, Position),
}

/// What is made of many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    Min,
    Max,
    Sum,
}

impl Aggregate {
    pub(crate) const ALL: [(&'static str, Self); 4] = [
        ("count", Self::Count),
        ("min", Self::Min),
        ("max", Self::Max),
        ("sum", Self::Sum),
    ];

    pub(crate) fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, one)| *one == self);
        found.expect("each has a word").0
    }
}

/// What stands at a place of a head.
#[derive(Debug, Clone)]
pub(crate) enum HeadTerm {
    Is(Expression),
    Aggregate(Aggregate, String, Position),
}

/// A rule as it is written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRule {
    pub(crate) is_violation: bool,
    pub(crate) relation: String,
    pub(crate) at: Position,
    pub(crate) head: Vec<HeadTerm>,
    pub(crate) body: Vec<Literal>,
    /// Without needless blanks and comments.
    pub(crate) text: String,
}

impl Expression {
    /// Where it begins.
    pub(crate) fn at(&self) -> Position {
        match self {
            Self::Variable(_, at) | Self::Constant(_, at) => *at,
            Self::Arithmetic(left, ..) => left.at(),
            Self::Capture(of, _) | Self::Number(of) => of.at(),
        }
    }

    /// Of how many parts it is, where `of` says that of a variable.
    pub(crate) fn parts(&self, of: &dyn Fn(&str) -> usize) -> usize {
        match self {
            Self::Variable(name, _) => of(name),
            Self::Constant(..) => 1,
            Self::Arithmetic(left, _, right) => left.parts(of) + right.parts(of),
            Self::Capture(text, _) | Self::Number(text) => 1 + text.parts(of),
        }
    }

    /// Calls `see` for each variable in it.
    pub(crate) fn variables<'a>(&'a self, see: &mut dyn FnMut(&'a str, Position)) {
        match self {
            Self::Variable(name, at) => see(name, *at),
            Self::Constant(..) => {}
            Self::Arithmetic(left, _, right) => {
                left.variables(see);
                right.variables(see);
            }
            Self::Capture(of, _) | Self::Number(of) => of.variables(see),
        }
    }
}
