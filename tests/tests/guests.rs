//! Guests, started by somebody who is not root: known answers under User-Mode Linux, what dies and
//! what is killed. Root is needed to be somebody else.

use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use end_to_end::{FILE_SYSTEMS, Ordinary, Report, Running, printed, said, wait_until, words};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often is tried what a busy machine may be too slow for.
const LAZY_TRIES: usize = 20;

/// What btrfs of Linux 6.1 breaks in the workloads of B3, with the promise; docs/results.md
/// explains each.
const KNOWN_ON_BTRFS: [(&str, &str); 6] = [
    // fsync of a file that was removed while it was open: its name is back (mended in 6.16).
    ("btrfs_rename_file", "fsync-names"),
    ("btrfs_rename_special_dev", "fsync-names"),
    ("btrfs_rename_special_fifo", "fsync-names"),
    ("btrfs_rename_special_symlink", "fsync-names"),
    // As in 6.18.
    ("generic_321", "rename-atomic"),
    ("new_1", "fsync-names"),
];

/// `fs` with two workers, whose results are printed as JSON.
const SWEEP: [&str; 5] = ["fs", "--jobs", "2", "--format", "json"];

/// Of seq-1, under Debian's kernel, what these options select: at least so many workloads.
fn seq_1(file_system: &str, options: &[&str], least: u64) -> Report {
    let place = Ordinary::new();
    let sweep = ["--kernel", "uml", "--preset", "seq-1", "--fs", file_system];
    let words = [&SWEEP, sweep.as_slice(), options].concat();
    let report = Report::of_process(place.crashpoint(&words));
    assert!(report.total("workloads") >= least, "{:?}", report.summaries);
    report
}

/// Of the workloads of B3, by name, every n-th under Debian's kernel.
fn b3(file_system: &str, every: usize) -> Report {
    let place = Ordinary::new();
    let files = place.repository("workloads/b3");
    assert!(files.len() >= 50, "{} files", files.len());
    let mut command =
        place.crashpoint(&[&SWEEP, ["--kernel", "uml", "--fs", file_system].as_slice()].concat());
    command.args(files.iter().step_by(every));
    Report::of_process(command)
}

