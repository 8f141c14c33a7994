//! The tracer of a node in the node's machine: this same program, started anew. It starts the node's
//! command, is told [`Order`]s in lines on its standard input, and says [`Report`]s in lines on its
//! standard output. What the command prints is all on standard error.
//!
//! A call stands still until what it is about to come to was written: nobody who reads that is ahead
//! of it.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;

use tracer::Table;

use super::desk::{Clerk, Desk, Traced};
use super::kinds;
use super::orders::{Order, Orders, Report, Spec};
use crate::error::{Error, Result};

/// The argument by which the program is told to be such a tracer. A [`Spec`] and the command follow.
pub(super) const TRACED_COMMAND: &str = "__traced";

/// The status of a command that could not be run, as shells have it.
const COULD_NOT_RUN: u8 = 127;

/// What is added to a signal's number for an exit status, as shells do.
const SIGNALLED: i32 = 128;

/// Traces the command of a node in its machine, if the program was started for that.
pub fn run_hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != TRACED_COMMAND {
        return None;
    }
    Some(trace(arguments).unwrap_or_else(|error| {
        // This is the log of the node.
        eprintln!("crashpoint: {error}");
        ExitCode::from(COULD_NOT_RUN)
    }))
}

/// What the tracer waits for.
enum Event {
    /// A line came.
    Told(String),
    /// There may be something to say, or a call that is held for a time.
    Changed,
    /// All processes have ended.
    Over,
}

/// Says to the one who waits when the node's last process has ended, whatever came of its tracer.
struct Teller(Sender<Event>);

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Over);
    }
}

fn system(doing: &str) -> impl FnOnce(io::Error) -> Error {
    let doing = doing.to_owned();
    move |error| Error::System { doing, error }
}

fn trace(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let spec = read_spec(arguments.next())?;
    let command = command_of(&spec, arguments)?;
    let desk = Desk::new(0, &spec.name, spec.data.as_deref(), false);
    for order in spec.orders {
        obey(&desk, order);
    }
    let desk = Arc::new(desk);
    let (tell, events) = mpsc::channel();
    let traced = match start(&spec.name, &spec.kinds, command, &desk, tell.clone()) {
        Err(error @ tracer::Error::Start { .. }) => return Ok(could_not_run(&desk, &error)),
        traced => traced.map_err(io::Error::other),
    };
    let traced = Arc::new(traced.map_err(system("start it"))?);
    desk.follow(&traced);
    thread::spawn(move || listen(&tell));
    let is_end_told = attend(&desk, &traced, &events);
    say(&desk.over());
    desk.forget();
    let traced = Arc::into_inner(traced).expect("nobody else has it");
    end(traced, is_end_told)
}

/// The end of a command all of whose processes have ended.
fn end(traced: Traced, is_end_told: bool) -> Result<ExitCode> {
    let status = traced.wait().map_err(io::Error::other);
    let status = status.map_err(system("trace the processes"))?;
    if !is_end_told {
        say(&[Report::Ended(status.into_raw())]);
    }
    Ok(exit_code(status))
}

/// The end of a command that did not begin, as shells have it.
fn could_not_run(desk: &Desk, error: &tracer::Error) -> ExitCode {
    // This is the log of the node.
    eprintln!("crashpoint: {error}");
    // It may have been told to count.
    say(&desk.over());
    say(&[Report::Ended(i32::from(COULD_NOT_RUN) << 8)]);
    ExitCode::from(COULD_NOT_RUN)
}

fn nothing() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

fn read_spec(text: Option<OsString>) -> Result<Spec> {
    let text = text.and_then(|text| text.into_string().ok());
    let text = text.ok_or_else(nothing);
    let spec = text.and_then(|text| Ok(serde_json::from_str(&text)?));
    spec.map_err(system("read what is traced"))
}

