//! A second machine of one that runs: its kernel forks itself, and connects itself again to everything
//! that it was connected to.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{CONNECT_WITHIN, Machine, Running, file};
use crate::device::Device;
use crate::error::{Context, Result};
use crate::process::Process;
use crate::time_travel::{Message, Operation};

/// How often it is looked whether a fork gets anywhere. Looks are counted, so that the time in which we
/// were stopped is not.
const LOOK_AT_FORKS_EVERY: Duration = Duration::from_millis(200);

impl Machine {
    /// Another machine that goes on from here as this one does. Its kernel, if it runs, waits. What a
    /// kernel finds at its boot is in `directory`, and what kernels say goes on in `consoles`.
    pub(crate) fn forked(&mut self, directory: &Path, consoles: &Path) -> Result<Self> {
        let name = self.name.clone();
        let forking = || format!("fork the machine {name}");
        let console = consoles.join(file(&name, "console"));
        if self.console.exists() {
            fs::copy(&self.console, &console).doing(forking)?;
        }
        let devices = self.forked_devices(directory).doing(forking)?;
        let calendar = UnixListener::bind(directory.join(file(&name, "calendar")));
        let calendar = calendar.doing(forking)?;
        calendar.set_nonblocking(true).doing(forking)?;
        let mut other = Self {
            name: self.name.clone(),
            memory_mib: self.memory_mib,
            room: self.room.clone(),
            clock: self.clock,
            chaos: self.chaos,
            init: self.init.clone(),
            calendar,
            devices,
            port: self.port,
            running: None,
            life: self.life,
            frames: self.frames,
            history: self.history.clone(),
            console,
        };
        if self.running.is_some() {
            let process = self.ask_to_fork()?;
            other.running = Some(self.forked_kernel(process, &other.console, directory)?);
            self.reconnect(&mut other)?;
        }
        Ok(other)
    }

    fn forked_devices(&mut self, directory: &Path) -> io::Result<Vec<Device>> {
        let devices = self.devices.iter().enumerate();
        let forked = devices.map(|(index, device)| {
            let path = directory.join(file(&self.name, &self.device_name(index)));
            device.forked(&path)
        });
        forked.collect()
    }

    /// Has the kernel make another one. Returns the process of that.
    fn ask_to_fork(&mut self) -> Result<Process> {
        let name = self.name.clone();
        let asking = || format!("have the kernel of {name} fork itself");
        self.tell(&[Message::new(Operation::Fork, 0)])
            .doing(asking)?;
        let running = self.running.as_mut().expect("it runs");
        let answer = Message::read(&mut running.stream).doing(asking)?;
        let refused = match answer.time_ns.cast_signed() {
            _ if answer.operation != Operation::Ack => "does not answer".into(),
            // It does not know that word.
            0 => "cannot be forked: build one that can with scripts/build-uml.sh".into(),
            error @ ..0 => {
                let error = io::Error::from_raw_os_error(error.unsigned_abs() as i32);
                format!("is not forked: {error} (a sweep goes without forks with --no-fork)")
            }
            process => return Ok(Process::of_fork(process)),
        };
        Err(self.misbehaves(refused))
    }

    /// Waits for the new kernel, which comes to where this one found its calendar.
    fn forked_kernel(&self, process: Process, console: &Path, directory: &Path) -> Result<Running> {
        let running = self.running.as_ref().expect("it was forked");
        match self.fork_connected(&process, console, directory) {
            Ok(stream) => {
                tracing::debug!(machine = self.name, %process, "forked");
                Ok(running.of_fork(process, stream))
            }
            Err(error) => {
                process.kill();
                Err(error)
            }
        }
    }

    fn fork_connected(
        &self,
        process: &Process,
        console: &Path,
        directory: &Path,
    ) -> Result<UnixStream> {
        let forking = || format!("speak with the fork of the kernel of {}", self.name);
        let end = process.end().doing(forking)?;
        if self.wait_for(&[self.calendar.as_fd(), end.as_fd()])? == 1 {
            return Err(self.misbehaves(
                "has a fork that ended at once: somebody killed it, or the host has no memory for it (a sweep goes \
                 without forks with --no-fork)",
            ));
        }
        let (mut stream, _) = self.calendar.accept().doing(forking)?;
        stream.set_nonblocking(false).doing(forking)?;
        let hello = Message::read(&mut stream).doing(forking)?;
        let console = File::options().create(true).append(true).open(console);
        let (console, directory) = (console.doing(forking)?, File::open(directory));
        hello
            .answer_forked(&stream, &console, &directory.doing(forking)?)
            .doing(forking)?;
        Ok(stream)
    }

    /// Has the new kernel's drivers find the devices of the other machine, until it says that it is
    /// ready.
    fn reconnect(&self, other: &mut Self) -> Result<()> {
        let mut stream = self.fork_stream(other)?;
        loop {
            let mut fds = vec![stream.as_fd()];
            fds.extend(other.devices.iter().map(Device::events));
            let ready = self.wait_for(&fds)?;
            let Some(index) = ready.checked_sub(1) else {
                let message = Message::read(&mut stream);
                let message = message.map_err(|_| other.misbehaves("is not there after a fork"))?;
                return match message.operation {
                    Operation::Fork => Ok(()),
                    _ => Err(other.misbehaves("does not get ready after a fork")),
                };
            };
            let device = &mut other.devices[index];
            if let Err(error) = reconnect_one(device, &self.devices[index]) {
                return Err(other.misbehaves(format!("is not connected after a fork: {error}")));
            }
        }
    }

    fn fork_stream(&self, other: &Self) -> Result<UnixStream> {
        let running = other.running.as_ref().expect("it was forked");
        let stream = running.stream.try_clone();
        stream.doing(|| format!("speak with the fork of the kernel of {}", self.name))
    }

    /// Waits for one of these, and returns its index: the first that has something.
    fn wait_for(&self, fds: &[BorrowedFd<'_>]) -> Result<usize> {
        let mut looks = 0;
        let patience = PollTimeout::try_from(LOOK_AT_FORKS_EVERY).expect("it is short");
        let mut fds: Vec<_> = fds
            .iter()
            .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
            .collect();
        while LOOK_AT_FORKS_EVERY * looks < CONNECT_WITHIN {
            looks += 1;
            match poll(&mut fds, patience) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error).doing(|| "wait for a fork".into()),
            }
            if let Some(ready) = fds.iter().position(|fd| fd.any() == Some(true)) {
                return Ok(ready);
            }
        }
        Err(self.misbehaves("does not come to an end of a fork"))
    }
}

/// A driver comes, or says where its memory is.
fn reconnect_one(device: &mut Device, of: &Device) -> io::Result<()> {
    if device.driver.is_none() {
        return device.take_driver_of(of);
    }
    match device.receive()? {
        Some(message) => device.answer(message),
        None => Ok(()),
    }
}
