//! What surrounds simulated machines, in the words of the command line: their network, their clocks,
//! and what disturbs the programs in them.

use clap::ValueEnum;
use injector::Surrounded;
use simulation::{Chaos, Network, Spread};

/// How much kernels disturb programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Not at all
    #[default]
    Off,
    /// A little: programs are hardly slower
    Low,
    /// As much as a cluster bears that is to get anything done
    High,
}

impl Level {
    /// As the command line has it.
    fn name(self) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().to_owned()
    }

    pub(super) fn of(self) -> Option<Chaos> {
        match self {
            Self::Off => None,
            Self::Low => Some(Chaos::LOW),
            Self::High => Some(Chaos::HIGH),
        }
    }
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) chaos: Level,
    pub(crate) network: Option<Network>,
    pub(crate) clocks: Option<Spread>,
}

impl Surroundings {
    /// As a sweep keeps them.
    pub(crate) fn kept(&self) -> Surrounded {
        Surrounded {
            chaos: self.chaos.name(),
            network: self.network.as_ref().map(ToString::to_string),
            clocks: self.clocks.as_ref().map(ToString::to_string),
        }
    }

    /// Those of a sweep that was begun.
    ///
    /// # Errors
    /// If they are not known.
    pub(crate) fn recorded(kept: &Surrounded) -> Result<Self, String> {
        let Surrounded {
            chaos,
            network,
            clocks,
        } = kept;
        let level = Level::from_str(chaos, false);
        Ok(Self {
            chaos: level.map_err(|_| format!("there is no chaos `{chaos}`"))?,
            network: network.as_deref().map(str::parse).transpose()?,
            clocks: clocks.as_deref().map(str::parse).transpose()?,
        })
    }
}
