//! A finding in words, for people: what is broken first, and no more than fits on a screen.

mod lines;

use std::collections::BTreeMap;

use brief::counted;
use pace_rules::Sector;
use pace_rules::nodes::{LINUX, Model, Split};

use crate::finding::{DiskStory, Finding, Lost, NodeStory, StartStory, Sync};
use crate::request::Level;
use crate::starts::Start;
use crate::summary::recordings_words;
use lines::{Lines, end_of};

/// A finding has so many lines.
const LINES_MAX: usize = 23;

/// What comes before what the check said.
const BROKEN: &str = "broken";

/// How much is said of what there is much of.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Things that the check said.
    broken: usize,
    /// Operations of a node that are missing.
    lost: usize,
    /// Whether it is said which functions made the calls.
    callers: bool,
    /// Files of a node.
    files: usize,
    /// Whether the bytes at the place are shown.
    dump: bool,
    /// Operations of a node that persisted.
    kept: usize,
    /// Nodes of which something is missing.
    harmed: usize,
    /// Nodes of which nothing is.
    nodes: usize,
    /// Lines of one thing.
    lines: usize,
}

/// Everything.
const ALL: Detail = Detail {
    broken: usize::MAX,
    lost: usize::MAX,
    callers: true,
    files: usize::MAX,
    dump: true,
    kept: usize::MAX,
    harmed: usize::MAX,
    nodes: usize::MAX,
    lines: usize::MAX,
};

/// From much to little. The first is taken that fits.
const DETAILS: [Detail; 4] = [
    Detail {
        broken: 3,
        lost: 4,
        callers: true,
        files: 3,
        dump: true,
        kept: 3,
        harmed: 4,
        nodes: 5,
        lines: 3,
    },
    Detail {
        broken: 2,
        lost: 2,
        callers: true,
        files: 2,
        dump: true,
        kept: 2,
        harmed: 3,
        nodes: 4,
        lines: 2,
    },
    Detail {
        broken: 1,
        lost: 1,
        callers: true,
        files: 1,
        dump: true,
        kept: 1,
        harmed: 2,
        nodes: 2,
        lines: 2,
    },
    Detail {
        broken: 1,
        lost: 1,
        callers: false,
        files: 1,
        dump: false,
        kept: 0,
        harmed: 1,
        nodes: 0,
        lines: 1,
    },
];

impl Finding {
    /// It in words that fit on a screen.
    pub fn text(&self) -> String {
        self.text_as(BROKEN, false)
    }

    /// All that there is to say of it.
    pub fn text_all(&self) -> String {
        self.text_as(BROKEN, true)
    }

    /// The same of a state that nobody could judge, with the reason in place of what is broken.
    pub fn inconclusive_text(&self, all: bool) -> String {
        self.text_as("inconclusive", all)
    }

    /// How many states it stands for: those that differ, as the table counts what is broken, and with
    /// those that are equal to one of them.
    pub fn alike_words(&self) -> String {
        let different = match self.different {
            0 => self.states,
            different => different,
        };
        let alike = match different {
            1 => "1 state".to_owned(),
            more => format!("{more} states alike"),
        };
        if different == self.states {
            alike
        } else {
            format!("{alike}, {} with equal ones", self.states)
        }
    }

    fn text_as(&self, head: &str, all: bool) -> String {
        let details = if all { &[ALL][..] } else { &DETAILS[..] };
        let mut last = String::new();
        for detail in details {
            let lines = self.lines(head, *detail);
            last = lines.text;
            if lines.count <= LINES_MAX {
                break;
            }
        }
        last
    }

