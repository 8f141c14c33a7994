//! One who holds crash states against specifications, one after the other. What they have in common
//! stays in the database.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use campaign::Interrupt;
use datalog::{Database, Error, Program, Result, Value};
use specification::rows::{Fact, text};
use specification::{About, facts, facts_version};

use super::events::{Events, Runs};
use super::leftover::{Leftover, Wanted};
use super::looked::Looked;
use super::{FOUND, Specs};
use crate::mount_slot::DiskState;
use crate::past::Past;
use crate::states::CrashState;

/// So many facts of each violation are told.
const TOLD_MAX: u64 = 3;

/// So many facts of a relation are derived from one state: the database is in memory.
const DERIVED_MAX: u64 = 1_000_000;

type Rows = Vec<Vec<Value>>;

/// Relations whose rows are events up to the crash: they grow and shrink by what is between two
/// crashes.
const OF_EVENTS: [&str; 3] = ["file_op", "sent", "received"];

/// Relations that are put in anew where they differ from those of the state before.
const OF_STATES: [&str; 9] = [
    "printed",
    "printed_by",
    "in_flight",
    "lost_op",
    "crashed",
    "entry",
    "content",
    "line",
    FOUND,
];

/// What specifications say of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// These are violated: nothing, if all is as it should be.
    Violated(Vec<String>),
    /// It cannot be known, and this is why.
    Unknown(String),
}

/// One who examines states.
pub(crate) struct Examiner {
    specs: Arc<Specs>,
    runs: Arc<Runs>,
    interrupt: Interrupt,
    /// Of the run in which the power failed last: those of several would not fit into memory.
    database: Option<(Database, Filled)>,
    /// What came of the last state, as long as its facts are those of the next one.
    last: Option<Said>,
}

/// What of the facts of a state is in a database.
#[derive(Default)]
struct Filled {
    /// The recovery whose events these are; none if they are the run's.
    recovery: Option<usize>,
    /// For each node: so many of its events are in.
    cut: Vec<usize>,
    /// What is in of relations that are put in anew.
    rows: BTreeMap<&'static str, Rows>,
}

impl Examiner {
    pub(super) fn new(specs: &Arc<Specs>, runs: &Arc<Runs>, interrupt: &Interrupt) -> Self {
        Self {
            specs: Arc::clone(specs),
            runs: Arc::clone(runs),
            interrupt: interrupt.clone(),
            database: None,
            last: None,
        }
    }

    /// What the specifications say of a state, of which the check says that this is broken; none if
    /// it has not said anything.
    pub(super) fn examine(
        &mut self,
        state: &CrashState,
        acknowledged: &[u8],
        found: Option<&[String]>,
        looked: &Looked,
    ) -> Said {
        if found.is_none() && self.specs.mention(FOUND) {
            return Said::Unknown(
                "the check has not said what it finds, which rules ask for".into(),
            );
        }
        let past = state.past.as_deref();
        let events = self.runs.of_past(past);
        let facts = match facts_of(&self.specs, events, state, past, acknowledged, found) {
            Ok(facts) => facts,
            Err(why) => return Said::Unknown(why),
        };
        match self.ask(facts, past, looked) {
            Ok(said) => said,
            Err(error) => {
                // What is in it is not known.
                (self.database, self.last) = (None, None);
                Said::Unknown(error.to_string())
            }
        }
    }

    fn ask(
        &mut self,
        facts: BTreeMap<&'static str, Rows>,
        past: Option<&Past>,
        looked: &Looked,
    ) -> Result<Said> {
        let recovery = past.and_then(|past| past.recovery);
        let known = self.database.as_ref();
        if known.is_none_or(|(_, filled)| filled.recovery != recovery) {
            (self.database, self.last) = (Some(self.begin(past)?), None);
        }
        let (database, filled) = self.database.as_mut().expect("it was made");
        let has_moved = filled.move_to(database, self.runs.of_past(past), past)?;
        let is_another = filled.replace(database, facts)?;
        if let Some(last) = self.last.as_ref().filter(|_| !has_moved && !is_another) {
            return Ok(last.clone());
        }
        let is_partial = self.runs.of_past(past).is_partial;
        let said = self.evaluate(is_partial, looked)?;
        self.last = Some(said.clone());
        Ok(said)
    }

