//! Who looks at states, and when one is believed to be broken.

use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex};

use super::rounds::{Happened, Stop};
use super::{OFTEN_ENOUGH, Subject};
use crate::check::{Complaint, Verdict};
use crate::error::Result;
use crate::starts::Turns;
use crate::states::CrashState;
use crate::tree::Fingerprint;
use crate::undamaged::{Asked, Asker};

/// What the disks hold in one or more states.
pub(super) struct Job {
    /// The first of them.
    pub(super) state: CrashState,
    /// All of them.
    pub(super) members: Vec<Member>,
}

/// One of several states whose disks hold the same.
pub(super) struct Member {
    pub(super) index: u64,
    pub(super) key: Fingerprint,
    pub(super) acknowledged: Arc<[u8]>,
}

/// What is known of a state.
pub(super) struct Answer {
    pub(super) index: u64,
    pub(super) key: Fingerprint,
    pub(super) verdict: Result<Verdict>,
    /// Nobody looked at it now.
    pub(super) is_known: bool,
}

/// Looks at states until there are no more. Of each it tells something.
pub(super) fn judge_all(
    mut subject: Box<dyn Subject + '_>,
    waiting: &Mutex<Receiver<Job>>,
    events: &SyncSender<Happened>,
    stop: &Stop<'_>,
) {
    let mut is_usable = true;
    loop {
        let job = waiting.lock().expect("nobody panics with it").recv();
        let Ok(job) = job else { return };
        let mut left = job.members.len();
        if is_usable && !stop.is_now() {
            let turns = job.state.turns.clone();
            for (member, verdict) in judge(&mut *subject, job) {
                let tell = |asked| {
                    // Who does not listen any more has ended the sweep.
                    let _ = events.send(Happened::Asked(asked));
                };
                let verdict = temper(verdict, turns.as_ref(), &mut *subject, stop, &tell);
                // It may be so because of the interrupt.
                if stop.interrupt.requested() && matches!(verdict, Ok(Verdict::Inconclusive(_))) {
                    break;
                }
                tracing::trace!(state = member.index, ?verdict, "a state was checked");
                is_usable = verdict.is_ok();
                let answer = Answer {
                    index: member.index,
                    key: member.key,
                    verdict,
                    is_known: false,
                };
                left -= 1;
                if events.send(Happened::Judged(answer)).is_err() {
                    return;
                }
                if !is_usable {
                    break;
                }
            }
        }
        for _ in 0..left {
            if events.send(Happened::Left).is_err() {
                return;
            }
        }
    }
}

/// What is broken is so only if the check says less often that of what no crash has touched.
fn temper(
    verdict: Result<Verdict>,
    turns: Option<&Turns>,
    subject: &mut dyn Subject,
    stop: &Stop<'_>,
    tell: &dyn Fn(Asked),
) -> Result<Verdict> {
    let verdict = verdict?;
    let Some(undamaged) = &stop.plan.undamaged else {
        return Ok(verdict);
    };
    undamaged.count(turns);
    // A rule says the same of a state each time.
    if !matches!(&verdict, Verdict::Broken(complaint) if !complaint.is_of_rules()) {
        return Ok(verdict);
    }
    let asker = Asker {
        interrupt: stop.interrupt,
        is_over: &|| stop.is_time_up(),
        tell,
    };
    if !undamaged.ask_more(subject, &asker)? {
        return Ok(Verdict::Inconclusive("interrupted".into()));
    }
    let verdict = undamaged.temper(verdict);
    match (&verdict, turns) {
        (Verdict::Broken(_), Some(turns)) => {
            undamaged.temper_in_turns(verdict, turns, subject, &asker)
        }
        _ => Ok(verdict),
    }
}

/// What is to be said of each of the states of a job; of the first if nothing can be looked at.
fn judge(subject: &mut dyn Subject, job: Job) -> Vec<(Member, Result<Verdict>)> {
    let Job { state, members } = job;
    let lines: Vec<_> = members
        .iter()
        .map(|member| member.acknowledged.clone())
        .collect();
    let first = match subject.judge_each(&state, &lines) {
        Ok(verdicts) => verdicts,
        Err(error) => return members.into_iter().take(1).zip([Err(error)]).collect(),
    };
    let mut twice = |(member, first): (Member, Verdict)| {
        let acknowledged = member.acknowledged.clone();
        let verdict = confirm(
            subject,
            &CrashState {
                key: member.key,
                acknowledged,
                ..state.clone()
            },
            first,
        );
        (member, verdict)
    };
    members.into_iter().zip(first).map(&mut twice).collect()
}

