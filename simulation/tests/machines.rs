//! Real kernels on a calendar, without root. This program is also the init of their machines.

#[path = "../../block-dev/tests/common/steps.rs"]
mod steps;

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use block_dev::{Base, Image, Kind};
use libtest_mimic::{Arguments, Trial};
use machine::{OFFLOAD_BYTES, PacketSocket, Uml};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pace_rules::disk::{Disk as Keeping, Relaxation};
use simulation::{
    BITS_PER_SECOND, Chance, Chaos, Clock, Disk, DiskTimes, EPOCH_NS, End, Error, Happening, Link,
    MachineSpec, Point, Settings, Simulation,
};
use tempfile::TempDir;

const INIT: &str = "__init";
const KEPT_BYTES: u64 = 512 << 10;
const FILLS: &str = "__fills";
const PORT: &str = "/dev/vport1p0";
const DISK: &str = "/dev/vda";
const DISKS: [&str; 2] = [DISK, "/dev/vdb"];
const CARD: &str = "eth0";
/// What a frame is that no protocol uses (IEEE 802, local experiments).
const OF_EXPERIMENTS: [u8; 2] = [0x88, 0xb5];
const FRAME_BYTES: usize = 1000;
const BLOCK: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;

/// What these expect is what Linux 6.1 does: it hands all frames to the card at once, and 6.12 the next one when
/// the last one is out (byte queue limits). Of the last test it is not known what differs.
const OF_OLDER: [&str; 3] = [
    "a_run_stands_still_before_a_frame_and_not_for_those_that_come",
    "what_a_card_has_not_sent_is_lost_with_the_power",
    "what_a_machine_did_ahead_is_told_at_its_time_or_lost_with_its_power",
];

/// What tests of each kernel are called, and what scripts/build-uml.sh calls it. The first one must be
/// there; without another one its tests are ignored, and shown as that.
const KERNELS: [(&str, &str); 2] = [("", "current"), ("of_6_12_", "6.12")];

/// A name, and what is done with a kernel.
type Test = (&'static str, fn(&Path));

/// A kernel that scripts/build-uml.sh has built.
fn built(link: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").expect("a home")).join(".cache");
    let cache = cache.unwrap_or_else(home);
    cache.join("crashpoint/uml").join(link).join("linux")
}

fn main() -> ExitCode {
    if let Some(status) = machine::run_hidden() {
        return status;
    }
    if std::env::args().nth(1).as_deref() == Some(INIT) {
        serve().expect("served");
        let _ = reboot(RebootMode::RB_POWER_OFF);
    }
    if std::env::args().nth(1).as_deref() == Some(FILLS) {
        fill(Path::new(&std::env::args().nth(2).expect("a kernel")));
        return ExitCode::SUCCESS;
    }
    let tests: [Test; 25] = [
        ("waiting_costs_no_time_and_clocks_agree", clocks),
        ("what_no_flush_covers_is_lost_with_the_power", power),
        (
            "disks_hold_what_random_steps_leave_and_each_loses_its_own",
            disks,
        ),
        ("a_run_stands_still_before_a_request_to_a_disk", point),
        ("a_run_up_to_a_time_that_is_over_changes_no_time", over),
        (
            "a_run_stands_still_before_a_frame_and_not_for_those_that_come",
            frame_point,
        ),
        (
            "what_a_card_has_not_sent_is_lost_with_the_power",
            frames_left,
        ),
        ("nobody_is_ahead_when_it_is_as_late_as_the_latest", meets),
        ("a_flush_that_was_in_flight_covers_nothing", in_flight),
        (
            "a_machine_hears_nothing_of_what_was_said_to_its_last_life",
            lives,
        ),
        (
            "what_a_machine_did_ahead_is_told_at_its_time_or_lost_with_its_power",
            ahead,
        ),
        ("a_full_memory_directory_is_an_error", full),
        ("a_frozen_machine_is_behind_when_it_goes_on", freeze),
        ("clocks_are_ahead_and_drift", clocks_drift),
        ("a_clock_drifts_for_a_while", drifts_for_a_while),
        ("a_kernel_that_panics_says_so", panics),
        ("a_kernel_that_is_killed_from_outside_is_an_error", killed),
        (
            "a_program_that_prints_without_end_is_an_error_and_can_be_stopped",
            prints,
        ),
        ("runs_of_one_seed_are_equal_and_others_not", equal),
        ("chaos_takes_time_as_the_seed_says", chaos),
        ("forks_go_on_as_the_run_does_that_is_not_forked", |kernel| {
            forks(kernel, None, &[0, 5_000_000, 3]);
        }),
        ("forks_under_chaos_go_on_as_the_run_does", |kernel| {
            forks(kernel, Some(SOON), &[5_000_000]);
        }),
        ("forks_of_a_boot_go_on_as_the_boot_does", forks_of_boot),
        ("what_happens_in_a_fork_is_nothing_to_the_other", forks_part),
        ("no_fork_is_made_where_a_kernel_waits_for_a_device", no_fork),
    ];
    let kernels = KERNELS.iter().flat_map(|(prefix, link)| {
        let kernel = built(link);
        tests.map(|(name, test)| {
            let kernel = kernel.clone();
            let is_there = kernel.exists() || prefix.is_empty();
            let is_of_older = !prefix.is_empty() && OF_OLDER.contains(&name);
            Trial::test(format!("{prefix}{name}"), move || {
                test(&kernel);
                Ok(())
            })
            .with_ignored_flag(!is_there || is_of_older)
        })
    });
    let trials: Vec<_> = kernels.collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The init: does what lines of its port say, and answers each with a line.
fn serve() -> std::io::Result<()> {
    let place = |kind: &str, path: &str| {
        mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>)
    };
    place("proc", "/proc")?;
    place("sysfs", "/sys")?;
    if !Path::new(PORT).exists() {
        place("devtmpfs", "/dev")?;
    }
    let mut port = OpenOptions::new().read(true).write(true).open(PORT)?;
    // The kernel writes what it has of a disk when the last one closes it.
    let disk = OpenOptions::new().write(true).open(DISK)?;
    port.write_all(b"ready\n")?;
    for line in BufReader::new(port.try_clone()?).lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let answer = match words[0] {
            "sleep" => {
                std::thread::sleep(Duration::from_millis(number(1)));
                "slept".into()
            }
            "time" => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                now.expect("later").as_nanos().to_string()
            }
            "random" => {
                let mut bytes = [0; 8];
                File::open("/dev/urandom")?.read_exact(&mut bytes)?;
                u64::from_le_bytes(bytes).to_string()
            }
            "write" => {
                let block = vec![number(2) as u8; BLOCK];
                disk.write_all_at(&block, number(1) * BLOCK as u64)?;
                if words.get(3) == Some(&"sync") {
                    disk.sync_all()?;
                }
                "written".into()
            }
            "read" => {
                let mut byte = [0];
                File::open(DISK)?.read_exact_at(&mut byte, number(1) * BLOCK as u64)?;
                byte[0].to_string()
            }
            "steps" => {
                take_steps(number(1))?;
                "taken".into()
            }
            "card" => {
                switch_card_on()?;
                "on".into()
            }
            "send" => {
                send_frames(number(1))?;
                "sent".into()
            }
            "load" => {
                let (mut disk, mut block) = (File::open(DISK)?, [0; BLOCK]);
                for _ in 0..number(1) {
                    disk.read_exact(&mut block)?;
                }
                "loaded".into()
            }
            "doze" => {
                doze();
                return Ok(());
            }
            "chatter" => {
                for _ in 0..number(1) {
                    doze();
                    send_frames(1)?;
                }
                "chattered".into()
            }
            "yes" => loop {
                port.write_all(b"y\n")?;
            },
            "received" => {
                let path = format!("/sys/class/net/{CARD}/statistics/rx_packets");
                std::fs::read_to_string(path)?.trim().to_owned()
            }
            "shown" => shown()?,
            "busy" => busy(number(1))?,
            // No kernel survives the end of its init.
            "panic" => std::process::exit(1),
            "off" => return Ok(()),
            other => format!("what is {other}?"),
        };
        port.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// Switches the network card on, which sends nothing by itself.
#[allow(unsafe_code)]
fn switch_card_on() -> std::io::Result<()> {
    nix::ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS, libc::ifreq);
    std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1")?;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the structure is plain numbers, of which 0 is one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, letter) in request.ifr_name.iter_mut().zip(CARD.bytes()) {
        *place = letter.cast_signed();
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as i16;
    // SAFETY: the structure is what the call reads, and lives until it returns.
    unsafe { set_flags(socket.as_raw_fd(), &raw const request) }?;
    Ok(())
}

