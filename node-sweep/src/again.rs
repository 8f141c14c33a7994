//! The crash state of a finding, made again.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use cluster::ClusterFile;
use pace_rules::nodes::{BlockRequest, BlockSpace, Space};
use trace::Trace;

use crate::bay::Bay;
use crate::blocks::{Blocks, recorded_disks};
use crate::findings::Finding;
use crate::program::scratch;
use crate::request::{Level, Request};
use crate::states::{Made, States};
use crate::sweep::Source;

/// Makes the state that a finding shows, of the sweep that was asked for by `request`; `file` is
/// the cluster's, if it is of one.
///
/// # Errors
/// If the sweep has no such state: the finding is of another one.
pub fn make_again(
    trace: &Trace,
    request: &Request,
    file: Option<&ClusterFile>,
    finding: &Finding,
) -> anyhow::Result<Made> {
    let explore = request.explore(file, &trace.run)?;
    let refuse = |len: u64| {
        if finding.state >= len {
            bail!(
                "the finding is of state {}, and the sweep has {len}: its files do not belong together",
                finding.state
            );
        }
        Ok(())
    };
    if finding.level() == Level::Block {
        let space = BlockRequest {
            explore,
            states: request.states,
        };
        let space = BlockSpace::new(&trace.run, recorded_disks(trace), &space)?;
        refuse(space.len())?;
        let (_, made) = Blocks::new(trace, &space)?.make(finding.state);
        return Ok(made.expect("a disk can hold anything"));
    }
    let space = Space::new(&trace.run, &request.of_calls(explore)?)?;
    refuse(space.len())?;
    let made = States::new(&trace.run, &space, trace).make(&space.state(finding.state));
    made.map_err(|_| anyhow::anyhow!("no file system would show state {}", finding.state))
}

/// Writes what the nodes of a trace have in a state as directories in `directory`, which must be
/// new or empty, each with the name of its node, and what was acknowledged as a file.
///
/// # Errors
/// If there is something in it, or it cannot be written.
pub fn keep(trace: &Trace, state: &Made, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    if directory
        .read_dir()
        .with_context(|| format!("read {}", directory.display()))?
        .next()
        .is_some()
    {
        bail!(
            "{} is not empty: name a new directory for --keep",
            directory.display()
        );
    }
    let nodes = trace
        .run
        .nodes
        .iter()
        .filter(|node| !node.initial.is_empty());
    for (node, held) in nodes.zip(&state.disks) {
        let kept = directory.join(&node.name);
        if let crate::Held::Tree(tree) = held {
            tree.write_to(&kept)
                .with_context(|| format!("write {}", kept.display()))?;
            continue;
        }
        let (scratch, mut bay) = (scratch()?, Bay::default());
        match bay.put(held, &scratch.path().join("disk"))? {
            Ok(data) => copy(&data, &kept)?,
            Err(why) => bail!("node {}: {why}", node.name),
        }
    }
    let path = directory.join("acknowledged");
    let written = File::create_new(&path).and_then(|mut file| file.write_all(&state.acknowledged));
    written.with_context(|| format!("write {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let status = Command::new("cp")
        .arg("-a")
        .arg("--")
        .arg(from)
        .arg(to)
        .status()
        .context("run cp")?;
    if !status.success() {
        bail!("{} cannot be copied to {}", from.display(), to.display());
    }
    Ok(())
}
