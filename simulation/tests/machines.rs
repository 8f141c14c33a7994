//! Real kernels on a calendar, without root. This program is also the init of their machines.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use block_dev::{Base, Kind};
use libtest_mimic::{Arguments, Trial};
use machine::Uml;
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use pace_rules::disk::{Disk as Keeping, Relaxation};
use simulation::{
    Chance, Disk, DiskTimes, EPOCH_NS, End, Happening, Link, MachineSpec, Point, Settings,
    Simulation,
};
use tempfile::TempDir;

const INIT: &str = "__init";
const PORT: &str = "/dev/vport1p0";
const DISK: &str = "/dev/vda";
const BLOCK: usize = 4096;
const SECOND_NS: u64 = 1_000_000_000;

fn main() -> ExitCode {
    if let Some(status) = machine::run_hidden() {
        return status;
    }
    if std::env::args().nth(1).as_deref() == Some(INIT) {
        serve().expect("served");
        let _ = reboot(RebootMode::RB_POWER_OFF);
    }
    let tests: [(&str, fn()); 8] = [
        ("waiting_costs_no_time_and_clocks_agree", clocks),
        ("what_no_flush_covers_is_lost_with_the_power", power),
        ("a_run_stands_still_before_a_request_to_a_disk", point),
        ("a_flush_that_was_in_flight_covers_nothing", in_flight),
        (
            "a_machine_hears_nothing_of_what_was_said_to_its_last_life",
            lives,
        ),
        ("a_frozen_machine_is_behind_when_it_goes_on", freeze),
        ("a_kernel_that_panics_says_so", panics),
        ("runs_of_one_seed_are_equal_and_others_not", equal),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// The init: does what lines of its port say, and answers each with a line.
fn serve() -> std::io::Result<()> {
    let place = |kind: &str, path: &str| {
        mount(Some(kind), path, Some(kind), MsFlags::empty(), None::<&str>)
    };
    place("proc", "/proc")?;
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
            // No kernel survives the end of its init.
            "panic" => std::process::exit(1),
            "off" => return Ok(()),
            other => format!("what is {other}?"),
        };
        port.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

struct Bench {
    simulation: Simulation,
    consoles: TempDir,
}

impl Bench {
    /// Machines that are on and ready, with a disk each that keeps its word as `keeping` says.
    fn new(seed: u64, machines: usize) -> Self {
        let kernel = Uml::find_virtual(None, None, seed).expect("a kernel: scripts/build-uml.sh");
        let consoles = tempfile::tempdir().expect("a directory");
        let simulation = Simulation::new(Settings {
            kernel,
            seed,
            link: Link::default(),
            consoles: consoles.path().to_owned(),
        });
        let mut this = Self {
            simulation: simulation.expect("made"),
            consoles,
        };
        for index in 0..machines {
            let name = format!("n{index}");
            let disk = Disk::new(
                Arc::new(Base::empty(64 << 20)),
                Keeping::Honest,
                DiskTimes::default(),
                Chance::new(seed, &format!("disk {name}")),
            );
            let spec = MachineSpec {
                name,
                address: [2, 0, 0, 0, 0, index as u8],
                memory_mib: 64,
                disks: vec![disk],
                clock_offset_ns: 0,
                chaos: None,
                init: vec![INIT.into()],
            };
            this.simulation.add(spec).expect("added");
        }
        for index in 0..machines {
            this.boot(index);
        }
        this
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

    /// The next line that a machine says.
    fn line(&mut self, machine: usize) -> String {
        let happening = self.run(10_000 * SECOND_NS);
        let Happening::Said {
            machine: who,
            bytes,
        } = happening
        else {
            panic!("{happening:?}: {}", self.simulation.console(machine));
        };
        assert_eq!(who, machine);
        String::from_utf8(bytes)
            .expect("text")
            .trim_end()
            .to_owned()
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

fn clocks() {
    let mut bench = Bench::new(1, 2);
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

fn power() {
    let mut bench = Bench::new(1, 1);
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

fn point() {
    let mut bench = Bench::new(1, 1);
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

fn in_flight() {
    let mut bench = Bench::new(1, 1);
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

fn lives() {
    let mut bench = Bench::new(1, 1);
    bench.tell(0, "time");
    bench.simulation.switch_off(&[0]);
    bench.boot(0);
    assert_eq!(bench.run(SECOND_NS), Happening::Time);
}

fn freeze() {
    let mut bench = Bench::new(1, 1);
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

fn panics() {
    let mut bench = Bench::new(1, 1);
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

fn equal() {
    let run = |seed: u64| {
        let mut bench = Bench::new(seed, 2);
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
        let times = (bench.simulation.now_ns(), bench.simulation.messages());
        (said, logs, consoles, times)
    };
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first.0, run(8).0);
    assert_ne!(first.0[0], first.0[3], "machines draw different numbers");
    assert_ne!(first.0[0], first.0[9], "and so do the lives of one");
}
