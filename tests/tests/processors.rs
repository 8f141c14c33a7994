//! Guests on processors that have more state than their kernel knows of (AMX), whichever this
//! machine has: what stands for such a host is a library (tests/fixtures/amx-host) that answers
//! ptrace(2) as it does there. Root is needed to be somebody else.

use std::path::{Path, PathBuf};
use std::process::Command;

use end_to_end::{Ordinary, Report, copy_to_run, printed, program, said, words};
use serde_json::Value;

/// What the stand-in demands, in bytes.
const DEMANDED: u64 = 11_008;

/// What the kernel says when its first program dies.
const DEATH: &str = "Attempted to kill init! exitcode=0x0000000b";

/// The shim, as guests get it.
fn shim(directory: &Path) -> PathBuf {
    machine::write_shim(directory).expect("written")
}

/// What comes of setting a part of a process's state, with these libraries preloaded.
fn set_state(preload: &[&Path]) -> Value {
    let preload: Vec<_> = preload
        .iter()
        .map(|path| path.to_str().expect("text"))
        .collect();
    let output = Command::new(program("set-state"))
        .env("LD_PRELOAD", preload.join(":"))
        .output()
        .expect("it runs");
    let printed = printed(&output);
    serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{}", said(&output)))
}

/// What does not depend on the processor, with the answer to setting a part.
fn expected(bytes: u64, part: i32) -> Value {
    serde_json::json!({
        "bytes": bytes, "whole": 0, "part": part, "part_is_set": part == 0, "rest_is_kept": true,
        "peeked": -1, "peeked_nowhere": libc::EIO, "set_of_nobody": libc::ESRCH,
    })
}

#[test]
fn a_part_of_the_state_can_be_set_with_the_shim_and_the_rest_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let shim = shim(directory.path());
    let refused = set_state(&[]);
    let bytes = refused["bytes"].as_u64().expect("a number");
    assert_eq!(
        refused,
        expected(bytes, libc::EFAULT),
        "without it the kernel refuses"
    );
    assert_eq!(set_state(&[&shim]), expected(bytes, 0));
}

#[test]
fn the_same_on_a_host_that_demands_more_than_it_gets() {
    let directory = tempfile::tempdir().expect("a directory");
    let (shim, amx) = (shim(directory.path()), program("libamx_host.so"));
    let mut refused = set_state(&[&amx]);
    // It does not look whose state it is before it refuses.
    refused["set_of_nobody"] = libc::ESRCH.into();
    assert_eq!(refused, expected(DEMANDED, libc::EFAULT));
    assert_eq!(set_state(&[&shim, &amx]), expected(DEMANDED, 0));
}

/// `crashpoint` of an ordinary user on such a host.
fn on_amx(place: &Ordinary, arguments: &[&str]) -> Command {
    let amx = place.amx();
    let mut command = place.crashpoint(arguments);
    command
        .env("LD_PRELOAD", &amx)
        .env("CRASHPOINT_GUEST_PRELOAD", amx);
    command
}

#[test]
fn every_kind_of_kernel_runs_programs_on_such_a_host() {
    let place = Ordinary::new();
    let (own, virtual_time) = (place.own_kernel(), place.virtual_time());
    let calculate = [
        "--",
        "awk",
        "BEGIN { for (n = 0; n < 1000; n++) s += n / 3; print s }",
    ];
    for kernel in [
        &["--kernel", "uml"] as &[_],
        &words(&own),
        &words(&virtual_time),
    ] {
        let output = on_amx(&place, &[&["machine"], kernel, &calculate].concat())
            .output()
            .expect("it runs");
        assert_eq!(
            printed(&output),
            "166500\n",
            "{kernel:?}: {}",
            said(&output)
        );
    }
}