    fn begin(&self, past: Option<&Past>) -> Result<(Database, Filled)> {
        let mut database = Database::in_memory(&facts_known())?;
        database.derive_at_most(DERIVED_MAX);
        let interrupt = self.interrupt.clone();
        database.stop_when(move || interrupt.requested())?;
        let filled = Filled::of(&mut database, self.runs.of_past(past), past)?;
        Ok((database, filled))
    }

    /// What one specification cannot say keeps no other from what it finds.
    fn evaluate(&mut self, is_partial: bool, looked: &Looked) -> Result<Said> {
        let (database, _) = self.database.as_mut().expect("it was made");
        let (mut violated, mut unsaid) = (Vec::new(), None);
        for (name, program) in &self.specs.programs {
            match evaluate(database, (name, program), looked) {
                Ok(found) => violated.extend(found),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => unsaid = unsaid.or(Some(error)),
            }
        }
        match unsaid {
            Some(error) if violated.is_empty() => return Err(error),
            // What is in it is not known.
            Some(_) => self.database = None,
            None => {}
        }
        if !violated.is_empty() && is_partial {
            return Ok(Said::Unknown(format!(
                "not all calls of the run were recorded, so rules say nothing for certain: {}",
                violated.join("; ")
            )));
        }
        Ok(Said::Violated(violated))
    }
}

/// What a specification finds.
fn evaluate(
    database: &mut Database,
    (name, program): (&str, &Program),
    looked: &Looked,
) -> Result<Vec<String>> {
    database.evaluate(program)?;
    let mut violated = Vec::new();
    let relations = program.relations();
    for relation in relations.filter(|relation| relation.is_violation()) {
        let (facts, _) = database.facts(program, &relation.name, TOLD_MAX)?;
        violated.extend(facts.iter().map(|fact| format!("{name}: {fact}")));
    }
    if !looked.is_all() {
        looked.see(name, database.unseen(program)?);
    }
    Ok(violated)
}

impl Filled {
    /// A new database, with what is true of all states.
    fn of(database: &mut Database, events: &Events, past: Option<&Past>) -> Result<Self> {
        let before = events.before.events.iter();
        for (relation, row) in events.names.iter().chain(before) {
            database.add(relation, [row.clone()])?;
        }
        Ok(Self {
            recovery: past.and_then(|past| past.recovery),
            cut: vec![0; events.of.len()],
            rows: BTreeMap::new(),
        })
    }

    /// Has the events be those before a crash. Says whether that are others than before.
    fn move_to(
        &mut self,
        database: &mut Database,
        events: &Events,
        past: Option<&Past>,
    ) -> Result<bool> {
        let Some(past) = past.filter(|past| past.cut != self.cut) else {
            return Ok(false);
        };
        let mut added: BTreeMap<&'static str, Rows> = BTreeMap::new();
        for (node, told) in events.of.iter().enumerate() {
            let (from, to) = (self.cut[node], past.cut[node]);
            for (relation, row) in told[from.min(to)..to]
                .iter()
                .filter_map(|one| one.fact.as_ref())
            {
                added.entry(relation).or_default().push(row.clone());
            }
            if let Some(first) = told[to.min(from)..from].first() {
                remove(database, &events.nodes[node], first.number)?;
            }
        }
        for (relation, rows) in added {
            database.add(relation, rows)?;
        }
        self.cut.clone_from(&past.cut);
        Ok(true)
    }

    /// Puts in what a state has where that is not in yet. Says whether something was not.
    fn replace(
        &mut self,
        database: &mut Database,
        mut facts: BTreeMap<&'static str, Rows>,
    ) -> Result<bool> {
        let mut is_another = false;
        for relation in OF_STATES {
            let rows = facts.remove(relation).unwrap_or_default();
            let old = self.rows.entry(relation).or_default();
            if *old == rows {
                continue;
            }
            is_another = true;
            if !old.is_empty() {
                database.remove(relation, &[], None)?;
            }
            old.clone_from(&rows);
            database.add(relation, rows)?;
        }
        debug_assert!(facts.is_empty(), "{facts:?}");
        Ok(is_another)
    }
}

/// Removes the events of a node from a number on.
fn remove(database: &mut Database, node: &str, first: i64) -> Result<()> {
    for relation in OF_EVENTS {
        database.remove(relation, &[("node", node.into())], Some(("event", first)))?;
    }
    Ok(())
}

fn facts_known() -> Vec<datalog::InputRelation> {
    facts(About::CrashState)
}

