//! The checks of a history: what they found of each object.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat;
use std::time::{Duration, Instant};

use crate::contract::{self, Contract, Rule};
use crate::kinds::{self, After, Seen};
use crate::linear::{Limits, Linear};
use crate::model::{Answer, Objects, Refused, counter};
use crate::transactions;
use crate::{
    Anomaly, Consistency, Failure, History, Model, Operation, Outcome, Partition, Step, Value,
};

/// What a history is checked against.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the objects are: of several rules for one object the first counts.
    pub rules: Vec<Rule>,
    /// Whether an object that no rule is of is taken for what its operations say. If not, it is not
    /// looked at.
    pub guesses: bool,
    /// What such an object is at first, unless that goes without saying.
    pub initial: Option<Value>,
    /// What is promised of such an object, unless it is the most.
    pub consistency: Option<Consistency>,
    /// How long all checks together may take.
    pub time_limit: Option<Duration>,
    /// How long the system may take to answer after a heal, if that is to be looked at.
    pub recover_within: Option<Duration>,
    /// Whether [`Object::states`] is wanted.
    pub describe: bool,
}

/// How long a system may take to answer after a heal, if nothing else is said.
pub const RECOVER_WITHIN: Duration = Duration::from_secs(60);

impl Settings {
    /// All objects have this contract.
    pub fn of_all(contract: Contract) -> Self {
        Self {
            rules: vec![Rule::of_all(contract)],
            ..Self::default()
        }
    }
}

impl Settings {
    /// Whether an object is to be looked at.
    fn is_of(&self, key: Option<&Value>) -> bool {
        self.guesses || self.rules.iter().any(|rule| rule.is_of(key))
    }
}

impl Default for Settings {
    /// Objects are what their operations say.
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            guesses: true,
            initial: None,
            consistency: None,
            time_limit: None,
            recover_within: Some(RECOVER_WITHIN),
            describe: false,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// What it was taken for, unless that could not be told.
    pub model: Option<Model>,
    /// Whether no rule says so, and its operations do.
    pub is_guessed: bool,
    /// Its operations, by their places in [`History::operations`].
    pub operations: Vec<usize>,
    /// Whether any of them was answered with something that can be wrong. Otherwise nothing was judged.
    pub is_judged: bool,
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
/// A history in which no answer says anything of the state is undecided.
///
/// # Errors
/// If its operations are not those of the model, or the operations of no object say what it is.
pub fn check(history: &History, settings: &Settings) -> Result<Report, Refused> {
    for rule in &settings.rules {
        rule.contract.fits()?;
    }
    let mut checked = Checked {
        history,
        settings,
        limits: Limits {
            deadline: settings.time_limit.map(|limit| Instant::now() + limit),
            ..Limits::default()
        },
        report: Report::default(),
        transactions: Vec::new(),
        is_one_told: false,
        first_unclear: None,
    };
    for (key, places) in by_key(history) {
        if settings.is_of(key.as_ref()) {
            checked.look_at(key, places)?;
        }
    }
    if let Some(unclear) = checked
        .first_unclear
        .take()
        .filter(|_| !checked.is_one_told)
    {
        return Err(unclear);
    }
    checked.transactions()?;
    checked.availability();
    checked.nothing_judged();
    Ok(checked.report)
}

/// The contract of an object, and where it is from.
struct Told {
    contract: Contract,
    is_guessed: bool,
    /// What else the object may be.
    may_be: Option<&'static str>,
}

/// A history that is being checked.
struct Checked<'a> {
    history: &'a History,
    settings: &'a Settings,
    limits: Limits,
    report: Report,
    /// The transactions of each object, and what was promised of them.
    transactions: Vec<(Contract, Vec<usize>)>,
    /// Whether of one object it is known what it is.
    is_one_told: bool,
    /// Why of the first other one it is not.
    first_unclear: Option<Refused>,
}

