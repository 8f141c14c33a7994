//! The page of sweeps of programs and clusters: each finding with a lane for each node, and arrows
//! for messages. All of it is written here; there is no script.

use std::path::{Path, PathBuf};

use askama::Template;
use node_sweep::{Fate, Finding, Moment, Rank, Recorded};

use crate::states::{BY_THE_LETTER, numbered_inconclusive, unended};

/// How wide a lane is at most, in pixels.
const LANE_MAX: usize = 330;

/// All lanes together have so much on a page that is 1280 pixels wide, unless each would have less
/// than its least.
const LANES: usize = 1040;
const LANE_MIN: usize = 120;

/// How wide a letter is, in tenths of a pixel.
const LETTER_TENTHS: usize = 67;

/// How high a line of it is.
const LINE: usize = 24;

/// Below the names of the nodes.
const TOP: usize = 28;

#[derive(Template)]
#[template(path = "states.html")]
struct Page {
    version: &'static str,
    style: &'static str,
    sweeps: Vec<SweepView>,
}

struct SweepView {
    name: String,
    directory: String,
    kernel: String,
    model: String,
    explore: String,
    check: String,
    table: String,
    findings: Vec<FindingView>,
}

struct FindingView {
    number: usize,
    /// What comes before it, if it is the first of a section.
    heading: Option<&'static str>,
    /// What no other finding of the page is called.
    anchor: String,
    title: String,
    relaxation: String,
    alike: String,
    text: String,
    width: usize,
    height: usize,
    lanes: Vec<Lane>,
    moments: Vec<MomentView>,
    /// From where to where, as x and y of both.
    messages: Vec<(usize, usize, usize, usize)>,
}

struct Lane {
    name: String,
    x: usize,
}

struct MomentView {
    class: &'static str,
    words: String,
    short: String,
    x: usize,
    y: usize,
    width: usize,
}

/// The page for these sweeps.
pub(super) fn page(sweeps: &[(PathBuf, Recorded)]) -> anyhow::Result<String> {
    let sweeps = sweeps
        .iter()
        .enumerate()
        .map(|(place, (directory, recorded))| sweep(place, directory, recorded));
    let style = include_str!("../../templates/report.css");
    Ok(Page {
        version: env!("CARGO_PKG_VERSION"),
        style,
        sweeps: sweeps.collect(),
    }
    .render()?)
}

fn sweep(place: usize, directory: &Path, recorded: &Recorded) -> SweepView {
    let Recorded {
        manifest,
        findings,
        summary,
        ..
    } = recorded;
    let unended = unended(recorded, directory).map(|words| words + "\n");
    let table = numbered_inconclusive(recorded) + &summary.table() + &unended.unwrap_or_default();
    SweepView {
        name: manifest.name.clone(),
        directory: directory.display().to_string(),
        kernel: manifest.kernel_release.clone(),
        model: manifest.model.clone(),
        explore: manifest.explore(),
        check: manifest.check().to_owned(),
        table,
        findings: views(place, findings),
    }
}

/// Those that no file system is known to show have a heading.
fn views(sweep: usize, findings: &[Finding]) -> Vec<FindingView> {
    let is_letter = |finding: &Finding| finding.rank == Rank::LetterOnly;
    let first = findings.iter().position(is_letter);
    let all = findings.iter().enumerate();
    all.map(|(place, finding)| FindingView {
        heading: (first == Some(place)).then_some(BY_THE_LETTER),
        ..view(sweep, finding)
    })
    .collect()
}

/// Where the lanes of a finding's nodes are, in pixels.
struct Lanes {
    /// Nodes that did nothing that is shown need none.
    shown: Vec<usize>,
    width: usize,
}

impl Lanes {
    fn of(finding: &Finding) -> Self {
        let is_shown = |node: &usize| finding.timeline.iter().any(|moment| moment.node == *node);
        let shown: Vec<_> = (0..finding.nodes.len()).filter(is_shown).collect();
        let width = (LANES / shown.len().max(1)).clamp(LANE_MIN, LANE_MAX);
        Self { shown, width }
    }

    fn x(&self, node: usize) -> usize {
        let place = self.shown.iter().position(|shown| *shown == node);
        place.unwrap_or_default() * self.width + 10
    }

    /// Of the line of the timeline at a place.
    fn y(place: usize) -> usize {
        TOP + place * LINE
    }

    fn moments(&self, finding: &Finding) -> Vec<MomentView> {
        let last = finding.acknowledged.as_ref();
        let last = last.map(|line| format!("the line `{}`", line.line));
        let mut moments = finding.timeline.iter();
        let acknowledged = moments.rposition(|moment| Some(&moment.words) == last.as_ref());
        let moment = |(place, moment): (usize, &Moment)| MomentView {
            class: match moment.fate {
                None if acknowledged == Some(place) => "acknowledged",
                Some(Fate::Kept) => "kept",
                Some(Fate::InPart) => "in-part",
                Some(Fate::Lost) => "lost",
                None => "",
            },
            short: short(&moment.words, (self.width - 30 - 12) * 10 / LETTER_TENTHS),
            words: moment.words.clone(),
            x: self.x(moment.node),
            y: Self::y(place),
            width: self.width - 30,
        };
        finding.timeline.iter().enumerate().map(moment).collect()
    }

    /// The lines between what was sent and where it arrived.
    fn messages(&self, finding: &Finding) -> Vec<(usize, usize, usize, usize)> {
        let message = |(place, moment): (usize, &Moment)| {
            let from = moment.from?;
            let sender = finding.timeline.get(from)?.node;
            Some((
                self.x(sender) + 4,
                Self::y(from) + LINE / 2,
                self.x(moment.node) + 2,
                Self::y(place) + LINE / 2,
            ))
        };
        let moments = finding.timeline.iter().enumerate();
        moments.filter_map(message).collect()
    }
}

fn view(sweep: usize, finding: &Finding) -> FindingView {
    let lanes = Lanes::of(finding);
    let lane = |node: &usize| Lane {
        name: finding.nodes[*node].node.clone(),
        x: lanes.x(*node),
    };
    FindingView {
        number: finding.number,
        heading: None,
        anchor: format!("{sweep}-{}", finding.number),
        title: finding.complaint.words.join("; "),
        relaxation: finding.relaxation.clone(),
        alike: finding.alike_words(),
        text: finding.text(),
        width: lanes.shown.len() * lanes.width + 10,
        height: Lanes::y(finding.timeline.len()) + 22,
        lanes: lanes.shown.iter().map(lane).collect(),
        moments: lanes.moments(finding),
        messages: lanes.messages(finding),
    }
}

/// What fits into a lane. All is in the title.
fn short(words: &str, letters: usize) -> String {
    if words.chars().count() <= letters {
        return words.to_owned();
    }
    words.chars().take(letters - 1).chain(['…']).collect()
}
