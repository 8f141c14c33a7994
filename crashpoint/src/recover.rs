//! What a program, the file system of its disk, or a cluster does while it recovers from a crash, on
//! record: the power may fail again then.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, bail};
use brief::counted;
use campaign::Interrupt;
use clap::Args;
use node_sweep::{
    Check, CheckCommand, CrashState, DiskState, FirstCrash, Level, Program, Request, Subject,
    Verdict, first_crashes, first_crashes_of_disks, recoveries_words, undamaged,
};
use recorder::process::{NodeOptions, about_now, files_in, record};
use trace::{Action, Node, Run};
use trace_store::{Before, Disk, Recovers, RecoveryCounts, Trace};

use crate::app::PROGRAM;
use crate::states::{self, VisitArgs};

/// For each recovery that is wanted, so many crash states are tried: of most there is nothing to
/// recover.
const TRIED_FOR_EACH: u64 = 8;

/// So many times in a row the power fails again at most.
const AGAIN_MAX: u64 = 8;

/// Whether the power fails again during recovery.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct AgainArgs {
    /// Have the power fail again during the recovery from a crash, so many times in a row
    ///
    /// The check of a program, or the start of a cluster, is recorded on crash states that the check
    /// finds `ok`: whoever opens what a crash left recovers it. Of a program's disk (--disk), what its
    /// file system writes when it is mounted is recorded too. What a crash leaves of that must be `ok`
    /// as well: it may lose nothing that the first crash had left. With `cluster sweep --live`, the
    /// power fails again while a node recovers, at a request to its disk before it is ready.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=AGAIN_MAX), conflicts_with_all = ["resume", "shard"])]
    again: u64,

    /// With --again: from how many crash states recoveries are recorded, each time, or in how many
    /// recoveries of a live sweep the power fails. States of which nothing is to be recovered do not
    /// count
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..), requires = "again", conflicts_with = "resume")]
    recoveries: u64,
}

impl AgainArgs {
    /// Whether it is asked for.
    pub(crate) fn is_wanted(self) -> bool {
        self.again > 0
    }

    /// How often, and in how many recoveries each time.
    pub(crate) fn wanted(self) -> (u64, u64) {
        (self.again, self.recoveries)
    }

    /// Refuses it for a cluster of which only the disks are looked at.
    ///
    /// # Errors
    /// If that is asked for.
    pub(crate) fn refuse_of_cluster(self, visit: &VisitArgs) -> anyhow::Result<()> {
        if self.is_wanted() && visit.states.level()? == Level::Block {
            bail!(
                "--again records the calls of the nodes while they recover, and --level block looks at none: leave out \
                 one of them"
            );
        }
        Ok(())
    }

    /// Records what recovers from crashes of a run; nothing if somebody interrupts, which is said.
    ///
    /// # Errors
    /// If a state cannot be made or looked at, or nothing be started.
    pub(crate) fn record(
        self,
        trace: &Trace,
        request: &Request,
        who: &mut (dyn Recoverer + Send),
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Recovered>> {
        let bar = Mutex::new(campaign::Progress::of_activity("recoveries"));
        let recover = Recover {
            again: self.again,
            wanted: self.recoveries,
            request,
            interrupt,
            bar: &bar,
        };
        // Who looks at states has its thread see mounts of its own.
        let recorded = std::thread::scope(|scope| {
            let recorded = scope.spawn(|| recover.record(trace, who));
            recorded.join().expect("it does not panic")
        });
        bar.lock().expect("nobody panics with it").finish();
        if interrupt.requested() {
            campaign::say("interrupted: recoveries were being recorded, and nothing was tested");
            return Ok(None);
        }
        let recovered = recorded.context("record a recovery")?;
        campaign::say(&recoveries_words(recovered.counts, recovered.of_disks));
        Ok(Some(recovered))
    }
}

/// What was recorded of recoveries.
pub(crate) struct Recovered {
    all: Vec<Trace>,
    counts: RecoveryCounts,
    /// Whether it is of file systems.
    of_disks: bool,
}

impl Recovered {
    /// Puts it into the trace of the run, in place of what there was.
    pub(crate) fn add_to(self, trace: &mut Trace) {
        let of_disks = self.of_disks;
        trace
            .recoveries
            .retain(|recovery| recovery.disks.is_empty() == of_disks);
        trace.recoveries.extend(self.all);
        let about = &mut trace.about;
        let counts = if of_disks {
            &mut about.disk_recoveries
        } else {
            &mut about.recoveries
        };
        *counts = Some(self.counts);
    }
}

/// Who recovers from crashes.
pub(crate) trait Recoverer {
    /// Whether it recovers disks, and not what a model of a file system left.
    fn is_of_disks(&self) -> bool {
        false
    }

