//! What machines ask their devices for.

use super::{Event, Place, Point, Ring, Simulation};
use crate::calendar::Source;
use crate::device::{Kind, SEND, Started, sent};
use crate::error::Result;

/// How long it takes until a sender is told that its frame is out, after that was so.
const TOLD_SENT_NS: u64 = 1000;

/// What a device takes out of a ring.
pub(super) enum Taken {
    Frame(Vec<u8>),
    Request(Started),
    Words(Vec<u8>),
}

impl Simulation {
    /// A driver has made something available. Returns whether all of it was taken, and not the
    /// point that was asked for reached.
    pub(super) fn kick(&mut self, place: Place, queue: usize) -> Result<bool> {
        let mut sent_ns = None;
        loop {
            if self.is_at_point(place, queue) {
                self.point = None;
                return Ok(false);
            }
            match self.take(place, queue)? {
                Some(taken) => sent_ns = self.begin(place, taken).or(sent_ns),
                None => break,
            }
        }
        self.answer_later(place, queue, sent_ns);
        Ok(true)
    }

    /// Whether what a device would take next is the point that was asked for.
    fn is_at_point(&self, place: Place, queue: usize) -> bool {
        let (index, machine) = (place.machine, &self.machines[place.machine]);
        let part = &machine.devices[place.device];
        let here = match &part.kind {
            // The driver has made room for frames that come.
            Kind::Network if queue != SEND => return false,
            Kind::Network => Point::Frame {
                machine: index,
                number: machine.frames,
            },
            Kind::Disk(disk) => Point::Disk {
                machine: index,
                disk: machine.disk_number(place.device),
                position: disk.log().len(),
            },
            Kind::Port(_) => return false,
        };
        let has_more = || {
            let driver = part.driver.as_ref();
            driver.is_some_and(|driver| driver.has_more(queue))
        };
        self.point == Some(here) && has_more()
    }

    fn take(&mut self, place: Place, queue: usize) -> Result<Option<Taken>> {
        let now_ns = self.now_ns;
        let part = &mut self.machines[place.machine].devices[place.device];
        let Some(driver) = part.driver.as_mut() else {
            return Ok(None);
        };
        let taken = match &mut part.kind {
            Kind::Network => sent(driver, queue).map(|frame| frame.map(Taken::Frame)),
            Kind::Disk(disk) => disk
                .start(driver, now_ns)
                .map(|started| started.map(Taken::Request)),
            Kind::Port(port) => port.said(driver, queue).map(|said| said.map(Taken::Words)),
        };
        self.of_device(place.machine, taken)
    }

    /// Has happen what comes of something that was taken. Returns when a frame is out.
    pub(super) fn begin(&mut self, place: Place, taken: Taken) -> Option<u64> {
        let (machine, now_ns) = (place.machine, self.now_ns);
        let source = Source::Machine(machine);
        match taken {
            Taken::Frame(frame) => {
                self.remember(machine, &frame);
                self.machines[machine].frames += 1;
                let way = self.switch.send(machine, &frame, now_ns);
                let sent_ns = way.sent_ns;
                for (time_ns, to) in way.arrivals {
                    let arrival = Event::Frame {
                        from: machine,
                        sent_ns,
                        to,
                        frame: frame.clone(),
                    };
                    self.calendar.add(time_ns, source, arrival);
                }
                Some(sent_ns)
            }
            Taken::Request(started) => {
                self.remember(machine, &started.request);
                let event = Event::Done {
                    device: place,
                    head: started.head,
                };
                self.calendar.add(started.done_ns, source, event);
                None
            }
            Taken::Words(bytes) => {
                self.remember(machine, &bytes);
                self.calendar
                    .add(now_ns, source, Event::Said { machine, bytes });
                None
            }
        }
    }

    /// Has the driver be told, later, that its frames are out, or that its words were heard. A disk
    /// tells it of each request.
    fn answer_later(&mut self, place: Place, queue: usize, sent_ns: Option<u64>) {
        let source = Source::Machine(place.machine);
        let device = place;
        let call = Event::Call(Ring { device, queue });
        match &self.machines[place.machine].devices[place.device].kind {
            Kind::Network => {
                if let Some(sent_ns) = sent_ns {
                    self.calendar.add(sent_ns + TOLD_SENT_NS, source, call);
                }
            }
            Kind::Port(port) => {
                let time_ns = self.now_ns + TOLD_SENT_NS;
                // There may be room for input, and somebody may wait for room for output.
                if port.has_input() {
                    self.calendar.add(time_ns, source, Event::Fill(place));
                }
                self.calendar.add(time_ns, source, call);
            }
            Kind::Disk(_) => {}
        }
    }
}
