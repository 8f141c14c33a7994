//! The devices of a machine.

mod disk;
mod network;
mod port;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

pub(crate) use disk::Started;
pub use disk::{Disk, DiskTimes, PowerCut};
pub(crate) use network::{SEND, offer as network_offer, received, sent};
pub(crate) use port::{Port, offer as port_offer};

use crate::vhost_user::{Driver, Offer, Received};

/// What a device is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A network card.
    Network,
    /// A disk.
    Disk(Box<Disk>),
    /// The way in and out.
    Port(Port),
}

impl Kind {
    /// Its number among the devices of virtio (section 5 of the specification).
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Network => 1,
            Self::Disk(_) => 2,
            Self::Port(_) => 3,
        }
    }
}

/// A device, which a kernel finds each time that it boots.
#[derive(Debug)]
pub(crate) struct Device {
    listener: UnixListener,
    offer: Offer,
    pub(crate) driver: Option<Driver>,
    pub(crate) kind: Kind,
}

impl Device {
    /// One that is found at `path`.
    pub(crate) fn new(path: &Path, offer: Offer, kind: Kind) -> io::Result<Self> {
        Ok(Self {
            listener: UnixListener::bind(path)?,
            offer,
            driver: None,
            kind,
        })
    }

    /// A device that goes on from here as this one does, and is found at `path`. It has no driver yet.
    pub(crate) fn forked(&self, path: &Path) -> io::Result<Self> {
        let kind = match &self.kind {
            Kind::Network => Kind::Network,
            Kind::Port(port) => Kind::Port(port.clone()),
            Kind::Disk(disk) => {
                let disk = disk.forked();
                let disk = disk.ok_or_else(|| io::Error::other("its disk cannot be forked"))?;
                Kind::Disk(Box::new(disk))
            }
        };
        Self::new(path, self.offer.clone(), kind)
    }

    /// The driver that this device has in a kernel which was forked connects itself to it.
    pub(crate) fn take_driver_of(&mut self, other: &Self) -> io::Result<()> {
        let (stream, _): (UnixStream, _) = self.listener.accept()?;
        let driver = other.driver.as_ref();
        let driver = driver.ok_or_else(|| io::Error::other("a driver that nobody knows"))?;
        self.driver = Some(driver.forked(stream)?);
        Ok(())
    }

    /// How many rings it has.
    pub(crate) fn queues(&self) -> usize {
        self.offer.queues
    }

    /// Where something happens first: a driver comes, or has something to say.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        match &self.driver {
            Some(driver) => driver.messages(),
            None => self.listener.as_fd(),
        }
    }

    /// Something is to be seen there. Returns the driver's message, if it has come before.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Received>> {
        if let Some(driver) = &mut self.driver {
            return driver.receive().map(Some);
        }
        let (stream, _): (UnixStream, _) = self.listener.accept()?;
        self.driver = Some(Driver::new(stream, &self.offer));
        Ok(None)
    }

    /// Answers a message: the kernel goes on.
    pub(crate) fn answer(&mut self, message: Received) -> io::Result<()> {
        let driver = self.driver.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        driver.answer(message, &self.offer)
    }

    /// The machine is off: nobody drives it any more.
    pub(crate) fn switch_off(&mut self) {
        self.driver = None;
        match &mut self.kind {
            Kind::Network => {}
            Kind::Disk(disk) => disk.switch_off(),
            Kind::Port(port) => *port = Port::default(),
        }
    }
}
