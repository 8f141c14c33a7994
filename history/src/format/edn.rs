//! EDN, as far as histories need it: <https://github.com/edn-format/edn>. Keywords and symbols are
//! text, lists, vectors and sets are lists, and tags are left out.

use std::collections::BTreeMap;

use super::{ReadError, position, printable};
use crate::Value;
use crate::value::Float;

/// How deep values may be nested.
const DEPTH_MAX: usize = 64;

/// A value that stands alone, and the line in which it begins.
pub(super) struct Form {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// All events of a text: one may be after the other, or all in one vector.
pub(super) fn read(text: &str) -> Result<Vec<Form>, ReadError> {
    let mut reader = Reader {
        text,
        at: 0,
        line: 1,
    };
    let mut forms = Vec::new();
    while reader.skip(0)? {
        reader.tags()?;
        match reader.peek() {
            Some('[') => reader.events(']', &mut forms)?,
            Some('(') => reader.events(')', &mut forms)?,
            _ => forms.push(reader.form(0)?),
        }
    }
    Ok(forms)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        self.line += usize::from(next == '\n');
        Some(next)
    }

    /// What is wrong where this place of the text is.
    fn wrong(&self, place: usize, problem: impl Into<String>) -> ReadError {
        let (line, column) = position(&self.text[..place]);
        let problem = printable(&problem.into());
        ReadError::Wrong {
            line,
            problem: format!("{problem} at column {column}"),
        }
    }

    /// Leaves out the tags before a value that stands alone.
    fn tags(&mut self) -> Result<(), ReadError> {
        let line = self.line;
        while self.peek() == Some('#') && !self.text[self.at..].starts_with("#{") {
            self.at += 1;
            self.token();
            if !self.skip(0)? {
                return Err(ReadError::Torn { line });
            }
        }
        Ok(())
    }

    /// A value that stands alone, with its line: that is where it is torn, too.
    fn form(&mut self, depth: usize) -> Result<Form, ReadError> {
        let line = self.line;
        let value = self.value(depth).map_err(|error| match error {
            ReadError::Torn { .. } => ReadError::Torn { line },
            other => other,
        })?;
        Ok(Form { line, value })
    }

    /// All events of a vector.
    fn events(&mut self, end: char, forms: &mut Vec<Form>) -> Result<(), ReadError> {
        let start = self.at;
        self.next();
        while self.skip(1)? {
            if self.peek() == Some(end) {
                self.next();
                return Ok(());
            }
            forms.push(self.form(1)?);
        }
        let problem = format!("the events that begin here have no '{end}' at their end");
        Err(self.wrong(start, problem))
    }

