//! A crash state mounted under this kernel, for a look.

use std::sync::Arc;

use block_dev::Base;
use local_fs::{Scratch, Variant, enter_mount_namespace, format};
use workloads::Workload;

use crate::disk_kind::DiskKind;
use crate::engine::Engine;
use crate::engine::search::{LookHook, Search};
use crate::result::WorkloadResult;

/// Records a workload, looks for a crash state, mounts it and calls `hook`. The calling
/// thread gets a mount namespace of its own: whatever ends the process, nothing stays mounted.
///
/// # Errors
/// Without root, mkfs, FUSE or loop devices. What goes wrong later is in the result.
pub fn look(
    variant: &Variant,
    disk: DiskKind,
    contract: Option<&Variant>,
    seed: u64,
    workload: &Workload,
    search: &Search,
    hook: LookHook<'_>,
) -> anyhow::Result<WorkloadResult> {
    enter_mount_namespace()?;
    let scratch = Scratch::new()?;
    let directory = scratch.directory("look")?;
    let base = Base::from_file(&format(variant, &scratch.path().join("base"))?)?;
    let mut engine =
        Engine::new(variant, &Arc::new(base), disk, &directory).map_err(|error| anyhow::anyhow!("{error}"))?;
    if let Some(contract) = contract {
        engine.judge_by(contract).map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    engine.set_states(search.states, seed);
    Ok(engine.look(workload, search, hook))
}
