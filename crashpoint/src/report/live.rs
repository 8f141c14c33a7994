//! Live sweeps, as they are reported: each finding as `crashpoint show` tells it.

use std::path::{Path, PathBuf};

use askama::Template;
use campaign::{own_call, quoted};
use injector::{
    Judged, LiveManifest, LiveResult, finding_in_full, findings, headline, manifest, reasons,
    results,
};

use crate::cluster::live_table;

#[derive(Template)]
#[template(path = "live.html")]
struct Page {
    version: &'static str,
    style: &'static str,
    sweeps: Vec<SweepView>,
}

struct SweepView {
    name: String,
    directory: String,
    kernel: String,
    seeds: String,
    states: String,
    table: String,
    findings: Vec<FindingView>,
}

struct FindingView {
    title: String,
    broken: String,
    text: String,
}

/// A live sweep.
pub(super) struct LiveSweep {
    pub(super) directory: PathBuf,
    pub(super) manifest: LiveManifest,
    results: Vec<LiveResult>,
    table: String,
}

/// The directories of live sweeps, and the others.
pub(super) fn read(directories: &[PathBuf]) -> anyhow::Result<(Vec<LiveSweep>, Vec<PathBuf>)> {
    let (mut live, mut others) = (Vec::new(), Vec::new());
    for directory in directories {
        match manifest(directory)? {
            Some(manifest) => {
                let results = results(directory)?;
                let table = live_table(directory, &manifest, &results)?;
                live.push(LiveSweep {
                    directory: directory.clone(),
                    manifest,
                    results,
                    table,
                });
            }
            None => others.push(directory.clone()),
        }
    }
    Ok((live, others))
}

impl LiveSweep {
    /// The folder of the cluster file, which is mostly called as the system is.
    pub(super) fn name(&self) -> String {
        let file = Path::new(&self.manifest.file);
        let folder = file.parent().and_then(Path::file_name);
        let name = folder.unwrap_or(file.as_os_str());
        name.to_string_lossy().into_owned()
    }

    pub(super) fn findings(&self) -> Vec<(&LiveResult, usize)> {
        findings(&self.results, &self.manifest)
    }

    /// A finding with everything that is broken, and how it happens again.
    pub(super) fn told(&self, number: usize, result: &LiveResult, alike: usize) -> String {
        let text = finding_in_full(number, result, alike, &self.manifest);
        let directory = self.directory.to_string_lossy();
        let replay = format!("{} replay {} {number}", own_call(), quoted(&directory));
        format!("{text}  replay        {replay}\n")
    }

    pub(super) fn results(&self) -> &[LiveResult] {
        &self.results
    }

    /// How many failures broke nothing.
    pub(super) fn clean(&self) -> u64 {
        let clean = self
            .results
            .iter()
            .filter(|result| result.judged == Judged::Ok);
        clean.count() as u64
    }

    /// How many could not be judged, with why.
    pub(super) fn inconclusive(&self) -> Vec<(&str, u64)> {
        reasons(&self.results)
    }

    /// That it did not end, if that is so.
    pub(super) fn unended(&self) -> Option<String> {
        let ended = injector::summary(&self.directory);
        let ended = ended.is_some_and(|summary| summary["is_cut_off"] == false);
        (!ended).then(|| format!("not finished: {} failures tried so far", self.results.len()))
    }

    fn view(&self) -> SweepView {
        let asked = &self.manifest.asked;
        let findings = self.findings().into_iter().enumerate();
        let findings = findings.map(|(place, (result, alike))| {
            let broken = result.broken().and_then(|broken| broken.first());
            FindingView {
                title: headline(place + 1, result, alike),
                broken: broken.cloned().unwrap_or_default(),
                text: self.told(place + 1, result, alike),
            }
        });
        SweepView {
            name: self.name(),
            directory: self.directory.display().to_string(),
            kernel: self.manifest.kernel.clone(),
            seeds: format!("{} to {}", asked.seeds.0, asked.seeds.1),
            states: asked.states.to_string(),
            table: self.table.clone(),
            findings: findings.collect(),
        }
    }
}

/// The page for these sweeps.
pub(super) fn page(sweeps: &[LiveSweep]) -> anyhow::Result<String> {
    Ok(Page {
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("../../templates/report.css"),
        sweeps: sweeps.iter().map(LiveSweep::view).collect(),
    }
    .render()?)
}
