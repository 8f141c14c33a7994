//! The run itself: whose turn it is, and what happens to whom.
//!
//! One kernel runs at a time, and it waits for an answer to each message that it sends. So there is
//! one message in the world, and nothing that a machine learns depends on the host.
//!
//! *Lookahead*: a kernel that runs is told up to when it may let time pass without asking. That is
//! until something happens to it, or to whoever drives the simulation, or until another machine
//! could have sent it something: when that one wants to run, and the shortest latency.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use machine::{OwnDirectory, Uml};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::calendar::{Calendar, Source};
use crate::chance::Chance;
use crate::device::{Disk, Kind, received, sent};
use crate::error::{Context, Error, Result};
use crate::machine::{End, Machine, MachineSpec};
use crate::switch::{Link, Switch};
use crate::time_travel::{Message, NEVER_NS, Operation};
use crate::vhost_user::Received;

/// The time of day at which every simulation begins, in nanoseconds since 1970: in November 2023.
pub const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// No event is as late as this, and kernels can add to it.
const FAR_NS: u64 = NEVER_NS / 2;

/// How many digits of the hash of a history are shown: 64 bits.
const HISTORY_DIGITS: usize = 16;

/// How often it is looked whether somebody wants an end, while a kernel computes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long a kernel may compute without a word, in the host's time. One in which a thread spins
/// does so for ever: no time passes for it.
const COMPUTES_WITHIN: Duration = Duration::from_secs(120);

/// How long it takes until a sender is told that its frame is out, after that was so.
const TOLD_SENT_NS: u64 = 1000;

/// Simulations that were made: neighbours are to run on different processors.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// What a simulation is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The kernel of all machines: with virtual time, and the seed that its processes' random
    /// numbers come from ([`Uml::find_virtual`]).
    pub kernel: Uml,
    /// What everything that is drawn comes from.
    pub seed: u64,
    /// What the ways between machines are like.
    pub link: Link,
    /// The directory for what kernels say on their consoles: one file for each machine.
    pub consoles: PathBuf,
}

/// Why a simulation stands still.
#[derive(Debug, PartialEq, Eq)]
pub enum Happening {
    /// A machine has said something at its port.
    Said {
        /// Which one.
        machine: usize,
        /// What.
        bytes: Vec<u8>,
    },
    /// A machine is off.
    Ended {
        /// Which one.
        machine: usize,
        /// Why.
        end: End,
    },
    /// The point that was [asked for](Simulation::stop_at) is here: what happens there has not
    /// happened yet.
    Point,
    /// It is the time up to which the simulation was to run.
    Time,
    /// Nothing will ever happen again.
    Silence,
}

/// A moment of a run, which every run of the same simulation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A disk is about to get a request, and has so many entries in its log.
    Disk {
        /// The machine.
        machine: usize,
        /// Which of its disks.
        disk: usize,
        /// The length of its log.
        position: usize,
    },
    /// A machine is about to send a frame, and has sent so many in its life.
    Frame {
        /// The machine.
        machine: usize,
        /// How many it has sent.
        number: u64,
    },
}

/// What is going to happen.
#[derive(Debug)]
enum Event {
    /// A machine gets a frame.
    Frame { to: usize, frame: Vec<u8> },
    /// A driver is told that a ring of its device has something for it.
    Call(Ring),
    /// A disk has done what it was asked for.
    Done { device: Place, head: u16 },
    /// There may be something to bring in at a port.
    Fill(Place),
    /// Somebody speaks to a machine.
    Speak { device: Place, bytes: Vec<u8> },
    /// A machine has said something: whoever drives the simulation is told.
    Said { machine: usize, bytes: Vec<u8> },
    /// A machine is off: whoever drives the simulation is told.
    Ended { machine: usize, end: End },
}

/// A device of a machine in one of its lives.
#[derive(Debug, Clone, Copy)]
struct Place {
    machine: usize,
    life: u32,
    device: usize,
}

