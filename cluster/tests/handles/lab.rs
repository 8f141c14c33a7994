//! Clusters to try handles on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterFile, Settings, Spawn};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Only ends what would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster whose nodes keep their data in directories of ours.
pub(crate) struct Lab {
    pub(crate) cluster: Cluster,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) folder: TempDir,
}

impl Lab {
    /// One that a cluster file describes. `{tests}` is the directory of the programs.
    pub(crate) fn new(text: &str) -> Self {
        let text = text.replace("{tests}", tests().to_str().expect("text"));
        let folder = tempfile::tempdir().expect("a directory");
        let file = ClusterFile::parse(&text, Path::new("cluster.toml"), folder.path());
        let file = file.expect("it is right");
        let cluster = Cluster::new(&file, &folder.path().join("log")).expect("made");
        let directories: Vec<_> = file
            .nodes
            .iter()
            .map(|node| folder.path().join(&node.name))
            .collect();
        for directory in &directories {
            fs::create_dir(directory).expect("made");
        }
        Self {
            cluster,
            directories,
            folder,
        }
    }

    /// One that is started.
    pub(crate) fn started(text: &str) -> Self {
        let mut lab = Self::new(text);
        lab.start(true);
        lab
    }

    pub(crate) fn start(&mut self, first: bool) {
        let mut settings = Settings {
            directories: &self.directories,
            first,
            turns: None,
            starter: &mut Spawn,
            cancelled: &|| false,
        };
        self.cluster.start(&mut settings).expect("started");
    }

    /// What is in a file of a node.
    pub(crate) fn read(&self, node: usize, name: &str) -> String {
        fs::read_to_string(self.directories[node].join(name)).unwrap_or_default()
    }

    /// The states of all processes of a node but its first, as letters (proc(5)).
    pub(crate) fn states(&mut self, node: usize) -> String {
        let first = self.cluster.node(node).pid();
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let processes = fs::read_dir("/proc").expect("read").filter_map(|entry| {
            let name = entry.expect("read").file_name();
            let pid = name.to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let state = stat.rsplit_once(") ")?.1.chars().next()?;
            (pid != first && namespace(pid) == namespace(first)).then_some(state)
        });
        processes.collect()
    }

    /// Waits until a file of a node has grown.
    pub(crate) fn await_growth(&self, node: usize, name: &str) {
        let before = self.read(node, name).len();
        await_that("a file grows", || self.read(node, name).len() > before);
    }
}

/// A command in a machine, which is ended, and waited for.
pub(crate) struct Ends(pub(crate) Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It is passed on to the command.
        let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// Where the programs are.
pub(crate) fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/handles")
}

/// Waits until something is so.
pub(crate) fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it is not so that {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
