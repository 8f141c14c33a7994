use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyOpen, ReplyWrite,
    Request, Session, SessionACL, WriteFlags,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::time::{ClockId, clock_gettime};

use crate::base::Base;
use crate::error::Context;
use crate::late_answers::{LateAnswers, LateWrite};
use crate::loop_device::LoopDevice;
use crate::{
    Answer, Behaviour, BlockLog, DiskRequest, Error, FrontEnd, Image, Kind, Mark, NAME_MARK,
    Onlooker, Result,
};

/// How often it is looked whether a request is still to wait.
const ASK_EVERY: Duration = Duration::from_micros(500);

/// How long the kernel may believe what it was told of the file, which never changes.
const ATTRIBUTES_VALID: Duration = Duration::from_secs(3600);

/// FUSE + loop: every request of the kernel comes by and is logged.
///
/// The file is opened with `FOPEN_DIRECT_IO` and the loop device does direct I/O, so that
/// requests arrive as they were sent, neither merged nor split at pages, and a flush arrives
/// after the writes it covers.
///
/// A disk that answers at once gets no request before it has completed the last: without
/// `FUSE_ASYNC_DIO` a direct write holds the file's lock until it is completed, which fsync takes
/// too, and the loop device's worker waits with it (`fuse_direct_IO` and `fuse_fsync` in
/// fs/fuse/file.c, `lo_rw_aio` in drivers/block/loop.c). A lazy one asks for it: then the lock is
/// held only until the write is sent, the worker goes on, and a flush comes by while writes wait.
/// The kernel itself holds a flush back while the data of a FUA write is in flight (condition C2 of
/// block/blk-flush.c).
pub struct FuseDisk {
    // Dropped in this order: the device lets go of the file, then the file system goes.
    device: Option<LoopDevice>,
    mount_point: PathBuf,
    server: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Disk>>,
    /// It behaves in another way now.
    changed: Arc<Condvar>,
    /// Whether it can answer late.
    is_late: bool,
}

/// What the server and the owner share.
pub(crate) struct Disk {
    image: Image,
    pub(crate) log: BlockLog,
    behaviour: Box<dyn Behaviour>,
    /// How often that has changed.
    behaviours: u64,
    /// Whether nothing is slow, whatever its behaviour says.
    hurries: bool,
    /// Who looks at what it is asked for while it is recorded.
    onlooker: Option<Arc<dyn Onlooker>>,
    /// Whether nobody does for now.
    is_unseen: bool,
    recording: bool,
    /// How many recordings were started or stopped: what was held in one is not noted in another.
    pub(crate) recordings: u64,
}

/// A write that is answered later: its place in the log, of which recording, after how many requests, and
/// when it came.
type Waits = (usize, u64, u8, u64);

impl Disk {
    /// One that holds `base`, and is not recorded.
    fn new(base: &Arc<Base>, behaviour: impl Behaviour + 'static) -> Self {
        Self {
            image: Image::new(Arc::clone(base)),
            log: BlockLog::default(),
            behaviour: Box::new(behaviour),
            behaviours: 0,
            hurries: false,
            onlooker: None,
            is_unseen: false,
            recording: false,
            recordings: 0,
        }
    }

    /// Who looks at what it is asked for now.
    fn onlooker(&self) -> Option<&Arc<dyn Onlooker>> {
        let is_seen = self.recording && !self.hurries && !self.is_unseen;
        self.onlooker.as_ref().filter(|_| is_seen)
    }

    /// What becomes of a request: whatever is asked of a disk that is not recorded it does.
    fn answer(&mut self, request: DiskRequest) -> Answer {
        if !self.recording {
            return Answer::AtOnce;
        }
        let place = self.log.len();
        if self.hurries {
            self.behaviour.answer_in_haste(request, place)
        } else {
            self.behaviour.answer(request, place)
        }
    }

    /// What becomes of the bytes of a request, where they are not as they should be.
    fn corrupt(&mut self, request: DiskRequest, bytes: &[u8]) -> Option<Vec<u8>> {
        if !self.recording {
            return None;
        }
        self.behaviour.corrupt(request, bytes, &self.image)
    }

