//! What was found both in what a model allows and on the recorded disks.

use std::collections::HashMap;

use crate::finding::Finding;
use crate::summary::Summary;

/// In which recordings findings were seen, by what the check said.
fn seen_under(findings: &[Finding]) -> HashMap<Vec<String>, Vec<String>> {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for finding in findings {
        let seen = found.entry(finding.plain.clone()).or_default();
        seen.extend(finding.seen_under.iter().cloned());
    }
    found
}

/// Notes with the findings of a model how many of them have words that disks showed.
fn count_same_words<T>(calls: &mut [Finding], by_disks: &HashMap<Vec<String>, T>) {
    let mut with_words: HashMap<_, usize> = HashMap::new();
    for finding in &*calls {
        *with_words.entry(finding.plain.clone()).or_default() += 1;
    }
    for finding in calls {
        let same_words = with_words[&finding.plain];
        if same_words > 1 && by_disks.contains_key(&finding.plain) {
            finding.same_words = same_words;
        }
    }
}

/// Notes with the findings of a model whether the recorded disks were broken in the same way, and
/// in which recordings, and with those of disks whether the model was. That it was not is noted only
/// where every state was looked at and judged, and not some that were `drawn`.
pub(crate) fn compare_levels(
    calls: (&mut [Finding], &Summary),
    disks: (&mut [Finding], &Summary),
    drawn: bool,
) {
    let ((calls, on_model), (disks, on_disk)) = (calls, disks);
    let (by_calls, by_disks) = (seen_under(calls), seen_under(disks));
    let note = |findings: &mut [Finding], found: &HashMap<_, _>, other: &Summary| {
        for finding in findings {
            let is_found = found.contains_key(&finding.plain);
            if is_found || !(drawn || !other.is_whole() || other.inconclusive > 0) {
                finding.models.insert(other.model.clone(), is_found);
            }
        }
    };
    note(calls, &by_disks, on_disk);
    note(disks, &by_calls, on_model);
    let schedules = &on_disk.schedules;
    count_same_words(calls, &by_disks);
    for finding in calls {
        let seen = by_disks.get(&finding.plain);
        let is_seen = |schedule: &&String| seen.is_some_and(|seen| seen.contains(schedule));
        finding.seen_under = schedules.iter().filter(is_seen).cloned().collect();
        finding.recorded_under.clone_from(schedules);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use trace_store::Trace;

    use super::*;
    use crate::findings::Findings;

    /// What is noted with a finding at a level where the other one came to this, and found nothing.
    fn noted(drawn: bool, change: impl FnOnce(&mut Summary)) -> BTreeMap<String, bool> {
        let mut calls = [Finding {
            plain: vec!["lost".into()],
            ..Findings::told(&Trace::default(), &[])
        }];
        let on_model = Summary {
            model: "posix".into(),
            ..Summary::default()
        };
        let mut on_disk = Summary {
            model: "ext4 on disk".into(),
            ..Summary::default()
        };
        change(&mut on_disk);
        compare_levels((&mut calls, &on_model), (&mut [], &on_disk), drawn);
        calls[0].models.clone()
    }

    #[test]
    fn a_level_did_not_find_it_only_if_it_has_seen_all() {
        assert_eq!(
            noted(false, |_| {}),
            BTreeMap::from([("ext4 on disk".to_owned(), false)])
        );
        let nothing = BTreeMap::new();
        assert_eq!(noted(true, |_| {}), nothing);
        assert_eq!(noted(false, |disk| disk.interrupted = true), nothing);
        assert_eq!(noted(false, |disk| disk.left = 1), nothing);
        assert_eq!(noted(false, |disk| disk.inconclusive = 1), nothing);
    }

    #[test]
    fn what_both_levels_found_is_noted_whatever_they_left() {
        let of_model = |model: &str| Summary {
            model: model.into(),
            left: 1,
            interrupted: true,
            ..Summary::default()
        };
        let told = |words: &str| Finding {
            plain: vec![words.into()],
            ..Findings::told(&Trace::default(), &[])
        };
        let (mut calls, mut disks) = ([told("lost"), told("torn")], [told("gone"), told("lost")]);
        compare_levels(
            (&mut calls, &of_model("posix")),
            (&mut disks, &of_model("ext4 on disk")),
            true,
        );
        let models = |finding: &Finding| finding.models.clone().into_iter().collect::<Vec<_>>();
        assert_eq!(
            calls.each_ref().map(models),
            [vec![("ext4 on disk".into(), true)], Vec::new()]
        );
        assert_eq!(
            disks.each_ref().map(models),
            [Vec::new(), vec![("posix".into(), true)]]
        );
    }

    /// Which of two findings with the same words the disks show, the words do not say.
    #[test]
    fn who_shares_its_words_is_told_so_if_disks_show_them() {
        let told = |words: &str| Finding {
            plain: vec![words.into()],
            ..Findings::told(&Trace::default(), &[])
        };
        let mut calls = ["lost", "lost", "torn", "gone", "gone"].map(told);
        let mut disks = ["lost", "torn"].map(told);
        let summary = Summary::default();
        compare_levels((&mut calls, &summary), (&mut disks, &summary), false);
        assert_eq!(calls.map(|finding| finding.same_words), [2, 2, 0, 0, 0]);
        assert_eq!(disks.map(|finding| finding.same_words), [0, 0]);
    }
}
