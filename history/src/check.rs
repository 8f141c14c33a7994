//! The checks of a history: what they found of each object.

use std::collections::BTreeMap;
use std::iter::repeat;
use std::time::{Duration, Instant};

use crate::kinds::{self, After, Seen};
use crate::linear::{Limits, Linear};
use crate::model::{Answer, Objects, Refused};
use crate::transactions;
use crate::{Anomaly, Consistency, Failure, History, Model, Outcome, Partition, Step, Value};

/// What a history is checked against.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the objects are.
    pub model: Model,
    /// What an object is at first.
    pub initial: Value,
    /// What is promised.
    pub consistency: Consistency,
    /// How long all checks together may take.
    pub time_limit: Option<Duration>,
    /// How long the system may take to answer after a heal.
    pub recover_within: Duration,
    /// Whether [`Object::states`] is wanted.
    pub describe: bool,
}

/// How long a system may take to answer after a heal, if nothing else is said.
pub const RECOVER_WITHIN: Duration = Duration::from_secs(60);

impl Settings {
    /// Of a model, as it is if nothing else is said.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            initial: model.default_initial(),
            consistency: model.default_consistency(),
            time_limit: None,
            recover_within: RECOVER_WITHIN,
            describe: false,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Each object, in the order of the keys.
    pub objects: Vec<Object>,
    /// The failures that have a name, object by object.
    pub anomalies: Vec<Anomaly>,
    /// What could not be decided, in sentences.
    pub undecided: Vec<String>,
}

/// One object, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Which one it is.
    pub key: Option<Value>,
    /// Its operations, by their places in [`History::operations`].
    pub operations: Vec<usize>,
    /// Whether there is an order for them.
    pub linear: Linear,
    /// What it is after each step of the longest order, in words, if that was asked for.
    pub states: Vec<String>,
}

/// What came of it all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing was found.
    Clean,
    /// Something could not be decided in time, and nothing was found.
    Undecided,
    /// Something was found.
    Anomalous,
}

/// Checks a history.
///
/// # Errors
/// If its operations are not those of the model.
pub fn check(history: &History, settings: &Settings) -> Result<Report, Refused> {
    if settings.model.is_transactional() != settings.consistency.is_transactional() {
        return Err(Refused::Consistency {
            model: settings.model.row().name,
            consistency: settings.consistency.name(),
        });
    }
    let deadline = settings.time_limit.map(|limit| Instant::now() + limit);
    let limits = Limits {
        deadline,
        ..Limits::default()
    };
    let mut report = Report {
        objects: Vec::new(),
        anomalies: Vec::new(),
        undecided: Vec::new(),
    };
    if settings.model.is_transactional() {
        (report.anomalies, report.undecided) =
            transactions::check(history, settings.model, settings.consistency)?;
    }
    for (key, operations) in by_key(history) {
        let of_key = Objects {
            places: &operations,
            history,
            model: settings.model,
            describe: settings.describe,
        };
        let Answer { linear, states } =
            settings.model.linear(&of_key, &settings.initial, &limits)?;
        let seen = Seen {
            key: key.as_ref(),
            places: &operations,
            history,
            initial: &settings.initial,
        };
        report
            .anomalies
            .extend(kinds::failures(settings.model, &seen)?);
        report.say(history, key.as_ref(), &linear);
        report.objects.push(Object {
            key,
            operations,
            linear,
            states,
        });
    }
    report
        .anomalies
        .retain(|anomaly| settings.consistency.forbids(anomaly.kind));
    match kinds::unavailable(history, settings.recover_within.as_nanos() as u64) {
        After::Available => {}
        After::Unavailable(anomaly) => report.anomalies.push(anomaly),
        After::TooShort => report.undecided.push(format!(
            "whether the system answers after the heal: the history ends before {:?} are over",
            settings.recover_within
        )),
    }
    Ok(report)
}

/// The operations of each object.
pub(crate) fn by_key(history: &History) -> BTreeMap<Option<Value>, Vec<usize>> {
    let mut objects: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (place, operation) in history.operations().iter().enumerate() {
        objects
            .entry(operation.key.clone())
            .or_default()
            .push(place);
    }
    objects
}

impl Report {
    /// What came of it all.
    pub fn verdict(&self) -> Verdict {
        if !self.anomalies.is_empty() {
            Verdict::Anomalous
        } else if self.undecided.is_empty() {
            Verdict::Clean
        } else {
            Verdict::Undecided
        }
    }

    /// Says what came of the search for an order.
    fn say(&mut self, history: &History, key: Option<&Value>, linear: &Linear) {
        let of = key.map_or_else(String::new, |key| format!(" of key {key}"));
        match linear {
            Linear::Linearizable(_) => {}
            Linear::Undecided { longest } => self.undecided.push(format!(
                "whether there is an order for the operations{of}: time or memory was over when {} were placed",
                longest.len()
            )),
            Linear::Not { longest, stuck } => {
                let one = &history.operations()[*stuck];
                let index = |event: usize| history.events()[event].index;
                let end = one.end.map_or(0, index);
                self.anomalies.push(Anomaly {
                    kind: Failure::NotLinearizable,
                    key: key.cloned(),
                    what: format!(
                        "after the longest order that is possible, of {} operations, {} of process {} (events {} to {end}) fits nowhere",
                        longest.len(), one.words(), one.process, index(one.call)
                    ),
                    operations: vec![*stuck],
                });
            }
        }
    }

    /// What Porcupine's page draws of each object.
    pub fn partitions(&self) -> Vec<Partition> {
        let drawn = |object: &Object| {
            let states = object.states.iter().cloned().chain(repeat(String::new()));
            let steps = object.linear.order().iter().zip(states);
            let steps = steps.map(|(&operation, state)| Step { operation, state });
            Partition {
                operations: object.operations.clone(),
                orders: vec![steps.collect()],
            }
        };
        self.objects.iter().map(drawn).collect()
    }
}

impl Object {
    /// How many of its operations took effect, or may have.
    pub fn possible(&self, history: &History) -> usize {
        let operations = history.operations();
        let possible = |&&place: &&usize| operations[place].outcome != Outcome::Fail;
        self.operations.iter().filter(possible).count()
    }
}