    /// Does a write, if it is not to fail. Returns what is to be known of one that is answered later.
    fn write(
        &mut self,
        (offset, data): (u64, &[u8]),
        answer: Answer,
        time_ns: u64,
    ) -> std::result::Result<Option<Waits>, Errno> {
        let length = data.len() as u64;
        let request = DiskRequest::Write { offset, length };
        if answer == Answer::Fail {
            return Err(Errno::EIO);
        }
        // What gets onto the disk is in the log: a crash loses that, or leaves it.
        let corrupted = self.corrupt(request, data);
        let data = corrupted.as_deref().unwrap_or(data);
        self.image.write(offset, data);
        if !self.recording {
            return Ok(None);
        }
        if data.len() as u64 != length {
            self.log.note_asked(self.log.len(), length);
        }
        let Answer::After(requests) = answer else {
            self.log.push_write(offset, data, time_ns);
            return Ok(None);
        };
        let place = self.log.push_held_write(offset, data, time_ns);
        Ok(Some((place, self.recordings, requests, time_ns)))
    }
}

impl FuseDisk {
    /// A disk that holds `base`; `directory` is where its file system is mounted: one of ours,
    /// in a mount namespace of our own.
    ///
    /// # Errors
    /// Without FUSE, without the right to mount, or without a free loop device.
    pub fn new(
        base: &Arc<Base>,
        directory: &Path,
        behaviour: impl Behaviour + 'static,
    ) -> Result<Self> {
        let mount_point = directory.join("disk");
        File::create(&mount_point).doing(|| format!("create {}", mount_point.display()))?;
        let is_late = behaviour.is_late();
        let shared = Arc::new(Mutex::new(Disk::new(base, behaviour)));
        let changed = Arc::<Condvar>::default();
        let late = is_late.then(|| Arc::new(LateAnswers::new(Arc::clone(&shared))));
        let server = Server {
            disk: Arc::clone(&shared),
            changed: Arc::clone(&changed),
            size_bytes: base.size_bytes(),
            late: late.clone(),
        };
        let server = serve(server, late, mount_point.clone())?;
        let mut this = Self {
            device: None,
            mount_point,
            server: Some(server),
            shared,
            changed,
            is_late,
        };
        let backing = open_backing(&this.mount_point)?;
        this.device = Some(LoopDevice::attach(backing.as_fd(), true)?);
        Ok(this)
    }

    fn loop_device(&self) -> &LoopDevice {
        self.device.as_ref().expect("attached until dropped")
    }

    /// The loop device's number, as traces show it.
    ///
    /// # Errors
    /// If it cannot be stat'ed.
    pub fn device_number(&self) -> Result<u64> {
        self.loop_device().number()
    }

    /// Back to the base, or to that of the image that was loaded last, with an empty log that is
    /// written from now on.
    ///
    /// # Errors
    /// If the kernel's cache of the device cannot be dropped.
    pub fn start_recording(&mut self) -> Result<()> {
        self.loop_device().drop_cache()?;
        let mut disk = self.lock();
        disk.image.reset();
        disk.log.clear();
        disk.recording = true;
        disk.recordings += 1;
        Ok(())
    }

    /// The same, of another disk of the same size.
    ///
    /// # Errors
    /// If the kernel's cache of the device cannot be dropped.
    pub fn start_recording_on(&mut self, base: &Arc<Base>) -> Result<()> {
        self.lock().image = Image::new(Arc::clone(base));
        self.start_recording()
    }

    /// The same, of what an image of a disk of the same size holds.
    ///
    /// # Errors
    /// If the kernel's cache of the device cannot be dropped.
    pub fn start_recording_from(&mut self, image: &Image) -> Result<()> {
        self.start_recording()?;
        self.lock().image.clone_from(image);
        Ok(())
    }

    /// Has the disk behave in another way from the next request on, and for one that is slow.
    ///
    /// # Errors
    /// If that answers late, and the disk was not made for it.
    pub fn set_behaviour(&self, behaviour: impl Behaviour + 'static) -> Result<()> {
        if behaviour.is_late() && !self.is_late {
            let cannot = io::Error::from(io::ErrorKind::Unsupported);
            return Err(cannot).doing(|| "have a disk answer late that was made to answer at once");
        }
        self.change(|disk| {
            disk.behaviour = Box::new(behaviour);
            disk.behaviours += 1;
        });
        Ok(())
    }

