//! The disk: virtio-blk on a copy-on-write image, with everything that it is asked for in a block
//! log.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;

use block_dev::{Answer, Base, Behaviour, BlockLog, DiskRequest, Image, Kind, Onlooker};
use crash_images::{rebuild, requests};
use pace_rules::disk::{Log, Relaxation, State};
use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_SEG_MAX, VIRTIO_BLK_F_WRITE_ZEROES,
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_DISCARD,
    VIRTIO_BLK_T_FLUSH, VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
    VIRTIO_BLK_T_WRITE_ZEROES,
};

use crate::chance::Chance;
use crate::error::Result;
use crate::vhost_user::{Buffers, Driver, Offer};

/// The ring of a disk.
pub(crate) const QUEUE: usize = 0;

const SECTOR_BYTES: u64 = 512;

/// Kind, priority and sector of a request.
const HEADER_BYTES: usize = 16;

/// A range to discard, or to write zeros to: sector, number of sectors, flags.
const RANGE_BYTES: usize = 16;

/// How many parts one request may have.
const PARTS_MAX: u32 = 126;

/// How many ranges one discard may have, and how many sectors. With several ranges it would be several
/// entries of the log, between which no power can fail: each request is at most one.
const RANGES_MAX: u32 = 1;
const RANGE_SECTORS_MAX: u32 = 1 << 22;

/// Offsets in `struct virtio_blk_config`, which has that many bytes.
const CONFIG_BYTES: usize = 60;
const SEG_MAX_AT: usize = 12;
const MAX_DISCARD_SECTORS_AT: usize = 36;
const MAX_DISCARD_SEG_AT: usize = 40;
const DISCARD_SECTOR_ALIGNMENT_AT: usize = 44;
const MAX_WRITE_ZEROES_SECTORS_AT: usize = 48;
const MAX_WRITE_ZEROES_SEG_AT: usize = 52;

/// What the disk calls itself.
const ID: &[u8] = b"crashpoint";

/// How long a disk takes for a request, in nanoseconds. One takes from half of that to one and a
/// half times as long, as the seed says; requests are done one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskTimes {
    /// To read.
    pub read_ns: u64,
    /// To write, discard, or write zeros.
    pub write_ns: u64,
    /// To flush.
    pub flush_ns: u64,
}

impl Default for DiskTimes {
    /// Those of a solid-state disk of a laptop.
    fn default() -> Self {
        Self {
            read_ns: 80_000,
            write_ns: 20_000,
            flush_ns: 500_000,
        }
    }
}

/// A disk of a simulated machine.
///
/// What is written is on the disk, and in its log, when the request arrives. The disk has no forced
/// unit access: the kernel sends a flush after each such write, which stands in the log as one.
pub struct Disk {
    base: Arc<Base>,
    image: Image,
    log: BlockLog,
    durable: usize,
    behaviour: Box<dyn Behaviour>,
    times: DiskTimes,
    chance: Chance,
    busy_until_ns: u64,
    in_flight: BTreeMap<u16, InFlight>,
    /// Who looks at what it is asked for.
    onlooker: Option<Arc<dyn Onlooker>>,
    /// The requests that wait for whoever does, in the order in which they came to that. Nothing else is
    /// begun meanwhile.
    held: VecDeque<Held>,
    /// How often some of them were let go.
    let_goes: u64,
    /// Whether what it is asked for now is nobody's to look at.
    is_unseen: bool,
}

/// A request that waits.
struct Held {
    which: Waits,
    /// With which of the times that some were let go it goes on, once that is known.
    goes_on: Option<u64>,
}

enum Waits {
    /// It was not begun.
    Before(Buffers, Vec<u8>),
    /// It was done, and is not answered.
    After(u16),
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("log", &self.log)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

/// A request that was begun.
#[derive(Clone)]
struct InFlight {
    buffers: Buffers,
    done: Done,
    is_flush: bool,
    /// What was asked for, if whoever looks is to know that it was done.
    asked: Option<DiskRequest>,
}

/// A request that was begun, as the simulation sees it.
pub(crate) struct Started {
    /// What it is called when it is [finished](Disk::finish).
    pub(crate) head: u16,
    /// When that will be.
    pub(crate) done_ns: u64,
    /// What the driver sent: the header, and what is to be written.
    pub(crate) request: Vec<u8>,
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
}

/// A request as the driver sends it.
struct Request<'a> {
    kind: u32,
    offset: u64,
    data: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(bytes: &'a [u8]) -> io::Result<Self> {
        let Some((header, data)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(io::Error::other("a request to a disk has no header"));
        };
        let sector = u64::from_le_bytes(header[8..].try_into().expect("eight"));
        Ok(Self {
            kind: u32::from_le_bytes(header[..4].try_into().expect("four")),
            offset: sector.saturating_mul(SECTOR_BYTES),
            data,
        })
    }

