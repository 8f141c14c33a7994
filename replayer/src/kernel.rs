use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use campaign::quoted;
use clap::Args;
use machine::{Machine, Uml};

use crate::error::{Error, Result};

/// Modules that disks in user space need where they are not built in.
const DISK_MODULES: [&str; 2] = ["loop", "fuse"];

/// Which kernel to test: `host`, `uml` or `uml:PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KernelChoice {
    /// The one that we run under.
    #[default]
    Host,
    /// A User-Mode Linux; Debian's unless there is a path.
    Uml(Option<PathBuf>),
}

/// Which kernel to test.
#[derive(Debug, Clone, Args)]
pub struct KernelArgs {
    /// The kernel to test: host (the running one, which takes root), uml (a User-Mode Linux
    /// process, which does not; Debian's package user-mode-linux), or uml:PATH
    #[arg(long, value_name = "host|uml[:PATH]", default_value_t)]
    pub kernel: KernelChoice,

    /// Where depmod left the modules of a User-Mode Linux kernel [default: those of the package]
    #[arg(long, value_name = "DIR")]
    pub modules: Option<PathBuf>,

    /// Parameters for a User-Mode Linux kernel beyond ours, separated by spaces
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ' ',
        allow_hyphen_values = true
    )]
    pub kernel_parameters: Vec<String>,

    /// Have time be virtual in a User-Mode Linux kernel that scripts/build-uml.sh built: waiting
    /// costs nothing, and a run is the same again with the same --seed
    #[arg(long)]
    pub virtual_time: bool,

    /// What virtual time and random numbers start from.
    #[arg(skip)]
    pub seed: u64,
}

impl KernelArgs {
    /// Where to run for it.
    ///
    /// # Errors
    /// If there is no such kernel, or modules are named for one that has its own.
    pub fn machine(&self) -> Result<Machine> {
        let for_guests = |option, why| Err(Error::ForGuests { option, why });
        let KernelChoice::Uml(path) = &self.kernel else {
            if self.modules.is_some() {
                return for_guests("--modules", "the running kernel has its own");
            }
            if !self.kernel_parameters.is_empty() {
                return for_guests("--kernel-parameters", "the running kernel has started");
            }
            if self.virtual_time {
                return for_guests(
                    "--virtual-time",
                    "the time of the running kernel is everybody's",
                );
            }
            return Ok(Machine::Host);
        };
        let (path, modules) = (path.as_deref(), self.modules.as_deref());
        let mut uml = if self.virtual_time {
            Uml::find_virtual(path, modules, self.seed)?
        } else {
            Uml::find(path, modules)?
        };
        uml.parameters.extend(
            self.kernel_parameters
                .iter()
                .filter(|word| !word.is_empty())
                .cloned(),
        );
        uml.load.extend(DISK_MODULES.map(str::to_owned));
        Ok(Machine::Uml(uml))
    }

    /// The flags that say the same again, each after a space.
    pub fn flags(&self) -> String {
        let mut flags = match &self.kernel {
            KernelChoice::Host => String::new(),
            uml @ KernelChoice::Uml(_) => format!(" --kernel {}", quoted(&uml.to_string())),
        };
        if let Some(modules) = &self.modules {
            flags += &format!(" --modules {}", quoted(&modules.to_string_lossy()));
        }
        if !self.kernel_parameters.is_empty() {
            flags += &format!(
                " --kernel-parameters {}",
                quoted(&self.kernel_parameters.join(" "))
            );
        }
        if self.virtual_time {
            flags += &format!(" --virtual-time --seed {}", self.seed);
        }
        flags
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Uml(None) => f.write_str("uml"),
            Self::Uml(Some(path)) => write!(f, "uml:{}", path.display()),
        }
    }
}

impl FromStr for KernelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "host" => Ok(Self::Host),
            None if text == "uml" => Ok(Self::Uml(None)),
            Some(("uml", path)) if !path.is_empty() => Ok(Self::Uml(Some(path.into()))),
            _ => Err("it is host, uml or uml:PATH".to_owned()),
        }
    }
}
