//! `crashpoint replay --until`: a run of a live sweep that stands still, for a look around in it.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use anyhow::bail;
use brief::counted;
use campaign::{Interrupt, Outcome, quoted, say};
use clap::Args;
use cluster::{CLIENT, Look, Looked, SimulatedCluster};
use injector::{Failure, Laboratory, StandStill};

use super::replay::LOOK_EVERY;

/// How long a command, or a line for a shell, may take, in nanoseconds of the simulation.
const COMMAND_WITHIN_NS: u64 = 60_000_000_000;
const LINE_WITHIN_NS: u64 = 10_000_000_000;

/// Units of time, longest name first: what ends with one may end with a shorter one, too.
const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// What is asked for of a run that stands still.
#[derive(Debug, Args)]
pub(super) struct LookArgs {
    /// Of a live sweep: have the run stand still at this time of it, such as 4.007s, and do not
    /// compare it. Without --command or --shell, what there is then is listed
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub(super) until: Option<u64>,

    /// With --until: the node in whose machine COMMAND runs, as root, in the directory of its data
    /// ({dir}); `client` is the machine of the client
    #[arg(long, value_name = "NODE", requires_all = ["until", "command"])]
    pub(super) node: Option<String>,

    /// With --until: speak with a shell in the machine of this node. It takes a terminal. What is
    /// typed was not in the run, which is another one from there on
    #[arg(long, value_name = "NODE", requires = "until", conflicts_with_all = ["command", "node"])]
    pub(super) shell: Option<String>,
}

/// A time of a run, such as `4.007s` or `4007151us`, in nanoseconds. Digits beyond a nanosecond are
/// refused.
fn time_ns(text: &str) -> Result<u64, String> {
    let parse = || {
        let (number, unit_ns) = UNITS
            .iter()
            .find_map(|(unit, unit_ns)| Some((text.strip_suffix(unit)?, *unit_ns)))?;
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| {
            let is_one = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_one.then(|| text.parse::<u64>().ok()).flatten()
        };
        let scale = 10_u64.checked_pow(part.len().try_into().ok()?)?;
        let part_ns = digits(part)?.checked_mul(unit_ns)?;
        let whole_ns = digits(whole)?.checked_mul(unit_ns)?;
        (part_ns % scale == 0).then(|| whole_ns.checked_add(part_ns / scale))?
    };
    parse().ok_or_else(|| "expected a number with s, ms, us or ns, such as 4.007s".into())
}

/// What is done where the run stands still.
pub(super) enum Wanted<'a> {
    List,
    Command { node: &'a str, script: &'a str },
    Shell { node: &'a str },
}

impl LookArgs {
    /// What is wanted of the run of a cluster.
    ///
    /// # Errors
    /// If that cannot be had.
    pub(super) fn wanted<'a>(
        &'a self,
        command: Option<&'a str>,
        laboratory: &Laboratory,
    ) -> anyhow::Result<Wanted<'a>> {
        let nodes = laboratory.file().nodes.iter();
        let names: Vec<_> = nodes
            .map(|node| node.name.as_str())
            .chain([CLIENT])
            .collect();
        let names = names.join(", ");
        let wanted = match (command, &self.node, &self.shell) {
            (Some(script), Some(node), _) => Wanted::Command { node, script },
            (Some(_), None, _) => bail!("--command takes --node NODE here, one of {names}"),
            (None, _, Some(node)) => Wanted::Shell { node },
            (None, ..) => Wanted::List,
        };
        if let Wanted::Command { node, .. } | Wanted::Shell { node } = wanted
            && !names.split(", ").any(|name| name == node)
        {
            bail!("there is no node {node}: it is one of {names}");
        }
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        if let Wanted::Shell { node } = wanted
            && !is_terminal
        {
            bail!("--shell takes a terminal: without one, use --command COMMAND --node {node}");
        }
        Ok(wanted)
    }
}

/// Has the run of a failure stand still, and looks around in it.
pub(super) fn look(
    laboratory: &Laboratory,
    failure: &Failure,
    until_ns: u64,
    wanted: &Wanted<'_>,
    keep: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let cancelled = || interrupt.requested();
    let mut still = laboratory.run_until(failure, until_ns, keep, &cancelled)?;
    say(&told(&still));
    let cluster = &mut still.cluster;
    match *wanted {
        Wanted::List => {
            let mut out = io::stdout().lock();
            for (name, is_on) in cluster.powers() {
                writeln!(out, "{name} is {}", if is_on { "on" } else { "off" })?;
            }
        }
        Wanted::Command { node, script } => command(cluster, node, script, interrupt)?,
        Wanted::Shell { node } => shell(cluster, node, interrupt)?,
    }
    if let Some(keep) = keep {
        cluster.write_frames(keep)?;
        say(&format!(
            "what the machines said and sent is in {}",
            keep.display()
        ));
    }
    Ok(Outcome::Clean)
}

