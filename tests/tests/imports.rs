//! Logs of the kernel's own dm-log-writes, made in a guest: what is sound is clean, and what the
//! test takes out of them is found.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use end_to_end::{Report, link_to_run, program, replay_with, require_root, said};
use tempfile::TempDir;

/// An overwrite, names, and what a later rename must not undo.
const WORKLOAD: &str = "workload logged\nsetup\ncreat old; write old 0 8K\nrun\n\
    creat foo; write foo 0 4K; fsync foo; rename foo bar; fsync bar; write old 0 4K; fdatasync old\n";

/// Where the data of an entry's mark starts.
const TEXT: usize = 32;

/// An entry of a log.
#[derive(Clone)]
struct Entry {
    flags: u64,
    /// The sector that says what it is, and the data after it.
    bytes: Vec<u8>,
}

const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;

impl Entry {
    fn text(&self) -> String {
        let length = u64::from_le_bytes(self.bytes[24..32].try_into().expect("8 bytes")) as usize;
        if self.flags & MARK == 0 {
            String::new()
        } else {
            String::from_utf8_lossy(&self.bytes[TEXT..TEXT + length]).into()
        }
    }

    /// Neither a flush nor of FUA, and no mark.
    fn is_plain_write(&self) -> bool {
        self.flags & (FLUSH | FUA | DISCARD | MARK) == 0
    }
}

/// What a guest left: the log and the disk before it, byte by byte.
struct Images {
    log: Vec<u8>,
    base: Vec<u8>,
}