    /// `head` comes before what was said of it.
    fn lines(&self, head: &str, detail: Detail) -> Lines {
        let mut lines = Lines::default();
        self.add_complaint(&mut lines, head, detail);
        if let Some(line) = &self.acknowledged {
            lines.add(
                "acknowledged",
                &format!("`{}`, printed by {} before the crash", line.line, line.node),
                detail.lines,
            );
        }
        if let Some(start) = &self.start {
            lines.add("started", &start.words(), detail.lines);
        }
        self.add_crashes(&mut lines, detail);
        self.add_nodes(&mut lines, detail);
        self.add_remedies(&mut lines, detail);
        lines
    }

    /// What the check said, and how often.
    fn add_complaint(&self, lines: &mut Lines, head: &str, detail: Detail) {
        for words in self.complaint.words.iter().take(detail.broken) {
            lines.add(head, words, detail.lines);
        }
        let more = self.complaint.words.len().saturating_sub(detail.broken);
        if more > 0 {
            lines.add(head, &format!("and {more} more (--all shows them)"), 1);
        }
        self.add_derivations(lines, detail);
        if let Some(log) = &self.complaint.log {
            lines.add("its log", &end_of(log, detail.lines), detail.lines);
        }
        if let Some(tries) = self.complaint.tries {
            let seen = self.complaint.seen.unwrap_or(2);
            let without = self.complaint.ok_without_crash;
            let without = without.map_or_else(String::new, |asked| {
                format!("; without a crash in 0 of {asked}")
            });
            lines.add("seen", &format!("in {seen} of {tries} tries{without}"), 1);
        }
    }

    /// Why rules say so.
    fn add_derivations(&self, lines: &mut Lines, detail: Detail) {
        for tree in self.derivations.iter().take(detail.broken) {
            lines.add("because", "", 1);
            let all = tree.lines();
            all.for_each(|line| lines.add_as_it_is(line));
        }
    }

    /// The crashes before this one, if it is one of a recovery.
    fn add_crashes(&self, lines: &mut Lines, detail: Detail) {
        for crash in &self.crashes {
            lines.add("first crash", crash, detail.lines);
        }
        if !self.crashes.is_empty() {
            let words = if self.level() == Level::DiskRecovery {
                "the power failed again while the file system recovered from that"
            } else {
                "the power failed again during the recovery from that"
            };
            lines.add("then", words, 2);
        }
    }

    /// What is missing on the nodes, what their files are, and when they crashed.
    fn add_nodes(&self, lines: &mut Lines, detail: Detail) {
        let is_named = self.nodes.len() > 1;
        let (harmed, whole): (Vec<_>, Vec<_>) =
            self.nodes.iter().partition(|node| node.is_harmed());
        let shown = &harmed[..harmed.len().min(detail.harmed)];
        let more = harmed.len() - shown.len();
        self.add_losses(lines, shown, more, detail);
        for node in shown {
            node.add_files(lines, is_named, detail);
        }
        for node in shown {
            node.add_kept(lines, is_named, detail);
        }
        self.add_patterns(lines, detail);
        // A program does nothing while its file system recovers.
        if self.level() != Level::DiskRecovery {
            for node in shown.iter().chain(whole.iter().take(detail.nodes)) {
                lines.add("crash", &node.crash(is_named), detail.lines);
            }
        }
        let more = more + whole.len().saturating_sub(detail.nodes);
        if more > 0 {
            let words = format!("and {} (--all shows them)", counted(more, "more node"));
            lines.add("crash", &words, 1);
        }
    }

    /// What is missing on some nodes, where there are so many more.
    fn add_losses(&self, lines: &mut Lines, shown: &[&NodeStory], more: usize, detail: Detail) {
        for node in shown {
            node.add_missing(lines, self.nodes.len() > 1, detail);
        }
        if more > 0 {
            let nodes = counted(more, "more node");
            let words = format!("and something on {nodes} (--all shows it)");
            lines.add("lost", &words, 1);
        }
        if self.lost_together().len() > 1 {
            let words = if self.together_unproven {
                "there was no time to look whether each of these losses is needed"
            } else {
                "without any one of these losses nothing is broken"
            };
            lines.add("together", words, 1);
        }
    }

