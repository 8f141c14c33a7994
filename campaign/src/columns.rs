//! Tables for people.

/// Rows as lines. Text stands to the left; columns after the first with nothing but numbers below
/// their head stand to the right.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let columns: Vec<_> = (0..count).map(|index| Column::of(rows, index)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, column) in row.iter().zip(&columns) {
            if !line.is_empty() {
                line += GAP;
            }
            line += &column.padded(cell);
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// What stands between two columns.
const GAP: &str = "  ";

/// How the cells of a column stand.
struct Column {
    width: usize,
    to_the_right: bool,
}

impl Column {
    fn of(rows: &[Vec<String>], index: usize) -> Self {
        let cells: Vec<_> = rows.iter().map(|row| row.get(index)).collect();
        let widths = cells.iter().flatten().map(|cell| cell.chars().count());
        // The first row is the head.
        let mut below_head = cells.iter().skip(1).flatten();
        Self {
            width: widths.max().unwrap_or(0),
            to_the_right: index > 0 && below_head.all(|cell| is_number(cell)),
        }
    }

    fn padded(&self, cell: &str) -> String {
        let width = self.width;
        if self.to_the_right {
            format!("{cell:>width$}")
        } else {
            format!("{cell:<width$}")
        }
    }
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
