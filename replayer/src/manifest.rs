//! What a run was: written beside its results.

use local_fs::Variant;
use serde_json::{Value, json};

use crate::args::FileSystemArgs;

/// A run as one JSON object; docs/json.md has its fields.
pub(crate) fn manifest(variants: &[Variant], arguments: &FileSystemArgs, source: &str) -> Value {
    let file_system = |variant: &Variant| {
        json!({
            "file_system": variant.file_system.name,
            "mount_options": variant.mount_options,
            "mkfs_options": variant.mkfs_options,
            "size_mib": variant.size_bytes >> 20,
        })
    };
    let command_line: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    json!({
        "type": "manifest",
        "version": env!("CARGO_PKG_VERSION"),
        "command_line": command_line,
        "kernel_release": kernel_release(),
        "file_systems": variants.iter().map(file_system).collect::<Vec<_>>(),
        "disk": arguments.disk.to_string(),
        "states": arguments.states.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "jobs": arguments.jobs(),
        "workloads": source,
    })
}

fn kernel_release() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
