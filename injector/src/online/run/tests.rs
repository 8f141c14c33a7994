//! Runs on a ground where nothing happens by itself.

mod combined;
mod logged_roles;
mod requests;
mod turns;

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;

use block_dev::{DiskRequest, Fault, Onlooker, Predicate};
use cluster::{Areas, ClusterFile, Ending, Member, Result as ClusterResult, Verdict};
use simulation::{Carried, Limit, Ports, Until};
use specification::Examined;

use super::super::directory::InjectResult;
use super::super::given::{cluster_of, plan_of, violated};
use super::super::ground::{Loses, ProgramId};
use super::super::looks::{After, Look};
use super::super::ran::State;
use super::super::text::alike;
use super::super::worse::Worse;
use super::*;

/// A node, a client, and a check.
const FILE: &str = "[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n\
                    [check]\ncommand = \"sh\"\n";

/// The same with three nodes and two clients, of which the second is endless.
const THREE: &str = "[[nodes]]\nnames = [\"a\", \"b\", \"c\"]\ncommand = \"sh\"\n\
                     [[clients]]\nname = \"works\"\ncommand = \"sh\"\n\
                     [[clients]]\nname = \"looks\"\ncommand = \"sh\"\nendless = true\n\
                     [check]\ncommand = \"sh\"\n";

/// The place of the endless one.
const ENDLESS: usize = 1;

/// How much time passes at once.
const STEP: Duration = Duration::from_millis(2);

/// Nodes that are ready whenever they are asked, and a client that says nothing.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something else that a test may want"
)]
struct Still {
    file: ClusterFile,
    now: Duration,
    calls: Rc<Calls>,
    /// Whether nodes run until everything is healed.
    runs: bool,
    /// What the desk of a node says before its machine fails, as soon as time passes.
    last_words: Option<(usize, String)>,
    /// How its node has ended by itself, once a fault is in place.
    ends: Option<String>,
    /// Why it is not ready when it is asked.
    not_ready: Option<String>,
    /// What becomes of somebody who has machines stand still.
    freezes: fn() -> ClusterResult<()>,
    is_frozen: bool,
    /// By how much the clock of its node is wrong.
    clock_ns: i64,
    /// How much faster it is.
    drift_ppm: i32,
    /// How many writes its disk is asked for as soon as it does some requests in another way.
    writes: u64,
    /// Whether it cannot be set.
    has_lost_clock: bool,
    says: Verdict,
    /// Nodes that are down, and directions that are cut.
    down: Vec<usize>,
    cuts: Vec<(Member, Member)>,
    /// Its endless client, if it has one, prints while it sees so many nodes.
    needs: Option<usize>,
    /// Who ends as soon as time has passed since links were cut, and since all of them were healed.
    ends_of_cut: Option<usize>,
    ends_of_heal: Option<usize>,
    gives_up: Option<usize>,
    /// So many heals of links fail.
    heals_not: usize,
    /// Which links may not be healed before all are.
    stays_cut: fn(&(Member, Member)) -> bool,
    /// Where nodes log, and what they do as soon as time passes, and when the check is asked.
    log: PathBuf,
    logs: Option<String>,
    logs_late: Option<String>,
    /// Where their log was when they were started.
    logged_from: u64,
    script: combined::Script,
    /// Its clients, if they take turns.
    takers: turns::Takers,
    /// Whether directories of data are looked at, what was seen, and whether nobody can look in the end.
    is_looked_at: bool,
    looks: Vec<Look>,
    cannot_look: bool,
    disk: Rc<RefCell<requests::Asked>>,
}

/// What is said of a node that somebody killed.
const KILLED: &str = "was ended by SIGKILL";

/// What a simulation says that has lost a kernel.
fn lost_kernel() -> ClusterError {
    ClusterError::Simulation(simulation::Error::Kernel {
        machine: "b".into(),
        what: "was ended from outside".into(),
        console: Vec::new(),
    })
}

impl Still {
    fn new() -> Self {
        Self {
            file: cluster_of(FILE),
            now: Duration::ZERO,
            calls: Rc::default(),
            runs: true,
            last_words: None,
            ends: None,
            not_ready: None,
            freezes: || Ok(()),
            is_frozen: false,
            clock_ns: 0,
            drift_ppm: 0,
            writes: 0,
            has_lost_clock: false,
            says: Verdict::Broken(vec!["k1 is lost".into()]),
            down: Vec::new(),
            cuts: Vec::new(),
            needs: None,
            ends_of_cut: None,
            ends_of_heal: None,
            gives_up: None,
            heals_not: 0,
            stays_cut: |_| false,
            log: "/nowhere/log".into(),
            logs: None,
            logs_late: None,
            logged_from: 0,
            script: combined::Script::default(),
            takers: turns::Takers::default(),
            is_looked_at: false,
            looks: Vec::new(),
            cannot_look: false,
            disk: Rc::default(),
        }
    }

    /// One of another cluster, with which all is well.
    fn of(file: &str) -> Self {
        Self {
            file: cluster_of(file),
            says: Verdict::Ok,
            ..Self::new()
        }
    }

