//! The file system of the running kernel, or a driver's, on disks that the kernel mounts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_dev::{Base, Completion, FrontEnd, Image};
use checker::write_check;
use local_fs::{FsckReport, KernelLog, KernelMessage, Mounted, Variant, WalkOptions, walk};
use recorder::{Recorded, Recorder};
use workloads::Workload;

use super::{Complaint, Recovery, Result, Seen, Shown, TestBed, Ticket};
use crate::crashed_disks::CrashedDisks;
use crate::engine::RecoveredHook;
use crate::fsck::FsckPlace;
use crate::result::Timing;
use crate::stopwatch::Stopwatch;

/// Disks of the kernel's, in a mount namespace of its own.
pub(crate) struct KernelBed {
    variant: Variant,
    recorder: Recorder,
    crashed: CrashedDisks,
    mount_point: PathBuf,
    kernel_log: KernelLog,
    recovered: Option<RecoveredHook>,
}

impl KernelBed {
    /// Disks that hold `base` at first, in `directory`, an empty one of ours. The file system's own
    /// checker and repair run in the place `fsck`.
    ///
    /// # Errors
    /// If disks, mount points or the kernel's log cannot be had.
    pub(crate) fn new(
        variant: &Variant,
        base: &Arc<Base>,
        completion: Completion,
        directory: &Path,
        fsck: &FsckPlace,
    ) -> Result<Self> {
        let mount_point = directory.join("crashed");
        std::fs::create_dir(&mount_point)?;
        Ok(Self {
            variant: variant.clone(),
            recorder: Recorder::new(variant, base, completion, directory)?,
            crashed: CrashedDisks::new(base, fsck)?,
            mount_point,
            kernel_log: KernelLog::open()?,
            recovered: None,
        })
    }

    /// Makes a disk of which nobody wants anything any more hold an image, repaired where that has
    /// to be done before it is mounted; otherwise says why that did not work.
    fn load(&mut self, image: &Image) -> Result<Result<(), String>> {
        self.crashed.turn();
        self.crashed.load(
            &self.variant,
            image,
            &mut Stopwatch::start(),
            &mut Timing::default(),
        )
    }

    fn mount(&mut self) -> local_fs::Result<Mounted> {
        Mounted::new(
            &self.variant,
            self.crashed.current().device(),
            &self.mount_point,
        )
    }

    /// Looks at what is mounted, writes to it and unmounts it.
    fn look_at(
        &mut self,
        mut mounted: Mounted,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Recovery> {
        if let Some(hook) = &mut self.recovered {
            hook(mounted.path());
        }
        let row = self.variant.file_system;
        let options = WalkOptions {
            skip: row.names_not_walked(),
            ..WalkOptions::of(row)
        };
        let tree = walk(mounted.path(), options);
        watch.lap(&mut timing.compare_us);
        let written = mounted
            .root()
            .map(|root| write_check(root, &tree, row.own_names));
        watch.lap(&mut timing.write_us);
        let unmounted = mounted.unmount();
        watch.lap(&mut timing.mount_us);
        let stays_mounted = match unmounted {
            Ok(()) => None,
            Err(died @ local_fs::Error::DriverDied { .. }) => {
                return Ok(Recovery::DriverDies(died.to_string()));
            }
            Err(local_fs::Error::Unmount(error)) => Some(error.to_string()),
            Err(other) => return Err(other.into()),
        };
        let unusable = written?;
        let driver_says = mounted.complaint();
        let kernel_says = complaint(&mut self.kernel_log, self.crashed.current().device_name())?;
        let check = self.crashed.check(&self.variant)?;
        watch.lap(&mut timing.fsck_us);
        Ok(Recovery::Mounted(Box::new(Seen {
            tree,
            unusable,
            stays_mounted,
            driver_says,
            kernel_says,
            check,
        })))
    }

    fn unmountable(&mut self, error: local_fs::Error) -> Result<Recovery> {
        if let local_fs::Error::DriverDied { .. } = error {
            return Ok(Recovery::DriverDies(error.to_string()));
        }
        let Some(why) = error.unmountable() else {
            return Err(error.into());
        };
        let messages = self.kernel_log.read()?;
        let device = self.crashed.current().device_name();
        let said = errors_about(&messages, device).last();
        let said =
            said.map(|message| format!("; the kernel says: {}", message.text_without(device)));
        let said = said.unwrap_or_default();
        Ok(Recovery::MountFails(format!("{why}{said}")))
    }
}

impl TestBed for KernelBed {
    fn recognises_fua(&self) -> bool {
        self.recorder.recognises_fua()
    }

