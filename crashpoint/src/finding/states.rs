//! A finding of a program or a cluster, or a state that nobody could judge: made again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, quoted, say};
use cluster::ClusterFile;
use machine::Logged;
use node_sweep::{
    Asking, CheckCommand, CrashState, Finding, Judge, Numbered, Place, Program, Recorded, Subject,
    Turns, Verdict, keep, load_trace, make_finding_again, scratch,
};
use trace_store::Trace;

use super::cluster_script;
use super::replay::{run_to_end, wait_for_enter};
use crate::app::{PROGRAM, check_of};
use crate::cluster::{Ground, TraceGuest, show};

/// How often an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What has a number in a directory of results.
pub(super) struct State<'a> {
    pub(super) directory: &'a Path,
    pub(super) recorded: Recorded,
    pub(super) number: usize,
}

/// What is done with a state when it is there.
struct Look<'a> {
    command: Option<&'a str>,
    keep: Option<&'a Path>,
    interrupt: &'a Interrupt,
}

impl State<'_> {
    /// Makes the state again, has it judged again, and shows it.
    pub(super) fn replay(
        &self,
        command: Option<&str>,
        keep: Option<&Path>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Outcome> {
        let numbered = self.recorded.get(self.number)?;
        let trace = load_trace(self.directory, &self.recorded.manifest)?;
        let look = Look {
            command,
            keep,
            interrupt,
        };
        if self.recorded.manifest.request.judge != Judge::Cluster {
            return self.of_program(&trace, numbered, &look);
        }
        let Some(guest) = TraceGuest::if_needed()? else {
            return self.of_cluster(&trace, numbered, &look);
        };
        if command.is_none() && keep.is_none() {
            bail!(
                "not root: the cluster runs in a guest, which cannot be looked into from here: give --command or --keep"
            );
        }
        guest.find_again(self.directory, keep, interrupt)
    }

    fn of_program(
        &self,
        trace: &Trace,
        numbered: Numbered<'_>,
        look: &Look<'_>,
    ) -> anyhow::Result<Outcome> {
        let request = &self.recorded.manifest.request;
        let scratch = scratch()?;
        if numbered.address().level.is_of_disks() {
            // Nobody else is to see what is mounted.
            local_fs::enter_mount_namespace()?;
        }
        let state = numbered.make(trace, request)?;
        if let Some(directory) = look.keep {
            return look.kept(trace, &state, directory);
        }
        let (_place, mut program) = self.program(trace, scratch.path(), look.interrupt)?;
        let verdict = self.judge(trace, &mut program, &state, look.interrupt)?;
        let outcome = look.tell(numbered, &verdict);
        let looked = program.hold(&state, |_, data, acks| look.at_directory(data, acks))?;
        looked.unwrap_or_else(|why| say(&format!("there is nothing to look at: {why}")));
        Ok(outcome)
    }

    /// What the check says of a state, and the specifications of the sweep.
    fn judge(
        &self,
        trace: &Trace,
        subject: &mut dyn Subject,
        state: &CrashState,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Verdict> {
        let asking = self.asking(trace, interrupt)?;
        let mut subject = Asking::also_if(asking.as_ref(), Box::new(subject));
        Ok(subject.judge(state, false)?)
    }

    /// The specifications of the sweep, if it has any.
    pub(super) fn asking(
        &self,
        trace: &Trace,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Asking>> {
        let specifications = &self.recorded.manifest.request.specifications;
        Ok(Asking::of(specifications, trace, interrupt)?)
    }

    /// The program's check, which makes its directories in `scratch`, and the path at which it sees
    /// each state: that must stay as long.
    pub(super) fn program(
        &self,
        trace: &Trace,
        scratch: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<(Place, Program)> {
        let manifest = &self.recorded.manifest;
        let place = Place::of(trace, PROGRAM, scratch)?;
        let seen_at = place.seen_at().map(Path::to_owned);
        let begun_in = Some(&*manifest.working_directory);
        let check = check_of(&manifest.request.judge, begun_in, interrupt)?;
        let program = Program::new(scratch.to_owned(), seen_at, &check);
        Ok((place, program))
    }

    fn of_cluster(
        &self,
        trace: &Trace,
        numbered: Numbered<'_>,
        look: &Look<'_>,
    ) -> anyhow::Result<Outcome> {
        let request = &self.recorded.manifest.request;
        let ground = Ground::new(trace, self.directory, look.interrupt)?;
        let state = numbered.make(trace, request)?;
        if let Some(directory) = look.keep {
            return look.kept(trace, &state, directory);
        }
        let mut nodes = ground.nodes()?;
        let verdict = self.judge(trace, &mut nodes, &state, look.interrupt)?;
        let outcome = look.tell(numbered, &verdict);
        let looked = nodes.hold(&state, |cluster| -> anyhow::Result<()> {
            if let Some(command) = look.command {
                let mut command =
                    cluster.client_command(&["sh".into(), "-c".into(), command.into()]);
                return run_to_end(&mut command, look.interrupt);
            }
            show(cluster)?;
            while !look.interrupt.requested() {
                cluster.refuse_end()?;
                std::thread::sleep(LOOK_EVERY);
            }
            Ok(())
        })?;
        looked.unwrap_or_else(|why| {
            say(&format!(
                "there is no cluster to talk to: {why}; --keep DIR writes its files"
            ));
        });
        Ok(outcome)
    }
}

impl State<'_> {
    /// The finding as a shell script, which makes the crash state and has the check look at it.
    pub(super) fn script(&self, interrupt: &Interrupt) -> anyhow::Result<String> {
        let manifest = &self.recorded.manifest;
        let Numbered::Finding(finding) = self.recorded.get(self.number)? else {
            bail!(
                "{0} is an inconclusive state, which has no violation that a script could show: \
                 `crashpoint replay {1} {0} --keep DIR` writes its files",
                self.number,
                quoted(&self.directory.to_string_lossy())
            );
        };
        let trace = load_trace(self.directory, manifest)?;
        let scratch = scratch()?;
        let body = if let Judge::Program { check, .. } = &manifest.request.judge {
            if finding.level().is_of_disks() {
                local_fs::enter_mount_namespace()?;
            }
            let kept = self.kept(&trace, finding, scratch.path())?;
            script_of_program(&trace, check, &manifest.working_directory, &kept)?
        } else {
            let ground = Ground::new(&trace, self.directory, interrupt)?;
            let kept = self.kept(&trace, finding, scratch.path())?;
            script_of_cluster(&trace, &ground.file, &kept)?
        };
        Ok(heading(&manifest.name, finding) + &body)
    }

    /// Writes the crash state of a finding as directories.
    fn kept(&self, trace: &Trace, finding: &Finding, scratch: &Path) -> anyhow::Result<Kept> {
        let state = make_finding_again(trace, &self.recorded.manifest.request, finding)?;
        let directory = scratch.join("kept");
        keep(trace, &state, &directory)?;
        Ok(Kept { state, directory })
    }
}

/// Has tar keep extended attributes, too.
pub(super) const XATTRS: &str = "--xattrs --xattrs-include='*'";

/// A crash state as directories.
struct Kept {
    state: CrashState,
    directory: PathBuf,
}

impl Kept {
    /// The directory of a node.
    fn archive(&self, node: &str) -> anyhow::Result<String> {
        // By way of a file: nobody would hear that tar failed in a pipe.
        let pack = format!(
            "tar -C \"$1\" {XATTRS} --numeric-owner -czf \"$1.tar.gz\" . && base64 \"$1.tar.gz\""
        );
        piped(&pack, &self.directory.join(node))
    }

    fn acknowledged(&self) -> anyhow::Result<String> {
        piped("base64 \"$1\"", &self.directory.join("acknowledged"))
    }
}

/// What it is, as comments.
fn heading(name: &str, finding: &Finding) -> String {
    // A word of a program may have several lines.
    let name = name.lines().collect::<Vec<_>>().join("\n# ");
    let told = finding.text();
    let story = told
        .lines()
        .fold(String::new(), |story, line| story + "#" + line + "\n");
    format!(
        "#!/bin/sh\n# A state that a power failure can leave of: {name}\n\
         # Found by Crashpoint {}, on {}: {}.\n#\n{story}#\n",
        env!("CARGO_PKG_VERSION"),
        finding.model,
        finding.relaxation,
    )
}

/// The check has the words that it had, and begins where the sweep began, if that is there.
fn script_of_program(
    trace: &Trace,
    check: &CheckCommand,
    begun_in: &str,
    kept: &Kept,
) -> anyhow::Result<String> {
    // A program that wrote its path into its files finds them nowhere else.
    let data = trace
        .about
        .directories
        .get(PROGRAM)
        .context("nothing was recorded of the program's directory")?;
    let place = if node_sweep::mentions(trace, data) {
        quoted(data).into_owned()
    } else {
        "$(mktemp -d)".into()
    };
    let command = match check {
        CheckCommand::Once(words) => format!(
            "check=$(printf %s {} | sed \"s|{{dir}}|$dir|g; s|{{acks}}|$acks|g\")\nexec /bin/sh -c \"$check\"",
            quoted(words)
        ),
        CheckCommand::Serve(words) => format!(
            "printf '%s\\t%s\\n' \"$dir\" \"$acks\" | /bin/sh -c {}",
            quoted(words)
        ),
    };
    Ok(format!(
        "# This makes the directory of that state, and has the check look at it.\n\
         # Exit status: that of the check.\nset -eu\n\ndir={place}\nacks=$(mktemp)\nmkdir -p \"$dir\"\n\
         base64 -d <<'END' | tar {XATTRS} -xzf - -C \"$dir\"\n{}END\nbase64 -d >\"$acks\" <<'END'\n{}END\n\
         echo \"the program's directory is $dir, what it had acknowledged is in $acks\"\n\
         cd {} 2>/dev/null || true\n{command}\n",
        kept.archive(PROGRAM)?,
        kept.acknowledged()?,
        quoted(begun_in),
    ))
}

fn script_of_cluster(trace: &Trace, file: &ClusterFile, kept: &Kept) -> anyhow::Result<String> {
    let nodes = &trace.run.nodes;
    let places = |of_run: &Vec<usize>| {
        let names = of_run.iter().map(|node| &nodes[*node].name);
        names.filter_map(|name| file.place(name)).collect()
    };
    let turns = kept.state.turns.as_ref().map(|turns| Turns {
        first: places(&turns.first),
        later: places(&turns.later),
    });
    let with_data = nodes.iter().filter(|node| !node.initial.is_empty());
    let archives = with_data.map(|node| Ok((node.name.clone(), kept.archive(&node.name)?)));
    let archives = archives.collect::<anyhow::Result<Vec<_>>>()?;
    let body = cluster_script::script(file, turns.as_ref(), &archives, &kept.acknowledged()?)?;
    Ok(format!(
        "# This makes the directories of that state, starts the nodes on them in namespaces, and has the check\n\
         # look at the cluster. It takes root, or user namespaces; nothing is left when it ends.\n\
         # Exit status: 1 something is broken, 0 nothing is, 2 a program is missing, 3 the check did not say.\n{body}"
    ))
}

/// What a shell prints, with a path as its first argument.
fn piped(script: &str, path: &Path) -> anyhow::Result<String> {
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(path)
        .output_logged()
        .context("run sh")?;
    if !output.status.success() {
        bail!(
            "`{script}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Look<'_> {
    fn kept(&self, trace: &Trace, state: &CrashState, directory: &Path) -> anyhow::Result<Outcome> {
        keep(trace, state, directory)?;
        say(&format!("the crash state is in {}", directory.display()));
        Ok(if self.interrupt.requested() {
            Outcome::Incomplete
        } else {
            Outcome::Clean
        })
    }

    /// Says what the check said.
    fn tell(&self, numbered: Numbered<'_>, verdict: &Verdict) -> Outcome {
        if let Verdict::Broken(complaint) = verdict {
            let words = complaint.words.iter();
            words.for_each(|words| say(&format!("broken: {words}")));
            return Outcome::Findings;
        }
        if self.interrupt.requested() {
            return Outcome::Incomplete;
        }
        let (words, outcome) = match (numbered, verdict) {
            (Numbered::Finding(Finding { number, .. }), Verdict::Inconclusive(why)) => (
                format!("finding {number} could not be judged again: {why}"),
                Outcome::Incomplete,
            ),
            (Numbered::Finding(Finding { number, .. }), _) => (
                format!("finding {number} did not come again: the check said `ok` of its state"),
                Outcome::Incomplete,
            ),
            (Numbered::Inconclusive(state), Verdict::Inconclusive(why)) => (
                format!("state {} is inconclusive again: {why}", state.number),
                Outcome::Incomplete,
            ),
            (Numbered::Inconclusive(state), _) => (
                format!("the check said `ok` of state {} this time", state.number),
                Outcome::Clean,
            ),
        };
        say(&words);
        outcome
    }

    /// Runs the command on a directory, or waits for Enter.
    fn at_directory(&self, data: &Path, acks: &Path) -> anyhow::Result<()> {
        if let Some(command) = self.command {
            let script = command
                .replace("{dir}", &quoted(&data.to_string_lossy()))
                .replace("{acks}", &quoted(&acks.to_string_lossy()))
                .replace("{}", &quoted(&data.to_string_lossy()));
            return run_to_end(Command::new("sh").args(["-c", &script]), self.interrupt);
        }
        // What is mounted is in a mount namespace of ours, and is seen through us.
        let seen = |path: &Path| format!("/proc/{}/root{}", std::process::id(), path.display());
        println_to_end(&[seen(data), seen(acks)])?;
        say(
            "the program's directory, and what it had acknowledged: look at them from another terminal; Enter ends it",
        );
        wait_for_enter(self.interrupt);
        Ok(())
    }
}

fn println_to_end(lines: &[String]) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()
}