/// Sleeps so that the machine wakes at its turn, and then ahead of others.
fn doze() {
    std::thread::sleep(Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(50));
}

/// Sends frames to all machines, of a kind that nobody listens to.
fn send_frames(count: u64) -> std::io::Result<()> {
    let socket = PacketSocket::open_to_send(CARD)?;
    let mut frame = vec![0; OFFLOAD_BYTES];
    frame.extend([0xff; 6]);
    frame.extend([2; 6]);
    frame.extend(OF_EXPERIMENTS);
    frame.resize(OFFLOAD_BYTES + FRAME_BYTES, 0);
    for _ in 0..count {
        socket.send(&frame)?;
    }
    Ok(())
}

/// The steps that are taken on each disk.
fn steps_of(seed: u64) -> [Vec<steps::Step>; 2] {
    [seed, seed + 1].map(steps::steps)
}

/// Takes them, on all disks at once.
fn take_steps(seed: u64) -> std::io::Result<()> {
    let disks = DISKS.iter().zip(steps_of(seed));
    let threads: Vec<_> = disks
        .map(|(disk, steps)| std::thread::spawn(move || steps::carry_out(Path::new(disk), &steps)))
        .collect();
    let mut threads = threads.into_iter();
    threads.try_for_each(|thread| thread.join().expect("no panic"))
}

/// What all disks show, in words that are short.
fn shown() -> std::io::Result<String> {
    let shown: std::io::Result<Vec<_>> = DISKS
        .iter()
        .map(|disk| steps::shown(Path::new(disk)))
        .collect();
    Ok(in_short(&shown?))
}

fn in_short(disks: &[Vec<u8>]) -> String {
    let hash = |disk: &Vec<u8>| BuildHasherDefault::<DefaultHasher>::default().hash_one(disk);
    format!("{:?}", disks.iter().map(hash).collect::<Vec<_>>())
}

/// Threads that sleep and compute by turns, and a program that starts others. Returns what they came to.
fn busy(rounds: u64) -> std::io::Result<String> {
    let script = format!(
        "i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); head -c 8 /dev/urandom | od -An -tx8; sleep 0.003; done"
    );
    let program = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()?;
    let work = |name: u64| {
        std::thread::spawn(move || -> std::io::Result<u64> {
            let mut kept = vec![name];
            for round in 0..rounds {
                std::thread::sleep(Duration::from_micros(700 * name + round));
                let mut bytes = [0; 8];
                File::open("/dev/urandom")?.read_exact(&mut bytes)?;
                // Memory that is new, and memory that is old.
                kept.extend(std::iter::repeat_n(u64::from_le_bytes(bytes), 999));
                let middle = kept.len() / 2;
                kept[middle] ^= round;
            }
            Ok(kept.iter().fold(0, |sum, word| sum.rotate_left(7) ^ word))
        })
    };
    let threads: Vec<_> = (1..4).map(work).collect();
    let sums: std::io::Result<Vec<_>> = threads
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    let said = program.wait_with_output()?.stdout;
    let said = String::from_utf8_lossy(&said);
    let said: Vec<_> = said.split_whitespace().collect();
    Ok(format!("{:?} {}", sums?, said.join(",")))
}

