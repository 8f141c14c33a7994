//! What a disk does with what it is asked for.

use std::time::Duration;

use pace_rules::disk::Disk as Keeping;

use crate::{Completion, Corruption, Image};

/// Something that a disk is asked for. Offsets and lengths are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRequest {
    /// To read.
    Read {
        /// Where on the disk.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// To write.
    Write {
        /// Where on the disk.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// To have everything on stable storage that was completed.
    Flush,
    /// To forget a range, or to write zeros there.
    Discard {
        /// Where on the disk.
        offset: u64,
        /// How much.
        length: u64,
    },
}

/// What a disk does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It does it, and says so before it looks at the next.
    AtOnce,
    /// It does it at once, and says so after so many more requests, or when none has come for a
    /// few milliseconds. Of what is not a write it says so at once.
    After(u8),
    /// It does it, and says so, so much later than it would. Whether it does others meanwhile is the
    /// front end's.
    Slow(Duration),
    /// It does not do it, and says so: an I/O error (EIO).
    Fail,
}

/// How a disk behaves while it is recorded.
pub trait Behaviour: Send {
    /// What it does with a request that comes when its log has `place` entries.
    fn answer(&mut self, request: DiskRequest, place: usize) -> Answer;

    /// The same while it takes its time for nothing: what it would be slow with it does at once, and
    /// does not count it among those that it is to be slow with.
    fn answer_in_haste(&mut self, request: DiskRequest, place: usize) -> Answer {
        match self.answer(request, place) {
            Answer::Slow(_) => Answer::AtOnce,
            answer => answer,
        }
    }

    /// What becomes of the bytes of a request that it does, where they are not as they should be: those that
    /// were read, or those that get onto the disk, which holds `image`.
    fn corrupt(&mut self, _: DiskRequest, _bytes: &[u8], _image: &Image) -> Option<Vec<u8>> {
        None
    }

    /// Whether it may answer a write later: such a disk is served in another way.
    fn is_late(&self) -> bool {
        false
    }

    /// How it keeps its word: how its log is read after a power failure.
    fn keeps(&self) -> Keeping {
        Keeping::Honest
    }

    /// Another disk that goes on from here as this one does, if there can be one.
    fn forked(&self) -> Option<Box<dyn Behaviour>> {
        None
    }
}

/// It does what it is asked for, and the lies show when the power fails.
impl Behaviour for Keeping {
    fn answer(&mut self, _: DiskRequest, _: usize) -> Answer {
        Answer::AtOnce
    }

    fn keeps(&self) -> Keeping {
        *self
    }

    fn forked(&self) -> Option<Box<dyn Behaviour>> {
        Some(Box::new(*self))
    }
}

impl Behaviour for Completion {
    fn answer(&mut self, request: DiskRequest, place: usize) -> Answer {
        match (request, self.requests_to_wait(place)) {
            (DiskRequest::Write { .. }, Some(requests)) => Answer::After(requests),
            _ => Answer::AtOnce,
        }
    }

    fn is_late(&self) -> bool {
        *self != Self::AtOnce
    }

    fn forked(&self) -> Option<Box<dyn Behaviour>> {
        Some(Box::new(*self))
    }
}

impl Behaviour for Box<dyn Behaviour> {
    fn answer(&mut self, request: DiskRequest, place: usize) -> Answer {
        (**self).answer(request, place)
    }

    fn answer_in_haste(&mut self, request: DiskRequest, place: usize) -> Answer {
        (**self).answer_in_haste(request, place)
    }

    fn corrupt(&mut self, request: DiskRequest, bytes: &[u8], image: &Image) -> Option<Vec<u8>> {
        (**self).corrupt(request, bytes, image)
    }

    fn is_late(&self) -> bool {
        (**self).is_late()
    }

    fn keeps(&self) -> Keeping {
        (**self).keeps()
    }

    fn forked(&self) -> Option<Box<dyn Behaviour>> {
        (**self).forked()
    }
}

