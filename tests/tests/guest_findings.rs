//! What was found in a guest, by somebody who is not root: it is told, mounted again, made small,
//! reported and exported. Root is needed to be somebody else.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use end_to_end::{Ordinary, Running, printed, said, words};
use nix::pty::{OpenptyResult, openpty};
use nix::sys::signal::Signal;
use nix::sys::termios::{LocalFlags, tcgetattr};

/// What a guest may take for anything here. It takes a second or two; other tests may keep the
/// machine busy.
const PATIENCE: Duration = Duration::from_secs(600);

/// The second operation of the run is what nothing needs.
const WORKLOAD: &str = "workload data; setup; mkdir B; creat B/x; run; mkdir A; creat bar; creat A/foo; \
                        write A/foo 0 16K; fsync A/foo; unlink bar\n";

/// On a disk that loses the fifth write of a run, ext4 finds out after the sync, and was told to
/// panic then.
const DEADLY: &str = "workload deadly; mkdir A; creat A/foo; write A/foo 0 4K; fsync A/foo; creat A/bar; sync; mkdir B\n";

/// Who runs it: nobody of Debian.
const USER: u32 = 65534;

/// The directory with the results.
const RESULTS: &str = "results";

fn run(place: &Ordinary, arguments: &[&str]) -> Output {
    place.crashpoint(arguments).output().expect("it runs")
}

/// What a command prints that ends with this status, and what it says.
#[track_caller]
fn ends(place: &Ordinary, status: i32, arguments: &[&str]) -> (String, String) {
    let output = run(place, arguments);
    let (printed, said) = (printed(&output), said(&output));
    assert_eq!(
        output.status.code(),
        Some(status),
        "{arguments:?}: {printed}{said}"
    );
    (printed, said)
}

/// Leaves the results of a workload in a guest, which shows something.
#[track_caller]
fn sweep(place: &Ordinary, workload: &str, flags: &[&str]) {
    place.file("w.wl", workload);
    // The user makes files himself.
    std::os::unix::fs::chown(place.path(""), Some(USER), Some(USER)).expect("given away");
    ends(
        place,
        1,
        &[&["fs", "w.wl", "--jobs", "1", "--out", RESULTS], flags].concat(),
    );
}

/// The same, under Debian's kernel.
#[track_caller]
fn swept(workload: &str, flags: &[&str]) -> Ordinary {
    let place = Ordinary::new();
    sweep(&place, workload, &[&["--kernel", "uml"], flags].concat());
    place
}

/// The lines of a story that start with a word, without it.
fn lines<'a>(story: &'a str, head: &str) -> Vec<&'a str> {
    story
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix(head))
        .map(str::trim)
        .collect()
}

/// A line of the user's shell.
fn shell(place: &Ordinary, line: &str) -> Output {
    let like = place.crashpoint(&[]);
    let mut shell = Command::new("sh");
    std::os::unix::process::CommandExt::uid(&mut shell, USER);
    shell.args(["-c", line]).env_clear().envs(
        like.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    shell
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

/// The command at a terminal, of which we have the other end.
struct AtTerminal {
    process: Running,
    keys: File,
    terminal: std::os::fd::OwnedFd,
    shown: Receiver<Vec<u8>>,
    so_far: String,
}

impl AtTerminal {
    fn start(mut command: Command) -> Self {
        let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
        let its = || slave.try_clone().expect("cloned");
        command.stdin(its()).stdout(its()).stderr(its());
        let process = Running::start(command.env("TERM", "dumb"));
        let (keys, mut screen) = (
            File::from(master.try_clone().expect("cloned")),
            File::from(master),
        );
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                if send.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            keys,
            terminal: slave,
            shown,
            so_far: String::new(),
        }
    }

    /// Waits until this is shown.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.so_far.contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.shown.recv_timeout(left) else {
                panic!("no {text:?} in {:?}", self.so_far)
            };
            self.so_far += &String::from_utf8_lossy(&bytes);
        }
    }

    fn type_in(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).expect("typed");
    }

    /// Whether the terminal makes lines of what is typed.
    fn makes_lines(&self) -> bool {
        tcgetattr(&self.terminal)
            .expect("it is one")
            .local_flags
            .contains(LocalFlags::ICANON)
    }
}

