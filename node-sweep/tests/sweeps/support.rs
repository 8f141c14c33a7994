//! What the tests have in common: two programs, their checks, and how they are swept.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use campaign::Interrupt;
use node_sweep::{
    Check, CheckCommand, CrashState, Finding, Findings, Fingerprint, Plan, Program, Result,
    Subject, Swept, Verdict, Verdicts, Watch, sweep,
};
use pace_rules::nodes::{Explore, Model, Relaxations, Request, Spaces, Split};
use trace::FileId;
use trace_store::Trace;

use crate::recording::{Recording, TMP};

/// For each model of a name.
pub(crate) fn requests(name: &str) -> Vec<Request> {
    let of_model = |model| Request {
        model,
        explore: Explore::BruteForce,
        lost: 1,
        split: Split::default(),
        sector: pace_rules::Sector::default(),
        relaxations: Relaxations::ALL,
    };
    Model::all_named(name).into_iter().map(of_model).collect()
}

pub(crate) fn spaces(trace: &Trace, name: &str) -> Spaces {
    Spaces::new(&trace.run, &requests(name)).expect("spaces")
}

/// Has all states of these spaces looked at.
pub(crate) fn swept_by(trace: &Trace, all: &Spaces, subjects: Vec<Box<dyn Subject + '_>>) -> Swept {
    let (plan, interrupt) = (Plan::default(), Interrupt::default());
    sweep(
        trace,
        all,
        0..all.len(),
        subjects,
        &plan,
        &interrupt,
        &mut (),
    )
    .expect("swept")
}

pub(crate) fn swept(trace: &Trace, model: &str, check: &str, jobs: usize) -> (Swept, Vec<Finding>) {
    let requests = requests(model);
    let all = spaces(trace, model);
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let check = Check {
        command: CheckCommand::Once(check.into()),
        limit: Duration::from_secs(600),
        environment: Vec::new(),
        working_directory: None,
        interrupt: Interrupt::default(),
    };
    let subjects = (0..jobs).map(|number| {
        let place = directory.path().join(number.to_string());
        std::fs::create_dir(&place).expect("made");
        Box::new(Program::new(place, None, &check)) as Box<dyn Subject>
    });
    let subjects = subjects.collect();
    let swept = swept_by(trace, &all, subjects);
    assert_eq!(
        directory.path().join("0").read_dir().expect("read").count(),
        0,
        "states are left"
    );
    let judged = Findings::new(trace, &all, model);
    let findings = judged.explain(judged.of(&swept), &requests, true);
    (swept, findings)
}

/// What was said to be saved is in the file, whole.
pub(crate) const SAVED: &str = r#"if grep -q saved {acks} && ! grep -qx "all of it" {dir}/file; then echo "broken what was saved is lost"; else echo ok; fi"#;

pub(crate) fn saved(syncs_file: bool, syncs_directory: bool) -> Trace {
    let mut recording = Recording::default();
    recording.create("tmp", TMP).append(TMP, 0, b"all of it\n");
    if syncs_file {
        recording.fsync(TMP);
    }
    recording.rename("tmp", "file", TMP);
    if syncs_directory {
        recording.fsync(FileId::ROOT);
    }
    recording.mark("saved").trace()
}

/// Keeps what was found, and has enough after so many.
pub(crate) struct Keeps<'a> {
    pub(crate) verdicts: Verdicts,
    pub(crate) most: usize,
    pub(crate) interrupt: &'a Interrupt,
}

impl Watch for Keeps<'_> {
    fn judged(&mut self, _: u64, key: &Fingerprint, verdict: &Verdict) -> Result<()> {
        assert!(
            self.verdicts.insert(*key, verdict.clone()).is_none(),
            "it was looked at twice"
        );
        if self.verdicts.len() >= self.most {
            self.interrupt.request();
        }
        Ok(())
    }
}

/// Finds every state broken, and notes those that it was asked of again.
pub(crate) struct Everything(pub(crate) Arc<Mutex<HashSet<Fingerprint>>>);

impl Subject for Everything {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        let mut confirmed = self.0.lock().expect("nobody panics with it");
        if again {
            confirmed.insert(state.key);
        }
        Ok(Verdict::Broken(vec!["broken".to_owned()].into()))
    }
}

/// What was acknowledged is in a file of that name, whole.
pub(crate) const ALL_THERE: &str = r#"for file in $(cat {acks}); do if ! grep -qx "all of it" {dir}/$file; then echo "broken $file is lost"; exit; fi; done; echo ok"#;

/// Saves files of these names, and syncs nothing but the directory.
pub(crate) fn saves(names: &[&str]) -> Trace {
    let mut recording = Recording::default();
    for (number, name) in (1..).zip(names) {
        recording
            .create(name, FileId(number))
            .append(FileId(number), 0, b"all of it\n");
        recording.fsync(FileId::ROOT).mark(name);
    }
    recording.trace()
}

/// What is missing in each finding.
pub(crate) fn missing(findings: &[Finding]) -> Vec<Vec<&str>> {
    fn words(finding: &Finding) -> Vec<&str> {
        let missing = finding
            .nodes
            .iter()
            .flat_map(|node| node.lost.iter().chain(&node.midway));
        missing.map(|lost| lost.words.as_str()).collect()
    }
    findings.iter().map(words).collect()
}