    /// Files that are one finding because their names are alike.
    fn add_patterns(&self, lines: &mut Lines, detail: Detail) {
        for (pattern, files) in &self.patterns {
            let words = format!(
                "{} of the run are called {pattern}: they are one finding",
                counted(*files, "file")
            );
            lines.add("alike", &words, detail.lines);
        }
    }

    /// Which node it is, if there are several.
    fn on_node(&self, node: &str) -> String {
        if self.nodes.len() > 1 {
            format!(" on {node}")
        } else {
            String::new()
        }
    }

    /// The syncs that would have prevented it.
    fn add_prevented_by(&self, lines: &mut Lines, detail: Detail) {
        if self.prevention_cut_short {
            lines.add("prevented by", "not known: the search was cut short", 1);
        }
        if self.prevented_by.is_empty() {
            return;
        }
        let sync = |sync: &Sync| sync_words(sync, &self.on_node(&sync.node));
        let syncs: Vec<_> = self.prevented_by.iter().map(sync).collect();
        lines.add("prevented by", &syncs.join(" and "), detail.lines);
    }

    fn add_remedies(&self, lines: &mut Lines, detail: Detail) {
        for weak in self.promised_nothing.iter().take(detail.lines) {
            let node = self.on_node(&weak.node);
            let times = counted(weak.times, "time");
            let words = format!("by {} of {}{node} ({times})", weak.call, weak.path);
            lines.add("not promised", &words, detail.lines);
        }
        self.add_prevented_by(lines, detail);
        if let Some(words) = self.recordings_words() {
            lines.add("recordings", &words, detail.lines);
        }
        if self.recoveries > 1 {
            let words = format!("seen in at least {} of them", self.recoveries);
            lines.add("recoveries", &words, 1);
        }
        if let Some(words) = self.models_words() {
            lines.add("models", &words, detail.lines);
        }
    }

    /// Where it is possible, and where it was not found; nothing if that was not looked at. What was
    /// not found is not impossible: with more operations lost, or writes cut elsewhere, it may be.
    fn models_words(&self) -> Option<String> {
        if self.models.is_empty() {
            return None;
        }
        let mut words = format!("possible on {}", self.possible_models().join(", "));
        let is_model = |name: &str| name == LINUX || Model::named(name).is_some();
        let not_found = self.models_where(|name, is_possible| !is_possible && is_model(name));
        let not_seen = self.models_where(|name, is_possible| !is_possible && !is_model(name));
        if !not_found.is_empty() {
            let not_found = not_found.join(", ");
            words += &format!("; with {} not found on {not_found}", self.searched);
        }
        if !not_seen.is_empty() {
            let not_seen = not_seen.join(", ");
            words += &if self.recorded_under.is_empty() {
                format!("; not seen on {not_seen}")
            } else {
                let recordings = recordings_words(&not_seen, &self.recorded_under);
                format!("; not seen in {recordings}")
            };
        }
        Some(words)
    }

    fn models_where(&self, is_wanted: impl Fn(&str, bool) -> bool) -> Vec<&str> {
        let names = self.models.iter();
        let names = names.filter(|(name, is_possible)| is_wanted(name, **is_possible));
        names.map(|(name, _)| name.as_str()).collect()
    }

    /// Its own model, and those that allow it too.
    fn possible_models(&self) -> Vec<&str> {
        let own = Some(&*self.model).filter(|name| *name != LINUX);
        let others = self.models_where(|name, is_possible| is_possible && name != self.model);
        own.into_iter().chain(others).collect()
    }

    /// In which recordings of its disk a finding was seen, if there are several.
    fn recordings_words(&self) -> Option<String> {
        let (seen, all) = (self.seen_under.len(), self.recorded_under.len());
        if seen == 0 || all < 2 {
            return None;
        }
        let names = self.seen_under.join(", ");
        Some(if self.same_words == 0 {
            format!("seen in {seen} of {all}: {names}")
        } else {
            let others = self.same_words;
            format!("the same words in {seen} of {all}: {names}; {others} findings have them")
        })
    }

