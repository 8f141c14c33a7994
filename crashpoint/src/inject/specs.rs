//! Specifications that runs are held against, and the facts of runs that are over.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use campaign::Interrupt;
use cluster::ClusterFile;
use injector::online::{
    Examined, FACTS_FILE, FaultPlan, InjectManifest, InjectResult, RUNS, Ran, RunFacts, RunFiles,
    Specification, manifest, results,
};
use injector::{Error, Result};

use super::finding::numbered;

/// Reads specifications. Each has to be right, and to have a violation.
pub(super) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Specification>> {
    let mut all: Vec<Specification> = Vec::new();
    for path in paths {
        let specification = Specification::read(path);
        let specification = specification.with_context(|| format!("read {}", path.display()))?;
        let called = path.display().to_string();
        let program = specification.program(&called);
        let program = program.map_err(|problem| anyhow!("{problem}"))?;
        if !program.relations().any(datalog::Relation::is_violation) {
            bail!(
                "{called} has no violation, so nothing could be found with it: write `violation` \
                 before the rule of what must not be"
            );
        }
        if all.iter().any(|known| known.name == specification.name) {
            bail!(
                "two of the specifications are called {}",
                specification.name
            );
        }
        all.push(specification);
    }
    Ok(all)
}

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
        nodes: &manifest.nodes,
        clients: &clients(file),
        plan,
        ran,
        files,
    };
    let path = kept.map(|kept| kept.join(FACTS_FILE));
    let interrupt = interrupt.clone();
    let stops = move || interrupt.requested();
    let examined = Examined::of(&manifest.specifications, &facts, path.as_deref(), stops);
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
            nodes: &self.nodes,
            clients: &self.clients,
            plan: &self.plan,
            ran: &self.result.ran,
            files,
        }
    }
}
