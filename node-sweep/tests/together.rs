//! Losses that break something only together: what is lost at once, and what of it is blamed.

use std::fs;
use std::path::{Path, PathBuf};

use campaign::{Interrupt, Shard};
use node_sweep::{
    CheckCommand, CrashState, DiskState, Finding, Findings, Fingerprint, Judge, Level, Plan,
    Result, Rule, Start, Subject, Swept, Verdict, Verdicts, Watch, make_finding_again, sweep,
};
use pace_rules::Sector;
use pace_rules::nodes::{Explore, Log, MODELS, Model, Relaxations, Request, Spaces, Split};
use tempfile::TempDir;
use trace::{Action, Event, FileId, FileKind, FileOp, InitialFile, Node, SyncScope};
use trace_store::Trace;

/// A program that has files with `old!` in them, and overwrites these with `new!`, one after the other.
#[derive(Default)]
struct Recording {
    trace: Trace,
    events: Vec<Event>,
    files: Vec<&'static str>,
    /// Files have two pages and not four bytes.
    are_large: bool,
}

impl Recording {
    fn event(&mut self, call: &str, stack: u64, action: Action) {
        let at = 10 * self.events.len() as u64;
        self.events.push(Event {
            start_ns: at + 1,
            end_ns: at + 5,
            process: 7,
            thread: 7,
            call: call.into(),
            stack,
            action,
        });
    }

    fn file(&mut self, name: &'static str) -> FileId {
        let known = self.files.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            self.files.push(name);
            self.files.len() - 1
        });
        FileId(place as u32 + 1)
    }

    fn overwrite(&mut self, name: &'static str) -> &mut Self {
        self.write(name, 0, b"new!")
    }

    fn write(&mut self, name: &'static str, offset: u64, bytes: &[u8]) -> &mut Self {
        let file = self.file(name);
        let data = self.trace.add(bytes);
        let write = FileOp::Write {
            file,
            offset,
            data,
            size_before: self.old().len() as u64,
        };
        self.event("write", u64::from(file.0) + offset, Action::File(write));
        self
    }

    fn unlink(&mut self, name: &'static str) -> &mut Self {
        let unlink = FileOp::Unlink {
            parent: FileId::ROOT,
            name: name.as_bytes().into(),
            file: self.file(name),
        };
        self.event("unlink", 101, Action::File(unlink));
        self
    }

    /// What is in each file before.
    fn old(&self) -> Vec<u8> {
        b"old!".repeat(if self.are_large { 2048 } else { 1 })
    }

    fn fsync(&mut self, name: &'static str) -> &mut Self {
        let (file, scope) = (self.file(name), SyncScope::File);
        self.event("fsync", 99, Action::File(FileOp::Sync { file, scope }));
        self
    }

    fn mark(&mut self) -> &mut Self {
        let line = self.trace.add(b"written");
        self.event("write", 100, Action::Mark { line });
        self
    }

    fn trace(&mut self) -> Trace {
        self.node("program");
        std::mem::take(&mut self.trace)
    }

    /// All that was done until now, as a node of this name.
    fn node(&mut self, name: &str) {
        let old = self.old();
        let size = old.len() as u64;
        let old = self.trace.add(&old);
        let file = |(place, name): (usize, &&str)| InitialFile {
            file: FileId(place as u32 + 1),
            parent: Some(FileId::ROOT),
            name: name.as_bytes().into(),
            kind: FileKind::Regular,
            mode: 0o644,
            size,
            content: vec![(0, old)],
        };
        let files = self.files.iter().enumerate().map(file);
        let initial = std::iter::once(InitialFile::empty_root()).chain(files);
        self.trace.run.nodes.push(Node {
            name: name.into(),
            initial: initial.collect(),
            events: std::mem::take(&mut self.events),
        });
        self.files.clear();
    }
}

