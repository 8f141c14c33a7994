//! What the log of a run says of a crash: which writes were lost and kept, while which operation
//! they were written, and what would have kept them.

use std::collections::BTreeSet;

use brief::counted;
use pace_rules::disk::{Disk, Log, Relaxation, Request, Write};
use workloads::{Op, Workload};

use crate::result::{LogEntry, LostBytes, RunLog, StateFindings};

/// So many writes are listed one by one.
const LISTED_MAX: usize = 12;

/// The log of a run, and the disk that kept what it says.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    log: &'a RunLog,
    disk: Disk,
    /// Of what was kept: its places are counted from the first one there.
    rules: Log,
}

impl<'a> Evidence<'a> {
    /// What `disk` made of a log, as [`RunLog::check`] wants it.
    ///
    /// # Panics
    /// If it is not.
    pub fn new(log: &'a RunLog, disk: Disk) -> Self {
        let mut requests = vec![Request::Nothing; log.places().len()];
        let base = log.places().start;
        for entry in &log.entries {
            let place = entry.place as usize - base;
            requests[place] = match entry.kind {
                'W' | 'U' | 'D' => Request::Write(Write {
                    fua: entry.kind == 'U',
                    offset: entry.offset,
                    length: entry.length,
                    completed: entry
                        .completed
                        .map_or(place + 1, |completed| completed as usize - base),
                    priority: 0,
                }),
                'F' => Request::Flush,
                _ => Request::Nothing,
            };
        }
        Self {
            log,
            disk,
            rules: Log::new(&requests, 0, disk),
        }
    }

    /// What the disk was asked while an operation was done, in the order of the log.
    pub(crate) fn asked_by(&self, operation: u32) -> String {
        let asked = self
            .log
            .entries
            .iter()
            .filter(|entry| entry.operation == Some(operation));
        runs_of(asked)
    }

    /// What became of the writes that the disk need not have kept.
    pub(crate) fn fate_text(&self, state: &StateFindings) -> String {
        let mut text = String::new();
        if let Some(never) = self.never_happened(state) {
            text += &format!(
                "  lost      {}, though it had completed it\n",
                self.write_words(never)
            );
        }
        for lost in state.lost.iter().take(LISTED_MAX) {
            text += &format!("  lost      {}\n", self.lost_words(lost));
        }
        text += &more_words(state.lost.len(), "lost");
        let lost: BTreeSet<u32> = state.lost.iter().map(|lost| lost.place).collect();
        let kept = self
            .pending(state)
            .into_iter()
            .filter(|entry| !lost.contains(&entry.place));
        // A prefix is told by what it is.
        let kept: Vec<_> = kept
            .filter(|_| state.state.relaxation != Relaxation::Prefix)
            .collect();
        for entry in kept.iter().take(LISTED_MAX) {
            text += &format!("  kept      {}\n", self.write_words(entry));
        }
        text + &more_words(kept.len(), "kept")
    }

    /// What would have prevented it, as far as the state shows that.
    pub fn ways_out(&self, state: &StateFindings, workload: &Workload) -> Vec<String> {
        if state.is_by_recovery() {
            return vec![way_for_recovery(state)];
        }
        let operations: Vec<&Op> = workload.operations().collect();
        let mut ways: Vec<String> = Vec::new();
        // What a rule is about, the log does not say.
        let promised = state
            .findings
            .iter()
            .filter(|finding| finding.rule.is_none());
        for finding in promised {
            let way = match finding
                .promised_by
                .and_then(|number| Some((number, *operations.get(number)?)))
            {
                Some((number, op)) => self.way_for_operation(state, number as u32, op),
                None => self.way_for_order(state),
            };
            ways.extend(Some(way).filter(|way| !ways.contains(way)));
        }
        ways
    }

