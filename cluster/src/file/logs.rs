//! Which lines that nodes log are errors, and which of these are expected.

use serde::Deserialize;
use toml::Spanned;

use super::raw::{Words, Wrong};
use super::steps::Names;

/// Lines of logs that are errors, and those of them that are expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogErrors {
    /// A line with this text in it is one.
    pub error: String,
    /// But for one that also has one of these in it.
    pub expected: Vec<String>,
    /// Of these nodes, by their places.
    pub nodes: Vec<usize>,
}

impl LogErrors {
    /// Whether a line of a node is an error that nobody expects.
    pub fn is_unexpected(&self, node: usize, line: &str) -> bool {
        let is_expected = |text: &String| line.contains(text.as_str());
        self.nodes.contains(&node)
            && line.contains(&self.error)
            && !self.expected.iter().any(is_expected)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    error: String,
    #[serde(default)]
    expected: Vec<String>,
    nodes: Option<Vec<String>>,
}

/// What they mean, in a file with so many nodes.
pub(super) fn errors(
    raw: &[Spanned<RawLog>],
    nodes: usize,
    names: &Names,
) -> Result<Vec<LogErrors>, Wrong> {
    let settled = raw.iter().map(|raw| {
        let settled = raw.get_ref().settle(nodes, names);
        settled.map_err(|what| Wrong::at(raw)(format!("logs: {what}")))
    });
    settled.collect()
}

impl RawLog {
    fn settle(&self, nodes: usize, names: &Names) -> Words<LogErrors> {
        if self.error.is_empty() {
            return Err("error is what lines have in them that are errors".into());
        }
        let mut expected = self.expected.iter();
        if let Some(text) = expected.find(|text| self.error.contains(text.as_str())) {
            return Err(format!(
                "each line with \"{}\" has \"{text}\" in it, so none would be an error",
                self.error
            ));
        }
        let named = self.nodes.as_ref().map(|named| names.nodes(named));
        Ok(LogErrors {
            error: self.error.clone(),
            expected: self.expected.clone(),
            nodes: named.transpose()?.unwrap_or_else(|| (0..nodes).collect()),
        })
    }
}