#[derive(Debug, Clone, Copy)]
struct Ring {
    device: Place,
    queue: usize,
}

impl Event {
    /// The machine to which it happens.
    fn target(&self) -> Option<usize> {
        match self {
            Self::Frame { to, .. } => Some(*to),
            Self::Call(ring) => Some(ring.device.machine),
            Self::Done { device, .. } | Self::Fill(device) | Self::Speak { device, .. } => {
                Some(device.machine)
            }
            Self::Said { .. } | Self::Ended { .. } => None,
        }
    }
}

/// A message of a kernel that has not been answered: the simulation stands still there.
#[derive(Debug)]
struct Unanswered {
    machine: usize,
    device: usize,
    message: Received,
}

/// What came of serving a kernel.
enum Served {
    /// It waits, or has ended.
    Waits,
    /// It is at the point that was asked for.
    AtPoint,
}

/// Machines on one calendar, with a network between them.
///
/// All kernels are killed when it is dropped.
#[derive(Debug)]
pub struct Simulation {
    machines: Vec<Machine>,
    switch: Switch,
    calendar: Calendar<Event>,
    settings: Settings,
    now_ns: u64,
    is_lock_step: bool,
    point: Option<Point>,
    unanswered: Option<Unanswered>,
    /// How many frames each machine has sent.
    frames: Vec<u64>,
    /// How many messages kernels have sent.
    messages: u64,
    /// All that machines have sent, written and said, and when.
    history: blake3::Hasher,
    /// Sockets. The last to go.
    directory: OwnDirectory,
}

impl Simulation {
    /// A simulation without machines, at its time 0. The thread that makes it stays on one processor
    /// from then on, and so do the kernels that it starts; they end with that thread.
    ///
    /// # Errors
    /// If there is no room for its sockets.
    pub fn new(settings: Settings) -> Result<Self> {
        let memory = Path::new(machine::MEMORY_DIRECTORY);
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let directory = OwnDirectory::new(&parent, "simulation");
        let directory = directory.doing(|| format!("make a directory in {}", parent.display()))?;
        // What takes turns is slower where each turn wakes another processor.
        let number = std::process::id() as usize + MADE.fetch_add(1, Ordering::Relaxed);
        let _ = machine::stay_on_one_processor(number);
        Ok(Self {
            machines: Vec::new(),
            switch: Switch::new(settings.seed, settings.link),
            calendar: Calendar::default(),
            settings,
            now_ns: 0,
            is_lock_step: false,
            point: None,
            unanswered: None,
            frames: Vec::new(),
            messages: 0,
            history: blake3::Hasher::new(),
            directory,
        })
    }

    /// Adds a machine, which is off, and returns its index.
    ///
    /// # Errors
    /// If its devices cannot be made.
    pub fn add(&mut self, spec: MachineSpec) -> Result<usize> {
        self.switch.plug_in(&spec.name, spec.address);
        let machine = Machine::new(spec, self.directory.path(), &self.settings.consoles)?;
        self.machines.push(machine);
        self.frames.push(0);
        Ok(self.machines.len() - 1)
    }

