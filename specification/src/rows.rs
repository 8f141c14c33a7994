//! Rows of facts about files, the same wherever a crash left them.

use datalog::{Program, Value};

/// A row, and the relation that it is of.
pub type Fact = (&'static str, Vec<Value>);

/// Of a larger file nobody is told the lines, in bytes.
pub const LINES_OF_MAX: u64 = 1 << 20;

/// Of a larger file of a file system nobody is told what is in it, in bytes.
pub const CONTENT_OF_MAX: u64 = 64 << 20;

/// So much of a file is shown, in bytes.
pub const BEGINS: u64 = 64;

/// Bytes as a text that a database takes.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "")
}

/// What a directory has at a path: a kind of `entry`, its size in bytes, and the target of a symbolic
/// link.
pub fn entry(
    node: &str,
    path: &str,
    (kind, size, target): (&'static str, u64, String),
) -> Vec<Value> {
    vec![
        node.into(),
        path.into(),
        kind.into(),
        i64::try_from(size).unwrap_or(i64::MAX).into(),
        target.into(),
    ]
}

/// What a file has, by the hash of its bytes in hexadecimal, and the first [`BEGINS`] of them.
pub fn content(node: &str, path: &str, hash: String, begins: &[u8]) -> Vec<Value> {
    vec![node.into(), path.into(), hash.into(), text(begins).into()]
}

/// The lines of a file that has these bytes.
pub fn lines(node: &str, path: &str, bytes: &[u8]) -> Vec<Vec<Value>> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = (1_i64..).zip(whole.split(|byte| *byte == b'\n'));
    let row = |(number, line)| {
        vec![
            node.into(),
            path.into(),
            Value::Integer(number),
            text(line).into(),
        ]
    };
    lines.map(row).collect()
}

/// Whether the lines of a file are told: if rules ask for lines, or anybody may ask for anything. Those
/// of a file with more than [`LINES_OF_MAX`] bytes never are.
///
/// # Errors
/// Why nothing can be said of a state with this file, if it is so large and rules may ask for its lines.
pub fn are_lines_told<'a>(
    mut rules: impl Iterator<Item = &'a Program>,
    are_all: bool,
    (node, path, size): (&str, &str, u64),
) -> Result<bool, String> {
    if size <= LINES_OF_MAX {
        return Ok(are_all || rules.any(|program| program.mentions("line")));
    }
    if rules.any(|program| program.may_ask("line", "path", &path.into())) {
        let of = if node.is_empty() { "" } else { " of " };
        return Err(format!(
            "rules may ask for the lines of {path}{of}{node}, which has more than {LINES_OF_MAX} bytes: \
             name the files that are meant, as in line(path: P), P !~ \"[.]log$\""
        ));
    }
    Ok(false)
}

/// The same of what a file of a file system holds; it is not told of one with more than
/// [`CONTENT_OF_MAX`] bytes.
///
/// # Errors
/// Why nothing can be said of a state with this file, if it is so large and rules may ask for it.
pub fn is_content_told<'a>(
    mut rules: impl Iterator<Item = &'a Program>,
    are_all: bool,
    (node, path, size): (&str, &str, u64),
) -> Result<bool, String> {
    if size <= CONTENT_OF_MAX {
        return Ok(are_all || rules.any(|program| program.mentions("content")));
    }
    if rules.any(|program| program.may_ask("content", "path", &path.into())) {
        return Err(format!(
            "rules may ask for what {path} of {node} holds, which has more than {CONTENT_OF_MAX} bytes: \
             name the files that are meant, as in content(path: P), P !~ \"[.]log$\""
        ));
    }
    Ok(false)
}
