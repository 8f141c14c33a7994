//! A run as lanes: what each client did, what each node was, and which faults were on whom.

use history::{Anomaly, History, Operation, Outcome};
use serde::Serialize;

use super::directory::{InjectManifest, InjectResult};
use super::ran::{FaultCame, Happening, Ran};

/// So many operations of one client are drawn below each other that are open at the same time.
const ROWS_MAX: usize = 32;

/// Whose lane it is that nobody else's is.
const CLIENTS: &str = "clients";

/// A run, as it is drawn. Times are nanoseconds since the start of the clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lanes {
    /// When it was over.
    pub end_ns: u64,
    /// A lane for each node.
    pub nodes: Vec<NodeLane>,
    /// A lane for each client.
    pub clients: Vec<ClientLane>,
    /// The faults that were in place.
    pub faults: Vec<FaultBar>,
    /// What happened to all.
    pub marks: Vec<Mark>,
    /// What clients saw that may not be.
    pub violations: Vec<Violation>,
}

/// What a node was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeLane {
    /// Its name.
    pub name: String,
    /// The roles that it had.
    pub roles: Vec<RoleBar>,
    /// What happened on it.
    pub marks: Vec<Mark>,
}

/// A node has a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoleBar {
    /// From then on.
    pub start_ns: u64,
    /// Until then.
    pub end_ns: u64,
    /// The role.
    pub role: String,
    /// What else the probe said of it.
    pub more: String,
}

/// Something that takes no time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// When.
    pub time_ns: u64,
    /// What.
    pub words: String,
}

/// What a client did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientLane {
    /// Its name.
    pub name: String,
    /// How many rows its operations need, so that none covers another.
    pub rows: usize,
    /// Its operations, in the order of their calls.
    pub operations: Vec<Bar>,
    /// What happened to it.
    pub marks: Vec<Mark>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// Its row.
    pub row: usize,
    /// When it was called.
    pub start_ns: u64,
    /// When an answer came; none if none did.
    pub end_ns: Option<u64>,
    /// What became of it.
    pub came: Came,
    /// The operation in words.
    pub words: String,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Came {
    /// It took effect.
    Ok,
    /// It took none.
    Fail,
    /// Nobody knows.
    Unknown,
}

/// A fault that was in place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultBar {
    /// Its number in the plan.
    pub number: usize,
    /// In words.
    pub words: String,
    /// From then on.
    pub start_ns: u64,
    /// Until then; none if its end was never verified.
    pub end_ns: Option<u64>,
    /// The lanes that it is on. Of links one side.
    pub on: Vec<String>,
    /// The lanes of the other side of links.
    pub off: Vec<String>,
}

/// What clients saw that may not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Who saw what.
    pub words: String,
    /// Which operations show it: the client's place, and the operation's among that client's.
    pub operations: Vec<(usize, usize)>,
}

impl Lanes {
    /// Those of a run of which this history is left, if one is, and what is wrong with it.
    pub fn of(
        manifest: &InjectManifest,
        result: &InjectResult,
        history: Option<&History>,
        anomalies: &[Anomaly],
    ) -> Self {
        let ran = &result.ran;
        let operations = history.map_or(&[][..], History::operations);
        let times = operations.iter().filter_map(|one| one.return_ns);
        let times = times.chain(operations.iter().map(|one| one.call_ns));
        let times = times.chain(ran.events.iter().map(|event| event.time_ns));
        let end_ns = times.max().unwrap_or_default().max(1);
        let (clients, places) = clients(ran, operations);
        Self {
            end_ns,
            nodes: manifest
                .nodes
                .iter()
                .map(|name| node(name, ran, end_ns))
                .collect(),
            clients,
            faults: faults(ran),
            marks: marks(ran, |what| match what {
                Happening::Restored { nodes } => {
                    Some(format!("only a majority is restored: {}", nodes.join(", ")))
                }
                Happening::Healed => Some("everything is healed".into()),
                Happening::Progress => Some("operations are acknowledged again".into()),
                Happening::ProbeFailed { why } => Some(format!("the probe failed: {why}")),
                _ => None,
            }),
            violations: anomalies
                .iter()
                .map(|one| violation(one, &places))
                .collect(),
        }
    }
}

fn violation(anomaly: &Anomaly, places: &[(usize, usize)]) -> Violation {
    let of = anomaly
        .key
        .as_ref()
        .map_or_else(String::new, |key| format!(" of {key}"));
    Violation {
        words: format!("{}{of}: {}", anomaly.kind.name(), anomaly.in_words()),
        operations: anomaly
            .operations
            .iter()
            .chain(&anomaly.more)
            .map(|&place| places[place])
            .collect(),
    }
}

fn marks(ran: &Ran, words: impl Fn(&Happening) -> Option<String>) -> Vec<Mark> {
    let mark = |event: &super::ran::RunEvent| {
        words(&event.what).map(|words| Mark {
            time_ns: event.time_ns,
            words,
        })
    };
    ran.events.iter().filter_map(mark).collect()
}

