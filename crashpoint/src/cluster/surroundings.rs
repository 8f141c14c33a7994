//! What surrounds simulated machines, in the words of the command line: their network, their clocks,
//! their disks, and what disturbs the programs in them.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use cluster::own_environment;
use injector::Surrounded;
use itertools::Itertools;
use pace_rules::disk::Disk as Keeping;
use replayer::DiskKind;
use simulation::{Chaos, Network, Spread};

/// How much kernels disturb programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Not at all
    #[default]
    Off,
    /// A little: programs are hardly slower
    Low,
    /// As much as a cluster bears that is to get anything done
    High,
}

/// A way in which they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Part {
    /// System calls and page faults take time
    Entries,
    /// Pages of code are taken away, so that calls into them are page faults
    Code,
    /// Threads sleep at some page faults
    Sleeps,
}

/// What is asked for with `--chaos`: `high`, or `high:entries,sleeps`, which is two of its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChaosWords {
    level: Level,
    /// In order; none: all.
    parts: Vec<Part>,
}

impl ChaosWords {
    pub(super) fn of(&self) -> Option<Chaos> {
        let mut chaos = match self.level {
            Level::Off => return None,
            Level::Low => Chaos::LOW,
            Level::High => Chaos::HIGH,
        };
        let is_off = |part| !self.parts.is_empty() && !self.parts.contains(&part);
        if is_off(Part::Entries) {
            chaos.entry_ns = 0;
        }
        if is_off(Part::Code) {
            chaos.entries_per_age = 0;
        }
        if is_off(Part::Sleeps) {
            chaos.sleeps_per_million = 0;
        }
        Some(chaos)
    }
}

impl FromStr for ChaosWords {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| {
            format!(
                "expected {}, and behind low or high some parts, such as high:{}",
                names::<Level>(", "),
                names::<Part>(",")
            )
        };
        let (level, parts) = match text.split_once(':') {
            Some((level, parts)) => (level, parts.split(',').collect()),
            None => (text, Vec::new()),
        };
        let level = Level::from_str(level, false).map_err(wrong)?;
        let parts = parts.iter().map(|part| Part::from_str(part, false));
        let parts: Vec<_> = parts.collect::<Result<_, _>>().map_err(wrong)?;
        if level == Level::Off && !parts.is_empty() {
            return Err(wrong(String::new()));
        }
        let parts = parts.into_iter().sorted().dedup().collect();
        Ok(Self { level, parts })
    }
}

impl fmt::Display for ChaosWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(&self.level))?;
        if self.parts.is_empty() {
            return Ok(());
        }
        write!(f, ":{}", self.parts.iter().map(name).join(","))
    }
}

fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("none is hidden");
    value.get_name().to_owned()
}

fn names<T: ValueEnum>(between: &str) -> String {
    T::value_variants().iter().map(name).join(between)
}

/// How the disks of machines behave: as `--disk` of `crashpoint fs` has it, where a machine could see the
/// difference. They have no forced unit access, and no write of theirs has a number that somebody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disks(pub(super) DiskKind);

impl FromStr for Disks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<DiskKind>() {
            Ok(kind) if matches!(kind.honesty, Keeping::Honest | Keeping::DropFlush) => {
                Ok(Self(kind))
            }
            _ => Err("the disks of machines are honest, drop-flush or lazy[:SEED]".into()),
        }
    }
}

impl fmt::Display for Disks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) chaos: ChaosWords,
    pub(crate) network: Option<Network>,
    pub(crate) clocks: Option<Spread>,
    pub(crate) disks: Option<Disks>,
    /// What commands have of the environment of whoever called; nothing: of ours.
    pub(crate) environment: Option<Vec<(String, String)>>,
}

impl Surroundings {
    /// As a sweep keeps them.
    pub(crate) fn kept(&self) -> Surrounded {
        Surrounded {
            chaos: self.chaos.to_string(),
            network: self.network.as_ref().map(ToString::to_string),
            clocks: self.clocks.as_ref().map(ToString::to_string),
            disks: self.disks.as_ref().map(ToString::to_string),
            environment: Some(self.environment()),
        }
    }

    /// What commands have of an environment.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        self.environment.clone().unwrap_or_else(own_environment)
    }

    /// Where commands look for programs.
    pub(crate) fn search_path(&self) -> String {
        let environment = self.environment().into_iter();
        let mut paths = environment.filter(|(name, _)| name == "PATH");
        paths.next().map_or_else(String::new, |(_, path)| path)
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
            disks,
            environment,
        } = kept;
        let words = chaos.parse();
        Ok(Self {
            chaos: words.map_err(|what| format!("there is no chaos `{chaos}`: {what}"))?,
            network: network.as_deref().map(str::parse).transpose()?,
            clocks: clocks.as_deref().map(str::parse).transpose()?,
            disks: disks.as_deref().map(str::parse).transpose()?,
            environment: environment.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_chaos_are_those_that_are_asked_for() {
        let chaos = |text: &str| text.parse::<ChaosWords>().map(|words| words.of());
        assert_eq!(chaos("off"), Ok(None));
        assert_eq!(chaos("high"), Ok(Some(Chaos::HIGH)));
        assert_eq!(chaos("low:sleeps,code,entries"), Ok(Some(Chaos::LOW)));
        let entries = Chaos {
            entries_per_age: 0,
            sleeps_per_million: 0,
            ..Chaos::HIGH
        };
        assert_eq!(chaos("high:entries"), Ok(Some(entries)));
        let others = Chaos {
            entry_ns: 0,
            ..Chaos::LOW
        };
        assert_eq!(chaos("low:code,sleeps"), Ok(Some(others)));
        for wrong in [
            "",
            "middle",
            "high:",
            "high:threads",
            "off:code",
            "high,code",
        ] {
            let error = chaos(wrong).expect_err(wrong);
            assert!(
                error.contains("such as high:entries,code,sleeps"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_manifest_keeps_the_words() {
        let words: ChaosWords = "high:sleeps,entries".parse().expect("these are words");
        assert_eq!(words.to_string(), "high:entries,sleeps");
        let surroundings = Surroundings {
            chaos: words.clone(),
            disks: Some("lazy".parse().expect("a disk")),
            ..Surroundings::default()
        };
        let again = Surroundings::recorded(&surroundings.kept()).expect("it is known");
        assert_eq!(again.chaos, words);
        assert_eq!(
            again.disks.map(|disks| disks.to_string()).as_deref(),
            Some("lazy:0")
        );
    }

    /// Whoever goes on with a sweep may have another `PATH`, and would have another history.
    #[test]
    fn a_manifest_keeps_the_environment_of_whoever_began() {
        let mut kept = Surroundings::default().kept();
        assert_eq!(kept.environment, Some(own_environment()));
        let environment = vec![("PATH".to_owned(), "/elsewhere".to_owned())];
        kept.environment = Some(environment.clone());
        let again = Surroundings::recorded(&kept).expect("it is known");
        assert_eq!(again.environment(), environment);
        assert_eq!(again.search_path(), "/elsewhere");
        assert_eq!(again.kept(), kept);
        kept.environment = None;
        let older = Surroundings::recorded(&kept).expect("it is known");
        assert_eq!(older.environment(), own_environment());
    }

    #[test]
    fn disks_that_no_machine_would_tell_from_others_are_refused() {
        for wrong in ["drop-fua", "lose-write:3", "lazy:x", "lying"] {
            let error = wrong.parse::<Disks>().expect_err(wrong);
            assert!(
                error.ends_with("honest, drop-flush or lazy[:SEED]"),
                "{error}"
            );
        }
    }
}