impl Images {
    /// Runs the workload in a guest, under dm-log-writes.
    fn new(file_system: &str) -> Self {
        require_root();
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        link_to_run(&program("crashpoint"), &path("crashpoint"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/log-writes.sh");
        std::fs::copy(script, path("log-writes.sh")).expect("copied");
        std::fs::write(path("logged.wl"), WORKLOAD).expect("written");
        let mut command = Command::new(path("crashpoint"));
        command
            .args([
                "machine",
                "--load",
                "dm_mod",
                "--load",
                "dm_log_writes",
                "--share",
            ])
            .arg(directory.path());
        command
            .args(["--", "sh"])
            .arg(path("log-writes.sh"))
            .arg(path("crashpoint"))
            .arg(file_system);
        let output = command
            .arg(path("logged.wl"))
            .arg(directory.path())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", said(&output));
        let read = |name: &str| std::fs::read(path(name)).expect("it was left");
        let (log, base) = (read("log.img"), read("base.img"));
        Self { log, base }
    }
}

/// A log, and the disk before it.
struct Logged {
    directory: TempDir,
    entries: Vec<Entry>,
    header: Vec<u8>,
}

impl Logged {
    /// Of ext4: one guest is enough for all that is done with its log.
    fn of_ext4() -> Self {
        static IMAGES: LazyLock<Images> = LazyLock::new(|| Images::new("ext4"));
        Self::new(&IMAGES)
    }

    fn new(Images { log, base }: &Images) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("log.img"), log).expect("written");
        std::fs::write(path("base.img"), base).expect("written");
        std::fs::write(path("logged.wl"), WORKLOAD).expect("written");
        let number = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().expect("8 bytes"));
        let (count, mut at) = (number(16), 512);
        let mut entries = Vec::new();
        for _ in 0..count {
            let (sectors, flags) = (number(at + 8), number(at + 16));
            let data = if flags & DISCARD == 0 {
                sectors as usize * 512
            } else {
                0
            };
            entries.push(Entry {
                flags,
                bytes: log[at..at + 512 + data].to_vec(),
            });
            at += 512 + data;
        }
        Self {
            header: log[..512].to_vec(),
            entries,
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The place of a mark.
    fn mark(&self, text: &str) -> usize {
        self.entries
            .iter()
            .position(|entry| entry.text() == text)
            .unwrap_or_else(|| panic!("no mark {text}"))
    }

    /// Leaves a log that has only those of the entries.
    fn keep(&self, keep: impl Fn(usize, &Entry) -> bool) {
        let kept = self
            .entries
            .iter()
            .enumerate()
            .filter(|(place, entry)| keep(*place, entry));
        let kept: Vec<_> = kept.map(|(_, entry)| entry.bytes.as_slice()).collect();
        let mut log = self.header.clone();
        log[16..24].copy_from_slice(&(kept.len() as u64).to_le_bytes());
        log.extend(kept.concat());
        std::fs::write(self.path("log.img"), log).expect("written");
    }

    fn command(&self, file_system: &str, more: &[&str]) -> Command {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(["import", "--format", "json", "--log-writes"])
            .arg(self.path("log.img"));
        command
            .arg("--base")
            .arg(self.path("base.img"))
            .args(["--fs", file_system])
            .args(more);
        command
    }

    fn import(&self, file_system: &str, more: &[&str]) -> Report {
        Report::of_process(self.command(file_system, more))
    }

    fn workload(&self) -> String {
        self.path("logged.wl").display().to_string()
    }

    fn refused(&self, more: &[&str]) -> String {
        let output: Output = self.command("ext4", more).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        said(&output)
    }
}

#[test]
#[ignore = "it takes a minute: make test-long"]
fn a_log_of_a_sound_file_system_is_clean_and_so_is_our_own_recording() {
    for file_system in ["ext4", "xfs", "btrfs"] {
        let logged = Logged::new(&Images::new(file_system));
        for states in ["flushed,every-write", "all,sample:60"] {
            // The superblock of btrfs has 4096 bytes, and no copy takes its place.
            let sector = if file_system == "btrfs" {
                "4096"
            } else {
                "512"
            };
            let options = ["--states", states, "--sector", sector];
            let alone = logged.import(file_system, &options);
            alone.assert_clean();
            let workload = logged.workload();
            let judged = logged.import(file_system, &[&options[..], &[&workload]].concat());
            judged.assert_clean();
            assert!(alone.total("states_checked") > 10, "{:?}", alone.summaries);
        }
        replay_with(file_system, &["--states", "flushed,every-write"], WORKLOAD).assert_clean();
    }
}

#[test]
fn what_a_log_lacks_is_found() {
    let logged = Logged::of_ext4();
    let workload = logged.workload();
    let (before, after) = (logged.mark("op-4-start"), logged.mark("op-4-end"));

    // The flush of the first fsync: its commit is there, and not what is committed.
    logged.keep(|place, entry| !(before..after).contains(&place) || entry.flags & FLUSH == 0);
    let report = logged.import("ext4", &[&workload]);
    assert_eq!(report.status, 1, "{:?}", report.results);
    assert!(
        report
            .broken()
            .iter()
            .any(|(_, promise)| promise.starts_with("fsync-")),
        "{:?}",
        report.broken()
    );

    // Every write but the commit: with the flush, and without what it was for.
    logged.keep(|place, entry| !(before..after).contains(&place) || !entry.is_plain_write());
    let report = logged.import("ext4", &[&workload]);
    assert_eq!(report.status, 1, "{:?}", report.results);
    let place = report.results[0]["broken"][0]["place"]
        .as_str()
        .expect("it has a place");
    assert!(
        place.starts_with("after entry ") && place.contains("of the log, the last mark 'op-"),
        "{place}"
    );

    // What unmounting wrote to its place before the journal was emptied: that takes no workload.
    let last = logged.mark("op-8-end");
    logged.keep(|place, entry| place < last || !entry.is_plain_write());
    let report = logged.import("ext4", &[]);
    assert_eq!(report.status, 1, "{:?}", report.results);
}

/// Recordings differ from run to run, and so do their crash states; those of a log do not.
#[test]
fn a_sample_is_the_same_for_the_same_seed() {
    let logged = Logged::of_ext4();
    let workload = logged.workload();
    // Without a flush many states are broken, and told.
    logged.keep(|_, entry| entry.flags & FLUSH == 0);
    let drawn = |seed: &str| {
        let sample = ["--states", "all,sample:30", "--seed", seed, &workload];
        let mut report = logged.import("ext4", &sample);
        assert_eq!(report.status, 1, "{:?}", report.results);
        report.results.remove(0)["broken"].take()
    };
    let first = drawn("1");
    assert_eq!(drawn("1"), first);
    assert_ne!(drawn("2"), first);
}

#[test]
fn what_is_no_whole_log_of_the_disk_is_refused_with_the_place() {
    let logged = Logged::of_ext4();
    let workload = logged.workload();
    logged.keep(|_, _| true);
    let whole = std::fs::read(logged.path("log.img")).expect("read");

    std::fs::write(logged.path("log.img"), &whole[..whole.len() - 700]).expect("written");
    let why = logged.refused(&[]);
    assert!(
        why.contains("at byte ") && why.contains("the file ends after") && why.lines().count() == 1,
        "{why}"
    );

    let mut damaged = whole.clone();
    damaged[512 + 17] = 1;
    std::fs::write(logged.path("log.img"), &damaged).expect("written");
    assert!(
        logged
            .refused(&[])
            .contains("at byte 528 (entry 0): unknown flags 0x100")
    );

    let mark = logged.mark("op-3-end");
    logged.keep(|place, _| place != mark);
    let why = logged.refused(&[&workload]);
    assert!(
        why.contains("the mark 'op-4-start' stands where 'op-3-end' should"),
        "{why}"
    );
    assert!(
        logged
            .refused(&["--from", "mkfs"])
            .contains("has no mark 'mkfs'; it has 'op-0-start'")
    );
    std::fs::write(logged.path("base.img"), [0; 1000]).expect("written");
    assert!(
        logged
            .refused(&[])
            .contains("has 1000 bytes, which is not a multiple of 4096")
    );
}

/// Who is not root checks a log under a guest's kernel, wherever it is: the guest has a /dev of its
/// own.
#[test]
fn a_log_is_checked_in_a_guest_without_root() {
    let logged = Logged::of_ext4();
    link_to_run(&program("crashpoint"), &logged.path("crashpoint"));
    let hidden = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let open_to_all = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    for directory in [hidden.path(), logged.directory.path()] {
        std::fs::set_permissions(directory, open_to_all()).expect("changed");
    }
    let import = || {
        let file = |name: &str| {
            std::fs::copy(logged.path(name), hidden.path().join(name)).expect("copied");
            hidden.path().join(name)
        };
        let mut command = Command::new(logged.path("crashpoint"));
        command.args([
            "import",
            "--format",
            "json",
            "--kernel",
            "uml",
            "--fs",
            "ext4",
            "--log-writes",
        ]);
        command
            .arg(file("log.img"))
            .arg("--base")
            .arg(file("base.img"))
            .arg(logged.path("logged.wl"));
        command
            .uid(65534)
            .gid(65534)
            .current_dir("/")
            .env("TMPDIR", "/tmp")
            .stdin(Stdio::null());
        Report::of_process(command)
    };
    logged.keep(|_, _| true);
    let whole = import();
    whole.assert_clean();
    assert!(whole.total("states_checked") > 10, "{:?}", whole.summaries);

    let (before, after) = (logged.mark("op-4-start"), logged.mark("op-4-end"));
    logged.keep(|place, entry| !(before..after).contains(&place) || entry.flags & FLUSH == 0);
    let report = import();
    assert_eq!(report.status, 1, "{:?}", report.results);
    assert!(
        report
            .broken()
            .iter()
            .any(|(_, promise)| promise.starts_with("fsync-")),
        "{:?}",
        report.broken()
    );
}

/// A disk that is wrong before anything was logged accuses nobody.
#[test]
fn damage_that_was_there_before_is_not_of_a_crash() {
    let logged = Logged::of_ext4();
    let mut base = std::fs::read(logged.path("base.img")).expect("read");
    // The superblock's count of free inodes: not what mounting looks at.
    base[1024 + 16] ^= 1;
    std::fs::write(logged.path("base.img"), base).expect("written");
    let report = logged.import("ext4", &[]);
    assert_eq!(
        (report.status, report.broken()),
        (3, Vec::new()),
        "{:?}",
        report.results
    );
}
