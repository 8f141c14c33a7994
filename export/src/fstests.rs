//! A case of fstests, the regression tests of Linux's file systems.
//!
//! What had reached the disk when an operation returned is what dm-flakey leaves when it drops all
//! that comes later. Less than that is what dm-log-writes has logged before a mark: its log has
//! only what was flushed. What else a disk may lose neither can make: then every beginning of the
//! log from there on is looked at.

use std::time::{SystemTime, UNIX_EPOCH};

use checker::Finding;
use pace_rules::disk::Relaxation;
use workloads::Op;

use crate::checks::Checks;
use crate::commands::{Commands, Dialect, Need};
use crate::script::comment;
use crate::{Crash, NotExpressible};

const FSTESTS: Dialect = Dialect {
    mount: "$SCRATCH_MNT",
    quotes: false,
    xfs_io: "$XFS_IO_PROG",
    setfattr: "$SETFATTR_PROG",
    silent: ">>$seqres.full",
    sync: "_scratch_sync",
    renameat2: Some("$here/src/renameat2"),
};

/// What a case prints.
const SILENCE: &str = "Silence is golden";

/// A case and what it is expected to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The directory of `tests` where it belongs: `generic`, or the name of a file system.
    pub directory: String,
    /// The script, without its number in the file name.
    pub test: String,
    /// The file `.out`.
    pub out: String,
}

/// Which device makes the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Flakey,
    /// What was flushed at a mark.
    LogAtMark,
    /// Every entry after a mark.
    LogBehindMark,
}

impl Way {
    fn of(crash: &Crash<'_>) -> Self {
        match crash.relaxation {
            _ if crash.is_prefix() => Self::Flakey,
            Relaxation::Flushed if !crash.under_way => Self::LogAtMark,
            _ => Self::LogBehindMark,
        }
    }
}

/// The crash as case `number` of fstests.
///
/// # Errors
/// For an operation that no program of fstests does.
pub fn fstests(crash: &Crash<'_>, number: &str) -> Result<Case, NotExpressible> {
    let row = crash.variant.file_system;
    if row.driver.is_some() || row.repair.is_some() {
        return Err(NotExpressible::new(
            row.name,
            "fstests has no cases of what has no log and must be repaired",
        ));
    }
    let way = Way::of(crash);
    let mut commands = Commands::new(FSTESTS).with_idle(crash.idle_renames()?);
    let (setup, run) = crash.operations();
    set_up(&mut commands, &setup)?;
    let checks = Checks::of(crash, FSTESTS, "$GETFATTR_PROG")?;
    for (place, op) in run.iter().enumerate() {
        if crash.under_way && place + 1 == run.len() {
            mark(&mut commands, &checks);
        }
        commands.op(setup.len() + place, op)?;
    }
    if way != Way::Flakey && !crash.under_way {
        mark(&mut commands, &checks);
    }
    let test = head(crash, number, way, &commands) + &body(crash, way, &commands, &checks);
    let directory = if crash.is_general() {
        "generic"
    } else {
        row.name
    };
    Ok(Case {
        directory: directory.into(),
        test,
        out: format!("QA output created by {number}\n{SILENCE}\n"),
    })
}

/// Does what is durable before anything can be lost.
fn set_up(commands: &mut Commands, setup: &[&Op]) -> Result<(), NotExpressible> {
    for (place, op) in setup.iter().enumerate() {
        commands.op(place, op)?;
    }
    if !setup.is_empty() {
        commands.raw("");
        commands.raw("# All of this is durable.");
        commands.raw(FSTESTS.sync);
        commands.raw("");
    }
    Ok(())
}

/// Notes the state, and where that is in the log.
fn mark(commands: &mut Commands, checks: &Checks) {
    commands.raw("");
    if !checks.same.is_empty() {
        commands.raw("_state | _filter_scratch >$tmp.before");
    }
    commands.raw("_log_writes_mark crash");
}

fn year() -> u64 {
    const YEAR_S: u64 = 31_556_952;
    1970 + SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
        / YEAR_S
}

