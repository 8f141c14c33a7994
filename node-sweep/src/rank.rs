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