struct Bench {
    simulation: Simulation,
    consoles: TempDir,
}

impl Bench {
    /// Machines that are on and ready, with a disk each that keeps its word.
    fn new(kernel: &Path, seed: u64, machines: usize) -> Self {
        Self::with_clocks(kernel, seed, &vec![Clock::default(); machines])
    }

    /// The same with these clocks, one for each machine.
    fn with_clocks(kernel: &Path, seed: u64, clocks: &[Clock]) -> Self {
        let mut this = Self::off_with(kernel, seed, clocks, None, &[Self::base()]);
        for index in 0..clocks.len() {
            this.boot(index);
        }
        this
    }

    /// Two machines that are ready, and their cards too.
    fn with_cards(kernel: &Path, network: (Link, u64)) -> Self {
        let clocks = [Clock::default(); 2];
        let mut this = Self::off_on(network, kernel, 1, &clocks, None, &[Self::base()]);
        for machine in [0, 1] {
            this.boot(machine);
            assert_eq!(this.ask(machine, "card"), "on");
        }
        this
    }

    fn off(kernel: &Path, seed: u64, machines: usize, chaos: Option<Chaos>) -> Self {
        let clocks = vec![Clock::default(); machines];
        Self::off_with(kernel, seed, &clocks, chaos, &[Self::base()])
    }

    fn base() -> Arc<Base> {
        Arc::new(Base::empty(64 << 20))
    }

    /// Machines that are off, each with a disk for each of the bases.
    fn off_with(
        kernel: &Path,
        seed: u64,
        clocks: &[Clock],
        chaos: Option<Chaos>,
        bases: &[Arc<Base>],
    ) -> Self {
        let network = (Link::USUAL, BITS_PER_SECOND);
        Self::off_on(network, kernel, seed, clocks, chaos, bases)
    }

    /// The same on a network with such links and so fast cards.
    fn off_on(
        (link, bits_per_second): (Link, u64),
        kernel: &Path,
        seed: u64,
        clocks: &[Clock],
        chaos: Option<Chaos>,
        bases: &[Arc<Base>],
    ) -> Self {
        let kernel = Uml::find_simulated(Some(kernel), seed).expect("a kernel");
        let consoles = tempfile::tempdir().expect("a directory");
        let simulation = Simulation::new(Settings {
            kernel,
            seed,
            link,
            bits_per_second,
            consoles: consoles.path().to_owned(),
        });
        let mut this = Self {
            simulation: simulation.expect("made"),
            consoles,
        };
        for (index, clock) in clocks.iter().enumerate() {
            let name = format!("n{index}");
            let disk = |(number, base): (usize, &Arc<Base>)| {
                Disk::new(
                    Arc::clone(base),
                    Keeping::Honest,
                    DiskTimes::default(),
                    Chance::new(seed, &format!("disk {name} {number}")),
                )
            };
            let disks = bases.iter().enumerate().map(disk).collect();
            let spec = MachineSpec {
                name,
                address: [2, 0, 0, 0, 0, index as u8],
                memory_mib: 64,
                disks,
                clock: *clock,
                chaos,
                init: vec![INIT.into()],
            };
            this.simulation.add(spec).expect("added");
        }
        this
    }

    fn fork(&mut self) -> Self {
        let consoles = tempfile::tempdir().expect("a directory");
        let simulation = self.simulation.fork(consoles.path().to_owned());
        Self {
            simulation: simulation.expect("forked"),
            consoles,
        }
    }

    /// What two runs that are the same have in common.
    fn all(&mut self) -> (String, Vec<String>, Vec<String>, u64) {
        let machines = [0, 1];
        let logs = machines.map(|machine| self.simulation.disk(machine, 0).log().hash());
        let consoles = machines.map(|machine| {
            let path = self.consoles.path().join(format!("n{machine}.console"));
            std::fs::read_to_string(path).expect("a console")
        });
        (
            self.simulation.history(),
            logs.map(|hash| format!("{hash:?}")).to_vec(),
            consoles.to_vec(),
            self.simulation.now_ns(),
        )
    }

    fn boot(&mut self, machine: usize) {
        self.simulation
            .switch_on(&[machine], &|| false)
            .expect("started");
        assert_eq!(
            self.line(machine),
            "ready",
            "{}",
            self.simulation.console(machine)
        );
    }

    fn run(&mut self, for_ns: u64) -> Happening {
        let until_ns = self.simulation.now_ns() + for_ns;
        self.simulation.run(until_ns, &|| false).expect("ran")
    }

    /// The next line of any machine, with its index.
    fn any_line(&mut self) -> (usize, String) {
        let happening = self.run(10_000 * SECOND_NS);
        let Happening::Said { machine, bytes } = happening else {
            panic!("{happening:?}: {}", self.simulation.console(0));
        };
        let line = String::from_utf8(bytes).expect("text");
        (machine, line.trim_end().to_owned())
    }

    /// The next line that a machine says.
    fn line(&mut self, machine: usize) -> String {
        let (who, line) = self.any_line();
        assert_eq!(who, machine);
        line
    }

    fn tell(&mut self, machine: usize, line: &str) {
        self.simulation
            .speak(machine, format!("{line}\n").into_bytes());
    }