#[test]
fn a_sample_of_seq_1_is_clean_on_ext4() {
    seq_1("ext4", &["--sample", "40", "--seed", "1"], 40).assert_clean();
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn all_of_seq_1_is_clean_but_for_what_f2fs_is_known_to_break() {
    for file_system in FILE_SYSTEMS {
        seq_1(file_system, &[], 200).assert_clean();
    }
    assert_breaks_seq_1_44(&seq_1("f2fs", &[], 200));
}

/// Its module is loaded, and its mkfs gives the root directory to the user.
#[test]
fn f2fs_breaks_the_workload_of_seq_1_that_it_is_known_to_break() {
    assert_breaks_seq_1_44(&seq_1("f2fs", &["--range", "30..60"], 30));
}

fn assert_breaks_seq_1_44(report: &Report) {
    assert_eq!(
        report.total("inconclusive"),
        0,
        "{:?}",
        report.with_verdict("inconclusive")
    );
    // A hole across the end of a file makes it larger; docs/results.md explains it.
    assert_eq!(
        report.broken(),
        [("seq-1/44".to_owned(), "fsync-data".to_owned())]
    );
}

/// B3's new bug 10.
#[test]
fn f2fs_loses_the_rename_of_a_directory_unless_it_is_asked_to_be_strict() {
    let place = Ordinary::new();
    place.file(
        "new_10.wl",
        "workload new_10; mkdir A; sync; rename A B; creat B/foo; fsync B/foo; !\n",
    );
    let broken = |options: &[&str]| {
        let sweep = [&["--kernel", "uml", "new_10.wl"], options].concat();
        let report = Report::of_process(place.crashpoint(&[&SWEEP, sweep.as_slice()].concat()));
        assert_eq!(report.total("inconclusive"), 0, "{:?}", report.summaries);
        report.broken()
    };
    assert_eq!(broken(&["--fs", "f2fs"]), []);
    assert_eq!(broken(&["--fs", "f2fs:fsync_mode=strict"]), []);
    assert_eq!(
        broken(&["--fs", "f2fs", "--contract", "f2fs:fsync_mode=strict"]),
        [("new_10".to_owned(), "earlier-renames".to_owned())]
    );
}

/// The first fsync after a mount does not wait for its write before it sends the flush, the second
/// does; docs/results.md explains it.
#[test]
fn a_lazy_disk_shows_that_f2fs_does_not_wait_in_its_first_fsync() {
    let place = Ordinary::new();
    place.file(
        "fsync.wl",
        "workload first; creat foo; fsync foo\n\
         workload second; creat bar; fsync bar; creat foo; fsync foo; !\n",
    );
    let broken = |file_system, disk| {
        let sweep = [
            "--kernel",
            "uml",
            "--fs",
            file_system,
            "--disk",
            disk,
            "fsync.wl",
        ];
        let report = Report::of_process(place.crashpoint(&[&SWEEP, sweep.as_slice()].concat()));
        assert_eq!(
            report.total("inconclusive"),
            0,
            "{:?}",
            report.with_verdict("inconclusive")
        );
        report.broken()
    };
    let first = [("first".to_owned(), "fsync-new-names".to_owned())];
    // The disk waits for 2 ms at most: on a busy machine the flush may come after that.
    let mut tries = (0..LAZY_TRIES).map(|_| broken("f2fs", "lazy:3"));
    let found = tries.find(|broken| !broken.is_empty());
    assert_eq!(
        found.unwrap_or_default(),
        first,
        "if this kernel is not a 6.1, it may be mended"
    );
    assert_eq!(broken("f2fs", "honest"), []);
    assert_eq!(broken("ext4", "lazy:3"), []);
}

#[test]
fn some_workloads_of_b3_are_clean_on_xfs_and_f2fs() {
    for (file_system, every) in [("xfs", 6), ("f2fs", 4)] {
        let report = b3(file_system, every);
        assert!(report.total("workloads") >= 9, "{:?}", report.summaries);
        report.assert_clean();
    }
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn the_workloads_of_b3_are_clean_on_ext4_xfs_and_f2fs() {
    for file_system in ["ext4", "xfs", "f2fs"] {
        b3(file_system, 1).assert_clean();
    }
}

#[test]
fn btrfs_breaks_the_workloads_of_b3_that_it_is_known_to_break() {
    let report = b3("btrfs", 1);
    assert_eq!(
        report.total("inconclusive"),
        0,
        "{:?}",
        report.with_verdict("inconclusive")
    );
    let known: Vec<_> = KNOWN_ON_BTRFS
        .map(|(workload, promise)| (workload.to_owned(), promise.to_owned()))
        .into();
    assert_eq!(
        report.broken(),
        known,
        "if this kernel is not a 6.1, the list is another"
    );
}

#[test]
fn where_a_repair_runs_makes_no_difference() {
    assert_repaired_alike(&["ext2"]);
}

#[test]
#[ignore = "takes half a minute: make test-long"]
fn where_a_repair_of_vfat_or_minix_runs_makes_no_difference() {
    assert_repaired_alike(&["vfat", "minix"]);
}

/// On the host of its guest, or in it, which it is in virtual time.
fn assert_repaired_alike(file_systems: &[&str]) {
    let place = Ordinary::new();
    place.file(
        "three.wl",
        "workload kept; creat foo; write foo 0 16K; fsync foo; sync\n\
         workload names; mkdir A; sync; creat A/foo; write A/foo 0 16K; fsync A/foo; creat A/bar; fsync A\n\
         workload gone; creat foo; write foo 0 64K; sync; unlink foo; creat bar; write bar 0 64K; sync\n",
    );
    let kernel = place.virtual_time();
    for file_system in file_systems {
        let sweep = |kernel: &[String]| {
            let fs = ["--fs", file_system, "three.wl"];
            let report = Report::of_process(
                place.crashpoint(&[&SWEEP, words(kernel).as_slice(), &fs].concat()),
            );
            assert_eq!(
                (report.total("workloads"), report.total("inconclusive")),
                (3, 0),
                "{:?}",
                report.results
            );
            // How many states differ is up to what the kernel writes by itself meanwhile.
            assert!(report.total("states_checked") > 3, "{:?}", report.results);
            report.broken()
        };
        assert_eq!(sweep(&kernel[1..]), sweep(&kernel), "{file_system}");
    }
}

#[test]
fn flushes_that_cover_nothing_are_caught() {
    let place = Ordinary::new();
    place.file(
        "lies.wl",
        "workload data; creat foo; write foo 0 16K; fsync foo\n\
         workload overwrite; setup; creat foo; write foo 0 16K; run; write foo 0 16K; fdatasync foo\n",
    );
    for file_system in FILE_SYSTEMS {
        let sweep = [
            "--kernel",
            "uml",
            "--disk",
            "drop-flush",
            "--fs",
            file_system,
            "lies.wl",
        ];
        let report = Report::of_process(place.crashpoint(&[&SWEEP, sweep.as_slice()].concat()));
        assert_eq!(
            report.with_verdict("finding"),
            ["data", "overwrite"],
            "{file_system}: {:?}",
            report.summaries
        );
        assert_eq!(report.status, 1);
    }
}

/// A mount of a file, that anybody sees; unmounted when dropped.
struct LoopMount(tempfile::TempDir);

impl LoopMount {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (image, point) = (
            directory.path().join("image"),
            directory.path().join("point"),
        );
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(8 << 20))
            .expect("made");
        std::fs::create_dir(&point).expect("made");
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            let status = Command::new(program)
                .args(arguments)
                .stdout(Stdio::null())
                .status()
                .expect("run");
            assert!(status.success(), "{program}: {status}");
        };
        run("mkfs.ext4", &["-q".as_ref(), image.as_os_str()]);
        run(
            "mount",
            &[
                "-o".as_ref(),
                "loop".as_ref(),
                image.as_os_str(),
                point.as_os_str(),
            ],
        );
        Self(directory)
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg(self.0.path().join("point"))
            .status();
    }
}

