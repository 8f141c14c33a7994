//! Simulated machines: a User-Mode Linux kernel for each, with disks, a network card and a clock of
//! its own, all on one calendar.
//!
//! The kernel is started with `time-travel=ext:`: it asks this crate for every moment that passes.
//! A [`Simulation`] is calendar, switch and disks in one thread, so a run is the same each time, to
//! the byte. A machine that is switched off loses what a machine loses: its memory, with what its
//! kernel had not written, and of its disks what [`Disk::power_cut`] says. Its peers hear nothing.
//!
//! What runs in a machine this crate does not know: its init is this program, started with the
//! words of [`MachineSpec::init`], and a stream of bytes goes to and from it through a
//! [port](Simulation::speak).

#![forbid(unsafe_code)]

mod calendar;
mod carried;
mod chance;
mod clock;
mod device;
mod error;
mod limit;
mod machine;
mod pcap;
mod process;
mod sent;
mod simulation;
mod switch;
mod time_travel;
mod vhost_user;
mod words;

pub use carried::{Carried, OfPorts, Port, Ports};
pub use chance::Chance;
pub use clock::{Clock, Clocks};
pub use device::{Disk, DiskTimes, PowerCut};
pub use error::{Error, Result};
pub use limit::{Amount, Limit, Offered, Until};
pub use machine::{Chaos, End, MachineSpec};
pub use pcap::{SentFrame, pcap};
pub use sent::Sent;
pub use simulation::{EPOCH_NS, Happening, Point, Settings, Simulation};
pub use switch::{BITS_PER_SECOND, HardwareAddress, LATE_TIMES, Limited, Link, Passed, Switch};
pub use words::{Network, Spread};
