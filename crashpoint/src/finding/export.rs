//! `crashpoint export`: a finding as a test for others.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome};
use clap::{Args, Command, ValueEnum};
use export::{Case, Crash};
use node_sweep::Recorded;
use replayer::{Found, FoundWhat, KernelChoice};
use workloads::{Op, Step, Workload};

use super::states::State;
use super::{Named, Opened};

/// The name of a case without a file.
const UNNUMBERED: &str = "999";

/// The arguments of `crashpoint export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    named: Named,

    /// As what
    #[arg(long = "as", value_name = "FORM", value_enum)]
    form: Form,

    /// Where to write it [default: standard output]. A case of fstests is two files, FILE and
    /// FILE.out, and FILE ends with its number; on standard output it is a patch
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A case of fstests, for dm-flakey or dm-log-writes
    Fstests,
    /// CrashMonkey's language
    Jlang,
    /// A shell script: for a loop device; of a program or a cluster, with the directories of its crash
    /// state
    Script,
}

/// Does it.
pub(crate) fn export(
    arguments: &ExportArgs,
    fs: &Command,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    if let Some(recorded) = Recorded::read(&arguments.named.results)? {
        if arguments.form != Form::Script {
            bail!("a finding of a program or a cluster is exported as a script: --as script");
        }
        let state = State {
            directory: &arguments.named.results,
            recorded,
            number: arguments.named.number,
        };
        write_one(&state.script(interrupt)?, arguments.out.as_deref(), 0o755)?;
        return Ok(Outcome::Clean);
    }
    let opened = arguments.named.open(fs)?;
    let found = &opened.found;
    let FoundWhat::State(state) = &found.what else {
        bail!(
            "finding {} is a kernel that died, which has no crash state: export another",
            found.number
        );
    };
    if !state.again.is_empty() {
        bail!(
            "in finding {} the power fails again while the file system recovers, which no form of export can do: \
             `crashpoint replay` mounts it",
            found.number
        );
    }
    let crash = Crash {
        variant: &found.variant,
        workload: &found.workload,
        operations_done: state.operations_done as usize,
        under_way: state.under_way,
        relaxation: &state.state.relaxation,
        findings: &state.findings,
        kernel: &opened.kernel.release,
    };
    if opened.sweep.disk != replayer::DiskKind::default() {
        campaign::say(&format!(
            "found on a disk that was {}: on an honest one it may not come",
            opened.sweep.disk
        ));
    }
    arguments
        .write(&opened, &crash)
        .with_context(|| format!("export finding {}", found.number))?;
    Ok(Outcome::Clean)
}

impl ExportArgs {
    /// Writes a crash in the form that is asked for.
    fn write(&self, opened: &Opened, crash: &Crash<'_>) -> anyhow::Result<()> {
        let output = self.out.as_deref();
        match self.form {
            Form::Fstests => {
                let name = output.and_then(Path::file_name);
                let name = name.and_then(|name| name.to_str()).unwrap_or(UNNUMBERED);
                write_case(&export::fstests(crash, name)?, name, output)
            }
            Form::Jlang => {
                let done = crash.operations_done + usize::from(crash.under_way);
                let workload = crashed(&opened.found, done);
                write_one(&workloads::jlang::to_jlang(&workload)?, output, 0o644)
            }
            Form::Script => {
                write_one(&export::script(crash)?, output, 0o755)?;
                if let Some(command) = in_a_guest(opened, output) {
                    campaign::say(&format!("found in a guest, where it runs with: {command}"));
                }
                Ok(())
            }
        }
    }
}

/// What runs a script under the kernel of the guest that the finding is of.
fn in_a_guest(opened: &Opened, script: Option<&Path>) -> Option<String> {
    let kernel = &opened.sweep.kernel;
    if kernel.kernel == KernelChoice::Host {
        return None;
    }
    let file_system = opened.found.variant.file_system;
    let modules = ["loop"]
        .iter()
        .chain(file_system.modules)
        .chain([&file_system.name]);
    let load = modules
        .map(|name| format!(" --load {name}"))
        .collect::<Vec<_>>()
        .concat();
    let script = script.map_or_else(
        || "FILE".into(),
        |path| campaign::quoted(&path.to_string_lossy()).into_owned(),
    );
    Some(format!(
        "{} machine{}{load} -- sh {script}",
        campaign::own_call(),
        kernel.flags()
    ))
}

/// The workload up to the crash, which is after `count` operations.
fn crashed(found: &Found, count: usize) -> Workload {
    let setup = found.workload.setup.len();
    let run: Vec<&Op> = found
        .workload
        .operations()
        .take(count)
        .skip(setup)
        .collect();
    let run = run
        .into_iter()
        .cloned()
        .map(Step::Op)
        .chain([Step::CrashPoint])
        .collect();
    Workload {
        run,
        ..found.workload.clone()
    }
}

fn write_one(text: &str, output: Option<&Path>, mode: u32) -> anyhow::Result<()> {
    let Some(path) = output else {
        return Ok(write!(io::stdout(), "{text}")?);
    };
    let doing = || format!("write {}", path.display());
    // What is there is somebody's.
    let mut file = File::create_new(path).with_context(doing)?;
    file.write_all(text.as_bytes()).with_context(doing)?;
    file.set_permissions(Permissions::from_mode(mode))
        .with_context(doing)
}

fn write_case(case: &Case, name: &str, output: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = output else {
        let path = format!("tests/{}/{name}", case.directory);
        let patch =
            patch(&path, &case.test, "755") + &patch(&format!("{path}.out"), &case.out, "644");
        return Ok(write!(io::stdout(), "{patch}")?);
    };
    if !name.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!(
            "a case of fstests is named by its number: -o tests/{}/{UNNUMBERED}",
            case.directory
        );
    }
    write_one(&case.test, Some(path), 0o755)?;
    write_one(&case.out, Some(&path.with_extension("out")), 0o644)
}

/// A new file, as git and patch take it.
fn patch(path: &str, text: &str, mode: &str) -> String {
    let lines = text
        .lines()
        .map(|line| format!("+{line}\n"))
        .collect::<Vec<_>>()
        .concat();
    let count = text.lines().count();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100{mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{lines}"
    )
}
