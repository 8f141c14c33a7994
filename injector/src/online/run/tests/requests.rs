//! Triggers at requests to disks.

use std::sync::Arc;

use super::*;

/// A disk that is asked for a flush every ten milliseconds, and how often it was, each with whether it waits.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) onlooker: Option<Arc<dyn Onlooker>>,
    flushes: u64,
    /// Whether its flush is done, and not only asked for.
    is_done: bool,
    told: Vec<String>,
}

impl Asked {
    pub(super) fn pass(&mut self, now: Duration) {
        let Some(onlooker) = &self.onlooker else {
            return;
        };
        let due = now.as_millis() as u64 / 10;
        if onlooker.holds() || self.flushes >= due {
            return;
        }
        self.flushes += 1;
        let comes = onlooker.comes(DiskRequest::Flush, now.as_nanos() as u64);
        let waits = comes || self.is_done && onlooker.is_done(DiskRequest::Flush, false);
        if waits {
            self.tell("waits");
        }
    }

    pub(super) fn tell(&mut self, what: &str) {
        let onlooker = self.onlooker.as_ref();
        let is_held = onlooker.is_some_and(|onlooker| onlooker.holds());
        let held = if is_held { " held" } else { "" };
        self.told.push(format!("{what}{held}"));
    }
}

/// What becomes of the requests of a run in which a power loss waits for this.
fn told(at: &str, is_done: bool) -> (Ran, Asked) {
    let ground = Still::of(&format!("disk = \"ext4\"\n{FILE}"));
    ground.disk.borrow_mut().is_done = is_done;
    let disk = Rc::clone(&ground.disk);
    let plan = format!(
        "within_s = 0.2\n[[faults]]\nat = {at}\nfault = \"power-loss\"\non = \"a\"\nuntil = {{ after_s = 0.05 }}\n"
    );
    let ran = ground.run(&plan);
    let disk = disk.take();
    (ran, disk)
}

#[test]
fn a_request_is_held_until_the_fault_is_in_place_and_goes_on_then() {
    for (when, is_done) in [("before", false), ("after", true)] {
        let at = format!("{{ request = \"flush\", nth = 2, node = \"a\", when = \"{when}\" }}");
        let (ran, disk) = told(&at, is_done);
        assert_eq!(disk.told, ["waits held", "power loss held"], "{when}");
        assert!(!disk.onlooker.expect("one").holds());
        assert!(ran.faults[0].fired_ns.is_some());
        let words = match when {
            "before" => "asks its disk for flush 2",
            _ => "has from its disk flush 2",
        };
        let tells = |event: &RunEvent| matches!(&event.what, Happening::Call { words: said, .. } if said == words);
        assert!(ran.events.iter().any(tells), "{:?}", ran.events);
    }
}

#[test]
fn a_request_with_a_delay_is_not_held_and_one_that_does_not_come_is_told() {
    let (_, disk) = told("{ request = \"flush\", delay_s = 0.01 }", false);
    assert_eq!(disk.told, ["power loss"]);
    let (ran, disk) = told("{ request = \"read\" }", false);
    assert!(disk.told.is_empty());
    let Judged::Inconclusive { why } = ran.judged else {
        panic!("{:?}", ran.judged);
    };
    assert!(why.starts_with("fault 1 never happened"), "{why}");
}

#[test]
fn a_request_is_not_held_for_the_end_of_a_fault_that_cannot_end_yet_and_that_is_told() {
    // The disk is that of the last node.
    let run = |nodes: &str, until: &str, freeze: &str| {
        let file = FILE.replace("name = \"a\"", nodes);
        let ground = Still::of(&format!("disk = \"ext4\"\n{file}"));
        let disk = Rc::clone(&ground.disk);
        let clock = fault("time_s = 0", "\"clock\"\nby_s = 5");
        let ran = ground.run(&format!("{clock}until = {{ {until} }}\n{freeze}"));
        assert_eq!(ran.faults[0].state, State::Undone, "{ran:?}");
        (disk.take().told, ran.judged)
    };
    let (one, two) = ("name = \"a\"", "names = [\"a\", \"b\"]");
    let freeze = fault("time_s = 0.01", "\"freeze\"") + "until = { time_s = 0.2 }\n";
    let flush = "request = \"flush\", nth = 3";
    let (told, judged) = run(two, flush, &freeze);
    assert_eq!(told, ["waits held", "resume"]);
    let Judged::Inconclusive { why } = judged else {
        panic!("{judged:?}");
    };
    let expected = "the end of fault 1 waited for was not held";
    assert!(why.contains(expected), "{why}");
    let late = "request = \"flush\", delay_s = 0.01";
    for (nodes, until, freeze, expected) in [
        // Where it can end, it does before the request goes on.
        (two, flush, "", &["waits held"][..]),
        // Nobody waits for that of the node itself.
        (one, flush, &freeze, &["waits held", "resume held"]),
        // With a delay none is to be held.
        (two, late, &freeze, &["resume"]),
    ] {
        let (told, judged) = run(nodes, until, freeze);
        assert_eq!(judged, Judged::Ok, "{told:?}");
        assert_eq!(told, expected);
    }
}
