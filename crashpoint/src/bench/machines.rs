//! `crashpoint bench --machines`: what simulated machines cost, whatever runs in them.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use ::machine::{OwnDirectory, Uml};
use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, OutputFormat, columns, say};
use serde_json::{Value, json};
use simulation::{BITS_PER_SECOND, Clock, End, Happening, Link, MachineSpec, Settings, Simulation};

use super::inside::{ECHO_COMMAND, INIT_COMMAND, MESSAGE_BYTES};
use super::processor::processor_s;

/// At least so many rounds, unless there is hardly any time: then one is enough.
const ROUNDS_MIN: usize = 3;
const HARDLY_ANY: Duration = Duration::from_secs(10);

/// Everything that is drawn comes from it.
const SEED: u64 = 7;

const MEMORY_MIB: u64 = 64;

const MINUTE_NS: u64 = 60_000_000_000;
const IDLE_NS: u64 = 10 * MINUTE_NS;

/// More than anything here takes in a machine's time.
const END_NS: u64 = 100 * MINUTE_NS;

/// How many machines are idle together.
const TOGETHER: u8 = 5;

/// How often two machines wake up for the messages that this takes, and what they are told.
const WAKE_UPS: &str = "sleep 1 5000";

/// Datagrams there and back between two machines.
const DATAGRAMS: u32 = 1000;

/// Messages there and back in the floor.
const ECHOES: u32 = 50_000;

const MS_PER_S: f64 = 1e3;
const KIB_PER_MIB: f64 = 1024.0;

/// What is measured: its name in JSON and for people.
const FIGURES: [(&str, &str); 11] = [
    (
        "machine_s",
        "a machine, start to power-off, 10 min asleep: s",
    ),
    ("machine_cpu_s", "the same: s of processor time"),
    ("idle_mib", "an idle machine: MiB"),
    ("idle_of_five_mib", "the same, one of five: MiB"),
    ("messages_per_s", "messages to the calendar/s"),
    (
        "floor_messages_per_s",
        "floor: two processes, one socket pair: messages/s",
    ),
    ("messages_ratio", "messages over floor"),
    ("frame_ms", "a frame: ms"),
    ("five_s", "five machines, start to end of 10 min idle: s"),
    ("two_ratio", "two simulations on two processors over one"),
    ("floor_two_ratio", "floor: two socket pairs over one"),
];

/// A value of each figure, where it could be had.
type Round = [Option<f64>; FIGURES.len()];

/// Does it.
pub(super) fn bench(
    kernel: Option<&Path>,
    time: Duration,
    format: OutputFormat,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let bench = Bench {
        kernel: Uml::find_simulated(kernel, SEED)?,
        interrupt,
    };
    say(&format!(
        "simulated machines on {}",
        bench.kernel.kernel.display()
    ));
    let least = if time < HARDLY_ANY { 1 } else { ROUNDS_MIN };
    let begun = Instant::now();
    let mut rounds = Vec::new();
    while rounds.len() < least || begun.elapsed() < time {
        let round = bench.round();
        if interrupt.requested() {
            say("interrupted");
            return Ok(Outcome::Incomplete);
        }
        rounds.push(round?);
    }
    let text = match format {
        OutputFormat::Json => format!("{}\n", as_json(&rounds)),
        OutputFormat::Text => table(&rounds),
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Outcome::Clean)
}

/// How all simulations are made.
struct Bench<'a> {
    kernel: Uml,
    interrupt: &'a Interrupt,
}