    /// What is asked of the disk's content, if this disk does such a thing. An answer has room for
    /// `wanted` bytes.
    fn asked(&self, wanted: usize) -> Option<DiskRequest> {
        let offset = self.offset;
        match self.kind {
            VIRTIO_BLK_T_IN => {
                let length = wanted as u64;
                Some(DiskRequest::Read { offset, length })
            }
            VIRTIO_BLK_T_OUT => {
                let length = self.data.len() as u64;
                Some(DiskRequest::Write { offset, length })
            }
            VIRTIO_BLK_T_FLUSH => Some(DiskRequest::Flush),
            VIRTIO_BLK_T_DISCARD | VIRTIO_BLK_T_WRITE_ZEROES => {
                let (offset, length) = self.range()?;
                Some(DiskRequest::Discard { offset, length })
            }
            _ => None,
        }
    }

    /// Offset and length of the range of a discard, if it has one.
    fn range(&self) -> Option<(u64, u64)> {
        let range: &[u8; RANGE_BYTES] = self.data.try_into().ok()?;
        let sector = u64::from_le_bytes(range[..8].try_into().expect("eight"));
        let count = u32::from_le_bytes(range[8..12].try_into().expect("four"));
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        Some((bytes(sector), bytes(count.into())))
    }
}

/// What came of a request at once.
#[derive(Clone, Default)]
struct Done {
    /// What was read.
    answer: Vec<u8>,
    status: u32,
    /// Its place in the log, if it has one.
    place: Option<usize>,
}

/// For what an answer waits.
#[derive(Default)]
struct Wait {
    /// As long as so many more requests take.
    requests: u8,
    /// So long, in nanoseconds, in which the disk does others.
    time_ns: u64,
}

impl Done {
    fn status(status: u32) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

impl Disk {
    /// A disk that holds `base`. What takes how long for it comes from `chance`.
    pub fn new(
        base: Arc<Base>,
        behaviour: impl Behaviour + 'static,
        times: DiskTimes,
        chance: Chance,
    ) -> Self {
        Self {
            image: Image::new(Arc::clone(&base)),
            base,
            log: BlockLog::default(),
            durable: 0,
            behaviour: Box::new(behaviour),
            times,
            chance,
            busy_until_ns: 0,
            in_flight: BTreeMap::new(),
            onlooker: None,
            held: VecDeque::new(),
            let_goes: 0,
            is_unseen: false,
        }
    }

    /// A disk that goes on from here as this one does, if there can be one with its behaviour. Nobody looks
    /// at what it is asked for, so none of its requests may wait.
    pub(crate) fn forked(&self) -> Option<Self> {
        if !self.held.is_empty() {
            return None;
        }
        Some(Self {
            base: Arc::clone(&self.base),
            image: self.image.clone(),
            log: self.log.clone(),
            durable: self.durable,
            behaviour: self.behaviour.forked()?,
            times: self.times,
            chance: self.chance.clone(),
            busy_until_ns: self.busy_until_ns,
            in_flight: self.in_flight.clone(),
            onlooker: None,
            held: VecDeque::new(),
            let_goes: 0,
            is_unseen: false,
        })
    }

