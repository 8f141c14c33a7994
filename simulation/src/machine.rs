//! One machine: a kernel in a process of its own, what it knows of the time, and its devices.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

mod fork;

use machine::Uml;
use nix::sys::signal::Signal;

use crate::clock::{ChangingClock, Clock};
use crate::device::{Device, Disk, Kind, Port, network_offer, port_offer};
use crate::error::{Context, Error, Result};
use crate::process::Process;
use crate::switch::HardwareAddress;
use crate::time_travel::{Message, NEVER_NS};

/// How long a kernel may take to find its calendar, in the host's time. In the time in which
/// nobody looks, because everything was stopped, no kernel gets anywhere either.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// From one look to the next no more time than this counts.
const GAP_MAX: Duration = Duration::from_secs(1);

const LOOK_EVERY: Duration = Duration::from_micros(300);

/// How long a kernel that has closed its stream may take to end, in the host's time.
const END_WITHIN: Duration = Duration::from_secs(10);

/// What somebody else sends, or the host's kernel. Crashes of a kernel come as other ones.
const OUTSIDE_SIGNALS: [Signal; 4] = [
    Signal::SIGKILL,
    Signal::SIGTERM,
    Signal::SIGQUIT,
    Signal::SIGXCPU,
];

/// How many of the last lines of a console are shown with an error.
const LAST_LINES: usize = 5;

/// What a machine is.
#[derive(Debug)]
pub struct MachineSpec {
    /// Its name: letters, digits and `-`. Its files have it.
    pub name: String,
    /// The address of its network card.
    pub address: HardwareAddress,
    /// Its memory in MiB.
    pub memory_mib: u64,
    /// Its disks, which it sees as /dev/vda, /dev/vdb and so on.
    pub disks: Vec<Disk>,
    /// Its clock.
    pub clock: Clock,
    /// How its kernel disturbs the programs in it.
    pub chaos: Option<Chaos>,
    /// The arguments with which this program is started as its init.
    pub init: Vec<String>,
}

/// How a kernel disturbs programs of three threads or more, by a seed: without that, timers fire only
/// when all threads wait. It takes a kernel with scripts/uml/7-chaos.patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chaos {
    /// What a system call or a page fault takes, in nanoseconds.
    pub entry_ns: u32,
    /// After how many of these the pages of code are taken away, so that calls into them are page
    /// faults; 0: never.
    pub entries_per_age: u32,
    /// At how many of a million page faults a thread sleeps.
    pub sleeps_per_million: u32,
    /// How long at most, in microseconds.
    pub sleep_us_max: u32,
    /// When it begins, in milliseconds after the boot.
    pub from_ms: u32,
}

impl Chaos {
    /// Some: a program hardly serves more slowly.
    pub const LOW: Self = Self {
        entry_ns: 500,
        entries_per_age: 6000,
        sleeps_per_million: 2000,
        sleep_us_max: 20_000,
        from_ms: 300,
    };

    /// As much as a cluster bears that is to get anything done.
    pub const HIGH: Self = Self {
        entry_ns: 1000,
        entries_per_age: 1500,
        sleeps_per_million: 8000,
        sleep_us_max: 60_000,
        from_ms: 300,
    };

    /// As the kernel takes it.
    fn parameter(self, seed: u64) -> String {
        let Self {
            entry_ns,
            entries_per_age,
            sleeps_per_million,
            sleep_us_max,
            from_ms,
        } = self;
        format!(
            "chaos={seed},{entry_ns},{entries_per_age},{sleeps_per_million},{sleep_us_max},{from_ms}"
        )
    }
}

/// How a machine came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It was switched off from the inside.
    Off,
    /// Its kernel gave up: what it said.
    Panic(String),
    /// Its process ended in another way, which says nothing about its kernel. Who was killed by somebody
    /// else has no end: that is an error of the run.
    Process(String),
}

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) name: String,
    memory_mib: u64,
    /// Where its memory is a file.
    room: PathBuf,
    pub(crate) clock: ChangingClock,
    chaos: Option<Chaos>,
    init: Vec<String>,
    /// What a kernel finds at its boot.
    calendar: UnixListener,
    pub(crate) devices: Vec<Device>,
    /// The device that is the port.
    pub(crate) port: usize,
    pub(crate) running: Option<Running>,
    /// How often it was switched on: an event for an earlier life is none for this one.
    pub(crate) life: u32,
    /// How many frames it has sent.
    pub(crate) frames: u64,
    /// All that it has sent, written and said, and when.
    pub(crate) history: blake3::Hasher,
    console: PathBuf,
}