/// Others that are written, and matter to nobody.
const OTHERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Two copies are written among others, and none of that is synced but what is said.
fn copies(synced: &[&'static str]) -> Trace {
    let mut recording = Recording::default();
    let all = OTHERS[..3]
        .iter()
        .chain(&["one"])
        .chain(&OTHERS[3..])
        .chain(&["two", "log"]);
    for name in all {
        recording.overwrite(name);
    }
    for name in synced {
        recording.fsync(name);
    }
    recording.mark().overwrite("g").trace()
}

/// The directory of a node in a crash state, and what it is in.
fn written(state: &CrashState, node: usize) -> (TempDir, PathBuf) {
    let DiskState::Tree(tree) = &state.disks[node] else {
        panic!("it has no disk")
    };
    let place = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let directory = place.path().join("directory");
    tree.write_to(&directory).expect("written");
    (place, directory)
}

/// What a check says of a directory, in which it asks which files are old.
type Says = fn(&dyn Fn(&str) -> bool) -> Option<&'static str>;

/// Asks of each state in which something was acknowledged.
struct Asks(Says);

impl Subject for Asks {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        let (_place, directory) = written(state, 0);
        let is_old = |name: &str| is_old(&directory, name);
        let said = (self.0)(&is_old).filter(|_| !state.acknowledged.is_empty());
        let broken = |said: &str| Verdict::Broken(vec![said.to_owned()].into());
        Ok(said.map_or(Verdict::Ok, broken))
    }
}

fn is_old(directory: &Path, name: &str) -> bool {
    fs::read(directory.join(name)).is_ok_and(|content| content == b"old!")
}

fn is_new(directory: &Path, name: &str) -> bool {
    fs::read(directory.join(name)).is_ok_and(|content| content == b"new!")
}

/// Either of two copies is enough.
const EITHER: Says = |is_old| (is_old("one") && is_old("two")).then_some("both copies are old");

fn requests(model: &str) -> Vec<Request> {
    let of_model = |model| Request {
        model,
        explore: Explore::BruteForce,
        lost: 1,
        split: Split::default(),
        sector: Sector::default(),
        relaxations: Relaxations::ALL,
    };
    Model::all_named(model).into_iter().map(of_model).collect()
}

/// Keeps verdicts.
#[derive(Default)]
struct Keeps(Verdicts);

impl Watch for Keeps {
    fn judged(&mut self, _: u64, key: &Fingerprint, verdict: &Verdict) -> Result<()> {
        assert!(self.0.insert(*key, verdict.clone()).is_none(), "twice");
        Ok(())
    }
}

fn swept(trace: &Trace, model: &str, says: Option<Says>, plan: &Plan, keeps: &mut Keeps) -> Swept {
    let spaces = Spaces::new(&trace.run, &requests(model)).expect("spaces");
    let subjects = says.map(|says| Box::new(Asks(says)) as Box<dyn Subject>);
    let subjects = subjects.into_iter().collect();
    let interrupt = Interrupt::default();
    let step = if plan.is_sample { 3 } else { 1 };
    let all = (0..spaces.len()).step_by(step);
    sweep(trace, &spaces, all, subjects, plan, &interrupt, keeps).expect("swept")
}

fn explained(trace: &Trace, model: &str, swept: &Swept) -> Vec<Finding> {
    let spaces = Spaces::new(&trace.run, &requests(model)).expect("spaces");
    let judged = Findings::new(trace, &spaces, model);
    judged.explain(judged.of(swept), &requests(model), true)
}

fn found(trace: &Trace, model: &str, says: Says) -> Vec<Finding> {
    let (plan, mut keeps) = (Plan::default(), Keeps::default());
    let swept = swept(trace, model, Some(says), &plan, &mut keeps);
    assert_eq!(swept.checked, keeps.0.len() as u64);
    explained(trace, model, &swept)
}

/// What is said, and which files have lost something.
fn short(finding: &Finding) -> (&str, Vec<&str>) {
    let lost = finding.nodes[0].lost.iter().map(|lost| &*lost.path);
    (&finding.complaint.words[0], lost.collect())
}

#[test]
fn two_copies_that_nobody_syncs_are_one_finding_that_blames_both_and_nothing_else() {
    for model in MODELS {
        let trace = copies(&[]);
        let findings = found(&trace, model.name, EITHER);
        let [finding] = &*findings else {
            panic!("{}: {findings:#?}", model.name)
        };
        assert_eq!(short(finding), ("both copies are old", vec!["one", "two"]));
        assert_eq!(finding.losses().map(|losses| losses.len()), Some(2));
        let syncs: Vec<_> = finding
            .prevented_by
            .iter()
            .map(|sync| &*sync.path)
            .collect();
        assert_eq!(syncs, ["one", "two"], "{}", model.name);
        assert_eq!(
            finding
                .models
                .values()
                .filter(|is_possible| **is_possible)
                .count(),
            4
        );
        assert!(
            finding
                .text()
                .contains("without any one of these losses nothing is broken")
        );
        // What it shows is made again.
        let asked = asked(model.name);
        let made = make_finding_again(&trace, &asked, finding).expect("made");
        assert_eq!(made.key, finding.key);
        let json = serde_json::from_str::<Finding>(&finding.json()).expect("a finding");
        let made = make_finding_again(&trace, &asked, &json).expect("made");
        assert_eq!(made.key, finding.key);
        for synced in [&["one"][..], &["two"], &["one", "two"]] {
            assert_eq!(
                found(&copies(synced), model.name, EITHER),
                [],
                "{}",
                model.name
            );
        }
    }
}

