//! Campaigns of injected faults, as they are reported: the timeline of each run, which the script
//! of the page draws from data in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use askama::Template;
use brief::counted;
use campaign::{own_call, quoted};
use injector::Judged;
use injector::online::{
    InjectManifest, InjectResult, Lanes, Summary, findings, manifest, results, table,
};

use super::page::embedded;
use crate::inject::{lanes_of, story, summary_of};

/// A page has runs with about so many operations; the others are counted.
const OPERATIONS_MAX: usize = 100_000;

#[derive(Template)]
#[template(path = "inject.html")]
struct Page {
    version: &'static str,
    style: &'static str,
    script: &'static str,
    campaigns: Vec<CampaignView>,
    /// By its element, JSON that cannot end that.
    data: Vec<(String, String)>,
}

struct CampaignView {
    name: String,
    directory: String,
    what: String,
    ground: &'static str,
    table: String,
    not_shown: usize,
    findings: Vec<RunView>,
    others: Vec<RunView>,
}

struct RunView {
    id: String,
    title: String,
    verdict: &'static str,
    alike: String,
    text: String,
}

/// A campaign.
pub(super) struct Injected {
    pub(super) directory: PathBuf,
    pub(super) manifest: InjectManifest,
    pub(super) summary: Summary,
}

/// The directories of campaigns of injected faults, and the others.
pub(super) fn read(directories: &[PathBuf]) -> anyhow::Result<(Vec<Injected>, Vec<PathBuf>)> {
    let (mut injected, mut others) = (Vec::new(), Vec::new());
    for directory in directories {
        match manifest(directory)? {
            Some(manifest) => injected.push(Injected {
                directory: directory.clone(),
                manifest,
                summary: summary_of(directory, results(directory)?),
            }),
            None => others.push(directory.clone()),
        }
    }
    Ok((injected, others))
}

