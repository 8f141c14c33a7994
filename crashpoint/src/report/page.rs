//! One HTML page without anything beside it. The table is written here; the findings are data in
//! the page, in pieces, of which its script reads those that somebody looks at.

use std::collections::{BTreeMap, HashMap};

use askama::Template;
use checker::Finding;
use itertools::Itertools;
use replayer::{Death, Found, FoundWhat, LostBytes, Open, RunLog, again_sentence, state_words};
use serde::Serialize;

use super::sweep::{KERNEL_DIED, Sweep, headline, promises};

/// More findings, or workloads of which not everything can be said, are not in the page: they are
/// counted there, and are in the results.
const ITEMS_MAX: usize = 20_000;

/// So many items are read at once when somebody looks at one.
const CHUNK: usize = 100;

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    version: &'static str,
    style: &'static str,
    script: &'static str,
    sweeps: Vec<SweepView>,
    rows: Vec<Row>,
    promises: Vec<String>,
    /// JSON that cannot end the element that it is in.
    index: String,
    /// The same.
    chunks: Vec<String>,
    not_shown: usize,
}

struct SweepView {
    directory: String,
    kernel: String,
    disk: String,
    states: String,
    workloads: String,
    finished: bool,
    /// What the time was too short for.
    left: Vec<String>,
    /// Rules that had nothing to look at.
    unlooked: Vec<String>,
}

struct Row {
    suite: String,
    workloads: u64,
    states: u64,
    equal: u64,
    clean: u64,
    findings: u64,
    inconclusive: u64,
    not_applicable: u64,
    seconds: String,
}

/// What the page knows of all items without looking closer.
#[derive(Serialize, Default)]
struct Index {
    chunk: usize,
    /// The file systems.
    suites: Vec<String>,
    promises: Vec<Promise>,
    sources: Vec<&'static str>,
    groups: Vec<GroupView>,
    items: Vec<Item>,
}

#[derive(Serialize)]
struct Promise {
    name: String,
    words: &'static str,
}

#[derive(Serialize)]
struct GroupView {
    /// The item to show.
    representative: usize,
    /// Crash states that it stands for.
    states: u64,
}

/// A finding, or a workload of which not everything can be said.
#[derive(Serialize)]
struct Item {
    verdict: &'static str,
    suite: usize,
    /// The finding's number.
    number: Option<usize>,
    group: usize,
    workload: String,
    promises: Vec<usize>,
    headline: String,
    operations: Vec<String>,
}

/// What is read of an item when somebody looks at it.
#[derive(Serialize, Default)]
struct Detail<'a> {
    setup: usize,
    /// Operations that had returned; none for a kernel that died, which did so at no known place.
    done: Option<usize>,
    under_way: bool,
    disk: String,
    more: u32,
    lost: Vec<LostBytes>,
    broken: Vec<Broken<'a>>,
    /// What would have prevented it.
    prevented: Vec<String>,
    log: Option<LogView<'a>>,
    death: Option<&'a Death>,
    replay: String,
}

