//! Lanes for a terminal: a character for each stretch of time.

use super::lanes::{Came, ClientLane, FaultBar, Lanes, NodeLane};

/// How wide it is.
const WIDTH: usize = 80;

/// How wide a name is at most.
const NAME_MAX: usize = 18;

/// Time, and who is drawn how.
struct Canvas {
    end_ns: u64,
    name: usize,
    columns: usize,
    /// The letter of each role.
    roles: Vec<(String, char)>,
}

impl Lanes {
    /// How wide the names are, in characters.
    fn name_width(&self) -> usize {
        let nodes = self.nodes.iter().map(|node| node.name.clone());
        let names = nodes.chain(self.clients.iter().map(lane_name));
        let widths = names.map(|name| name.chars().count());
        widths.max().unwrap_or_default().clamp(8, NAME_MAX)
    }

    /// The lanes, 80 columns wide, and what their characters mean.
    pub fn picture(&self) -> String {
        let name = self.name_width();
        let canvas = Canvas {
            end_ns: self.end_ns,
            name,
            columns: WIDTH - name - 2,
            roles: letters(self),
        };
        let mut text = canvas.scale();
        for fault in &self.faults {
            let cells = canvas.cells(|_| ' ');
            let cells = canvas.over(cells, (fault.start_ns, fault.end_ns), '#');
            text += &canvas.line(&format!("fault {}", fault.number), &cells);
        }
        for node in &self.nodes {
            text += &canvas.line(&node.name, &canvas.node(node, &self.faults));
        }
        for (place, client) in self.clients.iter().enumerate() {
            let broken = self.violations.iter().flat_map(|one| &one.operations);
            let broken: Vec<_> = broken.filter(|of| of.0 == place).map(|of| of.1).collect();
            text += &canvas.line(&lane_name(client), &canvas.client(client, &broken));
        }
        text + &canvas.legend(self)
    }
}

fn lane_name(client: &ClientLane) -> String {
    format!("client {}", client.name)
}

/// A letter for each role, the first one that no other has.
fn letters(lanes: &Lanes) -> Vec<(String, char)> {
    let mut letters: Vec<(String, char)> = Vec::new();
    for bar in lanes.nodes.iter().flat_map(|node| &node.roles) {
        if letters.iter().any(|(role, _)| *role == bar.role) {
            continue;
        }
        let is_free = |letter: &char| letters.iter().all(|(_, other)| other != letter);
        let wanted = bar.role.chars().filter(|letter| letter.is_alphanumeric());
        let letter = wanted.chain('a'..='z').find(is_free).unwrap_or('r');
        letters.push((bar.role.clone(), letter));
    }
    letters
}

impl Canvas {
    fn column(&self, time_ns: u64) -> usize {
        let column = u128::from(time_ns) * self.columns as u128 / u128::from(self.end_ns);
        (column as usize).min(self.columns - 1)
    }

    fn cells(&self, of: impl Fn(usize) -> char) -> Vec<char> {
        (0..self.columns).map(of).collect()
    }

    /// What is there has this character while something is.
    fn over(
        &self,
        mut cells: Vec<char>,
        (start_ns, end_ns): (u64, Option<u64>),
        with: char,
    ) -> Vec<char> {
        let end = end_ns.map_or(self.columns - 1, |end_ns| self.column(end_ns));
        cells[self.column(start_ns)..=end].fill(with);
        cells
    }

    fn line(&self, name: &str, cells: &[char]) -> String {
        let name: String = name.chars().take(self.name).collect();
        let cells: String = cells.iter().collect();
        format!("{name:width$}  {}", cells.trim_end(), width = self.name)
            .trim_end()
            .to_owned()
            + "\n"
    }

    fn scale(&self) -> String {
        let end = format!("{:.3} s", self.end_ns as f64 / 1e9);
        let cells: Vec<_> = format!("0{end:>width$}", width = self.columns - 1)
            .chars()
            .collect();
        self.line("", &cells)
    }

    /// Roles, and over them faults that the node itself has or is cut off by.
    fn node(&self, node: &NodeLane, faults: &[FaultBar]) -> Vec<char> {
        let mut cells = self.cells(|_| '.');
        for bar in &node.roles {
            let letter = self.roles.iter().find(|(role, _)| *role == bar.role);
            let letter = letter.map_or('r', |(_, letter)| *letter);
            cells = self.over(cells, (bar.start_ns, Some(bar.end_ns)), letter);
        }
        for fault in faults.iter().filter(|fault| fault.on.contains(&node.name)) {
            cells = self.over(cells, (fault.start_ns, fault.end_ns), '#');
        }
        cells
    }

