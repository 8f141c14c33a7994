//! `crashpoint minimize`: less that breaks the same promise.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::bail;
use brief::counted;
use campaign::{Interrupt, Outcome, say};
use clap::{Args, Command};
use node_sweep::Recorded;
use replayer::{Found, FoundWhat, Minimized, SweepOptions, Workers, prepare, replay_text};
use workloads::Workload;

use super::states::State;
use super::{Named, Opened, live};
use crate::inject;

/// The arguments of `crashpoint minimize`.
#[derive(Debug, Args)]
pub(crate) struct MinimizeArgs {
    #[command(flatten)]
    finding: Named,

    /// Of a program or a cluster: write the state that is left as directories, one for each node,
    /// into DIR. Of a live sweep: keep what the machines say and all frames of the smallest run in
    /// DIR
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Of a program or a cluster: record it again with fewer operations of the client, as long as
    /// the finding comes again, and keep the results of the shortest run in DIR
    ///
    /// The client is told in the environment variable CRASHPOINT_OPERATIONS how many operations it
    /// is to do at most. One that does not look at it cannot be made shorter.
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    shorter: Option<PathBuf>,
}

/// Does it.
pub(crate) fn minimize(
    arguments: &MinimizeArgs,
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let finding = &arguments.finding;
    if injector::manifest(&finding.results)?.is_some() {
        if arguments.shorter.is_some() {
            bail!(
                "--shorter is for traces: of a live sweep, minimize tells the client itself to do less"
            );
        }
        let keep = arguments.keep.as_deref();
        return live::minimize(&finding.results, finding.number, keep, interrupt);
    }
    let of_injected = injector::online::manifest(&finding.results)?.is_some();
    if of_injected && arguments.shorter.is_some() {
        bail!("--shorter is for traces: of injected faults, minimize leaves out faults itself");
    }
    let keep = arguments.keep.as_deref();
    let injected = inject::minimize(&finding.results, finding.number, keep, interrupt)?;
    if let Some(outcome) = injected {
        return Ok(outcome);
    }
    let Some(recorded) = Recorded::read(&arguments.finding.results)? else {
        return arguments.of_a_file_system(fs, interrupt);
    };
    let state = State {
        directory: &arguments.finding.results,
        recorded,
        number: arguments.finding.number,
    };
    match &arguments.shorter {
        Some(out) => state.shorten(out, interrupt),
        None => state.minimize(arguments.keep.as_deref(), interrupt),
    }
}

impl MinimizeArgs {
    fn of_a_file_system(&self, fs: &Command, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
        if self.keep.is_some() {
            bail!("--keep is for programs and clusters: of a file system, replay shows the state");
        }
        if self.shorter.is_some() {
            bail!(
                "--shorter is for programs and clusters: of a file system, minimize removes operations itself"
            );
        }
        let opened = self.finding.open(fs)?;
        let found = &opened.found;
        let machine = opened.sweep.machine()?;
        prepare(std::slice::from_ref(&found.variant), &machine)?;
        opened.note_other_kernel();
        let options = SweepOptions {
            jobs: 1,
            ..opened.sweep.sweep_options(&machine)
        };
        let mut workers = Workers::start(&found.variant, &options)?;
        let (states, told) = (opened.sweep.states(), &mut told);
        let minimized = replayer::minimize(found, &states, &mut workers, interrupt, told)?;
        let Some(minimized) = minimized else {
            if !interrupt.requested() {
                say(&gone(found));
            }
            return Ok(Outcome::Incomplete);
        };
        write!(io::stdout(), "{}", opened.minimized(&minimized))?;
        if minimized.interrupted {
            say("interrupted: there may be something smaller");
            return Ok(Outcome::Incomplete);
        }
        Ok(Outcome::Findings)
    }
}

/// Says what it was made.
fn told(workload: &Workload, what: &FoundWhat) {
    let operations = counted(workload.operations().count(), "operation");
    say(&match what {
        FoundWhat::State(state) => {
            let lost = counted(state.lost_writes(), "lost write");
            format!("{operations}, {lost}")
        }
        FoundWhat::Death(_) => operations,
    });
}

/// Why there is nothing that could be made smaller.
fn gone(found: &Found) -> String {
    let what = match found.findings().first() {
        Some(finding) => match finding.rule_name() {
            Some(rule) => format!("no state violates {rule}"),
            None => format!("no state breaks {}", finding.promise.name()),
        },
        None => "the kernel did not die, or not in the same way".to_owned(),
    };
    format!("finding {} did not come again: {what}", found.number)
}

impl Opened {
    /// All that there is to tell of what is left of the finding.
    fn minimized(&self, minimized: &Minimized) -> String {
        let (found, workload) = (&self.found, &minimized.workload);
        let (number, variant) = (found.number, &found.variant);
        let before = counted(found.workload.operations().count(), "operation");
        let after = workload.operations().count();
        let lost = match (minimized.lost_before, &minimized.what) {
            (0, _) | (_, FoundWhat::Death(_)) => String::new(),
            (before, FoundWhat::State(state)) => {
                let before = counted(before, "lost write");
                format!(", {before} down to {}", state.lost_writes())
            }
        };
        let mut text = format!(
            "FINDING {number}  {variant}  {}: {before} down to {after}{lost} ({} runs)\n",
            workload.name, minimized.tried
        );
        text += &self.tell(workload, &minimized.what, minimized.log.as_ref());
        if let FoundWhat::State(state) = &minimized.what {
            let (workload, address) = (workload.to_line(), state.address());
            text += &format!("  workload  {workload}\n  state     {address}\n");
        }
        let sweep = self.sweep.clone().with_states(minimized.states);
        text + &replay_text(workload, &self.sweep_command(&sweep))
    }
}
