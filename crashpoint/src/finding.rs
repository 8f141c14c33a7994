//! One finding of a directory of results: `crashpoint show`, `minimize` and `replay`.

mod cluster_script;
mod export;
mod facts;
mod live;
mod look;
mod minimize;
mod replay;
mod shorter;
mod show;
mod smaller;
mod states;

use std::path::PathBuf;

use anyhow::Context;
use checker::Contract;
use clap::{Args, Command};
use replayer::{
    Evidence, FileSystemArgs, Findings, Found, FoundWhat, Kernel, RunLog, StateFindings, Story,
    death_text,
};
use workloads::Workload;

use crate::fs;

pub(crate) use export::{ExportArgs, export};
pub(crate) use facts::facts_of as facts_of_file_system;
pub(crate) use live::{facts_of as facts_of_live_run, make_empty};
pub(crate) use minimize::{MinimizeArgs, minimize};
pub(crate) use replay::{ReplayArgs, replay};
pub(crate) use shorter::OPERATIONS;
pub(crate) use show::{ShowArgs, show};

/// A finding as the command line names it.
#[derive(Debug, Args)]
struct Named {
    /// The directory of results: what --out named
    #[arg(value_name = "RESULTS")]
    results: PathBuf,

    /// The number of the finding, as `crashpoint show RESULTS` lists them
    #[arg(value_name = "N")]
    number: usize,
}

/// A finding, and how its sweep was begun.
struct Opened {
    found: Found,
    /// The file systems and the disk of the sweep.
    sweep: FileSystemArgs,
    kernel: Kernel,
}

impl Named {
    fn open(&self, fs: &Command) -> anyhow::Result<Opened> {
        let findings = Findings::read(&self.results)?;
        let found = findings.get(self.number)?.clone();
        let manifest = &findings.manifest;
        let sweep = fs::recorded_arguments(fs, manifest)
            .with_context(|| format!("read the manifest in {}", self.results.display()))?
            .into_file_system();
        let kernel = Kernel {
            release: manifest.kernel_release.clone(),
            version: manifest.kernel_version.clone(),
        };
        Ok(Opened {
            found,
            sweep,
            kernel,
        })
    }
}

impl Opened {
    /// All that is known of what was found with the finding's file system.
    fn tell(&self, workload: &Workload, what: &FoundWhat, log: Option<&RunLog>) -> String {
        match what {
            FoundWhat::State(state) => self.story(workload, state, log),
            FoundWhat::Death(death) => death_text(workload, death, &death.log),
        }
    }

    /// All that is known of a crash state of the finding's file system.
    fn story(&self, workload: &Workload, state: &StateFindings, log: Option<&RunLog>) -> String {
        let variant = &self.found.variant;
        let judged_by = self.sweep.contract.as_ref().unwrap_or(variant);
        let story = Story {
            variant,
            contract: Contract::for_variant(judged_by).ok(),
            workload,
            state,
        };
        match log {
            Some(log) => story.in_full(&Evidence::new(log, self.sweep.disk.honesty)),
            None => story.text(),
        }
    }

    /// The command that sweeps workloads as the finding's was.
    fn sweep_command(&self, sweep: &FileSystemArgs) -> String {
        format!(
            "{} fs {} -",
            campaign::own_call(),
            sweep.replay_flags(&self.found.variant)
        )
    }

    /// Says so if this is another kernel than the one that was found wanting.
    fn note_other_kernel(&self) {
        let here = self
            .sweep
            .machine()
            .and_then(|machine| Kernel::of(&machine));
        if let Ok(here) = here.as_ref().map(|kernel| &kernel.release)
            && *here != self.kernel.release
        {
            campaign::say(&format!(
                "found on Linux {}, and this is {here}: it may not come again",
                self.kernel.release
            ));
        }
    }
}
