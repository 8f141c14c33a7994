//! Rows of facts about files, the same wherever a crash left them.

use datalog::Value;

/// A row, and the relation that it is of.
pub type Fact = (&'static str, Vec<Value>);

/// Of a larger file nobody is told the lines, in bytes.
pub const LINES_OF_MAX: u64 = 1 << 20;

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

/// Why nothing can be said of a state with a file that is too large.
pub fn too_many_lines(node: &str, path: &str) -> String {
    format!(
        "rules ask for the lines of files, and {path} of {node} has more than {LINES_OF_MAX} bytes"
    )
}
