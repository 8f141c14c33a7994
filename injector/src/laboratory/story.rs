//! What there is to tell of a run while it goes on: what rules are about.

use std::path::Path;

use cluster::{Ending, SimulatedCluster};
use machine::OwnDirectory;

use super::{Happened, Judged};
use crate::error::{Error, Result};
use crate::online::{
    FaultCame, Happening, LogTime, NO_FAULT, Ran, RunEvent, RunFiles, Scribe, State, write_times,
};

/// What a plan of faults calls that of a live run.
pub(super) const KIND: &str = "power-loss";

/// The place of the client among all: it is the only one.
const CLIENT_PLACE: usize = 0;

/// What a client printed: lines, each with its end, and when each came.
#[derive(Debug, Clone, Default)]
pub(super) struct Printed {
    pub(super) bytes: Vec<u8>,
    pub(super) times_ns: Vec<u64>,
}

impl Printed {
    pub(super) fn add(&mut self, time_ns: u64, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
        self.times_ns.push(time_ns);
    }

    /// How many lines there are.
    pub(super) fn count(&self) -> usize {
        self.times_ns.len()
    }

    /// The lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        text.lines().map(str::to_owned).collect()
    }
}

/// What happened so far, with times from the start of the client on.
#[derive(Debug, Clone)]
pub(super) struct Story {
    /// When the client was started, in nanoseconds since the simulation began.
    pub(super) begun_ns: u64,
    client: String,
    nodes: Vec<NodeTold>,
    events: Vec<RunEvent>,
    faults: Vec<Told>,
    is_client_ended: bool,
    /// Whether the run cannot go on to its end, for no reason of the cluster's.
    pub(super) is_cut_short: bool,
    /// Whether that is since a kernel is gone for no reason in its machine.
    pub(super) has_lost_kernel: bool,
}

/// What was told of a node: when it became ready last, and when it ended last by itself.
#[derive(Debug, Clone)]
struct NodeTold {
    name: String,
    ready_ns: Option<u64>,
    ended_ns: Option<u64>,
}

/// A power failure, as far as it was told.
#[derive(Debug, Clone)]
struct Told {
    victims: Vec<usize>,
    came: FaultCame,
}

impl Story {
    /// That of a cluster that is ready, whose client begins.
    pub(super) fn new(cluster: &mut SimulatedCluster) -> Self {
        let clients = cluster.file().all_clients();
        let client = clients.into_iter().next().map(|client| client.name);
        let names = cluster.file().nodes.iter().map(|node| node.name.clone());
        let names: Vec<_> = names.collect();
        let nodes = names.into_iter().enumerate().map(|(node, name)| NodeTold {
            name,
            ready_ns: cluster.ready_ns(node),
            ended_ns: cluster.ended_ns(node),
        });
        Self {
            nodes: nodes.collect(),
            begun_ns: cluster.now_ns(),
            client: client.unwrap_or_default(),
            events: Vec::new(),
            faults: Vec::new(),
            is_client_ended: false,
            is_cut_short: false,
            has_lost_kernel: false,
        }
    }

