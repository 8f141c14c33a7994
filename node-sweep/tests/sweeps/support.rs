//! What the tests have in common: two programs, their checks, and how they are swept.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use campaign::Interrupt;
use node_sweep::{
    Check, CheckCommand, CrashState, DiskState, Finding, Findings, Fingerprint, Plan, Program,
    Result, Subject, Swept, Verdict, Verdicts, Watch, sweep,
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

/// What is broken in a directory where this was acknowledged.
pub(crate) type Look = fn(&Path, &str) -> Option<String>;

/// A check in this process, which takes much less time than one in a shell.
pub(crate) struct Looks(pub(crate) Look);

impl Subject for Looks {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        let [DiskState::Tree(tree)] = &*state.disks else {
            panic!("it is not one directory")
        };
        let place = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let directory = place.path().join("directory");
        tree.write_to(&directory).expect("written");
        let acknowledged = String::from_utf8_lossy(&state.acknowledged);
        let broken = (self.0)(&directory, &acknowledged);
        Ok(broken.map_or(Verdict::Ok, |words| Verdict::Broken(vec![words].into())))
    }
}

pub(crate) fn swept(trace: &Trace, model: &str, look: Look, jobs: usize) -> (Swept, Vec<Finding>) {
    let subjects = (0..jobs).map(|_| Box::new(Looks(look)) as Box<dyn Subject>);
    let all = spaces(trace, model);
    let swept = swept_by(trace, &all, subjects.collect());
    let findings = explained(trace, &all, model, &swept);
    (swept, findings)
}

fn explained(trace: &Trace, all: &Spaces, model: &str, swept: &Swept) -> Vec<Finding> {
    let judged = Findings::new(trace, all, model);
    judged.explain(judged.of(swept), &requests(model), true)
}

/// As a user has it looked at.
pub(crate) fn swept_by_shell(
    trace: &Trace,
    model: &str,
    check: &str,
    jobs: usize,
) -> (Swept, Vec<Finding>) {
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
    let findings = explained(trace, &all, model, &swept);
    (swept, findings)
}

fn is_whole(file: &Path) -> bool {
    let content = std::fs::read(file).unwrap_or_default();
    content
        .split(|byte| *byte == b'\n')
        .any(|line| line == b"all of it")
}

/// What was said to be saved is in the file, whole.
pub(crate) const SAVED: Look = |directory, acknowledged| {
    let is_lost = acknowledged.contains("saved") && !is_whole(&directory.join("file"));
    is_lost.then(|| "what was saved is lost".into())
};

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
pub(crate) const ALL_THERE: Look = |directory, acknowledged| {
    let mut files = acknowledged.lines();
    let lost = files.find(|file| !is_whole(&directory.join(file)))?;
    Some(format!("{lost} is lost"))
};

/// The same, and it does not say which one is lost.
pub(crate) const ALL_THERE_SILENT: Look = |directory, acknowledged| {
    ALL_THERE(directory, acknowledged).map(|_| "something is lost".into())
};

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
