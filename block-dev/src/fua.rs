//! Tells the flush that stands for FUA from a flush of its own.
//!
//! A loop device has no FUA: the kernel sends a write with FUA as the write and a flush after
//! it (Documentation/block/writeback_cache_control.rst). Taken for a flush of its own, that
//! flush would cover every write before it, and hide crash states that are legal. The
//! tracepoint `block_bio_queue` shows what was asked for before it was taken apart.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::{BlockLog, Kind};

const SECTOR_BYTES: u64 = 512;

/// How much of a trace is read with one system call; the kernel gives no more than a page.
const PIPE_BYTES: usize = 4096;

/// How often a trace is read that goes on: the kernel has room for some 20,000 requests.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How many names are tried for a trace instance.
const NAME_ATTEMPTS: usize = 16;

/// How many trace instances this process has asked for.
static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// A request with PREFLUSH or FUA, as the file system sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlaggedRequest {
    time_ns: u64,
    offset: u64,
    length: u64,
    preflush: bool,
    fua: bool,
}

impl FlaggedRequest {
    /// Whether the entry at `place` is a write of some of its bytes that came since.
    fn is_met_by(&self, log: &BlockLog, place: usize) -> bool {
        let entry = &log.entries()[place];
        let (offset, length) = log.asked_range(place);
        let overlaps = offset < self.offset + self.length && self.offset < offset + length;
        let is_write = matches!(entry.kind, Kind::Write { .. });
        is_write && overlaps && entry.time_ns >= self.time_ns
    }
}

/// tracefs on a mount point of ours; unmounted when dropped.
#[derive(Debug)]
struct Tracefs(PathBuf);