fn head(crash: &Crash<'_>, number: &str, way: Way, commands: &Commands) -> String {
    let mut text = "#! /bin/bash\n# SPDX-License-Identifier: GPL-2.0\n".to_owned();
    text += &format!(
        "# Copyright (c) {} The Crashpoint contributors.\n#\n# FS QA Test No. {number}\n#\n",
        year()
    );
    text += &about(crash, way);
    let groups: Vec<_> = ["auto", "quick", "log"]
        .into_iter()
        .chain(groups(commands))
        .collect();
    text += &format!(
        "#\n. ./common/preamble\n_begin_fstest {}\n\n",
        groups.join(" ")
    );
    text += "_cleanup()\n{\n";
    text += match way {
        Way::Flakey => "\t_cleanup_flakey\n",
        _ => "\t_log_writes_cleanup &> /dev/null\n\t_dmthin_cleanup\n",
    };
    text += "\tcd /\n\trm -r -f $tmp.*\n}\n\n. ./common/filter\n";
    if commands.needs.contains(&Need::Attributes) {
        text += ". ./common/attr\n";
    }
    if commands.needs.contains(&Need::Reflink) {
        text += ". ./common/reflink\n";
    }
    if commands
        .needs
        .iter()
        .any(|need| matches!(need, Need::Rename(_)))
    {
        text += ". ./common/renameat2\n";
    }
    text += match way {
        Way::Flakey => ". ./common/dmflakey\n\n_require_scratch\n_require_dm_target flakey\n",
        _ => {
            ". ./common/dmthin\n. ./common/dmlogwrites\n\n_require_no_logdev\n_require_scratch_nocheck\n_require_log_writes\n_require_dm_target thin-pool\n"
        }
    };
    text + &commands
        .needs
        .iter()
        .map(|need| format!("{}\n", requirement(*need)))
        .collect::<Vec<_>>()
        .concat()
}

/// What the case is about.
fn about(crash: &Crash<'_>, way: Way) -> String {
    let mut text = String::new();
    let mut told: Vec<&Finding> = Vec::new();
    for finding in crash.findings {
        if !told.iter().any(|other| other.promise == finding.promise) {
            text += &comment(&format!(
                "Test that after a power failure {}.",
                finding.promise.words()
            ));
            told.push(finding);
        }
    }
    if crash.findings.is_empty() {
        text += "# Test that what was made durable is there after a power failure.\n";
    }
    if let Some(finding) = crash.findings.first() {
        let place = if finding.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", finding.path)
        };
        let seen = format!(
            "On {} of Linux {} it was not so: {place}{}.",
            crash.variant, crash.kernel, finding.what
        );
        text += &comment(&seen);
    }
    if way == Way::LogBehindMark {
        text += &comment(
            "The disk may have kept any part of what was not flushed. Here all that it may have kept in the order of the log is looked at.",
        );
    }
    text
}

fn groups(commands: &Commands) -> Vec<&'static str> {
    let mut groups: Vec<_> = commands
        .needs
        .iter()
        .filter_map(|need| match need {
            Need::Io("falloc", _) => Some("prealloc"),
            Need::Io("fpunch", _) => Some("punch"),
            Need::Io("fzero", _) => Some("zero"),
            Need::Io("fcollapse", _) => Some("collapse"),
            Need::Io("finsert", _) => Some("insert"),
            Need::Io("funshare", _) => Some("unshare"),
            Need::Attributes => Some("attr"),
            Need::Reflink => Some("clone"),
            Need::Rename(_) => Some("rename"),
            _ => None,
        })
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn requirement(need: Need) -> String {
    match need {
        Need::Io(command, "") => format!("_require_xfs_io_command \"{command}\""),
        Need::Io(command, argument) => {
            format!("_require_xfs_io_command \"{command}\" \"{argument}\"")
        }
        Need::Attributes => "_require_attrs".into(),
        Need::Rename(flag) => format!("_require_renameat2 {flag}"),
        Need::Reflink => "_require_scratch_reflink".into(),
        Need::Hardlinks => "_require_hardlinks".into(),
        Need::Symlinks => "_require_symlinks".into(),
        Need::Mknod => "_require_mknod".into(),
        Need::DirectIo => "_require_odirect".into(),
    }
}