    fn ask(&mut self, machine: usize, line: &str) -> String {
        self.tell(machine, line);
        self.line(machine)
    }
}

fn clocks(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 2);
    let before_ns = bench.simulation.now_ns();
    assert_eq!(bench.ask(0, "sleep 600000"), "slept");
    let slept_ns = bench.simulation.now_ns() - before_ns;
    assert!(
        (600 * SECOND_NS..601 * SECOND_NS).contains(&slept_ns),
        "{slept_ns}"
    );
    for machine in [0, 1] {
        let said: u64 = bench.ask(machine, "time").parse().expect("a time");
        let behind_ns = EPOCH_NS + bench.simulation.now_ns() - said;
        assert!(behind_ns < SECOND_NS / 100, "{behind_ns}");
    }
    bench.tell(1, "off");
    let end = Happening::Ended {
        machine: 1,
        end: End::Off,
    };
    assert_eq!(bench.run(SECOND_NS), end);
    assert_eq!(
        bench.run(SECOND_NS),
        Happening::Time,
        "the other one is there"
    );
}

fn power(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    assert_eq!(bench.ask(0, "write 1 7 sync"), "written");
    assert_eq!(bench.ask(0, "write 2 8 sync"), "written");
    let writes = |bench: &mut Bench| {
        let log = bench.simulation.disk(0, 0).log();
        let kinds = log.entries().iter().map(|entry| entry.kind);
        kinds
            .filter(|kind| matches!(kind, Kind::Write { .. }))
            .count()
    };
    assert_eq!(writes(&mut bench), 2);
    // Written by the kernel, 30 seconds later, and covered by no flush.
    assert_eq!(bench.ask(0, "write 1 9"), "written");
    assert_eq!(bench.ask(0, "sleep 60000"), "slept");
    assert_eq!(writes(&mut bench), 3);
    // Only in the memory of the machine.
    assert_eq!(bench.ask(0, "write 2 10"), "written");
    bench.simulation.switch_off(&[0]);
    let cut = bench
        .simulation
        .disk(0, 0)
        .power_cut(|_| Relaxation::Flushed);
    assert_eq!(cut.expect("possible").lost.len(), 1);
    bench.boot(0);
    assert_eq!([bench.ask(0, "read 1"), bench.ask(0, "read 2")], ["7", "8"]);
}

/// A disk that is not empty.
fn base_of_steps(seed: u64) -> Arc<Base> {
    let mut image = Image::new(Arc::new(Base::empty(steps::SIZE_BYTES)));
    let held = steps::model(&steps::content(&image), &steps::steps(seed));
    image.write(0, &held);
    Arc::new(Base::from_image(&image))
}

/// What block-dev/tests/front_ends.rs asks of its disks, of two of a machine at once; and the power
/// fails.
fn disks(kernel: &Path) {
    let bases = [100, 101].map(base_of_steps);
    let mut bench = Bench::off_with(kernel, 1, &[Clock::default()], None, &bases);
    let content = |bench: &mut Bench, disk| steps::content(bench.simulation.disk(0, disk).image());
    let mut held = [0, 1].map(|disk| content(&mut bench, disk));
    // What one of them loses is nothing to the other one.
    for (seed, keeps_all) in [(1, [false, false]), (3, [true, false]), (5, [false, true])] {
        bench.boot(0);
        assert_eq!(bench.ask(0, "shown"), in_short(&held), "after a boot");
        assert_eq!(bench.ask(0, &format!("steps {seed}")), "taken");
        let taken = steps_of(seed);
        let now = [0, 1].map(|disk| steps::model(&held[disk], &taken[disk]));
        assert_eq!(bench.ask(0, "shown"), in_short(&now), "seed {seed}");
        bench.simulation.switch_off(&[0]);
        for disk in [0, 1] {
            let synced = steps::model(&held[disk], steps::synced(&taken[disk]));
            assert!(synced != now[disk], "seed {seed} has nothing to lose");
            let which = bench.simulation.disk(0, disk);
            assert!(steps::content(which.image()) == now[disk], "seed {seed}");
            steps::check_log(which.image(), which.log(), &taken[disk]);
            let (keeps, left) = if keeps_all[disk] {
                (Relaxation::Prefix, &now[disk])
            } else {
                (Relaxation::Flushed, &synced)
            };
            which.power_cut(|_| keeps).expect("possible");
            held[disk].clone_from(left);
            assert!(content(&mut bench, disk) == held[disk], "seed {seed}");
        }
    }
    bench.boot(0);
    assert_eq!(bench.ask(0, "shown"), in_short(&held));
}

fn point(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    assert_eq!(bench.ask(0, "write 1 7 sync"), "written");
    let position = bench.simulation.disk(0, 0).log().len();
    bench.simulation.stop_at(Some(Point::Disk {
        machine: 0,
        disk: 0,
        position,
    }));
    bench.tell(0, "write 1 8 sync");
    assert_eq!(bench.run(SECOND_NS), Happening::Point);
    assert_eq!(
        bench.simulation.disk(0, 0).log().len(),
        position,
        "it has not happened yet"
    );
    // It goes on, or not.
    assert_eq!(bench.line(0), "written");
    bench.simulation.stop_at(Some(Point::Disk {
        machine: 0,
        disk: 0,
        position: position + 2,
    }));
    bench.tell(0, "write 1 9 sync");
    assert_eq!(bench.run(SECOND_NS), Happening::Point);
    bench.simulation.switch_off(&[0]);
    let cut = bench
        .simulation
        .disk(0, 0)
        .power_cut(|_| Relaxation::Prefix);
    assert!(cut.expect("possible").lost.is_empty());
    bench.boot(0);
    assert_eq!(bench.ask(0, "read 1"), "8");
}