    /// Sees an empty directory.
    fn look(&mut self, node: usize, after: After) {
        if self.is_looked_at {
            self.looks.push(Look {
                node,
                after,
                at: self.now,
                data: Ok(Vec::new()),
            });
        }
    }

    /// Whether its endless client sees as many nodes as it needs.
    fn serves(&self) -> bool {
        let client = Member::Client(ENDLESS);
        let is_cut = |node| {
            let node = Member::Node(node);
            let mut cuts = self.cuts.iter();
            cuts.any(|cut| *cut == (node, client) || *cut == (client, node))
        };
        let nodes = 0..self.file.nodes.len();
        let seen = nodes.filter(|node| !self.down.contains(node) && !is_cut(*node));
        self.needs.is_some_and(|needs| seen.count() >= needs)
    }

    fn log_line(&self, line: Option<String>) {
        if let Some(line) = line {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.log);
            let written = file.and_then(|mut file| writeln!(file, "{line}"));
            written.expect("written");
        }
    }

    /// A run of a plan on it.
    fn run(self, plan: &str) -> Ran {
        self.try_run(plan).expect("it was made")
    }

    fn try_run(self, plan: &str) -> Result<Ran> {
        let folder = tempfile::tempdir().expect("a directory");
        self.try_run_in(folder.path(), plan, None)
    }

    /// One that leaves what it leaves in a directory. Directories of data are looked at, if some of their files
    /// are read.
    fn try_run_in(mut self, folder: &Path, plan: &str, reading: Option<Reading>) -> Result<Ran> {
        let plan = plan_of(plan, &self.file).expect("a plan");
        let place = Place {
            acknowledgements: folder.join("acknowledgements"),
            history: folder.join("history"),
            log_times: folder.join("log-times"),
            points: None,
            reading,
            looks: folder.join("looks"),
        };
        run(&mut self, &plan, &place, &|| false)
    }
}

