//! Lines of a text for a terminal, each with what it is about.

/// So many letters fit on a line.
pub(super) const COLUMNS: usize = 80;

/// Where the words begin.
const INDENT: usize = 16;

/// Lines, each with what it is about.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) text: String,
    pub(super) count: usize,
    /// What the last was about.
    head: String,
}

impl Lines {
    /// Adds words in so many lines at most. Those that are about the same as the last have no head.
    pub(super) fn add(&mut self, head: &str, words: &str, lines_max: usize) {
        let mut lines = wrapped(&printable(words), COLUMNS - INDENT);
        if lines.len() > lines_max {
            lines.truncate(lines_max);
            let last = lines.last_mut().expect("one at least");
            *last = last
                .chars()
                .take(COLUMNS - INDENT - 1)
                .chain(['…'])
                .collect();
        }
        for (place, line) in lines.iter().enumerate() {
            let head = if place == 0 && self.head != head {
                head
            } else {
                ""
            };
            self.text += format!("  {head:<width$}{line}", width = INDENT - 2).trim_end();
            self.text.push('\n');
        }
        self.count += lines.len();
        head.clone_into(&mut self.head);
    }

    /// Adds a line of a tree, which is indented as it is there, and may be long.
    pub(super) fn add_as_it_is(&mut self, line: &str) {
        self.text += &printable(line);
        self.text.push('\n');
        self.count += 1;
    }

    /// Adds a line in its column.
    pub(super) fn add_dump(&mut self, line: &str) {
        self.text += &format!("{:INDENT$}{line}\n", "");
        self.count += 1;
    }
}

/// The end of a text, as much as there is room for in so many lines: what somebody logged last
/// matters most.
pub(super) fn end_of(words: &str, lines_max: usize) -> String {
    let room = lines_max
        .saturating_mul(COLUMNS - INDENT)
        .saturating_sub(COLUMNS / 2);
    let len = words.chars().count();
    if len <= room {
        words.to_owned()
    } else {
        ['…']
            .into_iter()
            .chain(words.chars().skip(len - room))
            .collect()
    }
}

/// Words for a terminal: what a check quotes from damaged files may have any byte in it.
fn printable(words: &str) -> String {
    let escaped = |letter: char| {
        if letter.is_control() {
            letter.escape_default().to_string()
        } else {
            letter.to_string()
        }
    };
    words.chars().map(escaped).collect()
}

/// Words in lines of so many letters, broken between words where that can be.
fn wrapped(words: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut used = 0;
    for word in words.split(' ') {
        let len = word.chars().count();
        if used > 0 && used + 1 + len > columns {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("one at least");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += len;
        while used > columns {
            let line = lines.last_mut().expect("one at least");
            let rest = line.chars().skip(columns).collect::<String>();
            *line = line.chars().take(columns).collect();
            used = rest.chars().count();
            lines.push(rest);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_broken() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
