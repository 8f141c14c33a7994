//! What a program does while it recovers from a crash, on record: the power may fail again then.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context;
use campaign::Interrupt;
use node_sweep::{
    Check, CheckCommand, FirstCrash, Program, Request, Subject, Verdict, first_crashes, undamaged,
};
use recorder::process::{NodeOptions, record};
use trace::Action;
use trace_store::{Recovers, RecoveryCounts, Trace};

use crate::app::PROGRAM;
use crate::states;

/// For each recovery that is wanted, so many crash states are tried: of most there is nothing to
/// recover.
const TRIED_FOR_EACH: u64 = 8;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recover<'a> {
    /// How often in a row the power fails again.
    pub(crate) again: u64,
    /// From how many crash states recoveries are recorded, each time.
    pub(crate) wanted: u64,
    /// What recovers, if that is not the check: words for a shell.
    pub(crate) command: Option<&'a str>,
    pub(crate) check: &'a Check,
    /// Which crash states there are.
    pub(crate) request: &'a Request,
    pub(crate) interrupt: &'a Interrupt,
}

/// What came of a try to record a recovery.
enum Tried {
    Recorded(Box<Trace>),
    Unchanged,
    NotOk,
    NotFollowed,
}

impl Recover<'_> {
    /// Records what recovers from crashes of a run, each in a directory that `program` makes, and
    /// adds it to the trace. `program` is to be on a thread that does nothing else.
    ///
    /// # Errors
    /// If a state cannot be made or looked at, or the command cannot be started.
    pub(crate) fn record(&self, trace: &mut Trace, program: &mut Program) -> anyhow::Result<()> {
        let mut counts = RecoveryCounts::default();
        let mut first = 0;
        for depth in 0..self.again {
            let parents = trace.recoveries.len();
            let mut found = Vec::new();
            if depth == 0 {
                found = self.of_run(trace, self.wanted, &mut counts, program)?;
            }
            let older = &trace.recoveries[first..parents];
            for (place, parent) in older.iter().enumerate() {
                // Each of those has its part of them.
                let left = self.wanted - found.len() as u64;
                let wanted = left.div_ceil((older.len() - place) as u64);
                found.extend(self.of_run(parent, wanted, &mut counts, program)?);
            }
            first = parents;
            trace.recoveries.extend(found);
        }
        trace.about.recoveries = Some(counts);
        Ok(())
    }

    /// Records so many recoveries from crashes of one run.
    fn of_run(
        &self,
        trace: &Trace,
        wanted: u64,
        counts: &mut RecoveryCounts,
        program: &mut Program,
    ) -> anyhow::Result<Vec<Trace>> {
        let mut found = Vec::new();
        if wanted == 0 {
            return Ok(found);
        }
        let most = wanted.saturating_mul(TRIED_FOR_EACH);
        first_crashes(trace, self.request, most, &mut |crash| {
            let tried = self.of_crash(&crash, program)?;
            if self.interrupt.requested() {
                return Ok(false);
            }
            match tried {
                Tried::Recorded(recovery) => {
                    counts.recorded += 1;
                    found.push(*recovery);
                }
                Tried::Unchanged => counts.unchanged += 1,
                Tried::NotOk => counts.not_ok += 1,
                Tried::NotFollowed => counts.not_followed += 1,
            }
            Ok((found.len() as u64) < wanted)
        })?;
        Ok(found)
    }

    fn of_crash(&self, crash: &FirstCrash, program: &mut Program) -> anyhow::Result<Tried> {
        let state = &crash.state;
        if program.judge(state, false)? != Verdict::Ok {
            return Ok(Tried::NotOk);
        }
        let mut tried = Tried::NotFollowed;
        let held = program.hold(state, |_, data, acks| {
            tried = self.of_directory(data, acks)?;
            Ok(())
        })?;
        held.map_err(anyhow::Error::msg)?;
        if let Tried::Recorded(recovery) = &mut tried {
            let acknowledged = recovery.add(&state.acknowledged);
            recovery.about.recovers = Some(Recovers {
                crashes: crash.crashes.clone(),
                acknowledged,
            });
            // What a second crash leaves is compared with what the recovery leaves alone.
            if program.judge(&undamaged(recovery, &self.request.model)?, false)? != Verdict::Ok {
                return Ok(Tried::NotOk);
            }
        }
        Ok(tried)
    }

    /// Records what recovers the directory of a crash state.
    fn of_directory(&self, data: &Path, acks: &Path) -> anyhow::Result<Tried> {
        let words = match (self.command, &self.check.command) {
            (Some(words), _) => words,
            (None, CheckCommand::Once(words)) => words,
            (None, CheckCommand::Serve(_)) => {
                unreachable!("one that keeps running is refused before")
            }
        };
        let mut command = self.check.command(words, data, acks);
        // What it says of the state it has said before.
        let said = acks.with_file_name("said");
        let said = File::create(&said).with_context(|| format!("create {}", said.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(said.try_clone().context("share its output")?)
            .stderr(said);
        let options = NodeOptions {
            name: PROGRAM.into(),
            directory: Some(data.to_owned()),
            ..NodeOptions::default()
        };
        let deadline = Instant::now() + self.check.limit;
        let cancelled = || self.interrupt.requested() || Instant::now() >= deadline;
        let Some((trace, status)) = record(options, command, &cancelled)? else {
            return Ok(Tried::NotFollowed);
        };
        if !status.success() {
            return Ok(Tried::NotOk);
        }
        let is_change = |action: &Action| matches!(action, Action::File(op) if !op.is_sync());
        let mut events = trace.run.nodes.iter().flat_map(|node| &node.events);
        if !trace.about.not_recorded.is_empty()
            || states::difference(self.request, &trace, data)?.is_some()
        {
            return Ok(Tried::NotFollowed);
        }
        if !events.any(|event| is_change(&event.action)) {
            return Ok(Tried::Unchanged);
        }
        Ok(Tried::Recorded(Box::new(trace)))
    }
}
