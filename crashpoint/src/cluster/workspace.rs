//! Where a cluster runs: directories for data and logs that nobody else sees, or ones that stay.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use block_dev::Completion;
use cluster::{ClusterFile, Disk};
use local_fs::{Scratch, enter_mount_namespace};

/// Directories of a cluster.
pub(crate) struct Workspace {
    /// The data of each node, in the order of the file.
    pub(crate) directories: Vec<PathBuf>,
    /// The logs.
    pub(crate) logs: PathBuf,
    /// Whether the directories are new.
    pub(crate) first: bool,
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
        let directories: Vec<_> = file
            .nodes
            .iter()
            .map(|node| root.join(&node.name))
            .collect();
        let there = directories
            .iter()
            .filter(|directory| directory.exists())
            .count();
        if there > 0 && there < directories.len() {
            bail!(
                "{} has the data of {there} of {} nodes: name another directory",
                root.display(),
                directories.len()
            );
        }
        for directory in &directories {
            fs::create_dir_all(directory)
                .with_context(|| format!("create {}", directory.display()))?;
        }
        Ok(Self {
            directories,
            logs: root.join("log"),
            first: there == 0,
            scratch,
        })
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
