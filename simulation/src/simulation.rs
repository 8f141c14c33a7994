//! The run itself: whose turn it is, and what happens to whom.
//!
//! One kernel runs at a time, and it waits for an answer to each message that it sends. So there is
//! one message in the world, and nothing that a machine learns depends on the host.
//!
//! *Lookahead*: a kernel that runs is told up to when it may let time pass without asking. That is
//! until something happens to it, or to whoever drives the simulation, or until another machine
//! could have sent it something: when that one wants to run, and the shortest latency.

mod events;
mod fork;
mod kernels;
mod kicks;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use machine::{OwnDirectory, Uml};

use crate::calendar::{Calendar, Source};
use crate::chance::Chance;
use crate::device::{Disk, Kind};
use crate::error::{Context, Error, Result};
use crate::machine::{End, Machine, MachineSpec};
use crate::switch::{Link, Switch};
use crate::vhost_user::Received;

/// The time of day at which every simulation begins, in nanoseconds since 1970: in November 2023.
pub const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// What a card has out so soon after its power failed is not lost. Programs send without that time
/// passes: else there would be no failure after one frame and before the next.
const STILL_SENT_NS: u64 = 10_000_000;

/// How many digits of the hash of a history are shown: 64 bits.
const HISTORY_DIGITS: usize = 16;

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
    /// How fast machines send, in bits a second.
    pub bits_per_second: u64,
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
    /// A message that somebody waits for was the first one to be lost ([`crate::Until::With`]).
    Limit,
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
#[derive(Debug, Clone)]
enum Event {
    /// A machine gets a frame, which is out of the hands of its sender at a time.
    Frame {
        from: usize,
        sent_ns: u64,
        to: usize,
        frame: Vec<u8>,
    },
    /// A driver is told that a ring of its device has something for it.
    Call(Ring),
    /// A disk has done what it was asked for.
    Done { device: Place, head: u16 },
    /// A request goes on that waited for whoever looks at those of a disk.
    GoOn(Place),
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
            Self::Done { device, .. }
            | Self::GoOn(device)
            | Self::Fill(device)
            | Self::Speak { device, .. } => Some(device.machine),
            Self::Said { .. } | Self::Ended { .. } => None,
        }
    }
}

/// A message of a kernel that has not been answered: the simulation stands still there.
#[derive(Debug)]
struct Unanswered {
    place: Place,
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
    /// The point was reached while machines were switched on: whoever lets the simulation run next is
    /// told.
    is_at_point: bool,
    /// How many messages kernels have sent.
    messages: u64,
    /// Sockets. The last to go.
    directory: OwnDirectory,
}

/// The directory for the sockets of a simulation.
fn own_directory() -> Result<OwnDirectory> {
    let memory = Path::new(machine::MEMORY_DIRECTORY);
    let parent = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let directory = OwnDirectory::new(&parent, "simulation");
    directory.doing(|| format!("make a directory in {}", parent.display()))
}