fn over(kernel: &Path) {
    let mut bench = Bench::off(kernel, 1, 1, None);
    assert_eq!(bench.run(13 * SECOND_NS), Happening::Time);
    let ran = bench.simulation.run(10 * SECOND_NS, &|| false);
    assert_eq!(ran.expect("ran"), Happening::Time);
    assert_eq!(bench.simulation.now_ns(), 13 * SECOND_NS);
}

fn frame_point(kernel: &Path) {
    let mut bench = Bench::with_cards(kernel, (Link::USUAL, BITS_PER_SECOND));
    let number = bench.simulation.frames_of(0);
    let point = Point::Frame { machine: 0, number };
    bench.simulation.stop_at(Some(point));
    // Its card gets new room for frames after so many.
    assert_eq!(bench.ask(1, "send 100"), "sent");
    assert_eq!(bench.run(SECOND_NS), Happening::Time);
    bench.tell(0, "send 1");
    assert_eq!(bench.run(SECOND_NS), Happening::Point);
    assert_eq!(bench.simulation.frames_of(0), number);
    assert_eq!(bench.line(0), "sent");
    assert_eq!(bench.simulation.frames_of(0), number + 1);
    assert_eq!(bench.run(SECOND_NS), Happening::Time);
    // What was sent before the point arrives, also if no time has passed since.
    let before: u64 = bench.ask(1, "received").parse().expect("a number");
    let point = Point::Frame {
        machine: 0,
        number: number + 3,
    };
    bench.simulation.stop_at(Some(point));
    bench.tell(0, "send 5");
    assert_eq!(bench.run(SECOND_NS), Happening::Point);
    bench.simulation.switch_off(&[0]);
    assert_eq!(bench.run(SECOND_NS), Happening::Time);
    assert_eq!(bench.ask(1, "received"), (before + 2).to_string());
}

fn frames_left(kernel: &Path) {
    let received = |fails: bool| {
        let mut bench = Bench::with_cards(kernel, (Link::USUAL, 10_000_000));
        // Its card takes 48 ms for them.
        assert_eq!(bench.ask(0, "send 60"), "sent");
        if fails {
            bench.simulation.switch_off(&[0]);
            bench.boot(0);
        }
        assert_eq!(bench.run(SECOND_NS), Happening::Time);
        let lost = bench.simulation.network().lost();
        let received: u64 = bench.ask(1, "received").parse().expect("a number");
        assert_eq!(received + lost, 60);
        received
    };
    assert_eq!(received(false), 60);
    assert_eq!(received(true), 12, "those of 10 ms");
}

/// A way that is healed then lets pass just what is sent after that.
fn meets(kernel: &Path) {
    let far = Link {
        latency_ns: SECOND_NS / 10,
        ..Link::USUAL
    };
    let mut bench = Bench::with_cards(kernel, (far, BITS_PER_SECOND));
    bench.simulation.switch().cut(1, 0);
    bench.simulation.switch().keep_frames();
    bench.tell(1, "chatter 30");
    bench.tell(0, "sleep 1000");
    assert_eq!(bench.line(0), "slept");
    let latest_ns = bench.simulation.latest_ns();
    let later_than = |bench: &Bench, time_ns| {
        let sent = bench.simulation.network().sent();
        sent.iter().filter(|frame| frame.time_ns > time_ns).count()
    };
    let now_ns = bench.simulation.now_ns();
    assert_eq!(later_than(&bench, now_ns), 1, "the second machine is ahead");
    while bench.simulation.run(latest_ns, &|| false).expect("ran") != Happening::Time {}
    assert_eq!(bench.simulation.latest_ns(), latest_ns);
    assert_eq!(bench.simulation.now_ns(), latest_ns);
    bench.simulation.switch().heal(1, 0);
    assert_eq!(bench.line(1), "chattered");
    assert_eq!(bench.run(SECOND_NS), Happening::Time);
    let later = later_than(&bench, latest_ns);
    assert!(later > 0);
    assert_eq!(bench.ask(0, "received"), later.to_string());
}

fn in_flight(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    assert_eq!(bench.ask(0, "write 1 7 sync"), "written");
    let before = bench.simulation.disk(0, 0).log().len();
    bench.tell(0, "write 1 8 sync");
    let is_asked = |bench: &mut Bench| {
        let log = bench.simulation.disk(0, 0).log();
        let new = &log.entries()[before..];
        new.iter().any(|entry| entry.kind == Kind::Flush)
    };
    while !is_asked(&mut bench) {
        assert_eq!(bench.run(SECOND_NS / 100_000), Happening::Time);
    }
    bench.simulation.switch_off(&[0]);
    let disk = bench.simulation.disk(0, 0);
    let cut = disk.power_cut(|_| Relaxation::Flushed).expect("possible");
    assert_eq!(cut.lost.len(), 1, "nobody was told that the flush was done");
    bench.boot(0);
    assert_eq!(bench.ask(0, "read 1"), "7");
}

fn lives(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    bench.tell(0, "time");
    bench.simulation.switch_off(&[0]);
    bench.boot(0);
    assert_eq!(bench.run(SECOND_NS), Happening::Time);
}

