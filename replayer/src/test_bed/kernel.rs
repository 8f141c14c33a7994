//! The file system of the running kernel, or a driver's, on disks that the kernel mounts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_dev::{Base, BlockLog, Completion, FrontEnd, Image};
use checker::{Finding, Promise, write_check};
use local_fs::{
    FsckReport, KernelLog, KernelMessage, KernelMessages, Mounted, Rest, Tree, Variant,
    WalkOptions, walk,
};
use recorder::{Recorded, Recorder};
use workloads::Workload;

use super::{Complaint, Recovery, Result, Seen, Shown, TestBed, Ticket};
use crate::crashed_disk::CrashedDisk;
use crate::engine::{EngineError, RecoveredHook};
use crate::fsck::FsckPlace;
use crate::result::Timing;
use crate::stopwatch::Stopwatch;

/// Disks of the kernel's, in a mount namespace of its own.
pub(crate) struct KernelBed {
    variant: Variant,
    recorder: Recorder,
    crashed: CrashedDisk,
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
        let [mount_point, again] = ["crashed", "again"].map(|name| directory.join(name));
        std::fs::create_dir(&mount_point)?;
        std::fs::create_dir(&again)?;
        Ok(Self {
            variant: variant.clone(),
            recorder: Recorder::new(variant, base, completion, directory)?,
            crashed: CrashedDisk::new(variant, base, fsck, &again)?,
            mount_point,
            kernel_log: KernelLog::open()?,
            recovered: None,
        })
    }

    /// Makes the disk hold an image, repaired where that has to be done before it is mounted;
    /// otherwise says why that did not work.
    fn load(&mut self, image: &Image) -> Result<Result<(), String>> {
        let (watch, timing) = (&mut Stopwatch::start(), &mut Timing::default());
        self.crashed.load(image, watch, timing)
    }

    fn mount(&mut self) -> local_fs::Result<Mounted> {
        // Until it is known to be unmounted.
        self.crashed.set_in_doubt(true);
        Mounted::new(
            &self.variant,
            self.crashed.disk().device(),
            &self.mount_point,
        )
    }

    /// Looks at what is mounted, has it checked, writes to it and unmounts it.
    fn look_at(
        &mut self,
        mut mounted: Mounted,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Seen> {
        if let Some(hook) = &mut self.recovered {
            hook(mounted.path());
        }
        let row = self.variant.file_system;
        let mut check = self.check_mounted(&mut mounted, watch, timing)?;
        let options = WalkOptions {
            skip: row.names_not_walked(),
            ..WalkOptions::of(row)
        };
        let tree = walk(mounted.path(), options);
        watch.lap(&mut timing.compare_us);
        let mut unusable = None;
        if check.is_none() && row.fsck.is_some() {
            unusable = self.check(&mut mounted, &mut check, watch, timing)?;
        }
        if unusable.is_none() {
            unusable = self.use_up(&mounted, &tree)?;
            watch.lap(&mut timing.write_us);
        }
        let unmounted = mounted.unmount();
        watch.lap(&mut timing.mount_us);
        let stays_mounted = why_mounted(unmounted)?;
        if check.is_none() {
            check = self.crashed.check()?;
            watch.lap(&mut timing.fsck_us);
        }
        let driver_says = mounted.complaint();
        let kernel_says = complaint(&mut self.kernel_log, self.crashed.disk().device_name())?;
        Ok(Seen {
            tree,
            unusable,
            stays_mounted,
            driver_says,
            kernel_says,
            check,
        })
    }

    /// Has the file system's own checker look at what is mounted, if that does for it. Before the
    /// walk: ext4 notes in its journal where it is mounted when a file is opened.
    fn check_mounted(
        &mut self,
        mounted: &mut Mounted,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Option<Ticket>> {
        let may_look = match self.variant.file_system.rest {
            Rest::Synced => mounted.sync(),
            Rest::Mounted => true,
            Rest::ReadOnly | Rest::Unmounted => false,
        };
        if !may_look {
            return Ok(None);
        }
        watch.lap(&mut timing.mount_us);
        let check = self.crashed.check_mounted()?;
        watch.lap(&mut timing.fsck_us);
        Ok(check)
    }

    /// Brings what has recovered to rest and has the file system's own checker look at it, before
    /// anything is changed: in an emptied tree it finds nothing wrong with what was there. Says why
    /// what is mounted cannot be used any more, if so.
    fn check(
        &mut self,
        mounted: &mut Mounted,
        check: &mut Option<Ticket>,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Option<Finding>> {
        let paused = mounted.pause(&self.variant);
        watch.lap(&mut timing.mount_us);
        if let Some(finding) = refused(paused)? {
            return Ok(Some(finding));
        }
        *check = self.crashed.check()?;
        watch.lap(&mut timing.fsck_us);
        let resumed = mounted.resume(&self.variant, self.crashed.disk().device());
        watch.lap(&mut timing.mount_us);
        refused(resumed)
    }

    /// Writes to what is mounted, and removes everything.
    fn use_up(&mut self, mounted: &Mounted, tree: &Tree) -> Result<Option<Finding>> {
        let own_names = self.variant.file_system.own_names;
        Ok(write_check(mounted.root()?, tree, own_names)?)
    }

    fn unmountable(&mut self, error: local_fs::Error) -> Result<Recovery> {
        let Some(why) = error.unmountable() else {
            return Err(error.into());
        };
        let messages = self.kernel_log.read()?.messages;
        let device = self.crashed.disk().device_name();
        let said = errors_about(&messages, device).last();
        let said =
            said.map(|message| format!("; the kernel says: {}", message.text_without(device)));
        let said = said.unwrap_or_default();
        Ok(Recovery::MountFails(format!("{why}{said}")))
    }

    /// Has an image recover, while the recorded disk may still be unmounted.
    fn recover_beside(
        &mut self,
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Recovery> {
        let loaded = self.crashed.load(image, watch, timing)?;
        // What other disks had to say before this one was mounted is not about it.
        self.kernel_log.skip()?;
        if let Err(why) = loaded {
            return Ok(Recovery::RepairFails(why));
        }
        let mounted = self.mount();
        watch.lap(&mut timing.mount_us);
        let recovered = match mounted {
            Ok(mounted) => {
                let seen = self.look_at(mounted, watch, timing);
                seen.map(|seen| {
                    // What is not usable may not have been unmounted, to be at rest.
                    let is_unmounted = seen.unusable.is_none() && seen.stays_mounted.is_none();
                    self.crashed.set_in_doubt(!is_unmounted);
                    Recovery::Mounted(Box::new(seen))
                })
            }
            Err(error) => self.unmountable(error),
        };
        recovered.or_else(driver_dies)
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
        let is_alone = !self.recorder.is_unmounting();
        let recovery = self.recover_beside(image, watch, timing)?;
        if is_alone || !has_stack_trace(&recovery) {
            return Ok(recovery);
        }
        // It may be about the disk of the run, which was being unmounted.
        self.recorder.finish_unmounting();
        self.recover_beside(image, watch, timing)
    }

    fn record_recovery(&mut self, image: &Image) -> Result<Result<BlockLog, String>> {
        match self.recorder.record_recovery(image) {
            Ok(log) => Ok(Ok(log)),
            Err(recorder::Error::FileSystem(error)) => match error.unmountable() {
                Some(why) => Ok(Err(format!("mount fails: {why}"))),
                None => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn recycle_recovery(&mut self, log: BlockLog) {
        self.recorder.recycle_log(log);
    }

    fn report(&mut self, check: Ticket) -> Result<FsckReport> {
        self.crashed.report(check)
    }

    fn names(&mut self, image: &Image, places: &[(u64, u64)]) -> Option<Vec<Option<String>>> {
        self.load(image).ok()?.ok()?;
        self.mount().ok()?.unmount().ok()?;
        self.crashed.names(places).ok()
    }

    fn show(&mut self, image: &Image, look: &mut dyn FnMut(Shown<'_>) -> Result<()>) -> Result<()> {
        let loaded = self.load(image)?;
        let device = self.crashed.disk().device().to_owned();
        self.kernel_log.skip()?;
        let mut mounted = match loaded.ok().map(|()| self.mount()) {
            Some(Ok(mounted)) => Some(mounted),
            Some(Err(error)) if error.unmountable().is_none() => return Err(error.into()),
            _ => None,
        };
        let name = self.crashed.disk().device_name();
        let said = self.kernel_log.read()?.messages;
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
        let started = Instant::now();
        for _ in 0..cycles {
            self.load(image)??;
            let mut mounted = self.mount()?;
            walk(mounted.path(), WalkOptions::of(self.variant.file_system));
            mounted.unmount()?;
            self.crashed.set_in_doubt(false);
        }
        Ok(started.elapsed())
    }

    fn on_recovered(&mut self, hook: RecoveredHook) {
        self.recovered = Some(hook);
    }
}

/// Whether the kernel printed a stack trace, which names no disk.
fn has_stack_trace(recovery: &Recovery) -> bool {
    match recovery {
        Recovery::Mounted(seen) => matches!(seen.kernel_says, Complaint::StackTrace(_)),
        _ => false,
    }
}

/// What it means that something is refused that must work after recovery.
fn refused(result: local_fs::Result<()>) -> Result<Option<Finding>> {
    let Err(error) = result else { return Ok(None) };
    let Some((doing, why)) = error.refusal() else {
        return Err(undecided(error));
    };
    let what = format!("{doing} fails after recovery: {why}");
    Ok(Some(Finding::new(Promise::Usable, "", what)))
}

/// An error that says nothing of the file system.
fn undecided(error: local_fs::Error) -> EngineError {
    match error {
        local_fs::Error::Unmount(why) => format!("unmount after recovery: {why}").into(),
        other => other.into(),
    }
}

/// The death of a driver says something of the file system, unlike other errors.
fn driver_dies(error: EngineError) -> Result<Recovery> {
    match error.downcast_ref() {
        Some(died @ local_fs::Error::DriverDied { .. }) => {
            Ok(Recovery::DriverDies(died.to_string()))
        }
        _ => Err(error),
    }
}

/// What the kernel complained about since its log was last read.
fn complaint(log: &mut KernelLog, device: &str) -> Result<Complaint> {
    complaint_in(&log.read()?, device)
}

/// Of what was lost nobody knows that it was none.
fn complaint_in(said: &KernelMessages, device: &str) -> Result<Complaint> {
    let messages = &said.messages;
    if let Some(message) = errors_about(messages, device).next() {
        return Ok(Complaint::OfDisk(message.text_without(device)));
    }
    match messages.iter().find(|message| message.is_stack_trace()) {
        Some(message) => Ok(Complaint::StackTrace(message.text.clone())),
        None if said.some_lost => Err(
            "the kernel overwrote messages of its log before they were read: what it said is not known"
                .into(),
        ),
        None => Ok(Complaint::None),
    }
}

fn errors_about<'a>(
    messages: &'a [KernelMessage],
    device: &str,
) -> impl Iterator<Item = &'a KernelMessage> {
    messages
        .iter()
        .filter(move |message| message.level <= KernelMessage::ERROR && message.is_about(device))
}

/// Why something stays mounted, if that is because it could not be unmounted.
fn why_mounted(unmounted: local_fs::Result<()>) -> Result<Option<String>> {
    let Err(error) = unmounted else {
        return Ok(None);
    };
    match error.refusal() {
        Some((_, why)) => Ok(Some(why.to_string())),
        None => Err(undecided(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, some_lost: bool) -> KernelMessages {
        let message = KernelMessage {
            level: KernelMessage::ERROR,
            text: text.into(),
        };
        KernelMessages {
            messages: vec![message],
            some_lost,
        }
    }

    #[test]
    fn a_kernel_of_which_not_all_was_heard_is_not_quiet() {
        let heard = |text, some_lost| complaint_in(&said(text, some_lost), "loop0");
        assert!(matches!(heard("loop1: foo", false), Ok(Complaint::None)));
        assert!(heard("loop1: foo", true).is_err());
        assert!(matches!(
            heard("loop0: foo", true),
            Ok(Complaint::OfDisk(_))
        ));
        assert!(matches!(
            heard("BUG: foo", true),
            Ok(Complaint::StackTrace(_))
        ));
    }

    #[test]
    fn what_is_held_by_somebody_is_undecided() {
        let busy = |errno| {
            let why = std::io::Error::from_raw_os_error(errno);
            local_fs::Error::Unmount(why)
        };
        let (ebusy, eio) = (16, 5);
        assert!(why_mounted(Err(busy(ebusy))).is_err() && refused(Err(busy(ebusy))).is_err());
        let refused = refused(Err(busy(eio)));
        assert!(
            matches!(refused, Ok(Some(_))) && matches!(why_mounted(Err(busy(eio))), Ok(Some(_)))
        );
    }
}
