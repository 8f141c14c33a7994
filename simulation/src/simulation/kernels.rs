//! Speaking with kernels: one runs, and each of its messages is answered before the next is read.

use std::io;
use std::time::Duration;

use machine::Activity;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{EPOCH_NS, Event, Place, Served, Simulation, Unanswered};
use crate::calendar::Source;
use crate::error::{Context, Error, Result};
use crate::machine::{Machine, Running};
use crate::time_travel::{Message, NEVER_NS, Operation};

/// No event is as late as this, and kernels can add to it.
const FAR_NS: u64 = NEVER_NS / 2;

/// How often it is looked whether somebody wants an end, while a kernel computes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long a kernel may compute without a word, in the host's time, without that in which it waited
/// for the processor. One in which a thread spins does so for ever: no time passes for it.
const COMPUTES_WITHIN: Duration = Duration::from_secs(120);

/// How long nothing in a kernel may want the processor, while it is to answer.
const STILL_WITHIN: Duration = Duration::from_secs(60);

/// So many messages no kernel needs at one time: a program in it writes or sends without end.
const MESSAGES_AT_ONCE_MAX: u32 = 100_000;

/// After so many of them it is looked whether somebody wants an end.
const LOOK_AFTER: u32 = 1000;

/// How many messages a kernel has sent since time has passed.
struct AtOnce {
    now_ns: u64,
    messages: u32,
}

impl AtOnce {
    fn count(&mut self, now_ns: u64) {
        if self.now_ns != now_ns {
            *self = Self {
                now_ns,
                messages: 0,
            };
        }
        self.messages += 1;
    }
}

