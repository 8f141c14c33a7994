//! What rules can do with texts and numbers, as functions of the database.

use std::sync::Arc;

use regex::Regex;
use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};

use crate::syntax::Operation;

/// What is said of a number that does not fit; the sums of the database say the same.
pub(crate) const OVERFLOW: &str = "integer overflow";

/// Adds them to a connection. What has no value has no value after them either.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("matches", 2, flags, |context| {
        let text = context.get_raw(1).as_str_or_null()?;
        let pattern = pattern(context)?;
        Ok(text.map(|text| pattern.is_match(text)))
    })?;
    connection.create_scalar_function("captured", 2, flags, |context| {
        let text = context.get_raw(1).as_str_or_null()?;
        let pattern = pattern(context)?;
        Ok(text.and_then(|text| capture(&pattern, text).map(str::to_owned)))
    })?;
    connection.create_scalar_function("number", 1, flags, |context| {
        Ok(context.get_raw(0).as_str_or_null()?.and_then(number))
    })?;
    // What the database calculates by itself is inexact where it does not fit.
    for operation in Operation::ALL {
        connection.create_scalar_function(operation.function(), 2, flags, move |context| {
            let left = context.get_raw(0).as_i64_or_null()?;
            let Some((left, right)) = left.zip(context.get_raw(1).as_i64_or_null()?) else {
                return Ok(None);
            };
            calculated(left, operation, right)
        })?;
    }
    Ok(())
}

/// What comes of two numbers: nothing if one is divided by zero.
pub(crate) fn calculated(
    left: i64,
    operation: Operation,
    right: i64,
) -> rusqlite::Result<Option<i64>> {
    let number = match operation {
        Operation::Add => left.checked_add(right),
        Operation::Subtract => left.checked_sub(right),
        Operation::Multiply => left.checked_mul(right),
        Operation::Divide | Operation::Remainder if right == 0 => return Ok(None),
        Operation::Divide => left.checked_div(right),
        Operation::Remainder => Some(left.wrapping_rem(right)),
    };
    let too_large = || rusqlite::Error::UserFunctionError(OVERFLOW.into());
    number.map(Some).ok_or_else(too_large)
}

/// What the first group of a regular expression matches.
pub(crate) fn capture<'a>(pattern: &Regex, text: &'a str) -> Option<&'a str> {
    Some(pattern.captures(text)?.get(1)?.as_str())
}

/// The whole number that a text is.
pub(crate) fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// The regular expression that is the first argument, compiled once for a statement.
fn pattern(context: &Context<'_>) -> rusqlite::Result<Arc<Regex>> {
    type Failure = Box<dyn std::error::Error + Send + Sync>;
    context.get_or_create_aux(0, |value| -> Result<_, Failure> {
        Ok(Regex::new(value.as_str()?)?)
    })
}