    /// Records what recovers from a crash.
    ///
    /// # Errors
    /// If it cannot be looked at here at all.
    fn recover(&mut self, state: &CrashState) -> anyhow::Result<Tried>;

    /// Whether the check says `ok` of a state.
    ///
    /// # Errors
    /// If it cannot be looked at here at all.
    fn is_ok(&mut self, state: &CrashState) -> anyhow::Result<bool>;
}

/// What came of a try to record a recovery.
pub(crate) enum Tried {
    /// This was recorded.
    Recorded(Box<Trace>),
    /// Nothing was changed.
    Unchanged,
    /// The check does not say `ok`.
    NotOk,
    /// What was recorded is not all.
    NotFollowed,
}

impl Tried {
    /// A recovery that was recorded and ended well.
    pub(crate) fn of(trace: Trace) -> Self {
        let is_change = |action: &Action| matches!(action, Action::File(op) if !op.is_sync());
        let mut events = trace.run.nodes.iter().flat_map(|node| &node.events);
        if !trace.about.not_recorded.is_empty() {
            Self::NotFollowed
        } else if events.any(|event| is_change(&event.action)) {
            Self::Recorded(Box::new(trace))
        } else {
            Self::Unchanged
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
struct Recover<'a> {
    again: u64,
    wanted: u64,
    /// Which crash states there are.
    request: &'a Request,
    interrupt: &'a Interrupt,
    /// Shows that it goes on.
    bar: &'a Mutex<campaign::Progress>,
}

impl Recover<'_> {
    /// Shows how far it is.
    fn tell(&self, counts: RecoveryCounts) {
        let words = tried_words(counts);
        self.bar.lock().expect("nobody panics with it").note(&words);
    }

    fn record(&self, trace: &Trace, who: &mut dyn Recoverer) -> anyhow::Result<Recovered> {
        let mut all = Vec::new();
        let mut counts = RecoveryCounts::default();
        let mut found = self.of_run(trace, self.wanted, &mut counts, who)?;
        for _ in 1..self.again {
            let parents = std::mem::take(&mut found);
            for (place, parent) in parents.iter().enumerate() {
                // Each of those has its part of them.
                let left = self.wanted - found.len() as u64;
                let wanted = left.div_ceil((parents.len() - place) as u64);
                found.extend(self.of_run(parent, wanted, &mut counts, who)?);
            }
            all.extend(parents);
        }
        all.extend(found);
        let of_disks = who.is_of_disks();
        Ok(Recovered {
            all,
            counts,
            of_disks,
        })
    }

    /// Records so many recoveries from crashes of one run.
    fn of_run(
        &self,
        trace: &Trace,
        wanted: u64,
        counts: &mut RecoveryCounts,
        who: &mut dyn Recoverer,
    ) -> anyhow::Result<Vec<Trace>> {
        let mut found = Vec::new();
        if wanted == 0 {
            return Ok(found);
        }
        let most = wanted.saturating_mul(TRIED_FOR_EACH);
        let of_disks = who.is_of_disks();
        let mut visit = |crash| -> anyhow::Result<bool> {
            self.tell(*counts);
            let tried = self.of_crash(crash, counts.recorded, who)?;
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
        };
        if of_disks {
            first_crashes_of_disks(trace, self.request, most, &mut visit)?;
        } else {
            first_crashes(trace, self.request, most, self.interrupt, &mut visit)?;
        }
        Ok(found)
    }

    /// Records the recovery from a crash; it would be the one of this number.
    fn of_crash(
        &self,
        crash: FirstCrash,
        number: u64,
        who: &mut dyn Recoverer,
    ) -> anyhow::Result<Tried> {
        let FirstCrash {
            state,
            crashes,
            acknowledged_by,
        } = crash;
        let mut tried = who.recover(&state)?;
        if let Tried::Recorded(recovery) = &mut tried {
            let acknowledged = recovery.add(&state.acknowledged);
            let past = state.past.as_deref().cloned();
            let number = number as usize;
            recovery.about.recovers = Some(Recovers {
                crashes,
                acknowledged,
                acknowledged_by,
                before: past.map(|past| Before { number, past }),
            });
            // What a second crash leaves is compared with what the recovery leaves alone. Of a disk the
            // check has seen that.
            if !who.is_of_disks() && !who.is_ok(&undamaged(recovery, &self.request.model)?)? {
                return Ok(Tried::NotOk);
            }
        }
        Ok(tried)
    }
}

/// How far the recording of recoveries is.
fn tried_words(counts: RecoveryCounts) -> String {
    let RecoveryCounts {
        recorded,
        unchanged,
        not_ok,
        not_followed,
    } = counts;
    let tried = recorded + unchanged + not_ok + not_followed;
    format!(
        "{} until now, of {} that were tried",
        counted(recorded, "recovery"),
        counted(tried, "crash state")
    )
}

/// A program, and the command that recovers what it left.
pub(crate) struct OfProgram<'a> {
    /// Makes the directories of crash states.
    pub(crate) program: Program,
    /// What recovers, if that is not the check: words for a shell.
    pub(crate) command: Option<&'a str>,
    pub(crate) check: &'a Check,
    pub(crate) request: &'a Request,
}

impl Recoverer for OfProgram<'_> {
    fn recover(&mut self, state: &CrashState) -> anyhow::Result<Tried> {
        if !self.is_ok(state)? {
            return Ok(Tried::NotOk);
        }
        let (command, check, request) = (self.command, self.check, self.request);
        let mut tried = Tried::NotFollowed;
        let held = self.program.hold(state, |_, data, acks| {
            let of_directory = of_directory(command, check, request, data, acks);
            // A check may remove what it is given: of what is not there nothing is to be recorded.
            tried = match of_directory {
                Err(_) if !data.is_dir() => Tried::NotFollowed,
                other => other?,
            };
            anyhow::Ok(())
        })?;
        held.map_err(anyhow::Error::msg)?;
        Ok(tried)
    }

