//! The words of rules, with their positions.

use crate::problem::{Checked, Position, Wrong};

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// A name that begins with a small letter: a relation, a column, a function.
    Name(String),
    /// A name that begins with a capital letter or `_`.
    Variable(String),
    Integer(i64),
    Text(String),
    Sign(&'static str),
    End,
}

impl Word {
    /// As a message names it.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Name(name) | Self::Variable(name) => format!("`{name}`"),
            Self::Integer(number) => format!("`{number}`"),
            Self::Text(text) => format!("{text:?}"),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end of the text".into(),
        }
    }
}

/// A word, where it begins, and where it is in the text.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) word: Word,
    pub(crate) at: Position,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// Signs, those first that begin like a shorter one.
const SIGNS: [&str; 19] = [
    ":-", "!=", "!~", "<=", ">=", "(", ")", ",", ".", "!", "=", "<", ">", "~", "+", "-", "*", "/",
    "%",
];

/// What may follow a number: units of time, in nanoseconds.
const UNITS: [(&str, u64); 5] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
];

struct Lexer<'a> {
    text: &'a str,
    place: usize,
    at: Position,
}

/// The words of a text; the last one is [`Word::End`].
pub(crate) fn words(text: &str) -> Checked<Vec<Token>> {
    let at = Position { line: 1, column: 1 };
    let mut lexer = Lexer { text, place: 0, at };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let (at, begin) = (lexer.at, lexer.place);
        let word = lexer.word()?;
        let is_end = word == Word::End;
        let end = lexer.place;
        tokens.push(Token {
            word,
            at,
            begin,
            end,
        });
        if is_end {
            return Ok(tokens);
        }
    }
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.place..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.place += next.len_utf8();
        if next == '\n' {
            self.at.line += 1;
            self.at.column = 1;
        } else {
            self.at.column += 1;
        }
        Some(next)
    }

    fn take_while(&mut self, is_of_it: impl Fn(char) -> bool) -> &'a str {
        let begin = self.place;
        while self.peek().is_some_and(&is_of_it) {
            self.next();
        }
        &self.text[begin..self.place]
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(char::is_whitespace);
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|next| next != '\n');
        }
    }

    fn word(&mut self) -> Checked<Word> {
        let Some(first) = self.peek() else {
            return Ok(Word::End);
        };
        match first {
            '"' => self.quoted(),
            '0'..='9' => self.number(),
            'a'..='z' => Ok(Word::Name(self.name())),
            'A'..='Z' | '_' => Ok(Word::Variable(self.name())),
            ':' if !self.rest().starts_with(":-") => {
                self.next();
                Ok(Word::Sign(":"))
            }
            _ => self.sign(first),
        }
    }

    fn name(&mut self) -> String {
        let is_of_name = |next: char| next.is_ascii_alphanumeric() || next == '_';
        self.take_while(is_of_name).to_owned()
    }

    fn sign(&mut self, first: char) -> Checked<Word> {
        let sign = SIGNS.into_iter().find(|sign| self.rest().starts_with(sign));
        let Some(sign) = sign else {
            let what = match first {
                '\'' => "text stands in double quotes: \"k1\"".to_owned(),
                '?' => "a question is a rule: `answer(K) :- …`".to_owned(),
                _ => format!("`{first}` means nothing in a rule"),
            };
            return Err(Wrong::new(self.at, what));
        };
        for _ in sign.chars() {
            self.next();
        }
        Ok(Word::Sign(sign))
    }

    fn quoted(&mut self) -> Checked<Word> {
        let begin = self.at;
        self.next();
        let mut text = String::new();
        loop {
            let at = self.at;
            match self.next() {
                None | Some('\n') => {
                    return Err(Wrong::new(
                        begin,
                        "this text has no closing quote in its line",
                    ));
                }
                Some('"') => return Ok(Word::Text(text)),
                Some('\\') => text.push(self.escaped(at)?),
                Some('\0') => return Err(Wrong::new(at, "a text cannot have a zero byte")),
                Some(other) => text.push(other),
            }
        }
    }

    fn escaped(&mut self, at: Position) -> Checked<char> {
        match self.next() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some(same @ ('"' | '\\')) => Ok(same),
            _ => {
                let what = "after a backslash stands n, t, \" or another backslash; a regular \
                            expression has two of them: \"term (\\\\d+)\"";
                Err(Wrong::new(at, what))
            }
        }
    }

    /// A number, perhaps with a unit of time: then it is that in nanoseconds.
    fn number(&mut self) -> Checked<Word> {
        let at = self.at;
        let is_digit = |next: char| next.is_ascii_digit() || next == '_';
        let whole = self.take_while(is_digit).replace('_', "");
        let mut parts = "";
        let mut after = self.rest().chars().skip(1);
        if self.peek() == Some('.') && after.next().is_some_and(|next| next.is_ascii_digit()) {
            self.next();
            parts = self.take_while(|next| next.is_ascii_digit());
        }
        let unit = self.take_while(|next| next.is_ascii_alphabetic());
        let scale = match (unit, UNITS.iter().find(|(name, _)| *name == unit)) {
            ("", _) if parts.is_empty() => 1,
            (_, Some((_, scale))) => *scale,
            ("", None) => return Err(Wrong::new(at, "numbers are whole, or times such as 1.5s")),
            (unit, None) => {
                let what = format!("`{unit}` is no unit of time: ns, us, ms, s, min");
                return Err(Wrong::new(at, what));
            }
        };
        scaled(&whole, parts, scale)
            .map(Word::Integer)
            .ok_or_else(|| Wrong::new(at, "this number does not fit into 64 bits"))
    }
}

/// The number `whole.parts`, so many times; less than one is cut off.
fn scaled(whole: &str, parts: &str, scale: u64) -> Option<i64> {
    let whole: i128 = whole.parse().ok()?;
    let digits: i128 = if parts.is_empty() {
        0
    } else {
        parts.parse().ok()?
    };
    let tens = 10_i128.checked_pow(parts.len() as u32)?;
    let scale = i128::from(scale);
    let sum = whole
        .checked_mul(scale)?
        .checked_add(digits.checked_mul(scale)? / tens)?;
    i64::try_from(sum).ok()
}
