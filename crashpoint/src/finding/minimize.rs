//! `crashpoint minimize`: less that breaks the same promise.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::bail;
use brief::counted;
use campaign::{Interrupt, Outcome, say};
use clap::{Args, Command};
use node_sweep::Recorded;
use replayer::{FileSystemArgs, FoundWhat, SweepOptions, Workers, prepare, replay_text};

use super::Named;
use super::states::State;

/// The arguments of `crashpoint minimize`.
#[derive(Debug, Args)]
pub(crate) struct MinimizeArgs {
    #[command(flatten)]
    finding: Named,

    /// Of a program or a cluster: write the state that is left as directories, one for each node,
    /// into DIR
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Does it.
pub(crate) fn minimize(
    arguments: &MinimizeArgs,
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if let Some(recorded) = Recorded::read(&arguments.finding.results)? {
        let state = State {
            directory: &arguments.finding.results,
            recorded,
            number: arguments.finding.number,
        };
        return state.minimize(arguments.keep.as_deref(), interrupt);
    }
    if arguments.keep.is_some() {
        bail!("--keep is for programs and clusters: of a file system, replay shows the state");
    }
    let opened = arguments.finding.open(fs)?;
    let found = &opened.found;
    let machine = opened.sweep.machine()?;
    prepare(std::slice::from_ref(&found.variant), &machine)?;
    opened.note_other_kernel();
    let options = SweepOptions {
        jobs: 1,
        ..opened.sweep.sweep_options(&machine)
    };
    let mut workers = Workers::start(&found.variant, &options)?;
    let minimized = replayer::minimize(
        found,
        &opened.sweep.states,
        &mut workers,
        interrupt,
        &mut |workload, what| {
            let operations = counted(workload.operations().count(), "operation");
            say(&match what {
                FoundWhat::State(state) => {
                    format!(
                        "{operations}, {}",
                        counted(state.lost_writes(), "lost write")
                    )
                }
                FoundWhat::Death(_) => operations,
            });
        },
    )?;
    let Some(minimized) = minimized else {
        if !interrupt.requested() {
            let what = match found.findings().first() {
                Some(finding) => format!("no state breaks {}", finding.promise.name()),
                None => "the kernel did not die, or not in the same way".to_owned(),
            };
            say(&format!(
                "finding {} did not come again: {what}",
                found.number
            ));
        }
        return Ok(Outcome::Incomplete);
    };
    let workload = &minimized.workload;
    let (before, after) = (
        found.workload.operations().count(),
        workload.operations().count(),
    );
    let lost = match (minimized.lost_before, &minimized.what) {
        (0, _) | (_, FoundWhat::Death(_)) => String::new(),
        (before, FoundWhat::State(state)) => {
            format!(
                ", {} down to {}",
                counted(before, "lost write"),
                state.lost_writes()
            )
        }
    };
    let (number, variant, name, tried) = (
        found.number,
        &found.variant,
        &workload.name,
        minimized.tried,
    );
    let before = counted(before, "operation");
    let mut text = format!(
        "FINDING {number}  {variant}  {name}: {before} down to {after}{lost} ({tried} runs)\n"
    );
    text += &opened.tell(workload, &minimized.what, minimized.log.as_ref());
    let sweep = FileSystemArgs {
        states: minimized.states,
        ..opened.sweep.clone()
    };
    if let FoundWhat::State(state) = &minimized.what {
        text += &format!(
            "  workload  {}\n  state     {}\n",
            workload.to_line(),
            state.address()
        );
    }
    text += &replay_text(workload, &opened.sweep_command(&sweep));
    write!(io::stdout(), "{text}")?;
    if minimized.interrupted {
        say("interrupted: there may be something smaller");
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Findings)
}
