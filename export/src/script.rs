//! A plain shell script: a loop device over a file, and a copy of that file when the power fails.

use checker::Promise;
use local_fs::FileSystem;

use crate::checks::Checks;
use crate::commands::{Commands, Dialect, Need, quoted};
use crate::{Crash, NotExpressible};

/// What the script does when it is started by a user: it tries in mounts of its own. A file system
/// saves by itself what is some seconds old, and whatever else another program's sync(2) finds: on
/// a busy machine the first try may see nothing.
const AGAIN: &str = r#"if [ -z "${ALONE:-}" ]; then
    # What another program syncs is not lost: then it is tried again.
    for _ in 1 2 3 4 5; do
        status=0
        ALONE=yes unshare --mount sh "$0" || status=$?
        [ "$status" -eq 0 ] || exit "$status"
    done
    exit 0
fi

"#;

const SHELL: Dialect = Dialect {
    mount: "$mnt",
    quotes: true,
    xfs_io: "xfs_io",
    setfattr: "setfattr",
    silent: ">/dev/null",
    sync: "sync -f \"$mnt\"",
    renameat2: None,
};

/// The crash as a script for sh, which needs root. It exits with 0 if what was found does not
/// happen there, 1 if it does, 2 if it could not be tried.
///
/// # Errors
/// If the disk had not kept everything that was written, which a copy of a file cannot show, or
/// for an operation that no program does.
pub fn script(crash: &Crash<'_>) -> Result<String, NotExpressible> {
    if !crash.is_prefix() {
        return Err(NotExpressible::new(
            "a disk that lost writes, or a crash within an operation",
            "a script can only copy what was written when an operation has returned: export it as fstests",
        ));
    }
    if !crash.findings.is_empty()
        && crash
            .findings
            .iter()
            .all(|finding| finding.promise == Promise::KernelQuiet)
    {
        let why = "a script does not read the kernel's log: export it as fstests, which does";
        return Err(NotExpressible::new(&crash.findings[0].what, why));
    }
    let row = crash.variant.file_system;
    if row.driver.is_some() {
        return Err(NotExpressible::new(
            row.name,
            "a script mounts what the kernel has, not a driver",
        ));
    }
    let mut commands = Commands::new(SHELL).with_idle(crash.idle_renames()?);
    let (setup, run) = crash.operations();
    for (number, op) in setup.iter().enumerate() {
        commands.op(number, op)?;
    }
    if !setup.is_empty() {
        commands.raw(SHELL.sync);
        commands.raw("");
    }
    for (number, op) in run.iter().enumerate() {
        commands.op(setup.len() + number, op)?;
    }
    let checks = Checks::of(crash, SHELL, "getfattr")?;
    Ok(text(crash, &commands, &checks))
}

fn text(crash: &Crash<'_>, commands: &Commands, checks: &Checks) -> String {
    let mut text = header(crash, commands);
    text += "\n# What is done before the power fails.\n";
    text.extend(commands.lines.iter().map(|line| format!("{line}\n")));
    let mut same = String::new();
    same.extend(checks.same.iter().map(|line| format!("    {line}\n")));
    if !same.is_empty() {
        text += "\n# What must be the same afterwards.\nstate() {\n";
        text += &same;
        text += "}\nstate >\"$work/before\"\n";
    }
    text += "\n# The power fails: the file holds what has reached the disk. What changed while it was copied\n";
    text += "# was not there all at once: then it is copied again.\n";
    text += "cp --sparse=always \"$work/disk\" \"$work/crashed\"\n";
    text += "until cmp -s \"$work/disk\" \"$work/crashed\"; do\n";
    text += "    cp --sparse=always \"$work/disk\" \"$work/crashed\"\ndone\n";
    for descriptor in commands.open() {
        text += &format!("exec {descriptor}<&-\n");
    }
    text += "umount \"$mnt\"\n";
    if let Some(repair) = crash.variant.file_system.repair {
        let name = repair.program.name;
        text += &format!(
            "{name} {} \"$work/crashed\" >\"$work/repair\" 2>&1 || :\n",
            repair.program.arguments.join(" ")
        );
    }
    text += &format!(
        "{} \"$work/crashed\" \"$mnt\" || {{ found 'it cannot be mounted'; finish; }}\n\n",
        mount(crash)
    );
    for (condition, else_say) in &checks.conditions {
        text += &format!("{{ {condition}; }} || found '{else_say}'\n");
    }
    if !same.is_empty() {
        text += "state >\"$work/after\" 2>&1 || :\n";
        text += "diff \"$work/before\" \"$work/after\" || found 'it is not what it was (<), but something else (>)'\n";
    }
    if checks.removable {
        text +=
            "find \"$mnt\" -mindepth 1 -xdev -delete || found 'not everything can be removed'\n";
    }
    text += "umount \"$mnt\"\n";
    text += &fsck(crash);
    text + "finish\n"
}

