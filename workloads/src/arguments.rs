//! The arguments of one operation: each is taken in turn and checked for what it must be.

use std::collections::BTreeSet;

use crate::error::{Fault, Problem};
use crate::op::Target;
use crate::token::Word;

/// Offsets and lengths are `off_t`.
const BYTES_MAX: u64 = i64::MAX as u64;
/// What is written is made in memory first.
const DATA_BYTES_MAX: u64 = 1 << 30;
/// PATH_MAX without its NUL.
const PATH_BYTES_MAX: usize = 4095;
/// XATTR_NAME_MAX.
const XATTR_NAME_BYTES_MAX: usize = 255;
/// XATTR_SIZE_MAX.
const XATTR_VALUE_BYTES_MAX: usize = 65536;

pub(crate) const A_PATH: &str = "a path";
pub(crate) const AN_OFFSET: &str = "an offset in bytes (such as 4096 or 4K)";
const A_LENGTH: &str = "a length in bytes (such as 4096 or 4K)";
pub(crate) const A_SIZE: &str = "a size in bytes (such as 4096 or 4K)";
const A_TARGET: &str = "a path or a handle (such as A/foo or @name)";
const A_HANDLE: &str = "a handle (such as @name)";
const A_MODE: &str = "an octal mode (such as 0644)";

/// The words of one operation that were not taken yet.
pub(crate) struct Arguments<'w, 'a> {
    name: &'w str,
    words: &'w [Word<'a>],
    /// Byte of the line where the operation ends: what is missing is missing there.
    end: usize,
    handles: &'w mut BTreeSet<String>,
}

impl<'w, 'a> Arguments<'w, 'a> {
    pub fn new(
        name: &'w Word<'a>,
        words: &'w [Word<'a>],
        handles: &'w mut BTreeSet<String>,
    ) -> Arguments<'w, 'a> {
        let end = words.last().unwrap_or(name).end;
        Arguments {
            name: &name.text,
            words,
            end,
            handles,
        }
    }

    pub fn remaining(&self) -> usize {
        self.words.len()
    }

    /// The next word, which must be there.
    pub fn word(&mut self, what: &'static str) -> Result<&'w Word<'a>, Fault> {
        let missing = Fault::new(self.end, Problem::Expected { what, found: None });
        let (first, rest) = self.words.split_first().ok_or(missing)?;
        self.words = rest;
        Ok(first)
    }

    /// The next word, if there is one.
    pub fn optional(&mut self) -> Option<&'w Word<'a>> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// Every word must have been taken.
    pub fn finish(self) -> Result<(), Fault> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(Fault::new(
                word.offset,
                Problem::Trailing {
                    word: word.text.to_string(),
                    after: self.name.to_owned(),
                },
            )),
        }
    }

    /// A path; `.` is the root.
    pub fn path(&mut self) -> Result<String, Fault> {
        let word = self.word(A_PATH)?;
        path(word)
    }

    /// A path that is made or removed, so not the root.
    pub fn name(&mut self) -> Result<String, Fault> {
        let word = self.word(A_PATH)?;
        if word.text == "." {
            return Err(bad_path(
                word,
                "is the root, which cannot be made, renamed or removed",
            ));
        }
        path(word)
    }

    /// A path, or a handle that is open.
    pub fn target(&mut self) -> Result<Target, Fault> {
        let word = self.word(A_TARGET)?;
        let Some(name) = word.keyword().strip_prefix('@') else {
            return path(word).map(Target::Path);
        };
        if !self.handles.contains(name) {
            return Err(Fault::new(
                word.offset,
                Problem::HandleNotOpen {
                    name: name.to_owned(),
                },
            ));
        }
        Ok(Target::Handle(name.to_owned()))
    }

    /// The target of `close`.
    pub fn closed_target(&mut self) -> Result<Target, Fault> {
        let target = self.target()?;
        if let Target::Handle(name) = &target {
            self.handles.remove(name);
        }
        Ok(target)
    }

    /// `as @name`, which is open from here on.
    pub fn new_handle(&mut self) -> Result<String, Fault> {
        let word = self.word("'as @HANDLE'")?;
        if word.keyword() != "as" {
            return Err(expected("'as @HANDLE'", word));
        }
        let word = self.word(A_HANDLE)?;
        let name = word
            .keyword()
            .strip_prefix('@')
            .filter(|name| is_handle_name(name));
        let name = name.ok_or_else(|| expected(A_HANDLE, word))?;
        if !self.handles.insert(name.to_owned()) {
            return Err(Fault::new(
                word.offset,
                Problem::HandleOpen {
                    name: name.to_owned(),
                },
            ));
        }
        Ok(name.to_owned())
    }

    /// A number of bytes: `4096`, `4K`, `1M`, or a product of two such as `3*4K`.
    pub fn bytes(&mut self, what: &'static str) -> Result<u64, Fault> {
        self.bytes_up_to(what, BYTES_MAX)
    }

    /// How many bytes are written.
    pub fn data_length(&mut self) -> Result<u64, Fault> {
        self.bytes_up_to(A_LENGTH, DATA_BYTES_MAX)
    }

    fn bytes_up_to(&mut self, what: &'static str, most: u64) -> Result<u64, Fault> {
        let word = self.word(what)?;
        match parse_bytes(word.keyword()) {
            Number::Value(bytes) if bytes <= most => Ok(bytes),
            Number::NotOne => Err(expected(what, word)),
            _ => Err(too_large(word, what, most.to_string())),
        }
    }

    /// An offset and a length whose end is an offset too.
    pub fn range(&mut self) -> Result<(u64, u64), Fault> {
        self.range_up_to(BYTES_MAX)
    }

    /// The same of bytes that are written.
    pub fn data_range(&mut self) -> Result<(u64, u64), Fault> {
        self.range_up_to(DATA_BYTES_MAX)
    }

    fn range_up_to(&mut self, most: u64) -> Result<(u64, u64), Fault> {
        let offset = self.bytes(AN_OFFSET)?;
        let length_word = self.words.first();
        let length = self.bytes_up_to(A_LENGTH, most)?;
        match length_word {
            Some(word) if offset + length > BYTES_MAX => Err(too_large(
                word,
                "a length at this offset",
                (BYTES_MAX - offset).to_string(),
            )),
            _ => Ok((offset, length)),
        }
    }

    /// A decimal number up to `limit`.
    pub fn number(&mut self, what: &'static str, limit: u32) -> Result<u32, Fault> {
        let word = self.word(what)?;
        match parse_digits(word.keyword()) {
            Number::Value(number) if number <= u64::from(limit) => Ok(number as u32),
            Number::NotOne => Err(expected(what, word)),
            _ => Err(too_large(word, what, limit.to_string())),
        }
    }

    pub fn mode(&mut self) -> Result<u32, Fault> {
        mode(self.word(A_MODE)?)
    }

    pub fn mode_or(&mut self, default: u32) -> Result<u32, Fault> {
        self.optional().map_or(Ok(default), mode)
    }

    /// What a symbolic link says: anything.
    pub fn link_text(&mut self) -> Result<String, Fault> {
        let what = "the target of the symbolic link (at most 4095 bytes)";
        self.text(what, 1, PATH_BYTES_MAX)
    }

    pub fn xattr_name(&mut self) -> Result<String, Fault> {
        let what = "the name of an extended attribute (such as user.name, at most 255 bytes)";
        self.text(what, 1, XATTR_NAME_BYTES_MAX)
    }

    pub fn xattr_value(&mut self) -> Result<String, Fault> {
        let what = "the value of the extended attribute (at most 65536 bytes)";
        Ok(self
            .bounded_word(what, 0, XATTR_VALUE_BYTES_MAX)?
            .text
            .to_string())
    }

    fn text(&mut self, what: &'static str, least: usize, most: usize) -> Result<String, Fault> {
        let word = self.bounded_word(what, least, most)?;
        if word.text.contains('\0') {
            Err(expected(what, word))
        } else {
            Ok(word.text.to_string())
        }
    }

    fn bounded_word(
        &mut self,
        what: &'static str,
        least: usize,
        most: usize,
    ) -> Result<&'w Word<'a>, Fault> {
        let word = self.word(what)?;
        if (least..=most).contains(&word.text.len()) {
            Ok(word)
        } else {
            Err(expected(what, word))
        }
    }
}

