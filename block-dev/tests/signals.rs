//! The server of a disk and signals. A program of its own: a server of another test that just
//! begins or ends shows another mask.

#[expect(dead_code, reason = "it reads no page of a device")]
mod common;

use block_dev::{Completion, FuseDisk};
use common::{base, in_namespace};
use nix::sys::signal::Signal;

const LAZY: Completion = Completion::Lazy { seed: 1 };

/// A handler that writes to a pipe, as most do, has no pipe in the threads of the server: their
/// descriptors are others.
#[test]
fn the_threads_of_the_server_take_no_signals() {
    in_namespace(|directory| {
        let _disk = FuseDisk::new(&base(directory), directory, LAZY).expect("a disk");
        let tasks = std::fs::read_dir("/proc/self/task").expect("there is /proc");
        let status = |task: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(task.expect("a task").path().join("status")).ok()
        };
        let servers: Vec<_> = tasks
            .filter_map(status)
            .filter(|status| status.starts_with("Name:\tfuse"))
            .collect();
        assert!(servers.len() >= 2, "{servers:?}");
        for server in servers {
            let blocked = server
                .lines()
                .find_map(|line| line.strip_prefix("SigBlk:\t"));
            let blocked = u64::from_str_radix(blocked.expect("it is there"), 16).expect("a mask");
            for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM] {
                assert_ne!(
                    blocked & (1 << (signal as u32 - 1)),
                    0,
                    "{signal}: {server}"
                );
            }
        }
    });
}
