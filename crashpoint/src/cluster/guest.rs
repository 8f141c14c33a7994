//! What is done with the trace of a cluster by somebody who is not root: in a guest, where he is.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Interrupt, MANIFEST, Outcome, one_line, say};
use local_fs::enter_mount_namespace;
use machine::{GuestCommand, Uml};
use node_sweep::{Judge, Results};

use crate::machine::{Interrupted, guest_command, run_command};

/// What the nodes, and all that they write, have room in.
const MEMORY_MIB: u64 = 2048;

/// We have no other status. What has another one was killed.
const STATUS_MAX: i32 = 3;

/// What a sweep is told: a guest has one processor.
const ONE_JOB: [&str; 2] = ["--jobs", "1"];

/// The variables of the environment that are a guest's own.
const OF_THE_GUEST: [&str; 6] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "LD_PRELOAD",
    "CRASHPOINT_GUEST_PRELOAD",
];

/// Begins a sweep of a trace in a guest; nothing if it can be made here.
pub(super) fn begin(
    trace: &Path,
    out: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let Some(guest) = TraceGuest::if_needed()? else {
        return Ok(None);
    };
    // It is there before it is shared, and no other sweep's: the lock of a guest is seen in it only.
    let reserved = out.map(Results::reserve).transpose();
    let reserved = reserved.context("begin the results")?;
    let shared: Vec<_> = [Some(trace), out].into_iter().flatten().collect();
    let outcome = guest.run_again(&ONE_JOB, &shared, interrupt);
    if let Some(reserved) = reserved.filter(|reserved| !reserved.join(MANIFEST).exists()) {
        reserved.remove_if_new();
    }
    outcome.map(Some)
}

/// Continues a sweep in a guest; nothing if that can be done here.
pub(super) fn resume(directory: &Path, interrupt: &Interrupt) -> anyhow::Result<Option<Outcome>> {
    if nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    // What is finished is only printed. What is not is no other sweep's until the end.
    let opened = Results::open(directory)?.0;
    if opened.is_finished() || opened.manifest().request.judge != Judge::Cluster {
        return Ok(None);
    }
    let Some(guest) = TraceGuest::if_needed()? else {
        return Ok(None);
    };
    guest.run_again(&ONE_JOB, &[directory], interrupt).map(Some)
}

/// A guest for what is done with a trace.
pub(crate) struct TraceGuest(Uml);

impl TraceGuest {
    /// One, if it takes one: who is not root can make no mounts.
    pub(crate) fn if_needed() -> anyhow::Result<Option<Self>> {
        if nix::unistd::geteuid().is_root() {
            return Ok(None);
        }
        let Err(refused) = enter_mount_namespace() else {
            return Ok(None);
        };
        let Ok(mut kernel) = Uml::find_virtual(None, None, 0) else {
            bail!(
                "{}; with a kernel of scripts/build-uml.sh this runs in a guest by itself",
                one_line(&refused)
            );
        };
        // Clusters wait for one another, and their checks have limits, in the time of everybody.
        kernel.virtual_time = None;
        kernel.memory_mib = MEMORY_MIB;
        Ok(Some(Self(kernel)))
    }

    /// Has a finding made again, by `replay` or `minimize`, which may write to the directory `keep`.
    pub(crate) fn find_again(
        &self,
        results: &Path,
        keep: Option<&Path>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        if let Some(keep) = keep {
            // It is there before it is shared.
            std::fs::create_dir_all(keep).with_context(|| format!("create {}", keep.display()))?;
        }
        let shared: Vec<_> = [Some(results), keep].into_iter().flatten().collect();
        self.run_again(&[], &shared, interrupt)
    }

    /// Runs this program as it was called, with more options. There it may write to these
    /// directories.
    fn run_again(
        &self,
        options: &[&str],
        shared: &[&Path],
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        say("not root: this runs in a guest");
        let shared: Vec<PathBuf> = shared.iter().map(|path| (*path).to_owned()).collect();
        let command = GuestCommand {
            environment: environment(),
            ..guest_command(words(options)?, &shared)?
        };
        let ended = run_command(&self.0, command, Interrupted::Ask, interrupt)?;
        if ended.as_ref().is_some_and(|ended| ended.is_out_of_memory) {
            bail!(
                "its guest ran out of {MEMORY_MIB} MiB of memory and ended a process: what is said above may come from that; run it as root, or with `crashpoint machine --memory`"
            );
        }
        match ended.map(|ended| ended.status) {
            Some(status @ 0..=STATUS_MAX) => Ok(Outcome::Command(status as u8)),
            // It had not begun to look for that.
            Some(_) if interrupt.requested() => Ok(Outcome::Incomplete),
            Some(status) => bail!(
                "it ended with status {status} in its guest, which has {MEMORY_MIB} MiB of memory"
            ),
            None => Ok(Outcome::Incomplete),
        }
    }
}

/// The variables that are the user's.
fn environment() -> Vec<(OsString, OsString)> {
    let is_passed_on = |name: &OsStr| !OF_THE_GUEST.iter().any(|own| name == *own);
    std::env::vars_os()
        .filter(|(name, _)| is_passed_on(name))
        .collect()
}

/// How this program was called, with more options.
fn words(options: &[&str]) -> anyhow::Result<Vec<OsString>> {
    let program = std::env::current_exe().context("find this program")?;
    let mut words = vec![program.into_os_string()];
    words.extend(std::env::args_os().skip(1));
    let end = words.iter().position(|word| word == "--");
    let end = end.unwrap_or(words.len());
    words.splice(end..end, options.iter().map(OsString::from));
    Ok(words)
}