    /// Whether it takes its time for nothing, whatever its behaviour says: a request that is slow is
    /// done then, and those that come are not counted as slow ones.
    pub fn set_hurries(&self, hurries: bool) {
        self.change(|disk| disk.hurries = hurries);
    }

    /// Has somebody look at what it is asked for from now on, while it is recorded.
    pub fn set_onlooker(&self, onlooker: Arc<dyn Onlooker>) {
        self.lock().onlooker = Some(onlooker);
    }

    /// Whether a request waits for whoever looks.
    pub fn is_held(&self) -> bool {
        let onlooker = self.lock().onlooker.clone();
        onlooker.is_some_and(|onlooker| onlooker.holds())
    }

    /// Whether nobody looks at what it is asked for now, and no request waits for anybody. It is so too while
    /// it is to hurry.
    pub fn set_unseen(&self, is_unseen: bool) {
        self.change(|disk| disk.is_unseen = is_unseen);
    }

    /// Changes how it behaves, also to a request that is slow.
    fn change(&self, change: impl FnOnce(&mut Disk)) {
        let mut disk = self.lock();
        change(&mut disk);
        drop(disk);
        self.changed.notify_all();
    }

    /// How it keeps its word.
    pub fn keeps(&self) -> pace_rules::disk::Disk {
        self.lock().behaviour.keeps()
    }

    /// Notes a mark after everything that was completed so far, with the time of the last of that:
    /// to look at the clock is a system call in a guest.
    pub fn mark(&self, mark: Mark) {
        let mut disk = self.lock();
        let time_ns = disk.log.entries().last().map_or(0, |entry| entry.time_ns);
        disk.log.push(Kind::Mark(mark), time_ns);
    }

    /// The time by the clock of the log, in nanoseconds.
    pub fn now_ns() -> u64 {
        now_ns()
    }

    /// The position after everything that was completed so far.
    pub fn log_position(&self) -> usize {
        self.lock().log.len()
    }

    /// Ends the recording and hands the log over; take it back with [`Self::recycle`].
    pub fn stop_recording(&self) -> BlockLog {
        let mut disk = self.lock();
        disk.recording = false;
        disk.recordings += 1;
        std::mem::take(&mut disk.log)
    }

    /// Hands the log over and goes on with an empty one: what is asked meanwhile is in either.
    pub fn cut_recording(&self) -> BlockLog {
        let mut disk = self.lock();
        disk.recordings += 1;
        std::mem::take(&mut disk.log)
    }

    /// Gives a log's memory back for the next recording.
    pub fn recycle(&self, log: BlockLog) {
        self.lock().log = log;
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.shared.lock().expect("the server does not panic")
    }
}

impl FrontEnd for FuseDisk {
    fn device(&self) -> &Path {
        self.loop_device().path()
    }

    fn device_name(&self) -> &str {
        self.loop_device().name()
    }

    fn load(&mut self, image: &Image) -> Result<()> {
        self.loop_device().drop_cache()?;
        self.lock().image.clone_from(image);
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.loop_device().drop_cache()
    }

    fn content_path(&self) -> PathBuf {
        self.mount_point.clone()
    }
}

impl Drop for FuseDisk {
    fn drop(&mut self) {
        self.device = None;
        // The last reference to the file goes with the loop device's own, which the kernel may
        // drop a little later; a lazy unmount does not mind, and the server ends with it.
        let _ = umount2(&self.mount_point, MntFlags::MNT_DETACH);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        let _ = std::fs::remove_file(&self.mount_point);
    }
}

pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has CLOCK_MONOTONIC");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Opens the file that is the disk.
fn open_backing(path: &Path) -> Result<File> {
    let backing = OpenOptions::new().read(true).write(true).open(path);
    let backing = backing.doing(|| format!("open {}", path.display()))?;
    // On a 6.1 kernel the loop device would have size 0 without this.
    backing
        .metadata()
        .doing(|| format!("stat {}", path.display()))?;
    Ok(backing)
}

