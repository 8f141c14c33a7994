//! `crashpoint minimize`: less that breaks the same promise.

use std::io::{self, Write};

use clap::{Args, Command};
use replayer::{FileSystemArgs, Interrupt, Outcome, SweepOptions, Workers, prepare, replay_text, say};

use super::Named;

/// The arguments of `crashpoint minimize`.
#[derive(Debug, Args)]
pub(crate) struct MinimizeArgs {
    #[command(flatten)]
    finding: Named,
}

/// Does it.
pub(crate) fn minimize(arguments: &MinimizeArgs, fs: &Command, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let opened = arguments.finding.open(fs)?;
    let found = &opened.found;
    let search = replayer::search_for(found, &opened.sweep.states)?;
    let machine = opened.sweep.machine()?;
    prepare(std::slice::from_ref(&found.variant), &machine)?;
    opened.note_other_kernel();
    let options = SweepOptions { jobs: 1, ..opened.sweep.sweep_options(&machine) };
    let mut workers = Workers::start(&found.variant, &options)?;
    let minimized =
        replayer::minimize(found, &opened.sweep.states, &mut workers, interrupt, &mut |workload, state| {
            let (operations, lost) = (workload.operations().count(), state.lost.len());
            say(&format!("{}, {}", counted(operations, "operation"), counted(lost, "lost write")));
        })?;
    let Some(minimized) = minimized else {
        if !interrupt.requested() {
            say(&format!("finding {} did not come again: no state breaks {}", found.number, search.promise.name()));
        }
        return Ok(Outcome::Incomplete);
    };
    let workload = &minimized.workload;
    let (before, after) = (found.workload.operations().count(), workload.operations().count());
    let lost = match (minimized.lost_before, minimized.state.lost.len()) {
        (0, 0) => String::new(),
        (before, after) => format!(", {} down to {after}", counted(before, "lost write")),
    };
    let (number, variant, name, tried) = (found.number, &found.variant, &workload.name, minimized.tried);
    let before = counted(before, "operation");
    let mut text = format!("FINDING {number}  {variant}  {name}: {before} down to {after}{lost} ({tried} runs)\n");
    text += &opened.story(workload, &minimized.state, minimized.log.as_ref());
    let sweep = FileSystemArgs { states: minimized.states, ..opened.sweep.clone() };
    text += &format!("  workload  {}\n  state     {}\n", workload.to_line(), minimized.state.state);
    text += &replay_text(workload, &opened.sweep_command(&sweep));
    write!(io::stdout(), "{text}")?;
    if minimized.interrupted {
        say("interrupted: there may be something smaller");
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Findings)
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
