//! What matters most comes first: the order of findings.

use pace_rules::nodes::{LINUX, MODELS, Model};
use serde::{Deserialize, Serialize};

use crate::finding::Finding;

/// How much a finding matters: the first kind most.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// A recorded disk shows it, and something had been acknowledged before what is missing there.
    AcknowledgedOnDisk,
    /// The same, possible on the model of every file system.
    AcknowledgedEverywhere,
    /// The same, possible on some.
    AcknowledgedSomewhere,
    /// Nothing was acknowledged after what is missing: a directory that cannot be used, or what
    /// else a check says.
    #[default]
    Other,
    /// No model of a file system was found to do it: only the standard does not forbid it.
    LetterOnly,
}

impl Rank {
    /// That of a finding of which it is known where else it is possible.
    pub(crate) fn of(finding: &Finding) -> Self {
        let is_disk = |name: &str| name != LINUX && Model::named(name).is_none();
        let mut other_levels = finding.models.iter();
        let is_on_disk = finding.level().is_of_disks()
            || other_levels.any(|(name, is_possible)| *is_possible && is_disk(name));
        let real = MODELS.iter().filter(|model| model.is_real());
        let on_real: Vec<_> = real
            .map(|model| {
                let is_own = (finding.model == model.name).then_some(true);
                is_own.or_else(|| finding.models.get(model.name).copied())
            })
            .collect();
        let is_nowhere = on_real
            .iter()
            .all(|is_possible| *is_possible == Some(false));
        let is_everywhere = on_real.iter().all(|is_possible| *is_possible == Some(true));
        match (finding.is_told, is_on_disk) {
            (_, false) if is_nowhere => Self::LetterOnly,
            (false, _) => Self::Other,
            (true, true) => Self::AcknowledgedOnDisk,
            (true, false) if is_everywhere => Self::AcknowledgedEverywhere,
            (true, false) => Self::AcknowledgedSomewhere,
        }
    }
}

/// Brings findings into the order of their ranks, and numbers them. Those of one rank stay in the
/// order that they have.
pub(crate) fn in_order(findings: &mut [Finding]) {
    for finding in &mut *findings {
        finding.rank = Rank::of(finding);
    }
    findings.sort_by_key(|finding| finding.rank);
    for (place, finding) in findings.iter_mut().enumerate() {
        finding.number = place + 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A finding of `posix`, which is possible on these and on no other.
    fn finding(is_told: bool, possible: &[&str]) -> Finding {
        let disk = possible.iter().filter(|name| **name == "xfs on disk");
        let others = MODELS.iter().map(|model| &model.name).chain(disk);
        let others = others.filter(|name| **name != "posix");
        let models = others.map(|name| ((*name).to_owned(), possible.contains(name)));
        Finding {
            model: "posix".into(),
            is_told,
            models: models.collect(),
            ..Finding::default()
        }
    }

    #[test]
    fn what_was_acknowledged_and_is_lost_where_people_are_comes_first() {
        let real: Vec<_> = MODELS.iter().filter(|model| model.is_real()).collect();
        let everywhere: Vec<_> = real.iter().map(|model| model.name).collect();
        let unknown = Finding {
            models: BTreeMap::new(),
            ..finding(true, &[])
        };
        let ranked = [
            (Rank::LetterOnly, finding(true, &[])),
            (Rank::LetterOnly, finding(false, &[])),
            (Rank::Other, finding(false, &everywhere)),
            (Rank::Other, finding(false, &["xfs on disk"])),
            (Rank::AcknowledgedSomewhere, finding(true, &["xfs"])),
            (Rank::AcknowledgedSomewhere, unknown),
            (Rank::AcknowledgedEverywhere, finding(true, &everywhere)),
            (Rank::AcknowledgedOnDisk, finding(true, &["xfs on disk"])),
        ];
        let (ranks, mut findings): (Vec<_>, Vec<_>) = ranked.into_iter().unzip();
        for (rank, finding) in ranks.iter().zip(&findings) {
            assert_eq!(Rank::of(finding), *rank, "{finding:#?}");
        }
        in_order(&mut findings);
        let ranked: Vec<_> = findings.iter().map(|finding| finding.rank).collect();
        let reversed: Vec<_> = ranks.into_iter().rev().collect();
        assert_eq!(ranked, reversed);
        let numbers: Vec<_> = findings.iter().map(|finding| finding.number).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
        // Those of one rank stay as they were.
        assert!(findings[2].models.contains_key("xfs") && findings[3].models.is_empty());
    }
}