/// Says of each request whether it is one of some.
pub type Predicate = Box<dyn FnMut(DiskRequest) -> bool + Send>;

/// What is wrong with how a disk does some requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It answers them so.
    Answer(Answer),
    /// It does them with other bytes, and says nothing of that.
    Corrupt(Corruption),
}

impl From<Answer> for Fault {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

/// A disk that does some requests in one way, and does what another one does with all others.
pub struct Faulty {
    otherwise: Box<dyn Behaviour>,
    fault: Fault,
    hits: Predicate,
    /// How many more are done so.
    left: u64,
}

impl Faulty {
    /// One that fails every request of which `hits` is true.
    pub fn failing(
        otherwise: impl Behaviour + 'static,
        hits: impl FnMut(DiskRequest) -> bool + Send + 'static,
    ) -> Self {
        Self::new(Answer::Fail, u64::MAX, otherwise, Box::new(hits))
    }

    /// One that does so only the first `times` of those of which `hits` is true. Of a corruption that is
    /// asked only of requests whose bytes it changes.
    pub fn new(
        fault: impl Into<Fault>,
        times: u64,
        otherwise: impl Behaviour + 'static,
        hits: Predicate,
    ) -> Self {
        Self {
            otherwise: Box::new(otherwise),
            fault: fault.into(),
            hits,
            left: times,
        }
    }

    /// Whether a request is one of those, and not one too many.
    fn is_hit(&mut self, request: DiskRequest) -> bool {
        let is_hit = self.left > 0 && (self.hits)(request);
        self.left -= u64::from(is_hit);
        is_hit
    }
}

impl Behaviour for Faulty {
    fn answer(&mut self, request: DiskRequest, place: usize) -> Answer {
        if let Fault::Answer(answer) = self.fault
            && self.is_hit(request)
        {
            return answer;
        }
        self.otherwise.answer(request, place)
    }

    fn answer_in_haste(&mut self, request: DiskRequest, place: usize) -> Answer {
        if let Fault::Answer(answer) = self.fault
            && !matches!(answer, Answer::Slow(_))
            && self.is_hit(request)
        {
            return answer;
        }
        self.otherwise.answer_in_haste(request, place)
    }

    fn corrupt(&mut self, request: DiskRequest, bytes: &[u8], image: &Image) -> Option<Vec<u8>> {
        let Fault::Corrupt(what) = self.fault else {
            return self.otherwise.corrupt(request, bytes, image);
        };
        // What becomes of a request costs a copy of it.
        if self.left == 0 {
            return None;
        }
        let corrupted = what.of_request(request, bytes, image)?;
        self.is_hit(request).then_some(corrupted)
    }

    fn is_late(&self) -> bool {
        self.otherwise.is_late()
    }