    /// What would have made durable what an operation promised.
    fn way_for_operation(&self, state: &StateFindings, number: u32, op: &Op) -> String {
        let op = format!("operation {number}, {op},");
        let end = self
            .log
            .entries
            .iter()
            .find(|entry| entry.kind == 'E' && entry.operation == Some(number));
        let (Some(end), Some(first)) = (end, state.lost.iter().map(|lost| lost.place).min()) else {
            return self.way_without_loss(state, &op);
        };
        let later = state
            .lost
            .iter()
            .filter(|lost| lost.place > end.place)
            .count();
        let Some(last) = state
            .lost
            .iter()
            .map(|lost| lost.place)
            .filter(|place| *place < end.place)
            .max()
        else {
            return format!(
                "not resting what {op} had promised on write {first}, which came after it had returned"
            );
        };
        let way = match self.flush_between(last, end.place) {
            Some(flush) => self.way_for_flush(flush, last),
            None if self.is_fua(last) => {
                format!(
                    "a disk that keeps its word: write {last} had FUA, and was lost (--disk {})",
                    self.disk
                )
            }
            None => format!(
                "a flush after write {last}, or FUA with it, before {op} returned: there was none"
            ),
        };
        if later == 0 {
            return way;
        }
        // Of what was lost later too, the state does not show whether it matters.
        format!(
            "perhaps {way}; {later} of the lost writes came after that: minimize tells which matter"
        )
    }

    /// A flush came after a write, which was lost all the same.
    fn way_for_flush(&self, flush: u32, write: u32) -> String {
        match self.disk {
            Disk::Honest => format!(
                "waiting until write {write} was completed before sending the flush at {flush}"
            ),
            _ => format!(
                "a disk that keeps its word: the flush at {flush} came after write {write} (--disk {})",
                self.disk
            ),
        }
    }

    fn way_without_loss(&self, state: &StateFindings, op: &str) -> String {
        match self.never_happened(state) {
            Some(never) => format!(
                "a disk that keeps write {} (--disk {})",
                never.place, self.disk
            ),
            None => format!(
                "writing what it promised before {op} returned: the disk kept all that was written"
            ),
        }
    }

    /// What would have kept the file system whole.
    fn way_for_order(&self, state: &StateFindings) -> String {
        let torn = match state.state.relaxation {
            Relaxation::Torn { place, .. } => Some(place as u32),
            _ => None,
        };
        if let Some(torn) = torn.filter(|_| state.lost.len() == 1) {
            return noticing(torn);
        }
        let Some(first) = state.lost.iter().map(|lost| lost.place).min() else {
            return self.way_for_nothing_lost(state);
        };
        let kept_later = self.kept_after(first, state);
        // The first flush that lies between is the one that was not heeded.
        if let Some(flush) = kept_later
            .last()
            .and_then(|last| self.flush_between(first, *last))
        {
            return self.way_for_flush(flush, first);
        }
        match (kept_later.first(), torn) {
            (Some(kept), _) => {
                let fate = if torn == Some(first) { "torn" } else { "lost" };
                format!(
                    "a flush between write {first}, which was {fate}, and write {kept}, which came later and was kept"
                )
            }
            (None, Some(torn)) => noticing(torn) + " while others are lost",
            (None, None) => format!(
                "recovering from a crash before write {first}: nothing that came later was kept"
            ),
        }
    }

    fn way_for_nothing_lost(&self, state: &StateFindings) -> String {
        match self.never_happened(state) {
            Some(never) => format!(
                "a disk that keeps write {} (--disk {})",
                never.place, self.disk
            ),
            None => {
                "recovering from what was written so far: the disk kept all of it, in order".into()
            }
        }
    }

    /// The writes of a state that came after one of them, and were kept.
    fn kept_after(&self, first: u32, state: &StateFindings) -> Vec<u32> {
        let lost: BTreeSet<u32> = state.lost.iter().map(|lost| lost.place).collect();
        let position = state.state.position as u32;
        let writes = self
            .log
            .entries
            .iter()
            .filter(|entry| "WUD".contains(entry.kind));
        let places = writes.map(|entry| entry.place);
        places
            .filter(|place| (first + 1..position).contains(place) && !lost.contains(place))
            .collect()
    }