fn ahead(kernel: &Path) {
    let far = Link {
        latency_ns: SECOND_NS / 10,
        ..Link::USUAL
    };
    // The second machine has done it, while it is not so late for the first one.
    let done = |line: &str| {
        let mut bench = Bench::with_cards(kernel, (far, BITS_PER_SECOND));
        bench.tell(0, "sleep 1000");
        assert_eq!(bench.run(SECOND_NS - SECOND_NS / 64), Happening::Time);
        bench.tell(1, line);
        assert_eq!(bench.line(0), "slept");
        bench
    };
    let lost = |bench: &mut Bench| {
        bench.simulation.switch_off(&[1]);
        assert!(!bench.simulation.is_on(1));
        bench.boot(1);
        assert_eq!(bench.run(SECOND_NS), Happening::Time);
    };
    lost(&mut done("chatter 1"));
    let mut bench = done("doze");
    assert_eq!(kernels().len(), 1);
    lost(&mut bench);
    drop(bench);
    let mut bench = done("doze");
    assert_eq!(kernels().len(), 1);
    assert!(bench.simulation.is_on(1));
    bench.simulation.switch_on(&[1], &|| false).expect("it is");
    let end = Happening::Ended {
        machine: 1,
        end: End::Off,
    };
    assert_eq!(bench.run(SECOND_NS), end);
    bench.boot(1);
}

/// Where it cannot hurt others.
fn full(kernel: &Path) {
    let mut alone = Command::new("unshare");
    alone.arg("--user").arg("--map-root-user").arg("--mount");
    let program = std::env::current_exe().expect("a program");
    let ended = alone.arg(program).arg(FILLS).arg(kernel).status();
    let ended = ended.expect("unshare");
    assert!(ended.success(), "{ended}");
}

/// What a disk brings in has no room in the memory of its machine.
fn fill(kernel: &Path) {
    let memory = Path::new(machine::MEMORY_DIRECTORY);
    let (kind, size) = (Some("tmpfs"), Some("size=128M"));
    mount(kind, memory, kind, MsFlags::empty(), size).expect("mounted");
    let mut bench = Bench::new(kernel, 1, 1);
    let mut rest = File::create(memory.join("rest")).expect("made");
    while rest.write_all(&[0; BLOCK]).is_ok() {}
    // The kernel is not to be the first to miss some.
    let length = rest.metadata().expect("a file").len();
    rest.set_len(length - KEPT_BYTES).expect("cut");
    bench.tell(0, "load 8000");
    let ran = bench.simulation.run(100 * SECOND_NS, &|| false);
    let error = ran.expect_err("no room").to_string();
    assert!(error.contains("no room in /dev/shm"), "{error}");
}

fn freeze(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    bench.tell(0, "sleep 1000");
    assert_eq!(bench.run(SECOND_NS / 2), Happening::Time);
    bench.simulation.freeze(0);
    assert_eq!(bench.run(10 * SECOND_NS), Happening::Time);
    // What it is told meanwhile it hears afterwards, and its clock is no further for it.
    bench.tell(0, "time");
    assert_eq!(bench.run(10 * SECOND_NS), Happening::Time);
    bench.simulation.thaw(0);
    let thawed_ns = bench.simulation.now_ns();
    assert_eq!(bench.line(0), "slept");
    let rest_ns = bench.simulation.now_ns() - thawed_ns;
    assert!((SECOND_NS / 4..SECOND_NS).contains(&rest_ns), "{rest_ns}");
    let said: u64 = bench.line(0).parse().expect("a time");
    let behind_ns = EPOCH_NS + bench.simulation.now_ns() - said;
    assert!(
        (20 * SECOND_NS..21 * SECOND_NS).contains(&behind_ns),
        "{behind_ns}"
    );
}

fn clocks_drift(kernel: &Path) {
    let (ahead_ns, ppm) = (250_000_000, 1000);
    let clocks = [
        Clock::default(),
        Clock {
            offset_ns: ahead_ns,
            drift_ppm: ppm,
        },
        Clock {
            offset_ns: -ahead_ns,
            drift_ppm: -ppm,
        },
    ];
    let mut bench = Bench::with_clocks(kernel, 1, &clocks);
    // How far the clock of a machine is ahead of the simulation's, when it says so.
    let ahead = |bench: &mut Bench, machine: usize| {
        let said: u64 = bench.ask(machine, "time").parse().expect("a time");
        said.cast_signed() - (EPOCH_NS + bench.simulation.now_ns()).cast_signed()
    };
    let mut seen = vec![[0, 1, 2].map(|machine| ahead(&mut bench, machine))];
    // What a machine measures, it measures with its clock.
    for (machine, expected_ns) in [(1, 999_000_999_000), (2, 1_001_001_001_000)] {
        let before_ns = bench.simulation.now_ns();
        assert_eq!(bench.ask(machine, "sleep 1000000"), "slept");
        let slept_ns = bench.simulation.now_ns() - before_ns;
        assert!(
            slept_ns.abs_diff(expected_ns) < SECOND_NS / 100,
            "{slept_ns}"
        );
    }
    seen.push([0, 1, 2].map(|machine| ahead(&mut bench, machine)));
    // A life of 2,000 seconds later its clock is where it would be without the loss of power.
    bench.simulation.switch_off(&[1]);
    bench.boot(1);
    seen.push([0, 1, 2].map(|machine| ahead(&mut bench, machine)));
    for (ahead, passed_s) in seen.iter().zip([0, 2000, 2000]) {
        let drifted_ns = passed_s * 1_000_000_000 * i64::from(ppm) / 1_000_000;
        for (seen_ns, sign) in ahead.iter().zip([0, 1, -1]) {
            let expected_ns = sign * (ahead_ns + drifted_ns);
            assert!((seen_ns - expected_ns).abs() < 10_000_000, "{seen:?}");
        }
    }
}