/// A kernel that runs.
#[derive(Debug)]
pub(crate) struct Running {
    process: Process,
    pub(crate) stream: UnixStream,
    pub(crate) times: Times,
    /// Where its words begin on the console.
    console_from: usize,
}

/// What a kernel that runs knows of the time, and is to know.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "each has its unit")]
pub(crate) struct Times {
    /// The simulation's time at which its own was 0: when it was switched on, later by as long as
    /// it was frozen.
    pub(crate) offset_ns: u64,
    /// Since when its clock runs as it does, in the simulation's time and in its own.
    pub(crate) since_ns: (u64, u64),
    /// What it knows of the simulation's time.
    pub(crate) local_ns: u64,
    /// The last moment that both it and we named, in the simulation's time and in its own: between
    /// two ticks of a clock that drifts there is more than one moment.
    pub(crate) known_ns: (u64, u64),
    /// When it wants to run.
    pub(crate) request_ns: Option<u64>,
    /// The same in its own time.
    pub(crate) own_request_ns: u64,
    /// Up to when it lets time pass without asking.
    pub(crate) free_until_ns: u64,
    /// Since when it is frozen.
    pub(crate) frozen_ns: Option<u64>,
}

impl Running {
    /// The same kernel after a fork, in another process.
    fn of_fork(&self, process: Process, stream: UnixStream) -> Self {
        Self {
            process,
            stream,
            times: self.times,
            console_from: self.console_from,
        }
    }

    /// The process of its kernel.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Times {
    /// Those of a kernel that is switched on.
    fn of_boot(now_ns: u64) -> Self {
        Self {
            offset_ns: now_ns,
            since_ns: (now_ns, 0),
            local_ns: now_ns,
            known_ns: (now_ns, 0),
            request_ns: None,
            own_request_ns: 0,
            free_until_ns: 0,
            frozen_ns: None,
        }
    }

    /// It is to know that it is so late, unless no time passes for it.
    pub(crate) fn learn(&mut self, time_ns: u64) {
        if self.frozen_ns.is_none() {
            self.local_ns = self.local_ns.max(time_ns);
        }
    }

    /// It wants to run at a time of its own clock.
    pub(crate) fn request(&mut self, clock: Clock, own_ns: u64) {
        let time_ns = self.time_ns(clock, own_ns);
        let is_ever = own_ns.max(time_ns) < NEVER_NS;
        self.request_ns = is_ever.then_some(time_ns);
        self.own_request_ns = own_ns;
    }

    /// It asks how late it is. Returns what its clock shows.
    pub(crate) fn tell(&mut self, clock: Clock, now_ns: u64) -> u64 {
        let time_ns = now_ns.max(self.local_ns);
        let own_ns = self.own_ns(clock, time_ns);
        self.known_ns = (time_ns, own_ns);
        own_ns
    }

    /// It says how late it is by its own clock. Returns the simulation's time.
    ///
    /// # Errors
    /// In words, if it cannot be so late.
    pub(crate) fn update(&mut self, clock: Clock, own_ns: u64) -> std::result::Result<u64, String> {
        let time_ns = self.time_ns(clock, own_ns);
        let (local_ns, free_ns) = (self.local_ns, self.free_until_ns);
        if time_ns < local_ns || (time_ns > local_ns && time_ns > free_ns) {
            return Err(format!(
                "says that it is {time_ns} ns, where it was {local_ns} ns and might be {free_ns} ns"
            ));
        }
        self.local_ns = time_ns;
        self.known_ns = (time_ns, own_ns);
        Ok(time_ns)
    }

    /// What its clock shows at a time of the simulation that is not before what it knows. It has not
    /// gone beyond what it asked to run at as long as that is not over.
    pub(crate) fn own_ns(&self, clock: Clock, time_ns: u64) -> u64 {
        let (known_ns, own_ns) = self.known_ns;
        if time_ns == known_ns {
            return own_ns;
        }
        let (since_ns, own_since_ns) = self.since_ns;
        let shown_ns = own_since_ns + clock.counted_ns(time_ns.saturating_sub(since_ns));
        match self.request_ns {
            Some(request_ns) if time_ns <= request_ns => shown_ns.min(self.own_request_ns),
            _ => shown_ns,
        }
    }

