//! How a lazy disk answers later.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use fuser::ReplyWrite;

use crate::fuse_disk::{Disk, now_ns};
use crate::held_writes::HeldWrites;

/// A write that was carried out and is completed later.
pub(crate) struct LateWrite {
    pub(crate) reply: ReplyWrite,
    /// In bytes.
    pub(crate) length: u32,
    /// Where it is in the log, and of which recording.
    pub(crate) place: usize,
    pub(crate) recording: u64,
}

/// The writes of a lazy disk that wait for their answers.
///
/// It belongs to the threads that serve FUSE and to no other: only in their table of descriptors is
/// `/dev/fuse` what an answer takes it for.
pub(crate) struct LateAnswers {
    disk: Arc<Mutex<Disk>>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

struct Waiting {
    writes: HeldWrites<LateWrite>,
    ended: bool,
}

impl LateAnswers {
    pub(crate) fn new(disk: Arc<Mutex<Disk>>) -> Self {
        let waiting = Waiting {
            writes: HeldWrites::new(),
            ended: false,
        };
        Self {
            disk,
            waiting: Mutex::new(waiting),
            changed: Condvar::new(),
        }
    }

    /// Answers a write only when so many requests have come after it, or none for a while.
    pub(crate) fn hold(&self, write: LateWrite, requests: u8, now_ns: u64) {
        let mut waiting = self.lock();
        let first = waiting.writes.deadline_ns().is_none();
        let oldest = waiting.writes.hold(write, requests, now_ns);
        drop(waiting);
        if first {
            self.changed.notify_one();
        }
        self.answer(oldest);
    }

    /// A request has come: answers the writes that waited for it.
    pub(crate) fn request_came(&self) {
        let due = self.lock().writes.request_came();
        self.answer(due);
    }

    /// Answers the writes for which nothing came in time, until the end.
    pub(crate) fn answer_in_time(&self) {
        let mut waiting = self.lock();
        loop {
            let now_ns = if waiting.ended { u64::MAX } else { now_ns() };
            let due = waiting.writes.take_late(now_ns);
            if !due.is_empty() {
                drop(waiting);
                self.answer(due);
                waiting = self.lock();
                continue;
            }
            if waiting.ended {
                return;
            }
            waiting = match waiting.writes.deadline_ns() {
                None => self.changed.wait(waiting).expect(NO_PANIC),
                Some(deadline_ns) => {
                    let rest = Duration::from_nanos(deadline_ns.saturating_sub(now_ns));
                    self.changed.wait_timeout(waiting, rest).expect(NO_PANIC).0
                }
            };
        }
    }

    /// No request comes any more: everything is completed.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    fn answer(&self, due: impl IntoIterator<Item = LateWrite>) {
        for write in due {
            let mut disk = self.disk.lock().expect(NO_PANIC);
            if write.recording == disk.recordings {
                disk.log.complete(write.place);
            }
            drop(disk);
            // Only after it was noted: whoever waited for it and then sends a flush finds it
            // covered.
            write.reply.written(write.length);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "no holder panics";
