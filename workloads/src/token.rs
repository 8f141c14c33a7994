//! Cuts a line into statements and words, and knows where each word stood.

use std::borrow::Cow;

use crate::error::{Fault, Problem};

/// One word of a statement.
#[derive(Debug, Clone)]
pub(crate) struct Word<'a> {
    pub text: Cow<'a, str>,
    /// Byte of the line at which it starts.
    pub offset: usize,
    /// Byte of the line after it.
    pub end: usize,
    /// In quotes it is never a keyword or a handle.
    pub quoted: bool,
}

impl Word<'_> {
    /// The word where a keyword may stand; nothing when it is quoted.
    pub fn keyword(&self) -> &str {
        if self.quoted { "" } else { &self.text }
    }
}

/// A place in a line.
pub(crate) struct Line<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Line<'a> {
    pub fn new(text: &'a str) -> Line<'a> {
        Line { text, offset: 0 }
    }

    /// The next word of this statement; nothing at its end.
    pub fn word(&mut self) -> Result<Option<Word<'a>>, Fault> {
        self.skip_blanks();
        match self.peek() {
            None | Some(b';' | b'#') => Ok(None),
            Some(b'"') => self.quoted().map(Some),
            Some(_) => self.bare().map(Some),
        }
    }

    /// The remaining words of this statement.
    pub fn words(&mut self, words: &mut Vec<Word<'a>>) -> Result<(), Fault> {
        words.clear();
        while let Some(word) = self.word()? {
            words.push(word);
        }
        Ok(())
    }

    /// Goes after the `;` that ends this statement; false at the end of the line.
    pub fn next_statement(&mut self) -> bool {
        let more = self.peek() == Some(b';');
        self.offset += usize::from(more);
        more
    }

    /// Free text: one quoted string, or the rest of the line up to a comment.
    pub fn free_text(&mut self, what: &'static str) -> Result<String, Fault> {
        self.skip_blanks();
        if self.peek() == Some(b'"') {
            let text = self.quoted()?.text.into_owned();
            return self
                .word()?
                .map_or(Ok(text), |word| Err(trailing_text(&word)));
        }
        let rest = &self.text[self.offset..];
        let bare = rest
            .split('#')
            .next()
            .unwrap_or_default()
            .trim_end_matches(is_blank);
        if bare.is_empty() {
            return Err(Fault::new(
                self.offset,
                Problem::Expected { what, found: None },
            ));
        }
        self.offset = self.text.len();
        Ok(bare.to_owned())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| is_blank(byte as char)) {
            self.offset += 1;
        }
    }

    fn bare(&mut self) -> Result<Word<'a>, Fault> {
        let start = self.offset;
        while let Some(byte) = self.peek() {
            match byte {
                b';' | b'#' => break,
                b'"' => return Err(self.malformed("a quote inside a word (quote the whole word)")),
                _ if is_blank(byte as char) => break,
                _ => self.offset += 1,
            }
        }
        Ok(Word {
            text: Cow::Borrowed(&self.text[start..self.offset]),
            offset: start,
            end: self.offset,
            quoted: false,
        })
    }

    fn quoted(&mut self) -> Result<Word<'a>, Fault> {
        let start = self.offset;
        let Some(length) = quoted_length(&self.text.as_bytes()[start..]) else {
            return Err(self.malformed("a quote that is not closed on its line"));
        };
        self.offset = start + length;
        if self
            .peek()
            .is_some_and(|byte| !is_blank(byte as char) && byte != b';' && byte != b'#')
        {
            return Err(self
                .malformed("expected a blank, ';' or the end of the line after a closing quote"));
        }
        let inner = &self.text[start + 1..self.offset - 1];
        Ok(Word {
            text: unescape(inner, start + 1)?,
            offset: start,
            end: self.offset,
            quoted: true,
        })
    }

    fn malformed(&self, what: &'static str) -> Fault {
        Fault::new(self.offset, Problem::Malformed(what))
    }
}

/// Bytes from the opening to the closing quote, both included.
fn quoted_length(bytes: &[u8]) -> Option<usize> {
    let mut offset = 1;
    loop {
        match bytes.get(offset)? {
            b'"' => return Some(offset + 1),
            b'\\' => offset += 2,
            _ => offset += 1,
        }
    }
}

fn unescape(inner: &str, offset: usize) -> Result<Cow<'_, str>, Fault> {
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        text.push(match characters.next() {
            Some((_, escaped @ ('"' | '\\'))) => escaped,
            Some((_, 'n')) => '\n',
            Some((_, 'r')) => '\r',
            Some((_, 't')) => '\t',
            _ => {
                let what = "unknown escape (known are \\\" \\\\ \\n \\r \\t)";
                return Err(Fault::new(offset + at, Problem::Malformed(what)));
            }
        });
    }
    Ok(Cow::Owned(text))
}

fn trailing_text(word: &Word<'_>) -> Fault {
    let problem = Problem::Trailing {
        word: word.text.to_string(),
        after: "quoted text".to_owned(),
    };
    Fault::new(word.offset, problem)
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, usize)> {
        let mut words = Vec::new();
        Line::new(text).words(&mut words).unwrap();
        words
            .into_iter()
            .map(|word| (word.text.into_owned(), word.offset))
            .collect()
    }

    #[test]
    fn a_word_knows_where_it_stood() {
        assert_eq!(
            words("  creat\tfoo "),
            [("creat".to_owned(), 2), ("foo".to_owned(), 8)]
        );
    }

    #[test]
    fn a_statement_ends_at_a_semicolon_or_a_comment() {
        assert_eq!(words("sync;sync").len(), 1);
        assert_eq!(words("sync#sync").len(), 1);
        assert_eq!(words("\"a;#b\" c").len(), 2);
    }

    #[test]
    fn quotes_hold_blanks_and_escapes() {
        assert_eq!(words(r#""a b\"\\\n""#)[0].0, "a b\"\\\n");
        assert_eq!(words(r"a\b")[0].0, r"a\b");
    }

    #[test]
    fn free_text_runs_over_semicolons_to_a_comment() {
        let free = |text| Line::new(text).free_text("text").unwrap();
        assert_eq!(
            free(" mountable; rm works  # said the paper"),
            "mountable; rm works"
        );
        assert_eq!(free("\"issue #1\" # quoted"), "issue #1");
    }
}