    /// When its clock shows a time.
    pub(crate) fn time_ns(&self, clock: Clock, shown_ns: u64) -> u64 {
        let (known_ns, own_ns) = self.known_ns;
        if shown_ns == own_ns {
            return known_ns;
        }
        let (since_ns, own_since_ns) = self.since_ns;
        let counted_ns = shown_ns.saturating_sub(own_since_ns);
        clock.passed_ns(counted_ns).saturating_add(since_ns)
    }

    /// Its clock, which ran as the one, runs as the other from now on; if it is frozen, from where it stands.
    /// When it wants to run by its own clock it still does. It waits.
    pub(crate) fn drift(&mut self, (before, after): (Clock, Clock), now_ns: u64) {
        let time_ns = self.frozen_ns.unwrap_or(now_ns).max(self.local_ns);
        let own_ns = self.own_ns(before, time_ns);
        self.since_ns = (time_ns, own_ns);
        self.known_ns = (time_ns, own_ns);
        if self.request_ns.is_some() {
            self.request(after, self.own_request_ns);
        }
    }
}

/// The names of a machine's files in the directory of the simulation, which is its kernel's working
/// directory: what a kernel is told must be the same in each run.
fn file(name: &str, what: &str) -> String {
    format!("{name}.{what}")
}

/// The device that is the port.
const PORT: usize = 1;

/// The network card, the port and the disks of a machine, in this order. `at` has their paths.
fn devices(
    address: HardwareAddress,
    disks: Vec<Disk>,
    at: impl Fn(&str) -> PathBuf,
) -> io::Result<Vec<Device>> {
    let mut devices = vec![
        Device::new(&at("network"), network_offer(address), Kind::Network)?,
        Device::new(&at("port"), port_offer(), Kind::Port(Port::default()))?,
    ];
    for (index, disk) in disks.into_iter().enumerate() {
        let path = at(&format!("disk{index}"));
        devices.push(Device::new(
            &path,
            disk.offer(),
            Kind::Disk(Box::new(disk)),
        )?);
    }
    Ok(devices)
}

impl Machine {
    /// Makes what a kernel will find. `directory` is the simulation's, and `consoles` that for what
    /// kernels say.
    pub(crate) fn new(spec: MachineSpec, directory: &Path, consoles: &Path) -> Result<Self> {
        let at = |what: &str| directory.join(file(&spec.name, what));
        let made = || format!("make the devices of {}", spec.name);
        let devices = devices(spec.address, spec.disks, at).doing(made)?;
        let calendar = UnixListener::bind(at("calendar")).doing(made)?;
        calendar.set_nonblocking(true).doing(made)?;
        Ok(Self {
            calendar,
            devices,
            port: PORT,
            running: None,
            life: 0,
            frames: 0,
            history: blake3::Hasher::new(),
            console: consoles.join(file(&spec.name, "console")),
            name: spec.name,
            memory_mib: spec.memory_mib,
            room: PathBuf::new(),
            clock: ChangingClock::new(spec.clock),
            chaos: spec.chaos,
            init: spec.init,
        })
    }

    /// Starts its kernel, up to where it has found its calendar. `number` is its place among the
    /// machines, and `seed` its own.
    pub(crate) fn switch_on(
        &mut self,
        kernel: &Uml,
        directory: &Path,
        (number, seed): (usize, u64),
        now_ns: u64,
    ) -> Result<()> {
        // Of an earlier life, which was killed.
        let _ = fs::remove_dir_all(directory.join(&self.name));
        let console = self.open_console()?;
        let console_from = console.metadata().map_or(0, |file| file.len() as usize);
        let room = self.memory_room()?;
        let starting = || format!("start the kernel of {}", self.name);
        let parameters = self.kernel_parameters(number, seed);
        let command = kernel.on_calendar(directory, &parameters, &self.init);
        let command = command.map_err(|error| io::Error::other(format!("{error:#}")));
        let mut command = command.doing(starting)?;
        let errors = console.try_clone().doing(starting)?;
        command.stdin(Stdio::null()).stdout(console).stderr(errors);
        command.env("TMPDIR", &room);
        self.room = room;
        let mut process = command.spawn().doing(starting)?;
        let stream = self.connected(&mut process)?;
        let process = Process::spawned(&process);
        tracing::debug!(machine = self.name, %process, "switched on");
        self.life += 1;
        self.running = Some(Running {
            process,
            stream,
            times: Times::of_boot(now_ns),
            console_from,
        });
        Ok(())
    }

