//! Words of a cluster file: `{dir}` and its like, and commands as a shell would take them apart.

use crate::network;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What the names in braces stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Values(pub(crate) BTreeMap<String, String>);

impl Values {
    /// The addresses of nodes with these names.
    pub(crate) fn of_addresses(names: &[String]) -> Self {
        let named = names.iter().zip(1..);
        let address = |(name, number): (&String, u8)| {
            let address = network::address(number);
            (format!("address:{name}"), address.to_string())
        };
        Self(named.map(address).collect())
    }

    /// Replaces each name in braces. Two opening braces are one that is meant.
    ///
    /// # Errors
    /// In words, if a name stands for nothing.
    pub(crate) fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled += before;
            if let Some(after) = after.strip_prefix('{') {
                filled.push('{');
                rest = after;
                continue;
            }
            if let Some((name, after)) = after.split_once('}').filter(|(name, _)| is_name(name)) {
                filled += self.0.get(name).ok_or_else(|| self.unknown(name))?;
                rest = after;
            } else {
                filled.push('{');
                rest = after;
            }
        }
        Ok(filled + rest)
    }

    /// A command's words, filled.
    ///
    /// # Errors
    /// In words, if a name stands for nothing, or a quote is not closed.
    pub(crate) fn command(&self, text: &str) -> Result<Vec<String>, String> {
        let words =
            shlex::split(text).ok_or_else(|| format!("a quote is not closed in: {text}"))?;
        if words.is_empty() {
            return Err("a command is empty".into());
        }
        words.iter().map(|word| self.fill(word)).collect()
    }

    fn unknown(&self, name: &str) -> String {
        let known: Vec<_> = self.0.keys().map(|name| format!("{{{name}}}")).collect();
        format!(
            "{{{name}}}{UNKNOWN}: there are {} {{here}} (and {{{{ is a brace)",
            known.join(" ")
        )
    }
}

/// What is said of a name that stands for nothing.
const UNKNOWN: &str = " stands for nothing here";

/// The name in braces of which an error says that it stands for nothing.
pub(crate) fn unknown_in(error: &str) -> Option<&str> {
    let (before, _) = error.split_once(UNKNOWN)?;
    before.rfind('{').map(|start| &before[start..])
}

fn is_name(text: &str) -> bool {
    let plain = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || "_-:".contains(character)
    };
    text.starts_with(|character: char| character.is_ascii_lowercase()) && text.chars().all(plain)
}

/// Where a program is, as execvp(3) looks for it.
pub(crate) fn find_program(program: &str, path: &str, folder: &Path) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![folder.join(program)]
    } else {
        std::env::split_paths(path)
            .map(|directory| directory.join(program))
            .collect()
    };
    candidates.into_iter().find(|path| {
        nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok() && path.is_file()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let values = [("dir", "/run/x y"), ("address:a", "10.0.0.1")];
        Values(
            values
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    #[test]
    fn names_in_braces_are_replaced_and_other_braces_stay() {
        let fill = |text| values().fill(text).expect("filled");
        assert_eq!(
            fill("a {dir}/b http://{address:a}:1"),
            "a /run/x y/b http://10.0.0.1:1"
        );
        assert_eq!(
            fill("jetstream { store: {dir} }\n{"),
            "jetstream { store: /run/x y }\n{"
        );
        assert_eq!(
            fill("{{dir} {\"a\": 1} ${HOME}"),
            "{dir} {\"a\": 1} ${HOME}"
        );
    }

    #[test]
    fn a_misspelt_name_is_told_with_those_there_are() {
        let error = values().fill("{dri}").expect_err("there is none");
        assert!(
            error.starts_with("{dri} stands for nothing here: there are {address:a} {dir}"),
            "{error}"
        );
    }

    #[test]
    fn a_value_with_a_blank_stays_one_word() {
        assert_eq!(
            values().command("ls '-l x' {dir}").expect("split"),
            ["ls", "-l x", "/run/x y"]
        );
        assert!(values().command("ls 'x").is_err());
        assert!(values().command("  ").is_err());
    }
}