/// mkfs.btrfs looks at everything that is mounted from a loop device, which only root may.
#[test]
fn what_somebody_has_mounted_is_no_obstacle() {
    let _mounted = LoopMount::new();
    let place = Ordinary::new();
    let sweep = [
        "--kernel", "uml", "--fs", "btrfs", "--preset", "seq-1", "--range", "0..4",
    ];
    Report::of_process(place.crashpoint(&[&SWEEP, sweep.as_slice()].concat())).assert_clean();
}

/// A sweep whose results are read as they come. It is killed when dropped.
struct Sweep {
    process: Running,
    said: std::fs::File,
    output: BufReader<std::process::ChildStdout>,
    lines: Vec<String>,
}

impl Sweep {
    fn start(mut command: Command) -> Self {
        let said = tempfile::tempfile().expect("a file");
        command
            .stdout(Stdio::piped())
            .stderr(said.try_clone().expect("cloned"));
        let mut process = Running::start(&mut command);
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Self {
            process,
            said,
            output,
            lines: Vec::new(),
        }
    }

    /// Reads until there are so many lines.
    fn read_until(&mut self, count: usize) {
        while self.lines.len() < count {
            let mut line = String::new();
            assert!(
                self.output.read_line(&mut line).expect("text") > 0,
                "it ended: {}",
                self.said()
            );
            self.lines.push(line.trim_end().to_owned());
        }
    }

    /// What it said on standard error.
    fn said(&mut self) -> String {
        let mut text = String::new();
        self.said
            .rewind()
            .and_then(|()| self.said.read_to_string(&mut text))
            .expect("text");
        text
    }

    /// Reads the rest; the exit status and all results, in order, and the summary.
    fn end(mut self) -> (Option<i32>, Vec<String>, Value) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        self.lines.extend(rest.lines().map(str::to_owned));
        let summary = self.lines.pop().unwrap_or_default();
        let Ok(summary) = serde_json::from_str::<Value>(&summary) else {
            panic!("no summary: {}", self.said())
        };
        assert_eq!(summary["type"], "summary", "{}", self.said());
        self.lines.sort();
        (
            self.process.end().code(),
            std::mem::take(&mut self.lines),
            summary,
        )
    }
}

#[test]
fn a_killed_guest_costs_nothing() {
    let place = Ordinary::new();
    let kernel = place.own_kernel();
    let selection = ["--fs", "ext4", "--preset", "seq-1", "--range", "0..60"];
    let sweep = [&SWEEP, words(&kernel).as_slice(), &selection].concat();
    let (status, whole, _) = Sweep::start(place.crashpoint(&sweep)).end();
    assert_eq!((status, whole.len()), (Some(0), 60));

    let mut killed = Sweep::start(place.crashpoint(&sweep));
    // One is killed at the first result, and then one of the two that there are again.
    for results in [1, 20] {
        killed.read_until(results);
        wait_until("both guests run", PATIENCE, || place.kernels().len() == 2);
        kill(Pid::from_raw(place.kernels()[0]), Signal::SIGKILL).expect("killed");
    }
    let (status, results, summary) = killed.end();
    assert_eq!(results, whole);
    assert_eq!(
        (status, &summary["inconclusive"], &summary["interrupted"]),
        (Some(0), &0.into(), &false.into())
    );
}

