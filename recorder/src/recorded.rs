use block_dev::BlockLog;
use local_fs::Tree;

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it says.
    Done,
    /// The file system refused it, with this error number; it had no effect.
    Refused(i32),
}

/// A moment at which the power fails.
#[derive(Debug, Clone)]
pub struct CrashPoint {
    /// How many operations (setup and run counted together) had returned.
    pub operations_done: usize,
    /// The position in the block log after everything that was completed by then.
    pub log_position: usize,
    /// What the file system showed at that moment, where it could be looked at.
    pub live: Option<Tree>,
}

/// Everything recorded of one run.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// How each operation ended, setup first.
    pub outcomes: Vec<Outcome>,
    /// How many of them belong to the setup.
    pub setup_operations: usize,
    /// The disk is taken to have kept everything before this position of the log: the setup.
    pub durable_position: usize,
    /// The permission bits of the root right after the mount, before any operation.
    pub root_mode: u32,
    /// The user and the group that own the root then: some mkfs give it to whoever calls them.
    pub root_owner: (u32, u32),
    /// In the order of the run.
    pub crash_points: Vec<CrashPoint>,
    /// What the disk was asked for, from the mount on.
    pub log: BlockLog,
}