    /// What its kernels say is added to what earlier ones did.
    fn open_console(&self) -> Result<File> {
        let console = File::options()
            .create(true)
            .append(true)
            .open(&self.console);
        console.doing(|| format!("open {}", self.console.display()))
    }

    /// A directory that has room for its memory.
    fn memory_room(&self) -> Result<PathBuf> {
        let (directory, free_mib) = machine::memory_room(self.memory_mib);
        if free_mib < self.memory_mib {
            return Err(Error::NoMemory {
                machine: self.name.clone(),
                memory_mib: self.memory_mib,
                directory,
                free_mib,
            });
        }
        Ok(directory)
    }

    fn kernel_parameters(&self, number: usize, seed: u64) -> Vec<String> {
        let mut parameters = vec![
            format!("mem={}M", self.memory_mib),
            "uml_dir=.".into(),
            format!("umid={}", self.name),
            "ssl=null".into(),
            format!(
                "time-travel=ext:{}:{}",
                number + 1,
                file(&self.name, "calendar")
            ),
            format!("seed={seed}"),
        ];
        for (index, device) in self.devices.iter().enumerate() {
            let path = file(&self.name, &self.device_name(index));
            let kind = device.kind.number();
            parameters.push(format!("virtio_uml.device={path}:{kind}"));
        }
        parameters.extend(self.chaos.map(|chaos| chaos.parameter(seed)));
        parameters
    }