#[test]
fn nothing_is_left_when_the_program_is_killed() {
    let place = Ordinary::new();
    let kernel = place.own_kernel();
    let sweep = [
        &SWEEP,
        words(&kernel).as_slice(),
        &["--fs", "ext4", "--preset", "seq-2"],
    ]
    .concat();
    let mut sweep = Sweep::start(place.crashpoint(&sweep));
    sweep.read_until(10);
    let pid = sweep.process.id();
    // It, and a keeper, a kernel and more for each of two guests, which have a directory each.
    wait_until("both guests run", PATIENCE, || {
        place.kernels().len() == 2
            && place.processes().len() > 5
            && place.directories_of(pid).len() >= 2
    });
    sweep.process.kill().expect("killed");
    let killed = Instant::now();
    sweep.process.end();
    let nothing = || place.processes().is_empty() && place.directories_of(pid).is_empty();
    // It takes half a second where the machine has nothing else to do.
    wait_until("no process and no directory is left", PATIENCE, nothing);
    println!("nothing was left after {:?}", killed.elapsed());
}

/// Three workloads of which the second is the one that the kernel dies of: on this disk the fifth
/// write of a run is lost, ext4 finds out after it, and was told to panic then.
#[test]
fn a_guest_that_panics_is_a_finding() {
    let place = Ordinary::new();
    place.file(
        "three.wl",
        "workload before; creat foo; fsync foo\n\
         workload deadly; mkdir A; creat A/foo; write A/foo 0 64K; fsync A/foo; creat A/bar; sync; unlink A/foo; sync\n\
         workload after; creat bar; fsync bar\n",
    );
    let options = [
        "--kernel",
        "uml",
        "--fs",
        "ext4",
        "--mount-options",
        "errors=panic",
        "--disk",
        "lose-write:5",
        "three.wl",
    ];
    let report = Report::of_process(place.crashpoint(&[&SWEEP, options.as_slice()].concat()));
    assert_dies_in_the_second(&report, "panic forced after error");
    // Which of the steps it was that it died in is told.
    let deadly = report
        .results
        .iter()
        .find(|result| !result["death"].is_null())
        .expect("there is one");
    assert_ne!(deadly["death"]["during"], "starting", "{deadly}");
}

#[track_caller]
fn assert_dies_in_the_second(report: &Report, words: &str) {
    let deaths: Vec<_> = report
        .results
        .iter()
        .filter(|result| !result["death"].is_null())
        .collect();
    assert_eq!(deaths.len(), 1, "{:?}", report.results);
    let death = &deaths[0]["death"];
    assert!(
        death["what"]
            .as_str()
            .is_some_and(|what| what.contains(words)),
        "{death}"
    );
    assert!(
        death["log"].as_array().is_some_and(|log| log.len() > 10),
        "{death}"
    );
    assert_eq!(report.with_verdict("finding"), ["deadly"]);
    assert_eq!(report.with_verdict("clean"), ["after", "before"]);
    assert_eq!(
        (
            report.total("findings"),
            report.total("inconclusive"),
            report.status
        ),
        (1, 0, 1)
    );
}

/// It has to find every page that can be given back before it gives up.
#[test]
#[ignore = "takes a minute or two: make test-long"]
fn a_guest_that_runs_out_of_memory() {
    let place = Ordinary::new();
    place.file(
        "three.wl",
        "workload before; creat foo; fsync foo\n\
         workload deadly; creat foo; write foo 0 100M; fsync foo\n\
         workload after; creat bar; fsync bar\n",
    );
    let sweep = |parameters: &str| {
        let options = [
            "--kernel",
            "uml",
            "--kernel-parameters",
            parameters,
            "--fs",
            "xfs",
            "three.wl",
        ];
        Report::of_process(place.crashpoint(&[&SWEEP, options.as_slice()].concat()))
    };
    assert_dies_in_the_second(&sweep("mem=170M sysctl.vm.panic_on_oom=1"), "Out of memory");

    // Where it ends programs instead, ours is the one: that tells nothing of the file system.
    let report = sweep("mem=170M");
    let result = report
        .results
        .iter()
        .find(|result| result["workload"] == "deadly")
        .expect("there is one");
    assert!(
        result["inconclusive"]
            .as_str()
            .is_some_and(|why| why.contains("memory")),
        "{result}"
    );
    assert_eq!(report.with_verdict("inconclusive"), ["deadly"]);
    assert_eq!(report.with_verdict("clean"), ["after", "before"]);
    assert_eq!((report.total("findings"), report.status), (0, 3));
}

