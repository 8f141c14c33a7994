//! A crash state mounted under this kernel, for a look.

use std::sync::Arc;

use block_dev::Base;
use local_fs::{Scratch, Variant, enter_mount_namespace, format};
use workloads::Workload;

use crate::engine::search::{LookHook, Search};
use crate::engine::{Engine, EngineError};
use crate::error::{Context as _, Error, Result};
use crate::result::WorkloadResult;
use crate::sweep::SweepOptions;

/// Records a workload as a sweep with these options does, looks for a crash state, mounts it and
/// calls `hook`. The calling
/// thread gets a mount namespace of its own: whatever ends the process, nothing stays mounted.
///
/// # Errors
/// Without root, mkfs, FUSE or loop devices. What goes wrong later is in the result.
pub fn look(
    variant: &Variant,
    options: &SweepOptions,
    workload: &Workload,
    search: &Search,
    hook: LookHook<'_>,
) -> Result<WorkloadResult> {
    enter_mount_namespace()?;
    let scratch = Scratch::new()?;
    let directory = scratch.directory("look")?;
    let formatted = format(variant, &scratch.path().join("base"))?;
    let base = Base::from_file(&formatted).doing(|| format!("read a new {variant}"))?;
    let failed = |error: EngineError| Error::Worker(error.to_string());
    let mut engine =
        Engine::new(variant, &Arc::new(base), options.disk, &directory).map_err(failed)?;
    if let Some(other) = &options.contract {
        engine.judge_by(other).map_err(failed)?;
    }
    engine.set_states(search.states, options.seed);
    engine.set_again(options.again);
    engine
        .hold_against(&options.specifications)
        .map_err(failed)?;
    Ok(engine.look(workload, search, &mut |_| {}, hook))
}