    pub(crate) fn offer(&self) -> Offer {
        let mut config = vec![0; CONFIG_BYTES];
        let sectors = self.image.size_bytes() / SECTOR_BYTES;
        config[..8].copy_from_slice(&sectors.to_le_bytes());
        let words = [
            (SEG_MAX_AT, PARTS_MAX),
            (MAX_DISCARD_SECTORS_AT, RANGE_SECTORS_MAX),
            (MAX_DISCARD_SEG_AT, RANGES_MAX),
            (DISCARD_SECTOR_ALIGNMENT_AT, 1),
            (MAX_WRITE_ZEROES_SECTORS_AT, RANGE_SECTORS_MAX),
            (MAX_WRITE_ZEROES_SEG_AT, RANGES_MAX),
        ];
        for (at, word) in words {
            config[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let features = [
            VIRTIO_BLK_F_FLUSH,
            VIRTIO_BLK_F_SEG_MAX,
            VIRTIO_BLK_F_DISCARD,
            VIRTIO_BLK_F_WRITE_ZEROES,
        ];
        Offer {
            features: features.iter().map(|feature| 1 << feature).sum(),
            config,
            queues: 1,
        }
    }

    /// What it was asked for since it was made, or last lost its power.
    pub fn log(&self) -> &BlockLog {
        &self.log
    }

    /// What it holds, all of which may be lost that no flush covers.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Has it behave in another way from the next request on.
    pub fn set_behaviour(&mut self, behaviour: impl Behaviour + 'static) {
        self.behaviour = Box::new(behaviour);
    }

    /// What it was asked for up to now can no more be lost: with that begins what is tested.
    pub fn settle(&mut self) {
        self.durable = self.log.len();
    }

    /// Begins the next request of the driver, if there is one.
    pub(crate) fn start(
        &mut self,
        driver: &mut Driver,
        now_ns: u64,
    ) -> io::Result<Option<Started>> {
        let Some((buffers, request)) = self.next(driver, now_ns)? else {
            return Ok(None);
        };
        self.started(buffers, request, now_ns).map(Some)
    }

    /// The next request that is to be begun now: the one that waited, if it goes on.
    fn next(&mut self, driver: &mut Driver, now_ns: u64) -> io::Result<Option<(Buffers, Vec<u8>)>> {
        if !self.held.is_empty() {
            return Ok(None);
        }
        let Some(buffers) = driver.pop(QUEUE) else {
            return Ok(None);
        };
        let request = driver.read(&buffers)?;
        if self.waits_before(&buffers, &request, now_ns)? {
            self.hold(Waits::Before(buffers, request));
            return Ok(None);
        }
        Ok(Some((buffers, request)))
    }

    fn waits_before(&self, buffers: &Buffers, bytes: &[u8], now_ns: u64) -> io::Result<bool> {
        let Some(onlooker) = self.onlooker.as_ref().filter(|_| !self.is_unseen) else {
            return Ok(false);
        };
        let asked = Request::new(bytes)?.asked(wanted(buffers));
        Ok(asked.is_some_and(|asked| onlooker.comes(asked, now_ns)))
    }

    fn hold(&mut self, which: Waits) {
        let goes_on = None;
        self.held.push_back(Held { which, goes_on });
    }

    /// Has somebody look at what it is asked for from now on.
    pub fn set_onlooker(&mut self, onlooker: Arc<dyn Onlooker>) {
        self.onlooker = Some(onlooker);
    }

    /// From now on, or no longer, nobody looks at what it is asked for, and nothing waits: whoever holds
    /// requests waits for it by himself.
    pub fn set_unseen(&mut self, is: bool) {
        self.is_unseen = is;
    }

    /// Whether requests that wait are to wait no longer, and nobody was told that before.
    pub(crate) fn is_let_go(&mut self) -> bool {
        let onlooker = self.onlooker.as_ref().filter(|_| !self.is_unseen);
        if onlooker.is_some_and(|it| it.holds()) {
            return false;
        }
        let waiting = self.held.iter_mut().filter(|held| held.goes_on.is_none());
        let count = waiting
            .map(|held| held.goes_on = Some(self.let_goes))
            .count();
        self.let_goes += u64::from(count > 0);
        count > 0
    }

    /// Has the requests go on that were let go first: one that was not begun is begun now, which is returned,
    /// all others are answered.
    pub(crate) fn go_on(
        &mut self,
        driver: &mut Driver,
        now_ns: u64,
    ) -> io::Result<Option<Started>> {
        let mut begun = None;
        for which in self.take_first_let_go() {
            match which {
                Waits::Before(buffers, request) => {
                    begun = Some(self.started(buffers, request, now_ns)?);
                }
                Waits::After(head) => self.answer(driver, head)?,
            }
        }
        Ok(begun)
    }

    /// Takes out what was let go together, before all else that waits.
    fn take_first_let_go(&mut self) -> Vec<Waits> {
        let first = self.held.front().and_then(|held| held.goes_on);
        let is_of_it = |held: &&Held| held.goes_on.is_some() && held.goes_on == first;
        let count = self.held.iter().take_while(is_of_it).count();
        self.held.drain(..count).map(|held| held.which).collect()
    }

    fn started(&mut self, buffers: Buffers, request: Vec<u8>, now_ns: u64) -> io::Result<Started> {
        let head = buffers.head;
        let done_ns = self.begin(buffers, &request, now_ns)?;
        Ok(Started {
            head,
            done_ns,
            request,
        })
    }

    /// Does what a request asks for. Returns when it will be finished.
    fn begin(&mut self, buffers: Buffers, bytes: &[u8], now_ns: u64) -> io::Result<u64> {
        let request = Request::new(bytes)?;
        let wanted = wanted(&buffers);
        let (done, wait) = self.carry_out(&request, wanted, now_ns);
        let is_flush = request.kind == VIRTIO_BLK_T_FLUSH;
        let time_ns = self.time_ns(request.kind) * (1 + u64::from(wait.requests));
        self.busy_until_ns = self.busy_until_ns.max(now_ns) + time_ns;
        let done_ns = self.busy_until_ns.saturating_add(wait.time_ns);
        let head = buffers.head;
        let in_flight = InFlight {
            buffers,
            asked: request.asked(wanted),
            done,
            is_flush,
        };
        self.in_flight.insert(head, in_flight);
        Ok(done_ns)
    }

    /// Does what is asked for. Returns what came of it, and for what the answer waits.
    fn carry_out(&mut self, request: &Request, wanted: usize, now_ns: u64) -> (Done, Wait) {
        if request.kind == VIRTIO_BLK_T_GET_ID {
            let done = Done {
                answer: ID.to_vec(),
                ..Done::default()
            };
            return (done, Wait::default());
        }
        let Some(asked) = request.asked(wanted) else {
            return (Done::status(VIRTIO_BLK_S_UNSUPP), Wait::default());
        };
        let mut wait = Wait::default();
        match self.behaviour.answer(asked, self.log.len()) {
            Answer::Fail => return (Done::status(VIRTIO_BLK_S_IOERR), wait),
            _ if !self.has(asked) => return (Done::status(VIRTIO_BLK_S_IOERR), wait),
            Answer::AtOnce => {}
            Answer::After(requests) => wait.requests = requests,
            Answer::Slow(time) => {
                wait.time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            }
        }
        (self.carry_out_it(asked, request.data, now_ns), wait)
    }

    /// Whether what is asked for is within the disk.
    fn has(&self, asked: DiskRequest) -> bool {
        let (offset, length) = match asked {
            DiskRequest::Read { offset, length }
            | DiskRequest::Write { offset, length }
            | DiskRequest::Discard { offset, length } => (offset, length),
            DiskRequest::Flush => (0, 0),
        };
        let end = offset.checked_add(length);
        end.is_some_and(|end| end <= self.image.size_bytes())
    }

    fn carry_out_it(&mut self, asked: DiskRequest, data: &[u8], now_ns: u64) -> Done {
        let mut done = Done::status(VIRTIO_BLK_S_OK);
        match asked {
            DiskRequest::Read { offset, length } => {
                done.answer = vec![0; length as usize];
                self.image.read(offset, &mut done.answer);
                let corrupted = self.behaviour.corrupt(asked, &done.answer, &self.image);
                done.answer = corrupted.unwrap_or(done.answer);
            }
            DiskRequest::Write { offset, .. } => {
                // What gets onto the disk is in the log: a crash loses that, or leaves it.
                let corrupted = self.behaviour.corrupt(asked, data, &self.image);
                let data = corrupted.as_deref().unwrap_or(data);
                done.place = Some(self.log.push_held_write(offset, data, now_ns));
                self.image.write(offset, data);
            }
            DiskRequest::Flush => {
                done.place = Some(self.log.push_held(Kind::Flush, now_ns));
            }
            DiskRequest::Discard { offset, length } => {
                let kind = Kind::Discard { offset, length };
                done.place = Some(self.log.push_held(kind, now_ns));
                self.image.discard(offset, length);
            }
        }
        done
    }

    /// How long a request takes.
    fn time_ns(&mut self, kind: u32) -> u64 {
        let usual = match kind {
            VIRTIO_BLK_T_IN | VIRTIO_BLK_T_GET_ID => self.times.read_ns,
            VIRTIO_BLK_T_FLUSH => self.times.flush_ns,
            _ => self.times.write_ns,
        };
        usual / 2 + self.chance.below(usual)
    }

    /// A request is done. Returns whether the driver gets its answer now: not if it waits for whoever looks.
    pub(crate) fn finish(&mut self, driver: &mut Driver, head: u16) -> io::Result<bool> {
        if self.waits_after(head) {
            self.note(head);
            self.hold(Waits::After(head));
            return Ok(false);
        }
        self.answer(driver, head).map(|()| true)
    }

    /// Whether a request that is done is to wait.
    fn waits_after(&self, head: u16) -> bool {
        let onlooker = self.onlooker.as_ref().filter(|_| !self.is_unseen);
        let of = onlooker.zip(self.in_flight.get(&head));
        of.is_some_and(|(onlooker, InFlight { done, asked, .. })| {
            let has_failed = done.status != VIRTIO_BLK_S_OK;
            asked.is_some_and(|asked| onlooker.is_done(asked, has_failed))
        })
    }

    /// Ends a request: the driver gets its answer, if the machine is still that which asked.
    fn answer(&mut self, driver: &mut Driver, head: u16) -> io::Result<()> {
        let Some(InFlight { buffers, done, .. }) = self.complete(head) else {
            return Ok(());
        };
        let status_at = buffers.writable_bytes().saturating_sub(1);
        let data = &done.answer[..done.answer.len().min(status_at)];
        let written = driver.write(&buffers, 0, data)?;
        driver.write(&buffers, status_at, &[done.status as u8])?;
        driver.give_back(QUEUE, head, written as u32 + 1)
    }

    /// Notes that a request is done now.
    fn note(&mut self, head: u16) {
        let request = self.in_flight.get_mut(&head);
        if let Some(place) = request.and_then(|request| request.done.place.take()) {
            self.log.complete(place);
        }
    }

    /// The same, and takes it out.
    fn complete(&mut self, head: u16) -> Option<InFlight> {
        self.note(head);
        self.in_flight.remove(&head)
    }

    /// The machine is off: nothing that is in flight will be answered. A flush that was not covers
    /// nothing yet.
    pub(crate) fn switch_off(&mut self) {
        for request in std::mem::take(&mut self.in_flight).into_values() {
            if let Some(place) = request.done.place.filter(|_| request.is_flush) {
                self.log.reclassify(place, Kind::FuaFlush);
            }
        }
        self.busy_until_ns = 0;
        self.held.clear();
    }

    /// The power has failed: the disk keeps what `select` says of its log. The machine is off.
    ///
    /// # Errors
    /// If `select` loses what no power failure may cost: then the disk is as it was.
    pub fn power_cut(&mut self, select: impl FnOnce(&Log) -> Relaxation) -> Result<PowerCut> {
        let rules = Log::new(&requests(&self.log), self.durable, self.behaviour.keeps());
        let state = State {
            position: rules.len(),
            relaxation: select(&rules),
        };
        rules.check(&state)?;
        rebuild(&mut self.image, &self.log, &rules, &state);
        let new = Arc::new(Base::from_image(&self.image));
        self.image = Image::new(Arc::clone(&new));
        let base = std::mem::replace(&mut self.base, new);
        self.durable = 0;
        Ok(PowerCut {
            log: std::mem::take(&mut self.log),
            base,
            lost: rules.lost(&state),
            state,
        })
    }
}

/// How many bytes the driver wants to read: the last one that it has room for is the status.
fn wanted(buffers: &Buffers) -> usize {
    buffers.writable_bytes().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use block_dev::{Corruption, Fault, Faulty};
    use pace_rules::disk::Disk as Keeping;

    use super::*;

    const WRITE: u32 = VIRTIO_BLK_T_OUT;
    const FLUSH: u32 = VIRTIO_BLK_T_FLUSH;
    const DISCARD: u32 = VIRTIO_BLK_T_DISCARD;

    fn disk(behaviour: impl Behaviour + 'static) -> Disk {
        let base = Arc::new(Base::empty(1 << 20));
        Disk::new(
            base,
            behaviour,
            DiskTimes::default(),
            Chance::new(1, "disk"),
        )
    }

    /// A request for a sector, which is not done yet.
    fn ask(disk: &mut Disk, head: u16, kind: u32, sector: u64, data: &[u8]) -> u64 {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        bytes.extend(data);
        let mut buffers = Buffers::default();
        buffers.head = head;
        disk.begin(buffers, &bytes, 0).expect("a request")
    }

    /// The same, and it is done. Returns its status.
    fn do_it(disk: &mut Disk, kind: u32, sector: u64, data: &[u8]) -> u32 {
        ask(disk, 99, kind, sector, data);
        disk.complete(99).expect("it was asked for").done.status
    }

    /// A range of sectors as a discard has it.
    fn range(sector: u64, count: u64) -> Vec<u8> {
        [sector.to_le_bytes(), count.to_le_bytes()].concat()
    }

    fn page(byte: u8) -> Vec<u8> {
        vec![byte; 4096]
    }

    /// The first byte of each of two pages after the power failed and everything was lost that can
    /// be.
    fn left(mut disk: Disk) -> [u8; 2] {
        disk.switch_off();
        disk.power_cut(|_| Relaxation::Flushed).expect("possible");
        [0, 1].map(|number| disk.image().page(number)[0])
    }

    #[test]
    fn a_flush_covers_what_was_done_when_it_came_once_it_is_done_itself() {
        let mut covered = disk(Keeping::Honest);
        do_it(&mut covered, WRITE, 0, &page(1));
        do_it(&mut covered, FLUSH, 0, &[]);
        do_it(&mut covered, WRITE, 8, &page(2));
        assert_eq!(left(covered), [1, 0]);

        let mut in_flight = disk(Keeping::Honest);
        do_it(&mut in_flight, WRITE, 0, &page(1));
        ask(&mut in_flight, 1, FLUSH, 0, &[]);
        do_it(&mut in_flight, WRITE, 8, &page(2));
        assert_eq!(left(in_flight), [0, 0], "nobody was told that it is done");

        let mut overtaken = disk(Keeping::Honest);
        ask(&mut overtaken, 1, WRITE, 0, &page(1));
        do_it(&mut overtaken, FLUSH, 0, &[]);
        overtaken.complete(1).expect("it was asked for");
        assert_eq!(
            left(overtaken),
            [0, 0],
            "the write was done after the flush had come"
        );
    }

    #[test]
    fn a_discard_is_covered_as_a_write_is() {
        let range = range(0, 8);
        let with_flush = |is_done: bool| {
            let mut disk = disk(Keeping::Honest);
            do_it(&mut disk, WRITE, 0, &page(1));
            do_it(&mut disk, FLUSH, 0, &[]);
            ask(&mut disk, 1, DISCARD, 0, &range);
            if is_done {
                disk.complete(1);
            }
            do_it(&mut disk, FLUSH, 0, &[]);
            left(disk)[0]
        };
        assert_eq!([with_flush(true), with_flush(false)], [0, 1]);
    }

    /// The power can fail before each entry of the log: a discard with two would have one that no request
    /// begins with.
    #[test]
    fn a_discard_is_offered_one_range_and_is_one_entry_of_the_log() {
        let mut disk = disk(Keeping::Honest);
        let config = disk.offer().config;
        let offered =
            |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(offered(MAX_DISCARD_SEG_AT), 1);
        assert_eq!(offered(MAX_WRITE_ZEROES_SEG_AT), 1);
        let two = [range(0, 8), range(16, 8)].concat();
        assert_eq!(do_it(&mut disk, DISCARD, 0, &two), VIRTIO_BLK_S_UNSUPP);
        assert_eq!(do_it(&mut disk, DISCARD, 0, &[]), VIRTIO_BLK_S_UNSUPP);
        assert!(disk.log().is_empty());
        assert_eq!(do_it(&mut disk, DISCARD, 0, &range(0, 8)), VIRTIO_BLK_S_OK);
        assert_eq!(disk.log().len(), 1);
    }

    #[test]
    fn what_was_settled_is_kept_and_a_disk_that_lies_keeps_nothing_else() {
        let mut disk = disk(Keeping::DropFlush);
        do_it(&mut disk, WRITE, 0, &page(1));
        disk.settle();
        do_it(&mut disk, WRITE, 8, &page(2));
        do_it(&mut disk, FLUSH, 0, &[]);
        assert_eq!(left(disk), [1, 0]);
    }

    #[test]
    fn what_fails_or_lies_beyond_the_end_is_an_error_and_not_in_the_log() {
        let fails = |request| matches!(request, DiskRequest::Write { offset: 0, .. });
        let mut disk = disk(Faulty::failing(Keeping::Honest, fails));
        assert_eq!(do_it(&mut disk, WRITE, 0, &page(1)), VIRTIO_BLK_S_IOERR);
        assert_eq!(
            do_it(&mut disk, WRITE, 1 << 11, &page(1)),
            VIRTIO_BLK_S_IOERR
        );
        assert_eq!(
            do_it(&mut disk, WRITE, u64::MAX, &page(1)),
            VIRTIO_BLK_S_IOERR
        );
        assert_eq!(do_it(&mut disk, 77, 0, &[]), VIRTIO_BLK_S_UNSUPP);
        assert!(disk.log().is_empty());
        assert_eq!(do_it(&mut disk, WRITE, 8, &page(1)), VIRTIO_BLK_S_OK);
        assert_eq!(disk.log().len(), 1);
        let buffers = Buffers::default();
        assert!(disk.begin(buffers, &[0; 3], 0).is_err(), "no request");
    }

    /// Has each request of a kind wait: before it is done, or after.
    struct Waiter {
        is_after: bool,
        holds: AtomicBool,
    }

    impl Onlooker for Waiter {
        fn comes(&self, request: DiskRequest, _: u64) -> bool {
            !self.is_after && request == DiskRequest::Flush
        }

        fn is_done(&self, request: DiskRequest, has_failed: bool) -> bool {
            self.is_after && request == DiskRequest::Flush && !has_failed
        }

        fn holds(&self) -> bool {
            self.holds.load(Ordering::Relaxed)
        }
    }

    fn watched(behaviour: impl Behaviour + 'static, is_after: bool) -> (Disk, Arc<Waiter>) {
        let holds = AtomicBool::new(true);
        let waiter = Arc::new(Waiter { is_after, holds });
        let mut disk = disk(behaviour);
        disk.set_onlooker(Arc::clone(&waiter) as Arc<dyn Onlooker>);
        (disk, waiter)
    }

    #[test]
    fn a_flush_that_waits_for_its_answer_was_done_and_keeps_what_it_covers() {
        let (mut disk, waiter) = watched(Keeping::Honest, true);
        do_it(&mut disk, WRITE, 0, &page(1));
        ask(&mut disk, 1, FLUSH, 0, &[]);
        assert!(disk.waits_after(1));
        disk.note(1);
        disk.hold(Waits::After(1));
        assert!(!disk.is_let_go() && disk.forked().is_none());
        waiter.holds.store(false, Ordering::Relaxed);
        assert!(disk.is_let_go() && !disk.is_let_go(), "that is told once");
        assert_eq!(left(disk), [1, 0]);

        let (mut failed, _) = watched(Faulty::failing(Keeping::Honest, |_| true), true);
        ask(&mut failed, 1, FLUSH, 0, &[]);
        assert!(!failed.waits_after(1));
    }

    #[test]
    fn a_flush_that_waits_before_it_is_done_is_gone_with_the_power() {
        let (mut disk, _) = watched(Keeping::Honest, false);
        do_it(&mut disk, WRITE, 0, &page(1));
        let request = [&FLUSH.to_le_bytes()[..], &[0; 12]].concat();
        let buffers = Buffers::default();
        let waits = disk.waits_before(&buffers, &request, 0);
        assert!(waits.expect("a request"));
        disk.hold(Waits::Before(buffers, request));
        disk.switch_off();
        assert!(disk.held.is_empty());
        assert_eq!(left(disk), [0, 0]);
    }

    /// What goes on now, by its head: 0 for one that was not begun.
    fn go_on(disk: &mut Disk) -> Vec<u16> {
        let head = |which| match which {
            Waits::Before(..) => 0,
            Waits::After(head) => head,
        };
        disk.take_first_let_go().into_iter().map(head).collect()
    }

    #[test]
    fn requests_that_are_done_while_another_waits_wait_too_and_go_on_in_their_order() {
        for is_first_done in [false, true] {
            let (mut disk, waiter) = watched(Keeping::Honest, true);
            for head in 1..=3 {
                ask(&mut disk, head, FLUSH, 0, &[]);
            }
            let waits = |disk: &mut Disk, head| {
                assert!(disk.waits_after(head));
                disk.hold(Waits::After(head));
            };
            if is_first_done {
                waits(&mut disk, 1);
            } else {
                disk.hold(Waits::Before(Buffers::default(), Vec::new()));
            }
            waits(&mut disk, 2);
            assert!(!disk.is_let_go() && go_on(&mut disk).is_empty());
            waiter.holds.store(false, Ordering::Relaxed);
            assert!(disk.is_let_go() && !disk.is_let_go(), "that is told once");
            // One that waits by then goes on by itself, later.
            waits(&mut disk, 3);
            assert!(disk.is_let_go());
            assert_eq!(go_on(&mut disk), [u16::from(is_first_done), 2]);
            assert!(disk.forked().is_none(), "one waits");
            assert_eq!(go_on(&mut disk), [3]);
            assert!(go_on(&mut disk).is_empty() && disk.forked().is_some());
        }
    }

    #[test]
    fn a_slow_request_has_no_other_wait() {
        let time = Duration::from_millis(300);
        let is_flush = Box::new(|request| request == DiskRequest::Flush);
        let slow = Answer::Slow(time);
        let mut disk = disk(Faulty::new(slow, 1, Keeping::Honest, is_flush));
        // What they take otherwise is less than a millisecond each.
        let ms = |ns: u64| ns / 1_000_000;
        assert_eq!(ms(ask(&mut disk, 1, FLUSH, 0, &[])), 300);
        assert!(ms(ask(&mut disk, 2, WRITE, 0, &page(1))) <= 1);
        assert!(ms(ask(&mut disk, 3, FLUSH, 0, &[])) <= 2);
    }

    #[test]
    fn a_corrupted_write_is_what_a_crash_leaves_and_a_corrupted_read_leaves_the_disk_alone() {
        let corrupting = |what, times| {
            let all = Box::new(|_| true);
            disk(Faulty::new(
                Fault::Corrupt(what),
                times,
                Keeping::Honest,
                all,
            ))
        };
        let mut torn = corrupting(Corruption::Torn, 1);
        do_it(&mut torn, WRITE, 0, &page(1));
        do_it(&mut torn, WRITE, 8, &page(2));
        assert_eq!(do_it(&mut torn, FLUSH, 0, &[]), VIRTIO_BLK_S_OK);
        torn.switch_off();
        torn.power_cut(|_| Relaxation::Flushed).expect("possible");
        let halves = |number| [0, 2048].map(|at| torn.image().page(number)[at]);
        assert_eq!([halves(0), halves(1)], [[1, 0], [2, 2]]);

        let mut zeros = corrupting(Corruption::Zeros, 1);
        zeros.image.write(0, &page(1));
        let read = |disk: &mut Disk| {
            let (offset, length) = (0, 4096);
            let read = DiskRequest::Read { offset, length };
            disk.carry_out_it(read, &[], 0).answer
        };
        assert_eq!(read(&mut zeros), page(0));
        assert_eq!(read(&mut zeros), page(1), "once");
    }

    #[test]
    fn requests_are_done_one_after_the_other() {
        let mut disk = disk(Keeping::Honest);
        let times = DiskTimes::default();
        let first_ns = ask(&mut disk, 1, WRITE, 0, &page(1));
        let second_ns = ask(&mut disk, 2, FLUSH, 0, &[]);
        let around = |usual_ns: u64| usual_ns / 2..usual_ns / 2 + usual_ns;
        assert!(around(times.write_ns).contains(&first_ns), "{first_ns}");
        let took_ns = second_ns - first_ns;
        assert!(around(times.flush_ns).contains(&took_ns), "{took_ns}");
    }
}