/// Mounts the file at `mount_point` and serves it from a thread of its own.
///
/// The thread has its own table of descriptors, and `/dev/fuse` is open in that one only. When
/// this process is killed while another of its threads waits in the kernel for the file
/// system, that thread cannot end before it has its answer; the connection is cut as soon as the
/// server's table goes, and the wait with it. For the same reason the thread has a mount namespace
/// of its own, without a mount in it: the last thread of a namespace unmounts what is on the disk
/// before it closes anything, so it must not be this one. Of what others have open nothing is left
/// in its table: a loop device that is open there stays, and with it the disk of another server.
fn serve(
    server: impl Filesystem,
    late: Option<Arc<LateAnswers>>,
    mount_point: PathBuf,
) -> Result<JoinHandle<()>> {
    let (ready, started) = mpsc::channel();
    let mounted_at = mount_point.clone();
    let thread = std::thread::Builder::new().name("fuse".into());
    let thread = thread.spawn(move || {
        let begun = take_in_own_table(&mount_point).and_then(|fuse| {
            let session = Session::from_fd(server, fuse, SessionACL::All, fuser::Config::default());
            session.doing(|| "start the FUSE session")
        });
        match begun {
            Ok(session) => run(session, late.as_deref(), &ready),
            Err(error) => drop(ready.send(Err(error))),
        }
    });
    let thread = thread.doing(|| "start the FUSE server")?;
    let died = |_| Err(io::Error::other("it died")).doing(|| "start the FUSE server");
    match started.recv().unwrap_or_else(died) {
        Ok(()) => Ok(thread),
        Err(error) => {
            // It may be mounted already, here: the thread has a mount namespace of its own.
            let _ = umount2(&mounted_at, MntFlags::MNT_DETACH);
            let _ = thread.join();
            Err(error)
        }
    }
}

/// Mounts the file where only the calling thread has `/dev/fuse` open, and no other mount.
fn take_in_own_table(mount_point: &Path) -> Result<OwnedFd> {
    sys::leave_files().doing(|| "give the FUSE server a table of descriptors of its own")?;
    let fuse = mount_fuse(mount_point)?;
    machine::have_no_mounts().doing(|| "give the FUSE server a mount namespace of its own")?;
    Ok(fuse)
}

/// Serves until the end, and says when it has begun. Late answers are written to `/dev/fuse`, which
/// only this thread and its own have.
fn run(
    session: Session<impl Filesystem>,
    late: Option<&LateAnswers>,
    ready: &mpsc::Sender<Result<()>>,
) {
    std::thread::scope(|scope| {
        if let Some(late) = late {
            let thread = std::thread::Builder::new().name("fuse-late".into());
            let thread = thread.spawn_scoped(scope, || late.answer_in_time());
            if let Err(error) = thread.doing(|| "start the FUSE server's second thread") {
                return drop(ready.send(Err(error)));
            }
        }
        drop(ready.send(Ok(())));
        // It ends with an error when the file system is unmounted lazily; so be it.
        let _ = session.run();
        if let Some(late) = late {
            late.end();
        }
    });
}

fn mount_fuse(mount_point: &Path) -> Result<OwnedFd> {
    let path = Path::new("/dev/fuse");
    let fuse = OpenOptions::new().read(true).write(true).open(path).map_err(|source| Error::Device {
        path: path.into(),
        hint: "root and FUSE are needed; try `modprobe fuse`; a container must be given the device",
        source,
    })?;
    let options = format!(
        "fd={},rootmode=100000,user_id=0,group_id=0,allow_other",
        fuse.as_raw_fd()
    );
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(
        Some(NAME_MARK),
        mount_point,
        Some("fuse"),
        flags,
        Some(options.as_str()),
    )
    .doing(|| format!("mount FUSE on {}", mount_point.display()))?;
    Ok(fuse.into())
}

const NO_PANIC: &str = "no holder panics";

/// Serves one regular file, which is the root of the file system.
struct Server {
    disk: Arc<Mutex<Disk>>,
    changed: Arc<Condvar>,
    size_bytes: u64,
    /// None on a disk that answers at once.
    late: Option<Arc<LateAnswers>>,
}

impl Server {
    /// What becomes of a request. One that takes its time has taken it then; if the disk behaves in
    /// another way before, that is what counts. If it is to hurry the request is done: it was counted
    /// as a slow one already. This thread does nothing else, so others wait.
    fn answer(&self, request: DiskRequest) -> Answer {
        let mut disk = self.disk.lock().expect(NO_PANIC);
        let onlooker = disk.onlooker().cloned();
        if onlooker.is_some_and(|onlooker| onlooker.comes(request, now_ns())) {
            disk = self.wait_for_onlooker(disk);
        }
        loop {
            let answer = disk.answer(request);
            let Answer::Slow(time) = answer else {
                return answer;
            };
            let behaviours = disk.behaviours;
            let is_slow = |disk: &mut Disk| disk.behaviours == behaviours && !disk.hurries;
            let waited = self.changed.wait_timeout_while(disk, time, is_slow);
            let waited = waited.expect(NO_PANIC);
            if waited.1.timed_out() {
                return answer;
            }
            disk = waited.0;
            if disk.behaviours == behaviours {
                return Answer::AtOnce;
            }
        }
    }

