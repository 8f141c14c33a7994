//! A finding of a program or a cluster made small.

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;
use brief::counted;
use campaign::{Interrupt, Outcome, quoted, say};
use node_sweep::{
    Asking, Finding, Judge, Minimization, Minimized, Numbered, Shape, keep, load_trace, minimize,
    refuse_to_keep, scratch, verdicts,
};
use trace_store::Trace;

use super::states::State;
use crate::cluster::{Ground, TraceGuest};

impl State<'_> {
    /// The finding that has the number.
    pub(super) fn finding(&self) -> anyhow::Result<&Finding> {
        let Numbered::Finding(finding) = self.recorded.get(self.number)? else {
            bail!(
                "{0} is an inconclusive state, of which nothing is known to be broken: \
                 `crashpoint replay {1} {0}` has it checked again",
                self.number,
                quoted(&self.directory.to_string_lossy())
            );
        };
        Ok(finding)
    }

    /// Looks for less that is broken in like words, and tells of it.
    pub(super) fn minimize(
        &self,
        kept: Option<&Path>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        kept.map_or(Ok(()), refuse_to_keep)?;
        let finding = self.finding()?;
        let manifest = &self.recorded.manifest;
        let trace = load_trace(self.directory, manifest)?;
        let known = verdicts(self.directory, finding.level())?;
        let of = Minimization {
            trace: &trace,
            request: &manifest.request,
            finding,
            known: &known,
            interrupt,
        };
        let minimized = if manifest.request.judge == Judge::Cluster {
            if let Some(guest) = TraceGuest::if_needed()? {
                return guest.find_again(self.directory, kept, interrupt);
            }
            let ground = Ground::new(&trace, self.directory, interrupt)?;
            let asking = self.asking(&trace, interrupt)?;
            let mut nodes = Asking::also_if(asking.as_ref(), Box::new(ground.nodes()?));
            minimize(&of, &mut *nodes, &mut |shape| tell(&of, shape))?
        } else {
            self.of_a_program(&of)?
        };
        let Some(minimized) = minimized else {
            if !interrupt.requested() {
                say(&format!(
                    "finding {} did not come again: the check did not find it twice in its state",
                    self.number
                ));
            }
            return Ok(Outcome::Incomplete);
        };
        finish(&of, &minimized, kept)
    }

    fn of_a_program(&self, of: &Minimization<'_>) -> anyhow::Result<Option<Minimized>> {
        let scratch = scratch()?;
        if of.finding.level().is_of_disks() {
            // Nobody else is to see what is mounted.
            local_fs::enter_mount_namespace()?;
        }
        let (_place, program) = self.program(of.trace, scratch.path(), of.interrupt)?;
        let asking = self.asking(of.trace, of.interrupt)?;
        let mut program = Asking::also_if(asking.as_ref(), Box::new(program));
        Ok(minimize(of, &mut *program, &mut |shape| tell(of, shape))?)
    }
}

/// Tells of what was found, and keeps its crash state where that is wanted.
fn finish(
    of: &Minimization<'_>,
    minimized: &Minimized,
    kept: Option<&Path>,
) -> anyhow::Result<Outcome> {
    print(of, minimized)?;
    if let Some(directory) = kept {
        keep(of.trace, &minimized.state, directory)?;
        say(&format!("the crash state is in {}", directory.display()));
    }
    if minimized.interrupted {
        say("interrupted: there may be something smaller");
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Findings)
}

/// What is missing in the states of a finding.
fn missing(of: &Minimization<'_>) -> &'static str {
    if of.finding.level().is_of_disks() {
        "lost write"
    } else {
        "lost operation"
    }
}

/// Says what it was made.
fn tell(of: &Minimization<'_>, shape: Shape) {
    let nodes = if is_alone(of.trace) {
        String::new()
    } else {
        format!(" on {}", counted(shape.nodes, "node"))
    };
    let (lost, events) = (
        counted(shape.missing, missing(of)),
        counted(shape.events, "event"),
    );
    say(&format!("{lost}{nodes}, {events} before the crash"));
}

/// Whether only one node can lose something.
fn is_alone(trace: &Trace) -> bool {
    trace.run.nodes.len() == 1
}

fn print(of: &Minimization<'_>, minimized: &Minimized) -> io::Result<()> {
    let Minimized {
        finding,
        before,
        after,
        checked,
        ..
    } = minimized;
    let mut parts = Vec::new();
    if before.missing > 0 {
        let lost = counted(before.missing, missing(of));
        parts.push(format!("{lost} down to {}", after.missing));
    }
    if before.nodes > 1 {
        let nodes = counted(before.nodes, "node");
        parts.push(format!("{nodes} down to {}", after.nodes));
    }
    let events = counted(before.events, "event");
    parts.push(format!("{events} down to {}", after.events));
    write!(
        io::stdout(),
        "FINDING {}  {}  {}: {} ({} checked)\n{}",
        finding.number,
        finding.model,
        finding.relaxation,
        parts.join(", "),
        counted(*checked, "state"),
        finding.text()
    )
}