    /// The first flush after one place and before another.
    fn flush_between(&self, place: u32, end: u32) -> Option<u32> {
        let between = self
            .log
            .entries
            .iter()
            .filter(|entry| entry.place > place && entry.place < end);
        between
            .filter(|entry| entry.kind == 'F')
            .map(|entry| entry.place)
            .next()
    }

    fn is_fua(&self, place: u32) -> bool {
        self.entry(place).is_some_and(|entry| entry.kind == 'U')
    }

    fn entry(&self, place: u32) -> Option<&LogEntry> {
        self.log.entries.iter().find(|entry| entry.place == place)
    }

    /// The write that `lose-write:N` took away before a crash, if all that came before it is known.
    pub fn never_happened(&self, state: &StateFindings) -> Option<&LogEntry> {
        let Disk::LoseWrite(number) = self.disk else {
            return None;
        };
        let writes = self
            .log
            .entries
            .iter()
            .filter(|entry| "WUD".contains(entry.kind));
        writes
            .filter(|_| self.log.left_out == 0)
            .nth(number as usize - 1)
            .filter(|never| (never.place as usize) < state.state.position)
    }

    /// The writes before the crash that no flush or FUA covered; none if that is not known of all.
    fn pending(&self, state: &StateFindings) -> Vec<&LogEntry> {
        let base = self.log.places().start;
        let position = state
            .state
            .position
            .saturating_sub(base)
            .min(self.rules.len());
        let pending = self.rules.pending(position).into_iter();
        let pending: Vec<_> = pending
            .filter_map(|place| self.entry((base + place) as u32))
            .collect();
        if pending.len() == state.pending as usize {
            pending
        } else {
            Vec::new()
        }
    }

    fn lost_words(&self, lost: &LostBytes) -> String {
        let bytes = format!("{} at {}", counted(lost.length, "byte"), lost.offset);
        match self.entry(lost.place) {
            Some(entry) if entry.length != lost.length => {
                format!("{bytes}, of {}", self.write_words(entry))
            }
            Some(entry) => self.write_words(entry),
            None => format!("write {}, {bytes}", lost.place),
        }
    }

    fn write_words(&self, entry: &LogEntry) -> String {
        let what = if entry.kind == 'D' {
            "discard"
        } else {
            "write"
        };
        let fua = if entry.kind == 'U' { " with FUA" } else { "" };
        let during = entry
            .operation
            .map(|number| format!(", during operation {number}"))
            .unwrap_or_default();
        let holds = self
            .log
            .holds
            .get(&entry.place)
            .map(|name| format!(": {name}"))
            .unwrap_or_default();
        format!(
            "{what} {}{fua}, {} at {}{during}{holds}",
            entry.place,
            counted(entry.length, "byte"),
            entry.offset
        )
    }
}