    fn keeps(&self) -> Keeping {
        self.otherwise.keeps()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::Base;

    const WRITE: DiskRequest = DiskRequest::Write {
        offset: 0,
        length: 512,
    };

    #[test]
    fn a_disk_fails_what_it_is_to_fail_as_often_as_it_is_to() {
        let is_flush = |request| request == DiskRequest::Flush;
        let mut once = Faulty::new(Answer::Fail, 1, Keeping::DropFlush, Box::new(is_flush));
        let requests = [WRITE, DiskRequest::Flush, DiskRequest::Flush, WRITE];
        let answers = requests.map(|request| once.answer(request, 0));
        let done = Answer::AtOnce;
        assert_eq!(answers, [done, Answer::Fail, done, done]);
        assert_eq!(once.keeps(), Keeping::DropFlush);
        let mut always = Faulty::failing(Keeping::Honest, is_flush);
        let answers = requests.map(|request| always.answer(request, 0));
        assert_eq!(answers, [done, Answer::Fail, Answer::Fail, done]);
        let late = Answer::Slow(Duration::from_secs(1));
        let mut slow = Faulty::new(late, 1, Keeping::Honest, Box::new(is_flush));
        let answers = requests.map(|request| slow.answer(request, 0));
        assert_eq!(answers, [done, late, done, done]);
    }

    #[test]
    fn a_disk_in_haste_counts_what_it_fails_and_not_what_it_would_be_slow_with() {
        let disk = |answer| {
            let is_flush = |request| request == DiskRequest::Flush;
            let faulty = Faulty::new(answer, 1, Keeping::Honest, Box::new(is_flush));
            Box::new(faulty) as Box<dyn Behaviour>
        };
        let late = Answer::Slow(Duration::from_secs(1));
        for (answer, in_haste, then) in [
            (late, Answer::AtOnce, late),
            (Answer::Fail, Answer::Fail, Answer::AtOnce),
        ] {
            let mut disk = disk(answer);
            assert_eq!(disk.answer_in_haste(WRITE, 0), Answer::AtOnce);
            assert_eq!(disk.answer_in_haste(DiskRequest::Flush, 0), in_haste);
            assert_eq!(disk.answer(DiskRequest::Flush, 0), then);
        }
    }

    #[test]
    fn a_disk_corrupts_what_it_is_to_and_counts_only_what_that_changes() {
        let mut image = Image::new(Arc::new(Base::empty(1 << 20)));
        image.write(0, &[7; 512]);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let hits = move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            matches!(request, DiskRequest::Write { .. })
        };
        let zeros = Fault::Corrupt(Corruption::Zeros);
        let mut disk = Faulty::new(zeros, 1, Keeping::Honest, Box::new(hits));
        for answer in [disk.answer(WRITE, 0), disk.answer_in_haste(WRITE, 0)] {
            assert_eq!(answer, Answer::AtOnce);
        }
        let read = DiskRequest::Read {
            offset: 0,
            length: 512,
        };
        assert_eq!(disk.corrupt(WRITE, &[0; 512], &image), None);
        assert_eq!(asked.load(Ordering::Relaxed), 0, "it is so already");
        assert_eq!(disk.corrupt(read, &[7; 512], &image), None);
        let mut disk: Box<dyn Behaviour> = Box::new(disk);
        let corrupted = [0, 1].map(|_| disk.corrupt(WRITE, &[7; 512], &image));
        assert_eq!(corrupted, [Some(vec![0; 512]), None], "once");
        // One that fails requests corrupts none.
        let mut failing = Faulty::failing(disk, |_| false);
        assert_eq!(failing.corrupt(WRITE, &[7; 512], &image), None);
    }

    #[test]
    fn a_disk_that_has_nothing_left_to_corrupt_does_not_look_at_requests() {
        let image = Image::new(Arc::new(Base::empty(1 << 20)));
        let torn = Fault::Corrupt(Corruption::Torn);
        let mut disk = Faulty::new(torn, 0, Keeping::Honest, Box::new(|_| true));
        // Whoever compares it with what the image holds there panics.
        let (offset, length) = (1 << 20, 4096);
        let beyond = DiskRequest::Write { offset, length };
        assert_eq!(disk.corrupt(beyond, &[7; 4096], &image), None);
    }

    #[test]
    fn only_a_lazy_disk_answers_late_and_only_writes() {
        let mut lazy = Completion::Lazy { seed: 1 };
        let late = (0..100).filter(|place| lazy.answer(WRITE, *place) != Answer::AtOnce);
        assert!(late.count() > 50);
        let mut at_once = Completion::AtOnce;
        for place in 0..100 {
            assert_eq!(lazy.answer(DiskRequest::Flush, place), Answer::AtOnce);
            assert_eq!(at_once.answer(WRITE, place), Answer::AtOnce);
        }
        assert!(lazy.is_late() && Faulty::failing(lazy, |_| false).is_late());
        assert!(!at_once.is_late() && !Keeping::DropFlush.is_late());
    }
}
