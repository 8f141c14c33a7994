//! Tables for people.

/// Rows as lines. Text stands to the left; columns after the first with nothing but numbers below
/// their head stand to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<_> = (0..count)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let is_text = |column: usize| {
        let mut cells = rows.iter().skip(1).filter_map(|row| row.get(column));
        column == 0 || cells.any(|cell| !is_number(cell))
    };
    let texts: Vec<_> = (0..count).map(is_text).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), is_text) in row.iter().zip(&widths).zip(&texts) {
            let gap = if line.is_empty() { "" } else { "  " };
            line += &if *is_text {
                format!("{gap}{cell:<width$}")
            } else {
                format!("{gap}{cell:>width$}")
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Whether a cell has a number, perhaps with its unit, or stands for one that there is not.
fn is_number(cell: &str) -> bool {
    ["", "-", "?"].contains(&cell) || cell.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn numbers_stand_below_each_other() {
        let rows = [["name", "n"], ["a", "10"], ["longer", "5"]]
            .map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "name     n\na       10\nlonger   5\n");
    }

    #[test]
    fn text_stands_to_the_left() {
        let rows = [
            ["name", "what", "n"],
            ["a", "lost", "-"],
            ["b", "is torn", "1.5 s"],
        ]
        .map(|row| row.map(str::to_owned).to_vec());
        let lines = "name  what         n\na     lost         -\nb     is torn  1.5 s\n";
        assert_eq!(columns(&rows), lines);
    }
}