/// Where it stands still.
fn told(still: &StandStill) -> String {
    let power = match still.happened.len() {
        0 => "the power has not failed yet".to_owned(),
        1 => "the power has failed".to_owned(),
        times => format!("the power has failed {times} times"),
    };
    let acknowledged = counted(still.acknowledged.len(), "acknowledgement");
    let last = still.acknowledged.last();
    let last = last.map(|last| format!(", the last `{last}`"));
    format!(
        "the run stands still: {power}; {acknowledged}{}",
        last.unwrap_or_default()
    )
}

/// The directory of the data of a node in its machine.
fn directory(cluster: &SimulatedCluster, name: &str) -> String {
    let mut nodes = cluster.file().nodes.iter();
    let node = nodes.find(|node| node.name == name && node.has_data);
    node.map_or_else(
        || "/".to_owned(),
        |node| node.directory().to_string_lossy().into_owned(),
    )
}

fn command(
    cluster: &mut SimulatedCluster,
    node: &str,
    script: &str,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let directory = directory(cluster, node);
    let directory = quoted(&directory);
    let script = script
        .replace("{dir}", &directory)
        .replace("{}", &directory);
    let look = cluster.look(node, &script, None)?;
    match go_on(cluster, &look, None, COMMAND_WITHIN_NS, interrupt)? {
        Looked::Ended(cluster::Ending::Status(0)) => {}
        Looked::Ended(ending) => say(&format!("the command {ending}")),
        Looked::Said | Looked::Time => {
            say("the command did not end within a minute of the machine's time");
        }
    }
    Ok(())
}

/// Lets the machines go on, and shows what is printed.
fn go_on(
    cluster: &mut SimulatedCluster,
    look: &Look,
    until: Option<&str>,
    for_ns: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<Looked> {
    let mut out = io::stdout().lock();
    let mut written = Ok(());
    let mut show = |bytes: &[u8]| {
        let shown = out.write_all(bytes).and_then(|()| out.flush());
        written = std::mem::replace(&mut written, Ok(())).and(shown);
    };
    let looked =
        cluster.go_on_looking(look, until, for_ns, &mut show, &|| interrupt.requested())?;
    written?;
    Ok(looked)
}

/// Passes lines on to a shell. Time passes in the machines from a line until the shell asks for the
/// next one; while a person thinks the world stands still.
fn shell(cluster: &mut SimulatedCluster, node: &str, interrupt: &Interrupt) -> anyhow::Result<()> {
    say(&format!(
        "this is a shell in the machine of {node}, until you leave it; from here on it is another run"
    ));
    let prompt = format!("{node}# ");
    let look = cluster.look(node, "exec sh +m -i", Some(&prompt))?;
    let lines = lines();
    loop {
        match go_on(cluster, &look, Some(&prompt), LINE_WITHIN_NS, interrupt)? {
            Looked::Ended(_) => return Ok(()),
            Looked::Said => {}
            Looked::Time => say("it goes on: Enter gives it another 10 s of its time"),
        }
        match next(&lines, interrupt) {
            Some(line) => cluster.tell_look(&look, line),
            None => return Ok(()),
        }
    }
}

/// What is typed, line by line; after its end there is an empty one.
fn lines() -> Receiver<Vec<u8>> {
    let (typed, lines) = channel();
    std::thread::spawn(move || {
        loop {
            let mut line = Vec::new();
            let read = io::stdin().lock().read_until(b'\n', &mut line);
            if typed.send(line).is_err() || read.unwrap_or(0) == 0 {
                return;
            }
        }
    });
    lines
}

/// The next line; none if somebody interrupts, or after the last.
fn next(lines: &Receiver<Vec<u8>>, interrupt: &Interrupt) -> Option<Vec<u8>> {
    loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Timeout) if !interrupt.requested() => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_to_the_nanosecond() {
        let known = [
            ("4.007s", 4_007_000_000),
            ("4.007151121s", 4_007_151_121),
            ("0s", 0),
            ("12ms", 12_000_000),
            ("1.5us", 1_500),
            ("7ns", 7),
        ];
        for (text, expected) in known {
            assert_eq!(time_ns(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "s",
            "4",
            "4.s",
            ".5s",
            "-1s",
            "1.0000000001s",
            "1.5ns",
            "+1s",
            "1e3s",
            "99999999999999s",
        ] {
            assert!(time_ns(text).is_err(), "{text}");
        }
    }
}
