//! What simulated machines do not bear is said in one line, to somebody who is not root. Root is
//! needed to be somebody else.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use end_to_end::{Ordinary, Running, copy_to_run, printed, said, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// One node that does nothing.
const IDLE: &str = "\
[[nodes]]
name = \"keeper\"
command = \"sh -c 'echo ready; exec sleep 1000'\"
ready = { log = \"ready\" }

[client]
command = \"true\"

[check]
command = \"true\"
";

/// A place with a cluster file, and a kernel for it.
fn place(cluster: &str) -> (Ordinary, String) {
    let place = Ordinary::new();
    place.file("cluster.toml", cluster);
    let kernel = place.simulation_kernel();
    (place, kernel)
}

/// What runs it; options may follow.
fn words(kernel: &str) -> [&str; 7] {
    [
        "cluster",
        "run",
        "cluster.toml",
        "--simulate",
        "--client",
        "--kernel",
        kernel,
    ]
}

fn run(place: &Ordinary, kernel: &str, options: &[&str]) -> Output {
    let mut command = place.crashpoint(&[&words(kernel), options].concat());
    command.output().expect("it runs")
}

/// The program as the user runs it where something else is mounted for him alone; its arguments follow.
fn where_mounted(place: &Ordinary, mount: &str) -> Command {
    let mut unshare = Command::new("unshare");
    let ordinary = "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    let script = format!("mount {mount} && {ordinary}");
    let program = place.crashpoint(&[]).get_program().to_owned();
    unshare.args(["-m", "sh", "-c", &script, "sh"]).arg(program);
    unshare.current_dir(place.path(""));
    unshare
}

/// The same where a program of the system says something and then ends like this.
fn where_it_ends(place: &Ordinary, program: &str, end: &str) -> Command {
    let fake = place.file(program, &format!("#!/bin/sh\necho looked\n{end}\n"));
    std::fs::set_permissions(&fake, Permissions::from_mode(0o755)).expect("changed");
    where_mounted(place, &format!("--bind {program} /usr/sbin/{program}"))
}

/// It could not run, and says this in a line.
#[track_caller]
fn refused(output: &Output, expected: &str) {
    let words = said(output);
    assert_eq!(output.status.code(), Some(2), "{}{words}", printed(output));
    assert!(words.contains(expected), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[test]
fn a_kernel_that_lacks_something_is_refused_by_what_it_lacks() {
    let (place, _) = place(IDLE);
    // What kernels say of themselves; no such kernel is started.
    let kernel = |help: &str| {
        let path = place.file(
            "kernel",
            &format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 6.1.0 || echo '{help}'\n"),
        );
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("changed");
        path.to_str().expect("text").to_owned()
    };
    let cases = [
        (
            "seed=",
            "has no virtual time (CONFIG_UML_TIME_TRAVEL_SUPPORT): build one that has",
        ),
        (
            "time-travel",
            "has no seed for its random numbers (scripts/uml/3-seed.patch)",
        ),
        (
            "time-travel seed=",
            "was built without CONFIG_VIRTIO_UML, CONFIG_VIRTIO_NET",
        ),
    ];
    for (help, expected) in cases {
        refused(&run(&place, &kernel(help), &[]), expected);
    }
    let without_chaos = kernel(
        "time-travel seed= CONFIG_VIRTIO_UML=y CONFIG_VIRTIO_NET=y CONFIG_VIRTIO_BLK=y CONFIG_VIRTIO_CONSOLE=y",
    );
    refused(
        &run(&place, &without_chaos, &["--chaos", "low"]),
        "has no chaos (scripts/uml/7-chaos.patch)",
    );
}

#[test]
fn a_command_that_is_not_in_the_machine_is_named() {
    let (place, kernel) =
        place(&IDLE.replace("sh -c 'echo ready; exec sleep 1000'", "no-such-program"));
    refused(
        &run(&place, &kernel, &[]),
        "node keeper: there is no program no-such-program: install it, or give its path",
    );
    // What a script calls, only the machine knows.
    place.file(
        "cluster.toml",
        &IDLE.replace("exec sleep 1000", "exec no-such-program"),
    );
    let output = run(&place, &kernel, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let last = said(&output).lines().last().unwrap_or_default().to_owned();
    let expected = "node keeper ended with status 127 by itself; its log ends: ready | sh: 1: exec: no-such-program: not found";
    assert!(last.ends_with(expected), "{last}");
}

#[test]
fn a_full_disk_of_a_machine_is_said() {
    let setup = "ready = { log = \"ready\" }\nsetup = [\"fallocate -l 2G big\"]\n";
    let (place, kernel) = place(&IDLE.replace("ready = { log = \"ready\" }\n", setup));
    let output = run(&place, &kernel, &[]);
    refused(
        &output,
        "node keeper cannot be set up: fallocate -l 2G big ended with status 1",
    );
    assert!(
        said(&output).contains("No space left on device"),
        "{}",
        said(&output)
    );
}

/// What a disk is, and what happened to the program that was to repair it, are two things: only the
/// first says something of the node.
#[test]
fn a_disk_that_cannot_be_repaired_is_told_from_a_repair_that_was_killed() {
    let (place, kernel) = place(&format!("disk = \"minix\"\n{IDLE}"));
    let with = |end: &str| {
        let mut command = where_it_ends(&place, "fsck.minix", end);
        command.args(words(&kernel)).args(["--restart", "--check"]);
        command.output().expect("it runs")
    };
    let output = with("exit 8");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let expected =
        "broken node keeper does not come up: it cannot use its disk: it is not repaired: ";
    assert!(
        printed(&output).starts_with(expected),
        "{}",
        printed(&output)
    );
    let output = with("kill -9 $$");
    assert_eq!(
        output.status.code(),
        Some(2),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let last = said(&output).lines().last().unwrap_or_default().to_owned();
    let expected = "error: the machine of keeper does not do what it is asked for: ";
    assert!(last.starts_with(expected), "{last}");
    assert_eq!(printed(&output), "");
}

/// What a plan does to the node before its machine cannot be set up again.
const POWER_LOSS: &str = "\
[[faults]]
at = { time_s = 0.5 }
fault = \"power-loss\"
on = \"keeper\"
";

/// So many runs of a plan, where a program of the system ends like this, and with a specification that
/// every run violates in which the plan's fault was in place.
fn injected(
    (place, kernel): &(Ordinary, String),
    (plan, runs): (&str, usize),
    program: &str,
    end: &str,
) -> Output {
    place.file("plan.toml", plan);
    place.file("hit.dl", "violation hit(F) :- fault(fault: F).\n");
    let mut command = where_it_ends(place, program, end);
    command.args(["inject", "cluster.toml", "--plan", "plan.toml"]);
    command.args(["--simulate", "--kernel", kernel]);
    command.args(["--repeat", &runs.to_string()]);
    command.args(["--spec", "hit.dl"]);
    command.output().expect("it runs")
}

/// The end of such a fault.
const SOON: &str = "until = { after_s = 0.5 }\n";

/// Who hits the node meanwhile does not take the reason away.
#[test]
fn a_campaign_goes_on_after_a_run_whose_machine_cannot_be_set_up_again() {
    let kill = "[[faults]]\nat = { after_s = 0.6 }\nfault = \"kill\"\non = \"keeper\"\n";
    assert_goes_on_after(&[&format!("{POWER_LOSS}{SOON}{kill}")]);
}

/// It is switched on again when everything is healed, or by the end of the fault.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_campaign_goes_on_wherever_a_machine_cannot_be_set_up_again() {
    assert_goes_on_after(&[POWER_LOSS, &format!("{POWER_LOSS}{SOON}")]);
}

fn assert_goes_on_after(plans: &[&str]) {
    let laid = place(&format!("disk = \"minix\"\n{IDLE}"));
    for plan in plans {
        let output = injected(&laid, (plan, 2), "fsck.minix", "sleep 0.2; kill -9 $$");
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(3), "{text}{}", said(&output));
        let why = "  inconclusive  the machine of keeper does not do what it is asked for: ";
        assert_eq!(text.matches(why).count(), 2, "{text}");
        assert!(text.contains("fault 1: power loss of keeper;"), "{text}");
        let total = "0 broken of 2 runs, 2 inconclusive\n";
        assert!(text.ends_with(total), "{text}");
    }
}

#[test]
fn a_disk_that_cannot_be_repaired_breaks_a_run_and_what_never_starts_ends_a_campaign() {
    let laid = place(&format!("disk = \"minix\"\n{IDLE}"));
    let output = injected(&laid, (POWER_LOSS, 2), "fsck.minix", "exit 8");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", said(&output));
    let expected = "broken        after everything was healed: node keeper cannot use its disk: ";
    assert!(text.contains(expected), "{text}");
    // A disk that failed requests is another matter: that is what became of its file system.
    let writes = "echo ready; while :; do date >{dir}/x; sync; sleep 0.1; done";
    let writes = IDLE.replace("echo ready; exec sleep 1000", writes);
    laid.0
        .file("cluster.toml", &format!("disk = \"minix\"\n{writes}"));
    let fails = POWER_LOSS.replace("power-loss", "disk") + SOON;
    let output = injected(&laid, (&fails, 1), "fsck.minix", "exit 8");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{text}{}", said(&output));
    let expected = "after its disk failed or corrupted requests: node keeper cannot use its disk: ";
    assert_eq!(text.matches(expected).count(), 1, "{text}");
    // And so is one that corrupted some: nobody boots before the power fails.
    let writes = "disk\"\nrequests = \"writes\"\ncorrupt = \"bit";
    let corrupts = POWER_LOSS.replace("power-loss", writes) + SOON;
    let loses = "[[faults]]\nat = { ended = true }\nfault = \"power-loss\"\non = \"keeper\"\n";
    let plan = format!("{corrupts}{loses}");
    let output = injected(&laid, (&plan, 1), "fsck.minix", "exit 8");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{text}{}", said(&output));
    assert_eq!(text.matches(expected).count(), 1, "{text}");
    let output = injected(&laid, (POWER_LOSS, 2), "mkfs.minix", "kill -9 $$");
    let expected = "error: the machine of keeper does not do what it is asked for: ";
    refused(&output, expected);
}

/// Switches a machine off, by somebody in it.
const OFF: &str = "/usr/bin/python3 -IS -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'";

#[test]
fn a_machine_that_ends_during_a_command_is_why_that_does_not_end() {
    let step = format!("[[steps]]\nname = \"off\"\non = \"keeper\"\ncommand = \"{OFF}\"\n");
    let (place, kernel) = place(&format!("{IDLE}\n{step}"));
    let expected = "step off did not end: its machine ";
    refused(&run(&place, &kernel, &[]), expected);
    let client = format!("[client]\ncommand = \"{OFF}\"\n");
    let text = IDLE.replace("[client]\ncommand = \"true\"\n", &client);
    place.file("cluster.toml", &text);
    let output = run(&place, &kernel, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let expected = "the client did not end: its machine ";
    assert!(said(&output).contains(expected), "{}", said(&output));
}

/// It is no node's, and neither is what nobody sees without it. The check runs where another client was.
#[test]
fn a_run_in_which_the_machine_of_a_client_ends_is_no_pass() {
    let clients = "[[clients]]\nname = \"stays\"\ncommand = \"true\"\n\
                   [[clients]]\nname = \"leaves\"\ncommand = \"sh {here}/off.sh\"\n";
    let (place, kernel) = place(&IDLE.replace("[client]\ncommand = \"true\"\n", clients));
    place.file("off.sh", &format!("sleep 1\n{OFF}\n"));
    place.file("plan.toml", POWER_LOSS);
    let mut command = place.crashpoint(&["inject", "cluster.toml", "--plan", "plan.toml"]);
    command.args(["--simulate", "--kernel", &kernel]);
    let output = command.output().expect("it runs");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(3), "{text}{}", said(&output));
    let why = "inconclusive  the machine of client.2 does not do what it is asked for: it ";
    assert!(text.contains(why), "{text}");
}

/// The node computes when it is started again, which takes no time of the machine's, until somebody on the host
/// ends its kernel.
#[test]
fn a_kernel_that_is_gone_for_no_reason_of_its_own_accuses_nobody() {
    let again = "sh -c 'test -e begun && while :; do :; done; touch begun; sync begun .; echo ready; exec sleep 1000'";
    let (place, kernel) = place(&IDLE.replace("sh -c 'echo ready; exec sleep 1000'", again));
    let words_path = place.path("words");
    let words_file = File::create(&words_path).expect("created");
    let mut command = place.crashpoint(&words(&kernel));
    command.args(["--restart", "--check"]).stderr(words_file);
    let output = Running::start(command.stdout(Stdio::piped()));
    let so_far = || std::fs::read_to_string(&words_path).expect("read");
    let within = Duration::from_secs(120);
    wait_until("the power has failed", within, || {
        so_far().contains("the power of all nodes failed")
    });
    // Wherever it is by now.
    std::thread::sleep(Duration::from_secs(3));
    for pid in place.processes_of("linux-virtual") {
        // Those that a kernel has started may have ended with it.
        let _ = kill(Pid::from_raw(pid), Signal::SIGSYS);
    }
    let output = output.output();
    let text = format!("{}{}", printed(&output), so_far());
    assert_eq!(output.status.code(), Some(2), "{text}");
    let expected = "does not do what it is asked for: it has a kernel whose process ended: ";
    assert!(text.contains(expected), "{text}");
    assert_eq!(printed(&output), "");
}

#[test]
fn a_host_with_too_little_memory_for_a_machine_is_refused() {
    let (place, kernel) = place(IDLE);
    let mut command = where_mounted(&place, "-t tmpfs -o size=100m none /dev/shm");
    let output = command
        .args(words(&kernel))
        .env("TMPDIR", "/dev/shm")
        .output()
        .expect("it runs");
    refused(
        &output,
        "there is no room for the memory of keeper, 256 MiB, in /dev/shm, where 100 MiB are free",
    );
}

#[test]
fn what_a_network_or_a_clock_cannot_be_is_said() {
    let (place, kernel) = place(IDLE);
    let cases = [
        (
            ["--network", "latency=0s"],
            "latency=0 is refused: a frame takes time",
        ),
        (
            ["--network", "speed=1"],
            "`speed=1` is none of latency=TIME",
        ),
        (["--clocks", "1s,5"], "`5` is no drift"),
    ];
    for (options, expected) in cases {
        let output = run(&place, &kernel, &options);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
    let record = [
        "cluster",
        "record",
        "cluster.toml",
        "-o",
        "out",
        "--simulate",
        "--clocks",
        "1s",
    ];
    let mut command = place.crashpoint(&[&record[..], &["--kernel", &kernel]].concat());
    refused(
        &command.output().expect("it runs"),
        "--clocks is not for recordings: the times of a trace are those of one clock",
    );
}

/// A client that reads its clock, on a machine whose clock is ahead; and what goes to everybody in a
/// network.
#[test]
fn a_machine_has_the_clock_that_was_drawn_and_groups_are_reached() {
    let fixture = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/groups"));
    let text = std::fs::read_to_string(fixture.join("cluster.toml")).expect("read");
    let (place, kernel) = place(&text);
    copy_to_run(&fixture.join("node.py"), &place.path("node.py"));
    let how = [
        "--check",
        "--seed",
        "3",
        "--clocks",
        "500ms",
        "--network",
        "latency=1ms,loss=1%,double=5%,late=5%",
    ];
    let first = run(&place, &kernel, &how);
    assert_eq!(
        first.status.code(),
        Some(0),
        "{}{}",
        printed(&first),
        said(&first)
    );
    assert_eq!(
        printed(&first),
        printed(&run(&place, &kernel, &how)),
        "the same each time"
    );
    let seen: Vec<_> = printed(&first).lines().map(str::to_owned).collect();
    for group in ["ff02::1", "10.77.255.255", "239.7.7.7"] {
        for node in ["one", "two"] {
            let line = format!("{group} {node}");
            assert!(seen.contains(&line), "{line}: {seen:?}");
        }
    }
    // How far their clocks are ahead of that of the client, in milliseconds.
    let apart = seen.iter().filter_map(|line| line.strip_prefix("clock "));
    let apart: Vec<i64> = apart.map(|ms| ms.parse().expect("a number")).collect();
    assert_eq!(apart.len(), 2, "{seen:?}");
    assert!(
        apart.iter().all(|ms| ms.abs() > 2 && ms.abs() <= 1000),
        "{apart:?}"
    );
    assert_ne!(apart[0], apart[1]);
}

/// The cluster file says the same in the same words, and the command line counts instead of it.
#[test]
fn the_network_and_the_clocks_of_a_cluster_file_are_those_of_the_options() {
    let (place, kernel) = place(IDLE);
    let simulated = "[simulated]\nclocks = \"500ms\"\nnetwork = \"latency=1ms,loss=1%\"\n";
    let options = ["--clocks", "500ms", "--network", "latency=1ms,loss=1%"];
    let history = |options: &[&str]| {
        let output = run(&place, &kernel, options);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let history = said(&output).lines().find_map(|line| {
            let line = line.strip_prefix("history ")?;
            Some(line.split(':').next()?.to_owned())
        });
        history.expect("a run says its history")
    };
    let (plain, asked) = (history(&[]), history(&options));
    place.file("cluster.toml", &format!("{IDLE}\n{simulated}"));
    assert_eq!(history(&[]), asked, "what the file says");
    let other = history(&["--clocks", "0s", "--network", "latency=200us"]);
    assert_eq!(other, plain, "what the command line says");
    let words = ["cluster", "record", "cluster.toml", "-o", "out"];
    let words = [&words[..], &["--simulate", "--kernel", &kernel]].concat();
    let recorded = place.crashpoint(&words).output().expect("it runs");
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    let expected = "clocks are exact here, whatever [simulated] says";
    assert!(said(&recorded).contains(expected), "{}", said(&recorded));
}

#[test]
#[ignore = "takes two minutes of processor time: make test-clusters"]
fn a_machine_that_spins_is_said_to_compute_without_a_word() {
    let spins = "/usr/bin/python3 -IS {here}/spin.py";
    let (place, kernel) = place(&IDLE.replace("sh -c 'echo ready; exec sleep 1000'", spins));
    place.file("spin.py", "while True:\n    pass\n");
    let output = run(&place, &kernel, &[]);
    refused(
        &output,
        "the kernel of keeper has computed for 120s without a system call that takes time: a thread spins",
    );
}