fn body(crash: &Crash<'_>, way: Way, commands: &Commands, checks: &Checks) -> String {
    let mut text = String::from("\n");
    let mkfs = crash
        .variant
        .mkfs_options
        .iter()
        .map(|option| format!(" {option}"))
        .collect::<Vec<_>>()
        .concat();
    let options = crash.variant.mount_options.join(",");
    if !options.is_empty() {
        text += &format!("export MOUNT_OPTIONS=\"$MOUNT_OPTIONS -o {options}\"\n");
    }
    text += &match way {
        Way::Flakey => format!(
            "_scratch_mkfs{mkfs} >>$seqres.full 2>&1 || _fail \"mkfs failed\"\n\
             _require_metadata_journaling $SCRATCH_DEV\n_init_flakey\n_scratch_mount\n"
        ),
        _ => thin_pool(crash, &mkfs),
    };
    if !checks.same.is_empty() {
        text += "\n# What must be the same before and after the power failure.\n_state()\n{\n";
        text += &indented("\t", &checks.same);
        text += "}\n";
    }
    text += "\n";
    text += &indented("", &commands.lines);
    if way == Way::Flakey && !checks.same.is_empty() {
        text += "\n_state | _filter_scratch >$tmp.before\n";
    }
    text += "\n";
    text += &match way {
        Way::Flakey => flakey(commands, checks),
        Way::LogAtMark => {
            format!(
                "# What had not been flushed by then is lost.\n{}_log_writes_unmount\n_log_writes_remove\n\
                 _log_writes_replay_log crash $DMTHIN_VOL_DEV\n_dmthin_mount\n\n{}\n_unmount $SCRATCH_MNT\n_dmthin_check_fs\n",
                close(commands),
                checks_text(checks, "")
            )
        }
        Way::LogBehindMark => {
            format!(
                "{}_log_writes_unmount\n_log_writes_remove\n\n\
                 cur=$(_log_writes_mark_to_entry_number crash)\nend=$(_log_writes_mark_to_entry_number dm-log-writes-end)\n\
                 [ -n \"$cur\" ] && [ -n \"$end\" ] || _fail \"failed to locate the marks\"\n\
                 while [ $cur -le $end ]; do\n\t_log_writes_replay_log_range $cur $DMTHIN_VOL_DEV\n\t_dmthin_mount\n{}\
                 \t_unmount $SCRATCH_MNT\n\t_dmthin_check_fs\n\tcur=$((cur + 1))\ndone\n",
                close(commands),
                checks_text(checks, "\t")
            )
        }
    };
    text + &format!("\necho \"{SILENCE}\"\n_exit 0\n")
}

fn indented(indent: &str, lines: &[String]) -> String {
    let lines = lines.iter().map(|line| format!("{indent}{line}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// A thin pool, of which what is not written reads as zeros when the log is replayed.
fn thin_pool(crash: &Crash<'_>, mkfs: &str) -> String {
    let size_mib = (crash.variant.size_bytes >> 20).max(300);
    format!(
        "_test_unmount\nsectors=$((2 * 1024 * $(_small_fs_size_mb {size_mib})))\n\
         # Clusters of 64 KiB, and a low water mark of 1 MiB.\n_dmthin_init $sectors $sectors 128 2048\n\
         _log_writes_init $DMTHIN_VOL_DEV\n_log_writes_mkfs{mkfs} >>$seqres.full 2>&1\n_log_writes_mount\n"
    )
}

fn close(commands: &Commands) -> String {
    commands
        .open()
        .map(|descriptor| format!("exec {descriptor}<&-\n"))
        .collect::<Vec<_>>()
        .concat()
}

fn flakey(commands: &Commands, checks: &Checks) -> String {
    let open = close(commands);
    let mut text = if open.is_empty() {
        "# The power fails.\n_flakey_drop_and_remount\n\n".to_owned()
    } else {
        format!(
            "# The power fails, with files open.\n_load_flakey_table $FLAKEY_DROP_WRITES\n{open}_scratch_unmount\n\
             _load_flakey_table $FLAKEY_ALLOW_WRITES\n_scratch_mount\n\n"
        )
    };
    text += &checks_text(checks, "");
    text + "\n_scratch_unmount\n"
}

fn checks_text(checks: &Checks, indent: &str) -> String {
    let mut text = String::new();
    for (condition, else_say) in &checks.conditions {
        text += &format!("{indent}{{ {condition}; }} || echo \"{else_say}\"\n");
    }
    if !checks.same.is_empty() {
        text += &format!(
            "{indent}_state | _filter_scratch >$tmp.after\n{indent}diff $tmp.before $tmp.after\n"
        );
    }
    if checks.removable {
        text += &format!(
            "{indent}# Everything can be removed.\n{indent}find $SCRATCH_MNT -mindepth 1 -xdev -delete\n"
        );
    }
    text
}