impl Ground for Still {
    fn file(&self) -> &ClusterFile {
        &self.file
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn pass(&mut self) -> ClusterResult<()> {
        self.now += STEP;
        self.down.extend(self.gives_up.take());
        let line = self.logs.take();
        self.log_line(line);
        self.script.pass(self.now, &self.calls);
        self.disk.borrow_mut().pass(self.now);
        let Some((node, words)) = self.last_words.take() else {
            return Ok(());
        };
        let heard = self.calls.hear(node, words.as_bytes());
        heard.expect("it is what a desk says");
        Err(ClusterError::Unable {
            node: self.file.nodes[node].name.clone(),
            what: "has no room".into(),
        })
    }

    fn traces_inside(&self) -> bool {
        true
    }

    fn follow_calls(&mut self, calls: &Rc<Calls>) -> ClusterResult<()> {
        self.calls = Rc::clone(calls);
        self.script.follow(calls, &self.file);
        Ok(())
    }

    fn agree_on_calls(&mut self) -> ClusterResult<()> {
        Ok(())
    }

    fn start(&mut self, _: usize) -> ClusterResult<()> {
        Ok(())
    }

    fn end(&mut self) {}

    fn log(&self, _: usize) -> PathBuf {
        self.script.log().unwrap_or_else(|| self.log.clone())
    }

    fn logs_since(&mut self, node: usize) -> ClusterResult<Option<u64>> {
        Ok(self.is_running(node)?.then_some(self.logged_from))
    }

    fn ends(&mut self) -> Vec<(usize, String)> {
        let is_under_way = self.now > Duration::ZERO;
        let end = self.ends.take_if(|_| is_under_way);
        end.map(|how| (0, how)).into_iter().collect()
    }

    fn is_running(&mut self, node: usize) -> ClusterResult<bool> {
        Ok(self.runs && !self.down.contains(&node))
    }

    fn is_ready(&mut self, _: usize) -> ClusterResult<bool> {
        let not_ready = |what: &String| ClusterError::NotReady {
            node: "a".into(),
            what: what.clone(),
            tail: Vec::new(),
        };
        self.not_ready
            .as_ref()
            .map_or(Ok(true), |what| Err(not_ready(what)))
    }

    fn begin_time(&mut self, _: usize) {}

    fn kill(&mut self, nodes: &[usize]) -> ClusterResult<()> {
        self.down.extend(nodes);
        Ok(())
    }

    fn power_loss(&mut self, nodes: &[usize], _: &mut Loses) -> ClusterResult<Vec<usize>> {
        self.disk.borrow_mut().tell("power loss");
        Ok(vec![0; nodes.len()])
    }

    fn pause(&mut self, _: &[usize]) -> ClusterResult<()> {
        Ok(())
    }

    fn freeze(&mut self, _: &[usize]) -> ClusterResult<()> {
        self.is_frozen = true;
        (self.freezes)()
    }

    fn move_clocks(&mut self, _: &[usize], by_ns: i64) -> ClusterResult<()> {
        if self.is_frozen || self.has_lost_clock && self.clock_ns != 0 {
            return Err(ClusterError::Command {
                whose: "a".into(),
                what: "stands still already".into(),
            });
        }
        self.clock_ns += by_ns;
        Ok(())
    }

    fn move_clocks_back(&mut self, nodes: &[usize], by_ns: i64) -> ClusterResult<()> {
        self.move_clocks(nodes, -by_ns)
    }

    fn drift_clocks(&mut self, _: &[usize], ppm: i32) -> ClusterResult<()> {
        self.drift_ppm += ppm;
        Ok(())
    }

    fn end_drifts(&mut self, _: &[usize]) -> ClusterResult<()> {
        if self.has_lost_clock {
            return Err(ClusterError::Command {
                whose: "a".into(),
                what: "has not counted what it should have".into(),
            });
        }
        self.drift_ppm = 0;
        Ok(())
    }

    fn answer_some(&mut self, _: usize, _: (Fault, u64), mut hits: Predicate) -> ClusterResult<()> {
        for _ in 0..self.writes {
            let (offset, length) = (0, 512);
            assert!(hits(DiskRequest::Write { offset, length }));
        }
        Ok(())
    }

    fn areas(&mut self, _: usize) -> ClusterResult<Option<Areas>> {
        Ok(None)
    }

    fn look_at_requests(&mut self, _: usize, onlooker: Arc<dyn Onlooker>) -> ClusterResult<()> {
        self.disk.borrow_mut().onlooker = Some(onlooker);
        Ok(())
    }

    fn spare_requests(&mut self, _: usize) -> ClusterResult<()> {
        Ok(())
    }

    fn resume(&mut self, _: &[usize]) -> ClusterResult<()> {
        if std::mem::take(&mut self.is_frozen) {
            self.disk.borrow_mut().tell("resume");
        }
        Ok(())
    }

    fn restart(&mut self, node: usize) -> ClusterResult<()> {
        self.down.retain(|down| *down != node);
        self.look(node, After::Stop);
        Ok(())
    }

    fn look_at_data(&mut self, _: Reading) {
        self.is_looked_at = true;
    }

    fn look_at_the_end(&mut self) -> ClusterResult<()> {
        if self.cannot_look {
            return Err(lost_kernel());
        }
        (0..self.file.nodes.len()).for_each(|node| self.look(node, After::Run));
        Ok(())
    }

    fn looks(&mut self) -> Vec<Look> {
        std::mem::take(&mut self.looks)
    }

    fn cut(&mut self, cuts: &[(Member, Member)]) -> ClusterResult<()> {
        self.cuts.extend(cuts);
        self.gives_up = self.ends_of_cut.take();
        Ok(())
    }

    fn heal(&mut self, healed: &[(Member, Member)]) -> ClusterResult<()> {
        assert!(!healed.iter().any(self.stays_cut), "{healed:?}");
        if self.heals_not > 0 {
            self.heals_not -= 1;
            let (whose, what) = ("a".into(), "is not healed".into());
            return Err(ClusterError::Command { whose, what });
        }
        self.cuts.retain(|cut| !healed.contains(cut));
        Ok(())
    }

    fn heal_all(&mut self) -> ClusterResult<()> {
        self.cuts.clear();
        self.gives_up = self.ends_of_heal.take();
        Ok(())
    }

    fn cut_once(
        &mut self,
        _: &[(Member, Member)],
        _: &[(Member, Member)],
        _: Until,
    ) -> ClusterResult<()> {
        Ok(())
    }

    fn limited(&self) -> Option<Limit> {
        None
    }

    fn limit_reached(&self) -> Option<Duration> {
        None
    }

    fn verify_limit(&mut self) -> ClusterResult<()> {
        Ok(())
    }

    fn cut_limited(&mut self) -> ClusterResult<()> {
        Ok(())
    }

    fn lift_limit(&mut self) -> ClusterResult<()> {
        Ok(())
    }

    fn count_sent(&mut self) -> ClusterResult<()> {
        Ok(())
    }

    fn carried(&self, _: &[(Member, Member)]) -> Carried {
        Carried::default()
    }

    fn passed_by_ports(&self) -> Vec<((usize, usize), Ports, Carried)> {
        Vec::new()
    }

    fn uncounted(&self) -> u64 {
        0
    }

    fn set_links(&mut self, _: &[(Member, Member)], _: Option<Worse>) -> ClusterResult<()> {
        Ok(())
    }

    fn run(
        &mut self,
        place: usize,
        _: &str,
        _: &[String],
        _: &[(&str, String)],
    ) -> ClusterResult<ProgramId> {
        Ok(place)
    }

    fn lines(&mut self, program: ProgramId) -> ClusterResult<Vec<(Duration, Vec<u8>)>> {
        let prints = program == ENDLESS && self.serves();
        let line = prints.then(|| (self.now, b"answered".to_vec()));
        let lines = self.script.lines(program, self.now);
        let turns = self.takers.line(program, self.now);
        Ok(line.into_iter().chain(lines).chain(turns).collect())
    }

    fn lines_are_late_by(&self) -> Duration {
        Duration::ZERO
    }

    fn ask(&mut self, program: ProgramId, line: &str) {
        self.takers.ask(program, line, self.cuts.len());
    }

    fn ended(&mut self, program: ProgramId) -> ClusterResult<Option<Ending>> {
        let goes_on = program == ENDLESS && self.needs.is_some()
            || self.script.goes_on(program)
            || self.takers.goes_on(program);
        let has_ended = !goes_on && self.last_words.is_none() && self.now > Duration::ZERO;
        Ok(has_ended.then_some(Ending::Status(0)))
    }

    fn ask_to_end(&mut self, _: ProgramId) {
        self.needs = None;
    }

    fn forget(&mut self, _: ProgramId) {}

    fn check(&mut self, _: &Path) -> ClusterResult<Verdict> {
        let line = self.logs_late.take();
        self.log_line(line);
        Ok(self.says.clone())
    }
}

#[test]
fn to_heal_everything_is_no_fault_that_could_have_broken_something() {
    let heal = "[[faults]]\nat = { time_s = 0 }\nfault = \"heal\"\n";
    let ran = Still::new().run(heal);
    assert_eq!(ran.faults[0].state, State::Undone);
    let Judged::Inconclusive { why } = &ran.judged else {
        panic!("{ran:?}");
    };
    let expected = "no fault of the plan was in place: k1 is lost";
    assert!(why.contains(expected), "{why}");
    // Nor is it beside a fault that was not put in place.
    let kill = "[[faults]]\nat = { time_s = 0 }\nfault = \"kill\"\non = \"a\"\n";
    let mut down = Still::new();
    down.runs = false;
    let ran = down.run(&format!("{kill}{heal}"));
    assert_eq!(ran.faults[0].state, State::NotInjected);
    assert!(matches!(ran.judged, Judged::Inconclusive { .. }), "{ran:?}");
    // What hits a node is one.
    let pause = kill.replace("kill", "pause");
    let ran = Still::new().run(&format!("{pause}{heal}"));
    assert_eq!(ran.broken(), Some(&["k1 is lost".to_owned()][..]));
}

#[test]
fn what_a_fault_of_calls_has_hit_is_known_of_a_run_that_was_cut_short() {
    let plan = "[[faults]]\nat = { time_s = 0 }\nfault = \"call\"\non = \"a\"\ncall = \"fsync\"\n\
                fails = \"EIO\"\n";
    let cut_short = |hits: u64| {
        let mut ground = Still::new();
        let words = format!("{{\"Hit\":{{\"id\":0,\"seen\":{hits},\"hits\":{hits}}}}}");
        ground.last_words = Some((0, words));
        let ran = ground.run(plan);
        assert!(ran.is_cut_short && ran.broken().is_none(), "{ran:?}");
        (ran.faults[0].calls, ran.notes)
    };
    let (calls, notes) = cut_short(2);
    assert_eq!((calls, notes), (Some(2), Vec::new()));
    let (calls, notes) = cut_short(0);
    assert_eq!(calls, Some(0));
    assert!(notes[0].contains("hit nothing on a"), "{notes:?}");
}

/// A fault of the node at a time, with what else is said of it.
fn fault(at: &str, what: &str) -> String {
    format!("[[faults]]\nat = {{ {at} }}\non = \"a\"\nfault = {what}\n")
}

#[test]
fn what_comes_of_a_node_that_was_killed_by_no_fault_accuses_nobody() {
    let pause = fault("time_s = 0", "\"pause\"");
    let open = |ground: Still, expected: &str| {
        let ran = ground.run(&pause);
        let Judged::Inconclusive { why } = &ran.judged else {
            panic!("{ran:?}");
        };
        assert!(
            why.contains(expected) && why.contains("short of memory"),
            "{why}"
        );
    };
    let mut ground = Still::new();
    ground.ends = Some(KILLED.into());
    open(
        ground,
        "k1 is lost; that may come of this: a was ended by SIGKILL",
    );
    let mut ground = Still::new();
    ground.not_ready = Some(format!("{KILLED} before it was ready"));
    open(ground, "node a was ended by SIGKILL before it was ready");
    // Other ends are its own.
    let mut ground = Still::new();
    ground.ends = Some("was ended by SIGABRT".into());
    assert!(ground.run(&pause).broken().is_some());
    let mut ground = Still::new();
    ground.not_ready = Some("was ended by SIGABRT before it was ready".into());
    assert!(ground.run(&pause).broken().is_some());
}

/// What else is broken may come of that as well, whatever the check says.
#[test]
fn nor_does_a_rule_that_is_violated_where_a_node_was_killed_by_no_fault() {
    for (how, is_broken) in [(KILLED, false), ("was ended by SIGABRT", true)] {
        for says in [Verdict::Ok, Verdict::Inconclusive("it timed out".into())] {
            let is_said = matches!(says, Verdict::Inconclusive(_));
            let mut ground = Still::new();
            (ground.ends, ground.says) = (Some(how.into()), says);
            let mut ran = ground.run(&fault("time_s = 0", "\"pause\""));
            let violated = vec![violated("own")];
            let unlooked = Vec::new();
            let examined = Examined {
                violated,
                unlooked,
                unsaid: None,
            };
            ran.take_in(examined, false);
            assert_eq!(ran.broken().is_some(), is_broken, "{ran:?}");
            assert_eq!(ran.violations.len(), 1, "it is kept");
            let timed_out = ran.notes.iter().any(|note| note == "it timed out");
            assert_eq!(timed_out, is_said, "{ran:?}");
        }
    }
}

#[test]
fn a_run_is_over_when_its_ground_has_failed() {
    let plan = fault("time_s = 0", "\"pause\"") + &fault("time_s = 0.01", "\"freeze\"");
    let ran = |freezes| {
        let mut ground = Still::new();
        ground.freezes = freezes;
        ground.try_run(&plan)
    };
    assert!(matches!(
        ran(|| Err(lost_kernel())),
        Err(Error::Cluster(ClusterError::Simulation(_)))
    ));
    let ran_on = ran(|| {
        Err(ClusterError::Unable {
            node: "a".into(),
            what: "has no room".into(),
        })
    });
    assert!(ran_on.expect("it says so").is_cut_short);
    // What it only refuses is a fault that was not put in place.
    let refused = ran(|| Err(ClusterError::NoDisk("a".into()))).expect("it goes on");
    assert_eq!(refused.faults[1].state, State::NotInjected);
    assert!(refused.broken().is_some(), "{refused:?}");
}

#[test]
fn a_clock_jumps_back_when_its_node_stands_still_no_more_or_nobody_is_accused() {
    let clock = |until: &str| fault("time_s = 0", "\"clock\"\nby_s = 5") + until;
    let freeze = |until: &str| fault("time_s = 0.01", "\"freeze\"") + until;
    let ends = clock("until = { after_s = 0.02 }\n") + &freeze("until = { after_s = 0.03 }\n");
    for plan in [ends, clock("") + &freeze("")] {
        let ran = Still::new().run(&plan);
        let states: Vec<_> = ran.faults.iter().map(|came| came.state).collect();
        assert_eq!(states, [State::Undone, State::Undone], "{ran:?}");
        assert!(ran.broken().is_some() && ran.notes.is_empty(), "{ran:?}");
    }
    let mut ground = Still::new();
    ground.has_lost_clock = true;
    let ran = ground.run(&clock(""));
    let Judged::Inconclusive { why } = &ran.judged else {
        panic!("{ran:?}");
    };
    assert!(why.contains("the end of fault 1 failed"), "{why}");
}

#[test]
fn a_clock_drifts_until_its_fault_ends_or_nobody_is_accused() {
    let drift = fault("time_s = 0", "\"clock\"\ndrift = 0.01");
    for (until, has_lost_clock) in [
        ("", false),
        ("until = { after_s = 0.02 }\n", false),
        ("", true),
    ] {
        let mut ground = Still::new();
        ground.has_lost_clock = has_lost_clock;
        let ran = ground.run(&format!("{drift}{until}"));
        let state = ran.faults[0].state;
        assert_eq!(state == State::Undone, !has_lost_clock, "{ran:?}");
        assert_eq!(ran.broken().is_some(), !has_lost_clock, "{ran:?}");
    }
}

#[test]
fn a_node_that_does_not_come_back_after_its_disk_corrupted_requests_is_not_accused() {
    let run = |what: &str, writes: u64| {
        let mut ground = Still::of(&format!("disk = \"ext4\"\n{FILE}"));
        ground.says = Verdict::Broken(vec!["k1 is lost".into()]);
        ground.not_ready = Some("ended with status 1 before it was ready".into());
        ground.writes = writes;
        let disk = format!("\"disk\"\nrequests = \"writes\"\n{what}");
        ground.run(&fault("time_s = 0", &disk))
    };
    let corrupt = "corrupt = \"bit\"";
    let ran = run(corrupt, 2);
    assert_eq!(ran.faults[0].calls, Some(2));
    let Judged::Inconclusive { why } = &ran.judged else {
        panic!("{ran:?}");
    };
    for words in ["its disk has corrupted requests", "k1 is lost"] {
        assert!(why.contains(words), "{why}");
    }
    // One that was corrupted in nothing, and one that was slow, is not why.
    let ran = run(corrupt, 0);
    let Judged::Inconclusive { why } = &ran.judged else {
        panic!("{ran:?}");
    };
    assert!(
        why.contains("although no fault of the plan was in place"),
        "{why}"
    );
    assert!(!why.contains("its disk has corrupted"), "{why}");
    let none = "hit nothing on a: there was no such request with bytes that it changes: writes";
    assert!(ran.notes.iter().any(|note| note.contains(none)), "{ran:?}");
    assert!(run("slow_s = 1", 1).broken().is_some());
}

#[test]
fn an_end_that_never_came_is_told_also_where_it_could_not_be_made() {
    let clock = fault("time_s = 0", "\"clock\"\nby_s = 5");
    let freeze = fault("time_s = 0.01", "\"freeze\"");
    for (until, is_ok) in [("log = \"never\"", false), ("time_s = 9", true)] {
        let mut ground = Still::new();
        ground.says = Verdict::Ok;
        let ran = ground.run(&format!("{clock}until = {{ {until} }}\n{freeze}"));
        match &ran.judged {
            Judged::Inconclusive { why } => assert!(why.contains("its end never came"), "{why}"),
            judged => assert_eq!(judged, &Judged::Ok),
        }
        assert_eq!(ran.judged == Judged::Ok, is_ok, "{ran:?}");
        assert!(ran.seconds > 8.0, "it was waited for: {ran:?}");
    }
}

/// How a node may end, how it ended, what fault there was, and what is said of that.
type Ends = (
    &'static str,
    &'static str,
    &'static str,
    std::result::Result<Option<&'static str>, &'static str>,
);

#[test]
fn a_node_that_ends_by_itself_is_told_and_the_cluster_file_says_whether_it_may() {
    let pause = "\"pause\"";
    let ends: [Ends; 8] = [
        (
            "",
            ABORTED,
            pause,
            Ok(Some("no fault of its calls, disk or clock")),
        ),
        (
            "may_end = []",
            ABORTED,
            pause,
            Err("node a does not stay up: it was ended by SIGABRT by itself at 0.0"),
        ),
        (
            "may_end = [\"status 1\"]",
            ABORTED,
            pause,
            Err("does not stay up"),
        ),
        ("may_end = [\"SIGABRT\"]", ABORTED, pause, Ok(None)),
        // Nobody knows who did that, and who may be right to end is not accused.
        ("may_end = []", KILLED, pause, Ok(None)),
        (
            "may_end = []",
            "ended",
            pause,
            Ok(Some("a ended by itself at 0.0")),
        ),
        // It is no end that `may_end` can name.
        (
            "may_end = []",
            GAVE_UP,
            pause,
            Ok(Some("a has a kernel that gave up: no memory by itself")),
        ),
        ("may_end = []", ABORTED, "\"clock\"\nby_s = 5", Ok(None)),
    ];
    for (may_end, how, what, expected) in ends {
        let file = FILE.replace("[client]", &format!("{may_end}\n[client]"));
        let mut ground = Still::of(&file);
        ground.ends = Some(how.into());
        let ran = ground.run(&fault("time_s = 0", what));
        match expected {
            Err(expected) => {
                let broken = ran
                    .broken()
                    .unwrap_or_else(|| panic!("{may_end} {how}: {ran:?}"));
                assert!(broken[0].contains(expected), "{broken:?}");
            }
            Ok(note) => {
                assert_eq!(ran.judged, Judged::Ok, "{may_end} {how}");
                let is_told = may_end.is_empty() || ["ended", GAVE_UP].contains(&how);
                assert_eq!(ran.has_unexplained_end(), is_told, "{may_end} {how}");
                let notes = ran.notes.join("\n");
                assert!(
                    note.map_or(notes.is_empty(), |note| notes.contains(note)),
                    "{notes}"
                );
            }
        }
    }
}

/// What is said of a node that gives up, and of one whose kernel does.
const ABORTED: &str = "was ended by SIGABRT";
const GAVE_UP: &str = "has a kernel that gave up: no memory";

#[test]
fn who_ends_where_no_fault_was_in_place_is_not_accused() {
    let file = FILE.replace("[client]", "may_end = []\n[client]");
    let mut ground = Still::of(&file);
    ground.ends = Some(ABORTED.into());
    let ran = ground.run("[[faults]]\nat = { time_s = 0 }\nfault = \"heal\"\n");
    let Judged::Inconclusive { why } = &ran.judged else {
        panic!("{ran:?}");
    };
    assert!(
        why.contains("no fault of the plan was in place: node a does not stay up"),
        "{why}"
    );
}

#[test]
fn errors_that_are_not_expected_are_broken_with_line_node_and_time() {
    let logs = "[[logs]]\nerror = \"ERROR\"\nexpected = [\"refused\"]\n[client]";
    let file = FILE.replace("[client]", logs);
    let logged = |first: &str, late: &str| {
        let folder = tempfile::tempdir().expect("a directory");
        let mut ground = Still::of(&file);
        ground.log = folder.path().join("a.log");
        std::fs::write(&ground.log, "ERROR before clients start\n").expect("written");
        (ground.logs, ground.logs_late) = (Some(first.into()), Some(late.into()));
        ground.run(&fault("time_s = 0", "\"pause\""))
    };
    let ran = logged("ERROR refused", "all is well");
    assert_eq!(ran.judged, Judged::Ok);
    // The last ones are there only when the check has been asked.
    for (first, late) in [
        ("ERROR 7 is lost", ""),
        ("ERROR refused", "ERROR 7 is lost"),
    ] {
        let ran = logged(first, late);
        let broken = ran.broken().unwrap_or_else(|| panic!("{ran:?}"));
        assert_eq!(broken.len(), 1, "{broken:?}");
        let (start, end) = (
            "node a logged an error that is not expected at 0.0",
            " s (\"ERROR\"): ERROR 7 is lost",
        );
        assert!(
            broken[0].starts_with(start) && broken[0].ends_with(end),
            "{broken:?}"
        );
    }
    let ran = logged(&["ERROR"; 5].join("\n"), "");
    let broken = ran.broken().expect("it is broken");
    assert_eq!(broken.len(), 4);
    assert_eq!(broken[3], "and 2 more errors that are not expected");
}

#[test]
fn errors_with_one_text_are_alike_whatever_else_the_lines_say() {
    let result = |logs: &str, line: &str| {
        let folder = tempfile::tempdir().expect("a directory");
        let nodes = FILE.replace("name = \"a\"", "names = [\"a\", \"b\"]");
        let mut ground = Still::of(&format!("{nodes}[[logs]]\n{logs}\n"));
        ground.log = folder.path().join("log");
        ground.logs = Some(line.into());
        InjectResult {
            index: 0,
            plan: String::new(),
            ran: ground.run(&fault("time_s = 0", "\"pause\"")),
        }
    };
    let line = "1 ERROR page beef (\"x\"): is lost";
    let of_a = "error = \"ERROR\"\nnodes = [\"a\"]";
    let one = result(of_a, line);
    assert!(alike(
        &one,
        &result(of_a, "at a late look: ERROR page f00 is torn")
    ));
    for other in [
        "error = \"ERROR\"\nnodes = [\"b\"]",
        "error = \"page\"\nnodes = [\"a\"]",
    ] {
        assert!(!alike(&one, &result(other, line)), "{other}");
    }
}

#[test]
fn a_majority_that_is_restored_first_has_to_make_progress_without_the_others() {
    let run = |restores: &str, what: &str, needs| {
        let mut ground = Still::of(THREE);
        ground.needs = Some(needs);
        let head = format!("progress_within_s = 1\n{restores}\n");
        ground.run(&(head + &fault("time_s = 0", what)))
    };
    let majority = "restores = \"majority\"";
    for what in ["\"kill\"", "\"partition\"", "\"pause\""] {
        let ran = run(majority, what, 2);
        assert_eq!(ran.judged, Judged::Ok, "{what}: {ran:?}");
        assert_eq!(ran.faults[0].state, State::Undone);
        let events: Vec<_> = ran.events.iter().map(|event| &event.what).collect();
        let place = |what: &Happening| events.iter().position(|event| *event == what);
        let nodes = ["b", "c"].map(str::to_owned).into();
        let restored = place(&Happening::Restored { nodes }).expect("it is told");
        let progress = place(&Happening::Progress).expect("it is told");
        let healed = place(&Happening::Healed).expect("it is told");
        assert!(restored < progress && progress < healed, "{events:?}");
        // Who needs all nodes is found out, and only so.
        let ran = run(majority, what, 3);
        let expected =
            "nothing was acknowledged to any client within 1 s after a majority was restored";
        assert_eq!(ran.broken(), Some(&[expected.to_owned()][..]), "{what}");
        assert_eq!(run("", what, 3).judged, Judged::Ok, "{what}");
    }
}

#[test]
fn an_endless_client_that_has_done_the_operations_of_the_plan_accuses_nobody() {
    let run = |operations: &str| {
        let mut ground = Still::of(THREE);
        ground.needs = Some(3);
        let head = format!("progress_within_s = 1\nrestores = \"majority\"\n{operations}\n");
        ground.run(&(head + &fault("time_s = 0.1", "\"kill\"")))
    };
    for operations in ["", "operations = 1000000"] {
        let ran = run(operations);
        assert!(ran.broken().is_some(), "{operations}: {ran:?}");
    }
    let Judged::Inconclusive { why } = run("operations = 1").judged else {
        panic!("nobody asked the cluster for more");
    };
    let expected =
        "had done the 1 operations of the plan, and began no more after a majority was restored";
    assert!(why.contains(expected), "{why}");
}

/// A run that restores a majority first, of a ground that needs one.
fn restored(ground: impl FnOnce(&mut Still), plan: &str) -> Ran {
    let mut still = Still::of(THREE);
    still.needs = Some(2);
    ground(&mut still);
    still.run(&format!(
        "progress_within_s = 1\nrestores = \"majority\"\n{plan}"
    ))
}

#[test]
fn who_gives_up_as_others_are_cut_off_or_come_back_is_started_again() {
    let ready = |ran: &Ran, name: &str| {
        let is_ready =
            |event: &&RunEvent| matches!(&event.what, Happening::Ready { node } if node == name);
        ran.events.iter().filter(is_ready).count()
    };
    let plan = fault("time_s = 0", "\"pause\"");
    let ran = restored(|still| still.ends_of_cut = Some(1), &plan);
    assert_eq!((&ran.judged, ready(&ran, "b")), (&Judged::Ok, 1), "{ran:?}");
    let plan = fault("time_s = 0", "\"partition\"");
    let ran = restored(|still| still.ends_of_heal = Some(0), &plan);
    assert_eq!((&ran.judged, ready(&ran, "a")), (&Judged::Ok, 1), "{ran:?}");
}

#[test]
fn who_is_still_cut_off_as_a_heal_failed_is_not_accused_of_no_progress() {
    let until = fault("time_s = 0", "\"partition\"") + "until = { after_s = 0.01 }\n";
    let sided = THREE.replace("endless = true", "endless = true\nside = \"others\"");
    // The seed says whether it is one of the majority.
    let judged = (0..8).map(|seed| {
        let ground = |still: &mut Still| {
            still.file = cluster_of(&sided);
            still.heals_not = 1;
        };
        let ran = restored(ground, &format!("seed = {seed}\n{until}"));
        let Judged::Inconclusive { why } = ran.judged else {
            panic!("{ran:?}");
        };
        why
    });
    let accused = judged.filter(|why| why.starts_with("nothing was acknowledged"));
    let accused: Vec<_> = accused.collect();
    let end = "that may come of this: the end of fault 1 failed: a is not healed";
    assert!(
        !accused.is_empty() && accused.iter().all(|why| why.ends_with(end)),
        "{accused:?}"
    );
}

#[test]
fn a_partition_lasts_while_only_a_majority_is_restored() {
    let cut = fault("time_s = 0", "\"partition\"");
    let of_a = |(from, to): &_| [from, to].contains(&&Member::Node(0));
    let ran = restored(|still| still.stays_cut = of_a, &cut);
    let told = ran.events.iter().filter_map(|event| match &event.what {
        Happening::InPlace { .. } => Some("in place"),
        Happening::Undone { .. } => Some("undone"),
        Happening::Restored { .. } => Some("restored"),
        Happening::Healed => Some("healed"),
        Happening::Progress => Some("progress"),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    let expected = [
        "in place", "restored", "progress", "undone", "healed", "progress",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_fault_has_ended_only_when_all_that_it_took_down_are_up() {
    let kill = fault("time_s = 0", "\"kill\"").replace("on = \"a\"", "on = \"all\"");
    let ran = restored(|_| (), &kill);
    let place = |is_it: fn(&Happening) -> bool| {
        let places = ran.events.iter().enumerate();
        let places = places.filter(|(_, event)| is_it(&event.what));
        places.map(|(place, _)| place).collect::<Vec<_>>()
    };
    let undone = place(|what| matches!(what, Happening::Undone { .. }));
    let ready = place(|what| matches!(what, Happening::Ready { .. }));
    assert_eq!((ready.len(), undone.len()), (3, 1), "{:?}", ran.events);
    assert!(undone[0] > ready[2], "{:?}", ran.events);
}

#[test]
fn the_history_says_that_others_are_cut_off() {
    let nodes = ["b", "c"].map(str::to_owned).into();
    let (f, words) = nemesis(&Happening::Restored { nodes }).expect("it is told");
    assert_eq!(
        (f, &words[..]),
        ("fault", "all but b, c are cut off until the heal")
    );
}

/// What was seen of directories of data in a run, in lines, and what the run came to.
fn looks_of(still: Still, reading: Option<Reading>) -> (Option<String>, Judged) {
    let folder = tempfile::tempdir().expect("a directory");
    let plan = "[[faults]]\nat = { time_s = 0.1 }\nfault = \"kill\"\non = \"a\"\nuntil = { after_s = 0.1 }\n";
    let ran = still.try_run_in(folder.path(), plan, reading);
    let kept = std::fs::read_to_string(folder.path().join("looks"));
    (kept.ok(), ran.expect("it was made").judged)
}

#[test]
fn directories_are_looked_at_before_a_node_starts_again_and_in_the_end_if_somebody_asks() {
    let told = |kept: &str| -> Vec<(String, bool)> {
        let looks = kept.lines().map(|line| {
            let look: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let after = look["after"].as_str().expect("a word").to_owned();
            (after, look.get("failed").is_some())
        });
        looks.collect()
    };
    let is_broken = |judged: &Judged| matches!(judged, Judged::Broken { .. });
    let (kept, judged) = looks_of(Still::new(), None);
    assert!(kept.is_none() && is_broken(&judged), "{kept:?} {judged:?}");
    let (kept, judged) = looks_of(Still::new(), Some(Reading::NOTHING));
    let expected = [("stop".to_owned(), false), ("run".to_owned(), false)];
    assert_eq!(told(&kept.expect("it was kept")), expected);
    assert!(is_broken(&judged), "{judged:?}");
    // What is broken is so also if nobody can look then.
    let still = Still {
        cannot_look: true,
        ..Still::new()
    };
    let (kept, judged) = looks_of(still, Some(Reading::NOTHING));
    let expected = [("stop".to_owned(), false), ("run".to_owned(), true)];
    assert_eq!(told(&kept.expect("it was kept")), expected);
    assert!(is_broken(&judged), "{judged:?}");
}