impl Checked<'_> {
    /// Looks at all of one object, but for what transactions show together.
    fn look_at(&mut self, key: Option<Value>, places: Vec<usize>) -> Result<(), Refused> {
        let told = match self.contract(key.as_ref(), &places) {
            Ok(told) => told,
            Err(unclear) => {
                self.leave_out(key, places, &unclear);
                self.first_unclear.get_or_insert(unclear);
                return Ok(());
            }
        };
        self.is_one_told = true;
        let contract = &told.contract;
        contract.fits()?;
        let looked_at = self.object(key.as_ref(), &places, &told);
        match looked_at.map_err(|refused| refused.found_in(self.history)) {
            Ok((linear, states)) => self.report.objects.push(Object {
                key,
                model: Some(contract.model),
                is_guessed: told.is_guessed,
                operations: places.clone(),
                is_judged: contract
                    .model
                    .is_told_by(&self.own(&places), contract.is_ordered()),
                linear,
                states,
            }),
            // It is something else than it was taken for.
            Err(refused) if told.is_guessed => {
                self.leave_out(key, places, &refused);
                return Ok(());
            }
            Err(refused) => return Err(refused),
        }
        if contract.model.is_transactional() {
            self.transactions.push((told.contract, places));
        }
        Ok(())
    }

    /// The transactions of one object are looked at together. Those of others have nothing to do with them,
    /// though what these read and write may be called the same.
    fn transactions(&mut self) -> Result<(), Refused> {
        for (contract, places) in std::mem::take(&mut self.transactions) {
            let (anomalies, undecided) = transactions::check(self.history, &places, &contract)
                .map_err(|refused| refused.found_in(self.history))?;
            self.report.anomalies.extend(anomalies);
            self.report.undecided.extend(undecided);
        }
        Ok(())
    }

    fn contract(&self, key: Option<&Value>, places: &[usize]) -> Result<Told, Refused> {
        if let Some(rule) = self.settings.rules.iter().find(|rule| rule.is_of(key)) {
            return Ok(Told {
                contract: rule.contract.clone(),
                is_guessed: false,
                may_be: None,
            });
        }
        let guess = contract::guess(&self.own(places))?;
        let mut contract = Contract::new(guess.model);
        if let Some(initial) = &self.settings.initial {
            contract.initial = initial.clone();
            contract.begins()?;
        }
        contract.consistency = self.settings.consistency.unwrap_or(contract.consistency);
        Ok(Told {
            contract,
            is_guessed: true,
            may_be: guess.may_be,
        })
    }

    /// The operations at these places.
    fn own(&self, places: &[usize]) -> Vec<&Operation> {
        let all = self.history.operations();
        places.iter().map(|&place| &all[place]).collect()
    }

    /// Says that nobody knows what an object is.
    fn leave_out(&mut self, key: Option<Value>, operations: Vec<usize>, unclear: &Refused) {
        let object = in_words(key.as_ref());
        self.report.undecided.push(format!("{object}: {unclear}"));
        self.report.objects.push(Object {
            key,
            model: None,
            is_guessed: true,
            operations,
            is_judged: false,
            linear: Linear::Undecided {
                longest: Vec::new(),
            },
            states: Vec::new(),
        });
    }

    /// Looks for what is wrong with an object. Returns its longest order, and what it is after each step.
    fn object(
        &mut self,
        key: Option<&Value>,
        operations: &[usize],
        told: &Told,
    ) -> Result<(Linear, Vec<String>), Refused> {
        let contract = &told.contract;
        let (answer, found) = self.found(self.history, (key, operations), contract)?;
        if let Linear::Undecided { longest } = &answer.linear
            && contract.is_ordered()
        {
            self.report.undecided.push(format!(
                "whether there is an order for the operations of {}: time or memory was over when {} were placed",
                in_words(key),
                longest.len()
            ));
        }
        if contract.is_unseen(&self.own(operations)) {
            self.report.undecided.push(format!(
                "{}: what was read is not looked at: something is appended, and reads may be old",
                in_words(key)
            ));
        }
        let other = match found.first() {
            Some(_) => self.otherwise(key, operations, told)?,
            None => None,
        };
        if let (Some(first), Some(other)) = (found.first(), other) {
            let object = in_words(key);
            let undecided = format!("{object}: {}; {other}", first.what);
            self.report.undecided.push(undecided);
        } else {
            self.report.anomalies.extend(found);
        }
        Ok((answer.linear, answer.states))
    }

    /// The longest order of an object's operations, and what is wrong with them.
    fn found(
        &self,
        history: &History,
        (key, operations): (Option<&Value>, &[usize]),
        contract: &Contract,
    ) -> Result<(Answer, Vec<Anomaly>), Refused> {
        let model = contract.model;
        let of_key = Objects {
            places: operations,
            history,
            model,
            describe: self.settings.describe,
        };
        let is_ordered = contract.is_ordered();
        let mut limits = self.limits;
        if !is_ordered {
            // Operations are still refused that are not of the model.
            limits.deadline = Some(Instant::now());
        }
        let answer = model.linear(&of_key, &contract.initial, &limits)?;
        let seen = Seen {
            key,
            places: operations,
            history,
            initial: &contract.initial,
            may_be_old: !is_ordered,
        };
        let mut found = kinds::failures(model, &seen)?;
        if let Linear::Not { longest, stuck } = &answer.linear {
            found.push(not_linearizable(history, key, longest, *stuck));
        }
        found.retain(|anomaly| contract.consistency.forbids(anomaly.kind));
        Ok((answer, found))
    }

    /// How what is wrong with an object may be right, and what to do about it, if there is such a way.
    fn otherwise(
        &self,
        key: Option<&Value>,
        operations: &[usize],
        told: &Told,
    ) -> Result<Option<String>, Refused> {
        if let Some(other) = told.may_be {
            return Ok(Some(format!(
                "it may be {other}: say what it is with --model"
            )));
        }
        let own = self.own(operations);
        if told.contract.model != Model::Counter || !counter::may_be_marks(own.into_iter()) {
            return Ok(None);
        }
        let without = self.history.without_results(operations, counter::is_added);
        let (_, found) = self.found(&without, (key, operations), &told.contract)?;
        Ok(found.is_empty().then(|| {
            "the answers to what was added may say that it was, not what the counter is then: let \
             the client answer null, or what was added"
                .to_owned()
        }))
    }

    /// Says so if no object could be judged: that nothing is wrong then says nothing.
    fn nothing_judged(&mut self) {
        let Report {
            objects,
            anomalies,
            undecided,
        } = &mut self.report;
        let is_judged = objects.iter().any(|object| object.is_judged);
        if is_judged || !anomalies.is_empty() || !undecided.is_empty() {
            return;
        }
        let count: usize = objects.iter().map(|one| one.operations.len()).sum();
        let why = match (self.history.operations().len(), count) {
            (0, _) => "there are no operations".to_owned(),
            (_, 0) => "no operation is of an object that is looked at".to_owned(),
            (_, 1) => "the only operation was not answered with anything that can be wrong, such as what was read".to_owned(),
            (_, count) => format!(
                "none of {count} operations was answered with anything that can be wrong, such as what was read"
            ),
        };
        undecided.push(format!("no object could be judged: {why}"));
    }

    /// Whether the system answers after the last heal.
    fn availability(&mut self) {
        let Some(within) = self.settings.recover_within else {
            return;
        };
        let why = match kinds::unavailable(self.history, within.as_nanos() as u64) {
            After::Available => return,
            After::Unavailable(anomaly) => return self.report.anomalies.push(anomaly),
            After::Uncalled(1) => {
                "nobody called after it, and the only call that was open then was not answered ok"
                    .to_owned()
            }
            After::Uncalled(open) => format!(
                "nobody called after it, and none of {open} calls that were open then was answered ok"
            ),
            After::TooShort => format!("the history ends before {within:?} are over"),
        };
        let undecided = format!("whether the system answers after the heal: {why}");
        self.report.undecided.push(undecided);
    }
}