/// The facts of a state that are no events.
fn facts_of(
    specs: &Specs,
    events: &Events,
    state: &CrashState,
    past: Option<&Past>,
    acknowledged: &[u8],
    found: Option<&[String]>,
) -> std::result::Result<BTreeMap<&'static str, Rows>, String> {
    let mut all: Vec<Fact> = Vec::new();
    let wanted = Wanted {
        entries: specs.mention("entry"),
        contents: specs.mention("content"),
    };
    for (node, disk) in events.with_files.iter().zip(&state.disks) {
        match disk {
            DiskState::Tree(tree) => {
                all.extend(Leftover::facts(&events.nodes[*node], tree, wanted, specs)?);
            }
            DiskState::Disk(_) => return Err("rules were asked of a disk".into()),
        }
    }
    if specs.mention("printed") {
        all.extend(printed(acknowledged));
    }
    if let Some(past) = past {
        all.extend(of_past(specs, events, past));
    }
    if specs.mention(FOUND) {
        let words = found.unwrap_or_default().iter();
        let time = events.end(past);
        all.extend(words.map(|words| (FOUND, vec![words.replace('\0', "").into(), time.into()])));
    }
    let mut facts: BTreeMap<&'static str, Rows> = BTreeMap::new();
    for (relation, row) in all {
        facts.entry(relation).or_default().push(row);
    }
    Ok(facts)
}

fn printed(acknowledged: &[u8]) -> impl Iterator<Item = Fact> {
    let lines = acknowledged.split(|byte| *byte == b'\n');
    let lines = (1_i64..).zip(lines).filter(|(_, line)| !line.is_empty());
    lines.map(|(number, line)| ("printed", vec![number.into(), text(line).into()]))
}

fn of_past(specs: &Specs, events: &Events, past: &Past) -> Vec<Fact> {
    let mut all: Vec<Fact> = Vec::new();
    let before = events.before.of_states.iter();
    all.extend(
        before
            .filter(|(relation, _)| specs.mention(relation))
            .cloned(),
    );
    if specs.mention("crashed") {
        all.extend(events.crashed(past));
    }
    if specs.mention("printed_by") {
        all.extend(events.printed_by(past));
    }
    if specs.mention("lost_op") {
        all.extend(lost_operations(events, past));
    }
    if specs.mention("in_flight") {
        all.extend(in_flight(events, past));
    }
    all
}

/// What the disks lost.
fn lost_operations(events: &Events, past: &Past) -> impl Iterator<Item = Fact> {
    past.lost.iter().map(|missing| {
        let number = events.of[missing.node][missing.event].number;
        let node = Value::from(&*events.nodes[missing.node]);
        let how = if missing.is_whole { "all" } else { "in part" };
        ("lost_op", vec![number.into(), node, how.into()])
    })
}

/// The operations that had begun and had not returned.
fn in_flight(events: &Events, past: &Past) -> impl Iterator<Item = Fact> {
    past.in_flight.iter().filter_map(|(node, event)| {
        let (_, row) = events.of[*node][*event].fact.as_ref()?;
        Some(("in_flight", row.clone()))
    })
}

/// The facts of a state that specifications ask for, in memory.
pub(super) fn filled(
    of: (&Specs, &Runs),
    state: &CrashState,
    found: &[String],
) -> crate::Result<Database> {
    let mut database = Database::in_memory(&facts_known())?;
    database.derive_at_most(DERIVED_MAX);
    fill(&mut database, of, state, found)?;
    Ok(database)
}

/// The facts of a state in a file. One that is there already has them; it is made anew if it is of another
/// version.
pub(super) fn kept(
    path: &Path,
    of: (&Specs, &Runs),
    state: &CrashState,
    found: &[String],
) -> crate::Result<Database> {
    let version = facts_version(About::CrashState);
    match path.exists().then(|| Database::open(path, version)) {
        None | Some(Err(Error::OtherVersion { .. })) => {
            Database::create(path, &facts_known(), version, |database| {
                fill(database, of, state, found)
            })
        }
        Some(opened) => Ok(opened?),
    }
}

fn fill(
    database: &mut Database,
    (specs, runs): (&Specs, &Runs),
    state: &CrashState,
    found: &[String],
) -> crate::Result<()> {
    let past = state.past.as_deref();
    let events = runs.of_past(past);
    let of_state = facts_of(specs, events, state, past, &state.acknowledged, Some(found));
    let of_state = of_state.map_err(crate::Error::NotTold)?;
    let mut filled = Filled::of(database, events, past)?;
    filled.move_to(database, events, past)?;
    filled.replace(database, of_state)?;
    Ok(())
}