/// Its drift changes while it runs and while it is off; each run comes to the same.
fn drifts_for_a_while(kernel: &Path) {
    let run = |ppm: i32| {
        let mut bench = Bench::new(kernel, 1, 2);
        let ahead_ns = |bench: &mut Bench| {
            let said: u64 = bench.ask(1, "time").parse().expect("a time");
            said.cast_signed() - (EPOCH_NS + bench.simulation.now_ns()).cast_signed()
        };
        let mut slept = Vec::new();
        let mut sleep = |bench: &mut Bench| {
            let before_ns = bench.simulation.now_ns();
            assert_eq!(bench.ask(1, "sleep 100000"), "slept");
            slept.push(bench.simulation.now_ns() - before_ns);
        };
        let mut ahead = vec![ahead_ns(&mut bench)];
        // A timer that runs already fires when the clock shows its time.
        bench.tell(1, "sleep 100000");
        assert_eq!(bench.run(50 * SECOND_NS), Happening::Time);
        bench.simulation.set_drift(1, ppm);
        assert_eq!(bench.simulation.drift_ppm(1), ppm);
        let before_ns = bench.simulation.now_ns();
        assert_eq!(bench.line(1), "slept");
        let rest_ns = bench.simulation.now_ns() - before_ns;
        sleep(&mut bench);
        ahead.push(ahead_ns(&mut bench));
        bench.simulation.set_drift(1, 0);
        sleep(&mut bench);
        ahead.push(ahead_ns(&mut bench));
        bench.simulation.switch_off(&[1]);
        bench.simulation.set_drift(1, ppm);
        assert_eq!(bench.run(100 * SECOND_NS), Happening::Time);
        bench.simulation.set_drift(1, 0);
        bench.boot(1);
        ahead.push(ahead_ns(&mut bench));
        (rest_ns, slept, ahead, bench.simulation.history())
    };
    let near = |found_ns: i64, expected_ms: i64| {
        let off_ns = found_ns - expected_ms * 1_000_000;
        assert!(off_ns.abs() < 100_000_000, "{found_ns} {expected_ms}");
    };
    let fast = run(250_000);
    near(fast.0.cast_signed(), 40_000);
    for (slept_ns, expected_ms) in fast.1.iter().zip([80_000, 100_000]) {
        near(slept_ns.cast_signed(), expected_ms);
    }
    for (ahead_ns, expected_ms) in fast.2.iter().zip([0, 30_000, 30_000, 55_000]) {
        near(*ahead_ns, expected_ms);
    }
    assert_eq!(fast, run(250_000));
    let slow = run(-200_000);
    near(slow.1[0].cast_signed(), 125_000);
    near(slow.2[1], -37_500);
}

fn panics(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    bench.tell(0, "panic");
    let Happening::Ended {
        machine: 0,
        end: End::Panic(what),
    } = bench.run(SECOND_NS)
    else {
        panic!("{}", bench.simulation.console(0));
    };
    assert!(what.contains("Attempted to kill init"), "{what}");
    assert!(!bench.simulation.is_on(0));
    bench.boot(0);
}

/// The kernels that this thread has started.
fn kernels() -> Vec<Pid> {
    let children = std::fs::read_to_string("/proc/thread-self/children").expect("children");
    let is_kernel = |pid: &&str| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.contains("umid="))
    };
    let pids = children.split_whitespace().filter(is_kernel);
    pids.map(|pid| Pid::from_raw(pid.parse().expect("a number")))
        .collect()
}

/// As the host does it that has no memory left.
fn killed(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    bench.tell(0, "sleep 1000");
    assert_eq!(bench.run(SECOND_NS / 2), Happening::Time);
    for pid in kernels() {
        kill(pid, Signal::SIGKILL).expect("killed");
    }
    let ran = bench.simulation.run(10 * SECOND_NS, &|| false);
    let error = ran.expect_err("nobody's end").to_string();
    assert!(error.contains("from outside, by SIGKILL"), "{error}");
    assert!(!bench.simulation.is_on(0));
    bench.boot(0);
}

/// No time passes for it.
fn prints(kernel: &Path) {
    let ran = |cancelled: &dyn Fn() -> bool| {
        let mut bench = Bench::new(kernel, 1, 1);
        bench.tell(0, "yes");
        bench.simulation.run(10 * SECOND_NS, cancelled)
    };
    let error = ran(&|| false).expect_err("endless").to_string();
    assert!(error.contains("no time passes"), "{error}");
    let begun = Instant::now();
    let stopped = ran(&|| begun.elapsed() > Duration::from_millis(200));
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
}

fn equal(kernel: &Path) {
    let clocks = [250_000_000, -250_000_000].map(|offset_ns| Clock {
        offset_ns,
        drift_ppm: 1000,
    });
    let run = |seed: u64| {
        let mut bench = Bench::with_clocks(kernel, seed, &clocks);
        bench.simulation.switch().keep_frames();
        let mut said = Vec::new();
        for machine in [0, 1, 0] {
            said.push(bench.ask(machine, "random"));
            said.push(bench.ask(machine, "write 3 7 sync"));
            said.push(bench.ask(machine, "time"));
        }
        bench.simulation.switch_off(&[0]);
        bench.boot(0);
        said.push(bench.ask(0, "random"));
        let logs = [0, 1].map(|machine| bench.simulation.disk(machine, 0).log().hash());
        let consoles = ["n0", "n1"].map(|name| {
            let path = bench.consoles.path().join(format!("{name}.console"));
            std::fs::read_to_string(path).expect("a console")
        });
        let (now_ns, messages) = (bench.simulation.now_ns(), bench.simulation.messages());
        (
            said,
            logs,
            consoles,
            now_ns,
            messages,
            bench.simulation.history(),
        )
    };
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first.0, run(8).0);
    assert_ne!(first.0[0], first.0[3], "machines draw different numbers");
    assert_ne!(first.0[0], first.0[9], "and so do the lives of one");
}