impl<'a> Detail<'a> {
    fn of_death(death: &'a Death, setup: usize, replay: String) -> Self {
        Self {
            setup,
            death: Some(death),
            replay,
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
struct Broken<'a> {
    promise: usize,
    path: &'a str,
    what: &'a str,
    by: Option<usize>,
    source: Option<usize>,
    /// What a violation of a rule follows from.
    because: Option<&'a str>,
}

/// The log up to the crash.
#[derive(Serialize)]
struct LogView<'a> {
    left_out: u32,
    /// Place, kind, offset, length, operation: as results have it.
    entries: Vec<(u32, char, u64, u64, Option<u32>)>,
    /// What was written, by place, as far as it is known.
    holds: &'a BTreeMap<u32, String>,
}

impl<'a> LogView<'a> {
    fn of(log: &'a RunLog, requests: usize) -> Self {
        let before = log
            .entries
            .iter()
            .filter(|entry| (entry.place as usize) < requests);
        let fields = before.map(|entry| {
            (
                entry.place,
                entry.kind,
                entry.offset,
                entry.length,
                entry.operation,
            )
        });
        Self {
            left_out: log.left_out,
            entries: fields.collect(),
            holds: &log.holds,
        }
    }
}

/// The page for these sweeps.
pub(super) fn page(sweeps: &[Sweep]) -> anyhow::Result<String> {
    let mut builder = Builder::default();
    let mut rows = Vec::new();
    for sweep in sweeps {
        builder.add(sweep, sweeps.len() == 1, &mut rows);
    }
    let Builder {
        mut index,
        details,
        not_shown,
        ..
    } = builder;
    index.chunk = CHUNK;
    let chunks: Result<Vec<_>, _> = details.chunks(CHUNK).map(embedded).collect();
    let page = Page {
        version: env!("CARGO_PKG_VERSION"),
        style: include_str!("../../templates/report.css"),
        script: include_str!("../../templates/report.js"),
        sweeps: sweeps.iter().map(view).collect(),
        rows,
        promises: index
            .promises
            .iter()
            .map(|promise| promise.name.clone())
            .sorted()
            .collect(),
        index: embedded(&index)?,
        chunks: chunks?,
        not_shown,
    };
    Ok(page.render()?)
}

/// JSON as it may stand in a script element: nothing in it begins a tag or a comment.
pub(super) fn embedded<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

fn view(sweep: &Sweep) -> SweepView {
    let manifest = &sweep.findings.manifest;
    SweepView {
        directory: sweep.directory.display().to_string(),
        kernel: manifest.kernel_release.clone(),
        disk: manifest.disk.clone(),
        states: manifest.states.join(","),
        workloads: manifest.workloads.clone(),
        finished: sweep.overview.finished,
        left: sweep.overview.left(),
        unlooked: sweep.overview.unlooked(),
    }
}

#[derive(Default)]
struct Builder<'a> {
    index: Index,
    details: Vec<Detail<'a>>,
    not_shown: usize,
    promise_places: HashMap<String, usize>,
    source_places: HashMap<&'static str, usize>,
}

impl<'a> Builder<'a> {
    fn add(&mut self, sweep: &'a Sweep, alone: bool, rows: &mut Vec<Row>) {
        let first_suite = self.index.suites.len();
        for swept in &sweep.overview.file_systems {
            let (name, summary) = (swept.variant.to_string(), &swept.summary);
            let suite = if alone {
                name
            } else {
                format!("{name} ({})", sweep.directory.display())
            };
            self.index.suites.push(suite.clone());
            rows.push(Row {
                suite,
                workloads: summary.workloads,
                states: summary.states_checked,
                equal: summary.states_equal,
                clean: swept.clean,
                findings: summary.findings,
                inconclusive: summary.inconclusive,
                not_applicable: summary.not_applicable,
                seconds: format!("{:.1}", summary.elapsed.as_secs_f64()),
            });
        }
        self.add_findings(sweep, first_suite);
        self.add_open(sweep, first_suite);
    }

    fn add_findings(&mut self, sweep: &'a Sweep, first_suite: usize) {
        let all = &sweep.findings.all;
        let shown = all
            .len()
            .min(ITEMS_MAX.saturating_sub(self.index.items.len()));
        self.not_shown += all.len() - shown;
        let group_of = self.add_groups(sweep, shown);
        for (found, group) in all.iter().zip(group_of) {
            let promises = promises(found).into_iter();
            let operations = found.workload.operations();
            let item = Item {
                verdict: "finding",
                suite: first_suite + sweep.overview.place(found),
                number: Some(found.number),
                group,
                workload: found.workload.name.clone(),
                promises: promises.map(|name| self.promise(name, found)).collect(),
                headline: headline(found),
                operations: operations.map(ToString::to_string).collect(),
            };
            self.index.items.push(item);
            let detail = self.detail(sweep, found);
            self.details.push(detail);
        }
    }

    /// Adds the groups of the findings that are shown, and says which is that of each.
    fn add_groups(&mut self, sweep: &Sweep, shown: usize) -> Vec<usize> {
        let first_item = self.index.items.len();
        let mut group_of = vec![0; shown];
        for group in sweep.findings.groups() {
            let numbers = group.members.iter().map(|found| found.number);
            let numbers = numbers.filter(|number| *number <= shown);
            let best = Some(group.representative.number).filter(|number| *number <= shown);
            let Some(representative) = best.or_else(|| numbers.clone().next()) else {
                continue;
            };
            numbers.for_each(|number| group_of[number - 1] = self.index.groups.len());
            self.index.groups.push(GroupView {
                representative: first_item + representative - 1,
                states: group.states(),
            });
        }
        group_of
    }

