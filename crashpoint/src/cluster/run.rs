//! `crashpoint cluster run`: a cluster to look at.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use brief::counted;
use campaign::{Interrupt, Outcome, say};
use clap::Args;
use cluster::{Cluster, ClusterFile, Error, Settings, Spawn, Verdict};
use local_fs::Variant;

use super::simulate::{SimulateArgs, Wanted, simulate};
use super::workspace::Workspace;

/// How often an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The arguments of `crashpoint cluster run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The cluster file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Run the client once, and print what it acknowledges
    #[arg(long)]
    client: bool,

    /// Kill all nodes at once, after the client, and start them again on what they have. With
    /// --simulate their power fails, and they have what their disks had flushed
    #[arg(long)]
    restart: bool,

    /// Run the check once, on what the client acknowledged if it was run
    #[arg(long)]
    check: bool,

    /// Keep data and logs in DIR; if the nodes' data is there already, they go on with it. With
    /// --simulate: logs, what kernels say, and all frames (net.pcap), in a directory that is empty
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    simulate: SimulateArgs,
}

/// Does it.
pub(crate) fn run(arguments: &RunArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let file = ClusterFile::read(&arguments.file)?;
    if arguments.simulate.machines.simulate {
        let wanted = Wanted {
            client: arguments.client,
            restart: arguments.restart,
            check: arguments.check,
            data: arguments.data.clone(),
        };
        return simulate(&file, &arguments.simulate, &wanted, interrupt);
    }
    if let Some(file_system) = &file.disk {
        Variant::for_machines(file_system)?;
        say(&format!(
            "here nodes have directories, and no disks with {file_system} (`disk` in the file): with --simulate they have those"
        ));
    }
    let workspace = Workspace::new(&file, arguments.data.as_deref())?;
    let mut cluster = Cluster::new(&file, &workspace.logs)?;
    match looked_at(&mut cluster, &workspace, arguments, interrupt) {
        Err(error) if is_interrupted(&error) => {
            say("interrupted: everything is stopped");
            Ok(Outcome::Incomplete)
        }
        other => other,
    }
}

/// Whether something ended because somebody asked for it.
pub(crate) fn is_interrupted(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Interrupted))
}

fn looked_at(
    cluster: &mut Cluster,
    workspace: &Workspace,
    arguments: &RunArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    start(cluster, workspace, workspace.first, interrupt)?;
    if workspace.first {
        cluster.prepare(&|| interrupt.requested())?;
        workspace.note_prepared()?;
    }
    let acknowledgements = workspace.temporary("acknowledgements");
    let lines = if arguments.client {
        lines_of_client(cluster, interrupt)?
    } else {
        Vec::new()
    };
    fs::write(&acknowledgements, &lines)
        .with_context(|| format!("write {}", acknowledgements.display()))?;
    if arguments.restart {
        cluster.kill();
        if let Err(error) = start(cluster, workspace, false, interrupt) {
            return told_not_ready(error.downcast()?);
        }
    }
    let mut outcome = Outcome::Clean;
    if arguments.check {
        outcome = told(&verdict(cluster, &acknowledgements, interrupt)?)?;
    } else if !arguments.client {
        show(cluster)?;
        while !interrupt.requested() {
            cluster.refuse_end()?;
            std::thread::sleep(LOOK_EVERY);
        }
    }
    let killed = cluster.stop(&|| false)?;
    if !killed.is_empty() {
        say(&format!(
            "killed, as it did not stop in its time: {}",
            killed.join(", ")
        ));
    }
    Ok(outcome)
}

/// What the check says, unless it was not given its time.
fn verdict(
    cluster: &mut Cluster,
    acknowledgements: &Path,
    interrupt: &Interrupt,
) -> cluster::Result<Verdict> {
    match cluster.run_check(acknowledgements, &|| interrupt.requested())? {
        Verdict::Inconclusive(_) if interrupt.requested() => Err(Error::Interrupted),
        verdict => Ok(verdict),
    }
}

/// What the client says, which is shown.
fn lines_of_client(cluster: &mut Cluster, interrupt: &Interrupt) -> anyhow::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let ran = cluster.run_client(
        &mut |line| acknowledged(&mut lines, line, interrupt),
        &|| interrupt.requested(),
    );
    ran?;
    cluster.refuse_end()?;
    Ok(lines)
}