impl Bench<'_> {
    /// Measures everything once.
    fn round(&self) -> anyhow::Result<Round> {
        let (machine_s, cpu_s) = on_thread(|| self.one())?;
        let idle_mib = on_thread(|| self.idle_mib(1))?;
        let idle_of_five_mib = on_thread(|| self.idle_mib(TOGETHER))?;
        let messages = on_thread(|| self.messages())?;
        let (frame_s, one_s) = on_thread(|| self.frames())?;
        let five_s = on_thread(|| self.five())?;
        let (echo_s, echoed_s) = on_thread(|| echoes(0))?;
        let floor = f64::from(ECHOES) / echo_s;
        let two = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        let two_s = two.then(|| both(|_| self.frames())).transpose()?;
        let floor_two_s = two.then(|| both(echoes)).transpose()?;
        Ok([
            Some(machine_s),
            Some(cpu_s),
            idle_mib,
            idle_of_five_mib,
            Some(messages),
            Some(floor),
            Some(messages / floor),
            Some(frame_s * MS_PER_S),
            Some(five_s),
            two_s.map(|two_s| two_s / one_s),
            floor_two_s.map(|two_s| two_s / echoed_s),
        ])
    }

    /// Seconds of wall time and of processor time for a machine from its start to its power-off.
    fn one(&self) -> anyhow::Result<(f64, f64)> {
        let (begun, begun_cpu_s) = (Instant::now(), processor_s()?);
        let mut machines = self.boot(1)?;
        machines.tell(0, &format!("sleep {} 1", IDLE_NS / 1_000_000));
        machines.heard(1)?;
        machines.tell(0, "off");
        let happening = machines.run(END_NS)?;
        let end = End::Off;
        if happening != (Happening::Ended { machine: 0, end }) {
            bail!("a machine that was switched off did otherwise: {happening:?}");
        }
        let wall_s = begun.elapsed().as_secs_f64();
        Ok((wall_s, processor_s()? - begun_cpu_s))
    }

    /// Memory of the processes of one of so many idle machines. Pages that they share are counted once.
    fn idle_mib(&self, count: u8) -> anyhow::Result<Option<f64>> {
        let mut machines = self.boot(count)?;
        machines.idle(MINUTE_NS)?;
        let own = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        // Others remove directories after us.
        let kernel = self.kernel.kernel.canonicalize()?;
        let is_kernel = |pid: &&str| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == kernel)
        };
        let kernels = own.split_whitespace().filter(is_kernel);
        let kib = kernels.map(share_kib).sum::<Option<u64>>();
        Ok(kib
            .filter(|kib| *kib > 0)
            .map(|kib| kib as f64 / KIB_PER_MIB / f64::from(count)))
    }

    /// Messages a second while two machines do nothing but wake up.
    fn messages(&self) -> anyhow::Result<f64> {
        let mut machines = self.boot(2)?;
        let (begun, before) = (Instant::now(), machines.simulation.messages());
        machines.tell(0, WAKE_UPS);
        machines.tell(1, WAKE_UPS);
        machines.heard(2)?;
        let messages = machines.simulation.messages() - before;
        Ok(messages as f64 / begun.elapsed().as_secs_f64())
    }

    /// Seconds for a frame between two machines, and for all of it, with their boot.
    fn frames(&self) -> anyhow::Result<(f64, f64)> {
        let booted = Instant::now();
        let mut machines = self.boot(2)?;
        let (begun, before) = (Instant::now(), machines.simulation.switch().frames());
        machines.tell(0, &format!("answer {DATAGRAMS}"));
        machines.tell(1, &format!("send 0 {DATAGRAMS}"));
        machines.heard(2)?;
        let frames = machines.simulation.switch().frames() - before;
        let frame_s = begun.elapsed().as_secs_f64() / frames as f64;
        Ok((frame_s, booted.elapsed().as_secs_f64()))
    }

    /// Seconds for machines that are switched on, and then idle.
    fn five(&self) -> anyhow::Result<f64> {
        let begun = Instant::now();
        self.boot(TOGETHER)?.idle(IDLE_NS)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Machines that are on and ready.
    fn boot(&self, count: u8) -> anyhow::Result<Machines<'_>> {
        let consoles = OwnDirectory::new(&std::env::temp_dir(), "logs");
        let consoles = consoles.context("make a directory for the consoles")?;
        let mut simulation = Simulation::new(Settings {
            kernel: self.kernel.clone(),
            seed: SEED,
            link: Link::USUAL,
            bits_per_second: BITS_PER_SECOND,
            consoles: consoles.path().to_owned(),
        })?;
        for number in 0..count {
            simulation.add(MachineSpec {
                name: format!("n{number}"),
                address: [2, 0, 0, 0, 0, number],
                memory_mib: MEMORY_MIB,
                disks: Vec::new(),
                clock: Clock::default(),
                chaos: None,
                init: vec![INIT_COMMAND.into(), number.to_string()],
            })?;
        }
        let all: Vec<_> = (0..count.into()).collect();
        simulation.switch_on(&all, &|| self.interrupt.requested())?;
        let mut machines = Machines {
            simulation,
            interrupt: self.interrupt,
            _consoles: consoles,
        };
        machines.heard(count)?;
        Ok(machines)
    }
}

/// Machines of one simulation.
struct Machines<'a> {
    simulation: Simulation,
    interrupt: &'a Interrupt,
    _consoles: OwnDirectory,
}

