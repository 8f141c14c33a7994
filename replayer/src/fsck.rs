//! Where the file system's own checker runs: beside the engine, or on the host of its guest.
//!
//! To start a program is what a User-Mode Linux guest is slowest at, so a guest writes what it has
//! to be checked to a file that its host sees, and asks the host.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use block_dev::{Base, FrontEnd, ImageFile, MemfdDisk};
use local_fs::{FsckReport, RunningFsck, Variant, start_fsck};

use crate::engine::EngineError;

/// Which of the disks of an engine.
pub(crate) type Slot = u32;

/// Where an engine has the checker run.
#[derive(Clone, Default)]
pub struct FsckPlace(Option<Host>);

/// The host of the guest that we are in.
#[derive(Clone)]
pub(crate) struct Host {
    /// What both see.
    shared: PathBuf,
    /// Asks for a check of a slot.
    ask: Arc<dyn Fn(Slot) -> std::io::Result<()> + Send + Sync>,
    answers: HostAnswers,
}

/// What the host answers.
#[derive(Clone, Default)]
pub(crate) struct HostAnswers(Arc<(Mutex<HashMap<Slot, Answer>>, Condvar)>);

type Answer = Result<FsckReport, String>;

impl HostAnswers {
    /// Takes in an answer.
    pub(crate) fn put(&self, slot: Slot, answer: Answer) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, answer);
        self.0.1.notify_all();
    }

    /// Waits for the answer about a slot.
    fn take(&self, slot: Slot) -> Answer {
        let mut answers = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match answers.remove(&slot) {
                Some(answer) => return answer,
                None => answers = self.0.1.wait(answers).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl FsckPlace {
    /// On the host, which sees `shared` as well, is asked with `ask`, and puts into `answers`.
    pub(crate) fn host(
        shared: PathBuf,
        ask: impl Fn(Slot) -> std::io::Result<()> + Send + Sync + 'static,
        answers: HostAnswers,
    ) -> Self {
        Self(Some(Host { shared, ask: Arc::new(ask), answers }))
    }
}

/// The name of the file in which a slot's content is handed to the host.
pub(crate) fn shared_name(slot: Slot) -> String {
    format!("check-{slot}")
}

/// Checks what one disk holds, time after time.
pub(crate) enum Fsck {
    Here,
    Host { host: Host, slot: Slot, base: Arc<Base>, file: ImageFile },
}

/// A check at work.
pub(crate) enum RunningCheck {
    Here(Box<RunningFsck>),
    Host(HostAnswers, Slot),
}

impl Fsck {
    pub(crate) fn new(place: &FsckPlace, slot: Slot, base: &Arc<Base>) -> block_dev::Result<Self> {
        let Some(host) = place.0.clone() else { return Ok(Self::Here) };
        let file = ImageFile::create(&host.shared.join(shared_name(slot)), base)?;
        Ok(Self::Host { host, slot, base: Arc::clone(base), file })
    }

    /// Starts a check of `disk`. None where there is no checker.
    pub(crate) fn start(
        &mut self,
        variant: &Variant,
        disk: &mut MemfdDisk,
    ) -> Result<Option<RunningCheck>, EngineError> {
        if variant.file_system.fsck.is_none() {
            return Ok(None);
        }
        match self {
            Self::Here => {
                Ok(start_fsck(variant, &disk.content_path())?.map(|running| RunningCheck::Here(Box::new(running))))
            }
            Self::Host { host, slot, base, file } => {
                file.hold(disk.content(base)?)?;
                (host.ask)(*slot)?;
                Ok(Some(RunningCheck::Host(host.answers.clone(), *slot)))
            }
        }
    }
}

impl RunningCheck {
    /// Waits for its end.
    pub(crate) fn finish(self) -> Result<FsckReport, EngineError> {
        match self {
            Self::Here(running) => Ok(running.finish()?),
            Self::Host(answers, slot) => Ok(answers.take(slot)?),
        }
    }
}