    fn is_ok(&mut self, state: &CrashState) -> anyhow::Result<bool> {
        Ok(self.program.judge(state, false)? == Verdict::Ok)
    }
}

/// The file system of a program's disk.
pub(crate) struct OfDisk<'a> {
    /// Makes the directories of crash states.
    pub(crate) program: Program,
    /// The disk, whose file system recovers.
    pub(crate) disk: &'a Disk,
    /// Where copies of it are mounted.
    pub(crate) directory: &'a Path,
}

impl Recoverer for OfDisk<'_> {
    fn is_of_disks(&self) -> bool {
        true
    }

    fn recover(&mut self, state: &CrashState) -> anyhow::Result<Tried> {
        if !self.is_ok(state)? {
            return Ok(Tried::NotOk);
        }
        let [DiskState::Disk(crashed)] = &*state.disks else {
            bail!("the state of a program's disk is no disk");
        };
        let scratch = tempfile::tempdir_in(self.directory).context("make a directory")?;
        let (file_system, of) = (&self.disk.file_system, &self.disk.directory);
        let disk = cluster::Disk::recovered(file_system, &crashed.content, scratch.path())?;
        // What is first read may be put in order only then.
        let (initial, data) = files_in(&disk.mount_point().join(of))?;
        disk.sync()?;
        let disk = disk.finish()?;
        if disk.log.is_empty() {
            return Ok(Tried::Unchanged);
        }
        let node = Node {
            name: PROGRAM.into(),
            initial,
            events: Vec::new(),
        };
        let recovery = Trace {
            run: Run { nodes: vec![node] },
            data,
            disks: [(PROGRAM.to_owned(), disk)].into(),
            about: about_now(),
            ..Trace::default()
        };
        Ok(Tried::Recorded(Box::new(recovery)))
    }

    fn is_ok(&mut self, state: &CrashState) -> anyhow::Result<bool> {
        Ok(self.program.judge(state, false)? == Verdict::Ok)
    }
}

/// Records what recovers the directory of a crash state.
fn of_directory(
    command: Option<&str>,
    check: &Check,
    request: &Request,
    data: &Path,
    acks: &Path,
) -> anyhow::Result<Tried> {
    let command = recovering(command, check, data, acks)?;
    let options = NodeOptions {
        name: PROGRAM.into(),
        directory: Some(data.to_owned()),
        ..NodeOptions::default()
    };
    let deadline = Instant::now() + check.limit;
    let cancelled = |_| check.interrupt.requested() || Instant::now() >= deadline;
    let Some((trace, status)) = record(options, command, &cancelled)? else {
        return Ok(Tried::NotFollowed);
    };
    if !status.success() {
        return Ok(Tried::NotOk);
    }
    if states::difference(request, &trace, data)?.is_some() {
        return Ok(Tried::NotFollowed);
    }
    Ok(Tried::of(trace))
}

/// What recovers the directory of a crash state: a command of its own, or the check.
fn recovering(
    command: Option<&str>,
    check: &Check,
    data: &Path,
    acks: &Path,
) -> anyhow::Result<Command> {
    let words = match (command, &check.command) {
        (Some(words), _) => words,
        (None, CheckCommand::Once(words)) => words,
        (None, CheckCommand::Serve(_)) => {
            unreachable!("one that keeps running is refused before")
        }
    };
    let mut command = check.command(words, data, acks);
    // What it says of the state it has said before.
    let said = acks.with_file_name("said");
    let said = File::create(&said).with_context(|| format!("create {}", said.display()))?;
    command
        .stdin(Stdio::null())
        .stdout(said.try_clone().context("share its output")?)
        .stderr(said);
    Ok(command)
}