    /// Goes to the next value, if there is one.
    fn skip(&mut self, depth: usize) -> Result<bool, ReadError> {
        while let Some(next) = self.peek() {
            if next.is_whitespace() || next == ',' {
                self.next();
            } else if next == ';' {
                while self.peek().is_some_and(|next| next != '\n') {
                    self.next();
                }
            } else if self.text[self.at..].starts_with("#_") {
                self.at += 2;
                self.required(depth + 1)?;
            } else {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next value, which must be there.
    fn required(&mut self, depth: usize) -> Result<Value, ReadError> {
        self.refuse_deep(depth)?;
        if !self.skip(depth)? {
            return Err(ReadError::Torn { line: self.line });
        }
        self.value(depth)
    }

    fn refuse_deep(&self, depth: usize) -> Result<(), ReadError> {
        if depth > DEPTH_MAX {
            let problem = format!("values are nested more than {DEPTH_MAX} deep");
            return Err(self.wrong(self.at, problem));
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Value, ReadError> {
        self.refuse_deep(depth)?;
        let rest = &self.text[self.at..];
        if rest.starts_with("#{") {
            self.at += 2;
            return Ok(Value::List(self.until('}', depth)?));
        }
        let start = self.at;
        match rest.chars().next() {
            Some('#') => {
                self.at += 1;
                self.token();
                self.required(depth + 1)
            }
            Some('[') => self.opened(']', depth).map(Value::List),
            Some('(') => self.opened(')', depth).map(Value::List),
            Some('{') => {
                let elements = self.opened('}', depth)?;
                self.map(start, elements)
            }
            Some('"') => self.string(),
            Some('\\') => {
                self.at += 1;
                let first = self.next().map(String::from).unwrap_or_default();
                let rest = self.token();
                Ok(Value::Text(first + rest))
            }
            _ => self.atom(),
        }
    }

    fn opened(&mut self, end: char, depth: usize) -> Result<Vec<Value>, ReadError> {
        self.next();
        self.until(end, depth)
    }

    fn until(&mut self, end: char, depth: usize) -> Result<Vec<Value>, ReadError> {
        let mut elements = Vec::new();
        loop {
            if !self.skip(depth + 1)? {
                return Err(ReadError::Torn { line: self.line });
            }
            if self.peek() == Some(end) {
                self.next();
                return Ok(elements);
            }
            elements.push(self.value(depth + 1)?);
        }
    }

    fn map(&self, start: usize, elements: Vec<Value>) -> Result<Value, ReadError> {
        if !elements.len().is_multiple_of(2) {
            return Err(self.wrong(start, "a map has a key without a value"));
        }
        let mut entries = BTreeMap::new();
        let mut elements = elements.into_iter();
        while let (Some(key), Some(value)) = (elements.next(), elements.next()) {
            let key = match key {
                Value::Text(text) => text,
                other => write(&other),
            };
            entries.insert(key, value);
        }
        Ok(Value::Map(entries))
    }

    fn string(&mut self) -> Result<Value, ReadError> {
        self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                Some('"') => return Ok(Value::Text(text)),
                Some('\\') => {
                    let escaped = self.escaped()?;
                    text.push(escaped);
                }
                Some(other) => text.push(other),
                None => return Err(ReadError::Torn { line: self.line }),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, ReadError> {
        let start = self.at - 1;
        Ok(match self.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(same @ ('"' | '\\')) => same,
            Some('u') => {
                let digits: String = (0..4).filter_map(|_| self.next()).collect();
                u32::from_str_radix(&digits, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .ok_or_else(|| self.wrong(start, format!("\\u{digits} is no character")))?
            }
            Some(other) => {
                let problem = format!("\\{other} means nothing in a string");
                return Err(self.wrong(start, problem));
            }
            None => return Err(ReadError::Torn { line: self.line }),
        })
    }

    /// Up to the next delimiter.
    fn token(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|next: char| next.is_whitespace() || ",;()[]{}\"\\".contains(next));
        let token = &rest[..end.unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    fn atom(&mut self) -> Result<Value, ReadError> {
        let start = self.at;
        let token = self.token();
        if let Some(keyword) = token.strip_prefix(':') {
            return Ok(Value::Text(keyword.to_owned()));
        }
        let digits = token.trim_start_matches(['+', '-']);
        if digits.starts_with(|first: char| first.is_ascii_digit()) {
            return number(token)
                .ok_or_else(|| self.wrong(start, format!("the number {token} is not understood")));
        }
        match token {
            "" => {
                let found = self.peek().map(String::from).unwrap_or_default();
                Err(self.wrong(start, format!("'{found}' where a value is expected")))
            }
            "nil" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            symbol => Ok(Value::Text(symbol.to_owned())),
        }
    }
}

fn number(token: &str) -> Option<Value> {
    let whole = token.strip_suffix('N').unwrap_or(token);
    if let Ok(number) = whole.parse() {
        return Some(Value::Int(number));
    }
    let decimal = token.strip_suffix('M').unwrap_or(token);
    let is_float = decimal.contains(['.', 'e', 'E']);
    let number: f64 = decimal.parse().ok().filter(|_| is_float)?;
    number.is_finite().then_some(Value::Float(Float(number)))
}

/// Whether a keyword of this name reads as this text.
pub(super) fn is_keyword(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.*+!?<>=/".contains(&byte))
}

/// A value as EDN.
pub(super) fn write(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Float(number) => format!("{:?}", number.0),
        Value::Bool(_) | Value::Int(_) => value.to_json().to_string(),
        Value::Text(text) => string(text),
        Value::List(elements) => {
            let elements: Vec<_> = elements.iter().map(write).collect();
            format!("[{}]", elements.join(" "))
        }
        Value::Map(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(name, value)| {
                    let name = if is_keyword(name) {
                        format!(":{name}")
                    } else {
                        string(name)
                    };
                    format!("{name} {}", write(value))
                })
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn string(text: &str) -> String {
    let mut written = String::from("\"");
    for next in text.chars() {
        match next {
            '"' => written += "\\\"",
            '\\' => written += "\\\\",
            '\n' => written += "\\n",
            '\t' => written += "\\t",
            '\r' => written += "\\r",
            other => written.push(other),
        }
    }
    written + "\""
}
