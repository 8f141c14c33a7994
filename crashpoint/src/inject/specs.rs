//! Specifications that runs are held against, and the facts of runs that are over.

use std::path::{Path, PathBuf};

use anyhow::bail;
use campaign::Interrupt;
use cluster::ClusterFile;
use injector::online::{
    self, FACTS_FILE, FaultPlan, InjectManifest, InjectResult, KnownCalls, RUNS, Ran, RunFacts,
    RunFiles, manifest, results,
};
use injector::{Error, Result};
use specification::About;

use super::finding::numbered;
use super::kept_file;

fn clients(file: &ClusterFile) -> Vec<String> {
    let clients = file.all_clients().into_iter();
    clients.map(|client| client.name).collect()
}

/// Holds the specifications of a campaign against a run of it.
pub(super) fn examine(
    (file, manifest): (&ClusterFile, &InjectManifest),
    plan: &FaultPlan,
    ran: &mut Ran,
    files: &RunFiles,
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<()> {
    let facts = RunFacts {
        about: About::Run,
        nodes: &manifest.nodes,
        clients: &clients(file),
        kinds: plan.kinds(),
        calls: KnownCalls::of(manifest, plan, ran),
        ran,
        files,
        lines_ns: &[],
    };
    let path = kept.map(|kept| kept.join(FACTS_FILE));
    let interrupt = interrupt.clone();
    let stops = move || interrupt.requested();
    let examined = online::examine(&manifest.specifications, &facts, path.as_deref(), stops);
    match examined {
        Ok(examined) => {
            ran.take_in(examined, plan.faults.is_empty());
            Ok(())
        }
        Err(Error::Facts(datalog::Error::Interrupted)) => Err(cluster::Error::Interrupted.into()),
        Err(error) => {
            ran.not_examined(&error);
            Ok(())
        }
    }
}

/// A run that is over, and that was kept.
pub(crate) struct Finished {
    /// What it left.
    pub(crate) kept: PathBuf,
    nodes: Vec<String>,
    clients: Vec<String>,
    plan: FaultPlan,
    calls: KnownCalls,
    result: InjectResult,
}

impl Finished {
    /// The run with a number of the results in a directory.
    pub(crate) fn read(directory: &Path, number: usize) -> anyhow::Result<Self> {
        let Some(manifest) = manifest(directory)? else {
            bail!(
                "{} has no results of `crashpoint inject`",
                directory.display()
            );
        };
        let results = results(directory)?;
        let result = numbered(&results, number)?.clone();
        let kept = directory.join(RUNS).join(number.to_string());
        if !kept.is_dir() {
            bail!(
                "{} is not there: what run {number} left is gone",
                kept.display()
            );
        }
        let file = kept_file(&manifest)?;
        let plan = FaultPlan::parse(&result.plan, Path::new("the plan of the run"), &file)?;
        Ok(Self {
            kept,
            clients: clients(&file),
            calls: KnownCalls::of(&manifest, &plan, &result.ran),
            plan,
            nodes: manifest.nodes,
            result,
        })
    }

    /// Why what rules say is violated in it is not certain.
    pub(crate) fn doubt(&self) -> Option<String> {
        self.result.ran.doubt(self.plan.faults.is_empty())
    }

    /// Its facts.
    pub(crate) fn facts<'a>(&'a self, files: &'a RunFiles) -> RunFacts<'a> {
        RunFacts {
            about: About::Run,
            nodes: &self.nodes,
            clients: &self.clients,
            kinds: self.plan.kinds(),
            calls: self.calls.clone(),
            ran: &self.result.ran,
            files,
            lines_ns: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use injector::online::InjectDirectory;
    use serde_json::json;

    use super::*;

    /// What came of its fault.
    fn came(state: &str) -> serde_json::Value {
        json!({"state": state, "fired_ns": 1, "placed_ns": 1, "undone_ns": 2, "on": ["a"]})
    }

    /// A run of simulated machines that was kept, of which this is known as well.
    fn finished(more: serde_json::Value, of: impl FnOnce(&Finished)) {
        let text = "[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n";
        let file = ClusterFile::parse(text, Path::new("c.toml"), Path::new("/"));
        let mut manifest = InjectManifest::new(&file.expect("a cluster"), Path::new("/c.toml"));
        let machines = json!({"seed": 1, "kernel": "/linux", "kernel_hash": "1f", "chaos": "off"});
        manifest.simulated = Some(serde_json::from_value(machines).expect("machines"));
        let plan = "[[faults]]\nat = { time_s = 1 }\nfault = \"power-loss\"\non = \"a\"\n\
                    until = { after_s = 1 }\n";
        let mut result = json!({
            "index": 0, "plan": plan, "events": [], "faults": [came("undone")], "acknowledged": 0,
            "acknowledged_before_heal": 0, "seconds": 1.0, "verdict": "ok"
        });
        let serde_json::Value::Object(more) = more else {
            panic!("{more} is no object")
        };
        result.as_object_mut().expect("an object").extend(more);
        let result: InjectResult = serde_json::from_value(result).expect("a run");
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("results");
        let mut directory = InjectDirectory::create(&path, manifest).expect("made");
        directory.append(&result).expect("written");
        directory.run_directory(0).expect("made");
        of(&Finished::read(&path, 1).unwrap_or_else(|error| panic!("{error:#}")));
    }

    /// The cluster file names no disks: on simulated machines there are some.
    #[test]
    fn a_run_on_simulated_machines_whose_power_failed_answers_questions() {
        finished(json!({}), |finished| {
            let files = RunFiles::kept(&finished.kept);
            assert_eq!(finished.facts(&files).kinds, ["power-loss"]);
            assert_eq!(finished.doubt(), None);
        });
    }

    #[test]
    fn what_rules_say_of_a_run_that_accuses_nobody_is_not_certain() {
        let killed = json!({
            "time_ns": 1, "acknowledged": 0, "event": "node-ended", "node": "a",
            "how": "was ended by SIGKILL"
        });
        for (more, expected) in [
            (json!({"is_cut_short": true}), "cut short"),
            (
                json!({"doubts": ["a was ended by SIGKILL"]}),
                "a was ended by SIGKILL",
            ),
            (
                json!({"faults": [came("never-fired")]}),
                "no fault was in place",
            ),
            // A run that was made before doubts were kept.
            (
                json!({"events": [killed]}),
                "a was ended by SIGKILL; no fault did that",
            ),
        ] {
            finished(more, |finished| {
                let doubt = finished.doubt().expect("a doubt");
                assert!(doubt.contains(expected), "{doubt}");
            });
        }
    }
}