    fn record(&mut self, workload: &Workload) -> Result<(Recorded, Complaint)> {
        // What the last one still had to say is not about this one.
        self.recorder.finish_unmounting();
        self.kernel_log.skip()?;
        let trace = self.recorder.record(workload)?;
        let said = complaint(&mut self.kernel_log, self.recorder.device_name())?;
        Ok((trace, said))
    }

    fn recycle(&mut self, trace: Recorded) {
        self.recorder.recycle(trace);
    }

    fn recover(
        &mut self,
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Recovery> {
        self.crashed.turn();
        watch.lap(&mut timing.fsck_us);
        let loaded = self.crashed.load(&self.variant, image, watch, timing)?;
        // What other disks had to say before this one was mounted is not about it.
        self.kernel_log.skip()?;
        if let Err(why) = loaded {
            return Ok(Recovery::RepairFails(why));
        }
        let mounted = self.mount();
        watch.lap(&mut timing.mount_us);
        match mounted {
            Ok(mounted) => self.look_at(mounted, watch, timing),
            Err(error) => self.unmountable(error),
        }
    }

    fn report(&mut self, check: Ticket) -> Result<FsckReport> {
        self.crashed.report(check)
    }

    fn names(&mut self, image: &Image, places: &[(u64, u64)]) -> Option<Vec<Option<String>>> {
        self.load(image).ok()?.ok()?;
        self.mount().ok()?.unmount().ok()?;
        self.crashed.names(&self.variant, places).ok()
    }

    fn show(&mut self, image: &Image, look: &mut dyn FnMut(Shown<'_>) -> Result<()>) -> Result<()> {
        let loaded = self.load(image)?;
        let device = self.crashed.current().device().to_owned();
        self.kernel_log.skip()?;
        let mut mounted = match loaded.ok().map(|()| self.mount()) {
            Some(Ok(mounted)) => Some(mounted),
            Some(Err(error)) if error.unmountable().is_none() => return Err(error.into()),
            _ => None,
        };
        let name = self.crashed.current().device_name();
        let said = self.kernel_log.read()?;
        let about = said
            .iter()
            .filter(|message| message.is_about(name) && message.level <= KernelMessage::WARNING);
        let kernel: Vec<_> = about.map(|message| message.text_without(name)).collect();
        look(Shown {
            directory: mounted.as_ref().map(Mounted::path),
            device: &device,
            kernel: &kernel,
        })?;
        match &mut mounted {
            Some(mounted) => Ok(mounted.unmount()?),
            None => Ok(()),
        }
    }

    fn floor(&mut self, image: &Image, cycles: u32) -> Result<Duration> {
        self.crashed.turn();
        let started = Instant::now();
        for _ in 0..cycles {
            self.crashed.load(
                &self.variant,
                image,
                &mut Stopwatch::start(),
                &mut Timing::default(),
            )??;
            let mut mounted = self.mount()?;
            walk(mounted.path(), WalkOptions::of(self.variant.file_system));
            mounted.unmount()?;
        }
        Ok(started.elapsed())
    }

    fn on_recovered(&mut self, hook: RecoveredHook) {
        self.recovered = Some(hook);
    }
}

/// What the kernel complained about since its log was last read.
fn complaint(log: &mut KernelLog, device: &str) -> Result<Complaint> {
    let messages = log.read()?;
    if let Some(message) = errors_about(&messages, device).next() {
        return Ok(Complaint::OfDisk(message.text_without(device)));
    }
    let trace = messages.iter().find(|message| message.is_stack_trace());
    Ok(trace.map_or(Complaint::None, |message| {
        Complaint::StackTrace(message.text.clone())
    }))
}

fn errors_about<'a>(
    messages: &'a [KernelMessage],
    device: &str,
) -> impl Iterator<Item = &'a KernelMessage> {
    messages
        .iter()
        .filter(move |message| message.level <= KernelMessage::ERROR && message.is_about(device))
}