    /// When the crash was, and what is missing, in one line.
    pub(crate) fn in_a_line(&self) -> String {
        let is_named = self.nodes.len() > 1;
        let crashes = self.nodes.iter().map(|node| node.crash(is_named));
        let crashes = crashes.collect::<Vec<_>>().join("; ");
        let disks = self.nodes.iter().filter_map(|node| node.disk.as_ref());
        let disks: Vec<_> = disks.map(|disk| disk.state.as_str()).collect();
        if !disks.is_empty() {
            return format!("{crashes}; the disk: {}", disks.join(", "));
        }
        format!("{crashes}; lost: {}", self.missing())
    }

    /// What is missing, in one line.
    pub fn missing(&self) -> String {
        let missing: Vec<_> = self
            .nodes
            .iter()
            .flat_map(|node| node.lost.iter().chain(&node.midway))
            .collect();
        match missing.as_slice() {
            [] => "nothing: all that was done".into(),
            [one] => one.text(),
            [first, rest @ ..] => format!("{} and {} more", first.text(), rest.len()),
        }
    }
}

impl StartStory {
    /// Who was started before whom.
    fn words(&self) -> String {
        let lost = |order| {
            if self.order == order {
                ", which lost something,"
            } else {
                ""
            }
        };
        format!(
            "{}{} before {}{}",
            listed(&self.first),
            lost(Start::LostFirst),
            listed(&self.later),
            lost(Start::LostLast).trim_end_matches(',')
        )
    }
}

/// Names as in a sentence.
fn listed(names: &[String]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        _ => names.concat(),
    }
}

impl NodeStory {
    /// Whether there is more to say of it than when it crashed.
    fn is_harmed(&self) -> bool {
        !self.lost.is_empty()
            || self.midway.is_some()
            || !self.files.is_empty()
            || self.disk.is_some()
    }

    fn name(&self, is_named: bool) -> String {
        if is_named {
            format!("{}: ", self.node)
        } else {
            String::new()
        }
    }

    /// What is missing.
    fn add_missing(&self, lines: &mut Lines, is_named: bool, detail: Detail) {
        let name = self.name(is_named);
        let shown = &self.lost[..self.lost.len().min(detail.lost)];
        for alike in shown.chunk_by(|one, next| one.called_by == next.called_by) {
            for lost in alike {
                lines.add("lost", &format!("{name}{}", lost.text()), detail.lines);
            }
            alike[0].add_callers(lines, detail);
        }
        if self.lost.len() > detail.lost {
            let rest: Vec<_> = self.lost[detail.lost..].iter().collect();
            lines.add(
                "lost",
                &format!("{name}and {} (--all shows them)", more_words(&rest)),
                1,
            );
        }
        if let Some(midway) = &self.midway {
            lines.add(
                "in flight",
                &format!("{name}{}", midway.text()),
                detail.lines,
            );
            midway.add_callers(lines, detail);
        }
        if let Some(disk) = &self.disk {
            disk.add_missing(lines, &name, detail);
        }
    }

    /// What the files are.
    fn add_files(&self, lines: &mut Lines, is_named: bool, detail: Detail) {
        let name = self.name(is_named);
        let head = if self.disk.is_some() {
            "recovers"
        } else {
            "state"
        };
        for (place, damage) in self.files.iter().take(detail.files).enumerate() {
            lines.add(head, &format!("{name}{}", damage.line()), detail.lines);
            if detail.dump && (place == 0 || detail.lines == usize::MAX) {
                damage.dump.iter().for_each(|line| lines.add_dump(line));
            }
        }
        if self.files.len() > detail.files {
            let more = self.files.len() - detail.files;
            lines.add(
                head,
                &format!(
                    "{name}and {} (--all shows them)",
                    counted(more, "more file")
                ),
                1,
            );
        }
    }

