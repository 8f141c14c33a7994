//! Compiles the library that guests' kernels need on some processors (shim/ptrace.rs), which goes
//! into the program as bytes.

use std::env::{var, var_os};
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "shim/ptrace.rs";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let variable = |name: &str| var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    // User-Mode Linux runs nowhere else.
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        return;
    }
    let library = PathBuf::from(variable("OUT_DIR")).join("ptrace.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args([
        "--edition",
        "2024",
        "--crate-name",
        "ptrace",
        "--crate-type",
        "cdylib",
        "-D",
        "warnings",
    ]);
    rustc.args([
        "-C",
        "opt-level=2",
        "-C",
        "panic=abort",
        "-C",
        "strip=symbols",
        "-C",
        "target-feature=-crt-static",
    ]);
    // Whatever C library the kernel has, has the two functions that it calls.
    rustc.args(["-C", "link-arg=-nostdlib", "-C", "link-arg=-nostartfiles"]);
    rustc.args(["--target", &variable("TARGET")]);
    if let Some(linker) = var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg({
            let mut option = std::ffi::OsString::from("linker=");
            option.push(linker);
            option
        });
    }
    let status = rustc
        .arg("-o")
        .arg(&library)
        .arg(SOURCE)
        .status()
        .expect("run rustc");
    assert!(status.success(), "{SOURCE} does not compile: {status}");
}
