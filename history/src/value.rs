//! What operations carry: JSON's values and EDN's, as far as the two agree.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A value that a client wrote or read. Keywords and symbols of EDN are text here.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Nothing: `null` in JSON, `nil` in EDN. What a read of something that is not there returns.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(Float),
    /// Text.
    Text(String),
    /// A list, a vector or, in the order of its elements, a set.
    List(Vec<Value>),
    /// Names and values. Keys of EDN that are no text are written as EDN.
    Map(BTreeMap<String, Value>),
}

/// A number that is not whole. Two are equal if their bits are.
#[derive(Debug, Clone, Copy)]
pub struct Float(pub f64);

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Float {}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Float {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl Value {
    /// The text, if it is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is a whole one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// Whether it is nothing.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(truth) => (*truth).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => number.0.into(),
            Self::Text(text) => text.as_str().into(),
            Self::List(elements) => elements.iter().map(Self::to_json).collect(),
            Self::Map(entries) => serde_json::Value::Object(
                entries
                    .iter()
                    .map(|(name, value)| (name.clone(), value.to_json()))
                    .collect(),
            ),
        }
    }

    /// A value of JSON, which is in this text. A whole number that has no place in 64 bits is an error: who
    /// reads the text makes another number of it.
    pub(crate) fn from_json(json: serde_json::Value, text: &str) -> Result<Self, String> {
        Ok(match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(truth) => Self::Bool(truth),
            serde_json::Value::Number(number) => Self::from_number(&number, text)?,
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(elements) => Self::List(
                elements
                    .into_iter()
                    .map(|element| Self::from_json(element, text))
                    .collect::<Result<_, _>>()?,
            ),
            serde_json::Value::Object(entries) => Self::Map(
                entries
                    .into_iter()
                    .map(|(name, value)| Ok((name, Self::from_json(value, text)?)))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }

    fn from_number(number: &serde_json::Number, text: &str) -> Result<Self, String> {
        match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(Self::Int(whole)),
            (None, Some(float)) if !number.is_u64() => {
                // No float below that is made of a whole number.
                let may_be_whole = float.abs() >= 2f64.powi(63);
                match may_be_whole.then(|| too_large(text)).flatten() {
                    Some(whole) => Err(format!("the number {whole} is too large")),
                    None => Ok(Self::Float(Float(float))),
                }
            }
            _ => Err(format!("the number {number} is too large")),
        }
    }
}

/// The first whole number of a text of JSON that has no place in 64 bits.
fn too_large(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(start) = rest.find(|one: char| one == '"' || one == '-' || one.is_ascii_digit())
    {
        rest = &rest[start..];
        if let Some(string) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let end = string.find(|one| {
                let is_end = one == '"' && !is_escaped;
                is_escaped = one == '\\' && !is_escaped;
                is_end
            })?;
            rest = &string[end + 1..];
            continue;
        }
        let end = rest.find(|one: char| !one.is_ascii_alphanumeric() && !"+-.".contains(one));
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        if !number.contains(['.', 'e', 'E']) && number.parse::<i64>().is_err() {
            return Some(number);
        }
        rest = after;
    }
    None
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) if is_word(text) => formatter.write_str(text),
            _ => write!(formatter, "{}", self.to_json()),
        }
    }
}

/// Whether text can stand without quotes in a sentence, and nobody takes it for something else.
fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !["null", "true", "false"].contains(&text)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte))
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<Value>> for Value {
    fn from(elements: Vec<Value>) -> Self {
        Self::List(elements)
    }
}
