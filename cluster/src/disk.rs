//! A disk of its own for the directory of a node, which loses what a power failure may cost.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block_dev::{
    Answer, Base, Behaviour, BlockLog, Completion, Fault, Faulty, FrontEnd, FuseDisk, Image,
    Onlooker, Predicate, RequestTrace, is_unmounted, recognise_fua,
};
use crash_images::{rebuild, requests};
use local_fs::{Mounted, Variant};
use pace_rules::disk::{Log, Relaxation, State};

use crate::error::{Context, Error, Result};

/// The node's directory in the root of the file system, which has names of its own there.
const DIRECTORY: &str = "data";

/// The directory beside it of others who use the disk.
const BYSTANDER: &str = "bystander";

/// How long a disk may stay in use after the node's end: the kernel takes namespaces down later.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

/// A disk that is mounted, and whose requests are logged. It is unmounted when dropped.
///
/// It belongs to the mount namespace of the thread that made it, and is used from there.
pub struct Disk {
    // Dropped in this order.
    mounted: Option<Mounted>,
    requests: Option<RequestTrace>,
    front_end: FuseDisk,
    /// What it held when its log began.
    base: Arc<Base>,
    variant: Variant,
    file_system: String,
    start_ns: u64,
    durable: usize,
    /// How it does some requests ([`Self::answer_some`]).
    fault: Option<Fault>,
    directory: PathBuf,
}

/// What a power failure did to a disk.
pub struct PowerCut {
    /// What the disk had been asked for since it was made, or since the last power failure.
    pub log: BlockLog,
    /// What it held before that.
    pub base: Arc<Base>,
    /// What it kept of the log.
    pub state: State,
    /// The places in the log of the writes that are lost altogether.
    pub lost: Vec<usize>,
    /// Why its file system cannot be mounted any more, if that is so.
    pub unmountable: Option<String>,
}

impl Disk {
    /// Formats a disk with `file_system`, as [`Variant::for_programs`] reads it, and mounts it in
    /// `directory`: an empty one of ours, in a mount namespace of our own.
    ///
    /// # Errors
    /// If the file system cannot be made or mounted here.
    pub fn new(
        file_system: &str,
        directory: &Path,
        behaviour: impl Behaviour + 'static,
    ) -> Result<Self> {
        let variant = Variant::for_programs(file_system)?;
        let formatted = directory.join("formatted");
        let file = local_fs::format(&variant, &formatted)?;
        let base = Base::from_file(&file).doing(|| format!("read {}", formatted.display()))?;
        fs::remove_file(&formatted).doing(|| format!("remove {}", formatted.display()))?;
        let this = Self::upon(file_system, variant, Arc::new(base), directory, behaviour)?;
        let data = this.data();
        DirBuilder::new()
            .mode(0o755)
            .create(&data)
            .doing(|| format!("create {}", data.display()))?;
        Ok(this)
    }

    /// Mounts what a crash left on such a disk, so that its file system recovers, which is logged.
    ///
    /// # Errors
    /// If it cannot be mounted.
    pub fn recovered(file_system: &str, crashed: &Image, directory: &Path) -> Result<Self> {
        let variant = Variant::for_programs(file_system)?;
        let base = Arc::new(Base::from_image(crashed));
        Self::upon(file_system, variant, base, directory, Completion::AtOnce)
    }

    /// Mounts what a disk holds.
    fn upon(
        file_system: &str,
        variant: Variant,
        base: Arc<Base>,
        directory: &Path,
        behaviour: impl Behaviour + 'static,
    ) -> Result<Self> {
        let front_end = FuseDisk::new(&base, directory, behaviour)?;
        let mut requests = RequestTrace::start(front_end.device_number()?, directory).ok();
        // If nobody does, the kernel may lose some, and the log says that.
        let _ = requests.as_mut().map(RequestTrace::read_meanwhile);
        let mut this = Self {
            mounted: None,
            requests,
            front_end,
            base,
            variant,
            file_system: file_system.to_owned(),
            start_ns: 0,
            durable: 0,
            fault: None,
            directory: directory.to_owned(),
        };
        let mount_point = this.mount_point();
        fs::create_dir(&mount_point).doing(|| format!("create {}", mount_point.display()))?;
        this.mount()?;
        Ok(this)
    }