    /// What persisted although something before it did not.
    fn add_kept(&self, lines: &mut Lines, is_named: bool, detail: Detail) {
        let name = self.name(is_named);
        for kept in self.kept.iter().take(detail.kept) {
            lines.add("kept", &format!("{name}{kept}"), detail.lines);
        }
        let more = self.kept.len().saturating_sub(detail.kept) + self.kept_more;
        if more > 0 && detail.kept > 0 {
            lines.add(
                "kept",
                &format!("{name}and {}", counted(more, "later operation")),
                1,
            );
        }
    }

    fn crash(&self, is_named: bool) -> String {
        let after = self
            .behind
            .as_ref()
            .map_or("before anything was done".into(), |words| {
                format!("after {words}")
            });
        let when = if self.is_begun { "during" } else { "before" };
        let before = self
            .before
            .as_ref()
            .map_or(String::new(), |words| format!(", {when} {words}"));
        format!("{}{after}{before}", self.name(is_named))
    }
}

/// The options that bound what a model is searched for.
pub(crate) fn searched_words(lost: usize, split: Split, sector: Sector) -> String {
    let mut words = format!("--lost {lost}");
    if split != Split::default() {
        words += &format!(" --split {split}");
    }
    if sector != Sector::default() {
        words += &format!(" --sector {sector}");
    }
    words
}

/// So many more operations, by what they are.
fn more_words(rest: &[&Lost]) -> String {
    let mut kinds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for lost in rest {
        let verb = lost.words.split(' ').next().unwrap_or_default();
        *kinds.entry((verb, &lost.path)).or_default() += 1;
    }
    match kinds.first_key_value() {
        Some(((verb, path), count)) if kinds.len() == 1 && *count > 1 => {
            let verbs = match *verb {
                "append" => "appends to",
                "write" => "writes to",
                "truncate" => "changes of the size of",
                _ => "operations on",
            };
            format!("{count} more {verbs} {path}")
        }
        _ => counted(rest.len(), "more operation"),
    }
}

impl DiskStory {
    /// What the disk lost, and until when.
    fn add_missing(&self, lines: &mut Lines, name: &str, detail: Detail) {
        let words = format!(
            "{name}{}, {}, {} pending",
            self.file_system,
            self.state,
            counted(self.pending, "write")
        );
        lines.add("disk", &words, detail.lines);
        if let Some(until) = &self.held_until {
            let words = format!("{name}{until}: a crash one moment earlier does not break this");
            lines.add("held until", &words, detail.lines);
        }
        for lost in self.lost.iter().take(detail.lost) {
            lines.add("lost", &format!("{name}{lost}"), detail.lines);
        }
        if self.lost.len() > detail.lost {
            let more = counted(self.lost.len() - detail.lost, "more write");
            let words = format!("{name}and {more} (--all shows them)");
            lines.add("lost", &words, 1);
        }
    }
}

impl Lost {
    /// The functions that made the call, where there is room for them.
    fn add_callers(&self, lines: &mut Lines, detail: Detail) {
        if detail.callers && !self.called_by.is_empty() {
            lines.add("called by", &self.called_by.join(" < "), detail.lines);
        }
    }

    fn text(&self) -> String {
        let parts = if self.parts.is_some() {
            ", in part"
        } else {
            ""
        };
        format!("{}{parts} ({})", self.words, self.call)
    }
}

