//! Runs on a ground where nothing happens by itself.

use std::path::Path;

use block_dev::{Answer, Predicate};
use cluster::{ClusterFile, Ending, Member, Result as ClusterResult, Verdict};
use simulation::{Carried, Limit, Ports, Until};
use specification::Examined;

use super::super::given::{cluster_of, plan_of, violated};
use super::super::ground::{Loses, ProgramId};
use super::super::ran::State;
use super::super::worse::Worse;
use super::*;

/// A node, a client, and a check.
const FILE: &str = "[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n\
                    [check]\ncommand = \"sh\"\n";

/// How much time passes at once.
const STEP: Duration = Duration::from_millis(2);

/// Nodes that are ready whenever they are asked, and a client that says nothing.
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
    /// Whether it cannot be set.
    has_lost_clock: bool,
    says: Verdict,
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
            has_lost_clock: false,
            says: Verdict::Broken(vec!["k1 is lost".into()]),
        }
    }

    /// A run of a plan on it.
    fn run(self, plan: &str) -> Ran {
        self.try_run(plan).expect("it was made")
    }

    fn try_run(mut self, plan: &str) -> Result<Ran> {
        let plan = plan_of(plan, &self.file).expect("a plan");
        let folder = tempfile::tempdir().expect("a directory");
        let place = Place {
            acknowledgements: folder.path().join("acknowledgements"),
            history: folder.path().join("history"),
            log_times: folder.path().join("log-times"),
            points: None,
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
        "/nowhere/log".into()
    }

    fn ends(&mut self) -> Vec<(usize, String)> {
        let is_under_way = self.now > Duration::ZERO;
        let end = self.ends.take_if(|_| is_under_way);
        end.map(|how| (0, how)).into_iter().collect()
    }

    fn is_running(&mut self, _: usize) -> ClusterResult<bool> {
        Ok(self.runs)
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

    fn kill(&mut self, _: &[usize]) -> ClusterResult<()> {
        Ok(())
    }

    fn power_loss(&mut self, nodes: &[usize], _: &mut Loses) -> ClusterResult<Vec<usize>> {
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

    fn answer_some(&mut self, _: usize, _: (Answer, u64), _: Predicate) -> ClusterResult<()> {
        Ok(())
    }

    fn spare_requests(&mut self, _: usize) -> ClusterResult<()> {
        Ok(())
    }

    fn resume(&mut self, _: &[usize]) -> ClusterResult<()> {
        self.is_frozen = false;
        Ok(())
    }

    fn restart(&mut self, _: usize) -> ClusterResult<()> {
        Ok(())
    }

    fn cut(&mut self, _: &[(Member, Member)]) -> ClusterResult<()> {
        Ok(())
    }

    fn heal(&mut self, _: &[(Member, Member)]) -> ClusterResult<()> {
        Ok(())
    }

    fn heal_all(&mut self) -> ClusterResult<()> {
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
        _: usize,
        _: &str,
        _: &[String],
        _: &[(&str, String)],
    ) -> ClusterResult<ProgramId> {
        Ok(0)
    }

    fn lines(&mut self, _: ProgramId) -> ClusterResult<Vec<(Duration, Vec<u8>)>> {
        Ok(Vec::new())
    }

    fn lines_are_late_by(&self) -> Duration {
        Duration::ZERO
    }

    fn ask(&mut self, _: ProgramId, _: &str) {}

    fn ended(&mut self, _: ProgramId) -> ClusterResult<Option<Ending>> {
        let has_ended = self.last_words.is_none() && self.now > Duration::ZERO;
        Ok(has_ended.then_some(Ending::Status(0)))
    }

    fn ask_to_end(&mut self, _: ProgramId) {}

    fn forget(&mut self, _: ProgramId) {}

    fn check(&mut self, _: &Path) -> ClusterResult<Verdict> {
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
    assert!(why.contains("no fault was in place: k1 is lost"), "{why}");
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
