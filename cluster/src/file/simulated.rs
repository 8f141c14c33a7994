//! What simulated machines are like, where the defaults do not fit.

use std::str::FromStr;

use serde::Deserialize;
use simulation::{Network, Spread};

use super::raw::Words;

/// With less, no kernel and no program fit.
const MEMORY_MIB_MIN: u64 = 64;

/// More than any machine has that simulates some.
const MEMORY_MIB_MAX: u64 = 64 * 1024;

/// mkfs of most file systems refuses less.
const DISK_MIB_MIN: u64 = 128;

/// Images are sparse, but even an empty one takes a thousandth of its size.
const DISK_MIB_MAX: u64 = 64 * 1024;

/// The machines of a cluster that is simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedConfig {
    /// The memory of each machine, the client's too, in MiB.
    pub memory_mib: u64,
    /// The size of the disk of each node in MiB, if not that of the file system's row.
    pub disk_mib: Option<u64>,
    /// What their network is like, if the file says so.
    pub network: Option<Network>,
    /// How far their clocks are apart, if they are.
    pub clocks: Option<Spread>,
}

impl Default for SimulatedConfig {
    fn default() -> Self {
        Self {
            memory_mib: 256,
            disk_mib: None,
            network: None,
            clocks: None,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSimulated {
    memory_mib: Option<u64>,
    disk_mib: Option<u64>,
    network: Option<String>,
    clocks: Option<String>,
}

impl RawSimulated {
    pub(super) fn settle(&self) -> Words<SimulatedConfig> {
        let within = |name: &str, value: Option<u64>, min: u64, max: u64| match value {
            Some(value) if !(min..=max).contains(&value) => {
                Err(format!("simulated: {name} is {value}: give {min} to {max}"))
            }
            value => Ok(value),
        };
        let default = SimulatedConfig::default();
        let memory_mib = within(
            "memory_mib",
            self.memory_mib,
            MEMORY_MIB_MIN,
            MEMORY_MIB_MAX,
        )?;
        let disk_mib = within("disk_mib", self.disk_mib, DISK_MIB_MIN, DISK_MIB_MAX)?;
        Ok(SimulatedConfig {
            memory_mib: memory_mib.unwrap_or(default.memory_mib),
            disk_mib,
            network: read("network", self.network.as_deref())?,
            clocks: read("clocks", self.clocks.as_deref())?,
        })
    }
}

/// What is said in the words of the command line, if it is.
fn read<T: FromStr<Err = String>>(key: &str, text: Option<&str>) -> Words<Option<T>> {
    let read = text.map(str::parse).transpose();
    read.map_err(|what| format!("simulated: {key}: {what}"))
}