    /// The time, in nanoseconds since the simulation began: that of what happened last.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The network.
    pub fn switch(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// A hash of all frames, requests to disks and words of machines so far, with their times: two
    /// runs that have the same are the same, as far as anybody outside of a machine can tell.
    pub fn history(&self) -> String {
        self.history.finalize().to_hex()[..HISTORY_DIGITS].to_owned()
    }

    /// Remembers what a disk was last asked for. Reads are not in its log.
    fn remember_request(&mut self, index: usize, device: usize) {
        let Kind::Disk(disk) = &self.machines[index].devices[device].kind else {
            return;
        };
        let log = disk.log();
        let mut what = log.len().to_le_bytes().to_vec();
        if let Some(last) = log.len().checked_sub(1) {
            what.extend(format!("{:?}", log.entries()[last].kind).into_bytes());
            what.extend(log.data(last));
        }
        self.remember(index, &what);
    }

    fn remember(&mut self, index: usize, what: &[u8]) {
        let numbers = [self.now_ns, index as u64, what.len() as u64];
        for number in numbers {
            self.history.update(&number.to_le_bytes());
        }
        self.history.update(what);
    }

    /// How many messages its kernels have sent.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// A disk of a machine.
    ///
    /// # Panics
    /// If there is no such machine, or it has no such disk.
    pub fn disk(&mut self, machine: usize, disk: usize) -> &mut Disk {
        let disks = self.machines[machine].devices.iter_mut();
        let mut disks = disks.filter_map(|device| match &mut device.kind {
            Kind::Disk(disk) => Some(disk),
            _ => None,
        });
        disks.nth(disk).expect("there is such a disk")
    }

    /// Whether a machine is on.
    pub fn is_on(&self, machine: usize) -> bool {
        self.machines[machine].running.is_some()
    }

    /// What a machine's kernels have said on its console.
    pub fn console(&self, machine: usize) -> String {
        self.machines[machine].console_text()
    }

    /// Nobody runs ahead from now on, so what is done to several machines is done to them at one
    /// instant. It costs three to five times as many messages, and changes nothing else.
    pub fn keep_in_step(&mut self, in_step: bool) {
        self.is_lock_step = in_step;
    }

    /// Has the simulation stand still at a point, once.
    pub fn stop_at(&mut self, point: Option<Point>) {
        self.point = point;
    }

    /// Switches machines on, now. Those that are on are left as they are.
    ///
    /// # Errors
    /// If a kernel does not start.
    pub fn switch_on(&mut self, machines: &[usize], cancelled: &dyn Fn() -> bool) -> Result<()> {
        for index in machines.iter().copied() {
            if self.is_on(index) {
                continue;
            }
            let machine = &mut self.machines[index];
            // Each life has its own random numbers, as each would of a real machine.
            let name = format!("machine {} {}", machine.name, machine.life);
            let seed = Chance::new(self.settings.seed, &name).number() >> 1;
            let kernel = &self.settings.kernel;
            machine.switch_on(kernel, self.directory.path(), (index, seed), self.now_ns)?;
            self.serve(index, cancelled)?;
        }
        Ok(())
    }

    /// The power of machines fails, now: nothing comes from them any more, and their disks hold
    /// what they were asked to write, until [`Disk::power_cut`] says what is lost.
    pub fn switch_off(&mut self, machines: &[usize]) {
        for index in machines.iter().copied() {
            self.machines[index].kill();
            if self
                .unanswered
                .as_ref()
                .is_some_and(|at| at.machine == index)
            {
                self.unanswered = None;
            }
        }
    }

    /// Freezes a machine: no time passes for it.
    pub fn freeze(&mut self, machine: usize) {
        let now_ns = self.now_ns;
        if let Some(running) = &mut self.machines[machine].running {
            running.frozen_ns.get_or_insert(now_ns);
        }
    }

    /// Has a machine go on where it was frozen: its clock is behind.
    pub fn thaw(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let machine = &mut self.machines[index];
        let Some(running) = &mut machine.running else {
            return;
        };
        let Some(since_ns) = running.frozen_ns.take() else {
            return;
        };
        let frozen_ns = now_ns.saturating_sub(since_ns.max(running.local_ns));
        running.offset_ns += frozen_ns;
        running.local_ns += frozen_ns;
        running.request_ns = running.request_ns.map(|request| request + frozen_ns);
        // What came meanwhile.
        let life = machine.life;
        for (device, kind) in machine.devices.iter().enumerate() {
            let queues: &[usize] = match kind.kind {
                Kind::Network | Kind::Port(_) => &[0, 1, 2],
                Kind::Disk(_) => &[0],
            };
            for queue in queues.iter().copied() {
                let device = Place {
                    machine: index,
                    life,
                    device,
                };
                let event = Event::Call(Ring { device, queue });
                self.calendar.add(now_ns, Source::Driver, event);
            }
        }
    }

    /// Says something to a machine, which hears it after the shortest latency of the network.
    pub fn speak(&mut self, machine: usize, bytes: Vec<u8>) {
        let time_ns = self.now_ns + self.switch.latency_ns_min();
        let life = self.machines[machine].life;
        let device = Place {
            machine,
            life,
            device: self.machines[machine].port,
        };
        let event = Event::Speak { device, bytes };
        self.calendar.add(time_ns, Source::Driver, event);
    }

    /// Runs until something happens, at the latest until `until_ns`.
    ///
    /// # Errors
    /// [`Error::Interrupted`], or if a kernel does not do what it should.
    pub fn run(&mut self, until_ns: u64, cancelled: &dyn Fn() -> bool) -> Result<Happening> {
        if let Some(at) = self.unanswered.take() {
            let index = at.machine;
            let happening = match self.go_on(at, cancelled)? {
                Served::AtPoint => Some(Happening::Point),
                Served::Waits => None,
            };
            tracing::trace!(machine = index, "went on");
            if let Some(happening) = happening {
                return Ok(happening);
            }
        }
        loop {
            if cancelled() {
                return Err(Error::Interrupted);
            }
            let event_ns = self.calendar.next_ns();
            let machine = self.next_machine();
            let next_ns = [event_ns, machine.map(|(time_ns, _)| time_ns)];
            let next_ns = next_ns.into_iter().flatten().min();
            if next_ns.is_none() && !self.is_anybody_frozen() {
                return Ok(Happening::Silence);
            }
            let Some(next_ns) = next_ns.filter(|next_ns| *next_ns <= until_ns) else {
                self.now_ns = until_ns;
                return Ok(Happening::Time);
            };
            if event_ns == Some(next_ns) {
                if let Some(happening) = self.take_event()? {
                    return Ok(happening);
                }
            } else if let Some((time_ns, index)) = machine
                && let Served::AtPoint = self.let_run(index, time_ns, until_ns, cancelled)?
            {
                return Ok(Happening::Point);
            }
        }
    }

    fn is_anybody_frozen(&self) -> bool {
        let mut running = self
            .machines
            .iter()
            .filter_map(|machine| machine.running.as_ref());
        running.any(|running| running.frozen_ns.is_some())
    }

    /// Who wants to run first, and when.
    fn next_machine(&self) -> Option<(u64, usize)> {
        let wishes = self.machines.iter().enumerate();
        let wishes = wishes.filter_map(|(index, machine)| {
            let running = machine.running.as_ref()?;
            let is_frozen = running.frozen_ns.is_some();
            Some((running.request_ns.filter(|_| !is_frozen)?, index))
        });
        wishes.min()
    }

    /// Lets the next event happen.
    fn take_event(&mut self) -> Result<Option<Happening>> {
        let (time_ns, event) = self.calendar.pop().expect("there is one");
        // It may be earlier than what a machine did that ran ahead.
        self.now_ns = time_ns;
        if let Some(target) = event.target()
            && let Some(running) = &mut self.machines[target].running
        {
            running.local_ns = running.local_ns.max(time_ns);
        }
        match event {
            Event::Said { machine, bytes } => {
                return Ok(Some(Happening::Said { machine, bytes }));
            }
            Event::Ended { machine, end } => {
                return Ok(Some(Happening::Ended { machine, end }));
            }
            Event::Frame { to, frame } => self.arrive(to, &frame)?,
            Event::Call(ring) => self.call(ring)?,
            Event::Done { device, head } => {
                if let Some(index) = self.alive(device) {
                    let machine = &mut self.machines[index];
                    let part = &mut machine.devices[device.device];
                    if let (Some(driver), Kind::Disk(disk)) = (&mut part.driver, &mut part.kind) {
                        let finished = disk.finish(driver, head);
                        finished.map_err(|error| machine.misbehaves(error.to_string()))?;
                    }
                    self.call(Ring { device, queue: 0 })?;
                }
            }
            Event::Fill(device) => self.fill(device)?,
            Event::Speak { device, bytes } => {
                if let Some(index) = self.alive(device)
                    && let Kind::Port(port) = &mut self.machines[index].devices[device.device].kind
                {
                    port.give(&bytes);
                }
                self.fill(device)?;
            }
        }
        Ok(None)
    }

    /// The machine of a device, if it still has the life that the device was in.
    fn alive(&self, device: Place) -> Option<usize> {
        let machine = &self.machines[device.machine];
        (machine.life == device.life && machine.running.is_some()).then_some(device.machine)
    }

    /// A frame arrives.
    fn arrive(&mut self, index: usize, frame: &[u8]) -> Result<()> {
        let machine = &mut self.machines[index];
        let driver = machine.devices[NETWORK].driver.as_mut();
        let taken = driver.map(|driver| received(driver, frame)).transpose();
        let taken = taken.map_err(|error| machine.misbehaves(error.to_string()))?;
        let Some(queue) = taken.flatten() else {
            self.switch.count_lost();
            return Ok(());
        };
        let life = machine.life;
        let device = Place {
            machine: index,
            life,
            device: NETWORK,
        };
        self.call(Ring { device, queue })
    }

    /// Brings in what waits at a port.
    fn fill(&mut self, device: Place) -> Result<()> {
        let Some(index) = self.alive(device) else {
            return Ok(());
        };
        let machine = &mut self.machines[index];
        let part = &mut machine.devices[device.device];
        let (Some(driver), Kind::Port(port)) = (&mut part.driver, &mut part.kind) else {
            return Ok(());
        };
        let filled = port.fill(driver);
        let filled = filled.map_err(|error| machine.misbehaves(error.to_string()))?;
        for queue in filled {
            self.call(Ring { device, queue })?;
        }
        Ok(())
    }

    /// Interrupts a machine that waits: it asks for the time, asks to run now, and then answers.
    fn call(&mut self, ring: Ring) -> Result<()> {
        let Some(index) = self.alive(ring.device) else {
            return Ok(());
        };
        let machine = &mut self.machines[index];
        let running = machine.running.as_ref().expect("it is alive");
        let part = &mut machine.devices[ring.device.device];
        let driver = part
            .driver
            .as_mut()
            .filter(|driver| driver.wants_call(ring.queue));
        let Some(driver) = driver.filter(|_| running.frozen_ns.is_none()) else {
            return Ok(());
        };
        let (now_ns, queue, device) = (self.now_ns, ring.queue, ring.device.device);
        tracing::trace!(now_ns, machine = machine.name, device, queue, "calls");
        if driver.call(ring.queue).is_err() {
            return self.end(index);
        }
        let begun = Instant::now();
        loop {
            let machine = &mut self.machines[index];
            let Some(running) = &machine.running else {
                return Ok(());
            };
            let driver = machine.devices[ring.device.device].driver.as_ref();
            let answers = driver
                .and_then(crate::vhost_user::Driver::answers)
                .expect("it was called");
            let mut fds = [
                PollFd::new(running.stream.as_fd(), PollFlags::POLLIN),
                PollFd::new(answers, PollFlags::POLLIN),
            ];
            wait(&mut fds)?;
            if begun.elapsed() > COMPUTES_WITHIN {
                return Err(machine.misbehaves("does not answer an interrupt"));
            }
            let (asks, answers) = (fds[0].any() == Some(true), fds[1].any() == Some(true));
            if asks {
                if self.heed(index)?.is_none() {
                    return self.end(index);
                }
            } else if answers {
                let driver = machine.devices[ring.device.device].driver.as_mut();
                return match driver.expect("it was called").called() {
                    Ok(()) => Ok(()),
                    Err(_) => self.end(index),
                };
            }
        }
    }

    /// Lets a machine run at a time until it waits again.
    fn let_run(
        &mut self,
        index: usize,
        time_ns: u64,
        until_ns: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Served> {
        self.now_ns = time_ns;
        let free_until_ns = self.free_until_ns(index).min(until_ns).max(time_ns);
        let machine = &mut self.machines[index];
        let running = machine.running.as_mut().expect("it wants to run");
        running.local_ns = time_ns;
        running.request_ns = None;
        running.free_until_ns = free_until_ns;
        let offset_ns = running.offset_ns;
        tracing::trace!(
            time_ns,
            machine = machine.name,
            free_until_ns,
            offset_ns,
            "runs"
        );
        let words = [
            Message::new(Operation::FreeUntil, free_until_ns - offset_ns),
            Message::new(Operation::Run, time_ns - offset_ns),
        ];
        if machine.tell(&words).is_err() {
            self.end(index)?;
            return Ok(Served::Waits);
        }
        self.serve(index, cancelled)
    }

    /// Until when a machine may let time pass without asking.
    fn free_until_ns(&self, index: usize) -> u64 {
        let mut free_ns = FAR_NS;
        let mut others_ns = FAR_NS;
        for (other, machine) in self.machines.iter().enumerate() {
            let request_ns = machine
                .running
                .as_ref()
                .and_then(|running| running.request_ns);
            if let Some(request_ns) = request_ns.filter(|_| other != index) {
                others_ns = others_ns.min(request_ns);
            }
        }
        for (time_ns, event) in self.calendar.iter() {
            match event.target() {
                Some(other) if other != index => others_ns = others_ns.min(time_ns),
                _ => {
                    // They come by time: no later one is sooner.
                    free_ns = time_ns;
                    break;
                }
            }
        }
        let lookahead_ns = if self.is_lock_step {
            0
        } else {
            self.switch.latency_ns_min()
        };
        free_ns
            .min(others_ns.saturating_add(lookahead_ns))
            .min(FAR_NS)
    }

    /// Answers the messages of the one kernel that runs, until it waits.
    fn serve(&mut self, index: usize, cancelled: &dyn Fn() -> bool) -> Result<Served> {
        let mut quiet_since = Instant::now();
        loop {
            let machine = &self.machines[index];
            if machine.running.is_none() {
                return Ok(Served::Waits);
            }
            let events = machine.events();
            let mut fds: Vec<_> = events
                .iter()
                .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
                .collect();
            wait(&mut fds)?;
            // The stream comes first, as it does for the kernel.
            let Some(ready) = fds.iter().position(|fd| fd.any() == Some(true)) else {
                if cancelled() {
                    return Err(Error::Interrupted);
                }
                if quiet_since.elapsed() > COMPUTES_WITHIN {
                    let what = format!(
                        "has computed for {COMPUTES_WITHIN:?} without a word: a thread may spin, \
                         which takes for ever where computing takes no time"
                    );
                    return Err(machine.misbehaves(what));
                }
                continue;
            };
            quiet_since = Instant::now();
            let Some(device) = ready.checked_sub(1) else {
                match self.heed(index)? {
                    Some(Operation::Wait) => return Ok(Served::Waits),
                    Some(_) => continue,
                    None => {
                        self.end(index)?;
                        return Ok(Served::Waits);
                    }
                }
            };
            match self.machines[index].devices[device].receive() {
                Ok(None) => {}
                Ok(Some(message)) => {
                    let at = Unanswered {
                        machine: index,
                        device,
                        message,
                    };
                    if let Served::AtPoint = self.attend(at)? {
                        return Ok(Served::AtPoint);
                    }
                }
                // The kernel ends: its stream says so.
                Err(_) => self.machines[index].devices[device].driver = None,
            }
        }
    }

    /// Goes on where the simulation stood still.
    fn go_on(&mut self, at: Unanswered, cancelled: &dyn Fn() -> bool) -> Result<Served> {
        let index = at.machine;
        match self.attend(at)? {
            Served::AtPoint => Ok(Served::AtPoint),
            Served::Waits => self.serve(index, cancelled),
        }
    }

    /// Does what a message of a driver asks for, and answers it; or stands still before that.
    fn attend(&mut self, at: Unanswered) -> Result<Served> {
        self.messages += 1;
        let (index, device) = (at.machine, at.device);
        if let Some(queue) = at.message.kicked() {
            if !self.kick(index, device, queue)? {
                self.unanswered = Some(at);
                return Ok(Served::AtPoint);
            }
            // It must know how long it has before it goes on.
            if !self.shorten(index)? {
                return Ok(Served::Waits);
            }
        }
        let machine = &mut self.machines[index];
        let part = &mut machine.devices[device];
        if let Err(error) = part.answer(at.message) {
            if error.kind() == io::ErrorKind::Other {
                return Err(machine.misbehaves(error.to_string()));
            }
            part.driver = None;
        }
        Ok(Served::Waits)
    }

    /// A driver has made something available. Returns whether all of it was taken, and not the
    /// point that was asked for reached.
    fn kick(&mut self, index: usize, device: usize, queue: usize) -> Result<bool> {
        let (now_ns, source) = (self.now_ns, Source::Machine(index));
        let life = self.machines[index].life;
        let place = Place {
            machine: index,
            life,
            device,
        };
        let mut disk_index = 0;
        for earlier in &self.machines[index].devices[..device] {
            disk_index += usize::from(matches!(earlier.kind, Kind::Disk(_)));
        }
        let mut sent_ns = None;
        loop {
            let part = &mut self.machines[index].devices[device];
            let Some(driver) = part.driver.as_mut() else {
                return Ok(true);
            };
            let here = match &part.kind {
                Kind::Network => Some(Point::Frame {
                    machine: index,
                    number: self.frames[index],
                }),
                Kind::Disk(disk) => Some(Point::Disk {
                    machine: index,
                    disk: disk_index,
                    position: disk.log().len(),
                }),
                Kind::Port(_) => None,
            };
            if here.is_some() && here == self.point && driver.has_more(queue) {
                self.point = None;
                return Ok(false);
            }
            let taken = match &mut part.kind {
                Kind::Network => sent(driver, queue).map(|frame| frame.map(Taken::Frame)),
                Kind::Disk(disk) => disk
                    .start(driver, now_ns)
                    .map(|started| started.map(|(head, done_ns)| Taken::Request(head, done_ns))),
                Kind::Port(port) => port.said(driver, queue).map(|said| said.map(Taken::Words)),
            };
            let taken =
                taken.map_err(|error| self.machines[index].misbehaves(error.to_string()))?;
            match taken {
                Some(Taken::Frame(frame)) => {
                    self.remember(index, &frame);
                    self.frames[index] += 1;
                    let way = self.switch.send(index, &frame, now_ns);
                    sent_ns = Some(way.sent_ns);
                    for (time_ns, to) in way.arrivals {
                        let frame = frame.clone();
                        self.calendar
                            .add(time_ns, source, Event::Frame { to, frame });
                    }
                }
                Some(Taken::Request(head, done_ns)) => {
                    self.remember_request(index, device);
                    let event = Event::Done {
                        device: place,
                        head,
                    };
                    self.calendar.add(done_ns, source, event);
                }
                Some(Taken::Words(bytes)) => {
                    self.remember(index, &bytes);
                    let event = Event::Said {
                        machine: index,
                        bytes,
                    };
                    self.calendar.add(now_ns, source, event);
                }
                None => break,
            }
        }
        match &self.machines[index].devices[device].kind {
            Kind::Network => {
                if let Some(sent_ns) = sent_ns {
                    let event = Event::Call(Ring {
                        device: place,
                        queue,
                    });
                    self.calendar.add(sent_ns + TOLD_SENT_NS, source, event);
                }
            }
            Kind::Port(port) => {
                let time_ns = now_ns + TOLD_SENT_NS;
                // There may be room for input, and somebody may wait for room for output.
                if port.has_input() {
                    self.calendar.add(time_ns, source, Event::Fill(place));
                }
                let event = Event::Call(Ring {
                    device: place,
                    queue,
                });
                self.calendar.add(time_ns, source, event);
            }
            Kind::Disk(_) => {}
        }
        Ok(true)
    }

    /// Tells the kernel that runs, if it may let less time pass than it was told. Whether it lives.
    fn shorten(&mut self, index: usize) -> Result<bool> {
        let free_ns = self.free_until_ns(index);
        let machine = &mut self.machines[index];
        let Some(running) = machine.running.as_mut() else {
            return Ok(false);
        };
        if free_ns >= running.free_until_ns {
            return Ok(true);
        }
        running.free_until_ns = free_ns;
        let free_ns = free_ns.saturating_sub(running.offset_ns);
        if machine
            .tell(&[Message::new(Operation::FreeUntil, free_ns)])
            .is_err()
        {
            self.end(index)?;
            return Ok(false);
        }
        // It looks at its devices first: it must have this before it has our answer.
        loop {
            match self.heed(index)? {
                Some(Operation::Ack) => return Ok(true),
                Some(_) => {}
                None => {
                    self.end(index)?;
                    return Ok(false);
                }
            }
        }
    }

    /// Reads one message of a kernel to its calendar, and answers it. None if the kernel has ended.
    fn heed(&mut self, index: usize) -> Result<Option<Operation>> {
        self.messages += 1;
        let now_ns = self.now_ns;
        let machine = &mut self.machines[index];
        let time_of_day_ns = machine.time_of_day_ns(EPOCH_NS, now_ns);
        let Some(running) = machine.running.as_mut() else {
            return Ok(None);
        };
        let Ok(message) = Message::read(&mut running.stream) else {
            return Ok(None);
        };
        let offset_ns = running.offset_ns;
        let Message {
            operation, time_ns, ..
        } = message;
        tracing::trace!(now_ns, machine = machine.name, ?operation, time_ns, "heard");
        let answer_ns = match message.operation {
            Operation::Ack => return Ok(Some(Operation::Ack)),
            Operation::Request => {
                let is_ever = message.time_ns < NEVER_NS - offset_ns;
                running.request_ns = is_ever.then(|| message.time_ns + offset_ns);
                0
            }
            Operation::Get => now_ns.max(running.local_ns) - offset_ns,
            Operation::Update => {
                let time_ns = message.time_ns.saturating_add(offset_ns);
                let (local_ns, free_ns) = (running.local_ns, running.free_until_ns);
                if time_ns < local_ns || (time_ns > local_ns && time_ns > free_ns) {
                    let what = format!(
                        "says that it is {time_ns} ns, where it was {local_ns} ns and might be \
                         {free_ns} ns"
                    );
                    return Err(machine.misbehaves(what));
                }
                running.local_ns = time_ns;
                self.now_ns = time_ns;
                0
            }
            Operation::GetTimeOfDay => time_of_day_ns,
            Operation::Start | Operation::Wait => 0,
            other => {
                let what = format!("asks its calendar for what that does not know ({other:?})");
                return Err(machine.misbehaves(what));
            }
        };
        match machine.tell(&[message.ack(answer_ns)]) {
            Ok(()) => Ok(Some(message.operation)),
            Err(_) => Ok(None),
        }
    }

    /// A kernel has ended.
    fn end(&mut self, index: usize) -> Result<()> {
        if self.is_on(index) {
            let end = self.machines[index].ended()?;
            let event = Event::Ended {
                machine: index,
                end,
            };
            self.calendar
                .add(self.now_ns, Source::Machine(index), event);
        }
        Ok(())
    }
}

/// What a device takes out of a ring.
enum Taken {
    Frame(Vec<u8>),
    /// Its name, and when it is done.
    Request(u16, u64),
    Words(Vec<u8>),
}

/// The device of each machine that is its network card.
const NETWORK: usize = 0;

/// Waits until there is something, for a while.
fn wait(fds: &mut [PollFd]) -> Result<()> {
    let patience = PollTimeout::try_from(LOOK_EVERY).expect("it is short");
    match poll(fds, patience) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error).doing(|| "wait for the kernels".into()),
    }
}