#[test]
fn a_state_is_mounted_in_a_guest_again_also_at_a_terminal_and_made_small() {
    let place = swept(WORKLOAD, &["--fs", "ext4", "--disk", "drop-flush"]);
    let (story, _) = ends(&place, 1, &["show", RESULTS, "1"]);
    assert!(
        lines(&story, "lost ")
            .iter()
            .any(|lost| lost.ends_with(": data of A/foo")),
        "{story}"
    );
    assert_mounted_again(&place);
    assert_there_is_a_shell_at_a_terminal(&place);
    let (story, _) = ends(&place, 1, &["minimize", RESULTS, "1"]);
    assert!(
        lines(&story, "workload ")[0].ends_with("mkdir A; creat A/foo; fsync A/foo"),
        "{story}"
    );
    let again = shell(&place, lines(&story, "replay ")[0]);
    assert_eq!(again.status.code(), Some(1), "{}", end_to_end::said(&again));
}

/// Nobody is at a terminal.
fn assert_mounted_again(place: &Ordinary) {
    // The files are listed.
    let (listed, said) = ends(place, 1, &["replay", RESULTS, "1"]);
    assert!(
        listed.contains(" B\n") && listed.contains(" x\n") && !listed.contains(" A\n"),
        "{listed}{said}"
    );
    assert!(
        said.contains("broken: A: the directory is missing (fsync-names)"),
        "{said}"
    );

    let command = "pwd; id -u; uname -r; echo to people >&2; ls {}; touch {}/new; exit 7";
    let (seen, said) = ends(place, 1, &["replay", RESULTS, "1", "--command", command]);
    let seen: Vec<_> = seen.lines().collect();
    let manifest =
        std::fs::read_to_string(place.path(RESULTS).join("manifest.json")).expect("it is there");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    let release = manifest["kernel_release"].as_str().expect("text");
    let here = place.path("").display().to_string();
    assert_eq!(
        seen,
        [here.trim_end_matches('/'), "0", release, "B", "lost+found"],
        "{said}"
    );
    assert!(
        said.contains("to people\n") && said.ends_with("the command ended with exit status: 7\n"),
        "{said}"
    );
}

fn assert_there_is_a_shell_at_a_terminal(place: &Ordinary) {
    let replay = ["replay", RESULTS, "1"];

    let mut seat = AtTerminal::start(place.crashpoint(&replay));
    seat.wait_for("until you leave it");
    // One process prints and waits: a shell of 6.1 that is about to start another has been seen to
    // miss a Ctrl-C.
    seat.type_in("tty; test -d B && echo be$((40 + 2)) >/run/seen; tail -f /run/seen\n");
    seat.wait_for("be42");
    assert!(!seat.makes_lines());
    // Ctrl-C is for what runs there.
    seat.type_in("\x03");
    seat.type_in("stty size; exit 5\n");
    seat.wait_for("24 80");
    assert_eq!(seat.process.end().code(), Some(1), "{}", seat.so_far);
    assert!(seat.so_far.contains("/dev/pts/"), "{}", seat.so_far);
    assert!(seat.makes_lines());

    // Whoever ends it from elsewhere gets his terminal back too, and no guest is left.
    let mut seat = AtTerminal::start(place.crashpoint(&replay));
    seat.wait_for("until you leave it");
    seat.type_in("echo be$((40 + 2))\n");
    seat.wait_for("be42");
    seat.process.send(Signal::SIGTERM);
    assert_eq!(seat.process.end().code(), Some(3), "{}", seat.so_far);
    assert!(seat.makes_lines());
    assert_eq!(place.processes(), Vec::<i32>::new());
}