/// What cannot be run is refused with one line that says these things.
#[track_caller]
fn refuses(place: &Ordinary, arguments: &[&str], expected: &[&str]) {
    let output = place.crashpoint(arguments).output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    assert!(said.starts_with("error: "), "{arguments:?}: {said}");
    assert!(
        expected.iter().all(|part| said.contains(part)),
        "{arguments:?}: {said} lacks one of {expected:?}"
    );
    assert_eq!(printed(&output), "", "{arguments:?}");
}

/// A modules.dep that names these modules of Debian's kernel.
fn modules(names: [&str; 2]) -> String {
    let mut find = Command::new("find");
    find.args([
        "/usr/lib/uml/modules",
        "-name",
        names[0],
        "-printf",
        "%p:\\n",
        "-o",
    ]);
    let found = printed(
        &find
            .args(["-name", names[1], "-printf", "%p:\\n"])
            .output()
            .expect("it runs"),
    );
    assert_eq!(found.lines().count(), names.len(), "{found}");
    found
}

#[test]
fn kernels_that_cannot_be_used() {
    let place = Ordinary::new();
    place.file("one.wl", "creat foo; fsync foo\n");
    place.file("text", "text\n");
    place.shared("empty");
    let script = place.file("script", "#!/bin/sh\necho hello\n");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("changed");
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["--kernel", "uml:/bin/true"],
            &["/bin/true is not a User-Mode Linux kernel"],
        ),
        (
            &["--kernel", "uml:script"],
            &["script is not a User-Mode Linux kernel"],
        ),
        (
            &["--kernel", "uml:text"],
            &["text is not a program", "make ARCH=um"],
        ),
        (&["--kernel", "uml:nowhere"], &["nowhere"]),
        (
            &["--kernel", "uml", "--modules", "nowhere"],
            &["nowhere is not a directory"],
        ),
        (
            &["--kernel", "uml", "--modules", "empty"],
            &["no modules", "empty", "depmod"],
        ),
        (
            &["--kernel", "uml", "--kernel-parameters", "mem=16M"],
            &["its memory", "too small"],
        ),
        (
            &["--kernel", "uml:/usr/bin/linux.uml", "--virtual-time"],
            &["no virtual time", "scripts/build-uml.sh"],
        ),
        // The user has none of his own.
        (
            &["--kernel", "uml", "--virtual-time"],
            &["build it with scripts/build-uml.sh"],
        ),
    ];
    for (kernel, expected) in cases {
        refuses(
            &place,
            &[&["fs", "--fs", "ext4", "one.wl"], kernel].concat(),
            expected,
        );
    }
    for (kernel, expected) in &cases[..4] {
        refuses(
            &place,
            &[&["machine"], *kernel, &["--", "true"]].concat(),
            expected,
        );
    }
    // What makes disks is there, the file system is not.
    let partial = place.shared("partial").join("modules.dep");
    std::fs::write(partial, modules(["fuse.ko", "loop.ko"])).expect("written");
    let f2fs = [
        "fs",
        "--fs",
        "f2fs",
        "--kernel",
        "uml",
        "--modules",
        "partial",
        "one.wl",
    ];
    refuses(&place, &f2fs, &["this kernel has no f2fs", "--modules"]);
    refuses(
        &place,
        &["machine", "--share", "nowhere", "--", "true"],
        &["share nowhere"],
    );
}

#[test]
fn commands_in_a_guest_end_as_they_do_anywhere() {
    let place = Ordinary::new();
    let run = |arguments: &[&str]| {
        place
            .crashpoint(&[&["machine"], arguments].concat())
            .output()
            .expect("it runs")
    };
    let script = "echo printed; echo said >&2; id -u; touch /usr/mine || exit 7";
    let output = run(&["--", "sh", "-c", script]);
    assert_eq!(
        (output.status.code(), printed(&output)),
        (Some(7), "printed\n0\n".to_owned()),
        "{}",
        said(&output)
    );
    assert!(said(&output).starts_with("said\n"), "{}", said(&output));
    assert_eq!(
        run(&["--", "sh", "-c", "kill -KILL $$"]).status.code(),
        Some(128 + 9)
    );

    // It writes where it was told that it may, and sees its own files only there.
    let shared = place.shared("shared");
    let path = shared.to_str().expect("text");
    let output = run(&[
        "--share",
        path,
        "--",
        "sh",
        "-c",
        "echo kept >\"$0/file\"; echo lost >/tmp/file",
        path,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        std::fs::read_to_string(shared.join("file")).expect("read"),
        "kept\n"
    );
    assert!(!place.temporary().join("file").exists());
}
