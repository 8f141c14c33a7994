//! Where a cluster runs: directories for data and logs that nobody else sees, or ones that stay.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use block_dev::Completion;
use cluster::{ClusterFile, Disk};
use local_fs::{Scratch, enter_mount_namespace};

/// Lies beside the data of nodes until they have been started and prepared for the first time.
const UNPREPARED: &str = ".unprepared";

/// Directories of a cluster.
pub(crate) struct Workspace {
    /// The data of each node, in the order of the file.
    pub(crate) directories: Vec<PathBuf>,
    /// The logs.
    pub(crate) logs: PathBuf,
    /// Whether the directories are new.
    pub(crate) first: bool,
    unprepared: PathBuf,
    // After what lies in it.
    scratch: Scratch,
}

impl Workspace {
    /// Makes the directories, in memory or in `kept`. This thread gets a mount namespace of its
    /// own.
    pub(crate) fn new(file: &ClusterFile, kept: Option<&Path>) -> anyhow::Result<Self> {
        enter_mount_namespace()?;
        let scratch = Scratch::new()?;
        let root = match kept {
            None => scratch.path().to_owned(),
            Some(kept) => {
                fs::create_dir_all(kept).with_context(|| format!("create {}", kept.display()))?;
                kept.canonicalize()
                    .with_context(|| format!("find {}", kept.display()))?
            }
        };
        let (directories, first) = data_in(&root, file)?;
        Ok(Self {
            directories,
            logs: root.join("log"),
            first,
            unprepared: root.join(UNPREPARED),
            scratch,
        })
    }

    /// Notes that the nodes were started and prepared for the first time: the next time they go on with what
    /// they have.
    pub(crate) fn note_prepared(&self) -> anyhow::Result<()> {
        let removed = fs::remove_file(&self.unprepared);
        removed.with_context(|| format!("remove {}", self.unprepared.display()))
    }

    /// Gives each node that has data a recorded disk, if the cluster file asks for that, and has it
    /// keep its data there.
    pub(crate) fn make_disks(&mut self, file: &ClusterFile) -> anyhow::Result<Vec<Option<Disk>>> {
        let mut disks = Vec::new();
        for (node, directory) in file.nodes.iter().zip(&mut self.directories) {
            let Some(file_system) = file.disk.as_ref().filter(|_| node.has_data) else {
                disks.push(None);
                continue;
            };
            let place = self.scratch.directory(&format!("disk-{}", node.name))?;
            let disk = Disk::new(file_system, &place, Completion::AtOnce)?;
            *directory = disk.data();
            disks.push(Some(disk));
        }
        Ok(disks)
    }

    /// A file that is gone in the end.
    pub(crate) fn temporary(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// The directories of the nodes' data, which are made if they are not there, and whether they are new.
fn data_in(root: &Path, file: &ClusterFile) -> anyhow::Result<(Vec<PathBuf>, bool)> {
    let nodes = file.nodes.iter();
    let directories: Vec<_> = nodes.map(|node| root.join(&node.name)).collect();
    let there = directories.iter().filter(|directory| directory.exists());
    let there = there.count();
    let unprepared = root.join(UNPREPARED);
    if there > 0 && unprepared.exists() {
        bail!(
            "the first start of the nodes whose data is in {} failed or was interrupted: remove that directory, or \
             name another one",
            root.display()
        );
    }
    if there > 0 && there < directories.len() {
        bail!(
            "{} has the data of {there} of {} nodes: name another directory",
            root.display(),
            directories.len()
        );
    }
    if there == 0 {
        fs::write(&unprepared, "").with_context(|| format!("write {}", unprepared.display()))?;
    }
    for directory in &directories {
        fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    }
    Ok((directories, there == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_first_start_that_did_not_end_is_none_to_go_on_with() {
        let place = tempfile::tempdir().expect("a directory");
        let text = "[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sleep 1\"\n";
        let file = ClusterFile::parse(text, Path::new("cluster.toml"), place.path());
        let file = file.expect("it is right");
        let kept = place.path().join("kept");
        fs::create_dir(&kept).expect("made");
        let in_kept = || data_in(&kept, &file);
        let (directories, first) = in_kept().expect("they are new");
        assert!(first && directories.iter().all(|directory| directory.is_dir()));
        let refused = in_kept().expect_err("it did not end").to_string();
        assert!(
            refused.starts_with("the first start of the nodes"),
            "{refused}"
        );
        fs::remove_file(kept.join(UNPREPARED)).expect("it was there");
        assert!(!in_kept().expect("they go on").1);
        fs::remove_dir(&directories[0]).expect("it is empty");
        let refused = in_kept().expect_err("one is missing").to_string();
        assert!(refused.contains("1 of 2 nodes"), "{refused}");
    }
}