/// The stand-in is one: what is not helped dies as it does on real ones.
#[test]
fn without_the_shim_the_guest_dies_and_the_processor_is_blamed() {
    let bytes = set_state(&[])["bytes"].as_u64().expect("a number");
    if bytes > machine::GUEST_STATE_BYTES as u64 {
        println!(
            "not tried: this processor has {bytes} bytes of state, and every guest gets the shim"
        );
        return;
    }
    let place = Ordinary::new();
    let mut command = place.crashpoint(&["machine", "--", "true"]);
    // The program itself sees the machine as it is, also where all tests see another one.
    command
        .env_remove("LD_PRELOAD")
        .env("CRASHPOINT_GUEST_PRELOAD", place.amx());
    let output = command.output().expect("it runs");
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(DEATH) && said.contains("processor"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_sweep_on_such_a_host_finds_what_it_does_elsewhere() {
    let place = Ordinary::new();
    let sweep = [
        "fs", "--kernel", "uml", "--format", "json", "--fs", "btrfs", "--preset", "seq-1",
        "--range", "0..6",
    ];
    let report = Report::of_process(on_amx(&place, &sweep));
    report.assert_clean();
    assert_eq!(report.total("workloads"), 6);
    let lies = [&sweep[..], &["--disk", "drop-flush"]].concat();
    assert_eq!(
        Report::of_process(on_amx(&place, &lies)).broken(),
        Report::of_process(place.crashpoint(&lies)).broken()
    );
}

/// What runs in virtual time is the same as on a machine without such a processor.
#[test]
fn virtual_time_does_not_know_of_the_processor() {
    let place = Ordinary::new();
    let kernel = place.virtual_time();
    let look = [
        "--seed",
        "7",
        "--",
        "sh",
        "-c",
        "date +%s.%N; sleep 1; date +%s.%N; od -N 16 -x /dev/urandom",
    ];
    let arguments = [&["machine"], words(&kernel).as_slice(), &look].concat();
    let plain = printed(&place.crashpoint(&arguments).output().expect("it runs"));
    assert_eq!(plain.lines().count(), 4, "{plain}");
    assert_eq!(
        printed(&on_amx(&place, &arguments).output().expect("it runs")),
        plain
    );
}

/// A program that answers as a kernel does that was linked statically.
fn static_kernel(place: &Ordinary, name: &str, release: &str, mark: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, program) = (
        directory.path().join("kernel.c"),
        directory.path().join("kernel"),
    );
    let text = format!(
        "#include <stdio.h>\nconst volatile char mark[] = \"{mark}\";\n\
         int main(void) {{ puts(\"{release}\"); return mark[0] == 1; }}\n"
    );
    std::fs::write(&source, text).expect("written");
    let status = Command::new("cc")
        .arg("-static")
        .arg("-o")
        .args([&program, &source])
        .status()
        .expect("cc runs");
    assert!(status.success(), "{status}");
    copy_to_run(&program, &place.path(name));
    format!("uml:{name}")
}

#[test]
fn a_static_kernel_is_refused_before_it_starts_unless_it_copes() {
    let place = Ordinary::new();
    let mark = "crashpoint: sets the whole xstate";
    let kernels = [
        static_kernel(&place, "old", "6.1.176", ""),
        static_kernel(&place, "patched", "6.1.176", mark),
        static_kernel(&place, "new", "6.13.0", ""),
    ];
    let refusal = |kernel: &str| {
        let output = on_amx(&place, &["machine", "--kernel", kernel, "--", "true"])
            .output()
            .expect("it runs");
        assert_eq!(
            (output.status.code(), said(&output).lines().count()),
            (Some(2), 1),
            "{}",
            said(&output)
        );
        said(&output)
    };
    for part in [
        "old cannot run a program on this processor",
        "11008 bytes",
        "CONFIG_STATIC_LINK",
        "6-whole-xstate",
    ] {
        assert!(
            refusal(&kernels[0]).contains(part),
            "{} lacks {part}",
            refusal(&kernels[0])
        );
    }
    // These are started, and are no kernels.
    for kernel in &kernels[1..] {
        assert!(
            refusal(kernel).contains("does not start"),
            "{}",
            refusal(kernel)
        );
    }
}

#[test]
fn a_kernel_for_another_architecture_is_refused() {
    let place = Ordinary::new();
    let mut elf = std::fs::read("/usr/bin/linux.uml").expect("Debian's kernel");
    // EM_AARCH64.
    elf[18..20].copy_from_slice(&183_u16.to_le_bytes());
    let path = place.path("arm");
    std::fs::write(&path, elf).expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("changed");
    let output = place
        .crashpoint(&["machine", "--kernel", "uml:arm", "--", "true"])
        .output()
        .expect("it runs");
    assert_eq!(
        (output.status.code(), said(&output).lines().count()),
        (Some(2), 1),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("another architecture"),
        "{}",
        said(&output)
    );
}