fn asked(model: &str) -> node_sweep::Request {
    node_sweep::Request {
        level: Level::Syscalls,
        model: model.into(),
        explore: Rule::BruteForce,
        lost: 1,
        split: Split::default(),
        sector: Sector::default(),
        states: "every-write".parse().expect("states"),
        sample: None,
        seed: 0,
        starts: vec![Start::Together],
        judge: Judge::Program {
            check: CheckCommand::Once("true".into()),
            limit_s: 30,
            allow_no_acks: true,
        },
        specifications: Vec::new(),
    }
}

/// One of these mistakes hides the other in each state that lost all at once.
#[test]
fn a_mistake_that_takes_two_losses_is_found_beside_one_that_takes_one() {
    let says: Says = |is_old| {
        let log = is_old("log").then_some("the log is old");
        log.or_else(|| EITHER(is_old))
    };
    for model in MODELS {
        let findings = found(&copies(&[]), model.name, says);
        let mut all: Vec<_> = findings.iter().map(short).collect();
        all.sort_unstable();
        let expected = [
            ("both copies are old", vec!["one", "two"]),
            ("the log is old", vec!["log"]),
        ];
        assert_eq!(all, expected, "{}", model.name);
    }
}

/// Also if the check has other words for that.
#[test]
fn what_one_loss_breaks_is_no_second_finding_where_all_is_lost_at_once() {
    let says: Says = |is_old| {
        let is_all = OTHERS.iter().all(|name| is_old(name));
        let log = is_old("log").then_some("the log is old");
        log.map(|log| if is_all { "everything is old" } else { log })
    };
    for model in MODELS {
        let findings = found(&copies(&[]), model.name, says);
        let all: Vec<_> = findings.iter().map(short).collect();
        assert_eq!(all, [("the log is old", vec!["log"])], "{}", model.name);
        assert!(findings[0].relaxations["only what was synced"] > 0);
        let syncs = findings[0].prevented_by.iter().map(|sync| &*sync.path);
        assert_eq!(syncs.collect::<Vec<_>>(), ["log"]);
    }
}

/// As a rule about the order of calls is.
#[test]
fn what_is_broken_with_nothing_lost_does_not_hide_what_is_lost_together() {
    let says: Says = |is_old| {
        let dirty = is_old("g").then_some("it was left dirty");
        EITHER(is_old).or(dirty)
    };
    for model in MODELS {
        let findings = found(&copies(&[]), model.name, says);
        let mut all: Vec<_> = findings.iter().map(short).collect();
        all.sort_unstable();
        let expected = [
            ("both copies are old", vec!["one", "two"]),
            ("it was left dirty", vec![]),
        ];
        assert_eq!(all, expected, "{}", model.name);
        let right = found(&copies(&["one"]), model.name, says);
        let all: Vec<_> = right.iter().map(short).collect();
        assert_eq!(all, [("it was left dirty", vec![])], "{}", model.name);
    }
}

#[test]
fn two_of_three_are_blamed_if_two_are_enough() {
    let says: Says = |is_old| {
        let names = ["one", "two", "log"].iter();
        let old = names.filter(|name| is_old(name)).count();
        (old >= 2).then_some("most are old")
    };
    for model in MODELS {
        let findings = found(&copies(&[]), model.name, says);
        let all: Vec<_> = findings.iter().map(short).collect();
        assert_eq!(all.len(), 1, "{}: {all:?}", model.name);
        assert_eq!(all[0].1.len(), 2, "{}: {all:?}", model.name);
    }
}

