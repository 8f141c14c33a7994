//! What happens to machines that wait.

use std::os::fd::AsFd;

use machine::Activity;
use nix::poll::{PollFd, PollFlags};

use super::kernels::wait;
use super::kicks::Taken;
use super::{Event, Happening, Place, Ring, Simulation};
use crate::device::{Kind, received};
use crate::error::Result;
use crate::vhost_user::Driver;

/// The device of each machine that is its network card.
const NETWORK: usize = 0;

/// So many messages no kernel needs before it has heard an interrupt.
const MESSAGES_MAX: u32 = 1_000_000;

impl Simulation {
    /// Lets the next event happen.
    pub(super) fn take_event(&mut self) -> Result<Option<Happening>> {
        let (time_ns, event) = self.calendar.pop().expect("there is one");
        // It may be earlier than what a machine did that ran ahead.
        self.now_ns = time_ns;
        if let Some(target) = event.target()
            && let Some(running) = &mut self.machines[target].running
        {
            running.times.learn(time_ns);
        }
        match event {
            Event::Said { machine, bytes } => {
                return Ok(Some(Happening::Said { machine, bytes }));
            }
            Event::Ended { machine, end } => {
                return Ok(Some(Happening::Ended { machine, end }));
            }
            Event::Frame { to, frame, .. } => self.arrive(to, &frame)?,
            Event::Call(ring) => self.call(ring)?,
            Event::Done { device, head } => self.finish(device, head)?,
            Event::GoOn(device) => self.let_go(device)?,
            Event::Fill(device) => self.fill(device)?,
            Event::Speak { device, bytes } => {
                self.give(device, &bytes);
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

    /// A disk has done what it was asked for.
    fn finish(&mut self, device: Place, head: u16) -> Result<()> {
        let Some(index) = self.alive(device) else {
            return Ok(());
        };
        let part = &mut self.machines[index].devices[device.device];
        if let (Some(driver), Kind::Disk(disk)) = (&mut part.driver, &mut part.kind) {
            let finished = disk.finish(driver, head);
            if !self.of_device(index, finished)? {
                return Ok(());
            }
        }
        self.call(Ring { device, queue: 0 })
    }

    /// A request goes on that waited, and then what came after it.
    fn let_go(&mut self, device: Place) -> Result<()> {
        let Some(index) = self.alive(device) else {
            return Ok(());
        };
        let now_ns = self.now_ns;
        let part = &mut self.machines[index].devices[device.device];
        if let (Some(driver), Kind::Disk(disk)) = (&mut part.driver, &mut part.kind) {
            let begun = disk.go_on(driver, now_ns);
            if let Some(started) = self.of_device(index, begun)? {
                self.begin(device, Taken::Request(started));
            }
        }
        self.kick(device, 0)?;
        self.call(Ring { device, queue: 0 })
    }

    /// Gives a port what the machine is to read there.
    fn give(&mut self, device: Place, bytes: &[u8]) {
        if let Some(index) = self.alive(device)
            && let Kind::Port(port) = &mut self.machines[index].devices[device.device].kind
        {
            port.give(bytes);
        }
    }

    /// A frame arrives.
    fn arrive(&mut self, index: usize, frame: &[u8]) -> Result<()> {
        let driver = self.machines[index].devices[NETWORK].driver.as_mut();
        let taken = driver.map(|driver| received(driver, frame)).transpose();
        let taken = self.of_device(index, taken)?;
        let Some(queue) = taken.flatten() else {
            self.switch.count_lost();
            return Ok(());
        };
        let device = self.place(index, NETWORK);
        self.call(Ring { device, queue })
    }

    /// Brings in what waits at a port.
    fn fill(&mut self, device: Place) -> Result<()> {
        let Some(index) = self.alive(device) else {
            return Ok(());
        };
        let part = &mut self.machines[index].devices[device.device];
        let (Some(driver), Kind::Port(port)) = (&mut part.driver, &mut part.kind) else {
            return Ok(());
        };
        let filled = port.fill(driver);
        let filled = self.of_device(index, filled)?;
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
        let Some(driver) = driver.filter(|_| running.times.frozen_ns.is_none()) else {
            return Ok(());
        };
        let (now_ns, queue, device) = (self.now_ns, ring.queue, ring.device.device);
        tracing::trace!(now_ns, machine = machine.name, device, queue, "calls");
        if driver.call(ring.queue).is_err() {
            return self.end(index);
        }
        self.heed_until_answered(index, ring.device.device)
    }

    /// Answers a machine that was interrupted by a device until it has heard that.
    fn heed_until_answered(&mut self, index: usize, device: usize) -> Result<()> {
        let mut activity = Activity::default();
        for _ in 0..MESSAGES_MAX {
            let machine = &mut self.machines[index];
            let Some(running) = &machine.running else {
                return Ok(());
            };
            let driver = machine.devices[device].driver.as_ref();
            let answers = driver.and_then(Driver::answers).expect("it was called");
            let mut fds = [
                PollFd::new(running.stream.as_fd(), PollFlags::POLLIN),
                PollFd::new(answers, PollFlags::POLLIN),
            ];
            wait(&mut fds)?;
            let (asks, answers) = (fds[0].any() == Some(true), fds[1].any() == Some(true));
            if asks {
                if self.heed(index)?.is_none() {
                    return self.end(index);
                }
            } else if answers {
                let driver = machine.devices[device].driver.as_mut();
                return match driver.expect("it was called").called() {
                    Ok(()) => Ok(()),
                    Err(_) => self.end(index),
                };
            } else {
                self.machines[index].refuse_stuck(&mut activity)?;
            }
        }
        Err(self.machines[index].misbehaves("does not answer an interrupt"))
    }
}
