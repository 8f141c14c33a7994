//! The client, and the check of what it was told.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use super::{CHECK, SimulatedCluster, words_of};
use crate::check::{END, Errors, Verdict, ended, of_end, question, too_long, verdict};
use crate::error::Result;
use crate::file::{CLIENT, Check};
use crate::process::Ending;
use crate::simulated::hosts::Heard;
use crate::simulated::words::{Order, ProcessId};

/// Where the check finds what was acknowledged.
const ACKNOWLEDGEMENTS: &str = "/run/crashpoint/.acknowledgements";

/// The client, while it runs.
#[derive(Debug, Clone)]
pub struct RunningClient {
    id: ProcessId,
    within: Duration,
    /// When it has had its time.
    pub end_ns: u64,
}

/// Why a client does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driven {
    /// It has ended.
    Ended(Ending),
    /// The simulation is at the point that was asked for.
    Point,
    /// It is the time.
    Time,
    /// Whoever takes its lines wants no more.
    Stopped,
}

impl SimulatedCluster {
    /// Runs the client to its end. Each line of its standard output is given to `acknowledged` with
    /// the time.
    ///
    /// # Errors
    /// If there is none, it fails, or it takes too long.
    pub fn run_client(
        &mut self,
        acknowledged: &mut dyn FnMut(u64, &[u8]),
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let client = self.begin_client()?;
        let mut all = |time_ns: u64, line: &[u8]| {
            acknowledged(time_ns, line);
            true
        };
        match self.drive_client(&client, client.end_ns, &mut all, cancelled)? {
            Driven::Ended(Ending::Status(0)) => Ok(()),
            Driven::Ended(ending) => {
                self.refuse_lost_kernel(self.client())?;
                let unknown = ending == Ending::Unknown;
                let how = self.ended_with_machine(self.client());
                let how = how.filter(|_| unknown);
                let how = how.unwrap_or_else(|| ending.to_string());
                Err(self.failed("the client", CLIENT, &how))
            }
            Driven::Time | Driven::Point | Driven::Stopped => {
                let what = format!("did not end within {:?}", client.within);
                Err(self.failed("the client", CLIENT, &what))
            }
        }
    }

    /// Tells the client something in a variable of its environment, if it is not running yet.
    pub fn tell_client(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Starts the client.
    ///
    /// # Errors
    /// If there is none.
    pub fn begin_client(&mut self) -> Result<RunningClient> {
        let config = self.file.the_client()?.clone();
        let (machine, task) = (self.client(), self.client_task(&config.command, false));
        let task = self.recorded(None, task);
        let id = self.hosts.start(machine, task, CLIENT, false)?;
        let now_ns = self.now_ns();
        Ok(RunningClient {
            id,
            within: config.within,
            end_ns: now_ns + config.within.as_nanos() as u64,
        })
    }

    /// Lets the client go on, until it ends, the simulation is at the point that was asked for, at a
    /// time, or `acknowledged`, which gets each line and the time at which that came, wants no more.
    ///
    /// # Errors
    /// If the simulation cannot go on.
    pub fn drive_client(
        &mut self,
        client: &RunningClient,
        until_ns: u64,
        acknowledged: &mut dyn FnMut(u64, &[u8]) -> bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Driven> {
        let machine = self.client();
        loop {
            let Some(process) = self.hosts.process(machine, client.id) else {
                return Ok(Driven::Ended(Ending::Unknown));
            };
            while let Some((line, time_ns)) = process.timed_line() {
                if !acknowledged(time_ns, &line) {
                    return Ok(Driven::Stopped);
                }
            }
            if let Some(status) = process.status {
                return Ok(Driven::Ended(Ending::from(ExitStatus::from_raw(status))));
            }
            if self.hosts.end(machine).is_some() {
                return Ok(Driven::Ended(Ending::Unknown));
            }
            match self.hosts.hear(until_ns, cancelled)? {
                Heard::Something => {}
                Heard::Point => return Ok(Driven::Point),
                Heard::Time => return Ok(Driven::Time),
            }
        }
    }

    /// The next line that the client has printed and nobody has taken, with its time.
    pub fn line_of_client(&mut self, client: &RunningClient) -> Option<(Vec<u8>, u64)> {
        let machine = self.client();
        self.hosts.process(machine, client.id)?.timed_line()
    }

    /// When the client ended by itself, in nanoseconds since the simulation began, if it has.
    pub fn client_ended_ns(&mut self, client: &RunningClient) -> Option<u64> {
        let machine = self.client();
        let process = self.hosts.process(machine, client.id)?;
        process.status.map(|_| process.ended_ns)
    }

    /// Kills the client, if it runs.
    pub fn end_client(&mut self, client: &RunningClient) {
        self.end_process(self.client(), client.id);
    }

    /// Asks the check about what was acknowledged: lines, each with its end. One that keeps running
    /// is started the first time only.
    ///
    /// # Errors
    /// If there is none, or it cannot be run.
    pub fn run_check(
        &mut self,
        acknowledgements: &[u8],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Verdict> {
        let check = self.file.the_check()?.clone();
        let (client, path) = (self.client(), Path::new(ACKNOWLEDGEMENTS));
        let order = Order::Write {
            path: path.into(),
            content: acknowledgements.to_vec(),
            user: None,
        };
        self.ask(client, &order, cancelled)?;
        let errors = Errors::from_now_on(self.log(CHECK));
        let id = if let Some(id) = self.kept_server() {
            id
        } else {
            let words = check.command((!check.serve).then_some(path))?;
            let task = self.client_task(&words, check.serve);
            self.hosts.start(client, task, CHECK, false)?
        };
        if check.serve {
            let bytes = format!("{}\n", question(path)).into_bytes();
            self.hosts.order(client, &Order::Input { id, bytes });
        }
        let (verdict, goes_on) = self.answer_of(id, &check, &errors, cancelled)?;
        self.server = goes_on.then_some(id);
        if !goes_on {
            self.end_process(client, id);
        }
        Ok(verdict.with_log(&errors))
    }

    /// The check that keeps running, if it can be asked again. What it has said after its answer would be
    /// taken for what it says next: such a one is ended.
    fn kept_server(&mut self) -> Option<ProcessId> {
        let (id, client) = (self.server.take()?, self.client());
        let process = self.hosts.process(client, id)?;
        if process.take_printed().is_empty() {
            return Some(id);
        }
        self.end_process(client, id);
        None
    }

    /// Waits for what a check says, and whether it can be asked again.
    fn answer_of(
        &mut self,
        id: ProcessId,
        check: &Check,
        errors: &Errors,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Verdict, bool)> {
        let client = self.client();
        let end_ns = self.now_ns() + check.within.as_nanos() as u64;
        let mut said = Vec::new();
        loop {
            let heard = self.hosts.hear(end_ns, cancelled)?;
            if let Some(end) = self.hosts.end(client) {
                let what = format!("the machine of the check {}", words_of(end));
                return Ok((Verdict::Inconclusive(what), false));
            }
            let process = self.hosts.process(client, id).expect("it was started");
            while let Some(line) = process.line() {
                if check.serve && line == END.as_bytes() {
                    return Ok((verdict(&said, true), true));
                }
                said.push(String::from_utf8_lossy(&line).into_owned());
            }
            match process.status.map(ExitStatus::from_raw) {
                Some(status) if check.serve => return Ok((ended(status, errors), false)),
                Some(status) => return Ok((of_end(&said, status, errors), false)),
                None if heard == Heard::Time => return Ok((too_long(check.within), false)),
                None => {}
            }
        }
    }
}
