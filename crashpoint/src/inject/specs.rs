//! Specifications that runs are held against, and the facts of runs that are over.

use std::path::{Path, PathBuf};

use anyhow::bail;
use campaign::Interrupt;
use cluster::ClusterFile;
use injector::online::{
    self, FACTS_FILE, FaultPlan, InjectManifest, InjectResult, RUNS, Ran, RunFacts, RunFiles,
    manifest, results,
};
use injector::{Error, Result};
use specification::About;

use super::finding::numbered;

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
        let path = Path::new(&manifest.file);
        let folder = path.parent().unwrap_or(Path::new("/"));
        let file = ClusterFile::parse(&manifest.text, path, folder)?;
        Ok(Self {
            kept,
            clients: clients(&file),
            plan: FaultPlan::parse(&result.plan, Path::new("the plan of the run"), &file)?,
            nodes: manifest.nodes,
            result,
        })
    }

    /// Its facts.
    pub(crate) fn facts<'a>(&'a self, files: &'a RunFiles) -> RunFacts<'a> {
        RunFacts {
            about: About::Run,
            nodes: &self.nodes,
            clients: &self.clients,
            kinds: self.plan.kinds(),
            ran: &self.result.ran,
            files,
            lines_ns: &[],
        }
    }
}