/// Nothing that is typed comes into virtual time; what is looked at there is the same each time.
#[test]
fn in_virtual_time_a_state_is_the_same_each_time() {
    let place = Ordinary::new();
    let kernel = place.virtual_time();
    sweep(
        &place,
        WORKLOAD,
        &[
            words(&kernel).as_slice(),
            &["--fs", "ext4", "--disk", "drop-flush"],
        ]
        .concat(),
    );
    let look = [
        "replay",
        RESULTS,
        "1",
        "--command",
        "date +%N; ls -la --full-time {}; md5sum {}/B/x",
    ];
    let first = ends(&place, 1, &look);
    assert!(first.0.contains(" B\n"), "{first:?}");
    assert_eq!(ends(&place, 1, &look), first);
}

#[test]
fn a_kernel_that_died_is_told_made_small_and_never_mounted() {
    let flags = [
        "--fs",
        "ext4",
        "--mount-options",
        "errors=panic",
        "--disk",
        "lose-write:5",
    ];
    let place = swept(DEADLY, &flags);
    let (story, _) = ends(&place, 1, &["show", RESULTS, "1"]);
    let kernel = lines(&story, "kernel ");
    // Not how it started, but what it died of.
    assert!(
        kernel[..4]
            .iter()
            .any(|line| line.contains("panic forced after error")),
        "{story}"
    );

    for command in [
        &["replay", RESULTS, "1"][..],
        &["export", RESULTS, "1", "--as", "script"],
    ] {
        let (printed, said) = ends(&place, 2, command);
        assert!(
            printed.is_empty() && said.lines().count() == 1,
            "{command:?}: {printed}{said}"
        );
        assert!(
            said.starts_with("error: ") && said.contains("finding 1 is a kernel that died"),
            "{said}"
        );
    }

    let (small, _) = ends(&place, 1, &["minimize", RESULTS, "1"]);
    assert!(small.contains("7 operations down to 6"), "{small}");
    assert_eq!(
        lines(&small, "during "),
        lines(&story, "during "),
        "{small}"
    );
    let again = shell(&place, lines(&small, "replay ")[0]);
    assert!(
        again.status.code() == Some(1) && printed(&again).contains("panic forced after error"),
        "{}",
        said(&again)
    );

    ends(
        &place,
        0,
        &[
            "report",
            RESULTS,
            "--html",
            "report.html",
            "--junit",
            "junit.xml",
        ],
    );
    for file in ["report.html", "junit.xml"] {
        let text = std::fs::read_to_string(place.path(file)).expect("it was written");
        assert!(
            text.contains("panic forced after error") && !text.contains("Core dump limits"),
            "{file}"
        );
    }
}

/// A bug of btrfs in every kernel until now; docs/results.md explains it.
#[test]
fn what_is_exported_runs_in_a_guest_and_finds_it_again() {
    let workload = "workload half; setup; creat foo; mkdir A; fsync foo; sync; run; rename foo A/foo; fsync A\n";
    let place = swept(workload, &["--fs", "btrfs"]);
    let (list, _) = ends(&place, 1, &["show", RESULTS]);
    assert!(list.contains("rename-atomic"), "{list}");
    let (_, told) = ends(
        &place,
        0,
        &["export", RESULTS, "1", "--as", "script", "-o", "half.sh"],
    );
    let command = told
        .lines()
        .find_map(|line| line.strip_prefix("found in a guest, where it runs with: "));
    let output = shell(
        &place,
        command.unwrap_or_else(|| panic!("no command: {told}")),
    );
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        printed(&output).contains("not one of A/foo and foo is there, but both or neither"),
        "{output:?}"
    );
    for form in ["fstests", "jlang"] {
        let (text, _) = ends(&place, 0, &["export", RESULTS, "1", "--as", form]);
        assert!(text.contains("A/foo"), "{form}: {text}");
    }
}