impl Machines<'_> {
    fn tell(&mut self, machine: usize, line: &str) {
        self.simulation
            .speak(machine, format!("{line}\n").into_bytes());
    }

    fn run(&mut self, for_ns: u64) -> anyhow::Result<Happening> {
        let until_ns = self.simulation.now_ns() + for_ns;
        let cancelled = || self.interrupt.requested();
        Ok(self.simulation.run(until_ns, &cancelled)?)
    }

    /// Waits until so many lines were said.
    fn heard(&mut self, lines: u8) -> anyhow::Result<()> {
        for _ in 0..lines {
            let happening = self.run(END_NS)?;
            if !matches!(happening, Happening::Said { .. }) {
                let console = self.simulation.console(0);
                let last = console.trim_end().lines().last().unwrap_or_default();
                bail!("a machine does not answer: {happening:?}; the first console ends: {last}");
            }
        }
        Ok(())
    }

    fn idle(&mut self, for_ns: u64) -> anyhow::Result<()> {
        match self.run(for_ns)? {
            Happening::Time => Ok(()),
            other => bail!("a machine that is idle is not: {other:?}"),
        }
    }
}

/// Measures on a thread of its own: a simulation keeps its thread on one processor for good.
fn on_thread<T: Send>(doing: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| joined(scope.spawn(doing)))
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    let ended = thread.join();
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Two of something at once, each of which is told its number, and says in its second value how many
/// seconds all of it took. Returns those of the slower one.
fn both(doing: impl Fn(usize) -> anyhow::Result<(f64, f64)> + Sync) -> anyhow::Result<f64> {
    let doing = &doing;
    std::thread::scope(|scope: &Scope<'_, '_>| {
        let threads = [0, 1].map(|number| scope.spawn(move || doing(number)));
        let [one, other] = threads.map(joined);
        Ok(one?.1.max(other?.1))
    })
}

/// The floor: this thread and another process have only messages for each other, of the length of a
/// kernel's, on one processor. Returns twice the seconds that the messages take: there is nothing else.
fn echoes(number: usize) -> anyhow::Result<(f64, f64)> {
    // Where it may not be kept there, it is slower.
    let _ = ::machine::stay_on_one_processor(number);
    let (mut stream, end) = UnixStream::pair().context("make a pair of sockets")?;
    let program = std::env::current_exe().context("find this program")?;
    let mut child = Command::new(program)
        .arg(ECHO_COMMAND)
        .stdin(OwnedFd::from(end))
        .spawn()
        .context("start a process that answers")?;
    let mut message = [0; MESSAGE_BYTES];
    let mut echo = |times: u32| -> io::Result<()> {
        for _ in 0..times {
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
        }
        Ok(())
    };
    // The first has it started.
    let first = echo(1);
    let begun = Instant::now();
    let rest = first.and_then(|()| echo(ECHOES));
    let echo_s = begun.elapsed().as_secs_f64();
    drop(stream);
    child.wait().context("wait for a process that answers")?;
    rest.context("speak with a process that answers")?;
    Ok((echo_s, echo_s))
}

/// What a process and its descendants have in memory, in KiB: of what several have, each its share.
fn share_kib(pid: &str) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let share = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let share: u64 = share.split_whitespace().next()?.parse().ok()?;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let below = children.split_whitespace().map(share_kib);
    Some(share + below.sum::<Option<u64>>()?)
}

/// The least, the median and the most of a figure.
fn spread(rounds: &[Round], figure: usize) -> Option<[f64; 3]> {
    let mut values: Vec<_> = rounds.iter().filter_map(|round| round[figure]).collect();
    values.sort_by(f64::total_cmp);
    let middle = *values.get(values.len() / 2)?;
    Some([*values.first()?, middle, *values.last()?])
}

fn as_json(rounds: &[Round]) -> Value {
    let mut object = json!({"type": "bench-machines", "rounds": rounds.len()});
    for (figure, (name, _)) in FIGURES.iter().enumerate() {
        let median = spread(rounds, figure).map(|[_, median, _]| median);
        object[name] = json!(median.map(|value| (value * 1000.0).round() / 1000.0));
    }
    object
}

fn table(rounds: &[Round]) -> String {
    let head = ["simulated machines", "median", "least", "most"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    for (figure, (_, words)) in FIGURES.iter().enumerate() {
        let [least, median, most] = match spread(rounds, figure) {
            Some(values) => values.map(shown),
            None => [(); 3].map(|()| "?".to_owned()),
        };
        cells.push(vec![(*words).to_owned(), median, least, most]);
    }
    columns(&cells)
}

/// With three digits, or all before the point.
fn shown(value: f64) -> String {
    let places = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.places$}")
}