impl Simulation {
    /// A simulation without machines, at its time 0. The thread that makes it stays on one processor
    /// from then on, and so do the kernels that it starts; they end with that thread.
    ///
    /// # Errors
    /// If there is no room for its sockets.
    pub fn new(settings: Settings) -> Result<Self> {
        let directory = own_directory()?;
        // What takes turns is slower where each turn wakes another processor.
        let number = std::process::id() as usize + MADE.fetch_add(1, Ordering::Relaxed);
        let _ = machine::stay_on_one_processor(number);
        Ok(Self {
            machines: Vec::new(),
            switch: Switch::new(settings.seed, settings.link, settings.bits_per_second),
            calendar: Calendar::default(),
            settings,
            now_ns: 0,
            is_lock_step: false,
            point: None,
            unanswered: None,
            is_at_point: false,
            messages: 0,
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
        Ok(self.machines.len() - 1)
    }

    /// The time, in nanoseconds since the simulation began: that of what happened last.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How late it is for the machine that has run ahead furthest. What is done to machines or to the network
    /// at [that time](Self::run) is done to all at one instant: before, some may have sent what is later.
    pub fn latest_ns(&self) -> u64 {
        let running = self
            .machines
            .iter()
            .filter_map(|machine| machine.running.as_ref());
        let times_ns = running.map(|running| running.times.local_ns);
        times_ns.fold(self.now_ns, u64::max)
    }

    /// The network.
    pub fn switch(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// The same, to look at.
    pub fn network(&self) -> &Switch {
        &self.switch
    }

    /// A hash of all frames, requests to disks and words of machines so far, with their times: two
    /// runs that have the same are the same, as far as anybody outside of a machine can tell.
    pub fn history(&self) -> String {
        let mut all = blake3::Hasher::new();
        for machine in &self.machines {
            all.update(machine.history.finalize().as_bytes());
        }
        all.finalize().to_hex()[..HISTORY_DIGITS].to_owned()
    }

    /// Each machine has a history of its own: how far one runs ahead of another decides nothing.
    fn remember(&mut self, index: usize, what: &[u8]) {
        let history = &mut self.machines[index].history;
        for number in [self.now_ns, what.len() as u64] {
            history.update(&number.to_le_bytes());
        }
        history.update(what);
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

    /// How many frames a machine has sent, in all its lives.
    pub fn frames_of(&self, machine: usize) -> u64 {
        self.machines[machine].frames
    }

    /// When a machine that is on was switched on: its kernel's clock counts from there.
    ///
    /// # Panics
    /// If it is off.
    pub fn began_ns(&self, machine: usize) -> u64 {
        let running = self.machines[machine].running.as_ref();
        running.expect("the machine is on").times.offset_ns
    }

    /// Whether a machine is on. One that has run ahead to its end is, until that is told.
    pub fn is_on(&self, machine: usize) -> bool {
        let mut events = self.calendar.iter();
        self.machines[machine].running.is_some()
            || events.any(
                |(_, event)| matches!(event, Event::Ended { machine: of, .. } if *of == machine),
            )
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
        self.is_at_point = false;
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
            self.lose_unsent(index);
            let machine = &mut self.machines[index];
            // Each life has its own random numbers, as each would of a real machine.
            let name = format!("machine {} {}", machine.name, machine.life);
            let seed = Chance::new(self.settings.seed, &name).number() >> 1;
            let kernel = &self.settings.kernel;
            machine.switch_on(kernel, self.directory.path(), (index, seed), self.now_ns)?;
            if let Served::AtPoint = self.serve(index, cancelled)? {
                self.is_at_point = true;
            }
        }
        Ok(())
    }

    /// The power of machines fails, now: nothing comes from them any more but the frames that are out
    /// within 10 ms, and their disks hold what they were asked to write, until [`Disk::power_cut`] says what is lost.
    pub fn switch_off(&mut self, machines: &[usize]) {
        for index in machines.iter().copied() {
            self.machines[index].kill();
            self.lose_unsent(index);
            self.lose_untold(index);
            if self
                .unanswered
                .as_ref()
                .is_some_and(|at| at.place.machine == index)
            {
                self.unanswered = None;
            }
        }
    }

    /// Loses what a machine's card has not sent yet, but for what is out before long.
    fn lose_unsent(&mut self, machine: usize) {
        let now_ns = self.now_ns;
        let out_ns = now_ns + STILL_SENT_NS;
        let lost = self.calendar.drop_all_but(|event| {
            !matches!(event, Event::Frame { from, sent_ns, .. } if *from == machine && *sent_ns > out_ns)
        });
        self.switch.reset_card(machine, now_ns, lost as u64);
    }

    /// Loses what a machine has said or how it ended and nobody was told: that is of no later life, and it may
    /// have run ahead.
    fn lose_untold(&mut self, index: usize) {
        self.calendar.drop_all_but(|event| {
            !matches!(event, Event::Said { machine, .. } | Event::Ended { machine, .. } if *machine == index)
        });
    }

    /// Freezes a machine: no time passes for it.
    pub fn freeze(&mut self, machine: usize) {
        let now_ns = self.now_ns;
        if let Some(running) = &mut self.machines[machine].running {
            running.times.frozen_ns.get_or_insert(now_ns);
        }
    }

    /// Has a machine go on where it was frozen: its clock is behind.
    pub fn thaw(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let machine = &mut self.machines[index];
        let Some(running) = &mut machine.running else {
            return;
        };
        let Some(since_ns) = running.times.frozen_ns.take() else {
            return;
        };
        let frozen_ns = now_ns.saturating_sub(since_ns.max(running.times.local_ns));
        running.times.offset_ns += frozen_ns;
        running.times.since_ns.0 += frozen_ns;
        running.times.local_ns += frozen_ns;
        running.times.known_ns.0 += frozen_ns;
        running.times.request_ns = running.times.request_ns.map(|request| request + frozen_ns);
        // What came meanwhile.
        let rings = machine.devices.iter().enumerate();
        let rings =
            rings.flat_map(|(device, part)| (0..part.queues()).map(move |queue| (device, queue)));
        for (device, queue) in rings.collect::<Vec<_>>() {
            let device = self.place(index, device);
            let event = Event::Call(Ring { device, queue });
            self.calendar.add(now_ns, Source::Driver, event);
        }
    }

    /// How much faster than time the clock of a machine runs, in parts of a million.
    pub fn drift_ppm(&self, machine: usize) -> i32 {
        self.machines[machine].clock.now.drift_ppm
    }

    /// Has the clock of a machine run so much faster from now on, also while it is off: with it all that the
    /// machine measures. What it shows now stays. No machine is ahead of the others.
    pub fn set_drift(&mut self, machine: usize, drift_ppm: i32) {
        let now_ns = self.now_ns;
        let machine = &mut self.machines[machine];
        let before = machine.clock.now;
        machine.clock.drift(drift_ppm, now_ns);
        if let Some(running) = &mut machine.running {
            running.times.drift((before, machine.clock.now), now_ns);
        }
    }

    /// What the clock of a machine that is on shows now, since it was switched on.
    pub fn shown_ns(&self, machine: usize) -> Option<u64> {
        let machine = &self.machines[machine];
        let times = machine.running.as_ref()?.times;
        let now_ns = times.frozen_ns.unwrap_or(self.now_ns).max(times.local_ns);
        Some(times.own_ns(machine.clock.now, now_ns))
    }

    /// A device of a machine, in the life that it has now.
    fn place(&self, machine: usize, device: usize) -> Place {
        let life = self.machines[machine].life;
        Place {
            machine,
            life,
            device,
        }
    }

    /// What a device of a machine does is an error of its kernel's, if it is one.
    fn of_device<T>(&self, machine: usize, done: io::Result<T>) -> Result<T> {
        done.map_err(|error| self.machines[machine].of_device(&error))
    }

    /// Has requests go on that whoever looks at the disks has let go, after the shortest latency of the network:
    /// a machine may be as far ahead.
    pub fn let_requests_go(&mut self) {
        let time_ns = self.now_ns + self.switch.latency_ns_min();
        for index in 0..self.machines.len() {
            for device in 0..self.machines[index].devices.len() {
                let place = self.place(index, device);
                if let Kind::Disk(disk) = &mut self.machines[index].devices[device].kind
                    && disk.is_let_go()
                {
                    let source = Source::Driver;
                    self.calendar.add(time_ns, source, Event::GoOn(place));
                }
            }
        }
    }

    /// Says something to a machine, which hears it after the shortest latency of the network.
    pub fn speak(&mut self, machine: usize, bytes: Vec<u8>) {
        let time_ns = self.now_ns + self.switch.latency_ns_min();
        let device = self.place(machine, self.machines[machine].port);
        let event = Event::Speak { device, bytes };
        self.calendar.add(time_ns, Source::Driver, event);
    }

    /// Runs until something happens, at the latest until `until_ns`.
    ///
    /// # Errors
    /// [`Error::Interrupted`], or if a kernel does not do what it should.
    pub fn run(&mut self, until_ns: u64, cancelled: &dyn Fn() -> bool) -> Result<Happening> {
        if std::mem::take(&mut self.is_at_point) {
            return Ok(Happening::Point);
        }
        if let Some(at) = self.unanswered.take()
            && let Served::AtPoint = self.go_on(at, cancelled)?
        {
            return Ok(Happening::Point);
        }
        loop {
            if cancelled() {
                return Err(Error::Interrupted);
            }
            if self.switch.take_news() {
                return Ok(Happening::Limit);
            }
            let event_ns = self.calendar.next_ns();
            let machine = self.next_machine();
            let next_ns = [event_ns, machine.map(|(time_ns, _)| time_ns)];
            let next_ns = next_ns.into_iter().flatten().min();
            let Some(next_ns) = next_ns.filter(|next_ns| *next_ns <= until_ns) else {
                // That time may be over.
                self.now_ns = self.now_ns.max(until_ns);
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

    /// Who wants to run first, and when.
    fn next_machine(&self) -> Option<(u64, usize)> {
        let wishes = self.machines.iter().enumerate();
        let wishes =
            wishes.filter_map(|(index, machine)| Some((machine.wants_to_run_ns()?, index)));
        wishes.min()
    }
}