    /// Lets whoever looks know that a request was done, and waits as long as it is to.
    fn tell(&self, request: DiskRequest, answer: Answer) {
        let disk = self.disk.lock().expect(NO_PANIC);
        let onlooker = disk.onlooker().cloned();
        let has_failed = answer == Answer::Fail;
        if onlooker.is_some_and(|onlooker| onlooker.is_done(request, has_failed)) {
            drop(self.wait_for_onlooker(disk));
        }
    }

    /// Waits as long as whoever looks says so. This thread does nothing else, so others wait, too.
    fn wait_for_onlooker<'a>(&'a self, mut disk: MutexGuard<'a, Disk>) -> MutexGuard<'a, Disk> {
        while disk.onlooker().is_some_and(|onlooker| onlooker.holds()) {
            let waited = self.changed.wait_timeout(disk, ASK_EVERY);
            disk = waited.expect(NO_PANIC).0;
        }
        disk
    }

    /// Carries a request out by the clock of the log, and answers the writes that waited for it.
    fn carry_out<T>(&self, change: impl FnOnce(&mut Disk, u64) -> T) -> T {
        let mut disk = self.disk.lock().expect(NO_PANIC);
        let time_ns = if disk.recording { now_ns() } else { 0 };
        let result = change(&mut disk, time_ns);
        drop(disk);
        if let Some(late) = &self.late {
            late.request_came();
        }
        result
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        if self.late.is_some() {
            let missing = |_| {
                io::Error::new(
                    io::ErrorKind::Unsupported,
                    "this kernel's FUSE has no asynchronous direct I/O",
                )
            };
            config
                .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
                .map_err(missing)?;
        }
        Ok(())
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let attributes = FileAttr {
            ino,
            size: self.size_bytes,
            blocks: self.size_bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o600,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: crate::PAGE_SIZE as u32,
            flags: 0,
        };
        reply.attr(&ATTRIBUTES_VALID, &attributes);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH,
        );
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = u64::from(size).min(self.size_bytes.saturating_sub(offset)) as usize;
        let mut data = vec![0; length];
        let request = DiskRequest::Read {
            offset,
            length: length as u64,
        };
        let answer = self.answer(request);
        self.carry_out(|disk, _| {
            disk.image.read(offset, &mut data);
            // What is read by a request that fails, nobody gets.
            let is_done = answer != Answer::Fail;
            let corrupted = is_done.then(|| disk.corrupt(request, &data)).flatten();
            if let Some(corrupted) = corrupted {
                data = corrupted;
            }
        });
        self.tell(request, answer);
        match answer {
            Answer::Fail => reply.error(Errno::EIO),
            Answer::AtOnce | Answer::After(_) | Answer::Slow(_) => reply.data(&data),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if offset.saturating_add(data.len() as u64) > self.size_bytes {
            return reply.error(Errno::ENOSPC);
        }
        let length = data.len() as u32;
        let request = DiskRequest::Write {
            offset,
            length: length.into(),
        };
        let answer = self.answer(request);
        let wait = self.carry_out(|disk, time_ns| disk.write((offset, data), answer, time_ns));
        self.tell(request, answer);
        match (wait, &self.late) {
            (Err(errno), _) => reply.error(errno),
            (Ok(Some((place, recording, requests, time_ns))), Some(late)) => {
                late.hold(
                    LateWrite {
                        reply,
                        length,
                        place,
                        recording,
                    },
                    requests,
                    time_ns,
                );
            }
            _ => reply.written(length),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let answer = self.answer(DiskRequest::Flush);
        self.carry_out(|disk, time_ns| match answer {
            _ if !disk.recording => {}
            Answer::Fail => disk.log.note_failed_flush(),
            Answer::AtOnce | Answer::After(_) | Answer::Slow(_) => {
                disk.log.push(Kind::Flush, time_ns);
            }
        });
        self.tell(DiskRequest::Flush, answer);
        done(answer, reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        // The loop driver asks for holes (discard) and zeros (write zeroes), nothing else.
        let length = length.min(self.size_bytes.saturating_sub(offset));
        let request = DiskRequest::Discard { offset, length };
        let answer = self.answer(request);
        self.carry_out(|disk, time_ns| {
            if answer != Answer::Fail {
                disk.image.discard(offset, length);
            }
            if disk.recording && answer != Answer::Fail {
                disk.log.push(Kind::Discard { offset, length }, time_ns);
            }
        });
        self.tell(request, answer);
        done(answer, reply);
    }
}

fn done(answer: Answer, reply: ReplyEmpty) {
    match answer {
        Answer::Fail => reply.error(Errno::EIO),
        Answer::AtOnce | Answer::After(_) | Answer::Slow(_) => reply.ok(),
    }
}

#[expect(unsafe_code, reason = "close_range has no safe wrapper")]
mod sys {
    use std::io;

    use nix::sys::signal::SigSet;

    /// The first descriptor after those of standard input, output and error.
    const FIRST: libc::c_uint = 3;

    /// Gives this thread, and those that it starts, a table of descriptors of its own, with nothing
    /// in it but the standard ones. They take no signals: a handler may write to a descriptor, which
    /// is not there, or is another file.
    pub(super) fn leave_files() -> io::Result<()> {
        SigSet::all().thread_block()?;
        let flags = libc::CLOSE_RANGE_UNSHARE as libc::c_int;
        // SAFETY: what is closed is closed in this thread's new table only, and nothing that this
        // thread owns is open: it has just been started.
        match unsafe { libc::close_range(FIRST, libc::c_uint::MAX, flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Instant;

    use pace_rules::disk::Disk as Keeping;

    use super::*;
    use crate::{Corruption, Fault, Faulty};

    /// Only ends what would hang.
    const PATIENCE: Duration = Duration::from_secs(20);

    const WRITE: DiskRequest = DiskRequest::Write {
        offset: 0,
        length: 512,
    };

    /// A disk that is recorded, and slow with so many requests; comes with how often it was slow.
    fn slow_server(times: u64) -> (Server, Arc<AtomicUsize>) {
        let late = Answer::Slow(2 * PATIENCE);
        let slow = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&slow);
        let hits = move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            true
        };
        let behaviour = Faulty::new(late, times, Keeping::Honest, Box::new(hits));
        let base = Arc::new(Base::empty(crate::PAGE_SIZE as u64));
        let disk = Disk {
            recording: true,
            ..Disk::new(&base, behaviour)
        };
        let server = Server {
            disk: Arc::new(Mutex::new(disk)),
            changed: Arc::default(),
            size_bytes: base.size_bytes(),
            late: None,
        };
        (server, slow)
    }

    #[test]
    fn of_a_write_that_is_torn_the_log_knows_how_much_it_was_to_write() {
        for answer in [Answer::AtOnce, Answer::After(1)] {
            let torn = Fault::Corrupt(Corruption::Torn);
            let behaviour = Faulty::new(torn, 1, Keeping::Honest, Box::new(|_| true));
            let base = Arc::new(Base::empty(crate::PAGE_SIZE as u64));
            let mut disk = Disk {
                recording: true,
                ..Disk::new(&base, behaviour)
            };
            for byte in [7, 8] {
                let written = disk.write((0, &[byte; crate::PAGE_SIZE]), answer, 1);
                written.expect("it is done");
            }
            let log = disk.log;
            let ranges = [0, 1].map(|place| (log.entries()[place].range(), log.asked_range(place)));
            let page = (0, crate::PAGE_SIZE as u64);
            let half = (0, page.1 / 2);
            assert_eq!(ranges, [(half, page), (page, page)]);
        }
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            std::thread::yield_now();
        }
    }

    /// What becomes of a request if the disk is changed while it is slow with it.
    fn change_while_slow(
        (server, slow): &(Server, Arc<AtomicUsize>),
        change: impl FnOnce(&mut Disk),
    ) -> Answer {
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| server.answer(WRITE));
            wait_until("it is asked", || slow.load(Ordering::SeqCst) > 0);
            // Free only while it waits.
            change(&mut server.disk.lock().expect(NO_PANIC));
            server.changed.notify_all();
            wait_until("it answers", || asked.is_finished());
            asked.join().expect(NO_PANIC)
        })
    }

    #[test]
    fn a_request_is_counted_once_if_the_disk_hurries_and_those_meanwhile_are_not() {
        let disk = slow_server(3);
        let answer = change_while_slow(&disk, |disk| disk.hurries = true);
        assert_eq!(answer, Answer::AtOnce);
        let (server, slow) = disk;
        for _ in 0..5 {
            assert_eq!(server.answer(WRITE), Answer::AtOnce);
        }
        assert_eq!(slow.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_slow_request_is_asked_again_if_the_disk_behaves_in_another_way() {
        let answer = change_while_slow(&slow_server(1), |disk| {
            disk.behaviour = Box::new(Faulty::failing(Keeping::Honest, |_| true));
            disk.behaviours += 1;
        });
        assert_eq!(answer, Answer::Fail);
    }

    /// Has each request wait that comes, and counts those that do.
    #[derive(Default)]
    struct Waiter {
        goes_on: AtomicBool,
        came: AtomicUsize,
    }

    impl Onlooker for Waiter {
        fn comes(&self, _: DiskRequest, _: u64) -> bool {
            self.came.fetch_add(1, Ordering::SeqCst);
            true
        }

        fn is_done(&self, _: DiskRequest, _: bool) -> bool {
            false
        }

        fn holds(&self) -> bool {
            !self.goes_on.load(Ordering::SeqCst)
        }
    }

    /// What becomes of a request that waits before it is done, if that is changed meanwhile.
    fn change_while_held(change: impl FnOnce(&mut Disk, &Waiter)) -> Answer {
        let (server, _) = slow_server(0);
        let waiter = Arc::<Waiter>::default();
        server.disk.lock().expect(NO_PANIC).onlooker = Some(Arc::clone(&waiter) as _);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| server.answer(WRITE));
            wait_until("it comes", || waiter.came.load(Ordering::SeqCst) > 0);
            std::thread::sleep(Duration::from_millis(5));
            assert!(!asked.is_finished(), "it waits");
            change(&mut server.disk.lock().expect(NO_PANIC), &waiter);
            wait_until("it answers", || asked.is_finished());
            assert_eq!(waiter.came.load(Ordering::SeqCst), 1);
            asked.join().expect(NO_PANIC)
        })
    }

    #[test]
    fn a_request_waits_for_whoever_looks_until_it_is_let_go_or_nobody_looks_any_more() {
        let let_go = |_: &mut Disk, waiter: &Waiter| waiter.goes_on.store(true, Ordering::SeqCst);
        assert_eq!(change_while_held(let_go), Answer::AtOnce);
        let hurry = |disk: &mut Disk, _: &Waiter| disk.hurries = true;
        assert_eq!(change_while_held(hurry), Answer::AtOnce);
        let unseen = |disk: &mut Disk, _: &Waiter| disk.is_unseen = true;
        assert_eq!(change_while_held(unseen), Answer::AtOnce);
        // How it behaves by then is what counts: the power fails, or this is the fault that was to hit it.
        let fail = |disk: &mut Disk, waiter: &Waiter| {
            disk.behaviour = Box::new(Faulty::failing(Keeping::Honest, |_| true));
            waiter.goes_on.store(true, Ordering::SeqCst);
        };
        assert_eq!(change_while_held(fail), Answer::Fail);
    }

    /// A file system that does not begin.
    struct Refuses;

    impl Filesystem for Refuses {
        fn init(&mut self, _: &Request, _: &mut KernelConfig) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn nothing_stays_mounted_of_a_server_that_does_not_begin() {
        let test = || {
            machine::have_own_mounts().expect("this test needs root: run it with `make test`");
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join("disk");
            File::create(&path).expect("created");
            let error = serve(Refuses, None, path.clone()).expect_err("it refuses");
            assert!(error.to_string().contains("FUSE session"), "{error}");
            let mounts = std::fs::read_to_string("/proc/thread-self/mounts").expect("read");
            let path = path.to_str().expect("text");
            assert!(!mounts.contains(path), "{mounts}");
        };
        std::thread::spawn(test).join().expect("the test passes");
    }
}