/// The log is kept that would have mended them if all is lost at once.
#[test]
fn two_copies_that_nobody_syncs_before_a_name_is_removed_are_one_finding() {
    let says: Says = |is_old| (!is_old("log")).then(|| EITHER(is_old)).flatten();
    for model in MODELS {
        let program = |synced: &[&'static str]| {
            let mut recording = Recording::default();
            for name in ["a", "one", "b", "two"] {
                recording.overwrite(name);
            }
            for name in synced {
                recording.fsync(name);
            }
            recording.mark().unlink("log").mark().overwrite("g").trace()
        };
        let findings = found(&program(&[]), model.name, says);
        let [finding] = &*findings else {
            panic!("{}: {findings:#?}", model.name)
        };
        assert_eq!(short(finding), ("both copies are old", vec!["one", "two"]));
        assert_eq!(finding.losses().map(|losses| losses.len()), Some(2));
        assert!(finding.relaxations["only names and what was synced"] > 0);
        let syncs = finding.prevented_by.iter().map(|sync| &*sync.path);
        assert_eq!(syncs.collect::<Vec<_>>(), ["one", "two"], "{}", model.name);
        let made = make_finding_again(&program(&[]), &asked(model.name), finding).expect("made");
        assert_eq!(made.key, finding.key);
        for synced in ["one", "two"] {
            let right = found(&program(&[synced]), model.name, says);
            assert_eq!(right, [], "{}", model.name);
        }
    }
}

/// What is broken with nothing lost at such a place has no number of its own, too.
#[test]
fn a_state_that_is_broken_with_nothing_lost_is_made_again_with_nothing_lost() {
    let trace = copies(&[]);
    let mut finding = found(&trace, "posix", EITHER).remove(0);
    finding.lost_together = Some(Vec::new());
    let json = serde_json::from_str::<Finding>(&finding.json()).expect("a finding");
    assert_eq!(json.losses(), Some(Vec::new()));
    let made = make_finding_again(&trace, &asked("posix"), &json).expect("made");
    let (_place, directory) = written(&made, 0);
    for name in ["one", "two"] {
        assert!(!is_old(&directory, name), "{name} is lost");
    }
}

/// Says of a state which slots of two are torn.
struct Slots;

impl Subject for Slots {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        let (_place, directory) = written(state, 0);
        let slots = fs::read(directory.join("slots")).expect("it is there");
        let mut slots = slots.chunks(4096);
        let are_torn = slots.all(|slot| slot[..4] != slot[4092..] || slot[..4] != slot[2048..2052]);
        Ok(if are_torn {
            Verdict::Broken(vec!["both slots are torn".to_owned()].into())
        } else {
            Verdict::Ok
        })
    }
}

#[test]
fn two_slots_that_are_written_without_a_sync_between_are_torn_at_once() {
    for model in MODELS.iter().filter(|model| model.log == Log::Journal) {
        let program = |is_synced: bool| {
            let mut recording = Recording {
                are_large: true,
                ..Recording::default()
            };
            for slot in 0..2 {
                recording.write("slots", slot * 4096, &b"new!".repeat(1024));
                if is_synced {
                    recording.fsync("slots");
                }
            }
            recording.mark().trace()
        };
        let swept = |trace: &Trace| {
            let spaces = Spaces::new(&trace.run, &requests(model.name)).expect("spaces");
            let (plan, interrupt) = (Plan::default(), Interrupt::default());
            let (all, subjects) = (0..spaces.len(), vec![Box::new(Slots) as Box<dyn Subject>]);
            let keeps = &mut Keeps::default();
            let swept = sweep(trace, &spaces, all, subjects, &plan, &interrupt, keeps);
            explained(trace, model.name, &swept.expect("swept"))
        };
        let findings = swept(&program(false));
        let [finding] = &*findings else {
            panic!("{}: {findings:#?}", model.name)
        };
        assert_eq!(
            short(finding),
            ("both slots are torn", vec!["slots", "slots"])
        );
        assert!(finding.relaxations["all writes torn"] > 0);
        // Each slot alone may be torn while it is written.
        let syncs = finding.prevented_by.iter().map(|sync| &*sync.path);
        assert_eq!(syncs.collect::<Vec<_>>(), ["slots"], "{}", model.name);
        assert_eq!(swept(&program(true)), [], "{}", model.name);
    }
}

/// Says whether one node lost what it had promised while the other one has the end of what it was
/// writing, and not the beginning.
struct Behind;

impl Subject for Behind {
    fn judge(&mut self, state: &CrashState, _: bool) -> Result<Verdict> {
        let (_first, first) = written(state, 0);
        let (_second, second) = written(state, 1);
        let is_torn = is_old(&second, "two") && is_new(&second, "three");
        let is_lost = ["one", "log"].iter().all(|name| is_old(&first, name));
        let is_broken = !state.acknowledged.is_empty() && is_lost && is_torn;
        let broken = || Verdict::Broken(vec!["both copies are old".to_owned()].into());
        Ok(if is_broken { broken() } else { Verdict::Ok })
    }
}