impl Injected {
    /// The folder of the cluster file, which is mostly called as the system is.
    pub(super) fn name(&self) -> String {
        let file = Path::new(&self.manifest.file);
        let folder = file.parent().and_then(Path::file_name);
        let name = folder.unwrap_or(file.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// One broken run of each kind, and the numbers of those that are alike.
    pub(super) fn findings(&self) -> Vec<(&InjectResult, Vec<u64>)> {
        findings(&self.summary.results)
    }

    /// A run in words, how it is made again, and its plan.
    pub(super) fn told(&self, result: &InjectResult) -> String {
        let directory = self.directory.to_string_lossy();
        let (call, number) = (own_call(), result.index + 1);
        let replay = format!("{call} replay {} {number}", quoted(&directory));
        format!(
            "{}  replay        {replay}\n\n{}",
            story(result, &self.manifest).trim_end().to_owned() + "\n",
            result.plan
        )
    }

    /// How many runs could not be judged, by why.
    pub(super) fn inconclusive(&self) -> BTreeMap<&str, u64> {
        let mut reasons = BTreeMap::new();
        for result in &self.summary.results {
            if let Judged::Inconclusive { why } = &result.ran.judged {
                *reasons.entry(why.as_str()).or_default() += 1;
            }
        }
        reasons
    }

    /// How many runs broke nothing.
    pub(super) fn clean(&self) -> u64 {
        let clean = self.summary.results.iter();
        clean
            .filter(|result| result.ran.judged == Judged::Ok)
            .count() as u64
    }

    /// What was never reached, and that the campaign did not end: what keeps it from being a pass.
    pub(super) fn short_of(&self) -> Vec<String> {
        let never = self.summary.never_reached(&self.manifest.sometimes);
        let is_uneventful = self.manifest.strategy.is_some()
            && self.summary.is_uneventful(&self.manifest.sometimes);
        let never = never.into_iter().filter(|_| is_uneventful);
        let mut short: Vec<_> = never.map(|name| format!("never reached: {name}")).collect();
        let unlooked = self.summary.never_looked().into_iter();
        short.extend(unlooked.map(specification::Unlooked::words));
        short.extend(self.summary.never_judged());
        let is_search = self.manifest.want.is_some();
        let is_shown = is_search && self.summary.shown() > 0;
        if is_search && !is_shown {
            short.push("no run shows what is wanted".into());
        }
        if self.summary.results.is_empty() {
            short.push("no run was made".into());
        }
        // A search ends with what it looks for.
        if self.summary.is_cut_off && !is_shown {
            let runs = counted(self.summary.results.len(), "run");
            short.push(format!("not finished: {runs} made so far"));
        }
        short
    }

    /// What was tried.
    pub(super) fn what(&self) -> String {
        let InjectManifest { strategy, seed, .. } = &self.manifest;
        strategy.as_ref().map_or_else(
            || "one plan".to_owned(),
            |strategy| format!("strategy {strategy}, seed {seed}"),
        )
    }

    fn view(&self, place: usize, data: &mut Vec<(String, String)>) -> anyhow::Result<CampaignView> {
        let mut pager = Pager {
            of: self,
            place,
            left: OPERATIONS_MAX,
            not_shown: 0,
            data,
        };
        let found = self.findings();
        let mut findings = Vec::new();
        for (result, numbers) in &found {
            findings.extend(pager.run(result, alike_words(numbers))?);
        }
        let is_told =
            |result: &InjectResult| found.iter().any(|(one, _)| one.index == result.index);
        let mut others = Vec::new();
        for result in self
            .summary
            .results
            .iter()
            .filter(|result| !is_told(result))
        {
            others.extend(pager.run(result, String::new())?);
        }
        Ok(CampaignView {
            name: self.name(),
            directory: self.directory.display().to_string(),
            what: self.what(),
            ground: if self.manifest.simulated.is_some() {
                "on simulated machines"
            } else {
                "in namespaces"
            },
            table: table(&self.summary, &self.manifest),
            not_shown: pager.not_shown,
            findings,
            others,
        })
    }
}

/// The runs that broke the same, if there are several.
fn alike_words(numbers: &[u64]) -> String {
    if numbers.len() == 1 {
        return String::new();
    }
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    format!("alike: runs {}", numbers.join(", "))
}

/// Puts runs into a page while there is place.
struct Pager<'a> {
    of: &'a Injected,
    /// The place of its campaign.
    place: usize,
    /// How many operations there is place for.
    left: usize,
    not_shown: usize,
    data: &'a mut Vec<(String, String)>,
}

impl Pager<'_> {
    fn run(&mut self, result: &InjectResult, alike: String) -> anyhow::Result<Option<RunView>> {
        if self.left == 0 {
            self.not_shown += 1;
            return Ok(None);
        }
        let Injected {
            directory,
            manifest,
            ..
        } = self.of;
        let (lanes, why) = lanes_of(directory, manifest, result);
        self.left = self.left.saturating_sub(operations(&lanes));
        let number = result.index + 1;
        let id = format!("{}-{number}", self.place);
        self.data.push((format!("lanes-{id}"), embedded(&lanes)?));
        let (verdict, first) = match &result.ran.judged {
            Judged::Ok => ("ok", None),
            Judged::Broken { broken } => ("finding", broken.first()),
            Judged::Inconclusive { why } => ("inconclusive", Some(why)),
        };
        let first = first.map_or_else(String::new, |first| format!(": {first}"));
        Ok(Some(RunView {
            id,
            title: format!("Run {number}{first}"),
            verdict,
            alike,
            text: self.of.told(result) + &why.map_or_else(String::new, |why| format!("\n{why}\n")),
        }))
    }
}

fn operations(lanes: &Lanes) -> usize {
    let clients = lanes.clients.iter();
    clients.map(|client| client.operations.len()).sum::<usize>() + 1
}

/// The page for these campaigns.
pub(super) fn page(campaigns: &[Injected]) -> anyhow::Result<String> {
    let mut data = Vec::new();
    let views = campaigns.iter().enumerate();
    let views = views.map(|(place, campaign)| campaign.view(place, &mut data));
    let campaigns = views.collect::<anyhow::Result<_>>()?;
    Ok(Page {
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("../../templates/report.css"),
        script: include_str!("../../templates/lanes.js"),
        campaigns,
        data,
    }
    .render()?)
}
