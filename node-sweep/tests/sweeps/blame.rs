//! What findings blame where not all states are looked at.

use std::time::{Duration, Instant};

use campaign::Interrupt;
use node_sweep::{
    CrashState, Finding, Findings, Plan, Result, Subject, Swept, Verdict, Verdicts, sweep,
};
use pace_rules::nodes::{LINUX, Spaces};
use trace_store::Trace;

use crate::support::{Keeps, Look, Looks, missing, saves, spaces};

/// Finds broken what lacks a file that nobody made.
const NEVER_MADE: Look = |directory, _| {
    let is_lost = !directory.join("busy").exists();
    is_lost.then(|| "busy is lost".into())
};

/// The findings among these states, where not all are asked for, or are said to be.
fn findings_among(
    trace: &Trace,
    all: &Spaces,
    indices: &[u64],
    is_sample: bool,
) -> (Swept, Vec<Finding>) {
    let plan = Plan {
        is_sample,
        ..Plan::default()
    };
    let interrupt = Interrupt::default();
    // It fails if anything is looked at twice.
    let mut keeps = Keeps {
        verdicts: Verdicts::new(),
        most: usize::MAX,
        interrupt: &interrupt,
    };
    let swept = sweep(
        trace,
        all,
        indices.iter().copied(),
        vec![Box::new(Looks(NEVER_MADE))],
        &plan,
        &interrupt,
        &mut keeps,
    )
    .expect("swept");
    let findings = Findings::new(trace, all, "posix").of(&swept);
    let findings = findings.into_iter().map(|(finding, _)| finding);
    (swept, findings.collect())
}

#[test]
fn of_a_sample_nothing_is_blamed_that_is_broken_without_it_as_well() {
    let names: Vec<_> = (0..8).map(|number| format!("noise{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let trace = saves(&names);
    // The models have states in common.
    for model in ["posix", LINUX] {
        let all = spaces(&trace, model);
        let is_lossy = |index: &u64| {
            let (_, state) = all.state(*index);
            state.nodes.iter().any(|node| !node.lost.is_empty())
        };
        let (at_once, lossy): (Vec<_>, Vec<_>) = (0..all.len())
            .filter(is_lossy)
            .partition(|index| all.relaxation(*index).is_at_once());
        let mut drawn: Vec<_> = lossy.into_iter().step_by(7).collect();
        assert!(drawn.len() > 5 && !at_once.is_empty(), "{drawn:?}");
        let (swept, found) = findings_among(&trace, &all, &drawn, false);
        assert_eq!(swept.besides, 0);
        assert!(
            found.len() > 1 && missing(&found).concat().len() > 1,
            "{found:#?}"
        );
        drawn.extend(at_once);
        let (swept, found) = findings_among(&trace, &all, &drawn, true);
        assert_eq!(missing(&found).concat(), [""; 0], "{found:#?}");
        assert!(swept.besides > 0 && swept.states == drawn.len() as u64 + swept.besides);
    }
}

#[test]
fn what_was_made_and_not_looked_at_is_looked_at_before_anything_is_blamed() {
    let names: Vec<_> = (0..8).map(|number| format!("noise{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let trace = saves(&names);
    let all = spaces(&trace, "posix");
    let is_lossy = |index: &u64| {
        let (_, state) = all.state(*index);
        state.nodes.iter().any(|node| !node.lost.is_empty())
    };
    // Those in order come last: there is no time for them.
    let (lossy, others): (Vec<_>, Vec<_>) = (0..all.len()).partition(is_lossy);
    let drawn: Vec<_> = lossy.into_iter().step_by(9).chain(others).collect();
    let plan = Plan {
        deadline: Some(Instant::now() + Duration::from_millis(300)),
        ..Plan::default()
    };
    let subject: Box<dyn Subject> = Box::new(Sluggish(10));
    let interrupt = Interrupt::default();
    // It fails if anything is looked at twice.
    let mut keeps = Keeps {
        verdicts: Verdicts::new(),
        most: usize::MAX,
        interrupt: &interrupt,
    };
    let swept = sweep(
        &trace,
        &all,
        drawn.into_iter(),
        vec![subject],
        &plan,
        &interrupt,
        &mut keeps,
    )
    .expect("swept");
    assert!(swept.is_over && !swept.broken.is_empty());
    let findings = Findings::new(&trace, &all, "posix").of(&swept);
    let found: Vec<_> = findings.into_iter().map(|(finding, _)| finding).collect();
    assert_eq!(missing(&found).concat(), [""; 0], "{found:#?}");
}

/// Takes so many milliseconds, and looks at many states with the same disks at once. All is broken.
struct Sluggish(u64);

impl Subject for Sluggish {
    fn judge(&mut self, _: &CrashState, again: bool) -> Result<Verdict> {
        if !again {
            std::thread::sleep(Duration::from_millis(self.0));
        }
        Ok(Verdict::Broken(vec!["busy is lost".to_owned()].into()))
    }

    fn is_slow(&self) -> bool {
        true
    }
}