    /// Begins a log, and mounts what the disk holds. Nobody looks at what that asks of it: whoever waits for
    /// the mount could not let a request go on.
    fn mount(&mut self) -> Result<()> {
        self.front_end.set_unseen(true);
        let mounted = self.mount_unseen();
        self.front_end.set_unseen(false);
        mounted
    }

    fn mount_unseen(&mut self) -> Result<()> {
        self.front_end.start_recording_on(&self.base)?;
        (self.start_ns, self.durable) = (FuseDisk::now_ns(), 0);
        let mount_point = self.mount_point();
        self.mounted = Some(Mounted::new(
            &self.variant,
            self.front_end.device(),
            &mount_point,
        )?);
        Ok(())
    }

    /// Where it is mounted.
    pub fn mount_point(&self) -> PathBuf {
        self.directory.join("mounted")
    }

    /// The node's directory on it.
    pub fn data(&self) -> PathBuf {
        self.mount_point().join(DIRECTORY)
    }

    /// Makes a directory on it that is none of the node's, for others who use the disk.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn bystander(&self) -> Result<PathBuf> {
        let directory = self.mount_point().join(BYSTANDER);
        fs::create_dir(&directory).doing(|| format!("create {}", directory.display()))?;
        Ok(directory)
    }

    /// Everything that is mounted for it. Whoever has a copy of that keeps the disk in use.
    pub(crate) fn mount_points(&self) -> [PathBuf; 2] {
        [self.mount_point(), self.front_end.content_path()]
    }

    /// Has it behave in another way from the next request on.
    ///
    /// # Errors
    /// If that answers late, and the disk was made with a behaviour that does not.
    pub fn set_behaviour(&self, behaviour: impl Behaviour + 'static) -> Result<()> {
        Ok(self.front_end.set_behaviour(behaviour)?)
    }

    /// Has it do so the first `times` requests of which `hits` is true, until they are spared or
    /// the power fails. Other requests are completed at once.
    ///
    /// # Errors
    /// If the disk cannot be told.
    pub fn answer_some(
        &mut self,
        fault: impl Into<Fault>,
        times: u64,
        hits: Predicate,
    ) -> Result<()> {
        let fault = fault.into();
        self.set_behaviour(Faulty::new(fault, times, Completion::AtOnce, hits))?;
        self.fault = Some(fault);
        Ok(())
    }

    /// Has it complete all of them at once again, and the one that is under way.
    ///
    /// # Errors
    /// If the disk cannot be told.
    pub fn spare_requests(&mut self) -> Result<()> {
        if self.fault.take().is_some() {
            self.set_behaviour(Completion::AtOnce)?;
        }
        Ok(())
    }

    /// Has it be slow no more, if it is.
    ///
    /// # Errors
    /// If the disk cannot be told.
    pub(crate) fn spare_if_slow(&mut self) -> Result<()> {
        match self.fault {
            Some(Fault::Answer(Answer::Slow(_))) => self.spare_requests(),
            _ => Ok(()),
        }
    }

    /// Has it fail all that it is asked for until its power has failed, if it is slow or somebody has a
    /// request wait: nothing is done that nobody waits for.
    ///
    /// # Errors
    /// If the disk cannot be told.
    pub(crate) fn give_up(&mut self) -> Result<()> {
        match self.fault {
            Some(Fault::Answer(Answer::Slow(_))) => self.fail_all(),
            _ if self.front_end.is_held() => self.fail_all(),
            _ => Ok(()),
        }
    }

    /// Has somebody look at what it is asked for from now on, but for what this program asks of it by itself:
    /// while it is mounted or unmounted, and a node is killed or started.
    pub fn set_onlooker(&self, onlooker: Arc<dyn Onlooker>) {
        self.front_end.set_onlooker(onlooker);
    }

    /// Whether nobody looks for now: a request that waits for whoever does goes on.
    pub(crate) fn set_unseen(&self, is_unseen: bool) {
        self.front_end.set_unseen(is_unseen);
    }

    /// What it holds.
    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    fn fail_all(&mut self) -> Result<()> {
        self.answer_some(Answer::Fail, u64::MAX, Box::new(|_| true))
    }

    /// Whether it takes its time for nothing, also if it is slow: processes that were killed and wait for
    /// it do not end before it has answered.
    pub(crate) fn set_hurries(&self, hurries: bool) {
        self.front_end.set_hurries(hurries);
    }

    /// Makes everything durable that is in the directory: what the node begins with.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&mut self) -> Result<()> {
        self.sync()?;
        self.durable = self.front_end.log_position();
        Ok(())
    }

    /// Has everything written that is in memory.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn sync(&self) -> Result<()> {
        if let Some(mounted) = &self.mounted {
            let root = mounted.root()?;
            nix::unistd::syncfs(&root).doing(|| "make what is in memory durable".into())?;
        }
        Ok(())
    }

    /// The power fails: the disk keeps what `select` says of its log, all of which has been sent,
    /// and is mounted again, which has the file system recover. The node's processes have been
    /// killed, and nobody else has its directory open. What they wrote and the kernel did not send
    /// to the disk is lost in any case.
    ///
    /// # Errors
    /// [`Error::Selection`] if `select` loses what no crash may cost; then, and if the disk is
    /// still in use, it is not mounted any more, and holds what it did.
    pub fn power_cut(&mut self, select: impl FnOnce(&Log) -> Relaxation) -> Result<PowerCut> {
        let log = self.stop()?;
        let rules = Log::new(&requests(&log), self.durable, self.front_end.keeps());
        let state = State {
            position: rules.len(),
            relaxation: select(&rules),
        };
        rules.check(&state)?;
        let mut image = Image::new(Arc::clone(&self.base));
        rebuild(&mut image, &log, &rules, &state);
        let base = std::mem::replace(&mut self.base, Arc::new(Base::from_image(&image)));
        let unmountable = match self.mount() {
            Ok(()) => None,
            Err(Error::FileSystem(error)) => match error.unmountable() {
                Some(why) => Some(why),
                None => return Err(error.into()),
            },
            Err(error) => return Err(error),
        };
        Ok(PowerCut {
            log,
            base,
            lost: rules.lost(&state),
            state,
            unmountable,
        })
    }

    /// Ends the log here, and takes the file system down: what that writes is not in it.
    fn stop(&mut self) -> Result<BlockLog> {
        let log = self.front_end.stop_recording();
        let log = self.recognised(log)?;
        // Only now: who wrote to it has been killed, and saw no request succeed that was to fail. What
        // is asked of it from now on is none of theirs.
        self.spare_requests()?;
        if let Some(mut mounted) = self.mounted.take() {
            // It need not write what nobody will read.
            mounted.shut_down();
            mounted.unmount()?;
        }
        if !is_unmounted(self.front_end.device(), BUSY_PATIENCE) {
            return Err(Error::InUse(self.mount_point()));
        }
        Ok(log)
    }

    /// The log with what is known of FUA.
    fn recognised(&mut self, mut log: BlockLog) -> Result<BlockLog> {
        recognise_fua(&mut log, self.requests.as_mut(), self.start_ns)
            .doing(|| "read the trace of the disk's requests".into())?;
        Ok(log)
    }

    /// Ends the recording: what the node did up to now is in the log, from when the disk was made
    /// or the power last failed. The node's processes have ended.
    ///
    /// # Errors
    /// If the file system cannot be unmounted, or it cannot be said which writes had FUA.
    pub fn finish(mut self) -> Result<trace_store::Disk> {
        // The file system may write at any moment: what the log lacks is in the next one.
        let log = self.front_end.cut_recording();
        let log = self.recognised(log)?;
        if let Some(mounted) = &mut self.mounted {
            mounted.unmount()?;
        }
        // Somebody may have it mounted still: then not everything was written.
        let is_whole = is_unmounted(self.front_end.device(), BUSY_PATIENCE);
        let after = self.front_end.stop_recording();
        Ok(trace_store::Disk {
            file_system: self.file_system,
            directory: DIRECTORY.to_owned(),
            base: self.base,
            log,
            durable: self.durable,
            after: is_whole.then_some(after),
        })
    }
}