/// The roles that a node had, and how long.
fn roles(name: &str, ran: &Ran, end_ns: u64) -> Vec<RoleBar> {
    let mut roles: Vec<RoleBar> = Vec::new();
    for event in &ran.events {
        let ends_ns = event.time_ns;
        let is_open = roles.last().is_some_and(|last| last.end_ns == end_ns);
        match &event.what {
            Happening::Role { node, role, more } if node == name => {
                if let Some(last) = roles.last_mut().filter(|_| is_open) {
                    last.end_ns = ends_ns;
                }
                roles.push(RoleBar {
                    start_ns: ends_ns,
                    end_ns,
                    role: role.clone(),
                    more: more.clone(),
                });
            }
            Happening::NodeEnded { node, .. } if node == name && is_open => {
                roles.last_mut().expect("it is open").end_ns = ends_ns;
            }
            _ => {}
        }
    }
    roles
}

fn node(name: &str, ran: &Ran, end_ns: u64) -> NodeLane {
    let own = |what: &Happening| match what {
        Happening::Call { node, words } if node == name => Some(words.clone()),
        Happening::NodeEnded { node, how } if node == name => Some(format!("{how} by itself")),
        Happening::Ready { node } if node == name => Some("is ready".into()),
        Happening::NotReady { node, why } if node == name => Some(format!("is not ready: {why}")),
        _ => None,
    };
    NodeLane {
        name: name.into(),
        roles: roles(name, ran, end_ns),
        marks: marks(ran, own),
    }
}

/// The clients, and where in their lanes each operation of the history is.
fn clients(ran: &Ran, operations: &[Operation]) -> (Vec<ClientLane>, Vec<(usize, usize)>) {
    let mut clients: Vec<ClientLane> = Vec::new();
    // Of each client until when each row is taken.
    let mut taken: Vec<Vec<u64>> = Vec::new();
    let mut places = Vec::new();
    for operation in operations {
        let of = usize::try_from(operation.process).ok();
        let name = of.and_then(|process| ran.processes.get(process));
        let name = name.map_or(CLIENTS, String::as_str);
        let known = clients.iter().position(|client| client.name == name);
        let place = known.unwrap_or_else(|| {
            taken.push(Vec::new());
            clients.push(client(name, ran));
            clients.len() - 1
        });
        let bar = bar(operation, &mut taken[place]);
        places.push((place, clients[place].operations.len()));
        clients[place].rows = clients[place].rows.max(bar.row + 1);
        clients[place].operations.push(bar);
    }
    (clients, places)
}

fn client(name: &str, ran: &Ran) -> ClientLane {
    ClientLane {
        name: name.into(),
        rows: 1,
        operations: Vec::new(),
        marks: marks(ran, |what| match what {
            Happening::ClientEnded { client, how } if client == name => Some(how.clone()),
            _ => None,
        }),
    }
}

/// In the first row that is free when it is called.
fn bar(operation: &Operation, taken: &mut Vec<u64>) -> Bar {
    let until = operation.return_ns.unwrap_or(u64::MAX);
    let free = taken.iter().position(|until| *until <= operation.call_ns);
    let row = free.unwrap_or_else(|| {
        if taken.len() < ROWS_MAX {
            taken.push(0);
        }
        taken.len() - 1
    });
    taken[row] = until;
    Bar {
        row,
        start_ns: operation.call_ns,
        end_ns: operation.return_ns,
        came: match operation.outcome {
            Outcome::Ok => Came::Ok,
            Outcome::Fail => Came::Fail,
            Outcome::Unknown => Came::Unknown,
        },
        words: operation.words(),
    }
}

fn faults(ran: &Ran) -> Vec<FaultBar> {
    let words = |number: usize| {
        let mut all = ran.events.iter();
        all.find_map(|event| match &event.what {
            Happening::InPlace { fault, words } if *fault == number => Some(words.clone()),
            _ => None,
        })
    };
    let bar = |(place, came): (usize, &FaultCame)| {
        let number = place + 1;
        let (on, off) = came
            .sides
            .clone()
            .unwrap_or_else(|| (came.on.clone(), Vec::new()));
        Some(FaultBar {
            number,
            words: words(number).unwrap_or_default(),
            start_ns: came.placed_ns?,
            end_ns: came.undone_ns,
            on,
            off,
        })
    };
    ran.faults.iter().enumerate().filter_map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(process: u64, call_ns: u64, return_ns: Option<u64>) -> Operation {
        Operation {
            process,
            f: "read".into(),
            key: None,
            argument: history::Value::Null,
            result: history::Value::Null,
            outcome: return_ns.map_or(Outcome::Unknown, |_| Outcome::Ok),
            call: 0,
            end: None,
            call_ns,
            return_ns,
            error: None,
        }
    }

    #[test]
    fn processes_of_a_client_share_its_lane_and_what_overlaps_has_a_row_of_its_own() {
        let mut ran = Ran::without(&cluster::Error::Interrupted);
        ran.processes = ["a", "b", "a"].map(str::to_owned).to_vec();
        let operations = [
            operation(0, 0, None),
            operation(1, 0, Some(5)),
            operation(2, 1, Some(2)),
            operation(2, 2, Some(9)),
            operation(1, 3, Some(4)),
            operation(7, 4, Some(6)),
        ];
        let (clients, places) = clients(&ran, &operations);
        let rows: Vec<(&str, usize, Vec<usize>)> = clients
            .iter()
            .map(|client| {
                let rows = client.operations.iter().map(|bar| bar.row).collect();
                (client.name.as_str(), client.rows, rows)
            })
            .collect();
        let wanted = [
            ("a", 2, vec![0, 1, 1]),
            ("b", 2, vec![0, 1]),
            (CLIENTS, 1, vec![0]),
        ];
        assert_eq!(rows, wanted);
        assert_eq!(places, [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (2, 0)]);
    }
}