    /// Waits until a kernel has found its calendar.
    fn connected(&self, process: &mut Child) -> Result<UnixStream> {
        let (mut looked, mut waited) = (Instant::now(), Duration::ZERO);
        let what = loop {
            match self.calendar.accept() {
                Ok((stream, _)) => {
                    let blocking = stream.set_nonblocking(false).map(|()| stream);
                    return blocking.doing(|| format!("speak with the kernel of {}", self.name));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => break format!("cannot be spoken with: {error}"),
            }
            if let Ok(Some(status)) = process.try_wait() {
                break format!("ended before it found its calendar ({status})");
            }
            waited += looked.elapsed().min(GAP_MAX);
            looked = Instant::now();
            if waited > CONNECT_WITHIN {
                break "did not find its calendar".into();
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let _ = process.kill();
        let _ = process.wait();
        Err(self.misbehaves(what))
    }

    /// An error that its kernel makes.
    pub(crate) fn misbehaves(&self, what: impl Into<String>) -> Error {
        Error::Kernel {
            machine: self.name.clone(),
            what: what.into(),
            console: last_lines(&self.console_text()),
        }
    }

    /// The error that one of a device of its is.
    pub(crate) fn of_device(&self, error: &io::Error) -> Error {
        if error.kind() != io::ErrorKind::StorageFull {
            return self.misbehaves(error.to_string());
        }
        self.misbehaves(format!(
            "had to stop: no room in {} for its memory, {} MiB: free some, or set TMPDIR to a directory with more",
            self.room.display(),
            self.memory_mib
        ))
    }

    /// Everything that its kernels have said.
    pub(crate) fn console_text(&self) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.console).and_then(|mut file| file.read_to_end(&mut bytes));
        // Who has not begun has said nothing.
        let _ = read;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// When it wants to run, if it does and is not frozen.
    pub(crate) fn wants_to_run_ns(&self) -> Option<u64> {
        let times = self.running.as_ref()?.times;
        times.request_ns.filter(|_| times.frozen_ns.is_none())
    }

    /// What a device is called.
    fn device_name(&self, device: usize) -> String {
        match self.devices[device].kind {
            Kind::Network => "network".to_owned(),
            Kind::Port(_) => "port".to_owned(),
            Kind::Disk(_) => format!("disk{}", self.disk_number(device)),
        }
    }

    /// Which of its disks a device is.
    pub(crate) fn disk_number(&self, device: usize) -> usize {
        let before = self.devices[..device].iter();
        before
            .filter(|device| matches!(device.kind, Kind::Disk(_)))
            .count()
    }

    /// What has something for us: the calendar's stream, then the devices.
    pub(crate) fn events(&self) -> Vec<BorrowedFd<'_>> {
        let stream = self.running.iter().map(|running| running.stream.as_fd());
        stream
            .chain(self.devices.iter().map(Device::events))
            .collect()
    }

    /// It runs, for a test: what is said to be its kernel is at the other end of a stream.
    #[cfg(test)]
    pub(crate) fn be_on(&mut self, process: Process, stream: UnixStream) {
        self.life += 1;
        self.running = Some(Running {
            process,
            stream,
            times: Times::of_boot(0),
            console_from: 0,
        });
    }

    /// Ends its kernel at once, if it runs, with all that runs in it.
    pub(crate) fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.process.kill();
        }
        self.devices.iter_mut().for_each(Device::switch_off);
    }

    /// Its kernel has closed its stream: how it ended.
    pub(crate) fn ended(&mut self) -> Result<End> {
        let name = self.name.clone();
        let Some(running) = self.running.take() else {
            return Ok(End::Off);
        };
        let status = running.process.wait_or_kill(END_WITHIN);
        self.devices.iter_mut().for_each(Device::switch_off);
        let status = status.doing(|| format!("wait for the kernel of {name}"))?;
        let Some(status) = status else {
            return Err(self.misbehaves("has left its calendar, and does not end"));
        };
        let console = self.console_text();
        let console = console.get(running.console_from..).unwrap_or_default();
        // What the host does to a kernel is nothing that was found.
        if let Some(cause) = machine::host_cause(console, self.memory_mib, &self.room) {
            return Err(self.misbehaves(format!("had to stop: {cause}")));
        }
        if let Some(signal) = outside_signal(status) {
            return Err(self.misbehaves(format!(
                "was ended from outside, by {signal}: somebody killed it, or the host's kernel for want of memory \
                 (memory.max of a container or cgroup)"
            )));
        }
        Ok(how(status, console))
    }

    /// Tells its kernel something.
    pub(crate) fn tell(&mut self, messages: &[Message]) -> io::Result<()> {
        let running = self.running.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Message::write(messages, &mut running.stream)
    }

    /// Answers its kernel, which has started.
    pub(crate) fn answer_start(&mut self, start: Message) -> io::Result<()> {
        let running = self.running.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        start.answer_start(&running.stream)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The signal that has ended a kernel, if it is one that no kernel gets by what it does itself.
fn outside_signal(status: ExitStatus) -> Option<Signal> {
    let signal = Signal::try_from(status.signal()?).ok()?;
    OUTSIDE_SIGNALS.contains(&signal).then_some(signal)
}

fn how(status: ExitStatus, console: &str) -> End {
    if let Some(panic) = machine::panic_line(console.lines()) {
        return End::Panic(panic);
    }
    match status.signal() {
        None if status.success() => End::Off,
        Some(signal) if signal == nix::libc::SIGABRT => {
            End::Panic("its kernel aborted without a word".into())
        }
        _ => End::Process(status.to_string()),
    }
}

fn last_lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines[from..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Clock = Clock {
        offset_ns: 0,
        drift_ppm: 0,
    };

    const FAST: Clock = Clock {
        offset_ns: 0,
        drift_ppm: 500_000,
    };

    /// One that was switched on at 100, and wants to run when its clock shows 1000.
    fn times() -> Times {
        let mut times = Times::of_boot(100);
        times.request(EXACT, 1000);
        assert_eq!(times.request_ns, Some(1100));
        times
    }

    #[test]
    fn a_clock_that_drifts_goes_on_from_what_it_shows_and_wakes_its_kernel_when_it_wanted() {
        let mut times = times();
        times.drift((EXACT, FAST), 500);
        assert_eq!(times.own_ns(FAST, 500), 400);
        assert_eq!(times.own_ns(FAST, 700), 700);
        assert_eq!(times.request_ns, Some(900));
        assert_eq!(times.own_ns(FAST, 900), 1000);
        times.drift((FAST, EXACT), 700);
        assert_eq!(times.own_ns(EXACT, 900), 900);
        assert_eq!(times.request_ns, Some(1000));
        assert_eq!(times.time_ns(EXACT, 2000), 2000);
        // One that wants nothing wants nothing either when its clock is another.
        let mut idle = Times::of_boot(0);
        idle.drift((EXACT, FAST), 10);
        assert_eq!((idle.request_ns, idle.own_ns(FAST, 30)), (None, 40));
    }

    #[test]
    fn the_clock_of_a_frozen_machine_stands_also_if_it_is_to_drift() {
        let mut times = times();
        times.frozen_ns = Some(300);
        times.drift((EXACT, FAST), 800);
        assert_eq!(times.own_ns(FAST, 300), 200);
        assert_eq!(times.request_ns, Some(300 + 534));
    }
}
