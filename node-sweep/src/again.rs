//! A crash state of a sweep, made again.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use machine::Logged;
use pace_rules::nodes::{Histories, Spaces};
use trace_store::Trace;

use crate::check::Complaint;
use crate::error::{Context as _, Error, Result};
use crate::finding::Finding;
use crate::findings::Findings;
use crate::mount_slot::MountSlot;
use crate::program::scratch;
use crate::recordings::Recordings;
use crate::recoveries::Recoveries;
use crate::request::{Level, Request};
use crate::states::CrashState;
use crate::sweep::{Broken, Source, Swept, Trees};

/// Which state of a sweep it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The level.
    pub level: Level,
    /// Its index in the space of the level.
    pub state: u64,
}

impl Address {
    pub(crate) fn refuse(self, len: u64) -> Result<()> {
        if self.state >= len {
            return Err(Error::StateBeyond {
                state: self.state,
                len,
            });
        }
        Ok(())
    }
}

/// Makes the state of a finding again, of the sweep that was asked for by `request`.
///
/// # Errors
/// If the sweep has no such state.
pub fn make_finding_again(
    trace: &Trace,
    request: &Request,
    finding: &Finding,
) -> Result<CrashState> {
    let address = finding.address();
    let Some(losses) = finding.losses() else {
        return make_again(trace, request, address);
    };
    let make = |trace: &Trace, state| {
        let spaces = spaces(trace, request, of_calls(state))?;
        let made = Trees::new(trace, &spaces).make_with(state, &losses);
        made.state.map_err(|_| Error::NotShown(state))
    };
    if address.level == Level::Recovery {
        let recoveries = recoveries(trace, request, address)?;
        let (recovery, state) = recoveries.find(address.state);
        return make(recovery.trace, state);
    }
    make(trace, address.state)
}

/// Makes a state again of the sweep that was asked for by `request`.
///
/// # Errors
/// If the sweep has no such state.
pub fn make_again(trace: &Trace, request: &Request, address: Address) -> Result<CrashState> {
    if address.level.is_of_disks() {
        let recordings = recordings(trace, request, address)?;
        let made = recordings.source()?.make(address.state);
        return Ok(made.state.expect("a disk can hold anything"));
    }
    if address.level == Level::Recovery {
        let recoveries = recoveries(trace, request, address)?;
        let (recovery, state) = recoveries.find(address.state);
        return make_again(recovery.trace, request, of_calls(state));
    }
    let spaces = spaces(trace, request, address)?;
    let made = Trees::new(trace, &spaces).make(address.state);
    made.state.map_err(|_| Error::NotShown(address.state))
}

/// What there is to tell of a state, if this was said of it. Nothing is mounted for that.
///
/// # Errors
/// If the sweep has no such state.
pub(crate) fn story(
    trace: &Trace,
    request: &Request,
    address: Address,
    complaint: Complaint,
) -> Result<Finding> {
    if address.level == Level::Recovery {
        let recoveries = recoveries(trace, request, address)?;
        let (recovery, state) = recoveries.find(address.state);
        let told = story(recovery.trace, request, of_calls(state), complaint)?;
        let state = address.state;
        return Ok(Finding { state, ..told });
    }
    let state = make_again(trace, request, address)?;
    let mut swept = Swept::default();
    let broken = Broken::one(address.state, complaint);
    swept.broken.insert(state.key, broken);
    let mut told = if address.level.is_of_disks() {
        recordings(trace, request, address)?.findings(&swept, false)?
    } else {
        let spaces = spaces(trace, request, address)?;
        let told = Findings::new(trace, &spaces, &request.model).of(&swept);
        told.into_iter().map(|(finding, _)| finding).collect()
    };
    Ok(told.pop().expect("one broken state is a finding"))
}

fn spaces(trace: &Trace, request: &Request, address: Address) -> Result<Spaces> {
    let spaces = request.spaces(request.explore_of(trace)?, trace)?;
    address.refuse(spaces.len())?;
    // Rules may be asked of it that the sweep did not ask.
    Ok(match spaces.histories() {
        Histories::Unknown => spaces.with_histories(Histories::Known),
        _ => spaces,
    })
}

fn of_calls(state: u64) -> Address {
    let level = Level::Syscalls;
    Address { level, state }
}

fn recoveries<'a>(
    trace: &'a Trace,
    request: &'a Request,
    address: Address,
) -> Result<Recoveries<'a>> {
    let recoveries = Recoveries::new(trace, request)?;
    address.refuse(recoveries.len())?;
    Ok(recoveries)
}

fn recordings<'a>(trace: &'a Trace, request: &Request, address: Address) -> Result<Recordings<'a>> {
    let recordings = request.disks_at(address.level, request.explore_of(trace)?, trace)?;
    address.refuse(recordings.len())?;
    Ok(recordings)
}

/// Says whether [`keep`] would refuse a directory because of what is in it.
///
/// # Errors
/// If it would.
pub fn refuse_to_keep(directory: &Path) -> Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let mut entries = directory
        .read_dir()
        .doing(|| format!("read {}", directory.display()))?;
    if entries.next().is_some() {
        return Err(Error::NotEmpty(directory.into()));
    }
    Ok(())
}

/// Writes what the nodes of a trace have in a state as directories in `directory`, which must be
/// new or empty, each with the name of its node, and what was acknowledged as a file.
///
/// # Errors
/// If there is something in it, or it cannot be written.
pub fn keep(trace: &Trace, state: &CrashState, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).doing(|| format!("create {}", directory.display()))?;
    refuse_to_keep(directory)?;
    let nodes = trace
        .run
        .nodes
        .iter()
        .filter(|node| !node.initial.is_empty());
    for (node, disk) in nodes.zip(&state.disks) {
        let kept = directory.join(&node.name);
        if let crate::DiskState::Tree(tree) = disk {
            tree.write_to(&kept)
                .doing(|| format!("write {}", kept.display()))?;
            continue;
        }
        let (scratch, mut slot) = (scratch()?, MountSlot::default());
        match slot.put(disk, &scratch.path().join("disk"))? {
            Ok(data) => copy(&data, &kept)?,
            Err(why) => {
                return Err(Error::NotMounted {
                    node: node.name.clone(),
                    why,
                });
            }
        }
    }
    let path = directory.join("acknowledged");
    let written = File::create_new(&path).and_then(|mut file| file.write_all(&state.acknowledged));
    written.doing(|| format!("write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .arg("-a")
        .arg("--")
        .arg(from)
        .arg(to)
        .status_logged()
        .doing(|| "run cp".into())?;
    if !status.success() {
        return Err(Error::NotCopied {
            from: from.into(),
            to: to.into(),
        });
    }
    Ok(())
}
