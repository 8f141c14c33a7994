//! Where the file system's own checker, its repair and its debugger run: beside the engine, or on
//! the host of its guest.
//!
//! To start a program is what a User-Mode Linux guest is slowest at, so a guest writes what it has
//! to be looked at or repaired to a file that its host sees, and asks the host. A repaired file is
//! not read in the guest, whose cache would not know of it: the host says which pages are others.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use block_dev::{Base, ChangedPage, FrontEnd, Image, ImageFile, MemfdDisk};
use local_fs::{FsckReport, RunningFsck, Variant, block_names, repair, start_fsck};
use serde::{Deserialize, Serialize};

use crate::engine::EngineError;
use crate::result::Timing;
use crate::stopwatch::Stopwatch;

/// Which of the copies of an engine's disk.
pub(crate) type Slot = u32;

/// Where an engine has the checker run.
#[derive(Clone, Default)]
pub struct FsckPlace(Option<Host>);

/// The host of the guest that we are in.
#[derive(Clone)]
pub(crate) struct Host {
    /// What both see.
    shared: PathBuf,
    /// Asks for something to be done with the file of a slot.
    ask: Arc<dyn Fn(Slot, Task) -> std::io::Result<()> + Send + Sync>,
    answers: HostAnswers,
}

impl Host {
    /// The pages that a repair of a slot's file changed, also where it failed, and why it did.
    fn repair(&self, slot: Slot) -> Result<(Vec<ChangedPage>, Result<(), String>), EngineError> {
        (self.ask)(slot, Task::Repair)?;
        match self.answers.take(slot)? {
            Done::Repaired(changed, repaired) => Ok((changed, repaired)),
            Done::Killed(what) => Err(local_fs::Error::Killed { what }.into()),
            other => Err(format!("the host was to repair, and did this: {other:?}").into()),
        }
    }
}

/// What a host can do with the file of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    Check,
    Repair,
    /// Says what it holds at these places: offsets and lengths in bytes.
    Name(Vec<(u64, u64)>),
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Done {
    Checked(FsckReport),
    /// The pages that the repair changed, also where it failed, and why it did.
    Repaired(Vec<ChangedPage>, Result<(), String>),
    /// What each place holds, where that can be told.
    Named(Vec<Option<String>>),
    /// Somebody killed the program.
    Killed(String),
}

/// What the host answers: what it did, or why it could not.
pub(crate) type Answer = Result<Done, String>;

/// What the host has answered. Of one slot it is asked one thing at a time.
#[derive(Clone, Default)]
pub(crate) struct HostAnswers(Arc<(Mutex<HashMap<Slot, Answer>>, Condvar)>);

impl HostAnswers {
    /// Takes in an answer.
    pub(crate) fn put(&self, slot: Slot, answer: Answer) {
        self.0
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(slot, answer);
        self.0.1.notify_all();
    }