/// The command, whose output is the log: what we may read and write is for us.
fn command_of(spec: &Spec, mut words: impl Iterator<Item = OsString>) -> Result<Command> {
    let program = words.next().ok_or_else(nothing);
    let mut command = Command::new(program.map_err(system("find the command"))?);
    let log = io::stderr().as_fd().try_clone_to_owned();
    let log = log.map_err(system("give the command its output"))?;
    command.args(words).stdin(Stdio::null()).stdout(log);
    // Of its own, as it has without us: what it sends its group is not for us.
    command.process_group(0);
    if let Some(user) = &spec.user {
        cluster::run_as_user(&mut command, user)?;
    }
    Ok(command)
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code();
    let code = code.unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default());
    ExitCode::from(code as u8)
}

fn start(
    name: &str,
    kinds: &[String],
    command: Command,
    desk: &Arc<Desk>,
    tell: Sender<Event>,
) -> tracer::Result<Traced> {
    let options = tracer::Options {
        name: name.to_owned(),
        processor: None,
    };
    let rows = kinds::rows(kinds);
    let desk = Arc::clone(desk);
    let teller = Teller(tell);
    let told = move |desk: &Desk| {
        say_changes(desk);
        if desk.has_ended() || desk.due_in().is_some() {
            let _ = teller.0.send(Event::Changed);
        }
    };
    let clerk = move || Ok(Clerk::telling(desk, Box::new(told)));
    tracer::start(options, Table { rows }, command, clerk)
}

/// Takes the lines that come.
fn listen(tell: &Sender<Event>) {
    for line in io::stdin().lock().lines().map_while(io::Result::ok) {
        if tell.send(Event::Told(line)).is_err() {
            return;
        }
    }
}

/// Does what comes, until all processes have ended. Whether it was told then how the command has.
fn attend(desk: &Desk, traced: &Traced, events: &Receiver<Event>) -> bool {
    let mut is_end_told = false;
    loop {
        let event = match desk.due_in() {
            Some(time) => events.recv_timeout(time),
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Told(line)) => match serde_json::from_str(&line) {
                Ok(order) => obey(desk, order),
                // Whoever waits for an answer does not get one.
                Err(error) => eprintln!("crashpoint: cannot understand an order: {error}"),
            },
            Ok(Event::Changed) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Over) | Err(RecvTimeoutError::Disconnected) => return is_end_told,
        }
        desk.let_go();
        if desk.has_ended()
            && !is_end_told
            && let Some(status) = traced.status()
        {
            is_end_told = true;
            say(&[Report::Ended(status.into_raw())]);
        }
    }
}

fn obey(desk: &Desk, order: Order) {
    match order {
        Order::Watch(id, watched) => desk.watch(id, watched),
        Order::Unwatch(id) => desk.unwatch(id),
        Order::Hit {
            id,
            fault,
            seen,
            hits,
        } => desk.hit_on(id, fault, seen, hits),
        Order::Spare(id) => {
            desk.spare(id);
            let spared = desk.spared(id);
            let reports: Vec<_> = spared
                .map(|spared| Report::Spared(id, spared))
                .into_iter()
                .collect();
            say(&reports);
        }
        Order::Pause(is_paused) => desk.pause(is_paused),
        Order::Count(counting) => desk.begin_counting(counting),
        Order::Tell => say(&desk.told()),
        Order::Role(role) => desk.know_role(role.as_deref()),
        Order::Answer(number) => say(&[Report::Answered(number)]),
    }
}

/// Says what nobody was told yet, one thread after the other: what is said later is of later.
fn say_changes(desk: &Desk) {
    let output = io::stdout().lock();
    write(output, &desk.changes());
}

fn say(reports: &[Report]) {
    write(io::stdout().lock(), reports);
}

/// Whoever does not read it is gone, with the machine.
fn write(mut output: impl Write, reports: &[Report]) {
    for report in reports {
        let line = serde_json::to_string(report).expect("it is plain data") + "\n";
        let _ = output
            .write_all(line.as_bytes())
            .and_then(|()| output.flush());
    }
}