/// A state is broken if it is so twice. One that is not so the second time gets more chances: a
/// cluster may do this or that with it, depending on who is there first. So may a check of any
/// state: what is broken now and then must be so more often than that. What rules say as well, they
/// say each time: that confirms nothing of what the check says.
fn confirm(subject: &mut dyn Subject, crash_state: &CrashState, first: Verdict) -> Result<Verdict> {
    let words = match &first {
        Verdict::Broken(complaint) if !complaint.is_of_rules() => complaint.of_check().to_vec(),
        _ => return Ok(first),
    };
    let (mut seen, mut tries) = (1, 1);
    let mut of_rules = None;
    for (wanted, most) in OFTEN_ENOUGH {
        while tries < most {
            tries += 1;
            match subject.judge(crash_state, true)? {
                Verdict::Broken(complaint) if complaint.is_of_rules() => of_rules = Some(complaint),
                Verdict::Broken(complaint) => {
                    seen += 1;
                    if seen >= wanted {
                        let is_always = seen == tries;
                        return Ok(Verdict::Broken(Complaint {
                            tries: (!is_always).then_some(tries),
                            seen: (!is_always).then_some(seen),
                            ..complaint
                        }));
                    }
                }
                Verdict::Ok => {}
                Verdict::Inconclusive(why) => {
                    let not = || not_repeatable(&words, &why);
                    return Ok(of_rules.map_or_else(not, Verdict::Broken));
                }
            }
        }
    }
    if let Some(complaint) = of_rules {
        return Ok(Verdict::Broken(complaint));
    }
    let ok = tries - seen;
    Ok(not_repeatable(
        &words,
        &format!("ok, {ok} of {tries} times"),
    ))
}

fn not_repeatable(first: &[String], second: &str) -> Verdict {
    let first = first.join("; ");
    Verdict::Inconclusive(format!(
        "not repeatable: the check said first `{first}`, and then of the same `{second}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says one after the other, and `ok` after that.
    struct Says(Vec<Verdict>);

    impl Subject for Says {
        fn judge(&mut self, _: &CrashState, _: bool) -> Result<Verdict> {
            Ok(self.0.pop().unwrap_or(Verdict::Ok))
        }
    }

    /// What a check says of a state that violates a rule.
    fn violated(said: &[&str]) -> Verdict {
        let said: Vec<_> = said.iter().map(ToString::to_string).collect();
        let rule = vec!["a rule is violated".to_owned()];
        Verdict::Broken(Complaint::from(said).with_rules(rule))
    }

    /// What is believed of a state of which this is said, one after the other; and how often it was
    /// not asked.
    fn confirmed(mut said: Vec<Verdict>) -> (Complaint, usize) {
        said.reverse();
        let first = said.pop().expect("something is said");
        let hasher = blake3::Hasher::new();
        let state = CrashState::new(Vec::new(), hasher, Arc::default(), None);
        let mut says = Says(said);
        let verdict = confirm(&mut says, &state, first).expect("asked");
        let Verdict::Broken(complaint) = verdict else {
            panic!("{verdict:?}")
        };
        (complaint, says.0.len())
    }

    #[test]
    fn what_rules_say_each_time_does_not_confirm_what_the_check_says_once() {
        let (rule, both) = (violated(&[]), violated(&["a key is lost"]));
        let (believed, left) = confirmed(vec![rule.clone(), both.clone()]);
        assert!(believed.is_of_rules() && left == 1, "{believed:?}");
        let never_again = vec![rule.clone(); 20];
        let (believed, left) = confirmed([vec![both.clone()], never_again].concat());
        assert!(believed.is_of_rules() && left > 0, "{believed:?}");
        // It may say so often enough all the same.
        let (believed, _) = confirmed(vec![both.clone(), rule, both.clone()]);
        assert_eq!(
            (believed.of_check(), believed.tries, believed.seen),
            (&["a key is lost".to_owned()][..], Some(3), Some(2))
        );
        let (believed, _) = confirmed(vec![both.clone(), both]);
        assert_eq!((believed.of_check().len(), believed.tries), (1, None));
    }
}