/// An object in a sentence.
fn in_words(key: Option<&Value>) -> String {
    key.map_or_else(|| "the object".to_owned(), |key| format!("key {key}"))
}

/// No order explains what was seen of an object.
fn not_linearizable(
    history: &History,
    key: Option<&Value>,
    longest: &[usize],
    stuck: usize,
) -> Anomaly {
    let one = &history.operations()[stuck];
    let index = |event: usize| history.events()[event].index;
    let end = one.end.map_or(0, index);
    let what = format!(
        "after the longest order that is possible, of {} operations, {} of process {} (events {} to {end}) fits nowhere",
        longest.len(),
        one.words(),
        one.process,
        index(one.call)
    );
    Anomaly::new(Failure::NotLinearizable, key, what, vec![stuck])
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

    /// Of which of these rules no object could be judged.
    pub fn unjudged<'a>(&self, rules: &'a [Rule]) -> impl Iterator<Item = &'a Rule> {
        let rule_of = |object: &Object| {
            rules
                .iter()
                .position(|rule| rule.is_of(object.key.as_ref()))
        };
        let judged = self.objects.iter().filter(|object| object.is_judged);
        let judged: BTreeSet<_> = judged.filter_map(rule_of).collect();
        let places = (0..rules.len()).filter(move |place| !judged.contains(place));
        places.map(|place| &rules[place])
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
