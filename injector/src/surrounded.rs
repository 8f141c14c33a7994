//! What surrounds the machines of a campaign, as its manifest keeps it.

use serde::{Deserialize, Serialize};

/// What nobody has to ask for.
const NO_CHAOS: &str = "off";

/// What surrounds simulated machines, in the words of the command line. What it does not say is as
/// the cluster file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surrounded {
    /// How kernels disturb programs: `off`, `low` or `high`, or parts of one, as `high:entries,code`.
    pub chaos: String,
    /// What the network is like, as `--network` takes it, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// How far clocks are apart, as `--clocks` takes it, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<String>,
    /// How disks behave, as `--disks` takes it, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<String>,
    /// What commands have of the environment of whoever began it; nothing is known of that in what was
    /// written by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Vec<(String, String)>>,
}

impl Surrounded {
    /// Whether commands have another environment than there, as far as both are known.
    pub(crate) fn has_other_environment(&self, there: &Self) -> bool {
        let environments = self.environment.iter().zip(&there.environment);
        environments.into_iter().any(|(here, there)| here != there)
    }

    /// The options that ask for the same, if any is needed.
    pub fn options(&self) -> Option<String> {
        let chaos = Some(&self.chaos).filter(|chaos| *chaos != NO_CHAOS);
        let options = [
            ("chaos", chaos),
            ("network", self.network.as_ref()),
            ("clocks", self.clocks.as_ref()),
            ("disks", self.disks.as_ref()),
        ];
        let given = options
            .iter()
            .filter_map(|(name, value)| Some(format!("--{name} {}", (*value)?)));
        Some(given.collect::<Vec<_>>().join(" ")).filter(|given| !given.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_those_that_ask_for_something() {
        let mut surrounded = Surrounded {
            chaos: "off".into(),
            network: None,
            clocks: None,
            disks: None,
            environment: None,
        };
        assert_eq!(surrounded.options(), None);
        surrounded.clocks = Some("1s".into());
        surrounded.chaos = "high".into();
        surrounded.disks = Some("lazy:3".into());
        let options = surrounded.options();
        let expected = "--chaos high --clocks 1s --disks lazy:3";
        assert_eq!(options.as_deref(), Some(expected));
    }
}
