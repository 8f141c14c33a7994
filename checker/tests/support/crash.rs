//! Crash states of a workload on the toy file system, and which promises they break.

use std::collections::BTreeSet;
use std::fmt::Write;

use checker::{Contract, Finding, Model, Promise, Undecided, oracle};
use local_fs::Variant;
use toy_fs::Toy;
use workloads::{Op, Step, Workload};

type Edit = Box<dyn Fn(&mut Toy)>;

/// A workload whose power failed after its last operation, on one file system, and what was
/// found then: all that was done, until it is told otherwise.
pub struct Crash {
    file_system: &'static str,
    contract: Contract,
    text: String,
    workload: Workload,
    lost: Vec<Op>,
    edits: Vec<Edit>,
}

pub fn operations(workload: &Workload) -> Vec<Op> {
    let run = workload.run.iter().filter_map(|step| match step {
        Step::Op(op) => Some(op),
        Step::CrashPoint => None,
    });
    workload.setup.iter().chain(run).cloned().collect()
}

/// A workload from its text; ` | ` stands between its setup and what is run.
pub fn workload(text: &str) -> Workload {
    let text = match text.split_once(" | ") {
        Some((setup, run)) => format!("setup; {setup}; run; {run}"),
        None => text.to_owned(),
    };
    workloads::parse(&text, "test")
        .expect("a workload")
        .remove(0)
}

/// The model after the first `count` operations.
pub fn model(file_system: &str, workload: &Workload) -> Model {
    model_under(
        Contract::of(file_system).expect("it has a contract"),
        workload,
    )
}

/// The same under another contract.
pub fn model_under(contract: &Contract, workload: &Workload) -> Model {
    let mut model = Model::new(contract);
    let operations = operations(workload);
    for (number, op) in operations.iter().enumerate() {
        if number == workload.setup.len() && number > 0 {
            model.commit(None);
        }
        model.apply(op, false).expect("the model follows");
    }
    if workload.setup.len() == operations.len() {
        model.commit(None);
    }
    model
}

/// The same crash on several file systems.
pub fn crash<const N: usize>(file_systems: [&'static str; N], text: &str) -> Crashes {
    Crashes(
        file_systems
            .iter()
            .map(|file_system| Crash::new(file_system, text))
            .collect(),
    )
}

pub struct Crashes(Vec<Crash>);

impl Crashes {
    /// These operations of the run left nothing behind, nor did those that cannot be done without
    /// them.
    pub fn lose(mut self, text: &str) -> Self {
        // A handle must have been opened for the text to be a workload.
        let lost = operations(&workload(&format!("tmpfile . as @h; {text}")));
        self.0
            .iter_mut()
            .for_each(|crash| crash.lost.extend(lost[1..].iter().cloned()));
        self
    }

    /// This was done to what was found.
    pub fn edit(mut self, edit: impl Fn(&mut Toy) + Clone + 'static) -> Self {
        self.0
            .iter_mut()
            .for_each(|crash| crash.edits.push(Box::new(edit.clone())));
        self
    }

    /// This name was not found.
    pub fn unname(self, path: &'static str) -> Self {
        self.edit(move |toy| toy.unname(path))
    }

    /// These promises are not made.
    pub fn without(mut self, promises: &[Promise]) -> Self {
        self.0
            .iter_mut()
            .for_each(|crash| crash.contract = crash.contract.without(promises));
        self
    }

    /// It can't be told whether anything is broken.
    #[track_caller]
    pub fn undecided(self) {
        for crash in &self.0 {
            assert!(
                crash.check().is_err(),
                "{}: {:?}",
                crash.text,
                crash.findings()
            );
        }
    }

    #[track_caller]
    pub fn legal(self) {
        self.breaks(&[]);
    }

    /// Exactly these promises are broken.
    #[track_caller]
    pub fn breaks(self, promises: &[Promise]) {
        for crash in &self.0 {
            let findings = crash.findings();
            let broken: BTreeSet<Promise> =
                findings.iter().map(|finding| finding.promise).collect();
            let expected: BTreeSet<Promise> = promises.iter().copied().collect();
            assert!(
                broken == expected,
                "{}",
                crash.complaint(&expected, &findings)
            );
        }
    }

    /// Something is broken.
    #[track_caller]
    pub fn breaks_something(self) {
        for crash in &self.0 {
            assert!(!crash.findings().is_empty(), "{}", crash.text);
        }
    }

    /// Exactly these promises are broken, by the return of this operation (counted from 0).
    #[track_caller]
    pub fn breaks_what_was_promised_by(self, operation: usize, promise: Promise) {
        for crash in &self.0 {
            let findings = crash.findings();
            let mut by: Vec<_> = findings
                .iter()
                .map(|finding| (finding.promise, finding.promised_by))
                .collect();
            // It may show at several names.
            by.dedup();
            assert_eq!(by, [(promise, Some(operation))], "{}", crash.text);
        }
    }
}

impl Crash {
    fn new(file_system: &'static str, text: &str) -> Self {
        let mut variants = Variant::parse_list(file_system).expect("a variant");
        let contract = Contract::for_variant(&variants.remove(0)).expect("it has a contract");
        let (lost, edits) = <_>::default();
        Self {
            file_system,
            contract,
            text: text.to_owned(),
            workload: workload(text),
            lost,
            edits,
        }
    }

    fn run(&self, without: &[Op]) -> Toy {
        let mut toy = Toy::new();
        for (number, op) in operations(&self.workload).iter().enumerate() {
            if number < self.workload.setup.len() || !without.contains(op) {
                toy.apply(number, op);
            }
        }
        toy
    }

    fn findings(&self) -> Vec<Finding> {
        self.check()
            .unwrap_or_else(|undecided| panic!("{}: {undecided}", self.text))
    }

    fn check(&self) -> Result<Vec<Finding>, Undecided> {
        let model = model_under(&self.contract, &self.workload);
        let live = self.run(&[]).tree(self.file_system);
        oracle::check_live(&model, &live).expect("the toy and the model agree");
        let mut recovered = self.run(&self.lost);
        self.edits.iter().for_each(|edit| edit(&mut recovered));
        oracle::check(&model, Some(&live), &recovered.tree(self.file_system))
    }

    fn complaint(&self, expected: &BTreeSet<Promise>, findings: &[Finding]) -> String {
        let mut text = format!(
            "{}: {}\n  expected {expected:?}, found\n",
            self.file_system, self.text
        );
        for finding in findings {
            let _ = writeln!(
                text,
                "  {:?} '{}': {}",
                finding.promise, finding.path, finding.what
            );
        }
        text
    }
}