    /// What is worth most to know of each stretch is what is shown of it.
    fn client(&self, client: &ClientLane, broken: &[usize]) -> Vec<char> {
        const WORTH: [char; 6] = [' ', '-', 'x', '+', '?', '!'];
        let mut cells = self.cells(|_| ' ');
        let worth = |letter: char| WORTH.iter().position(|known| *known == letter);
        let mut put = |column: usize, letter: char| {
            if worth(cells[column]) < worth(letter) {
                cells[column] = letter;
            }
        };
        for (place, operation) in client.operations.iter().enumerate() {
            let first = self.column(operation.start_ns);
            let last = operation
                .end_ns
                .map_or(self.columns - 1, |end_ns| self.column(end_ns));
            (first..=last).for_each(|column| put(column, '-'));
            let came = match operation.came {
                Came::Ok => '+',
                Came::Fail => 'x',
                Came::Unknown => '?',
            };
            put(last, came);
            if broken.contains(&place) {
                put(last, '!');
            }
        }
        cells
    }

    fn legend(&self, lanes: &Lanes) -> String {
        let roles = self
            .roles
            .iter()
            .map(|(role, letter)| format!("{letter} {role}"));
        let mut words: Vec<_> = roles.collect();
        if !lanes.faults.is_empty() {
            words.push("# a fault is on it".into());
        }
        if !lanes.clients.is_empty() {
            words.push("+ acknowledged, x failed, ? unknown, - open".into());
        }
        if !lanes.violations.is_empty() {
            words.push("! shows what is broken".into());
        }
        let mut lines = vec![String::new()];
        for word in words {
            let last = lines.last_mut().expect("there is one");
            match last.chars().count() {
                0 => *last = word,
                long if long + 2 + word.chars().count() <= WIDTH => *last += &format!(", {word}"),
                _ => lines.push(word),
            }
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Bar, RoleBar, Violation};
    use super::*;

    fn operation(start_ns: u64, end_ns: Option<u64>, came: Came) -> Bar {
        Bar {
            row: 0,
            start_ns,
            end_ns,
            came,
            words: String::new(),
        }
    }

    #[test]
    fn what_is_worth_most_is_seen_and_no_line_is_wider_than_the_terminal() {
        let role = |start_ns: u64, end_ns: u64, role: &str| RoleBar {
            start_ns,
            end_ns,
            role: role.into(),
            more: String::new(),
        };
        let lanes = Lanes {
            end_ns: 700,
            nodes: vec![NodeLane {
                name: "a-node-with-a-very-long-name".into(),
                roles: vec![role(0, 350, "leader"), role(350, 700, "learner")],
                marks: Vec::new(),
            }],
            clients: vec![ClientLane {
                name: "c".into(),
                rows: 1,
                operations: vec![
                    operation(0, Some(100), Came::Ok),
                    operation(100, Some(200), Came::Unknown),
                    operation(200, Some(201), Came::Fail),
                    operation(300, Some(301), Came::Ok),
                    operation(600, None, Came::Unknown),
                ],
                marks: Vec::new(),
            }],
            faults: vec![FaultBar {
                number: 1,
                words: String::new(),
                start_ns: 105,
                end_ns: Some(175),
                on: vec!["a-node-with-a-very-long-name".into()],
                off: Vec::new(),
            }],
            marks: Vec::new(),
            violations: vec![Violation {
                words: String::new(),
                operations: vec![(0, 3)],
            }],
        };
        let picture = lanes.picture();
        let lines: Vec<_> = picture.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{picture}"
        );
        let node = format!(
            "{}  {}{}{}{}",
            "a-node-with-a-very",
            "l".repeat(9),
            "#".repeat(7),
            "l".repeat(14),
            "e".repeat(30)
        );
        assert_eq!(lines[2], node, "{picture}");
        let cells = &lines[3][NAME_MAX + 2..];
        assert_eq!(
            cells.chars().filter(|cell| *cell == '!').count(),
            1,
            "{picture}"
        );
        assert!(
            cells.starts_with("--------+") && cells.ends_with("---?"),
            "{picture}"
        );
        assert!(
            picture.contains("l leader, e learner, # a fault is on it"),
            "{picture}"
        );
    }
}