impl Simulation {
    /// Lets a machine run at a time until it waits again.
    pub(super) fn let_run(
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
        running.times.local_ns = time_ns;
        running.times.request_ns = None;
        running.times.free_until_ns = free_until_ns;
        // It is to get the time that it asked for.
        let own_ns = running.times.own_request_ns;
        running.times.known_ns = (time_ns, own_ns);
        let own_free_ns = running
            .times
            .own_ns(machine.clock.now, free_until_ns)
            .max(own_ns);
        tracing::trace!(
            time_ns,
            machine = machine.name,
            free_until_ns,
            own_ns,
            "runs"
        );
        let words = [
            Message::new(Operation::FreeUntil, own_free_ns),
            Message::new(Operation::Run, own_ns),
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
            if let Some(request_ns) = machine.wants_to_run_ns().filter(|_| other != index) {
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
        // What several send counts for a limit in the order in which they do.
        let lookahead_ns = if self.is_lock_step || self.switch.limited().is_some() {
            0
        } else {
            self.switch.latency_ns_min()
        };
        free_ns
            .min(others_ns.saturating_add(lookahead_ns))
            .min(FAR_NS)
    }

    /// Answers the messages of the one kernel that runs, until it waits.
    pub(super) fn serve(&mut self, index: usize, cancelled: &dyn Fn() -> bool) -> Result<Served> {
        let mut quiet = None;
        let (now_ns, messages) = (self.now_ns, 0);
        let mut at_once = AtOnce { now_ns, messages };
        loop {
            let machine = &self.machines[index];
            if machine.running.is_none() {
                return Ok(Served::Waits);
            }
            let Some(ready) = machine.next_ready()? else {
                if cancelled() {
                    return Err(Error::Interrupted);
                }
                machine.refuse_stuck(quiet.get_or_insert_with(Activity::default))?;
                continue;
            };
            quiet = None;
            at_once.count(self.now_ns);
            self.refuse_endless(index, &at_once, cancelled)?;
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
            if let Served::AtPoint = self.hear(index, device)? {
                return Ok(Served::AtPoint);
            }
        }
    }

    /// Does what the driver of a device asks for, of which there is something to be read.
    fn hear(&mut self, index: usize, device: usize) -> Result<Served> {
        match self.machines[index].devices[device].receive() {
            Ok(None) => {}
            Ok(Some(message)) => {
                let place = self.place(index, device);
                return self.attend(Unanswered { place, message });
            }
            Err(error) => self.machines[index].lose_driver(device, &error)?,
        }
        Ok(Served::Waits)
    }

    /// Fails if a kernel has sent too much at one time, or somebody wants an end.
    fn refuse_endless(
        &self,
        index: usize,
        at_once: &AtOnce,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        if at_once.messages.is_multiple_of(LOOK_AFTER) && cancelled() {
            return Err(Error::Interrupted);
        }
        if at_once.messages <= MESSAGES_AT_ONCE_MAX {
            return Ok(());
        }
        Err(self.machines[index].misbehaves(format!(
            "has spoken to its devices {MESSAGES_AT_ONCE_MAX} times at one time: a program prints or sends without \
             end, for which no time passes"
        )))
    }

    /// Goes on where the simulation stood still.
    pub(super) fn go_on(&mut self, at: Unanswered, cancelled: &dyn Fn() -> bool) -> Result<Served> {
        let index = at.place.machine;
        match self.attend(at)? {
            Served::AtPoint => Ok(Served::AtPoint),
            Served::Waits => self.serve(index, cancelled),
        }
    }

    /// Does what a message of a driver asks for, and answers it; or stands still before that.
    fn attend(&mut self, at: Unanswered) -> Result<Served> {
        self.messages += 1;
        let Place {
            machine: index,
            device,
            ..
        } = at.place;
        if let Some(queue) = at.message.kicked() {
            if !self.kick(at.place, queue)? {
                self.unanswered = Some(at);
                return Ok(Served::AtPoint);
            }
            // It must know how long it has before it goes on.
            if !self.shorten(index)? {
                return Ok(Served::Waits);
            }
        }
        let machine = &mut self.machines[index];
        if let Err(error) = machine.devices[device].answer(at.message) {
            machine.lose_driver(device, &error)?;
        }
        Ok(Served::Waits)
    }

    /// Tells the kernel that runs, if it may let less time pass than it was told. Whether it lives.
    fn shorten(&mut self, index: usize) -> Result<bool> {
        let free_ns = self.free_until_ns(index);
        let machine = &mut self.machines[index];
        let Some(running) = machine.running.as_mut() else {
            return Ok(false);
        };
        if free_ns >= running.times.free_until_ns {
            return Ok(true);
        }
        running.times.free_until_ns = free_ns;
        let free_ns = running.times.own_ns(machine.clock.now, free_ns);
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
    pub(super) fn heed(&mut self, index: usize) -> Result<Option<Operation>> {
        self.messages += 1;
        let now_ns = self.now_ns;
        let machine = &mut self.machines[index];
        let running = machine.running.as_mut();
        let heard = running.and_then(|running| Message::read(&mut running.stream).ok());
        let Some(message) = heard else {
            return Ok(None);
        };
        let Message {
            operation, time_ns, ..
        } = message;
        tracing::trace!(now_ns, machine = machine.name, ?operation, time_ns, "heard");
        let answer_ns = match operation {
            Operation::Ack => return Ok(Some(Operation::Ack)),
            Operation::Start => {
                let answered = machine.answer_start(message);
                return Ok(answered.is_ok().then_some(Operation::Start));
            }
            _ => self.answer_ns(index, operation, time_ns)?,
        };
        let told = self.machines[index].tell(&[message.ack(answer_ns)]);
        Ok(told.is_ok().then_some(operation))
    }

    /// The answer to a kernel that has said or asked something of the time.
    fn answer_ns(&mut self, index: usize, operation: Operation, time_ns: u64) -> Result<u64> {
        let now_ns = self.now_ns;
        let machine = &mut self.machines[index];
        let clock = machine.clock;
        let times = &mut machine.running.as_mut().expect("it was heard").times;
        match operation {
            Operation::Request => times.request(clock.now, time_ns),
            Operation::Get => return Ok(times.tell(clock.now, now_ns)),
            Operation::Update => {
                let updated = times.update(clock.now, time_ns);
                self.now_ns = updated.map_err(|what| machine.misbehaves(what))?;
            }
            Operation::GetTimeOfDay => return Ok(clock.time_of_day_ns(EPOCH_NS, now_ns)),
            Operation::Wait => {}
            other => {
                let what = format!("asks its calendar for what that does not know ({other:?})");
                return Err(machine.misbehaves(what));
            }
        }
        Ok(0)
    }

    /// A kernel has ended.
    pub(super) fn end(&mut self, index: usize) -> Result<()> {
        if self.machines[index].running.is_some() {
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

impl Machine {
    /// Which of its sockets has something to read, if one has before long. The stream comes first, as
    /// it does for the kernel.
    fn next_ready(&self) -> Result<Option<usize>> {
        let events = self.events();
        let mut fds: Vec<_> = events
            .iter()
            .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
            .collect();
        wait(&mut fds)?;
        Ok(fds.iter().position(|fd| fd.any() == Some(true)))
    }

    /// A driver cannot be spoken with. If that is since its kernel ends, its stream says so; else a kernel that
    /// lives on would find a device dead for no reason of its own.
    fn lose_driver(&mut self, device: usize, error: &io::Error) -> Result<()> {
        if !is_of_end(error) {
            return Err(self.misbehaves(format!("cannot be spoken with: {error}")));
        }
        self.devices[device].driver = None;
        Ok(())
    }

    /// Fails if its kernel is to say something and never will.
    pub(super) fn refuse_stuck(&self, activity: &mut Activity) -> Result<()> {
        let pid = self.running.as_ref().map(Running::pid);
        match pid.and_then(|pid| is_stuck(activity, pid)) {
            Some(what) => Err(self.misbehaves(what)),
            None => Ok(()),
        }
    }
}

/// Whether an error means that nobody is at the other end.
fn is_of_end(error: &io::Error) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof,
    };
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof
    )
}

/// Why a kernel that is to say something never will. Who spins cannot be told from who computes, but
/// both from who does nothing.
fn is_stuck(activity: &mut Activity, pid: u32) -> Option<String> {
    if activity.idle(pid) > STILL_WITHIN {
        return Some(format!(
            "stands still: nothing in it has wanted a processor for {STILL_WITHIN:?}"
        ));
    }
    (activity.busy() > COMPUTES_WITHIN).then(|| {
        format!(
            "has computed for {COMPUTES_WITHIN:?} without a system call that takes time: a thread \
             spins, which takes for ever where computing takes no time, or it computes for longer"
        )
    })
}

/// Waits until there is something, for a while.
pub(super) fn wait(fds: &mut [PollFd]) -> Result<()> {
    let patience = PollTimeout::try_from(LOOK_EVERY).expect("it is short");
    match poll(fds, patience) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error).doing(|| "wait for the kernels".into()),
    }
}