    /// Waits for the answer about a slot.
    fn take(&self, slot: Slot) -> Answer {
        let mut answers = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match answers.remove(&slot) {
                Some(answer) => return answer,
                None => {
                    answers = self
                        .0
                        .1
                        .wait(answers)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl FsckPlace {
    /// On the host, which sees `shared` as well, is asked with `ask`, and puts into `answers`.
    pub(crate) fn host(
        shared: PathBuf,
        ask: impl Fn(Slot, Task) -> std::io::Result<()> + Send + Sync + 'static,
        answers: HostAnswers,
    ) -> Self {
        Self(Some(Host {
            shared,
            ask: Arc::new(ask),
            answers,
        }))
    }
}

/// The name of the file in which a slot's content is handed to the host.
pub(crate) fn shared_name(slot: Slot) -> String {
    format!("check-{slot}")
}

/// Does what a guest asks of its host.
pub(crate) fn help(variant: &Variant, image: &Path, task: Task) -> Answer {
    do_task(variant, image, task).or_else(|error| match error.downcast_ref() {
        Some(local_fs::Error::Killed { what }) => Ok(Done::Killed(what.clone())),
        _ => Err(error.to_string()),
    })
}

fn do_task(variant: &Variant, image: &Path, task: Task) -> Result<Done, EngineError> {
    match task {
        Task::Check => Ok(Done::Checked(
            start_fsck(variant, image)?
                .ok_or("there is no checker")?
                .finish()?,
        )),
        Task::Name(places) => Ok(Done::Named(block_names(variant, image, &places)?)),
        Task::Repair => {
            let file = File::open(image)?;
            let before = Base::from_file(&file)?;
            let repaired = repair(variant, image)?;
            let after = Base::from_file(&file)?;
            if before.size_bytes() != after.size_bytes() {
                return Err("the repair changed the size of the disk".into());
            }
            let changed = before
                .differing(&after)
                .map(|(number, page)| (number, page.to_vec()));
            Ok(Done::Repaired(changed.collect(), repaired))
        }
    }
}

/// Repairs, checks and looks into what a disk holds, time after time. What is checked is a copy, so
/// that the disk can be used meanwhile.
pub(crate) struct Fsck {
    base: Arc<Base>,
    /// None under this kernel before there was anything to check.
    copy: Option<ImageFile>,
    host: Option<(Host, Slot)>,
}

/// A check at work.
pub(crate) enum RunningCheck {
    Here(Box<RunningFsck>),
    Host(HostAnswers, Slot),
}

impl Fsck {
    pub(crate) fn new(place: &FsckPlace, slot: Slot, base: &Arc<Base>) -> block_dev::Result<Self> {
        let copy = |host: &Host| ImageFile::create(&host.shared.join(shared_name(slot)), base);
        Ok(Self {
            base: Arc::clone(base),
            copy: place.0.as_ref().map(copy).transpose()?,
            host: place.0.clone().map(|host| (host, slot)),
        })
    }

    /// The copy, which holds `content` now.
    fn copy(&mut self, content: Arc<Image>) -> block_dev::Result<&ImageFile> {
        let copy = match self.copy.take() {
            Some(copy) => copy,
            None => ImageFile::in_memory(&self.base)?,
        };
        let copy = self.copy.insert(copy);
        copy.hold(content)?;
        Ok(copy)
    }

    /// Makes `disk` hold `image`, repaired where that has to be done before it is mounted;
    /// otherwise says why that did not work.
    pub(crate) fn load(
        &mut self,
        variant: &Variant,
        image: &Image,
        disk: &mut MemfdDisk,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Result<(), String>, EngineError> {
        if variant.file_system.repair.is_none() {
            disk.load(image)?;
            watch.lap(&mut timing.load_us);
            return Ok(Ok(()));
        }
        let (Some((host, slot)), Some(file)) = (&self.host, &mut self.copy) else {
            disk.load(image)?;
            watch.lap(&mut timing.load_us);
            let repaired = repair(variant, &disk.content_path())?;
            watch.lap(&mut timing.fsck_us);
            return Ok(repaired);
        };
        file.hold(Arc::new(image.clone()))?;
        watch.lap(&mut timing.load_us);
        let mut outcome = Ok(());
        let repaired = file.change(|| -> Result<_, EngineError> {
            let (changed, repaired) = host.repair(*slot)?;
            outcome = repaired;
            Ok(changed)
        })?;
        watch.lap(&mut timing.fsck_us);
        disk.load(&repaired)?;
        watch.lap(&mut timing.load_us);
        Ok(outcome)
    }

    /// What `disk` holds at places, offsets and lengths in bytes, as far as the file system's own
    /// debugger can tell.
    pub(crate) fn names(
        &mut self,
        variant: &Variant,
        disk: &mut MemfdDisk,
        places: &[(u64, u64)],
    ) -> Result<Vec<Option<String>>, EngineError> {
        let Some((host, slot)) = self.host.clone() else {
            return Ok(block_names(variant, &disk.content_path(), places)?);
        };
        self.copy(Arc::new(disk.content(&self.base)?))?;
        (host.ask)(slot, Task::Name(places.to_vec()))?;
        match host.answers.take(slot)? {
            Done::Named(names) => Ok(names),
            other => Err(format!("the host was to name blocks, and did this: {other:?}").into()),
        }
    }

    /// Starts a check of what a disk holds. None where there is no checker.
    pub(crate) fn start(
        &mut self,
        variant: &Variant,
        content: Arc<Image>,
    ) -> Result<Option<RunningCheck>, EngineError> {
        if variant.file_system.fsck.is_none() {
            return Ok(None);
        }
        let path = self.copy(content)?.path();
        let Some((host, slot)) = &self.host else {
            let running = start_fsck(variant, &path)?;
            return Ok(running.map(|running| RunningCheck::Here(Box::new(running))));
        };
        (host.ask)(*slot, Task::Check)?;
        Ok(Some(RunningCheck::Host(host.answers.clone(), *slot)))
    }
}

impl RunningCheck {
    /// Waits for its end.
    pub(crate) fn finish(self) -> Result<FsckReport, EngineError> {
        match self {
            Self::Here(running) => Ok(running.finish()?),
            Self::Host(answers, slot) => match answers.take(slot)? {
                Done::Checked(report) => Ok(report),
                Done::Killed(what) => Err(local_fs::Error::Killed { what }.into()),
                other => Err(format!("the host was to check, and did this: {other:?}").into()),
            },
        }
    }
}
