//! `crashpoint clean`: removes what a killed run left behind.
//!
//! Only what carries our mark is looked at, and only what belongs to a process that is gone is
//! touched. The ways of removing are such that they fail on what is in use after all: a loop
//! device that is mounted is only told to go with its last user (which it was told when it was
//! attached), a trace instance that is read is busy, and a directory is removed only if it is
//! empty, which the host's side of ours is, or if it was a guest's.

mod mark;
mod mounts;
mod private;
mod process;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use campaign::Outcome;

use block_dev::loop_device::{self, Marked};
use clap::Args;
use machine::Activity;
use nix::mount::{MntFlags, umount2};

use mark::Mark;

/// Those who end by themselves are waited for, but not while none of them wants the processor for
/// so long.
const IDLE_PATIENCE: Duration = Duration::from_secs(10);

/// Nor are those who are busy waited for longer.
const BUSY_PATIENCE: Duration = Duration::from_secs(240);

/// When it takes so long, they are named.
const SILENCE: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The arguments of `crashpoint clean`.
#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Does it.
pub(crate) fn run(arguments: &CleanArgs) -> anyhow::Result<Outcome> {
    let mut clean = Clean {
        dry_run: arguments.dry_run,
        ..Clean::default()
    };
    if nix::unistd::geteuid().is_root() {
        clean.mounts()?;
        wait_for_orphans()?;
        clean.stuck_file_systems()?;
        clean.loop_devices()?;
        clean.trace_instances()?;
    } else {
        campaign::say(
            "without root only directories are looked at: mounts and loop devices are root's",
        );
    }
    clean.directories()?;
    if clean.found == 0 {
        writeln!(io::stdout(), "nothing was left behind")?;
    }
    Ok(clean.outcome())
}

#[derive(Default)]
struct Clean {
    dry_run: bool,
    found: u32,
    has_failed: bool,
}

/// What is done to a leftover, and what is said of it.
struct Action {
    plan: &'static str,
    done: &'static str,
}

const UNMOUNT: Action = Action {
    plan: "unmount",
    done: "unmounted",
};
const ABORT: Action = Action {
    plan: "abort",
    done: "aborted",
};
const DETACH: Action = Action {
    plan: "detach",
    done: "detached",
};
const REMOVE: Action = Action {
    plan: "remove",
    done: "removed",
};

impl Clean {
    /// Does it to one leftover, and says so.
    fn act(
        &mut self,
        action: &Action,
        what: &str,
        act: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        self.found += 1;
        let mut out = io::stdout().lock();
        if self.dry_run {
            return writeln!(out, "would {} {what}", action.plan);
        }
        match act() {
            Ok(()) => writeln!(out, "{} {what}", action.done),
            // Whoever made it, or another one who cleans, was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                writeln!(out, "{what} is gone by itself")
            }
            Err(error) => {
                self.has_failed = true;
                writeln!(out, "could not {} {what}: {error}", action.plan)
            }
        }
    }

    fn outcome(&self) -> Outcome {
        if self.has_failed {
            Outcome::Incomplete
        } else {
            Outcome::Clean
        }
    }

    /// Says why something of ours stays.
    fn leave(&mut self, what: &str, why: &str) -> io::Result<()> {
        self.found += 1;
        writeln!(io::stdout(), "left {what}: {why}")
    }

    /// Mounts in this mount namespace, the innermost first.
    fn mounts(&mut self) -> anyhow::Result<()> {
        for mount in mounts::own()?.into_iter().rev() {
            if mount.mark.is_abandoned() {
                let what = mount.path.display().to_string();
                self.act(&UNMOUNT, &what, || {
                    Ok(umount2(&mount.path, MntFlags::MNT_DETACH)?)
                })?;
            }
        }
        Ok(())
    }

    /// FUSE connections that keep processes of a dead run waiting.
    fn stuck_file_systems(&mut self) -> anyhow::Result<()> {
        let connections = mounts::elsewhere()?.abandoned_connections();
        for number in &connections {
            self.act(&ABORT, &format!("FUSE connection {number}"), || {
                private::abort_connection(*number)
            })?;
        }
        if !connections.is_empty() && !self.dry_run {
            wait_for_orphans()?;
        }
        Ok(())
    }

    fn loop_devices(&mut self) -> anyhow::Result<()> {
        for marked in loop_device::marked()? {
            // Whoever attached it has it open, as have those who look at it.
            if process::anyone_else_has_open(&marked.path)? {
                continue;
            }
            let what = marked.path.display().to_string();
            self.act(&DETACH, &what, || detach(marked))?;
        }
        Ok(())
    }

    fn trace_instances(&mut self) -> anyhow::Result<()> {
        for instance in private::trace_instances()? {
            if instance.is_abandoned() {
                let what = format!("trace instance {}", instance.name);
                self.act(&REMOVE, &what, || {
                    private::remove_trace_instance(&instance.name)
                })?;
            }
        }
        Ok(())
    }

    fn directories(&mut self) -> anyhow::Result<()> {
        let mounts = mounts::elsewhere()?;
        for path in directories()? {
            let Some(mark) = Mark::of_directory(&path) else {
                continue;
            };
            if !mark.is_abandoned() {
                continue;
            }
            let what = path.display().to_string();
            match mounts.user_of(&mark) {
                Some(pid) if pid == mark.owner_pid => {}
                Some(pid) => self.leave(&what, &format!("process {pid} still uses it"))?,
                // A guest's holds files, as does one of crash states, which nobody else had a use
                // for.
                None if machine::is_guest_directory(&path) || node_sweep::is_scratch(&path) => {
                    self.act(&REMOVE, &what, || std::fs::remove_dir_all(&path))?;
                }
                None => self.act(&REMOVE, &what, || std::fs::remove_dir(&path))?,
            }
        }
        Ok(())
    }
}

