//! `repeat VARIABLE FROM..TO OPERATION`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::arguments::{Arguments, Number, expected, parse_digits};
use crate::draft::Draft;
use crate::error::{Fault, Problem};
use crate::operation::operation;
use crate::token::Word;

const A_VARIABLE: &str = "the name of a variable (such as i)";
const A_RANGE: &str = "a range of numbers (such as 0..99)";
const AN_OPERATION: &str = "the operation to repeat";

/// Adds the operations that `words`, what follows the keyword `repeat`, stand for.
pub(crate) fn repeat(
    keyword: &Word<'_>,
    words: &[Word<'_>],
    draft: &mut Draft,
) -> Result<(), Fault> {
    let mut handles = BTreeSet::new();
    let mut head = Arguments::new(keyword, words, &mut handles);
    let placeholder = placeholder(head.word(A_VARIABLE)?)?;
    let range_word = head.word(A_RANGE)?;
    let (from, to) = range(range_word)?;
    let first = head.word(AN_OPERATION)?;
    if matches!(
        first.keyword(),
        "repeat" | "workload" | "source" | "expect" | "setup" | "run" | "!"
    ) {
        return Err(expected(AN_OPERATION, first));
    }
    draft
        .reserve((to - from).saturating_add(1))
        .map_err(|problem| Fault::new(range_word.offset, problem))?;
    for number in from..=to {
        let body = substituted(&words[2..], &placeholder, &number.to_string());
        let op = operation(
            &body[0],
            Arguments::new(&body[0], &body[1..], &mut draft.handles),
        )?;
        draft
            .op(op)
            .map_err(|problem| Fault::new(first.offset, problem))?;
    }
    Ok(())
}

fn placeholder(word: &Word<'_>) -> Result<String, Fault> {
    let name = word.keyword();
    if name.is_empty()
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return Err(expected(A_VARIABLE, word));
    }
    Ok(format!("{{{name}}}"))
}

fn range(word: &Word<'_>) -> Result<(u64, u64), Fault> {
    let (from, to) = word
        .keyword()
        .split_once("..")
        .ok_or_else(|| expected(A_RANGE, word))?;
    match (parse_digits(from), parse_digits(to)) {
        (Number::Value(from), Number::Value(to)) if from <= to => Ok((from, to)),
        (Number::Value(_), Number::Value(_)) => Err(Fault::new(
            word.offset,
            Problem::Malformed("the range ends before it starts"),
        )),
        _ => Err(expected(A_RANGE, word)),
    }
}

fn substituted<'a>(words: &[Word<'a>], placeholder: &str, number: &str) -> Vec<Word<'a>> {
    let substitute = |word: &Word<'a>| {
        if !word.text.contains(placeholder) {
            return word.clone();
        }
        Word {
            text: Cow::Owned(word.text.replace(placeholder, number)),
            ..word.clone()
        }
    };
    words.iter().map(substitute).collect()
}
