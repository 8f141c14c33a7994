//! The program run by somebody who is not root.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::{copy_to_run, link_to_run, program};

/// nobody and nogroup of Debian; anybody but root would do.
const USER: u32 = 65534;
const GROUP: u32 = 65534;

/// Where Debian's package has a User-Mode Linux kernel, and its modules.
const KERNEL: &str = "/usr/bin/linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";

/// The library that stands for a host with AMX.
const AMX_HOST: &str = "libamx_host.so";
const OTHER_DAY: &str = "libother_day.so";

/// By these variables all tests can be run as on such a host (`make test-amx`).
const PASSED_ON: [&str; 2] = ["LD_PRELOAD", "CRASHPOINT_GUEST_PRELOAD"];

/// A place of an ordinary user's, with a link to the program: the folder that it is built in may
/// be closed to him. Whatever runs from here can be told by its path.
#[derive(Debug)]
pub struct Ordinary(TempDir);

impl Ordinary {
    /// A new one.
    ///
    /// # Panics
    /// If it can't be had.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        crate::require_root();
        let this = Self(tempfile::tempdir().expect("a directory"));
        std::fs::set_permissions(this.0.path(), Permissions::from_mode(0o755)).expect("changed");
        this.link(&program("crashpoint"), "crashpoint");
        this.directory("temporary");
        this.directory("work");
        this
    }

    /// The path of a name in the user's working directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("work").join(name)
    }

    /// What the user gets as TMPDIR.
    pub fn temporary(&self) -> PathBuf {
        self.0.path().join("temporary")
    }

    /// One of our programs beside his own, and the PATH on which it is found.
    pub fn on_path(&self, name: &str) -> String {
        self.link(&program(name), name);
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.0.path().display())
    }

    /// What tests may write to.
    fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.0.path().join(name);
        copy_to_run(from, &to);
        to
    }

    /// What nobody writes to: it would change the original.
    fn link(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.0.path().join(name);
        link_to_run(from, &to);
        to
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir(&path).expect("created");
        chown(&path, Some(USER), Some(GROUP)).expect("given away");
        path
    }

    /// A directory in the working directory that the user may write to.
    pub fn shared(&self, name: &str) -> PathBuf {
        self.directory(&format!("work/{name}"))
    }

    /// A file in the working directory that he may read.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    /// The files of a folder of this repository, copied to where he may read them.
    pub fn repository(&self, folder: &str) -> Vec<PathBuf> {
        let from = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(folder);
        let entries = std::fs::read_dir(&from)
            .expect("it is there")
            .map(|entry| entry.expect("read"));
        let copy = |name: &str, path: &Path| self.copy(path, &format!("work/{name}"));
        let mut files: Vec<_> = entries
            .map(|entry| copy(entry.file_name().to_str().expect("text"), &entry.path()))
            .collect();
        files.sort();
        files
    }

    /// `crashpoint` as the user runs it, with these arguments.
    pub fn crashpoint(&self, arguments: &[&str]) -> Command {
        self.run(&self.0.path().join("crashpoint"), arguments)
    }

    /// The same with a kernel where Crashpoint looks for one, and with itself and other programs of ours
    /// in the working directory: that is all that a guest, which has a /tmp of its own, has of here.
    pub fn crashpoint_for_a_guest(&self, arguments: &[&str], programs: &[&str]) -> Command {
        for name in programs.iter().copied().chain(["crashpoint"]) {
            self.link(&program(name), &format!("work/{name}"));
        }
        let cache = self.0.path().join("cache");
        let kernel = cache.join("crashpoint/uml/current");
        if !kernel.exists() {
            std::fs::create_dir_all(&kernel).expect("created");
            link_to_run(virtual_kernel(), &kernel.join("linux"));
        }
        let mut command = self.run(&self.path("crashpoint"), arguments);
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.path("").display());
        command.env("XDG_CACHE_HOME", cache).env("PATH", path);
        command
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .uid(USER)
            .gid(GROUP)
            .current_dir(self.path(""))
            .stdin(Stdio::null());
        command.env_clear().env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        );
        command
            .env("TMPDIR", self.temporary())
            .env("HOME", "/nonexistent");
        command.envs(
            PASSED_ON
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        command
    }

    /// `--kernel` and its value for Debian's kernel at a place of his, and `--modules`.
    pub fn own_kernel(&self) -> [String; 4] {
        let kernel = self.link(Path::new(KERNEL), "linux.uml");
        [
            "--kernel".into(),
            format!("uml:{}", kernel.display()),
            "--modules".into(),
            MODULES.into(),
        ]
    }

    /// A path of his that the kernel for virtual time has.
    pub fn simulation_kernel(&self) -> String {
        let kernel = self.link(virtual_kernel(), "linux-virtual");
        kernel.display().to_string()
    }

    /// `--virtual-time`, and `--kernel` with the kernel for it.
    pub fn virtual_time(&self) -> [String; 3] {
        [
            "--virtual-time".into(),
            "--kernel".into(),
            format!("uml:{}", self.simulation_kernel()),
        ]
    }

    /// The library that answers ptrace(2) as a host with AMX does.
    pub fn amx(&self) -> PathBuf {
        self.library(AMX_HOST)
    }

    /// Lets a command of ours, and the kernels that it starts, run on another day: their clocks are
    /// ahead by more than three months.
    pub fn on_another_day(&self, command: &mut Command) {
        let library = self.library(OTHER_DAY);
        command.envs(PASSED_ON.map(|name| (name, &library)));
    }

    /// A library to preload.
    fn library(&self, name: &str) -> PathBuf {
        self.link(&program(name), name)
    }

    /// The processes that run from here: ours, and those of kernels.
    pub fn processes(&self) -> Vec<i32> {
        let entries = std::fs::read_dir("/proc")
            .expect("there is /proc")
            .flatten();
        let ours = entries.filter(|entry| {
            std::fs::read_link(entry.path().join("exe"))
                .is_ok_and(|program| program.starts_with(self.0.path()))
        });
        ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Those of them that run a program with a name.
    pub fn processes_of(&self, name: &str) -> Vec<i32> {
        let runs = |pid: &i32| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|program| program.ends_with(name))
        };
        self.processes().into_iter().filter(runs).collect()
    }

    /// Those of them that are a kernel itself: it leads the process group of its guest.
    pub fn kernels(&self) -> Vec<i32> {
        let leads = |pid: &i32| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe"));
            let is_kernel = program.is_ok_and(|program| program.ends_with("linux.uml"));
            is_kernel
                && nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(*pid)))
                    .is_ok_and(|id| id.as_raw() == *pid)
        };
        self.processes().into_iter().filter(leads).collect()
    }

    /// What there is of the directories of a process of ours, by the marks in their names.
    pub fn directories_of(&self, pid: u32) -> Vec<PathBuf> {
        let mark = format!("crashpoint-{pid}-");
        let places = [Path::new("/dev/shm").to_owned(), self.temporary()];
        let entries = places
            .iter()
            .flat_map(|place| std::fs::read_dir(place).expect("it is there").flatten());
        entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&mark))
            .map(|entry| entry.path())
            .collect()
    }
}

/// The kernel of scripts/build-uml.sh, which finds what it built before.
fn virtual_kernel() -> &'static Path {
    static KERNEL: OnceLock<PathBuf> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/build-uml.sh");
        let output = Command::new(script)
            .arg("--debian")
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "no kernel with virtual time: {said}"
        );
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .into()
    })
}