    fn since_begin(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.begun_ns)
    }

    fn happened(&mut self, time_ns: u64, what: Happening) {
        self.events.push(RunEvent {
            time_ns: self.since_begin(time_ns),
            acknowledged: 0,
            what,
        });
    }

    /// Takes in which nodes have become ready since, or ended by themselves, and what that puts an end to.
    /// What is known of a node is forgotten when its power fails.
    pub(super) fn look(&mut self, cluster: &mut SimulatedCluster) {
        for node in 0..self.nodes.len() {
            let (ready_ns, ended_ns) = (cluster.ready_ns(node), cluster.ended_ns(node));
            let told = &mut self.nodes[node];
            let name = told.name.clone();
            let became = ready_ns.filter(|time_ns| told.ready_ns != Some(*time_ns));
            let ended = ended_ns.filter(|time_ns| told.ended_ns != Some(*time_ns));
            told.ready_ns = ready_ns.or(told.ready_ns);
            told.ended_ns = ended_ns.or(told.ended_ns);
            if let Some(time_ns) = became {
                self.happened(time_ns, Happening::Ready { node: name.clone() });
            }
            if let Some(time_ns) = ended {
                let how = cluster.end_of(node).unwrap_or_default();
                self.happened(time_ns, Happening::NodeEnded { node: name, how });
            }
        }
        self.look_for_ends();
    }

    /// Tells of failures that have ended: all their victims have been ready again.
    fn look_for_ends(&mut self) {
        for place in 0..self.faults.len() {
            if let Some(undone_ns) = self.new_end(place) {
                let came = &mut self.faults[place].came;
                (came.state, came.undone_ns) = (State::Undone, Some(undone_ns));
                let time_ns = self.begun_ns + undone_ns;
                self.happened(time_ns, Happening::Undone { fault: place + 1 });
            }
        }
    }

    /// When a failure ended, if that is not told yet.
    fn new_end(&self, place: usize) -> Option<u64> {
        let Told { victims, came } = &self.faults[place];
        let placed_ns = came.placed_ns.filter(|_| came.undone_ns.is_none())?;
        let ready = victims.iter().map(|node| {
            let ready_ns = self.since_begin(self.nodes[*node].ready_ns?);
            (ready_ns > placed_ns).then_some(ready_ns)
        });
        ready.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// The power has failed.
    pub(super) fn power_failed(&mut self, time_ns: u64, happened: &Happened) {
        let victims = &happened.fault.victims;
        let names = victims.iter().map(|node| self.nodes[*node].name.clone());
        let names: Vec<_> = names.collect();
        let lost = happened.disks.iter();
        let lost = lost.map(|disk| format!("{} {}", self.nodes[disk.node].name, disk.lost.len()));
        let words = format!(
            "power loss of {}; lost writes that had reached the disks: {}",
            names.join(", "),
            lost.collect::<Vec<_>>().join(", ")
        );
        self.faults.push(Told {
            victims: victims.clone(),
            came: FaultCame {
                state: State::InPlace,
                fired_ns: Some(self.since_begin(time_ns)),
                placed_ns: Some(self.since_begin(time_ns)),
                on: names,
                ..FaultCame::not_yet()
            },
        });
        let fault = self.faults.len();
        self.happened(time_ns, Happening::InPlace { fault, words });
    }

    /// All nodes are ready, and the power fails no more.
    pub(super) fn healed(&mut self, time_ns: u64) {
        self.happened(time_ns, Happening::Healed);
    }

    /// A node does not become ready.
    pub(super) fn not_ready(&mut self, time_ns: u64, node: &str, why: &str) {
        let (node, why) = (node.to_owned(), why.to_owned());
        self.happened(time_ns, Happening::NotReady { node, why });
    }

    /// The client has ended by itself; it is told once.
    pub(super) fn client_ended(&mut self, time_ns: u64, how: Ending) {
        if std::mem::replace(&mut self.is_client_ended, true) {
            return;
        }
        let (client, how) = (self.client.clone(), how.to_string());
        self.happened(time_ns, Happening::ClientEnded { client, how });
    }

    /// Which nodes somebody else killed, in words.
    pub(super) fn doubts(&self) -> Vec<String> {
        let killed = |event: &RunEvent| match &event.what {
            Happening::NodeEnded { node, how } if cluster::is_killed(how) => {
                Some(format!("{node} {how}; {NO_FAULT}"))
            }
            _ => None,
        };
        self.events.iter().filter_map(killed).collect()
    }

    /// The run, which is over at a time and came to this.
    pub(super) fn ran(&self, end_ns: u64, printed: &Printed, judged: Judged) -> Ran {
        let mut events = self.events.clone();
        events.sort_by_key(|event| event.time_ns);
        Ran {
            events,
            faults: self.faults.iter().map(|told| told.came.clone()).collect(),
            acknowledged: printed.count() as u64,
            seconds: self.since_begin(end_ns) as f64 / 1e9,
            is_cut_short: self.is_cut_short,
            doubts: self.doubts(),
            ..Ran::of(judged)
        }
    }

    /// The names of clients.
    pub(super) fn clients(&self) -> Vec<String> {
        vec![self.client.clone()]
    }

    /// The names of nodes.
    pub(super) fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }

    /// How many times the power failed.
    pub(super) fn failures(&self) -> usize {
        self.faults.len()
    }

    /// When each line of the client came.
    pub(super) fn lines_ns(&self, printed: &Printed) -> Vec<u64> {
        let times_ns = printed.times_ns.iter();
        times_ns.map(|time_ns| self.since_begin(*time_ns)).collect()
    }

    /// Leaves in a directory what the client printed and when logs grew, which are in another one. Returns
    /// where all of it is, and of each process of the history the client.
    pub(super) fn write(
        &self,
        cluster: &SimulatedCluster,
        printed: &Printed,
        (directory, logs): (&OwnDirectory, &Path),
    ) -> Result<(RunFiles, Vec<String>)> {
        let files = RunFiles {
            logs: logs.to_owned(),
            ..RunFiles::kept(directory.path())
        };
        let mut scribe = Scribe::new(&files.acknowledgements, &files.history)?;
        let lines = printed.bytes.split_inclusive(|byte| *byte == b'\n');
        for (line, time_ns) in lines.zip(self.lines_ns(printed)) {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            scribe.keep(CLIENT_PLACE, line, time_ns)?;
        }
        let times = cluster.log_growth().map(|grown| LogTime {
            node: self.nodes[grown.node].name.clone(),
            time: self.since_begin(grown.time_ns),
            to: grown.to,
        });
        write_times(&files.log_times, &times.collect::<Vec<_>>())?;
        Ok((files, scribe.processes(&[self.client.as_str()])))
    }
}

/// A directory for the files of a run that is held against rules.
pub(super) fn own_directory() -> Result<OwnDirectory> {
    OwnDirectory::new(&std::env::temp_dir(), "facts").map_err(|error| Error::System {
        doing: "make a directory for what a run left".into(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_which_somebody_else_killed_a_node_is_in_doubt() {
        let ended = |node: &str, how: &str| RunEvent {
            time_ns: 1,
            acknowledged: 0,
            what: Happening::NodeEnded {
                node: node.into(),
                how: how.into(),
            },
        };
        let story = Story {
            begun_ns: 0,
            client: "client".into(),
            nodes: Vec::new(),
            events: vec![
                ended("a", "was ended by SIGSEGV"),
                ended("b", "was ended by SIGKILL"),
            ],
            faults: Vec::new(),
            is_client_ended: false,
            is_cut_short: false,
            has_lost_kernel: false,
        };
        let ran = story.ran(2, &Printed::default(), Judged::Ok);
        let [doubt] = &*ran.doubts else {
            panic!("{:?}", ran.doubts)
        };
        assert!(doubt.starts_with("b was ended by SIGKILL; no fault did that"));
    }
}