fn start(
    cluster: &mut Cluster,
    workspace: &Workspace,
    first: bool,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let cancelled = || interrupt.requested();
    let directories = &workspace.directories;
    cluster.start(&mut Settings {
        directories,
        first,
        turns: None,
        starter: &mut Spawn,
        cancelled: &cancelled,
    })?;
    say_ready(workspace.directories.len(), begun);
    Ok(())
}

/// A node that does not come up again is no error, but what was to be seen. If somebody else killed it, nothing
/// was.
pub(super) fn told_not_ready(error: Error) -> anyhow::Result<Outcome> {
    let is_killed = error.is_killed();
    let Error::NotReady { node, what, tail } = error else {
        return Err(error.into());
    };
    if is_killed {
        let why =
            format!("node {node} does not come up: it {what}; the machine may be short of memory");
        return Ok(told(&Verdict::Inconclusive(why))?);
    }
    let mut out = io::stdout().lock();
    writeln!(out, "broken node {node} does not come up: it {what}")?;
    for line in tail {
        writeln!(out, "  its log: {line}")?;
    }
    Ok(Outcome::Findings)
}

/// Says that so many nodes are ready.
pub(crate) fn say_ready(count: usize, begun: Instant) {
    say(&format!(
        "{} ready after {:.1} s",
        nodes_are(count),
        begun.elapsed().as_secs_f64()
    ));
}

/// So many nodes, as the beginning of a sentence.
pub(super) fn nodes_are(count: usize) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(count as u64, "node"))
}

/// Takes a line of the client's, and prints it.
pub(super) fn acknowledged(lines: &mut Vec<u8>, line: &[u8], interrupt: &Interrupt) {
    let from = lines.len();
    lines.extend_from_slice(line);
    lines.push(b'\n');
    let mut out = io::stdout().lock();
    if out
        .write_all(&lines[from..])
        .and_then(|()| out.flush())
        .is_err()
    {
        // The reader is gone, and with it who wanted to look.
        interrupt.request();
    }
}

/// Who is where, and how to get there.
pub(crate) fn show(cluster: &mut Cluster) -> io::Result<()> {
    let nodes = cluster.nodes().iter().map(|node| {
        let config = node.config();
        (config.name.clone(), config.address.to_string(), node.pid())
    });
    let mut rows: Vec<_> = nodes.collect();
    rows.push((
        cluster::CLIENT.to_owned(),
        String::new(),
        cluster.client(0).pid(),
    ));
    let width = rows
        .iter()
        .map(|(name, ..)| name.len())
        .max()
        .unwrap_or_default();
    let mut out = io::stdout().lock();
    for (name, address, pid) in rows {
        writeln!(out, "{name:width$}  {address:10}  nsenter -a -t {pid}")?;
    }
    writeln!(
        out,
        "in there {} has a node's data, and {} the logs",
        cluster::DIRECTORY,
        cluster.logs().display()
    )?;
    writeln!(out, "Ctrl-C stops it")?;
    out.flush()
}

pub(super) fn told(verdict: &Verdict) -> io::Result<Outcome> {
    let mut out = io::stdout().lock();
    match verdict {
        Verdict::Ok => writeln!(out, "ok")?,
        Verdict::Broken(what) => what
            .iter()
            .try_for_each(|what| writeln!(out, "broken {what}"))?,
        Verdict::Inconclusive(why) => say(&format!("inconclusive: {why}")),
    }
    Ok(match verdict {
        Verdict::Ok => Outcome::Clean,
        Verdict::Broken(_) => Outcome::Findings,
        Verdict::Inconclusive(_) => Outcome::Incomplete,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_somebody_else_killed_while_it_came_up_again_is_not_broken() {
        for (how, outcome) in [
            ("was ended by SIGKILL by itself", Outcome::Incomplete),
            ("was ended by SIGABRT by itself", Outcome::Findings),
            ("was not ready within 30s", Outcome::Findings),
        ] {
            let error = Error::NotReady {
                node: "a".into(),
                what: how.into(),
                tail: Vec::new(),
            };
            assert_eq!(told_not_ready(error).expect("it is told"), outcome, "{how}");
        }
    }
}