/// As much chaos as there is, from before anything is asked of a machine.
const SOON: Chaos = Chaos {
    from_ms: 10,
    ..Chaos::HIGH
};

/// What computes and sleeps takes another time than without chaos, with each seed another one, and in
/// each run of a seed the same. How much more it takes depends on the build: from 0.05 to 6 ms of 100
/// were seen.
fn chaos(kernel: &Path) {
    let run = |seed: u64, chaos: Option<Chaos>| {
        let mut bench = Bench::off(kernel, seed, 1, chaos);
        bench.boot(0);
        let begun_ns = bench.simulation.now_ns();
        bench.ask(0, "busy 15");
        bench.simulation.now_ns() - begun_ns
    };
    let with = run(7, Some(SOON));
    assert_eq!(with, run(7, Some(SOON)));
    assert_ne!(with, run(8, Some(SOON)));
    assert_ne!(with, run(7, None), "not what it takes without chaos");
}

/// Two machines that are in the middle of many things, and the rest of their run.
struct Middle(Bench);

impl Middle {
    fn new(kernel: &Path, chaos: Option<Chaos>) -> Self {
        let mut bench = Bench::off(kernel, 7, 2, chaos);
        bench.boot(0);
        bench.boot(1);
        assert_eq!(bench.ask(1, "write 5 9 sync"), "written");
        bench.tell(0, "busy 16");
        bench.tell(1, "busy 8");
        Self(bench)
    }

    /// What all of it comes to.
    fn rest(&mut self) -> impl PartialEq + std::fmt::Debug + use<> {
        let bench = &mut self.0;
        let mut said: Vec<_> = (0..2).map(|_| bench.any_line().1).collect();
        bench.simulation.switch_off(&[1]);
        let disk = bench.simulation.disk(1, 0);
        let lost = disk.power_cut(|_| Relaxation::Flushed).expect("possible");
        bench.boot(1);
        for line in ["random", "read 5", "busy 3", "time"] {
            said.push(bench.ask(1, line));
        }
        said.push(bench.ask(0, "random"));
        (said, lost.lost, bench.all())
    }
}

fn forks(kernel: &Path, chaos: Option<Chaos>, steps_ns: &[u64]) {
    let straight = Middle::new(kernel, chaos).rest();
    let mut middle = Middle::new(kernel, chaos);
    let mut last = None;
    for step_ns in steps_ns {
        assert_eq!(middle.0.run(*step_ns), Happening::Time);
        let mut first = Middle(middle.0.fork());
        let mut second = Middle(middle.0.fork());
        assert_eq!(first.rest(), straight);
        last = Some(second.0.fork());
        assert_eq!(second.rest(), straight);
    }
    assert_eq!(middle.rest(), straight);
    // And one whose forefathers are gone.
    drop(middle);
    assert_eq!(Middle(last.expect("one")).rest(), straight);
}

fn forks_of_boot(kernel: &Path) {
    let boot = || Bench::off(kernel, 3, 2, None);
    let start = |bench: &mut Bench| {
        bench
            .simulation
            .switch_on(&[0, 1], &|| false)
            .expect("started");
    };
    let end = |bench: &mut Bench| {
        let said = [bench.any_line(), bench.any_line()];
        (
            said,
            bench.ask(0, "random"),
            bench.ask(1, "write 1 1 sync"),
            bench.all(),
        )
    };
    let mut straight = boot();
    start(&mut straight);
    let straight = end(&mut straight);
    let mut bench = boot();
    start(&mut bench);
    let mut count = 0;
    while count < 4 && bench.run(12_000) == Happening::Time {
        assert_eq!(end(&mut bench.fork()), straight);
        count += 1;
    }
    assert!(count > 2, "{count}");
}

fn forks_part(kernel: &Path) {
    let mut middle = Middle::new(kernel, None);
    assert_eq!(middle.0.run(4_000_000), Happening::Time);
    let mut fork = middle.0.fork();
    // The power of one fails, and the other one is none the wiser.
    fork.simulation.switch_off(&[0, 1]);
    fork.boot(0);
    assert_eq!(fork.ask(0, "write 1 77 sync"), "written");
    fork.tell(0, "panic");
    let Happening::Ended { machine: 0, end } = fork.run(SECOND_NS) else {
        panic!("it goes on: {}", fork.simulation.console(0));
    };
    assert!(matches!(end, End::Panic(_)), "{end:?}");
    let mut panics = middle.0.fork();
    panics.tell(0, "panic");
    panics.simulation.freeze(1);
    let after = panics.run(100 * SECOND_NS);
    assert!(
        matches!(after, Happening::Said { machine: 0, .. }),
        "{after:?}"
    );
    let end = panics.run(SECOND_NS);
    assert!(
        matches!(
            &end,
            Happening::Ended {
                machine: 0,
                end: End::Panic(_)
            }
        ),
        "{end:?}"
    );
    drop(panics);
    assert_eq!(middle.rest(), Middle::new(kernel, None).rest());
}

fn no_fork(kernel: &Path) {
    let mut bench = Bench::new(kernel, 1, 1);
    let position = bench.simulation.disk(0, 0).log().len();
    bench.simulation.stop_at(Some(Point::Disk {
        machine: 0,
        disk: 0,
        position,
    }));
    bench.tell(0, "write 1 8 sync");
    assert_eq!(bench.run(SECOND_NS), Happening::Point);
    let consoles = tempfile::tempdir().expect("a directory");
    let forked = bench.simulation.fork(consoles.path().to_owned());
    assert!(matches!(forked, Err(Error::InTheMiddle)), "{forked:?}");
    assert_eq!(bench.line(0), "written");
    assert_eq!(bench.fork().ask(0, "read 1"), "8");
}
