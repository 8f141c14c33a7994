//! Specifications that crash states are held against: rules about what had happened before the
//! crash, and what it left.

mod events;
mod examine;
mod explain;
mod leftover;
mod looked;
mod subject;

use std::sync::Arc;

use campaign::Interrupt;
use datalog::Program;
use pace_rules::nodes::Histories;
use specification::{About, Specification, rows};
use trace_store::Trace;

use crate::error::{Error, Result};
use crate::sweep::Subject;

use events::Runs;

pub(crate) use examine::Examiner;
pub use explain::{FACTS_FOLDER, facts_of};
pub(crate) use explain::{explain, explain_state};
pub(crate) use looked::Looked;
pub use subject::Specified;

/// Relations that tell what had happened before the crash. Where rules ask for one, states that leave
/// the same are told apart by that.
const HISTORY: [&str; 7] = [
    "file_op",
    "in_flight",
    "lost_op",
    "sent",
    "received",
    "printed_by",
    "crashed",
];

/// What the check said.
const FOUND: &str = "found";

/// Specifications that are ready to be asked.
#[derive(Debug)]
pub struct Specs {
    /// Each with its name.
    programs: Vec<(String, Program)>,
    /// Somebody may ask for any fact.
    are_all: bool,
}

impl Specs {
    /// Those of a sweep.
    ///
    /// # Errors
    /// The first mistake in one.
    pub fn of(specifications: &[Specification]) -> Result<Self> {
        let program = |specification: &Specification| {
            let name = &specification.name;
            let program = specification.program(&format!("{name}.dl"), About::CrashState);
            Ok((name.clone(), program.map_err(Error::Rules)?))
        };
        let programs = specifications.iter().map(program);
        Ok(Self {
            programs: programs.collect::<Result<_>>()?,
            are_all: false,
        })
    }

    /// For rules that are not known yet.
    fn everything() -> Self {
        Self {
            programs: Vec::new(),
            are_all: true,
        }
    }

    /// Whether there is one.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// What those who look at states have to know of how these came to be.
    pub(crate) fn histories(&self) -> Histories {
        if self.is_empty() {
            Histories::Unknown
        } else if HISTORY.iter().any(|relation| self.mention(relation)) {
            Histories::Apart
        } else {
            Histories::Known
        }
    }

    fn mention(&self, relation: &str) -> bool {
        let mut programs = self.programs.iter();
        self.are_all || programs.any(|(_, program)| program.mentions(relation))
    }

    /// Whether the lines of a file are told, of which this is the node, the path and the size; or why
    /// nothing can be said of a state that has it.
    fn are_lines_told(&self, file: (&str, &str, u64)) -> std::result::Result<bool, String> {
        let programs = self.programs.iter().map(|(_, program)| program);
        rows::are_lines_told(programs, self.are_all, file)
    }

    /// Which violations they have, as specification and relation.
    fn violations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.programs.iter().flat_map(|(name, program)| {
            let relations = program.relations();
            let violations = relations.filter(|relation| relation.is_violation());
            violations.map(move |relation| (&**name, &*relation.name))
        })
    }
}

/// The specifications of a sweep with the run that they are asked about.
pub struct Asking {
    specs: Arc<Specs>,
    runs: Arc<Runs>,
    looked: Arc<Looked>,
    interrupt: Interrupt,
    verdicts: Arc<subject::Known>,
}

impl Asking {
    /// About the crash states of a run and of recoveries from them; none if there are no
    /// specifications.
    ///
    /// # Errors
    /// If there is a mistake in one, or nobody knows what came before a recovery.
    pub fn of(
        specifications: &[Specification],
        trace: &Trace,
        interrupt: &Interrupt,
    ) -> Result<Option<Self>> {
        let specs = Specs::of(specifications)?;
        if specs.is_empty() {
            return Ok(None);
        }
        let mut recovers = trace
            .recoveries(false)
            .map(|one| one.about.recovers.as_ref());
        if recovers.any(|recovers| recovers.is_none_or(|recovers| recovers.before.is_none())) {
            return Err(Error::NoPast);
        }
        Ok(Some(Self {
            runs: Arc::new(Runs::of(trace, &specs)),
            looked: Arc::new(Looked::of(&specs)),
            specs: Arc::new(specs),
            interrupt: interrupt.clone(),
            verdicts: Arc::default(),
        }))
    }

    /// Has what looks at states hold them against the specifications as well.
    pub fn also<'s>(&self, subject: Box<dyn Subject + 's>) -> Box<dyn Subject + 's> {
        let examiner = Examiner::new(&self.specs, &self.runs, &self.interrupt);
        Box::new(Specified::new(
            subject,
            examiner,
            &self.looked,
            &self.verdicts,
        ))
    }

    /// The same if there are specifications.
    pub fn also_if<'s>(
        asking: Option<&Self>,
        subject: Box<dyn Subject + 's>,
    ) -> Box<dyn Subject + 's> {
        match asking {
            Some(asking) => asking.also(subject),
            None => subject,
        }
    }

    /// Which violations had something to look at.
    pub(crate) fn looked(&self) -> &Arc<Looked> {
        &self.looked
    }
}

#[cfg(test)]
mod tests;