/// Waits for the processes of dead runs that still have something mounted. A worker whose parent
/// was killed does what it has begun, which takes as long as the machine lets it, then takes down
/// what is its own, and ends.
fn wait_for_orphans() -> anyhow::Result<()> {
    let began = Instant::now();
    let mut activities: HashMap<i32, Activity> = HashMap::new();
    let mut is_told = false;
    while began.elapsed() < BUSY_PATIENCE {
        let pids = mounts::elsewhere()?.orphans();
        let mut idle = |pid: &i32| activities.entry(*pid).or_default().idle(pid.unsigned_abs());
        let idle: Vec<_> = pids.iter().map(&mut idle).collect();
        if idle.iter().all(|idle| *idle > IDLE_PATIENCE) {
            break;
        }
        if !is_told && began.elapsed() > SILENCE {
            let pids: Vec<_> = pids.iter().map(i32::to_string).collect();
            campaign::say(&format!(
                "waiting for what a killed run has begun: process {}",
                pids.join(", ")
            ));
            is_told = true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Detaches a loop device; one that is open elsewhere stays until it is closed.
fn detach(marked: Marked) -> io::Result<()> {
    let path = marked.path.clone();
    marked.detach()?;
    let still_there = loop_device::marked()?.any(|marked| marked.path == path);
    if still_there {
        Err(io::Error::other(
            "it is still in use, and goes with its last user",
        ))
    } else {
        Ok(())
    }
}

/// Everything in the directories for temporary files.
fn directories() -> io::Result<Vec<PathBuf>> {
    let mut parents = vec![
        std::env::temp_dir(),
        PathBuf::from("/tmp"),
        PathBuf::from(machine::MEMORY_DIRECTORY),
    ];
    parents.dedup();
    let mut found = Vec::new();
    for parent in parents {
        let Ok(entries) = std::fs::read_dir(parent) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            // What is gone by now was somebody else's to remove.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_removed_is_no_success() {
        let mut clean = Clean::default();
        clean.act(&REMOVE, "one", || Ok(())).expect("written");
        assert_eq!(clean.outcome(), Outcome::Clean);
        let is_gone = || Err(io::ErrorKind::NotFound.into());
        clean.act(&REMOVE, "a third", is_gone).expect("written");
        assert_eq!(clean.outcome(), Outcome::Clean);
        let fails = || Err(io::ErrorKind::ResourceBusy.into());
        clean.act(&REMOVE, "another", fails).expect("written");
        assert_eq!(clean.outcome(), Outcome::Incomplete);
    }
}