    fn detail(&mut self, sweep: &'a Sweep, found: &'a Found) -> Detail<'a> {
        let setup = found.workload.setup.len();
        let replay = sweep.replay(found);
        let state = match &found.what {
            FoundWhat::Death(death) => return Detail::of_death(death, setup, replay),
            FoundWhat::State(state) => state,
        };
        let requests = state.state.requests();
        let mut lost = state.lost.clone();
        let mut prevented = Vec::new();
        if let Some(evidence) = sweep.evidence(found) {
            let never = evidence.never_happened(state);
            lost.extend(never.map(|entry| LostBytes {
                place: entry.place,
                offset: entry.offset,
                length: entry.length,
            }));
            prevented = evidence.ways_out(state, &found.workload);
        }
        Detail {
            setup,
            done: Some(state.operations_done as usize),
            under_way: state.under_way,
            disk: state_words(state) + &again_sentence(state),
            more: state.more,
            lost,
            broken: self.broken(sweep, found, &state.findings),
            prevented,
            log: found.log.as_ref().map(|log| LogView::of(log, requests)),
            death: None,
            replay,
        }
    }

    /// The promises that a state breaks.
    fn broken(&mut self, sweep: &Sweep, found: &Found, findings: &'a [Finding]) -> Vec<Broken<'a>> {
        let broken = findings.iter().map(|finding| Broken {
            promise: self.promise(finding.promise.name(), found),
            path: &finding.path,
            what: &finding.what,
            by: finding.promised_by,
            source: sweep
                .source(found, finding)
                .map(|source| place_in(&mut self.source_places, source, &mut self.index.sources)),
            because: finding.rule.as_ref().map(|rule| rule.derivation.as_str()),
        });
        broken.collect()
    }

    /// The place of a promise that a finding breaks.
    fn promise(&mut self, name: String, found: &Found) -> usize {
        let broken = found
            .findings()
            .iter()
            .find(|finding| finding.promise.name() == name);
        let words = broken.map_or("the kernel survives", |finding| finding.promise.words());
        debug_assert!(broken.is_some() || name == KERNEL_DIED);
        let promises = &mut self.index.promises;
        *self.promise_places.entry(name.clone()).or_insert_with(|| {
            promises.push(Promise { name, words });
            promises.len() - 1
        })
    }

    fn add_open(&mut self, sweep: &'a Sweep, first_suite: usize) {
        let shown = sweep
            .overview
            .open
            .len()
            .min(ITEMS_MAX.saturating_sub(self.index.items.len()));
        self.not_shown += sweep.overview.open.len() - shown;
        let mut groups: HashMap<_, usize> = HashMap::new();
        for open in &sweep.overview.open[..shown] {
            let verdict = if open.not_applicable {
                "not-applicable"
            } else {
                "inconclusive"
            };
            let (item, next) = (self.index.items.len(), self.index.groups.len());
            let group = *groups
                .entry((open.place, verdict, kind_of(open)))
                .or_insert(next);
            if group == next {
                self.index.groups.push(GroupView {
                    representative: item,
                    states: 0,
                });
            }
            self.index.items.push(Item {
                verdict,
                suite: first_suite + open.place,
                number: None,
                group,
                workload: open.workload.clone(),
                promises: Vec::new(),
                headline: open.why.clone(),
                operations: vec![open.text.clone()],
            });
            self.details.push(Detail::default());
        }
    }
}

/// What is put together: for the same reason, but for numbers.
fn kind_of(open: &Open) -> String {
    open.why
        .split_whitespace()
        .filter(|word| !word.contains(|letter: char| letter.is_ascii_digit()))
        .join(" ")
}

fn place_in(
    places: &mut HashMap<&'static str, usize>,
    text: &'static str,
    all: &mut Vec<&'static str>,
) -> usize {
    *places.entry(text).or_insert_with(|| {
        all.push(text);
        all.len() - 1
    })
}