/// The node that was behind had promised nothing yet: it syncs before it does.
#[test]
fn what_a_node_had_only_begun_to_write_needs_no_sync_although_its_loss_is_blamed() {
    for model in MODELS {
        let program = |is_synced: bool| {
            let mut recording = Recording::default();
            recording.overwrite("one").overwrite("log");
            if is_synced {
                recording.fsync("one");
            }
            recording.mark().overwrite("g").node("first");
            recording.overwrite("two").overwrite("three");
            recording.fsync("three").fsync("two").mark().node("second");
            std::mem::take(&mut recording.trace)
        };
        let found = |trace: &Trace| {
            let spaces = Spaces::new(&trace.run, &requests(model.name)).expect("spaces");
            let (plan, interrupt) = (Plan::default(), Interrupt::default());
            let (all, subjects) = (0..spaces.len(), vec![Box::new(Behind) as Box<dyn Subject>]);
            let keeps = &mut Keeps::default();
            let swept = sweep(trace, &spaces, all, subjects, &plan, &interrupt, keeps);
            explained(trace, model.name, &swept.expect("swept"))
        };
        let findings = found(&program(false));
        let [finding] = &*findings else {
            panic!("{}: {findings:#?}", model.name)
        };
        assert_eq!(short(finding), ("both copies are old", vec!["one", "log"]));
        assert_eq!(finding.losses().map(|losses| losses.len()), Some(3));
        let behind = finding.nodes[1].lost.iter().map(|lost| &*lost.path);
        assert_eq!(behind.collect::<Vec<_>>(), ["two"], "{}", model.name);
        let syncs = finding.prevented_by.iter().map(|sync| &*sync.path);
        assert_eq!(syncs.collect::<Vec<_>>(), ["one", "log"], "{}", model.name);
        assert_eq!(found(&program(true)), [], "{}", model.name);
    }
}

/// Files are written in any order, and now and then one is synced.
fn any(seed: u64) -> Trace {
    let mut state = seed;
    let mut any = |of: usize| {
        // The generator of Knuth's MMIX. Its upper bits are the good ones.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % of
    };
    let names = ["one", "a", "log", "b", "two"];
    let mut recording = Recording::default();
    for _ in 0..14 {
        recording.overwrite(names[any(5)]);
        if any(4) == 0 {
            recording.fsync(recording.files[any(recording.files.len())]);
        }
        if any(3) == 0 {
            recording.mark();
        }
    }
    recording.mark().trace()
}

/// Whoever looked at what, those who put it together look at nothing, and count the same.
#[test]
fn the_parts_of_a_sweep_come_to_the_same_together() {
    let either: Says = |is_old| {
        let log = (is_old("log") && is_old("a")).then_some("the log is old");
        log.or_else(|| EITHER(is_old))
    };
    let or_dirty: Says = |is_old| EITHER(is_old).or(is_old("b").then_some("it was left dirty"));
    let mut at_once = 0;
    for (seed, is_sample) in (0..12).flat_map(|seed| [(seed, false), (seed, true)]) {
        let what = format!("seed {seed}, a sample: {is_sample}");
        let trace = any(seed);
        let says = if seed % 3 == 0 { or_dirty } else { either };
        let of = |shard, known| Plan {
            shard,
            known,
            is_sample,
            ..Plan::default()
        };
        let mut keeps = Keeps::default();
        let plan = of(None, Verdicts::new());
        let whole = swept(&trace, "posix", Some(says), &plan, &mut keeps);
        at_once += whole.blamed.len();
        let parts = 2 + seed % 4;
        let mut known = Verdicts::new();
        for part in 1..=parts {
            let mut keeps = Keeps::default();
            let plan = of(Shard::new(part, parts), Verdicts::new());
            swept(&trace, "posix", Some(says), &plan, &mut keeps);
            known.extend(keeps.0);
        }
        assert_eq!(known.len(), keeps.0.len(), "{what}");
        let merged = swept(
            &trace,
            "posix",
            None,
            &of(None, known),
            &mut Keeps::default(),
        );
        let counts = |swept: &Swept| (swept.states, swept.checked, swept.besides, swept.open());
        assert_eq!(counts(&merged), counts(&whole), "{what}");
        let of_whole = explained(&trace, "posix", &whole);
        let is_equal = explained(&trace, "posix", &merged) == of_whole;
        assert!(is_equal, "{what}: the findings are others");
    }
    assert!(
        at_once > 48,
        "{at_once} states that lost all at once are broken"
    );
}
