//! The word that was probably meant.

/// What other tools call it.
const ALIASES: [(&str, &str); 14] = [
    ("touch", "creat"),
    ("create", "creat"),
    ("rm", "remove"),
    ("delete", "remove"),
    ("mv", "rename"),
    ("ln", "link"),
    ("fallocate", "falloc"),
    ("pwrite", "write"),
    ("mwrite", "mmapwrite"),
    ("fsetxattr", "setxattr"),
    ("fremovexattr", "removexattr"),
    ("clone", "reflink"),
    ("checkpoint", "!"),
    ("crash", "!"),
];

/// No statement is longer; a longer word resembles none.
const LENGTH_MAX: usize = 20;

/// The known word that `word` resembles most, if it resembles one.
pub(crate) fn suggestion(word: &str, known: &[&'static str]) -> Option<&'static str> {
    if word.len() > LENGTH_MAX {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let alias = ALIASES
        .iter()
        .find(|(alias, meant)| *alias == lower && known.contains(meant));
    if let Some((_, meant)) = alias {
        return Some(meant);
    }
    let bound = if word.len() <= 4 { 1 } else { 2 };
    known
        .iter()
        .map(|candidate| (strsim::levenshtein(&lower, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= bound && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] = ["fsync", "fdatasync", "rename", "sync", "!"];

    #[test]
    fn a_typing_error_finds_what_was_meant() {
        assert_eq!(suggestion("fsnc", &KNOWN), Some("fsync"));
        assert_eq!(suggestion("fdatsync", &KNOWN), Some("fdatasync"));
        assert_eq!(suggestion("RENAME", &KNOWN), Some("rename"));
    }

    #[test]
    fn another_tools_word_finds_ours_if_it_is_known() {
        assert_eq!(suggestion("mv", &KNOWN), Some("rename"));
        assert_eq!(suggestion("touch", &KNOWN), None);
    }

    #[test]
    fn what_resembles_nothing_suggests_nothing() {
        assert_eq!(suggestion("", &KNOWN), None);
        assert_eq!(suggestion("x", &KNOWN), None);
        assert_eq!(suggestion("frobnicate", &KNOWN), None);
        assert_eq!(suggestion(&"fsync".repeat(1000), &KNOWN), None);
    }
}