/// What a disk was asked, in order, what is alike together.
pub(crate) fn runs_of<'a>(asked: impl Iterator<Item = &'a LogEntry>) -> String {
    let mut runs: Vec<(char, usize)> = Vec::new();
    for kind in asked
        .map(|entry| entry.kind)
        .filter(|kind| "WUDF".contains(*kind))
    {
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    runs.iter()
        .map(|(kind, count)| run_words(*kind, *count))
        .collect::<Vec<_>>()
        .join(", ")
}

fn run_words(kind: char, count: usize) -> String {
    let (what, fua) = match kind {
        'W' => ("write", ""),
        'U' => ("write", " with FUA"),
        'D' => ("discard", ""),
        _ => ("flush", ""),
    };
    format!("{}{fua}", counted(count, what))
}

fn more_words(count: usize, what: &str) -> String {
    let more = count.saturating_sub(LISTED_MAX);
    if more == 0 {
        String::new()
    } else {
        format!("  {what}      {more} more\n")
    }
}

/// What would have kept a recovery from breaking what it does not break when it is not interrupted.
fn way_for_recovery(state: &StateFindings) -> String {
    let last = state.again.last();
    if last.is_none_or(|again| again.lost.is_empty()) {
        return "a recovery that can begin anew after each of its writes: the disk kept all that it was sent, in order"
            .into();
    }
    "a recovery that sends a flush before it writes what makes it forget what it recovers from, such as that the \
     journal is empty"
        .into()
}

fn noticing(torn: u32) -> String {
    format!("noticing that write {torn} is torn, as by a checksum, or not depending on it")
}

#[cfg(test)]
mod tests {
    use checker::{Finding, Promise};
    use pace_rules::disk::State;

    use super::*;

    const WORKLOAD: &str = "creat foo; fsync foo; creat bar";

    /// A log with an entry for each letter; operation 1 lasts from `B` to `E`.
    fn log(shape: &str) -> RunLog {
        let mut under_way = None;
        let mut entry = |(place, kind): (usize, char)| {
            let operation = if kind == 'B' { Some(1) } else { under_way };
            under_way = if kind == 'E' { None } else { operation };
            LogEntry {
                place: place as u32,
                kind,
                offset: place as u64 * 512,
                length: 512,
                operation,
                completed: None,
            }
        };
        RunLog {
            entries: shape.chars().enumerate().map(&mut entry).collect(),
            ..RunLog::default()
        }
    }

    /// The way out of a crash at the end of a log that lost the writes at these places.
    fn way(shape: &str, disk: Disk, lost: &[usize], promised_by: Option<usize>) -> String {
        let relaxation = if lost.is_empty() {
            Relaxation::Prefix
        } else {
            Relaxation::Lost(lost.to_vec())
        };
        way_of(shape, disk, lost, relaxation, promised_by)
    }

    fn way_of(
        shape: &str,
        disk: Disk,
        lost: &[usize],
        relaxation: Relaxation,
        promised_by: Option<usize>,
    ) -> String {
        let state = crash(shape.len(), lost, relaxation, promised_by);
        way_out(shape, disk, &state)
    }

    /// The way out of a crash.
    fn way_out(shape: &str, disk: Disk, state: &StateFindings) -> String {
        let log = log(shape);
        let evidence = Evidence::new(&log, disk);
        let workload = workloads::parse(WORKLOAD, "test").expect("one").remove(0);
        let ways = evidence.ways_out(state, &workload);
        assert_eq!(ways.len(), 1);
        ways[0].clone()
    }

    /// A crash at a position that lost the writes at these places.
    fn crash(
        position: usize,
        lost: &[usize],
        relaxation: Relaxation,
        promised_by: Option<usize>,
    ) -> StateFindings {
        let finding = Finding {
            promised_by,
            ..Finding::new(Promise::FsyncData, "foo", "it is gone")
        };
        let bytes = |place: &usize| LostBytes {
            place: *place as u32,
            offset: 0,
            length: 512,
        };
        StateFindings {
            operations_done: 2,
            under_way: false,
            state: State {
                position,
                relaxation,
            },
            pending: 0,
            lost: lost.iter().map(bytes).collect(),
            place: None,
            again: Vec::new(),
            findings: vec![finding],
            more: 0,
        }
    }

    #[test]
    fn a_flush_would_have_kept_what_an_operation_promised_only_if_there_was_none() {
        let operation = Some(1);
        let none = way("BWWE", Disk::Honest, &[1], operation);
        assert!(
            none.starts_with(
                "a flush after write 1, or FUA with it, before operation 1, fsync foo,"
            ),
            "{none}"
        );
        let both = way("BWWE", Disk::Honest, &[1, 2], operation);
        assert!(both.starts_with("a flush after write 2,"), "{both}");
        let lie = way("BWFE", Disk::DropFlush, &[1], operation);
        assert!(
            lie.contains("keeps its word: the flush at 2 came after write 1 (--disk drop-flush)"),
            "{lie}"
        );
        let fua = way("BUE", Disk::DropFua, &[1], operation);
        assert!(
            fua.contains("write 1 had FUA, and was lost (--disk drop-fua)"),
            "{fua}"
        );
        let early = way("BWFE", Disk::Honest, &[1], operation);
        assert!(
            early.starts_with("waiting until write 1 was completed before sending the flush at 2"),
            "{early}"
        );
    }

    #[test]
    fn what_was_lost_later_is_not_what_a_flush_before_would_have_kept() {
        let later = way("BWFEW", Disk::Honest, &[4], Some(1));
        assert!(
            later.starts_with("not resting what operation 1, fsync foo, had promised on write 4"),
            "{later}"
        );
        let mixed = way("BWEW", Disk::Honest, &[1, 3], Some(1));
        assert!(
            mixed.starts_with("perhaps a flush after write 1,") && mixed.contains("1 of the lost"),
            "{mixed}"
        );
    }

    #[test]
    fn where_nothing_was_lost_no_flush_helps() {
        let kept = way("BWFE", Disk::Honest, &[], Some(1));
        assert!(
            kept.starts_with("writing what it promised before operation 1, fsync foo, returned"),
            "{kept}"
        );
        let never = way("BWFE", Disk::LoseWrite(1), &[], Some(1));
        assert_eq!(never, "a disk that keeps write 1 (--disk lose-write:1)");
    }

    #[test]
    fn a_write_that_never_happened_is_not_blamed_for_a_crash_before_it() {
        let (shape, disk) = ("BWWE", Disk::LoseWrite(2));
        let log = log(shape);
        for (position, is_before) in [(2, true), (3, false)] {
            for promised_by in [None, Some(1)] {
                let state = crash(position, &[], Relaxation::Prefix, promised_by);
                let way = way_out(shape, disk, &state);
                let blamed = way == "a disk that keeps write 2 (--disk lose-write:2)";
                assert_eq!(blamed, !is_before, "{position}: {way}");
                let fate = Evidence::new(&log, disk).fate_text(&state);
                assert_eq!(fate.contains("lost"), !is_before, "{position}: {fate}");
            }
        }
    }

    #[test]
    fn a_torn_write_is_to_be_noticed_unless_an_order_was_missing() {
        let way = |shape: &str, lost: &[usize], torn: usize| {
            let relaxation = Relaxation::Torn {
                lost: lost.to_vec(),
                place: torn,
                from: 0,
                to: 256,
            };
            way_of(
                shape,
                Disk::Honest,
                &[lost, &[torn]].concat(),
                relaxation,
                None,
            )
        };
        assert!(way("WWW", &[], 1).starts_with("noticing that write 1 is torn"));
        assert!(way("WWW", &[1], 2).ends_with("not depending on it while others are lost"));
        assert!(
            way("WWW", &[0], 1).starts_with("a flush between write 0, which was lost, and write 2")
        );
        assert!(
            way("WWW", &[1], 0).starts_with("a flush between write 0, which was torn, and write 2")
        );
    }

    #[test]
    fn an_order_is_missing_only_where_something_later_was_kept() {
        let order = way("WWW", Disk::Honest, &[0], None);
        assert!(
            order.starts_with("a flush between write 0, which was lost, and write 1"),
            "{order}"
        );
        let lie = way("WWFW", Disk::DropFlush, &[0], None);
        assert!(lie.contains("the flush at 2 came after write 0"), "{lie}");
        let suffix = way("WWW", Disk::Honest, &[1, 2], None);
        assert!(
            suffix.starts_with("recovering from a crash before write 1"),
            "{suffix}"
        );
    }

    #[test]
    fn what_was_asked_is_counted_in_its_order() {
        let log = log("BWWFUE");
        assert_eq!(
            Evidence::new(&log, Disk::Honest).asked_by(1),
            "2 writes, 1 flush, 1 write with FUA"
        );
    }
}