pub(crate) fn expected(what: &'static str, word: &Word<'_>) -> Fault {
    Fault::new(
        word.offset,
        Problem::Expected {
            what,
            found: Some(word.text.to_string()),
        },
    )
}

fn too_large(word: &Word<'_>, what: &'static str, limit: String) -> Fault {
    Fault::new(
        word.offset,
        Problem::TooLarge {
            number: word.text.to_string(),
            what,
            limit,
        },
    )
}

fn bad_path(word: &Word<'_>, reason: &'static str) -> Fault {
    Fault::new(
        word.offset,
        Problem::BadPath {
            path: word.text.to_string(),
            reason,
        },
    )
}

pub(crate) fn path(word: &Word<'_>) -> Result<String, Fault> {
    if word.keyword().starts_with('@') {
        return Err(expected("a path (a handle cannot stand here)", word));
    }
    match path_problem(&word.text) {
        Some(reason) => Err(bad_path(word, reason)),
        None => Ok(word.text.to_string()),
    }
}

/// Why a path is not one below the root of the file system.
fn path_problem(path: &str) -> Option<&'static str> {
    if path == "." {
        return None;
    }
    if path.starts_with('/') {
        return Some("must be relative to the root of the file system");
    }
    if path.len() > PATH_BYTES_MAX {
        return Some("is longer than 4095 bytes");
    }
    path.split('/').find_map(|component| match component {
        "" => Some("has an empty component"),
        "." => Some("has a '.' in it (only the root is written '.')"),
        ".." => Some("must not contain '..'"),
        _ if component.contains('\0') => Some("contains a NUL character"),
        _ => None,
    })
}

fn mode(word: &Word<'_>) -> Result<u32, Fault> {
    let digits = word.keyword();
    if digits.is_empty() || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        return Err(expected(A_MODE, word));
    }
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err(too_large(word, A_MODE, "7777".to_owned())),
    }
}

pub(crate) fn is_handle_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|character| character.is_alphanumeric() || "_-.".contains(character))
}

/// What a word says as a number.
pub(crate) enum Number {
    Value(u64),
    TooLarge,
    NotOne,
}

pub(crate) fn parse_digits(text: &str) -> Number {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Number::NotOne;
    }
    text.parse().map_or(Number::TooLarge, Number::Value)
}

fn parse_bytes(text: &str) -> Number {
    match text.split_once('*') {
        None => parse_factor(text),
        Some((left, right)) => product(parse_factor(left), parse_factor(right)),
    }
}

fn parse_factor(text: &str) -> Number {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1024),
        Some(b'M') => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    product(parse_digits(digits), Number::Value(unit))
}

fn product(left: Number, right: Number) -> Number {
    match (left, right) {
        (Number::NotOne, _) | (_, Number::NotOne) => Number::NotOne,
        (Number::Value(left), Number::Value(right)) => left
            .checked_mul(right)
            .map_or(Number::TooLarge, Number::Value),
        _ => Number::TooLarge,
    }
}
