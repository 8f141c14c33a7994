//! Runs held against specifications.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cluster::SimulatedCluster;
use serde::{Deserialize, Serialize};
use specification::{About, Specification, Unlooked, Violated};

use super::story::{KIND, Printed, Story, own_directory};
use super::{Judged, Laboratory};
use crate::error::{Error, Result};
use crate::online::{KnownCalls, Ran, RunFacts, examine};

/// What runs are held against.
#[derive(Clone)]
pub struct Rules {
    /// The specifications.
    pub specifications: Vec<Specification>,
    /// Whether their evaluation is to end soon.
    pub stops: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            specifications: Vec::new(),
            stops: Arc::new(|| false),
        }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Rules");
        shown.field("specifications", &self.specifications);
        shown.finish_non_exhaustive()
    }
}

/// What specifications come to in a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// What else has to be known to believe what came of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What it violates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violated>,
    /// What had nothing to look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlooked: Vec<Unlooked>,
    /// Of a run with violations when its client was started, in seconds of the simulation's time: times
    /// of facts count from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_began_s: Option<f64>,
    /// Whether the run could not go on to its end: then nothing was held against it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_short: bool,
}

/// A run that is over.
pub(super) struct Over<'a> {
    pub(super) cluster: &'a mut SimulatedCluster,
    pub(super) story: &'a mut Story,
    pub(super) printed: &'a Printed,
    /// The directory of its logs.
    pub(super) logs: &'a Path,
}

impl Laboratory {
    /// The same cluster, whose runs are held against these.
    #[must_use]
    pub fn held_against(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The same cluster, with the facts of a run in a new file.
    #[must_use]
    pub fn keeping_facts(self, path: PathBuf) -> Self {
        Self {
            facts: Some(path),
            ..self
        }
    }

    /// Holds the rules against a run that came to something. What it comes to with them.
    pub(super) fn hold(&self, over: &mut Over<'_>, judged: Judged) -> Result<(Judged, Held)> {
        over.story.look(over.cluster);
        let end_ns = over.cluster.now_ns();
        let mut ran = over.story.ran(end_ns, over.printed, judged);
        let is_asked = self.facts.is_some() || !self.rules.specifications.is_empty();
        if is_asked && !ran.is_cut_short {
            self.examine(over, &mut ran)?;
        }
        let began_s = over.story.begun_ns as f64 / 1e9;
        let held = Held {
            client_began_s: (!ran.violations.is_empty()).then_some(began_s),
            notes: ran.notes,
            violations: ran.violations,
            unlooked: ran.unlooked,
            is_cut_short: ran.is_cut_short,
        };
        Ok((ran.judged, held))
    }

    fn examine(&self, over: &Over<'_>, ran: &mut Ran) -> Result<()> {
        let (story, printed) = (&*over.story, over.printed);
        let directory = own_directory()?;
        let (files, processes) = story.write(over.cluster, printed, (&directory, over.logs))?;
        ran.processes = processes;
        let (nodes, clients) = (story.node_names(), story.clients());
        let facts = RunFacts {
            about: About::LiveRun,
            nodes: &nodes,
            clients: &clients,
            kinds: vec![KIND; story.failures()],
            calls: KnownCalls::default(),
            ran,
            files: &files,
            lines_ns: &story.lines_ns(printed),
        };
        if let Some(path) = &self.facts {
            facts.keep(path)?;
        }
        let stops = Arc::clone(&self.rules.stops);
        match examine(&self.rules.specifications, &facts, None, move || stops()) {
            Ok(examined) => ran.take_in(examined, story.failures() == 0),
            Err(Error::Facts(datalog::Error::Interrupted)) => {
                return Err(cluster::Error::Interrupted.into());
            }
            Err(error) => ran.not_examined(&error),
        }
        Ok(())
    }
}