/// A call that would have prevented something, on a node.
fn sync_words(sync: &Sync, node: &str) -> String {
    let others = if sync.files > sync.times {
        let others = counted(sync.files - 1, "more file");
        format!(" and {others} named like it,")
    } else {
        String::new()
    };
    let times = if sync.times > 1 {
        format!(" ({} places)", sync.times)
    } else {
        String::new()
    };
    let place = match &sync.after {
        Some(after) => format!("right after {after}"),
        None => format!("before {}", sync.before),
    };
    let also = match &*sync.also_on {
        [] => String::new(),
        nodes => format!(", and likewise on {},", nodes.join(", ")),
    };
    format!("fsync of {}{node}{others}{also} {place}{times}", sync.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Complaint;
    use crate::damage::Damage;
    use crate::finding::Line;
    use crate::finding::PromisedNothing;

    fn append(event: usize) -> Lost {
        Lost {
            call: "pwrite64".into(),
            stack: None,
            called_by: vec!["put (store.c:12)".into(), "main".into()],
            path: "msgs/1.blk".into(),
            words: format!("append msgs/1.blk, 4096 bytes at {}", 4096 * event),
            parts: (event == 0).then_some((8, 9)),
            event,
        }
    }

    /// A node that lost so many operations.
    fn node(name: &str, lost: usize) -> NodeStory {
        let file = |number: usize| Damage {
            path: format!("msgs/{number}.blk"),
            words: "bytes 4096 to 8192 are zeros".into(),
            dump: vec!["has    00 00".into(), "wrote  43 43".into()],
        };
        NodeStory {
            node: name.into(),
            events: 120,
            behind: Some("other's message (42 bytes) arrived".into()),
            before: Some("fdatasync msgs/1.blk".into()),
            is_begun: false,
            lost: (0..lost).map(append).collect(),
            midway: None,
            kept: (0..lost.min(6))
                .map(|number| format!("write index, 8 bytes at {}", number * 8))
                .collect(),
            kept_more: lost,
            kept_from: None,
            files: (0..lost.min(8)).map(file).collect(),
            disk: None,
        }
    }

    fn finding(nodes: Vec<NodeStory>) -> Finding {
        let words =
            "acknowledged message 17 of queue `orders` is not there, and message 18 of it is";
        let sync = Sync {
            node: "n1".into(),
            path: "msgs/1.blk".into(),
            also_on: Vec::new(),
            before: "send of 42 bytes to n2".into(),
            after: None,
            times: 9,
            files: 9,
        };
        Finding {
            number: 1,
            rank: crate::Rank::default(),
            model: "posix".into(),
            relaxation: "operations lost".into(),
            complaint: Complaint {
                words: vec![words.into(); 9],
                log: Some(words.repeat(40)),
                tries: Some(3),
                seen: None,
                ok_without_crash: Some(60),
                of_rules: 0,
            },
            derivations: Vec::new(),
            states: 45,
            different: 45,
            relaxations: BTreeMap::new(),
            starts: BTreeMap::new(),
            start: None,
            patterns: BTreeMap::new(),
            state: 7,
            lost_together: None,
            together_unproven: false,
            key: Default::default(),
            plain: Vec::new(),
            nodes,
            timeline: Vec::new(),
            acknowledged: Some(Line {
                node: "client".into(),
                line: "acknowledged 17 ".repeat(30),
            }),
            is_told: true,
            promised_nothing: Vec::new(),
            prevented_by: vec![sync; 30],
            prevention_cut_short: false,
            searched: "--lost 1".into(),
            seen_under: Vec::new(),
            same_words: 0,
            recorded_under: Vec::new(),
            crashes: Vec::new(),
            recoveries: 0,
            models: ["btrfs", "xfs", "ext4-ordered"]
                .map(|name| (name.to_owned(), name == "xfs"))
                .into(),
        }
    }

    #[test]
    fn states_that_are_equal_are_told_apart_from_those_that_differ() {
        let words = |different, states| {
            let counted = Finding {
                states,
                different,
                ..finding(Vec::new())
            };
            counted.alike_words()
        };
        assert_eq!(words(1, 1), "1 state");
        assert_eq!(words(1, 5), "1 state, 5 with equal ones");
        assert_eq!(words(3, 3), "3 states alike");
        assert_eq!(words(3, 9), "3 states alike, 9 with equal ones");
        assert_eq!(words(0, 9), "9 states alike");
    }

    #[test]
    fn what_is_not_broken_each_time_is_told_with_how_often_it_was_and_without_a_crash() {
        let mut flickers = finding(Vec::new());
        let said = |finding: &Finding| {
            let text = finding.text();
            let seen = text
                .lines()
                .find(|line| line.trim_start().starts_with("seen "));
            seen.map(|line| line.trim_start()["seen ".len()..].trim_start().to_owned())
        };
        let both = "in 2 of 3 tries; without a crash in 0 of 60";
        assert_eq!(said(&flickers).as_deref(), Some(both));
        (flickers.complaint.tries, flickers.complaint.seen) = (Some(7), Some(3));
        flickers.complaint.ok_without_crash = None;
        assert_eq!(said(&flickers).as_deref(), Some("in 3 of 7 tries"));
        flickers.complaint.tries = None;
        assert_eq!(said(&flickers), None);
    }

    #[test]
    fn a_finding_fits_on_a_screen_and_all_of_it_can_be_asked_for() {
        let many = |lost: usize| {
            (1..8)
                .map(|number| node(&format!("node{number}"), lost))
                .collect::<Vec<_>>()
        };
        for nodes in [
            vec![node("program", 0)],
            vec![node("program", 63)],
            many(0),
            many(2),
        ] {
            let weak = PromisedNothing {
                node: "n1".into(),
                call: "sync_file_range".into(),
                path: "msgs/1.blk".into(),
                times: 3,
            };
            let finding = Finding {
                promised_nothing: vec![weak; 9],
                ..finding(nodes)
            };
            let text = finding.text();
            assert!(text.lines().count() <= LINES_MAX, "{text}");
            assert!(
                text.lines()
                    .all(|line| line.chars().count() <= lines::COLUMNS),
                "{text}"
            );
            assert!(finding.text_all().lines().count() >= text.lines().count());
        }
    }

    #[test]
    fn what_is_broken_comes_first_and_what_there_is_much_of_is_counted() {
        let mut one = finding(vec![node("program", 63)]);
        one.complaint = vec!["message 17 is lost".to_owned()].into();
        one.prevented_by.truncate(1);
        one.acknowledged = Some(Line {
            node: "program".into(),
            line: "stored 17".into(),
        });
        let expected = "  broken        message 17 is lost
  acknowledged  `stored 17`, printed by program before the crash
  lost          append msgs/1.blk, 4096 bytes at 0, in part (pwrite64)
                append msgs/1.blk, 4096 bytes at 4096 (pwrite64)
                append msgs/1.blk, 4096 bytes at 8192 (pwrite64)
                append msgs/1.blk, 4096 bytes at 12288 (pwrite64)
  called by     put (store.c:12) < main
  lost          and 59 more appends to msgs/1.blk (--all shows them)
  state         msgs/0.blk: bytes 4096 to 8192 are zeros
                has    00 00
                wrote  43 43
                msgs/1.blk: bytes 4096 to 8192 are zeros
                msgs/2.blk: bytes 4096 to 8192 are zeros
                and 5 more files (--all shows them)
  kept          write index, 8 bytes at 0
                write index, 8 bytes at 8
                write index, 8 bytes at 16
                and 66 later operations
  crash         after other's message (42 bytes) arrived, before fdatasync
                msgs/1.blk
  prevented by  fsync of msgs/1.blk before send of 42 bytes to n2 (9 places)
  models        possible on posix, xfs; with --lost 1 not found on btrfs,
                ext4-ordered
";
        assert_eq!(one.text(), expected);
        let all = one.text_all();
        assert_eq!(all.matches("append msgs/1.blk").count(), 63);
        assert!(!all.contains("--all"));
        // A disk was looked at too, so that its own model is among those that are said to allow it.
        one.models.insert(one.model.clone(), true);
        assert_eq!(one.text(), expected);
    }
}