/// Has the file system's checker look, if it has one.
fn fsck(crash: &Crash<'_>) -> String {
    let Some(fsck) = crash.variant.file_system.fsck else {
        return String::new();
    };
    let name = fsck.program.name;
    let words = [&[name], fsck.program.arguments].concat().join(" ");
    format!(
        "{words} \"$work/crashed\" >\"$work/fsck\" 2>&1 || {{ cat \"$work/fsck\"; found '{name} is not satisfied'; }}\n"
    )
}

fn header(crash: &Crash<'_>, commands: &Commands) -> String {
    let variant = crash.variant;
    let row = variant.file_system;
    let mut text = "#!/bin/sh\n".to_owned();
    if crash.findings.is_empty() {
        text += &format!("# Whether {variant} keeps what it promises when the power fails.\n");
    }
    text += &comments(crash);
    text += "#\n# It needs root. Exit status: 0 it does not happen here, 1 it does, 2 it could not be tried.\n";
    text += &format!(
        "set -eu\n\nPATH=$PATH:/usr/sbin:/sbin\nfor program in {}; do\n",
        programs(row, commands)
    );
    text += "    command -v $program >/dev/null || { echo \"error: there is no $program\" >&2; exit 2; }\ndone\n";
    text += "[ \"$(id -u)\" -eq 0 ] || { echo 'error: root is needed to mount file systems' >&2; exit 2; }\n\n";
    text += "# What is mounted here nobody else sees, nor keeps.\n";
    text += "[ -f \"$0\" ] || { echo 'error: it starts itself again: run it from a file' >&2; exit 2; }\n";
    text += AGAIN;
    text += "umask 022\nwork=$(mktemp -d)\nmnt=$work/mnt\nstatus=2\nseen=0\n";
    text += "clean_up() {\n    cd /\n    umount \"$mnt\" 2>/dev/null || :\n    rm -rf \"$work\"\n    exit $status\n}\n";
    text += "trap clean_up EXIT\ntrap 'exit 2' HUP INT TERM\n";
    text +=
        "found() {\n    echo \"$1\"\n    seen=1\n}\nfinish() {\n    status=$seen\n    exit\n}\n\n";
    let words = |list: &[String]| {
        list.iter()
            .map(|word| format!(" {}", quoted(word)))
            .collect::<Vec<_>>()
            .concat()
    };
    let arguments = row
        .mkfs
        .arguments
        .iter()
        .map(|argument| format!(" {argument}"))
        .collect::<Vec<_>>()
        .concat();
    text += &format!("truncate -s {}M \"$work/disk\"\n", variant.size_bytes >> 20);
    text += &format!(
        "{}{arguments}{} \"$work/disk\" >/dev/null\n",
        row.mkfs.name,
        words(&variant.mkfs_options)
    );
    text + &format!("mkdir \"$mnt\"\n{} \"$work/disk\" \"$mnt\"\n", mount(crash))
}

/// What was found, in comments.
fn comments(crash: &Crash<'_>) -> String {
    let mut text = String::new();
    for finding in crash.findings {
        let place = match finding.path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        };
        text += &comment(&format!(
            "{} of Linux {}, after a power failure: {place}{}",
            crash.variant, crash.kernel, finding.what
        ));
        text += &comment(&format!("Promised: {}.", finding.promise.words()));
    }
    text
}

fn mount(crash: &Crash<'_>) -> String {
    let own = crash
        .variant
        .file_system
        .mount_options
        .iter()
        .map(|option| (*option).to_owned());
    let options: Vec<_> = own
        .chain(crash.variant.mount_options.iter().cloned())
        .collect();
    let options = ["loop", "noatime"]
        .into_iter()
        .map(str::to_owned)
        .chain(options)
        .collect::<Vec<_>>()
        .join(",");
    format!(
        "mount -t {} -o {}",
        crash.variant.file_system.name,
        quoted(&options)
    )
}

fn programs(row: &FileSystem, commands: &Commands) -> String {
    let mut programs = vec!["unshare", row.mkfs.name];
    programs.extend(row.fsck.map(|fsck| fsck.program.name));
    programs.extend(row.repair.map(|repair| repair.program.name));
    if commands.lines.iter().any(|line| line.contains("xfs_io ")) {
        programs.push("xfs_io");
    }
    if commands.needs.contains(&Need::Attributes) {
        programs.extend(["setfattr", "getfattr"]);
    }
    programs.dedup();
    programs.join(" ")
}

/// Lines of a comment, broken between words.
pub(crate) fn comment(text: &str) -> String {
    const COLUMNS: usize = 78;
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if last.len() + word.len() >= COLUMNS && last.len() > 1 {
            lines.push(format!("# {word}"));
        } else {
            *last += &format!(" {word}");
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}
