//! What had happened before a crash, and what of it the disks lost: what rules know of a state beside
//! what it left.

use pace_rules::nodes::{Micro, NodeState};
pub use trace_store::Past;
use trace_store::{Missing, Trace};

use crate::tree::Fingerprint;

/// One of crashes in a run in which so many events of each node had happened: nothing is lost of them
/// until it is added. None if nobody knows what came before the run.
pub(crate) fn past(trace: &Trace, cut: Vec<usize>) -> Option<Past> {
    let recovery = match &trace.about.recovers {
        None => None,
        Some(recovers) => Some(recovers.before.as_ref()?.number),
    };
    Some(Past {
        recovery,
        cut,
        ..Past::default()
    })
}

/// Adds what a node lost, whose disk was to get these effects, in this order.
pub(crate) fn add(past: &mut Past, node: usize, micros: &[Micro], kept: &NodeState) {
    let cut = past.cut[node];
    let is_there = |place: &usize| *place < kept.micros && kept.lost.binary_search(place).is_err();
    let mut first = 0;
    for own in micros.chunk_by(|one, other| one.event == other.event) {
        let (event, places) = (own[0].event, first..first + own.len());
        first = places.end;
        let there = places.filter(is_there).count();
        if event >= cut {
            past.in_flight.extend((there > 0).then_some((node, event)));
            return;
        }
        if there < own.len() {
            past.lost.push(Missing {
                node,
                event,
                is_whole: there == 0,
            });
        }
    }
}

/// The key of a state with this past that has this key without it.
pub(crate) fn key(past: &Past, of: Fingerprint) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&of);
    let mut add = |number: usize| {
        hasher.update(&(number as u64).to_le_bytes());
    };
    let Past {
        recovery,
        cut,
        lost,
        in_flight,
    } = past;
    for len in [cut.len(), lost.len(), in_flight.len()] {
        add(len);
    }
    cut.iter().copied().for_each(&mut add);
    for missing in lost {
        let is_whole = usize::from(missing.is_whole);
        [missing.node, missing.event, is_whole]
            .into_iter()
            .for_each(&mut add);
    }
    for (node, event) in in_flight {
        [*node, *event].into_iter().for_each(&mut add);
    }
    // Keys of states of the run stay what they were.
    recovery.iter().copied().for_each(&mut add);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use pace_rules::nodes::Effect;
    use trace::FileId;

    use super::*;

    fn micros(events: &[usize]) -> Vec<Micro> {
        let micro = |event: &usize| Micro {
            event: *event,
            effect: Effect::Grow {
                file: FileId::ROOT,
                size: 1,
            },
        };
        events.iter().map(micro).collect()
    }

    fn past(cut: usize, kept: &NodeState) -> Past {
        let mut past = Past {
            cut: vec![cut],
            ..Past::default()
        };
        add(&mut past, 0, &micros(&[0, 2, 2, 3, 5, 5]), kept);
        past
    }

    #[test]
    fn what_had_returned_and_is_not_there_is_lost_and_what_is_there_before_its_time_in_flight() {
        let of = |cut, micros, lost: &[usize]| {
            let lost = lost.to_vec();
            let past = past(cut, &NodeState { micros, lost });
            let lost = past.lost.iter().map(|one| (one.event, one.is_whole));
            (lost.collect::<Vec<_>>(), past.in_flight)
        };
        assert_eq!(of(4, 4, &[]), (vec![], vec![]));
        assert_eq!(of(4, 4, &[1]), (vec![(2, false)], vec![]));
        assert_eq!(of(4, 4, &[0, 1, 2]), (vec![(0, true), (2, true)], vec![]));
        // In order, and not so far.
        assert_eq!(of(4, 2, &[]), (vec![(2, false), (3, true)], vec![]));
        assert_eq!(of(5, 5, &[]), (vec![], vec![(0, 5)]));
        assert_eq!(of(5, 6, &[4]), (vec![], vec![(0, 5)]));
        assert_eq!(of(5, 5, &[4]), (vec![], vec![]));
    }

    #[test]
    fn pasts_that_differ_have_keys_that_differ() {
        let kept = |micros, lost: &[usize]| NodeState {
            micros,
            lost: lost.to_vec(),
        };
        let all = [
            past(4, &kept(4, &[])),
            past(5, &kept(4, &[])),
            past(4, &kept(4, &[1])),
            past(4, &kept(4, &[1, 2])),
            past(5, &kept(5, &[])),
        ];
        let keys: std::collections::HashSet<_> =
            all.iter().map(|past| key(past, [7; 32])).collect();
        assert_eq!(keys.len(), all.len());
    }
}