impl Tracefs {
    fn mount(mount_point: PathBuf) -> io::Result<Self> {
        std::fs::create_dir(&mount_point)?;
        let mounted = mount(
            Some(crate::NAME_MARK),
            &mount_point,
            Some("tracefs"),
            MsFlags::empty(),
            None::<&str>,
        );
        if let Err(errno) = mounted {
            let _ = std::fs::remove_dir(&mount_point);
            return Err(errno.into());
        }
        Ok(Self(mount_point))
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A trace instance that we have made; removed when dropped.
#[derive(Debug)]
struct Instance(PathBuf);

impl Instance {
    /// Makes one in `directory`. A name that is taken is another's: a process with our number in
    /// another namespace, or one that was killed.
    fn create(directory: &Path) -> io::Result<Self> {
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..NAME_ATTEMPTS {
            // One process may have several recorders.
            let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!(
                "{}-{}-{number}",
                crate::NAME_MARK,
                std::process::id()
            ));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        std::fs::write(self.0.join(file), text)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write("events/block/block_bio_queue/enable", "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Whether this kernel's requests can be watched, so that FUA is told from flushes. `directory` is
/// one of ours, in a mount namespace of our own.
///
/// # Errors
/// Without root, or tracefs with block_bio_queue.
pub fn try_request_trace(directory: &Path) -> io::Result<()> {
    RequestTrace::start(0, directory).map(drop)
}

/// Where the kernel gives a trace, and what it has given that nobody asked for yet.
#[derive(Debug)]
struct Pipe {
    file: File,
    text: Vec<u8>,
}

impl Pipe {
    /// Reads all that is there.
    fn drain(&mut self) -> io::Result<()> {
        let mut page = [0; PIPE_BYTES];
        loop {
            // As much at a time as the kernel gives: a system call is slow in a guest.
            match (&self.file).read(&mut page) {
                Ok(0) => return Ok(()),
                Ok(length) => self.text.extend_from_slice(&page[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A thread that reads a trace now and then; it ends when dropped. It has a mount namespace of its
/// own without a mount in it: whoever started it may leave the one that it was in, and what is mounted
/// there would stay as long as this thread.
#[derive(Debug)]
struct Reader {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(pipe: Arc<Mutex<Pipe>>) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let thread = std::thread::Builder::new().name("requests".into());
        let thread = thread.spawn(move || {
            if machine::have_no_mounts().is_err() {
                return;
            }
            while ended.recv_timeout(READ_EVERY) == Err(RecvTimeoutError::Timeout) {
                // Whoever asks is told what is wrong.
                let _ = pipe.lock().expect(NO_PANIC).drain();
            }
        })?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const NO_PANIC: &str = "no holder panics";

/// Watches one block device through a trace instance of its own.
#[derive(Debug)]
pub struct RequestTrace {
    // Dropped in this order: an instance with an open file stays.
    reader: Option<Reader>,
    pipe: Arc<Mutex<Pipe>>,
    instance: Instance,
    _tracefs: Tracefs,
}

impl RequestTrace {
    /// Starts watching the device with this number. `directory` is where tracefs is mounted: one
    /// of ours, in a mount namespace of our own.
    ///
    /// # Errors
    /// Without root, or tracefs with block_bio_queue.
    pub fn start(device_number: u64, directory: &Path) -> io::Result<Self> {
        let tracefs = Tracefs::mount(directory.join("tracing"))?;
        let instance = Instance::create(&tracefs.0.join("instances"))?;
        instance.write("trace_clock", "mono")?;
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(instance.0.join("trace_pipe"))?;
        let text = Vec::new();
        let this = Self {
            reader: None,
            pipe: Arc::new(Mutex::new(Pipe { file, text })),
            instance,
            _tracefs: tracefs,
        };
        this.watch(device_number)?;
        this.instance
            .write("events/block/block_bio_queue/enable", "1")?;
        Ok(this)
    }

    /// Watches another device from now on.
    ///
    /// # Errors
    /// If the kernel refuses the filter.
    pub fn watch(&self, device_number: u64) -> io::Result<()> {
        // The kernel keeps 12 bits of major and 20 bits of minor number in one word.
        let device =
            (nix::sys::stat::major(device_number) << 20) | nix::sys::stat::minor(device_number);
        let filter = format!("dev == {device} && rwbs ~ \"*F*\"");
        self.instance
            .write("events/block/block_bio_queue/filter", &filter)
    }

    /// Has it read meanwhile from now on: a run that takes long is more than the kernel has room for.
    ///
    /// # Errors
    /// If there can be no thread for that.
    pub fn read_meanwhile(&mut self) -> io::Result<()> {
        self.reader = Some(Reader::start(Arc::clone(&self.pipe))?);
        Ok(())
    }

    /// What was seen since the last call, and not before `start_ns` of CLOCK_MONOTONIC; nothing if
    /// some of it was lost.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn read_since(&mut self, start_ns: u64) -> io::Result<Vec<FlaggedRequest>> {
        Ok(self.read(start_ns)?.unwrap_or_default())
    }

    /// The same; none if some of it was lost.
    fn read(&mut self, start_ns: u64) -> io::Result<Option<Vec<FlaggedRequest>>> {
        let mut pipe = self.pipe.lock().expect(NO_PANIC);
        pipe.drain()?;
        let text = std::mem::take(&mut pipe.text);
        Ok(requests_in(&String::from_utf8_lossy(&text), start_ns))
    }
}

/// The requests in the text of a trace that were sent from a time on; none if the kernel had no room
/// for some: `CPU:1 [LOST 12 EVENTS]`. Then nothing is certain.
fn requests_in(text: &str, start_ns: u64) -> Option<Vec<FlaggedRequest>> {
    if text.contains("[LOST ") {
        return None;
    }
    let requests = text.lines().filter_map(parse);
    // The trace has microseconds.
    let since = requests.filter(|request| request.time_ns >= start_ns / 1000 * 1000);
    Some(since.collect())
}

/// Notes in the log of a recording that began at `start_ns`, and has ended, which writes were FUA; see
/// [`annotate`]. Without a trace, or where some of it was lost, every flush is one of its own, and the
/// log says so.
///
/// # Errors
/// If the trace cannot be read.
pub fn recognise_fua(
    log: &mut BlockLog,
    trace: Option<&mut RequestTrace>,
    start_ns: u64,
) -> io::Result<()> {
    let seen = match trace {
        Some(trace) => trace.read(start_ns)?,
        None => None,
    };
    note_fua(log, seen.as_deref());
    Ok(())
}

fn note_fua(log: &mut BlockLog, seen: Option<&[FlaggedRequest]>) {
    log.set_recognises_fua(seen.is_some());
    annotate(log, seen.unwrap_or_default());
}

/// `NAME-PID [CPU] FLAGS SECONDS: block_bio_queue: MAJOR,MINOR RWBS SECTOR + COUNT [NAME]`
fn parse(line: &str) -> Option<FlaggedRequest> {
    let (before, after) = line.split_once(": block_bio_queue: ")?;
    let (seconds, micros) = before.rsplit(' ').next()?.split_once('.')?;
    let time_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + micros.parse::<u64>().ok()? * 1000;
    let mut words = after.split_whitespace().skip(1);
    let flags = words.next()?;
    let sector: u64 = words.next()?.parse().ok()?;
    let count: u64 = words.nth(1)?.parse().ok()?;
    let preflush = flags.starts_with('F');
    let operation = flags.trim_start_matches('F');
    let fua = operation
        .strip_prefix('W')
        .is_some_and(|rest| rest.starts_with('F'));
    // The kernel's filter looks at what was in the field before as well, and lets reads by.
    if !preflush && !fua {
        return None;
    }
    Some(FlaggedRequest {
        time_ns,
        offset: sector * SECTOR_BYTES,
        length: count * SECTOR_BYTES,
        preflush,
        fua,
    })
}

/// Notes in the log which writes were FUA, and which flushes did no more than stand for that.
///
/// In doubt a flush is taken for one of its own: that may hide a legal state, but accuses nobody.
/// A flush that could stand for FUA, while an empty PREFLUSH waits that was perhaps queued only
/// after it was sent, is in doubt, and so is the next one. The kernel sends the flush that stands
/// for FUA only when the write was completed: none that came while it was in flight is that one.
/// If that flush failed, the write has failed, and is as durable as one without FUA.
/// Where a FUA write is not found in the log, any later flush may be the one that makes it durable.
pub fn annotate(log: &mut BlockLog, requests: &[FlaggedRequest]) {
    let (matched, unmatched) = match_writes(log, requests);
    let stands_for_fua = only_for_fua(log, requests);
    // The flush right before the data of a PREFLUSH write is that write's own.
    let own = |write: &usize| {
        log.entries()[..*write]
            .iter()
            .rposition(|entry| entry.kind == Kind::Flush)
    };
    let preflush = matched.iter().filter(|(_, request)| request.preflush);
    let certain: HashSet<usize> = preflush.filter_map(|(write, _)| own(write)).collect();
    let doubted_from_ns = unmatched.unwrap_or(u64::MAX);
    for index in stands_for_fua {
        if !certain.contains(&index) && log.entries()[index].time_ns < doubted_from_ns {
            log.reclassify(index, Kind::FuaFlush);
        }
    }
}

/// The flushes that nobody asked for, after a FUA write.
fn only_for_fua(log: &BlockLog, requests: &[FlaggedRequest]) -> Vec<usize> {
    let preflush = requests.iter().filter(|request| request.preflush);
    let mut to_come: Vec<Demand> = preflush.map(Demand::new).collect();
    to_come.sort_by_key(|demand| Reverse(demand.time_ns));
    // Those before the latest flush that wait for one.
    let mut demands: Vec<Demand> = Vec::new();
    let mut stands_for_fua = Vec::new();
    // When those FUA writes were completed that no flush has followed since.
    let mut fua_completed = Vec::new();
    for (index, entry) in log.entries().iter().enumerate() {
        match entry.kind {
            Kind::Write { fua: true, .. } => fua_completed.push(entry.completed),
            Kind::Flush => {
                let writes = fua_completed.len();
                fua_completed.retain(|completed| *completed > index);
                let fua_since_flush = fua_completed.len() < writes;
                let is_before = |demand: &mut Demand| demand.time_ns < entry.time_ns;
                demands.extend(std::iter::from_fn(|| to_come.pop_if(is_before)));
                let asked_for = demands.iter().any(|demand| demand.time_ns < entry.time_ns);
                if fua_since_flush && !asked_for {
                    stands_for_fua.push(index);
                }
                demands.retain_mut(|demand| !demand.is_served(entry.time_ns, fua_since_flush));
            }
            _ => {}
        }
    }
    stands_for_fua
}

/// A request for a flush that waits for one.
struct Demand {
    time_ns: u64,
    empty: bool,
    /// A flush went by that may have been in flight already when this was asked for.
    doubted: bool,
}

impl Demand {
    fn new(request: &FlaggedRequest) -> Self {
        Self {
            time_ns: request.time_ns,
            empty: request.length == 0,
            doubted: false,
        }
    }

    /// Whether a flush at `flush_ns`, which may stand for FUA, is certain to be, or to come after,
    /// the one asked for.
    fn is_served(&mut self, flush_ns: u64, may_stand_for_fua: bool) -> bool {
        let in_doubt = may_stand_for_fua && self.empty && !self.doubted;
        self.doubted |= self.time_ns < flush_ns;
        self.time_ns < flush_ns && !in_doubt
    }
}

/// Finds the write of each request that has data, and marks the FUA ones. No file system writes
/// what is still being written, so it is the first one there since: if that is not all of it, none
/// is. Comes with the time of the first FUA request without a write.
fn match_writes<'a>(
    log: &mut BlockLog,
    requests: &'a [FlaggedRequest],
) -> (Vec<(usize, &'a FlaggedRequest)>, Option<u64>) {
    let (mut matched, mut unmatched) = (Vec::new(), None);
    let mut is_free = vec![true; log.entries().len()];
    let latest = latest_times(log);
    for request in requests.iter().filter(|request| request.length > 0) {
        // All entries before these are older than the request. There may be very many.
        let since = latest.partition_point(|time_ns| *time_ns < request.time_ns);
        let mut places = since..log.len();
        let first = places.find(|place| is_free[*place] && request.is_met_by(log, *place));
        // A disk that tears a write has got all of it.
        let asked_for = (request.offset, request.length);
        let whole = first.filter(|place| log.asked_range(*place) == asked_for);
        let Some(index) = whole else {
            if request.fua {
                let first = unmatched.get_or_insert(request.time_ns);
                *first = request.time_ns.min(*first);
            }
            continue;
        };
        if request.fua && !log.next_flush_failed(index) {
            mark_fua(log, index);
        }
        is_free[index] = false;
        matched.push((index, request));
    }
    (matched, unmatched)
}

/// For each entry, the latest time up to it.
fn latest_times(log: &BlockLog) -> Vec<u64> {
    let times = log.entries().iter().map(|entry| entry.time_ns);
    let latest = times.scan(0, |latest: &mut u64, time_ns| {
        *latest = time_ns.max(*latest);
        Some(*latest)
    });
    latest.collect()
}

fn mark_fua(log: &mut BlockLog, index: usize) {
    if let Kind::Write { offset, length, .. } = log.entries()[index].kind {
        let marked = Kind::Write {
            offset,
            length,
            fua: true,
        };
        log.reclassify(index, marked);
    }
}

#[cfg(test)]
mod block_layer;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(time_ns: u64, offset: u64, length: u64, flags: &str) -> FlaggedRequest {
        FlaggedRequest {
            time_ns,
            offset,
            length,
            preflush: flags.contains('p'),
            fua: flags.contains('f'),
        }
    }

    fn kinds(log: &BlockLog) -> String {
        let letter = |entry: &crate::Entry| match entry.kind {
            Kind::Write { fua: true, .. } => 'U',
            Kind::Write { fua: false, .. } => 'W',
            Kind::Flush => 'F',
            Kind::FuaFlush => 'f',
            _ => '-',
        };
        log.entries().iter().map(letter).collect()
    }

    /// W and U are writes of 4096 bytes at ten times their time, F is a flush, X one that failed;
    /// times are 10, 20, ...
    fn log(shape: &str) -> BlockLog {
        let mut log = BlockLog::default();
        for (place, letter) in shape.chars().enumerate() {
            let time_ns = (place as u64 + 1) * 10;
            match letter {
                'W' => log.push_write(time_ns * 4096, &[1; 4096], time_ns),
                'X' => log.note_failed_flush(),
                _ => log.push(Kind::Flush, time_ns),
            }
        }
        log
    }

    #[test]
    fn a_line_of_the_trace_is_read() {
        let line = "  jbd2/loop0-8-123   [001] .....   507.000123: block_bio_queue: 7,0 FWFSM 16 + 8 [jbd2/loop0-8]";
        assert_eq!(
            parse(line),
            Some(request(507_000_123_000, 8192, 4096, "pf"))
        );
        let empty = "    python-9 [000] ..... 1.5: block_bio_queue: 7,3 FWS 0 + 0 [python]";
        assert!(
            parse(empty)
                .is_some_and(|request| request.preflush && !request.fua && request.length == 0)
        );
        assert!(
            parse("x-9 [000] ..... 1.5: block_bio_queue: 7,3 WFSM 8 + 8 [x]")
                .is_some_and(|r| r.fua && !r.preflush)
        );
        assert_eq!(
            parse("x-9 [000] ..... 1.5: block_bio_queue: 7,3 R 8 + 8 [x]"),
            None
        );
    }

    #[test]
    fn a_commit_is_a_flush_a_fua_write_and_a_flush_that_stands_for_fua() {
        let mut commit = log("WFWF");
        annotate(&mut commit, &[request(11, 30 * 4096, 4096, "pf")]);
        assert_eq!(kinds(&commit), "WFUf");
    }

    #[test]
    fn a_write_with_fua_that_the_disk_tore_is_the_one_that_was_sent() {
        let requests = [
            request(11, 30 * 4096, 4096, "pf"),
            request(45, 50 * 4096, 4096, "f"),
        ];
        let mut log = log("WF");
        log.note_asked(log.len(), 4096);
        log.push_write(30 * 4096, &[1; 2048], 30);
        log.push(Kind::Flush, 40);
        log.push_write(50 * 4096, &[1; 4096], 50);
        log.push(Kind::Flush, 60);
        annotate(&mut log, &requests);
        assert_eq!(kinds(&log), "WFUfUf");
        let torn = log.entries()[2];
        assert_eq!(torn.range(), (30 * 4096, 2048), "no more is durable");
    }

    /// A commit behind each of 20,000 fsyncs. Where each is looked for among all, this takes hours.
    #[test]
    fn a_long_log_takes_as_long_as_it_is() {
        let commits = 20_000;
        let mut log = log(&"WFWF".repeat(commits));
        let of_commit = |commit: u64| {
            let journal = commit * 40 + 30;
            request(commit * 40 + 11, journal * 4096, 4096, "pf")
        };
        let requests: Vec<_> = (0..commits as u64).map(of_commit).collect();
        annotate(&mut log, &requests);
        assert_eq!(kinds(&log), "WFUf".repeat(commits));
    }

    #[test]
    fn a_flush_asked_for_before_a_fua_write_is_no_doubt_about_the_one_behind_it() {
        let mut log = log("WFWF");
        annotate(
            &mut log,
            &[request(15, 0, 0, "p"), request(25, 30 * 4096, 4096, "f")],
        );
        assert_eq!(kinds(&log), "WFUf");
    }

    #[test]
    fn a_flush_of_its_own_behind_a_fua_write_stays_one() {
        let mut log = log("WFWF");
        annotate(
            &mut log,
            &[request(11, 30 * 4096, 4096, "pf"), request(35, 0, 0, "p")],
        );
        assert_eq!(kinds(&log), "WFUF");
    }

    #[test]
    fn a_flush_asked_for_while_another_was_under_way_stays_one() {
        // The flush at 40 was sent before 39, and only the one at 60 serves what was asked for
        // then.
        let requests = [
            request(11, 30 * 4096, 4096, "pf"),
            request(39, 0, 0, "p"),
            request(45, 50 * 4096, 4096, "f"),
        ];
        let mut log = log("WFWFWF");
        annotate(&mut log, &requests);
        assert_eq!(kinds(&log), "WFUFUF");
    }

    /// A FUA write, during which this happens and then a flush comes, and another flush behind it.
    fn flushed_under_way(before: impl FnOnce(&mut BlockLog)) -> BlockLog {
        let mut log = BlockLog::default();
        let write = log.push_held_write(10 * 4096, &[1; 4096], 10);
        before(&mut log);
        log.push(Kind::Flush, 20);
        log.complete(write);
        log.push(Kind::Flush, 30);
        annotate(&mut log, &[request(5, 10 * 4096, 4096, "f")]);
        log
    }

    #[test]
    fn a_flush_that_came_while_a_fua_write_was_under_way_is_not_the_one_behind_it() {
        assert_eq!(kinds(&flushed_under_way(|_| {})), "UFf");
    }

    #[test]
    fn a_fua_write_that_did_not_come_as_it_was_sent_leaves_every_later_flush_one_of_its_own() {
        // What is sent at 45 comes in two parts, at 50 and 60.
        let mut log = log("WFWFWWWF");
        let requests = [
            request(11, 30 * 4096, 4096, "pf"),
            request(45, 50 * 4096, 8192, "f"),
            request(65, 70 * 4096, 4096, "f"),
        ];
        annotate(&mut log, &requests);
        assert_eq!(kinds(&log), "WFUfWWUF");
    }

    #[test]
    fn another_s_instance_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let next = INSTANCES.load(Ordering::Relaxed);
        let name = |number| {
            directory.path().join(format!(
                "{}-{}-{number}",
                crate::NAME_MARK,
                std::process::id()
            ))
        };
        std::fs::create_dir(name(next)).expect("made");
        std::fs::create_dir(name(next + 1)).expect("made");
        let ours = Instance::create(directory.path()).expect("made");
        assert_eq!(ours.0, name(next + 2));
        drop(ours);
        assert!(name(next).exists() && name(next + 1).exists() && !name(next + 2).exists());
        let missing = directory.path().join("missing");
        assert!(Instance::create(&missing).is_err());
    }

    #[test]
    fn a_fua_write_whose_flush_failed_is_as_durable_as_any_other() {
        for (shape, kinds_then) in [
            ("WX", "W"),
            ("WXF", "WF"),
            ("WFX", "Uf"),
            ("XWF", "Uf"),
            ("WXX", "W"),
        ] {
            let at = shape.find('W').expect("there is one") as u64 * 10 + 10;
            let mut log = log(shape);
            annotate(&mut log, &[request(at - 5, at * 4096, 4096, "f")]);
            assert_eq!(kinds(&log), kinds_then, "{shape}");
        }
        // A flush that failed before the write was completed is another's.
        let log = flushed_under_way(BlockLog::note_failed_flush);
        assert_eq!(kinds(&log), "UFf");
    }

    #[test]
    fn a_trace_of_which_some_is_lost_tells_nothing_and_the_log_says_so() {
        let line =
            "  jbd2/loop0-8-123 [001] ..... 507.000123: block_bio_queue: 7,0 WFS 80 + 8 [jbd2]\n";
        let lost = format!("CPU:1 [LOST 3 EVENTS]\n{line}");
        let whole = requests_in(line, 0);
        assert_eq!(
            whole,
            Some(vec![request(507_000_123_000, 40960, 4096, "f")])
        );
        assert_eq!(requests_in(line, 507_000_124_000), Some(vec![]));
        assert_eq!(requests_in("", 0), Some(vec![]));
        assert_eq!(requests_in(&lost, 0), None);
        for (seen, is_known) in [(whole, true), (Some(vec![]), true), (None, false)] {
            let mut log = log("WFWF");
            note_fua(&mut log, seen.as_deref());
            assert_eq!(log.recognises_fua(), is_known);
            assert_eq!(kinds(&log), "WFWF");
        }
        let mut log = log("WF");
        recognise_fua(&mut log, None, 0).expect("nothing to read");
        assert!(!log.recognises_fua());
    }

    #[test]
    fn without_a_trace_every_flush_is_one_of_its_own() {
        let mut log = log("WFWFWF");
        annotate(&mut log, &[]);
        assert_eq!(kinds(&log), "WFWFWF");
    }
}
